/* safetensors: all data that an accepted header describes must be readable. */
#include "base/memory.h"
#include "formats/safetensors.h"
#include "fuzz.h"

#include <string.h>

static void read_tensor(const kvsi_safetensors *file, const kvsi_file_tensor *t)
{
    const size_t bytes = kvsi_file_tensor_bytes(t), count = kvsi_file_tensor_count(t);
    void *copy = kvsi_alloc(bytes, 1);
    float *numbers;

    fuzz_expect(kvsi_safetensors_find(file, t->name) == t, "tensors are found by name");
    if (bytes > 0)
        memcpy(copy, t->data, bytes);
    kvsi_free(copy);
    if (!kvsi_dtype_is_weight(t->dtype))
        return;
    numbers = kvsi_alloc(count, sizeof *numbers);
    kvsi_dtype_decode(numbers, t->dtype, t->data, count);
    kvsi_free(numbers);
}

kvs_status fuzz_run(const char *data, size_t size, kvs_err *err)
{
    kvsi_safetensors *file;
    kvs_status st;

    fuzz_write("file", data, size);
    st = kvsi_safetensors_open(&file, "file", err);
    for (size_t i = 0; st == KVS_OK && i < kvsi_safetensors_count(file); i++)
        read_tensor(file, kvsi_safetensors_at(file, i));
    kvsi_safetensors_close(file);
    return st;
}

static void put_header(kvsi_text *file, const char *header, size_t zeros)
{
    put_u64(file, strlen(header));
    put_bytes(file, header, strlen(header));
    for (; zeros > 0; zeros--)
        put_bytes(file, "", 1);
}

void fuzz_seeds(void)
{
    static const double numbers[4] = {1, -2, 3, -4};
    kvsi_file_tensor tensors[KVSI_DTYPES];
    kvsi_text file = {0};
    size_t count = 0;

    for (kvsi_dtype type = 0; type < KVSI_DTYPES; type++)
        if (kvsi_dtype_block(type) == 1) /* the format has no quantized blocks */
            tensors[count++] = (kvsi_file_tensor){.name = kvsi_dtype_name(type),
                                                  .dtype = type,
                                                  .rank = 2,
                                                  .shape = {2, 2},
                                                  .data = numbers};
    put_safetensors(&file, tensors, count);
    fuzz_seed("types", &file);
    put_safetensors(&file, NULL, 0);
    fuzz_seed("empty", &file);
    put_header(&file,
               "{\"__metadata__\":{\"format\":\"pt\"},"
               "\"a\":{\"dtype\":\"F32\",\"shape\":[],\"data_offsets\":[0,4]},"
               "\"b\":{\"dtype\":\"U8\",\"shape\":[0],\"data_offsets\":[4,4]},"
               "\"c\":{\"dtype\":\"BF16\",\"shape\":[1,1,1,1,2],\"data_offsets\":[4,8]}}   ",
               8);
    fuzz_seed("metadata", &file);
}
