/* Generates text: feeds the prompt, then chooses a token, calls back with it, feeds it, and so on.
 *
 * Tokenizers are used through the public calls only. */
#include "base/math.h"
#include "base/memory.h"
#include "base/sized.h"
#include "infer/session.h"

#include <math.h>

static const kvs_generate_options defaults = {.size = sizeof defaults};

void kvs_generate_options_init(kvs_generate_options *options, size_t size)
{
    kvsi_sized_init(options, size, &defaults, sizeof defaults);
}

typedef struct generation {
    kvs_session *session;
    kvs_generate_options o;
    kvs_sampler *sampler;
    kvs_detokenizer *detokenizer; /* NULL = ids only */
    float *logits;                /* after the last token of the session */
    size_t logit_count;
    size_t count; /* tokens chosen so far */
} generation;

/* ---- preparation ---- */

static kvs_status check(const generation *g, const int32_t *prompt, size_t count, kvs_err *err)
{
    if (count > 0)
        NEED(prompt);
    if (count == 0 && kvs_session_length(g->session) == 0)
        return kvsi_fail(err, KVS_E_INVALID, "the prompt is empty, and so is the session");
    if (g->o.stop_count > 0 && !g->o.tokenizer)
        return kvsi_fail(err, KVS_E_INVALID, "stop strings need a tokenizer");
    if (g->o.stop_count > 0 && !g->o.stops)
        return kvsi_fail(err, KVS_E_INVALID, "stops is NULL, expected %zu strings",
                         g->o.stop_count);
    for (size_t i = 0; i < g->o.stop_count; i++)
        if (!g->o.stops[i])
            return kvsi_fail(err, KVS_E_INVALID, "stop string %zu is NULL", i);
    return KVS_OK;
}

/* Returns the number of ids that the sampler chooses from: all that can be fed and, with a
 * tokenizer, that have a text. */
static size_t choice_count(const generation *g)
{
    const size_t can_be_fed = kvsi_min(g->logit_count, g->session->state.config->vocab);

    return g->o.tokenizer ? kvsi_min(can_be_fed, kvs_tokenizer_vocab(g->o.tokenizer)) : can_be_fed;
}

static kvs_status allocate(generation *g, kvs_err *err)
{
    const kvs_generate_options *o = &g->o;

    g->logit_count = kvs_model_logit_count(g->session->state.model);
    g->logits = kvsi_alloc(g->logit_count, sizeof *g->logits);
    if (!g->logits)
        return kvsi_no_memory(err, "%zu logits", g->logit_count);
    TRY(kvs_sampler_create(&g->sampler, choice_count(g), o->sampling, err));
    return o->tokenizer
               ? kvs_detokenizer_create(&g->detokenizer, o->tokenizer, o->stops, o->stop_count, err)
               : KVS_OK;
}

/* Passes tokens before the generated ones to the sampler, for the repeat penalty, and to the
 * detokenizer, whose text depends on them.  The detokenizer does not get ids that the tokenizer
 * does not have: they have no text. */
static kvs_status add_context(generation *g, const int32_t *ids, size_t count, kvs_err *err)
{
    const size_t known = g->o.tokenizer ? kvs_tokenizer_vocab(g->o.tokenizer) : 0;

    TRY(kvs_sampler_accept(g->sampler, ids, count, err));
    for (size_t from = 0, to; g->detokenizer && from < count; from = to + 1) {
        for (to = from; to < count && (size_t)ids[to] < known;)
            to++;
        TRY(kvs_detokenizer_skip(g->detokenizer, ids + from, to - from, err));
    }
    return KVS_OK;
}

/* ---- the generated tokens ---- */

/* Returns whether the token is an EOS of the model or of the tokenizer. */
static int is_end(const generation *g, int32_t id)
{
    const int32_t *ends = NULL;
    const size_t count = kvs_model_eos(g->session->state.model, &ends);

    if (g->o.ignore_eos)
        return 0;
    for (size_t i = 0; i < count; i++)
        if (ends[i] == id)
            return 1;
    return g->o.tokenizer && kvs_tokenizer_eos(g->o.tokenizer) == id;
}

