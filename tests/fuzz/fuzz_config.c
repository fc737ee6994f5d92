/* config.json: ours, Hugging Face's Llama and GPT-2, Baichuan-M1's. */
#include "formats/hf.h"
#include "fuzz.h"
#include "kvshift/kvshift_lab.h"

#include <stdlib.h>

/* An accepted configuration is written and must be read back equal. */
static void write_and_read(const kvs_model_config *config)
{
    json_t *json = kvsi_hf_config_to_json(config), *json_again;
    kvs_model_config again;
    kvs_err err;

    fuzz_expect(kvsi_hf_config_from_json(&again, json, "again", &err) == KVS_OK, err.message);
    json_again = kvsi_hf_config_to_json(&again);
    fuzz_expect(json_equal(json, json_again), "a configuration comes back as it was written");
    json_decref(json);
    json_decref(json_again);
}

kvs_status fuzz_run(const char *data, size_t size, kvs_err *err)
{
    kvs_model_config config;
    kvs_model_sizes sizes;
    kvs_model_info info = {.size = sizeof(kvs_model_info)};
    kvs_status st;

    fuzz_write("config.json", data, size);
    kvs_model_describe(&info, "config.json", NULL);
    st = kvsi_model_config_load(&config, "config.json", err);
    if (st != KVS_OK)
        return st;
    write_and_read(&config);
    kvs_session_bytes(&config, NULL);
    return kvs_model_config_sizes(&sizes, &config, err);
}

/* A valid input: a configuration of ours. */
static void seed_own(const char *name, const kvs_model_config *special)
{
    static const support_sizes sizes = {.vocab = 5, .dim = 16, .ffn = 4, .context = 9};
    kvs_model_config config = support_config(special, &sizes);
    json_t *json;
    char *text;
    kvs_err err;

    fuzz_expect(kvs_model_config_finish(&config, &err) == KVS_OK, err.message);
    json = kvsi_hf_config_to_json(&config);
    text = json_dumps(json, JSON_INDENT(1));
    fuzz_seed_text(name, text);
    free(text);
    json_decref(json);
}

void fuzz_seeds(void)
{
    enum { KV = KVS_SHIFT_K | KVS_SHIFT_V };

    seed_own("plain", &(kvs_model_config){.tied = 1});
    seed_own("shifted", &(kvs_model_config){SUPPORT_SHIFT(KV, FREE, 3), .kv_heads = 2});
    seed_own("sliding",
             &(kvs_model_config){SUPPORT_SHIFT(KVS_SHIFT_V, CHANNEL, 1), .sliding_window = 3,
                                 .sliding_layers = 2, .sliding_heads = 2, .sliding_kv_heads = 1});
    seed_own("slopes", &(kvs_model_config){.positions = KVSI_POSITIONS_ALIBI,
                                           .slopes = 4,
                                           .slope = {0.5, 0.25, 0.125, 1},
                                           .head = KVSI_HEAD_NORMALISED});
    seed_own("gpt2", &(kvs_model_config){.body = KVSI_BODY_GPT2,
                                         .positions = KVSI_POSITIONS_LEARNED,
                                         .tied = 1,
                                         .dropout_residual = 0.1});
    seed_own("odd", &(kvs_model_config){SUPPORT_SHIFT(KV, DATA, 1), .score_scale = 1,
                                        .rotary_fraction = 0.5, .head = KVSI_HEAD_NONE, .no_mlp = 1,
                                        .no_norm = 1, .no_residual = 1});
    fuzz_seed_text("llama", "{\"architectures\": [\"LlamaForCausalLM\"], \"model_type\": \"llama\","
                            "\"vocab_size\": 32000, \"hidden_size\": 64, \"intermediate_size\": 99,"
                            "\"num_hidden_layers\": 3, \"num_attention_heads\": 8, "
                            "\"num_key_value_heads\": 4, \"max_position_embeddings\": 128, "
                            "\"hidden_act\": \"silu\", \"rms_norm_eps\": 1e-5, "
                            "\"rope_theta\": 5e5, \"rope_scaling\": null, \"head_dim\": 8, "
                            "\"attention_bias\": false, \"tie_word_embeddings\": true}");
    fuzz_seed_text("hf-gpt2", "{\"model_type\": \"gpt2\", \"vocab_size\": 50257, \"n_embd\": 64, "
                              "\"n_layer\": 2, \"n_head\": 4, \"n_positions\": 64, \"n_inner\": "
                              "null, \"activation_function\": \"gelu_new\", "
                              "\"layer_norm_epsilon\": 1e-5, \"attn_pdrop\": 0.1}");
    fuzz_seed_text("gemma3",
                   "{\"model_type\": \"gemma3_text\", \"vocab_size\": 101, \"hidden_size\": 48, "
                   "\"intermediate_size\": 80, \"num_hidden_layers\": 4, \"num_attention_heads\": "
                   "4, \"num_key_value_heads\": 2, \"head_dim\": 16, \"hidden_activation\": "
                   "\"gelu_pytorch_tanh\", \"query_pre_attn_scalar\": 24, "
                   "\"final_logit_softcapping\": 30.0, \"attn_logit_softcapping\": null, "
                   "\"sliding_window\": 8, \"_sliding_window_pattern\": 2, \"rope_parameters\": "
                   "{\"full_attention\": {\"rope_type\": \"linear\", \"factor\": 8.0, "
                   "\"rope_theta\": 1e6}, \"sliding_attention\": {\"rope_type\": \"default\", "
                   "\"rope_theta\": 10000.0}}}");
    fuzz_seed_text("baichuan",
                   "{\"architectures\": [\"BaichuanM1ForCausalLM\"], \"model_type\": "
                   "\"baichuan_m1\", \"vocab_size\": 41, \"hidden_size\": 32, "
                   "\"intermediate_size\": 40, \"num_hidden_layers\": 4, \"num_attention_heads\": "
                   "4, \"num_key_value_heads\": 2, \"num_swa_attention_heads\": 2, "
                   "\"num_swa_key_value_heads\": 1, \"sliding_window\": 5, "
                   "\"sliding_window_layers\": [1, 3], \"conv_window\": 2, \"hidden_act\": "
                   "\"silu\", \"rope_theta\": 10000.0, \"rms_norm_eps\": 1e-06, "
                   "\"max_position_embeddings\": 64, \"tie_word_embeddings\": false}");
}
