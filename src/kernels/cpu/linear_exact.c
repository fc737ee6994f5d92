#include "kernels/cpu/linear_exact.h"

#include "kernels/cpu/gemm.h"
#include "kernels/cpu/pair_dots.h"

/* How a sum over columns is computed: in float32, or of pairs of bfloat16. */
typedef enum method { FLOATS, PAIRS_BY_F32, PAIRS } method;

typedef struct product {
    float *y;
    const float *x;
    const uint32_t *pairs; /* x rounded to bfloat16, rows pair_words() apart; NULL in float32 */
    const kvsi_matrix *w;
    const float *residual;
    size_t last; /* rows from here on are not prefetched */
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

/* Values of k in a block: gemm.c adds the sum over each. */
INLINE size_t depth_of(method how)
{
    return how == FLOATS ? GEMM_DEPTH : UNIT_BF16_DEPTH;
}

/* Lines at a distance that is a multiple of ALIASED bytes share few sets of the first cache.  Rows
 * at such a distance are copied before they are transposed, COPIED bytes of each at a time. */
enum { ALIASED = 2048, COPIED = 512, COPY_STRIDE = COPIED + LINE };

static matrix_rows copy_rows(unsigned char *to, matrix_rows rows, size_t count, size_t bytes)
{
    for (size_t r = 0; r < count; r++)
        memcpy(to + r * COPY_STRIDE, rows.at + r * rows.bytes, bytes);
    return (matrix_rows){to, COPY_STRIDE};
}

/* Multiplies `groups` groups of VEC rows from `row` on with `tokens` tokens, and stores the results
 * except those of the first `skip` rows of each group.  As in gemm.c, residual and bias are added
 * to the sum over the first block, and then the sums over the others.  how, type, groups and tokens
 * are constants at every call. */
INLINE void multiply_groups(method how, kvsi_dtype type, size_t groups, size_t tokens,
                            const product *p, size_t token, size_t row, size_t skip)
{
    const kvsi_matrix *w = p->w;
    const size_t stride = kvsi_matrix_stride(w), bytes = kvsi_dtype_bytes(type, w->cols);
    const matrix_rows rows = {(const unsigned char *)w->data + row * bytes, bytes};
    const size_t value = type == KVSI_F32 ? 4 : 2, words = pair_words(w->cols);
    const int copies = bytes % ALIASED == 0;
    vec totals[ROW_GROUPS][ROW_DOTS_MAX] = {{{0}}};

    for (size_t from = 0; from < w->cols; from += depth_of(how)) {
        const size_t to = w->cols - from < depth_of(how) ? w->cols : from + depth_of(how);
        vec sums[ROW_GROUPS][ROW_DOTS_MAX] = {{{0}}};

        for (size_t at = from, now; at < to; at += now) {
            const unsigned char *next =
                row + groups * VEC < p->last ? rows.at + groups * VEC * (bytes + at * value) : NULL;
            matrix_rows here = {rows.at + at * value, bytes};
            _Alignas(LINE) unsigned char copy[ROW_GROUPS * VEC * COPY_STRIDE];

            now = to - at;
            if (copies) {
                now = now < COPIED / value ? now : COPIED / value;
                here = copy_rows(copy, here, groups * VEC, now * value);
            }
            if (how == FLOATS)
                add_columns(type, groups, tokens, sums, here, p->x + token * w->cols + at, w->cols,
                            0, now, next);
            else
                add_pair_columns(type, how == PAIRS ? BY_VDPBF16PS : BY_F32, groups, tokens, sums,
                                 here, p->pairs + token * words + at / 2, words, 0, now, next);
        }
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

/* One block of all rows of a matrix that has fewer than VEC; the other lanes are 0. */
static vec sum_small_block(const product *p, size_t token, size_t from, size_t to)
{
    const kvsi_matrix *w = p->w;
    const matrix_rows rows = {w->data, kvsi_dtype_bytes(w->type, w->cols)};
    vec sums[ROW_GROUPS][ROW_DOTS_MAX] = {{{0}}};
    float values[VEC][GEMM_DEPTH] = {{0}};

    for (size_t i = from; p->pairs && i < to; i += RUN)
        sums[0][0] =
            add_part(sums[0][0], w->type, rows, w->rows, p->pairs + token * pair_words(w->cols), i,
                     to - i < RUN ? to : i + RUN);
    if (p->pairs)
        return sums[0][0];
    for (size_t r = 0; r < w->rows; r++)
        decode_row(values[r], w->type, rows.at + r * rows.bytes, from, to - from);
    add_columns(KVSI_F32, 1, 1, sums, (matrix_rows){(const unsigned char *)values, sizeof *values},
                p->x + token * w->cols + from, 0, 0, to - from, NULL);
    return sums[0][0];
}

static void multiply_small(const product *p, size_t token)
{
    const kvsi_matrix *w = p->w;
    const size_t stride = kvsi_matrix_stride(w), depth = depth_of(p->pairs ? PAIRS : FLOATS);
    float totals[VEC] = {0}, lanes[VEC];

    for (size_t from = 0; from < w->cols; from += depth) {
        vec_store(lanes,
                  sum_small_block(p, token, from, w->cols - from < depth ? w->cols : from + depth));
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

INLINE void multiply_rows(method how, kvsi_dtype type, size_t tokens, const product *p,
                          size_t token, size_t row, size_t end)
{
    for (; row + ROW_GROUPS * VEC <= end; row += ROW_GROUPS * VEC)
        multiply_groups(how, type, ROW_GROUPS, tokens, p, token, row, 0);
    for (; row + VEC <= end; row += VEC)
        multiply_groups(how, type, 1, tokens, p, token, row, 0);
    if (row < end && end >= VEC) /* together with some of the rows before */
        multiply_groups(how, type, 1, tokens, p, token, end - VEC, VEC - (end - row));
    else if (row < end)
        for (size_t t = token; t < token + tokens; t++)
            multiply_small(p, t);
}

typedef void multiply(const product *p, size_t token, size_t row, size_t end);

#define MULTIPLY(how, type, tokens)                                                                \
    static void multiply_##how##_##type##_##tokens(const product *p, size_t token, size_t row,     \
                                                   size_t end)                                     \
    {                                                                                              \
        multiply_rows(how, KVSI_##type, tokens, p, token, row, end);                               \
    }
#define MULTIPLY_ALL(how, type)                                                                    \
    MULTIPLY(how, type, 1)                                                                         \
    MULTIPLY(how, type, 2)                                                                         \
    MULTIPLY(how, type, 4)
#define NAMES(how, type)                                                                           \
    {                                                                                              \
        multiply_##how##_##type##_1, multiply_##how##_##type##_2, multiply_##how##_##type##_4      \
    }

MULTIPLY_ALL(FLOATS, F32)
MULTIPLY_ALL(FLOATS, F16)
MULTIPLY_ALL(FLOATS, BF16)
MULTIPLY_ALL(PAIRS_BY_F32, F32)
MULTIPLY_ALL(PAIRS_BY_F32, F16)
MULTIPLY_ALL(PAIRS_BY_F32, BF16)
#if defined __AVX512VL__ && !defined KVSI_TILES
MULTIPLY_ALL(PAIRS, F32)
MULTIPLY_ALL(PAIRS, F16)
MULTIPLY_ALL(PAIRS, BF16)
#endif

/* For 1, 2 and 4 tokens. */
static multiply *const table[][3][3] = {
    [FLOATS] = {NAMES(FLOATS, F32), NAMES(FLOATS, F16), NAMES(FLOATS, BF16)},
    [PAIRS_BY_F32] = {NAMES(PAIRS_BY_F32, F32), NAMES(PAIRS_BY_F32, F16),
                      NAMES(PAIRS_BY_F32, BF16)},
#if defined __AVX512VL__ && !defined KVSI_TILES
    [PAIRS] = {NAMES(PAIRS, F32), NAMES(PAIRS, F16), NAMES(PAIRS, BF16)},
#endif
};

static method method_of(const uint32_t *pairs)
{
    if (!pairs)
        return FLOATS;
#if defined __AVX512VL__ && !defined KVSI_TILES
    if (__builtin_cpu_supports("avx512bf16"))
        return PAIRS;
#endif
    return PAIRS_BY_F32;
}

size_t LEVEL(linear_exact_pairs)(size_t n, size_t cols)
{
    return n * pair_words(cols);
}

void LEVEL(linear_exact_round)(uint32_t *pairs, const float *x, size_t n, size_t cols)
{
    const size_t words = pair_words(cols);

    for (size_t t = 0; t < n; t++) {
        memset(pairs + t * words + (words - RUN_PAIRS), 0, RUN_PAIRS * sizeof *pairs);
        bf16_pairs_along(pairs + t * words, x + t * cols, cols);
    }
}

void LEVEL(linear_exact_rows)(float *y, const float *x, const uint32_t *pairs, const kvsi_matrix *w,
                              size_t n, const float *residual, size_t row, size_t count,
                              size_t last)
{
    const product p = {y, x, pairs, w, residual, last};
    const size_t type = w->type == KVSI_BF16 ? 2 : w->type == KVSI_F16 ? 1 : 0;
    const unsigned state = pairs ? flush_denormals() : 0;

    for (size_t t = 0, tokens; t < n; t += tokens) {
        tokens = n - t >= 4 ? 4 : n - t >= 2 ? 2 : 1;
        table[method_of(pairs)][type][tokens / 2](&p, t, row, row + count);
    }
    if (pairs)
        restore_denormals(state);
}
