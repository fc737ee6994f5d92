/* repro/losses.h - language models compared: losses of arms on the same text, seed by seed.
 *
 * Runs of one seed share text, order and initial weights, so losses are subtracted within seeds,
 * and Student's t over the differences says whether their mean could be chance. */
#ifndef KVSI_REPRO_LOSSES_H
#define KVSI_REPRO_LOSSES_H

#include "repro/experiment.h"

/* Final validation losses of two arms. */
kvsi_paired_test kvsi_compare_losses(const kvsi_results *results, size_t arm, size_t reference);

/* What the paper says about an arm's loss against another's. */
typedef enum kvsi_expectation {
    KVSI_LOWER,     /* lower, and not by chance (p < 0.05) */
    KVSI_NOT_LOWER, /* lower by less than the margin at most, with 95 % confidence */
} kvsi_expectation;

typedef struct kvsi_loss_claim {
    size_t arm, reference;
    kvsi_expectation expects;
    const char *claim, *paper;
} kvsi_loss_claim;

void kvsi_claim_loss(kvsi_claims *out, const kvsi_results *results, const kvsi_loss_claim *claim);

/* ---- arms that differ in their shift alone ---- */

typedef struct kvsi_text_arm {
    const char *name;
    kvs_shift_config shift;
    double shift_decay;
    int half_rotary; /* only half of each head's channels rotates, which the hard shift needs */
} kvsi_text_arm;

/* A language model, as kvsi_scale_text has it, with each of them. */
kvs_status kvsi_plan_text_arms(kvsi_plan *plan, const kvsi_text_arm *arms, size_t count,
                               size_t number, const char *preset, kvs_err *err);
/* Claims, a table of all arms, and their differences from arm `reference`, in the end and on the
 * way. */
kvs_status kvsi_conclude_text_arms(kvsi_claims *out, const kvsi_results *results,
                                   const kvsi_loss_claim *claims, size_t count, size_t reference);

#endif
