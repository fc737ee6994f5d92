# What the Python package contains, in package/ of the build folder: lib/libkvshift.so, without links
# and numbers in its name, which wheels do not have, and the command, which uses that library.
#
# With GCC the library has its own thread pool instead of libgomp: see src/parallel/pool/pool.c.

set(package_sources)
set(package_libraries ${KVSHIFT_LIBRARIES})
if(CMAKE_C_COMPILER_ID STREQUAL GNU AND KVSHIFT_OPENMP)
    set(package_sources ${PROJECT_SOURCE_DIR}/src/parallel/pool/pool.c)
    list(REMOVE_ITEM package_libraries ${OpenMP_C_LIBRARIES})
    list(APPEND package_libraries Threads::Threads)
endif()

add_library(kvshift_package_library SHARED EXCLUDE_FROM_ALL
            $<TARGET_OBJECTS:kvshift_objects> ${level_objects} ${package_sources})
kvshift_own_code(kvshift_package_library)
target_link_libraries(kvshift_package_library PRIVATE ${package_libraries})
# Threads wait inside the library, so it is never unloaded.
target_link_options(kvshift_package_library PRIVATE LINKER:-z,nodelete LINKER:--no-undefined)
if(KVSHIFT_HAVE_VERSION_SCRIPT)
    target_link_options(kvshift_package_library PRIVATE LINKER:--version-script=${version_script})
    set_target_properties(kvshift_package_library PROPERTIES LINK_DEPENDS ${version_script})
endif()
set_target_properties(kvshift_package_library PROPERTIES
    OUTPUT_NAME kvshift LIBRARY_OUTPUT_DIRECTORY ${PROJECT_BINARY_DIR}/package/lib)

# The shared library comes first: only src/base is taken from the static one.
add_executable(kvshift_package EXCLUDE_FROM_ALL
               ${PROJECT_SOURCE_DIR}/src/cli/main.c $<TARGET_OBJECTS:kvshift_cli>)
kvshift_own_code(kvshift_package)
target_link_options(kvshift_package PRIVATE LINKER:--as-needed)
target_link_libraries(kvshift_package PRIVATE kvshift_package_library kvshift_static
    ${MICROHTTPD_LINK_LIBRARIES} Threads::Threads)
set_target_properties(kvshift_package PROPERTIES
    OUTPUT_NAME kvshift RUNTIME_OUTPUT_DIRECTORY ${PROJECT_BINARY_DIR}/package/bin
    BUILD_WITH_INSTALL_RPATH ON INSTALL_RPATH "$ORIGIN/../lib")

install(DIRECTORY ${PROJECT_BINARY_DIR}/package/ DESTINATION kvshift COMPONENT python EXCLUDE_FROM_ALL
        USE_SOURCE_PERMISSIONS)
