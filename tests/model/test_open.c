/* Models opened for inference: they behave like loaded ones, need less memory, and are never
 * changed. */
#include "base/files.h"
#include "base/folders.h"
#include "base/memory.h"
#include "convert/convert.h"
#include "data/tasks/tasks.h"
#include "family.h"
#include "kvshift/kvshift_lab.h"
#include "model_files.h"

#include <string.h>

enum { VOCAB = 19, CONTEXT = 40, CHUNK = 33 };

static kvs_runtime *rt;
static char *dir, *out;

static int set_up(void **state)
{
    (void)state;
    rt = support_runtime(NULL);
    dir = support_make_dir();
    assert_non_null(out = kvsi_path_join(dir, "out"));
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

static kvs_model *open_or_load(const char *path, int open)
{
    const kvs_load_options options = {.size = sizeof options, .mapped = open};
    kvs_model *model = NULL;
    kvs_err err;

    if (kvs_model_load(&model, rt, path, &options, &err) != KVS_OK)
        fail_msg("%s", err.message);
    return model;
}

/* ---- the same as loaded ---- */

enum { POINTS = 3 };

/* Logits of a chunk that is large enough for tiles, of a few tokens, and of one token. */
static void run_model(float logits[POINTS][VOCAB], const kvs_model *model)
{
    static const size_t counts[POINTS] = {CHUNK, 3, 1};
    int32_t ids[CONTEXT];
    kvs_session *s;
    size_t at = 0;

    memset(logits, 0, POINTS * sizeof *logits);
    support_fill_ids(ids, CONTEXT, 3, VOCAB);
    assert_true(kvs_model_logit_count(model) <= VOCAB);
    assert_int_equal(kvs_session_create(&s, model, NULL, NULL), KVS_OK);
    for (size_t i = 0; i < POINTS; at += counts[i++])
        assert_int_equal(kvs_session_feed(s, ids + at, counts[i], logits[i], NULL), KVS_OK);
    kvs_session_free(s);
}

/* A session saved with one of them continues in the other: they have the same fingerprint. */
static void exchange_sessions(const kvs_model *loaded, const kvs_model *opened)
{
    char *path = kvsi_path_join(dir, "a.session");
    const int32_t id = 1;
    kvs_session *s, *other;
    kvs_err err;

    assert_int_equal(kvs_session_create(&s, loaded, NULL, NULL), KVS_OK);
    assert_int_equal(kvs_session_feed(s, &id, 1, NULL, NULL), KVS_OK);
    assert_int_equal(kvs_session_save(s, path, NULL), KVS_OK);
    if (kvs_session_load(&other, opened, path, NULL, &err) != KVS_OK)
        fail_msg("%s", err.message);
    kvs_session_free(s);
    kvs_session_free(other);
    kvsi_free(path);
}

static const char *format_name;
static kvs_dtype dtype;

/* Products with plain types have the same order in memory and in a file, so the bits are equal. */
static void check_opened(const kvs_model *model, const char *name)
{
    kvsi_convert_request options;
    kvs_model *loaded, *opened;
    float a[POINTS][VOCAB], b[POINTS][VOCAB];
    char *target = kvsi_path_join(dir, format_name);
    kvs_err err;

    assert_int_equal(kvs_model_save(model, dir, NULL), KVS_OK);
    kvsi_convert_request_init(&options);
    options.in = dir;
    options.out = target;
    options.how.dtype = dtype;
    options.how.overwrite = 1;
    options.how.merge = model->config.lora.rank > 0; /* no format has adapters */
    if (model->config.body == KVSI_BODY_LLAMA || strcmp(format_name, "hf") == 0) {
        if (kvsi_convert(&options, &err) != KVS_OK)
            fail_msg("%s: %s", name, err.message);
        loaded = open_or_load(target, 0);
        opened = open_or_load(target, 1);
        run_model(a, loaded);
        run_model(b, opened);
        if (memcmp(a, b, sizeof a) != 0)
            fail_msg("%s as %s in %s: opened and loaded differ", name, kvs_dtype_name(dtype),
                     format_name);
        exchange_sessions(loaded, opened);
        kvs_model_free(loaded);
        kvs_model_free(opened);
    }
    kvsi_free(target);
}

static void opened_models_have_the_bits_of_loaded_ones(void **state)
{
    static const family_scope scope = {
        .sizes = {.vocab = VOCAB, .dim = 24, .ffn = 20, .context = CONTEXT}, .levels = 1};
    static const char *const names[] = {"hf", "model.gguf"};
    static const kvs_dtype dtypes[] = {KVS_DTYPE_F32, KVS_DTYPE_F16, KVS_DTYPE_BF16};

    (void)state;
    for (size_t f = 0; f < 2; f++)
        for (size_t d = 0; d < 3; d++) {
            format_name = names[f];
            dtype = dtypes[d];
            family_each_model(&scope, check_opened);
        }
}

/* A safetensors file with all tensors moved by `by` bytes: the header is padded with spaces. */
static char *write_moved(const kvs_model *model, size_t by)
{
    kvsi_text file = {0}, moved = {0};
    uint64_t header;
    char *path;

    put_model_safetensors(&file, model, KVSI_F32, 0, model->layout.count);
    memcpy(&header, file.data, sizeof header);
    put_u64(&moved, header + by);
    put_bytes(&moved, file.data + sizeof header, header);
    put_bytes(&moved, "        ", by);
    put_bytes(&moved, file.data + sizeof header + header, file.length - sizeof header - header);
    path = write_file(dir, "model.safetensors", moved.data, moved.length);
    kvsi_text_release(&file);
    kvsi_text_release(&moved);
    return path;
}

static kvs_model *family_model(size_t dim)
{
    const support_sizes sizes = {.vocab = VOCAB, .dim = dim, .ffn = 2 * dim, .context = CONTEXT};
    const kvs_model_config special = {SUPPORT_SHIFT(3, FREE, 1), .kv_heads = 2};
    const kvs_model_config config = support_config(&special, &sizes);

    return support_model(rt, &config, 7);
}

static void odd_places_do_not_matter(void **state)
{
    kvs_model *model = family_model(16);
    float a[POINTS][VOCAB], b[POINTS][VOCAB];
    size_t views = 0;

    (void)state;
    assert_int_equal(kvs_model_save(model, dir, NULL), KVS_OK);
    run_model(a, model);
    for (size_t by = 0; by < 4; by++) {
        char *path = write_moved(model, by);
        kvs_model *opened = open_or_load(path, 1);

        run_model(b, opened);
        assert_memory_equal(a, b, sizeof a);
        views += opened->values[0] == NULL;
        kvs_model_free(opened);
        kvsi_free(path);
    }
    assert_int_equal(views, 1); /* one of four offsets is aligned for a float */
    kvs_model_free(model);
}

static void saving_gives_what_loading_gives(void **state)
{
    kvs_model *model = family_model(16), *opened, *again;
    float a[POINTS][VOCAB], b[POINTS][VOCAB];
    int made;

    (void)state;
    assert_int_equal(kvs_model_save(model, dir, NULL), KVS_OK);
    assert_int_equal(kvsi_dir_make(out, &made, NULL), KVS_OK);
    opened = open_or_load(dir, 1);
    assert_int_equal(kvs_model_save(opened, out, NULL), KVS_OK);
    again = open_or_load(out, 0);
    run_model(a, model);
    run_model(b, again);
    assert_memory_equal(a, b, sizeof a);
    kvs_model_free(model);
    kvs_model_free(opened);
    kvs_model_free(again);
}

/* ---- memory ---- */

static void weights_are_not_copied(void **state)
{
    kvs_model *model = family_model(256), *opened;
    const size_t weights = kvs_model_parameters(model) * sizeof(float);
    size_t live;

    (void)state;
    assert_int_equal(kvs_model_save(model, dir, NULL), KVS_OK);
    kvs_model_free(model);
    live = kvsi_memory_live();
    opened = open_or_load(dir, 1);
    assert_true(weights > 4000000);
    assert_in_range(kvsi_memory_live() - live, 1, 200000);     /* tables, names and small tensors */
    assert_int_equal(opened->matrices.layers[0].qkv.parts, 1); /* our own files: still fused */
    assert_int_equal(opened->matrices.layers[0].up.parts, 1);
    kvs_model_free(opened);
    assert_int_equal(kvsi_memory_live(), live);
}

/* ---- refusals ---- */

static void expect_read_only(kvs_status st, const kvs_err *err, const char *what)
{
    assert_int_equal(st, KVS_E_UNSUPPORTED);
    if (!strstr(err->message, "was opened for running and cannot be ") ||
        !strstr(err->message, what))
        fail_msg("'%s' does not contain '%s'", err->message, what);
}

static void opened_models_are_never_changed(void **state)
{
    const kvs_model_config shift = {.shift = {.targets = KVS_SHIFT_K, .window = 1}};
    kvs_train_config config;
    kvs_model *model = small_model(rt, 1), *opened, *copy = NULL;
    kvs_trainer *trainer = NULL;
    kvs_data *task;
    float gains[16] = {0};
    kvs_err err;

    (void)state;
    assert_int_equal(kvs_model_save(model, dir, NULL), KVS_OK);
    opened = open_or_load(dir, 1);
    expect_read_only(kvs_model_write_tensor(opened, "model.norm.weight", gains, 16, &err), &err,
                     "changed");
    expect_read_only(kvs_model_retrofit(&copy, rt, opened, &shift, &err), &err, "retrofitted");
    assert_null(copy);
    kvsi_train_config_init(&config);
    config.steps = 1;
    assert_int_equal(
        kvsi_ngram_create(&task, &(kvsi_ngram_config){.alphabet = 4, .pairs = 8, .answers = 3},
                          &err),
        KVS_OK);
    expect_read_only(kvs_trainer_create(&trainer, opened, task, &config, &err), &err, "trained");
    assert_null(trainer);
    kvs_data_free(task);
    kvs_model_free(opened);
    kvs_model_free(model);
}

#define WITH_FOLDER(test) cmocka_unit_test_setup_teardown(test, set_up, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        WITH_FOLDER(opened_models_have_the_bits_of_loaded_ones),
        WITH_FOLDER(odd_places_do_not_matter),
        WITH_FOLDER(saving_gives_what_loading_gives),
        WITH_FOLDER(weights_are_not_copied),
        WITH_FOLDER(opened_models_are_never_changed),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
