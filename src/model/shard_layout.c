#include "model/shard_layout.h"

#include "base/memory.h"

enum {
    BUCKET_MIN = 1 << 18,   /* numbers: below, a message costs more to begin than to send */
    BUCKETS_OF_LARGEST = 8, /* the largest unit has at most so many */
    ALIGNMENT = 16,         /* numbers of a grain come in cache lines */
};

static size_t divide_up(size_t n, size_t by)
{
    return (n + by - 1) / by;
}

static size_t least(size_t x, size_t y)
{
    return x < y ? x : y;
}

/* ---- units ---- */

/* Of a matrix; they stand in the block in the order of their units. */
static size_t unit_of(const kvsi_parameter *p, size_t layers)
{
    switch (p->role) {
    case KVSI_EMBEDDING:
    case KVSI_POSITION:
        return KVSI_UNIT_EMBEDDING;
    case KVSI_HEAD:
        return 1 + layers;
    default:
        return kvsi_unit_of_layer(p->layer);
    }
}

static void measure_units(kvsi_share *s, const kvsi_layout *layout, size_t layers)
{
    for (size_t i = 0; i < layout->count; i++) {
        const kvsi_parameter *p = &layout->list[i];
        kvsi_range *unit = &s->unit[unit_of(p, layers)];

        if (kvsi_group_of(p->role) != KVSI_MATRICES)
            continue;
        if (unit->count == 0)
            unit->from = p->offset;
        unit->count += p->count;
        s->largest_unit = unit->count > s->largest_unit ? unit->count : s->largest_unit;
    }
}

/* ---- buckets ---- */

static size_t bucket_limit(const kvsi_share *s)
{
    const size_t part = divide_up(divide_up(s->largest_unit, BUCKETS_OF_LARGEST), ALIGNMENT);

    return part * ALIGNMENT > BUCKET_MIN ? part * ALIGNMENT : BUCKET_MIN;
}

static void add_bucket(kvsi_share *s, kvsi_group group, kvsi_range all)
{
    kvsi_bucket *b = &s->bucket[s->buckets++];

    *b = (kvsi_bucket){.group = group, .all = all, .at = s->total};
    b->grain = divide_up(divide_up(all.count, s->grains), ALIGNMENT) * ALIGNMENT;
    s->total += group == KVSI_MATRICES ? kvsi_bucket_piece(s, b).count : all.count;
    s->largest_bucket = all.count > s->largest_bucket ? all.count : s->largest_bucket;
}

static void cut_units(kvsi_share *s, const kvsi_layout *layout)
{
    const size_t limit = bucket_limit(s);

    for (size_t u = 0; u < s->units; u++) {
        const kvsi_range unit = s->unit[u];

        s->first_bucket[u] = s->buckets;
        for (size_t at = 0; at < unit.count; at += limit)
            add_bucket(s, KVSI_MATRICES,
                       (kvsi_range){unit.from + at, least(unit.count - at, limit)});
    }
    s->first_bucket[s->units] = s->buckets;
    s->matrices = s->total;
    for (int group = KVSI_GAINS; group < KVSI_GROUPS; group++) {
        const size_t from = layout->group_start[group], to = layout->group_start[group + 1];

        if (to > from)
            add_bucket(s, (kvsi_group)group, (kvsi_range){from, to - from});
    }
}

static size_t count_buckets(const kvsi_share *s)
{
    const size_t limit = bucket_limit(s);
    size_t count = KVSI_GROUPS;

    for (size_t u = 0; u < s->units; u++)
        count += divide_up(s->unit[u].count, limit);
    return count;
}

kvs_status kvsi_share_init(kvsi_share *share, const kvsi_layout *layout, size_t layers,
                           size_t ranks, size_t rank, kvs_err *err)
{
    *share = (kvsi_share){
        .ranks = ranks,
        .rank = rank,
        .grains = KVSI_SLICES % ranks == 0 ? KVSI_SLICES : ranks,
        .units = kvsi_units(layers),
        .small_from = layout->group_start[KVSI_GAINS],
    };
    share->unit = kvsi_alloc(share->units, sizeof *share->unit);
    share->first_bucket = kvsi_alloc(share->units + 1, sizeof *share->first_bucket);
    if (!share->unit || !share->first_bucket)
        goto no_memory;
    measure_units(share, layout, layers);
    share->bucket = kvsi_alloc(count_buckets(share), sizeof *share->bucket);
    if (!share->bucket)
        goto no_memory;
    cut_units(share, layout);
    return KVS_OK;

no_memory:
    kvsi_share_release(share);
    return kvsi_fail(err, KVS_E_NOMEM, "out of memory for the shares of %zu layers", layers);
}

void kvsi_share_release(kvsi_share *share)
{
    kvsi_free(share->unit);
    kvsi_free(share->first_bucket);
    kvsi_free(share->bucket);
    *share = (kvsi_share){0};
}

/* ---- places ---- */

/* From number `from` of the bucket on, `count` of them where there are as many. */
static kvsi_range range_in(const kvsi_bucket *b, size_t from, size_t count)
{
    const size_t start = least(from, b->all.count);

    return (kvsi_range){b->all.from + start, least(count, b->all.count - start)};
}

kvsi_range kvsi_bucket_grain(const kvsi_bucket *bucket, size_t grain)
{
    return range_in(bucket, grain * bucket->grain, bucket->grain);
}

kvsi_range kvsi_bucket_piece(const kvsi_share *share, const kvsi_bucket *bucket)
{
    const size_t piece = bucket->grain * (share->grains / share->ranks);

    return range_in(bucket, share->rank * piece, piece);
}

size_t kvsi_unit_at(const kvsi_share *share, size_t offset)
{
    size_t low = 0, high = share->units - 1;

    while (low < high) { /* the last that starts at or before it; empty ones start at 0 */
        const size_t middle = (low + high + 1) / 2;

        if (share->unit[middle].count > 0 && share->unit[middle].from <= offset)
            low = middle;
        else
            high = middle - 1;
    }
    return low;
}

kvsi_overlap kvsi_share_overlap(const kvsi_share *share, const kvsi_bucket *bucket,
                                kvsi_range range)
{
    const kvsi_range held =
        bucket->group == KVSI_MATRICES ? kvsi_bucket_piece(share, bucket) : bucket->all;
    const size_t from = held.from > range.from ? held.from : range.from;
    const size_t to = least(held.from + held.count, range.from + range.count);

    if (from >= to)
        return (kvsi_overlap){0};
    return (kvsi_overlap){to - from, from - range.from, bucket->at + from - held.from};
}
