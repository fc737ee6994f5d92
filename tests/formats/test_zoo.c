/* Models of the families that people have, made by transformers: their reference log-probabilities,
 * and the same logits after saving, after a retrofit, and from GGUF; training reduces their loss.
 * Families that are not supported are refused, and so is every key of config.json with a value that
 * it cannot have.
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
    {"llama-tied-both", NULL, "'tie_word_embeddings'"},
    {"gpt_neox", NULL, "'gpt_neox'"},
    {"inkling", NULL, "'inkling_text'"},
    {"lfm2", NULL, "'lfm2'"},
    {"mixtral", NULL, "mixtures of experts"},
    {"opt", NULL, "'opt'"},
    {"stablelm", NULL, "'stablelm'"},
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

static void check_gguf(kvs_runtime *rt, const kvs_model *model, const char *path, const char *name)
{
    char *dir = support_make_dir(), *file = kvsi_path_join(dir, "model.gguf");
    kvs_convert_options options;
    kvs_model *again;

    kvs_convert_options_init(&options, sizeof options);
    options.format = KVS_FORMAT_GGUF;
    options.tokenizer = "none";
    if (kvs_convert(file, path, &options, &err) != KVS_OK)
        fail_msg("%s: %s", name, err.message);
    again = load(rt, file);
    expect_same_logits(model, again, name, "from GGUF");
    kvs_model_free(again);
    kvsi_free(file);
    support_remove_dir(dir);
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
    kvs_runtime *rt = support_runtime(NULL);

    (void)state;
    for (size_t f = 0; f < FOLDERS; f++) {
        kvs_model *model;
        char *path;

        if (!folders[f].written)
            continue;
        path = find(folders[f].name, NULL);
        model = load(rt, path);
        check_saved(rt, model, folders[f].written, folders[f].name);
        check_retrofit(rt, model, folders[f].name);
        check_converted(rt, model, path, folders[f].name);
        if (kvs_model_get_config(model)->body == KVSI_BODY_LLAMA)
            check_gguf(rt, model, path, folders[f].name);
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

/* Packed rows have no adapters of their own; with the shift the model is no longer of a family with
 * such rows.  Returns the model to train, which has a shift. */
static kvs_model *prepare(kvs_runtime *rt, const kvs_model *model, const way *w, const char *name)
{
    const kvs_adapter_options options = {.size = sizeof options, .rank = w->rank, .seed = 1};
    kvs_model_config shift = *kvs_model_get_config(model);
    kvs_model *shifted, *adapted;

    shift.shift.targets = KVS_SHIFT_K | KVS_SHIFT_V;
    if (kvs_model_retrofit(&shifted, rt, model, &shift, &err) != KVS_OK)
        fail_msg("%s: %s", name, err.message);
    if (w->rank == 0)
        return shifted;
    if (kvs_model_adapt(&adapted, rt, shifted, &options, &err) != KVS_OK)
        fail_msg("%s: %s", name, err.message);
    expect_same_logits(shifted, adapted, name, "with adapters");
    kvs_model_free(shifted);
    return adapted;
}

static void check_training(kvs_runtime *rt, const kvs_model *plain, const way *w, const char *name)
{
    kvs_model *model = prepare(rt, plain, w, name);
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
            check_training(rt, model, &ways[i], folders[f].name);
        kvs_model_free(model);
        kvsi_free(path);
    }
    kvs_runtime_free(rt);
}

/* ---- keys ---- */

/* Keys that change nothing that is computed here: about training, other programs or tokens (which
 * have a reader of their own), and ways to compute the same. */
static const char *const harmless[] = {
    "transformers_version", "use_cache",
    "torch_dtype",          "dtype",
    "bos_token_id",         "eos_token_id",
    "pad_token_id",         "attention_dropout",
    "pretraining_tp",       "reorder_and_upcast_attn",
    "cache_implementation",
};

static int is_harmless(const char *key, const char *type)
{
    for (size_t i = 0; i < sizeof harmless / sizeof *harmless; i++)
        if (strcmp(harmless[i], key) == 0)
            return 1;
    if (strcmp(type, "phi3") == 0) /* of training */
        return strcmp(key, "embd_pdrop") == 0 || strcmp(key, "resid_pdrop") == 0;
    return strncmp(key, "summary_", 8) == 0; /* of GPT-2's heads for classification */
}

/* No key has a text with this value, and no number is an object. */
static void check_key(const json_t *config, const char *key, json_t *value, const char *name)
{
    json_t *changed = json_copy((json_t *)config);
    kvs_model_config read;

    json_object_set_new(changed, key, value);
    if (kvsi_hf_config_from_json(&read, changed, name, &err) == KVS_OK)
        fail_msg("%s: key '%s' is accepted with any value", name, key);
    if (strchr(err.message, '\n'))
        fail_msg("%s: more than one line: %s", name, err.message);
    json_decref(changed);
}

static void keys_with_impossible_values_are_refused(void **state)
{
    (void)state;
    for (size_t f = 0; f < FOLDERS; f++) {
        json_t *config, *value;
        const char *key, *type;

        if (!folders[f].written)
            continue;
        config = read_json(folders[f].name, "config.json");
        type = json_string_value(json_object_get(config, "model_type"));
        json_object_foreach(config, key, value) {
            if (is_harmless(key, type))
                continue;
            check_key(config, key, json_string("nonsense"), folders[f].name);
            check_key(config, key, json_pack("{s:i}", "nonsense", 1), folders[f].name);
        }
        json_decref(config);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(families_have_the_references_of_transformers),
        cmocka_unit_test(other_models_are_refused_by_name),
        cmocka_unit_test(families_are_written_so_that_others_read_them),
        cmocka_unit_test(every_family_can_be_trained),
        cmocka_unit_test(keys_with_impossible_values_are_refused),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
