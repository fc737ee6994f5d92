/* Reports on stored results of benchmarks, and losses by position. */
#include "api.h"

#include <kvshift/kvshift_lab.h>

/* ---- stored results -------------------------------------------------------------------------- */

static char *in_dir(const char *name)
{
    static char paths[64][256];
    static size_t next;
    char *path = paths[next++ % 64];

    snprintf(path, sizeof *paths, "%s/%s", api_dir, name);
    return path;
}

/* Results of one task with two documents. */
static void write_results(const char *name, int right)
{
    char path[320];
    FILE *file;

    snprintf(path, sizeof path, "mkdir -p '%s'", in_dir(name));
    assert_int_equal(system(path), 0);
    snprintf(path, sizeof path, "%s/results_1.json", in_dir(name));
    file = fopen(path, "w");
    assert_non_null(file);
    fprintf(file, "{\"results\": {\"arc_easy\": {}}, \"model_name\": \"%s\"}", name);
    fclose(file);
    snprintf(path, sizeof path, "%s/samples_arc_easy_1.jsonl", in_dir(name));
    file = fopen(path, "w");
    assert_non_null(file);
    for (int i = 0; i < 2; i++)
        fprintf(file,
                "{\"doc_id\": %d, \"doc\": {}, \"target\": \"0\", \"arguments\": {\"gen_args_0\": "
                "{\"arg_0\": \"p\", \"arg_1\": \" a\"}, \"gen_args_1\": {\"arg_0\": \"p\", "
                "\"arg_1\": \" b\"}}, \"filtered_resps\": [[\"-1\", \"False\"], [\"%d\", "
                "\"False\"]], \"filter\": \"none\", \"metrics\": [\"acc\"], \"doc_hash\": \"%d\", "
                "\"acc\": %d}\n",
                i, right ? -2 : 0, i, right);
    fclose(file);
}

static void reports_are_made_and_written(void **state)
{
    const char *paths[] = {in_dir("a"), in_dir("b")}, *missing[] = {"/nowhere"}, *null[] = {NULL};
    kvs_eval_report_options options;
    kvs_eval_report_files files = {.title = "T"};
    kvs_eval_report *report;

    (void)state;
    write_results("a", 0);
    write_results("b", 1);
    kvs_eval_report_options_init(&options);
    expect_nothing(kvs_eval_report_options_init(NULL));
    assert_int_equal(options.resamples, 10000);

    expect_ok(kvs_eval_compare(&report, paths, 2, NULL, &err));
    assert_non_null(strstr(kvs_eval_report_text(report), "+100.00"));
    assert_non_null(strstr(kvs_eval_report_json(report), "\"gained\": 2"));
    files.csv = in_dir("table.csv");
    files.markdown = in_dir("table.md");
    expect_ok(kvs_eval_report_write(report, &files, &err));
    assert_int_equal(access(files.csv, R_OK), 0);
    assert_int_equal(access(files.markdown, R_OK), 0);
    expect_needed(report, kvs_eval_report_write(NULL, &files, &err));
    expect_needed(files, kvs_eval_report_write(report, NULL, &err));
    kvs_eval_report_free(report);
    expect_nothing(kvs_eval_report_free(NULL));
    expect_null(kvs_eval_report_text(NULL));
    expect_null(kvs_eval_report_json(NULL));

    expect_ok(kvs_eval_show(&report, paths, 1, &options, &err));
    kvs_eval_report_free(report);
    expect_ok(kvs_eval_table(&report, paths, 2, &options, &err));
    kvs_eval_report_free(report);

    expect_needed(out, kvs_eval_compare(NULL, paths, 2, NULL, &err));
    expect_needed(out, kvs_eval_show(NULL, paths, 1, NULL, &err));
    expect_needed(out, kvs_eval_table(NULL, paths, 1, NULL, &err));
    expect_no_handle(report, KVS_E_INVALID, "paths is NULL",
                     kvs_eval_compare(&report, NULL, 2, NULL, &err));
    expect_no_handle(report, KVS_E_INVALID, "NULL", kvs_eval_show(&report, null, 1, NULL, &err));
    expect_no_handle(report, KVS_E_INVALID, "at least 2",
                     kvs_eval_compare(&report, paths, 1, NULL, &err));
    expect_no_handle(report, KVS_E_INVALID, "neither a folder",
                     kvs_eval_show(&report, missing, 1, NULL, &err));
    options.resamples = 1;
    expect_no_handle(report, KVS_E_INVALID, "resamples is 1",
                     kvs_eval_compare(&report, paths, 2, &options, &err));
    kvs_eval_report_options_init(&options);
    options.table = "other";
    expect_no_handle(report, KVS_E_INVALID, "'other'",
                     kvs_eval_table(&report, paths, 2, &options, &err));
}

