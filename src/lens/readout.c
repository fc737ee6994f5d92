/* Intermediate results are read with two properties of the attention kernel.
 *
 * The kernel writes shifted and rotated keys, and shifted values, to its cache.  To read rows of q,
 * k or v, this file passes them to the kernel both as keys and as values, with their own shift and
 * a cache.  A sliding window of one token makes the attention itself cheap.
 *
 * Attention is linear in its values, so its output for unit vectors is its weights: with v_s = e_i
 * for s = first + i, and no shift of the values, channel i of row t is A[t, first + i].  One run of
 * a layer's attention gives as many columns of A as a head has channels. */
#include "lens/readout.h"

#include "base/math.h"
#include "base/memory.h"
#include "kernels/forms.h"
#include "kernels/host.h"

#include <math.h>
#include <string.h>

/* ---- memory ---------------------------------------------------------------------------------- */

/* Allocates *memory in the backend, unless it is allocated already. */
static kvs_status need(kvsi_readout *r, real **memory, size_t count, kvs_err *err)
{
    const kvsi_context *k = &r->pass->context;

    if (!*memory)
        *memory = k->ops->alloc(k, count * sizeof **memory);
    return *memory ? KVS_OK : kvsi_no_memory(err, "activations of %zu tokens", r->tokens);
}

kvs_status kvsi_readout_init(kvsi_readout *out, kvsi_pass *pass, kvs_err *err)
{
    const kvs_model_config *c = &pass->model->config;

    *out = (kvsi_readout){.pass = pass, .tokens = pass->limits.tokens, .width = c->dim};
    for (size_t l = 0; l < c->layers; l++) {
        const kvsi_layer_shape shape = kvsi_layer_shape_of(c, l);

        /* kvsi_readout_shifted has as many keys and values as query heads. */
        out->width = kvsi_max(out->width, kvsi_max(shape.qkv_width, 3 * shape.q_width));
    }
    out->raw = kvsi_alloc(out->tokens * out->width, sizeof *out->raw);
    out->to = kvsi_alloc(out->tokens * out->width, sizeof *out->to);
    out->from = kvsi_alloc(out->tokens * out->width, sizeof *out->from);
    if (out->raw && out->to && out->from)
        return KVS_OK;
    kvsi_readout_release(out);
    return kvsi_no_memory(err, "activations of %zu tokens", pass->limits.tokens);
}

void kvsi_readout_release(kvsi_readout *readout)
{
    real *const backend[] = {readout->qkv, readout->mixed,   readout->logsum, readout->k,
                             readout->v,   readout->queries, readout->keys,   readout->products};

    for (size_t i = 0; readout->pass && i < sizeof backend / sizeof *backend; i++)
        readout->pass->context.ops->release(&readout->pass->context, backend[i]);
    kvsi_free(readout->raw);
    kvsi_free(readout->to);
    kvsi_free(readout->from);
    *readout = (kvsi_readout){0};
}

/* Allocates the memory for a run of the kernel. */
static kvs_status need_run(kvsi_readout *r, kvs_err *err)
{
    TRY(need(r, &r->qkv, r->tokens * r->width, err));
    TRY(need(r, &r->mixed, r->tokens * r->width, err));
    return need(r, &r->logsum, r->tokens * r->width, err);
}

/* ---- rows of q, k and v ---------------------------------------------------------------------- */

static kvsi_target target_of(const kvsi_attention *a, unsigned target)
{
    return target == KVS_SHIFT_Q   ? kvsi_target_q(a)
           : target == KVS_SHIFT_K ? kvsi_target_k(a)
                                   : kvsi_target_v(a);
}

kvs_status kvsi_readout_load(kvsi_readout *r, size_t layer, kvs_err *err)
{
    const kvsi_attention a = kvsi_pass_attention(r->pass, layer, NULL);
    kvsi_context *k = &r->pass->context;

    k->ops->download(k, r->raw, r->pass->layers[layer].qkv,
                     r->tokens * kvsi_qkv_width(&a) * sizeof *r->raw);
    return kvsi_sync(k, err);
}

void kvsi_readout_raw(float *out, const kvsi_readout *r, size_t layer, unsigned target)
{
    const kvsi_attention a = kvsi_pass_attention(r->pass, layer, NULL);
    const kvsi_target x = target_of(&a, target);
    const size_t width = kvsi_qkv_width(&a), row = x.heads * a.head_size;

    for (size_t t = 0; t < r->tokens; t++)
        for (size_t i = 0; i < row; i++)
            out[t * row + i] = (float)r->raw[t * width + x.column + i];
}

/* Uploads the raw rows of `one->heads` heads, from column `column` of qkv on, both as keys and as
 * values of `one`.  Queries are 0. */
