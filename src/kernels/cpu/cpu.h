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

#define OPERATION(name, parameters, arguments, work) void LEVEL(name) parameters;
#include "kernels/operations.def"

/* What each operation needs of the workspace, in bytes. */
size_t LEVEL(norm_workspace)(const kvsi_limits *limits);
size_t LEVEL(attention_workspace)(const kvsi_limits *limits, int threads);
size_t LEVEL(head_workspace)(const kvsi_limits *limits);

#endif
