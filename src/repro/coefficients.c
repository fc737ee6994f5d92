/* Table 4: what the shift's numbers have become.  For a head a1, a2 are the keys' taps for the
 * current and the previous token, b1, b2 the values'. */
#include "base/files.h"
#include "base/folders.h"
#include "base/memory.h"
#include "repro/experiment.h"
#include "repro/settings.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

enum { LOOKS = 8 }; /* over the training */

static kvs_status plan(kvsi_plan *p, kvs_err *err)
{
    kvsi_planned run = {.keeps_checkpoints = 1};
    kvs_status st;

    KVS_TRY(kvsi_settings_text(&run, p, 3, "paper-2.9b", err));
    if (p->scale == KVS_SCALE_DESK) {
        run.model.layers = 6;
        run.train.steps = 800;
    }
    run.eval_every = run.train.steps / LOOKS;
    run.model.shift.targets = KVS_SHIFT_K | KVS_SHIFT_V;
    kvsi_name_arm(&run, "KV shifting");
    KVS_TRY(kvsi_plan_add(p, &run, err));
out:
    return st;
}

/* ---- looking at models ----------------------------------------------------------------------- */

static kvs_status read_head(json_t *heads, const kvs_model *model, size_t layer, size_t head,
                            kvs_err *err)
{
    double keys[KVS_SHIFT_WINDOW_MAX + 1], values[KVS_SHIFT_WINDOW_MAX + 1];
    kvs_status st;

    KVS_TRY(kvs_model_taps(model, layer, KVS_SHIFT_K, head, keys, NULL, err));
    KVS_TRY(kvs_model_taps(model, layer, KVS_SHIFT_V, head, values, NULL, err));
    json_array_append_new(heads, json_pack("[f, f, f, f]", keys[1], keys[0], values[1], values[0]));
out:
    return st;
}

/* All heads of a model as [a1, a2, b1, b2], layer after layer. */
static kvs_status read_model(json_t *steps, uint64_t step, const kvs_model *model, kvs_err *err)
{
    const kvs_model_config *config = kvs_model_get_config(model);
    json_t *heads = json_array();
    kvs_status st = KVS_OK;

    for (size_t l = 0; l < config->layers; l++)
        for (size_t h = 0; h < kvs_model_config_kv_heads(config, l); h++)
            KVS_TRY(read_head(heads, model, l, h, err));
    json_array_append_new(steps, json_pack("{s:I, s:O}", "step", (json_int_t)step, "heads", heads));
out:
    json_decref(heads);
    return st;
}

static kvs_status read_first(json_t *steps, const kvsi_finished *run, kvs_err *err)
{
    kvs_model *model = NULL;
    kvs_status st;

    KVS_TRY(
        kvs_model_create(&model, run->rt, kvs_model_get_config(run->model), run->plan->seed, err));
    KVS_TRY(read_model(steps, 0, model, err));
out:
    kvs_model_free(model);
    return st;
}

static kvs_status read_checkpoint(json_t *steps, const kvsi_finished *run, const char *ckpt,
                                  const char *name, kvs_err *err)
{
    char *path = kvsi_path_join(ckpt, name);
    kvs_model *model = NULL;
    kvs_status st;

    if (!path)
        return kvsi_fail(err, KVS_E_NOMEM, "out of memory for '%s'", name);
    KVS_TRY(kvs_model_load(&model, run->rt, path, err));
    KVS_TRY(read_model(steps, strtoull(name + sizeof "step-" - 1, NULL, 10), model, err));
out:
    kvs_model_free(model);
    kvsi_free(path);
    return st;
}

static kvs_status measure(json_t **out, const kvsi_finished *run, kvs_err *err)
{
    char *ckpt = kvsi_path_join(run->dir, "ckpt");
    json_t *steps = json_array();
    kvsi_name_list names = {0};
    kvs_status st;

    *out = NULL;
    if (!ckpt) {
        st = kvsi_fail(err, KVS_E_NOMEM, "out of memory for '%s'", run->dir);
        goto out;
    }
    KVS_TRY(read_first(steps, run, err));
    KVS_TRY(kvsi_dir_list(&names, ckpt, "step-", err));
    for (size_t i = 0; i < names.count; i++)
        KVS_TRY(read_checkpoint(steps, run, ckpt, names.names[i], err));
    *out = json_pack("{s:O}", "steps", steps);
    if (!*out)
        st = kvsi_fail(err, KVS_E_NOMEM, "out of memory for '%s'", run->dir);
out:
    kvsi_name_list_release(&names);
    json_decref(steps);
    kvsi_free(ckpt);
    return st;
}

