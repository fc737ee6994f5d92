/* Session files: with the right model they restore the session; all other files are refused, and
 * every value in a file is checked before it is used. */
#include "base/files.h"
#include "base/memory.h"
#include "config/config.h"
#include "formats/safetensors.h"
#include "infer/session.h"
#include "support.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

enum { VOCAB = 19, CONTEXT = 600, LENGTH = 530, PATH = 512 };

static kvs_model_config make_config(void)
{
    static const support_sizes sizes = {.vocab = VOCAB, .dim = 24, .ffn = 40, .context = CONTEXT};
    const kvs_model_config special = {SUPPORT_SHIFT(7, FREE, 2), .kv_heads = 2, .sliding_window = 5,
                                      .sliding_layers = 1};

    return support_config(&special, &sizes);
}

/* A saved session whose sliding window has dropped rows. */
typedef struct fixture {
    kvs_runtime *rt;
    kvs_model *model;
    kvs_session *session;
    char *dir;
    char path[PATH], other[PATH];
} fixture;

static int set_up(void **state)
{
    fixture *f = test_malloc(sizeof *f);
    const kvs_model_config config = make_config();
    int32_t ids[LENGTH];

    f->rt = support_runtime(NULL);
    f->model = support_model(f->rt, &config, 2);
    f->dir = support_make_dir();
    snprintf(f->path, sizeof f->path, "%s/a.session", f->dir);
    snprintf(f->other, sizeof f->other, "%s/b.session", f->dir);
    support_fill_ids(ids, LENGTH, 5, VOCAB);
    assert_int_equal(kvs_session_create(&f->session, f->model, NULL, NULL), KVS_OK);
    assert_int_equal(kvs_session_feed(f->session, ids, LENGTH, NULL, NULL), KVS_OK);
    assert_true(kvs_session_earliest(f->session) > 1);
    assert_int_equal(kvs_session_save(f->session, f->path, NULL), KVS_OK);
    *state = f;
    return 0;
}

static int tear_down(void **state)
{
    fixture *f = *state;

    kvs_session_free(f->session);
    kvs_model_free(f->model);
    kvs_runtime_free(f->rt);
    support_remove_dir(f->dir);
    test_free(f);
    return 0;
}

/* Checks that the file is refused with a message that has the words, and that no memory leaks. */
static void expect_refusal(const fixture *f, const kvs_model *model, const char *path,
                           size_t capacity, kvs_status status, const char *words)
{
    const size_t live = kvsi_memory_live();
    kvs_session *session = f->session;
    kvs_err err = {0};
    const kvs_status found = kvs_session_load(
        &session, model, path,
        &(kvs_session_options){.size = sizeof(kvs_session_options), .capacity = capacity}, &err);

    if (found != status || !strstr(err.message, words))
        fail_msg("found %d '%s', expected %d '%s'", (int)found, err.message, (int)status, words);
    assert_null(session);
    assert_int_equal(kvsi_memory_live(), live);
}

/* ---- valid files ---- */

static void a_loaded_session_goes_on_bit_for_bit(void **state)
{
    static const size_t capacities[] = {0, LENGTH + 3, CONTEXT};
    const int32_t more[] = {3, 1, 4};
    fixture *f = *state;
    float expected[VOCAB], logits[VOCAB];
    kvs_runner *runner;

    assert_int_equal(
        kvs_runner_create(&runner, f->model,
                          &(kvs_runner_options){.size = sizeof(kvs_runner_options), .sequences = 1},
                          NULL),
        KVS_OK);
    assert_int_equal(kvs_session_feed(f->session, more, 3, expected, NULL), KVS_OK);
    for (size_t i = 0; i < sizeof capacities / sizeof *capacities; i++) {
        kvs_session *loaded;

        assert_int_equal(
            kvs_session_load(&loaded, runner->model, f->path,
                             &(kvs_session_options){.size = sizeof(kvs_session_options),
                                                    .capacity = capacities[i],
                                                    .runner = runner},
                             NULL),
            KVS_OK);
        assert_int_equal(kvs_session_length(loaded), LENGTH);
        assert_int_equal(kvs_session_capacity(loaded), capacities[i] ? capacities[i] : CONTEXT);
        assert_int_equal(kvs_session_feed(loaded, more, 3, logits, NULL), KVS_OK);
        assert_memory_equal(logits, expected, sizeof logits);
        kvs_session_free(loaded);
    }
    kvs_runner_free(runner);
}

