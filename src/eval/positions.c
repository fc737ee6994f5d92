/* Loss by position: how much a model gains from its context (Olsson et al. 2022).
 *
 * Windows of `window` tokens that do not overlap.  Token t of a window, counted from 1, is
 * predicted from the t - 1 tokens before it in the window; token 1 is not predicted, and token
 * window + 1 is. */
#include "base/array.h"
#include "base/files.h"
#include "base/memory.h"
#include "base/statistics.h"
#include "kvshift/kvshift_lab.h"
#include "model/pass.h"
#include "report/chart.h"

#include <math.h>

enum {
    POINTS_MAX = 128,
    PER_OCTAVE = 4, /* points of the curve per doubling of the position */
    EARLY = 50,
    LATE = 500,
    EARLY_FIRST = 40,
    EARLY_LAST = 60,
    LATE_FIRST = 450,
    LATE_LAST = 550,
    WINDOW_MIN = 512,
};

/* What one window gives; the same for every model on the same text. */
typedef struct window_loss {
    double at[2];   /* loss of token EARLY, LATE */
    double mean[2]; /* mean over EARLY_FIRST .. EARLY_LAST, LATE_FIRST .. */
} window_loss;

struct kvs_position_curve {
    size_t window, late_last, too_short;
    kvs_position_point points[POINTS_MAX];
    size_t count;
    window_loss *windows;
    size_t window_count, capacity;
    kvsi_running sums[POINTS_MAX];
};

/* ---- measuring ------------------------------------------------------------------------------- */

static kvs_status check(const kvs_model *model, const kvs_perplexity_options *o, kvs_err *err)
{
    kvsi_dtype cache;

    TRY(kvsi_cache_type(&cache, o->cache, err));
    if (o->reference)
        return kvsi_fail(err, KVS_E_INVALID, "losses by position take no reference");
    if (o->window > model->config.context)
        return kvsi_fail(err, KVS_E_INVALID, "window is %zu, expected at most the context %zu",
                         o->window, model->config.context);
    if (o->window < WINDOW_MIN)
        return kvsi_fail(err, KVS_E_INVALID,
                         "window is %zu, expected at least %d for the loss of token %d (the "
                         "model's context is %zu)",
                         o->window, WINDOW_MIN, LATE, model->config.context);
    if (o->stride != o->window)
        return kvsi_fail(err, KVS_E_INVALID,
                         "stride is %zu, expected the window %zu: windows must not overlap",
                         o->stride, o->window);
    return kvsi_cache_check(&model->config, cache, err);
}

/* Points from 2 to window + 1: each covers the positions up to the next, a quarter octave on.  What
 * is left at the end joins the point before if it is less than half of one. */
static void place_points(kvs_position_curve *curve)
{
    const size_t last = curve->window + 1;
    size_t first = 2;

    for (size_t k = 1; first <= last && curve->count < POINTS_MAX; k++) {
        const size_t next = (size_t)lround(2 * exp2((double)k / PER_OCTAVE));

        if (next <= first)
            continue;
        if (curve->count > 0 && 2 * (last + 1 - first) < next - first)
            curve->points[curve->count - 1].last = last;
        else
            curve->points[curve->count++] = (kvs_position_point){
                .first = first, .last = next - 1 < last ? next - 1 : last, .loss = {NAN, NAN}};
        first = next;
    }
}

/* losses[r] is that of token r + 2. */
static double mean_loss(const real *losses, size_t first, size_t last)
{
    double sum = 0;

    for (size_t t = first; t <= last; t++)
        sum += (double)losses[t - 2];
    return sum / (double)(last - first + 1);
}

static kvs_status add_window(kvs_position_curve *curve, const real *losses, kvs_err *err)
{
    TRY(kvsi_array_reserve(&curve->windows, &curve->capacity, curve->window_count + 1,
                           sizeof *curve->windows, err));
    curve->windows[curve->window_count++] = (window_loss){
        .at = {(double)losses[EARLY - 2], (double)losses[LATE - 2]},
        .mean = {mean_loss(losses, EARLY_FIRST, EARLY_LAST),
                 mean_loss(losses, LATE_FIRST, curve->late_last)},
    };
    for (size_t p = 0; p < curve->count; p++)
        kvsi_running_add(curve->sums + p,
                         mean_loss(losses, curve->points[p].first, curve->points[p].last));
    return KVS_OK;
}

