/* Threads: libmicrohttpd has one, which calls access_handler() and read_stream().  A second thread
 * watches the connections, because the library does not notice that the client of a suspended
 * connection is gone, and has no deadline for a request that arrives byte by byte.
 *
 * Locks: http->lock guards the list of connections, x->lock one exchange.  The first may be held
 * while the second is taken, but not while the library is called, which has locks of its own. */
#include "serve/http.h"

#include "base/clock.h"
#include "base/memory.h"

#include <errno.h>
#include <microhttpd.h>
#include <netdb.h>
#include <poll.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>
#include <sys/socket.h>
#include <unistd.h>

enum {
    HEADERS_MAX = 8,            /* of an answer */
    POOL_BYTES = 64 << 10,      /* for the headers of a request */
    STREAM_BYTES_MAX = 1 << 20, /* of a stream that the client has not taken */
    WATCH_MS = 50,              /* between two looks at the connections */
    COMMENT_SECONDS = 10,       /* of silence in a stream, after which a comment is sent */
    BLOCK_BYTES = 16 << 10,
    READ_LIMITS = 4, /* a body of so many times the limit is read in order to be refused */
};

typedef enum phase {
    RECEIVING, /* between two answers: waiting for a request, or reading it */
    WAITING,   /* the request is complete, the answer is not */
    SENDING,   /* the answer is complete, the client has not taken all of it */
} phase;

typedef struct connection connection;
struct connection {
    connection *next;
    uint64_t number; /* descriptors are used again, numbers are not */
    int fd;
    double since;     /* when the phase RECEIVING began */
    kvsi_exchange *x; /* the current one; NULL = none */
};

struct kvsi_exchange {
    kvsi_http *http;
    pthread_mutex_t lock;
    int references;
    struct MHD_Connection *connection; /* NULL = it has ended */
    char method[16];
    char *path;
    kvsi_text body;
    size_t received; /* bytes of the body, also those that were dropped */
    double start;
    size_t tag;
    int must_close; /* the rest of the request cannot be read */

    /* guarded by `lock` */
    phase phase;
    double sending_since, last_sent;
    int is_suspended, is_answered, is_stream, is_gone, was_reported;
    unsigned status;
    size_t header_count;
    char *headers[HEADERS_MAX][2];
    kvsi_text answer; /* of a stream: what was not sent yet, from `sent` on */
    size_t sent;
    int is_ended;
};

struct kvsi_http {
    kvsi_http_options o;
    struct MHD_Daemon *daemon;
    unsigned port;
    int listener;
    pthread_mutex_t lock;
    connection *connections;
    uint64_t numbers;
    pthread_t watcher;
    int watcher_runs, stops;
};

/* ---- exchanges ------------------------------------------------------------------------------- */

static kvsi_exchange *create_exchange(kvsi_http *http, struct MHD_Connection *c, const char *method,
                                      const char *path)
{
    kvsi_exchange *x = kvsi_alloc(1, sizeof *x);

    if (!x)
        return NULL;
    x->path = kvsi_strdup(path);
    if (!x->path || pthread_mutex_init(&x->lock, NULL) != 0) {
        kvsi_free(x->path);
        kvsi_free(x);
        return NULL;
    }
    snprintf(x->method, sizeof x->method, "%s", method);
    x->http = http;
    x->connection = c;
    x->references = 1;
    x->start = kvsi_clock_seconds();
    kvsi_text_add(&x->body, "");
    return x;
}

void kvsi_exchange_keep(kvsi_exchange *x)
{
    pthread_mutex_lock(&x->lock);
    x->references++;
    pthread_mutex_unlock(&x->lock);
}

void kvsi_exchange_release(kvsi_exchange *x)
{
    int left;

    pthread_mutex_lock(&x->lock);
    left = --x->references;
    pthread_mutex_unlock(&x->lock);
    if (left > 0)
        return;
    for (size_t i = 0; i < x->header_count; i++) {
        kvsi_free(x->headers[i][0]);
        kvsi_free(x->headers[i][1]);
    }
    kvsi_text_release(&x->body);
    kvsi_text_release(&x->answer);
    pthread_mutex_destroy(&x->lock);
    kvsi_free(x->path);
    kvsi_free(x);
}

const char *kvsi_exchange_method(const kvsi_exchange *x)
{
    return x->method;
}

