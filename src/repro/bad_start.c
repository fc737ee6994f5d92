/* A single head that starts in the corner opposite to the induction head, and what helps. */
#include "repro/curves.h"
#include "repro/scales.h"

#include <math.h>

enum { UNIFORM, OPPOSITE, FASTER, BETWEEN, ARMS };

enum { WIDTH = 16 };

typedef struct start {
    const char *name;
    int has_start;
    double alpha1, beta1;
    double shift_rate; /* times the rate of the other weights */
} start;

/* The induction head is α1 = 0, β1 = 1. */
static const start starts[ARMS] = {
    [UNIFORM] = {"uniform init", 0, 0, 0, 1},
    [OPPOSITE] = {"opposite corner", 1, 0.99, 0.05, 1},
    [FASTER] = {"opposite corner, shift 10 times as fast", 1, 0.99, 0.05, 10},
    [BETWEEN] = {"init at α1 = 0.25, β1 = 0.75", 1, 0.25, 0.75, 1},
};

static const uint64_t steps[KVS_SCALES] = {16, 2500, 20000, 2500};

static kvs_status plan(kvsi_plan *p, kvs_err *err)
{
    for (size_t i = 0; i < ARMS; i++) {
        kvsi_planned run = {.has_start = starts[i].has_start};

        kvsi_scale_induction(&run, p->scale);
        kvsi_shift_arm(&run, 1, 1);
        kvsi_name_arm(&run, "%s", starts[i].name);
        run.start = kvs_square(starts[i].alpha1, starts[i].beta1);
        run.model.dim = WIDTH;
        run.model.heads = 1;
        run.train.steps = steps[p->scale];
        run.train.shift_lr = starts[i].shift_rate > 1 ? starts[i].shift_rate * run.train.lr : 0;
        TRY(kvsi_plan_add(p, &run, err));
    }
    return KVS_OK;
}

static const double MARGIN = 5; /* percentage points */

static void claim_sign(kvsi_claims *out, const kvsi_results *results, size_t a, size_t b, int sign,
                       const char *words)
{
    const kvsi_comparison c = kvsi_compare(results, a, b, kvsi_final_accuracy);
    const kvsi_claim claim = kvsi_claim_of_test(&c.test, words, "not tried", "percentage points",
                                                kvsi_sign_outcome(&c.test, sign));

    kvsi_claims_add_test(out, &claim, "%.1f %% against %.1f %%; paired t, p = %.3g", c.ours,
                         c.theirs, c.test.p);
}

static void claim_init(kvsi_claims *out, const kvsi_results *results)
{
    const kvsi_comparison c = kvsi_compare(results, BETWEEN, UNIFORM, kvsi_final_accuracy);
    const double half = kvsi_half_interval(&c.test.difference), mean = c.test.difference.mean;
    kvsi_claim claim =
        kvsi_claim_of_test(&c.test, "an init between the corners is no worse than the uniform one",
                           "not tried", "percentage points",
                           mean - half > -MARGIN                      ? KVSI_HOLDS
                           : c.test.p < 0.05 && mean + half < -MARGIN ? KVSI_FAILS
                                                                      : KVSI_OPEN);

    claim.margin = MARGIN;
    kvsi_claims_add_test(
        out, &claim,
        "%.1f %% against %.1f %%; holds if the 95 %% interval (± %.1f) stays above "
        "−%.0f points",
        c.ours, c.theirs, half, MARGIN);
}

static void draw(kvsi_claims *out, const kvsi_results *results)
{
    kvsi_chart chart = {
        .name = "accuracy",
        .caption = "Share of right answers on fresh sequences against training step: mean of the "
                   "last 20 batches, then over the seeds, with the standard error. The step axis "
                   "is logarithmic.",
    };

    kvsi_panel_of_accuracy(&chart, "", "accuracy");
    for (size_t i = 0; i < ARMS; i++) {
        const kvsi_arm_result arm = kvsi_results_arm(results, i);

        kvsi_accuracy_of_arm(&chart, i, &arm, arm.name);
    }
    kvsi_claims_chart(out, &chart);
}

/* The seeds of each arm that reach 98 %. */
static void tabulate(kvsi_claims *out, const kvsi_results *results)
{
    kvsi_table table = {.left = 1};

    kvsi_table_headings(&table, "start|accuracy|seeds at 98 %");
    for (size_t i = 0; i < ARMS; i++) {
        const kvsi_arm_result arm = kvsi_results_arm(results, i);
        const kvsi_estimate accuracy = kvsi_arm_estimate(&arm, kvsi_final_accuracy);
        size_t learned = 0;

        for (size_t r = 0; r < arm.count; r++)
            learned += kvsi_final_accuracy(arm.runs + r) >= 98;
        kvsi_table_add(&table, "%s", arm.name);
        kvsi_table_estimate(&table, &accuracy, 1, " %");
        kvsi_table_add(&table, "%zu of %zu", learned, arm.count);
    }
    kvsi_claims_table(out, "starts",
                      "Share of right answers at the end, mean over the seeds ± standard error.",
                      &table);
}

static kvs_status conclude(kvsi_claims *out, const kvsi_results *results, kvs_err *err)
{
    (void)err;
    claim_sign(out, results, OPPOSITE, UNIFORM, -1,
               "a head that starts in the opposite corner learns induction less well");
    claim_sign(out, results, FASTER, OPPOSITE, 1,
               "from there a higher rate of the shift's numbers helps");
    claim_init(out, results);
    draw(out, results);
    tabulate(out, results);
    return kvsi_claims_check(out);
}

const kvsi_experiment kvsi_repro_bad_start = {
    .about =
        {
            .name = "bad-start",
            .figure = "not in the paper",
            .claim =
                "A single head that starts with keys of the token itself and values of the "
                "previous one may never learn induction; a higher rate of the shift's numbers, "
                "or another init, avoids that.",
            .settings =
                {"width 16, 16 steps of 32 sequences: shows that everything works and nothing else",
                 "one head of width 16, vocabulary 256, pool 64, 2500 steps of 256 sequences, rate "
                 "2e-3",
                 "one head of width 16, vocabulary 8000, pool 512, 20000 steps of 4096 sequences",
                 "as at desk, with more seeds"},
            .seeds = {2, 5, 3, 10},
        },
    .plan = plan,
    .conclude = conclude,
};
