#include "bench/samples.h"

#include "base/memory.h"

#include <math.h>
#include <string.h>

static kvs_status grow(kvsi_samples *s, kvs_err *err)
{
    const size_t capacity = s->capacity > 0 ? 2 * s->capacity : 64;
    double *values = kvsi_alloc(capacity, sizeof *values);

    if (!values)
        return kvsi_no_memory(err, "%zu measurements", capacity);
    if (s->count > 0)
        memcpy(values, s->values, s->count * sizeof *values);
    kvsi_free(s->values);
    s->values = values;
    s->capacity = capacity;
    return KVS_OK;
}

kvs_status kvsi_samples_add(kvsi_samples *samples, double value, kvs_err *err)
{
    size_t at = samples->count;

    if (at == samples->capacity) {
        TRY(grow(samples, err));
    }
    for (; at > 0 && samples->values[at - 1] > value; at--)
        samples->values[at] = samples->values[at - 1];
    samples->values[at] = value;
    samples->count++;
    return KVS_OK;
}

static double median(const kvsi_samples *s)
{
    return s->count == 0 ? NAN : (s->values[(s->count - 1) / 2] + s->values[s->count / 2]) / 2;
}

kvs_spread kvsi_samples_times(const kvsi_samples *samples)
{
    return (kvs_spread){samples->count == 0 ? NAN : samples->values[0], median(samples)};
}

kvs_spread kvsi_samples_rates(const kvsi_samples *samples)
{
    return (kvs_spread){samples->count == 0 ? NAN : samples->values[samples->count - 1],
                        median(samples)};
}

void kvsi_samples_release(kvsi_samples *samples)
{
    kvsi_free(samples->values);
    *samples = (kvsi_samples){0};
}
