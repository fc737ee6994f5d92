/* repro/text_arms.h - language models that differ only in their shift, compared seed by seed.
 *
 * Runs of one seed share text, order and initial weights, so losses are subtracted within seeds,
 * and a paired t test decides whether the mean difference could be chance.
 *
 * An experiment that only compares such models is a table: arms and claims. */
#ifndef KVSI_REPRO_TEXT_ARMS_H
#define KVSI_REPRO_TEXT_ARMS_H

#include "config/config.h"
#include "repro/experiment.h"

/* What the paper says about an arm's loss against another's. */
typedef enum kvsi_expectation {
    KVSI_LOWER,     /* lower, with p < 0.05 */
    KVSI_NOT_LOWER, /* with 95 % confidence not lower by more than a margin */
} kvsi_expectation;

typedef struct kvsi_loss_claim {
    size_t arm, reference;
    kvsi_expectation expects;
    const char *claim, *paper;
} kvsi_loss_claim;

typedef struct kvsi_text_arm {
    const char *name;
    kvsi_shift_config shift; /* window 0 = 1 */
    double shift_decay;
    int half_rotary; /* rotate only half of each head's channels; the form `hard` needs that */
} kvsi_text_arm;

/* See kvsi_experiment. */
struct kvsi_text_comparison {
    const kvsi_text_arm *arms;
    size_t arm_count;
    const kvsi_loss_claim *claims;
    size_t claim_count;
    size_t size;        /* of the model at the smaller scales: kvsi_scale_text */
    const char *preset; /* of the model at scale paper */
    const char *remark; /* NULL = none */
};

/* Initializes arms and claims from arrays. */
#define KVSI_TEXT_ARMS(list) .arms = (list), .arm_count = sizeof(list) / sizeof *(list)
#define KVSI_LOSS_CLAIMS(list) .claims = (list), .claim_count = sizeof(list) / sizeof *(list)

kvs_status kvsi_plan_text_arms(kvsi_plan *plan, const kvsi_text_comparison *comparison,
                               kvs_err *err);
/* Adds the claims, and a table and charts of all arms against the first. */
void kvsi_conclude_text_arms(kvsi_claims *out, const kvsi_results *results,
                             const kvsi_text_comparison *comparison);

void kvsi_claim_loss(kvsi_claims *out, const kvsi_results *results, const kvsi_loss_claim *claim);
/* Final validation losses of two arms. */
kvsi_paired_test kvsi_compare_losses(const kvsi_results *results, size_t arm, size_t reference);

#endif
