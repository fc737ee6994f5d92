#include "device.h"

#include "base/memory.h"
#include "kernels/forms.h"
#include "kernels/runtime.h"

#include <string.h>
#include <sys/mman.h>

enum { BLOCKS_MAX = 1 << 14, ALIGNMENT = 64, PARTS_MAX = 3, SPANS_MAX = 64 };
static const size_t BYTES = (size_t)1 << 30; /* only touched pages use memory */

/* Released blocks are not reused until all are released. */
typedef struct block {
    size_t at, bytes;
    int is_live;
} block;

/* A download in flight. */
typedef struct delivery {
    void *to_host;
    unsigned char *bytes;
    size_t count;
    struct delivery *next;
} delivery;

struct device {
    unsigned char *addresses; /* seen by callers; no access */
    unsigned char *memory;    /* the data */
    block blocks[BLOCKS_MAX];
    size_t count, live, end;
    delivery *deliveries;
    size_t operations, fail_at;
    kvs_status status; /* the first failure */
};

/* ---- memory ---- */

device *device_create(void)
{
    device *d = kvsi_alloc(1, sizeof *d);
    const int kind = MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE;

    assert_non_null(d);
    d->addresses = mmap(NULL, BYTES, PROT_NONE, kind, -1, 0);
    d->memory = mmap(NULL, BYTES, PROT_READ | PROT_WRITE, kind, -1, 0);
    assert_true(d->addresses != MAP_FAILED && d->memory != MAP_FAILED);
    d->fail_at = SIZE_MAX;
    return d;
}

void device_free(device *d)
{
    assert_int_equal(d->live, 0);
    assert_null(d->deliveries);
    munmap(d->addresses, BYTES);
    munmap(d->memory, BYTES);
    kvsi_free(d);
}

static device *device_of(const kvsi_context *c)
{
    return c->device;
}

static void *device_alloc(const kvsi_context *c, size_t bytes)
{
    device *d = device_of(c);
    const size_t at = d->end;

    if (d->count == BLOCKS_MAX || bytes > BYTES - at - ALIGNMENT)
        return NULL;
    d->end += (bytes / ALIGNMENT + 1) * ALIGNMENT; /* blocks never touch */
    d->blocks[d->count++] = (block){at, bytes, 1};
    d->live++;
    memset(d->memory + at, 0, bytes);
    return d->addresses + at;
}

/* The block that an address is in. */
static block *find_block(device *d, const void *address)
{
    const size_t at = (size_t)((const unsigned char *)address - d->addresses);
    size_t low = 0, high = d->count;

    if ((const unsigned char *)address < d->addresses || at >= d->end)
        fail_msg("%p is not an address of the device", address);
    while (high - low > 1) {
        const size_t middle = (low + high) / 2;

        if (d->blocks[middle].at <= at)
            low = middle;
        else
            high = middle;
    }
    if (!d->blocks[low].is_live)
        fail_msg("%p was released", address);
    return &d->blocks[low];
}

static void device_release(const kvsi_context *c, void *memory)
{
    device *d = device_of(c);
    block *b;

    if (!memory)
        return;
    b = find_block(d, memory);
    assert_ptr_equal(d->addresses + b->at, memory);
    memset(d->memory + b->at, 0xff, b->bytes); /* NaN */
    b->is_live = 0;
    if (--d->live == 0)
        d->count = d->end = 0;
}

/* The memory of an address, of which `bytes` are used; NULL for NULL. */
static void *behind(const kvsi_context *c, const void *address, size_t bytes)
{
    device *d = device_of(c);
    const block *b;
    size_t at;

    if (!address || bytes == 0)
        return NULL;
    b = find_block(d, address);
    at = (size_t)((const unsigned char *)address - d->addresses);
    if (bytes > b->at + b->bytes - at)
        fail_msg("%zu bytes at %zu of a block of %zu", bytes, at - b->at, b->bytes);
    return d->memory + at;
}

static real *reals(const kvsi_context *c, const real *address, size_t count)
{
    return behind(c, address, count * sizeof(real));
}

static int32_t *integers(const kvsi_context *c, const int32_t *address, size_t count)
{
    return behind(c, address, count * sizeof(int32_t));
}

/* ---- the queue ---- */

