/* One table of options: parsing, checks, environment, help. */
#include "cli/options/options.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* clang-format off */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h> /* needs those before it */
/* clang-format on */

typedef struct settings {
    int quiet;
    size_t window, kv_heads;
    uint64_t seed;
    double rate;
    const char *out, *shift, *note;
    kvsi_number_list layers, slopes;
    kvsi_text_list words;
} settings;

static const char *const shifts[] = {"none", "k", "kv", NULL};

#define ROW(option, type, member)                                                                  \
    .name = (option), .kind = (type), .offset = offsetof(settings, member), .group = "Options"

static const kvsi_setting options[] = {
    {ROW("quiet", KVSI_SETTING_FLAG, quiet), .help = "say nothing"},
    {ROW("window", KVSI_SETTING_SIZE, window), .placeholder = "N", .help = "reach", .low = 1,
     .high = 3},
    {ROW("kv-heads", KVSI_SETTING_SIZE, kv_heads), .placeholder = "N", .help = "heads",
     .automatic = "as many as heads"},
    {ROW("seed", KVSI_SETTING_UINT64, seed), .placeholder = "N", .help = "seed"},
    {ROW("rate", KVSI_SETTING_REAL, rate), .placeholder = "X", .help = "rate"},
    {ROW("out", KVSI_SETTING_TEXT, out), .placeholder = "DIR", .help = "folder"},
    {ROW("shift", KVSI_SETTING_CHOICE, shift), .placeholder = "NAME", .help = "kind",
     .choices = shifts},
    {ROW("layers", KVSI_SETTING_SIZES, layers), .placeholder = "N,...", .help = "layers",
     .automatic = "all", .high = 9},
    {ROW("slopes", KVSI_SETTING_REALS, slopes), .placeholder = "X,...", .help = "slopes",
     .automatic = "falling"},
    {ROW("words", KVSI_SETTING_TEXT, words), .placeholder = "TEXT", .help = "words", .repeats = 1},
    {ROW("note", KVSI_SETTING_TEXT, note), .placeholder = "TEXT", .help = "note",
     .may_be_empty = 1},
};

enum { QUIET, WINDOW, KV_HEADS, SEED, RATE, OUT, SHIFT, LAYERS, SLOPES, WORDS };

static const kvsi_command_options command = {
    .command = "kvshift try",
    .purpose = "Tries things.",
    .argument = "RUN",
    .max_arguments = 2,
    .tables = KVSI_OPTIONS(options),
};

static settings values;
static kvsi_parsed_options parsed;
static kvs_err err;

/* Parses words, ended by NULL, into fresh settings. */
static kvs_status parse(const kvsi_command_options *with, const char *first, ...)
{
    static char *words[16];
    int count = 0;
    va_list rest;

    values = (settings){.window = 1, .rate = 0.001, .shift = shifts[2]};
    va_start(rest, first);
    for (const char *word = first; word; word = va_arg(rest, const char *))
        words[count++] = (char *)word;
    va_end(rest);
    kvsi_options_release(&parsed);
    return kvsi_options_parse(&parsed, with, &values, count, words, &err);
}

static void every_kind_is_read(void **state)
{
    (void)state;
    assert_int_equal(parse(&command, "--quiet", "--window", "3", "--seed=18446744073709551615",
                           "--rate", "2e-3", "--out=a=b", "--shift", "none", NULL),
                     KVS_OK);
    assert_int_equal(values.quiet, 1);
    assert_int_equal(values.window, 3);
    assert_true(values.seed == UINT64_MAX);
    assert_true(values.rate == 2e-3);
    assert_string_equal(values.out, "a=b");
    assert_ptr_equal(values.shift, shifts[0]);
    assert_int_equal(parsed.source[WINDOW], KVSI_FROM_COMMAND_LINE);
    assert_int_equal(parsed.source[KV_HEADS], KVSI_FROM_DEFAULT);
    assert_int_equal(parsed.argument_count, 0);
}

static void the_last_one_wins_and_dashes_end_options(void **state)
{
    (void)state;
    assert_int_equal(parse(&command, "one", "--window=2", "--window", "3", "--", "--quiet", NULL),
                     KVS_OK);
    assert_int_equal(values.window, 3);
    assert_int_equal(values.quiet, 0);
    assert_int_equal(parsed.argument_count, 2);
    assert_string_equal(parsed.arguments[0], "one");
    assert_string_equal(parsed.arguments[1], "--quiet");
    assert_int_equal(parse(&command, "-", NULL), KVS_OK);
    assert_string_equal(parsed.arguments[0], "-");
}

