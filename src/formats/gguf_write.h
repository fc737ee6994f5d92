/* formats/gguf_write.h - writes GGUF version 3: keys first, then tensors, one at a time.
 *
 *     kvsi_gguf_keys keys = {0};
 *     kvsi_gguf_put_text(&keys, "general.architecture", "llama");    as many as needed
 *     st = kvsi_gguf_write(path, &keys, &source, err);               reports failed allocations
 *     kvsi_gguf_keys_release(&keys); */
#ifndef KVSI_FORMATS_GGUF_WRITE_H
#define KVSI_FORMATS_GGUF_WRITE_H

#include "base/text.h"
#include "formats/tensor.h"
#include "formats/token_ids.h"

typedef struct kvsi_gguf_keys {
    kvsi_text bytes; /* in the file's encoding */
    uint64_t count;
} kvsi_gguf_keys;

void kvsi_gguf_keys_release(kvsi_gguf_keys *keys);

void kvsi_gguf_put_whole(kvsi_gguf_keys *keys, const char *key, uint32_t value);
void kvsi_gguf_put_real(kvsi_gguf_keys *keys, const char *key, double value); /* 32-bit float */
void kvsi_gguf_put_flag(kvsi_gguf_keys *keys, const char *key, int value);
void kvsi_gguf_put_text(kvsi_gguf_keys *keys, const char *key, const char *text);

/* ---- the vocabulary ---- */

typedef struct kvsi_gguf_token {
    const char *text; /* not NUL-terminated */
    size_t size;
    float score;
    int32_t type; /* 1 normal, 2 unknown, 3 control, 4 user-defined, 5 unused, 6 byte */
} kvsi_gguf_token;

/* A tokenizer in GGUF: SentencePiece pieces with scores ("llama"), byte-level tokens with merges
 * ("gpt2") or, if it is neither, a tokenizer.json. */
typedef struct kvsi_gguf_vocabulary {
    const char *model; /* "llama" or "gpt2"; NULL: only `document` */
    const char *pre;   /* gpt2: the name of the pre-tokenizer */
    const kvsi_gguf_token *tokens;
    size_t count;
    const kvsi_gguf_token *merges; /* gpt2: strings "a b", by rank */
    size_t merge_count;
    int32_t unknown, bos, eos; /* -1 = none */
    int add_bos, add_eos, add_space_prefix, remove_extra_spaces;
    const char *character_map; /* llama: SentencePiece's normalization; NULL = none */
    size_t character_map_size;
    const char *document;
    const char *reason; /* why model is NULL: what GGUF cannot represent */
} kvsi_gguf_vocabulary;

/* Writes at least `size` tokens, padded with unused ones. */
void kvsi_gguf_put_vocabulary(kvsi_gguf_keys *keys, const kvsi_gguf_vocabulary *vocabulary,
                              size_t size);

/* ---- files ---- */

/* Tensors have their names in the file and shapes with the outermost dimension first. */
kvs_status kvsi_gguf_write(const char *path, const kvsi_gguf_keys *keys,
                           const kvsi_tensor_source *source, kvs_err *err);

typedef enum kvsi_gguf_architecture {
    KVSI_GGUF_ANY,   /* one of llama.cpp's if possible */
    KVSI_GGUF_LLAMA, /* fails if llama.cpp does not run the model */
} kvsi_gguf_architecture;

/* What a file holds beside the model. */
typedef struct kvsi_gguf_extras {
    const kvsi_gguf_vocabulary *vocabulary; /* NULL = none */
    const kvsi_token_ids *ids;              /* the model's special tokens */
    const char *chat_template;              /* NULL = none */
} kvsi_gguf_extras;

/* The ids of special tokens that the vocabulary does not set. */
void kvsi_gguf_put_token_ids(kvsi_gguf_keys *keys, const kvsi_gguf_extras *extras);

/* Writes a model from tensors with our names, as an architecture that llama.cpp runs, or "kvshift"
 * (docs/formats.md). */
kvs_status kvsi_gguf_write_model(const char *path, const kvs_model_config *config,
                                 kvsi_gguf_architecture architecture,
                                 const kvsi_gguf_extras *extras, const kvsi_tensor_source *source,
                                 kvs_err *err);

#endif