/* Calls the callback, with "" for an empty text, which is NULL from some detokenizer calls. */
static kvs_status call_back(const generation *g, kvs_generated *token, kvs_err *err)
{
    token->text = token->text_size > 0 ? token->text : "";
    if (g->o.token && g->o.token(g->o.user, token))
        return kvsi_fail(err, KVS_E_STOPPED, "the callback stopped the generation at token %zu",
                         token->index);
    return KVS_OK;
}

/* Calls back with a token and the text that is certain now.  A token that ends the text has no text
 * of its own: the callback gets the text that the detokenizer held back. */
static kvs_status report_token(generation *g, int32_t id, int ends, kvs_err *err)
{
    kvs_generated token = {.index = g->count++, .id = id, .ends = ends, .logprob = NAN};

    if (!isfinite(g->logits[id]))
        return kvsi_fail(err, KVS_E_FORMAT, "the logits after %zu tokens are not finite",
                         kvs_session_length(g->session));
    if (g->o.logprobs)
        token.logprob = kvs_logits_logprob(g->logits, g->logit_count, id);
    if (g->detokenizer && ends)
        TRY(kvs_detokenizer_finish(&token.text, &token.text_size, g->detokenizer, err));
    else if (g->detokenizer)
        TRY(kvs_detokenizer_add(&token.text, &token.text_size, g->detokenizer, &id, 1, err));
    return call_back(g, &token, err);
}

/* Calls back with the text that the detokenizer held back, if there is any. */
static kvs_status report_rest(const generation *g, kvs_err *err)
{
    kvs_generated rest = {.index = g->count, .id = -1, .logprob = NAN};

    if (g->detokenizer)
        TRY(kvs_detokenizer_finish(&rest.text, &rest.text_size, g->detokenizer, err));
    return rest.text_size > 0 ? call_back(g, &rest, err) : KVS_OK;
}

static int is_stopped(const generation *g)
{
    return g->detokenizer && kvs_detokenizer_stopped(g->detokenizer);
}

/* Chooses tokens until there is a reason to end. */
static kvs_status decode(generation *g, kvs_finish *finish, kvs_err *err)
{
    kvs_session *session = g->session;

    for (;;) {
        const int32_t id = kvs_sampler_next(g->sampler, g->logits);
        const int ends = is_end(g, id);
        const int is_full = kvs_session_length(session) == kvs_session_capacity(session);

        TRY(report_token(g, id, ends, err));
        if (ends) {
            *finish = KVS_FINISH_EOS;
            return KVS_OK;
        }
        if (is_stopped(g)) {
            *finish = KVS_FINISH_STOP;
            return KVS_OK;
        }
        if (g->count == g->o.max_tokens || is_full) {
            TRY(report_rest(g, err));
            *finish = is_stopped(g)                 ? KVS_FINISH_STOP
                      : g->count == g->o.max_tokens ? KVS_FINISH_LENGTH
                                                    : KVS_FINISH_FULL;
            return KVS_OK;
        }
        TRY(kvs_session_feed(session, &id, 1, g->logits, err));
    }
}

kvs_status kvs_generate(kvs_finish *finish, kvs_session *session, const int32_t *prompt,
                        size_t count, const kvs_generate_options *options, kvs_err *err)
{
    generation g = {.session = session, .o = defaults};
    kvs_finish reason = KVS_FINISH_LENGTH;
    kvs_status st;

    NEED(session);
    TRY(kvsi_sized_read(&g.o, sizeof g.o, options, "kvs_generate_options", err));
    TRY(check(&g, prompt, count, err));
    TRY_OUT(allocate(&g, err));
    TRY_OUT(add_context(&g, kvs_session_ids(session), kvs_session_length(session), err));
    TRY_OUT(add_context(&g, prompt, count, err));
    if (count > 0)
        TRY_OUT(kvs_session_feed(session, prompt, count, g.logits, err));
    else
        TRY_OUT(kvs_session_logits(g.logits, session, err));
    TRY_OUT(decode(&g, &reason, err));
    if (finish)
        *finish = reason;
out:
    kvs_detokenizer_free(g.detokenizer);
    kvs_sampler_free(g.sampler);
    kvsi_free(g.logits);
    return st;
}
