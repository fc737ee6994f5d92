/* Models of the families that people have, made by transformers: their reference log-probabilities,
 * and the same logits from the mapped file, after saving and after a retrofit; training reduces
 * their loss.  Others are refused, and so is every key of config.json with a value that it cannot
 * have; no key is ignored.  test_gguf_families.c has the same models in GGUF files.
 *
 * They are in $KVSHIFT_SHARED/data/zoo; without them the tests are skipped. */
#include "base/files.h"
#include "base/json.h"
#include "base/memory.h"
#include "data/tasks/tasks.h"
#include "formats/hf.h"
#include "support.h"
#include "train/trainer.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { JSON_LIMIT = 1 << 20, TOKENS_MAX = 64 };

/* A folder, and how its model is written when nothing was added (NULL = it is refused, because of
 * `missing`). */
typedef struct folder {
    const char *name, *written, *missing;
} folder;

static const folder folders[] = {
    {"gpt2", "gpt2", NULL},
    {"gpt2-old", "gpt2", NULL},
    {"llama-bias", "llama", NULL},
    {"llama-eos", "llama", NULL},
    {"llama-headdim", "llama", NULL},
    {"llama-old", "llama", NULL},
    {"llama-rope-dynamic", "llama", NULL},
    {"llama-rope-linear", "llama", NULL},
    {"llama-rope-linear-v4", "llama", NULL},
    {"llama-rope-llama3", "llama", NULL},
    {"llama-rope-llama3-v4", "llama", NULL},
    {"llama-rope-yarn", "llama", NULL},
    {"llama-rope-yarn-v4", "llama", NULL},
    {"llama-tied", "llama", NULL},
    {"llama-untied", "llama", NULL},
    {"llama-v4", "llama", NULL},
    {"mistral", "mistral", NULL},
    {"mistral-full", "mistral", NULL},
    {"mistral-v4", "mistral", NULL},
    {"phi3", "phi3", NULL},
    {"phi3-longrope", "phi3", NULL},
    {"phi3-longrope-v4", "phi3", NULL},
    {"qwen2", "qwen2", NULL},
    {"qwen2-swa", "qwen2", NULL},
    {"qwen2-swa-v4", "qwen2", NULL},
    {"qwen2-v4", "qwen2", NULL},
    {"qwen3", "qwen3", NULL},
    {"qwen3-v4", "qwen3", NULL},
    {"granite", "granite", NULL},
    {"smollm3", "smollm3", NULL},
    {"olmo2", "olmo2", NULL},
    {"gemma2", "gemma2", NULL},
    {"gemma2-v4", "gemma2", NULL},
    {"gemma3", "gemma3_text", NULL},
    {"gemma3-v4", "gemma3_text", NULL},
    {"gpt_neox", "gpt_neox", NULL},
    {"gpt_neox-seq", "gpt_neox", NULL},
    {"gpt_neox-v4", "gpt_neox", NULL},
    {"stablelm", "stablelm", NULL},
    {"stablelm-parallel", "stablelm", NULL},
    {"stablelm-v4", "stablelm", NULL},
    {"opt", "opt", NULL},
    {"inkling-dense", "inkling_text", NULL},
    {"llama-tied-both", NULL, "'tie_word_embeddings'"},
    {"inkling", NULL, "'inkling_text'"},
    {"lfm2", NULL, "'lfm2'"},
    {"mixtral", NULL, "mixtures of experts"},
    {"opt-postnorm", NULL, "'do_layer_norm_before'"},
};

enum { FOLDERS = sizeof folders / sizeof *folders };

static kvs_err err;

/* The path of a file of a folder, or of the folder; skips the test if it does not exist. */
static char *find(const char *name, const char *file)
{
    const char *shared = getenv("KVSHIFT_SHARED");
    char *zoo = kvsi_path_join(shared ? shared : "", "data/zoo"), *path = kvsi_path_join(zoo, name);
    char *whole = file ? kvsi_path_join(path, file) : kvsi_strdup(path);
    const int there = shared && kvsi_file_exists(whole);

    kvsi_free(zoo);
    kvsi_free(path);
    if (there)
        return whole;
    print_message("skipped: no data/zoo/%s below $KVSHIFT_SHARED\n", name);
    kvsi_free(whole);
    skip();
    return NULL;
}

