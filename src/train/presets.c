/* How the models of src/model/presets.c are trained: the paper's own settings (tokens a step, rate,
 * warm-up, and as many steps as its runs had tokens), and what suits the sizes for a desk. */
#include "base/status.h"

#include <string.h>

typedef struct preset {
    const char *name;
    size_t batch, part; /* sequences a step; of these, computed at once: a few thousand tokens */
    uint64_t steps, warmup;
    kvs_schedule schedule;
    double lr;
} preset;

static const preset presets[] = {
    {"paper-1.5b", 512, 2, 9537, 1000, KVS_SCHEDULE_CONSTANT, 2e-4},  /* 10G tokens */
    {"paper-2.9b", 4096, 1, 29802, 600, KVS_SCHEDULE_CONSTANT, 8e-4}, /* 500G */
    {"paper-6.7b", 512, 2, 9537, 1000, KVS_SCHEDULE_CONSTANT, 2e-4},  /* 10G */
    {"paper-13b", 1024, 2, 4768, 1000, KVS_SCHEDULE_CONSTANT, 2e-4},  /* 10G */
    {"paper-19b", 240, 1, 67817, 3000, KVS_SCHEDULE_CONSTANT, 2e-4},  /* 200G */
    {"kvlm", 32, 8, 1000, 100, KVS_SCHEDULE_COSINE, 1e-3},
    {"desk-1m", 16, 16, 1000, 50, KVS_SCHEDULE_COSINE, 2e-3},
    {"desk-3m", 32, 16, 1000, 100, KVS_SCHEDULE_COSINE, 1.5e-3},
    {"desk-10m", 32, 8, 1000, 100, KVS_SCHEDULE_COSINE, 1e-3},
    {"desk-30m", 64, 8, 1000, 200, KVS_SCHEDULE_COSINE, 6e-4},
    {"desk-110m", 64, 4, 1000, 200, KVS_SCHEDULE_COSINE, 6e-4},
};

kvs_status kvs_train_config_preset(kvs_train_config *config, const char *name, kvs_err *err)
{
    for (size_t i = 0; i < sizeof presets / sizeof *presets; i++)
        if (strcmp(presets[i].name, name) == 0) {
            const preset *p = &presets[i];

            kvs_train_config_init(config);
            config->batch = p->batch;
            config->accumulate = p->batch / p->part;
            config->steps = p->steps;
            config->warmup = p->warmup;
            config->schedule = p->schedule;
            config->lr = p->lr;
            return KVS_OK;
        }
    return kvsi_fail(err, KVS_E_INVALID, "unknown preset '%s'", name);
}
