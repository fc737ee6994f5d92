#include "eval/report_blocks.h"

#include "base/array.h"
#include "base/files.h"
#include "base/memory.h"
#include "report/page.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- blocks ---------------------------------------------------------------------------------- */

static kvsi_block *add_block(kvs_eval_report *report, kvsi_block_kind kind, int where)
{
    kvsi_block *block;

    if (kvsi_array_reserve(&report->blocks, &report->capacity, report->count + 1,
                           sizeof *report->blocks, NULL) != KVS_OK) {
        report->failed = 1;
        return NULL;
    }
    block = report->blocks + report->count++;
    *block = (kvsi_block){.kind = kind, .where = where};
    return block;
}

void kvsi_block_text(kvs_eval_report *report, kvsi_block_kind kind, int where, const char *format,
                     ...)
{
    kvsi_block *block = add_block(report, kind, where);
    char text[2048];
    va_list args;

    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    for (char *c = text; *c; c++) /* names come from files, and would act on a terminal */
        *c = (unsigned char)*c < 0x20 || *c == 0x7f ? '?' : *c;
    if (block)
        block->text = kvsi_strdup(text);
    report->failed |= !block || !block->text;
}

void kvsi_block_table(kvs_eval_report *report, int where, kvsi_table *table)
{
    kvsi_block *block = add_block(report, KVSI_BLOCK_TABLE, where);

    if (block)
        block->table = *table;
    else
        kvsi_table_release(table);
}

kvsi_chart *kvsi_block_chart(kvs_eval_report *report, const char *name, const char *caption)
{
    kvsi_block *block = add_block(report, KVSI_BLOCK_CHART, KVSI_ON_PAGE);

    if (block)
        block->chart = kvsi_alloc(1, sizeof *block->chart);
    if (!block || !block->chart) {
        report->failed = 1;
        return NULL;
    }
    *block->chart = (kvsi_chart){.name = name, .caption = caption, .id = name};
    return block->chart;
}

void kvsi_print_p(char *out, size_t size, double p)
{
    if (isnan(p))
        snprintf(out, size, "%s", "");
    else if (p >= 0.0005)
        snprintf(out, size, "%.3f", p);
    else
        snprintf(out, size, "%.0e", p);
}

/* ---- the terminal ---------------------------------------------------------------------------- */

/* Breaks a paragraph into lines of at most 100 bytes. */
static void add_wrapped(kvsi_text *out, const char *text)
{
    size_t column = 0;

    while (*text) {
        const size_t word = strcspn(text, " ");

        if (column > 0 && column + 1 + word > 100) {
            kvsi_text_add(out, "\n");
            column = 0;
        }
        kvsi_text_add(out, column > 0 ? " " : "");
        kvsi_text_add_bytes(out, text, word);
        column += word + (column > 0);
        text += word;
        text += strspn(text, " ");
    }
    kvsi_text_add(out, "\n");
}

/* Headings, and texts after a table or a note, have an empty line before them. */
static int starts_paragraph(const kvs_eval_report *report, size_t index)
{
    const kvsi_block_kind kind = report->blocks[index].kind,
                          before = index > 0 ? report->blocks[index - 1].kind : kind;

    return kind == KVSI_BLOCK_HEADING ||
           (kind == KVSI_BLOCK_TEXT && before != KVSI_BLOCK_TEXT && before != KVSI_BLOCK_HEADING);
}

kvs_status kvsi_report_finish(kvs_eval_report *report, kvs_err *err)
{
    kvsi_text *out = &report->text;

    if (report->failed)
        return kvsi_no_memory(err, "a report");
    for (size_t i = 0; i < report->count; i++) {
        const kvsi_block *block = report->blocks + i;

        if (!(block->where & KVSI_ON_TERMINAL))
            continue;
        if (out->length > 0 && starts_paragraph(report, i))
            kvsi_text_add(out, "\n");
        if (block->kind == KVSI_BLOCK_TABLE)
            kvsi_table_to_text(out, &block->table);
        else if (block->text)
            add_wrapped(out, block->text);
    }
    TRY(kvsi_text_check(out, err));
    return kvsi_json_dump(&report->json_text, report->json,
                          JSON_INDENT(2) | JSON_REAL_PRECISION(15), "the result", err);
}

/* ---- the public report ----------------------------------------------------------------------- */

void kvs_eval_report_options_init(kvs_eval_report_options *options)
{
    if (options)
        *options = (kvs_eval_report_options){.resamples = 10000, .seed = 1, .table = "paper"};
}

typedef kvs_status view(kvs_eval_report *report, const kvsi_stored *models, size_t count,
                        const kvs_eval_report_options *options, kvs_err *err);

static kvs_status create(kvs_eval_report **out, view *add_blocks, const char *title,
                         const char *const *paths, size_t count, size_t least,
                         const kvs_eval_report_options *options, kvs_err *err)
{
    kvs_eval_report_options own;
    kvs_eval_report *report = NULL;
    kvsi_stored *models = NULL;
    kvs_status st;

    NEED(out);
    *out = NULL;
    NEED_ARRAY(paths, count);
    for (size_t i = 0; i < count; i++)
        NEED(paths[i]);
    kvs_eval_report_options_init(&own);
    if (options)
        own = *options;
    if (count < least)
        return kvsi_fail(err, KVS_E_INVALID, "expected at least %zu results, found %zu", least,
                         count);
    if (own.resamples < 2 || own.resamples > 10000000)
        return kvsi_fail(err, KVS_E_INVALID, "resamples is %zu, expected 2 to 10000000",
                         own.resamples);
    report = kvsi_alloc(1, sizeof *report);
    if (!report)
        return kvsi_no_memory(err, "a report");
    report->title = title;
    TRY_OUT(kvsi_stored_open_all(&models, paths, count, err));
    TRY_OUT(add_blocks(report, models, count, &own, err));
    TRY_OUT(kvsi_report_finish(report, err));
    *out = report;
    report = NULL;
out:
    kvsi_stored_close_all(models, count);
    kvs_eval_report_free(report);
    return st;
}

