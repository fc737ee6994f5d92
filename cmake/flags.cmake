# Warnings and sanitizers for the code of this project; users of the library do not get these flags.

set(KVSHIFT_WARNINGS
    -Wall -Wextra -Wshadow -Wconversion -Wstrict-prototypes -Wmissing-prototypes -Wvla -Wundef)
if(KVSHIFT_WERROR)
    list(APPEND KVSHIFT_WARNINGS -Werror)
endif()

# Hardening of optimized builds.  Sanitizers find more and do not work with checked libc calls.
set(KVSHIFT_HARDENING_FLAGS)
set(KVSHIFT_HARDENING_LINK_FLAGS)
if(KVSHIFT_HARDENING AND NOT KVSHIFT_SANITIZE AND NOT KVSHIFT_FUZZ)
    include(CheckCCompilerFlag)
    include(CheckLinkerFlag)
    include(CheckPIESupported)
    if(NOT KVSHIFT_STATIC) # -static-pie is another flag
        check_pie_supported(OUTPUT_VARIABLE pie_output LANGUAGES C) # executables are linked with -pie
    endif()
    check_c_compiler_flag(-fstack-protector-strong KVSHIFT_HAVE_STACK_PROTECTOR)
    if(KVSHIFT_HAVE_STACK_PROTECTOR)
        list(APPEND KVSHIFT_HARDENING_FLAGS -fstack-protector-strong)
    endif()
    list(APPEND KVSHIFT_HARDENING_FLAGS
        $<$<CONFIG:Release,RelWithDebInfo,MinSizeRel>:-U_FORTIFY_SOURCE>
        $<$<CONFIG:Release,RelWithDebInfo,MinSizeRel>:-D_FORTIFY_SOURCE=3>)
    check_linker_flag(C LINKER:-z,relro,-z,now KVSHIFT_HAVE_RELRO)
    if(KVSHIFT_HAVE_RELRO)
        list(APPEND KVSHIFT_HARDENING_LINK_FLAGS LINKER:-z,relro,-z,now LINKER:-z,noexecstack)
    endif()
endif()

set(KVSHIFT_SANITIZE_FLAGS)
set(KVSHIFT_TEST_ENVIRONMENT OMP_WAIT_POLICY=passive) # tests run in parallel on the same cores
if(KVSHIFT_FUZZ)
    if(NOT CMAKE_C_COMPILER_ID MATCHES Clang)
        message(FATAL_ERROR "KVSHIFT_FUZZ needs clang, found ${CMAKE_C_COMPILER_ID}")
    elseif(KVSHIFT_SANITIZE)
        message(FATAL_ERROR "KVSHIFT_FUZZ sets its own sanitizers: leave KVSHIFT_SANITIZE empty")
    endif()
    set(KVSHIFT_SANITIZE_FLAGS -fsanitize=fuzzer-no-link,address,undefined
        -fno-sanitize-recover=all -fno-omit-frame-pointer)
elseif(KVSHIFT_SANITIZE STREQUAL address)
    set(KVSHIFT_SANITIZE_FLAGS
        -fsanitize=address,undefined -fno-sanitize-recover=all -fno-omit-frame-pointer)
elseif(KVSHIFT_SANITIZE STREQUAL thread)
    # Only LLVM's OpenMP runtime reports its barriers to the thread sanitizer, through Archer.
    if(NOT CMAKE_C_COMPILER_ID MATCHES Clang)
        message(FATAL_ERROR "KVSHIFT_SANITIZE=thread needs clang, found ${CMAKE_C_COMPILER_ID}")
    endif()
    get_filename_component(openmp_library "${OpenMP_omp_LIBRARY}" REALPATH)
    get_filename_component(openmp_dir "${openmp_library}" DIRECTORY)
    find_library(KVSHIFT_ARCHER NAMES archer HINTS ${openmp_dir})
    mark_as_advanced(KVSHIFT_ARCHER)
    if(NOT KVSHIFT_ARCHER)
        message(FATAL_ERROR "libarcher.so not found; on Debian: apt-get install libomp-dev")
    endif()
    set(KVSHIFT_SANITIZE_FLAGS -fsanitize=thread -fno-omit-frame-pointer)
    # The OpenMP runtime is not instrumented, so ignore its own accesses.
    list(APPEND KVSHIFT_TEST_ENVIRONMENT
         OMP_TOOL_LIBRARIES=${KVSHIFT_ARCHER} TSAN_OPTIONS=ignore_noninstrumented_modules=1)
elseif(KVSHIFT_SANITIZE)
    message(FATAL_ERROR "KVSHIFT_SANITIZE is '${KVSHIFT_SANITIZE}', expected address, thread or nothing")
endif()

# GCC 12 for aarch64 fails with an internal error when it vectorizes some loops over maxima.  None of
# them is in the kernels.
set(KVSHIFT_NO_VECTOR_LOOPS)
if(CMAKE_C_COMPILER_ID STREQUAL GNU AND CMAKE_C_COMPILER_VERSION VERSION_LESS 13 AND
   CMAKE_SYSTEM_PROCESSOR MATCHES "^(aarch64|arm64)$")
    set(KVSHIFT_NO_VECTOR_LOOPS $<$<NOT:$<STREQUAL:$<TARGET_PROPERTY:NAME>,kvshift_baseline>>:-fno-tree-loop-vectorize>)
endif()

# Flags of every target of this project: warnings, sanitizers, include roots.
function(kvshift_own_code target)
    target_compile_options(${target} PRIVATE
        ${KVSHIFT_WARNINGS} ${KVSHIFT_NO_VECTOR_LOOPS} ${KVSHIFT_HARDENING_FLAGS} ${KVSHIFT_SANITIZE_FLAGS})
    target_link_options(${target} PRIVATE ${KVSHIFT_HARDENING_LINK_FLAGS} ${KVSHIFT_SANITIZE_FLAGS})
    target_include_directories(${target} PRIVATE
        ${PROJECT_SOURCE_DIR}/src ${PROJECT_SOURCE_DIR}/include ${PROJECT_BINARY_DIR}/generated)
    target_include_directories(${target} SYSTEM PRIVATE ${KVSHIFT_INCLUDE_DIRS})
endfunction()
