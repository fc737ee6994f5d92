#include "levels.h"

#include "amx_trap.h"
#include "base/memory.h"

#include <math.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

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

/* ---- workspace ---- */

/* The workspaces of all runs are one private mapping of a file of bytes 0xff.  Mapping it again
 * restores these bytes, which takes less time than filling some megabytes with them: only the pages
 * that an operation uses are read. */
static struct {
    FILE *file;
    unsigned char *at;
    size_t size;
} filled;

static void enlarge(size_t size)
{
    unsigned char bytes[1 << 16];

    memset(bytes, 0xff, sizeof bytes);
    if (!filled.file)
        filled.file = tmpfile();
    assert_non_null(filled.file);
    if (filled.at)
        munmap(filled.at, filled.size);
    filled.at = NULL;
    for (; filled.size < size; filled.size += sizeof bytes)
        assert_int_equal(fwrite(bytes, sizeof bytes, 1, filled.file), 1);
    assert_int_equal(fflush(filled.file), 0);
}

/* Bytes at the end of the mapping, aligned as by kvsi_alloc, with a guard on each side. */
static unsigned char *new_workspace(size_t bytes)
{
    const size_t used = (bytes + 63) / 64 * 64 + GUARD;
    void *at;

    if (used + GUARD > filled.size)
        enlarge(used + GUARD);
    at = mmap(filled.at, filled.size, PROT_READ | PROT_WRITE,
              filled.at ? MAP_PRIVATE | MAP_FIXED : MAP_PRIVATE, fileno(filled.file), 0);
    assert_true(at != MAP_FAILED);
    filled.at = at;
    return filled.at + filled.size - used;
}

static kvsi_context new_context(const run *r, const kvsi_ops *ops)
{
    const size_t bytes = ops->workspace_bytes(&r->limits, THREADS);

    return (kvsi_context){.ops = ops,
                          .threads = THREADS,
                          .workspace = new_workspace(bytes),
                          .workspace_bytes = bytes};
}

static void check_guards(const kvsi_context *c, const char *what)
{
    for (size_t i = 0; i < GUARD; i++) {
        if (c->workspace[c->workspace_bytes + i] != 0xff)
            fail_msg("%s: %s wrote to byte %zu behind its workspace of %zu", c->ops->name, what, i,
                     c->workspace_bytes);
        if (c->workspace[-1 - (ptrdiff_t)i] != 0xff)
            fail_msg("%s: %s wrote to byte %zu before its workspace", c->ops->name, what, i + 1);
    }
}

/* ---- calling it ---- */

void levels_start(run *r, const kvsi_ops *ops, const kvsi_limits *limits)
{
    *r = (run){.limits = *limits};
    kvsi_random_init(&r->random, 7, KVSI_RANDOM_DATA, 0);
    r->c = new_context(r, ops);
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

static void compare(const levels_case *c, const run *got, const run *want, size_t which)
{
    const output *found = &got->outputs[which], *expected = &want->outputs[which];
    const double terms = expected->terms > 0 ? largest_of(&want->outputs[expected->terms - 1]) : 0;
    const double largest = fmax(largest_of(expected), terms);

    for (size_t i = 0; i < expected->count; i++) {
        const double x = (double)found->values[i], y = (double)expected->values[i];

        if (expected->gaps && isnan(x) && isnan(y))
            continue;
        if (!(fabs(x - y) <= c->tolerance * largest))
            fail_msg("%s: %s: %s[%zu] is %.9g, the reference has %.9g; the largest is %.9g",
                     got->c.ops->name, c->what, expected->name, i, x, y, largest);
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

/* Calls the operation at one level; `kept` is what the reference's call has kept. */
static void perform(run *r, const kvsi_ops *ops, const levels_case *c, void *kept)
{
    levels_start(r, ops, &c->limits);
    r->c.precision = c->precision;
    r->kept = kept;
    c->call(r, c->asked);
    check_guards(&r->c, c->what);
}

/* ---- AMX ---- */

#ifdef KVSI_HAVE_AMX
extern const kvsi_ops kvsi_amx_ops;

static int usable(const char *level)
{
    const kvsi_ops *ops;

    return kvsi_ops_find(&ops, level, NULL) == KVS_OK;
}

static void say_once(const char *text)
{
    static int printed;

    if (!printed++)
        printf("%s\n", text);
}

/* Asserts that level amx has the bits of `want`, a run of amx-emulated. */
static void compare_amx(const levels_case *c, const run *want)
{
    const int hardware = usable("amx");
    run got;

    if (!hardware && (!usable("avx512") || !amx_trap_start())) {
        say_once("not applicable: no AMX");
        return;
    }
    if (!hardware)
        say_once("not applicable: no AMX; its instructions are trapped");
    perform(&got, &kvsi_amx_ops, c, want->kept);
    if (!hardware)
        amx_trap_stop();
    for (size_t k = 0; k < want->count; k++)
        for (size_t i = 0; i < want->outputs[k].count; i++) {
            const real *x = &got.outputs[k].values[i], *y = &want->outputs[k].values[i];

            if (!(isnan(*x) && isnan(*y)) && memcmp(x, y, sizeof *x) != 0)
                fail_msg("%s: %s[%zu] is %a with amx, %a with amx-emulated", c->what,
                         want->outputs[k].name, i, (double)*x, (double)*y);
        }
    levels_finish(&got);
}
#else
static void compare_amx(const levels_case *c, const run *want)
{
    (void)c;
    (void)want;
}
#endif

/* ---- every level ---- */

static int is_emulated(const kvsi_ops *ops)
{
    return strcmp(ops->name, "amx-emulated") == 0;
}

void levels_check(const levels_case *c)
{
    const kvsi_ops *levels[LEVELS_MAX];
    const size_t count = levels_fast(levels);
    run want, got;

    perform(&want, &kvsi_reference_ops, c, NULL);
    for (size_t i = 0; i < count; i++) {
        if (is_emulated(levels[i]) && !c->slow)
            continue;
        perform(&got, levels[i], c, want.kept);
        assert_int_equal(got.count, want.count);
        for (size_t k = 0; k < want.count; k++)
            compare(c, &got, &want, k);
        if (is_emulated(levels[i]))
            compare_amx(c, &got);
        levels_finish(&got);
    }
    levels_finish(&want);
}
