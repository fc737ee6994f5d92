/* formats/gguf.h - GGUF files, versions 2 and 3, little-endian: "GGUF", version, counts, metadata
 * (key, type, value), tensor descriptions, tensor data.
 *
 * Input is untrusted: every length and count is checked against the remaining bytes.  Values are
 * views into the mapped file at any alignment. */
#ifndef KVSI_FORMATS_GGUF_H
#define KVSI_FORMATS_GGUF_H

#include "formats/tensor.h"

typedef enum kvsi_gguf_type {
    KVSI_GGUF_U8,
    KVSI_GGUF_I8,
    KVSI_GGUF_U16,
    KVSI_GGUF_I16,
    KVSI_GGUF_U32,
    KVSI_GGUF_I32,
    KVSI_GGUF_F32,
    KVSI_GGUF_BOOL,
    KVSI_GGUF_TEXT,
    KVSI_GGUF_ARRAY,
    KVSI_GGUF_U64,
    KVSI_GGUF_I64,
    KVSI_GGUF_F64,
    KVSI_GGUF_TYPES
} kvsi_gguf_type;

typedef struct kvsi_gguf_value {
    const char *key; /* not NUL-terminated */
    size_t key_size;
    kvsi_gguf_type type; /* of each element if is_array */
    int is_array;
    size_t count; /* elements; 1 if not an array */
    const unsigned char *data, *end;
} kvsi_gguf_value;

typedef struct kvsi_gguf kvsi_gguf;

kvs_status kvsi_gguf_open(kvsi_gguf **out, const char *path, kvs_err *err);
void kvsi_gguf_close(kvsi_gguf *file);

/* NULL if there is no such key. */
const kvsi_gguf_value *kvsi_gguf_find(const kvsi_gguf *file, const char *key);

/* A single value.  A missing key leaves *out unchanged; a value of another type is KVS_E_FORMAT. */
kvs_status kvsi_gguf_get_whole(int64_t *out, const kvsi_gguf *file, const char *key, kvs_err *err);
/* A 32-bit float gives the shortest decimal number that rounds to it. */
kvs_status kvsi_gguf_get_real(double *out, const kvsi_gguf *file, const char *key, kvs_err *err);
/* *out is a view. */
kvs_status kvsi_gguf_get_text(const char **out, size_t *size, const kvsi_gguf *file,
                              const char *key, kvs_err *err);

/* An array of `type`; it must exist. */
kvs_status kvsi_gguf_get_array(const kvsi_gguf_value **out, const kvsi_gguf *file, const char *key,
                               kvsi_gguf_type type, kvs_err *err);
/* Elements: numbers by index; strings in order, starting with *at = 0. */
/* 1e-5 is stored as the nearest float; the shortest decimal number that rounds to this float is the
 * original value. */
double kvsi_gguf_meant(double found);
float kvsi_gguf_float_at(const kvsi_gguf_value *array, size_t index);
int32_t kvsi_gguf_int_at(const kvsi_gguf_value *array, size_t index);
const char *kvsi_gguf_next_text(const kvsi_gguf_value *array, size_t *at, size_t *size);

/* Reads the tensors in file order and checks types, shapes, and that their data lies within the
 * file without overlap.  Shapes have the outermost dimension first, the reverse of the file. 
 * Separate from opening because a vocabulary can be read without the tensors. */
kvs_status kvsi_gguf_read_tensors(kvsi_gguf *file, kvs_err *err);
size_t kvsi_gguf_tensor_count(const kvsi_gguf *file);
const kvsi_file_tensor *kvsi_gguf_tensor_at(const kvsi_gguf *file, size_t index);
/* NULL if there is no such tensor. */
const kvsi_file_tensor *kvsi_gguf_find_tensor(const kvsi_gguf *file, const char *name);

#endif