const char *kvsi_exchange_path(const kvsi_exchange *x)
{
    return x->path;
}

const kvsi_text *kvsi_exchange_body(const kvsi_exchange *x)
{
    return &x->body;
}

void kvsi_exchange_drop_body(kvsi_exchange *x)
{
    kvsi_text_release(&x->body);
}

double kvsi_exchange_start(const kvsi_exchange *x)
{
    return x->start;
}

void kvsi_exchange_set_tag(kvsi_exchange *x, size_t tag)
{
    x->tag = tag;
}

size_t kvsi_exchange_tag(const kvsi_exchange *x)
{
    return x->tag;
}

int kvsi_exchange_is_gone(kvsi_exchange *x)
{
    int gone;

    pthread_mutex_lock(&x->lock);
    gone = x->is_gone;
    pthread_mutex_unlock(&x->lock);
    return gone;
}

/* ---- headers of the request ------------------------------------------------------------------ */

typedef struct header_search {
    const char *name;
    const char *value;
    size_t count;
} header_search;

static enum MHD_Result match_header(void *user, enum MHD_ValueKind kind, const char *name,
                                    const char *value)
{
    header_search *s = user;

    (void)kind;
    if (strcasecmp(name, s->name) == 0) {
        s->value = value ? value : "";
        s->count++;
    }
    return MHD_YES;
}

static header_search find_header(const kvsi_exchange *x, const char *name)
{
    header_search s = {.name = name};

    MHD_get_connection_values(x->connection, MHD_HEADER_KIND, match_header, &s);
    return s;
}

int kvsi_exchange_header(char *out, size_t size, const kvsi_exchange *x, const char *name)
{
    const header_search s = find_header(x, name);

    out[0] = '\0';
    if (s.count == 1 && strlen(s.value) < size)
        memcpy(out, s.value, strlen(s.value) + 1);
    return s.count > 0;
}

/* The library takes "Transfer-Encoding : chunked" for a header of another name, a proxy may not. */
static enum MHD_Result find_blank(void *user, enum MHD_ValueKind kind, const char *name,
                                  const char *value)
{
    int *found = user;

    (void)kind;
    (void)value;
    *found |= name[strcspn(name, " \t")] != '\0';
    return MHD_YES;
}

static int has_blank_in_name(const kvsi_exchange *x)
{
    int found = 0;

    MHD_get_connection_values(x->connection, MHD_HEADER_KIND, find_blank, &found);
    return found;
}

/* Returns what is wrong with the headers that say where the request ends and whom it is for; NULL =
 * nothing.  Readings of such headers that differ between a proxy and this server would let one
 * request hide another. */
static const char *framing_error(const kvsi_exchange *x)
{
    const header_search length = find_header(x, MHD_HTTP_HEADER_CONTENT_LENGTH);
    const header_search coding = find_header(x, MHD_HTTP_HEADER_TRANSFER_ENCODING);
    const header_search host = find_header(x, MHD_HTTP_HEADER_HOST);

    if (has_blank_in_name(x))
        return "the name of a header has a blank";
    if (length.count > 1)
        return "the request has several lengths";
    if (coding.count > 0 && length.count > 0)
        return "the request has a length and a transfer coding";
    if (coding.count > 1 || (coding.count == 1 && strcasecmp(coding.value, "chunked") != 0))
        return "the transfer coding of the request is not 'chunked'";
    if (length.count == 1 &&
        (!*length.value || length.value[strspn(length.value, "0123456789")] != '\0'))
        return "the length of the request is not a whole number";
    if (host.count > 1)
        return "the request has several hosts";
    return NULL;
}

static int declares_more_than(const kvsi_exchange *x, size_t limit)
{
    const header_search length = find_header(x, MHD_HTTP_HEADER_CONTENT_LENGTH);
    size_t value = 0;

    for (const char *at = length.count == 1 ? length.value : ""; *at; at++) {
        value = 10 * value + (size_t)(*at - '0');
        if (value > limit)
            return 1;
    }
    return 0;
}

/* ---- answering ------------------------------------------------------------------------------- */

static char *header_text(const char *text)
{
    char *copy = kvsi_strdup(text);

    for (char *at = copy; at && *at; at++)
        if ((unsigned char)*at < ' ' || (unsigned char)*at > '~')
            *at = '_';
    return copy;
}

