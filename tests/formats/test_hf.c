/* config.json: Hugging Face's files are read, our files are read back, and what cannot be run
 * correctly is refused by key. */
#include "formats/hf.h"
#include "formats/weights.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* clang-format off */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h> /* needs those before it */
/* clang-format on */

static const char SMALLEST[] =
    "{\"vocab_size\": 100, \"hidden_size\": 48, \"intermediate_size\": 40,"
    " \"num_hidden_layers\": 3, \"num_attention_heads\": 6}";

static const char SMALLEST_GPT2[] = "{\"model_type\": \"gpt2\", \"vocab_size\": 100,"
                                    " \"n_embd\": 48, \"n_layer\": 3, \"n_head\": 6}";

static json_t *parse(const char *text)
{
    kvs_err err;
    json_t *object;

    if (kvsi_json_parse(&object, text, strlen(text), "test", &err) != KVS_OK)
        fail_msg("%s", err.message);
    return object;
}

/* `smallest` with the members of `changes` added. */
static kvs_status read_with(kvs_model_config *config, const char *smallest, const char *changes,
                            kvs_err *err)
{
    json_t *object = parse(smallest), *more = parse(changes);
    kvs_status st;

    json_object_update(object, more);
    st = kvsi_hf_config_from_json(config, object, "test.json", err);
    json_decref(more);
    json_decref(object);
    return st;
}

static void check_good(kvs_model_config *config, const char *changes)
{
    kvs_err err;

    if (read_with(config, SMALLEST, changes, &err) != KVS_OK)
        fail_msg("%s", err.message);
}

static void check_good_gpt2(kvs_model_config *config, const char *changes)
{
    kvs_err err;

    if (read_with(config, SMALLEST_GPT2, changes, &err) != KVS_OK)
        fail_msg("%s", err.message);
}

/* Sets defaults that tests leave 0. */
static kvs_model_config complete(const kvs_model_config *config)
{
    kvs_model_config c = *config;
    kvs_err err;

    if (c.rotary_fraction == 0)
        c.rotary_fraction = 1;
    if (c.shift.window == 0)
        c.shift.window = 1;
    if (kvs_model_config_finish(&c, &err) != KVS_OK)
        fail_msg("%s", err.message);
    return c;
}

static void check_same_attention(const kvs_model_config *a, const kvs_model_config *b)
{
    assert_int_equal(a->shift.targets, b->shift.targets);
    assert_int_equal(a->shift.form, b->shift.form);
    assert_int_equal(a->shift.init, b->shift.init);
    assert_int_equal(a->shift.window, b->shift.window);
    assert_int_equal(a->positions, b->positions);
    if (a->positions == KVSI_POSITIONS_ROPE)
        assert_true(a->rope_base == b->rope_base);
    assert_true(a->rotary_fraction == b->rotary_fraction);
    assert_int_equal(a->slopes, b->slopes);
    for (size_t i = 0; i < a->slopes; i++)
        assert_true(a->slope[i] == b->slope[i]);
    assert_true(a->score_scale == b->score_scale);
    assert_true(a->score_cap == b->score_cap);
    assert_true(a->logit_cap == b->logit_cap);
    assert_int_equal(a->qk_norm, b->qk_norm);
    assert_int_equal(a->sliding_window, b->sliding_window);
    assert_int_equal(a->sliding_layers, b->sliding_layers);
    assert_int_equal(a->sliding_heads, b->sliding_heads);
    assert_int_equal(a->sliding_kv_heads, b->sliding_kv_heads);
}

static void check_same(const kvs_model_config *a, const kvs_model_config *expected)
{
    const kvs_model_config full = complete(expected), *b = &full;

    assert_int_equal(a->body, b->body);
    assert_int_equal(a->vocab, b->vocab);
    assert_int_equal(a->dim, b->dim);
    assert_int_equal(a->layers, b->layers);
    assert_int_equal(a->heads, b->heads);
    assert_int_equal(a->kv_heads, b->kv_heads);
    assert_int_equal(a->ffn, b->ffn);
    assert_int_equal(a->context, b->context);
    check_same_attention(a, b);
    assert_int_equal(a->head, b->head);
    assert_int_equal(a->tied, b->tied);
    assert_true(a->dropout_embedding == b->dropout_embedding);
    assert_true(a->dropout_attention == b->dropout_attention);
    assert_true(a->dropout_residual == b->dropout_residual);
    assert_int_equal(a->no_residual, b->no_residual);
    assert_int_equal(a->no_mlp, b->no_mlp);
    assert_int_equal(a->no_norm, b->no_norm);
    assert_true(a->norm_eps == b->norm_eps);
    assert_true(a->init_std == b->init_std);
    assert_int_equal(a->identity_projections, b->identity_projections);
    assert_int_equal(a->unit_embeddings, b->unit_embeddings);
}

/* ---- reading --------------------------------------------------------------------------------- */

