/* The parts of experiments: statistics compared with published tables, plans, the synthetic
 * language, charts as CSV, and saved experiments. */
#include "base/files.h"
#include "base/memory.h"
#include "repro/execute.h"
#include "repro/experiment_folder.h"
#include "repro/texts.h"
#include "support.h"

#include <math.h>
#include <string.h>

/* ---- statistics ---- */

/* From tables of Student's t, to the digits given there. */
static void student_has_the_known_tails(void **state)
{
    static const struct {
        double t, freedom, p;
    } cases[] = {
        {1, 1, 0.5},
        {12.7062047, 1, 0.05},
        {4.3026527, 2, 0.05},
        {2.7764451, 4, 0.05},
        {2, 4, 0.1161165},
        {4.6040949, 4, 0.01},
        {2.2281389, 10, 0.05},
        {0, 3, 1},
        {1.9799304, 120, 0.05},
        {-2.7764451, 4, 0.05},
    };

    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        assert_true(fabs(kvsi_t_two_sided(cases[i].t, cases[i].freedom) - cases[i].p) < 1e-7);
    assert_true(isnan(kvsi_t_two_sided(NAN, 3)));
    assert_true(kvsi_t_two_sided(INFINITY, 3) == 0);
}

static void pairs_are_compared(void **state)
{
    const double ours[] = {1.0, 2.0, 3.0, NAN, 4.0}, theirs[] = {1.5, 2.25, 3.75, 1.0, 4.5};
    const kvsi_paired_test test = kvsi_paired_t(ours, theirs, 5);

    (void)state;
    /* Differences -0.5, -0.25, -0.75, -0.5: mean -0.5, deviation 0.204124, error 0.102062. */
    assert_int_equal(test.difference.count, 4);
    assert_int_equal(test.below, 4);
    assert_true(fabs(test.difference.mean + 0.5) < 1e-12);
    assert_true(fabs(test.difference.error - 0.1020620726) < 1e-9);
    assert_true(fabs(test.t + 4.898979486) < 1e-8);
    assert_true(fabs(test.p - 0.0162766) < 1e-6);
    assert_true(fabs(kvsi_half_interval(&test.difference) - 3.182446305 * 0.1020620726) < 1e-7);
    assert_true(isnan(kvsi_paired_t(ours, theirs, 1).p));
    assert_true(isnan(kvsi_paired_t(ours, theirs, 0).difference.mean));
}

static void a_power_law_is_found_again(void **state)
{
    double x[6], y[6];
    kvsi_power_law law;

    (void)state;
    for (int i = 0; i < 6; i++) {
        x[i] = 1e4 * pow(3, i);
        y[i] = 12.5 * pow(x[i], -0.076);
    }
    law = kvsi_fit_power_law(x, y, 6);
    assert_true(fabs(law.factor - 12.5) < 1e-9 && fabs(law.exponent - 0.076) < 1e-12);
}

/* ---- experiments ---- */

static void every_experiment_has_a_plan_at_every_scale(void **state)
{
    kvs_runtime *rt = support_runtime(NULL);
    kvs_err err;

    (void)state;
    for (size_t i = 0; kvs_experiment_at(i); i++)
        for (int scale = 0; scale < KVS_SCALES; scale++) {
            const kvs_experiment *e = kvs_experiment_at(i);
            const kvs_repro_options options = {.scale = (kvs_scale)scale};
            kvs_repro *repro;

            assert_non_null(e->settings[scale]);
            if (kvs_repro_create(&repro, rt, e->name, &options, &err) != KVS_OK)
                fail_msg("%s at scale %d: %s", e->name, scale, err.message);
            for (size_t r = 0; kvs_repro_run_at(repro, r); r++) {
                const kvs_planned_run *run = kvs_repro_run_at(repro, r);

                assert_true(run->flops > 0 && run->tokens > 0 && run->parameters > 0);
                for (size_t other = 0; other < r; other++)
                    assert_string_not_equal(run->name, kvs_repro_run_at(repro, other)->name);
            }
            kvs_repro_free(repro);
        }
    kvs_runtime_free(rt);
}

