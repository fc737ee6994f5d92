#include "train/zero/gradient_sizes.h"

#include "train/budget.h"

int kvsi_gradients_spread(const kvs_train_config *train)
{
    return train->shard >= KVS_SHARD_GRADIENTS;
}

/* All ranks' pieces of the largest bucket. */
static size_t inbox_size(const kvsi_share *share)
{
    size_t most = 0;

    for (size_t b = 0; b < share->buckets; b++) {
        const size_t numbers = share->bucket[b].grain * share->grains;

        most = numbers > most ? numbers : most;
    }
    return most;
}

kvsi_gradient_sizes kvsi_gradient_sizes_of(const kvsi_share *share, const kvs_model_config *model,
                                           const kvs_train_config *train)
{
    const size_t small = share->total - share->matrices;
    const int spread = kvsi_gradients_spread(train);
    kvsi_gradient_sizes s = {
        .slices = train->deterministic ? KVSI_SLICES / share->ranks : 1,
        .slice = spread ? small : share->small_from + small,
    };

    if (spread) {
        s.owns = train->deterministic ? KVSI_SLICES : 1;
        s.own = share->matrices;
        s.rooms = model->tied ? 3 : 2; /* an embedding that is the head too stays from end to end */
        s.room = share->largest_unit;
    }
    if (train->deterministic && kvsi_slices_have_parts(train, share->ranks))
        s.of_pass = s.slice;
    if (spread || share->ranks > 1) {
        s.inboxes = share->buckets < KVSI_INBOXES_MAX ? share->buckets : KVSI_INBOXES_MAX;
        s.inbox = inbox_size(share);
    }
    return s;
}

uint64_t kvsi_gradient_bytes(const kvsi_gradient_sizes *sizes)
{
    return (sizes->slices * sizes->slice + sizes->owns * sizes->own) * sizeof(real);
}

uint64_t kvsi_gradient_buffer_bytes(const kvsi_gradient_sizes *sizes)
{
    return (sizes->of_pass + sizes->rooms * sizes->room + sizes->inboxes * sizes->inbox) *
           sizeof(real);
}
