/* A session: one sequence that is fed, rewound and forked. */
#include "infer/session.h"

#include "base/memory.h"

#include <string.h>

enum {
    CHUNK = 256
}; /* tokens per pass of a session's own runner; longer input takes several passes */

kvs_status kvsi_session_create(kvs_session **out, const kvs_model *model, kvs_runner *runner,
                               size_t capacity, kvsi_dtype cache, kvs_err *err)
{
    kvs_session *s = kvsi_alloc(1, sizeof *s);
    kvs_status st;

    *out = NULL;
    if (!s)
        return kvsi_fail(err, KVS_E_NOMEM, "out of memory for a session");
    s->runner = runner;
    s->owns_runner = !runner;
    TRY_OUT(kvsi_state_init(&s->state, model, capacity, cache, err));
    s->ids = kvsi_alloc(s->state.capacity, sizeof *s->ids);
    if (!s->ids) {
        st = kvsi_fail(err, KVS_E_NOMEM, "out of memory for %zu ids", s->state.capacity);
        goto out;
    }
    if (s->owns_runner)
        TRY_OUT(kvs_runner_create(&s->runner, model, 1,
                                  s->state.capacity < CHUNK ? s->state.capacity : CHUNK, err));
    *out = s;
    s = NULL;
out:
    kvs_session_free(s);
    return st;
}

kvs_status kvs_session_create_with(kvs_session **out, const kvs_model *model,
                                   const kvs_session_options *options, kvs_err *err)
{
    kvs_runner *runner = options->runner;
    kvsi_dtype cache;

    *out = NULL;
    TRY(kvsi_cache_type(&cache, options->cache, err));
    if (runner && runner->model != model)
        return kvsi_fail(err, KVS_E_INVALID, "the runner is another model's");
    return kvsi_session_create(out, model, runner, options->capacity, cache, err);
}

kvs_status kvs_session_create(kvs_session **out, const kvs_model *model, size_t capacity,
                              kvs_err *err)
{
    return kvs_session_create_with(out, model, &(kvs_session_options){.capacity = capacity}, err);
}

kvs_status kvs_runner_session(kvs_session **out, kvs_runner *runner, size_t capacity, kvs_err *err)
{
    return kvs_session_create_with(
        out, runner->model, &(kvs_session_options){.capacity = capacity, .runner = runner}, err);
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

uint64_t kvs_session_bytes_with(const kvs_model_config *config, const kvs_session_options *options)
{
    const size_t tokens = options->capacity > 0 ? options->capacity : config->context;
    const kvsi_dtype cache = options->cache == KVS_DTYPE_F16 ? KVSI_F16 : KVSI_REAL_TYPE;

    return kvsi_state_bytes(config, tokens, cache) + tokens * sizeof(int32_t);
}

uint64_t kvs_session_bytes(const kvs_model_config *config, size_t capacity)
{
    return kvs_session_bytes_with(config, &(kvs_session_options){.capacity = capacity});
}

/* ---- fork and rewind ---- */

kvs_status kvs_session_fork(kvs_session **out, const kvs_session *session, size_t capacity,
                            kvs_err *err)
{
    const kvsi_state *from = &session->state;
    const size_t room = capacity > 0 ? capacity : from->capacity;
    kvs_status st;

    *out = NULL;
    if (room < from->length)
        return kvsi_fail(err, KVS_E_LIMIT, "a fork for %zu tokens of a session that has %zu", room,
                         from->length);
    st = kvsi_session_create(out, from->model, session->owns_runner ? NULL : session->runner, room,
                             from->cache, err);
    if (st != KVS_OK)
        return st;
    kvsi_state_copy(&(*out)->state, from, from->length);
    memcpy((*out)->ids, session->ids, from->length * sizeof *session->ids);
    return KVS_OK;
}

void kvs_session_reset(kvs_session *session)
{
    kvsi_state_reset(&session->state);
}

size_t kvs_session_earliest(const kvs_session *session)
{
    return kvsi_state_earliest(&session->state);
}

kvs_status kvs_session_rewind(kvs_session *session, size_t length, kvs_err *err)
{
    kvsi_state *state = &session->state;
    const kvs_feed again = {.session = session};

    if (length > state->length)
        return kvsi_fail(err, KVS_E_INVALID, "cannot rewind to %zu tokens, there are %zu", length,
                         state->length);
    if (length == state->length)
        return KVS_OK;
    if (length == 0) {
        kvs_session_reset(session);
        return KVS_OK;
    }
    if (length < kvsi_state_earliest(state))
        return kvsi_fail(err, KVS_E_LIMIT,
                         "cannot rewind to %zu tokens: of %zu, a sliding window of %zu leaves "
                         "enough to go back to 0, or to %zu and more",
                         length, state->length, state->config->sliding_window,
                         kvsi_state_earliest(state));
    kvsi_state_cut(state, length);
    session->goal = length;
    return kvsi_runner_run(session->runner, &again, 1, err);
}

/* ---- getters ---- */

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
