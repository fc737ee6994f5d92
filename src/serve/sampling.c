#include "serve/sampling.h"

#include "base/memory.h"

#include <math.h>
#include <string.h>

struct kvsi_chooser {
    const kvsi_request *r;
    kvs_sampler *sampler;
    size_t count;
    float *changed;      /* [count] a copy of the logits; NULL = nothing ever changes them */
    uint32_t *generated; /* [count] how often; NULL = no penalty needs it */
    uint8_t *seen;       /* [count] in the prompt or generated; NULL = no repetition penalty */
};

static int has_penalty(const kvsi_request *r)
{
    return r->frequency_penalty != 0 || r->presence_penalty != 0;
}

static kvs_status allocate(kvsi_chooser *c, kvs_err *err)
{
    const kvsi_request *r = c->r;
    const int repeats = r->repetition_penalty != 1;

    if (r->bias_count == 0 && !has_penalty(r) && !repeats && r->min_tokens == 0)
        return KVS_OK;
    c->changed = kvsi_alloc(c->count, sizeof *c->changed);
    c->generated = has_penalty(r) ? kvsi_alloc(c->count, sizeof *c->generated) : NULL;
    c->seen = repeats ? kvsi_alloc(c->count, sizeof *c->seen) : NULL;
    if (!c->changed || (has_penalty(r) && !c->generated) || (repeats && !c->seen))
        return kvsi_no_memory(err, "%zu logits", c->count);
    return KVS_OK;
}

kvs_status kvsi_chooser_create(kvsi_chooser **out, const kvsi_request *request, size_t sample,
                               size_t count, const int32_t *prompt, size_t prompt_count,
                               kvs_err *err)
{
    kvsi_chooser *c = kvsi_alloc(1, sizeof *c);
    kvs_sampling sampling;
    kvs_status st;

    *out = NULL;
    if (!c)
        return kvsi_no_memory(err, "a sampler");
    c->r = request;
    c->count = count;
    kvs_sampling_init(&sampling, sizeof sampling);
    sampling.temperature = request->temperature;
    sampling.top_k = request->top_k;
    sampling.top_p = request->top_p;
    sampling.min_p = request->min_p;
    sampling.seed = request->seed + sample;
    TRY_OUT(kvs_sampler_create(&c->sampler, count, &sampling, err));
    TRY_OUT(allocate(c, err));
    for (size_t i = 0; c->seen && i < prompt_count; i++)
        if ((size_t)prompt[i] < count)
            c->seen[prompt[i]] = 1;
    *out = c;
    c = NULL;
out:
    kvsi_chooser_free(c);
    return st;
}

void kvsi_chooser_free(kvsi_chooser *c)
{
    if (!c)
        return;
    kvs_sampler_free(c->sampler);
    kvsi_free(c->changed);
    kvsi_free(c->generated);
    kvsi_free(c->seen);
    kvsi_free(c);
}

/* Applies the penalties to the copy of the logits. */
static void penalise(const kvsi_chooser *c)
{
    const float repetition = (float)c->r->repetition_penalty;
    const float frequency = (float)c->r->frequency_penalty;
    const float presence = (float)c->r->presence_penalty;

    for (size_t i = 0; c->seen && i < c->count; i++)
        if (c->seen[i])
            c->changed[i] =
                c->changed[i] > 0 ? c->changed[i] / repetition : c->changed[i] * repetition;
    for (size_t i = 0; c->generated && i < c->count; i++)
        if (c->generated[i] > 0)
            c->changed[i] -= frequency * (float)c->generated[i] + presence;
}

int32_t kvsi_chooser_next(kvsi_chooser *c, const float *logits, const int32_t *ends,
                          size_t end_count)
{
    int32_t id;

    if (c->changed) {
        memcpy(c->changed, logits, c->count * sizeof *c->changed);
        for (size_t i = 0; i < c->r->bias_count; i++)
            if ((size_t)c->r->biases[i].id < c->count)
                c->changed[c->r->biases[i].id] += c->r->biases[i].bias;
        penalise(c);
        for (size_t i = 0; i < end_count; i++)
            if ((size_t)ends[i] < c->count)
                c->changed[ends[i]] = -INFINITY;
    }
    id = kvs_sampler_next(c->sampler, c->changed ? c->changed : logits);
    if (c->generated)
        c->generated[id]++;
    if (c->seen)
        c->seen[id] = 1;
    return id;
}