static void missing_keys_get_hugging_face_defaults(void **state)
{
    const kvs_model_config expected = {.vocab = 100,
                                       .dim = 48,
                                       .ffn = 40,
                                       .layers = 3,
                                       .heads = 6,
                                       .kv_heads = 6,
                                       .context = 2048,
                                       .rope_base = 10000,
                                       .norm_eps = 1e-6,
                                       .init_std = 0.02,
                                       .shift = {.window = 1}};
    kvs_model_config config;

    (void)state;
    check_good(&config, "{}");
    check_same(&config, &expected);
    check_good(&config,
               "{\"num_key_value_heads\": null, \"head_dim\": null, \"rope_scaling\": null,"
               " \"rope_parameters\": null, \"bos_token_id\": null}");
    check_same(&config, &expected);
}

static void all_keys_are_read(void **state)
{
    const kvs_model_config expected = {.vocab = 100,
                                       .dim = 48,
                                       .ffn = 40,
                                       .layers = 3,
                                       .heads = 6,
                                       .kv_heads = 2,
                                       .context = 77,
                                       .rope_base = 500000,
                                       .norm_eps = 1e-5,
                                       .init_std = 0.125,
                                       .tied = 1,
                                       .shift = {.window = 1}};
    kvs_model_config config;

    (void)state;
    check_good(&config, "{\"architectures\": [\"LlamaForCausalLM\"], \"model_type\": \"llama\","
                        " \"num_key_value_heads\": 2, \"head_dim\": 8,"
                        " \"max_position_embeddings\": 77, \"rope_theta\": 500000,"
                        " \"rms_norm_eps\": 1e-05, \"initializer_range\": 0.125,"
                        " \"tie_word_embeddings\": true, \"hidden_act\": \"silu\","
                        " \"attention_bias\": false, \"mlp_bias\": false,"
                        " \"torch_dtype\": \"float32\", \"bos_token_id\": 1,"
                        " \"eos_token_id\": [2, 3], \"use_cache\": true}");
    check_same(&config, &expected);
    check_good(&config,
               "{\"rope_parameters\": {\"rope_theta\": 250.5, \"rope_type\": \"default\"}}");
    assert_true(config.rope_base == 250.5);
    check_good(&config, "{\"rope_parameters\": {\"partial_rotary_factor\": 1.0},"
                        " \"partial_rotary_factor\": 1.0,"
                        " \"rope_scaling\": {\"rope_type\": \"default\"}}");
    check_good(&config, "{\"rope_scaling\": {\"type\": \"default\"}}");
}

static void the_shift_is_read(void **state)
{
    kvs_model_config config;

    (void)state;
    check_good(&config, "{\"architectures\": [\"KVShiftForCausalLM\"], \"model_type\": \"kvshift\","
                        " \"kvshift\": {\"targets\": \"qkv\", \"form\": \"clamp\", \"window\": 3,"
                        " \"init\": \"uniform\"}}");
    assert_int_equal(config.shift.targets, KVS_SHIFT_Q | KVS_SHIFT_K | KVS_SHIFT_V);
    assert_int_equal(config.shift.form, KVSI_SHIFT_CLAMP);
    assert_int_equal(config.shift.window, 3);
    check_good(&config, "{\"kvshift\": {\"targets\": \"k\", \"form\": \"gate\"}}");
    assert_int_equal(config.shift.targets, KVS_SHIFT_K);
    assert_int_equal(config.shift.form, KVSI_SHIFT_GATE);
    assert_int_equal(config.shift.window, 1);
}

static void a_plain_gpt2_is_read(void **state)
{
    const kvs_model_config defaults = {.body = KVSI_BODY_GPT2,
                                       .vocab = 100,
                                       .dim = 48,
                                       .ffn = 192,
                                       .layers = 3,
                                       .heads = 6,
                                       .context = 1024,
                                       .positions = KVSI_POSITIONS_LEARNED,
                                       .rope_base = 100000,
                                       .tied = 1,
                                       .dropout_embedding = 0.1,
                                       .dropout_attention = 0.1,
                                       .dropout_residual = 0.1,
                                       .norm_eps = 1e-5,
                                       .init_std = 0.02};
    kvs_model_config expected = defaults, config;

    (void)state;
    check_good_gpt2(&config, "{\"n_inner\": null}");
    /* names of one function */
    check_good_gpt2(&config, "{\"activation_function\": \"gelu_pytorch_tanh\"}");
    check_good_gpt2(&config, "{\"activation_function\": \"gelu_fast\"}");
    check_good_gpt2(&config, "{\"activation_function\": \"gelu_python_tanh\"}");
    check_good_gpt2(&config, "{\"activation_function\": \"gelu_accurate\"}");
    check_same(&config, &defaults);
    check_good_gpt2(&config,
                    "{\"architectures\": [\"GPT2LMHeadModel\"], \"n_inner\": 50,"
                    " \"n_positions\": 77, \"n_ctx\": 77, \"layer_norm_epsilon\": 1e-6,"
                    " \"embd_pdrop\": 0.2, \"attn_pdrop\": 0.3, \"resid_pdrop\": 0,"
                    " \"activation_function\": \"gelu_new\", \"tie_word_embeddings\": false,"
                    " \"initializer_range\": 0.5, \"scale_attn_weights\": true,"
                    " \"summary_type\": \"cls_index\"}");
    expected.ffn = 50;
    expected.context = 77;
    expected.norm_eps = 1e-6;
    expected.dropout_embedding = 0.2;
    expected.dropout_attention = 0.3;
    expected.dropout_residual = 0;
    expected.tied = 0;
    expected.init_std = 0.5;
    check_same(&config, &expected);
}

