#include "cli/train_samples.h"

#include "base/json.h"
#include "base/memory.h"
#include "cli/train_records.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

/* Length of the default prompt, the start of the validation text.  Windows start with the first
 * tokens of a document, not with BOS, so a prompt of BOS would be unlike the training data. */
enum { PROMPT_TOKENS = 8 };

static kvs_status fail_memory(kvs_err *err)
{
    return kvsi_fail(err, KVS_E_NOMEM, "out of memory for samples");
}

/* ---- the prompt ------------------------------------------------------------------------------ */

static kvs_status encode_prompt(kvsi_train_samples *t, const char *text, kvs_err *err)
{
    int32_t *ids = NULL;
    kvs_status st;

    TRY_OUT(kvs_tokenizer_encode(&ids, &t->prompt_count, t->tokenizer, text, strlen(text),
                                 KVS_ENCODE_NO_SPECIAL, err));
    t->prompt = kvsi_alloc(t->prompt_count, sizeof *t->prompt);
    if (t->prompt)
        memcpy(t->prompt, ids, t->prompt_count * sizeof *ids);
    else
        st = fail_memory(err);
out:
    kvs_ids_free(ids);
    return st;
}

/* The first conversation for validation up to its response, or the first tokens of a document. */
static kvs_status read_record_prompt(kvsi_train_samples *t, const kvsi_train_setup *w, kvs_err *err)
{
    const size_t most = kvs_data_max_length(w->data);
    int32_t *targets = kvsi_alloc(most, sizeof *targets);
    uint8_t *scored = kvsi_alloc(most, sizeof *scored);
    kvs_status st = KVS_OK;
    size_t length;

    t->prompt = kvsi_alloc(most, sizeof *t->prompt);
    if (!t->prompt || !targets || !scored) {
        st = fail_memory(err);
        goto out;
    }
    length = kvs_data_sequence(t->prompt, targets, scored, w->data, 0, KVS_STREAM_EVAL, 0);
    t->prompt_count = length < PROMPT_TOKENS ? length : PROMPT_TOKENS;
    if (!kvsi_train_has_conversations(w))
        goto out;
    for (t->prompt_count = 1; t->prompt_count < length && targets[t->prompt_count - 1] < 0;)
        t->prompt_count++;
out:
    kvsi_free(targets);
    kvsi_free(scored);
    return st;
}

static kvs_status read_prompt(kvsi_train_samples *t, const kvs_corpus *corpus, size_t context,
                              kvs_err *err)
{
    t->prompt = kvsi_alloc(PROMPT_TOKENS, sizeof *t->prompt);
    if (!t->prompt)
        return fail_memory(err);
    t->prompt_count = kvs_corpus_read(t->prompt, context < PROMPT_TOKENS ? context : PROMPT_TOKENS,
                                      corpus, KVS_SPLIT_VALID, 0);
    return KVS_OK;
}

static kvs_status check_asked(const kvsi_train_setup *w, const kvsi_train_options *s, kvs_err *err)
{
    if (!s->data)
        return kvsi_fail(err, KVS_E_INVALID, "option '--sample-every' needs '--data'");
    if (!w->tokenizer)
        return kvsi_fail(err, KVS_E_INVALID,
                         "option '--sample-every': the tokenizer of '%s' is not known", s->data);
    if (kvsi_model_is(s->model, "head", "none"))
        return kvsi_fail(err, KVS_E_INVALID,
                         "option '--sample-every': head none gives no token probabilities");
    return KVS_OK;
}

kvs_status kvsi_train_samples_init(kvsi_train_samples *samples, const kvsi_train_setup *w,
                                   const kvsi_train_options *s, kvs_err *err)
{
    const size_t context = kvsi_model_count(s->model, "context");
    kvs_status st;

    *samples = (kvsi_train_samples){.tokens = s->sample_tokens};
    if (kvsi_train_count(s->train, "sample-every") == 0)
        return KVS_OK;
    TRY_OUT(check_asked(w, s, err));
    samples->tokenizer = w->tokenizer;
    kvs_sampling_init(&samples->sampling, sizeof samples->sampling);
    samples->sampling.temperature = s->sample_temp;
    samples->sampling.seed = kvsi_train_count(s->train, "seed");
    if (s->sample_prompt)
        TRY_OUT(encode_prompt(samples, s->sample_prompt, err));
    else if (w->corpus)
        TRY_OUT(read_prompt(samples, w->corpus, context, err));
    else
        TRY_OUT(read_record_prompt(samples, w, err));
    if (samples->prompt_count < 1 || samples->prompt_count > context) {
        st = kvsi_fail(err, KVS_E_INVALID,
                       "option '--sample-prompt': expected 1 to %zu tokens, found %zu", context,
                       samples->prompt_count);
        goto out;
    }
    TRY_OUT(kvs_tokenizer_decode(&samples->prompt_text, &samples->prompt_size, samples->tokenizer,
                                 samples->prompt, samples->prompt_count, err));
    samples->made = kvsi_alloc(samples->tokens, sizeof *samples->made);
    if (!samples->made)
        st = fail_memory(err);
out:
    if (st != KVS_OK)
        kvsi_train_samples_release(samples);
    return st;
}

