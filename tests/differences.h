/* differences.h - checks an operation's backward pass by central differences of its forward pass.
 *
 * A test describes the operation by two functions that take their inputs and outputs from a trial.
 * The loss whose gradient is checked is <d_y, y>. */
#ifndef KVSI_TESTS_DIFFERENCES_H
#define KVSI_TESTS_DIFFERENCES_H

#include "base/random.h"
#include "support.h"

enum { OPERANDS_MAX = 9 };

typedef struct trial {
    kvsi_context c;
    kvsi_random random;
    const void *asked;                         /* passed to the operation's functions */
    real *y, *d_y;                             /* output and its gradient */
    real *x[OPERANDS_MAX], *d_x[OPERANDS_MAX]; /* operands, and their gradients */
} trial;

typedef enum effect { OVERWRITES, ADDS } effect;

/* An input with a gradient; count 0 = absent in this case. */
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

/* A trial of the reference operations. */
trial differences_start(const kvsi_limits *limits, uint64_t seed);
real *differences_normal(trial *t, size_t count); /* fresh memory */
/* Checks and releases the trial.  x and d_y may be set before; those that are NULL are drawn at
 * random. */
void differences_check(trial *t, const operation *o);

/* Compares with values computed by hand: differences cannot detect a wrong forward pass. */
void differences_expect(const char *what, const real *found, const double *expected, size_t n);

#endif