static void our_own_gpt2_is_read(void **state)
{
    kvs_model_config config;

    (void)state;
    check_good_gpt2(&config, "{\"model_type\": \"kvshift\", \"kvshift\": {\"body\": \"gpt2\","
                             " \"targets\": \"kv\", \"kv_heads\": 2}}");
    assert_int_equal(config.body, KVSI_BODY_GPT2);
    assert_int_equal(config.kv_heads, 2);
    assert_int_equal(config.positions, KVSI_POSITIONS_LEARNED);
    assert_int_equal(config.shift.targets, KVS_SHIFT_K | KVS_SHIFT_V);
}

typedef struct refusal {
    const char *changes, *says;
} refusal;

static void check_refused(const char *smallest, const refusal *r)
{
    kvs_model_config config = {.vocab = 4711};
    kvs_err err = {.message = ""};
    const kvs_status st = read_with(&config, smallest, r->changes, &err);

    if (st != KVS_E_FORMAT && st != KVS_E_UNSUPPORTED)
        fail_msg("%s gave status %d", r->changes, (int)st);
    if (!strstr(err.message, r->says) || strncmp(err.message, "'test.json': ", 13) != 0)
        fail_msg("%s: '%s' does not contain %s", r->changes, err.message, r->says);
    assert_int_equal(config.vocab, 4711); /* unchanged */
    assert_int_equal(read_with(&config, smallest, r->changes, NULL), st);
}

/* As transformers, which rounds down; a third of 12 channels is written so that it stays 4. */
static void rotary_channels_of_families_are_whole(void **state)
{
    static const struct {
        const char *changes;
        double fraction;
    } cases[] = {
        {"{\"model_type\": \"phi3\", \"partial_rotary_factor\": 0.8}", 6.0 / 8},
        {"{\"model_type\": \"phi3\", \"hidden_size\": 72, \"partial_rotary_factor\": 0.34}",
         4.0 / 12},
        {"{\"model_type\": \"gpt_neox\", \"hidden_size\": 72, \"rotary_pct\": 0.34}", 4.0 / 12},
        {"{\"model_type\": \"gpt_neox\", \"rope_parameters\": {\"partial_rotary_factor\": 0.5}}",
         0.5},
        {"{\"model_type\": \"gpt_neox\", \"rope_parameters\": {\"rope_theta\": 500}}", 0.25},
    };

    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const kvsi_family *family;
        kvs_model_config config, again;
        json_t *object;

        check_good(&config, cases[i].changes);
        assert_true(config.rotary_fraction == cases[i].fraction);
        object = kvsi_hf_config_to_family_json(&config, &family);
        assert_string_equal(family->type, config.family);
        assert_int_equal(kvsi_hf_config_from_json(&again, object, "again", NULL), KVS_OK);
        assert_true(again.rotary_fraction == cases[i].fraction);
        json_decref(object);
    }
}

/* GPT-NeoX has several activations; the name that is written is that of the same one. */
static void activations_of_families_come_back(void **state)
{
    static const struct {
        const char *type, *read, *written;
        kvsi_activation activation;
    } cases[] = {
        {"gpt_neox", "gelu", "gelu", KVSI_ACTIVATION_GELU},
        {"gpt_neox", "gelu_python", "gelu", KVSI_ACTIVATION_GELU},
        {"gpt_neox", "gelu_fast", "gelu_fast", KVSI_ACTIVATION_GELU_TANH},
        {"gpt_neox", "gelu_pytorch_tanh", "gelu_fast", KVSI_ACTIVATION_GELU_TANH},
        {"gpt2", "gelu_fast", "gelu_new", KVSI_ACTIVATION_GELU_TANH},
        {"gpt2", "gelu", "gelu", KVSI_ACTIVATION_GELU},
        {"gpt2", "relu", "relu", KVSI_ACTIVATION_RELU},
    };

    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const int gpt2 = strcmp(cases[i].type, "gpt2") == 0;
        const char *key = gpt2 ? "activation_function" : "hidden_act";
        const kvsi_family *family;
        kvs_model_config config;
        char changes[128];
        json_t *object;

        snprintf(changes, sizeof changes, "{\"model_type\": \"%s\", \"%s\": \"%s\"}", cases[i].type,
                 key, cases[i].read);
        if (gpt2)
            check_good_gpt2(&config, changes);
        else
            check_good(&config, changes);
        assert_int_equal(config.activation, cases[i].activation);
        object = kvsi_hf_config_to_family_json(&config, &family);
        assert_string_equal(json_string_value(json_object_get(object, "model_type")),
                            cases[i].type);
        assert_string_equal(json_string_value(json_object_get(object, key)), cases[i].written);
        json_decref(object);
    }
}

