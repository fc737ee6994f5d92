/* bench/profile.h - time per operation: a table of operations that time and forward.
 *
 * A model created with `table` runs the same code and adds the time of each operation here.
 * Without a profile the real table is used, at no cost. */
#ifndef KVSI_BENCH_PROFILE_H
#define KVSI_BENCH_PROFILE_H

#include "kernels/backend.h"
#include "kvshift/kvshift_lab.h"

typedef struct kvsi_profile {
    kvsi_ops table; /* first member: operations find the profile by their table */
    const kvsi_ops *inner;
    kvs_model_config config; /* names the matrices by their shapes */
    size_t count;
    kvs_bench_op op[KVS_BENCH_OPS_MAX]; /* sums */
} kvsi_profile;

/* `config` must have passed kvs_model_config_finish. */
void kvsi_profile_init(kvsi_profile *profile, const kvsi_ops *inner,
                       const kvs_model_config *config);
void kvsi_profile_reset(kvsi_profile *profile);
/* Adds a call of something that is not an operation.  The names must stay valid. */
void kvsi_profile_add(kvsi_profile *profile, const kvs_bench_op *call);
/* Averages per step, the longest first, "other" last; a step took `seconds`.  Returns the number of
 * rows. */
size_t kvsi_profile_summarise(const kvsi_profile *profile, size_t steps, double seconds,
                              kvs_bench_op op[KVS_BENCH_OPS_MAX]);

#endif
