# The files of the page (src/serve/page/) as arrays of bytes, in one table of paths:
# generated/serve/page_files.inc, which src/serve/page_files.c includes.

set(page_type.html text/html)
set(page_type.css text/css)
set(page_type.js text/javascript)
file(GLOB page_files CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/src/serve/page/*)
set(page_arrays "")
set(page_rows "")
set(page_number 0)
foreach(file IN LISTS page_files)
    set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${file})
    get_filename_component(name ${file} NAME)
    get_filename_component(extension ${file} LAST_EXT)
    if(NOT DEFINED page_type${extension})
        message(FATAL_ERROR "${file}: no media type is known for it")
    endif()
    set(path "/page/${name}")
    if(name STREQUAL "index.html")
        set(path "/")
    endif()
    file(READ ${file} bytes HEX)
    string(REGEX REPLACE "(................................)" "\\1\n" bytes "${bytes}")
    string(REGEX REPLACE "([0-9a-f][0-9a-f])" "0x\\1," bytes "${bytes}")
    string(APPEND page_arrays
        "static const unsigned char file_${page_number}[] = {\n${bytes}\n};\n")
    string(APPEND page_rows
        "    {\"${path}\", \"${page_type${extension}}\", file_${page_number}, sizeof file_${page_number}},\n")
    math(EXPR page_number "${page_number} + 1")
endforeach()
set(page_content "${page_arrays}\nstatic const kvsi_page_file files[] = {\n${page_rows}};\n")
file(CONFIGURE OUTPUT ${PROJECT_BINARY_DIR}/generated/serve/page_files.inc
     CONTENT "${page_content}" @ONLY)
