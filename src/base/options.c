#include "base/options.h"

#include "base/memory.h"
#include "base/options_config.h"

#include <ctype.h>
#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- values ---------------------------------------------------------------------------------- */

/* What an error message calls the place a value came from: option '--dim'. */
typedef char origin_name[96];

static void *field(const kvsi_option *option, void *settings)
{
    return (char *)settings + option->offset;
}

static const void *const_field(const kvsi_option *option, const void *settings)
{
    return (const char *)settings + option->offset;
}

static int is_whole(const kvsi_option *option)
{
    return option->kind != KVSI_OPTION_REAL && option->kind != KVSI_OPTION_REALS;
}

static kvs_status fail_range(const kvsi_option *option, const char *origin, const char *value,
                             kvs_err *err)
{
    const char *kind = is_whole(option) ? "a whole number" : "a number";

    if (option->high > 0)
        return kvsi_fail(err, KVS_E_INVALID, "%s: expected %s from %.15g to %.15g, found '%s'",
                         origin, kind, option->low, option->high, value);
    return kvsi_fail(err, KVS_E_INVALID, "%s: expected %s of at least %.15g, found '%s'", origin,
                     kind, option->low, value);
}

static int in_range(const kvsi_option *option, double number)
{
    return number >= option->low && (option->high <= 0 || number <= option->high);
}

static kvs_status read_whole(uint64_t *out, const kvsi_option *option, const char *origin,
                             const char *value, kvs_err *err)
{
    const int digits = *value && value[strspn(value, "0123456789")] == '\0';
    unsigned long long number = 0;

    errno = 0;
    if (digits)
        number = strtoull(value, NULL, 10);
    if (!digits || errno == ERANGE || number > UINT64_MAX || !in_range(option, (double)number) ||
        (option->kind == KVSI_OPTION_SIZE && number > SIZE_MAX))
        return fail_range(option, origin, value, err);
    *out = (uint64_t)number;
    return KVS_OK;
}

static kvs_status store_whole(const kvsi_option *option, void *settings, const char *origin,
                              const char *value, kvs_err *err)
{
    uint64_t number = 0;

    TRY(read_whole(&number, option, origin, value, err));
    if (option->kind == KVSI_OPTION_SIZE)
        *(size_t *)field(option, settings) = (size_t)number;
    else
        *(uint64_t *)field(option, settings) = number;
    return KVS_OK;
}

static kvs_status read_real(double *out, const kvsi_option *option, const char *origin,
                            const char *value, kvs_err *err)
{
    char *end = NULL;
    const double number = strtod(value, &end);

    if (!*value || isspace((unsigned char)*value) || *end || !isfinite(number) ||
        !in_range(option, number))
        return fail_range(option, origin, value, err);
    *out = number;
    return KVS_OK;
}

/* One number of a list: value[0 .. length-1]. */
static kvs_status add_number(kvsi_number_list *list, const kvsi_option *option, const char *origin,
                             const char *value, size_t length, kvs_err *err)
{
    char word[64];
    uint64_t whole = 0;

    if (list->count == KVSI_LIST_MAX)
        return kvsi_fail(err, KVS_E_INVALID, "%s: expected at most %d numbers, found more", origin,
                         (int)KVSI_LIST_MAX);
    snprintf(word, sizeof word, "%.*s", (int)length, value);
    if (length >= sizeof word)
        return fail_range(option, origin, word, err);
    if (!is_whole(option)) {
        TRY(read_real(&list->numbers[list->count], option, origin, word, err));
    } else {
        TRY(read_whole(&whole, option, origin, word, err));
        if (whole > (uint64_t)1 << 53) /* a double has no more digits */
            return kvsi_fail(err, KVS_E_INVALID, "%s: expected at most 2^53, found %s", origin,
                             word);
        list->numbers[list->count] = (double)whole;
    }
    list->count++;
    return KVS_OK;
}

