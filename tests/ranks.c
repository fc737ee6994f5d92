/* A transfer is a slot of its channel, in the order in which every rank starts them.  When all
 * ranks have started it, each copies its part under one lock; when all have copied, it is
 * complete. */
#include "ranks.h"

#include "base/memory.h"
#include "support.h"

#include <pthread.h>
#include <string.h>
#include <time.h>

enum { SLOTS = 4096 };

typedef enum kind { ALL_GATHER, BROADCAST, ALL_TO_ALL, ALL_GATHER_SHARDS } kind;

/* One rank's arguments of a transfer. */
typedef struct part {
    kind kind;
    const void *from;
    void *to;
    size_t bytes, root;
    const kvsi_comm_shards *shards;
    int copied;
} part;

typedef struct slot {
    size_t started, copied, left;
    part parts[RANKS_MAX];
} slot;

typedef struct world {
    pthread_mutex_t lock;
    size_t size;
    slot slots[KVSI_CHANNELS][SLOTS];
} world;

/* One rank. */
typedef struct end {
    world *world;
    size_t rank;
    unsigned calls; /* state of the random generator of delay() */
    size_t started[KVSI_CHANNELS];
    kvs_comm comm;
    void (*body)(kvs_comm *comm, void *user);
    void *user;
} end;

/* Delays every eighth call or so by up to 0.3 ms, so that ranks meet in many orders. */
static void delay(end *e)
{
    e->calls = e->calls * 1103515245u + 12345u;
    if ((e->calls >> 16) % 8 == 0)
        nanosleep(&(struct timespec){.tv_nsec = (long)((e->calls >> 8) % 300000)}, NULL);
}

static kvs_status start(end *e, kvsi_transfer *t, kvsi_channel channel, part p)
{
    const size_t at = e->started[channel]++ % SLOTS;
    slot *s = &e->world->slots[channel][at];

    delay(e);
    pthread_mutex_lock(&e->world->lock);
    s->parts[e->rank] = p;
    s->started++;
    pthread_mutex_unlock(&e->world->lock);
    t->handle = 1 + channel * SLOTS + at;
    return KVS_OK;
}

static kvs_status all_gather(void *self, kvsi_transfer *t, void *all, const void *own, size_t bytes,
                             kvs_err *err)
{
    (void)err;
    return start(self, t, KVSI_CHANNEL_CONTROL, (part){ALL_GATHER, own, all, bytes, 0, NULL, 0});
}

static kvs_status broadcast(void *self, kvsi_transfer *t, void *data, size_t bytes, size_t root,
                            kvs_err *err)
{
    (void)err;
    return start(self, t, KVSI_CHANNEL_CONTROL,
                 (part){BROADCAST, data, data, bytes, root, NULL, 0});
}

static kvs_status all_to_all(void *self, kvsi_transfer *t, void *received, const void *data,
                             const kvsi_comm_shards *shards, kvs_err *err)
{
    (void)err;
    return start(self, t, KVSI_CHANNEL_ALL_TO_ALL,
                 (part){ALL_TO_ALL, data, received, 0, 0, shards, 0});
}

static kvs_status all_gather_shards(void *self, kvsi_transfer *t, void *data, const void *own,
                                    const kvsi_comm_shards *shards, kvs_err *err)
{
    const end *e = self;
    const char *shard = own ? own : (const char *)data + shards->offsets[e->rank];

    (void)err;
    return start(self, t, KVSI_CHANNEL_ALL_GATHER,
                 (part){ALL_GATHER_SHARDS, shard, data, 0, 0, shards, 0});
}

/* Copies everything that rank `rank` receives. */
static void copy(const world *w, const slot *s, size_t rank)
{
    const part *mine = &s->parts[rank];
    char *to = mine->to;

    for (size_t r = 0; r < w->size; r++) {
        const part *theirs = &s->parts[r];
        const char *from = theirs->from;

        if (mine->kind == ALL_GATHER)
            memcpy(to + r * mine->bytes, from, mine->bytes);
        else if (mine->kind == BROADCAST && r == mine->root && r != rank)
            memcpy(to, from, mine->bytes);
        else if (mine->kind == ALL_TO_ALL)
            memcpy(to + mine->shards->recv_offsets[r], from + theirs->shards->offsets[rank],
                   (size_t)mine->shards->recv_counts[r]);
        else if (mine->kind == ALL_GATHER_SHARDS && to + mine->shards->offsets[r] != from)
            memcpy(to + mine->shards->offsets[r], from, (size_t)mine->shards->counts[r]);
    }
}

static kvs_status test(void *self, kvsi_transfer *t, int *done, kvs_err *err)
{
    end *e = self;
    const size_t number = t->handle - 1;
    slot *s;

    (void)err;
    delay(e);
    *done = t->handle == 0;
    if (*done)
        return KVS_OK;
    s = &e->world->slots[number / SLOTS][number % SLOTS];
    pthread_mutex_lock(&e->world->lock);
    if (s->started == e->world->size && !s->parts[e->rank].copied) {
        copy(e->world, s, e->rank);
        s->parts[e->rank].copied = 1;
        s->copied++;
    }
    *done = s->copied == e->world->size;
    if (*done && ++s->left == e->world->size)
        *s = (slot){0};
    pthread_mutex_unlock(&e->world->lock);
    if (*done)
        t->handle = 0;
    return KVS_OK;
}

static void abort_all(void *self, int code)
{
    (void)self, (void)code;
}

static void close_comm(void *self)
{
    (void)self;
}

static const kvsi_comm_ops ops = {all_gather, broadcast, all_to_all, all_gather_shards,
                                  test,       abort_all, close_comm};

static void *run_rank(void *argument)
{
    end *e = argument;

    e->body(&e->comm, e->user);
    return NULL;
}

void ranks_run(size_t count, void (*body)(kvs_comm *comm, void *user), void *user)
{
    world *w = kvsi_alloc(1, sizeof *w);
    end ends[RANKS_MAX];
    pthread_t threads[RANKS_MAX];

    assert_true(w != NULL && count <= RANKS_MAX);
    w->size = count;
    assert_int_equal(pthread_mutex_init(&w->lock, NULL), 0);
    for (size_t r = 0; r < count; r++) {
        ends[r] = (end){.world = w, .rank = r, .calls = (unsigned)r, .body = body, .user = user};
        ends[r].comm = (kvs_comm){.ops = &ops,
                                  .self = &ends[r],
                                  .rank = r,
                                  .size = count,
                                  .core_sharers = 1,
                                  .timeout = 120};
        assert_int_equal(pthread_create(&threads[r], NULL, run_rank, &ends[r]), 0);
    }
    for (size_t r = 0; r < count; r++)
        assert_int_equal(pthread_join(threads[r], NULL), 0);
    pthread_mutex_destroy(&w->lock);
    kvsi_free(w);
}
