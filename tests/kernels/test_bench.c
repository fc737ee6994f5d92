/* Benchmarks: operations of a step against counts by hand, medians, and a profile that changes no
 * result and accounts for the whole step. */
#include "base/memory.h"
#include "bench/models.h"
#include "bench/probe.h"
#include "bench/repeat_task.h"
#include "bench/samples.h"
#include "support.h"

#include <math.h>
#include <string.h>

/* ---- operations ---- */

/* Weights of the products of one layer and of the head, and attention's operations, by hand. */
static const struct {
    const char *name;
    double layers, q, k, v, o, mlp, head, dim, length;
    double mega; /* operations per token, in millions */
} models[] = {
    {"tiny", 2, 128 * 128, 128 * 128, 128 * 128, 128 * 128, 3 * 128 * 352, 256 * 128, 128, 128,
     2.80},
    {"small", 4, 256 * 256, 256 * 256, 256 * 256, 256 * 256, 3 * 256 * 704, 2048 * 256, 256, 256,
     24.0},
    {"kvlm", 6, 512 * 512, 512 * 128, 512 * 128, 512 * 512, 3 * 512 * 1408, 8000 * 512, 512, 512,
     135.5},
    {"s124", 12, 768 * 768, 768 * 768, 768 * 768, 768 * 768, 3 * 768 * 2048, 50257 * 768, 768, 256,
     755},
    {"l110", 12, 768 * 768, 768 * 768, 768 * 768, 768 * 768, 3 * 768 * 2048, 32000 * 768, 768, 1024,
     714},
    {"gpt2", 12, 768 * 768, 768 * 768, 768 * 768, 768 * 768, 2 * 768 * 3072, 50257 * 768, 768, 256,
     755},
};

enum { MODELS = sizeof models / sizeof *models };

static kvsi_bench_model model_of(const char *name, unsigned targets)
{
    kvsi_bench_model model;
    kvs_err err;

    if (kvsi_bench_model_get(&model, name, &err) != KVS_OK)
        fail_msg("%s", err.message);
    model.config.shift.targets = targets;
    return model;
}

/* Counts the operations as the benchmark does: from a plan, without creating the model. */
static double flops_per_token(const kvsi_bench_model *model)
{
    kvs_runtime *rt = support_runtime(NULL);
    kvs_train_config train;
    kvs_data *task;
    kvs_plan plan;
    kvs_err err;

    kvsi_train_config_init(&train);
    assert_int_equal(kvsi_repeat_task_create(&task, model, NULL, &err), KVS_OK);
    if (kvs_train_plan(&plan, rt, &model->config, task, &train, &err) != KVS_OK)
        fail_msg("%s", err.message);
    kvs_data_free(task);
    kvs_runtime_free(rt);
    return plan.flops_per_token;
}

static void operations_are_as_counted_by_hand(void **state)
{
    (void)state;
    for (size_t i = 0; i < MODELS; i++) {
        const double layer = models[i].q + models[i].k + models[i].v + models[i].o + models[i].mlp;
        const double expected = 6 * (models[i].layers * layer + models[i].head) +
                                6 * models[i].layers * models[i].dim * models[i].length;
        const kvsi_bench_model plain = model_of(models[i].name, 0);
        const kvsi_bench_model kv = model_of(models[i].name, KVS_SHIFT_K | KVS_SHIFT_V);

        print_message("%s: %.3f MFLOP per token\n", models[i].name, expected * 1e-6);
        assert_true(fabs(expected * 1e-6 / models[i].mega - 1) <
                    0.002); /* three digits are given */
        /* sums of integers below 2^53 are exact */
        assert_true(flops_per_token(&plain) == expected && flops_per_token(&kv) == expected);
    }
}

static void the_list_of_models_is_whole(void **state)
{
    kvs_bench_model model;
    kvs_err err;

    (void)state;
    for (size_t i = 0; i < MODELS; i++)
        assert_string_equal(kvs_bench_model_name(i), models[i].name);
    assert_null(kvs_bench_model_name(MODELS));
    assert_int_equal(kvs_bench_model_get(&model, "smal", &err), KVS_E_INVALID);
    assert_string_equal(err.message, "unknown bench model 'smal'; did you mean 'small'?");
}

