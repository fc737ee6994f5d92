#include "eval/hashes.h"

#include "eval/python_text.h"

#include <string.h>

kvs_status kvsi_eval_document_hashes(kvsi_eval_hashes *out, const kvsi_eval_document *document,
                                     kvs_err *err)
{
    const char *prompt = document->requests[0].context;
    kvsi_text text = {0};
    kvs_status st;

    kvsi_python_json(&text, document->json);
    st = kvsi_text_check(&text, err);
    if (st == KVS_OK)
        kvsi_sha256_of(out->document, text.data, text.length);
    kvsi_text_release(&text);
    kvsi_sha256_of(out->prompt, prompt, strlen(prompt));
    kvsi_sha256_of(out->target, document->target, strlen(document->target));
    return st;
}

kvs_status kvsi_eval_task_hash(char out[KVSI_SHA256_TEXT], const kvsi_eval_task *task, kvs_err *err)
{
    kvsi_sha256 hash;

    kvsi_sha256_start(&hash);
    for (size_t i = 0; i < task->count; i++) {
        kvsi_eval_hashes hashes;

        TRY(kvsi_eval_document_hashes(&hashes, &task->documents[i], err));
        kvsi_sha256_add(&hash, hashes.document, KVSI_SHA256_TEXT - 1);
        kvsi_sha256_add(&hash, hashes.prompt, KVSI_SHA256_TEXT - 1);
        kvsi_sha256_add(&hash, hashes.target, KVSI_SHA256_TEXT - 1);
    }
    kvsi_sha256_finish(&hash, out);
    return KVS_OK;
}

void kvsi_eval_requests_hash(char out[KVSI_SHA256_TEXT], const kvsi_eval_task *task)
{
    kvsi_sha256 hash;

    kvsi_sha256_start(&hash);
    for (size_t i = 0; i < task->count; i++) {
        const kvsi_eval_document *document = &task->documents[i];

        for (size_t k = 0; k < document->count; k++) {
            const kvsi_eval_request *request = &document->requests[k];

            kvsi_sha256_add(&hash, request->context, strlen(request->context) + 1);
            if (request->continuation)
                kvsi_sha256_add(&hash, request->continuation, strlen(request->continuation) + 1);
        }
    }
    kvsi_sha256_finish(&hash, out);
}
