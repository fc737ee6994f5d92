/* eval/stored.h - stored results of benchmarks: the files results_DATE.json and
 * samples_TASK_DATE.jsonl that 'kvshift eval --out' and lm-evaluation-harness write.
 *
 * Files are not trusted: lines are bounded, types are checked, and messages name file and line. */
#ifndef KVSI_EVAL_STORED_H
#define KVSI_EVAL_STORED_H

#include "base/json.h"
#include "base/status.h"

#include <stddef.h>
#include <stdint.h>

enum { KVSI_STORED_METRICS = 8, KVSI_NO_CHOICE = -1 };

/* What was asked of a document. */
typedef enum kvsi_stored_kind {
    KVSI_STORED_CHOICES,   /* the likeliest of several requests */
    KVSI_STORED_LAST_WORD, /* the likelihood of one request */
    KVSI_STORED_TEXT,      /* a generated text */
} kvsi_stored_kind;

typedef struct kvsi_stored_document {
    char *key;           /* doc_hash; without one, doc_id with the hashes of prompt and target */
    size_t id;           /* doc_id */
    uint64_t requests;   /* checksum of all contexts and continuations */
    uint64_t prompt;     /* checksum of prompt_hash and target_hash; 0 = there are none */
    size_t context;      /* characters of the first context */
    size_t choices;      /* number of requests; 0 for a text */
    double *metrics;     /* [KVSI_STORED_METRICS], NaN = missing; owns `likelihoods` too */
    double *likelihoods; /* [choices]: logarithms */
    int gold;            /* the right choice; KVSI_NO_CHOICE = not known */
    int longest;         /* the first of the longest choices */
    size_t gold_bytes;   /* of the right continuation, without the space before it */
    int copied;          /* the last word occurs in its context */
} kvsi_stored_document;

typedef struct kvsi_stored_task {
    char *name;  /* "mmlu_anatomy" */
    char *group; /* the outermost group, "mmlu"; NULL = none */
    char *file;  /* of the samples */
    kvsi_stored_kind kind;
    int shots; /* per document; -1 = not known */
    char *metrics[KVSI_STORED_METRICS];
    size_t metric_count;
    char *filter;                    /* of the samples, "none" */
    size_t filtered;                 /* samples of other filters, which are left out */
    kvsi_stored_document *documents; /* sorted by key, then by id */
    size_t count, capacity;
} kvsi_stored_task;

/* One model's results. */
typedef struct kvsi_stored {
    char *path;              /* as it was given */
    char *model;             /* its name in the results; "" = none */
    char *name;              /* the last part of `model`, or of `path` */
    char *label;             /* `name`, or `path` where several have the same name */
    kvsi_stored_task *tasks; /* in the order of the results */
    size_t count, capacity;
    char **remarks; /* whatever a reader must know of the files */
    size_t remark_count;
} kvsi_stored;

/* Opens a folder, or one results file.  In a folder each task is taken from the newest results that
 * have it.  On failure *out is released. */
kvs_status kvsi_stored_open(kvsi_stored *out, const char *path, kvs_err *err);
void kvsi_stored_close(kvsi_stored *stored); /* a zeroed one is fine */

/* Opens several and gives them labels that differ. */
kvs_status kvsi_stored_open_all(kvsi_stored **out, const char *const *paths, size_t count,
                                kvs_err *err);
void kvsi_stored_close_all(kvsi_stored *list, size_t count); /* NULL does nothing */

/* Adds a remark; printf. */
kvs_status kvsi_stored_remark(kvsi_stored *stored, kvs_err *err, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/* Reads the samples of a task, whose name, file and shots are set. */
kvs_status kvsi_stored_read_samples(kvsi_stored_task *task, kvs_err *err);
void kvsi_stored_task_release(kvsi_stored_task *task);

/* The index of a metric of the task; metric_count = none. */
size_t kvsi_stored_metric(const kvsi_stored_task *task, const char *name);
/* The task of that name; NULL = none. */
const kvsi_stored_task *kvsi_stored_task_at(const kvsi_stored *stored, const char *name);
/* The likeliest choice, the first of equals; KVSI_NO_CHOICE for a text. */
int kvsi_stored_choice(const kvsi_stored_document *document);

#endif
