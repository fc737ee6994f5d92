/* Reports of run folders written by the test. */
#include "base/files.h"
#include "base/json.h"
#include "base/memory.h"
#include "base/program.h"
#include "base/text.h"
#include "kvshift/kvshift_lab.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* clang-format off */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h> /* needs those before it */
/* clang-format on */

static char folder[] = "/tmp/kvshift-report-XXXXXX";
static kvs_err err;

static const char settings[] =
    "{\"kvshift\": \"0.1.0\", \"command\": \"kvshift train --out 'a<b>&c'\","
    " \"model\": {\"vocab_size\": 128, \"hidden_size\": 64, \"num_hidden_layers\": 2,"
    " \"num_attention_heads\": 4, \"num_key_value_heads\": 2, \"intermediate_size\": 176,"
    " \"max_position_embeddings\": 48, \"rope_theta\": 100000.0, \"rms_norm_eps\": 1e-5,"
    " \"initializer_range\": 0.02, \"tie_word_embeddings\": false%s},"
    " \"parameters\": 65000, \"task\": {\"name\": \"%s\", \"path\": \"%s\","
    " \"valid_tokens\": %d}, \"train\": {\"steps\": %d, \"lr\": %g, \"seed\": %d,"
    " \"eval_every\": %d}, \"threads\": 2, \"cpu_level\": \"avx2\"}\n";
static const char shift_kv[] = ", \"kvshift\": {\"targets\": \"kv\", \"form\": \"free\","
                               " \"window\": 1, \"init\": \"uniform\"}";
static const char shift_k_gate[] = ", \"kvshift\": {\"targets\": \"k\", \"form\": \"gate\","
                                   " \"window\": 1, \"init\": \"uniform\"}";
static const char shift_kv_window[] = ", \"kvshift\": {\"targets\": \"kv\", \"form\": \"clamp\","
                                      " \"window\": 2, \"init\": \"uniform\"}";
static const char good_result[] =
    "{\"steps\": 300, \"final_loss\": 0.05, \"final_accuracy\": 0.995,"
    " \"step_at_99\": 120, \"seconds\": 12.5, \"tokens\": 1000000}";
static const char poor_result[] = "{\"steps\": 300, \"final_loss\": 3.5, \"final_accuracy\": 0.148,"
                                  " \"step_at_99\": null, \"seconds\": 9.25, \"tokens\": 1000000}";

static int make_test_folder(void **state)
{
    (void)state;
    return mkdtemp(folder) ? 0 : -1;
}

static int remove_test_folder(void **state)
{
    char line[256];

    (void)state;
    snprintf(line, sizeof line, "rm -r '%s'", folder);
    return system(line);
}

static const char *path_of(char path[256], const char *name)
{
    snprintf(path, 256, "%s/%s", folder, name);
    return path;
}

/* Writes a run of 300 steps whose accuracy rises to `best`; without result.json if `result` is
 * empty. */
static void make_run(const char *dir, const char *shift, double best, const char *result)
{
    char path[512];
    kvsi_text log = {0};
    int made;

    assert_int_equal(kvsi_dir_make(dir, &made, &err), KVS_OK);
    kvsi_text_format(&log, settings, shift, "induction", "", 0, 300, 0.001, 1, 0);
    for (int step = 1; step <= 300; step++)
        kvsi_text_format(&log,
                         "{\"step\": %d, \"loss\": 1.5, \"lr\": 0.001, \"accuracy\": %.4f,"
                         " \"grad_norm\": 1.0, \"tokens\": 3000, \"seconds\": 0.01}\n",
                         step, best * (1 - exp(-step / 30.0)));
    snprintf(path, sizeof path, "%s/train.jsonl", dir);
    assert_int_equal(kvsi_file_write_text(path, log.data, &err), KVS_OK);
    kvsi_text_release(&log);
    snprintf(path, sizeof path, "%s/result.json", dir);
    if (*result)
        assert_int_equal(kvsi_file_write_text(path, result, &err), KVS_OK);
    else
        unlink(path);
}

