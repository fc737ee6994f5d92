/* Writes safetensors files, which appear only when complete. */
#include "base/json.h"
#include "base/memory.h"
#include "formats/safetensors.h"
#include "formats/tensor_writer.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

_Static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "safetensors data is little-endian");

enum {
    LENGTH_BYTES = 8,    /* size of the header length */
    DATA_ALIGNMENT = 64, /* of the data after the header */
    SHARDS_MAX = 99999,  /* their names have five digits */
};

static const char METADATA[] = "__metadata__"; /* the header key that is not a tensor */

/* ---- the header ------------------------------------------------------------------------------ */

/* A new reference, or NULL. */
static json_t *describe_tensor(const kvsi_file_tensor *tensor, size_t begin)
{
    json_t *shape = json_array();

    for (size_t i = 0; i < tensor->rank; i++) {
        if (json_array_append_new(shape, json_integer((json_int_t)tensor->shape[i])) != 0) {
            json_decref(shape);
            return NULL;
        }
    }
    return json_pack("{s:s, s:o, s:[I, I]}", "dtype", kvsi_dtype_name(tensor->dtype), "shape",
                     shape, "data_offsets", (json_int_t)begin,
                     (json_int_t)(begin + kvsi_file_tensor_bytes(tensor)));
}

static kvs_status describe_tensors(json_t *header, const kvsi_file_tensor *tensors, size_t count,
                                   const char *path, kvs_err *err)
{
    size_t begin = 0;

    for (size_t i = 0; i < count; i++) {
        if (json_object_get(header, tensors[i].name))
            return kvsi_fail(err, KVS_E_INVALID, "tensor '%.100s' occurs twice in '%s'",
                             tensors[i].name, path);
        if (json_object_set_new(header, tensors[i].name, describe_tensor(&tensors[i], begin)) != 0)
            return kvsi_no_memory(err, "the header of '%s'", path);
        begin += kvsi_file_tensor_bytes(&tensors[i]);
    }
    return KVS_OK;
}

/* The length and the header (kvsi_free), padded with spaces to the data's alignment. */
static kvs_status render_header(unsigned char **out, size_t *size, const json_t *header,
                                const char *path, kvs_err *err)
{
    size_t text_size, whole;
    uint64_t length;
    unsigned char *bytes = NULL;
    char *text;
    kvs_status st;

    TRY_OUT(kvsi_json_dump(&text, header, JSON_COMPACT, "the header of a model's file", err));
    text_size = strlen(text);
    whole = (LENGTH_BYTES + text_size + DATA_ALIGNMENT - 1) / DATA_ALIGNMENT * DATA_ALIGNMENT;
    length = whole - LENGTH_BYTES;
    bytes = kvsi_alloc(whole, 1);
    if (!bytes) {
        st = kvsi_no_memory(err, "the header of '%s'", path);
        goto out;
    }
    memcpy(bytes, &length, sizeof length);
    memset(bytes + LENGTH_BYTES, ' ', (size_t)length);
    memcpy(bytes + LENGTH_BYTES, text, text_size);
    *out = bytes;
    *size = whole;
out:
    free(text);
    return st;
}

/* ---- files ----------------------------------------------------------------------------------- */

/* The tensors of one file.  Their data is in memory or, with a writer, produced on demand: tensor i
 * is number `at[i]` of the source.  With `put`, the callback appends it. */
typedef struct contents {
    const kvsi_file_tensor *tensors;
    size_t count;
    const kvsi_tensor_writer *writer;
    const size_t *at;
    kvsi_tensor_put *put;
    const void *self;
} contents;

static kvs_status write_data(kvsi_new_file *file, const contents *c, size_t i, kvs_err *err)
{
    const size_t bytes = kvsi_file_tensor_bytes(&c->tensors[i]);

    if (bytes == 0) /* an empty tensor may have a NULL pointer */
        return KVS_OK;
    if (c->put)
        return c->put(c->self, i, file, err);
    if (c->writer)
        return kvsi_tensor_writer_put(c->writer, c->at[i], file, err);
    return kvsi_new_file_write(file, c->tensors[i].data, bytes, err);
}

static kvs_status write_file(const char *path, const contents *c, kvs_err *err)
{
    kvs_status st = KVS_OK;
    json_t *header = json_pack("{s:{s:s}}", METADATA, "format", "pt");
    unsigned char *head = NULL;
    size_t head_size = 0;
    kvsi_new_file *file = NULL;

    TRY_OUT(describe_tensors(header, c->tensors, c->count, path, err));
    TRY_OUT(render_header(&head, &head_size, header, path, err));
    TRY_OUT(kvsi_new_file_open(&file, path, err));
    TRY_OUT(kvsi_new_file_write(file, head, head_size, err));
    for (size_t i = 0; i < c->count; i++)
        TRY_OUT(write_data(file, c, i, err));
    st = kvsi_new_file_commit(file, err);
    file = NULL; /* closed either way */
out:
    kvsi_new_file_abandon(file);
    kvsi_free(head);
    json_decref(header);
    return st;
}

kvs_status kvsi_safetensors_write(const char *path, const kvsi_file_tensor *tensors, size_t count,
                                  kvs_err *err)
{
    return write_file(path, &(contents){.tensors = tensors, .count = count}, err);
}

kvs_status kvsi_safetensors_write_parts(const char *path, const kvsi_file_tensor *tensors,
                                        size_t count, kvsi_tensor_put *put, const void *self,
                                        kvs_err *err)
{
    return write_file(
        path, &(contents){.tensors = tensors, .count = count, .put = put, .self = self}, err);
}

/* ---- sources --------------------------------------------------------------------------------- */

