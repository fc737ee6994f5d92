/* Table 4: the shift coefficients of a trained model. */
#include "repro/heads.h"
#include "repro/scales.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

enum { LOOKS = 8 }; /* models measured during training */

static kvs_status plan(kvsi_plan *p, kvs_err *err)
{
    kvsi_planned run = {.keeps_checkpoints = 1};

    TRY(kvsi_scale_text(&run, p, KVSI_TEXT_SIZES - 1, "paper-2.9b", err));
    if (p->scale == KVS_SCALE_DESK) {
        run.model.layers = 6;
        run.train.warmup = 30;
    }
    run.eval_every = run.train.steps / LOOKS;
    run.model.shift.targets = KVS_SHIFT_K | KVS_SHIFT_V;
    kvsi_name_arm(&run, "KV shifting");
    return kvsi_plan_add(p, &run, err);
}

/* ---- metrics --------------------------------------------------------------------------------- */

static const char *const class_names[KVS_HEAD_KINDS] = {"α1 > α2, β1 > β2", "α1 ≤ α2, β1 > β2",
                                                        "α1 > α2, β1 ≤ β2", "α1 ≤ α2, β1 ≤ β2"};
static const double paper_counts[KVS_HEAD_KINDS] = {50, 17, 9, 52}; /* of 128 */

static kvsi_head_tally last_look(const kvsi_run_result *run)
{
    const size_t looks = kvsi_heads_looks(run);

    return looks > 0 ? kvsi_heads_tally(run, looks - 1) : (kvsi_head_tally){0};
}

static double same_side(const kvsi_run_result *run)
{
    const kvsi_head_tally t = last_look(run);

    return t.share[KVS_KEYS_CURRENT_VALUES_CURRENT] + t.share[KVS_KEYS_PREVIOUS_VALUES_PREVIOUS];
}

static double keys_over_values(const kvsi_run_result *run)
{
    const kvsi_head_tally t = last_look(run);

    return t.share[KVS_KEYS_PREVIOUS_VALUES_CURRENT] - t.share[KVS_KEYS_CURRENT_VALUES_PREVIOUS];
}

static double away(const kvsi_run_result *run)
{
    return last_look(run).away;
}

static double negative(const kvsi_run_result *run)
{
    return last_look(run).negative;
}

/* ---- conclusions ----------------------------------------------------------------------------- */

/* Claims that a metric is above a bound, with 95 % confidence. */
static void claim_above(kvsi_claims *out, const kvsi_arm_result *arm, kvsi_metric *read,
                        double bound, kvsi_claim found)
{
    const kvsi_estimate e = kvsi_arm_estimate(arm, read);
    const double half = kvsi_half_interval(&e);

    found.ours = e.mean;
    found.error = e.error;
    found.seeds = e.count;
    found.outcome = e.mean - half > bound   ? KVSI_HOLDS
                    : e.mean + half < bound ? KVSI_FAILS
                                            : KVSI_OPEN;
    kvsi_claims_add_test(out, &found, "95 %% interval ± %.3g; holds if it is above %g", half,
                         bound);
}

static void claim(kvsi_claims *out, const kvsi_arm_result *arm)
{
    claim_above(out, arm, same_side, 50,
                (kvsi_claim){.claim = "most heads take key and value of the same token: both "
                                      "current, or both previous",
                             .paper = "80 % (102 of 128 heads)",
                             .unit = "% of the heads"});
    claim_above(out, arm, keys_over_values, 0,
                (kvsi_claim){.claim = "keys of the previous token with values of the current one "
                                      "(induction) are more frequent than the reverse",
                             .paper = "6 points (17 against 9 of 128 heads)",
                             .unit = "percentage points"});
    claim_above(out, arm, away, 0.02,
                (kvsi_claim){.claim = "the sums of a head's numbers leave 1, where they began",
                             .paper = "away from 1",
                             .unit = "mean distance from 1"});
    claim_above(out, arm, negative, 0,
                (kvsi_claim){.claim = "some numbers become negative",
                             .paper = "some",
                             .unit = "% of the numbers"});
}

static void tabulate(kvsi_claims *out, const kvsi_arm_result *arm)
{
    kvsi_table table = {.columns = 3, .left = 1};

    kvsi_table_add(&table, "heads with");
    kvsi_table_add(&table, "paper, 2.9B");
    kvsi_table_add(&table, "here, of %zu", last_look(arm->runs).heads);
    for (size_t c = 0; c < KVS_HEAD_KINDS; c++) {
        double shares[KVSI_SEEDS_MAX];
        kvsi_estimate share;

        for (size_t r = 0; r < arm->count; r++)
            shares[r] = last_look(arm->runs + r).share[c];
        share = kvsi_estimate_of(shares, arm->count);
        kvsi_table_add(&table, "%s", class_names[c]);
        kvsi_table_add(&table, "%.0f of 128 (%.1f %%)", paper_counts[c], paper_counts[c] / 1.28);
        kvsi_table_estimate(&table, &share, 1, " %");
    }
    kvsi_claims_table(out, "classes",
                      "Heads by whether the current or the previous token weighs more, in keys "
                      "and in values; mean over the seeds ± standard error.",
                      &table);
}

/* A field of kvsi_head_tally, at `offset`, against step: mean over the seeds. */
static void add_course(kvsi_chart *chart, size_t colour, const char *label,
                       const kvsi_arm_result *arm, size_t offset, int bars)
{
    kvsi_series *series = kvsi_chart_series(chart, KVSI_MARKED, colour, label);

    for (size_t i = 0; i < kvsi_heads_looks(arm->runs); i++) {
        double values[KVSI_SEEDS_MAX];
        uint64_t step = 0;
        kvsi_estimate e;

        for (size_t r = 0; r < arm->count; r++) {
            const kvsi_head_tally t = kvsi_heads_tally(arm->runs + r, i);

            memcpy(values + r, (const char *)&t + offset, sizeof *values);
            step = t.step;
        }
        e = kvsi_estimate_of(values, arm->count);
        kvsi_series_add(series, (double)step, e.mean, bars ? e.error : NAN);
    }
}