static void assert_refused(const char *message)
{
    assert_int_equal(err.status, KVS_E_INVALID);
    assert_string_equal(err.message, message);
}

static void misuse_is_explained(void **state)
{
    (void)state;
    parse(&command, "--windw", "1", NULL);
    assert_refused("unknown option '--windw'; did you mean '--window'?");
    parse(&command, "--windw=1", NULL);
    assert_refused("unknown option '--windw'; did you mean '--window'?");
    parse(&command, "-quiet", NULL);
    assert_refused("unknown option '-quiet'; did you mean '--quiet'?");
    parse(&command, "--xyzzy", NULL);
    assert_refused("unknown option '--xyzzy'; see 'kvshift try --help'");
    parse(&command, "--window", "0", NULL);
    assert_refused("option '--window': expected a whole number from 1 to 3, found '0'");
    parse(&command, "--window", "4", NULL);
    assert_refused("option '--window': expected a whole number from 1 to 3, found '4'");
    parse(&command, "--rate", "-1", NULL);
    assert_refused("option '--rate': expected a number of at least 0, found '-1'");
    parse(&command, "--shift", "vk", NULL);
    assert_refused("option '--shift': expected none, k or kv, found 'vk'");
    parse(&command, "--quiet=yes", NULL);
    assert_refused("option '--quiet' takes no value, found 'yes'");
    parse(&command, "--out", NULL);
    assert_refused("option '--out' needs a value DIR");
    parse(&command, "--out", "--quiet", NULL);
    assert_refused("option '--out' needs a value DIR");
    parse(&command, "--out=", NULL);
    assert_refused("option '--out': expected a text, found nothing");
    parse(&command, "a", "b", "c", NULL);
    assert_refused("unexpected argument 'c'; see 'kvshift try --help'");
}

static void what_is_no_number_is_refused(void **state)
{
    static const char *const whole[] = {
        "", " 1", "1 ", "+1", "-1", "1.0", "0x1", "1k", "18446744073709551616"};
    static const char *const real[] = {"", " 1", "1x", "nan", "inf", "1e999", "--"};

    (void)state;
    for (size_t i = 0; i < sizeof whole / sizeof *whole; i++) {
        char word[64];

        snprintf(word, sizeof word, "--seed=%s", whole[i]);
        assert_int_equal(parse(&command, word, NULL), KVS_E_INVALID);
        assert_true(values.seed == 0);
    }
    for (size_t i = 0; i < sizeof real / sizeof *real; i++) {
        char word[64];

        snprintf(word, sizeof word, "--rate=%s", real[i]);
        assert_int_equal(parse(&command, word, NULL), KVS_E_INVALID);
    }
}

static void check_print(const kvsi_setting *option, const char *expected)
{
    kvsi_text text = {0};

    kvsi_setting_print(&text, option, &values);
    assert_int_equal(kvsi_text_check(&text, &err), KVS_OK);
    assert_string_equal(text.data, expected);
    kvsi_text_release(&text);
}

static void lists_are_read(void **state)
{
    (void)state;
    assert_int_equal(parse(&command, NULL), KVS_OK);
    check_print(options + LAYERS, "");
    assert_int_equal(parse(&command, "--layers=0,9,4", "--slopes", "0.5", NULL), KVS_OK);
    assert_int_equal(values.layers.count, 3);
    assert_true(values.layers.numbers[1] == 9);
    assert_int_equal(values.slopes.count, 1);
    check_print(options + LAYERS, "0,9,4");
    check_print(options + SLOPES, "0.5");
    assert_int_equal(parse(&command, "--slopes=1,2,3", "--slopes=4,5e-1", NULL), KVS_OK);
    check_print(options + SLOPES, "4,0.5"); /* the last list replaces the first */
}

