/* Theorem 3 as a real network of this library.  With orthogonal embeddings it is the theorem's
 * limit; with random embeddings of finite width it approximates that. */
#include "base/memory.h"
#include "base/random.h"
#include "base/statistics.h"
#include "theory/network.h"
#include "theory/theorem3.h"

#include <math.h>

enum { WIDEST = 1 << 14 };

typedef struct trial {
    kvs_model *network;
    kvs_session *session;
    double *embeddings; /* [T, dim] */
    int32_t *ids;       /* [T + 1] */
    float *logits;      /* [T] */
    size_t T, dim;
} trial;

static void trial_release(trial *t)
{
    kvs_session_free(t->session);
    kvs_model_free(t->network);
    kvsi_free(t->embeddings);
    kvsi_free(t->ids);
    kvsi_free(t->logits);
    *t = (trial){0};
}

static kvs_status trial_init(trial *out, kvs_runtime *rt, size_t T, size_t dim,
                             const kvs_coefficients *at, kvs_err *err)
{
    const kvsi_network_plan plan = {
        .tokens = T, .dim = dim, .context = T + 1, .score_scale = 1, .tied = 1};
    trial t = {.T = T, .dim = dim};
    kvs_status st = KVS_OK;

    if (T > WIDEST || dim < 1 || dim > WIDEST) {
        st = kvsi_fail(err, KVS_E_INVALID,
                       "a network of %zu tokens and dim '%zu', expected 1 to %d", T, dim, WIDEST);
        goto out;
    }
    t.embeddings = kvsi_alloc(T * dim, sizeof *t.embeddings);
    t.ids = kvsi_alloc(T + 1, sizeof *t.ids);
    t.logits = kvsi_alloc(T, sizeof *t.logits);
    if (!t.embeddings || !t.ids || !t.logits) {
        st = kvsi_no_memory(err, "%zu embeddings", T);
        goto out;
    }
    for (size_t token = 0; token < T; token++)
        t.ids[token] = (int32_t)token;
    TRY_OUT(kvsi_network_create(&t.network, rt, &plan, at, err));
    TRY_OUT(kvs_session_create(&t.session, t.network, NULL, err));
    *out = t;
    t = (trial){0};
out:
    trial_release(&t);
    return st;
}

/* Loss with the current embeddings; i counts from 1. */
static kvs_status trial_run(trial *t, size_t i, double *loss, kvs_err *err)
{
    t->ids[t->T] = (int32_t)(i - 1);
    TRY(kvsi_network_embed(t->network, t->embeddings, err));
    kvs_session_reset(t->session);
    TRY(kvs_session_feed(t->session, t->ids, t->T + 1, t->logits, err));
    *loss = -kvs_logits_logprob(t->logits, t->T, (int32_t)i);
    return KVS_OK;
}

kvs_status kvs_theorem3_network(double *loss, kvs_runtime *rt, size_t T, size_t i,
                                const kvs_coefficients *at, kvs_err *err)
{
    const kvs_theorem3 problem = {.form = KVS_THEOREM3_EXACT, .T = T, .i = i};
    trial t = {0};
    kvs_status st;

    NEED(loss);
    NEED(rt);
    NEED(at);
    TRY_OUT(kvsi_theorem3_check(&problem, err));
    TRY_OUT(trial_init(&t, rt, T, T, at, err));
    for (size_t token = 0; token < T; token++)
        t.embeddings[token * T + token] = 1;
    TRY_OUT(trial_run(&t, i > 0 ? i : 2, loss, err));
out:
    trial_release(&t);
    return st;
}

/* Sample number `number`: embeddings ~ N(0, 1/dim), and an i away from the edges. */
static kvs_status sample(trial *t, uint64_t seed, size_t number, double *loss, kvs_err *err)
{
    kvsi_random random;
    size_t i;

    kvsi_random_init(&random, seed, KVSI_RANDOM_EVAL, number);
    i = 2 + kvsi_random_below(&random, (uint32_t)(t->T - 3));
    for (size_t n = 0; n < t->T * t->dim; n++)
        t->embeddings[n] = kvsi_random_normal(&random) / sqrt((double)t->dim);
    return trial_run(t, i, loss, err);
}

kvs_status kvs_theorem3_monte_carlo(kvs_estimate *out, kvs_runtime *rt, size_t T,
                                    const kvs_coefficients *at, size_t dim, size_t samples,
                                    uint64_t seed, kvs_err *err)
{
    const kvs_theorem3 problem = {.form = KVS_THEOREM3_EXACT, .T = T};
    kvsi_running losses = {0};
    kvsi_estimate estimate;
    trial t = {0};
    kvs_status st;

    NEED(out);
    NEED(rt);
    NEED(at);
    TRY_OUT(kvsi_theorem3_check(&problem, err));
    if (samples < 2) {
        st = kvsi_fail(err, KVS_E_INVALID, "samples is '%zu', expected at least 2", samples);
        goto out;
    }
    TRY_OUT(trial_init(&t, rt, T, dim, at, err));
    for (size_t n = 0; n < samples; n++) {
        double loss;

        TRY_OUT(sample(&t, seed, n, &loss, err));
        kvsi_running_add(&losses, loss);
    }
    estimate = kvsi_running_estimate(&losses);
    *out = (kvs_estimate){estimate.mean, estimate.error};
out:
    trial_release(&t);
    return st;
}
