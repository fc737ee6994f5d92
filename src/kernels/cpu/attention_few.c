#include "kernels/cpu/attention_few.h"

#include "kernels/cpu/row_dots.h"

#include <string.h>

/* type and m are constants at every call. */
INLINE void score_few(kvsi_dtype type, size_t m, const scratch *s, const head_view *h, size_t row,
                      size_t key, size_t n)
{
    const size_t d = h->head_size, held = key - h->span->first + n;
    const size_t bytes = kvsi_dtype_bytes(type, d), padded = whole_vectors(n);
    const unsigned char *end = (const unsigned char *)h->k + held * bytes;
    size_t j = 0, groups;

    if (held < VEC) { /* there are no rows to fill a vector with */
        memset(s->tile, 0, VEC * bytes);
        memcpy((unsigned char *)s->tile + (VEC - held) * bytes, h->k, held * bytes);
        end = (const unsigned char *)s->tile + VEC * bytes;
    }
    for (; j < n; j += groups * VEC) {
        /* The last group may start with keys that are done, or that are before the tile. */
        const size_t left = n - j, skip = left < VEC ? VEC - left : 0;
        const matrix_rows rows = {end - (left + skip) * bytes, bytes};
        const float *q = h->q + row * d;
        vec sums[ROW_GROUPS][ROW_DOTS_MAX] = {{{0}}};

        groups = left >= ROW_GROUPS * VEC ? ROW_GROUPS : 1;
        if (groups == ROW_GROUPS)
            add_columns(type, ROW_GROUPS, m, sums, rows, q, d, 0, d, NULL);
        else
            add_columns(type, 1, m, sums, rows, q, d, 0, d, NULL);
        for (size_t i = 0; i < m; i++) {
            float lanes[ROW_GROUPS * VEC];

            for (size_t g = 0; g < groups; g++)
                vec_store(lanes + g * VEC, sums[g][i]);
            memcpy(s->scores + i * KEYS + j, lanes + skip, (groups * VEC - skip) * sizeof *lanes);
        }
    }
    for (size_t i = 0; i < m; i++)
        for (j = n; j < padded; j++)
            s->scores[i * KEYS + j] = 0.0f;
}

/* Runs of channels whose sums are computed side by side: with long vectors a run has only two sums,
 * each of which waits for its last addition. */
enum { RUNS = VEC_BYTES == 64 ? 2 : 1 };

/* Channels c .. c+runs*RUN-1.  type, m and runs are constants at every call. */
INLINE void add_runs(kvsi_dtype type, size_t m, size_t runs, const scratch *s, const head_view *h,
                     size_t key, size_t n, size_t c)
{
    const size_t stride = whole_channels(h->head_size);
    const size_t bytes = kvsi_dtype_bytes(type, h->head_size);
    const unsigned char *rows =
        (const unsigned char *)h->v + (key - h->span->first) * bytes + c / RUN * run_bytes(type);
    vec sums[FEW_ROWS][RUNS * RUN_VECTORS];

    for (size_t i = 0; i < m; i++)
        for (size_t v = 0; v < runs * RUN_VECTORS; v++)
            sums[i][v] = vec_load(s->out + i * stride + c + v * VEC);
    for (size_t j = 0; j < n; j++)
        for (size_t at = 0; at < runs; at++) {
            const run r = decode_run(type, rows + j * bytes + at * run_bytes(type));

            for (size_t v = 0; v < RUN_VECTORS; v++)
                for (size_t i = 0; i < m; i++)
                    sums[i][at * RUN_VECTORS + v] += vec_all(s->scores[i * KEYS + j]) * r.w[v];
        }
    for (size_t i = 0; i < m; i++)
        for (size_t v = 0; v < runs * RUN_VECTORS; v++)
            vec_store(s->out + i * stride + c + v * VEC, sums[i][v]);
}

/* type and m are constants at every call. */
INLINE void add_few_values(kvsi_dtype type, size_t m, const scratch *s, const head_view *h,
                           size_t key, size_t n)
{
    size_t c = 0;

    for (; c + RUNS * RUN <= h->head_size; c += RUNS * RUN)
        add_runs(type, m, RUNS, s, h, key, n, c);
    for (; c < h->head_size; c += RUN)
        add_runs(type, m, 1, s, h, key, n, c);
}

typedef void score_keys(const scratch *s, const head_view *h, size_t row, size_t key, size_t n);
typedef void add_values(const scratch *s, const head_view *h, size_t key, size_t n);

#define FEW(type, m)                                                                               \
    static void score_##type##_##m(const scratch *s, const head_view *h, size_t row, size_t key,   \
                                   size_t n)                                                       \
    {                                                                                              \
        score_few(KVSI_##type, m, s, h, row, key, n);                                              \
    }                                                                                              \
    static void add_##type##_##m(const scratch *s, const head_view *h, size_t key, size_t n)       \
    {                                                                                              \
        add_few_values(KVSI_##type, m, s, h, key, n);                                              \
    }

FEW(F32, 1)
FEW(F32, 2)
FEW(F32, 3)
FEW(F16, 1)
FEW(F16, 2)
FEW(F16, 3)
FEW(Q8_0, 1)
FEW(Q8_0, 2)
FEW(Q8_0, 3)

static size_t type_index(kvsi_dtype type)
{
    return type == KVSI_Q8_0 ? 2 : type == KVSI_F16 ? 1 : 0;
}

void LEVEL(attention_score_few)(const scratch *s, const head_view *h, size_t row, size_t m,
                                size_t key, size_t n)
{
    static score_keys *const few[][FEW_ROWS - 1] = {{score_F32_1, score_F32_2, score_F32_3},
                                                    {score_F16_1, score_F16_2, score_F16_3},
                                                    {score_Q8_0_1, score_Q8_0_2, score_Q8_0_3}};

    few[type_index(h->type)][m - 1](s, h, row, key, n);
}

void LEVEL(attention_add_few)(const scratch *s, const head_view *h, size_t m, size_t key, size_t n)
{
    static add_values *const few[][FEW_ROWS - 1] = {{add_F32_1, add_F32_2, add_F32_3},
                                                    {add_F16_1, add_F16_2, add_F16_3},
                                                    {add_Q8_0_1, add_Q8_0_2, add_Q8_0_3}};

    few[type_index(h->type)][m - 1](s, h, key, n);
}
