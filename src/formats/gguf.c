/* Reads a GGUF header and metadata. */
#include "base/memory.h"
#include "formats/gguf_file.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { HEADER_SIZE = 24, KEYS_MAX = 1 << 16 };

/* ---- bytes ----------------------------------------------------------------------------------- */

static uint64_t little_endian(const unsigned char *bytes, size_t size)
{
    uint64_t value = 0;

    for (size_t i = size; i-- > 0;)
        value = value << 8 | bytes[i];
    return value;
}

static kvs_status fail_short(const kvsi_gguf_cursor *c)
{
    return kvsi_fail(c->err, KVS_E_FORMAT, "'%s' ends in the middle of its %s", c->path, c->part);
}

kvs_status kvsi_gguf_take(kvsi_gguf_cursor *c, uint64_t *out, size_t size)
{
    if ((size_t)(c->end - c->at) < size)
        return fail_short(c);
    *out = little_endian(c->at, size);
    c->at += size;
    return KVS_OK;
}

kvs_status kvsi_gguf_take_text(kvsi_gguf_cursor *c, const char **text, size_t *size)
{
    uint64_t length = 0;

    TRY(kvsi_gguf_take(c, &length, 8));
    if (length > (uint64_t)(c->end - c->at))
        return fail_short(c);
    *text = (const char *)c->at;
    *size = (size_t)length;
    c->at += length;
    return KVS_OK;
}

/* ---- metadata -------------------------------------------------------------------------------- */

static size_t type_size(kvsi_gguf_type type)
{
    static const unsigned char sizes[KVSI_GGUF_TYPES] = {
        [KVSI_GGUF_U8] = 1,  [KVSI_GGUF_I8] = 1,  [KVSI_GGUF_U16] = 2, [KVSI_GGUF_I16] = 2,
        [KVSI_GGUF_U32] = 4, [KVSI_GGUF_I32] = 4, [KVSI_GGUF_F32] = 4, [KVSI_GGUF_BOOL] = 1,
        [KVSI_GGUF_U64] = 8, [KVSI_GGUF_I64] = 8, [KVSI_GGUF_F64] = 8,
    };

    return sizes[type];
}

static kvs_status take_type(kvsi_gguf_cursor *c, kvsi_gguf_type *type)
{
    uint64_t number = 0;

    TRY(kvsi_gguf_take(c, &number, 4));
    if (number >= KVSI_GGUF_TYPES)
        return kvsi_fail(c->err, KVS_E_FORMAT, "'%s': unknown type %" PRIu64 " in the metadata",
                         c->path, number);
    *type = (kvsi_gguf_type)number;
    return KVS_OK;
}

/* Skips `count` elements. */
static kvs_status skip(kvsi_gguf_cursor *c, kvsi_gguf_type type, uint64_t count)
{
    const size_t size = type_size(type), left = (size_t)(c->end - c->at);

    if (size > 0) {
        if (count > left / size)
            return fail_short(c);
        c->at += count * size;
        return KVS_OK;
    }
    if (count > left / 8)
        return fail_short(c);
    for (; count > 0; count--) {
        const char *text;
        size_t length;

        TRY(kvsi_gguf_take_text(c, &text, &length));
    }
    return KVS_OK;
}

static kvs_status take_value(kvsi_gguf_cursor *c, kvsi_gguf_value *value)
{
    uint64_t count = 1;

    TRY(kvsi_gguf_take_text(c, &value->key, &value->key_size));
    TRY(take_type(c, &value->type));
    value->is_array = value->type == KVSI_GGUF_ARRAY;
    if (value->is_array) {
        TRY(take_type(c, &value->type));
        TRY(kvsi_gguf_take(c, &count, 8));
    }
    if (value->type == KVSI_GGUF_ARRAY)
        return kvsi_fail(c->err, KVS_E_UNSUPPORTED,
                         "'%s': arrays of arrays in the metadata are not supported", c->path);
    value->data = c->at;
    TRY(skip(c, value->type, count));
    value->end = c->at;
    value->count = (size_t)count;
    return KVS_OK;
}

static kvs_status read_metadata(kvsi_gguf *file, kvs_err *err)
{
    kvsi_gguf_cursor c = {file->path, "metadata", file->map.data + 4,
                          file->map.data + file->map.size, err};
    uint64_t version = 0, keys = 0;

    TRY(kvsi_gguf_take(&c, &version, 4));
    if (version != 2 && version != 3)
        return kvsi_fail(err, KVS_E_UNSUPPORTED, "'%s': GGUF version %" PRIu64 ", expected 2 or 3",
                         file->path, version);
    TRY(kvsi_gguf_take(&c, &file->tensor_count, 8));
    TRY(kvsi_gguf_take(&c, &keys, 8));
    if (keys > KEYS_MAX)
        return kvsi_fail(err, KVS_E_LIMIT, "'%s': %" PRIu64 " metadata keys, expected at most %d",
                         file->path, keys, (int)KEYS_MAX);
    file->values = kvsi_alloc((size_t)keys, sizeof *file->values);
    if (!file->values)
        return kvsi_no_memory(err, "'%s'", file->path);
    for (; file->count < keys; file->count++)
        TRY(take_value(&c, file->values + file->count));
    file->after_keys = c.at;
    return KVS_OK;
}

/* ---- files ----------------------------------------------------------------------------------- */

static kvs_status map_file(kvsi_gguf *file, kvs_err *err)
{
    TRY(kvsi_mapping_open(&file->map, file->path, err));
    if (file->map.size < HEADER_SIZE)
        return kvsi_fail(err, KVS_E_FORMAT, "'%s' has %zu bytes, too few for GGUF", file->path,
                         file->map.size);
    if (memcmp(file->map.data, "GGUF", 4) != 0)
        return kvsi_fail(err, KVS_E_FORMAT, "'%s' does not start with 'GGUF'", file->path);
    return KVS_OK;
}

