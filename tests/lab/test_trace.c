/* The activations of kvs_model_trace are those of the model: each follows from the ones before it
 * by the definition, computed here in double from the model's tensors, and the last are the logits
 * of a session.  Errors are relative to the largest value of an activation. */
#include "base/files.h"
#include "base/memory.h"
#include "base/text.h"
#include "device.h"
#include "family.h"
#include "kernels/forms.h"
#include "kvshift/kvshift_files.h"
#include "kvshift/kvshift_lab.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

enum { SHORT = 21, LONG = 150, VOCAB = 19, LIST_MAX = 64, NAME = 64 };

static size_t tokens = SHORT; /* of the sequence that a test runs */

/* One operation in float against double: sums of at most 100 products, 100 * 2^-24 = 6e-6, and most
 * errors cancel. */
static const double one_step = 2e-6;
/* Quantized weights are multiplied with inputs of 16 bits: an error of 2^-16 of the largest input
 * of a block in each product. */
static const double rounded_inputs = 1e-4;
/* A whole model, where the errors of all layers add up, in two orders of summation. */
static const double whole_model = 1e-5;

/* ---- what is visited ---- */

typedef struct taken {
    char name[NAME];
    float *values;
    size_t rank, shape[4], count;
} taken;

typedef struct capture {
    taken list[LIST_MAX];
    size_t count;
    size_t stop_at; /* the visit that stops; 0 = none */
} capture;

static int take(void *user, const kvs_activation *a)
{
    capture *c = user;
    taken *to = &c->list[c->count++];

    assert_true(c->count <= LIST_MAX && strlen(a->name) < NAME && a->rank >= 2 && a->rank <= 4);
    snprintf(to->name, sizeof to->name, "%s", a->name);
    to->rank = a->rank;
    to->count = 1;
    for (size_t i = 0; i < a->rank; i++)
        to->count *= to->shape[i] = a->shape[i];
    assert_non_null(to->values = kvsi_alloc(to->count, sizeof *to->values));
    memcpy(to->values, a->values, to->count * sizeof *to->values);
    return c->count == c->stop_at;
}

static void capture_release(capture *c)
{
    for (size_t i = 0; i < c->count; i++)
        kvsi_free(c->list[i].values);
    *c = (capture){0};
}

static void run(capture *c, const kvs_model *model, const int32_t *ids, size_t count,
                const char *const *names, size_t name_count)
{
    kvs_err err;

    *c = (capture){0};
    if (kvs_model_trace(model, ids, count, names, name_count, take, c, &err) != KVS_OK)
        fail_msg("%s", err.message);
}

/* The values of an activation, whose name may have "%zu" for the layer; NULL = not visited. */
static const taken *find(const capture *c, const char *name, size_t layer)
{
    char whole[NAME];

    if (strncmp(name, "blocks.", 7) == 0)
        snprintf(whole, sizeof whole, "blocks.%zu.%s", layer, name + strlen("blocks.*."));
    else
        snprintf(whole, sizeof whole, "%s", name);
    for (size_t i = 0; i < c->count; i++)
        if (strcmp(c->list[i].name, whole) == 0)
            return &c->list[i];
    return NULL;
}

static const float *values_of(const capture *c, const char *name, size_t layer)
{
    const taken *found = find(c, name, layer);

    if (!found)
        fail_msg("'%s' of layer %zu was not visited", name, layer);
    return found->values;
}

/* ---- which are visited ---- */

static int ends_with_any(const char *name, const char *const *ends, size_t count)
{
    for (size_t i = 0; i < count; i++)
        if (kvsi_ends_with(name, ends[i]))
            return 1;
    return 0;
}

#define ENDS_WITH(name, ...)                                                                       \
    ends_with_any(name, (const char *const[]){__VA_ARGS__},                                        \
                  sizeof((const char *const[]){__VA_ARGS__}) / sizeof(char *))

static int model_has(const kvs_model_config *c, const char *name, size_t layer)
{
    if (ENDS_WITH(name, "hook_pos_embed"))
        return c->positions == KVSI_POSITIONS_LEARNED;
    if (ENDS_WITH(name, "hook_normalized"))
        return !c->no_norm && !(c->no_mlp && ENDS_WITH(name, "ln2.hook_normalized"));
    if (ENDS_WITH(name, "hook_rot_q", "hook_rot_k"))
        return kvsi_layer_shape_of(c, layer).rotary > 0;
    if (ENDS_WITH(name, "hook_pre_linear"))
        return !c->no_mlp && c->body == KVSI_BODY_LLAMA;
    if (ENDS_WITH(name, "hook_resid_mid", "mlp.hook_pre", "hook_post", "hook_mlp_out"))
        return !c->no_mlp;
    return 1;
}

/* Shape of an activation; returns the rank. */
static size_t expected_shape(size_t shape[4], const kvs_model_config *c, const char *name,
                             size_t layer)
{
    const kvsi_layer_shape s = kvsi_layer_shape_of(c, layer);
    const int of_keys = ENDS_WITH(name, "_k", "_v", "_k_raw", "_v_raw");

    shape[0] = tokens;
    if (ENDS_WITH(name, "hook_attn_scores", "hook_pattern", "hook_content")) {
        shape[0] = s.heads;
        shape[1] = shape[2] = tokens;
        return 3;
    }
    if (of_keys || ENDS_WITH(name, "_q", "_q_raw", "hook_z")) {
        shape[1] = of_keys ? s.kv_heads : s.heads;
        shape[2] = s.head_size;
        return 3;
    }
    shape[1] = ENDS_WITH(name, "mlp.hook_pre", "hook_pre_linear", "mlp.hook_post") ? c->ffn
               : strcmp(name, "logits") == 0 ? kvsi_pass_logit_count(c)
                                             : c->dim;
    return 2;
}

static size_t expect_next(const capture *c, size_t at, const kvs_model_config *config,
                          const char *name, size_t layer)
{
    size_t shape[4] = {0};
    const size_t rank = expected_shape(shape, config, name, layer);
    const taken *expected = find(c, name, layer);

    if (!model_has(config, name, layer)) {
        assert_null(expected);
        return at;
    }
    if (at >= c->count || expected != &c->list[at])
        fail_msg("'%s' of layer %zu is not number %zu", name, layer, at);
    assert_int_equal(expected->rank, rank);
    for (size_t i = 0; i < rank; i++)
        assert_int_equal(expected->shape[i], shape[i]);
    return at + 1;
}

