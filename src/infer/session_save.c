/* Saving a session: everything is downloaded, summed, and written. */
#include "base/json.h"
#include "base/memory.h"
#include "formats/hf.h"
#include "formats/safetensors.h"
#include "infer/session_file.h"

#include <stdlib.h>
#include <string.h>

static size_t part_bytes(const kvsi_state_part *part)
{
    return part->strips * part->strip;
}

static kvs_status download_part(kvsi_context c, unsigned char *out, const kvsi_state_part *part,
                                kvs_err *err)
{
    for (size_t s = 0; s < part->strips; s++)
        c.ops->download(&c, out + s * part->strip, part->data + s * part->stride, part->strip);
    return kvsi_sync(&c, err);
}

/* The JSON text of the first tensor (kvsi_free). */
static kvs_status describe(char **out, const kvs_session *s, const char *checksum, kvs_err *err)
{
    const kvsi_state *state = &s->state;
    char weights[KVSI_CHECKSUM_TEXT];
    json_t *about = NULL;
    char *text = NULL;
    kvs_status st;

    TRY_OUT(kvsi_session_weights(weights, state->model, err));
    about = json_pack(
        "{s:s, s:i, s:s, s:I, s:I, s:I, s:I, s:s, s:s, s:o}", "format", KVSI_SESSION_FORMAT,
        "version", KVSI_SESSION_VERSION, "cache", kvsi_dtype_name(state->cache), "length",
        (json_int_t)state->length, "capacity", (json_int_t)state->capacity, "sliding_first",
        (json_int_t)state->sliding_first, "last_of_many", (json_int_t)(state->last_of_many != 0),
        "checksum", checksum, "weights", weights, "config", kvsi_hf_config_to_json(state->config));
    TRY_OUT(kvsi_json_dump(&text, about, JSON_COMPACT, "the description of a session", err));
    *out = kvsi_strdup(text);
    if (!*out)
        st = kvsi_fail(err, KVS_E_NOMEM, "out of memory for the description of a session");
out:
    free(text);
    json_decref(about);
    return st;
}

/* The tensors of the file, in host memory. */
typedef struct image {
    size_t count;
    kvsi_state_part *parts;    /* [count - KVSI_SESSION_OTHERS]; they hold the names */
    kvsi_file_tensor *tensors; /* [count] */
    unsigned char *values;     /* the contents of all parts */
    char *about;
} image;

static void release_image(image *m)
{
    kvsi_free(m->parts);
    kvsi_free(m->tensors);
    kvsi_free(m->values);
    kvsi_free(m->about);
}

static kvs_status allocate_image(image *m, const kvs_session *s, kvs_err *err)
{
    const size_t parts = kvsi_session_parts(NULL, 0, &s->state);
    size_t bytes = 0;

    m->count = parts + KVSI_SESSION_OTHERS;
    m->tensors = kvsi_alloc(m->count, sizeof *m->tensors);
    m->parts = kvsi_alloc(parts, sizeof *m->parts);
    if (m->parts) {
        kvsi_session_parts(m->parts, parts, &s->state);
        for (size_t i = 0; i < parts; i++)
            bytes += part_bytes(&m->parts[i]);
        m->values = kvsi_alloc(bytes, 1);
    }
    if (!m->tensors || !m->parts || !m->values)
        return kvsi_fail(err, KVS_E_NOMEM, "out of memory to save a session of %zu MiB",
                         bytes >> 20);
    return KVS_OK;
}

static kvs_status fill_image(image *m, const kvs_session *s, kvs_err *err)
{
    char checksum[KVSI_CHECKSUM_TEXT];
    unsigned char *at = m->values;

    m->tensors[1] = kvsi_session_ids_tensor(s->ids, s->state.length);
    for (size_t i = 0; i + KVSI_SESSION_OTHERS < m->count; i++) {
        TRY(download_part(s->state.model->context, at, &m->parts[i], err));
        m->tensors[KVSI_SESSION_OTHERS + i] = kvsi_session_part_tensor(&m->parts[i], at);
        at += part_bytes(&m->parts[i]);
    }
    TRY(kvsi_session_checksum(checksum, m->tensors, m->count, err));
    TRY(describe(&m->about, s, checksum, err));
    m->tensors[0] = (kvsi_file_tensor){.name = "session",
                                       .dtype = KVSI_U8,
                                       .rank = 1,
                                       .shape = {strlen(m->about)},
                                       .data = m->about};
    return KVS_OK;
}

kvs_status kvs_session_save(const kvs_session *session, const char *path, kvs_err *err)
{
    image m = {0};
    kvs_status st;

    NEED(session);
    NEED(path);
    if (session->state.taps)
        return kvsi_fail(err, KVS_E_UNSUPPORTED, "a session with taps of its own cannot be saved");
    TRY_OUT(allocate_image(&m, session, err));
    TRY_OUT(fill_image(&m, session, err));
    st = kvsi_safetensors_write(path, m.tensors, m.count, err);
out:
    release_image(&m);
    return st;
}
