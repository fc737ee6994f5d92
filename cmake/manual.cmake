# Man pages and completion scripts, made and installed with the command.
set(manual ${PROJECT_BINARY_DIR}/manual)
add_custom_command(
    OUTPUT ${manual}/made
    COMMAND ${CMAKE_COMMAND} -E rm -rf ${manual}
    COMMAND ${CMAKE_COMMAND} -DKVSHIFT=$<TARGET_FILE:kvshift_command> -DOUT=${manual}
            -P ${PROJECT_SOURCE_DIR}/cmake/make_manual.cmake
    COMMAND ${CMAKE_COMMAND} -E touch ${manual}/made
    DEPENDS kvshift_command ${PROJECT_SOURCE_DIR}/cmake/make_manual.cmake
    COMMENT "Making man pages and completion scripts")
add_custom_target(kvshift_manual ALL DEPENDS ${manual}/made)
install(DIRECTORY ${manual}/man1 DESTINATION ${CMAKE_INSTALL_MANDIR} COMPONENT command)
install(FILES ${manual}/kvshift DESTINATION ${CMAKE_INSTALL_DATADIR}/bash-completion/completions
        COMPONENT command)
install(FILES ${manual}/_kvshift DESTINATION ${CMAKE_INSTALL_DATADIR}/zsh/vendor-completions
        COMPONENT command)
install(FILES ${manual}/kvshift.fish
        DESTINATION ${CMAKE_INSTALL_DATADIR}/fish/vendor_completions.d COMPONENT command)
