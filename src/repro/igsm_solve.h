/* repro/igsm_solve.h - problems of igsm, solved by a model as it likes best, and graded. */
#ifndef KVSI_REPRO_IGSM_SOLVE_H
#define KVSI_REPRO_IGSM_SOLVE_H

#include "kvshift/kvshift_lab.h"

/* Problems, and how many of them: see kvs_igsm_grade. */
typedef struct kvsi_igsm_score {
    size_t problems, solved, first_right, asked_missing, strict;
} kvsi_igsm_score;

/* The first `problems` of the evaluation stream of `seed`, each to its end or that of the context,
 * always with the likeliest token. */
kvs_status kvsi_igsm_solve(kvsi_igsm_score *out, const kvs_model *model, const kvs_task *task,
                           uint64_t seed, size_t problems, kvs_err *err);

#endif
