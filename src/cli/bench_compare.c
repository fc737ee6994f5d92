/* kvshift bench compare: the values that two results have in common, and their ratios. */
#include "cli/bench.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

static const kvsi_command_options options = {
    .command = "kvshift bench compare",
    .purpose = "Prints every value that two results of 'kvshift bench ... --json' have in common, "
               "and the second divided by the first.  Settings that differ are listed first.",
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

/* Prints the settings that differ, or the ratios; returns the number of shared values. */
static size_t walk(const char *prefix, json_t *a, const json_t *b, int settings)
{
    const char *key;
    json_t *value;
    size_t shared = 0;

    json_object_foreach(a, key, value) {
        const json_t *other = json_object_get(b, key);
        char name[NAME_SIZE];

        join_name(name, prefix, key);
        if (json_is_object(value) && json_is_object(other))
            shared += walk(name, value, other, settings);
        else if (other && is_setting(key, value)) {
            if (settings)
                print_difference(name, value, other);
        } else if (json_is_number(value) && json_is_number(other)) {
            shared++;
            if (!settings)
                print_ratio(name, json_number_value(value), json_number_value(other));
        }
    }
    return shared;
}

static kvs_status run(void *settings, const kvsi_call *call, kvs_err *err)
{
    char *const *files = call->parsed->arguments;
    const size_t limit = (size_t)16 << 20;
    json_t *a = NULL, *b = NULL;
    kvs_status st;

    (void)settings;
    TRY_OUT(kvsi_json_read(&a, files[0], limit, err));
    TRY_OUT(kvsi_json_read(&b, files[1], limit, err));
    if (walk("", a, b, 1) == 0) {
        st = kvsi_fail(err, KVS_E_FORMAT, "'%s' and '%s' have no value in common", files[0],
                       files[1]);
        goto out;
    }
    printf("%-52s%12s%12s%9s\n", "", "first", "second", "ratio");
    walk("", a, b, 0);
out:
    json_decref(a);
    json_decref(b);
    return st;
}

const kvsi_command kvsi_bench_compare = {
    .name = "compare",
    .summary = "two results side by side",
    .options = &options,
    .run = run,
};
