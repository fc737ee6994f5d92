/* Every wrapper has the same three lines: the clock starts and the real table takes its place, so
 * that an operation that calls others is counted once; the real operation; what it did.
 *
 * Floating-point operations are those of the definition, bytes those that must move if nothing
 * stays in a cache. */
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
        if (profile->count == KVS_BENCH_OPS_MAX - 1) /* one is for "other", which it joins */
            return;
        found = &profile->op[profile->count++];
        *found = (kvs_bench_op){.op = call->op, .site = call->site};
    }
    found->calls++;
    found->seconds += call->seconds;
    found->flops += call->flops;
    found->bytes += call->bytes;
}

/* ---- the three lines ---- */

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

static void leave(const call *now, const char *op, const char *site, double flops, double numbers)
{
    const double seconds = kvsi_clock_seconds() - now->started;

    now->context->ops = &now->profile->table;
    kvsi_profile_add(now->profile, &(kvs_bench_op){.op = op,
                                                   .site = site,
                                                   .seconds = seconds,
                                                   .flops = flops,
                                                   .bytes = numbers * sizeof(real)});
}

/* ---- memory ---- */

static void upload(kvsi_context *c, void *to, const void *from_host, size_t bytes)
{
    const call now = enter(c);

    now.profile->inner->upload(c, to, from_host, bytes);
    leave(&now, "upload", NULL, 0, 2.0 * (double)bytes / sizeof(real));
}

static void download(kvsi_context *c, void *to_host, const void *from, size_t bytes)
{
    const call now = enter(c);

    now.profile->inner->download(c, to_host, from, bytes);
    leave(&now, "download", NULL, 0, 2.0 * (double)bytes / sizeof(real));
}

static void copy(kvsi_context *c, void *to, const void *from, size_t bytes)
{
    const call now = enter(c);

    now.profile->inner->copy(c, to, from, bytes);
    leave(&now, "copy", NULL, 0, 2.0 * (double)bytes / sizeof(real));
}

static void zero(kvsi_context *c, void *memory, size_t bytes)
{
    const call now = enter(c);

    now.profile->inner->zero(c, memory, bytes);
    leave(&now, "zero", NULL, 0, (double)bytes / sizeof(real));
}

/* ---- embedding and norms ---- */

static void embed_forward(kvsi_context *c, real *y, const kvsi_matrix *table, const int32_t *ids,
                          size_t n, int add)
{
    const call now = enter(c);

    now.profile->inner->embed_forward(c, y, table, ids, n, add);
    leave(&now, "embed_forward", NULL, 0, (add ? 3.0 : 2.0) * (double)(n * table->cols));
}

static void embed_backward(kvsi_context *c, real *d_table, const real *d_y, const int32_t *ids,
                           size_t n, size_t dim)
{
    const call now = enter(c);

    now.profile->inner->embed_backward(c, d_table, d_y, ids, n, dim);
    leave(&now, "embed_backward", NULL, 0, 3.0 * (double)(n * dim));
}

static void norm_forward(kvsi_context *c, real *y, const real *x, const kvsi_norm *norm, size_t n,
                         size_t dim)
{
    const call now = enter(c);

    now.profile->inner->norm_forward(c, y, x, norm, n, dim);
    leave(&now, "norm_forward", NULL, 0, 2.0 * (double)(n * dim));
}

static void norm_backward(kvsi_context *c, real *d_x, real *d_gain, real *d_bias, const real *d_y,
                          const real *x, const kvsi_norm *norm, size_t n, size_t dim)
{
    const call now = enter(c);

    now.profile->inner->norm_backward(c, d_x, d_gain, d_bias, d_y, x, norm, n, dim);
    leave(&now, "norm_backward", NULL, 0, 4.0 * (double)(n * dim));
}

/* ---- linear layers ---- */

/* Which matrix has this shape; a layer's four differ unless the configuration is very odd, and
 * then the first of equals speaks for both. */
