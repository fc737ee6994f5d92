#include "kernels/ref/ref.h"

#include <math.h>

/* f(x), and its derivative in *slope. */
static double activate(kvsi_activation function, double x, double *slope)
{
    const double pi = acos(-1);
    double s, u;

    switch (function) {
    case KVSI_ACTIVATION_GELU: /* x Phi(x), with Phi(x) = erfc(-x / sqrt(2)) / 2 */
        s = erfc(-x / sqrt(2)) / 2;
        *slope = s + x * exp(-x * x / 2) / sqrt(2 * pi);
        return x * s;
    case KVSI_ACTIVATION_GELU_TANH:
        /* x (1 + tanh u) / 2 = x sigmoid(2 u), u = sqrt(2 / pi) (x + 0.044715 x^3) */
        u = sqrt(2 / pi) * (x + 0.044715 * x * x * x);
        s = 1.0 / (1.0 + exp(-2.0 * u));
        *slope = s + x * s * (1.0 - s) * 2.0 * sqrt(2 / pi) * (1.0 + 3.0 * 0.044715 * x * x);
        return x * s;
    case KVSI_ACTIVATION_RELU:
        *slope = x > 0 ? 1 : x <= 0 ? 0 : x; /* NaN stays NaN */
        return x <= 0 ? 0 : x;
    case KVSI_ACTIVATION_AUTO: /* a finished configuration has none */
    case KVSI_ACTIVATION_SILU:
        break;
    }
    s = 1.0 / (1.0 + exp(-x));
    *slope = s * (1.0 + x * (1.0 - s));
    return x * s;
}

void kvsi_ref_activation_forward(kvsi_context *c, real *y, const real *x, const kvsi_mlp *mlp,
                                 size_t n)
{
    const size_t width = mlp->width;
    double slope;

    (void)c;
    for (size_t t = 0; t < n; t++, x += kvsi_mlp_inputs(mlp), y += width)
        for (size_t i = 0; i < width; i++)
            y[i] = (real)(activate(mlp->function, (double)x[i], &slope) *
                          (mlp->gated ? (double)x[width + i] : 1));
}

void kvsi_ref_activation_backward(kvsi_context *c, real *d_x, const real *d_y, const real *x,
                                  const kvsi_mlp *mlp, size_t n)
{
    const size_t width = mlp->width, inputs = kvsi_mlp_inputs(mlp);

    (void)c;
    for (size_t t = 0; t < n; t++, x += inputs, d_x += inputs, d_y += width)
        for (size_t i = 0; i < width; i++) {
            const double up = mlp->gated ? (double)x[width + i] : 1, d = (double)d_y[i];
            double slope;
            const double value = activate(mlp->function, (double)x[i], &slope);

            d_x[i] = (real)(d * up * slope);
            if (mlp->gated)
                d_x[width + i] = (real)(d * value);
        }
}
