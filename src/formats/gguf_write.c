#include "formats/gguf_write.h"

#include "base/memory.h"
#include "formats/gguf.h"
#include "formats/tensor_writer.h"

#include <stdio.h>
#include <string.h>

_Static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "GGUF data is little-endian");

enum { VERSION = 3, ALIGNMENT = 32 };

/* ---- keys ------------------------------------------------------------------------------------ */

static void put_bytes(kvsi_text *out, const void *bytes, size_t size)
{
    kvsi_text_add_bytes(out, bytes, size);
}

static void put_u32(kvsi_text *out, uint32_t value)
{
    put_bytes(out, &value, sizeof value);
}

static void put_u64(kvsi_text *out, uint64_t value)
{
    put_bytes(out, &value, sizeof value);
}

static void put_string(kvsi_text *out, const char *text, size_t size)
{
    put_u64(out, size);
    put_bytes(out, text, size);
}

static void begin(kvsi_gguf_keys *keys, const char *key, kvsi_gguf_type type)
{
    put_string(&keys->bytes, key, strlen(key));
    put_u32(&keys->bytes, type);
    keys->count++;
}

static void begin_array(kvsi_gguf_keys *keys, const char *key, kvsi_gguf_type type, size_t count)
{
    begin(keys, key, KVSI_GGUF_ARRAY);
    put_u32(&keys->bytes, type);
    put_u64(&keys->bytes, count);
}

void kvsi_gguf_keys_release(kvsi_gguf_keys *keys)
{
    kvsi_text_release(&keys->bytes);
    *keys = (kvsi_gguf_keys){0};
}

void kvsi_gguf_put_whole(kvsi_gguf_keys *keys, const char *key, uint32_t value)
{
    begin(keys, key, KVSI_GGUF_U32);
    put_u32(&keys->bytes, value);
}

void kvsi_gguf_put_real(kvsi_gguf_keys *keys, const char *key, double value)
{
    const float single = (float)value;

    begin(keys, key, KVSI_GGUF_F32);
    put_bytes(&keys->bytes, &single, sizeof single);
}

void kvsi_gguf_put_flag(kvsi_gguf_keys *keys, const char *key, int value)
{
    const char byte = value != 0;

    begin(keys, key, KVSI_GGUF_BOOL);
    put_bytes(&keys->bytes, &byte, 1);
}

void kvsi_gguf_put_text(kvsi_gguf_keys *keys, const char *key, const char *text)
{
    begin(keys, key, KVSI_GGUF_TEXT);
    put_string(&keys->bytes, text, strlen(text));
}

/* ---- the vocabulary -------------------------------------------------------------------------- */

#define KEY(name) "tokenizer.ggml." name

static const int32_t UNUSED = 5;

/* Pads with unused tokens: a model may have more embedding rows than its tokenizer has tokens. */
static void put_tokens(kvsi_gguf_keys *keys, const kvsi_gguf_vocabulary *v, size_t size)
{
    begin_array(keys, KEY("tokens"), KVSI_GGUF_TEXT, size);
    for (size_t id = 0; id < size; id++) {
        char name[32];

        if (id < v->count && v->tokens[id].text) {
            put_string(&keys->bytes, v->tokens[id].text, v->tokens[id].size);
        } else {
            snprintf(name, sizeof name, "[PAD%zu]", id);
            put_string(&keys->bytes, name, strlen(name));
        }
    }
    begin_array(keys, KEY("token_type"), KVSI_GGUF_I32, size);
    for (size_t id = 0; id < size; id++) {
        const int there = id < v->count && v->tokens[id].text;

        put_bytes(&keys->bytes, there ? &v->tokens[id].type : &UNUSED, sizeof UNUSED);
    }
}

static void put_scores(kvsi_gguf_keys *keys, const kvsi_gguf_vocabulary *v, size_t size)
{
    const float none = 0;

    begin_array(keys, KEY("scores"), KVSI_GGUF_F32, size);
    for (size_t id = 0; id < size; id++)
        put_bytes(&keys->bytes, id < v->count ? &v->tokens[id].score : &none, sizeof none);
}

static void put_merges(kvsi_gguf_keys *keys, const kvsi_gguf_vocabulary *v)
{
    begin_array(keys, KEY("merges"), KVSI_GGUF_TEXT, v->merge_count);
    for (size_t i = 0; i < v->merge_count; i++)
        put_string(&keys->bytes, v->merges[i].text, v->merges[i].size);
}

static void put_id(kvsi_gguf_keys *keys, const char *key, int32_t id)
{
    if (id >= 0)
        kvsi_gguf_put_whole(keys, key, (uint32_t)id);
}

