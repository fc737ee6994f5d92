/* Fig. 1b: induction at small widths. */
#include "repro/curves.h"
#include "repro/heads.h"
#include "repro/scales.h"

#include <stdio.h>

enum { WIDTHS_MAX = 6 };

typedef struct size {
    size_t widths[WIDTHS_MAX]; /* ends with 0 */
    uint64_t steps;
} size;

static const size sizes[KVS_SCALES] = {
    {{8, 16}, 16}, {{8, 16, 32, 64}, 2500}, {{8, 16, 32, 64, 128}, 20000}};

/* One head up to width 32, then heads of 32 channels. */
static size_t heads_of(size_t width)
{
    return width <= 32 ? 1 : width / 32;
}

static kvs_status plan(kvsi_plan *p, kvs_err *err)
{
    const size *s = sizes + p->scale;
    kvs_status st = KVS_OK;

    for (size_t w = 0; w < WIDTHS_MAX && s->widths[w] > 0; w++)
        for (int shifted = 1; st == KVS_OK && shifted >= 0; shifted--) {
            kvsi_planned run = {0};

            kvsi_scale_induction(&run, p->scale);
            kvsi_shift_arm(&run, shifted, shifted ? 1 : 2);
            kvsi_name_arm(&run, "%s, width %zu",
                          shifted ? "KV shifting, 1 layer" : "vanilla, 2 layers", s->widths[w]);
            run.value = (double)s->widths[w];
            run.model.dim = s->widths[w];
            run.model.heads = heads_of(s->widths[w]);
            run.train.steps = s->steps;
            st = kvsi_plan_add(p, &run, err);
        }
    return st;
}

/* The shift coefficients at the start and the end: a single head may converge to the wrong side. */
static kvs_status measure(json_t **out, const kvsi_finished *run, kvs_err *err)
{
    if (run->plan->model.shift.targets == 0) {
        *out = json_object();
        return KVS_OK;
    }
    return kvsi_heads_measure(out, run, err);
}

/* ---- conclusions ----------------------------------------------------------------------------- */

/* Arms 2w and 2w + 1 are the two models of width w. */
static void claim(kvsi_claims *out, const kvsi_results *results, size_t w)
{
    const kvsi_comparison c = kvsi_compare(results, 2 * w, 2 * w + 1, kvsi_final_accuracy);
    kvsi_claim claim;
    char words[128];

    snprintf(words, sizeof words,
             "at width %.0f one layer with KV shifting is ahead of two vanilla layers",
             kvsi_results_arm(results, 2 * w).runs[0].plan->value);
    claim = kvsi_claim_of_test(&c.test, words, w == 0 ? "ahead, clearly" : "ahead",
                               "percentage points", kvsi_sign_outcome(&c.test, 1));
    kvsi_claims_add_test(out, &claim, "%.1f %% against %.1f %%, p = %.3g", c.ours, c.theirs,
                         c.test.p);
}

static void draw_widths(kvsi_claims *out, const kvsi_results *results)
{
    static const char *const labels[] = {"KV shifting, 1 layer", "vanilla, 2 layers"};
    kvsi_chart chart = {
        .name = "accuracy-by-width",
        .caption = "Share of right answers of the trained models on fresh sequences against hidden "
                   "size (logarithmic), mean over the seeds with its standard error.",
    };
    kvsi_panel *panel = kvsi_chart_panel(&chart, "", "hidden size", "accuracy after training");

    panel->log_x = 2;
    panel->y_low = 0;
    panel->y_high = 102;
    panel->y_format = "%g %%";
    for (size_t shift = 0; shift < 2; shift++) {
        kvsi_series *series = kvsi_chart_series(&chart, KVSI_MARKED, shift, labels[shift]);

        for (size_t a = shift; kvsi_results_arm(results, a).count > 0; a += 2) {
            const kvsi_arm_result arm = kvsi_results_arm(results, a);
            const kvsi_estimate accuracy = kvsi_arm_estimate(&arm, kvsi_final_accuracy);

            kvsi_series_add(series, arm.runs[0].plan->value, accuracy.mean, accuracy.error);
        }
    }
    kvsi_claims_chart(out, &chart);
}

