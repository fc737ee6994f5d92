#include "run/checkpoint_files.h"

#include "base/checksum.h"
#include "base/files.h"
#include "base/folders.h"
#include "base/memory.h"
#include "run/run.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static const char DONE[] = "DONE", LATEST[] = "latest";
static const char *const checked_files[] = {KVSI_RUN_MODEL, KVSI_RUN_CONFIG,
                                            KVSI_CHECKPOINT_MOMENTS, KVSI_RUN_TOKENIZER};

enum {
    CHECKED_FILES = sizeof checked_files / sizeof *checked_files,
    REQUIRED_FILES = CHECKED_FILES - 1, /* all but the tokenizer */
    STATE_LIMIT = 1 << 20,              /* bytes of state.json */
    NAME_SIZE = 32,                     /* bytes of step-N */
};

/* Names are zero-padded, so their order is that of the steps. */
static void name_of_step(char out[NAME_SIZE], uint64_t step)
{
    snprintf(out, NAME_SIZE, KVSI_CHECKPOINT_PREFIX "%08" PRIu64, step);
}

static uint64_t step_of_name(const char *name)
{
    return strtoull(name + strlen(KVSI_CHECKPOINT_PREFIX), NULL, 10);
}

/* The checksum of dir/name as text of KVSI_CHECKSUM_TEXT bytes. */
static kvs_status checksum_in(char *out, const char *dir, const char *name, kvs_err *err)
{
    char *path;
    uint64_t sum = 0;
    kvs_status st;

    TRY_OUT(kvsi_run_path(&path, dir, name, err));
    TRY_OUT(kvsi_checksum_file(&sum, path, err));
out:
    kvsi_checksum_print(out, sum);
    kvsi_free(path);
    return st;
}

/* Opens the files once: a file that was written wrong still matches its own checksum. */
static kvs_status open_files(kvsi_weights **weights, kvsi_safetensors **moments, const char *dir,
                             kvs_err *err)
{
    char *path;
    kvs_status st;

    TRY_OUT(kvsi_run_path(&path, dir, KVSI_CHECKPOINT_MOMENTS, err));
    TRY_OUT(kvsi_weights_open(weights, dir, err));
    TRY_OUT(kvsi_safetensors_open(moments, path, err));
out:
    kvsi_free(path);
    return st;
}

static kvs_status try_open(const char *dir, kvs_err *err)
{
    kvsi_weights *weights = NULL;
    kvsi_safetensors *moments = NULL;
    const kvs_status st = open_files(&weights, &moments, dir, err);

    kvsi_weights_close(weights);
    kvsi_safetensors_close(moments);
    return st;
}

/* ---- writing ---- */

kvs_status kvsi_new_checkpoint_open(kvsi_new_checkpoint *c, const char *ckpt_dir, uint64_t step,
                                    kvs_err *err)
{
    char name[NAME_SIZE];
    int made;

    *c = (kvsi_new_checkpoint){.ckpt_dir = ckpt_dir, .step = step};
    name_of_step(name, step);
    TRY(kvsi_run_path(&c->dir, ckpt_dir, ".filling", err));
    TRY(kvsi_run_path(&c->final, ckpt_dir, name, err));
    TRY(kvsi_dir_remove(c->dir, err)); /* left by a process that was killed while writing it */
    return kvsi_dir_make(c->dir, &made, err);
}

void kvsi_new_checkpoint_release(kvsi_new_checkpoint *c)
{
    if (c->dir)
        kvsi_dir_remove(c->dir, NULL);
    kvsi_free(c->dir);
    kvsi_free(c->final);
}

static kvs_status write_state(const kvsi_new_checkpoint *c, json_t *run, kvs_err *err)
{
    json_t *files = json_object();
    json_t *state =
        json_pack("{s:I, s:O, s:o}", "step", (json_int_t)c->step, "run", run, "files", files);
    char *path = NULL;
    kvs_status st;

    if (!state) {
        st = kvsi_fail(err, KVS_E_NOMEM, "out of memory for '%s'", c->dir);
        goto out;
    }
    TRY_OUT(kvsi_run_path(&path, c->dir, KVSI_CHECKPOINT_STATE, err));
    for (size_t i = 0; i < CHECKED_FILES; i++) {
        char sum[KVSI_CHECKSUM_TEXT];

        if (i >= REQUIRED_FILES && !kvsi_run_has(c->dir, checked_files[i]))
            continue;
        TRY_OUT(checksum_in(sum, c->dir, checked_files[i], err));
        json_object_set_new(files, checked_files[i], json_string(sum));
    }
    TRY_OUT(kvsi_json_write(state, path, err));
out:
    json_decref(state);
    kvsi_free(path);
    return st;
}

