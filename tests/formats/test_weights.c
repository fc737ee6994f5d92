/* The same model in every supported format gives the same tensors and configuration. */
#include "base/files.h"
#include "base/json.h"
#include "base/memory.h"
#include "formats/gguf_names.h"
#include "formats/hf.h"
#include "formats/safetensors.h"
#include "model_files.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

typedef struct fixture {
    kvs_runtime *rt;
    kvs_model *model; /* plain, tied */
    char *dir;
} fixture;

static int set_up(void **state)
{
    fixture *f = test_malloc(sizeof *f);

    f->rt = support_runtime(NULL);
    f->model = small_model(f->rt, 1);
    f->dir = support_make_dir();
    *state = f;
    return 0;
}

static int tear_down(void **state)
{
    fixture *f = *state;

    kvs_model_free(f->model);
    kvs_runtime_free(f->rt);
    support_remove_dir(f->dir);
    test_free(f);
    return 0;
}

/* ---- comparison ---- */

/* Rounds values to `dtype`. */
static void round_trip(float *numbers, size_t count, kvsi_dtype dtype)
{
    void *stored = kvsi_alloc(count, kvsi_dtype_bytes(dtype, 1));

    kvsi_dtype_encode(stored, dtype, numbers, count);
    kvsi_dtype_decode(numbers, dtype, stored, count);
    kvsi_free(stored);
}

static void expect_tensor(const kvs_model *found, const kvs_model *expected,
                          const kvsi_parameter *p, kvsi_dtype dtype)
{
    float *a = tensor_numbers(expected, p, 0), *b = kvsi_alloc(p->count, sizeof *b);

    round_trip(a, p->count, dtype);
    assert_int_equal(kvs_model_read_tensor(b, p->count, found, p->name, NULL), KVS_OK);
    if (memcmp(a, b, p->count * sizeof *a) != 0)
        fail_msg("tensor '%s' differs", p->name);
    kvsi_free(a);
    kvsi_free(b);
}

static void expect_config(const kvs_model_config *a, const kvs_model_config *b)
{
    json_t *first = kvsi_hf_config_to_json(a), *second = kvsi_hf_config_to_json(b);

    json_object_del(first, "initializer_range"); /* irrelevant for a trained model */
    json_object_del(second, "initializer_range");
    if (!json_equal(first, second))
        fail_msg("configurations differ: %s, expected %s", json_dumps(first, 0),
                 json_dumps(second, 0));
    json_decref(first);
    json_decref(second);
}

static void expect_tensors(const kvs_model *found, const kvs_model *expected, kvsi_dtype dtype,
                           int vectors_too)
{
    expect_config(&found->config, &expected->config);
    for (size_t i = 0; i < expected->layout.count; i++) {
        const kvsi_parameter *p = &expected->layout.list[i];
        const int is_small = p->rank == 1 || kvsi_group_of(p->role) != KVSI_MATRICES;

        expect_tensor(found, expected, p, is_small && !vectors_too ? KVSI_F32 : dtype);
    }
}

/* Logits of one chunk and of one more token. */
static void run_model(float *logits, const kvs_model *model)
{
    const size_t vocab = model->config.vocab, chunk = model->config.context - 1;
    int32_t ids[16];
    kvs_session *session;

    support_fill_ids(ids, 16, 3, vocab);
    assert_int_equal(kvs_session_create(&session, model, NULL, NULL), KVS_OK);
    assert_int_equal(kvs_session_feed(session, ids, chunk, logits, NULL), KVS_OK);
    assert_int_equal(kvs_session_feed(session, ids + chunk, 1, logits + vocab, NULL), KVS_OK);
    kvs_session_free(session);
}

/* Products with plain types have the same summation order, so the same bits, in memory or in the
 * file. */
static void expect_same_logits(const kvs_model *a, const kvs_model *b)
{
    float first[2 * 16], second[2 * 16];

    assert_true(a->config.vocab <= 16 && a->config.context <= 16);
    run_model(first, a);
    run_model(second, b);
    assert_memory_equal(first, second, 2 * a->config.vocab * sizeof *first);
}

/* Loads and opens `path` and compares it with the values rounded to `dtype`; vectors may be F32. */
static void expect_model(fixture *f, const char *path, const kvs_model *expected, kvsi_dtype dtype,
                         int vectors_too)
{
    uint64_t first = 0, second = 1;
    kvs_model_config config;
    kvs_model *loaded = NULL, *opened = NULL;
    kvs_err err;

    if (kvs_model_load(&loaded, f->rt, path, NULL, &err) != KVS_OK ||
        kvs_model_load(&opened, f->rt, path,
                       &(kvs_load_options){.size = sizeof(kvs_load_options), .mapped = 1},
                       &err) != KVS_OK)
        fail_msg("%s", err.message);
    assert_int_equal(kvsi_model_config_load(&config, path, NULL), KVS_OK);
    expect_config(&config, &expected->config);
    expect_tensors(loaded, expected, dtype, vectors_too);
    expect_tensors(opened, expected, dtype, vectors_too);
    assert_int_equal(kvsi_model_fingerprint(&first, loaded, NULL), KVS_OK);
    assert_int_equal(kvsi_model_fingerprint(&second, opened, NULL), KVS_OK);
    assert_int_equal(first, second);
    expect_same_logits(loaded, opened);
    kvs_model_free(loaded);
    kvs_model_free(opened);
}

