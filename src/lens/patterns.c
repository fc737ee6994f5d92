/* Attention patterns of a model, computed with the attention kernel itself.
 *
 * Attention is linear in its values, so its output for unit vectors is its weights: with v_s = e_i
 * for s = first + i, and no shift of the values, channel i of row t is A[t, first + i].  One run of
 * a layer's attention gives as many columns of A as a head has channels.  Shift, rotation, slopes
 * and window are those of the kernel, not a second implementation. */
#include "base/math.h"
#include "base/memory.h"
#include "kernels/forms.h"
#include "kvshift/kvshift_lab.h"
#include "model/pass.h"

#include <math.h>

typedef struct lens {
    kvsi_pass *pass;
    size_t tokens;
    real *qkv;    /* [tokens, width] of a layer, on the host */
    real *mixed;  /* [tokens, dim] */
    real *gates;  /* [tokens, gates of all targets] */
    float *a;     /* [heads, tokens, tokens] */
    float *a_v;   /* [tokens, tokens] of one head */
    double *taps; /* [tokens, window + 1], oldest first: taps of the values */
    void (*visit)(void *user, const kvs_pattern *pattern);
    void *user;
    kvs_status status; /* first failure in a layer */
    kvs_err *err;
} lens;

/* ---- A --------------------------------------------------------------------------------------- */

/* Unit vectors as values for the positions from `first` on, the same for all heads. */
static void set_values(lens *l, const kvsi_attention *a, size_t first)
{
    const size_t d = a->head_size, width = (a->heads + 2 * a->kv_heads) * d;

    for (size_t s = 0; s < l->tokens; s++) {
        real *v = l->qkv + s * width + (a->heads + a->kv_heads) * d;

        for (size_t i = 0; i < a->kv_heads * d; i++)
            v[i] = s >= first && s - first == i % d ? 1 : 0;
    }
}

/* Computes as many columns of A, from `first` on, as a head has channels. */
static void take_columns(lens *l, const kvsi_attention *a, size_t first)
{
    const size_t n = l->tokens, d = a->head_size, left = kvsi_min(n - first, d);

    for (size_t t = 0; t < n; t++)
        for (size_t h = 0; h < a->heads; h++)
            for (size_t i = 0; i < left; i++)
                l->a[(h * n + t) * n + first + i] = (float)l->mixed[(t * a->heads + h) * d + i];
}

static void read_weights(lens *l, size_t layer)
{
    const kvsi_layer_memory *m = &l->pass->layers[layer];
    kvsi_attention a = kvsi_pass_attention(l->pass, layer, NULL);
    const size_t width = (a.heads + 2 * a.kv_heads) * a.head_size;
    const size_t bytes = l->tokens * width * sizeof(real);
    kvsi_context *k = &l->pass->context;

    a.v_shift = (kvsi_shift){0};
    k->ops->download(k, l->qkv, m->qkv, bytes);
    k->ops->sync(k);
    for (size_t first = 0; first < l->tokens; first += a.head_size) {
        set_values(l, &a, first);
        k->ops->upload(k, m->qkv, l->qkv, bytes);
        k->ops->attention_forward(k, m->mixed, m->logsum, m->qkv, &a);
        k->ops->download(k, l->mixed, m->mixed,
                         l->tokens * a.heads * a.head_size * sizeof *l->mixed);
        k->ops->sync(k);
        take_columns(l, &a, first);
    }
}

/* ---- A_V ------------------------------------------------------------------------------------- */

/* Taps of one KV head at each position; they differ between positions only for gates. */
static kvs_status read_taps(lens *l, size_t layer, size_t kv_head)
{
    const kvs_model *model = l->pass->model;
    const kvsi_shift_config *shift = &model->config.shift;
    const kvsi_attention a = kvsi_pass_attention(l->pass, layer, NULL);
    const size_t stride = a.v_shift.gate_stride, taps = shift->window + 1;
    kvsi_context *k = &l->pass->context;

    if (!kvsi_form_get(shift->form)->gated) {
        TRY(kvs_model_taps(l->taps, NULL, model, layer, KVS_SHIFT_V, kv_head, l->err));
        for (size_t i = taps; i < l->tokens * taps; i++)
            l->taps[i] = l->taps[i - taps];
        return KVS_OK;
    }
    k->ops->download(k, l->gates, l->pass->layers[layer].gates,
                     l->tokens * stride * sizeof *l->gates);
    k->ops->sync(k);
    for (size_t s = 0; s < l->tokens; s++) {
        const size_t column = (size_t)(a.v_shift.gates - l->pass->layers[layer].gates) + kv_head;
        const double gate = 1 / (1 + exp(-(double)l->gates[s * stride + column]));

        l->taps[2 * s] = gate;
        l->taps[2 * s + 1] = 1 - gate;
    }
    return KVS_OK;
}

