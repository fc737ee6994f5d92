/* The same bits with any number of threads: every operation on its own, then whole models, in both
 * precisions.  The reference has one thread, and amx-emulated is slow: it differs from the other
 * levels in products alone, and cuts them in the same way in both precisions. */
#include "base/memory.h"
#include "base/random.h"
#include "kernels/forms.h"
#include "levels.h"

#include <math.h>
#include <string.h>

#define ARRAY_SIZE(a) (sizeof(a) / sizeof *(a))

static int is_emulated(const char *level)
{
    return strcmp(level, "amx-emulated") == 0;
}

/* More threads than cores, and more than chunks of some operations.  Chunks are assigned
 * dynamically, so a second round may distribute the work differently. */
#ifdef __SANITIZE_ADDRESS__
static const int thread_counts[] = {2, 7};
enum { ROUNDS = 1 };
#else
static const int thread_counts[] = {2, 3, 7};
enum { ROUNDS = 2 };
#endif

/* ---- one operation ---- */

enum {
    N = 600,
    DIM = 96,
    WIDE = 210,
    VOCAB = 310,
    HEAD_ROWS = 170,
    TOP = 7,
    NUMBERS = 100003,
    RELATIVE = 6
};
enum { HEADS = 4, KV_HEADS = 2, HEAD_SIZE = 24, SEQUENCES = 13 };

/* Everything that an operation reads and writes, so that comparing two compares everything. */
typedef struct memory {
    float *block;
    size_t used, size;
} memory;

static float *take(memory *m, size_t n)
{
    float *x = m->block + m->used;
    kvsi_random random;

    m->used += n;
    assert_true(m->used <= m->size);
    kvsi_random_init(&random, 5, KVSI_RANDOM_DATA, m->used);
    for (size_t i = 0; i < n; i++)
        x[i] = (float)(4 * kvsi_random_uniform(&random) - 2);
    return x;
}

/* Many repeat, like tokens. */
static void fill_ids(int32_t *ids, size_t n, size_t bound)
{
    for (size_t i = 0; i < n; i++)
        ids[i] = (int32_t)(i * i / 3 % bound);
}

static void embed(kvsi_context *c, memory *m)
{
    const kvsi_matrix table = {
        .type = KVSI_F32, .rows = VOCAB, .cols = DIM, .data = take(m, VOCAB * DIM)};
    int32_t ids[N];

    fill_ids(ids, N, VOCAB);
    c->ops->embed_forward(c, take(m, N * DIM), &table, ids, N, 0);
    c->ops->embed_forward(c, take(m, N * DIM), &table, ids, N, 1);
    c->ops->embed_backward(c, take(m, VOCAB * DIM), take(m, N * DIM), ids, N, DIM);
}

static void norm(kvsi_context *c, memory *m)
{
    const float *x = take(m, N * DIM), *d_y = take(m, N * DIM);
    const kvsi_norm rms = {.gain = take(m, DIM), .eps = 1e-5};
    const kvsi_norm layer = {.gain = take(m, DIM), .bias = take(m, DIM), .eps = 1e-5};

    c->ops->norm_forward(c, take(m, N * DIM), x, &rms, N, DIM);
    c->ops->norm_backward(c, take(m, N * DIM), take(m, DIM), NULL, d_y, x, &rms, N, DIM);
    c->ops->norm_forward(c, take(m, N * DIM), x, &layer, N, DIM);
    c->ops->norm_backward(c, take(m, N * DIM), take(m, DIM), take(m, DIM), d_y, x, &layer, N, DIM);
}

static void linear(kvsi_context *c, memory *m)
{
    const kvsi_matrix w = {KVSI_REAL_TYPE, WIDE, DIM, take(m, WIDE * DIM), take(m, WIDE), 0, 0,
                           NULL,           NULL};
    const float *x = take(m, N * DIM), *d_y = take(m, N * WIDE);

    c->ops->linear_forward(c, take(m, N * WIDE), x, &w, N, d_y);
    c->ops->linear_forward(c, take(m, 2 * WIDE), x, &w, 2, NULL); /* a few tokens, as in decoding */
    c->ops->linear_backward_input(c, take(m, N * DIM), d_y, &w, N, 0);
    c->ops->linear_backward_input(c, take(m, N * DIM), d_y, &w, N, 1);
    c->ops->linear_backward_weight(c, take(m, WIDE * DIM), d_y, x, N, WIDE, DIM, WIDE);
    c->ops->linear_backward_bias(c, take(m, WIDE), d_y, N, WIDE);
}

