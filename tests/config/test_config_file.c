/* Configuration files: accepted values, errors with their position, and printed settings that are
 * read back unchanged. */
#include "base/files.h"
#include "base/memory.h"
#include "cli/options/config_file.h"
#include "cli/options/options_config.h"
#include "support.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* ---- the reader ---- */

static char path[] = "/tmp/kvshift-settings-XXXXXX";
static kvs_err err;

static void write_bytes(const char *text, size_t size)
{
    FILE *file = fopen(path, "wb");

    assert_non_null(file);
    assert_int_equal(fwrite(text, 1, size, file), size);
    assert_int_equal(fclose(file), 0);
}

static kvs_status note(void *user, const kvsi_config_entry *s, kvs_err *error)
{
    static const char *const kinds[] = {"text", "whole", "real", "boolean", "numbers"};
    kvsi_text *notes = user;

    (void)error;
    kvsi_text_format(notes, "%zu %s", s->line, s->section ? s->section : "-");
    if (s->key)
        kvsi_text_format(notes, ".%s %s <%s>", s->key, kinds[s->kind], s->value);
    kvsi_text_add(notes, "\n");
    return KVS_OK;
}

static kvs_status read_bytes(kvsi_text *notes, const char *text, size_t size)
{
    write_bytes(text, size);
    kvsi_text_add(notes, "");
    return kvsi_config_file_read(path, note, notes, &err);
}

static void assert_read(const char *text, const char *expected)
{
    kvsi_text notes = {0};

    if (read_bytes(&notes, text, strlen(text)) != KVS_OK)
        fail_msg("'%s' is refused: %s", text, err.message);
    assert_string_equal(notes.data, expected);
    kvsi_text_release(&notes);
}

/* The message is the file's path, then `message`. */
static void assert_message(const char *message)
{
    if (strncmp(err.message, path, strlen(path)) != 0 ||
        strcmp(err.message + strlen(path), message) != 0)
        fail_msg("expected PATH%s, found %s", message, err.message);
}

static void assert_refused(const char *text, const char *message)
{
    kvsi_text notes = {0};

    if (read_bytes(&notes, text, strlen(text)) == KVS_OK)
        fail_msg("'%s' is accepted: %s", text, notes.data);
    assert_message(message);
    kvsi_text_release(&notes);
}

static void toml_is_read(void **state)
{
    (void)state;
    assert_read("", "");
    assert_read("# nothing\n\n  \t# at all", "");
    assert_read("steps = 600 # six hundred\r\nlr=2e-3\n", "1 -.steps whole <600>\n"
                                                          "2 -.lr real <2e-3>\n");
    assert_read("a = 1\n[ one ] # section\n  b_c-9 = +1_000\n[two]\n", "1 -.a whole <1>\n"
                                                                       "2 one\n"
                                                                       "3 one.b_c-9 whole <1000>\n"
                                                                       "4 two\n");
    assert_read("a = -1.5E+3\nb = true\nc = false\nd = 0\ne = 0.5", "1 -.a real <-1.5E+3>\n"
                                                                    "2 -.b boolean <true>\n"
                                                                    "3 -.c boolean <false>\n"
                                                                    "4 -.d whole <0>\n"
                                                                    "5 -.e real <0.5>\n");
    assert_read("a = [1, 2.5,\n  # more\n -3e1 ,\n]\nb = []\n", "1 -.a numbers <1,2.5,-3e1>\n"
                                                                "5 -.b numbers <>\n");
    assert_read("\xef\xbb\xbf"
                "a = 1\n",
                "1 -.a whole <1>\n");
}

static void toml_strings_are_read(void **state)
{
    (void)state;
    assert_read("a = \"x # \\\"y\\\" \\\\ \\t\"", "1 -.a text <x # \"y\" \\ \t>\n");
    assert_read("a = 'C:\\new # \"'", "1 -.a text <C:\\new # \">\n");
    assert_read("a = \"\"\nb = ''", "1 -.a text <>\n2 -.b text <>\n");
    assert_read("a = \"\\u00e9\\u20AC\\U0001F600\"",
                "1 -.a text <\xc3\xa9\xe2\x82\xac\xf0\x9f\x98\x80>\n");
    assert_read("a = \"\xc3\xa9\"", "1 -.a text <\xc3\xa9>\n");
}

