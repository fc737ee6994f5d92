/* bench/profile.h - where a step's time goes: a table of operations that times and forwards.
 *
 * A model made with `table` instead of the real one runs the same code and leaves here what each
 * operation took.  Where nobody asks for a profile, this table is not there: it costs nothing. */
#ifndef KVSI_BENCH_PROFILE_H
#define KVSI_BENCH_PROFILE_H

#include "kernels/backend.h"
#include "kvshift/kvshift_lab.h"

typedef struct kvsi_profile {
    kvsi_ops table; /* first: operations find their profile by the table they were called through */
    const kvsi_ops *inner;
    kvs_model_config config; /* names the matrices by their shapes */
    size_t count;
    kvs_bench_op op[KVS_BENCH_OPS_MAX]; /* sums */
} kvsi_profile;

/* `config` as kvs_model_config_finish leaves it. */
void kvsi_profile_init(kvsi_profile *profile, const kvsi_ops *inner,
                       const kvs_model_config *config);
void kvsi_profile_reset(kvsi_profile *profile);
/* Adds one call of something that is no operation of the backend.  Names must last. */
void kvsi_profile_add(kvsi_profile *profile, const kvs_bench_op *call);
/* Averages over steps of `seconds` each, the longest first, and "other" last.  Returns how many. */
size_t kvsi_profile_summarise(const kvsi_profile *profile, size_t steps, double seconds,
                              kvs_bench_op op[KVS_BENCH_OPS_MAX]);

#endif
