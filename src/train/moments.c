#include "train/moments.h"

#include "base/memory.h"

#include <string.h>

enum { MOMENTS = 2, CHUNK = 1 << 18 }; /* numbers that are handed out at once */

static const kvsi_dtype REAL_DTYPE = sizeof(real) == sizeof(float) ? KVSI_F32 : KVSI_F64;
static const char *const names[MOMENTS] = {"mean", "square"};

/* ---- writing ---- */

/* One bucket after the other passes through here. */
typedef struct passage {
    const kvsi_training_state *state;
    real *scratch, *host; /* room for a bucket, on the backend's side and on ours */
} passage;

static const real *moment_of(const kvsi_training_state *s, size_t index)
{
    return index == 0 ? s->mean : s->square;
}

/* Where all of a bucket is, once those who have pieces of it have sent them. */
static kvs_status bring(const passage *p, size_t moment, size_t bucket, const real **numbers,
                        kvs_err *err)
{
    kvsi_team *t = p->state->team;
    const kvsi_bucket *b = kvsi_team_bucket(t, bucket);
    const real *own = moment_of(p->state, moment);
    kvsi_transfer transfer = {0};

    if (t->shard == KVS_SHARD_NONE || b->group != KVSI_MATRICES) {
        *numbers = own + (t->shard == KVS_SHARD_NONE ? b->all.from : b->at);
        return KVS_OK;
    }
    kvsi_team_collect(t, &transfer, bucket, p->scratch, own + b->at);
    kvsi_team_wait(t, &transfer);
    *numbers = p->scratch;
    return kvsi_team_check(t, err);
}

static kvs_status put(const void *self, size_t index, kvsi_new_file *file, kvs_err *err)
{
    const passage *p = self;
    const kvsi_share *share = p->state->team->share;
    kvsi_context c = p->state->team->context;
    kvs_status st = KVS_OK;

    for (size_t b = 0; st == KVS_OK && b < share->buckets; b++) {
        const size_t bytes = share->bucket[b].all.count * sizeof(real);
        const real *numbers = NULL;

        st = bring(p, index, b, &numbers, err);
        if (st != KVS_OK || !file)
            continue;
        c.ops->download(&c, p->host, numbers, bytes);
        st = kvsi_sync(&c, err);
        if (st == KVS_OK)
            st = kvsi_new_file_write(file, p->host, bytes, err);
    }
    return st;
}

kvs_status kvsi_moments_write(const char *path, const kvsi_training_state *state, kvs_err *err)
{
    const kvsi_share *share = state->team->share;
    const kvsi_context *c = &state->team->context;
    const size_t count = kvsi_layout_total(&state->model->layout);
    kvsi_file_tensor tensors[MOMENTS];
    passage p = {.state = state,
                 .scratch = c->ops->alloc(c, share->largest_bucket * sizeof *p.scratch),
                 .host = kvsi_alloc(share->largest_bucket, sizeof *p.host)};
    kvs_status st = KVS_OK;

    for (size_t i = 0; i < MOMENTS; i++)
        tensors[i] =
            (kvsi_file_tensor){.name = names[i], .dtype = REAL_DTYPE, .rank = 1, .shape = {count}};
    if (!p.scratch || !p.host)
        st = kvsi_fail(err, KVS_E_NOMEM, "out of memory for moments");
    else if (path)
        st = kvsi_safetensors_write_parts(path, tensors, MOMENTS, put, &p, err);
    for (size_t i = 0; st == KVS_OK && !path && i < MOMENTS; i++)
        st = put(&p, i, NULL, err);
    c->ops->release(c, p.scratch);
    kvsi_free(p.host);
    return st;
}

/* ---- reading ---- */

kvs_status kvsi_moments_check(const kvsi_safetensors *file, const kvsi_training_state *state,
                              const char *path, kvs_err *err)
{
    const size_t count = kvsi_layout_total(&state->model->layout);

    for (size_t i = 0; i < MOMENTS; i++) {
        const kvsi_file_tensor *t = kvsi_safetensors_find(file, names[i]);

        if (!t || t->dtype != REAL_DTYPE || kvsi_file_tensor_count(t) != count)
            return kvsi_fail(err, KVS_E_FORMAT, "'%s' has no tensor '%s' of %zu numbers", path,
                             names[i], count);
    }
    return KVS_OK;
}

/* A part of a moment that all ranks have received: each keeps what is its own. */
static void keep(kvsi_team *t, real *moment, kvsi_range range, const real *numbers)
{
    kvsi_context *c = &t->context;

    if (t->shard == KVS_SHARD_NONE)
        c->ops->upload(c, moment + range.from, numbers, range.count * sizeof *numbers);
    for (size_t b = 0; t->shard != KVS_SHARD_NONE && b < t->share->buckets; b++) {
        const kvsi_overlap own = kvsi_share_overlap(t->share, &t->share->bucket[b], range);

        if (own.count > 0)
            c->ops->upload(c, moment + own.at, numbers + own.from, own.count * sizeof *numbers);
    }
    c->ops->sync(c);
}

kvs_status kvsi_moments_read(const kvsi_training_state *state, const kvsi_safetensors *file,
                             kvs_err *err)
{
    const size_t count = kvsi_layout_total(&state->model->layout);
    real *const moments[MOMENTS] = {state->mean, state->square};
    real *chunk = kvsi_alloc(CHUNK, sizeof *chunk);
    kvs_status st = KVS_OK;

    if (!chunk)
        return kvsi_fail(err, KVS_E_NOMEM, "out of memory for moments");
    for (size_t i = 0; i < MOMENTS; i++) {
        const unsigned char *bytes = file ? kvsi_safetensors_find(file, names[i])->data : NULL;

        for (size_t at = 0; at < count; at += CHUNK) {
            const size_t n = count - at < CHUNK ? count - at : CHUNK;

            if (bytes)
                memcpy(chunk, bytes + at * sizeof *chunk, n * sizeof *chunk);
            TRY_OUT(kvsi_comm_broadcast(state->team->comm, chunk, n * sizeof *chunk, 0, err));
            keep(state->team, moments[i], (kvsi_range){at, n}, chunk);
        }
    }
out:
    kvsi_free(chunk);
    return st;
}
