#include "kernels/cpu/unit_tiles.h"

#ifdef KVSI_TILES

#include "kernels/cpu/tiles.h"
#include "kernels/cpu/transpose.h"

/* A panel has two tiles side by side; C has two by two.  For each GROUP values of k a panel holds
 * all parts, two tiles each. */
enum { PANEL = 2 * TILE_ROWS, GROUP = 2 * TILE_PAIRS, PARTS_MAX = 3, PART_WORDS = 2 * TILE_WORDS };

/* ---- packing ---- */

/* A row of a tile of each part: pairs of the values' highest parts, then of those of the rests.
 * `part_words` is the distance between tiles of parts; `parts` is a constant at every call. */
INLINE void split_pairs(uint32_t *out, size_t parts, size_t part_words, vec even, vec odd)
{
#pragma GCC unroll 3
    for (size_t k = 0; k < parts; k++, out += part_words) {
        const vecu pairs = bf16_vec_pairs(even, odd);

        *(vecu *)out = pairs;
        even -= (vec)(pairs << 16);
        odd -= (vec)(pairs & 0xffff0000);
    }
}

/* The same for GROUP consecutive values. */
INLINE void split_along(uint32_t *out, size_t parts, size_t part_words, const float *x)
{
    const vec low = vec_load(x), high = vec_load(x + VEC);

    split_pairs(out, parts, part_words,
                __builtin_shufflevector(low, high, 0, 2, 4, 6, 8, 10, 12, 14, 16, 18, 20, 22, 24,
                                        26, 28, 30),
                __builtin_shufflevector(low, high, 1, 3, 5, 7, 9, 11, 13, 15, 17, 19, 21, 23, 25,
                                        27, 29, 31));
}

INLINE void transpose_tile(uint32_t *restrict to, const uint32_t *restrict from)
{
#ifdef __AVX512F__
    transpose_16x16((any_float *)to, 16, (const any_float *)from, 16);
#else
    transpose(to, TILE_ROWS, from, TILE_ROWS, TILE_ROWS, TILE_ROWS);
#endif
}

/* `count` values, then zeros. */
INLINE void copy_padded(float *to, const float *from, size_t count, size_t padded)
{
    for (size_t i = 0; i < padded; i++)
        to[i] = i < count ? from[i] : 0.0f;
}

/* One tile of each part: 16 rows and GROUP values of k, of which `count` and `depth` are there.
 * Rows of the tile are pairs if `by_pairs`, otherwise rows of the view. */
INLINE void pack_tile(uint32_t *out, size_t parts, matrix_view v, size_t count, size_t depth,
                      int by_pairs)
{
    const int along = v.col == 1, turned = along == by_pairs;
    uint32_t buffer[PARTS_MAX * TILE_WORDS];
    uint32_t *to = turned ? buffer : out;
    const size_t part_words = turned ? TILE_WORDS : PART_WORDS;

    for (size_t i = 0; i < TILE_ROWS; i++) {
        float padded[2 * VEC];

        if (along) {
            const float *x = v.at + i * v.row;

            if (i >= count || depth < GROUP) {
                copy_padded(padded, x, i < count ? depth : 0, GROUP);
                x = padded;
            }
            split_along(to + i * TILE_PAIRS, parts, part_words, x);
        } else {
            const float *even = v.at + 2 * i * v.col, *odd = even + v.col;

            if (count < TILE_ROWS || 2 * i + 1 >= depth) {
                copy_padded(padded, even, 2 * i < depth ? count : 0, VEC);
                copy_padded(padded + VEC, odd, 2 * i + 1 < depth ? count : 0, VEC);
                even = padded;
                odd = padded + VEC;
            }
            split_pairs(to + i * TILE_ROWS, parts, part_words, vec_load(even), vec_load(odd));
        }
    }
    for (size_t k = 0; turned && k < parts; k++)
        transpose_tile(out + k * PART_WORDS, buffer + k * TILE_WORDS);
}

INLINE void pack(uint32_t *out, size_t parts, matrix_view v, size_t count, size_t depth,
                 int by_pairs)
{
    for (size_t p = 0; p < depth; p += GROUP, out += parts * PART_WORDS)
        for (size_t half = 0; half < 2; half++) {
            const size_t from = half * TILE_ROWS, rest = count > from ? count - from : 0;

            pack_tile(out + half * TILE_WORDS, parts,
                      (matrix_view){v.at + from * v.row + p * v.col, v.row, v.col},
                      rest < TILE_ROWS ? rest : TILE_ROWS, depth - p < GROUP ? depth - p : GROUP,
                      by_pairs);
        }
}

/* BF16 columns are pairs already; those of a tile are rows that are transposed. */
static int pack_stored_1(void *panel, kvsi_dtype type, const void *cols, size_t stride,
                         size_t depth)
{
    uint32_t *out = panel;

    if (type != KVSI_BF16)
        return 0;
    for (size_t p = 0; p < depth; p += GROUP)
        for (size_t half = 0; half < 2; half++, out += TILE_WORDS) {
            const unsigned char *from =
                (const unsigned char *)cols + half * TILE_ROWS * stride + 2 * p;
            uint32_t rows[TILE_WORDS];

            for (size_t i = 0; i < TILE_ROWS; i++)
                memcpy(rows + i * TILE_PAIRS, from + i * stride, TILE_PAIRS * sizeof *rows);
            transpose_tile(out, rows);
        }
    return 1;
}

/* Values in several parts are decoded first. */
#define pack_stored_2 NULL
#define pack_stored_3 NULL

/* ---- products ---- */

