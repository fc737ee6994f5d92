/* Every row of the tables of settings, in every place that is derived from them: options, help,
 * environment, configuration files, schema, --print-config, config.json, the log, the check when a
 * run is resumed, plans of experiments and labels of reports. */
#include "base/files.h"
#include "base/memory.h"
#include "cli/options/options_config.h"
#include "cli/train_options.h"
#include "config/public_settings.h"
#include "data/data.h"
#include "formats/hf.h"
#include "report/settings.h"
#include "repro/execute.h"
#include "support.h"
#include "train/settings.h"
#include "train/trainer.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define ARRAY_SIZE(array) (sizeof(array) / sizeof *(array))

enum { VOCAB = 2048 };

static kvs_err err;

/* ---- all rows -------------------------------------------------------------------------------- */

typedef struct setting_table {
    const kvsi_settings *table;
    const kvsi_library_config *config; /* the same settings, as the command has them */
    size_t offset;                     /* where kvsi_train_options has the configuration */
    const char *task;                  /* the task of the settings; NULL = every run */
} setting_table;

enum { INDUCTION, NGRAM, HOPK, IGSM }; /* indices of tasks */

#define TASK(table, part) (table), &kvsi_task_configs, offsetof(kvsi_train_options, tasks[part])

static const setting_table tables[] = {
    {&kvsi_model_settings, &kvsi_model_configs, offsetof(kvsi_train_options, model), NULL},
    {&kvsi_train_settings, &kvsi_train_configs, offsetof(kvsi_train_options, train), NULL},
    {TASK(&kvsi_induction_settings, INDUCTION), "induction"},
    {TASK(&kvsi_ngram_settings, NGRAM), "ngram"},
    {TASK(&kvsi_hopk_settings, HOPK), "hopk"},
    {TASK(&kvsi_igsm_settings, IGSM), "igsm"},
};

typedef void check(const setting_table *of, const kvsi_setting *row, const char *value);

static void set_defaults(kvsi_train_options *s)
{
    assert_int_equal(kvsi_train_set_defaults(s, NULL, &err), KVS_OK);
}

static void copy_options(kvsi_train_options *to, const kvsi_train_options *from)
{
    assert_int_equal(kvsi_options_copy(&kvsi_train_command, to, from, sizeof *to, &err), KVS_OK);
}

static void free_options(kvsi_train_options *s)
{
    kvsi_options_free_configs(&kvsi_train_command, s);
}

/* Returns the row with access to the values in a kvsi_train_options. */
static kvsi_setting row_in_options(const setting_table *of, const kvsi_setting *row)
{
    kvsi_setting named = *row;

    named.offset = of->offset;
    named.access = &of->config->access;
    return named;
}

/* A valid text for the row that is not its default in `defaults`. */
static const char *other_value(const kvsi_setting *row, const kvsi_train_options *defaults)
{
    static const char *const numbers[] = {"2", "3", "0.5", "16", "64", "0", "1"};
    kvsi_train_options changed;
    int found;

    if (row->kind == KVSI_SETTING_FLAG)
        return "yes";
    if (strcmp(row->name, "dim") == 0) /* must fit the number of heads */
        return "64";
    for (size_t i = 0;; i++) {
        const char *text = row->names                ? row->names[i].name
                           : i < ARRAY_SIZE(numbers) ? numbers[i]
                                                     : NULL;

        if (!text)
            fail_msg("no other value for '%s'", row->name);
        copy_options(&changed, defaults);
        found = kvsi_setting_store(row, &changed, row->name, text, NULL) == KVS_OK &&
                !kvsi_setting_equal(row, &changed, defaults);
        free_options(&changed);
        if (found)
            return text;
    }
}

/* Calls `each` for all rows. */
static void for_all_rows(check *each)
{
    kvsi_train_options defaults;

    set_defaults(&defaults);
    for (size_t t = 0; t < ARRAY_SIZE(tables); t++)
        for (size_t i = 0; i < tables[t].table->count; i++) {
            const kvsi_setting row = row_in_options(&tables[t], tables[t].table->rows + i);

            each(&tables[t], &row, other_value(&row, &defaults));
        }
    free_options(&defaults);
}

