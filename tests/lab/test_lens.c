/* Patterns equal what attention computes, and heads constructed by hand get the expected scores. */
#include "base/files.h"
#include "base/memory.h"
#include "base/program.h"
#include "kvshift/kvshift_lab.h"
#include "support.h"

#include <math.h>
#include <string.h>

/* ---- patterns against the model itself ---- */

enum { TOKENS = 23, VOCAB = 50, DIM = 24 };

/* Results of a pass after the attention of each layer. */
typedef struct capture {
    kvsi_pass *pass;
    real *qkv, *mixed; /* of all layers, [layers, TOKENS, width] and [layers, TOKENS, DIM] */
    size_t width;
} capture;

static int keep_layer(void *user, size_t layer, kvsi_watch_point point)
{
    capture *c = user;
    const kvsi_layer_memory *m = &c->pass->layers[layer];
    kvsi_context *k = &c->pass->context;

    if (point != KVSI_WATCH_ATTENTION)
        return 0;
    k->ops->download(k, c->qkv + layer * TOKENS * c->width, m->qkv,
                     TOKENS * c->width * sizeof *c->qkv);
    k->ops->download(k, c->mixed + layer * TOKENS * DIM, m->mixed, TOKENS * DIM * sizeof *c->mixed);
    k->ops->sync(k);
    return 0;
}

typedef struct comparison {
    const capture *captured;
    const kvs_model_config *config;
    size_t heads;
    double most;
} comparison;

/* sum_j A_V[t, j] v_j with raw v must equal the attention output of the head. */
static void compare_head(void *user, const kvs_pattern *p)
{
    comparison *c = user;
    const kvsi_layer_shape shape = kvsi_layer_shape_of(c->config, p->layer);
    const size_t d = shape.head_size, width = shape.qkv_width;
    const real *v = c->captured->qkv + p->layer * TOKENS * c->captured->width +
                    (shape.heads + shape.kv_heads + p->kv_head) * d;
    const real *mixed = c->captured->mixed + p->layer * TOKENS * DIM + p->head * d;

    c->heads++;
    assert_int_equal(p->tokens, TOKENS);
    for (size_t t = 0; t < TOKENS; t++) {
        double sum = 0;

        for (size_t s = 0; s < TOKENS; s++) {
            sum += (double)p->places[t * TOKENS + s];
            assert_true(s <= t || p->places[t * TOKENS + s] == 0);
        }
        assert_true(fabs(sum - 1) < 1e-5);
        for (size_t i = 0; i < d; i++) {
            double made = 0;

            for (size_t s = 0; s < TOKENS; s++)
                made += (double)p->contents[t * TOKENS + s] * (double)v[s * width + i];
            c->most = fmax(c->most, fabs(made - (double)mixed[t * DIM + i]));
        }
    }
}

static void check_patterns(const kvs_model_config *special)
{
    const support_sizes sizes = {.vocab = VOCAB, .dim = DIM, .ffn = 32, .context = 32};
    const kvs_model_config config = support_config(special, &sizes);
    kvs_runtime *rt = support_runtime(NULL);
    kvs_model *model = support_model(rt, &config, 3);
    kvsi_pass *pass = support_pass(model, TOKENS, 1, 0);
    const size_t starts[] = {0, TOKENS}, width = 3 * DIM;
    int32_t ids[TOKENS];
    const kvs_batch batch = {.sequences = 1, .starts = starts, .ids = ids};
    capture captured = {.pass = pass, .width = width};
    comparison c = {.captured = &captured, .config = kvs_model_get_config(model)};
    kvs_err err;

    captured.qkv = kvsi_alloc(config.layers * TOKENS * width, sizeof(real));
    captured.mixed = kvsi_alloc(config.layers * TOKENS * DIM, sizeof(real));
    support_fill_ids(ids, TOKENS, 5, VOCAB);
    assert_int_equal(kvsi_pass_load(pass, &batch, NULL, NULL), KVS_OK);
    pass->watch = keep_layer;
    pass->watcher = &captured;
    kvsi_pass_forward(pass);
    if (kvs_patterns(model, ids, TOKENS, compare_head, &c, &err) != KVS_OK)
        fail_msg("%s", err.message);
    assert_int_equal(c.heads, kvs_lens_heads(model));
    if (!(c.most < 1e-4)) /* float32, values of size 10 */
        fail_msg("shift %s %s: contents differ by %g",
                 kvsi_shift_targets_name(config.shift.targets),
                 kvsi_shift_form_name(config.shift.form), c.most);
    kvsi_free(captured.qkv);
    kvsi_free(captured.mixed);
    kvsi_pass_free(pass);
    kvs_model_free(model);
    kvs_runtime_free(rt);
}

