#include "base/files.h"
#include "base/json.h"
#include "base/memory.h"
#include "run/result.h"
#include "run/run.h"

const char *const kvsi_run_final_files[] = {KVSI_RUN_CONFIG,
                                            KVSI_RUN_MODEL,
                                            KVSI_RUN_TOKENIZER,
                                            KVSI_RUN_CSV,
                                            KVSI_RUN_LOG,
                                            KVSI_RUN_RESULT,
                                            NULL};

kvs_status kvsi_run_path(char **out, const char *dir, const char *name, kvs_err *err)
{
    *out = kvsi_path_join(dir, name);
    return *out ? KVS_OK : kvsi_fail(err, KVS_E_NOMEM, "out of memory for '%s'", dir);
}

int kvsi_run_has(const char *dir, const char *name)
{
    char *path = kvsi_path_join(dir, name);
    const int has = path && kvsi_file_exists(path);

    kvsi_free(path);
    return has;
}

kvs_status kvs_run_find(const char **file, const char *dir, kvs_err *err)
{
    static const char *const names[] = {KVSI_RUN_LOG, KVSI_RUN_MODEL};

    NEED(file);
    *file = NULL;
    NEED(dir);
    for (size_t i = 0; !*file && i < sizeof names / sizeof *names; i++) {
        char *path;

        TRY(kvsi_run_path(&path, dir, names[i], err));
        if (kvsi_file_exists(path))
            *file = names[i];
        kvsi_free(path);
    }
    return KVS_OK;
}

kvs_run_state kvsi_run_state(const char *dir, uint64_t steps)
{
    if (kvsi_run_has(dir, KVSI_RUN_DIVERGED))
        return KVS_RUN_DIVERGED;
    if (kvsi_result_steps(dir) >= steps)
        return KVS_RUN_DONE;
    return kvsi_run_has(dir, KVSI_RUN_LOG) ? KVS_RUN_BEGUN : KVS_RUN_NEW;
}

kvs_status kvsi_run_mark_diverged(const char *dir, const char *message, kvs_err *err)
{
    json_t *json = json_pack("{s:s}", "message", message);
    char *path;
    kvs_status st;

    TRY_OUT(kvsi_run_path(&path, dir, KVSI_RUN_DIVERGED, err));
    TRY_OUT(kvsi_json_write(json, path, err));
out:
    json_decref(json);
    kvsi_free(path);
    return st;
}

kvs_status kvsi_run_save_model(const char *dir, const kvs_model *model,
                               const kvs_tokenizer *tokenizer, kvs_err *err)
{
    char *path;
    kvs_status st;

    TRY_OUT(kvsi_run_path(&path, dir, KVSI_RUN_TOKENIZER, err));
    TRY_OUT(kvs_model_save(model, dir, err));
    if (tokenizer)
        TRY_OUT(kvs_tokenizer_save(tokenizer, path, err));
out:
    kvsi_free(path);
    return st;
}