static void upload_twice(kvsi_readout *r, const kvsi_attention *one, size_t column, size_t width)
{
    const size_t row = one->heads * one->head_size;
    kvsi_context *k = &r->pass->context;

    for (size_t t = 0; t < r->tokens; t++) {
        const real *raw = r->raw + t * width + column;
        real *to = r->to + t * 3 * row;

        memset(to, 0, row * sizeof *to);
        memcpy(to + row, raw, row * sizeof *to);
        memcpy(to + 2 * row, raw, row * sizeof *to);
    }
    k->ops->upload(k, r->qkv, r->to, r->tokens * 3 * row * sizeof *r->to);
}

/* Downloads a cache [heads, n, d] to out[n, heads, d]. */
static kvs_status take_cache(float *out, kvsi_readout *r, const real *cache, size_t heads, size_t d,
                             kvs_err *err)
{
    const size_t n = r->tokens;
    kvsi_context *k = &r->pass->context;

    k->ops->download(k, r->from, cache, heads * n * d * sizeof *r->from);
    TRY(kvsi_sync(k, err));
    for (size_t h = 0; h < heads; h++)
        for (size_t t = 0; t < n; t++)
            for (size_t i = 0; i < d; i++)
                out[(t * heads + h) * d + i] = (float)r->from[(h * n + t) * d + i];
    return KVS_OK;
}

/* Runs the kernel with a workspace of its own: the pass has none for so many keys and values. */
static kvs_status run_apart(kvsi_readout *r, const kvsi_attention *one, kvs_err *err)
{
    const kvsi_limits limits = {.tokens = r->tokens,
                                .sequences = 1,
                                .heads = one->heads,
                                .kv_heads = one->kv_heads,
                                .head_size = one->head_size,
                                .head_rows = 1,
                                .dim = one->heads * one->head_size,
                                .ffn = 1,
                                .vocab = 1,
                                .shift_params = kvsi_shift_params(one),
                                .qk_norm = one->qk_norm};
    kvsi_context k = r->pass->context;

    k.workspace_bytes = k.ops->workspace_bytes(&limits, k.threads);
    k.workspace = k.ops->alloc(&k, k.workspace_bytes);
    if (!k.workspace)
        return kvsi_no_memory(err, "activations of %zu tokens", r->tokens);
    k.ops->attention_forward(&k, r->mixed, r->logsum, r->qkv, one);
    k.ops->release(&k, k.workspace);
    return KVS_OK;
}

kvs_status kvsi_readout_shifted(float *shifted, float *rotated, kvsi_readout *r, size_t layer,
                                unsigned target, kvs_err *err)
{
    const kvsi_attention a = kvsi_pass_attention(r->pass, layer, NULL);
    const kvsi_target x = target_of(&a, target);
    kvsi_attention one = a;
    kvsi_span span;

    TRY(need_run(r, err));
    TRY(need(r, &r->k, r->tokens * r->width, err));
    TRY(need(r, &r->v, r->tokens * r->width, err));
    span = (kvsi_span){.len = r->tokens, .k = r->k, .v = r->v, .capacity = r->tokens};
    one.heads = one.kv_heads = x.heads;
    one.slopes = NULL;
    one.relative = (kvsi_relative){0};
    one.growth = NULL;
    one.sliding_window = 1;
    one.spans = &span;
    one.q_shift = (kvsi_shift){0};
    one.k_shift = one.v_shift = *x.shift;
    one.q_gain = NULL;
    one.k_gain = x.gain;
    upload_twice(r, &one, x.column, kvsi_qkv_width(&a));
    TRY(run_apart(r, &one, err));
    if (shifted)
        TRY(take_cache(shifted, r, r->v, x.heads, a.head_size, err));
    return rotated ? take_cache(rotated, r, r->k, x.heads, a.head_size, err) : KVS_OK;
}

/* ---- scores ---------------------------------------------------------------------------------- */

/* Uploads one head of x[n, heads, d] to backend memory [n, d]. */
static void upload_head(kvsi_readout *r, real *to, const float *x, size_t head, size_t heads,
                        size_t d)
{
    kvsi_context *k = &r->pass->context;

    for (size_t t = 0; t < r->tokens; t++)
        for (size_t i = 0; i < d; i++)
            r->to[t * d + i] = (real)x[(t * heads + head) * d + i];
    k->ops->upload(k, to, r->to, r->tokens * d * sizeof *to);
}

/* Host copies of what scores depend on besides products; NULL where the model has none. */
typedef struct score_terms {
    real *growth;       /* [n] */
    real *rows, *table; /* of relative positions */
} score_terms;