static kvs_report *open_report(const char *const *dirs, size_t count)
{
    kvs_report *report;

    if (kvs_report_create(&report, dirs, count, &err) != KVS_OK)
        fail_msg("%s", err.message);
    return report;
}

static kvs_run_summary summary_of(const char *dir)
{
    kvs_report *report = open_report(&dir, 1);
    const kvs_run_summary run = *kvs_report_run(report, 0);

    assert_null(kvs_report_run(report, 1));
    kvs_report_free(report);
    return run;
}

static void a_run_is_summarised(void **state)
{
    char dir[256];
    kvs_run_summary run;

    (void)state;
    make_run(path_of(dir, "kv-run//"), shift_kv, 1, good_result);
    run = summary_of(dir);
    assert_string_equal(run.name, "kv-run");
    assert_string_equal(run.shift, "kv");
    assert_int_equal(run.layers, 2);
    assert_int_equal(run.dim, 64);
    assert_int_equal(run.heads, 4);
    assert_int_equal(run.parameters, 65000);
    assert_int_equal(run.steps, 300);
    assert_int_equal(run.planned_steps, 300);
    assert_int_equal(run.seed, 1);
    assert_int_equal(run.tokens, 900000);
    assert_true(run.ended);
    assert_int_equal(run.step_at_99, 120);
    assert_true(run.final_accuracy == 0.995 && run.final_loss == 0.05 && run.seconds == 12.5);

    make_run(path_of(dir, "plain"), "", 0.1, poor_result);
    run = summary_of(dir);
    assert_string_equal(run.shift, "none");
    assert_int_equal(run.step_at_99, 0);
    make_run(dir, shift_k_gate, 0.1, poor_result);
    run = summary_of(dir);
    assert_string_equal(run.shift, "k gate");
    make_run(dir, shift_kv_window, 0.1, poor_result);
    run = summary_of(dir);
    assert_string_equal(run.shift, "kv clamp window 2");
}

static void assert_refused(const char *dir, kvs_status status, const char *part)
{
    const size_t live = kvsi_memory_live();
    kvs_report *report;

    assert_int_equal(kvs_report_create(&report, &dir, 1, &err), status);
    assert_null(report);
    if (!strstr(err.message, part))
        fail_msg("expected '%s' in: %s", part, err.message);
    assert_int_equal(kvsi_memory_live(), live);
}

static void broken_folders_are_refused(void **state)
{
    char dir[256], log[256];
    kvsi_text text = {0};

    (void)state;
    assert_refused(path_of(dir, "nowhere"), KVS_E_IO, "nowhere/train.jsonl");
    make_run(path_of(dir, "broken"), shift_kv, 1, "{\"steps\": 300}");
    assert_refused(dir, KVS_E_FORMAT, "result.json': key 'final_loss' is missing");
    make_run(dir, shift_kv, 1, "{\"steps\": -1}");
    assert_refused(dir, KVS_E_FORMAT, "key 'steps'");
    make_run(dir, ", \"kvshift\": 3", 1, good_result);
    assert_refused(dir, KVS_E_FORMAT, "train.jsonl line 1");

    make_run(dir, shift_kv, 1, good_result);
    path_of(log, "broken/train.jsonl");
    assert_int_equal(kvsi_file_write_text(log, "", &err), KVS_OK);
    assert_refused(dir, KVS_E_FORMAT, "found 0 lines");
    kvsi_text_format(&text, settings, "", "induction", "", 0, 300, 0.001, 1, 0);
    kvsi_text_add(&text, "{\"step\": 2, \"accuracy\": null}\n{\"step\": 2}\n");
    assert_int_equal(kvsi_file_write_text(log, text.data, &err), KVS_OK);
    assert_refused(dir, KVS_E_FORMAT, "line 3': step 2 follows step 2");
    text.length = 0;
    kvsi_text_format(&text, settings, "", "induction", "", 0, 300, 0.001, 1, 0);
    kvsi_text_add(&text, "{\"step\": 2}\n{\"step\"\n");
    assert_int_equal(kvsi_file_write_text(log, text.data, &err), KVS_OK);
    assert_refused(dir, KVS_E_FORMAT, "line 3");
    kvsi_text_release(&text);
}