static kvs_status write_done(const char *dir, kvs_err *err)
{
    char text[KVSI_CHECKSUM_TEXT + 1], *path;
    kvs_status st;

    TRY_OUT(kvsi_run_path(&path, dir, DONE, err));
    TRY_OUT(checksum_in(text, dir, KVSI_CHECKPOINT_STATE, err));
    memcpy(text + KVSI_CHECKSUM_TEXT - 1, "\n", 2);
    TRY_OUT(kvsi_file_write_text(path, text, err));
out:
    kvsi_free(path);
    return st;
}

static kvs_status link_to(const char *ckpt_dir, const char *link, const char *name, kvs_err *err)
{
    char *path;
    kvs_status st;

    TRY_OUT(kvsi_run_path(&path, ckpt_dir, link, err));
    TRY_OUT(kvsi_dir_link(path, name, err));
out:
    kvsi_free(path);
    return st;
}

/* Gives the new checkpoint its final name.  There may be an old checkpoint of the same step: a
 * damaged one after a resume, or one that is saved again.  It is renamed before the new one and
 * removed after it, so that a process that is killed leaves no incomplete folder under the final
 * name. */
static kvs_status publish(const kvsi_new_checkpoint *c, kvs_err *err)
{
    char *old = NULL;
    kvs_status st;

    TRY_OUT(kvsi_run_path(&old, c->ckpt_dir, ".replaced", err));
    TRY_OUT(kvsi_dir_remove(old, err)); /* left by a process that was killed */
    if (kvsi_is_folder(c->final))
        TRY_OUT(kvsi_dir_publish(c->final, old, err));
    TRY_OUT(kvsi_dir_publish(c->dir, c->final, err));
    kvsi_dir_remove(old, NULL);
out:
    kvsi_free(old);
    return st;
}

kvs_status kvsi_new_checkpoint_commit(kvsi_new_checkpoint *c, json_t *run, int is_best,
                                      kvs_err *err)
{
    char name[NAME_SIZE];

    name_of_step(name, c->step);
    TRY(write_state(c, run, err));
    TRY(try_open(c->dir, err));
    TRY(write_done(c->dir, err));
    TRY(publish(c, err));
    kvsi_free(c->dir);
    c->dir = NULL;
    TRY(link_to(c->ckpt_dir, LATEST, name, err));
    if (is_best)
        TRY(link_to(c->ckpt_dir, KVSI_CHECKPOINT_BEST, name, err));
    return KVS_OK;
}

/* Whether the link points to this checkpoint. */
static int is_linked(const char *link, const char *name)
{
    char target[64];
    const ssize_t size = readlink(link, target, sizeof target - 1);

    if (size < 0)
        return 0;
    target[size] = '\0';
    return strcmp(target, name) == 0;
}

kvs_status kvsi_checkpoint_prune(const char *ckpt_dir, size_t keep, uint64_t newest, kvs_err *err)
{
    kvsi_name_list list;
    size_t count = 0;
    char *best = NULL;
    kvs_status st;

    TRY_OUT(kvsi_dir_list(&list, ckpt_dir, KVSI_CHECKPOINT_PREFIX, err));
    TRY_OUT(kvsi_run_path(&best, ckpt_dir, KVSI_CHECKPOINT_BEST, err));
    while (count < list.count && step_of_name(list.names[count]) <= newest)
        count++;
    for (size_t i = 0; st == KVS_OK && keep > 0 && keep < count - i; i++) {
        char *path;

        TRY_OUT(kvsi_run_path(&path, ckpt_dir, list.names[i], err));
        if (!is_linked(best, list.names[i]))
            st = kvsi_dir_remove(path, err);
        kvsi_free(path);
    }
out:
    kvsi_free(best);
    kvsi_name_list_release(&list);
    return st;
}

/* ---- finding ---- */

char *kvsi_checkpoint_before(const char *ckpt_dir, uint64_t step)
{
    kvsi_name_list list;
    char name[NAME_SIZE], *path = NULL;

    name_of_step(name, step);
    if (kvsi_dir_list(&list, ckpt_dir, KVSI_CHECKPOINT_PREFIX, NULL) == KVS_OK)
        for (size_t i = list.count; !path && i-- > 0;)
            if (strcmp(list.names[i], name) < 0)
                path = kvsi_path_join(ckpt_dir, list.names[i]);
    kvsi_name_list_release(&list);
    return path;
}

