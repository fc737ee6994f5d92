/* The names of activations, and the list of names that a caller wants. */
#include "lens/activations.h"

#include "base/memory.h"
#include "base/text.h"

#include <stdio.h>
#include <string.h>

static const char *const names_of[] = {
    [KVSI_ACT_EMBED] = "hook_embed",
    [KVSI_ACT_POS_EMBED] = "hook_pos_embed",
    [KVSI_ACT_RESID_PRE] = "blocks.*.hook_resid_pre",
    [KVSI_ACT_NORMED_1] = "blocks.*.ln1.hook_normalized",
    [KVSI_ACT_Q_RAW] = "blocks.*.attn.hook_q_raw",
    [KVSI_ACT_K_RAW] = "blocks.*.attn.hook_k_raw",
    [KVSI_ACT_V_RAW] = "blocks.*.attn.hook_v_raw",
    [KVSI_ACT_Q] = "blocks.*.attn.hook_q",
    [KVSI_ACT_K] = "blocks.*.attn.hook_k",
    [KVSI_ACT_V] = "blocks.*.attn.hook_v",
    [KVSI_ACT_ROT_Q] = "blocks.*.attn.hook_rot_q",
    [KVSI_ACT_ROT_K] = "blocks.*.attn.hook_rot_k",
    [KVSI_ACT_SCORES] = "blocks.*.attn.hook_attn_scores",
    [KVSI_ACT_PATTERN] = "blocks.*.attn.hook_pattern",
    [KVSI_ACT_CONTENT] = "blocks.*.attn.hook_content",
    [KVSI_ACT_Z] = "blocks.*.attn.hook_z",
    [KVSI_ACT_ATTN_OUT] = "blocks.*.hook_attn_out",
    [KVSI_ACT_RESID_MID] = "blocks.*.hook_resid_mid",
    [KVSI_ACT_NORMED_2] = "blocks.*.ln2.hook_normalized",
    [KVSI_ACT_MLP_PRE] = "blocks.*.mlp.hook_pre",
    [KVSI_ACT_MLP_PRE_LINEAR] = "blocks.*.mlp.hook_pre_linear",
    [KVSI_ACT_MLP_POST] = "blocks.*.mlp.hook_post",
    [KVSI_ACT_MLP_OUT] = "blocks.*.hook_mlp_out",
    [KVSI_ACT_RESID_POST] = "blocks.*.hook_resid_post",
    [KVSI_ACT_FINAL] = "ln_final.hook_normalized",
    [KVSI_ACT_LOGITS] = "logits",
};

_Static_assert(sizeof names_of / sizeof *names_of == KVSI_ACTIVATIONS, "each kind has a name");
_Static_assert(KVSI_ACTIVATIONS <= 32, "kinds are bits of a mask");

static const char in_layer[] = "blocks.";
enum { IN_LAYER = sizeof in_layer - 1 };

const char *kvs_activation_name(size_t index)
{
    return index < KVSI_ACTIVATIONS ? names_of[index] : NULL;
}

static int is_in_layer(size_t kind)
{
    return kind >= KVSI_ACT_RESID_PRE && kind <= KVSI_ACT_RESID_POST;
}

void kvsi_activation_format(char out[KVSI_ACTIVATION_NAME], kvsi_activation_kind kind, size_t layer)
{
    if (is_in_layer(kind))
        snprintf(out, KVSI_ACTIVATION_NAME, "%s%zu%s", in_layer, layer,
                 names_of[kind] + IN_LAYER + 1);
    else
        snprintf(out, KVSI_ACTIVATION_NAME, "%s", names_of[kind]);
}

/* ---- the activations that a model has -------------------------------------------------------- */

static uint32_t bit(kvsi_activation_kind kind)
{
    return kvsi_activation_bits(kind, kind);
}

static uint32_t has_outside(const kvs_model_config *c)
{
    return bit(KVSI_ACT_EMBED) | bit(KVSI_ACT_LOGITS) |
           (c->positions == KVSI_POSITIONS_LEARNED ? bit(KVSI_ACT_POS_EMBED) : 0) |
           (c->no_norm ? 0 : bit(KVSI_ACT_FINAL));
}

static uint32_t has_in_layer(const kvs_model_config *c, size_t layer)
{
    uint32_t mask = kvsi_activation_bits(KVSI_ACT_RESID_PRE, KVSI_ACT_RESID_POST);

    if (c->no_norm || c->norm_place == KVSI_NORM_AFTER)
        mask &= ~(bit(KVSI_ACT_NORMED_1) | bit(KVSI_ACT_NORMED_2));
    if (kvsi_layer_shape_of(c, layer).rotary == 0)
        mask &= ~(bit(KVSI_ACT_ROT_Q) | bit(KVSI_ACT_ROT_K));
    if (c->plain_mlp)
        mask &= ~bit(KVSI_ACT_MLP_PRE_LINEAR);
    if (c->no_mlp)
        mask &= ~kvsi_activation_bits(KVSI_ACT_RESID_MID, KVSI_ACT_MLP_OUT);
    return mask;
}

/* ---- the wanted names ------------------------------------------------------------------------ */

/* The LAYER of a name "blocks.LAYER.REST". */
typedef struct layer_part {
    size_t length; /* characters; 0 = the name has another form */
    int every;     /* LAYER is "*" */
    int number;    /* LAYER is a number without leading zeros */
    size_t layer;  /* the number; SIZE_MAX = too large */
} layer_part;