static void an_empty_session_can_be_saved(void **state)
{
    const int32_t id = 3;
    fixture *f = *state;
    float expected[VOCAB], logits[VOCAB];
    kvs_session *loaded;

    kvs_session_reset(f->session);
    assert_int_equal(kvs_session_save(f->session, f->other, NULL), KVS_OK);
    assert_int_equal(kvs_session_load(&loaded, f->model, f->other, NULL, NULL), KVS_OK);
    assert_int_equal(kvs_session_length(loaded), 0);
    assert_int_equal(kvs_session_feed(loaded, &id, 1, logits, NULL), KVS_OK);
    assert_int_equal(kvs_session_feed(f->session, &id, 1, expected, NULL), KVS_OK);
    assert_memory_equal(logits, expected, sizeof logits);
    kvs_session_free(loaded);
}

static void a_file_that_cannot_be_written_is_said(void **state)
{
    fixture *f = *state;
    char path[PATH + 16];
    kvs_err err;

    snprintf(path, sizeof path, "%s/none/a.session", f->dir);
    assert_int_equal(kvs_session_save(f->session, path, &err), KVS_E_IO);
    assert_non_null(strstr(err.message, "none/a.session"));
    expect_refusal(f, f->model, path, 0, KVS_E_IO, "none/a.session");
}

/* ---- files of other models ---- */

static void other_models_are_refused_by_name(void **state)
{
    fixture *f = *state;
    kvs_model_config config = make_config();
    kvs_model *other = support_model(f->rt, &config, 3);
    float *gain = test_malloc(24 * sizeof *gain);

    expect_refusal(f, other, f->path, 0, KVS_E_INVALID, "is a session of other weights");
    kvs_model_free(other);
    config.shift.window = 1;
    other = support_model(f->rt, &config, 2);
    expect_refusal(f, other, f->path, 0, KVS_E_INVALID, "its 'window' is 2, this one's is 1");
    kvs_model_free(other);
    config = make_config();
    config.ffn = 48;
    other = support_model(f->rt, &config, 2);
    expect_refusal(f, other, f->path, 0, KVS_E_INVALID,
                   "its 'intermediate_size' is 40, this one's is 48");
    kvs_model_free(other);
    /* One weight of the model is changed. */
    assert_int_equal(kvs_model_read_tensor(gain, 24, f->model, "model.norm.weight", NULL), KVS_OK);
    gain[7] += 1e-6f;
    assert_int_equal(kvs_model_write_tensor(f->model, "model.norm.weight", gain, 24, NULL), KVS_OK);
    expect_refusal(f, f->model, f->path, 0, KVS_E_INVALID, "is a session of other weights");
    test_free(gain);
}

static void room_is_needed(void **state)
{
    fixture *f = *state;

    expect_refusal(f, f->model, f->path, LENGTH - 1, KVS_E_LIMIT,
                   "has 530 tokens, the session is for 529");
    expect_refusal(f, f->model, f->path, CONTEXT + 1, KVS_E_LIMIT, "longer than the context 600");
}

/* ---- damaged files ---- */

static void write_bytes(const char *path, const char *bytes, size_t size)
{
    FILE *file = fopen(path, "wb");

    assert_non_null(file);
    assert_int_equal(fwrite(bytes, 1, size, file), size);
    assert_int_equal(fclose(file), 0);
}

