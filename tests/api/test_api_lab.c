/* The research API: benchmarks, theory, lens, experiments. */
#include "api.h"

#include <kvshift/kvshift_lab.h>

static const kvs_coefficients middle = {0.5, 0.5, 0.5, 0.5};

/* ---- benchmarks ---- */

static void test_bench_models(void **state)
{
    kvs_bench_model model;
    kvs_model_config *config;
    size_t count = 0;

    (void)state;
    for (; kvs_bench_model_name(count); count++) {
        expect_ok(kvs_bench_model_get(&model, kvs_bench_model_name(count), &err));
        expect_ok(kvs_bench_model_config(&config, kvs_bench_model_name(count), &err));
        kvs_model_config_free(config);
    }
    assert_true(count >= 6);
    assert_null(kvs_bench_model_name(SIZE_MAX));
    expect_needed(out, kvs_bench_model_get(NULL, "tiny", &err));
    expect_needed(name, kvs_bench_model_get(&model, NULL, &err));
    expect_invalid("huge", kvs_bench_model_get(&model, "huge", &err));
    expect_needed(out, kvs_bench_model_config(NULL, "tiny", &err));
    expect_no_handle(config, KVS_E_INVALID, "name is NULL",
                     kvs_bench_model_config(&config, NULL, &err));
    expect_no_handle(config, KVS_E_INVALID, "huge", kvs_bench_model_config(&config, "huge", &err));
}

/* Measuring the machine takes seconds; the tests of the command do that. */
static void test_bench_machine(void **state)
{
    kvs_bench_machine *machine = malloc(sizeof *machine);
    kvs_bench_attention_options options = {
        .length = 8, .head_size = 8, .heads = 2, .kv_heads = 1, .rounds = 1};
    kvs_bench_attention attention;

    (void)state;
    assert_non_null(machine);
    expect_needed(out, kvs_bench_machine_run(NULL, api_runtime, 1, &err));
    expect_needed(rt, kvs_bench_machine_run(machine, NULL, 1, &err));
    expect_invalid("rounds", kvs_bench_machine_run(machine, api_runtime, 0, &err));
    free(machine);

    expect_needed(out, kvs_bench_attention_run(NULL, api_runtime, &options, &err));
    expect_needed(rt, kvs_bench_attention_run(&attention, NULL, &options, &err));
    expect_needed(options, kvs_bench_attention_run(&attention, api_runtime, NULL, &err));
    expect_ok(kvs_bench_attention_run(&attention, api_runtime, &options, &err));
    assert_true(attention.forward.best > 0);
    options.rounds = 0;
    expect_invalid("rounds", kvs_bench_attention_run(&attention, api_runtime, &options, &err));
    options.rounds = 1;
    options.kv_heads = 3; /* does not divide the heads */
    expect_invalid("", kvs_bench_attention_run(&attention, api_runtime, &options, &err));
    options.kv_heads = 1;
    options.length = 0;
    expect_invalid("", kvs_bench_attention_run(&attention, api_runtime, &options, &err));
}

static void test_bench_training(void **state)
{
    kvs_bench_train_options options = {.batch = 1, .length = 4, .alone = 1};
    kvs_bench_train_result *result = malloc(sizeof *result);
    kvs_bench_round round;
    kvs_bench_training *bench;

    (void)state;
    assert_non_null(result);
    expect_needed(out, kvs_bench_training_create(NULL, api_runtime, &options, &err));
    expect_no_handle(bench, KVS_E_INVALID, "config",
                     kvs_bench_training_create(&bench, api_runtime, &options, &err));
    options.config = kvs_model_get_config(api_model);
    expect_no_handle(bench, KVS_E_INVALID, "rt is NULL",
                     kvs_bench_training_create(&bench, NULL, &options, &err));
    expect_no_handle(bench, KVS_E_INVALID, "options is NULL",
                     kvs_bench_training_create(&bench, api_runtime, NULL, &err));
    options.batch = 0;
    expect_no_handle(bench, KVS_E_INVALID, "batch",
                     kvs_bench_training_create(&bench, api_runtime, &options, &err));
    options.batch = 1;
    options.length = 0;
    expect_no_handle(bench, KVS_E_INVALID, "length",
                     kvs_bench_training_create(&bench, api_runtime, &options, &err));
    options.length = 4;
    expect_ok(kvs_bench_training_create(&bench, api_runtime, &options, &err));
    expect_needed(bench, kvs_bench_training_round(&round, NULL, &err));
    /* No round has been measured. */
    expect_invalid("round", kvs_bench_training_get(result, bench, &err));
    for (int i = 0; i < KVS_BENCH_WARMUP + 1; i++)
        expect_ok(kvs_bench_training_round(i == 0 ? NULL : &round, bench, &err));
    expect_needed(bench, kvs_bench_training_get(result, NULL, &err));
    expect_needed(out, kvs_bench_training_get(NULL, bench, &err));
    expect_ok(kvs_bench_training_get(result, bench, &err));
    assert_int_equal(result->rounds, 1);
    expect_needed(bench, kvs_bench_training_save(NULL, api_dir, &err));
    expect_needed(dir, kvs_bench_training_save(bench, NULL, &err));
    expect_status(KVS_E_IO, "no-folder",
                  kvs_bench_training_save(bench, api_path("no-folder"), &err));
    expect_ok(kvs_bench_training_save(bench, api_dir, &err));
    kvs_bench_training_free(bench);
    expect_nothing(kvs_bench_training_free(NULL));
    free(result);
}

