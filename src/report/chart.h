/* report/chart.h - charts: series of points in panels, as SVG (drawn by gnuplot) and as CSV.
 *
 *     kvsi_chart chart = {.name = "accuracy", .caption = "..."};
 *     kvsi_panel *panel = kvsi_chart_panel(&chart, "", "training step", "accuracy");
 *     panel->log_x = 10;
 *     kvsi_series *series = kvsi_chart_series(&chart, KVSI_LINE, 0, "KV shifting, 1 layer");
 *     kvsi_series_add(series, step, mean, error);
 *     TRY_OUT(kvsi_chart_draw(&svg, &chart, err));     one check for all that was added
 * out:
 *     kvsi_chart_release(&chart);
 */
#ifndef KVSI_REPORT_CHART_H
#define KVSI_REPORT_CHART_H

#include "base/text.h"
#include "report/gnuplot.h"

enum { KVSI_PANELS_MAX = 12, KVSI_SERIES_MAX = 4096, KVSI_ROWS_MAX = 24 };

/* Points with an error get error bars; a line of many points gets them at some of its points. */
typedef enum kvsi_series_style {
    KVSI_LINE,   /* solid or dashed, by colour */
    KVSI_MEAN,   /* solid, with small dots: the mean of several runs */
    KVSI_RUN,    /* one of the runs below a mean: thin, not in the legend */
    KVSI_THIN,   /* one of many lines: thin and pale, not in the legend */
    KVSI_PALE,   /* wide and pale, not in the legend */
    KVSI_DASHED, /* a fit, or a reference */
    KVSI_MARKS,  /* points */
    KVSI_MARKED, /* points with a line through them */
    KVSI_DOTS,   /* small points */
    KVSI_RULE,   /* a grey line, such as zero */
} kvsi_series_style;

typedef struct kvsi_point {
    double x, y, error; /* error: NaN = none */
} kvsi_point;

typedef struct kvsi_series {
    char *label; /* "" = not in the legend */
    kvsi_series_style style;
    size_t colour, panel;
    kvsi_point *points;
    size_t count, capacity;
    int failed; /* memory ran out */
} kvsi_series;

typedef struct kvsi_panel {
    char title[96];
    const char *x_label, *y_label; /* static */
    int log_x, log_y;              /* base of a logarithmic axis; 0 = linear */
    int decimal_x;                 /* label 1, 2, 5, 10, ... on a logarithmic axis, not 10^n */
    double x_low, x_high, y_low, y_high; /* NaN = from the points */
    double x_step, y_step;               /* between labels; 0 = chosen by gnuplot */
    const char *x_format, *y_format;     /* of labels; NULL = "%h" */
    const char *x2_label;                /* of an upper axis from 0 to x2_high; NULL = none */
    double x2_high;
    const char *key; /* position of the legend, in gnuplot's words; NULL = none */
    /* Panels stand side by side, or, if all have a height in pixels, below each other. */
    double height;
    double legend; /* pixels above it for a legend; 0 = the legend stands elsewhere */
    /* Rows with names instead of a y axis: a point's y is the number of its row, from the top. */
    char rows[KVSI_ROWS_MAX][64];
    size_t row_count;
} kvsi_panel;

typedef struct kvsi_chart {
    const char *name, *caption; /* borrowed */
    const char *id;             /* title of the SVG, one word; NULL = "figure" */
    kvsi_panel panels[KVSI_PANELS_MAX];
    size_t panel_count;
    kvsi_series *series[KVSI_SERIES_MAX];
    size_t series_count;
    int failed; /* memory ran out, or a limit was reached */
} kvsi_chart;

/* Later series go into this panel.  Never NULL. */
kvsi_panel *kvsi_chart_panel(kvsi_chart *chart, const char *title, const char *x_label,
                             const char *y_label);
/* NULL if memory or the limit is exhausted; kvsi_series_add accepts that. */
kvsi_series *kvsi_chart_series(kvsi_chart *chart, kvsi_series_style style, size_t colour,
                               const char *label);
/* `error` NaN = none.  Points that are not finite are left out. */
void kvsi_series_add(kvsi_series *series, double x, double y, double error);
/* A legend entry alone, in grey, for all series of a style that has none. */
void kvsi_chart_key(kvsi_chart *chart, kvsi_series_style style, const char *label);

/* *svg is a whole SVG file (kvsi_free). */
kvs_status kvsi_chart_draw(char **svg, const kvsi_chart *chart, kvs_err *err);
/* Columns panel,series,x,y,error. */
kvs_status kvsi_chart_csv(kvsi_text *out, const kvsi_chart *chart, kvs_err *err);
void kvsi_chart_release(kvsi_chart *chart);

#endif
