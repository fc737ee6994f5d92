#include "train/rates.h"

#include "base/math.h"
#include "base/memory.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static const char WEIGHT[] = ".weight";

/* One entry of the text: NAME=FACTOR. */
typedef struct entry {
    const char *name;
    size_t size;
    double factor;
} entry;

/* Reads the entry at *at and moves *at behind it. */
static kvs_status read_entry(entry *out, const char **at, kvs_err *err)
{
    const char *start = *at;
    const size_t length = strcspn(start, ","), name = strcspn(start, "=,");
    char *end = NULL;

    *out = (entry){.name = start, .size = name};
    if (name > 0 && start[name] == '=' && name + 1 < length)
        out->factor = strtod(start + name + 1, &end);
    if (end != start + length || !(out->factor >= 0) || !isfinite(out->factor))
        return kvsi_fail(err, KVS_E_INVALID,
                         "rates: expected NAME=FACTOR with a factor of at least 0, found '%.*s'",
                         (int)length, start);
    *at = start + length + (start[length] == ',');
    return KVS_OK;
}

/* Whether the entry has the name, or the end of it after a dot. */
static int fits_name(const entry *e, const char *name, size_t length)
{
    for (size_t from = 0; from < length; from++)
        if ((from == 0 || name[from - 1] == '.') &&
            kvsi_matches(e->name, e->size, name + from, length - from))
            return 1;
    return 0;
}

static int fits(const entry *e, const kvsi_parameter *p)
{
    const size_t length = strlen(p->name), ending = sizeof WEIGHT - 1;

    return fits_name(e, p->name, length) ||
           (kvsi_ends_with(p->name, WEIGHT) && fits_name(e, p->name, length - ending));
}

static kvs_status apply_entry(double *factors, const entry *e, const kvsi_layout *layout,
                              kvs_err *err)
{
    int found = 0;

    for (size_t i = 0; i < layout->count; i++) {
        if (!fits(e, &layout->list[i]))
            continue;
        found = 1;
        if (isnan(factors[i]))
            factors[i] = e->factor;
    }
    if (!found)
        return kvsi_fail(err, KVS_E_INVALID,
                         "rates: no tensor is named '%.*s'; names are like '%s' and may have * and "
                         "? as wildcards",
                         (int)e->size, e->name, layout->list[layout->count / 2].name);
    return KVS_OK;
}

static int by_offset(const void *a, const void *b)
{
    const kvsi_rate *left = a, *right = b;

    return left->from < right->from ? -1 : left->from > right->from;
}

static kvs_status check_trained(const kvsi_rates *rates, size_t trained_from, kvs_err *err)
{
    for (size_t i = 0; i < rates->count; i++)
        if (rates->list[i].factor > 0 && rates->list[i].from + rates->list[i].count > trained_from)
            return KVS_OK;
    return kvsi_fail(err, KVS_E_INVALID, "rates: every tensor is frozen, nothing is trained");
}

kvs_status kvsi_rates_init(kvsi_rates *rates, const char *text, const kvsi_layout *layout,
                           size_t trained_from, kvs_err *err)
{
    double *factors = NULL;
    kvs_status st = KVS_OK;

    *rates = (kvsi_rates){0};
    if (!*text)
        return KVS_OK;
    factors = kvsi_alloc(layout->count, sizeof *factors);
    rates->list = kvsi_alloc(layout->count, sizeof *rates->list);
    if (!factors || !rates->list) {
        st = kvsi_no_memory(err, "the rates of tensors");
        goto out;
    }
    for (size_t i = 0; i < layout->count; i++)
        factors[i] = NAN;
    while (*text) {
        entry e;

        TRY_OUT(read_entry(&e, &text, err));
        TRY_OUT(apply_entry(factors, &e, layout, err));
    }
    for (size_t i = 0; i < layout->count; i++)
        rates->list[rates->count++] = (kvsi_rate){.from = layout->list[i].offset,
                                                  .count = layout->list[i].count,
                                                  .factor = isnan(factors[i]) ? 1 : factors[i]};
    qsort(rates->list, rates->count, sizeof *rates->list, by_offset);
    TRY_OUT(check_trained(rates, trained_from, err));
out:
    kvsi_free(factors);
    if (st != KVS_OK)
        kvsi_rates_release(rates);
    return st;
}

void kvsi_rates_release(kvsi_rates *rates)
{
    kvsi_free(rates->list);
    *rates = (kvsi_rates){0};
}

double kvsi_rates_at(const kvsi_rates *rates, size_t offset, size_t *count)
{
    size_t low = 0, high = rates->count;

    if (rates->count == 0)
        return 1;
    while (high - low > 1) { /* list[low] starts at or before the offset, list[high] after it */
        const size_t middle = low + (high - low) / 2;

        if (rates->list[middle].from <= offset)
            low = middle;
        else
            high = middle;
    }
    *count = kvsi_min(*count, rates->list[low].from + rates->list[low].count - offset);
    return rates->list[low].factor;
}