static void write_report(const char *const *dirs, size_t count, const kvs_report_options *options)
{
    kvs_report *report = open_report(dirs, count);

    if (kvs_report_write(report, options, &err) != KVS_OK)
        fail_msg("%s", err.message);
    kvs_report_free(report);
}

static char *read_text(const char *path)
{
    char *text;
    size_t size;

    assert_int_equal(kvsi_file_read(&text, &size, path, 1 << 24, &err), KVS_OK);
    return text;
}

static void json_lists_the_runs_in_order(void **state)
{
    char kv[256], plain[256], json[256];
    const char *dirs[] = {path_of(kv, "kv"), path_of(plain, "plain")};
    const kvs_report_options options = {.title = "Two \"runs\"", .json = path_of(json, "r.json")};
    const json_t *models, *model;
    json_t *report;

    (void)state;
    make_run(kv, shift_kv, 1, good_result);
    make_run(plain, "", 0.148, poor_result);
    write_report(dirs, 2, &options);
    assert_int_equal(kvsi_json_read(&report, json, 1 << 20, &err), KVS_OK);
    assert_string_equal(json_string_value(json_object_get(report, "title")), "Two \"runs\"");
    models = json_object_get(report, "models");
    assert_int_equal(json_array_size(models), 2);
    model = json_array_get(models, 0);
    assert_string_equal(json_string_value(json_object_get(model, "name")), "kv");
    assert_string_equal(json_string_value(json_object_get(model, "shift")), "kv");
    assert_int_equal(json_integer_value(json_object_get(model, "step_at_99")), 120);
    assert_true(json_real_value(json_object_get(model, "final_accuracy")) == 0.995);
    assert_string_equal(json_string_value(json_object_get(model, "command")),
                        "kvshift train --out 'a<b>&c'");
    assert_true(json_is_null(json_object_get(json_array_get(models, 1), "step_at_99")));
    assert_null(json_object_get(report, "arms"));
    json_decref(report);
}

static void the_page_stands_alone(void **state)
{
    char kv[256], odd[256], html[256], svg[256];
    const char *dirs[] = {path_of(kv, "kv"), path_of(odd, "it's <odd> & $'x'")};
    const kvs_report_options options = {
        .title = "<Induction> & co", .html = path_of(html, "r.html"), .svg = path_of(svg, "r.svg")};
    char *page, *curves;

    (void)state;
    if (!kvsi_program_found("gnuplot"))
        skip();
    make_run(kv, shift_kv, 1, good_result);
    make_run(odd, "", 0.148, poor_result);
    write_report(dirs, 2, &options);
    page = read_text(html);
    curves = read_text(svg);
    assert_non_null(strstr(page, "<h1>&lt;Induction&gt; &amp; co</h1>"));
    assert_non_null(strstr(page, "it&#39;s &lt;odd&gt; &amp; $&#39;x&#39;</td>"));
    assert_non_null(strstr(page, "--out &#39;a&lt;b&gt;&amp;c&#39;</pre>"));
    assert_non_null(strstr(page, "<td>99.5 %</td>"));
    assert_non_null(strstr(page, "<td>never</td>"));
    assert_non_null(strstr(page, "kvshift 0.1.0, 2 threads, CPU level avx2"));
    assert_non_null(strstr(page, "</svg>"));
    assert_null(strstr(page, "<odd>"));
    assert_null(strstr(page, "<script"));
    assert_null(strstr(page, "<?xml"));
    assert_null(strstr(page, "src="));
    assert_int_equal(strncmp(curves, "<?xml", 5), 0);
    assert_non_null(strstr(curves, "it's &lt;odd> &amp; $'x'")); /* in the legend */
    kvsi_free(page);
    kvsi_free(curves);
}

