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

void levels_check(levels_operation *call, const void *asked, const kvsi_limits *limits,
                  const char *what);
/* The same for contexts of another precision. */
void levels_check_in(kvsi_precision precision, double tolerance, levels_operation *call,
                     const void *asked, const kvsi_limits *limits, const char *what);

/* Asserts that level amx has the bits of amx-emulated: on the hardware, or, with AVX-512, with
 * AMX's instructions trapped (amx_trap.h). */
void levels_compare_amx(kvsi_precision precision, levels_operation *call, const void *asked,
                        const kvsi_limits *limits, const char *what);

/* Every level except the reference that this processor can run; returns how many. */
size_t levels_fast(const kvsi_ops *levels[LEVELS_MAX]);

/* The workspace has exactly workspace_bytes(), filled with NaN, followed by a guard. */
kvsi_context levels_context(run *r, const kvsi_ops *ops);
void levels_start(run *r, const kvsi_ops *ops, const kvsi_limits *limits);
void levels_finish(run *r);

#endif