/* The caller holds the lock. */
static void add_header(kvsi_exchange *x, const char *name, const char *value)
{
    char *const pair[] = {header_text(name), header_text(value)};

    if (pair[0] && pair[1] && !x->is_answered && x->header_count < HEADERS_MAX) {
        memcpy(x->headers[x->header_count++], pair, sizeof pair);
        return;
    }
    kvsi_free(pair[0]);
    kvsi_free(pair[1]);
}

void kvsi_exchange_add_header(kvsi_exchange *x, const char *name, const char *value)
{
    pthread_mutex_lock(&x->lock);
    add_header(x, name, value);
    pthread_mutex_unlock(&x->lock);
}

/* Lets the thread of the library go on with a connection.  The caller holds the lock. */
static void wake(kvsi_exchange *x)
{
    if (x->is_suspended && x->connection) {
        x->is_suspended = 0;
        MHD_resume_connection(x->connection);
    }
}

void kvsi_exchange_answer(kvsi_exchange *x, unsigned status, const char *type, kvsi_text *body)
{
    pthread_mutex_lock(&x->lock);
    if (!x->is_answered) {
        add_header(x, MHD_HTTP_HEADER_CONTENT_TYPE, type);
        x->is_answered = x->is_ended = 1;
        x->status = status;
        x->answer = *body;
        *body = (kvsi_text){0};
        x->phase = SENDING;
        x->sending_since = kvsi_clock_seconds();
        wake(x);
    }
    pthread_mutex_unlock(&x->lock);
    kvsi_text_release(body);
}

void kvsi_exchange_stream(kvsi_exchange *x)
{
    pthread_mutex_lock(&x->lock);
    if (!x->is_answered) {
        add_header(x, MHD_HTTP_HEADER_CONTENT_TYPE, "text/event-stream");
        add_header(x, MHD_HTTP_HEADER_CACHE_CONTROL, "no-cache");
        add_header(x, "X-Accel-Buffering", "no"); /* proxies pass every event on at once */
        x->is_answered = x->is_stream = 1;
        x->status = MHD_HTTP_OK;
        x->last_sent = kvsi_clock_seconds();
        wake(x);
    }
    pthread_mutex_unlock(&x->lock);
}

int kvsi_exchange_send(kvsi_exchange *x, const char *data, size_t size)
{
    int is_taken;

    pthread_mutex_lock(&x->lock);
    if (x->answer.length - x->sent + size > STREAM_BYTES_MAX)
        x->is_gone = 1; /* the watcher reports it and ends the connection */
    is_taken = !x->is_gone && !x->is_ended;
    if (is_taken) {
        if (x->sent == x->answer.length)
            x->sent = x->answer.length = 0;
        kvsi_text_add_bytes(&x->answer, data, size);
        is_taken = !x->answer.failed;
        x->last_sent = kvsi_clock_seconds();
    }
    wake(x);
    pthread_mutex_unlock(&x->lock);
    return is_taken;
}

void kvsi_exchange_end(kvsi_exchange *x)
{
    pthread_mutex_lock(&x->lock);
    if (!x->is_ended) {
        x->is_ended = 1;
        x->phase = SENDING;
        x->sending_since = kvsi_clock_seconds();
        wake(x);
    }
    pthread_mutex_unlock(&x->lock);
}

/* Called by the library for the next part of a stream. */
static ssize_t read_stream(void *user, uint64_t at, char *out, size_t most)
{
    kvsi_exchange *x = user;
    ssize_t got;

    (void)at;
    pthread_mutex_lock(&x->lock);
    if (x->is_gone || x->answer.failed) {
        got = MHD_CONTENT_READER_END_WITH_ERROR;
    } else if (x->sent < x->answer.length) {
        const size_t left = x->answer.length - x->sent;
        const size_t size = left < most ? left : most;

        memcpy(out, x->answer.data + x->sent, size);
        x->sent += size;
        got = (ssize_t)size;
    } else if (x->is_ended) {
        got = MHD_CONTENT_READER_END_OF_STREAM;
    } else {
        x->is_suspended = 1;
        MHD_suspend_connection(x->connection);
        got = 0;
    }
    pthread_mutex_unlock(&x->lock);
    return got;
}

static void release_reference(void *user)
{
    kvsi_exchange_release(user);
}

