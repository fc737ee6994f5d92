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
