# The library, shared and static from the same objects, and the command.

set(layers base config parallel kernels kernels/ref model formats tokenizer chat convert data data/tasks run train train/zero infer eval eval/tasks bench theory lens report repro)
list(TRANSFORM layers REPLACE "(.+)" "${PROJECT_SOURCE_DIR}/src/\\1/*.c" OUTPUT_VARIABLE globs)
file(GLOB library_sources CONFIGURE_DEPENDS ${globs})
file(GLOB level_sources CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/src/kernels/cpu/*.c)
file(GLOB command_sources CONFIGURE_DEPENDS
    ${PROJECT_SOURCE_DIR}/src/cli/*.c ${PROJECT_SOURCE_DIR}/src/cli/options/*.c)
# The server is part of the command, if there is a library for HTTP.
if(MICROHTTPD_FOUND)
    file(GLOB serve_sources CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/src/serve/*.c)
    list(APPEND command_sources ${serve_sources})
    set_source_files_properties(${PROJECT_SOURCE_DIR}/src/serve/http.c PROPERTIES
        COMPILE_DEFINITIONS _GNU_SOURCE) # POLLRDHUP
    include(cmake/page.cmake)
endif()

# Only these files are compiled with OpenMP: this folder, word counting in the tokenizer, the
# drawing of weights, the tokens and bootstraps of evaluations, merging and, below, the kernels of each
# processor level.
file(GLOB parallel_sources CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/src/parallel/*.c)
list(APPEND parallel_sources ${PROJECT_SOURCE_DIR}/src/tokenizer/word_counts.c
     ${PROJECT_SOURCE_DIR}/src/model/init.c ${PROJECT_SOURCE_DIR}/src/eval/tokens.c
     ${PROJECT_SOURCE_DIR}/src/eval/aggregate.c ${PROJECT_SOURCE_DIR}/src/convert/merged.c)
separate_arguments(openmp_flags UNIX_COMMAND "${OpenMP_C_FLAGS}")
set_source_files_properties(${parallel_sources} PROPERTIES COMPILE_OPTIONS "${openmp_flags}")

# Beyond POSIX: which cores a process may use (the test includes pool.c), which file a function was loaded from, and the request
# for AMX tiles.
set_source_files_properties(${PROJECT_SOURCE_DIR}/src/parallel/cores.c
    ${PROJECT_SOURCE_DIR}/src/kernels/cpu_features.c ${PROJECT_SOURCE_DIR}/src/kernels/amx.c
    ${PROJECT_SOURCE_DIR}/src/parallel/comm_open.c ${PROJECT_SOURCE_DIR}/src/parallel/pool/pool.c
    ${PROJECT_SOURCE_DIR}/tests/parallel/test_pool.c PROPERTIES COMPILE_DEFINITIONS _GNU_SOURCE)

# ---- data of kvs_build() -------------------------------------------------------------------------

set(compiler ${CMAKE_C_COMPILER_ID})
if(compiler STREQUAL GNU)
    set(compiler GCC)
endif()
set_source_files_properties(${PROJECT_SOURCE_DIR}/src/base/build_info.c PROPERTIES
    COMPILE_DEFINITIONS
    "KVSI_COMPILER=\"${compiler} ${CMAKE_C_COMPILER_VERSION}\";KVSI_OPENMP=\"${OpenMP_C_SPEC_DATE}\"")
# Checked at every build, because a commit does not reconfigure; an unchanged hash compiles nothing.
add_custom_target(kvshift_commit
    COMMAND ${CMAKE_COMMAND} -D source=${PROJECT_SOURCE_DIR}
            -D header=${PROJECT_BINARY_DIR}/generated/base/commit.h
            -P ${PROJECT_SOURCE_DIR}/cmake/commit.cmake
    BYPRODUCTS ${PROJECT_BINARY_DIR}/generated/base/commit.h
    COMMENT "Looking up the commit")

# ---- the Python file that is written with shifted models, as bytes -------------------------------

set(modeling ${PROJECT_SOURCE_DIR}/python/modeling_kvshift.py)
set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${modeling})
file(READ ${modeling} modeling_bytes HEX)
string(REGEX REPLACE "(................................)" "\\1\n" modeling_bytes "${modeling_bytes}")
string(REGEX REPLACE "([0-9a-f][0-9a-f])" "0x\\1," modeling_bytes "${modeling_bytes}")
file(CONFIGURE OUTPUT ${PROJECT_BINARY_DIR}/generated/formats/modeling_kvshift.inc
     CONTENT "${modeling_bytes}\n" @ONLY)

# ---- processor levels: the same sources, compiled once for each ----------------------------------

set(all_levels baseline)
set(level_flags_baseline)
if(CMAKE_SYSTEM_PROCESSOR MATCHES "^(x86_64|AMD64|amd64)$" AND CMAKE_SIZEOF_VOID_P EQUAL 8)
    list(APPEND all_levels avx2 avx512 avx512-wide amx amx-emulated)
    set(level_flags_avx2 -mavx2 -mfma -mf16c)
    # Vectors stay 256 bits wide.  This level uses twice as many registers, and sums of products of
    # 16-bit integers in one instruction (VNNI).
    set(flags_of_avx512 ${level_flags_avx2} -mavx512f -mavx512bw -mavx512dq -mavx512vl -mavx512vnni)
    set(level_flags_avx512 ${flags_of_avx512} -mprefer-vector-width=256)
    # The same instructions with vectors of 512 bits.
    set(level_flags_avx512-wide ${flags_of_avx512} -mprefer-vector-width=512 -DKVSI_VEC_BYTES=64)
    # Products with tiles.  The emulation has vectors of the same width, which the compiler splits,
    # so that every operation has the same bits.
    set(level_flags_amx ${level_flags_avx512-wide} -mavx512bf16 -DKVSI_TILES=1)
    set(level_flags_amx-emulated ${level_flags_avx2} -DKVSI_VEC_BYTES=64 -DKVSI_TILES=1
        -DKVSI_TILES_EMULATED=1)
endif()
set(KVSHIFT_LEVELS all CACHE STRING "CPU levels to build: 'all', or some of: ${all_levels}")
set(levels ${KVSHIFT_LEVELS})
if(levels STREQUAL all)
    set(levels ${all_levels})
endif()
list(REMOVE_DUPLICATES levels)
foreach(level IN LISTS levels)
    if(NOT level IN_LIST all_levels)
        message(FATAL_ERROR "KVSHIFT_LEVELS has '${level}', expected 'all' or some of: ${all_levels}")
    endif()
endforeach()

# No sanitizers in the loops that measure the machine.
set_source_files_properties(${PROJECT_SOURCE_DIR}/src/kernels/cpu/probe.c PROPERTIES
    COMPILE_OPTIONS -fno-sanitize=all)
set_source_files_properties(${PROJECT_SOURCE_DIR}/src/kernels/units.c PROPERTIES
    COMPILE_OPTIONS "${openmp_flags};-ffp-contract=fast;-fno-sanitize=all;-Wno-psabi")

set(level_objects)
set(level_definitions)
foreach(level IN LISTS levels)
    string(REPLACE "-" "_" identifier ${level})
    string(TOUPPER ${identifier} upper)
    list(APPEND level_definitions KVSI_HAVE_${upper}=1)
    add_library(kvshift_${level} OBJECT ${level_sources})
    kvshift_own_code(kvshift_${level})
    target_compile_definitions(kvshift_${level} PRIVATE
        KVSI_LEVEL=${identifier} KVSI_LEVEL_NAME="${level}")
    # -Wno-psabi: vectors are only passed between functions of the same level.
    target_compile_options(kvshift_${level} PRIVATE
        ${level_flags_${level}} ${openmp_flags}
        -ffp-contract=fast -fno-math-errno -fno-trapping-math -Wno-psabi)
    list(APPEND level_objects $<TARGET_OBJECTS:kvshift_${level}>)
endforeach()

# ---- library -------------------------------------------------------------------------------------

# Only this file knows which levels there are, so the others are the same in every build.
set(levels_source ${PROJECT_SOURCE_DIR}/src/kernels/levels.c)
add_library(kvshift_levels OBJECT ${levels_source})
kvshift_own_code(kvshift_levels)
target_compile_definitions(kvshift_levels PRIVATE ${level_definitions})
list(APPEND level_objects $<TARGET_OBJECTS:kvshift_levels>)

set(object_sources ${library_sources})
list(REMOVE_ITEM object_sources ${levels_source})
add_library(kvshift_objects OBJECT ${object_sources})
kvshift_own_code(kvshift_objects)
add_dependencies(kvshift_objects kvshift_commit)
target_compile_options(kvshift_objects PRIVATE -ffp-contract=off)

function(kvshift_library target kind)
    add_library(${target} ${kind} $<TARGET_OBJECTS:kvshift_objects> ${level_objects})
    add_library(kvshift::${target} ALIAS ${target})
    target_include_directories(${target} INTERFACE
        $<BUILD_INTERFACE:${PROJECT_SOURCE_DIR}/include>
        $<INSTALL_INTERFACE:${CMAKE_INSTALL_INCLUDEDIR}>)
    target_link_libraries(${target} PRIVATE ${KVSHIFT_LIBRARIES})
    target_link_options(${target} PRIVATE ${KVSHIFT_HARDENING_LINK_FLAGS} ${KVSHIFT_SANITIZE_FLAGS})
    set_target_properties(${target} PROPERTIES OUTPUT_NAME kvshift)
endfunction()

kvshift_library(kvshift SHARED)
kvshift_library(kvshift_static STATIC)
# SOVERSION is independent of the version: see CONTRIBUTING.md.
set_target_properties(kvshift PROPERTIES VERSION ${PROJECT_VERSION} SOVERSION 0)

# The version script gives each exported function a version.  If the linker has no version scripts,
# the visibility of functions alone limits what is exported.  The script of this check lists no
# function, because some linkers refuse names that are not defined.
include(CheckLinkerFlag)
file(WRITE ${PROJECT_BINARY_DIR}/generated/probe.map "PROBE { local: *; };\n")
check_linker_flag(C LINKER:--version-script=${PROJECT_BINARY_DIR}/generated/probe.map
                  KVSHIFT_HAVE_VERSION_SCRIPT)
if(KVSHIFT_HAVE_VERSION_SCRIPT)
    set(version_script ${PROJECT_SOURCE_DIR}/src/kvshift.map)
    target_link_options(kvshift PRIVATE LINKER:--version-script=${version_script})
    set_target_properties(kvshift PROPERTIES LINK_DEPENDS ${version_script})
endif()

# ---- MPI: a separate module, loaded if a launcher started the process ----------------------------

if(KVSHIFT_MPI_FOUND)
    add_library(kvshift_mpi MODULE ${PROJECT_SOURCE_DIR}/src/parallel/mpi/comm_mpi.c
                ${PROJECT_SOURCE_DIR}/src/base/status.c)
    kvshift_own_code(kvshift_mpi)
    target_include_directories(kvshift_mpi SYSTEM PRIVATE ${MPI_C_INCLUDE_DIRS})
    target_link_libraries(kvshift_mpi PRIVATE ${MPI_C_LIBRARIES})
    set_target_properties(kvshift_mpi PROPERTIES
        PREFIX lib SUFFIX .so LIBRARY_OUTPUT_DIRECTORY ${PROJECT_BINARY_DIR})
    if(IS_ABSOLUTE "${CMAKE_INSTALL_LIBDIR}" OR IS_ABSOLUTE "${CMAKE_INSTALL_BINDIR}")
        set(module_from_bin ${CMAKE_INSTALL_FULL_LIBDIR})
    else()
        file(RELATIVE_PATH module_from_bin /prefix/${CMAKE_INSTALL_BINDIR} /prefix/${CMAKE_INSTALL_LIBDIR})
    endif()
    set_source_files_properties(${PROJECT_SOURCE_DIR}/src/parallel/comm_open.c PROPERTIES
        COMPILE_DEFINITIONS
        "_GNU_SOURCE;KVSI_MODULE_DIR=\"${CMAKE_INSTALL_FULL_LIBDIR}\";KVSI_MODULE_FROM_BIN=\"${module_from_bin}\"")
endif()

# ---- command: linked statically, so that build/kvshift runs from anywhere -------------------------

# Tests of the command's tables link it without main.c.
list(FILTER command_sources EXCLUDE REGEX "/main\\.c$")
add_library(kvshift_cli STATIC ${command_sources})
kvshift_own_code(kvshift_cli)
target_link_libraries(kvshift_cli PUBLIC kvshift_static)
if(MICROHTTPD_FOUND)
    target_compile_definitions(kvshift_cli PRIVATE KVSI_HAVE_MICROHTTPD=1)
    target_include_directories(kvshift_cli SYSTEM PRIVATE ${MICROHTTPD_INCLUDE_DIRS})
    target_link_libraries(kvshift_cli PUBLIC ${MICROHTTPD_LINK_LIBRARIES} Threads::Threads)
endif()
add_executable(kvshift_command ${PROJECT_SOURCE_DIR}/src/cli/main.c)
kvshift_own_code(kvshift_command)
target_link_libraries(kvshift_command PRIVATE kvshift_cli)
if(KVSHIFT_STATIC)
    target_link_options(kvshift_command PRIVATE -static-pie)
    if(MICROHTTPD_FOUND)
        target_sources(kvshift_command PRIVATE ${PROJECT_SOURCE_DIR}/cmake/no_tls.c)
    endif()
endif()
set_target_properties(kvshift_command PROPERTIES
    OUTPUT_NAME kvshift RUNTIME_OUTPUT_DIRECTORY ${PROJECT_BINARY_DIR})