static void expect_file(fixture *f, const char *name, const kvsi_text *bytes,
                        const kvs_model *expected, kvsi_dtype dtype, int vectors_too)
{
    char *path = write_file(f->dir, name, bytes->data, bytes->length);

    expect_model(f, path, expected, dtype, vectors_too);
    kvsi_free(path);
}

static void write_config(const fixture *f, const kvs_model *model)
{
    char *path = kvsi_path_join(f->dir, "config.json");

    assert_int_equal(kvsi_hf_config_write(&model->config, path, NULL), KVS_OK);
    kvsi_free(path);
}

static void expect_description(const char *path, const char *format, const char *dtype,
                               size_t files)
{
    kvs_model_check_result check = {.size = sizeof(kvs_model_check_result)};
    kvs_model_info info = {.size = sizeof(kvs_model_info)};

    assert_int_equal(kvs_model_describe(&info, path, NULL), KVS_OK);
    assert_string_equal(info.format, format);
    assert_string_equal(info.dtype, dtype);
    assert_int_equal(info.files, files);
    assert_int_equal(kvs_model_check(&check, path, NULL), KVS_OK);
    assert_int_equal(check.tensors, info.tensors);
    assert_false(check.has_checksums);
}

/* ---- safetensors ---- */

static const struct {
    kvsi_dtype dtype;
    uint32_t gguf;
    const char *name;
} dtypes[] = {{KVSI_F32, 0, "F32"}, {KVSI_F16, 1, "F16"}, {KVSI_BF16, 30, "BF16"}};

static void safetensors_of_every_type(void **state)
{
    fixture *f = *state;

    write_config(f, f->model);
    for (size_t i = 0; i < 3; i++) {
        kvsi_text file = {0};

        put_model_safetensors(&file, f->model, dtypes[i].dtype, 0, f->model->layout.count);
        expect_file(f, "model.safetensors", &file, f->model, dtypes[i].dtype, 1);
        expect_model(f, f->dir, f->model, dtypes[i].dtype, 1);
        expect_description(f->dir, "safetensors", dtypes[i].name, 1);
        kvsi_text_release(&file);
    }
}

/* Two files and their index; `second` is the file that the index gives for the later tensors. */
static void write_shards(const fixture *f, const char *second)
{
    const size_t count = f->model->layout.count, half = count / 2;
    kvsi_text index = {0}, files[2] = {{0}, {0}};

    put_model_safetensors(&files[0], f->model, KVSI_F32, 0, half);
    put_model_safetensors(&files[1], f->model, KVSI_F32, half, count);
    kvsi_free(write_file(f->dir, "a.safetensors", files[0].data, files[0].length));
    kvsi_free(write_file(f->dir, "b.safetensors", files[1].data, files[1].length));
    for (size_t i = 0; i < count; i++)
        kvsi_text_format(&index, "%s\"%s\":\"%s\"", i > 0 ? "," : "{\"weight_map\":{",
                         f->model->layout.list[i].name, i < half ? "a.safetensors" : second);
    kvsi_text_add(&index, "}}");
    kvsi_free(write_file(f->dir, "model.safetensors.index.json", index.data, index.length));
    kvsi_text_release(&index);
    kvsi_text_release(&files[0]);
    kvsi_text_release(&files[1]);
}

static void expect_refused(const char *path, const char *text)
{
    kvsi_weights *weights = NULL;
    kvs_err err = {.message = ""};

    assert_int_not_equal(kvsi_weights_open(&weights, path, &err), KVS_OK);
    assert_null(weights);
    if (!strstr(err.message, text))
        fail_msg("'%s' does not contain '%s'", err.message, text);
}

/* Writes the file to the model's folder and releases it. */
static void expect_file_refused(const fixture *f, kvsi_text *file, const char *text)
{
    char *path = write_file(f->dir, "model.safetensors", file->data, file->length);

    expect_refused(path, text);
    kvsi_free(path);
    kvsi_text_release(file);
}

static void shards(void **state)
{
    fixture *f = *state;
    char *index = kvsi_path_join(f->dir, "model.safetensors.index.json");

    write_config(f, f->model);
    write_shards(f, "b.safetensors");
    expect_model(f, f->dir, f->model, KVSI_F32, 1);
    expect_description(f->dir, "safetensors", "F32", 2);
    expect_description(index, "safetensors", "F32", 2);
    kvsi_free(write_file(f->dir, "model.safetensors.index.json", "{\"weight_map\":[]}", 17));
    expect_refused(f->dir, "no object 'weight_map'");
    write_shards(f, "../x");
    expect_refused(f->dir, "'../x', expected a file beside the index");
    write_shards(f, "");
    expect_refused(f->dir, "expected a file beside the index");
    write_shards(f, "..");
    expect_refused(f->dir, "expected a file beside the index");
    write_shards(f, "/etc/passwd");
    expect_refused(f->dir, "expected a file beside the index");
    write_shards(f, "c.safetensors");
    expect_refused(f->dir, "c.safetensors");
    write_shards(f, "a.safetensors");
    expect_refused(f->dir, "a.safetensors' has no tensor 'model.layers.1");
    kvsi_free(index);
}