kvs_status kvs_eval_compare(kvs_eval_report **out, const char *const *paths, size_t count,
                            const kvs_eval_report_options *options, kvs_err *err)
{
    return create(out, kvsi_view_compare, "Models compared", paths, count, 2, options, err);
}

kvs_status kvs_eval_show(kvs_eval_report **out, const char *const *paths, size_t count,
                         const kvs_eval_report_options *options, kvs_err *err)
{
    return create(out, kvsi_view_show, "Benchmark results", paths, count, 1, options, err);
}

kvs_status kvs_eval_table(kvs_eval_report **out, const char *const *paths, size_t count,
                          const kvs_eval_report_options *options, kvs_err *err)
{
    return create(out, kvsi_view_table, "Benchmark table", paths, count, 1, options, err);
}

void kvs_eval_report_free(kvs_eval_report *report)
{
    if (!report)
        return;
    for (size_t i = 0; i < report->count; i++) {
        kvsi_free(report->blocks[i].text);
        kvsi_table_release(&report->blocks[i].table);
        if (report->blocks[i].chart)
            kvsi_chart_release(report->blocks[i].chart);
        kvsi_free(report->blocks[i].chart);
    }
    kvsi_free(report->blocks);
    json_decref(report->json);
    free(report->json_text);
    kvsi_text_release(&report->text);
    kvsi_free(report);
}

const char *kvs_eval_report_text(const kvs_eval_report *report)
{
    return report ? report->text.data : NULL;
}

const char *kvs_eval_report_json(const kvs_eval_report *report)
{
    return report ? report->json_text : NULL;
}

/* ---- files ----------------------------------------------------------------------------------- */

/* A page owns its copy of a table, because kvsi_page_table releases it. */
static void add_table(kvsi_page *page, const kvsi_table *table)
{
    kvsi_table copy = *table;

    copy.words = (kvsi_text){0};
    kvsi_text_add_bytes(&copy.words, table->words.data, table->words.length);
    copy.words.failed |= table->words.failed;
    kvsi_page_table(page, &copy);
}

static kvs_status add_chart(kvsi_page *page, const kvsi_chart *chart, kvs_err *err)
{
    char *svg = NULL;

    if (page->markdown || chart->series_count == 0)
        return KVS_OK;
    TRY(kvsi_chart_draw(&svg, chart, err));
    kvsi_page_figure(page, chart->name, svg, chart->caption);
    kvsi_free(svg);
    return KVS_OK;
}

static kvs_status write_page(const kvs_eval_report *report, const char *path, const char *title,
                             int markdown, kvs_err *err)
{
    kvsi_page page = {.markdown = markdown};
    kvs_status st = KVS_OK;

    kvsi_page_begin(&page, title);
    for (size_t i = 0; i < report->count; i++) {
        const kvsi_block *block = report->blocks + i;

        if (!(block->where & KVSI_ON_PAGE))
            continue;
        switch (block->kind) {
        case KVSI_BLOCK_HEADING:
            kvsi_page_heading(&page, 2, block->text);
            break;
        case KVSI_BLOCK_TEXT:
            kvsi_page_paragraph(&page, NULL, block->text);
            break;
        case KVSI_BLOCK_NOTE:
            kvsi_page_note(&page, block->text);
            break;
        case KVSI_BLOCK_TABLE:
            add_table(&page, &block->table);
            break;
        case KVSI_BLOCK_CHART:
            TRY_OUT(add_chart(&page, block->chart, err));
            break;
        }
    }
    TRY_OUT(kvsi_page_write(&page, path, err));
out:
    kvsi_page_release(&page);
    return st;
}

static kvs_status write_chart(const kvs_eval_report *report, const char *path, kvs_err *err)
{
    char *svg = NULL;
    kvs_status st;

    for (size_t i = 0; i < report->count; i++) {
        const kvsi_chart *chart = report->blocks[i].chart;

        if (!chart || chart->series_count == 0)
            continue;
        TRY(kvsi_chart_draw(&svg, chart, err));
        st = kvsi_file_write_text(path, svg, err);
        kvsi_free(svg);
        return st;
    }
    return kvsi_fail(err, KVS_E_INVALID, "cannot write '%s': these results have no picture", path);
}

static kvs_status write_csv(const kvs_eval_report *report, const char *path, kvs_err *err)
{
    kvsi_text text = {0};
    kvs_status st = KVS_OK;

    for (size_t i = 0; i < report->count && text.length == 0; i++)
        if (report->blocks[i].kind == KVSI_BLOCK_TABLE)
            kvsi_table_to_csv(&text, &report->blocks[i].table);
    TRY_OUT(kvsi_text_check(&text, err));
    TRY_OUT(kvsi_file_write_text(path, text.data, err));
out:
    kvsi_text_release(&text);
    return st;
}

kvs_status kvs_eval_report_write(const kvs_eval_report *report, const kvs_eval_report_files *files,
                                 kvs_err *err)
{
    const char *title;

    NEED(report);
    NEED(files);
    title = files->title ? files->title : report->title;
    if (files->csv)
        TRY(write_csv(report, files->csv, err));
    if (files->markdown)
        TRY(write_page(report, files->markdown, title, 1, err));
    if (files->svg)
        TRY(write_chart(report, files->svg, err));
    if (files->html)
        TRY(write_page(report, files->html, title, 0, err));
    return KVS_OK;
}
