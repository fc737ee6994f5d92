/* Measures the machine: its arithmetic units, matrix products, reading from memory. */
#include "base/clock.h"
#include "base/math.h"
#include "base/memory.h"
#include "bench/models.h"
#include "bench/probe.h"
#include "bench/samples.h"
#include "kernels/runtime.h"

/* Much larger than any cache. */
static const size_t READ_BYTES = (size_t)512 << 20;
/* Small products are repeated up to this many operations, for the clock's resolution. */
static const double FLOPS_MIN = 1e9;

enum { SITES = 4 };

/* ---- which products ---- */

static void add_model(kvs_bench_machine *m, const kvsi_bench_model *model)
{
    const kvs_model_config *c = &model->config;
    const size_t kv_dim = c->kv_heads * (c->dim / c->heads);
    const kvs_bench_gemm shapes[SITES] = {
        {.site = "qkv", .rows = c->dim + 2 * kv_dim, .cols = c->dim},
        {.site = "o", .rows = c->dim, .cols = c->dim},
        {.site = c->body == KVSI_BODY_GPT2 ? "up" : "gate_up",
         .rows = c->body == KVSI_BODY_GPT2 ? c->ffn : 2 * c->ffn,
         .cols = c->dim},
        {.site = "down", .rows = c->dim, .cols = c->ffn},
    };

    for (size_t i = 0; i < SITES && m->gemms < KVS_BENCH_GEMMS_MAX; i++) {
        kvs_bench_gemm *gemm = &m->gemm[m->gemms++];

        *gemm = shapes[i];
        gemm->model = model->name;
        gemm->tokens = model->batch * model->length;
    }
}

static kvs_status list_gemms(kvs_bench_machine *m, kvs_err *err)
{
    const char *name;

    m->gemm[m->gemms++] = (kvs_bench_gemm){"square", "2048", .tokens = 2048, 2048, 2048};
    for (size_t i = 0; (name = kvs_bench_model_name(i)) != NULL; i++) {
        kvsi_bench_model model;

        TRY(kvsi_bench_model_get(&model, name, err));
        add_model(m, &model);
    }
    return KVS_OK;
}

static void list_units(kvs_bench_machine *m)
{
    const kvsi_unit *unit;

    for (; m->units < KVS_BENCH_UNITS_MAX && (unit = kvsi_unit_at(m->units)) != NULL; m->units++)
        m->unit_at[m->units] = (kvs_bench_unit){.name = unit->name,
                                                .integers = unit->operands == KVSI_OPERANDS_INTEGER,
                                                .missing = kvsi_unit_lacks(unit)};
}

/* ---- measuring them ---- */

typedef struct bench {
    kvsi_context context;
    kvsi_products products;
    kvsi_probe all, one; /* their unit, on all threads and on one */
    kvsi_probe unit[KVS_BENCH_UNITS_MAX];
    kvsi_samples rate[KVS_BENCH_UNITS_MAX];
    kvsi_samples peak, peak_one, read;
    struct {
        kvsi_samples peak, forward, backward_input, backward_weight;
    } gemm[KVS_BENCH_GEMMS_MAX];
    real *x, *y, *w; /* sized for the largest product */
    real *values;    /* host memory: the initial operands of every product */
    real *far;       /* READ_BYTES */
} bench;

typedef void product(kvsi_context *c, const bench *b, const kvs_bench_gemm *g);

static kvsi_matrix matrix_of(const bench *b, const kvs_bench_gemm *g)
{
    return (kvsi_matrix){.type = KVSI_REAL_TYPE, .rows = g->rows, .cols = g->cols, .data = b->w};
}

static void forward(kvsi_context *c, const bench *b, const kvs_bench_gemm *g)
{
    const kvsi_matrix w = matrix_of(b, g);

    c->ops->linear_forward(c, b->y, b->x, &w, g->tokens, NULL);
}

