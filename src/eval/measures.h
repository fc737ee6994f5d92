/* eval/measures.h - what samples tell beyond the score.
 *
 * Choice i of a document has the log-likelihood l_i, and p = softmax(l); g is the right choice.
 *
 *   bits      -l_g / (ln 2 * bytes of the right answer)
 *   margin    l_g - max_{i != g} l_i, in nats
 *   Brier     mean over documents of sum_i (p_i - [i = g])^2; 0 is perfect
 *   ECE       sum over bins of n_b / n * |accuracy_b - confidence_b|, with the confidence max_i p_i
 *             in 15 bins of equal width */
#ifndef KVSI_EVAL_MEASURES_H
#define KVSI_EVAL_MEASURES_H

#include "base/statistics.h"
#include "eval/units.h"

enum { KVSI_CALIBRATION_BINS = 15, KVSI_LENGTH_PARTS = 4 };

typedef struct kvsi_calibration_bin {
    size_t count, right;
    double confidence; /* mean */
} kvsi_calibration_bin;

typedef struct kvsi_measures {
    kvsi_estimate bits; /* per byte; NaN without documents that have it, as all below */
    kvsi_estimate margin, brier;
    double ece;
    kvsi_calibration_bin bins[KVSI_CALIBRATION_BINS];
} kvsi_measures;

kvsi_measures kvsi_measures_of(const kvsi_unit *unit);

/* A part of a unit's documents. */
typedef struct kvsi_part {
    size_t count, right;
    size_t shortest, longest; /* characters of the context */
    kvsi_estimate likelihood; /* of last words: logarithm */
} kvsi_part;

/* Documents in the order of the length of their contexts, in parts of equal size.  `metric` must be
 * 0 or 1. */
kvs_status kvsi_parts_by_length(kvsi_part parts[KVSI_LENGTH_PARTS], const kvsi_unit *unit,
                                const char *metric, kvs_err *err);
/* Last words: parts[1] are those that occur in their context, parts[0] the new ones. */
void kvsi_parts_by_copy(kvsi_part parts[2], const kvsi_unit *unit);

#endif
