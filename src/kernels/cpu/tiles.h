/* kernels/cpu/tiles.h - the tiles of AMX: its instructions, or the same bits from vectors.
 *
 * A tile is 16 rows of 64 bytes.  Tiles 0 to 3 hold sums, 16 x 16 floats; tiles 4 to 7 hold pairs
 * of bfloat16, [16 rows][16 pairs] of A and [16 pairs][16 columns] of B.  TILE_MULTIPLY is
 * TDPBF16PS, for each element of C
 *
 *     even = odd = 0
 *     for each pair p, ascending:  even = fma(a[2p], b[2p], even);
 *                                  odd = fma(a[2p + 1], b[2p + 1], odd)
 *     c = c + (even + odd)
 *
 * where every operation rounds to nearest, and denormals are 0 before and after it. */
#ifndef KVSI_KERNELS_CPU_TILES_H
#define KVSI_KERNELS_CPU_TILES_H

#include "kernels/cpu/bf16.h"

enum { TILE_ROWS = 16, TILE_PAIRS = 16, TILE_WORDS = TILE_ROWS * TILE_PAIRS };

_Static_assert(VEC_BYTES == 4 * TILE_ROWS, "a row of a tile is one vector");

#ifndef KVSI_TILES_EMULATED

/* The compiler knows nothing of tiles, so the numbers are part of the text. */
#define TILE_FILE
#define TILE_ZERO(t) __asm__ volatile("tilezero %tmm" #t)
#define TILE_LOAD(t, at)                                                                           \
    __asm__ volatile("tileloadd (%0,%1,1), %%tmm" #t ::"r"(at), "r"((size_t)64) : "memory")
#define TILE_STORE(t, at, stride)                                                                  \
    __asm__ volatile("tilestored %%tmm" #t ", (%0,%1,1)" ::"r"(at), "r"((stride) * sizeof(float))  \
                     : "memory")
#define TILE_MULTIPLY(c, a, b) __asm__ volatile("tdpbf16ps %tmm" #b ", %tmm" #a ", %tmm" #c)

/* All tiles have their full size.  The configuration belongs to the thread. */
static inline void tiles_begin(void)
{
    static const struct {
        uint8_t palette, start, zero[14];
        uint16_t row_bytes[16];
        uint8_t rows[16];
    } configuration = {
        1, 0, {0}, {64, 64, 64, 64, 64, 64, 64, 64}, {16, 16, 16, 16, 16, 16, 16, 16}};

    __asm__ volatile("ldtilecfg %0" ::"m"(configuration));
}

static inline void tiles_end(void)
{
    __asm__ volatile("tilerelease");
}

#else

typedef struct tile_file {
    float sums[4][TILE_WORDS];
    const uint32_t *operands[8]; /* 4 to 7 are used; they are not copied */
} tile_file;

#define TILE_FILE tile_file tiles
#define TILE_ZERO(t) memset(tiles.sums[t], 0, sizeof tiles.sums[t])
#define TILE_LOAD(t, at) (tiles.operands[t] = (at))
#define TILE_STORE(t, at, stride) tile_store(tiles.sums[t], at, stride)
#define TILE_MULTIPLY(c, a, b) tile_multiply(tiles.sums[c], tiles.operands[a], tiles.operands[b])

static inline void tile_store(const float *sums, float *to, size_t stride)
{
    for (size_t i = 0; i < TILE_ROWS; i++)
        memcpy(to + i * stride, sums + i * TILE_ROWS, TILE_ROWS * sizeof *to);
}

/* Two rows at a time, because a chain of multiply-adds waits for its own results. */
static inline void tile_multiply(float *sums, const uint32_t *a, const uint32_t *b)
{
    for (size_t i = 0; i < TILE_ROWS; i += 2) {
        vec even[2] = {{0}}, odd[2] = {{0}};

        for (size_t p = 0; p < TILE_PAIRS; p++) {
            const vecu pairs = *(const vecu *)(b + p * TILE_ROWS);

            for (size_t r = 0; r < 2; r++) {
                const vecu x = a[(i + r) * TILE_PAIRS + p] - (vecu){0};

                even[r] = vec_multiply_add((vec)(x << 16), (vec)(pairs << 16), even[r]);
                odd[r] = vec_multiply_add((vec)(x & 0xffff0000), (vec)(pairs & 0xffff0000), odd[r]);
            }
        }
        for (size_t r = 0; r < 2; r++) {
            float *c = sums + (i + r) * TILE_ROWS;

            vec_store(c, vec_load(c) + (even[r] + odd[r]));
        }
    }
}

static inline void tiles_begin(void)
{
}

static inline void tiles_end(void)
{
}

#endif

#endif
