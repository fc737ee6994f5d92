/* report/grid.h - a table that can be shown as plain text, HTML and Markdown.
 *
 *     kvsi_grid grid = {.columns = 3, .left = 1};
 *     kvsi_grid_add(&grid, "run"); ...              the first `columns` cells are the headings
 *     kvsi_grid_add(&grid, "%zu", layers); ...      then row by row
 *     kvsi_grid_to_text(&text, &grid);
 *     kvsi_grid_release(&grid);
 *
 * Memory that runs out shows up in the text that the table is put into. */
#ifndef KVSI_REPORT_GRID_H
#define KVSI_REPORT_GRID_H

#include "base/text.h"

typedef struct kvsi_grid {
    size_t columns;
    size_t left;     /* so many columns, from the first on, are aligned left, the others right */
    size_t cells;    /* added so far */
    kvsi_text words; /* of all cells, each with its NUL */
} kvsi_grid;

void kvsi_grid_add(kvsi_grid *grid, const char *format, ...) __attribute__((format(printf, 2, 3)));
void kvsi_grid_to_text(kvsi_text *out, const kvsi_grid *grid);
void kvsi_grid_to_html(kvsi_text *out, const kvsi_grid *grid);
void kvsi_grid_to_markdown(kvsi_text *out, const kvsi_grid *grid);
void kvsi_grid_release(kvsi_grid *grid);

#endif
