/* kvs_model_trace: runs one forward pass and shows the activations that the caller named.
 *
 * Activations that the pass stores are downloaded at its watch points.  The pass does not store
 * the branches before they are added to the residual, q, k and v after the shift, scores and
 * patterns.  If they are wanted, they are computed from the stored ones by the same operations. */
#include "base/math.h"
#include "base/memory.h"
#include "lens/activations.h"
#include "lens/readout.h"

enum { HEAD_ROWS = 64 }; /* rows whose logits are computed at once */

typedef struct trace {
    const kvs_model *model; /* borrowed */
    const kvs_model_config *config;
    kvsi_pass *pass;
    size_t tokens; /* n */
    kvsi_wanted wanted;
    kvsi_readout readout;
    real *branch;         /* backend [n, dim] */
    float *values, *part; /* [n, widest]: a downloaded activation, and some of its columns */
    /* Allocated when they are first needed.  `heads` is the most of any layer. */
    float *shifted, *rotated; /* q, k, v: [3][n, widest q, k and v] */
    float *pattern, *content; /* [heads, n, n] */
    float *logits;            /* [n, logits] */
    size_t heads;
    int (*visit)(void *user, const kvs_activation *activation);
    void *user;
    kvs_status status; /* the result of the last watch point */
    kvs_err *err;
} trace;

/* Allocates *memory for count * size numbers, unless it is allocated already. */
static kvs_status need(const trace *t, float **memory, size_t count, size_t size)
{
    if (!*memory)
        *memory = kvsi_alloc(count, size * sizeof **memory);
    return *memory ? KVS_OK : kvsi_no_memory(t->err, "activations of %zu tokens", t->tokens);
}

/* ---- showing --------------------------------------------------------------------------------- */

/* [rows, columns], or [rows, heads, columns] if heads is not 0 */
typedef struct shape {
    size_t rows, heads, columns;
} shape;

/* Calls the visitor with one activation. */
static kvs_status show(const trace *t, kvsi_activation_kind kind, size_t layer, const float *values,
                       shape size)
{
    char name[KVSI_ACTIVATION_NAME];
    kvs_activation activation = {.name = name, .values = values, .rank = size.heads > 0 ? 3 : 2};
    size_t dimension = 0;

    kvsi_activation_format(name, kind, layer);
    activation.shape[dimension++] = size.rows;
    if (size.heads > 0)
        activation.shape[dimension++] = size.heads;
    activation.shape[dimension] = size.columns;
    if (t->visit(t->user, &activation) != 0)
        return kvsi_fail(t->err, KVS_E_STOPPED, "the callback stopped at '%s'", name);
    return KVS_OK;
}

/* Downloads backend memory [n, width] to t->values. */
static kvs_status take(trace *t, const real *from, size_t width)
{
    kvsi_context *k = &t->pass->context;

    k->ops->download(k, t->values, from, t->tokens * width * sizeof *t->values);
    return kvsi_sync(k, t->err);
}

/* Shows backend memory [n, width] if it is wanted. */
static kvs_status show_rows(trace *t, uint32_t mask, kvsi_activation_kind kind, size_t layer,
                            const real *from, size_t width)
{
    if (!kvsi_wants(mask, kind))
        return KVS_OK;
    TRY(take(t, from, width));
    return show(t, kind, layer, t->values, (shape){.rows = t->tokens, .columns = width});
}

/* Shows `count` columns of t->values[n, width], from `first` on, if the activation is wanted. */
static kvs_status show_columns(trace *t, uint32_t mask, kvsi_activation_kind kind, size_t layer,
                               size_t first, size_t count, size_t width)
{
    if (!kvsi_wants(mask, kind))
        return KVS_OK;
    for (size_t r = 0; r < t->tokens; r++)
        for (size_t i = 0; i < count; i++)
            t->part[r * count + i] = t->values[r * width + first + i];
    return show(t, kind, layer, t->part, (shape){.rows = t->tokens, .columns = count});
}

/* Computes and shows what a branch adds to the residual, x W^T + bias, filtered and normalised if
 * the model does so, times the scale of branches, if it is wanted.  The pass keeps what filter and
 * norm read, and computes only the sum with the residual. */
static kvs_status show_branch(trace *t, uint32_t mask, kvsi_activation_kind kind, size_t layer,
                              const real *x, const kvsi_linear *w, const kvsi_branch *b)
{
    const kvsi_norm norm = kvsi_pass_norm(t->pass, b->norm);
    kvsi_context *k = &t->pass->context;

    if (!kvsi_wants(mask, kind))
        return KVS_OK;
    if (norm.gain)
        k->ops->norm_forward(k, t->branch, b->unnormed, &norm, t->tokens, t->config->dim);
    else if (b->filter.width > 0)
        k->ops->filter_forward(k, t->branch, b->raw, &b->filter, t->tokens);
    else
        kvsi_pass_linear(t->pass, t->branch, x, w, NULL);
    if (t->config->residual_scale > 0)
        k->ops->scale(k, t->branch, (real)t->config->residual_scale, t->tokens * t->config->dim);
    return show_rows(t, mask, kind, layer, t->branch, t->config->dim);
}

