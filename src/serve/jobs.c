#include "serve/jobs.h"

#include "base/memory.h"
#include "base/sha256.h"

#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

/* ---- prompts --------------------------------------------------------------------------------- */

static kvs_status encode(kvsi_job_prompt *prompt, const kvsi_job_source *source, const char *text,
                         size_t size, int adds_special, kvsi_refusal *refusal)
{
    kvs_err err = {0};
    int32_t *ids = NULL;
    kvs_status st;

    if (kvs_tokenizer_encode(&ids, &prompt->count, source->tokenizer, text, size,
                             adds_special ? 0 : KVS_ENCODE_NO_SPECIAL, &err) != KVS_OK)
        return kvsi_refuse_failed(refusal, &err);
    prompt->ids = kvsi_alloc(prompt->count, sizeof *prompt->ids);
    st = prompt->ids ? KVS_OK : kvsi_refuse_memory(refusal, "the request");
    if (prompt->ids && prompt->count > 0)
        memcpy(prompt->ids, ids, prompt->count * sizeof *ids);
    kvs_ids_free(ids);
    return st;
}

static kvs_status take_prompts(kvsi_job *job, const kvsi_job_source *source, kvsi_refusal *refusal)
{
    const kvsi_request *r = &job->request;

    for (size_t i = 0; i < r->prompt_count; i++) {
        kvsi_job_prompt *to = &job->prompts[i];
        kvsi_prompt *from = &r->prompts[i];

        if (from->text) {
            TRY(encode(to, source, from->text, from->size, r->add_special, refusal));
            continue;
        }
        to->ids = from->ids;
        to->count = from->count;
        from->ids = NULL;
    }
    return KVS_OK;
}

/* Cuts a rendered conversation behind the text of its last message, which the answer continues. */
static kvs_status cut_after_last(char *text, size_t *size, const json_t *messages,
                                 kvsi_refusal *refusal)
{
    const json_t *last = json_array_get(messages, json_array_size(messages) - 1);
    const char *content = json_string_value(json_object_get(last, "content"));
    size_t from = strspn(content, " \t\r\n"), length = strlen(content + from);
    char *found = NULL, *wanted;

    while (length > 0 && strchr(" \t\r\n", content[from + length - 1]))
        length--;
    wanted = length > 0 ? kvsi_strdup(content + from) : NULL;
    if (wanted) {
        wanted[length] = '\0';
        for (char *at = strstr(text, wanted); at; at = strstr(at + 1, wanted))
            found = at;
    }
    kvsi_free(wanted);
    if (!found)
        return kvsi_refuse(refusal, 400, "invalid_value", "continue_final_message",
                           "field 'continue_final_message': the template does not write the text "
                           "of the last message");
    *size = (size_t)(found - text) + length;
    return KVS_OK;
}

static kvs_status render(kvsi_job *job, const kvsi_job_source *source, kvsi_refusal *refusal)
{
    const kvsi_request *r = &job->request;
    kvs_chat_options how;
    char *messages = NULL, *text = NULL;
    size_t size = 0;
    kvs_err err = {0};
    kvs_status st;

    if (!source->chat_template)
        return kvsi_refuse(refusal, 400, "no_chat_template", NULL,
                           "the model has no chat template; the server takes one with --template");
    kvs_chat_options_init(&how, sizeof how);
    how.add_generation_prompt = r->add_generation_prompt;
    if (kvsi_json_dump(&messages, r->messages, JSON_COMPACT, "messages", &err) != KVS_OK)
        return kvsi_refuse_failed(refusal, &err);
    st = kvs_chat_render(&text, &size, source->chat_template, messages, strlen(messages), &how,
                         &err);
    free(messages);
    if (st == KVS_E_NOMEM)
        return kvsi_refuse_failed(refusal, &err);
    if (st != KVS_OK)
        return kvsi_refuse(refusal, 400, "invalid_value", "messages", "field 'messages': %s",
                           err.message);
    if (r->continues)
        st = cut_after_last(text, &size, r->messages, refusal);
    if (st == KVS_OK)
        st = encode(&job->prompts[0], source, text, size, r->add_special, refusal);
    kvs_text_free(text);
    return st;
}

/* ---- limits ---------------------------------------------------------------------------------- */

static kvs_status too_long(const kvsi_job_source *source, size_t prompt, size_t tokens,
                           const char *param, kvsi_refusal *refusal)
{
    kvsi_refuse(refusal, 400, "context_length_exceeded", param,
                "the prompt has %zu tokens and %zu are to be generated; the context is %zu", prompt,
                tokens, source->context);
    refusal->prompt_tokens = prompt;
    refusal->context = source->context;
    return KVS_E_INVALID;
}

/* Checks the lengths, and replaces a max_tokens that was not given.  The last generated token is
 * not fed, so it needs no place in the context. */