kvs_status kvsi_gguf_open(kvsi_gguf **out, const char *path, kvs_err *err)
{
    kvsi_gguf *file = kvsi_alloc(1, sizeof *file);
    kvs_status st = KVS_OK;

    *out = NULL;
    if (!file || !(file->path = kvsi_strdup(path))) {
        st = kvsi_no_memory(err, "'%s'", path);
        goto out;
    }
    TRY_OUT(map_file(file, err));
    TRY_OUT(read_metadata(file, err));
    *out = file;
    file = NULL;
out:
    kvsi_gguf_close(file);
    return st;
}

void kvsi_gguf_close(kvsi_gguf *file)
{
    if (!file)
        return;
    for (size_t i = 0; file->tensors && i < file->tensor_count; i++)
        kvsi_free((char *)file->tensors[i].name);
    kvsi_free(file->tensors);
    kvsi_mapping_close(&file->map);
    kvsi_free(file->values);
    kvsi_free(file->path);
    kvsi_free(file);
}

/* ---- values ---------------------------------------------------------------------------------- */

const kvsi_gguf_value *kvsi_gguf_find(const kvsi_gguf *file, const char *key)
{
    const size_t size = strlen(key);

    for (size_t i = 0; i < file->count; i++)
        if (file->values[i].key_size == size && memcmp(file->values[i].key, key, size) == 0)
            return file->values + i;
    return NULL;
}

static kvs_status fail_type(const kvsi_gguf *file, const char *key, const char *expected,
                            kvs_err *err)
{
    return kvsi_fail(err, KVS_E_FORMAT, "'%s': key '%s': expected %s", file->path, key, expected);
}

kvs_status kvsi_gguf_get_whole(int64_t *out, const kvsi_gguf *file, const char *key, kvs_err *err)
{
    const kvsi_gguf_value *value = kvsi_gguf_find(file, key);
    size_t size;
    uint64_t number;

    if (!value)
        return KVS_OK;
    size = type_size(value->type);
    if (value->is_array || size == 0 || value->type == KVSI_GGUF_F32 ||
        value->type == KVSI_GGUF_F64)
        return fail_type(file, key, "a whole number", err);
    number = little_endian(value->data, size);
    if ((value->type == KVSI_GGUF_I8 || value->type == KVSI_GGUF_I16 ||
         value->type == KVSI_GGUF_I32) &&
        number >> (8 * size - 1))
        number -= (uint64_t)1 << (8 * size);
    *out = (int64_t)number;
    return KVS_OK;
}

static double double_at(const kvsi_gguf_value *value)
{
    const uint64_t bits = little_endian(value->data, 8);
    double number;

    memcpy(&number, &bits, sizeof number);
    return number;
}

double kvsi_gguf_meant(double found)
{
    char text[32];

    for (int digits = 6; digits < 9; digits++) {
        snprintf(text, sizeof text, "%.*g", digits, found);
        if ((double)strtof(text, NULL) == found)
            return strtod(text, NULL);
    }
    return found;
}

kvs_status kvsi_gguf_get_real(double *out, const kvsi_gguf *file, const char *key, kvs_err *err)
{
    const kvsi_gguf_value *value = kvsi_gguf_find(file, key);

    if (!value)
        return KVS_OK;
    if (value->is_array || (value->type != KVSI_GGUF_F32 && value->type != KVSI_GGUF_F64))
        return fail_type(file, key, "a floating-point number", err);
    *out = value->type == KVSI_GGUF_F32 ? kvsi_gguf_meant(kvsi_gguf_float_at(value, 0))
                                        : double_at(value);
    return KVS_OK;
}

kvs_status kvsi_gguf_get_text(const char **out, size_t *size, const kvsi_gguf *file,
                              const char *key, kvs_err *err)
{
    const kvsi_gguf_value *value = kvsi_gguf_find(file, key);

    if (!value)
        return KVS_OK;
    if (value->is_array || value->type != KVSI_GGUF_TEXT)
        return fail_type(file, key, "text", err);
    *out = (const char *)value->data + 8;
    *size = (size_t)(value->end - value->data) - 8;
    return KVS_OK;
}

kvs_status kvsi_gguf_get_array(const kvsi_gguf_value **out, const kvsi_gguf *file, const char *key,
                               kvsi_gguf_type type, kvs_err *err)
{
    *out = kvsi_gguf_find(file, key);
    if (!*out)
        return kvsi_fail(err, KVS_E_FORMAT, "'%s': key '%s' is missing", file->path, key);
    if (!(*out)->is_array || (*out)->type != type)
        return fail_type(
            file, key, type == KVSI_GGUF_TEXT ? "an array of strings" : "an array of numbers", err);
    return KVS_OK;
}

float kvsi_gguf_float_at(const kvsi_gguf_value *array, size_t index)
{
    const uint32_t bits = (uint32_t)little_endian(array->data + 4 * index, 4);
    float value;

    memcpy(&value, &bits, sizeof value);
    return value;
}

int32_t kvsi_gguf_int_at(const kvsi_gguf_value *array, size_t index)
{
    return (int32_t)(uint32_t)little_endian(array->data + 4 * index, 4);
}

const char *kvsi_gguf_next_text(const kvsi_gguf_value *array, size_t *at, size_t *size)
{
    const unsigned char *text = array->data + *at;

    *size = (size_t)little_endian(text, 8);
    *at += 8 + *size;
    return (const char *)text + 8;
}