/* ---- samples ---- */

static void samples_give_best_and_median(void **state)
{
    static const double values[] = {5, 1, 4, 2, 3, 100};
    kvsi_samples s = {0};
    kvs_err err;

    (void)state;
    assert_true(isnan(kvsi_samples_times(&s).best) && isnan(kvsi_samples_rates(&s).median));
    for (size_t i = 0; i < 5; i++)
        assert_int_equal(kvsi_samples_add(&s, values[i], &err), KVS_OK);
    assert_true(kvsi_samples_times(&s).best == 1 && kvsi_samples_times(&s).median == 3);
    assert_int_equal(kvsi_samples_add(&s, values[5], &err), KVS_OK);
    assert_true(kvsi_samples_rates(&s).best == 100 && kvsi_samples_rates(&s).median == 3.5);
    for (int i = 0; i < 200; i++) /* more than the initial capacity */
        assert_int_equal(kvsi_samples_add(&s, -i, &err), KVS_OK);
    assert_true(kvsi_samples_times(&s).best == -199 && kvsi_samples_rates(&s).best == 100);
    kvsi_samples_release(&s);
}

/* ---- probes ---- */

static void units_do_their_work(void **state)
{
    enum { PARTS = 7, ROUNDS = 1000 }; /* few enough for sums that are exact in float32 */
    const kvsi_unit *unit;
    size_t tested = 0;

    (void)state;
    for (size_t i = 0; (unit = kvsi_unit_at(i)) != NULL; i++) {
        const char *missing = kvsi_unit_lacks(unit);
        double sums[PARTS] = {0};

        if (missing) {
            print_message("%s: not applicable: %s\n", unit->name, missing);
            continue;
        }
        kvsi_unit_run(unit, 2, sums, PARTS, ROUNDS);
        for (size_t p = 0; p < PARTS; p++)
            assert_true(sums[p] == unit->operations / 2 * ROUNDS);
        tested++;
    }
    assert_true(tested > 0);
}

/* A level without a row of its own would be compared with the wrong peak. */
static void every_level_has_a_unit(void **state)
{
    static const struct {
        const char *level, *f32, *q8_0;
    } expected[] = {
        {"amx", "amx-bf16x3", "vpdpwssd-512"},
        {"amx-emulated", "amx-emulated", "vpmaddwd-256"},
        {"avx512-wide", "fma-512", "vpdpwssd-512"},
        {"avx512", "fma-256", "vpdpwssd-256"},
        {"avx2", "fma-256", "vpmaddwd-256"},
        {"baseline", "vector-128", "vector-128"},
        {"reference", "vector-128", "vector-128"},
    };
    const char *level;

    (void)state;
    for (size_t i = 0; (level = support_level(i)) != NULL; i++) {
        const kvsi_products f32 = kvsi_products_of(level, KVSI_PRECISION_F32, KVSI_F32);
        const kvsi_products bf16 = kvsi_products_of(level, KVSI_PRECISION_BF16, KVSI_F32);
        const kvsi_products q8_0 = kvsi_products_of(level, KVSI_PRECISION_F32, KVSI_Q8_0);
        size_t row = 0;

        while (row < sizeof expected / sizeof *expected && strcmp(expected[row].level, level) != 0)
            row++;
        assert_true(row < sizeof expected / sizeof *expected);
        assert_string_equal(f32.name, expected[row].f32);
        assert_string_equal(q8_0.name, expected[row].q8_0);
        assert_true(f32.unit && bf16.unit && q8_0.unit && bf16.cost >= 1);
    }
}

