#include "eval/divergence.h"

#include "base/memory.h"

#include <math.h>

enum { ROWS = 32 }; /* rows of logits computed at a time */

kvs_status kvsi_divergence_init(kvsi_divergence *d, kvsi_pass *pass, kvsi_pass *reference,
                                kvs_err *err)
{
    const size_t width = kvsi_pass_logit_count(&pass->model->config);
    const size_t other = kvsi_pass_logit_count(&reference->model->config);

    d->pass = pass;
    d->reference = reference;
    if (width != other)
        return kvsi_fail(err, KVS_E_INVALID, "the model has %zu logits, the reference has %zu",
                         width, other);
    d->logits = kvsi_alloc(ROWS * width, sizeof *d->logits);
    d->reference_logits = kvsi_alloc(ROWS * width, sizeof *d->reference_logits);
    d->scratch = pass->context.ops->alloc(&pass->context, ROWS * width * sizeof *d->scratch);
    d->reference_scratch =
        reference->context.ops->alloc(&reference->context, ROWS * width * sizeof *d->scratch);
    if (!d->logits || !d->reference_logits || !d->scratch || !d->reference_scratch)
        return kvsi_no_memory(err, "%zu logits", ROWS * width);
    return KVS_OK;
}

void kvsi_divergence_release(kvsi_divergence *d)
{
    if (d->scratch)
        d->pass->context.ops->release(&d->pass->context, d->scratch);
    if (d->reference_scratch)
        d->reference->context.ops->release(&d->reference->context, d->reference_scratch);
    kvsi_free(d->reference_logits);
    kvsi_free(d->logits);
}

static size_t best_of(const real *logits, size_t width)
{
    size_t best = 0;

    for (size_t i = 1; i < width; i++)
        if (logits[i] > logits[best])
            best = i;
    return best;
}

/* log sum_i exp(logits[i]) */
static double log_sum(const real *logits, size_t width, double top)
{
    double sum = 0;

    for (size_t i = 0; i < width; i++)
        sum += exp((double)logits[i] - top);
    return top + log(sum);
}

static void add_row(kvsi_divergence *d, const real *q, const real *p, size_t width)
{
    const size_t best_q = best_of(q, width), best_p = best_of(p, width);
    const double sum_q = log_sum(q, width, (double)q[best_q]);
    const double sum_p = log_sum(p, width, (double)p[best_p]);
    double divergence = 0;

    for (size_t i = 0; i < width; i++) {
        const double log_p = (double)p[i] - sum_p, log_q = (double)q[i] - sum_q;

        divergence += exp(log_p) * (log_p - log_q);
    }
    d->sum += divergence;
    d->squares += divergence * divergence;
    d->rows++;
    d->same += best_p == best_q;
}

kvs_status kvsi_divergence_add(kvsi_divergence *d, size_t first, size_t end, kvs_err *err)
{
    const size_t width = kvsi_pass_logit_count(&d->pass->model->config);

    for (size_t at = first; at < end; at += ROWS) {
        const size_t count = end - at < ROWS ? end - at : ROWS;
        int32_t rows[ROWS];

        for (size_t i = 0; i < count; i++)
            rows[i] = (int32_t)(at + i);
        TRY(kvsi_pass_logits(d->pass, d->logits, d->scratch, rows, count, err));
        TRY(kvsi_pass_logits(d->reference, d->reference_logits, d->reference_scratch, rows, count,
                             err));
        for (size_t i = 0; i < count; i++)
            add_row(d, d->logits + i * width, d->reference_logits + i * width, width);
    }
    return KVS_OK;
}
