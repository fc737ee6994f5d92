/* Damaged, wrong and hostile model files are refused with a message that names the tensor, the key
 * or the number, and nothing is read outside of them. */
#include "base/files.h"
#include "base/memory.h"
#include "formats/hf.h"
#include "kvshift/kvshift_lab.h"
#include "model_files.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

typedef struct fixture {
    kvs_runtime *rt;
    kvs_model *model; /* plain, not tied */
    char *dir;
    kvsi_text file;
} fixture;

static int set_up(void **state)
{
    fixture *f = test_malloc(sizeof *f);

    f->rt = support_runtime(NULL);
    f->model = small_model(f->rt, 0);
    f->dir = support_make_dir();
    f->file = (kvsi_text){0};
    *state = f;
    return 0;
}

static int tear_down(void **state)
{
    fixture *f = *state;

    kvsi_text_release(&f->file);
    kvs_model_free(f->model);
    kvs_runtime_free(f->rt);
    support_remove_dir(f->dir);
    test_free(f);
    return 0;
}

/* ---- refusals ---- */

/* Options that load a file into memory, and options that map it. */
static const kvs_load_options loaders[] = {{.size = sizeof(kvs_load_options)},
                                           {.size = sizeof(kvs_load_options), .mapped = 1}};

enum { LOADERS = sizeof loaders / sizeof *loaders };

static void expect_refusal_of(fixture *f, const char *path, const char *text)
{
    for (size_t i = 0; i < LOADERS; i++) {
        kvs_model *model = NULL;
        kvs_err err = {.message = ""};

        if (kvs_model_load(&model, f->rt, path, &loaders[i], &err) == KVS_OK)
            fail_msg("a file was loaded that should fail with: %s", text);
        assert_null(model);
        if (!strstr(err.message, text))
            fail_msg("'%s' does not contain '%s'", err.message, text);
    }
}

/* The current file, under a neutral name. */
static void expect_refusal(fixture *f, const char *text)
{
    char *path = write_file(f->dir, "file", f->file.data, f->file.length);

    expect_refusal_of(f, path, text);
    kvsi_free(path);
}

static void restart(fixture *f)
{
    kvsi_text_release(&f->file);
}

/* A damaged file must never cause reads outside of it; sanitizers check that. */
static void expect_survival(fixture *f, size_t step)
{
    const size_t length = f->file.length;

    for (size_t end = 0; end < length; end += step) {
        char *path = write_file(f->dir, "file", f->file.data, end);

        for (size_t i = 0; i < LOADERS; i++) {
            kvs_model *model = NULL;

            assert_int_not_equal(kvs_model_load(&model, f->rt, path, &loaders[i], NULL), KVS_OK);
            assert_null(model);
        }
        kvsi_free(path);
    }
}

/* ---- GGUF ---- */

/* Offsets of numbers after the name of a matrix. */
enum { RANK = 0, INNER = 4, OUTER = 12, TYPE = 20, OFFSET = 24 };

static void make_gguf(fixture *f)
{
    restart(f);
    put_gguf(&f->file, f->model, "llama", NULL, 0);
}