/* Hands the answer to the library, on its thread. */
static enum MHD_Result queue_answer(kvsi_exchange *x)
{
    struct MHD_Response *response;
    enum MHD_Result result;

    if (x->is_stream) {
        kvsi_exchange_keep(x);
        response = MHD_create_response_from_callback(MHD_SIZE_UNKNOWN, BLOCK_BYTES, read_stream, x,
                                                     release_reference);
        if (!response)
            kvsi_exchange_release(x);
    } else {
        /* The exchange lives as long as the connection needs the answer. */
        response = x->answer.failed
                       ? NULL
                       : MHD_create_response_from_buffer(x->answer.length,
                                                         x->answer.length ? x->answer.data : "",
                                                         MHD_RESPMEM_PERSISTENT);
    }
    if (!response)
        return MHD_NO;
    for (size_t i = 0; i < x->header_count; i++)
        MHD_add_response_header(response, x->headers[i][0], x->headers[i][1]);
    if (x->must_close)
        MHD_add_response_header(response, MHD_HTTP_HEADER_CONNECTION, "close");
    result = MHD_queue_response(x->connection, x->status, response);
    MHD_destroy_response(response);
    return result;
}

/* ---- the request arrives --------------------------------------------------------------------- */

static connection *connection_of(struct MHD_Connection *c)
{
    return MHD_get_connection_info(c, MHD_CONNECTION_INFO_SOCKET_CONTEXT)->socket_context;
}

/* Answers a request that the layer itself refuses. */
static void refuse(kvsi_exchange *x, unsigned status, const char *message)
{
    kvsi_text body = {0};

    kvsi_text_format(&body,
                     "{\"error\":{\"message\":\"%s\",\"type\":\"invalid_request_error\","
                     "\"param\":null,\"code\":\"http\"}}\n",
                     message);
    kvsi_exchange_answer(x, status, "application/json", &body);
}

static void refuse_large(const kvsi_http *http, kvsi_exchange *x)
{
    char message[96];

    snprintf(message, sizeof message, "the request has more than %zu bytes", http->o.body_limit);
    refuse(x, MHD_HTTP_CONTENT_TOO_LARGE, message);
}

/* The headers are there. */
static enum MHD_Result begin(kvsi_http *http, kvsi_exchange *x)
{
    const char *wrong = framing_error(x);
    const int waits = find_header(x, MHD_HTTP_HEADER_EXPECT).count > 0;

    if (wrong) {
        x->must_close = 1;
        refuse(x, MHD_HTTP_BAD_REQUEST, wrong);
        return queue_answer(x);
    }
    http->o.check(http->o.user, x);
    if (!x->is_answered && declares_more_than(x, http->o.body_limit))
        refuse_large(http, x);
    /* A body that the client has not sent yet, or that is much too large, is not read.  Others are,
     * since clients that are still sending would not read the answer. */
    x->must_close = x->is_answered &&
                    (waits || declares_more_than(x, (size_t)READ_LIMITS * http->o.body_limit));
    return x->must_close ? queue_answer(x) : MHD_YES;
}

/* A part of the body.  What is over the limit, or belongs to a request that was refused, is read
 * and dropped. */
static enum MHD_Result add_body(const kvsi_http *http, kvsi_exchange *x, const char *data,
                                size_t size)
{
    x->received += size;
    if (x->received > (size_t)READ_LIMITS * http->o.body_limit || x->body.failed)
        return MHD_NO;
    if (!x->is_answered && x->received <= http->o.body_limit)
        kvsi_text_add_bytes(&x->body, data, size);
    return MHD_YES;
}

/* The request is complete. */
static enum MHD_Result finish(kvsi_http *http, kvsi_exchange *x)
{
    int begins, is_answered;

    pthread_mutex_lock(&x->lock);
    begins = x->phase == RECEIVING;
    if (begins)
        x->phase = WAITING;
    pthread_mutex_unlock(&x->lock);
    if (begins) {
        if (x->received > http->o.body_limit)
            refuse_large(http, x);
        else
            http->o.handle(http->o.user, x);
    }
    pthread_mutex_lock(&x->lock);
    is_answered = x->is_answered;
    if (x->is_gone) {
        pthread_mutex_unlock(&x->lock);
        return MHD_NO;
    }
    if (!is_answered) {
        x->is_suspended = 1;
        MHD_suspend_connection(x->connection);
    }
    pthread_mutex_unlock(&x->lock);
    return is_answered ? queue_answer(x) : MHD_YES;
}