static kvs_status run_window(kvs_position_curve *curve, kvsi_pass *pass, const int32_t *ids,
                             kvs_err *err)
{
    const size_t starts[] = {0, curve->window};
    const kvs_batch batch = {.sequences = 1, .starts = starts, .ids = ids, .targets = ids + 1};
    kvsi_loss loss;

    TRY(kvsi_pass_load(pass, &batch, NULL, err));
    kvsi_pass_forward(pass);
    TRY(kvsi_pass_loss(pass, NULL, &loss, err));
    return add_window(curve, pass->host_losses, err);
}

/* Whole windows of one text. */
static kvs_status run_text(kvs_position_curve *curve, kvsi_pass *pass, const int32_t *ids,
                           size_t count, const kvs_perplexity_options *o, size_t all, int *stopped,
                           kvs_err *err)
{
    curve->too_short += count <= curve->window;
    for (size_t start = 0; start + curve->window < count && !*stopped; start += curve->window) {
        TRY(run_window(curve, pass, ids + start, err));
        *stopped = o->progress && o->progress(o->user, curve->window_count * curve->window, all);
    }
    return KVS_OK;
}

/* Tokens that whole windows predict, and the longest text. */
static kvs_status count_windows(size_t *all, size_t window, const size_t *starts, size_t texts,
                                size_t count, kvs_err *err)
{
    size_t longest = 0;

    *all = 0;
    for (size_t t = 0; t < texts; t++) {
        size_t length;

        if (starts[t] > starts[t + 1] || starts[t + 1] > count)
            return kvsi_fail(err, KVS_E_INVALID, "text %zu is tokens %zu to %zu of %zu", t,
                             starts[t], starts[t + 1], count);
        length = starts[t + 1] - starts[t];
        longest = length > longest ? length : longest;
        *all += length > 0 ? (length - 1) / window * window : 0;
    }
    if (*all == 0)
        return kvsi_fail(err, KVS_E_INVALID,
                         "no text fills a window: the longest has %zu tokens, expected at least "
                         "%zu",
                         longest, window + 1);
    return KVS_OK;
}

kvs_status kvs_loss_by_position(kvs_position_curve **out, const kvs_model *model,
                                const int32_t *ids, size_t count,
                                const kvs_perplexity_options *options, kvs_err *err)
{
    const size_t whole[] = {0, count};
    kvsi_pass_limits limits = {.sequences = 1};
    kvs_position_curve *curve = NULL;
    kvsi_pass *pass = NULL;
    const size_t *starts;
    size_t texts, all;
    int stopped = 0;
    kvs_status st;

    NEED(out);
    *out = NULL;
    NEED(model);
    NEED_ARRAY(ids, count);
    NEED(options);
    texts = options->texts ? options->texts : 1;
    starts = options->texts ? options->starts : whole;
    NEED(starts);
    TRY_OUT(check(model, options, err));
    TRY_OUT(count_windows(&all, options->window, starts, texts, count, err));
    curve = kvsi_alloc(1, sizeof *curve);
    if (!curve) {
        st = kvsi_no_memory(err, "losses by position");
        goto out;
    }
    curve->window = options->window;
    curve->late_last = options->window + 1 < LATE_LAST ? options->window + 1 : LATE_LAST;
    place_points(curve);
    limits.tokens = limits.head_rows = options->window;
    TRY_OUT(kvsi_cache_type(&limits.cache, options->cache, err));
    TRY_OUT(kvsi_pass_create(&pass, model, &limits, err));
    for (size_t t = 0; t < texts && !stopped; t++)
        TRY_OUT(run_text(curve, pass, ids + starts[t], starts[t + 1] - starts[t], options, all,
                         &stopped, err));
    for (size_t p = 0; p < curve->count; p++) {
        const kvsi_estimate e = kvsi_running_estimate(curve->sums + p);

        curve->points[p].loss = (kvs_estimate){e.mean, e.error};
    }
    *out = curve;
    curve = NULL;
out:
    kvsi_pass_free(pass);
    kvs_position_curve_free(curve);
    return st;
}

void kvs_position_curve_free(kvs_position_curve *curve)
{
    if (!curve)
        return;
    kvsi_free(curve->windows);
    kvsi_free(curve);
}

/* ---- results --------------------------------------------------------------------------------- */

const kvs_position_point *kvs_position_curve_at(const kvs_position_curve *curve, size_t index)
{
    return curve && index < curve->count ? curve->points + index : NULL;
}

