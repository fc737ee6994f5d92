/* eval/aggregate.h - means and standard errors over documents, in the order of operations of
 * lm-evaluation-harness. */
#ifndef KVSI_EVAL_AGGREGATE_H
#define KVSI_EVAL_AGGREGATE_H

#include "base/status.h"

#include <stddef.h>

/* sum(x) / n, added from the first on. */
double kvsi_eval_mean(const double *values, size_t count);
/* sqrt(sum((x - mean)^2) / (n - 1)); NaN for fewer than 2 values. */
double kvsi_eval_deviation(const double *values, size_t count);
/* deviation / sqrt(n): the standard error of the mean. */
double kvsi_eval_error(const double *values, size_t count);

/* exp(-mean) of log-likelihoods. */
double kvsi_eval_perplexity(const double *values, size_t count);

enum { KVSI_EVAL_REPLICATES = 100000 }; /* of a bootstrap */

/* The standard error of the perplexity: the deviation over KVSI_EVAL_REPLICATES replicates.  Each
 * 1000 of them are drawn with a generator of their own, random.Random(0) to random.Random(99), so
 * threads change nothing.  *out is NaN for fewer than 2 values. */
kvs_status kvsi_eval_perplexity_error(double *out, const double *values, size_t count, int threads,
                                      kvs_err *err);

/* A group of tasks: sum(n_i m_i) / sum(n_i). */
double kvsi_eval_weighted_mean(const double *means, const size_t *sizes, size_t count);
/* sqrt( [sum (n_i - 1) n_i e_i^2 / (sum n_i - k)] / sum n_i ) for k tasks with the errors e_i; NaN
 * if one of the errors is. */
double kvsi_eval_pooled_error(const double *errors, const size_t *sizes, size_t count);

#endif
