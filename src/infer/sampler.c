/* Choosing the next token: the best one, or a draw with temperature, top-k, top-p and min-p. */
#include "base/memory.h"
#include "base/random.h"
#include "base/sized.h"
#include "base/status.h"

#include <math.h>
#include <stdlib.h>

enum { REPEAT_LAST_MAX = 1 << 24 };

typedef struct candidate {
    double weight; /* exp((logit - best) / temperature) */
    int32_t id;
} candidate;

struct kvs_sampler {
    kvs_sampling options;
    size_t count;   /* logits */
    uint64_t drawn; /* tokens drawn so far */
    candidate *list;

    /* with a repeat penalty: */
    float *penalised; /* the logits */
    size_t *seen;     /* [count] occurrences of each token in the penalty window */
    int32_t *last;    /* the window, oldest at last[seen_total % repeat_last]; NULL = all tokens */
    uint64_t seen_total;
};

static const kvs_sampling defaults = {
    .size = sizeof defaults,
    .temperature = 0.8,
    .top_p = 1,
    .seed = 1,
    .repeat_penalty = 1,
    .repeat_last = 64,
};

void kvs_sampling_init(kvs_sampling *options, size_t size)
{
    kvsi_sized_init(options, size, &defaults, sizeof defaults);
}

static kvs_status check(const kvs_sampling *o, kvs_err *err)
{
    if (!(o->temperature >= 0 && o->temperature <= 1e6))
        return kvsi_fail(err, KVS_E_INVALID, "temperature is %g, expected 0 to 1000000",
                         o->temperature);
    if (!(o->top_p > 0 && o->top_p <= 1))
        return kvsi_fail(err, KVS_E_INVALID, "top p is %g, expected above 0 and at most 1",
                         o->top_p);
    if (!(o->min_p >= 0 && o->min_p <= 1))
        return kvsi_fail(err, KVS_E_INVALID, "min p is %g, expected 0 to 1", o->min_p);
    if (!(o->repeat_penalty >= 0 && o->repeat_penalty <= 1e6))
        return kvsi_fail(err, KVS_E_INVALID, "repeat penalty is %g, expected 0 to 1000000",
                         o->repeat_penalty);
    if (o->repeat_last > REPEAT_LAST_MAX)
        return kvsi_fail(err, KVS_E_INVALID, "repeat last is %zu, expected at most %d",
                         o->repeat_last, (int)REPEAT_LAST_MAX);
    return KVS_OK;
}

static int has_penalty(const kvs_sampling *o)
{
    return o->repeat_penalty != 0 && o->repeat_penalty != 1;
}

static int allocate(kvs_sampler *s)
{
    s->list = kvsi_alloc(s->count, sizeof *s->list);
    if (!has_penalty(&s->options))
        return s->list != NULL;
    s->penalised = kvsi_alloc(s->count, sizeof *s->penalised);
    s->seen = kvsi_alloc(s->count, sizeof *s->seen);
    s->last = kvsi_alloc(s->options.repeat_last, sizeof *s->last);
    return s->list && s->penalised && s->seen && s->last;
}

kvs_status kvs_sampler_create(kvs_sampler **out, size_t count, const kvs_sampling *options,
                              kvs_err *err)
{
    kvs_sampling own = defaults;
    kvs_sampler *s;

    NEED(out);
    *out = NULL;
    TRY(kvsi_sized_read(&own, sizeof own, options, "kvs_sampling", err));
    TRY(check(&own, err));
    if (count < 1 || count > INT32_MAX)
        return kvsi_fail(err, KVS_E_INVALID, "a sampler of %zu logits, expected 1 to %d", count,
                         INT32_MAX);
    s = kvsi_alloc(1, sizeof *s);
    if (s) {
        s->options = own;
        s->count = count;
    }
    if (!s || !allocate(s)) {
        kvs_sampler_free(s);
        return kvsi_fail(err, KVS_E_NOMEM, "out of memory for %zu candidates", count);
    }
    *out = s;
    return KVS_OK;
}

void kvs_sampler_free(kvs_sampler *sampler)
{
    if (!sampler)
        return;
    kvsi_free(sampler->list);
    kvsi_free(sampler->penalised);
    kvsi_free(sampler->seen);
    kvsi_free(sampler->last);
    kvsi_free(sampler);
}

/* ---- repetition ------------------------------------------------------------------------------ */

/* Ids beyond the logits are never chosen; they only occupy the penalty window. */
static int is_candidate(const kvs_sampler *s, int32_t id)
{
    return (size_t)id < s->count;
}

static void remember(kvs_sampler *s, int32_t id)
{
    const size_t window = s->options.repeat_last;

    if (!s->seen)
        return;
    if (window > 0) {
        int32_t *place = &s->last[s->seen_total % window];

        if (s->seen_total >= window && is_candidate(s, *place))
            s->seen[*place]--;
        *place = id;
    }
    if (is_candidate(s, id))
        s->seen[id]++;
    s->seen_total++;
}

