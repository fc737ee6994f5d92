/* model/state.h - what a sequence carries from one chunk of tokens to the next.
 *
 * Per layer: the cache of K^ (shifted and rotated) and V^ (shifted), and the tails: the last
 * `window` RAW rows of each shifted target, and of each output that is filtered.  Raw, because the
 * shift of the next token needs them and they cannot be recovered from shifted rows.  A snapshot of
 * the tail is kept every KVSI_SNAPSHOT tokens: a rewind restores the snapshot before the new length
 * and feeds the few tokens after it again.  The state belongs to a sequence, not to the model.
 *
 * A layer with a sliding window keeps only the rows that it, or a rewind, may still need:
 *
 *     position  0 ....... sliding_first ....................... length
 *     cache     dropped   [ reach of rewinds | window | newest ] free rows
 *
 * When the free rows are used up, the rows that are still needed move to the front: at most once in
 * KVSI_STATE_CHUNK tokens, which costs little compared with attention over them. */
#ifndef KVSI_MODEL_STATE_H
#define KVSI_MODEL_STATE_H

#include "model/model.h"

enum { KVSI_STATE_CHUNK = 256 }; /* most tokens per pass for a state that drops rows */

/* Where one layer starts, in values: in k and v, and in the tails of each kind. */
typedef struct kvsi_state_place {
    size_t cache, tails[KVSI_TAILS];
} kvsi_state_place;

typedef struct kvsi_state_taps kvsi_state_taps; /* defined in state_taps.c */

typedef struct kvsi_state {
    const kvs_model *model;         /* borrowed */
    const kvs_model_config *config; /* the model's */
    size_t length, capacity;
    size_t snapshots;         /* most snapshots per tail */
    size_t sliding_rows;      /* rows of the cache in layers with a sliding window */
    size_t sliding_first;     /* position of row 0 there, a multiple of KVSI_SNAPSHOT */
    kvsi_dtype cache;         /* type of k and v: KVSI_REAL_TYPE, KVSI_F16 or KVSI_Q8_0 */
    unsigned char *k, *v;     /* layer by layer [kv_heads, rows, head_size] */
    real *tails[KVSI_TAILS];  /* layer by layer [1 + snapshots, window, width of a row]; NULL = not
                                 shifted or filtered */
    kvsi_state_place *places; /* [layers + 1]; the last one is the end */
    real *last;               /* [dim] the last token's output after the final norm */
    int last_of_many;         /* `last` was computed in a pass of more than KVSI_FEW_ROWS tokens */
    kvsi_state_taps *taps;    /* the state's own taps; NULL = the model's taps are used */
} kvsi_state;

/* The cache type for a public type name. */
kvs_status kvsi_cache_type(kvsi_dtype *out, kvs_dtype name, kvs_err *err);
/* Fails if heads of the model are not whole blocks of the type. */
kvs_status kvsi_cache_check(const kvs_model_config *config, kvsi_dtype cache, kvs_err *err);

/* Bytes of backend memory that kvsi_state_init allocates; `capacity` is not 0. */
size_t kvsi_state_bytes(const kvs_model_config *config, size_t capacity, kvsi_dtype cache);

kvs_status kvsi_state_init(kvsi_state *state, const kvs_model *model, size_t capacity,
                           kvsi_dtype cache, kvs_err *err);
void kvsi_state_release(kvsi_state *state);
void kvsi_state_reset(kvsi_state *state); /* back to an empty sequence */

/* Fills a span's cache and tails for one layer. */
void kvsi_state_attach(kvsi_span *span, const kvsi_state *state, size_t layer);
/* The most tokens that one pass may add, even if more would fit. */
size_t kvsi_state_chunk(const kvsi_state *state);
/* Drops rows as needed to add `count` tokens, at most a chunk. */
void kvsi_state_drop_rows(kvsi_state *state, size_t count);

/* The shortest length, besides 0, that the state can be rewound to. */
size_t kvsi_state_earliest(const kvsi_state *state);
/* Rewinds to at most KVSI_SNAPSHOT tokens before `length`, which is not 0 and not below the
 * earliest; the caller must feed the missing tokens again. */
void kvsi_state_cut(kvsi_state *state, size_t length);

/* Sets the length of an empty state whose contents are filled in afterwards; 0 = these values are
 * impossible. */
int kvsi_state_claim(kvsi_state *state, size_t length, size_t sliding_first);

/* ---- its contents as tensors, for copies and files ---- */

enum { KVSI_STATE_NAME = 48 };

/* One tensor in backend memory: `strips` pieces of `strip` bytes, `stride` bytes apart. */
typedef struct kvsi_state_part {
    char name[KVSI_STATE_NAME]; /* "layers.3.k_tail" */
    size_t rank, shape[3];
    kvsi_dtype type;
    unsigned char *data;          /* NULL = the model has no such part */
    size_t strips, strip, stride; /* strip, stride in bytes */
} kvsi_state_part;

/* The index-th tensor of the state's contents; returns 0 past the end. */
int kvsi_state_part_at(kvsi_state_part *out, const kvsi_state *state, size_t index);
/* Copies the first `length` tokens of a state to an empty one.  If `from` has more tokens, only as
 * many are copied as kvsi_state_cut(from, length) would leave, and the caller must feed the missing
 * tokens again.  `length` has the limits of kvsi_state_cut(); `to` must have room for it. */
void kvsi_state_copy(kvsi_state *to, const kvsi_state *from, size_t length);

/* ---- the state's own taps: state_taps.c ---- */

/* Replaces the taps of one head, oldest first; NULL = the model's taps are used again.  Fails if
 * the state is not empty.  A failure changes nothing. */
kvs_status kvsi_state_set_taps(kvsi_state *state, size_t layer, unsigned target, size_t head,
                               const double *taps, kvs_err *err);
/* Gives `to`, which must not have its own taps, a copy of those of `from`, if there are any. */
kvs_status kvsi_state_copy_taps(kvsi_state *to, const kvsi_state *from, kvs_err *err);
/* Whether two states of one model have equal taps, so that one pass can compute both. */
int kvsi_state_same_taps(const kvsi_state *x, const kvsi_state *y);
/* Returns all taps of one target of a layer, in backend memory, as parameters of the form
 * `channel`; NULL = the model's parameters are used. */
const real *kvsi_state_taps_of(const kvsi_state *state, size_t layer, unsigned target);
void kvsi_state_release_taps(kvsi_state *state);

#endif
