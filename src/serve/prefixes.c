#include "serve/prefixes.h"

#include "base/memory.h"

#include <string.h>

typedef struct entry entry;
struct entry {
    entry *next; /* the one used before this one */
    kvs_session *session;
    kvsi_scores scores;
    uint64_t owner, bytes;
};

struct kvsi_prefixes {
    uint64_t limit;
    entry *newest;
    kvsi_prefix_stats stats;
};

kvs_status kvsi_scores_create(kvsi_scores *scores, size_t count, size_t top, kvs_err *err)
{
    *scores = (kvsi_scores){.count = count, .top = top};
    scores->own = kvsi_alloc(count, sizeof *scores->own);
    scores->top_logprobs = kvsi_alloc(count * top, sizeof *scores->top_logprobs);
    scores->top_ids = kvsi_alloc(count * top, sizeof *scores->top_ids);
    if (scores->own && scores->top_logprobs && scores->top_ids)
        return KVS_OK;
    kvsi_scores_release(scores);
    return kvsi_no_memory(err, "the log-probabilities of %zu tokens", count);
}

void kvsi_scores_release(kvsi_scores *scores)
{
    kvsi_free(scores->own);
    kvsi_free(scores->top_logprobs);
    kvsi_free(scores->top_ids);
    *scores = (kvsi_scores){0};
}

kvs_status kvsi_prefixes_create(kvsi_prefixes **out, uint64_t bytes, kvs_err *err)
{
    *out = kvsi_alloc(1, sizeof **out);
    if (!*out)
        return kvsi_no_memory(err, "the store of prefixes");
    (*out)->limit = bytes;
    return KVS_OK;
}

static void free_entry(entry *e)
{
    kvs_session_free(e->session);
    kvsi_scores_release(&e->scores);
    kvsi_free(e);
}

/* Removes the entry that *at points to. */
static void drop(kvsi_prefixes *store, entry **at)
{
    entry *e = *at;

    *at = e->next;
    store->stats.entries--;
    store->stats.bytes -= e->bytes;
    free_entry(e);
}

void kvsi_prefixes_free(kvsi_prefixes *store)
{
    if (!store)
        return;
    while (store->newest)
        drop(store, &store->newest);
    kvsi_free(store);
}

kvsi_prefix_stats kvsi_prefixes_stats(const kvsi_prefixes *store)
{
    return store->stats;
}

/* ---- finding --------------------------------------------------------------------------------- */

size_t kvsi_shared_prefix(const kvs_session *session, const int32_t *ids, size_t count)
{
    const size_t length = kvs_session_length(session);
    const int32_t *fed = kvs_session_ids(session);
    size_t same = 0;

    while (same < length && same < count && fed[same] == ids[same])
        same++;
    /* A session with a sliding window cannot be cut anywhere. */
    return same == length || same >= kvs_session_earliest(session) ? same : 0;
}

/* The same for an entry, limited to its scores if they are wanted. */
static size_t shared(const entry *e, const int32_t *ids, size_t count, int scored)
{
    if (scored && e->scores.count < count)
        count = e->scores.count;
    return kvsi_shared_prefix(e->session, ids, count);
}

size_t kvsi_prefixes_find(const kvs_session **session, const kvsi_scores **scores,
                          kvsi_prefixes *store, uint64_t owner, const int32_t *ids, size_t count,
                          int scored)
{
    size_t most = 0;

    *session = NULL;
    *scores = NULL;
    for (const entry *e = store->newest; e; e = e->next) {
        const size_t same = e->owner == owner ? shared(e, ids, count, scored) : 0;

        if (same <= most)
            continue;
        most = same;
        *session = e->session;
        *scores = &e->scores;
    }
    return most;
}

/* Moves the entry that *at points to in front of all others. */
static void make_newest(kvsi_prefixes *store, entry **at)
{
    entry *e = *at;

    *at = e->next;
    e->next = store->newest;
    store->newest = e;
}

void kvsi_prefixes_hit(kvsi_prefixes *store, const kvs_session *session)
{
    entry **at = &store->newest;

    while (*at && (*at)->session != session)
        at = &(*at)->next;
    if (!*at)
        return;
    make_newest(store, at);
    store->stats.hits++;
}

/* ---- storing --------------------------------------------------------------------------------- */

/* Keeps one alternative of each token. */
static kvs_status copy_scores(kvsi_scores *to, const kvsi_scores *from)
{
    if (!from || from->count == 0)
        return KVS_OK;
    TRY(kvsi_scores_create(to, from->count, 1, NULL));
    memcpy(to->own, from->own, from->count * sizeof *to->own);
    for (size_t i = 0; i < from->count; i++) {
        to->top_ids[i] = from->top_ids[i * from->top];
        to->top_logprobs[i] = from->top_logprobs[i * from->top];
    }
    return KVS_OK;
}

/* Whether everything that entry b can give, entry a can give too. */
static int covers(const entry *a, const entry *b)
{
    const size_t length = kvs_session_length(b->session);

    return a->owner == b->owner && a->scores.count >= b->scores.count &&
           kvs_session_length(a->session) >= length && kvs_session_earliest(a->session) <= 1 &&
           memcmp(kvs_session_ids(a->session), kvs_session_ids(b->session),
                  length * sizeof(int32_t)) == 0;
}

/* Makes *session as small as its tokens need.  A copy that fails leaves it as it is. */
static void trim(kvs_session **session)
{
    const size_t length = kvs_session_length(*session);
    const kvs_session_options how = {
        .size = sizeof how, .capacity = length, .cache = KVS_DTYPE_KEEP};
    kvs_session *copy;

    if (kvs_session_capacity(*session) <= length + length / 8 ||
        kvs_session_copy(&copy, *session, SIZE_MAX, &how, NULL) != KVS_OK)
        return;
    kvs_session_free(*session);
    *session = copy;
}

static uint64_t bytes_of(const entry *e, kvs_dtype cache)
{
    const kvs_session_options how = {
        .size = sizeof how, .capacity = kvs_session_capacity(e->session), .cache = cache};

    return kvs_session_bytes(kvs_model_get_config(kvs_session_get_model(e->session)), &how) +
           e->scores.count * (2 * sizeof(double) + sizeof(int32_t));
}

void kvsi_prefixes_add(kvsi_prefixes *store, uint64_t owner, kvs_session *session,
                       const kvsi_scores *scores, kvs_dtype cache)
{
    entry *e =
        store->limit > 0 && kvs_session_length(session) > 0 ? kvsi_alloc(1, sizeof *e) : NULL;
    entry **at = &store->newest;

    if (!e || copy_scores(&e->scores, scores) != KVS_OK) {
        kvs_session_free(session);
        kvsi_free(e);
        return;
    }
    e->owner = owner;
    e->session = session;
    while (*at && !covers(*at, e))
        at = &(*at)->next;
    if (*at) {
        make_newest(store, at);
        free_entry(e);
        return;
    }
    trim(&e->session);
    e->bytes = bytes_of(e, cache);
    if (e->bytes > store->limit) {
        free_entry(e);
        return;
    }
    for (at = &store->newest; *at;)
        if (covers(e, *at))
            drop(store, at);
        else
            at = &(*at)->next;
    e->next = store->newest;
    store->newest = e;
    store->stats.entries++;
    store->stats.bytes += e->bytes;
    while (store->newest && store->stats.bytes > store->limit) {
        at = &store->newest;
        while (*at && (*at)->next)
            at = &(*at)->next;
        drop(store, at);
        store->stats.evictions++;
    }
}
