/* support.h - what tests share: cmocka itself, comparing numbers, filling them, folders that
 * vanish, and running models whole.
 *
 * Calls check what they do and fail the running test; none returns an error. */
#ifndef KVSI_TESTS_SUPPORT_H
#define KVSI_TESTS_SUPPORT_H

#include "model/pass.h"

/* cmocka.h needs the headers before it. */
/* clang-format off */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
/* clang-format on */

#ifndef KVSI_TESTS_DIR
#define KVSI_TESTS_DIR "tests"
#endif

/* ---- numbers ---- */

/* Largest difference, relative to the largest expected number (absolute where all of those are 0);
 * infinite if anything is not a number. */
double support_error(const real *found, const real *expected, size_t count);
/* Fails the test, saying what was compared, if the error is above the limit. */
void support_expect_close(const real *found, const real *expected, size_t count, double limit,
                          const char *what, ...) __attribute__((format(printf, 5, 6)));
/* Normal numbers that depend on the seed only. */
void support_fill(real *out, size_t count, uint64_t seed, double deviation);
/* Token ids, or targets, 0 .. vocab-1. */
void support_fill_ids(int32_t *out, size_t count, uint64_t seed, size_t vocab);

/* ---- folders ---- */

char *support_make_dir(void); /* a fresh folder; end it with support_remove_dir */
void support_remove_dir(char *path);

/* Setup and teardown of tests or groups that work in one folder, support_dir. */
extern char *support_dir;
int support_dir_setup(void **state);
int support_dir_teardown(void **state);

/* ---- models ---- */

/* Name of the index-th CPU level that this machine can run, NULL past the end. */
const char *support_level(size_t index);

/* Two threads. */
kvs_runtime *support_runtime(const char *level);

/* A test describes a model by what is special about it and leaves everything else 0; this sets what
 * was left: two layers of four heads, the given sizes, and the library's defaults. */
typedef struct support_sizes {
    size_t vocab, dim, ffn, context;
} support_sizes;

#define SUPPORT_SHIFT(which, how, previous)                                                        \
    .shift = {.targets = (which), .form = KVS_SHIFT_##how, .window = (previous)}

kvs_model_config support_config(const kvs_model_config *special, const support_sizes *sizes);
/* The same, but sizes and layers that the test gives stay, and `sizes` are those of the others. */
kvs_model_config support_own_config(const kvs_model_config *special, const support_sizes *sizes);

/* Weights far above the usual init, so that everything counts, and the shift's numbers from -0.5 to
 * 1.5: asymmetric, some negative, some above 1.  A tensor depends on its name and the seed only. */
kvs_model *support_model(kvs_runtime *rt, const kvs_model_config *config, uint64_t seed);

kvsi_pass *support_pass(const kvs_model *model, size_t tokens, size_t sequences, int training);
/* Loads and runs the batch; `logits` receives those of all its rows. */
void support_run(kvsi_pass *pass, const kvs_batch *batch, kvsi_state *const *states, real *logits);

/* Which numbers a pass drops. */
typedef struct support_dropout {
    uint64_t seed, number;
} support_dropout;

/* One batch of fresh sequences through a training pass; dropout NULL = nothing is dropped. */
typedef struct support_result {
    real *logits;    /* [tokens, logits] */
    double loss;     /* sum over the rows with a target */
    real *gradients; /* of that sum, laid out as the model's parameters */
} support_result;

support_result support_train(const kvs_model *model, const kvs_batch *batch,
                             const support_dropout *dropout);
void support_result_release(support_result *result);
/* One tensor's gradient as files lay the tensor out, in fresh memory. */
real *support_gradient(const support_result *result, const kvsi_parameter *p);

#endif
