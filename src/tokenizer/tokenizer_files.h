/* tokenizer/tokenizer_files.h - tokenizer file formats; every reader produces a tokenizer.json. */
#ifndef KVSI_TOKENIZER_TOKENIZER_FILES_H
#define KVSI_TOKENIZER_TOKENIZER_FILES_H

#include "formats/gguf_write.h"
#include "tokenizer/tokenizer.h"

enum { KVSI_TOKENIZER_FILE_MAX = 1 << 30 }; /* bytes */

/* ---- byte-level vocabularies (GPT-2 and others) ---- */

/* A tokenizer.json with an empty vocabulary.  `expression` splits words before bytes are mapped;
 * NULL = GPT-2's, "" = none.  NULL if out of memory. */
json_t *kvsi_byte_level_json(const char *expression);
/* Adds a token to the model's vocabulary or to the added tokens. */
kvs_status kvsi_tokenizer_json_add_piece(json_t *document, const char *piece, size_t size,
                                         size_t id, kvs_err *err);
kvs_status kvsi_tokenizer_json_add_token(json_t *document, const char *content, size_t size,
                                         size_t id, int special, kvs_err *err);
/* `merge` is "a b". */
kvs_status kvsi_tokenizer_json_add_merge(json_t *document, const char *merge, size_t size,
                                         kvs_err *err);
/* Sets a template with a token before or after every text; NULL = none. */
kvs_status kvsi_tokenizer_json_set_template(json_t *document, const char *before, size_t before_id,
                                            const char *after, size_t after_id, kvs_err *err);

/* Reads encoder.json and vocab.bpe, or vocab.json and merges.txt, from a folder. */
kvs_status kvsi_tokenizer_load_gpt2(kvs_tokenizer **out, const char *dir, kvs_err *err);
int kvsi_has_gpt2_files(const char *dir);

/* ---- SentencePiece ---- */

typedef enum kvsi_piece_kind { /* values as in files */
                               KVSI_PIECE_NORMAL = 1,
                               KVSI_PIECE_UNKNOWN = 2,
                               KVSI_PIECE_CONTROL = 3,
                               KVSI_PIECE_USER_DEFINED = 4,
                               KVSI_PIECE_UNUSED = 5,
                               KVSI_PIECE_BYTE = 6,
} kvsi_piece_kind;

typedef struct kvsi_sp_piece {
    const char *text; /* borrowed, not NUL-terminated */
    size_t size;
    float score;
    int kind;
    int is_added; /* also in the list of added tokens */
} kvsi_sp_piece;

/* Starts as {0}, then kvsi_sp_model_init. */
typedef struct kvsi_sp_model {
    kvsi_sp_piece *pieces;
    size_t count, capacity;
    int64_t unknown, bos, eos; /* -1 = none */
    const char *character_map; /* borrowed; NULL = none */
    size_t character_map_size;
    int add_bos, add_eos, add_dummy_prefix, remove_extra_spaces, byte_fallback;
    const json_t *added; /* added tokens in the form of tokenizer.json; borrowed; NULL: the control
                            tokens and the unknown token */
} kvsi_sp_model;

void kvsi_sp_model_init(kvsi_sp_model *sp); /* Llama's values */
kvs_status kvsi_sp_model_add(kvsi_sp_model *sp, const kvsi_sp_piece *piece, kvs_err *err);
kvs_status kvsi_tokenizer_from_sp_model(kvs_tokenizer **out, const kvsi_sp_model *sp,
                                        const char *what, kvs_err *err);

/* Whether a tokenizer.json's normalizer is that of a SentencePiece model; then sets its two flags
 * in *out.  A leading character map is ignored. */
int kvsi_sp_model_read_normalizer(kvsi_sp_model *out, const json_t *normalizer);

kvs_status kvsi_tokenizer_load_sentencepiece(kvs_tokenizer **out, const char *path, kvs_err *err);
kvs_status kvsi_tokenizer_load_llama2c(kvs_tokenizer **out, const char *path, kvs_err *err);

/* ---- GGUF: both kinds ---- */

kvs_status kvsi_tokenizer_load_gguf(kvs_tokenizer **out, const char *path, kvs_err *err);

/* GGUF's name of the pre-tokenizer with this expression (NULL = GPT-2's); NULL if it has none. */
const char *kvsi_gguf_split_name(const char *expression, int ignore_merges);

/* A tokenizer in GGUF's form.  Starts as {0}. */
typedef struct kvsi_gguf_tokenizer {
    kvsi_gguf_vocabulary vocabulary; /* points into the members below and the tokenizer */
    kvsi_gguf_token *tokens, *merges;
    kvsi_text bytes;
    char *document;
} kvsi_gguf_tokenizer;

kvs_status kvsi_tokenizer_to_gguf(kvsi_gguf_tokenizer *out, const kvs_tokenizer *t, kvs_err *err);
void kvsi_gguf_tokenizer_release(kvsi_gguf_tokenizer *words);

/* ---- Hugging Face's configuration files (tokenizer_config.c) ---- */

typedef struct kvsi_tokenizer_config {
    char *dir;
    json_t *config, *map, *added; /* the three files; NULL = missing or not used */
    json_t *list;                 /* the added tokens, after kvsi_tokenizer_config_apply */
    size_t limit;                 /* the model's vocabulary size; larger ids are ignored */
} kvsi_tokenizer_config;

/* Reads the files in the folder of `path` if the file at `path` is called `name`. */
kvs_status kvsi_tokenizer_config_open(kvsi_tokenizer_config *out, const char *path,
                                      const char *name, kvs_err *err);
void kvsi_tokenizer_config_close(kvsi_tokenizer_config *config_files);
/* Adds their contents to a SentencePiece model, which borrows them: added tokens, BOS, EOS, and
 * whether these are added to a text. */
kvs_status kvsi_tokenizer_config_apply(kvsi_tokenizer_config *config_files, kvsi_sp_model *sp,
                                       kvs_err *err);
/* Sets BOS and EOS.  The template stays that of tokenizer.json, as in transformers 5. */
kvs_status kvsi_tokenizer_config_set_bos_eos(const kvsi_tokenizer_config *config_files,
                                             kvs_tokenizer *t, kvs_err *err);
/* Writes a tokenizer_config.json with BOS and EOS beside a new tokenizer.json, unless one
 * exists. */
kvs_status kvsi_tokenizer_config_write(const kvs_tokenizer *t, const char *path, kvs_err *err);

/* ---- any format ---- */

/* Whether kvs_tokenizer_load would find a tokenizer in the folder. */
int kvsi_folder_has_tokenizer(const char *dir);
/* Whether a GGUF file contains a vocabulary. */
kvs_status kvsi_gguf_has_tokenizer(int *out, const char *path, kvs_err *err);

/* ---- saving ---- */

/* Whether a tokenizer.json can represent the tokenizer exactly.  It cannot represent merges of
 * characters that are not tokens, nor user-defined symbols without a prefix space after them. */
int kvsi_tokenizer_fits_json(const kvs_tokenizer *t);
/* A new reference to the tokenizer.json, or NULL if out of memory. */
json_t *kvsi_tokenizer_to_json(const kvs_tokenizer *t);

#endif
