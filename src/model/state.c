#include "model/state.h"

static size_t tail_row(const kvs_model_config *c, unsigned target)
{
    return (target == KVS_SHIFT_Q ? c->heads : c->kv_heads) * (c->dim / c->heads);
}

static size_t tail_bytes(const kvs_model_config *c, unsigned target)
{
    return c->layers * c->shift.window * tail_row(c, target) * sizeof(real);
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

static size_t layer_size(const kvsi_state *state)
{
    const kvs_model_config *c = &state->model->config;

    return c->kv_heads * state->capacity * (c->dim / c->heads);
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
    state->k = op->alloc(c->layers * layer_size(state) * sizeof(real));
    state->v = op->alloc(c->layers * layer_size(state) * sizeof(real));
    complete = state->k && state->v;
    tail_slots(slots, state);
    for (size_t i = 0; i < TAILS; i++)
        if (c->shift.targets & slots[i].target) {
            *slots[i].tail = op->alloc(tail_bytes(c, slots[i].target));
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
    *state = (kvsi_state){0};
}

void kvsi_state_reset(kvsi_state *state)
{
    const kvs_model_config *c = &state->model->config;
    kvsi_context context = state->model->context;
    tail_slot slots[TAILS];

    state->length = 0;
    tail_slots(slots, state);
    for (size_t i = 0; i < TAILS; i++)
        if (*slots[i].tail)
            context.ops->zero(&context, *slots[i].tail, tail_bytes(c, slots[i].target));
}

void kvsi_state_attach(kvsi_span *span, const kvsi_state *state, size_t layer)
{
    const kvs_model_config *c = &state->model->config;
    const size_t rows = layer * c->shift.window;

    span->past = state->length;
    span->capacity = state->capacity;
    span->k = state->k + layer * layer_size(state);
    span->v = state->v + layer * layer_size(state);
    span->tail_q = state->tail_q ? state->tail_q + rows * tail_row(c, KVS_SHIFT_Q) : NULL;
    span->tail_k = state->tail_k ? state->tail_k + rows * tail_row(c, KVS_SHIFT_K) : NULL;
    span->tail_v = state->tail_v ? state->tail_v + rows * tail_row(c, KVS_SHIFT_V) : NULL;
}
