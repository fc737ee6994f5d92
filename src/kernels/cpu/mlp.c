#include "kernels/cpu/cpu.h"
#include "kernels/cpu/vector.h"
#include "parallel/threads.h"

INLINE vec vec_sigmoid(vec x)
{
    return 1.0f / (1.0f + vec_exp(-x));
}

INLINE float sigmoid(float x)
{
    return vec_sigmoid(vec_all(x))[0];
}

static void forward_row(float *restrict y, const float *restrict gate, const float *restrict up,
                        size_t ffn)
{
    size_t i = 0;

    for (; i + VEC <= ffn; i += VEC) {
        const vec g = vec_load(gate + i);
        vec_store(y + i, g * vec_sigmoid(g) * vec_load(up + i));
    }
    for (; i < ffn; i++)
        y[i] = gate[i] * sigmoid(gate[i]) * up[i];
}

void LEVEL(swiglu_forward)(kvsi_context *c, float *y, const float *gate_up, size_t n, size_t ffn)
{
    const pieces cut = cut_rows(n);

    KVSI_PARALLEL_PIECES(c->threads, i, cut.count) {
        for (size_t t = i * cut.rows; t < piece_end(cut, i, n); t++)
            forward_row(y + t * ffn, gate_up + 2 * t * ffn, gate_up + (2 * t + 1) * ffn, ffn);
    }
}

/* With s = sigmoid(g):  d_up = d * g * s,  d_gate = d * up * s * (1 + g * (1 - s)) */
static void backward_row(float *restrict d_gate, float *restrict d_up, const float *restrict d_y,
                         const float *restrict gate, const float *restrict up, size_t ffn)
{
    size_t i = 0;

    for (; i + VEC <= ffn; i += VEC) {
        const vec g = vec_load(gate + i), d = vec_load(d_y + i), s = vec_sigmoid(g);
        vec_store(d_up + i, d * g * s);
        vec_store(d_gate + i, d * vec_load(up + i) * s * (1.0f + g * (1.0f - s)));
    }
    for (; i < ffn; i++) {
        const float s = sigmoid(gate[i]);
        d_up[i] = d_y[i] * gate[i] * s;
        d_gate[i] = d_y[i] * up[i] * s * (1.0f + gate[i] * (1.0f - s));
    }
}

void LEVEL(swiglu_backward)(kvsi_context *c, float *d_gate_up, const float *d_y,
                            const float *gate_up, size_t n, size_t ffn)
{
    const pieces cut = cut_rows(n);

    KVSI_PARALLEL_PIECES(c->threads, i, cut.count) {
        for (size_t t = i * cut.rows; t < piece_end(cut, i, n); t++) {
            const size_t gate = 2 * t * ffn, up = gate + ffn;
            backward_row(d_gate_up + gate, d_gate_up + up, d_y + t * ffn, gate_up + gate,
                         gate_up + up, ffn);
        }
    }
}

/* ---- GELU: x * sigmoid(2 u), u = sqrt(2/pi) (x + 0.044715 x^3), the tanh form in short ---- */

static const float GELU_ROOT = 1.5957691216f, GELU_CUBE = 0.044715f; /* 2 sqrt(2/pi) */

INLINE vec vec_gelu(vec x)
{
    return x * vec_sigmoid(GELU_ROOT * (x + GELU_CUBE * x * x * x));
}

INLINE vec vec_gelu_slope(vec x)
{
    const vec s = vec_sigmoid(GELU_ROOT * (x + GELU_CUBE * x * x * x));

    return s + x * s * (1.0f - s) * GELU_ROOT * (1.0f + 3.0f * GELU_CUBE * x * x);
}

void LEVEL(gelu_forward)(kvsi_context *c, float *y, const float *x, size_t n, size_t ffn)
{
    const pieces cut = cut_rows(n);

    KVSI_PARALLEL_PIECES(c->threads, p, cut.count) {
        const size_t end = piece_end(cut, p, n) * ffn;
        size_t i = p * cut.rows * ffn;

        for (; i + VEC <= end; i += VEC)
            vec_store(y + i, vec_gelu(vec_load(x + i)));
        for (; i < end; i++)
            y[i] = vec_gelu(vec_all(x[i]))[0];
    }
}

void LEVEL(gelu_backward)(kvsi_context *c, float *d_x, const float *d_y, const float *x, size_t n,
                          size_t ffn)
{
    const pieces cut = cut_rows(n);

    KVSI_PARALLEL_PIECES(c->threads, p, cut.count) {
        const size_t end = piece_end(cut, p, n) * ffn;
        size_t i = p * cut.rows * ffn;

        for (; i + VEC <= end; i += VEC)
            vec_store(d_x + i, vec_load(d_y + i) * vec_gelu_slope(vec_load(x + i)));
        for (; i < end; i++)
            d_x[i] = d_y[i] * vec_gelu_slope(vec_all(x[i]))[0];
    }
}
