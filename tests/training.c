#include "training.h"

#include "base/memory.h"

#include <string.h>

const kvsi_shard_stage training_shards[TRAINING_SHARDS] = {
    KVSI_SHARD_NONE, KVSI_SHARD_OPTIMIZER, KVSI_SHARD_GRADIENTS, KVSI_SHARD_PARAMETERS};

const training_move training_moves[TRAINING_MOVES] = {
    {4, 1, KVSI_SHARD_PARAMETERS, KVSI_SHARD_NONE},
    {1, 4, KVSI_SHARD_NONE, KVSI_SHARD_PARAMETERS},
    {2, 4, KVSI_SHARD_OPTIMIZER, KVSI_SHARD_GRADIENTS},
    {4, 2, KVSI_SHARD_GRADIENTS, KVSI_SHARD_OPTIMIZER},
    {2, 2, KVSI_SHARD_PARAMETERS, KVSI_SHARD_PARAMETERS},
};

kvs_train_config training_config(size_t batch, uint64_t steps)
{
    kvs_train_config c;

    kvsi_train_config_init(&c);
    c.batch = batch;
    c.steps = steps;
    c.warmup = 2;
    c.lr = 3e-3;
    return c;
}

typedef struct shared {
    const training_setup *setup;
    kvs_err errors[RANKS_MAX]; /* each rank writes its own */
    training_result result;    /* rank 0 writes the weights */
} shared;

/* Reads all tensors, on every rank because that is a collective if parameters are sharded, and
 * keeps those that rank 0 has read. */
static kvs_status keep_weights(training_result *result, const training_rank *r, kvs_err *err)
{
    float *all = kvsi_alloc(kvs_model_parameters(r->model), sizeof *all);
    size_t at = 0, count;
    const char *name;
    kvs_status st = KVS_OK;

    for (size_t i = 0; (name = kvs_model_tensor_name(r->model, i, &count)) != NULL; i++) {
        TRY_OUT(kvs_model_read_tensor(all + at, count, r->model, name, err));
        at += count;
    }
    if (r->comm->rank == 0) {
        result->weights = all;
        result->count = at;
        return KVS_OK;
    }
out:
    kvsi_free(all);
    return st;
}

static void train(kvs_comm *comm, void *user)
{
    shared *s = user;
    const training_setup *t = s->setup;
    const kvs_runtime_options options = {.size = sizeof options,
                                         .threads = 1,
                                         .comm = comm,
                                         .shard_parameters =
                                             t->config.shard == KVSI_SHARD_PARAMETERS};
    training_rank r = {.comm = comm};
    kvs_data *data = t->make_data ? t->make_data(comm->rank, t->user) : NULL;
    kvs_runtime *rt = NULL;
    kvs_err *err = &s->errors[comm->rank];
    kvs_status st;

    TRY_OUT(kvs_runtime_create(&rt, &options, err));
    TRY_OUT(kvs_model_create(&r.model, rt, &t->model, t->model_seed, err));
    st = kvs_trainer_create(&r.trainer, r.model, data, &t->config, err);
    TRY_OUT(kvs_comm_agree(comm, st, err));
    TRY_OUT(t->steps(&r, t->user, err));
    TRY_OUT(keep_weights(&s->result, &r, err));
out:
    err->status = st;
    kvs_trainer_free(r.trainer);
    kvs_model_free(r.model);
    kvs_runtime_free(rt);
    kvs_data_free(data);
}

training_result training_on_ranks(size_t ranks, const training_setup *t)
{
    shared s = {.setup = t};

    if (ranks == 0)
        train(&kvsi_comm_self, &s);
    else
        ranks_run(ranks, train, &s);
    for (size_t r = 0; r < RANKS_MAX && s.result.err.status == KVS_OK; r++)
        s.result.err = s.errors[r];
    return s.result;
}

void training_expect_same_weights(const training_result *found, const training_result *expected,
                                  const char *what)
{
    assert_int_equal(found->err.status, KVS_OK);
    assert_int_equal(expected->err.status, KVS_OK);
    assert_int_equal(found->count, expected->count);
    if (memcmp(found->weights, expected->weights, expected->count * sizeof *expected->weights) != 0)
        fail_msg("%s: other weights", what);
}
