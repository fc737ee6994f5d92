#include "eval/score.h"

#include "base/array.h"
#include "base/math.h"
#include "base/memory.h"
#include "model/pass.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* Shorter common prefixes are not shared between sequences: a copy of the state and one more pass
 * would cost as much. */
enum { SHARED_MIN = 16 };

/* ---- requests in the order of the trie ---- */

/* A request and its place in the caller's array. */
typedef struct entry {
    kvsi_score_request *request;
    size_t index;
} entry;

static size_t fed_count(const entry *e)
{
    return e->request->count - 1;
}

/* By the fed ids, a prefix before longer ones; then by the last id, then by the index. */
static int compare(const void *a, const void *b)
{
    const entry *x = a, *y = b;
    const size_t common = kvsi_min(fed_count(x), fed_count(y));
    const int32_t *p = x->request->ids, *q = y->request->ids;

    for (size_t i = 0; i < common; i++)
        if (p[i] != q[i])
            return p[i] < q[i] ? -1 : 1;
    if (fed_count(x) != fed_count(y))
        return fed_count(x) < fed_count(y) ? -1 : 1;
    if (p[common] != q[common])
        return p[common] < q[common] ? -1 : 1;
    return x->index < y->index ? -1 : 1;
}

/* The number of ids, from `from` on, that are fed for both. */
static size_t common_prefix(const entry *x, const entry *y, size_t from)
{
    const size_t most = kvsi_min(fed_count(x), fed_count(y));
    size_t i = from;

    while (i < most && x->request->ids[i] == y->request->ids[i])
        i++;
    return i;
}

/* ---- states ---- */

/* A state with its size, in a list of those that are not used. */
typedef struct slot {
    kvsi_state state;
    size_t bytes;
    struct slot *next;
} slot;

/* A node that is being fed: entries [low, high) have the ids [0, to) in common, and the state has
 * those before `to` that were fed. */
typedef struct node {
    size_t low, high, to;
    size_t first_scored; /* the smallest position whose row has a target for one of the entries */
    slot *slot;
} node;

/* A complete node with entries [low, high) that continue differently after `length` ids; slot NULL
 * = the start of all sequences. */
typedef struct branch {
    size_t low, high, length;
    slot *slot;
} branch;

/* A row and a target of the current pass: entries [low, high) have this target after it. */
typedef struct scored_row {
    size_t low, high, position;
} scored_row;

typedef struct engine {
    const kvs_model *model;
    kvsi_score_options o;
    kvsi_dtype cache;
    entry *entries;
    size_t count;

    kvsi_pass *pass;
    slot *unused;
    double bytes; /* of all slots */

    node *active; /* [sequences] */
    size_t active_count;
    branch *branches;
    size_t branch_count, branch_capacity;

    /* the batch of one pass */
    int32_t *ids;        /* [tokens] */
    size_t *starts;      /* [sequences + 1] */
    kvsi_state **states; /* [sequences] */
    size_t parts;

    scored_row *scored; /* rows that go through the head, and their targets */
    int32_t *rows, *targets;
    size_t scored_count, scored_capacity, rows_capacity, targets_capacity;

    size_t *done; /* indexes of the requests that the pass completed */
    size_t done_count, done_capacity;

    kvsi_score_totals totals;
    uint64_t all; /* tokens to feed */
} engine;

/* Capacities are rounded up, so that a state can be used again for another node: to 3/4 or 4/4 of
 * a power of two. */
static size_t rounded_capacity(const engine *e, size_t need)
{
    size_t capacity = 64;

    while (capacity < need)
        capacity *= 2;
    if (capacity > 64 && capacity / 4 * 3 >= need)
        capacity = capacity / 4 * 3;
    return kvsi_max(need, kvsi_min(capacity, e->model->config.context));
}

static void slot_free(engine *e, slot *s)
{
    if (!s)
        return;
    e->bytes -= (double)s->bytes;
    kvsi_state_release(&s->state);
    kvsi_free(s);
}

static void put_back(engine *e, slot *s)
{
    s->next = e->unused;
    e->unused = s;
}