/* ---- embedding ------------------------------------------------------------------------------- */

static kvs_status show_embedding(trace *t, kvsi_activation_kind kind, const kvsi_matrix *table,
                                 const int32_t *ids)
{
    kvsi_context *k = &t->pass->context;

    if (!kvsi_wants(t->wanted.outside, kind))
        return KVS_OK;
    k->ops->embed_forward(k, t->branch, table, ids, t->tokens, 0);
    return show_rows(t, t->wanted.outside, kind, 0, t->branch, t->config->dim);
}

/* ---- attention ------------------------------------------------------------------------------- */

static const unsigned targets[] = {KVS_SHIFT_Q, KVS_SHIFT_K, KVS_SHIFT_V};
enum { Q, K, V, TARGETS };

static kvsi_activation_kind kind_of(kvsi_activation_kind first, size_t target)
{
    return (kvsi_activation_kind)(first + target);
}

static shape rows_of(const trace *t, const kvsi_layer_shape *layer, size_t target)
{
    return (shape){.rows = t->tokens,
                   .heads = target == Q ? layer->heads : layer->kv_heads,
                   .columns = layer->head_size};
}

/* Returns the rows of one target in `rows`, which is t->shifted or t->rotated. */
static float *of_target(const trace *t, float *rows, size_t target)
{
    return rows + target * t->tokens * t->readout.width;
}

static kvs_status show_raw(trace *t, uint32_t mask, size_t layer, const kvsi_layer_shape *s)
{
    for (size_t x = 0; x < TARGETS; x++)
        if (kvsi_wants(mask, kind_of(KVSI_ACT_Q_RAW, x))) {
            kvsi_readout_raw(t->values, &t->readout, layer, targets[x]);
            TRY(show(t, kind_of(KVSI_ACT_Q_RAW, x), layer, t->values, rows_of(t, s, x)));
        }
    return KVS_OK;
}

/* Shows q, k and v after the shift, and q and k after the rotation.  The rotated ones are also
 * computed if scores are wanted. */
static kvs_status show_shifted(trace *t, uint32_t mask, size_t layer, const kvsi_layer_shape *s)
{
    const size_t size = TARGETS * t->readout.width;

    for (size_t x = 0; x < TARGETS; x++) {
        const int shifted = kvsi_wants(mask, kind_of(KVSI_ACT_Q, x));
        const int rotated = x != V && (kvsi_wants(mask, kind_of(KVSI_ACT_ROT_Q, x)) ||
                                       kvsi_wants(mask, KVSI_ACT_SCORES));

        if (!shifted && !rotated)
            continue;
        TRY(need(t, &t->shifted, t->tokens, size));
        TRY(need(t, &t->rotated, t->tokens, size));
        TRY(kvsi_readout_shifted(shifted ? of_target(t, t->shifted, x) : NULL,
                                 rotated ? of_target(t, t->rotated, x) : NULL, &t->readout, layer,
                                 targets[x], t->err));
    }
    for (size_t x = 0; x < TARGETS; x++)
        if (kvsi_wants(mask, kind_of(KVSI_ACT_Q, x)))
            TRY(show(t, kind_of(KVSI_ACT_Q, x), layer, of_target(t, t->shifted, x),
                     rows_of(t, s, x)));
    for (size_t x = 0; x < V; x++)
        if (kvsi_wants(mask, kind_of(KVSI_ACT_ROT_Q, x)))
            TRY(show(t, kind_of(KVSI_ACT_ROT_Q, x), layer, of_target(t, t->rotated, x),
                     rows_of(t, s, x)));
    return KVS_OK;
}

/* Shows scores, pattern and content.  Scores and pattern share t->pattern.  The pattern stays valid
 * until the visitor has seen the content. */
