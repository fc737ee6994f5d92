#include "repro/text_arms.h"

#include "repro/curves.h"
#include "repro/scales.h"

#include <math.h>
#include <stdio.h>

static const double MARGIN = 0.02; /* nats; smaller differences count as none */

/* ---- two arms -------------------------------------------------------------------------------- */

kvsi_paired_test kvsi_compare_losses(const kvsi_results *results, size_t arm, size_t reference)
{
    return kvsi_compare(results, arm, reference, kvsi_final_loss).test;
}

static kvsi_outcome judge(const kvsi_paired_test *test, kvsi_expectation expects)
{
    const double half = kvsi_half_interval(&test->difference), mean = test->difference.mean;

    if (expects == KVSI_LOWER)
        return kvsi_sign_outcome(test, -1);
    if (mean - half > -MARGIN) /* false for NaN */
        return KVSI_HOLDS;
    return test->p < 0.05 && mean < -MARGIN ? KVSI_FAILS : KVSI_OPEN;
}

void kvsi_claim_loss(kvsi_claims *out, const kvsi_results *results, const kvsi_loss_claim *c)
{
    const kvsi_paired_test test = kvsi_compare_losses(results, c->arm, c->reference);
    const kvsi_claim claim =
        kvsi_claim_of_test(&test, c->claim, c->paper, "nats a token", judge(&test, c->expects));

    if (isnan(test.p)) /* one seed, or losses that are all equal */
        kvsi_claims_add(out, &claim, KVSI_UNTESTED);
    else if (c->expects == KVSI_LOWER)
        kvsi_claims_add(out, &claim, "lower for %zu of %zu seeds; paired t = %.2f, p = %.3g",
                        test.below, claim.seeds, test.t, test.p);
    else
        kvsi_claims_add(out, &claim,
                        "95 %% interval of the difference ± %.3f; holds if it stays above "
                        "−%.2f; p = %.3g",
                        kvsi_half_interval(&test.difference), MARGIN, test.p);
}

/* ---- many arms ------------------------------------------------------------------------------- */

kvs_status kvsi_plan_text_arms(kvsi_plan *plan, const kvsi_text_comparison *c, kvs_err *err)
{
    for (size_t i = 0; i < c->arm_count; i++) {
        const kvsi_text_arm *arm = c->arms + i;
        kvsi_planned run = {0};

        TRY(kvsi_scale_text(&run, plan, c->size, c->preset, err));
        kvsi_name_arm(&run, "%s", arm->name);
        run.model.shift = arm->shift;
        if (run.model.shift.window == 0)
            run.model.shift.window = 1;
        if (arm->half_rotary)
            run.model.rotary_fraction = 0.5;
        run.train.shift_decay = arm->shift_decay;
        TRY(kvsi_plan_add(plan, &run, err));
    }
    return KVS_OK;
}

static void draw_course(kvsi_claims *out, const kvsi_results *results)
{
    const kvsi_arm_result theirs = kvsi_results_arm(results, 0);
    char caption[256];
    kvsi_chart chart = {.name = "course", .caption = caption};
    kvsi_panel *panel =
        kvsi_chart_panel(&chart, "", "training step", "difference of the loss (nats a token)");
    kvsi_series *zero = kvsi_chart_series(&chart, KVSI_RULE, 0, "");

    snprintf(caption, sizeof caption,
             "Loss on the validation text minus that of '%s' with the same seed, against training "
             "step: mean over the seeds. Below 0 is better.",
             theirs.name);
    panel->key = "outside right top";
    kvsi_series_add(zero, 0, 0, NAN);
    kvsi_series_add(zero, (double)theirs.runs[0].plan->train.steps, 0, NAN);
    for (size_t i = 0; kvsi_results_arm(results, i).count > 0; i++) {
        const kvsi_arm_result arm = kvsi_results_arm(results, i);

        if (i > 0)
            kvsi_curve_of_difference(&chart, i, &arm, &theirs, arm.name);
    }
    kvsi_claims_chart(out, &chart);
}

