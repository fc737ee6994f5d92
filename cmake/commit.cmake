# Writes ${header} with the short hash of the checkout ${source}, only if it changed.
find_package(Git QUIET)
set(commit unknown)
# An archive made by git has the hash in this file.
file(READ ${source}/cmake/archived_commit.txt archived)
string(STRIP "${archived}" archived)
if(archived MATCHES "^[0-9a-f]+$")
    set(commit ${archived})
endif()
# Only if ${source} is the top of a checkout, not sources unpacked inside another repository.
if(Git_FOUND AND EXISTS ${source}/.git)
    execute_process(COMMAND ${GIT_EXECUTABLE} -C ${source} rev-parse --short HEAD
                    OUTPUT_VARIABLE answer OUTPUT_STRIP_TRAILING_WHITESPACE
                    RESULT_VARIABLE status ERROR_QUIET)
    if(status EQUAL 0)
        set(commit ${answer})
    endif()
endif()
set(text "#define KVSI_COMMIT \"${commit}\"\n")
if(EXISTS ${header})
    file(READ ${header} old)
endif()
if(NOT "${old}" STREQUAL "${text}")
    file(WRITE ${header} "${text}")
endif()
