/* report/table.h - tables that are printed as plain text, HTML, Markdown or CSV.
 *
 *     kvsi_table table = {.left = 1};
 *     kvsi_table_headings(&table, "run|layers|loss");
 *     kvsi_table_add(&table, "%zu", layers); ...      cell by cell, row by row
 *     kvsi_table_to_text(&text, &table);
 *     kvsi_table_release(&table);
 *
 * If memory runs out, the text that the table is printed to fails its check. */
#ifndef KVSI_REPORT_TABLE_H
#define KVSI_REPORT_TABLE_H

#include "base/text.h"

typedef struct kvsi_table {
    size_t columns;
    size_t left;     /* this many columns are aligned left, the others right */
    size_t cells;    /* added so far; the first `columns` are the headings */
    kvsi_text words; /* all cells, each with its NUL; a bold one starts with BOLD of table.c */
    int bold;        /* the next cell is */
} kvsi_table;

/* Adds headings separated by '|' to a table without cells, and sets its number of columns. */
void kvsi_table_headings(kvsi_table *table, const char *headings);
void kvsi_table_add(kvsi_table *table, const char *format, ...)
    __attribute__((format(printf, 2, 3)));
/* The next cell is bold; plain text marks it with a star, CSV does not mark it. */
void kvsi_table_bold(kvsi_table *table);
void kvsi_table_to_text(kvsi_text *out, const kvsi_table *table);
void kvsi_table_to_html(kvsi_text *out, const kvsi_table *table);
void kvsi_table_to_markdown(kvsi_text *out, const kvsi_table *table);
void kvsi_table_to_csv(kvsi_text *out, const kvsi_table *table);
void kvsi_table_release(kvsi_table *table);

#endif