static void test_bench_inference(void **state)
{
    kvs_bench_infer_options options = {.prompt = 4, .generate = 2, .batch = 1};
    kvs_bench_infer_result result;
    kvs_bench_inference *bench;

    (void)state;
    expect_ok(kvs_model_save(api_model, api_dir, &err));
    expect_needed(out, kvs_bench_inference_create(NULL, api_runtime, &options, &err));
    expect_no_handle(bench, KVS_E_INVALID, "path",
                     kvs_bench_inference_create(&bench, api_runtime, &options, &err));
    options.path = api_path("no-such-file");
    expect_no_handle(bench, KVS_E_IO, "no-such-file",
                     kvs_bench_inference_create(&bench, api_runtime, &options, &err));
    options.path = api_dir;
    expect_no_handle(bench, KVS_E_INVALID, "rt is NULL",
                     kvs_bench_inference_create(&bench, NULL, &options, &err));
    expect_no_handle(bench, KVS_E_INVALID, "options is NULL",
                     kvs_bench_inference_create(&bench, api_runtime, NULL, &err));
    options.batch = 0;
    expect_no_handle(bench, KVS_E_INVALID, "batch",
                     kvs_bench_inference_create(&bench, api_runtime, &options, &err));
    options.batch = 1;
    options.prompt = API_CONTEXT + 1;
    assert_int_not_equal(kvs_bench_inference_create(&bench, api_runtime, &options, &err), KVS_OK);
    assert_null(bench);
    options.prompt = 4;
    expect_ok(kvs_bench_inference_create(&bench, api_runtime, &options, &err));
    expect_needed(bench, kvs_bench_inference_round(NULL, &err));
    for (int i = 0; i < 2; i++)
        expect_ok(kvs_bench_inference_round(bench, &err));
    expect_needed(bench, kvs_bench_inference_get(&result, NULL, &err));
    expect_needed(out, kvs_bench_inference_get(NULL, bench, &err));
    expect_ok(kvs_bench_inference_get(&result, bench, &err));
    assert_int_equal(result.rounds, 1);
    kvs_bench_inference_free(bench);
    expect_nothing(kvs_bench_inference_free(NULL));
}

/* ---- theory ---- */

static void test_theorems_1_and_2(void **state)
{
    kvs_induction_problem problem;
    kvs_theorem1_result one;
    kvs_theorem2_result two;

    (void)state;
    expect_nothing(kvs_induction_problem_init(NULL));
    kvs_induction_problem_init(&problem);
    expect_needed(out, kvs_theorem1(NULL, &problem, 1, &err));
    expect_needed(problem, kvs_theorem1(&one, NULL, 1, &err));
    expect_invalid("", kvs_theorem1(&one, &problem, NAN, &err));
    expect_ok(kvs_theorem1(&one, &problem, 1, &err));
    assert_true(one.error <= one.bound);
    expect_needed(out, kvs_theorem2(NULL, api_runtime, &problem, &err));
    expect_needed(rt, kvs_theorem2(&two, NULL, &problem, &err));
    expect_needed(problem, kvs_theorem2(&two, api_runtime, NULL, &err));
    expect_ok(kvs_theorem2(&two, api_runtime, &problem, &err));
    problem.length = 3;
    expect_invalid("length", kvs_theorem1(&one, &problem, 1, &err));
    expect_invalid("length", kvs_theorem2(&two, api_runtime, &problem, &err));
    kvs_induction_problem_init(&problem);
    problem.dim = 0;
    expect_invalid("dim", kvs_theorem1(&one, &problem, 1, &err));
    expect_invalid("dim", kvs_theorem2(&two, api_runtime, &problem, &err));
}

