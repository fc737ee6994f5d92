/* The loss of theorem 3 over the paper's square: contours, and lines of steepest descent. */
#include "base/files.h"
#include "base/memory.h"
#include "kvshift/kvshift_lab.h"
#include "report/gnuplot.h"
#include "report/plot.h"
#include "report/streamlines.h"

#include <math.h>
#include <stdio.h>

/* Sizes in pixels: a panel with labels, the square in it, and the line of text below all. */
enum { GRID = 40, LEVELS = 12, PANEL_WIDTH = 390, PANEL_HEIGHT = 330, SIDE = 225, WORDS = 30 };

static kvs_status loss_at(double *loss, const kvs_theorem3 *problem, double alpha1, double beta1,
                          kvs_err *err)
{
    const kvs_coefficients at = kvs_square(alpha1, beta1);

    return kvs_theorem3_loss(loss, NULL, problem, &at, err);
}

/* Downhill, along the square. */
static void descent_at(const void *user, double x, double y, double *dx, double *dy)
{
    const kvs_coefficients at = kvs_square(x, y);
    kvs_coefficients g = {0};
    double loss;

    kvs_theorem3_loss(&loss, &g, user, &at, NULL); /* cannot fail: the grid was computed with it */
    *dx = g.alpha2 - g.alpha1;
    *dy = g.beta2 - g.beta1;
}

/* 1, 2 or 5 times a power of ten that cuts `range` into about LEVELS. */
static double nice_step(double range)
{
    const double rough = range / LEVELS, power = pow(10, floor(log10(rough)));
    const double digit = rough / power;

    return power * (digit < 1.5 ? 1 : digit < 3.5 ? 2 : digit < 7.5 ? 5 : 10);
}

static kvs_status add_grid(kvsi_text *script, const kvs_theorem3 *problem, size_t number,
                           kvs_err *err)
{
    double low = INFINITY, high = -INFINITY, step;

    kvsi_text_format(script, "$grid%zu << END\n", number);
    for (size_t b = 0; b <= GRID; b++) {
        for (size_t a = 0; a <= GRID; a++) {
            const double x = (double)a / GRID, y = (double)b / GRID;
            double loss = 0;

            TRY(loss_at(&loss, problem, x, y, err));
            kvsi_text_format(script, "%.4f %.4f %.9g\n", x, y, loss);
            low = fmin(low, loss);
            high = fmax(high, loss);
        }
        kvsi_text_add(script, "\n");
    }
    step = high > low ? nice_step(high - low) : 1;
    kvsi_text_format(script,
                     "END\nset contour base\nunset surface\n"
                     "set cntrparam levels incremental %.9g, %.9g, %.9g\n"
                     "set table $contour%zu\nsplot $grid%zu\nunset table\n",
                     ceil(low / step) * step, step, high, number, number);
    return KVS_OK;
}

static void add_title(kvsi_text *script, const kvs_theorem3 *p)
{
    static const char *const forms[] = {[KVS_THEOREM3_EXACT] = "exact, T",
                                        [KVS_THEOREM3_PRINTED] = "as printed, T",
                                        [KVS_THEOREM3_FIGURE] = "the paper''s figure, O(T)"};

    kvsi_text_format(script, "set title '%s = %zu' offset 0,-0.4\n", forms[p->form], p->T);
}

typedef struct layout {
    size_t rows, columns;
    double width, height;
} layout;

static layout layout_of(size_t count, size_t columns)
{
    const size_t rows = (count + columns - 1) / columns;

    return (layout){.rows = rows,
                    .columns = columns,
                    .width = (double)(columns * PANEL_WIDTH),
                    .height = (double)(rows * PANEL_HEIGHT + WORDS)};
}

