#include "kernels/forms.h"

#include <math.h>

/* ---- free, clamp: one parameter per tap; gate: one per head ---- */

static size_t one_per_tap(size_t window, size_t head_size)
{
    (void)head_size;
    return window + 1;
}

static size_t one_per_head(size_t window, size_t head_size)
{
    (void)window, (void)head_size;
    return 1;
}

static void spread_tap(real *taps, size_t j, real tap, size_t head_size)
{
    for (size_t i = 0; i < head_size; i++)
        taps[j * head_size + i] = tap;
}

static double sum_tap(const double *d_taps, size_t j, size_t head_size)
{
    double sum = 0;

    for (size_t i = 0; i < head_size; i++)
        sum += d_taps[j * head_size + i];
    return sum;
}

static void free_taps(real *taps, const real *params, size_t window, size_t head_size)
{
    for (size_t j = 0; j <= window; j++)
        spread_tap(taps, j, params[j], head_size);
}

static void free_backward(double *d_params, const double *d_taps, const real *params, size_t window,
                          size_t head_size)
{
    (void)params;
    for (size_t j = 0; j <= window; j++)
        d_params[j] = sum_tap(d_taps, j, head_size);
}

static void free_from_taps(double *params, const double *taps, size_t window)
{
    for (size_t j = 0; j <= window; j++)
        params[j] = taps[j];
}

static void clamp_taps(real *taps, const real *params, size_t window, size_t head_size)
{
    for (size_t j = 0; j <= window; j++) {
        const real x = params[j];
        spread_tap(taps, j, x < 0 ? 0 : x > 1 ? 1 : x, head_size);
    }
}

/* The gradient is 0 outside [0,1] and passes at 0 and 1. */
static void clamp_backward(double *d_params, const double *d_taps, const real *params,
                           size_t window, size_t head_size)
{
    for (size_t j = 0; j <= window; j++) {
        const int inside = params[j] >= 0 && params[j] <= 1;
        d_params[j] = inside ? sum_tap(d_taps, j, head_size) : 0.0;
    }
}

static double sigmoid(double a)
{
    return 1.0 / (1.0 + exp(-a));
}

static void gate_taps(real *taps, const real *params, size_t window, size_t head_size)
{
    const double current = sigmoid((double)params[0]);

    (void)window;
    spread_tap(taps, 0, (real)(1.0 - current), head_size);
    spread_tap(taps, 1, (real)current, head_size);
}

static void gate_backward(double *d_params, const double *d_taps, const real *params, size_t window,
                          size_t head_size)
{
    const double current = sigmoid((double)params[0]);

    (void)window;
    d_params[0] =
        (sum_tap(d_taps, 1, head_size) - sum_tap(d_taps, 0, head_size)) * current * (1.0 - current);
}

static void gate_from_taps(double *params, const double *taps, size_t window)
{
    const double tiny = 1e-6; /* keeps the logit finite if the draw is 0 or 1 */
    const double current = fmin(fmax(taps[window], tiny), 1.0 - tiny);

    params[0] = log(current / (1.0 - current));
}

/* ---- channel: free, per channel ---- */

static size_t one_per_tap_and_channel(size_t window, size_t head_size)
{
    return head_size * (window + 1);
}

static void channel_taps(real *taps, const real *params, size_t window, size_t head_size)
{
    for (size_t i = 0; i < head_size; i++)
        for (size_t j = 0; j <= window; j++)
            taps[j * head_size + i] = params[i * (window + 1) + j];
}

static void channel_backward(double *d_params, const double *d_taps, const real *params,
                             size_t window, size_t head_size)
{
    (void)params;
    for (size_t i = 0; i < head_size; i++)
        for (size_t j = 0; j <= window; j++)
            d_params[i * (window + 1) + j] = d_taps[j * head_size + i];
}

/* ---- residual: channel, and the current token itself ---- */

static void residual_taps(real *taps, const real *params, size_t window, size_t head_size)
{
    channel_taps(taps, params, window, head_size);
    for (size_t i = 0; i < head_size; i++)
        taps[window * head_size + i] += 1;
}

