/* A session: one sequence that is fed, rewound and forked. */
#include "infer/session.h"

#include "base/memory.h"
#include "base/sized.h"

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
        TRY_OUT(kvs_runner_create(
            &s->runner, model,
            &(kvs_runner_options){.size = sizeof(kvs_runner_options),
                                  .sequences = 1,
                                  .tokens = s->state.capacity < CHUNK ? s->state.capacity : CHUNK},
            err));
    *out = s;
    s = NULL;
out:
    kvs_session_free(s);
    return st;
}

static const kvs_session_options defaults = {.size = sizeof defaults};

void kvs_session_options_init(kvs_session_options *options, size_t size)
{
    kvsi_sized_init(options, size, &defaults, sizeof defaults);
}

kvs_status kvsi_session_read_options(kvs_session_options *own, const kvs_model *model,
                                     const kvs_session_options *options, kvs_err *err)
{
    *own = defaults;
    TRY(kvsi_sized_read(own, sizeof *own, options, "kvs_session_options", err));
    if (own->runner && own->runner->model != model)
        return kvsi_fail(err, KVS_E_INVALID, "the runner is another model's");
    return KVS_OK;
}

kvs_status kvs_session_create(kvs_session **out, const kvs_model *model,
                              const kvs_session_options *options, kvs_err *err)
{
    kvs_session_options o;
    kvsi_dtype cache;

    NEED(out);
    *out = NULL;
    NEED(model);
    TRY(kvsi_session_read_options(&o, model, options, err));
    TRY(kvsi_cache_type(&cache, o.cache, err));
    return kvsi_session_create(out, model, o.runner, o.capacity, cache, err);
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

uint64_t kvs_session_bytes(const kvs_model_config *config, const kvs_session_options *options)
{
    kvs_session_options o = defaults;
    size_t tokens;

    if (!config || kvsi_sized_read(&o, sizeof o, options, "kvs_session_options", NULL) != KVS_OK)
        return 0;
    tokens = o.capacity > 0 ? o.capacity : config->context;
    return kvsi_state_bytes(config, tokens, o.cache == KVS_DTYPE_F16 ? KVSI_F16 : KVSI_REAL_TYPE) +
           tokens * sizeof(int32_t);
}

/* ---- copy and rewind ---- */

kvs_status kvs_session_copy(kvs_session **out, const kvs_session *session, size_t length,
                            const kvs_session_options *options, kvs_err *err)
{
    kvs_session_options o;
    kvs_session *copy = NULL;
    kvs_runner *runner;
    const kvsi_state *from;
    size_t capacity;
    kvs_status st;

    NEED(out);
    *out = NULL;
    NEED(session);
    from = &session->state;
    TRY(kvsi_session_read_options(&o, from->model, options, err));
    capacity = o.capacity > 0 ? o.capacity : from->capacity;
    if (capacity < from->length)
        return kvsi_fail(err, KVS_E_LIMIT, "a copy for %zu tokens of a session that has %zu",
                         capacity, from->length);
    runner = o.runner ? o.runner : session->owns_runner ? NULL : session->runner;
    TRY_OUT(kvsi_session_create(&copy, from->model, runner, capacity, from->cache, err));
    kvsi_state_copy(&copy->state, from);
    memcpy(copy->ids, session->ids, from->length * sizeof *session->ids);
    if (length != SIZE_MAX)
        TRY_OUT(kvs_session_rewind(copy, length, err));
    *out = copy;
    copy = NULL;
out:
    kvs_session_free(copy);
    return st;
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
    const kvs_feed again = {.size = sizeof(kvs_feed), .session = session};

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
