#include "repro/registered.h"

#include <stdio.h>
#include <string.h>

enum { FILE_LIMIT = 1 << 22 };

static const char *text_of(const json_t *object, const char *key)
{
    const char *text = json_string_value(json_object_get(object, key));

    return text ? text : "";
}

static kvs_status check_row(const json_t *row, size_t number, const char *path, kvs_err *err)
{
    static const char *const keys[] = {"experiment", "scale", "claim", "holds_if"};
    const json_int_t seeds = json_integer_value(json_object_get(row, "seeds"));

    for (size_t i = 0; i < sizeof keys / sizeof *keys; i++)
        if (!*text_of(row, keys[i]))
            return kvsi_fail(err, KVS_E_FORMAT, "'%s': claim %zu: expected a text '%s', found none",
                             path, number, keys[i]);
    if (seeds < 1)
        return kvsi_fail(err, KVS_E_FORMAT,
                         "'%s': claim %zu: expected 'seeds' of at least 1, found %d", path, number,
                         (int)seeds);
    return KVS_OK;
}

kvs_status kvsi_registered_read(json_t **out, const char *path, kvs_err *err)
{
    const json_t *claims;
    kvs_status st;

    TRY_OUT(kvsi_json_read(out, path, FILE_LIMIT, err));
    claims = json_object_get(*out, "claims");
    if (!json_is_array(claims)) {
        st = kvsi_fail(err, KVS_E_FORMAT, "'%s': key 'claims': expected an array", path);
        goto out;
    }
    for (size_t i = 0; i < json_array_size(claims); i++)
        TRY_OUT(check_row(json_array_get(claims, i), i, path, err));
out:
    if (st != KVS_OK) {
        json_decref(*out);
        *out = NULL;
    }
    return st;
}

static int is_of(const json_t *row, const kvsi_saved *saved)
{
    return strcmp(text_of(row, "experiment"), text_of(saved->experiment, "experiment")) == 0 &&
           strcmp(text_of(row, "scale"), text_of(saved->experiment, "scale")) == 0;
}

int kvsi_is_registered(const json_t *plan, const kvsi_saved *saved, const kvs_claim *claim)
{
    const json_t *claims = json_object_get(plan, "claims");

    if (!plan)
        return 1;
    for (size_t i = 0; i < json_array_size(claims); i++) {
        const json_t *row = json_array_get(claims, i);

        if (is_of(row, saved) && strcmp(text_of(row, "claim"), claim->claim) == 0)
            return 1;
    }
    return 0;
}

/* The seeds of the row's result; 0 = there is none. */
static size_t seeds_done(const json_t *row, const kvsi_collection *c)
{
    for (size_t i = 0; i < c->count; i++) {
        kvs_claim claims[KVSI_CLAIMS_MAX];
        const size_t count = kvsi_saved_claims(claims, KVSI_CLAIMS_MAX, c->list[i].claims);

        for (size_t k = 0; is_of(row, c->list + i) && k < count; k++)
            if (strcmp(text_of(row, "claim"), claims[k].claim) == 0)
                return claims[k].seeds;
    }
    return 0;
}

void kvsi_registered_missing(kvsi_page *page, const json_t *plan, const kvsi_collection *c)
{
    const json_t *claims = json_object_get(plan, "claims");
    kvsi_table table = {.left = 3};
    size_t missing = 0;

    kvsi_table_headings(&table, "experiment|scale|claim|seeds planned|seeds done");
    for (size_t i = 0; i < json_array_size(claims); i++) {
        const json_t *row = json_array_get(claims, i);
        const size_t planned = (size_t)json_integer_value(json_object_get(row, "seeds"));
        const size_t done = seeds_done(row, c);

        if (done >= planned)
            continue;
        missing++;
        kvsi_table_add(&table, "%s", text_of(row, "experiment"));
        kvsi_table_add(&table, "%s", text_of(row, "scale"));
        kvsi_table_add(&table, "%s", text_of(row, "claim"));
        kvsi_table_add(&table, "%zu", planned);
        kvsi_table_add(&table, "%zu", done);
    }
    kvsi_page_heading(page, 2, "Planned and not done");
    if (missing > 0) {
        kvsi_page_table(page, &table);
        return;
    }
    kvsi_table_release(&table);
    kvsi_page_paragraph(page, NULL, "All planned runs are done.");
}