static void packed_weights(kvsi_context *c, memory *m)
{
    kvsi_matrix w = {
        .type = KVSI_REAL_TYPE, .rows = WIDE, .cols = DIM, .data = take(m, WIDE * DIM)};
    const float *x = take(m, N * DIM), *d_y = take(m, N * WIDE);
    float *packed = take(m, c->ops->packed_bytes(c, &w, 1) / sizeof *packed);

    c->ops->pack_weights(c, packed, &w);
    w.packed = packed;
    c->ops->linear_forward(c, take(m, N * WIDE), x, &w, N, d_y);
    c->ops->linear_backward_input(c, take(m, N * DIM), d_y, &w, N, 0);
}

static void swiglu(kvsi_context *c, memory *m)
{
    const kvsi_mlp mlp = {KVSI_ACTIVATION_SILU, 1, WIDE};
    const float *gate_up = take(m, N * 2 * WIDE);

    c->ops->activation_forward(c, take(m, N * WIDE), gate_up, &mlp, N);
    c->ops->activation_backward(c, take(m, N * 2 * WIDE), take(m, N * WIDE), gate_up, &mlp, N);
}

static void gelu(kvsi_context *c, memory *m)
{
    const kvsi_mlp mlp = {KVSI_ACTIVATION_GELU, 0, WIDE};
    const float *x = take(m, N * WIDE);

    c->ops->activation_forward(c, take(m, N * WIDE), x, &mlp, N);
    c->ops->activation_backward(c, take(m, N * WIDE), take(m, N * WIDE), x, &mlp, N);
}

static void arrays(kvsi_context *c, memory *m)
{
    const kvsi_dropout d = {.rate = 0.3, .seed = 1, .index = 2};
    uint16_t *kept = (uint16_t *)take(m, NUMBERS);

    c->ops->add(c, take(m, NUMBERS), take(m, NUMBERS), NUMBERS);
    c->ops->dropout(c, take(m, NUMBERS), NUMBERS, &d);
    c->ops->round_bf16(c, take(m, NUMBERS), kept, NUMBERS);
    c->ops->widen_bf16(c, take(m, NUMBERS), kept, NUMBERS);
}

static void unit_rows(kvsi_context *c, memory *m)
{
    const float *x = take(m, VOCAB * DIM);

    c->ops->unit_rows_forward(c, take(m, VOCAB * DIM), x, VOCAB, DIM);
    c->ops->unit_rows_backward(c, take(m, VOCAB * DIM), take(m, VOCAB * DIM), x, VOCAB, DIM);
}

static kvsi_shift take_shift(memory *m, kvsi_shift_form form, size_t heads)
{
    const size_t window = kvsi_form_get(form)->window_max;
    const size_t numbers = kvsi_form_get(form)->params(window, HEAD_SIZE);

    return (kvsi_shift){.form = form,
                        .window = window,
                        .parameters = take(m, heads * numbers),
                        .gradient = take(m, heads * numbers),
                        .gates = take(m, N * heads),
                        .d_gates = take(m, N * heads),
                        .gate_stride = heads};
}

static size_t cut_batch(kvsi_span *spans)
{
    size_t tokens = 0;

    for (size_t s = 0; s < SEQUENCES; s++) {
        spans[s] = (kvsi_span){.start = tokens, .len = 1 + s * 47 % 90};
        tokens += spans[s].len;
    }
    assert_true(tokens <= N);
    return tokens;
}

