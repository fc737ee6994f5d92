/* The activations of MLPs, with and without a gate. */
#include "kernels/cpu/cpu.h"
#include "kernels/cpu/vector.h"
#include "parallel/threads.h"

INLINE vec vec_sigmoid(vec x)
{
    return 1.0f / (1.0f + vec_exp(-x));
}

/* ---- GELU, the tanh form in short: x * sigmoid(2 u), u = sqrt(2/pi) (x + 0.044715 x^3) ---- */

static const float GELU_ROOT = 1.5957691216f, GELU_CUBE = 0.044715f; /* 2 sqrt(2/pi) */

INLINE vec vec_gelu_tanh(vec x)
{
    return x * vec_sigmoid(GELU_ROOT * (x + GELU_CUBE * x * x * x));
}

INLINE vec vec_gelu_tanh_slope(vec x)
{
    const vec s = vec_sigmoid(GELU_ROOT * (x + GELU_CUBE * x * x * x));

    return s + x * s * (1.0f - s) * GELU_ROOT * (1.0f + 3.0f * GELU_CUBE * x * x);
}

/* ---- GELU: x Phi(x) ---- */

/* Phi(x), and exp(-x^2 / 2) in *bell, to about 2 ulp of 1.  For a = |x| and t = 1 / (1 + 0.32 a),
 * Phi(-a) = exp(-a^2 / 2) t P(t), where P is a polynomial of degree 9: the interpolation of
 * exp(a^2 / 2) Phi(-a) / t in Chebyshev's nodes, with a relative error of 6e-8 for all a >= 0. */
INLINE vec vec_normal(vec x, vec *bell)
{
    const vec a = vec_max(x, -x), t = 1.0f / (1.0f + 0.32f * a), e = vec_exp(-0.5f * a * a);
    vec p = vec_all(-0.0216231328f);
    vec tail;

    p = p * t + 0.0979352146f;
    p = p * t - 0.151607692f;
    p = p * t + 0.0704682618f;
    p = p * t - 0.012533999f;
    p = p * t + 0.0597993247f;
    p = p * t + 0.0875935331f;
    p = p * t + 0.114647031f;
    p = p * t + 0.127659917f;
    p = p * t + 0.127661541f;
    tail = e * t * p;
    *bell = e;
    return vec_select(x < 0.0f, tail, 1.0f - tail);
}

INLINE vec vec_gelu(vec x)
{
    vec bell;

    return x * vec_normal(x, &bell);
}

/* Phi(x) + x phi(x), phi(x) = exp(-x^2 / 2) / sqrt(2 pi) */
INLINE vec vec_gelu_slope(vec x)
{
    vec bell;
    const vec phi = vec_normal(x, &bell);

    return phi + 0.39894228f * x * bell;
}

/* ---- every function ---- */

/* f(x); NaN stays NaN. */
INLINE vec activate(kvsi_activation f, vec x)
{
    switch (f) {
    case KVSI_ACTIVATION_GELU:
        return vec_gelu(x);
    case KVSI_ACTIVATION_GELU_TANH:
        return vec_gelu_tanh(x);
    case KVSI_ACTIVATION_RELU:
        return vec_select(x <= 0.0f, vec_all(0.0f), x);
    case KVSI_ACTIVATION_AUTO: /* a finished configuration has none */
    case KVSI_ACTIVATION_SILU:
        break;
    }
    return x * vec_sigmoid(x);
}

/* d f(x), for the gradient of up; its products have a fixed order */
INLINE vec times_value(kvsi_activation f, vec d, vec x)
{
    return f == KVSI_ACTIVATION_SILU ? d * x * vec_sigmoid(x) : d * activate(f, x);
}

/* d f'(x) */
INLINE vec times_slope(kvsi_activation f, vec d, vec x)
{
    vec s;

    switch (f) {
    case KVSI_ACTIVATION_GELU:
        return d * vec_gelu_slope(x);
    case KVSI_ACTIVATION_GELU_TANH:
        return d * vec_gelu_tanh_slope(x);
    case KVSI_ACTIVATION_RELU:
        return vec_select(x > 0.0f, d, activate(f, x));
    case KVSI_ACTIVATION_AUTO:
    case KVSI_ACTIVATION_SILU:
        break;
    }
    s = vec_sigmoid(x);
    return d * s * (1.0f + x * (1.0f - s));
}