/* Takes the smallest unused state with room for `need` tokens that is not much too large. */
static slot *take_unused(engine *e, size_t need)
{
    slot **best = NULL, *found;

    for (slot **at = &e->unused; *at; at = &(*at)->next) {
        const size_t capacity = (*at)->state.capacity;

        if (capacity >= need && capacity / 2 <= rounded_capacity(e, need) &&
            (!best || capacity < (*best)->state.capacity))
            best = at;
    }
    if (!best)
        return NULL;
    found = *best;
    *best = found->next;
    kvsi_state_reset(&found->state);
    return found;
}

/* *out = an empty state; NULL if it would exceed the memory, unless `must`. */
static kvs_status take_slot(slot **out, engine *e, size_t need, int must, kvs_err *err)
{
    const size_t capacity = rounded_capacity(e, need);
    const size_t bytes = kvsi_state_bytes(&e->model->config, capacity, e->cache);
    slot *s;
    kvs_status st;

    *out = take_unused(e, need);
    if (*out)
        return KVS_OK;
    while (e->unused && e->bytes + (double)bytes > e->o.memory) {
        s = e->unused;
        e->unused = s->next;
        slot_free(e, s);
    }
    if (!must && e->bytes + (double)bytes > e->o.memory)
        return KVS_OK;
    s = kvsi_alloc(1, sizeof *s);
    if (!s)
        return kvsi_no_memory(err, "a sequence of %zu tokens", capacity);
    st = kvsi_state_init(&s->state, e->model, capacity, e->cache, err);
    if (st != KVS_OK) {
        kvsi_free(s);
        return st;
    }
    s->bytes = bytes;
    e->bytes += (double)bytes;
    *out = s;
    return KVS_OK;
}

/* ---- the trie ---- */

/* Whether two neighbours in the order begin one sequence. */
static int share_start(const engine *e, const entry *x, const entry *y)
{
    const size_t common = e->o.alone ? 0 : common_prefix(x, y, 0);

    return common >= SHARED_MIN || (common == fed_count(x) && !e->o.alone);
}

/* The end of the first child of a branch: the entries that have the same id after `length`, or, at
 * the start, that share enough of it. */
static size_t end_of_child(const engine *e, const branch *b)
{
    const entry *at = e->entries;
    size_t end = b->low + 1;

    if (!b->slot) {
        while (end < b->high && share_start(e, &at[end - 1], &at[end]))
            end++;
        return end;
    }
    while (end < b->high && at[end].request->ids[b->length] == at[b->low].request->ids[b->length])
        end++;
    return end;
}

static void set_range(const engine *e, node *n, size_t low, size_t high, size_t from)
{
    n->low = low;
    n->high = high;
    n->to = common_prefix(&e->entries[low], &e->entries[high - 1], from);
    n->first_scored = SIZE_MAX;
    for (size_t i = low; i < high; i++)
        n->first_scored = kvsi_min(n->first_scored, e->entries[i].request->context_count - 1);
}

/* The ids that must be fed for all entries. */
static uint64_t count_fed(const engine *e)
{
    uint64_t all = 0;

    for (size_t i = 0; i < e->count; i++) {
        const entry *at = &e->entries[i];
        const int shares = i > 0 && share_start(e, at - 1, at);

        all += fed_count(at) - (shares ? common_prefix(at - 1, at, 0) : 0);
    }
    return all;
}

/* Makes the first child of the newest branch active.  *made = 0 if there is no memory for it. */
static kvs_status start_child(engine *e, int *made, kvs_err *err)
{
    branch *b = &e->branches[e->branch_count - 1];
    const size_t end = end_of_child(e, b);
    node *n = &e->active[e->active_count];
    size_t need = 0;

    *made = 0;
    if (b->slot && end == b->high) {
        n->slot = b->slot; /* the last child continues the state itself */
    } else {
        for (size_t i = b->low; i < end; i++)
            need = kvsi_max(need, fed_count(&e->entries[i]));
        TRY(take_slot(&n->slot, e, need, e->active_count == 0, err));
        if (!n->slot)
            return KVS_OK;
        if (b->slot)
            kvsi_state_copy(&n->slot->state, &b->slot->state, b->length);
    }
    set_range(e, n, b->low, end, b->length);
    b->low = end;
    if (b->low == b->high)
        e->branch_count--;
    e->active_count++;
    *made = 1;
    return KVS_OK;
}

