/* Low-rank adapters: which matrices have them, their files in PEFT's layout, and merging them into
 * the matrices. */
#include "base/files.h"
#include "base/json.h"
#include "base/memory.h"
#include "formats/safetensors.h"
#include "model/adapter_files.h"
#include "model/adapters.h"
#include "support.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { VOCAB = 17, COUNT = 9, JSON_LIMIT = 1 << 20 };

/* Merging changes the order of sums, relative to the largest logit (docs/architecture.md). */
static const double ROUNDING = 1e-5;

static kvs_err err;

static const support_sizes sizes = {.vocab = VOCAB, .dim = 16, .ffn = 20, .context = 32};

#define KV_SHIFT SUPPORT_SHIFT(KVS_SHIFT_K | KVS_SHIFT_V, FREE, 1)

#define NEOX                                                                                       \
    .norm_kind = KVSI_NORM_LAYER, .parallel = KVSI_PARALLEL_OWN,                                   \
    .activation = KVSI_ACTIVATION_GELU, .plain_mlp = 1, .qkv_bias = 1, .o_bias = 1, .mlp_bias = 1
#define OPT                                                                                        \
    .norm_kind = KVSI_NORM_LAYER, .positions = KVSI_POSITIONS_LEARNED,                             \
    .activation = KVSI_ACTIVATION_RELU, .plain_mlp = 1, .qkv_bias = 1, .o_bias = 1, .mlp_bias = 1, \
    .tied = 1, .family = "opt"

/* `family`: whose names the adapters have in PEFT's files; NULL = ours. */
static const struct {
    const char *name;
    kvs_model_config special;
    const char *on, *family;
} models[] = {
    {"llama", {KV_SHIFT, .kv_heads = 2}, NULL, NULL},
    {"llama without a shift", {.tied = 1}, "q_proj,down_proj", "llama"},
    {"some layers", {KV_SHIFT, .qkv_bias = 1}, "layers.1.*,layers.0.mlp.up_proj", NULL},
    {"gpt2", {KV_SHIFT, .body = KVSI_BODY_GPT2, .tied = 1}, NULL, NULL},
    {"gpt_neox", {NEOX, .family = "gpt_neox"}, "o_proj,up_proj,layers.0.*.down_proj", "gpt_neox"},
    {"gpt_neox with a shift", {KV_SHIFT, NEOX, .family = "gpt_neox"}, NULL, NULL},
    {"opt", {OPT}, NULL, "opt"},
};

enum { MODELS = sizeof models / sizeof *models };

/* A model with adapters that have an effect. */
static kvs_model *make_adapted(kvs_runtime *rt, size_t index)
{
    kvs_model_config config = support_config(&models[index].special, &sizes);
    const kvs_adapter_options options = {
        .size = sizeof options, .rank = 3, .alpha = 0.7, .on = models[index].on};
    const kvsi_family *family;

    assert_int_equal(kvs_model_config_finish(&config, &err), KVS_OK);
    if (kvsi_adapters_add(&config, &options, &err) != KVS_OK)
        fail_msg("%s: %s", models[index].name, err.message);
    family = kvsi_adapters_family(&config);
    assert_string_equal(family ? family->type : "",
                        models[index].family ? models[index].family : "");
    return support_model(rt, &config, 5);
}

static real *logits_of(const kvs_model *model)
{
    static const size_t starts[] = {0, COUNT};
    int32_t ids[COUNT];
    const kvs_batch batch = {.sequences = 1, .starts = starts, .ids = ids};
    kvsi_pass *pass = support_pass(model, COUNT, 1, 0);
    real *logits = kvsi_alloc(COUNT * VOCAB, sizeof *logits);

    support_fill_ids(ids, COUNT, 3, VOCAB);
    support_run(pass, &batch, NULL, logits);
    kvsi_pass_free(pass);
    return logits;
}