static void what_gpt2_cannot_be_is_refused(void **state)
{
    static const refusal cases[] = {
        {"{\"n_embd\": null}", "'n_embd'"},
        {"{\"n_inner\": 0}", "'n_inner'"},
        {"{\"n_head\": 7}", "heads 7"},
        {"{\"attn_pdrop\": 1}", "dropout attention"},
        {"{\"activation_function\": \"silu\"}", "'activation_function'"},
        {"{\"scale_attn_weights\": false}", "'scale_attn_weights'"},
        {"{\"scale_attn_by_inverse_layer_idx\": true}", "'scale_attn_by_inverse_layer_idx'"},
        {"{\"architectures\": [\"LlamaForCausalLM\"]}", "GPT2LMHeadModel"},
        {"{\"kvshift\": {\"body\": \"gpt2\", \"targets\": \"kv\"}}", "'model_type'"},
        {"{\"model_type\": \"kvshift\", \"kvshift\": {\"targets\": \"kv\"}}", "'hidden_size'"},
        {"{\"model_type\": \"kvshift\", \"kvshift\": {\"body\": \"gpt2\"}}", "nothing"},
        {"{\"model_type\": \"kvshift\", \"kvshift\": {\"body\": \"gpt3\"}}", "'gpt3'"},
        {"{\"model_type\": \"kvshift\", \"kvshift\": {\"body\": \"gpt2\","
         " \"dropout_attention\": 0.5}}",
         "'dropout_attention'"}, /* it has its own key: attn_pdrop */
    };

    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        check_refused(SMALLEST_GPT2, cases + i);
}

