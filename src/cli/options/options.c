#include "cli/options/options.h"

#include "base/memory.h"
#include "cli/options/options_config.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- the rows of a command ------------------------------------------------------------------- */

static const char *const printed_names[] = {"values", "explained", "schema", NULL};

/* Further options of commands that take a configuration file.  Their values are in
 * kvsi_parsed_options. */
static const kvsi_setting config_rows[] = {
    {.name = "config",
     .kind = KVSI_SETTING_TEXT,
     .offset = offsetof(kvsi_parsed_options, config),
     .placeholder = "FILE",
     .help = "read options from this file, TOML or JSON"},
    {.name = "print-config",
     .kind = KVSI_SETTING_CHOICE,
     .offset = offsetof(kvsi_parsed_options, print_config),
     .placeholder = "WHAT",
     .choices = printed_names,
     .implied = "values",
     .help = "print a file for --config with the value and source of every option, or with their "
             "meanings, or the JSON schema of such files, and exit",
     .automatic = "print nothing"},
};

enum { CONFIG_ROWS = sizeof config_rows / sizeof *config_rows };

static int is_table(const kvsi_option_table *t)
{
    return t && (t->table || t->config);
}

static size_t count_rows(const kvsi_option_table *t)
{
    size_t count = 0;

    if (t->table)
        return t->table->count;
    while (t->config->at(t->part, count))
        count++;
    return count;
}

size_t kvsi_command_count(const kvsi_command_options *command)
{
    size_t count = 0;

    for (const kvsi_option_table *t = command->tables; is_table(t); t++)
        count += count_rows(t);
    return count;
}

size_t kvsi_command_count_all(const kvsi_command_options *command)
{
    return kvsi_command_count(command) + (command->takes_config ? CONFIG_ROWS : 0);
}

/* The type names of the library's settings, and the placeholders of their values in the help. */
static const struct {
    const char *name;
    kvsi_setting_kind kind;
    const char *placeholder;
} types[] = {
    {"flag", KVSI_SETTING_FLAG, NULL},        {"count", KVSI_SETTING_UINT64, "N"},
    {"optional", KVSI_SETTING_OPTIONAL, "N"}, {"number", KVSI_SETTING_REAL, "X"},
    {"choice", KVSI_SETTING_CHOICE, "NAME"},  {"counts", KVSI_SETTING_SIZES, "N,..."},
    {"numbers", KVSI_SETTING_REALS, "X,..."}, {"text", KVSI_SETTING_STRING, "TEXT"},
};

kvsi_setting kvsi_library_row(const kvsi_library_config *config, size_t part, size_t index,
                              size_t offset)
{
    const kvs_setting *s = config->at(part, index);
    kvsi_setting row = {.group = "", .offset = offset, .access = &config->access};

    if (!s)
        return row;
    row.name = s->name;
    row.group = s->group;
    row.help = s->help;
    row.value = s->value;
    row.automatic = s->automatic;
    row.choices = s->choices;
    row.low = s->low;
    row.high = s->high;
    row.open_low = s->open_low;
    row.open_high = s->open_high;
    row.use = (s->changes_result ? KVSI_RESULT : 0U) | (s->may_change ? KVSI_MAY_CHANGE : 0U);
    for (size_t i = 0; i < sizeof types / sizeof *types; i++)
        if (strcmp(types[i].name, s->type) == 0) {
            row.kind = types[i].kind;
            row.placeholder = types[i].placeholder;
        }
    return row;
}

kvsi_setting kvsi_command_row(const kvsi_command_options *command, size_t index)
{
    for (const kvsi_option_table *t = command->tables; is_table(t); t++) {
        const size_t count = count_rows(t);
        kvsi_setting row;

        if (index >= count) {
            index -= count;
            continue;
        }
        if (t->table) {
            row = t->table->rows[index];
            row.offset += t->offset;
        } else {
            row = kvsi_library_row(t->config, t->part, index, t->offset);
        }
        row.group = t->group ? t->group : row.group;
        return row;
    }
    return config_rows[index];
}

