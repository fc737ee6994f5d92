/* Loss on texts: each token except a text's first is predicted once, from the context in its
 * window. */
#include "base/memory.h"
#include "base/statistics.h"
#include "eval/divergence.h"
#include "kvshift/kvshift_lab.h"

#include <math.h>

static kvs_status check(const kvs_model *model, const kvs_perplexity_options *o, kvs_err *err)
{
    kvsi_dtype cache;

    TRY(kvsi_cache_type(&cache, o->cache, err));
    if (o->window < 2 || o->window > model->config.context)
        return kvsi_fail(err, KVS_E_INVALID, "window is %zu, expected 2 to the context %zu",
                         o->window, model->config.context);
    if (o->reference && o->window > o->reference->config.context)
        return kvsi_fail(err, KVS_E_INVALID,
                         "window is %zu, expected at most the context of the reference, %zu",
                         o->window, o->reference->config.context);
    if (o->stride < 1 || o->stride > o->window)
        return kvsi_fail(err, KVS_E_INVALID, "stride is %zu, expected 1 to the window %zu",
                         o->stride, o->window);
    return kvsi_cache_check(&model->config, cache, err);
}

/* Number of tokens to predict. */
static kvs_status count_targets(size_t *out, const size_t *starts, size_t texts, size_t count,
                                kvs_err *err)
{
    *out = 0;
    for (size_t t = 0; t < texts; t++) {
        if (starts[t] > starts[t + 1] || starts[t + 1] > count)
            return kvsi_fail(err, KVS_E_INVALID, "text %zu is tokens %zu to %zu of %zu", t,
                             starts[t], starts[t + 1], count);
        *out += starts[t + 1] > starts[t] ? starts[t + 1] - starts[t] - 1 : 0;
    }
    if (*out == 0)
        return kvsi_fail(err, KVS_E_INVALID, "a text of %zu tokens has nothing to predict", count);
    return KVS_OK;
}

/* Passes, and sums over all windows. */
typedef struct measurement {
    kvsi_pass *pass, *reference; /* reference: NULL = none */
    kvsi_divergence divergence;
    int32_t *targets; /* [window] */
    double loss, squares, reference_loss;
    uint64_t tokens, fed;
} measurement;

static kvs_status measurement_init(measurement *m, const kvs_model *model,
                                   const kvs_perplexity_options *o, kvs_err *err)
{
    kvsi_pass_limits limits = {.tokens = o->window, .sequences = 1, .head_rows = o->window};

    if (o->reference)
        TRY(kvsi_pass_create(&m->reference, o->reference, &limits, err));
    TRY(kvsi_cache_type(&limits.cache, o->cache, err));
    TRY(kvsi_pass_create(&m->pass, model, &limits, err));
    if (o->reference)
        TRY(kvsi_divergence_init(&m->divergence, m->pass, m->reference, err));
    m->targets = kvsi_alloc(o->window, sizeof *m->targets);
    if (!m->targets)
        return kvsi_no_memory(err, "a window of %zu", o->window);
    return KVS_OK;
}

static void measurement_release(measurement *m)
{
    kvsi_divergence_release(&m->divergence);
    kvsi_pass_free(m->pass);
    kvsi_pass_free(m->reference);
    kvsi_free(m->targets);
}

static kvs_status run_pass(kvsi_pass *pass, const kvs_batch *batch, double *loss, kvs_err *err)
{
    kvsi_loss now;

    TRY(kvsi_pass_load(pass, batch, NULL, err));
    kvsi_pass_forward(pass);
    TRY(kvsi_pass_loss(pass, NULL, &now, err));
    *loss += now.sum;
    return KVS_OK;
}

/* Runs the window [start, end) and predicts the tokens after `done` up to `end`. */
static kvs_status run_window(measurement *m, const int32_t *ids, size_t start, size_t done,
                             size_t end, kvs_err *err)
{
    const size_t starts[] = {0, end - start};
    const kvs_batch batch = {
        .sequences = 1, .starts = starts, .ids = ids + start, .targets = m->targets};

    for (size_t t = start; t < end; t++)
        m->targets[t - start] = t + 1 > done ? ids[t + 1] : -1;
    TRY(run_pass(m->pass, &batch, &m->loss, err));
    for (size_t r = 0; r < m->pass->head_rows; r++)
        m->squares += (double)m->pass->host_losses[r] * (double)m->pass->host_losses[r];
    m->tokens += m->pass->head_rows;
    m->fed += end - start;
    if (m->reference) {
        TRY(run_pass(m->reference, &batch, &m->reference_loss, err));
        TRY(kvsi_divergence_add(&m->divergence, done > start ? done - start : 0, end - start, err));
    }
    return KVS_OK;
}

static kvs_perplexity_result result_of(const measurement *m)
{
    const double n = (double)m->tokens, loss = m->loss / n;
    const kvsi_divergence *d = &m->divergence;
    kvs_perplexity_result result = {
        .tokens = m->tokens,
        .fed = m->fed,
        .loss = loss,
        .loss_error = kvsi_error_of_sums(m->loss, m->squares, n),
        .perplexity = exp(loss),
    };

    if (m->reference) {
        result.reference_loss = m->reference_loss / n;
        result.divergence = d->sum / n;
        result.divergence_error = kvsi_error_of_sums(d->sum, d->squares, n);
        result.same_best = (double)d->same / n;
    }
    return result;
}

/* All windows of one text; `all`: predictions in all texts, for progress. */
static kvs_status run_text(measurement *m, const int32_t *ids, size_t count,
                           const kvs_perplexity_options *o, size_t all, int *stopped, kvs_err *err)
{
    size_t done = 0;

    for (size_t start = 0; done + 1 < count && !*stopped; start += o->stride) {
        const size_t end = start + o->window < count - 1 ? start + o->window : count - 1;

        TRY(run_window(m, ids, start, done, end, err));
        done = end;
        *stopped = o->progress && o->progress(o->user, (size_t)m->tokens, all);
    }
    return KVS_OK;
}

kvs_status kvs_perplexity(kvs_perplexity_result *out, const kvs_model *model, const int32_t *ids,
                          size_t count, const kvs_perplexity_options *options, kvs_err *err)
{
    const size_t whole[] = {0, count};
    size_t texts;
    const size_t *starts;
    measurement m = {0};
    size_t all = 0;
    int stopped = 0;
    kvs_status st;

    NEED(out);
    NEED(model);
    NEED_ARRAY(ids, count);
    NEED(options);
    texts = options->texts ? options->texts : 1;
    starts = options->texts ? options->starts : whole;
    NEED(starts);
    TRY_OUT(check(model, options, err));
    TRY_OUT(count_targets(&all, starts, texts, count, err));
    TRY_OUT(measurement_init(&m, model, options, err));
    for (size_t t = 0; t < texts && !stopped; t++)
        TRY_OUT(
            run_text(&m, ids + starts[t], starts[t + 1] - starts[t], options, all, &stopped, err));
    *out = result_of(&m);
out:
    measurement_release(&m);
    return st;
}