static layer_part find_layer(const char *name)
{
    const char *at = name + IN_LAYER;
    layer_part part = {0};
    size_t digits;

    if (strncmp(name, in_layer, IN_LAYER) != 0 || !strchr(at, '.'))
        return part;
    part.length = strcspn(at, ".");
    part.every = part.length == 1 && *at == '*';
    digits = strspn(at, "0123456789");
    part.number = digits > 0 && digits == part.length && (*at != '0' || digits == 1);
    for (size_t i = 0; part.number && i < digits; i++) {
        const size_t digit = (size_t)(at[i] - '0');

        part.layer = part.layer > (SIZE_MAX - digit) / 10 ? SIZE_MAX : part.layer * 10 + digit;
    }
    return part;
}

/* Whether the name is that of `kind`, in one layer or in all of them. */
static int is_kind(const char *name, const layer_part *part, size_t kind)
{
    if (!is_in_layer(kind))
        return strcmp(name, names_of[kind]) == 0;
    return (part->every || part->number) &&
           strcmp(name + IN_LAYER + part->length, names_of[kind] + IN_LAYER + 1) == 0;
}

static const char *name_at(const void *names, size_t index)
{
    (void)names;
    return kvs_activation_name(index);
}

/* Fails with the nearest name as a hint, which has the layer of the unknown name. */
static kvs_status fail_unknown(const char *name, const layer_part *part, kvs_err *err)
{
    char like[2 * KVSI_ACTIVATION_NAME];
    const char *nearest;

    if (part->length > 0)
        snprintf(like, sizeof like, "%s*%s", in_layer, name + IN_LAYER + part->length);
    else
        snprintf(like, sizeof like, "%s", name);
    nearest = kvsi_nearest_name(like, name_at, NULL);
    if (!nearest)
        return kvsi_fail(err, KVS_E_INVALID,
                         "unknown activation '%s'; kvs_activation_name() lists them", name);
    if (!strchr(nearest, '*') || !part->number)
        return kvsi_fail(err, KVS_E_INVALID, "unknown activation '%s'; did you mean '%s'?", name,
                         nearest);
    return kvsi_fail(err, KVS_E_INVALID, "unknown activation '%s'; did you mean '%s%.*s%s'?", name,
                     in_layer, (int)part->length, name + IN_LAYER, nearest + IN_LAYER + 1);
}

/* Sets the bits of one name, also of activations that the model does not have. */
static kvs_status want(kvsi_wanted *w, const char *name, kvs_err *err)
{
    const layer_part part = find_layer(name);
    kvsi_activation_kind kind = 0;

    while (kind < KVSI_ACTIVATIONS && !is_kind(name, &part, kind))
        kind++;
    if (kind == KVSI_ACTIVATIONS)
        return fail_unknown(name, &part, err);
    if (!is_in_layer(kind)) {
        w->outside |= bit(kind);
        return KVS_OK;
    }
    if (!part.every && part.layer >= w->layers)
        return kvsi_fail(err, KVS_E_INVALID, "activation '%s': the last of %zu layers is %zu", name,
                         w->layers, w->layers - 1);
    for (size_t l = 0; l < w->layers; l++)
        if (part.every || part.layer == l)
            w->layer[l] |= bit(kind);
    return KVS_OK;
}

kvs_status kvsi_wanted_init(kvsi_wanted *out, const kvs_model_config *config,
                            const char *const *names, size_t count, kvs_err *err)
{
    kvs_status st = KVS_OK;

    *out = (kvsi_wanted){.layers = config->layers};
    out->layer = kvsi_alloc(config->layers, sizeof *out->layer);
    if (!out->layer) {
        st = kvsi_no_memory(err, "the names of activations");
        goto out;
    }
    for (size_t i = 0; names && i < count; i++) {
        if (!names[i]) {
            st = kvsi_fail(err, KVS_E_INVALID, "name %zu of the activations is NULL", i);
            goto out;
        }
        TRY_OUT(want(out, names[i], err));
    }
    out->outside = (names ? out->outside : UINT32_MAX) & has_outside(config);
    for (size_t l = 0; l < config->layers; l++)
        out->layer[l] = (names ? out->layer[l] : UINT32_MAX) & has_in_layer(config, l);
out:
    if (st != KVS_OK)
        kvsi_wanted_release(out);
    return st;
}

void kvsi_wanted_release(kvsi_wanted *wanted)
{
    kvsi_free(wanted->layer);
    *wanted = (kvsi_wanted){0};
}

int kvsi_wanted_after_embedding(const kvsi_wanted *w)
{
    return kvsi_wants_any(w->layer[0], KVSI_ACT_RESID_PRE, KVSI_ACT_RESID_POST) ||
           kvsi_wanted_after(w, 0, KVSI_ACT_RESID_POST);
}

int kvsi_wanted_after(const kvsi_wanted *w, size_t layer, kvsi_activation_kind last)
{
    if (kvsi_wants_any(w->outside, KVSI_ACT_FINAL, KVSI_ACT_LOGITS) || w->layer[layer] >> last > 1)
        return 1;
    for (size_t l = layer + 1; l < w->layers; l++)
        if (w->layer[l] != 0)
            return 1;
    return 0;
}
