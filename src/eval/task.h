/* eval/task.h - a benchmark task: its documents with the requests that score them.
 *
 * Loading a task reads its files, draws the few-shot examples and makes the texts of all requests,
 * character by character as lm-evaluation-harness 0.4.13 does.  It knows no model and no tokenizer:
 * requests are texts.  Scoring (eval/score.h) makes tokens of them. */
#ifndef KVSI_EVAL_TASK_H
#define KVSI_EVAL_TASK_H

#include "base/json.h"
#include "base/status.h"

#include <stddef.h>
#include <stdint.h>

typedef enum kvsi_eval_kind {
    KVSI_EVAL_CHOICES,   /* the likeliest of several requests: acc, acc_norm */
    KVSI_EVAL_LAST_WORD, /* one request; whether it is the greedy continuation: acc, perplexity */
    KVSI_EVAL_GENERATE   /* greedy text after the context, graded: exact_match */
} kvsi_eval_kind;

/* Both texts are UTF-8 and end with a NUL; they cannot contain one. */
typedef struct kvsi_eval_request {
    const char *context;
    const char *continuation; /* NULL for KVSI_EVAL_GENERATE */
} kvsi_eval_request;

typedef struct kvsi_eval_document {
    size_t id;    /* doc_id: position in the evaluated split, from 0 */
    json_t *json; /* the document in the harness's layout ("doc" of a sample); owned by the task */
    const kvsi_eval_request *requests;
    size_t count;          /* of requests; for choices, one per choice */
    const size_t *lengths; /* [count]: code points of the choices, for acc_norm; NULL otherwise */
    size_t gold;           /* index of the right choice; 0 otherwise */
    const char *target;    /* "target" of a sample: gold index, word, rest of a sentence, or the
                            * boxed answer; the solution is in json */
    const char *file;      /* where the document was read, for messages */
    size_t line;           /* first line of the document in that file, from 1 */
} kvsi_eval_document;

typedef struct kvsi_eval_file {
    const char *path;
    uint64_t checksum; /* XXH64 of its bytes */
} kvsi_eval_file;

typedef struct kvsi_eval_task {
    const char *name;  /* "arc_easy", "mmlu_anatomy" */
    const char *alias; /* "arc_easy", "anatomy" */
    double version;
    kvsi_eval_kind kind;
    int normalized;   /* acc_norm is reported too */
    size_t shots;     /* few-shot examples per document */
    size_t official;  /* documents of the published split, 0 = unknown */
    size_t available; /* documents in the files, before the limit ("original") */
    kvsi_eval_document *documents;
    size_t count;          /* after the limit ("effective") */
    kvsi_eval_file *files; /* those read: documents, then few-shot examples */
    size_t file_count;
    struct kvsi_arena *memory; /* owns all texts and arrays; private to the loader */
} kvsi_eval_task;

typedef struct kvsi_eval_load {
    const char *data; /* folder with arc, mmlu, ... */
    long shots;       /* -1 = the task's default */
    double limit;     /* 0 = all; below 1 a fraction, rounded up */
} kvsi_eval_load;

/* Loads one task by its own name.  Lists of names and groups are in eval/groups.h.  An unknown name
 * is refused with the nearest one, a missing file with what was looked for. */
kvs_status kvsi_eval_task_load(kvsi_eval_task **out, const char *name, const kvsi_eval_load *load,
                               kvs_err *err);
void kvsi_eval_task_free(kvsi_eval_task *task);

#endif