static enum MHD_Result access_handler(void *user, struct MHD_Connection *c, const char *path,
                                      const char *method, const char *version, const char *data,
                                      size_t *size, void **own)
{
    kvsi_http *http = user;
    kvsi_exchange *x = *own;
    connection *of = connection_of(c);

    (void)version;
    if (!of)
        return MHD_NO;
    if (!x) {
        x = create_exchange(http, c, method, path);
        if (!x)
            return MHD_NO;
        *own = x;
        pthread_mutex_lock(&http->lock);
        of->x = x;
        of->since = x->start;
        pthread_mutex_unlock(&http->lock);
        return begin(http, x);
    }
    if (*size > 0) {
        const enum MHD_Result result = add_body(http, x, data, *size);

        *size = 0;
        return result;
    }
    return finish(http, x);
}

/* ---- the end of exchanges and connections ---------------------------------------------------- */

/* Marks the client as gone and reports it once. */
static void report_gone(kvsi_exchange *x)
{
    int reports;

    pthread_mutex_lock(&x->lock);
    reports = !x->was_reported && x->phase != RECEIVING;
    x->is_gone = x->was_reported = 1;
    wake(x);
    pthread_mutex_unlock(&x->lock);
    if (reports)
        x->http->o.gone(x->http->o.user, x);
}

static void exchange_ended(void *user, struct MHD_Connection *c, void **own,
                           enum MHD_RequestTerminationCode code)
{
    kvsi_http *http = user;
    kvsi_exchange *x = *own;
    connection *of = connection_of(c);

    if (!x)
        return;
    *own = NULL;
    if (of) {
        pthread_mutex_lock(&http->lock);
        of->x = NULL;
        of->since = kvsi_clock_seconds();
        pthread_mutex_unlock(&http->lock);
    }
    pthread_mutex_lock(&x->lock);
    x->connection = NULL;
    x->is_suspended = 0;
    pthread_mutex_unlock(&x->lock);
    if (code != MHD_REQUEST_TERMINATED_COMPLETED_OK)
        report_gone(x);
    kvsi_exchange_release(x);
}

static void connection_changed(void *user, struct MHD_Connection *c, void **own,
                               enum MHD_ConnectionNotificationCode code)
{
    kvsi_http *http = user;
    connection *of = *own, **at;

    pthread_mutex_lock(&http->lock);
    if (code == MHD_CONNECTION_NOTIFY_STARTED) {
        of = kvsi_alloc(1, sizeof *of);
        if (of) {
            of->fd = MHD_get_connection_info(c, MHD_CONNECTION_INFO_CONNECTION_FD)->connect_fd;
            of->number = ++http->numbers;
            of->since = kvsi_clock_seconds();
            of->next = http->connections;
            http->connections = of;
        }
        *own = of;
    } else if (of) {
        for (at = &http->connections; *at != of;)
            at = &(*at)->next;
        *at = of->next;
        kvsi_free(of);
        *own = NULL;
    }
    pthread_mutex_unlock(&http->lock);
}

/* ---- the watcher ----------------------------------------------------------------------------- */

typedef struct watch_list {
    struct pollfd *polled;
    uint64_t *numbers;
    size_t count, capacity;
} watch_list;

/* Lists the connections whose clients may leave unnoticed: the library does not look at suspended
 * ones, nor at the end of a request that is not complete.  Ends those that are over their time: a
 * descriptor is only shut down here, and the library closes it. */
static void look_at_connections(kvsi_http *http, watch_list *list)
{
    const double now = kvsi_clock_seconds();

    list->count = 0;
    pthread_mutex_lock(&http->lock);
    for (const connection *c = http->connections; c; c = c->next) {
        kvsi_exchange *x = c->x;
        phase at = RECEIVING;
        double since = c->since;

        if (x) {
            pthread_mutex_lock(&x->lock);
            at = x->phase;
            since = at == SENDING ? x->sending_since : since;
            pthread_mutex_unlock(&x->lock);
        }
        if (at != WAITING && now - since > http->o.seconds)
            shutdown(c->fd, SHUT_RDWR);
        if (at != SENDING && list->count < list->capacity) {
            list->polled[list->count] = (struct pollfd){.fd = c->fd, .events = POLLRDHUP};
            list->numbers[list->count++] = c->number;
        }
    }
    pthread_mutex_unlock(&http->lock);
}

