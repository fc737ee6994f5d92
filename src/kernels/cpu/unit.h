/* kernels/cpu/unit.h - the parts of a processor that multiply matrices, behind one interface.
 *
 * A unit multiplies packed panels:  C = start + A B + bias  on a tile of unit->rows x unit->cols
 * values, over a range of k.  A panel of A holds unit->rows rows, a panel of B unit->cols columns;
 * both are a sequence of groups along k, so a panel may be packed in several calls.  Rows, columns
 * and values of k that are missing are packed as 0.
 *
 *     unit_f32         float32; one chain of multiply-adds over k
 *     unit_bf16        operands rounded to bfloat16; sums as VDPBF16PS has them, see unit_bf16.c
 *     unit_tiles       AMX, in both precisions; see unit_tiles.h
 *
 * Packing and products are called between enter() and leave(), which set what the unit needs on
 * the calling thread: a piece of a parallel region, not a product. */
#ifndef KVSI_KERNELS_CPU_UNIT_H
#define KVSI_KERNELS_CPU_UNIT_H

#include "kernels/backend.h"
#include "kernels/cpu/level.h"
#include "kernels/cpu/vector.h"

/* Element (i, p) is at[i * row + p * col]; one of the strides is 1. */
typedef struct matrix_view {
    const float *at;
    size_t row, col;
} matrix_view;

/* Initial values of a tile of C, rows `stride` apart, and values added to each row. */
typedef struct unit_start {
    const float *c, *bias; /* NULL = 0 */
    size_t stride;
} unit_start;

typedef struct unit {
    size_t rows, cols;           /* of a panel of A, of B */
    size_t group;                /* values of k that are packed together */
    size_t depth;                /* most values of k of one product, a multiple of `group` */
    size_t row_bytes, col_bytes; /* bytes per value in a panel of A, of B */
    size_t block_rows;           /* rows of A x depth stay in the second cache */
    size_t packed_rows;          /* products of at most so many rows are faster if B was packed
                                    before, by one of several products with the same B */

    /* Packs the first `count` rows of the view and `depth` values of k.  For B the view is
     * transposed: its rows are columns of B. */
    void (*pack_rows)(void *panel, matrix_view v, size_t count, size_t depth);
    void (*pack_cols)(void *panel, matrix_view v, size_t count, size_t depth);
    /* pack_cols for all columns of a panel that are stored as `type`, `stride` bytes apart; depth
     * is a multiple of UNIT_STORED.  NULL, or returns 0: the values must be decoded first. */
    int (*pack_stored)(void *panel, kvsi_dtype type, const void *cols, size_t stride, size_t depth);

    /* c[rows, cols] = (sum over k, from 0) + start + bias; c has rows `stride` apart. */
    void (*multiply)(float *c, size_t stride, const void *a, const void *b, size_t depth,
                     unit_start start);

    unsigned (*enter)(void);
    void (*leave)(unsigned state);
} unit;

enum { UNIT_STORED = 32 };

/* Values of k of one product in bf16. */
#ifdef KVSI_TILES
enum { UNIT_BF16_DEPTH = 1024 };
#else
enum { UNIT_BF16_DEPTH = 512 };
#endif

/* Bounds of the level's units: rows and columns of panels, and bytes of one row over the depth. */
enum { UNIT_ROWS_MAX = 32, UNIT_COLS_MAX = 32 };
#ifdef KVSI_TILES
enum { UNIT_PANEL_BYTES = 3072 };
#else
enum { UNIT_PANEL_BYTES = 1024 };
#endif

/* Stores one vector of a tile of C, at row i and column j. */
INLINE void unit_store(float *c, size_t stride, vec sum, unit_start start, size_t i, size_t j)
{
    if (start.c)
        sum += vec_load(start.c + i * start.stride + j);
    if (start.bias)
        sum += vec_load(start.bias + j);
    vec_store(c + i * stride + j, sum);
}

/* The unit for products of a context; `b` is the type that the values of B are stored in.  In exact
 * mode float32 has vectors at every level, because few rows are summed in their order
 * (linear_exact.h).  In bf16 few rows always have the order of the unit. */
const unit *LEVEL(unit_of)(const kvsi_context *c, kvsi_dtype b);

extern const unit LEVEL(unit_f32);
const unit *LEVEL(unit_bf16)(void);

#endif