/* ---- counting -------------------------------------------------------------------------------- */

enum { NEITHER, KEYS_BACK, VALUES_BACK, BOTH_BACK, CLASSES };

static const char *const class_names[CLASSES] = {"α1 > α2, β1 > β2", "α1 ≤ α2, β1 > β2",
                                                 "α1 > α2, β1 ≤ β2", "α1 ≤ α2, β1 ≤ β2"};
static const double paper_counts[CLASSES] = {50, 17, 9, 52}; /* of 128 */

typedef struct tally {
    uint64_t step;
    size_t heads;
    double share[CLASSES];     /* percent */
    double key_sum, value_sum; /* means of a1 + a2 and b1 + b2 */
    double away;               /* mean of |sum - 1| over keys and values */
    double negative;           /* percent of all numbers */
} tally;

static double tap(const json_t *head, size_t index)
{
    return json_number_value(json_array_get(head, index));
}

static tally count(const json_t *look)
{
    const json_t *heads = json_object_get(look, "heads");
    const size_t n = json_array_size(heads);
    tally t = {.step = (uint64_t)json_integer_value(json_object_get(look, "step")), .heads = n};

    for (size_t i = 0; i < n; i++) {
        const json_t *head = json_array_get(heads, i);
        const double a1 = tap(head, 0), a2 = tap(head, 1), b1 = tap(head, 2), b2 = tap(head, 3),
                     each = 1 / (double)n;

        t.share[(a1 <= a2 ? KEYS_BACK : 0) + (b1 <= b2 ? VALUES_BACK : 0)] += 100 * each;
        t.key_sum += (a1 + a2) * each;
        t.value_sum += (b1 + b2) * each;
        t.away += (fabs(a1 + a2 - 1) + fabs(b1 + b2 - 1)) / 2 * each;
        t.negative += 25 * ((a1 < 0) + (a2 < 0) + (b1 < 0) + (b2 < 0)) * each;
    }
    return t;
}

static size_t looks(const kvsi_trial_run *run)
{
    return json_array_size(json_object_get(run->measured, "steps"));
}

static tally look_at(const kvsi_trial_run *run, size_t index)
{
    return count(json_array_get(json_object_get(run->measured, "steps"), index));
}

static tally last_look(const kvsi_trial_run *run)
{
    const size_t n = looks(run);

    return n > 0 ? look_at(run, n - 1) : (tally){0};
}

static double same_side(const kvsi_trial_run *run)
{
    const tally t = last_look(run);

    return t.share[NEITHER] + t.share[BOTH_BACK];
}

static double keys_over_values(const kvsi_trial_run *run)
{
    const tally t = last_look(run);

    return t.share[KEYS_BACK] - t.share[VALUES_BACK];
}

static double away(const kvsi_trial_run *run)
{
    return last_look(run).away;
}

static double negative(const kvsi_trial_run *run)
{
    return last_look(run).negative;
}

/* ---- conclusions ----------------------------------------------------------------------------- */

/* That a number is above a bound, by more than chance. */
static void claim_above(kvsi_findings *f, const kvsi_trial_arm *arm, kvsi_reading *read,
                        double bound, kvsi_found found)
{
    const kvsi_estimate e = kvsi_estimate_arm(arm, read);
    const double half = kvsi_half_interval(&e);

    found.ours = e.mean;
    found.error = e.error;
    found.seeds = e.count;
    found.outcome = e.mean - half > bound   ? KVSI_HOLDS
                    : e.mean + half < bound ? KVSI_FAILS
                                            : KVSI_OPEN;
    if (e.count < 2)
        kvsi_findings_lone_claim(f, &found);
    else
        kvsi_findings_claim(f, &found, "95 %% interval ± %.2g; holds if it is above %g", half,
                            bound);
}

