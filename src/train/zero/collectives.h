/* train/zero/collectives.h - the ranks of a run and what each of them has of it.
 *
 * A step's batch is cut into slices, one a rank, or always KVSI_SLICES of them where bits must not
 * depend on the ranks: then a rank may have several, which it computes one after the other. */
#ifndef KVSI_TRAIN_ZERO_COLLECTIVES_H
#define KVSI_TRAIN_ZERO_COLLECTIVES_H

#include "model/pass.h"

typedef struct kvsi_team {
    kvs_model *model;     /* borrowed */
    kvs_comm *comm;       /* the model's */
    kvsi_context context; /* the model's */
    kvs_train_config train;
    kvs_shard shard; /* as in `train` */
    int deterministic;
    kvsi_group first_group;  /* that is trained; the ones after it are too */
    size_t slices;           /* of a batch that this rank computes */
    const kvsi_share *share; /* the model's, or: */
    kvsi_share own_share;
    kvsi_cut *cuts; /* [share.buckets] how buckets are sent */

    /* Hooks of a pass cannot fail: the first failure is kept here until somebody can. */
    kvs_status status;
    kvs_err failure;

    /* Seconds of this step: with transfers under way, and of these, waiting for them. */
    size_t under_way;
    double since, busy, waited;
} kvsi_team;

kvs_status kvsi_team_init(kvsi_team *team, kvs_model *model, const kvs_train_config *config,
                          kvsi_group first_group, kvs_err *err);
void kvsi_team_release(kvsi_team *team);

/* Whether a batch can be shared among that many ranks. */
kvs_status kvsi_team_check_ranks(const kvs_train_config *config, size_t ranks, kvs_err *err);

/* All slices of a batch, of all ranks. */
size_t kvsi_team_slices(const kvsi_team *team);

static inline const kvsi_bucket *kvsi_team_bucket(const kvsi_team *team, size_t bucket)
{
    return &team->share->bucket[bucket];
}
static inline int kvsi_team_trains(const kvsi_team *team, size_t bucket)
{
    return kvsi_team_bucket(team, bucket)->group >= team->first_group;
}

/* A step begins: its seconds are counted from here. */
void kvsi_team_begin(kvsi_team *team);
/* kvsi_comm_gather, counted. */
kvs_status kvsi_team_gather(kvsi_team *team, void *all, const void *own, size_t bytes,
                            kvs_err *err);

/* ---- transfers: they keep the first failure, and after one do nothing ---- */

/* Numbers of every rank that belong to this rank's piece of a bucket, one behind the other. */
void kvsi_team_scatter(kvsi_team *team, kvsi_transfer *t, size_t bucket, real *arrived,
                       const real *numbers);
/* All of a bucket; own NULL = this rank's piece is in its place. */
void kvsi_team_collect(kvsi_team *team, kvsi_transfer *t, size_t bucket, real *numbers,
                       const real *own);
int kvsi_team_test(kvsi_team *team, kvsi_transfer *t);
void kvsi_team_wait(kvsi_team *team, kvsi_transfer *t);
/* Reports the failure that was kept. */
kvs_status kvsi_team_check(const kvsi_team *team, kvs_err *err);

#endif
