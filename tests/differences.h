/* differences.h - an operation's backward pass against central differences of its forward pass.
 *
 * A test describes the operation by two calls that find what they read and write in a trial.  The
 * loss whose gradient is checked is <d_y, y>. */
#ifndef KVSI_TESTS_DIFFERENCES_H
#define KVSI_TESTS_DIFFERENCES_H

#include "base/random.h"
#include "support.h"

enum { OPERANDS_MAX = 5 };

typedef struct trial {
    kvsi_context c;
    kvsi_random random;
    const void *asked;                         /* what the operation's calls want to know */
    real *y, *d_y;                             /* output, and the gradient that comes back */
    real *x[OPERANDS_MAX], *d_x[OPERANDS_MAX]; /* operands, and what the backward pass gives */
} trial;

typedef enum effect { OVERWRITES, ADDS } effect;

/* What an operation reads and differentiates.  A count of 0: not in this case. */
typedef struct operand {
    const char *name;
    size_t count;
    effect effect; /* of the backward pass on this gradient */
} operand;

typedef struct operation {
    char name[120];
    size_t outputs;
    operand operands[OPERANDS_MAX];
    void (*forward)(trial *t);
    void (*backward)(trial *t);
} operation;

/* Of the reference operations. */
trial differences_start(const kvsi_limits *limits, uint64_t seed);
real *differences_normal(trial *t, size_t count); /* fresh memory */
/* Ends the trial, with all its memory.  x and d_y may be set beforehand; what is NULL is drawn. */
void differences_check(trial *t, const operation *o);

/* Values worked out by hand: differences cannot tell a wrong forward pass from a right one. */
void differences_expect(const char *what, const real *found, const double *expected, size_t n);

#endif
