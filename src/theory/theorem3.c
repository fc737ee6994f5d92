/* Theorem 3: the loss of a one-layer network on induction as a function of its four coefficients.
 *
 * The sequence is x_1 .. x_T, all different, then x_i once more; the answer is x_{i+1}.  Weights
 * are identity matrices, there are no positions and no 1/sqrt(d), and for d -> infinity the
 * embeddings are orthogonal.  The last token then attends with weight e^{alpha1} to tokens i and
 * T+1, e^{alpha2} to token i+1 and 1 to the T-2 others, all divided by
 *
 *     S = 2 e^{alpha1} + e^{alpha2} + T - 2
 *
 * A token's logit is beta1 times the weight of its own position plus beta2 times the weight of the
 * next position.  Tokens fall into kinds with equal logits, so the loss and its gradient are sums
 * over a table of kinds.  A row holds the factors of beta1 and beta2 as multiples of 1, e^{alpha1}
 * and e^{alpha2}.
 *
 * The paper's formula differs in one row: tokens i-1 and T have beta2 e^{alpha2} instead of
 * beta2 e^{alpha1}. */
#include "theory/theorem3.h"

#include "base/memory.h"

#include <math.h>

enum { ONE, E1, E2, WEIGHTS };  /* values of attention weights */
enum { KINDS = 4, ANSWER = 0 }; /* the first kind is the answer */

enum { LONGEST = 1 << 20 }; /* brute force over all i takes T^2 steps */

typedef struct kind {
    double count;         /* tokens of this kind */
    double own[WEIGHTS];  /* at the token's own position: times beta1 */
    double next[WEIGHTS]; /* at the next position: times beta2 */
} kind;

typedef struct table {
    kind kinds[KINDS];
    double others; /* in S */
} table;

/* ---- the tables ------------------------------------------------------------------------------ */

static table exact(size_t length, size_t i)
{
    const int first = i == 1, last = i + 1 == length;
    const double T = (double)length;

    return (table){
        .kinds = {{1, {[E2] = 1}, {[ONE] = !last, [E1] = last}},
                  {1, {[E1] = 2}, {[E2] = 1}},
                  {2 - first - last, {[ONE] = 1}, {[E1] = 1}},
                  {T - 4 + first + last, {[ONE] = 1}, {[ONE] = 1}}},
        .others = T - 2,
    };
}

static table printed(size_t length)
{
    table t = exact(length, 0); /* no edge */

    t.kinds[2] = (kind){2, {[ONE] = 1}, {[E2] = 1}};
    return t;
}

/* As in the paper's figure: one constant replaces both O(T) of the theorem. */
static table figure(size_t constant)
{
    table t = printed(4);

    t.kinds[3] = (kind){.count = (double)constant}; /* logits 0 */
    t.others = (double)constant;
    return t;
}

static table table_of(const kvs_theorem3 *problem)
{
    switch (problem->form) {
    case KVS_THEOREM3_PRINTED:
        return printed(problem->T);
    case KVS_THEOREM3_FIGURE:
        return figure(problem->T);
    case KVS_THEOREM3_EXACT:
        break;
    }
    return exact(problem->T, problem->i);
}

kvs_status kvsi_theorem3_check(const kvs_theorem3 *problem, kvs_err *err)
{
    const size_t T = problem->T, i = problem->i;
    const size_t least = problem->form == KVS_THEOREM3_FIGURE ? 0 : i > 0 ? 3 : 4;

    if (problem->form != KVS_THEOREM3_EXACT && problem->form != KVS_THEOREM3_PRINTED &&
        problem->form != KVS_THEOREM3_FIGURE)
        return kvsi_fail(err, KVS_E_INVALID, "unknown form %d of theorem 3", (int)problem->form);
    if (T < least || T > LONGEST)
        return kvsi_fail(err, KVS_E_INVALID, "T is '%zu', expected %zu to %d", T, least, LONGEST);
    if (i > 0 && problem->form != KVS_THEOREM3_EXACT)
        return kvsi_fail(err, KVS_E_INVALID,
                         "i is '%zu', expected 0: the paper's formula has no edge cases", i);
    if (i >= T && i > 0)
        return kvsi_fail(err, KVS_E_INVALID, "i is '%zu', expected 1 to %zu at T '%zu'", i, T - 1,
                         T);
    return KVS_OK;
}

/* ---- loss and gradient ----------------------------------------------------------------------- */

static double times(const double factors[WEIGHTS], const double e[WEIGHTS])
{
    return factors[ONE] * e[ONE] + factors[E1] * e[E1] + factors[E2] * e[E2];
}

/* Adds `share` times the gradient of the logit l of one kind:
 * l = (beta1 own + beta2 next) / S, d S / d alpha1 = 2 e^{alpha1}, d S / d alpha2 = e^{alpha2}. */
