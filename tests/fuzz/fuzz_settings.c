/* Configuration files of commands, TOML and JSON; what is printed of them is read again. */
#include "base/options_config.h"
#include "fuzz.h"

#include <string.h>

typedef struct settings {
    int quiet;
    size_t window;
    uint64_t seed;
    double rate;
    const char *out, *shift;
    kvsi_number_list layers, slopes;
} settings;

static const char *const shifts[] = {"none", "k", "kv", NULL};

#define ROW(title, type, member, in)                                                               \
    .name = (title), .kind = (type), .offset = offsetof(settings, member), .group = (in),          \
    .placeholder = "N", .help = "says " title

static const kvsi_option options[] = {
    {ROW("window", KVSI_OPTION_SIZE, window, "The model"), .low = 1, .high = 3},
    {ROW("shift", KVSI_OPTION_CHOICE, shift, "The model"), .choices = shifts},
    {ROW("layers", KVSI_OPTION_SIZES, layers, "The model"), .high = 9, .automatic = "all"},
    {ROW("slopes", KVSI_OPTION_REALS, slopes, "The model"), .automatic = "a series"},
    {ROW("rate", KVSI_OPTION_REAL, rate, "Run")},
    {ROW("seed", KVSI_OPTION_UINT64, seed, "Run")},
    {ROW("quiet", KVSI_OPTION_FLAG, quiet, "Run")},
    {ROW("out", KVSI_OPTION_TEXT, out, "Run"), .automatic = "keep nothing"},
};

static const kvsi_command_options command = {.command = "kvshift try",
                                             .purpose = "Tries things.",
                                             .options = options,
                                             .count = sizeof options / sizeof *options,
                                             .takes_config = 1};

static kvs_status read_settings(settings *s, kvsi_parsed_options *parsed, const char *path,
                                kvs_err *err)
{
    char option[] = "--config";
    char *words[] = {option, (char *)path};

    *s = (settings){.window = 1, .rate = 0.001, .shift = shifts[2]};
    return kvsi_options_parse(parsed, &command, s, 2, words, err);
}

kvs_status fuzz_run(const char *data, size_t size, kvs_err *err)
{
    kvsi_parsed_options parsed = {0}, again = {0};
    kvsi_text printed = {0}, printed_again = {0};
    settings s, t;
    kvs_status st;

    fuzz_write("settings", data, size);
    st = read_settings(&s, &parsed, "settings", err);
    if (st == KVS_OK) {
        kvsi_options_print_config(&printed, &command, &s, &parsed);
        fuzz_write("printed", printed.data, printed.length);
        fuzz_expect(read_settings(&t, &again, "printed", err) == KVS_OK, err->message);
        kvsi_options_print_config(&printed_again, &command, &t, &again);
        /* Both say where values come from, in comments. */
        fuzz_expect(s.window == t.window && s.seed == t.seed && s.quiet == t.quiet &&
                        s.shift == t.shift && memcmp(&s.rate, &t.rate, sizeof s.rate) == 0 &&
                        memcmp(&s.layers, &t.layers, sizeof s.layers) == 0 &&
                        memcmp(&s.slopes, &t.slopes, sizeof s.slopes) == 0 &&
                        (s.out ? t.out && strcmp(s.out, t.out) == 0 : !t.out),
                    "settings come back as they were printed");
    }
    kvsi_text_release(&printed);
    kvsi_text_release(&printed_again);
    kvsi_options_release(&parsed);
    kvsi_options_release(&again);
    return st;
}

void fuzz_seeds(void)
{
    fuzz_seed_text("toml", "# all of it\nout = \"a \\\"b\\\" \\u00e9\"\n[the-model]\nwindow = 3\n"
                           "shift = 'k'\nlayers = [0,\n 9, ]\nslopes = [0.5, 2e1]\n[run]\n"
                           "rate = 1_000\r\nquiet = true\nseed = 18446744073709551615\n");
    fuzz_seed_text("json", "{\"the-model\": {\"layers\": [1], \"slopes\": [1.5, 2]}, "
                           "\"out\": \"\\u00e9\", \"run\": {\"quiet\": false, \"rate\": 1e-9}}");
}
