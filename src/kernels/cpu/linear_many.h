/* kernels/cpu/linear_many.h - linear layers with the order of summation for many tokens. */
#ifndef KVSI_KERNELS_CPU_LINEAR_MANY_H
#define KVSI_KERNELS_CPU_LINEAR_MANY_H

#include "kernels/backend.h"
#include "kernels/cpu/level.h"

/* Computes what linear_forward does, but without its separate path for few tokens: a row has the
 * same bits for every n. */
void LEVEL(linear_many)(kvsi_context *c, float *y, const float *x, const kvsi_matrix *w, size_t n,
                        const float *residual);

#endif