static void draw_narrowest(kvsi_claims *out, const kvsi_results *results)
{
    kvsi_chart chart = {
        .name = "accuracy-narrowest",
        .caption = "The narrowest models while they learn: mean of the last 20 batches, then over "
                   "the seeds, with the standard error. The step axis is logarithmic.",
    };
    kvsi_panel_of_accuracy(&chart, "", "accuracy");
    for (size_t i = 0; i < 2; i++) {
        const kvsi_arm_result arm = kvsi_results_arm(results, i);

        kvsi_accuracy_of_arm(&chart, i, &arm, arm.name);
    }
    kvsi_claims_chart(out, &chart);
}

static void add_start(kvsi_table *table, const kvsi_run_result *run)
{
    const size_t looks = kvsi_heads_looks(run);
    const kvs_coefficients first = kvsi_head_coefficients(json_array_get(kvsi_heads_at(run, 0), 0)),
                           last = kvsi_head_coefficients(
                               json_array_get(kvsi_heads_at(run, looks - 1), 0));

    kvsi_table_add(table, "%.0f", run->plan->value);
    kvsi_table_add(table, "%llu", (unsigned long long)run->plan->seed);
    kvsi_table_add(table, "%.2f", first.alpha1);
    kvsi_table_add(table, "%.2f", first.beta1);
    kvsi_table_add(table, "%.2f, %.2f", last.alpha1, last.alpha2);
    kvsi_table_add(table, "%.2f, %.2f", last.beta1, last.beta2);
    kvsi_table_add(table, "%.1f %%", kvsi_final_accuracy(run));
}

/* Models with one head. */
static void tabulate_starts(kvsi_claims *out, const kvsi_results *results)
{
    kvsi_table table = {0};

    kvsi_table_headings(&table, "width|seed|first α1|first β1|last α1, α2|last β1, β2|accuracy");
    for (size_t i = 0; i < results->count; i++) {
        const kvsi_run_result *run = results->runs + i;

        if (run->plan->model.heads == 1 && kvsi_heads_looks(run) > 0)
            add_start(&table, run);
    }
    kvsi_claims_table(
        out, "starts",
        "Where the one head of the narrow models began, with sums of 1, and where it ended. An "
        "induction head has α1 = 0 and β2 = 0; one that begins at the opposite corner, α1 = 1 and "
        "β1 = 0, has the longest way to go, and need not arrive.",
        &table);
}

static kvs_status conclude(kvsi_claims *out, const kvsi_results *results, kvs_err *err)
{
    (void)err;
    for (size_t w = 0; kvsi_results_arm(results, 2 * w).count > 0; w++)
        claim(out, results, w);
    draw_widths(out, results);
    draw_narrowest(out, results);
    tabulate_starts(out, results);
    return kvsi_claims_check(out);
}

const kvsi_experiment kvsi_repro_induction_width = {
    .about =
        {
            .name = "induction-width",
            .figure = "Fig. 1b",
            .claim = "Down to a hidden size of 8, one layer with KV shifting is ahead of two "
                     "vanilla layers on induction.",
            .settings =
                {"widths 8 and 16, vocabulary 64, 16 steps of 32 sequences: shows that everything "
                 "works and nothing else",
                 "widths 8 to 64 as the paper's 8; vocabulary 256 instead of 8000, pool 64 instead "
                 "of 512, 2500 steps of 256 sequences instead of 4096, rate 2e-3 instead of 2e-4",
                 "widths 8 to 128, vocabulary 8000, pool 512, 4096 sequences a step, rate 2e-4 "
                 "after 1000 steps; one head up to width 32, 20000 steps and the loss on the "
                 "answer alone are our choice, as the paper does not say"},
            .seeds = {1, 5, 3},
        },
    .plan = plan,
    .measure = measure,
    .conclude = conclude,
};
