/* kvs_trainer_save and kvs_trainer_load: checkpoints (run/checkpoint_files.h) that have no log and
 * no progress of a run.  Both calls are collective; only rank 0 reads and writes files. */
#include "base/memory.h"
#include "run/checkpoint_files.h"
#include "train/settings.h"
#include "train/trainer.h"

/* Checks the arguments, waits for transfers, and sets the trainer's state and settings.  The caller
 * releases *settings, also after a failure. */
static kvs_status begin(kvsi_training_state *state, json_t **settings, kvs_trainer *trainer,
                        const char *dir, kvs_err *err)
{
    kvs_status st;

    *state = (kvsi_training_state){0};
    *settings = NULL;
    NEED(trainer);
    NEED(dir);
    if (!*dir)
        return kvsi_fail(err, KVS_E_INVALID, "dir is empty");
    TRY(kvsi_trainer_wait(trainer, err));
    *state = kvsi_trainer_state(trainer);
    *settings = kvsi_trainer_settings(trainer);
    st = *settings ? KVS_OK : kvsi_no_memory(err, "a checkpoint");
    return kvs_comm_agree(state->model->comm, st, err);
}

/* ---- saving ---------------------------------------------------------------------------------- */

kvs_status kvs_trainer_save(kvs_trainer *trainer, const char *dir, size_t keep, kvs_err *err)
{
    kvsi_training_state state;
    json_t *settings;
    kvs_comm *comm;
    kvs_status st;

    TRY_OUT(begin(&state, &settings, trainer, dir, err));
    comm = state.model->comm;
    state.run = json_pack("{s:O}", "settings", settings);
    if (!state.run)
        st = kvsi_no_memory(err, "a checkpoint");
    else if (comm->rank == 0)
        st = kvsi_checkpoint_expect_none_after(dir, state.step, err);
    TRY_OUT(kvs_comm_agree(comm, st, err));
    st = kvsi_checkpoint_write(dir, &state, 0, err);
    if (st == KVS_OK && comm->rank == 0)
        st = kvsi_checkpoint_prune(dir, keep, state.step, err);
    TRY_OUT(kvs_comm_agree(comm, st, err));
out:
    json_decref(settings);
    json_decref(state.run);
    return st;
}

/* ---- loading --------------------------------------------------------------------------------- */

/* Finds the newest complete checkpoint and compares its settings; *path is NULL if there is no
 * checkpoint.  Fails if all checkpoints are damaged: starting from step 0 would hide that. */
static kvs_status find_checkpoint(char **path, const char *dir, const json_t *settings,
                                  kvs_err *err)
{
    size_t skipped = 0;
    kvs_err why = {0};

    TRY(kvsi_checkpoint_newest(path, dir, &skipped, &why, err));
    if (*path)
        return kvsi_run_settings_check_checkpoint(settings, *path, err);
    if (skipped > 0)
        return kvsi_fail(err, KVS_E_FORMAT, "'%s' has no complete checkpoint: %.400s", dir,
                         why.message);
    return KVS_OK;
}

kvs_status kvs_trainer_load(uint64_t *step, kvs_trainer *trainer, const char *dir, kvs_err *err)
{
    kvsi_training_state state;
    json_t *settings;
    char *path = NULL;
    int found = 0;
    kvs_comm *comm;
    kvs_status st;

    if (step)
        *step = 0;
    TRY_OUT(begin(&state, &settings, trainer, dir, err));
    comm = state.model->comm;
    /* Settings are compared before any tensor is read, because their message is clearer. */
    if (comm->rank == 0)
        st = find_checkpoint(&path, dir, settings, err);
    TRY_OUT(kvs_comm_agree(comm, st, err));
    found = path != NULL;
    TRY_OUT(kvsi_comm_broadcast(comm, &found, sizeof found, 0, err));
    if (!found)
        goto out;
    TRY_OUT(kvs_comm_agree(comm, kvsi_checkpoint_read(&state, path, err), err));
    kvsi_trainer_set_step(trainer, state.step);
    if (step)
        *step = state.step;
out:
    json_decref(settings);
    json_decref(state.run);
    kvsi_free(path);
    return st;
}