/* An index can name only one file for a tensor that is in two. */
static void a_tensor_in_two_shards(void **state)
{
    fixture *f = *state;
    const size_t count = f->model->layout.count, half = count / 2;
    kvsi_text file = {0};

    write_config(f, f->model);
    write_shards(f, "b.safetensors");
    put_model_safetensors(&file, f->model, KVSI_F32, 0, half + 1);
    kvsi_free(write_file(f->dir, "a.safetensors", file.data, file.length));
    expect_refused(f->dir, "has in b.safetensors");
    kvsi_text_release(&file);
}

/* The model's tensors, and a copy of the embedding as head: in another type, changed or cut. */
static void put_with_head(kvsi_text *file, const kvs_model *model, kvsi_dtype dtype, float change,
                          size_t rows)
{
    const kvsi_layout *layout = &model->layout;
    kvsi_file_tensor *tensors = kvsi_alloc(layout->count + 1, sizeof *tensors);
    const kvsi_parameter *table = &layout->list[0];
    float *numbers = tensor_numbers(model, table, 0);
    void *head = kvsi_alloc(table->count, sizeof *numbers);

    for (size_t i = 0; i < layout->count; i++) {
        kvsi_parameter_describe(&layout->list[i], KVSI_F32, &tensors[i]);
        tensors[i].data = tensor_numbers(model, &layout->list[i], 0);
    }
    numbers[table->count - 1] += change;
    kvsi_dtype_encode(head, dtype, numbers, table->count);
    tensors[layout->count] = (kvsi_file_tensor){.name = "lm_head.weight",
                                                .dtype = dtype,
                                                .rank = 2,
                                                .shape = {rows, model->config.dim},
                                                .data = head};
    put_safetensors(file, tensors, layout->count + 1);
    for (size_t i = 0; i < layout->count; i++)
        kvsi_free((void *)tensors[i].data);
    kvsi_free(tensors);
    kvsi_free(numbers);
    kvsi_free(head);
}

/* A file of a tied model has the embedding, the head, or both, which must be equal. */
static void tied_heads(void **state)
{
    fixture *f = *state;
    const kvsi_parameter *table = &f->model->layout.list[0];
    kvs_model *untied = small_model(f->rt, 0);
    kvsi_text file = {0};

    write_config(f, f->model);
    assert_string_equal(table->name, "model.embed_tokens.weight");
    put_model_safetensors(&file, f->model, KVSI_F32, 0, f->model->layout.count);
    memcpy(file.data + find_bytes(&file, "\"model.embed_tokens.weight\":"),
           "\"lm_head.weight\"           :", 28);
    expect_file(f, "model.safetensors", &file, f->model, KVSI_F32, 1);
    kvsi_text_release(&file);
    put_with_head(&file, f->model, KVSI_F32, 0, f->model->config.vocab);
    expect_file(f, "model.safetensors", &file, f->model, KVSI_F32, 1);
    kvsi_text_release(&file);
    put_with_head(&file, f->model, KVSI_F32, 1, f->model->config.vocab);
    expect_file_refused(f, &file, "'lm_head.weight' differs from 'model.embed_tokens.weight'");
    put_with_head(&file, f->model, KVSI_BF16, 0, f->model->config.vocab);
    expect_file_refused(f, &file, "'lm_head.weight' differs");
    put_with_head(&file, f->model, KVSI_F32, 0, f->model->config.vocab - 1);
    expect_file_refused(f, &file, "'lm_head.weight' differs");
    put_model_safetensors(&file, untied, KVSI_F32, 0, untied->layout.count);
    expect_file_refused(f, &file, "'lm_head.weight' differs");
    kvs_model_free(untied);
}

/* A separate head in a GGUF file is used.  It is refused if the configuration ties it. */
static void gguf_heads(void **state)
{
    fixture *f = *state;
    kvs_model *untied = small_model(f->rt, 0);
    kvs_model_config config = f->model->config;
    kvsi_text file = {0};
    char *text;
    json_t *json;

    put_gguf(&file, untied, "llama", NULL, 0);
    expect_file(f, "any name", &file, untied, KVSI_F32, 1);
    kvsi_text_release(&file);
    config.shift.targets = KVS_SHIFT_K;
    kvs_model_free(untied);
    config.tied = 0;
    untied = support_model(f->rt, &config, 8);
    config.tied = 1;
    json = kvsi_hf_config_to_json(&config);
    text = json_dumps(json, 0);
    put_gguf(&file, untied, "kvshift", text, 0);
    expect_file_refused(f, &file, "'lm_head.weight' differs");
    free(text);
    json_decref(json);
    kvs_model_free(untied);
}

/* ---- GPT-2 ---- */

static void gpt2_prefixes(void **state)
{
    static const char *const prefixes[] = {"transformer.", "backbone.", ""};
    fixture *f = *state;
    kvs_model_config config;
    kvs_model *model;

    kvsi_model_config_init(&config);
    kvsi_model_config_set_body(&config, KVSI_BODY_GPT2);
    config.vocab = 7;
    config.dim = 8;
    config.heads = 2;
    config.context = 5;
    config.tied = 1;
    assert_int_equal(kvs_model_config_finish(&config, NULL), KVS_OK);
    model = support_model(f->rt, &config, 3);
    write_config(f, model);
    for (size_t i = 0; i < 3; i++) {
        kvsi_file_tensor tensors[24];
        char names[24][96];
        kvsi_text file = {0};
        const float mask = 1;
        size_t count = 0;

        for (; count < model->layout.count; count++) {
            const kvsi_parameter *p = &model->layout.list[count];

            snprintf(names[count], sizeof *names, "%s%s", prefixes[i],
                     p->name + strlen(prefixes[0]));
            tensors[count] = (kvsi_file_tensor){.name = names[count],
                                                .dtype = KVSI_F32,
                                                .rank = p->rank,
                                                .data = tensor_numbers(model, p, 0)};
            memcpy(tensors[count].shape, p->shape, p->rank * sizeof *p->shape);
        }
        snprintf(names[count], sizeof *names, "%sh.0.attn.bias", prefixes[i]);
        tensors[count] = (kvsi_file_tensor){
            .name = names[count], .dtype = KVSI_F32, .rank = 1, .shape = {1}, .data = &mask};
        put_safetensors(&file, tensors, count + 1);
        expect_file(f, "model.safetensors", &file, model, KVSI_F32, 1);
        for (size_t t = 0; t < count; t++)
            kvsi_free((void *)tensors[t].data);
        kvsi_text_release(&file);
    }
    kvs_model_free(model);
}

