/* report/page.h - one self-contained page: curves, tables, commands; no script, nothing fetched. */
#ifndef KVSI_REPORT_PAGE_H
#define KVSI_REPORT_PAGE_H

#include "report/report.h"

/* What all pages have in common: everything up to the heading, and everything after the text. */
void kvsi_page_begin(kvsi_text *page, const char *title);
void kvsi_page_end(kvsi_text *page);
/* `svg` is a whole SVG file, which is put into the page; the caption is HTML. */
void kvsi_page_figure(kvsi_text *page, const char *svg, const char *caption);

void kvsi_page_render(kvsi_text *page, const char *title, const kvs_report *report,
                      const char *svg);

#endif
