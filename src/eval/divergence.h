/* eval/divergence.h - how far a model's predictions are from another's, as when its weights were
 * rounded: the Kullback-Leibler divergence of its distribution from the reference's. */
#ifndef KVSI_EVAL_DIVERGENCE_H
#define KVSI_EVAL_DIVERGENCE_H

#include "model/pass.h"

typedef struct kvsi_divergence {
    kvsi_pass *pass, *reference;       /* borrowed; both have run forward over the same tokens */
    real *logits, *reference_logits;   /* [ROWS, logits], host */
    real *scratch, *reference_scratch; /* the same, backend memory */
    double sum, squares;               /* of the divergences of all rows so far */
    uint64_t rows, same;               /* same: of these, both think the same token likeliest */
} kvsi_divergence;

/* Starts as {0}; released in any state. */
kvs_status kvsi_divergence_init(kvsi_divergence *d, kvsi_pass *pass, kvsi_pass *reference,
                                kvs_err *err);
void kvsi_divergence_release(kvsi_divergence *d);

/* Rows first .. end-1 of the batch that both have run. */
kvs_status kvsi_divergence_add(kvsi_divergence *d, size_t first, size_t end, kvs_err *err);

#endif