static void patterns_are_what_attention_does(void **state)
{
    enum { KV = KVS_SHIFT_K | KVS_SHIFT_V, QKV = KV | KVS_SHIFT_Q };
    static const kvs_model_config models[] = {
        {.body = KVSI_BODY_LLAMA},
        {SUPPORT_SHIFT(KV, FREE, 1)},
        {SUPPORT_SHIFT(KVS_SHIFT_V, FREE, 3), .kv_heads = 2},
        {SUPPORT_SHIFT(QKV, CLAMP, 2)},
        {SUPPORT_SHIFT(KV, GATE, 1), .body = KVSI_BODY_GPT2, .positions = KVSI_POSITIONS_LEARNED},
        {SUPPORT_SHIFT(QKV, DATA, 1), .kv_heads = 2},
        {SUPPORT_SHIFT(KV, FREE, 1), .sliding_window = 5},
        {SUPPORT_SHIFT(KV, FREE, 2), .positions = KVSI_POSITIONS_ALIBI},
    };

    (void)state;
    for (size_t i = 0; i < sizeof models / sizeof *models; i++)
        check_patterns(&models[i]);
}

/* ---- heads built by hand ---- */

enum { LETTERS = 64 };

/* One layer, one head, identity weights and embeddings; equal tokens score 40. */
static kvs_model *build_head(kvs_runtime *rt, const kvs_coefficients *c, double slope)
{
    const float k[] = {(float)c->alpha2, (float)c->alpha1};
    const float v[] = {(float)c->beta2, (float)c->beta1};
    float *unit = kvsi_alloc((size_t)LETTERS * LETTERS, sizeof *unit);
    kvs_model_config config;
    kvs_model *model;

    kvsi_model_config_init(&config);
    config.vocab = config.dim = LETTERS;
    config.context = 2 * LETTERS;
    config.heads = 1;
    config.shift.targets = KVS_SHIFT_K | KVS_SHIFT_V;
    config.positions = KVSI_POSITIONS_ALIBI;
    config.slopes = 1;
    config.slope[0] = slope;
    config.score_scale = 40;
    config.no_norm = config.no_residual = config.no_mlp = config.identity_projections = 1;
    config.tied = 1;
    for (size_t i = 0; i < LETTERS; i++)
        unit[i * LETTERS + i] = 1;
    assert_int_equal(kvs_model_create(&model, rt, &config, 1, NULL), KVS_OK);
    assert_int_equal(kvs_model_write_tensor(model, "model.embed_tokens.weight", unit,
                                            (size_t)LETTERS * LETTERS, NULL),
                     KVS_OK);
    assert_int_equal(kvs_model_write_tensor(model, "model.layers.0.self_attn.k_shift", k, 2, NULL),
                     KVS_OK);
    assert_int_equal(kvs_model_write_tensor(model, "model.layers.0.self_attn.v_shift", v, 2, NULL),
                     KVS_OK);
    kvsi_free(unit);
    return model;
}

static kvs_head_reading read_one(const kvs_coefficients *c, double slope)
{
    kvs_runtime *rt = support_runtime(NULL);
    kvs_model *model = build_head(rt, c, slope);
    kvs_lens_options options;
    kvs_head_reading found;

    kvs_lens_options_init(&options);
    options.length = 24;
    assert_int_equal(kvs_lens_options_finish(&options, model, NULL), KVS_OK);
    assert_int_equal(kvs_lens_heads(model), 1);
    assert_int_equal(kvs_lens_read(&found, model, &options, NULL), KVS_OK);
    kvs_model_free(model);
    kvs_runtime_free(rt);
    return found;
}

