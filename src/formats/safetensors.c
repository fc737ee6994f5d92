/* Maps a file and checks all of it at open. */
#include "formats/safetensors.h"

#include "base/files.h"
#include "base/json.h"
#include "base/mapping.h"
#include "base/memory.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

_Static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "safetensors data is little-endian");

enum {
    LENGTH_BYTES = 8,         /* size of the header length */
    HEADER_LIMIT = 100000000, /* same limit as other readers */
};

static const char METADATA[] = "__metadata__"; /* the header key that is not a tensor */

struct kvsi_safetensors {
    const char *path; /* borrowed, only while opening */
    kvsi_mapping map;
    const unsigned char *data; /* after the header, in the map */
    size_t data_size;
    json_t *header;                   /* owns the names */
    kvsi_file_tensor *tensors;        /* in the order of their data */
    const kvsi_file_tensor **by_name; /* sorted */
    size_t count;
};

/* ---- reading: the file ----------------------------------------------------------------------- */

static kvs_status map_file(kvsi_safetensors *file, kvs_err *err)
{
    const kvs_status st = kvsi_mapping_open(&file->map, file->path, err);

    if (st == KVS_OK && file->map.size < LENGTH_BYTES)
        return kvsi_fail(err, KVS_E_FORMAT, "'%s' has %zu bytes, expected at least %d", file->path,
                         file->map.size, LENGTH_BYTES);
    return st;
}

static kvs_status parse_header(kvsi_safetensors *file, kvs_err *err)
{
    const unsigned char *text = file->map.data + LENGTH_BYTES;
    const size_t available = file->map.size - LENGTH_BYTES;
    uint64_t length;

    memcpy(&length, file->map.data, sizeof length);
    if (length > available)
        return kvsi_fail(err, KVS_E_FORMAT,
                         "'%s' claims a header of %llu bytes, but only %zu follow", file->path,
                         (unsigned long long)length, available);
    if (length > HEADER_LIMIT)
        return kvsi_fail(err, KVS_E_LIMIT, "'%s' has a header of %llu bytes, expected at most %d",
                         file->path, (unsigned long long)length, HEADER_LIMIT);
    file->data = text + length;
    file->data_size = available - (size_t)length;
    return kvsi_json_parse(&file->header, (const char *)text, (size_t)length, file->path, err);
}

/* ---- reading: the tensors -------------------------------------------------------------------- */

__attribute__((format(printf, 4, 5))) static kvs_status
refuse(const kvsi_safetensors *file, const char *name, kvs_err *err, const char *format, ...)
{
    char problem[256];
    va_list args;

    va_start(args, format);
    vsnprintf(problem, sizeof problem, format, args);
    va_end(args);
    return kvsi_fail(err, KVS_E_FORMAT, "'%s': tensor '%.100s' %s", file->path, name, problem);
}

static kvs_status read_dtype(kvsi_file_tensor *tensor, const kvsi_safetensors *file,
                             const json_t *value, kvs_err *err)
{
    const char *name = json_string_value(value);

    if (!name)
        return refuse(file, tensor->name, err, "has no string 'dtype'");
    if (strcmp(name, "BOOL") == 0) /* masks, which are no weights; a byte each */
        name = kvsi_dtype_name(KVSI_U8);
    for (int i = 0; i < KVSI_DTYPES; i++) {
        if (kvsi_dtype_block((kvsi_dtype)i) == 1 &&
            strcmp(name, kvsi_dtype_name((kvsi_dtype)i)) == 0) {
            tensor->dtype = (kvsi_dtype)i;
            return KVS_OK;
        }
    }
    return kvsi_fail(
        err, KVS_E_UNSUPPORTED,
        "'%s': tensor '%.100s' has dtype '%.20s', expected F32, F16, BF16, F64, I32, I64, U8 or "
        "BOOL",
        file->path, tensor->name, name);
}