/* The models are so small that threads would only wait for each other. */
static kvs_runtime *one_thread(void)
{
    const kvs_runtime_options options = {.size = sizeof options, .threads = 1};
    kvs_runtime *rt;

    assert_int_equal(kvs_runtime_create(&rt, &options, &err), KVS_OK);
    return rt;
}

static kvs_model *load(kvs_runtime *rt, const char *path)
{
    kvs_model *model;

    if (kvs_model_load(&model, rt, path, NULL, &err) != KVS_OK)
        fail_msg("%s", err.message);
    return model;
}

static json_t *read_json(const char *name, const char *file)
{
    char *path = find(name, file);
    json_t *object;

    if (kvsi_json_read(&object, path, JSON_LIMIT, &err) != KVS_OK)
        fail_msg("%s", err.message);
    kvsi_free(path);
    return object;
}

/* ---- reference log-probabilities ---- */

static double log_probability(const real *logits, size_t vocab, int32_t id)
{
    double sum = 0;

    for (size_t v = 0; v < vocab; v++)
        sum += exp((double)logits[v] - (double)logits[id]);
    return -log(sum);
}

/* Feeds all ids in one pass and returns the logits of every position, which the caller frees. */
static real *logits_of(const kvs_model *model, const int32_t *ids, size_t count)
{
    const size_t starts[] = {0, count}, vocab = kvs_model_logit_count(model);
    const kvs_batch batch = {.sequences = 1, .starts = starts, .ids = ids};
    kvsi_pass *pass = support_pass(model, count, 1, 0);
    real *logits = kvsi_alloc(count * vocab, sizeof *logits);

    assert_non_null(logits);
    support_run(pass, &batch, NULL, logits);
    kvsi_pass_free(pass);
    return logits;
}

static size_t read_ids(int32_t *ids, const json_t *list)
{
    const size_t count = json_array_size(list);

    assert_in_range(count, 1, TOKENS_MAX);
    for (size_t i = 0; i < count; i++)
        ids[i] = (int32_t)json_integer_value(json_array_get(list, i));
    return count;
}

static void check_case(const kvs_model *model, const json_t *reference, const char *name)
{
    const json_t *expected = json_object_get(reference, "logprobs_next");
    const size_t vocab = kvs_model_logit_count(model);
    int32_t ids[TOKENS_MAX];
    const size_t count = read_ids(ids, json_object_get(reference, "ids"));
    real *logits = logits_of(model, ids, count);

    for (size_t i = 0; i + 1 < count; i++) {
        const double found = log_probability(logits + i * vocab, vocab, ids[i + 1]);
        const double wanted = json_number_value(json_array_get(expected, i));

        if (!(fabs(found - wanted) < 1e-4))
            fail_msg("%s: token %zu of %zu: %.6f, expected %.6f", name, i + 1, count, found,
                     wanted);
    }
    kvsi_free(logits);
}

static void families_have_the_references_of_transformers(void **state)
{
    kvs_runtime *rt = support_runtime(NULL);

    (void)state;
    for (size_t f = 0; f < FOLDERS; f++) {
        json_t *reference, *cases;
        kvs_model *model;
        char *path;

        if (!folders[f].written)
            continue;
        path = find(folders[f].name, NULL);
        reference = read_json(folders[f].name, "reference.json");
        cases = json_object_get(reference, "cases");
        model = load(rt, path);
        assert_true(json_array_size(cases) >= 3);
        for (size_t i = 0; i < json_array_size(cases); i++)
            check_case(model, json_array_get(cases, i), folders[f].name);
        kvs_model_free(model);
        json_decref(reference);
        kvsi_free(path);
    }
    kvs_runtime_free(rt);
}