/* ---- GPT-NeoX ---- */

/* Replaces every `old` of the file by `new` of the same length. */
static void rename_all(kvsi_text *file, const char *old, const char *new)
{
    for (size_t i = 0; i + strlen(old) <= file->length; i++)
        if (memcmp(file->data + i, old, strlen(old)) == 0)
            memcpy(file->data + i, new, strlen(new));
}

enum { NEOX_HEADS = 2, NEOX_SIZE = 4, NEOX_ROWS = NEOX_HEADS * NEOX_SIZE };

static kvs_model *model_of(const fixture *f, const char *text)
{
    kvs_model_config config;
    json_t *object;

    assert_int_equal(kvsi_json_parse(&object, text, strlen(text), "test", NULL), KVS_OK);
    assert_int_equal(kvsi_hf_config_from_json(&config, object, "test", NULL), KVS_OK);
    json_decref(object);
    return support_model(f->rt, &config, 3);
}

static const char neox_config[] =
    "{\"model_type\": \"gpt_neox\", \"vocab_size\": 11, \"hidden_size\": 8, \"rotary_pct\": 0.5,"
    " \"intermediate_size\": 12, \"num_hidden_layers\": 1, \"num_attention_heads\": 2,"
    " \"max_position_embeddings\": 6}";

/* Their name of a tensor outside q, k and v. */
static const struct {
    const char *ours, *theirs;
} neox_names[] = {
    {"model.embed_tokens.weight", "gpt_neox.embed_in.weight"},
    {"model.layers.0.input_layernorm.weight", "gpt_neox.layers.0.input_layernorm.weight"},
    {"model.layers.0.input_layernorm.bias", "gpt_neox.layers.0.input_layernorm.bias"},
    {"model.layers.0.post_attention_layernorm.weight",
     "gpt_neox.layers.0.post_attention_layernorm.weight"},
    {"model.layers.0.post_attention_layernorm.bias",
     "gpt_neox.layers.0.post_attention_layernorm.bias"},
    {"model.layers.0.self_attn.o_proj.weight", "gpt_neox.layers.0.attention.dense.weight"},
    {"model.layers.0.self_attn.o_proj.bias", "gpt_neox.layers.0.attention.dense.bias"},
    {"model.layers.0.mlp.up_proj.weight", "gpt_neox.layers.0.mlp.dense_h_to_4h.weight"},
    {"model.layers.0.mlp.up_proj.bias", "gpt_neox.layers.0.mlp.dense_h_to_4h.bias"},
    {"model.layers.0.mlp.down_proj.weight", "gpt_neox.layers.0.mlp.dense_4h_to_h.weight"},
    {"model.layers.0.mlp.down_proj.bias", "gpt_neox.layers.0.mlp.dense_4h_to_h.bias"},
    {"model.norm.weight", "gpt_neox.final_layer_norm.weight"},
    {"model.norm.bias", "gpt_neox.final_layer_norm.bias"},
    {"lm_head.weight", "embed_out.weight"},
};

enum { NEOX_NAMES = sizeof neox_names / sizeof *neox_names };

/* Row (head, part, i) of the packed tensor, of all heads in this order. */
static float *neox_packed(const kvs_model *model, const char *kind, size_t width)
{
    float *out = kvsi_alloc((size_t)3 * NEOX_ROWS * width, sizeof *out);

    for (size_t part = 0; part < 3; part++) {
        char name[64];
        float *rows;

        snprintf(name, sizeof name, "model.layers.0.self_attn.%c_proj.%s", "qkv"[part], kind);
        rows = tensor_numbers(model, kvsi_layout_find(&model->layout, name), 0);
        for (size_t head = 0; head < NEOX_HEADS; head++)
            memcpy(out + (head * 3 + part) * NEOX_SIZE * width, rows + head * NEOX_SIZE * width,
                   NEOX_SIZE * width * sizeof *out);
        kvsi_free(rows);
    }
    return out;
}

