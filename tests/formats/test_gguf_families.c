/* Families of models in GGUF files: random models of each, and those that transformers made, are
 * written as the architecture that llama.cpp runs and read again, with the same bits; what
 * llama.cpp does not compute stays ours.  Keys and tensors that a family cannot have are refused.
 *
 * The models of transformers are in $KVSHIFT_SHARED/data/zoo; without them that test is skipped. */
#include "base/files.h"
#include "base/folders.h"
#include "base/json.h"
#include "base/memory.h"
#include "family_models.h"
#include "formats/gguf.h"
#include "model_files.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { COUNT = 12, WIDE = 64, SMALL = 16, JSON_LIMIT = 1 << 20 };

static kvs_runtime *rt;
static char *dir;
static kvs_err err;

static int set_up(void **state)
{
    const kvs_runtime_options options = {.size = sizeof options, .threads = 1};

    (void)state;
    assert_int_equal(kvs_runtime_create(&rt, &options, NULL), KVS_OK);
    dir = support_make_dir();
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    support_remove_dir(dir);
    kvs_runtime_free(rt);
    return 0;
}

/* ---- models ---- */

static kvs_model *load(const char *path, int mapped)
{
    kvs_load_options options;
    kvs_model *model;

    kvs_load_options_init(&options, sizeof options);
    options.mapped = mapped;
    if (kvs_model_load(&model, rt, path, &options, &err) != KVS_OK)
        fail_msg("%s", err.message);
    return model;
}

/* The logits after every token, fed one by one: what a mapped model is for. */
static float *logits_of(const char *path, int mapped)
{
    kvs_model *model = load(path, mapped);
    const size_t vocab = kvs_model_logit_count(model);
    float *logits = kvsi_alloc(COUNT * vocab, sizeof *logits);
    kvs_session *session;
    int32_t ids[COUNT];

    support_fill_ids(ids, COUNT, 3, vocab);
    assert_int_equal(kvs_session_create(&session, model, NULL, &err), KVS_OK);
    for (size_t i = 0; i < COUNT; i++)
        assert_int_equal(kvs_session_feed(session, ids + i, 1, logits + i * vocab, &err), KVS_OK);
    kvs_session_free(session);
    kvs_model_free(model);
    return logits;
}

/* The largest difference, relative to the largest number. */
static double difference(const float *a, const float *b, size_t count)
{
    double most = 0, size = 0;

    for (size_t i = 0; i < count; i++) {
        most = fmax(most, fabs((double)a[i] - (double)b[i]));
        size = fmax(size, fabs((double)a[i]));
    }
    return most / size;
}

static size_t vocab_of(const char *path)
{
    kvs_model *model = load(path, 0);
    const size_t vocab = kvs_model_logit_count(model);

    kvs_model_free(model);
    return vocab;
}

/* Two models have the same logits up to `limit`; with `mapped`, the second runs from its file. */
static void expect_same(const char *a, const char *b, int mapped, double limit, const char *what)
{
    const size_t count = COUNT * vocab_of(a);
    float *left = logits_of(a, 0), *right = logits_of(b, mapped);

    if (!(difference(left, right, count) <= limit))
        fail_msg("%s: '%s' and '%s' differ by %g", what, a, b, difference(left, right, count));
    kvsi_free(left);
    kvsi_free(right);
}

static void convert(const char *out, const char *in, const kvs_model_config *config,
                    kvs_format format, kvs_dtype dtype)
{
    kvs_convert_options options;

    kvs_convert_options_init(&options, sizeof options);
    options.config = config;
    options.format = format;
    options.dtype = dtype;
    options.overwrite = 1;
    options.tokenizer = "none";
    if (kvs_convert(out, in, &options, &err) != KVS_OK)
        fail_msg("'%s': %s", out, err.message);
}

