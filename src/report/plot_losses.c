/* How arms learn a text.  Panels, from the top:
 *
 *     losses against step, with the tokens on the upper edge if all runs have the same a step
 *     differences from the baseline, if there are any
 *     losses against tokens, if runs differ in their tokens a step
 */
#include "report/gnuplot.h"
#include "report/plot.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>

enum {
    WIDTH = 900,
    LOSSES = 484,      /* heights */
    DIFFERENCES = 264, /* with the room for its labels */
    TRAIN_POINTS = 240,
    MARKS = 25, /* points and error bars a curve, at most about so many */
};

static const double ROOM = 1.01; /* at the right, for the last error bar */

typedef struct range {
    double low, high;
} range;

typedef struct drawing {
    kvsi_text script;
    const kvsi_arms *arms;
    size_t smoothed; /* batches in a mean of training losses */
    uint64_t last_step;
    double last_token;
    int same_tokens; /* a step, in all runs */
    range losses, differences;
    double used; /* height, from the top */
    double height;
} drawing;

static void widen(range *r, double value)
{
    if (!isfinite(value))
        return;
    r->low = fmin(r->low, value);
    r->high = fmax(r->high, value);
}

/* The first tenth falls fast and would press the rest against the floor, so the axis need not reach
 * up to it. */
static void show(drawing *d, uint64_t step, double loss)
{
    if (step > d->last_step / 10)
        widen(&d->losses, loss);
}

/* ---- the data: blocks of "step tokens value error" ------------------------------------------- */

/* Tokens that were fed up to a step, after which there is a record. */
static double tokens_at(const kvsi_run *run, uint64_t step)
{
    size_t low = 0, high = run->point_count - 1;

    while (low < high) {
        const size_t middle = low + (high - low) / 2;

        if (run->points[middle].step < step)
            low = middle + 1;
        else
            high = middle;
    }
    return (double)run->points[low].tokens;
}

/* Mean over the arm's runs of the last batches up to point `last`. */
static double smooth(const drawing *d, const kvsi_arm *arm, size_t last)
{
    const size_t first = last + 1 > d->smoothed ? last + 1 - d->smoothed : 0;
    double sum = 0;
    size_t count = 0;

    for (size_t r = 0; r < arm->summary.counted; r++)
        for (size_t i = first; i <= last; i++) {
            const double loss = arm->counted[r]->points[i].loss;

            sum += isnan(loss) ? 0 : loss;
            count += isnan(loss) ? 0 : 1;
        }
    return count ? sum / (double)count : NAN;
}

static void add_training(drawing *d, const kvsi_arm *arm, size_t number)
{
    const kvsi_run *run = arm->counted[0];
    size_t count = run->point_count, stride;

    for (size_t r = 1; r < arm->summary.counted; r++)
        if (arm->counted[r]->point_count < count)
            count = arm->counted[r]->point_count;
    stride = count / TRAIN_POINTS + 1;
    kvsi_text_format(&d->script, "$train%zu << END\n", number);
    for (size_t i = (count - 1) % stride; i < count; i += stride) {
        const double loss = smooth(d, arm, i);

        if (isnan(loss))
            continue;
        kvsi_text_format(&d->script, "%" PRIu64 " %" PRIu64 " %.6g\n", run->points[i].step,
                         run->points[i].tokens, loss);
        show(d, run->points[i].step, loss);
    }
    kvsi_text_add(&d->script, "END\n");
}

/* The rest of a block. */
static void add_curve(drawing *d, const kvsi_mean *curve, size_t count, const kvsi_run *run)
{
    for (size_t i = 0; i < count; i++)
        kvsi_text_format(&d->script, "%" PRIu64 " %.0f %.6g %.6g\n", curve[i].step,
                         tokens_at(run, curve[i].step), curve[i].mean, curve[i].error);
    kvsi_text_add(&d->script, "END\n");
}

