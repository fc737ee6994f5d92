#include "kernels/cpu/cpu.h"
#include "kernels/cpu/gemm.h"
#include "kernels/host.h"

static size_t larger(size_t x, size_t y)
{
    return x > y ? x : y;
}

/* Operations use the start of the workspace; gemm, which the head calls, uses its end. */
static size_t workspace_bytes(const kvsi_limits *limits, int threads)
{
    enum { ALIGNMENT = 64 };
    const size_t head = LEVEL(head_workspace)(limits) + LEVEL(gemm_workspace)(threads);

    const size_t rows = larger(LEVEL(norm_workspace)(limits), LEVEL(filter_workspace)(limits));
    const size_t most = larger(head, larger(rows, LEVEL(attention_workspace)(limits, threads)));

    return (most + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT; /* so that the end is aligned too */
}

extern const kvsi_ops LEVEL(ops);

const kvsi_ops LEVEL(ops) = {
    .name = KVSI_LEVEL_NAME,
    KVSI_HOST_MEMORY,
    .workspace_bytes = workspace_bytes,
    .packed_bytes = LEVEL(packed_bytes),
#define OPERATION(name, parameters, arguments, work) .name = LEVEL(name),
#include "kernels/operations.def"
};