static kvs_model *load(kvs_runtime *rt, const char *path, int mapped)
{
    const kvs_load_options options = {.size = sizeof options, .mapped = mapped};
    kvs_model *model;

    if (kvs_model_load(&model, rt, path, &options, &err) != KVS_OK)
        fail_msg("%s", err.message);
    return model;
}

static kvs_convert_options merging(const char *base)
{
    kvs_convert_options options;

    kvs_convert_options_init(&options, sizeof options);
    options.tokenizer = "none";
    options.merge = 1;
    options.base = base;
    options.overwrite = 1;
    return options;
}

/* Compares the logits of a file with those of a model. */
static void expect_logits(kvs_runtime *rt, const kvs_model *model, const char *path, double limit,
                          const char *what)
{
    for (int mapped = 0; mapped < 2; mapped++) {
        kvs_model *found = load(rt, path, mapped);
        real *expected = logits_of(model), *logits = logits_of(found);

        support_expect_close(logits, expected, COUNT * VOCAB, limit, "%s", what);
        kvsi_free(logits);
        kvsi_free(expected);
        kvs_model_free(found);
    }
}

/* ---- merging --------------------------------------------------------------------------------- */

/* Writes the model without its adapters. */
static void save_base(kvs_runtime *rt, const kvs_model *model, const char *dir)
{
    kvs_model_config config = model->config;
    kvs_model *base;

    config.lora.rank = 0;
    assert_int_equal(kvs_model_create(&base, rt, &config, 1, &err), KVS_OK);
    for (size_t i = 0; i < base->layout.count; i++) {
        const kvsi_parameter *p = &base->layout.list[i];
        float *values = kvsi_alloc(p->count, sizeof *values);

        assert_int_equal(kvs_model_read_tensor(values, p->count, model, p->name, &err), KVS_OK);
        if (kvsi_group_of(p->role) == KVSI_SHIFTS) /* those of the adapter replace it */
            memset(values, 0, p->count * sizeof *values);
        assert_int_equal(kvs_model_write_tensor(base, p->name, values, p->count, &err), KVS_OK);
        kvsi_free(values);
    }
    assert_int_equal(kvs_model_save(base, dir, &err), KVS_OK);
    kvs_model_free(base);
}

static void check_merged(kvs_runtime *rt, size_t index)
{
    char *run = support_make_dir(), *base = support_make_dir(), *adapter = support_make_dir();
    char *out = kvsi_path_join(base, "out"), *gguf = kvsi_path_join(base, "out.gguf");
    kvs_model *model = make_adapted(rt, index);
    kvs_convert_options options = merging(NULL);

    assert_int_equal(kvs_model_save(model, run, &err), KVS_OK);
    expect_logits(rt, model, run, 0, models[index].name); /* with the adapters */
    if (kvs_convert(out, run, &options, &err) != KVS_OK)
        fail_msg("%s: %s", models[index].name, err.message);
    expect_logits(rt, model, out, ROUNDING, models[index].name);
    if (model->config.body == KVSI_BODY_LLAMA) {
        assert_int_equal(kvs_convert(gguf, run, &options, &err), KVS_OK);
        expect_logits(rt, model, gguf, ROUNDING, models[index].name);
    }
    assert_int_equal(kvsi_adapter_files_write(model, adapter, &err), KVS_OK);
    save_base(rt, model, base);
    options = merging(base);
    if (kvs_convert(out, adapter, &options, &err) != KVS_OK)
        fail_msg("%s: %s", models[index].name, err.message);
    expect_logits(rt, model, out, ROUNDING, models[index].name);
    kvs_model_free(model);
    kvsi_free(out);
    kvsi_free(gguf);
    support_remove_dir(adapter);
    support_remove_dir(base);
    support_remove_dir(run);
}

static void merged_models_compute_the_same(void **state)
{
    kvs_runtime *rt = support_runtime(NULL);

    (void)state;
    for (size_t i = 0; i < MODELS; i++)
        check_merged(rt, i);
    kvs_runtime_free(rt);
}

