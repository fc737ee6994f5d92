/* The loss of theorem 3 over the paper's square: its minimum on a grid, and gradient descent on all
 * four coefficients without constraints. */
#include "theory/theorem3.h"

#include <math.h>

enum { FINEST = 1 << 12 };

kvs_coefficients kvs_square(double alpha1, double beta1)
{
    return (kvs_coefficients){
        .alpha1 = alpha1, .alpha2 = 1 - alpha1, .beta1 = beta1, .beta2 = 1 - beta1};
}

kvs_status kvs_theorem3_minimum(kvs_coefficients *where, double *loss, const kvs_theorem3 *problem,
                                size_t steps, kvs_err *err)
{
    NEED(where);
    NEED(loss);
    NEED(problem);
    TRY(kvsi_theorem3_check(problem, err));
    if (steps < 1 || steps > FINEST)
        return kvsi_fail(err, KVS_E_INVALID, "steps per side is '%zu', expected 1 to %d", steps,
                         FINEST);
    *loss = INFINITY;
    for (size_t a = 0; a <= steps; a++)
        for (size_t b = 0; b <= steps; b++) {
            const kvs_coefficients at =
                kvs_square((double)a / (double)steps, (double)b / (double)steps);
            const double found = kvsi_theorem3_loss(NULL, problem, &at);

            if (found < *loss) {
                *loss = found;
                *where = at;
            }
        }
    return KVS_OK;
}

/* Adam for one coefficient, with betas 0.9 and 0.999, eps 1e-8. */
typedef struct moments {
    double first, second;
} moments;

static void adam(double *x, moments *m, double g, double lr, uint64_t step)
{
    const double beta1 = 0.9, beta2 = 0.999, eps = 1e-8;

    m->first = beta1 * m->first + (1 - beta1) * g;
    m->second = beta2 * m->second + (1 - beta2) * g * g;
    *x -= lr * m->first / (1 - pow(beta1, (double)step)) /
          (sqrt(m->second / (1 - pow(beta2, (double)step))) + eps);
}

kvs_status kvs_theorem3_descend(kvs_coefficients *at, const kvs_theorem3 *problem,
                                const kvs_descent *descent, kvs_err *err)
{
    moments m[4] = {{0}};

    NEED(at);
    NEED(problem);
    NEED(descent);
    TRY(kvsi_theorem3_check(problem, err));
    if (!(descent->lr > 0) || !isfinite(descent->lr))
        return kvsi_fail(err, KVS_E_INVALID, "lr is '%g', expected a number above 0", descent->lr);
    for (uint64_t step = 1; step <= descent->steps; step++) {
        kvs_coefficients g;
        const double loss = kvsi_theorem3_loss(&g, problem, at);
        double *const coefficients[] = {&at->alpha1, &at->alpha2, &at->beta1, &at->beta2};
        const double gradient[] = {g.alpha1, g.alpha2, g.beta1, g.beta2};

        if (descent->visit)
            descent->visit(descent->user, step, loss, at);
        for (size_t n = 0; n < 4; n++)
            adam(coefficients[n], &m[n], gradient[n], descent->lr, step);
    }
    return KVS_OK;
}
