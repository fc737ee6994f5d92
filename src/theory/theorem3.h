/* theory/theorem3.h - the loss of theorem 3, for callers that have checked the problem. */
#ifndef KVSI_THEORY_THEOREM3_H
#define KVSI_THEORY_THEOREM3_H

#include "base/status.h"
#include "kvshift/kvshift_lab.h"

kvs_status kvsi_theorem3_check(const kvs_theorem3 *problem, kvs_err *err);
/* `gradient` may be NULL. */
double kvsi_theorem3_loss(kvs_coefficients *gradient, const kvs_theorem3 *problem,
                          const kvs_coefficients *at);

#endif
