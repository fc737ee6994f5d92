/* Measures inference in rounds: memory reading, prompts, generation, and the same without the
 * shift.
 *
 * Both models take turns within a round; which one comes first alternates. */
#include "base/clock.h"
#include "base/memory.h"
#include "base/random.h"
#include "bench/probe.h"
#include "bench/samples.h"
#include "kernels/runtime.h"
#include "model/state.h"

#include <math.h>

enum { READ_VALUES = 1 << 26 }; /* 256 MB, beyond any cache */

typedef struct contender {
    kvs_model *model;
    kvs_runner *runner;
    kvs_session **sessions; /* [batch] */
    double prompt, token;   /* seconds, in the last round */
    kvsi_samples prompts, tokens;
} contender;

struct kvs_bench_inference {
    kvs_runtime *rt; /* borrowed */
    kvs_bench_infer_options options;
    contender measured, unshifted;
    int32_t *ids;     /* [the longest of prompt, depth, generate] */
    float *logits;    /* [batch, vocab] */
    kvs_feed *feeds;  /* [batch] */
    kvsi_peaks peaks; /* of the products of prompts */
    real *values;     /* [READ_VALUES], to read */
    kvsi_samples reads;
    kvsi_samples prompt_ratios, token_ratios; /* with and without the shift, in the same round */
    size_t rounds;
    double load, start_rss, peak_rss;
};

/* ---- making and freeing ---- */

static size_t largest(size_t a, size_t b)
{
    return a > b ? a : b;
}

static kvs_status contender_init(contender *c, kvs_bench_inference *b, const char *path,
                                 kvs_err *err)
{
    const kvs_bench_infer_options *o = &b->options;
    const size_t pass = largest(largest(o->prompt, o->depth), o->batch);
    const size_t capacity = largest(o->prompt, o->depth + o->generate);

    TRY(kvs_model_load(&c->model, b->rt, path,
                       &(kvs_load_options){.size = sizeof(kvs_load_options), .mapped = 1}, err));
    if (c->model->config.context < capacity)
        return kvsi_fail(err, KVS_E_LIMIT, "'%s' has a context of %zu tokens, %zu are needed", path,
                         c->model->config.context, capacity);
    TRY(kvs_runner_create(&c->runner, c->model,
                          &(kvs_runner_options){.size = sizeof(kvs_runner_options),
                                                .sequences = o->batch,
                                                .tokens = pass < 512 ? pass : 512},
                          err));
    c->sessions = kvsi_alloc(o->batch, sizeof *c->sessions);
    if (!c->sessions)
        return kvsi_no_memory(err, "%zu sequences", o->batch);
    for (size_t i = 0; i < o->batch; i++)
        TRY(kvs_session_create(&c->sessions[i], c->model,
                               &(kvs_session_options){.size = sizeof(kvs_session_options),
                                                      .capacity = capacity,
                                                      .cache = o->cache,
                                                      .runner = c->runner},
                               err));
    return KVS_OK;
}

static void contender_release(contender *c, size_t batch)
{
    for (size_t i = 0; c->sessions && i < batch; i++)
        kvs_session_free(c->sessions[i]);
    kvsi_free(c->sessions);
    kvs_runner_free(c->runner);
    kvs_model_free(c->model);
    kvsi_samples_release(&c->prompts);
    kvsi_samples_release(&c->tokens);
}

static kvs_status make_tokens(kvs_bench_inference *b, kvs_err *err)
{
    const kvs_bench_infer_options *o = &b->options;
    const size_t count = largest(o->prompt, largest(o->depth, o->generate));
    const size_t vocab = b->measured.model->config.vocab;
    const size_t dim = b->measured.model->config.dim; /* number of logits if there is no head */
    kvsi_random random;

    kvsi_random_init(&random, 1, KVSI_RANDOM_DATA, 0);
    b->ids = kvsi_alloc(count, sizeof *b->ids);
    b->logits = kvsi_alloc(o->batch * largest(vocab, dim), sizeof *b->logits);
    b->feeds = kvsi_alloc(o->batch, sizeof *b->feeds);
    if (!b->ids || !b->logits || !b->feeds)
        return kvsi_no_memory(err, "the tokens of a bench");
    for (size_t i = 0; i < count; i++)
        b->ids[i] = (int32_t)kvsi_random_below(&random, (uint32_t)vocab);
    return KVS_OK;
}

kvs_status kvs_bench_inference_create(kvs_bench_inference **out, kvs_runtime *rt,
                                      const kvs_bench_infer_options *options, kvs_err *err)
{
    kvs_status st = KVS_OK;
    kvs_bench_inference *b;
    double started;

    NEED(out);
    *out = NULL;
    NEED(rt);
    NEED(options);
    if (options->batch == 0)
        return kvsi_fail(err, KVS_E_INVALID, "batch is 0, expected at least 1");
    b = kvsi_alloc(1, sizeof *b);
    if (!b)
        return kvsi_no_memory(err, "a bench");
    *b = (kvs_bench_inference){.rt = rt, .options = *options, .start_rss = kvsi_memory_peak()};
    started = kvsi_clock_seconds();
    TRY_OUT(kvs_model_load(&b->measured.model, rt, options->path,
                           &(kvs_load_options){.size = sizeof(kvs_load_options), .mapped = 1},
                           err));
    b->load = kvsi_clock_seconds() - started;
    kvs_model_free(b->measured.model);
    b->measured.model = NULL;
    TRY_OUT(contender_init(&b->measured, b, options->path, err));
    TRY_OUT(make_tokens(b, err));
    *out = b;
    b = NULL;
out:
    kvs_bench_inference_free(b);
    return st;
}

