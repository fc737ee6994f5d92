#include "kernels/cpu/cpu.h"
#include "kernels/cpu/gemm.h"
#include "kernels/host.h"

static size_t larger(size_t x, size_t y)
{
    return x > y ? x : y;
}

/* Operations use the workspace from its start; products of matrices, which the head contains, use
 * its end. */
static size_t workspace_bytes(const kvsi_limits *limits, int threads)
{
    enum { ALIGNMENT = 64 };
    const size_t head = LEVEL(head_workspace)(limits) + LEVEL(gemm_workspace)(threads);

    const size_t most = larger(
        head, larger(LEVEL(norm_workspace)(limits), LEVEL(attention_workspace)(limits, threads)));

    return (most + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT; /* so that the end is aligned too */
}

extern const kvsi_ops LEVEL(ops);

const kvsi_ops LEVEL(ops) = {
    .name = LEVEL_NAME,
    .alloc = kvsi_host_alloc,
    .release = kvsi_host_release,
    .adopt = kvsi_host_adopt,
    .disown = kvsi_host_disown,
    .upload = kvsi_host_copy,
    .download = kvsi_host_copy,
    .copy = kvsi_host_copy,
    .zero = kvsi_host_zero,
    .sync = kvsi_host_sync,
    .workspace_bytes = workspace_bytes,
    .embed_forward = LEVEL(embed_forward),
    .embed_backward = LEVEL(embed_backward),
    .norm_forward = LEVEL(norm_forward),
    .norm_backward = LEVEL(norm_backward),
    .linear_forward = LEVEL(linear_forward),
    .linear_backward_input = LEVEL(linear_backward_input),
    .linear_backward_weight = LEVEL(linear_backward_weight),
    .linear_backward_bias = LEVEL(linear_backward_bias),
    .attention_forward = LEVEL(attention_forward),
    .attention_backward = LEVEL(attention_backward),
    .swiglu_forward = LEVEL(swiglu_forward),
    .swiglu_backward = LEVEL(swiglu_backward),
    .gelu_forward = LEVEL(gelu_forward),
    .gelu_backward = LEVEL(gelu_backward),
    .dropout = LEVEL(dropout),
    .add = LEVEL(add),
    .unit_rows_forward = LEVEL(unit_rows_forward),
    .unit_rows_backward = LEVEL(unit_rows_backward),
    .head_logits = LEVEL(head_logits),
    .head_loss = LEVEL(head_loss),
    .sum_squares = LEVEL(sum_squares),
    .clip_scale = kvsi_host_clip_scale,
    .adamw = LEVEL(adamw),
    .multiply_add = LEVEL(multiply_add),
    .read_through = LEVEL(read_through),
};
