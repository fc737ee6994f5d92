#include "train/checkpoint.h"

#include "base/checksum.h"
#include "base/files.h"
#include "base/folders.h"
#include "base/memory.h"
#include "train/moments.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static const char TOKENIZER[] = "tokenizer.json", MOMENTS[] = "optimizer.safetensors";
static const char *const checked_files[] = {"model.safetensors", "config.json", MOMENTS, TOKENIZER};

enum {
    CHECKED_FILES = sizeof checked_files / sizeof *checked_files,
    NEEDED_FILES = CHECKED_FILES - 1, /* all but the tokenizer */
    STATE_LIMIT = 1 << 20,            /* bytes of state.json */
};

/* ---- writing ---- */

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

/* Opens the files once.  A file that was written wrong has a matching checksum all the same. */
static kvs_status try_open(const char *dir, const kvsi_training_state *s, kvs_err *err)
{
    char *path = kvsi_path_join(dir, MOMENTS);
    kvsi_weights *weights = NULL;
    kvsi_safetensors *moments = NULL;
    kvs_status st;

    if (!path)
        return kvsi_fail(err, KVS_E_NOMEM, "out of memory for '%s'", dir);
    TRY_OUT(kvsi_weights_open(&weights, dir, err));
    TRY_OUT(kvsi_safetensors_open(&moments, path, err));
    if (s)
        TRY_OUT(kvsi_moments_check(moments, s, path, err));
out:
    kvsi_weights_close(weights);
    kvsi_safetensors_close(moments);
    kvsi_free(path);
    return st;
}

static kvs_status fill(const char *dir, const kvsi_training_state *s, kvs_err *err)
{
    kvs_status st = KVS_OK;
    int made;
    char *moments = kvsi_path_join(dir, MOMENTS);

    if (!moments)
        return kvsi_fail(err, KVS_E_NOMEM, "out of memory for '%s'", dir);
    TRY_OUT(kvsi_dir_remove(dir, err)); /* left by a run that was killed while filling it */
    TRY_OUT(kvsi_dir_make(dir, &made, err));
    TRY_OUT(kvsi_save_with_tokenizer(s->model, s->tokenizer, dir, err));
    TRY_OUT(kvsi_moments_write(moments, s, err));
    TRY_OUT(write_state(dir, s, err));
    TRY_OUT(try_open(dir, s, err));
    TRY_OUT(write_done(dir, err));
out:
    kvsi_free(moments);
    return st;
}

/* What other ranks do meanwhile: they give what they have of weights and moments. */
static kvs_status attend_fill(const kvsi_training_state *s, kvs_err *err)
{
    if (s->model->shards)
        TRY(kvs_model_save(s->model, "", err));
    return kvsi_moments_write(NULL, s, err);
}

/* Does the link point to this checkpoint? */
static int is_linked(const char *link, const char *name)
{
    char target[64];
    const ssize_t size = readlink(link, target, sizeof target - 1);

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
    char *best = kvsi_path_join(ckpt_dir, "best");

    for (size_t i = 0; st == KVS_OK && keep > 0 && keep < list.count - i; i++) {
        char *path = kvsi_path_join(ckpt_dir, list.names[i]);

        if (!path || !best)
            st = kvsi_fail(err, KVS_E_NOMEM, "out of memory for '%s'", ckpt_dir);
        else if (!is_linked(best, list.names[i]))
            st = kvsi_dir_remove(path, err);
        kvsi_free(path);
    }
    kvsi_free(best);
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
    char *final, *filling;
    kvs_status st = KVS_OK;

    if (state->model->comm->rank > 0)
        return attend_fill(state, err);
    filling = kvsi_path_join(ckpt_dir, ".filling");
    name_of_step(name, sizeof name, state->step);
    final = kvsi_path_join(ckpt_dir, name);
    if (!final || !filling) {
        st = kvsi_fail(err, KVS_E_NOMEM, "out of memory for '%s'", ckpt_dir);
        goto out;
    }
    TRY_OUT(fill(filling, state, err));
    TRY_OUT(kvsi_dir_remove(final, err)); /* a damaged one of the same step, after a resume */
    TRY_OUT(kvsi_dir_publish(filling, final, err));
    TRY_OUT(link_to(ckpt_dir, "latest", name, err));
    if (is_best)
        TRY_OUT(link_to(ckpt_dir, "best", name, err));
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
    TRY_OUT(kvsi_file_read(&expected, &size, done, 64, err));
    expected[strcspn(expected, "\n")] = '\0';
    TRY_OUT(expect_sum(dir, "state.json", expected, err));
    TRY_OUT(kvsi_json_read(out, path, STATE_LIMIT, err));
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
    if (st == KVS_OK)
        st = try_open(path, NULL, err);
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
        kvs_err found = {0};
        const kvs_status state =
            candidate ? kvsi_checkpoint_check(candidate, &found)
                      : kvsi_fail(&found, KVS_E_NOMEM, "out of memory for '%s'", ckpt_dir);

        if (state == KVS_OK)
            *path = candidate;
        else if (state == KVS_E_NOMEM) /* says nothing of the checkpoint */
            st = kvsi_fail(err, KVS_E_NOMEM, "%s", found.message);
        else if (++*skipped == 1)
            *why = found;
        if (!*path)
            kvsi_free(candidate);
    }
    kvsi_name_list_release(&list);
    return st;
}

