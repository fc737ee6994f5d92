/* Fig. 5b and 5c: losses and diverged runs at learning rates up to divergence. */
#include "config/config.h"
#include "repro/curves.h"
#include "repro/scales.h"
#include "repro/text_arms.h"

#include <math.h>
#include <stdio.h>

enum { RATES_MAX = 6 };

/* Each list ends with 0. */
static const double rates[KVS_SCALES][RATES_MAX + 1] = {
    {1e-3, 1e-1},
    {1e-3, 1e-2, 3e-2, 1e-1, 3e-1, 1},
    {1e-4, 2e-4, 1e-3, 1e-2},
};

static kvs_status plan(kvsi_plan *p, kvs_err *err)
{
    for (size_t r = 0; rates[p->scale][r] > 0; r++)
        for (int shifted = 0; shifted <= 1; shifted++) {
            kvsi_planned run = {.value = rates[p->scale][r]};

            TRY(kvsi_scale_text(&run, p, KVSI_TEXT_SMALL, "paper-1.5b", err));
            run.train.schedule = KVSI_SCHEDULE_CONSTANT;
            run.train.lr = run.value;
            if (p->scale == KVS_SCALE_DESK) {
                run.train.steps = 300; /* runs that diverge do so early */
                run.train.warmup = 30;
            }
            run.eval_every = 0;
            kvsi_shift_arm(&run, shifted, run.model.layers);
            kvsi_name_arm(&run, "%s, rate %g", shifted ? "KV shifting" : "vanilla", run.value);
            TRY(kvsi_plan_add(p, &run, err));
        }
    return KVS_OK;
}

/* ---- metrics --------------------------------------------------------------------------------- */

enum { TENTHS = 10 };

static double mean_loss(const kvsi_run *log, size_t from, size_t to)
{
    double sum = 0;

    for (size_t i = from; i < to; i++)
        sum += log->points[i].loss;
    return sum / (double)(to - from);
}

/* 1 if the loss became NaN or infinite; if it rose: its mean over the last tenth of the training is
 * half a nat above that of an earlier tenth; or if it never fell by half a nat. */
static double has_diverged(const kvsi_run_result *run)
{
    const kvsi_run *log = &run->log;
    const size_t count = log->point_count;
    double lowest = INFINITY, last = INFINITY;

    if (run->diverged || count < TENTHS)
        return run->diverged != 0;
    for (size_t t = 0; t < TENTHS; t++) {
        last = mean_loss(log, t * count / TENTHS, (t + 1) * count / TENTHS);
        lowest = fmin(lowest, last);
    }
    return last > lowest + 0.5 || last > log->points[0].loss - 0.5;
}

/* Mean training loss over the last tenth; NaN if the run diverged. */
static double last_loss(const kvsi_run_result *run)
{
    const size_t count = run->log.point_count;

    if (has_diverged(run) != 0)
        return NAN;
    return mean_loss(&run->log, count - count / TENTHS - 1, count);
}

static size_t count_diverged(const kvsi_arm_result *arm)
{
    return (size_t)lround(kvsi_arm_estimate(arm, has_diverged).mean * (double)arm->count);
}

/* ---- conclusions ----------------------------------------------------------------------------- */

/* Arms 2r and 2r + 1 have rate number r. */
static void claim_rate(kvsi_claims *out, const kvsi_results *results, size_t r)
{
    const kvsi_paired_test test = kvsi_compare(results, 2 * r + 1, 2 * r, last_loss).test;
    kvsi_claim claim;
    char words[96];

    snprintf(words, sizeof words, "at rate %g the loss is lower with KV shifting",
             rates[results->plan->scale][r]);
    claim = kvsi_claim_of_test(&test, words, "lower", "nats a token", kvsi_sign_outcome(&test, -1));
    if (claim.seeds == 0)
        kvsi_claims_add(out, &claim, "for every seed one of the two diverged");
    else
        kvsi_claims_add_test(
            out, &claim,
            "lower for %zu of the %zu seeds for which neither diverged; paired t, p = %.3g",
            test.below, claim.seeds, test.p);
}

/* Counts diverged runs without and with the shift, over all rates. */
static void claim_divergence(kvsi_claims *out, const kvsi_results *results)
{
    size_t vanilla = 0, kv = 0, r = 0;

    for (; rates[results->plan->scale][r] > 0; r++) {
        const kvsi_arm_result a = kvsi_results_arm(results, 2 * r),
                              b = kvsi_results_arm(results, 2 * r + 1);

        vanilla += count_diverged(&a);
        kv += count_diverged(&b);
    }
    kvsi_claims_add(
        out,
        &(kvsi_claim){.claim = "vanilla diverges where KV shifting does not",
                      .paper = "at rate 1e-2: 5 of 5 against 0 of 5",
                      .ours = (double)vanilla - (double)kv,
                      .error = NAN,
                      .unit = "more runs of vanilla diverge",
                      .seeds = results->plan->seeds,
                      .outcome = vanilla > kv + 1   ? KVSI_HOLDS
                                 : kv > vanilla + 1 ? KVSI_FAILS
                                                    : KVSI_OPEN},
        "%zu of %zu vanilla runs and %zu of %zu with KV shifting diverged; one run more or less "
        "decides nothing",
        vanilla, r * results->plan->seeds, kv, r * results->plan->seeds);
}

