/* eval/python_random.h - the generator of Python's module random, draw by draw.
 *
 * lm-evaluation-harness draws few-shot examples and bootstrap replicates with it. */
#ifndef KVSI_EVAL_PYTHON_RANDOM_H
#define KVSI_EVAL_PYTHON_RANDOM_H

#include "base/status.h"

#include <stddef.h>
#include <stdint.h>

typedef struct kvsi_python_random { /* MT19937 */
    uint32_t state[624];
    size_t next; /* of `state` to be used; 624 = make new ones */
} kvsi_python_random;

/* random.Random(seed), for an integer seed that is not negative. */
void kvsi_python_seed(kvsi_python_random *random, uint64_t seed);
/* random(): a number in [0, 1) with 53 random bits. */
double kvsi_python_uniform(kvsi_python_random *random);
/* randrange(n): an integer in [0, n); 0 if n is 0. */
uint32_t kvsi_python_below(kvsi_python_random *random, uint32_t n);
/* sample(range(n), k): k different integers below n, in the order of their draws.  n is at most
 * 2^32 - 1 and k at most n. */
kvs_status kvsi_python_sample(kvsi_python_random *random, size_t n, size_t k, size_t *out,
                              kvs_err *err);

#endif