static void expect_architecture(const char *path, const char *expected, const char *what)
{
    const char *name = "";
    kvsi_gguf *file;
    size_t size = 0;

    assert_int_equal(kvsi_gguf_open(&file, path, &err), KVS_OK);
    assert_int_equal(kvsi_gguf_get_text(&name, &size, file, "general.architecture", &err), KVS_OK);
    if (size != strlen(expected) || memcmp(name, expected, size) != 0)
        fail_msg("%s: architecture '%.*s', expected '%s'", what, (int)size, name, expected);
    kvsi_gguf_close(file);
}

static void expect_type(const char *folder, const char *expected, const char *what)
{
    char *path = kvsi_path_join(folder, "config.json");
    json_t *object;

    assert_int_equal(kvsi_json_read(&object, path, JSON_LIMIT, &err), KVS_OK);
    if (strcmp(json_string_value(json_object_get(object, "model_type")), expected) != 0)
        fail_msg("%s: type '%s', expected '%s'", what,
                 json_string_value(json_object_get(object, "model_type")), expected);
    json_decref(object);
    kvsi_free(path);
}

/* ---- there and back ---- */

static void families_have_the_same_bits_from_gguf(void **state)
{
    char *folder = kvsi_path_join(dir, "folder"), *file = kvsi_path_join(dir, "file.gguf");
    char *back = kvsi_path_join(dir, "back"), *again = kvsi_path_join(dir, "again.gguf");
    const family_model *m;

    (void)state;
    for (size_t i = 0; (m = family_model_at(i)); i++) {
        const kvs_model_config config = family_config(m, WIDE);

        convert(folder, NULL, &config, KVS_FORMAT_HF, KVS_DTYPE_F32);
        convert(file, folder, NULL, KVS_FORMAT_GGUF, KVS_DTYPE_F32);
        expect_architecture(file, m->architecture, m->settings);
        expect_same(folder, file, 0, 0, m->settings);
        convert(back, file, NULL, KVS_FORMAT_HF, KVS_DTYPE_F32);
        expect_type(back, m->type, m->settings);
        expect_same(file, back, 0, 0, m->settings);
        convert(again, back, NULL, KVS_FORMAT_GGUF, KVS_DTYPE_F32);
        expect_architecture(again, m->architecture, m->settings);
    }
    kvsi_free(folder);
    kvsi_free(file);
    kvsi_free(back);
    kvsi_free(again);
}

/* Tensors that are split, interleaved or joined in other types than F32. */
static void families_have_the_same_numbers_in_every_type(void **state)
{
    static const struct {
        kvs_dtype dtype;
        double mapped; /* from the file, inputs of products with blocks are rounded */
    } types[] = {{KVS_DTYPE_BF16, 0}, {KVS_DTYPE_Q8_0, 5e-3}};
    char *file = kvsi_path_join(dir, "typed.gguf"), *whole = kvsi_path_join(dir, "whole");
    const family_model *m;

    (void)state;
    for (size_t i = 0; (m = family_model_at(i)); i++)
        for (size_t t = 0; t < sizeof types / sizeof *types; t++) {
            const kvs_model_config config = family_config(m, WIDE);

            convert(file, NULL, &config, KVS_FORMAT_GGUF, types[t].dtype);
            expect_architecture(file, m->architecture, m->settings);
            convert(whole, file, NULL, KVS_FORMAT_HF, KVS_DTYPE_F32);
            expect_same(whole, file, 0, 0, m->settings);
            expect_same(file, file, 1, types[t].mapped, m->settings);
        }
    kvsi_free(file);
    kvsi_free(whole);
}

