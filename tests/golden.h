/* golden.h - comparing with the golden files that goldens/make_goldens.py describes. */
#ifndef KVSI_TESTS_GOLDEN_H
#define KVSI_TESTS_GOLDEN_H

#include "support.h"

/* How far the model may be from the golden results, relative to their largest number. */
typedef struct golden_limits {
    double loss, gradient, logit;
} golden_limits;

/* Compares logits, loss and gradients of every case with the golden ones. */
void golden_expect_all(kvs_runtime *rt, const golden_limits *limits);

/* Calls `check` with the model and the batch of every case; dropout NULL = none. */
typedef void golden_check(const kvs_model *model, const kvs_batch *batch,
                          const support_dropout *dropout, const char *name);
void golden_each(kvs_runtime *rt, golden_check *check);

#endif