/* Everything that the model has, in the order of kvs_activation_name(), layer by layer. */
static void expect_all(const capture *c, const kvs_model_config *config)
{
    size_t at = 0, first = 0, end = 0;
    const char *name;

    for (; (name = kvs_activation_name(first)) && !strchr(name, '*'); first++)
        at = expect_next(c, at, config, name, 0);
    for (size_t layer = 0; layer < config->layers; layer++)
        for (end = first; (name = kvs_activation_name(end)) && strchr(name, '*'); end++)
            at = expect_next(c, at, config, name, layer);
    for (; (name = kvs_activation_name(end)); end++)
        at = expect_next(c, at, config, name, 0);
    assert_int_equal(at, c->count);
}

/* ---- the definition, in double ---- */

typedef struct checked {
    const kvs_model *model;
    const kvs_model_config *config;
    const char *what;
    const capture *c;
    double limit;
} checked;

static float *tensor_of(const kvs_model *model, const char *name, const kvsi_parameter **p)
{
    float *values;

    *p = kvsi_layout_find(&model->layout, name);
    if (!*p)
        return NULL;
    assert_non_null(values = kvsi_alloc((*p)->count, sizeof *values));
    assert_int_equal(kvs_model_read_tensor(values, (*p)->count, model, name, NULL), KVS_OK);
    return values;
}

static float *layer_tensor(const checked *k, size_t layer, const char *llama, const char *gpt2,
                           const kvsi_parameter **p)
{
    const int is_gpt2 = k->config->body == KVSI_BODY_GPT2;
    char name[128];

    snprintf(name, sizeof name, "%s.%zu.%s", is_gpt2 ? "transformer.h" : "model.layers", layer,
             is_gpt2 ? gpt2 : llama);
    return tensor_of(k->model, name, p);
}

static float *numbers(size_t count)
{
    float *made = kvsi_alloc(count, sizeof *made);

    assert_non_null(made);
    return made;
}

/* Compares an activation with what the test made, which is released. */
static void expect(const checked *k, const char *name, size_t layer, float *expected)
{
    const taken *found = find(k->c, name, layer);

    assert_non_null(found);
    support_expect_close(found->values, expected, found->count, k->limit, "%s: '%s' of layer %zu",
                         k->what, name, layer);
    kvsi_free(expected);
}

/* out = x W^T + bias for rows `first` to first + rows - 1 of W. */
static float *linear(const float *x, const kvsi_parameter *p, const float *w, const float *bias,
                     size_t first, size_t rows)
{
    const size_t in = p->shape[p->transposed ? 0 : 1], all = p->shape[p->transposed ? 1 : 0];
    float *out = numbers(tokens * rows);

    for (size_t t = 0; t < tokens; t++)
        for (size_t o = 0; o < rows; o++) {
            double sum = bias ? (double)bias[first + o] : 0;

            for (size_t i = 0; i < in; i++)
                sum += (double)x[t * in + i] *
                       (double)(p->transposed ? w[i * all + first + o] : w[(first + o) * in + i]);
            out[t * rows + o] = (float)sum;
        }
    return out;
}

/* The projection of one activation is another one.  GPT-2 has q, k and v in one matrix. */
static void check_linear(const checked *k, size_t layer, const char *from, const char *to,
                         const char *llama, const char *gpt2, size_t gpt2_first)
{
    const taken *found = find(k->c, to, layer);
    const kvsi_parameter *p, *bias_of;
    char bias_name[64];
    float *w = layer_tensor(k, layer, llama, gpt2, &p), *bias;

    snprintf(bias_name, sizeof bias_name, "%.*sbias", (int)(strlen(gpt2) - strlen("weight")), gpt2);
    bias = layer_tensor(k, layer, "no such tensor", bias_name, &bias_of);
    assert_true(w && found);
    expect(k, to, layer,
           linear(values_of(k->c, from, layer), p, w, bias,
                  k->config->body == KVSI_BODY_GPT2 ? gpt2_first : 0, found->count / tokens));
    kvsi_free(w);
    kvsi_free(bias);
}

/* LayerNorm if there is a bias, otherwise RMSNorm. */
static float *norm(const float *x, const float *gain, const float *bias, size_t dim, double eps)
{
    float *out = numbers(tokens * dim);

    for (size_t t = 0; t < tokens; t++) {
        double mean = 0, squares = 0;

        for (size_t i = 0; bias && i < dim; i++)
            mean += (double)x[t * dim + i] / (double)dim;
        for (size_t i = 0; i < dim; i++)
            squares += pow((double)x[t * dim + i] - mean, 2);
        for (size_t i = 0; i < dim; i++)
            out[t * dim + i] = (float)(((double)x[t * dim + i] - mean) /
                                           sqrt(squares / (double)dim + eps) * (double)gain[i] +
                                       (bias ? (double)bias[i] : 0));
    }
    return out;
}

static void check_norm(const checked *k, size_t layer, const char *from, const char *to,
                       const char *llama, const char *gpt2)
{
    const kvsi_parameter *p;
    char bias_name[64];
    float *gain = layer_tensor(k, layer, llama, gpt2, &p), *bias;

    snprintf(bias_name, sizeof bias_name, "%.*sbias", (int)(strlen(gpt2) - strlen("weight")), gpt2);
    bias = layer_tensor(k, layer, "no such tensor", bias_name, &p);
    expect(k, to, layer,
           norm(values_of(k->c, from, layer), gain, bias, k->config->dim, k->config->norm_eps));
    kvsi_free(gain);
    kvsi_free(bias);
}

/* to = from + branch, or the branch alone in a model without residuals. */
static void check_sum(const checked *k, size_t layer, const char *from, const char *branch,
                      const char *to)
{
    const float *x = values_of(k->c, from, layer), *y = values_of(k->c, branch, layer);
    const size_t count = tokens * k->config->dim;
    float *sum = numbers(count);

    for (size_t i = 0; i < count; i++)
        sum[i] = (float)((k->config->no_residual ? 0 : (double)x[i]) + (double)y[i]);
    expect(k, to, layer, sum);
}

/* ---- the shift ---- */

typedef struct target {
    unsigned flag;
    const char *tensor, *raw, *shifted, *rotated;
} target;

static const target targets[] = {
    {KVS_SHIFT_Q, "q_shift", "blocks.*.attn.hook_q_raw", "blocks.*.attn.hook_q",
     "blocks.*.attn.hook_rot_q"},
    {KVS_SHIFT_K, "k_shift", "blocks.*.attn.hook_k_raw", "blocks.*.attn.hook_k",
     "blocks.*.attn.hook_rot_k"},
    {KVS_SHIFT_V, "v_shift", "blocks.*.attn.hook_v_raw", "blocks.*.attn.hook_v", NULL},
};

/* What attention projects: its norm's output, or its input if there are no norms. */
static const char *attention_input(const kvs_model_config *c)
{
    return c->no_norm ? "blocks.*.hook_resid_pre" : "blocks.*.ln1.hook_normalized";
}