/* One row per arm: the mean with its error, and a dot per seed. */
static void draw_differences(kvsi_claims *out, const kvsi_results *results)
{
    const kvsi_arm_result theirs = kvsi_results_arm(results, 0);
    char caption[256];
    kvsi_chart chart = {.name = "differences", .caption = caption};
    kvsi_panel *panel =
        kvsi_chart_panel(&chart, "", "difference of the final loss (nats a token)", "");
    kvsi_series *zero = kvsi_chart_series(&chart, KVSI_RULE, 0, "");

    snprintf(caption, sizeof caption,
             "Final validation loss minus that of '%s' with the same seed, so further left is "
             "better: mean over the seeds with its standard error, and every seed as a small dot.",
             theirs.name);
    panel->key = NULL;
    for (size_t i = 0; kvsi_results_arm(results, i).count > 0; i++) {
        const kvsi_arm_result arm = kvsi_results_arm(results, i);
        const double row = (double)panel->row_count;
        kvsi_paired_test test;
        kvsi_series *dots;

        if (i == 0 || panel->row_count == KVSI_ROWS_MAX)
            continue;
        test = kvsi_compare_losses(results, i, 0);
        snprintf(panel->rows[panel->row_count++], sizeof panel->rows[0], "%.63s", arm.name);
        kvsi_series_add(kvsi_chart_series(&chart, KVSI_MARKS, 0, arm.name), test.difference.mean,
                        row, test.difference.error);
        dots = kvsi_chart_series(&chart, KVSI_DOTS, 1, arm.name);
        for (size_t r = 0; r < arm.count; r++)
            kvsi_series_add(dots, kvsi_final_loss(arm.runs + r) - kvsi_final_loss(theirs.runs + r),
                            row + 0.25, NAN);
    }
    kvsi_series_add(zero, 0, -0.6, NAN);
    kvsi_series_add(zero, 0, (double)panel->row_count - 0.4, NAN);
    kvsi_claims_chart(out, &chart);
}

static void tabulate(kvsi_claims *out, const kvsi_results *results)
{
    kvsi_table table = {.left = 1};

    kvsi_table_headings(&table, "arm|parameters|loss|difference|p|lower");
    for (size_t i = 0; kvsi_results_arm(results, i).count > 0; i++) {
        const kvsi_arm_result arm = kvsi_results_arm(results, i);
        const kvsi_paired_test test = kvsi_compare_losses(results, i, 0);
        const kvsi_estimate loss = kvsi_arm_estimate(&arm, kvsi_final_loss);

        kvsi_table_add(&table, "%s", arm.name);
        kvsi_table_add(&table, "%zu", (size_t)arm.runs[0].plan->view.parameters);
        kvsi_table_estimate(&table, &loss, 4, "");
        if (i == 0) {
            kvsi_table_add(&table, "–");
            kvsi_table_add(&table, "–");
            kvsi_table_add(&table, "–");
            continue;
        }
        kvsi_table_estimate(&table, &test.difference, 4, "");
        kvsi_table_p(&table, test.p);
        kvsi_table_add(&table, "%zu of %zu", test.below, test.difference.count);
    }
    kvsi_claims_table(out, "arms",
                      "Final loss in nats a token on the validation text, mean over the seeds ± "
                      "standard error; the difference from the reference within each seed, the p "
                      "of a paired t test, and for how many seeds the arm is lower.",
                      &table);
}

void kvsi_conclude_text_arms(kvsi_claims *out, const kvsi_results *results,
                             const kvsi_text_comparison *c)
{
    if (c->remark)
        kvsi_claims_remark(out, "%s", c->remark);
    for (size_t i = 0; i < c->claim_count; i++)
        kvsi_claim_loss(out, results, c->claims + i);
    draw_differences(out, results);
    draw_course(out, results);
    tabulate(out, results);
}
