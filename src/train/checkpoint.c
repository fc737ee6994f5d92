#include "train/checkpoint.h"

#include "base/checksum.h"
#include "base/files.h"
#include "base/folders.h"
#include "base/memory.h"
#include "formats/safetensors.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

static const char TOKENIZER[] = "tokenizer.json";
static const char *const checked_files[] = {"model.safetensors", "config.json",
                                            "optimizer.safetensors", TOKENIZER};

enum {
    CHECKED_FILES = sizeof checked_files / sizeof *checked_files,
    NEEDED_FILES = CHECKED_FILES - 1, /* all but the tokenizer */
    STATE_LIMIT = 1 << 20,            /* bytes of state.json */
};

static const kvsi_dtype REAL_DTYPE = sizeof(real) == sizeof(float) ? KVSI_F32 : KVSI_F64;

/* ---- writing ---- */

static kvs_status write_moments(const char *path, const kvsi_training_state *s, kvs_err *err)
{
    const size_t count = kvsi_layout_total(&s->model->layout);
    kvsi_context c = s->model->context;
    real *mean = kvsi_alloc(count, sizeof *mean), *square = kvsi_alloc(count, sizeof *square);
    const kvsi_file_tensor tensors[] = {
        {.name = "mean", .dtype = REAL_DTYPE, .rank = 1, .shape = {count}, .data = mean},
        {.name = "square", .dtype = REAL_DTYPE, .rank = 1, .shape = {count}, .data = square},
    };
    kvs_status st = KVS_OK;

    if (mean && square) {
        c.ops->download(&c, mean, s->mean, count * sizeof *mean);
        c.ops->download(&c, square, s->square, count * sizeof *square);
        c.ops->sync(&c);
        st = kvsi_safetensors_write(path, tensors, 2, err);
    } else {
        st = kvsi_fail(err, KVS_E_NOMEM, "out of memory for '%s'", path);
    }
    kvsi_free(mean);
    kvsi_free(square);
    return st;
}

/* The checksum of dir/name as text of KVSI_CHECKSUM_TEXT bytes. */
static kvs_status checksum_in(char *out, const char *dir, const char *name, kvs_err *err)
{
    char *path = kvsi_path_join(dir, name);
    uint64_t sum = 0;
    const kvs_status st = path ? kvsi_checksum_file(&sum, path, err)
                               : kvsi_fail(err, KVS_E_NOMEM, "out of memory for '%s'", dir);

    kvsi_checksum_print(out, sum);
    kvsi_free(path);
    return st;
}

static kvs_status write_state(const char *dir, const kvsi_training_state *s, kvs_err *err)
{
    json_t *files = json_object();
    json_t *state =
        json_pack("{s:I, s:O, s:o}", "step", (json_int_t)s->step, "run", s->run, "files", files);
    char *path = kvsi_path_join(dir, "state.json");
    kvs_status st = KVS_OK;

    if (!state || !path)
        st = kvsi_fail(err, KVS_E_NOMEM, "out of memory for '%s'", dir);
    for (size_t i = 0; st == KVS_OK && i < (s->tokenizer ? CHECKED_FILES : NEEDED_FILES); i++) {
        char sum[KVSI_CHECKSUM_TEXT];

        st = checksum_in(sum, dir, checked_files[i], err);
        if (st == KVS_OK)
            json_object_set_new(files, checked_files[i], json_string(sum));
    }
    if (st == KVS_OK)
        st = kvsi_json_write(state, path, err);
    json_decref(state);
    kvsi_free(path);
    return st;
}

static kvs_status write_done(const char *dir, kvs_err *err)
{
    char text[KVSI_CHECKSUM_TEXT + 1], *path = kvsi_path_join(dir, "DONE");
    kvs_status st = checksum_in(text, dir, "state.json", err);

    if (st == KVS_OK && !path)
        st = kvsi_fail(err, KVS_E_NOMEM, "out of memory for '%s'", dir);
    if (st == KVS_OK) {
        memcpy(text + KVSI_CHECKSUM_TEXT - 1, "\n", 2);
        st = kvsi_file_write_text(path, text, err);
    }
    kvsi_free(path);
    return st;
}

kvs_status kvsi_save_with_tokenizer(const kvs_model *model, const kvs_tokenizer *tokenizer,
                                    const char *dir, kvs_err *err)
{
    char *path = kvsi_path_join(dir, TOKENIZER);
    kvs_status st = path ? kvs_model_save(model, dir, err)
                         : kvsi_fail(err, KVS_E_NOMEM, "out of memory for '%s'", dir);

    if (st == KVS_OK && tokenizer)
        st = kvs_tokenizer_save(tokenizer, path, err);
    kvsi_free(path);
    return st;
}