/* Counts an operation; returns 0 if it must do nothing. */
static int begin(const kvsi_context *c)
{
    device *d = device_of(c);

    if (d->operations++ == d->fail_at && d->status == KVS_OK)
        d->status = KVS_E_IO;
    return d->status == KVS_OK;
}

/* The context that the reference kernels run in. */
static kvsi_context inner(const kvsi_context *c)
{
    return (kvsi_context){.ops = &kvsi_reference_ops,
                          .threads = 1,
                          .workspace = behind(c, c->workspace, c->workspace_bytes),
                          .workspace_bytes = c->workspace_bytes,
                          .precision = c->precision,
                          .exact = c->exact};
}

static void device_upload(kvsi_context *c, void *to, const void *from_host, size_t bytes)
{
    if (begin(c) && bytes > 0)
        memcpy(behind(c, to, bytes), from_host, bytes);
}

static void device_download(kvsi_context *c, void *to_host, const void *from, size_t bytes)
{
    device *d = device_of(c);
    delivery *now;

    if (bytes > 0)
        memset(to_host, 0xff, bytes); /* reads before the sync give NaN */
    if (!begin(c) || bytes == 0)
        return;
    assert_non_null(now = kvsi_alloc(1, sizeof *now));
    *now = (delivery){to_host, kvsi_alloc(bytes, 1), bytes, d->deliveries};
    assert_non_null(now->bytes);
    memcpy(now->bytes, behind(c, from, bytes), bytes);
    d->deliveries = now;
}

static void device_copy(kvsi_context *c, void *to, const void *from, size_t bytes)
{
    if (begin(c) && bytes > 0)
        memcpy(behind(c, to, bytes), behind(c, from, bytes), bytes);
}

static void device_zero(kvsi_context *c, void *memory, size_t bytes)
{
    if (begin(c) && bytes > 0)
        memset(behind(c, memory, bytes), 0, bytes);
}

static kvs_status device_sync(kvsi_context *c)
{
    device *d = device_of(c);

    while (d->deliveries) {
        delivery *now = d->deliveries;

        memcpy(now->to_host, now->bytes, now->count);
        d->deliveries = now->next;
        kvsi_free(now->bytes);
        kvsi_free(now);
    }
    return d->status;
}

static const void *device_adopt(const kvsi_context *c, const void *host, size_t bytes)
{
    void *copy = device_alloc(c, bytes);

    if (copy)
        memcpy(behind(c, copy, bytes), host, bytes);
    return copy;
}

static void device_disown(const kvsi_context *c, const void *adopted)
{
    device_release(c, (void *)adopted);
}

/* ---- descriptions ---- */

/* The matrix and those that follow it, in `parts`. */
static const kvsi_matrix *matrix(const kvsi_context *c, const kvsi_matrix *w,
                                 kvsi_matrix parts[PARTS_MAX])
{
    size_t count = 0;

    for (; w; w = w->next) {
        kvsi_matrix *part = &parts[count++];

        assert_true(count <= PARTS_MAX);
        *part = *w;
        part->data = behind(c, w->data, kvsi_dtype_bytes(w->type, w->rows * w->cols));
        part->bias = reals(c, w->bias, w->rows);
        part->packed = reals(c, w->packed, w->rows * w->cols);
        if (w->packed) /* the weights have not changed since they were packed */
            assert_memory_equal(part->packed, part->data, w->rows * w->cols * sizeof(real));
        part->next = w->next ? part + 1 : NULL;
    }
    return parts;
}

static kvsi_norm norm_of(const kvsi_context *c, const kvsi_norm *norm, size_t dim)
{
    return (kvsi_norm){reals(c, norm->gain, dim), reals(c, norm->bias, dim), norm->eps,
                       norm->gain_offset};
}

static kvsi_shift shift_of(const kvsi_context *c, kvsi_shift s, size_t heads,
                           const kvsi_attention *a)
{
    const kvsi_form *form = kvsi_form_get(s.form);
    const size_t gates = a->tokens > 0 ? (a->tokens - 1) * s.gate_stride + heads : 0;

    if (s.window == 0 || form->gated) {
        s.parameters = NULL;
        s.gradient = NULL;
    } else {
        const size_t numbers = heads * form->params(s.window, a->head_size);

        s.parameters = reals(c, s.parameters, numbers);
        s.gradient = reals(c, s.gradient, numbers);
    }
    s.gates = reals(c, s.gates, gates);
    s.d_gates = reals(c, s.d_gates, gates);
    return s;
}

