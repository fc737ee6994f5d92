/* api.h - for the tests of the public API: macros that check what a call returns, and a small model
 * for the arguments.
 *
 * These tests include public headers only and are linked with the shared library, as programs are.
 * script/check-api-tests requires that every public function with a pointer occurs in one of the
 * macros expect_... below other than expect_ok. */
#ifndef KVSHIFT_TESTS_API_H
#define KVSHIFT_TESTS_API_H

#include <kvshift/kvshift.h>

/* cmocka.h needs the headers before it. */
/* clang-format off */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
/* clang-format on */

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* Every test passes this to its calls. */
static kvs_err err;

/* ---- results of calls ---- */

static inline void api_check_status(kvs_status status, kvs_status expected, const char *text,
                                    const char *call, const char *file, int line)
{
    if (status != expected || err.status != expected || !strstr(err.message, text)) {
        print_error("%s\n  expected: %s, \"...%s...\"\n  found: %s, %s, \"%s\"\n", call,
                    kvs_status_text(expected), text, kvs_status_text(status),
                    kvs_status_text(err.status), err.message);
        _fail(file, line);
    }
}

static inline void api_check_true(int holds, const char *what, const char *call, const char *file,
                                  int line)
{
    if (!holds) {
        print_error("%s\n  %s\n", call, what);
        _fail(file, line);
    }
}

