/* model.safetensors.index.json, with fixed shards. */
#include "formats/hf.h"
#include "fuzz.h"

#include <string.h>

static const char *const shards[] = {"a.safetensors", "b.safetensors"};

static void write_folder(void)
{
    static int done;
    kvs_model *model;
    size_t count;

    if (done)
        return;
    done = 1;
    model = fuzz_model(&(kvs_model_config){0});
    count = model->layout.count;
    for (size_t i = 0; i < 2; i++) {
        kvsi_text file = {0};

        put_model_safetensors(&file, model, KVSI_F32, i ? count / 2 : 0, i ? count : count / 2);
        fuzz_write(shards[i], file.data, file.length);
        kvsi_text_release(&file);
    }
    fuzz_expect(kvsi_hf_config_write(&model->config, "config.json", NULL) == KVS_OK,
                "a configuration can be written");
    kvs_model_free(model);
}

kvs_status fuzz_run(const char *data, size_t size, kvs_err *err)
{
    write_folder();
    fuzz_write("model.safetensors.index.json", data, size);
    return fuzz_use_model(".", err);
}

void fuzz_seeds(void)
{
    kvs_model *model = fuzz_model(&(kvs_model_config){0});
    const size_t count = model->layout.count;
    kvsi_text index = {0};

    kvsi_text_add(&index, "{\"metadata\": {\"total_size\": 1}, \"weight_map\": {");
    for (size_t i = 0; i < count; i++)
        kvsi_text_format(&index, "%s\"%s\": \"%s\"", i > 0 ? ", " : "", model->layout.list[i].name,
                         shards[i < count / 2 ? 0 : 1]);
    kvsi_text_add(&index, "}}");
    fuzz_seed("index", &index);
    kvs_model_free(model);
}