static void gguf_tensors(void **state)
{
    static const struct {
        size_t field, size;
        uint64_t value;
        const char *message;
    } cases[] = {
        {RANK, 4, 5, "'blk.1.attn_k.weight' has 5 dimensions, expected at most 4"},
        {RANK, 4, 0xffffffff, "has 4294967295 dimensions"},
        {INNER, 8, 1ULL << 62, "'blk.1.attn_k.weight' has a shape whose size overflows"},
        {OUTER, 8, UINT64_MAX, "'blk.1.attn_k.weight' has a shape whose size overflows"},
        {OUTER, 8, 1ULL << 40, "beyond the file's"},
        {INNER, 8, 15,
         "'model.layers.1.self_attn.k_proj.weight' has shape (8,15), the "
         "configuration needs (8,16)"},
        {OUTER, 8, 7, "'model.layers.1.self_attn.k_proj.weight' has 7 rows, expected 2 heads"},
        {TYPE, 4, 3, "'blk.1.attn_k.weight' has type Q4_1 (3), expected F32, F16, BF16, Q8_0"},
        {TYPE, 4, 8, "has rows of 16, expected blocks of 32"},
        {TYPE, 4, 1234, "has type unknown (1234)"},
        {OFFSET, 8, 1, "'blk.1.attn_k.weight' is at offset 1, expected a multiple of 64"},
        {OFFSET, 8, UINT64_MAX - 63, "bytes at offset 18446744073709551552, beyond the file's"},
        {OFFSET, 8, 1ULL << 60, "beyond the file's"},
        {OFFSET, 8, 0, "overlaps tensor"},
    };
    fixture *f = *state;
    const char name[] = "blk.1.attn_k.weight";

    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        make_gguf(f);
        patch(&f->file, find_bytes(&f->file, name) + strlen(name) + cases[i].field, cases[i].value,
              cases[i].size);
        expect_refusal(f, cases[i].message);
    }
}

static void gguf_header(void **state)
{
    static const struct {
        size_t at, size;
        uint64_t value;
        const char *message;
    } cases[] = {
        {4, 4, 1, "GGUF version 1, expected 2 or 3"},
        {8, 8, UINT64_MAX, "claims 18446744073709551615 tensors, but its size allows at most"},
        {8, 8, 1ULL << 61, "tensors, but its size allows at most"},
        {8, 8, 0, "vocab is 0"},
        {16, 8, UINT64_MAX, "18446744073709551615 metadata keys"},
    };
    fixture *f = *state;

    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        make_gguf(f);
        patch(&f->file, cases[i].at, cases[i].value, cases[i].size);
        expect_refusal(f, cases[i].message);
    }
}

static void gguf_keys(void **state)
{
    static const struct {
        const char *key;
        uint64_t value;
        const char *message;
    } cases[] = {
        {"general.alignment", 0, "key 'general.alignment': expected a power of 2"},
        {"general.alignment", 48, "key 'general.alignment': expected a power of 2"},
        {"general.alignment", 0xffffffff, "key 'general.alignment': expected a power of 2"},
        {"llama.block_count", 0, "key 'llama.block_count': expected at least 1, found 0"},
        {"llama.block_count", 1 << 24, "layers is 16777216, expected 1 to 4096"},
        {"llama.block_count", 4096, "has 21 tensors, too few for 4096 layers"},
        {"llama.block_count", 1, "that the configuration does not account for"},
        {"llama.block_count", 3, "has no tensor 'model.layers.2.input_layernorm.weight'"},
        {"llama.embedding_length", 0xffffffff, "dim is 4294967295"},
        {"llama.attention.head_count", 3, "dim 16 is not divisible by heads 3"},
        {"llama.attention.head_count_kv", 8, "kv heads 8 is more than heads 4"},
        {"llama.context_length", 1 << 24, "claims a context of 16777216 tokens, too long for its"},
        {"llama.rope.dimension_count", 2, "key 'llama.rope.dimension_count': expected 4, found 2"},
    };
    fixture *f = *state;

    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        make_gguf(f);
        patch(&f->file, find_bytes(&f->file, cases[i].key) + strlen(cases[i].key) + 4,
              cases[i].value, 4);
        expect_refusal(f, cases[i].message);
    }
}