static void what_cannot_be_run_is_refused(void **state)
{
    static const refusal cases[] = {
        {"{\"vocab_size\": null}", "'vocab_size'"},
        {"{\"vocab_size\": -5}", "'vocab_size'"},
        {"{\"hidden_size\": 48.0}", "'hidden_size'"},
        {"{\"intermediate_size\": 0}", "'intermediate_size'"},
        {"{\"num_key_value_heads\": 0}", "'num_key_value_heads'"},
        {"{\"num_hidden_layers\": \"3\"}", "'num_hidden_layers'"},
        {"{\"num_attention_heads\": 7}", "heads 7"},
        {"{\"num_key_value_heads\": 4}", "kv heads 4"},
        {"{\"vocab_size\": 9223372036854775807}", "vocab"},
        {"{\"head_dim\": 0}", "'head_dim'"},
        {"{\"head_dim\": \"16\"}", "'head_dim'"},
        {"{\"hidden_act\": \"gelu\"}", "'hidden_act'"},
        {"{\"attention_bias\": 0}", "'attention_bias'"},
        {"{\"mlp_bias\": \"yes\"}", "'mlp_bias'"},
        {"{\"rope_scaling\": {\"rope_type\": \"linear\"}}", "'factor'"},
        {"{\"rope_scaling\": {\"rope_type\": \"linear\", \"factor\": -2}}", "rope factor"},
        {"{\"rope_scaling\": {\"rope_type\": \"linear\", \"factor\": 2, \"beta_fast\": 32}}",
         "'beta_fast'"},
        {"{\"rope_scaling\": {\"rope_type\": \"ntk\", \"factor\": 2}}", "'ntk'"},
        {"{\"rope_scaling\": {\"type\": \"llama3\", \"factor\": 2, \"low_freq_factor\": 1,"
         " \"high_freq_factor\": 4}}",
         "'original_max_position_embeddings'"},
        {"{\"rope_scaling\": {\"type\": \"llama3\", \"factor\": 2, \"low_freq_factor\": 4,"
         " \"high_freq_factor\": 4, \"original_max_position_embeddings\": 64}}",
         "high factor"},
        {"{\"rope_scaling\": {\"type\": \"yarn\", \"factor\": 2, \"beta_fast\": 1,"
         " \"beta_slow\": 4}}",
         "beta"},
        {"{\"rope_scaling\": {\"type\": \"longrope\", \"short_factor\": [1, 1, 1, 1]}}",
         "'long_factor'"},
        {"{\"rope_scaling\": {\"type\": \"longrope\", \"short_factor\": [1, 1],"
         " \"long_factor\": [1, 1]}}",
         "factors of longrope"},
        {"{\"rope_scaling\": {\"type\": \"dynamic\", \"factor\": 2,"
         " \"original_max_position_embeddings\": 64}}",
         "'original_max_position_embeddings'"},
        {"{\"rope_parameters\": {\"rope_theta\": 1e4}, \"rope_scaling\": {\"type\": \"linear\","
         " \"factor\": 2}}",
         "contradict"},
        {"{\"rope_scaling\": {\"rope_type\": \"default\", \"factor\": 2}}", "'factor'"},
        {"{\"rope_scaling\": {\"rope_type\": \"linear\", \"type\": \"dynamic\", \"factor\": 2}}",
         "keys 'rope_type' and 'type' contradict"},
        {"{\"rope_theta\": 500000, \"rope_parameters\": {\"rope_theta\": 1e4}}",
         "'rope_theta': expected 10000, as 'rope_theta'"},
        {"{\"model_type\": \"phi3\", \"partial_rotary_factor\": 0.5,"
         " \"rope_parameters\": {\"partial_rotary_factor\": 1}}",
         "'partial_rotary_factor': expected 1"},
        {"{\"original_max_position_embeddings\": 64, \"rope_scaling\": {\"type\": \"yarn\","
         " \"factor\": 2, \"original_max_position_embeddings\": 32}}",
         "'original_max_position_embeddings': expected 32"},
        {"{\"model_type\": \"gemma3_text\", \"rope_local_base_freq\": 5000, \"rope_parameters\":"
         " {\"full_attention\": {\"rope_theta\": 1e6},"
         " \"sliding_attention\": {\"rope_theta\": 1e4}}}",
         "'rope_local_base_freq': expected 10000"},
        {"{\"rope_scaling\": {}}", "'rope_scaling'"},
        {"{\"rope_scaling\": []}", "'rope_scaling'"},
        {"{\"partial_rotary_factor\": 0.5}", "'partial_rotary_factor'"},
        {"{\"rope_parameters\": {\"partial_rotary_factor\": 0.5}}", "'partial_rotary_factor'"},
        {"{\"rope_parameters\": {\"rope_type\": \"yarn\"}}", "'factor'"},
        {"{\"rope_parameters\": {\"rope_theta\": 1e4, \"factor\": 8}}", "'factor'"},
        {"{\"rope_parameters\": 5}", "'rope_parameters'"},
        {"{\"rope_theta\": 0}", "rope base"},
        {"{\"rms_norm_eps\": \"small\"}", "'rms_norm_eps'"},
        {"{\"tie_word_embeddings\": 1}", "'tie_word_embeddings'"},
        {"{\"model_type\": \"bert\"}", "'bert'"},
        {"{\"model_type\": \"unknown\"}", "the types that are: llama, gpt2, mistral, "},
        {"{\"quantization_config\": {\"bits\": 4}}", "'quantization_config': expected null"},
        {"{\"model_type\": \"mixtral\"}", "mixtures of experts"},
        {"{\"model_type\": \"mistral\", \"architectures\": [\"LlamaForCausalLM\"]}", "MistralFor"},
        {"{\"model_type\": \"mistral\", \"sliding_window\": \"8\"}", "'sliding_window'"},
        {"{\"model_type\": \"mistral\", \"sliding_window\": null,"
         " \"layer_types\": [\"sliding_attention\", \"full_attention\", \"full_attention\"]}",
         "'layer_types'"},
        {"{\"model_type\": \"qwen2\", \"use_sliding_window\": 1}", "'use_sliding_window'"},
        {"{\"model_type\": \"qwen2\", \"use_sliding_window\": true,"
         " \"max_window_layers\": 0, \"sliding_window\": null}",
         "'sliding_window'"},
        {"{\"model_type\": \"qwen2\", \"layer_types\": [\"full_attention\"]}", "'layer_types'"},
        {"{\"model_type\": \"qwen2\","
         " \"layer_types\": [\"conv\", \"full_attention\", \"full_attention\"]}",
         "'conv'"},
        {"{\"model_type\": \"qwen2\", \"use_sliding_window\": false,"
         " \"layer_types\": [\"sliding_attention\", \"full_attention\", \"full_attention\"]}",
         "'sliding_window'"},
        {"{\"model_type\": \"smollm3\", \"no_rope_layers\": [1, 0]}", "'no_rope_layers'"},
        {"{\"model_type\": \"smollm3\", \"no_rope_layers\": [1, 0, 2]}", "'no_rope_layers'"},
        {"{\"model_type\": \"phi3\", \"partial_rotary_factor\": 1.5}", "rotary fraction"},
        {"{\"model_type\": \"gpt_neox\", \"hidden_act\": \"silu\"}", "'hidden_act'"},
        {"{\"model_type\": \"gpt_neox\", \"rotary_pct\": 0.4}", "rotary positions turn 3 of 8"},
        {"{\"model_type\": \"stablelm\"}", "kv heads 32"}, /* transformers' default */
        {"{\"model_type\": \"opt\"}", "'ffn_dim'"},
        {"{\"model_type\": \"opt\", \"ffn_dim\": 40, \"word_embed_proj_dim\": 24}",
         "'word_embed_proj_dim': expected 48, found 24"},
        {"{\"model_type\": \"opt\", \"ffn_dim\": 40, \"do_layer_norm_before\": false}",
         "'do_layer_norm_before'"},
        {"{\"architectures\": [\"LlamaForSequenceClassification\"]}",
         "LlamaForSequenceClassification"},
        {"{\"architectures\": \"LlamaForCausalLM\"}", "'architectures'"},
        {"{\"architectures\": []}", "'architectures'"},
        /* a shift that contradicts the model type, or the reverse */
        {"{\"model_type\": \"kvshift\"}", "'model_type'"},
        {"{\"architectures\": [\"KVShiftForCausalLM\"]}", "'architectures'"},
        {"{\"model_type\": \"llama\", \"kvshift\": {\"targets\": \"kv\"}}", "'model_type'"},
        {"{\"architectures\": [\"LlamaForCausalLM\"], \"kvshift\": {\"targets\": \"kv\"}}",
         "'architectures'"},
        {"{\"kvshift\": null}", "'kvshift'"},
        {"{\"kvshift\": \"kv\"}", "'kvshift'"},
        {"{\"kvshift\": {}}", "targets"},
        {"{\"kvshift\": {\"targets\": \"none\"}}", "'kvshift'"},
        {"{\"kvshift\": {\"body\": \"llama\", \"window\": 2}}", "'kvshift'"},
        {"{\"kvshift\": {\"targets\": \"kq\"}}", "'kq'"},
        {"{\"kvshift\": {\"targets\": \"kv\", \"form\": \"soft\"}}", "'soft'"},
        {"{\"kvshift\": {\"targets\": \"kv\", \"form\": \"hard\"}}", "'hard'"},
        {"{\"kvshift\": {\"targets\": \"kv\", \"init\": \"zero\"}}", "'zero'"},
        {"{\"kvshift\": {\"targets\": \"kv\", \"window\": 0}}", "window"},
        {"{\"kvshift\": {\"targets\": \"kv\", \"window\": 4}}", "window"},
        {"{\"kvshift\": {\"targets\": \"kv\", \"form\": \"gate\", \"window\": 2}}", "window"},
        {"{\"kvshift\": {\"targets\": \"kv\", \"stride\": 2}}", "'stride'"},
        {"{\"kvshift\": {\"targets\": 3}}", "'targets'"},
        {"{\"kvshift\": {\"kv_heads\": 2}}", "'kv_heads'"}, /* Llama's key is num_key_value_heads */
        {"{\"kvshift\": {\"positions\": \"sinus\"}}", "'sinus'"},
        {"{\"kvshift\": {\"head\": \"tied\"}}", "'tied'"},
        {"{\"kvshift\": {\"norm\": 0}}", "'norm'"},
        {"{\"kvshift\": {\"slopes\": 0.5}}", "'slopes'"},
        {"{\"kvshift\": {\"positions\": \"alibi\", \"slopes\": [\"a\"]}}", "'slopes'"},
        {"{\"kvshift\": {\"positions\": \"alibi\", \"slopes\": [0.5, 0.25]}}", "2 slopes"},
        {"{\"kvshift\": {\"slopes\": [0.5]}}", "alibi"},
        {"{\"kvshift\": {\"sliding_window\": 4, \"sliding_layers\": [64]}}", "'sliding_layers'"},
        {"{\"kvshift\": {\"sliding_window\": 4, \"sliding_layers\": [-1]}}", "'sliding_layers'"},
        {"{\"kvshift\": {\"sliding_window\": 4, \"sliding_layers\": [3]}}", "sliding layer"},
        {"{\"kvshift\": {\"sliding_layers\": [1]}}", "sliding window"},
        {"{\"kvshift\": {\"rotary_fraction\": 0.3}}", "rotary"},
    };

    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        check_refused(SMALLEST, cases + i);
}

