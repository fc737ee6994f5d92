/* Quantized weights through kvs_convert: which tensors are quantized, that the values read back are
 * exactly the rounded ones, the file's metadata, and refusals. */
#include "base/files.h"
#include "base/memory.h"
#include "convert/convert.h"
#include "formats/gguf.h"
#include "model_files.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

static kvs_runtime *rt;
static char *dir, *out;

static int set_up(void **state)
{
    (void)state;
    rt = support_runtime(NULL);
    dir = support_make_dir();
    assert_non_null(out = kvsi_path_join(dir, "out.gguf"));
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    kvsi_free(out);
    support_remove_dir(dir);
    kvs_runtime_free(rt);
    return 0;
}

static const struct {
    kvs_dtype dtype;
    kvsi_dtype stored;
    int64_t file_type;
} types[] = {{KVS_DTYPE_Q8_0, KVSI_Q8_0, 7}, {KVS_DTYPE_Q4_0, KVSI_Q4_0, 2}};

enum { TYPES = sizeof types / sizeof *types };

static char remark[256];

static void keep_remark(void *user, const char *text)
{
    (void)user;
    snprintf(remark, sizeof remark, "%s", text);
}

static kvsi_convert_request options_for(kvs_dtype dtype)
{
    kvsi_convert_request options;

    kvsi_convert_request_init(&options);
    options.in = dir;
    options.out = out;
    options.how.dtype = dtype;
    options.how.overwrite = 1;
    options.how.notice = keep_remark;
    return options;
}

static void convert(const kvsi_convert_request *options)
{
    kvs_err err;

    remark[0] = '\0';
    if (kvsi_convert(options, &err) != KVS_OK)
        fail_msg("%s", err.message);
}

static kvs_model *open_output(void)
{
    kvs_model *model = NULL;
    kvs_err err;

    if (kvs_model_load(&model, rt, out,
                       &(kvs_load_options){.size = sizeof(kvs_load_options), .mapped = 1},
                       &err) != KVS_OK)
        fail_msg("%s", err.message);
    return model;
}

static int64_t key_of_output(const char *key)
{
    kvsi_gguf *file;
    int64_t value = -1;

    assert_int_equal(kvsi_gguf_open(&file, out, NULL), KVS_OK);
    assert_int_equal(kvsi_gguf_get_whole(&value, file, key, NULL), KVS_OK);
    kvsi_gguf_close(file);
    return value;
}

/* ---- round trips ---- */

/* A tensor's type in the file, according to docs/formats.md. */
static kvsi_dtype expected_dtype(const kvsi_parameter *p, kvsi_dtype dtype)
{
    if (kvsi_group_of(p->role) != KVSI_MATRICES || p->role == KVSI_POSITION)
        return KVSI_F32;
    return p->shape[1] % 32 == 0 ? dtype : KVSI_F16;
}

static void expect_tensor(const kvs_model *found, const kvs_model *model, const kvsi_parameter *p,
                          kvsi_dtype dtype)
{
    float *wanted = tensor_numbers(model, p, 0), *got = tensor_numbers(found, p, 0);
    void *stored = kvsi_alloc(kvsi_dtype_bytes(dtype, p->count), 1);

    kvsi_dtype_encode(stored, dtype, wanted, p->count);
    kvsi_dtype_decode(wanted, dtype, stored, p->count);
    if (memcmp(wanted, got, p->count * sizeof *got) != 0)
        fail_msg("tensor '%s' differs from its values as %s", p->name, kvsi_dtype_name(dtype));
    assert_int_equal(kvsi_weights_find(found->weights, p->name)->view.dtype, dtype);
    kvsi_free(wanted);
    kvsi_free(got);
    kvsi_free(stored);
}

static void expect_output(const kvs_model *model, kvsi_dtype dtype)
{
    kvs_model *found = open_output();

    for (size_t i = 0; i < model->layout.count; i++) {
        const kvsi_parameter *p = &model->layout.list[i];

        expect_tensor(found, model, p, expected_dtype(p, dtype));
    }
    kvs_model_free(found);
}

/* As `llama`, as `kvshift`, with rows that are not whole blocks, and with learned positions. */
static const struct {
    kvs_model_config config;
    support_sizes sizes;
    const char *remark; /* NULL = none */
} models[] = {
    {{.kv_heads = 2}, {.vocab = 19, .dim = 64, .ffn = 96, .context = 16}, NULL},
    {{SUPPORT_SHIFT(KVS_SHIFT_K | KVS_SHIFT_V, FREE, 2), .tied = 1},
     {.vocab = 19, .dim = 32, .ffn = 64, .context = 16},
     NULL},
    {{SUPPORT_SHIFT(KVS_SHIFT_K, DATA, 1)},
     {.vocab = 19, .dim = 64, .ffn = 40, .context = 16},
     "2 of 23 tensors are F16, because their rows are not whole blocks of 32: "
     "'model.layers.0.mlp.down_proj.weight' has rows of 40"},
    {{.positions = KVSI_POSITIONS_LEARNED},
     {.vocab = 19, .dim = 64, .ffn = 32, .context = 16},
     NULL},
};

enum { MODELS = sizeof models / sizeof *models };