/* taps[tokens, window + 1, d], oldest first: how the rows of one head are mixed at each token. */
static double *taps_of(const checked *k, size_t layer, const target *x, size_t head)
{
    const kvsi_shift_config *shift = &k->config->shift;
    const size_t d = kvsi_layer_shape_of(k->config, layer).head_size, dim = k->config->dim;
    const size_t each = (shift->targets & x->flag ? shift->window : 0) + 1;
    double *taps = kvsi_alloc(tokens * each * d, sizeof *taps), means[KVSI_TAPS_MAX];
    const float *input = values_of(k->c, attention_input(k->config), layer);
    const kvsi_parameter *p;
    char name[64], gpt2[64];
    float *tensor;

    assert_non_null(taps);
    snprintf(name, sizeof name, "self_attn.%s", x->tensor);
    snprintf(gpt2, sizeof gpt2, "attn.%s", x->tensor);
    tensor = layer_tensor(k, layer, name, gpt2, &p);
    if (each > 1 && shift->form != KVSI_SHIFT_DATA)
        assert_int_equal(kvs_model_taps(means, NULL, k->model, layer, x->flag, head, NULL), KVS_OK);
    for (size_t t = 0; t < tokens; t++) {
        double logit = 0;

        for (size_t i = 0; each > 1 && shift->form == KVSI_SHIFT_DATA && i < dim; i++)
            logit += (double)input[t * dim + i] * (double)tensor[head * dim + i];
        for (size_t j = 0; j < each; j++)
            for (size_t i = 0; i < d; i++) {
                double *tap = &taps[(t * each + j) * d + i];

                if (each == 1)
                    *tap = 1;
                else if (shift->form == KVSI_SHIFT_DATA)
                    *tap = 1 / (1 + exp(j == 0 ? -logit : logit));
                else if (shift->form == KVSI_SHIFT_HARD)
                    *tap = (i >= d / 2) == (j == 0);
                else if (shift->form == KVSI_SHIFT_CHANNEL)
                    *tap = (double)tensor[(head * d + i) * each + j];
                else
                    *tap = means[j];
            }
    }
    kvsi_free(tensor);
    return taps;
}

/* shifted_t = sum_j taps_t[j] raw_{t-window+j} */
static void check_shift(const checked *k, size_t layer, const target *x)
{
    const taken *raw = find(k->c, x->raw, layer);
    const size_t heads = raw->shape[1], d = raw->shape[2];
    const size_t window = k->config->shift.targets & x->flag ? k->config->shift.window : 0;
    float *expected = numbers(raw->count);

    for (size_t h = 0; h < heads; h++) {
        double *taps = taps_of(k, layer, x, h);

        for (size_t t = 0; t < tokens; t++)
            for (size_t i = 0; i < d; i++) {
                double sum = 0;

                for (size_t back = 0; back <= window && back <= t; back++)
                    sum += taps[(t * (window + 1) + window - back) * d + i] *
                           (double)raw->values[((t - back) * heads + h) * d + i];
                expected[(t * heads + h) * d + i] = (float)sum;
            }
        kvsi_free(taps);
    }
    expect(k, x->shifted, layer, expected);
}

/* A rotation keeps the length, the first token, and the channels that do not rotate. */
static void check_rotation(const checked *k, size_t layer, const target *x)
{
    const size_t rotary = kvsi_layer_shape_of(k->config, layer).rotary;
    const taken *rotated = x->rotated ? find(k->c, x->rotated, layer) : NULL;
    const float *rows = values_of(k->c, x->shifted, layer);
    double moved = 0;
    size_t d;

    if (!rotated)
        return;
    d = rotated->shape[2];
    for (size_t r = 0; r < rotated->count / d; r++) {
        const float *before = rows + r * d, *after = rotated->values + r * d;
        double squares = 0, others = 0;

        for (size_t i = 0; i < d; i++) {
            squares += (double)before[i] * (double)before[i];
            others += (double)after[i] * (double)after[i];
            moved = fmax(moved, fabs((double)before[i] - (double)after[i]));
            if (r < rotated->shape[1] || i >= rotary)
                assert_true(before[i] == after[i]);
        }
        if (!(fabs(sqrt(squares) - sqrt(others)) <= 1e-6 * sqrt(squares)))
            fail_msg("%s: a row of '%s' had length %g and has %g", k->what, rotated->name,
                     sqrt(squares), sqrt(others));
    }
    assert_true(moved > 0.1);
}

/* ---- weights of attention ---- */

static int is_seen(const kvsi_layer_shape *s, size_t t, size_t key)
{
    return key <= t && (s->sliding_window == 0 || key + s->sliding_window > t);
}

/* A token's score for itself has no distance: q . k * scale. */
static void check_own_scores(const checked *k, size_t layer)
{
    const kvsi_layer_shape s = kvsi_layer_shape_of(k->config, layer);
    const size_t d = s.head_size, group = s.heads / s.kv_heads;
    const float *q = values_of(k->c, targets[0].shifted, layer);
    const float *keys = values_of(k->c, targets[1].shifted, layer);
    const float *scores = values_of(k->c, "blocks.*.attn.hook_attn_scores", layer);
    float *found = numbers(s.heads * tokens), *expected = numbers(s.heads * tokens);

    for (size_t h = 0; h < s.heads; h++)
        for (size_t t = 0; t < tokens; t++) {
            double sum = 0;

            for (size_t i = 0; i < d; i++) /* rotations of both cancel */
                sum += (double)q[(t * s.heads + h) * d + i] *
                       (double)keys[(t * s.kv_heads + h / group) * d + i];
            found[h * tokens + t] = scores[(h * tokens + t) * tokens + t];
            expected[h * tokens + t] = (float)(sum / sqrt((double)d));
        }
    support_expect_close(found, expected, s.heads * tokens, k->limit, "%s: own scores of layer %zu",
                         k->what, layer);
    kvsi_free(found);
    kvsi_free(expected);
}

/* The softmax of the scores is the pattern; rows sum to 1. */
static void check_pattern(const checked *k, size_t layer)
{
    const kvsi_layer_shape s = kvsi_layer_shape_of(k->config, layer);
    const float *scores = values_of(k->c, "blocks.*.attn.hook_attn_scores", layer);
    const float *pattern = values_of(k->c, "blocks.*.attn.hook_pattern", layer);
    float *expected = numbers(s.heads * tokens * tokens);

    for (size_t r = 0; r < s.heads * tokens; r++) {
        double sum = 0, total = 0;

        for (size_t key = 0; key < tokens; key++) {
            const double score = (double)scores[r * tokens + key];

            assert_true(is_seen(&s, r % tokens, key) ? isfinite(score) : score == -INFINITY);
            sum += exp(score);
            total += (double)pattern[r * tokens + key];
        }
        if (!(fabs(total - 1) < k->limit))
            fail_msg("%s: a row of the pattern of layer %zu sums to %g", k->what, layer, total);
        for (size_t key = 0; key < tokens; key++)
            expected[r * tokens + key] = (float)(exp((double)scores[r * tokens + key]) / sum);
    }
    expect(k, "blocks.*.attn.hook_pattern", layer, expected);
}

