#include "train/zero/collectives.h"

#include "base/clock.h"
#include "base/memory.h"

/* ---- making ---- */

kvs_status kvsi_team_check_ranks(const kvs_train_config *config, size_t ranks, kvs_err *err)
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

static kvs_status check_model(const kvs_model *model, const kvs_train_config *c, kvs_err *err)
{
    if ((c->shard == KVS_SHARD_PARAMETERS) != (model->share != NULL))
        return kvsi_fail(err, KVS_E_INVALID,
                         model->share ? "the model's weights are spread over ranks, expected shard "
                                        "parameters, found %s"
                                      : "the model's weights are not spread over ranks, which "
                                        "shard %s needs",
                         kvs_shard_name(c->shard));
    return KVS_OK;
}

static kvs_status make_cuts(kvsi_team *t, kvs_err *err)
{
    const kvsi_share *share = t->share;
    kvs_status st = KVS_OK;

    t->cuts = kvsi_alloc(share->buckets, sizeof *t->cuts);
    if (!t->cuts)
        return kvsi_fail(err, KVS_E_NOMEM, "out of memory for %zu buckets", share->buckets);
    for (size_t i = 0; st == KVS_OK && i < share->buckets; i++) {
        const kvsi_bucket *b = &share->bucket[i];
        const size_t piece = b->grain * (share->grains / share->ranks);

        st = kvsi_cut_init(&t->cuts[i], t->comm, b->all.count * sizeof(real), piece * sizeof(real),
                           err);
    }
    return st;
}

kvs_status kvsi_team_init(kvsi_team *team, kvs_model *model, const kvs_train_config *config,
                          kvsi_group first_group, kvs_err *err)
{
    *team = (kvsi_team){
        .model = model,
        .comm = model->comm,
        .context = model->context,
        .train = *config,
        .shard = config->shard,
        .deterministic = config->deterministic,
        .first_group = first_group,
        .slices = config->deterministic ? KVSI_SLICES / model->comm->size : 1,
        .share = model->share,
    };
    TRY(kvsi_team_check_ranks(config, model->comm->size, err));
    TRY(check_model(model, config, err));
    if (!team->share) {
        TRY(kvsi_share_init(&team->own_share, &model->layout, model->config.layers,
                            team->comm->size, team->comm->rank, err));
        team->share = &team->own_share;
    }
    return make_cuts(team, err);
}

void kvsi_team_release(kvsi_team *team)
{
    for (size_t i = 0; team->cuts && i < team->share->buckets; i++)
        kvsi_cut_release(&team->cuts[i]);
    kvsi_free(team->cuts);
    kvsi_share_release(&team->own_share);
}

size_t kvsi_team_slices(const kvsi_team *team)
{
    return team->slices * team->comm->size;
}

/* ---- transfers ---- */

static void note_start(kvsi_team *t)
{
    if (t->under_way++ == 0)
        t->since = kvsi_clock_seconds();
}

static void note_end(kvsi_team *t)
{
    if (--t->under_way == 0)
        t->busy += kvsi_clock_seconds() - t->since;
}

void kvsi_team_begin(kvsi_team *team)
{
    team->busy = team->waited = 0;
    team->since = kvsi_clock_seconds(); /* weights of the last step may still be under way */
}

kvs_status kvsi_team_gather(kvsi_team *team, void *all, const void *own, size_t bytes, kvs_err *err)
{
    const double started = kvsi_clock_seconds();
    kvs_status st;

    if (team->comm->size == 1)
        return kvsi_comm_gather(team->comm, all, own, bytes, err);
    note_start(team);
    st = kvsi_comm_gather(team->comm, all, own, bytes, err);
    note_end(team);
    team->waited += kvsi_clock_seconds() - started;
    return st;
}

void kvsi_team_scatter(kvsi_team *team, kvsi_transfer *t, size_t bucket, real *arrived,
                       const real *numbers)
{
    if (team->status == KVS_OK)
        team->status = team->comm->ops->scatter(team->comm->self, t, arrived, numbers,
                                                &team->cuts[bucket], &team->failure);
    note_start(team);
}

void kvsi_team_collect(kvsi_team *team, kvsi_transfer *t, size_t bucket, real *numbers,
                       const real *own)
{
    if (team->status == KVS_OK)
        team->status = team->comm->ops->collect(team->comm->self, t, numbers, own,
                                                &team->cuts[bucket], &team->failure);
    note_start(team);
}

int kvsi_team_test(kvsi_team *team, kvsi_transfer *t)
{
    int done = 1; /* after a failure nothing is waited for */

    if (team->status == KVS_OK)
        team->status = team->comm->ops->test(team->comm->self, t, &done, &team->failure);
    if (done || team->status != KVS_OK)
        note_end(team);
    return done || team->status != KVS_OK;
}

void kvsi_team_wait(kvsi_team *team, kvsi_transfer *t)
{
    const double started = kvsi_clock_seconds();

    if (team->status == KVS_OK)
        team->status = kvsi_comm_wait(team->comm, t, &team->failure);
    team->waited += kvsi_clock_seconds() - started;
    note_end(team);
}

kvs_status kvsi_team_check(const kvsi_team *team, kvs_err *err)
{
    if (team->status != KVS_OK && err)
        *err = team->failure;
    return team->status;
}