void kvsi_gguf_put_vocabulary(kvsi_gguf_keys *keys, const kvsi_gguf_vocabulary *v, size_t size)
{
    if (!v->model) {
        kvsi_gguf_put_text(keys, "tokenizer.huggingface.json", v->document);
        put_id(keys, KEY("bos_token_id"), v->bos);
        put_id(keys, KEY("eos_token_id"), v->eos);
        return;
    }
    size = size < v->count ? v->count : size;
    kvsi_gguf_put_text(keys, KEY("model"), v->model);
    if (v->pre)
        kvsi_gguf_put_text(keys, KEY("pre"), v->pre);
    put_tokens(keys, v, size);
    if (v->merges)
        put_merges(keys, v);
    else
        put_scores(keys, v, size);
    put_id(keys, KEY("bos_token_id"), v->bos);
    put_id(keys, KEY("eos_token_id"), v->eos);
    put_id(keys, KEY("unknown_token_id"), v->unknown);
    kvsi_gguf_put_flag(keys, KEY("add_bos_token"), v->add_bos);
    kvsi_gguf_put_flag(keys, KEY("add_eos_token"), v->add_eos);
    if (!v->merges) {
        kvsi_gguf_put_flag(keys, KEY("add_space_prefix"), v->add_space_prefix);
        kvsi_gguf_put_flag(keys, KEY("remove_extra_whitespaces"), v->remove_extra_spaces);
    }
    if (v->character_map) {
        begin_array(keys, KEY("precompiled_charsmap"), KVSI_GGUF_U8, v->character_map_size);
        put_bytes(&keys->bytes, v->character_map, v->character_map_size);
    }
}

/* GGUF has keys for three EOS tokens.  More of them, or another order, are also written as a list
 * under our own key. */
void kvsi_gguf_put_token_ids(kvsi_gguf_keys *keys, const kvsi_gguf_extras *extras)
{
    static const char *const others[] = {KEY("eot_token_id"), KEY("eom_token_id")};
    const kvsi_token_ids *ids = extras->ids;
    const kvsi_gguf_vocabulary *v = extras->vocabulary;
    int32_t eos = v ? v->eos : -1;
    size_t put = 0;

    put_id(keys, KEY("padding_token_id"), ids->pad);
    if (!v || v->bos < 0)
        put_id(keys, KEY("bos_token_id"), ids->bos);
    if (eos < 0 && ids->eos_count > 0)
        put_id(keys, KEY("eos_token_id"), eos = ids->eos[0]);
    for (size_t i = 0; i < ids->eos_count && put < 2; i++)
        if (ids->eos[i] != eos)
            put_id(keys, others[put++], ids->eos[i]);
    if (ids->eos_count > 1 || (ids->eos_count == 1 && ids->eos[0] != eos)) {
        begin_array(keys, KVSI_GGUF_EOS_LIST, KVSI_GGUF_I32, ids->eos_count);
        put_bytes(&keys->bytes, ids->eos, ids->eos_count * sizeof *ids->eos);
    }
}

/* ---- files ----------------------------------------------------------------------------------- */

static uint32_t type_number(kvsi_dtype dtype)
{
    switch (dtype) {
    case KVSI_F16:
        return 1;
    case KVSI_Q4_0:
        return 2;
    case KVSI_Q8_0:
        return 8;
    case KVSI_BF16:
        return 30;
    default:
        return 0;
    }
}

static size_t padding(uint64_t bytes)
{
    return (size_t)(-bytes % ALIGNMENT);
}

/* Writes everything before the data. */
static kvs_status render_head(kvsi_text *out, const kvsi_gguf_keys *keys,
                              const kvsi_tensor_source *source, kvs_err *err)
{
    static const char zeros[ALIGNMENT];
    uint64_t at = 0;

    put_bytes(out, "GGUF", 4);
    put_u32(out, VERSION);
    put_u64(out, source->count);
    put_u64(out, keys->count);
    put_bytes(out, keys->bytes.data, keys->bytes.length);
    for (size_t i = 0; i < source->count; i++) {
        kvsi_file_tensor tensor;

        source->describe(source->self, i, &tensor);
        put_string(out, tensor.name, strlen(tensor.name));
        put_u32(out, (uint32_t)tensor.rank);
        for (size_t d = tensor.rank; d-- > 0;) /* innermost first */
            put_u64(out, tensor.shape[d]);
        put_u32(out, type_number(tensor.dtype));
        put_u64(out, at);
        at += kvsi_file_tensor_bytes(&tensor);
        at += padding(at);
    }
    put_bytes(out, zeros, padding(out->length));
    if (keys->bytes.failed)
        return kvsi_text_check(&keys->bytes, err);
    return kvsi_text_check(out, err);
}

static kvs_status write_data(kvsi_new_file *file, const kvsi_tensor_writer *writer, kvs_err *err)
{
    static const char zeros[ALIGNMENT];
    const kvsi_tensor_source *source = writer->source;

    for (size_t i = 0; i < source->count; i++) {
        kvsi_file_tensor tensor;

        source->describe(source->self, i, &tensor);
        TRY(kvsi_tensor_writer_put(writer, i, file, err));
        TRY(kvsi_new_file_write(file, zeros, padding(kvsi_file_tensor_bytes(&tensor)), err));
    }
    return KVS_OK;
}

kvs_status kvsi_gguf_write(const char *path, const kvsi_gguf_keys *keys,
                           const kvsi_tensor_source *source, kvs_err *err)
{
    kvsi_tensor_writer writer = {0};
    kvsi_new_file *file = NULL;
    kvsi_text head = {0};
    kvs_status st;

    TRY_OUT(render_head(&head, keys, source, err));
    TRY_OUT(kvsi_tensor_writer_init(&writer, source, err));
    TRY_OUT(kvsi_new_file_open(&file, path, err));
    TRY_OUT(kvsi_new_file_write(file, head.data, head.length, err));
    TRY_OUT(write_data(file, &writer, err));
    st = kvsi_new_file_commit(file, err);
    file = NULL; /* closed either way */
out:
    kvsi_new_file_abandon(file);
    kvsi_tensor_writer_release(&writer);
    kvsi_text_release(&head);
    return st;
}
