#include "model/state.h"

#include "base/memory.h"

#include <stdio.h>

static size_t smaller(size_t x, size_t y)
{
    return x < y ? x : y;
}

/* ---- sizes ---- */

/* How far back a layer with a sliding window can always be rewound. */
static size_t reach_of(const kvs_model_config *c)
{
    return c->sliding_window > KVSI_SNAPSHOT ? c->sliding_window : KVSI_SNAPSHOT;
}

/* Rows before the next token that such a layer must keep: the longest rewind starts up to
 * KVSI_SNAPSHOT tokens earlier, and the first of those tokens needs a whole window. */
static size_t rows_wanted(const kvs_model_config *c)
{
    return reach_of(c) + KVSI_SNAPSHOT - 1 + c->sliding_window;
}

/* Rows are dropped in multiples of KVSI_SNAPSHOT, the size of attention's tiles. */
static size_t sliding_rows(const kvs_model_config *c, size_t capacity)
{
    if (c->sliding_window == 0 || c->sliding_window >= capacity)
        return capacity;
    return smaller(rows_wanted(c) + KVSI_SNAPSHOT + KVSI_STATE_CHUNK, capacity);
}

static size_t rows_of(const kvsi_state *state, kvsi_layer_shape shape)
{
    return shape.sliding_window > 0 ? state->sliding_rows : state->capacity;
}

/* The rows of a tail; window 0 = the layer has none of this kind. */
typedef struct tail_shape {
    size_t window, width;
} tail_shape;

static tail_shape tail_of_target(const kvs_model_config *c, kvsi_layer_shape shape, unsigned target)
{
    return (tail_shape){c->shift.targets & target ? c->shift.window : 0,
                        kvsi_target_heads(&shape, target) * shape.head_size};
}

static tail_shape tail_of_filter(const kvs_model_config *c, unsigned site)
{
    return (tail_shape){c->filters & site ? c->filter_window : 0, c->dim};
}

static tail_shape tail_shape_of(const kvs_model_config *c, size_t layer, kvsi_tail tail)
{
    const kvsi_layer_shape shape = kvsi_layer_shape_of(c, layer);

    switch (tail) {
    case KVSI_TAIL_Q:
        return tail_of_target(c, shape, KVS_SHIFT_Q);
    case KVSI_TAIL_K:
        return tail_of_target(c, shape, KVS_SHIFT_K);
    case KVSI_TAIL_V:
        return tail_of_target(c, shape, KVS_SHIFT_V);
    case KVSI_TAIL_ATTENTION:
        return tail_of_filter(c, KVSI_FILTER_ATTENTION);
    default:
        return tail_of_filter(c, KVSI_FILTER_MLP);
    }
}

static int has_tails(const kvs_model_config *c)
{
    return c->shift.targets != 0 || c->filters != 0;
}

/* Values of one layer: in k (v has as many), and in the tails. */
static kvsi_state_place layer_values(const kvsi_state *state, size_t layer)
{
    const kvsi_layer_shape shape = kvsi_layer_shape_of(state->config, layer);
    kvsi_state_place values = {.cache = shape.kv_heads * rows_of(state, shape) * shape.head_size};

    for (int i = 0; i < KVSI_TAILS; i++) {
        const tail_shape tail = tail_shape_of(state->config, layer, (kvsi_tail)i);

        values.tails[i] = (1 + state->snapshots) * tail.window * tail.width;
    }
    return values;
}

/* Fills places[layers + 1], unless NULL; returns the end of the last layer. */
static kvsi_state_place lay_out(kvsi_state_place *places, const kvsi_state *state)
{
    kvsi_state_place at = {0};

    for (size_t l = 0; l < state->config->layers; l++) {
        const kvsi_state_place values = layer_values(state, l);

        if (places)
            places[l] = at;
        at.cache += values.cache;
        for (int i = 0; i < KVSI_TAILS; i++)
            at.tails[i] += values.tails[i];
    }
    if (places)
        places[state->config->layers] = at;
    return at;
}

/* Where a layer's cache starts, in bytes. */
static size_t cache_at(const kvsi_state *state, size_t layer)
{
    return kvsi_dtype_bytes(state->cache, state->places[layer].cache);
}

