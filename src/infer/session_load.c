/* Loading a session.  Files are not trusted: everything is checked before the session is handed
 * out. */
#include "base/json.h"
#include "base/memory.h"
#include "formats/hf.h"
#include "formats/safetensors.h"
#include "infer/session_file.h"

#include <string.h>

/* ---- whose session it is ---- */

enum { ABOUT_LIMIT = 1 << 20 };

typedef struct saved {
    const char *path;
    kvsi_safetensors *file;
    json_t *about;
    size_t length, capacity, sliding_first;
    size_t last_of_many; /* 0 or 1; 0 if the file does not have it */
    kvsi_dtype cache;
    const char *checksum, *weights; /* in `about` */
} saved;

/* Without a cache type the cache is real. */
static kvs_status read_cache(saved *f, kvs_err *err)
{
    static const kvsi_dtype types[] = {KVSI_REAL_TYPE, KVSI_F16, KVSI_Q8_0};
    const char *name = kvsi_dtype_name(KVSI_REAL_TYPE);

    TRY(kvsi_json_get_text(&name, f->about, "cache", f->path, err));
    for (size_t i = 0; i < sizeof types / sizeof *types; i++)
        if (strcmp(name, kvsi_dtype_name(types[i])) == 0) {
            f->cache = types[i];
            return KVS_OK;
        }
    return kvsi_fail(err, KVS_E_UNSUPPORTED, "'%s' has a cache of '%.20s', expected %s, %s or %s",
                     f->path, name, kvsi_dtype_name(types[0]), kvsi_dtype_name(types[1]),
                     kvsi_dtype_name(types[2]));
}

static kvs_status read_about(saved *f, kvs_err *err)
{
    const kvsi_file_tensor *text = kvsi_safetensors_find(f->file, "session");
    const char *format = "";
    size_t version = 0;

    if (!text || text->dtype != KVSI_U8 || kvsi_file_tensor_bytes(text) > ABOUT_LIMIT)
        return kvsi_fail(err, KVS_E_FORMAT, "'%s' is not a session", f->path);
    TRY(kvsi_json_parse(&f->about, text->data, kvsi_file_tensor_bytes(text), f->path, err));
    TRY(kvsi_json_get_text(&format, f->about, "format", f->path, err));
    TRY(kvsi_json_get_size(&version, f->about, "version", f->path, err));
    if (strcmp(format, KVSI_SESSION_FORMAT) != 0)
        return kvsi_fail(err, KVS_E_FORMAT, "'%s' is not a session: its format is '%.40s'", f->path,
                         format);
    if (version != KVSI_SESSION_VERSION)
        return kvsi_fail(err, KVS_E_UNSUPPORTED, "'%s' is a session of version %zu, expected %d",
                         f->path, version, KVSI_SESSION_VERSION);
    f->checksum = f->weights = "";
    TRY(read_cache(f, err));
    TRY(kvsi_json_get_size(&f->length, f->about, "length", f->path, err));
    TRY(kvsi_json_get_size(&f->capacity, f->about, "capacity", f->path, err));
    TRY(kvsi_json_get_size(&f->sliding_first, f->about, "sliding_first", f->path, err));
    TRY(kvsi_json_get_size(&f->last_of_many, f->about, "last_of_many", f->path, err));
    TRY(kvsi_json_get_text(&f->checksum, f->about, "checksum", f->path, err));
    return kvsi_json_get_text(&f->weights, f->about, "weights", f->path, err);
}

/* A JSON value as text for messages, truncated. */
static void show_value(char *out, size_t size, const json_t *value)
{
    memset(out, 0, size); /* zero-terminated if truncated */
    if (value)
        json_dumpb(value, out, size - 1, JSON_COMPACT | JSON_ENCODE_ANY);
    else
        memcpy(out, "absent", sizeof "absent");
}

