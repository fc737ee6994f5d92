/* kvshift generate: text, token by token, as it comes. */
#include "base/memory.h"
#include "cli/cli.h"
#include "cli/model_input.h"

#include <stdio.h>
#include <string.h>

typedef struct settings {
    kvsi_model_input input;
    kvs_sampling sampling;
    const char *prompt, *ids;
    size_t tokens;
    int json, ignore_eos;
} settings;

#define FIELD(name) offsetof(settings, name)

/* clang-format off */
static const kvsi_option options[] = {
    KVSI_MODEL_ROWS(settings),
    {.name = "prompt", .letter = 'p', .kind = KVSI_OPTION_TEXT, .offset = FIELD(prompt),
     .group = "Input", .placeholder = "TEXT", .help = "text to go on from",
     .automatic = "standard input"},
    {.name = "ids", .kind = KVSI_OPTION_TEXT, .offset = FIELD(ids), .group = "Input",
     .placeholder = "N,...", .help = "token ids to go on from, as they are; nothing is added",
     .automatic = "use the text"},
    {.name = "new-tokens", .letter = 'n', .kind = KVSI_OPTION_SIZE, .offset = FIELD(tokens),
     .group = "Output", .placeholder = "N", .help = "tokens to make, at most", .low = 1},
    {.name = "ignore-eos", .kind = KVSI_OPTION_FLAG, .offset = FIELD(ignore_eos),
     .group = "Output", .help = "go on after the end-of-text token"},
    {.name = "json", .kind = KVSI_OPTION_FLAG, .offset = FIELD(json), .group = "Output",
     .help = "print one JSON object with ids and text instead of the text"},
    {.name = "temp", .kind = KVSI_OPTION_REAL, .offset = FIELD(sampling.temperature),
     .group = "Sampling", .placeholder = "X", .help = "temperature; 0 takes the likeliest token"},
    {.name = "top-k", .kind = KVSI_OPTION_SIZE, .offset = FIELD(sampling.top_k),
     .group = "Sampling", .placeholder = "N", .help = "draw from the N likeliest",
     .automatic = "all"},
    {.name = "top-p", .kind = KVSI_OPTION_REAL, .offset = FIELD(sampling.top_p),
     .group = "Sampling", .placeholder = "X",
     .help = "draw from the likeliest that make up this share", .high = 1},
    {.name = "min-p", .kind = KVSI_OPTION_REAL, .offset = FIELD(sampling.min_p),
     .group = "Sampling", .placeholder = "X",
     .help = "draw from those at least X times as likely as the likeliest", .high = 1},
    {.name = "seed", .kind = KVSI_OPTION_UINT64, .offset = FIELD(sampling.seed),
     .group = "Sampling", .placeholder = "N", .help = "the same seed gives the same text",
     .high = 999999999999999},
    KVSI_RUN_ROWS(settings),
};
/* clang-format on */

static const kvsi_command_options command = {
    .command = "kvshift generate",
    .purpose = "Goes on from a text.  The text that comes is printed as it comes, whole characters "
               "only, without the prompt.",
    .options = options,
    .count = sizeof options / sizeof *options,
    .takes_config = 1,
};

/* ---- prompt ---- */

static kvs_status read_prompt(int32_t **ids, size_t *count, const settings *s,
                              const kvs_tokenizer *tokenizer, kvs_err *err)
{
    const char *words = s->prompt;
    size_t size = words ? strlen(words) : 0;
    char *text = NULL;
    int32_t *encoded = NULL;
    kvs_status st;

    if (s->ids)
        return kvsi_read_ids(ids, count, s->ids, err);
    if (!words) {
        KVS_TRY(kvsi_read_text(&text, &size, NULL, err));
        words = text;
    }
    KVS_TRY(kvs_tokenizer_encode(tokenizer, words, size, 0, &encoded, count, err));
    *ids = kvsi_alloc(*count + 1, sizeof **ids);
    if (*ids)
        memcpy(*ids, encoded, *count * sizeof **ids);
    else
        st = kvsi_fail(err, KVS_E_NOMEM, "out of memory for the prompt");
out:
    kvsi_free(text);
    kvs_ids_free(encoded);
    return st;
}

/* ---- printing ---- */

/* Bytes of `text` that end with a whole character; a lead byte that waits for more is held back. */
static size_t whole_characters(const char *text, size_t size)
{
    size_t back = 0;

    while (back < 4 && back < size && ((unsigned char)text[size - 1 - back] & 0xc0) == 0x80)
        back++;
    if (back < size) {
        const unsigned char lead = (unsigned char)text[size - 1 - back];
        const size_t needs = lead >= 0xf0 ? 4 : lead >= 0xe0 ? 3 : lead >= 0xc0 ? 2 : 1;

        if (needs > back + 1)
            return size - 1 - back;
    }
    return size;
}

