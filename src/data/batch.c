#include "data/batch.h"

#include "base/sized.h"

#include <string.h>

void kvs_batch_init(kvs_batch *batch, size_t size)
{
    const kvs_batch defaults = {.size = sizeof defaults};

    kvsi_sized_init(batch, size, &defaults, sizeof defaults);
}

/* ---- checks ---------------------------------------------------------------------------------- */

static kvs_status check_arrays(const kvs_batch *b, const kvsi_batch_limits *l, kvs_err *err)
{
    /* starts has one more value than there are sequences, and its size in bytes must not
     * overflow. */
    const size_t most = PTRDIFF_MAX / sizeof *b->starts - 1;

    if (b->sequences == 0)
        return kvsi_fail(err, KVS_E_INVALID, "%s: sequences is 0, expected at least 1", l->what);
    if (!b->starts)
        return kvsi_fail(err, KVS_E_INVALID, "%s: starts is NULL", l->what);
    if (!b->ids)
        return kvsi_fail(err, KVS_E_INVALID, "%s: ids is NULL", l->what);
    if (b->sequences > most)
        return kvsi_fail(err, KVS_E_INVALID, "%s: sequences is %zu, expected at most %zu", l->what,
                         b->sequences, most);
    if (l->sequences > 0 && b->sequences > l->sequences)
        return kvsi_fail(err, KVS_E_LIMIT, "%s: %zu sequences, expected at most %zu", l->what,
                         b->sequences, l->sequences);
    if (b->starts[0] != 0)
        return kvsi_fail(err, KVS_E_INVALID, "%s: starts[0] is %zu, expected 0", l->what,
                         b->starts[0]);
    return KVS_OK;
}

/* Checks that no sequence is empty or too long, and that the starts increase and are possible
 * indices of an array.  Rows are read only after this check. */
static kvs_status check_starts(const kvs_batch *b, const kvsi_batch_limits *l, kvs_err *err)
{
    const size_t most = PTRDIFF_MAX / sizeof *b->ids;

    for (size_t s = 0; s < b->sequences; s++) {
        const size_t start = b->starts[s], end = b->starts[s + 1];

        if (end == start)
            return kvsi_fail(err, KVS_E_INVALID, "%s: sequence %zu is empty, at row %zu", l->what,
                             s, start);
        if (end < start)
            return kvsi_fail(err, KVS_E_INVALID,
                             "%s: sequence %zu ends at row %zu, before its start %zu", l->what, s,
                             end, start);
        if (end > most || end - start > INT32_MAX)
            return kvsi_fail(err, KVS_E_INVALID,
                             "%s: sequence %zu has rows %zu to %zu, which is too many", l->what, s,
                             start, end);
        if (l->length > 0 && end - start > l->length)
            return kvsi_fail(err, KVS_E_LIMIT,
                             "%s: sequence %zu has %zu tokens, expected at most %zu", l->what, s,
                             end - start, l->length);
    }
    return KVS_OK;
}

static kvs_status check_rows(const kvs_batch *b, const kvsi_batch_limits *l, kvs_err *err)
{
    const int64_t vocab =
        l->vocab == 0 || l->vocab > INT32_MAX ? (int64_t)INT32_MAX + 1 : (int64_t)l->vocab;
    size_t all = 0;

    for (size_t s = 0; s < b->sequences; s++) {
        const size_t start = b->starts[s], end = b->starts[s + 1];
        size_t targets = 0;

        for (size_t row = start; row < end; row++) {
            if (b->ids[row] < 0 || b->ids[row] >= vocab)
                return kvsi_fail(err, KVS_E_INVALID,
                                 "%s: sequence %zu has id %d at position %zu, expected 0 to %lld",
                                 l->what, s, (int)b->ids[row], row - start, (long long)vocab - 1);
            if (b->targets && (b->targets[row] < -1 || b->targets[row] >= vocab))
                return kvsi_fail(
                    err, KVS_E_INVALID,
                    "%s: sequence %zu has target %d at position %zu, expected -1 to %lld", l->what,
                    s, (int)b->targets[row], row - start, (long long)vocab - 1);
            targets += kvsi_batch_target(b, row, end) >= 0;
        }
        if (l->each_has_target && targets == 0)
            return kvsi_fail(err, KVS_E_INVALID, "%s: sequence %zu has no target: nothing to learn",
                             l->what, s);
        all += targets;
    }
    if (all == 0)
        return kvsi_fail(err, KVS_E_INVALID, "%s: none of its %zu sequences has a target", l->what,
                         b->sequences);
    return KVS_OK;
}

kvs_status kvsi_batch_take(kvs_batch *out, const kvs_batch *batch, const kvsi_batch_limits *limits,
                           kvs_err *err)
{
    kvs_batch b;

    kvs_batch_init(&b, sizeof b);
    TRY(kvsi_sized_read(&b, sizeof b, batch, "kvs_batch", err));
    TRY(check_arrays(&b, limits, err));
    TRY(check_starts(&b, limits, err));
    TRY(check_rows(&b, limits, err));
    *out = b;
    return KVS_OK;
}

/* ---- reading --------------------------------------------------------------------------------- */

size_t kvsi_batch_copy(int32_t *ids, int32_t *targets, uint8_t *scored, const kvs_batch *batch,
                       size_t sequence)
{
    const size_t start = batch->starts[sequence], end = batch->starts[sequence + 1];

    memcpy(ids, batch->ids + start, (end - start) * sizeof *ids);
    for (size_t row = start; row < end; row++) {
        targets[row - start] = kvsi_batch_target(batch, row, end);
        scored[row - start] = batch->scored && batch->scored[row];
    }
    return end - start;
}
