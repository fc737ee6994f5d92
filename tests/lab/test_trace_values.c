/* Checks the values of all activations that kvs_model_trace() returns.  Each activation is computed
 * again in double precision, from the model's tensors and from the activations before it, and
 * compared; errors are relative to its largest value.  The order and the shapes are checked too,
 * and the logits must equal those of a session. */
#include "base/files.h"
#include "base/memory.h"
#include "base/text.h"
#include "family.h"
#include "kernels/forms.h"
#include "kvshift/kvshift_files.h"
#include "trace.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

enum { LONG = 150 };

static size_t tokens = TRACE_TOKENS; /* the length of the sequence that a test traces */

/* Tolerance of one operation in float against double: sums have at most 100 products, 100 * 2^-24 =
 * 6e-6, and most errors cancel. */
static const double one_step = 2e-6;
/* Tolerance of quantized weights.  They are multiplied with inputs of 16 bits, and each product has
 * an error of 2^-16 of the largest input of its block. */
static const double rounded_inputs = 1e-4;
/* Tolerance of a whole model: the errors of all layers add up, in two orders of summation. */
static const double whole_model = 1e-5;

/* ---- names, order and shapes ---- */

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

/* Returns whether a model has an activation of this name. */
static int model_has(const kvs_model_config *c, const char *name, size_t layer)
{
    if (ENDS_WITH(name, "hook_pos_embed"))
        return c->positions == KVSI_POSITIONS_LEARNED;
    if (ENDS_WITH(name, "hook_normalized"))
        return !c->no_norm && (c->norm_place != KVSI_NORM_AFTER || strstr(name, "ln_final")) &&
               !(c->no_mlp && ENDS_WITH(name, "ln2.hook_normalized"));
    if (ENDS_WITH(name, "hook_rot_q", "hook_rot_k"))
        return kvsi_layer_shape_of(c, layer).rotary > 0;
    if (ENDS_WITH(name, "hook_pre_linear"))
        return !c->no_mlp && !c->plain_mlp;
    if (ENDS_WITH(name, "hook_resid_mid", "mlp.hook_pre", "hook_post", "hook_mlp_out"))
        return !c->no_mlp;
    return 1;
}

/* Sets the shape of an activation and returns its rank. */
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

/* Checks that visit number `at` is this activation if the model has it; returns the number of the
 * next visit. */
