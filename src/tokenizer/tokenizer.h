/* tokenizer/tokenizer.h - a tokenizer in memory has the structure of a tokenizer.json.
 *
 *   text -> added tokens cut out -> normalizers -> added tokens again -> pre-tokenizers -> words
 *        -> byte-pair encoding of each word -> ids -> tokens that the post-processor adds
 *   ids  -> pieces -> decoders -> text
 *
 * Every other format is converted to a tokenizer.json (tokenizer_files.h) and read by
 * tokenizer_json.c and components.c.  SentencePiece vocabularies differ only in the model: their
 * ranks come from scores, which may be equal, and unknown characters fall back to bytes after
 * merging, not before. */
#ifndef KVSI_TOKENIZER_TOKENIZER_H
#define KVSI_TOKENIZER_TOKENIZER_H

#include "base/json.h"
#include "tokenizer/merges.h"
#include "tokenizer/pattern.h"
#include "tokenizer/trie.h"
#include "tokenizer/vocabulary.h"
#include "tokenizer/workspace.h"

/* ---- components: normalizers, pre-tokenizers and decoders ---- */

typedef enum kvsi_component_kind {
    /* normalizers */
    KVSI_NFC,
    KVSI_NFD,
    KVSI_NFKC,
    KVSI_NFKD,
    KVSI_LOWERCASE,
    KVSI_PREPEND,       /* prepends content unless the text is empty */
    KVSI_STRIP_SPACES,  /* start, stop: at which ends */
    KVSI_REPLACE,       /* replaces pattern by content; also a decoder */
    KVSI_CHARACTER_MAP, /* content = the map; keep */
    /* pre-tokenizers */
    KVSI_SPLIT,        /* by pattern, or at characters of class `is`; behavior, invert */
    KVSI_PREFIX_SPACE, /* adds a space unless the text starts with one */
    KVSI_BYTE_LEVEL,   /* bytes to the characters that represent them; also a decoder */
    KVSI_METASPACE,    /* spaces to content; prefix, split; also a decoder */
    /* decoders */
    KVSI_BYTE_FALLBACK,
    KVSI_FUSE,
    KVSI_STRIP /* removes content up to `start` and `stop` times */
} kvsi_component_kind;

typedef enum kvsi_behavior {
    KVSI_REMOVED,
    KVSI_ISOLATED,
    KVSI_MERGED_WITH_PREVIOUS,
    KVSI_MERGED_WITH_NEXT,
    KVSI_CONTIGUOUS,
} kvsi_behavior;

typedef enum kvsi_prefix { KVSI_PREFIX_NEVER, KVSI_PREFIX_FIRST, KVSI_PREFIX_ALWAYS } kvsi_prefix;

typedef struct kvsi_component {
    kvsi_component_kind kind;
    kvsi_pattern *pattern; /* owned */
    int (*is)(uint32_t code);
    char *content; /* owned; valid UTF-8 except for a character map */
    size_t content_size, start, stop;
    kvsi_behavior behavior;
    kvsi_prefix prefix;
    int invert, split;
    const kvsi_trie *keep; /* borrowed; may be NULL */
} kvsi_component;

typedef struct kvsi_components {
    kvsi_component *list;
    size_t count, capacity;
} kvsi_components;

typedef enum kvsi_component_role {
    KVSI_NORMALIZER,
    KVSI_PRE_TOKENIZER,
    KVSI_DECODER
} kvsi_component_role;

/* Reads a component or a sequence of them; NULL and null are none.  An unknown component is
 * KVS_E_UNSUPPORTED.  On failure too, the caller releases *out. */
kvs_status kvsi_components_read(kvsi_components *out, kvsi_component_role role, const json_t *value,
                                const char *what, kvs_err *err);
void kvsi_components_release(kvsi_components *components);

/* ---- added tokens ---- */