static const char *site_of(const kvsi_profile *profile, size_t rows, size_t cols)
{
    const kvs_model_config *c = &profile->config;
    const size_t up = c->body == KVS_BODY_GPT2 ? c->ffn : 2 * c->ffn;

    if (cols == c->dim && rows == c->dim)
        return "o";
    if (cols == c->dim && rows == c->dim + 2 * c->kv_heads * (c->dim / c->heads))
        return "qkv";
    if (cols == c->dim && rows == up)
        return c->body == KVS_BODY_GPT2 ? "up" : "gate_up";
    if (cols == c->ffn && rows == c->dim)
        return "down";
    return "gates";
}

static double product(size_t n, size_t rows, size_t cols)
{
    return 2.0 * (double)n * (double)rows * (double)cols;
}

static void linear_forward(kvsi_context *c, real *y, const real *x, const kvsi_matrix *w, size_t n,
                           const real *residual)
{
    const call now = enter(c);

    now.profile->inner->linear_forward(c, y, x, w, n, residual);
    leave(&now, "linear_forward", site_of(now.profile, w->rows, w->cols),
          product(n, w->rows, w->cols), 0);
}

static void linear_backward_input(kvsi_context *c, real *d_x, const real *d_y, const kvsi_matrix *w,
                                  size_t n, int add)
{
    const call now = enter(c);

    now.profile->inner->linear_backward_input(c, d_x, d_y, w, n, add);
    leave(&now, "linear_backward_input", site_of(now.profile, w->rows, w->cols),
          product(n, w->rows, w->cols), 0);
}

static void linear_backward_weight(kvsi_context *c, real *d_w, const real *d_y, const real *x,
                                   size_t n, size_t rows, size_t cols)
{
    const call now = enter(c);

    now.profile->inner->linear_backward_weight(c, d_w, d_y, x, n, rows, cols);
    leave(&now, "linear_backward_weight", site_of(now.profile, rows, cols), product(n, rows, cols),
          0);
}

static void linear_backward_bias(kvsi_context *c, real *d_bias, const real *d_y, size_t n,
                                 size_t rows)
{
    const call now = enter(c);

    now.profile->inner->linear_backward_bias(c, d_bias, d_y, n, rows);
    leave(&now, "linear_backward_bias", NULL, 0, (double)(n * rows));
}

/* ---- attention ---- */

/* One causal product of queries with keys, or of weights with values. */
static double attention_product(const kvsi_attention *a)
{
    const double dim = (double)(a->heads * a->head_size);
    double squares = 0;

    for (size_t s = 0; s < a->sequences; s++)
        squares += (double)a->spans[s].len * (double)a->spans[s].len;
    return dim * squares;
}

static void attention_forward(kvsi_context *c, real *out, real *logsum, const real *qkv,
                              const kvsi_attention *a)
{
    const call now = enter(c);

    now.profile->inner->attention_forward(c, out, logsum, qkv, a);
    leave(&now, "attention_forward", NULL, 2 * attention_product(a), 0);
}

static void attention_backward(kvsi_context *c, real *d_qkv, const real *d_out, const real *out,
                               const real *logsum, const real *qkv, const kvsi_attention *a)
{
    const call now = enter(c);

    now.profile->inner->attention_backward(c, d_qkv, d_out, out, logsum, qkv, a);
    leave(&now, "attention_backward", NULL, 4 * attention_product(a), 0);
}

/* ---- activations and small things ---- */

static void swiglu_forward(kvsi_context *c, real *y, const real *gate_up, size_t n, size_t ffn)
{
    const call now = enter(c);

    now.profile->inner->swiglu_forward(c, y, gate_up, n, ffn);
    leave(&now, "swiglu_forward", NULL, 0, 3.0 * (double)(n * ffn));
}

static void swiglu_backward(kvsi_context *c, real *d_gate_up, const real *d_y, const real *gate_up,
                            size_t n, size_t ffn)
{
    const call now = enter(c);

    now.profile->inner->swiglu_backward(c, d_gate_up, d_y, gate_up, n, ffn);
    leave(&now, "swiglu_backward", NULL, 0, 5.0 * (double)(n * ffn));
}