/* Prints what the new ids add to what was printed; at the end, whatever is left. */
static kvs_status print_new(const kvs_tokenizer *tokenizer, const int32_t *ids, size_t count,
                            size_t *printed, int last, kvs_err *err)
{
    char *text;
    size_t size, upto;
    const kvs_status st = kvs_tokenizer_decode(tokenizer, ids, count, &text, &size, err);

    if (st != KVS_OK)
        return st;
    upto = last ? size : whole_characters(text, size);
    if (upto > *printed) {
        fwrite(text + *printed, 1, upto - *printed, stdout);
        fflush(stdout);
        *printed = upto;
    }
    kvs_text_free(text);
    return KVS_OK;
}

static kvs_status print_json(const kvs_tokenizer *tokenizer, const int32_t *ids, size_t count,
                             kvs_err *err)
{
    json_t *list = json_array();
    char *text = NULL;
    size_t size = 0;
    kvs_status st = KVS_OK;

    for (size_t i = 0; i < count; i++)
        json_array_append_new(list, json_integer(ids[i]));
    if (tokenizer)
        KVS_TRY(kvs_tokenizer_decode(tokenizer, ids, count, &text, &size, err));
    st = kvsi_cli_print_json(json_pack("{s:O, s:o}", "ids", list, "text",
                                       text ? json_stringn_nocheck(text, size) : json_null()),
                             err);
out:
    kvs_text_free(text);
    json_decref(list);
    return st;
}

/* ---- the loop ---- */

static kvs_status generate(const settings *s, const kvsi_loaded_model *m, const int32_t *prompt,
                           size_t count, kvs_err *err)
{
    const kvs_model_config *config = kvs_model_get_config(m->model);
    const int32_t eos = m->tokenizer && !s->ignore_eos ? kvs_tokenizer_eos(m->tokenizer) : -1;
    const size_t logit_count = config->head == KVS_HEAD_NONE ? config->dim : config->vocab;
    float *logits = kvsi_alloc(logit_count, sizeof *logits);
    int32_t *made = kvsi_alloc(s->tokens, sizeof *made);
    kvs_session *session = NULL;
    kvs_sampler *sampler = NULL;
    size_t done = 0, printed = 0;
    kvs_status st = KVS_OK;

    if (!logits || !made) {
        st = kvsi_fail(err, KVS_E_NOMEM, "out of memory for %zu tokens", s->tokens);
        goto out;
    }
    KVS_TRY(kvs_session_create(&session, m->model, 0, err));
    KVS_TRY(kvs_sampler_create(&sampler, logit_count, &s->sampling, err));
    KVS_TRY(kvs_session_feed(session, prompt, count, logits, err));
    while (done < s->tokens) {
        const int32_t next = kvs_sampler_next(sampler, logits);

        if (next == eos)
            break;
        made[done++] = next;
        if (!s->json && m->tokenizer)
            KVS_TRY(print_new(m->tokenizer, made, done, &printed, 0, err));
        if (done < s->tokens && kvs_session_length(session) == config->context)
            break; /* the context is full: what there is is what there can be */
        if (done < s->tokens)
            KVS_TRY(kvs_session_feed(session, &next, 1, logits, err));
    }
    if (s->json || !m->tokenizer)
        KVS_TRY(print_json(m->tokenizer, made, done, err));
    else
        KVS_TRY(print_new(m->tokenizer, made, done, &printed, 1, err));
    if (!s->json && m->tokenizer)
        putchar('\n');
    if (done < s->tokens && kvs_session_length(session) == config->context)
        fprintf(stderr, "kvshift: the context of %zu tokens is full\n", config->context);
out:
    kvs_sampler_free(sampler);
    kvs_session_free(session);
    kvsi_free(logits);
    kvsi_free(made);
    return st;
}

int kvsi_cmd_generate(int argc, char **argv)
{
    settings s = {.tokens = 128};
    kvsi_parsed_options parsed = {0};
    kvsi_loaded_model loaded = {0};
    int32_t *prompt = NULL;
    size_t count = 0;
    kvs_err err = {.status = KVS_OK};
    kvs_status st;

    kvs_sampling_init(&s.sampling);
    KVS_TRY(kvsi_options_parse(&parsed, &command, &s, argc - 2, argv + 2, &err));
    if (parsed.help) {
        KVS_TRY(kvsi_cli_help(&command, &s, &err));
        goto out;
    }
    if (parsed.print_config) {
        KVS_TRY(kvsi_cli_print_config(&command, &s, &parsed, &err));
        goto out;
    }
    KVS_TRY(kvsi_model_input_load(&loaded, &s.input, s.ids == NULL, &err));
    KVS_TRY(read_prompt(&prompt, &count, &s, loaded.tokenizer, &err));
    if (count == 0) {
        st = kvsi_fail(&err, KVS_E_INVALID, "the prompt is empty: there is nothing to go on from");
        goto out;
    }
    KVS_TRY(generate(&s, &loaded, prompt, count, &err));
out:
    kvsi_free(prompt);
    kvsi_loaded_model_release(&loaded);
    kvsi_options_release(&parsed);
    return st == KVS_OK ? KVSI_EXIT_DONE : kvsi_cli_fail(&err);
}
