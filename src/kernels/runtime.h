/* kernels/runtime.h - which backend runs, on how many threads, among which ranks. */
#ifndef KVSI_KERNELS_RUNTIME_H
#define KVSI_KERNELS_RUNTIME_H

#include "kernels/backend.h"
#include "parallel/comm.h"

struct kvs_runtime {
    const kvsi_ops *ops;
    void *device; /* see kvsi_context */
    int threads;
    kvs_comm *comm; /* kvsi_comm_self by default */
    int spread;
    int exact;
    kvsi_precision precision; /* outside of training */
};

/* A context without a workspace: for memory, and for operations that need none. */
static inline kvsi_context kvsi_runtime_context(const kvs_runtime *rt)
{
    return (kvsi_context){.ops = rt->ops,
                          .threads = rt->threads,
                          .device = rt->device,
                          .exact = rt->exact,
                          .precision = rt->precision};
}

#endif
