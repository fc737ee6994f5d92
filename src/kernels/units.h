/* kernels/units.h - the arithmetic units of processors, to measure the peak of each, and which of
 * them the products of a CPU level use. */
#ifndef KVSI_KERNELS_UNITS_H
#define KVSI_KERNELS_UNITS_H

#include "base/dtype.h"
#include "config/config.h"
#include "kernels/cpu_features.h"

#include <stddef.h>

/* What a unit multiplies.  Sums are float32, or 32-bit integers. */
typedef enum kvsi_operands {
    KVSI_OPERANDS_F32,
    KVSI_OPERANDS_BF16,
    KVSI_OPERANDS_INTEGER
} kvsi_operands;

typedef struct kvsi_unit {
    const char *name; /* "fma-256" */
    kvsi_operands operands;
    kvsi_cpu_feature needs;
    double operations; /* per round; a product and its addition are two */
    /* Adds products of ones in registers, and returns the sum of all of them: operations / 2 *
     * rounds, as long as that is exact.  NULL if this build has no such instructions. */
    double (*run)(size_t rounds);
} kvsi_unit;

const kvsi_unit *kvsi_unit_at(size_t index); /* NULL past the end */

/* NULL if this processor has the unit, otherwise why not.  Calls kvsi_cpu_lacks. */
const char *kvsi_unit_lacks(const kvsi_unit *unit);

/* sums[parts] = unit->run(rounds), on all threads. */
void kvsi_unit_run(const kvsi_unit *unit, int threads, double *sums, size_t parts, size_t rounds);

/* How a CPU level multiplies. */
typedef struct kvsi_products {
    const char *name;      /* "amx-bf16x3" */
    const kvsi_unit *unit; /* whose rate is the limit */
    double cost;           /* operations of the unit per operation of the result */
} kvsi_products;

/* Products with weights of this type, for many tokens. */
kvsi_products kvsi_products_of(const char *level, kvsi_precision precision, kvsi_dtype weights);

#endif
