/* report/chart.h - charts: series of points in one or more panels, as gnuplot's SVG and as CSV.
 *
 *     kvsi_chart chart = {.name = "accuracy", .caption = "..."};
 *     kvsi_panel *panel = kvsi_chart_panel(&chart, "", "training step", "accuracy");
 *     panel->log_x = 10;
 *     kvsi_series *series = kvsi_chart_series(&chart, KVSI_LINE, 0, "KV shifting, 1 layer");
 *     kvsi_series_add(series, step, accuracy, error);
 *     kvsi_findings_figure(findings, &chart);                       draws and releases it
 */
#ifndef KVSI_REPORT_CHART_H
#define KVSI_REPORT_CHART_H

#include "base/text.h"

enum { KVSI_PANELS_MAX = 4, KVSI_SERIES_MAX = 64, KVSI_ROWS_MAX = 24 };

typedef enum kvsi_series_style {
    KVSI_LINE,   /* with error bars where there are errors */
    KVSI_THIN,   /* one of many: pale, and not in the legend */
    KVSI_DASHED, /* a fit, or something to compare with */
    KVSI_MARKS,  /* points, with error bars */
    KVSI_MARKED, /* points, with error bars, and a line through them */
    KVSI_DOTS,   /* small points, one of many */
    KVSI_RULE,   /* where a number would mean nothing: grey, and not in the legend */
} kvsi_series_style;

typedef struct kvsi_series {
    char label[96]; /* "" = not in the legend */
    kvsi_series_style style;
    size_t colour, panel;
    kvsi_text csv;   /* "x,y,error" */
    kvsi_text block; /* the same for gnuplot */
    size_t count;
    int has_errors;
    double low[2], high[2]; /* of all x and of all y */
} kvsi_series;

typedef struct kvsi_panel {
    char title[96];
    const char *x_label, *y_label;       /* static */
    int log_x, log_y;                    /* the base of a logarithmic axis; 0 = linear */
    double x_low, x_high, y_low, y_high; /* NaN = as the points want it */
    double y_step;                       /* between numbers at the axis; 0 = gnuplot's */
    const char *x_format, *y_format;     /* of the numbers at the axes; NULL = gnuplot's */
    const char *key;                     /* where the legend is; NULL = none */
    /* Rows with names instead of numbers: a point's y is the number of its row, from the top. */
    char rows[KVSI_ROWS_MAX][64];
    size_t row_count;
} kvsi_panel;

typedef struct kvsi_chart {
    const char *name, *caption; /* borrowed */
    kvsi_panel panels[KVSI_PANELS_MAX];
    size_t panel_count;
    kvsi_series *series[KVSI_SERIES_MAX];
    size_t series_count;
    int failed; /* memory ran out, or there were too many of something */
} kvsi_chart;

/* Further series go into this panel.  Never NULL. */
kvsi_panel *kvsi_chart_panel(kvsi_chart *chart, const char *title, const char *x_label,
                             const char *y_label);
/* NULL if there is no room, which kvsi_series_add takes. */
kvsi_series *kvsi_chart_series(kvsi_chart *chart, kvsi_series_style style, size_t colour,
                               const char *label);
/* `error` NaN = none.  Points that are not finite are left out. */
void kvsi_series_add(kvsi_series *series, double x, double y, double error);

kvs_status kvsi_chart_draw(char **svg, const kvsi_chart *chart, kvs_err *err);
/* panel,series,x,y,error */
kvs_status kvsi_chart_csv(kvsi_text *out, const kvsi_chart *chart, kvs_err *err);
void kvsi_chart_release(kvsi_chart *chart);

#endif