/* Each target has another form, to cover more of them. */
static void attention(kvsi_context *c, memory *m, kvsi_shift_form q, kvsi_shift_form k,
                      kvsi_shift_form v, kvsi_qk_norm norm, size_t relative)
{
    enum { EXTENT = 40 };
    const size_t width = (HEADS + 2 * KV_HEADS) * HEAD_SIZE, wide = HEADS * HEAD_SIZE;
    kvsi_span spans[SEQUENCES];
    const size_t n = cut_batch(spans);
    const int normed = norm != KVSI_QK_NORM_NONE;
    const kvsi_attention a = {.heads = HEADS,
                              .kv_heads = KV_HEADS,
                              .head_size = HEAD_SIZE,
                              .scale = 0.2f,
                              .score_cap = normed ? 3 : 0,
                              .qk_norm = norm,
                              .q_gain = normed ? take(m, HEADS * HEAD_SIZE) : NULL,
                              .k_gain = normed ? take(m, KV_HEADS * HEAD_SIZE) : NULL,
                              .d_q_gain = normed ? take(m, HEADS * HEAD_SIZE) : NULL,
                              .d_k_gain = normed ? take(m, KV_HEADS * HEAD_SIZE) : NULL,
                              .norm_eps = 1e-3,
                              .q_shift = take_shift(m, q, HEADS),
                              .k_shift = take_shift(m, k, KV_HEADS),
                              .v_shift = take_shift(m, v, KV_HEADS),
                              .slopes = relative > 0 ? NULL : take(m, HEADS),
                              .relative = {.size = relative,
                                           .extent = EXTENT,
                                           .rows = take(m, n * HEADS * relative),
                                           .table = take(m, relative * EXTENT),
                                           .d_rows = take(m, n * HEADS * relative),
                                           .d_table = take(m, relative * EXTENT)},
                              .sliding_window = 50,
                              .dropout = {.rate = 0.2, .seed = 3, .index = 4},
                              .sequences = SEQUENCES,
                              .spans = spans,
                              .tokens = n};
    const float *qkv = take(m, n * width);
    float *out = take(m, n * wide), *logsum = take(m, n * HEADS);

    c->ops->attention_forward(c, out, logsum, qkv, &a);
    c->ops->attention_backward(c, take(m, n * width), take(m, n * wide), out, logsum, qkv, &a);
}

static void free_attention(kvsi_context *c, memory *m)
{
    attention(c, m, KVSI_SHIFT_GATE, KVSI_SHIFT_FREE, KVSI_SHIFT_CLAMP, KVSI_QK_NORM_NONE, 0);
}

static void channel_attention(kvsi_context *c, memory *m)
{
    attention(c, m, KVSI_SHIFT_CHANNEL, KVSI_SHIFT_HARD, KVSI_SHIFT_CHANNEL, KVSI_QK_NORM_NONE, 0);
}

static void data_attention(kvsi_context *c, memory *m)
{
    attention(c, m, KVSI_SHIFT_DATA, KVSI_SHIFT_DATA, KVSI_SHIFT_DATA, KVSI_QK_NORM_NONE, 0);
}

static void normed_attention(kvsi_context *c, memory *m)
{
    attention(c, m, KVSI_SHIFT_FREE, KVSI_SHIFT_FREE, KVSI_SHIFT_FREE, KVSI_QK_NORM_LAYER, 0);
}

static void relative_attention(kvsi_context *c, memory *m)
{
    attention(c, m, KVSI_SHIFT_RESIDUAL, KVSI_SHIFT_FREE, KVSI_SHIFT_FREE, KVSI_QK_NORM_HEAD,
              RELATIVE);
}

static void filter(kvsi_context *c, memory *m)
{
    const size_t taps = DIM * (KVSI_SHIFT_WINDOW_MAX + 1);
    kvsi_span spans[SEQUENCES];
    const size_t n = cut_batch(spans);
    const kvsi_filter f = {.width = DIM,
                           .window = KVSI_SHIFT_WINDOW_MAX,
                           .parameters = take(m, taps),
                           .factor = take(m, 1),
                           .gradient = take(m, taps),
                           .d_factor = take(m, 1),
                           .tail = KVSI_TAIL_MLP,
                           .sequences = SEQUENCES,
                           .spans = spans};
    const float *x = take(m, n * DIM);

    c->ops->filter_forward(c, take(m, n * DIM), x, &f, n);
    c->ops->filter_backward(c, take(m, n * DIM), take(m, n * DIM), x, &f, n);
}

static void attention_normed_together(kvsi_context *c, memory *m)
{
    attention(c, m, KVSI_SHIFT_FREE, KVSI_SHIFT_FREE, KVSI_SHIFT_FREE, KVSI_QK_NORM_FULL, 0);
}