static void backward_input(kvsi_context *c, const bench *b, const kvs_bench_gemm *g)
{
    const kvsi_matrix w = matrix_of(b, g);

    c->ops->linear_backward_input(c, b->x, b->y, &w, g->tokens, 0);
}

static void backward_weight(kvsi_context *c, const bench *b, const kvs_bench_gemm *g)
{
    c->ops->linear_backward_weight(c, b->w, b->y, b->x, g->tokens, g->rows, g->cols, g->rows);
}

static void fill_product(bench *b, const kvs_bench_gemm *g)
{
    kvsi_context *c = &b->context;

    c->ops->upload(c, b->x, b->values, g->tokens * g->cols * sizeof(real));
    c->ops->upload(c, b->y, b->values, g->tokens * g->rows * sizeof(real));
    c->ops->upload(c, b->w, b->values, g->rows * g->cols * sizeof(real));
}

static kvs_status measure(kvsi_samples *samples, bench *b, const kvs_bench_gemm *g, product *run,
                          kvs_err *err)
{
    const double flops = 2.0 * (double)g->tokens * (double)g->rows * (double)g->cols;
    const size_t repeats = flops < FLOPS_MIN ? (size_t)(FLOPS_MIN / flops) + 1 : 1;
    double started;

    fill_product(b, g);
    started = kvsi_clock_seconds();
    for (size_t i = 0; i < repeats; i++)
        run(&b->context, b, g);
    TRY(kvsi_sync(&b->context, err));
    return kvsi_samples_add(samples, flops * (double)repeats / (kvsi_clock_seconds() - started),
                            err);
}

static kvs_status run_round(bench *b, const kvs_bench_machine *m, kvs_err *err)
{
    TRY(kvsi_samples_add(&b->peak_one, kvsi_probe_peak(&b->one) / b->products.cost, err));
    TRY(kvsi_samples_add(
        &b->read,
        kvsi_probe_read(b->context.ops, b->context.threads, b->far, READ_BYTES / sizeof(real)),
        err));
    for (size_t i = 0; i < m->units; i++)
        if (!m->unit_at[i].missing)
            TRY(kvsi_samples_add(&b->rate[i], kvsi_probe_peak(&b->unit[i]), err));
    for (size_t i = 0; i < m->gemms; i++) {
        const kvs_bench_gemm *g = &m->gemm[i];
        const double peak = kvsi_probe_peak(&b->all) / b->products.cost;

        TRY(kvsi_samples_add(&b->peak, peak, err));
        TRY(kvsi_samples_add(&b->gemm[i].peak, peak, err));
        TRY(measure(&b->gemm[i].forward, b, g, forward, err));
        TRY(measure(&b->gemm[i].backward_input, b, g, backward_input, err));
        TRY(measure(&b->gemm[i].backward_weight, b, g, backward_weight, err));
    }
    return KVS_OK;
}

/* ---- kvs_bench_machine_run ---- */

