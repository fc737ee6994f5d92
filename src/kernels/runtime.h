/* kernels/runtime.h - which table of operations runs, on how many threads, among which ranks. */
#ifndef KVSI_KERNELS_RUNTIME_H
#define KVSI_KERNELS_RUNTIME_H

#include "kernels/backend.h"
#include "parallel/comm.h"

struct kvs_runtime {
    const kvsi_ops *ops;
    int threads;
    kvs_comm *comm; /* kvsi_comm_self where nobody said anything */
    int spread;
};

#endif
