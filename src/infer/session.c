/* A session: one sequence, fed in chunks of any size. */
#include "base/memory.h"
#include "model/pass.h"

enum { CHUNK_MAX = 256 }; /* tokens in one pass: longer input is cut, memory stays small */

struct kvs_session {
    kvsi_state state;
    kvsi_pass *pass;
    real *logits, *host_logits; /* [vocab], the backend's and ours */
};

kvs_status kvs_session_create(kvs_session **out, const kvs_model *model, size_t capacity,
                              kvs_err *err)
{
    kvs_status st;
    const kvsi_ops *op = model->context.ops;
    const size_t logits = kvsi_pass_logit_count(&model->config);
    kvs_session *s = kvsi_alloc(1, sizeof *s);
    kvsi_pass_limits limits = {.sequences = 1, .head_rows = 1};

    *out = NULL;
    if (!s)
        return kvsi_fail(err, KVS_E_NOMEM, "out of memory for a session");
    KVS_TRY(kvsi_state_init(&s->state, model, capacity, err));
    limits.tokens = s->state.capacity < CHUNK_MAX ? s->state.capacity : CHUNK_MAX;
    KVS_TRY(kvsi_pass_create(&s->pass, model, &limits, err));
    s->logits = op->alloc(logits * sizeof *s->logits);
    s->host_logits = kvsi_alloc(logits, sizeof *s->host_logits);
    if (!s->logits || !s->host_logits) {
        st = kvsi_fail(err, KVS_E_NOMEM, "out of memory for %zu logits", logits);
        goto out;
    }
    *out = s;
    s = NULL;
out:
    kvs_session_free(s);
    return st;
}

void kvs_session_free(kvs_session *session)
{
    if (!session)
        return;
    if (session->pass)
        session->pass->context.ops->release(session->logits);
    kvsi_pass_free(session->pass);
    kvsi_state_release(&session->state);
    kvsi_free(session->host_logits);
    kvsi_free(session);
}

void kvs_session_reset(kvs_session *session)
{
    kvsi_state_reset(&session->state);
}

size_t kvs_session_length(const kvs_session *session)
{
    return session->state.length;
}

static kvs_status check_input(const kvs_session *s, const int32_t *ids, size_t count, kvs_err *err)
{
    const size_t vocab = s->state.model->config.vocab;

    if (count > s->state.capacity - s->state.length)
        return kvsi_fail(err, KVS_E_LIMIT, "%zu tokens do not fit: %zu of %zu are taken", count,
                         s->state.length, s->state.capacity);
    for (size_t i = 0; i < count; i++)
        if (ids[i] < 0 || (size_t)ids[i] >= vocab)
            return kvsi_fail(err, KVS_E_INVALID, "token %zu is id %d, expected 0 to %zu", i,
                             (int)ids[i], vocab - 1);
    return KVS_OK;
}

kvs_status kvs_session_feed(kvs_session *session, const int32_t *ids, size_t count, float *logits,
                            kvs_err *err)
{
    kvsi_pass *pass = session->pass;
    kvsi_state *const states[] = {&session->state};
    kvs_status st = check_input(session, ids, count, err);

    for (size_t at = 0; st == KVS_OK && at < count; at += pass->tokens) {
        const size_t left = count - at, most = pass->limits.tokens;
        const size_t starts[] = {0, left < most ? left : most};
        const kvs_batch batch = {.sequences = 1, .starts = starts, .ids = ids + at};

        st = kvsi_pass_load(pass, &batch, states, err);
        if (st == KVS_OK)
            kvsi_pass_forward(pass);
    }
    if (st == KVS_OK && logits && count > 0) {
        const int32_t last = (int32_t)pass->tokens - 1;

        kvsi_pass_logits(pass, session->host_logits, session->logits, &last, 1);
        for (size_t v = 0; v < kvsi_pass_logit_count(&session->state.model->config); v++)
            logits[v] = (float)session->host_logits[v];
    }
    return st;
}