static void damage_is_found(void **state)
{
    fixture *f = *state;
    char *bytes;
    size_t size;

    assert_int_equal(kvsi_file_read(&bytes, &size, f->path, 1 << 24, NULL), KVS_OK);
    for (size_t cut = 0; cut < size; cut += 1 + size / 40) {
        kvs_session *loaded;

        write_bytes(f->other, bytes, cut);
        assert_true(kvs_session_load(&loaded, f->model, f->other, NULL, NULL) != KVS_OK);
        assert_null(loaded);
    }
    for (size_t back = 1; back < size / 2; back += size / 50) { /* the second half is tensor data */
        bytes[size - back] ^= 1;
        write_bytes(f->other, bytes, size);
        expect_refusal(f, f->model, f->other, 0, KVS_E_FORMAT, "is damaged: its sum is");
        bytes[size - back] ^= 1;
    }
    /* A file with a wrong byte in its header is refused, or its session can be used. */
    for (size_t at = 0; at < 4000; at += 37) {
        kvs_session *loaded;
        const char before = bytes[at];

        bytes[at] = '7';
        write_bytes(f->other, bytes, size);
        if (kvs_session_load(&loaded, f->model, f->other, NULL, NULL) == KVS_OK) {
            const int32_t id = 1;

            assert_int_equal(kvs_session_feed(loaded, &id, 1, NULL, NULL), KVS_OK);
        }
        kvs_session_free(loaded);
        bytes[at] = before;
    }
    kvsi_free(bytes);
}

/* ---- files that are valid except for one value ---- */

typedef struct lie {
    const char *tensor;    /* that is changed */
    const char *from, *to; /* in the text of the first tensor */
    void (*change)(kvsi_file_tensor *tensor);
    const char *words;
} lie;

/* The saved file with its tensors changed. */
static void write_lie(const fixture *f, const lie *l)
{
    enum { MOST = 64, TEXT = 4096 };
    kvsi_file_tensor tensors[MOST];
    static char text[TEXT];
    kvsi_safetensors *file;
    size_t count;

    assert_int_equal(kvsi_safetensors_open(&file, f->path, NULL), KVS_OK);
    count = kvsi_safetensors_count(file);
    assert_true(count <= MOST);
    for (size_t i = 0; i < count; i++) {
        tensors[i] = *kvsi_safetensors_at(file, i);
        if (strcmp(tensors[i].name, l->tensor) != 0)
            continue;
        if (l->change) {
            l->change(&tensors[i]);
        } else {
            const size_t size = tensors[i].shape[0];
            char old[TEXT], *place;

            assert_true(size + strlen(l->to) < TEXT);
            memcpy(old, tensors[i].data, size);
            old[size] = '\0';
            assert_non_null(place = strstr(old, l->from));
            snprintf(text, sizeof text, "%.*s%s%s", (int)(place - old), old, l->to,
                     place + strlen(l->from));
            tensors[i].data = text;
            tensors[i].shape[0] = strlen(text);
        }
    }
    assert_int_equal(kvsi_safetensors_write(f->other, tensors, count, NULL), KVS_OK);
    kvsi_safetensors_close(file);
}

static void rename_tensor(kvsi_file_tensor *t)
{
    t->name = "stranger";
}

static void change_type(kvsi_file_tensor *t)
{
    t->dtype = t->dtype == KVSI_I32 ? KVSI_F32 : KVSI_I32;
}

static void swap_dimensions(kvsi_file_tensor *t)
{
    const size_t first = t->shape[0];

    t->shape[0] = t->shape[1];
    t->shape[1] = first;
}

static void flatten(kvsi_file_tensor *t)
{
    t->shape[0] = kvsi_file_tensor_count(t);
    t->rank = 1;
}

static void change_id(kvsi_file_tensor *t)
{
    static int32_t ids[LENGTH];

    memcpy(ids, t->data, sizeof ids);
    ids[LENGTH - 1] = VOCAB;
    t->data = ids;
}