size_t kvsi_command_index(const kvsi_command_options *command, const char *name)
{
    const size_t count = kvsi_command_count(command);
    size_t i = 0;

    while (i + 1 < count && strcmp(kvsi_command_row(command, i).name, name) != 0)
        i++;
    return i;
}

/* ---- settings -------------------------------------------------------------------------------- */

static void *get_handle(const kvsi_option_table *t, const void *settings)
{
    void *handle;

    memcpy(&handle, (const char *)settings + t->offset, sizeof handle);
    return handle;
}

static void set_handle(const kvsi_option_table *t, void *settings, void *handle)
{
    memcpy((char *)settings + t->offset, &handle, sizeof handle);
}

void kvsi_options_free_configs(const kvsi_command_options *command, void *settings)
{
    for (const kvsi_option_table *t = command->tables; is_table(t); t++)
        if (t->config) {
            t->config->free(get_handle(t, settings));
            set_handle(t, settings, NULL);
        }
}

/* Creates the configurations of the library in `settings`, or copies them from `from` unless that
 * is NULL.  If that fails, all handles are NULL. */
static kvs_status make_handles(const kvsi_command_options *command, void *settings,
                               const void *from, kvs_err *err)
{
    kvs_status st = KVS_OK;

    for (const kvsi_option_table *t = command->tables; is_table(t); t++)
        if (t->config)
            set_handle(t, settings, NULL);
    for (const kvsi_option_table *t = command->tables; is_table(t); t++) {
        const void *source = t->config && from ? get_handle(t, from) : NULL;
        void *handle = NULL;

        if (!t->config || (from && !source))
            continue;
        TRY_OUT(source ? t->config->copy(&handle, source, err)
                       : t->config->create(&handle, t->part, err));
        set_handle(t, settings, handle);
    }
out:
    if (st != KVS_OK)
        kvsi_options_free_configs(command, settings);
    return st;
}

kvs_status kvsi_options_set_defaults(const kvsi_command_options *command, void *settings,
                                     size_t size, kvs_err *err)
{
    if (kvsi_command_count_all(command) > KVSI_OPTIONS_MAX)
        return kvsi_fail(err, KVS_E_LIMIT, "'%s' has %zu options, at most %d are allowed",
                         command->command, kvsi_command_count_all(command), (int)KVSI_OPTIONS_MAX);
    memset(settings, 0, size);
    for (const kvsi_option_table *t = command->tables; is_table(t); t++)
        if (t->table)
            kvsi_settings_set(t->table, (char *)settings + t->offset);
    return make_handles(command, settings, NULL, err);
}

kvs_status kvsi_options_copy(const kvsi_command_options *command, void *to, const void *from,
                             size_t size, kvs_err *err)
{
    memcpy(to, from, size);
    return make_handles(command, to, from, err);
}

/* ---- the order of the help ------------------------------------------------------------------- */

/* Returns the position of a group in the help: 1, 2, ... for command->groups, and 0 for all other
 * groups, which come first, in the order of their rows. */
static size_t group_rank(const kvsi_command_options *command, const char *group)
{
    for (size_t i = 0; command->groups && command->groups[i]; i++)
        if (strcmp(command->groups[i], group) == 0)
            return i + 1;
    return 0;
}

size_t kvsi_command_order(size_t order[KVSI_OPTIONS_MAX], const kvsi_command_options *command)
{
    const size_t count = kvsi_command_count(command);
    size_t rank[KVSI_OPTIONS_MAX];

    for (size_t i = 0; i < count; i++) { /* insertion sort: rows of a group keep their order */
        const size_t now = group_rank(command, kvsi_command_row(command, i).group);
        size_t at = i;

        for (; at > 0 && rank[at - 1] > now; at--) {
            rank[at] = rank[at - 1];
            order[at] = order[at - 1];
        }
        rank[at] = now;
        order[at] = i;
    }
    return count;
}

/* ---- assignments ----------------------------------------------------------------------------- */

