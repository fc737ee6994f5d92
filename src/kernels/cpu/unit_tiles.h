/* kernels/cpu/unit_tiles.h - products with the tiles of AMX, of operands in parts.
 *
 * A float32 is the sum of three bfloat16 (24 bits), each the rounded rest of those before it:
 * x = x0 + x1 + x2.  In float32 precision a product is
 *
 *     x y = (x2 y0 + x1 y0 + x1 y1 + x0 y1 + x0 y2) + x0 y0,
 *
 * where the sum over k of the small terms comes first, and the terms left out are below 2^-22 of
 * x y, of either sign.  Weights that are stored as BF16 have one part and
 * F16 ones two, exactly.  In bf16 precision operands have one part.
 *
 * Limits: parts below 2^-126 are 0, so |x| < 1e-33 has fewer bits.  An infinity, and |x| > 3.39e38,
 * which rounds to infinity, has NaN as its second part: products that are infinite in float32 may
 * be NaN here, but they are never finite. */
#ifndef KVSI_KERNELS_CPU_UNIT_TILES_H
#define KVSI_KERNELS_CPU_UNIT_TILES_H

#include "kernels/cpu/unit.h"

#ifdef KVSI_TILES
/* `weights` is the type of B's values. */
const unit *LEVEL(unit_tiles)(kvsi_precision precision, kvsi_dtype weights);
#endif

#endif
