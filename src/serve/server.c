#include "serve/server.h"

#include "base/memory.h"
#include "serve/access.h"
#include "serve/answers.h"
#include "serve/http.h"
#include "serve/jobs.h"
#include "serve/json_out.h"
#include "serve/metrics.h"
#include "serve/page_files.h"

#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

enum { WORKERS = 2, SAMPLES_MAX = 128 };

/* A request that a worker or the engine handles. */
typedef struct call {
    kvsi_job job; /* the first member: the engine's callbacks get the job */
    struct call *next;
    kvsi_server *server;
    kvsi_exchange *x;
    kvsi_answer *answer;
    int is_over; /* the job is; a worker writes the answer */
} call;

struct kvsi_server {
    kvsi_server_options o;
    kvsi_access *access;
    kvsi_metrics *metrics;
    kvsi_engine *engine;
    kvsi_http *http;
    kvsi_lens *lens;
    kvsi_job_source jobs;
    kvsi_answer_source answers;
    kvsi_request_limits limits;
    char fingerprint[64];
    time_t started;

    pthread_t workers[WORKERS];
    size_t worker_count;
    pthread_mutex_t lock;
    pthread_cond_t wakes;
    call *first, *last; /* waiting for a worker */
    size_t busy;        /* calls that exist */
    int stops, drains;
};

/* ---- routes ---------------------------------------------------------------------------------- */

typedef struct route {
    const char *method, *path;
    int is_public;     /* needs no key */
    int is_beginning;  /* the path goes on */
    int is_page;       /* a file of the page */
    int is_lens;       /* a request of the page, see lens.h */
    unsigned endpoint; /* of a request with a body */
    /* Answers a request without a body; NULL = a worker answers. */
    kvs_status (*answer)(kvsi_text *out, kvsi_server *s, const kvsi_exchange *x,
                         kvsi_refusal *refusal);
    const char *type; /* of that answer */
} route;

static kvs_status answer_health(kvsi_text *out, kvsi_server *s, const kvsi_exchange *x,
                                kvsi_refusal *refusal);
static kvs_status answer_metrics(kvsi_text *out, kvsi_server *s, const kvsi_exchange *x,
                                 kvsi_refusal *refusal);
static kvs_status answer_models(kvsi_text *out, kvsi_server *s, const kvsi_exchange *x,
                                kvsi_refusal *refusal);
static kvs_status answer_model(kvsi_text *out, kvsi_server *s, const kvsi_exchange *x,
                               kvsi_refusal *refusal);
static kvs_status answer_tokenizer_info(kvsi_text *out, kvsi_server *s, const kvsi_exchange *x,
                                        kvsi_refusal *refusal);
static kvs_status answer_props(kvsi_text *out, kvsi_server *s, const kvsi_exchange *x,
                               kvsi_refusal *refusal);

#define JSON_TYPE "application/json"

static const route routes[] = {
    {"POST", "/v1/completions", .endpoint = KVSI_COMPLETIONS},
    {"POST", "/v1/chat/completions", .endpoint = KVSI_CHAT},
    {"POST", "/tokenize", .endpoint = KVSI_TOKENIZE},
    {"POST", "/detokenize", .endpoint = KVSI_DETOKENIZE},
    {"GET", "/v1/models", .answer = answer_models, .type = JSON_TYPE},
    {"GET", "/v1/models/", .is_beginning = 1, .answer = answer_model, .type = JSON_TYPE},
    {"GET", "/tokenizer_info", .answer = answer_tokenizer_info, .type = JSON_TYPE},
    {"GET", "/props", .answer = answer_props, .type = JSON_TYPE},
    {"GET", "/metrics", .answer = answer_metrics, .type = "text/plain; version=0.0.4"},
    {"GET", "/health", .is_public = 1, .answer = answer_health, .type = JSON_TYPE},
    {"GET", "/", .is_public = 1, .is_page = 1},
    {"GET", "/page/", .is_public = 1, .is_beginning = 1, .is_page = 1},
    {"POST", "/lens/", .is_beginning = 1, .is_lens = 1},
};

enum { ROUTES = sizeof routes / sizeof *routes };

/* Returns the route of a request; ROUTES = none.  *other is a route of the path with another
 * method. */