static kvs_status push_branch(engine *e, const branch *b, kvs_err *err)
{
    TRY(kvsi_array_reserve(&e->branches, &e->branch_capacity, e->branch_count + 1,
                           sizeof *e->branches, err));
    e->branches[e->branch_count++] = *b;
    return KVS_OK;
}

/* ---- one pass ---- */

static kvs_status add_scored(engine *e, size_t row, int32_t target, const scored_row *s,
                             kvs_err *err)
{
    const size_t need = e->scored_count + 1;

    TRY(kvsi_array_reserve(&e->scored, &e->scored_capacity, need, sizeof *e->scored, err));
    TRY(kvsi_array_reserve(&e->rows, &e->rows_capacity, need, sizeof *e->rows, err));
    TRY(kvsi_array_reserve(&e->targets, &e->targets_capacity, need, sizeof *e->targets, err));
    e->scored[e->scored_count] = *s;
    e->rows[e->scored_count] = (int32_t)row;
    e->targets[e->scored_count++] = target;
    return KVS_OK;
}

/* Adds the targets after the last row of a node: one for each run of entries with the same next
 * id. */
static kvs_status add_last_row(engine *e, const node *n, size_t row, kvs_err *err)
{
    for (size_t low = n->low, high; low < n->high; low = high) {
        const int32_t target = e->entries[low].request->ids[n->to];
        int wanted = 0;

        for (high = low; high < n->high && e->entries[high].request->ids[n->to] == target; high++)
            wanted |= e->entries[high].request->context_count <= n->to;
        if (wanted)
            TRY(add_scored(e, row, target, &(scored_row){low, high, n->to - 1}, err));
    }
    return KVS_OK;
}

/* Adds up to `left` ids of a node to the batch; returns how many in *added. */
static kvs_status add_part(engine *e, const node *n, size_t left, size_t *added, kvs_err *err)
{
    kvsi_state *state = &n->slot->state;
    const size_t at = e->starts[e->parts], past = state->length;
    const size_t count = kvsi_min(kvsi_min(n->to - past, left), kvsi_state_chunk(state));
    const int32_t *ids = e->entries[n->low].request->ids;

    memcpy(e->ids + at, ids + past, count * sizeof *ids);
    for (size_t p = kvsi_max(past, n->first_scored); p < past + count && p + 1 < n->to; p++)
        TRY(add_scored(e, at + p - past, ids[p + 1], &(scored_row){n->low, n->high, p}, err));
    if (past + count == n->to)
        TRY(add_last_row(e, n, at + count - 1, err));
    e->states[e->parts++] = state;
    e->starts[e->parts] = at + count;
    *added = count;
    return KVS_OK;
}

/* Takes ids of the active nodes, then of new ones, until the batch is full. */
static kvs_status make_batch(engine *e, kvs_err *err)
{
    size_t left = e->o.tokens, added;
    int made = 1;

    e->parts = e->scored_count = 0;
    e->starts[0] = 0;
    for (size_t i = 0; left > 0; i++, left -= added) {
        if (i == e->active_count) {
            if (i == e->o.sequences || e->branch_count == 0)
                break;
            TRY(start_child(e, &made, err));
            if (!made)
                break;
        }
        TRY(add_part(e, &e->active[i], left, &added, err));
    }
    return KVS_OK;
}

/* Adds the log-probabilities of a slice of the scored rows to their requests. */
static kvs_status add_results(engine *e, size_t from, size_t count, kvs_err *err)
{
    for (size_t i = 0; i < count; i++) {
        const scored_row *s = &e->scored[from + i];
        const double logprob = -(double)e->pass->host_losses[i];

        if (!isfinite(logprob))
            return kvsi_fail(err, KVS_E_FORMAT, "the logits after %zu tokens are not finite",
                             s->position + 1);
        for (size_t r = s->low; r < s->high; r++) {
            kvsi_score_request *request = e->entries[r].request;

            if (request->context_count > s->position + 1)
                continue;
            request->sum += logprob;
            request->greedy &= e->pass->host_guesses[i] == e->targets[from + i];
        }
    }
    return KVS_OK;
}

