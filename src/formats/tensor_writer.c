#include "formats/tensor_writer.h"

#include "base/memory.h"

#include <math.h>

enum { CHUNK = 1 << 14 }; /* values encoded at a time: whole blocks */

kvs_status kvsi_tensor_writer_init(kvsi_tensor_writer *writer, const kvsi_tensor_source *source,
                                   kvs_err *err)
{
    size_t largest = 0;

    *writer = (kvsi_tensor_writer){.source = source};
    for (size_t i = 0; i < source->count; i++) {
        kvsi_file_tensor tensor;
        size_t count;

        source->describe(source->self, i, &tensor);
        count = kvsi_file_tensor_count(&tensor);
        largest = count > largest ? count : largest;
    }
    writer->values = kvsi_alloc(largest, sizeof *writer->values);
    if (!writer->values)
        return kvsi_no_memory(err, "a tensor of %zu values", largest);
    return KVS_OK;
}

void kvsi_tensor_writer_release(kvsi_tensor_writer *writer)
{
    kvsi_free(writer->values);
    *writer = (kvsi_tensor_writer){0};
}

/* The smallest value that overflows the type, or the f16 scale of its blocks. */
static float limit_of(kvsi_dtype dtype)
{
    const float f16_limit = 65520;

    switch (dtype) {
    case KVSI_F16:
        return f16_limit;
    case KVSI_Q8_0:
        return f16_limit * 127;
    case KVSI_Q4_0:
        return f16_limit * 8;
    default:
        return INFINITY;
    }
}

/* F16 and BF16 have infinity and NaN; quantized blocks do not. */
static kvs_status check_range(const kvsi_file_tensor *tensor, const float *values, size_t count,
                              kvs_err *err)
{
    const float limit = limit_of(tensor->dtype);
    const int blocks = kvsi_dtype_block(tensor->dtype) > 1;

    for (size_t i = 0; limit < INFINITY && i < count; i++)
        if (isfinite(values[i]) ? fabsf(values[i]) >= limit : blocks)
            return kvsi_fail(err, KVS_E_LIMIT,
                             "tensor '%s' has the value %g, which %s cannot represent; BF16 can",
                             tensor->name, (double)values[i], kvsi_dtype_name(tensor->dtype));
    return KVS_OK;
}

kvs_status kvsi_tensor_writer_put(const kvsi_tensor_writer *writer, size_t index,
                                  kvsi_new_file *file, kvs_err *err)
{
    const kvsi_tensor_source *source = writer->source;
    unsigned char encoded[CHUNK * sizeof(float)];
    kvsi_file_tensor tensor;
    size_t count;

    source->describe(source->self, index, &tensor);
    count = kvsi_file_tensor_count(&tensor);
    TRY(source->read(source->self, index, writer->values, err));
    TRY(check_range(&tensor, writer->values, count, err));
    if (tensor.dtype == KVSI_F32)
        return kvsi_new_file_write(file, writer->values, count * sizeof *writer->values, err);
    for (size_t at = 0; at < count; at += CHUNK) {
        const size_t n = count - at < CHUNK ? count - at : CHUNK;

        kvsi_dtype_encode(encoded, tensor.dtype, writer->values + at, n);
        TRY(kvsi_new_file_write(file, encoded, kvsi_dtype_bytes(tensor.dtype, n), err));
    }
    return KVS_OK;
}
