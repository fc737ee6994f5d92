#include "train/totals.h"

#include <math.h>

/* Counts the scored rows of the pass by the length of their sequence.  Rows are in order. */
static void count_by_length(const kvsi_pass *pass, const kvs_data *data, kvsi_totals *sum)
{
    const kvsi_span *span = pass->spans;

    for (size_t r = 0; r < pass->head_rows; r++) {
        while ((size_t)pass->host_rows[r] >= span->start + span->len)
            span++;
        if (!pass->host_scored[r])
            continue;
        for (size_t b = 0; b < data->buckets; b++)
            if (span->len >= data->bucket[b].from && span->len <= data->bucket[b].to) {
                sum->bucket_scored[b]++;
                sum->bucket_right[b] += pass->host_guesses[r] == pass->host_targets[r];
            }
    }
}

void kvsi_totals_count(kvsi_totals *sum, const kvsi_pass *pass, const kvsi_loss *loss,
                       const kvs_data *data)
{
    sum->loss += loss->sum;
    sum->targets += loss->rows;
    sum->scored += loss->scored;
    sum->right += loss->right;
    sum->tokens += pass->tokens;
    count_by_length(pass, data, sum);
}

void kvsi_totals_add(kvsi_totals *sum, const kvsi_totals *more)
{
    sum->loss += more->loss;
    sum->targets += more->targets;
    sum->scored += more->scored;
    sum->right += more->right;
    sum->tokens += more->tokens;
    for (size_t b = 0; b < KVS_LENGTH_BUCKETS_MAX; b++) {
        sum->bucket_scored[b] += more->bucket_scored[b];
        sum->bucket_right[b] += more->bucket_right[b];
    }
}

static double ratio(double part, size_t whole)
{
    return whole > 0 ? part / (double)whole : NAN;
}

kvs_step_record kvsi_totals_record(const kvsi_totals *sum, uint64_t step)
{
    return (kvs_step_record){
        .step = step,
        .loss = ratio(sum->loss, sum->targets),
        .accuracy = ratio((double)sum->right, sum->scored),
        .eval_loss = NAN,
        .eval_accuracy = NAN,
        .k_shift = {NAN, NAN},
        .v_shift = {NAN, NAN},
        .q_shift = {NAN, NAN},
        .tokens = sum->tokens,
    };
}

kvs_evaluation kvsi_totals_evaluation(const kvsi_totals *sum, const kvs_data *data)
{
    kvs_evaluation out = {
        .loss = ratio(sum->loss, sum->targets),
        .accuracy = ratio((double)sum->right, sum->scored),
        .buckets = data->buckets,
    };

    for (size_t b = 0; b < data->buckets; b++) {
        out.bucket[b] = data->bucket[b];
        out.bucket[b].scored = sum->bucket_scored[b];
        out.bucket[b].accuracy = ratio((double)sum->bucket_right[b], sum->bucket_scored[b]);
    }
    return out;
}