kvs_status kvsi_options_assign(kvsi_parsed_options *parsed, const kvsi_assignment *assignment,
                               kvs_err *err)
{
    const size_t count = parsed->assignment_count;

    if ((count & (count - 1)) == 0) { /* 0, 1, 2, 4, ...: full */
        kvsi_assignment *grown = kvsi_alloc(count ? 2 * count : 1, sizeof *grown);

        if (!grown)
            return kvsi_fail(err, KVS_E_NOMEM, "out of memory for the options");
        for (size_t i = 0; i < count; i++)
            grown[i] = parsed->assignments[i];
        kvsi_free(parsed->assignments);
        parsed->assignments = grown;
    }
    parsed->assignments[parsed->assignment_count++] = *assignment;
    if (assignment->source > parsed->source[assignment->index])
        parsed->source[assignment->index] = assignment->source;
    return KVS_OK;
}

/* Returns the value that has precedence: the last one from the option's source.  NULL = none was
 * given. */
static const kvsi_assignment *final_assignment(const kvsi_parsed_options *parsed, size_t index)
{
    const kvsi_assignment *last = NULL;

    for (size_t i = 0; i < parsed->assignment_count; i++)
        if (parsed->assignments[i].index == index &&
            parsed->assignments[i].source == parsed->source[index])
            last = parsed->assignments + i;
    return last;
}

const char *kvsi_option_text(const kvsi_parsed_options *parsed, size_t index)
{
    const kvsi_assignment *last = final_assignment(parsed, index);

    return last ? last->text : NULL;
}

static kvs_status apply_one(const kvsi_parsed_options *parsed, const kvsi_command_options *command,
                            const kvsi_assignment *a, void *settings, kvs_err *err)
{
    const kvsi_setting row = kvsi_command_row(command, a->index);
    const int is_replaced = !row.repeats && a != final_assignment(parsed, a->index);
    char origin[384], variable[64];

    if (row.repeats && a->source != parsed->source[a->index])
        return KVS_OK; /* the list from a later source replaces it */
    if (a->source == KVSI_FROM_FILE) {
        snprintf(origin, sizeof origin, "%s:%zu: key '%s'", parsed->config, a->line, a->key);
    } else if (a->source == KVSI_FROM_ENVIRONMENT) {
        kvsi_option_environment(variable, sizeof variable, &row);
        snprintf(origin, sizeof origin, "environment variable '%s'", variable);
    } else {
        snprintf(origin, sizeof origin, "option '--%s'", row.name);
    }
    if (a->source == KVSI_FROM_FILE && !*a->text && row.automatic && kvsi_setting_is_list(&row)) {
        if (!is_replaced)
            kvsi_setting_clear(&row, settings);
        return KVS_OK;
    }
    return is_replaced ? kvsi_setting_check_text(&row, origin, a->text, err)
                       : kvsi_setting_store(&row, settings, origin, a->text, err);
}

/* Stores values in the order of their sources.  A value that a later one replaces is only checked:
 * storing it could change other settings. */
kvs_status kvsi_options_apply(kvsi_parsed_options *parsed, const kvsi_command_options *command,
                              void *settings, kvs_err *err)
{
    for (int source = KVSI_FROM_FILE; source <= KVSI_FROM_COMMAND_LINE; source++)
        for (size_t i = 0; i < parsed->assignment_count; i++)
            if ((int)parsed->assignments[i].source == source)
                TRY(apply_one(parsed, command, parsed->assignments + i, settings, err));
    return KVS_OK;
}

void kvsi_options_keep(kvsi_parsed_options *parsed, kvsi_parsed_options *other)
{
    parsed->kept = other->assignments;
    parsed->kept_count = other->assignment_count;
    other->assignments = NULL;
    other->assignment_count = 0;
}

static void free_assignments(kvsi_assignment *assignments, size_t count)
{
    for (size_t i = 0; i < count; i++)
        if (assignments[i].source == KVSI_FROM_FILE) {
            kvsi_free((char *)assignments[i].text);
            kvsi_free(assignments[i].key);
        }
    kvsi_free(assignments);
}