static real *tail_of(const kvsi_context *c, const real *tail, const kvsi_shift *shift, size_t heads,
                     const kvsi_span *span, const kvsi_attention *a)
{
    return reals(c, tail, (1 + span->snapshots) * shift->window * heads * a->head_size);
}

static size_t gains_of(const kvsi_attention *a, size_t heads)
{
    return a->qk_norm == KVSI_QK_NORM_HEAD ? a->head_size : heads * a->head_size;
}

static kvsi_attention attention_of(const kvsi_context *c, const kvsi_attention *a,
                                   kvsi_span spans[SPANS_MAX])
{
    kvsi_attention now = *a;
    size_t positions = 0;

    assert_true(a->sequences <= SPANS_MAX);
    for (size_t i = 0; i < a->sequences; i++) {
        const kvsi_span *from = &a->spans[i];
        kvsi_span *span = &spans[i];
        const int rounds = from->cache == KVSI_F16 || from->cache == KVSI_Q8_0;
        const size_t cache = kvsi_dtype_bytes(rounds ? from->cache : KVSI_REAL_TYPE,
                                              a->kv_heads * from->capacity * a->head_size);

        *span = *from;
        span->k = behind(c, from->k, cache);
        span->v = behind(c, from->v, cache);
        span->tails[KVSI_TAIL_Q] =
            tail_of(c, from->tails[KVSI_TAIL_Q], &a->q_shift, a->heads, from, a);
        span->tails[KVSI_TAIL_K] =
            tail_of(c, from->tails[KVSI_TAIL_K], &a->k_shift, a->kv_heads, from, a);
        span->tails[KVSI_TAIL_V] =
            tail_of(c, from->tails[KVSI_TAIL_V], &a->v_shift, a->kv_heads, from, a);
        positions = from->past + from->len > positions ? from->past + from->len : positions;
    }
    now.spans = spans;
    now.q_shift = shift_of(c, a->q_shift, a->heads, a);
    now.k_shift = shift_of(c, a->k_shift, a->kv_heads, a);
    now.v_shift = shift_of(c, a->v_shift, a->kv_heads, a);
    now.rotations = reals(c, a->rotations, positions * a->rotary);
    now.slopes = reals(c, a->slopes, a->heads);
    now.growth = reals(c, a->growth, positions);
    now.relative.rows = reals(c, a->relative.rows, a->tokens * a->heads * a->relative.size);
    now.relative.table = reals(c, a->relative.table, a->relative.size * a->relative.extent);
    now.relative.d_rows = reals(c, a->relative.d_rows, a->tokens * a->heads * a->relative.size);
    now.relative.d_table = reals(c, a->relative.d_table, a->relative.size * a->relative.extent);
    now.q_gain = reals(c, a->q_gain, gains_of(a, a->heads));
    now.k_gain = reals(c, a->k_gain, gains_of(a, a->kv_heads));
    now.d_q_gain = reals(c, a->d_q_gain, gains_of(a, a->heads));
    now.d_k_gain = reals(c, a->d_k_gain, gains_of(a, a->kv_heads));
    return now;
}

/* ---- operations ---- */

static const kvsi_ops *const ref = &kvsi_reference_ops;

static void embed_forward(kvsi_context *c, real *y, const kvsi_matrix *table, const int32_t *ids,
                          size_t n, int add)
{
    kvsi_matrix parts[PARTS_MAX];
    kvsi_context k = inner(c);

    if (begin(c))
        ref->embed_forward(&k, reals(c, y, n * table->cols), matrix(c, table, parts),
                           integers(c, ids, n), n, add);
}

static void embed_backward(kvsi_context *c, real *d_table, const real *d_y, const int32_t *ids,
                           size_t n, size_t dim)
{
    kvsi_context k = inner(c);

    if (begin(c))
        ref->embed_backward(&k, reals(c, d_table, dim), reals(c, d_y, n * dim), integers(c, ids, n),
                            n, dim);
}

static void norm_forward(kvsi_context *c, real *y, const real *x, const kvsi_norm *norm, size_t n,
                         size_t dim)
{
    const kvsi_norm now = norm_of(c, norm, dim);
    kvsi_context k = inner(c);

    if (begin(c))
        ref->norm_forward(&k, reals(c, y, n * dim), reals(c, x, n * dim), &now, n, dim);
}