/* JSON does not need gnuplot. */
static void without_gnuplot_there_is_still_json(void **state)
{
    char kv[256], html[256], json[256];
    const char *dirs[] = {path_of(kv, "kv")};
    const kvs_report_options options = {.html = path_of(html, "none.html"),
                                        .json = path_of(json, "still.json")};
    char *path = kvsi_strdup(getenv("PATH"));
    kvs_report *report;

    (void)state;
    make_run(kv, shift_kv, 1, good_result);
    report = open_report(dirs, 1);
    setenv("PATH", folder, 1);
    assert_int_equal(kvs_report_write(report, &options, &err), KVS_E_UNSUPPORTED);
    setenv("PATH", path, 1);
    kvsi_free(path);
    kvs_report_free(report);
    assert_string_equal(err.message, "gnuplot is needed for the curves; install the package "
                                     "'gnuplot-nox'");
    assert_true(kvsi_file_exists(json));
    assert_false(kvsi_file_exists(html));
}

/* The log of a running training may end in an incomplete line, and there is no result. */
static void a_run_that_has_not_ended_is_shown_as_far_as_it_is(void **state)
{
    char dir[256], log[256], *text;
    kvs_report *report;
    const char *dirs[] = {path_of(dir, "running")};

    (void)state;
    make_run(dir, shift_kv, 1, "");
    text = read_text(path_of(log, "running/train.jsonl"));
    text[strlen(text) - 20] = '\0';
    assert_int_equal(kvsi_file_write_text(log, text, &err), KVS_OK);
    kvsi_free(text);
    report = open_report(dirs, 1);
    assert_int_equal(kvs_report_run(report, 0)->steps, 299);
    assert_false(kvs_report_run(report, 0)->ended);
    assert_true(isnan(kvs_report_run(report, 0)->final_loss));
    assert_string_equal(kvs_report_remark(report, 0),
                        "'running' has not ended: it is at step 299 of 300");
    assert_null(kvs_report_remark(report, 1));
    assert_non_null(strstr(kvs_report_text(report), "299 of 300"));
    kvs_report_free(report);
}

/* ---- text ------------------------------------------------------------------------------------ */

/* A run on text of 40 steps, evaluated every 10: the loss falls linearly from 5 to `loss`. */
typedef struct text_run {
    const char *name, *shift;
    int seed;
    double loss;
    int steps, planned; /* 0 = 40; planned 0 = steps */
    int no_result, eval_every, tokens, valid_tokens;
    double lr;
} text_run;

static int or_else(int value, int otherwise)
{
    return value ? value : otherwise;
}

static double loss_after(const text_run *run, int step)
{
    return 5 + (run->loss - 5) * step / or_else(run->steps, 40);
}

static const char *make_text_run(char path[256], const text_run *run)
{
    const int steps = or_else(run->steps, 40), every = or_else(run->eval_every, 10);
    kvsi_text log = {0}, result = {0};
    char file[512];
    int made;

    path_of(path, run->name);
    assert_int_equal(kvsi_dir_make(path, &made, &err), KVS_OK);
    kvsi_text_format(&log, settings, run->shift ? run->shift : "", "corpus", run->name,
                     or_else(run->valid_tokens, 5000), or_else(run->planned, steps),
                     run->lr > 0 ? run->lr : 0.001, run->seed, every);
    for (int step = 1; step <= steps; step++) {
        kvsi_text_format(&log, "{\"step\": %d, \"loss\": %.4f, \"tokens\": %d, \"seconds\": 0.5",
                         step, loss_after(run, step), or_else(run->tokens, 1000));
        if (step % every == 0)
            kvsi_text_format(&log, ", \"eval_loss\": %.12f", loss_after(run, step));
        kvsi_text_add(&log, "}\n");
    }
    kvsi_text_format(&result,
                     "{\"steps\": %d, \"final_loss\": %.12f, \"final_accuracy\": null,"
                     " \"step_at_99\": null, \"seconds\": 30, \"tokens\": 1}",
                     steps, run->loss);
    snprintf(file, sizeof file, "%s/train.jsonl", path);
    assert_int_equal(kvsi_file_write_text(file, log.data, &err), KVS_OK);
    snprintf(file, sizeof file, "%s/result.json", path);
    unlink(file);
    if (!run->no_result)
        assert_int_equal(kvsi_file_write_text(file, result.data, &err), KVS_OK);
    kvsi_text_release(&log);
    kvsi_text_release(&result);
    return path;
}

