/* report/page.h - one self-contained page: curves, tables, commands; no script, nothing fetched. */
#ifndef KVSI_REPORT_PAGE_H
#define KVSI_REPORT_PAGE_H

#include "report/report.h"

/* `svg` is a whole SVG file; it is put into the page. */
void kvsi_page_render(kvsi_text *page, const char *title, const kvs_report *report,
                      const char *svg);

#endif