static void head(kvsi_context *c, memory *m)
{
    const kvsi_matrix w = {KVSI_REAL_TYPE, VOCAB, DIM, take(m, VOCAB * DIM), NULL, 0, 0,
                           NULL,           NULL};
    int32_t rows[HEAD_ROWS], targets[HEAD_ROWS], guesses[HEAD_ROWS], best[HEAD_ROWS * TOP];
    const kvsi_head h = {.x = take(m, N * DIM),
                         .w = &w,
                         .rows = rows,
                         .targets = targets,
                         .count = HEAD_ROWS,
                         .row_loss = take(m, HEAD_ROWS),
                         .row_guess = guesses,
                         .n = N,
                         .d_x = take(m, N * DIM),
                         .d_w = take(m, VOCAB * DIM),
                         .cap = 3};

    fill_ids(targets, HEAD_ROWS, VOCAB);
    for (size_t r = 0; r < HEAD_ROWS; r++)
        rows[r] = (int32_t)(3 * r);
    c->ops->head_logits(c, take(m, HEAD_ROWS * VOCAB), h.x, &w, rows, HEAD_ROWS, h.cap);
    c->ops->head_loss(c, &h);
    memcpy(take(m, HEAD_ROWS), guesses, sizeof guesses);
    c->ops->head_top(c, &(kvsi_head_top){.x = h.x,
                                         .w = &w,
                                         .rows = rows,
                                         .count = HEAD_ROWS,
                                         .n = N,
                                         .top = TOP,
                                         .ids = best,
                                         .logprobs = take(m, HEAD_ROWS * TOP),
                                         .cap = h.cap});
    memcpy(take(m, HEAD_ROWS * TOP), best, sizeof best);
}

static void optimizer(kvsi_context *c, memory *m)
{
    const kvsi_adamw h = {0.01, 0.9, 0.95, 1e-8, 0.1, 0.1, 0.05};
    const float *g = take(m, NUMBERS);
    float *square;
    double sum, scale;

    c->ops->sum_squares(c, &sum, g, NUMBERS);
    memcpy(take(m, 2), &sum, sizeof sum);
    c->ops->clip_scale(c, &scale, &sum, 1, 1);
    square = take(m, NUMBERS);
    for (size_t i = 0; i < NUMBERS; i++)
        square[i] *= square[i];
    c->ops->adamw(c, take(m, NUMBERS), g, take(m, NUMBERS), square, NUMBERS, &h, &scale);
}

static const struct {
    const char *name;
    void (*call)(kvsi_context *c, memory *m);
    int products; /* which depend on the precision */
} operations[] = {
    {"embed", embed, 0},
    {"norm", norm, 0},
    {"linear", linear, 1},
    {"packed weights", packed_weights, 1},
    {"swiglu", swiglu, 0},
    {"gelu", gelu, 0},
    {"add, dropout and rounding", arrays, 0},
    {"unit rows", unit_rows, 0},
    {"attention with taps", free_attention, 1},
    {"attention with taps a channel", channel_attention, 1},
    {"attention with relative positions", relative_attention, 1},
    {"filter", filter, 0},
    {"attention with gates", data_attention, 1},
    {"attention with norms and a cap", normed_attention, 1},
    {"attention with norms of all heads", attention_normed_together, 1},
    {"head", head, 1},
    {"optimizer", optimizer, 0},
};

static const kvsi_limits limits = {.tokens = N,
                                   .sequences = SEQUENCES,
                                   .head_rows = HEAD_ROWS,
                                   .dim = DIM,
                                   .heads = HEADS,
                                   .kv_heads = KV_HEADS,
                                   .head_size = HEAD_SIZE,
                                   .ffn = WIDE,
                                   .vocab = VOCAB,
                                   .shift_params = HEAD_SIZE * KVSI_TAPS_MAX,
                                   .qk_norm = KVSI_QK_NORM_FULL,
                                   .relative_size = RELATIVE,
                                   .training = 1};

static memory perform(const kvsi_ops *ops, kvsi_precision precision, size_t which, int threads)
{
    memory m = {.size = 8 * N * WIDE};
    kvsi_context c = {.ops = ops, .threads = threads, .precision = precision};

    c.workspace_bytes = ops->workspace_bytes(&limits, threads);
    c.workspace = kvsi_alloc(c.workspace_bytes, 1);
    m.block = kvsi_alloc(m.size, sizeof *m.block);
    assert_non_null(c.workspace);
    assert_non_null(m.block);
    operations[which].call(&c, &m);
    kvsi_free(c.workspace);
    return m;
}

static void check_operation(const kvsi_ops *ops, kvsi_precision precision, size_t which)
{
    const size_t rounds = is_emulated(ops->name) ? 1 : ROUNDS;
    const memory one = perform(ops, precision, which, 1);

    for (size_t k = 0; k < rounds * ARRAY_SIZE(thread_counts); k++) {
        const int threads = thread_counts[k % ARRAY_SIZE(thread_counts)];
        const memory many = perform(ops, precision, which, threads);

        if (memcmp(one.block, many.block, one.size * sizeof *one.block) != 0)
            fail_msg("%s, %s: %s differs between 1 and %d threads", ops->name,
                     kvsi_precision_name(precision), operations[which].name, threads);
        kvsi_free(many.block);
    }
    kvsi_free(one.block);
}