/* The model's tensors as its family has them, in float32 memory that is released by free_neox. */
static size_t neox_tensors(kvsi_file_tensor *out, const kvs_model *model)
{
    size_t count = 0;

    for (; count < NEOX_NAMES; count++) {
        const kvsi_parameter *p = kvsi_layout_find(&model->layout, neox_names[count].ours);

        assert_non_null(p);
        out[count] = (kvsi_file_tensor){
            .name = neox_names[count].theirs, .rank = p->rank, .data = tensor_numbers(model, p, 0)};
        memcpy(out[count].shape, p->shape, p->rank * sizeof *p->shape);
    }
    out[count++] = (kvsi_file_tensor){.name = "gpt_neox.layers.0.attention.query_key_value.weight",
                                      .rank = 2,
                                      .shape = {3 * NEOX_ROWS, NEOX_ROWS},
                                      .data = neox_packed(model, "weight", NEOX_ROWS)};
    out[count++] = (kvsi_file_tensor){.name = "gpt_neox.layers.0.attention.query_key_value.bias",
                                      .rank = 1,
                                      .shape = {3 * NEOX_ROWS},
                                      .data = neox_packed(model, "bias", 1)};
    return count;
}

static void free_neox(kvsi_file_tensor *tensors, size_t count)
{
    for (size_t i = 0; i < count; i++)
        kvsi_free((void *)tensors[i].data);
}

/* Changes the values, which are float32, to `dtype`. */
static void encode_neox(kvsi_file_tensor *tensors, size_t count, kvsi_dtype dtype)
{
    for (size_t i = 0; i < count; i++) {
        const size_t values = kvsi_file_tensor_count(&tensors[i]);
        void *stored = kvsi_alloc(values, kvsi_dtype_bytes(dtype, 1));

        kvsi_dtype_encode(stored, dtype, tensors[i].data, values);
        kvsi_free((void *)tensors[i].data);
        tensors[i].data = stored;
        tensors[i].dtype = dtype;
    }
}

/* The rows of q, k and v alternate head by head; masks are left out. */
static void rows_by_head(void **state)
{
    static const unsigned char mask[4];
    fixture *f = *state;
    kvs_model *model = model_of(f, neox_config);

    write_config(f, model);
    for (size_t i = 0; i < 3; i++) {
        kvsi_file_tensor tensors[NEOX_NAMES + 3];
        kvsi_text file = {0};
        size_t count = neox_tensors(tensors, model);

        encode_neox(tensors, count, dtypes[i].dtype);
        tensors[count] = (kvsi_file_tensor){.name = "gpt_neox.layers.0.attention.bias",
                                            .dtype = KVSI_U8,
                                            .rank = 2,
                                            .shape = {1, 4},
                                            .data = mask};
        put_safetensors(&file, tensors, count + 1);
        if (i == 1)
            rename_all(&file, "\"U8\",\"shape\":[1,4]", "\"BOOL\",\"shape\":[4]");
        expect_file(f, "model.safetensors", &file, model, dtypes[i].dtype, 1);
        expect_description(f->dir, "safetensors", dtypes[i].name, 1);
        free_neox(tensors, count);
        kvsi_text_release(&file);
    }
    kvs_model_free(model);
}

static void rows_by_head_are_written(void **state)
{
    fixture *f = *state;
    kvs_model *model = model_of(f, neox_config);
    char *path = kvsi_path_join(f->dir, "model.safetensors");
    kvsi_file_tensor tensors[NEOX_NAMES + 2];
    const size_t count = neox_tensors(tensors, model);
    kvsi_safetensors *file;

    assert_int_equal(kvs_model_save(model, f->dir, NULL), KVS_OK);
    assert_int_equal(kvsi_safetensors_open(&file, path, NULL), KVS_OK);
    assert_int_equal(kvsi_safetensors_count(file), count);
    for (size_t i = 0; i < count; i++) {
        const kvsi_file_tensor *found = kvsi_safetensors_find(file, tensors[i].name);

        if (!found)
            fail_msg("no tensor '%s'", tensors[i].name);
        assert_int_equal(found->rank, tensors[i].rank);
        assert_memory_equal(found->shape, tensors[i].shape, found->rank * sizeof *found->shape);
        assert_memory_equal(found->data, tensors[i].data, kvsi_file_tensor_bytes(found));
    }
    kvsi_safetensors_close(file);
    free_neox(tensors, count);
    kvsi_free(path);
    kvs_model_free(model);
}

static void wrong_rows_by_head_are_refused(void **state)
{
    fixture *f = *state;
    kvs_model *model = model_of(f, neox_config);
    kvsi_file_tensor tensors[NEOX_NAMES + 2];
    const size_t count = neox_tensors(tensors, model);
    kvs_model_check_result check = {.size = sizeof(kvs_model_check_result)};
    kvsi_text file = {0};
    float *values = (float *)tensors[NEOX_NAMES].data;
    kvs_err err;

    write_config(f, model);
    tensors[NEOX_NAMES].shape[0]--;
    put_safetensors(&file, tensors, count);
    expect_file_refused(f, &file,
                        "query_key_value.weight' has 23 rows, the configuration needs 24");
    tensors[NEOX_NAMES].shape[0]++;
    kvsi_text_release(&file);
    file = (kvsi_text){0};
    /* value 2 of row 1 of k in the second head: row 5 of k */
    values[((3 + 1) * NEOX_SIZE + 1) * NEOX_ROWS + 2] = NAN;
    put_safetensors(&file, tensors, count);
    kvsi_free(write_file(f->dir, "model.safetensors", file.data, file.length));
    assert_int_equal(kvs_model_check(&check, f->dir, &err), KVS_E_FORMAT);
    if (!strstr(err.message, "'model.layers.0.self_attn.k_proj.weight' has nan at 42"))
        fail_msg("%s", err.message);
    kvsi_text_release(&file);
    free_neox(tensors, count);
    kvs_model_free(model);
}

/* ---- OPT ---- */

