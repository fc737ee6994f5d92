/* trace.h - keeps the activations that kvs_model_trace() visits, and a small model to trace. */
#ifndef KVSI_TESTS_TRACE_H
#define KVSI_TESTS_TRACE_H

#include "kvshift/kvshift_lab.h"
#include "support.h"

enum { TRACE_TOKENS = 21, TRACE_VOCAB = 19, TRACE_ACTIVATIONS_MAX = 64, TRACE_NAME = 64 };

/* ---- activations ---- */

/* A copy of one activation. */
typedef struct trace_activation {
    char name[TRACE_NAME];
    float *values;
    size_t rank, shape[4], count;
} trace_activation;

/* Copies of all activations of a trace, in the order of the visits. */
typedef struct trace_capture {
    trace_activation list[TRACE_ACTIVATIONS_MAX];
    size_t count;
    size_t stop_at; /* the number of the visit that returns 1 to stop the trace; 0 = none does */
} trace_capture;

/* Copies an activation into `user`, a trace_capture; a callback of kvs_model_trace(). */
int trace_take(void *user, const kvs_activation *a);
/* Traces some tokens into a trace_capture that the caller releases; no names = all activations. */
void trace_run(trace_capture *c, const kvs_model *model, const int32_t *ids, size_t count,
               const char *const *names, size_t name_count);
void trace_capture_release(trace_capture *c);

/* Returns an activation, or NULL if it was not visited.  In a name that starts with "blocks.*.",
 * `layer` replaces the "*". */
const trace_activation *trace_find(const trace_capture *c, const char *name, size_t layer);
/* Returns the values of an activation; fails the test if it was not visited. */
const float *trace_values(const trace_capture *c, const char *name, size_t layer);

/* ---- a model ---- */

extern const support_sizes trace_sizes;

/* Two layers of four heads, which share two KV heads, with a shift of q, k and v. */
typedef struct trace_fixture {
    kvs_runtime *rt;
    kvs_model *model;
    int32_t ids[TRACE_TOKENS];
} trace_fixture;

/* Creates the model on a runtime, which trace_fixture_release() frees. */
trace_fixture trace_fixture_create(kvs_runtime *rt);
void trace_fixture_release(trace_fixture *f);

#endif
