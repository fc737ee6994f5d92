/* Theorem 2: one layer of KV shifting attention, of width d, is an induction head: with
 * alpha = (0, 1), beta = (1, 0), identity weights, ALiBi's slope and 1/sigma in the scores,
 *
 *     KVSA(x) = sum_{s=1..L} softmax_s(x_L . x_{s-1} / sigma - slope (L - s)) x_s,   x_0 = 0
 *
 * The induction head sums s = 2 .. L-1, so the two are equal only if the first and the last token
 * are masked out.  Otherwise they differ by the weights of those two, about e^(-1/sigma) each.  If
 * x_{L-1} = x_L, the last token matches as well as the right one, for any sigma. */
#include "base/memory.h"
#include "theory/induction_head.h"
#include "theory/network.h"

#include <math.h>

static const kvs_coefficients induction = {.alpha1 = 0, .alpha2 = 1, .beta1 = 1, .beta2 = 0};

typedef struct work {
    kvs_induction_problem problem; /* of the input in x */
    double *x, *keys, *values;     /* [length, dim] */
    double *head, *made;           /* [dim] */
    double *scores;                /* [length] */
} work;

/* x shifted by one token, with zeros before the first. */
static void shift(double *out, const double *x, double current, double previous, size_t length,
                  size_t dim)
{
    for (size_t i = 0; i < length * dim; i++)
        out[i] = current * x[i] + (i >= dim ? previous * x[i - dim] : 0);
}

/* KVSA over tokens first .. last, into w->made. */
static void attend(work *w, const kvs_coefficients *at, size_t first, size_t last)
{
    const kvs_induction_problem *p = &w->problem;
    const size_t from = (first - 1) * p->dim;

    shift(w->keys, w->x, at->alpha1, at->alpha2, p->length, p->dim);
    shift(w->values, w->x, at->beta1, at->beta2, p->length, p->dim);
    kvsi_look_up(w->made, w->x, w->keys + from, w->values + from, first, last, p, w->scores);
}

static double gap(work *w, size_t first, size_t last)
{
    attend(w, &induction, first, last);
    kvsi_induction_head(w->head, w->x, &w->problem, w->scores);
    return kvsi_largest_difference(w->made, w->head, w->problem.dim);
}

/* ---- clean inputs: orthogonal tokens, row s is the unit vector of channel ids[s] ------------- */

/* The token in the middle is repeated at the end; with `neighbours` also just before the end. */
static int32_t clean_token(size_t s, size_t length, int neighbours)
{
    const size_t source = length / 2;

    return (int32_t)(s + 1 == length || (neighbours && s + 2 == length) ? source - 1 : s);
}

static void fill_clean(work *w, int neighbours)
{
    const size_t n = w->problem.length, d = w->problem.dim;

    for (size_t i = 0; i < n * d; i++)
        w->x[i] = 0;
    for (size_t s = 0; s < n; s++)
        w->x[s * d + (size_t)clean_token(s, n, neighbours)] = 1;
}

/* Compares the library's network on the clean input with w->made. */
static kvs_status run_network(double *difference, work *w, kvs_runtime *rt, kvs_err *err)
{
    const kvs_induction_problem *p = &w->problem;
    const size_t n = p->length;
    const kvsi_network_plan plan = {
        .tokens = n, .dim = n, .context = n, .score_scale = 1 / p->sigma, .slope = p->slope};
    double *unit = kvsi_alloc(n * n, sizeof *unit);
    float *logits = kvsi_alloc(n, sizeof *logits);
    int32_t *ids = kvsi_alloc(n, sizeof *ids);
    kvs_model *network = NULL;
    kvs_session *session = NULL;
    kvs_status st = KVS_OK;

    if (!unit || !logits || !ids) {
        st = kvsi_no_memory(err, "a network of %zu tokens", n);
        goto out;
    }
    for (size_t s = 0; s < n; s++) {
        unit[s * n + s] = 1;
        ids[s] = clean_token(s, n, 0);
    }
    TRY_OUT(kvsi_network_create(&network, rt, &plan, &induction, err));
    TRY_OUT(kvsi_network_embed(network, unit, err));
    TRY_OUT(kvs_session_create(&session, network, NULL, err));
    TRY_OUT(kvs_session_feed(session, ids, n, logits, err));
    *difference = 0;
    for (size_t i = 0; i < n; i++)
        *difference = fmax(*difference, fabs((double)logits[i] - w->made[i]));
out:
    kvs_session_free(session);
    kvs_model_free(network);
    kvsi_free(unit);
    kvsi_free(logits);
    kvsi_free(ids);
    return st;
}

/* ---- kvs_theorem2 ---------------------------------------------------------------------------- */

static void work_release(work *w)
{
    kvsi_free(w->x);
    kvsi_free(w->keys);
    kvsi_free(w->values);
    kvsi_free(w->head);
    kvsi_free(w->made);
    kvsi_free(w->scores);
    *w = (work){0};
}

/* Memory for inputs of the problem's dim and for clean ones, with one channel per token. */
static kvs_status work_init(work *w, const kvs_induction_problem *problem, kvs_err *err)
{
    const size_t n = problem->length, d = problem->dim > n ? problem->dim : n;

    *w = (work){.problem = *problem};
    w->x = kvsi_alloc(n * d, sizeof *w->x);
    w->keys = kvsi_alloc(n * d, sizeof *w->keys);
    w->values = kvsi_alloc(n * d, sizeof *w->values);
    w->head = kvsi_alloc(d, sizeof *w->head);
    w->made = kvsi_alloc(d, sizeof *w->made);
    w->scores = kvsi_alloc(n, sizeof *w->scores);
    if (w->x && w->keys && w->values && w->head && w->made && w->scores)
        return KVS_OK;
    work_release(w);
    return kvsi_no_memory(err, "inputs of %zu tokens", n);
}

kvs_status kvs_theorem2(kvs_theorem2_result *out, kvs_runtime *rt,
                        const kvs_induction_problem *problem, kvs_err *err)
{
    size_t length;
    kvs_theorem2_result found = {0};
    work w = {0};
    kvs_status st;

    NEED(out);
    NEED(rt);
    NEED(problem);
    length = problem->length;
    TRY_OUT(kvsi_induction_problem_check(problem, err));
    TRY_OUT(work_init(&w, problem, err));
    for (size_t i = 0; i < problem->inputs; i++) {
        kvsi_random random;

        kvsi_random_init(&random, problem->seed, KVSI_RANDOM_EVAL, i);
        kvsi_induction_input(w.x, problem, &random);
        found.masked = fmax(found.masked, gap(&w, 2, length - 1));
    }
    w.problem.dim = length;
    fill_clean(&w, 1);
    found.repeated = gap(&w, 1, length);
    fill_clean(&w, 0);
    found.printed = gap(&w, 1, length);
    TRY_OUT(run_network(&found.network, &w, rt, err));
    *out = found;
out:
    work_release(&w);
    return st;
}