static kvs_status show_weights(trace *t, uint32_t mask, size_t layer, const kvsi_layer_shape *s)
{
    const size_t n = t->tokens;
    const shape square = {.rows = s->heads, .heads = n, .columns = n};
    const int shifts_values = (t->config->shift.targets & KVS_SHIFT_V) != 0;

    if (kvsi_wants(mask, KVSI_ACT_SCORES)) {
        TRY(need(t, &t->pattern, t->heads * n, n));
        TRY(kvsi_readout_scores(t->pattern, &t->readout, layer, of_target(t, t->rotated, Q),
                                of_target(t, t->rotated, K), t->err));
        TRY(show(t, KVSI_ACT_SCORES, layer, t->pattern, square));
    }
    if (!kvsi_wants(mask, KVSI_ACT_PATTERN) && !kvsi_wants(mask, KVSI_ACT_CONTENT))
        return KVS_OK;
    TRY(need(t, &t->pattern, t->heads * n, n));
    TRY(kvsi_readout_pattern(t->pattern, &t->readout, layer, t->err));
    if (kvsi_wants(mask, KVSI_ACT_PATTERN))
        TRY(show(t, KVSI_ACT_PATTERN, layer, t->pattern, square));
    if (!kvsi_wants(mask, KVSI_ACT_CONTENT))
        return KVS_OK;
    if (!shifts_values)
        return show(t, KVSI_ACT_CONTENT, layer, t->pattern, square);
    TRY(need(t, &t->content, t->heads * n, n));
    TRY(kvsi_readout_content(t->content, &t->readout, layer, t->pattern, t->err));
    return show(t, KVSI_ACT_CONTENT, layer, t->content, square);
}

/* ---- layers ---------------------------------------------------------------------------------- */

static kvs_status show_attention(trace *t, size_t layer)
{
    const uint32_t mask = t->wanted.layer[layer];
    const kvsi_branch branch = kvsi_pass_attention_branch(t->pass, layer, NULL);
    const kvsi_layer_memory *m = &t->pass->layers[layer];
    const kvsi_layer_shape s = kvsi_layer_shape_of(t->config, layer);
    const size_t dim = t->config->dim;

    TRY(show_rows(t, mask, KVSI_ACT_RESID_PRE, layer, m->x, dim));
    TRY(show_rows(t, mask, KVSI_ACT_NORMED_1, layer, t->pass->normed, dim));
    if (kvsi_wants_any(mask, KVSI_ACT_Q_RAW, KVSI_ACT_CONTENT))
        TRY(kvsi_readout_load(&t->readout, layer, t->err));
    TRY(show_raw(t, mask, layer, &s));
    TRY(show_shifted(t, mask, layer, &s));
    TRY(show_weights(t, mask, layer, &s));
    if (kvsi_wants(mask, KVSI_ACT_Z)) {
        TRY(take(t, m->mixed, s.q_width));
        TRY(show(t, KVSI_ACT_Z, layer, t->values, rows_of(t, &s, Q)));
    }
    TRY(show_branch(t, mask, KVSI_ACT_ATTN_OUT, layer, m->mixed,
                    &t->model->matrices.layers[layer].o, &branch));
    return show_rows(t, mask, KVSI_ACT_RESID_MID, layer, m->middle, dim);
}

static kvs_status show_mlp(trace *t, size_t layer)
{
    const uint32_t mask = t->wanted.layer[layer];
    const kvsi_branch branch = kvsi_pass_mlp_branch(t->pass, layer, NULL);
    const kvsi_layer_memory *m = &t->pass->layers[layer];
    const size_t dim = t->config->dim, ffn = t->config->ffn;
    const size_t up = kvsi_up_width(t->config);

    TRY(show_rows(t, mask, KVSI_ACT_NORMED_2, layer, t->pass->normed, dim));
    if (kvsi_wants(mask, KVSI_ACT_MLP_PRE) || kvsi_wants(mask, KVSI_ACT_MLP_PRE_LINEAR))
        TRY(take(t, m->up, up));
    TRY(show_columns(t, mask, KVSI_ACT_MLP_PRE, layer, 0, ffn, up));
    TRY(show_columns(t, mask, KVSI_ACT_MLP_PRE_LINEAR, layer, ffn, ffn, up));
    TRY(show_rows(t, mask, KVSI_ACT_MLP_POST, layer, t->pass->hidden, ffn));
    TRY(show_branch(t, mask, KVSI_ACT_MLP_OUT, layer, t->pass->hidden,
                    &t->model->matrices.layers[layer].down, &branch));
    return show_rows(t, mask, KVSI_ACT_RESID_POST, layer, kvsi_pass_layer_output(t->pass, layer),
                     dim);
}

static int watch(void *user, size_t layer, kvsi_watch_point point)
{
    const int is_attention = point == KVSI_WATCH_ATTENTION;
    trace *t = user;

    t->status = is_attention ? show_attention(t, layer) : show_mlp(t, layer);
    return t->status != KVS_OK ||
           !kvsi_wanted_after(&t->wanted, layer,
                              is_attention ? KVSI_ACT_RESID_MID : KVSI_ACT_RESID_POST);
}

/* ---- head ------------------------------------------------------------------------------------ */

