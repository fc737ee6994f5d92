#include "kernels/forms.h"

#include <math.h>

static size_t one_per_tap(size_t window)
{
    return window + 1;
}

static size_t one_per_head(size_t window)
{
    (void)window;
    return 1;
}

/* free: the numbers are the taps */

static void free_taps(real *taps, const real *numbers, size_t window)
{
    for (size_t j = 0; j <= window; j++)
        taps[j] = numbers[j];
}

static void free_backward(real *d_numbers, const double *d_taps, const real *numbers, size_t window)
{
    (void)numbers;
    for (size_t j = 0; j <= window; j++)
        d_numbers[j] += (real)d_taps[j];
}

static void free_from_taps(double *numbers, const double *taps, size_t window)
{
    for (size_t j = 0; j <= window; j++)
        numbers[j] = taps[j];
}

/* clamp: free, clipped; the gradient stops outside [0,1] and passes on its edges */

static void clamp_taps(real *taps, const real *numbers, size_t window)
{
    for (size_t j = 0; j <= window; j++)
        taps[j] = numbers[j] < 0 ? 0 : numbers[j] > 1 ? 1 : numbers[j];
}

static void clamp_backward(real *d_numbers, const double *d_taps, const real *numbers,
                           size_t window)
{
    for (size_t j = 0; j <= window; j++)
        if (numbers[j] >= 0 && numbers[j] <= 1)
            d_numbers[j] += (real)d_taps[j];
}

/* gate: current tap = sigmoid(a), previous tap = 1 - that */

static double sigmoid(double a)
{
    return 1.0 / (1.0 + exp(-a));
}

static void gate_taps(real *taps, const real *numbers, size_t window)
{
    const double current = sigmoid((double)numbers[0]);

    (void)window;
    taps[0] = (real)(1.0 - current);
    taps[1] = (real)current;
}

static void gate_backward(real *d_numbers, const double *d_taps, const real *numbers, size_t window)
{
    const double current = sigmoid((double)numbers[0]);

    (void)window;
    d_numbers[0] += (real)((d_taps[1] - d_taps[0]) * current * (1.0 - current));
}

static void gate_from_taps(double *numbers, const double *taps, size_t window)
{
    const double tiny = 1e-6; /* keeps the logit of a draw at the very edge finite */
    const double current = fmin(fmax(taps[window], tiny), 1.0 - tiny);

    numbers[0] = log(current / (1.0 - current));
}

static const kvsi_form forms[] = {
    [KVS_SHIFT_FREE] = {"free", KVS_SHIFT_WINDOW_MAX, one_per_tap, free_taps, free_backward,
                        free_from_taps},
    [KVS_SHIFT_GATE] = {"gate", 1, one_per_head, gate_taps, gate_backward, gate_from_taps},
    [KVS_SHIFT_CLAMP] = {"clamp", KVS_SHIFT_WINDOW_MAX, one_per_tap, clamp_taps, clamp_backward,
                         free_from_taps},
};

const kvsi_form *kvsi_form_get(kvs_shift_form form)
{
    return (size_t)form < sizeof forms / sizeof *forms ? &forms[form] : NULL;
}

void kvsi_taps_uniform(double *taps, size_t window, kvsi_random *random)
{
    double sum = 0;

    for (size_t j = window; j > 0; j--) { /* the current token's tap is drawn first */
        taps[j] = kvsi_random_uniform(random);
        sum += taps[j];
    }
    taps[0] = 1.0 - sum;
}
