#include "train/zero/all_gather.h"

#include "base/memory.h"

enum { SLOTS = 2, NONE = -1 };

/* Stage 3: a gathered block. */
typedef struct slot {
    real *values;
    ptrdiff_t block;
} slot;

struct kvsi_all_gather {
    kvsi_collectives *collectives; /* borrowed */
    const kvsi_reducer *reducer;
    kvsi_transfer *transfers; /* [layout.buckets] */
    int *in_flight;           /* [layout.buckets] */
    slot slots[SLOTS];
    size_t current;       /* the slot in use */
    size_t index, blocks; /* blocks that the pass has needed so far, and will need in all */
};

/* ---- memory ---- */

uint64_t kvsi_all_gather_bytes(const kvsi_shard_layout *layout, kvsi_shard_stage shard)
{
    return shard == KVSI_SHARD_PARAMETERS ? SLOTS * layout->largest_block * sizeof(real) : 0;
}

kvs_status kvsi_all_gather_create(kvsi_all_gather **out, kvsi_collectives *collectives,
                                  kvs_err *err)
{
    const kvsi_reducer *r = collectives->reducer;
    const kvsi_shard_layout *layout = r->layout;
    kvsi_all_gather *g = kvsi_alloc(1, sizeof *g);
    int ok;

    *out = NULL;
    if (!g)
        return kvsi_no_memory(err, "weights");
    *g = (kvsi_all_gather){.collectives = collectives,
                           .reducer = r,
                           .transfers = kvsi_alloc(layout->buckets, sizeof *g->transfers),
                           .in_flight = kvsi_alloc(layout->buckets, sizeof *g->in_flight)};
    ok = g->transfers && g->in_flight;
    for (size_t i = 0; ok && r->config.shard == KVSI_SHARD_PARAMETERS && i < SLOTS; i++) {
        g->slots[i] =
            (slot){r->context.ops->alloc(&r->context, layout->largest_block * sizeof(real)), NONE};
        ok = g->slots[i].values != NULL;
    }
    if (!ok) {
        kvsi_all_gather_free(g);
        return kvsi_no_memory(err, "layers of %zu MiB", layout->largest_block * sizeof(real) >> 20);
    }
    *out = g;
    return KVS_OK;
}

void kvsi_all_gather_free(kvsi_all_gather *g)
{
    if (!g)
        return;
    for (size_t i = 0; i < SLOTS; i++)
        g->reducer->context.ops->release(&g->reducer->context, g->slots[i].values);
    kvsi_free(g->transfers);
    kvsi_free(g->in_flight);
    kvsi_free(g);
}

/* ---- the order of a pass ---- */

/* Blocks of a forward pass: the embedding, the layers, the head if there is one. */
static size_t forward_blocks(const kvsi_all_gather *g)
{
    const kvs_model *m = g->reducer->model;

    return 1 + m->config.layers + (m->layout.head != KVSI_ABSENT ? 1 : 0);
}

void kvsi_all_gather_begin_pass(kvsi_all_gather *g, int backward)
{
    g->index = 0;
    g->blocks = forward_blocks(g) + (backward ? g->reducer->model->config.layers : 0);
}

/* Block number `index` of the pass: those of the forward pass, then the layers in reverse. */
static size_t block_of_pass(const kvsi_all_gather *g, size_t index)
{
    const kvs_model_config *c = &g->reducer->model->config;

    if (index == 0)
        return KVSI_BLOCK_EMBEDDING;
    if (index <= c->layers)
        return kvsi_block_of_layer(index - 1);
    if (index < forward_blocks(g))
        return kvsi_block_of_head(c);
    return kvsi_block_of_layer(c->layers - 1 - (index - forward_blocks(g)));
}

/* ---- blocks ---- */

static void wait_for_block(kvsi_all_gather *g, size_t block)
{
    const kvsi_shard_layout *layout = g->reducer->layout;

    for (size_t b = layout->first_bucket[block]; b < layout->first_bucket[block + 1]; b++)
        if (g->in_flight[b]) {
            kvsi_collectives_wait(g->collectives, &g->transfers[b]);
            g->in_flight[b] = 0;
        }
}

static ptrdiff_t find_slot(const kvsi_all_gather *g, size_t block)
{
    for (size_t i = 0; i < SLOTS; i++)
        if (g->slots[i].block == (ptrdiff_t)block)
            return (ptrdiff_t)i;
    return NONE;
}

/* Starts the all-gather of a block into the slot that is not in use, and returns that slot. */
static size_t start_block(kvsi_all_gather *g, size_t block)
{
    const kvsi_shard_layout *layout = g->reducer->layout;
    const size_t other = (g->current + 1) % SLOTS;
    slot *s = &g->slots[other];

    s->block = (ptrdiff_t)block;
    for (size_t b = layout->first_bucket[block]; b < layout->first_bucket[block + 1]; b++) {
        const kvsi_bucket *bucket = &layout->bucket[b];

        kvsi_collectives_all_gather(g->collectives, &g->transfers[b], b,
                                    s->values + (bucket->all.from - layout->block[block].from),
                                    g->reducer->model->parameters + bucket->at);
        g->in_flight[b] = 1;
    }
    return other;
}

void kvsi_all_gather_need(kvsi_all_gather *g, size_t block)
{
    ptrdiff_t found;

    if (g->reducer->config.shard != KVSI_SHARD_PARAMETERS) {
        wait_for_block(g, block);
        return;
    }
    found = find_slot(g, block);
    g->current = found != NONE ? (size_t)found : start_block(g, block);
    wait_for_block(g, block);
    kvsi_model_set_block(g->reducer->model, block, g->slots[g->current].values);
    if (++g->index < g->blocks) {
        const size_t next = block_of_pass(g, g->index);

        if (find_slot(g, next) == NONE)
            start_block(g, next);
    }
}

/* ---- updates ---- */

void kvsi_all_gather_forget(kvsi_all_gather *g)
{
    for (size_t i = 0; i < SLOTS; i++)
        g->slots[i].block = NONE;
}

void kvsi_all_gather_updated(kvsi_all_gather *g, size_t bucket)
{
    const kvsi_reducer *r = g->reducer;
    const kvsi_bucket *b = &r->layout->bucket[bucket];

    if (b->group != KVSI_MATRICES) /* updated by every rank */
        return;
    switch (r->config.shard) {
    case KVSI_SHARD_NONE:
        break;
    case KVSI_SHARD_OPTIMIZER:
    case KVSI_SHARD_GRADIENTS:
        if (r->comm->size == 1)
            break;
        kvsi_collectives_all_gather(g->collectives, &g->transfers[bucket], bucket,
                                    r->model->parameters + b->all.from, NULL);
        g->in_flight[bucket] = 1;
        break;
    case KVSI_SHARD_PARAMETERS:
        kvsi_all_gather_forget(g);
        break;
    }
}

kvs_status kvsi_all_gather_wait(kvsi_all_gather *g, kvs_err *err)
{
    for (size_t block = 0; block < g->reducer->layout->blocks; block++)
        wait_for_block(g, block);
    return kvsi_collectives_status(g->collectives, err);
}
