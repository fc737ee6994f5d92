/* The likeliest tokens, and the log-probability of a token. */
#include "base/math.h"
#include "kernels/top.h"
#include "kvshift/kvshift.h"

#include <math.h>

int32_t kvs_logits_best(const float *logits, size_t count)
{
    size_t best = 0;

    if (!logits || count == 0)
        return -1;
    for (size_t i = 1; i < count; i++)
        if (logits[i] > logits[best])
            best = i;
    return (int32_t)best;
}

/* Returns log(sum_i exp(logits[i] - most)).  `most` is the greatest logit, so that exp() does not
 * overflow. */
static double log_sum(const float *logits, size_t count, double most)
{
    double sum = 0;

    for (size_t i = 0; i < count; i++)
        sum += exp((double)logits[i] - most);
    return log(sum);
}

double kvs_logits_logprob(const float *logits, size_t count, int32_t id)
{
    double most;

    if (!logits || id < 0 || (size_t)id >= count)
        return NAN;
    most = (double)logits[kvs_logits_best(logits, count)];
    return (double)logits[id] - most - log_sum(logits, count, most);
}

size_t kvs_logits_top(int32_t *ids, double *logprobs, size_t top, const float *logits, size_t count)
{
    double most, sum;

    if (!ids || !logits || top == 0 || count == 0)
        return 0;
    top = kvsi_min(top, count);
    kvsi_top_ids(ids, top, logits, count);
    if (!logprobs)
        return top;
    most = (double)logits[ids[0]];
    sum = log_sum(logits, count, most);
    for (size_t i = 0; i < top; i++)
        logprobs[i] = (double)logits[ids[i]] - most - sum;
    return top;
}
