/* convert/convert.h - what the parts of kvs_convert share. */
#ifndef KVSI_CONVERT_CONVERT_H
#define KVSI_CONVERT_CONVERT_H

#include "convert/convert_source.h"

/* A model on its way. */
typedef struct kvsi_conversion {
    const kvs_convert_options *options;
    kvsi_convert_source source;
    kvs_tokenizer *tokenizer; /* NULL = none */
    const char *folder;       /* the input's, in Hugging Face's layout; NULL = it has none */
    char *parent;             /* owns it where it is not the input itself */
    int keeps_tokenizer;      /* it is the input's own */
    int keeps_ids;            /* the input's ids of special tokens count: no other tokenizer was
                                 given */
    kvsi_token_ids ids;       /* these; none if they do not count */
    char *chat_template;      /* of the input's tokenizer; NULL = none */
} kvsi_conversion;

/* A folder as Hugging Face has it: weights, config.json, tokenizer and, for a model of ours, the
 * Python file that runs it. */
kvs_status kvsi_convert_to_hf(kvsi_conversion *c, kvs_err *err);

#endif
