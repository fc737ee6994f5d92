/* Finished experiments joined into one page, first all verdicts, then everything; or into a table
 * of verdicts alone. */
#include "base/files.h"
#include "base/folders.h"
#include "base/memory.h"
#include "report/report_page.h"
#include "repro/record.h"

#include <stdio.h>
#include <string.h>

typedef struct collection {
    kvsi_record *records;
    size_t count;
} collection;

static void release(collection *c)
{
    for (size_t i = 0; i < c->count; i++)
        kvsi_record_close(c->records + i);
    kvsi_free(c->records);
}

/* The folder itself, or those in it. */
static kvs_status collect(collection *c, const char *dir, kvs_err *err)
{
    kvsi_name_list names = {0};
    char *path = NULL;
    kvs_status st;

    TRY_OUT(kvsi_dir_list(&names, dir, "", err));
    c->records = kvsi_alloc(names.count + 1, sizeof *c->records);
    if (!c->records) {
        st = kvsi_fail(err, KVS_E_NOMEM, "out of memory for '%s'", dir);
        goto out;
    }
    if (kvsi_record_exists(dir)) {
        TRY_OUT(kvsi_record_open(c->records, dir, err));
        c->count = 1;
        goto out;
    }
    for (size_t i = 0; i < names.count; i++) {
        path = kvsi_path_join(dir, names.names[i]);
        if (path && kvsi_record_exists(path)) {
            TRY_OUT(kvsi_record_open(c->records + c->count, path, err));
            c->count++;
        }
        kvsi_free(path);
        path = NULL;
    }
    if (c->count == 0)
        st = kvsi_fail(err, KVS_E_IO, "'%s' has no finished experiment, in it or in its folders",
                       dir);
out:
    kvsi_free(path);
    kvsi_name_list_release(&names);
    return st;
}

static const char *name_of(const kvsi_record *record)
{
    return json_string_value(json_object_get(record->experiment, "experiment"));
}

/* In the order of the table of experiments. */
static size_t rank(const kvsi_record *record)
{
    size_t i = 0;

    while (kvs_experiment_at(i) && strcmp(kvs_experiment_at(i)->name, name_of(record)) != 0)
        i++;
    return i;
}

static void sort(collection *c)
{
    for (size_t i = 1; i < c->count; i++)
        for (size_t j = i; j > 0 && rank(c->records + j) < rank(c->records + j - 1); j--) {
            const kvsi_record swapped = c->records[j];

            c->records[j] = c->records[j - 1];
            c->records[j - 1] = swapped;
        }
}

static void add_total(kvsi_text *page, const size_t total[3])
{
    kvsi_text_format(page,
                     "Of %zu claims %zu are reproduced, %zu are not, and %zu cannot be told at "
                     "this scale.",
                     total[0] + total[1] + total[2], total[0], total[1], total[2]);
}

static void add_overview(kvsi_text *page, const collection *c)
{
    kvsi_table table = {.columns = 7, .left = 3};
    size_t total[3] = {0};

    kvsi_table_add(&table, "experiment");
    kvsi_table_add(&table, "paper");
    kvsi_table_add(&table, "scale");
    for (int v = 0; v < 3; v++)
        kvsi_table_add(&table, "%s", kvs_verdict_name((kvs_verdict)v));
    kvsi_table_add(&table, "time");
    for (size_t i = 0; i < c->count; i++) {
        const json_t *e = c->records[i].experiment;
        kvs_claim claims[KVSI_CLAIMS_MAX];
        const size_t count = kvsi_record_claims(claims, KVSI_CLAIMS_MAX, c->records[i].claims);
        size_t verdicts[3] = {0};
        char duration[32];

        for (size_t k = 0; k < count; k++)
            verdicts[claims[k].verdict]++;
        kvsi_format_duration(duration, sizeof duration,
                             json_number_value(json_object_get(e, "seconds")));
        kvsi_table_add(&table, "%s", name_of(c->records + i));
        kvsi_table_add(&table, "%s", json_string_value(json_object_get(e, "figure")));
        kvsi_table_add(&table, "%s", json_string_value(json_object_get(e, "scale")));
        for (int v = 0; v < 3; v++) {
            kvsi_table_add(&table, "%zu", verdicts[v]);
            total[v] += verdicts[v];
        }
        kvsi_table_add(&table, "%s", duration);
    }
    kvsi_text_add(page, "<p>");
    add_total(page, total);
    kvsi_text_add(page, "</p>\n");
    kvsi_table_to_html(page, &table);
    kvsi_table_release(&table);
}

