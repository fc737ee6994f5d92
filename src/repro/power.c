/* What the seeds of finished experiments can show: the power of their paired tests.
 *
 * With the deviation s of a claim's differences over its n seeds:
 *
 *     smallest difference   the mean difference that n seeds show (p < 0.05) with probability 0.8
 *     seeds needed          the seeds that show our difference with that probability; for "no better
 *                           by more than a margin" its distance from the margin */
#include "base/text.h"
#include "repro/collection.h"

#include <math.h>
#include <stdio.h>

static const double POWER = 0.8;

/* Seconds of a run, on average over the experiment; runs that were taken over count. */
static double seconds_per_run(const json_t *e)
{
    const double runs = (double)json_integer_value(json_object_get(e, "runs"));
    const double seconds = json_number_value(json_object_get(e, "seconds")) +
                           json_number_value(json_object_get(e, "seconds_taken"));

    return runs > 0 ? seconds / runs : NAN;
}

/* Two arms are compared. */
static void add_cost(kvsi_table *table, const kvs_claim *claim, size_t needed, double seconds)
{
    const double more = needed > claim->seeds ? (double)(needed - claim->seeds) : 0;

    if (needed == 0)
        kvsi_table_add(table, "–");
    else
        kvsi_table_add(table, "%.1f", 2 * more * seconds / 3600);
}

static void add_test(kvsi_table *table, const kvs_claim *claim, const char *name, double seconds)
{
    const double s = claim->error * sqrt((double)claim->seeds);
    const double wanted = claim->ours + (isnan(claim->margin) ? 0 : claim->margin);
    const size_t needed = s > 0 ? kvsi_pairs_needed(POWER, wanted / s) : 0;

    kvsi_table_add(table, "%s", name);
    kvsi_table_add(table, "%s", claim->claim);
    kvsi_table_add(table, "%s", kvs_verdict_name(claim->verdict));
    kvsi_table_add(table, "%s", claim->unit);
    kvsi_table_add(table, "%.4g", claim->ours);
    kvsi_table_add(table, "%.3g", s);
    kvsi_table_add(table, "%zu", claim->seeds);
    kvsi_table_add(table, "%.3g", s * kvsi_smallest_effect(POWER, claim->seeds));
    if (needed > 0)
        kvsi_table_add(table, "%zu", needed);
    else
        kvsi_table_add(table, s > 0 ? "> %d" : "–", (int)KVSI_PAIRS_ASKED);
    add_cost(table, claim, needed, seconds);
}

kvs_status kvs_repro_power(const char *dir, void (*write)(void *user, const char *text), void *user,
                           kvs_err *err)
{
    kvsi_table table = {.left = 4};
    kvsi_collection c = {0};
    kvsi_text text = {0};
    kvs_status st;

    NEED(dir);
    NEED(write);
    TRY_OUT(kvsi_collect(&c, dir, err));
    kvsi_table_headings(&table, "experiment|claim|verdict|unit|ours|deviation|seeds|smallest "
                                "difference|seeds needed|hours more");
    for (size_t i = 0; i < c.count; i++) {
        kvs_claim claims[KVSI_CLAIMS_MAX];
        const size_t count = kvsi_saved_claims(claims, KVSI_CLAIMS_MAX, c.list[i].claims);

        for (size_t k = 0; k < count; k++)
            if (!isnan(claims[k].p) && claims[k].seeds > 1)
                add_test(&table, claims + k, kvsi_saved_name(c.list + i),
                         seconds_per_run(c.list[i].experiment));
    }
    kvsi_table_to_markdown(&text, &table);
    TRY_OUT(kvsi_text_check(&text, err));
    write(user, text.data);
out:
    kvsi_text_release(&text);
    kvsi_table_release(&table);
    kvsi_collection_release(&c);
    return st;
}
