#include "report/table.h"

#include "base/memory.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

enum { BOLD = '\x01' }; /* first byte of a bold cell */

void kvsi_table_bold(kvsi_table *table)
{
    table->bold = 1;
}

void kvsi_table_add(kvsi_table *table, const char *format, ...)
{
    const char mark = BOLD;
    char cell[512];
    va_list args;

    va_start(args, format);
    vsnprintf(cell, sizeof cell, format, args);
    va_end(args);
    if (table->bold)
        kvsi_text_add_bytes(&table->words, &mark, 1);
    table->bold = 0;
    kvsi_text_add_bytes(&table->words, cell, strlen(cell) + 1);
    table->cells++;
}

void kvsi_table_headings(kvsi_table *table, const char *headings)
{
    while (*headings) {
        const size_t length = strcspn(headings, "|");

        kvsi_table_add(table, "%.*s", (int)length, headings);
        headings += length + (headings[length] == '|');
    }
    table->columns = table->cells;
}

static const char *next_cell(const char *cell)
{
    return cell + strlen(cell) + 1;
}

/* In characters, not bytes; the mark of a bold cell stands for its star. */
static size_t width_of(const char *cell)
{
    size_t width = 0;

    for (; *cell; cell++)
        width += ((unsigned char)*cell & 0xc0) != 0x80;
    return width;
}

static void add_blanks(kvsi_text *out, size_t count)
{
    for (size_t i = 0; i < count; i++)
        kvsi_text_add(out, " ");
}

/* Control characters would act on a terminal. */
static void add_words(kvsi_text *out, const char *cell)
{
    const int bold = *cell == BOLD;

    for (cell += bold; *cell; cell++)
        kvsi_text_add_bytes(out, (unsigned char)*cell < 0x20 || *cell == 0x7f ? "?" : cell, 1);
    kvsi_text_add(out, bold ? "*" : "");
}

static void measure(size_t *widths, const kvsi_table *table)
{
    const char *cell = table->words.data;

    for (size_t i = 0; i < table->cells; i++, cell = next_cell(cell))
        if (width_of(cell) > widths[i % table->columns])
            widths[i % table->columns] = width_of(cell);
}

void kvsi_table_to_text(kvsi_text *out, const kvsi_table *table)
{
    size_t *widths = kvsi_alloc(table->columns, sizeof *widths);
    const char *cell = table->words.data;

    if (!widths || table->words.failed) {
        kvsi_free(widths);
        out->failed = 1;
        return;
    }
    measure(widths, table);
    for (size_t i = 0; i < table->cells; i++, cell = next_cell(cell)) {
        const size_t column = i % table->columns, blanks = widths[column] - width_of(cell);
        const int last = column + 1 == table->columns;

        kvsi_text_add(out, column > 0 ? "  " : "");
        add_blanks(out, column < table->left ? 0 : blanks);
        add_words(out, cell);
        add_blanks(out, column < table->left && !last ? blanks : 0);
        kvsi_text_add(out, last ? "\n" : "");
    }
    kvsi_free(widths);
}

void kvsi_table_to_html(kvsi_text *out, const kvsi_table *table)
{
    const char *cell = table->words.data;

    if (table->words.failed) {
        out->failed = 1;
        return;
    }
    kvsi_text_add(out, "<div class=\"wide\">\n<table>\n<thead>\n");
    for (size_t i = 0; i < table->cells; i++, cell = next_cell(cell)) {
        const size_t column = i % table->columns;
        const char *kind = i < table->columns ? "th" : "td";

        kvsi_text_format(out, "%s<%s%s>", column == 0 ? "<tr>" : "", kind,
                         column < table->left ? " class=\"left\"" : "");
        kvsi_text_add(out, *cell == BOLD ? "<b>" : "");
        kvsi_text_add_xml(out, cell + (*cell == BOLD));
        kvsi_text_add(out, *cell == BOLD ? "</b>" : "");
        kvsi_text_format(out, "</%s>%s", kind, column + 1 == table->columns ? "</tr>\n" : "");
        if (i + 1 == table->columns)
            kvsi_text_add(out, "</thead>\n<tbody>\n");
    }
    kvsi_text_add(out, "</tbody>\n</table>\n</div>\n");
}

static void add_markdown(kvsi_text *out, const char *cell)
{
    const int bold = *cell == BOLD;

    kvsi_text_add(out, bold ? "**" : "");
    for (cell += bold; *cell; cell++) {
        kvsi_text_add(out, *cell == '|' ? "\\" : "");
        kvsi_text_add_bytes(out, (unsigned char)*cell < 0x20 ? " " : cell, 1);
    }
    kvsi_text_add(out, bold ? "**" : "");
}

void kvsi_table_to_markdown(kvsi_text *out, const kvsi_table *table)
{
    const char *cell = table->words.data;

    if (table->words.failed) {
        out->failed = 1;
        return;
    }
    for (size_t i = 0; i < table->cells; i++, cell = next_cell(cell)) {
        kvsi_text_add(out, i % table->columns == 0 ? "| " : " ");
        add_markdown(out, cell);
        kvsi_text_add(out, " |");
        if ((i + 1) % table->columns == 0)
            kvsi_text_add(out, "\n");
        if (i + 1 != table->columns)
            continue;
        for (size_t c = 0; c < table->columns; c++)
            kvsi_text_add(out, c < table->left ? "|---" : "|---:");
        kvsi_text_add(out, "|\n");
    }
}

/* Cells with a comma, a quote or a line break are quoted (RFC 4180). */
static void add_csv(kvsi_text *out, const char *cell)
{
    const char *quote = strpbrk(cell, ",\"\r\n") ? "\"" : "";

    kvsi_text_add(out, quote);
    for (cell += *cell == BOLD; *cell; cell++) {
        kvsi_text_add(out, *cell == '"' ? "\"" : "");
        kvsi_text_add_bytes(out, cell, 1);
    }
    kvsi_text_add(out, quote);
}

void kvsi_table_to_csv(kvsi_text *out, const kvsi_table *table)
{
    const char *cell = table->words.data;

    if (table->words.failed) {
        out->failed = 1;
        return;
    }
    for (size_t i = 0; i < table->cells; i++, cell = next_cell(cell)) {
        add_csv(out, cell);
        kvsi_text_add(out, (i + 1) % table->columns == 0 ? "\n" : ",");
    }
}

void kvsi_table_release(kvsi_table *table)
{
    kvsi_text_release(&table->words);
}
