/* One page for several finished experiments: HTML with a table of verdicts and all pages, or
 * Markdown with the verdicts only. */
#include "base/files.h"
#include "base/memory.h"
#include "repro/collection.h"
#include "repro/registered.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

static void add_total(kvsi_page *page, const size_t total[3])
{
    char words[160];

    snprintf(words, sizeof words,
             "%zu claims: %zu are reproduced, %zu are not, and %zu are undecided at this scale.",
             total[0] + total[1] + total[2], total[0], total[1], total[2]);
    kvsi_page_paragraph(page, NULL, words);
}

static void add_overview(kvsi_page *page, const kvsi_collection *c)
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
        kvsi_table_add(&table, "%s", kvsi_saved_name(c->list + i));
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
    kvsi_collection c = {0};
    kvsi_page page = {0};
    kvs_status st;

    NEED(dir);
    NEED(html);
    NEED(experiments);
    *experiments = 0;
    TRY_OUT(kvsi_collect(&c, dir, err));
    kvsi_page_begin(&page, "KV shifting attention: the paper's experiments, reproduced");
    add_overview(&page, &c);
    for (size_t i = 0; i < c.count; i++) {
        kvsi_page_heading(&page, 2, kvsi_saved_name(c.list + i));
        TRY_OUT(kvsi_saved_section(&page, c.list + i, err));
    }
    TRY_OUT(kvsi_page_write(&page, html, err));
    *experiments = c.count;
out:
    kvsi_page_release(&page);
    kvsi_collection_release(&c);
    return st;
}

/* ---- verdicts only, as Markdown -------------------------------------------------------------- */

static const char *folder_of(const kvsi_saved *saved)
{
    const char *slash = strrchr(saved->dir, '/');

    return slash ? slash + 1 : saved->dir;
}

/* The p values of all planned tests, in the order of the collection, corrected together. */
typedef struct correction {
    double *plain, *adjusted;
    size_t count, next;
} correction;

static kvs_status correct(correction *out, const kvsi_collection *c, const json_t *plan,
                          kvs_err *err)
{
    const size_t most = c->count * KVSI_CLAIMS_MAX;

    *out = (correction){.plain = kvsi_alloc(most, sizeof(double)),
                        .adjusted = kvsi_alloc(most, sizeof(double))};
    if (!out->plain || !out->adjusted)
        return kvsi_fail(err, KVS_E_NOMEM, "out of memory for %zu claims", most);
    for (size_t i = 0; i < c->count; i++) {
        kvs_claim claims[KVSI_CLAIMS_MAX];
        const size_t count = kvsi_saved_claims(claims, KVSI_CLAIMS_MAX, c->list[i].claims);

        for (size_t k = 0; k < count; k++)
            out->plain[out->count++] =
                kvsi_is_registered(plan, c->list + i, claims + k) ? claims[k].p : NAN;
    }
    kvsi_holm(out->adjusted, out->plain, out->count);
    return KVS_OK;
}

static void release_correction(correction *c)
{
    kvsi_free(c->plain);
    kvsi_free(c->adjusted);
}

static void add_claims(kvsi_table *table, const kvsi_saved *saved, const json_t *plan,
                       correction *p, size_t total[3])
{
    kvs_claim claims[KVSI_CLAIMS_MAX];
    const size_t count = kvsi_saved_claims(claims, KVSI_CLAIMS_MAX, saved->claims);
    const char *figure = json_string_value(json_object_get(saved->experiment, "figure"));

    for (size_t i = 0; i < count; i++) {
        const kvs_claim *claim = claims + i;
        const int planned = kvsi_is_registered(plan, saved, claim);
        char ours[96], interval[96];

        kvsi_claim_value(ours, sizeof ours, claim);
        kvsi_claim_interval(interval, sizeof interval, claim);
        if (i == 0)
            kvsi_table_add(table, "[%s](%s/README.md), %s", kvsi_saved_name(saved),
                           folder_of(saved), figure);
        else
            kvsi_table_add(table, "%s", "");
        kvsi_table_add(table, "%s%s", claim->claim, planned ? "" : " (not planned)");
        kvsi_table_add(table, "%s", claim->paper);
        kvsi_table_add(table, "%s", ours);
        kvsi_table_add(table, "%s", interval);
        kvsi_table_p(table, claim->p);
        kvsi_table_p(table, p->adjusted[p->next++]);
        kvsi_table_add(table, "**%s**", kvs_verdict_name(claim->verdict));
        total[claim->verdict]++;
    }
}

