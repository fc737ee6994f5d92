/* cli/train_setup.h - the objects that a training run needs: runtime, task or text, model. */
#ifndef KVSI_CLI_TRAIN_SETUP_H
#define KVSI_CLI_TRAIN_SETUP_H

#include "cli/train_options.h"
#include "kvshift/kvshift_files.h"
#include "kvshift/kvshift_mpi.h"

/* Created in this order, released in the reverse order. */
typedef struct kvsi_train_setup {
    kvs_comm *comm; /* borrowed */
    kvs_runtime *rt;
    kvs_corpus *corpus;               /* NULL = a synthetic task, or a text file */
    kvs_chat_template *chat_template; /* of the messages of a text file; NULL = there are none */
    kvs_records_info records;         /* of a text file; no records = there is none */
    kvs_tokenizer *tokenizer;         /* of the text or the task; NULL = none, or not known */
    kvs_data *data;                   /* NULL = a plan for text that is not given */
    kvs_model *model;                 /* NULL after --dry-run */
} kvsi_train_setup;

/* Creates what the options ask for, and sets the options that depend on it, such as the vocabulary.
 * Writes no files.  Collective: all ranks succeed or all fail. */
kvs_status kvsi_train_setup_create(kvsi_train_setup *setup, kvsi_train_options *s,
                                   const kvsi_parsed_options *parsed, kvs_err *err);
void kvsi_train_setup_release(kvsi_train_setup *setup);

#endif
