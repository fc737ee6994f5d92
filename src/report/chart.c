#include "report/chart.h"

#include "base/memory.h"
#include "report/gnuplot.h"

#include <math.h>
#include <stdio.h>

/* ---- collecting ------------------------------------------------------------------------------ */

kvsi_panel *kvsi_chart_panel(kvsi_chart *chart, const char *title, const char *x_label,
                             const char *y_label)
{
    kvsi_panel *panel = chart->panels + chart->panel_count;

    if (chart->panel_count == KVSI_PANELS_MAX) {
        chart->failed = 1;
        panel--;
    } else {
        chart->panel_count++;
    }
    *panel = (kvsi_panel){
        .x_label = x_label,
        .y_label = y_label,
        .x_low = NAN,
        .x_high = NAN,
        .y_low = NAN,
        .y_high = NAN,
        .key = "inside bottom right",
    };
    snprintf(panel->title, sizeof panel->title, "%s", title);
    return panel;
}

kvsi_series *kvsi_chart_series(kvsi_chart *chart, kvsi_series_style style, size_t colour,
                               const char *label)
{
    kvsi_series *series = NULL;

    if (chart->series_count < KVSI_SERIES_MAX && chart->panel_count > 0)
        series = kvsi_alloc(1, sizeof *series);
    if (!series) {
        chart->failed = 1;
        return NULL;
    }
    series->style = style;
    series->colour = colour;
    series->panel = chart->panel_count - 1;
    for (int axis = 0; axis < 2; axis++) {
        series->low[axis] = INFINITY;
        series->high[axis] = -INFINITY;
    }
    snprintf(series->label, sizeof series->label, "%s", label);
    chart->series[chart->series_count++] = series;
    return series;
}

static void widen(kvsi_series *series, int axis, double value)
{
    series->low[axis] = fmin(series->low[axis], value);
    series->high[axis] = fmax(series->high[axis], value);
}

void kvsi_series_add(kvsi_series *series, double x, double y, double error)
{
    if (!series || !isfinite(x) || !isfinite(y))
        return;
    widen(series, 0, x);
    widen(series, 1, y);
    kvsi_text_format(&series->block, "%.10g %.10g %.6g\n", x, y, isnan(error) ? 0 : error);
    kvsi_text_format(&series->csv, "%.10g,%.10g,", x, y);
    if (!isnan(error))
        kvsi_text_format(&series->csv, "%.6g", error);
    kvsi_text_add(&series->csv, "\n");
    series->count++;
    series->has_errors |= error > 0;
}

void kvsi_chart_release(kvsi_chart *chart)
{
    for (size_t i = 0; i < chart->series_count; i++) {
        kvsi_text_release(&chart->series[i]->block);
        kvsi_text_release(&chart->series[i]->csv);
        kvsi_free(chart->series[i]);
    }
    chart->series_count = chart->panel_count = 0;
}

static kvs_status check(const kvsi_chart *chart, kvs_err *err)
{
    kvs_status st = KVS_OK;

    if (chart->failed)
        return kvsi_fail(err, KVS_E_LIMIT, "the figure '%s' is too large", chart->name);
    for (size_t i = 0; st == KVS_OK && i < chart->series_count; i++)
        st = kvsi_text_check(&chart->series[i]->csv, err);
    return st;
}

/* ---- CSV ------------------------------------------------------------------------------------- */

/* A word of a CSV file. */
static void add_word(kvsi_text *out, const char *word)
{
    kvsi_text_add(out, "\"");
    for (; *word; word++)
        kvsi_text_add_bytes(out, *word == '"' ? "'" : word, 1);
    kvsi_text_add(out, "\",");
}

/* Its lines, each with the names before it. */
static void add_series(kvsi_text *out, const char *panel, const kvsi_series *series)
{
    const char *line = series->csv.data ? series->csv.data : "";

    while (*line) {
        size_t length = 0;

        while (line[length] != '\n')
            length++;
        add_word(out, panel);
        add_word(out, series->label);
        kvsi_text_add_bytes(out, line, length + 1);
        line += length + 1;
    }
}

kvs_status kvsi_chart_csv(kvsi_text *out, const kvsi_chart *chart, kvs_err *err)
{
    TRY(check(chart, err));
    kvsi_text_add(out, "panel,series,x,y,error\n");
    for (size_t i = 0; i < chart->series_count; i++)
        add_series(out, chart->panels[chart->series[i]->panel].title, chart->series[i]);
    return kvsi_text_check(out, err);
}

/* ---- gnuplot --------------------------------------------------------------------------------- */

/* "[low:high]", with what is left open left open. */
static void add_range(kvsi_text *script, const char *axis, double low, double high)
{
    kvsi_text_format(script, "set %srange [", axis);
    if (!isnan(low))
        kvsi_text_format(script, "%.10g", low);
    kvsi_text_add(script, ":");
    if (!isnan(high))
        kvsi_text_format(script, "%.10g", high);
    kvsi_text_add(script, "]\n");
}

