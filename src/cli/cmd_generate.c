/* kvshift generate: generates text and prints it token by token. */
#include "base/clock.h"
#include "base/memory.h"
#include "cli/cli.h"
#include "cli/configs.h"
#include "cli/model_input.h"
#include "cli/sampling_options.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

typedef struct settings {
    kvsi_model_input input;
    kvs_sampling sampling;
    const char *prompt, *file, *ids;
    size_t tokens, samples;
    kvsi_text_list stops;
    int json, ignore_eos, speed, echo;
} settings;

#define FIELD(name) offsetof(settings, name)

/* clang-format off */
static const kvsi_setting rows[] = {
    KVSI_MODEL_ROWS(settings),
    {.name = "prompt", .letter = 'p', .kind = KVSI_SETTING_TEXT, .offset = FIELD(prompt),
     .group = "Input", .placeholder = "TEXT", .may_be_empty = 1,
     .help = "text to continue; empty = start from BOS", .automatic = "standard input"},
    {.name = "file", .letter = 'f', .kind = KVSI_SETTING_TEXT, .offset = FIELD(file),
     .group = "Input", .placeholder = "FILE", .help = "file with the prompt; - is standard input"},
    {.name = "ids", .kind = KVSI_SETTING_TEXT, .offset = FIELD(ids), .group = "Input",
     .placeholder = "N,...", .help = "token ids to continue; nothing is added to them",
     .automatic = "use the text"},
    {.name = "new-tokens", .letter = 'n', .kind = KVSI_SETTING_SIZE, .offset = FIELD(tokens),
     .group = "Output", .placeholder = "N", .help = "maximum number of new tokens", .low = 1,
     .value = "128"},
    {.name = "samples", .kind = KVSI_SETTING_SIZE, .offset = FIELD(samples), .group = "Output",
     .placeholder = "K", .help = "number of continuations; each has the next seed, from --seed on",
     .low = 1, .value = "1"},
    {.name = "echo", .kind = KVSI_SETTING_FLAG, .offset = FIELD(echo), .group = "Output",
     .help = "print the prompt, too, before the new text"},
    {.name = "stop", .kind = KVSI_SETTING_TEXT, .offset = FIELD(stops), .group = "Output",
     .placeholder = "TEXT", .repeats = 1,
     .help = "end before this text; may be given several times"},
    {.name = "ignore-eos", .kind = KVSI_SETTING_FLAG, .offset = FIELD(ignore_eos),
     .group = "Output", .help = "continue after the end-of-sequence token"},
    {.name = "json", .kind = KVSI_SETTING_FLAG, .offset = FIELD(json), .group = "Output",
     .help = "print one JSON object per sample instead of the text"},
    {.name = "speed", .kind = KVSI_SETTING_FLAG, .offset = FIELD(speed), .group = "Output",
     .help = "print timings on standard error"},
    KVSI_SAMPLING_ROWS(settings),
    KVSI_RUN_ROWS(settings),
};
/* clang-format on */

static const kvsi_command_options options = {
    .command = "kvshift generate",
    .examples =
        "  kvshift generate -m runs/book -p \"It was\"\n"
        "  kvshift generate -m model.gguf -p \"Once upon a time\" -n 200 --temp 0.7 --seed 1\n"
        "  kvshift generate -m runs/book -f prompt.txt --samples 4 --json\n",
    .purpose = "Continues a prompt.  The new text is printed as it is generated, in whole "
               "characters, without the prompt.  A line end at the end of a prompt that is read "
               "from a file or from standard input is not part of it.",
    .notes = "The JSON object has ids (of the new tokens), text, logprobs (natural logarithm, at "
             "temperature 1,\nbefore top-k, top-p and min-p), prompt_tokens, finish (length, eos, "
             "stop or context), sample and\nseed.  Without a tokenizer, --ids prints that object.",
    .tables = KVSI_OPTIONS(rows),
    .takes_config = 1,
};

/* ---- prompt ---------------------------------------------------------------------------------- */

static kvs_status start_from_bos(int32_t **ids, size_t *count, const kvs_tokenizer *tokenizer,
                                 kvs_err *err)
{
    const int32_t bos = kvs_tokenizer_bos(tokenizer);

    if (bos < 0)
        return kvsi_fail(err, KVS_E_INVALID,
                         "the prompt is empty, and the tokenizer has no BOS to start from");
    kvs_ids_free(*ids);
    *ids = kvsi_alloc(1, sizeof **ids);
    if (!*ids)
        return kvsi_fail(err, KVS_E_NOMEM, "out of memory for the prompt");
    **ids = bos;
    *count = 1;
    return KVS_OK;
}

/* Editors and echo put a line end after the last word. */
static size_t without_line_end(const char *text, size_t size)
{
    if (size == 0 || text[size - 1] != '\n')
        return size;
    return size > 1 && text[size - 2] == '\r' ? size - 2 : size - 1;
}

