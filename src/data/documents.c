/* kvs_documents: the public calls on base/documents.h. */
#include "base/documents.h"

#include "base/memory.h"
#include "kvshift/kvshift_files.h"

struct kvs_documents {
    kvsi_documents *documents;
    char *field, *separator; /* copies, which `documents` borrows; NULL = the default */
};

kvs_status kvs_documents_open(kvs_documents **out, const char *path, const char *field,
                              const char *separator, kvs_err *err)
{
    kvs_documents *d;
    kvs_status st;

    NEED(out);
    *out = NULL;
    NEED(path);
    d = kvsi_alloc(1, sizeof *d);
    if (d && field)
        d->field = kvsi_strdup(field);
    if (d && separator)
        d->separator = kvsi_strdup(separator);
    if (!d || (field && !d->field) || (separator && !d->separator)) {
        st = kvsi_no_memory(err, "'%s'", path);
        goto out;
    }
    TRY_OUT(kvsi_documents_open(&d->documents, path, d->field, d->separator, err));
    *out = d;
    d = NULL;
out:
    kvs_documents_close(d);
    return st;
}

void kvs_documents_close(kvs_documents *documents)
{
    if (!documents)
        return;
    kvsi_documents_close(documents->documents);
    kvsi_free(documents->field);
    kvsi_free(documents->separator);
    kvsi_free(documents);
}

kvs_status kvs_documents_next(const char **text, size_t *size, int *last, kvs_documents *documents,
                              kvs_err *err)
{
    kvsi_document_piece piece = {0};
    int found = 0;

    NEED(text);
    *text = NULL;
    NEED(size);
    *size = 0;
    NEED(last);
    *last = 1;
    NEED(documents);
    TRY(kvsi_documents_next(documents->documents, &piece, &found, err));
    if (found) {
        *text = piece.text;
        *size = piece.size;
        *last = piece.last;
    }
    return KVS_OK;
}

uint64_t kvs_documents_checksum(const kvs_documents *documents)
{
    return documents ? kvsi_documents_checksum(documents->documents) : 0;
}
