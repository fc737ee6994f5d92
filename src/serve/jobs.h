/* serve/jobs.h - makes a job from a checked request: text into ids, messages into text, and the
 * limits that need the number of tokens. */
#ifndef KVSI_SERVE_JOBS_H
#define KVSI_SERVE_JOBS_H

#include "kvshift/kvshift_files.h"
#include "serve/engine.h"

typedef struct kvsi_job_source {
    const kvs_tokenizer *tokenizer;
    const kvs_chat_template *chat_template; /* NULL = none */
    int32_t chat_stop_id; /* the token that ends a message of the template; -1 = none */
    size_t context;
} kvsi_job_source;

enum {
    KVSI_SCORES_MAX = 4 << 20,    /* log-probabilities of the prompts of a request */
    KVSI_CHOICES_MAX = 4096,      /* texts of a request */
    KVSI_NEW_TOKENS_MAX = 4 << 20 /* of all of them */
};

/* job->request is set; on success everything else that a caller sets, but `user` and the callbacks.
 * `key` is the number of the API key.  Release the job in any case. */
kvs_status kvsi_job_build(kvsi_job *job, const kvsi_job_source *source, size_t key,
                          kvsi_refusal *refusal);
/* Frees prompts, results and the request. */
void kvsi_job_release(kvsi_job *job);

#endif
