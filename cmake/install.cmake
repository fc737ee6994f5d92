# Installs headers, both libraries, the command, a pkg-config file and a CMake package.  The component
# `command` is what the command needs alone: itself, man pages and completion scripts.
include(CMakePackageConfigHelpers)

set(package_dir ${CMAKE_INSTALL_LIBDIR}/cmake/kvshift)

file(GLOB public_headers CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/include/kvshift/*.h)
install(FILES ${public_headers} DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}/kvshift)
install(TARGETS kvshift kvshift_static EXPORT kvshiftTargets
        LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR} ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR})
install(TARGETS kvshift_command RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR} COMPONENT command)
if(KVSHIFT_MPI_FOUND)
    install(TARGETS kvshift_mpi LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR})
endif()

install(EXPORT kvshiftTargets NAMESPACE kvshift:: DESTINATION ${package_dir})
configure_package_config_file(cmake/kvshiftConfig.cmake.in generated/kvshiftConfig.cmake
                              INSTALL_DESTINATION ${package_dir})
write_basic_package_version_file(${PROJECT_BINARY_DIR}/generated/kvshiftConfigVersion.cmake
                                 COMPATIBILITY SameMinorVersion)
install(FILES ${PROJECT_BINARY_DIR}/generated/kvshiftConfig.cmake
              ${PROJECT_BINARY_DIR}/generated/kvshiftConfigVersion.cmake
        DESTINATION ${package_dir})

# Converts full paths of libraries to linker flags for the .pc file, except pkg-config modules.
list(JOIN KVSHIFT_MODULES " " pc_requires_private)
set(pc_libs_private)
foreach(library IN LISTS OpenMP_C_LIBRARIES)
    if(IS_ABSOLUTE ${library})
        get_filename_component(dir ${library} DIRECTORY)
        get_filename_component(name ${library} NAME_WE)
        if(NOT dir IN_LIST CMAKE_C_IMPLICIT_LINK_DIRECTORIES)
            list(APPEND pc_libs_private -L${dir})
        endif()
        string(REGEX REPLACE "^lib" "-l" name ${name})
        list(APPEND pc_libs_private ${name})
    else()
        list(APPEND pc_libs_private -l${library})
    endif()
endforeach()
foreach(library IN LISTS CMAKE_DL_LIBS)
    list(APPEND pc_libs_private -l${library})
endforeach()
list(APPEND pc_libs_private -lm)
list(JOIN pc_libs_private " " pc_libs_private)

# The prefix is relative to the file, so that the installed tree can be moved, unless a folder was
# given as an absolute path.
set(pc_dir ${CMAKE_INSTALL_LIBDIR}/pkgconfig)
if(IS_ABSOLUTE "${CMAKE_INSTALL_LIBDIR}")
    set(pc_prefix ${CMAKE_INSTALL_PREFIX})
else()
    file(RELATIVE_PATH up /prefix/${pc_dir} /prefix)
    string(REGEX REPLACE "/$" "" up ${up})
    set(pc_prefix "\${pcfiledir}/${up}")
endif()
foreach(dir LIBDIR INCLUDEDIR)
    if(IS_ABSOLUTE "${CMAKE_INSTALL_${dir}}")
        set(pc_${dir} "${CMAKE_INSTALL_${dir}}")
    else()
        set(pc_${dir} "\${prefix}/${CMAKE_INSTALL_${dir}}")
    endif()
endforeach()
configure_file(cmake/kvshift.pc.in generated/kvshift.pc @ONLY)
install(FILES ${PROJECT_BINARY_DIR}/generated/kvshift.pc DESTINATION ${pc_dir})

# Man pages and completion scripts are printed by the command, so it must run on this machine.
if(NOT CMAKE_CROSSCOMPILING)
    include(cmake/manual.cmake)
endif()
