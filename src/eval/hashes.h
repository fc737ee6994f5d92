/* eval/hashes.h - the hashes by which results of lm-evaluation-harness can be compared. */
#ifndef KVSI_EVAL_HASHES_H
#define KVSI_EVAL_HASHES_H

#include "base/sha256.h"
#include "eval/task.h"

/* SHA-256 hashes of one document. */
typedef struct kvsi_eval_hashes {
    char
        document[KVSI_SHA256_TEXT]; /* doc_hash: of json.dumps(doc, indent=2, ensure_ascii=False) */
    char prompt[KVSI_SHA256_TEXT];  /* prompt_hash: of the first request's context */
    char target[KVSI_SHA256_TEXT];  /* target_hash: of the target */
} kvsi_eval_hashes;

kvs_status kvsi_eval_document_hashes(kvsi_eval_hashes *out, const kvsi_eval_document *document,
                                     kvs_err *err);
/* The entry of task_hashes: the hash of the three hashes of each document, one after another. */
kvs_status kvsi_eval_task_hash(char out[KVSI_SHA256_TEXT], const kvsi_eval_task *task,
                               kvs_err *err);
/* The hash of all requests, each as context, NUL, continuation, NUL.  Tasks that generate text have
 * no continuation: context, NUL. */
void kvsi_eval_requests_hash(char out[KVSI_SHA256_TEXT], const kvsi_eval_task *task);

#endif
