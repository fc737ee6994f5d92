/* report/streamlines.h - evenly spaced lines along a vector field on the unit square. */
#ifndef KVSI_REPORT_STREAMLINES_H
#define KVSI_REPORT_STREAMLINES_H

#include "base/text.h"

/* Direction at (x, y), of any length; 0, 0 = none. */
typedef struct kvsi_field {
    void (*at)(const void *user, double x, double y, double *dx, double *dy);
    const void *user;
} kvsi_field;

/* Appends two blocks of gnuplot data: the lines, with an empty line between them, as `$NAME_lines`;
 * and in the middle of each a short arrow (x y dx dy) as `$NAME_arrows`. */
void kvsi_streamlines_add(kvsi_text *script, const char *name, const kvsi_field *field);

#endif