/* ---- options --------------------------------------------------------------------------------- */

/* Parses the words (the list ends with NULL) after the option that names the task.  The caller
 * releases *s, also after a failure. */
static kvs_status parse(kvsi_train_options *s, kvsi_parsed_options *parsed, const char *task,
                        const char *const *words)
{
    static char copies[8][256]; /* the parser reorders its words and does not write to them */
    char *argv[8];
    int argc = 0;

    if (task) {
        snprintf(copies[argc++], sizeof copies[0], "--task");
        snprintf(copies[argc++], sizeof copies[0], "%s", task);
    }
    for (; *words; words++)
        snprintf(copies[argc++], sizeof copies[0], "%s", *words);
    for (int i = 0; i < argc; i++)
        argv[i] = copies[i];
    set_defaults(s);
    TRY(kvsi_options_collect(parsed, &kvsi_train_command, argc, argv, &err));
    return kvsi_train_options_apply(s, parsed, &err);
}

/* Parses the words and compares the row's value with the text, and its source. */
static void expect_setting(const setting_table *of, const kvsi_setting *row, const char *value,
                           const char *const *words, kvsi_option_source source)
{
    kvsi_train_options s, expected;
    kvsi_parsed_options parsed = {0};

    if (parse(&s, &parsed, of->task, words) != KVS_OK)
        fail_msg("'%s' = %s: %s", row->name, value, err.message);
    copy_options(&expected, &s);
    assert_int_equal(kvsi_setting_store(row, &expected, row->name, value, NULL), KVS_OK);
    if (!kvsi_setting_equal(row, &s, &expected))
        fail_msg("'%s' is not %s", row->name, value);
    assert_int_equal(parsed.source[kvsi_command_index(&kvsi_train_command, row->name)], source);
    kvsi_options_release(&parsed);
    free_options(&expected);
    free_options(&s);
}

static void check_option(const setting_table *of, const kvsi_setting *row, const char *value)
{
    char option[64];
    const char *with[] = {option, value, NULL}, *alone[] = {option, NULL};

    snprintf(option, sizeof option, "--%s", row->name);
    expect_setting(of, row, value, row->kind == KVSI_SETTING_FLAG ? alone : with,
                   KVSI_FROM_COMMAND_LINE);
}

static void check_environment(const setting_table *of, const kvsi_setting *row, const char *value)
{
    const char *const nothing[] = {NULL};
    char variable[64];

    kvsi_option_environment(variable, sizeof variable, row);
    setenv(variable, value, 1);
    expect_setting(of, row, value, nothing, KVSI_FROM_ENVIRONMENT);
    unsetenv(variable);
}

/* The value as TOML and JSON write it. */
static void quote(char *out, size_t size, const kvsi_setting *row, const char *value)
{
    snprintf(out, size,
             kvsi_setting_is_list(row)                                            ? "[%s]"
             : row->kind == KVSI_SETTING_ENUM || row->kind == KVSI_SETTING_STRING ? "\"%s\""
             : row->kind == KVSI_SETTING_FLAG                                     ? "true"
                                                                                  : "%s",
             value);
}

static char *write_file(const char *name, const char *text)
{
    char *path = kvsi_path_join(support_dir, name);

    assert_non_null(path);
    assert_int_equal(kvsi_file_write_text(path, text, &err), KVS_OK);
    return path;
}

static void check_file(const setting_table *of, const kvsi_setting *row, const char *value)
{
    char quoted[64], section[64], text[256];

    quote(quoted, sizeof quoted, row, value);
    kvsi_options_section(section, sizeof section, row->group);
    for (int json = 0; json < 2; json++) {
        char *path;

        snprintf(text, sizeof text, json ? "{\"%s\": {\"%s\": %s}}" : "[%s]\n%s = %s\n", section,
                 row->name, quoted);
        path = write_file(json ? "c.json" : "c.toml", text);
        expect_setting(of, row, value, (const char *const[]){"--config", path, NULL},
                       KVSI_FROM_FILE);
        kvsi_free(path);
    }
}

