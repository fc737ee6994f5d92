/* llama2.c's model files, legacy and version 1. */
#include "fuzz.h"

kvs_status fuzz_run(const char *data, size_t size, kvs_err *err)
{
    fuzz_write("file", data, size);
    return fuzz_use_model("file", err);
}

static void seed(const char *name, const kvs_model *model, int version)
{
    kvsi_text file = {0};

    put_llama2c(&file, model, version);
    fuzz_seed(name, &file);
}

void fuzz_seeds(void)
{
    kvs_model *tied = fuzz_model(&(kvs_model_config){.tied = 1, .kv_heads = 1});
    kvs_model *untied = fuzz_model(&(kvs_model_config){.layers = 2});

    seed("legacy", tied, 0);
    seed("legacy-untied", untied, 0);
    seed("version-1", untied, 1);
    seed("version-1-tied", tied, 1);
    kvs_model_free(tied);
    kvs_model_free(untied);
}
