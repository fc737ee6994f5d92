/* walk.h - sessions that take any way (chunks, forks, rewinds, files), followed step by step: their
 * logits must be those of their tokens in one pass without a cache. */
#ifndef KVSI_TESTS_WALK_H
#define KVSI_TESTS_WALK_H

#include "base/random.h"
#include "support.h"

enum { WALK_LONGEST = 1000, WALK_VOCAB_MAX = 64 };

/* What is right, of one model. */
typedef struct walk_truth {
    const kvs_model *model;
    const char *name; /* for messages */
    kvs_dtype cache;  /* of the sessions; the pass rounds as it does */
    double limit;     /* of what may differ, relative to the largest logit */
    kvsi_pass *pass;
} walk_truth;

walk_truth walk_truth_of(const kvs_model *model, const char *name, kvs_dtype cache, double limit);
void walk_truth_release(walk_truth *truth);

/* A session, and the tokens that it should have. */
typedef struct tracked {
    const walk_truth *truth;
    kvs_session *session;
    int32_t ids[WALK_LONGEST];
    size_t length;
} tracked;

/* New tokens each time: what a rewind leaves behind must not count.  The first only notes them. */
void tracked_draw(tracked *t, size_t count, kvsi_random *random);
void tracked_feed(tracked *t, size_t count, kvsi_random *random);
void tracked_rewind(tracked *t, size_t length);
/* As far back as it goes, which is a window at least. */
void tracked_go_back_all_the_way(tracked *t);
/* Tokens and logits are right; `after` says what was done. */
void tracked_expect(const tracked *t, const char *after);

/* Straight to the end, so that windows forget, then about at random; `path` is for files. */
void walk(const walk_truth *truth, size_t steps, const char *path);

#endif
