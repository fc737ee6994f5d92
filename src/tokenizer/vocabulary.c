#include "tokenizer/vocabulary.h"

#include "base/array.h"
#include "base/memory.h"
#include "tokenizer/ids.h"

#include <inttypes.h>
#include <string.h>

/* The slot of a piece, or the free slot for it. */
static uint32_t *slot_of(const kvsi_vocabulary *v, const char *text, size_t size)
{
    const size_t mask = v->slot_count - 1;
    size_t at = (size_t)kvsi_hash_bytes(text, size) & mask;

    for (; v->slots[at]; at = (at + 1) & mask) {
        const struct kvsi_piece *piece = v->pieces + v->slots[at] - 1;

        if (piece->size == size && memcmp(v->bytes.data + piece->at, text, size) == 0)
            break;
    }
    return v->slots + at;
}

static kvs_status rehash(kvsi_vocabulary *v, kvs_err *err)
{
    const size_t count = v->slot_count ? 2 * v->slot_count : 1024;
    uint32_t *fresh = kvsi_alloc(count, sizeof *fresh);

    if (!fresh)
        return kvsi_no_memory(err, "a vocabulary");
    kvsi_free(v->slots);
    v->slots = fresh;
    v->slot_count = count;
    for (size_t id = 0; id < v->count; id++) {
        const kvsi_bytes piece = kvsi_vocabulary_at(v, id);

        if (piece.text)
            *slot_of(v, piece.text, piece.size) = (uint32_t)id + 1;
    }
    return KVS_OK;
}

kvs_status kvsi_vocabulary_set(kvsi_vocabulary *v, uint64_t id, const char *text, size_t size,
                               kvs_err *err)
{
    int32_t taken;

    taken = kvsi_vocabulary_find(v, text, size);
    if (taken >= 0 || kvsi_vocabulary_at(v, (size_t)id).text)
        return kvsi_fail(err, KVS_E_FORMAT, "token '%.*s' with id %" PRIu64 ": the %s occurs twice",
                         (int)(size < 64 ? size : 64), text, id, taken >= 0 ? "token" : "id");
    if (id > INT32_MAX - 1 || size > UINT32_MAX / 2 || v->bytes.length > UINT32_MAX / 2)
        return kvsi_fail(err, KVS_E_LIMIT, "the vocabulary has more than 2 GB or 2^31 tokens");
    TRY(kvsi_array_reserve(&v->pieces, &v->capacity, (size_t)id + 1, sizeof *v->pieces, err));
    if (2 * (v->used + 1) > v->slot_count)
        TRY(rehash(v, err));
    kvsi_text_add_bytes(&v->bytes, text, size);
    TRY(kvsi_text_check(&v->bytes, err));
    *slot_of(v, text, size) = (uint32_t)id + 1;
    v->used++;
    while (v->count <= id)
        v->pieces[v->count++].at = UINT32_MAX;
    v->pieces[id] =
        (struct kvsi_piece){.at = (uint32_t)(v->bytes.length - size), .size = (uint32_t)size};
    return KVS_OK;
}

kvs_status kvsi_vocabulary_add(kvsi_vocabulary *v, const char *text, size_t size, uint32_t *id,
                               kvs_err *err)
{
    const int32_t found = kvsi_vocabulary_find(v, text, size);

    *id = found >= 0 ? (uint32_t)found : (uint32_t)v->count;
    return found >= 0 ? KVS_OK : kvsi_vocabulary_set(v, v->count, text, size, err);
}

int32_t kvsi_vocabulary_find(const kvsi_vocabulary *v, const char *text, size_t size)
{
    return v->slot_count ? (int32_t)*slot_of(v, text, size) - 1 : -1;
}

kvsi_bytes kvsi_vocabulary_at(const kvsi_vocabulary *v, size_t id)
{
    if (id >= v->count || v->pieces[id].at == UINT32_MAX)
        return (kvsi_bytes){0};
    return (kvsi_bytes){v->bytes.data + v->pieces[id].at, v->pieces[id].size};
}

void kvsi_vocabulary_release(kvsi_vocabulary *v)
{
    kvsi_text_release(&v->bytes);
    kvsi_free(v->pieces);
    kvsi_free(v->slots);
    *v = (kvsi_vocabulary){0};
}
