# Fuzz targets, found by file name:
#   tests/fuzz/fuzz_*.c   one executable each, fuzz/fuzz_NAME; the target `fuzzers` builds them all
#   tests/fuzz/*.c        other files: shared by all targets
# They use the helpers of the tests; script/fuzz runs them.
if(NOT CMOCKA_FOUND)
    message(FATAL_ERROR "KVSHIFT_FUZZ needs cmocka; on Debian: apt-get install libcmocka-dev")
endif()

file(GLOB fuzz_sources CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/tests/fuzz/fuzz_*.c)
file(GLOB fuzz_helper_sources CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/tests/fuzz/*.c)
list(REMOVE_ITEM fuzz_helper_sources "" ${fuzz_sources})
if(NOT MICROHTTPD_FOUND) # without it the server is not built
    list(FILTER fuzz_sources EXCLUDE REGEX "/fuzz_request\\.c$")
endif()

add_library(fuzz_helpers OBJECT ${fuzz_helper_sources}
    ${PROJECT_SOURCE_DIR}/tests/support.c ${PROJECT_SOURCE_DIR}/tests/model_files.c
    ${PROJECT_SOURCE_DIR}/tests/family_models.c)
kvshift_own_code(fuzz_helpers)
target_include_directories(fuzz_helpers PRIVATE ${PROJECT_SOURCE_DIR}/tests)
target_include_directories(fuzz_helpers SYSTEM PRIVATE ${CMOCKA_INCLUDE_DIRS})

add_custom_target(fuzzers)
foreach(source IN LISTS fuzz_sources)
    get_filename_component(name ${source} NAME_WE)
    add_executable(${name} ${source} $<TARGET_OBJECTS:fuzz_helpers>)
    kvshift_own_code(${name})
    target_include_directories(${name} PRIVATE ${PROJECT_SOURCE_DIR}/tests)
    target_include_directories(${name} SYSTEM PRIVATE ${CMOCKA_INCLUDE_DIRS})
    target_link_libraries(${name} PRIVATE kvshift_cli ${CMOCKA_LINK_LIBRARIES})
    target_link_options(${name} PRIVATE -fsanitize=fuzzer)
    set_target_properties(${name} PROPERTIES
        EXCLUDE_FROM_ALL ON RUNTIME_OUTPUT_DIRECTORY ${PROJECT_BINARY_DIR}/fuzz)
    add_dependencies(fuzzers ${name})
endforeach()
