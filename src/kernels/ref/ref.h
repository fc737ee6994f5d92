/* kernels/ref/ref.h - the plain reference of every operation: short loops that read like the
 * definition, one thread, no tricks.  The fast versions are tested against it.
 * The meaning of each call is in kernels/operations.def. */
#ifndef KVSI_KERNELS_REF_H
#define KVSI_KERNELS_REF_H

#include "kernels/backend.h"

#include <math.h>
#include <string.h>

real kvsi_ref_decoded(const kvsi_matrix *w, size_t row, size_t col);

/* One value of a matrix of any type. */
static inline real kvsi_ref_weight(const kvsi_matrix *w, size_t row, size_t col)
{
    return w->type == KVSI_REAL_TYPE ? ((const real *)w->data)[row * w->cols + col]
                                     : kvsi_ref_decoded(w, row, col);
}

/* An operand of a product in the precision of the context: BF16 rounds to nearest, ties to even. */
static inline double kvsi_ref_operand(const kvsi_context *c, real x)
{
    float value = (float)x;
    uint32_t bits;

    if (c->precision == KVSI_PRECISION_F32 || c->exact)
        return (double)x;
    if (isnan(value))
        return (double)value;
    memcpy(&bits, &value, sizeof bits);
    bits = (bits + 0x7fff + (bits >> 16 & 1)) & 0xffff0000;
    memcpy(&value, &bits, sizeof value);
    return (double)value;
}

#define OPERATION(name, parameters, arguments, work) void kvsi_ref_##name parameters;
#include "kernels/operations.def"

size_t kvsi_ref_attention_workspace(const kvsi_limits *limits);

/* The shift and rotation of one row of one head; direction -1 is the rotation's adjoint. */
void kvsi_ref_shift_row(real *out, const real *taps, size_t window, const real *const *rows,
                        size_t head_size);
void kvsi_ref_rotate_row(real *row, const real *rotation, size_t rotary, int direction);

#endif