enum { MOST_RUNS = 8 };

static kvs_report *report_on(const text_run *runs, size_t count)
{
    char paths[MOST_RUNS][256];
    const char *dirs[MOST_RUNS];

    for (size_t i = 0; i < count; i++)
        dirs[i] = make_text_run(paths[i], runs + i);
    return open_report(dirs, count);
}

static void assert_near(double found, double expected)
{
    if (!(fabs(found - expected) < 1e-9))
        fail_msg("expected %.12g, found %.12g", expected, found);
}

static void assert_remarked(const kvs_report *report, const char *part)
{
    for (size_t i = 0; kvs_report_remark(report, i); i++)
        if (strstr(kvs_report_remark(report, i), part))
            return;
    fail_msg("no remark contains '%s'", part);
}

static const text_run six[] = {
    {"kv-1", shift_kv, .seed = 1, .loss = 2.0}, {"kv-2", shift_kv, .seed = 2, .loss = 2.1},
    {"kv-3", shift_kv, .seed = 3, .loss = 2.5}, {"none-3", NULL, .seed = 3, .loss = 2.8},
    {"none-1", NULL, .seed = 1, .loss = 2.3},   {"none-2", NULL, .seed = 2, .loss = 2.2},
};

/* By hand: kv 2.0 2.1 2.5 has mean 2.2 and variance (0.04 + 0.01 + 0.09) / 2 = 0.07; none
 * 2.8 2.3 2.2 has mean 7.3 / 3; the differences -0.3 -0.1 -0.3 have mean -0.7 / 3 and variance
 * (2 (1/15)² + (2/15)²) / 2 = 1/75. */
static void runs_that_differ_in_their_seed_are_averaged(void **state)
{
    kvs_report *report = report_on(six, 6);
    const kvs_arm_summary *kv = kvs_report_arm(report, 0), *none = kvs_report_arm(report, 1);
    const kvs_arm_difference *d = kvs_report_difference(report, 0);

    (void)state;
    assert_null(kvs_report_arm(report, 2));
    assert_string_equal(kv->label, "shift kv");
    assert_string_equal(none->label, "shift none");
    assert_int_equal(kv->runs, 3);
    assert_int_equal(kv->counted, 3);
    assert_int_equal(kv->step, 40);
    assert_near(kv->loss, 2.2);
    assert_near(kv->loss_error, sqrt(0.07 / 3));
    assert_near(kv->tokens, 40000);
    assert_near(kv->seconds, 30);
    assert_near(none->loss, 7.3 / 3);

    assert_null(kvs_report_difference(report, 1));
    assert_int_equal(d->arm, 0); /* minus the arm without a shift, in any order */
    assert_int_equal(d->baseline, 1);
    assert_int_equal(d->step, 40);
    assert_int_equal(d->seeds, 3);
    assert_near(d->mean, -0.7 / 3);
    assert_near(d->error, sqrt(1 / 75.0 / 3));
    assert_int_equal(d->seed[1], 2);
    assert_near(d->difference[0], -0.3);
    assert_near(d->difference[1], -0.1);
    assert_near(d->difference[2], -0.3);
    assert_null(kvs_report_remark(report, 0));
    assert_non_null(strstr(kvs_report_text(report), "2.2000 ± 0.1528"));
    assert_non_null(strstr(kvs_report_text(report), "-0.2333 ± 0.0667"));
    assert_non_null(strstr(kvs_report_text(report), "better. It is for 3 of 3 seeds."));
    kvs_report_free(report);
}

static void one_seed_has_no_error_bar(void **state)
{
    const text_run runs[] = {{"one", NULL, .seed = 7, .loss = 2.5},
                             {"other", shift_kv, .seed = 7, .loss = 2.75}};
    kvs_report *report = report_on(runs, 2);
    const kvs_arm_difference *d = kvs_report_difference(report, 0);

    (void)state;
    assert_true(isnan(kvs_report_arm(report, 0)->loss_error));
    assert_near(d->mean, 0.25);
    assert_true(isnan(d->error));
    assert_remarked(report, "'shift none' is one run: it has no error bar");
    assert_non_null(strstr(kvs_report_text(report), "+0.2500"));
    kvs_report_free(report);
}