static void unknown_names_are_refused(void **state)
{
    const kvs_repro_options options = {.scale = KVS_SCALE_SMOKE, .seeds = 65};
    kvs_runtime *rt = support_runtime(NULL);
    kvs_repro *repro;
    kvs_scale scale;
    kvs_err err;

    (void)state;
    assert_int_equal(kvs_repro_create(&repro, rt, "induction-dept", &options, &err), KVS_E_INVALID);
    assert_non_null(strstr(err.message, "did you mean 'induction-depth'?"));
    assert_int_equal(kvs_repro_create(&repro, rt, "xyz", &options, &err), KVS_E_INVALID);
    assert_non_null(strstr(err.message, "unknown experiment 'xyz'"));
    assert_int_equal(kvs_repro_create(&repro, rt, "seeds", &options, &err), KVS_E_INVALID);
    assert_non_null(strstr(err.message, "65 seeds, expected at most 64"));
    assert_int_equal(kvs_scale_parse(&scale, "huge", &err), KVS_E_INVALID);
    kvs_runtime_free(rt);
}

/* The arms of a comparison differ only in their attention. */
static void arms_share_everything_but_the_shift(void **state)
{
    kvs_runtime *rt = support_runtime(NULL);
    const kvsi_experiment *experiment;
    kvsi_plan plan = {.scale = KVS_SCALE_DESK, .seeds = 2};
    kvs_err err;

    (void)state;
    assert_int_equal(kvsi_experiment_find(&experiment, "seeds", &err), KVS_OK);
    assert_int_equal(kvsi_experiment_plan(&plan, experiment, &err), KVS_OK);
    assert_int_equal(plan.count, 4);
    for (size_t seed = 0; seed < 2; seed++) {
        kvsi_planned vanilla = plan.runs[seed], kv = plan.runs[2 + seed];

        assert_int_equal(vanilla.seed, seed + 1);
        assert_int_equal(kv.seed, seed + 1);
        assert_int_equal(vanilla.model.shift.targets, 0);
        assert_int_equal(kv.model.shift.targets, KVS_SHIFT_K | KVS_SHIFT_V);
        kv.model.shift = vanilla.model.shift;
        assert_memory_equal(&kv.model, &vanilla.model, sizeof kv.model);
        assert_memory_equal(&kv.train, &vanilla.train, sizeof kv.train);
    }
    kvsi_plan_release(&plan);
    kvs_runtime_free(rt);
}

/* ---- which run is it? ---- */

#define FIELD(name, counts)                                                                        \
    {                                                                                              \
#name, offsetof(kvs_train_config, name), sizeof((kvs_train_config){0}.name),               \
            _Generic((kvs_train_config){0}.name, double : 1, default : 0), counts                  \
    }

/* All fields of kvs_train_config in order, and whether they can change a run's result.  The others
 * change only how it is computed. */
static const struct {
    const char *name;
    size_t at, size;
    int is_real, counts;
} train_fields[] = {
    FIELD(steps, 1),
    FIELD(warmup, 1),
    FIELD(batch, 1),
    FIELD(accumulate, 0),
    FIELD(schedule, 1),
    FIELD(lr, 1),
    FIELD(lr_floor, 1),
    FIELD(beta1, 1),
    FIELD(beta2, 1),
    FIELD(eps, 1),
    FIELD(weight_decay, 1),
    FIELD(shift_lr, 1),
    FIELD(shift_decay, 1),
    FIELD(decay_all, 1),
    FIELD(only_shift, 1),
    FIELD(rates, 1),
    FIELD(patience, 0),
    FIELD(save_best, 0),
    FIELD(eval_dropout, 1),
    FIELD(recompute, 0),
    FIELD(precision, 1),
    FIELD(pack_weights, 0),
    FIELD(clip, 1),
    FIELD(seed, 1),
    FIELD(shard, 0),
    FIELD(deterministic, 0),
    FIELD(eval_every, 0),
    FIELD(eval_sequences, 0),
    FIELD(checkpoint_every, 0),
    FIELD(keep, 0),
    FIELD(sample_every, 0),
    FIELD(eval_tasks_every, 0),
};

