/* kvshift convert: writes a model in another format, or a model with random weights. */
#include "cli/cli.h"
#include "cli/model_options.h"
#include "cli/progress.h"
#include "cli/signals.h"
#include "kvshift/kvshift_files.h"

#include <stdio.h>
#include <string.h>

typedef struct convert_settings {
    const char *preset; /* this and the next four describe random weights */
    kvs_model_config *model;
    double dropout;
    uint64_t seed;
    size_t threads;
    const char *format, *dtype, *tokenizer, *shard_size;
    int overwrite, quiet;
} convert_settings;

/* ---- options --------------------------------------------------------------------------------- */

#define FIELD(name) offsetof(convert_settings, name)

static const char *format_at(size_t index)
{
    return kvs_format_name((kvs_format)index);
}

static const char *dtype_at(size_t index)
{
    return kvs_dtype_name((kvs_dtype)index);
}

static const kvsi_setting output_rows[] = {
    {.name = "format",
     .kind = KVSI_SETTING_CHOICE,
     .offset = FIELD(format),
     .group = "Output",
     .placeholder = "NAME",
     .help = "auto: by the name of OUT: .gguf, .bin (llama2c), otherwise a folder (hf); "
             "gguf-llama refuses models that other programs would compute differently",
     .choice_at = format_at,
     .value = "auto"},
    {.name = "dtype",
     .kind = KVSI_SETTING_CHOICE,
     .offset = FIELD(dtype),
     .group = "Output",
     .placeholder = "NAME",
     .help =
         "type of the matrices; keep: as in IN; q8_0 and q4_0 (8.5 and 4.5 bits per weight) are "
         "for GGUF",
     .choice_at = dtype_at,
     .value = "keep"},
    {.name = "shard-size",
     .kind = KVSI_SETTING_TEXT,
     .offset = FIELD(shard_size),
     .group = "Output",
     .placeholder = "SIZE",
     .help = "hf: largest size of a weights file, such as 500MB or 5GB",
     .automatic = "5GB"},
    {.name = "tokenizer",
     .letter = 't',
     .kind = KVSI_SETTING_TEXT,
     .offset = FIELD(tokenizer),
     .group = "Output",
     .placeholder = "FILE",
     .help = "tokenizer to write with the model; 'none' = none",
     .automatic = "that of IN, if any"},
    {.name = "overwrite",
     .kind = KVSI_SETTING_FLAG,
     .offset = FIELD(overwrite),
     .group = "Output",
     .help = "replace OUT: a file, or a folder that contains only a model"},
    {.name = "seed",
     .kind = KVSI_SETTING_UINT64,
     .offset = FIELD(seed),
     .group = "Run",
     .placeholder = "N",
     .help = "seed of random weights",
     .value = "1",
     .high = 999999999999999},
    {.name = "threads",
     .kind = KVSI_SETTING_SIZE,
     .offset = FIELD(threads),
     .group = "Run",
     .placeholder = "N",
     .help = "threads that draw random weights",
     .automatic = "every core",
     .high = 1024},
    {.name = "quiet",
     .kind = KVSI_SETTING_FLAG,
     .offset = FIELD(quiet),
     .group = "Run",
     .help = "no progress on standard error"},
};

static const kvsi_setting random_rows[] = {
    {.name = "random",
     .kind = KVSI_SETTING_TEXT,
     .offset = FIELD(preset),
     .group = "Random weights",
     .placeholder = "NAME",
     .help = "write random weights instead of IN, for a model described by a config.json or a "
             "preset, which the model options override",
     .examples = kvs_preset_name,
     .automatic = "none"},
};

static const kvsi_setting dropout_row[] = {{KVSI_DROPOUT_ROW(FIELD(dropout))}};

static const char MODEL[] = "Model with random weights";

