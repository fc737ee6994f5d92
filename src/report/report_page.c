#include "report/report_page.h"

#include "report/report_tables.h"

#include <string.h>

/* The rules for svg give gnuplot's drawing the colours of the page, light or dark. */
static const char style[] =
    ":root { color-scheme: light dark; --ink: #1d1f21; --soft: #5c6166; --line: #dcdfe3;\n"
    "  --paper: #ffffff; --panel: #f6f7f9; }\n"
    "@media (prefers-color-scheme: dark) {\n"
    "  :root { --ink: #e6e8ea; --soft: #a2a8ae; --line: #3a3f45; --paper: #16181b;\n"
    "    --panel: #202327; }\n"
    "  figure svg { filter: brightness(1.2); } }\n"
    "body { margin: 0; background: var(--paper); color: var(--ink);\n"
    "  font: 16px/1.55 system-ui, sans-serif; }\n"
    "main { max-width: 60rem; margin: 0 auto; padding: 2.5rem 1.25rem 4rem; }\n"
    "h1 { font-size: 1.75rem; line-height: 1.2; margin: 0 0 .75rem; }\n"
    "h2 { font-size: 1.15rem; margin: 2.5rem 0 .75rem; }\n"
    "p { max-width: 44rem; margin: 0 0 .75rem; }\n"
    "figure { margin: 1.5rem 0 0; }\n"
    "figure svg { width: 100%; height: auto; display: block; pointer-events: none; }\n"
    "figure svg text { fill: var(--ink); }\n"
    "figure svg .gridline { stroke: var(--line); }\n"
    "figure svg > g > rect { fill: none; }\n"
    "figcaption, .soft { color: var(--soft); font-size: .9rem; }\n"
    ".wide { overflow-x: auto; margin-bottom: .75rem; }\n"
    "table { border-collapse: collapse; width: 100%; font-variant-numeric: tabular-nums; }\n"
    "th, td { padding: .45rem .7rem; text-align: right; white-space: nowrap;\n"
    "  border-bottom: 1px solid var(--line); }\n"
    "th { font-weight: 600; font-size: .9rem; color: var(--soft); vertical-align: bottom; }\n"
    ".left { text-align: left; }\n"
    "ul.remarks { border-left: 4px solid #e69f00; background: var(--panel); margin: 1rem 0;\n"
    "  padding: .6rem 1rem .6rem 2rem; }\n"
    "td:first-child { font-weight: 600; }\n"
    "table.claims th, table.claims td { white-space: normal; vertical-align: top; text-align: "
    "left; "
    "}\n"
    "table.claims small { display: block; font-weight: 400; color: var(--soft); }\n"
    ".reproduced { color: #0a7d4f; } .not-reproduced { color: #c4460a; }\n"
    ".not-at-this-scale { color: var(--soft); }\n"
    "pre { background: var(--panel); border-radius: 6px; padding: .8rem 1rem; margin: .25rem 0;\n"
    "  white-space: pre-wrap; overflow-wrap: anywhere; font: .85rem/1.5 ui-monospace, monospace; "
    "}\n"
    "h3 { font-size: 1rem; margin: 1.25rem 0 .25rem; }\n";

static const char explanation[] = "<p>Each run trains a model from the settings below. "
                                  "<b>Shift</b> says what its attention mixes\n"
                                  "with the tokens before, by a few learned numbers per head: keys "
                                  "(k), values (v), queries (q),\n"
                                  "or <i>none</i> for ordinary attention.</p>\n";

static const char accuracy_caption[] =
    "Share of right answers on fresh training data, mean of the last 20 batches.\n"
    "The step axis is logarithmic.";

static const char accuracy_notes[] =
    "<p class=\"soft\">Accuracy and loss are those of the finished model on sequences\n"
    "it was never trained on. The step is the first at which the mean of the last\n"
    "20 batches was at least 99&nbsp;%.</p>\n";

static const char loss_caption[] =
    "Strong lines: loss on the validation text, mean over the runs of an arm, with "
    "the\n"
    "standard error where there are several. Thin lines: single runs. Pale lines: loss on the\n"
    "training text, a running mean. The lower panel, if there is one, shows the difference "
    "between\n"
    "arms within each seed, with its standard error.";

static const char arms_notes[] =
    "<p class=\"soft\">An arm is all runs that differ in nothing but their seed. Loss is in nats "
    "a\n"
    "token on text the models were never trained on; ± is the standard error over the runs\n"
    "(sample standard deviation, with n&nbsp;−&nbsp;1, over √n). Perplexity is e to the mean\n"
    "loss. Tokens and time are means over the runs.</p>\n";

void kvsi_page_begin(kvsi_text *page, const char *title)
{
    kvsi_text_add(page, "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n"
                        "<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n"
                        "<title>");
    kvsi_text_add_xml(page, title);
    kvsi_text_format(page, "</title>\n<style>\n%s</style>\n</head>\n<body>\n<main>\n<h1>", style);
    kvsi_text_add_xml(page, title);
    kvsi_text_add(page, "</h1>\n");
}

