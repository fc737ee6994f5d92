#include "formats/tensor.h"

size_t kvsi_file_tensor_count(const kvsi_file_tensor *tensor)
{
    size_t count = 1;

    for (size_t i = 0; i < tensor->rank; i++)
        count *= tensor->shape[i];
    return count;
}

size_t kvsi_file_tensor_bytes(const kvsi_file_tensor *tensor)
{
    return kvsi_dtype_bytes(tensor->dtype, kvsi_file_tensor_count(tensor));
}