static size_t expect_next(const trace_capture *c, size_t at, const kvs_model_config *config,
                          const char *name, size_t layer)
{
    size_t shape[4] = {0};
    const size_t rank = expected_shape(shape, config, name, layer);
    const trace_activation *expected = trace_find(c, name, layer);

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

/* Checks that everything that the model has was visited, in the order of kvs_activation_name(),
 * layer by layer. */
static void expect_all(const trace_capture *c, const kvs_model_config *config)
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

/* ---- definitions in double: projections, norms, sums ---- */

/* A model and its activations, which are being checked. */
typedef struct checked {
    const kvs_model *model;
    const kvs_model_config *config;
    const char *what; /* for messages */
    const trace_capture *c;
    double limit; /* tolerance */
} checked;

/* Returns the values of a tensor in fresh memory, or NULL if the model does not have it. */
static float *tensor_of(const kvs_model *model, const char *name, const kvsi_parameter **p)
{
    float *values;

    *p = kvsi_layout_find(&model->layout, name);
    if (!*p)
        return NULL;
    assert_non_null(values = kvsi_alloc((*p)->count, sizeof *values));
    assert_int_equal(kvs_model_read_tensor(values, (*p)->count, model, name, NULL), KVS_OK);
    support_merge(values, model, *p);
    return values;
}

/* Returns a tensor of a layer; its name depends on the body of the model. */
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

/* Compares an activation with the expected values, and frees these. */
static void expect(const checked *k, const char *name, size_t layer, float *expected)
{
    const trace_activation *found = trace_find(k->c, name, layer);

    assert_non_null(found);
    support_expect_close(found->values, expected, found->count, k->limit, "%s: '%s' of layer %zu",
                         k->what, name, layer);
    kvsi_free(expected);
}

/* Returns x W^T + bias for rows `first` to first + rows - 1 of W. */
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

/* Returns the LayerNorm of x if there is a bias, otherwise its RMSNorm. */
static float *norm(const checked *k, const float *x, const float *gain, const float *bias)
{
    const size_t dim = k->config->dim;
    const double offset = k->config->gain_offset ? 1 : 0;
    float *out = numbers(tokens * dim);

    for (size_t t = 0; t < tokens; t++) {
        double mean = 0, squares = 0;

        for (size_t i = 0; bias && i < dim; i++)
            mean += (double)x[t * dim + i] / (double)dim;
        for (size_t i = 0; i < dim; i++)
            squares += pow((double)x[t * dim + i] - mean, 2);
        for (size_t i = 0; i < dim; i++)
            out[t * dim + i] = (float)(((double)x[t * dim + i] - mean) /
                                           sqrt(squares / (double)dim + k->config->norm_eps) *
                                           (offset + (double)gain[i]) +
                                       (bias ? (double)bias[i] : 0));
    }
    return out;
}

/* The norm of x by the tensors of a layer, which have these names with .weight and .bias. */
static float *layer_norm(const checked *k, size_t layer, const float *x, const char *llama,
                         const char *gpt2)
{
    const kvsi_parameter *p;
    char names[4][64];
    float *gain, *bias, *out;

    snprintf(names[0], sizeof names[0], "%s.weight", llama);
    snprintf(names[1], sizeof names[1], "%s.weight", gpt2);
    snprintf(names[2], sizeof names[2], "%s.bias", llama);
    snprintf(names[3], sizeof names[3], "%s.bias", gpt2);
    gain = layer_tensor(k, layer, names[0], names[1], &p);
    bias = layer_tensor(k, layer, names[2], names[3], &p);
    assert_non_null(gain);
    out = norm(k, x, gain, bias);
    kvsi_free(gain);
    kvsi_free(bias);
    return out;
}

/* Filters the output of attention or MLP, whose tensors are in `folder`, in place. */
static void filter(const checked *k, size_t layer, const char *folder, float *x)
{
    const size_t dim = k->config->dim, window = k->config->filter_window;
    const kvsi_parameter *p;
    char name[64];
    float *taps, *factor;

    snprintf(name, sizeof name, "%s.filter", folder);
    taps = layer_tensor(k, layer, name, "no such tensor", &p);
    snprintf(name, sizeof name, "%s.factor", folder);
    factor = layer_tensor(k, layer, name, "no such tensor", &p);
    for (size_t t = tokens; taps && t-- > 0;) /* rows before t are not filtered yet */
        for (size_t i = 0; i < dim; i++) {
            double sum = (double)x[t * dim + i];

            for (size_t back = 0; back <= window && back <= t; back++)
                sum += (double)taps[i * (window + 1) + window - back] *
                       (double)x[(t - back) * dim + i];
            x[t * dim + i] = (float)(sum * (factor ? (double)*factor : 1));
        }
    kvsi_free(taps);
    kvsi_free(factor);
}

/* Checks that activation `to` is a projection of activation `from`, for a branch after its filter,
 * norm and scale.  GPT-2 has q, k and v in one
 * matrix, in which `gpt2_first` is the first row. */
static void check_linear(const checked *k, size_t layer, const char *from, const char *to,
                         const char *llama, const char *gpt2, size_t gpt2_first)
{
    const trace_activation *found = trace_find(k->c, to, layer);
    const kvsi_parameter *p, *bias_of;
    const double scale = k->config->residual_scale;
    const int is_branch = ENDS_WITH(to, "hook_attn_out", "hook_mlp_out");
    char bias_name[64], llama_name[64];
    float *w = layer_tensor(k, layer, llama, gpt2, &p), *bias, *out;

    snprintf(bias_name, sizeof bias_name, "%.*sbias", (int)(strlen(gpt2) - strlen("weight")), gpt2);
    snprintf(llama_name, sizeof llama_name, "%.*sbias", (int)(strlen(llama) - strlen("weight")),
             llama);
    bias = layer_tensor(k, layer, llama_name, bias_name, &bias_of);
    assert_true(w && found);
    out = linear(trace_values(k->c, from, layer), p, w, bias,
                 k->config->body == KVSI_BODY_GPT2 ? gpt2_first : 0, found->count / tokens);
    if (is_branch)
        filter(k, layer, ENDS_WITH(to, "hook_attn_out") ? "self_attn" : "mlp", out);
    if (is_branch && k->config->norm_place != KVSI_NORM_BEFORE) {
        float *normed = layer_norm(k, layer, out,
                                   ENDS_WITH(to, "hook_attn_out") ? "post_attention_layernorm"
                                                                  : "post_feedforward_layernorm",
                                   "");

        kvsi_free(out);
        out = normed;
    }
    for (size_t i = 0; is_branch && scale > 0 && i < found->count; i++)
        out[i] *= (float)scale;
    expect(k, to, layer, out);
    kvsi_free(w);
    kvsi_free(bias);
}

/* cap * tanh(x / cap); 0 = x stays */
static float capped(float x, double cap)
{
    return cap > 0 ? (float)(cap * tanh((double)x / cap)) : x;
}

static void check_norm(const checked *k, size_t layer, const char *from, const char *to,
                       const char *llama, const char *gpt2)
{
    expect(k, to, layer, layer_norm(k, layer, trace_values(k->c, from, layer), llama, gpt2));
}

/* Checks that to = from + branch, or to = branch in a model without residuals. */
static void check_sum(const checked *k, size_t layer, const char *from, const char *branch,
                      const char *to)
{
    const float *x = trace_values(k->c, from, layer), *y = trace_values(k->c, branch, layer);
    const size_t count = tokens * k->config->dim;
    float *sum = numbers(count);

    for (size_t i = 0; i < count; i++)
        sum[i] = (float)((k->config->no_residual ? 0 : (double)x[i]) + (double)y[i]);
    expect(k, to, layer, sum);
}

/* ---- definitions in double: the shift and the rotation ---- */

/* Names of one of q, k and v. */
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

/* Returns the name of what attention projects: the output of its norm, or the input of the layer if
 * there are no norms. */
static const char *attention_input(const kvs_model_config *c)
{
    return c->no_norm || c->norm_place == KVSI_NORM_AFTER ? "blocks.*.hook_resid_pre"
                                                          : "blocks.*.ln1.hook_normalized";
}

/* Returns the taps of one head, [tokens, window + 1, d].  The taps of a token start with the tap of
 * the oldest row. */
static double *taps_of(const checked *k, size_t layer, const target *x, size_t head)
{
    const kvsi_shift_config *shift = &k->config->shift;
    const size_t d = kvsi_layer_shape_of(k->config, layer).head_size, dim = k->config->dim;
    const size_t each = (shift->targets & x->flag ? shift->window : 0) + 1;
    double *taps = kvsi_alloc(tokens * each * d, sizeof *taps), means[KVSI_TAPS_MAX];
    const float *input = trace_values(k->c, attention_input(k->config), layer);
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
                else if (shift->form == KVSI_SHIFT_RESIDUAL)
                    *tap = (double)tensor[(head * d + i) * each + j] + (j == each - 1);
                else
                    *tap = means[j];
            }
    }
    kvsi_free(tensor);
    return taps;
}

