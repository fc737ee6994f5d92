/* Taps of a session's own.  All taps of the model, with those of some heads replaced, are kept as
 * parameters of the form `channel`, whichever form the model has: kernels only see taps, so the
 * heads that were not replaced compute the same bits. */
#include "base/memory.h"
#include "kernels/forms.h"
#include "model/state.h"

#include <math.h>
#include <string.h>

enum { TARGETS = 3 };

static const unsigned targets[TARGETS] = {KVS_SHIFT_Q, KVS_SHIFT_K, KVS_SHIFT_V};

/* The taps of one head, for all of its channels. */
typedef struct head_taps {
    size_t layer, head;
    unsigned target;
    real taps[KVSI_TAPS_MAX]; /* zeros after the last */
} head_taps;

struct kvsi_state_taps {
    size_t count;
    head_taps *heads;      /* [count] the replaced ones, sorted */
    real *values[TARGETS]; /* backend memory, layer by layer [heads, head_size, window + 1]; NULL =
                              not shifted */
};

/* ---- places ---- */

static size_t heads_of(kvsi_layer_shape shape, unsigned target)
{
    return target == KVS_SHIFT_Q ? shape.heads : shape.kv_heads;
}

/* Values of one head. */
static size_t head_values(const kvsi_state *state, size_t layer)
{
    const kvsi_layer_shape shape = kvsi_layer_shape_of(state->config, layer);

    return shape.head_size * (state->config->shift.window + 1);
}

static size_t layer_values(const kvsi_state *state, size_t layer, unsigned target)
{
    const kvsi_layer_shape shape = kvsi_layer_shape_of(state->config, layer);

    return heads_of(shape, target) * head_values(state, layer);
}

/* Where a layer starts in the values of a target; the layer after the last is the end. */
static size_t layer_at(const kvsi_state *state, size_t layer, unsigned target)
{
    size_t at = 0;

    for (size_t l = 0; l < layer; l++)
        at += layer_values(state, l, target);
    return at;
}

static real *values_of(const kvsi_state_taps *taps, unsigned target)
{
    return taps->values[target == KVS_SHIFT_Q ? 0 : target == KVS_SHIFT_K ? 1 : 2];
}

const real *kvsi_state_taps_of(const kvsi_state *state, size_t layer, unsigned target)
{
    return state->taps ? values_of(state->taps, target) + layer_at(state, layer, target) : NULL;
}

/* ---- memory ---- */

static void release(const kvsi_state *state, kvsi_state_taps *taps)
{
    const kvsi_context *c = &state->model->context;

    if (!taps)
        return;
    for (size_t i = 0; i < TARGETS; i++)
        c->ops->release(c, taps->values[i]);
    kvsi_free(taps->heads);
    kvsi_free(taps);
}

void kvsi_state_release_taps(kvsi_state *state)
{
    release(state, state->taps);
    state->taps = NULL;
}

/* Taps with room for `count` replaced heads; the values are not set. */
static kvs_status allocate(kvsi_state_taps **out, const kvsi_state *state, size_t count,
                           kvs_err *err)
{
    const kvsi_context *c = &state->model->context;
    const size_t layers = state->config->layers;
    kvsi_state_taps *taps = kvsi_alloc(1, sizeof *taps);
    int complete = taps != NULL;

    *out = NULL;
    if (taps)
        taps->heads = kvsi_alloc(count, sizeof *taps->heads);
    complete = complete && taps->heads;
    for (size_t i = 0; complete && i < TARGETS; i++)
        if (state->config->shift.targets & targets[i]) {
            taps->values[i] = c->ops->alloc(c, layer_at(state, layers, targets[i]) * sizeof(real));
            complete = taps->values[i] != NULL;
        }
    if (!complete) {
        release(state, taps);
        return kvsi_fail(err, KVS_E_NOMEM, "out of memory for the taps of a session");
    }
    *out = taps;
    return KVS_OK;
}

/* ---- the model's taps ---- */

/* Uploads the model's taps of one layer: of all heads, or of `head` unless SIZE_MAX. */
static kvs_status upload_layer(const kvsi_state_taps *taps, const kvsi_state *state, size_t layer,
                               unsigned target, size_t head, kvs_err *err)
{
    const size_t each = head_values(state, layer), all = layer_values(state, layer, target);
    const size_t from = head == SIZE_MAX ? 0 : head * each, count = head == SIZE_MAX ? all : each;
    kvsi_context c = state->model->context;
    real *values = kvsi_alloc(all, sizeof *values);
    kvs_status st;

    if (!values) {
        st = kvsi_fail(err, KVS_E_NOMEM, "out of memory for the taps of layer %zu", layer);
        goto out;
    }
    TRY_OUT(kvsi_layer_taps(values, state->model, layer, target, err));
    c.ops->upload(&c, values_of(taps, target) + layer_at(state, layer, target) + from,
                  values + from, count * sizeof *values);
    st = kvsi_sync(&c, err);
out:
    kvsi_free(values);
    return st;
}

static kvs_status create(kvsi_state_taps **out, const kvsi_state *state, kvs_err *err)
{
    kvsi_state_taps *taps;
    kvs_status st;

    TRY_OUT(allocate(&taps, state, 0, err));
    for (size_t i = 0; i < TARGETS; i++)
        for (size_t l = 0; taps->values[i] && l < state->config->layers; l++)
            TRY_OUT(upload_layer(taps, state, l, targets[i], SIZE_MAX, err));
    *out = taps;
    taps = NULL;
out:
    release(state, taps);
    return st;
}

