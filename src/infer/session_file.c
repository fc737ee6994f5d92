#include "infer/session_file.h"

#include <string.h>

size_t kvsi_session_parts(kvsi_state_part *out, size_t limit, const kvsi_state *state)
{
    kvsi_state_part part;
    size_t count = 0;

    for (size_t i = 0; kvsi_state_part_at(&part, state, i); i++)
        if (part.data) {
            if (count < limit)
                out[count] = part;
            count++;
        }
    return count;
}

kvsi_file_tensor kvsi_session_part_tensor(const kvsi_state_part *part, const void *data)
{
    kvsi_file_tensor tensor = {
        .name = part->name, .dtype = part->type, .rank = part->rank, .data = data};

    memcpy(tensor.shape, part->shape, sizeof part->shape);
    return tensor;
}

kvsi_file_tensor kvsi_session_ids_tensor(const int32_t *ids, size_t length)
{
    return (kvsi_file_tensor){
        .name = "ids", .dtype = KVSI_I32, .rank = 1, .shape = {length}, .data = ids};
}

kvs_status kvsi_session_checksum(char *text, const kvsi_file_tensor *tensors, size_t count,
                                 kvs_err *err)
{
    kvsi_checksum_stream *stream;

    TRY(kvsi_checksum_create(&stream, err));
    for (size_t i = 1; i < count; i++)
        kvsi_checksum_add(stream, tensors[i].data, kvsi_file_tensor_bytes(&tensors[i]));
    kvsi_checksum_print(text, kvsi_checksum_value(stream));
    kvsi_checksum_free(stream);
    return KVS_OK;
}

kvs_status kvsi_session_weights(char *text, const kvs_model *model, kvs_err *err)
{
    uint64_t value = 0;
    const kvs_status st = kvsi_model_fingerprint(&value, model, err);

    kvsi_checksum_print(text, value);
    return st;
}
