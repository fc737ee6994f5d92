/* Models by name, with the settings that train them: the paper's own (its tables), and small sizes
 * for one machine. */
#include "config/config.h"

#include <stdio.h>
#include <string.h>

typedef struct preset {
    const char *name;
    size_t dim, layers, heads, kv_heads, ffn, context, vocab;
    size_t batch, micro_batch; /* sequences per step and per pass: a few thousand tokens */
    uint64_t steps, warmup;
    kvsi_schedule schedule;
    double lr;
} preset;

#define CONSTANT KVSI_SCHEDULE_CONSTANT
#define COSINE KVSI_SCHEDULE_COSINE

/* The paper's runs have 10, 500, 10, 10 and 200 billion tokens. */
/* clang-format off */
static const preset presets[] = {
    {"paper-1.5b", 2048, 28, 16, 16,  5504,  2048, 36000,  512,  2,  9537, 1000, CONSTANT, 2e-4},
    {"paper-2.9b", 2560, 32, 20,  4,  8704,  4096, 48000, 4096,  1, 29802,  600, CONSTANT, 8e-4},
    {"paper-6.7b", 4096, 32, 32, 32, 11008,  2048, 36000,  512,  2,  9537, 1000, CONSTANT, 2e-4},
    {"paper-13b",  5120, 40, 40, 40, 13824,  2048, 36000, 1024,  2,  4768, 1000, CONSTANT, 2e-4},
    {"paper-19b",  6144, 48, 48,  4, 16384, 12288, 48000,  240,  1, 67817, 3000, CONSTANT, 2e-4},
    {"kvlm",        512,  6,  8,  2,  1408,   512,  8000,   32,  8,  1000,  100, COSINE,   1e-3},
    {"desk-1m",     128,  4,  4,  4,   352,   256,  1024,   16, 16,  1000,   50, COSINE,   2e-3},
    {"desk-3m",     192,  4,  6,  6,   512,   256,  4096,   32, 16,  1000,  100, COSINE,   1.5e-3},
    {"desk-10m",    320,  6,  5,  5,   864,   512,  4096,   32,  8,  1000,  100, COSINE,   1e-3},
    {"desk-30m",    512,  8,  8,  8,  1376,   512,  8192,   64,  8,  1000,  200, COSINE,   6e-4},
    {"desk-110m",   768, 12, 12, 12,  2048,  1024, 16384,   64,  4,  1000,  200, COSINE,   6e-4},
};
/* clang-format on */

enum { PRESETS = sizeof presets / sizeof *presets };

const char *kvs_preset_name(size_t index)
{
    return index < PRESETS ? presets[index].name : NULL;
}

static const char *name_at(const void *names, size_t index)
{
    (void)names;
    return kvs_preset_name(index);
}

/* Refuses an unknown name with the nearest one or, if none is near, with all of them. */
static kvs_status refuse(const char *name, kvs_err *err)
{
    const char *const nearest = kvsi_nearest_name(name, name_at, NULL);
    char all[256] = "";
    size_t length = 0;

    if (nearest)
        return kvsi_fail(err, KVS_E_INVALID, "unknown preset '%s'; did you mean '%s'?", name,
                         nearest);
    for (size_t i = 0; i < PRESETS && length < sizeof all; i++)
        length += (size_t)snprintf(all + length, sizeof all - length, "%s%s",
                                   i == 0            ? ""
                                   : i + 1 < PRESETS ? ", "
                                                     : " or ",
                                   presets[i].name);
    return kvsi_fail(err, KVS_E_INVALID, "unknown preset '%s', expected %s", name, all);
}

static kvs_status find(const preset **out, const char *name, kvs_err *err)
{
    for (size_t i = 0; i < PRESETS; i++)
        if (strcmp(presets[i].name, name) == 0) {
            *out = &presets[i];
            return KVS_OK;
        }
    return refuse(name, err);
}

kvs_status kvsi_model_config_preset(kvs_model_config *config, const char *name, kvs_err *err)
{
    const preset *p = NULL;

    TRY(find(&p, name, err));
    kvsi_model_config_init(config);
    config->dim = p->dim;
    config->layers = p->layers;
    config->heads = p->heads;
    config->kv_heads = p->kv_heads;
    config->ffn = p->ffn;
    config->context = p->context;
    config->vocab = p->vocab;
    return KVS_OK;
}

kvs_status kvsi_train_config_preset(kvs_train_config *config, const char *name, kvs_err *err)
{
    const preset *p = NULL;

    TRY(find(&p, name, err));
    kvsi_train_config_init(config);
    config->batch = p->batch;
    config->accumulate = p->batch / p->micro_batch;
    config->steps = p->steps;
    config->warmup = p->warmup;
    config->schedule = p->schedule;
    config->lr = p->lr;
    return KVS_OK;
}