static void test_theorem_3(void **state)
{
    kvs_theorem3 problem = {.form = KVS_THEOREM3_EXACT, .T = 6};
    kvs_coefficients gradient, at = middle;
    kvs_descent descent = {.lr = 0.1, .steps = 2};
    kvs_estimate estimate;
    double loss, other;

    (void)state;
    expect_needed(loss, kvs_theorem3_loss(NULL, &gradient, &problem, &middle, &err));
    expect_needed(problem, kvs_theorem3_loss(&loss, NULL, NULL, &middle, &err));
    expect_needed(at, kvs_theorem3_loss(&loss, NULL, &problem, NULL, &err));
    expect_ok(kvs_theorem3_loss(&loss, NULL, &problem, &middle, &err));
    expect_needed(loss, kvs_theorem3_brute_force(NULL, 6, 2, &middle, &err));
    expect_needed(at, kvs_theorem3_brute_force(&other, 6, 2, NULL, &err));
    expect_invalid("", kvs_theorem3_brute_force(&other, 2, 1, &middle, &err));
    expect_invalid("", kvs_theorem3_brute_force(&other, 6, 6, &middle, &err));
    expect_invalid("", kvs_theorem3_brute_force(&other, 6, SIZE_MAX, &middle, &err));
    expect_ok(kvs_theorem3_brute_force(&other, 6, 2, &middle, &err));
    assert_true(fabs(loss - other) < 1e-12);
    expect_needed(loss, kvs_theorem3_network(NULL, api_runtime, 6, 2, &middle, &err));
    expect_needed(rt, kvs_theorem3_network(&other, NULL, 6, 2, &middle, &err));
    expect_needed(at, kvs_theorem3_network(&other, api_runtime, 6, 2, NULL, &err));
    expect_invalid("", kvs_theorem3_network(&other, api_runtime, 6, 6, &middle, &err));
    expect_ok(kvs_theorem3_network(&other, api_runtime, 6, 2, &middle, &err));
    expect_needed(most, kvs_theorem3_difference(NULL, 6, &middle, &err));
    expect_needed(at, kvs_theorem3_difference(&other, 6, NULL, &err));
    expect_invalid("", kvs_theorem3_difference(&other, 2, &middle, &err));
    expect_ok(kvs_theorem3_difference(&other, 6, &middle, &err));
    expect_needed(out, kvs_theorem3_monte_carlo(NULL, api_runtime, 6, &middle, 16, 2, 1, &err));
    expect_needed(rt, kvs_theorem3_monte_carlo(&estimate, NULL, 6, &middle, 16, 2, 1, &err));
    expect_needed(at, kvs_theorem3_monte_carlo(&estimate, api_runtime, 6, NULL, 16, 2, 1, &err));
    expect_invalid("", kvs_theorem3_monte_carlo(&estimate, api_runtime, 6, &middle, 0, 2, 1, &err));
    expect_invalid("",
                   kvs_theorem3_monte_carlo(&estimate, api_runtime, 6, &middle, 16, 0, 1, &err));
    expect_ok(kvs_theorem3_monte_carlo(&estimate, api_runtime, 6, &middle, 16, 2, 1, &err));

    assert_true(kvs_square(0.25, 0.5).alpha2 == 0.75);
    expect_needed(where, kvs_theorem3_minimum(NULL, &loss, &problem, 2, &err));
    expect_needed(loss, kvs_theorem3_minimum(&at, NULL, &problem, 2, &err));
    expect_needed(problem, kvs_theorem3_minimum(&at, &loss, NULL, 2, &err));
    expect_invalid("steps", kvs_theorem3_minimum(&at, &loss, &problem, 0, &err));
    expect_ok(kvs_theorem3_minimum(&at, &loss, &problem, 2, &err));
    expect_needed(at, kvs_theorem3_descend(NULL, &problem, &descent, &err));
    expect_needed(problem, kvs_theorem3_descend(&at, NULL, &descent, &err));
    expect_needed(descent, kvs_theorem3_descend(&at, &problem, NULL, &err));
    expect_ok(kvs_theorem3_descend(&at, &problem, &descent, &err));
    descent.lr = NAN;
    expect_invalid("lr", kvs_theorem3_descend(&at, &problem, &descent, &err));

    expect_needed(svg, kvs_landscape_draw(NULL, &problem, 1, 1, &err));
    expect_needed(panels, kvs_landscape_draw(api_path("a.svg"), NULL, 1, 1, &err));
    expect_invalid("", kvs_landscape_draw(api_path("a.svg"), &problem, 0, 1, &err));
    expect_invalid("",
                   kvs_landscape_draw(api_path("a.svg"), &problem, KVS_PANELS_MAX + 1, 1, &err));
    expect_invalid("", kvs_landscape_draw(api_path("a.svg"), &problem, 1, 0, &err));
}

