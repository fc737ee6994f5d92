/* tokenizer/tokenizer_files.h - tokenizers in other files, turned into a tokenizer.json. */
#ifndef KVSI_TOKENIZER_TOKENIZER_FILES_H
#define KVSI_TOKENIZER_TOKENIZER_FILES_H

#include "formats/gguf_write.h"
#include "tokenizer/tokenizer.h"

enum { KVSI_TOKENIZER_FILE_MAX = 1 << 30 }; /* bytes */

/* ---- byte-level: GPT-2 and its many heirs ---- */

/* A document with an empty vocabulary; `expression` splits words before bytes are mapped, NULL =
 * GPT-2's, "" = none.  NULL if out of memory. */
json_t *kvsi_byte_level_json(const char *expression);
/* Adds a token, of the model or an added one beside it. */
kvs_status kvsi_tokenizer_json_add_piece(json_t *document, const char *piece, size_t size,
                                         size_t id, kvs_err *err);
kvs_status kvsi_tokenizer_json_add_token(json_t *document, const char *content, size_t size,
                                         size_t id, int special, kvs_err *err);
/* "a b" */
kvs_status kvsi_tokenizer_json_add_merge(json_t *document, const char *merge, size_t size,
                                         kvs_err *err);
/* A template that puts the token before every text, or behind it. */
kvs_status kvsi_tokenizer_json_set_template(json_t *document, const char *before, size_t before_id,
                                            const char *after, size_t after_id, kvs_err *err);

/* encoder.json and vocab.bpe, or vocab.json and merges.txt, of a folder. */
kvs_status kvsi_tokenizer_load_gpt2(kvs_tokenizer **out, const char *dir, kvs_err *err);
int kvsi_has_gpt2_files(const char *dir);

/* ---- SentencePiece ---- */

typedef enum kvsi_piece_kind { /* numbers as in files */
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
    int is_added; /* in the list of added tokens, too */
} kvsi_sp_piece;

/* Starts as {0}, then kvsi_sp_model_init. */
typedef struct kvsi_sp_model {
    kvsi_sp_piece *pieces;
    size_t count, capacity;
    int64_t unknown, bos, eos; /* -1 = none */
    const char *character_map; /* borrowed; NULL = none */
    size_t character_map_size;
    int add_bos, add_eos, add_dummy_prefix, remove_extra_spaces, byte_fallback;
    const json_t *added; /* the added tokens, as a tokenizer.json has them; borrowed; NULL = the
                            control tokens and the unknown one */
} kvsi_sp_model;

void kvsi_sp_model_init(kvsi_sp_model *sp); /* what Llama has */
kvs_status kvsi_sp_model_add(kvsi_sp_model *sp, const kvsi_sp_piece *piece, kvs_err *err);
kvs_status kvsi_tokenizer_from_sp_model(kvs_tokenizer **out, const kvsi_sp_model *sp,
                                        const char *what, kvs_err *err);

/* Whether a document's normalizer is that of some such model; then `out` has its two flags.  A
 * character map before it is not looked at. */
int kvsi_sp_model_read_normalizer(kvsi_sp_model *out, const json_t *normalizer);

kvs_status kvsi_tokenizer_load_sentencepiece(kvs_tokenizer **out, const char *path, kvs_err *err);
kvs_status kvsi_tokenizer_load_llama2c(kvs_tokenizer **out, const char *path, kvs_err *err);

/* ---- GGUF: either kind ---- */

kvs_status kvsi_tokenizer_load_gguf(kvs_tokenizer **out, const char *path, kvs_err *err);

/* What such files call the rules that split words by this expression (NULL: GPT-2's), with or
 * without merges for words that are pieces; NULL: they have no name for them. */
const char *kvsi_gguf_split_name(const char *expression, int ignore_merges);

/* A tokenizer as such a file has it.  Starts as {0}. */
typedef struct kvsi_gguf_tokenizer {
    kvsi_gguf_vocabulary vocabulary; /* views of what follows, and of the tokenizer */
    kvsi_gguf_token *tokens, *merges;
    kvsi_text bytes;
    char *document;
} kvsi_gguf_tokenizer;

kvs_status kvsi_tokenizer_to_gguf(kvsi_gguf_tokenizer *out, const kvs_tokenizer *t, kvs_err *err);
void kvsi_gguf_tokenizer_release(kvsi_gguf_tokenizer *words);

/* ---- files of Hugging Face beside a tokenizer's own (tokenizer_config.c) ---- */

typedef struct kvsi_tokenizer_config {
    char *dir;
    json_t *config, *map, *added; /* the three files; NULL = not there, or it does not count */
    json_t *list;                 /* the added tokens, once applied */
    size_t limit;                 /* ids from here on are none of the model's in the folder */
} kvsi_tokenizer_config;

/* What is beside the file at `path`, if that is called `name`; nothing otherwise. */
kvs_status kvsi_tokenizer_config_open(kvsi_tokenizer_config *out, const char *path,
                                      const char *name, kvs_err *err);
void kvsi_tokenizer_config_close(kvsi_tokenizer_config *config_files);
/* Adds what is said there to a SentencePiece model, which then borrows from it: added tokens, first
 * and last token, and whether they are put around a text. */
kvs_status kvsi_tokenizer_config_apply(kvsi_tokenizer_config *config_files, kvsi_sp_model *sp,
                                       kvs_err *err);
/* Takes from there which tokens are first and last.  What is put around a text stays as the
 * tokenizer.json says, as in transformers 5. */
kvs_status kvsi_tokenizer_config_set_bos_eos(const kvsi_tokenizer_config *config_files,
                                             kvs_tokenizer *t, kvs_err *err);
/* Writes a tokenizer_config.json that says which tokens are first and last beside a new
 * tokenizer.json, unless there is one. */
kvs_status kvsi_tokenizer_config_write(const kvs_tokenizer *t, const char *path, kvs_err *err);

/* ---- any of them ---- */

/* Whether kvs_tokenizer_load finds something in a folder. */
int kvsi_folder_has_tokenizer(const char *dir);
/* Whether a GGUF file has a vocabulary beside its tensors. */
kvs_status kvsi_gguf_has_tokenizer(int *out, const char *path, kvs_err *err);

/* ---- saving ---- */

/* Whether a tokenizer.json gives the same ids.  SentencePiece knows characters that are no tokens,
 * and symbols of the user that begin no new text, as added tokens do. */
int kvsi_tokenizer_fits_json(const kvs_tokenizer *t);
/* The tokenizer.json: a new reference, or NULL if out of memory. */
json_t *kvsi_tokenizer_to_json(const kvs_tokenizer *t);

#endif