/* ---- whole models ---- */

enum { BATCH = 40, LONGEST = 48, TOKENS_MAX = BATCH * LONGEST };

typedef struct ragged {
    size_t starts[BATCH + 1];
    int32_t ids[TOKENS_MAX], targets[TOKENS_MAX];
} ragged;

static void fill_batch(ragged *b, size_t vocab)
{
    b->starts[0] = 0;
    for (size_t s = 0; s < BATCH; s++)
        b->starts[s + 1] = b->starts[s] + 1 + s * 31 % LONGEST;
    fill_ids(b->ids, b->starts[BATCH], vocab);
    for (size_t t = 0; t < b->starts[BATCH]; t++)
        b->targets[t] = t % 3 == 1 ? -1 : b->ids[(t * 7 + 1) % b->starts[BATCH]];
}

typedef struct subject {
    const char *name;
    kvs_model_config config; /* differences from the default */
} subject;

static const subject bodies[] = {
    {"llama", {.kv_heads = 2, SUPPORT_SHIFT(KVS_SHIFT_K | KVS_SHIFT_V, FREE, 1)}},
    {"gpt2",
     {.body = KVSI_BODY_GPT2,
      .positions = KVSI_POSITIONS_LEARNED,
      .head = KVSI_HEAD_NORMALISED,
      .dropout_embedding = 0.1,
      .dropout_attention = 0.2,
      .dropout_residual = 0.3,
      SUPPORT_SHIFT(KVS_SHIFT_K | KVS_SHIFT_V, DATA, 1)}},
};

/* Settings that families of models have. */
static const subject families[] = {
    {"norms before and after, GELU, windows, caps",
     {.kv_heads = 2,
      .norm_place = KVSI_NORM_BOTH,
      .gain_offset = 1,
      .qk_norm = KVSI_QK_NORM_HEAD,
      .activation = KVSI_ACTIVATION_GELU_TANH,
      .embedding_scale = 8,
      .score_cap = 2,
      .logit_cap = 3,
      .sliding_window = 9,
      .sliding_layers = 1,
      .sliding_rope_base = 100,
      .tied = 1,
      SUPPORT_SHIFT(KVS_SHIFT_K | KVS_SHIFT_V, CHANNEL, 1)}},
    {"parallel, LayerNorm, biases",
     {.parallel = KVSI_PARALLEL_OWN,
      .norm_kind = KVSI_NORM_LAYER,
      .plain_mlp = 1,
      .activation = KVSI_ACTIVATION_GELU,
      .qkv_bias = 1,
      .o_bias = 1,
      .mlp_bias = 1,
      .rotary_fraction = 0.25}},
    {"norms after, of all heads, adapters",
     {.norm_place = KVSI_NORM_AFTER,
      .qk_norm = KVSI_QK_NORM_FULL,
      .residual_scale = 0.4,
      .logit_divisor = 0.5,
      .lora = {.rank = 4, .alpha = 8, .on = "*_proj"}}},
    {"filters, relative positions, growing scores",
     {.kv_heads = 2,
      .filters = KVSI_FILTER_ATTENTION | KVSI_FILTER_MLP,
      .filter_window = 3,
      .mlp_factor = 1,
      .positions = KVSI_POSITIONS_RELATIVE,
      .relative_size = 3,
      .relative_extent = 20,
      .score_growth = 0.4,
      .score_growth_start = 2.5,
      .embedding_norm = 1,
      SUPPORT_SHIFT(KVS_SHIFT_K | KVS_SHIFT_V, RESIDUAL, 3)}},
};

static kvs_model *new_model(kvs_runtime *rt, const subject *of)
{
    static const support_sizes sizes = {.vocab = 120, .dim = 64, .ffn = 176, .context = LONGEST};
    const kvs_model_config config = support_config(&of->config, &sizes);

    return support_model(rt, &config, 3);
}

