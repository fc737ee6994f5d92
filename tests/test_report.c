/* Reports from runs whose folders are made by hand. */
#include "base/files.h"
#include "base/json.h"
#include "base/memory.h"
#include "base/program.h"
#include "base/text.h"

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
    " \"parameters\": 65000, \"task\": {\"name\": \"induction\"}, \"train\": {\"lr\": 0.001},"
    " \"threads\": 2, \"cpu_level\": \"avx2\"}\n";
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

/* A run of 300 steps whose accuracy rises to `best`; an empty text leaves its file out. */
static void make_run(const char *dir, const char *shift, double best, const char *result)
{
    char path[512];
    kvsi_text log = {0};
    int made;

    assert_int_equal(kvsi_dir_make(dir, &made, &err), KVS_OK);
    kvsi_text_format(&log, settings, shift);
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

static void a_run_is_summarised(void **state)
{
    char dir[256];
    kvs_run_summary run;

    (void)state;
    make_run(path_of(dir, "kv-run//"), shift_kv, 1, good_result);
    assert_int_equal(kvs_run_summarise(&run, dir, &err), KVS_OK);
    assert_string_equal(run.name, "kv-run");
    assert_string_equal(run.shift, "kv");
    assert_int_equal(run.layers, 2);
    assert_int_equal(run.dim, 64);
    assert_int_equal(run.heads, 4);
    assert_int_equal(run.parameters, 65000);
    assert_int_equal(run.steps, 300);
    assert_int_equal(run.step_at_99, 120);
    assert_true(run.final_accuracy == 0.995 && run.final_loss == 0.05 && run.seconds == 12.5);

    make_run(path_of(dir, "plain"), "", 0.1, poor_result);
    assert_int_equal(kvs_run_summarise(&run, dir, &err), KVS_OK);
    assert_string_equal(run.shift, "none");
    assert_int_equal(run.step_at_99, 0);
    make_run(dir, shift_k_gate, 0.1, poor_result);
    assert_int_equal(kvs_run_summarise(&run, dir, &err), KVS_OK);
    assert_string_equal(run.shift, "k gate");
    make_run(dir, shift_kv_window, 0.1, poor_result);
    assert_int_equal(kvs_run_summarise(&run, dir, &err), KVS_OK);
    assert_string_equal(run.shift, "kv clamp window 2");
}

static void assert_refused(const char *dir, kvs_status status, const char *part)
{
    const size_t live = kvsi_memory_live();
    kvs_run_summary run;

    assert_int_equal(kvs_run_summarise(&run, dir, &err), status);
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
    make_run(path_of(dir, "broken"), shift_kv, 1, "");
    assert_refused(dir, KVS_E_IO, "the run has not ended");
    make_run(dir, shift_kv, 1, "{\"steps\": 300}");
    assert_refused(dir, KVS_E_FORMAT, "result.json': key 'final_loss' is missing");
    make_run(dir, shift_kv, 1, "{\"steps\": -1}");
    assert_refused(dir, KVS_E_FORMAT, "key 'steps'");
    make_run(dir, ", \"kvshift\": 3", 1, good_result);
    assert_refused(dir, KVS_E_FORMAT, "train.jsonl line 1");

    make_run(dir, shift_kv, 1, good_result);
    path_of(log, "broken/train.jsonl");
    assert_int_equal(kvsi_file_write_text(log, "", &err), KVS_OK);
    assert_refused(dir, KVS_E_FORMAT, "found 0 lines");
    kvsi_text_format(&text, settings, "");
    kvsi_text_add(&text, "{\"step\": 2, \"accuracy\": null}\n{\"step\": 2}\n");
    assert_int_equal(kvsi_file_write_text(log, text.data, &err), KVS_OK);
    assert_refused(dir, KVS_E_FORMAT, "line 3': step 2 follows step 2");
    kvsi_text_add(&text, "{\"step\"");
    assert_int_equal(kvsi_file_write_text(log, text.data, &err), KVS_OK);
    assert_refused(dir, KVS_E_FORMAT, "line 3");
    kvsi_text_release(&text);
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
    assert_int_equal(kvs_report_runs(dirs, 2, &options, &err), KVS_OK);
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
    json_decref(report);
    assert_int_equal(kvs_report_runs(dirs, 0, &options, &err), KVS_E_INVALID);
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
    if (kvs_report_runs(dirs, 2, &options, &err) != KVS_OK)
        fail_msg("%s", err.message);
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

/* JSON needs no other program, so it comes even so. */
static void without_gnuplot_there_is_still_json(void **state)
{
    char kv[256], html[256], json[256];
    const char *dirs[] = {path_of(kv, "kv")};
    const kvs_report_options options = {.html = path_of(html, "none.html"),
                                        .json = path_of(json, "still.json")};
    char *path = kvsi_strdup(getenv("PATH"));

    (void)state;
    make_run(kv, shift_kv, 1, good_result);
    setenv("PATH", folder, 1);
    assert_int_equal(kvs_report_runs(dirs, 1, &options, &err), KVS_E_UNSUPPORTED);
    setenv("PATH", path, 1);
    kvsi_free(path);
    assert_string_equal(err.message, "gnuplot is needed for the curves; install the package "
                                     "'gnuplot-nox'");
    assert_true(kvsi_file_exists(json));
    assert_false(kvsi_file_exists(html));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_run_is_summarised),
        cmocka_unit_test(broken_folders_are_refused),
        cmocka_unit_test(json_lists_the_runs_in_order),
        cmocka_unit_test(the_page_stands_alone),
        cmocka_unit_test(without_gnuplot_there_is_still_json),
    };

    return cmocka_run_group_tests(tests, make_test_folder, remove_test_folder);
}