static void what_is_not_our_toml_is_refused(void **state)
{
    static const char number[] = "expected a number, \"text\", true, false or an array of numbers";
    static const char *const values[] = {"",     "x",    "07",     "1.",         ".5",   "1e",
                                         "0x10", "1__0", "_1",     "1_",         "+",    "inf",
                                         "nan",  "True", "truely", "2024-01-01", "{a=1}"};

    (void)state;
    for (size_t i = 0; i < sizeof values / sizeof *values; i++) {
        char text[64], message[160];
        const int empty = !*values[i];

        snprintf(text, sizeof text, "# first\na = %s\n", values[i]);
        snprintf(message, sizeof message, ":2: %s, found %s%s%s", number, empty ? "" : "'",
                 empty ? "the end of the line" : values[i], empty ? "" : "'");
        assert_refused(text, message);
    }
    assert_refused("a", ":1: expected =, found the end of the file");
    assert_refused("a.b = 1", ":1: expected =, found '.b = 1'");
    assert_refused("= 1", ":1: expected a key, a [section] or a # comment, found '= 1'");
    assert_refused("\"a\" = 1",
                   ":1: expected a key, a [section] or a # comment, found '\"a\" = 1'");
    assert_refused("a = 1 b = 2", ":1: expected the end of the line, found 'b = 2'");
    assert_refused("\n[a] b", ":2: expected the end of the line, found 'b'");
    assert_refused("[a", ":1: expected ], found the end of the file");
    assert_refused("[a.b]", ":1: expected ], found '.b]'");
    assert_refused("[[a]]", ":1: expected the name of a section, found '[a]]'");
    assert_refused("a = [1\n2]", ":2: expected , or ], found '2]'");
    assert_refused("a = [1,", ":1: expected a number or ], found the end of the file");
    assert_refused("a = [\"x\"]", ":1: expected a number or ], found '\"x\"]'");
    assert_refused("a = [[1]]", ":1: expected a number or ], found '[1]]'");
    assert_refused("a = \"x\nb = 1", ":1: expected a closing \", found the end of the line");
    assert_refused("a = 'x", ":1: expected a closing ', found the end of the file");
    assert_refused("a = \"\"\"x\"\"\"", ":1: expected text on one line, found '\"\"\"x\"\"\"'");
    assert_refused("a = \"\\q\"", ":1: expected an escape such as \\n or \\\\, found '\\q\"'");
    assert_refused("a = \"\\u00g0\"", ":1: expected hexadecimal digits, found '00g0\"'");
    assert_refused("a = \"\\u0000\"", ":1: expected a character's number, found '0000\"'");
    assert_refused("a = \"\\ud800\"", ":1: expected a character's number, found 'd800\"'");
    assert_refused("a = \"\\U00110000\"", ":1: expected a character's number, found '00110000\"'");
}

static void json_is_read(void **state)
{
    (void)state;
    assert_read("{}", "");
    assert_read("{\n \"a\": 1, \"b\": 2.50,\n \"c\": true, \"d\": \"x\\u00e9\\\\\"\n}",
                "2 -.a whole <1>\n2 -.b real <2.50>\n3 -.c boolean <true>\n"
                "3 -.d text <x\xc3\xa9\\>\n");
    assert_read("{\"one\": {},\n\"two\": {\"a\":\n [1,\n 2e-3], \"b\": false},\n \"c\": []}",
                "1 one\n2 two\n2 two.a numbers <1,2e-3>\n4 two.b boolean <false>\n"
                "5 -.c numbers <>\n");
}

static void what_is_not_our_json_is_refused(void **state)
{
    static const char expected[] =
        "expected text, a number, true, false or an array of numbers, found";
    char message[160];

    (void)state;
    snprintf(message, sizeof message, ":2: key 'a': %s null", expected);
    assert_refused("{\n\"a\": null}", message);
    snprintf(message, sizeof message, ":1: key 'a': %s another array", expected);
    assert_refused("{\"a\": [1, \"x\"]}", message);
    snprintf(message, sizeof message, ":3: key 'b': %s an object", expected);
    assert_refused("{\"a\":\n{\n\"b\": {\"c\": 1}}}", message);
    assert_int_equal(err.status, KVS_E_INVALID);
    for (int i = 0; i < 3; i++) { /* jansson's message, with line and column */
        static const char *const bad[] = {"{\"a\": 1", "{\"a\": 1, \"a\": 2}", "{\"a\": 1} x"};
        kvsi_text notes = {0};

        assert_int_equal(read_bytes(&notes, bad[i], strlen(bad[i])), KVS_E_FORMAT);
        assert_non_null(strstr(err.message, "malformed JSON at line 1, column "));
        assert_string_equal(notes.data, ""); /* the callback was not called */
        kvsi_text_release(&notes);
    }
}

