/* kvs_data_create_callback: data from a function of the caller.  Every sequence is checked before
 * it is used. */
#include "base/memory.h"
#include "base/sized.h"
#include "data/data.h"

#include <inttypes.h>
#include <string.h>

typedef struct callback_data {
    kvs_data base;
    kvs_data_source source;
    char *name; /* a copy of the caller's name; source.name points to it too */
} callback_data;

/* ---- drawing --------------------------------------------------------------------------------- */

static const char *stream_name(kvs_stream stream)
{
    return stream == KVS_STREAM_EVAL ? "evaluation" : "training";
}

static kvs_status check_values(const callback_data *data, kvs_stream stream, uint64_t index,
                               const char *what, const int32_t *values, size_t length,
                               int32_t lowest, kvs_err *err)
{
    for (size_t i = 0; i < length; i++)
        if (values[i] < lowest || (values[i] >= 0 && (size_t)values[i] >= data->base.vocab))
            return kvsi_fail(err, KVS_E_INVALID,
                             "'%s': %s sequence %" PRIu64
                             " has %s %d at position %zu, expected %d to %zu",
                             data->name, stream_name(stream), index, what, (int)values[i], i,
                             (int)lowest, data->base.vocab - 1);
    return KVS_OK;
}

static kvs_status draw(size_t *length, const kvs_data *base, kvsi_random *random, int32_t *ids,
                       int32_t *targets, uint8_t *scored, kvs_err *err)
{
    const callback_data *data = (const callback_data *)base;
    const kvs_stream stream =
        random->purpose == KVSI_RANDOM_EVAL ? KVS_STREAM_EVAL : KVS_STREAM_TRAIN;
    const size_t most = base->max_tokens;
    size_t found;

    *length = 0;
    /* Rows that the function does not write have an invalid id and no target. */
    memset(ids, -1, most * sizeof *ids);
    memset(targets, -1, most * sizeof *targets);
    memset(scored, 0, most);
    found = data->source.sequence(data->source.user, random->seed, stream, random->index, ids,
                                  targets, scored);
    if (found == 0)
        return kvsi_fail(err, KVS_E_STOPPED, "'%s' stopped at %s sequence %" PRIu64, data->name,
                         stream_name(stream), random->index);
    if (found > most)
        return kvsi_fail(err, KVS_E_INVALID,
                         "'%s': %s sequence %" PRIu64 " has %zu tokens, expected at most %zu",
                         data->name, stream_name(stream), random->index, found, most);
    TRY(check_values(data, stream, random->index, "id", ids, found, 0, err));
    TRY(check_values(data, stream, random->index, "target", targets, found, -1, err));
    *length = found;
    return KVS_OK;
}

/* ---- the handle ------------------------------------------------------------------------------ */

static json_t *describe(const kvs_data *base)
{
    const callback_data *data = (const callback_data *)base;

    return json_pack("{s:o, s:I, s:I, s:f}", "name", kvsi_json_path(data->name), "vocab",
                     (json_int_t)base->vocab, "max_length", (json_int_t)base->max_tokens,
                     "mean_length", base->mean_tokens);
}

static void release(kvs_data *base)
{
    callback_data *data = (callback_data *)base;

    kvsi_free(data->name);
    kvsi_free(data);
}

static const kvsi_data_ops callback_ops = {
    .name = "callback", .draw = draw, .describe = describe, .release = release};

static kvs_status check_source(const kvs_data_source *s, kvs_err *err)
{
    const size_t most = INT32_MAX;

    if (!s->sequence)
        return kvsi_fail(err, KVS_E_INVALID, "sequence is NULL");
    if (s->vocab < 1 || s->vocab > most + 1)
        return kvsi_fail(err, KVS_E_INVALID, "vocab is %zu, expected 1 to %zu", s->vocab, most + 1);
    if (s->max_length < 1 || s->max_length > most)
        return kvsi_fail(err, KVS_E_INVALID, "max_length is %zu, expected 1 to %zu", s->max_length,
                         most);
    if (!(s->mean_length >= 0 && s->mean_length <= (double)s->max_length))
        return kvsi_fail(err, KVS_E_INVALID, "mean_length is %g, expected 0 to max_length %zu",
                         s->mean_length, s->max_length);
    return KVS_OK;
}

void kvs_data_source_init(kvs_data_source *source, size_t size)
{
    const kvs_data_source defaults = {.size = sizeof defaults};

    kvsi_sized_init(source, size, &defaults, sizeof defaults);
}

kvs_status kvs_data_create_callback(kvs_data **out, const kvs_data_source *source, kvs_err *err)
{
    kvs_data_source s;
    callback_data *data;

    NEED(out);
    *out = NULL;
    NEED(source);
    kvs_data_source_init(&s, sizeof s);
    TRY(kvsi_sized_read(&s, sizeof s, source, "kvs_data_source", err));
    TRY(check_source(&s, err));
    data = kvsi_alloc(1, sizeof *data);
    if (!data)
        return kvsi_no_memory(err, "data");
    data->base = (kvs_data){.ops = &callback_ops,
                            .vocab = s.vocab,
                            .max_tokens = s.max_length,
                            .mean_tokens = s.mean_length > 0 ? s.mean_length : (double)s.max_length,
                            .may_fail = 1};
    data->source = s;
    data->name = kvsi_strdup(s.name ? s.name : callback_ops.name);
    if (!data->name) {
        release(&data->base);
        return kvsi_no_memory(err, "data");
    }
    data->source.name = data->name;
    *out = &data->base;
    return KVS_OK;
}
