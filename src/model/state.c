#include "model/state.h"

#include <stdio.h>

static size_t smaller(size_t x, size_t y)
{
    return x < y ? x : y;
}

/* ---- sizes ---- */

/* How far back a layer with a sliding window can be rewound at least. */
static size_t reach_of(const kvs_model_config *c)
{
    return c->sliding_window > KVSI_MARK ? c->sliding_window : KVSI_MARK;
}

/* Rows before the next token that such a layer must not forget: a rewind to the end of its reach
 * starts up to KVSI_MARK tokens before that, and the first of these sees a whole window. */
static size_t rows_wanted(const kvs_model_config *c)
{
    return reach_of(c) + KVSI_MARK - 1 + c->sliding_window;
}

/* Forgetting goes by whole marks, because the tiles of attention do too. */
static size_t sliding_rows(const kvs_model_config *c, size_t capacity)
{
    if (c->sliding_window == 0 || c->sliding_window >= capacity)
        return capacity;
    return smaller(rows_wanted(c) + KVSI_MARK + KVSI_STATE_CHUNK, capacity);
}

static size_t rows_of(const kvsi_state *state, kvsi_layer_shape shape)
{
    return shape.sliding_window > 0 ? state->sliding_rows : state->capacity;
}

static size_t tail_width(kvsi_layer_shape shape, unsigned target)
{
    return (target == KVS_SHIFT_Q ? shape.heads : shape.kv_heads) * shape.head_size;
}

/* Numbers of one layer: of its cache (target 0), or of the tails of a target. */
static size_t layer_numbers(const kvsi_state *state, unsigned target, size_t layer)
{
    const kvsi_layer_shape shape = kvsi_layer_shape_of(state->config, layer);

    if (target == 0)
        return shape.kv_heads * rows_of(state, shape) * shape.head_size;
    return (1 + state->marks) * state->config->shift.window * tail_width(shape, target);
}

/* Numbers of all layers before `layer`. */
static size_t numbers_before(const kvsi_state *state, unsigned target, size_t layer)
{
    size_t sum = 0;

    for (size_t l = 0; l < layer; l++)
        sum += layer_numbers(state, target, l);
    return sum;
}

/* Where a layer's cache starts; of the layer behind the last, where all of them end. */
static size_t cache_before(const kvsi_state *state, size_t layer)
{
    return kvsi_dtype_bytes(state->cache, numbers_before(state, 0, layer));
}

static size_t tail_bytes(const kvsi_state *state, unsigned target)
{
    return numbers_before(state, target, state->config->layers) * sizeof(real);
}

static kvsi_state plan(const kvs_model_config *config, size_t capacity, kvsi_dtype cache)
{
    return (kvsi_state){
        .config = config,
        .capacity = capacity,
        .cache = cache,
        .marks = config->shift.targets ? capacity / KVSI_MARK : 0,
        .sliding_rows = sliding_rows(config, capacity),
    };
}

/* ---- memory ---- */