/* The file has the divisors of Llama 3's frequencies as F32, not the numbers they come from. */
static void llama3_is_a_tensor_of_divisors(void **state)
{
    const family_model llama3 = {"llama", "llama", NULL,
                                 "rope-scaling=llama3 rope-factor=8 rope-original-context=16 "
                                 "rope-low-factor=1 rope-high-factor=4"};
    const kvs_model_config config = family_config(&llama3, WIDE);
    char *folder = kvsi_path_join(dir, "llama3"), *file = kvsi_path_join(dir, "llama3.gguf");
    char *again = kvsi_path_join(dir, "llama3-again.gguf");

    (void)state;
    convert(folder, NULL, &config, KVS_FORMAT_HF, KVS_DTYPE_F32);
    convert(file, folder, NULL, KVS_FORMAT_GGUF, KVS_DTYPE_F32);
    expect_architecture(file, "llama", "llama3");
    expect_same(folder, file, 0, 1e-5, "llama3");
    convert(again, file, NULL, KVS_FORMAT_GGUF_LLAMA, KVS_DTYPE_F32);
    expect_same(file, again, 0, 0, "llama3");
    kvsi_free(folder);
    kvsi_free(file);
    kvsi_free(again);
}

/* ---- models of transformers ---- */

/* As what the folders of the zoo are written; "kvshift" where llama.cpp lacks something. */
static const struct {
    const char *name, *architecture;
} folders[] = {
    {"gemma2", "kvshift"}, /* a score scale that does not follow from the head size */
    {"gemma2-v4", "kvshift"},
    {"gemma3", "kvshift"},
    {"gemma3-v4", "kvshift"},
    {"gpt_neox", "gptneox"},
    {"gpt_neox-seq", "gptneox"},
    {"gpt_neox-v4", "gptneox"},
    {"granite", "granite"},
    {"llama-bias", "llama"},
    {"llama-eos", "llama"},
    {"llama-headdim", "llama"},
    {"llama-old", "llama"},
    {"llama-rope-dynamic", "llama"},
    {"llama-rope-linear", "llama"},
    {"llama-rope-linear-v4", "llama"},
    {"llama-rope-llama3", "llama"},
    {"llama-rope-llama3-v4", "llama"},
    {"llama-rope-yarn", "llama"},
    {"llama-rope-yarn-v4", "llama"},
    {"llama-tied", "llama"},
    {"llama-untied", "llama"},
    {"llama-v4", "llama"},
    {"mistral", "kvshift"}, /* a window in every layer */
    {"mistral-full", "llama"},
    {"mistral-v4", "kvshift"},
    {"olmo2", "olmo2"},
    {"opt", "kvshift"},
    {"phi3", "kvshift"}, /* a window */
    {"phi3-longrope", "phi3"},
    {"phi3-longrope-v4", "phi3"},
    {"qwen2", "qwen2"},
    {"qwen2-swa", "kvshift"}, /* a window */
    {"qwen2-swa-v4", "kvshift"},
    {"qwen2-v4", "qwen2"},
    {"qwen3", "qwen3"},
    {"qwen3-v4", "qwen3"},
    {"smollm3", "kvshift"}, /* every second layer has no RoPE, not every fourth */
    {"stablelm", "stablelm"},
    {"stablelm-parallel", "stablelm"},
    {"stablelm-v4", "stablelm"},
};

static void models_of_transformers_have_the_same_bits(void **state)
{
    const char *shared = getenv("KVSHIFT_SHARED");
    char *zoo = kvsi_path_join(shared ? shared : "", "data/zoo");
    char *file = kvsi_path_join(dir, "zoo.gguf");
    const int there = shared && kvsi_is_folder(zoo);

    (void)state;
    for (size_t i = 0; there && i < sizeof folders / sizeof *folders; i++) {
        const int approximate = strstr(folders[i].name, "llama3") != NULL;
        char *folder = kvsi_path_join(zoo, folders[i].name);

        convert(file, folder, NULL, KVS_FORMAT_GGUF, KVS_DTYPE_KEEP);
        expect_architecture(file, folders[i].architecture, folders[i].name);
        expect_same(folder, file, 1, approximate ? 1e-5 : 0, folders[i].name);
        kvsi_free(folder);
    }
    kvsi_free(zoo);
    kvsi_free(file);
    if (!there) {
        print_message("skipped: no data/zoo below $KVSHIFT_SHARED\n");
        skip();
    }
}

