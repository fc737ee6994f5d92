#include "formats/family_tensors.h"

#include "base/memory.h"
#include "base/text.h"

#include <stdio.h>
#include <string.h>

enum { NAME_SIZE = 512 };

/* A tensor of a file: the rows of `count` of our tensors from `first` on.  `packed` says how they
 * are combined; NULL = it is one of ours. */
typedef struct kvsi_family_tensor {
    size_t first, count;
    const kvsi_packed_rows *packed;
    kvsi_file_shape shape;
    char name[NAME_SIZE];
} kvsi_family_tensor;

static kvsi_file_tensor describe_ours(const kvsi_tensor_source *ours, size_t index)
{
    kvsi_file_tensor tensor;

    ours->describe(ours->self, index, &tensor);
    return tensor;
}

/* The number of parts if they are our tensors from `first` on; 0 = they are not. */
static size_t count_parts(const kvsi_packed_rows *packed, const kvsi_tensor_source *ours,
                          size_t first)
{
    size_t count = 0;

    for (; count < KVSI_PACKED_MAX && packed->parts[count]; count++)
        if (first + count >= ours->count ||
            !kvsi_ends_with(describe_ours(ours, first + count).name, packed->parts[count]))
            return 0;
    return count;
}

/* Fills all but the name; returns the name that it would have among ours. */
static void find_parts(kvsi_family_tensor *out, char name[NAME_SIZE], const kvsi_family *family,
                       const kvsi_tensor_source *ours, size_t first)
{
    const char *own = describe_ours(ours, first).name;

    *out = (kvsi_family_tensor){.first = first, .count = 1};
    snprintf(name, NAME_SIZE, "%s", own);
    for (const kvsi_packed_rows *p = family->packed; p && p->name; p++) {
        const size_t count = count_parts(p, ours, first);

        if (count == 0)
            continue;
        out->count = count;
        out->packed = p;
        snprintf(name, NAME_SIZE, "%.*s%s", (int)(strlen(own) - strlen(p->parts[0])), own, p->name);
        return;
    }
}

kvs_status kvsi_family_tensors_init(kvsi_family_tensors *tensors, const kvsi_family *family,
                                    size_t heads, const kvsi_tensor_source *ours, kvs_err *err)
{
    *tensors = (kvsi_family_tensors){.ours = ours, .heads = heads};
    if (!family || (!family->packed && !family->names))
        return KVS_OK;
    tensors->list = kvsi_alloc(ours->count, sizeof *tensors->list);
    if (!tensors->list)
        return kvsi_no_memory(err, "%zu tensors", ours->count);
    for (size_t i = 0; i < ours->count; i += tensors->list[tensors->count++].count) {
        kvsi_family_tensor *tensor = &tensors->list[tensors->count];
        char name[NAME_SIZE];

        find_parts(tensor, name, family, ours, i);
        if (!kvsi_family_their_name(tensor->name, sizeof tensor->name, &tensor->shape, family,
                                    name))
            return kvsi_fail(err, KVS_E_LIMIT, "the name of tensor '%.100s' is too long", name);
    }
    return KVS_OK;
}

void kvsi_family_tensors_release(kvsi_family_tensors *tensors)
{
    kvsi_free(tensors->list);
    *tensors = (kvsi_family_tensors){0};
}

/* ---- the source ------------------------------------------------------------------------------ */

/* The rows of all parts; parts of different types become float32.  Taps are [channels, 1, taps]. */
static void describe(const void *self, size_t index, kvsi_file_tensor *out)
{
    const kvsi_family_tensors *t = self;
    const kvsi_family_tensor *tensor = &t->list[index];

    *out = describe_ours(t->ours, tensor->first);
    out->name = tensor->name;
    for (size_t i = 1; i < tensor->count; i++) {
        const kvsi_file_tensor part = describe_ours(t->ours, tensor->first + i);

        out->shape[0] += part.shape[0];
        out->dtype = part.dtype == out->dtype ? out->dtype : KVSI_F32;
    }
    if (tensor->packed)
        out->shape[0] += tensor->packed->unused;
    if (tensor->shape == KVSI_SHAPE_SHIFT)
        out->shape[0] *= out->shape[1];
    if (tensor->shape != KVSI_SHAPE_SAME) {
        out->shape[2] = out->shape[out->rank - 1];
        out->shape[1] = 1;
        out->rank = 3;
    }
}

/* Head h of part i of all parts, of `values` values each, becomes part i of head h. */
static kvs_status read_by_head(const kvsi_family_tensors *t, const kvsi_family_tensor *tensor,
                               float *out, kvs_err *err)
{
    const kvsi_file_tensor first = describe_ours(t->ours, tensor->first);
    const size_t heads = t->heads, count = kvsi_file_tensor_count(&first), values = count / heads;
    float *part = kvsi_alloc(count, sizeof *part);
    kvs_status st = KVS_OK;

    if (!part)
        return kvsi_no_memory(err, "tensor '%s' of %zu values", first.name, count);
    for (size_t i = 0; i < tensor->count && st == KVS_OK; i++) {
        st = t->ours->read(t->ours->self, tensor->first + i, part, err);
        for (size_t h = 0; st == KVS_OK && h < heads; h++)
            memcpy(out + (h * tensor->count + i) * values, part + h * values, values * sizeof *out);
    }
    kvsi_free(part);
    return st;
}

static kvs_status read_tensor(const void *self, size_t index, float *out, kvs_err *err)
{
    const kvsi_family_tensors *t = self;
    const kvsi_family_tensor *tensor = &t->list[index];

    if (tensor->packed && tensor->packed->by_head)
        return read_by_head(t, tensor, out, err);
    if (tensor->packed) {
        const kvsi_file_tensor first = describe_ours(t->ours, tensor->first);
        const size_t unused =
            tensor->packed->unused * (kvsi_file_tensor_count(&first) / first.shape[0]);

        memset(out, 0, unused * sizeof *out);
        out += unused;
    }
    for (size_t i = tensor->first; i < tensor->first + tensor->count; i++) {
        const kvsi_file_tensor part = describe_ours(t->ours, i);

        TRY(t->ours->read(t->ours->self, i, out, err));
        out += kvsi_file_tensor_count(&part);
    }
    return KVS_OK;
}

kvsi_tensor_source kvsi_family_source(const kvsi_family_tensors *tensors)
{
    if (!tensors->list)
        return *tensors->ours;
    return (kvsi_tensor_source){tensors->count, describe, read_tensor, tensors};
}