static void residual_from_taps(double *params, const double *taps, size_t window)
{
    free_from_taps(params, taps, window);
    params[window] -= 1;
}

/* ---- hard: the upper half of the channels comes from the previous token; data: no taps ---- */

static size_t nothing_learned(size_t window, size_t head_size)
{
    (void)window, (void)head_size;
    return 0;
}

static void hard_taps(real *taps, const real *params, size_t window, size_t head_size)
{
    (void)params, (void)window;
    for (size_t i = 0; i < head_size; i++) {
        taps[i] = i >= head_size / 2 ? 1 : 0;
        taps[head_size + i] = 1 - taps[i];
    }
}

static void no_backward(double *d_params, const double *d_taps, const real *params, size_t window,
                        size_t head_size)
{
    (void)d_params, (void)d_taps, (void)params, (void)window, (void)head_size;
}

static const kvsi_form forms[] = {
    [KVSI_SHIFT_FREE] = {.window_max = KVSI_SHIFT_WINDOW_MAX,
                         .can_be_identity = 1,
                         .params = one_per_tap,
                         .taps = free_taps,
                         .backward = free_backward,
                         .from_taps = free_from_taps},
    [KVSI_SHIFT_GATE] = {.window_max = 1,
                         .params = one_per_head,
                         .taps = gate_taps,
                         .backward = gate_backward,
                         .from_taps = gate_from_taps},
    [KVSI_SHIFT_CLAMP] = {.window_max = KVSI_SHIFT_WINDOW_MAX,
                          .can_be_identity = 1,
                          .params = one_per_tap,
                          .taps = clamp_taps,
                          .backward = clamp_backward,
                          .from_taps = free_from_taps},
    [KVSI_SHIFT_CHANNEL] = {.window_max = KVSI_SHIFT_WINDOW_MAX,
                            .can_be_identity = 1,
                            .params = one_per_tap_and_channel,
                            .taps = channel_taps,
                            .backward = channel_backward,
                            .from_taps = free_from_taps,
                            .per_channel = 1},
    [KVSI_SHIFT_DATA] = {.window_max = 1, .params = nothing_learned, .gated = 1},
    [KVSI_SHIFT_HARD] = {.window_max = 1,
                         .params = nothing_learned,
                         .taps = hard_taps,
                         .backward = no_backward},
    [KVSI_SHIFT_RESIDUAL] = {.window_max = KVSI_SHIFT_WINDOW_MAX,
                             .can_be_identity = 1,
                             .params = one_per_tap_and_channel,
                             .taps = residual_taps,
                             .backward = channel_backward,
                             .from_taps = residual_from_taps,
                             .per_channel = 1},
};

const kvsi_form *kvsi_form_get(kvsi_shift_form form)
{
    return (size_t)form < sizeof forms / sizeof *forms ? &forms[form] : NULL;
}

/* ---- initial taps ---- */

static void draw_uniform(double *taps, size_t window, kvsi_random *random)
{
    double sum = 0;

    for (size_t j = window; j > 0; j--) { /* the current token's tap is drawn first */
        taps[j] = kvsi_random_uniform(random);
        sum += taps[j];
    }
    taps[0] = 1.0 - sum;
}

static void draw_softmax(double *taps, size_t window, kvsi_random *random)
{
    double sum = 0;

    for (size_t j = 0; j <= window; j++) {
        taps[j] = exp(kvsi_random_normal(random));
        sum += taps[j];
    }
    for (size_t j = 0; j <= window; j++)
        taps[j] /= sum;
}

void kvsi_taps_draw(double *taps, size_t window, kvsi_shift_init init, kvsi_random *random)
{
    switch (init) {
    case KVSI_SHIFT_INIT_UNIFORM:
        draw_uniform(taps, window, random);
        break;
    case KVSI_SHIFT_INIT_SOFTMAX:
        draw_softmax(taps, window, random);
        break;
    case KVSI_SHIFT_INIT_IDENTITY:
        for (size_t j = 0; j <= window; j++)
            taps[j] = j == window ? 1.0 : 0.0;
        break;
    }
}