/* More slopes than fit must not be stored. */
static void lists_are_bounded(void **state)
{
    json_t *object = parse(SMALLEST), *slopes = json_array();
    kvs_model_config config;
    kvs_err err = {.message = ""};

    (void)state;
    for (int i = 0; i < KVSI_SLOPES_MAX + 1; i++)
        json_array_append_new(slopes, json_real(0.5));
    json_object_set_new(object, "kvshift",
                        json_pack("{s:s, s:o}", "positions", "alibi", "slopes", slopes));
    assert_int_equal(kvsi_hf_config_from_json(&config, object, "test.json", &err), KVS_E_FORMAT);
    assert_non_null(strstr(err.message, "at most 64, found 65"));
    json_decref(object);
}

static void required_keys_are_required(void **state)
{
    static const char *const keys[] = {"vocab_size", "hidden_size", "intermediate_size",
                                       "num_hidden_layers", "num_attention_heads"};

    (void)state;
    for (size_t i = 0; i < sizeof keys / sizeof *keys; i++) {
        json_t *object = parse(SMALLEST);
        kvs_model_config config;
        kvs_err err = {.message = ""};

        json_object_del(object, keys[i]);
        assert_int_equal(kvsi_hf_config_from_json(&config, object, "test.json", &err),
                         KVS_E_FORMAT);
        assert_non_null(strstr(err.message, keys[i]));
        json_decref(object);
    }
}

/* ---- writing --------------------------------------------------------------------------------- */

static void check_text(const json_t *object, const char *key, const char *expected)
{
    assert_string_equal(json_string_value(json_object_get(object, key)), expected);
}

