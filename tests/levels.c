#include "levels.h"

#include "amx_trap.h"
#include "base/memory.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

enum { GUARD = 4096, THREADS = 2 };

/* ---- memory of an operation ---- */

void *levels_hold(run *r, size_t bytes)
{
    void *block = kvsi_alloc(bytes, 1);

    assert_non_null(block);
    assert_true(r->held < BLOCKS_MAX);
    r->blocks[r->held++] = block;
    return block;
}

real *levels_given(run *r, size_t n)
{
    real *x = levels_hold(r, n * sizeof *x);

    for (size_t i = 0; i < n; i++)
        x[i] = (real)kvsi_random_normal(&r->random);
    return x;
}

int32_t *levels_given_ids(run *r, size_t n, size_t bound)
{
    int32_t *ids = levels_hold(r, n * sizeof *ids);

    for (size_t i = 0; i < n; i++)
        ids[i] = (int32_t)kvsi_random_below(&r->random, (uint32_t)bound);
    return ids;
}

void *levels_given_weights(run *r, kvsi_dtype type, size_t n)
{
    const size_t block = kvsi_dtype_block(type), bytes = kvsi_dtype_bytes(type, block);
    unsigned char *weights = levels_hold(r, kvsi_dtype_bytes(type, n));

    for (size_t i = 0; i < n / block; i++) {
        unsigned char *at = weights + i * bytes;

        if (block == 1) {
            const float x = (float)kvsi_random_normal(&r->random);

            kvsi_dtype_encode(at, type, &x, 1);
            continue;
        }
        for (size_t k = 0; k < bytes; k++)
            at[k] = (unsigned char)kvsi_random_below(&r->random, 256);
        if (type == KVSI_Q6_K)
            at += bytes - 2;
        at[1] = (unsigned char)(0x24 + at[1] % 8); /* F16: sign, exponent and two bits */
        if (type == KVSI_Q4_K || type == KVSI_Q5_K)
            at[3] = (unsigned char)(0x24 + at[3] % 8);
    }
    return weights;
}

real *levels_listed(run *r, const char *name, real *values, size_t n, int gaps)
{
    assert_true(r->count < OUTPUTS_MAX);
    r->outputs[r->count++] = (output){.name = name, .values = values, .count = n, .gaps = gaps};
    return values;
}

real *levels_added(run *r, const char *name, size_t n)
{
    return levels_listed(r, name, levels_given(r, n), n, 0);
}

real *levels_written(run *r, const char *name, size_t n)
{
    real *x = levels_hold(r, n * sizeof *x);

    for (size_t i = 0; i < n; i++)
        x[i] = (real)NAN;
    return levels_listed(r, name, x, n, 0);
}

real levels_whole(real x, double large)
{
    return (real)fmax(-large, fmin(large, round((double)x * large / 2)));
}

/* ---- calling it ---- */

kvsi_context levels_context(run *r, const kvsi_ops *ops)
{
    const size_t bytes = ops->workspace_bytes(&r->limits, THREADS);
    kvsi_context c = {.ops = ops, .threads = THREADS, .workspace_bytes = bytes};

    c.workspace = levels_hold(r, bytes + GUARD);
    memset(c.workspace, 0xff, bytes + GUARD);
    return c;
}

static void check_guard(const kvsi_context *c, const char *what)
{
    for (size_t i = 0; i < GUARD; i++)
        if (c->workspace[c->workspace_bytes + i] != 0xff)
            fail_msg("%s: %s wrote to byte %zu behind its workspace of %zu", c->ops->name, what, i,
                     c->workspace_bytes);
}

void levels_start(run *r, const kvsi_ops *ops, const kvsi_limits *limits)
{
    *r = (run){.limits = *limits};
    kvsi_random_init(&r->random, 7, KVSI_RANDOM_DATA, 0);
    r->c = levels_context(r, ops);
}

void levels_finish(run *r)
{
    for (size_t i = 0; i < r->held; i++)
        kvsi_free(r->blocks[i]);
}

static double largest_of(const output *o)
{
    double largest = 0;

    for (size_t i = 0; i < o->count; i++)
        largest = fmax(largest, fabs((double)o->values[i]));
    return largest;
}