/* Checks that shifted_t = sum_j taps_t[j] raw_{t-window+j}. */
static void check_shift(const checked *k, size_t layer, const target *x)
{
    const trace_activation *raw = trace_find(k->c, x->raw, layer);
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

/* Multiplies a row, which begins with a head, by 1 / its deviation and by the gains, if the model
 * has them. */
static void normalise_rows(float *row, const checked *k, size_t layer, const target *x, size_t head,
                           size_t count, double inverse)
{
    const char side = x->flag == KVS_SHIFT_Q ? 'q' : 'k';
    const kvsi_parameter *p;
    char name[64];
    float *gain;

    if (k->config->qk_norm == KVSI_QK_NORM_LAYER)
        snprintf(name, sizeof name, "self_attn.%c_layernorm.norms.%zu.weight", side, head);
    else
        snprintf(name, sizeof name, "self_attn.%c_norm.weight", side);
    gain = layer_tensor(k, layer, name, "no such tensor", &p);
    assert_true(!gain == (k->config->qk_norm == KVSI_QK_NORM_NONE));
    for (size_t i = 0; gain && i < count; i++)
        row[i] *= (float)(inverse * ((k->config->gain_offset ? 1 : 0) + (double)gain[i]));
    kvsi_free(gain);
}

/* Returns the shifted rows of q or k as they are rotated: normalised, if the model does so, and
 * times the scale of yarn or longrope. */
static float *rows_to_rotate(const checked *k, size_t layer, const target *x)
{
    const trace_activation *shifted = trace_find(k->c, x->shifted, layer);
    const size_t d = shifted->shape[2];
    const double scale = family_rotation_scale(k->config);
    const size_t heads = shifted->shape[1];
    const size_t together = k->config->qk_norm == KVSI_QK_NORM_FULL ? heads * d : d;
    float *rows = numbers(shifted->count);

    for (size_t r = 0; r < shifted->count; r += together) {
        const size_t head = r / d % heads;
        double mean = 0, squares = 0;

        for (size_t i = r; i < r + together; i++)
            mean += k->config->qk_norm == KVSI_QK_NORM_LAYER ? (double)shifted->values[i] : 0;
        mean /= (double)together;
        for (size_t i = r; i < r + together; i++)
            squares += pow((double)shifted->values[i] - mean, 2);
        for (size_t i = r; i < r + together; i++)
            rows[i] = (float)(scale * ((double)shifted->values[i] - mean));
        normalise_rows(rows + r, k, layer, x, head, together,
                       1 / sqrt(squares / (double)together + k->config->norm_eps));
    }
    return rows;
}

/* Checks that the rotation keeps the length of every row, the rows of the first token, and the
 * channels that do not rotate. */
static void check_rotation(const checked *k, size_t layer, const target *x)
{
    const size_t rotary = kvsi_layer_shape_of(k->config, layer).rotary;
    const trace_activation *rotated = x->rotated ? trace_find(k->c, x->rotated, layer) : NULL;
    const int is_exact =
        k->config->qk_norm == KVSI_QK_NORM_NONE && family_rotation_scale(k->config) <= 1;
    const double limit = is_exact ? 0 : 1e-5;
    double moved = 0;
    float *rows;
    size_t d;

    if (!rotated)
        return;
    rows = rows_to_rotate(k, layer, x);
    d = rotated->shape[2];
    for (size_t r = 0; r < rotated->count / d; r++) {
        const float *before = rows + r * d, *after = rotated->values + r * d;
        double squares = 0, others = 0;

        for (size_t i = 0; i < d; i++)
            squares += (double)before[i] * (double)before[i];
        for (size_t i = 0; i < d; i++) {
            /* LayerNorm subtracts a mean, so what is left may be small. */
            const int by_layernorm = k->config->qk_norm == KVSI_QK_NORM_LAYER;
            const double size = by_layernorm ? sqrt(squares / (double)d) : fabs((double)before[i]);

            others += (double)after[i] * (double)after[i];
            moved = fmax(moved, fabs((double)before[i] - (double)after[i]));
            if ((r < rotated->shape[1] || i >= rotary) &&
                !(fabs((double)before[i] - (double)after[i]) <= limit * size))
                fail_msg("%s: '%s' has %g in channel %zu of row %zu, expected %g", k->what,
                         rotated->name, (double)after[i], i, r, (double)before[i]);
        }
        if (!(fabs(sqrt(squares) - sqrt(others)) <= 1e-6 * sqrt(squares)))
            fail_msg("%s: a row of '%s' had length %g and has %g", k->what, rotated->name,
                     sqrt(squares), sqrt(others));
    }
    kvsi_free(rows);
    assert_true(moved > 0.1);
}

/* ---- definitions in double: scores, patterns and contents of attention ---- */

/* Returns whether token t attends to token `key`. */
static int is_seen(const kvsi_layer_shape *s, size_t t, size_t key)
{
    return key <= t && (s->sliding_window == 0 || key + s->sliding_window > t);
}

/* Returns the factor of the scores of row t. */
static double growth_of(const checked *k, const kvsi_layer_shape *s, size_t t)
{
    const kvs_model_config *c = k->config;

    if (c->score_growth == 0 || s->sliding_window > 0)
        return 1;
    return 1 + c->score_growth * log(fmax((double)(t + 1) / c->score_growth_start, 1));
}

/* Returns the terms of relative positions at distance 0, [tokens, heads]; zeros without them. */
static float *own_terms(const checked *k, size_t layer, const kvsi_layer_shape *s)
{
    const size_t dim = k->config->dim, size = k->config->relative_size;
    const float *x = trace_values(k->c, attention_input(k->config), layer);
    const kvsi_parameter *p;
    float *w = layer_tensor(k, layer, "self_attn.r_proj.weight", "no such tensor", &p);
    float *table = layer_tensor(k, layer, "self_attn.r_table", "no such tensor", &p);
    float *out = numbers(tokens * s->heads);

    assert_true(!w == (s->relative_extent == 0));
    for (size_t r = 0; w && r < tokens * s->heads; r++)
        for (size_t c = 0; c < size; c++)
            for (size_t i = 0; i < dim; i++)
                out[r] += table[c * s->relative_extent] * w[(r % s->heads * size + c) * dim + i] *
                          x[r / s->heads * dim + i];
    kvsi_free(w);
    kvsi_free(table);
    return out;
}

/* Checks each token's score for itself: at distance 0 it is q . k * scale for all positions but
 * relative ones. */
static void check_own_scores(const checked *k, size_t layer)
{
    const kvsi_layer_shape s = kvsi_layer_shape_of(k->config, layer);
    const size_t d = s.head_size, group = s.heads / s.kv_heads;
    float *q = rows_to_rotate(k, layer, &targets[0]), *keys = rows_to_rotate(k, layer, &targets[1]);
    const float *scores = trace_values(k->c, "blocks.*.attn.hook_attn_scores", layer);
    float *found = numbers(s.heads * tokens), *expected = numbers(s.heads * tokens);
    float *terms = own_terms(k, layer, &s);
    const int by_size = k->config->score_divisor == KVSI_SCORE_DIVISOR_SIZE;
    const double scale = 1 / (by_size ? (double)d : sqrt((double)d));

    for (size_t h = 0; h < s.heads; h++)
        for (size_t t = 0; t < tokens; t++) {
            const double growth = growth_of(k, &s, t);
            double sum = 0;

            for (size_t i = 0; i < d; i++) /* the rotations of q and k cancel */
                sum += (double)q[(t * s.heads + h) * d + i] *
                       (double)keys[(t * s.kv_heads + h / group) * d + i];
            found[h * tokens + t] = scores[(h * tokens + t) * tokens + t];
            expected[h * tokens + t] = capped((float)(growth * sum * scale), k->config->score_cap) +
                                       (float)growth * terms[t * s.heads + h];
        }
    support_expect_close(found, expected, s.heads * tokens, k->limit, "%s: own scores of layer %zu",
                         k->what, layer);
    kvsi_free(q);
    kvsi_free(keys);
    kvsi_free(found);
    kvsi_free(expected);
    kvsi_free(terms);
}

/* Checks that the pattern is the softmax of the scores, and that its rows sum to 1.  The pattern
 * comes from another pass than the scores, so a score has two roundings, and exp() makes relative
 * errors of both: twice the tolerance of one operation. */
static void check_pattern(const checked *k, size_t layer)
{
    const kvsi_layer_shape s = kvsi_layer_shape_of(k->config, layer);
    const float *scores = trace_values(k->c, "blocks.*.attn.hook_attn_scores", layer);
    const float *pattern = trace_values(k->c, "blocks.*.attn.hook_pattern", layer);
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
    support_expect_close(pattern, expected, s.heads * tokens * tokens, 2 * k->limit,
                         "%s: pattern of layer %zu", k->what, layer);
    kvsi_free(expected);
}

/* Returns z of each head: weights[heads, tokens, tokens] times rows[tokens, kv_heads, d]. */
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

/* Checks that A_V[t, j] = sum_b tap_{j+b}[b back] A[t, j+b], where a tap is the mean over the
 * channels. */
static void check_content(const checked *k, size_t layer)
{
    const kvsi_layer_shape s = kvsi_layer_shape_of(k->config, layer);
    const float *pattern = trace_values(k->c, "blocks.*.attn.hook_pattern", layer);
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

/* Checks the weights of attention, and that they give z: the pattern with shifted values, and, if
 * all channels have the same taps, the content with raw values. */
static void check_weights(const checked *k, size_t layer)
{
    const kvsi_layer_shape s = kvsi_layer_shape_of(k->config, layer);
    const int channels_differ =
        (k->config->shift.targets & KVS_SHIFT_V) &&
        (k->config->shift.form == KVSI_SHIFT_CHANNEL || k->config->shift.form == KVSI_SHIFT_HARD ||
         k->config->shift.form == KVSI_SHIFT_RESIDUAL);

    check_own_scores(k, layer);
    check_pattern(k, layer);
    check_content(k, layer);
    expect(k, "blocks.*.attn.hook_z", layer,
           weigh(trace_values(k->c, "blocks.*.attn.hook_pattern", layer),
                 trace_values(k->c, targets[2].shifted, layer), &s));
    if (!channels_differ)
        expect(k, "blocks.*.attn.hook_z", layer,
               weigh(trace_values(k->c, "blocks.*.attn.hook_content", layer),
                     trace_values(k->c, targets[2].raw, layer), &s));
}

/* ---- whole layers and models ---- */

static void check_activation_function(const checked *k, size_t layer)
{
    const float *pre = trace_values(k->c, "blocks.*.mlp.hook_pre", layer);
    const size_t count = tokens * k->config->ffn;
    const kvsi_activation f = k->config->activation;
    const float *up =
        k->config->plain_mlp ? NULL : trace_values(k->c, "blocks.*.mlp.hook_pre_linear", layer);
    float *expected = numbers(count);

    for (size_t i = 0; i < count; i++) {
        const double x = (double)pre[i];
        const double y = f == KVSI_ACTIVATION_GELU ? x * erfc(-x / sqrt(2)) / 2
                         : f == KVSI_ACTIVATION_GELU_TANH
                             ? 0.5 * x * (1 + tanh(sqrt(2 / acos(-1)) * (x + 0.044715 * x * x * x)))
                         : f == KVSI_ACTIVATION_RELU ? fmax(x, 0)
                                                     : x / (1 + exp(-x));

        expected[i] = (float)(y * (up ? (double)up[i] : 1));
    }
    expect(k, "blocks.*.mlp.hook_post", layer, expected);
}

static void check_layer(const checked *k, size_t layer)
{
    const kvs_model_config *c = k->config;
    const kvsi_layer_shape s = kvsi_layer_shape_of(c, layer);
    const size_t kv_dim = s.kv_heads * s.head_size;
    const char *in = attention_input(c);
    const int before = !c->no_norm && c->norm_place != KVSI_NORM_AFTER;
    const char *middle =
        c->parallel == KVSI_PARALLEL_NONE ? "blocks.*.hook_resid_mid" : "blocks.*.hook_resid_pre";
    const char *mlp_in = before ? "blocks.*.ln2.hook_normalized" : middle;

    if (before)
        check_norm(k, layer, "blocks.*.hook_resid_pre", "blocks.*.ln1.hook_normalized",
                   "input_layernorm", "ln_1");
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
    if (before)
        check_norm(k, layer, middle, "blocks.*.ln2.hook_normalized",
                   c->parallel == KVSI_PARALLEL_SHARED ? "input_layernorm"
                   : c->norm_place == KVSI_NORM_BOTH   ? "pre_feedforward_layernorm"
                                                       : "post_attention_layernorm",
                   "ln_2");
    check_linear(k, layer, mlp_in, "blocks.*.mlp.hook_pre",
                 c->plain_mlp ? "mlp.up_proj.weight" : "mlp.gate_proj.weight", "mlp.c_fc.weight",
                 0);
    if (!c->plain_mlp)
        check_linear(k, layer, mlp_in, "blocks.*.mlp.hook_pre_linear", "mlp.up_proj.weight", "", 0);
    check_activation_function(k, layer);
    check_linear(k, layer, "blocks.*.mlp.hook_post", "blocks.*.hook_mlp_out",
                 "mlp.down_proj.weight", "mlp.c_proj.weight", 0);
    check_sum(k, layer, "blocks.*.hook_resid_mid", "blocks.*.hook_mlp_out",
              "blocks.*.hook_resid_post");
}

/* Checks that embeddings are rows of their tables, and that their sum, after the norm if there is
 * one, is the input of the first layer. */
static void check_embedding(const checked *k, const int32_t *ids)
{
    const int gpt2 = k->config->body == KVSI_BODY_GPT2;
    const size_t dim = k->config->dim;
    const float scale = (float)k->config->embedding_scale;
    const trace_activation *positions = trace_find(k->c, "hook_pos_embed", 0);
    const float *input = trace_values(k->c, "blocks.*.hook_resid_pre", 0);
    const kvsi_parameter *p;
    float *table =
        tensor_of(k->model, gpt2 ? "transformer.wte.weight" : "model.embed_tokens.weight", &p);
    float *rows = numbers(tokens * dim), *sum = numbers(tokens * dim);

    for (size_t i = 0; i < tokens * dim; i++) {
        rows[i] = table[(size_t)ids[i / dim] * dim + i % dim];
        sum[i] = scale > 0 ? rows[i] * scale : rows[i];
        sum[i] = positions ? sum[i] + positions->values[i] : sum[i];
    }
    if (k->config->embedding_norm && !positions) {
        float *gain = tensor_of(k->model, "model.embed_norm.weight", &p);
        float *bias = tensor_of(k->model, "model.embed_norm.bias", &p);

        expect(k, "blocks.*.hook_resid_pre", 0, norm(k, sum, gain, bias));
        kvsi_free(gain);
        kvsi_free(bias);
    } else {
        assert_memory_equal(input, sum, tokens * dim * sizeof *sum);
    }
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

/* Checks the final norm and the head, which follow the last layer. */
static void check_head(const checked *k)
{
    const kvs_model_config *c = k->config;
    const int gpt2 = c->body == KVSI_BODY_GPT2;
    const char *embed = gpt2 ? "transformer.wte.weight" : "model.embed_tokens.weight";
    const float *x = trace_values(k->c, "blocks.*.hook_resid_post", c->layers - 1);
    const kvsi_parameter *p;

    if (!c->no_norm) {
        float *gain =
            tensor_of(k->model, gpt2 ? "transformer.ln_f.weight" : "model.norm.weight", &p);
        float *bias = tensor_of(k->model, gpt2 ? "transformer.ln_f.bias" : "model.norm.bias", &p);
        float *normed = norm(k, x, gain, bias);

        for (size_t i = 0; c->logit_divisor > 0 && i < tokens * c->dim; i++)
            normed[i] = (float)((double)normed[i] / c->logit_divisor);
        expect(k, "ln_final.hook_normalized", 0, normed);
        x = trace_values(k->c, "ln_final.hook_normalized", 0);
        kvsi_free(gain);
        kvsi_free(bias);
    }
    if (c->head == KVSI_HEAD_LINEAR) {
        float *w = tensor_of(k->model, c->tied ? embed : "lm_head.weight", &p);

        float *logits = linear(x, p, w, NULL, 0, c->vocab);

        for (size_t i = 0; i < tokens * c->vocab; i++)
            logits[i] = capped(logits[i], c->logit_cap);
        expect(k, "logits", 0, logits);
        kvsi_free(w);
    }
}

/* Compares the logits with those of a session that is fed one token at a time. */
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
    trace_capture c;
    const checked k = {model, &model->config, name, &c, limit};
    int32_t ids[LONG];

    support_fill_ids(ids, tokens, 5, TRACE_VOCAB);
    trace_run(&c, model, ids, tokens, NULL, 0);
    expect_all(&c, &model->config);
    check_embedding(&k, ids);
    for (size_t layer = 0; layer < model->config.layers; layer++) {
        check_layer(&k, layer);
        if (layer > 0)
            assert_memory_equal(trace_values(&c, "blocks.*.hook_resid_pre", layer),
                                trace_values(&c, "blocks.*.hook_resid_post", layer - 1),
                                tokens * model->config.dim * sizeof(float));
    }
    check_head(&k);
    check_session(&k, ids);
    trace_capture_release(&c);
}

static void check_model(const kvs_model *model, const char *name)
{
    check_all(model, name, one_step);
}

static void every_model_is_traced(void **state)
{
    (void)state;
    family_each_model(&(family_scope){.sizes = trace_sizes}, check_model);
}

static void every_shift_is_traced(void **state)
{
    (void)state;
    family_each_shift(&(family_scope){.sizes = trace_sizes, .levels = 1}, check_model);
}

/* A head with normalised rows, and a model without a head. */
static void every_head_is_traced(void **state)
{
    static const kvsi_head_kind heads[] = {KVSI_HEAD_NORMALISED, KVSI_HEAD_NONE};
    kvs_runtime *rt = support_runtime(NULL);

    (void)state;
    for (size_t i = 0; i < sizeof heads / sizeof *heads; i++) {
        const kvs_model_config special = {SUPPORT_SHIFT(KVS_SHIFT_K | KVS_SHIFT_V, FREE, 1),
                                          .head = heads[i]};
        const kvs_model_config config = support_config(&special, &trace_sizes);
        kvs_model *model = support_model(rt, &config, 7);

        check_model(model, heads[i] == KVSI_HEAD_NONE ? "no head" : "normalised head");
        kvs_model_free(model);
    }
    kvs_runtime_free(rt);
}

/* The sequence is longer than a tile of attention, and than the number of rows whose logits are
 * computed at once. */
static void long_sequences_are_traced(void **state)
{
    const kvs_model_config special = {
        SUPPORT_SHIFT(KVS_SHIFT_K | KVS_SHIFT_V | KVS_SHIFT_Q, FREE, 2), .kv_heads = 2};
    const support_sizes larger = {.vocab = TRACE_VOCAB, .dim = 24, .ffn = 20, .context = 160};
    const kvs_model_config config = support_config(&special, &larger);
    kvs_runtime *rt = support_runtime(NULL);
    kvs_model *model = support_model(rt, &config, 7);

    (void)state;
    tokens = LONG;
    check_model(model, "long");
    tokens = TRACE_TOKENS;
    kvs_model_free(model);
    kvs_runtime_free(rt);
}

/* ---- models in mapped files ---- */

/* A model, and the type of its weights in the file. */
typedef struct mapped {
    kvs_dtype dtype;
    kvs_model_config special;
} mapped;

static void check_mapped(kvs_runtime *rt, const char *dir, const mapped *m)
{
    const support_sizes whole_blocks = {.vocab = TRACE_VOCAB, .dim = 64, .ffn = 96, .context = 32};
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

static void mapped_models_are_traced(void **state)
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

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_model_is_traced),    cmocka_unit_test(every_shift_is_traced),
        cmocka_unit_test(every_head_is_traced),     cmocka_unit_test(long_sequences_are_traced),
        cmocka_unit_test(mapped_models_are_traced),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
