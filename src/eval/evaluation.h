/* eval/evaluation.h - one evaluation: the tasks of a plan, the answers to them, the results. */
#ifndef KVSI_EVAL_EVALUATION_H
#define KVSI_EVAL_EVALUATION_H

#include "eval/answers.h"
#include "eval/groups.h"
#include "eval/score.h"
#include "eval/tokens.h"

enum { KVSI_EVAL_METRICS_MAX = 2 }; /* of a task or group */

/* One task of one section of the plan. */
typedef struct kvsi_eval_part {
    size_t section;
    kvsi_eval_task *task;
    kvsi_eval_ids *ids;           /* of all requests, document by document */
    kvsi_eval_ids **document_ids; /* [documents] into `ids` */
    kvsi_eval_answer *answers;    /* [documents] */
    size_t *open;                 /* [documents] requests that are not scored yet */
    size_t request_count, truncated;
    size_t done;
    double right; /* sum of the main metric over the documents that are done */
    kvsi_eval_score scores[KVSI_EVAL_METRICS_MAX]; /* in the order of kvsi_eval_metric */
    char requests_hash[65];
} kvsi_eval_part;

struct kvs_eval {
    /* what is evaluated; model and tokenizer are used during kvs_eval_run() only */
    const kvs_model *model;
    const kvs_tokenizer *tokenizer;
    kvs_eval_options o;
    kvsi_eval_encoding encoding;
    kvsi_eval_plan *plan;
    kvsi_eval_part *parts;
    size_t part_count;
    size_t *section_starts; /* [sections + 1] into parts */
    size_t documents, done, resumed;

    /* results */
    kvsi_score_totals totals; /* tokens of all requests */
    uint64_t weights;         /* hash of the weights */
    double started;           /* Unix time */
    double seconds;           /* of this run */
    kvs_eval_row *rows;
    size_t row_count, row_capacity;
    char *json;
    char **paths; /* of the results files that were written, or are there already */
    size_t path_count;
};

/* A metric of a part; 0 = it does not have that metric. */
int kvsi_eval_part_score(kvsi_eval_score *out, const kvsi_eval_part *part, const char *metric);

/* ---- groups: group_scores.c ---- */

/* The metrics of a group: names as those of tasks. */
const char *kvsi_eval_group_metric(const kvs_eval *eval, size_t section,
                                   const kvsi_eval_group *group, size_t index);

typedef struct kvsi_eval_group_score {
    double value, error;
    double task_mean; /* the mean over tasks, each with the same weight */
    size_t documents;
} kvsi_eval_group_score;

kvs_status kvsi_eval_score_group(kvsi_eval_group_score *out, const kvs_eval *eval, size_t section,
                                 const kvsi_eval_group *group, const char *metric, kvs_err *err);

/* ---- results in the format of lm-evaluation-harness: result_json.c, result_files.c ---- */

/* The results of all sections; a new reference in *out. */
kvs_status kvsi_eval_results(json_t **out, const kvs_eval *eval, kvs_err *err);
/* The results of one section. */
kvs_status kvsi_eval_section_results(json_t **out, const kvs_eval *eval, size_t section,
                                     kvs_err *err);
/* dir/NAME for the model's name, in fresh memory (kvsi_free). */
kvs_status kvsi_eval_model_folder(char **out, const char *dir, const char *model, kvs_err *err);
/* Writes the files of all sections below a folder, and then what they are the results of. */
kvs_status kvsi_eval_write_files(kvs_eval *eval, const char *folder, const json_t *fingerprint,
                                 kvs_err *err);
/* Sets eval->paths if the newest complete results in the folder have this fingerprint. */
kvs_status kvsi_eval_find_files(kvs_eval *eval, const char *folder, const json_t *fingerprint,
                                kvs_err *err);

#endif