/* Labels contain the fewest settings that distinguish the arms. */
static void arms_are_named_by_what_differs(void **state)
{
    const text_run runs[] = {
        {"a", NULL, .seed = 1, .loss = 2, .lr = 0.001},
        {"b", NULL, .seed = 1, .loss = 2, .lr = 0.002},
        {"c", shift_kv, .seed = 1, .loss = 2, .lr = 0.002},
    };
    kvs_report *report = report_on(runs, 2);

    (void)state;
    assert_string_equal(kvs_report_arm(report, 0)->label, "lr 0.001");
    assert_string_equal(kvs_report_arm(report, 1)->label, "lr 0.002");
    kvs_report_free(report);
    report = report_on(runs, 3);
    assert_string_equal(kvs_report_arm(report, 0)->label, "shift none, lr 0.001");
    assert_string_equal(kvs_report_arm(report, 2)->label, "shift kv, lr 0.002");
    kvs_report_free(report);
    report = report_on(runs, 1);
    assert_string_equal(kvs_report_arm(report, 0)->label, "shift none");
    assert_null(kvs_report_difference(report, 0));
    kvs_report_free(report);
}

/* The same run twice adds no information about chance. */
static void a_repeated_seed_is_not_averaged(void **state)
{
    const text_run runs[] = {{"first", NULL, .seed = 1, .loss = 2},
                             {"again", NULL, .seed = 1, .loss = 2}};
    kvs_report *report = report_on(runs, 2);

    (void)state;
    assert_int_equal(kvs_report_arm(report, 0)->runs, 1);
    assert_string_equal(kvs_report_arm(report, 1)->label, "shift none (again)");
    assert_remarked(report, "'again' has the settings and the seed of 'first'");
    kvs_report_free(report);
}

static void unequal_runs_are_told(void **state)
{
    const text_run data[] = {{"a", NULL, .seed = 1, .loss = 2},
                             {"b", shift_kv, .seed = 1, .loss = 2, .valid_tokens = 77}};
    const text_run length[] = {{"a", NULL, .seed = 1, .loss = 2},
                               {"b", shift_kv, .seed = 1, .loss = 3, .steps = 20}};
    kvs_report *report = report_on(data, 2);

    (void)state;
    assert_remarked(report, "not comparable: 'shift none' and 'shift kv' have different data "
                            "(data valid tokens: 5000 and 77)");
    assert_null(kvs_report_difference(report, 0));
    kvs_report_free(report);
    report = report_on(length, 2);
    assert_remarked(report, "not an equal comparison: 'shift none' saw 40.0k tokens in 40 steps, "
                            "'shift kv' 20.0k tokens in 20 steps");
    assert_int_equal(kvs_report_difference(report, 0)->step, 20);
    assert_near(kvs_report_difference(report, 0)->mean, 3 - 3.5);
    kvs_report_free(report);
}

/* Means are over complete runs; without any, over all runs at a step that all have reached. */
static void runs_that_go_on_do_not_spoil_the_means(void **state)
{
    const text_run some[] = {
        {"kv-1", shift_kv, .seed = 1, .loss = 2},
        {"kv-2", shift_kv, .seed = 2, .loss = 3, .steps = 30, .planned = 40, .no_result = 1},
        {"kv-3", shift_kv, .seed = 3, .loss = 3, .steps = 20, .planned = 40},
    };
    kvs_report *report = report_on(some, 3);

    (void)state;
    assert_int_equal(kvs_report_arm(report, 0)->runs, 3);
    assert_int_equal(kvs_report_arm(report, 0)->counted, 1);
    assert_near(kvs_report_arm(report, 0)->loss, 2);
    assert_remarked(report, "'kv-2' has not ended: it is at step 30 of 40; it is not in the means");
    assert_remarked(report, "'kv-3' was stopped at step 20 of 40; it is not in the means");
    kvs_report_free(report);
    report = report_on(some + 1, 2);
    assert_int_equal(kvs_report_arm(report, 0)->counted, 2);
    assert_int_equal(kvs_report_arm(report, 0)->step, 20);
    assert_near(kvs_report_arm(report, 0)->loss, (5 - 2.0 * 20 / 30 + 3) / 2);
    kvs_report_free(report);
}