static const kvsi_command_options options = {
    .command = "kvshift convert",
    .examples = "  kvshift convert runs/book book.gguf\n"
                "  kvshift convert runs/book book-q4.gguf --dtype q4_0\n"
                "  kvshift convert model.gguf folder\n",
    .common = (const char *const[]){"format", "dtype", "tokenizer", "shard-size", "random",
                                    "overwrite", "quiet", NULL},
    .purpose = "Writes the model IN, of any supported format, as OUT, tensor by tensor.  With "
               "--random it writes a new model and takes no IN.  If it fails, OUT is unchanged.",
    .notes = "Formats: hf is a folder with config.json and safetensors; for a model with shift it "
             "also contains\nmodeling_kvshift.py, so that transformers can run it "
             "(trust_remote_code).  gguf has the\narchitecture of llama.cpp that computes the "
             "same, otherwise kvshift.  llama2c is for plain\nLlama models.  docs/formats.md "
             "describes the formats.",
    .argument = "[IN] OUT",
    .min_arguments = 1,
    .max_arguments = 2,
    .tables =
        (const kvsi_option_table[]){
            KVSI_OPTION_ROWS(random_rows),
            {.config = &kvsi_model_configs, .offset = FIELD(model), .group = MODEL},
            {.table = &(const kvsi_settings)KVSI_SETTINGS(dropout_row), .group = MODEL},
            KVSI_OPTION_ROWS(output_rows),
            {0},
        },
};

/* ---- from options to kvs_convert_options ----------------------------------------------------- */

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
                              kvs_err *err)
{
    if (s->preset && parsed->argument_count == 2)
        return kvsi_fail(err, KVS_E_INVALID, "option '--random' takes no model, found '%s'",
                         parsed->arguments[0]);
    if (!s->preset && parsed->argument_count == 1)
        return kvsi_fail(err, KVS_E_INVALID,
                         "expected IN and OUT, found only '%s'; see 'kvshift convert --help'",
                         parsed->arguments[0]);
    for (size_t i = 0; !s->preset && i < kvsi_command_count(&options); i++) {
        const kvsi_setting row = kvsi_command_row(&options, i);

        if (strcmp(row.group, MODEL) == 0 && parsed->source[i] == KVSI_FROM_COMMAND_LINE)
            return kvsi_fail(err, KVS_E_INVALID, "option '--%s' needs '--random'", row.name);
    }
    return KVS_OK;
}

static kvs_status make_options(kvs_convert_options *out, const convert_settings *s, kvs_err *err)
{
    kvs_convert_options_init(out, sizeof *out);
    out->config = s->preset ? s->model : NULL;
    out->seed = s->seed;
    out->threads = (int)s->threads;
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
    kvsi_progress *progress = user;
    char time[32], line[96];
    double elapsed;

    if (!kvsi_progress_is_due(progress, &elapsed))
        return kvsi_stop_signal();
    kvsi_format_duration(time, sizeof time, elapsed);
    snprintf(line, sizeof line, "writing %.0f %%  %.2f of %.2f GB  %s",
             100 * (double)done / (double)all, (double)done / 1e9, (double)all / 1e9, time);
    kvsi_progress_show(progress, line);
    return kvsi_stop_signal();
}

static void show_notice(void *user, const char *text)
{
    const kvsi_progress *progress = user;

    if (!progress->quiet)
        fprintf(stderr, "%s\n", text);
}

/* --random and --body decide the defaults of the model options. */
static kvs_status apply(void *data, kvsi_parsed_options *parsed, kvs_err *err)
{
    convert_settings *s = data;

    TRY(kvsi_model_start(&s->model, NULL, parsed, &options, "random", err));
    TRY(kvsi_options_apply(parsed, &options, s, err));
    return kvsi_model_finish(s->model, s->dropout, parsed, &options, err);
}

static kvs_status run(void *data, const kvsi_call *call, kvs_err *err)
{
    const convert_settings *s = data;
    char *const *paths = call->parsed->arguments; /* [IN] OUT */
    kvs_convert_options how;
    kvsi_progress progress;
    kvs_status st;

    TRY(check_input(s, call->parsed, err));
    TRY(make_options(&how, s, err));
    how.progress = show_progress;
    how.notice = show_notice;
    how.user = &progress;
    kvsi_catch_stop();
    kvsi_progress_start(&progress, s->quiet);
    st = kvs_convert(paths[s->preset ? 0 : 1], s->preset ? NULL : paths[0], &how, err);
    kvsi_progress_end(&progress);
    return st;
}

const kvsi_command kvsi_cmd_convert = {
    .name = "convert",
    .summary = "write a model in another format",
    .options = &options,
    .settings_size = sizeof(convert_settings),
    .apply = apply,
    .run = run,
};