static void draw_classes(kvsi_claims *out, const kvsi_arm_result *arm)
{
    kvsi_chart chart = {
        .name = "classes-course",
        .caption = "Heads of each class over the training, mean over the seeds.",
    };
    kvsi_panel *panel = kvsi_chart_panel(&chart, "", "training step", "share of the heads");

    panel->y_low = 0;
    panel->y_format = "%g %%";
    panel->key = "outside right top";
    for (size_t c = 0; c < KVS_HEAD_KINDS; c++)
        add_course(&chart, c, class_names[c], arm,
                   offsetof(kvsi_head_tally, share) + c * sizeof(double), 0);
    kvsi_claims_chart(out, &chart);
}

static void draw_sums(kvsi_claims *out, const kvsi_arm_result *arm)
{
    kvsi_chart chart = {
        .name = "sums-course",
        .caption = "Over the training, mean over the seeds with its standard error. Left: the sum "
                   "of a head's two numbers, mean over the heads. Right: how many of all numbers "
                   "are below 0.",
    };
    kvsi_panel *panel = kvsi_chart_panel(&chart, "", "training step", "mean sum");

    panel->key = "inside center right";
    add_course(&chart, 0, "α1 + α2 (keys)", arm, offsetof(kvsi_head_tally, key_sum), 1);
    add_course(&chart, 1, "β1 + β2 (values)", arm, offsetof(kvsi_head_tally, value_sum), 1);
    panel = kvsi_chart_panel(&chart, "", "training step", "numbers below 0");
    panel->y_low = 0;
    panel->y_format = "%g %%";
    panel->key = NULL;
    add_course(&chart, 4, "negative", arm, offsetof(kvsi_head_tally, negative), 1);
    kvsi_claims_chart(out, &chart);
}

/* Lines where current and previous token have equal weight. */
static void add_cross(kvsi_chart *chart)
{
    kvsi_series *keys = kvsi_chart_series(chart, KVSI_RULE, 0, ""),
                *values = kvsi_chart_series(chart, KVSI_RULE, 0, "");

    kvsi_series_add(keys, 0, -1, NAN);
    kvsi_series_add(keys, 0, 1, NAN);
    kvsi_series_add(values, -1, 0, NAN);
    kvsi_series_add(values, 1, 0, NAN);
}

static void draw_heads(kvsi_claims *out, const kvsi_arm_result *arm)
{
    kvsi_chart chart = {
        .name = "heads",
        .caption = "Every head of every seed at the end: how much more the current token weighs "
                   "than the previous one, in keys and in values. Right above: an ordinary head; "
                   "left above: an induction head; left below: an ordinary head whose labels are "
                   "off by one.",
    };
    kvsi_panel *panel = kvsi_chart_panel(&chart, "", "keys: α1 − α2", "values: β1 − β2");

    panel->key = arm->count > 1 ? "outside right top" : NULL;
    add_cross(&chart);
    for (size_t r = 0; r < arm->count; r++) {
        const json_t *heads = kvsi_heads_at(arm->runs + r, kvsi_heads_looks(arm->runs + r) - 1);
        char label[32];
        kvsi_series *series;

        snprintf(label, sizeof label, "seed %zu", r + 1);
        series = kvsi_chart_series(&chart, KVSI_MARKS, r, label);
        for (size_t i = 0; i < json_array_size(heads); i++) {
            const kvs_coefficients c = kvsi_head_coefficients(json_array_get(heads, i));

            kvsi_series_add(series, c.alpha1 - c.alpha2, c.beta1 - c.beta2, NAN);
        }
    }
    kvsi_claims_chart(out, &chart);
}

static kvs_status conclude(kvsi_claims *out, const kvsi_results *results, kvs_err *err)
{
    const kvsi_arm_result arm = kvsi_results_arm(results, 0);

    for (size_t r = 0; r < arm.count; r++)
        if (kvsi_heads_looks(arm.runs + r) != kvsi_heads_looks(arm.runs) ||
            kvsi_heads_looks(arm.runs) == 0)
            return kvsi_fail(
                err, KVS_E_FORMAT, "'%s' has %zu measured models, expected %zu and at least 1",
                arm.runs[r].dir, kvsi_heads_looks(arm.runs + r), kvsi_heads_looks(arm.runs));
    claim(out, &arm);
    tabulate(out, &arm);
    draw_classes(out, &arm);
    draw_sums(out, &arm);
    draw_heads(out, &arm);
    return kvsi_claims_check(out);
}

const kvsi_experiment kvsi_repro_coefficients = {
    .about =
        {
            .name = "coefficients",
            .figure = "Table 4",
            .claim = "In a trained model most heads weigh keys and values alike: both more for the "
                     "current token, or both for the previous one; sums leave 1, and some numbers "
                     "become negative.",
            .settings =
                {KVSI_SMOKE_TEXT,
                 "1.5 million parameters with 24 KV heads instead of 2.9 billion with 128, 3.3 "
                 "million tokens instead of 500 billion, vocabulary 1024, windows of 256 tokens; "
                 "several seeds instead of one",
                 "the paper's 2.9B model with 128 KV heads, batch, rate and 500 billion tokens; "
                 "the text is not the paper's, which is not public"},
            .seeds = {1, 5, 1},
            .learns_text = 1,
        },
    .plan = plan,
    .measure = kvsi_heads_measure,
    .conclude = conclude,
};