/* About five numbers with few digits: 4.2, 4.4, 4.6, ... */
static void add_even_tics(kvsi_text *script, double low, double high)
{
    static const double digits[] = {1, 2, 5, 10};
    const double power = pow(10, floor(log10((high - low) / 5)));
    size_t d = 0;
    long first, last;
    double step;

    while (d < 3 && (high - low) / (digits[d] * power) > 6)
        d++;
    step = digits[d] * power;
    first = (long)ceil(low / step);
    last = (long)floor(high / step);
    for (long i = first; i <= last; i++)
        kvsi_text_format(script, "%s%.10g", i > first ? ", " : "", (double)i * step);
}

/* 1, 2, 5, 10, 20, ... */
static void add_decimal_tics(kvsi_text *script, double low, double high)
{
    static const double digits[] = {1, 2, 5};
    const char *between = "";

    for (int power = (int)floor(log10(low)); power <= (int)floor(log10(high)); power++)
        for (size_t d = 0; d < 3; d++) {
            const double tic = digits[d] * pow(10, power);

            if (tic < low * 0.999 || tic > high * 1.001)
                continue;
            kvsi_text_format(script, "%s%.10g", between, tic);
            between = ", ";
        }
}

/* gnuplot labels whole powers alone, of which a narrow range may have none. */
static void add_log_axis(kvsi_text *script, const char *axis, int base, double low, double high)
{
    kvsi_text_format(script, "set logscale %s %d\n", axis, base);
    if (base != 10 || !(low > 0) || !(high > low) || high / low >= 200)
        return;
    kvsi_text_format(script, "set %stics (", axis);
    if (high / low < 4)
        add_even_tics(script, low, high);
    else
        add_decimal_tics(script, low, high);
    kvsi_text_add(script, ")\n");
}

/* What all series of a panel need. */
static void measure(double low[2], double high[2], const kvsi_chart *chart, size_t panel)
{
    for (int axis = 0; axis < 2; axis++) {
        low[axis] = INFINITY;
        high[axis] = -INFINITY;
    }
    for (size_t i = 0; i < chart->series_count; i++)
        for (int axis = 0; axis < 2 && chart->series[i]->panel == panel; axis++) {
            low[axis] = fmin(low[axis], chart->series[i]->low[axis]);
            high[axis] = fmax(high[axis], chart->series[i]->high[axis]);
        }
}

/* A logarithmic axis goes as far as there are points, and a little further. */
static void add_axis(kvsi_text *script, const char *axis, int base, const double given[2],
                     const double found[2])
{
    double low = given[0], high = given[1];

    kvsi_text_format(script, "unset logscale %s\nset %stics autofreq\n", axis, axis);
    if (base > 0 && found[0] > 0 && found[1] > found[0]) {
        const double room = pow(found[1] / found[0], 0.03);

        low = isnan(low) ? found[0] / room : low;
        high = isnan(high) ? found[1] * room : high;
        add_log_axis(script, axis, base, low, high);
    }
    add_range(script, axis, low, high);
}

static void add_label(kvsi_text *script, const char *what, const char *words)
{
    kvsi_text_format(script, "set %s ", what);
    kvsi_gnuplot_quote(script, words);
    kvsi_text_add(script, "\n");
}

/* Names instead of numbers, from the top down. */
static void add_rows(kvsi_text *script, const kvsi_panel *panel)
{
    kvsi_text_format(script, "set yrange [%zu.6:-0.6]\nset ytics (", panel->row_count - 1);
    for (size_t i = 0; i < panel->row_count; i++) {
        kvsi_text_add(script, i ? ", " : "");
        kvsi_gnuplot_quote(script, panel->rows[i]);
        kvsi_text_format(script, " %zu", i);
    }
    kvsi_text_add(script, ")\nset grid xtics\n");
}

static void add_axes(kvsi_text *script, const kvsi_chart *chart, size_t number)
{
    const kvsi_panel *panel = chart->panels + number;
    double low[2], high[2];

    measure(low, high, chart, number);
    add_label(script, "title", panel->title);
    add_label(script, "xlabel", panel->x_label);
    add_label(script, "ylabel", panel->y_label);
    kvsi_text_format(script, "set format x '%s'\nset format y '%s'\n",
                     panel->x_format ? panel->x_format : "%h",
                     panel->y_format ? panel->y_format : "%h");
    kvsi_text_add(script, "unset grid\n"
                          "set grid ytics linetype 1 linewidth 0.6 linecolor rgb '#bfbfbf'\n");
    add_axis(script, "x", panel->log_x, (double[2]){panel->x_low, panel->x_high},
             (double[2]){low[0], high[0]});
    add_axis(script, "y", panel->log_y, (double[2]){panel->y_low, panel->y_high},
             (double[2]){low[1], high[1]});
    if (panel->y_step > 0)
        kvsi_text_format(script, "set ytics %.10g\n", panel->y_step);
    if (panel->row_count > 0)
        add_rows(script, panel);
    if (panel->key)
        kvsi_text_format(script, "set key %s noopaque samplen 2\n", panel->key);
    else
        kvsi_text_add(script, "unset key\n");
}

