#include "eval/measures.h"

#include "base/memory.h"
#include "eval/compare.h"

#include <math.h>
#include <stdlib.h>

/* ---- choices --------------------------------------------------------------------------------- */

/* sum_i (p_i - [i = g])^2 and max_i p_i of one document. */
static double brier_of(double *confidence, const kvsi_stored_document *d)
{
    const int best = kvsi_stored_choice(d);
    double sum = 0, brier = 0;

    for (size_t i = 0; i < d->choices; i++)
        sum += exp(d->likelihoods[i] - d->likelihoods[best]);
    for (size_t i = 0; i < d->choices; i++) {
        const double p = exp(d->likelihoods[i] - d->likelihoods[best]) / sum;
        const double wanted = (int)i == d->gold ? 1 : 0;

        brier += (p - wanted) * (p - wanted);
    }
    *confidence = 1 / sum;
    return brier;
}

static double margin_of(const kvsi_stored_document *d)
{
    double other = -INFINITY;

    for (size_t i = 0; i < d->choices; i++)
        if ((int)i != d->gold)
            other = fmax(other, d->likelihoods[i]);
    return d->likelihoods[d->gold] - other;
}

static void add_to_bin(kvsi_measures *m, double confidence, int right)
{
    const size_t at = (size_t)(confidence * KVSI_CALIBRATION_BINS);
    kvsi_calibration_bin *bin =
        m->bins + (at < KVSI_CALIBRATION_BINS ? at : KVSI_CALIBRATION_BINS - 1);

    bin->count++;
    bin->right += (size_t)right;
    bin->confidence += confidence;
}

kvsi_measures kvsi_measures_of(const kvsi_unit *unit)
{
    kvsi_measures m = {.ece = NAN};
    kvsi_running bits = {0}, margin = {0}, brier = {0};

    for (size_t t = 0; t < unit->task_count; t++)
        for (size_t i = 0; i < unit->tasks[t]->count; i++) {
            const kvsi_stored_document *d = unit->tasks[t]->documents + i;
            double confidence;

            if (d->gold == KVSI_NO_CHOICE)
                continue;
            if (!isnan(kvsi_gold_bits(d)))
                kvsi_running_add(&bits, kvsi_gold_bits(d));
            if (d->choices < 2)
                continue;
            kvsi_running_add(&margin, margin_of(d));
            kvsi_running_add(&brier, brier_of(&confidence, d));
            add_to_bin(&m, confidence, kvsi_stored_choice(d) == d->gold);
        }
    m.bits = kvsi_running_estimate(&bits);
    m.margin = kvsi_running_estimate(&margin);
    m.brier = kvsi_running_estimate(&brier);
    for (size_t b = 0; b < KVSI_CALIBRATION_BINS && brier.count > 0; b++) {
        kvsi_calibration_bin *bin = m.bins + b;

        if (bin->count == 0)
            continue;
        m.ece = isnan(m.ece) ? 0 : m.ece;
        m.ece += fabs((double)bin->right - bin->confidence) / (double)brier.count;
        bin->confidence /= (double)bin->count;
    }
    return m;
}

/* ---- parts ----------------------------------------------------------------------------------- */

typedef struct scored {
    size_t context, order; /* order: among all documents, so that sorting has one result */
    double value;
} scored;

static int by_length(const void *a, const void *b)
{
    const scored *x = a, *y = b;

    if (x->context != y->context)
        return x->context < y->context ? -1 : 1;
    return (x->order > y->order) - (x->order < y->order);
}

kvs_status kvsi_parts_by_length(kvsi_part parts[KVSI_LENGTH_PARTS], const kvsi_unit *unit,
                                const char *metric, kvs_err *err)
{
    scored *documents = kvsi_alloc(unit->documents, sizeof *documents);
    size_t count = 0;

    if (!documents)
        return kvsi_no_memory(err, "%zu documents", unit->documents);
    for (size_t t = 0; t < unit->task_count; t++)
        for (size_t i = 0; i < unit->tasks[t]->count; i++, count++)
            documents[count] = (scored){
                unit->tasks[t]->documents[i].context, count,
                unit->tasks[t]->documents[i].metrics[kvsi_stored_metric(unit->tasks[t], metric)]};
    qsort(documents, count, sizeof *documents, by_length);
    for (size_t p = 0; p < KVSI_LENGTH_PARTS; p++) {
        const size_t first = p * count / KVSI_LENGTH_PARTS,
                     end = (p + 1) * count / KVSI_LENGTH_PARTS;

        parts[p] = (kvsi_part){.count = end - first};
        for (size_t i = first; i < end; i++)
            parts[p].right += documents[i].value == 1;
        if (end > first) {
            parts[p].shortest = documents[first].context;
            parts[p].longest = documents[end - 1].context;
        }
    }
    kvsi_free(documents);
    return KVS_OK;
}

void kvsi_parts_by_copy(kvsi_part parts[2], const kvsi_unit *unit)
{
    kvsi_running likelihoods[2] = {{0}};

    parts[0] = parts[1] = (kvsi_part){0};
    for (size_t t = 0; t < unit->task_count; t++) {
        const kvsi_stored_task *task = unit->tasks[t];
        const size_t m = kvsi_stored_metric(task, "acc");

        for (size_t i = 0; i < task->count; i++) {
            const kvsi_stored_document *d = task->documents + i;
            kvsi_part *part = parts + d->copied;

            part->count++;
            part->right += m < task->metric_count && d->metrics[m] == 1;
            kvsi_running_add(likelihoods + d->copied, d->likelihoods[0]);
        }
    }
    for (int p = 0; p < 2; p++)
        parts[p].likelihood = kvsi_running_estimate(likelihoods + p);
}