static void texts_add_up(void **state)
{
    char *many[2 * KVSI_LIST_MAX + 2];

    (void)state;
    assert_int_equal(parse(&command, "--words", "a,b", "--note=", "--words=c", NULL), KVS_OK);
    assert_int_equal(values.words.count, 2);
    check_print(options + WORDS, "a,b c");
    assert_string_equal(values.note, "");
    parse(&command, "--words=", NULL);
    assert_refused("option '--words': expected a text, found nothing");
    for (int i = 0; i <= KVSI_LIST_MAX; i++) {
        many[2 * i] = "--words";
        many[2 * i + 1] = "x";
    }
    values = (settings){0};
    kvsi_options_release(&parsed);
    kvsi_options_parse(&parsed, &command, &values, 2 * KVSI_LIST_MAX, many, &err);
    assert_int_equal(values.words.count, KVSI_LIST_MAX);
    values = (settings){0};
    kvsi_options_release(&parsed);
    kvsi_options_parse(&parsed, &command, &values, 2 * KVSI_LIST_MAX + 2, many, &err);
    assert_refused("option '--words': expected at most 64 texts, found more");
}

static void what_is_no_list_is_refused(void **state)
{
    static const char *const bad[] = {"", ",", "1,", ",1", "1,,2", "1 2", "1, 2", "1.5", "10", "x"};
    kvsi_text many = {0};

    (void)state;
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        char word[64];

        snprintf(word, sizeof word, "--layers=%s", bad[i]);
        if (parse(&command, word, NULL) != KVS_E_INVALID)
            fail_msg("'%s' is accepted", word);
        assert_int_equal(values.layers.count, 0);
    }
    parse(&command, "--layers=1,12", NULL);
    assert_refused("option '--layers': expected a whole number from 0 to 9, found '12'");
    parse(&command, "--slopes=1,two", NULL);
    assert_refused("option '--slopes': expected a number of at least 0, found 'two'");
    kvsi_text_add(&many, "--layers=1");
    for (int i = 1; i < KVSI_LIST_MAX; i++)
        kvsi_text_add(&many, ",1");
    assert_int_equal(parse(&command, many.data, NULL), KVS_OK);
    assert_int_equal(values.layers.count, KVSI_LIST_MAX);
    kvsi_text_add(&many, ",1");
    parse(&command, many.data, NULL);
    assert_refused("option '--layers': expected at most 64 numbers, found more");
    kvsi_text_release(&many);
}

static void arguments_that_must_be_there(void **state)
{
    kvsi_command_options needy = command;

    (void)state;
    needy.min_arguments = 1;
    parse(&needy, "--quiet", NULL);
    assert_refused("expected at least 1 RUN, found 0; see 'kvshift try --help'");
    assert_int_equal(parse(&needy, "--quiet", "x", NULL), KVS_OK);
}

static void the_environment_comes_before_the_line(void **state)
{
    (void)state;
    setenv("KVSHIFT_KV_HEADS", "2", 1);
    setenv("KVSHIFT_QUIET", "yes", 1);
    setenv("KVSHIFT_WINDOW", "2", 1);
    setenv("KVSHIFT_OUT", "", 1); /* like not set */
    assert_int_equal(parse(&command, "--window", "3", NULL), KVS_OK);
    assert_int_equal(values.kv_heads, 2);
    assert_int_equal(values.quiet, 1);
    assert_int_equal(values.window, 3);
    assert_null(values.out);
    assert_int_equal(parsed.source[KV_HEADS], KVSI_FROM_ENVIRONMENT);
    assert_int_equal(parsed.source[WINDOW], KVSI_FROM_COMMAND_LINE);
    assert_int_equal(parsed.source[OUT], KVSI_FROM_DEFAULT);
    setenv("KVSHIFT_QUIET", "perhaps", 1);
    parse(&command, NULL);
    assert_refused("environment variable 'KVSHIFT_QUIET': expected yes or no, found 'perhaps'");
    unsetenv("KVSHIFT_KV_HEADS");
    unsetenv("KVSHIFT_QUIET");
    unsetenv("KVSHIFT_WINDOW");
    unsetenv("KVSHIFT_OUT");
}

static void help_is_had_on_any_line(void **state)
{
    (void)state;
    assert_int_equal(parse(&command, "--window", "2", "--nonsense", "-h", NULL), KVS_OK);
    assert_true(parsed.help);
    assert_int_equal(values.window, 1); /* still the default that the help shows */
    assert_int_equal(parse(&command, "--", "--help", NULL), KVS_OK);
    assert_false(parsed.help);
}

