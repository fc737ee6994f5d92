#include "train/moments.h"

#include "base/memory.h"
#include "train/optimizer.h"

#include <string.h>

enum { MOMENTS = 2, PART = 1 << 18 }; /* values per broadcast */

static const kvsi_dtype REAL_DTYPE = sizeof(real) == sizeof(float) ? KVSI_F32 : KVSI_F64;
static const char *const names[MOMENTS] = {"mean", "square"};

/* Values of a moment in the file: of the parameters that have moments, in the layout's order. */
static size_t count_of(const kvsi_training_state *s)
{
    return kvsi_layout_total(&s->model->layout) - s->trained_from;
}

/* The index of this rank's first moment in the storage of all parameters. */
static size_t start_of(const kvsi_training_state *s)
{
    return kvsi_moment_start(s->layout, s->moments_sharded, s->trained_from);
}

/* ---- writing: bucket by bucket ---- */

typedef struct writer {
    const kvsi_training_state *state;
    real *gathered, *host; /* one bucket each, in backend and host memory */
} writer;

/* *values = all of a bucket of one moment; collective if moments are sharded. */
static kvs_status gather_bucket(const writer *w, size_t moment, const kvsi_bucket *b,
                                const real **values, kvs_err *err)
{
    const kvsi_training_state *s = w->state;
    const real *own = (moment == 0 ? s->mean : s->square) +
                      kvsi_bucket_index(s->layout, b, s->moments_sharded,
                                        kvsi_bucket_stored(s->layout, b, s->moments_sharded).from) -
                      start_of(s);

    *values = own;
    if (!s->moments_sharded || b->group != KVSI_MATRICES)
        return KVS_OK;
    *values = w->gathered;
    return kvsi_bucket_all_gather(w->gathered, own, s->layout, b, s->model->comm, err);
}

/* One moment; file NULL = another rank writes. */
static kvs_status write_moment(const void *self, size_t index, kvsi_new_file *file, kvs_err *err)
{
    const writer *w = self;
    const kvsi_shard_layout *layout = w->state->layout;
    kvsi_context c = w->state->model->context;

    for (size_t b = 0; b < layout->buckets; b++) {
        const size_t bytes = layout->bucket[b].all.count * sizeof(real);
        const real *values = NULL;

        if (layout->bucket[b].all.from < w->state->trained_from)
            continue;
        TRY(gather_bucket(w, index, &layout->bucket[b], &values, err));
        if (!file)
            continue;
        c.ops->download(&c, w->host, values, bytes);
        TRY(kvsi_sync(&c, err));
        TRY(kvsi_new_file_write(file, w->host, bytes, err));
    }
    return KVS_OK;
}

kvs_status kvsi_moments_write(const char *path, const kvsi_training_state *state, kvs_err *err)
{
    const size_t largest = state->layout->largest_bucket;
    const kvsi_context *c = &state->model->context;
    const size_t count = count_of(state);
    kvsi_file_tensor tensors[MOMENTS];
    writer w = {.state = state,
                .gathered = c->ops->alloc(c, largest * sizeof *w.gathered),
                .host = kvsi_alloc(largest, sizeof *w.host)};
    kvs_status st = KVS_OK;

    for (size_t i = 0; i < MOMENTS; i++)
        tensors[i] =
            (kvsi_file_tensor){.name = names[i], .dtype = REAL_DTYPE, .rank = 1, .shape = {count}};
    if (!w.gathered || !w.host)
        st = kvsi_no_memory(err, "moments");
    else if (path)
        st = kvsi_safetensors_write_parts(path, tensors, MOMENTS, write_moment, &w, err);
    for (size_t i = 0; st == KVS_OK && !path && i < MOMENTS; i++)
        st = write_moment(&w, i, NULL, err);
    c->ops->release(c, w.gathered);
    kvsi_free(w.host);
    return st;
}

/* ---- reading ---- */

kvs_status kvsi_moments_check(const kvsi_safetensors *file, const kvsi_training_state *state,
                              const char *path, kvs_err *err)
{
    const size_t count = count_of(state);

    for (size_t i = 0; i < MOMENTS; i++) {
        const kvsi_file_tensor *t = kvsi_safetensors_find(file, names[i]);

        if (!t || t->dtype != REAL_DTYPE || kvsi_file_tensor_count(t) != count)
            return kvsi_fail(err, KVS_E_FORMAT, "'%s' has no tensor '%s' of %zu values", path,
                             names[i], count);
    }
    return KVS_OK;
}

/* Stores what this rank has of a range of a moment. */
static void store(const kvsi_training_state *s, real *moment, kvsi_range range, const real *values)
{
    const size_t start = start_of(s);
    kvsi_context c = s->model->context;

    if (!s->moments_sharded)
        c.ops->upload(&c, moment + (range.from - start), values, range.count * sizeof *values);
    for (size_t b = 0; s->moments_sharded && b < s->layout->buckets; b++) {
        const kvsi_overlap own = kvsi_shard_overlap(s->layout, &s->layout->bucket[b], range);

        if (own.count > 0)
            c.ops->upload(&c, moment + (own.at - start), values + own.from,
                          own.count * sizeof *values);
    }
    c.ops->sync(&c);
}

kvs_status kvsi_moments_read(const kvsi_training_state *state, const kvsi_safetensors *file,
                             kvs_err *err)
{
    const size_t count = count_of(state);
    real *const moments[MOMENTS] = {state->mean, state->square};
    real *part = kvsi_alloc(PART, sizeof *part);
    kvs_status st = KVS_OK;

    if (!part)
        return kvsi_no_memory(err, "moments");
    for (size_t i = 0; i < MOMENTS; i++) {
        const unsigned char *bytes = file ? kvsi_safetensors_find(file, names[i])->data : NULL;

        for (size_t at = 0; at < count; at += PART) {
            const size_t n = count - at < PART ? count - at : PART;

            if (bytes)
                memcpy(part, bytes + at * sizeof *part, n * sizeof *part);
            TRY_OUT(kvsi_comm_broadcast(state->model->comm, part, n * sizeof *part, 0, err));
            store(state, moments[i], (kvsi_range){state->trained_from + at, n}, part);
        }
    }
out:
    kvsi_free(part);
    return st;
}