/* ---- adding ---------------------------------------------------------------------------------- */

static void new_adapters_keep_the_bits(void **state)
{
    const char *level;

    (void)state;
    for (size_t l = 0; (level = support_level(l)); l++) {
        kvs_runtime *rt = support_runtime(level);

        for (size_t i = 0; i < MODELS; i++) {
            const kvs_model_config config = support_config(&models[i].special, &sizes);
            const kvs_adapter_options options = {
                .size = sizeof options, .rank = 4, .on = models[i].on, .seed = 2};
            kvs_model *plain = support_model(rt, &config, 3), *adapted;
            real *before, *after;

            assert_int_equal(kvs_model_adapt(&adapted, rt, plain, &options, &err), KVS_OK);
            assert_true(adapted->layout.adapter_count > 0);
            before = logits_of(plain);
            after = logits_of(adapted);
            assert_memory_equal(before, after, COUNT * VOCAB * sizeof *before);
            kvsi_free(before);
            kvsi_free(after);
            kvs_model_free(adapted);
            kvs_model_free(plain);
        }
        kvs_runtime_free(rt);
    }
}

/* A has uniform values up to 1 / root of the inputs, which depend on seed and name; B is 0. */
static void initial_values_are_those_of_peft(void **state)
{
    const kvs_model_config special = {.kv_heads = 2};
    const kvs_model_config config = support_config(&special, &sizes);
    const kvsi_parameter a = {.name = "a.lora_A.weight",
                              .role = KVSI_LORA_A,
                              .rank = 2,
                              .shape = {8, 256},
                              .count = 2048};
    const kvsi_parameter b = {.name = "a.lora_B.weight",
                              .role = KVSI_LORA_B,
                              .rank = 2,
                              .shape = {256, 8},
                              .count = 2048};
    static real values[2048], other[2048];
    double sum = 0, squares = 0;

    (void)state;
    kvsi_parameter_fill(values, &a, &config, 1, 1);
    kvsi_parameter_fill(other, &a, &config, 2, 1);
    assert_memory_not_equal(values, other, sizeof values);
    for (size_t i = 0; i < 2048; i++) {
        assert_true(fabs((double)values[i]) <= 1.0 / 16);
        sum += (double)values[i];
        squares += (double)values[i] * (double)values[i];
    }
    assert_true(fabs(sum / 2048) < 0.003);
    assert_true(fabs(squares / 2048 * 3 * 256 - 1) < 0.1); /* variance of a uniform value: 1/3 */
    kvsi_parameter_fill(values, &b, &config, 1, 1);
    for (size_t i = 0; i < 2048; i++)
        assert_true(values[i] == 0);
}

/* The names of the matrices with adapters, in order, each with a blank after it. */
static void list_adapted(char *out, size_t size, const char *on)
{
    const kvs_model_config special = {.kv_heads = 2};
    kvs_model_config config = support_config(&special, &sizes);
    const kvs_adapter_options options = {.size = sizeof options, .rank = 2, .on = on};
    kvsi_layout layout;
    size_t at = 0;

    out[0] = '\0';
    assert_int_equal(kvs_model_config_finish(&config, &err), KVS_OK);
    if (kvsi_adapters_add(&config, &options, &err) != KVS_OK)
        fail_msg("%s: %s", on, err.message);
    assert_int_equal(kvsi_layout_init(&layout, &config, &err), KVS_OK);
    for (size_t i = 0; i < layout.adapter_count; i++) {
        const char *name = layout.list[layout.adapters[i].weight].name;

        at += (size_t)snprintf(out + at, size - at, "%.*s ",
                               (int)(strlen(name) - strlen("model.layers..weight")),
                               name + strlen("model.layers."));
    }
    kvsi_layout_release(&layout);
}