/* Other weights are e^-40, so the intended ones are 1 to float rounding. */
static void expect_score(double found, double expected)
{
    if (!(fabs(found - expected) < 1e-4))
        fail_msg("score %.6f, expected %g", found, expected);
}

static void pure_induction_head_is_read_as_one(void **state)
{
    const kvs_coefficients induction = {.alpha1 = 0, .alpha2 = 1, .beta1 = 1, .beta2 = 0};
    const kvs_head_reading found = read_one(&induction, 0.01);

    (void)state;
    expect_score(found.places.induction, 1);
    expect_score(found.contents.induction, 1);
    expect_score(found.contents.duplicate, 0);
    expect_score(found.previous_keys, 1);
}

/* Keys and values of the previous token: an ordinary head that looks like an induction head by
 * position. */
static void head_that_is_off_by_one_is_read_rightly(void **state)
{
    const kvs_coefficients shifted = {.alpha1 = 0, .alpha2 = 1, .beta1 = 0, .beta2 = 1};
    const kvs_head_reading found = read_one(&shifted, 0.01);

    (void)state;
    expect_score(found.places.induction, 1);
    expect_score(found.contents.induction, 0);
    expect_score(found.contents.duplicate, 1);
}

/* By position it attends to the token itself; the values it reads are those of the previous one. */
static void head_that_copies_the_token_before_is_seen(void **state)
{
    const kvs_coefficients copies = {.alpha1 = 1, .alpha2 = 0, .beta1 = 0, .beta2 = 1};
    const kvs_head_reading found = read_one(&copies, 50);

    (void)state;
    expect_score(found.places.previous, 0);
    expect_score(found.contents.previous, 1);
    expect_score(found.previous_keys, 0);
}

/* Subtracted values count with their sign. */
static void negative_values_show(void **state)
{
    const kvs_coefficients c = {.alpha1 = 0, .alpha2 = 1, .beta1 = 2, .beta2 = -0.5};
    const kvs_head_reading found = read_one(&c, 0.01);

    (void)state;
    expect_score(found.contents.induction, 2);
    expect_score(found.contents.duplicate, -0.5);
}

/* ---- sums ---- */

static void coefficients_are_counted(void **state)
{
    static const float k[] = {.2F, .8F, /**/ .9F, .3F, /**/ -.1F, 1, /**/ .5F, .5F};
    static const float v[] = {.1F, .9F, /**/ .2F, .6F, /**/ 1.5F, -1, /**/ .7F, -.2F};
    const kvs_model_config special = {SUPPORT_SHIFT(KVS_SHIFT_K | KVS_SHIFT_V, FREE, 1)};
    const support_sizes sizes = {.vocab = VOCAB, .dim = DIM, .ffn = 32, .context = 32};
    kvs_model_config config = support_config(&special, &sizes);
    kvs_runtime *rt = support_runtime(NULL);
    kvs_shift_summary s;
    float alike[8];
    kvs_model *model;

    (void)state;
    config.layers = 1;
    model = support_model(rt, &config, 3);
    assert_int_equal(kvs_model_write_tensor(model, "model.layers.0.self_attn.k_shift", k, 8, NULL),
                     KVS_OK);
    assert_int_equal(kvs_model_write_tensor(model, "model.layers.0.self_attn.v_shift", v, 8, NULL),
                     KVS_OK);
    assert_int_equal(kvs_shift_summarise(&s, model, NULL), KVS_OK);
    assert_int_equal(s.heads, 4);
    assert_int_equal(s.kinds[KVS_KEYS_CURRENT_VALUES_CURRENT], 1);
    assert_int_equal(s.kinds[KVS_KEYS_PREVIOUS_VALUES_CURRENT], 1);
    assert_int_equal(s.kinds[KVS_KEYS_CURRENT_VALUES_PREVIOUS], 1);
    assert_int_equal(s.kinds[KVS_KEYS_PREVIOUS_VALUES_PREVIOUS], 1); /* equal alphas count as <= */
    assert_int_equal(s.negative_alphas, 1);
    assert_int_equal(s.negative_betas, 2);
    assert_true(fabs(s.alpha_sum.mean - (1 + 1.2 + .9 + 1) / 4) < 1e-6);
    assert_true(fabs(s.beta_sum.mean - (1 + .8 + .5 + .5) / 4) < 1e-6);
    /* Deviations -0.025, 0.175, -0.125, -0.025 and 0.3, 0.1, -0.2, -0.2. */
    assert_true(fabs(s.alpha_sum.error - sqrt(0.0475 / 3 / 4)) < 1e-6);
    assert_true(fabs(s.beta_sum.error - sqrt(0.18 / 3 / 4)) < 1e-6);
    for (size_t i = 0; i < 8; i++)
        alike[i] = 12345.67f; /* its square does not fit into a double exactly */
    assert_int_equal(
        kvs_model_write_tensor(model, "model.layers.0.self_attn.k_shift", alike, 8, NULL), KVS_OK);
    assert_int_equal(kvs_shift_summarise(&s, model, NULL), KVS_OK);
    assert_true(s.alpha_sum.error == 0);
    kvs_model_free(model);
    kvs_runtime_free(rt);
}

