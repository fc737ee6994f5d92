/* kvshift bench compare: the values that two results have in common, and their ratios. */
#include "cli/bench.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

typedef struct compare_settings {
    int json;
} compare_settings;

static const kvsi_setting rows[] = {
    {.name = "json",
     .kind = KVSI_SETTING_FLAG,
     .offset = offsetof(compare_settings, json),
     .group = "Options",
     .help = "print one JSON object"},
};

static const kvsi_command_options options = {
    .command = "kvshift bench compare",
    .purpose = "Prints every value that two results of 'kvshift bench ... --json' have in common, "
               "and the second divided by the first.  Settings that differ are listed first.",
    .tables = KVSI_OPTIONS(rows),
    .notes = "A ratio above 1 is better for rates, worse for times and memory.",
    .argument = "FILE",
    .min_arguments = 2,
    .max_arguments = 2,
};

enum { NAME_SIZE = 128 };

/* Settings are listed if they differ; ratios make no sense for them. */
static int is_setting(const char *key, const json_t *value)
{
    static const char *const settings[] = {"threads",  "rounds",    "steps", "batch",
                                           "length",   "head_size", "heads", "kv_heads",
                                           "profiled", "tokens",    "rows",  "cols"};

    for (size_t i = 0; i < sizeof settings / sizeof *settings; i++)
        if (strcmp(key, settings[i]) == 0)
            return 1;
    return json_is_string(value);
}

static void join_name(char out[NAME_SIZE], const char *prefix, const char *key)
{
    snprintf(out, NAME_SIZE, "%s%s%s", prefix, prefix[0] ? "." : "", key);
}

static void print_difference(const char *name, const json_t *a, const json_t *b)
{
    if (json_equal(a, b))
        return;
    if (json_is_string(a) && json_is_string(b))
        printf("%s differs: '%s' and '%s'\n", name, json_string_value(a), json_string_value(b));
    else
        printf("%s differs: %.15g and %.15g\n", name, json_number_value(a), json_number_value(b));
}

static void print_ratio(const char *name, double a, double b)
{
    printf("%-52s%12.5g%12.5g", name, a, b);
    if (a != 0 && isfinite(b / a))
        printf("%9.3f", b / a);
    printf("\n");
}

static void add_ratio(json_t *out, const char *name, double a, double b)
{
    json_object_set_new(out, name,
                        json_pack("{s:o, s:o, s:o}", "first", kvsi_json_number(a), "second",
                                  kvsi_json_number(b), "ratio",
                                  kvsi_json_number(a != 0 ? b / a : NAN)));
}

/* Prints the settings that differ, or the ratios; with `out` adds them to that object instead.
 * Returns the number of shared values. */
static size_t walk(const char *prefix, json_t *a, const json_t *b, int settings, json_t *out)
{
    const char *key;
    json_t *value;
    size_t shared = 0;

    json_object_foreach(a, key, value) {
        const json_t *other = json_object_get(b, key);
        char name[NAME_SIZE];

        join_name(name, prefix, key);
        if (json_is_object(value) && json_is_object(other))
            shared += walk(name, value, other, settings, out);
        else if (other && is_setting(key, value)) {
            if (settings && !out)
                print_difference(name, value, other);
            else if (settings && !json_equal(value, other))
                json_object_set_new(out, name,
                                    json_pack("{s:O, s:O}", "first", value, "second", other));
        } else if (json_is_number(value) && json_is_number(other)) {
            shared++;
            if (!settings && !out)
                print_ratio(name, json_number_value(value), json_number_value(other));
            else if (!settings)
                add_ratio(out, name, json_number_value(value), json_number_value(other));
        }
    }
    return shared;
}

static kvs_status run(void *data, const kvsi_call *call, kvs_err *err)
{
    char *const *files = call->parsed->arguments;
    const size_t limit = (size_t)16 << 20;
    const compare_settings *s = data;
    json_t *a = NULL, *b = NULL, *differences = NULL, *ratios = NULL;
    kvs_status st;

    if (s->json) {
        differences = json_object();
        ratios = json_object();
    }
    TRY_OUT(kvsi_json_read(&a, files[0], limit, err));
    TRY_OUT(kvsi_json_read(&b, files[1], limit, err));
    if (walk("", a, b, 1, differences) == 0) {
        st = kvsi_fail(err, KVS_E_FORMAT, "'%s' and '%s' have no value in common", files[0],
                       files[1]);
        goto out;
    }
    if (!s->json)
        printf("%-52s%12s%12s%9s\n", "", "first", "second", "ratio");
    walk("", a, b, 0, ratios);
    if (s->json)
        st = kvsi_cli_print_json(json_pack("{s:O, s:O}", "settings", differences, "values", ratios),
                                 err);
out:
    json_decref(differences);
    json_decref(ratios);
    json_decref(a);
    json_decref(b);
    return st;
}

const kvsi_command kvsi_bench_compare = {
    .name = "compare",
    .summary = "two results side by side",
    .options = &options,
    .settings_size = sizeof(compare_settings),
    .run = run,
};
