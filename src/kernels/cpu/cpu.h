/* kernels/cpu/cpu.h - the operations of the CPU backend at one level; see kernels/backend.h. */
#ifndef KVSI_KERNELS_CPU_H
#define KVSI_KERNELS_CPU_H

#include "kernels/backend.h"
#include "kernels/cpu/level.h"

/* Row-wise operations work on pieces of rows that depend on the number of rows only; at most
 * PIECES_MAX, so that sums over pieces fit a planned buffer. */
enum { PIECES_MAX = 64, PIECE_ROWS_MIN = 32 };

typedef struct pieces {
    size_t count, rows; /* the last piece may have fewer rows */
} pieces;

static inline pieces cut_rows(size_t n)
{
    const size_t fair = (n + PIECES_MAX - 1) / PIECES_MAX;
    const size_t rows = fair > PIECE_ROWS_MIN ? fair : PIECE_ROWS_MIN;

    return (pieces){(n + rows - 1) / rows, rows};
}

static inline size_t piece_end(pieces p, size_t i, size_t n)
{
    return (i + 1) * p.rows < n ? (i + 1) * p.rows : n;
}

void LEVEL(embed_forward)(kvsi_context *c, float *y, const kvsi_matrix *table, const int32_t *ids,
                          size_t n, int add);
void LEVEL(embed_backward)(kvsi_context *c, float *d_table, const float *d_y, const int32_t *ids,
                           size_t n, size_t dim);
void LEVEL(norm_forward)(kvsi_context *c, float *y, const float *x, const kvsi_norm *norm, size_t n,
                         size_t dim);
void LEVEL(norm_backward)(kvsi_context *c, float *d_x, float *d_gain, float *d_bias,
                          const float *d_y, const float *x, const kvsi_norm *norm, size_t n,
                          size_t dim);
void LEVEL(linear_forward)(kvsi_context *c, float *y, const float *x, const kvsi_matrix *w,
                           size_t n, const float *residual);
void LEVEL(linear_backward_input)(kvsi_context *c, float *d_x, const float *d_y,
                                  const kvsi_matrix *w, size_t n, int add);
void LEVEL(linear_backward_weight)(kvsi_context *c, float *d_w, const float *d_y, const float *x,
                                   size_t n, size_t rows, size_t cols);
void LEVEL(linear_backward_bias)(kvsi_context *c, float *d_bias, const float *d_y, size_t n,
                                 size_t rows);
void LEVEL(attention_forward)(kvsi_context *c, float *out, float *logsum, const float *qkv,
                              const kvsi_attention *a);
void LEVEL(attention_backward)(kvsi_context *c, float *d_qkv, const float *d_out, const float *out,
                               const float *logsum, const float *qkv, const kvsi_attention *a);
void LEVEL(swiglu_forward)(kvsi_context *c, float *y, const float *gate_up, size_t n, size_t ffn);
void LEVEL(swiglu_backward)(kvsi_context *c, float *d_gate_up, const float *d_y,
                            const float *gate_up, size_t n, size_t ffn);
void LEVEL(gelu_forward)(kvsi_context *c, float *y, const float *x, size_t n, size_t ffn);
void LEVEL(gelu_backward)(kvsi_context *c, float *d_x, const float *d_y, const float *x, size_t n,
                          size_t ffn);
void LEVEL(dropout)(kvsi_context *c, float *x, size_t count, const kvsi_dropout *d);
void LEVEL(add)(kvsi_context *c, float *y, const float *x, size_t count);
void LEVEL(unit_rows_forward)(kvsi_context *c, float *y, const float *x, size_t rows, size_t cols);
void LEVEL(unit_rows_backward)(kvsi_context *c, float *d_x, const float *d_y, const float *x,
                               size_t rows, size_t cols);
void LEVEL(head_logits)(kvsi_context *c, float *logits, const float *x, const kvsi_matrix *w,
                        const int32_t *rows, size_t count);
void LEVEL(head_loss)(kvsi_context *c, const kvsi_head *head);
void LEVEL(sum_squares)(kvsi_context *c, double *sum, const float *g, size_t n);
void LEVEL(adamw)(kvsi_context *c, float *p, const float *g, float *m, float *v, size_t n,
                  const kvsi_adamw *h, const double *scale);
double LEVEL(multiply_add)(kvsi_context *c, float *sums, size_t parts, size_t rounds);
void LEVEL(read_through)(kvsi_context *c, float *sums, size_t parts, const float *x, size_t n);

/* What each operation needs of the workspace, in bytes. */
size_t LEVEL(norm_workspace)(const kvsi_limits *limits);
size_t LEVEL(attention_workspace)(const kvsi_limits *limits, int threads);
size_t LEVEL(head_workspace)(const kvsi_limits *limits);

#endif
