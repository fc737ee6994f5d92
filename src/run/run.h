/* run/run.h - the folder of a training run: the names of its files, and how far the run is.
 *
 *     train.jsonl         the log: a line of settings, then one record per step (run/record.h)
 *     train.csv           the records as a table, written at the end
 *     tb/                 the records for TensorBoard
 *     samples.jsonl       generated samples, if the run makes any
 *     benchmarks.jsonl    scores on benchmarks, if the run makes any (run/benchmarks.h)
 *     result.json         the final evaluation (run/result.h)
 *     config.json, model.safetensors, and tokenizer.json if there is one: the final model
 *     adapter_config.json, adapter_model.safetensors: its adapters for PEFT, if it has any
 *     ckpt/               checkpoints (run/checkpoint_files.h)
 *     diverged.json       why a run of an experiment ended early
 *     files of the caller (kvs_run_file)
 *
 * run/run_write.h writes a folder, run/run_read.h reads it back.  docs/run-folder.md describes
 * every file and field. */
#ifndef KVSI_RUN_RUN_H
#define KVSI_RUN_RUN_H

#include "config/config.h"
#include "kvshift/kvshift_lab.h"

/* The arguments of kvs_train. */
typedef struct kvsi_train_job {
    kvs_model *model;
    const kvs_data *data;
    kvs_train_config config;
    const char *out;           /* run folder; NULL = nothing is written */
    const char *command;       /* recorded in the settings; NULL = none */
    const kvs_run_file *files; /* written with the folder, before the first step */
    size_t file_count;
    const kvs_tokenizer *tokenizer; /* saved with the model and every checkpoint; NULL = none */
    kvs_resume resume;
    /* Callbacks, as in kvs_train_options. */
    int (*progress)(void *user, const kvs_step_record *record);
    void (*sample)(void *user, const kvs_model *model, uint64_t step, kvs_sample *out);
    int (*benchmark)(void *user, const kvs_model *model, uint64_t step, kvs_benchmark_scores *out);
    void (*notice)(void *user, const char *line);
    void *user;
} kvsi_train_job;

#define KVSI_RUN_LOG "train.jsonl"
#define KVSI_RUN_CSV "train.csv"
#define KVSI_RUN_TENSORBOARD "tb"
#define KVSI_RUN_SAMPLES "samples.jsonl"
#define KVSI_RUN_BENCHMARKS "benchmarks.jsonl"
#define KVSI_RUN_RESULT "result.json"
#define KVSI_RUN_CONFIG "config.json"
#define KVSI_RUN_MODEL "model.safetensors"
#define KVSI_RUN_ADAPTERS "adapter_model.safetensors"
#define KVSI_RUN_TOKENIZER "tokenizer.json"
#define KVSI_RUN_OLD_MODEL "model.before-resume.safetensors"
#define KVSI_RUN_CHECKPOINTS "ckpt"
#define KVSI_RUN_DIVERGED "diverged.json"

/* The files of a finished run that hold its result, ending with NULL.  result.json is the last: a
 * copy that has it is complete. */
extern const char *const kvsi_run_final_files[];

/* dir/name in new memory (kvsi_free); NULL on failure. */
kvs_status kvsi_run_path(char **out, const char *dir, const char *name, kvs_err *err);
/* Whether dir/name exists.  0 also if out of memory. */
int kvsi_run_has(const char *dir, const char *name);

/* KVS_RUN_DONE means that result.json has at least `steps` steps. */
kvs_run_state kvsi_run_state(const char *dir, uint64_t steps);
/* Marks the run as KVS_RUN_DIVERGED. */
kvs_status kvsi_run_mark_diverged(const char *dir, const char *message, kvs_err *err);

/* Writes a model that can be loaded from `dir`: kvs_model_save, and the tokenizer if not NULL. */
kvs_status kvsi_run_save_model(const char *dir, const kvs_model *model,
                               const kvs_tokenizer *tokenizer, kvs_err *err);

#endif
