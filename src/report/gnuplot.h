/* report/gnuplot.h - what drawings share: the program, words for it, colours and axes. */
#ifndef KVSI_REPORT_GNUPLOT_H
#define KVSI_REPORT_GNUPLOT_H

#include "base/text.h"

/* Runs the script and takes the SVG (kvsi_free); a script that ran out of memory fails here. */
kvs_status kvsi_gnuplot_draw(char **svg, const kvsi_text *script, kvs_err *err);
/* Words of others as a gnuplot string. */
void kvsi_gnuplot_quote(kvsi_text *script, const char *words);
/* Border, tics and grid; terminal and sizes are the drawing's own. */
void kvsi_gnuplot_style(kvsi_text *script);
/* The colours of Okabe and Ito, which stay apart for colour-blind readers; they repeat after 6. */
const char *kvsi_gnuplot_colour(size_t index); /* "0072b2" */

#endif