void kvsi_page_end(kvsi_text *page)
{
    kvsi_text_add(page, "</main>\n</body>\n</html>\n");
}

static void add_remarks(kvsi_text *page, const kvs_report *report)
{
    if (report->remark_count == 0)
        return;
    kvsi_text_add(page, "<ul class=\"remarks\">\n");
    for (size_t i = 0; i < report->remark_count; i++) {
        kvsi_text_add(page, "<li>");
        kvsi_text_add_xml(page, report->remarks[i]);
        kvsi_text_add(page, "</li>\n");
    }
    kvsi_text_add(page, "</ul>\n");
}

/* Without the XML prologue, which has no place inside a page. */
void kvsi_page_figure(kvsi_text *page, const char *svg, const char *caption)
{
    const char *start = strstr(svg, "<svg");

    kvsi_text_format(page, "<figure>\n%s<figcaption>%s</figcaption>\n</figure>\n",
                     start ? start : svg, caption);
}

static void add_grid(kvsi_text *page, kvsi_table *table)
{
    kvsi_table_to_html(page, table);
    kvsi_table_release(table);
}

static void add_task_table(kvsi_text *page, const kvs_report *report)
{
    kvsi_table table;

    kvsi_text_add(page, "<h2>Results</h2>\n");
    kvsi_table_of_tasks(&table, report);
    add_grid(page, &table);
    kvsi_text_add(page, accuracy_notes);
}

static void add_difference(kvsi_text *page, const kvs_report *report, const kvsi_difference *d)
{
    const kvsi_arm *arms = report->arms.arms;
    kvsi_text words = {0};
    kvsi_table table;

    kvsi_text_add(page, "<h3>");
    kvsi_text_add_xml(page, arms[d->summary.arm].label);
    kvsi_text_add(page, " − ");
    kvsi_text_add_xml(page, arms[d->summary.baseline].label);
    kvsi_text_add(page, "</h3>\n");
    kvsi_table_of_difference(&table, report, d);
    add_grid(page, &table);
    kvsi_explain_difference(&words, report, d);
    kvsi_text_add(page, "<p class=\"soft\">");
    kvsi_text_add_xml(page, words.data ? words.data : "");
    kvsi_text_add(page, "</p>\n");
    page->failed |= words.failed;
    kvsi_text_release(&words);
}

static void add_text_tables(kvsi_text *page, const kvs_report *report)
{
    kvsi_table table;

    kvsi_text_add(page, "<h2>Results</h2>\n");
    kvsi_table_of_arms(&table, report);
    add_grid(page, &table);
    kvsi_text_add(page, arms_notes);
    if (report->arms.difference_count > 0)
        kvsi_text_add(page, "<h2>Seed by seed</h2>\n");
    for (size_t i = 0; i < report->arms.difference_count; i++)
        add_difference(page, report, report->arms.differences + i);
    if (report->arms.count > 1) {
        kvsi_text_add(page, "<h2>Settings that differ</h2>\n");
        kvsi_table_of_settings(&table, report);
        add_grid(page, &table);
    }
    kvsi_text_add(page, "<h2>Runs</h2>\n");
    kvsi_table_of_runs(&table, report);
    add_grid(page, &table);
}

static void add_commands(kvsi_text *page, const kvsi_run *runs, size_t count)
{
    kvsi_text_add(page, "<h2>Commands</h2>\n");
    for (size_t i = 0; i < count; i++) {
        kvsi_text_add(page, "<h3>");
        kvsi_text_add_xml(page, runs[i].summary.name);
        kvsi_text_add(page, "</h3>\n<pre>");
        kvsi_text_add_xml(page, *runs[i].command ? runs[i].command : "not recorded");
        kvsi_text_add(page, "</pre>\n<p class=\"soft\">kvshift ");
        kvsi_text_add_xml(page, runs[i].version);
        kvsi_text_format(page, ", %zu thread%s, CPU level ", runs[i].threads,
                         runs[i].threads == 1 ? "" : "s");
        kvsi_text_add_xml(page, *runs[i].cpu_level ? runs[i].cpu_level : "unknown");
        kvsi_text_add(page, "</p>\n");
    }
}

void kvsi_page_render(kvsi_text *page, const char *title, const kvs_report *report, const char *svg)
{
    kvsi_page_begin(page, title);
    kvsi_text_add(page, explanation);
    add_remarks(page, report);
    kvsi_page_figure(page, svg, report->is_text ? loss_caption : accuracy_caption);
    if (report->is_text)
        add_text_tables(page, report);
    else
        add_task_table(page, report);
    add_commands(page, report->runs, report->run_count);
    kvsi_page_end(page);
}