/* ---- losses by position ---------------------------------------------------------------------- */

enum { WINDOW = 512, TOKENS = 2 * WINDOW + 100 };

static kvs_model *long_model(uint64_t seed)
{
    kvs_model_config *config = api_config();
    kvs_model *model;

    expect_ok(kvs_model_config_set_number(config, "context", WINDOW, &err));
    expect_ok(kvs_model_config_finish(config, &err));
    expect_ok(kvs_model_create(&model, api_runtime, config, seed, &err));
    kvs_model_config_free(config);
    return model;
}

/* The points cover every token of the windows once, so their weighted mean is the loss of the
 * windows. */
static void points_cover_every_token_once(void **state)
{
    kvs_perplexity_options options = {.window = WINDOW, .stride = WINDOW};
    kvs_model *model = long_model(1);
    const kvs_position_point *point;
    kvs_perplexity_result whole;
    kvs_position_curve *curve;
    kvs_position_scores s;
    int32_t ids[TOKENS];
    double sum = 0;
    size_t next = 2;

    (void)state;
    for (size_t i = 0; i < TOKENS; i++)
        ids[i] = (int32_t)((i * i + i / 7) % API_VOCAB);
    expect_ok(kvs_loss_by_position(&curve, model, ids, TOKENS, &options, &err));
    expect_ok(kvs_perplexity(&whole, model, ids, 2 * WINDOW + 1, &options, &err));
    for (size_t i = 0; (point = kvs_position_curve_at(curve, i)) != NULL; i++) {
        assert_int_equal(point->first, next);
        assert_true(point->last >= point->first);
        next = point->last + 1;
        sum += point->loss.mean * (double)(point->last - point->first + 1);
    }
    assert_int_equal(next, WINDOW + 2);
    assert_true(fabs(sum / WINDOW - whole.loss) < 1e-6);
    kvs_position_curve_scores(&s, curve);
    assert_int_equal(s.windows, 2);
    assert_int_equal(s.late_last, WINDOW + 1);
    assert_true(fabs(s.late.mean - s.early.mean - s.score.mean) < 1e-12);
    assert_true(fabs(s.late_mean.mean - s.early_mean.mean - s.mean_score.mean) < 1e-12);
    kvs_position_curve_free(curve);
    kvs_model_free(model);
}

/* The loss of token 50 is that of a text of 50 tokens minus that of one of 49. */
static void a_token_is_predicted_from_those_before_it(void **state)
{
    kvs_perplexity_options options = {.window = WINDOW, .stride = WINDOW};
    kvs_model *model = long_model(2);
    kvs_perplexity_result longer, shorter;
    kvs_position_curve *curve;
    kvs_position_scores s;
    int32_t ids[WINDOW + 1];

    (void)state;
    for (size_t i = 0; i <= WINDOW; i++)
        ids[i] = (int32_t)((i * 13 + i / 5) % API_VOCAB);
    expect_ok(kvs_loss_by_position(&curve, model, ids, WINDOW + 1, &options, &err));
    kvs_position_curve_scores(&s, curve);
    expect_ok(kvs_perplexity(&longer, model, ids, 50, &options, &err));
    expect_ok(kvs_perplexity(&shorter, model, ids, 49, &options, &err));
    assert_true(fabs(49 * longer.loss - 48 * shorter.loss - s.early.mean) < 1e-4);
    expect_ok(kvs_perplexity(&longer, model, ids, 500, &options, &err));
    expect_ok(kvs_perplexity(&shorter, model, ids, 499, &options, &err));
    assert_true(fabs(499 * longer.loss - 498 * shorter.loss - s.late.mean) < 1e-3);
    assert_true(isnan(s.score.error)); /* one window */
    kvs_position_curve_free(curve);
    kvs_model_free(model);
}