/* y[n] = f(x) * up, or f(x) without a gate.  The caller's f is a constant. */
INLINE void forward_with(kvsi_activation f, float *y, const float *x, const float *up, size_t n)
{
    size_t i = 0;

    for (; i + VEC <= n; i += VEC) {
        vec value = activate(f, vec_load(x + i));
        if (up)
            value *= vec_load(up + i);
        vec_store(y + i, value);
    }
    for (; i < n; i++) {
        const float value = activate(f, vec_all(x[i]))[0];

        y[i] = up ? value * up[i] : value;
    }
}

INLINE void backward_with(kvsi_activation f, float *d_x, float *d_up, const float *d_y,
                          const float *x, const float *up, size_t n)
{
    size_t i = 0;

    for (; i + VEC <= n; i += VEC) {
        const vec v = vec_load(x + i);
        vec d = vec_load(d_y + i);
        if (up) {
            vec_store(d_up + i, times_value(f, d, v));
            d *= vec_load(up + i);
        }
        vec_store(d_x + i, times_slope(f, d, v));
    }
    for (; i < n; i++) {
        const vec v = vec_all(x[i]);
        vec d = vec_all(d_y[i]);
        if (up) {
            d_up[i] = times_value(f, d, v)[0];
            d *= up[i];
        }
        d_x[i] = times_slope(f, d, v)[0];
    }
}

static void forward_row(kvsi_activation f, float *y, const float *x, const float *up, size_t n)
{
    switch (f) {
    case KVSI_ACTIVATION_GELU:
        forward_with(KVSI_ACTIVATION_GELU, y, x, up, n);
        return;
    case KVSI_ACTIVATION_GELU_TANH:
        forward_with(KVSI_ACTIVATION_GELU_TANH, y, x, up, n);
        return;
    case KVSI_ACTIVATION_RELU:
        forward_with(KVSI_ACTIVATION_RELU, y, x, up, n);
        return;
    case KVSI_ACTIVATION_AUTO:
    case KVSI_ACTIVATION_SILU:
        break;
    }
    forward_with(KVSI_ACTIVATION_SILU, y, x, up, n);
}

static void backward_row(kvsi_activation f, float *d_x, float *d_up, const float *d_y,
                         const float *x, const float *up, size_t n)
{
    switch (f) {
    case KVSI_ACTIVATION_GELU:
        backward_with(KVSI_ACTIVATION_GELU, d_x, d_up, d_y, x, up, n);
        return;
    case KVSI_ACTIVATION_GELU_TANH:
        backward_with(KVSI_ACTIVATION_GELU_TANH, d_x, d_up, d_y, x, up, n);
        return;
    case KVSI_ACTIVATION_RELU:
        backward_with(KVSI_ACTIVATION_RELU, d_x, d_up, d_y, x, up, n);
        return;
    case KVSI_ACTIVATION_AUTO:
    case KVSI_ACTIVATION_SILU:
        break;
    }
    backward_with(KVSI_ACTIVATION_SILU, d_x, d_up, d_y, x, up, n);
}

void LEVEL(activation_forward)(kvsi_context *c, float *y, const float *x, const kvsi_mlp *mlp,
                               size_t n)
{
    const size_t width = mlp->width, inputs = kvsi_mlp_inputs(mlp);
    const pieces cut = cut_rows(n);

    KVSI_PARALLEL_PIECES(c->threads, p, cut.count) {
        for (size_t t = p * cut.rows; t < piece_end(cut, p, n); t++) {
            const float *row = x + t * inputs;

            forward_row(mlp->function, y + t * width, row, mlp->gated ? row + width : NULL, width);
        }
    }
}

void LEVEL(activation_backward)(kvsi_context *c, float *d_x, const float *d_y, const float *x,
                                const kvsi_mlp *mlp, size_t n)
{
    const size_t width = mlp->width, inputs = kvsi_mlp_inputs(mlp);
    const pieces cut = cut_rows(n);

    KVSI_PARALLEL_PIECES(c->threads, p, cut.count) {
        for (size_t t = p * cut.rows; t < piece_end(cut, p, n); t++) {
            const float *row = x + t * inputs;
            float *d_row = d_x + t * inputs;

            backward_row(mlp->function, d_row, d_row + width, d_y + t * width, row,
                         mlp->gated ? row + width : NULL, width);
        }
    }
}