/* Fails with the first key whose value differs between the two objects, recursively. */
static kvs_status compare_keys(const saved *f, json_t *theirs, json_t *ours, kvs_err *err)
{
    const char *key;
    json_t *value;

    json_object_foreach(ours, key, value) {
        const json_t *other = json_object_get(theirs, key);
        char their_text[80], our_text[80];

        if (json_equal(other, value))
            continue;
        if (json_is_object(other) && json_is_object(value))
            return compare_keys(f, json_object_get(theirs, key), value, err);
        show_value(their_text, sizeof their_text, other);
        show_value(our_text, sizeof our_text, value);
        return kvsi_fail(err, KVS_E_INVALID,
                         "'%s' is a session of another model: its '%s' is %s, this one's is %s",
                         f->path, key, their_text, our_text);
    }
    json_object_foreach(theirs, key, value) {
        char text[80];

        show_value(text, sizeof text, value);
        if (!json_object_get(ours, key))
            return kvsi_fail(err, KVS_E_INVALID,
                             "'%s' is a session of another model: its '%.40s' is %s, this one's is "
                             "absent",
                             f->path, key, text);
    }
    return KVS_OK;
}

static kvs_status check_model(const saved *f, const kvs_model *model, kvs_err *err)
{
    json_t *config = kvsi_hf_config_to_json(&model->config);
    json_t *theirs = json_object_get(f->about, "config");
    char weights[KVSI_CHECKSUM_TEXT];
    kvs_status st;

    if (!config) {
        st = kvsi_fail(err, KVS_E_NOMEM, "out of memory to compare models");
        goto out;
    }
    if (!json_is_object(theirs)) {
        st = kvsi_fail(err, KVS_E_FORMAT, "'%s' does not say which model it belongs to", f->path);
        goto out;
    }
    TRY_OUT(compare_keys(f, theirs, config, err));
    TRY_OUT(kvsi_session_weights(weights, model, err));
    if (strcmp(weights, f->weights) != 0)
        st = kvsi_fail(err, KVS_E_INVALID,
                       "'%s' is a session of other weights: theirs have the sum '%.20s', this "
                       "model's '%s'",
                       f->path, f->weights, weights);
out:
    json_decref(config);
    return st;
}

/* ---- what it holds ---- */

/* Finds a tensor of the file and checks its type and shape. */
static kvs_status expect_tensor(const kvsi_file_tensor **out, const saved *f,
                                const kvsi_file_tensor *wanted, kvs_err *err)
{
    const kvsi_file_tensor *found = kvsi_safetensors_find(f->file, wanted->name);

    *out = found;
    if (!found)
        return kvsi_fail(err, KVS_E_FORMAT, "'%s' has no tensor '%s'", f->path, wanted->name);
    if (found->dtype != wanted->dtype)
        return kvsi_fail(err, KVS_E_FORMAT, "'%s': tensor '%s' has type %s, expected %s", f->path,
                         wanted->name, kvsi_dtype_name(found->dtype),
                         kvsi_dtype_name(wanted->dtype));
    if (found->rank != wanted->rank)
        return kvsi_fail(err, KVS_E_FORMAT, "'%s': tensor '%s' has %zu dimensions, expected %zu",
                         f->path, wanted->name, found->rank, wanted->rank);
    for (size_t i = 0; i < wanted->rank; i++)
        if (found->shape[i] != wanted->shape[i])
            return kvsi_fail(err, KVS_E_FORMAT,
                             "'%s': tensor '%s' has %zu in dimension %zu, expected %zu", f->path,
                             wanted->name, found->shape[i], i, wanted->shape[i]);
    return KVS_OK;
}

static kvs_status read_ids(kvs_session *s, const kvsi_file_tensor *ids, const saved *f,
                           kvs_err *err)
{
    const size_t vocab = s->state.config->vocab;

    if (f->length > 0)
        memcpy(s->ids, ids->data, f->length * sizeof *s->ids);
    for (size_t i = 0; i < f->length; i++)
        if (s->ids[i] < 0 || (size_t)s->ids[i] >= vocab)
            return kvsi_fail(err, KVS_E_FORMAT, "'%s': token %zu is id %d, expected 0 to %zu",
                             f->path, i, (int)s->ids[i], vocab - 1);
    return KVS_OK;
}