static void compare(const char *what, const run *got, const run *want, size_t which,
                    double tolerance)
{
    const output *found = &got->outputs[which], *expected = &want->outputs[which];
    const double terms = expected->terms > 0 ? largest_of(&want->outputs[expected->terms - 1]) : 0;
    const double largest = fmax(largest_of(expected), terms);

    for (size_t i = 0; i < expected->count; i++) {
        const double x = (double)found->values[i], y = (double)expected->values[i];

        if (expected->gaps && isnan(x) && isnan(y))
            continue;
        if (!(fabs(x - y) <= tolerance * largest))
            fail_msg("%s: %s: %s[%zu] is %.9g, the reference has %.9g; the largest is %.9g",
                     got->c.ops->name, what, expected->name, i, x, y, largest);
    }
}

size_t levels_fast(const kvsi_ops *levels[LEVELS_MAX])
{
    size_t count = 0;
    const char *level;
    int usable;

    for (size_t i = 0; (level = kvs_cpu_level_name(i, &usable)); i++)
        if (usable && strcmp(level, kvsi_reference_ops.name) != 0) {
            assert_true(count < LEVELS_MAX);
            assert_int_equal(kvsi_ops_find(&levels[count++], level, NULL), KVS_OK);
        }
    return count;
}

void levels_check_in(kvsi_precision precision, double tolerance, levels_operation *call,
                     const void *asked, const kvsi_limits *limits, const char *what)
{
    const kvsi_ops *levels[LEVELS_MAX];
    const size_t count = levels_fast(levels);
    run want, got;

    levels_start(&want, &kvsi_reference_ops, limits);
    want.c.precision = precision;
    call(&want, asked);
    check_guard(&want.c, what);
    for (size_t i = 0; i < count; i++) {
        levels_start(&got, levels[i], limits);
        got.c.precision = precision;
        call(&got, asked);
        check_guard(&got.c, what);
        assert_int_equal(got.count, want.count);
        for (size_t k = 0; k < want.count; k++)
            compare(what, &got, &want, k, tolerance);
        levels_finish(&got);
    }
    levels_finish(&want);
}

void levels_check(levels_operation *call, const void *asked, const kvsi_limits *limits,
                  const char *what)
{
    levels_check_in(KVSI_PRECISION_F32, LEVELS_TOLERANCE, call, asked, limits, what);
}

/* ---- AMX ---- */

#ifdef KVSI_HAVE_AMX
extern const kvsi_ops kvsi_amx_ops, kvsi_amx_emulated_ops;

static int usable(const char *name)
{
    const kvsi_ops *ops;

    return kvsi_ops_find(&ops, name, NULL) == KVS_OK;
}

void levels_compare_amx(kvsi_precision precision, levels_operation *call, const void *asked,
                        const kvsi_limits *limits, const char *what)
{
    enum { TRAPPED_MAX = 50000 }; /* trapped instructions are slow */
    const int hardware = usable("amx");
    run want, got;

    if (!hardware && limits->tokens * limits->dim * limits->ffn > TRAPPED_MAX)
        return;
    if (!hardware && (!usable("avx512") || !amx_trap_start())) {
        static int printed;

        if (!printed++)
            printf("not applicable: no AMX\n");
        return;
    }
    levels_start(&want, &kvsi_amx_emulated_ops, limits);
    want.c.precision = precision;
    call(&want, asked);
    levels_start(&got, &kvsi_amx_ops, limits);
    got.c.precision = precision;
    call(&got, asked);
    if (!hardware)
        amx_trap_stop();
    for (size_t k = 0; k < want.count; k++)
        for (size_t i = 0; i < want.outputs[k].count; i++) {
            const real *x = &got.outputs[k].values[i], *y = &want.outputs[k].values[i];

            if (!(isnan(*x) && isnan(*y)) && memcmp(x, y, sizeof *x) != 0)
                fail_msg("%s: %s[%zu] is %a with amx, %a with amx-emulated", what,
                         want.outputs[k].name, i, (double)*x, (double)*y);
        }
    levels_finish(&got);
    levels_finish(&want);
}
#else
void levels_compare_amx(kvsi_precision precision, levels_operation *call, const void *asked,
                        const kvsi_limits *limits, const char *what)
{
    (void)precision;
    (void)call;
    (void)asked;
    (void)limits;
    (void)what;
}
#endif
