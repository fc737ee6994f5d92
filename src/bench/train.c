/* Measures training in rounds: peak, a step, and the same step without the shift.
 *
 * The two models take turns within a round; which one comes first alternates, so that changes of
 * the machine's speed affect both. */
#include "base/clock.h"
#include "base/memory.h"
#include "bench/probe.h"
#include "bench/profile.h"
#include "bench/repeat_task.h"
#include "bench/samples.h"
#include "kernels/runtime.h"
#include "train/trainer.h"

#include <math.h>

enum { SEED = 1 };

typedef struct contender {
    kvs_model *model;
    kvs_trainer *trainer;
    kvs_plan plan;
    kvsi_samples times;
    double total; /* seconds of the counted steps */
} contender;

struct kvs_bench_training {
    kvs_runtime *plain;    /* borrowed */
    kvs_runtime profiling; /* a copy of *plain with the operations of `profile` */
    kvsi_profile profile;
    kvsi_bench_model model;
    int profiled;
    int alone; /* the model without the shift is not measured */
    kvs_train_config train;
    kvs_data *task;
    kvsi_peaks peaks;
    kvsi_samples ratios; /* of the steps with and without the shift, in the same round */
    contender measured, unshifted;
    size_t rounds; /* warm-up included */
    double peak_rss, loss_first, loss_last;
};

/* ---- making and freeing ---- */

static kvs_status contender_init(contender *c, kvs_bench_training *b, kvs_runtime *rt,
                                 const kvs_model_config *config, kvs_err *err)
{
    TRY(kvs_train_plan(&c->plan, rt, config, b->task, &b->train, err));
    TRY(kvs_model_create(&c->model, rt, config, SEED, err));
    return kvs_trainer_create(&c->trainer, c->model, b->task, &b->train, err);
}

static void contender_release(contender *c)
{
    kvs_trainer_free(c->trainer);
    kvs_model_free(c->model);
    kvsi_samples_release(&c->times);
}

static kvs_train_config settings_of(const kvsi_bench_model *model)
{
    kvs_train_config c;

    kvsi_train_config_init(&c);
    c.steps = UINT32_MAX; /* the rate is constant: no step is the last */
    c.warmup = 0;
    c.batch = model->batch;
    c.accumulate = 1;
    c.schedule = KVSI_SCHEDULE_CONSTANT;
    c.lr = 1e-4;
    c.beta1 = 0.9;
    c.beta2 = 0.999;
    c.eps = 1e-8;
    c.weight_decay = 0;
    c.clip = 0;
    c.seed = SEED;
    return c;
}

kvs_status kvs_bench_training_create(kvs_bench_training **out, kvs_runtime *rt,
                                     const kvs_bench_train_options *options, kvs_err *err)
{
    kvs_status st = KVS_OK;
    kvs_bench_training *b;
    kvs_model_config *config;

    NEED(out);
    *out = NULL;
    NEED(rt);
    NEED(options);
    NEED(options->config);
    if (options->batch == 0 || options->length == 0)
        return kvsi_fail(err, KVS_E_INVALID, "batch is %zu and length %zu, expected at least 1",
                         options->batch, options->length);
    b = kvsi_alloc(1, sizeof *b);
    if (!b)
        return kvsi_no_memory(err, "a bench");
    *b = (kvs_bench_training){
        .plain = rt, .profiling = *rt, .alone = options->alone, .profiled = options->profile};
    b->model = (kvsi_bench_model){
        .config = *options->config, .batch = options->batch, .length = options->length};
    config = &b->model.config;
    if (config->context < options->length)
        config->context = options->length;
    TRY_OUT(kvs_model_config_finish(config, err));
    kvsi_profile_init(&b->profile, rt->ops, config);
    b->profiling.ops = &b->profile.table;
    b->train = settings_of(&b->model);
    b->train.recompute = options->recompute;
    if (options->accumulate > 0)
        b->train.accumulate = options->accumulate;
    if (options->pack_weights)
        TRY_OUT(kvs_train_config_set(&b->train, "pack-weights", options->pack_weights, err));
    if (options->precision)
        TRY_OUT(kvs_train_config_set(&b->train, "precision", options->precision, err));
    TRY_OUT(kvs_train_config_check(&b->train, err));
    TRY_OUT(
        kvsi_repeat_task_create(&b->task, &b->model, options->profile ? &b->profile : NULL, err));
    TRY_OUT(contender_init(&b->measured, b, options->profile ? &b->profiling : rt, config, err));
    kvsi_peaks_init(&b->peaks, kvsi_products_of(rt->ops->name, b->train.precision, KVSI_REAL_TYPE),
                    rt->threads);
    *out = b;
    b = NULL;
out:
    kvs_bench_training_free(b);
    return st;
}