static void other_models_are_refused_by_name(void **state)
{
    kvs_runtime *rt = support_runtime(NULL);

    (void)state;
    for (size_t f = 0; f < FOLDERS; f++) {
        kvs_model *model;
        char *path;

        if (folders[f].written)
            continue;
        path = find(folders[f].name, NULL);
        assert_int_equal(kvs_model_load(&model, rt, path, NULL, &err), KVS_E_UNSUPPORTED);
        if (!strstr(err.message, folders[f].missing))
            fail_msg("%s: '%s' does not contain %s", folders[f].name, err.message,
                     folders[f].missing);
        kvsi_free(path);
    }
    kvs_runtime_free(rt);
}

/* ---- saved again ---- */

enum { COUNT = 40 };

static void expect_same_logits(const kvs_model *a, const kvs_model *b, const char *name,
                               const char *how)
{
    const size_t bytes = COUNT * kvs_model_logit_count(a) * sizeof(real);
    real *left, *right;
    int32_t ids[COUNT];

    support_fill_ids(ids, COUNT, 3, kvs_model_logit_count(a));
    left = logits_of(a, ids, COUNT);
    right = logits_of(b, ids, COUNT);
    if (memcmp(left, right, bytes) != 0)
        fail_msg("%s: other logits %s", name, how);
    kvsi_free(left);
    kvsi_free(right);
}

static void expect_type(const char *dir, const char *type)
{
    char *path = kvsi_path_join(dir, "config.json");
    json_t *object;

    assert_int_equal(kvsi_json_read(&object, path, JSON_LIMIT, NULL), KVS_OK);
    assert_string_equal(json_string_value(json_object_get(object, "model_type")), type);
    json_decref(object);
    kvsi_free(path);
}

/* Saves the model, reads it again and compares. */
static void check_saved(kvs_runtime *rt, const kvs_model *model, const char *type, const char *name)
{
    char *dir = support_make_dir();
    kvs_model *again;

    assert_int_equal(kvs_model_save(model, dir, &err), KVS_OK);
    expect_type(dir, type);
    again = load(rt, dir);
    expect_same_logits(model, again, name, type);
    kvs_model_free(again);
    support_remove_dir(dir);
}

/* Run from the mapped file, it has the same bits. */
static void check_mapped(kvs_runtime *rt, const kvs_model *model, const char *path,
                         const char *name)
{
    kvs_load_options options;
    kvs_model *mapped;

    kvs_load_options_init(&options, sizeof options);
    options.mapped = 1;
    if (kvs_model_load(&mapped, rt, path, &options, &err) != KVS_OK)
        fail_msg("%s", err.message);
    expect_same_logits(model, mapped, name, "from the mapped file");
    kvs_model_free(mapped);
}

static void check_retrofit(kvs_runtime *rt, const kvs_model *model, const char *name)
{
    kvs_model_config shift = *kvs_model_get_config(model);
    kvs_model *shifted;

    shift.shift.targets = KVS_SHIFT_Q | KVS_SHIFT_K | KVS_SHIFT_V;
    if (kvs_model_retrofit(&shifted, rt, model, &shift, &err) != KVS_OK)
        fail_msg("%s: %s", name, err.message);
    expect_same_logits(model, shifted, name, "after a retrofit");
    check_saved(rt, shifted, "kvshift", name);
    kvs_model_free(shifted);
}

/* The same without training, by the conversion of files. */
static void check_converted(kvs_runtime *rt, const kvs_model *model, const char *path,
                            const char *name)
{
    char *dir = support_make_dir(), *out = kvsi_path_join(dir, "shifted");
    kvs_model_config shift = *kvs_model_get_config(model);
    kvs_convert_options options;
    kvs_model *shifted;

    shift.shift.targets = KVS_SHIFT_Q | KVS_SHIFT_K | KVS_SHIFT_V;
    kvs_convert_options_init(&options, sizeof options);
    options.tokenizer = "none";
    options.shift = &shift;
    if (kvs_convert(out, path, &options, &err) != KVS_OK)
        fail_msg("%s: %s", name, err.message);
    shifted = load(rt, out);
    assert_int_equal(kvs_model_get_config(shifted)->shift.targets, shift.shift.targets);
    expect_same_logits(model, shifted, name, "after a conversion with a shift");
    if (kvs_convert(out, path, &options, &err) == KVS_OK || !strstr(err.message, "already"))
        fail_msg("%s: '%s' is replaced", name, out);
    kvs_model_free(shifted);
    kvsi_free(out);
    support_remove_dir(dir);
}