static kvs_status run_batch(engine *e, kvs_err *err)
{
    const kvs_batch batch = {.sequences = e->parts, .starts = e->starts, .ids = e->ids};
    size_t slice;
    int many;

    TRY(kvsi_pass_load(e->pass, &batch, e->states, err));
    kvsi_pass_forward(e->pass);
    e->totals.fed += e->starts[e->parts];
    e->totals.passes++;
    many = kvsi_pass_has_many(e->pass);
    slice = many ? e->pass->limits.head_rows : KVSI_FEW_ROWS;
    for (size_t at = 0; at < e->scored_count; at += slice) {
        const size_t now = kvsi_min(slice, e->scored_count - at);

        TRY(kvsi_pass_score(e->pass, e->rows + at, e->targets + at, now, many, err));
        TRY(add_results(e, at, now, err));
    }
    return KVS_OK;
}

/* Removes the entries that end at a complete node, and makes a branch, or the next node, of the
 * others.  *more = whether the node stays active. */
static kvs_status complete_node(engine *e, node *n, int *more, kvs_err *err)
{
    size_t low = n->low;

    *more = 0;
    for (; low < n->high && fed_count(&e->entries[low]) == n->to; low++) {
        TRY(kvsi_array_reserve(&e->done, &e->done_capacity, e->done_count + 1, sizeof *e->done,
                               err));
        e->done[e->done_count++] = e->entries[low].index;
    }
    if (low == n->high) {
        put_back(e, n->slot);
        return KVS_OK;
    }
    if (common_prefix(&e->entries[low], &e->entries[n->high - 1], n->to) > n->to) {
        set_range(e, n, low, n->high, n->to);
        *more = 1;
        return KVS_OK;
    }
    return push_branch(e, &(branch){low, n->high, n->to, n->slot}, err);
}

/* Completes the nodes that have all their ids. */
static kvs_status complete_nodes(engine *e, kvs_err *err)
{
    size_t kept = 0;

    e->done_count = 0;
    for (size_t i = 0; i < e->active_count; i++) {
        node n = e->active[i];
        int more = 1;

        if (n.slot->state.length == n.to) {
            const kvs_status st = complete_node(e, &n, &more, err);

            if (st != KVS_OK) {
                put_back(e, n.slot);
                memmove(e->active + kept, e->active + i + 1,
                        (e->active_count - i - 1) * sizeof *e->active);
                e->active_count -= i + 1 - kept;
                return st;
            }
        }
        if (more)
            e->active[kept++] = n;
    }
    e->active_count = kept;
    return KVS_OK;
}

/* ---- all requests ---- */

static kvs_status check(const kvsi_score_request *requests, size_t count, const kvs_model *model,
                        kvs_err *err)
{
    const size_t vocab = model->config.vocab;

    for (size_t i = 0; i < count; i++) {
        const kvsi_score_request *r = &requests[i];

        if (r->context_count == 0 || r->count <= r->context_count)
            return kvsi_fail(err, KVS_E_INVALID,
                             "request %zu has %zu ids and a context of %zu, expected at least one "
                             "in the context and after it",
                             i, r->count, r->context_count);
        if (r->count - 1 > model->config.context)
            return kvsi_fail(err, KVS_E_LIMIT,
                             "request %zu has %zu ids, the model takes at most %zu", i, r->count,
                             model->config.context + 1);
        for (size_t t = 0; t < r->count; t++)
            if (r->ids[t] < 0 || (size_t)r->ids[t] >= vocab)
                return kvsi_fail(err, KVS_E_INVALID,
                                 "request %zu: token %zu is id %d, expected 0 to %zu", i, t,
                                 (int)r->ids[t], vocab - 1);
    }
    return KVS_OK;
}