static void peaks_have_the_unit_and_the_best_of_float32(void **state)
{
    kvsi_products costly = kvsi_products_of("baseline", KVSI_PRECISION_F32, KVSI_F32);
    kvsi_peaks peaks;
    kvs_bench_peaks found;
    double peak;
    kvs_err err;

    (void)state;
    costly.cost = 1000;
    kvsi_peaks_init(&peaks, costly, 1);
    assert_int_equal(kvsi_peaks_measure(&peaks, 0, &peak, &err), KVS_OK);
    assert_true(peak > 0 && isnan(kvsi_peaks_get(&peaks).rate.median)); /* it did not count */
    for (int i = 0; i < 3; i++)
        assert_int_equal(kvsi_peaks_measure(&peaks, 1, NULL, &err), KVS_OK);
    found = kvsi_peaks_get(&peaks);
    assert_string_equal(found.unit, "vector-128");
    /* half to all of the other peak, over 1000; other work on the machine changes both */
    assert_true(found.rate.median > 0 && found.rate.median < found.f32_rate.median / 50);
    kvsi_peaks_release(&peaks);
}

static void levels_read_everything(void **state)
{
    enum { PARTS = 7, NUMBERS = 1001 };
    real *x = kvsi_probe_values(NUMBERS), sums[PARTS];
    const char *level;

    (void)state;
    for (size_t i = 0; (level = support_level(i)) != NULL; i++) {
        const kvsi_ops *ops;
        kvsi_context c = {.threads = 2};
        double expected = 0, found = 0;

        assert_int_equal(kvsi_ops_find(&ops, level, NULL), KVS_OK);
        c.ops = ops;
        memset(sums, 0, sizeof sums);
        ops->read_through(&c, sums, PARTS, x, NUMBERS);
        for (size_t n = 0; n < NUMBERS; n++)
            expected += (double)x[n];
        for (size_t p = 0; p < PARTS; p++)
            found += (double)sums[p];
        assert_true(fabs(found - expected) < 1e-3); /* a thousand floats below 1 */
    }
    kvsi_free(x);
}

/* ---- training ---- */

static kvs_bench_train_result train(kvs_runtime *rt, const kvs_bench_train_options *o, size_t steps)
{
    kvs_bench_train_result result;
    kvs_bench_training *b;
    kvs_err err;

    if (kvs_bench_training_create(&b, rt, o, &err) != KVS_OK)
        fail_msg("%s", err.message);
    /* No round has been measured. */
    assert_int_equal(kvs_bench_training_get(&result, b, &err), KVS_E_INVALID);
    for (size_t i = 0; i < KVS_BENCH_WARMUP + steps; i++)
        if (kvs_bench_training_round(NULL, b, &err) != KVS_OK)
            fail_msg("%s", err.message);
    assert_int_equal(kvs_bench_training_get(&result, b, &err), KVS_OK);
    kvs_bench_training_free(b);
    return result;
}

static const kvs_bench_op *find_op(const kvs_bench_train_result *r, const char *op,
                                   const char *site)
{
    for (size_t i = 0; i < r->ops; i++)
        if (strcmp(r->op[i].op, op) == 0 &&
            (site ? r->op[i].site && strcmp(r->op[i].site, site) == 0 : !r->op[i].site))
            return &r->op[i];
    fail_msg("no %s %s in the profile", op, site ? site : "");
    return NULL;
}