static void families_are_written_so_that_others_read_them(void **state)
{
    kvs_runtime *rt = one_thread();

    (void)state;
    for (size_t f = 0; f < FOLDERS; f++) {
        kvs_model *model;
        char *path;

        if (!folders[f].written)
            continue;
        path = find(folders[f].name, NULL);
        model = load(rt, path);
        check_mapped(rt, model, path, folders[f].name);
        check_saved(rt, model, folders[f].written, folders[f].name);
        if (kvs_model_get_config(model)->shift.targets == 0) {
            check_retrofit(rt, model, folders[f].name);
            check_converted(rt, model, path, folders[f].name);
        }
        kvs_model_free(model);
        kvsi_free(path);
    }
    kvs_runtime_free(rt);
}

/* ---- training ---- */

enum { STEPS = 20 };

/* What is trained, and how fast. */
typedef struct way {
    const char *name;
    double lr;
    size_t rank;
    int only_shift;
} way;

static const way ways[] = {
    {"all weights", 2e-3, 0, 0},
    {"adapters", 1e-2, 8, 0},
    {"the shift", 3e-2, 0, 1},
};

/* 20 texts that are the same in every step: the model can learn them. */
static kvs_data *make_texts(void)
{
    static const kvsi_ngram_config ngram = {.alphabet = 8, .pairs = 16, .answers = 8, .seed = 1};
    kvs_data *data;

    assert_int_equal(kvsi_ngram_create(&data, &ngram, NULL), KVS_OK);
    return data;
}

/* Packed rows have no adapters of their own; with a shift that is added the model is no longer of a
 * family with such rows.  Returns the model to train, which has a shift. */
static kvs_model *prepare(kvs_runtime *rt, const kvs_model *model, const char *path, const way *w,
                          const char *name)
{
    const kvs_adapter_options options = {.size = sizeof options, .rank = w->rank, .seed = 1};
    kvs_model_config shift = *kvs_model_get_config(model);
    kvs_model *shifted, *adapted;

    shift.shift.targets = KVS_SHIFT_K | KVS_SHIFT_V;
    if (kvs_model_get_config(model)->shift.targets != 0)
        shifted = load(rt, path);
    else if (kvs_model_retrofit(&shifted, rt, model, &shift, &err) != KVS_OK)
        fail_msg("%s: %s", name, err.message);
    if (w->rank == 0)
        return shifted;
    if (kvs_model_adapt(&adapted, rt, shifted, &options, &err) != KVS_OK)
        fail_msg("%s: %s", name, err.message);
    expect_same_logits(shifted, adapted, name, "with adapters");
    kvs_model_free(shifted);
    return adapted;
}

static void check_training(kvs_runtime *rt, const kvs_model *plain, const char *path, const way *w,
                           const char *name)
{
    kvs_model *model = prepare(rt, plain, path, w, name);
    kvs_data *data = make_texts();
    const kvs_step_record *record;
    kvs_train_config config;
    kvs_trainer *trainer;
    double first = 0;

    kvsi_train_config_init(&config);
    config.batch = 16;
    config.warmup = 0;
    config.weight_decay = 0;
    config.lr = w->lr;
    config.only_shift = w->only_shift;
    if (kvs_trainer_create(&trainer, model, data, &config, &err) != KVS_OK)
        fail_msg("%s: %s", name, err.message);
    for (int i = 0; i < STEPS; i++) {
        assert_int_equal(kvs_trainer_step(&record, trainer, NULL), KVS_OK);
        first = i == 0 ? record->loss : first;
    }
    if (!(record->loss < first))
        fail_msg("%s, %s: loss %.6f after %d steps, %.6f before", name, w->name, record->loss,
                 STEPS, first);
    kvs_trainer_free(trainer);
    kvs_data_free(data);
    kvs_model_free(model);
}

