/* report/page.h - one self-contained page: curves, table, commands; no script, nothing fetched. */
#ifndef KVSI_REPORT_PAGE_H
#define KVSI_REPORT_PAGE_H

#include "base/text.h"
#include "report/run.h"

/* `svg` is a whole SVG file; it is put into the page. */
void kvsi_page_render(kvsi_text *page, const char *title, const kvsi_run *runs, size_t count,
                      const char *svg);

#endif
