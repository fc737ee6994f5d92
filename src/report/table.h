/* report/table.h - a table that can be shown as plain text, HTML and Markdown.
 *
 *     kvsi_table table = {.columns = 3, .left = 1};
 *     kvsi_table_add(&table, "run"); ...              the first `columns` cells are the headings
 *     kvsi_table_add(&table, "%zu", layers); ...      then row by row
 *     kvsi_table_to_text(&text, &table);
 *     kvsi_table_release(&table);
 *
 * Memory that runs out shows up in the text that the table is put into. */
#ifndef KVSI_REPORT_TABLE_H
#define KVSI_REPORT_TABLE_H

#include "base/text.h"

typedef struct kvsi_table {
    size_t columns;
    size_t left;     /* so many columns, from the first on, are aligned left, the others right */
    size_t cells;    /* added so far */
    kvsi_text words; /* of all cells, each with its NUL */
} kvsi_table;

void kvsi_table_add(kvsi_table *table, const char *format, ...)
    __attribute__((format(printf, 2, 3)));
void kvsi_table_to_text(kvsi_text *out, const kvsi_table *table);
void kvsi_table_to_html(kvsi_text *out, const kvsi_table *table);
void kvsi_table_to_markdown(kvsi_text *out, const kvsi_table *table);
void kvsi_table_release(kvsi_table *table);

#endif