static void help_shows_the_table(void **state)
{
    static const char *const parts[] = {
        "usage: kvshift try [OPTION]... [RUN...]\n",
        "  --window N              reach, 1 to 3 (default: 1)\n",
        "  --kv-heads N            heads (default: as many as heads)\n",
        "  --rate X                rate (default: 0.001)\n",
        "  --out DIR               folder\n",
        "  --shift NAME            kind: none, k or kv (default: kv)\n",
        "  --layers N,...          layers, 0 to 9 (default: all)\n",
        "  --quiet                 say nothing\n",
        "  -h, --help              show this help\n",
    };
    kvsi_text text = {0};

    (void)state;
    parse(&command, NULL);
    kvsi_options_help(&text, &command, &values, KVSI_HELP_ALL, 90);
    assert_int_equal(kvsi_text_check(&text, &err), KVS_OK);
    for (size_t i = 0; i < sizeof parts / sizeof *parts; i++) {
        if (!strstr(text.data, parts[i]))
            fail_msg("help lacks \"%s\":\n%s", parts[i], text.data);
    }
    kvsi_text_release(&text);
}

static void long_help_is_wrapped(void **state)
{
    const kvsi_setting wordy[] = {
        {ROW("rather-a-long-option-name", KVSI_SETTING_FLAG, quiet),
         .help = "one two three four five six seven eight nine ten eleven twelve thirteen fourteen "
                 "fifteen sixteen seventeen eighteen nineteen twenty"}};
    const kvsi_command_options one = {
        .command = "kvshift try", .purpose = "Tries things.", .tables = KVSI_OPTIONS(wordy)};
    kvsi_text text = {0};

    (void)state;
    kvsi_options_help(&text, &one, &values, KVSI_HELP_ALL, 90);
    for (const char *line = text.data; *line; line += strcspn(line, "\n") + 1)
        assert_true(strcspn(line, "\n") <= 90);
    assert_non_null(strstr(text.data, "-name\n                          one two"));
    assert_non_null(strstr(text.data, "twenty\n"));
    kvsi_text_release(&text);
}

static void too_many_options_are_refused(void **state)
{
    static kvsi_setting many[KVSI_OPTIONS_MAX + 1];
    const kvsi_command_options crowded = {.command = "kvshift try", .tables = KVSI_OPTIONS(many)};

    (void)state;
    for (size_t i = 0; i < sizeof many / sizeof *many; i++)
        many[i] = (kvsi_setting){ROW("quiet", KVSI_SETTING_FLAG, quiet), .help = "say nothing"};
    assert_int_equal(kvsi_options_set_defaults(&crowded, &values, sizeof values, &err),
                     KVS_E_LIMIT);
    assert_string_equal(err.message, "'kvshift try' has 257 options, at most 256 are allowed");
}

/* Lines of the source are joined; lines that start with a space are not. */
static void paragraphs_are_filled(void **state)
{
    const kvsi_setting row[] = {{ROW("quiet", KVSI_SETTING_FLAG, quiet), .help = "say nothing"}};
    const kvsi_command_options one = {
        .command = "kvshift try",
        .purpose = "Tries things.",
        .notes = "A first line that is too long for thirty columns,\nand a second (with brackets), "
                 "and\nmore.\n\n  kvshift try --quiet\n  kvshift try\n\nThe end.",
        .tables = KVSI_OPTIONS(row)};
    kvsi_text text = {0};

    (void)state;
    kvsi_options_help(&text, &one, &values, KVSI_HELP_ALL, 30);
    assert_non_null(strstr(text.data, "\nA first line that is too long\n"
                                      "for thirty columns, and a\n"
                                      "second (with brackets), and\n"
                                      "more.\n"
                                      "\n"
                                      "  kvshift try --quiet\n"
                                      "  kvshift try\n"
                                      "\n"
                                      "The end.\n"));
    kvsi_text_release(&text);
}

static int release(void **state)
{
    (void)state;
    kvsi_options_release(&parsed);
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_kind_is_read),
        cmocka_unit_test(the_last_one_wins_and_dashes_end_options),
        cmocka_unit_test(misuse_is_explained),
        cmocka_unit_test(what_is_no_number_is_refused),
        cmocka_unit_test(lists_are_read),
        cmocka_unit_test(texts_add_up),
        cmocka_unit_test(what_is_no_list_is_refused),
        cmocka_unit_test(arguments_that_must_be_there),
        cmocka_unit_test(the_environment_comes_before_the_line),
        cmocka_unit_test(help_is_had_on_any_line),
        cmocka_unit_test(help_shows_the_table),
        cmocka_unit_test(long_help_is_wrapped),
        cmocka_unit_test(too_many_options_are_refused),
        cmocka_unit_test(paragraphs_are_filled),
    };

    return cmocka_run_group_tests(tests, NULL, release);
}
