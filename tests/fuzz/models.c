/* Models for the targets whose inputs contain one. */
#include "base/json.h"
#include "base/memory.h"
#include "formats/hf.h"
#include "fuzz.h"

#include <stdlib.h>
#include <string.h>

kvs_runtime *fuzz_runtime(void)
{
    static kvs_runtime *rt;
    const kvs_runtime_options options = {
        .size = sizeof(kvs_runtime_options), .threads = 1, .cpu_level = "reference"};

    if (!rt)
        fuzz_expect(kvs_runtime_create(&rt, &options, NULL) == KVS_OK, "there is a runtime");
    return rt;
}

kvs_model *fuzz_model(const kvs_model_config *special)
{
    const support_sizes sizes = {.vocab = 5,
                                 .dim = special->dim ? special->dim : 8,
                                 .ffn = special->ffn ? special->ffn : 4,
                                 .context = 9};
    kvs_model_config config = *special;
    kvs_err err;

    config.heads = config.heads ? config.heads : 2;
    config = support_config(&config, &sizes);
    config.layers = special->layers ? special->layers : 1;
    fuzz_expect(kvs_model_config_finish(&config, &err) == KVS_OK, err.message);
    return support_model(fuzz_runtime(), &config, 5);
}

/* Only work in proportion to the size of the file. */
static void feed(const kvs_model *model)
{
    const kvs_model_config *config = kvs_model_get_config(model);
    const int32_t ids[] = {0, (int32_t)config->vocab - 1};
    const size_t count = config->context < 2 ? config->context : 2;
    float *logits = kvsi_alloc(kvs_model_logit_count(model), sizeof *logits);
    kvs_session *session;

    if (kvs_session_create(
            &session, model,
            &(kvs_session_options){.size = sizeof(kvs_session_options), .capacity = count},
            NULL) == KVS_OK)
        kvs_session_feed(session, ids, count, logits, NULL);
    kvs_session_free(session);
    kvsi_free(logits);
}

kvs_status fuzz_use_model(const char *path, kvs_err *err)
{
    kvs_model_check_result checked = {.size = sizeof(kvs_model_check_result)};
    kvs_model_config config;
    kvs_model_info info = {.size = sizeof(kvs_model_info)};
    kvs_model *model, *opened;
    kvs_status st;

    kvsi_model_config_load(&config, path, NULL);
    kvs_model_describe(&info, path, NULL);
    kvs_model_check(&checked, path, NULL);
    st = kvs_model_load(&model, fuzz_runtime(), path, NULL, err);
    fuzz_expect(kvs_model_load(&opened, fuzz_runtime(), path,
                               &(kvs_load_options){.size = sizeof(kvs_load_options), .mapped = 1},
                               NULL) == st,
                "a model that can be loaded can be opened, and no other");
    if (st == KVS_OK) {
        feed(model);
        feed(opened);
    }
    kvs_model_free(model);
    kvs_model_free(opened);
    return st;
}

void fuzz_pack_model(kvsi_text *input, const kvs_model *model, kvsi_dtype dtype)
{
    json_t *json = kvsi_hf_config_to_json(&model->config);
    char *config = json_dumps(json, JSON_COMPACT);
    kvsi_text file = {0};

    put_model_safetensors(&file, model, dtype, 0, model->layout.count);
    fuzz_pack(input, "config.json", config, strlen(config));
    fuzz_pack(input, "model.safetensors", file.data, file.length);
    kvsi_text_release(&file);
    free(config);
    json_decref(json);
}
