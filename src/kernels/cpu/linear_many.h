/* kernels/cpu/linear_many.h - linear layers in the order of sums for many tokens. */
#ifndef KVSI_KERNELS_CPU_LINEAR_MANY_H
#define KVSI_KERNELS_CPU_LINEAR_MANY_H

#include "kernels/backend.h"
#include "kernels/cpu/level.h"

/* linear_forward without the path for few tokens: a row has the same bits for every n. */
void LEVEL(linear_many)(kvsi_context *c, float *y, const float *x, const kvsi_matrix *w, size_t n,
                        const float *residual);

#endif