static void upload_part(kvsi_context c, const kvsi_state_part *part, const void *data)
{
    const unsigned char *bytes = data;

    for (size_t s = 0; s < part->strips; s++)
        c.ops->upload(&c, part->data + s * part->stride, bytes + s * part->strip, part->strip);
}

static kvs_status read_tensors(kvs_session *s, const saved *f, kvs_err *err)
{
    const size_t count = kvsi_session_parts(NULL, 0, &s->state) + KVSI_SESSION_OTHERS;
    kvsi_file_tensor *tensors = kvsi_alloc(count, sizeof *tensors);
    const kvsi_file_tensor wanted_ids = kvsi_session_ids_tensor(NULL, f->length), *found;
    char checksum[KVSI_CHECKSUM_TEXT];
    kvsi_state_part part;
    size_t at = KVSI_SESSION_OTHERS;
    kvs_status st;

    if (!tensors) {
        st = kvsi_fail(err, KVS_E_NOMEM, "out of memory to load '%s'", f->path);
        goto out;
    }
    if (kvsi_safetensors_count(f->file) != count) {
        st = kvsi_fail(err, KVS_E_FORMAT, "'%s' has %zu tensors, expected %zu", f->path,
                       kvsi_safetensors_count(f->file), count);
        goto out;
    }
    TRY_OUT(expect_tensor(&found, f, &wanted_ids, err));
    tensors[1] = *found;
    TRY_OUT(read_ids(s, found, f, err));
    for (size_t i = 0; kvsi_state_part_at(&part, &s->state, i); i++)
        if (part.data) {
            const kvsi_file_tensor wanted = kvsi_session_part_tensor(&part, NULL);

            TRY_OUT(expect_tensor(&found, f, &wanted, err));
            tensors[at++] = *found;
            upload_part(s->state.model->context, &part, found->data);
        }
    TRY_OUT(kvsi_session_checksum(checksum, tensors, count, err));
    if (strcmp(checksum, f->checksum) != 0)
        st = kvsi_fail(err, KVS_E_FORMAT, "'%s' is damaged: its sum is '%s', expected '%.20s'",
                       f->path, checksum, f->checksum);
out:
    kvsi_free(tensors);
    return st;
}

kvs_status kvs_session_load(kvs_session **out, const kvs_model *model, const char *path,
                            const kvs_session_options *options, kvs_err *err)
{
    kvs_session_options o;
    saved f = {.path = path};
    kvs_session *s = NULL;
    kvs_status st;

    NEED(out);
    *out = NULL;
    NEED(model);
    NEED(path);
    TRY(kvsi_session_read_options(&o, model, options, err));
    TRY_OUT(kvsi_safetensors_open(&f.file, path, err));
    TRY_OUT(read_about(&f, err));
    TRY_OUT(check_model(&f, model, err));
    TRY_OUT(kvsi_session_check_cache(&o, f.cache, err));
    TRY_OUT(kvsi_session_create(&s, model, o.runner, o.capacity > 0 ? o.capacity : f.capacity,
                                f.cache, err));
    if (f.length > s->state.capacity) {
        st = kvsi_fail(err, KVS_E_LIMIT, "'%s' has %zu tokens, the session is for %zu", path,
                       f.length, s->state.capacity);
        goto out;
    }
    if (!kvsi_state_claim(&s->state, f.length, f.sliding_first)) {
        st = kvsi_fail(err, KVS_E_FORMAT,
                       "'%s' claims to hold tokens %zu to %zu, which no session of %zu does", path,
                       f.sliding_first, f.length, s->state.capacity);
        goto out;
    }
    s->state.last_of_many = f.last_of_many != 0;
    TRY_OUT(read_tensors(s, &f, err));
    *out = s;
    s = NULL;
out:
    kvs_session_free(s);
    json_decref(f.about);
    kvsi_safetensors_close(f.file);
    return st;
}
