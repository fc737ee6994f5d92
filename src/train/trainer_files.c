/* Checkpoints of a trainer that its caller writes and reads: the folders of run/checkpoint_files.h,
 * without the log and the progress of a run.  All calls are collective; rank 0 has the files. */
#include "base/memory.h"
#include "run/checkpoint_files.h"
#include "train/settings.h"
#include "train/trainer.h"

static kvs_status need_dir(const char *dir, kvs_err *err)
{
    NEED(dir);
    return *dir ? KVS_OK : kvsi_fail(err, KVS_E_INVALID, "dir is empty");
}

/* ---- saving ---------------------------------------------------------------------------------- */

kvs_status kvs_trainer_save(kvs_trainer *trainer, const char *dir, size_t keep, kvs_err *err)
{
    kvsi_training_state state;
    json_t *settings = NULL;
    kvs_comm *comm;
    kvs_status st;

    NEED(trainer);
    TRY(need_dir(dir, err));
    state = kvsi_trainer_state(trainer);
    comm = state.model->comm;
    TRY_OUT(kvsi_trainer_wait(trainer, err));
    settings = kvsi_trainer_settings(trainer);
    state.run = settings ? json_pack("{s:O}", "settings", settings) : NULL;
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

/* The newest complete checkpoint; NULL = there is none at all.  If all of them are damaged,
 * starting from step 0 would hide the loss. */
static kvs_status find_checkpoint(char **path, const char *dir, kvs_err *err)
{
    size_t skipped = 0;
    kvs_err why = {0};

    TRY(kvsi_checkpoint_newest(path, dir, &skipped, &why, err));
    if (!*path && skipped > 0)
        return kvsi_fail(err, KVS_E_FORMAT, "'%s' has no complete checkpoint: %.400s", dir,
                         why.message);
    return KVS_OK;
}

kvs_status kvs_trainer_load(uint64_t *step, kvs_trainer *trainer, const char *dir, kvs_err *err)
{
    kvsi_training_state state;
    json_t *settings = NULL;
    char *path = NULL;
    int found = 0;
    kvs_comm *comm;
    kvs_status st;

    if (step)
        *step = 0;
    NEED(trainer);
    TRY(need_dir(dir, err));
    state = kvsi_trainer_state(trainer);
    comm = state.model->comm;
    TRY_OUT(kvsi_trainer_wait(trainer, err));
    settings = kvsi_trainer_settings(trainer);
    st = settings ? KVS_OK : kvsi_no_memory(err, "settings");
    if (st == KVS_OK && comm->rank == 0)
        st = find_checkpoint(&path, dir, err);
    /* Settings are compared before any tensor is read: they have the clearer message. */
    if (st == KVS_OK && path)
        st = kvsi_run_settings_check_checkpoint(settings, path, err);
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