/* Places the square of panel `number`. */
static void add_place(kvsi_text *script, const layout *l, size_t number)
{
    const size_t row = number / l->columns, column = number % l->columns;
    const double left = (double)(column * PANEL_WIDTH + 80);
    const double top = l->height - (double)(row * PANEL_HEIGHT + 42);

    kvsi_gnuplot_place(script, left / l->width, (left + SIDE) / l->width, top / l->height,
                       (top - SIDE) / l->height);
}

static void add_words(kvsi_text *script, const layout *l)
{
    kvsi_text_format(script,
                     "set label 'contours of the loss in nats, and lines of steepest descent; the "
                     "dot is the induction head' at screen 0.5, screen %.5f center font ',12'\n",
                     0.6 * WORDS / l->height);
}

static kvs_status add_panel(kvsi_text *script, const layout *l, const kvs_theorem3 *problem,
                            size_t number, kvs_err *err)
{
    const kvsi_field field = {descent_at, problem};
    char name[32];

    TRY(add_grid(script, problem, number, err));
    snprintf(name, sizeof name, "down%zu", number);
    kvsi_streamlines_add(script, name, &field);
    add_title(script, problem);
    add_place(script, l, number);
    kvsi_text_format(script,
                     "plot $%s_lines with lines linewidth 0.7 linecolor rgb '#9a9a9a' notitle, "
                     "$%s_arrows using 1:2:3:4 with vectors head filled size 0.03,22 fixed "
                     "linewidth 0.7 linecolor rgb '#7f7f7f' notitle, "
                     "$contour%zu with lines linewidth 1.4 linecolor palette notitle, "
                     "'+' using (0):(1) every ::::0 with points pointtype 7 pointsize 0.9 "
                     "linecolor rgb '#d55e00' notitle\n",
                     name, name, number);
    return KVS_OK;
}

static void add_frame(kvsi_text *script, const layout *l)
{
    kvsi_gnuplot_begin(script, "landscape", l->width, l->height, 13);
    kvsi_gnuplot_style(script);
    kvsi_text_add(script,
                  "unset grid\nset border 15\nset key off\n"
                  "set palette defined (0 '#440154', 0.5 '#21908c', 1 '#b8b000')\n"
                  "set cbtics format '%.5g' font ',10'\n"
                  "set xrange [0:1]\nset yrange [0:1]\nset xtics 0.25\nset ytics 0.25\n"
                  "set xlabel 'α1, keys' offset 0,0.6\nset ylabel 'β1, values' offset 0.8,0\n"
                  "set multiplot\n");
}

kvs_status kvsi_plot_landscape(char **svg, const kvs_theorem3 *panels, size_t count, size_t columns,
                               kvs_err *err)
{
    kvsi_text script = {0};
    kvs_status st;
    layout l;

    *svg = NULL;
    if (count < 1 || count > KVS_PANELS_MAX || columns < 1)
        return kvsi_fail(err, KVS_E_INVALID, "%zu panels in %zu columns, expected 1 to %d", count,
                         columns, KVS_PANELS_MAX);
    l = layout_of(count, columns < count ? columns : count);
    add_frame(&script, &l);
    for (size_t i = 0; i < count; i++) {
        if (i + 1 == count) /* a label would be drawn again with each later panel */
            add_words(&script, &l);
        TRY_OUT(add_panel(&script, &l, panels + i, i, err));
    }
    kvsi_text_add(&script, "unset multiplot\n");
    TRY_OUT(kvsi_gnuplot_draw(svg, &script, err));
out:
    kvsi_text_release(&script);
    return st;
}

kvs_status kvs_landscape_draw(const char *svg, const kvs_theorem3 *panels, size_t count,
                              size_t columns, kvs_err *err)
{
    char *drawn = NULL;
    kvs_status st;

    NEED(svg);
    NEED_ARRAY(panels, count);
    TRY_OUT(kvsi_plot_landscape(&drawn, panels, count, columns, err));
    TRY_OUT(kvsi_file_write_text(svg, drawn, err));
out:
    kvsi_free(drawn);
    return st;
}
