/* theory/induction_head.h - the induction head as the paper defines it, in double precision.
 *
 *     IH(x) = sum_{s=2..L-1} softmax_s(x_L . x_{s-1} / sigma - slope (L - s)) x_s
 *
 * An input x is [length, dim], row by row; the paper's token s is row s - 1. */
#ifndef KVSI_THEORY_INDUCTION_HEAD_H
#define KVSI_THEORY_INDUCTION_HEAD_H

#include "base/random.h"
#include "base/status.h"
#include "kvshift/kvshift_lab.h"

kvs_status kvsi_induction_problem_check(const kvs_induction_problem *problem, kvs_err *err);

/* Unit vectors in random directions; the last one repeats an earlier one. */
void kvsi_induction_input(double *x, const kvs_induction_problem *problem, kvsi_random *random);

/* out[dim] = sum_s softmax(scores)_s values_s; scores[count] become the weights. */
void kvsi_attend(double *out, double *scores, const double *values, size_t count, size_t dim);

/* Attention of the last row of x over tokens first .. last; `keys` and `values` begin with those of
 * token `first`.  scores[length] is workspace. */
void kvsi_look_up(double *out, const double *x, const double *keys, const double *values,
                  size_t first, size_t last, const kvs_induction_problem *problem, double *scores);
/* IH itself: the key of token s is x_{s-1}, its value x_s. */
void kvsi_induction_head(double *out, const double *x, const kvs_induction_problem *problem,
                         double *scores);

double kvsi_largest_difference(const double *a, const double *b, size_t count);

#endif