/* ---- reading ---- */

kvs_status kvsi_checkpoint_read_run(json_t **run, const char *path, kvs_err *err)
{
    json_t *state;
    const kvs_status st = read_state(&state, path, err);

    *run = json_incref(json_object_get(state, "run"));
    json_decref(state);
    return st;
}

/* What rank 0 has of a checkpoint that is read; nothing of it on the others. */
typedef struct source {
    json_t *state;
    kvsi_weights *weights;
    kvsi_safetensors *moments;
} source;

static void source_release(source *in)
{
    json_decref(in->state);
    kvsi_weights_close(in->weights);
    kvsi_safetensors_close(in->moments);
}

static kvs_status source_open(source *in, const kvsi_training_state *s, const char *path,
                              kvs_err *err)
{
    char *moments = kvsi_path_join(path, MOMENTS);
    kvs_status st;

    if (!moments)
        return kvsi_fail(err, KVS_E_NOMEM, "out of memory for '%s'", path);
    TRY_OUT(read_state(&in->state, path, err));
    TRY_OUT(check_files(in->state, path, err));
    TRY_OUT(kvsi_json_require(in->state, "step", path, err));
    TRY_OUT(kvsi_weights_open(&in->weights, path, err));
    TRY_OUT(kvsi_safetensors_open(&in->moments, moments, err));
    TRY_OUT(kvsi_moments_check(in->moments, s, moments, err));
out:
    kvsi_free(moments);
    return st;
}

/* state.json, from rank 0 to all; `*state` is theirs on others. */
static kvs_status broadcast_state(json_t **state, const kvs_comm *comm, kvs_err *err)
{
    char *text = NULL, *bytes = NULL;
    uint64_t size; /* with its end */
    kvs_status st;

    if (comm->size == 1)
        return KVS_OK;
    if (*state)
        text = json_dumps(*state, JSON_COMPACT | JSON_REAL_PRECISION(17));
    size = text ? strlen(text) + 1 : 0;
    TRY_OUT(kvsi_comm_broadcast(comm, &size, sizeof size, 0, err));
    bytes = kvsi_alloc(size, 1);
    if (size == 0 || !bytes) {
        st = kvsi_fail(err, KVS_E_NOMEM, "out of memory for a checkpoint's state");
        goto out;
    }
    if (text)
        memcpy(bytes, text, size);
    TRY_OUT(kvsi_comm_broadcast(comm, bytes, size, 0, err));
    if (!*state)
        TRY_OUT(kvsi_json_parse(state, bytes, size - 1, "state of rank 0", err));
out:
    free(text);
    kvsi_free(bytes);
    return st;
}

kvs_status kvsi_checkpoint_read(kvsi_training_state *state, const char *path, kvs_err *err)
{
    kvs_comm *comm = state->model->comm;
    source in = {0};
    size_t step = 0;
    kvs_status st = path ? source_open(&in, state, path, err) : KVS_OK;

    TRY_OUT(kvs_comm_agree(comm, st, err));
    TRY_OUT(broadcast_state(&in.state, comm, err));
    TRY_OUT(kvsi_json_get_size(&step, in.state, "step", path ? path : "checkpoint", err));
    TRY_OUT(kvsi_model_broadcast_weights(state->model, in.weights, err));
    TRY_OUT(kvsi_moments_read(state, in.moments, err));
    state->step = step;
    state->run = json_incref(json_object_get(in.state, "run"));
out:
    source_release(&in);
    return st;
}