static kvs_status make(bench *b, kvs_bench_machine *m, const kvs_runtime *rt, kvs_err *err)
{
    const kvsi_limits smallest = {.tokens = 1,
                                  .sequences = 1,
                                  .head_rows = 1,
                                  .dim = 1,
                                  .heads = 1,
                                  .kv_heads = 1,
                                  .head_size = 1,
                                  .ffn = 1,
                                  .vocab = 1}; /* enough for products */
    size_t x = 0, y = 0, w = 0;

    for (size_t i = 0; i < m->gemms; i++) {
        x = kvsi_max(x, m->gemm[i].tokens * m->gemm[i].cols);
        y = kvsi_max(y, m->gemm[i].tokens * m->gemm[i].rows);
        w = kvsi_max(w, m->gemm[i].rows * m->gemm[i].cols);
    }
    b->context = kvsi_runtime_context(rt);
    b->context.workspace_bytes = rt->ops->workspace_bytes(&smallest, rt->threads);
    b->context.workspace = rt->ops->alloc(&b->context, b->context.workspace_bytes);
    b->x = rt->ops->alloc(&b->context, x * sizeof *b->x);
    b->y = rt->ops->alloc(&b->context, y * sizeof *b->y);
    b->w = rt->ops->alloc(&b->context, w * sizeof *b->w);
    b->values = kvsi_probe_values(kvsi_max(kvsi_max(x, y), w));
    b->far = rt->ops->alloc(&b->context, READ_BYTES);
    if (!b->context.workspace || !b->x || !b->y || !b->w || !b->values || !b->far)
        return kvsi_no_memory(err, "an array of %zu MiB", READ_BYTES >> 20);
    b->products = kvsi_products_of(rt->ops->name, KVSI_PRECISION_F32, KVSI_REAL_TYPE);
    m->unit = b->products.name;
    kvsi_probe_init(&b->all, b->products.unit, rt->threads);
    kvsi_probe_init(&b->one, b->products.unit, 1);
    for (size_t i = 0; i < m->units; i++)
        if (!m->unit_at[i].missing)
            kvsi_probe_init(&b->unit[i], kvsi_unit_at(i), rt->threads);
    return KVS_OK;
}

static void collect(kvs_bench_machine *m, const bench *b)
{
    m->peak = kvsi_samples_rates(&b->peak);
    m->peak_one = kvsi_samples_rates(&b->peak_one);
    m->read = kvsi_samples_rates(&b->read);
    for (size_t i = 0; i < m->units; i++)
        m->unit_at[i].rate = kvsi_samples_rates(&b->rate[i]);
    for (size_t i = 0; i < m->gemms; i++) {
        m->gemm[i].peak = kvsi_samples_rates(&b->gemm[i].peak);
        m->gemm[i].forward = kvsi_samples_rates(&b->gemm[i].forward);
        m->gemm[i].backward_input = kvsi_samples_rates(&b->gemm[i].backward_input);
        m->gemm[i].backward_weight = kvsi_samples_rates(&b->gemm[i].backward_weight);
    }
}

static void release(bench *b, const kvs_runtime *rt)
{
    if (!b)
        return;
    kvsi_samples_release(&b->peak);
    kvsi_samples_release(&b->peak_one);
    kvsi_samples_release(&b->read);
    for (size_t i = 0; i < KVS_BENCH_UNITS_MAX; i++)
        kvsi_samples_release(&b->rate[i]);
    for (size_t i = 0; i < KVS_BENCH_GEMMS_MAX; i++) {
        kvsi_samples_release(&b->gemm[i].peak);
        kvsi_samples_release(&b->gemm[i].forward);
        kvsi_samples_release(&b->gemm[i].backward_input);
        kvsi_samples_release(&b->gemm[i].backward_weight);
    }
    rt->ops->release(&b->context, b->context.workspace);
    rt->ops->release(&b->context, b->x);
    rt->ops->release(&b->context, b->y);
    rt->ops->release(&b->context, b->w);
    rt->ops->release(&b->context, b->far);
    kvsi_free(b->values);
    kvsi_free(b);
}

kvs_status kvs_bench_machine_run(kvs_bench_machine *out, const kvs_runtime *rt, size_t rounds,
                                 kvs_err *err)
{
    kvs_bench_machine found = {0};
    bench *b;
    kvs_status st;

    NEED(out);
    NEED(rt);
    if (rounds == 0)
        return kvsi_fail(err, KVS_E_INVALID, "rounds is 0, expected at least 1");
    b = kvsi_alloc(1, sizeof *b);
    if (!b)
        return kvsi_no_memory(err, "a bench");
    list_units(&found);
    TRY_OUT(list_gemms(&found, err));
    TRY_OUT(make(b, &found, rt, err));
    for (size_t i = 0; i < rounds; i++)
        TRY_OUT(run_round(b, &found, err));
    collect(&found, b);
    *out = found;
out:
    release(b, rt);
    return st;
}
