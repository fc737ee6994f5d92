/* tokenizer/train.h - tokenizer training: counting words, and learning merges from the counts. */
#ifndef KVSI_TOKENIZER_TRAIN_H
#define KVSI_TOKENIZER_TRAIN_H

#include "kvshift/kvshift_files.h"
#include "tokenizer/vocabulary.h"

/* How often each word occurs.  Starts as {0}. */
typedef struct kvsi_word_counts {
    kvsi_vocabulary words;
    uint64_t *counts; /* [words.count] */
    size_t capacity;
} kvsi_word_counts;

kvs_status kvsi_word_counts_add(kvsi_word_counts *counts, const char *word, size_t size,
                                uint64_t times, kvs_err *err);
void kvsi_word_counts_release(kvsi_word_counts *counts);

/* Counts words, split by GPT-2's expression, in the text between special strings. */
typedef struct kvsi_word_counter kvsi_word_counter;

/* `training` gives the special strings and the number of threads; borrowed. */
kvs_status kvsi_word_counter_create(kvsi_word_counter **out, const kvs_tokenizer_training *training,
                                    kvs_err *err);
void kvsi_word_counter_free(kvsi_word_counter *counter);
/* Adds a piece of a text; `last`: the text ends with it.  Words do not cross the end of a text. */
kvs_status kvsi_word_counter_add(kvsi_word_counter *counter, const char *text, size_t size,
                                 int last, kvs_err *err);
/* Writes the sum over all threads to `counts`.  The counter can only be freed afterwards. */
kvs_status kvsi_word_counter_finish(kvsi_word_counter *counter, kvsi_word_counts *counts,
                                    kvs_err *err);

/* The result of training.  Starts as {0}. */
typedef struct kvsi_bpe_trained {
    kvsi_vocabulary tokens; /* as bytes: the 256 bytes, then merged tokens */
    struct kvsi_trained_merge {
        uint32_t left, right;
    } * merges; /* in the order in which they were learned */
    size_t count, capacity;
} kvsi_bpe_trained;

/* Learns at most `wanted` merged tokens; fewer if no pair is left. */
kvs_status kvsi_bpe_train(kvsi_bpe_trained *out, const kvsi_word_counts *counts, size_t wanted,
                          const kvs_tokenizer_training *training, kvs_err *err);
void kvsi_bpe_trained_release(kvsi_bpe_trained *learned);

#endif