void kvsi_options_release(kvsi_parsed_options *parsed)
{
    free_assignments(parsed->assignments, parsed->assignment_count);
    free_assignments(parsed->kept, parsed->kept_count);
    kvsi_free(parsed->owned);
    *parsed = (kvsi_parsed_options){0};
}

/* ---- the command line ------------------------------------------------------------------------ */

/* Returns the name of option `index`; the name after the last one is "help". */
static const char *option_name_at(const void *names, size_t index)
{
    const kvsi_command_options *command = names;
    const size_t count = kvsi_command_count_all(command);

    return index < count ? kvsi_command_row(command, index).name : index == count ? "help" : NULL;
}

/* Option names of transformers, nanoGPT and llama.cpp, and ours for the same thing. */
static const struct {
    const char *theirs, *ours;
} other_names[] = {
    {"learning-rate", "lr"},
    {"min-lr", "lr-floor"},
    {"batch-size", "batch"},
    {"per-device-train-batch-size", "batch"},
    {"gradient-accumulation-steps", "accumulate"},
    {"gradient-checkpointing", "recompute"},
    {"max-grad-norm", "clip"},
    {"grad-clip", "clip"},
    {"max-steps", "steps"},
    {"max-iters", "steps"},
    {"num-train-epochs", "epochs"},
    {"warmup-steps", "warmup"},
    {"warmup-iters", "warmup"},
    {"lr-scheduler-type", "schedule"},
    {"output-dir", "out"},
    {"output", "out"},
    {"out-dir", "out"},
    {"save-steps", "checkpoint-every"},
    {"save-total-limit", "keep"},
    {"eval-steps", "eval-every"},
    {"eval-interval", "eval-every"},
    {"resume-from-checkpoint", "resume"},
    {"model-name-or-path", "model"},
    {"model-path", "model"},
    {"dataset", "data"},
    {"train-file", "data"},
    {"n-layer", "layers"},
    {"num-hidden-layers", "layers"},
    {"n-head", "heads"},
    {"num-attention-heads", "heads"},
    {"num-key-value-heads", "kv-heads"},
    {"n-embd", "dim"},
    {"hidden-size", "dim"},
    {"block-size", "context"},
    {"ctx-size", "context"},
    {"max-seq-len", "context"},
    {"vocab-size", "vocab"},
    {"bf16", "precision"},
    {"dtype", "precision"},
    {"freeze", "rates"},
    {"lr-scale", "rates"},
    {"early-stopping-patience", "patience"},
    {"early-stopping", "patience"},
    {"load-best-model-at-end", "save-best"},
    {"temperature", "temp"},
    {"temperature", "sample-temp"},
    {"temp", "sample-temp"},
    {"max-tokens", "new-tokens"},
    {"max-new-tokens", "new-tokens"},
    {"n-predict", "new-tokens"},
    {"repetition-penalty", "repeat-penalty"},
    {"num-return-sequences", "samples"},
    {"num-samples", "samples"},
    {"ignore-eos-token", "ignore-eos"},
    {"cache-type-k", "kv-cache"},
    {"outtype", "dtype"},
    {"fewshot", "num-fewshot"},
    {"output-path", "out"},
};

/* Returns our name of the option that other programs call `name`, or NULL if the command has none
 * like it. */
static const char *name_of_other(const kvsi_command_options *command, const char *name)
{
    char dashed[64];

    snprintf(dashed, sizeof dashed, "%s", name);
    for (char *c = dashed; *c; c++)
        if (*c == '_')
            *c = '-';
    for (size_t i = 0; i < sizeof other_names / sizeof *other_names; i++)
        if (strcmp(other_names[i].theirs, dashed) == 0)
            for (size_t k = 0; k < kvsi_command_count_all(command); k++)
                if (strcmp(kvsi_command_row(command, k).name, other_names[i].ours) == 0)
                    return other_names[i].ours;
    return NULL;
}

static int is_option(const kvsi_setting *row, const char *word, size_t length)
{
    if (length == 2 && row->letter && word[0] == '-' && word[1] == row->letter)
        return 1;
    return strncmp(word, "--", 2) == 0 && length == strlen(row->name) + 2 &&
           strncmp(word + 2, row->name, length - 2) == 0;
}

