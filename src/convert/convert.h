/* convert/convert.h - shared by the parts of kvs_convert. */
#ifndef KVSI_CONVERT_CONVERT_H
#define KVSI_CONVERT_CONVERT_H

#include "convert/convert_source.h"

/* A conversion in progress. */
typedef struct kvsi_conversion {
    const kvsi_convert_request *request;
    kvsi_convert_source source;
    kvs_tokenizer *tokenizer; /* NULL = none */
    const char *folder;       /* the input's folder in Hugging Face's layout; NULL = none */
    char *parent;             /* owns `folder` if that is not the input itself */
    int keeps_tokenizer;      /* the input's own tokenizer is used */
    int keeps_ids; /* the input's ids of special tokens are used: no other tokenizer was given */
    kvsi_token_ids ids;  /* these; empty if not used */
    char *chat_template; /* of the input's tokenizer; NULL = none */
    char *base;          /* owns the path of the input, if the adapter names it */
} kvsi_conversion;

/* Sets the default options. */
void kvsi_convert_request_init(kvsi_convert_request *request);
/* Implements kvs_convert, with its arguments in one struct. */
kvs_status kvsi_convert(const kvsi_convert_request *request, kvs_err *err);

/* Writes a folder in Hugging Face's layout: weights, config.json, tokenizer and, for our models,
 * the Python file that runs it. */
kvs_status kvsi_convert_to_hf(kvsi_conversion *c, kvs_err *err);

#endif
