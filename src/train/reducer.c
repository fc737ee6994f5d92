/* What all reducers share, and the one of a single process: one buffer of gradients. */
#include "train/reducer.h"

#include "base/memory.h"
#include "train/budget.h"
#include "train/zero/zero.h"

/* ---- one process: one buffer of gradients, in the order of the layout ---- */

static real *buffer_of(const kvsi_reducer *r)
{
    return r->trained_from == 0 ? r->matrix_sums : r->small_sums;
}

static size_t buffer_bytes(const kvsi_reducer *r)
{
    return (kvsi_layout_total(&r->model->layout) - r->trained_from) * sizeof(real);
}

static void begin_step(kvsi_reducer *r)
{
    kvsi_context *c = &r->context;

    c->ops->zero(c, buffer_of(r), buffer_bytes(r));
}

static real *begin_pass(kvsi_reducer *r, int backward, size_t slice, int is_last)
{
    (void)slice, (void)is_last;
    return backward ? buffer_of(r) : NULL;
}

static void free_single(kvsi_reducer *r)
{
    r->context.ops->release(&r->context, buffer_of(r));
    kvsi_reducer_release(r);
    kvsi_free(r);
}

static const kvsi_reducer_ops single_ops = {
    .begin_step = begin_step,
    .begin_pass = begin_pass,
    .free = free_single,
};

static kvs_status create_single(kvsi_reducer **out, kvs_model *model,
                                const kvs_train_config *config, kvsi_group first_group,
                                kvs_err *err)
{
    kvsi_reducer *r = kvsi_alloc(1, sizeof *r);
    real *sums;
    kvs_status st;

    *out = NULL;
    if (!r)
        return kvsi_no_memory(err, "gradients");
    TRY_OUT(kvsi_reducer_init(r, model, config, first_group, err));
    r->ops = &single_ops;
    sums = model->context.ops->alloc(&model->context, buffer_bytes(r));
    if (!sums) {
        st = kvsi_no_memory(err, "gradients of %zu MiB", buffer_bytes(r) >> 20);
        goto out;
    }
    r->matrix_sums = r->trained_from == 0 ? sums : NULL;
    r->small_sums = sums + (r->layout->small_from - r->trained_from);
    *out = r;
    return KVS_OK;
out:
    free_single(r);
    return st;
}

/* ---- creating ---- */

kvs_status kvsi_reducer_check_ranks(const kvs_train_config *config, size_t ranks, kvs_err *err)
{
    const kvs_train_config *c = config;

    if (ranks < 1)
        return kvsi_fail(err, KVS_E_INVALID, "ranks is 0, expected at least 1");
    if (c->deterministic && KVSI_SLICES % ranks != 0)
        return kvsi_fail(err, KVS_E_INVALID,
                         "deterministic runs have 1, 2 or 4 ranks, here are %zu", ranks);
    if (c->deterministic && c->batch % KVSI_SLICES != 0)
        return kvsi_fail(err, KVS_E_INVALID,
                         "batch is %zu, expected a multiple of %d in a deterministic run", c->batch,
                         (int)KVSI_SLICES);
    if (c->batch % ranks != 0)
        return kvsi_fail(err, KVS_E_INVALID, "batch is %zu, expected a multiple of the %zu ranks",
                         c->batch, ranks);
    return KVS_OK;
}

kvs_status kvsi_reducer_init(kvsi_reducer *r, kvs_model *model, const kvs_train_config *config,
                             kvsi_group first_group, kvs_err *err)
{
    const kvs_comm *comm = model->comm;

    *r = (kvsi_reducer){
        .model = model,
        .comm = model->comm,
        .context = model->context,
        .config = *config,
        .first_group = first_group,
        .slices = config->deterministic ? KVSI_SLICES / comm->size : 1,
        .layout = model->shards,
        .gradients_sharded = config->shard >= KVSI_SHARD_GRADIENTS,
    };
    TRY(kvsi_reducer_check_ranks(config, comm->size, err));
    if ((config->shard == KVSI_SHARD_PARAMETERS) != (model->shards != NULL))
        return kvsi_fail(err, KVS_E_INVALID,
                         model->shards
                             ? "the model's weights are sharded over ranks, expected shard "
                               "parameters, found %s"
                             : "the model's weights are not sharded over ranks, which "
                               "shard %s needs",
                         kvsi_shard_name(config->shard));
    if (!r->layout) {
        TRY(kvsi_shard_layout_init(&r->own_layout, &model->layout, model->config.layers, comm->size,
                                   comm->rank, err));
        r->layout = &r->own_layout;
    }
    r->trained_from = kvsi_trained_from(r->layout, first_group);
    return KVS_OK;
}

void kvsi_reducer_release(kvsi_reducer *r)
{
    kvsi_shard_layout_release(&r->own_layout);
}

kvs_status kvsi_reducer_create(kvsi_reducer **out, kvs_model *model, const kvs_train_config *config,
                               kvsi_group first_group, kvs_err *err)
{
    const int alone = model->comm->size == 1 && config->shard < KVSI_SHARD_GRADIENTS;

    if (alone && !config->deterministic)
        return create_single(out, model, config, first_group, err);
    return kvsi_zero_create(out, model, config, first_group, err);
}

void kvsi_reducer_free(kvsi_reducer *r)
{
    if (r)
        r->ops->free(r);
}

/* ---- what this rank has ---- */

kvsi_range kvsi_reducer_updated_range(const kvsi_reducer *r, const kvsi_bucket *bucket)
{
    return kvsi_bucket_stored(r->layout, bucket, r->config.shard != KVSI_SHARD_NONE);
}

real *kvsi_reducer_sum(const kvsi_reducer *r, const kvsi_bucket *bucket, size_t offset)
{
    if (bucket->group != KVSI_MATRICES)
        return r->small_sums + (offset - r->layout->small_from);
    return r->matrix_sums + kvsi_bucket_index(r->layout, bucket, r->gradients_sharded, offset);
}

const real *kvsi_reducer_find_sum(const kvsi_reducer *r, size_t offset, size_t *count)
{
    const kvsi_bucket *b = r->layout->bucket;
    kvsi_range stored;

    while (offset >= b->all.from + b->all.count)
        b++;
    if (offset < r->trained_from) {
        *count = b->all.from + b->all.count - offset;
        return NULL;
    }
    stored = kvsi_bucket_stored(r->layout, b, r->gradients_sharded);
    if (offset >= stored.from && offset < stored.from + stored.count) {
        *count = stored.from + stored.count - offset;
        return kvsi_reducer_sum(r, b, offset);
    }
    *count = (offset < stored.from ? stored.from : b->all.from + b->all.count) - offset;
    return NULL;
}