static void nonsense_is_refused(void **state)
{
    char text[256], other[300], task[256];
    const char *dirs[] = {path_of(task, "task"), make_text_run(text, six), other};
    kvs_report *report;

    (void)state;
    make_run(task, shift_kv, 1, good_result);
    snprintf(other, sizeof other, "%s/../kv-1", text);
    assert_int_equal(kvs_report_create(&report, dirs, 0, &err), KVS_E_INVALID);
    assert_int_equal(kvs_report_create(&report, dirs, 2, &err), KVS_E_INVALID);
    assert_non_null(strstr(err.message, "task' a task; expected runs of one kind"));
    assert_int_equal(kvs_report_create(&report, dirs + 1, 2, &err), KVS_E_INVALID);
    assert_non_null(strstr(err.message, "kv-1' is given twice"));
}

/* Page and JSON contain the numbers of the tables; unusual runs can be drawn. */
static void text_is_drawn_and_written(void **state)
{
    char html[256], json[256], *page;
    const kvs_report_options options = {.html = path_of(html, "t.html"),
                                        .json = path_of(json, "t.json")};
    const text_run odd[] = {
        {"a", NULL, .seed = 1, .loss = 2, .steps = 3, .planned = 40, .no_result = 1},
        {"b", shift_kv, .seed = 1, .loss = 2, .tokens = 3000, .eval_every = 1}};
    kvs_report *report;
    json_t *object;
    const json_t *difference;

    (void)state;
    if (!kvsi_program_found("gnuplot"))
        skip();
    report = report_on(odd, 2);
    if (kvs_report_write(report, &options, &err) != KVS_OK)
        fail_msg("%s", err.message);
    kvs_report_free(report);
    report = report_on(six, 6);
    if (kvs_report_write(report, &options, &err) != KVS_OK)
        fail_msg("%s", err.message);
    kvs_report_free(report);
    page = read_text(html);
    assert_non_null(strstr(page, "<td>2.2000 ± 0.1528</td>"));
    assert_non_null(strstr(page, "<h3>shift kv − shift none</h3>"));
    assert_non_null(strstr(page, "Settings that differ"));
    assert_non_null(strstr(page, "thousand tokens"));
    kvsi_free(page);
    assert_int_equal(kvsi_json_read(&object, json, 1 << 20, &err), KVS_OK);
    difference = json_array_get(json_object_get(object, "differences"), 0);
    assert_string_equal(json_string_value(json_object_get(difference, "minus")), "shift none");
    assert_near(json_real_value(json_object_get(difference, "mean")), -0.7 / 3);
    assert_int_equal(json_array_size(json_object_get(difference, "seeds")), 3);
    assert_int_equal(json_array_size(json_object_get(difference, "curve")), 4);
    json_decref(object);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_run_is_summarised),
        cmocka_unit_test(broken_folders_are_refused),
        cmocka_unit_test(json_lists_the_runs_in_order),
        cmocka_unit_test(the_page_stands_alone),
        cmocka_unit_test(without_gnuplot_there_is_still_json),
        cmocka_unit_test(a_run_that_has_not_ended_is_shown_as_far_as_it_is),
        cmocka_unit_test(runs_that_differ_in_their_seed_are_averaged),
        cmocka_unit_test(one_seed_has_no_error_bar),
        cmocka_unit_test(arms_are_named_by_what_differs),
        cmocka_unit_test(a_repeated_seed_is_not_averaged),
        cmocka_unit_test(unequal_runs_are_told),
        cmocka_unit_test(runs_that_go_on_do_not_spoil_the_means),
        cmocka_unit_test(nonsense_is_refused),
        cmocka_unit_test(text_is_drawn_and_written),
    };

    return cmocka_run_group_tests(tests, make_test_folder, remove_test_folder);
}
