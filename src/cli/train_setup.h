/* cli/train_setup.h - what a training run works with: processor, task or text, model. */
#ifndef KVSI_CLI_TRAIN_SETUP_H
#define KVSI_CLI_TRAIN_SETUP_H

#include "cli/train_options.h"

/* Made in this order and freed in the other. */
typedef struct kvsi_train_setup {
    kvs_comm *comm; /* borrowed */
    kvs_runtime *rt;
    kvs_corpus *corpus;       /* NULL = a task */
    kvs_tokenizer *tokenizer; /* the text's or the task's; NULL = none, or not known */
    kvs_task *task;           /* NULL = a plan for text that is yet to come */
    kvs_model *model;         /* NULL after a dry run */
} kvsi_train_setup;

/* Makes all that the settings ask for, and fills in what they leave open.  Nothing is written.  All
 * ranks together: they succeed or fail alike. */
kvs_status kvsi_train_setup_create(kvsi_train_setup *w, kvsi_train_options *s,
                                   const kvsi_parsed_options *parsed, kvs_err *err);
void kvsi_train_setup_release(kvsi_train_setup *w);

#endif
