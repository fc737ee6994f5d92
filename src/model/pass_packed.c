/* Packed copies of the weights, for steps of several passes.
 *
 * Products pack the weights in the order in which the processor reads them (kernels/backend.h,
 * pack_weights).  A pass that keeps these copies packs a block when it first needs it after the
 * parameters have changed, and all products of the following passes use them: forward, backward,
 * and evaluations.  The results have the same bits.
 *
 * The hooks have run before a block is packed, so its parameters are there, also if they come from
 * other ranks.  Parameters that are sharded (ZeRO stage 3) are not kept, so they are not packed. */
#include "model/pass.h"

static void pack(kvsi_pass *p, const void *packed, const kvsi_matrix *w)
{
    if (packed)
        p->context.ops->pack_weights(&p->context, (void *)packed, w);
}

static void pack_linear(kvsi_pass *p, const kvsi_linear *linear)
{
    pack(p, linear->part[0].packed, &linear->part[0]);
}

void kvsi_pass_pack(kvsi_pass *pass, size_t block)
{
    const kvs_model *m = pass->model;

    if (pass->packed_versions[block] == m->version)
        return;
    pass->packed_versions[block] = m->version;
    if (block == kvsi_block_of_head(&m->config))
        pack(pass, pass->packed_head, &m->matrices.head);
    if (block >= kvsi_block_of_layer(0) && block < kvsi_block_of_layer(m->config.layers)) {
        const kvsi_layer_matrices *layer = &pass->packed_layers[block - kvsi_block_of_layer(0)];

        pack_linear(pass, &layer->qkv);
        pack_linear(pass, &layer->o);
        pack_linear(pass, &layer->relative);
        pack_linear(pass, &layer->up);
        pack_linear(pass, &layer->down);
    }
}