static void every_family_can_be_trained(void **state)
{
    kvs_runtime *rt = support_runtime(NULL);

    (void)state;
    for (size_t f = 0; f < FOLDERS; f++) {
        kvs_model *model;
        char *path;

        if (!folders[f].written)
            continue;
        path = find(folders[f].name, NULL);
        model = load(rt, path);
        for (size_t i = 0; i < sizeof ways / sizeof *ways; i++)
            check_training(rt, model, path, &ways[i], folders[f].name);
        kvs_model_free(model);
        kvsi_free(path);
    }
    kvs_runtime_free(rt);
}

/* ---- keys ---- */

/* Keys that change nothing that is computed here: about training, other programs or tokens (which
 * have a reader of their own), and ways to compute the same.  NULL = of every family. */
static const struct {
    const char *key, *type;
} harmless[] = {
    {"transformers_version", NULL},
    {"use_cache", NULL},
    {"torch_dtype", NULL},
    {"dtype", NULL},
    {"bos_token_id", NULL},
    {"eos_token_id", NULL},
    {"pad_token_id", NULL},
    {"pretraining_tp", NULL},
    {"reorder_and_upcast_attn", "gpt2"},
    {"summary_activation", "gpt2"}, /* and those that follow: heads for classification */
    {"summary_first_dropout", "gpt2"},
    {"summary_proj_to_labels", "gpt2"},
    {"summary_type", "gpt2"},
    {"summary_use_proj", "gpt2"},
    {"classifier_dropout", "gpt_neox"},
    {"is_decoder", "gpt_neox"},
    {"embd_pdrop", "phi3"}, /* and those that follow: dropout, which other families have */
    {"resid_pdrop", "phi3"},
    {"hidden_dropout", "stablelm"}, /* only of the MLP */
    {"layerdrop", "opt"},
    {"attention_dropout", "llama"},
    {"attention_dropout", "mistral"},
    {"attention_dropout", "qwen2"},
    {"attention_dropout", "qwen3"},
    {"attention_dropout", "granite"},
    {"attention_dropout", "smollm3"},
    {"attention_dropout", "phi3"},
    {"attention_dropout", "olmo2"},
    {"attention_dropout", "gemma2"},
    {"attention_dropout", "gemma3_text"},
    {"attention_dropout", "stablelm"},
    {"cache_implementation", "gemma2"},
    {"cache_implementation", "gemma3_text"},
    {"attention_dropout", "inkling_text"},
    {"moe_intermediate_size", "inkling_text"}, /* and those that follow: experts, later tokens */
    {"n_routed_experts", "inkling_text"},
    {"n_shared_experts", "inkling_text"},
    {"num_experts_per_tok", "inkling_text"},
    {"rms_norm_eps_moe_gate", "inkling_text"},
    {"route_scale", "inkling_text"},
    {"shared_expert_sink", "inkling_text"},
    {"chain_hidden_post_norm", "inkling_text"},
    {"mtp_hidden_states_first", "inkling_text"},
    {"mtp_local_layer_ids", "inkling_text"},
    {"number_of_conv_states", "inkling_text"}, /* follows from the others */
    {"vocab_size", "inkling_text"}, /* at least 'unpadded_vocab_size', which is the vocabulary */
};

static int is_harmless(const char *key, const char *type)
{
    for (size_t i = 0; i < sizeof harmless / sizeof *harmless; i++)
        if (strcmp(harmless[i].key, key) == 0 &&
            (!harmless[i].type || strcmp(harmless[i].type, type) == 0))
            return 1;
    return 0;
}

static const char *type_of(const json_t *config)
{
    return json_string_value(json_object_get(config, "model_type"));
}

/* A model of the zoo whose keys are tried. */
typedef struct trial {
    const folder *f;
    const json_t *config;
    kvs_runtime *rt; /* NULL: configurations are read, but no models */
    real *logits;    /* of `ids` */
    int32_t ids[COUNT];
} trial;

/* `object` is the object of the configuration that has the key, NULL for the outer one; `value` is
 * NULL for a key that the file lacks. */
typedef void try_key(const trial *t, const char *object, const char *key, const json_t *value);

