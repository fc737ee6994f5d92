#include "model/matrices.h"

#include "base/memory.h"
#include "model/model.h"

/* ---- one tensor ---- */

static kvsi_matrix matrix_at(const kvs_model *m, size_t index)
{
    const kvsi_parameter *p = &m->layout.list[index];
    const kvsi_weights_tensor *file;

    if (m->values[index])
        return (kvsi_matrix){.type = KVSI_REAL_TYPE,
                             .rows = p->shape[p->transposed ? 1 : 0],
                             .cols = p->shape[p->transposed ? 0 : 1],
                             .data = m->values[index]};
    file = kvsi_weights_find(m->weights, p->name);
    return (kvsi_matrix){
        .type = file->view.dtype,
        .rows = p->shape[0],
        .cols = p->shape[1],
        .data = m->views[index],
        .paired = file->interleaved_heads > 0 ? p->shape[0] / file->interleaved_heads : 0,
    };
}

/* Index of the tensor at an offset of the block. */
static size_t index_of(const kvsi_layout *layout, ptrdiff_t offset)
{
    size_t i = 0;

    while (layout->list[i].offset != (size_t)offset)
        i++;
    return i;
}

static kvsi_matrix find_matrix(const kvs_model *m, ptrdiff_t offset)
{
    return offset == KVSI_ABSENT ? (kvsi_matrix){0} : matrix_at(m, index_of(&m->layout, offset));
}

/* ---- layers ---- */

static int goes_on(const kvsi_matrix *above, const kvsi_matrix *w)
{
    const size_t bytes = kvsi_dtype_bytes(above->type, above->rows * above->cols);

    return w->type == above->type && w->paired == above->paired &&
           (const unsigned char *)above->data + bytes == w->data;
}

static void add_part(kvsi_linear *linear, const kvsi_matrix *w)
{
    kvsi_matrix *last = linear->parts > 0 ? &linear->part[linear->parts - 1] : NULL;

    if (last && goes_on(last, w))
        last->rows += w->rows;
    else
        linear->part[linear->parts++] = *w;
}

/* A linear layer of `tensors` consecutive tensors of the layout, from an offset on. */
static kvsi_linear make_linear(const kvs_model *m, ptrdiff_t offset, size_t tensors, ptrdiff_t bias)
{
    kvsi_linear linear = {0};
    size_t first, row = 0;

    if (offset == KVSI_ABSENT)
        return linear;
    first = index_of(&m->layout, offset);
    for (size_t i = 0; i < tensors; i++) {
        const kvsi_matrix w = matrix_at(m, first + i);

        add_part(&linear, &w);
    }
    for (size_t i = 0; i < linear.parts; row += linear.part[i++].rows)
        linear.part[i].bias = bias == KVSI_ABSENT ? NULL : kvsi_model_small(m, bias) + row;
    for (size_t i = 0; i < linear.parts; i++)
        linear.part[i].stride = row;
    return linear;
}

static kvsi_layer_matrices make_layer(const kvs_model *m, size_t layer)
{
    const kvsi_layer_offsets *at = &m->layout.layers[layer];
    const int gpt2 =
        m->config.body == KVSI_BODY_GPT2; /* whose files have q, k and v in one tensor */
    const size_t up_tensors = m->config.plain_mlp ? 1 : 2;

    return (kvsi_layer_matrices){
        .qkv = make_linear(m, at->qkv, gpt2 ? 1 : 3, at->qkv_bias),
        .o = make_linear(m, at->o, 1, at->o_bias),
        .relative = make_linear(m, at->relative, 1, KVSI_ABSENT),
        .up = make_linear(m, at->up, up_tensors, at->up_bias),
        .down = make_linear(m, at->down, 1, at->down_bias),
    };
}

void kvsi_matrices_set_block(kvsi_matrices *out, const kvs_model *model, size_t block)
{
    const kvsi_layout *layout = &model->layout;

    if (block == KVSI_BLOCK_EMBEDDING) {
        out->embed = find_matrix(model, layout->embed);
        out->positions = find_matrix(model, layout->positions);
    }
    if (block == kvsi_block_of_head(&model->config))
        out->head = find_matrix(model, layout->head);
    if (block >= kvsi_block_of_layer(0) && block < kvsi_block_of_layer(model->config.layers))
        out->layers[block - kvsi_block_of_layer(0)] =
            make_layer(model, block - kvsi_block_of_layer(0));
}

kvs_status kvsi_matrices_init(kvsi_matrices *out, const kvs_model *model, kvs_err *err)
{
    const size_t layers = model->config.layers;

    *out = (kvsi_matrices){.layers = kvsi_alloc(layers, sizeof *out->layers)};
    if (!out->layers)
        return kvsi_fail(err, KVS_E_NOMEM, "out of memory for %zu layers", layers);
    for (size_t block = 0; !model->shards && block < kvsi_block_count(layers); block++)
        kvsi_matrices_set_block(out, model, block);
    return KVS_OK;
}

void kvsi_matrices_release(kvsi_matrices *matrices)
{
    kvsi_free(matrices->layers);
    *matrices = (kvsi_matrices){0};
}