static void a_profile_changes_nothing_and_misses_nothing(void **state)
{
    enum { STEPS = 3 };
    kvs_runtime *rt = support_runtime(NULL);
    const kvsi_bench_model model = model_of("tiny", KVS_SHIFT_K | KVS_SHIFT_V);
    kvs_bench_train_options o = {.config = &model.config, .batch = 2, .length = 32};
    kvs_bench_train_result plain, profiled;
    double flops = 0;

    (void)state;
    o.alone = 1;
    plain = train(rt, &o, STEPS);
    o.profile = 1;
    profiled = train(rt, &o, STEPS);
    assert_true(plain.loss_first == profiled.loss_first && plain.loss_last == profiled.loss_last);
    assert_true(plain.loss_last < plain.loss_first);
    assert_true(plain.ops == 0 && isnan(plain.unshifted.median) && isnan(plain.shift_cost));
    /* every product of the step is in the profile, and nothing twice */
    for (size_t i = 0; i < profiled.ops; i++)
        flops += profiled.op[i].flops;
    assert_true(fabs(flops / profiled.flops - 1) < 1e-12);
    assert_true(find_op(&profiled, "linear_forward", "qkv")->calls == 2);
    assert_true(find_op(&profiled, "linear_backward_weight", "gate_up")->calls == 2);
    assert_true(find_op(&profiled, "attention_backward", NULL)->calls == 2);
    assert_true(find_op(&profiled, "norm_forward", NULL)->calls == 9);
    assert_true(find_op(&profiled, "head_loss", NULL)->calls == 1);
    assert_true(find_op(&profiled, "data", NULL)->calls == 2);
    assert_string_equal(profiled.op[profiled.ops - 1].op, "other");
    kvs_runtime_free(rt);
}

static void the_unshifted_model_takes_turns(void **state)
{
    kvs_runtime *rt = support_runtime(NULL);
    const kvsi_bench_model model = model_of("tiny", KVS_SHIFT_K | KVS_SHIFT_V);
    kvs_bench_train_options o = {.config = &model.config, .batch = 1, .length = 16};
    kvs_bench_train_result r;

    (void)state;
    r = train(rt, &o, 4);
    assert_int_equal(r.rounds, 4);
    assert_true(r.unshifted.best > 0 && r.unshifted.median >= r.unshifted.best);
    assert_true(r.step.best > 0 && r.step.median >= r.step.best &&
                r.peaks.rate.best >= r.peaks.rate.median);
    /* a median of ratios lies between the extreme ratios */
    assert_true(r.shift_cost > -1 && isfinite(r.shift_cost));
    /* 2 layers x 4 heads x (2 taps of k + 2 of v), four blocks of parameters; rows that the shift
     * needs are at most one token per sequence */
    assert_true(r.planned_bytes - r.unshifted_planned_bytes >= 4.0 * 2 * 4 * 4 * sizeof(float));
    kvs_runtime_free(rt);
}

static void attention_is_measured(void **state)
{
    const kvs_model_config shift = {.shift = {.targets = KVS_SHIFT_K, .window = 1}};
    const kvs_bench_attention_options o = {
        .length = 96, .head_size = 16, .heads = 4, .kv_heads = 2, .shift = &shift, .rounds = 2};
    kvs_bench_attention_options bad = o;
    kvs_runtime *rt = support_runtime(NULL);
    kvs_bench_attention a;
    kvs_err err;

    (void)state;
    assert_int_equal(kvs_bench_attention_run(&a, rt, &o, &err), KVS_OK);
    /* two causal products of 96 x 96 x 64 forward, four backward */
    assert_true(a.forward_flops == 2.0 * 96 * 96 * 64 && a.backward_flops == 2 * a.forward_flops);
    assert_true(a.forward.best > 0 && a.both.best > a.forward.best &&
                a.both.best > a.backward.best);
    bad.kv_heads = 3;
    assert_int_equal(kvs_bench_attention_run(&a, rt, &bad, &err), KVS_E_INVALID);
    bad.kv_heads = 0;
    assert_int_equal(kvs_bench_attention_run(&a, rt, &bad, &err), KVS_E_INVALID);
    kvs_runtime_free(rt);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(operations_are_as_counted_by_hand),
        cmocka_unit_test(the_list_of_models_is_whole),
        cmocka_unit_test(samples_give_best_and_median),
        cmocka_unit_test(units_do_their_work),
        cmocka_unit_test(every_level_has_a_unit),
        cmocka_unit_test(peaks_have_the_unit_and_the_best_of_float32),
        cmocka_unit_test(levels_read_everything),
        cmocka_unit_test(a_profile_changes_nothing_and_misses_nothing),
        cmocka_unit_test(the_unshifted_model_takes_turns),
        cmocka_unit_test(attention_is_measured),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