static void names_and_patterns_choose_matrices(void **state)
{
    static const struct {
        const char *on, *expected;
    } cases[] = {
        {"q_proj", "0.self_attn.q_proj 1.self_attn.q_proj "},
        {"mlp.up_proj,layers.0.self_attn.o_proj",
         "0.self_attn.o_proj 0.mlp.up_proj 1.mlp.up_proj "},
        {"layers.1.mlp.*", "1.mlp.gate_proj 1.mlp.up_proj 1.mlp.down_proj "},
        {"model.layers.0.*.?_proj",
         "0.self_attn.q_proj 0.self_attn.k_proj 0.self_attn.v_proj 0.self_attn.o_proj "},
        {"*0*n_proj", "0.mlp.down_proj "},
    };

    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char found[1024];

        list_adapted(found, sizeof found, cases[i].on);
        assert_string_equal(found, cases[i].expected);
    }
}

static void wrong_adapters_are_refused(void **state)
{
    static const struct {
        size_t rank;
        double alpha;
        const char *on, *says;
    } cases[] = {
        {0, 0, NULL, "lora rank is 0"},
        {17, 0, "q_proj", "lora rank is 17, expected at most 16, the width of 'model.layers.0."},
        {5000, 0, NULL, "lora rank is 5000"},
        {2, 1e10, NULL, "lora alpha"},
        {2, 0, "q_proj,x", "'x': the model's layers have none with this name, expected q_proj, "},
        {2, 0, "roj", "'roj'"},
        {2, 0, "q_proj,", "''"},
        {2, 0, "lm_head", "'lm_head': the output head is tied"},
        {2, 0, "embed_tokens", "not for the embedding and the output head, which are tied"},
        {2, 0, "input_layernorm", "'input_layernorm'"},
    };
    const kvs_model_config special = {.kv_heads = 2, .tied = 1};

    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        kvs_model_config config = support_config(&special, &sizes);
        const kvs_adapter_options options = {.size = sizeof options,
                                             .rank = cases[i].rank,
                                             .alpha = cases[i].alpha,
                                             .on = cases[i].on};

        assert_int_equal(kvs_model_config_finish(&config, &err), KVS_OK);
        assert_true(kvsi_adapters_add(&config, &options, &err) != KVS_OK);
        if (!strstr(err.message, cases[i].says) || strchr(err.message, '\n'))
            fail_msg("'%s' does not contain '%s'", err.message, cases[i].says);
    }
}

/* A family whose files have q, k and v in one tensor. */
static void packed_rows_have_no_adapter(void **state)
{
    const kvs_model_config special = {.kv_heads = 2};
    const kvs_adapter_options all = {.size = sizeof all, .rank = 2};
    const kvs_adapter_options some = {.size = sizeof some, .rank = 2, .on = "o_proj,down_proj"};
    kvs_model_config config = support_config(&special, &sizes), copy;

    (void)state;
    assert_int_equal(kvs_model_config_finish(&config, &err), KVS_OK);
    config.family = "phi3";
    copy = config;
    assert_int_equal(kvsi_adapters_add(&copy, &all, &err), KVS_E_UNSUPPORTED);
    assert_non_null(strstr(err.message, "within 'qkv_proj.weight'"));
    copy = config;
    assert_int_equal(kvsi_adapters_add(&copy, &some, &err), KVS_OK);
    copy = config;
    copy.shift.targets = KVS_SHIFT_K; /* no longer a model of the family */
    assert_int_equal(kvsi_adapters_add(&copy, &all, &err), KVS_OK);
}

/* ---- PEFT's files ---------------------------------------------------------------------------- */