static size_t find_route(const kvsi_exchange *x, size_t *other)
{
    const char *path = kvsi_exchange_path(x), *method = kvsi_exchange_method(x);

    *other = ROUTES;
    if (strcmp(method, "HEAD") == 0)
        method = "GET";
    for (size_t i = 0; i < ROUTES; i++) {
        const size_t size = strlen(routes[i].path);

        if (strncmp(path, routes[i].path, size) != 0 || (path[size] && !routes[i].is_beginning))
            continue;
        if (strcmp(method, routes[i].method) == 0)
            return i;
        *other = i;
    }
    return ROUTES;
}

/* ---- answers --------------------------------------------------------------------------------- */

static void send_answer(kvsi_server *s, kvsi_exchange *x, const char *path, unsigned status,
                        const char *type, kvsi_text *body)
{
    kvsi_metrics_answer(s->metrics, path, status);
    kvsi_exchange_answer(x, status, type, body);
}

/* Clients repeat requests after most errors; the header tells them which ones would fail again. */
static void send_refusal(kvsi_server *s, kvsi_exchange *x, const char *path,
                         const kvsi_refusal *refusal)
{
    kvsi_text body = {0};
    char seconds[16];

    if (refusal->retry_seconds > 0) {
        snprintf(seconds, sizeof seconds, "%d", refusal->retry_seconds);
        kvsi_exchange_add_header(x, "Retry-After", seconds);
    } else {
        kvsi_exchange_add_header(x, "x-should-retry", "false");
    }
    if (refusal->status == 401)
        kvsi_exchange_add_header(x, "WWW-Authenticate", "Bearer");
    kvsi_refusal_write(&body, refusal);
    kvsi_text_add(&body, "\n");
    send_answer(s, x, path, refusal->status, JSON_TYPE, &body);
}

static const char *path_of(const kvsi_exchange *x)
{
    const size_t index = kvsi_exchange_tag(x) % (ROUTES + 1);

    return index < ROUTES ? routes[index].path : "other";
}

/* ---- requests without a body ----------------------------------------------------------------- */

static kvs_status answer_health(kvsi_text *out, kvsi_server *s, const kvsi_exchange *x,
                                kvsi_refusal *refusal)
{
    int drains;

    (void)x;
    pthread_mutex_lock(&s->lock);
    drains = s->drains;
    pthread_mutex_unlock(&s->lock);
    if (drains) {
        kvsi_refuse(refusal, 503, "shutting_down", NULL, "the server is shutting down");
        refusal->retry_seconds = 1;
        return KVS_E_INVALID;
    }
    kvsi_text_add(out, "{\"status\":\"ok\"}\n");
    return KVS_OK;
}

static kvs_status answer_metrics(kvsi_text *out, kvsi_server *s, const kvsi_exchange *x,
                                 kvsi_refusal *refusal)
{
    const kvsi_engine_stats stats = kvsi_engine_get_stats(s->engine);

    (void)x;
    (void)refusal;
    kvsi_metrics_write(out, s->metrics, &stats);
    return KVS_OK;
}

static void add_model(kvsi_text *out, const kvsi_server *s)
{
    kvsi_text_add(out, "{\"id\":");
    kvsi_json_add_text(out, s->o.model_name);
    kvsi_text_format(out,
                     ",\"object\":\"model\",\"created\":%lld,\"owned_by\":\"kvshift\","
                     "\"max_model_len\":%zu,\"root\":",
                     (long long)s->started, s->o.engine.context);
    kvsi_json_add_text(out, s->o.model_name);
    kvsi_text_add(out, "}");
}

static kvs_status answer_models(kvsi_text *out, kvsi_server *s, const kvsi_exchange *x,
                                kvsi_refusal *refusal)
{
    (void)x;
    (void)refusal;
    kvsi_text_add(out, "{\"object\":\"list\",\"data\":[");
    add_model(out, s);
    kvsi_text_add(out, "]}\n");
    return KVS_OK;
}

static int hex_digit(char c)
{
    static const char digits[] = "0123456789abcdef0123456789ABCDEF";
    const char *at = c ? strchr(digits, c) : NULL;

    return at ? (int)(at - digits) % 16 : -1;
}