/* The value at position s contains token s - window + j with tap j. */
static void mix_contents(lens *l, const float *a, size_t window)
{
    const size_t n = l->tokens;

    for (size_t t = 0; t < n; t++)
        for (size_t token = 0; token < n; token++) {
            double sum = 0;

            for (size_t back = 0; back <= window && token + back < n; back++)
                sum += l->taps[(token + back) * (window + 1) + window - back] *
                       (double)a[t * n + token + back];
            l->a_v[t * n + token] = (float)sum;
        }
}

/* ---- all layers ------------------------------------------------------------------------------ */

static void show_layer(void *user, size_t layer)
{
    lens *l = user;
    const kvs_model_config *c = &l->pass->model->config;
    const kvsi_layer_shape shape = kvsi_layer_shape_of(c, layer);
    const size_t group = shape.heads / shape.kv_heads;
    const int shifts_values = (c->shift.targets & KVS_SHIFT_V) != 0;

    if (l->status != KVS_OK)
        return;
    read_weights(l, layer);
    for (size_t h = 0; h < shape.heads; h++) {
        const float *a = l->a + h * l->tokens * l->tokens;

        if (shifts_values && h % group == 0)
            l->status = read_taps(l, layer, h / group);
        if (l->status != KVS_OK)
            return;
        if (shifts_values)
            mix_contents(l, a, c->shift.window);
        l->visit(l->user, &(kvs_pattern){.layer = layer,
                                         .head = h,
                                         .kv_head = h / group,
                                         .tokens = l->tokens,
                                         .places = a,
                                         .contents = shifts_values ? l->a_v : a});
    }
}

static void lens_release(lens *l)
{
    kvsi_pass_free(l->pass);
    kvsi_free(l->qkv);
    kvsi_free(l->mixed);
    kvsi_free(l->gates);
    kvsi_free(l->a);
    kvsi_free(l->a_v);
    kvsi_free(l->taps);
    *l = (lens){0};
}

static kvs_status lens_init(lens *l, const kvs_model *model, size_t count, kvs_err *err)
{
    const kvsi_pass_limits limits = {.tokens = count, .sequences = 1, .head_rows = 1};
    const kvs_model_config *c = &model->config;
    size_t heads = 0, width = 0;
    kvs_status st;

    for (size_t layer = 0; layer < c->layers; layer++) {
        const kvsi_layer_shape shape = kvsi_layer_shape_of(c, layer);

        heads = shape.heads > heads ? shape.heads : heads;
        width = shape.qkv_width > width ? shape.qkv_width : width;
    }
    *l = (lens){.tokens = count, .err = err};
    TRY_OUT(kvsi_pass_create(&l->pass, model, &limits, err));
    l->qkv = kvsi_alloc(count * width, sizeof *l->qkv);
    l->mixed = kvsi_alloc(count * c->dim, sizeof *l->mixed);
    l->gates = kvsi_alloc(count * 3 * heads, sizeof *l->gates);
    l->a = kvsi_alloc(heads * count, count * sizeof *l->a);
    l->a_v = kvsi_alloc(count, count * sizeof *l->a_v);
    l->taps = kvsi_alloc(count * (KVSI_SHIFT_WINDOW_MAX + 1), sizeof *l->taps);
    if (!l->qkv || !l->mixed || !l->gates || !l->a || !l->a_v || !l->taps)
        st = kvsi_no_memory(err, "patterns of %zu tokens", count);
out:
    if (st != KVS_OK)
        lens_release(l);
    return st;
}

kvs_status kvs_patterns(const kvs_model *model, const int32_t *ids, size_t count,
                        void (*visit)(void *user, const kvs_pattern *pattern), void *user,
                        kvs_err *err)
{
    const size_t starts[] = {0, count};
    const kvs_batch batch = {.sequences = 1, .starts = starts, .ids = ids};
    kvs_status st;
    lens l = {0};

    NEED(model);
    NEED_ARRAY(ids, count);
    NEED(visit);
    if (count < 1 || count > model->config.context)
        return kvsi_fail(err, KVS_E_INVALID, "patterns of %zu tokens, expected 1 to %zu", count,
                         model->config.context);
    TRY_OUT(lens_init(&l, model, count, err));
    l.visit = visit;
    l.user = user;
    TRY_OUT(kvsi_pass_load(l.pass, &batch, NULL, err));
    l.pass->watch = show_layer;
    l.pass->watcher = &l;
    kvsi_pass_forward(l.pass);
    st = l.status != KVS_OK ? l.status : kvsi_sync(&l.pass->context, err);
out:
    lens_release(&l);
    return st;
}
