/* A session: one sequence that is fed, rewound and copied. */
#include "infer/session.h"

#include "base/math.h"
#include "base/memory.h"
#include "base/sized.h"

#include <string.h>

/* Tokens per pass of a session's own runner.  Longer input takes several passes. */
enum { CHUNK = 256 };

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
        TRY_OUT(
            kvs_runner_create(&s->runner, model,
                              &(kvs_runner_options){.size = sizeof(kvs_runner_options),
                                                    .sequences = 1,
                                                    .tokens = kvsi_min(s->state.capacity, CHUNK)},
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

kvs_status kvsi_session_check_cache(const kvs_session_options *options, kvsi_dtype cache,
                                    kvs_err *err)
{
    kvsi_dtype wanted;

    if (options->cache == KVS_DTYPE_KEEP)
        return KVS_OK;
    TRY(kvsi_cache_type(&wanted, options->cache, err));
    if (wanted != cache)
        return kvsi_fail(err, KVS_E_UNSUPPORTED, "a cache of type %s cannot become one of type %s",
                         kvsi_dtype_name(cache), kvsi_dtype_name(wanted));
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
    kvsi_dtype cache;
    size_t tokens;

    if (!config || kvsi_sized_read(&o, sizeof o, options, "kvs_session_options", NULL) != KVS_OK ||
        kvsi_cache_type(&cache, o.cache, NULL) != KVS_OK)
        return 0;
    tokens = o.capacity > 0 ? o.capacity : config->context;
    return kvsi_state_bytes(config, tokens, cache) + tokens * sizeof(int32_t);
}

/* ---- copy and rewind ---- */

/* Checks that a session can be rewound to a length, or copied up to it.  `what` is the verb of the
 * message. */
static kvs_status check_length(const kvsi_state *state, size_t length, const char *what,
                               kvs_err *err)
{
    if (length > state->length)
        return kvsi_fail(err, KVS_E_INVALID, "cannot %s %zu tokens, there are %zu", what, length,
                         state->length);
    if (length > 0 && length < state->length && length < kvsi_state_earliest(state))
        return kvsi_fail(err, KVS_E_LIMIT,
                         "cannot %s %zu tokens: of %zu, a sliding window of %zu leaves "
                         "enough to go back to 0, or to %zu and more",
                         what, length, state->length, state->config->sliding_window,
                         kvsi_state_earliest(state));
    return KVS_OK;
}

/* Feeds the ids, up to number `length`, that the state does not have yet. */
static kvs_status complete(kvs_session *s, size_t length, kvs_err *err)
{
    const kvs_feed again = {.size = sizeof again, .session = s};

    s->goal = length;
    return kvsi_runner_run(s->runner, &(kvsi_feed_list){&again, sizeof again, 1}, err);
}

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
    TRY(kvsi_session_check_cache(&o, from->cache, err));
    length = length == SIZE_MAX ? from->length : length;
    TRY(check_length(from, length, "copy", err));
    capacity = o.capacity > 0 ? o.capacity : from->capacity;
    if (capacity < length)
        return kvsi_fail(err, KVS_E_LIMIT, "a copy of %zu tokens in a session for %zu", length,
                         capacity);
    runner = o.runner ? o.runner : session->owns_runner ? NULL : session->runner;
    TRY_OUT(kvsi_session_create(&copy, from->model, runner, capacity, from->cache, err));
    TRY_OUT(kvsi_state_copy_taps(&copy->state, from, err));
    if (length > 0) {
        kvsi_state_copy(&copy->state, from, length);
        memcpy(copy->ids, session->ids, length * sizeof *session->ids);
        TRY_OUT(complete(copy, length, err));
    }
    *out = copy;
    copy = NULL;
out:
    kvs_session_free(copy);
    return st;
}

void kvs_session_reset(kvs_session *session)
{
    if (session)
        kvsi_state_reset(&session->state);
}

size_t kvs_session_earliest(const kvs_session *session)
{
    return session ? kvsi_state_earliest(&session->state) : 0;
}

kvs_status kvs_session_rewind(kvs_session *session, size_t length, kvs_err *err)
{
    kvsi_state *state;

    NEED(session);
    state = &session->state;
    TRY(check_length(state, length, "rewind to", err));
    if (length == state->length)
        return KVS_OK;
    if (length == 0) {
        kvs_session_reset(session);
        return KVS_OK;
    }
    kvsi_state_cut(state, length);
    return complete(session, length, err);
}

/* ---- taps ---- */

kvs_status kvs_session_set_taps(kvs_session *session, size_t layer, unsigned target, size_t head,
                                const double *taps, kvs_err *err)
{
    NEED(session);
    return kvsi_state_set_taps(&session->state, layer, target, head, taps, err);
}

/* ---- getters ---- */

const kvs_model *kvs_session_get_model(const kvs_session *session)
{
    return session ? session->state.model : NULL;
}

size_t kvs_session_length(const kvs_session *session)
{
    return session ? session->state.length : 0;
}

size_t kvs_session_capacity(const kvs_session *session)
{
    return session ? session->state.capacity : 0;
}

const int32_t *kvs_session_ids(const kvs_session *session)
{
    return session ? session->ids : NULL;
}
