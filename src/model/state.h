/* model/state.h - what a sequence carries from one chunk of tokens to the next.
 *
 * Per layer: the cache of K^ (shifted and rotated) and V^ (shifted), and beside it the RAW last
 * `window` rows of whatever is shifted: its tail.  Raw, because the next token's shift needs them,
 * and they cannot be had back from the shifted ones.  So the tail is also kept as it was at every
 * KVSI_SNAPSHOT tokens: to go back, one takes the tail of the mark before and feeds the few tokens from
 * there on again.  The state is the sequence's, never the model's.
 *
 * A layer with a sliding window holds only the rows that it, or a rewind, may still want:
 *
 *     position  0 ....... sliding_first ....................... length
 *     cache     forgotten [ reach of rewinds | window | newest ] room to grow
 *
 * When the room is used up, what is still wanted moves to the front: once in KVSI_STATE_CHUNK
 * tokens or less often, which costs little beside the attention to as many rows at every token. */
#ifndef KVSI_MODEL_STATE_H
#define KVSI_MODEL_STATE_H

#include "model/model.h"

enum { KVSI_STATE_CHUNK = 256 }; /* tokens that a pass may add to a state that forgets */

/* Where one layer starts, in values: in k and v, and in the tails of each target. */
typedef struct kvsi_state_place {
    size_t cache, tail_q, tail_k, tail_v;
} kvsi_state_place;

typedef struct kvsi_state {
    const kvs_model *model;         /* borrowed */
    const kvs_model_config *config; /* its */
    size_t length, capacity;
    size_t snapshots;               /* that there is room for */
    size_t sliding_rows;            /* of the cache, in layers with a sliding window */
    size_t sliding_first;           /* position of the first of them, a multiple of KVSI_SNAPSHOT */
    kvsi_dtype cache;               /* type of k and v: KVSI_REAL_TYPE or KVSI_F16 */
    unsigned char *k, *v;           /* layer by layer [kv_heads, rows, head_size] */
    real *tail_q, *tail_k, *tail_v; /* layer by layer [1 + marks, window, heads * head_size];
                                       NULL = not shifted */
    kvsi_state_place *places;       /* [layers + 1], the last one being the end */
    real *last; /* [dim] what left the last token, normed: all that the head needs */
} kvsi_state;

/* The type of a cache that callers name so. */
kvs_status kvsi_cache_type(kvsi_dtype *out, kvs_dtype name, kvs_err *err);

/* Bytes of backend memory that kvsi_state_init will take; `capacity` is not 0. */
size_t kvsi_state_bytes(const kvs_model_config *config, size_t capacity, kvsi_dtype cache);

kvs_status kvsi_state_init(kvsi_state *state, const kvs_model *model, size_t capacity,
                           kvsi_dtype cache, kvs_err *err);
void kvsi_state_release(kvsi_state *state);
void kvsi_state_reset(kvsi_state *state); /* back to an empty sequence */

/* The part of a span that one layer needs. */
void kvsi_state_attach(kvsi_span *span, const kvsi_state *state, size_t layer);
/* The most tokens that one pass may add, even if there is room for more. */
size_t kvsi_state_chunk(const kvsi_state *state);
/* Forgets as much as it takes to add `count` tokens, no more than a chunk. */
void kvsi_state_make_room(kvsi_state *state, size_t count);

/* The shortest length but 0 that the state can go back to. */
size_t kvsi_state_earliest(const kvsi_state *state);
/* Back to a shorter length, not 0 and no less than the earliest: the state is left a little before
 * it (at most KVSI_SNAPSHOT tokens), and those tokens must be fed again. */
void kvsi_state_cut(kvsi_state *state, size_t length);

/* Makes an empty state one whose contents are still to be put in; 0 = no state looks like that. */
int kvsi_state_claim(kvsi_state *state, size_t length, size_t sliding_first);

/* ---- its contents as tensors, for copies and files ---- */

enum { KVSI_STATE_NAME = 48 };

/* In backend memory `strips` runs of bytes, `stride` apart. */
typedef struct kvsi_state_part {
    char name[KVSI_STATE_NAME]; /* "layers.3.k_tail" */
    size_t rank, shape[3];
    kvsi_dtype type;
    unsigned char *data;          /* NULL = the model has no such part */
    size_t strips, strip, stride; /* of bytes */
} kvsi_state_part;

/* What the state holds at its length, part by part; 0 past the end. */
int kvsi_state_part_at(kvsi_state_part *out, const kvsi_state *state, size_t index);
/* `to` has room for the length of `from`. */
void kvsi_state_copy(kvsi_state *to, const kvsi_state *from);

#endif
