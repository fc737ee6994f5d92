/* /lens/tokens and /lens/run: tokens with their texts, log-probabilities and alternatives. */
#include "base/memory.h"
#include "serve/lens_routes.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum {
    SLICE = 256,        /* tokens that are fed before looking whether the client is gone */
    TEXT_MAX = 1 << 20, /* bytes */
    CONTEXT_TOKENS = 4, /* that the text of an alternative may depend on */
};

/* ---- texts ----------------------------------------------------------------------------------- */

/* Whether the tokenizer has a text for an id: the vocabulary of a model may be larger. */
static int has_text(const kvs_tokenizer *tokenizer, int32_t id)
{
    return (size_t)id < kvs_tokenizer_vocab(tokenizer);
}

/* The text of every token.  They add up to the text of all, so a token that ends within a character
 * has none, and the one that completes it has all of it. */
static kvs_status list_texts(json_t *list, const kvs_tokenizer *tokenizer, const int32_t *ids,
                             size_t count, kvs_err *err)
{
    kvs_detokenizer *texts = NULL;
    const char *text;
    size_t size;
    kvs_status st;

    TRY_OUT(kvs_detokenizer_create(&texts, tokenizer, NULL, 0, err));
    for (size_t i = 0; i < count; i++) {
        kvsi_text whole = {0};

        TRY_OUT(kvs_detokenizer_add(&text, &size, texts, ids + i,
                                    has_text(tokenizer, ids[i]) ? 1 : 0, err));
        kvsi_text_add_bytes(&whole, text, size);
        if (i + 1 == count) {
            TRY_OUT(kvs_detokenizer_finish(&text, &size, texts, err));
            kvsi_text_add_bytes(&whole, text, size);
        }
        json_array_append_new(list, kvsi_json_text(whole.data ? whole.data : "", whole.length));
        kvsi_text_release(&whole);
    }
out:
    kvs_detokenizer_free(texts);
    return st;
}

/* The text of a token after others. */
static kvs_status text_after(json_t **out, kvs_detokenizer *texts, const kvs_tokenizer *tokenizer,
                             const int32_t *before, size_t count, int32_t id, kvs_err *err)
{
    kvsi_text whole = {0};
    const char *text;
    size_t size;
    kvs_status st;

    *out = NULL;
    kvs_detokenizer_reset(texts);
    for (size_t i = 0; i < count; i++)
        if (has_text(tokenizer, before[i]))
            TRY_OUT(kvs_detokenizer_skip(texts, before + i, 1, err));
    TRY_OUT(kvs_detokenizer_add(&text, &size, texts, &id, has_text(tokenizer, id) ? 1 : 0, err));
    kvsi_text_add_bytes(&whole, text, size);
    TRY_OUT(kvs_detokenizer_finish(&text, &size, texts, err));
    kvsi_text_add_bytes(&whole, text, size);
    *out = kvsi_json_text(whole.data ? whole.data : "", whole.length);
out:
    kvsi_text_release(&whole);
    return st;
}

/* ---- /lens/tokens ---------------------------------------------------------------------------- */

static kvs_status encode_messages(int32_t **ids, size_t *count, const kvsi_lens_model *m,
                                  const json_t *messages, kvs_err *err)
{
    kvs_chat_options options;
    char *json = NULL, *text = NULL;
    size_t size;
    kvs_status st;

    if (!m->chat)
        return kvsi_fail(err, KVS_E_UNSUPPORTED, "the model has no chat template");
    if (!json_is_array(messages))
        return kvsi_fail(err, KVS_E_INVALID, "field 'messages' must be a list of messages");
    kvs_chat_options_init(&options, sizeof options);
    options.add_generation_prompt = 1;
    TRY_OUT(kvsi_json_dump(&json, messages, JSON_COMPACT, "the messages", err));
    TRY_OUT(kvs_chat_render(&text, &size, m->chat, json, strlen(json), &options, err));
    TRY_OUT(kvs_tokenizer_encode(ids, count, m->tokenizer, text, size, KVS_ENCODE_NO_SPECIAL, err));
out:
    kvs_text_free(text);
    free(json);
    return st;
}

static kvs_status encode_text(int32_t **ids, size_t *count, const kvsi_lens_model *m,
                              const json_t *text, kvs_err *err)
{
    if (!json_is_string(text))
        return kvsi_fail(err, KVS_E_INVALID,
                         "'/lens/tokens' needs one of 'text', 'messages', 'ids'");
    if (json_string_length(text) > TEXT_MAX)
        return kvsi_fail(err, KVS_E_LIMIT, "field 'text' has %zu bytes, expected at most %d",
                         json_string_length(text), TEXT_MAX);
    return kvs_tokenizer_encode(ids, count, m->tokenizer, json_string_value(text),
                                json_string_length(text), 0, err);
}