static kvsi_state plan(const kvs_model_config *config, size_t capacity, kvsi_dtype cache)
{
    return (kvsi_state){
        .config = config,
        .capacity = capacity,
        .cache = cache,
        .snapshots = has_tails(config) ? capacity / KVSI_SNAPSHOT : 0,
        .sliding_rows = sliding_rows(config, capacity),
    };
}

/* ---- memory ---- */

kvs_status kvsi_cache_type(kvsi_dtype *out, kvs_dtype name, kvs_err *err)
{
    switch (name) {
    case KVS_DTYPE_KEEP:
    case KVS_DTYPE_F32:
        *out = KVSI_REAL_TYPE;
        return KVS_OK;
    case KVS_DTYPE_F16:
        *out = KVSI_F16;
        return KVS_OK;
    case KVS_DTYPE_Q8_0:
        *out = KVSI_Q8_0;
        return KVS_OK;
    default:
        return kvsi_fail(err, KVS_E_INVALID,
                         "a cache of type %d, expected %d (f32), %d (f16) or %d (q8_0)", (int)name,
                         KVS_DTYPE_F32, KVS_DTYPE_F16, KVS_DTYPE_Q8_0);
    }
}

kvs_status kvsi_cache_check(const kvs_model_config *config, kvsi_dtype cache, kvs_err *err)
{
    const size_t block = kvsi_dtype_block(cache);

    for (size_t l = 0; l < config->layers; l++) {
        const size_t size = kvsi_layer_shape_of(config, l).head_size;

        if (size % block != 0)
            return kvsi_fail(err, KVS_E_UNSUPPORTED,
                             "a cache of type %s needs a head size that is a multiple of %zu, this "
                             "model's is %zu",
                             kvsi_dtype_name(cache), block, size);
    }
    return KVS_OK;
}

size_t kvsi_state_bytes(const kvs_model_config *config, size_t capacity, kvsi_dtype cache)
{
    const kvsi_state state = plan(config, capacity, cache);
    const kvsi_state_place end = lay_out(NULL, &state);
    size_t values = config->dim;

    for (int i = 0; i < KVSI_TAILS; i++)
        values += end.tails[i];
    return 2 * kvsi_dtype_bytes(cache, end.cache) + values * sizeof(real);
}

/* Tails of one kind; NULL if there are none. */
static real *alloc_tails(const kvsi_context *c, size_t values, int *complete)
{
    real *tails = values > 0 ? c->ops->alloc(c, values * sizeof *tails) : NULL;

    *complete &= values == 0 || tails != NULL;
    return tails;
}

kvs_status kvsi_state_init(kvsi_state *state, const kvs_model *model, size_t capacity,
                           kvsi_dtype cache, kvs_err *err)
{
    const kvs_model_config *config = &model->config;
    const kvsi_context *c = &model->context;
    kvsi_state_place end;
    int complete;

    *state = plan(config, capacity > 0 ? capacity : config->context, cache);
    if (state->capacity > config->context)
        return kvsi_fail(err, KVS_E_LIMIT, "a session of %zu tokens is longer than the context %zu",
                         capacity, config->context);
    TRY(kvsi_cache_check(config, cache, err));
    state->model = model;
    state->places = kvsi_alloc(config->layers + 1, sizeof *state->places);
    end = lay_out(state->places, state);
    state->k = c->ops->alloc(c, kvsi_dtype_bytes(cache, end.cache));
    state->v = c->ops->alloc(c, kvsi_dtype_bytes(cache, end.cache));
    state->last = c->ops->alloc(c, config->dim * sizeof *state->last);
    complete = state->places && state->k && state->v && state->last;
    for (int i = 0; i < KVSI_TAILS; i++)
        state->tails[i] = alloc_tails(c, end.tails[i], &complete);
    if (complete)
        return KVS_OK;
    kvsi_fail(err, KVS_E_NOMEM, "out of memory: a session of %zu tokens needs %zu MiB",
              state->capacity, kvsi_state_bytes(config, state->capacity, cache) >> 20);
    kvsi_state_release(state);
    return KVS_E_NOMEM;
}

