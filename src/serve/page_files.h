/* serve/page_files.h - the files of the page, which are part of the command. */
#ifndef KVSI_SERVE_PAGE_FILES_H
#define KVSI_SERVE_PAGE_FILES_H

#include "serve/http.h"

/* One file; the bytes are in the program. */
typedef struct kvsi_page_file {
    const char *path; /* of the request: "/", "/page/style.css" */
    const char *type;
    const unsigned char *bytes;
    size_t size;
} kvsi_page_file;

/* NULL = no file has this path. */
const kvsi_page_file *kvsi_page_file_at(const char *path);
/* Answers a request for a file: 304 if the client has it already.  Only for the callback `check` of
 * http.h, because it reads a header. */
void kvsi_page_file_answer(const kvsi_page_file *file, kvsi_exchange *x);

#endif