static void norm_backward(kvsi_context *c, real *d_x, real *d_gain, real *d_bias, const real *d_y,
                          const real *x, const kvsi_norm *norm, size_t n, size_t dim)
{
    const kvsi_norm now = norm_of(c, norm, dim);
    kvsi_context k = inner(c);

    if (begin(c))
        ref->norm_backward(&k, reals(c, d_x, n * dim), reals(c, d_gain, dim), reals(c, d_bias, dim),
                           reals(c, d_y, n * dim), reals(c, x, n * dim), &now, n, dim);
}

/* Rows of y and residual may be parts of longer rows; memory may end with the last part. */
static size_t strided(size_t n, const kvsi_matrix *w)
{
    return n > 0 ? (n - 1) * kvsi_matrix_stride(w) + w->rows : 0;
}

static void linear_forward(kvsi_context *c, real *y, const real *x, const kvsi_matrix *w, size_t n,
                           const real *residual)
{
    kvsi_matrix parts[PARTS_MAX];
    kvsi_context k = inner(c);

    if (begin(c))
        ref->linear_forward(&k, reals(c, y, strided(n, w)), reals(c, x, n * w->cols),
                            matrix(c, w, parts), n, reals(c, residual, strided(n, w)));
}

/* A copy of the weights, which the reference does not use. */
static void pack_weights(kvsi_context *c, void *packed, const kvsi_matrix *w)
{
    const size_t count = w->rows * w->cols;

    if (begin(c))
        memcpy(reals(c, packed, count), reals(c, w->data, count), count * sizeof(real));
}

static size_t packed_bytes(const kvsi_context *c, const kvsi_matrix *w, size_t n)
{
    (void)c;
    (void)n;
    return w->rows * w->cols * sizeof(real);
}

static void linear_backward_input(kvsi_context *c, real *d_x, const real *d_y, const kvsi_matrix *w,
                                  size_t n, int add)
{
    kvsi_matrix parts[PARTS_MAX];
    kvsi_context k = inner(c);

    if (begin(c))
        ref->linear_backward_input(&k, reals(c, d_x, n * w->cols), reals(c, d_y, n * w->rows),
                                   matrix(c, w, parts), n, add);
}

static void linear_backward_weight(kvsi_context *c, real *d_w, const real *d_y, const real *x,
                                   size_t n, size_t rows, size_t cols)
{
    kvsi_context k = inner(c);

    if (begin(c))
        ref->linear_backward_weight(&k, reals(c, d_w, rows * cols), reals(c, d_y, n * rows),
                                    reals(c, x, n * cols), n, rows, cols);
}

static void linear_backward_bias(kvsi_context *c, real *d_bias, const real *d_y, size_t n,
                                 size_t rows)
{
    kvsi_context k = inner(c);

    if (begin(c))
        ref->linear_backward_bias(&k, reals(c, d_bias, rows), reals(c, d_y, n * rows), n, rows);
}

static size_t dim_of(const kvsi_attention *a)
{
    return a->tokens * a->heads * a->head_size;
}

static size_t qkv_of(const kvsi_attention *a)
{
    return a->tokens * (a->heads + 2 * a->kv_heads) * a->head_size;
}

static void attention_forward(kvsi_context *c, real *out, real *logsum, const real *qkv,
                              const kvsi_attention *a)
{
    kvsi_span spans[SPANS_MAX];
    const kvsi_attention now = attention_of(c, a, spans);
    kvsi_context k = inner(c);

    if (begin(c))
        ref->attention_forward(&k, reals(c, out, dim_of(a)), reals(c, logsum, a->tokens * a->heads),
                               reals(c, qkv, qkv_of(a)), &now);
}

static void attention_backward(kvsi_context *c, real *d_qkv, const real *d_out, const real *out,
                               const real *logsum, const real *qkv, const kvsi_attention *a)
{
    kvsi_span spans[SPANS_MAX];
    const kvsi_attention now = attention_of(c, a, spans);
    kvsi_context k = inner(c);

    if (begin(c))
        ref->attention_backward(&k, reals(c, d_qkv, qkv_of(a)), reals(c, d_out, dim_of(a)),
                                reals(c, out, dim_of(a)), reals(c, logsum, a->tokens * a->heads),
                                reals(c, qkv, qkv_of(a)), &now);
}