/* A non-negative JSON integer (jansson refuses those beyond 64 bits). */
static int get_natural(size_t *out, const json_t *value)
{
    if (!json_is_integer(value) || json_integer_value(value) < 0)
        return 0;
    *out = (size_t)json_integer_value(value);
    return 1;
}

/* Reads the shape and computes the size; the dtype must be set. */
static kvs_status read_shape(kvsi_file_tensor *tensor, size_t *bytes, const kvsi_safetensors *file,
                             const json_t *value, kvs_err *err)
{
    if (!json_is_array(value))
        return refuse(file, tensor->name, err, "has no shape array");
    tensor->rank = json_array_size(value);
    if (tensor->rank > KVSI_TENSOR_RANK_MAX)
        return refuse(file, tensor->name, err, "has %zu dimensions, expected at most %d",
                      tensor->rank, KVSI_TENSOR_RANK_MAX);
    *bytes = kvsi_dtype_bytes(tensor->dtype, 1);
    for (size_t i = 0; i < tensor->rank; i++) {
        if (!get_natural(&tensor->shape[i], json_array_get(value, i)))
            return refuse(file, tensor->name, err, "has no whole number at shape[%zu]", i);
        if (__builtin_mul_overflow(*bytes, tensor->shape[i], bytes))
            return refuse(file, tensor->name, err, "has a shape whose size overflows");
    }
    return KVS_OK;
}

static kvs_status read_offsets(kvsi_file_tensor *tensor, size_t bytes, const kvsi_safetensors *file,
                               const json_t *value, kvs_err *err)
{
    size_t begin, end;

    if (json_array_size(value) != 2 || !get_natural(&begin, json_array_get(value, 0)) ||
        !get_natural(&end, json_array_get(value, 1)))
        return refuse(file, tensor->name, err, "has no pair of whole numbers as data_offsets");
    if (begin > end || end > file->data_size)
        return refuse(file, tensor->name, err, "has data_offsets [%zu, %zu] outside the %zu bytes",
                      begin, end, file->data_size);
    if (end - begin != bytes)
        return refuse(file, tensor->name, err, "has %zu bytes of data, its shape needs %zu",
                      end - begin, bytes);
    tensor->data = file->data + begin; /* unaligned: copy, do not cast */
    return KVS_OK;
}

static kvs_status read_tensor(kvsi_file_tensor *tensor, const kvsi_safetensors *file,
                              const char *name, const json_t *entry, kvs_err *err)
{
    size_t bytes = 0;

    tensor->name = name;
    TRY(read_dtype(tensor, file, json_object_get(entry, "dtype"), err));
    TRY(read_shape(tensor, &bytes, file, json_object_get(entry, "shape"), err));
    return read_offsets(tensor, bytes, file, json_object_get(entry, "data_offsets"), err);
}

static kvs_status check_metadata(const kvsi_safetensors *file, json_t *metadata, kvs_err *err)
{
    const char *key;
    json_t *value;

    if (!json_is_object(metadata))
        return kvsi_fail(err, KVS_E_FORMAT, "'%s': '%s' is not an object", file->path, METADATA);
    json_object_foreach(metadata, key, value) {
        if (!json_is_string(value))
            return kvsi_fail(err, KVS_E_FORMAT, "'%s': '%s' has no string at '%.100s'", file->path,
                             METADATA, key);
    }
    return KVS_OK;
}

static kvs_status read_tensors(kvsi_safetensors *file, kvs_err *err)
{
    const size_t keys = json_object_size(file->header);
    const char *key;
    json_t *value;

    file->tensors = kvsi_alloc(keys, sizeof *file->tensors);
    file->by_name = kvsi_alloc(keys, sizeof(kvsi_file_tensor *));
    if (!file->tensors || !file->by_name)
        return kvsi_no_memory(err, "the %zu tensors of '%s'", keys, file->path);
    json_object_foreach(file->header, key, value) {
        if (strcmp(key, METADATA) == 0)
            TRY(check_metadata(file, value, err));
        else
            TRY(read_tensor(&file->tensors[file->count++], file, key, value, err));
    }
    return KVS_OK;
}

