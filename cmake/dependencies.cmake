# Dependencies of the library.  Everything missing is reported in one message, with the names of the
# Debian packages.
#
# Sets KVSHIFT_INCLUDE_DIRS and KVSHIFT_LIBRARIES (full paths), and for OpenMP
# what find_package(OpenMP) sets.

set(missing_parts)
set(missing_packages)
macro(kvshift_missing part package)
    list(APPEND missing_parts "${part}")
    list(APPEND missing_packages ${package})
endmacro()

if(KVSHIFT_STATIC)
    if(KVSHIFT_MPI)
        message(FATAL_ERROR "KVSHIFT_STATIC needs -DKVSHIFT_MPI=OFF: MPI is loaded as a shared library")
    endif()
    set(CMAKE_FIND_LIBRARY_SUFFIXES .a)
endif()

# ---- libraries ----------------------------------------------------------------------------------

if(KVSHIFT_OPENMP)
    find_package(OpenMP QUIET COMPONENTS C)
endif()
if(NOT KVSHIFT_OPENMP)
    set(OpenMP_C_FLAGS)
    set(OpenMP_C_SPEC_DATE none)
    set(OpenMP_C_LIBRARIES)
elseif(NOT OpenMP_C_FOUND)
    if(CMAKE_C_COMPILER_ID MATCHES Clang)
        kvshift_missing("OpenMP" libomp-dev)
    else()
        kvshift_missing("OpenMP" gcc)
    endif()
endif()

# Libraries with a .pc file: module, minimum version, name in messages, Debian package.
set(KVSHIFT_MODULES)
set(module_include_dirs)
set(module_libraries)
macro(kvshift_module module version label package)
    pkg_check_modules(${label} QUIET ${module}>=${version})
    if(${label}_FOUND)
        list(APPEND KVSHIFT_MODULES ${module})
        list(APPEND module_include_dirs ${${label}_INCLUDE_DIRS})
        list(APPEND module_libraries ${${label}_LINK_LIBRARIES})
    else()
        kvshift_missing("${label} ${version} or newer" ${package})
    endif()
endmacro()

find_package(PkgConfig QUIET)
if(PkgConfig_FOUND)
    kvshift_module(jansson 2.11 JANSSON libjansson-dev)
    kvshift_module(libxxhash 0.8 XXHASH libxxhash-dev)
    kvshift_module(zlib 1.2.11 ZLIB zlib1g-dev)
    kvshift_module(libzstd 1.4 ZSTD libzstd-dev)
    kvshift_module(libpcre2-8 10.40 PCRE2 libpcre2-dev)
    kvshift_module(libutf8proc 2.5 UTF8PROC libutf8proc-dev)
else()
    kvshift_missing("pkg-config" pkg-config)
endif()

find_path(KVSHIFT_RANDOM123_INCLUDE_DIR NAMES Random123/philox.h)
mark_as_advanced(KVSHIFT_RANDOM123_INCLUDE_DIR)
if(NOT KVSHIFT_RANDOM123_INCLUDE_DIR)
    kvshift_missing("Random123" librandom123-dev)
endif()

if(missing_parts)
    list(JOIN missing_parts ", " parts)
    list(JOIN missing_packages " " packages)
    message(FATAL_ERROR "missing: ${parts}\nOn Debian: apt-get install ${packages}\n"
            "or run script/setup, which installs all that is needed.")
endif()

set(KVSHIFT_INCLUDE_DIRS ${module_include_dirs} ${KVSHIFT_RANDOM123_INCLUDE_DIR})
set(KVSHIFT_LIBRARIES ${module_libraries} ${OpenMP_C_LIBRARIES} ${CMAKE_DL_LIBS} m)

# ---- MPI: optional, reported in the summary ------------------------------------------------------

set(KVSHIFT_MPI_FOUND OFF)
if(KVSHIFT_MPI)
    find_package(MPI QUIET COMPONENTS C)
    set(KVSHIFT_MPI_FOUND ${MPI_C_FOUND})
endif()

# ---- HTTP for the command 'serve': optional, reported in the summary -----------------------------

if(KVSHIFT_HTTP)
    pkg_check_modules(MICROHTTPD QUIET libmicrohttpd>=0.9.71)
endif()
find_package(Threads REQUIRED)

# ---- tests only: optional, reported in the summary -----------------------------------------------

if(KVSHIFT_TESTS OR KVSHIFT_FUZZ)
    pkg_check_modules(CMOCKA QUIET cmocka)
endif()
