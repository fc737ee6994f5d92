#include "train/gradients.h"

#include "base/memory.h"
#include "train/gradient_sizes.h"

enum { NONE = -1 };

/* Where the gradients of a unit are while a pass adds to them and until they are sent. */
typedef struct room {
    real *numbers;
    ptrdiff_t unit; /* NONE = free */
    size_t leaving; /* buckets that are not sent yet */
} room;

/* A bucket on its way to all ranks' sum. */
typedef struct journey {
    size_t bucket, slice;
    const real *from;
    ptrdiff_t room; /* that it leaves, or NONE */
    int returns;    /* all ranks want all of it */
    kvsi_transfer returning;
} journey;

struct kvsi_gradients {
    kvsi_team *team;
    int spread;
    kvsi_gradient_sizes sizes;
    real *slices[KVSI_SLICES]; /* one of each of the rank's slices; spread: small tensors alone */
    real *own[KVSI_SLICES];    /* spread: this rank's pieces of matrices; one, or one a slice */
    real *of_pass; /* as a slice, where a pass is kept apart; NULL = it adds to its slice */
    room rooms[KVSI_ROOMS_MAX]; /* spread */
    real **rows;                /* [ranks] scratch of add_up */

    size_t slice; /* of the pass */
    int is_last;

    /* Journeys in the order in which they began.  These count all there ever were:
     * returned <= received <= sent <= queued. */
    journey *journeys; /* a ring */
    size_t capacity, queued, sent, received, returned;
    real *inbox[KVSI_INBOXES_MAX]; /* of journey i: i % inboxes */
    kvsi_transfer arriving[KVSI_INBOXES_MAX];
};

/* ---- memory ---- */

/* Blocks of `size` numbers each; 0 = there was not enough memory. */
static int take_blocks(real **blocks, size_t count, size_t size, const kvsi_context *c)
{
    for (size_t i = 0; i < count; i++) {
        blocks[i] = c->ops->alloc(c, size * sizeof **blocks);
        if (!blocks[i])
            return 0;
    }
    return 1;
}

static int take_memory(kvsi_gradients *g, const kvsi_gradient_sizes *s)
{
    const kvsi_context *c = &g->team->context;
    int taken = take_blocks(g->slices, s->slices, s->slice, c) &&
                take_blocks(g->own, s->owns, s->own, c) &&
                take_blocks(&g->of_pass, s->of_pass > 0, s->of_pass, c) &&
                take_blocks(g->inbox, s->inboxes, s->inbox, c);

    for (size_t i = 0; i < s->rooms && taken; i++) {
        g->rooms[i].unit = NONE;
        taken = take_blocks(&g->rooms[i].numbers, 1, s->room, c);
    }
    g->journeys = kvsi_alloc(g->capacity, sizeof *g->journeys);
    g->rows = kvsi_alloc(g->team->comm->size, sizeof *g->rows);
    return taken && g->journeys && g->rows;
}

kvs_status kvsi_gradients_create(kvsi_gradients **out, kvsi_team *team, kvs_err *err)
{
    const kvsi_gradient_sizes s =
        kvsi_gradient_sizes_of(team->share, &team->model->config, &team->train);
    kvsi_gradients *g = kvsi_alloc(1, sizeof *g);

    *out = NULL;
    if (!g)
        return kvsi_fail(err, KVS_E_NOMEM, "out of memory for gradients");
    *g = (kvsi_gradients){
        .team = team,
        .spread = kvsi_gradients_spread(&team->train),
        .sizes = s,
        .capacity = team->share->buckets,
    };
    if (!take_memory(g, &s)) {
        kvsi_gradients_free(g);
        return kvsi_fail(err, KVS_E_NOMEM, "out of memory for gradients of %zu MiB",
                         (size_t)(kvsi_gradient_bytes(&s) >> 20));
    }
    *out = g;
    return KVS_OK;
}

void kvsi_gradients_free(kvsi_gradients *gradients)
{
    const kvsi_context *c;

    if (!gradients)
        return;
    c = &gradients->team->context;
    for (size_t i = 0; i < KVSI_SLICES; i++) {
        c->ops->release(c, gradients->slices[i]);
        c->ops->release(c, gradients->own[i]);
    }
    c->ops->release(c, gradients->of_pass);
    for (size_t i = 0; i < KVSI_INBOXES_MAX; i++)
        c->ops->release(c, gradients->inbox[i]);
    for (size_t i = 0; i < gradients->sizes.rooms; i++)
        c->ops->release(c, gradients->rooms[i].numbers);
    kvsi_free(gradients->journeys);
    kvsi_free(gradients->rows);
    kvsi_free(gradients);
}

/* ---- adding up ---- */

/* rows[0] = ((0 + 1) + (2 + 3)) + ...; the others are used up. */
static void add_tree(kvsi_context *c, real **rows, size_t count, size_t numbers)
{
    for (size_t step = 1; step < count; step *= 2)
        for (size_t i = 0; i + step < count; i += 2 * step)
            c->ops->add(c, rows[i], rows[i + step], numbers);
}

