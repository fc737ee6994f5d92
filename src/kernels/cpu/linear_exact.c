#include "kernels/cpu/linear_exact.h"

#include "kernels/cpu/gemm.h"
#include "kernels/cpu/row_dots.h"

typedef struct product {
    float *y;
    const float *x;
    const kvsi_matrix *w;
    const float *residual;
} product;

/* The values of VEC rows from `row` on in an array that is in y's order. */
static vec values_of_rows(const float *values, const kvsi_matrix *w, size_t row)
{
    float lanes[VEC];

    if (w->paired == 0)
        return vec_load(values + row);
    for (size_t r = 0; r < VEC; r++)
        lanes[r] = values[kvsi_matrix_column(w, row + r)];
    return vec_load(lanes);
}

/* Multiplies `groups` groups of VEC rows from `row` on with `tokens` tokens, and stores the results
 * except those of the first `skip` rows of each group.  As in gemm.c, residual and bias are added
 * to the sum over the first block, and then the sums over the others.  type, groups and tokens are
 * constants at every call. */
INLINE void multiply_groups(kvsi_dtype type, size_t groups, size_t tokens, const product *p,
                            size_t token, size_t row, size_t skip)
{
    const kvsi_matrix *w = p->w;
    const size_t stride = kvsi_matrix_stride(w), bytes = kvsi_dtype_bytes(type, w->cols);
    const matrix_rows rows = {(const unsigned char *)w->data + row * bytes, bytes};
    vec totals[ROW_GROUPS][ROW_DOTS_MAX] = {{{0}}};

    for (size_t from = 0; from < w->cols; from += GEMM_DEPTH) {
        const size_t to = w->cols - from < GEMM_DEPTH ? w->cols : from + GEMM_DEPTH;
        vec sums[ROW_GROUPS][ROW_DOTS_MAX] = {{{0}}};

        add_columns(type, groups, tokens, sums, rows, p->x + token * w->cols, w->cols, from, to,
                    rows.at + groups * VEC * bytes);
        for (size_t g = 0; g < groups; g++)
            for (size_t t = 0; t < tokens; t++) {
                const size_t first = row + g * VEC;

                if (from > 0)
                    sums[g][t] += totals[g][t];
                else if (p->residual)
                    sums[g][t] += values_of_rows(p->residual + (token + t) * stride, w, first);
                if (from == 0 && w->bias)
                    sums[g][t] += values_of_rows(w->bias, w, first);
                totals[g][t] = sums[g][t];
            }
    }
    for (size_t g = 0; g < groups; g++)
        for (size_t t = 0; t < tokens; t++) {
            float *y = p->y + (token + t) * stride;
            float lanes[VEC];

            if (w->paired == 0 && skip == 0) {
                vec_store(y + row + g * VEC, totals[g][t]);
                continue;
            }
            vec_store(lanes, totals[g][t]);
            for (size_t r = skip; r < VEC; r++)
                y[kvsi_matrix_column(w, row + g * VEC + r)] = lanes[r];
        }
}

/* All rows of a matrix that has fewer than VEC, padded with zeros. */
static void multiply_small(const product *p, size_t token)
{
    const kvsi_matrix *w = p->w;
    const size_t stride = kvsi_matrix_stride(w), bytes = kvsi_dtype_bytes(w->type, w->cols);
    float values[VEC][GEMM_DEPTH] = {{0}}, totals[VEC] = {0}, lanes[VEC];

    for (size_t from = 0; from < w->cols; from += GEMM_DEPTH) {
        const size_t count = w->cols - from < GEMM_DEPTH ? w->cols - from : GEMM_DEPTH;
        vec sums[ROW_GROUPS][ROW_DOTS_MAX] = {{{0}}};

        for (size_t r = 0; r < w->rows; r++)
            decode_row(values[r], w->type, (const unsigned char *)w->data + r * bytes, from, count);
        add_columns(KVSI_F32, 1, 1, sums,
                    (matrix_rows){(const unsigned char *)values, sizeof *values},
                    p->x + token * w->cols + from, 0, 0, count, NULL);
        vec_store(lanes, sums[0][0]);
        for (size_t r = 0; r < w->rows; r++) {
            const size_t column = kvsi_matrix_column(w, r);

            if (from > 0)
                lanes[r] += totals[r];
            else if (p->residual)
                lanes[r] += p->residual[token * stride + column];
            if (from == 0 && w->bias)
                lanes[r] += w->bias[column];
            totals[r] = lanes[r];
        }
    }
    for (size_t r = 0; r < w->rows; r++)
        p->y[token * stride + kvsi_matrix_column(w, r)] = totals[r];
}

INLINE void multiply_rows(kvsi_dtype type, size_t tokens, const product *p, size_t token,
                          size_t row, size_t end)
{
    for (; row + ROW_GROUPS * VEC <= end; row += ROW_GROUPS * VEC)
        multiply_groups(type, ROW_GROUPS, tokens, p, token, row, 0);
    for (; row + VEC <= end; row += VEC)
        multiply_groups(type, 1, tokens, p, token, row, 0);
    if (row < end && end >= VEC) /* together with some of the rows before */
        multiply_groups(type, 1, tokens, p, token, end - VEC, VEC - (end - row));
    else if (row < end)
        for (size_t t = token; t < token + tokens; t++)
            multiply_small(p, t);
}

typedef void multiply(const product *p, size_t token, size_t row, size_t end);

#define MULTIPLY(type, tokens)                                                                     \
    static void multiply_##type##_##tokens(const product *p, size_t token, size_t row, size_t end) \
    {                                                                                              \
        multiply_rows(KVSI_##type, tokens, p, token, row, end);                                    \
    }

MULTIPLY(F32, 1)
MULTIPLY(F32, 2)
MULTIPLY(F32, 3)
MULTIPLY(F32, 4)
MULTIPLY(F16, 1)
MULTIPLY(F16, 2)
MULTIPLY(F16, 3)
MULTIPLY(F16, 4)
MULTIPLY(BF16, 1)
MULTIPLY(BF16, 2)
MULTIPLY(BF16, 3)
MULTIPLY(BF16, 4)

void LEVEL(linear_exact_rows)(float *y, const float *x, const kvsi_matrix *w, size_t n,
                              const float *residual, size_t row, size_t count)
{
    static multiply *const table[][ROW_DOTS_MAX] = {
        {multiply_F32_1, multiply_F32_2, multiply_F32_3, multiply_F32_4},
        {multiply_F16_1, multiply_F16_2, multiply_F16_3, multiply_F16_4},
        {multiply_BF16_1, multiply_BF16_2, multiply_BF16_3, multiply_BF16_4},
    };
    const product p = {y, x, w, residual};
    const size_t type = w->type == KVSI_BF16 ? 2 : w->type == KVSI_F16 ? 1 : 0;

    for (size_t t = 0; t < n; t += ROW_DOTS_MAX)
        table[type][(n - t < ROW_DOTS_MAX ? n - t : ROW_DOTS_MAX) - 1](&p, t, row, row + count);
}
