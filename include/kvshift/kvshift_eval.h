/** @file kvshift_eval.h
 * Benchmarks: the scores of lm-evaluation-harness 0.4.13, on files of the caller.
 *
 * These calls may change with every version, like those of kvshift_lab.h.  The rules of kvshift.h
 * apply.  docs/evaluation.md describes tasks, data and result files.
 */
#ifndef KVSHIFT_EVAL_H
#define KVSHIFT_EVAL_H

#include <kvshift/kvshift.h>

#ifdef __cplusplus
extern "C" {
#endif

/** Whether texts start with the tokenizer's BOS token. */
typedef enum kvs_eval_bos {
    KVS_EVAL_BOS_TOKENIZER, /**< as the tokenizer's template says */
    KVS_EVAL_BOS_ALWAYS,    /**< always; the tokenizer must have a BOS token */
    KVS_EVAL_BOS_NEVER      /**< never, except in place of an empty context */
} kvs_eval_bos;

/** How far an evaluation is. */
typedef struct kvs_eval_progress {
    size_t documents;      /**< in all */
    size_t done;           /**< documents that are done, including those of a resumed evaluation */
    size_t resumed;        /**< documents that were done before this call */
    double work;           /**< part of the work of this call that is done, 0 to 1 */
    const char *task;      /**< the task of the document that was completed last; NULL = none yet */
    const char *metric;    /**< its main metric: "acc" or "exact_match" */
    double value;          /**< mean of that metric over the documents of the task that are done */
    double error;          /**< its standard error; NaN for fewer than 2 documents */
    size_t task_done;      /**< documents of the task that are done */
    size_t task_documents; /**< documents of the task */
} kvs_eval_progress;

/** Options of kvs_eval_run(). */
typedef struct kvs_eval_options {
    size_t size;        /**< set by kvs_eval_options_init() */
    const char *tasks;  /**< names of tasks and groups, separated by commas; required */
    const char *data;   /**< folder with the folders arc, mmlu, ...; required */
    long num_fewshot;   /**< examples before each document; -1 = the default of each task */
    double limit;       /**< 0 = all documents, below 1 a fraction of each task, otherwise the first
                            documents of each task */
    size_t documents;   /**< 0, or the most documents of all tasks together: each task gets an equal
                            part, rounded up */
    kvs_eval_bos bos;   /**< ::KVS_EVAL_BOS_TOKENIZER by default */
    size_t max_length;  /**< the longest input in tokens; 0 = the model's context */
    kvs_dtype cache;    /**< type of keys and values, as in kvs_session_options */
    size_t pass_tokens; /**< tokens per pass; 0 = 512 */
    size_t pass_sequences;  /**< most sequences per pass; 0 = 128 */
    double memory;          /**< bytes for the states of open sequences; 0 = a quarter of the free
                                memory, at most 4 GB */
    const char *model_name; /**< the model's name in result files; NULL = "model" */
    const char *out;        /**< folder for result files, which is created; NULL = none are
                                 written */
    int resume;             /**< 1 = continue the evaluation that was interrupted in `out` */
    int reuse; /**< 1 = if `out` already has the results of this evaluation, nothing is scored, and
                    there are only paths */
    /** Called after each pass; non-zero stops with ::KVS_E_STOPPED. */
    int (*progress)(void *user, const kvs_eval_progress *progress);
    void *user; /**< passed to the callback */
} kvs_eval_options;

/** Sets the defaults; `size` is sizeof *options. */
KVS_API void kvs_eval_options_init(kvs_eval_options *options, size_t size);

typedef struct kvs_eval kvs_eval; /**< the results of an evaluation */

/** Scores a model on tasks.  The runtime of the model must be exact, so that results have the same
 * bits for every number of threads, size of passes and interruption.  With `out`, every document is
 * written to a journal when it is done; at the end result files appear and the journal is
 * removed. */
KVS_API kvs_status kvs_eval_run(kvs_eval **out, const kvs_model *model,
                                const kvs_tokenizer *tokenizer, const kvs_eval_options *options,
                                kvs_err *err);
/** Frees the results. */
KVS_API void kvs_eval_free(kvs_eval *eval);

/** One metric of a task or of a group. */
typedef struct kvs_eval_row {
    const char *name;   /**< "mmlu_anatomy"; a group's name: "mmlu" */
    int is_group;       /**< 1 = a group of tasks */
    size_t section;     /**< 0, or the number of the section of "paper" and "paper-mmlu"; their last
                             section has the columns of the paper's table */
    const char *title;  /**< the title of the section; NULL = the tasks were listed */
    size_t num_fewshot; /**< examples before each document */
    const char
        *metric;      /**< "acc", "acc_norm", "perplexity", "exact_match"; "mean" of the columns */
    double value;     /**< mean over documents, or exp(-mean) for perplexity */
    double error;     /**< standard error; NaN = there is none */
    size_t documents; /**< documents that were scored */
    size_t official;  /**< documents of the published set; 0 = not known */
} kvs_eval_row;

/** Returns the row with this index, groups first, then tasks in the order of the list; NULL past
 * the end. */
KVS_API const kvs_eval_row *kvs_eval_row_at(const kvs_eval *eval, size_t index);
/** Returns the results in the format of the harness's results file, as JSON. */
KVS_API const char *kvs_eval_json(const kvs_eval *eval);
/** Returns the path of the results file, of several the first; NULL = none was written. */
KVS_API const char *kvs_eval_path(const kvs_eval *eval);
/** Returns the path of the results file with this index; "paper" and "paper-mmlu" have one for each
 * number of examples.  NULL past the end. */
KVS_API const char *kvs_eval_path_at(const kvs_eval *eval, size_t index);

#ifdef __cplusplus
}
#endif
#endif
