/* training.h - trains a new model on ranks that are threads, and keeps its weights.
 *
 * cmocka's checks do not work in those threads, so everything that runs there returns a status. */
#ifndef KVSI_TESTS_TRAINING_H
#define KVSI_TESTS_TRAINING_H

#include "ranks.h"
#include "support.h"
#include "train/trainer.h"

/* The objects that one rank trains with. */
typedef struct training_rank {
    kvs_comm *comm;
    kvs_model *model;
    kvs_trainer *trainer;
} training_rank;

typedef struct training_setup {
    kvs_model_config model;
    uint64_t model_seed;
    kvs_train_config config;
    /* Returns the data of one rank, which is freed after the training.  The trainer has no data if
     * it returns NULL, or if there is no function. */
    kvs_data *(*make_data)(size_t rank, void *user);
    /* Takes the steps; called on every rank. */
    kvs_status (*steps)(const training_rank *r, void *user, kvs_err *err);
    void *user; /* passed to both functions, which run on all ranks at the same time */
} training_setup;

typedef struct training_result {
    kvs_err err;    /* the error of the first rank that failed; its status is KVS_OK if none did */
    float *weights; /* all tensors, one after another; NULL if rank 0 failed; freed by the caller */
    size_t count;   /* number of weights */
} training_result;

/* Trains on `ranks` ranks, one thread each.  With 0 ranks it trains in the calling thread, like a
 * process that no MPI launcher started. */
training_result training_on_ranks(size_t ranks, const training_setup *t);
/* Fails the test, naming what was compared, if one of the trainings failed or if the weights differ
 * in one bit. */
void training_expect_same_weights(const training_result *found, const training_result *expected,
                                  const char *what);

/* Returns the defaults with this batch and number of steps, a short warmup and a higher learning
 * rate. */
kvs_train_config training_config(size_t batch, uint64_t steps);

/* Every value of --shard. */
enum { TRAINING_SHARDS = 4 };
extern const kvsi_shard_stage training_shards[TRAINING_SHARDS];

/* A training that saves a checkpoint on `first` ranks and continues on `then` ranks. */
typedef struct training_move {
    size_t first, then;
    kvsi_shard_stage first_shard, then_shard;
} training_move;

/* Moves to fewer, to more and to as many ranks, between all values of --shard. */
enum { TRAINING_MOVES = 5 };
extern const training_move training_moves[TRAINING_MOVES];

#endif