/* The mean over windows of a * x + b * y, with its error. */
static kvs_estimate combine(const kvs_position_curve *curve, int smooth, double early, double late)
{
    kvsi_running running = {0};
    kvsi_estimate e;

    for (size_t w = 0; w < curve->window_count; w++) {
        const double *loss = smooth ? curve->windows[w].mean : curve->windows[w].at;

        kvsi_running_add(&running, early * loss[0] + late * loss[1]);
    }
    e = kvsi_running_estimate(&running);
    return (kvs_estimate){e.mean, e.error};
}

void kvs_position_curve_scores(kvs_position_scores *out, const kvs_position_curve *curve)
{
    if (!out)
        return;
    *out = (kvs_position_scores){0};
    if (!curve)
        return;
    *out = (kvs_position_scores){
        .windows = curve->window_count,
        .window = curve->window,
        .too_short = curve->too_short,
        .late_last = curve->late_last,
        .early = combine(curve, 0, 1, 0),
        .late = combine(curve, 0, 0, 1),
        .score = combine(curve, 0, -1, 1),
        .early_mean = combine(curve, 1, 1, 0),
        .late_mean = combine(curve, 1, 0, 1),
        .mean_score = combine(curve, 1, -1, 1),
    };
}

kvs_status kvs_position_curve_difference(kvs_estimate *score, kvs_estimate *mean_score,
                                         const kvs_position_curve *a, const kvs_position_curve *b,
                                         kvs_err *err)
{
    kvsi_running running[2] = {{0}};
    kvs_estimate *const out[] = {score, mean_score};

    NEED(score);
    NEED(mean_score);
    NEED(a);
    NEED(b);
    if (a->window != b->window || a->window_count != b->window_count)
        return kvsi_fail(err, KVS_E_INVALID,
                         "%zu windows of %zu tokens and %zu of %zu; expected the same text",
                         a->window_count, a->window, b->window_count, b->window);
    for (size_t w = 0; w < a->window_count; w++) {
        const window_loss *x = a->windows + w, *y = b->windows + w;

        kvsi_running_add(running, (y->at[1] - y->at[0]) - (x->at[1] - x->at[0]));
        kvsi_running_add(running + 1, (y->mean[1] - y->mean[0]) - (x->mean[1] - x->mean[0]));
    }
    for (int i = 0; i < 2; i++) {
        const kvsi_estimate e = kvsi_running_estimate(running + i);

        *out[i] = (kvs_estimate){e.mean, e.error};
    }
    return KVS_OK;
}

/* ---- the picture ----------------------------------------------------------------------------- */

static void add_curve(kvsi_chart *chart, const kvs_position_curve *curve, size_t colour,
                      const char *label)
{
    kvsi_series *series = kvsi_chart_series(chart, KVSI_MARKED, colour, label);

    for (size_t p = 0; p < curve->count; p++)
        kvsi_series_add(series,
                        sqrt((double)curve->points[p].first * (double)curve->points[p].last),
                        curve->points[p].loss.mean, curve->points[p].loss.error);
}

kvs_status kvs_position_curves_draw(const char *svg, const kvs_position_curve *const *curves,
                                    const char *const *labels, size_t count, kvs_err *err)
{
    kvsi_chart *chart = NULL;
    kvsi_panel *panel;
    char *text = NULL;
    kvs_status st;

    NEED(svg);
    NEED(curves);
    NEED(labels);
    for (size_t i = 0; i < count; i++) {
        NEED_AS(curves[i], curves);
        NEED_AS(labels[i], labels);
    }
    chart = kvsi_alloc(1, sizeof *chart); /* too large for the stack */
    if (!chart)
        return kvsi_no_memory(err, "a chart");
    chart->name = chart->id = "positions";
    panel = kvsi_chart_panel(chart, "", "token in the window", "loss (nats a token)");
    panel->log_x = 10;
    panel->decimal_x = 1;
    panel->key = "inside top right";
    for (size_t i = 0; i < count; i++)
        add_curve(chart, curves[i], i, labels[i]);
    TRY_OUT(kvsi_chart_draw(&text, chart, err));
    TRY_OUT(kvsi_file_write_text(svg, text, err));
out:
    kvsi_chart_release(chart);
    kvsi_free(chart);
    kvsi_free(text);
    return st;
}