kvs_status kvs_repro_report(const char *dir, const char *html, size_t *experiments, kvs_err *err)
{
    collection c = {0};
    kvsi_text page = {0};
    kvs_status st;

    *experiments = 0;
    TRY_OUT(collect(&c, dir, err));
    sort(&c);
    kvsi_page_begin(&page, "KV shifting attention: the paper's experiments, reproduced");
    add_overview(&page, &c);
    for (size_t i = 0; i < c.count; i++) {
        kvsi_text_add(&page, "<h2>");
        kvsi_text_add_xml(&page, name_of(c.records + i));
        kvsi_text_add(&page, "</h2>\n");
        TRY_OUT(kvsi_record_section(&page, c.records + i, err));
    }
    kvsi_page_end(&page);
    TRY_OUT(kvsi_text_check(&page, err));
    TRY_OUT(kvsi_file_write_text(html, page.data, err));
    *experiments = c.count;
out:
    kvsi_text_release(&page);
    release(&c);
    return st;
}

/* ---- the table alone ------------------------------------------------------------------------- */

static const char *folder_of(const kvsi_record *record)
{
    const char *slash = strrchr(record->dir, '/');

    return slash ? slash + 1 : record->dir;
}

static void add_claims(kvsi_table *table, const kvsi_record *record, size_t total[3])
{
    kvs_claim claims[KVSI_CLAIMS_MAX];
    const size_t count = kvsi_record_claims(claims, KVSI_CLAIMS_MAX, record->claims);
    const char *figure = json_string_value(json_object_get(record->experiment, "figure"));

    for (size_t i = 0; i < count; i++) {
        char ours[96];

        kvsi_record_ours(ours, sizeof ours, claims + i);
        if (i == 0)
            kvsi_table_add(table, "[%s](%s/README.md), %s", name_of(record), folder_of(record),
                           figure);
        else
            kvsi_table_add(table, "%s", "");
        kvsi_table_add(table, "%s", claims[i].claim);
        kvsi_table_add(table, "%s", claims[i].paper);
        kvsi_table_add(table, "%s", ours);
        kvsi_table_add(table, "**%s**", kvs_verdict_name(claims[i].verdict));
        total[claims[i].verdict]++;
    }
}

kvs_status kvs_repro_summary(const char *dir, const char *markdown, size_t *experiments,
                             kvs_err *err)
{
    static const char *const heads[] = {"experiment", "claim", "paper", "ours", "verdict"};
    kvsi_table table = {.columns = 5, .left = 5};
    collection c = {0};
    kvsi_text page = {0};
    size_t total[3] = {0};
    kvs_status st;

    *experiments = 0;
    TRY_OUT(collect(&c, dir, err));
    sort(&c);
    for (size_t i = 0; i < table.columns; i++)
        kvsi_table_add(&table, "%s", heads[i]);
    for (size_t i = 0; i < c.count; i++)
        add_claims(&table, c.records + i, total);
    kvsi_text_add(&page, "# The paper's experiments, reproduced\n\n");
    add_total(&page, total);
    kvsi_text_add(&page, "\n\n");
    kvsi_table_to_markdown(&page, &table);
    TRY_OUT(kvsi_text_check(&page, err));
    TRY_OUT(kvsi_file_write_text(markdown, page.data, err));
    *experiments = c.count;
out:
    kvsi_table_release(&table);
    kvsi_text_release(&page);
    release(&c);
    return st;
}