/* The adapters of GPT-NeoX have the names of its files, as PEFT's have. */
static void adapters_have_the_names_of_their_family(void **state)
{
    static const char *const names[] = {
        "base_model.model.gpt_neox.layers.0.attention.dense.lora_A.weight",
        "base_model.model.gpt_neox.layers.1.mlp.dense_h_to_4h.lora_B.weight",
        "base_model.model.gpt_neox.layers.0.mlp.dense_4h_to_h.lora_A.weight",
    };
    kvs_runtime *rt = support_runtime("reference");
    char *dir = support_make_dir(), *config = kvsi_path_join(dir, KVSI_ADAPTER_CONFIG);
    char *weights = kvsi_path_join(dir, KVSI_ADAPTER_WEIGHTS), *targets;
    kvsi_safetensors *file;
    kvs_model *model;
    size_t index = 0;
    json_t *object;

    (void)state;
    while (strcmp(models[index].name, "gpt_neox") != 0)
        index++;
    model = make_adapted(rt, index);
    assert_int_equal(kvsi_adapter_files_write(model, dir, &err), KVS_OK);
    assert_int_equal(kvsi_safetensors_open(&file, weights, &err), KVS_OK);
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (!kvsi_safetensors_find(file, names[i]))
            fail_msg("no tensor '%s'", names[i]);
    assert_int_equal(kvsi_json_read(&object, config, JSON_LIMIT, &err), KVS_OK);
    targets = json_dumps(json_object_get(object, "target_modules"), JSON_COMPACT);
    assert_string_equal(targets, "[\"dense\",\"dense_h_to_4h\","
                                 "\"gpt_neox.layers.0.mlp.dense_4h_to_h\"]");
    free(targets);
    json_decref(object);
    kvsi_safetensors_close(file);
    kvs_model_free(model);
    kvs_runtime_free(rt);
    kvsi_free(weights);
    kvsi_free(config);
    support_remove_dir(dir);
}

/* Changes a key of adapter_config.json; value NULL removes it. */
static void change_key(const char *dir, const char *key, json_t *value)
{
    char *path = kvsi_path_join(dir, KVSI_ADAPTER_CONFIG);
    json_t *object;

    assert_int_equal(kvsi_json_read(&object, path, JSON_LIMIT, &err), KVS_OK);
    if (value)
        json_object_set_new(object, key, value);
    else
        json_object_del(object, key);
    assert_int_equal(kvsi_json_write(object, path, &err), KVS_OK);
    json_decref(object);
    kvsi_free(path);
}

static void expect_refused(const char *adapter, const char *base, const char *says)
{
    char *out = kvsi_path_join(base, "out");
    const kvs_convert_options options = merging(base);

    if (kvs_convert(out, adapter, &options, &err) == KVS_OK)
        fail_msg("merged, expected '%s'", says);
    if (!strstr(err.message, says) || strchr(err.message, '\n'))
        fail_msg("'%s' does not contain '%s'", err.message, says);
    assert_false(kvsi_file_exists(out));
    kvsi_free(out);
}

static void other_adapters_are_refused_by_key(void **state)
{
    kvs_runtime *rt = support_runtime(NULL);
    kvs_model *model = make_adapted(rt, 0);
    char *base = support_make_dir();
    const struct {
        const char *key;
        json_t *value;
        const char *says;
    } cases[] = {
        {"peft_type", json_string("IA3"), "'peft_type': expected 'LORA', found 'IA3'"},
        {"peft_type", NULL, "'peft_type'"},
        {"bias", json_string("all"), "'bias': expected 'none'"},
        {"use_dora", json_true(), "'use_dora' is set"},
        {"rank_pattern", json_pack("{s:i}", "q_proj", 3), "'rank_pattern' is set"},
        {"init_lora_weights", json_string("pissa"), "start as 'pissa'"},
        {"r", json_integer(0), "'r': expected at least 1"},
        {"r", json_integer(4), "has shape (3,16), the model needs (4,16)"},
        {"r", json_string("3"), "'r'"},
        {"lora_alpha", NULL, "'lora_alpha'"},
    };

    (void)state;
    save_base(rt, model, base);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char *adapter = support_make_dir();

        assert_int_equal(kvsi_adapter_files_write(model, adapter, &err), KVS_OK);
        change_key(adapter, cases[i].key, cases[i].value);
        expect_refused(adapter, base, cases[i].says);
        support_remove_dir(adapter);
    }
    support_remove_dir(base);
    kvs_model_free(model);
    kvs_runtime_free(rt);
}

