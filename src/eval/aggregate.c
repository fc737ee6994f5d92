#include "eval/aggregate.h"

#include "base/memory.h"
#include "eval/python_random.h"
#include "parallel/threads.h"

#include <math.h>

enum { CHUNKS = 100, CHUNK = KVSI_EVAL_REPLICATES / CHUNKS };

double kvsi_eval_mean(const double *values, size_t count)
{
    double sum = 0;

    for (size_t i = 0; i < count; i++)
        sum += values[i];
    return sum / (double)count;
}

double kvsi_eval_deviation(const double *values, size_t count)
{
    const double mean = kvsi_eval_mean(values, count);
    double sum = 0;

    if (count < 2)
        return NAN;
    for (size_t i = 0; i < count; i++)
        sum += (values[i] - mean) * (values[i] - mean);
    return sqrt(sum / (double)(count - 1));
}

double kvsi_eval_error(const double *values, size_t count)
{
    return kvsi_eval_deviation(values, count) / sqrt((double)count);
}

double kvsi_eval_perplexity(const double *values, size_t count)
{
    return exp(-kvsi_eval_mean(values, count));
}

/* The perplexities of the replicates of one chunk. */
static void draw_chunk(double *out, size_t chunk, const double *values, size_t count)
{
    kvsi_python_random random;

    kvsi_python_seed(&random, chunk);
    for (size_t i = 0; i < CHUNK; i++) {
        double sum = 0;

        for (size_t j = 0; j < count; j++)
            sum += values[(size_t)(kvsi_python_uniform(&random) * (double)count)];
        out[i] = exp(-(sum / (double)count));
    }
}

kvs_status kvsi_eval_perplexity_error(double *out, const double *values, size_t count, int threads,
                                      kvs_err *err)
{
    double *replicates;

    *out = NAN;
    if (count < 2)
        return KVS_OK;
    replicates = kvsi_alloc(KVSI_EVAL_REPLICATES, sizeof *replicates);
    if (!replicates)
        return kvsi_no_memory(err, "%d replicates", (int)KVSI_EVAL_REPLICATES);
    KVSI_PARALLEL_PIECES(threads, chunk, (size_t)CHUNKS)
        draw_chunk(replicates + chunk * CHUNK, chunk, values, count);
    *out = kvsi_eval_deviation(replicates, KVSI_EVAL_REPLICATES);
    kvsi_free(replicates);
    return KVS_OK;
}

double kvsi_eval_weighted_mean(const double *means, const size_t *sizes, size_t count)
{
    double sum = 0, all = 0;

    for (size_t i = 0; i < count; i++) {
        sum += means[i] * (double)sizes[i];
        all += (double)sizes[i];
    }
    return sum / all;
}

double kvsi_eval_pooled_error(const double *errors, const size_t *sizes, size_t count)
{
    double sum = 0, all = 0;

    for (size_t i = 0; i < count; i++) {
        sum += (double)(sizes[i] - 1) * errors[i] * errors[i] * (double)sizes[i];
        all += (double)sizes[i];
    }
    return sqrt(sum / (all - (double)count) / all);
}