void kvsi_state_release(kvsi_state *state)
{
    const kvsi_context *c;

    if (!state->model)
        return;
    c = &state->model->context;
    c->ops->release(c, state->k);
    c->ops->release(c, state->v);
    for (int i = 0; i < KVSI_TAILS; i++)
        c->ops->release(c, state->tails[i]);
    c->ops->release(c, state->last);
    kvsi_state_release_taps(state);
    kvsi_free(state->places);
    *state = (kvsi_state){0};
}

/* ---- adding tokens ---- */

/* The tails of one kind in a layer; NULL if there are none. */
static real *tails_of(const kvsi_state *state, size_t layer, int tail)
{
    return state->tails[tail] ? state->tails[tail] + state->places[layer].tails[tail] : NULL;
}

void kvsi_state_attach(kvsi_span *span, const kvsi_state *state, size_t layer)
{
    const kvsi_layer_shape shape = kvsi_layer_shape_of(state->config, layer);

    span->past = state->length;
    span->capacity = rows_of(state, shape);
    span->first = shape.sliding_window > 0 ? state->sliding_first : 0;
    span->k = state->k + cache_at(state, layer);
    span->v = state->v + cache_at(state, layer);
    span->cache = state->cache;
    span->snapshots = state->snapshots;
    for (int i = 0; i < KVSI_TAILS; i++)
        span->tails[i] = tails_of(state, layer, i);
}

/* Moves `count` bytes down by `by`, in steps that do not overlap. */
static void move_down(kvsi_context *c, unsigned char *bytes, size_t by, size_t count)
{
    for (size_t at = 0; at < count; at += by)
        c->ops->copy(c, bytes + at, bytes + at + by, smaller(by, count - at));
}

static void drop_layer_rows(kvsi_state *state, size_t layer, size_t count)
{
    const kvsi_layer_shape shape = kvsi_layer_shape_of(state->config, layer);
    const size_t row = kvsi_dtype_bytes(state->cache, shape.head_size);
    const size_t kept = state->length - state->sliding_first - count;
    kvsi_context c = state->model->context;

    for (size_t h = 0; h < shape.kv_heads; h++) {
        const size_t at = cache_at(state, layer) + h * state->sliding_rows * row;

        move_down(&c, state->k + at, count * row, kept * row);
        move_down(&c, state->v + at, count * row, kept * row);
    }
}

size_t kvsi_state_chunk(const kvsi_state *state)
{
    return state->sliding_rows < state->capacity ? KVSI_STATE_CHUNK : state->capacity;
}

void kvsi_state_drop_rows(kvsi_state *state, size_t count)
{
    size_t first;

    if (state->length - state->sliding_first + count <= state->sliding_rows)
        return;
    first = (state->length - rows_wanted(state->config)) / KVSI_SNAPSHOT * KVSI_SNAPSHOT;
    for (size_t l = 0; l < state->config->layers; l++)
        if (kvsi_layer_shape_of(state->config, l).sliding_window > 0)
            drop_layer_rows(state, l, first - state->sliding_first);
    state->sliding_first = first;
}

/* ---- rewinding ---- */

/* Restores one layer's tail of one kind from a snapshot; 0 = zeros. */
static void restore_tail(const kvsi_state *state, size_t layer, int tail, size_t snapshot)
{
    const kvsi_state_place *at = &state->places[layer], *end = at + 1;
    const size_t count = (end->tails[tail] - at->tails[tail]) / (1 + state->snapshots);
    real *tails = tails_of(state, layer, tail);
    kvsi_context c = state->model->context;

    if (!tails)
        return;
    if (snapshot == 0)
        c.ops->zero(&c, tails, count * sizeof *tails);
    else
        c.ops->copy(&c, tails, tails + snapshot * count, count * sizeof *tails);
}

/* Restores all tails from a snapshot; 0 = those of an empty sequence. */
static void restore_tails(kvsi_state *state, size_t snapshot)
{
    for (size_t l = 0; l < state->config->layers; l++)
        for (int i = 0; i < KVSI_TAILS; i++)
            restore_tail(state, l, i, snapshot);
}

void kvsi_state_reset(kvsi_state *state)
{
    state->length = 0;
    state->sliding_first = 0;
    restore_tails(state, 0);
}

/* The length to feed from again to reach `length`: without tails one token is enough. */
static size_t start_before(const kvsi_state *state, size_t length)
{
    return has_tails(state->config) ? (length - 1) / KVSI_SNAPSHOT * KVSI_SNAPSHOT : length - 1;
}

