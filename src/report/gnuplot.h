/* report/gnuplot.h - what drawings share: running gnuplot, quoting, colours, axes, placement. */
#ifndef KVSI_REPORT_GNUPLOT_H
#define KVSI_REPORT_GNUPLOT_H

#include "base/text.h"

/* Runs the script; *svg is a whole SVG file (kvsi_free).  KVS_E_UNSUPPORTED if gnuplot is not
 * installed.  Also reports a script that ran out of memory. */
kvs_status kvsi_gnuplot_draw(char **svg, const kvsi_text *script, kvs_err *err);

/* First lines of a script: SVG of that size in pixels, with text of `font` points. */
void kvsi_gnuplot_begin(kvsi_text *script, const char *id, double width, double height, int font);
/* Border, tics and grid of ordinary charts. */
void kvsi_gnuplot_style(kvsi_text *script);
/* Edges of the next plot's axes, as fractions of width and height, from the lower left corner. */
void kvsi_gnuplot_place(kvsi_text *script, double left, double right, double top, double bottom);
/* Any text as a gnuplot string. */
void kvsi_gnuplot_quote(kvsi_text *script, const char *text);

/* "0072b2": colours of Okabe and Ito, which colour-blind readers can tell apart; they repeat after
 * 6.  KVSI_GREY is a neutral one. */
#define KVSI_GREY ((size_t)-1)
const char *kvsi_gnuplot_colour(size_t index);

#endif