#define expect_status(expected, text, call)                                                        \
    do {                                                                                           \
        memset(&err, 0, sizeof err);                                                               \
        api_check_status((call), (expected), (text), #call, __FILE__, __LINE__);                   \
    } while (0)
/* Checks the status, and that the message contains the text. */
#define expect_invalid(text, call) expect_status(KVS_E_INVALID, text, call)
/* Checks that an argument must not be NULL, and that the message names it. */
#define expect_needed(argument, call) expect_invalid(#argument " is NULL", call)
/* Checks that the call fails and sets the variable `out`, whose address it gets, to NULL. */
#define expect_no_handle(out, expected, text, call)                                                \
    do {                                                                                           \
        (out) = (void *)&err;                                                                      \
        expect_status(expected, text, call);                                                       \
        api_check_true(!(out), #out " is not NULL after the failure", #call, __FILE__, __LINE__);  \
    } while (0)
#define expect_null(call) api_check_true(!(call), "not NULL", #call, __FILE__, __LINE__)
#define expect_zero(call) api_check_true((call) == 0, "not 0", #call, __FILE__, __LINE__)
#define expect_nan(call) api_check_true(isnan(call), "a number", #call, __FILE__, __LINE__)
#define expect_none(call) api_check_true((call) == -1, "not -1", #call, __FILE__, __LINE__)
/* A call without a result only has to return. */
#define expect_nothing(call) (call)

/* Checks that the call succeeds and does not write `err`. */
#define expect_ok(call)                                                                            \
    do {                                                                                           \
        memset(&err, 0, sizeof err);                                                               \
        api_check_status((call), KVS_OK, "", #call, __FILE__, __LINE__);                           \
    } while (0)

/* ---- structs with a size ---- */

enum { API_EXTRA = 16 };

/* Checks that TYPE_init(p, size) writes exactly `size` bytes and accepts NULL. */
#define expect_init(type)                                                                          \
    do {                                                                                           \
        union {                                                                                    \
            type value;                                                                            \
            unsigned char bytes[sizeof(type) + API_EXTRA];                                         \
        } u;                                                                                       \
        const size_t sizes[] = {sizeof(size_t), sizeof(type) - sizeof(void *), sizeof(type),       \
                                sizeof u};                                                         \
        type##_init(NULL, sizeof(type));                                                           \
        for (size_t api_i = 0; api_i < sizeof sizes / sizeof *sizes; api_i++) {                    \
            memset(&u, 0xa5, sizeof u);                                                            \
            type##_init(&u.value, sizes[api_i]);                                                   \
            assert_int_equal(u.value.size, sizes[api_i]);                                          \
            for (size_t at = sizes[api_i]; at < sizeof u; at++)                                    \
                assert_int_equal(u.bytes[at], 0xa5);                                               \
            for (size_t at = sizeof(type); at < sizes[api_i]; at++)                                \
                assert_int_equal(u.bytes[at], 0);                                                  \
        }                                                                                          \
        memset(&u, 0xa5, sizeof u);                                                                \
        type##_init(&u.value, 0);                                                                  \
        for (size_t at = 0; at < sizeof u; at++)                                                   \
            assert_int_equal(u.bytes[at], 0xa5);                                                   \
    } while (0)

/* Checks a call that takes `const TYPE *o`.  `prepare` sets fields of `*p` after TYPE_init(), and
 * `undo` frees the result of the call.  Size 0 is refused.  The struct of an older program, whose
 * size is `older`, and the larger struct of a newer program work; fields that this library does not
 * know must be 0. */
#define expect_sizes(type, older, prepare, call, undo)                                             \
    do {                                                                                           \
        union {                                                                                    \
            type value;                                                                            \
            unsigned char bytes[sizeof(type) + API_EXTRA];                                         \
        } u;                                                                                       \
        type *const p = &u.value;                                                                  \
        const type *const o = &u.value;                                                            \
        memset(&u, 0, sizeof u);                                                                   \
        type##_init(p, sizeof *p);                                                                 \
        prepare;                                                                                   \
        p->size = 0;                                                                               \
        expect_invalid("size", call);                                                              \
        p->size = (older);                                                                         \
        expect_ok(call);                                                                           \
        undo;                                                                                      \
        p->size = sizeof u;                                                                        \
        expect_ok(call);                                                                           \
        undo;                                                                                      \
        u.bytes[sizeof u - 1] = 1;                                                                 \
        expect_status(KVS_E_UNSUPPORTED, "", call);                                                \
    } while (0)

/* ---- a model, a folder and a batch ---- */

/* A runtime of one thread and a model of two layers, which api_setup() creates for a group of
 * tests. */
enum { API_VOCAB = 20, API_CONTEXT = 16, API_DIM = 16, API_LAYERS = 2, API_HEADS = 2 };

static kvs_runtime *api_runtime;
static kvs_model *api_model;
static char api_dir[64];

static inline kvs_model_config *api_config(void)
{
    kvs_model_config *config;

    expect_ok(kvs_model_config_create(&config, NULL, &err));
    expect_ok(kvs_model_config_set_number(config, "vocab", API_VOCAB, &err));
    expect_ok(kvs_model_config_set_number(config, "context", API_CONTEXT, &err));
    expect_ok(kvs_model_config_set_number(config, "dim", API_DIM, &err));
    expect_ok(kvs_model_config_set_number(config, "layers", API_LAYERS, &err));
    expect_ok(kvs_model_config_set_number(config, "heads", API_HEADS, &err));
    expect_ok(kvs_model_config_set(config, "shift", "kv", &err));
    return config;
}

static inline int api_setup(void **state)
{
    kvs_runtime_options options;
    kvs_model_config *config = api_config();

    (void)state;
    kvs_runtime_options_init(&options, sizeof options);
    options.threads = 1;
    expect_ok(kvs_runtime_create(&api_runtime, &options, &err));
    expect_ok(kvs_model_config_finish(config, &err));
    expect_ok(kvs_model_create(&api_model, api_runtime, config, 1, &err));
    kvs_model_config_free(config);
    snprintf(api_dir, sizeof api_dir, "%s/kvshift-api-XXXXXX",
             getenv("TMPDIR") ? getenv("TMPDIR") : "/tmp");
    return mkdtemp(api_dir) ? 0 : -1;
}

static inline int api_teardown(void **state)
{
    char command[128];

    (void)state;
    kvs_model_free(api_model);
    kvs_runtime_free(api_runtime);
    snprintf(command, sizeof command, "rm -rf '%s'", api_dir);
    return system(command);
}

/* Returns a batch of two sequences, without targets. */
static inline kvs_batch api_two_sequences(const size_t starts[3], const int32_t *ids)
{
    kvs_batch batch;

    kvs_batch_init(&batch, sizeof batch);
    batch.sequences = 2;
    batch.starts = starts;
    batch.ids = ids;
    return batch;
}

/* Returns a path in the folder of the tests, which is valid for the next three calls. */
static inline const char *api_path(const char *name)
{
    static char paths[4][256];
    static unsigned next;
    char *path = paths[next++ % 4];

    snprintf(path, sizeof paths[0], "%s/%s", api_dir, name);
    return path;
}

/* Writes a file into that folder and returns its path. */
static inline const char *api_write(const char *name, const char *text)
{
    const char *path = api_path(name);
    FILE *file = fopen(path, "w");

    assert_non_null(file);
    assert_true(fputs(text, file) >= 0);
    assert_int_equal(fclose(file), 0);
    return path;
}

#endif
