/* infer/session.h - sessions and runners.
 *
 * A session is one sequence: its state and its ids.  A runner is a pass and the batch for it.
 * Feeding appends ids to sessions and sets their goals (lengths), then runs passes until all goals
 * are reached. */
#ifndef KVSI_INFER_SESSION_H
#define KVSI_INFER_SESSION_H

#include "model/pass.h"

struct kvs_runner {
    const kvs_model *model; /* borrowed */
    kvsi_pass *pass;
    float *logits;   /* [sequences, logits], backend memory */
    float **outputs; /* [sequences] host memory that receives them */

    /* the batch of one pass, part by part */
    size_t parts;
    kvs_feed *feeds;        /* [sequences] */
    kvsi_state **states;    /* [sequences] */
    size_t *starts;         /* [sequences + 1] */
    int32_t *ids, *targets; /* [tokens] */

    int32_t *rows, *row_targets; /* [tokens] rows that go through the head, and their targets */
};

struct kvs_session {
    kvs_runner *runner;
    int owns_runner;
    kvsi_state state;
    int32_t *ids; /* [capacity]; the first state.length were fed */
    size_t goal;  /* the length to reach; ids up to it are valid */
};

/* An array of feeds from a caller, whose kvs_feed may have another size than this library's. */
typedef struct kvsi_feed_list {
    const void *at;
    size_t size, count; /* bytes per feed, number of feeds */
} kvsi_feed_list;

/* Returns a copy of one feed.  Fields that the caller's struct does not have are 0. */
kvs_feed kvsi_feed_at(const kvsi_feed_list *feeds, size_t index);

/* Returns the index in a feed of the token at a position of its session. */
static inline size_t kvsi_index_in_feed(const kvs_feed *feed, size_t position)
{
    return position - (feed->session->goal - feed->count);
}

/* Runs passes until every session has reached its goal. */
kvs_status kvsi_runner_run(kvs_runner *runner, const kvsi_feed_list *feeds, kvs_err *err);

/* Sets *own to the defaults and the caller's options.  Fails if the runner is of another model. */
kvs_status kvsi_session_read_options(kvs_session_options *own, const kvs_model *model,
                                     const kvs_session_options *options, kvs_err *err);
/* Fails if the options ask for another type than the cache of a copied or loaded session has. */
kvs_status kvsi_session_check_cache(const kvs_session_options *options, kvsi_dtype cache,
                                    kvs_err *err);
/* Creates an empty session; `runner` NULL = the session gets a runner of its own. */
kvs_status kvsi_session_create(kvs_session **out, const kvs_model *model, kvs_runner *runner,
                               size_t capacity, kvsi_dtype cache, kvs_err *err);

/* ---- results for each token: feed_results.c ---- */

/* Fills in own_logprobs[0] of each feed.  Called before the first pass. */
kvs_status kvsi_score_first(kvs_runner *runner, const kvsi_feed_list *feeds, kvs_err *err);
/* Fills in all other results for the tokens of the batch.  Called after each pass. */
kvs_status kvsi_score_batch(kvs_runner *runner, kvs_err *err);

#endif