void kvsi_train_samples_release(kvsi_train_samples *samples)
{
    kvsi_free(samples->prompt);
    kvsi_free(samples->made);
    kvs_text_free(samples->prompt_text);
    kvs_text_free(samples->text);
    *samples = (kvsi_train_samples){0};
}

/* ---- generating ------------------------------------------------------------------------------ */

/* Generates up to t->tokens tokens after the prompt, until EOS or the end of the context. */
static kvs_status draw(kvsi_train_samples *t, const kvs_model *model, size_t *count, kvs_err *err)
{
    const size_t context = kvsi_model_count(kvs_model_get_config(model), "context");
    const size_t vocab = kvs_model_logit_count(model);
    const int32_t eos = kvs_tokenizer_eos(t->tokenizer);
    const size_t limit = context - t->prompt_count + 1; /* the last one is not fed */
    const size_t most = t->tokens < limit ? t->tokens : limit;
    float *logits = kvsi_alloc(vocab, sizeof *logits);
    kvs_session_options options;
    kvs_session *session = NULL;
    kvs_sampler *sampler = NULL;
    kvs_status st = KVS_OK;

    *count = 0;
    if (!logits) {
        st = fail_memory(err);
        goto out;
    }
    kvs_session_options_init(&options, sizeof options);
    options.capacity = t->prompt_count + most - 1;
    TRY_OUT(kvs_session_create(&session, model, &options, err));
    TRY_OUT(kvs_sampler_create(&sampler, vocab, &t->sampling, err));
    TRY_OUT(kvs_session_feed(session, t->prompt, t->prompt_count, logits, err));
    while (*count < most) {
        const int32_t next = kvs_sampler_next(sampler, logits);

        if (next == eos || (size_t)next >= kvs_tokenizer_vocab(t->tokenizer))
            break; /* a model may have more tokens than its tokenizer */
        t->made[(*count)++] = next;
        if (*count < most)
            TRY_OUT(kvs_session_feed(session, &next, 1, logits, err));
    }
out:
    kvs_sampler_free(sampler);
    kvs_session_free(session);
    kvsi_free(logits);
    return st;
}

kvs_status kvsi_train_samples_make(kvsi_train_samples *samples, const kvs_model *model,
                                   kvs_sample *out, kvs_err *err)
{
    size_t count;

    TRY(draw(samples, model, &count, err));
    kvs_text_free(samples->text);
    samples->text = NULL;
    TRY(kvs_tokenizer_decode(&samples->text, &samples->text_size, samples->tokenizer, samples->made,
                             count, err));
    *out = (kvs_sample){.prompt = samples->prompt_text,
                        .prompt_size = samples->prompt_size,
                        .text = samples->text,
                        .text_size = samples->text_size};
    return KVS_OK;
}

/* ---- printing -------------------------------------------------------------------------------- */

/* Bytes of the control character at the start of valid UTF-8; 0 = another character, or a tab. */
static size_t control_size(const char *text)
{
    const unsigned char first = (unsigned char)text[0], second = first ? (unsigned char)text[1] : 0;

    if ((first < 0x20 && first != '\t') || first == 0x7f)
        return 1;
    return first == 0xc2 && second < 0xa0 ? 2 : 0;
}

static void print_safely(const char *bytes, size_t size)
{
    json_t *value = kvsi_json_text(bytes, size);
    const char *text = json_string_value(value);
    const size_t length = json_string_length(value);

    for (size_t i = 0; i < length;) {
        const size_t control = control_size(text + i);

        if (text[i] == '\n')
            fputs("\n  | ", stderr);
        else
            fputc(control ? '?' : text[i], stderr);
        i += control ? control : 1;
    }
    json_decref(value);
}

void kvsi_train_samples_print(uint64_t step, const kvs_sample *sample)
{
    fprintf(stderr, "step %" PRIu64 ": sample\n  | ", step);
    print_safely(sample->prompt, sample->prompt_size);
    print_safely(sample->text, sample->text_size);
    fputc('\n', stderr);
}