static void blocks_are_rounded_once(void **state)
{
    (void)state;
    for (size_t i = 0; i < MODELS; i++) {
        const kvs_model_config config = support_config(&models[i].config, &models[i].sizes);
        kvs_model *model = support_model(rt, &config, i);

        assert_int_equal(kvs_model_save(model, dir, NULL), KVS_OK);
        for (size_t t = 0; t < TYPES; t++) {
            const kvsi_convert_request options = options_for(types[t].dtype);

            convert(&options);
            assert_string_equal(remark, models[i].remark ? models[i].remark : "");
            expect_output(model, types[t].stored);
            assert_int_equal(key_of_output("general.file_type"), types[t].file_type);
            assert_int_equal(key_of_output("general.quantization_version"), 2);
        }
        kvs_model_free(model);
    }
}

static void files_say_their_type(void **state)
{
    static const struct {
        kvs_dtype dtype;
        int64_t file_type;
    } plain[] = {{KVS_DTYPE_F32, 0}, {KVS_DTYPE_F16, 1}, {KVS_DTYPE_BF16, 32}};
    kvs_model *model = small_model(rt, 0);

    (void)state;
    assert_int_equal(kvs_model_save(model, dir, NULL), KVS_OK);
    for (size_t i = 0; i < 3; i++) {
        const kvsi_convert_request options = options_for(plain[i].dtype);

        convert(&options);
        assert_int_equal(key_of_output("general.file_type"), plain[i].file_type);
        assert_int_equal(key_of_output("general.quantization_version"), -1);
    }
    kvs_model_free(model);
}

/* Quantized input can be converted, and random weights can be quantized. */
static void blocks_can_be_converted_again(void **state)
{
    const kvs_model_config config = support_config(&models[1].config, &models[1].sizes);
    kvsi_convert_request options = options_for(KVS_DTYPE_Q8_0);
    kvs_model *model, *found, *again;
    char *plain = kvsi_path_join(dir, "plain");
    kvs_err err;

    (void)state;
    options.in = NULL;
    options.how.config = &config;
    options.how.seed = 6;
    convert(&options);
    assert_int_equal(kvs_model_create(&model, rt, &config, 6, NULL), KVS_OK);
    expect_output(model, KVSI_Q8_0);
    options = options_for(KVS_DTYPE_KEEP);
    options.in = out;
    options.out = plain;
    convert(&options);
    found = open_output();
    if (kvs_model_load(&again, rt, plain, NULL, &err) != KVS_OK)
        fail_msg("%s", err.message);
    for (size_t i = 0; i < found->layout.count; i++) {
        const kvsi_parameter *p = &found->layout.list[i];
        float *a = tensor_numbers(found, p, 0), *b = tensor_numbers(again, p, 0);

        assert_memory_equal(a, b, p->count * sizeof *a);
        kvsi_free(a);
        kvsi_free(b);
    }
    kvs_model_free(model);
    kvs_model_free(found);
    kvs_model_free(again);
    kvsi_free(plain);
}

/* ---- refusals ---- */

static void expect_refusal(const kvsi_convert_request *options, kvs_status status, const char *text)
{
    kvs_err err = {.message = ""};

    assert_int_equal(kvsi_convert(options, &err), status);
    if (!strstr(err.message, text))
        fail_msg("'%s' does not contain '%s'", err.message, text);
    assert_false(kvsi_file_exists(options->out));
}

static void formats_without_blocks_refuse_them(void **state)
{
    char *folder = kvsi_path_join(dir, "folder"), *llama2c = kvsi_path_join(dir, "model.bin");
    kvs_model *model = small_model(rt, 1);
    kvsi_convert_request options = options_for(KVS_DTYPE_Q8_0);

    (void)state;
    assert_int_equal(kvs_model_save(model, dir, NULL), KVS_OK);
    options.out = folder;
    expect_refusal(&options, KVS_E_INVALID,
                   "dtype is q8_0, but format hf has f32, f16 and bf16 only");
    options = options_for(KVS_DTYPE_Q4_0);
    options.out = llama2c;
    expect_refusal(&options, KVS_E_INVALID, "dtype is q4_0, but format llama2c has f32 only");
    kvsi_free(folder);
    kvsi_free(llama2c);
    kvs_model_free(model);
}

static void numbers_that_blocks_cannot_hold_are_named(void **state)
{
    static const float bad[][TYPES] = {{1e7F, 1e6F}, {NAN, NAN}, {INFINITY, -INFINITY}};
    const kvs_model_config config = support_config(&models[0].config, &models[0].sizes);
    kvs_model *model = support_model(rt, &config, 2);
    const kvsi_parameter *p = kvsi_layout_find(&model->layout, "model.layers.1.mlp.up_proj.weight");
    float *numbers = tensor_numbers(model, p, 0);

    (void)state;
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        for (size_t t = 0; t < TYPES; t++) {
            const kvsi_convert_request options = options_for(types[t].dtype);

            numbers[p->count - 1] = bad[i][t];
            assert_int_equal(kvs_model_write_tensor(model, p->name, numbers, p->count, NULL),
                             KVS_OK);
            assert_int_equal(kvs_model_save(model, dir, NULL), KVS_OK);
            expect_refusal(&options, KVS_E_LIMIT, "tensor 'blk.1.ffn_up.weight' has the value");
        }
    kvsi_free(numbers);
    kvs_model_free(model);
}

#define WITH_FOLDER(test) cmocka_unit_test_setup_teardown(test, set_up, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        WITH_FOLDER(blocks_are_rounded_once),
        WITH_FOLDER(files_say_their_type),
        WITH_FOLDER(blocks_can_be_converted_again),
        WITH_FOLDER(formats_without_blocks_refuse_them),
        WITH_FOLDER(numbers_that_blocks_cannot_hold_are_named),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
