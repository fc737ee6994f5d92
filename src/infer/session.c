/* A session: one sequence, fed in chunks of any size. */
#include "infer/session.h"

#include "base/memory.h"

/* `runner` NULL = one of its own. */
static kvs_status create(kvs_session **out, const kvs_model *model, kvs_runner *runner,
                         size_t capacity, kvs_err *err)
{
    kvs_session *s = kvsi_alloc(1, sizeof *s);
    kvs_status st;

    *out = NULL;
    if (!s)
        return kvsi_fail(err, KVS_E_NOMEM, "out of memory for a session");
    s->runner = runner;
    s->owns_runner = !runner;
    KVS_TRY(kvsi_state_init(&s->state, model, capacity, err));
    s->ids = kvsi_alloc(s->state.capacity, sizeof *s->ids);
    if (!s->ids) {
        st = kvsi_fail(err, KVS_E_NOMEM, "out of memory for %zu ids", s->state.capacity);
        goto out;
    }
    if (s->owns_runner) {
        const size_t most = KVSI_STATE_CHUNK;

        KVS_TRY(kvs_runner_create(&s->runner, model, 1,
                                  s->state.capacity < most ? s->state.capacity : most, err));
    }
    *out = s;
    s = NULL;
out:
    kvs_session_free(s);
    return st;
}

kvs_status kvs_session_create(kvs_session **out, const kvs_model *model, size_t capacity,
                              kvs_err *err)
{
    return create(out, model, NULL, capacity, err);
}

kvs_status kvs_runner_session(kvs_session **out, kvs_runner *runner, size_t capacity, kvs_err *err)
{
    return create(out, runner->model, runner, capacity, err);
}

void kvs_session_free(kvs_session *session)
{
    if (!session)
        return;
    if (session->owns_runner)
        kvs_runner_free(session->runner);
    kvsi_state_release(&session->state);
    kvsi_free(session->ids);
    kvsi_free(session);
}

void kvs_session_reset(kvs_session *session)
{
    kvsi_state_reset(&session->state);
}

const kvs_model *kvs_session_get_model(const kvs_session *session)
{
    return session->state.model;
}

size_t kvs_session_length(const kvs_session *session)
{
    return session->state.length;
}

size_t kvs_session_capacity(const kvs_session *session)
{
    return session->state.capacity;
}

const int32_t *kvs_session_ids(const kvs_session *session)
{
    return session->ids;
}
