/* eval/score.h - log-likelihoods of many requests, with shared token prefixes fed once.
 *
 * The fed ids of all requests, sorted, form a trie: requests that start with the same ids have one
 * path.  Each node of the trie is a run of ids that is fed once.  Where requests differ, the state
 * of the sequence is copied for each branch.  Runs of many branches form one pass.
 *
 *   requests   1 5 7 8 | 2        trie   1 5 7 8 -> target 2
 *              1 5 7 9 | 3                   7 9 -> target 3
 *
 * Requests that differ in their last id only, which is not fed, share all rows.  In exact mode the
 * results do not depend on any of this. */
#ifndef KVSI_EVAL_SCORE_H
#define KVSI_EVAL_SCORE_H

#include "base/status.h"

#include <stddef.h>
#include <stdint.h>

typedef struct kvsi_score_request {
    const int32_t *ids;          /* borrowed */
    size_t count, context_count; /* count > context_count > 0 */
    /* results */
    double sum; /* of log p(id | all before) over the ids after the context */
    int greedy; /* 1 = each of them is the likeliest token */
} kvsi_score_request;

typedef struct kvsi_score_options {
    size_t tokens;    /* rows per pass */
    size_t sequences; /* most sequences per pass */
    double memory;    /* bytes for states; at least those of one path are used */
    kvs_dtype cache;  /* type of keys and values */
    int alone;        /* 1 = requests share nothing */
    /* Called after each pass that completed requests: their indexes. */
    kvs_status (*done)(void *user, const size_t *indexes, size_t count, kvs_err *err);
    /* Called after each pass with the number of tokens fed so far and in all; may be NULL. */
    kvs_status (*progress)(void *user, uint64_t fed, uint64_t all, kvs_err *err);
    void *user;
} kvsi_score_options;

typedef struct kvsi_score_totals {
    uint64_t fed;    /* tokens that went through the model */
    uint64_t needed; /* tokens of all requests, without sharing */
    uint64_t passes;
} kvsi_score_totals;

/* Counts the tokens that kvsi_score_requests would feed (fed) and those without sharing. */
kvs_status kvsi_score_count(kvsi_score_totals *out, kvsi_score_request *requests, size_t count,
                            kvs_err *err);

/* Scores all requests.  `totals` may be NULL.  A log-likelihood that is not finite is
 * KVS_E_FORMAT. */
kvs_status kvsi_score_requests(kvsi_score_totals *totals, kvsi_score_request *requests,
                               size_t count, const kvs_model *model,
                               const kvsi_score_options *options, kvs_err *err);

#endif