size_t kvsi_state_earliest(const kvsi_state *state)
{
    /* The first position with a whole window of rows in the cache. */
    const size_t whole = state->sliding_first + state->config->sliding_window - 1;

    if (state->sliding_first == 0)
        return 1;
    return start_before(state, whole + 1) == whole
               ? whole + 1
               : (whole / KVSI_SNAPSHOT + 1) * KVSI_SNAPSHOT + 1;
}

void kvsi_state_cut(kvsi_state *state, size_t length)
{
    state->length = start_before(state, length);
    if (has_tails(state->config))
        restore_tails(state, state->length / KVSI_SNAPSHOT);
}

/* ---- contents ---- */

int kvsi_state_claim(kvsi_state *state, size_t length, size_t sliding_first)
{
    const size_t window = state->config->sliding_window;

    if (length > state->capacity || sliding_first > length ||
        length - sliding_first > state->sliding_rows || sliding_first % KVSI_SNAPSHOT != 0)
        return 0;
    if (sliding_first > 0 && (window == 0 || window > length + 1 - sliding_first))
        return 0; /* the next token would miss keys */
    state->length = length;
    state->sliding_first = sliding_first;
    return 1;
}

enum { LAST_PARTS = 1, CACHES = 2, LAYER_PARTS = CACHES + KVSI_TAILS }; /* k, v and the tails */

static kvsi_state_part cache_part(const kvsi_state *state, unsigned char *cache, size_t layer)
{
    const kvsi_layer_shape shape = kvsi_layer_shape_of(state->config, layer);
    const size_t held = state->length - (shape.sliding_window > 0 ? state->sliding_first : 0);
    const size_t row = kvsi_dtype_bytes(state->cache, shape.head_size);
    const int blocks = kvsi_dtype_block(state->cache) > 1; /* not a type of safetensors */

    return (kvsi_state_part){
        .rank = 3,
        .shape = {shape.kv_heads, held, blocks ? row : shape.head_size},
        .type = blocks ? KVSI_U8 : state->cache,
        .data = cache + cache_at(state, layer),
        .strips = shape.kv_heads,
        .strip = held * row,
        .stride = rows_of(state, shape) * row,
    };
}

static kvsi_state_part tail_part(const kvsi_state *state, size_t layer, kvsi_tail tail)
{
    const tail_shape shape = tail_shape_of(state->config, layer, tail);
    const size_t tails = 1 + state->length / KVSI_SNAPSHOT;

    return (kvsi_state_part){
        .rank = 3,
        .shape = {tails, shape.window, shape.width},
        .type = KVSI_REAL_TYPE,
        .data = (unsigned char *)tails_of(state, layer, (int)tail),
        .strips = 1,
        .strip = tails * shape.window * shape.width * sizeof(real),
    };
}

static kvsi_state_part layer_part(const kvsi_state *state, size_t layer, size_t which)
{
    if (which < CACHES)
        return cache_part(state, which == 0 ? state->k : state->v, layer);
    return tail_part(state, layer, (kvsi_tail)(which - CACHES));
}

int kvsi_state_part_at(kvsi_state_part *out, const kvsi_state *state, size_t index)
{
    static const char *const names[LAYER_PARTS] = {
        "k", "v", "q_tail", "k_tail", "v_tail", "attention_tail", "mlp_tail"};
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

void kvsi_state_copy(kvsi_state *to, const kvsi_state *from, size_t length)
{
    kvsi_context c = to->model->context;
    kvsi_state prefix = *from; /* borrows everything */
    kvsi_state_part source, target;

    if (length < from->length)
        prefix.length = start_before(from, length);
    to->length = prefix.length;
    to->sliding_first = from->sliding_first;
    to->last_of_many = from->last_of_many;
    for (size_t i = 0; kvsi_state_part_at(&source, &prefix, i); i++) {
        kvsi_state_part_at(&target, to, i);
        for (size_t s = 0; source.data && s < source.strips; s++)
            c.ops->copy(&c, target.data + s * target.stride, source.data + s * source.stride,
                        source.strip);
    }
    if (length < from->length && has_tails(to->config))
        restore_tails(to, to->length / KVSI_SNAPSHOT);
}