static void what_has_no_coefficients_is_refused(void **state)
{
    const kvs_model_config special = {SUPPORT_SHIFT(KVS_SHIFT_K, FREE, 1)};
    const support_sizes sizes = {.vocab = VOCAB, .dim = DIM, .ffn = 32, .context = 32};
    const kvs_model_config config = support_config(&special, &sizes);
    kvs_runtime *rt = support_runtime(NULL);
    kvs_model *model = support_model(rt, &config, 3);
    kvs_lens_options options;
    kvs_shift_summary s;
    int32_t ids[33] = {0};

    (void)state;
    assert_int_equal(kvs_shift_summarise(&s, model, NULL), KVS_E_UNSUPPORTED);
    assert_int_equal(kvs_patterns(model, ids, 33, compare_head, NULL, NULL), KVS_E_LIMIT);
    kvs_lens_options_init(&options);
    options.first_id = VOCAB - 1;
    assert_int_equal(kvs_lens_options_finish(&options, model, NULL), KVS_E_INVALID);
    options.first_id = 0;
    assert_int_equal(kvs_lens_options_finish(&options, model, NULL), KVS_OK);
    assert_int_equal(options.length, 16); /* half the context */
    kvs_model_free(model);
    kvs_runtime_free(rt);
}

static void heads_are_drawn(void **state)
{
    const kvs_coefficients induction = {.alpha1 = 0, .alpha2 = 1, .beta1 = 1, .beta2 = 0};
    kvs_lens_options options;
    char *dir, *path, *svg;
    kvs_runtime *rt;
    kvs_model *model;
    size_t size;

    (void)state;
    if (!kvsi_program_found("gnuplot")) {
        print_message("skipped: no gnuplot\n");
        skip();
    }
    rt = support_runtime(NULL);
    model = build_head(rt, &induction, 0.01);
    dir = support_make_dir();
    path = kvsi_path_join(dir, "heads.svg");
    kvs_lens_options_init(&options);
    assert_int_equal(kvs_patterns_draw(path, model, &options, NULL), KVS_OK);
    assert_int_equal(kvsi_file_read(&svg, &size, path, 1 << 24, NULL), KVS_OK);
    assert_non_null(strstr(svg, "layer 0 head 0: A"));
    kvsi_free(svg);
    kvsi_free(path);
    support_remove_dir(dir);
    kvs_model_free(model);
    kvs_runtime_free(rt);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(patterns_are_what_attention_does),
        cmocka_unit_test(pure_induction_head_is_read_as_one),
        cmocka_unit_test(head_that_is_off_by_one_is_read_rightly),
        cmocka_unit_test(head_that_copies_the_token_before_is_seen),
        cmocka_unit_test(negative_values_show),
        cmocka_unit_test(coefficients_are_counted),
        cmocka_unit_test(what_has_no_coefficients_is_refused),
        cmocka_unit_test(heads_are_drawn),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
