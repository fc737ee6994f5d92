#include "serve/lens.h"

#include "base/memory.h"
#include "serve/lens_routes.h"
#include "serve/refusal.h"

#include <pthread.h>

struct kvsi_lens {
    kvsi_lens_options options;
    pthread_t thread;
    pthread_mutex_t lock; /* guards what follows */
    pthread_cond_t changed;
    kvsi_exchange *waiting[KVSI_LENS_WAITING_MAX]; /* a ring, `first` is the oldest */
    size_t first, count;
    int stops;
};

/* ---- answers --------------------------------------------------------------------------------- */

static void send(const kvsi_lens *lens, kvsi_exchange *x, unsigned status, const char *type,
                 kvsi_text *body)
{
    if (lens->options.answered)
        lens->options.answered(lens->options.user, status);
    kvsi_exchange_answer(x, status, type, body);
}

static void refuse(const kvsi_lens *lens, kvsi_exchange *x, const kvsi_refusal *refusal)
{
    kvsi_text body = {0};

    if (refusal->retry_seconds > 0)
        kvsi_exchange_add_header(x, "Retry-After", "1");
    kvsi_refusal_write(&body, refusal);
    send(lens, x, refusal->status, "application/json", &body);
}

static void refuse_failed(const kvsi_lens *lens, kvsi_exchange *x, const kvs_err *err)
{
    kvsi_refusal refusal;

    switch (err->status) {
    case KVS_E_INVALID:
    case KVS_E_FORMAT:
    case KVS_E_LIMIT:
    case KVS_E_UNSUPPORTED:
        kvsi_refuse(&refusal, 400, "invalid_value", NULL, "%s", err->message);
        break;
    case KVS_E_IO: /* the message has a path */
        kvsi_refuse(&refusal, 500, "internal_error", NULL, "a file of the server cannot be read");
        break;
    default:
        kvsi_refuse_failed(&refusal, err);
    }
    refuse(lens, x, &refusal);
}

static int is_gone(void *user)
{
    return kvsi_exchange_is_gone(user);
}

static void answer(const kvsi_lens *lens, kvsi_exchange *x)
{
    const kvsi_text *body = kvsi_exchange_body(x);
    const kvsi_lens_route *route = kvsi_lens_route_of(kvsi_exchange_path(x));
    const kvsi_lens_call call = {.options = &lens->options, .is_gone = is_gone, .user = x};
    kvsi_lens_answer out = {0};
    kvs_err err = {0};

    if (kvsi_exchange_is_gone(x))
        return;
    if (kvsi_lens_reply(&out, route, &call, body->data, body->length, &err) == KVS_OK) {
        kvsi_exchange_add_header(x, "Cache-Control", "no-store");
        send(lens, x, 200, out.type, &out.body);
    } else if (err.status != KVS_E_STOPPED) {
        refuse_failed(lens, x, &err);
    }
}

static void refuse_busy(const kvsi_lens *lens, kvsi_exchange *x, const char *why)
{
    kvsi_refusal refusal;

    kvsi_refuse(&refusal, 503, "overloaded", NULL, "%s", why);
    refusal.retry_seconds = 1;
    refuse(lens, x, &refusal);
}

/* ---- the thread ------------------------------------------------------------------------------ */

/* The oldest request that waits; NULL = the thread must end. */
static kvsi_exchange *take(kvsi_lens *lens)
{
    kvsi_exchange *x = NULL;

    pthread_mutex_lock(&lens->lock);
    while (!lens->stops && lens->count == 0)
        pthread_cond_wait(&lens->changed, &lens->lock);
    if (!lens->stops) {
        x = lens->waiting[lens->first];
        lens->first = (lens->first + 1) % KVSI_LENS_WAITING_MAX;
        lens->count--;
    }
    pthread_mutex_unlock(&lens->lock);
    return x;
}

static void *work(void *user)
{
    kvsi_lens *lens = user;
    kvsi_exchange *x;

    while ((x = take(lens))) {
        answer(lens, x);
        kvsi_exchange_release(x);
    }
    return NULL;
}

int kvsi_lens_has(const char *path)
{
    return kvsi_lens_route_of(path) != NULL;
}

void kvsi_lens_handle(kvsi_lens *lens, kvsi_exchange *x)
{
    int is_full, stops;

    pthread_mutex_lock(&lens->lock);
    stops = lens->stops;
    is_full = stops || lens->count == KVSI_LENS_WAITING_MAX;
    if (!is_full) {
        kvsi_exchange_keep(x);
        lens->waiting[(lens->first + lens->count++) % KVSI_LENS_WAITING_MAX] = x;
        pthread_cond_signal(&lens->changed);
    }
    pthread_mutex_unlock(&lens->lock);
    if (is_full)
        refuse_busy(lens, x,
                    stops ? "the server is shutting down" : "too many requests of pages wait");
}

kvs_status kvsi_lens_start(kvsi_lens **out, const kvsi_lens_options *options, kvs_err *err)
{
    kvsi_lens *lens = kvsi_alloc(1, sizeof *lens);

    *out = NULL;
    if (!lens)
        return kvsi_no_memory(err, "the requests of pages");
    lens->options = *options;
    pthread_mutex_init(&lens->lock, NULL);
    pthread_cond_init(&lens->changed, NULL);
    if (pthread_create(&lens->thread, NULL, work, lens) != 0) {
        pthread_cond_destroy(&lens->changed);
        pthread_mutex_destroy(&lens->lock);
        kvsi_free(lens);
        return kvsi_fail(err, KVS_E_NOMEM, "cannot start the thread for requests of pages");
    }
    *out = lens;
    return KVS_OK;
}

void kvsi_lens_stop(kvsi_lens *lens)
{
    int was_running;

    if (!lens)
        return;
    pthread_mutex_lock(&lens->lock);
    was_running = !lens->stops;
    lens->stops = 1;
    pthread_cond_signal(&lens->changed);
    pthread_mutex_unlock(&lens->lock);
    if (!was_running)
        return;
    pthread_join(lens->thread, NULL);
    for (; lens->count > 0; lens->count--) { /* none comes any more */
        kvsi_exchange *x = lens->waiting[lens->first];

        lens->first = (lens->first + 1) % KVSI_LENS_WAITING_MAX;
        refuse_busy(lens, x, "the server is shutting down");
        kvsi_exchange_release(x);
    }
}

void kvsi_lens_free(kvsi_lens *lens)
{
    if (!lens)
        return;
    kvsi_lens_stop(lens);
    pthread_cond_destroy(&lens->changed);
    pthread_mutex_destroy(&lens->lock);
    kvsi_free(lens);
}