static kvs_status store_list(const kvsi_option *option, void *settings, const char *origin,
                             const char *value, kvs_err *err)
{
    kvsi_number_list list = {0};

    for (;;) {
        const size_t length = strcspn(value, ",");

        TRY(add_number(&list, option, origin, value, length, err));
        if (!value[length])
            break;
        value += length + 1;
    }
    *(kvsi_number_list *)field(option, settings) = list;
    return KVS_OK;
}

static void list_choices(kvsi_text *text, const char *const *choices)
{
    for (size_t i = 0; choices[i]; i++)
        kvsi_text_format(text, "%s%s", i == 0 ? "" : choices[i + 1] ? ", " : " or ", choices[i]);
}

static kvs_status store_choice(const kvsi_option *option, void *settings, const char *origin,
                               const char *value, kvs_err *err)
{
    kvsi_text expected = {0};
    kvs_status st;

    for (size_t i = 0; option->choices[i]; i++) {
        if (strcmp(option->choices[i], value) == 0) {
            *(const char **)field(option, settings) = option->choices[i];
            return KVS_OK;
        }
    }
    list_choices(&expected, option->choices);
    TRY_OUT(kvsi_text_check(&expected, err));
    st = kvsi_fail(err, KVS_E_INVALID, "%s: expected %s, found '%s'", origin, expected.data, value);
out:
    kvsi_text_release(&expected);
    return st;
}

static kvs_status store_flag(const kvsi_option *option, void *settings, const char *origin,
                             const char *value, kvs_err *err)
{
    static const char *const words[] = {"0", "no", "false", "1", "yes", "true"};

    for (size_t i = 0; i < sizeof words / sizeof *words; i++) {
        if (strcmp(value, words[i]) == 0) {
            *(int *)field(option, settings) = i >= 3;
            return KVS_OK;
        }
    }
    return kvsi_fail(err, KVS_E_INVALID, "%s: expected yes or no, found '%s'", origin, value);
}

static kvs_status add_text(const kvsi_option *option, void *settings, const char *origin,
                           const char *value, kvs_err *err)
{
    kvsi_text_list *list = field(option, settings);

    if (list->count == KVSI_LIST_MAX)
        return kvsi_fail(err, KVS_E_INVALID, "%s: expected at most %d texts, found more", origin,
                         (int)KVSI_LIST_MAX);
    list->texts[list->count++] = value;
    return KVS_OK;
}

kvs_status kvsi_option_store(const kvsi_option *option, void *settings, const char *origin,
                             const char *value, kvs_err *err)
{
    switch (option->kind) {
    case KVSI_OPTION_FLAG:
        return store_flag(option, settings, origin, value, err);
    case KVSI_OPTION_SIZE:
    case KVSI_OPTION_UINT64:
        return store_whole(option, settings, origin, value, err);
    case KVSI_OPTION_REAL:
        return read_real(field(option, settings), option, origin, value, err);
    case KVSI_OPTION_SIZES:
    case KVSI_OPTION_REALS:
        return store_list(option, settings, origin, value, err);
    case KVSI_OPTION_CHOICE:
        return store_choice(option, settings, origin, value, err);
    case KVSI_OPTION_TEXT:
        break;
    }
    if (!*value && !option->may_be_empty)
        return kvsi_fail(err, KVS_E_INVALID, "%s: expected a text, found nothing", origin);
    if (option->repeats)
        return add_text(option, settings, origin, value, err);
    *(const char **)field(option, settings) = value;
    return KVS_OK;
}

static size_t value_size(const kvsi_option *option)
{
    switch (option->kind) {
    case KVSI_OPTION_FLAG:
        return sizeof(int);
    case KVSI_OPTION_SIZE:
        return sizeof(size_t);
    case KVSI_OPTION_UINT64:
        return sizeof(uint64_t);
    case KVSI_OPTION_REAL:
        return sizeof(double);
    case KVSI_OPTION_SIZES:
    case KVSI_OPTION_REALS:
        return sizeof(kvsi_number_list);
    case KVSI_OPTION_TEXT:
    case KVSI_OPTION_CHOICE:
        break;
    }
    return option->repeats ? sizeof(kvsi_text_list) : sizeof(const char *);
}