kvs_status kvsi_cache_type(kvsi_dtype *out, kvs_dtype name, kvs_err *err)
{
    if (name != KVS_DTYPE_KEEP && name != KVS_DTYPE_F32 && name != KVS_DTYPE_F16)
        return kvsi_fail(err, KVS_E_INVALID, "a cache of type %d, expected %d (f32) or %d (f16)",
                         (int)name, KVS_DTYPE_F32, KVS_DTYPE_F16);
    *out = name == KVS_DTYPE_F16 ? KVSI_F16 : KVSI_REAL_TYPE;
    return KVS_OK;
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

size_t kvsi_state_bytes(const kvs_model_config *config, size_t capacity, kvsi_dtype cache)
{
    kvsi_state state = plan(config, capacity, cache);
    size_t bytes = 2 * cache_before(&state, config->layers) + config->dim * sizeof(real);
    tail_slot slots[TAILS];

    tail_slots(slots, &state);
    for (size_t i = 0; i < TAILS; i++)
        bytes += config->shift.targets & slots[i].target ? tail_bytes(&state, slots[i].target) : 0;
    return bytes;
}

kvs_status kvsi_state_init(kvsi_state *state, const kvs_model *model, size_t capacity,
                           kvsi_dtype cache, kvs_err *err)
{
    const kvs_model_config *c = &model->config;
    const kvsi_context *k = &model->context;
    tail_slot slots[TAILS];
    int complete;

    *state = plan(c, capacity > 0 ? capacity : c->context, cache);
    if (state->capacity > c->context)
        return kvsi_fail(err, KVS_E_LIMIT, "a session of %zu tokens is longer than the context %zu",
                         capacity, c->context);
    state->model = model;
    state->k = k->ops->alloc(k, cache_before(state, c->layers));
    state->v = k->ops->alloc(k, cache_before(state, c->layers));
    state->last = k->ops->alloc(k, c->dim * sizeof *state->last);
    complete = state->k && state->v && state->last;
    tail_slots(slots, state);
    for (size_t i = 0; i < TAILS; i++)
        if (c->shift.targets & slots[i].target) {
            *slots[i].tail = k->ops->alloc(k, tail_bytes(state, slots[i].target));
            complete = complete && *slots[i].tail;
        }
    if (complete)
        return KVS_OK;
    kvsi_fail(err, KVS_E_NOMEM, "out of memory: a session of %zu tokens needs %zu MiB",
              state->capacity, kvsi_state_bytes(c, state->capacity, cache) >> 20);
    kvsi_state_release(state);
    return KVS_E_NOMEM;
}

void kvsi_state_release(kvsi_state *state)
{
    tail_slot slots[TAILS];
    const kvsi_context *c;

    if (!state->model)
        return;
    c = &state->model->context;
    tail_slots(slots, state);
    for (size_t i = 0; i < TAILS; i++)
        c->ops->release(c, *slots[i].tail);
    c->ops->release(c, state->k);
    c->ops->release(c, state->v);
    c->ops->release(c, state->last);
    *state = (kvsi_state){0};
}

/* ---- going on ---- */

static real *tail_of(const kvsi_state *state, real *tail, unsigned target, size_t layer)
{
    return tail ? tail + numbers_before(state, target, layer) : NULL;
}

void kvsi_state_attach(kvsi_span *span, const kvsi_state *state, size_t layer)
{
    const kvsi_layer_shape shape = kvsi_layer_shape_of(state->config, layer);
    const size_t at = cache_before(state, layer);

    span->past = state->length;
    span->capacity = rows_of(state, shape);
    span->first = shape.sliding_window > 0 ? state->sliding_first : 0;
    span->k = state->k + at;
    span->v = state->v + at;
    span->halves = state->cache == KVSI_F16;
    span->marks = state->marks;
    span->tail_q = tail_of(state, state->tail_q, KVS_SHIFT_Q, layer);
    span->tail_k = tail_of(state, state->tail_k, KVS_SHIFT_K, layer);
    span->tail_v = tail_of(state, state->tail_v, KVS_SHIFT_V, layer);
}

/* Moves `count` bytes down by `by`, in steps that do not overlap. */
static void move_down(kvsi_context *c, unsigned char *bytes, size_t by, size_t count)
{
    for (size_t at = 0; at < count; at += by)
        c->ops->copy(c, bytes + at, bytes + at + by, smaller(by, count - at));
}

static void forget_rows(kvsi_state *state, size_t layer, size_t count)
{
    const kvsi_layer_shape shape = kvsi_layer_shape_of(state->config, layer);
    const size_t row = kvsi_dtype_bytes(state->cache, shape.head_size);
    const size_t kept = state->length - state->sliding_first - count;
    kvsi_context c = state->model->context;

    for (size_t h = 0; h < shape.kv_heads; h++) {
        const size_t at = cache_before(state, layer) + h * state->sliding_rows * row;

        move_down(&c, state->k + at, count * row, kept * row);
        move_down(&c, state->v + at, count * row, kept * row);
    }
}

size_t kvsi_state_chunk(const kvsi_state *state)
{
    return state->sliding_rows < state->capacity ? KVSI_STATE_CHUNK : state->capacity;
}

void kvsi_state_make_room(kvsi_state *state, size_t count)
{
    size_t first;

    if (state->length - state->sliding_first + count <= state->sliding_rows)
        return;
    first = (state->length - rows_wanted(state->config)) / KVSI_MARK * KVSI_MARK;
    for (size_t l = 0; l < state->config->layers; l++)
        if (kvsi_layer_shape_of(state->config, l).sliding_window > 0)
            forget_rows(state, l, first - state->sliding_first);
    state->sliding_first = first;
}

/* ---- going back ---- */

/* The tails become those of mark number `mark`, or those of an empty sequence. */
static void restore_tails(kvsi_state *state, size_t mark)
{
    kvsi_context c = state->model->context;
    tail_slot slots[TAILS];

    tail_slots(slots, state);
    for (size_t i = 0; i < TAILS; i++)
        for (size_t l = 0; *slots[i].tail && l < state->config->layers; l++) {
            real *tail = tail_of(state, *slots[i].tail, slots[i].target, l);
            const size_t numbers = layer_numbers(state, slots[i].target, l) / (1 + state->marks);

            if (mark == 0)
                c.ops->zero(&c, tail, numbers * sizeof *tail);
            else
                c.ops->copy(&c, tail, tail + mark * numbers, numbers * sizeof *tail);
        }
}

void kvsi_state_reset(kvsi_state *state)
{
    state->length = 0;
    state->sliding_first = 0;
    restore_tails(state, 0);
}

/* Where feeding starts again to reach a length: without a shift one token is enough. */
static size_t start_before(const kvsi_state *state, size_t length)
{
    return state->config->shift.targets ? (length - 1) / KVSI_MARK * KVSI_MARK : length - 1;
}

size_t kvsi_state_earliest(const kvsi_state *state)
{
    /* The first token that sees a whole window of what is held. */
    const size_t whole = state->sliding_first + state->config->sliding_window - 1;

    if (state->sliding_first == 0)
        return 1;
    return start_before(state, whole + 1) == whole ? whole + 1
                                                   : (whole / KVSI_MARK + 1) * KVSI_MARK + 1;
}

void kvsi_state_cut(kvsi_state *state, size_t length)
{
    state->length = start_before(state, length);
    if (state->config->shift.targets)
        restore_tails(state, state->length / KVSI_MARK);
}

/* ---- contents ---- */

int kvsi_state_claim(kvsi_state *state, size_t length, size_t sliding_first)
{
    const size_t window = state->config->sliding_window;

    if (length > state->capacity || sliding_first > length ||
        length - sliding_first > state->sliding_rows || sliding_first % KVSI_MARK != 0)
        return 0;
    if (sliding_first > 0 && (window == 0 || window > length + 1 - sliding_first))
        return 0; /* the next token would miss keys */
    state->length = length;
    state->sliding_first = sliding_first;
    return 1;
}

enum { LAST_PARTS = 1, LAYER_PARTS = 5 }; /* of the whole, and of a layer: k, v and the tails */

static kvsi_state_part cache_part(const kvsi_state *state, unsigned char *cache, size_t layer)
{
    const kvsi_layer_shape shape = kvsi_layer_shape_of(state->config, layer);
    const size_t held = state->length - (shape.sliding_window > 0 ? state->sliding_first : 0);
    const size_t row = kvsi_dtype_bytes(state->cache, shape.head_size);

    return (kvsi_state_part){
        .rank = 3,
        .shape = {shape.kv_heads, held, shape.head_size},
        .type = state->cache,
        .data = cache + cache_before(state, layer),
        .strips = shape.kv_heads,
        .strip = held * row,
        .stride = rows_of(state, shape) * row,
    };
}

static kvsi_state_part tail_part(const kvsi_state *state, real *tail, unsigned target, size_t layer)
{
    const kvsi_layer_shape shape = kvsi_layer_shape_of(state->config, layer);
    const size_t tails = 1 + state->length / KVSI_MARK, window = state->config->shift.window;

    return (kvsi_state_part){
        .rank = 3,
        .shape = {tails, window, tail_width(shape, target)},
        .type = KVSI_REAL_TYPE,
        .data = (unsigned char *)tail_of(state, tail, target, layer),
        .strips = 1,
        .strip = tails * window * tail_width(shape, target) * sizeof *tail,
    };
}

static kvsi_state_part layer_part(const kvsi_state *state, size_t layer, size_t which)
{
    switch (which) {
    case 0:
        return cache_part(state, state->k, layer);
    case 1:
        return cache_part(state, state->v, layer);
    case 2:
        return tail_part(state, state->tail_q, KVS_SHIFT_Q, layer);
    case 3:
        return tail_part(state, state->tail_k, KVS_SHIFT_K, layer);
    default:
        return tail_part(state, state->tail_v, KVS_SHIFT_V, layer);
    }
}

int kvsi_state_part_at(kvsi_state_part *out, const kvsi_state *state, size_t index)
{
    static const char *const names[LAYER_PARTS] = {"k", "v", "q_tail", "k_tail", "v_tail"};
    const size_t dim = state->config->dim;

    if (index < LAST_PARTS) {
        *out = (kvsi_state_part){.name = "last",
                                 .rank = 1,
                                 .shape = {dim},
                                 .type = KVSI_REAL_TYPE,
                                 .data = (unsigned char *)state->last,
                                 .strips = 1,
                                 .strip = dim * sizeof *state->last};
        return 1;
    }
    index -= LAST_PARTS;
    if (index >= state->config->layers * LAYER_PARTS)
        return 0;
    *out = layer_part(state, index / LAYER_PARTS, index % LAYER_PARTS);
    snprintf(out->name, sizeof out->name, "layers.%zu.%s", index / LAYER_PARTS,
             names[index % LAYER_PARTS]);
    return 1;
}

void kvsi_state_copy(kvsi_state *to, const kvsi_state *from)
{
    kvsi_context c = to->model->context;
    kvsi_state_part source, target;

    to->length = from->length;
    to->sliding_first = from->sliding_first;
    for (size_t i = 0; kvsi_state_part_at(&source, from, i); i++) {
        kvsi_state_part_at(&target, to, i);
        for (size_t s = 0; source.data && s < source.strips; s++)
            c.ops->copy(&c, target.data + s * target.stride, source.data + s * source.stride,
                        source.strip);
    }
}
