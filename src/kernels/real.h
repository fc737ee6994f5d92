/* kernels/real.h - the element type of activations, parameters and gradients.
 *
 * The library uses float.  The tests compile the reference kernels and the model a second time with
 * KVSI_REAL=double: finite differences then check gradients far below float rounding. */
#ifndef KVSI_KERNELS_REAL_H
#define KVSI_KERNELS_REAL_H

#include "base/dtype.h"

#ifndef KVSI_REAL
#define KVSI_REAL float
#endif

typedef KVSI_REAL real;

#define KVSI_REAL_TYPE (sizeof(real) == sizeof(float) ? KVSI_F32 : KVSI_F64)

#endif