void kvsi_option_copy(const kvsi_option *option, void *to, const void *from)
{
    memcpy(field(option, to), const_field(option, from), value_size(option));
}

/* With as many digits as it takes to read the same number again, 15 where they do. */
static void print_real(kvsi_text *text, double number)
{
    char word[32];
    int digits = 15;

    do
        snprintf(word, sizeof word, "%.*g", digits, number);
    while (strtod(word, NULL) != number && digits++ < 17);
    kvsi_text_add(text, word);
}

static void print_list(kvsi_text *text, const kvsi_number_list *list)
{
    kvsi_text_add(text, "");
    for (size_t i = 0; i < list->count; i++) {
        kvsi_text_add(text, i ? "," : "");
        print_real(text, list->numbers[i]);
    }
}

static void print_texts(kvsi_text *text, const kvsi_text_list *list)
{
    kvsi_text_add(text, "");
    for (size_t i = 0; i < list->count; i++)
        kvsi_text_format(text, "%s%s", i ? " " : "", list->texts[i]);
}

void kvsi_option_print(kvsi_text *text, const kvsi_option *option, const void *settings)
{
    const void *value = const_field(option, settings);
    const char *words;

    switch (option->kind) {
    case KVSI_OPTION_FLAG:
        kvsi_text_add(text, *(const int *)value ? "yes" : "no");
        return;
    case KVSI_OPTION_SIZE:
        kvsi_text_format(text, "%zu", *(const size_t *)value);
        return;
    case KVSI_OPTION_UINT64:
        kvsi_text_format(text, "%llu", (unsigned long long)*(const uint64_t *)value);
        return;
    case KVSI_OPTION_REAL:
        print_real(text, *(const double *)value);
        return;
    case KVSI_OPTION_SIZES:
    case KVSI_OPTION_REALS:
        print_list(text, value);
        return;
    case KVSI_OPTION_TEXT:
    case KVSI_OPTION_CHOICE:
        break;
    }
    if (option->repeats) {
        print_texts(text, value);
        return;
    }
    words = *(const char *const *)value;
    kvsi_text_add(text, words ? words : "");
}

/* ---- the rows of a command ------------------------------------------------------------------- */

static const char *const printed_names[] = {"values", "explained", "schema", NULL};

/* What commands with a configuration file have besides their own; kept in kvsi_parsed_options. */
static const kvsi_option config_rows[] = {
    {.name = "config",
     .kind = KVSI_OPTION_TEXT,
     .offset = offsetof(kvsi_parsed_options, config),
     .placeholder = "FILE",
     .help = "read options from this file, TOML or JSON"},
    {.name = "print-config",
     .kind = KVSI_OPTION_CHOICE,
     .offset = offsetof(kvsi_parsed_options, print_config),
     .placeholder = "WHAT",
     .choices = printed_names,
     .implied = "values",
     .help = "print such a file with every option's value and where it came from, or with what it "
             "means, or the JSON schema of such files, and do nothing else",
     .automatic = "print nothing"},
};

enum { CONFIG_ROWS = sizeof config_rows / sizeof *config_rows };
_Static_assert((int)CONFIG_ROWS == (int)KVSI_CONFIG_OPTIONS, "KVSI_OPTIONS_FIT counts others");

static size_t row_count(const kvsi_command_options *command)
{
    return command->count + (command->takes_config ? CONFIG_ROWS : 0);
}

static const kvsi_option *row_at(const kvsi_command_options *command, size_t index)
{
    return index < command->count ? command->options + index
                                  : config_rows + (index - command->count);
}

/* ---- the command line ------------------------------------------------------------------------ */

typedef struct reader {
    const kvsi_command_options *command;
    kvsi_parsed_options *parsed;
    void *settings;
    int argc;
    char **argv;
} reader;

