/* model_files.h - writes models in other programs' formats byte by byte, without the library's
 * writers, so that tests can read them or damage them first. */
#ifndef KVSI_TESTS_MODEL_FILES_H
#define KVSI_TESTS_MODEL_FILES_H

#include "base/text.h"
#include "formats/tensor.h"
#include "support.h"

/* ---- bytes ---- */

void put_bytes(kvsi_text *file, const void *data, size_t size);
void put_u32(kvsi_text *file, uint32_t value);
void put_u64(kvsi_text *file, uint64_t value);

/* The position of the first `text`; fails the test if there is none. */
size_t find_bytes(const kvsi_text *file, const char *text);
/* Overwrites `size` bytes with a little-endian number. */
void patch(kvsi_text *file, size_t at, uint64_t value, size_t size);

/* Writes dir/name and returns its path in fresh memory. */
char *write_file(const char *dir, const char *name, const void *data, size_t size);

/* ---- models ---- */

/* A plain Llama of two layers whose query heads share KV heads. */
kvs_model *small_model(kvs_runtime *rt, int tied);

/* A tensor's values in fresh memory; with `interleaved`, the rows of rotary pairs of q and k are
 * adjacent. */
float *tensor_numbers(const kvs_model *model, const kvsi_parameter *p, int interleaved);

/* ---- formats ---- */

void put_safetensors(kvsi_text *file, const kvsi_file_tensor *tensors, size_t count);
/* The tensors of a model, or those from `first` to before `end`, in type `dtype`. */
void put_model_safetensors(kvsi_text *file, const kvs_model *model, kvsi_dtype dtype, size_t first,
                           size_t end);

void put_llama2c(kvsi_text *file, const kvs_model *model, int version);

/* Architecture "llama", or "kvshift" with `config` (NULL = none) as kvshift.config.  Types as in
 * GGUF: 0 = F32, 1 = F16, 30 = BF16, 8 = Q8_0, 2 = Q4_0 (the last two if rows are whole blocks);
 * vectors are F32. */
void put_gguf(kvsi_text *file, const kvs_model *model, const char *architecture, const char *config,
              uint32_t type);
/* Opens a model whose weights have such a type and stay in the file dir/model.gguf.  The
 * architecture is `llama` if the model is plain: then q and k have adjacent rotary pairs. */
kvs_model *open_as_gguf(kvs_runtime *rt, const kvs_model *model, uint32_t type, const char *dir);
/* Adds a key with a value of this GGUF type, as bytes; the tensors stay aligned. */
void add_gguf_key(kvsi_text *file, const char *key, uint32_t type, const void *value, size_t size);
void add_gguf_u32(kvsi_text *file, const char *key, uint32_t value);
void add_gguf_float(kvsi_text *file, const char *key, float value);
void add_gguf_text(kvsi_text *file, const char *key, const char *value);

#endif