void kvs_bench_training_free(kvs_bench_training *bench)
{
    if (!bench)
        return;
    contender_release(&bench->measured);
    contender_release(&bench->unshifted);
    kvs_data_free(bench->task);
    kvsi_peaks_release(&bench->peaks);
    kvsi_samples_release(&bench->ratios);
    kvsi_free(bench);
}

kvs_status kvs_bench_training_save(const kvs_bench_training *bench, const char *dir, kvs_err *err)
{
    NEED(bench);
    NEED(dir);
    TRY(kvs_model_save(bench->measured.model, dir, err));
    return kvsi_repeat_task_save(bench->task, dir, err);
}

/* ---- rounds ---- */

static kvs_status step(contender *c, int counts, double *seconds, double *loss, kvs_err *err)
{
    const double started = kvsi_clock_seconds();
    kvs_step_record record;

    TRY(kvsi_trainer_step(c->trainer, &record, err));
    *seconds = kvsi_clock_seconds() - started;
    *loss = record.loss;
    if (!counts)
        return KVS_OK;
    c->total += *seconds;
    return kvsi_samples_add(&c->times, *seconds, err);
}

/* The model without the shift is created after the first step of the other, so that the memory
 * measured is that of one model. */
static kvs_status add_unshifted(kvs_bench_training *b, kvs_err *err)
{
    kvs_model_config config = b->model.config;

    if (b->alone || config.shift.targets == 0 || b->rounds != 1)
        return KVS_OK;
    config.shift.targets = 0;
    return contender_init(&b->unshifted, b, b->plain, &config, err);
}

kvs_status kvs_bench_training_round(kvs_bench_round *out, kvs_bench_training *bench, kvs_err *err)
{
    int counts;
    kvs_bench_round round = {.unshifted_seconds = NAN};
    double ignored;

    NEED(bench);
    counts = bench->rounds >= KVS_BENCH_WARMUP;
    TRY(add_unshifted(bench, err));
    if (bench->rounds == KVS_BENCH_WARMUP)
        kvsi_profile_reset(&bench->profile);
    TRY(kvsi_peaks_measure(&bench->peaks, counts, &round.peak, err));
    for (size_t turn = 0; turn < 2; turn++)
        if ((bench->rounds + turn) % 2 == 0)
            TRY(step(&bench->measured, counts, &round.seconds, &round.loss, err));
        else if (bench->unshifted.trainer)
            TRY(step(&bench->unshifted, counts, &round.unshifted_seconds, &ignored, err));
    if (counts && bench->unshifted.trainer)
        TRY(kvsi_samples_add(&bench->ratios, round.seconds / round.unshifted_seconds, err));
    if (bench->rounds == 0) {
        bench->loss_first = round.loss;
        bench->peak_rss = kvsi_memory_peak();
    }
    bench->loss_last = round.loss;
    bench->rounds++;
    if (out)
        *out = round;
    return KVS_OK;
}

kvs_status kvs_bench_training_get(kvs_bench_train_result *out, const kvs_bench_training *bench,
                                  kvs_err *err)
{
    const kvs_bench_training *b = bench;
    size_t counted;

    NEED(bench);
    NEED(out);
    counted = b->measured.times.count;
    if (counted == 0)
        return kvsi_fail(err, KVS_E_INVALID,
                         "nothing was measured: %zu rounds, the first %d are warm-up", b->rounds,
                         (int)KVS_BENCH_WARMUP);
    *out = (kvs_bench_train_result){
        .rounds = counted,
        .tokens = b->measured.plan.tokens_per_step,
        .flops = b->measured.plan.flops_per_token * b->measured.plan.tokens_per_step,
        .step = kvsi_samples_times(&b->measured.times),
        .unshifted = kvsi_samples_times(&b->unshifted.times),
        .shift_cost = kvsi_samples_times(&b->ratios).median - 1,
        .peaks = kvsi_peaks_get(&b->peaks),
        .peak_rss = b->peak_rss,
        .planned_bytes = (double)b->measured.plan.total_bytes,
        .unshifted_planned_bytes = (double)b->unshifted.plan.total_bytes,
        .loss_first = b->loss_first,
        .loss_last = b->loss_last,
    };
    if (b->profiled)
        out->ops = kvsi_profile_summarise(&b->profile, counted, b->measured.total / (double)counted,
                                          out->op);
    return KVS_OK;
}