/* Compares a name with a part of a path, in which %2F stands for a slash. */
static int is_escaped(const char *path, const char *name)
{
    for (; *name && *path; name++) {
        char c = *path++;

        if (c == '%' && hex_digit(path[0]) >= 0 && hex_digit(path[1]) >= 0) {
            c = (char)(16 * hex_digit(path[0]) + hex_digit(path[1]));
            path += 2;
        }
        if (c != *name)
            return 0;
    }
    return !*name && !*path;
}

static kvs_status no_such_model(kvsi_refusal *refusal, const char *name)
{
    return kvsi_refuse(refusal, 404, "model_not_found", "model",
                       "The model '%.100s' does not exist", name);
}

static kvs_status answer_model(kvsi_text *out, kvsi_server *s, const kvsi_exchange *x,
                               kvsi_refusal *refusal)
{
    const char *name = kvsi_exchange_path(x) + strlen("/v1/models/");

    if (!is_escaped(name, s->o.model_name))
        return no_such_model(refusal, name);
    add_model(out, s);
    kvsi_text_add(out, "\n");
    return KVS_OK;
}

/* The text of a special token, null if there is none. */
static void add_special(kvsi_text *out, const kvsi_server *s, const char *key, int32_t id)
{
    kvsi_text text = {0};

    kvsi_text_add(&text, "");
    kvsi_token_text(&text, &s->answers, id);
    kvsi_text_format(out, "\"%s\":", key);
    kvsi_json_add_text(out, id >= 0 && text.length > 0 ? text.data : NULL);
    kvsi_text_format(out, ",\"%s_id\":", key);
    kvsi_text_format(out, id >= 0 ? "%d," : "null,", (int)id);
    kvsi_text_release(&text);
}

static kvs_status answer_tokenizer_info(kvsi_text *out, kvsi_server *s, const kvsi_exchange *x,
                                        kvsi_refusal *refusal)
{
    (void)x;
    (void)refusal;
    kvsi_text_add(out, "{");
    add_special(out, s, "bos_token", kvs_tokenizer_bos(s->o.engine.tokenizer));
    add_special(out, s, "eos_token", kvs_tokenizer_eos(s->o.engine.tokenizer));
    kvsi_text_format(out, "\"pad_token\":null,\"vocab_size\":%zu,\"chat_template\":",
                     kvs_tokenizer_vocab(s->o.engine.tokenizer));
    kvsi_json_add_text(out, s->o.chat_template ? kvs_chat_template_text(s->o.chat_template) : NULL);
    kvsi_text_add(out, "}\n");
    return KVS_OK;
}

static kvs_status answer_props(kvsi_text *out, kvsi_server *s, const kvsi_exchange *x,
                               kvsi_refusal *refusal)
{
    const kvsi_engine_options *e = &s->o.engine;

    (void)x;
    (void)refusal;
    kvsi_text_add(out, "{\"model\":");
    kvsi_json_add_text(out, s->o.model_name);
    kvsi_text_format(out,
                     ",\"build\":\"%s\",\"n_ctx\":%zu,\"total_slots\":%zu,\"queue\":%zu,"
                     "\"slice_ms\":%.10g,\"request_seconds\":%.10g,\"body_bytes\":%zu,"
                     "\"prefix_bytes\":%llu,\"prompts\":%d,\"prompt_tokens\":%d,"
                     "\"has_chat_template\":%s,\"fields\":",
                     s->fingerprint, e->context, e->slots, e->queue, e->slice_seconds * 1e3,
                     e->job_seconds, s->o.body_bytes, (unsigned long long)e->prefix_bytes,
                     KVSI_PROMPTS_MAX, KVSI_PROMPT_TOKENS, s->o.chat_template ? "true" : "false");
    kvsi_request_describe(out, &s->limits);
    kvsi_text_add(out, "}\n");
    return KVS_OK;
}

/* ---- calls ----------------------------------------------------------------------------------- */

static void free_call(call *c)
{
    kvsi_server *s = c->server;

    kvsi_answer_free(c->answer);
    kvsi_job_release(&c->job);
    kvsi_exchange_release(c->x);
    kvsi_free(c);
    pthread_mutex_lock(&s->lock);
    s->busy--;
    pthread_mutex_unlock(&s->lock);
}