static kvs_status fill(const char *dir, const kvsi_training_state *s, kvs_err *err)
{
    kvs_status st = KVS_OK;
    int made;
    char *moments = kvsi_path_join(dir, "optimizer.safetensors");

    if (!moments)
        return kvsi_fail(err, KVS_E_NOMEM, "out of memory for '%s'", dir);
    KVS_TRY(kvsi_dir_remove(dir, err)); /* left by a run that was killed while filling it */
    KVS_TRY(kvsi_dir_make(dir, &made, err));
    KVS_TRY(kvsi_save_with_tokenizer(s->model, s->tokenizer, dir, err));
    KVS_TRY(write_moments(moments, s, err));
    KVS_TRY(write_state(dir, s, err));
    KVS_TRY(write_done(dir, err));
out:
    kvsi_free(moments);
    return st;
}

/* Does the link `best` point to this checkpoint? */
static int is_linked_best(const char *ckpt_dir, const char *name)
{
    char target[64], *link = kvsi_path_join(ckpt_dir, "best");
    const ssize_t size = link ? readlink(link, target, sizeof target - 1) : -1;

    kvsi_free(link);
    if (size < 0)
        return 0;
    target[size] = '\0';
    return strcmp(target, name) == 0;
}

static kvs_status link_to(const char *ckpt_dir, const char *link, const char *name, kvs_err *err)
{
    char *path = kvsi_path_join(ckpt_dir, link);
    const kvs_status st = path ? kvsi_dir_link(path, name, err)
                               : kvsi_fail(err, KVS_E_NOMEM, "out of memory for '%s'", ckpt_dir);

    kvsi_free(path);
    return st;
}

kvs_status kvsi_checkpoint_prune(const char *ckpt_dir, size_t keep, kvs_err *err)
{
    kvsi_name_list list;
    kvs_status st = kvsi_dir_list(&list, ckpt_dir, "step-", err);

    for (size_t i = 0; st == KVS_OK && keep > 0 && i + keep < list.count; i++) {
        char *path = kvsi_path_join(ckpt_dir, list.names[i]);

        if (!path)
            st = kvsi_fail(err, KVS_E_NOMEM, "out of memory for '%s'", ckpt_dir);
        else if (!is_linked_best(ckpt_dir, list.names[i]))
            st = kvsi_dir_remove(path, err);
        kvsi_free(path);
    }
    kvsi_name_list_release(&list);
    return st;
}

/* Names are zero-padded, so their order is that of the steps. */
static void name_of_step(char *out, size_t size, uint64_t step)
{
    snprintf(out, size, "step-%08" PRIu64, step);
}

char *kvsi_checkpoint_before(const char *ckpt_dir, uint64_t step)
{
    kvsi_name_list list;
    char name[32], *path = NULL;

    name_of_step(name, sizeof name, step);
    if (kvsi_dir_list(&list, ckpt_dir, "step-", NULL) == KVS_OK)
        for (size_t i = list.count; !path && i-- > 0;)
            if (strcmp(list.names[i], name) < 0)
                path = kvsi_path_join(ckpt_dir, list.names[i]);
    kvsi_name_list_release(&list);
    return path;
}

kvs_status kvsi_checkpoint_write(const char *ckpt_dir, const kvsi_training_state *state,
                                 int is_best, kvs_err *err)
{
    char name[32];
    char *final, *filling = kvsi_path_join(ckpt_dir, ".filling");
    kvs_status st = KVS_OK;

    name_of_step(name, sizeof name, state->step);
    final = kvsi_path_join(ckpt_dir, name);
    if (!final || !filling) {
        st = kvsi_fail(err, KVS_E_NOMEM, "out of memory for '%s'", ckpt_dir);
        goto out;
    }
    KVS_TRY(fill(filling, state, err));
    KVS_TRY(kvsi_dir_remove(final, err)); /* a damaged one of the same step, after a resume */
    KVS_TRY(kvsi_dir_publish(filling, final, err));
    KVS_TRY(link_to(ckpt_dir, "latest", name, err));
    if (is_best)
        KVS_TRY(link_to(ckpt_dir, "best", name, err));
out:
    if (st != KVS_OK && filling)
        kvsi_dir_remove(filling, NULL);
    kvsi_free(final);
    kvsi_free(filling);
    return st;
}

/* ---- checking ---- */

static kvs_status expect_sum(const char *dir, const char *name, const char *expected, kvs_err *err)
{
    char found[KVSI_CHECKSUM_TEXT];
    const kvs_status st = checksum_in(found, dir, name, err);

    if (st == KVS_OK && strcmp(found, expected) != 0)
        return kvsi_fail(err, KVS_E_FORMAT, "'%s/%s' is damaged: checksum %s, expected %s", dir,
                         name, found, expected);
    return st;
}