typedef struct kvsi_added {
    int32_t id;
    int special, single_word, strip_left, strip_right;
    int normalized; /* it is found in normalized text */
} kvsi_added;

/* ---- the tokenizer ---- */

enum { KVSI_TOKENS_MAX = 1 << 22 };

struct kvs_tokenizer {
    json_t *document; /* the tokenizer.json, without the model's vocab and merges */
    kvsi_vocabulary vocabulary;
    size_t vocab; /* number of ids; larger ids in `vocabulary` are characters that occur only
                     inside pieces (SentencePiece) */
    kvsi_merges merges;
    kvsi_merges joinable;      /* pairs of characters that a merge can join; see safe_split.c */
    int32_t byte_ids[256];     /* of <0x00> .. <0xFF>, or with `byte_words` of the characters that
                              represent bytes; -1 = none */
    int32_t unknown, bos, eos; /* -1 = none */
    int32_t document_bos, document_eos; /* what a reader of the tokenizer.json alone would use */
    int byte_words; /* the last pre-tokenizer is ByteLevel: words reach the model as bytes */
    int byte_fallback, ignore_merges, fuse_unknown;
    int is_sentencepiece;   /* unknown characters fall back to bytes after merging */
    float *scores;          /* SentencePiece: the score and kind (kvsi_piece_kind) of each */
    unsigned char *kinds;   /* piece as in the file; NULL for others */
    kvsi_trie user_defined; /* SentencePiece: symbols that are never merged */

    kvsi_components normalizers, pre_tokenizers, decoders;
    kvsi_added *added;
    size_t added_count, added_capacity;
    kvsi_trie added_raw, added_normalized; /* values are indices into `added` */
    kvsi_ids before, after;                /* the template: ids added before and after a text */

    kvsi_workspaces *workspaces; /* the only part that encoding and decoding change */
};

/* Takes over the reference to `document`, a tokenizer.json; `what` names it in messages. */
kvs_status kvsi_tokenizer_from_json(kvs_tokenizer **out, json_t *document, const char *what,
                                    kvs_err *err);

/* ---- encoding, in order ---- */

/* The largest size that normalizers or pre-tokenizers may produce from `size` bytes, and its
 * check. */
size_t kvsi_growth_limit(size_t size);
kvs_status kvsi_check_growth(size_t size, size_t limit, kvs_err *err);
/* Appends the normalized text. */
kvs_status kvsi_normalize(const kvsi_components *normalizers, kvsi_matcher *matcher, kvsi_text *out,
                          const char *text, size_t size, kvs_err *err);
/* Calls `callback` with each word; `first`: the text is not preceded by other text. */
typedef kvs_status (*kvsi_word_callback)(void *user, const char *word, size_t size, kvs_err *err);
kvs_status kvsi_pre_tokenize(const kvs_tokenizer *t, kvsi_matcher *matcher, const char *text,
                             size_t size, int first, kvsi_word_callback callback, void *user,
                             kvs_err *err);
/* Appends the ids of one word. */
kvs_status kvsi_encode_word(const kvs_tokenizer *t, kvsi_workspace *w, const char *word,
                            size_t size, kvsi_ids *out, kvs_err *err);
/* Records which characters merges can join.  Call when the merges are complete. */
kvs_status kvsi_find_joinable(kvs_tokenizer *t, kvs_err *err);
/* Records that a string must not be split. */
kvs_status kvsi_forbid_split(kvs_tokenizer *t, const char *text, size_t size, kvs_err *err);
/* The size of a prefix of the text, which is not empty, whose ids do not depend on the rest. */
size_t kvsi_safe_prefix(const kvs_tokenizer *t, const char *text, size_t size);
/* Appends the characters that represent the bytes. */
void kvsi_map_bytes(kvsi_text *out, const char *bytes, size_t size);
/* The byte of a piece "<0xNN>", or -1. */
int kvsi_byte_piece(const char *text, size_t size);

#endif
