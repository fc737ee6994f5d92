#include "repro/settings.h"

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

/* The paper: 8000 tokens, pools of 512, 4096 sequences a step, rate 2e-4 after 1000 steps.  A
 * smaller vocabulary is the honest way down: each embedding is seen as often in fewer steps. */
typedef struct induction_scale {
    size_t vocab, pool, max_length, batch;
    uint64_t warmup;
    double lr;
    size_t eval_sequences;
} induction_scale;

static const induction_scale inductions[KVS_SCALES] = {
    {64, 16, 48, 32, 4, 2e-3, 128},
    {512, 128, 512, 256, 20, 2e-3, 4000},
    {8000, 512, 512, 4096, 1000, 2e-4, 4000},
};

void kvsi_settings_induction(kvsi_planned *run, kvs_scale scale)
{
    const induction_scale *s = inductions + scale;

    kvs_model_config_init(&run->model);
    kvs_train_config_init(&run->train);
    kvs_induction_config_init(&run->settings.induction);
    run->task = kvsi_induction_task;
    run->settings.induction.vocab = s->vocab;
    run->settings.induction.pool = s->pool;
    run->settings.induction.max_length = s->max_length;
    run->train.batch = s->batch;
    run->train.warmup = s->warmup;
    run->train.lr = s->lr;
    run->eval_sequences = s->eval_sequences;
}