static void hostile_bytes_are_refused(void **state)
{
    static const struct {
        const char *bytes;
        size_t size;
        const char *message;
    } cases[] = {{"a = 1\nb\0 = 1", 12, ":2: expected text, found byte 0x00"},
                 {"a = \"\x1b\"", 7, ":1: expected text, found byte 0x1b"},
                 {"# \x7f", 3, ":1: expected text, found byte 0x7f"},
                 {"a\r= 1\n", 6, ":1: expected text, found byte 0x0d"},
                 {"a = 1\r", 6, ":1: expected text, found byte 0x0d"},
                 {"# \xff", 3, ":1: expected UTF-8, found other bytes"},
                 {"\n\na = \"\xc0\x80\"", 10, ":3: expected UTF-8, found other bytes"},
                 {"# \xed\xa0\x80", 5, ":1: expected UTF-8, found other bytes"}};
    static char large[KVSI_CONFIG_FILE_LIMIT + 1];

    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        kvsi_text notes = {0};

        assert_int_equal(read_bytes(&notes, cases[i].bytes, cases[i].size), KVS_E_FORMAT);
        assert_message(cases[i].message);
        kvsi_text_release(&notes);
    }
    memset(large, '\n', sizeof large);
    write_bytes(large, sizeof large);
    assert_int_equal(kvsi_config_file_read(path, note, NULL, &err), KVS_E_LIMIT);
    write_bytes(large, sizeof large - 1);
    assert_int_equal(kvsi_config_file_read(path, note, NULL, &err), KVS_OK);
    assert_int_equal(kvsi_config_file_read("/nonexistent/x.toml", note, NULL, &err), KVS_E_IO);
}

/* A file that is truncated or changed anywhere is accepted, or refused with a message that names
 * it; no byte outside it is read. */
static void damage_does_no_harm(void **state)
{
    static const char *const good[] = {
        "a = \"x\\u00e9\" # y\n[s]\nb = [1, 2.5e3,\n 3]\nc = true\nd = 'z'\n",
        "{\"a\": \"x\\u00e9\", \"s\": {\"b\": [1, 2.5e3], \"c\": true}, \"d\": -1}"};
    static const char bytes[] = "\"'[]{}=,:#\\\n\r0._-xeE+ \xff";
    size_t taken = 0, refused = 0;

    (void)state;
    for (size_t g = 0; g < sizeof good / sizeof *good; g++) {
        const size_t size = strlen(good[g]);

        for (size_t at = 0; at < size; at++)
            for (size_t b = 0; b < sizeof bytes; b++) {
                char *damaged = kvsi_alloc(size, 1); /* exact, so that sanitizers see overruns */
                const size_t kept = b == sizeof bytes - 1 ? at : size;
                kvsi_text notes = {0};
                kvs_status st;

                memcpy(damaged, good[g], size);
                damaged[at] = bytes[b];
                err.message[0] = '\0';
                st = read_bytes(&notes, damaged, kept);
                if (st != KVS_OK) {
                    assert_int_equal(st, KVS_E_FORMAT);
                    if (!strstr(err.message, path))
                        fail_msg("'%s' does not name the file", err.message);
                    refused++;
                } else
                    taken++;
                kvsi_text_release(&notes);
                kvsi_free(damaged);
            }
    }
    assert_true(taken > 0 && refused > taken);
}

/* ---- options ---- */

typedef struct settings {
    int quiet;
    size_t window, kv_heads;
    uint64_t seed;
    double rate;
    const char *out, *shift;
    kvsi_number_list layers, slopes;
} settings;

static const char *const shifts[] = {"none", "k", "kv", NULL};

#define ROW(title, type, member, in)                                                               \
    .name = (title), .kind = (type), .offset = offsetof(settings, member), .group = (in),          \
    .placeholder = "N", .help = "says " title

static const kvsi_setting options[] = {
    {ROW("window", KVSI_SETTING_SIZE, window, "The model"), .low = 1, .high = 3},
    {ROW("kv-heads", KVSI_SETTING_SIZE, kv_heads, "The model"), .automatic = "as many as heads"},
    {ROW("shift", KVSI_SETTING_CHOICE, shift, "The model"), .choices = shifts},
    {ROW("layers", KVSI_SETTING_SIZES, layers, "The model"), .high = 9, .automatic = "all"},
    {ROW("slopes", KVSI_SETTING_REALS, slopes, "The model")},
    {ROW("rate", KVSI_SETTING_REAL, rate, "Run")},
    {ROW("seed", KVSI_SETTING_UINT64, seed, "Run")},
    {ROW("quiet", KVSI_SETTING_FLAG, quiet, "Run")},
    {ROW("out", KVSI_SETTING_TEXT, out, "Run"), .automatic = "keep nothing"},
};