static void every_row_is_an_option(void **state)
{
    (void)state;
    for_all_rows(check_option);
}

static void every_row_is_an_environment_variable(void **state)
{
    (void)state;
    for_all_rows(check_environment);
}

static void every_row_is_a_key_of_configuration_files(void **state)
{
    (void)state;
    for_all_rows(check_file);
}

/* ---- help, schema, --print-config ------------------------------------------------------------ */

static kvsi_text help; /* with single blanks */

static void check_help(const setting_table *of, const kvsi_setting *row, const char *value)
{
    char option[96];

    (void)of;
    (void)value;
    snprintf(option, sizeof option, " --%s %s%s%s", row->name,
             row->placeholder ? row->placeholder : "", row->placeholder ? " " : "", row->help);
    if (!strstr(help.data, option))
        fail_msg("the help lacks '%s'", option);
    for (size_t i = 0; kvsi_setting_choice(row, i); i++)
        assert_non_null(strstr(help.data, kvsi_setting_choice(row, i)));
}

static void every_row_is_in_the_help(void **state)
{
    kvsi_train_options s;
    kvsi_text raw = {0};
    int blank = 0;

    (void)state;
    set_defaults(&s);
    kvsi_options_help(&raw, &kvsi_train_command, &s, KVSI_HELP_ALL, 90);
    for (const char *c = raw.data; *c; c++) {
        const int is_blank = *c == ' ' || *c == '\n';

        if (!is_blank || !blank)
            kvsi_text_add_bytes(&help, is_blank ? " " : c, 1);
        blank = is_blank;
    }
    for_all_rows(check_help);
    free_options(&s);
    kvsi_text_release(&raw);
    kvsi_text_release(&help);
}

static json_t *schema;

static void check_schema(const setting_table *of, const kvsi_setting *row, const char *value)
{
    const json_t *section, *property;
    char name[64];

    (void)of;
    (void)value;
    kvsi_options_section(name, sizeof name, row->group);
    section =
        json_object_get(json_object_get(json_object_get(schema, "properties"), name), "properties");
    if (!section) /* an option has the same name as the section */
        section = json_object_get(
            json_array_get(
                json_object_get(json_object_get(json_object_get(schema, "properties"), name),
                                "anyOf"),
                0),
            "properties");
    property = json_object_get(section, row->name);
    if (!property)
        fail_msg("the schema lacks '%s' in '%s'", row->name, name);
    assert_string_equal(json_string_value(json_object_get(property, "description")), row->help);
    if (row->high > 0 && !kvsi_setting_is_list(row))
        assert_true(json_number_value(json_object_get(
                        property, row->open_high ? "exclusiveMaximum" : "maximum")) == row->high);
    for (size_t i = 0; kvsi_setting_choice(row, i); i++)
        assert_string_equal(json_string_value(json_array_get(json_object_get(property, "enum"), i)),
                            kvsi_setting_choice(row, i));
}

static void every_row_is_in_the_schema(void **state)
{
    kvsi_train_options s;

    (void)state;
    set_defaults(&s);
    schema = kvsi_options_schema(&kvsi_train_command, &s);
    for_all_rows(check_schema);
    free_options(&s);
    json_decref(schema);
}

/* The output of --print-config, read as a file, gives the same value. */
static void check_printed(const setting_table *of, const kvsi_setting *row, const char *value)
{
    kvsi_parsed_options parsed = {0};
    kvsi_train_options s;
    kvsi_text text = {0};
    char *path;

    set_defaults(&s);
    if (of->task)
        s.task = of->task;
    assert_int_equal(kvsi_setting_store(row, &s, row->name, value, NULL), KVS_OK);
    kvsi_options_print_config(&text, &kvsi_train_command, &s, &parsed);
    path = write_file("printed.toml", text.data);
    expect_setting(of, row, value, (const char *const[]){"--config", path, NULL}, KVSI_FROM_FILE);
    free_options(&s);
    kvsi_free(path);
    kvsi_text_release(&text);
}

