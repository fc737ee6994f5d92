#include "train/checkpoint.h"

#include "base/memory.h"
#include "run/checkpoint_files.h"
#include "run/run.h"
#include "train/moments.h"

#include <stdlib.h>
#include <string.h>

/* ---- writing --------------------------------------------------------------------------------- */

static kvs_status write_as_first(const char *ckpt_dir, const kvsi_training_state *s, int is_best,
                                 kvs_err *err)
{
    kvsi_new_checkpoint c;
    char *moments = NULL, *tokenizer = NULL;
    kvs_status st;

    TRY_OUT(kvsi_new_checkpoint_open(&c, ckpt_dir, s->step, err));
    TRY_OUT(kvsi_run_path(&moments, c.dir, KVSI_CHECKPOINT_MOMENTS, err));
    TRY_OUT(kvsi_run_path(&tokenizer, c.dir, KVSI_RUN_TOKENIZER, err));
    TRY_OUT(kvsi_model_save_weights(s->model, c.dir, err));
    if (s->tokenizer)
        TRY_OUT(kvs_tokenizer_save(s->tokenizer, tokenizer, err));
    TRY_OUT(kvsi_moments_write(moments, s, err));
    TRY_OUT(kvsi_new_checkpoint_commit(&c, s->run, is_best, err));
out:
    kvsi_new_checkpoint_release(&c);
    kvsi_free(moments);
    kvsi_free(tokenizer);
    return st;
}

kvs_status kvsi_checkpoint_write(const char *ckpt_dir, const kvsi_training_state *state,
                                 int is_best, kvs_err *err)
{
    if (state->model->comm->rank == 0)
        return write_as_first(ckpt_dir, state, is_best, err);
    if (state->model->shards) /* sends this rank's part of the weights */
        TRY(kvs_model_save(state->model, ckpt_dir, err));
    return kvsi_moments_write(NULL, state, err);
}

/* ---- reading --------------------------------------------------------------------------------- */

static kvs_status open_as_first(kvsi_checkpoint_source *in, const kvsi_training_state *s,
                                const char *path, kvs_err *err)
{
    char *moments;
    kvs_status st;

    TRY_OUT(kvsi_run_path(&moments, path, KVSI_CHECKPOINT_MOMENTS, err));
    TRY_OUT(kvsi_checkpoint_open(in, path, err));
    TRY_OUT(kvsi_moments_check(in->moments, s, moments, err));
out:
    kvsi_free(moments);
    return st;
}

/* Broadcasts state.json from rank 0; on other ranks *state is a new reference. */
static kvs_status broadcast_state(json_t **state, const kvs_comm *comm, kvs_err *err)
{
    char *text = NULL, *bytes = NULL;
    uint64_t size; /* with its NUL */
    kvs_status st;

    if (comm->size == 1)
        return KVS_OK;
    if (*state)
        text = json_dumps(*state, JSON_COMPACT | JSON_REAL_PRECISION(17));
    size = text ? strlen(text) + 1 : 0;
    TRY_OUT(kvsi_comm_broadcast(comm, &size, sizeof size, 0, err));
    bytes = kvsi_alloc(size, 1);
    if (size == 0 || !bytes) {
        st = kvsi_no_memory(err, "a checkpoint's state");
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
    kvsi_checkpoint_source in = {0};
    size_t step = 0;
    kvs_status st = path ? open_as_first(&in, state, path, err) : KVS_OK;

    TRY_OUT(kvs_comm_agree(comm, st, err));
    TRY_OUT(broadcast_state(&in.state, comm, err));
    TRY_OUT(kvsi_json_get_size(&step, in.state, "step", path ? path : "checkpoint", err));
    TRY_OUT(kvsi_model_broadcast_weights(state->model, in.weights, err));
    TRY_OUT(kvsi_moments_read(state, in.moments, err));
    state->step = step;
    state->run = json_incref(json_object_get(in.state, "run"));
out:
    kvsi_checkpoint_close(&in);
    return st;
}