enum { WINDOW, KV_HEADS, SHIFT, LAYERS, SLOPES, RATE, SEED, QUIET, OUT, OPTIONS };

static const kvsi_command_options command = {.command = "kvshift try",
                                             .purpose = "Tries things.",
                                             .tables = KVSI_OPTIONS(options),
                                             .takes_config = 1};

static settings values;
static kvsi_parsed_options parsed;

/* Parses --config PATH with `text` in it, and up to two more words. */
static kvs_status parse(const char *text, const char *more, const char *still)
{
    char option[] = "--config";
    char *words[] = {option, path, (char *)more, (char *)still};

    write_bytes(text, strlen(text));
    kvsi_options_release(&parsed);
    values = (settings){.window = 1, .rate = 0.001, .shift = shifts[2]};
    return kvsi_options_parse(&parsed, &command, &values, more ? still ? 4 : 3 : 2, words, &err);
}

static void every_kind_is_set_by_a_file(void **state)
{
    (void)state;
    assert_int_equal(parse("out = \"a b\"\n[the-model]\nwindow = 3\nkv_heads = 2\nshift = \"k\"\n"
                           "layers = [0, 9]\nslopes = [0.5, 2]\n[run]\nrate = 1\nquiet = true\n"
                           "seed = 18446744073709551615\n",
                           NULL, NULL),
                     KVS_OK);
    assert_int_equal(values.window, 3);
    assert_int_equal(values.kv_heads, 2);
    assert_ptr_equal(values.shift, shifts[1]);
    assert_int_equal(values.layers.count, 2);
    assert_true(values.layers.numbers[1] == 9);
    assert_true(values.slopes.numbers[0] == 0.5);
    assert_true(values.rate == 1);
    assert_int_equal(values.quiet, 1);
    assert_true(values.seed == UINT64_MAX);
    assert_string_equal(values.out, "a b");
    for (size_t i = 0; i < OPTIONS; i++)
        assert_int_equal(parsed.source[i], KVSI_FROM_FILE);
    assert_int_equal(parsed.line[OUT], 1);
    assert_int_equal(parsed.line[SLOPES], 7);

    assert_int_equal(parse("{\"the-model\": {\"layers\": [1]}, \"out\": \"\\u00e9\"}", NULL, NULL),
                     KVS_OK);
    assert_int_equal(values.layers.count, 1);
    assert_string_equal(values.out, "\xc3\xa9");
    assert_int_equal(parsed.source[RATE], KVSI_FROM_DEFAULT);
}

static void the_line_beats_the_environment_beats_the_file(void **state)
{
    (void)state;
    setenv("KVSHIFT_WINDOW", "2", 1);
    setenv("KVSHIFT_KV_HEADS", "5", 1);
    assert_int_equal(parse("window = 3\nkv-heads = 4\nrate = 0.5\n", "--window", "1"), KVS_OK);
    assert_int_equal(values.window, 1);
    assert_int_equal(values.kv_heads, 5);
    assert_true(values.rate == 0.5);
    assert_int_equal(parsed.source[WINDOW], KVSI_FROM_COMMAND_LINE);
    assert_int_equal(parsed.source[KV_HEADS], KVSI_FROM_ENVIRONMENT);
    assert_int_equal(parsed.source[RATE], KVSI_FROM_FILE);
    unsetenv("KVSHIFT_WINDOW");
    unsetenv("KVSHIFT_KV_HEADS");

    setenv("KVSHIFT_CONFIG", path, 1);
    write_bytes("window = 2\n", 11);
    kvsi_options_release(&parsed);
    values = (settings){.window = 1};
    assert_int_equal(kvsi_options_parse(&parsed, &command, &values, 0, NULL, &err), KVS_OK);
    assert_int_equal(values.window, 2);
    unsetenv("KVSHIFT_CONFIG");
}

