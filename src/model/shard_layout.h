/* model/shard_layout.h - how the parameters are divided among ranks.
 *
 *     block    what a pass uses together: the embedding (with positions), one layer, the head
 *     bucket   a contiguous range of one block and one group, transferred at once
 *     shard    one rank's part of a bucket
 *     chunk    a fixed-size part of a bucket; a shard is one or more chunks
 *
 * Only matrices are sharded.  Gains, biases and shift parameters are few and every rank has all of
 * them; they are buckets too, after those of the blocks, because their gradients are summed in the
 * same way.  What is sharded is stored as this rank's shards of all matrices, one after another,
 * and then the small tensors:
 *
 *     | shard of bucket 0 | shard of bucket 1 | ... | gains and biases | shift parameters |
 *
 * Buckets depend on the model alone.  For 1, 2 and 4 ranks every bucket has the same four chunks,
 * so that sums over chunks have the same bits for each of these numbers of ranks. */
#ifndef KVSI_MODEL_SHARD_LAYOUT_H
#define KVSI_MODEL_SHARD_LAYOUT_H

#include "config/config.h"
#include "model/parameters.h"

/* Number of slices of a batch, and of chunks of a bucket, when results must not depend on the
 * number of ranks, which must divide it. */
enum { KVSI_SLICES = 4 };

/* Indices of blocks. */
enum { KVSI_BLOCK_EMBEDDING = 0 };

static inline size_t kvsi_block_of_layer(size_t layer)
{
    return 1 + layer;
}

static inline size_t kvsi_block_count(size_t layers)
{
    return layers + 2;
}

static inline size_t kvsi_block_of_head(const kvs_model_config *config)
{
    return config->tied ? KVSI_BLOCK_EMBEDDING : 1 + config->layers;
}

/* Ranges and offsets count parameters in the order of kvsi_layout. */
typedef struct kvsi_range {
    size_t from, count;
} kvsi_range;

typedef struct kvsi_bucket {
    kvsi_group group;
    kvsi_range all;
    size_t chunk; /* parameters per chunk; the last chunks are shorter or empty */
    size_t at;    /* start of this rank's shard, or of a small bucket, in sharded storage */
} kvsi_bucket;

typedef struct kvsi_shard_layout {
    size_t ranks, rank;
    size_t chunks; /* per bucket, a multiple of ranks */
    size_t blocks;
    kvsi_range *block;    /* [blocks]; count 0 = the model has no such block */
    size_t *first_bucket; /* [blocks + 1], the last = the first bucket of small tensors */
    size_t buckets;
    kvsi_bucket *bucket;
    size_t largest_block, largest_bucket;
    size_t small_from; /* offset of the small tensors */
    size_t matrices;   /* parameters in this rank's shards of matrices */
    size_t total;      /* parameters in sharded storage: these and the small tensors */
} kvsi_shard_layout;

kvs_status kvsi_shard_layout_init(kvsi_shard_layout *shards, const kvsi_layout *layout,
                                  size_t layers, size_t ranks, size_t rank, kvs_err *err);
void kvsi_shard_layout_release(kvsi_shard_layout *shards);

/* A chunk, or this rank's shard, of a bucket. */
kvsi_range kvsi_bucket_chunk(const kvsi_bucket *bucket, size_t chunk);
kvsi_range kvsi_bucket_shard(const kvsi_shard_layout *shards, const kvsi_bucket *bucket);

/* Storage of a quantity with one value per parameter is either whole, in the order of the layout,
 * or sharded as above.  These give the range that this rank stores of a bucket, and the index of a
 * parameter in that range. */
kvsi_range kvsi_bucket_stored(const kvsi_shard_layout *shards, const kvsi_bucket *bucket,
                              int sharded);
size_t kvsi_bucket_index(const kvsi_shard_layout *shards, const kvsi_bucket *bucket, int sharded,
                         size_t offset);

/* The block that contains a matrix parameter. */
size_t kvsi_block_at(const kvsi_shard_layout *shards, size_t offset);

/* The part of a range that this rank's sharded storage has of a bucket. */
typedef struct kvsi_overlap {
    size_t count; /* 0 = none */
    size_t from;  /* index in the range */
    size_t at;    /* index in sharded storage */
} kvsi_overlap;

kvsi_overlap kvsi_shard_overlap(const kvsi_shard_layout *shards, const kvsi_bucket *bucket,
                                kvsi_range range);

#endif
