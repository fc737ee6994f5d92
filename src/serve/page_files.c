#include "serve/page_files.h"

#include "base/checksum.h"
#include "serve/page_files.inc" /* static const kvsi_page_file files[], made by cmake/page.cmake */

#include <stdio.h>
#include <string.h>

/* Nothing from other servers, no script or style within a file, no frames.  Texts of models can
 * therefore do no harm, even if they became markup. */
static const char POLICY[] = "default-src 'none'; script-src 'self'; style-src 'self'; "
                             "img-src 'self' data: blob:; connect-src 'self'; base-uri 'none'; "
                             "form-action 'none'; frame-ancestors 'none'";

const kvsi_page_file *kvsi_page_file_at(const char *path)
{
    for (size_t i = 0; i < sizeof files / sizeof *files; i++)
        if (strcmp(files[i].path, path) == 0)
            return files + i;
    return NULL;
}

/* Whether a header If-None-Match has the tag, or "*". */
static int has_tag(const char *header, const char *tag)
{
    return strcmp(header, "*") == 0 || strstr(header, tag) != NULL;
}

void kvsi_page_file_answer(const kvsi_page_file *file, kvsi_exchange *x)
{
    char sum[KVSI_CHECKSUM_TEXT], tag[KVSI_CHECKSUM_TEXT + 2], header[256];
    const int has_header = kvsi_exchange_header(header, sizeof header, x, "If-None-Match");
    kvsi_text body = {0};

    kvsi_checksum_print(sum, kvsi_checksum(file->bytes, file->size));
    snprintf(tag, sizeof tag, "\"%s\"", sum);
    kvsi_exchange_add_header(x, "ETag", tag);
    kvsi_exchange_add_header(x, "Cache-Control", "no-cache"); /* ask again, with the tag */
    kvsi_exchange_add_header(x, "Content-Security-Policy", POLICY);
    kvsi_exchange_add_header(x, "X-Content-Type-Options", "nosniff");
    kvsi_exchange_add_header(x, "Referrer-Policy", "no-referrer");
    if (has_header && has_tag(header, tag)) {
        kvsi_exchange_answer(x, 304, file->type, &body);
        return;
    }
    kvsi_text_add_bytes(&body, (const char *)file->bytes, file->size);
    kvsi_exchange_answer(x, 200, file->type, &body);
}