/* In which precision and on which CPU level every result was made. */
static void add_origins(kvsi_page *page, const kvsi_collection *c)
{
    kvsi_table table = {.left = 5};

    kvsi_table_headings(&table,
                        "experiment|scale|precision|CPU level|processor|runs|taken over|time");
    for (size_t i = 0; i < c->count; i++) {
        const json_t *e = c->list[i].experiment, *machine = json_object_get(e, "machine");
        const char *level = json_string_value(json_object_get(machine, "cpu_level")),
                   *processor = json_string_value(json_object_get(machine, "processor"));
        char duration[32];

        kvsi_format_duration(duration, sizeof duration,
                             json_number_value(json_object_get(e, "seconds")));
        kvsi_table_add(&table, "%s", kvsi_saved_name(c->list + i));
        kvsi_table_add(&table, "%s", json_string_value(json_object_get(e, "scale")));
        kvsi_table_add(&table, "%s", kvsi_saved_precision(e));
        kvsi_table_add(&table, "%s", level ? level : "–");
        kvsi_table_add(&table, "%s", processor ? processor : "–");
        kvsi_table_add(&table, "%d", (int)json_integer_value(json_object_get(e, "runs")));
        kvsi_table_add(&table, "%d", (int)json_integer_value(json_object_get(e, "taken")));
        kvsi_table_add(&table, "%s", duration);
    }
    kvsi_page_heading(page, 2, "How the results were made");
    kvsi_page_paragraph(page, NULL,
                        "The time is that of training and evaluation, without runs that were taken "
                        "over from other experiments or from records.");
    kvsi_page_table(page, &table);
}

kvs_status kvs_repro_summary(size_t *experiments, const char *dir, const char *plan,
                             const char *markdown, kvs_err *err)
{
    kvsi_table table = {.left = 3};
    kvsi_collection c = {0};
    kvsi_page page = {.markdown = 1};
    correction p = {0};
    json_t *registered = NULL;
    size_t total[3] = {0};
    kvs_status st;

    NEED(dir);
    NEED(markdown);
    NEED(experiments);
    *experiments = 0;
    TRY_OUT(kvsi_collect(&c, dir, err));
    if (plan)
        TRY_OUT(kvsi_registered_read(&registered, plan, err));
    TRY_OUT(correct(&p, &c, registered, err));
    kvsi_table_headings(&table, "experiment|claim|paper|ours|95 % interval|p|p (Holm)|verdict");
    for (size_t i = 0; i < c.count; i++)
        add_claims(&table, c.list + i, registered, &p, total);
    kvsi_page_begin(&page, "The paper's experiments, reproduced");
    add_total(&page, total);
    kvsi_page_table(&page, &table);
    kvsi_page_paragraph(&page, NULL,
                        "The interval is of our value; p is that of the claim's test, and p (Holm) "
                        "the same corrected for all tests of this page. Verdicts follow from the "
                        "plain p and the interval. A dash: nothing was tested.");
    if (registered)
        kvsi_registered_missing(&page, registered, &c);
    add_origins(&page, &c);
    TRY_OUT(kvsi_page_write(&page, markdown, err));
    *experiments = c.count;
out:
    json_decref(registered);
    release_correction(&p);
    kvsi_table_release(&table);
    kvsi_page_release(&page);
    kvsi_collection_release(&c);
    return st;
}
