#include "report/page.h"

#include "base/files.h"

#include <string.h>

/* The rules for svg give gnuplot's charts the colours of the page, light or dark. */
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
    "figure { margin: 1.5rem 0 0; overflow-x: auto; }\n"
    "figure svg { width: 100%; min-width: 30rem; height: auto; display: block; pointer-events: "
    "none; }\n"
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

void kvsi_page_begin(kvsi_page *page, const char *title)
{
    kvsi_text *text = &page->text;

    if (page->markdown) {
        kvsi_text_format(text, "# %s\n\n", title);
        return;
    }
    kvsi_text_add(text, "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n"
                        "<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n"
                        "<title>");
    kvsi_text_add_xml(text, title);
    kvsi_text_format(text, "</title>\n<style>\n%s</style>\n</head>\n<body>\n<main>\n<h1>", style);
    kvsi_text_add_xml(text, title);
    kvsi_text_add(text, "</h1>\n");
}

/* "<OPEN>text</CLOSE>" */
static void add_element(kvsi_text *out, const char *open, const char *text, const char *close)
{
    kvsi_text_format(out, "<%s>", open);
    kvsi_text_add_xml(out, text);
    kvsi_text_format(out, "</%s>\n", close);
}

void kvsi_page_heading(kvsi_page *page, int level, const char *text)
{
    const char *const element = level == 2 ? "h2" : "h3";

    if (page->markdown)
        kvsi_text_format(&page->text, "%s %s\n\n", level == 2 ? "##" : "###", text);
    else
        add_element(&page->text, element, text, element);
}

void kvsi_page_paragraph(kvsi_page *page, const char *lead, const char *text)
{
    const char *const bold[2][2] = {{"<b>", "</b> "}, {"**", "** "}};

    kvsi_text_add(&page->text, page->markdown ? "" : "<p>");
    if (lead)
        kvsi_text_format(&page->text, "%s%s%s", bold[page->markdown][0], lead,
                         bold[page->markdown][1]);
    if (page->markdown)
        kvsi_text_add(&page->text, text);
    else
        kvsi_text_add_xml(&page->text, text);
    kvsi_text_add(&page->text, page->markdown ? "\n\n" : "</p>\n");
}

void kvsi_page_note(kvsi_page *page, const char *text)
{
    if (page->markdown)
        kvsi_page_paragraph(page, NULL, text);
    else
        add_element(&page->text, "p class=\"soft\"", text, "p");
}

void kvsi_page_sample(kvsi_page *page, const char *lead, const char *prompt, const char *text)
{
    kvsi_text *out = &page->text;

    if (page->markdown) {
        kvsi_text_format(out, "**%s** *%s*%s\n\n", lead, prompt, text);
        return;
    }
    add_element(out, "p class=\"soft\"", lead, "p");
    kvsi_text_add(out, "<pre><b>");
    kvsi_text_add_xml(out, prompt);
    kvsi_text_add(out, "</b>");
    kvsi_text_add_xml(out, text);
    kvsi_text_add(out, "</pre>\n");
}

void kvsi_page_code(kvsi_page *page, const char *text)
{
    if (page->markdown)
        kvsi_text_format(&page->text, "    %s\n\n", text);
    else
        add_element(&page->text, "pre", text, "pre");
}

/* The XML prologue of the SVG file has no place inside a page. */
void kvsi_page_figure(kvsi_page *page, const char *name, const char *svg, const char *caption)
{
    const char *start;

    if (page->markdown) {
        kvsi_text_format(&page->text, "![%s](%s.svg)\n\n%s\n\n", name, name, caption);
        return;
    }
    start = strstr(svg, "<svg");
    kvsi_text_format(&page->text, "<figure>\n%s", start ? start : svg);
    add_element(&page->text, "figcaption", caption, "figcaption");
    kvsi_text_add(&page->text, "</figure>\n");
}

void kvsi_page_table(kvsi_page *page, kvsi_table *table)
{
    if (page->markdown) {
        kvsi_table_to_markdown(&page->text, table);
        kvsi_text_add(&page->text, "\n");
    } else {
        kvsi_table_to_html(&page->text, table);
    }
    kvsi_table_release(table);
}

/* Each block of Markdown ends with an empty line, which the last one does not need. */
kvs_status kvsi_page_write(kvsi_page *page, const char *path, kvs_err *err)
{
    kvsi_text *text = &page->text;

    if (!page->markdown)
        kvsi_text_add(text, "</main>\n</body>\n</html>\n");
    TRY(kvsi_text_check(text, err));
    if (page->markdown && text->length > 0)
        text->data[--text->length] = '\0';
    return kvsi_file_write_text(path, text->data, err);
}

void kvsi_page_release(kvsi_page *page)
{
    kvsi_text_release(&page->text);
}