static void every_row_is_printed(void **state)
{
    (void)state;
    for_all_rows(check_printed);
}

/* ---- configurations with one other value ---- */

/* Some values are only valid together with another one. */
static const struct {
    const char *setting, *needs, *value;
} companions[] = {
    {"slopes", "positions", "alibi"},
    {"sliding-layers", "sliding-window", "8"},
    {"sliding-layers", "layers", "4"},
    {"no-rope-layers", "layers", "4"},
    {"sliding-rope-base", "sliding-window", "8"},
    {"sliding-heads", "sliding-window", "8"},
    {"sliding-kv-heads", "sliding-window", "8"},
    {"sliding-head-size", "sliding-window", "8"},
    {"filter-window", "filters", "branches"},
    {"mlp-factor", "filters", "branches"},
    {"relative-size", "positions", "relative"},
    {"relative-extent", "positions", "relative"},
    {"score-growth-start", "score-growth", "0.5"},
    {"accumulate", "batch", "4"},
    {"alphabet", "pairs", "3"},
    {"string", "hops", "0"},
};

/* Makes the options of a small run of the row's task with that value, and of the same run without
 * it.  The caller releases both. */
static void set_pair(const setting_table *of, const kvsi_setting *row, const char *value,
                     kvsi_train_options *with, kvsi_train_options *without)
{
    set_defaults(without);
    without->model->dim = 32;
    without->model->vocab = VOCAB;
    without->model->context = 1024;
    without->task = of->task ? of->task : "induction";
    without->tasks[IGSM]->settings.igsm.min_op = 1;
    for (size_t i = 0; i < ARRAY_SIZE(companions); i++)
        if (strcmp(companions[i].setting, row->name) == 0)
            for (size_t t = 0; t < ARRAY_SIZE(tables); t++) {
                const kvsi_setting *found =
                    kvsi_settings_find(tables[t].table, companions[i].needs);
                kvsi_setting needed;

                if (!found)
                    continue;
                needed = row_in_options(&tables[t], found);
                assert_int_equal(
                    kvsi_setting_store(&needed, without, "", companions[i].value, NULL), KVS_OK);
            }
    copy_options(with, without);
    assert_int_equal(kvsi_setting_store(row, with, row->name, value, NULL), KVS_OK);
    if (strcmp(row->name, "max-op") == 0)
        with->tasks[IGSM]->settings.igsm.max_op =
            8; /* one of the values that the generator can make */
    if (strcmp(row->name, "problem-length") == 0)
        with->tasks[IGSM]->settings.igsm.max_length =
            2048; /* problems are longer than the smallest value */
    if (strcmp(row->name, "head") == 0)
        with->model->head = KVSI_HEAD_NORMALISED;
}

/* ---- config.json ----------------------------------------------------------------------------- */

static void check_config_json(const setting_table *of, const kvsi_setting *row, const char *value)
{
    kvsi_train_options with, without;
    kvs_model_config again;
    json_t *json;

    if (of->table != &kvsi_model_settings)
        return;
    set_pair(of, row, value, &with, &without);
    if (kvs_model_config_finish(with.model, &err) != KVS_OK)
        fail_msg("%s = %s: %s", row->name, value, err.message);
    json = kvsi_hf_config_to_json(with.model);
    if (kvsi_hf_config_from_json(&again, json, "test", &err) != KVS_OK)
        fail_msg("%s = %s: %s", row->name, value, err.message);
    *without.model = again;
    if (!kvsi_setting_equal(row, &with, &without))
        fail_msg("'%s' is not restored from config.json", row->name);
    free_options(&with);
    free_options(&without);
    json_decref(json);
}

static void every_model_row_is_in_config_json(void **state)
{
    (void)state;
    for_all_rows(check_config_json);
}

/* ---- the Python model ---- */

static char *python; /* python/modeling_kvshift.py */