static const char *option_name_at(const void *names, size_t index)
{
    const kvsi_command_options *command = names;

    return index < row_count(command) ? row_at(command, index)->name : NULL;
}

static kvs_status fail_unknown(const kvsi_command_options *command, const char *word, size_t length,
                               kvs_err *err)
{
    const char *dashless = word + strspn(word, "-");
    char name[64];
    const char *nearest;

    snprintf(name, sizeof name, "%.*s", (int)(length - (size_t)(dashless - word)), dashless);
    nearest = kvsi_nearest_name(name, option_name_at, command);
    if (nearest)
        return kvsi_fail(err, KVS_E_INVALID, "unknown option '%.*s'; did you mean '--%s'?",
                         (int)length, word, nearest);
    return kvsi_fail(err, KVS_E_INVALID, "unknown option '%.*s'; see '%s --help'", (int)length,
                     word, command->command);
}

static int is_option(const kvsi_option *option, const char *word, size_t length)
{
    if (length == 2 && option->letter && word[0] == '-' && word[1] == option->letter)
        return 1;
    return strncmp(word, "--", 2) == 0 && length == strlen(option->name) + 2 &&
           strncmp(word + 2, option->name, length - 2) == 0;
}

/* The index of the option --name or -n, or the number of rows if there is none. */
static size_t find_option(const kvsi_command_options *command, const char *word, size_t length)
{
    size_t i = 0;

    while (i < row_count(command) && !is_option(row_at(command, i), word, length))
        i++;
    return i;
}

/* Where the value of row `index` is kept. */
static void *store_of(const reader *r, size_t index)
{
    return index < r->command->count ? r->settings : r->parsed;
}

/* Is word `at` there, and one of the option's choices? */
static int is_choice(const kvsi_option *option, int argc, char **argv, int at)
{
    for (size_t i = 0; at < argc && option->choices[i]; i++)
        if (strcmp(argv[at], option->choices[i]) == 0)
            return 1;
    return 0;
}

/* Reads the option at argv[at]; *used says how many words it took. */
static kvs_status read_option(reader *r, int at, int *used, kvs_err *err)
{
    const char *word = r->argv[at];
    const size_t length = strcspn(word, "=");
    const size_t index = find_option(r->command, word, length);
    const kvsi_option *option = row_at(r->command, index);
    const char *value = word[length] ? word + length + 1 : NULL;
    origin_name origin;

    if (index == row_count(r->command))
        return fail_unknown(r->command, word, length, err);
    snprintf(origin, sizeof origin, "option '--%s'", option->name);
    if (option == config_rows && r->parsed->config)
        return kvsi_fail(err, KVS_E_INVALID, "%s is given twice, expected one file", origin);
    *used = 1;
    if (option->kind == KVSI_OPTION_FLAG) {
        if (value)
            return kvsi_fail(err, KVS_E_INVALID, "%s takes no value, found '%s'", origin, value);
        value = "1";
    } else if (!value && option->implied && !is_choice(option, r->argc, r->argv, at + 1)) {
        value = option->implied;
    } else if (!value) {
        /* What starts with two dashes is far more likely the next option than a value. */
        if (at + 1 >= r->argc || strncmp(r->argv[at + 1], "--", 2) == 0)
            return kvsi_fail(err, KVS_E_INVALID, "%s needs a value %s", origin,
                             option->placeholder ? option->placeholder : "");
        value = r->argv[at + 1];
        *used = 2;
    }
    r->parsed->source[index] = KVSI_FROM_COMMAND_LINE;
    return kvsi_option_store(option, store_of(r, index), origin, value, err);
}

static kvs_status read_words(reader *r, kvs_err *err)
{
    int options_ended = 0;

    for (int at = 0; at < r->argc;) {
        char *word = r->argv[at];
        int used = 1;

        if (!options_ended && strcmp(word, "--") == 0) {
            options_ended = 1;
        } else if (!options_ended && word[0] == '-' && word[1] != '\0') {
            TRY(read_option(r, at, &used, err));
        } else {
            r->argv[r->parsed->argument_count++] = word; /* at or before `at`: already read */
        }
        at += used;
    }
    r->parsed->arguments = r->argv;
    return KVS_OK;
}

