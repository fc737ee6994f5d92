# What the library stands on.  Everything missing is collected and reported at once, with the Debian
# packages that bring it.
#
# Sets KVSHIFT_INCLUDE_DIRS and KVSHIFT_LIBRARIES (full paths), KVSHIFT_BLAS_LABEL, and for OpenMP
# what find_package(OpenMP) sets.

set(missing_parts)
set(missing_packages)
macro(kvshift_missing part package)
    list(APPEND missing_parts "${part}")
    list(APPEND missing_packages ${package})
endmacro()

# ---- CBLAS: BLIS, serial if there is a choice, since the library brings its own threads ----------

# Debian keeps the serial build in <libdir>/blis-serial, with headers to match.
macro(kvshift_find_blis)
    find_path(KVSHIFT_BLIS_INCLUDE_DIR NAMES cblas.h PATH_SUFFIXES blis-serial blis)
    find_library(KVSHIFT_BLIS_LIBRARY NAMES blis PATH_SUFFIXES blis-serial)
    mark_as_advanced(KVSHIFT_BLIS_INCLUDE_DIR KVSHIFT_BLIS_LIBRARY)
    if(KVSHIFT_BLIS_INCLUDE_DIR AND KVSHIFT_BLIS_LIBRARY)
        set(blas_include_dir ${KVSHIFT_BLIS_INCLUDE_DIR})
        set(blas_libraries ${KVSHIFT_BLIS_LIBRARY})
        kvshift_blis_label(blas_label)
    endif()
endmacro()

# BLIS has no version in its headers; ask the library.
function(kvshift_blis_label out)
    if(NOT DEFINED KVSHIFT_BLIS_VERSION AND NOT CMAKE_CROSSCOMPILING)
        set(source ${PROJECT_BINARY_DIR}/generated/blis_version.c)
        file(WRITE ${source} "#include <stdio.h>\nconst char *bli_info_get_version_str(void);\n"
             "int main(void) { return fputs(bli_info_get_version_str(), stdout) < 0; }\n")
        try_run(status compiled ${PROJECT_BINARY_DIR}/generated ${source}
                LINK_LIBRARIES ${KVSHIFT_BLIS_LIBRARY} RUN_OUTPUT_VARIABLE version)
        if(compiled AND status EQUAL 0)
            set(KVSHIFT_BLIS_VERSION "${version}" CACHE INTERNAL "Version of BLIS")
        endif()
    endif()
    string(STRIP "BLIS ${KVSHIFT_BLIS_VERSION}" label)
    set(${out} ${label} PARENT_SCOPE)
endfunction()

macro(kvshift_find_any_cblas)
    find_package(BLAS QUIET)
    find_path(KVSHIFT_CBLAS_INCLUDE_DIR NAMES cblas.h PATH_SUFFIXES openblas)
    mark_as_advanced(KVSHIFT_CBLAS_INCLUDE_DIR)
    if(BLAS_FOUND AND KVSHIFT_CBLAS_INCLUDE_DIR)
        include(CheckSymbolExists)
        set(CMAKE_REQUIRED_INCLUDES ${KVSHIFT_CBLAS_INCLUDE_DIR})
        set(CMAKE_REQUIRED_LIBRARIES ${BLAS_LIBRARIES})
        check_symbol_exists(cblas_sgemm cblas.h KVSHIFT_BLAS_HAS_CBLAS)
        unset(CMAKE_REQUIRED_INCLUDES)
        unset(CMAKE_REQUIRED_LIBRARIES)
        if(KVSHIFT_BLAS_HAS_CBLAS)
            set(blas_include_dir ${KVSHIFT_CBLAS_INCLUDE_DIR})
            set(blas_libraries ${BLAS_LIBRARIES})
            list(GET BLAS_LIBRARIES 0 first)
            get_filename_component(blas_label ${first} NAME_WE)
        endif()
    endif()
endmacro()

if(NOT KVSHIFT_BLAS MATCHES "^(AUTO|BLIS|CBLAS)$")
    message(FATAL_ERROR "KVSHIFT_BLAS is '${KVSHIFT_BLAS}', expected AUTO, BLIS or CBLAS")
endif()
if(NOT KVSHIFT_BLAS STREQUAL CBLAS)
    kvshift_find_blis()
endif()
if(NOT blas_libraries AND NOT KVSHIFT_BLAS STREQUAL BLIS)
    kvshift_find_any_cblas()
endif()
if(NOT blas_libraries)
    kvshift_missing("CBLAS" libblis-serial-dev)
endif()
set(KVSHIFT_BLAS_LABEL "${blas_label}")
if(KVSHIFT_BLAS_NAME)
    set(KVSHIFT_BLAS_LABEL "${KVSHIFT_BLAS_NAME}")
endif()

# ---- the others ----------------------------------------------------------------------------------

find_package(OpenMP QUIET COMPONENTS C)
if(NOT OpenMP_C_FOUND)
    if(CMAKE_C_COMPILER_ID MATCHES Clang)
        kvshift_missing("OpenMP" libomp-dev)
    else()
        kvshift_missing("OpenMP" gcc)
    endif()
endif()

# Libraries with a .pc file: module, least version, name for people, Debian package.
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

set(KVSHIFT_INCLUDE_DIRS ${blas_include_dir} ${module_include_dirs} ${KVSHIFT_RANDOM123_INCLUDE_DIR})
set(KVSHIFT_LIBRARIES ${blas_libraries} ${module_libraries} ${OpenMP_C_LIBRARIES} m)

# ---- tests only: their absence is no error, the summary says so ----------------------------------

if(KVSHIFT_TESTS)
    pkg_check_modules(CMOCKA QUIET cmocka)
endif()
