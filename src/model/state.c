#include "model/state.h"

/* Numbers of one layer: of its cache (target 0), or of the tail of a target. */
static size_t layer_numbers(const kvsi_state *state, unsigned target, size_t layer)
{
    const kvs_model_config *c = &state->model->config;
    const kvsi_layer_shape shape = kvsi_layer_shape_of(c, layer);

    if (target == 0)
        return shape.kv_heads * shape.head_size * state->capacity;
    return (target == KVS_SHIFT_Q ? shape.heads : shape.kv_heads) * shape.head_size *
           c->shift.window;
}

/* Numbers of all layers before `layer`. */
static size_t numbers_before(const kvsi_state *state, unsigned target, size_t layer)
{
    size_t sum = 0;

    for (size_t l = 0; l < layer; l++)
        sum += layer_numbers(state, target, l);
    return sum;
}

static size_t bytes_of(const kvsi_state *state, unsigned target)
{
    return numbers_before(state, target, state->model->config.layers) * sizeof(real);
}

/* The three tails with the target each belongs to. */
typedef struct tail_slot {
    real **tail;
    unsigned target;
} tail_slot;

enum { TAILS = 3 };

static void tail_slots(tail_slot *slots, kvsi_state *state)
{
    slots[0] = (tail_slot){&state->tail_q, KVS_SHIFT_Q};
    slots[1] = (tail_slot){&state->tail_k, KVS_SHIFT_K};
    slots[2] = (tail_slot){&state->tail_v, KVS_SHIFT_V};
}

kvs_status kvsi_state_init(kvsi_state *state, const kvs_model *model, size_t capacity, kvs_err *err)
{
    const kvs_model_config *c = &model->config;
    const kvsi_ops *op = model->context.ops;
    tail_slot slots[TAILS];
    int complete;

    *state = (kvsi_state){.model = model, .capacity = capacity > 0 ? capacity : c->context};
    if (state->capacity > c->context)
        return kvsi_fail(err, KVS_E_LIMIT, "a session of %zu tokens is longer than the context %zu",
                         capacity, c->context);
    state->k = op->alloc(bytes_of(state, 0));
    state->v = op->alloc(bytes_of(state, 0));
    state->last = op->alloc(c->dim * sizeof *state->last);
    complete = state->k && state->v && state->last;
    tail_slots(slots, state);
    for (size_t i = 0; i < TAILS; i++)
        if (c->shift.targets & slots[i].target) {
            *slots[i].tail = op->alloc(bytes_of(state, slots[i].target));
            complete = complete && *slots[i].tail;
        }
    if (complete)
        return KVS_OK;
    kvsi_fail(err, KVS_E_NOMEM, "out of memory for a session of %zu tokens", state->capacity);
    kvsi_state_release(state);
    return KVS_E_NOMEM;
}

void kvsi_state_release(kvsi_state *state)
{
    tail_slot slots[TAILS];

    if (!state->model)
        return;
    tail_slots(slots, state);
    for (size_t i = 0; i < TAILS; i++)
        state->model->context.ops->release(*slots[i].tail);
    state->model->context.ops->release(state->k);
    state->model->context.ops->release(state->v);
    state->model->context.ops->release(state->last);
    *state = (kvsi_state){0};
}

void kvsi_state_reset(kvsi_state *state)
{
    kvsi_context context = state->model->context;
    tail_slot slots[TAILS];

    state->length = 0;
    tail_slots(slots, state);
    for (size_t i = 0; i < TAILS; i++)
        if (*slots[i].tail)
            context.ops->zero(&context, *slots[i].tail, bytes_of(state, slots[i].target));
}

static real *tail_of(const kvsi_state *state, real *tail, unsigned target, size_t layer)
{
    return tail ? tail + numbers_before(state, target, layer) : NULL;
}

void kvsi_state_attach(kvsi_span *span, const kvsi_state *state, size_t layer)
{
    const size_t at = numbers_before(state, 0, layer);

    span->past = state->length;
    span->capacity = state->capacity;
    span->k = state->k + at;
    span->v = state->v + at;
    span->tail_q = tail_of(state, state->tail_q, KVS_SHIFT_Q, layer);
    span->tail_k = tail_of(state, state->tail_k, KVS_SHIFT_K, layer);
    span->tail_v = tail_of(state, state->tail_v, KVS_SHIFT_V, layer);
}
