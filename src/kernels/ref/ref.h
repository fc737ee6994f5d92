/* kernels/ref/ref.h - the plain reference of every operation: short loops that read like the
 * definition, one thread, no tricks.  The fast versions are tested against it.
 * The meaning of each call is in kernels/operations.def. */
#ifndef KVSI_KERNELS_REF_H
#define KVSI_KERNELS_REF_H

#include "kernels/backend.h"

real kvsi_ref_decoded(const kvsi_matrix *w, size_t row, size_t col);

/* One value of a matrix of any type. */
static inline real kvsi_ref_weight(const kvsi_matrix *w, size_t row, size_t col)
{
    return w->type == KVSI_REAL_TYPE ? ((const real *)w->data)[row * w->cols + col]
                                     : kvsi_ref_decoded(w, row, col);
}

/* An operand of a product, in the precision of the context. */
static inline double kvsi_ref_operand(const kvsi_context *c, double x)
{
    return c->precision == KVSI_PRECISION_BF16
               ? (double)kvsi_bf16_to_float(kvsi_float_to_bf16((float)x))
               : x;
}

#define OPERATION(name, parameters, arguments, work) void kvsi_ref_##name parameters;
#include "kernels/operations.def"

size_t kvsi_ref_attention_workspace(const kvsi_limits *limits);

/* The shift and rotation of one row of one head; direction -1 is the rotation's adjoint. */
void kvsi_ref_shift_row(real *out, const real *taps, size_t window, const real *const *rows,
                        size_t head_size);
void kvsi_ref_rotate_row(real *row, const real *rotation, size_t rotary, int direction);

#endif
