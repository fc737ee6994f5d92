/* The loss of a text: every token but the first is predicted once, from as much context as its
 * window gives it. */
#include "base/memory.h"
#include "model/pass.h"

#include <math.h>

static kvs_status check(const kvs_model *model, const kvs_perplexity_options *o, size_t count,
                        kvs_err *err)
{
    if (o->window < 2 || o->window > model->config.context)
        return kvsi_fail(err, KVS_E_INVALID, "window is %zu, expected 2 to the context %zu",
                         o->window, model->config.context);
    if (o->stride < 1 || o->stride > o->window)
        return kvsi_fail(err, KVS_E_INVALID, "stride is %zu, expected 1 to the window %zu",
                         o->stride, o->window);
    if (count < 2)
        return kvsi_fail(err, KVS_E_INVALID, "a text of %zu tokens has nothing to predict", count);
    return KVS_OK;
}

typedef struct sums {
    double loss, squares;
    uint64_t tokens;
} sums;

/* One window from `start` on; predicts the tokens after `done`, of which the last is `end`. */
static kvs_status run_window(kvsi_pass *pass, int32_t *targets, const int32_t *ids, size_t start,
                             size_t done, size_t end, sums *s, kvs_err *err)
{
    const size_t starts[] = {0, end - start};
    const kvs_batch batch = {
        .sequences = 1, .starts = starts, .ids = ids + start, .targets = targets};
    kvs_status st;

    for (size_t t = start; t < end; t++)
        targets[t - start] = t + 1 > done ? ids[t + 1] : -1;
    st = kvsi_pass_load(pass, &batch, NULL, err);
    if (st != KVS_OK)
        return st;
    kvsi_pass_forward(pass);
    s->loss += kvsi_pass_loss(pass, NULL).sum;
    for (size_t r = 0; r < pass->head_rows; r++)
        s->squares += (double)pass->host_losses[r] * (double)pass->host_losses[r];
    s->tokens += pass->head_rows;
    return KVS_OK;
}

static kvs_perplexity_result result_of(const sums *s)
{
    const double n = (double)s->tokens, loss = s->loss / n;
    const double variance = fmax(s->squares / n - loss * loss, 0);

    return (kvs_perplexity_result){
        .tokens = s->tokens,
        .loss = loss,
        .loss_error = sqrt(variance / n),
        .perplexity = exp(loss),
    };
}

kvs_status kvs_perplexity(kvs_perplexity_result *out, const kvs_model *model, const int32_t *ids,
                          size_t count, const kvs_perplexity_options *options, kvs_err *err)
{
    const kvsi_pass_limits limits = {
        .tokens = options->window, .sequences = 1, .head_rows = options->window};
    kvsi_pass *pass = NULL;
    int32_t *targets = NULL;
    sums s = {0};
    size_t done = 0;
    kvs_status st;

    KVS_TRY(check(model, options, count, err));
    KVS_TRY(kvsi_pass_create(&pass, model, &limits, err));
    targets = kvsi_alloc(options->window, sizeof *targets);
    if (!targets) {
        st = kvsi_fail(err, KVS_E_NOMEM, "out of memory for a window of %zu", options->window);
        goto out;
    }
    for (size_t start = 0; done + 1 < count; start += options->stride) {
        const size_t end =
            start + options->window < count - 1 ? start + options->window : count - 1;

        KVS_TRY(run_window(pass, targets, ids, start, done, end, &s, err));
        done = end;
        if (options->progress && options->progress(options->user, done, count - 1))
            break;
    }
    *out = result_of(&s);
out:
    kvsi_pass_free(pass);
    kvsi_free(targets);
    return st;
}