static void add_arm(drawing *d, const kvsi_arm *arm, size_t number)
{
    add_training(d, arm, number);
    for (size_t r = 0; r < arm->summary.runs; r++) {
        const kvsi_run *run = arm->runs[r];

        kvsi_text_format(&d->script, "$run%zu_%zu << END\n", number, r);
        for (size_t i = 0; i < run->evaluation_count; i++) {
            const uint64_t step = run->evaluations[i].step;

            kvsi_text_format(&d->script, "%" PRIu64 " %.0f %.6g\n", step, tokens_at(run, step),
                             run->evaluations[i].loss);
            show(d, step, run->evaluations[i].loss);
        }
        kvsi_text_add(&d->script, "END\n");
    }
    kvsi_text_format(&d->script, "$mean%zu << END\n", number);
    add_curve(d, arm->curve, arm->curve_count, arm->counted[0]);
}

static void add_difference(drawing *d, const kvsi_difference *difference, size_t number)
{
    for (size_t s = 0; s < difference->summary.seeds; s++) {
        kvsi_text_format(&d->script, "$seed%zu_%zu << END\n", number, s);
        for (size_t i = 0; i < difference->curve_count; i++) {
            const uint64_t step = difference->curve[i].step;
            const double value = kvsi_run_loss_at(difference->ours[s], step) -
                                 kvsi_run_loss_at(difference->theirs[s], step);

            kvsi_text_format(&d->script, "%" PRIu64 " 0 %.6g\n", step, value);
            widen(&d->differences, value);
        }
        kvsi_text_add(&d->script, "END\n");
    }
    kvsi_text_format(&d->script, "$difference%zu << END\n", number);
    add_curve(d, difference->curve, difference->curve_count, difference->ours[0]);
}

/* ---- the panels ------------------------------------------------------------------------------ */

/* Everything is placed by hand, so that the panels' left and right edges fall together. */
static void begin_panel(drawing *d, double height, double above, double below)
{
    const double top = 1 - (d->used + above) / d->height,
                 bottom = 1 - (d->used + height - below) / d->height;

    kvsi_text_format(&d->script,
                     "set lmargin at screen 0.1\nset rmargin at screen 0.975\n"
                     "set tmargin at screen %.4f\nset bmargin at screen %.4f\n",
                     top, bottom);
    d->used += height;
}

/* Room around the values; one value alone gets some too. */
static void add_y_range(drawing *d, range r, double above)
{
    const double size = r.high > r.low ? r.high - r.low : 0.1;

    if (r.low <= r.high)
        kvsi_text_format(&d->script, "set yrange [%.6g:%.6g]\n", r.low - 0.06 * size,
                         r.high + above * size);
    else
        kvsi_text_add(&d->script, "set yrange [0:1]\n");
}

typedef struct unit {
    double size;
    const char *name;
} unit;

static unit token_unit(double most)
{
    static const unit units[] = {
        {1e9, "billion tokens"}, {1e6, "million tokens"}, {1e3, "thousand tokens"}, {1, "tokens"}};
    size_t i = 0;

    while (i < 3 && most < 2 * units[i].size)
        i++;
    return units[i];
}

/* A thick line through means, with points and, where there are errors, their bars.  `x` is a column
 * or a formula.  Bars are arrows with flat heads, because gnuplot's own erase what is below. */
static void add_means(drawing *d, const char *block, const char *x, size_t points, int has_errors,
                      const char *colour)
{
    const size_t every = points / MARKS + 1,
                 first = points ? (points - 1) % every : 0; /* so that the last has a mark */

    kvsi_text_format(&d->script,
                     ", %s using %s:3 with lines linewidth 2.4 linecolor rgb '#%s' notitle", block,
                     x, colour);
    kvsi_text_format(&d->script,
                     ", %s using %s:3 every %zu::%zu with points pointtype 7 pointsize 0.5 "
                     "linecolor rgb '#%s' notitle",
                     block, x, every, first, colour);
    if (has_errors)
        kvsi_text_format(&d->script,
                         ", %s using %s:($3-$4):(0):(2*$4) every %zu::%zu with vectors heads "
                         "size screen 0.004,90 linewidth 1.6 linecolor rgb '#%s' notitle",
                         block, x, every, first, colour);
}

