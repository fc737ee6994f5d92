/* Theorem 1: two ordinary layers of width 2d approximate an induction head with an error of
 * O(e^-p).
 *
 * The first layer, whose scores depend on positions only, copies the previous token into the second
 * half of each token, mixed with the tokens before that:
 *
 *     y_s = sum_{r < s} softmax_r(-p (s - 1 - r)) x_r       ->  x_{s-1} as p grows
 *
 * The second compares x_L with the y_s and copies x_s.  The proof sums to s - 1: in the first layer
 * a token must not attend to itself, although causal attention does.  If it does, y_s tends to x_s,
 * and the construction is not an induction head for any slope. */
#include "base/memory.h"
#include "theory/induction_head.h"

#include <math.h>

typedef struct work {
    double *x, *y;       /* [length, dim]: the two halves of each token */
    double *head, *made; /* [dim] */
    double *scores;      /* [length] */
} work;

/* y_s of tokens 2 .. length-1, into rows 1 .. length-2. */
static void first_layer(work *w, const kvs_induction_problem *p, double slope, int sees_itself)
{
    for (size_t s = 2; s < p->length; s++) {
        const size_t seen = sees_itself ? s : s - 1;

        for (size_t r = 1; r <= seen; r++)
            w->scores[r - 1] = -slope * (double)(seen - r);
        kvsi_attend(w->y + (s - 1) * p->dim, w->scores, w->x, seen, p->dim);
    }
}

/* |IH - TF| on the input in w->x; *copy becomes the largest |y_s - x_{s-1}| if that is larger. */
static double error_of(work *w, const kvs_induction_problem *p, double slope, int sees_itself,
                       double *copy)
{
    const size_t d = p->dim;
    double wrong;

    first_layer(w, p, slope, sees_itself);
    wrong = kvsi_largest_difference(w->y + d, w->x, (p->length - 2) * d);
    *copy = fmax(*copy, wrong);
    kvsi_look_up(w->made, w->x, w->y + d, w->x + d, 2, p->length - 1, p, w->scores);
    kvsi_induction_head(w->head, w->x, p, w->scores);
    return kvsi_largest_difference(w->made, w->head, d);
}

kvs_status kvs_theorem1(kvs_theorem1_result *out, const kvs_induction_problem *problem, double p,
                        kvs_err *err)
{
    kvs_theorem1_result found = {0};
    double ignored = 0;
    work w = {0};
    kvs_status st;

    NEED(out);
    NEED(problem);
    TRY_OUT(kvsi_induction_problem_check(problem, err));
    if (!(p > 0) || !isfinite(p)) {
        st = kvsi_fail(err, KVS_E_INVALID, "p is '%g', expected a number above 0", p);
        goto out;
    }
    w.x = kvsi_alloc(problem->length * problem->dim, sizeof *w.x);
    w.y = kvsi_alloc(problem->length * problem->dim, sizeof *w.y);
    w.head = kvsi_alloc(problem->dim, sizeof *w.head);
    w.made = kvsi_alloc(problem->dim, sizeof *w.made);
    w.scores = kvsi_alloc(problem->length, sizeof *w.scores);
    if (!w.x || !w.y || !w.head || !w.made || !w.scores) {
        st = kvsi_no_memory(err, "inputs of %zu tokens", problem->length);
        goto out;
    }
    for (size_t i = 0; i < problem->inputs; i++) {
        kvsi_random random;

        kvsi_random_init(&random, problem->seed, KVSI_RANDOM_EVAL, i);
        kvsi_induction_input(w.x, problem, &random);
        found.error = fmax(found.error, error_of(&w, problem, p, 0, &found.copy_error));
        found.self_error = fmax(found.self_error, error_of(&w, problem, p, 1, &ignored));
    }
    found.bound = 4 * (double)problem->dim / problem->sigma * exp(-p) / (1 - exp(-p));
    *out = found;
out:
    kvsi_free(w.x);
    kvsi_free(w.y);
    kvsi_free(w.head);
    kvsi_free(w.made);
    kvsi_free(w.scores);
    return st;
}
