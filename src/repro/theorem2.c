/* Theorem 2: one layer of KV shifting attention is an induction head, if two keys are masked. */
#include "repro/experiment.h"

#include <math.h>

static const double sigmas[] = {1, 0.7, 0.5, 0.3, 0.2, 0.15, 0.1, 0.07, 0.05, 0.03};

enum { SIGMAS = sizeof sigmas / sizeof *sigmas, TENTH = 6 };

static const size_t inputs[KVS_SCALES] = {10, 1000, 1000};

static void claim(kvsi_claims *out, const kvs_theorem2_result *r, size_t tried)
{
    double masked = 0, repeated = INFINITY, network = 0;

    for (size_t i = 0; i < SIGMAS; i++) {
        masked = fmax(masked, r[i].masked);
        network = fmax(network, r[i].network);
        if (i >= TENTH)
            repeated = fmin(repeated, r[i].repeated);
    }
    kvsi_claims_add(out,
                    &(kvsi_claim){.claim = "one layer of KV shifting attention is an induction "
                                           "head, with the first and the last key masked out",
                                  .paper = "equal",
                                  .ours = masked,
                                  .error = NAN,
                                  .unit = "largest difference",
                                  .seeds = tried,
                                  .outcome = masked < 1e-14 ? KVSI_HOLDS : KVSI_FAILS,
                                  .exact = 1},
                    "worst of %zu random inputs at each σ", tried);
    kvsi_claims_add(
        out,
        &(kvsi_claim){.claim = "it is one as printed, with all keys",
                      .paper = "equal",
                      .ours = r[TENTH].printed,
                      .error = NAN,
                      .unit = "largest difference at σ = 0.1",
                      .seeds = 1,
                      .outcome = r[TENTH].printed < 1e-14 ? KVSI_HOLDS : KVSI_FAILS,
                      .exact = 1},
        "the theorem's sum lacks the first and the last key, attention has them: about 2 e^(-1/σ)");
    kvsi_claims_add(out,
                    &(kvsi_claim){.claim = "the same where the last two tokens are equal",
                                  .paper = "equal",
                                  .ours = repeated,
                                  .error = NAN,
                                  .unit = "difference at the least, for σ ≤ 0.1",
                                  .seeds = 1,
                                  .outcome = repeated < 1e-14 ? KVSI_HOLDS : KVSI_FAILS,
                                  .exact = 1},
                    "the last key then matches as well as the right one, at any σ");
    kvsi_claims_remark(out,
                       "The construction as a model of this library, with identity weights, "
                       "differs from the formula by %.1e at most, the rounding of float32.",
                       network);
}

static void draw(kvsi_claims *out, const kvs_theorem2_result *r)
{
    kvsi_chart chart = {
        .name = "gap",
        .caption = "Largest difference from the induction head in any channel against σ, for an "
                   "input of tokens at right angles one of which comes twice; both axes are "
                   "logarithmic. With the two keys masked the difference is 0.",
    };
    kvsi_panel *panel = kvsi_chart_panel(&chart, "", "σ", "largest difference");
    kvsi_series *printed = kvsi_chart_series(&chart, KVSI_MARKED, 0, "as printed"),
                *repeated = kvsi_chart_series(&chart, KVSI_MARKED, 1, "last two tokens equal"),
                *law = kvsi_chart_series(&chart, KVSI_DASHED, 2, "2 e^(-1/σ)");

    panel->log_x = panel->log_y = 10;
    panel->y_format = "%.0e";
    panel->key = "outside right top";
    for (size_t i = 0; i < SIGMAS; i++) {
        kvsi_series_add(printed, sigmas[i], r[i].printed, NAN);
        kvsi_series_add(repeated, sigmas[i], r[i].repeated, NAN);
        kvsi_series_add(law, sigmas[i], 2 * exp(-1 / sigmas[i]), NAN);
    }
    kvsi_claims_chart(out, &chart);
}

static kvs_status conclude(kvsi_claims *out, const kvsi_results *results, kvs_err *err)
{
    kvs_theorem2_result found[SIGMAS];
    kvs_induction_problem problem;

    kvs_induction_problem_init(&problem);
    problem.inputs = inputs[results->plan->scale];
    for (size_t i = 0; i < SIGMAS; i++) {
        problem.sigma = sigmas[i];
        TRY(kvs_theorem2(&found[i], results->rt, &problem, err));
    }
    claim(out, found, problem.inputs);
    draw(out, found);
    return kvsi_claims_check(out);
}

const kvsi_experiment kvsi_repro_theorem2 = {
    .about =
        {
            .name = "theorem2",
            .figure = "Theorem 2",
            .claim = "One layer of KV shifting attention, no wider than the tokens, is exactly an "
                     "induction head.",
            .settings = {"11 tokens, ten σ from 1 to 0.03, 10 random inputs",
                         "11 tokens, ten σ from 1 to 0.03, 1000 random inputs",
                         "as at desk: the construction has no size"},
            .seeds = {1, 1, 1},
        },
    .conclude = conclude,
};