static void written_files_say_what_they_are(void **state)
{
    kvs_model_config config;
    json_t *object, *shift;

    (void)state;
    check_good(&config, "{\"num_key_value_heads\": 3}");
    object = kvsi_hf_config_to_json(&config);
    check_text(object, "model_type", "llama");
    check_text(object, "hidden_act", "silu");
    check_text(object, "torch_dtype", "float32");
    assert_int_equal(json_integer_value(json_object_get(object, "num_key_value_heads")), 3);
    assert_true(json_is_false(json_object_get(object, "tie_word_embeddings")));
    assert_null(json_object_get(object, "kvshift"));
    json_decref(object);

    config.shift.targets = KVS_SHIFT_K | KVS_SHIFT_V;
    config.shift.window = 2;
    object = kvsi_hf_config_to_json(&config);
    check_text(object, "model_type", "kvshift");
    assert_string_equal(
        json_string_value(json_array_get(json_object_get(object, "architectures"), 0)),
        "KVShiftForCausalLM");
    shift = json_pack("{s:s, s:s, s:i, s:s}", "targets", "kv", "form", "free", "window", 2, "init",
                      "uniform");
    assert_true(json_equal(json_object_get(object, "kvshift"), shift));
    json_decref(shift);
    json_decref(object);
}

static void a_plain_gpt2_is_written_plainly(void **state)
{
    kvs_model_config config;
    json_t *object, *own;

    (void)state;
    check_good_gpt2(&config, "{}");
    object = kvsi_hf_config_to_json(&config);
    check_text(object, "model_type", "gpt2");
    check_text(object, "activation_function", "gelu_new");
    assert_string_equal(
        json_string_value(json_array_get(json_object_get(object, "architectures"), 0)),
        "GPT2LMHeadModel");
    assert_null(json_object_get(object, "kvshift"));
    assert_null(json_object_get(object, "hidden_size"));
    json_decref(object);

    config.tied = 0;
    object = kvsi_hf_config_to_json(&config);
    own = json_pack("{s:s}", "body", "gpt2");
    check_text(object, "model_type", "kvshift");
    assert_true(json_equal(json_object_get(object, "kvshift"), own));
    json_decref(own);
    json_decref(object);
}

#define LLAMA_SIZES                                                                                \
    .vocab = 30, .dim = 48, .layers = 5, .heads = 4, .ffn = 7, .context = 11, .norm_eps = 1e-3,    \
    .init_std = 0.3, .rope_base = 1234.5
#define GPT2_SIZES LLAMA_SIZES, .body = KVSI_BODY_GPT2
#define SWITCHES                                                                                   \
    .no_residual = 1, .no_mlp = 1, .no_norm = 1, .unit_embeddings = 1, .score_scale = 0.75,        \
    .score_cap = 12.5, .logit_cap = 30
#define DROPOUT .dropout_embedding = 0.1, .dropout_attention = 0.2, .dropout_residual = 0.3
#define SLIDING                                                                                    \
    .sliding_window = 9, .sliding_layers = 1 << 4 | 1 << 1, .sliding_heads = 8,                    \
    .sliding_kv_heads = 4
#define ALIBI .positions = KVSI_POSITIONS_ALIBI, .slopes = 4, .slope = {0.5, 0.1, 1e-3, 2}
#define SHIFT(what, how, start, reach)                                                             \
    .shift = {.targets = (what),                                                                   \
              .form = KVSI_SHIFT_##how,                                                            \
              .init = KVSI_SHIFT_INIT_##start,                                                     \
              .window = (reach)}

/* Together they set every setting to a value other than its default, for both bodies. */
static const kvs_model_config various[] = {
    {LLAMA_SIZES},
    {LLAMA_SIZES, .tied = 1, .kv_heads = 2, DROPOUT},
    {LLAMA_SIZES, SHIFT(KVS_SHIFT_K, FREE, SOFTMAX, 3), SLIDING, .rotary_fraction = 1.0 / 3},
    {LLAMA_SIZES, SHIFT(KVS_SHIFT_K | KVS_SHIFT_V, GATE, UNIFORM, 1), ALIBI, SWITCHES},
    {LLAMA_SIZES, .head = KVSI_HEAD_NORMALISED, .sliding_window = 3, .kv_heads = 2},
    {LLAMA_SIZES, .head = KVSI_HEAD_NONE, .positions = KVSI_POSITIONS_LEARNED,
     .identity_projections = 1},
    {LLAMA_SIZES, .positions = KVSI_POSITIONS_NONE, .qk_norm = KVSI_QK_NORM_FULL},
    {LLAMA_SIZES, .sliding_window = 3, .qk_norm = KVSI_QK_NORM_LAYER},
    {GPT2_SIZES, .positions = KVSI_POSITIONS_LEARNED, .tied = 1},
    {GPT2_SIZES, .positions = KVSI_POSITIONS_LEARNED, .tied = 1, .kv_heads = 2, DROPOUT},
    {GPT2_SIZES, SHIFT(KVS_SHIFT_V, CHANNEL, IDENTITY, 2), SLIDING, .rotary_fraction = 1.0 / 3},
    {GPT2_SIZES, SHIFT(KVS_SHIFT_K | KVS_SHIFT_V | KVS_SHIFT_Q, DATA, UNIFORM, 1), ALIBI, SWITCHES},
    {GPT2_SIZES, SHIFT(KVS_SHIFT_K, HARD, UNIFORM, 1), .head = KVSI_HEAD_NONE,
     .positions = KVSI_POSITIONS_NONE, .identity_projections = 1},
    {GPT2_SIZES, .positions = KVSI_POSITIONS_LEARNED, .head = KVSI_HEAD_NORMALISED},
};

