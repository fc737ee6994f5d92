/* The page of a finished experiment, as HTML or Markdown. */
#include "base/files.h"
#include "base/folders.h"
#include "base/memory.h"
#include "repro/experiment_folder.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

static const size_t SVG_LIMIT = (size_t)64 << 20;

static const char *text_of(const json_t *object, const char *key)
{
    const char *text = json_string_value(json_object_get(object, key));

    return text ? text : "";
}

/* ---- words ----------------------------------------------------------------------------------- */

/* Two significant digits of the error. */
void kvsi_claim_value(char *out, size_t size, const kvs_claim *claim)
{
    const char *space = *claim->unit ? " " : "";

    if (isnan(claim->ours)) {
        snprintf(out, size, "–");
    } else if (claim->error > 0) {
        const double digits = fmin(fmax(1 - floor(log10(claim->error)), 0), 9);

        snprintf(out, size, "%.*f ± %.*f%s%s", (int)digits, claim->ours, (int)digits, claim->error,
                 space, claim->unit);
    } else {
        snprintf(out, size, "%.4g%s%s", claim->ours, space, claim->unit);
    }
}

/* "kvshift 0.1.0 (1234abc), 2 threads, avx2, AMD EPYC" */
static void describe_machine(char *out, size_t size, const json_t *machine)
{
    const json_int_t threads = json_integer_value(json_object_get(machine, "threads"));

    snprintf(out, size, "%s, %d thread%s, CPU level %s, kvshift %s (%s)",
             text_of(machine, "processor"), (int)threads, threads == 1 ? "" : "s",
             text_of(machine, "cpu_level"), text_of(machine, "kvshift"),
             text_of(machine, "commit"));
}

static void describe_time(char *out, size_t size, const json_t *experiment)
{
    const json_int_t runs = json_integer_value(json_object_get(experiment, "runs"));
    char duration[32];

    kvsi_format_duration(duration, sizeof duration,
                         json_number_value(json_object_get(experiment, "seconds")));
    snprintf(out, size, "%s%s", duration, runs > 0 ? " of training and evaluation" : "");
}

/* ---- claims ---------------------------------------------------------------------------------- */

static void add_cell(kvsi_text *page, const char *text)
{
    kvsi_text_add(page, "<td>");
    kvsi_text_add_xml(page, text);
    kvsi_text_add(page, "</td>");
}

static void add_claim(kvsi_text *page, const kvs_claim *claim)
{
    static const char *const classes[] = {"reproduced", "not-reproduced", "not-at-this-scale"};
    char ours[96], seeds[24];

    kvsi_claim_value(ours, sizeof ours, claim);
    snprintf(seeds, sizeof seeds, "%zu", claim->seeds);
    kvsi_text_add(page, "<tr><td>");
    kvsi_text_add_xml(page, claim->claim);
    if (*claim->detail) {
        kvsi_text_add(page, "<small>");
        kvsi_text_add_xml(page, claim->detail);
        kvsi_text_add(page, "</small>");
    }
    kvsi_text_add(page, "</td>");
    add_cell(page, claim->paper);
    add_cell(page, ours);
    add_cell(page, claim->seeds > 0 ? seeds : "–");
    kvsi_text_format(page, "<td class=\"%s\">%s</td></tr>\n", classes[claim->verdict],
                     kvs_verdict_name(claim->verdict));
}

/* In HTML the detail is below the claim and verdicts have colours, unlike in other tables. */
static void add_claims(kvsi_page *page, const json_t *list)
{
    kvs_claim claims[KVSI_CLAIMS_MAX];
    const size_t count = kvsi_saved_claims(claims, KVSI_CLAIMS_MAX, list);
    kvsi_table table = {.left = 5};

    if (!page->markdown) {
        kvsi_text_add(&page->text, "<div class=\"wide\">\n<table class=\"claims\">\n<thead>\n"
                                   "<tr><th>claim</th><th>paper</th><th>ours</th><th>seeds</th>"
                                   "<th>verdict</th></tr>\n</thead>\n<tbody>\n");
        for (size_t i = 0; i < count; i++)
            add_claim(&page->text, claims + i);
        kvsi_text_add(&page->text, "</tbody>\n</table>\n</div>\n");
        return;
    }
    kvsi_table_headings(&table, "claim|paper|ours|seeds|verdict");
    for (size_t i = 0; i < count; i++) {
        char ours[96];

        kvsi_claim_value(ours, sizeof ours, claims + i);
        kvsi_table_add(&table, "%s%s%s%s", claims[i].claim, *claims[i].detail ? " (" : "",
                       claims[i].detail, *claims[i].detail ? ")" : "");
        kvsi_table_add(&table, "%s", claims[i].paper);
        kvsi_table_add(&table, "%s", ours);
        kvsi_table_add(&table, "%zu", claims[i].seeds);
        kvsi_table_add(&table, "**%s**", kvs_verdict_name(claims[i].verdict));
    }
    kvsi_page_table(page, &table);
}