/* The tensors of a source, and arrays to sort those of one file. */
typedef struct stream {
    const kvsi_tensor_source *source;
    kvsi_tensor_writer writer;
    kvsi_file_tensor *tensors, *ordered;
    size_t *at;
} stream;

static void stream_release(stream *s)
{
    kvsi_tensor_writer_release(&s->writer);
    kvsi_free(s->tensors);
    kvsi_free(s->ordered);
    kvsi_free(s->at);
}

static kvs_status stream_init(stream *s, const kvsi_tensor_source *source, kvs_err *err)
{
    *s = (stream){.source = source};
    s->tensors = kvsi_alloc(source->count, sizeof *s->tensors);
    s->ordered = kvsi_alloc(source->count, sizeof *s->ordered);
    s->at = kvsi_alloc(source->count, sizeof *s->at);
    if (!s->tensors || !s->ordered || !s->at)
        return kvsi_no_memory(err, "%zu tensors", source->count);
    for (size_t i = 0; i < source->count; i++)
        source->describe(source->self, i, &s->tensors[i]);
    return kvsi_tensor_writer_init(&s->writer, source, err);
}

/* Writes tensors first .. end-1 to one file. */
static kvs_status write_part(stream *s, const char *path, size_t first, size_t end, kvs_err *err)
{
    size_t count = 0;

    for (size_t size = sizeof(float); size > 0; size /= 2)
        for (size_t i = first; i < end; i++)
            if (kvsi_dtype_bytes(s->tensors[i].dtype, 1) == size) {
                s->ordered[count] = s->tensors[i];
                s->at[count++] = i;
            }
    return write_file(
        path, &(contents){.tensors = s->ordered, .count = count, .writer = &s->writer, .at = s->at},
        err);
}

kvs_status kvsi_safetensors_write_source(const char *path, const kvsi_tensor_source *source,
                                         kvs_err *err)
{
    kvs_status st;
    stream s;

    TRY_OUT(stream_init(&s, source, err));
    TRY_OUT(write_part(&s, path, 0, source->count, err));
out:
    stream_release(&s);
    return st;
}

/* ---- shards ---------------------------------------------------------------------------------- */

/* The end of the shard that starts at `first`. */
static size_t end_of_shard(const stream *s, size_t first, uint64_t shard_bytes)
{
    uint64_t bytes = kvsi_file_tensor_bytes(&s->tensors[first]);
    size_t end = first + 1;

    while (end < s->source->count) {
        bytes += kvsi_file_tensor_bytes(&s->tensors[end]);
        if (bytes > shard_bytes)
            break;
        end++;
    }
    return end;
}

static size_t count_shards(const stream *s, uint64_t shard_bytes)
{
    size_t count = 0;

    for (size_t at = 0; at < s->source->count; at = end_of_shard(s, at, shard_bytes))
        count++;
    return count;
}

static kvs_status write_in(const char *dir, const char *name, stream *s, size_t first, size_t end,
                           kvs_err *err)
{
    char *path = kvsi_path_join(dir, name);
    const kvs_status st =
        path ? write_part(s, path, first, end, err) : kvsi_no_memory(err, "'%s'", dir);

    kvsi_free(path);
    return st;
}

/* Takes over the reference to `places`. */
static kvs_status write_index(const char *dir, json_t *places, const stream *s, kvs_err *err)
{
    uint64_t bytes = 0, numbers = 0;
    char *path = kvsi_path_join(dir, "model.safetensors.index.json");
    json_t *index;
    kvs_status st;

    for (size_t i = 0; i < s->source->count; i++) {
        bytes += kvsi_file_tensor_bytes(&s->tensors[i]);
        numbers += kvsi_file_tensor_count(&s->tensors[i]);
    }
    index = json_pack("{s:{s:I, s:I}, s:o}", "metadata", "total_size", (json_int_t)bytes,
                      "total_parameters", (json_int_t)numbers, "weight_map", places);
    st = index && path ? kvsi_json_write(index, path, err)
                       : kvsi_no_memory(err, "the index in '%s'", dir);
    json_decref(index);
    kvsi_free(path);
    return st;
}

static kvs_status write_shards(const char *dir, stream *s, uint64_t shard_bytes, size_t shards,
                               kvs_err *err)
{
    json_t *places = json_object();
    size_t first = 0;
    kvs_status st = KVS_OK;

    for (size_t n = 1; n <= shards && st == KVS_OK; n++) {
        const size_t end = end_of_shard(s, first, shard_bytes);
        char name[64];

        snprintf(name, sizeof name, "model-%05zu-of-%05zu.safetensors", n, shards);
        st = write_in(dir, name, s, first, end, err);
        for (; first < end; first++)
            if (json_object_set_new(places, s->tensors[first].name, json_string(name)) != 0)
                st = kvsi_no_memory(err, "the index in '%s'", dir);
    }
    if (st == KVS_OK)
        return write_index(dir, places, s, err);
    json_decref(places);
    return st;
}

kvs_status kvsi_safetensors_write_shards(const char *dir, const kvsi_tensor_source *source,
                                         uint64_t shard_bytes, kvs_err *err)
{
    size_t shards;
    kvs_status st;
    stream s;

    TRY_OUT(stream_init(&s, source, err));
    shards = count_shards(&s, shard_bytes);
    if (shards > SHARDS_MAX)
        st = kvsi_fail(err, KVS_E_LIMIT,
                       "shards of %llu bytes would make %zu files, expected at most %d",
                       (unsigned long long)shard_bytes, shards, (int)SHARDS_MAX);
    else if (shards <= 1)
        st = write_in(dir, "model.safetensors", &s, 0, source->count, err);
    else
        st = write_shards(dir, &s, shard_bytes, shards, err);
out:
    stream_release(&s);
    return st;
}