static void try_keys_of_table(const trial *t, try_key *try)
{
    const kvsi_family *family = kvsi_family_find(type_of(t->config));

    for (size_t i = 0; kvsi_family_key_at(i); i++)
        if (kvsi_family_key_at(i)->families & family->bit &&
            !json_object_get(t->config, kvsi_family_key_at(i)->key))
            try(t, NULL, kvsi_family_key_at(i)->key, NULL);
    for (size_t i = 0; kvsi_family_fixed_at(i); i++)
        if (kvsi_family_fixed_at(i)->families & family->bit &&
            !json_object_get(t->config, kvsi_family_fixed_at(i)->key))
            try(t, NULL, kvsi_family_fixed_at(i)->key, NULL);
}

/* Calls `try` with every key of each family: those of its files and of the objects in them, and
 * those that families.c has beyond them. */
static void try_all_keys(try_key *try, kvs_runtime *rt)
{
    for (size_t i = 0; i < FOLDERS; i++) {
        trial t = {.f = &folders[i], .rt = rt};
        json_t *config, *value, *inner;
        const char *key, *name;

        if (!t.f->written)
            continue;
        t.config = config = read_json(t.f->name, "config.json");
        if (rt) {
            char *path = find(t.f->name, NULL);
            kvs_model *model = load(rt, path);

            support_fill_ids(t.ids, COUNT, 3, kvs_model_logit_count(model));
            t.logits = logits_of(model, t.ids, COUNT);
            kvs_model_free(model);
            kvsi_free(path);
        }
        json_object_foreach(config, key, value) {
            if (is_harmless(key, type_of(config)))
                continue;
            try(&t, NULL, key, value);
            json_object_foreach(value, name, inner)
                try(&t, key, name, inner);
        }
        try_keys_of_table(&t, try);
        kvsi_free(t.logits);
        json_decref(config);
    }
}

/* The configuration with another value of a key; takes the reference of the value. */
static json_t *changed(const json_t *config, const char *object, const char *key, json_t *value)
{
    json_t *copy = json_deep_copy(config);

    json_object_set_new(object ? json_object_get(copy, object) : copy, key, value);
    return copy;
}

static void expect_refused(const trial *t, const char *object, const char *key, json_t *value)
{
    json_t *config = changed(t->config, object, key, value);
    kvs_model_config read;

    if (kvsi_hf_config_from_json(&read, config, t->f->name, &err) == KVS_OK)
        fail_msg("%s: key '%s' is accepted with any value", t->f->name, key);
    if (strchr(err.message, '\n'))
        fail_msg("%s: more than one line: %s", t->f->name, err.message);
    json_decref(config);
}

/* No key has a text with this value, and no number is an object. */
static void try_nonsense(const trial *t, const char *object, const char *key, const json_t *value)
{
    (void)value;
    expect_refused(t, object, key, json_string("nonsense"));
    expect_refused(t, object, key, json_pack("{s:i}", "nonsense", 1));
}

static void keys_with_impossible_values_are_refused(void **state)
{
    (void)state;
    try_all_keys(try_nonsense, NULL);
}

/* Keys whose other values leave the logits of a short text as they are, in all folders or in those
 * whose name starts with `folder`. */
static const struct {
    const char *key, *folder;
} without_effect[] = {
    {"initializer_range", NULL}, /* of training, as those that follow */
    {"init_std", NULL},
    {"attn_pdrop", NULL},
    {"embd_pdrop", NULL},
    {"resid_pdrop", NULL},
    {"hidden_dropout", NULL},
    {"attention_dropout", NULL},
    {"dropout", NULL},
    {"max_position_embeddings", NULL},            /* the text is shorter */
    {"long_factor", "phi3"},                      /* only beyond the original context */
    {"factor", "llama-rope-dynamic"},             /* only beyond the original context */
    {"original_max_position_embeddings", "phi3"}, /* is for a scaling, and there is none */
    {"max_window_layers", "qwen"},                /* 'layer_types' says it, here and below */
    {"use_sliding_window", "qwen"},
    {"use_sliding_window", "smollm3"},
    {"_sliding_window_pattern", "gemma3"},
    {"sliding_window", "qwen2-v4"}, /* 'use_sliding_window' is false */
    {"sliding_window", "qwen3-v4"},
    {"no_rope_layer_interval", "smollm3"}, /* 'no_rope_layers' says it */
};

