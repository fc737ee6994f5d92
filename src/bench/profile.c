/* Every operation of the list gets a wrapper that starts the clock, calls the real operation and
 * adds the time and the work to the profile.  Meanwhile the real table is in place, so that an
 * operation that calls others is counted once. */
#include "bench/profile.h"

#include "base/clock.h"

#include <stdlib.h>
#include <string.h>

void kvsi_profile_add(kvsi_profile *profile, const kvs_bench_op *call)
{
    kvs_bench_op *found = NULL;

    for (size_t i = 0; i < profile->count && !found; i++)
        if (profile->op[i].op == call->op && profile->op[i].site == call->site)
            found = &profile->op[i];
    if (!found) {
        if (profile->count ==
            KVS_BENCH_OPS_MAX - 1) /* the last row is for "other", which includes this one */
            return;
        found = &profile->op[profile->count++];
        *found = (kvs_bench_op){.op = call->op, .site = call->site};
    }
    found->calls++;
    found->seconds += call->seconds;
    found->flops += call->flops;
    found->bytes += call->bytes;
}

/* ---- work: the last column of kernels/operations.def ---- */

typedef struct work {
    double flops, values; /* 0 and 0: not worth a row of the profile */
    size_t rows, cols;    /* of a linear layer's matrix, which names the site; else 0 */
} work;

static work moves(size_t values)
{
    return (work){.values = (double)values};
}

/* `count` products of n rows with a matrix. */
static work products(size_t count, size_t n, size_t rows, size_t cols)
{
    return (work){.flops = 2.0 * (double)count * (double)n * (double)rows * (double)cols,
                  .rows = rows,
                  .cols = cols};
}

static work loss_products(size_t count, size_t n, const kvsi_matrix *w)
{
    return (work){.flops = products(count, n, w->rows, w->cols).flops};
}

/* `count` causal products of queries with keys, or of weights with values. */
static work attention(size_t count, const kvsi_attention *a)
{
    const double dim = (double)(a->heads * a->head_size);
    double squares = 0;

    for (size_t s = 0; s < a->sequences; s++)
        squares += (double)a->spans[s].len * (double)a->spans[s].len;
    return (work){.flops = (double)count * (dim * squares)};
}

/* Which matrix has this shape; a layer's four differ unless the configuration is very odd, and
 * then equal ones count as the first. */
static const char *site_of(const kvsi_profile *profile, size_t rows, size_t cols)
{
    const kvs_model_config *c = &profile->config;
    const size_t head_size = c->head_size > 0 ? c->head_size : c->dim / c->heads;
    const size_t up = c->plain_mlp ? c->ffn : 2 * c->ffn;

    if (rows == 0)
        return NULL;
    if (cols == c->heads * head_size && rows == c->dim)
        return "o";
    if (cols == c->dim && rows == (c->heads + 2 * c->kv_heads) * head_size)
        return "qkv";
    if (cols == c->dim && rows == up)
        return c->plain_mlp ? "up" : "gate_up";
    if (cols == c->ffn && rows == c->dim)
        return "down";
    return "gates";
}

/* ---- wrappers ---- */

typedef struct call {
    kvsi_context *context;
    kvsi_profile *profile;
    double started;
} call;

static call enter(kvsi_context *c)
{
    kvsi_profile *profile = (kvsi_profile *)c->ops; /* its first member */

    c->ops = profile->inner;
    return (call){c, profile, kvsi_clock_seconds()};
}

static void leave(const call *now, const char *op, const work *done)
{
    const double seconds = kvsi_clock_seconds() - now->started;

    now->context->ops = &now->profile->table;
    if (done->flops == 0 && done->values == 0)
        return;
    kvsi_profile_add(now->profile,
                     &(kvs_bench_op){.op = op,
                                     .site = site_of(now->profile, done->rows, done->cols),
                                     .seconds = seconds,
                                     .flops = done->flops,
                                     .bytes = done->values * sizeof(real)});
}

#define OPERATION(name, parameters, arguments, what)                                               \
    static void name parameters                                                                    \
    {                                                                                              \
        const work done = what;                                                                    \
        const call now = enter(c);                                                                 \
                                                                                                   \
        now.profile->inner->name arguments;                                                        \
        leave(&now, #name, &done);                                                                 \
    }
/* clang-format off */
OPERATION(upload, (kvsi_context *c, void *to, const void *from_host, size_t bytes),
          (c, to, from_host, bytes), moves(2 * bytes / sizeof(real)))
OPERATION(download, (kvsi_context *c, void *to_host, const void *from, size_t bytes),
          (c, to_host, from, bytes), moves(2 * bytes / sizeof(real)))
OPERATION(copy, (kvsi_context *c, void *to, const void *from, size_t bytes), (c, to, from, bytes),
          moves(2 * bytes / sizeof(real)))
OPERATION(zero, (kvsi_context *c, void *memory, size_t bytes), (c, memory, bytes),
          moves(bytes / sizeof(real)))
/* clang-format on */
#include "kernels/operations.def"

void kvsi_profile_init(kvsi_profile *profile, const kvsi_ops *inner, const kvs_model_config *config)
{
    *profile = (kvsi_profile){.table = *inner, .inner = inner, .config = *config};
    profile->table.upload = upload;
    profile->table.download = download;
    profile->table.copy = copy;
    profile->table.zero = zero;
#define OPERATION(name, parameters, arguments, work) profile->table.name = name;
#include "kernels/operations.def"
}

void kvsi_profile_reset(kvsi_profile *profile)
{
    profile->count = 0;
}

static int longest_first(const void *left, const void *right)
{
    const kvs_bench_op *a = left, *b = right;

    return (a->seconds < b->seconds) - (a->seconds > b->seconds);
}

size_t kvsi_profile_summarise(const kvsi_profile *profile, size_t steps, double seconds,
                              kvs_bench_op op[KVS_BENCH_OPS_MAX])
{
    const size_t count = profile->count;
    double rest = seconds;

    memcpy(op, profile->op, count * sizeof *op);
    for (size_t i = 0; i < count; i++) {
        op[i].calls /= (double)steps;
        op[i].seconds /= (double)steps;
        op[i].flops /= (double)steps;
        op[i].bytes /= (double)steps;
        rest -= op[i].seconds;
    }
    qsort(op, count, sizeof *op, longest_first);
    op[count] = (kvs_bench_op){.op = "other", .seconds = rest};
    return count + 1;
}
