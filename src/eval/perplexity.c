/* The loss of texts: every token but a text's first is predicted once, from as much context as its
 * window gives it. */
#include "base/memory.h"
#include "model/pass.h"

#include <math.h>

static kvs_status check(const kvs_model *model, const kvs_perplexity_options *o, kvs_err *err)
{
    kvsi_dtype cache;

    if (o->window < 2 || o->window > model->config.context)
        return kvsi_fail(err, KVS_E_INVALID, "window is %zu, expected 2 to the context %zu",
                         o->window, model->config.context);
    if (o->stride < 1 || o->stride > o->window)
        return kvsi_fail(err, KVS_E_INVALID, "stride is %zu, expected 1 to the window %zu",
                         o->stride, o->window);
    return kvsi_cache_type(&cache, o->cache, err);
}

/* How many tokens are to be predicted. */
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

typedef struct sums {
    double loss, squares;
    uint64_t tokens, fed;
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
    s->fed += end - start;
    return KVS_OK;
}

static kvs_perplexity_result result_of(const sums *s)
{
    const double n = (double)s->tokens, loss = s->loss / n;
    const double variance = fmax(s->squares / n - loss * loss, 0);

    return (kvs_perplexity_result){
        .tokens = s->tokens,
        .fed = s->fed,
        .loss = loss,
        .loss_error = sqrt(variance / n),
        .perplexity = exp(loss),
    };
}

/* All windows of one text; `all` predictions are to be made in all texts. */
static kvs_status run_text(kvsi_pass *pass, int32_t *targets, const int32_t *ids, size_t count,
                           const kvs_perplexity_options *o, size_t all, sums *s, int *stopped,
                           kvs_err *err)
{
    size_t done = 0;

    for (size_t start = 0; done + 1 < count && !*stopped; start += o->stride) {
        const size_t end = start + o->window < count - 1 ? start + o->window : count - 1;
        const kvs_status st = run_window(pass, targets, ids, start, done, end, s, err);

        if (st != KVS_OK)
            return st;
        done = end;
        *stopped = o->progress && o->progress(o->user, (size_t)s->tokens, all);
    }
    return KVS_OK;
}

kvs_status kvs_perplexity(kvs_perplexity_result *out, const kvs_model *model, const int32_t *ids,
                          size_t count, const kvs_perplexity_options *options, kvs_err *err)
{
    const kvsi_pass_limits limits = {.tokens = options->window,
                                     .sequences = 1,
                                     .head_rows = options->window,
                                     .halves = options->cache == KVS_DTYPE_F16};
    const size_t whole[] = {0, count};
    const size_t texts = options->texts ? options->texts : 1;
    const size_t *starts = options->texts ? options->starts : whole;
    kvsi_pass *pass = NULL;
    int32_t *targets = NULL;
    size_t all = 0;
    int stopped = 0;
    sums s = {0};
    kvs_status st;

    KVS_TRY(check(model, options, err));
    KVS_TRY(count_targets(&all, starts, texts, count, err));
    KVS_TRY(kvsi_pass_create(&pass, model, &limits, err));
    targets = kvsi_alloc(options->window, sizeof *targets);
    if (!targets) {
        st = kvsi_fail(err, KVS_E_NOMEM, "out of memory for a window of %zu", options->window);
        goto out;
    }
    for (size_t t = 0; t < texts && !stopped; t++)
        KVS_TRY(run_text(pass, targets, ids + starts[t], starts[t + 1] - starts[t], options, all,
                         &s, &stopped, err));
    *out = result_of(&s);
out:
    kvsi_pass_free(pass);
    kvsi_free(targets);
    return st;
}
