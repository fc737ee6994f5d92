/* serve/lens.h - what the page asks about a model: its taps, attention, log-probabilities under
 * other taps, its checkpoints, and the logs of trainings.
 *
 * A request is a JSON object; lens_routes.c has the table of requests.  A thread of its own
 * computes one answer after the other, with passes of its own, so that the page does not hold up
 * the streams of other clients.  Requests whose client is gone are dropped: of many requests while
 * a slider moves, only the newest is computed. */
#ifndef KVSI_SERVE_LENS_H
#define KVSI_SERVE_LENS_H

#include "kvshift/kvshift.h"
#include "kvshift/kvshift_files.h"
#include "serve/http.h"

enum {
    KVSI_LENS_MODELS_MAX = 2,      /* the model of the server, and one to compare it with */
    KVSI_LENS_WAITING_MAX = 32,    /* requests that wait for the thread */
    KVSI_LENS_TOKENS_MAX = 4096,   /* of a sequence */
    KVSI_LENS_SQUARE_MAX = 512,    /* tokens of a sequence whose attention is wanted */
    KVSI_LENS_TOP_MAX = 20,        /* alternatives of a token */
    KVSI_LENS_EDITS_MAX = 4096,    /* heads with other taps */
    KVSI_LENS_CHECKPOINTS_MAX = 64 /* of a run, evenly spaced */
};

typedef struct kvsi_lens_model {
    const char *name;
    const char *path; /* where it was loaded from: its checkpoints are there */
    const kvs_model *model;
    const kvs_tokenizer *tokenizer;
    const kvs_chat_template *chat; /* NULL = the model knows no messages */
} kvsi_lens_model;

typedef struct kvsi_lens_options {
    kvsi_lens_model models[KVSI_LENS_MODELS_MAX];
    size_t model_count;
    const char *runs; /* a run folder or a folder of run folders; NULL = none */
    void (*answered)(void *user, unsigned status); /* called after each answer */
    void *user;
} kvsi_lens_options;

typedef struct kvsi_lens kvsi_lens;

/* Starts the thread.  The options are copied, what they point to is borrowed. */
kvs_status kvsi_lens_start(kvsi_lens **out, const kvsi_lens_options *options, kvs_err *err);
int kvsi_lens_has(const char *path);
/* Answers a request to such a path, later. */
void kvsi_lens_handle(kvsi_lens *lens, kvsi_exchange *x);
/* Ends the thread, and refuses the requests that wait for it and that come later.  NULL does
 * nothing. */
void kvsi_lens_stop(kvsi_lens *lens);
void kvsi_lens_free(kvsi_lens *lens);

#endif