/* z of each head: its weights[heads, tokens, tokens] times rows[tokens, kv_heads, d]. */
static float *weigh(const float *weights, const float *rows, const kvsi_layer_shape *s)
{
    const size_t d = s->head_size, group = s->heads / s->kv_heads;
    float *out = numbers(tokens * s->heads * d);

    for (size_t t = 0; t < tokens; t++)
        for (size_t h = 0; h < s->heads; h++)
            for (size_t i = 0; i < d; i++) {
                double sum = 0;

                for (size_t key = 0; key < tokens; key++)
                    sum += (double)weights[(h * tokens + t) * tokens + key] *
                           (double)rows[(key * s->kv_heads + h / group) * d + i];
                out[(t * s->heads + h) * d + i] = (float)sum;
            }
    return out;
}

/* A_V[t, j] = sum_b tap_{j+b}[b back] A[t, j+b], with the mean of the channels' taps. */
static void check_content(const checked *k, size_t layer)
{
    const kvsi_layer_shape s = kvsi_layer_shape_of(k->config, layer);
    const float *pattern = values_of(k->c, "blocks.*.attn.hook_pattern", layer);
    const size_t window = k->config->shift.targets & KVS_SHIFT_V ? k->config->shift.window : 0;
    float *expected = numbers(s.heads * tokens * tokens);

    for (size_t h = 0; h < s.heads; h++) {
        double *taps = taps_of(k, layer, &targets[2], h / (s.heads / s.kv_heads));

        for (size_t t = 0; t < tokens; t++)
            for (size_t j = 0; j < tokens; j++) {
                double sum = 0;

                for (size_t back = 0; back <= window && j + back < tokens; back++)
                    for (size_t i = 0; i < s.head_size; i++)
                        sum += taps[((j + back) * (window + 1) + window - back) * s.head_size + i] /
                               (double)s.head_size *
                               (double)pattern[(h * tokens + t) * tokens + j + back];
                expected[(h * tokens + t) * tokens + j] = (float)sum;
            }
        kvsi_free(taps);
    }
    expect(k, "blocks.*.attn.hook_content", layer, expected);
}

static void check_weights(const checked *k, size_t layer)
{
    const kvsi_layer_shape s = kvsi_layer_shape_of(k->config, layer);
    const int channels_differ =
        (k->config->shift.targets & KVS_SHIFT_V) &&
        (k->config->shift.form == KVSI_SHIFT_CHANNEL || k->config->shift.form == KVSI_SHIFT_HARD);

    check_own_scores(k, layer);
    check_pattern(k, layer);
    check_content(k, layer);
    expect(k, "blocks.*.attn.hook_z", layer,
           weigh(values_of(k->c, "blocks.*.attn.hook_pattern", layer),
                 values_of(k->c, targets[2].shifted, layer), &s));
    if (!channels_differ)
        expect(k, "blocks.*.attn.hook_z", layer,
               weigh(values_of(k->c, "blocks.*.attn.hook_content", layer),
                     values_of(k->c, targets[2].raw, layer), &s));
}

/* ---- layers and models ---- */

static void check_activation_function(const checked *k, size_t layer)
{
    const float *pre = values_of(k->c, "blocks.*.mlp.hook_pre", layer);
    const size_t count = tokens * k->config->ffn;
    const int gelu = k->config->body == KVSI_BODY_GPT2;
    const float *up = gelu ? NULL : values_of(k->c, "blocks.*.mlp.hook_pre_linear", layer);
    float *expected = numbers(count);

    for (size_t i = 0; i < count; i++) {
        const double x = (double)pre[i];

        expected[i] =
            gelu ? (float)(0.5 * x * (1 + tanh(sqrt(2 / acos(-1)) * (x + 0.044715 * x * x * x))))
                 : (float)(x / (1 + exp(-x)) * (double)up[i]);
    }
    expect(k, "blocks.*.mlp.hook_post", layer, expected);
}

static void check_layer(const checked *k, size_t layer)
{
    const kvs_model_config *c = k->config;
    const kvsi_layer_shape s = kvsi_layer_shape_of(c, layer);
    const size_t kv_dim = s.kv_heads * s.head_size;
    const char *in = attention_input(c);
    const char *mlp_in = c->no_norm ? "blocks.*.hook_resid_mid" : "blocks.*.ln2.hook_normalized";

    if (!c->no_norm)
        check_norm(k, layer, "blocks.*.hook_resid_pre", "blocks.*.ln1.hook_normalized",
                   "input_layernorm.weight", "ln_1.weight");
    check_linear(k, layer, in, targets[0].raw, "self_attn.q_proj.weight", "attn.c_attn.weight", 0);
    check_linear(k, layer, in, targets[1].raw, "self_attn.k_proj.weight", "attn.c_attn.weight",
                 c->dim);
    check_linear(k, layer, in, targets[2].raw, "self_attn.v_proj.weight", "attn.c_attn.weight",
                 c->dim + kv_dim);
    for (size_t i = 0; i < sizeof targets / sizeof *targets; i++) {
        check_shift(k, layer, &targets[i]);
        check_rotation(k, layer, &targets[i]);
    }
    check_weights(k, layer);
    check_linear(k, layer, "blocks.*.attn.hook_z", "blocks.*.hook_attn_out",
                 "self_attn.o_proj.weight", "attn.c_proj.weight", 0);
    check_sum(k, layer, "blocks.*.hook_resid_pre", "blocks.*.hook_attn_out",
              c->no_mlp ? "blocks.*.hook_resid_post" : "blocks.*.hook_resid_mid");
    if (c->no_mlp)
        return;
    if (!c->no_norm)
        check_norm(k, layer, "blocks.*.hook_resid_mid", "blocks.*.ln2.hook_normalized",
                   "post_attention_layernorm.weight", "ln_2.weight");
    check_linear(k, layer, mlp_in, "blocks.*.mlp.hook_pre", "mlp.gate_proj.weight",
                 "mlp.c_fc.weight", 0);
    if (c->body == KVSI_BODY_LLAMA)
        check_linear(k, layer, mlp_in, "blocks.*.mlp.hook_pre_linear", "mlp.up_proj.weight", "", 0);
    check_activation_function(k, layer);
    check_linear(k, layer, "blocks.*.mlp.hook_post", "blocks.*.hook_mlp_out",
                 "mlp.down_proj.weight", "mlp.c_proj.weight", 0);
    check_sum(k, layer, "blocks.*.hook_resid_mid", "blocks.*.hook_mlp_out",
              "blocks.*.hook_resid_post");
}