kvs_status kvs_sampler_accept(kvs_sampler *sampler, const int32_t *ids, size_t count, kvs_err *err)
{
    NEED(sampler);
    NEED_ARRAY(ids, count);
    for (size_t i = 0; i < count; i++)
        if (ids[i] < 0)
            return kvsi_fail(err, KVS_E_INVALID, "token %zu is id %d, expected at least 0", i,
                             (int)ids[i]);
    for (size_t i = 0; i < count; i++)
        remember(sampler, ids[i]);
    return KVS_OK;
}

/* The logits, or a copy with the penalty applied to seen tokens. */
static const float *penalise(kvs_sampler *s, const float *logits)
{
    const float penalty = (float)s->options.repeat_penalty;

    if (!s->seen)
        return logits;
    for (size_t i = 0; i < s->count; i++) {
        const float worse = logits[i] > 0 ? logits[i] / penalty : logits[i] * penalty;

        s->penalised[i] = s->seen[i] > 0 ? worse : logits[i];
    }
    return s->penalised;
}

/* ---- cuts ------------------------------------------------------------------------------------ */

static int is_before(const candidate *x, const candidate *y)
{
    return x->weight != y->weight ? x->weight > y->weight : x->id < y->id;
}

/* Heaviest first; equal weights by id, so that the order is deterministic. */
static int by_weight(const void *a, const void *b)
{
    return is_before(a, b) ? -1 : 1;
}

static void swap(candidate *x, candidate *y)
{
    const candidate c = *x;

    *x = *y;
    *y = c;
}

/* Moves the `wanted` heaviest to the front, in any order: sorting a whole vocabulary would take
 * longer than a small model's forward pass. */
static void select_heaviest(candidate *list, size_t count, size_t wanted)
{
    size_t low = 0, high = count;

    while (high - low > 1) {
        size_t end = low;

        swap(list + low + (high - low) / 2, list + high - 1);
        for (size_t i = low; i + 1 < high; i++)
            if (is_before(list + i, list + high - 1))
                swap(list + i, list + end++);
        swap(list + end, list + high - 1);
        if (end == wanted)
            return;
        if (end < wanted)
            low = end + 1;
        else
            high = end;
    }
}

static double total_weight(const candidate *list, size_t count)
{
    double total = 0;

    for (size_t i = 0; i < count; i++)
        total += list[i].weight;
    return total;
}

/* Keeps, in any order, the candidates that may pass top_p and min_p.  Candidates so light that all
 * of them together stay below 1 - top_p cannot be among the kept ones. */
static size_t drop_light(candidate *list, size_t count, const kvs_sampling *o)
{
    const double spare = (1 - o->top_p) * total_weight(list, count) / (double)count;
    const double least = fmax(spare, o->min_p); /* the best has weight 1 */
    size_t kept = 0;

    for (size_t i = 0; i < count; i++)
        if (list[i].weight >= least)
            list[kept++] = list[i];
    return kept;
}

/* Applies the cuts and sorts; returns the number of candidates left, at least one. */
static size_t cut(candidate *list, size_t count, const kvs_sampling *o)
{
    double share, sum = 0;
    size_t kept = 0;

    if (o->top_k > 0 && o->top_k < count) {
        select_heaviest(list, count, o->top_k);
        count = o->top_k;
    }
    share = o->top_p * total_weight(list, count);
    count = drop_light(list, count, o);
    qsort(list, count, sizeof *list, by_weight);
    while (kept < count && (kept == 0 || o->top_p == 1 || sum < share))
        sum += list[kept++].weight;
    return kept > 0 ? kept : 1; /* 0 if weights are NaN */
}

static int32_t draw(kvs_sampler *s, size_t kept)
{
    kvsi_random random;
    double at;

    kvsi_random_init(&random, s->options.seed, KVSI_RANDOM_SAMPLE, s->drawn);
    at = kvsi_random_uniform(&random) * total_weight(s->list, kept);
    for (size_t i = 0; i + 1 < kept; i++) {
        at -= s->list[i].weight;
        if (at < 0)
            return s->list[i].id;
    }
    return s->list[kept - 1].id;
}

/* ---- choosing -------------------------------------------------------------------------------- */

static int32_t choose(kvs_sampler *s, const float *logits)
{
    const kvs_sampling *o = &s->options;
    const int32_t best = kvs_logits_best(logits, s->count);
    const int cuts = o->top_k > 0 || o->top_p < 1 || o->min_p > 0;

    if (o->temperature == 0)
        return best;
    for (size_t i = 0; i < s->count; i++)
        s->list[i] = (candidate){exp(((double)logits[i] - (double)logits[best]) / o->temperature),
                                 (int32_t)i};
    return draw(s, cuts ? cut(s->list, s->count, o) : s->count);
}

int32_t kvs_sampler_next(kvs_sampler *sampler, const float *logits)
{
    int32_t id;

    if (!sampler || !logits)
        return -1;
    id = choose(sampler, penalise(sampler, logits));
    remember(sampler, id);
    sampler->drawn++;
    return id;
}
