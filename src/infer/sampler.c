/* Choosing the next token: the best one, or one drawn from what temperature and cuts leave. */
#include "base/memory.h"
#include "base/random.h"
#include "base/status.h"

#include <math.h>
#include <stdlib.h>

typedef struct candidate {
    double weight; /* exp((logit - best) / temperature) */
    int32_t id;
} candidate;

struct kvs_sampler {
    kvs_sampling options;
    size_t count;   /* logits */
    uint64_t drawn; /* tokens so far */
    candidate *list;
};

void kvs_sampling_init(kvs_sampling *options)
{
    *options =
        (kvs_sampling){.temperature = 0.8, .top_k = 0, .top_p = 1.0, .min_p = 0.0, .seed = 1};
}

static kvs_status check(const kvs_sampling *o, kvs_err *err)
{
    if (!(o->temperature >= 0 && o->temperature <= 1e6))
        return kvsi_fail(err, KVS_E_INVALID, "temperature is %g, expected 0 or more",
                         o->temperature);
    if (!(o->top_p > 0 && o->top_p <= 1))
        return kvsi_fail(err, KVS_E_INVALID, "top p is %g, expected above 0 and at most 1",
                         o->top_p);
    if (!(o->min_p >= 0 && o->min_p <= 1))
        return kvsi_fail(err, KVS_E_INVALID, "min p is %g, expected 0 to 1", o->min_p);
    return KVS_OK;
}

kvs_status kvs_sampler_create(kvs_sampler **out, size_t count, const kvs_sampling *options,
                              kvs_err *err)
{
    kvs_sampler *s;
    const kvs_status st = check(options, err);

    *out = NULL;
    if (st != KVS_OK)
        return st;
    s = kvsi_alloc(1, sizeof *s);
    if (!s || !(s->list = kvsi_alloc(count, sizeof *s->list))) {
        kvs_sampler_free(s);
        return kvsi_fail(err, KVS_E_NOMEM, "out of memory for %zu candidates", count);
    }
    s->options = *options;
    s->count = count;
    *out = s;
    return KVS_OK;
}

void kvs_sampler_free(kvs_sampler *sampler)
{
    if (!sampler)
        return;
    kvsi_free(sampler->list);
    kvsi_free(sampler);
}

static size_t best_of(const float *logits, size_t count)
{
    size_t best = 0;

    for (size_t i = 1; i < count; i++)
        if (logits[i] > logits[best])
            best = i;
    return best;
}

/* Heaviest first; equals by id, so that the order is always the same. */
static int by_weight(const void *a, const void *b)
{
    const candidate *x = a, *y = b;

    if (x->weight != y->weight)
        return x->weight > y->weight ? -1 : 1;
    return x->id < y->id ? -1 : 1;
}

/* How many of the sorted candidates the cuts leave; at least one. */
static size_t cut(const kvs_sampler *s, double total)
{
    const kvs_sampling *o = &s->options;
    size_t kept = o->top_k > 0 && o->top_k < s->count ? o->top_k : s->count;
    double sum = 0;

    for (size_t i = 0; i < kept; i++) {
        if (i > 0 && (s->list[i].weight < o->min_p * s->list[0].weight || sum >= o->top_p * total))
            return i;
        sum += s->list[i].weight;
    }
    return kept;
}

static int32_t draw(kvs_sampler *s, size_t kept)
{
    kvsi_random random;
    double total = 0, at;

    for (size_t i = 0; i < kept; i++)
        total += s->list[i].weight;
    kvsi_random_init(&random, s->options.seed, KVSI_RANDOM_SAMPLE, s->drawn++);
    at = kvsi_random_uniform(&random) * total;
    for (size_t i = 0; i + 1 < kept; i++) {
        at -= s->list[i].weight;
        if (at < 0)
            return s->list[i].id;
    }
    return s->list[kept - 1].id;
}

int32_t kvs_sampler_next(kvs_sampler *sampler, const float *logits)
{
    const kvs_sampling *o = &sampler->options;
    const size_t best = best_of(logits, sampler->count);
    const int cuts = o->top_k > 0 || o->top_p < 1 || o->min_p > 0;
    double total = 0;

    if (o->temperature == 0)
        return (int32_t)best;
    for (size_t i = 0; i < sampler->count; i++) {
        const double weight = exp(((double)logits[i] - (double)logits[best]) / o->temperature);

        sampler->list[i] = (candidate){weight, (int32_t)i};
        total += weight;
    }
    if (cuts)
        qsort(sampler->list, sampler->count, sizeof *sampler->list, by_weight);
    return draw(sampler, cuts ? cut(sampler, total) : sampler->count);
}
