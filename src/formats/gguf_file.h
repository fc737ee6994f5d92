/* formats/gguf_file.h - an open GGUF file from inside, for the two halves of its reader: gguf.c
 * (metadata) and gguf_tensors.c. */
#ifndef KVSI_FORMATS_GGUF_FILE_H
#define KVSI_FORMATS_GGUF_FILE_H

#include "base/mapping.h"
#include "formats/gguf.h"

struct kvsi_gguf {
    char *path;
    kvsi_mapping map;
    kvsi_gguf_value *values;
    size_t count;
    uint64_t tensor_count;           /* as the header claims */
    const unsigned char *after_keys; /* where the tensors' descriptions start */
    kvsi_file_tensor *tensors;       /* NULL until they are read */
};

/* What is still to be read. */
typedef struct kvsi_gguf_cursor {
    const char *path, *part; /* of the file, for messages */
    const unsigned char *at, *end;
    kvs_err *err;
} kvsi_gguf_cursor;

/* A little-endian number of `size` bytes; fails at the end of the file. */
kvs_status kvsi_gguf_take(kvsi_gguf_cursor *c, uint64_t *out, size_t size);
/* A length and so many bytes: a view. */
kvs_status kvsi_gguf_take_text(kvsi_gguf_cursor *c, const char **text, size_t *size);

#endif