/* Rows of the embedding tables; their sum is the first layer's input. */
static void check_embedding(const checked *k, const int32_t *ids)
{
    const int gpt2 = k->config->body == KVSI_BODY_GPT2;
    const size_t dim = k->config->dim;
    const taken *positions = find(k->c, "hook_pos_embed", 0);
    const float *input = values_of(k->c, "blocks.*.hook_resid_pre", 0);
    const kvsi_parameter *p;
    float *table =
        tensor_of(k->model, gpt2 ? "transformer.wte.weight" : "model.embed_tokens.weight", &p);
    float *rows = numbers(tokens * dim), *sum = numbers(tokens * dim);

    for (size_t i = 0; i < tokens * dim; i++) {
        rows[i] = table[(size_t)ids[i / dim] * dim + i % dim];
        sum[i] = positions ? rows[i] + positions->values[i] : rows[i];
    }
    assert_memory_equal(input, sum, tokens * dim * sizeof *sum);
    kvsi_free(sum);
    expect(k, "hook_embed", 0, rows);
    kvsi_free(table);
    if (!positions)
        return;
    table =
        tensor_of(k->model, gpt2 ? "transformer.wpe.weight" : "model.embed_positions.weight", &p);
    assert_non_null(table);
    assert_memory_equal(positions->values, table, tokens * dim * sizeof *table);
    kvsi_free(table);
}

/* The output of the last layer -> the final norm -> the head. */
static void check_head(const checked *k)
{
    const kvs_model_config *c = k->config;
    const int gpt2 = c->body == KVSI_BODY_GPT2;
    const char *embed = gpt2 ? "transformer.wte.weight" : "model.embed_tokens.weight";
    const float *x = values_of(k->c, "blocks.*.hook_resid_post", c->layers - 1);
    const kvsi_parameter *p;

    if (!c->no_norm) {
        float *gain =
            tensor_of(k->model, gpt2 ? "transformer.ln_f.weight" : "model.norm.weight", &p);
        float *bias = tensor_of(k->model, gpt2 ? "transformer.ln_f.bias" : "no such tensor", &p);

        expect(k, "ln_final.hook_normalized", 0, norm(x, gain, bias, c->dim, c->norm_eps));
        x = values_of(k->c, "ln_final.hook_normalized", 0);
        kvsi_free(gain);
        kvsi_free(bias);
    }
    if (c->head == KVSI_HEAD_LINEAR) {
        float *w = tensor_of(k->model, c->tied ? embed : "lm_head.weight", &p);

        expect(k, "logits", 0, linear(x, p, w, NULL, 0, c->vocab));
        kvsi_free(w);
    }
}

/* Logits of each token, fed one by one and all at once. */
static void check_session(const checked *k, const int32_t *ids)
{
    const size_t count = kvs_model_logit_count(k->model);
    float *logits = numbers(tokens * count);
    kvs_session *s;

    assert_int_equal(kvs_session_create(&s, k->model, NULL, NULL), KVS_OK);
    for (size_t t = 0; t < tokens; t++)
        assert_int_equal(kvs_session_feed(s, ids + t, 1, logits + t * count, NULL), KVS_OK);
    expect(&(checked){k->model, k->config, k->what, k->c, fmax(whole_model, k->limit)}, "logits", 0,
           logits);
    kvs_session_free(s);
}

static void check_all(const kvs_model *model, const char *name, double limit)
{
    capture c;
    const checked k = {model, &model->config, name, &c, limit};
    int32_t ids[LONG];

    support_fill_ids(ids, tokens, 5, VOCAB);
    run(&c, model, ids, tokens, NULL, 0);
    expect_all(&c, &model->config);
    check_embedding(&k, ids);
    for (size_t layer = 0; layer < model->config.layers; layer++) {
        check_layer(&k, layer);
        if (layer > 0)
            assert_memory_equal(values_of(&c, "blocks.*.hook_resid_pre", layer),
                                values_of(&c, "blocks.*.hook_resid_post", layer - 1),
                                tokens * model->config.dim * sizeof(float));
    }
    check_head(&k);
    check_session(&k, ids);
    capture_release(&c);
}

static void check_model(const kvs_model *model, const char *name)
{
    check_all(model, name, one_step);
}

static const support_sizes sizes = {.vocab = VOCAB, .dim = 24, .ffn = 20, .context = 32};

static void every_model_is_read(void **state)
{
    (void)state;
    family_each_model(&(family_scope){.sizes = sizes}, check_model);
}

static void every_shift_is_read(void **state)
{
    (void)state;
    family_each_shift(&(family_scope){.sizes = sizes, .levels = 1}, check_model);
}

/* Heads whose rows are scaled, or that are not there. */
static void every_head_is_read(void **state)
{
    static const kvsi_head_kind heads[] = {KVSI_HEAD_NORMALISED, KVSI_HEAD_NONE};
    kvs_runtime *rt = support_runtime(NULL);

    (void)state;
    for (size_t i = 0; i < sizeof heads / sizeof *heads; i++) {
        const kvs_model_config special = {SUPPORT_SHIFT(KVS_SHIFT_K | KVS_SHIFT_V, FREE, 1),
                                          .head = heads[i]};
        const kvs_model_config config = support_config(&special, &sizes);
        kvs_model *model = support_model(rt, &config, 7);

        check_model(model, heads[i] == KVSI_HEAD_NONE ? "no head" : "normalised head");
        kvs_model_free(model);
    }
    kvs_runtime_free(rt);
}

/* More tokens than a tile of attention, and than rows of logits that are computed at once. */
static void long_sequences_are_read(void **state)
{
    const kvs_model_config special = {
        SUPPORT_SHIFT(KVS_SHIFT_K | KVS_SHIFT_V | KVS_SHIFT_Q, FREE, 2), .kv_heads = 2};
    const support_sizes larger = {.vocab = VOCAB, .dim = 24, .ffn = 20, .context = 160};
    const kvs_model_config config = support_config(&special, &larger);
    kvs_runtime *rt = support_runtime(NULL);
    kvs_model *model = support_model(rt, &config, 7);

    (void)state;
    tokens = LONG;
    check_model(model, "long");
    tokens = SHORT;
    kvs_model_free(model);
    kvs_runtime_free(rt);
}