static void claim(kvsi_findings *f, const kvsi_trial_arm *arm)
{
    claim_above(f, arm, same_side, 50,
                (kvsi_found){.claim = "most heads take key and value of the same token: both "
                                      "current, or both previous",
                             .paper = "80 % (102 of 128 heads)",
                             .unit = "% of the heads"});
    claim_above(f, arm, keys_over_values, 0,
                (kvsi_found){.claim = "keys of the previous token with values of the current one "
                                      "(induction) are more frequent than the reverse",
                             .paper = "6 points (17 against 9 of 128 heads)",
                             .unit = "percentage points"});
    claim_above(f, arm, away, 0.02,
                (kvsi_found){.claim = "the sums of a head's numbers leave 1, where they began",
                             .paper = "away from 1",
                             .unit = "mean distance from 1"});
    claim_above(f, arm, negative, 0,
                (kvsi_found){.claim = "some numbers become negative",
                             .paper = "some",
                             .unit = "% of the numbers"});
}

static void tabulate(kvsi_findings *f, const kvsi_trial_arm *arm)
{
    kvsi_grid grid = {.columns = 3, .left = 1};

    kvsi_grid_add(&grid, "heads with");
    kvsi_grid_add(&grid, "paper, 2.9B");
    kvsi_grid_add(&grid, "here, of %zu", last_look(arm->runs).heads);
    for (size_t c = 0; c < CLASSES; c++) {
        double shares[KVSI_SEEDS_MAX];
        kvsi_estimate share;

        for (size_t r = 0; r < arm->count; r++)
            shares[r] = last_look(arm->runs + r).share[c];
        share = kvsi_estimate_of(shares, arm->count);
        kvsi_grid_add(&grid, "%s", class_names[c]);
        kvsi_grid_add(&grid, "%.0f of 128 (%.1f %%)", paper_counts[c], paper_counts[c] / 1.28);
        kvsi_table_estimate(&grid, &share, 1, " %");
    }
    kvsi_findings_table(f, "classes",
                        "Heads by whether the current or the previous token weighs more, in keys "
                        "and in values; mean over the seeds ± standard error.",
                        &grid);
}

/* One series of numbers over the training, meant over the seeds. */
static void add_course(kvsi_figure *figure, size_t colour, const char *label,
                       const kvsi_trial_arm *arm, double (*take)(const tally *))
{
    kvsi_series *series = kvsi_figure_series(figure, KVSI_MARKED, colour, label);

    for (size_t i = 0; i < looks(arm->runs); i++) {
        double values[KVSI_SEEDS_MAX];
        uint64_t step = 0;
        kvsi_estimate e;

        for (size_t r = 0; r < arm->count; r++) {
            const tally t = look_at(arm->runs + r, i);

            values[r] = take(&t);
            step = t.step;
        }
        e = kvsi_estimate_of(values, arm->count);
        kvsi_series_add(series, (double)step, e.mean, e.error);
    }
}

static double neither(const tally *t)
{
    return t->share[NEITHER];
}

static double keys_back(const tally *t)
{
    return t->share[KEYS_BACK];
}

static double values_back(const tally *t)
{
    return t->share[VALUES_BACK];
}

static double both_back(const tally *t)
{
    return t->share[BOTH_BACK];
}

static double key_sum(const tally *t)
{
    return t->key_sum;
}

static double value_sum(const tally *t)
{
    return t->value_sum;
}

static double negatives(const tally *t)
{
    return t->negative;
}

static void draw_classes(kvsi_findings *f, const kvsi_trial_arm *arm)
{
    static double (*const shares[CLASSES])(const tally *) = {neither, keys_back, values_back,
                                                             both_back};
    kvsi_figure figure = {
        .name = "classes-course",
        .caption = "Heads of each class over the training, mean over the seeds with its standard "
                   "error.",
    };
    kvsi_panel *panel = kvsi_figure_panel(&figure, "", "training step", "share of the heads");

    panel->y_low = 0;
    panel->y_format = "%g %%";
    panel->key = "outside right top";
    for (size_t c = 0; c < CLASSES; c++)
        add_course(&figure, c, class_names[c], arm, shares[c]);
    kvsi_findings_figure(f, &figure);
}