static kvsi_filter filter_of(const kvsi_context *c, const kvsi_filter *f,
                             kvsi_span spans[SPANS_MAX])
{
    const size_t parameters = f->width * (f->window + 1);
    kvsi_filter now = *f;

    assert_true(f->sequences <= SPANS_MAX);
    for (size_t i = 0; i < f->sequences; i++) {
        spans[i] = f->spans[i];
        spans[i].tails[f->tail] = reals(c, f->spans[i].tails[f->tail],
                                        (1 + f->spans[i].snapshots) * f->window * f->width);
    }
    now.spans = spans;
    now.parameters = reals(c, f->parameters, parameters);
    now.gradient = reals(c, f->gradient, parameters);
    now.factor = reals(c, f->factor, 1);
    now.d_factor = reals(c, f->d_factor, 1);
    return now;
}

static void filter_forward(kvsi_context *c, real *y, const real *x, const kvsi_filter *f, size_t n)
{
    kvsi_span spans[SPANS_MAX];
    const kvsi_filter now = filter_of(c, f, spans);
    kvsi_context k = inner(c);

    if (begin(c))
        ref->filter_forward(&k, reals(c, y, n * f->width), reals(c, x, n * f->width), &now, n);
}

static void filter_backward(kvsi_context *c, real *d_x, const real *d_y, const real *x,
                            const kvsi_filter *f, size_t n)
{
    kvsi_span spans[SPANS_MAX];
    const kvsi_filter now = filter_of(c, f, spans);
    kvsi_context k = inner(c);

    if (begin(c))
        ref->filter_backward(&k, reals(c, d_x, n * f->width), reals(c, d_y, n * f->width),
                             reals(c, x, n * f->width), &now, n);
}

static void activation_forward(kvsi_context *c, real *y, const real *x, const kvsi_mlp *mlp,
                               size_t n)
{
    kvsi_context k = inner(c);

    if (begin(c))
        ref->activation_forward(&k, reals(c, y, n * mlp->width),
                                reals(c, x, n * kvsi_mlp_inputs(mlp)), mlp, n);
}

static void activation_backward(kvsi_context *c, real *d_x, const real *d_y, const real *x,
                                const kvsi_mlp *mlp, size_t n)
{
    const size_t inputs = n * kvsi_mlp_inputs(mlp);
    kvsi_context k = inner(c);

    if (begin(c))
        ref->activation_backward(&k, reals(c, d_x, inputs), reals(c, d_y, n * mlp->width),
                                 reals(c, x, inputs), mlp, n);
}

static void scale(kvsi_context *c, real *x, real factor, size_t count)
{
    kvsi_context k = inner(c);

    if (begin(c))
        ref->scale(&k, reals(c, x, count), factor, count);
}

static void dropout(kvsi_context *c, real *x, size_t count, const kvsi_dropout *d)
{
    kvsi_context k = inner(c);

    if (begin(c))
        ref->dropout(&k, reals(c, x, count), count, d);
}

static void add(kvsi_context *c, real *y, const real *x, size_t count)
{
    kvsi_context k = inner(c);

    if (begin(c))
        ref->add(&k, reals(c, y, count), reals(c, x, count), count);
}

static void round_bf16(kvsi_context *c, real *x, uint16_t *kept, size_t count)
{
    kvsi_context k = inner(c);

    if (begin(c))
        ref->round_bf16(&k, reals(c, x, count), behind(c, kept, count * sizeof *kept), count);
}

static void widen_bf16(kvsi_context *c, real *x, const uint16_t *kept, size_t count)
{
    kvsi_context k = inner(c);

    if (begin(c))
        ref->widen_bf16(&k, reals(c, x, count), behind(c, kept, count * sizeof *kept), count);
}

static void unit_rows_forward(kvsi_context *c, real *y, const real *x, size_t rows, size_t cols)
{
    kvsi_context k = inner(c);

    if (begin(c))
        ref->unit_rows_forward(&k, reals(c, y, rows * cols), reals(c, x, rows * cols), rows, cols);
}

static void unit_rows_backward(kvsi_context *c, real *d_x, const real *d_y, const real *x,
                               size_t rows, size_t cols)
{
    kvsi_context k = inner(c);

    if (begin(c))
        ref->unit_rows_backward(&k, reals(c, d_x, rows * cols), reals(c, d_y, rows * cols),
                                reals(c, x, rows * cols), rows, cols);
}