/* ---- models in mapped files ---- */

typedef struct mapped {
    kvs_dtype dtype;
    kvs_model_config special;
} mapped;

static void check_mapped(kvs_runtime *rt, const char *dir, const mapped *m)
{
    const support_sizes whole_blocks = {.vocab = VOCAB, .dim = 64, .ffn = 96, .context = 32};
    const kvs_model_config config = support_config(&m->special, &whole_blocks);
    const int quantized = m->dtype == KVS_DTYPE_Q8_0 || m->dtype == KVS_DTYPE_Q4_0;
    char *path = kvsi_path_join(dir, kvs_dtype_name(m->dtype));
    kvs_convert_options options;
    kvs_load_options load;
    kvs_model *model = NULL;
    kvs_err err;

    kvs_convert_options_init(&options, sizeof options);
    kvs_load_options_init(&load, sizeof load);
    load.mapped = 1;
    options.config = &config;
    options.seed = 5;
    options.format = KVS_FORMAT_GGUF;
    options.dtype = m->dtype;
    options.threads = 1;
    if (kvs_convert(path, NULL, &options, &err) != KVS_OK ||
        kvs_model_load(&model, rt, path, &load, &err) != KVS_OK)
        fail_msg("%s", err.message);
    assert_null(model->parameters);
    check_all(model, kvs_dtype_name(m->dtype), quantized ? rounded_inputs : one_step);
    kvs_model_free(model);
    kvsi_free(path);
}

static void mapped_models_are_read(void **state)
{
    enum { KV = KVS_SHIFT_K | KVS_SHIFT_V };
    static const mapped models[] = {
        {KVS_DTYPE_F32, {SUPPORT_SHIFT(KV, FREE, 1), .kv_heads = 2}},
        {KVS_DTYPE_F16, {SUPPORT_SHIFT(KV, DATA, 1), .sliding_window = 9}},
        {KVS_DTYPE_Q8_0, {SUPPORT_SHIFT(KV, FREE, 2), .kv_heads = 2}},
        {KVS_DTYPE_Q4_0, {SUPPORT_SHIFT(KV, GATE, 1), .positions = KVSI_POSITIONS_ALIBI}},
    };
    kvs_runtime *rt = support_runtime(NULL);
    char *dir = support_make_dir();

    (void)state;
    for (size_t i = 0; i < sizeof models / sizeof *models; i++)
        check_mapped(rt, dir, &models[i]);
    support_remove_dir(dir);
    kvs_runtime_free(rt);
}

/* ---- a model for the other tests ---- */

typedef struct fixture {
    kvs_runtime *rt;
    kvs_model *model;
    int32_t ids[LONG];
} fixture;

static fixture make_fixture(kvs_runtime *rt)
{
    const kvs_model_config special = {
        SUPPORT_SHIFT(KVS_SHIFT_K | KVS_SHIFT_V | KVS_SHIFT_Q, FREE, 1), .kv_heads = 2};
    const kvs_model_config config = support_config(&special, &sizes);
    fixture f = {.rt = rt, .model = support_model(rt, &config, 7)};

    support_fill_ids(f.ids, tokens, 5, VOCAB);
    return f;
}

static void fixture_release(fixture *f)
{
    kvs_model_free(f->model);
    kvs_runtime_free(f->rt);
}

/* ---- names ---- */

enum { NAMES_MAX = 5 };

/* Ends with NULL. */
typedef struct filter {
    const char *names[NAMES_MAX], *visited[NAMES_MAX];
} filter;

static size_t count_names(const char *const *names)
{
    size_t count = 0;

    while (count < NAMES_MAX && names[count])
        count++;
    return count;
}

/* What was visited has the values that it has among all activations. */
static void check_filter(const fixture *f, const capture *all, const filter *by)
{
    const size_t count = count_names(by->visited);
    capture c;

    run(&c, f->model, f->ids, tokens, by->names, count_names(by->names));
    assert_int_equal(c.count, count);
    for (size_t i = 0; i < count; i++) {
        const taken *found = &c.list[i], *expected = NULL;

        for (size_t j = 0; j < all->count && !expected; j++)
            if (strcmp(all->list[j].name, by->visited[i]) == 0)
                expected = &all->list[j];
        assert_non_null(expected);
        assert_string_equal(found->name, by->visited[i]);
        assert_int_equal(found->count, expected->count);
        assert_memory_equal(found->values, expected->values, found->count * sizeof(float));
    }
    capture_release(&c);
}

static void names_choose_what_is_visited(void **state)
{
    static const filter filters[] = {
        {{NULL}, {NULL}},
        {{"hook_embed"}, {"hook_embed"}},
        {{"logits"}, {"logits"}},
        {{"ln_final.hook_normalized"}, {"ln_final.hook_normalized"}},
        {{"blocks.0.hook_resid_pre"}, {"blocks.0.hook_resid_pre"}},
        {{"blocks.1.hook_resid_post"}, {"blocks.1.hook_resid_post"}},
        {{"blocks.1.mlp.hook_pre_linear"}, {"blocks.1.mlp.hook_pre_linear"}},
        {{"blocks.*.attn.hook_rot_q"}, {"blocks.0.attn.hook_rot_q", "blocks.1.attn.hook_rot_q"}},
        {{"blocks.0.attn.hook_v"}, {"blocks.0.attn.hook_v"}},
        {{"blocks.1.attn.hook_attn_scores"}, {"blocks.1.attn.hook_attn_scores"}},
        {{"blocks.1.attn.hook_content"}, {"blocks.1.attn.hook_content"}},
        {{"blocks.0.attn.hook_content", "blocks.0.attn.hook_pattern"},
         {"blocks.0.attn.hook_pattern", "blocks.0.attn.hook_content"}},
        /* in the order of the computation, each once */
        {{"logits", "blocks.1.hook_attn_out", "blocks.*.hook_attn_out", "hook_embed"},
         {"hook_embed", "blocks.0.hook_attn_out", "blocks.1.hook_attn_out", "logits"}},
        /* the model rotates */
        {{"hook_pos_embed"}, {NULL}},
    };
    fixture f = make_fixture(support_runtime(NULL));
    capture all;

    (void)state;
    run(&all, f.model, f.ids, tokens, NULL, 0);
    for (size_t i = 0; i < sizeof filters / sizeof *filters; i++)
        check_filter(&f, &all, &filters[i]);
    capture_release(&all);
    fixture_release(&f);
}