static void add_gradient(kvs_coefficients *g, double share, double logit, const kind *k,
                         const double e[WEIGHTS], double sum, const kvs_coefficients *at)
{
    const double per_e1 = at->beta1 * k->own[E1] + at->beta2 * k->next[E1] - 2 * logit;
    const double per_e2 = at->beta1 * k->own[E2] + at->beta2 * k->next[E2] - logit;

    g->alpha1 += share * e[E1] * per_e1 / sum;
    g->alpha2 += share * e[E2] * per_e2 / sum;
    g->beta1 += share * times(k->own, e) / sum;
    g->beta2 += share * times(k->next, e) / sum;
}

double kvsi_theorem3_loss(kvs_coefficients *gradient, const kvs_theorem3 *problem,
                          const kvs_coefficients *at)
{
    const double e[WEIGHTS] = {1, exp(at->alpha1), exp(at->alpha2)};
    const table t = table_of(problem);
    const double sum = 2 * e[E1] + e[E2] + t.others;
    double logits[KINDS], most = -INFINITY, all = 0;

    for (size_t k = 0; k < KINDS; k++) {
        const kind *kd = &t.kinds[k];

        logits[k] = (at->beta1 * times(kd->own, e) + at->beta2 * times(kd->next, e)) / sum;
        if (kd->count > 0)
            most = fmax(most, logits[k]);
    }
    for (size_t k = 0; k < KINDS; k++)
        all += t.kinds[k].count * (t.kinds[k].count > 0 ? exp(logits[k] - most) : 0);
    if (gradient) {
        *gradient = (kvs_coefficients){0};
        for (size_t k = 0; k < KINDS; k++) {
            const double count = t.kinds[k].count;
            const double p = count > 0 ? count * exp(logits[k] - most) / all : 0;

            add_gradient(gradient, p - (k == ANSWER), logits[k], &t.kinds[k], e, sum, at);
        }
    }
    return most + log(all) - logits[ANSWER];
}

kvs_status kvs_theorem3_loss(double *loss, kvs_coefficients *gradient, const kvs_theorem3 *problem,
                             const kvs_coefficients *at, kvs_err *err)
{
    NEED(loss);
    NEED(problem);
    NEED(at);
    TRY(kvsi_theorem3_check(problem, err));
    *loss = kvsi_theorem3_loss(gradient, problem, at);
    return KVS_OK;
}

/* ---- brute force ----------------------------------------------------------------------------- */

/* Dot product of two tokens' embeddings; token 0 is the zero vector before the first. */
static double dot(size_t a, size_t b)
{
    return a > 0 && a == b;
}

/* Attention and logits position by position, from the definition. */
static double brute_force(double *logits, size_t T, size_t i, const kvs_coefficients *at)
{
    double sum = 0, all = 0;

    for (size_t token = 1; token <= T; token++)
        logits[token - 1] = 0;
    for (size_t place = 1; place <= T + 1; place++) {
        const size_t here = place <= T ? place : i, before = place - 1;
        const double weight = exp(at->alpha1 * dot(i, here) + at->alpha2 * dot(i, before));

        sum += weight;
        logits[here - 1] += weight * at->beta1;
        if (before > 0)
            logits[before - 1] += weight * at->beta2;
    }
    for (size_t token = 1; token <= T; token++) {
        logits[token - 1] /= sum;
        all += exp(logits[token - 1]);
    }
    return log(all) - logits[i]; /* token i + 1 */
}

kvs_status kvs_theorem3_brute_force(double *loss, size_t T, size_t i, const kvs_coefficients *at,
                                    kvs_err *err)
{
    const kvs_theorem3 problem = {.form = KVS_THEOREM3_EXACT, .T = T, .i = i};
    double *logits = NULL;
    kvs_status st;

    NEED(loss);
    NEED(at);
    TRY_OUT(kvsi_theorem3_check(&problem, err));
    logits = kvsi_alloc(T, sizeof *logits);
    if (!logits) {
        st = kvsi_no_memory(err, "%zu logits", T);
        goto out;
    }
    *loss = brute_force(logits, T, i > 0 ? i : 2, at);
out:
    kvsi_free(logits);
    return st;
}

kvs_status kvs_theorem3_difference(double *most, size_t T, const kvs_coefficients *at, kvs_err *err)
{
    NEED(most);
    NEED(at);
    if (T < 3)
        return kvsi_fail(err, KVS_E_INVALID, "T is '%zu', expected at least 3", T);
    *most = 0;
    for (size_t i = 1; i < T; i++) {
        const kvs_theorem3 problem = {.form = KVS_THEOREM3_EXACT, .T = T, .i = i};
        double exact, brute;

        TRY(kvs_theorem3_loss(&exact, NULL, &problem, at, err));
        TRY(kvs_theorem3_brute_force(&brute, T, i, at, err));
        *most = fmax(*most, fabs(exact - brute));
    }
    return KVS_OK;
}