enum { VARIOUS = sizeof various / sizeof *various };

static void written_files_come_back(void **state)
{
    const char *root = getenv("TMPDIR");
    char dir[256], path[300];

    (void)state;
    snprintf(dir, sizeof dir, "%.200s/kvshift-hf-XXXXXX", root ? root : "/tmp");
    assert_non_null(mkdtemp(dir));
    snprintf(path, sizeof path, "%s/config.json", dir);
    for (size_t i = 0; i < VARIOUS; i++) {
        const kvs_model_config config = complete(&various[i]);
        kvs_model_config back;
        kvs_err err;

        if (kvsi_hf_config_write(&config, path, &err) != KVS_OK ||
            kvsi_model_config_load(&back, path, &err) != KVS_OK)
            fail_msg("configuration %zu: %s", i, err.message);
        check_same(&back, &config);
        assert_int_equal(kvsi_model_config_load(&back, dir, &err), KVS_OK);
        check_same(&back, &config);
    }
    unlink(path);
    assert_int_equal(rmdir(dir), 0);
}

/* Every key of ours is written for some model. */
static void every_key_is_written(void **state)
{
    static const char *const keys[] = {
        "body",
        "targets",
        "form",
        "window",
        "init",
        "positions",
        "slopes",
        "sliding_layers",
        "head",
        "kv_heads",
        "rope_theta",
        "rotary_fraction",
        "score_scale",
        "score_cap",
        "logit_cap",
        "qk_norm",
        "sliding_window",
        "sliding_heads",
        "residual",
        "sliding_kv_heads",
        "dropout_embedding",
        "mlp",
        "dropout_attention",
        "dropout_residual",
        "norm",
        "unit_embeddings",
        "identity_projections",
    };

    (void)state;
    for (size_t k = 0; k < sizeof keys / sizeof *keys; k++) {
        int found = 0;

        for (size_t i = 0; i < VARIOUS; i++) {
            const kvs_model_config config = complete(&various[i]);
            json_t *object = kvsi_hf_config_to_json(&config);

            found |= json_object_get(json_object_get(object, "kvshift"), keys[k]) != NULL;
            json_decref(object);
        }
        if (!found)
            fail_msg("key '%s' is never written", keys[k]);
    }
}

/* A foreign file, if there is one. */
static void a_foreign_file_is_read(void **state)
{
    const kvs_model_config expected = {.vocab = 2048,
                                       .dim = 128,
                                       .ffn = 384,
                                       .layers = 2,
                                       .heads = 8,
                                       .kv_heads = 4,
                                       .context = 512,
                                       .rope_base = 10000,
                                       .norm_eps = 1e-6,
                                       .init_std = 0.02,
                                       .tied = 1,
                                       .shift = {.window = 1}};
    const char *shared = getenv("KVSHIFT_SHARED");
    kvs_model_config config;
    char path[4096];
    kvs_err err;

    (void)state;
    snprintf(path, sizeof path, "%s/data/tinystories656K-hf/config.json", shared ? shared : "");
    if (!shared || access(path, R_OK) != 0) {
        print_message("needs data/tinystories656K-hf/config.json below $KVSHIFT_SHARED\n");
        skip();
    }
    if (kvsi_model_config_load(&config, path, &err) != KVS_OK)
        fail_msg("%s", err.message);
    check_same(&config, &expected);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(missing_keys_get_hugging_face_defaults),
        cmocka_unit_test(all_keys_are_read),
        cmocka_unit_test(the_shift_is_read),
        cmocka_unit_test(a_plain_gpt2_is_read),
        cmocka_unit_test(our_own_gpt2_is_read),
        cmocka_unit_test(what_cannot_be_run_is_refused),
        cmocka_unit_test(rotary_channels_of_families_are_whole),
        cmocka_unit_test(activations_of_families_come_back),
        cmocka_unit_test(what_gpt2_cannot_be_is_refused),
        cmocka_unit_test(lists_are_bounded),
        cmocka_unit_test(required_keys_are_required),
        cmocka_unit_test(written_files_say_what_they_are),
        cmocka_unit_test(a_plain_gpt2_is_written_plainly),
        cmocka_unit_test(written_files_come_back),
        cmocka_unit_test(every_key_is_written),
        cmocka_unit_test(a_foreign_file_is_read),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
