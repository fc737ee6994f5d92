/* kernels/cpu/cpu.h - the operations of the CPU backend at one level; see
 * kernels/operations.def. */
#ifndef KVSI_KERNELS_CPU_H
#define KVSI_KERNELS_CPU_H

#include "kernels/backend.h"
#include "kernels/cpu/level.h"

/* Row-wise operations are split into pieces by the number of rows alone; at most PIECES_MAX, so
 * that sums per piece fit a planned buffer. */
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

/* Workspace of each operation, in bytes. */
size_t LEVEL(norm_workspace)(const kvsi_limits *limits);
size_t LEVEL(filter_workspace)(const kvsi_limits *limits);
size_t LEVEL(attention_workspace)(const kvsi_limits *limits, int threads);
size_t LEVEL(head_workspace)(const kvsi_limits *limits);

/* The member of kvsi_ops. */
size_t LEVEL(packed_bytes)(const kvsi_context *c, const kvsi_matrix *w, size_t n);

#endif
