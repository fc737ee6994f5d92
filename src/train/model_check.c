/* kvs_model_check: reads all of a model.  It is here because checkpoints have checksums. */
#include "base/files.h"
#include "base/memory.h"
#include "base/sized.h"
#include "model/model.h"
#include "run/checkpoint_files.h"

#include <math.h>

enum { CHUNK = 4096 };

/* The folder of a model that is part of a checkpoint, in new memory; NULL if it is not. */
static kvs_status find_checkpoint(char **out, const char *path, kvs_err *err)
{
    char *folder = kvsi_is_folder(path) ? kvsi_strdup(path) : kvsi_path_parent(path);
    char *state = folder ? kvsi_path_join(folder, KVSI_CHECKPOINT_STATE) : NULL;

    *out = NULL;
    if (!state) {
        kvsi_free(folder);
        return kvsi_no_memory(err, "'%s'", path);
    }
    if (kvsi_file_exists(state))
        *out = folder;
    else
        kvsi_free(folder);
    kvsi_free(state);
    return KVS_OK;
}

static kvs_status check_sums(int *there, const char *path, kvs_err *err)
{
    char *checkpoint = NULL;
    kvs_status st;

    TRY_OUT(find_checkpoint(&checkpoint, path, err));
    *there = checkpoint != NULL;
    if (checkpoint)
        st = kvsi_checkpoint_check(checkpoint, err);
out:
    kvsi_free(checkpoint);
    return st;
}

/* `count` values from value `from` of the file on, of which number `number` of the tensor is the
 * first. */
static kvs_status check_values(const kvsi_weights_tensor *t, size_t from, size_t count,
                               size_t number, kvs_err *err)
{
    const kvsi_dtype dtype = t->view.dtype;
    float chunk[CHUNK];

    for (size_t at = 0; at < count; at += CHUNK) {
        const size_t n = count - at < CHUNK ? count - at : CHUNK;

        kvsi_dtype_decode(chunk, dtype,
                          (const char *)t->view.data + kvsi_dtype_bytes(dtype, from + at), n);
        for (size_t i = 0; i < n; i++)
            if (!isfinite(chunk[i]))
                return kvsi_fail(err, KVS_E_FORMAT, "'%s': tensor '%s' has %g at %zu", t->file,
                                 t->view.name, (double)chunk[i], number + at + i);
    }
    return KVS_OK;
}

static kvs_status check_finite(const kvsi_weights_tensor *t, kvs_err *err)
{
    const size_t count = kvsi_file_tensor_count(&t->view), runs = t->runs > 0 ? t->runs : 1;
    const size_t step = t->runs > 0 ? t->run_step * (count / t->view.shape[0]) : 0;

    for (size_t r = 0; r < runs; r++)
        TRY(check_values(t, r * step, count / runs, r * (count / runs), err));
    return KVS_OK;
}

kvs_status kvs_model_check(kvs_model_check_result *out, const char *path, kvs_err *err)
{
    kvs_model_check_result result = {.size = sizeof result};
    kvsi_weights *weights = NULL;
    kvs_status st;

    NEED(path);
    if (out)
        TRY(kvsi_sized_check(out, "kvs_model_check_result", err));
    TRY_OUT(check_sums(&result.has_checksums, path, err));
    TRY_OUT(kvsi_weights_open(&weights, path, err));
    TRY_OUT(kvsi_weights_check(weights, err));
    for (; result.tensors < kvsi_weights_count(weights); result.tensors++) {
        const kvsi_weights_tensor *t = kvsi_weights_at(weights, result.tensors);

        TRY_OUT(check_finite(t, err));
        result.values += kvsi_file_tensor_count(&t->view);
    }
    if (out)
        kvsi_sized_write(out, &result, sizeof result);
out:
    kvsi_weights_close(weights);
    return st;
}