static const char opt_config[] =
    "{\"model_type\": \"opt\", \"vocab_size\": 11, \"hidden_size\": 8, \"ffn_dim\": 12,"
    " \"num_hidden_layers\": 1, \"num_attention_heads\": 2, \"max_position_embeddings\": 6}";

/* Files have two rows of positions before ours; they are written as zeros. */
static void unused_rows_of_positions(void **state)
{
    enum { ROWS = 6, WIDTH = 8 };
    static const char name[] = "model.decoder.embed_positions.weight";
    fixture *f = *state;
    kvs_model *model = model_of(f, opt_config);
    char *path = kvsi_path_join(f->dir, "model.safetensors");
    const kvsi_parameter *p = kvsi_layout_find(&model->layout, "model.embed_positions.weight");
    float *ours = tensor_numbers(model, p, 0), zeros[2 * WIDTH] = {0};
    const kvsi_file_tensor *found;
    kvsi_safetensors *file;

    assert_int_equal(kvs_model_save(model, f->dir, NULL), KVS_OK);
    expect_model(f, f->dir, model, KVSI_F32, 1);
    assert_int_equal(kvsi_safetensors_open(&file, path, NULL), KVS_OK);
    found = kvsi_safetensors_find(file, name);
    assert_non_null(found);
    assert_int_equal(found->shape[0], ROWS + 2);
    assert_memory_equal(found->data, zeros, sizeof zeros);
    assert_memory_equal((const float *)found->data + 2 * WIDTH, ours,
                        (size_t)ROWS * WIDTH * sizeof *ours);
    assert_non_null(kvsi_safetensors_find(file, "model.decoder.layers.0.self_attn.out_proj.bias"));
    assert_non_null(kvsi_safetensors_find(file, "model.decoder.layers.0.fc1.weight"));
    assert_non_null(kvsi_safetensors_find(file, "model.decoder.layers.0.final_layer_norm.bias"));
    assert_non_null(kvsi_safetensors_find(file, "model.decoder.final_layer_norm.weight"));
    kvsi_safetensors_close(file);
    kvsi_free(ours);
    kvsi_free(path);
    kvs_model_free(model);
}

static void names_of_families_go_both_ways(void **state)
{
    static const char *const configs[] = {neox_config, opt_config};
    fixture *f = *state;

    for (size_t c = 0; c < sizeof configs / sizeof *configs; c++) {
        kvs_model *model = model_of(f, configs[c]);
        const kvsi_family *family = kvsi_family_find(model->config.family);

        for (size_t i = 0; i < model->layout.count; i++) {
            const char *name = model->layout.list[i].name;
            char theirs[128], ours[128];

            assert_true(kvsi_family_their_name(theirs, sizeof theirs, family, name));
            assert_true(kvsi_family_our_name(ours, sizeof ours, family, theirs));
            assert_string_equal(ours, name);
            assert_false(kvsi_family_their_name(theirs, 12, family, name)); /* does not fit */
        }
        kvs_model_free(model);
    }
}

/* ---- the paper's listing ---- */

/* The taps are named K and V; without a shift in config.json they are refused, and so are taps of
 * another shape. */
static void names_of_the_listing(void **state)
{
    fixture *f = *state;
    kvs_model_config config = f->model->config;
    kvs_model *model;
    kvsi_text file = {0};

    config.shift.targets = KVS_SHIFT_K | KVS_SHIFT_V;
    config.shift.window = 1;
    model = support_model(f->rt, &config, 9);
    write_config(f, model);
    put_model_safetensors(&file, model, KVSI_F32, 0, model->layout.count);
    rename_all(&file, "self_attn.k_shift\"", "self_attn.K\"      ");
    rename_all(&file, "self_attn.v_shift\"", "self_attn.V\"      ");
    expect_file(f, "model.safetensors", &file, model, KVSI_F32, 1);
    write_config(f, f->model);
    expect_file_refused(f, &file,
                        "model.layers.0.self_attn.K' is a shift, but config.json has none");
    config.shift.window = 2;
    write_config(f, model);
    kvs_model_free(model);
    model = support_model(f->rt, &config, 9);
    put_model_safetensors(&file, model, KVSI_F32, 0, model->layout.count);
    rename_all(&file, "self_attn.k_shift\"", "self_attn.K\"      ");
    {
        kvs_model *loaded = NULL;
        kvs_err err = {.message = ""};
        char *path = write_file(f->dir, "model.safetensors", file.data, file.length);

        assert_int_not_equal(kvs_model_load(&loaded, f->rt, path, NULL, &err), KVS_OK);
        assert_non_null(strstr(err.message, "self_attn.k_shift"));
        kvsi_free(path);
    }
    kvsi_text_release(&file);
    kvs_model_free(model);
}

/* ---- llama2.c ---- */

static void llama2c(void **state)
{
    fixture *f = *state;

    for (int tied = 0; tied < 2; tied++) {
        kvs_model *model = small_model(f->rt, tied);

        for (int version = 0; version < 2; version++) {
            kvsi_text file = {0};
            char *path = kvsi_path_join(f->dir, "any name");

            put_llama2c(&file, model, version);
            expect_file(f, "any name", &file, model, KVSI_F32, 1);
            expect_description(path, version > 0 ? "llama2.c, version 1" : "llama2.c", "F32", 1);
            kvsi_text_release(&file);
            kvsi_free(path);
        }
        kvs_model_free(model);
    }
}

