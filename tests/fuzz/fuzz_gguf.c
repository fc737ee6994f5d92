/* GGUF files with a model: ours, Llama in several types, and one of every other family. */
#include "family_models.h"
#include "formats/hf.h"
#include "fuzz.h"

#include <stdio.h>
#include <stdlib.h>

kvs_status fuzz_run(const char *data, size_t size, kvs_err *err)
{
    fuzz_write("file", data, size);
    return fuzz_use_model("file", err);
}

void fuzz_seeds(void)
{
    kvs_model *plain = fuzz_model(&(kvs_model_config){.kv_heads = 1});
    kvs_model *shifted =
        fuzz_model(&(kvs_model_config){SUPPORT_SHIFT(KVS_SHIFT_K | KVS_SHIFT_V, FREE, 1)});
    kvs_model *wide = fuzz_model(&(kvs_model_config){.dim = 32, .ffn = 32});
    json_t *json = kvsi_hf_config_to_json(&shifted->config);
    char *config = json_dumps(json, JSON_COMPACT);
    kvsi_text file = {0};

    put_gguf(&file, plain, "llama", NULL, 0);
    fuzz_seed("llama", &file);
    put_gguf(&file, plain, "llama", NULL, 30);
    fuzz_seed("llama-bf16", &file);
    put_gguf(&file, plain, "llama", NULL, 0);
    add_gguf_u32(&file, "tokenizer.ggml.eos_token_id", 2);
    add_gguf_u32(&file, "tokenizer.ggml.eot_token_id", 3);
    add_gguf_text(&file, "llama.rope.scaling.type", "linear");
    add_gguf_float(&file, "llama.rope.scaling.factor", 1);
    fuzz_seed("llama-keys", &file);
    put_gguf(&file, plain, "llama", NULL, 0);
    add_gguf_key(&file, "tokenizer.kvshift.eos_token_ids", 9, "\5\0\0\0\1\0\0\0\0\0\0\0\4\0\0\0",
                 16);
    fuzz_seed("llama-eos-list", &file);
    put_gguf(&file, shifted, "kvshift", config, 1);
    fuzz_seed("kvshift-f16", &file);
    put_gguf(&file, wide, "llama", NULL, 8);
    fuzz_seed("llama-q8_0", &file);
    put_gguf(&file, wide, "llama", NULL, 2);
    fuzz_seed("llama-q4_0", &file);
    for (size_t i = 0; family_model_at(i); i++) {
        char name[32];

        snprintf(name, sizeof name, "family-%zu", i);
        put_family_gguf(&file, ".", family_model_at(i), 8);
        fuzz_seed(name, &file);
    }
    free(config);
    json_decref(json);
    kvs_model_free(plain);
    kvs_model_free(shifted);
    kvs_model_free(wide);
}