/* Returns the index of the option --name or -n, or the number of rows if there is none. */
static size_t find_option(const kvsi_command_options *command, const char *word, size_t length)
{
    size_t i = 0;

    for (; i < kvsi_command_count_all(command); i++) {
        const kvsi_setting row = kvsi_command_row(command, i);

        if (is_option(&row, word, length))
            break;
    }
    return i;
}

static kvs_status fail_unknown(const kvsi_command_options *command, const char *word, size_t length,
                               kvs_err *err)
{
    const char *dashless = word + strspn(word, "-");
    char name[64];
    const char *nearest;

    if (word[0] == '-' && word[1] != '-' && length > 2 &&
        find_option(command, word, 2) < kvsi_command_count_all(command))
        return kvsi_fail(err, KVS_E_INVALID, "unknown option '%.*s'; did you mean '%.2s %.*s'?",
                         (int)length, word, word, (int)(length - 2), word + 2);

    snprintf(name, sizeof name, "%.*s", (int)(length - (size_t)(dashless - word)), dashless);
    nearest = name_of_other(command, name);
    if (!nearest)
        nearest = kvsi_nearest_name(name, option_name_at, command);
    if (nearest)
        return kvsi_fail(err, KVS_E_INVALID, "unknown option '%.*s'; did you mean '--%s'?",
                         (int)length, word, nearest);
    return kvsi_fail(err, KVS_E_INVALID, "unknown option '%.*s'; see '%s --help'", (int)length,
                     word, command->command);
}

static int is_choice(const kvsi_setting *row, const char *word)
{
    const char *choice;

    for (size_t i = 0; (choice = kvsi_setting_choice(row, i)); i++)
        if (strcmp(word, choice) == 0)
            return 1;
    return 0;
}

/* Reads the option at argv[0], which has `argc` words up to the end; *used is set to the number of
 * words it took. */
static kvs_status read_option(kvsi_parsed_options *parsed, const kvsi_command_options *command,
                              int argc, char **argv, int *used, kvs_err *err)
{
    const char *word = argv[0], *next = argc > 1 ? argv[1] : NULL;
    const size_t length = strcspn(word, "=");
    const size_t index = find_option(command, word, length);
    const char *value = word[length] ? word + length + 1 : NULL;
    kvsi_setting row;
    char origin[96];

    if (index == kvsi_command_count_all(command))
        return fail_unknown(command, word, length, err);
    row = kvsi_command_row(command, index);
    snprintf(origin, sizeof origin, "option '--%s'", row.name);
    *used = 1;
    if (row.kind == KVSI_SETTING_FLAG) {
        if (value)
            return kvsi_fail(err, KVS_E_INVALID, "%s takes no value, found '%s'", origin, value);
        value = "1";
    } else if (!value && row.implied && !(next && is_choice(&row, next))) {
        value = row.implied;
    } else if (!value) {
        /* A word that starts with two dashes is far more likely the next option than a value. */
        if (!next || strncmp(next, "--", 2) == 0)
            return kvsi_fail(err, KVS_E_INVALID, "%s needs a value %s", origin,
                             row.placeholder ? row.placeholder : "");
        value = next;
        *used = 2;
    }
    if (index < kvsi_command_count(command))
        return kvsi_options_assign(
            parsed,
            &(kvsi_assignment){.index = index, .source = KVSI_FROM_COMMAND_LINE, .text = value},
            err);
    if (strcmp(row.name, "config") == 0 && parsed->config)
        return kvsi_fail(err, KVS_E_INVALID, "%s is given twice, expected one file", origin);
    return kvsi_setting_store(&row, parsed, origin, value, err);
}

static kvs_status read_words(kvsi_parsed_options *parsed, const kvsi_command_options *command,
                             int argc, char **argv, kvs_err *err)
{
    int options_ended = 0;

    for (int at = 0; at < argc;) {
        char *word = argv[at];
        int used = 1;

        if (!options_ended && strcmp(word, "--") == 0)
            options_ended = 1;
        else if (!options_ended && word[0] == '-' && word[1] != '\0')
            TRY(read_option(parsed, command, argc - at, argv + at, &used, err));
        else
            argv[parsed->argument_count++] = word; /* at or before `at`: already read */
        at += used;
    }
    parsed->arguments = argv;
    return KVS_OK;
}