/* ---- charts and tables ----------------------------------------------------------------------- */

/* `name` comes from a file, so it must not lead out of the folder. */
static kvs_status read_figure(char **svg, const kvsi_saved *saved, const char *name, kvs_err *err)
{
    char file[128];
    char *path = NULL;
    size_t size;
    kvs_status st;

    if (!*name || strchr(name, '/') || strlen(name) > 100)
        return kvsi_fail(err, KVS_E_FORMAT, "'%s': '%.40s' is not the name of a figure", saved->dir,
                         name);
    snprintf(file, sizeof file, "%s.svg", name);
    path = kvsi_path_join(saved->dir, file);
    if (!path)
        return kvsi_fail(err, KVS_E_NOMEM, "out of memory for '%s'", file);
    st = kvsi_file_read(svg, &size, path, SVG_LIMIT, err);
    kvsi_free(path);
    return st;
}

static kvs_status add_figures(kvsi_page *page, const kvsi_saved *saved, kvs_err *err)
{
    const json_t *list = json_object_get(saved->experiment, "figures");

    for (size_t i = 0; i < json_array_size(list); i++) {
        const json_t *figure = json_array_get(list, i);
        const char *name = text_of(figure, "name");
        char *svg = NULL;

        if (!page->markdown)
            TRY(read_figure(&svg, saved, name, err));
        kvsi_page_figure(page, name, svg, text_of(figure, "caption"));
        kvsi_free(svg);
    }
    return KVS_OK;
}

/* A table of experiment.json. */
static void fill_table(kvsi_table *table, const json_t *json)
{
    const json_t *rows = json_object_get(json, "rows");
    const json_int_t left = json_integer_value(json_object_get(json, "left"));

    *table = (kvsi_table){.columns = json_array_size(json_array_get(rows, 0)),
                          .left = left > 0 ? (size_t)left : 0};
    for (size_t r = 0; table->columns > 0 && r < json_array_size(rows); r++)
        for (size_t c = 0; c < table->columns; c++) {
            const char *cell = json_string_value(json_array_get(json_array_get(rows, r), c));

            kvsi_table_add(table, "%s", cell ? cell : "");
        }
}

static void add_tables(kvsi_page *page, const kvsi_saved *saved)
{
    const json_t *list = json_object_get(saved->experiment, "tables");

    for (size_t i = 0; i < json_array_size(list); i++) {
        const json_t *json = json_array_get(list, i);
        kvsi_table table;

        fill_table(&table, json);
        kvsi_page_paragraph(page, NULL, text_of(json, "caption"));
        kvsi_page_table(page, &table);
    }
}

/* ---- the page -------------------------------------------------------------------------------- */

static void add_remarks(kvsi_page *page, const json_t *remarks)
{
    for (size_t i = 0; i < json_array_size(remarks); i++) {
        const char *remark = json_string_value(json_array_get(remarks, i));

        kvsi_page_paragraph(page, NULL, remark ? remark : "");
    }
}

static void add_origin(kvsi_page *page, const json_t *e)
{
    char machine[320], duration[64], note[512];

    describe_machine(machine, sizeof machine, json_object_get(e, "machine"));
    describe_time(duration, sizeof duration, e);
    snprintf(note, sizeof note, "%s; %s; finished %s.", machine, duration, text_of(e, "finished"));
    kvsi_page_code(page, text_of(e, "command"));
    kvsi_page_note(page, note);
}

kvs_status kvsi_saved_section(kvsi_page *page, const kvsi_saved *saved, kvs_err *err)
{
    const json_t *e = saved->experiment;
    char where[160];

    snprintf(where, sizeof where, "The paper's %s, at scale %s.", text_of(e, "figure"),
             text_of(e, "scale"));
    kvsi_page_note(page, where);
    kvsi_page_paragraph(page, "The claim.", text_of(e, "claim"));
    kvsi_page_paragraph(page, "Here.", text_of(e, "settings"));
    add_claims(page, saved->claims);
    TRY(add_figures(page, saved, err));
    add_tables(page, saved);
    add_remarks(page, json_object_get(e, "remarks"));
    add_origin(page, e);
    return KVS_OK;
}

kvs_status kvsi_saved_page(kvsi_page *page, const kvsi_saved *saved, kvs_err *err)
{
    kvsi_page_begin(page, text_of(saved->experiment, "experiment"));
    return kvsi_saved_section(page, saved, err);
}
