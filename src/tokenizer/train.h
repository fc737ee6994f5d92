/* tokenizer/train.h - the two halves of training: counting words, and learning merges from them. */
#ifndef KVSI_TOKENIZER_TRAIN_H
#define KVSI_TOKENIZER_TRAIN_H

#include "tokenizer/vocabulary.h"

/* How often each word occurs; starts as {0}. */
typedef struct kvsi_word_counts {
    kvsi_vocabulary words;
    uint64_t *counts; /* of words.count words */
    size_t capacity;
} kvsi_word_counts;

kvs_status kvsi_word_counts_add(kvsi_word_counts *counts, const char *word, size_t size,
                                uint64_t times, kvs_err *err);
void kvsi_word_counts_release(kvsi_word_counts *counts);

/* Counts the words of texts, by GPT-2's pre-tokenizer, between the special strings. */
typedef struct kvsi_word_counter kvsi_word_counter;

/* The training's special strings and threads; borrowed. */
kvs_status kvsi_word_counter_create(kvsi_word_counter **out, const kvs_tokenizer_training *training,
                                    kvs_err *err);
void kvsi_word_counter_free(kvsi_word_counter *counter);
/* A piece of a text; `last` says that the text ends with it.  No word crosses the end of a text. */
kvs_status kvsi_word_counter_add(kvsi_word_counter *counter, const char *text, size_t size,
                                 int last, kvs_err *err);
/* Writes the sum over all threads to `counts`.  The counter can only be freed afterwards. */
kvs_status kvsi_word_counter_finish(kvsi_word_counter *counter, kvsi_word_counts *counts,
                                    kvs_err *err);

/* What was learned; starts as {0}. */
typedef struct kvsi_bpe_trained {
    kvsi_vocabulary tokens; /* as bytes: the 256 bytes, then what merges made of them */
    struct kvsi_trained_merge {
        uint32_t left, right;
    } * merges; /* in their order */
    size_t count, capacity;
} kvsi_bpe_trained;

/* At most `wanted` tokens more than the bytes; fewer if nothing is left to merge. */
kvs_status kvsi_bpe_train(kvsi_bpe_trained *out, const kvsi_word_counts *counts, size_t wanted,
                          const kvs_tokenizer_training *training, kvs_err *err);
void kvsi_bpe_trained_release(kvsi_bpe_trained *learned);

#endif