/* ---- GGUF ---- */

static void gguf_llama(void **state)
{
    fixture *f = *state;

    for (int tied = 0; tied < 2; tied++) {
        kvs_model *model = small_model(f->rt, tied);

        for (size_t i = 0; i < 3; i++) {
            kvsi_text file = {0};
            char *path = kvsi_path_join(f->dir, "any name");

            put_gguf(&file, model, "llama", NULL, dtypes[i].gguf);
            expect_file(f, "any name", &file, model, dtypes[i].dtype, 0);
            expect_description(path, "GGUF", dtypes[i].name, 1);
            kvsi_text_release(&file);
            kvsi_free(path);
        }
        kvs_model_free(model);
    }
}

/* With a shift, rows in our order; without kvshift.config, a plain model. */
static void gguf_kvshift(void **state)
{
    fixture *f = *state;
    kvs_model_config config = f->model->config;
    kvs_model *model;
    kvsi_text file = {0};
    json_t *json;
    char *text;

    config.shift.targets = KVS_SHIFT_Q | KVS_SHIFT_K | KVS_SHIFT_V;
    config.shift.window = 2;
    config.sliding_window = 3;
    model = support_model(f->rt, &config, 8);
    json = kvsi_hf_config_to_json(&model->config);
    text = json_dumps(json, 0);
    put_gguf(&file, model, "kvshift", text, 30);
    expect_file(f, "shifted.gguf", &file, model, KVSI_BF16, 0);
    kvsi_text_release(&file);
    put_gguf(&file, f->model, "kvshift", NULL, 0);
    expect_file(f, "plain.gguf", &file, f->model, KVSI_F32, 0);
    kvsi_text_release(&file);
    free(text);
    json_decref(json);
    kvs_model_free(model);
}

static void gguf_names_go_both_ways(void **state)
{
    static const char *const strange[] = {
        "",
        "blk.",
        "blk..attn_q.weight",
        "blk.x.attn_q.weight",
        "blk.1.nope",
        "blk.1",
        "token_embd",
        "rope_freqs.weight",
        "blk.1.",
        "model.layers.0",
        "blk.99999999999.attn_q.weight",
    };
    const kvsi_gguf_family *llama = kvsi_gguf_family_at(0), *own = kvsi_gguf_family_own();
    const fixture *f = *state;
    char theirs[KVSI_GGUF_NAME_SIZE], ours[KVSI_GGUF_NAME_SIZE];

    for (size_t i = 0; i < f->model->layout.count; i++) {
        const char *name = f->model->layout.list[i].name;

        assert_true(kvsi_gguf_name_from_ours(theirs, name, llama));
        assert_true(kvsi_gguf_name_to_ours(ours, theirs, llama));
        assert_string_equal(ours, name);
    }
    assert_false(kvsi_gguf_name_from_ours(theirs, "model.layers.17.self_attn.k_shift", llama));
    assert_true(kvsi_gguf_name_from_ours(theirs, "model.layers.17.self_attn.k_shift", own));
    assert_string_equal(theirs, "blk.17.attn_k_shift");
    for (size_t i = 0; i < sizeof strange / sizeof *strange; i++)
        assert_false(kvsi_gguf_name_to_ours(ours, strange[i], own));
}

/* Keys that do not change the model. */
static void gguf_keys_that_change_nothing(void **state)
{
    static const struct {
        const char *key;
        float value;
    } cases[] = {
        {"llama.rope.scaling.factor", 1}, {"llama.rope.scale_linear", 1},
        {"llama.rope.scaling.factor", 0}, {"llama.rope.scaling.attn_factor", 1},
        {"llama.attention.scale", 0.5F},  {"llama.attention.scale", 0},
        {"llama.logit_scale", 1},         {"llama.attention.layer_norm_epsilon", 1e-3F},
        {"general.rope.scale", 5},        {"llamas.logit_scale", 5},
    };
    fixture *f = *state;
    kvsi_text file = {0};

    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        put_gguf(&file, f->model, "llama", NULL, 0);
        add_gguf_float(&file, cases[i].key, cases[i].value);
        expect_file(f, "any name", &file, f->model, KVSI_F32, 1);
        kvsi_text_release(&file);
    }
    put_gguf(&file, f->model, "llama", NULL, 0);
    add_gguf_float(&file, "llama.rope.scaling.factor", 8);
    add_gguf_text(&file, "llama.rope.scaling.type", "none"); /* then the factor is ignored */
    add_gguf_u32(&file, "llama.rope.scaling.original_context_length", 4);
    add_gguf_u32(&file, "llama.expert_count", 0);
    add_gguf_text(&file, "llama.tensor_data_layout", "Meta AI original pth");
    expect_file(f, "any name", &file, f->model, KVSI_F32, 1);
    kvsi_text_release(&file);
    put_gguf(&file, f->model, "llama", NULL, 0);
    add_gguf_text(&file, "llama.rope.scaling.type", "linear"); /* without a factor */
    expect_file(f, "any name", &file, f->model, KVSI_F32, 1);
    kvsi_text_release(&file);
}

/* ---- tokens that end a text ---- */