/* Allocates a copy of backend memory, which is there after the next sync; NULL for NULL. */
static kvs_status copy_to_host(real **out, kvsi_context *c, const real *from, size_t count,
                               kvs_err *err)
{
    if (!from)
        return KVS_OK;
    *out = kvsi_alloc(count, sizeof **out);
    if (!*out)
        return kvsi_no_memory(err, "scores");
    c->ops->download(c, *out, from, count * sizeof **out);
    return KVS_OK;
}

static void release_terms(score_terms *terms)
{
    kvsi_free(terms->growth);
    kvsi_free(terms->rows);
    kvsi_free(terms->table);
}

static kvs_status find_terms(score_terms *out, kvsi_readout *r, const kvsi_attention *a,
                             kvs_err *err)
{
    const kvsi_relative *relative = &a->relative;
    kvsi_context *c = &r->pass->context;

    *out = (score_terms){0};
    TRY(copy_to_host(&out->growth, c, a->growth, r->tokens, err));
    if (relative->size == 0)
        return KVS_OK;
    TRY(copy_to_host(&out->rows, c, relative->rows, r->tokens * a->heads * relative->size, err));
    return copy_to_host(&out->table, c, relative->table, relative->size * relative->extent, err);
}

/* The term of relative positions for the key `distance` tokens before token t. */
static float near(const score_terms *terms, const kvsi_relative *r, size_t row, size_t distance)
{
    float sum = 0;

    for (size_t c = 0; distance < r->extent && c < r->size; c++)
        sum +=
            (float)terms->rows[row * r->size + c] * (float)terms->table[c * r->extent + distance];
    return sum;
}

/* Turns the products q . k of one head into scores, in place. */
static void finish_scores(float *scores, size_t n, const kvsi_attention *a,
                          const score_terms *terms, size_t head, float slope)
{
    const float scale = (float)a->scale, cap = (float)a->score_cap;

    for (size_t t = 0; t < n; t++)
        for (size_t s = 0; s < n; s++) {
            const int seen = s <= t && (a->sliding_window == 0 || t - s < a->sliding_window);
            const float growth = terms->growth ? (float)terms->growth[t] : 1;
            float *score = scores + t * n + s;

            *score *= growth * scale;
            if (cap > 0)
                *score = cap * tanhf(*score / cap);
            if (seen)
                *score += growth * near(terms, &a->relative, t * a->heads + head, t - s);
            *score = seen ? *score - slope * (float)(t - s) : -INFINITY;
        }
}

kvs_status kvsi_readout_scores(float *out, kvsi_readout *r, size_t layer, const float *q,
                               const float *k, kvs_err *err)
{
    const kvsi_attention a = kvsi_pass_attention(r->pass, layer, NULL);
    const size_t n = r->tokens, dim = r->pass->model->config.dim, group = a.heads / a.kv_heads;
    kvsi_context *c = &r->pass->context;
    kvsi_matrix keys = {.type = KVSI_REAL_TYPE, .rows = n, .cols = a.head_size};
    score_terms terms = {0};
    kvs_status st;

    TRY_OUT(need(r, &r->queries, n * dim, err));
    TRY_OUT(need(r, &r->keys, n * dim, err));
    TRY_OUT(need(r, &r->products, n * n, err));
    TRY_OUT(find_terms(&terms, r, &a, err));
    keys.data = r->keys;
    for (size_t h = 0; h < a.heads; h++) {
        float *scores = out + h * n * n;
        real slope = 0;

        if (h % group == 0)
            upload_head(r, r->keys, k, h / group, a.kv_heads, a.head_size);
        upload_head(r, r->queries, q, h, a.heads, a.head_size);
        c->ops->linear_forward(c, r->products, r->queries, &keys, n, NULL);
        c->ops->download(c, scores, r->products, n * n * sizeof *scores);
        if (a.slopes)
            c->ops->download(c, &slope, a.slopes + h, sizeof slope);
        TRY_OUT(kvsi_sync(c, err));
        finish_scores(scores, n, &a, &terms, h, (float)slope);
    }
out:
    release_terms(&terms);
    return st;
}

/* ---- the weights A --------------------------------------------------------------------------- */

/* Sets the values of position first + i to the unit vector e_i, in all heads. */
static void set_values(kvsi_readout *r, const kvsi_attention *a, size_t first)
{
    const size_t d = a->head_size, width = kvsi_qkv_width(a);

    for (size_t s = 0; s < r->tokens; s++) {
        real *v = r->to + s * width + (a->heads + a->kv_heads) * d;

        for (size_t h = 0; h < a->kv_heads; h++)
            for (size_t i = 0; i < d; i++)
                v[h * d + i] = s == first + i ? 1 : 0;
    }
}

