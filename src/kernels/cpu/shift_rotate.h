/* kernels/cpu/shift_rotate.h - shift and rotation of one head of one sequence, and their adjoints.
 *
 *     forward    x^_t = growth_t rotate(norm(sum_j taps[j] * x_{t-window+j}), position t)
 *     backward   d_x_t = sum_j taps[j] * u_{t+window-j},
 *                u = growth d_x^ rotated back, through the norm
 *                d_taps[j] = sum_t u_t * x_{t-window+j}
 *
 * per channel; or, with gates, x^_t = a_t x_{t-1} + (1 - a_t) x_t.  If there is a gain,
 *
 *     norm(x) = (x - mean) r (gain_offset + gain),   r = 1 / deviation
 *
 * where RMSNorm has mean 0 and deviation sqrt(mean(x^2) + eps). */
#ifndef KVSI_KERNELS_CPU_SHIFT_ROTATE_H
#define KVSI_KERNELS_CPU_SHIFT_ROTATE_H

#include "kernels/cpu/level.h"
#include "kernels/forms.h"

typedef struct shift_rotation {
    size_t len, head_size, window;
    const float *taps;  /* [window + 1, head_size]; unused where window = 0 or there are gates */
    const float *gates; /* logit of row t at gates[t * gate_stride]; NULL = taps */
    size_t gate_stride;
    const float *raw; /* row t at raw + t * raw_stride */
    size_t raw_stride;
    const float *tail; /* the `window` rows before; NULL = start of the sequence */
    size_t tail_stride;
    const float *gain; /* [head_size] of the norm; NULL = none */
    kvsi_qk_norm norm;
    float gain_offset;
    double eps;
    /* KVSI_QK_NORM_FULL: r of each row, and in the backward pass r^3 <d_z gain, x> / the number of
     * channels, sums over the channels of all heads. */
    const float *inverses, *pulls;
    const float *rotations; /* from the first row's position on */
    size_t rotary;          /* channels that rotate */
    const float *growth;    /* factors of the rotated rows, from the first on; NULL = 1 */
} shift_rotation;

/* Describes one head of q, k or v of one sequence; `taps` are the head's, from make_taps. */
shift_rotation LEVEL(shift_rotation_of)(const kvsi_attention *a, unsigned target,
                                        const kvsi_span *span, size_t head, const float *qkv,
                                        const float *taps);

/* The taps of all heads of q, then k, then v: [heads + 2 kv_heads, KVSI_TAPS_MAX, head_size]. */
void LEVEL(make_taps)(float *taps, const kvsi_attention *a);

void LEVEL(shift_rotate)(float *out, size_t stride, const shift_rotation *m);

/* The parts of one head in the sums of KVSI_QK_NORM_FULL: of each shifted row x, |x|^2, and
 * <u (gain_offset + gain), x>, where u is d_shifted rotated back.  `rows` is scratch,
 * [2, head_size]. */
void LEVEL(row_squares)(double *sums, float *rows, const shift_rotation *m);
void LEVEL(row_pulls)(double *sums, float *rows, const float *d_shifted, size_t stride,
                      const shift_rotation *m);

/* Memory of the norm's backward pass. */
typedef struct norm_backward_memory {
    double *d_gain; /* [head_size], overwritten */
    float *row;     /* [head_size] */
} norm_backward_memory;

/* d_raw (stride of raw) from d_shifted, which may be overwritten.  With taps, d_taps
 * [window + 1, head_size] is overwritten (`sums` is scratch of that size); with gates, d_gates
 * (stride of gates). */
void LEVEL(shift_rotate_backward)(float *d_raw, double *d_taps, float *sums, float *d_gates,
                                  float *d_shifted, size_t stride, const shift_rotation *m,
                                  norm_backward_memory norm);

#endif
