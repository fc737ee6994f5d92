#include "report/page.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
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
    "th:nth-child(-n+2), td:nth-child(-n+2) { text-align: left; }\n"
    "td:first-child { font-weight: 600; }\n"
    "pre { background: var(--panel); border-radius: 6px; padding: .8rem 1rem; margin: .25rem 0;\n"
    "  white-space: pre-wrap; overflow-wrap: anywhere; font: .85rem/1.5 ui-monospace, monospace; "
    "}\n"
    "h3 { font-size: 1rem; margin: 1.25rem 0 .25rem; }\n";

static const char explanation[] = "<p>Each run trains a model from the settings below. "
                                  "<b>Shift</b> says what its attention mixes\n"
                                  "with the tokens before, by a few learned numbers per head: keys "
                                  "(k), values (v), queries (q),\n"
                                  "or <i>none</i> for ordinary attention.</p>\n";

static const char caption[] =
    "<figcaption>Share of right answers on fresh training data, mean of the last 20 batches.\n"
    "The step axis is logarithmic.</figcaption>\n";

static void add_head(kvsi_text *page, const char *title)
{
    kvsi_text_add(page, "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n"
                        "<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n"
                        "<title>");
    kvsi_text_add_xml(page, title);
    kvsi_text_format(page, "</title>\n<style>\n%s</style>\n</head>\n<body>\n<main>\n<h1>", style);
    kvsi_text_add_xml(page, title);
    kvsi_text_format(page, "</h1>\n%s", explanation);
}

/* Without the XML prologue, which has no place inside a page. */
static void add_figure(kvsi_text *page, const char *svg)
{
    const char *start = strstr(svg, "<svg");

    kvsi_text_format(page, "<figure>\n%s%s</figure>\n", start ? start : svg, caption);
}

static void add_row(kvsi_text *page, const kvs_run_summary *run)
{
    char parameters[32], duration[32], step[32] = "never", accuracy[32] = "", loss[32] = "";

    kvsi_format_count(parameters, sizeof parameters, (double)run->parameters);
    kvsi_format_duration(duration, sizeof duration, run->seconds);
    if (run->step_at_99)
        snprintf(step, sizeof step, "%" PRIu64, run->step_at_99);
    if (!isnan(run->final_accuracy))
        snprintf(accuracy, sizeof accuracy, "%.1f %%", 100 * run->final_accuracy);
    if (!isnan(run->final_loss))
        snprintf(loss, sizeof loss, "%.4f", run->final_loss);
    kvsi_text_add(page, "<tr><td>");
    kvsi_text_add_xml(page, run->name);
    kvsi_text_add(page, "</td><td>");
    kvsi_text_add_xml(page, run->shift);
    kvsi_text_format(page,
                     "</td><td>%zu</td><td>%zu</td><td>%zu</td><td>%s</td><td>%" PRIu64
                     "</td><td>%s</td><td>%s</td><td>%s</td><td>%s</td></tr>\n",
                     run->layers, run->dim, run->heads, parameters, run->steps, accuracy, loss,
                     step, duration);
}

static void add_table(kvsi_text *page, const kvsi_run *runs, size_t count)
{
    kvsi_text_add(page, "<h2>Results</h2>\n<div class=\"wide\">\n<table>\n<thead><tr><th>run</th>"
                        "<th>shift</th><th>layers</th><th>dim</th><th>heads</th><th>parameters</th>"
                        "<th>steps</th><th>accuracy</th><th>loss</th><th>99&nbsp;% at step</th>"
                        "<th>time</th></tr></thead>\n<tbody>\n");
    for (size_t i = 0; i < count; i++)
        add_row(page, &runs[i].summary);
    kvsi_text_add(
        page, "</tbody>\n</table>\n</div>\n"
              "<p class=\"soft\">Accuracy and loss are those of the finished model on sequences\n"
              "it was never trained on. The step is the first at which the mean of the last\n"
              "20 batches was at least 99&nbsp;%.</p>\n");
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

void kvsi_page_render(kvsi_text *page, const char *title, const kvsi_run *runs, size_t count,
                      const char *svg)
{
    add_head(page, title);
    add_figure(page, svg);
    add_table(page, runs, count);
    add_commands(page, runs, count);
    kvsi_text_add(page, "</main>\n</body>\n</html>\n");
}