/* The Python file runs Llama bodies.  It has the keys of our object and the names of values. */
static void check_python(const setting_table *of, const kvsi_setting *row, const char *value)
{
    kvsi_train_options with, without;
    char key[KVSI_SETTING_KEY], quoted[KVSI_SETTING_KEY + 4];
    json_t *json;

    if (of->table != &kvsi_model_settings || strcmp(row->name, "body") == 0)
        return;
    set_pair(of, row, value, &with, &without);
    assert_int_equal(kvs_model_config_finish(with.model, &err), KVS_OK);
    kvsi_setting_file_key(key, row);
    json = kvsi_hf_config_to_json(with.model);
    if (json_object_get(json_object_get(json, "kvshift"), key)) {
        snprintf(quoted, sizeof quoted, "\"%s\":", key);
        if (!strstr(python, quoted))
            fail_msg("modeling_kvshift.py has no key %s", quoted);
        for (size_t i = 0; row->names && strcmp(key, "init") != 0 && row->names[i].name; i++) {
            snprintf(quoted, sizeof quoted, "\"%s\"", row->names[i].name);
            if (!strstr(python, quoted))
                fail_msg("modeling_kvshift.py has no value %s of '%s'", quoted, key);
        }
    }
    free_options(&with);
    free_options(&without);
    json_decref(json);
}

static void every_model_row_is_in_the_python_file(void **state)
{
    size_t size;

    (void)state;
    assert_int_equal(kvsi_file_read(&python, &size, KVSI_TESTS_DIR "/../python/modeling_kvshift.py",
                                    1 << 20, &err),
                     KVS_OK);
    for_all_rows(check_python);
    kvsi_free(python);
}

/* ---- the log, resuming, plans, reports ---- */

static kvs_runtime *rt;

static kvs_data *make_task(const kvsi_train_options *s)
{
    const kvs_task_options options = {.size = sizeof options, .vocab = VOCAB, .seed = 1};
    kvs_data *task = NULL;

    if (kvs_task_create(&task, kvsi_train_task(s), &options, &err) != KVS_OK)
        fail_msg("%s", err.message);
    return task;
}

/* The first line of a run's log, as it is read from the file. */
static json_t *log_of(kvsi_train_options *s)
{
    kvs_data *task = make_task(s);
    kvsi_train_job job = {.data = task, .config = *s->train, .command = "kvshift train"};
    json_t *line, *written;
    char *text;

    if (kvs_model_create(&job.model, rt, s->model, 1, &err) != KVS_OK)
        fail_msg("%s", err.message);
    line = kvsi_run_settings(&job);
    *s->model = *kvs_model_get_config(job.model);
    kvs_model_free(job.model);
    kvs_data_free(task);
    text = json_dumps(line, JSON_REAL_PRECISION(15));
    written = json_loads(text, 0, NULL);
    assert_non_null(written);
    free(text);
    json_decref(line);
    return written;
}

/* Whether a run that is logged as `before` may be resumed as `now`. */
static int may_resume(const json_t *now, const json_t *before)
{
    return kvsi_run_settings_check(now, before, "run", &err) == KVS_OK;
}

static int is_recorded(const setting_table *of, const kvsi_setting *row)
{
    return of->table == &kvsi_model_settings || (row->use & (KVSI_RESULT | KVSI_LOGGED));
}

static int changes_result(const setting_table *of, const kvsi_setting *row)
{
    return of->table == &kvsi_model_settings || (row->use & KVSI_RESULT);
}

static void check_log(const setting_table *of, const kvsi_setting *row, const char *value)
{
    kvsi_train_options with, without;
    json_t *now, *before;

    set_pair(of, row, value, &with, &without);
    now = log_of(&with);
    before = log_of(&without);
    assert_true(may_resume(now, now));
    if (json_equal(now, before) == is_recorded(of, row) && !(row->use & KVSI_MAY_CHANGE))
        fail_msg("'%s' is%s in the log", row->name, is_recorded(of, row) ? " not" : "");
    if (is_recorded(of, row) && json_equal(now, before))
        fail_msg("'%s' is not in the log", row->name);
    if (may_resume(now, before) != (!is_recorded(of, row) || (row->use & KVSI_MAY_CHANGE) != 0))
        fail_msg("resuming with another '%s': %s", row->name, err.message);
    free_options(&with);
    free_options(&without);
    json_decref(now);
    json_decref(before);
}

