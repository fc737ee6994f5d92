/* serve/prefixes.h - sessions of finished requests, from which later ones copy a common prefix.
 *
 * A prefix is found by its token ids alone, and only for the same owner.  Copies are exact, so an
 * answer has the same bytes with and without a hit.  Entries are removed when all of them together
 * are over a number of bytes, the one that was used longest ago first.  Only the thread of the
 * engine uses a store. */
#ifndef KVSI_SERVE_PREFIXES_H
#define KVSI_SERVE_PREFIXES_H

#include "base/status.h"

#include <stddef.h>
#include <stdint.h>

typedef struct kvsi_prefixes kvsi_prefixes;

/* What is known of the tokens of a prompt: own[i] is the log-probability of token i, NaN for the
 * first; the `top` likeliest tokens after token i are at index i * top. */
typedef struct kvsi_scores {
    size_t count, top;
    double *own, *top_logprobs;
    int32_t *top_ids;
} kvsi_scores;

kvs_status kvsi_scores_create(kvsi_scores *scores, size_t count, size_t top, kvs_err *err);
void kvsi_scores_release(kvsi_scores *scores);

typedef struct kvsi_prefix_stats {
    size_t entries;
    uint64_t bytes, hits, evictions;
} kvsi_prefix_stats;

/* With 0 bytes nothing is ever stored. */
kvs_status kvsi_prefixes_create(kvsi_prefixes **out, uint64_t bytes, kvs_err *err);
void kvsi_prefixes_free(kvsi_prefixes *store);
kvsi_prefix_stats kvsi_prefixes_stats(const kvsi_prefixes *store);

/* Returns the number of tokens that a copy of the session can share with the ids. */
size_t kvsi_shared_prefix(const kvs_session *session, const int32_t *ids, size_t count);

/* Finds the entry that shares most tokens with the ids; returns their number, 0 = none.  With
 * `scored`, only tokens count whose scores are known with one alternative.  *session and *scores
 * are borrowed until the next call. */
size_t kvsi_prefixes_find(const kvs_session **session, const kvsi_scores **scores,
                          kvsi_prefixes *store, uint64_t owner, const int32_t *ids, size_t count,
                          int scored);
/* Notes that a copy of the entry was made. */
void kvsi_prefixes_hit(kvsi_prefixes *store, const kvs_session *session);

/* Stores a session, which the store then owns, with the scores of its first tokens, which are
 * copied; NULL = none.  If it is stored already or too large, it is freed. */
void kvsi_prefixes_add(kvsi_prefixes *store, uint64_t owner, kvs_session *session,
                       const kvsi_scores *scores, kvs_dtype cache);

#endif