/* ---- replacing ---- */

static int place_of(const head_taps *x)
{
    return x->target == KVS_SHIFT_Q ? 0 : x->target == KVS_SHIFT_K ? 1 : 2;
}

/* Order by layer, target and head. */
static int compare(const head_taps *x, const head_taps *y)
{
    if (x->layer != y->layer)
        return x->layer < y->layer ? -1 : 1;
    if (x->target != y->target)
        return place_of(x) - place_of(y);
    return x->head < y->head ? -1 : x->head > y->head;
}

/* A copy of the list without the head of `given`, and with `given` itself if `add`. */
static kvs_status change_list(head_taps **out, size_t *count, const kvsi_state_taps *taps,
                              const head_taps *given, int add, kvs_err *err)
{
    head_taps *list = kvsi_alloc(taps->count + 1, sizeof *list);
    size_t from = 0, to = 0;

    if (!list)
        return kvsi_fail(err, KVS_E_NOMEM, "out of memory for the taps of a session");
    while (from < taps->count && compare(&taps->heads[from], given) < 0)
        list[to++] = taps->heads[from++];
    if (add)
        list[to++] = *given;
    if (from < taps->count && compare(&taps->heads[from], given) == 0)
        from++;
    while (from < taps->count)
        list[to++] = taps->heads[from++];
    *out = list;
    *count = to;
    return KVS_OK;
}

/* Uploads the taps of one head, the same for all channels. */
static kvs_status upload_head(const kvsi_state_taps *taps, const kvsi_state *state,
                              const head_taps *given, kvs_err *err)
{
    const size_t each = head_values(state, given->layer), number = state->config->shift.window + 1;
    real *to = values_of(taps, given->target) + layer_at(state, given->layer, given->target) +
               given->head * each;
    kvsi_context c = state->model->context;

    for (size_t at = 0; at < each; at += number)
        c.ops->upload(&c, to + at, given->taps, number * sizeof *given->taps);
    return kvsi_sync(&c, err);
}

static kvs_status check(const kvsi_state *state, size_t layer, unsigned target, size_t head,
                        const double *taps, kvs_err *err)
{
    TRY(kvsi_check_shifted_head(state->config, layer, target, head, err));
    if (state->config->shift.form == KVSI_SHIFT_DATA)
        return kvsi_fail(err, KVS_E_UNSUPPORTED, "shift form 'data' has no fixed taps");
    if (state->length > 0)
        return kvsi_fail(err, KVS_E_INVALID,
                         "the session has %zu tokens; only taps of an empty one can be replaced",
                         state->length);
    for (size_t j = 0; taps && j <= state->config->shift.window; j++)
        if (!isfinite((real)taps[j]))
            return kvsi_fail(err, KVS_E_INVALID, "tap %zu is %g, expected a finite number", j,
                             taps[j]);
    return KVS_OK;
}

kvs_status kvsi_state_set_taps(kvsi_state *state, size_t layer, unsigned target, size_t head,
                               const double *taps, kvs_err *err)
{
    head_taps given = {.layer = layer, .target = target, .head = head}, *list = NULL;
    kvsi_state_taps *made = NULL, *now;
    size_t count = 0;
    kvs_status st;

    TRY_OUT(check(state, layer, target, head, taps, err));
    if (!taps && !state->taps)
        goto out;
    if (!state->taps)
        TRY_OUT(create(&made, state, err));
    now = state->taps ? state->taps : made;
    for (size_t j = 0; taps && j <= state->config->shift.window; j++)
        given.taps[j] = (real)taps[j];
    TRY_OUT(change_list(&list, &count, now, &given, taps != NULL, err));
    TRY_OUT(taps ? upload_head(now, state, &given, err)
                 : upload_layer(now, state, layer, target, head, err));
    kvsi_free(now->heads);
    now->heads = list;
    now->count = count;
    state->taps = now;
    list = NULL;
    made = NULL;
    if (count == 0)
        kvsi_state_release_taps(state);
out:
    release(state, made);
    kvsi_free(list);
    return st;
}

kvs_status kvsi_state_copy_taps(kvsi_state *to, const kvsi_state *from, kvs_err *err)
{
    kvsi_context c = to->model->context;

    if (!from->taps)
        return KVS_OK;
    TRY(allocate(&to->taps, to, from->taps->count, err));
    to->taps->count = from->taps->count;
    memcpy(to->taps->heads, from->taps->heads, from->taps->count * sizeof *to->taps->heads);
    for (size_t i = 0; i < TARGETS; i++)
        if (to->taps->values[i])
            c.ops->copy(&c, to->taps->values[i], from->taps->values[i],
                        layer_at(to, to->config->layers, targets[i]) * sizeof(real));
    return KVS_OK;
}

int kvsi_state_same_taps(const kvsi_state *x, const kvsi_state *y)
{
    if (!x->taps || !y->taps)
        return x->taps == y->taps;
    if (x->taps->count != y->taps->count)
        return 0;
    for (size_t i = 0; i < x->taps->count; i++) {
        const head_taps *a = &x->taps->heads[i], *b = &y->taps->heads[i];

        if (compare(a, b) != 0)
            return 0;
        for (size_t j = 0; j < sizeof a->taps / sizeof *a->taps; j++)
            if (a->taps[j] != b->taps[j])
                return 0;
    }
    return 1;
}