/* Losses row by row, then gradients, of one pass over the batch.  The caller frees them. */
static float *run_pass(kvsi_pass *pass, const kvs_batch *batch, size_t *count)
{
    kvsi_context *c = &pass->context;
    const size_t size = kvsi_layout_total(&pass->model->layout);
    float *gradients = c->ops->alloc(c, size * sizeof *gradients), *results;
    kvsi_loss loss;

    assert_non_null(gradients);
    kvsi_pass_set_dropout(pass, 1, 8, 9);
    assert_int_equal(kvsi_pass_load(pass, batch, NULL, NULL), KVS_OK);
    kvsi_pass_forward(pass);
    assert_int_equal(kvsi_pass_loss(pass, gradients, &loss, NULL), KVS_OK);
    kvsi_pass_backward(pass, gradients);
    assert_true(isfinite(loss.sum) && loss.sum > 0);
    *count = loss.rows + size;
    results = kvsi_alloc(*count, sizeof *results);
    assert_non_null(results);
    memcpy(results, pass->host_losses, loss.rows * sizeof *results);
    c->ops->download(c, results + loss.rows, gradients, size * sizeof *results);
    c->ops->sync(c);
    c->ops->release(c, gradients);
    return results;
}

static float *step(const char *level, kvsi_precision precision, const subject *of, int threads,
                   size_t *count)
{
    const kvs_runtime_options options = {
        .size = sizeof(kvs_runtime_options), .threads = threads, .cpu_level = level};
    const kvsi_pass_limits pass_limits = {.tokens = TOKENS_MAX,
                                          .sequences = BATCH,
                                          .head_rows = TOKENS_MAX,
                                          .training = 1,
                                          .precision = precision};
    static ragged b;
    const kvs_batch batch = {
        .sequences = BATCH, .starts = b.starts, .ids = b.ids, .targets = b.targets};
    kvs_runtime *rt;
    kvs_model *model;
    kvsi_pass *pass;
    float *results;

    assert_int_equal(kvs_runtime_create(&rt, &options, NULL), KVS_OK);
    model = new_model(rt, of);
    fill_batch(&b, kvs_model_get_config(model)->vocab);
    assert_int_equal(kvsi_pass_create(&pass, model, &pass_limits, NULL), KVS_OK);
    results = run_pass(pass, &batch, count);
    kvsi_pass_free(pass);
    kvs_model_free(model);
    kvs_runtime_free(rt);
    return results;
}

static void check_model(const char *level, kvsi_precision precision, const subject *of)
{
    size_t count, same;
    float *one = step(level, precision, of, 1, &count);

    for (size_t k = 0; k < ROUNDS * ARRAY_SIZE(thread_counts); k++) {
        const int threads = thread_counts[k % ARRAY_SIZE(thread_counts)];
        float *many = step(level, precision, of, threads, &same);

        assert_int_equal(same, count);
        for (size_t i = 0; i < count; i++)
            if (memcmp(&one[i], &many[i], sizeof *one) != 0)
                fail_msg("%s: %s: number %zu of %zu is %.9g with 1 thread, %.9g with %d", level,
                         of->name, i, count, (double)one[i], (double)many[i], threads);
        kvsi_free(many);
    }
    kvsi_free(one);
}

/* ---- every level ---- */

static void operations_have_the_same_bits(void **state)
{
    const kvsi_ops *levels[LEVELS_MAX];
    const size_t count = levels_fast(levels);

    (void)state;
    for (size_t l = 0; l < count; l++)
        for (size_t i = 0; i < ARRAY_SIZE(operations); i++) {
            if (!is_emulated(levels[l]->name))
                check_operation(levels[l], KVSI_PRECISION_F32, i);
            if (operations[i].products)
                check_operation(levels[l], KVSI_PRECISION_BF16, i);
        }
}

static void models_have_the_same_bits(void **state)
{
    const kvsi_ops *levels[LEVELS_MAX];
    const size_t count = levels_fast(levels);

    (void)state;
    for (size_t l = 0; l < count; l++)
        for (size_t k = 0; !is_emulated(levels[l]->name) && k < ARRAY_SIZE(bodies); k++) {
            check_model(levels[l]->name, KVSI_PRECISION_F32, &bodies[k]);
            check_model(levels[l]->name, KVSI_PRECISION_BF16, &bodies[k]);
        }
}

/* The operations of these models divide their work alike at every level. */
static void families_have_the_same_bits(void **state)
{
    const kvsi_ops *levels[LEVELS_MAX];

    (void)state;
    assert_true(levels_fast(levels) > 0);
    for (size_t k = 0; k < ARRAY_SIZE(families); k++)
        check_model(levels[0]->name, KVSI_PRECISION_F32, &families[k]);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(operations_have_the_same_bits),
        cmocka_unit_test(models_have_the_same_bits),
        cmocka_unit_test(families_have_the_same_bits),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
