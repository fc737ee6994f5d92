#include "train/fetch.h"

#include "base/memory.h"

enum { PLACES = 2, NONE = -1 };

/* Where a unit is while it is used. */
typedef struct place {
    real *numbers;
    ptrdiff_t unit;
} place;

struct kvsi_fetch {
    kvsi_team *team;
    kvsi_transfer *coming; /* [share.buckets] */
    int *is_coming;
    place places[PLACES];
    size_t current;   /* the place in use */
    size_t at, units; /* of those that the pass wants: how many came, and how many there are */
};

/* ---- memory ---- */

uint64_t kvsi_fetch_bytes(const kvsi_share *share, kvs_shard shard)
{
    return shard == KVS_SHARD_PARAMETERS ? PLACES * share->largest_unit * sizeof(real) : 0;
}

kvs_status kvsi_fetch_create(kvsi_fetch **out, kvsi_team *team, kvs_err *err)
{
    const kvsi_share *share = team->share;
    const kvsi_context *c = &team->context;
    kvsi_fetch *f = kvsi_alloc(1, sizeof *f);
    int taken;

    *out = NULL;
    if (!f)
        return kvsi_fail(err, KVS_E_NOMEM, "out of memory for weights");
    *f = (kvsi_fetch){.team = team,
                      .coming = kvsi_alloc(share->buckets, sizeof *f->coming),
                      .is_coming = kvsi_alloc(share->buckets, sizeof *f->is_coming)};
    taken = f->coming && f->is_coming;
    for (size_t i = 0; taken && team->shard == KVS_SHARD_PARAMETERS && i < PLACES; i++) {
        f->places[i] = (place){c->ops->alloc(c, share->largest_unit * sizeof(real)), NONE};
        taken = f->places[i].numbers != NULL;
    }
    if (!taken) {
        kvsi_fetch_free(f);
        return kvsi_fail(err, KVS_E_NOMEM, "out of memory for layers of %zu MiB",
                         share->largest_unit * sizeof(real) >> 20);
    }
    *out = f;
    return KVS_OK;
}

void kvsi_fetch_free(kvsi_fetch *fetch)
{
    if (!fetch)
        return;
    for (size_t i = 0; i < PLACES; i++)
        fetch->team->context.ops->release(&fetch->team->context, fetch->places[i].numbers);
    kvsi_free(fetch->coming);
    kvsi_free(fetch->is_coming);
    kvsi_free(fetch);
}

/* ---- the order of a pass ---- */

static int has_head(const kvsi_fetch *f)
{
    return f->team->model->layout.head != KVSI_ABSENT;
}

void kvsi_fetch_pass(kvsi_fetch *fetch, int with_backward)
{
    const size_t layers = fetch->team->model->config.layers;

    fetch->at = 0;
    fetch->units = 1 + layers + (has_head(fetch) ? 1 : 0) + (with_backward ? layers : 0);
}

/* The embedding, the layers, the head, and the layers again from the last. */
static size_t unit_number(const kvsi_fetch *f, size_t i)
{
    const kvs_model_config *c = &f->team->model->config;
    const size_t forward = 1 + c->layers + (has_head(f) ? 1 : 0);

    if (i == 0)
        return KVSI_UNIT_EMBEDDING;
    if (i <= c->layers)
        return kvsi_unit_of_layer(i - 1);
    if (i < forward)
        return kvsi_unit_of_head(c);
    return kvsi_unit_of_layer(c->layers - 1 - (i - forward));
}

/* ---- units ---- */

static void wait_for_unit(kvsi_fetch *f, size_t unit)
{
    const kvsi_share *share = f->team->share;

    for (size_t b = share->first_bucket[unit]; b < share->first_bucket[unit + 1]; b++)
        if (f->is_coming[b]) {
            kvsi_team_wait(f->team, &f->coming[b]);
            f->is_coming[b] = 0;
        }
}

static ptrdiff_t find_place(const kvsi_fetch *f, size_t unit)
{
    for (size_t i = 0; i < PLACES; i++)
        if (f->places[i].unit == (ptrdiff_t)unit)
            return (ptrdiff_t)i;
    return NONE;
}

/* Sends for a unit, to the place that is not in use. */
static size_t send_for(kvsi_fetch *f, size_t unit)
{
    const kvsi_share *share = f->team->share;
    const real *own = f->team->model->parameters;
    const size_t there = (f->current + 1) % PLACES;
    place *p = &f->places[there];

    p->unit = (ptrdiff_t)unit;
    for (size_t b = share->first_bucket[unit]; b < share->first_bucket[unit + 1]; b++) {
        const kvsi_bucket *bucket = &share->bucket[b];

        kvsi_team_collect(f->team, &f->coming[b], b,
                          p->numbers + (bucket->all.from - share->unit[unit].from),
                          own + bucket->at);
        f->is_coming[b] = 1;
    }
    return there;
}

void kvsi_fetch_want(kvsi_fetch *fetch, size_t unit)
{
    ptrdiff_t found = NONE;

    if (fetch->team->shard == KVS_SHARD_PARAMETERS) {
        found = find_place(fetch, unit);
        fetch->current = found != NONE ? (size_t)found : send_for(fetch, unit);
    }
    wait_for_unit(fetch, unit);
    if (fetch->team->shard != KVS_SHARD_PARAMETERS)
        return;
    kvsi_model_place(fetch->team->model, unit, fetch->places[fetch->current].numbers);
    if (++fetch->at < fetch->units) {
        const size_t next = unit_number(fetch, fetch->at);

        if (find_place(fetch, next) == NONE)
            send_for(fetch, next);
    }
}

/* ---- updates ---- */

void kvsi_fetch_updated(kvsi_fetch *fetch, size_t bucket)
{
    const kvsi_bucket *b = kvsi_team_bucket(fetch->team, bucket);

    for (size_t i = 0; i < PLACES; i++)
        fetch->places[i].unit = NONE; /* what is there is old now */
    if (fetch->team->shard == KVS_SHARD_NONE || fetch->team->shard == KVS_SHARD_PARAMETERS ||
        fetch->team->comm->size == 1)
        return;
    kvsi_team_collect(fetch->team, &fetch->coming[bucket], bucket,
                      fetch->team->model->parameters + b->all.from, NULL);
    fetch->is_coming[bucket] = 1;
}

kvs_status kvsi_fetch_settle(kvsi_fetch *fetch, kvs_err *err)
{
    for (size_t unit = 0; unit < fetch->team->share->units; unit++)
        wait_for_unit(fetch, unit);
    return kvsi_team_check(fetch->team, err);
}