static void every_row_is_logged_and_checked_when_a_run_is_resumed(void **state)
{
    (void)state;
    for_all_rows(check_log);
}

/* The command compares with the settings in the run's folder. */
static void check_resume(const setting_table *of, const kvsi_setting *row, const char *value)
{
    const int flag = row->kind == KVSI_SETTING_FLAG;
    kvsi_parsed_options parsed = {0};
    kvsi_train_options s;
    kvsi_text text = {0};
    char option[64], *path;
    const char *words[] = {"--resume", "--out", support_dir, option, flag ? NULL : value, NULL};
    kvs_status st;

    set_defaults(&s);
    if (of->task)
        s.task = of->task;
    kvsi_options_print_config(&text, &kvsi_train_command, &s, &parsed);
    free_options(&s);
    path = write_file("config.resolved.toml", text.data);
    snprintf(option, sizeof option, "--%s", row->name);
    st = parse(&s, &parsed, of->task, words);
    if ((st == KVS_OK) != ((row->use & KVSI_MAY_CHANGE) != 0))
        fail_msg("--resume with another '%s' gives status %d", row->name, (int)st);
    if (st != KVS_OK && !strstr(err.message, option))
        fail_msg("'%s' does not name %s", err.message, option);
    free_options(&s);
    kvsi_options_release(&parsed);
    kvsi_text_release(&text);
    kvsi_free(path);
}

static void every_row_is_compared_by_resume(void **state)
{
    (void)state;
    for_all_rows(check_resume);
}

static void check_plan(const setting_table *of, const kvsi_setting *row, const char *value)
{
    kvsi_train_options s[2];
    char *plan[2];

    set_pair(of, row, value, &s[0], &s[1]);
    for (int i = 0; i < 2; i++) {
        const kvsi_planned run = {.train = *s[i].train};
        kvs_data *task = make_task(&s[i]);

        assert_int_equal(kvs_model_config_finish(s[i].model, &err), KVS_OK);
        plan[i] = kvsi_planned_describe(&run, s[i].model, task);
        kvs_data_free(task);
    }
    if (kvsi_planned_same(plan[1], plan[0]) == changes_result(of, row))
        fail_msg("'%s' is%s in plans", row->name, changes_result(of, row) ? " not" : "");
    free_options(&s[0]);
    free_options(&s[1]);
    free(plan[0]);
    free(plan[1]);
}

static void every_row_that_changes_results_is_in_plans(void **state)
{
    (void)state;
    for_all_rows(check_plan);
}

static void check_label(const setting_table *of, const kvsi_setting *row, const char *value)
{
    kvsi_train_options s[2];
    json_t *lists[2];
    kvsi_text label = {0};
    char name[64];

    if (!changes_result(of, row) || strcmp(row->name, "seed") == 0)
        return; /* repetitions differ in the seed */
    set_pair(of, row, value, &s[0], &s[1]);
    for (int i = 0; i < 2; i++) {
        json_t *line = log_of(&s[i]);

        lists[i] = kvsi_settings_list(line, s[i].model, s[i].train->steps);
        json_decref(line);
    }
    kvsi_settings_label(&label, (const json_t *const *)lists, 2, 0);
    snprintf(name, sizeof name, "%s",
             row->negated || of->task ? (row->key ? row->key : row->name) : row->name);
    for (char *c = name; *c; c++)
        *c = *c == '_' || *c == '-' ? ' ' : *c;
    /* The shift's settings are one entry; the head counts of sliding layers come together. */
    if (json_equal(lists[0], lists[1]) ||
        (!strstr(label.data, name) && strncmp(row->name, "shift", 5) != 0 &&
         strcmp(row->name, "sliding-kv-heads") != 0))
        fail_msg("the label '%s' does not name '%s'", label.data, row->name);
    kvsi_text_release(&label);
    free_options(&s[0]);
    free_options(&s[1]);
    json_decref(lists[0]);
    json_decref(lists[1]);
}