/* Sorts the requests, and counts their tokens. */
static kvs_status sort_entries(engine *e, kvsi_score_request *requests, kvs_err *err)
{
    e->entries = kvsi_alloc(e->count, sizeof *e->entries);
    if (!e->entries)
        return kvsi_no_memory(err, "%zu requests", e->count);
    for (size_t i = 0; i < e->count; i++) {
        e->entries[i] = (entry){&requests[i], i};
        e->totals.needed += requests[i].count - 1;
    }
    qsort(e->entries, e->count, sizeof *e->entries, compare);
    e->all = count_fed(e);
    return KVS_OK;
}

kvs_status kvsi_score_count(kvsi_score_totals *out, kvsi_score_request *requests, size_t count,
                            kvs_err *err)
{
    engine e = {.count = count};
    kvs_status st = sort_entries(&e, requests, err);

    *out = e.totals;
    out->fed = e.all;
    kvsi_free(e.entries);
    return st;
}

static kvs_status allocate(engine *e, kvsi_score_request *requests, kvs_err *err)
{
    const kvsi_pass_limits limits = {
        .tokens = e->o.tokens, .sequences = e->o.sequences, .head_rows = e->o.tokens};

    TRY(kvsi_cache_type(&e->cache, e->o.cache, err));
    TRY(kvsi_cache_check(&e->model->config, e->cache, err));
    TRY(kvsi_pass_create(&e->pass, e->model, &limits, err));
    TRY(sort_entries(e, requests, err));
    e->active = kvsi_alloc(e->o.sequences, sizeof *e->active);
    e->ids = kvsi_alloc(e->o.tokens, sizeof *e->ids);
    e->starts = kvsi_alloc(e->o.sequences + 1, sizeof *e->starts);
    e->states = kvsi_alloc(e->o.sequences, sizeof *e->states);
    if (!e->active || !e->ids || !e->starts || !e->states)
        return kvsi_no_memory(err, "%zu sequences", e->o.sequences);
    for (size_t i = 0; i < e->count; i++) {
        requests[i].sum = 0;
        requests[i].greedy = 1;
    }
    return KVS_OK;
}

static void release(engine *e)
{
    for (size_t i = 0; i < e->active_count; i++)
        slot_free(e, e->active[i].slot);
    for (size_t i = 0; i < e->branch_count; i++)
        slot_free(e, e->branches[i].slot);
    while (e->unused) {
        slot *s = e->unused;

        e->unused = s->next;
        slot_free(e, s);
    }
    kvsi_pass_free(e->pass);
    kvsi_free(e->entries);
    kvsi_free(e->active);
    kvsi_free(e->branches);
    kvsi_free(e->ids);
    kvsi_free(e->starts);
    kvsi_free(e->states);
    kvsi_free(e->scored);
    kvsi_free(e->rows);
    kvsi_free(e->targets);
    kvsi_free(e->done);
}

kvs_status kvsi_score_requests(kvsi_score_totals *totals, kvsi_score_request *requests,
                               size_t count, const kvs_model *model,
                               const kvsi_score_options *options, kvs_err *err)
{
    engine e = {.model = model, .o = *options, .count = count};
    kvs_status st;

    if (totals)
        *totals = (kvsi_score_totals){0};
    if (count == 0)
        return KVS_OK;
    e.o.sequences = kvsi_min(e.o.sequences, e.o.tokens);
    TRY_OUT(check(requests, count, model, err));
    TRY_OUT(allocate(&e, requests, err));
    TRY_OUT(push_branch(&e, &(branch){.low = 0, .high = count}, err));
    while (e.active_count > 0 || e.branch_count > 0) {
        TRY_OUT(make_batch(&e, err));
        TRY_OUT(run_batch(&e, err));
        TRY_OUT(complete_nodes(&e, err));
        if (e.done_count > 0 && e.o.done)
            TRY_OUT(e.o.done(e.o.user, e.done, e.done_count, err));
        if (e.o.progress)
            TRY_OUT(e.o.progress(e.o.user, e.totals.fed, e.all, err));
    }
    if (totals)
        *totals = e.totals;
out:
    release(&e);
    return st;
}