/* A sample of a line in the legend, for several lines that are drawn alike. */
static void add_key(drawing *d, const char *line, const char *words)
{
    kvsi_text_format(&d->script, ", keyentry with lines %s title ", line);
    kvsi_gnuplot_quote(&d->script, words);
}

static void add_losses_key(drawing *d)
{
    char line[64];
    int several = 0;

    for (size_t a = 0; a < d->arms->count; a++) {
        snprintf(line, sizeof line, "linewidth 2.4 linecolor rgb '#%s'", kvsi_gnuplot_colour(a));
        add_key(d, line, d->arms->arms[a].label);
        several |= d->arms->arms[a].summary.runs > 1;
    }
    if (several)
        add_key(d, "linewidth 0.8 linecolor rgb '#888888'", "single runs");
    add_key(d, "linewidth 2 linecolor rgb '#a0888888'", "training loss, smoothed");
}

/* Colours that begin with two more digits let the paper through. */
static void plot_losses(drawing *d, const char *x)
{
    kvsi_text_add(&d->script, "plot NaN notitle");
    for (size_t a = 0; a < d->arms->count; a++)
        kvsi_text_format(&d->script,
                         ", $train%zu using %s:3 with lines linewidth 2 linecolor rgb '#a0%s' "
                         "notitle",
                         a, x, kvsi_gnuplot_colour(a));
    for (size_t a = 0; a < d->arms->count; a++) {
        const kvsi_arm *arm = d->arms->arms + a;
        char block[32];

        for (size_t r = 0; arm->summary.runs > 1 && r < arm->summary.runs; r++)
            kvsi_text_format(&d->script,
                             ", $run%zu_%zu using %s:3 with lines linewidth 0.8 linecolor rgb "
                             "'#50%s' notitle",
                             a, r, x, kvsi_gnuplot_colour(a));
        snprintf(block, sizeof block, "$mean%zu", a);
        add_means(d, block, x, arm->curve_count, arm->summary.counted > 1, kvsi_gnuplot_colour(a));
    }
    add_losses_key(d);
    kvsi_text_add(&d->script, "\n");
}

static void draw_against_steps(drawing *d)
{
    const unit tokens = token_unit(d->last_token);

    begin_panel(d, LOSSES, d->same_tokens ? 60 : 16, 66);
    add_y_range(d, d->losses, 0.06);
    kvsi_text_format(
        &d->script,
        "set xlabel 'training step' offset 0,0.4\nset ylabel 'loss (nats a token)' offset 0.8,0\n"
        "set xrange [0:%.6g]\nset key inside top right noopaque samplen 2\n",
        ROOM * (double)d->last_step);
    if (d->same_tokens)
        kvsi_text_format(&d->script,
                         "set border 7\nset x2tics out scale 0.6\nset x2range [0:%.6g]\n"
                         "set x2label '%s' offset 0,-0.6\n",
                         ROOM * d->last_token / tokens.size, tokens.name);
    plot_losses(d, "1");
    kvsi_text_add(&d->script, "set border 3\nunset x2tics\nunset x2label\n");
}

static void draw_against_tokens(drawing *d)
{
    const unit tokens = token_unit(d->last_token);
    char x[32];

    begin_panel(d, LOSSES, 16, 66);
    add_y_range(d, d->losses, 0.06);
    kvsi_text_format(&d->script,
                     "set xlabel '%s' offset 0,0.4\nset ylabel 'loss (nats a token)' offset "
                     "0.8,0\nset xrange [0:%.6g]\n"
                     "set key inside top right\n",
                     tokens.name, ROOM * d->last_token / tokens.size);
    snprintf(x, sizeof x, "($2/%.0f)", tokens.size);
    plot_losses(d, x);
}

