/* Fig. 7b: the difference between vanilla and KV shifting over a long training. */
#include "repro/curves.h"
#include "repro/scales.h"
#include "repro/text_arms.h"

#include <math.h>

enum { VANILLA, KV, ARMS, PARTS = 16, NIGHT_STEPS = 14640 };

static const double MARGIN = 0.01; /* nats */

static kvs_status plan(kvsi_plan *p, kvs_err *err)
{
    for (size_t i = 0; i < ARMS; i++) {
        kvsi_planned run = {0};

        TRY(kvsi_scale_text(&run, p, KVSI_TEXT_SMALL, "paper-1.5b", err));
        kvsi_shift_arm(&run, i == KV, run.model.layers);
        kvsi_name_arm(&run, "%s", i == KV ? "KV shifting" : "vanilla");
        run.train.schedule = KVSI_SCHEDULE_CONSTANT; /* as in the paper, for a fair view of steps */
        if (p->scale == KVS_SCALE_DESK)
            run.train.steps *= 4;
        if (p->scale == KVS_SCALE_NIGHT)
            run.train.steps = NIGHT_STEPS;
        if (p->scale != KVS_SCALE_SMOKE) {
            run.train.lr /= 2;
            run.eval_every = run.train.steps / PARTS;
        }
        TRY(kvsi_plan_add(p, &run, err));
    }
    return KVS_OK;
}

/* ---- metrics: the mean of the last quarter's evaluations, and of the second one's ------------- */

static double mean_between(const kvsi_run_result *run, double from, double to)
{
    const double steps = (double)run->plan->train.steps;
    double sum = 0;
    size_t count = 0;

    if (run->diverged)
        return NAN;
    for (size_t i = 0; i < run->log.evaluation_count; i++) {
        const double at = (double)run->log.evaluations[i].step / steps;

        if (at <= from || at > to)
            continue;
        sum += run->log.evaluations[i].loss;
        count++;
    }
    return count > 0 ? sum / (double)count : NAN;
}

static double early(const kvsi_run_result *run)
{
    return mean_between(run, 0.25, 0.5);
}

static double late(const kvsi_run_result *run)
{
    return mean_between(run, 0.75, 1);
}

/* How much lower KV shifting is, per seed. */
static size_t gaps(double out[KVSI_SEEDS_MAX], const kvsi_results *results, kvsi_metric *metric)
{
    const kvsi_arm_result vanilla = kvsi_results_arm(results, VANILLA),
                          kv = kvsi_results_arm(results, KV);
    double theirs[KVSI_SEEDS_MAX];
    const size_t count = kvsi_arm_values(theirs, &vanilla, metric);

    kvsi_arm_values(out, &kv, metric);
    for (size_t i = 0; i < count; i++)
        out[i] = theirs[i] - out[i];
    return count;
}

static kvs_status conclude(kvsi_claims *out, const kvsi_results *results, kvs_err *err)
{
    static const kvsi_loss_claim lower = {
        .arm = KV,
        .reference = VANILLA,
        .expects = KVSI_LOWER,
        .claim = "KV shifting has the lower loss at the end of a long training",
        .paper = "lower"};
    static const kvsi_loss_claim stays = {
        .expects = KVSI_NOT_LOWER,
        .claim = "its lead in the last quarter is no smaller than in the second",
        .paper = "the gap does not shrink"};
    double first[KVSI_SEEDS_MAX], last[KVSI_SEEDS_MAX];
    const size_t count = gaps(first, results, early);
    kvsi_paired_test test;

    (void)err;
    gaps(last, results, late);
    test = kvsi_paired_t(last, first, count);
    kvsi_claim_loss(out, results, &lower);
    kvsi_claim_difference(out, &test, &stays, "nats a token", MARGIN);
    kvsi_draw_losses(out, results, VANILLA, ARMS, "losses",
                     "Strong lines: loss on the validation text, mean over the seeds with its "
                     "standard error; thin ones: single seeds; pale ones: on the training text. "
                     "Below: the difference within each seed.");
    return kvsi_claims_check(out);
}

const kvsi_experiment kvsi_repro_more_tokens = {
    .about =
        {
            .name = "more-tokens",
            .figure = "Fig. 7b",
            .claim = "With more training tokens the lead of KV shifting does not shrink.",
            .settings =
                {KVSI_SMOKE_TEXT,
                 "0.3 million parameters, 13 million tokens, vocabulary 1024, windows of 256 "
                 "tokens, constant rate 1e-3",
                 "the paper's 1.5B model, batch, rate and 10 billion tokens; the text is not the "
                 "paper's, which is not public",
                 "0.5 million parameters, 60 million tokens (0.7 epochs), vocabulary 1024, windows "
                 "of 256 tokens, constant rate 1e-3"},
            .seeds = {1, 3, 1, 5},
            .learns_text = 1,
        },
    .plan = plan,
    .conclude = conclude,
};
