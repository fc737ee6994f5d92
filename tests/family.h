/* family.h - the models that tests iterate over: every form, target and window of the
 * shift, grouped queries, every kind of position, sliding windows, both bodies. */
#ifndef KVSI_TESTS_FAMILY_H
#define KVSI_TESTS_FAMILY_H

#include "support.h"

typedef void family_check(const kvs_model *model, const char *name);

/* Common sizes; `levels` 0 = every CPU level that this machine can run, otherwise only the best
 * `levels`. */
typedef struct family_scope {
    support_sizes sizes;
    size_t levels;
} family_scope;

/* Bodies, positions, windows and heads, each with some shift. */
void family_each_model(const family_scope *scope, family_check *check);
/* One model with every form, target and window of the shift. */
void family_each_shift(const family_scope *scope, family_check *check);

/* The factor of rotated queries and keys, by the published formulas of yarn and longrope. */
double family_rotation_scale(const kvs_model_config *config);

#endif
