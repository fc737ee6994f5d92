/* One page for several finished experiments: HTML with a table of verdicts and all pages, or
 * Markdown with the verdicts only. */
#include "base/files.h"
#include "base/folders.h"
#include "base/memory.h"
#include "repro/experiment_folder.h"

#include <stdio.h>
#include <string.h>

typedef struct collection {
    kvsi_saved *list;
    size_t count;
} collection;

static void release(collection *c)
{
    for (size_t i = 0; i < c->count; i++)
        kvsi_saved_close(c->list + i);
    kvsi_free(c->list);
}

/* The experiment in `dir`, or those in its subfolders. */
static kvs_status collect(collection *c, const char *dir, kvs_err *err)
{
    kvsi_name_list names = {0};
    char *path = NULL;
    kvs_status st;

    TRY_OUT(kvsi_dir_list(&names, dir, "", err));
    c->list = kvsi_alloc(names.count + 1, sizeof *c->list);
    if (!c->list) {
        st = kvsi_fail(err, KVS_E_NOMEM, "out of memory for '%s'", dir);
        goto out;
    }
    if (kvsi_saved_exists(dir)) {
        TRY_OUT(kvsi_saved_open(c->list, dir, err));
        c->count = 1;
        goto out;
    }
    for (size_t i = 0; i < names.count; i++) {
        path = kvsi_path_join(dir, names.names[i]);
        if (path && kvsi_saved_exists(path)) {
            TRY_OUT(kvsi_saved_open(c->list + c->count, path, err));
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

static const char *name_of(const kvsi_saved *saved)
{
    return json_string_value(json_object_get(saved->experiment, "experiment"));
}

/* Position in the table of experiments. */
static size_t position(const kvsi_saved *saved)
{
    size_t i = 0;

    while (kvs_experiment_at(i) && strcmp(kvs_experiment_at(i)->name, name_of(saved)) != 0)
        i++;
    return i;
}

static void sort(collection *c)
{
    for (size_t i = 1; i < c->count; i++)
        for (size_t j = i; j > 0 && position(c->list + j) < position(c->list + j - 1); j--) {
            const kvsi_saved swapped = c->list[j];

            c->list[j] = c->list[j - 1];
            c->list[j - 1] = swapped;
        }
}

static void add_total(kvsi_page *page, const size_t total[3])
{
    char words[160];

    snprintf(words, sizeof words,
             "%zu claims: %zu are reproduced, %zu are not, and %zu are undecided at this scale.",
             total[0] + total[1] + total[2], total[0], total[1], total[2]);
    kvsi_page_paragraph(page, NULL, words);
}

static void add_overview(kvsi_page *page, const collection *c)
{
    kvsi_table table = {.left = 3};
    size_t total[3] = {0};

    kvsi_table_headings(&table,
                        "experiment|paper|scale|reproduced|not reproduced|not at this scale|time");
    for (size_t i = 0; i < c->count; i++) {
        const json_t *e = c->list[i].experiment;
        kvs_claim claims[KVSI_CLAIMS_MAX];
        const size_t count = kvsi_saved_claims(claims, KVSI_CLAIMS_MAX, c->list[i].claims);
        size_t verdicts[3] = {0};
        char duration[32];

        for (size_t k = 0; k < count; k++)
            verdicts[claims[k].verdict]++;
        kvsi_format_duration(duration, sizeof duration,
                             json_number_value(json_object_get(e, "seconds")));
        kvsi_table_add(&table, "%s", name_of(c->list + i));
        kvsi_table_add(&table, "%s", json_string_value(json_object_get(e, "figure")));
        kvsi_table_add(&table, "%s", json_string_value(json_object_get(e, "scale")));
        for (int v = 0; v < 3; v++) {
            kvsi_table_add(&table, "%zu", verdicts[v]);
            total[v] += verdicts[v];
        }
        kvsi_table_add(&table, "%s", duration);
    }
    add_total(page, total);
    kvsi_page_table(page, &table);
}

kvs_status kvs_repro_report(size_t *experiments, const char *dir, const char *html, kvs_err *err)
{
    collection c = {0};
    kvsi_page page = {0};
    kvs_status st;

    NEED(dir);
    NEED(html);
    NEED(experiments);
    *experiments = 0;
    TRY_OUT(collect(&c, dir, err));
    sort(&c);
    kvsi_page_begin(&page, "KV shifting attention: the paper's experiments, reproduced");
    add_overview(&page, &c);
    for (size_t i = 0; i < c.count; i++) {
        kvsi_page_heading(&page, 2, name_of(c.list + i));
        TRY_OUT(kvsi_saved_section(&page, c.list + i, err));
    }
    TRY_OUT(kvsi_page_write(&page, html, err));
    *experiments = c.count;
out:
    kvsi_page_release(&page);
    release(&c);
    return st;
}

/* ---- verdicts only, as Markdown -------------------------------------------------------------- */

static const char *folder_of(const kvsi_saved *saved)
{
    const char *slash = strrchr(saved->dir, '/');

    return slash ? slash + 1 : saved->dir;
}

static void add_claims(kvsi_table *table, const kvsi_saved *saved, size_t total[3])
{
    kvs_claim claims[KVSI_CLAIMS_MAX];
    const size_t count = kvsi_saved_claims(claims, KVSI_CLAIMS_MAX, saved->claims);
    const char *figure = json_string_value(json_object_get(saved->experiment, "figure"));

    for (size_t i = 0; i < count; i++) {
        char ours[96];

        kvsi_claim_value(ours, sizeof ours, claims + i);
        if (i == 0)
            kvsi_table_add(table, "[%s](%s/README.md), %s", name_of(saved), folder_of(saved),
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

kvs_status kvs_repro_summary(size_t *experiments, const char *dir, const char *markdown,
                             kvs_err *err)
{
    kvsi_table table = {.left = 5};
    collection c = {0};
    kvsi_page page = {.markdown = 1};
    size_t total[3] = {0};
    kvs_status st;

    NEED(dir);
    NEED(markdown);
    NEED(experiments);
    *experiments = 0;
    TRY_OUT(collect(&c, dir, err));
    sort(&c);
    kvsi_table_headings(&table, "experiment|claim|paper|ours|verdict");
    for (size_t i = 0; i < c.count; i++)
        add_claims(&table, c.list + i, total);
    kvsi_page_begin(&page, "The paper's experiments, reproduced");
    add_total(&page, total);
    kvsi_page_table(&page, &table);
    TRY_OUT(kvsi_page_write(&page, markdown, err));
    *experiments = c.count;
out:
    kvsi_table_release(&table);
    kvsi_page_release(&page);
    release(&c);
    return st;
}
