/* eval/tokens.h - the ids of a request, split and cut as lm-evaluation-harness does.
 *
 *   context, continuation    white space at the end of the context moves to the continuation
 *   c = encode(context), w = encode(context + continuation)
 *   ids = c ++ w[len(c):]    which may differ from w where a token crosses the boundary
 *
 * The last L + 1 ids are kept, where L is the longest input, and all but the last one are fed. */
#ifndef KVSI_EVAL_TOKENS_H
#define KVSI_EVAL_TOKENS_H

#include "eval/task.h"
#include "kvshift/kvshift_eval.h"

#include <stdint.h>

/* The ids of one request. */
typedef struct kvsi_eval_ids {
    int32_t *ids; /* context, then continuation */
    size_t count, context_count;
    int truncated; /* ids at the start were cut off */
} kvsi_eval_ids;

/* How texts become ids. */
typedef struct kvsi_eval_encoding {
    const kvs_tokenizer *tokenizer;
    kvs_eval_bos bos;
    size_t max_length; /* L */
} kvsi_eval_encoding;

enum { KVSI_EVAL_NEW_TOKENS = 256 }; /* most ids that a request without continuation generates */

/* Encodes all requests of a document into out[document->count].  A request without continuation
 * keeps the last max_length - KVSI_EVAL_NEW_TOKENS ids of its context.  Messages name the
 * document.  On failure too, the caller releases each of `out`, which must be {0} before. */
kvs_status kvsi_eval_encode(kvsi_eval_ids *out, const kvsi_eval_encoding *how,
                            const kvsi_eval_document *document, kvs_err *err);
void kvsi_eval_ids_release(kvsi_eval_ids *ids);

/* Encodes the requests of `count` documents, out[i] for documents[i], with several threads.  Of
 * several failures, that of the first document is reported. */
kvs_status kvsi_eval_encode_all(kvsi_eval_ids *const *out, const kvsi_eval_encoding *how,
                                const kvsi_eval_document *const *documents, size_t count,
                                int threads, kvs_err *err);

/* The text of generated ids, decoded alone and without special tokens, in fresh memory
 * (kvsi_free). */
kvs_status kvsi_eval_decode(char **out, const kvs_tokenizer *tokenizer, const int32_t *ids,
                            size_t count, kvs_err *err);

#endif
