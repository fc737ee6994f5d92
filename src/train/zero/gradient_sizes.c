#include "train/zero/gradient_sizes.h"

#include "train/budget.h"

/* Every rank's shard of the largest bucket, as far as chunks are full. */
static size_t receive_size(const kvsi_shard_layout *layout)
{
    size_t most = 0;

    for (size_t b = 0; b < layout->buckets; b++) {
        const size_t values = layout->bucket[b].chunk * layout->chunks;

        most = values > most ? values : most;
    }
    return most;
}

kvsi_gradient_sizes kvsi_gradient_sizes_of(const kvsi_shard_layout *layout,
                                           const kvs_model_config *model,
                                           const kvs_train_config *train)
{
    const size_t small = layout->total - layout->matrices;
    const size_t trained_from = kvsi_trained_from(layout, kvsi_first_trained(model, train));
    const int sharded = train->shard >= KVSI_SHARD_GRADIENTS;
    kvsi_gradient_sizes s = {
        .slices = train->deterministic ? KVSI_SLICES / layout->ranks : 1,
        .slice = sharded ? small : layout->small_from + small - trained_from,
    };

    if (sharded && trained_from == 0) {
        s.shard_sums = train->deterministic ? KVSI_SLICES : 1;
        s.shard = layout->matrices;
        s.slots =
            model->tied ? 3 : 2; /* a tied embedding is in use during the whole backward pass */
        s.slot = layout->largest_block;
    }
    if (train->deterministic && kvsi_slices_have_micro_batches(train, layout->ranks))
        s.pass = s.slice;
    if (sharded || layout->ranks > 1) {
        s.receives = layout->buckets < KVSI_RECEIVES_MAX ? layout->buckets : KVSI_RECEIVES_MAX;
        s.receive = receive_size(layout);
    }
    return s;
}

uint64_t kvsi_gradient_bytes(const kvsi_gradient_sizes *sizes)
{
    return (sizes->slices * sizes->slice + sizes->shard_sums * sizes->shard) * sizeof(real);
}

uint64_t kvsi_gradient_buffer_bytes(const kvsi_gradient_sizes *sizes)
{
    return (sizes->pass + sizes->slots * sizes->slot + sizes->receives * sizes->receive) *
           sizeof(real);
}