/* ---- lens ---- */

static void count_patterns(void *user, const kvs_pattern *pattern)
{
    assert_non_null(pattern->places);
    ++*(size_t *)user;
}

static void test_lens(void **state)
{
    static const int32_t ids[] = {1, 2, 3}, wrong[] = {API_VOCAB};
    static const char *const labels[] = {"a", "b", "c"};
    kvs_lens_options options;
    kvs_head_reading readings[API_LAYERS * API_HEADS];
    kvs_coefficients head;
    kvs_shift_summary summary;
    int32_t sequence[API_CONTEXT] = {-7};
    kvs_model_config *plain = api_config();
    size_t visits = 0;

    (void)state;
    expect_needed(model, kvs_patterns(NULL, ids, 3, count_patterns, &visits, &err));
    expect_needed(ids, kvs_patterns(api_model, NULL, 3, count_patterns, &visits, &err));
    expect_needed(visit, kvs_patterns(api_model, ids, 3, NULL, &visits, &err));
    expect_invalid("20", kvs_patterns(api_model, wrong, 1, count_patterns, &visits, &err));
    expect_invalid("", kvs_patterns(api_model, ids, 0, count_patterns, &visits, &err));
    assert_int_equal(visits, 0);
    expect_ok(kvs_patterns(api_model, ids, 3, count_patterns, &visits, &err));
    assert_int_equal(visits, API_LAYERS * API_HEADS);

    expect_nothing(kvs_lens_options_init(NULL));
    kvs_lens_options_init(&options);
    expect_needed(options, kvs_lens_options_finish(NULL, api_model, &err));
    expect_needed(model, kvs_lens_options_finish(&options, NULL, &err));
    options.sequences = 0;
    expect_invalid("sequences", kvs_lens_options_finish(&options, api_model, &err));
    options.sequences = 1;
    options.first_id = API_VOCAB;
    expect_invalid("", kvs_lens_options_finish(&options, api_model, &err));
    options.first_id = 0;
    expect_ok(kvs_lens_options_finish(&options, api_model, &err));
    assert_int_equal(options.length, API_CONTEXT / 2);
    expect_nothing(kvs_lens_sequence(NULL, &options, api_model, 0));
    expect_nothing(kvs_lens_sequence(sequence, NULL, api_model, 0));
    expect_nothing(kvs_lens_sequence(sequence, &options, NULL, 0));
    assert_int_equal(sequence[0], -7);
    kvs_lens_sequence(sequence, &options, api_model, SIZE_MAX);
    assert_int_equal(sequence[0], sequence[API_CONTEXT / 2]);

    assert_int_equal(kvs_lens_heads(api_model), API_LAYERS * API_HEADS);
    expect_zero(kvs_lens_heads(NULL));
    expect_needed(out, kvs_lens_read(NULL, api_model, &options, &err));
    expect_needed(model, kvs_lens_read(readings, NULL, &options, &err));
    expect_needed(options, kvs_lens_read(readings, api_model, NULL, &err));
    expect_ok(kvs_lens_read(readings, api_model, &options, &err));

    assert_int_equal(kvs_head_kind_of(&(kvs_coefficients){1, 0, 1, 0}),
                     KVS_KEYS_CURRENT_VALUES_CURRENT);
    expect_zero(kvs_head_kind_of(NULL) - KVS_HEAD_KINDS);
    assert_int_equal(kvs_shift_has_kinds(kvs_model_get_config(api_model)), 1);
    expect_ok(kvs_model_config_set(plain, "shift", "none", &err));
    assert_int_equal(kvs_shift_has_kinds(plain), 0);
    kvs_model_config_free(plain);
    expect_zero(kvs_shift_has_kinds(NULL));
    expect_needed(out, kvs_head_coefficients(NULL, api_model, 0, 0, &err));
    expect_needed(model, kvs_head_coefficients(&head, NULL, 0, 0, &err));
    expect_invalid("layer", kvs_head_coefficients(&head, api_model, API_LAYERS, 0, &err));
    expect_invalid("head", kvs_head_coefficients(&head, api_model, 0, API_HEADS, &err));
    expect_ok(kvs_head_coefficients(&head, api_model, 1, 1, &err));
    expect_needed(out, kvs_shift_summarise(NULL, api_model, &err));
    expect_needed(model, kvs_shift_summarise(&summary, NULL, &err));
    expect_ok(kvs_shift_summarise(&summary, api_model, &err));
    assert_int_equal(summary.heads, API_LAYERS * API_HEADS);
    expect_needed(svg, kvs_patterns_draw(NULL, api_model, &options, &err));
    expect_needed(model, kvs_patterns_draw(api_path("a.svg"), NULL, &options, &err));
    expect_needed(options, kvs_patterns_draw(api_path("a.svg"), api_model, NULL, &err));

    expect_needed(svg, kvs_text_patterns_draw(NULL, api_model, ids, labels, 2, &err));
    expect_needed(model, kvs_text_patterns_draw(api_path("a.svg"), NULL, ids, labels, 2, &err));
    expect_needed(ids, kvs_text_patterns_draw(api_path("a.svg"), api_model, NULL, labels, 2, &err));
    expect_needed(labels, kvs_text_patterns_draw(api_path("a.svg"), api_model, ids, NULL, 2, &err));
    expect_invalid("expected 2 to",
                   kvs_text_patterns_draw(api_path("a.svg"), api_model, ids, labels, 1, &err));
}