/* ---- refusals ---- */

/* The model of an architecture with this text in its settings. */
static const family_model *find_model(const char *architecture, const char *settings)
{
    const family_model *m;

    for (size_t i = 0; (m = family_model_at(i)); i++)
        if (strcmp(m->architecture, architecture) == 0 && strstr(m->settings, settings))
            return m;
    fail_msg("no model '%s' with '%s'", architecture, settings);
    return NULL;
}

static void expect_refusal(const kvsi_text *file, const char *text)
{
    char *path = write_file(dir, "refused.gguf", file->data, file->length);
    kvs_model *model;

    err.message[0] = '\0';
    if (kvs_model_load(&model, rt, path, NULL, &err) == KVS_OK)
        fail_msg("a file was loaded that should fail with: %s", text);
    if (!strstr(err.message, text) || strchr(err.message, '\n'))
        fail_msg("'%s', expected '%s'", err.message, text);
    kvsi_free(path);
}

static void numbers_that_a_family_cannot_have_are_refused(void **state)
{
    static const struct {
        const char *architecture, *settings, *key;
        float number;
        const char *message;
    } cases[] = {
        {"gemma2", "", "attn_logit_softcapping", 0, "softcapping': expected more than 0, found 0"},
        {"gemma2", "", "rope.freq_base_swa", 5000, "unknown key 'gemma2.rope.freq_base_swa'"},
        {"gemma2", "", "logit_scale", 2, "key 'gemma2.logit_scale': expected 1, found 2"},
        {"gemma3", "", "attn_logit_softcapping", 50, "softcapping': expected 0, found 50"},
        {"llama", "yarn", "rope.scaling.yarn_ext_factor", 0.5F, "ext_factor': expected 1, found"},
        {"llama", "yarn", "rope.scaling.yarn_log_multiplier", 0.5F, "multiplier': expected 0"},
        {"llama", "yarn", "rope.scaling.factor", NAN, "expected a number, found nan"},
        {"llama", "yarn", "rope.scaling.yarn_attn_factor", 2, "attn_factor': expected 1, found"},
        {"llama", "longrope", "rope.scaling.factor", 2, "scaling.factor': expected 1, found 2"},
        {"llama", "linear", "rope.scaling.attn_factor", 2, "attn_factor': expected 1, found 2"},
        {"llama", "linear", "rope.scaling.factor", -2, "rope factor is -2"},
        {"granite", "", "rope.scaling.finetuned", 0, "scaling.finetuned': expected 1, found 0"},
        {"granite", "", "attention.scale", -1, "score scale is -1"},
        {"qwen2", "", "attention.scale", 2, "key 'qwen2.attention.scale': expected 0.353"},
        {"qwen3", "", "embedding_scale", 2, "key 'qwen3.embedding_scale': expected 1, found 2"},
        {"stablelm", "", "logit_scale", 2, "key 'stablelm.logit_scale': expected 1, found 2"},
    };

    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        kvsi_text file = {0};
        char key[96];

        put_family_gguf(&file, dir, find_model(cases[i].architecture, cases[i].settings), SMALL);
        snprintf(key, sizeof key, "%s.%s", cases[i].architecture, cases[i].key);
        add_gguf_float(&file, key, cases[i].number);
        expect_refusal(&file, cases[i].message);
        kvsi_text_release(&file);
    }
}

