#include "formats/family_tensors.h"

#include "base/memory.h"
#include "base/text.h"

#include <stdio.h>
#include <string.h>

enum { NAME_SIZE = 512 };

/* A tensor of a file: `count` of our tensors from `first` on, one after another. */
typedef struct kvsi_family_tensor {
    size_t first, count;
    kvsi_renamed_shape shape;
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

/* What our tensor `first` and some after it are in the family's files. */
static kvsi_family_tensor find_theirs(const kvsi_family *family, const kvsi_tensor_source *ours,
                                      size_t first)
{
    const char *name = describe_ours(ours, first).name;
    kvsi_family_tensor out = {.first = first, .count = 1};
    const kvsi_packed_rows *packed = family->packed;
    const kvsi_renamed *renamed = family->renamed;

    for (; renamed && renamed->ours; renamed++)
        if (kvsi_ends_with(name, renamed->ours)) {
            out.shape = renamed->shape;
            snprintf(out.name, sizeof out.name, "%.*s%s",
                     (int)(strlen(name) - strlen(renamed->ours)), name, renamed->theirs);
            return out;
        }
    for (; packed && packed->name; packed++) {
        const size_t count = count_parts(packed, ours, first);

        if (count > 0) {
            out.count = count;
            snprintf(out.name, sizeof out.name, "%.*s%s",
                     (int)(strlen(name) - strlen(packed->parts[0])), name, packed->name);
            return out;
        }
    }
    snprintf(out.name, sizeof out.name, "%s", name);
    return out;
}

kvs_status kvsi_family_tensors_init(kvsi_family_tensors *tensors, const kvsi_family *family,
                                    const kvsi_tensor_source *ours, kvs_err *err)
{
    *tensors = (kvsi_family_tensors){.ours = ours};
    if (!family || (!family->packed && !family->renamed))
        return KVS_OK;
    tensors->list = kvsi_alloc(ours->count, sizeof *tensors->list);
    if (!tensors->list)
        return kvsi_no_memory(err, "%zu tensors", ours->count);
    for (size_t i = 0; i < ours->count; i += tensors->list[tensors->count++].count)
        tensors->list[tensors->count] = find_theirs(family, ours, i);
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
    const kvsi_family_tensor *packed = &t->list[index];

    *out = describe_ours(t->ours, packed->first);
    out->name = packed->name;
    for (size_t i = 1; i < packed->count; i++) {
        const kvsi_file_tensor part = describe_ours(t->ours, packed->first + i);

        out->shape[0] += part.shape[0];
        out->dtype = part.dtype == out->dtype ? out->dtype : KVSI_F32;
    }
    if (packed->shape == KVSI_RENAMED_SHIFT)
        out->shape[0] *= out->shape[1];
    if (packed->shape != KVSI_RENAMED_SAME) {
        out->shape[2] = out->shape[out->rank - 1];
        out->shape[1] = 1;
        out->rank = 3;
    }
}

static kvs_status read_tensor(const void *self, size_t index, float *out, kvs_err *err)
{
    const kvsi_family_tensors *t = self;
    const kvsi_family_tensor *packed = &t->list[index];

    for (size_t i = packed->first; i < packed->first + packed->count; i++) {
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