void kvs_bench_inference_free(kvs_bench_inference *bench)
{
    if (!bench)
        return;
    contender_release(&bench->measured, bench->options.batch);
    contender_release(&bench->unshifted, bench->options.batch);
    kvsi_samples_release(&bench->reads);
    kvsi_samples_release(&bench->prompt_ratios);
    kvsi_samples_release(&bench->token_ratios);
    kvsi_peaks_release(&bench->peaks);
    kvsi_free(bench->values);
    kvsi_free(bench->feeds);
    kvsi_free(bench->logits);
    kvsi_free(bench->ids);
    kvsi_free(bench);
}

/* ---- the matrices of a model ---- */

/* How many values the matrices have that a token is multiplied by.  The head is counted alone,
 * because a prompt needs it only after its last token. */
typedef struct weights {
    double of_type[KVSI_DTYPES], layers, head;
    double bytes; /* of all */
} weights;

static void add_linear(weights *w, const kvsi_linear *linear)
{
    for (size_t i = 0; i < linear->parts; i++) {
        const kvsi_matrix *part = &linear->part[i];

        w->of_type[part->type] += (double)part->rows * (double)part->cols;
        w->layers += (double)part->rows * (double)part->cols;
        w->bytes += (double)kvsi_dtype_bytes(part->type, part->rows * part->cols);
    }
}

static weights count_weights(const kvs_model *m)
{
    const kvsi_matrix *head = &m->matrices.head;
    weights w = {0};

    for (size_t l = 0; l < m->config.layers; l++) {
        const kvsi_layer_matrices *layer = &m->matrices.layers[l];

        add_linear(&w, &layer->qkv);
        add_linear(&w, &layer->o);
        add_linear(&w, &layer->up);
        add_linear(&w, &layer->down);
    }
    if (head->data) {
        w.head = (double)head->rows * (double)head->cols;
        w.bytes += (double)kvsi_dtype_bytes(head->type, head->rows * head->cols);
    }
    return w;
}

/* The type of most values of the layers, whose products take most of the time of a prompt. */
static kvsi_dtype main_type(const weights *w)
{
    size_t most = 0;

    for (size_t i = 1; i < KVSI_DTYPES; i++)
        if (w->of_type[i] > w->of_type[most])
            most = i;
    return (kvsi_dtype)most;
}

/* A product and its addition are two; attention is the causal half of two products per layer. */
static double prompt_flops(const kvs_model *m, const weights *w, double tokens)
{
    const kvs_model_config *c = &m->config;

    return 2 * w->layers * tokens + 2 * w->head +
           2 * (double)c->layers * (double)c->dim * tokens * tokens;
}

/* ---- rounds ---- */

/* Feeds every sequence `count` tokens from `from` on, in one call. */
static kvs_status feed_all(kvs_bench_inference *b, contender *c, size_t from, size_t count,
                           size_t sequences, kvs_err *err)
{
    const kvs_model_config *config = &c->model->config;

    for (size_t i = 0; i < sequences; i++)
        b->feeds[i] = (kvs_feed){.size = sizeof(kvs_feed),
                                 .session = c->sessions[i],
                                 .ids = b->ids + from,
                                 .count = count,
                                 .logits = b->logits + i * largest(config->vocab, config->dim)};
    return kvs_runner_feed(c->runner, b->feeds, sequences, err);
}

static kvs_status read_prompt(kvs_bench_inference *b, contender *c, double *seconds, kvs_err *err)
{
    double started;
    kvs_status st;

    kvs_session_reset(c->sessions[0]);
    started = kvsi_clock_seconds();
    st = feed_all(b, c, 0, b->options.prompt, 1, err);
    *seconds = kvsi_clock_seconds() - started;
    return st;
}

/* Rewinds or feeds all sequences to the depth at which generation starts. */
static kvs_status go_to_depth(kvs_bench_inference *b, contender *c, kvs_err *err)
{
    const size_t depth = b->options.depth;

    for (size_t i = 0; i < b->options.batch; i++)
        if (depth > 0 && kvs_session_length(c->sessions[i]) > depth)
            TRY(kvs_session_rewind(c->sessions[i], depth, err));
        else
            kvs_session_reset(c->sessions[i]);
    if (depth > 0 && kvs_session_length(c->sessions[0]) == 0)
        TRY(feed_all(b, c, 0, depth, b->options.batch, err));
    return KVS_OK;
}

