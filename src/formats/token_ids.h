/* formats/token_ids.h - ids of special tokens from a model's own files, with or without a
 * tokenizer. */
#ifndef KVSI_FORMATS_TOKEN_IDS_H
#define KVSI_FORMATS_TOKEN_IDS_H

#include "base/json.h"
#include "formats/gguf.h"

enum { KVSI_EOS_MAX = 64 };

typedef struct kvsi_token_ids {
    int32_t bos, pad;          /* -1 = not given */
    int32_t eos[KVSI_EOS_MAX]; /* each of them ends a text */
    size_t eos_count;
} kvsi_token_ids;

#define KVSI_NO_TOKEN_IDS                                                                          \
    {                                                                                              \
        .bos = -1, .pad = -1                                                                       \
    }

/* Reads a folder's config.json and generation_config.json.  The latter's "eos_token_id", a number
 * or a list, takes precedence.  Ids outside the vocabulary are ignored. */
kvs_status kvsi_token_ids_read_folder(kvsi_token_ids *out, const char *folder, size_t vocab,
                                      kvs_err *err);
/* The same from the keys "tokenizer.ggml.eos_token_id", "eot_token_id" and "eom_token_id" of a GGUF
 * file, or from the list KVSI_GGUF_EOS_LIST, which our files may have. */
#define KVSI_GGUF_EOS_LIST "tokenizer.kvshift.eos_token_ids"
kvs_status kvsi_token_ids_read_gguf(kvsi_token_ids *out, const kvsi_gguf *file, size_t vocab,
                                    kvs_err *err);

int kvsi_token_ids_has_eos(const kvsi_token_ids *ids, int32_t id);
/* The value of "eos_token_id" for config.json: a number, or a list of several.  A new reference. */
json_t *kvsi_token_ids_eos_to_json(const kvsi_token_ids *ids);

#endif