static kvs_status check_arguments(const reader *r, kvs_err *err)
{
    const kvsi_command_options *command = r->command;
    const size_t count = r->parsed->argument_count;

    if (count > command->max_arguments)
        return kvsi_fail(err, KVS_E_INVALID, "unexpected argument '%s'; see '%s --help'",
                         r->argv[command->max_arguments], command->command);
    if (count < command->min_arguments)
        return kvsi_fail(err, KVS_E_INVALID, "expected at least %zu %s, found %zu; see '%s --help'",
                         command->min_arguments, command->argument, count, command->command);
    return KVS_OK;
}

/* ---- the environment ------------------------------------------------------------------------- */

void kvsi_option_environment(char *out, size_t size, const kvsi_option *option)
{
    int length = snprintf(out, size, "KVSHIFT_%s", option->name);

    if (length >= (int)size)
        length = (int)size - 1;
    for (int i = 0; i < length; i++)
        out[i] = out[i] == '-' ? '_' : (char)toupper((unsigned char)out[i]);
}

static kvs_status read_environment(reader *r, kvs_err *err)
{
    for (size_t i = 0; i < row_count(r->command); i++) {
        char name[64];
        origin_name origin;
        const char *value;
        kvs_status st;

        kvsi_option_environment(name, sizeof name, row_at(r->command, i));
        value = getenv(name);
        if (r->parsed->source[i] != KVSI_FROM_DEFAULT || !value || !*value)
            continue;
        snprintf(origin, sizeof origin, "environment variable '%s'", name);
        st = kvsi_option_store(row_at(r->command, i), store_of(r, i), origin, value, err);
        if (st != KVS_OK)
            return st;
        r->parsed->source[i] = KVSI_FROM_ENVIRONMENT;
    }
    return KVS_OK;
}

/* Looked for first, so that help is to be had on any line and shows the true defaults. */
static int wants_help(int argc, char **argv)
{
    for (int i = 0; i < argc && strcmp(argv[i], "--") != 0; i++) {
        if (strcmp(argv[i], "-h") == 0 || strcmp(argv[i], "--help") == 0)
            return 1;
    }
    return 0;
}

kvs_status kvsi_options_parse(kvsi_parsed_options *parsed, const kvsi_command_options *command,
                              void *settings, int argc, char **argv, kvs_err *err)
{
    reader r = {command, parsed, settings, argc, argv};
    kvs_status st = KVS_OK;

    *parsed = (kvsi_parsed_options){.help = wants_help(argc, argv)};
    if (parsed->help)
        return KVS_OK;
    if (row_count(command) > KVSI_OPTIONS_MAX)
        return kvsi_fail(err, KVS_E_LIMIT, "'%s' has %zu options, at most %d are allowed",
                         command->command, row_count(command), (int)KVSI_OPTIONS_MAX);
    TRY_OUT(read_words(&r, err));
    TRY_OUT(read_environment(&r, err));
    if (parsed->config)
        TRY_OUT(kvsi_options_read_file(parsed, command, settings, err));
    if (!parsed->print_config)
        TRY_OUT(check_arguments(&r, err));
out:
    if (st != KVS_OK)
        kvsi_options_release(parsed);
    return st;
}

void kvsi_options_release(kvsi_parsed_options *parsed)
{
    for (size_t i = 0; i < KVSI_OPTIONS_MAX; i++) {
        kvsi_free(parsed->texts[i]);
        parsed->texts[i] = NULL;
    }
}

/* ---- help ------------------------------------------------------------------------------------ */

enum { HELP_COLUMN = 26, HELP_WIDTH = 90 };