static void draw_sums(kvsi_findings *f, const kvsi_trial_arm *arm)
{
    kvsi_figure figure = {
        .name = "sums-course",
        .caption = "Over the training, mean over the seeds with its standard error. Left: the sum "
                   "of a head's two numbers, mean over the heads. Right: how many of all numbers "
                   "are below 0.",
    };
    kvsi_panel *panel = kvsi_figure_panel(&figure, "", "training step", "mean sum");

    panel->key = "inside top left";
    add_course(&figure, 0, "α1 + α2 (keys)", arm, key_sum);
    add_course(&figure, 1, "β1 + β2 (values)", arm, value_sum);
    panel = kvsi_figure_panel(&figure, "", "training step", "numbers below 0");
    panel->y_low = 0;
    panel->y_format = "%g %%";
    panel->key = NULL;
    add_course(&figure, 4, "negative", arm, negatives);
    kvsi_findings_figure(f, &figure);
}

/* Where current and previous token weigh the same. */
static void add_cross(kvsi_figure *figure)
{
    kvsi_series *keys = kvsi_figure_series(figure, KVSI_RULE, 0, ""),
                *values = kvsi_figure_series(figure, KVSI_RULE, 0, "");

    kvsi_series_add(keys, 0, -1, NAN);
    kvsi_series_add(keys, 0, 1, NAN);
    kvsi_series_add(values, -1, 0, NAN);
    kvsi_series_add(values, 1, 0, NAN);
}

static void draw_heads(kvsi_findings *f, const kvsi_trial_arm *arm)
{
    kvsi_figure figure = {
        .name = "heads",
        .caption = "Every head of every seed at the end: how much more the current token weighs "
                   "than the previous one, in keys and in values. Right above: an ordinary head; "
                   "left above: an induction head; left below: an ordinary head whose labels are "
                   "off by one.",
    };
    kvsi_panel *panel = kvsi_figure_panel(&figure, "", "keys: α1 − α2", "values: β1 − β2");

    panel->key = arm->count > 1 ? "outside right top" : NULL;
    add_cross(&figure);
    for (size_t r = 0; r < arm->count; r++) {
        const json_t *all = json_object_get(arm->runs[r].measured, "steps"),
                     *heads =
                         json_object_get(json_array_get(all, json_array_size(all) - 1), "heads");
        char label[32];
        kvsi_series *series;

        snprintf(label, sizeof label, "seed %zu", r + 1);
        series = kvsi_figure_series(&figure, KVSI_MARKS, r, label);
        for (size_t i = 0; i < json_array_size(heads); i++) {
            const json_t *head = json_array_get(heads, i);

            kvsi_series_add(series, tap(head, 0) - tap(head, 1), tap(head, 2) - tap(head, 3), NAN);
        }
    }
    kvsi_findings_figure(f, &figure);
}

static kvs_status conclude(kvsi_findings *f, const kvsi_trial *trial, kvs_err *err)
{
    const kvsi_trial_arm arm = kvsi_trial_arm_at(trial, 0);

    for (size_t r = 0; r < arm.count; r++)
        if (looks(arm.runs + r) != looks(arm.runs) || looks(arm.runs) == 0)
            return kvsi_fail(err, KVS_E_FORMAT,
                             "'%s' was looked at %zu times, expected %zu, and at least once",
                             arm.runs[r].dir, looks(arm.runs + r), looks(arm.runs));
    claim(f, &arm);
    tabulate(f, &arm);
    draw_classes(f, &arm);
    draw_sums(f, &arm);
    draw_heads(f, &arm);
    return kvsi_findings_check(f);
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
                {"a tiny model, 8 steps on a made-up language: shows that everything works and "
                 "nothing else",
                 "1.5 million parameters with 24 KV heads instead of 2.9 billion with 128, 3.3 "
                 "million tokens instead of 500 billion, vocabulary 1024, windows of 256 tokens; "
                 "several seeds instead of one",
                 "the paper's 2.9B model with 128 KV heads, batch, rate and 500 billion tokens; "
                 "the text is not the paper's, which is not public"},
            .seeds = {1, 5, 1},
            .learns_text = 1,
        },
    .plan = plan,
    .measure = measure,
    .conclude = conclude,
};
