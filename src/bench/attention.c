/* Measures attention alone: one layer's operation, forward and backward, in the memory of a
 * pass. */
#include "base/clock.h"
#include "base/memory.h"
#include "bench/probe.h"
#include "bench/samples.h"
#include "kernels/runtime.h"
#include "model/pass.h"

typedef struct bench {
    kvs_model *model;
    kvsi_pass *pass;
    real *gradients;
    int32_t *ids;
    kvsi_peaks peaks;
    kvsi_samples forward, backward, both;
} bench;

/* One layer with nothing but attention. */
static kvs_model_config config_of(const kvs_bench_attention_options *o)
{
    kvs_model_config c;

    kvsi_model_config_init(&c);
    c.vocab = 2;
    c.dim = o->heads * o->head_size;
    c.layers = 1;
    c.heads = o->heads;
    c.kv_heads = o->kv_heads;
    c.ffn = 1;
    c.no_mlp = 1;
    c.context = o->length;
    if (o->shift)
        c.shift = o->shift->shift;
    return c;
}

static kvs_status load(bench *b, size_t length, kvs_err *err)
{
    const size_t starts[2] = {0, length};
    const kvs_batch batch = {.sequences = 1, .starts = starts, .ids = b->ids};
    const size_t width = kvsi_layer_shape_of(&b->model->config, 0).qkv_width;
    kvsi_context *c = &b->pass->context;
    real *values = kvsi_probe_values(length * width);
    kvs_status st = KVS_OK;

    if (!values || !b->ids || !b->gradients) {
        st = kvsi_no_memory(err, "%zu tokens", length);
        goto out;
    }
    TRY_OUT(kvsi_pass_load(b->pass, &batch, NULL, err));
    c->ops->upload(c, b->pass->layers[0].qkv, values, length * width * sizeof *values);
    c->ops->upload(c, b->pass->d_mixed, values, length * b->model->config.dim * sizeof *values);
out:
    kvsi_free(values);
    return st;
}

static kvs_status make(bench *b, kvs_runtime *rt, const kvs_bench_attention_options *o,
                       kvs_err *err)
{
    const kvs_model_config config = config_of(o);
    const kvsi_pass_limits limits = {
        .tokens = o->length, .sequences = 1, .head_rows = 1, .training = 1};

    TRY(kvs_model_create(&b->model, rt, &config, 1, err));
    TRY(kvsi_pass_create(&b->pass, b->model, &limits, err));
    b->gradients =
        rt->ops->alloc(&b->model->context, kvsi_layout_total(&b->model->layout) * sizeof(real));
    b->ids = kvsi_alloc(o->length, sizeof *b->ids);
    TRY(load(b, o->length, err));
    kvsi_peaks_init(&b->peaks, kvsi_products_of(rt->ops->name, KVSI_PRECISION_F32, KVSI_REAL_TYPE),
                    rt->threads);
    return KVS_OK;
}

static void release(bench *b, const kvs_runtime *rt)
{
    kvsi_samples_release(&b->forward);
    kvsi_samples_release(&b->backward);
    kvsi_samples_release(&b->both);
    kvsi_peaks_release(&b->peaks);
    if (b->model)
        rt->ops->release(&b->model->context, b->gradients);
    kvsi_free(b->ids);
    kvsi_pass_free(b->pass);
    kvs_model_free(b->model);
}

static kvs_status run_round(bench *b, int counts, kvs_err *err)
{
    const kvsi_attention a = kvsi_pass_attention(b->pass, 0, b->gradients);
    const kvsi_layer_memory *m = &b->pass->layers[0];
    kvsi_context *c = &b->pass->context;
    double started, middle, ended;

    TRY(kvsi_peaks_measure(&b->peaks, counts, NULL, err));
    started = kvsi_clock_seconds();
    c->ops->attention_forward(c, m->mixed, m->logsum, m->qkv, &a);
    TRY(kvsi_sync(c, err));
    middle = kvsi_clock_seconds();
    c->ops->attention_backward(c, b->pass->d_qkv, b->pass->d_mixed, m->mixed, m->logsum, m->qkv,
                               &a);
    TRY(kvsi_sync(c, err));
    ended = kvsi_clock_seconds();
    if (!counts)
        return KVS_OK;
    TRY(kvsi_samples_add(&b->forward, middle - started, err));
    TRY(kvsi_samples_add(&b->backward, ended - middle, err));
    return kvsi_samples_add(&b->both, ended - started, err);
}

static kvs_status check(const kvs_bench_attention_options *o, kvs_err *err)
{
    if (o->length == 0 || o->head_size == 0 || o->heads == 0 || o->kv_heads == 0 || o->rounds == 0)
        return kvsi_fail(err, KVS_E_INVALID,
                         "length, head size, heads, kv heads and rounds must be above 0");
    return KVS_OK;
}

kvs_status kvs_bench_attention_run(kvs_bench_attention *out, kvs_runtime *rt,
                                   const kvs_bench_attention_options *options, kvs_err *err)
{
    double product;
    const double start_rss = kvsi_memory_peak();
    bench b = {0};
    kvs_status st;

    NEED(out);
    NEED(rt);
    NEED(options);
    TRY(check(options, err));
    product = (double)(options->heads * options->head_size) * (double)options->length *
              (double)options->length;
    TRY_OUT(make(&b, rt, options, err));
    for (size_t i = 0; i < options->rounds + 1; i++)
        TRY_OUT(run_round(&b, i > 0, err));
    *out = (kvs_bench_attention){
        .forward_flops = 2 * product,
        .backward_flops = 4 * product,
        .forward = kvsi_samples_times(&b.forward),
        .backward = kvsi_samples_times(&b.backward),
        .both = kvsi_samples_times(&b.both),
        .peaks = kvsi_peaks_get(&b.peaks),
        .start_rss = start_rss,
        .peak_rss = kvsi_memory_peak(),
    };
out:
    release(&b, rt);
    return st;
}