static void sizes_that_a_family_cannot_have_are_refused(void **state)
{
    static const struct {
        const char *architecture, *settings, *key;
        uint32_t number;
        const char *message;
    } cases[] = {
        {"stablelm", "", "rope.dimension_count", 100, "expected at most 8, found 100"},
        {"stablelm", "", "rope.dimension_count", 0, "expected at least 1, found 0"},
        {"stablelm", "", "rope.dimension_count", 3, "turn 3 of 8 channels"},
        {"qwen3", "", "rope.dimension_count", 8, "dimension_count': expected 16, found 8"},
        {"qwen3", "", "attention.value_length", 8, "value_length': expected 16, found 8"},
        {"qwen3", "", "attention.sliding_window", 8, "sliding_window': expected 0, found 8"},
        {"gemma2", "", "attention.sliding_window", UINT32_MAX, "expected at most 2147483647"},
        {"gemma3", "", "attention.key_length", 0, "expected at least 1, found 0"},
        {"gemma3", "", "attention.head_count", 1 << 20, "not divisible by heads 1048576"},
        {"olmo2", "", "attention.head_count", 3, "dim 16 is not divisible by heads 3"},
        {"llama", "yarn", "rope.scaling.original_context_length", 0, "expected 1 to 2147483647"},
        {"llama", "longrope", "rope.scaling.original_context_length", UINT32_MAX, "expected 1 to"},
        {"llama", "", "expert_count", 8, "'llama.expert_count': expected 0, found 8"},
        {"phi3", "", "feed_forward_length", 15, "has 16 rows, the configuration needs 30"},
        {"gptneox", "", "attention.head_count_kv", 1, "has 48 rows, the configuration needs 32"},
        {"granite", "", "logit_scale", 1, "expected a floating-point number"},
        {"gemma2", "", "nextn_predict_layers", 1, "unknown key 'gemma2.nextn_predict_layers'"},
    };

    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        kvsi_text file = {0};
        char key[96];

        put_family_gguf(&file, dir, find_model(cases[i].architecture, cases[i].settings), SMALL);
        snprintf(key, sizeof key, "%s.%s", cases[i].architecture, cases[i].key);
        add_gguf_u32(&file, key, cases[i].number);
        expect_refusal(&file, cases[i].message);
        kvsi_text_release(&file);
    }
}

/* A key or a tensor under another name, and what is missing or unknown then. */
static void missing_keys_and_tensors_are_named(void **state)
{
    static const struct {
        const char *architecture, *settings, *from, *to, *message;
    } cases[] = {
        {"granite", "", "granite.logit_scale", "granite.logit_scalx", "logit_scale' is missing"},
        {"gptneox", "", "gptneox.use_parallel_residual", "gptneox.use_parallel_residuax",
         "key 'gptneox.use_parallel_residual' is missing"},
        {"stablelm", "", "stablelm.attention.layer_norm_epsilon",
         "stablelm.attention.layer_norm_epsilox", "layer_norm_epsilon' is missing"},
        {"phi3", "longrope", "rope_factors_long.weight", "rope_factors_lonx.weight",
         "has no tensor 'rope_factors_long.weight'"},
        {"gemma2", "", "blk.1.post_ffw_norm.weight", "blk.1.post_ffx_norm.weight",
         "unknown tensor 'blk.1.post_ffx_norm.weight'"},
        {"gemma3", "", "blk.1.attn_k_norm.weight", "blk.9.attn_k_norm.weight",
         "no tensor 'model.layers.1.self_attn.k_norm.weight'"},
        {"llama", "longrope", "longrope", "longrops", "or 'longrope', found 'longrops'"},
        {"gptneox", "", "blk.1.attn_qkv.bias", "blk.9.attn_qkv.bias",
         "no tensor 'model.layers.1.self_attn.q_proj.bias'"},
    };

    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        kvsi_text file = {0};

        put_family_gguf(&file, dir, find_model(cases[i].architecture, cases[i].settings), SMALL);
        memcpy(file.data + find_bytes(&file, cases[i].from), cases[i].to, strlen(cases[i].from));
        expect_refusal(&file, cases[i].message);
        kvsi_text_release(&file);
    }
}