static kvs_status encode_prompt(int32_t **ids, size_t *count, const settings *s,
                                const kvs_tokenizer *tokenizer, kvs_err *err)
{
    const char *words = s->prompt;
    size_t size = words ? strlen(words) : 0;
    char *text = NULL;
    kvs_status st;

    if (!words) {
        TRY_OUT(kvsi_read_text(&text, &size, s->file, err));
        words = text;
        size = without_line_end(text, size);
    }
    TRY_OUT(kvs_tokenizer_encode(ids, count, tokenizer, words, size, 0, err));
    if (*count == 0)
        st = start_from_bos(ids, count, tokenizer, err);
out:
    kvsi_free(text);
    return st;
}

static kvs_status read_prompt(int32_t **ids, size_t *count, const settings *s,
                              const kvsi_loaded_model *m, kvs_err *err)
{
    const size_t context = kvsi_model_count(kvs_model_get_config(m->model), "context");

    if (s->ids)
        TRY(kvsi_read_ids(ids, count, s->ids, err));
    else
        TRY(encode_prompt(ids, count, s, m->tokenizer, err));
    if (*count == 0)
        return kvsi_fail(err, KVS_E_INVALID,
                         "option '--ids': expected at least one id, found none");
    if (*count > context)
        return kvsi_fail(err, KVS_E_LIMIT, "the prompt has %zu tokens, the model's context is %zu",
                         *count, context);
    return KVS_OK;
}

/* ---- one sample ------------------------------------------------------------------------------ */

typedef struct generation {
    const settings *s;
    const kvsi_loaded_model *m;
    const int32_t *prompt;
    size_t prompt_count;
    int shows_text;   /* as it is generated; otherwise it is collected for JSON */
    const char *echo; /* the prompt's text; NULL = not printed */
    size_t echo_size;
    kvs_session *prompted; /* the prompt was fed to it */
    double prompt_seconds;

    /* The current sample. */
    size_t sample;
    kvs_sampling sampling;
    int32_t *ids;
    double *logprobs;
    size_t count;
    kvsi_text text;
    double seconds;
} generation;

/* The names of the reasons in the JSON object. */
static const char *const finish_names[] = {[KVS_FINISH_LENGTH] = "length",
                                           [KVS_FINISH_EOS] = "eos",
                                           [KVS_FINISH_STOP] = "stop",
                                           [KVS_FINISH_FULL] = "context"};

/* Callback of kvs_generate: collects the token, and prints or collects its text. */
static int add_token(void *user, const kvs_generated *token)
{
    generation *g = user;

    if (token->id >= 0 && !token->ends) {
        g->logprobs[g->count] = token->logprob;
        g->ids[g->count++] = token->id;
    }
    if (!g->shows_text) {
        kvsi_text_add_bytes(&g->text, token->text, token->text_size);
        return 0;
    }
    if (token->index == 0 && g->s->samples > 1)
        printf("--- sample %zu, seed %" PRIu64 " ---\n", g->sample, g->sampling.seed);
    if (token->index == 0 && g->echo)
        fwrite(g->echo, 1, g->echo_size, stdout);
    fwrite(token->text, 1, token->text_size, stdout);
    fflush(stdout);
    return 0;
}

static kvs_status print_sample(const generation *g, kvs_finish finish, kvs_err *err)
{
    json_t *text;

    if (g->echo) {
        kvsi_text whole = {0};

        kvsi_text_add_bytes(&whole, g->echo, g->echo_size);
        kvsi_text_add_bytes(&whole, g->text.data, g->text.length);
        text = whole.failed ? NULL : kvsi_json_text(whole.data, whole.length);
        kvsi_text_release(&whole);
    } else {
        text = g->m->tokenizer ? kvsi_json_text(g->text.data, g->text.length) : json_null();
    }
    return kvsi_cli_print_json_line(
        json_pack("{s:o, s:o, s:o, s:I, s:s, s:I, s:I}", "ids", kvsi_json_ids(g->ids, g->count),
                  "text", text, "logprobs", kvsi_json_numbers(g->logprobs, g->count),
                  "prompt_tokens", (json_int_t)g->prompt_count, "finish", finish_names[finish],
                  "sample", (json_int_t)g->sample, "seed", (json_int_t)g->sampling.seed),
        err);
}

/* Generates and prints one sample.  The prompt was already fed to the session. */
static kvs_status make_sample(generation *g, kvs_session *session, kvs_err *err)
{
    const double start = kvsi_clock_seconds();
    kvs_generate_options how;
    kvs_finish finish;

    g->sampling = g->s->sampling;
    g->sampling.seed += g->sample;
    g->count = g->text.length = 0;
    kvs_generate_options_init(&how, sizeof how);
    how.max_tokens = g->s->tokens;
    how.sampling = &g->sampling;
    how.tokenizer = g->m->tokenizer;
    how.stops = g->s->stops.texts;
    how.stop_count = g->s->stops.count;
    how.ignore_eos = g->s->ignore_eos;
    how.logprobs = !g->shows_text;
    how.token = add_token;
    how.user = g;
    TRY(kvs_generate(&finish, session, NULL, 0, &how, err));
    g->seconds = kvsi_clock_seconds() - start;
    if (g->shows_text) {
        putchar('\n');
    } else {
        TRY(kvsi_text_check(&g->text, err));
        TRY(print_sample(g, finish, err));
    }
    if (finish == KVS_FINISH_FULL)
        fprintf(stderr, "kvshift: the context of %zu tokens is full\n",
                kvsi_model_count(kvs_model_get_config(g->m->model), "context"));
    return KVS_OK;
}