static void wrong_settings_are_explained(void **state)
{
    static const struct {
        const char *text, *message;
    } cases[] = {
        {"\nwindwo = 1", ":2: unknown key 'windwo'; did you mean 'window'?"},
        {"xyzzy = 1", ":1: unknown key 'xyzzy'; see 'kvshift try --help'"},
        {"[the-modle]\n", ":1: unknown section 'the-modle'; did you mean 'the-model'?"},
        {"{\"xyzzy\": {}}", ":1: unknown section 'xyzzy'; see 'kvshift try --help'"},
        {"[run]\n[the_model]\n[run]", ":3: section 'run' is already on line 1"},
        {"kv-heads = 1\nkv_heads = 1", ":2: key 'kv_heads' is already on line 1"},
        {"[run]\nwindow = 1",
         ":2: key 'window': expected in section 'the-model', found in section 'run'"},
        {"config = \"x\"", ":1: key 'config' is not allowed in a file, only on the command line"},
        {"print_config = \"values\"",
         ":1: key 'print_config' is not allowed in a file, only on the command line"},
        {"help = true", ":1: key 'help' is not allowed in a file, only on the command line"},
        {"window = 4", ":1: key 'window': expected a whole number from 1 to 3, found '4'"},
        {"window = -1", ":1: key 'window': expected a whole number from 1 to 3, found '-1'"},
        {"window = 1.0", ":1: key 'window': expected a whole number, found 1.0"},
        {"window = \"1\"", ":1: key 'window': expected a whole number, found the text '1'"},
        {"rate = true", ":1: key 'rate': expected a number, found true"},
        {"rate = 1e999", ":1: key 'rate': expected a number of at least 0, found '1e999'"},
        {"quiet = 1", ":1: key 'quiet': expected true or false, found 1"},
        {"out = 1", ":1: key 'out': expected text in quotes, found 1"},
        {"out = \"\"", ":1: key 'out': expected a text, found nothing"},
        {"shift = \"vk\"", ":1: key 'shift': expected none, k or kv, found 'vk'"},
        {"layers = 1", ":1: key 'layers': expected an array of whole numbers, found 1"},
        {"layers = [1, 2.5]", ":1: key 'layers': expected a whole number from 0 to 9, found '2.5'"},
        {"window = [1]", ":1: key 'window': expected a whole number, found an array"},
        {"slopes = []", ":1: key 'slopes': expected a number of at least 0, found ''"},
    };

    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        if (parse(cases[i].text, NULL, NULL) != KVS_E_INVALID)
            fail_msg("'%s' is accepted", cases[i].text);
        assert_message(cases[i].message);
    }
    /* Also if another value overrides it. */
    assert_int_equal(parse("window = 4", "--window", "1"), KVS_E_INVALID);
    assert_int_equal(parse("layers = [1, 10]", "--layers", "1"), KVS_E_INVALID);
    assert_int_equal(parse("out = \"\"", "--out", "x"), KVS_E_INVALID);
    assert_int_equal(parse("", "--config", path), KVS_E_INVALID);
    assert_string_equal(err.message, "option '--config' is given twice, expected one file");
}

static void a_long_list_is_refused(void **state)
{
    kvsi_text many = {0};

    (void)state;
    kvsi_text_add(&many, "layers = [");
    for (int i = 0; i <= KVSI_LIST_MAX; i++)
        kvsi_text_add(&many, "1, ");
    kvsi_text_add(&many, "]");
    assert_int_equal(parse(many.data, NULL, NULL), KVS_E_INVALID);
    assert_message(":1: key 'layers': expected at most 64 numbers, found more");
    kvsi_text_release(&many);
}

/* ---- printing ---- */

typedef void printer(kvsi_text *text, const kvsi_command_options *command, const void *settings,
                     const kvsi_parsed_options *parsed);

static void assert_comes_back(printer *print)
{
    const settings before = values;
    char *const out = values.out ? kvsi_strdup(values.out) : NULL;
    kvsi_text text = {0};

    print(&text, &command, &values, &parsed);
    assert_int_equal(kvsi_text_check(&text, &err), KVS_OK);
    if (parse(text.data, NULL, NULL) != KVS_OK)
        fail_msg("%s\n%s", err.message, text.data);
    assert_memory_equal(&values, &before, offsetof(settings, out));
    assert_string_equal(values.shift, before.shift);
    assert_memory_equal(&values.layers, &before.layers, sizeof values.layers);
    assert_memory_equal(&values.slopes, &before.slopes, sizeof values.slopes);
    assert_int_equal(values.out != NULL, out != NULL);
    if (out)
        assert_string_equal(values.out, out);
    kvsi_text_release(&text);
    kvsi_free(out);
}

