/* walk.h - random walks of sessions (chunks, forks, rewinds, files): after every step the logits
 * must be those of the session's tokens in one pass without a cache. */
#ifndef KVSI_TESTS_WALK_H
#define KVSI_TESTS_WALK_H

#include "base/random.h"
#include "support.h"

enum { WALK_LONGEST = 1000, WALK_VOCAB_MAX = 64 };

/* Expected logits of one model. */
typedef struct walk_truth {
    const kvs_model *model;
    const char *name; /* for messages */
    kvs_dtype cache;  /* of the sessions; the pass rounds in the same way */
    double limit;     /* tolerance, relative to the largest logit; 0 = the bits must be equal */
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

/* Draws new tokens each time, so that tokens removed by a rewind would show.  tracked_draw does not
 * feed them. */
void tracked_draw(tracked *t, size_t count, kvsi_random *random);
void tracked_feed(tracked *t, size_t count, kvsi_random *random);
void tracked_rewind(tracked *t, size_t length);
/* Rewinds to the earliest length, which is at least a window back. */
void tracked_go_back_all_the_way(tracked *t);
/* Checks tokens and logits; `after` names the last step. */
void tracked_expect(const tracked *t, const char *after);

/* Feeds to the end, so that sliding windows drop rows, then random steps; `path` is for files. */
void walk(const walk_truth *truth, size_t steps, const char *path);

#endif
