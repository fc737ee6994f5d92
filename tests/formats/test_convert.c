/* Models through kvs_convert and back: every format and type, shards, random weights; and refusals,
 * which leave nothing behind. */
#include "base/files.h"
#include "base/folders.h"
#include "base/memory.h"
#include "convert/convert.h"
#include "model_files.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static kvs_runtime *rt;
static char *dir;

static char *in_dir(const char *name)
{
    char *path = kvsi_path_join(dir, name);

    assert_non_null(path);
    return path;
}

static int set_up(void **state)
{
    (void)state;
    rt = support_runtime("reference");
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

/* Saves the model to a folder of this name. */
static char *save(const kvs_model *model, const char *name)
{
    char *path = in_dir(name);
    int made;

    assert_int_equal(kvsi_dir_make(path, &made, NULL), KVS_OK);
    assert_int_equal(kvs_model_save(model, path, NULL), KVS_OK);
    return path;
}

static kvsi_convert_request options_for(const char *in, const char *out, kvs_format format)
{
    kvsi_convert_request options;

    kvsi_convert_request_init(&options);
    options.in = in;
    options.out = out;
    options.how.format = format;
    return options;
}

static kvs_model *load(const char *path)
{
    kvs_model *model = NULL;
    kvs_err err;

    if (kvs_model_load(&model, rt, path, NULL, &err) != KVS_OK)
        fail_msg("'%s': %s", path, err.message);
    return model;
}

static void convert(const kvsi_convert_request *options)
{
    kvs_err err;

    if (kvsi_convert(options, &err) != KVS_OK)
        fail_msg("'%s': %s", options->out, err.message);
}

static float *read_tensor(const kvs_model *model, const char *name, size_t count)
{
    float *numbers = kvsi_alloc(count, sizeof *numbers);

    assert_non_null(numbers);
    assert_int_equal(kvs_model_read_tensor(numbers, count, model, name, NULL), KVS_OK);
    return numbers;
}

/* Rounds values to `dtype`. */
static void round_to(float *numbers, size_t count, kvsi_dtype dtype)
{
    for (size_t i = 0; i < count; i++) {
        unsigned char stored[sizeof(float)];

        kvsi_dtype_encode(stored, dtype, numbers + i, 1);
        kvsi_dtype_decode(numbers + i, dtype, stored, 1);
    }
}

/* Same tensors, bit by bit; matrices as rounded to `dtype`. */
static void expect_same(const kvs_model *found, const kvs_model *expected, kvsi_dtype dtype)
{
    size_t count;

    assert_int_equal(kvs_model_parameters(found), kvs_model_parameters(expected));
    for (size_t i = 0; kvs_model_tensor_name(expected, i, &count); i++) {
        const char *name = kvs_model_tensor_name(expected, i, NULL);
        const kvsi_parameter *p = kvsi_layout_find(&expected->layout, name);
        float *wanted = read_tensor(expected, name, count);
        float *got = read_tensor(found, name, count);

        if (kvsi_group_of(p->role) == KVSI_MATRICES)
            round_to(wanted, count, dtype);
        if (memcmp(got, wanted, count * sizeof *got) != 0)
            fail_msg("tensor '%s' differs", name);
        kvsi_free(wanted);
        kvsi_free(got);
    }
}

/* ---- round trips ----------------------------------------------------------------------------- */

static const struct {
    kvs_format format;
    const char *name;
} single_files[] = {
    {KVS_FORMAT_GGUF, "model.gguf"},    {KVS_FORMAT_GGUF_LLAMA, "llama.gguf"},
    {KVS_FORMAT_LLAMA2C, "legacy.bin"}, {KVS_FORMAT_LLAMA2C_V1, "v1.bin"},
    {KVS_FORMAT_HF, "folder"},
};

enum { FORMATS = sizeof single_files / sizeof *single_files };

static void plain_models_come_back_from_every_format(void **state)
{
    (void)state;
    for (int tied = 0; tied < 2; tied++) {
        kvs_model *model = small_model(rt, tied), *back;
        char *in = save(model, tied ? "tied" : "untied");

        for (size_t i = 0; i < FORMATS; i++) {
            char *out = in_dir(single_files[i].name);
            kvsi_convert_request options = options_for(in, out, single_files[i].format);

            options.how.overwrite = 1;
            convert(&options);
            back = load(out);
            assert_int_equal(kvs_model_get_config(back)->tied, tied);
            assert_int_equal(kvs_model_get_config(back)->kv_heads, model->config.kv_heads);
            expect_same(back, model, KVSI_F32);
            kvs_model_free(back);
            kvsi_free(out);
        }
        kvsi_free(in);
        kvs_model_free(model);
    }
}

/* From each format to each other: the result equals the input. */
static void formats_follow_each_other(void **state)
{
    kvs_model *model = small_model(rt, 0), *back;
    char *in = save(model, "first");

    (void)state;
    for (size_t i = 0; i < FORMATS; i++)
        for (size_t j = 0; j < FORMATS; j++) {
            char name[2][32], *middle, *last;
            kvsi_convert_request options;

            snprintf(name[0], sizeof name[0], "middle-%s", single_files[i].name);
            snprintf(name[1], sizeof name[1], "last-%s", single_files[j].name);
            middle = in_dir(name[0]);
            last = in_dir(name[1]);
            options = options_for(in, middle, single_files[i].format);
            options.how.overwrite = 1;
            convert(&options);
            options = options_for(middle, last, single_files[j].format);
            options.how.overwrite = 1;
            convert(&options);
            back = load(last);
            expect_same(back, model, KVSI_F32);
            kvs_model_free(back);
            kvsi_free(middle);
            kvsi_free(last);
        }
    kvsi_free(in);
    kvs_model_free(model);
}

static void halves_are_rounded_once(void **state)
{
    static const struct {
        kvs_dtype dtype;
        kvsi_dtype stored;
    } types[] = {{KVS_DTYPE_F16, KVSI_F16}, {KVS_DTYPE_BF16, KVSI_BF16}};
    const support_sizes sizes = {.vocab = 19, .dim = 24, .ffn = 20, .context = 16};
    const kvs_model_config special = {SUPPORT_SHIFT(KVS_SHIFT_K | KVS_SHIFT_V, FREE, 2),
                                      .kv_heads = 2};
    const kvs_model_config config = support_config(&special, &sizes);
    kvs_model *model = support_model(rt, &config, 3), *back;
    char *in = save(model, "in"), *half = in_dir("half"), *gguf = in_dir("half.gguf");

    (void)state;
    for (size_t i = 0; i < 2; i++) {
        kvsi_convert_request options = options_for(in, half, KVS_FORMAT_HF);

        options.how.dtype = types[i].dtype;
        options.how.overwrite = 1;
        convert(&options);
        back = load(half);
        expect_same(back, model, types[i].stored);
        kvs_model_free(back);
        /* kept by default */
        options = options_for(half, gguf, KVS_FORMAT_AUTO);
        options.how.overwrite = 1;
        convert(&options);
        back = load(gguf);
        expect_same(back, model, types[i].stored);
        kvs_model_free(back);
    }
    kvsi_free(in);
    kvsi_free(half);
    kvsi_free(gguf);
    kvs_model_free(model);
}

static const kvs_model_config own_models[] = {
    {SUPPORT_SHIFT(KVS_SHIFT_K, FREE, 3)},
    {SUPPORT_SHIFT(KVS_SHIFT_K | KVS_SHIFT_V, GATE, 1), .kv_heads = 2},
    {SUPPORT_SHIFT(KVS_SHIFT_Q | KVS_SHIFT_K | KVS_SHIFT_V, CLAMP, 2), .kv_heads = 1},
    {SUPPORT_SHIFT(KVS_SHIFT_V, CHANNEL, 2), .tied = 1},
    {SUPPORT_SHIFT(KVS_SHIFT_Q | KVS_SHIFT_K | KVS_SHIFT_V, DATA, 1), .head = KVSI_HEAD_NORMALISED},
    {SUPPORT_SHIFT(KVS_SHIFT_K, HARD, 1), .rotary_fraction = 0.5},
    {.positions = KVSI_POSITIONS_ALIBI, .slopes = 1, .slope = {0.25}},
    {.positions = KVSI_POSITIONS_LEARNED, .no_mlp = 1},
    {SUPPORT_SHIFT(KVS_SHIFT_K | KVS_SHIFT_V, FREE, 1), .sliding_window = 4, .sliding_layers = 2,
     .sliding_heads = 2, .sliding_kv_heads = 1},
    {SUPPORT_SHIFT(KVS_SHIFT_K | KVS_SHIFT_V, FREE, 1), .no_norm = 1, .no_residual = 1},
};

enum { OWN_MODELS = sizeof own_models / sizeof *own_models };

static void shifted_models_come_back_from_both_formats(void **state)
{
    static const char *const names[] = {"own", "own.gguf"};
    const support_sizes sizes = {.vocab = 13, .dim = 16, .ffn = 12, .context = 8};

    (void)state;
    for (size_t i = 0; i < OWN_MODELS; i++) {
        const kvs_model_config config = support_config(&own_models[i], &sizes);
        kvs_model *model = support_model(rt, &config, i), *back;
        char *in = save(model, "source");

        for (size_t f = 0; f < 2; f++) {
            char *out = in_dir(names[f]);
            kvsi_convert_request options = options_for(in, out, KVS_FORMAT_AUTO);

            options.how.overwrite = 1;
            convert(&options);
            back = load(out);
            assert_memory_equal(&back->config, &model->config, sizeof back->config);
            expect_same(back, model, KVSI_F32);
            kvs_model_free(back);
            kvsi_free(out);
        }
        kvsi_free(in);
        kvs_model_free(model);
    }
}

static void gpt2_comes_back_as_a_folder(void **state)
{
    const support_sizes sizes = {.vocab = 13, .dim = 16, .ffn = 12, .context = 8};
    const kvs_model_config special = {
        .body = KVSI_BODY_GPT2, .positions = KVSI_POSITIONS_LEARNED, .tied = 1};
    const kvs_model_config config = support_config(&special, &sizes);
    kvs_model *model = support_model(rt, &config, 1), *back;
    char *in = save(model, "gpt2"), *out = in_dir("gpt2-out"), *python;
    kvsi_convert_request options = options_for(in, out, KVS_FORMAT_AUTO);

    (void)state;
    convert(&options);
    back = load(out);
    expect_same(back, model, KVSI_F32);
    python = kvsi_path_join(out, "modeling_kvshift.py");
    assert_false(kvsi_file_exists(python)); /* built into transformers */
    kvsi_free(python);
    kvs_model_free(back);
    kvs_model_free(model);
    kvsi_free(in);
    kvsi_free(out);
}

/* With a shift it has the Python file too, and names its classes for GPT-2's layout. */
static void a_shifted_gpt2_has_its_classes(void **state)
{
    const support_sizes sizes = {.vocab = 13, .dim = 16, .ffn = 12, .context = 8};
    const kvs_model_config special = {SUPPORT_SHIFT(KVS_SHIFT_K, FREE, 1), .body = KVSI_BODY_GPT2,
                                      .positions = KVSI_POSITIONS_LEARNED, .heads = 2, .tied = 1};
    const kvs_model_config config = support_config(&special, &sizes);
    kvs_model *model = support_model(rt, &config, 1);
    char *in = save(model, "gpt2-shifted"), *out = in_dir("gpt2-shifted-out"), *path, *text;
    kvsi_convert_request options = options_for(in, out, KVS_FORMAT_AUTO);
    size_t size;

    (void)state;
    convert(&options);
    path = kvsi_path_join(out, "modeling_kvshift.py");
    assert_true(kvsi_file_exists(path));
    kvsi_free(path);
    path = kvsi_path_join(out, "config.json");
    assert_int_equal(kvsi_file_read(&text, &size, path, 1 << 20, NULL), KVS_OK);
    assert_non_null(
        strstr(text, "\"AutoModelForCausalLM\": \"modeling_kvshift.KVShiftGPT2ForCausalLM\""));
    assert_non_null(strstr(text, "\"AutoModel\": \"modeling_kvshift.KVShiftGPT2Model\""));
    assert_non_null(strstr(text, "\"AutoConfig\": \"modeling_kvshift.KVShiftGPT2Config\""));
    kvsi_free(text);
    kvsi_free(path);
    kvs_model_free(model);
    kvsi_free(in);
    kvsi_free(out);
}

/* Files of llama2.c's author are reproduced byte for byte. */
static void llama2c_files_are_as_its_author_writes_them(void **state)
{
    const char *shared = getenv("KVSHIFT_SHARED");
    char *out = in_dir("v1.bin"), *ours, *theirs, legacy[512], v1[512];
    kvsi_convert_request options;
    size_t size = 0, expected = 1;

    (void)state;
    snprintf(legacy, sizeof legacy, "%s/data/stories260K/stories260K.bin", shared ? shared : "");
    snprintf(v1, sizeof v1, "%s/data/stories260K/stories260K_v1.bin", shared ? shared : "");
    if (!shared || !kvsi_file_exists(legacy)) {
        kvsi_free(out);
        print_message("skipped: no data/stories260K below $KVSHIFT_SHARED\n");
        skip();
    }
    options = options_for(legacy, out, KVS_FORMAT_LLAMA2C_V1);
    convert(&options);
    assert_int_equal(kvsi_file_read(&ours, &size, out, 1 << 21, NULL), KVS_OK);
    assert_int_equal(kvsi_file_read(&theirs, &expected, v1, 1 << 21, NULL), KVS_OK);
    assert_int_equal(size, expected);
    assert_memory_equal(ours, theirs, size);
    kvsi_free(ours);
    kvsi_free(theirs);
    kvsi_free(out);
}

/* ---- files ----------------------------------------------------------------------------------- */

static int has_file(const char *folder, const char *name)
{
    char *path = kvsi_path_join(folder, name);
    const int there = kvsi_file_exists(path);

    kvsi_free(path);
    return there;
}

static void shards_are_no_larger_than_asked(void **state)
{
    const uint64_t limit = 6000;
    kvs_model *model = small_model(rt, 0), *back;
    char *in = save(model, "whole"), *out = in_dir("shards");
    kvsi_convert_request options = options_for(in, out, KVS_FORMAT_HF);
    kvsi_name_list list;
    kvs_model_info info = {.size = sizeof(kvs_model_info)};

    (void)state;
    options.how.shard_bytes = limit;
    convert(&options);
    back = load(out);
    expect_same(back, model, KVSI_F32);
    assert_true(has_file(out, "model.safetensors.index.json"));
    assert_false(has_file(out, "model.safetensors"));
    assert_int_equal(kvs_model_describe(&info, out, NULL), KVS_OK);
    assert_true(info.files > 2);
    assert_int_equal(kvsi_dir_list(&list, out, "model-", NULL), KVS_OK);
    assert_int_equal(list.count, info.files);
    for (size_t i = 0; i < list.count; i++) {
        char *path = kvsi_path_join(out, list.names[i]), *bytes, expected[64];
        size_t size;

        snprintf(expected, sizeof expected, "model-%05zu-of-%05zu.safetensors", i + 1, list.count);
        assert_string_equal(list.names[i], expected);
        assert_int_equal(kvsi_file_read(&bytes, &size, path, 1 << 20, NULL), KVS_OK);
        /* one tensor alone may exceed the limit; headers here are below 2 kB */
        assert_true(size < limit + 2000);
        kvsi_free(bytes);
        kvsi_free(path);
    }
    kvsi_name_list_release(&list);
    kvs_model_free(back);
    kvs_model_free(model);
    kvsi_free(in);
    kvsi_free(out);
}

static void a_shifted_folder_runs_in_transformers(void **state)
{
    const support_sizes sizes = {.vocab = 13, .dim = 16, .ffn = 12, .context = 8};
    const kvs_model_config config = support_config(&own_models[0], &sizes);
    kvs_model *model = support_model(rt, &config, 1);
    char *in = save(model, "shifted"), *out = in_dir("with-python"), *text, *path;
    kvsi_convert_request options = options_for(in, out, KVS_FORMAT_HF);
    size_t size;

    (void)state;
    options.how.dtype = KVS_DTYPE_BF16;
    convert(&options);
    path = kvsi_path_join(out, "modeling_kvshift.py");
    assert_int_equal(kvsi_file_read(&text, &size, path, 1 << 20, NULL), KVS_OK);
    assert_non_null(strstr(text, "class KVShiftForCausalLM"));
    kvsi_free(text);
    kvsi_free(path);
    path = kvsi_path_join(out, "config.json");
    assert_int_equal(kvsi_file_read(&text, &size, path, 1 << 20, NULL), KVS_OK);
    assert_non_null(
        strstr(text, "\"AutoModelForCausalLM\": \"modeling_kvshift.KVShiftForCausalLM\""));
    assert_non_null(strstr(text, "\"torch_dtype\": \"bfloat16\""));
    kvsi_free(text);
    kvsi_free(path);
    kvs_model_free(model);
    kvsi_free(in);
    kvsi_free(out);
}

static void random_weights_are_those_of_a_new_model(void **state)
{
    static const kvsi_body bodies[] = {KVSI_BODY_LLAMA, KVSI_BODY_GPT2};

    (void)state;
    for (size_t i = 0; i < 2; i++) {
        const support_sizes sizes = {.vocab = 1031, .dim = 24, .ffn = 20, .context = 16};
        const kvs_model_config special = {.body = bodies[i],
                                          SUPPORT_SHIFT(KVS_SHIFT_K | KVS_SHIFT_V, CHANNEL, 2)};
        const kvs_model_config config = support_config(&special, &sizes);
        kvs_model *model, *back;
        char *out = in_dir("random");

        assert_int_equal(kvs_model_create(&model, rt, &config, 77, NULL), KVS_OK);
        for (int threads = 1; threads < 4; threads += 2) {
            kvsi_convert_request options = options_for(NULL, out, KVS_FORMAT_HF);

            options.how.config = &config;
            options.how.seed = 77;
            options.how.threads = threads;
            options.how.overwrite = 1;
            convert(&options);
            back = load(out);
            expect_same(back, model, KVSI_F32);
            kvs_model_free(back);
        }
        kvs_model_free(model);
        kvsi_free(out);
    }
}

/* ---- refusals -------------------------------------------------------------------------------- */

/* The folder contains only what it contained before. */
static void expect_refusal(const kvsi_convert_request *options, kvs_status status, const char *text)
{
    kvsi_name_list before, after;
    kvs_err err = {.message = ""};

    assert_int_equal(kvsi_dir_list(&before, dir, "", NULL), KVS_OK);
    assert_int_equal(kvsi_convert(options, &err), status);
    if (!strstr(err.message, text))
        fail_msg("found '%s', expected '%s'", err.message, text);
    assert_int_equal(kvsi_dir_list(&after, dir, "", NULL), KVS_OK);
    assert_int_equal(after.count, before.count);
    kvsi_name_list_release(&before);
    kvsi_name_list_release(&after);
}

static void formats_refuse_what_they_cannot_say(void **state)
{
    static const struct {
        kvs_model_config special;
        kvs_format format;
        const char *text;
    } cases[] = {
        {{SUPPORT_SHIFT(KVS_SHIFT_K, FREE, 1)},
         KVS_FORMAT_GGUF_LLAMA,
         "format gguf-llama does not support shift k: architecture 'llama' of llama.cpp"},
        {{SUPPORT_SHIFT(KVS_SHIFT_K, FREE, 1)},
         KVS_FORMAT_LLAMA2C,
         "does not support shifted keys"},
        {{.sliding_window = 4}, KVS_FORMAT_GGUF_LLAMA, "does not support sliding-window 4"},
        {{.positions = KVSI_POSITIONS_ALIBI}, KVS_FORMAT_LLAMA2C_V1, "does not support positions"},
        {{.head = KVSI_HEAD_NORMALISED}, KVS_FORMAT_GGUF_LLAMA, "does not support head normalised"},
        {{.no_mlp = 1}, KVS_FORMAT_GGUF_LLAMA, "does not support no-mlp yes"},
        {{.score_cap = 0.5}, KVS_FORMAT_GGUF_LLAMA, "does not support score-cap 0.5"},
        {{.rotary_fraction = 0.5}, KVS_FORMAT_GGUF_LLAMA, "does not support rotary-fraction 0.5"},
        {{0}, KVS_FORMAT_LLAMA2C, "rope base 100000"},
        {{.body = KVSI_BODY_GPT2, .positions = KVSI_POSITIONS_LEARNED},
         KVS_FORMAT_GGUF,
         "does not support GPT-2's body"},
    };
    const support_sizes sizes = {.vocab = 13, .dim = 16, .ffn = 12, .context = 8};
    char *out = in_dir("refused");

    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const kvs_model_config config = support_config(&cases[i].special, &sizes);
        kvsi_convert_request options = options_for(NULL, out, cases[i].format);

        options.how.config = &config;
        expect_refusal(&options, KVS_E_UNSUPPORTED, cases[i].text);
    }
    kvsi_free(out);
}