/* ---- all samples ----------------------------------------------------------------------------- */

static kvs_status prepare(generation *g, kvs_err *err)
{
    const settings *s = g->s;
    const size_t context = kvsi_model_count(kvs_model_get_config(g->m->model), "context");
    const size_t fed =
        context - g->prompt_count < s->tokens ? context - g->prompt_count : s->tokens;
    const double start = kvsi_clock_seconds();
    const kvs_session_options how = {.size = sizeof(kvs_session_options),
                                     .capacity = g->prompt_count + fed,
                                     .cache = s->input.kv_cache};

    TRY(kvsi_check_cache(g->m->model, &how, s->samples > 1 ? 2 : 1, "--new-tokens and --kv-cache",
                         err));
    g->ids = kvsi_alloc(fed + 1, sizeof *g->ids); /* the last token is not fed */
    g->logprobs = kvsi_alloc(fed + 1, sizeof *g->logprobs);
    if (!g->ids || !g->logprobs)
        return kvsi_fail(err, KVS_E_NOMEM, "out of memory for %zu tokens", s->tokens);
    kvsi_text_add(&g->text, "");
    TRY(kvs_session_create(&g->prompted, g->m->model, &how, err));
    TRY(kvs_session_feed(g->prompted, g->prompt, g->prompt_count, NULL, err));
    g->prompt_seconds = kvsi_clock_seconds() - start;
    return KVS_OK;
}

static void print_speed(const generation *g)
{
    if (g->sample == 0)
        fprintf(stderr, "prompt: %zu tokens in %.3f s, %.0f per second\n", g->prompt_count,
                g->prompt_seconds, (double)g->prompt_count / g->prompt_seconds);
    fprintf(stderr, "sample %zu: %zu tokens in %.3f s, %.0f per second\n", g->sample, g->count,
            g->seconds, (double)g->count / g->seconds);
}

static kvs_status generate(generation *g, kvs_err *err)
{
    kvs_status st;

    TRY_OUT(prepare(g, err));
    for (; g->sample < g->s->samples; g->sample++) {
        kvs_session *copy = NULL;

        if (g->sample + 1 < g->s->samples)
            TRY_OUT(kvs_session_copy(&copy, g->prompted, SIZE_MAX, NULL, err));
        st = make_sample(g, copy ? copy : g->prompted, err);
        kvs_session_free(copy);
        if (st != KVS_OK)
            goto out;
        if (g->s->speed)
            print_speed(g);
    }
out:
    kvs_session_free(g->prompted);
    kvsi_free(g->ids);
    kvsi_free(g->logprobs);
    kvsi_text_release(&g->text);
    return st;
}

static void set_defaults(void *data)
{
    settings *s = data;

    kvs_sampling_init(&s->sampling, sizeof s->sampling);
}

static kvs_status run(void *data, const kvsi_call *call, kvs_err *err)
{
    const settings *s = data;
    kvsi_loaded_model loaded = {0};
    generation g = {.s = s, .m = &loaded};
    int32_t *prompt = NULL;
    char *echo = NULL;
    kvs_status st;

    (void)call;
    if ((s->prompt != NULL) + (s->file != NULL) + (s->ids != NULL) > 1)
        return kvsi_fail(err, KVS_E_INVALID,
                         "options '--prompt', '--file' and '--ids' exclude each other");
    TRY_OUT(kvsi_model_input_load(&loaded, &s->input, !s->ids || s->stops.count > 0, err));
    TRY_OUT(read_prompt(&prompt, &g.prompt_count, s, &loaded, err));
    g.prompt = prompt;
    g.shows_text = !s->json && loaded.tokenizer;
    if (s->echo && loaded.tokenizer)
        TRY_OUT(kvs_tokenizer_decode(&echo, &g.echo_size, loaded.tokenizer, prompt, g.prompt_count,
                                     err));
    g.echo = echo;
    TRY_OUT(generate(&g, err));
out:
    kvs_text_free(echo);
    kvs_ids_free(prompt);
    kvsi_loaded_model_release(&loaded);
    return st;
}

const kvsi_command kvsi_cmd_generate = {
    .name = "generate",
    .summary = "continue a text with a trained model",
    .options = &options,
    .settings_size = sizeof(settings),
    .set_defaults = set_defaults,
    .run = run,
};