static void lies_are_refused(void **state)
{
    static const lie lies[] = {
        {"session", "\"length\":530", "\"length\":531", NULL, "dimension 0, expected 531"},
        {"session", "\"length\":530", "\"length\":9223372036854775807", NULL, "has 9223372036854"},
        {"session", "\"length\":530", "\"length\":-1", NULL, "'length'"},
        {"session", "\"capacity\":600", "\"capacity\":601", NULL, "longer than the context"},
        {"session", "\"capacity\":600", "\"capacity\":529", NULL, "the session is for 529"},
        {"session", "\"sliding_first\":", "\"sliding_first\":1", NULL, "which no session of 600"},
        {"session", "\"sliding_first\":", "\"sliding_first\":256,\"x\":", NULL, "dimension 1"},
        {"session", "\"sliding_first\":", "\"sliding_first\":0,\"x\":", NULL, "which no session"},
        {"session", "\"sliding_first\":", "\"sliding_first\":512,\"x\":", NULL, "dimension 1"},
        {"session", "\"sliding_first\":", "\"sliding_first\":64,\"x\":", NULL, "which no session"},
        {"session", "\"sliding_first\":", "\"sliding_first\":528,\"x\":", NULL, "which no session"},
        {"session", "\"sliding_first\":", "\"sliding_first\":576,\"x\":", NULL, "which no session"},
        {"session", "\"version\":1", "\"version\":2", NULL, "version 2, expected 1"},
        {"session", "kvshift session", "kvshift lesson", NULL, "its format is 'kvshift lesson'"},
        {"session", "\"config\":{", "\"config\":3,\"x\":{", NULL, "does not say which model"},
        {"session", "\"config\":{", "\"config\":{\"x\":3,", NULL, "its 'x' is 3"},
        {"session", "{\"", "[{\"", NULL, "b.session"},
        {"session", NULL, NULL, rename_tensor, "is not a session"},
        {"session", "\"checksum\":\"", "\"checksum\":\"0", NULL, "is damaged"},
        {"ids", NULL, NULL, rename_tensor, "has no tensor 'ids'"},
        {"ids", NULL, NULL, change_type, "tensor 'ids' has type F32, expected I32"},
        {"ids", NULL, NULL, change_id, "token 529 is id 19, expected 0 to 18"},
        {"last", NULL, NULL, change_type, "tensor 'last' has type I32, expected F32"},
        {"layers.1.k", NULL, NULL, swap_dimensions, "tensor 'layers.1.k' has 530 in dimension 0"},
        {"layers.0.v", NULL, NULL, flatten, "has 1 dimensions, expected 3"},
        {"layers.1.q_tail", NULL, NULL, rename_tensor, "has no tensor 'layers.1.q_tail'"},
    };
    fixture *f = *state;

    for (size_t i = 0; i < sizeof lies / sizeof *lies; i++) {
        kvs_session *session;
        kvs_err err = {0};

        write_lie(f, &lies[i]);
        if (kvs_session_load(&session, f->model, f->other, NULL, &err) == KVS_OK ||
            !strstr(err.message, lies[i].words))
            fail_msg("case %zu: found '%s', expected '%s'", i, err.message, lies[i].words);
        assert_null(session);
    }
}

static void other_files_are_refused(void **state)
{
    fixture *f = *state;
    char path[PATH + 32];

    assert_int_equal(kvs_model_save(f->model, f->dir, NULL), KVS_OK);
    snprintf(path, sizeof path, "%s/model.safetensors", f->dir);
    expect_refusal(f, f->model, path, 0, KVS_E_FORMAT, "is not a session");
    snprintf(path, sizeof path, "%s/config.json", f->dir);
    expect_refusal(f, f->model, path, 0, KVS_E_FORMAT, "config.json");
}

#define WITH_FIXTURE(test) cmocka_unit_test_setup_teardown(test, set_up, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        WITH_FIXTURE(a_loaded_session_goes_on_bit_for_bit),
        WITH_FIXTURE(an_empty_session_can_be_saved),
        WITH_FIXTURE(a_file_that_cannot_be_written_is_said),
        WITH_FIXTURE(other_models_are_refused_by_name),
        WITH_FIXTURE(room_is_needed),
        WITH_FIXTURE(damage_is_found),
        WITH_FIXTURE(lies_are_refused),
        WITH_FIXTURE(other_files_are_refused),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
