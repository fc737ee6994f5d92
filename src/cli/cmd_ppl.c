/* kvshift ppl: how well a model predicts a text. */
#include "base/memory.h"
#include "cli/cli.h"
#include "cli/model_input.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <unistd.h>

typedef struct settings {
    kvsi_model_input input;
    size_t window, stride;
    int json, quiet;
} settings;

#define FIELD(name) offsetof(settings, name)

/* clang-format off */
static const kvsi_option options[] = {
    KVSI_MODEL_ROWS(settings),
    {.name = "window", .kind = KVSI_OPTION_SIZE, .offset = FIELD(window), .group = "Measure",
     .placeholder = "N", .help = "tokens that a prediction sees at most, itself not counted",
     .automatic = "the model's context"},
    {.name = "stride", .kind = KVSI_OPTION_SIZE, .offset = FIELD(stride), .group = "Measure",
     .placeholder = "N", .help = "tokens from one window's start to the next",
     .automatic = "half of --window"},
    KVSI_RUN_ROWS(settings),
    {.name = "quiet", .kind = KVSI_OPTION_FLAG, .offset = FIELD(quiet), .group = "Run",
     .help = "no progress"},
    {.name = "json", .kind = KVSI_OPTION_FLAG, .offset = FIELD(json), .group = "Run",
     .help = "print the result as one JSON object"},
};
/* clang-format on */

static const kvsi_command_options command = {
    .command = "kvshift ppl",
    .purpose = "Loss and perplexity of a text, per token and per byte, with the standard error of "
               "the mean.  Every token but the first is predicted once.",
    .notes = "FILE may be - for standard input.  Per-token numbers compare only between models "
             "with the\nsame tokenizer; per-byte numbers compare between all.",
    .argument = "FILE",
    .min_arguments = 1,
    .max_arguments = 1,
    .options = options,
    .count = sizeof options / sizeof *options,
    .takes_config = 1,
};

static int show_progress(void *user, size_t done, size_t all)
{
    (void)user;
    fprintf(stderr, "\r%zu of %zu tokens%s", done, all, done == all ? "\n" : "");
    return 0;
}

/* Bits a byte: the loss of all tokens, shared among the bytes they stand for. */
static double bits_per_byte(const kvs_perplexity_result *r, size_t bytes)
{
    return r->loss * (double)r->tokens / (log(2) * (double)bytes);
}

static kvs_status print_result(const kvs_perplexity_result *r, const settings *s, size_t bytes,
                               kvs_err *err)
{
    const double bits = bits_per_byte(r, bytes);

    if (s->json)
        return kvsi_cli_print_json(
            json_pack("{s:f, s:f, s:f, s:f, s:f, s:I, s:I, s:I, s:I}", "loss", r->loss,
                      "loss_error", r->loss_error, "perplexity", r->perplexity, "bits_per_byte",
                      bits, "byte_perplexity", exp2(bits), "tokens", (json_int_t)r->tokens, "bytes",
                      (json_int_t)bytes, "window", (json_int_t)s->window, "stride",
                      (json_int_t)s->stride),
            err);
    printf("loss        %.4f ± %.4f a token\n", r->loss, r->loss_error);
    printf("perplexity  %.3f a token (%.3f to %.3f)\n", r->perplexity, exp(r->loss - r->loss_error),
           exp(r->loss + r->loss_error));
    printf("bytes       %.4f bits a byte, perplexity %.4f a byte\n", bits, exp2(bits));
    printf("measured    %" PRIu64 " tokens, %zu bytes, window %zu, stride %zu\n", r->tokens, bytes,
           s->window, s->stride);
    return KVS_OK;
}

static kvs_status measure(settings *s, const kvsi_loaded_model *m, const char *path, kvs_err *err)
{
    kvs_perplexity_options o;
    kvs_perplexity_result result;
    int32_t *ids = NULL;
    char *text = NULL;
    size_t size, count;
    kvs_status st;

    s->window = s->window > 0 ? s->window : kvs_model_get_config(m->model)->context;
    s->stride = s->stride > 0 ? s->stride : (s->window + 1) / 2;
    o = (kvs_perplexity_options){.window = s->window, .stride = s->stride};
    if (!s->quiet && isatty(STDERR_FILENO))
        o.progress = show_progress;
    KVS_TRY(kvsi_read_text(&text, &size, path, err));
    KVS_TRY(kvs_tokenizer_encode(m->tokenizer, text, size, 0, &ids, &count, err));
    KVS_TRY(kvs_perplexity(&result, m->model, ids, count, &o, err));
    KVS_TRY(print_result(&result, s, size, err));
out:
    kvsi_free(text);
    kvs_ids_free(ids);
    return st;
}

int kvsi_cmd_ppl(int argc, char **argv)
{
    settings s = {0};
    kvsi_parsed_options parsed = {0};
    kvsi_loaded_model loaded = {0};
    kvs_err err = {.status = KVS_OK};
    kvs_status st;

    KVS_TRY(kvsi_options_parse(&parsed, &command, &s, argc - 2, argv + 2, &err));
    if (parsed.help) {
        KVS_TRY(kvsi_cli_help(&command, &s, &err));
        goto out;
    }
    if (parsed.print_config) {
        KVS_TRY(kvsi_cli_print_config(&command, &s, &parsed, &err));
        goto out;
    }
    KVS_TRY(kvsi_model_input_load(&loaded, &s.input, 1, &err));
    KVS_TRY(measure(&s, &loaded, parsed.arguments[0], &err));
out:
    kvsi_loaded_model_release(&loaded);
    kvsi_options_release(&parsed);
    return st == KVS_OK ? KVSI_EXIT_DONE : kvsi_cli_fail(&err);
}