static void give_to_worker(call *c)
{
    kvsi_server *s = c->server;

    pthread_mutex_lock(&s->lock);
    c->next = NULL;
    if (s->first)
        s->last->next = c;
    else
        s->first = c;
    s->last = c;
    pthread_cond_signal(&s->wakes);
    pthread_mutex_unlock(&s->lock);
}

/* ---- callbacks of the engine ---- */

/* Sends the new part of a streamed answer.  Returns non-zero if nobody reads it. */
static int part_is_there(kvsi_job *job, kvsi_choice *choice)
{
    call *c = (call *)job;
    kvsi_text part = {0};
    int taken = 1;

    kvsi_answer_part(&part, c->answer, choice);
    if (part.failed)
        taken = 0;
    else if (part.length > 0)
        taken = kvsi_exchange_send(c->x, part.data, part.length);
    kvsi_text_release(&part);
    return !taken;
}

static void job_is_over(kvsi_job *job)
{
    call *c = (call *)job;
    kvsi_text end = {0};

    kvsi_metrics_job(c->server->metrics, job);
    if (!job->request.stream) {
        c->is_over = 1;
        give_to_worker(c);
        return;
    }
    if (!job->is_cancelled) {
        kvsi_metrics_answer(c->server->metrics, path_of(c->x), 200);
        kvsi_answer_end(&end, c->answer);
        if (!end.failed && end.length > 0)
            kvsi_exchange_send(c->x, end.data, end.length);
    } else if (!kvsi_exchange_is_gone(c->x)) {
        static const char stopped[] =
            "data: {\"error\":{\"message\":\"the server is shutting down\",\"type\":"
            "\"server_error\",\"param\":null,\"code\":\"shutting_down\"}}\n\n";

        kvsi_exchange_send(c->x, stopped, sizeof stopped - 1);
    }
    kvsi_exchange_end(c->x);
    kvsi_text_release(&end);
    free_call(c);
}

/* ---- what workers do ---- */

static void write_answer(call *c)
{
    kvsi_text body = {0};

    if (c->job.is_cancelled) {
        kvsi_refuse(&c->job.refusal, 503, "shutting_down", NULL, "the server is shutting down");
        c->job.refusal.retry_seconds = 1;
    }
    if (c->job.refusal.status == 0) {
        kvsi_answer_whole(&body, c->answer);
        if (!body.failed) {
            send_answer(c->server, c->x, path_of(c->x), 200, JSON_TYPE, &body);
            free_call(c);
            return;
        }
        kvsi_text_release(&body);
        kvsi_refuse_memory(&c->job.refusal, "the answer");
    }
    send_refusal(c->server, c->x, path_of(c->x), &c->job.refusal);
    free_call(c);
}

static kvs_status tokenize(kvsi_text *out, const kvsi_server *s, const kvsi_request *r,
                           kvsi_refusal *refusal)
{
    kvs_err err = {0};
    int32_t *ids = NULL;
    size_t count = 0;

    if (kvs_tokenizer_encode(&ids, &count, s->o.engine.tokenizer, r->prompts->text,
                             r->prompts->size, r->add_special ? 0 : KVS_ENCODE_NO_SPECIAL,
                             &err) != KVS_OK)
        return kvsi_refuse_failed(refusal, &err);
    kvsi_text_format(out, "{\"count\":%zu,\"max_model_len\":%zu,\"tokens\":", count,
                     s->o.engine.context);
    kvsi_json_add_ids(out, ids, count);
    kvsi_text_add(out, "}\n");
    kvs_ids_free(ids);
    return KVS_OK;
}

/* The text has two names: that of vLLM and that of llama.cpp. */
static kvs_status detokenize(kvsi_text *out, const kvsi_server *s, const kvsi_request *r,
                             kvsi_refusal *refusal)
{
    kvs_err err = {0};
    char *text = NULL;
    size_t size = 0;

    for (size_t i = 0; i < r->prompts->count; i++)
        if ((size_t)r->prompts->ids[i] >= kvs_tokenizer_vocab(s->o.engine.tokenizer))
            return kvsi_refuse(refusal, 400, "invalid_value", "tokens",
                               "field 'tokens': the tokenizer has no token %d",
                               (int)r->prompts->ids[i]);
    if (kvs_tokenizer_decode(&text, &size, s->o.engine.tokenizer, r->prompts->ids,
                             r->prompts->count, &err) != KVS_OK)
        return kvsi_refuse_failed(refusal, &err);
    kvsi_text_add(out, "{\"prompt\":");
    kvsi_json_add_string(out, text, size);
    kvsi_text_add(out, ",\"content\":");
    kvsi_json_add_string(out, text, size);
    kvsi_text_add(out, "}\n");
    kvs_text_free(text);
    return KVS_OK;
}

