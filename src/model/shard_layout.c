#include "model/shard_layout.h"

#include "base/memory.h"

enum {
    BUCKET_MIN = 1 << 18,   /* parameters: below, a message's latency exceeds its transfer time */
    BUCKETS_OF_LARGEST = 8, /* at most, in the largest block */
    ALIGNMENT = 16,         /* parameters: chunks are whole cache lines */
};

static size_t divide_up(size_t n, size_t by)
{
    return (n + by - 1) / by;
}

static size_t least(size_t x, size_t y)
{
    return x < y ? x : y;
}

/* ---- blocks ---- */

/* The block of a matrix.  The layout has matrices in the order of their blocks. */
static size_t block_of(const kvsi_parameter *p, size_t layers)
{
    switch (p->role) {
    case KVSI_EMBEDDING:
    case KVSI_POSITION:
        return KVSI_BLOCK_EMBEDDING;
    case KVSI_HEAD:
        return 1 + layers;
    default:
        return kvsi_block_of_layer(p->layer);
    }
}

static void measure_blocks(kvsi_shard_layout *s, const kvsi_layout *layout, size_t layers)
{
    for (size_t i = 0; i < layout->count; i++) {
        const kvsi_parameter *p = &layout->list[i];
        kvsi_range *block = &s->block[block_of(p, layers)];

        if (kvsi_group_of(p->role) != KVSI_MATRICES)
            continue;
        if (block->count == 0)
            block->from = p->offset;
        block->count += p->count;
        s->largest_block = block->count > s->largest_block ? block->count : s->largest_block;
    }
}

/* ---- buckets ---- */

static size_t bucket_limit(const kvsi_shard_layout *s)
{
    const size_t part = divide_up(divide_up(s->largest_block, BUCKETS_OF_LARGEST), ALIGNMENT);

    return part * ALIGNMENT > BUCKET_MIN ? part * ALIGNMENT : BUCKET_MIN;
}

static void add_bucket(kvsi_shard_layout *s, kvsi_group group, kvsi_range all)
{
    kvsi_bucket *b = &s->bucket[s->buckets++];

    *b = (kvsi_bucket){.group = group, .all = all, .at = s->total};
    b->chunk = divide_up(divide_up(all.count, s->chunks), ALIGNMENT) * ALIGNMENT;
    s->total += group == KVSI_MATRICES ? kvsi_bucket_shard(s, b).count : all.count;
    s->largest_bucket = all.count > s->largest_bucket ? all.count : s->largest_bucket;
}

static void make_buckets(kvsi_shard_layout *s, const kvsi_layout *layout)
{
    const size_t limit = bucket_limit(s);

    for (size_t i = 0; i < s->blocks; i++) {
        const kvsi_range block = s->block[i];

        s->first_bucket[i] = s->buckets;
        for (size_t at = 0; at < block.count; at += limit)
            add_bucket(s, KVSI_MATRICES,
                       (kvsi_range){block.from + at, least(block.count - at, limit)});
    }
    s->first_bucket[s->blocks] = s->buckets;
    s->matrices = s->total;
    for (int group = KVSI_GAINS; group < KVSI_GROUPS; group++) {
        const size_t from = layout->group_start[group], to = layout->group_start[group + 1];

        if (to > from)
            add_bucket(s, (kvsi_group)group, (kvsi_range){from, to - from});
    }
}

static size_t count_buckets(const kvsi_shard_layout *s)
{
    const size_t limit = bucket_limit(s);
    size_t count = KVSI_GROUPS;

    for (size_t i = 0; i < s->blocks; i++)
        count += divide_up(s->block[i].count, limit);
    return count;
}

kvs_status kvsi_shard_layout_init(kvsi_shard_layout *shards, const kvsi_layout *layout,
                                  size_t layers, size_t ranks, size_t rank, kvs_err *err)
{
    *shards = (kvsi_shard_layout){
        .ranks = ranks,
        .rank = rank,
        .chunks = KVSI_SLICES % ranks == 0 ? KVSI_SLICES : ranks,
        .blocks = kvsi_block_count(layers),
        .small_from = layout->group_start[KVSI_GAINS],
    };
    shards->block = kvsi_alloc(shards->blocks, sizeof *shards->block);
    shards->first_bucket = kvsi_alloc(shards->blocks + 1, sizeof *shards->first_bucket);
    if (!shards->block || !shards->first_bucket)
        goto no_memory;
    measure_blocks(shards, layout, layers);
    shards->bucket = kvsi_alloc(count_buckets(shards), sizeof *shards->bucket);
    if (!shards->bucket)
        goto no_memory;
    make_buckets(shards, layout);
    return KVS_OK;

no_memory:
    kvsi_shard_layout_release(shards);
    return kvsi_fail(err, KVS_E_NOMEM, "out of memory for the shares of %zu layers", layers);
}

void kvsi_shard_layout_release(kvsi_shard_layout *shards)
{
    kvsi_free(shards->block);
    kvsi_free(shards->first_bucket);
    kvsi_free(shards->bucket);
    *shards = (kvsi_shard_layout){0};
}

/* ---- ranges ---- */

/* `count` parameters of the bucket from index `from`, or as many as there are. */
static kvsi_range range_in(const kvsi_bucket *b, size_t from, size_t count)
{
    const size_t start = least(from, b->all.count);

    return (kvsi_range){b->all.from + start, least(count, b->all.count - start)};
}

kvsi_range kvsi_bucket_chunk(const kvsi_bucket *bucket, size_t grain)
{
    return range_in(bucket, grain * bucket->chunk, bucket->chunk);
}

kvsi_range kvsi_bucket_shard(const kvsi_shard_layout *shards, const kvsi_bucket *bucket)
{
    const size_t shard = bucket->chunk * (shards->chunks / shards->ranks);

    return range_in(bucket, shards->rank * shard, shard);
}

kvsi_range kvsi_bucket_stored(const kvsi_shard_layout *shards, const kvsi_bucket *bucket,
                              int sharded)
{
    return sharded && bucket->group == KVSI_MATRICES ? kvsi_bucket_shard(shards, bucket)
                                                     : bucket->all;
}

size_t kvsi_bucket_index(const kvsi_shard_layout *shards, const kvsi_bucket *bucket, int sharded,
                         size_t offset)
{
    return sharded ? bucket->at + (offset - kvsi_bucket_stored(shards, bucket, 1).from) : offset;
}

size_t kvsi_block_at(const kvsi_shard_layout *shards, size_t offset)
{
    size_t low = 0, high = shards->blocks - 1;

    while (low < high) { /* the last block that starts at or before it; empty ones start at 0 */
        const size_t middle = (low + high + 1) / 2;

        if (shards->block[middle].count > 0 && shards->block[middle].from <= offset)
            low = middle;
        else
            high = middle - 1;
    }
    return low;
}

kvsi_overlap kvsi_shard_overlap(const kvsi_shard_layout *shards, const kvsi_bucket *bucket,
                                kvsi_range range)
{
    const kvsi_range held = kvsi_bucket_stored(shards, bucket, 1);
    const size_t from = held.from > range.from ? held.from : range.from;
    const size_t to = least(held.from + held.count, range.from + range.count);

    if (from >= to)
        return (kvsi_overlap){0};
    return (kvsi_overlap){to - from, from - range.from, bucket->at + from - held.from};
}
