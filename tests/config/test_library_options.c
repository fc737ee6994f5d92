/* Options of a command whose values are kept in a configuration of the library.  The command sets
 * and reads them by name. */
#include "base/memory.h"
#include "cli/options/options_config.h"
#include "support.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- a library with two kinds of configurations, which are set and read by name -------------- */

enum { SETTINGS = 7, VALUE_SIZE = 64 };

static const char *const forms[] = {"free", "gate", NULL};

static const kvs_setting settings_of_part[2][SETTINGS + 1] = {
    {
        {.name = "form",
         .type = "choice",
         .group = "Model",
         .help = "form",
         .value = "free",
         .choices = forms,
         .changes_result = 1},
        {.name = "width",
         .type = "count",
         .group = "Model",
         .help = "width",
         .value = "16",
         .low = 1,
         .high = 64},
        {.name = "heads",
         .type = "count",
         .group = "Model",
         .help = "heads",
         .value = "0",
         .automatic = "as many as fit"},
        {.name = "rate",
         .type = "number",
         .group = "Work",
         .help = "rate",
         .value = "0.5",
         .high = 1,
         .open_high = 1,
         .may_change = 1},
        {.name = "slopes",
         .type = "numbers",
         .group = "Model",
         .help = "slopes",
         .value = "",
         .automatic = "none"},
        {.name = "bare", .type = "flag", .group = "Model", .help = "bare", .value = "no"},
    },
    {
        {.name = "only",
         .type = "optional",
         .group = "Task",
         .help = "only",
         .value = "",
         .automatic = "all"},
        {.name = "layers",
         .type = "counts",
         .group = "Task",
         .help = "layers",
         .value = "1,2",
         .high = 9},
    },
};

typedef struct named {
    size_t part;
    char values[SETTINGS][VALUE_SIZE];
} named;

static size_t live; /* number of configurations that were created and not freed */

static const kvs_setting *setting_at(size_t part, size_t index)
{
    return part < 2 && settings_of_part[part][index].name ? &settings_of_part[part][index] : NULL;
}

static size_t find(size_t part, const char *name)
{
    size_t i = 0;

    while (setting_at(part, i) && strcmp(setting_at(part, i)->name, name) != 0)
        i++;
    assert_non_null(setting_at(part, i));
    return i;
}

static kvs_status create(void **out, size_t part, kvs_err *err)
{
    named *config = NULL;

    if (part < 2) {
        config = kvsi_alloc(1, sizeof *config);
        if (!config)
            return kvsi_fail(err, KVS_E_NOMEM, "out of memory");
        config->part = part;
        for (size_t i = 0; setting_at(part, i); i++)
            snprintf(config->values[i], VALUE_SIZE, "%s", setting_at(part, i)->value);
        live++;
    }
    *out = config;
    return KVS_OK;
}

static kvs_status copy(void **out, const void *config, kvs_err *err)
{
    TRY(create(out, ((const named *)config)->part, err));
    memcpy(*out, config, sizeof(named));
    return KVS_OK;
}

static void release(void *config)
{
    live -= config != NULL;
    kvsi_free(config);
}

static kvs_status set(void *config, const char *name, const char *value, kvs_err *err)
{
    named *n = config;

    if (strcmp(value, "13") == 0)
        return kvsi_fail(err, KVS_E_INVALID, "the library refuses 13");
    snprintf(n->values[find(n->part, name)], VALUE_SIZE, "%s", value);
    return KVS_OK;
}

static kvs_status get(char *out, size_t size, const void *config, const char *name, kvs_err *err)
{
    const named *n = config;

    (void)err;
    snprintf(out, size, "%s", n->values[find(n->part, name)]);
    return KVS_OK;
}

static const kvsi_library_config library = {
    .at = setting_at,
    .create = create,
    .copy = copy,
    .free = release,
    .access = {.set = set, .get = get},
};

/* ---- a command with these configurations ----------------------------------------------------- */

typedef struct try_settings {
    const char *out;
    named *model, *tasks[2]; /* the library has one task, so that the second is NULL */
} try_settings;

static const kvsi_setting rows[] = {
    {.name = "out",
     .kind = KVSI_SETTING_TEXT,
     .offset = offsetof(try_settings, out),
     .group = "Run",
     .placeholder = "DIR",
     .help = "folder"},
};

static const kvsi_command_options command = {
    .command = "kvshift try",
    .purpose = "Tries things.",
    .tables =
        (const kvsi_option_table[]){
            KVSI_OPTION_ROWS(rows),
            {.config = &library, .part = 0, .offset = offsetof(try_settings, model)},
            {.config = &library,
             .part = 1,
             .offset = offsetof(try_settings, tasks[0]),
             .group = "Other task"},
            {.config = &library, .part = 2, .offset = offsetof(try_settings, tasks[1])},
            {0},
        },
    .groups = (const char *const[]){"Work", "Run", NULL},
    .takes_config = 1,
};