/* Hands a request for text to the engine, which then has the call. */
static kvs_status generate(call *c, size_t key, kvsi_refusal *refusal)
{
    kvsi_server *s = c->server;
    kvsi_exchange *x = c->x;
    const int streams = c->job.request.stream;
    kvs_err err = {0};

    TRY(kvsi_job_build(&c->job, &s->jobs, key, refusal));
    if (kvsi_answer_create(&c->answer, &s->answers, &c->job, &err) != KVS_OK)
        return kvsi_refuse_failed(refusal, &err);
    c->job.user = x;
    c->job.changed = streams ? part_is_there : NULL;
    c->job.done = job_is_over;
    kvsi_exchange_keep(x);
    if (kvsi_engine_submit(s->engine, &c->job, refusal) != KVS_OK) {
        kvsi_exchange_release(x);
        return KVS_E_INVALID;
    }
    if (streams)
        kvsi_exchange_stream(x);
    if (kvsi_exchange_is_gone(x)) /* before the engine had the job */
        kvsi_engine_cancel(s->engine, x);
    kvsi_exchange_release(x);
    return KVS_OK;
}

/* Parses a request and answers it, or hands it to the engine: then *is_given = 1. */
static kvs_status start_call(call *c, int *is_given, kvsi_text *out, kvsi_refusal *refusal)
{
    kvsi_server *s = c->server;
    const size_t tag = kvsi_exchange_tag(c->x);
    const kvsi_text *body = kvsi_exchange_body(c->x);
    kvsi_request *r = &c->job.request;

    TRY(kvsi_request_parse(r, routes[tag % (ROUTES + 1)].endpoint, body->data, body->length,
                           &s->limits, refusal));
    kvsi_exchange_drop_body(c->x);
    if (r->ignored.length > 0)
        kvsi_exchange_add_header(c->x, "x-kvshift-ignored", r->ignored.data);
    if (s->o.strict_model && r->model && strcmp(r->model, s->o.model_name) != 0)
        return no_such_model(refusal, r->model);
    if (r->endpoint & KVSI_TOKENIZE)
        return tokenize(out, s, r, refusal);
    if (r->endpoint & KVSI_DETOKENIZE)
        return detokenize(out, s, r, refusal);
    TRY(generate(c, tag / (ROUTES + 1), refusal));
    *is_given = 1;
    return KVS_OK;
}

static void run_call(call *c)
{
    kvsi_refusal refusal = {0};
    kvsi_text out = {0};
    int is_given = 0;

    if (c->is_over) {
        write_answer(c);
        return;
    }
    if (start_call(c, &is_given, &out, &refusal) != KVS_OK)
        send_refusal(c->server, c->x, path_of(c->x), &refusal);
    else if (!is_given)
        send_answer(c->server, c->x, path_of(c->x), 200, JSON_TYPE, &out);
    kvsi_text_release(&out);
    if (!is_given)
        free_call(c);
}

static void *work(void *user)
{
    kvsi_server *s = user;
    call *c;

    do {
        pthread_mutex_lock(&s->lock);
        while (!s->first && !s->stops)
            pthread_cond_wait(&s->wakes, &s->lock);
        c = s->first;
        if (c)
            s->first = c->next;
        pthread_mutex_unlock(&s->lock);
        if (c)
            run_call(c);
    } while (c);
    return NULL;
}

/* ---- callbacks of HTTP ----------------------------------------------------------------------- */

enum { HEADER_BYTES = 1024 };

