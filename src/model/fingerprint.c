/* Which weights these are, in 64 bits. */
#include "base/checksum.h"
#include "model/model.h"

kvs_status kvsi_model_fingerprint(uint64_t *out, const kvs_model *model, kvs_err *err)
{
    enum { CHUNK = 4096 };
    kvsi_checksum_stream *stream;
    kvsi_context c = model->context;
    const kvs_status st = kvsi_checksum_create(&stream, err);

    for (size_t i = 0; st == KVS_OK && i < model->layout.count; i++) {
        const kvsi_parameter *p = &model->layout.list[i];

        for (size_t at = 0; at < p->count; at += CHUNK) {
            const size_t n = p->count - at < CHUNK ? p->count - at : CHUNK;
            real chunk[CHUNK];

            c.ops->download(&c, chunk, model->parameters + p->offset + at, n * sizeof *chunk);
            c.ops->sync(&c);
            kvsi_checksum_add(stream, chunk, n * sizeof *chunk);
        }
    }
    if (st != KVS_OK)
        return st;
    *out = kvsi_checksum_value(stream);
    kvsi_checksum_free(stream);
    return KVS_OK;
}
