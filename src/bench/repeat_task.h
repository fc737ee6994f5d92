/* bench/repeat_task.h - data of a measurement: the same batch of random tokens every time.
 *
 * The batch is cut from one row of batch * length + 1 tokens; a sequence's targets are its tokens
 * one place later in the row, so that the row alone defines the batch for other programs. */
#ifndef KVSI_BENCH_REPEAT_TASK_H
#define KVSI_BENCH_REPEAT_TASK_H

#include "bench/models.h"
#include "bench/profile.h"

/* Creates the task.  Its time is added to `profile`, unless that is NULL. */
kvs_status kvsi_repeat_task_create(kvs_data **out, const kvsi_bench_model *model,
                                   kvsi_profile *profile, kvs_err *err);
/* Writes tokens[batch * length + 1] to the file batch.safetensors of a folder. */
kvs_status kvsi_repeat_task_save(const kvs_data *task, const char *dir, kvs_err *err);

#endif
