/* kvshift convert: converts a model to another format, or writes random weights. */
#include "cli/cli.h"
#include "cli/train_options.h"
#include "cli/watch.h"

#include <stdio.h>
#include <string.h>

typedef struct convert_settings {
    kvsi_train_settings model; /* of random weights; must be first, see train_options.h */
    const char *format, *dtype, *tokenizer, *shard_size;
    int overwrite, quiet;
} convert_settings;

/* ---- options --------------------------------------------------------------------------------- */

static const char *const format_names[] = {"auto",    "hf",         "gguf", "gguf-llama",
                                           "llama2c", "llama2c-v1", NULL};
static const char *const dtype_names[] = {"keep", "f32", "f16", "bf16", "q8_0", "q4_0", NULL};

#define FIELD(name) offsetof(convert_settings, name)

static const kvsi_option own_options[] = {
    {.name = "format",
     .kind = KVSI_OPTION_CHOICE,
     .offset = FIELD(format),
     .group = "Output",
     .placeholder = "NAME",
     .help = "auto: by the name of OUT, .gguf, .bin (llama2c), anything else is a folder (hf); "
             "gguf-llama refuses models that other programs would compute differently",
     .choices = format_names},
    {.name = "dtype",
     .kind = KVSI_OPTION_CHOICE,
     .offset = FIELD(dtype),
     .group = "Output",
     .placeholder = "NAME",
     .help =
         "type of the matrices; keep: that of IN; q8_0 and q4_0, 8.5 and 4.5 bits per value, are "
         "for GGUF",
     .choices = dtype_names},
    {.name = "shard-size",
     .kind = KVSI_OPTION_TEXT,
     .offset = FIELD(shard_size),
     .group = "Output",
     .placeholder = "SIZE",
     .help = "hf: maximum size of a file with weights, such as 500MB or 5GB",
     .automatic = "5GB"},
    {.name = "tokenizer",
     .letter = 't',
     .kind = KVSI_OPTION_TEXT,
     .offset = FIELD(tokenizer),
     .group = "Output",
     .placeholder = "FILE",
     .help = "the tokenizer to include; 'none' omits it",
     .automatic = "that of IN, if it has one"},
    {.name = "overwrite",
     .kind = KVSI_OPTION_FLAG,
     .offset = FIELD(overwrite),
     .group = "Output",
     .help = "replace an existing OUT: a file, or a folder with only a model"},
    {.name = "seed",
     .kind = KVSI_OPTION_UINT64,
     .offset = FIELD(model.train.seed),
     .group = "Run",
     .placeholder = "N",
     .help = "of random weights",
     .high = 999999999999999},
    {.name = "threads",
     .kind = KVSI_OPTION_SIZE,
     .offset = FIELD(model.threads),
     .group = "Run",
     .placeholder = "N",
     .help = "threads that draw random weights",
     .automatic = "every core",
     .high = 1024},
    {.name = "quiet",
     .kind = KVSI_OPTION_FLAG,
     .offset = FIELD(quiet),
     .group = "Run",
     .help = "show no progress"},
};

enum { OWN_OPTIONS = sizeof own_options / sizeof *own_options };
_Static_assert((int)OWN_OPTIONS <= (int)KVSI_OPTIONS_BESIDE_MODEL,
               "raise KVSI_OPTIONS_BESIDE_MODEL");

/* The table: the model options of 'kvshift train', then ours. */
static void make_command(kvsi_command_options *command, kvsi_option *table)
{
    const size_t count = kvsi_model_option_count();

    memcpy(table, kvsi_train_command.options, count * sizeof *table);
    memcpy(table + count, own_options, sizeof own_options);
    table[0].name = "random";
    table[0].group = "Random weights";
    table[0].help = "write random weights instead of IN: of a preset, one of paper-1.5b, -2.9b, "
                    "-6.7b, -13b, -19b, kvlm, desk-1m, -3m, -10m, -30m and -110m, or of a "
                    "config.json; the model options change it";
    for (size_t i = 1; i < count; i++)
        table[i].group = "Model, of random weights";
    *command = (kvsi_command_options){
        .command = "kvshift convert",
        .purpose =
            "Converts the model IN, of any supported format, to OUT, one tensor at a time; or, "
            "with --random and without IN, writes a new model.  OUT appears only when "
            "complete.",
        .notes =
            "Formats: hf is a folder with config.json and safetensors; a shifted Llama "
            "includes\nmodeling_kvshift.py, which runs it in transformers (trust_remote_code).  "
            "gguf is\narchitecture llama if that computes the same, otherwise kvshift.  llama2c "
            "is for plain\nLlama models.  See docs/formats.md.",
        .argument = "[IN] OUT",
        .min_arguments = 1,
        .max_arguments = 2,
        .options = table,
        .count = count + OWN_OPTIONS,
    };
}

/* ---- parsing --------------------------------------------------------------------------------- */