/* By the call, and in the table of the documentation. */
static void names_are_listed(void **state)
{
    size_t count = 0, size;
    char *page, row[NAME + 8];

    (void)state;
    assert_int_equal(kvsi_file_read(&page, &size, KVSI_TESTS_DIR "/../docs/api.md", 1 << 20, NULL),
                     KVS_OK);
    for (const char *name; (name = kvs_activation_name(count)); count++) {
        for (size_t i = 0; i < count; i++)
            assert_string_not_equal(name, kvs_activation_name(i));
        snprintf(row, sizeof row, "\n| `%s` ", name);
        if (!strstr(page, row))
            fail_msg("docs/api.md does not have '%s'", name);
    }
    kvsi_free(page);
    assert_int_equal(count, 26);
    assert_string_equal(kvs_activation_name(0), "hook_embed");
    assert_string_equal(kvs_activation_name(2), "blocks.*.hook_resid_pre");
    assert_string_equal(kvs_activation_name(25), "logits");
    assert_null(kvs_activation_name(SIZE_MAX));
}

/* ---- patterns ---- */

typedef struct heads_seen {
    const capture *c;
    size_t count;
} heads_seen;

static void compare_pattern(void *user, const kvs_pattern *p)
{
    heads_seen *seen = user;
    const size_t square = tokens * tokens;

    assert_int_equal(p->layer, seen->count / 4);
    assert_int_equal(p->head, seen->count % 4);
    assert_int_equal(p->kv_head, p->head / 2);
    assert_int_equal(p->tokens, tokens);
    assert_memory_equal(
        p->places, values_of(seen->c, "blocks.*.attn.hook_pattern", p->layer) + p->head * square,
        square * sizeof *p->places);
    assert_memory_equal(
        p->contents, values_of(seen->c, "blocks.*.attn.hook_content", p->layer) + p->head * square,
        square * sizeof *p->contents);
    seen->count++;
}

static void patterns_are_activations(void **state)
{
    fixture f = make_fixture(support_runtime(NULL));
    capture c;
    heads_seen seen = {.c = &c};

    (void)state;
    run(&c, f.model, f.ids, tokens, NULL, 0);
    assert_int_equal(kvs_patterns(f.model, f.ids, tokens, compare_pattern, &seen, NULL), KVS_OK);
    assert_int_equal(seen.count, 8);
    assert_int_equal(kvs_patterns(f.model, f.ids, tokens, NULL, NULL, NULL), KVS_E_INVALID);
    capture_release(&c);
    fixture_release(&f);
}

/* ---- only what is needed ---- */

typedef struct usage {
    size_t before, live; /* bytes */
} usage;

static int measure(void *user, const kvs_activation *a)
{
    usage *u = user;

    (void)a;
    u->live = kvsi_memory_live() - u->before;
    return 0;
}

static size_t memory_for(const kvs_model *model, const int32_t *ids, size_t count, const char *name)
{
    usage u = {.before = kvsi_memory_live()};

    assert_int_equal(kvs_model_trace(model, ids, count, &name, 1, measure, &u, NULL), KVS_OK);
    assert_int_equal(kvsi_memory_live(), u.before);
    return u.live;
}

/* Only scores, patterns and contents need memory of [heads, tokens, tokens]. */
static void squares_are_allocated_on_demand(void **state)
{
    enum { MANY = 256 };
    const kvs_model_config special = {SUPPORT_SHIFT(KVS_SHIFT_V, FREE, 1), .heads = 12};
    const support_sizes sizes_of_many = {.vocab = VOCAB, .dim = 24, .ffn = 20, .context = MANY};
    const kvs_model_config config = support_config(&special, &sizes_of_many);
    const size_t squares = (size_t)12 * MANY * MANY * sizeof(float);
    kvs_runtime *rt = support_runtime(NULL);
    kvs_model *model = support_model(rt, &config, 7);
    int32_t ids[MANY];
    size_t least;

    (void)state;
    support_fill_ids(ids, MANY, 5, VOCAB);
    least = memory_for(model, ids, MANY, "blocks.0.hook_resid_pre");
    for (size_t i = 0; kvs_activation_name(i); i++) {
        const char *name = kvs_activation_name(i);
        const size_t need = ENDS_WITH(name, "hook_content")                       ? 2
                            : ENDS_WITH(name, "hook_attn_scores", "hook_pattern") ? 1
                                                                                  : 0;
        const size_t used = memory_for(model, ids, MANY, name);
        const size_t more = used > least ? used - least : 0; /* not visited: 0 */

        if (more < need * squares || more > need * squares + squares / 2)
            fail_msg("'%s' uses %zu bytes more, %zu times [heads, tokens, tokens] are %zu", name,
                     more, need, need * squares);
    }
    kvs_model_free(model);
    kvs_runtime_free(rt);
}

static size_t operations_for(device *d, const fixture *f, const char *name)
{
    const size_t before = device_operations(d);
    capture c;

    run(&c, f->model, f->ids, tokens, &name, 1);
    capture_release(&c);
    return device_operations(d) - before;
}

/* The pass ends where nothing else is wanted. */
static void the_rest_of_the_pass_is_left_out(void **state)
{
    static const char *const later[] = {"hook_embed",
                                        "blocks.0.hook_resid_pre",
                                        "blocks.0.hook_resid_post",
                                        "blocks.1.hook_resid_pre",
                                        "blocks.1.hook_resid_post",
                                        "logits"};
    device *d = device_create();
    fixture f = make_fixture(device_runtime(d));
    size_t before = 0;

    (void)state;
    for (size_t i = 0; i < sizeof later / sizeof *later; i++) {
        const size_t operations = operations_for(d, &f, later[i]);

        if (operations <= before)
            fail_msg("'%s' takes %zu operations, what comes before it %zu", later[i], operations,
                     before);
        before = operations;
    }
    assert_true(operations_for(d, &f, "blocks.*.attn.hook_k") <
                operations_for(d, &f, "blocks.*.attn.hook_attn_scores"));
    fixture_release(&f);
    device_free(d);
}

/* ---- other memory than the host's ---- */

static void device_has_the_same_activations(void **state)
{
    device *d = device_create();
    fixture f = make_fixture(support_runtime("reference")), g = make_fixture(device_runtime(d));
    capture expected, found;

    (void)state;
    run(&expected, f.model, f.ids, tokens, NULL, 0);
    run(&found, g.model, g.ids, tokens, NULL, 0);
    assert_int_equal(found.count, expected.count);
    for (size_t i = 0; i < found.count; i++) {
        assert_string_equal(found.list[i].name, expected.list[i].name);
        assert_memory_equal(found.list[i].values, expected.list[i].values,
                            found.list[i].count * sizeof(float));
    }
    capture_release(&found);
    capture_release(&expected);
    fixture_release(&f);
    fixture_release(&g);
    device_free(d);
}