static void other_tensors_are_refused_by_name(void **state)
{
    static const float values[64] = {0}, bad[64] = {NAN};
    static const char a[] = "base_model.model.model.layers.0.self_attn.q_proj.lora_A.weight",
                      b[] = "base_model.model.model.layers.0.self_attn.q_proj.lora_B.weight";
    const struct {
        kvsi_file_tensor tensors[2];
        const char *says;
    } cases[] = {
        {{{a, KVSI_F32, 2, {3, 16}, values}, {b, KVSI_F32, 2, {16, 2}, values}},
         "lora_B.weight' has shape (16,2), the model needs (16,3)"},
        {{{a, KVSI_F32, 2, {3, 16}, values}, {a + 1, KVSI_F32, 1, {3}, values}},
         "has no place in the model"},
        {{{a, KVSI_F32, 2, {3, 16}, values},
          {"base_model.model.model.norm.weight", KVSI_F32, 1, {16}, values}},
         "has no lora_B of 'model.layers.0.self_attn.q_proj.weight'"},
        {{{a, KVSI_F32, 2, {3, 16}, bad}, {b, KVSI_F32, 2, {16, 3}, values}}, "has nan at 0"},
        {{{a, KVSI_I64, 1, {3}, values}, {b, KVSI_F32, 2, {16, 3}, values}}, "is of type I64"},
        {{{a, KVSI_F32, 2, {3, 16}, values},
          {"base_model.model.model.layers.0.self_attn.q_shift", KVSI_F32, 2, {4, 2}, values}},
         "has no place in the model, which has no shift"},
        {{{a, KVSI_F32, 2, {3, 16}, values},
          {"base_model.model.model.norm.lora_A.weight", KVSI_F32, 2, {3, 16}, values}},
         "has no place in the model"},
    };
    kvs_runtime *rt = support_runtime(NULL);
    kvs_model *model = make_adapted(rt, 0);
    char *base = support_make_dir(), *adapter = support_make_dir();
    char *path = kvsi_path_join(adapter, KVSI_ADAPTER_WEIGHTS);

    (void)state;
    save_base(rt, model, base);
    assert_int_equal(kvsi_adapter_files_write(model, adapter, &err), KVS_OK);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        assert_int_equal(kvsi_safetensors_write(path, cases[i].tensors, 2, &err), KVS_OK);
        expect_refused(adapter, base, cases[i].says);
    }
    kvsi_free(path);
    support_remove_dir(adapter);
    support_remove_dir(base);
    kvs_model_free(model);
    kvs_runtime_free(rt);
}

