/* Log-probability of a continuation after its context, token by token. */
#include "base/memory.h"
#include "base/status.h"
#include "config/config.h"

static kvs_status check(const kvs_session *session, size_t count, size_t context_count,
                        unsigned flags, kvs_err *err)
{
    const size_t capacity = kvs_session_capacity(session);

    if (flags & ~(unsigned)KVS_SCORE_STEP_BY_STEP)
        return kvsi_fail(err, KVS_E_INVALID, "unknown flags 0x%x for scoring", flags);
    if (context_count == 0)
        return kvsi_fail(err, KVS_E_INVALID, "the context is empty, expected at least 1 token");
    if (count <= context_count)
        return kvsi_fail(err, KVS_E_INVALID, "the continuation has no token of its own");
    if (count - 1 > capacity) /* the last token is not fed */
        return kvsi_fail(err, KVS_E_LIMIT,
                         "context and continuation have %zu tokens, the model takes at most %zu",
                         count, capacity + 1);
    return KVS_OK;
}

/* Buffers of one call. */
typedef struct work {
    double *logprobs; /* of the continuation */
    int32_t *best;    /* most likely tokens at its positions */
    float *logits;    /* of one token */
} work;

/* Feeds the context and then the continuation, with as many tokens per pass as possible. */
static kvs_status score_at_once(kvs_session *session, const int32_t *ids, size_t count,
                                size_t context_count, const work *w, kvs_err *err)
{
    const kvs_feed feed = {.size = sizeof feed,
                           .session = session,
                           .ids = ids + context_count - 1,
                           .count = count - context_count,
                           .targets = ids + context_count,
                           .logprobs = w->logprobs,
                           .best = w->best};

    TRY(kvs_session_feed(session, ids, context_count - 1, NULL, err));
    return kvs_runner_feed(NULL, &feed, 1, err);
}

/* Feeds one token at a time, as generation does. */
static kvs_status score_step_by_step(kvs_session *session, const int32_t *ids, size_t count,
                                     size_t context_count, size_t logit_count, const work *w,
                                     kvs_err *err)
{
    for (size_t i = 0; i + 1 < count; i++) {
        const int scored = i + 1 >= context_count;
        const size_t at = i + 1 - context_count;

        TRY(kvs_session_feed(session, ids + i, 1, scored ? w->logits : NULL, err));
        if (!scored)
            continue;
        w->logprobs[at] = kvs_logits_logprob(w->logits, logit_count, ids[i + 1]);
        w->best[at] = kvs_logits_best(w->logits, logit_count);
    }
    return KVS_OK;
}

/* The last id is not fed, so feeding does not check it. */
static kvs_status check_last(const int32_t *ids, size_t count, size_t vocab, kvs_err *err)
{
    const int32_t last = ids[count - 1];

    if (last < 0 || (size_t)last >= vocab)
        return kvsi_fail(err, KVS_E_INVALID, "token %zu is id %d, expected 0 to %zu", count - 1,
                         (int)last, vocab - 1);
    return KVS_OK;
}

kvs_status kvs_score(double *sum, int *greedy, double *logprobs, kvs_session *session,
                     const int32_t *ids, size_t count, size_t context_count, unsigned flags,
                     kvs_err *err)
{
    const kvs_model *model;
    size_t logits;
    double total = 0;
    int is_greedy = 1;
    work w = {0};
    kvs_status st;

    NEED(session);
    NEED(ids);
    model = kvs_session_get_model(session);
    logits = kvs_model_logit_count(model);
    TRY_OUT(check(session, count, context_count, flags, err));
    TRY_OUT(check_last(ids, count, kvs_model_get_config(model)->vocab, err));
    w.logprobs = kvsi_alloc(count - context_count, sizeof *w.logprobs);
    w.best = kvsi_alloc(count - context_count, sizeof *w.best);
    w.logits = kvsi_alloc(logits, sizeof *w.logits);
    if (!w.logprobs || !w.best || !w.logits) {
        st = kvsi_no_memory(err, "the scores of %zu tokens", count);
        goto out;
    }
    kvs_session_reset(session);
    if (flags & KVS_SCORE_STEP_BY_STEP)
        TRY_OUT(score_step_by_step(session, ids, count, context_count, logits, &w, err));
    else
        TRY_OUT(score_at_once(session, ids, count, context_count, &w, err));
    for (size_t i = 0; i < count - context_count; i++) {
        total += w.logprobs[i];
        is_greedy &= w.best[i] == ids[context_count + i];
        if (logprobs)
            logprobs[i] = w.logprobs[i];
    }
    if (sum)
        *sum = total;
    if (greedy)
        *greedy = is_greedy;
out:
    kvsi_free(w.logprobs);
    kvsi_free(w.best);
    kvsi_free(w.logits);
    return st;
}