static kvs_status parse_size(uint64_t *out, const char *text, kvs_err *err)
{
    static const struct {
        const char *name;
        double factor;
    } units[] = {{"", 1}, {"B", 1}, {"KB", 1e3}, {"MB", 1e6}, {"GB", 1e9}, {"TB", 1e12}};
    char unit[3] = "";
    double number = 0;
    int used = 0;

    if (sscanf(text, "%lf%n", &number, &used) == 1 && strlen(text + used) < sizeof unit) {
        snprintf(unit, sizeof unit, "%s", text + used);
        for (size_t i = 0; i < sizeof units / sizeof *units; i++)
            if (strcmp(unit, units[i].name) == 0 && number * units[i].factor >= 1 &&
                number * units[i].factor < 1e18) {
                *out = (uint64_t)(number * units[i].factor);
                return KVS_OK;
            }
    }
    return kvsi_fail(err, KVS_E_INVALID,
                     "option '--shard-size': expected a size such as 500MB, found '%s'", text);
}

/* Either IN or --random must be given. */
static kvs_status check_input(const convert_settings *s, const kvsi_parsed_options *parsed,
                              const kvsi_command_options *command, kvs_err *err)
{
    const size_t models = s->model.preset ? 0 : kvsi_model_option_count();

    if (s->model.preset && parsed->argument_count == 2)
        return kvsi_fail(err, KVS_E_INVALID, "option '--random' takes no model, found '%s'",
                         parsed->arguments[0]);
    if (!s->model.preset && parsed->argument_count == 1)
        return kvsi_fail(err, KVS_E_INVALID,
                         "expected IN and OUT, found '%s' alone; see 'kvshift convert --help'",
                         parsed->arguments[0]);
    for (size_t i = 1; i < models; i++)
        if (parsed->source[i] == KVSI_FROM_COMMAND_LINE)
            return kvsi_fail(err, KVS_E_INVALID, "option '--%s' needs '--random'",
                             command->options[i].name);
    return KVS_OK;
}

static kvs_status make_options(kvs_convert_options *out, const convert_settings *s,
                               const kvsi_parsed_options *parsed, kvs_err *err)
{
    const int random = s->model.preset != NULL;

    kvs_convert_options_init(out);
    out->in = random ? NULL : parsed->arguments[0];
    out->out = parsed->arguments[random ? 0 : 1];
    out->config = random ? &s->model.model : NULL;
    out->seed = s->model.train.seed;
    out->threads = (int)s->model.threads;
    out->tokenizer = s->tokenizer;
    out->overwrite = s->overwrite;
    TRY(kvs_format_parse(&out->format, s->format, err));
    TRY(kvs_dtype_parse(&out->dtype, s->dtype, err));
    if (s->shard_size)
        TRY(parse_size(&out->shard_bytes, s->shard_size, err));
    return KVS_OK;
}

/* ---- the command ----------------------------------------------------------------------------- */

static int show_progress(void *user, uint64_t done, uint64_t all)
{
    kvsi_watch *watch = user;
    char time[32], line[96];
    double elapsed;

    if (!kvsi_watch_is_due(watch, &elapsed))
        return kvsi_watch_stopped();
    kvsi_format_duration(time, sizeof time, elapsed);
    snprintf(line, sizeof line, "writing %.0f %%  %.2f of %.2f GB  %s",
             100 * (double)done / (double)all, (double)done / 1e9, (double)all / 1e9, time);
    kvsi_watch_show(watch, line);
    return kvsi_watch_stopped();
}

static void show_remark(void *user, const char *text)
{
    const kvsi_watch *watch = user;

    if (!watch->quiet)
        fprintf(stderr, "%s\n", text);
}

static kvs_status convert(const convert_settings *s, const kvsi_parsed_options *parsed,
                          const kvsi_command_options *command, kvs_err *err)
{
    kvs_convert_options options;
    kvsi_watch watch;
    kvs_status st;

    TRY_OUT(check_input(s, parsed, command, err));
    TRY_OUT(make_options(&options, s, parsed, err));
    options.progress = show_progress;
    options.remark = show_remark;
    options.user = &watch;
    kvsi_watch_start(&watch, s->quiet);
    st = kvs_convert(&options, err);
    kvsi_watch_end(&watch);
out:
    return st;
}

int kvsi_cmd_convert(int argc, char **argv)
{
    convert_settings settings = {.format = format_names[0], .dtype = dtype_names[0]};
    kvsi_option table[KVSI_OPTIONS_MAX];
    kvsi_command_options command;
    kvsi_parsed_options parsed = {0};
    kvs_err err = {.status = KVS_OK};
    kvs_status st;

    make_command(&command, table);
    TRY_OUT(
        kvsi_model_settings_parse(&settings.model, &parsed, &command, argc - 2, argv + 2, &err));
    if (parsed.help)
        TRY_OUT(kvsi_cli_help(&command, &settings, &err));
    else
        TRY_OUT(convert(&settings, &parsed, &command, &err));
out:
    if (st != KVS_OK && kvsi_watch_stopped())
        return kvsi_cli_fail(&err), 128 + kvsi_watch_stopped();
    return st == KVS_OK ? KVSI_EXIT_DONE : kvsi_cli_fail(&err);
}
