/* session.h - setup and teardown of tests that use one session. */
#ifndef KVSI_TESTS_SESSION_H
#define KVSI_TESTS_SESSION_H

#include "kvshift/kvshift.h"
#include "support.h"

enum { SESSION_IDS = 600 };

/* The state of such a test. */
typedef struct session_fixture {
    kvs_runtime *rt;
    kvs_model *model;
    kvs_session *session;
    int32_t ids[SESSION_IDS];
} session_fixture;

/* The two seeds make the weights and the ids.  `capacity` is the one of the session, which is
 * empty; 0 = the context of the model. */
typedef struct session_options {
    uint64_t model_seed, ids_seed;
    size_t capacity;
} session_options;

/* Allocates the fixture and sets *state to it; returns 0, as a setup function of cmocka does. */
int session_set_up(void **state, const kvs_model_config *config, const session_options *options);
int session_tear_down(void **state);

#endif