enum { TRAIN_FIELDS = sizeof train_fields / sizeof *train_fields };

/* Where a field of `size` bytes begins after `at`; texts need no alignment. */
static size_t aligned(size_t at, size_t size)
{
    return size > sizeof(double) ? at : (at + size - 1) / size * size;
}

static void change_field(kvs_train_config *config, size_t field)
{
    unsigned char *bytes = (unsigned char *)config + train_fields[field].at;
    double value;

    if (!train_fields[field].is_real) {
        bytes[0] ^= 1;
        return;
    }
    memcpy(&value, bytes, sizeof value);
    value += 0.125;
    memcpy(bytes, &value, sizeof value);
}

static void what_changes_a_result_is_another_run(void **state)
{
    kvsi_planned run = {.task = kvsi_text_task};
    char *plain, *changed;
    size_t end = 0;

    (void)state;
    kvsi_model_config_init(&run.model);
    kvsi_train_config_init(&run.train);
    plain = kvsi_planned_describe(&run, &run.model, NULL);
    assert_non_null(plain);
    assert_true(kvsi_planned_same(plain, plain));
    for (size_t i = 0; i < TRAIN_FIELDS; i++) {
        kvsi_planned other = run;

        /* No field of the struct is missing above. */
        assert_int_equal(train_fields[i].at, aligned(end, train_fields[i].size));
        end = train_fields[i].at + train_fields[i].size;
        change_field(&other.train, i);
        changed = kvsi_planned_describe(&other, &other.model, NULL);
        assert_non_null(changed);
        if (kvsi_planned_same(plain, changed) == train_fields[i].counts)
            fail_msg("'%s' %s a run's description", train_fields[i].name,
                     train_fields[i].counts ? "does not change" : "changes");
        free(changed);
    }
    assert_int_equal(aligned(end, sizeof(double)), sizeof(kvs_train_config));
    run.model.layers++;
    changed = kvsi_planned_describe(&run, &run.model, NULL);
    assert_false(kvsi_planned_same(plain, changed));
    free(changed);
    free(plain);
}

/* Earlier versions of planned.json lack these settings; they had the default values. */
static void earlier_plans_are_still_known(void **state)
{
    static const char *const later[] = {"eps",   "shift_lr",     "only_shift",
                                        "rates", "eval_dropout", "precision"};
    kvsi_planned run = {.task = kvsi_text_task};
    char *now, *before;
    json_t *json;

    (void)state;
    kvsi_model_config_init(&run.model);
    kvsi_train_config_init(&run.train);
    now = kvsi_planned_describe(&run, &run.model, NULL);
    json = json_loads(now, 0, NULL);
    for (size_t i = 0; i < sizeof later / sizeof *later; i++)
        assert_int_equal(json_object_del(json, later[i]), 0);
    before = json_dumps(json, JSON_INDENT(1) | JSON_SORT_KEYS);
    assert_true(kvsi_planned_same(before, now));
    free(now);
    run.train.only_shift = 1;
    now = kvsi_planned_describe(&run, &run.model, NULL);
    assert_false(kvsi_planned_same(before, now));
    free(before);
    json_object_del(json, "lr"); /* every version wrote it */
    before = json_dumps(json, 0);
    run.train.only_shift = 0;
    free(now);
    now = kvsi_planned_describe(&run, &run.model, NULL);
    assert_false(kvsi_planned_same(before, now));
    assert_false(kvsi_planned_same("no JSON", now));
    assert_false(kvsi_planned_same("[]", now));
    free(before);
    free(now);
    json_decref(json);
}

