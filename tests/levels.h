/* levels.h - compares every CPU level with the reference: the same call on the same inputs.
 *
 * A test is an operation that takes its inputs and outputs from a run; it is called once per level,
 * and the outputs of all levels are compared. */
#ifndef KVSI_TESTS_LEVELS_H
#define KVSI_TESTS_LEVELS_H

#include "base/random.h"
#include "support.h"

enum { LEVELS_MAX = 8, BLOCKS_MAX = 64, OUTPUTS_MAX = 24 };

typedef struct output {
    const char *name;
    const real *values;
    size_t count;
    int gaps;     /* may keep its initial NaN if the reference does */
    size_t terms; /* not 0: it is a sum over output terms - 1, whose size is used for the tolerance
                  too */
} output;

typedef struct run {
    kvsi_context c;
    kvsi_limits limits;
    kvsi_random random; /* the same stream at every level, so the same inputs */
    void *blocks[BLOCKS_MAX];
    output outputs[OUTPUTS_MAX];
    size_t held, count; /* of blocks, of outputs */
    void *kept; /* one of the blocks that the operation has set at the reference: the operation gets
                it at every level, to compute it once */
} run;

/* ---- memory of an operation ---- */

void *levels_hold(run *r, size_t bytes);
/* Inputs: normal values; ids below a bound. */
real *levels_given(run *r, size_t n);
int32_t *levels_given_ids(run *r, size_t n, size_t bound);
/* Weights of any type.  Quantized blocks have random bits and factors of up to 1/16. */
void *levels_given_weights(run *r, kvsi_dtype type, size_t n);
/* Outputs: one that the operation adds to, one that it overwrites. */
real *levels_added(run *r, const char *name, size_t n);
real *levels_written(run *r, const char *name, size_t n);
/* Any other output. */
real *levels_listed(run *r, const char *name, real *values, size_t n, int gaps);

/* Integers up to `large`: their products and sums are exact in float, so large scores equal those
 * of the reference and softmax results can be compared. */
real levels_whole(real x, double large);

/* ---- calling it ---- */

typedef void levels_operation(run *r, const void *asked); /* asked: the shape */

/* Relative to the largest value of an output.  A float rounds by 6e-8; the longest sums have about
 * a thousand terms, added in another order than in the reference (which adds in double), and an
 * exponential multiplies the error of its argument, up to about 10: some hundred roundings in all,
 * of random sign. */
#define LEVELS_TOLERANCE 2e-5

/* One comparison of all levels. */
typedef struct levels_case {
    levels_operation *call;
    const void *asked;
    const char *what; /* for messages */
    kvsi_limits limits;
    kvsi_precision precision;
    double tolerance;
    /* The levels with tiles too, where they are slow: amx-emulated, and amx on processors without
     * AMX, with its instructions trapped (amx_trap.h).  amx must have the bits of amx-emulated. */
    int slow;
} levels_case;

void levels_check(const levels_case *c);

/* Every level except the reference that this processor can run; returns how many. */
size_t levels_fast(const kvsi_ops *levels[LEVELS_MAX]);

/* The workspace has exactly workspace_bytes(), filled with NaN, between two guards.  All runs have
 * the same one: a call must end before the next run starts. */
void levels_start(run *r, const kvsi_ops *ops, const kvsi_limits *limits);
void levels_finish(run *r);

#endif
