# Tests, found by file name:
#   tests/FOLDER/test_*.c   one executable each, label quick; may include internal headers
#   tests/api/test_*.c      the same for the public API: public headers and the shared library only
#   .../test_double_*.c     the same, with the model and the reference kernels in double precision
#   .../test_long_*.c       label long
#   tests/*.c               other files: helpers, one library that every test links
#   tests/cli/*.sh          scripts that run the command $KVSHIFT; cli/long_*.sh have label long
#   tests/cli/*.bash        shared by the scripts
#   tests/command_public_abi.sh   runs the command that is linked with the shared library
#   tests/inject/*.c        libraries that scripts preload
if(NOT CMOCKA_FOUND)
    return()
endif()
enable_testing()

file(GLOB test_sources CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/tests/*/test_*.c)
file(GLOB helper_sources CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/tests/*.c)
file(GLOB test_scripts CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/tests/cli/*.sh)

# The preset tsan builds and runs only tests of code that uses threads.
set(KVSHIFT_TEST_PATTERN "" CACHE STRING "Only tests whose name matches this regular expression")
function(kvshift_select_tests list prefix)
    foreach(source IN LISTS ${list})
        get_filename_component(name ${source} NAME_WE)
        if(NOT "${prefix}${name}" MATCHES "${KVSHIFT_TEST_PATTERN}")
            list(REMOVE_ITEM ${list} ${source})
        endif()
    endforeach()
    set(${list} ${${list}} PARENT_SCOPE)
endfunction()
kvshift_select_tests(test_sources "")
if(NOT MICROHTTPD_FOUND)
    list(FILTER test_sources EXCLUDE REGEX "/tests/serve/")
endif()
kvshift_select_tests(test_scripts cli_)

# Finite differences need more precision than float.  Their tests use the trainer and lower layers.
set(double_sources ${library_sources})
list(FILTER double_sources INCLUDE REGEX
     "/src/(base|config|parallel|kernels|kernels/ref|model|formats|tokenizer|data|run|train|train/zero)/[^/]+$")
add_library(kvshift_double STATIC EXCLUDE_FROM_ALL ${double_sources})
kvshift_own_code(kvshift_double)
add_dependencies(kvshift_double kvshift_commit)
target_compile_definitions(kvshift_double PUBLIC KVSI_REAL=double)
target_compile_options(kvshift_double PRIVATE -ffp-contract=off)
target_link_libraries(kvshift_double PUBLIC ${KVSHIFT_LIBRARIES})

# Trained models that some tests need; without them these tests are skipped with a message.
if(EXISTS ${PROJECT_SOURCE_DIR}/../shared/data)
    list(APPEND KVSHIFT_TEST_ENVIRONMENT KVSHIFT_SHARED=${PROJECT_SOURCE_DIR}/../shared)
endif()

# Tests that take long start first, so that no core is idle at the end.
set(first_tests test_levels test_levels_attention test_state test_session_types test_ranks
    test_sessions cli_serve)
set(KVSHIFT_TEST_SECONDS 600)
if(CMAKE_CROSSCOMPILING) # emulated
    set(KVSHIFT_TEST_SECONDS 6000)
endif()
function(kvshift_describe_test name label)
    set_tests_properties(${name} PROPERTIES
        LABELS ${label} TIMEOUT ${KVSHIFT_TEST_SECONDS} ENVIRONMENT "${KVSHIFT_TEST_ENVIRONMENT};${ARGN}")
    if(label STREQUAL long OR name IN_LIST first_tests)
        set_tests_properties(${name} PROPERTIES COST 100)
    endif()
endfunction()

# The helpers are built once for each library, because the size of a weight differs.
foreach(library kvshift_static kvshift_double)
    set(helpers ${library}_test_helpers)
    add_library(${helpers} STATIC EXCLUDE_FROM_ALL ${helper_sources})
    kvshift_own_code(${helpers})
    target_compile_definitions(${helpers} PUBLIC KVSI_TESTS_DIR="${PROJECT_SOURCE_DIR}/tests")
    target_include_directories(${helpers} PUBLIC ${PROJECT_SOURCE_DIR}/tests)
    target_include_directories(${helpers} SYSTEM PUBLIC ${CMOCKA_INCLUDE_DIRS})
    target_link_libraries(${helpers} PUBLIC ${library} ${CMOCKA_LINK_LIBRARIES})
endforeach()
target_compile_definitions(kvshift_static_test_helpers PUBLIC ${level_definitions})

foreach(source IN LISTS test_sources)
    get_filename_component(name ${source} NAME_WE)
    add_executable(${name} ${source})
    kvshift_own_code(${name})
    if(name MATCHES "^test_double_")
        target_link_libraries(${name} PRIVATE kvshift_double_test_helpers)
    elseif(source MATCHES "/tests/api/") # linked like programs of users
        target_include_directories(${name} SYSTEM PRIVATE ${CMOCKA_INCLUDE_DIRS})
        target_link_libraries(${name} PRIVATE kvshift ${CMOCKA_LINK_LIBRARIES} m)
    elseif(source MATCHES "/tests/(config|serve)/") # parts of the command
        target_link_libraries(${name} PRIVATE kvshift_cli kvshift_static_test_helpers)
    else()
        target_link_libraries(${name} PRIVATE kvshift_static_test_helpers)
    endif()
    set_target_properties(${name} PROPERTIES
        RUNTIME_OUTPUT_DIRECTORY ${PROJECT_BINARY_DIR}/tests)
    add_test(NAME ${name} COMMAND ${name} WORKING_DIRECTORY ${PROJECT_BINARY_DIR}/tests)
    if(name MATCHES "^test_long_")
        kvshift_describe_test(${name} long)
    else()
        kvshift_describe_test(${name} quick)
    endif()
endforeach()

# Libraries that make one allocation or system call of the command fail, for script/inject too; only
# if they can be preloaded.
include(CheckFunctionExists)
check_function_exists(__libc_memalign KVSHIFT_HAVE_LIBC_MEMALIGN)
if(KVSHIFT_HAVE_LIBC_MEMALIGN AND NOT KVSHIFT_SANITIZE)
    add_library(fail_alloc MODULE ${PROJECT_SOURCE_DIR}/tests/inject/fail_alloc.c)
    set_target_properties(fail_alloc PROPERTIES
        PREFIX "" C_VISIBILITY_PRESET default LIBRARY_OUTPUT_DIRECTORY ${PROJECT_BINARY_DIR}/tests)
    set(fail_alloc_environment KVSHIFT_FAIL_ALLOC=$<TARGET_FILE:fail_alloc>)
    if(CMAKE_SYSTEM_PROCESSOR MATCHES "^(x86_64|AMD64|amd64)$")
        add_library(fail_call MODULE ${PROJECT_SOURCE_DIR}/tests/inject/fail_call.c)
        set_target_properties(fail_call PROPERTIES
            PREFIX "" LIBRARY_OUTPUT_DIRECTORY ${PROJECT_BINARY_DIR}/tests)
    endif()
endif()

foreach(script IN LISTS test_scripts)
    get_filename_component(name ${script} NAME_WE)
    add_test(NAME cli_${name} COMMAND bash ${script} WORKING_DIRECTORY ${PROJECT_BINARY_DIR}/tests)
    if(name MATCHES "^long_")
        set(label long)
    else()
        set(label quick)
    endif()
    kvshift_describe_test(cli_${name} ${label}
        KVSHIFT=$<TARGET_FILE:kvshift_command> ${fail_alloc_environment})
    set_tests_properties(cli_${name} PROPERTIES SKIP_RETURN_CODE 77)
endforeach()
file(MAKE_DIRECTORY ${PROJECT_BINARY_DIR}/tests)

if(NOT command_public_abi MATCHES "${KVSHIFT_TEST_PATTERN}")
    return()
endif()
# Links the command with its own copy of src/base and with the shared library, which exports only
# the public API.  This fails if the command uses anything else of the library.
file(GLOB base_sources CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/src/base/*.c)
add_library(kvshift_command_base STATIC ${base_sources})
kvshift_own_code(kvshift_command_base)
add_dependencies(kvshift_command_base kvshift_commit)
target_compile_options(kvshift_command_base PRIVATE -ffp-contract=off)
add_executable(kvshift_public ${PROJECT_SOURCE_DIR}/src/cli/main.c $<TARGET_OBJECTS:kvshift_cli>)
kvshift_own_code(kvshift_public)
# The shared library comes first, so that public functions are taken from it.
target_link_libraries(kvshift_public PRIVATE kvshift kvshift_command_base ${KVSHIFT_LIBRARIES}
    ${MICROHTTPD_LINK_LIBRARIES} Threads::Threads)
set_target_properties(kvshift_public PROPERTIES
    OUTPUT_NAME kvshift-public RUNTIME_OUTPUT_DIRECTORY ${PROJECT_BINARY_DIR}/tests)
add_test(NAME command_public_abi
         COMMAND bash ${PROJECT_SOURCE_DIR}/tests/command_public_abi.sh
         WORKING_DIRECTORY ${PROJECT_BINARY_DIR}/tests)
kvshift_describe_test(command_public_abi quick
    KVSHIFT=$<TARGET_FILE:kvshift_command> KVSHIFT_PUBLIC=$<TARGET_FILE:kvshift_public>
    KVSHIFT_LIBRARY=$<TARGET_FILE:kvshift>)