static kvs_status generate(kvs_bench_inference *b, contender *c, double *seconds, kvs_err *err)
{
    double started;

    TRY(go_to_depth(b, c, err));
    started = kvsi_clock_seconds();
    for (size_t i = 0; i < b->options.generate; i++)
        TRY(feed_all(b, c, i, 1, b->options.batch, err));
    *seconds = (kvsi_clock_seconds() - started) / (double)b->options.generate;
    return KVS_OK;
}

/* Generation comes first, at the depth at which the previous round ended. */
static kvs_status run(kvs_bench_inference *b, contender *c, kvs_err *err)
{
    const int counts = b->rounds > 0;

    if (b->options.generate > 0) {
        TRY(generate(b, c, &c->token, err));
        if (counts)
            TRY(kvsi_samples_add(&c->tokens, c->token, err));
    }
    if (b->options.prompt > 0) {
        TRY(read_prompt(b, c, &c->prompt, err));
        if (counts)
            TRY(kvsi_samples_add(&c->prompts, c->prompt, err));
    }
    return KVS_OK;
}

/* Runs after the first round, so that the memory measured is that of one model. */
static kvs_status prepare_comparison(kvs_bench_inference *b, kvs_err *err)
{
    const weights matrices = count_weights(b->measured.model);

    b->peak_rss = kvsi_memory_peak();
    kvsi_peaks_init(&b->peaks,
                    kvsi_products_of(b->rt->ops->name, b->rt->precision, main_type(&matrices)),
                    b->rt->threads);
    b->values = kvsi_probe_values(READ_VALUES);
    if (!b->values)
        return kvsi_no_memory(err, "%d values to read", READ_VALUES);
    return b->options.unshifted ? contender_init(&b->unshifted, b, b->options.unshifted, err)
                                : KVS_OK;
}

static kvs_status add_ratios(kvs_bench_inference *b, kvs_err *err)
{
    if (b->options.prompt > 0)
        TRY(kvsi_samples_add(&b->prompt_ratios, b->measured.prompt / b->unshifted.prompt, err));
    if (b->options.generate > 0)
        TRY(kvsi_samples_add(&b->token_ratios, b->measured.token / b->unshifted.token, err));
    return KVS_OK;
}

kvs_status kvs_bench_inference_round(kvs_bench_inference *bench, kvs_err *err)
{
    kvs_bench_inference *b = bench;

    NEED(bench);
    if (b->rounds > 0) {
        TRY(kvsi_samples_add(
            &b->reads, kvsi_probe_read(b->rt->ops, b->rt->threads, b->values, READ_VALUES), err));
        TRY(kvsi_peaks_measure(&b->peaks, 1, NULL, err));
    }
    for (size_t turn = 0; turn < 2; turn++) {
        contender *c = (b->rounds + turn) % 2 == 0 ? &b->measured : &b->unshifted;

        if (c->model)
            TRY(run(b, c, err));
    }
    if (b->rounds > 0 && b->unshifted.model)
        TRY(add_ratios(b, err));
    if (b->rounds == 0) {
        TRY(prepare_comparison(b, err));
        if (b->unshifted.model)
            TRY(run(b, &b->unshifted, err));
    }
    b->rounds++;
    return KVS_OK;
}

/* ---- results ---- */

kvs_status kvs_bench_inference_get(kvs_bench_infer_result *out, const kvs_bench_inference *bench,
                                   kvs_err *err)
{
    const kvs_bench_inference *b = bench;
    const kvs_model *m;
    double keys, cached;
    kvsi_dtype cache;
    kvs_model_sizes sizes;
    weights matrices;

    NEED(bench);
    NEED(out);
    m = b->measured.model;
    matrices = count_weights(m);
    keys = (double)b->options.depth + (double)b->options.generate / 2;
    TRY(kvsi_cache_type(&cache, b->options.cache, err));
    cached = (double)kvsi_dtype_bytes(cache, 32) / (double)kvsi_dtype_bytes(KVSI_REAL_TYPE, 32);
    if (b->rounds < 2)
        return kvsi_fail(err, KVS_E_INVALID, "nothing was measured: the first round is warm-up");
    TRY(kvs_model_config_sizes(&sizes, &m->config, err));
    *out = (kvs_bench_infer_result){
        .rounds = b->rounds - 1,
        .prompt = kvsi_samples_times(&b->measured.prompts),
        .generate = kvsi_samples_times(&b->measured.tokens),
        .unshifted_prompt = kvsi_samples_times(&b->unshifted.prompts),
        .unshifted_generate = kvsi_samples_times(&b->unshifted.tokens),
        .prompt_shift_cost = kvsi_samples_times(&b->prompt_ratios).median - 1,
        .generate_shift_cost = kvsi_samples_times(&b->token_ratios).median - 1,
        .prompt_flops = prompt_flops(m, &matrices, (double)b->options.prompt),
        .peaks = kvsi_peaks_get(&b->peaks),
        .read = kvsi_samples_rates(&b->reads),
        .weight_bytes = matrices.bytes,
        .load = b->load,
        .start_rss = b->start_rss,
        .peak_rss = b->peak_rss,
    };
    out->bytes_per_token = out->weight_bytes / (double)b->options.batch +
                           cached * keys * (double)sizes.cache_bytes_per_token;
    return KVS_OK;
}
