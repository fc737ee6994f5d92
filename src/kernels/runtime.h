/* kernels/runtime.h - which table of operations runs, on how many threads. */
#ifndef KVSI_KERNELS_RUNTIME_H
#define KVSI_KERNELS_RUNTIME_H

#include "kernels/backend.h"

struct kvs_runtime {
    const kvsi_ops *ops;
    int threads;
};

#endif