real *kvsi_gradients_sum(const kvsi_gradients *gradients, const kvsi_bucket *bucket, size_t offset)
{
    const kvsi_share *share = gradients->team->share;

    if (!gradients->spread)
        return gradients->slices[0] + offset;
    if (bucket->group != KVSI_MATRICES)
        return gradients->slices[0] + (offset - share->small_from);
    return gradients->own[0] + bucket->at + (offset - kvsi_bucket_piece(share, bucket).from);
}

const real *kvsi_gradients_known(const kvsi_gradients *gradients, size_t offset, size_t *count)
{
    const kvsi_share *share = gradients->team->share;
    const kvsi_bucket *b = share->bucket;
    kvsi_range known;

    while (offset >= b->all.from + b->all.count)
        b++;
    known = gradients->spread && b->group == KVSI_MATRICES ? kvsi_bucket_piece(share, b) : b->all;
    if (offset >= known.from && offset < known.from + known.count) {
        *count = known.from + known.count - offset;
        return kvsi_gradients_sum(gradients, b, offset);
    }
    *count = (offset < known.from ? known.from : b->all.from + b->all.count) - offset;
    return NULL;
}

/* What has arrived from every rank goes where it is kept. */
static void add_up(kvsi_gradients *g, const journey *j, real *arrived)
{
    kvsi_team *t = g->team;
    const kvsi_bucket *b = kvsi_team_bucket(t, j->bucket);
    const kvsi_range piece = kvsi_bucket_piece(t->share, b);
    const int keeps_adding = g->spread && b->group == KVSI_MATRICES;
    kvsi_context *c = &t->context;

    for (size_t r = 0; r < t->comm->size; r++)
        g->rows[r] = arrived + r * piece.count;
    if (keeps_adding && t->deterministic) {
        for (size_t r = 0; r < t->comm->size; r++)
            c->ops->add(c, g->own[r * t->slices + j->slice] + b->at, g->rows[r], piece.count);
        return;
    }
    add_tree(c, g->rows, t->comm->size, piece.count);
    if (keeps_adding)
        c->ops->add(c, g->own[0] + b->at, arrived, piece.count);
    else
        c->ops->copy(c, kvsi_gradients_sum(g, b, piece.from), arrived,
                     piece.count * sizeof *arrived);
}

/* ---- journeys ---- */

static void send_next(kvsi_gradients *g)
{
    const journey *j = &g->journeys[g->sent % g->capacity];
    const size_t at = g->sent++ % g->sizes.inboxes;

    kvsi_team_scatter(g->team, &g->arriving[at], j->bucket, g->inbox[at], j->from);
}

/* The oldest that was sent has arrived. */
static void receive_next(kvsi_gradients *g)
{
    journey *j = &g->journeys[g->received % g->capacity];
    const kvsi_bucket *b = kvsi_team_bucket(g->team, j->bucket);

    add_up(g, j, g->inbox[g->received++ % g->sizes.inboxes]);
    if (j->room != NONE && --g->rooms[j->room].leaving == 0)
        g->rooms[j->room].unit = NONE;
    if (j->returns)
        kvsi_team_collect(g->team, &j->returning, j->bucket, kvsi_gradients_sum(g, b, b->all.from),
                          NULL);
}

void kvsi_gradients_move(kvsi_gradients *gradients)
{
    kvsi_gradients *g = gradients;
    int moved = 1;

    while (moved) {
        moved = 0;
        while (g->sent < g->queued && g->sent - g->received < g->sizes.inboxes)
            send_next(g);
        if (g->received < g->sent &&
            kvsi_team_test(g->team, &g->arriving[g->received % g->sizes.inboxes])) {
            receive_next(g);
            moved = 1;
        }
    }
    while (g->returned < g->received) {
        journey *j = &g->journeys[g->returned % g->capacity];

        if (j->returns && !kvsi_team_test(g->team, &j->returning))
            break;
        g->returned++;
    }
}

/* Waits until some transfer is one step further.  It must not block when one already is: the caller
 * may need nothing more, and the other ranks may wait for what the caller does next. */
static void wait_for_oldest(kvsi_gradients *g)
{
    const size_t before = g->received + g->returned;

    kvsi_gradients_move(g);
    if (g->received + g->returned != before)
        return;
    if (g->received < g->sent) {
        kvsi_team_wait(g->team, &g->arriving[g->received % g->sizes.inboxes]);
        receive_next(g);
    } else if (g->returned < g->received) {
        kvsi_team_wait(g->team, &g->journeys[g->returned++ % g->capacity].returning);
    }
}

static void set_out(kvsi_gradients *g, size_t bucket, const real *from, ptrdiff_t leaves)
{
    const kvsi_team *t = g->team;
    const int is_matrix = kvsi_team_bucket(t, bucket)->group == KVSI_MATRICES;

    while (g->queued - g->returned == g->capacity)
        wait_for_oldest(g);
    g->journeys[g->queued++ % g->capacity] = (journey){
        .bucket = bucket,
        .slice = g->slice,
        .from = from,
        .room = leaves,
        .returns = !is_matrix || t->shard == KVS_SHARD_NONE,
    };
}

