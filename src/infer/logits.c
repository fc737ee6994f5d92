/* The likeliest token, and the log-probability of a token. */
#include "kvshift/kvshift.h"

#include <math.h>

int32_t kvs_logits_best(const float *logits, size_t count)
{
    size_t best = 0;

    for (size_t i = 1; i < count; i++)
        if (logits[i] > logits[best])
            best = i;
    return (int32_t)best;
}

double kvs_logits_logprob(const float *logits, size_t count, int32_t id)
{
    const double most = (double)logits[kvs_logits_best(logits, count)]; /* avoids overflow of exp */
    double sum = 0;

    for (size_t i = 0; i < count; i++)
        sum += exp((double)logits[i] - most);
    return (double)logits[id] - most - log(sum);
}