static try_settings values;
static kvsi_parsed_options parsed;
static kvs_err err;

static void forget(void)
{
    kvsi_options_release(&parsed);
    parsed = (kvsi_parsed_options){0};
    kvsi_options_free_configs(&command, &values);
}

/* Parses words into new settings; the list of words ends with NULL. */
static kvs_status parse(const char *first, ...)
{
    static char *words[16];
    int count = 0;
    va_list rest;

    forget();
    va_start(rest, first);
    for (const char *word = first; word; word = va_arg(rest, const char *))
        words[count++] = (char *)word;
    va_end(rest);
    TRY(kvsi_options_set_defaults(&command, &values, sizeof values, &err));
    return kvsi_options_parse(&parsed, &command, &values, count, words, &err);
}

static kvsi_setting row_of(const char *name)
{
    return kvsi_command_row(&command, kvsi_command_index(&command, name));
}

static void expect_text(const char *name, const char *value)
{
    const kvsi_setting row = row_of(name);
    kvsi_text text = {0};

    kvsi_setting_print(&text, &row, &values);
    assert_string_equal(text.data, value);
    kvsi_text_release(&text);
}

/* ---- tests ----------------------------------------------------------------------------------- */

static void options_set_the_configuration(void **state)
{
    (void)state;
    assert_int_equal(kvsi_command_count(&command), 9);
    assert_int_equal(parse("--form", "gate", "--width=8", "--rate", "0.25", "--slopes", "1,0.5",
                           "--bare", "--layers", "3", NULL),
                     KVS_OK);
    expect_text("form", "gate");
    expect_text("width", "8");
    expect_text("heads", "0");
    expect_text("rate", "0.25");
    expect_text("slopes", "1,0.5");
    expect_text("layers", "3");
    assert_string_equal(values.model->values[find(0, "bare")], "1"); /* what set() received */
    assert_null(values.tasks[1]);
    assert_int_equal(live, 2);
    forget();
    assert_int_equal(live, 0);
}

static void rows_are_those_of_the_library(void **state)
{
    const kvsi_setting rate = row_of("rate"), layers = row_of("layers"), form = row_of("form");

    (void)state;
    assert_int_equal(rate.kind, KVSI_SETTING_REAL);
    assert_int_equal(rate.use, KVSI_MAY_CHANGE);
    assert_true(rate.high == 1 && rate.open_high);
    assert_string_equal(rate.placeholder, "X");
    assert_string_equal(rate.group, "Work");
    assert_int_equal(layers.kind, KVSI_SETTING_SIZES);
    assert_string_equal(layers.group, "Other task"); /* the table of options replaces it */
    assert_int_equal(form.use, KVSI_RESULT);
    assert_null(kvsi_library_row(&library, 0, SETTINGS, 0).name);
    assert_null(kvsi_library_row(&library, 2, 0, 0).name);
}

static void misuse_names_the_option(void **state)
{
    static const struct {
        const char *option, *value, *message;
    } cases[] = {
        {"--width", "65", "option '--width': expected a whole number from 1 to 64, found '65'"},
        {"--rate", "1", "option '--rate': expected a number from 0 to below 1, found '1'"},
        {"--form", "x", "option '--form': expected free or gate, found 'x'"},
        {"--layers", "1,10", "option '--layers': expected a whole number from 0 to 9, found '10'"},
        {"--width", "13", "the library refuses 13"},
    };

    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        assert_int_equal(parse(cases[i].option, cases[i].value, NULL), KVS_E_INVALID);
        assert_string_equal(err.message, cases[i].message);
    }
}

/* A value that another one replaces is checked but does not reach the configuration, where it
 * could change more than one setting. */
static void replaced_values_are_only_checked(void **state)
{
    (void)state;
    assert_int_equal(parse("--width", "13", "--width", "14", NULL), KVS_OK);
    expect_text("width", "14");
    assert_int_equal(parse("--width", "x", "--width", "14", NULL), KVS_E_INVALID);
    setenv("KVSHIFT_WIDTH", "13", 1);
    assert_int_equal(parse("--width", "14", NULL), KVS_OK);
    assert_int_equal(parse(NULL), KVS_E_INVALID);
    unsetenv("KVSHIFT_WIDTH");
}

