/* kernels/ref/ref.h - the plain reference of every operation: short loops that read like the
 * definition, one thread, no tricks.  Kept for ever; the fast versions are tested against it.
 * The meaning of each call is in kernels/backend.h. */
#ifndef KVSI_KERNELS_REF_H
#define KVSI_KERNELS_REF_H

#include "kernels/backend.h"

real kvsi_ref_decoded(const kvsi_matrix *w, size_t row, size_t col);

/* One number of a matrix of any type. */
static inline real kvsi_ref_weight(const kvsi_matrix *w, size_t row, size_t col)
{
    return w->type == KVSI_REAL_TYPE ? ((const real *)w->data)[row * w->cols + col]
                                     : kvsi_ref_decoded(w, row, col);
}

void kvsi_ref_embed_forward(kvsi_context *c, real *y, const kvsi_matrix *table, const int32_t *ids,
                            size_t n, int add);
void kvsi_ref_embed_backward(kvsi_context *c, real *d_table, const real *d_y, const int32_t *ids,
                             size_t n, size_t dim);
void kvsi_ref_norm_forward(kvsi_context *c, real *y, const real *x, const kvsi_norm *norm, size_t n,
                           size_t dim);
void kvsi_ref_norm_backward(kvsi_context *c, real *d_x, real *d_gain, real *d_bias, const real *d_y,
                            const real *x, const kvsi_norm *norm, size_t n, size_t dim);
void kvsi_ref_linear_forward(kvsi_context *c, real *y, const real *x, const kvsi_matrix *w,
                             size_t n, const real *residual);
void kvsi_ref_linear_backward_input(kvsi_context *c, real *d_x, const real *d_y,
                                    const kvsi_matrix *w, size_t n, int add);
void kvsi_ref_linear_backward_weight(kvsi_context *c, real *d_w, const real *d_y, const real *x,
                                     size_t n, size_t rows, size_t cols);
void kvsi_ref_linear_backward_bias(kvsi_context *c, real *d_bias, const real *d_y, size_t n,
                                   size_t rows);
size_t kvsi_ref_attention_workspace(const kvsi_limits *limits);
void kvsi_ref_attention_forward(kvsi_context *c, real *out, real *logsum, const real *qkv,
                                const kvsi_attention *a);
void kvsi_ref_attention_backward(kvsi_context *c, real *d_qkv, const real *d_out, const real *out,
                                 const real *logsum, const real *qkv, const kvsi_attention *a);
void kvsi_ref_swiglu_forward(kvsi_context *c, real *y, const real *gate_up, size_t n, size_t ffn);
void kvsi_ref_swiglu_backward(kvsi_context *c, real *d_gate_up, const real *d_y,
                              const real *gate_up, size_t n, size_t ffn);
void kvsi_ref_gelu_forward(kvsi_context *c, real *y, const real *x, size_t n, size_t ffn);
void kvsi_ref_gelu_backward(kvsi_context *c, real *d_x, const real *d_y, const real *x, size_t n,
                            size_t ffn);
void kvsi_ref_dropout(kvsi_context *c, real *x, size_t count, const kvsi_dropout *d);
void kvsi_ref_add(kvsi_context *c, real *y, const real *x, size_t count);
void kvsi_ref_unit_rows_forward(kvsi_context *c, real *y, const real *x, size_t rows, size_t cols);
void kvsi_ref_unit_rows_backward(kvsi_context *c, real *d_x, const real *d_y, const real *x,
                                 size_t rows, size_t cols);
void kvsi_ref_head_logits(kvsi_context *c, real *logits, const real *x, const kvsi_matrix *w,
                          const int32_t *rows, size_t count);
void kvsi_ref_head_loss(kvsi_context *c, const kvsi_head *head);
void kvsi_ref_sum_squares(kvsi_context *c, double *sum, const real *g, size_t n);
void kvsi_ref_adamw(kvsi_context *c, real *p, const real *g, real *m, real *v, size_t n,
                    const kvsi_adamw *h, const double *scale);
double kvsi_ref_multiply_add(kvsi_context *c, real *sums, size_t parts, size_t rounds);
void kvsi_ref_read_through(kvsi_context *c, real *sums, size_t parts, const real *x, size_t n);

/* The shift and rotation of one row of one head; direction -1 is the rotation's adjoint. */
void kvsi_ref_shift_row(real *out, const real *taps, size_t window, const real *const *rows,
                        size_t head_size);
void kvsi_ref_rotate_row(real *row, const real *rotation, size_t rotary, int direction);

#endif