/* Shapes, types and lists. */
static void shapes_that_a_family_cannot_have_are_refused(void **state)
{
    static const struct {
        const char *architecture, *settings, *tensor;
        size_t field, value; /* bytes after the name */
        const char *message;
    } cases[] = {
        {"llama", "longrope", "rope_factors_short.weight", 4, 3, "3 short factors of longrope"},
        {"llama", "longrope", "rope_factors_long.weight", 12, 1,
         "expected at most 64 values of F32, found 4 of F16"},
        {"stablelm", "qk-norm", "blk.0.attn_q_norm.weight", 12, 1,
         "has 1 rows, expected one for each of 2 heads"},
        {"llama", "head-size", "blk.2.attn_q.bias", 4, 15, "expected 2 heads of an even size"},
        {"phi3", "rotary", "blk.0.attn_qkv.weight", 12, 31, "the configuration needs 32"},
    };
    const char flags[] = {7, 0, 0, 0, 3, 0, 0, 0, 0, 0, 0, 0, 1, 1, 0};
    kvsi_text file = {0};

    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        put_family_gguf(&file, dir, find_model(cases[i].architecture, cases[i].settings), SMALL);
        patch(&file, find_bytes(&file, cases[i].tensor) + strlen(cases[i].tensor) + cases[i].field,
              cases[i].value, 4);
        expect_refusal(&file, cases[i].message);
        kvsi_text_release(&file);
    }
    put_family_gguf(&file, dir, find_model("gemma3", ""), SMALL);
    add_gguf_key(&file, "gemma3.attention.sliding_window_pattern", 9, flags, sizeof flags);
    expect_refusal(&file, "expected one value for each of 4 layers, found 3");
    kvsi_text_release(&file);
}

/* Keys with which converters say what is the case anyway, and lists instead of periods. */
static void keys_of_converters_change_nothing(void **state)
{
    const char flags[] = {7, 0, 0, 0, 4, 0, 0, 0, 0, 0, 0, 0, 1, 1, 0, 1};
    char *plain = kvsi_path_join(dir, "plain.gguf"), *path;
    kvsi_text file = {0};

    (void)state;
    put_family_gguf(&file, dir, find_model("gemma3", "5000"), SMALL);
    kvsi_free(write_file(dir, "plain.gguf", file.data, file.length));
    add_gguf_key(&file, "gemma3.attention.sliding_window_pattern", 9, flags, sizeof flags);
    add_gguf_float(&file, "gemma3.embedding_scale", 1);
    add_gguf_u32(&file, "gemma3.expert_count", 0);
    path = write_file(dir, "keys.gguf", file.data, file.length);
    expect_same(plain, path, 0, 0, "gemma3");
    kvsi_text_release(&file);
    kvsi_free(path);
    put_family_gguf(&file, dir, find_model("stablelm", ""), SMALL);
    kvsi_free(write_file(dir, "plain.gguf", file.data, file.length));
    add_gguf_key(&file, "stablelm.use_parallel_residual", 7, "\1", 1);
    path = write_file(dir, "keys.gguf", file.data, file.length);
    expect_same(plain, path, 0, 0, "stablelm");
    kvsi_text_release(&file);
    kvsi_free(path);
    kvsi_free(plain);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(families_have_the_same_bits_from_gguf),
        cmocka_unit_test(families_have_the_same_numbers_in_every_type),
        cmocka_unit_test(llama3_is_a_tensor_of_divisors),
        cmocka_unit_test(models_of_transformers_have_the_same_bits),
        cmocka_unit_test(numbers_that_a_family_cannot_have_are_refused),
        cmocka_unit_test(sizes_that_a_family_cannot_have_are_refused),
        cmocka_unit_test(missing_keys_and_tensors_are_named),
        cmocka_unit_test(shapes_that_a_family_cannot_have_are_refused),
        cmocka_unit_test(keys_of_converters_change_nothing),
    };

    return cmocka_run_group_tests(tests, set_up, tear_down);
}