static kvs_status answer_tokens(kvsi_lens_answer *out, const kvsi_lens_model *m, const int32_t *ids,
                                size_t count, kvs_err *err)
{
    json_t *texts = json_array();
    const kvs_status st = list_texts(texts, m->tokenizer, ids, count, err);

    if (st != KVS_OK) {
        json_decref(texts);
        return st;
    }
    return kvsi_lens_answer_json(
        out, json_pack("{s:o, s:o}", "ids", kvsi_json_ids(ids, count), "texts", texts), err);
}

kvs_status kvsi_lens_reply_tokens(kvsi_lens_answer *out, const kvsi_lens_call *call, kvs_err *err)
{
    const json_t *messages = json_object_get(call->body, "messages");
    const kvsi_lens_model *m;
    int32_t *ids = NULL;
    size_t count = 0;
    kvs_status st;

    TRY(kvsi_lens_get_model(&m, call, err));
    if (json_object_get(call->body, "ids")) {
        TRY(kvsi_lens_get_ids(&ids, &count, call, m->model, KVSI_LENS_TOKENS_MAX, err));
        st = answer_tokens(out, m, ids, count, err);
        kvsi_free(ids);
        return st;
    }
    st = messages ? encode_messages(&ids, &count, m, messages, err)
                  : encode_text(&ids, &count, m, json_object_get(call->body, "text"), err);
    if (st == KVS_OK)
        st = answer_tokens(out, m, ids, count, err);
    kvs_ids_free(ids);
    return st;
}

/* ---- /lens/run ------------------------------------------------------------------------------- */

typedef struct results {
    size_t count, top;
    double *logprobs;     /* [count] of the tokens themselves */
    int32_t *top_ids;     /* [count, top] the next tokens */
    double *top_logprobs; /* [count, top] */
} results;

static kvs_status make_results(results *r, size_t count, size_t top, kvs_err *err)
{
    *r = (results){.count = count, .top = top};
    r->logprobs = kvsi_alloc(count, sizeof *r->logprobs);
    r->top_ids = kvsi_alloc(count * top, sizeof *r->top_ids);
    r->top_logprobs = kvsi_alloc(count * top, sizeof *r->top_logprobs);
    if (!r->logprobs || !r->top_ids || !r->top_logprobs)
        return kvsi_no_memory(err, "the results of %zu tokens", count);
    return KVS_OK;
}

static void release_results(results *r)
{
    kvsi_free(r->logprobs);
    kvsi_free(r->top_ids);
    kvsi_free(r->top_logprobs);
}

static unsigned target_of(const char *name)
{
    return strcmp(name, "k") == 0   ? KVS_SHIFT_K
           : strcmp(name, "v") == 0 ? KVS_SHIFT_V
           : strcmp(name, "q") == 0 ? KVS_SHIFT_Q
                                    : 0U;
}

/* {"layer", "head", "target": "k", "taps": [oldest first]} */
static kvs_status apply_edit(kvs_session *session, const json_t *edit, size_t window, kvs_err *err)
{
    const json_t *list = json_object_get(edit, "taps"), *value;
    size_t layer = 0, head = 0, i;
    const char *target = "";
    double *taps;
    kvs_status st = KVS_OK;

    if (!json_is_object(edit))
        return kvsi_fail(err, KVS_E_INVALID, "it must be an object");
    TRY(kvsi_json_get_size(&layer, edit, "layer", "it", err));
    TRY(kvsi_json_get_size(&head, edit, "head", "it", err));
    TRY(kvsi_json_get_text(&target, edit, "target", "it", err));
    if (target_of(target) == 0)
        return kvsi_fail(err, KVS_E_INVALID, "'target' is '%.16s', expected k, v or q", target);
    if (json_array_size(list) != window + 1)
        return kvsi_fail(err, KVS_E_INVALID, "'taps' has %zu numbers, expected %zu",
                         json_array_size(list), window + 1);
    taps = kvsi_alloc(window + 1, sizeof *taps);
    if (!taps)
        return kvsi_no_memory(err, "%zu taps", window + 1);
    json_array_foreach(list, i, value)
        taps[i] = json_is_number(value) ? json_number_value(value) : NAN;
    st = kvs_session_set_taps(session, layer, target_of(target), head, taps, err);
    kvsi_free(taps);
    return st;
}