/* Takes as many columns of A, from `first` on, as a head has channels. */
static void take_columns(float *out, const kvsi_readout *r, const kvsi_attention *a, size_t first)
{
    const size_t n = r->tokens, d = a->head_size, left = kvsi_min(n - first, d);

    for (size_t t = 0; t < n; t++)
        for (size_t h = 0; h < a->heads; h++)
            for (size_t i = 0; i < left; i++)
                out[(h * n + t) * n + first + i] = (float)r->from[(t * a->heads + h) * d + i];
}

kvs_status kvsi_readout_pattern(float *out, kvsi_readout *r, size_t layer, kvs_err *err)
{
    kvsi_attention a = kvsi_pass_attention(r->pass, layer, NULL);
    const size_t bytes = r->tokens * kvsi_qkv_width(&a) * sizeof(real);
    kvsi_context *k = &r->pass->context;

    TRY(need_run(r, err));
    a.v_shift = (kvsi_shift){0};
    memcpy(r->to, r->raw, bytes);
    for (size_t first = 0; first < r->tokens; first += a.head_size) {
        set_values(r, &a, first);
        k->ops->upload(k, r->qkv, r->to, bytes);
        k->ops->attention_forward(k, r->mixed, r->logsum, r->qkv, &a);
        k->ops->download(k, r->from, r->mixed, r->tokens * a.heads * a.head_size * sizeof *r->from);
        TRY(kvsi_sync(k, err));
        take_columns(out, r, &a, first);
    }
    return KVS_OK;
}

/* ---- the weights of raw values, A_V ---------------------------------------------------------- */

/* Fills in taps[n, window + 1], oldest first: the taps of the values of one KV head, at each
 * position.  They differ between positions only if there are gates, whose logits are
 * gates[n, stride]. */
static kvs_status fill_taps(double *taps, const kvsi_readout *r, size_t layer, size_t kv_head,
                            const real *gates, kvs_err *err)
{
    const kvs_model *model = r->pass->model;
    const kvsi_attention a = kvsi_pass_attention(r->pass, layer, NULL);
    const size_t stride = a.v_shift.gate_stride, each = a.v_shift.window + 1;

    if (!gates) {
        TRY(kvs_model_taps(taps, NULL, model, layer, KVS_SHIFT_V, kv_head, err));
        for (size_t i = each; i < r->tokens * each; i++)
            taps[i] = taps[i - each];
        return KVS_OK;
    }
    for (size_t s = 0; s < r->tokens; s++) {
        const size_t column = (size_t)(a.v_shift.gates - r->pass->layers[layer].gates) + kv_head;
        const double gate = 1 / (1 + exp(-(double)gates[s * stride + column]));

        taps[2 * s] = gate;
        taps[2 * s + 1] = 1 - gate;
    }
    return KVS_OK;
}

/* The value at position s contains token s - window + j with tap j. */
static void mix_contents(float *out, const float *pattern, const double *taps, size_t n,
                         size_t window)
{
    for (size_t t = 0; t < n; t++)
        for (size_t token = 0; token < n; token++) {
            double sum = 0;

            for (size_t back = 0; back <= window && token + back < n; back++)
                sum += taps[(token + back) * (window + 1) + window - back] *
                       (double)pattern[t * n + token + back];
            out[t * n + token] = (float)sum;
        }
}

kvs_status kvsi_readout_content(float *out, kvsi_readout *r, size_t layer, const float *pattern,
                                kvs_err *err)
{
    const kvsi_attention a = kvsi_pass_attention(r->pass, layer, NULL);
    const size_t n = r->tokens, window = a.v_shift.window, group = a.heads / a.kv_heads;
    const int gated = kvsi_form_get(a.v_shift.form)->gated;
    double *taps = kvsi_alloc(n * (window + 1), sizeof *taps);
    real *gates = gated ? kvsi_alloc(n * a.v_shift.gate_stride, sizeof *gates) : NULL;
    kvsi_context *k = &r->pass->context;
    kvs_status st = KVS_OK;

    if (!taps || (gated && !gates)) {
        st = kvsi_no_memory(err, "taps of %zu tokens", n);
        goto out;
    }
    if (gated) {
        k->ops->download(k, gates, r->pass->layers[layer].gates,
                         n * a.v_shift.gate_stride * sizeof *gates);
        TRY_OUT(kvsi_sync(k, err));
    }
    for (size_t h = 0; h < a.heads; h++) {
        if (h % group == 0)
            TRY_OUT(fill_taps(taps, r, layer, h / group, gates, err));
        mix_contents(out + h * n * n, pattern + h * n * n, taps, n, window);
    }
out:
    kvsi_free(taps);
    kvsi_free(gates);
    return st;
}