kvs_status kvsi_checkpoint_expect_none_after(const char *ckpt_dir, uint64_t step, kvs_err *err)
{
    kvsi_name_list list;
    kvs_status st = kvsi_dir_list(&list, ckpt_dir, KVSI_CHECKPOINT_PREFIX, err);

    for (size_t i = list.count; st == KVS_OK && i-- > 0 && step_of_name(list.names[i]) > step;) {
        char *path = kvsi_path_join(ckpt_dir, list.names[i]);

        if (!path)
            st = kvsi_no_memory(err, "'%s'", ckpt_dir);
        else if (kvsi_checkpoint_check(path, NULL) == KVS_OK)
            st = kvsi_fail(err, KVS_E_EXISTS,
                           "'%s' is a later checkpoint than the one of step %" PRIu64
                           " that is to be saved; continue from it or choose another folder",
                           path, step);
        kvsi_free(path);
    }
    kvsi_name_list_release(&list);
    return st;
}

kvs_status kvsi_checkpoint_newest(char **path, const char *ckpt_dir, size_t *skipped, kvs_err *why,
                                  kvs_err *err)
{
    kvsi_name_list list;
    kvs_status st = kvsi_dir_list(&list, ckpt_dir, KVSI_CHECKPOINT_PREFIX, err);

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
        else if (state == KVS_E_NOMEM) /* the checkpoint itself may be fine */
            st = kvsi_fail(err, KVS_E_NOMEM, "%s", found.message);
        else if (++*skipped == 1)
            *why = found;
        if (!*path)
            kvsi_free(candidate);
    }
    kvsi_name_list_release(&list);
    return st;
}

/* ---- checking ---- */

static kvs_status expect_sum(const char *dir, const char *name, const char *expected, kvs_err *err)
{
    char found[KVSI_CHECKSUM_TEXT];

    TRY(checksum_in(found, dir, name, err));
    if (strcmp(found, expected) != 0)
        return kvsi_fail(err, KVS_E_FORMAT, "'%s/%s' is damaged: checksum %s, expected %s", dir,
                         name, found, expected);
    return KVS_OK;
}

/* Reads state.json after comparing its checksum with DONE. */
static kvs_status read_state(json_t **out, const char *dir, kvs_err *err)
{
    char *done = NULL, *path = NULL, *expected = NULL;
    size_t size;
    kvs_status st;

    *out = NULL;
    TRY_OUT(kvsi_run_path(&done, dir, DONE, err));
    TRY_OUT(kvsi_run_path(&path, dir, KVSI_CHECKPOINT_STATE, err));
    TRY_OUT(kvsi_file_read(&expected, &size, done, 64, err));
    expected[strcspn(expected, "\n")] = '\0';
    TRY_OUT(expect_sum(dir, KVSI_CHECKPOINT_STATE, expected, err));
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

        if (!expected && i >= REQUIRED_FILES)
            continue;
        if (!expected)
            return kvsi_fail(err, KVS_E_FORMAT,
                             "'%s/" KVSI_CHECKPOINT_STATE "' has no checksum of '%s'", dir,
                             checked_files[i]);
        TRY(expect_sum(dir, checked_files[i], expected, err));
    }
    return KVS_OK;
}

kvs_status kvsi_checkpoint_check(const char *path, kvs_err *err)
{
    json_t *state;
    kvs_status st;

    TRY_OUT(read_state(&state, path, err));
    TRY_OUT(check_files(state, path, err));
    TRY_OUT(try_open(path, err));
out:
    json_decref(state);
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

kvs_status kvsi_checkpoint_open(kvsi_checkpoint_source *in, const char *path, kvs_err *err)
{
    *in = (kvsi_checkpoint_source){0};
    TRY(read_state(&in->state, path, err));
    TRY(check_files(in->state, path, err));
    TRY(kvsi_json_require(in->state, "step", path, err));
    return open_files(&in->weights, &in->moments, path, err);
}

void kvsi_checkpoint_close(kvsi_checkpoint_source *in)
{
    json_decref(in->state);
    kvsi_weights_close(in->weights);
    kvsi_safetensors_close(in->moments);
}