/* ---- reading: order -------------------------------------------------------------------------- */

/* By offset; at equal offsets, empty tensors first. */
static int compare_place(const void *left, const void *right)
{
    const kvsi_file_tensor *a = left, *b = right;
    const uintptr_t a_place = (uintptr_t)a->data, b_place = (uintptr_t)b->data;
    const size_t a_bytes = kvsi_file_tensor_bytes(a), b_bytes = kvsi_file_tensor_bytes(b);

    if (a_place != b_place)
        return a_place < b_place ? -1 : 1;
    if (a_bytes != b_bytes)
        return a_bytes < b_bytes ? -1 : 1;
    return strcmp(a->name, b->name);
}

static int compare_name(const void *left, const void *right)
{
    const kvsi_file_tensor *const *a = left, *const *b = right;

    return strcmp((*a)->name, (*b)->name);
}

/* Checks that every byte of data belongs to exactly one tensor. */
static kvs_status check_coverage(const kvsi_safetensors *file, kvs_err *err)
{
    size_t covered = 0;

    for (size_t i = 0; i < file->count; i++) {
        const kvsi_file_tensor *tensor = &file->tensors[i];
        const size_t begin = (size_t)((const unsigned char *)tensor->data - file->data);

        if (begin < covered)
            return refuse(file, tensor->name, err, "at byte %zu overlaps the one that ends at %zu",
                          begin, covered);
        if (begin > covered)
            return refuse(file, tensor->name, err, "at byte %zu leaves a gap from byte %zu", begin,
                          covered);
        covered += kvsi_file_tensor_bytes(tensor);
    }
    if (covered != file->data_size)
        return kvsi_fail(err, KVS_E_FORMAT, "'%s' has %zu bytes of data, its tensors have %zu",
                         file->path, file->data_size, covered);
    return KVS_OK;
}

static void sort_tensors(kvsi_safetensors *file)
{
    qsort(file->tensors, file->count, sizeof *file->tensors, compare_place);
    for (size_t i = 0; i < file->count; i++)
        file->by_name[i] = &file->tensors[i];
    qsort(file->by_name, file->count, sizeof(kvsi_file_tensor *), compare_name);
}

kvs_status kvsi_safetensors_open(kvsi_safetensors **out, const char *path, kvs_err *err)
{
    kvs_status st = KVS_OK;
    kvsi_safetensors *file = kvsi_alloc(1, sizeof *file);

    *out = NULL;
    if (!file)
        return kvsi_no_memory(err, "'%s'", path);
    file->path = path;
    TRY_OUT(map_file(file, err));
    TRY_OUT(parse_header(file, err));
    TRY_OUT(read_tensors(file, err));
    sort_tensors(file);
    TRY_OUT(check_coverage(file, err));
    file->path = NULL;
    *out = file;
    file = NULL;
out:
    kvsi_safetensors_close(file);
    return st;
}

void kvsi_safetensors_close(kvsi_safetensors *file)
{
    if (!file)
        return;
    kvsi_free(file->by_name);
    kvsi_free(file->tensors);
    json_decref(file->header);
    kvsi_mapping_close(&file->map);
    kvsi_free(file);
}

size_t kvsi_safetensors_count(const kvsi_safetensors *file)
{
    return file->count;
}

const kvsi_file_tensor *kvsi_safetensors_at(const kvsi_safetensors *file, size_t index)
{
    return index < file->count ? &file->tensors[index] : NULL;
}

const kvsi_file_tensor *kvsi_safetensors_find(const kvsi_safetensors *file, const char *name)
{
    const kvsi_file_tensor wanted = {.name = name}, *key = &wanted;
    const kvsi_file_tensor **found =
        bsearch(&key, file->by_name, file->count, sizeof(kvsi_file_tensor *), compare_name);

    return found ? *found : NULL;
}
