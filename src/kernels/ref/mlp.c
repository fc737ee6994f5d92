#include "kernels/ref/ref.h"

#include <math.h>

void kvsi_ref_swiglu_forward(kvsi_context *c, real *y, const real *gate_up, size_t n, size_t ffn)
{
    (void)c;
    for (size_t t = 0; t < n; t++) {
        const real *gate = gate_up + t * 2 * ffn, *up = gate + ffn;
        for (size_t i = 0; i < ffn; i++)
            y[t * ffn + i] =
                (real)((double)gate[i] / (1.0 + exp(-(double)gate[i])) * (double)up[i]);
    }
}

void kvsi_ref_swiglu_backward(kvsi_context *c, real *d_gate_up, const real *d_y,
                              const real *gate_up, size_t n, size_t ffn)
{
    (void)c;
    for (size_t t = 0; t < n; t++) {
        const real *gate = gate_up + t * 2 * ffn, *up = gate + ffn;
        real *d_gate = d_gate_up + t * 2 * ffn, *d_up = d_gate + ffn;
        for (size_t i = 0; i < ffn; i++) {
            const double s = 1.0 / (1.0 + exp(-(double)gate[i])), d = (double)d_y[t * ffn + i];
            d_up[i] = (real)(d * (double)gate[i] * s);
            d_gate[i] = (real)(d * (double)up[i] * s * (1.0 + (double)gate[i] * (1.0 - s)));
        }
    }
}

/* gelu(x) = x * sigmoid(2 u), u = sqrt(2/pi) (x + 0.044715 x^3): the tanh form, written shorter */
static double gelu_gate(double x, double *slope)
{
    const double root = 0.79788456080286535588;
    const double s = 1.0 / (1.0 + exp(-2.0 * root * (x + 0.044715 * x * x * x)));

    *slope = s * (1.0 - s) * 2.0 * root * (1.0 + 3.0 * 0.044715 * x * x);
    return s;
}

void kvsi_ref_gelu_forward(kvsi_context *c, real *y, const real *x, size_t n, size_t ffn)
{
    double slope;

    (void)c;
    for (size_t i = 0; i < n * ffn; i++)
        y[i] = (real)((double)x[i] * gelu_gate((double)x[i], &slope));
}

void kvsi_ref_gelu_backward(kvsi_context *c, real *d_x, const real *d_y, const real *x, size_t n,
                            size_t ffn)
{
    (void)c;
    for (size_t i = 0; i < n * ffn; i++) {
        double slope;
        const double s = gelu_gate((double)x[i], &slope);
        d_x[i] = (real)((double)d_y[i] * (s + (double)x[i] * slope));
    }
}