/* Which model an adapter belongs to, and which inputs can be merged at all. */
static void inputs_are_checked(void **state)
{
    kvs_runtime *rt = support_runtime(NULL);
    kvs_model *model = make_adapted(rt, 0);
    char *base = support_make_dir(), *adapter = support_make_dir(), *run = support_make_dir();
    char *out = kvsi_path_join(base, "out");
    kvs_convert_options options = merging(NULL);

    (void)state;
    save_base(rt, model, base);
    assert_int_equal(kvsi_adapter_files_write(model, adapter, &err), KVS_OK);
    assert_int_equal(kvs_model_save(model, run, &err), KVS_OK);
    assert_int_equal(kvs_convert(out, adapter, &options, &err), KVS_E_INVALID);
    assert_non_null(strstr(err.message, "does not name its model"));
    change_key(adapter, "base_model_name_or_path", json_string("no/such/folder"));
    assert_int_equal(kvs_convert(out, adapter, &options, &err), KVS_E_IO);
    assert_non_null(strstr(err.message, "'no/such/folder', which is not there"));
    change_key(adapter, "base_model_name_or_path", json_string(base));
    assert_int_equal(kvs_convert(out, adapter, &options, &err), KVS_OK);
    assert_int_equal(kvs_convert(out, base, &options, &err), KVS_E_INVALID);
    assert_non_null(strstr(err.message, "has no adapters to merge"));
    options.base = run;
    assert_int_equal(kvs_convert(out, adapter, &options, &err), KVS_E_UNSUPPORTED);
    options.merge = 0;
    assert_int_equal(kvs_convert(out, run, &options, &err), KVS_E_INVALID);
    options.base = NULL;
    assert_int_equal(kvs_convert(out, run, &options, &err), KVS_E_UNSUPPORTED);
    assert_non_null(strstr(err.message, "merge them first"));
    assert_int_equal(kvs_convert(out, adapter, &options, &err), KVS_E_UNSUPPORTED);
    assert_non_null(strstr(err.message, "'convert --merge' merges them"));
    kvsi_free(out);
    support_remove_dir(run);
    support_remove_dir(adapter);
    support_remove_dir(base);
    kvs_model_free(model);
    kvs_runtime_free(rt);
}

/* ---- config.json ----------------------------------------------------------------------------- */

static void wrong_settings_of_adapters_are_refused(void **state)
{
    const struct {
        const char *key;
        json_t *value;
        const char *says;
    } cases[] = {
        {"rank", json_integer(0), "expected at least 1, found 0"},
        {"rank", json_integer(-1), "'rank'"},
        {"rank", json_integer(4000), "lora rank is 4000, expected at most 16"},
        {"alpha", json_real(0), "lora alpha is 0"},
        {"alpha", json_string("5"), "'alpha'"},
        {"on", json_string("x"), "'x'"},
        {"on", json_string(""), "''"},
        {"scale", json_real(2), "unknown key 'scale' in 'lora'"},
        {"on", NULL, "'on'"},
    };
    kvs_runtime *rt = support_runtime(NULL);
    kvs_model *model = make_adapted(rt, 0), *loaded;

    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char *dir = support_make_dir(), *path = kvsi_path_join(dir, "config.json");
        json_t *object, *lora;

        assert_int_equal(kvs_model_save(model, dir, &err), KVS_OK);
        assert_int_equal(kvsi_json_read(&object, path, JSON_LIMIT, &err), KVS_OK);
        lora = json_object_get(json_object_get(object, "kvshift"), "lora");
        if (cases[i].value)
            json_object_set_new(lora, cases[i].key, cases[i].value);
        else
            json_object_del(lora, cases[i].key);
        assert_int_equal(kvsi_json_write(object, path, &err), KVS_OK);
        json_decref(object);
        assert_true(kvs_model_load(&loaded, rt, dir, NULL, &err) != KVS_OK);
        if (!strstr(err.message, cases[i].says))
            fail_msg("'%s' does not contain '%s'", err.message, cases[i].says);
        kvsi_free(path);
        support_remove_dir(dir);
    }
    kvs_model_free(model);
    kvs_runtime_free(rt);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(merged_models_compute_the_same),
        cmocka_unit_test(new_adapters_keep_the_bits),
        cmocka_unit_test(initial_values_are_those_of_peft),
        cmocka_unit_test(names_and_patterns_choose_matrices),
        cmocka_unit_test(wrong_adapters_are_refused),
        cmocka_unit_test(packed_rows_have_no_adapter),
        cmocka_unit_test(adapters_have_the_names_of_their_family),
        cmocka_unit_test(other_adapters_are_refused_by_key),
        cmocka_unit_test(other_tensors_are_refused_by_name),
        cmocka_unit_test(inputs_are_checked),
        cmocka_unit_test(wrong_settings_of_adapters_are_refused),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