static void what_is_printed_is_read_back(void **state)
{
    static const double rates[] = {0,          1,         0.1,  1.0 / 3,
                                   1e-300,     123456789, 1e22, 2.2250738585072011e-308,
                                   M_PI * 1e5, 0x1p-1074};

    (void)state;
    for (size_t i = 0; i < sizeof rates / sizeof *rates; i++) {
        assert_int_equal(parse("slopes = [1, 0.1]\nlayers = []\nout = \"\\u00e9 \\\"\\\\\\n#'\"\n",
                               "--seed", "18446744073709551615"),
                         KVS_OK);
        values.rate = values.slopes.numbers[1] = rates[i];
        assert_comes_back(kvsi_options_print_config);
        assert_int_equal(parse("slopes = [3]", "--quiet", NULL), KVS_OK);
        values.rate = rates[i];
        assert_comes_back(kvsi_options_explain_config);
    }
}

static void sources_are_told(void **state)
{
    static const char *const lines[] = {
        "[the-model]\nwindow = 2                         # environment KVSHIFT_WINDOW\n",
        "kv-heads = 0                       # default: as many as heads\n",
        "shift = \"k\"                        # command line\n",
        "\n[run]\nrate = 0.5                         # file /tmp/kvshift-settings-",
        ":2\n",
        "# out is not set: keep nothing\n",
        "seed = 7                           # preset one?line\n",
    };
    kvsi_text text = {0};

    (void)state;
    setenv("KVSHIFT_WINDOW", "2", 1);
    assert_int_equal(parse("\nrate = 0.5\nslopes = [1]", "--shift", "k"), KVS_OK);
    unsetenv("KVSHIFT_WINDOW");
    {
        const settings before = values;

        values.seed = 7;
        parsed.preset = "one\nline";
        kvsi_options_mark_changes(&parsed, &command, &before, &values, KVSI_FROM_PRESET);
    }
    kvsi_options_print_config(&text, &command, &values, &parsed);
    for (size_t i = 0; i < sizeof lines / sizeof *lines; i++)
        if (!strstr(text.data, lines[i]))
            fail_msg("\"%s\" is missing:\n%s", lines[i], text.data);
    text.length = 0;
    values.out = "\xff"; /* cannot be written to such a file */
    kvsi_options_print_config(&text, &command, &values, &parsed);
    assert_non_null(strstr(text.data, "\n# out = ?"));
    kvsi_text_release(&text);
}

static void the_schema_has_every_key(void **state)
{
    json_t *schema, *properties, *section;

    (void)state;
    assert_int_equal(parse("slopes = [1]", NULL, NULL), KVS_OK);
    schema = kvsi_options_schema(&command, &values);
    properties = json_object_get(schema, "properties");
    section = json_object_get(json_object_get(properties, "the-model"), "properties");
    assert_int_equal(json_object_size(properties), OPTIONS + 2);
    assert_int_equal(json_object_size(section), 5);
    for (size_t i = 0; i < OPTIONS; i++)
        assert_non_null(json_object_get(properties, options[i].name));
    assert_true(json_number_value(json_object_get(json_object_get(section, "window"), "maximum")) ==
                3);
    assert_int_equal(json_array_size(json_object_get(json_object_get(section, "shift"), "enum")),
                     3);
    assert_true(json_is_false(json_object_get(schema, "additionalProperties")));
    json_decref(schema);
}

static int make_file(void **state)
{
    const int fd = mkstemp(path);

    (void)state;
    return fd < 0 ? -1 : close(fd);
}

static int remove_file(void **state)
{
    (void)state;
    kvsi_options_release(&parsed);
    return unlink(path);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(toml_is_read),
        cmocka_unit_test(toml_strings_are_read),
        cmocka_unit_test(what_is_not_our_toml_is_refused),
        cmocka_unit_test(json_is_read),
        cmocka_unit_test(what_is_not_our_json_is_refused),
        cmocka_unit_test(hostile_bytes_are_refused),
        cmocka_unit_test(damage_does_no_harm),
        cmocka_unit_test(every_kind_is_set_by_a_file),
        cmocka_unit_test(the_line_beats_the_environment_beats_the_file),
        cmocka_unit_test(wrong_settings_are_explained),
        cmocka_unit_test(a_long_list_is_refused),
        cmocka_unit_test(what_is_printed_is_read_back),
        cmocka_unit_test(sources_are_told),
        cmocka_unit_test(the_schema_has_every_key),
    };

    return cmocka_run_group_tests(tests, make_file, remove_file);
}
