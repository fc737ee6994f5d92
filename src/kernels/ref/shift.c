#include "kernels/ref/ref.h"

/* out = sum_j taps[j] * rows[j], channel by channel; rows[j] is window-j tokens back, NULL = before
 * the start. */
void kvsi_ref_shift_row(real *out, const real *taps, size_t window, const real *const *rows,
                        size_t head_size)
{
    for (size_t i = 0; i < head_size; i++) {
        real sum = taps[window * head_size + i] * rows[window][i];
        for (size_t j = 0; j < window; j++)
            if (rows[j])
                sum += taps[j * head_size + i] * rows[j][i];
        out[i] = sum;
    }
}

/* Rotates pair (i, i + rotary/2) by the position's angle; direction -1 is the adjoint. */
void kvsi_ref_rotate_row(real *row, const real *rotation, size_t rotary, int direction)
{
    const size_t half = rotary / 2;

    for (size_t i = 0; i < half; i++) {
        const real cosine = rotation[i], sine = (real)direction * rotation[half + i];
        const real low = row[i], high = row[half + i];

        row[i] = low * cosine - high * sine;
        row[half + i] = high * cosine + low * sine;
    }
}
