/* repro/igsm_solve.h - igsm problems solved by a model with greedy decoding, and graded. */
#ifndef KVSI_REPRO_IGSM_SOLVE_H
#define KVSI_REPRO_IGSM_SOLVE_H

#include "kvshift/kvshift_lab.h"

/* Counts of problems by grade: kvs_igsm_grade. */
typedef struct kvsi_igsm_score {
    size_t problems, solved, first_right, asked_missing, strict;
} kvsi_igsm_score;

/* Solves the first `problems` of the evaluation stream of `seed`, each to its end token or the end
 * of the context. */
kvs_status kvsi_igsm_solve(kvsi_igsm_score *out, const kvs_model *model, const kvs_data *task,
                           uint64_t seed, size_t problems, kvs_err *err);

#endif
