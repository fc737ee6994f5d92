/* config.json: what Hugging Face writes is understood, what we write comes back, and what would be
 * run wrong is refused by the name of its key. */
#include "formats/hf.h"

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

static json_t *parse(const char *text)
{
    kvs_err err;
    json_t *object;

    if (kvsi_json_parse(&object, text, strlen(text), "test", &err) != KVS_OK)
        fail_msg("%s", err.message);
    return object;
}

/* SMALLEST with the members of `changes` on top. */
static kvs_status read_with(kvs_model_config *config, const char *changes, kvs_err *err)
{
    json_t *object = parse(SMALLEST), *more = parse(changes);
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

    if (read_with(config, changes, &err) != KVS_OK)
        fail_msg("%s", err.message);
}

static void check_same(const kvs_model_config *a, const kvs_model_config *b)
{
    assert_int_equal(a->vocab, b->vocab);
    assert_int_equal(a->dim, b->dim);
    assert_int_equal(a->layers, b->layers);
    assert_int_equal(a->heads, b->heads);
    assert_int_equal(a->kv_heads, b->kv_heads);
    assert_int_equal(a->ffn, b->ffn);
    assert_int_equal(a->context, b->context);
    assert_true(a->rope_base == b->rope_base);
    assert_true(a->norm_eps == b->norm_eps);
    assert_true(a->init_std == b->init_std);
    assert_int_equal(a->tied, b->tied);
    assert_int_equal(a->shift.targets, b->shift.targets);
    assert_int_equal(a->shift.form, b->shift.form);
    assert_int_equal(a->shift.init, b->shift.init);
    assert_int_equal(a->shift.window, b->shift.window);
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
}

static void the_shift_is_read(void **state)
{
    kvs_model_config config;

    (void)state;
    check_good(&config, "{\"architectures\": [\"KVShiftForCausalLM\"], \"model_type\": \"kvshift\","
                        " \"kvshift\": {\"targets\": \"qkv\", \"form\": \"clamp\", \"window\": 3,"
                        " \"init\": \"uniform\"}}");
    assert_int_equal(config.shift.targets, KVS_SHIFT_Q | KVS_SHIFT_K | KVS_SHIFT_V);
    assert_int_equal(config.shift.form, KVS_SHIFT_CLAMP);
    assert_int_equal(config.shift.window, 3);
    check_good(&config, "{\"kvshift\": {\"targets\": \"k\", \"form\": \"gate\"}}");
    assert_int_equal(config.shift.targets, KVS_SHIFT_K);
    assert_int_equal(config.shift.form, KVS_SHIFT_GATE);
    assert_int_equal(config.shift.window, 1);
}

static void what_cannot_be_run_is_refused(void **state)
{
    static const struct {
        const char *changes, *says;
    } cases[] = {
        {"{\"vocab_size\": null}", "'vocab_size'"},
        {"{\"vocab_size\": -5}", "'vocab_size'"},
        {"{\"hidden_size\": 48.0}", "'hidden_size'"},
        {"{\"intermediate_size\": 0}", "'intermediate_size'"},
        {"{\"num_key_value_heads\": 0}", "'num_key_value_heads'"},
        {"{\"num_hidden_layers\": \"3\"}", "'num_hidden_layers'"},
        {"{\"num_attention_heads\": 7}", "heads 7"},
        {"{\"num_key_value_heads\": 4}", "kv heads 4"},
        {"{\"vocab_size\": 9223372036854775807}", "vocab"},
        {"{\"head_dim\": 16}", "'head_dim'"},
        {"{\"hidden_act\": \"gelu\"}", "'hidden_act'"},
        {"{\"attention_bias\": true}", "'attention_bias'"},
        {"{\"attention_bias\": 0}", "'attention_bias'"},
        {"{\"mlp_bias\": true}", "'mlp_bias'"},
        {"{\"rope_scaling\": {\"rope_type\": \"linear\", \"factor\": 2.0}}", "'rope_scaling'"},
        {"{\"rope_parameters\": {\"rope_type\": \"yarn\"}}", "'yarn'"},
        {"{\"rope_parameters\": {\"rope_theta\": 1e4, \"factor\": 8}}", "'factor'"},
        {"{\"rope_parameters\": 5}", "'rope_parameters'"},
        {"{\"rope_theta\": 0}", "rope base"},
        {"{\"rms_norm_eps\": \"small\"}", "'rms_norm_eps'"},
        {"{\"tie_word_embeddings\": 1}", "'tie_word_embeddings'"},
        {"{\"model_type\": \"mistral\"}", "'mistral'"},
        {"{\"architectures\": [\"LlamaForSequenceClassification\"]}",
         "LlamaForSequenceClassification"},
        {"{\"architectures\": \"LlamaForCausalLM\"}", "'architectures'"},
        {"{\"architectures\": []}", "'architectures'"},
        /* a shift that the file's own name denies, or the other way round */
        {"{\"model_type\": \"kvshift\"}", "'model_type'"},
        {"{\"architectures\": [\"KVShiftForCausalLM\"]}", "'architectures'"},
        {"{\"model_type\": \"llama\", \"kvshift\": {\"targets\": \"kv\"}}", "'model_type'"},
        {"{\"architectures\": [\"LlamaForCausalLM\"], \"kvshift\": {\"targets\": \"kv\"}}",
         "'architectures'"},
        {"{\"kvshift\": null}", "'kvshift'"},
        {"{\"kvshift\": \"kv\"}", "'kvshift'"},
        {"{\"kvshift\": {}}", "'targets'"},
        {"{\"kvshift\": {\"targets\": \"none\"}}", "'none'"},
        {"{\"kvshift\": {\"targets\": \"kq\"}}", "'kq'"},
        {"{\"kvshift\": {\"targets\": \"kv\", \"form\": \"hard\"}}", "'hard'"},
        {"{\"kvshift\": {\"targets\": \"kv\", \"init\": \"zero\"}}", "'zero'"},
        {"{\"kvshift\": {\"targets\": \"kv\", \"window\": 0}}", "window"},
        {"{\"kvshift\": {\"targets\": \"kv\", \"window\": 4}}", "window"},
        {"{\"kvshift\": {\"targets\": \"kv\", \"form\": \"gate\", \"window\": 2}}", "window"},
        {"{\"kvshift\": {\"targets\": \"kv\", \"stride\": 2}}", "'stride'"},
        {"{\"kvshift\": {\"targets\": 3}}", "'targets'"},
    };

    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        kvs_model_config config = {.vocab = 4711};
        kvs_err err = {.message = ""};
        const kvs_status st = read_with(&config, cases[i].changes, &err);

        if (st != KVS_E_FORMAT && st != KVS_E_UNSUPPORTED)
            fail_msg("%s gave status %d", cases[i].changes, (int)st);
        if (!strstr(err.message, cases[i].says) || strncmp(err.message, "'test.json': ", 13) != 0)
            fail_msg("%s: '%s' does not say %s", cases[i].changes, err.message, cases[i].says);
        assert_int_equal(config.vocab, 4711); /* untouched */
        assert_int_equal(read_with(&config, cases[i].changes, NULL), st);
    }
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