/* state.json, after the checksum in DONE vouched for it. */
static kvs_status read_state(json_t **out, const char *dir, kvs_err *err)
{
    char *done = kvsi_path_join(dir, "DONE"), *path = kvsi_path_join(dir, "state.json");
    char *expected = NULL;
    size_t size;
    kvs_status st = KVS_OK;

    *out = NULL;
    if (!done || !path) {
        st = kvsi_fail(err, KVS_E_NOMEM, "out of memory for '%s'", dir);
        goto out;
    }
    KVS_TRY(kvsi_file_read(&expected, &size, done, 64, err));
    expected[strcspn(expected, "\n")] = '\0';
    KVS_TRY(expect_sum(dir, "state.json", expected, err));
    KVS_TRY(kvsi_json_read(out, path, STATE_LIMIT, err));
out:
    kvsi_free(done);
    kvsi_free(path);
    kvsi_free(expected);
    return st;
}

static kvs_status check_files(const json_t *state, const char *dir, kvs_err *err)
{
    const json_t *files = json_object_get(state, "files");

    for (size_t i = 0; i < CHECKED_FILES; i++) {
        const char *expected = json_string_value(json_object_get(files, checked_files[i]));
        kvs_status st;

        if (!expected && i >= NEEDED_FILES)
            continue;
        if (!expected)
            return kvsi_fail(err, KVS_E_FORMAT, "'%s/state.json' has no checksum of '%s'", dir,
                             checked_files[i]);
        st = expect_sum(dir, checked_files[i], expected, err);
        if (st != KVS_OK)
            return st;
    }
    return KVS_OK;
}

kvs_status kvsi_checkpoint_check(const char *path, kvs_err *err)
{
    json_t *state;
    kvs_status st = read_state(&state, path, err);

    if (st == KVS_OK)
        st = check_files(state, path, err);
    json_decref(state);
    return st;
}

kvs_status kvsi_checkpoint_newest(char **path, const char *ckpt_dir, size_t *skipped, kvs_err *why,
                                  kvs_err *err)
{
    kvsi_name_list list;
    kvs_status st = kvsi_dir_list(&list, ckpt_dir, "step-", err);

    *path = NULL;
    *skipped = 0;
    for (size_t i = list.count; st == KVS_OK && !*path && i-- > 0;) {
        char *candidate = kvsi_path_join(ckpt_dir, list.names[i]);

        if (!candidate)
            st = kvsi_fail(err, KVS_E_NOMEM, "out of memory for '%s'", ckpt_dir);
        else if (kvsi_checkpoint_check(candidate, *skipped == 0 ? why : NULL) == KVS_OK)
            *path = candidate;
        else
            ++*skipped;
        if (!*path)
            kvsi_free(candidate);
    }
    kvsi_name_list_release(&list);
    return st;
}

/* ---- reading ---- */

static kvs_status read_moment(real *to, const kvsi_safetensors *file, const char *name,
                              const kvsi_training_state *s, const char *path, kvs_err *err)
{
    const size_t count = kvsi_layout_total(&s->model->layout);
    const kvsi_file_tensor *t = kvsi_safetensors_find(file, name);
    kvsi_context c = s->model->context;

    if (!t || t->dtype != REAL_DTYPE || kvsi_file_tensor_count(t) != count)
        return kvsi_fail(err, KVS_E_FORMAT, "'%s' has no tensor '%s' of %zu numbers", path, name,
                         count);
    c.ops->upload(&c, to, t->data, count * sizeof *to);
    c.ops->sync(&c);
    return KVS_OK;
}

kvs_status kvsi_checkpoint_read(kvsi_training_state *state, const char *path, kvs_err *err)
{
    char *moments = kvsi_path_join(path, "optimizer.safetensors");
    kvsi_safetensors *file = NULL;
    kvsi_weights *weights = NULL;
    json_t *json = NULL;
    size_t step = 0;
    kvs_status st = KVS_OK;

    if (!moments) {
        st = kvsi_fail(err, KVS_E_NOMEM, "out of memory for '%s'", path);
        goto out;
    }
    KVS_TRY(read_state(&json, path, err));
    KVS_TRY(check_files(json, path, err));
    KVS_TRY(kvsi_json_require(json, "step", path, err));
    KVS_TRY(kvsi_json_get_size(&step, json, "step", path, err));
    KVS_TRY(kvsi_weights_open(&weights, path, err));
    KVS_TRY(kvsi_model_set_weights(state->model, weights, err));
    KVS_TRY(kvsi_safetensors_open(&file, moments, err));
    KVS_TRY(read_moment(state->mean, file, "mean", state, moments, err));
    KVS_TRY(read_moment(state->square, file, "square", state, moments, err));
    state->step = step;
    state->run = json_incref(json_object_get(json, "run"));
out:
    kvsi_safetensors_close(file);
    json_decref(json);
    kvsi_weights_close(weights);
    kvsi_free(moments);
    return st;
}