/* What is in brackets stays on one line. */
static size_t word_length(const char *words)
{
    const size_t bracket = strcspn(words, ")");

    return *words == '(' && words[bracket] ? bracket + 1 : strcspn(words, " ");
}

/* Adds words, breaking lines at HELP_WIDTH; the text now ends at `column` of its line. */
static void add_wrapped(kvsi_text *text, const char *words, size_t column, size_t indent)
{
    while (*words) {
        const size_t length = word_length(words);

        if (column > indent && column + 1 + length > HELP_WIDTH) {
            kvsi_text_format(text, "\n%*s", (int)indent, "");
            column = indent;
        } else if (column > indent) {
            kvsi_text_add(text, " ");
            column++;
        }
        kvsi_text_add_bytes(text, words, length);
        column += length;
        words += length + strspn(words + length, " ");
    }
}

static void add_default(kvsi_text *text, const kvsi_option *option, const void *settings)
{
    if (option->automatic) {
        kvsi_text_format(text, " (default: %s)", option->automatic);
    } else if (option->kind != KVSI_OPTION_FLAG && option->kind != KVSI_OPTION_TEXT) {
        kvsi_text_add(text, " (default: ");
        kvsi_option_print(text, option, settings);
        kvsi_text_add(text, ")");
    }
}

void kvsi_option_explain(kvsi_text *text, const kvsi_option *option)
{
    kvsi_text_add(text, option->help);
    if (option->choices) {
        kvsi_text_add(text, ": ");
        list_choices(text, option->choices);
    }
    if (option->high > 0)
        kvsi_text_format(text, ", %.15g to %.15g", option->low, option->high);
}

static void add_option_help(kvsi_text *text, const kvsi_option *option, const void *settings)
{
    const size_t start = text->length;
    kvsi_text words = {0};
    size_t column;

    if (option->letter)
        kvsi_text_format(text, "  -%c,", option->letter);
    kvsi_text_format(text, option->implied ? "%s--%s [%s%s]" : "%s--%s%s%s",
                     option->letter ? " " : "  ", option->name,
                     option->placeholder && !option->implied ? " " : "",
                     option->placeholder ? option->placeholder : "");
    column = text->length - start;
    if (column + 2 > HELP_COLUMN) {
        kvsi_text_add(text, "\n");
        column = 0;
    }
    kvsi_text_format(text, "%*s", (int)(HELP_COLUMN - column), "");
    kvsi_option_explain(&words, option);
    add_default(&words, option, settings);
    if (words.failed)
        text->failed = 1;
    else
        add_wrapped(text, words.data, HELP_COLUMN, HELP_COLUMN);
    kvsi_text_add(text, "\n");
    kvsi_text_release(&words);
}

void kvsi_options_help(kvsi_text *text, const kvsi_command_options *command, const void *settings)
{
    const kvsi_parsed_options nothing = {0};
    const char *group = NULL;

    kvsi_text_format(text, "usage: %s%s", command->command, command->count ? " [OPTION]..." : "");
    if (command->argument)
        kvsi_text_format(text, command->min_arguments ? " %s%s" : " [%s%s]", command->argument,
                         command->max_arguments > 1 ? "..." : "");
    kvsi_text_add(text, "\n\n");
    add_wrapped(text, command->purpose, 0, 0);
    kvsi_text_add(text, "\n");
    for (size_t i = 0; i < command->count; i++) {
        const kvsi_option *option = command->options + i;

        if (!group || strcmp(group, option->group) != 0)
            kvsi_text_format(text, "\n%s:\n", option->group);
        group = option->group;
        add_option_help(text, option, settings);
    }
    for (size_t i = command->count; i < row_count(command); i++)
        add_option_help(text, row_at(command, i), &nothing);
    kvsi_text_format(text, "%s  -h, --help%*sshow this help\n", command->count ? "" : "\n",
                     HELP_COLUMN - 12, "");
    if (command->notes)
        kvsi_text_format(text, "\n%s\n", command->notes);
}
