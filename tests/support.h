/* support.h - shared by the tests: cmocka, comparing and filling arrays, temporary folders, and
 * running whole models.
 *
 * All functions fail the running test on errors; none returns an error. */
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

/* 1 with the address sanitizer, which makes tests about ten times slower.  It looks for wrong
 * accesses: such a build has every kind of call and of shape, but fewer repetitions of each. */
#ifdef __SANITIZE_ADDRESS__
enum { SUPPORT_SANITIZED = 1 };
#else
enum { SUPPORT_SANITIZED = 0 };
#endif

/* ---- numbers ---- */

/* The largest difference, relative to the largest expected value (absolute if all of those are 0);
 * infinite if a value is not a number. */
double support_error(const real *found, const real *expected, size_t count);
/* Fails the test, naming what was compared, if the error exceeds the limit. */
void support_expect_close(const real *found, const real *expected, size_t count, double limit,
                          const char *what, ...) __attribute__((format(printf, 5, 6)));
/* Normally distributed values that depend only on the seed. */
void support_fill(real *out, size_t count, uint64_t seed, double deviation);
/* Token ids, or targets, 0 .. vocab-1. */
void support_fill_ids(int32_t *out, size_t count, uint64_t seed, size_t vocab);

/* ---- folders ---- */

char *support_make_dir(void); /* a new folder; remove it with support_remove_dir */
void support_remove_dir(char *path);

/* Setup and teardown of tests or groups that work in one folder, support_dir. */
extern char *support_dir;
int support_dir_setup(void **state);
int support_dir_teardown(void **state);

/* ---- models ---- */

/* Name of the index-th CPU level that this machine can run, NULL past the end.  Without
 * amx-emulated, which is slow: tests of kernels and test_goldens have it.  With the address
 * sanitizer only the best level and the reference. */
const char *support_level(size_t index);

/* Two threads. */
kvs_runtime *support_runtime(const char *level);
/* In exact mode, with the best level. */
kvs_runtime *support_exact_runtime(void);

/* A test sets only the relevant members of a configuration; this sets the others: two layers of
 * four heads, the given sizes, and the library's defaults. */
typedef struct support_sizes {
    size_t vocab, dim, ffn, context;
} support_sizes;

#define SUPPORT_SHIFT(which, how, previous)                                                        \
    .shift = {.targets = (which), .form = KVSI_SHIFT_##how, .window = (previous)}

kvs_model_config support_config(const kvs_model_config *special, const support_sizes *sizes);
/* The same, but keeps sizes and layers that the test has set. */
kvs_model_config support_own_config(const kvs_model_config *special, const support_sizes *sizes);

/* Weights much larger than the usual init, so that everything has an effect, and shift parameters
 * from -0.5 to 1.5: asymmetric, some negative, some above 1.  A tensor depends only on its name and
 * the seed. */
kvs_model *support_model(kvs_runtime *rt, const kvs_model_config *config, uint64_t seed);

/* Adds (alpha / rank) B A to the values of a matrix, in file order, if it has an adapter. */
void support_merge(float *values, const kvs_model *model, const kvsi_parameter *p);

kvsi_pass *support_pass(const kvs_model *model, size_t tokens, size_t sequences, int training);
/* Loads and runs the batch; `logits` receives the logits of all rows. */
void support_run(kvsi_pass *pass, const kvs_batch *batch, kvsi_state *const *states, real *logits);

/* Identifies the dropout mask of a pass. */
typedef struct support_dropout {
    uint64_t seed, number;
} support_dropout;

/* Runs one batch of new sequences through a training pass; dropout NULL = no dropout. */
typedef struct support_result {
    real *logits;    /* [tokens, logits] */
    double loss;     /* sum over the rows with a target */
    real *gradients; /* of `loss`, in the layout of the model's parameters */
} support_result;

support_result support_train(const kvs_model *model, const kvs_batch *batch,
                             const support_dropout *dropout);
support_result support_train_in(kvsi_precision precision, const kvs_model *model,
                                const kvs_batch *batch, const support_dropout *dropout);
void support_result_release(support_result *result);
/* A tensor's gradient in the file layout of the tensor, in fresh memory. */
real *support_gradient(const support_result *result, const kvsi_parameter *p);

#endif
