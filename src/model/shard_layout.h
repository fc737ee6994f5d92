/* model/shard_layout.h - how the block of parameters is cut, so that every rank can have a share.
 *
 *     unit     what a pass uses together: the embedding (with positions), a layer, the head
 *     bucket   a part of a unit that is sent at once
 *     piece    a rank's part of a bucket
 *
 * Only matrices are shared out.  Gains, biases and the shift's numbers are few and every rank has
 * all of them; they are buckets too, behind those of the units, since their gradients are added up
 * in the same way.  A share is this rank's pieces of all matrices, one behind the other, and then
 * the small tensors:
 *
 *     | piece of bucket 0 | piece of bucket 1 | ... | gains and biases | shift numbers |
 *
 * Buckets depend on the model alone.  Pieces are made of grains: of 1, 2 and 4 ranks everyone cuts
 * a bucket into the same four, so that sums over grains have the same bits for each of them. */
#ifndef KVSI_MODEL_SHARD_LAYOUT_H
#define KVSI_MODEL_SHARD_LAYOUT_H

#include "model/parameters.h"

/* Parts that a global batch, or a bucket, is cut into for results that do not depend on the ranks,
 * of which there may be as many as divide this. */
enum { KVSI_SLICES = 4 };

/* Numbers of units. */
enum { KVSI_UNIT_EMBEDDING = 0 };

static inline size_t kvsi_unit_of_layer(size_t layer)
{
    return 1 + layer;
}

static inline size_t kvsi_units(size_t layers)
{
    return layers + 2;
}

static inline size_t kvsi_unit_of_head(const kvs_model_config *config)
{
    return config->tied ? KVSI_UNIT_EMBEDDING : 1 + config->layers;
}

typedef struct kvsi_range {
    size_t from, count;
} kvsi_range;

typedef struct kvsi_bucket {
    kvsi_group group;
    kvsi_range all; /* in the block */
    size_t grain;   /* numbers; the last grains are shorter or empty */
    size_t at;      /* where this rank's piece, or all of a small one, starts in its share */
} kvsi_bucket;

typedef struct kvsi_share {
    size_t ranks, rank;
    size_t grains; /* of a bucket, a multiple of ranks */
    size_t units;
    kvsi_range *unit;     /* [units] in the block; no numbers = the model has no such unit */
    size_t *first_bucket; /* [units + 1], the last = the first bucket of small tensors */
    size_t buckets;
    kvsi_bucket *bucket;
    size_t largest_unit, largest_bucket; /* numbers */
    size_t small_from;                   /* where the small tensors start in the block */
    size_t matrices;                     /* numbers of this rank's pieces of them */
    size_t total;                        /* numbers of a share */
} kvsi_share;

kvs_status kvsi_share_init(kvsi_share *share, const kvsi_layout *layout, size_t layers,
                           size_t ranks, size_t rank, kvs_err *err);
void kvsi_share_release(kvsi_share *share);

/* A grain, or this rank's piece, of a bucket, in the block. */
kvsi_range kvsi_bucket_grain(const kvsi_bucket *bucket, size_t grain);
kvsi_range kvsi_bucket_piece(const kvsi_share *share, const kvsi_bucket *bucket);

/* The unit that a matrix's offset is in. */
size_t kvsi_unit_at(const kvsi_share *share, size_t offset);
/* The part of a range of the block that this rank's share has of a bucket. */
typedef struct kvsi_overlap {
    size_t count; /* 0 = none */
    size_t from;  /* in the range */
    size_t at;    /* in the share */
} kvsi_overlap;

kvsi_overlap kvsi_share_overlap(const kvsi_share *share, const kvsi_bucket *bucket,
                                kvsi_range range);

#endif
