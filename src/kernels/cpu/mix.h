/* kernels/cpu/mix.h - shift and rotation of one head of one sequence, and their adjoints.
 *
 *     forward    x^_t = rotate(sum_j taps[j] * x_{t-window+j}, position t)
 *     backward   d_x_t = sum_j taps[j] * u_{t+window-j},   u = rotated back d_x^
 *                d_taps[j] = sum_t <u_t, x_{t-window+j}>
 */
#ifndef KVSI_KERNELS_CPU_MIX_H
#define KVSI_KERNELS_CPU_MIX_H

#include "kernels/cpu/level.h"
#include "kernels/forms.h"

typedef struct mixing {
    size_t len, head_size, window;
    float taps[KVSI_TAPS_MAX];
    const float *raw; /* row t at raw + t * raw_stride */
    size_t raw_stride;
    const float *tail; /* the `window` rows before, or NULL = nothing before */
    size_t tail_stride;
    const float *rotations; /* of the first row's position; NULL = none */
} mixing;

/* One of q, k, v of one sequence, one head. */
mixing LEVEL(mixing_of)(const kvsi_attention *a, unsigned target, const kvsi_span *span,
                        size_t head, const float *qkv);

void LEVEL(mix)(float *out, size_t stride, const mixing *m);

/* d_mixed (stride) is used up; d_x goes to d_raw (same stride as raw); d_taps are overwritten. */
void LEVEL(unmix)(float *d_raw, double *d_taps, float *d_mixed, size_t stride, const mixing *m);

#endif