/* ---- what passes do ---- */

real *kvsi_gradients_block(const kvsi_gradients *gradients)
{
    return gradients->of_pass ? gradients->of_pass : gradients->slices[gradients->slice];
}

int kvsi_gradients_are_spread(const kvsi_gradients *gradients)
{
    return gradients->spread;
}

void kvsi_gradients_pass(kvsi_gradients *gradients, size_t slice, int is_last)
{
    kvsi_context *c = &gradients->team->context;

    gradients->slice = slice;
    gradients->is_last = is_last;
    if (gradients->of_pass)
        c->ops->zero(c, gradients->of_pass, gradients->sizes.slice * sizeof(real));
}

void kvsi_gradients_passed(kvsi_gradients *gradients)
{
    kvsi_context *c = &gradients->team->context;

    if (gradients->of_pass)
        c->ops->add(c, gradients->slices[gradients->slice], gradients->of_pass,
                    gradients->sizes.slice);
}

/* The room where a pass adds to a unit's gradients. */
static ptrdiff_t find_room(const kvsi_gradients *g, ptrdiff_t unit)
{
    for (size_t i = 0; i < g->sizes.rooms; i++)
        if (g->rooms[i].unit == unit && g->rooms[i].leaving == 0)
            return (ptrdiff_t)i;
    return NONE;
}

void kvsi_gradients_want(kvsi_gradients *gradients, size_t unit)
{
    kvsi_gradients *g = gradients;
    kvsi_context *c = &g->team->context;
    ptrdiff_t free_room;

    if (!g->spread || find_room(g, (ptrdiff_t)unit) != NONE)
        return;
    while ((free_room = find_room(g, NONE)) == NONE)
        wait_for_oldest(g);
    g->rooms[free_room].unit = (ptrdiff_t)unit;
    c->ops->zero(c, g->rooms[free_room].numbers, g->team->share->unit[unit].count * sizeof(real));
}

real *kvsi_gradients_at(kvsi_gradients *gradients, size_t offset)
{
    const kvsi_share *share = gradients->team->share;
    size_t unit;

    if (offset >= share->small_from)
        return kvsi_gradients_block(gradients) + (offset - share->small_from);
    unit = kvsi_unit_at(share, offset);
    return gradients->rooms[find_room(gradients, (ptrdiff_t)unit)].numbers +
           (offset - share->unit[unit].from);
}

void kvsi_gradients_complete(kvsi_gradients *gradients, size_t unit)
{
    kvsi_gradients *g = gradients;
    const kvsi_team *t = g->team;
    const kvsi_share *share = t->share;
    const ptrdiff_t own_room = g->spread ? find_room(g, (ptrdiff_t)unit) : NONE;
    const int goes = g->spread || (g->is_last && !t->deterministic && t->comm->size > 1);

    if (t->first_group != KVSI_MATRICES) { /* nobody wants them */
        if (own_room != NONE)
            g->rooms[own_room].unit = NONE;
        return;
    }
    if (own_room != NONE)
        g->rooms[own_room].leaving = share->first_bucket[unit + 1] - share->first_bucket[unit];
    for (size_t b = share->first_bucket[unit]; goes && b < share->first_bucket[unit + 1]; b++) {
        const size_t from = share->bucket[b].all.from;

        set_out(g, b,
                g->spread ? g->rooms[own_room].numbers + (from - share->unit[unit].from)
                          : g->slices[0] + from,
                own_room);
    }
    kvsi_gradients_move(g);
}

/* ---- the step ---- */

void kvsi_gradients_begin(kvsi_gradients *gradients)
{
    kvsi_context *c = &gradients->team->context;

    for (size_t i = 0; i < gradients->team->slices; i++)
        c->ops->zero(c, gradients->slices[i], gradients->sizes.slice * sizeof(real));
    for (size_t i = 0; i < gradients->sizes.owns; i++)
        c->ops->zero(c, gradients->own[i], gradients->sizes.own * sizeof(real));
}

/* Sends what could not be sent by the passes. */
static void set_out_rest(kvsi_gradients *g)
{
    const kvsi_team *t = g->team;
    const kvsi_share *share = t->share;
    const size_t first_small = share->first_bucket[share->units];
    const int matrices_too = t->deterministic && !g->spread;

    if (t->comm->size == 1)
        return;
    for (size_t b = matrices_too ? 0 : first_small; b < share->buckets; b++)
        if (kvsi_team_trains(t, b))
            set_out(g, b, kvsi_gradients_sum(g, &share->bucket[b], share->bucket[b].all.from),
                    NONE);
}

kvs_status kvsi_gradients_end(kvsi_gradients *gradients, kvs_err *err)
{
    kvsi_gradients *g = gradients;
    const kvsi_team *t = g->team;
    kvsi_context *c = &g->team->context;

    add_tree(c, g->slices, t->slices, g->sizes.slice);
    set_out_rest(g);
    while (g->returned < g->queued)
        wait_for_oldest(g);
    add_tree(c, g->own, g->sizes.owns, g->sizes.own);
    return kvsi_team_check(t, err);
}
