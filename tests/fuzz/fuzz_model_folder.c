/* A model folder: configuration, index, weights and generation settings, all hostile. */
#include "fuzz.h"

#include <string.h>

static const char *const names[] = {"config.json",
                                    "model.safetensors",
                                    "a.safetensors",
                                    "model.safetensors.index.json",
                                    "state.json",
                                    "generation_config.json",
                                    NULL};

kvs_status fuzz_run(const char *data, size_t size, kvs_err *err)
{
    fuzz_unpack(names, data, size);
    return fuzz_use_model(".", err);
}

static void seed(const char *name, const kvs_model_config *special, kvsi_dtype dtype)
{
    kvs_model *model = fuzz_model(special);
    static const char state[] =
        "{\"files\": {\"config.json\": \"0123456789abcdef\", \"model.safetensors\": \"0\"}}";
    static const char generation[] = "{\"eos_token_id\": [2, 4], \"bos_token_id\": 1}";
    kvsi_text input = {0};

    fuzz_pack_model(&input, model, dtype);
    fuzz_pack(&input, "state.json", state, strlen(state));
    fuzz_pack(&input, "generation_config.json", generation, strlen(generation));
    fuzz_seed(name, &input);
    kvs_model_free(model);
}

/* Zeros of this shape. */
typedef struct zeros {
    const char *name;
    size_t rank, shape[KVSI_TENSOR_RANK_MAX];
} zeros;

enum { ZEROS_MAX = 24 };

/* A folder in another program's layout; `shapes` end with a name of NULL. */
static void seed_zeros(const char *name, const char *config, const zeros *shapes)
{
    static const float nothing[64];
    kvsi_file_tensor tensors[ZEROS_MAX];
    kvsi_text input = {0}, file = {0};
    size_t count = 0;

    for (; shapes[count].name; count++) {
        tensors[count] = (kvsi_file_tensor){.name = shapes[count].name,
                                            .dtype = KVSI_BF16,
                                            .rank = shapes[count].rank,
                                            .data = nothing};
        memcpy(tensors[count].shape, shapes[count].shape, sizeof shapes[count].shape);
    }
    put_safetensors(&file, tensors, count);
    fuzz_pack(&input, "config.json", config, strlen(config));
    fuzz_pack(&input, "model.safetensors", file.data, file.length);
    fuzz_seed(name, &input);
    kvsi_text_release(&file);
}

static void seed_baichuan(void)
{
    static const char config[] =
        "{\"model_type\": \"baichuan_m1\", \"vocab_size\": 3, \"hidden_size\": 4, "
        "\"intermediate_size\": 2, \"num_hidden_layers\": 1, \"num_attention_heads\": 2, "
        "\"num_key_value_heads\": 1, \"conv_window\": 2, \"max_position_embeddings\": 8}";
    static const zeros shapes[] = {
        {"model.embed_tokens.weight", 2, {3, 4}},
        {"model.layers.0.self_attn.W_pack.weight", 2, {8, 4}},
        {"model.layers.0.self_attn.o_proj.weight", 2, {4, 4}},
        {"model.layers.0.self_attn.conv_k", 5, {1, 1, 1, 1, 2}},
        {"model.layers.0.self_attn.conv_v", 5, {1, 1, 1, 1, 2}},
        {"model.layers.0.mlp.gate_proj.weight", 2, {2, 4}},
        {"model.layers.0.mlp.up_proj.weight", 2, {2, 4}},
        {"model.layers.0.mlp.down_proj.weight", 2, {4, 2}},
        {"model.layers.0.input_layernorm.weight", 1, {4}},
        {"model.layers.0.post_attention_layernorm.weight", 1, {4}},
        {"model.norm.weight", 1, {4}},
        {"lm_head.weight", 2, {3, 4}},
        {NULL, 0, {0}},
    };

    seed_zeros("baichuan", config, shapes);
}

/* q, k and v are rows of one tensor, head by head. */
static void seed_gpt_neox(void)
{
    static const char config[] =
        "{\"model_type\": \"gpt_neox\", \"vocab_size\": 3, \"hidden_size\": 4, "
        "\"intermediate_size\": 2, \"num_hidden_layers\": 1, \"num_attention_heads\": 2, "
        "\"rotary_pct\": 1.0, \"max_position_embeddings\": 8}";
    static const zeros shapes[] = {
        {"gpt_neox.embed_in.weight", 2, {3, 4}},
        {"gpt_neox.layers.0.attention.query_key_value.weight", 2, {12, 4}},
        {"gpt_neox.layers.0.attention.query_key_value.bias", 1, {12}},
        {"gpt_neox.layers.0.attention.dense.weight", 2, {4, 4}},
        {"gpt_neox.layers.0.attention.dense.bias", 1, {4}},
        {"gpt_neox.layers.0.attention.masked_bias", 0, {0}},
        {"gpt_neox.layers.0.mlp.dense_h_to_4h.weight", 2, {2, 4}},
        {"gpt_neox.layers.0.mlp.dense_h_to_4h.bias", 1, {2}},
        {"gpt_neox.layers.0.mlp.dense_4h_to_h.weight", 2, {4, 2}},
        {"gpt_neox.layers.0.mlp.dense_4h_to_h.bias", 1, {4}},
        {"gpt_neox.layers.0.input_layernorm.weight", 1, {4}},
        {"gpt_neox.layers.0.input_layernorm.bias", 1, {4}},
        {"gpt_neox.layers.0.post_attention_layernorm.weight", 1, {4}},
        {"gpt_neox.layers.0.post_attention_layernorm.bias", 1, {4}},
        {"gpt_neox.final_layer_norm.weight", 1, {4}},
        {"gpt_neox.final_layer_norm.bias", 1, {4}},
        {"embed_out.weight", 2, {3, 4}},
        {NULL, 0, {0}},
    };

    seed_zeros("gpt_neox", config, shapes);
}

void fuzz_seeds(void)
{
    seed("plain", &(kvs_model_config){.tied = 1}, KVSI_F32);
    seed("shifted", &(kvs_model_config){SUPPORT_SHIFT(KVS_SHIFT_K | KVS_SHIFT_V, FREE, 1)},
         KVSI_F16);
    seed("gpt2", &(kvs_model_config){.body = KVSI_BODY_GPT2, .positions = KVSI_POSITIONS_LEARNED},
         KVSI_F32);
    seed("data",
         &(kvs_model_config){SUPPORT_SHIFT(KVS_SHIFT_K, DATA, 1), .positions = KVSI_POSITIONS_ALIBI,
                             .sliding_window = 2},
         KVSI_BF16);
    seed_baichuan();
    seed_gpt_neox();
}