/* A name that occurs twice, an unknown one, and the one that is missing then. */
static void gguf_names(void **state)
{
    static const struct {
        const char *from, *to, *message;
    } cases[] = {
        {"blk.1.attn_k.weight", "blk.0.attn_k.weight",
         "the tensor 'model.layers.0.self_attn.k_proj.weight' twice"},
        {"blk.1.attn_k.weight", "blk.1.attn_x.weight", "unknown tensor 'blk.1.attn_x.weight'"},
        {"blk.1.attn_k.weight", "blk.7.attn_k.weight",
         "no tensor 'model.layers.1.self_attn.k_proj.weight'"},
        {"blk.1.attn_k.weight", "blk.1.attn\0k.weight", "expected 1 to 256 and no NUL"},
        {"general.architecture", "general.architecturx", "'stablelm' or 'kvshift', found ''"},
        {"llama.context_length", "llama.context_lengtx", "'llama.context_length' is missing"},
        {"llama.attention.layer_norm_rms_epsilon", "llama.attention.layer_norm_rms_epsilox",
         "key 'llama.attention.layer_norm_rms_epsilon' is missing"},
    };
    fixture *f = *state;

    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        make_gguf(f);
        memcpy(f->file.data + find_bytes(&f->file, cases[i].from), cases[i].to,
               strlen(cases[i].from));
        expect_refusal(f, cases[i].message);
    }
}

static void gguf_configurations(void **state)
{
    static const struct {
        const char *config, *message;
    } cases[] = {
        {"", "file"},
        {"{\"a\"", "file"},
        {"[[[[[[", "file"},
        {"{\"model_type\":\"gpt2\",\"vocab_size\":5,\"n_embd\":8,\"n_layer\":1,\"n_head\":2}",
         "body is gpt2, expected llama in GGUF"},
        {"{\"model_type\":\"llama\"}", "vocab_size"},
    };
    fixture *f = *state;

    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        restart(f);
        put_gguf(&f->file, f->model, "kvshift", cases[i].config, 0);
        expect_refusal(f, cases[i].message);
    }
}

static void gguf_truncated(void **state)
{
    fixture *f = *state;

    make_gguf(f);
    f->file.length = find_bytes(&f->file, "blk.1.attn_k.weight") + 3;
    expect_refusal(f, "ends in the middle of its tensors' descriptions");
    make_gguf(f);
    f->file.length -= 128;
    expect_refusal(f, "tensor 'output.weight' has 704 bytes at offset");
    make_gguf(f);
    expect_survival(f, 37);
}

/* ---- llama2.c ---- */

static void llama2c_headers(void **state)
{
    static const struct {
        size_t number;
        uint32_t value;
        const char *message;
    } cases[] = {
        {0, (uint32_t)-16, "dim is -16, expected at least 1"},
        {0, 0, "dim is 0, expected at least 1"},
        {0, 0x7fffffff, "dim is 2147483647, expected 1 to 16777216"},
        {0, 1 << 24, "need"},
        {1, 0x80000000, "hidden_dim is -2147483648"},
        {1, 13, "the sizes in its header"},
        {2, 1 << 24, "layers is 16777216, expected 1 to 4096"},
        {2, 0xffffffff, "layers is -1"},
        {3, 3, "dim 16 is not divisible by heads 3"},
        {3, 16, "an even number"},
        {4, 3, "heads 4 is not divisible by kv heads 3"},
        {4, 8, "kv heads 8 is more than heads 4"},
        {5, 0x80000000, "vocabulary is -2147483648"},
        {5, 12, "the sizes in its header"},
        {6, 0, "context is 0"},
    };
    fixture *f = *state;

    for (int version = 0; version < 2; version++)
        for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
            restart(f);
            put_llama2c(&f->file, f->model, version);
            patch(&f->file, (version ? 8 : 0) + 4 * cases[i].number, cases[i].value, 4);
            if (version == 0 || cases[i].number != 6)
                expect_refusal(f, cases[i].message);
        }
}

static void llama2c_lengths(void **state)
{
    fixture *f = *state;

    for (int version = 0; version < 2; version++) {
        restart(f);
        put_llama2c(&f->file, f->model, version);
        f->file.length--;
        expect_refusal(f, "the sizes in its header");
        f->file.length++;
        put_bytes(&f->file, "x", 1);
        expect_refusal(f, "the sizes in its header");
        f->file.length--;
        expect_survival(f, 101);
    }
    patch(&f->file, 4, 2, 4);
    expect_refusal(f, "is of llama2.c's version 2, expected 1");
    patch(&f->file, 4, 1, 4);
    patch(&f->file, 36, 9, 1);
    expect_refusal(f, "has 9 for a shared head, expected 0 or 1");
    f->file.length = 20;
    expect_refusal(f, "has 20 bytes, too few for any model");
    f->file.length = 100;
    expect_refusal(f, "has 100 bytes, expected a header of 256");
}