static void values_are_compared_and_copied(void **state)
{
    const kvsi_setting width = row_of("width"), heads = row_of("heads"), slopes = row_of("slopes");
    try_settings other;

    (void)state;
    assert_int_equal(parse("--out", "x", "--width", "8", NULL), KVS_OK);
    assert_int_equal(kvsi_options_copy(&command, &other, &values, sizeof other, &err), KVS_OK);
    assert_ptr_not_equal(other.model, values.model);
    assert_string_equal(other.out, "x");
    assert_true(kvsi_setting_equal(&width, &other, &values));
    assert_int_equal(kvsi_setting_store(&width, &other, "here", "9", &err), KVS_OK);
    assert_false(kvsi_setting_equal(&width, &other, &values));
    kvsi_options_mark_changes(&parsed, &command, &other, &values, KVSI_FROM_OTHERS);
    assert_int_equal(parsed.source[kvsi_command_index(&command, "width")], KVSI_FROM_COMMAND_LINE);
    kvsi_setting_copy(&width, &other, &values);
    expect_text("width", "8");
    assert_true(kvsi_setting_equal(&width, &other, &values));
    assert_true(kvsi_setting_is_automatic(&heads, &values));
    assert_true(kvsi_setting_is_automatic(&slopes, &values));
    assert_false(kvsi_setting_is_automatic(&width, &values));
    assert_int_equal(kvsi_setting_store(&slopes, &other, "here", "1", &err), KVS_OK);
    assert_false(kvsi_setting_is_automatic(&slopes, &other));
    kvsi_setting_clear(&slopes, &other);
    assert_true(kvsi_setting_is_automatic(&slopes, &other));
    kvsi_options_free_configs(&command, &other);
}

static void defaults_are_recognised(void **state)
{
    static const char *const names[] = {"out",    "form", "width", "heads", "rate",
                                        "slopes", "bare", "only",  "layers"};
    static const char *const others[] = {"x", "gate", "17", "1", "0.25", "1", "yes", "0", "1"};

    (void)state;
    assert_int_equal(parse(NULL), KVS_OK);
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        const kvsi_setting row = row_of(names[i]);

        assert_true(kvsi_setting_is_default(&row, &values));
        assert_int_equal(kvsi_setting_store(&row, &values, "here", others[i], &err), KVS_OK);
        assert_false(kvsi_setting_is_default(&row, &values));
        if (row.automatic)
            assert_false(kvsi_setting_is_automatic(&row, &values));
    }
}

static void values_are_written_as_json(void **state)
{
    static const struct {
        const char *name, *json;
    } cases[] = {{"form", "\"gate\""}, {"width", "16"},   {"rate", "0.5"}, {"slopes", "[]"},
                 {"layers", "[1,2]"},  {"bare", "false"}, {"only", "null"}};

    (void)state;
    assert_int_equal(parse("--form", "gate", NULL), KVS_OK);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const kvsi_setting row = row_of(cases[i].name);
        json_t *value = kvsi_setting_to_json(&row, &values);
        char *text = json_dumps(value, JSON_ENCODE_ANY | JSON_COMPACT);

        assert_string_equal(text, cases[i].json);
        free(text);
        json_decref(value);
    }
}

static void help_lists_the_options(void **state)
{
    static const char *const order[] = {
        "\nModel:\n  --form NAME             form: free or gate (default: free)\n",
        "\n  --slopes X,...          slopes (default: none)\n",
        "\nOther task:\n  --only N                only (default: all)\n",
        "\n  --layers N,...          layers, 0 to 9 (default: 1,2)\n",
        "\nWork:\n  --rate X                rate, 0 to below 1 (default: 0.5)\n",
        "\nRun:\n  --out DIR               folder\n",
    };
    kvsi_text text = {0};
    const char *at;

    (void)state;
    assert_int_equal(parse(NULL), KVS_OK);
    kvsi_options_help(&text, &command, &values, KVSI_HELP_ALL, 90);
    at = text.data;
    for (size_t i = 0; i < sizeof order / sizeof *order; i++) {
        at = strstr(at, order[i]);
        if (!at)
            fail_msg("'%s' is not where it should be in\n%s", order[i], text.data);
    }
    kvsi_text_release(&text);
}

static int end(void **state)
{
    (void)state;
    forget();
    return live != 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(options_set_the_configuration),
        cmocka_unit_test(rows_are_those_of_the_library),
        cmocka_unit_test(misuse_names_the_option),
        cmocka_unit_test(replaced_values_are_only_checked),
        cmocka_unit_test(values_are_compared_and_copied),
        cmocka_unit_test(defaults_are_recognised),
        cmocka_unit_test(values_are_written_as_json),
        cmocka_unit_test(help_lists_the_options),
    };

    return cmocka_run_group_tests(tests, NULL, end);
}