static kvs_status apply_edits(kvs_session *session, const kvsi_lens_call *call,
                              const kvs_model *model, kvs_err *err)
{
    const json_t *edits = json_object_get(call->body, "edits"), *edit;
    const size_t window =
        (size_t)kvs_model_config_number(kvs_model_get_config(model), "shift-window");
    size_t i;

    if (!edits || json_is_null(edits))
        return KVS_OK;
    if (!json_is_array(edits) || json_array_size(edits) > KVSI_LENS_EDITS_MAX)
        return kvsi_fail(err, KVS_E_INVALID, "field 'edits' must be a list of at most %d changes",
                         (int)KVSI_LENS_EDITS_MAX);
    json_array_foreach(edits, i, edit) {
        kvs_err why = {0};

        if (apply_edit(session, edit, window, &why) != KVS_OK)
            return kvsi_fail(err, why.status, "field 'edits': element %zu: %.400s", i, why.message);
    }
    return KVS_OK;
}

static kvs_status feed(results *r, kvs_session *session, const int32_t *ids,
                       const kvsi_lens_call *call, kvs_err *err)
{
    for (size_t at = 0; at < r->count; at += SLICE) {
        kvs_feed part;

        TRY(kvsi_lens_check_wanted(call, err));
        kvs_feed_init(&part, sizeof part);
        part.session = session;
        part.ids = ids + at;
        part.count = r->count - at < SLICE ? r->count - at : SLICE;
        part.own_logprobs = r->logprobs + at;
        part.top = r->top;
        part.top_ids = r->top > 0 ? r->top_ids + at * r->top : NULL;
        part.top_logprobs = r->top > 0 ? r->top_logprobs + at * r->top : NULL;
        TRY(kvs_runner_feed(NULL, &part, 1, err));
    }
    return KVS_OK;
}

static kvs_status run(results *r, const kvs_model *model, const int32_t *ids,
                      const kvsi_lens_call *call, kvs_err *err)
{
    kvs_session_options options;
    kvs_session *session = NULL;
    kvs_status st;

    kvs_session_options_init(&options, sizeof options);
    options.capacity = r->count;
    TRY(kvs_session_create(&session, model, &options, err));
    TRY_OUT(apply_edits(session, call, model, err));
    TRY_OUT(feed(r, session, ids, call, err));
out:
    kvs_session_free(session);
    return st;
}

/* Alternatives of the token after token `at`: ids, log-probabilities and texts. */
static kvs_status add_alternatives(json_t *list, const results *r, kvs_detokenizer *texts,
                                   const kvs_tokenizer *tokenizer, const int32_t *ids, size_t at,
                                   kvs_err *err)
{
    const size_t first = at + 1 > CONTEXT_TOKENS ? at + 1 - CONTEXT_TOKENS : 0;
    json_t *here = json_array();

    json_array_append_new(list, here);
    for (size_t i = 0; i < r->top && r->top_ids[at * r->top + i] >= 0; i++) {
        const int32_t id = r->top_ids[at * r->top + i];
        json_t *text;

        TRY(text_after(&text, texts, tokenizer, ids + first, at + 1 - first, id, err));
        json_array_append_new(here, json_pack("{s:i, s:o, s:o}", "id", (int)id, "logprob",
                                              kvsi_json_number(r->top_logprobs[at * r->top + i]),
                                              "text", text));
    }
    return KVS_OK;
}

static kvs_status answer_results(kvsi_lens_answer *out, const results *r,
                                 const kvs_tokenizer *tokenizer, const int32_t *ids, kvs_err *err)
{
    kvs_detokenizer *texts = NULL;
    json_t *list = json_array();
    kvs_status st;

    TRY_OUT(kvs_detokenizer_create(&texts, tokenizer, NULL, 0, err));
    for (size_t i = 0; i < r->count && r->top > 0; i++)
        TRY_OUT(add_alternatives(list, r, texts, tokenizer, ids, i, err));
    TRY_OUT(kvsi_lens_answer_json(
        out,
        json_pack("{s:o, s:O}", "logprobs", kvsi_json_numbers(r->logprobs, r->count), "next", list),
        err));
out:
    json_decref(list);
    kvs_detokenizer_free(texts);
    return st;
}

kvs_status kvsi_lens_reply_run(kvsi_lens_answer *out, const kvsi_lens_call *call, kvs_err *err)
{
    const kvsi_lens_model *m;
    results r = {0};
    int32_t *ids = NULL;
    size_t count = 0, top = 0;
    kvs_status st;

    TRY(kvsi_lens_get_model(&m, call, err));
    TRY(kvsi_lens_get_count(&top, call, "top", KVSI_LENS_TOP_MAX, err));
    TRY(kvsi_lens_get_ids(&ids, &count, call, m->model, KVSI_LENS_TOKENS_MAX, err));
    TRY_OUT(make_results(&r, count, top, err));
    TRY_OUT(run(&r, m->model, ids, call, err));
    TRY_OUT(answer_results(out, &r, m->tokenizer, ids, err));
out:
    release_results(&r);
    kvsi_free(ids);
    return st;
}