static void every_row_that_changes_results_labels_reports(void **state)
{
    (void)state;
    for_all_rows(check_label);
}

/* ---- the rows themselves --------------------------------------------------------------------- */

/* Checks that the row of the command has everything that the row of the library has. */
static void check_public_row(const kvsi_setting *row)
{
    const size_t index = kvsi_command_index(&kvsi_train_command, row->name);
    const kvsi_setting seen = kvsi_command_row(&kvsi_train_command, index);

    assert_string_equal(seen.name, row->name);
    assert_string_equal(seen.group, row->group);
    assert_string_equal(seen.help, row->help);
    assert_string_equal(seen.placeholder ? seen.placeholder : "",
                        row->placeholder ? row->placeholder : "");
    assert_string_equal(seen.automatic ? seen.automatic : "", row->automatic ? row->automatic : "");
    assert_true(seen.low == row->low && seen.high == row->high);
    assert_true(seen.open_low == row->open_low && seen.open_high == row->open_high);
    assert_int_equal(kvsi_setting_is_list(&seen), kvsi_setting_is_list(row));
    assert_int_equal(seen.use, row->use & (KVSI_RESULT | KVSI_MAY_CHANGE));
    for (size_t i = 0; kvsi_setting_choice(row, i) || kvsi_setting_choice(&seen, i); i++)
        assert_string_equal(kvsi_setting_choice(&seen, i), kvsi_setting_choice(row, i));
}

static void check_row(const setting_table *of, const kvsi_setting *row, const char *value)
{
    (void)value;
    assert_true(row->help && *row->help && row->group);
    if (row->value && kvsi_setting_check_text(row, row->name, row->value, &err) != KVS_OK)
        fail_msg("the default of '%s': %s", row->name, err.message);
    if (of->table != &kvsi_model_settings)
        assert_true(row->use != 0);
    for (size_t t = 0; t < ARRAY_SIZE(tables); t++) /* names are unique */
        if (tables[t].table != of->table)
            assert_null(kvsi_settings_find(tables[t].table, row->name));
    check_public_row(row);
}

static void rows_are_complete(void **state)
{
    size_t tasks = 0;

    (void)state;
    for_all_rows(check_row);
    while (kvs_task_name(tasks)) { /* every task has a table and fits into the options */
        assert_string_equal(kvs_task_name(tasks), tables[ARRAY_SIZE(tables) - 4 + tasks].task);
        tasks++;
    }
    assert_int_equal(tasks, 4);
    assert_true(tasks <= KVSI_TASKS_MAX);
}

static int setup(void **state)
{
    assert_int_equal(
        kvs_runtime_create(
            &rt, &(kvs_runtime_options){.size = sizeof(kvs_runtime_options), .threads = 1}, &err),
        KVS_OK);
    return support_dir_setup(state);
}

static int teardown(void **state)
{
    kvs_runtime_free(rt);
    return support_dir_teardown(state);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(rows_are_complete),
        cmocka_unit_test(every_row_is_an_option),
        cmocka_unit_test(every_row_is_an_environment_variable),
        cmocka_unit_test(every_row_is_a_key_of_configuration_files),
        cmocka_unit_test(every_row_is_in_the_help),
        cmocka_unit_test(every_row_is_in_the_schema),
        cmocka_unit_test(every_row_is_printed),
        cmocka_unit_test(every_model_row_is_in_config_json),
        cmocka_unit_test(every_model_row_is_in_the_python_file),
        cmocka_unit_test(every_row_is_logged_and_checked_when_a_run_is_resumed),
        cmocka_unit_test(every_row_is_compared_by_resume),
        cmocka_unit_test(every_row_that_changes_results_is_in_plans),
        cmocka_unit_test(every_row_that_changes_results_labels_reports),
    };

    return cmocka_run_group_tests(tests, setup, teardown);
}
