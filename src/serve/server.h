/* serve/server.h - the server: routes, and what becomes of a request.
 *
 * Threads: that of HTTP checks who asks and collects requests; workers parse them, make ids of
 * text, and write whole answers; the engine runs the model and sends the parts of streams. */
#ifndef KVSI_SERVE_SERVER_H
#define KVSI_SERVE_SERVER_H

#include "kvshift/kvshift_files.h"
#include "serve/engine.h"
#include "serve/lens.h"

typedef struct kvsi_server kvsi_server;

typedef struct kvsi_server_options {
    const char *host;
    unsigned port; /* 0 = any that is free */
    size_t connections, body_bytes;
    double http_seconds; /* for a request to arrive, and for an answer to be taken */
    const char *key_file;
    const char *const *allowed_hosts;
    size_t allowed_count;

    kvsi_engine_options engine;             /* with model and tokenizer */
    const kvs_chat_template *chat_template; /* NULL = none */
    const char *model_name;
    kvsi_lens_options lens; /* for the page; the server sets `answered` */
    int strict_model;       /* another name in a request is refused */
} kvsi_server_options;

/* Options, model and texts are borrowed until the server is freed. */
kvs_status kvsi_server_start(kvsi_server **out, const kvsi_server_options *options, kvs_err *err);
unsigned kvsi_server_port(const kvsi_server *server);
/* Accepts no more connections and refuses new requests. */
void kvsi_server_drain(kvsi_server *server);
/* Whether all requests have their answers. */
int kvsi_server_is_idle(kvsi_server *server);
/* Cancels what is left.  NULL does nothing. */
void kvsi_server_free(kvsi_server *server);

#endif