static void positions_refuse_what_they_cannot_measure(void **state)
{
    kvs_perplexity_options options = {.window = WINDOW, .stride = WINDOW};
    kvs_model *model = long_model(1), *other = long_model(3);
    kvs_position_curve *curve, *second;
    kvs_estimate score, mean;
    kvs_position_scores scores;
    int32_t ids[TOKENS] = {0};
    const char *labels[] = {"a", "b"};
    const kvs_position_curve *curves[2];

    (void)state;
    expect_needed(out, kvs_loss_by_position(NULL, model, ids, TOKENS, &options, &err));
    expect_no_handle(curve, KVS_E_INVALID, "model is NULL",
                     kvs_loss_by_position(&curve, NULL, ids, TOKENS, &options, &err));
    expect_no_handle(curve, KVS_E_INVALID, "ids is NULL",
                     kvs_loss_by_position(&curve, model, NULL, TOKENS, &options, &err));
    expect_no_handle(curve, KVS_E_INVALID, "options is NULL",
                     kvs_loss_by_position(&curve, model, ids, TOKENS, NULL, &err));
    expect_no_handle(curve, KVS_E_INVALID, "no text fills a window: the longest has 512",
                     kvs_loss_by_position(&curve, model, ids, WINDOW, &options, &err));
    expect_no_handle(curve, KVS_E_INVALID, "at most the context 16",
                     kvs_loss_by_position(&curve, api_model, ids, TOKENS, &options, &err));
    options.stride = 256;
    expect_no_handle(curve, KVS_E_INVALID, "must not overlap",
                     kvs_loss_by_position(&curve, model, ids, TOKENS, &options, &err));
    options.window = 256;
    expect_no_handle(curve, KVS_E_INVALID, "at least 512",
                     kvs_loss_by_position(&curve, model, ids, TOKENS, &options, &err));
    options.window = options.stride = WINDOW;
    options.reference = model;
    expect_no_handle(curve, KVS_E_INVALID, "reference",
                     kvs_loss_by_position(&curve, model, ids, TOKENS, &options, &err));
    options.reference = NULL;
    ids[3] = API_VOCAB;
    expect_no_handle(curve, KVS_E_INVALID, "20",
                     kvs_loss_by_position(&curve, model, ids, TOKENS, &options, &err));
    ids[3] = 0;

    expect_ok(kvs_loss_by_position(&curve, model, ids, TOKENS, &options, &err));
    expect_ok(kvs_loss_by_position(&second, other, ids, TOKENS, &options, &err));
    expect_ok(kvs_position_curve_difference(&score, &mean, curve, curve, &err));
    assert_true(score.mean == 0 && mean.mean == 0);
    expect_ok(kvs_position_curve_difference(&score, &mean, curve, second, &err));
    expect_needed(score, kvs_position_curve_difference(NULL, &mean, curve, second, &err));
    expect_needed(mean_score, kvs_position_curve_difference(&score, NULL, curve, second, &err));
    expect_needed(a, kvs_position_curve_difference(&score, &mean, NULL, second, &err));
    expect_needed(b, kvs_position_curve_difference(&score, &mean, curve, NULL, &err));
    kvs_position_curve_free(second);
    expect_ok(kvs_loss_by_position(&second, other, ids, WINDOW + 1, &options, &err));
    expect_invalid("the same text",
                   kvs_position_curve_difference(&score, &mean, curve, second, &err));
    expect_null(kvs_position_curve_at(NULL, 0));
    expect_null(kvs_position_curve_at(curve, 1000));
    kvs_position_curve_scores(&scores, NULL);
    expect_zero(scores.windows);
    expect_nothing(kvs_position_curve_scores(NULL, curve));
    curves[0] = curve;
    curves[1] = NULL;
    expect_needed(svg, kvs_position_curves_draw(NULL, curves, labels, 1, &err));
    expect_needed(curves, kvs_position_curves_draw("x.svg", NULL, labels, 1, &err));
    expect_needed(labels, kvs_position_curves_draw("x.svg", curves, NULL, 1, &err));
    expect_needed(curves, kvs_position_curves_draw("x.svg", curves, labels, 2, &err));
    kvs_position_curve_free(curve);
    kvs_position_curve_free(second);
    expect_nothing(kvs_position_curve_free(NULL));
    kvs_model_free(model);
    kvs_model_free(other);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(reports_are_made_and_written),
        cmocka_unit_test(points_cover_every_token_once),
        cmocka_unit_test(a_token_is_predicted_from_those_before_it),
        cmocka_unit_test(positions_refuse_what_they_cannot_measure),
    };

    return cmocka_run_group_tests(tests, api_setup, api_teardown);
}