static int has_effect(const char *key, const char *name)
{
    for (size_t i = 0; i < sizeof without_effect / sizeof *without_effect; i++) {
        const char *start = without_effect[i].folder;

        if (strcmp(without_effect[i].key, key) == 0 &&
            (!start || strncmp(start, name, strlen(start)) == 0))
            return 0;
    }
    return 1;
}

/* A name in a list: of a kind of layer the other one, or one that there is not. */
static json_t *another_name(const char *name)
{
    static const char *const pairs[][2] = {
        {"full_attention", "sliding_attention"},
        {"hybrid", "hybrid_sliding"},
    };

    for (size_t i = 0; i < sizeof pairs / sizeof *pairs; i++)
        for (size_t k = 0; k < 2; k++)
            if (strcmp(name, pairs[i][k]) == 0)
                return json_string(pairs[i][1 - k]);
    return json_string("nonsense");
}

static json_t *another(const json_t *value);

/* A list in which one member is another one. */
static json_t *with_another(const json_t *list, size_t index)
{
    const json_t *member = json_array_get(list, index);
    json_t *copy = json_deep_copy(list);

    if (json_is_string(member))
        json_array_set_new(copy, index, another_name(json_string_value(member)));
    else if (json_is_integer(member) && json_integer_value(member) <= 1) /* a flag */
        json_array_set_new(copy, index, json_integer(!json_integer_value(member)));
    else
        json_array_set_new(copy, index, another(member));
    return copy;
}

/* Another value of the same kind; NULL if the kind has none. */
static json_t *another(const json_t *value)
{
    if (json_is_boolean(value))
        return json_boolean(!json_is_true(value));
    if (json_is_integer(value))
        return json_integer(4 * json_integer_value(value) + 1);
    return json_is_real(value) ? json_real(json_real_value(value) * 0.75) : NULL;
}

static void expect_other_logits(const trial *t, const kvs_model *model, const char *key)
{
    const size_t vocab = kvs_model_logit_count(model);
    real *logits = logits_of(model, t->ids, COUNT);

    if (memcmp(t->logits, logits, COUNT * vocab * sizeof *logits) == 0)
        fail_msg("%s: key '%s' has no effect", t->f->name, key);
    kvsi_free(logits);
}

/* With a value that does not fit the weights the model is refused; any other value is read.  Takes
 * the reference of the value. */
static void expect_effect(const trial *t, const char *object, const char *key, json_t *other)
{
    char *dir, *path, *weights, *link;
    kvs_model *model;
    json_t *config;

    dir = support_make_dir();
    path = kvsi_path_join(dir, "config.json");
    link = kvsi_path_join(dir, "model.safetensors");
    weights = find(t->f->name, "model.safetensors");
    config = changed(t->config, object, key, other);
    assert_int_equal(kvsi_json_write(config, path, &err), KVS_OK);
    assert_int_equal(symlink(weights, link), 0);
    if (kvs_model_load(&model, t->rt, dir, NULL, &err) == KVS_OK) {
        expect_other_logits(t, model, key);
        kvs_model_free(model);
    }
    json_decref(config);
    kvsi_free(path);
    kvsi_free(link);
    kvsi_free(weights);
    support_remove_dir(dir);
}

static void try_another(const trial *t, const char *object, const char *key, const json_t *value)
{
    json_t *other = another(value);

    if (!has_effect(key, t->f->name)) {
        json_decref(other);
        return;
    }
    if (other)
        expect_effect(t, object, key, other);
    for (size_t i = 0; i < json_array_size(value); i++)
        expect_effect(t, object, key, with_another(value, i));
}

static void no_key_is_ignored(void **state)
{
    kvs_runtime *rt = one_thread();

    (void)state;
    try_all_keys(try_another, rt);
    kvs_runtime_free(rt);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(families_have_the_references_of_transformers),
        cmocka_unit_test(other_models_are_refused_by_name),
        cmocka_unit_test(families_are_written_so_that_others_read_them),
        cmocka_unit_test(every_family_can_be_trained),
        cmocka_unit_test(keys_with_impossible_values_are_refused),
        cmocka_unit_test(no_key_is_ignored),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
