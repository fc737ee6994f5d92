#include "repro/scales.h"

#include "config/config.h"

#include <stdarg.h>
#include <stdio.h>

void kvsi_name_arm(kvsi_planned *run, const char *format, ...)
{
    va_list args;

    va_start(args, format);
    vsnprintf(run->arm, sizeof run->arm, format, args);
    va_end(args);
}

void kvsi_shift_arm(kvsi_planned *run, int shifted, size_t layers)
{
    run->model.layers = layers;
    run->model.shift.targets = shifted ? KVS_SHIFT_K | KVS_SHIFT_V : 0;
    kvsi_name_arm(run, "%s, %zu layer%s", shifted ? "KV shifting" : "vanilla", layers,
                  layers == 1 ? "" : "s");
}

/* ---- induction ------------------------------------------------------------------------------- */

/* The paper: 8000 tokens, pools of 512, 4096 sequences per step, rate 2e-4 after 1000 steps.
 * Smaller scales reduce the vocabulary, so that each embedding is seen as often in fewer steps. */
typedef struct induction_scale {
    size_t vocab, pool, max_length, batch, parts;
    uint64_t warmup;
    double lr;
    size_t eval_sequences;
} induction_scale;

static const induction_scale inductions[KVS_SCALES] = {
    {64, 16, 48, 32, 1, 4, 2e-3, 128},
    {256, 64, 512, 256, 1, 20, 2e-3, 4000},
    {8000, 512, 512, 4096, 16, 1000, 2e-4, 4000},
};

void kvsi_scale_induction(kvsi_planned *run, kvs_scale scale)
{
    const induction_scale *s = inductions + scale;

    kvsi_model_config_init(&run->model);
    kvsi_train_config_init(&run->train);
    kvsi_induction_config_init(&run->settings.induction);
    run->task = kvsi_induction_task;
    run->settings.induction.vocab = s->vocab;
    run->settings.induction.pool = s->pool;
    run->settings.induction.max_length = s->max_length;
    run->train.batch = s->batch;
    run->train.accumulate = s->parts;
    run->train.warmup = s->warmup;
    run->train.lr = s->lr;
    run->eval_sequences = s->eval_sequences;
}

/* ---- text ------------------------------------------------------------------------------------ */

typedef struct text_size {
    size_t dim, layers, heads;
} text_size;

/* Small models, few tokens and a small vocabulary, so that several seeds are affordable. */
typedef struct text_scale {
    size_t vocab, context, batch;
    uint64_t steps, warmup;
    double lr;
    size_t eval_windows;
    text_size sizes[KVSI_TEXT_SIZES];
} text_scale;

static const text_scale texts[] = {
    [KVS_SCALE_SMOKE] =
        {320, 32, 4, 8, 2, 2e-3, 4, {{8, 1, 1}, {16, 1, 1}, {16, 2, 1}, {32, 1, 2}, {32, 2, 2}}},
    [KVS_SCALE_DESK] = {1024,
                        256,
                        16,
                        800,
                        80,
                        2e-3,
                        384,
                        {{32, 2, 2}, {48, 2, 2}, {64, 3, 2}, {96, 3, 3}, {128, 4, 4}}},
};

static kvs_status paper_settings(kvsi_planned *run, kvsi_plan *plan, const char *preset,
                                 kvs_err *err)
{
    TRY(kvsi_model_config_preset(&run->model, preset, err));
    TRY(kvsi_train_config_preset(&run->train, preset, err));
    plan->text_vocab = run->model.vocab;
    run->eval_sequences = 1024;
    run->eval_every = 1000;
    return KVS_OK;
}

static void small_settings(kvsi_planned *run, kvsi_plan *plan, size_t number)
{
    const text_scale *s = texts + plan->scale;

    kvsi_model_config_init(&run->model);
    kvsi_train_config_init(&run->train);
    plan->text_vocab = run->model.vocab = s->vocab;
    run->model.context = s->context;
    run->model.dim = s->sizes[number].dim;
    run->model.layers = s->sizes[number].layers;
    run->model.heads = s->sizes[number].heads;
    run->train.batch = s->batch;
    run->train.steps = s->steps;
    run->train.warmup = s->warmup;
    run->train.lr = s->lr;
    run->train.schedule = KVSI_SCHEDULE_COSINE;
    run->eval_sequences = s->eval_windows;
    run->eval_every = s->steps / 4;
}

kvs_status kvsi_scale_text(kvsi_planned *run, kvsi_plan *plan, size_t number, const char *preset,
                           kvs_err *err)
{
    run->task = kvsi_text_task;
    if (plan->scale == KVS_SCALE_PAPER)
        return paper_settings(run, plan, preset, err);
    small_settings(run, plan, number);
    return KVS_OK;
}