static void places_are_guarded(void **state)
{
    kvs_model *model = small_model(rt, 0);
    char *in = save(model, "guarded"), *file = in_dir("there.gguf"), *folder = in_dir("strange");
    char *inside = kvsi_path_join(in, "model.safetensors"), *stranger;
    kvsi_convert_request options = options_for(in, in, KVS_FORMAT_HF);
    int made;

    (void)state;
    options.how.overwrite = 1;
    expect_refusal(&options, KVS_E_INVALID, "is the input");
    options.in = inside;
    expect_refusal(&options, KVS_E_INVALID, "is the input");
    options = options_for(in, file, KVS_FORMAT_AUTO);
    convert(&options);
    expect_refusal(&options, KVS_E_EXISTS, "already exists");
    options = options_for(in, folder, KVS_FORMAT_HF);
    assert_int_equal(kvsi_dir_make(folder, &made, NULL), KVS_OK);
    convert(&options); /* an empty folder is allowed */
    expect_refusal(&options, KVS_E_EXISTS, "already holds a model");
    stranger = kvsi_path_join(folder, "diary.txt");
    assert_int_equal(kvsi_file_write_text(stranger, "dear diary", NULL), KVS_OK);
    options.how.overwrite = 1;
    expect_refusal(&options, KVS_E_INVALID, "holds 'diary.txt'");
    assert_true(kvsi_file_exists(stranger));
    options.how.format = KVS_FORMAT_GGUF;
    expect_refusal(&options, KVS_E_INVALID, "is a folder, but format gguf is one file");
    options = options_for(in, file, KVS_FORMAT_LLAMA2C);
    options.how.dtype = KVS_DTYPE_F16;
    expect_refusal(&options, KVS_E_INVALID, "format llama2c has f32 only");
    kvsi_free(stranger);
    kvsi_free(inside);
    kvsi_free(in);
    kvsi_free(file);
    kvsi_free(folder);
    kvs_model_free(model);
}