/* Ends the connection with that number, and reports its client if it waits for an answer. */
static void client_left(kvsi_http *http, uint64_t number)
{
    kvsi_exchange *x = NULL;

    pthread_mutex_lock(&http->lock);
    for (const connection *c = http->connections; c; c = c->next)
        if (c->number == number) {
            x = c->x;
            if (x)
                kvsi_exchange_keep(x);
            shutdown(c->fd, SHUT_RDWR);
        }
    pthread_mutex_unlock(&http->lock);
    if (!x)
        return;
    report_gone(x);
    kvsi_exchange_release(x);
}

/* Whether the stream of an exchange needs the watcher: its client does not read, or nothing was
 * sent for long. */
static int needs_watcher(kvsi_exchange *x)
{
    int needs;

    pthread_mutex_lock(&x->lock);
    needs =
        (x->is_gone && !x->was_reported) || (x->is_stream && !x->is_ended && !x->is_gone &&
                                             kvsi_clock_seconds() - x->last_sent > COMMENT_SECONDS);
    pthread_mutex_unlock(&x->lock);
    return needs;
}

/* Reports clients that do not read their streams, and sends comments in silent streams, so that
 * clients and proxies do not take them for dead. */
static void look_at_streams(kvsi_http *http)
{
    for (;;) {
        kvsi_exchange *x = NULL;
        uint64_t number = 0;

        pthread_mutex_lock(&http->lock);
        for (const connection *c = http->connections; c && !x; c = c->next)
            if (c->x && needs_watcher(c->x)) {
                x = c->x;
                number = c->number;
                kvsi_exchange_keep(x);
            }
        pthread_mutex_unlock(&http->lock);
        if (!x)
            return;
        if (kvsi_exchange_is_gone(x) || !kvsi_exchange_send(x, ":\n\n", 3)) {
            client_left(http, number);
            report_gone(x);
        }
        kvsi_exchange_release(x);
    }
}

static int watcher_stops(kvsi_http *http)
{
    int stops;

    pthread_mutex_lock(&http->lock);
    stops = http->stops;
    pthread_mutex_unlock(&http->lock);
    return stops;
}

static void *watch(void *user)
{
    kvsi_http *http = user;
    watch_list list = {.capacity = http->o.connections};

    list.polled = kvsi_alloc(list.capacity, sizeof *list.polled);
    list.numbers = kvsi_alloc(list.capacity, sizeof *list.numbers);
    if (!list.polled || !list.numbers)
        list.capacity = 0;
    while (!watcher_stops(http)) {
        look_at_connections(http, &list);
        if (poll(list.polled, list.count, WATCH_MS) > 0)
            for (size_t i = 0; i < list.count; i++)
                if (list.polled[i].revents)
                    client_left(http, list.numbers[i]);
        look_at_streams(http);
    }
    kvsi_free(list.polled);
    kvsi_free(list.numbers);
    return NULL;
}

/* ---- start and end --------------------------------------------------------------------------- */

/* The library would replace %2F by a slash before the path is looked up. */
static size_t keep_escapes(void *user, struct MHD_Connection *c, char *text)
{
    (void)user;
    (void)c;
    return strlen(text);
}

