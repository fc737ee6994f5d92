/* Configuration files of commands, TOML and JSON; printed settings are read again. */
#include "cli/options/options_config.h"
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

static const kvsi_setting options[] = {
    {ROW("window", KVSI_SETTING_SIZE, window, "The model"), .low = 1, .high = 3},
    {ROW("shift", KVSI_SETTING_CHOICE, shift, "The model"), .choices = shifts},
    {ROW("layers", KVSI_SETTING_SIZES, layers, "The model"), .high = 9, .automatic = "all"},
    {ROW("slopes", KVSI_SETTING_REALS, slopes, "The model"), .automatic = "a series"},
    {ROW("rate", KVSI_SETTING_REAL, rate, "Run")},
    {ROW("seed", KVSI_SETTING_UINT64, seed, "Run")},
    {ROW("quiet", KVSI_SETTING_FLAG, quiet, "Run")},
    {ROW("out", KVSI_SETTING_TEXT, out, "Run"), .automatic = "keep nothing"},
};

static const kvsi_command_options command = {.command = "kvshift try",
                                             .purpose = "Tries things.",
                                             .tables = KVSI_OPTIONS(options),
                                             .takes_config = 1};

static kvs_status read_settings(settings *s, kvsi_parsed_options *parsed, const char *path,
                                kvs_err *err)
{
    char option[] = "--config";
    char *words[] = {option, (char *)path};

    *s = (settings){.window = 1, .rate = 0.001, .shift = shifts[2]};
    return kvsi_options_parse(parsed, &command, s, 2, words, err);
}

static int same(const settings *a, const settings *b)
{
    return a->window == b->window && a->seed == b->seed && a->quiet == b->quiet &&
           a->shift == b->shift && memcmp(&a->rate, &b->rate, sizeof a->rate) == 0 &&
           memcmp(&a->layers, &b->layers, sizeof a->layers) == 0 &&
           memcmp(&a->slopes, &b->slopes, sizeof a->slopes) == 0 &&
           (a->out ? b->out && strcmp(a->out, b->out) == 0 : !b->out);
}

kvs_status fuzz_run(const char *data, size_t size, kvs_err *err)
{
    kvsi_parsed_options parsed = {0}, parsed_again = {0};
    settings found, again;
    kvsi_text printed = {0};
    kvs_status st;

    fuzz_write("settings", data, size);
    st = read_settings(&found, &parsed, "settings", err);
    if (st == KVS_OK) {
        kvsi_options_print_config(&printed, &command, &found, &parsed);
        fuzz_write("printed", printed.data, printed.length);
        fuzz_expect(read_settings(&again, &parsed_again, "printed", err) == KVS_OK, err->message);
        fuzz_expect(same(&found, &again), "settings come back as they were printed");
    }
    kvsi_text_release(&printed);
    kvsi_options_release(&parsed);
    kvsi_options_release(&parsed_again);
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
