/* report/page.h - pages of text, tables and charts, block by block, as HTML or as Markdown.
 *
 * An HTML page is one file without scripts that loads nothing: charts are part of it.  Markdown
 * refers to charts as files beside it.
 *
 *     kvsi_page page = {.markdown = 0};
 *     kvsi_page_begin(&page, "Training runs");
 *     kvsi_page_paragraph(&page, NULL, "...");
 *     TRY_OUT(kvsi_page_write(&page, path, err));     one check for all that was added
 * out:
 *     kvsi_page_release(&page);
 *
 * All texts are plain text, which is escaped where needed. */
#ifndef KVSI_REPORT_PAGE_H
#define KVSI_REPORT_PAGE_H

#include "report/table.h"

typedef struct kvsi_page {
    kvsi_text text;
    int markdown; /* otherwise HTML */
} kvsi_page;

void kvsi_page_begin(kvsi_page *page, const char *title);
void kvsi_page_heading(kvsi_page *page, int level, const char *text); /* level 2 or 3 */
/* `lead` is bold and comes first; NULL = none. */
void kvsi_page_paragraph(kvsi_page *page, const char *lead, const char *text);
/* A paragraph of secondary text, in a softer colour. */
void kvsi_page_note(kvsi_page *page, const char *text);
/* A text that continues a prompt, with the prompt set apart. */
void kvsi_page_sample(kvsi_page *page, const char *lead, const char *prompt, const char *text);
void kvsi_page_code(kvsi_page *page, const char *text);
/* `svg` is a whole SVG file; Markdown refers to NAME.svg instead. */
void kvsi_page_figure(kvsi_page *page, const char *name, const char *svg, const char *caption);
/* Also releases the table. */
void kvsi_page_table(kvsi_page *page, kvsi_table *table);

/* Adds the end of the page and writes it. */
kvs_status kvsi_page_write(kvsi_page *page, const char *path, kvs_err *err);
void kvsi_page_release(kvsi_page *page);

#endif
