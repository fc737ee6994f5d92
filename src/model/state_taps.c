/* A session's own taps.  The state then has a copy of all taps of the model in which some heads are
 * replaced.  The copy has the layout of parameters of the form `channel`, whichever form the model
 * has.  The kernels compute with taps in every form, so the other heads give the same bits. */
#include "base/memory.h"
#include "kernels/forms.h"
#include "model/state.h"

#include <math.h>
#include <string.h>

enum { TARGETS = 3 };

static const unsigned targets[TARGETS] = {KVS_SHIFT_Q, KVS_SHIFT_K, KVS_SHIFT_V};

/* The taps of one replaced head, which are the same for all of its channels. */
typedef struct head_taps {
    size_t layer, head;
    unsigned target;
    real taps[KVSI_TAPS_MAX]; /* zeros after the last */
} head_taps;

struct kvsi_state_taps {
    size_t count;
    head_taps *heads;      /* [count] the replaced heads, sorted */
    real *values[TARGETS]; /* backend memory, layer by layer [heads, head_size, window + 1]; NULL =
                              not shifted */
};

/* ---- where values are ---- */

/* Returns the index of a target in `targets` and in kvsi_state_taps.values. */
static size_t index_of(unsigned target)
{
    return target == KVS_SHIFT_Q ? 0 : target == KVS_SHIFT_K ? 1 : 2;
}

/* Returns the number of values of one head: its taps for each channel. */
static size_t head_values(const kvsi_state *state, size_t layer)
{
    const kvsi_layer_shape shape = kvsi_layer_shape_of(state->config, layer);

    return shape.head_size * (state->config->shift.window + 1);
}

static size_t layer_values(const kvsi_state *state, size_t layer, unsigned target)
{
    const kvsi_layer_shape shape = kvsi_layer_shape_of(state->config, layer);

    return kvsi_target_heads(&shape, target) * head_values(state, layer);
}

/* Returns the number of values of a target in all layers before `layer`. */
static size_t values_before(const kvsi_state *state, size_t layer, unsigned target)
{
    size_t at = 0;

    for (size_t l = 0; l < layer; l++)
        at += layer_values(state, l, target);
    return at;
}

/* Returns the values of one head; the next heads of the layer follow. */
static real *head_at(const kvsi_state_taps *taps, const kvsi_state *state, size_t layer,
                     unsigned target, size_t head)
{
    return taps->values[index_of(target)] + values_before(state, layer, target) +
           head * head_values(state, layer);
}

const real *kvsi_state_taps_of(const kvsi_state *state, size_t layer, unsigned target)
{
    return state->taps ? head_at(state->taps, state, layer, target, 0) : NULL;
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

/* Allocates taps with room for `count` replaced heads.  The values are not set. */
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
            taps->values[i] =
                c->ops->alloc(c, values_before(state, layers, targets[i]) * sizeof(real));
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

/* Uploads the model's taps of `count` heads of one layer, from head `first` on. */
static kvs_status upload_model(const kvsi_state_taps *taps, const kvsi_state *state, size_t layer,
                               unsigned target, size_t first, size_t count, kvs_err *err)
{
    const size_t each = head_values(state, layer);
    kvsi_context c = state->model->context;
    real *values = kvsi_alloc(layer_values(state, layer, target), sizeof *values);
    kvs_status st;

    if (!values) {
        st = kvsi_fail(err, KVS_E_NOMEM, "out of memory for the taps of layer %zu", layer);
        goto out;
    }
    TRY_OUT(kvsi_layer_taps(values, state->model, layer, target, err));
    c.ops->upload(&c, head_at(taps, state, layer, target, first), values + first * each,
                  count * each * sizeof *values);
    st = kvsi_sync(&c, err);
out:
    kvsi_free(values);
    return st;
}

/* Creates taps in which no head is replaced. */
static kvs_status create(kvsi_state_taps **out, const kvsi_state *state, kvs_err *err)
{
    kvsi_state_taps *taps;
    kvs_status st;

    TRY_OUT(allocate(&taps, state, 0, err));
    for (size_t i = 0; i < TARGETS; i++)
        for (size_t l = 0; taps->values[i] && l < state->config->layers; l++) {
            const kvsi_layer_shape shape = kvsi_layer_shape_of(state->config, l);

            TRY_OUT(upload_model(taps, state, l, targets[i], 0,
                                 kvsi_target_heads(&shape, targets[i]), err));
        }
    *out = taps;
    taps = NULL;
out:
    release(state, taps);
    return st;
}

/* ---- replaced heads ---- */

/* Compares two heads by layer, target and number. */
static int compare(const head_taps *x, const head_taps *y)
{
    if (x->layer != y->layer)
        return x->layer < y->layer ? -1 : 1;
    if (x->target != y->target)
        return index_of(x->target) < index_of(y->target) ? -1 : 1;
    return x->head < y->head ? -1 : x->head > y->head;
}

/* Allocates a copy of the list of replaced heads.  If `add`, it has `given`, which replaces an
 * older entry of the same head; otherwise it has no entry of that head. */
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

/* Uploads the taps of one replaced head to all of its channels. */
static kvs_status upload_head(const kvsi_state_taps *taps, const kvsi_state *state,
                              const head_taps *given, kvs_err *err)
{
    const size_t each = head_values(state, given->layer), number = state->config->shift.window + 1;
    real *to = head_at(taps, state, given->layer, given->target, given->head);
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
                 : upload_model(now, state, layer, target, head, 1, err));
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
                        values_before(to, to->config->layers, targets[i]) * sizeof(real));
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
