/* formats/gguf_file.h - the open GGUF file, shared by gguf.c (metadata) and gguf_tensors.c. */
#ifndef KVSI_FORMATS_GGUF_FILE_H
#define KVSI_FORMATS_GGUF_FILE_H

#include "base/mapping.h"
#include "formats/gguf.h"

struct kvsi_gguf {
    char *path;
    kvsi_mapping map;
    kvsi_gguf_value *values;
    size_t count;
    uint64_t tensor_count;           /* according to the header */
    const unsigned char *after_keys; /* where the tensor descriptions start */
    kvsi_file_tensor *tensors;       /* NULL until kvsi_gguf_read_tensors */
};

/* The unread part of the file. */
typedef struct kvsi_gguf_cursor {
    const char *path, *part; /* for messages */
    const unsigned char *at, *end;
    kvs_err *err;
} kvsi_gguf_cursor;

/* Reads a little-endian integer of `size` bytes; fails at the end of the file. */
kvs_status kvsi_gguf_take(kvsi_gguf_cursor *c, uint64_t *out, size_t size);
/* Reads a length and that many bytes: a view. */
kvs_status kvsi_gguf_take_text(kvsi_gguf_cursor *c, const char **text, size_t *size);

#endif
