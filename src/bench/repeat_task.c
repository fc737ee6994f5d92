#include "bench/repeat_task.h"

#include "base/clock.h"
#include "base/files.h"
#include "base/memory.h"
#include "data/data.h"
#include "formats/safetensors.h"

#include <string.h>

typedef struct repeat_task {
    kvs_data base;
    size_t batch, length;
    int32_t *row; /* [batch * length + 1] */
    kvsi_profile *profile;
} repeat_task;

static kvs_status draw(size_t *length, const kvs_data *task, kvsi_random *random, int32_t *ids,
                       int32_t *targets, uint8_t *scored, kvs_err *err)
{
    const repeat_task *t = (const repeat_task *)task;
    const int32_t *from = t->row + random->index % t->batch * t->length;
    const double started = kvsi_clock_seconds();

    (void)err;
    memcpy(ids, from, t->length * sizeof *ids);
    memcpy(targets, from + 1, t->length * sizeof *targets);
    memset(scored, 0, t->length * sizeof *scored);
    if (t->profile)
        kvsi_profile_add(t->profile,
                         &(kvs_bench_op){.op = "data",
                                         .seconds = kvsi_clock_seconds() - started,
                                         .bytes = 4.0 * sizeof *ids * (double)t->length});
    *length = t->length;
    return KVS_OK;
}

static json_t *describe(const kvs_data *task)
{
    const repeat_task *t = (const repeat_task *)task;

    return json_pack("{s:s, s:I, s:I}", "name", task->ops->name, "batch", (json_int_t)t->batch,
                     "length", (json_int_t)t->length);
}

static void release(kvs_data *task)
{
    repeat_task *t = (repeat_task *)task;

    kvsi_free(t->row);
    kvsi_free(t);
}

static const kvsi_data_ops repeat_ops = {
    .name = "repeat", .draw = draw, .describe = describe, .release = release};

kvs_status kvsi_repeat_task_create(kvs_data **out, const kvsi_bench_model *model,
                                   kvsi_profile *profile, kvs_err *err)
{
    repeat_task *t = kvsi_alloc(1, sizeof *t);
    size_t tokens;
    kvsi_random random;

    *out = NULL;
    if (t && !__builtin_mul_overflow(model->batch, model->length, &tokens) && tokens < SIZE_MAX)
        t->row = kvsi_alloc(tokens + 1, sizeof *t->row);
    if (!t || !t->row) {
        kvsi_free(t);
        return kvsi_no_memory(err, "a batch of %zu times %zu tokens", model->batch, model->length);
    }
    t->base = (kvs_data){.ops = &repeat_ops,
                         .vocab = model->config.vocab,
                         .max_tokens = model->length,
                         .mean_tokens = (double)model->length};
    t->batch = model->batch;
    t->length = model->length;
    t->profile = profile;
    kvsi_random_init(&random, 1, KVSI_RANDOM_DATA, 0);
    for (size_t i = 0; i <= tokens; i++)
        t->row[i] = (int32_t)kvsi_random_below(&random, (uint32_t)model->config.vocab);
    *out = &t->base;
    return KVS_OK;
}

kvs_status kvsi_repeat_task_save(const kvs_data *task, const char *dir, kvs_err *err)
{
    const repeat_task *t = (const repeat_task *)task;
    const kvsi_file_tensor tensor = {.name = "tokens",
                                     .dtype = KVSI_I32,
                                     .rank = 1,
                                     .shape = {t->batch * t->length + 1},
                                     .data = t->row};
    char *path = kvsi_path_join(dir, "batch.safetensors");
    kvs_status st;

    if (!path)
        return kvsi_no_memory(err, "'%s'", dir);
    st = kvsi_safetensors_write(path, &tensor, 1, err);
    kvsi_free(path);
    return st;
}