static kvs_status check_access(kvsi_server *s, kvsi_exchange *x, size_t index, size_t *key,
                               kvsi_refusal *refusal)
{
    char texts[4][HEADER_BYTES];
    const char *found[4];
    static const char *const names[4] = {"Host", "Origin", "Authorization", "X-Api-Key"};
    kvsi_credentials credentials;

    for (size_t i = 0; i < 4; i++)
        found[i] = kvsi_exchange_header(texts[i], HEADER_BYTES, x, names[i]) ? texts[i] : NULL;
    credentials = (kvsi_credentials){found[0], found[1], found[2], found[3]};
    return kvsi_access_check(key, s->access, &credentials,
                             index < ROUTES && routes[index].is_public, refusal);
}

/* Whether the path goes on to something that does not exist. */
static int is_missing(const route *r, const kvsi_exchange *x)
{
    return (r->is_page && !kvsi_page_file_at(kvsi_exchange_path(x))) ||
           (r->is_lens && !kvsi_lens_has(kvsi_exchange_path(x)));
}

/* Checks what the headers tell. */
static kvs_status check_request(kvsi_server *s, kvsi_exchange *x, kvsi_refusal *refusal)
{
    char text[HEADER_BYTES];
    size_t other, key = 0;
    const size_t index = find_route(x, &other);

    kvsi_exchange_set_tag(x, index);
    if (kvsi_exchange_header(text, sizeof text, x, "X-Request-Id") && *text)
        kvsi_exchange_add_header(x, "X-Request-Id", text);
    TRY(check_access(s, x, index, &key, refusal));
    if (index == ROUTES && other < ROUTES) {
        kvsi_exchange_add_header(x, "Allow", routes[other].method);
        return kvsi_refuse(refusal, 405, "method_not_allowed", NULL, "expected the method %s",
                           routes[other].method);
    }
    if (index == ROUTES || is_missing(&routes[index], x))
        return kvsi_refuse(refusal, 404, "not_found", NULL, "there is nothing at this path");
    if (kvsi_exchange_header(text, sizeof text, x, "Content-Encoding") &&
        strcmp(text, "identity") != 0)
        return kvsi_refuse(refusal, 415, "unsupported", NULL,
                           "compressed requests are not supported");
    kvsi_exchange_set_tag(x, index + (ROUTES + 1) * key);
    if (routes[index].is_page) {
        kvsi_metrics_answer(s->metrics, routes[index].path, 200);
        kvsi_page_file_answer(kvsi_page_file_at(kvsi_exchange_path(x)), x);
    }
    return KVS_OK;
}

static void check(void *user, kvsi_exchange *x)
{
    kvsi_server *s = user;
    kvsi_refusal refusal;

    if (check_request(s, x, &refusal) != KVS_OK)
        send_refusal(s, x, path_of(x), &refusal);
}

static void handle(void *user, kvsi_exchange *x)
{
    kvsi_server *s = user;
    const route *r = &routes[kvsi_exchange_tag(x) % (ROUTES + 1)];
    kvsi_refusal refusal = {0};
    kvsi_text out = {0};
    call *c;

    if (r->is_lens) {
        kvsi_lens_handle(s->lens, x);
        return;
    }
    if (r->answer) {
        if (r->answer(&out, s, x, &refusal) == KVS_OK)
            send_answer(s, x, r->path, 200, r->type, &out);
        else
            send_refusal(s, x, r->path, &refusal);
        kvsi_text_release(&out);
        return;
    }
    c = kvsi_alloc(1, sizeof *c);
    if (!c) {
        kvsi_refuse_memory(&refusal, "the request");
        send_refusal(s, x, r->path, &refusal);
        return;
    }
    c->server = s;
    c->x = x;
    kvsi_exchange_keep(x);
    pthread_mutex_lock(&s->lock);
    s->busy++;
    pthread_mutex_unlock(&s->lock);
    give_to_worker(c);
}

static void gone(void *user, kvsi_exchange *x)
{
    kvsi_server *s = user;

    kvsi_engine_cancel(s->engine, x);
}

static void lens_answered(void *user, unsigned status)
{
    kvsi_server *s = user;

    kvsi_metrics_answer(s->metrics, "/lens/", status);
}

/* ---- start and end --------------------------------------------------------------------------- */