/* The parts are constants at every call. */
INLINE void multiply(size_t a_parts, size_t b_parts, float *c, size_t stride, const uint32_t *a,
                     const uint32_t *b, size_t depth, unit_start start)
{
    TILE_FILE;

#define LOAD_A(at, part)                                                                           \
    TILE_LOAD(4, a + (at) + (part)*PART_WORDS);                                                    \
    TILE_LOAD(5, a + (at) + (part)*PART_WORDS + TILE_WORDS)
#define LOAD_B(at, part)                                                                           \
    TILE_LOAD(6, b + (at) + (part)*PART_WORDS);                                                    \
    TILE_LOAD(7, b + (at) + (part)*PART_WORDS + TILE_WORDS)
#define MULTIPLY                                                                                   \
    TILE_MULTIPLY(0, 4, 6);                                                                        \
    TILE_MULTIPLY(1, 4, 7);                                                                        \
    TILE_MULTIPLY(2, 5, 6);                                                                        \
    TILE_MULTIPLY(3, 5, 7)

    TILE_ZERO(0);
    TILE_ZERO(1);
    TILE_ZERO(2);
    TILE_ZERO(3);
    for (size_t i = 0; i < PANEL; i++) {
        __builtin_prefetch(c + i * stride, 1);
        __builtin_prefetch(c + i * stride + VEC, 1);
    }
    /* The small terms of all k come first, so that few additions round at the size of C. */
    for (size_t p = 0, i = 0, j = 0; a_parts > 1 && p < depth;
         p += GROUP, i += a_parts * PART_WORDS, j += b_parts * PART_WORDS) {
        LOAD_B(j, 0);
        LOAD_A(i, 2);
        MULTIPLY;
        LOAD_A(i, 1);
        MULTIPLY;
        if (b_parts > 1) {
            LOAD_B(j, 1);
            MULTIPLY;
            LOAD_A(i, 0);
            MULTIPLY;
        }
        if (b_parts > 2) {
            LOAD_B(j, 2);
            MULTIPLY;
        }
    }
    for (size_t p = 0, i = 0, j = 0; p < depth;
         p += GROUP, i += a_parts * PART_WORDS, j += b_parts * PART_WORDS) {
        LOAD_A(i, 0);
        LOAD_B(j, 0);
        MULTIPLY;
    }
    if (!start.c && !start.bias) {
        TILE_STORE(0, c, stride);
        TILE_STORE(1, c + TILE_ROWS, stride);
        TILE_STORE(2, c + TILE_ROWS * stride, stride);
        TILE_STORE(3, c + TILE_ROWS * stride + TILE_ROWS, stride);
    } else {
        _Alignas(64) float sums[PANEL * PANEL];

        TILE_STORE(0, sums, (size_t)PANEL);
        TILE_STORE(1, sums + TILE_ROWS, (size_t)PANEL);
        TILE_STORE(2, sums + TILE_ROWS * PANEL, (size_t)PANEL);
        TILE_STORE(3, sums + TILE_ROWS * PANEL + TILE_ROWS, (size_t)PANEL);
        for (size_t i = 0; i < PANEL; i++)
            for (size_t j = 0; j < PANEL; j += VEC)
                unit_store(c, stride, vec_load(sums + i * PANEL + j), start, i, j);
    }
#undef LOAD_A
#undef LOAD_B
#undef MULTIPLY
}

static unsigned enter(void)
{
    const unsigned state = flush_denormals();

    tiles_begin();
    return state;
}

static void leave(unsigned state)
{
    tiles_end();
    restore_denormals(state);
}

/* ---- one unit for each number of parts ---- */

#define PACKS(parts)                                                                               \
    static void pack_rows_##parts(void *panel, matrix_view v, size_t count, size_t depth)          \
    {                                                                                              \
        pack(panel, parts, v, count, depth, 0);                                                    \
    }                                                                                              \
    static void pack_cols_##parts(void *panel, matrix_view v, size_t count, size_t depth)          \
    {                                                                                              \
        pack(panel, parts, v, count, depth, 1);                                                    \
    }

#define UNIT(name, a_parts, b_parts, block_depth, rows_in_cache, most_packed_rows)                 \
    static void multiply_##name(float *c, size_t stride, const void *a, const void *b,             \
                                size_t depth, unit_start start)                                    \
    {                                                                                              \
        multiply(a_parts, b_parts, c, stride, a, b, depth, start);                                 \
    }                                                                                              \
    static const unit name = {.rows = PANEL,                                                       \
                              .cols = PANEL,                                                       \
                              .group = GROUP,                                                      \
                              .depth = block_depth,                                                \
                              .row_bytes = 2 * a_parts,                                            \
                              .col_bytes = 2 * b_parts,                                            \
                              .block_rows = rows_in_cache,                                         \
                              .packed_rows = most_packed_rows,                                     \
                              .pack_rows = pack_rows_##a_parts,                                    \
                              .pack_cols = pack_cols_##b_parts,                                    \
                              .pack_stored = pack_stored_##b_parts,                                \
                              .multiply = multiply_##name,                                         \
                              .enter = enter,                                                      \
                              .leave = leave}

PACKS(1)
PACKS(3)
static void pack_cols_2(void *panel, matrix_view v, size_t count, size_t depth)
{
    pack(panel, 2, v, count, depth, 1);
}

UNIT(bf16, 1, 1, UNIT_BF16_DEPTH, 256, 2048);
UNIT(f32, 3, 3, 512, 128, 512);
UNIT(f32_by_bf16, 3, 1, 512, 128, 512);
UNIT(f32_by_f16, 3, 2, 512, 128, 512);

const unit *LEVEL(unit_tiles)(kvsi_precision precision, kvsi_dtype weights)
{
    if (precision == KVSI_PRECISION_BF16)
        return &bf16;
    return weights == KVSI_BF16 ? &f32_by_bf16 : weights == KVSI_F16 ? &f32_by_f16 : &f32;
}

#endif
