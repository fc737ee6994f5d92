/* serve/answers.h - the JSON of completions, whole or in parts as server-sent events.
 *
 * Whole answers and parts are written by the same functions, from what an answer has not yet
 * written of a choice, so that the parts joined equal the whole. */
#ifndef KVSI_SERVE_ANSWERS_H
#define KVSI_SERVE_ANSWERS_H

#include "serve/engine.h"

typedef struct kvsi_answer kvsi_answer;

/* What all answers of a server share. */
typedef struct kvsi_answer_source {
    const kvs_tokenizer *tokenizer;
    const char *model, *fingerprint;
    int32_t anchor; /* see kvsi_token_text() */
} kvsi_answer_source;

/* Returns an id that is one ordinary word, or -1. */
int32_t kvsi_token_anchor(const kvs_tokenizer *tokenizer);
/* Appends the bytes that a token adds to a text.  They are those of the anchor and the token,
 * without those of the anchor, since some tokenizers drop a space at the start of a text. */
void kvsi_token_text(kvsi_text *out, const kvsi_answer_source *source, int32_t id);

/* `source` and `job` are borrowed.  The job must have been given to the engine before anything is
 * written. */
kvs_status kvsi_answer_create(kvsi_answer **out, const kvsi_answer_source *source, kvsi_job *job,
                              kvs_err *err);
void kvsi_answer_free(kvsi_answer *answer);

/* The answer to a job that is done. */
void kvsi_answer_whole(kvsi_text *out, kvsi_answer *answer);
/* Events with everything that is new of a choice; none if there is nothing to tell. */
void kvsi_answer_part(kvsi_text *out, kvsi_answer *answer, const kvsi_choice *choice);
/* The last events of a job that is done, also of one that failed. */
void kvsi_answer_end(kvsi_text *out, kvsi_answer *answer);

#endif
