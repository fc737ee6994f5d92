/* kernels/cpu/gemm.h - products of large matrices:  C = start + A B, or C += A B.
 *
 * A is packed into panels of rows, B block by block into panels of columns, so that the inner
 * kernel of the unit (unit.h) reads both sequentially.  Work is split by shape alone, and each
 * element of C is summed over k in one fixed order: the bits depend neither on the number of
 * threads nor on m. */
#ifndef KVSI_KERNELS_CPU_GEMM_H
#define KVSI_KERNELS_CPU_GEMM_H

#include "kernels/cpu/unit.h"

/* In float32 an element of C is a chain of multiply-adds from 0 over each GEMM_DEPTH values of k;
 * start, or the sum of the blocks before, is added to the block's sum, then the bias. */
enum { GEMM_DEPTH = 256 };

typedef struct gemm {
    float *c; /* [m, n], rows `stride` apart */
    size_t stride;
    matrix_view a;              /* [m, k] */
    matrix_view b;              /* [k, n]; or */
    const kvsi_matrix *weights; /* [n, k] of any type, B's transpose */
    const void *packed;         /* B, packed by gemm_pack in the same context; NULL = not yet */
    size_t m, n, k;
    const float *start; /* initial C, same shape and stride; may be C itself; NULL = 0 */
    const float *bias;  /* [n], added to every row; NULL = none */
} gemm;

/* Uses the last gemm_workspace() bytes of the context's workspace. */
void LEVEL(gemm)(const kvsi_context *c, const gemm *g);
size_t LEVEL(gemm_workspace)(int threads);

/* Packs all of B, which products with other A can then share.  Only b, weights, n and k are used.
 * `packed` has gemm_packed_bytes() and is aligned to GEMM_ALIGNMENT. */
enum { GEMM_ALIGNMENT = 64 };
void LEVEL(gemm_pack)(const kvsi_context *c, void *packed, const gemm *g);
size_t LEVEL(gemm_packed_bytes)(const kvsi_context *c, const gemm *g);

#endif
