/* The whole model in double precision: gradients against central differences of the loss, and the
 * golden results far below float rounding. */
#include "base/random.h"
#include "golden.h"

#include <math.h>

typedef struct variant {
    const char *name;
    unsigned targets;
    kvs_shift_form form;
    size_t window, heads, kv_heads;
    int tied;
} variant;

enum { K = KVS_SHIFT_K, KV = KVS_SHIFT_K | KVS_SHIFT_V, QKV = KV | KVS_SHIFT_Q };

static const variant variants[] = {
    {"none", 0, KVS_SHIFT_FREE, 1, 4, 4, 0},
    {"kv", KV, KVS_SHIFT_FREE, 1, 4, 4, 0},
    {"kv grouped", KV, KVS_SHIFT_FREE, 1, 4, 2, 0},
    {"kv tied", KV, KVS_SHIFT_FREE, 1, 4, 2, 1},
    {"kv one head", KV, KVS_SHIFT_FREE, 1, 1, 1, 0},
    {"qkv window 3", QKV, KVS_SHIFT_FREE, 3, 4, 2, 0},
    {"gate", KV, KVS_SHIFT_GATE, 1, 4, 2, 0},
    {"k gate", K, KVS_SHIFT_GATE, 1, 4, 1, 0},
    {"clamp", KV, KVS_SHIFT_CLAMP, 1, 4, 2, 0},
    {"qkv clamp window 2", QKV, KVS_SHIFT_CLAMP, 2, 4, 2, 0},
};

static const size_t starts[] = {0, 1, 3, 10, 14}; /* lengths 1, 2, 7, 4 */
enum { SEQUENCES = sizeof starts / sizeof *starts - 1, TOKENS = 14, VOCAB = 11, SAMPLES = 8 };

static kvs_model *make_model(kvs_runtime *rt, const variant *v)
{
    kvs_model_config config;

    kvs_model_config_init(&config);
    config.vocab = VOCAB;
    config.dim = 16;
    config.layers = 2;
    config.heads = v->heads;
    config.kv_heads = v->kv_heads;
    config.ffn = 20;
    config.context = 8;
    config.tied = v->tied;
    config.shift.targets = v->targets;
    config.shift.form = v->form;
    config.shift.window = v->window;
    return support_model(rt, &config, 7);
}

static double loss_of(kvsi_pass *pass)
{
    kvsi_pass_forward(pass);
    return kvsi_pass_loss(pass, NULL).sum;
}

/* The slope of the loss along one parameter, from four points: the error is of fourth order in the
 * step, which leaves rounding as the only one that matters. */
static double slope(kvsi_pass *pass, const kvs_model *model, size_t at)
{
    static const double offsets[] = {-2, -1, 1, 2}, weights[] = {1, -8, 8, -1};
    const double step = 2e-4;
    kvsi_context c = model->context;
    real value, moved;
    double sum = 0;

    c.ops->download(&c, &value, model->parameters + at, sizeof value);
    c.ops->sync(&c);
    for (size_t i = 0; i < 4; i++) {
        moved = value + (real)(offsets[i] * step);
        c.ops->upload(&c, model->parameters + at, &moved, sizeof moved);
        sum += weights[i] * loss_of(pass);
    }
    c.ops->upload(&c, model->parameters + at, &value, sizeof value);
    return sum / (12 * step);
}

/* All numbers of a shift, a sample of any other tensor. */
static void check_tensor(kvsi_pass *pass, const kvs_model *model, const kvsi_parameter *p,
                         const real *gradient, const char *name)
{
    const size_t count = p->group == KVSI_SHIFTS || p->count < SAMPLES ? p->count : SAMPLES;
    const double rounding = 1e-10; /* of the differences, where the gradient is 0 */
    double largest = 0;
    kvsi_random random;

    for (size_t i = 0; i < p->count; i++)
        largest = fmax(largest, fabs((double)gradient[i]));
    kvsi_random_init(&random, 1, KVSI_RANDOM_DATA, kvsi_hash_text(p->name));
    for (size_t i = 0; i < count; i++) {
        const size_t at = count == p->count ? i : kvsi_random_below(&random, (uint32_t)p->count);
        const double expected = slope(pass, model, p->offset + at);

        if (!(fabs((double)gradient[at] - expected) <= 1e-8 * largest + rounding))
            fail_msg("%s: gradient of %s[%zu] is %.10g, differences give %.10g", name, p->name, at,
                     (double)gradient[at], expected);
    }
}

static void gradients_match_differences(void **state)
{
    kvs_runtime *rt = support_runtime("reference");
    int32_t ids[TOKENS], targets[TOKENS];
    const kvs_batch batch = {
        .sequences = SEQUENCES, .starts = starts, .ids = ids, .targets = targets};

    (void)state;
    support_fill_ids(ids, TOKENS, 1, VOCAB);
    support_fill_ids(targets, TOKENS, 2, VOCAB);
    targets[2] = targets[6] = targets[TOKENS - 1] = -1;
    for (size_t i = 0; i < sizeof variants / sizeof *variants; i++) {
        kvs_model *model = make_model(rt, &variants[i]);
        kvsi_pass *pass = support_pass(model, TOKENS, SEQUENCES, 0);
        support_result result = support_train(model, &batch);

        assert_int_equal(kvsi_pass_load(pass, &batch, NULL, NULL), KVS_OK);
        for (size_t t = 0; t < model->layout.count; t++) {
            const kvsi_parameter *p = &model->layout.list[t];

            check_tensor(pass, model, p, result.gradients + p->offset, variants[i].name);
        }
        support_result_release(&result);
        kvsi_pass_free(pass);
        kvs_model_free(model);
    }
    kvs_runtime_free(rt);
}

static void matches_pytorch_closely(void **state)
{
    const double float32 = 1e-7; /* golden gradients and logits are stored as float32 */
    kvs_runtime *rt = support_runtime("reference");

    (void)state;
    for (size_t i = 0; golden_names[i]; i++) {
        golden g;
        kvs_model *model;

        golden_open(&g, golden_names[i]);
        model = golden_model(&g, rt);
        golden_expect(&g, model, 1e-9, float32, float32);
        kvs_model_free(model);
        golden_close(&g);
    }
    kvs_runtime_free(rt);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(gradients_match_differences),
        cmocka_unit_test(matches_pytorch_closely),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