static void test_estimates(void **state)
{
    kvs_train_config *train;
    kvs_plan plan;
    double peak;

    (void)state;
    expect_ok(kvs_train_config_create(&train, NULL, &err));
    expect_ok(
        kvs_train_plan(&plan, api_runtime, kvs_model_get_config(api_model), NULL, train, &err));
    peak = kvs_train_peak(api_runtime, train);
    assert_true(peak > 0);
    expect_nan(kvs_train_peak(NULL, train));
    expect_nan(kvs_train_peak(api_runtime, NULL));
    assert_true(
        fabs(kvs_train_seconds(&plan, kvs_model_get_config(api_model), train, 20, peak) /
                 kvs_train_seconds(&plan, kvs_model_get_config(api_model), train, 10, peak) -
             2) < 1e-9);
    expect_nan(kvs_train_seconds(NULL, kvs_model_get_config(api_model), train, 1, peak));
    expect_nan(kvs_train_seconds(&plan, NULL, train, 1, peak));
    expect_nan(kvs_train_seconds(&plan, kvs_model_get_config(api_model), NULL, 1, peak));
    kvs_train_config_free(train);
}

/* ---- experiments ---- */

static int stop_at_once(void *user, const kvs_repro_progress *progress)
{
    (void)user;
    (void)progress;
    return 1;
}