/* ---- safetensors ---- */

static void write_config(const fixture *f)
{
    char *path = kvsi_path_join(f->dir, "config.json");

    assert_int_equal(kvsi_hf_config_write(&f->model->config, path, NULL), KVS_OK);
    kvsi_free(path);
}

static void make_safetensors(fixture *f)
{
    restart(f);
    put_model_safetensors(&f->file, f->model, KVSI_F32, 0, f->model->layout.count);
}

/* Replaces text in the header by text of the same length. */
static void replace(fixture *f, const char *from, const char *to)
{
    assert_int_equal(strlen(from), strlen(to));
    memcpy(f->file.data + find_bytes(&f->file, from), to, strlen(to));
}

static void expect_folder_refusal(fixture *f, const char *text)
{
    kvsi_free(write_file(f->dir, "model.safetensors", f->file.data, f->file.length));
    expect_refusal_of(f, f->dir, text);
}

static void safetensors(void **state)
{
    static const struct {
        const char *from, *to, *message;
    } cases[] = {
        {"\"shape\":[11,16]", "\"shape\":[16,11]",
         "tensor 'model.embed_tokens.weight' has shape (16,11), the configuration needs (11,16)"},
        {"model.norm.weight", "model.norm.weighs", "has no tensor 'model.norm.weight'"},
        {"model.layers.1.mlp.up_proj", "model.layers.0.mlp.up_proj", "duplicate"},
        {"\"dtype\":\"F32\"", "\"dtype\":\"I32\"",
         "tensor 'model.embed_tokens.weight' is of type I32, which weights cannot have"},
        {"\"dtype\":\"F32\"", "\"dtype\":\"F64\"", "tensor 'model.embed_tokens.weight' has 704 b"},
        {"\"data_offsets\":[0,704]", "\"data_offsets\":[0,999]", "model.embed_tokens.weight"},
    };
    fixture *f = *state;

    write_config(f);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        make_safetensors(f);
        replace(f, cases[i].from, cases[i].to);
        expect_folder_refusal(f, cases[i].message);
    }
    make_safetensors(f);
    patch(&f->file, 0, 1ULL << 60, 8);
    expect_folder_refusal(f, "claims a header of 1152921504606846976 bytes");
    expect_refusal(f, "claims a header of 1152921504606846976 bytes");
    make_safetensors(f);
    f->file.length--;
    expect_folder_refusal(f, "model.safetensors");
}

static void strangers(void **state)
{
    const float number = 1;
    const kvsi_file_tensor stranger = {
        .name = "model.layers.0.self_attn.q_proj.bias", .rank = 1, .shape = {1}, .data = &number};
    fixture *f = *state;
    const size_t count = f->model->layout.count;
    kvsi_file_tensor *tensors = kvsi_alloc(count + 1, sizeof *tensors);

    write_config(f);
    for (size_t i = 0; i < count; i++) {
        const kvsi_parameter *p = &f->model->layout.list[i];

        tensors[i] = (kvsi_file_tensor){
            .name = p->name, .rank = p->rank, .data = tensor_numbers(f->model, p, 0)};
        memcpy(tensors[i].shape, p->shape, p->rank * sizeof *p->shape);
    }
    tensors[count] = stranger;
    put_safetensors(&f->file, tensors, count + 1);
    expect_folder_refusal(f, "'model.layers.0.self_attn.q_proj.bias' that the configuration does "
                             "not account for");
    for (size_t i = 0; i < count; i++)
        kvsi_free((void *)tensors[i].data);
    kvsi_free(tensors);
}

/* ---- other files ---- */

