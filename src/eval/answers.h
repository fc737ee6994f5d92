/* eval/answers.h - what a model answered to the documents of a task, and what that counts. */
#ifndef KVSI_EVAL_ANSWERS_H
#define KVSI_EVAL_ANSWERS_H

#include "eval/task.h"

/* The answer to one document.  Starts as {0}. */
typedef struct kvsi_eval_answer {
    int done;
    double *sums;          /* [requests] log-likelihoods; NULL for generated text */
    unsigned char *greedy; /* [requests] */
    char *text;            /* generated text; NULL otherwise */
    int right, undecided;  /* verdict on the text */
} kvsi_eval_answer;

/* Allocates the results of a document that is scored. */
kvs_status kvsi_eval_answer_init(kvsi_eval_answer *answer, const kvsi_eval_document *document,
                                 kvs_err *err);
void kvsi_eval_answer_release(kvsi_eval_answer *answer);
/* Sets the verdict on answer->text. */
kvs_status kvsi_eval_grade(kvsi_eval_answer *answer, const kvsi_eval_task *task,
                           const kvsi_eval_document *document, kvs_err *err);

/* Returns the name of metric 0, 1, ... of a task; NULL past the end. */
const char *kvsi_eval_metric(const kvsi_eval_task *task, size_t index);
/* The main metric of a task: whether an answer is right. */
const char *kvsi_eval_main_metric(const kvsi_eval_task *task);
/* A metric of one document: 1 = right, 0 = wrong; "perplexity" = the log-likelihood. */
double kvsi_eval_value(const char *metric, const kvsi_eval_document *document,
                       const kvsi_eval_answer *answer);
/* Whether the two likeliest choices differ by less than rounding may. */
int kvsi_eval_is_near_tie(const kvsi_eval_document *document, const kvsi_eval_answer *answer);

/* A metric of a task over all its documents. */
typedef struct kvsi_eval_score {
    double value, error; /* error: NaN = there is none */
} kvsi_eval_score;

kvs_status kvsi_eval_score_task(kvsi_eval_score *out, const char *metric,
                                const kvsi_eval_task *task, const kvsi_eval_answer *answers,
                                int threads, kvs_err *err);

#endif
