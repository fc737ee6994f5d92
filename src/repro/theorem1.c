/* Theorem 1: two ordinary layers approximate an induction head with an error of O(e^-p). */
#include "repro/experiment.h"

#include <math.h>

/* Slopes p of the first layer. */
static const double slopes[] = {1, 2, 3, 4, 6, 8, 10, 12, 14, 16};

enum {
    SLOPES = sizeof slopes / sizeof *slopes,
    STEEP = 5
}; /* from there on the limit is reached */

static const size_t inputs[KVS_SCALES] = {10, 1000, 1000};

static void claim_rate(kvsi_claims *out, const kvs_theorem1_result *r, size_t tried)
{
    double low = INFINITY, high = 0;
    int bounded = 1;

    for (size_t i = 0; i < SLOPES; i++) {
        const double ratio = r[i].error / exp(-slopes[i]);

        bounded &= r[i].error <= r[i].bound;
        if (i >= STEEP) {
            low = fmin(low, ratio);
            high = fmax(high, ratio);
        }
    }
    kvsi_claims_add(out,
                    &(kvsi_claim){.claim = "the error of the two-layer construction is O(e^-p)",
                                  .paper = "O(e^-p)",
                                  .ours = high,
                                  .error = NAN,
                                  .unit = "times e^-p at most, for p ≥ 8",
                                  .seeds = tried,
                                  .outcome = bounded && high < 1.05 * low ? KVSI_HOLDS : KVSI_FAILS,
                                  .exact = 1},
                    "between %.4f and %.4f times e^-p from p = 8 to 16, and below the proof's "
                    "bound everywhere; worst of %zu inputs",
                    low, high, tried);
}

/* The proof's sum ends at s - 1; causal attention ends at s. */
static void claim_itself(kvsi_claims *out, const kvs_theorem1_result *r, size_t tried)
{
    double least = INFINITY;

    for (size_t i = 0; i < SLOPES; i++)
        least = fmin(least, r[i].self_error);
    kvsi_claims_add(
        out,
        &(kvsi_claim){.claim = "the same holds where the first layer attends to itself, as causal "
                               "attention does",
                      .paper = "not said; its first layer leaves the token itself out",
                      .ours = least,
                      .error = NAN,
                      .unit = "error at the least, at any p",
                      .seeds = tried,
                      .outcome = least > 0.1 ? KVSI_FAILS : KVSI_HOLDS,
                      .exact = 1},
        "the copy then goes to the token itself, not to the one before it");
}

static void draw(kvsi_claims *out, const kvs_theorem1_result *r)
{
    kvsi_chart chart = {
        .name = "error",
        .caption = "Largest difference from the induction head in any channel against the slope p "
                   "of the first layer; the error axis is logarithmic.",
    };
    kvsi_panel *panel =
        kvsi_chart_panel(&chart, "", "slope p of the first layer", "largest difference");
    kvsi_series *error = kvsi_chart_series(&chart, KVSI_MARKED, 0, "two layers"),
                *self = kvsi_chart_series(&chart, KVSI_MARKED, 1, "first layer sees itself"),
                *bound = kvsi_chart_series(&chart, KVSI_DASHED, 2, "the proof's bound"),
                *law = kvsi_chart_series(&chart, KVSI_DASHED, 3, "e^-p");

    panel->log_y = 10;
    panel->y_format = "%.0e";
    panel->key = "outside right top";
    for (size_t i = 0; i < SLOPES; i++) {
        kvsi_series_add(error, slopes[i], r[i].error, NAN);
        kvsi_series_add(self, slopes[i], r[i].self_error, NAN);
        kvsi_series_add(bound, slopes[i], r[i].bound, NAN);
        kvsi_series_add(law, slopes[i], exp(-slopes[i]), NAN);
    }
    kvsi_claims_chart(out, &chart);
}

static kvs_status conclude(kvsi_claims *out, const kvsi_results *results, kvs_err *err)
{
    kvs_theorem1_result found[SLOPES];
    kvs_induction_problem problem;

    kvs_induction_problem_init(&problem);
    problem.inputs = inputs[results->plan->scale];
    for (size_t i = 0; i < SLOPES; i++)
        TRY(kvs_theorem1(&found[i], &problem, slopes[i], err));
    claim_rate(out, found, problem.inputs);
    claim_itself(out, found, problem.inputs);
    draw(out, found);
    return kvsi_claims_check(out);
}

const kvsi_experiment kvsi_repro_theorem1 = {
    .about =
        {
            .name = "theorem1",
            .figure = "Theorem 1",
            .claim = "Two ordinary layers of twice the width approximate an induction head with an "
                     "error of O(e^-p).",
            .settings = {"11 tokens of 16 channels, σ 0.1, 10 random inputs",
                         "11 tokens of 16 channels, σ 0.1, 1000 random inputs",
                         "as at desk: the construction has no size"},
            .seeds = {1, 1, 1},
        },
    .conclude = conclude,
};