static void test_experiments(void **state)
{
    kvs_repro_options options = {.scale = KVS_SCALE_SMOKE};
    kvs_scale scale;
    kvs_repro *repro;
    int finished = 1;
    size_t count = 0, experiments;
    const char *name = kvs_experiment_at(0)->name;

    (void)state;
    while (kvs_experiment_at(count))
        count++;
    assert_true(count > 3);
    assert_null(kvs_experiment_at(SIZE_MAX));
    for (int i = 0; i < KVS_SCALES; i++) {
        expect_ok(kvs_scale_parse(&scale, kvs_scale_name((kvs_scale)i), &err));
        assert_int_equal(scale, i);
    }
    assert_null(kvs_scale_name((kvs_scale)-1));
    assert_null(kvs_scale_name((kvs_scale)KVS_SCALES));
    expect_needed(out, kvs_scale_parse(NULL, "smoke", &err));
    expect_needed(name, kvs_scale_parse(&scale, NULL, &err));
    expect_invalid("lunar", kvs_scale_parse(&scale, "lunar", &err));
    assert_non_null(kvs_verdict_name(KVS_VERDICT_TOO_SMALL));
    assert_null(kvs_verdict_name((kvs_verdict)-1));
    assert_null(kvs_verdict_name((kvs_verdict)3));

    expect_needed(out, kvs_repro_create(NULL, api_runtime, name, &options, &err));
    expect_no_handle(repro, KVS_E_INVALID, "rt is NULL",
                     kvs_repro_create(&repro, NULL, name, &options, &err));
    expect_no_handle(repro, KVS_E_INVALID, "name is NULL",
                     kvs_repro_create(&repro, api_runtime, NULL, &options, &err));
    expect_no_handle(repro, KVS_E_INVALID, "options is NULL",
                     kvs_repro_create(&repro, api_runtime, name, NULL, &err));
    expect_no_handle(repro, KVS_E_INVALID, "no-such-experiment",
                     kvs_repro_create(&repro, api_runtime, "no-such-experiment", &options, &err));
    options.scale = (kvs_scale)9;
    expect_no_handle(repro, KVS_E_INVALID, "scale",
                     kvs_repro_create(&repro, api_runtime, name, &options, &err));
    options.scale = KVS_SCALE_SMOKE;
    options.text_count = 1;
    expect_no_handle(repro, KVS_E_INVALID, "texts",
                     kvs_repro_create(&repro, api_runtime, name, &options, &err));
    options.text_count = 0;
    expect_ok(kvs_repro_create(&repro, api_runtime, name, &options, &err));
    assert_string_equal(kvs_repro_experiment(repro)->name, name);
    assert_non_null(kvs_repro_run_at(repro, 0));
    expect_null(kvs_repro_run_at(repro, SIZE_MAX));
    expect_null(kvs_repro_claim(repro, 0));
    assert_true(kvs_repro_seconds(repro) >= 0);
    expect_needed(repro, kvs_repro_run(&finished, NULL, &err));
    expect_invalid("", kvs_repro_run(&finished, repro, &err)); /* the experiment has no folder */
    kvs_repro_free(repro);

    options.out = api_path("experiment");
    options.progress = stop_at_once;
    expect_ok(kvs_repro_create(&repro, api_runtime, name, &options, &err));
    expect_needed(finished, kvs_repro_run(NULL, repro, &err));
    expect_ok(kvs_repro_run(&finished, repro, &err));
    assert_int_equal(finished, 0);
    kvs_repro_free(repro);
    expect_null(kvs_repro_experiment(NULL));
    expect_null(kvs_repro_run_at(NULL, 0));
    expect_null(kvs_repro_claim(NULL, 0));
    expect_nan(kvs_repro_seconds(NULL));
    expect_nothing(kvs_repro_free(NULL));

    expect_needed(dir, kvs_repro_report(&experiments, NULL, api_path("a.html"), &err));
    expect_needed(html, kvs_repro_report(&experiments, api_dir, NULL, &err));
    expect_status(KVS_E_IO, "no-folder",
                  kvs_repro_report(&experiments, api_path("no-folder"), api_path("a.html"), &err));
    expect_needed(dir, kvs_repro_summary(&experiments, NULL, api_path("a.md"), &err));
    expect_needed(markdown, kvs_repro_summary(&experiments, api_dir, NULL, &err));
    expect_status(KVS_E_IO, "no-folder",
                  kvs_repro_summary(&experiments, api_path("no-folder"), api_path("a.md"), &err));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_bench_models),
        cmocka_unit_test(test_bench_machine),
        cmocka_unit_test(test_bench_training),
        cmocka_unit_test(test_bench_inference),
        cmocka_unit_test(test_theorems_1_and_2),
        cmocka_unit_test(test_theorem_3),
        cmocka_unit_test(test_lens),
        cmocka_unit_test(test_estimates),
        cmocka_unit_test(test_experiments),
    };

    return cmocka_run_group_tests(tests, api_setup, api_teardown);
}
