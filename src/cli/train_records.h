/* cli/train_records.h - a file of conversations or documents as the data of 'kvshift train'. */
#ifndef KVSI_CLI_TRAIN_RECORDS_H
#define KVSI_CLI_TRAIN_RECORDS_H

#include "cli/train_setup.h"

/* Loads the tokenizer and, for messages, the chat template, and creates the data. */
kvs_status kvsi_train_open_records(kvsi_train_setup *w, const kvsi_train_options *s,
                                   const kvsi_parsed_options *parsed, kvs_err *err);
/* Fails if an option was given that is only for text files. */
kvs_status kvsi_train_refuse_record_options(const kvsi_train_options *s,
                                            const kvsi_parsed_options *parsed, kvs_err *err);
/* Prints what the file has and what the run makes of it, on standard error. */
void kvsi_train_announce_records(const kvsi_train_setup *w, const kvsi_train_options *s);

/* Returns the length of the longest sequence of a text, in fed tokens. */
size_t kvsi_train_sequence_tokens(const kvsi_train_options *s);
/* Return the number of sequences of a corpus or a text file, for training and for validation. */
uint64_t kvsi_train_sequences(const kvsi_train_setup *w, const kvsi_train_options *s);
uint64_t kvsi_train_valid_sequences(const kvsi_train_setup *w, const kvsi_train_options *s);
/* Returns whether the data is conversations. */
int kvsi_train_has_conversations(const kvsi_train_setup *w);

#endif