static void no_models(void **state)
{
    fixture *f = *state;
    char *nowhere = kvsi_path_join(f->dir, "nowhere");

    expect_refusal_of(f, nowhere, "cannot open");
    expect_refusal_of(f, f->dir, "config.json");
    write_config(f);
    expect_refusal_of(f, f->dir, "has neither model.safetensors nor");
    kvsi_text_add(&f->file, "The quick brown fox jumps over the lazy dog.");
    expect_refusal(f, "is neither safetensors nor GGUF nor a llama2.c model");
    restart(f);
    kvsi_text_add(&f->file, "{\"a\": 1}");
    expect_refusal(f, "is not a model: expected a folder, safetensors, GGUF or llama2.c");
    f->file.length = 0;
    expect_refusal(f, "has 0 bytes, too few for any model");
    kvsi_free(nowhere);
}

/* ---- Baichuan-M1 ---- */

/* Copies the golden model, replacing text in its config.json or its header. */
static void expect_baichuan_refusal(fixture *f, const char *name, const char *from, const char *to,
                                    const char *text)
{
    static const char *const names[] = {"config.json", "model.safetensors"};

    for (size_t i = 0; i < 2; i++) {
        char *source = kvsi_path_join(KVSI_TESTS_DIR "/goldens/baichuan", names[i]), *data;
        size_t size;

        assert_int_equal(kvsi_file_read(&data, &size, source, 1 << 20, NULL), KVS_OK);
        restart(f);
        put_bytes(&f->file, data, size);
        if (strcmp(name, names[i]) == 0)
            replace(f, from, to);
        kvsi_free(write_file(f->dir, names[i], f->file.data, f->file.length));
        kvsi_free(source);
        kvsi_free(data);
    }
    expect_refusal_of(f, f->dir, text);
}

static void baichuan(void **state)
{
    fixture *f = *state;

    expect_baichuan_refusal(f, "config.json", "\"conv_window\": 2", "\"conv_window\": 3",
                            "key 'conv_window': expected 2, found 3");
    expect_baichuan_refusal(f, "config.json", "\"num_key_value_heads\": 2",
                            "\"num_key_value_heads\": 1",
                            "tensor 'model.layers.0.self_attn.W_pack.weight' has 64 rows, "
                            "config.json needs 48");
    expect_baichuan_refusal(f, "config.json", "\"conv_window\"", "\"canv_window\"",
                            "models of type 'baichuan_m1' are not supported");
    expect_baichuan_refusal(f, "model.safetensors",
                            "conv_k\":{\"dtype\":\"BF16\",\"shape\":[1,1,2,1,2]",
                            "conv_k\":{\"dtype\":\"BF16\",\"shape\":[1,2,1,1,2]",
                            "tensor 'model.layers.0.self_attn.conv_k' has 5 dimensions, expected "
                            "the shape (1,1,2,1,2)");
    expect_baichuan_refusal(f, "model.safetensors", "model.layers.0.self_attn.W_pack",
                            "model.layers.9.self_attn.W_pack",
                            "no tensor 'model.layers.0.self_attn.q_proj.weight'");
}