/* Dashes and shapes help where colours do not. */
static void add_style(kvsi_text *script, const kvsi_series *s)
{
    static const int shapes[] = {7, 5, 9, 13, 11, 15, 6, 4, 8, 12, 10, 14}; /* filled, hollow */
    static const char *const dashes[] = {"1", "(12,4)", "(4,3)", "(14,4,3,4)"};
    const char *colour = kvsi_gnuplot_colour(s->colour);
    const int shape = shapes[s->colour % 12];

    switch (s->style) {
    case KVSI_LINE:
        kvsi_text_format(script, "with lines linewidth 2.4 linecolor rgb '#%s' dashtype %s", colour,
                         dashes[s->colour % 4]);
        break;
    case KVSI_THIN:
        kvsi_text_format(script, "with lines linewidth 0.8 linecolor rgb '#70%s'", colour);
        break;
    case KVSI_DASHED:
        kvsi_text_format(script, "with lines linewidth 1.6 linecolor rgb '#%s' dashtype (5,4)",
                         colour);
        break;
    case KVSI_MARKS:
        kvsi_text_format(script, "with points pointtype %d pointsize 0.9 linecolor rgb '#%s'",
                         shape, colour);
        break;
    case KVSI_RULE:
        kvsi_text_add(script, "with lines linewidth 1 linecolor rgb '#7f7f7f'");
        break;
    case KVSI_DOTS:
        kvsi_text_format(script, "with points pointtype 6 pointsize 0.5 linecolor rgb '#%s'",
                         colour);
        break;
    case KVSI_MARKED:
        kvsi_text_format(script,
                         "with linespoints linewidth 2 pointtype %d pointsize 0.7 linecolor rgb "
                         "'#%s'",
                         shape, colour);
        break;
    }
}

/* Bars are arrows with flat heads, because gnuplot's own erase what is below.  Where rows have
 * names they lie along the other axis.  A curve of many points gets a dozen. */
static void add_bars(kvsi_text *script, const kvsi_series *s, size_t number, int along_x)
{
    const size_t every = s->style == KVSI_LINE ? s->count / 12 + 1 : 1;

    kvsi_text_format(script, ", $s%zu using %s every %zu::%zu", number,
                     along_x ? "($1-$3):2:(2*$3):(0)" : "1:($2-$3):(0):(2*$3)", every,
                     (s->count - 1) % every);
    kvsi_text_format(script,
                     " with vectors heads size screen 0.004,90 linewidth 1.4 linecolor rgb '#%s' "
                     "notitle",
                     kvsi_gnuplot_colour(s->colour));
}

static void add_plot(kvsi_text *script, const kvsi_chart *chart, size_t panel)
{
    kvsi_text_add(script, "plot NaN notitle");
    for (size_t i = 0; i < chart->series_count; i++) {
        const kvsi_series *s = chart->series[i];

        if (s->panel != panel || s->count == 0)
            continue;
        kvsi_text_format(script, ", $s%zu using 1:2 ", i);
        add_style(script, s);
        if (*s->label && s->style != KVSI_THIN) {
            kvsi_text_add(script, " title ");
            kvsi_gnuplot_quote(script, s->label);
        } else {
            kvsi_text_add(script, " notitle");
        }
        if (s->has_errors)
            add_bars(script, s, i, chart->panels[panel].row_count > 0);
    }
    kvsi_text_add(script, "\n");
}

/* Panels stand side by side, those with names of rows below each other. */
static void write_script(kvsi_text *script, const kvsi_chart *chart)
{
    const size_t panels = chart->panel_count, rows = chart->panels[0].row_count;
    const size_t width = panels == 1 ? 900 : panels == 2 ? 1100 : 1200;
    const size_t height = rows > 0 ? 130 + 34 * rows : panels == 1 ? 460 : 400;

    kvsi_text_format(script,
                     "set terminal svg noenhanced size %zu,%zu name 'figure' font "
                     "'sans-serif,15' background '#ffffff'\n",
                     width, height);
    kvsi_gnuplot_style(script);
    for (size_t i = 0; i < chart->series_count; i++)
        kvsi_text_format(script, "$s%zu << END\n%sEND\n", i,
                         chart->series[i]->block.data ? chart->series[i]->block.data : "");
    kvsi_text_format(script, "set multiplot layout 1,%zu\n", panels);
    for (size_t p = 0; p < panels; p++) {
        add_axes(script, chart, p);
        add_plot(script, chart, p);
    }
    kvsi_text_add(script, "unset multiplot\n");
}

kvs_status kvsi_chart_draw(char **svg, const kvsi_chart *chart, kvs_err *err)
{
    kvsi_text script = {0};
    kvs_status st;

    *svg = NULL;
    TRY_OUT(check(chart, err));
    write_script(&script, chart);
    TRY_OUT(kvsi_gnuplot_draw(svg, &script, err));
out:
    kvsi_text_release(&script);
    return st;
}