static void gelu_forward(kvsi_context *c, real *y, const real *x, size_t n, size_t ffn)
{
    const call now = enter(c);

    now.profile->inner->gelu_forward(c, y, x, n, ffn);
    leave(&now, "gelu_forward", NULL, 0, 2.0 * (double)(n * ffn));
}

static void gelu_backward(kvsi_context *c, real *d_x, const real *d_y, const real *x, size_t n,
                          size_t ffn)
{
    const call now = enter(c);

    now.profile->inner->gelu_backward(c, d_x, d_y, x, n, ffn);
    leave(&now, "gelu_backward", NULL, 0, 3.0 * (double)(n * ffn));
}

static void dropout(kvsi_context *c, real *x, size_t count, const kvsi_dropout *d)
{
    const call now = enter(c);

    now.profile->inner->dropout(c, x, count, d);
    leave(&now, "dropout", NULL, 0, 2.0 * (double)count);
}

static void add(kvsi_context *c, real *y, const real *x, size_t count)
{
    const call now = enter(c);

    now.profile->inner->add(c, y, x, count);
    leave(&now, "add", NULL, 0, 3.0 * (double)count);
}

static void unit_rows_forward(kvsi_context *c, real *y, const real *x, size_t rows, size_t cols)
{
    const call now = enter(c);

    now.profile->inner->unit_rows_forward(c, y, x, rows, cols);
    leave(&now, "unit_rows_forward", NULL, 0, 2.0 * (double)(rows * cols));
}

static void unit_rows_backward(kvsi_context *c, real *d_x, const real *d_y, const real *x,
                               size_t rows, size_t cols)
{
    const call now = enter(c);

    now.profile->inner->unit_rows_backward(c, d_x, d_y, x, rows, cols);
    leave(&now, "unit_rows_backward", NULL, 0, 4.0 * (double)(rows * cols));
}

/* ---- head, loss and optimizer ---- */

static void head_loss(kvsi_context *c, const kvsi_head *head)
{
    const call now = enter(c);
    const double products = head->d_x ? 3 : 1;

    now.profile->inner->head_loss(c, head);
    leave(&now, "head_loss", NULL, products * product(head->count, head->w->rows, head->w->cols),
          0);
}

static void sum_squares(kvsi_context *c, double *sum, const real *g, size_t n)
{
    const call now = enter(c);

    now.profile->inner->sum_squares(c, sum, g, n);
    leave(&now, "sum_squares", NULL, 0, (double)n);
}

static void adamw(kvsi_context *c, real *p, const real *g, real *m, real *v, size_t n,
                  const kvsi_adamw *h, const double *scale)
{
    const call now = enter(c);

    now.profile->inner->adamw(c, p, g, m, v, n, h, scale);
    leave(&now, "adamw", NULL, 0, 7.0 * (double)n); /* p, m and v go both ways */
}

/* ---- the profile ---- */

/* What takes no time worth telling (allocation, sync, the clipping factor) or does not happen in a
 * step (logits, probes) stays as it is. */
void kvsi_profile_init(kvsi_profile *profile, const kvsi_ops *inner, const kvs_model_config *config)
{
    kvsi_ops *t = &profile->table;

    *profile = (kvsi_profile){.table = *inner, .inner = inner, .config = *config};
    t->upload = upload;
    t->download = download;
    t->copy = copy;
    t->zero = zero;
    t->embed_forward = embed_forward;
    t->embed_backward = embed_backward;
    t->norm_forward = norm_forward;
    t->norm_backward = norm_backward;
    t->linear_forward = linear_forward;
    t->linear_backward_input = linear_backward_input;
    t->linear_backward_weight = linear_backward_weight;
    t->linear_backward_bias = linear_backward_bias;
    t->attention_forward = attention_forward;
    t->attention_backward = attention_backward;
    t->swiglu_forward = swiglu_forward;
    t->swiglu_backward = swiglu_backward;
    t->gelu_forward = gelu_forward;
    t->gelu_backward = gelu_backward;
    t->dropout = dropout;
    t->add = add;
    t->unit_rows_forward = unit_rows_forward;
    t->unit_rows_backward = unit_rows_backward;
    t->head_loss = head_loss;
    t->sum_squares = sum_squares;
    t->adamw = adamw;
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