/* Keys that would change results are never ignored. */
static void gguf_keys_that_change_results(void **state)
{
    static const struct {
        const char *key;
        float value;
        const char *message;
    } cases[] = {
        {"llama.rope.scaling.attn_factor", 2, "'llama.rope.scaling.attn_factor': expected 1"},
        {"llama.attention.scale", 0.25F, "'llama.attention.scale': expected 0.5, found 0.25"},
        {"llama.attention.clamp_kqv", 8, "'llama.attention.clamp_kqv': expected 0, found 8"},
        {"llama.attention.max_alibi_bias", 8, "max_alibi_bias': expected 0"},
        {"llama.logit_scale", 0.5F, "'llama.logit_scale': expected 1, found 0.5"},
        {"llama.embedding_scale", 12, "'llama.embedding_scale': expected 1, found 12"},
        {"llama.residual_scale", 0.25F, "'llama.residual_scale': expected 1, found 0.25"},
        {"llama.final_logit_softcapping", 30, "final_logit_softcapping': expected 0, found 30"},
        {"llama.swiglu_clamp_exp", 7, "unknown key 'llama.swiglu_clamp_exp', which may change"},
    };
    fixture *f = *state;

    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        make_gguf(f);
        add_gguf_float(&f->file, cases[i].key, cases[i].value);
        expect_refusal(f, cases[i].message);
    }
    make_gguf(f);
    add_gguf_u32(&f->file, "llama.expert_count", 8);
    expect_refusal(f, "'llama.expert_count': expected 0, found 8");
    make_gguf(f);
    add_gguf_key(&f->file, "llama.attention.causal", 7, "", 1);
    expect_refusal(f, "'llama.attention.causal': expected 1, found 0");
    make_gguf(f);
    add_gguf_text(&f->file, "llama.rope.scaling.type", "dynamic");
    expect_refusal(f, "expected 'none', 'linear', 'yarn' or 'longrope', found 'dynamic'");
    make_gguf(f);
    add_gguf_text(&f->file, "llama.logit_scale", "1");
    expect_refusal(f, "key 'llama.logit_scale': expected a whole number");
}

/* EOS ids in a model's files are checked. */
static void last_tokens(void **state)
{
    static const struct {
        const char *value, *message;
    } cases[] = {
        {"\"2\"", "'eos_token_id': expected a whole number or a list of them"},
        {"[1, 2.5]", "'eos_token_id': expected a whole number or a list of them"},
        {"{}", "'eos_token_id': expected a whole number or a list of them"},
        {"[0,1,2,3,4,5,6,7,8,9,0,1,2,3,4,5,6,7,8,9,0,1,2,3,4,5,6,7,8,9,0,1,2,3,4,5,6,7,8,9,0,1,2,3,"
         "4,5,6,7,8,9,0,1,2,3,4,5,6,7,8,9,0,1,2,3,4]",
         "'eos_token_id': expected at most 64 ids, found 65"},
    };
    fixture *f = *state;
    char *config = kvsi_path_join(f->dir, "config.json");
    kvsi_text file = {0};

    assert_int_equal(kvsi_hf_config_write(&f->model->config, config, NULL), KVS_OK);
    put_model_safetensors(&file, f->model, KVSI_F32, 0, f->model->layout.count);
    kvsi_free(write_file(f->dir, "model.safetensors", file.data, file.length));
    kvsi_text_release(&file);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        kvsi_text_format(&file, "{\"eos_token_id\": %s}", cases[i].value);
        kvsi_free(write_file(f->dir, "generation_config.json", file.data, file.length));
        kvsi_text_release(&file);
        expect_refusal_of(f, f->dir, cases[i].message);
    }
    kvsi_free(write_file(f->dir, "generation_config.json", "{", 1));
    expect_refusal_of(f, f->dir, "generation_config.json': malformed JSON");
    kvsi_free(config);
    make_gguf(f);
    add_gguf_text(&f->file, "tokenizer.ggml.eos_token_id", "2");
    expect_refusal(f, "key 'tokenizer.ggml.eos_token_id': expected a whole number");
}

#define WITH_FIXTURE(test) cmocka_unit_test_setup_teardown(test, set_up, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        WITH_FIXTURE(gguf_tensors),
        WITH_FIXTURE(gguf_header),
        WITH_FIXTURE(gguf_keys),
        WITH_FIXTURE(gguf_names),
        WITH_FIXTURE(gguf_configurations),
        WITH_FIXTURE(gguf_truncated),
        WITH_FIXTURE(llama2c_headers),
        WITH_FIXTURE(llama2c_lengths),
        WITH_FIXTURE(safetensors),
        WITH_FIXTURE(strangers),
        WITH_FIXTURE(no_models),
        WITH_FIXTURE(baichuan),
        WITH_FIXTURE(gguf_keys_that_change_results),
        WITH_FIXTURE(last_tokens),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
