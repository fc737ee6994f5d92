/* eval/divergence.h - Kullback-Leibler divergence of a model's predictions from those of a
 * reference, for example the same model before quantization. */
#ifndef KVSI_EVAL_DIVERGENCE_H
#define KVSI_EVAL_DIVERGENCE_H

#include "model/pass.h"

typedef struct kvsi_divergence {
    kvsi_pass *pass, *reference;       /* borrowed; both have run forward over the same tokens */
    real *logits, *reference_logits;   /* [ROWS, logits], host */
    real *scratch, *reference_scratch; /* the same, backend memory */
    double sum, squares;               /* of the divergences of all rows */
    uint64_t rows, same;               /* same: rows with the same most likely token */
} kvsi_divergence;

/* *d must be {0}; it can be released after a failure too. */
kvs_status kvsi_divergence_init(kvsi_divergence *d, kvsi_pass *pass, kvsi_pass *reference,
                                kvs_err *err);
void kvsi_divergence_release(kvsi_divergence *d);

/* Adds rows first .. end-1 of the batch that both have run. */
kvs_status kvsi_divergence_add(kvsi_divergence *d, size_t first, size_t end, kvs_err *err);

#endif