static kvs_status check_arguments(const kvsi_parsed_options *parsed,
                                  const kvsi_command_options *command, kvs_err *err)
{
    const size_t count = parsed->argument_count;

    if (count > command->max_arguments)
        return kvsi_fail(err, KVS_E_INVALID, "unexpected argument '%s'; see '%s --help'",
                         parsed->arguments[command->max_arguments], command->command);
    if (count < command->min_arguments)
        return kvsi_fail(err, KVS_E_INVALID, "expected at least %zu %s, found %zu; see '%s --help'",
                         command->min_arguments, command->argument, count, command->command);
    return KVS_OK;
}

/* ---- the environment ------------------------------------------------------------------------- */

void kvsi_option_environment(char *out, size_t size, const kvsi_setting *row)
{
    int length = snprintf(out, size, "KVSHIFT_%s", row->name);

    if (length >= (int)size)
        length = (int)size - 1;
    for (int i = 0; i < length; i++)
        out[i] = out[i] == '-' ? '_' : (char)toupper((unsigned char)out[i]);
}

static kvs_status read_environment(kvsi_parsed_options *parsed, const kvsi_command_options *command,
                                   kvs_err *err)
{
    const size_t own = kvsi_command_count(command);

    for (size_t i = 0; i < kvsi_command_count_all(command); i++) {
        const kvsi_setting row = kvsi_command_row(command, i);
        char name[64], origin[96];
        const char *value;

        kvsi_option_environment(name, sizeof name, &row);
        value = getenv(name);
        if (!value || !*value)
            continue;
        if (i < own && parsed->source[i] == KVSI_FROM_DEFAULT)
            TRY(kvsi_options_assign(
                parsed,
                &(kvsi_assignment){.index = i, .source = KVSI_FROM_ENVIRONMENT, .text = value},
                err));
        else if (i >= own && !*(const char *const *)(const void *)((char *)parsed + row.offset)) {
            snprintf(origin, sizeof origin, "environment variable '%s'", name);
            TRY(kvsi_setting_store(&row, parsed, origin, value, err));
        }
    }
    return KVS_OK;
}

/* ---- all sources ----------------------------------------------------------------------------- */

/* Returns the help that is requested.  That is checked first: a line with errors still gets the
 * help, and the help shows the true defaults. */
static kvsi_help wanted_help(int argc, char **argv)
{
    for (int i = 0; i < argc && strcmp(argv[i], "--") != 0; i++) {
        if (strcmp(argv[i], "--help=all") == 0)
            return KVSI_HELP_ALL;
        if (strcmp(argv[i], "-h") == 0 || strcmp(argv[i], "--help") == 0)
            return i + 1 < argc && strcmp(argv[i + 1], "all") == 0 ? KVSI_HELP_ALL
                                                                   : KVSI_HELP_SHORT;
    }
    return KVSI_HELP_NONE;
}

kvs_status kvsi_options_collect(kvsi_parsed_options *parsed, const kvsi_command_options *command,
                                int argc, char **argv, kvs_err *err)
{
    *parsed = (kvsi_parsed_options){.help = wanted_help(argc, argv)};
    if (parsed->help)
        return KVS_OK;
    TRY(read_words(parsed, command, argc, argv, err));
    TRY(read_environment(parsed, command, err));
    if (parsed->config)
        TRY(kvsi_options_read_file(parsed, command, err));
    return parsed->print_config ? KVS_OK : check_arguments(parsed, command, err);
}

kvs_status kvsi_options_parse(kvsi_parsed_options *parsed, const kvsi_command_options *command,
                              void *settings, int argc, char **argv, kvs_err *err)
{
    TRY(kvsi_options_collect(parsed, command, argc, argv, err));
    return kvsi_options_apply(parsed, command, settings, err);
}
