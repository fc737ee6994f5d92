/* The folder of a run that is resumed: the checkpoint's state and moments, and the logs.  Checksums
 * are corrected, so that the code behind them is reached. */
#include "base/checksum.h"
#include "base/files.h"
#include "base/folders.h"
#include "base/memory.h"
#include "data/tasks/tasks.h"
#include "fuzz.h"
#include "train/trainer.h"

#include <stdio.h>
#include <string.h>

#define CHECKPOINT "run/ckpt/step-00000001/"

static const char *const names[] = {CHECKPOINT "state.json",  CHECKPOINT "optimizer.safetensors",
                                    CHECKPOINT "config.json", "run/train.jsonl",
                                    "run/samples.jsonl",      NULL};

static const kvs_data *task(void)
{
    static kvs_data *made;
    kvsi_ngram_config config;

    if (made)
        return made;
    kvsi_ngram_config_init(&config);
    config.alphabet = 2;
    config.pairs = 2;
    config.answers = 2;
    fuzz_expect(kvsi_ngram_create(&made, &config, NULL) == KVS_OK, "there is a task");
    return made;
}

static kvs_status train(kvs_resume resume, kvs_err *err)
{
    kvs_model *model = fuzz_model(
        &(kvs_model_config){SUPPORT_SHIFT(KVS_SHIFT_K, FREE, 1), .no_mlp = 1, .tied = 1});
    kvsi_train_job job = {.model = model, .data = task(), .out = "run", .resume = resume};
    kvs_train_result result = {.size = sizeof(kvs_train_result)};
    kvs_status st;

    kvsi_train_config_init(&job.config);
    job.config.eval_sequences = 1;
    job.config.checkpoint_every = resume == KVS_RESUME_NEVER;
    job.config.keep = 0;
    job.config.steps = 1;
    job.config.batch = 1;
    st = kvsi_train(&job, &result, err);
    kvs_model_free(model);
    return st;
}

/* ---- checksums ---- */

static void sum_of(char *out, const char *path)
{
    uint64_t sum = 0;

    kvsi_checksum_file(&sum, path, NULL);
    kvsi_checksum_print(out, sum);
}

/* Corrects the checksum of a file, if state.json has one for it. */
static void set_sum(kvsi_text *state, const char *name)
{
    char key[64], path[128], sum[KVSI_CHECKSUM_TEXT];

    snprintf(key, sizeof key, "\"%s\": \"", name);
    snprintf(path, sizeof path, CHECKPOINT "%s", name);
    sum_of(sum, path);
    fuzz_overwrite(state, key, sum);
}

static void set_sums(void)
{
    char *data, done[KVSI_CHECKSUM_TEXT];
    kvsi_text state = {0};
    size_t size;

    if (kvsi_file_read(&data, &size, names[0], 1 << 20, NULL) != KVS_OK)
        return;
    put_bytes(&state, data, size);
    set_sum(&state, "optimizer.safetensors");
    set_sum(&state, "config.json");
    set_sum(&state, "model.safetensors");
    fuzz_write(names[0], state.data, state.length);
    sum_of(done, names[0]);
    fuzz_write(CHECKPOINT "DONE", done, strlen(done));
    kvsi_text_release(&state);
    kvsi_free(data);
}

/* ---- the target ---- */

/* Makes a run of one step; inputs replace files in its folder. */
static void make_run(void)
{
    static int done;
    kvs_err err;

    if (!done)
        fuzz_expect(train(KVS_RESUME_NEVER, &err) == KVS_OK, err.message);
    done = 1;
}

kvs_status fuzz_run(const char *data, size_t size, kvs_err *err)
{
    make_run();
    kvsi_dir_remove("run/tb", NULL);
    fuzz_unpack(names, data, size);
    set_sums();
    return train(KVS_RESUME_ALWAYS, err);
}

void fuzz_seeds(void)
{
    static const char sample[] = "{\"step\": 1, \"prompt\": \"\", \"text\": \"a\"}\n";
    kvsi_text input = {0}, unfinished = {0};

    make_run();
    for (size_t i = 0; i < 4; i++)
        fuzz_pack_file(&input, names[i], names[i]);
    put_bytes(&unfinished, input.data, input.length);
    fuzz_pack(&input, names[4], sample, strlen(sample));
    fuzz_seed("ended", &input);
    fuzz_expect(fuzz_overwrite(&unfinished, "\"step\": ", "0"), "the state has a step");
    fuzz_seed("begun", &unfinished);
}