static kvs_status start(kvsi_server *s, kvs_err *err)
{
    const kvsi_server_options *o = &s->o;
    const char *stop = o->chat_template ? kvs_chat_template_stop(o->chat_template) : "";
    const kvsi_http_options http = {.host = o->host,
                                    .port = o->port,
                                    .body_limit = o->body_bytes,
                                    .connections = o->connections,
                                    .seconds = o->http_seconds,
                                    .check = check,
                                    .handle = handle,
                                    .gone = gone,
                                    .user = s};

    snprintf(s->fingerprint, sizeof s->fingerprint, "kvshift-%s-%s", kvs_build()->version,
             kvs_build()->commit);
    s->started = time(NULL);
    s->answers = (kvsi_answer_source){o->engine.tokenizer, o->model_name, s->fingerprint,
                                      kvsi_token_anchor(o->engine.tokenizer)};
    s->jobs = (kvsi_job_source){o->engine.tokenizer, o->chat_template,
                                *stop ? kvs_tokenizer_find(o->engine.tokenizer, stop) : -1,
                                o->engine.context};
    s->limits = (kvsi_request_limits){
        .vocab = (size_t)kvs_model_config_number(kvs_model_get_config(o->engine.model), "vocab"),
        .samples = SAMPLES_MAX,
        .tokens = o->engine.context + 1};
    TRY(kvsi_access_create(&s->access, o->host, o->key_file, o->allowed_hosts, o->allowed_count,
                           err));
    TRY(kvsi_metrics_create(&s->metrics, err));
    TRY(kvsi_engine_create(&s->engine, &o->engine, err));
    s->o.lens.answered = lens_answered;
    s->o.lens.user = s;
    TRY(kvsi_lens_start(&s->lens, &o->lens, err));
    for (; s->worker_count < WORKERS; s->worker_count++)
        if (pthread_create(&s->workers[s->worker_count], NULL, work, s) != 0)
            return kvsi_fail(err, KVS_E_NOMEM, "cannot start a thread");
    return kvsi_http_start(&s->http, &http, err);
}

kvs_status kvsi_server_start(kvsi_server **out, const kvsi_server_options *options, kvs_err *err)
{
    kvsi_server *s = kvsi_alloc(1, sizeof *s);
    kvs_status st;

    *out = NULL;
    if (!s)
        return kvsi_no_memory(err, "the server");
    s->o = *options;
    pthread_mutex_init(&s->lock, NULL);
    pthread_cond_init(&s->wakes, NULL);
    TRY_OUT(start(s, err));
    *out = s;
    s = NULL;
out:
    kvsi_server_free(s);
    return st;
}

unsigned kvsi_server_port(const kvsi_server *server)
{
    return kvsi_http_port(server->http);
}

void kvsi_server_drain(kvsi_server *s)
{
    pthread_mutex_lock(&s->lock);
    s->drains = 1;
    pthread_mutex_unlock(&s->lock);
    kvsi_engine_drain(s->engine);
    kvsi_http_close(s->http);
}

int kvsi_server_is_idle(kvsi_server *s)
{
    size_t busy;

    pthread_mutex_lock(&s->lock);
    busy = s->busy;
    pthread_mutex_unlock(&s->lock);
    return busy == 0 && kvsi_http_is_idle(s->http);
}

/* The engine stops first, and refuses what comes later.  Then the clients whose requests were
 * cancelled get their answers, for which workers are needed.  The engine is freed last, because
 * `gone` calls it. */
void kvsi_server_free(kvsi_server *s)
{
    const struct timespec turn = {.tv_nsec = 10 * 1000 * 1000};

    if (!s)
        return;
    if (s->engine)
        kvsi_engine_stop(s->engine);
    kvsi_lens_stop(s->lens);
    for (int turns = 0; turns < 100 && s->http && !kvsi_server_is_idle(s); turns++)
        nanosleep(&turn, NULL);
    kvsi_http_free(s->http);
    pthread_mutex_lock(&s->lock);
    s->stops = 1;
    pthread_cond_broadcast(&s->wakes);
    pthread_mutex_unlock(&s->lock);
    for (size_t i = 0; i < s->worker_count; i++)
        pthread_join(s->workers[i], NULL);
    kvsi_engine_free(s->engine);
    kvsi_lens_free(s->lens);
    kvsi_metrics_free(s->metrics);
    kvsi_access_free(s->access);
    pthread_cond_destroy(&s->wakes);
    pthread_mutex_destroy(&s->lock);
    kvsi_free(s);
}