/* The legend stands above the highest curve. */
static void draw_differences(drawing *d)
{
    const kvsi_arms *arms = d->arms;

    widen(&d->differences, 0);
    begin_panel(d, DIFFERENCES, 12, 66);
    add_y_range(d, d->differences, 0.16 + 0.14 * (double)arms->difference_count);
    kvsi_text_format(
        &d->script,
        "set xlabel 'training step' offset 0,0.4\nset ylabel 'difference' offset 0.8,0\n"
        "set xrange [0:%.6g]\nset key inside top right\n"
        "plot 0 with lines linewidth 1 linecolor rgb '#7f7f7f' notitle",
        ROOM * (double)d->last_step);
    for (size_t i = 0; i < arms->difference_count; i++) {
        const kvsi_difference *difference = arms->differences + i;
        const char *colour = kvsi_gnuplot_colour(difference->summary.arm);
        char block[32];

        for (size_t s = 0; s < difference->summary.seeds; s++)
            kvsi_text_format(&d->script,
                             ", $seed%zu_%zu using 1:3 with lines linewidth 0.8 linecolor rgb "
                             "'#50%s' notitle",
                             i, s, colour);
        snprintf(block, sizeof block, "$difference%zu", i);
        add_means(d, block, "1", difference->curve_count, difference->summary.seeds > 1, colour);
    }
    for (size_t i = 0; i < arms->difference_count; i++) {
        const kvs_arm_difference *s = &arms->differences[i].summary;
        char line[64];
        kvsi_text words = {0};

        snprintf(line, sizeof line, "linewidth 2.4 linecolor rgb '#%s'",
                 kvsi_gnuplot_colour(s->arm));
        kvsi_text_format(&words, "%s − %s", arms->arms[s->arm].label,
                         arms->arms[s->baseline].label);
        add_key(d, line, words.data ? words.data : "");
        d->script.failed |= words.failed;
        kvsi_text_release(&words);
    }
    kvsi_text_add(&d->script, "\n");
}

/* ---- the whole ------------------------------------------------------------------------------- */

/* Within a hundredth: ragged batches differ by a few tokens. */
static void measure(drawing *d)
{
    double least = INFINITY, most = 0;

    for (size_t a = 0; a < d->arms->count; a++)
        for (size_t r = 0; r < d->arms->arms[a].summary.runs; r++) {
            const kvs_run_summary *run = &d->arms->arms[a].runs[r]->summary;
            const double a_step = (double)run->tokens / (double)run->steps;

            least = fmin(least, a_step);
            most = fmax(most, a_step);
            d->last_step = run->steps > d->last_step ? run->steps : d->last_step;
            d->last_token = fmax(d->last_token, (double)run->tokens);
        }
    d->same_tokens = most <= 1.01 * least && most > 0;
    d->smoothed = d->last_step / 30 + 1;
}

static void write_script(drawing *d)
{
    const int below = d->arms->difference_count > 0, twice = !d->same_tokens && d->last_token > 0;

    d->height = LOSSES + (below ? DIFFERENCES : 0) + (twice ? LOSSES : 0);
    kvsi_text_format(&d->script,
                     "set terminal svg noenhanced size %d,%.0f name 'losses' "
                     "font 'sans-serif,15' background '#ffffff'\n",
                     WIDTH, d->height);
    kvsi_gnuplot_style(&d->script);
    for (size_t i = 0; i < d->arms->count; i++)
        add_arm(d, d->arms->arms + i, i);
    for (size_t i = 0; i < d->arms->difference_count; i++)
        add_difference(d, d->arms->differences + i, i);
    kvsi_text_add(&d->script, "set multiplot\n");
    draw_against_steps(d);
    if (below)
        draw_differences(d);
    if (twice)
        draw_against_tokens(d);
    kvsi_text_add(&d->script, "unset multiplot\n");
}

kvs_status kvsi_plot_losses(char **svg, const kvsi_arms *arms, kvs_err *err)
{
    drawing d = {
        .arms = arms, .losses = {INFINITY, -INFINITY}, .differences = {INFINITY, -INFINITY}};
    kvs_status st;

    measure(&d);
    write_script(&d);
    st = kvsi_gnuplot_draw(svg, &d.script, err);
    kvsi_text_release(&d.script);
    return st;
}