static void numbers_beyond_f16_are_named(void **state)
{
    kvs_model *model = small_model(rt, 0);
    char *in, *out = in_dir("too-large.gguf");
    kvsi_convert_request options;
    size_t count;
    float *numbers;

    (void)state;
    kvs_model_tensor_name(model, 0, &count);
    numbers = read_tensor(model, "model.embed_tokens.weight", count);
    numbers[count - 1] = -70000;
    assert_int_equal(
        kvs_model_write_tensor(model, "model.embed_tokens.weight", numbers, count, NULL), KVS_OK);
    in = save(model, "large");
    options = options_for(in, out, KVS_FORMAT_AUTO);
    options.how.dtype = KVS_DTYPE_F16;
    expect_refusal(&options, KVS_E_LIMIT, "tensor 'token_embd.weight' has the value -70000");
    options.how.dtype = KVS_DTYPE_BF16;
    convert(&options);
    kvsi_free(numbers);
    kvsi_free(in);
    kvsi_free(out);
    kvs_model_free(model);
}

static int stop_at_half(void *user, uint64_t done, uint64_t all)
{
    ++*(int *)user;
    return 2 * done > all;
}

static void work_that_is_stopped_leaves_nothing(void **state)
{
    static const char *const names[] = {"stopped", "stopped.gguf", "stopped.bin"};
    kvs_model *model = small_model(rt, 0);
    char *in = save(model, "stopping");

    (void)state;
    for (size_t i = 0; i < 3; i++) {
        char *out = in_dir(names[i]);
        kvsi_convert_request options = options_for(in, out, KVS_FORMAT_AUTO);
        int calls = 0;

        options.how.progress = stop_at_half;
        options.how.user = &calls;
        expect_refusal(&options, KVS_E_STOPPED, "stopped after tensor");
        assert_true(calls > 1);
        kvsi_free(out);
    }
    kvsi_free(in);
    kvs_model_free(model);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(plain_models_come_back_from_every_format, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(formats_follow_each_other, set_up, tear_down),
        cmocka_unit_test_setup_teardown(halves_are_rounded_once, set_up, tear_down),
        cmocka_unit_test_setup_teardown(shifted_models_come_back_from_both_formats, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(gpt2_comes_back_as_a_folder, set_up, tear_down),
        cmocka_unit_test_setup_teardown(llama2c_files_are_as_its_author_writes_them, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(shards_are_no_larger_than_asked, set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_shifted_folder_runs_in_transformers, set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_shifted_gpt2_has_its_classes, set_up, tear_down),
        cmocka_unit_test_setup_teardown(random_weights_are_those_of_a_new_model, set_up, tear_down),
        cmocka_unit_test_setup_teardown(formats_refuse_what_they_cannot_say, set_up, tear_down),
        cmocka_unit_test_setup_teardown(places_are_guarded, set_up, tear_down),
        cmocka_unit_test_setup_teardown(numbers_beyond_f16_are_named, set_up, tear_down),
        cmocka_unit_test_setup_teardown(work_that_is_stopped_leaves_nothing, set_up, tear_down),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
