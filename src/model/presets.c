/* Models by name: the paper's own (its tables: hidden, layers, heads, KV heads, ffn, context,
 * vocabulary), and sizes for a desk. */
#include "base/status.h"
#include "base/text.h"

#include <string.h>

typedef struct preset {
    const char *name;
    size_t dim, layers, heads, kv_heads, ffn, context, vocab;
} preset;

static const preset presets[] = {
    {"paper-1.5b", 2048, 28, 16, 16, 5504, 2048, 36000},
    {"paper-2.9b", 2560, 32, 20, 4, 8704, 4096, 48000},
    {"paper-6.7b", 4096, 32, 32, 32, 11008, 2048, 36000},
    {"paper-13b", 5120, 40, 40, 40, 13824, 2048, 36000},
    {"paper-19b", 6144, 48, 48, 4, 16384, 12288, 48000},
    {"kvlm", 512, 6, 8, 2, 1408, 512, 8000},
    {"desk-1m", 128, 4, 4, 4, 352, 256, 1024},
    {"desk-3m", 192, 4, 6, 6, 512, 256, 4096},
    {"desk-10m", 320, 6, 5, 5, 864, 512, 4096},
    {"desk-30m", 512, 8, 8, 8, 1376, 512, 8192},
    {"desk-110m", 768, 12, 12, 12, 2048, 1024, 16384},
};

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

kvs_status kvs_model_config_preset(kvs_model_config *config, const char *name, kvs_err *err)
{
    const char *nearest;

    for (size_t i = 0; i < PRESETS; i++)
        if (strcmp(presets[i].name, name) == 0) {
            const preset *p = &presets[i];

            kvs_model_config_init(config);
            config->dim = p->dim;
            config->layers = p->layers;
            config->heads = p->heads;
            config->kv_heads = p->kv_heads;
            config->ffn = p->ffn;
            config->context = p->context;
            config->vocab = p->vocab;
            return KVS_OK;
        }
    nearest = kvsi_nearest_name(name, name_at, NULL);
    return kvsi_fail(err, KVS_E_INVALID, "unknown preset '%s'%s%s%s", name,
                     nearest ? "; did you mean '" : "", nearest ? nearest : "",
                     nearest ? "'?" : "");
}
