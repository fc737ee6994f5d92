/* serve/http.h - HTTP/1.1 for the server, a thin layer over libmicrohttpd.
 *
 * An exchange is one request and its answer.  The callbacks run on the thread of the library, so
 * they must be quick; every other call may come from any thread.  Whoever keeps an exchange beyond
 * its callback takes a reference, and can use it until the reference is released, even if the
 * client is gone: then calls do nothing.
 *
 * The layer refuses what the library would accept: several lengths, a length beside a transfer
 * coding, transfer codings other than "chunked", blanks in names of headers, no host or several.  A
 * request has to arrive within a time, however slowly it is sent, and an answer has to be taken
 * within the same time. */
#ifndef KVSI_SERVE_HTTP_H
#define KVSI_SERVE_HTTP_H

#include "base/text.h"

typedef struct kvsi_http kvsi_http;
typedef struct kvsi_exchange kvsi_exchange;

typedef struct kvsi_http_options {
    const char *host;
    unsigned port;      /* 0 = any that is free */
    size_t body_limit;  /* bytes of a request without its headers */
    size_t connections; /* at the same time */
    double seconds;     /* for a request to arrive, and for an answer to be taken */

    /* The headers have arrived.  The callback may answer, which refuses the request. */
    void (*check)(void *user, kvsi_exchange *x);
    /* The whole request has arrived, and was not refused. */
    void (*handle)(void *user, kvsi_exchange *x);
    /* The client is gone before it had the whole answer.  Called at most once. */
    void (*gone)(void *user, kvsi_exchange *x);
    void *user;
} kvsi_http_options;

/* Starts to listen.  The options are copied, their texts borrowed. */
kvs_status kvsi_http_start(kvsi_http **out, const kvsi_http_options *options, kvs_err *err);
unsigned kvsi_http_port(const kvsi_http *http);
/* Accepts no more connections.  Requests on those that are open still arrive. */
void kvsi_http_close(kvsi_http *http);
/* Whether no exchange waits for an answer, and none is being sent. */
int kvsi_http_is_idle(kvsi_http *http);
/* Ends all connections.  Exchanges remain until they are released.  NULL does nothing. */
void kvsi_http_free(kvsi_http *http);

/* ---- the request ---- */

const char *kvsi_exchange_method(const kvsi_exchange *x);
const char *kvsi_exchange_path(const kvsi_exchange *x); /* as it was sent, without the query */
/* Copies a header into the buffer; returns 0 if there is none.  The text is empty if there are
 * several or if it is too long.  Only for the callback `check`. */
int kvsi_exchange_header(char *out, size_t size, const kvsi_exchange *x, const char *name);
const kvsi_text *kvsi_exchange_body(const kvsi_exchange *x);
/* Frees the body, which is not needed while the answer is computed. */
void kvsi_exchange_drop_body(kvsi_exchange *x);
/* When the headers had arrived, on the clock of kvsi_clock_seconds(). */
double kvsi_exchange_start(const kvsi_exchange *x);
int kvsi_exchange_is_gone(kvsi_exchange *x);

/* A number of the caller, 0 at first. */
void kvsi_exchange_set_tag(kvsi_exchange *x, size_t tag);
size_t kvsi_exchange_tag(const kvsi_exchange *x);

void kvsi_exchange_keep(kvsi_exchange *x);
void kvsi_exchange_release(kvsi_exchange *x);

/* ---- the answer ---- */

/* Adds a header to the answer.  Bytes that a header may not have become '_'. */
void kvsi_exchange_add_header(kvsi_exchange *x, const char *name, const char *value);
/* Answers, and takes the text of `body`, which is empty afterwards. */
void kvsi_exchange_answer(kvsi_exchange *x, unsigned status, const char *type, kvsi_text *body);
/* Starts an answer of unknown length, as server-sent events.  Does nothing the second time. */
void kvsi_exchange_stream(kvsi_exchange *x);
/* Returns 0 if the client is gone or does not read, which makes it gone. */
int kvsi_exchange_send(kvsi_exchange *x, const char *data, size_t size);
void kvsi_exchange_end(kvsi_exchange *x);

#endif
