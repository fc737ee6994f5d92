#include "kernels/host.h"
#include "kernels/ref/ref.h"

static size_t workspace_bytes(const kvsi_limits *limits, int threads)
{
    const size_t attention = kvsi_ref_attention_workspace(limits);
    const size_t logits = limits->vocab * sizeof(real);

    (void)threads;
    return attention > logits ? attention : logits;
}

const kvsi_ops kvsi_reference_ops = {
    .name = "reference",
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
    .embed_forward = kvsi_ref_embed_forward,
    .embed_backward = kvsi_ref_embed_backward,
    .norm_forward = kvsi_ref_norm_forward,
    .norm_backward = kvsi_ref_norm_backward,
    .linear_forward = kvsi_ref_linear_forward,
    .linear_backward_input = kvsi_ref_linear_backward_input,
    .linear_backward_weight = kvsi_ref_linear_backward_weight,
    .linear_backward_bias = kvsi_ref_linear_backward_bias,
    .attention_forward = kvsi_ref_attention_forward,
    .attention_backward = kvsi_ref_attention_backward,
    .swiglu_forward = kvsi_ref_swiglu_forward,
    .swiglu_backward = kvsi_ref_swiglu_backward,
    .gelu_forward = kvsi_ref_gelu_forward,
    .gelu_backward = kvsi_ref_gelu_backward,
    .dropout = kvsi_ref_dropout,
    .add = kvsi_ref_add,
    .unit_rows_forward = kvsi_ref_unit_rows_forward,
    .unit_rows_backward = kvsi_ref_unit_rows_backward,
    .head_logits = kvsi_ref_head_logits,
    .head_loss = kvsi_ref_head_loss,
    .sum_squares = kvsi_ref_sum_squares,
    .clip_scale = kvsi_host_clip_scale,
    .adamw = kvsi_ref_adamw,
    .multiply_add = kvsi_ref_multiply_add,
    .read_through = kvsi_ref_read_through,
};