static void written_files_come_back(void **state)
{
    static const kvs_model_config configs[] = {
        {.vocab = 128,
         .dim = 64,
         .layers = 1,
         .heads = 4,
         .kv_heads = 4,
         .ffn = 176,
         .context = 48,
         .rope_base = 100000,
         .norm_eps = 1e-5,
         .init_std = 0.02,
         .shift = {.window = 1}},
        {.vocab = 7,
         .dim = 60,
         .layers = 5,
         .heads = 6,
         .kv_heads = 2,
         .ffn = 1,
         .context = 1,
         .rope_base = 1234.5,
         .norm_eps = 1e-6,
         .init_std = 0.3,
         .tied = 1,
         .shift = {.targets = KVS_SHIFT_V, .form = KVS_SHIFT_CLAMP, .window = 3}},
        {.vocab = 9,
         .dim = 8,
         .layers = 1,
         .heads = 1,
         .kv_heads = 1,
         .ffn = 2,
         .context = 3,
         .rope_base = 2,
         .norm_eps = 0,
         .init_std = 0,
         .shift = {.targets = KVS_SHIFT_K | KVS_SHIFT_V, .form = KVS_SHIFT_GATE, .window = 1}},
    };
    const char *root = getenv("TMPDIR");
    char dir[256], path[300];

    (void)state;
    snprintf(dir, sizeof dir, "%.200s/kvshift-hf-XXXXXX", root ? root : "/tmp");
    assert_non_null(mkdtemp(dir));
    snprintf(path, sizeof path, "%s/config.json", dir);
    for (size_t i = 0; i < sizeof configs / sizeof *configs; i++) {
        kvs_model_config back;
        kvs_err err;

        if (kvsi_hf_config_write(&configs[i], path, &err) != KVS_OK ||
            kvsi_hf_config_read(&back, path, &err) != KVS_OK)
            fail_msg("%s", err.message);
        check_same(&back, &configs[i]);
    }
    unlink(path);
    assert_int_equal(rmdir(dir), 0);
}

/* A file that others made, where there is one. */
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
    if (kvsi_hf_config_read(&config, path, &err) != KVS_OK)
        fail_msg("%s", err.message);
    check_same(&config, &expected);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(missing_keys_get_hugging_face_defaults),
        cmocka_unit_test(all_keys_are_read),
        cmocka_unit_test(the_shift_is_read),
        cmocka_unit_test(what_cannot_be_run_is_refused),
        cmocka_unit_test(required_keys_are_required),
        cmocka_unit_test(written_files_say_what_they_are),
        cmocka_unit_test(written_files_come_back),
        cmocka_unit_test(a_foreign_file_is_read),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
