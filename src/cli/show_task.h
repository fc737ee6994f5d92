/* cli/show_task.h - sequences of a task as people read them. */
#ifndef KVSI_CLI_SHOW_TASK_H
#define KVSI_CLI_SHOW_TASK_H

#include "base/status.h"

/* The first `count` that a seed trains on.  With a tokenizer, text. */
kvs_status kvsi_show_task(const kvs_task *task, const kvs_tokenizer *tokenizer, uint64_t seed,
                          size_t count, kvs_err *err);

#endif
