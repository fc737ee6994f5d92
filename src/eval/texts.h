/* eval/texts.h - greedy texts after many prompts, several at a time. */
#ifndef KVSI_EVAL_TEXTS_H
#define KVSI_EVAL_TEXTS_H

#include "base/status.h"

#include <stddef.h>
#include <stdint.h>

typedef struct kvsi_text_request {
    const int32_t *ids; /* the prompt, borrowed */
    size_t count;
    char *text; /* result, kvsi_free */
} kvsi_text_request;

typedef struct kvsi_text_options {
    size_t sequences, tokens; /* per pass */
    size_t new_tokens;        /* at most, per text */
    kvs_dtype cache;
    /* A text is cut at the first occurrence of the first stop string, then of the next, ... */
    const char *const *stops;
    size_t stop_count;
    /* Called after each text with the index of its request. */
    kvs_status (*done)(void *user, size_t index, kvs_err *err);
    void *user;
} kvsi_text_options;

/* Generates the texts.  A text ends at a stop string, at a token that ends a text, or after
 * new_tokens tokens.  New ids are decoded alone and without special tokens. */
kvs_status kvsi_generate_texts(kvsi_text_request *requests, size_t count, const kvs_model *model,
                               const kvs_tokenizer *tokenizer, const kvsi_text_options *options,
                               kvs_err *err);

#endif
