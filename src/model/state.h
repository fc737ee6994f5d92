/* model/state.h - what a sequence carries from one chunk of tokens to the next.
 *
 * Per layer: the cache of K^ (shifted and rotated) and V^ (shifted), and beside it the RAW last
 * `window` rows of whatever is shifted.  Raw, because the next token's shift needs them, and they
 * cannot be had back from the shifted ones.  The state is the sequence's, never the model's. */
#ifndef KVSI_MODEL_STATE_H
#define KVSI_MODEL_STATE_H

#include "model/model.h"

typedef struct kvsi_state {
    const kvs_model *model; /* borrowed */
    size_t length, capacity;
    real *k, *v;                    /* layer by layer [kv_heads, capacity, head_size] */
    real *tail_q, *tail_k, *tail_v; /* layer by layer [window, heads * head_size];
                                       NULL = not shifted */
    real *last; /* [dim] what left the last token, normed: all that the head needs */
} kvsi_state;

enum { KVSI_STATE_CHUNK = 256 }; /* tokens that a pass may add to one state */

kvs_status kvsi_state_init(kvsi_state *state, const kvs_model *model, size_t capacity,
                           kvs_err *err);
void kvsi_state_release(kvsi_state *state);
void kvsi_state_reset(kvsi_state *state); /* back to an empty sequence */

/* The part of a span that one layer needs. */
void kvsi_state_attach(kvsi_span *span, const kvsi_state *state, size_t layer);

#endif