/* ---- the language ---- */

static void the_language_is_always_the_same(void **state)
{
    kvsi_text one = {0}, two = {0}, other = {0};

    (void)state;
    kvsi_make_language(&one, 20000, 1);
    kvsi_make_language(&two, 20000, 1);
    kvsi_make_language(&other, 20000, 2);
    assert_true(one.length >= 20000 && one.length < 25000);
    assert_string_equal(one.data, two.data);
    assert_string_not_equal(one.data, other.data);
    for (size_t i = 0; i < one.length; i++)
        assert_true((unsigned char)one.data[i] < 0x80);
    kvsi_text_release(&one);
    kvsi_text_release(&two);
    kvsi_text_release(&other);
}

/* ---- charts ---- */

static void a_figure_is_its_numbers(void **state)
{
    kvsi_chart chart = {.name = "test", .caption = ""};
    kvsi_text csv = {0};
    kvs_err err;

    (void)state;
    kvsi_chart_panel(&chart, "left", "x", "y");
    kvsi_series_add(kvsi_chart_series(&chart, KVSI_LINE, 0, "a \"b\""), 1, 2.5, NAN);
    kvsi_series_add(chart.series[0], NAN, 3, NAN);
    kvsi_series_add(chart.series[0], 2, 3, 0.5);
    assert_int_equal(kvsi_chart_csv(&csv, &chart, &err), KVS_OK);
    assert_string_equal(csv.data, "panel,series,x,y,error\n\"left\",\"a 'b'\",1,2.5,\n"
                                  "\"left\",\"a 'b'\",2,3,0.5\n");
    kvsi_text_release(&csv);
    for (size_t i = 0; i < KVSI_SERIES_MAX; i++)
        kvsi_chart_series(&chart, KVSI_LINE, 0, "one too many");
    assert_int_equal(kvsi_chart_csv(&csv, &chart, &err), KVS_E_LIMIT);
    kvsi_chart_release(&chart);
}

/* ---- records ---- */

static const char EXPERIMENT[] =
    "{\"experiment\": \"<x>\", \"figure\": \"Fig. 1\", \"claim\": \"c\", \"scale\": \"smoke\", "
    "\"settings\": \"s\", \"command\": \"kvshift repro x\", \"finished\": \"now\", \"seconds\": 3, "
    "\"figures\": [], \"tables\": [{\"caption\": \"t\", \"left\": 1, \"rows\": [[\"a|b\", "
    "\"n\"], [\"c\", \"1\"]]}], \"remarks\": [\"r\"]}";
static const char RESULTS[] =
    "[{\"claim\": \"one\", \"paper\": \"all\", \"ours\": 98.25, \"unit\": \"%\", \"stderr\": "
    "0.125, "
    "\"seeds\": 3, \"verdict\": \"reproduced\", \"detail\": \"d\"}, {\"claim\": 7}]";

static void write(const char *dir, const char *name, const char *text)
{
    char *path = kvsi_path_join(dir, name);
    kvs_err err;

    assert_int_equal(kvsi_file_write_text(path, text, &err), KVS_OK);
    kvsi_free(path);
}

