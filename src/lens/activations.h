/* lens/activations.h - the names of activations, and the set of them that a caller wants. */
#ifndef KVSI_LENS_ACTIVATIONS_H
#define KVSI_LENS_ACTIVATIONS_H

#include "model/layer.h"

/* The kinds are in the order of computation: before the layers, in each layer, after the layers. */
typedef enum kvsi_activation_kind {
    KVSI_ACT_EMBED,
    KVSI_ACT_POS_EMBED,
    KVSI_ACT_RESID_PRE, /* the first of a layer */
    KVSI_ACT_NORMED_1,
    KVSI_ACT_Q_RAW,
    KVSI_ACT_K_RAW,
    KVSI_ACT_V_RAW,
    KVSI_ACT_Q,
    KVSI_ACT_K,
    KVSI_ACT_V,
    KVSI_ACT_ROT_Q,
    KVSI_ACT_ROT_K,
    KVSI_ACT_SCORES,
    KVSI_ACT_PATTERN,
    KVSI_ACT_CONTENT,
    KVSI_ACT_Z,
    KVSI_ACT_ATTN_OUT,
    KVSI_ACT_RESID_MID, /* the last before the MLP */
    KVSI_ACT_NORMED_2,
    KVSI_ACT_MLP_PRE,
    KVSI_ACT_MLP_PRE_LINEAR,
    KVSI_ACT_MLP_POST,
    KVSI_ACT_MLP_OUT,
    KVSI_ACT_RESID_POST, /* the last of a layer */
    KVSI_ACT_FINAL,
    KVSI_ACT_LOGITS,
    KVSI_ACTIVATIONS
} kvsi_activation_kind;

enum { KVSI_ACTIVATION_NAME = 64 }; /* size of the buffer for a name with its layer */

/* Writes the name with its layer; `layer` is ignored for activations outside the layers. */
void kvsi_activation_format(char out[KVSI_ACTIVATION_NAME], kvsi_activation_kind kind,
                            size_t layer);

/* Bit `kind` of a mask is 1 if this activation is wanted and the model has it. */
typedef struct kvsi_wanted {
    uint32_t outside; /* mask of the activations outside the layers */
    uint32_t *layer;  /* [layers] mask of each layer */
    size_t layers;
} kvsi_wanted;

/* Returns a mask with the bits of kinds `first` to `last`. */
static inline uint32_t kvsi_activation_bits(kvsi_activation_kind first, kvsi_activation_kind last)
{
    return (uint32_t)((UINT64_C(2) << last) - (UINT64_C(1) << first));
}

static inline int kvsi_wants(uint32_t mask, kvsi_activation_kind kind)
{
    return (mask >> kind & 1) != 0;
}

static inline int kvsi_wants_any(uint32_t mask, kvsi_activation_kind first,
                                 kvsi_activation_kind last)
{
    return (mask & kvsi_activation_bits(first, last)) != 0;
}

/* Sets *out to the activations with these names; `names` NULL = all that the model has.  The caller
 * releases it with kvsi_wanted_release. */
kvs_status kvsi_wanted_init(kvsi_wanted *out, const kvs_model_config *config,
                            const char *const *names, size_t count, kvs_err *err);
void kvsi_wanted_release(kvsi_wanted *wanted);
/* Whether anything is wanted that is computed after the embedding. */
int kvsi_wanted_after_embedding(const kvsi_wanted *wanted);
/* Whether anything is wanted that is computed after activation `last` of a layer. */
int kvsi_wanted_after(const kvsi_wanted *wanted, size_t layer, kvsi_activation_kind last);

#endif