static kvs_status show_logits(trace *t)
{
    const size_t logits = kvsi_pass_logit_count(t->config), chunk = t->pass->limits.head_rows;
    kvsi_context *k = &t->pass->context;
    kvs_status st = KVS_OK;
    int32_t rows[HEAD_ROWS];
    real *scratch = NULL;

    TRY_OUT(need(t, &t->logits, t->tokens, logits));
    scratch = k->ops->alloc(k, chunk * logits * sizeof *scratch);
    if (!scratch) {
        st = kvsi_no_memory(t->err, "logits of %zu tokens", chunk);
        goto out;
    }
    for (size_t first = 0; first < t->tokens; first += chunk) {
        const size_t count = kvsi_min(chunk, t->tokens - first);

        for (size_t i = 0; i < count; i++)
            rows[i] = (int32_t)(first + i);
        TRY_OUT(
            kvsi_pass_logits(t->pass, t->logits + first * logits, scratch, rows, count, t->err));
    }
    st = show(t, KVSI_ACT_LOGITS, 0, t->logits, (shape){.rows = t->tokens, .columns = logits});
out:
    k->ops->release(k, scratch);
    return st;
}

/* ---- the pass -------------------------------------------------------------------------------- */

static void trace_release(trace *t)
{
    if (t->pass)
        t->pass->context.ops->release(&t->pass->context, t->branch);
    kvsi_readout_release(&t->readout);
    kvsi_pass_free(t->pass);
    kvsi_wanted_release(&t->wanted);
    kvsi_free(t->values);
    kvsi_free(t->part);
    kvsi_free(t->shifted);
    kvsi_free(t->rotated);
    kvsi_free(t->pattern);
    kvsi_free(t->content);
    kvsi_free(t->logits);
}

static kvs_status trace_init(trace *t, const int32_t *ids)
{
    const size_t starts[] = {0, t->tokens};
    const kvs_batch batch = {.sequences = 1, .starts = starts, .ids = ids};
    const int head = kvsi_wants(t->wanted.outside, KVSI_ACT_LOGITS);
    const kvsi_pass_limits limits = {.tokens = t->tokens,
                                     .sequences = 1,
                                     .head_rows = head ? kvsi_min(HEAD_ROWS, t->tokens) : 1};
    const size_t ffn = t->config->no_mlp ? 0 : t->config->ffn;
    size_t widest;

    for (size_t l = 0; l < t->config->layers; l++)
        t->heads = kvsi_max(t->heads, kvsi_layer_shape_of(t->config, l).heads);
    TRY(kvsi_pass_create(&t->pass, t->model, &limits, t->err));
    TRY(kvsi_pass_load(t->pass, &batch, NULL, t->err));
    TRY(kvsi_readout_init(&t->readout, t->pass, t->err));
    widest = kvsi_max(t->readout.width, 2 * ffn);
    TRY(need(t, &t->values, t->tokens, widest));
    TRY(need(t, &t->part, t->tokens, widest));
    t->branch = t->pass->context.ops->alloc(&t->pass->context,
                                            t->tokens * t->config->dim * sizeof *t->branch);
    if (!t->branch)
        return kvsi_no_memory(t->err, "activations of %zu tokens", t->tokens);
    t->pass->watch = watch;
    t->pass->watcher = t;
    return KVS_OK;
}

static kvs_status run(trace *t)
{
    const kvsi_matrices *w = &t->model->matrices;

    TRY(show_embedding(t, KVSI_ACT_EMBED, &w->embed, t->pass->ids));
    TRY(show_embedding(t, KVSI_ACT_POS_EMBED, &w->positions, t->pass->positions));
    if (!kvsi_wanted_after_embedding(&t->wanted))
        return KVS_OK;
    kvsi_pass_forward(t->pass);
    TRY(t->status);
    TRY(kvsi_sync(&t->pass->context, t->err));
    TRY(show_rows(t, t->wanted.outside, KVSI_ACT_FINAL, 0, t->pass->normed, t->config->dim));
    return kvsi_wants(t->wanted.outside, KVSI_ACT_LOGITS) ? show_logits(t) : KVS_OK;
}

kvs_status kvs_model_trace(const kvs_model *model, const int32_t *ids, size_t count,
                           const char *const *names, size_t name_count,
                           int (*visit)(void *user, const kvs_activation *activation), void *user,
                           kvs_err *err)
{
    trace t = {.model = model, .tokens = count, .visit = visit, .user = user, .err = err};
    kvs_status st;

    NEED(model);
    NEED(ids);
    NEED(visit);
    NEED_ARRAY(names, name_count);
    t.config = &model->config;
    if (count < 1)
        return kvsi_fail(err, KVS_E_INVALID, "activations of 0 tokens, expected at least 1");
    if (count > model->config.context)
        return kvsi_fail(err, KVS_E_LIMIT, "activations of %zu tokens, the context is %zu", count,
                         model->config.context);
    TRY_OUT(kvsi_wanted_init(&t.wanted, t.config, names, name_count, err));
    TRY_OUT(trace_init(&t, ids));
    st = run(&t);
out:
    trace_release(&t);
    return st;
}