static void draw_rates(kvsi_claims *out, const kvsi_results *results)
{
    static const char *const labels[] = {"vanilla", "KV shifting"};
    kvsi_chart chart = {
        .name = "rates",
        .caption = "Left: mean training loss over the last tenth of the training against learning "
                   "rate (logarithmic), over the seeds that did not diverge, with the standard "
                   "error. Right: how many runs diverged.",
    };

    for (size_t p = 0; p < 2; p++) {
        kvsi_panel *panel =
            kvsi_chart_panel(&chart, "", "learning rate",
                             p == 0 ? "training loss (nats a token)" : "runs that diverged");

        panel->log_x = 10;
        panel->x_format = "%g";
        panel->key = p == 0 ? "inside top center" : NULL;
        panel->y_step = p == 0 ? 0 : 1;
        panel->y_low = p == 0 ? NAN : 0;
        panel->y_high = p == 0 ? NAN : (double)results->plan->seeds * 1.05;
        for (size_t shifted = 0; shifted < 2; shifted++) {
            kvsi_series *s = kvsi_chart_series(&chart, KVSI_MARKED, shifted, labels[shifted]);

            for (size_t r = 0; rates[results->plan->scale][r] > 0; r++) {
                const kvsi_arm_result arm = kvsi_results_arm(results, 2 * r + shifted);
                double losses[KVSI_SEEDS_MAX];
                const size_t count = kvsi_arm_finite_values(losses, &arm, last_loss);
                const kvsi_estimate loss = kvsi_estimate_of(losses, count);

                if (p == 0)
                    kvsi_series_add(s, rates[results->plan->scale][r], loss.mean, loss.error);
                else
                    kvsi_series_add(s, rates[results->plan->scale][r], (double)count_diverged(&arm),
                                    NAN);
            }
        }
    }
    kvsi_claims_chart(out, &chart);
}

/* The highest rate, as in the paper. */
static void draw_highest(kvsi_claims *out, const kvsi_results *results)
{
    char caption[160];
    kvsi_chart chart = {.name = "highest-rate", .caption = caption};
    kvsi_panel *panel =
        kvsi_chart_panel(&chart, "", "training step", "training loss (nats a token)");
    size_t last = 0;

    while (rates[results->plan->scale][last + 1] > 0)
        last++;
    snprintf(caption, sizeof caption,
             "Training loss at the highest rate, %g: means over a twentieth of the run, of single "
             "seeds (thin) and of all.",
             rates[results->plan->scale][last]);
    panel->key = "inside top right";
    for (size_t shifted = 0; shifted < 2; shifted++) {
        const kvsi_arm_result arm = kvsi_results_arm(results, 2 * last + shifted);

        kvsi_curves_of_training(&chart, shifted, &arm, shifted ? "KV shifting" : "vanilla");
    }
    kvsi_claims_chart(out, &chart);
}

static kvs_status conclude(kvsi_claims *out, const kvsi_results *results, kvs_err *err)
{
    (void)err;
    claim_divergence(out, results);
    for (size_t r = 0; rates[results->plan->scale][r] > 0; r++)
        claim_rate(out, results, r);
    draw_rates(out, results);
    draw_highest(out, results);
    kvsi_claims_remark(out, "A run counts as diverged if its loss stopped being a number, if its "
                            "mean over the last tenth of the training is 0.5 nats above that of an "
                            "earlier tenth, or if it never fell by 0.5 nats.");
    return kvsi_claims_check(out);
}

const kvsi_experiment kvsi_repro_learning_rates = {
    .about =
        {
            .name = "learning-rates",
            .figure = "Fig. 5b, 5c",
            .claim = "KV shifting has the lower loss at every learning rate, and still converges "
                     "at a rate at which vanilla attention diverges.",
            .settings =
                {"a tiny model, 8 steps on a made-up language at two rates: shows that everything "
                 "works and nothing else",
                 "0.3 million parameters instead of 1.5 billion, 1.2 million tokens instead of 10 "
                 "billion; rates 1e-3 to 1 instead of 1e-4 to 1e-2, since small models bear more; "
                 "constant after a warm-up, as in the paper",
                 "the paper's 1.5B model, batch and 10 billion tokens at its four rates, with five "
                 "seeds each; the text is not the paper's, which is not public"},
            .seeds = {1, 3, 5},
            .learns_text = 1,
        },
    .plan = plan,
    .conclude = conclude,
};