static kvs_status check_lengths(kvsi_job *job, const kvsi_job_source *source, kvsi_refusal *refusal)
{
    enum { USUAL = 16 };
    kvsi_request *r = &job->request;
    const char *param = r->endpoint & KVSI_CHAT ? "messages" : "prompt";
    size_t longest = 0, rest, total = 0;

    for (size_t i = 0; i < job->prompt_count; i++) {
        const size_t count = job->prompts[i].count;

        if (count == 0)
            return kvsi_refuse(refusal, 400, "invalid_value", param, "a prompt has no tokens");
        longest = count > longest ? count : longest;
        total += count;
    }
    if (total > KVSI_PROMPT_TOKENS)
        return kvsi_refuse(refusal, 400, "invalid_value", param,
                           "the prompts have %zu tokens, expected at most %d", total,
                           KVSI_PROMPT_TOKENS);
    if (longest > source->context)
        return too_long(source, longest, r->max_tokens == SIZE_MAX ? 1 : r->max_tokens, param,
                        refusal);
    rest = source->context + 1 - longest;
    if (r->max_tokens == SIZE_MAX)
        r->max_tokens = !(r->endpoint & KVSI_CHAT) && rest > USUAL ? USUAL : rest;
    if (r->max_tokens > rest)
        return too_long(source, longest, r->max_tokens, param, refusal);
    if (r->echo && r->logprobs && total * (r->top + 1) > KVSI_SCORES_MAX)
        return kvsi_refuse(refusal, 400, "invalid_value", "logprobs",
                           "the request has %zu log-probabilities of prompts, expected at most %d",
                           total * (r->top + 1), KVSI_SCORES_MAX);
    if (job->prompt_count * r->n > KVSI_CHOICES_MAX ||
        job->prompt_count * r->n * r->max_tokens > KVSI_NEW_TOKENS_MAX)
        return kvsi_refuse(refusal, 400, "invalid_value", "n",
                           "the request has %zu texts of %zu tokens, expected at most %d texts and "
                           "%d tokens",
                           job->prompt_count * r->n, r->max_tokens, KVSI_CHOICES_MAX,
                           KVSI_NEW_TOKENS_MAX);
    return KVS_OK;
}

/* ---------------------------------------------------------------------------------------------- */

/* Prefixes are shared within one key and salt. */
static uint64_t owner_of(size_t key, const char *salt)
{
    char digits[KVSI_SHA256_TEXT];
    kvsi_sha256 hash;

    kvsi_sha256_start(&hash);
    kvsi_sha256_add(&hash, &key, sizeof key);
    if (salt)
        kvsi_sha256_add(&hash, salt, strlen(salt) + 1);
    kvsi_sha256_finish(&hash, digits);
    digits[16] = '\0';
    return strtoull(digits, NULL, 16);
}

kvs_status kvsi_job_build(kvsi_job *job, const kvsi_job_source *source, size_t key,
                          kvsi_refusal *refusal)
{
    kvsi_request *r = &job->request;
    const char *stop;

    job->stop_id = -1;
    job->prompt_count = r->endpoint & KVSI_CHAT ? 1 : r->prompt_count;
    job->prompts = kvsi_alloc(job->prompt_count, sizeof *job->prompts);
    if (!job->prompts)
        return kvsi_refuse_memory(refusal, "the request");
    TRY((r->endpoint & KVSI_CHAT ? render : take_prompts)(job, source, refusal));
    TRY(check_lengths(job, source, refusal));
    for (size_t i = 0; r->echo && r->logprobs && i < job->prompt_count; i++)
        if (kvsi_scores_create(&job->prompts[i].scores, job->prompts[i].count,
                               r->top > 0 ? r->top : 1, NULL) != KVS_OK)
            return kvsi_refuse_memory(refusal, "the request");
    if (r->endpoint & KVSI_CHAT) {
        stop = kvs_chat_template_stop(source->chat_template);
        job->stop_text = *stop && !r->ignore_eos ? stop : NULL;
        job->stop_id = source->chat_stop_id;
    }
    if (!r->has_seed) {
        uint32_t drawn = 1;

        if (getrandom(&drawn, sizeof drawn, 0) != sizeof drawn)
            drawn = (uint32_t)(size_t)job;
        r->seed = drawn;
    }
    job->owner = owner_of(key, r->salt);
    return KVS_OK;
}

void kvsi_job_release(kvsi_job *job)
{
    for (size_t i = 0; job->prompts && i < job->prompt_count; i++) {
        kvsi_free(job->prompts[i].ids);
        kvsi_scores_release(&job->prompts[i].scores);
    }
    kvsi_free(job->prompts);
    job->prompts = NULL;
    kvsi_job_release_results(job);
    kvsi_request_release(&job->request);
}