static void records_become_pages(void **state)
{
    char *dir = support_make_dir();
    kvsi_saved record;
    kvsi_page html = {0}, markdown = {.markdown = 1};
    kvs_err err;

    (void)state;
    write(dir, "experiment.json", EXPERIMENT);
    write(dir, "results.json", RESULTS);
    if (kvsi_saved_open(&record, dir, &err) != KVS_OK)
        fail_msg("%s", err.message);
    assert_int_equal(kvsi_saved_page(&html, &record, &err), KVS_OK);
    assert_int_equal(kvsi_saved_page(&markdown, &record, &err), KVS_OK);
    assert_non_null(strstr(html.text.data, "<h1>&lt;x&gt;</h1>"));
    assert_non_null(
        strstr(html.text.data, "<td>98.25 ± 0.12 %</td><td>3</td><td class=\"reproduced\">"));
    assert_non_null(
        strstr(markdown.text.data, "| one (d) | all | 98.25 ± 0.12 % | 3 | **reproduced** |"));
    assert_non_null(strstr(markdown.text.data, "| a\\|b | n |\n|---|---:|\n| c | 1 |\n"));
    kvsi_page_release(&html);
    kvsi_page_release(&markdown);
    kvsi_saved_close(&record);
    support_remove_dir(dir);
}

/* Each case is one error that would break a page. */
static void broken_records_are_refused(void **state)
{
    static const struct {
        const char *name, *text, *complaint;
    } cases[] = {
        {"experiment.json", "[]", "expected a JSON object"},
        {"experiment.json", "{\"experiment\": 1}", "key 'experiment'"},
        {"experiment.json",
         "{\"experiment\": \"x\", \"figure\": \"\", \"claim\": \"\", \"scale\": \"\", "
         "\"settings\": \"\", \"command\": \"\", \"finished\": \"\", \"seconds\": 1, "
         "\"figures\": [], \"tables\": [{\"rows\": [[\"a\", \"b\"], []]}], \"remarks\": []}",
         "row 1: expected 2 cells, found 0"},
        {"results.json", "{}", "expected a JSON array"},
        {"results.json", "[", "malformed JSON"},
    };

    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char *dir = support_make_dir();
        kvsi_saved record;
        kvs_err err;

        write(dir, "experiment.json", EXPERIMENT);
        write(dir, "results.json", RESULTS);
        write(dir, cases[i].name, cases[i].text);
        assert_int_equal(kvsi_saved_open(&record, dir, &err), KVS_E_FORMAT);
        if (!strstr(err.message, cases[i].complaint))
            fail_msg("'%s' instead of '%s'", err.message, cases[i].complaint);
        support_remove_dir(dir);
    }
}

static void figures_stay_in_their_folder(void **state)
{
    static const char bad[] =
        "{\"experiment\": \"x\", \"figure\": \"\", \"claim\": \"\", \"scale\": \"\", \"settings\": "
        "\"\", \"command\": \"\", \"finished\": \"\", \"seconds\": 1, \"figures\": [{\"name\": "
        "\"../../secret\"}], \"tables\": [], \"remarks\": []}";
    char *dir = support_make_dir();
    kvsi_saved record;
    kvsi_page html = {0};
    kvs_err err;

    (void)state;
    write(dir, "experiment.json", bad);
    write(dir, "results.json", RESULTS);
    assert_int_equal(kvsi_saved_open(&record, dir, &err), KVS_OK);
    assert_int_equal(kvsi_saved_page(&html, &record, &err), KVS_E_FORMAT);
    assert_non_null(strstr(err.message, "is not the name of a figure"));
    kvsi_page_release(&html);
    kvsi_saved_close(&record);
    support_remove_dir(dir);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(student_has_the_known_tails),
        cmocka_unit_test(pairs_are_compared),
        cmocka_unit_test(a_power_law_is_found_again),
        cmocka_unit_test(every_experiment_has_a_plan_at_every_scale),
        cmocka_unit_test(unknown_names_are_refused),
        cmocka_unit_test(arms_share_everything_but_the_shift),
        cmocka_unit_test(what_changes_a_result_is_another_run),
        cmocka_unit_test(earlier_plans_are_still_known),
        cmocka_unit_test(the_language_is_always_the_same),
        cmocka_unit_test(a_figure_is_its_numbers),
        cmocka_unit_test(records_become_pages),
        cmocka_unit_test(broken_records_are_refused),
        cmocka_unit_test(figures_stay_in_their_folder),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
