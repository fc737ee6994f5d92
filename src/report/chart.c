#include "report/chart.h"

#include "base/memory.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

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
    *series = (kvsi_series){.label = kvsi_strdup(label),
                            .style = style,
                            .colour = colour,
                            .panel = chart->panel_count - 1};
    series->failed = !series->label;
    chart->series[chart->series_count++] = series;
    return series;
}

void kvsi_chart_key(kvsi_chart *chart, kvsi_series_style style, const char *label)
{
    kvsi_chart_series(chart, style, KVSI_GREY, label);
}

static int grow(kvsi_series *series)
{
    const size_t capacity = 2 * series->capacity + 16;
    kvsi_point *points = kvsi_alloc(capacity, sizeof *points);

    if (!points)
        return 0;
    if (series->count > 0)
        memcpy(points, series->points, series->count * sizeof *points);
    kvsi_free(series->points);
    series->points = points;
    series->capacity = capacity;
    return 1;
}

void kvsi_series_add(kvsi_series *series, double x, double y, double error)
{
    if (!series || series->failed || !isfinite(x) || !isfinite(y))
        return;
    if (series->count == series->capacity && !grow(series))
        series->failed = 1;
    else
        series->points[series->count++] = (kvsi_point){x, y, error};
}

void kvsi_chart_release(kvsi_chart *chart)
{
    for (size_t i = 0; i < chart->series_count; i++) {
        kvsi_free(chart->series[i]->label);
        kvsi_free(chart->series[i]->points);
        kvsi_free(chart->series[i]);
    }
    chart->series_count = chart->panel_count = 0;
}

static kvs_status check(const kvsi_chart *chart, kvs_err *err)
{
    if (chart->failed)
        return kvsi_fail(err, KVS_E_LIMIT, "the chart '%s' is too large", chart->name);
    for (size_t i = 0; i < chart->series_count; i++)
        if (chart->series[i]->failed)
            return kvsi_fail(err, KVS_E_NOMEM, "out of memory for the chart '%s'", chart->name);
    return KVS_OK;
}

/* ---- CSV ------------------------------------------------------------------------------------- */

static void add_csv_text(kvsi_text *out, const char *text)
{
    kvsi_text_add(out, "\"");
    for (; *text; text++)
        kvsi_text_add_bytes(out, *text == '"' ? "'" : text, 1);
    kvsi_text_add(out, "\",");
}

kvs_status kvsi_chart_csv(kvsi_text *out, const kvsi_chart *chart, kvs_err *err)
{
    TRY(check(chart, err));
    kvsi_text_add(out, "panel,series,x,y,error\n");
    for (size_t i = 0; i < chart->series_count; i++) {
        const kvsi_series *series = chart->series[i];

        for (const kvsi_point *p = series->points; p < series->points + series->count; p++) {
            add_csv_text(out, chart->panels[series->panel].title);
            add_csv_text(out, series->label);
            kvsi_text_format(out, "%.10g,%.10g,", p->x, p->y);
            if (!isnan(p->error))
                kvsi_text_format(out, "%.6g", p->error);
            kvsi_text_add(out, "\n");
        }
    }
    return kvsi_text_check(out, err);
}

/* ---- axes ------------------------------------------------------------------------------------ */

/* About five labels with few digits: 4.2, 4.4, 4.6, ... */
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

/* gnuplot labels only whole powers, and a narrow range may contain none. */
static void add_log_axis(kvsi_text *script, const char *axis, int base, int decimal, double low,
                         double high)
{
    kvsi_text_format(script, "set logscale %s %d\n", axis, base);
    if (base != 10 || !(low > 0) || !(high > low) || (high / low >= 200 && !decimal))
        return;
    kvsi_text_format(script, "set %stics (", axis);
    if (high / low < 4 && !decimal)
        add_even_tics(script, low, high);
    else
        add_decimal_tics(script, low, high);
    kvsi_text_add(script, ")\n");
}

/* Ends of an axis that are NaN are left to gnuplot, except on a logarithmic axis, which goes a
 * little beyond its points, `found`. */
static void add_axis(kvsi_text *script, const char *axis, int base, int decimal,
                     const double given[2], const double found[2])
{
    double low = given[0], high = given[1];

    kvsi_text_format(script, "unset logscale %s\nset %stics autofreq\n", axis, axis);
    if (base > 0 && found[0] > 0 && found[1] > found[0]) {
        const double margin = pow(found[1] / found[0], 0.03);

        low = isnan(low) ? found[0] / margin : low;
        high = isnan(high) ? found[1] * margin : high;
        add_log_axis(script, axis, base, decimal, low, high);
    }
    kvsi_text_format(script, "set %srange [", axis);
    if (!isnan(low))
        kvsi_text_format(script, "%.10g", low);
    kvsi_text_add(script, ":");
    if (!isnan(high))
        kvsi_text_format(script, "%.10g", high);
    kvsi_text_add(script, "]\n");
}

