/* infer/session.h - the insides of sessions and runners.
 *
 * A session holds what one sequence carries: its state, and the ids that led to it.  A runner holds
 * what running takes: a pass and the batch it is given.  Feeding notes the new ids in the sessions
 * and the lengths they shall reach, then runs passes until they are reached. */
#ifndef KVSI_INFER_SESSION_H
#define KVSI_INFER_SESSION_H

#include "model/pass.h"

struct kvs_runner {
    const kvs_model *model; /* borrowed */
    kvsi_pass *pass;
    float *logits;   /* [sequences, logits], backend memory */
    float **outputs; /* [sequences] where they go */

    /* the batch of one pass, part by part */
    size_t parts;
    const kvs_feed **feeds; /* [sequences] */
    kvsi_state **states;    /* [sequences] */
    size_t *starts;         /* [sequences + 1] */
    int32_t *ids, *targets; /* [tokens] */
};

struct kvs_session {
    kvs_runner *runner;
    int owns_runner;
    kvsi_state state;
    int32_t *ids; /* [capacity], of which state.length were fed */
    size_t goal;  /* the length to reach; the ids up to it are there */
};

/* Runs passes until every session has reached its goal. */
kvs_status kvsi_runner_run(kvs_runner *runner, const kvs_feed *feeds, size_t count, kvs_err *err);

/* An empty session; `runner` NULL = one of its own. */
kvs_status kvsi_session_create(kvs_session **out, const kvs_model *model, kvs_runner *runner,
                               size_t capacity, kvsi_dtype cache, kvs_err *err);

#endif