/* Loaded and opened. */
static void expect_eos(const fixture *f, const char *path, const int32_t *expected, size_t count)
{
    kvs_model *models[2] = {NULL, NULL};
    const int32_t *ids;
    kvs_err err;

    if (kvs_model_load(&models[0], f->rt, path, NULL, &err) != KVS_OK ||
        kvs_model_load(&models[1], f->rt, path,
                       &(kvs_load_options){.size = sizeof(kvs_load_options), .mapped = 1},
                       &err) != KVS_OK)
        fail_msg("%s", err.message);
    for (size_t i = 0; i < 2; i++) {
        assert_int_equal(kvs_model_eos(models[i], &ids), count);
        assert_memory_equal(ids, expected, count * sizeof *ids);
        kvs_model_free(models[i]);
    }
}

static void last_tokens_of_folders(void **state)
{
    static const struct {
        const char *config, *generation; /* NULL = missing */
        int32_t ids[2];
        size_t count;
    } cases[] = {
        {NULL, NULL, {0}, 0},
        {"3", NULL, {3}, 1},
        {"[3, 5]", NULL, {3, 5}, 2},
        {"3", "[5, 2]", {5, 2}, 2}, /* generation_config.json takes precedence */
        {"[3, 5]", "2", {2}, 1},
        {"[3, 5]", "null", {3, 5}, 2},
        {NULL, "4", {4}, 1},
        {"[7, -1, 50256, 7, 9223372036854775807]", NULL, {7}, 1}, /* not in the vocabulary */
    };
    fixture *f = *state;

    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        json_t *config = kvsi_hf_config_to_json(&f->model->config);
        char *path = kvsi_path_join(f->dir, "config.json");
        kvsi_text file = {0};

        if (cases[i].config)
            json_object_set_new(config, "eos_token_id",
                                json_loads(cases[i].config, JSON_DECODE_ANY, NULL));
        assert_int_equal(kvsi_json_write(config, path, NULL), KVS_OK);
        put_model_safetensors(&file, f->model, KVSI_F32, 0, f->model->layout.count);
        kvsi_free(write_file(f->dir, "model.safetensors", file.data, file.length));
        kvsi_text_release(&file);
        if (cases[i].generation) {
            kvsi_text_format(&file, "{\"eos_token_id\": %s}", cases[i].generation);
            kvsi_free(write_file(f->dir, "generation_config.json", file.data, file.length));
        }
        expect_eos(f, f->dir, cases[i].ids, cases[i].count);
        kvsi_text_release(&file);
        kvsi_free(path);
        path = kvsi_path_join(f->dir, "generation_config.json");
        unlink(path);
        kvsi_free(path);
        json_decref(config);
    }
}

static void last_tokens_of_gguf(void **state)
{
    static const int32_t expected[] = {3, 5, 1};
    const fixture *f = *state;
    kvsi_text file = {0};
    char *path;

    put_gguf(&file, f->model, "llama", NULL, 0);
    path = write_file(f->dir, "model.gguf", file.data, file.length);
    expect_eos(f, path, expected, 0);
    kvsi_free(path);
    add_gguf_u32(&file, "tokenizer.ggml.eom_token_id", 1);
    add_gguf_u32(&file, "tokenizer.ggml.eot_token_id", 5);
    add_gguf_u32(&file, "tokenizer.ggml.eos_token_id", 3);
    add_gguf_u32(&file, "tokenizer.ggml.padding_token_id", UINT32_MAX);
    path = write_file(f->dir, "model.gguf", file.data, file.length);
    expect_eos(f, path, expected, 3);
    kvsi_free(path);
    kvsi_text_release(&file);
}

/* ---- checks ---- */

static void a_number_that_is_none_is_found(void **state)
{
    fixture *f = *state;
    kvs_model_check_result check = {.size = sizeof(kvs_model_check_result)};
    kvsi_text file = {0};
    size_t last;
    char *path;
    kvs_err err;

    put_llama2c(&file, f->model, 1);
    last = file.length - 4;
    patch(&file, last, 0x7fc00000, 4);
    path = write_file(f->dir, "nan.bin", file.data, file.length);
    assert_int_equal(kvs_model_check(&check, path, &err), KVS_E_FORMAT);
    assert_non_null(strstr(err.message, "nan.bin': tensor 'model.layers.1.mlp.up_proj.weight' has "
                                        "nan at 191"));
    kvsi_free(path);
    kvsi_text_release(&file);
}

#define WITH_FIXTURE(test) cmocka_unit_test_setup_teardown(test, set_up, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        WITH_FIXTURE(safetensors_of_every_type),
        WITH_FIXTURE(shards),
        WITH_FIXTURE(a_tensor_in_two_shards),
        WITH_FIXTURE(tied_heads),
        WITH_FIXTURE(gguf_heads),
        WITH_FIXTURE(gguf_keys_that_change_nothing),
        WITH_FIXTURE(last_tokens_of_folders),
        WITH_FIXTURE(last_tokens_of_gguf),
        WITH_FIXTURE(gpt2_prefixes),
        WITH_FIXTURE(rows_by_head),
        WITH_FIXTURE(rows_by_head_are_written),
        WITH_FIXTURE(wrong_rows_by_head_are_refused),
        WITH_FIXTURE(unused_rows_of_positions),
        WITH_FIXTURE(names_of_families_go_both_ways),
        WITH_FIXTURE(names_of_the_listing),
        WITH_FIXTURE(llama2c),
        WITH_FIXTURE(gguf_llama),
        WITH_FIXTURE(gguf_kvshift),
        WITH_FIXTURE(gguf_names_go_both_ways),
        WITH_FIXTURE(a_number_that_is_none_is_found),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