static void add_label(kvsi_text *script, const char *what, const char *text, const char *offset)
{
    kvsi_text_format(script, "set %s ", what);
    kvsi_gnuplot_quote(script, text);
    kvsi_text_format(script, "%s\n", offset);
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

/* Ranges of x and y of all points of a panel. */
static void find_ranges(double x[2], double y[2], const kvsi_chart *chart, size_t panel)
{
    x[0] = y[0] = INFINITY;
    x[1] = y[1] = -INFINITY;
    for (size_t i = 0; i < chart->series_count; i++) {
        const kvsi_series *series = chart->series[i];

        for (size_t k = 0; series->panel == panel && k < series->count; k++) {
            x[0] = fmin(x[0], series->points[k].x);
            x[1] = fmax(x[1], series->points[k].x);
            y[0] = fmin(y[0], series->points[k].y);
            y[1] = fmax(y[1], series->points[k].y);
        }
    }
}

static void add_axes(kvsi_text *script, const kvsi_chart *chart, size_t number)
{
    const kvsi_panel *panel = chart->panels + number;
    const int stacked = panel->height > 0;
    double x[2], y[2];

    find_ranges(x, y, chart, number);
    add_label(script, "title", panel->title, stacked ? " offset 0,-0.4" : "");
    add_label(script, "xlabel", panel->x_label, stacked ? " offset 0,0.4" : "");
    add_label(script, "ylabel", panel->y_label, stacked ? " offset 0.8,0" : "");
    kvsi_text_format(script, "set format x '%s'\nset format y '%s'\n",
                     panel->x_format ? panel->x_format : "%h",
                     panel->y_format ? panel->y_format : "%h");
    kvsi_text_add(script, "unset grid\n"
                          "set grid ytics linetype 1 linewidth 0.6 linecolor rgb '#bfbfbf'\n");
    add_axis(script, "x", panel->log_x, panel->decimal_x, (double[2]){panel->x_low, panel->x_high},
             x);
    add_axis(script, "y", panel->log_y, 0, (double[2]){panel->y_low, panel->y_high}, y);
    if (panel->x_step > 0)
        kvsi_text_format(script, "set xtics %.10g\n", panel->x_step);
    if (panel->y_step > 0)
        kvsi_text_format(script, "set ytics %.10g\n", panel->y_step);
    if (panel->row_count > 0)
        add_rows(script, panel);
    if (panel->x2_label) {
        kvsi_text_format(script,
                         "set border 7\nset x2tics out scale 0.6\nset x2range [0:%.6g]\n"
                         "set format x2 '%%h'\n",
                         panel->x2_high);
        add_label(script, "x2label", panel->x2_label, " offset 0,-0.6");
    } else {
        kvsi_text_add(script, "set border 3\nunset x2tics\nunset x2label\n");
    }
    if (panel->key)
        kvsi_text_format(script, "set key noopaque samplen 2 %s\n", panel->key);
    else
        kvsi_text_add(script, "unset key\n");
}

/* ---- series ---------------------------------------------------------------------------------- */

/* Colours of 8 digits begin with their transparency.  Dashes and shapes help where colours do
 * not. */
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
    case KVSI_MEAN:
        kvsi_text_format(script, "with lines linewidth 2.4 linecolor rgb '#%s'", colour);
        break;
    case KVSI_RUN:
        kvsi_text_format(script, "with lines linewidth 0.8 linecolor rgb '#50%s'", colour);
        break;
    case KVSI_THIN:
        kvsi_text_format(script, "with lines linewidth 0.8 linecolor rgb '#70%s'", colour);
        break;
    case KVSI_PALE:
        kvsi_text_format(script, "with lines linewidth 2 linecolor rgb '#a0%s'", colour);
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

/* Every so many points of a line, counted from the last, have a mark. */
static size_t stride_of(const kvsi_series *s)
{
    return s->style == KVSI_LINE   ? s->count / 12 + 1
           : s->style == KVSI_MEAN ? s->count / 25 + 1
                                   : 1;
}

/* Error bars are arrows with flat heads, because gnuplot's own erase what is below them.  They are
 * horizontal in rows with names. */
static void add_bars(kvsi_text *script, const kvsi_series *s, size_t number, int horizontal)
{
    kvsi_text_format(script,
                     ", $s%zu using %s every %zu::%zu with vectors heads size screen 0.004,90 "
                     "linewidth %s linecolor rgb '#%s' notitle",
                     number, horizontal ? "($1-$3):2:(2*$3):(0)" : "1:($2-$3):(0):(2*$3)",
                     stride_of(s), (s->count - 1) % stride_of(s),
                     s->style == KVSI_MEAN ? "1.6" : "1.4", kvsi_gnuplot_colour(s->colour));
}

static int has_errors(const kvsi_series *s)
{
    for (size_t i = 0; i < s->count; i++)
        if (s->points[i].error > 0)
            return 1;
    return 0;
}

static void add_series(kvsi_text *script, const kvsi_series *s, size_t number, int horizontal)
{
    const int single = s->style == KVSI_THIN || s->style == KVSI_RUN || s->style == KVSI_PALE;
    const int key_only = s->colour == KVSI_GREY;

    if (key_only)
        kvsi_text_add(script, ", keyentry ");
    else
        kvsi_text_format(script, ", $s%zu using 1:2 ", number);
    add_style(script, s);
    if (*s->label && (!single || key_only)) {
        kvsi_text_add(script, " title ");
        kvsi_gnuplot_quote(script, s->label);
    } else {
        kvsi_text_add(script, " notitle");
    }
    if (s->style == KVSI_MEAN)
        kvsi_text_format(script,
                         ", $s%zu using 1:2 every %zu::%zu with points pointtype 7 pointsize 0.5 "
                         "linecolor rgb '#%s' notitle",
                         number, stride_of(s), (s->count - 1) % stride_of(s),
                         kvsi_gnuplot_colour(s->colour));
    if (has_errors(s))
        add_bars(script, s, number, horizontal);
}

static void add_plot(kvsi_text *script, const kvsi_chart *chart, size_t panel)
{
    kvsi_text_add(script, "plot NaN notitle");
    for (size_t i = 0; i < chart->series_count; i++) {
        const kvsi_series *s = chart->series[i];

        if (s->panel == panel && (s->count > 0 || s->colour == KVSI_GREY))
            add_series(script, s, i, chart->panels[panel].row_count > 0);
    }
    kvsi_text_add(script, "\n");
}

static void add_data(kvsi_text *script, const kvsi_series *s, size_t number)
{
    kvsi_text_format(script, "$s%zu << END\n", number);
    for (size_t i = 0; i < s->count; i++)
        kvsi_text_format(script, "%.10g %.10g %.6g\n", s->points[i].x, s->points[i].y,
                         isnan(s->points[i].error) ? 0 : s->points[i].error);
    kvsi_text_add(script, "END\n");
}

/* ---- panels ---------------------------------------------------------------------------------- */

/* Panels below each other have their left and right edges in common. */
static void place_stacked(kvsi_text *script, const kvsi_panel *panel, double used, double height)
{
    /* Space for labels. */
    const double above = (panel->x2_label ? 60 : 16) + (*panel->title ? 32 : 0) + panel->legend;
    const double below = *panel->x_label ? 66 : 44;

    kvsi_gnuplot_place(script, 0.1, 0.975, 1 - (used + above) / height,
                       1 - (used + panel->height - below) / height);
}

static void write_script(kvsi_text *script, const kvsi_chart *chart)
{
    const size_t panels = chart->panel_count, rows = chart->panels[0].row_count;
    double width = panels == 1 ? 900 : panels == 2 ? 1100 : 1200;
    double height = rows > 0 ? 130 + 34 * (double)rows : panels == 1 ? 460 : 400, used = 0;
    const int stacked = chart->panels[0].height > 0;

    if (stacked) {
        width = 900;
        height = 0;
        for (size_t p = 0; p < panels; p++)
            height += chart->panels[p].height;
    }
    kvsi_gnuplot_begin(script, chart->id ? chart->id : "figure", width, height, 15);
    kvsi_gnuplot_style(script);
    for (size_t i = 0; i < chart->series_count; i++)
        add_data(script, chart->series[i], i);
    if (stacked)
        kvsi_text_add(script, "set multiplot\n");
    else
        kvsi_text_format(script, "set multiplot layout 1,%zu\n", panels);
    for (size_t p = 0; p < panels; p++) {
        if (stacked)
            place_stacked(script, chart->panels + p, used, height);
        used += chart->panels[p].height;
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