static void failed_operations_become_a_status(void **state)
{
    device *d = device_create();
    fixture f = make_fixture(device_runtime(d));
    const size_t before = device_operations(d);
    size_t all;
    capture c;
    kvs_err err;

    (void)state;
    run(&c, f.model, f.ids, tokens, NULL, 0);
    capture_release(&c);
    all = device_operations(d) - before;
    for (size_t i = 0; i < all; i += 7) {
        device_fail_at(d, i);
        err.status = KVS_OK;
        assert_int_not_equal(kvs_model_trace(f.model, f.ids, tokens, NULL, 0, take, &c, &err),
                             KVS_OK);
        assert_int_not_equal(err.status, KVS_OK);
        capture_release(&c);
    }
    device_fail_at(d, SIZE_MAX);
    fixture_release(&f);
    device_free(d);
}

/* ---- failures ---- */

static void expect_failure(kvs_status status, const char *part, const kvs_model *model,
                           const int32_t *ids, size_t count, const char *name)
{
    capture c = {0};
    kvs_err err;

    if (kvs_model_trace(model, ids, count, name ? &name : NULL, name != NULL, take, &c, &err) !=
        status)
        fail_msg("not the status %d: %s", (int)status, name ? name : part);
    assert_int_equal(err.status, status);
    if (!strstr(err.message, part))
        fail_msg("'%s' is not in '%s'", part, err.message);
    assert_int_equal(c.count, 0);
}

static void wrong_arguments_fail(void **state)
{
    fixture f = make_fixture(support_runtime(NULL));
    const char *const names[] = {"logits", NULL};
    int32_t wrong[] = {1, 2, VOCAB}, many[33] = {0};
    capture c = {0};
    kvs_err err;

    (void)state;
    expect_failure(KVS_E_INVALID, "model is NULL", NULL, f.ids, tokens, NULL);
    expect_failure(KVS_E_INVALID, "ids is NULL", f.model, NULL, tokens, NULL);
    expect_failure(KVS_E_INVALID, "0 tokens", f.model, f.ids, 0, NULL);
    expect_failure(KVS_E_LIMIT, "the context is 32", f.model, many, 33, NULL);
    expect_failure(KVS_E_INVALID, "token 2 is id 19", f.model, wrong, 3, NULL);
    wrong[2] = -1;
    expect_failure(KVS_E_INVALID, "token 2 is id -1", f.model, wrong, 3, "logits");
    assert_int_equal(kvs_model_trace(f.model, f.ids, tokens, NULL, 0, NULL, NULL, &err),
                     KVS_E_INVALID);
    assert_non_null(strstr(err.message, "visit is NULL"));
    assert_int_equal(kvs_model_trace(f.model, f.ids, tokens, names, 2, take, &c, &err),
                     KVS_E_INVALID);
    assert_non_null(strstr(err.message, "name 1"));
    assert_int_equal(kvs_model_trace(f.model, f.ids, 0, NULL, 0, take, &c, NULL), KVS_E_INVALID);
    assert_int_equal(c.count, 0);
    fixture_release(&f);
}

static void unknown_names_fail_with_a_hint(void **state)
{
    static const struct {
        const char *name, *part;
    } wrong[] = {
        {"blocks.1.attn.hook_patern",
         "'blocks.1.attn.hook_patern'; did you mean 'blocks.1.attn.hook_pattern'?"},
        {"blocks.*.hook_resid_port", "did you mean 'blocks.*.hook_resid_post'?"},
        {"hook_embd", "did you mean 'hook_embed'?"},
        {"logit", "did you mean 'logits'?"},
        {"blocks.hook_resid_pre", "unknown activation"},
        {"blocks.00.hook_resid_pre", "did you mean 'blocks.*.hook_resid_pre'?"},
        {"blocks.-1.hook_resid_pre", "did you mean 'blocks.*.hook_resid_pre'?"},
        {"blocks..hook_resid_pre", "did you mean 'blocks.*.hook_resid_pre'?"},
        {"blocks.1x.hook_resid_pre", "did you mean 'blocks.*.hook_resid_pre'?"},
        {"blocks.0.logits", "unknown activation 'blocks.0.logits'"},
        {"", "unknown activation ''"},
        {"what nobody would call anything", "kvs_activation_name()"},
        {"blocks.2.hook_resid_pre", "the last of 2 layers is 1"},
        {"blocks.99999999999999999999999.hook_resid_pre", "the last of 2 layers is 1"},
        {"blocks.18446744073709551616.hook_resid_pre", "the last of 2 layers is 1"},
    };
    fixture f = make_fixture(support_runtime(NULL));
    char longest[2000];

    (void)state;
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++)
        expect_failure(KVS_E_INVALID, wrong[i].part, f.model, f.ids, tokens, wrong[i].name);
    memset(longest, 'x', sizeof longest);
    memcpy(longest, "blocks.0.", strlen("blocks.0."));
    longest[sizeof longest - 1] = '\0';
    expect_failure(KVS_E_INVALID, "unknown activation 'blocks.0.xxx", f.model, f.ids, tokens,
                   longest);
    fixture_release(&f);
}

/* The callback can stop at every activation, and nothing leaks. */
static void a_callback_can_stop(void **state)
{
    fixture f = make_fixture(support_runtime(NULL));
    size_t all, before;
    capture c;

    (void)state;
    run(&c, f.model, f.ids, tokens, NULL, 0);
    all = c.count;
    capture_release(&c);
    before = kvsi_memory_live();
    for (size_t i = 1; i <= all; i++) {
        kvs_err err;

        c = (capture){.stop_at = i};
        assert_int_equal(kvs_model_trace(f.model, f.ids, tokens, NULL, 0, take, &c, &err),
                         KVS_E_STOPPED);
        assert_int_equal(c.count, i);
        assert_non_null(strstr(err.message, c.list[i - 1].name));
        capture_release(&c);
    }
    assert_int_equal(kvsi_memory_live(), before);
    fixture_release(&f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_model_is_read),
        cmocka_unit_test(every_shift_is_read),
        cmocka_unit_test(every_head_is_read),
        cmocka_unit_test(long_sequences_are_read),
        cmocka_unit_test(mapped_models_are_read),
        cmocka_unit_test(names_choose_what_is_visited),
        cmocka_unit_test(names_are_listed),
        cmocka_unit_test(patterns_are_activations),
        cmocka_unit_test(squares_are_allocated_on_demand),
        cmocka_unit_test(the_rest_of_the_pass_is_left_out),
        cmocka_unit_test(device_has_the_same_activations),
        cmocka_unit_test(failed_operations_become_a_status),
        cmocka_unit_test(wrong_arguments_fail),
        cmocka_unit_test(unknown_names_fail_with_a_hint),
        cmocka_unit_test(a_callback_can_stop),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