static void head_logits(kvsi_context *c, real *logits, const real *x, const kvsi_matrix *w,
                        const int32_t *rows, size_t count, real cap)
{
    kvsi_matrix parts[PARTS_MAX];
    kvsi_context k = inner(c);

    if (begin(c))
        ref->head_logits(&k, reals(c, logits, count * w->rows), reals(c, x, w->cols),
                         matrix(c, w, parts), integers(c, rows, count), count, cap);
}

static void head_loss(kvsi_context *c, const kvsi_head *head)
{
    kvsi_matrix parts[PARTS_MAX];
    const size_t cols = head->w->cols, count = head->count;
    kvsi_context k = inner(c);
    const kvsi_head now = {
        .x = reals(c, head->x, head->n * cols),
        .w = matrix(c, head->w, parts),
        .rows = integers(c, head->rows, count),
        .targets = integers(c, head->targets, count),
        .count = count,
        .row_loss = reals(c, head->row_loss, count),
        .row_guess = integers(c, head->row_guess, count),
        .n = head->n,
        .d_x = reals(c, head->d_x, head->n * cols),
        .d_w = reals(c, head->d_w, head->w->rows * cols),
        .many = head->many,
        .cap = head->cap,
    };

    if (begin(c))
        ref->head_loss(&k, &now);
}

static void head_top(kvsi_context *c, const kvsi_head_top *head)
{
    kvsi_matrix parts[PARTS_MAX];
    const size_t count = head->count;
    kvsi_context k = inner(c);
    const kvsi_head_top now = {
        .x = reals(c, head->x, head->n * head->w->cols),
        .w = matrix(c, head->w, parts),
        .rows = integers(c, head->rows, count),
        .count = count,
        .n = head->n,
        .top = head->top,
        .ids = integers(c, head->ids, count * head->top),
        .logprobs = reals(c, head->logprobs, count * head->top),
        .many = head->many,
        .cap = head->cap,
    };

    if (begin(c))
        ref->head_top(&k, &now);
}

static void sum_squares(kvsi_context *c, double *sum, const real *g, size_t n)
{
    kvsi_context k = inner(c);

    if (begin(c))
        ref->sum_squares(&k, behind(c, sum, sizeof *sum), reals(c, g, n), n);
}

static void clip_scale(kvsi_context *c, double *scale, const double *sum, double mean, double limit)
{
    kvsi_context k = inner(c);

    if (begin(c))
        ref->clip_scale(&k, behind(c, scale, sizeof *scale), behind(c, sum, sizeof *sum), mean,
                        limit);
}

static void adamw(kvsi_context *c, real *p, const real *g, real *m, real *v, size_t n,
                  const kvsi_adamw *h, const double *scale)
{
    kvsi_context k = inner(c);

    if (begin(c))
        ref->adamw(&k, reals(c, p, n), reals(c, g, n), reals(c, m, n), reals(c, v, n), n, h,
                   behind(c, scale, sizeof *scale));
}

static void read_through(kvsi_context *c, real *sums, size_t parts, const real *x, size_t n)
{
    kvsi_context k = inner(c);

    if (begin(c))
        ref->read_through(&k, sums, parts, reals(c, x, n), n);
}

static size_t workspace_bytes(const kvsi_limits *limits, int threads)
{
    return kvsi_reference_ops.workspace_bytes(limits, threads);
}

static const kvsi_ops device_ops = {
    .name = "device",
    .alloc = device_alloc,
    .release = device_release,
    .adopt = device_adopt,
    .disown = device_disown,
    .upload = device_upload,
    .download = device_download,
    .copy = device_copy,
    .zero = device_zero,
    .sync = device_sync,
    .workspace_bytes = workspace_bytes,
    .packed_bytes = packed_bytes,
#define OPERATION(name, parameters, arguments, work) .name = name,
#include "kernels/operations.def"
};

kvs_runtime *device_runtime(device *d)
{
    const kvs_runtime_options options = {
        .size = sizeof(kvs_runtime_options), .threads = 1, .cpu_level = "reference"};
    kvs_runtime *rt;

    assert_int_equal(kvs_runtime_create(&rt, &options, NULL), KVS_OK);
    rt->ops = &device_ops;
    rt->device = d;
    return rt;
}

size_t device_operations(const device *d)
{
    return d->operations;
}

void device_fail_at(device *d, size_t index)
{
    d->operations = 0;
    d->fail_at = index;
    d->status = KVS_OK;
}
