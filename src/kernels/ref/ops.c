#include "kernels/host.h"
#include "kernels/ref/ref.h"

static size_t workspace_bytes(const kvsi_limits *limits, int threads)
{
    const size_t attention = kvsi_ref_attention_workspace(limits);
    const size_t logits = limits->vocab * sizeof(real);

    (void)threads;
    return attention > logits ? attention : logits;
}

static size_t packed_bytes(const kvsi_context *c, const kvsi_matrix *w, size_t n)
{
    (void)c;
    (void)w;
    (void)n;
    return 0;
}

const kvsi_ops kvsi_reference_ops = {
    .name = "reference",
    KVSI_HOST_MEMORY,
    .workspace_bytes = workspace_bytes,
    .packed_bytes = packed_bytes,
#define OPERATION(name, parameters, arguments, work) .name = kvsi_ref_##name,
#include "kernels/operations.def"
};