static kvs_status open_listener(kvsi_http *http, kvs_err *err)
{
    const struct addrinfo hints = {.ai_family = AF_UNSPEC,
                                   .ai_socktype = SOCK_STREAM,
                                   .ai_flags = AI_PASSIVE | AI_NUMERICSERV};
    const int on = 1;
    struct sockaddr_storage bound;
    socklen_t size = sizeof bound;
    struct addrinfo *found;
    char port[16];
    int wrong;

    snprintf(port, sizeof port, "%u", http->o.port);
    wrong = getaddrinfo(http->o.host, port, &hints, &found);
    if (wrong != 0)
        return kvsi_fail(err, KVS_E_IO, "cannot find the address of host '%s': %s", http->o.host,
                         gai_strerror(wrong));
    http->listener = socket(found->ai_family, found->ai_socktype | SOCK_CLOEXEC, 0);
    if (http->listener >= 0)
        setsockopt(http->listener, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
    if (http->listener < 0 || bind(http->listener, found->ai_addr, found->ai_addrlen) != 0 ||
        listen(http->listener, SOMAXCONN) != 0 ||
        getsockname(http->listener, (struct sockaddr *)&bound, &size) != 0) {
        wrong = errno;
        freeaddrinfo(found);
        return kvsi_fail(err, KVS_E_IO, "cannot listen on port %u of host '%s': %s", http->o.port,
                         http->o.host, strerror(wrong));
    }
    freeaddrinfo(found);
    if (getnameinfo((struct sockaddr *)&bound, size, NULL, 0, port, sizeof port, NI_NUMERICSERV) ==
        0)
        for (const char *at = port; *at; at++)
            http->port = 10 * http->port + (unsigned)(*at - '0');
    return KVS_OK;
}

kvs_status kvsi_http_start(kvsi_http **out, const kvsi_http_options *options, kvs_err *err)
{
    kvsi_http *http = kvsi_alloc(1, sizeof *http);
    kvs_status st;

    *out = NULL;
    if (!http)
        return kvsi_no_memory(err, "the HTTP server");
    http->o = *options;
    http->listener = -1;
    pthread_mutex_init(&http->lock, NULL);
    TRY_OUT(open_listener(http, err));
    http->watcher_runs = pthread_create(&http->watcher, NULL, watch, http) == 0;
    if (http->watcher_runs)
        http->daemon = MHD_start_daemon(
            MHD_USE_EPOLL_INTERNAL_THREAD | MHD_ALLOW_SUSPEND_RESUME | MHD_USE_ITC, 0, NULL, NULL,
            access_handler, http, MHD_OPTION_LISTEN_SOCKET, http->listener,
            MHD_OPTION_NOTIFY_COMPLETED, exchange_ended, http, MHD_OPTION_NOTIFY_CONNECTION,
            connection_changed, http, MHD_OPTION_UNESCAPE_CALLBACK, keep_escapes, NULL,
            MHD_OPTION_CONNECTION_LIMIT, (unsigned)options->connections,
            MHD_OPTION_CONNECTION_TIMEOUT, (unsigned)options->seconds + 1,
            MHD_OPTION_CONNECTION_MEMORY_LIMIT, (size_t)POOL_BYTES, MHD_OPTION_STRICT_FOR_CLIENT, 1,
            MHD_OPTION_END);
    if (!http->daemon) {
        st = kvsi_fail(err, KVS_E_IO, "cannot start the HTTP server");
        goto out;
    }
    *out = http;
    http = NULL;
out:
    kvsi_http_free(http);
    return st;
}

unsigned kvsi_http_port(const kvsi_http *http)
{
    return http->port;
}

void kvsi_http_close(kvsi_http *http)
{
    if (http->listener < 0)
        return;
    MHD_quiesce_daemon(http->daemon);
    close(http->listener);
    http->listener = -1;
}

int kvsi_http_is_idle(kvsi_http *http)
{
    int idle = 1;

    pthread_mutex_lock(&http->lock);
    for (const connection *c = http->connections; c; c = c->next)
        idle = idle && !c->x;
    pthread_mutex_unlock(&http->lock);
    return idle;
}

/* Suspended connections may not exist when the daemon is stopped. */
static void end_connections(kvsi_http *http)
{
    uint64_t last = UINT64_MAX, number;

    do {
        number = 0;
        pthread_mutex_lock(&http->lock);
        for (const connection *c = http->connections; c; c = c->next)
            if (c->number < last && c->number > number)
                number = c->number;
        pthread_mutex_unlock(&http->lock);
        last = number;
        if (number > 0)
            client_left(http, number);
    } while (number > 0);
}

void kvsi_http_free(kvsi_http *http)
{
    if (!http)
        return;
    if (http->daemon) {
        kvsi_http_close(http);
        for (int turn = 0; turn < 100 && !kvsi_http_is_idle(http); turn++) {
            end_connections(http);
            poll(NULL, 0, 10);
        }
        MHD_stop_daemon(http->daemon);
    }
    pthread_mutex_lock(&http->lock);
    http->stops = 1;
    pthread_mutex_unlock(&http->lock);
    if (http->watcher_runs)
        pthread_join(http->watcher, NULL);
    if (http->listener >= 0)
        close(http->listener);
    pthread_mutex_destroy(&http->lock);
    kvsi_free(http);
}
