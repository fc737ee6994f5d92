/** @file kvshift_lab.h
 * The research API, whose calls may change with every version.
 *
 * The sections come in this order.  Each starts with a line like the one of the first,
 * "---- tasks ----":
 *
 *   tasks                    synthetic data: induction, ngram, hopk, igsm
 *   sizes and plans          memory, transfers and time that a model or a run would need
 *   perplexity               loss of texts, also compared with another model, and by position
 *   reports                  comparisons of runs
 *   stored evaluations       benchmark results: measures, comparisons, tables
 *   benchmarks: models       model sizes and batches to measure with
 *   benchmarks: the machine  peak rates and matrix products
 *   benchmarks: attention    the time of one layer's attention
 *   benchmarks: training     the time of training steps
 *   benchmarks: inference    the time of prompts and generated tokens
 *   theory                   the paper's theorems as formulas
 *   lens                     attention patterns and the roles of heads
 *   experiments              the paper's experiments
 *
 * The rules of kvshift.h apply, except that most structs here have no `size`.
 */
#ifndef KVSHIFT_LAB_H
#define KVSHIFT_LAB_H

#include <kvshift/kvshift_files.h>

#ifdef __cplusplus
extern "C" {
#endif

/* ---- tasks ----------------------------------------------------------------------------------- */

/** Returns the name of the synthetic task with this index; NULL past the end.
 *
 * induction: "... A B ... A -> B".  The tokens are 11 .. vocab-1.  All tokens differ, except that
 * the last one equals an earlier one; the target is the token after that one.
 *
 * ngram: memorising a fixed table of triples (x1, x2, x3).  All pairs (x1, x2) differ, and each x3
 * is random.  The model reads x1 and x2, which are tokens 0 .. alphabet-1; the target is x3, one of
 * the next `answers` tokens.  Sequence i is pair i mod `pairs`, in training and in evaluation, so a
 * batch of `pairs` sequences is the whole table.
 *
 * hopk: k-hop induction.  The first token is k, all others are letters.  One hop from position t
 * finds the last earlier position with the same letter as t and goes to the position after it.  The
 * target at t is the letter at the position that k hops from t reach, or "none" if a hop finds no
 * earlier occurrence.  The ids are the numbers 0 .. hops, then the letters, "none" and "blank"; the
 * target of the first token is "blank".  All targets have a loss; only letters are scored.
 *
 * igsm: word problems in arithmetic modulo 23 with step-by-step solutions. */
KVS_API const char *kvs_task_name(size_t index);
/** Returns the setting of a task with this index; NULL past the end and for an unknown task. */
KVS_API const kvs_setting *kvs_task_setting(const char *task, size_t index);

/** The configuration of a task, like ::kvs_model_config. */
typedef struct kvs_task_config kvs_task_config;

/** Creates a configuration with the defaults of a task. */
KVS_API kvs_status kvs_task_config_create(kvs_task_config **out, const char *task, kvs_err *err);
/** Copies a configuration. */
KVS_API kvs_status kvs_task_config_copy(kvs_task_config **out, const kvs_task_config *config,
                                        kvs_err *err);
/** Frees a configuration. */
KVS_API void kvs_task_config_free(kvs_task_config *config);
/** Sets one setting from text, like kvs_model_config_set(). */
KVS_API kvs_status kvs_task_config_set(kvs_task_config *config, const char *name, const char *value,
                                       kvs_err *err);
/** Sets a flag, a count or a number. */
KVS_API kvs_status kvs_task_config_set_number(kvs_task_config *config, const char *name,
                                              double value, kvs_err *err);
/** Writes a value as text, like kvs_model_config_get(). */
KVS_API kvs_status kvs_task_config_get(char *out, size_t size, const kvs_task_config *config,
                                       const char *name, kvs_err *err);
/** Returns the value of a flag, a count or a number; NaN for another setting or an unknown name. */
KVS_API double kvs_task_config_number(const kvs_task_config *config, const char *name);

/** Options of kvs_task_create(). */
typedef struct kvs_task_options {
    size_t size;                    /**< set by kvs_task_options_init() */
    size_t vocab;                   /**< induction: the vocabulary of the model; 0 = 1000 */
    uint64_t seed;                  /**< ngram: the seed of the table; 1 by default */
    const kvs_tokenizer *tokenizer; /**< igsm: encodes the text, used only during the call; NULL =
                                         each word is a token */
} kvs_task_options;

/** Sets the defaults; `size` is sizeof *options. */
KVS_API void kvs_task_options_init(kvs_task_options *options, size_t size);
/** Creates the data of a task.  Free it with kvs_data_free(). */
KVS_API kvs_status kvs_task_create(kvs_data **out, const kvs_task_config *config,
                                   const kvs_task_options *options, kvs_err *err);
/** Writes the word or the number that an id of the task stands for, as text that ends with NUL. */
KVS_API void kvs_task_word(char *out, size_t size, const kvs_data *data, int32_t id);
/** Returns the best accuracy that is possible on the table of ngram for a model that sees only x2;
 * NaN for other data. */
KVS_API double kvs_ngram_ceiling(const kvs_data *data);

/** The grade of a solution that a model generated. */
typedef struct kvs_igsm_grade {
    int solved; /**< 1 = a step computes the quantity asked for and its value is right: the paper's
                     criterion */
    int first_right;   /**< 1 = the first step that computes this quantity is right */
    int asked_missing; /**< 1 = no step computes this quantity */
    int strict;        /**< 1 = every step is right, the order is valid, no step is missing or
                     superfluous */
} kvs_igsm_grade;

/** Writes problem `index` of the evaluation stream, without its solution: at most
 * kvs_data_max_length() ids.  Returns their number; 0 if the task is not iGSM. */
KVS_API size_t kvs_igsm_problem(int32_t *ids, const kvs_data *data, uint64_t seed, uint64_t index);
/** Returns the token that ends a solution. */
KVS_API int32_t kvs_igsm_end(const kvs_data *data);
/** Grades the tokens that a model generated after problem `index`, including the end token if there
 * is one. */
KVS_API kvs_status kvs_igsm_grade_answer(kvs_igsm_grade *out, const kvs_data *data, uint64_t seed,
                                         uint64_t index, const int32_t *ids, size_t count,
                                         kvs_err *err);

/* ---- sizes and plans ------------------------------------------------------------------------- */

/** Sizes of a model, computed before anything is allocated. */
typedef struct kvs_model_sizes {
    uint64_t parameters;            /**< number of learned values */
    uint64_t embedding_parameters;  /**< how many of them are in the token and position tables and
                                         in the head */
    uint64_t weight_bytes;          /**< of the weights, in memory and in files */
    uint64_t cache_bytes_per_token; /**< of the keys and values of all layers, per sequence; the
                                         cache of a layer with a sliding window stops growing, see
                                         kvs_session_bytes() */
    uint64_t shift_state_bytes; /**< of the last keys and values before the shift, per sequence, in
                                     addition to the cache */
    uint64_t training_bytes;    /**< of weights, gradients and the optimizer's two moments */
} kvs_model_sizes;

/** Computes the sizes of a model.  Call kvs_model_config_finish() first. */
KVS_API kvs_status kvs_model_config_sizes(kvs_model_sizes *out, const kvs_model_config *config,
                                          kvs_err *err);

/** Returns the number of attention heads of a layer, which may differ in layers with a sliding
 * window. */
KVS_API size_t kvs_model_config_heads(const kvs_model_config *config, size_t layer);
/** Returns the number of key and value heads of a layer. */
KVS_API size_t kvs_model_config_kv_heads(const kvs_model_config *config, size_t layer);

/** Computes, for a shift of form data, the length of the vector w of a head's gate. */
KVS_API kvs_status kvs_model_gate_length(double *length, const kvs_model *model, size_t layer,
                                         unsigned target, size_t head, kvs_err *err);

/** What training would need, computed from configurations; nothing is allocated.  Without data,
 * the sequences are text as long as the context. */
typedef struct kvs_plan {
    size_t ranks;            /**< number of processes */
    uint64_t parameters;     /**< of the model */
    uint64_t weight_bytes;   /**< per rank */
    uint64_t gradient_bytes; /**< per rank */
    uint64_t moment_bytes;   /**< per rank, of the optimizer */
    uint64_t exchange_bytes; /**< per rank, buffers of transfers between ranks */
    uint64_t pass_bytes;     /**< per rank: activations, gradients, packed weights, workspace */
    uint64_t total_bytes;    /**< per rank, the sum of the above */
    size_t passes;           /**< forward and backward passes per step and rank */
    double gradients_sent;   /**< bytes per step and rank */
    double weights_sent;     /**< bytes per step and rank */
    double tokens_per_step;  /**< of all ranks */
    double flops_per_token;  /**< forward and backward, without recomputation */
} kvs_plan;

/** Plans training on the ranks of the runtime. */
KVS_API kvs_status kvs_train_plan(kvs_plan *out, const kvs_runtime *rt,
                                  const kvs_model_config *config, const kvs_data *data,
                                  const kvs_train_config *train, kvs_err *err);

/** Measures, in about a tenth of a second, the operations per second of the matrix products that
 * training with this configuration makes on the runtime's threads.  NaN if memory runs out. */
KVS_API double kvs_train_peak(const kvs_runtime *rt, const kvs_train_config *train);
/** Estimates the seconds that `steps` steps of a plan take on machines with that peak and nothing
 * else to do.  Transfers between ranks are not counted. */
KVS_API double kvs_train_seconds(const kvs_plan *plan, const kvs_model_config *config,
                                 const kvs_train_config *train, double steps, double peak);

/** The machines that a plan is for. */
typedef struct kvs_cluster {
    size_t ranks;        /**< number of ranks */
    double flops;        /**< per second and rank, as measured in training, not the peak */
    double link_bytes;   /**< per second, sent by each rank */
    double memory_bytes; /**< per second and rank, read and written */
} kvs_cluster;

/** The time of a step.  Transfers of gradients can overlap with the backward pass, and transfers of
 * weights with the forward pass. */
typedef struct kvs_cluster_plan {
    kvs_plan plan;                  /**< memory and transfers */
    double compute_seconds;         /**< of the passes */
    double update_seconds;          /**< of summing received gradients, and of the optimizer */
    double transfer_seconds;        /**< of all transfers */
    double step_seconds;            /**< of a step in which nothing overlaps: the sum */
    double overlapped_step_seconds; /**< of a step in which all transfers overlap that can */
} kvs_cluster_plan;

/** Plans training on a cluster. */
KVS_API kvs_status kvs_train_plan_cluster(kvs_cluster_plan *out, const kvs_runtime *rt,
                                          const kvs_model_config *config, const kvs_data *data,
                                          const kvs_train_config *train, const kvs_cluster *cluster,
                                          kvs_err *err);

/* ---- perplexity ------------------------------------------------------------------------------ */

/** A mean of samples. */
typedef struct kvs_estimate {
    double mean;  /**< of the samples */
    double error; /**< the standard error of the mean */
} kvs_estimate;

/** Options of kvs_perplexity(), which feeds texts window by window.  Each window starts `stride`
 * tokens after the previous one and predicts the tokens that no earlier window predicted.  Every
 * token but the first of a text is predicted once. */
typedef struct kvs_perplexity_options {
    size_t window;        /**< 2 <= window <= context */
    size_t stride;        /**< 1 <= stride <= window */
    const size_t *starts; /**< [texts + 1]; text t is ids[starts[t]] to ids[starts[t+1] - 1] */
    size_t texts;         /**< number of texts; 0 = all ids are one text, and `starts` is NULL */
    const kvs_model *reference; /**< model of the same vocabulary to compare with; NULL = none */
    kvs_dtype cache; /**< type of keys and values, as in sessions; the reference uses F32 */
    /** Called after every window; non-zero stops, and the result covers the windows done. */
    int (*progress)(void *user, size_t done, size_t all);
    void *user; /**< passed to the callback */
} kvs_perplexity_options;

/** The loss of texts. */
typedef struct kvs_perplexity_result {
    uint64_t tokens;         /**< number of predicted tokens */
    uint64_t fed;            /**< number of tokens fed, in all windows */
    double loss;             /**< mean over tokens, natural logarithm */
    double loss_error;       /**< its standard error; NaN for one token */
    double perplexity;       /**< exp(loss) */
    double reference_loss;   /**< of the reference on the same tokens; 0 without one */
    double divergence;       /**< Kullback-Leibler divergence, the mean of sum_i p_i log(p_i / q_i)
                                  with p of the reference and q of the model; 0 without one */
    double divergence_error; /**< its standard error */
    double same_best; /**< fraction of positions at which both have the same likeliest token */
} kvs_perplexity_result;

/** Measures the loss of texts. */
KVS_API kvs_status kvs_perplexity(kvs_perplexity_result *out, const kvs_model *model,
                                  const int32_t *ids, size_t count,
                                  const kvs_perplexity_options *options, kvs_err *err);

/** Losses by position in windows that do not overlap: what a model gains from its context.  Token t
 * of a window, counted from 1, is predicted from the t - 1 tokens before it. */
typedef struct kvs_position_curve kvs_position_curve;

/** One point of the curve. */
typedef struct kvs_position_point {
    size_t first;      /**< the point is the mean over the tokens from this one */
    size_t last;       /**< to this one; points are a quarter of an octave apart */
    kvs_estimate loss; /**< mean over windows, with its standard error */
} kvs_position_point;

/** The in-context learning score of Olsson et al. (2022), negative if context helps.  All values
 * are means over windows. */
typedef struct kvs_position_scores {
    size_t windows;          /**< number of windows */
    size_t window;           /**< tokens fed in each */
    size_t too_short;        /**< texts that do not fill a window and are left out */
    size_t late_last;        /**< last token of `late_mean`: 550, or the last of the window */
    kvs_estimate early;      /**< loss of token 50 */
    kvs_estimate late;       /**< loss of token 500 */
    kvs_estimate score;      /**< late - early, within each window */
    kvs_estimate early_mean; /**< mean loss of tokens 40 to 60 */
    kvs_estimate late_mean;  /**< mean loss of tokens 450 to `late_last` */
    kvs_estimate mean_score; /**< late_mean - early_mean, within each window */
} kvs_position_scores;

/** Measures the losses.  In `options`, `window` must be at least 512, `stride` must equal `window`,
 * and `reference` must be NULL. */
KVS_API kvs_status kvs_loss_by_position(kvs_position_curve **out, const kvs_model *model,
                                        const int32_t *ids, size_t count,
                                        const kvs_perplexity_options *options, kvs_err *err);
/** Frees a curve. */
KVS_API void kvs_position_curve_free(kvs_position_curve *curve);
/** Returns a point of the curve; NULL past the end. */
KVS_API const kvs_position_point *kvs_position_curve_at(const kvs_position_curve *curve,
                                                        size_t index);
/** Writes the scores. */
KVS_API void kvs_position_curve_scores(kvs_position_scores *out, const kvs_position_curve *curve);
/** Computes how much greater both scores are for `b` than for `a`, window by window; both must be
 * of the same text. */
KVS_API kvs_status kvs_position_curve_difference(kvs_estimate *score, kvs_estimate *mean_score,
                                                 const kvs_position_curve *a,
                                                 const kvs_position_curve *b, kvs_err *err);
/** Draws curves as SVG, loss against position.  Needs gnuplot. */
KVS_API kvs_status kvs_position_curves_draw(const char *svg,
                                            const kvs_position_curve *const *curves,
                                            const char *const *labels, size_t count, kvs_err *err);

/* ---- reports --------------------------------------------------------------------------------- */

/** Compares runs, from the folders that kvs_train wrote.  All must have one kind of data, text or a
 * task.  Runs on text that differ only in their seed form an arm, whose losses are averaged.
 *
 *     kvs_report *report;
 *     kvs_report_create(&report, dirs, count, &err);
 *     fputs(kvs_report_text(report), stdout);
 *     kvs_report_write(report, &(kvs_report_options){.html = "report.html"}, &err);
 *     kvs_report_free(report);
 *
 * Returned pointers are borrowed from the report; an index past the end returns NULL. */
typedef struct kvs_report kvs_report;

/** Reads the run folders. */
KVS_API kvs_status kvs_report_create(kvs_report **out, const char *const *dirs, size_t count,
                                     kvs_err *err);
/** Frees a report. */
KVS_API void kvs_report_free(kvs_report *report);

/** Summary of a run folder.  A run that has not ended has no final values (NaN). */
typedef struct kvs_run_summary {
    char name[128];         /**< the folder's name */
    char shift[96];         /**< "none", "kv", "k gate", "kv window 2", ... */
    size_t layers;          /**< of the model */
    size_t dim;             /**< of the model */
    size_t heads;           /**< of the model */
    uint64_t parameters;    /**< of the model */
    uint64_t seed;          /**< of the run */
    uint64_t tokens;        /**< number of tokens fed in training */
    uint64_t steps;         /**< number of steps done */
    uint64_t planned_steps; /**< number of steps configured */
    uint64_t step_at_99;    /**< see kvs_train_result; 0 = never */
    int ended;              /**< 1 = the run is complete or was stopped by a signal */
    double final_accuracy;  /**< at the end */
    double final_loss;      /**< at the end */
    double seconds;         /**< of training */
} kvs_run_summary;

/** Returns a run of the report. */
KVS_API const kvs_run_summary *kvs_report_run(const kvs_report *report, size_t index);

/** The validation loss of an arm: mean and standard error over its runs, at the last step at which
 * all of them were evaluated.  If some runs are complete, the others are ignored. */
typedef struct kvs_arm_summary {
    const char *label;   /**< how it differs from the other arms: "shift kv", "lr 0.002" */
    size_t runs;         /**< number of runs */
    size_t counted;      /**< number of runs in the means */
    uint64_t parameters; /**< of the model */
    uint64_t step;       /**< step of the evaluation; 0 = not evaluated yet, loss is NaN */
    double loss;         /**< mean over runs */
    double loss_error;   /**< standard error of the mean; NaN for one run */
    double tokens;       /**< mean number of tokens fed */
    double seconds;      /**< mean time of training */
} kvs_arm_summary;

/** Returns an arm of the report. */
KVS_API const kvs_arm_summary *kvs_report_arm(const kvs_report *report, size_t index);

/** Loss of an arm minus loss of the baseline (the first arm without a shift, or else the first
 * arm), for each seed that both have; negative if the arm is better than the baseline. */
typedef struct kvs_arm_difference {
    size_t arm;               /**< index of the arm */
    size_t baseline;          /**< index of the baseline */
    uint64_t step;            /**< step at which both were evaluated */
    double mean;              /**< mean over seeds */
    double error;             /**< the standard error over seeds; NaN for one seed */
    size_t seeds;             /**< number of seeds */
    const uint64_t *seed;     /**< the seeds */
    const double *difference; /**< one per seed */
} kvs_arm_difference;

/** Returns a difference between an arm and the baseline. */
KVS_API const kvs_arm_difference *kvs_report_difference(const kvs_report *report, size_t index);

/** Returns a sentence about something incomplete or not comparable. */
KVS_API const char *kvs_report_remark(const kvs_report *report, size_t index);

/** Returns tables and remarks as plain text (UTF-8) for a terminal. */
KVS_API const char *kvs_report_text(const kvs_report *report);

/** Files that kvs_report_write() writes. */
typedef struct kvs_report_options {
    const char *title; /**< NULL = "Training runs" */
    const char *html;  /**< a page with curves, tables and commands; needs gnuplot; NULL = none */
    const char *json;  /**< all values; NULL = none */
    const char *svg;   /**< the curves alone; needs gnuplot; NULL = none */
    const char *benchmarks_svg; /**< the scores on benchmarks during training alone; needs gnuplot;
                                     NULL = none */
} kvs_report_options;

/** Writes a report into files. */
KVS_API kvs_status kvs_report_write(const kvs_report *report, const kvs_report_options *options,
                                    kvs_err *err);

/* ---- stored evaluations ---------------------------------------------------------------------- */

/** A report on stored results of benchmarks: folders with results_DATE.json and
 * samples_TASK_DATE.jsonl, as 'kvshift eval --out' and lm-evaluation-harness write them, or such
 * results files.  In a folder each task is taken from the newest results that have it.
 *
 *     kvs_eval_report *report;
 *     kvs_eval_compare(&report, paths, 2, NULL, &err);
 *     fputs(kvs_eval_report_text(report), stdout);
 *     kvs_eval_report_write(report, &(kvs_eval_report_files){.html = "compare.html"}, &err);
 *     kvs_eval_report_free(report);
 */
typedef struct kvs_eval_report kvs_eval_report;

/** Options of a report. */
typedef struct kvs_eval_report_options {
    size_t resamples;  /**< draws of a bootstrap; 10000 by default */
    uint64_t seed;     /**< of the draws; 1 by default */
    int same_prompts;  /**< 1 = documents whose prompts differ between models are left out */
    int details;       /**< 1 = also subjects of groups and tables of calibration */
    const char *table; /**< columns of kvs_eval_table(): "paper" or "mmlu" */
} kvs_eval_report_options;

/** Sets the defaults. */
KVS_API void kvs_eval_report_options_init(kvs_eval_report_options *options);

/** Compares models with the first one, on the documents that both have.  `options` may be NULL. */
KVS_API kvs_status kvs_eval_compare(kvs_eval_report **out, const char *const *paths, size_t count,
                                    const kvs_eval_report_options *options, kvs_err *err);
/** Shows results with measures that follow from the samples: likelihood of the right answer,
 * calibration, accuracy by length of the prompt and by number of shots. */
KVS_API kvs_status kvs_eval_show(kvs_eval_report **out, const char *const *paths, size_t count,
                                 const kvs_eval_report_options *options, kvs_err *err);
/** Makes one table of several models: a row per model, a column per benchmark, their mean. */
KVS_API kvs_status kvs_eval_table(kvs_eval_report **out, const char *const *paths, size_t count,
                                  const kvs_eval_report_options *options, kvs_err *err);
/** Frees a report. */
KVS_API void kvs_eval_report_free(kvs_eval_report *report);

/** Returns the report as plain text for a terminal. */
KVS_API const char *kvs_eval_report_text(const kvs_eval_report *report);
/** Returns all values as JSON text. */
KVS_API const char *kvs_eval_report_json(const kvs_eval_report *report);

/** Files that kvs_eval_report_write() writes; NULL = not this one. */
typedef struct kvs_eval_report_files {
    const char *title;    /**< heading of pages; NULL = a usual one */
    const char *html;     /**< a page with charts; needs gnuplot */
    const char *svg;      /**< the first chart; needs gnuplot */
    const char *markdown; /**< the texts and tables of the page */
    const char *csv;      /**< the first table */
} kvs_eval_report_files;

/** Writes a report into files. */
KVS_API kvs_status kvs_eval_report_write(const kvs_eval_report *report,
                                         const kvs_eval_report_files *files, kvs_err *err);

/* ---- benchmarks: models ---------------------------------------------------------------------- */

/*
 * Other programs on the machine change every measured time.  All benchmarks therefore measure in
 * rounds.  Each round measures in turn the machine's peak, the thing itself, and the thing that it
 * is compared with.  The results are the best and the median over all rounds.  Compare only values
 * of one run.
 *
 *     kvs_bench_model m;              kvs_bench_model_get(&m, "tiny", &err);
 *     kvs_model_config *config;       kvs_bench_model_config(&config, "tiny", &err);
 *     kvs_model_config_set(config, "shift", "kv", &err);
 *     kvs_bench_train_options o = {.config = config, .batch = m.batch, .length = m.length};
 *     kvs_bench_training *b;          kvs_bench_training_create(&b, rt, &o, &err);
 *     for (i = 0; i < KVS_BENCH_WARMUP + m.steps; i++)
 *         kvs_bench_training_round(NULL, b, &err);
 *     kvs_bench_train_result result;  kvs_bench_training_get(&result, b, &err);
 *     kvs_bench_training_free(b);
 */

/** Best and median over all rounds.  The best is the smallest time or the largest rate. */
typedef struct kvs_spread {
    double best;   /**< of all rounds */
    double median; /**< of all rounds */
} kvs_spread;

/** A model for benchmarks. */
typedef struct kvs_bench_model {
    const char *name; /**< "tiny" */
    size_t batch;     /**< sequences per step */
    size_t length;    /**< tokens per sequence */
    size_t steps;     /**< default number of measured steps */
} kvs_bench_model;

/** Finds a model by name.  tiny, small, kvlm and s124 are Llama bodies, gpt2 is GPT-2 with 124
 * million parameters; l110, a Llama with 134 million, is for inference. */
KVS_API kvs_status kvs_bench_model_get(kvs_bench_model *out, const char *name, kvs_err *err);
/** Creates the configuration of a model, without a shift.  Free it with kvs_model_config_free(). */
KVS_API kvs_status kvs_bench_model_config(kvs_model_config **out, const char *name, kvs_err *err);
/** Returns the name of the model with this index; NULL past the end. */
KVS_API const char *kvs_bench_model_name(size_t index);

/** The peaks that products of matrices are compared with, in operations per second. */
typedef struct kvs_bench_peaks {
    const char *unit;     /**< the part of the processor that computes them: "fma-256" */
    kvs_spread rate;      /**< its peak; if a product costs several of the unit, divided by them */
    const char *f32_unit; /**< the processor's fastest unit for float32 */
    kvs_spread f32_rate;  /**< the peak of that unit */
} kvs_bench_peaks;

/* ---- benchmarks: the machine ----------------------------------------------------------------- */

/** y[tokens, rows] = x[tokens, cols] W^T and its two backward products, as the trainer calls them,
 * in floating-point operations per second. */
typedef struct kvs_bench_gemm {
    const char *model;          /**< the model in which the shape occurs: "kvlm" */
    const char *site;           /**< the place in the model: "qkv" */
    size_t tokens;              /**< rows of x and y */
    size_t rows;                /**< columns of y */
    size_t cols;                /**< columns of x */
    kvs_spread forward;         /**< y */
    kvs_spread backward_input;  /**< the gradient of x */
    kvs_spread backward_weight; /**< the gradient of W */
    kvs_spread peak; /**< peak of the unit that computes them, measured right before each */
} kvs_bench_gemm;

/** A part of a processor that multiplies. */
typedef struct kvs_bench_unit {
    const char *name;    /**< "fma-256" */
    int integers;        /**< 1 = it multiplies integers, 0 = floating-point numbers */
    const char *missing; /**< why this processor cannot use it; NULL = it can */
    kvs_spread rate; /**< operations per second on registers, all threads; NaN if it is missing */
} kvs_bench_unit;

/** Limits of kvs_bench_machine. */
enum {
    KVS_BENCH_GEMMS_MAX = 32, /**< largest number of products */
    KVS_BENCH_UNITS_MAX = 16  /**< largest number of units */
};

/** Peak rates. */
typedef struct kvs_bench_machine {
    const char *unit;    /**< the unit that computes the products of float32 */
    kvs_spread peak;     /**< its operations per second on registers, all threads */
    kvs_spread peak_one; /**< its operations per second on registers, one thread */
    kvs_spread read;     /**< bytes per second read from memory, all threads */
    size_t units;        /**< number of units */
    kvs_bench_unit unit_at[KVS_BENCH_UNITS_MAX]; /**< all units, usable or not */
    size_t gemms;                                /**< number of products */
    kvs_bench_gemm gemm[KVS_BENCH_GEMMS_MAX];    /**< matrix products */
} kvs_bench_machine;

/** Measures the limits of this machine with the runtime's processor code and threads. */
KVS_API kvs_status kvs_bench_machine_run(kvs_bench_machine *out, const kvs_runtime *rt,
                                         size_t rounds, kvs_err *err);

/* ---- benchmarks: attention ------------------------------------------------------------------- */

/** Options of kvs_bench_attention_run(). */
typedef struct kvs_bench_attention_options {
    size_t length;                 /**< tokens */
    size_t head_size;              /**< channels per head */
    size_t heads;                  /**< number of query heads */
    size_t kv_heads;               /**< number of key and value heads */
    const kvs_model_config *shift; /**< "shift", "shift-form" and "shift-window" of this
                                        configuration are used; NULL = no shift */
    size_t rounds;                 /**< number of measurements */
} kvs_bench_attention_options;

/** The time of attention. */
typedef struct kvs_bench_attention {
    double forward_flops;  /**< operations of the causal half */
    double backward_flops; /**< operations of the causal half, without recomputation */
    kvs_spread forward;    /**< seconds */
    kvs_spread backward;   /**< seconds */
    kvs_spread both;       /**< seconds */
    kvs_bench_peaks peaks; /**< in the same rounds */
    double start_rss;      /**< bytes, before any allocation */
    double peak_rss;       /**< bytes, maximum */
} kvs_bench_attention;

/** Measures one layer's attention, with shift and rotary positions, on one sequence. */
KVS_API kvs_status kvs_bench_attention_run(kvs_bench_attention *out, kvs_runtime *rt,
                                           const kvs_bench_attention_options *options,
                                           kvs_err *err);

/* ---- benchmarks: training -------------------------------------------------------------------- */

/** Options of kvs_bench_training_create(). */
typedef struct kvs_bench_train_options {
    const kvs_model_config *config; /**< of the model */
    size_t batch;                   /**< sequences per step */
    size_t length;                  /**< tokens per sequence */
    int alone;                      /**< 1 = do not also measure the model without its shift */
    int profile;                    /**< 1 = measure the time of every operation */
    int recompute;                  /**< 1 = compute layers again in the backward pass */
    const char *precision;          /**< as the setting of training; NULL = f32 */
    size_t accumulate;              /**< micro-batches per step; 0 = 1 */
    const char *pack_weights;       /**< as the setting of training; NULL = auto */
} kvs_bench_train_options;

/** The average cost of one operation per step. */
typedef struct kvs_bench_op {
    const char *op;   /**< "linear_forward" */
    const char *site; /**< "qkv"; may be NULL */
    double calls;     /**< per step */
    double seconds;   /**< per step */
    double flops;     /**< arithmetic operations; 0 = memory bandwidth limits it */
    double bytes;     /**< bytes read and written; 0 = arithmetic limits it */
} kvs_bench_op;

/** Sizes of a benchmark of training. */
enum {
    KVS_BENCH_WARMUP = 2,  /**< rounds that do not count */
    KVS_BENCH_OPS_MAX = 64 /**< largest number of operations of a profile */
};

/** The result of one round. */
typedef struct kvs_bench_round {
    double seconds;           /**< of the step */
    double loss;              /**< of the step */
    double unshifted_seconds; /**< of the step without the shift; NaN = not measured */
    double peak;              /**< operations per second of the unit that computes products */
} kvs_bench_round;

/** The result of a benchmark of training, over all rounds. */
typedef struct kvs_bench_train_result {
    size_t rounds;                  /**< number of rounds, without the warm-up */
    double tokens;                  /**< per step */
    double flops;                   /**< per step: 6 x weights of matrix products x tokens +
                                         attention */
    kvs_spread step;                /**< seconds per step */
    kvs_spread unshifted;           /**< seconds per step without the shift; NaN = not measured */
    double shift_cost;              /**< median over the rounds of the ratio of both times, minus
                                         1; NaN = not measured */
    kvs_bench_peaks peaks;          /**< in the same rounds */
    double peak_rss;                /**< bytes, without the unshifted model */
    double planned_bytes;           /**< planned memory of the model */
    double unshifted_planned_bytes; /**< planned memory of the model without the shift */
    double loss_first;              /**< of the first round */
    double loss_last;               /**< of the last round */
    size_t ops; /**< number of operations, 0 without a profile; the last, "other", is the time
                     outside operations */
    kvs_bench_op op[KVS_BENCH_OPS_MAX]; /**< the profile */
} kvs_bench_train_result;

typedef struct kvs_bench_training kvs_bench_training; /**< a benchmark of training */

/** Creates a benchmark: forward, backward and AdamW (learning rate 1e-4, betas 0.9 and 0.999, no
 * decay, no clipping) with random weights.  Every step uses the same batch of random tokens. */
KVS_API kvs_status kvs_bench_training_create(kvs_bench_training **out, kvs_runtime *rt,
                                             const kvs_bench_train_options *options, kvs_err *err);
/** Frees a benchmark. */
KVS_API void kvs_bench_training_free(kvs_bench_training *bench);
/** Writes the current model, as kvs_model_save() does, and batch.safetensors with the tensor
 * `tokens` [batch * length + 1].  Sequence s is tokens[s * length] to tokens[(s+1) * length - 1];
 * the target of a token is the next token of the tensor.  peak_rss includes the memory that this
 * call needs. */
KVS_API kvs_status kvs_bench_training_save(const kvs_bench_training *bench, const char *dir,
                                           kvs_err *err);
/** Measures one step of each model.  The first ::KVS_BENCH_WARMUP rounds do not count.  `out` may
 * be NULL. */
KVS_API kvs_status kvs_bench_training_round(kvs_bench_round *out, kvs_bench_training *bench,
                                            kvs_err *err);
/** Computes the result over the rounds measured so far. */
KVS_API kvs_status kvs_bench_training_get(kvs_bench_train_result *out,
                                          const kvs_bench_training *bench, kvs_err *err);

/* ---- benchmarks: inference ------------------------------------------------------------------- */

/** Options of kvs_bench_inference_create(). */
typedef struct kvs_bench_infer_options {
    const char *path;      /**< a model: a path for kvs_model_load() */
    const char *unshifted; /**< the same model without its shift, measured in turns; NULL = none */
    size_t prompt;         /**< tokens of a prompt, fed in one call; 0 = not measured */
    size_t generate;       /**< tokens generated one by one; 0 = not measured */
    size_t depth;          /**< tokens in the session before the first generated one */
    size_t batch;          /**< sequences generated together, at least 1 */
    kvs_dtype cache;       /**< type of the KV cache, as for sessions */
} kvs_bench_infer_options;

/** The result of a benchmark of inference, over all rounds. */
typedef struct kvs_bench_infer_result {
    size_t rounds;                 /**< number of rounds, without the first, which is a warm-up */
    kvs_spread prompt;             /**< seconds per prompt */
    kvs_spread generate;           /**< seconds per decoding pass: one token for every sequence */
    kvs_spread unshifted_prompt;   /**< `prompt` without the shift; NaN = not measured */
    kvs_spread unshifted_generate; /**< `generate` without the shift; NaN = not measured */
    double prompt_shift_cost;      /**< median over the rounds of the ratio of both times, minus 1;
                                        NaN = not measured */
    double generate_shift_cost;    /**< the same of generation */
    double prompt_flops;    /**< operations of a prompt: 2 x weights x tokens, the head once, and
                                 attention */
    kvs_bench_peaks peaks;  /**< in the same rounds; the unit is that of the type that most weights
                                 have, in prompts */
    kvs_spread read;        /**< bytes per second that the machine reads, in the same rounds */
    double weight_bytes;    /**< size of the matrices that every token is multiplied by */
    double bytes_per_token; /**< bytes read for a generated token, on average: its share of the
                                 weights, and keys and values */
    double load;            /**< seconds to open the model */
    double start_rss;       /**< bytes, before the model was opened */
    double peak_rss;        /**< bytes, maximum */
} kvs_bench_infer_result;

typedef struct kvs_bench_inference kvs_bench_inference; /**< a benchmark of inference */

/** Creates a benchmark that feeds random tokens to a model.  Every pass computes the logits after
 * its last tokens. */
KVS_API kvs_status kvs_bench_inference_create(kvs_bench_inference **out, kvs_runtime *rt,
                                              const kvs_bench_infer_options *options, kvs_err *err);
/** Frees a benchmark. */
KVS_API void kvs_bench_inference_free(kvs_bench_inference *bench);
/** Measures one prompt and one generation with each model. */
KVS_API kvs_status kvs_bench_inference_round(kvs_bench_inference *bench, kvs_err *err);
/** Computes the result over the rounds measured so far. */
KVS_API kvs_status kvs_bench_inference_get(kvs_bench_infer_result *out,
                                           const kvs_bench_inference *bench, kvs_err *err);

/* ---- theory ---------------------------------------------------------------------------------- */

/** The four coefficients of a head's shift: K^_t = alpha1 K_t + alpha2 K_{t-1} and
 * V^_t = beta1 V_t + beta2 V_{t-1}. */
typedef struct kvs_coefficients {
    double alpha1; /**< of the current token's key */
    double alpha2; /**< of the previous token's key */
    double beta1;  /**< of the current token's value */
    double beta2;  /**< of the previous token's value */
} kvs_coefficients;

/** An induction head on vectors x_1 to x_L, L = length:
 *
 *     IH(x) = sum_{s=2..L-1} softmax_s(x_L . x_{s-1} / sigma - slope (L - s)) x_s
 */
typedef struct kvs_induction_problem {
    size_t length; /**< L, at least 4 */
    size_t dim;    /**< channels per token */
    double sigma;  /**< divides the scores */
    double slope;  /**< multiplies the distance */
    size_t inputs; /**< number of random inputs, of which the worst counts.  An input consists of
                        unit vectors, and x_L equals an earlier vector */
    uint64_t seed; /**< of the random inputs */
} kvs_induction_problem;

/** Sets the defaults. */
KVS_API void kvs_induction_problem_init(kvs_induction_problem *problem);

/** Theorem 1: two ordinary layers of width 2 dim, the first with ALiBi slope p, compute IH.  |a -
 * b| is the maximum over channels. */
typedef struct kvs_theorem1_result {
    double error;      /**< |IH - TF| */
    double self_error; /**< |IH - TF| if tokens of the first layer also attend to themselves, as in
                          causal attention */
    double copy_error; /**< difference between the first layer's output and the previous token */
    double bound;      /**< the bound of the proof: 4 dim / sigma e^-p / (1 - e^-p) */
} kvs_theorem1_result;

/** Measures what theorem 1 states. */
KVS_API kvs_status kvs_theorem1(kvs_theorem1_result *out, const kvs_induction_problem *problem,
                                double p, kvs_err *err);

/** Theorem 2: one layer of KV shifting attention (KVSA) of width dim computes IH.  The last three
 * values use one input of orthogonal tokens, one of which occurs twice. */
typedef struct kvs_theorem2_result {
    double masked;   /**< |IH - KVSA| without the first and the last key: only rounding */
    double printed;  /**< |IH - KVSA| with all keys, as in the theorem */
    double repeated; /**< |IH - KVSA| with all keys if the last two tokens are equal */
    double network;  /**< difference between KVSA in double precision and as a model of this
                        library */
} kvs_theorem2_result;

/** Measures what theorem 2 states. */
KVS_API kvs_status kvs_theorem2(kvs_theorem2_result *out, kvs_runtime *rt,
                                const kvs_induction_problem *problem, kvs_err *err);

/** Formulas for the loss of theorem 3: a one-layer network reads x_1 to x_T and then x_i; the
 * target is x_{i+1}. */
typedef enum kvs_theorem3_form {
    KVS_THEOREM3_EXACT,   /**< as it follows from the conditions */
    KVS_THEOREM3_PRINTED, /**< with the paper's e^alpha2 for tokens i-1 and T; counts are exact */
    KVS_THEOREM3_FIGURE,  /**< as in the paper's figure: printed, with T as the constant of O(T) */
} kvs_theorem3_form;

/** The formula and sizes of a loss. */
typedef struct kvs_theorem3 {
    kvs_theorem3_form form; /**< which formula */
    size_t T;               /**< at least 4 (3 if i is given); any value for the figure */
    size_t i; /**< 1 .. T-1, exact form only; 0 = any of 2 .. T-2, for which the loss is equal */
} kvs_theorem3;

/** Computes the loss and its gradient (may be NULL). */
KVS_API kvs_status kvs_theorem3_loss(double *loss, kvs_coefficients *gradient,
                                     const kvs_theorem3 *problem, const kvs_coefficients *at,
                                     kvs_err *err);
/** Computes the exact loss as a sum over positions. */
KVS_API kvs_status kvs_theorem3_brute_force(double *loss, size_t T, size_t i,
                                            const kvs_coefficients *at, kvs_err *err);
/** Computes the exact loss with a model of this library that has orthogonal embeddings. */
KVS_API kvs_status kvs_theorem3_network(double *loss, kvs_runtime *rt, size_t T, size_t i,
                                        const kvs_coefficients *at, kvs_err *err);
/** Computes the largest difference between the exact loss and the brute-force loss over i = 1 to
 * T-1. */
KVS_API kvs_status kvs_theorem3_difference(double *most, size_t T, const kvs_coefficients *at,
                                           kvs_err *err);

/** Estimates the loss of models with random embeddings ~ N(0, 1/dim): the mean over `samples`
 * models with i in 2 to T-2. */
KVS_API kvs_status kvs_theorem3_monte_carlo(kvs_estimate *out, kvs_runtime *rt, size_t T,
                                            const kvs_coefficients *at, size_t dim, size_t samples,
                                            uint64_t seed, kvs_err *err);

/** Returns coefficients on the square of the paper's figure: alpha2 = 1 - alpha1 and
 * beta2 = 1 - beta1. */
KVS_API kvs_coefficients kvs_square(double alpha1, double beta1);
/** Finds the minimum over a grid of (steps + 1)^2 points of the square from (0, 0) to (1, 1). */
KVS_API kvs_status kvs_theorem3_minimum(kvs_coefficients *where, double *loss,
                                        const kvs_theorem3 *problem, size_t steps, kvs_err *err);

/** Gradient descent on all four coefficients with Adam (0.9, 0.999). */
typedef struct kvs_descent {
    double lr;      /**< learning rate */
    uint64_t steps; /**< number of steps */
    /** Called before each step 1, 2, ... with its starting point; may be NULL. */
    void (*visit)(void *user, uint64_t step, double loss, const kvs_coefficients *at);
    void *user; /**< passed to the callback */
} kvs_descent;

/** Descends from `at` and leaves the last point there. */
KVS_API kvs_status kvs_theorem3_descend(kvs_coefficients *at, const kvs_theorem3 *problem,
                                        const kvs_descent *descent, kvs_err *err);

/** Limit of kvs_landscape_draw(). */
enum {
    KVS_PANELS_MAX = 12 /**< largest number of squares */
};

/** Draws at most KVS_PANELS_MAX squares as SVG, `columns` per row: colours and contours of the
 * loss, and lines of steepest descent.  Needs gnuplot. */
KVS_API kvs_status kvs_landscape_draw(const char *svg, const kvs_theorem3 *panels, size_t count,
                                      size_t columns, kvs_err *err);

/* ---- lens ------------------------------------------------------------------------------------ */

/** The attention pattern of one head.  A[t, j] is the attention of token t to position j.  The
 * shifted value at position j mixes the values of tokens j and j-1 with taps b1 and b2, so the
 * weight of token j's own value is
 *
 *     A_V[t, j] = b1 A[t, j] + b2 A[t, j + 1]
 *
 * Longer windows have more terms; if the channels of a head have different taps, their means are
 * used.  Without a shift of values A_V = A.  Each row of A sums to 1, each row of A_V to the sum of
 * the taps. */
typedef struct kvs_pattern {
    size_t layer;          /**< layer of the head */
    size_t head;           /**< number of the head in the layer */
    size_t kv_head;        /**< the KV head whose keys and values it reads */
    size_t tokens;         /**< length of the sequence */
    const float *places;   /**< A, [tokens, tokens]; row t is for query token t */
    const float *contents; /**< A_V, [tokens, tokens] */
} kvs_pattern;

/** Runs the model on one sequence and calls `visit` with the pattern of each head, layer by layer.
 * A pattern is borrowed until the callback returns. */
KVS_API kvs_status kvs_patterns(const kvs_model *model, const int32_t *ids, size_t count,
                                void (*visit)(void *user, const kvs_pattern *pattern), void *user,
                                kvs_err *err);

/** Test sequences: random tokens, then the same tokens again.  Token t of the second half equals
 * token t - length. */
typedef struct kvs_lens_options {
    size_t length;    /**< tokens of one half; at most half the model's context */
    size_t sequences; /**< number of sequences */
    uint64_t seed;    /**< seed of the tokens */
    size_t first_id;  /**< the smallest id that is drawn */
} kvs_lens_options;

/** Sets the defaults. */
KVS_API void kvs_lens_options_init(kvs_lens_options *options);
/** Checks the options against a model, and reduces `length` to half the model's context if it is
 * greater. */
KVS_API kvs_status kvs_lens_options_finish(kvs_lens_options *options, const kvs_model *model,
                                           kvs_err *err);
/** Writes sequence `index`, 2 * length ids. */
KVS_API void kvs_lens_sequence(int32_t *ids, const kvs_lens_options *options,
                               const kvs_model *model, size_t index);

/** Mean attention of a head. */
typedef struct kvs_head_scores {
    double induction; /**< from tokens of the second half to the token after their earlier
                           occurrence */
    double duplicate; /**< from tokens of the second half to their earlier occurrence itself */
    double previous;  /**< from all tokens but the first to the previous token */
} kvs_head_scores;

/** Scores of one head, which show its role. */
typedef struct kvs_head_reading {
    size_t layer;             /**< layer of the head */
    size_t head;              /**< number of the head in the layer */
    size_t kv_head;           /**< the KV head whose keys and values it reads */
    kvs_head_scores places;   /**< computed from A */
    kvs_head_scores contents; /**< computed from A_V */
    double previous_keys;     /**< alpha2 / (|alpha1| + |alpha2|); NaN unless keys have two taps */
} kvs_head_reading;

/** Returns the number of attention heads of all layers together. */
KVS_API size_t kvs_lens_heads(const kvs_model *model);
/** Computes the scores of all heads, layer by layer; `out` has kvs_lens_heads() elements.  Call
 * kvs_lens_options_finish() first. */
KVS_API kvs_status kvs_lens_read(kvs_head_reading *out, const kvs_model *model,
                                 const kvs_lens_options *options, kvs_err *err);

/** Kinds of heads, by which token contributes more to their keys and to their values: the current
 * or the previous one.  The second kind is a one-layer induction head.  The last kind is an
 * ordinary head whose positions are shifted by one. */
typedef enum kvs_head_kind {
    KVS_KEYS_CURRENT_VALUES_CURRENT,   /**< alpha1 > alpha2, beta1 > beta2 */
    KVS_KEYS_PREVIOUS_VALUES_CURRENT,  /**< alpha1 <= alpha2, beta1 > beta2 */
    KVS_KEYS_CURRENT_VALUES_PREVIOUS,  /**< alpha1 > alpha2, beta1 <= beta2 */
    KVS_KEYS_PREVIOUS_VALUES_PREVIOUS, /**< alpha1 <= alpha2, beta1 <= beta2 */
    KVS_HEAD_KINDS,                    /**< number of kinds */
} kvs_head_kind;

/** Returns the kind of a head; ::KVS_HEAD_KINDS for NULL. */
KVS_API kvs_head_kind kvs_head_kind_of(const kvs_coefficients *head);

/** The coefficients of all KV heads together. */
typedef struct kvs_shift_summary {
    size_t heads;                 /**< number of KV heads of all layers */
    size_t kinds[KVS_HEAD_KINDS]; /**< number of heads of each kind */
    kvs_estimate alpha_sum;       /**< mean of alpha1 + alpha2 */
    kvs_estimate beta_sum;        /**< mean of beta1 + beta2 */
    size_t negative_alphas;       /**< number of negative alpha1 and alpha2 */
    size_t negative_betas;        /**< number of negative beta1 and beta2 */
} kvs_shift_summary;

/** Returns 1 if the heads of a model with this configuration have kinds: keys and values must be
 * shifted by one token, with learned taps. */
KVS_API int kvs_shift_has_kinds(const kvs_model_config *config);
/** Computes the four coefficients of one head.  If the heads have no kinds, the call returns
 * ::KVS_E_UNSUPPORTED. */
KVS_API kvs_status kvs_head_coefficients(kvs_coefficients *out, const kvs_model *model,
                                         size_t layer, size_t kv_head, kvs_err *err);
/** Summarises the coefficients of a model. */
KVS_API kvs_status kvs_shift_summarise(kvs_shift_summary *out, const kvs_model *model,
                                       kvs_err *err);

/** Limit of kvs_patterns_draw(). */
enum {
    KVS_DRAWN_HEADS_MAX = 256 /**< largest number of heads */
};

/** Limits of kvs_text_patterns_draw(). */
enum {
    KVS_DRAWN_TOKENS_MAX = 40,    /**< largest number of tokens */
    KVS_DRAWN_TEXT_HEADS_MAX = 32 /**< heads that are drawn: the first ones */
};
/** Draws the patterns of the heads on a sequence, with its tokens on the axes, as an SVG file.
 * labels[count] are the texts of the tokens.  Needs gnuplot. */
KVS_API kvs_status kvs_text_patterns_draw(const char *svg, const kvs_model *model,
                                          const int32_t *ids, const char *const *labels,
                                          size_t count, kvs_err *err);

/** Draws the patterns of all heads (at most KVS_DRAWN_HEADS_MAX) on the first sequence of `options`
 * as SVG, A next to A_V.  Needs gnuplot. */
KVS_API kvs_status kvs_patterns_draw(const char *svg, const kvs_model *model,
                                     const kvs_lens_options *options, kvs_err *err);

/* ---- experiments ----------------------------------------------------------------------------- */

/** The size of an experiment. */
typedef enum kvs_scale {
    KVS_SCALE_SMOKE, /**< seconds: tests that everything runs; says nothing about the claim */
    KVS_SCALE_DESK,  /**< minutes on two cores: scaled down so that the claim is still visible */
    KVS_SCALE_PAPER, /**< the paper's own settings, for a cluster */
} kvs_scale;

/** Number of scales. */
enum {
    KVS_SCALES = 3 /**< number of scales */
};

/** Returns "smoke", "desk" or "paper"; NULL for another value. */
KVS_API const char *kvs_scale_name(kvs_scale scale);
/** Finds the scale with a name. */
KVS_API kvs_status kvs_scale_parse(kvs_scale *out, const char *name, kvs_err *err);

/** One of the paper's studies. */
typedef struct kvs_experiment {
    const char *name;                 /**< "induction-depth" */
    const char *figure;               /**< in the paper: "Fig. 1a" */
    const char *claim;                /**< the paper's claim in one sentence */
    const char *settings[KVS_SCALES]; /**< what runs at each scale, and how it was scaled */
    size_t seeds[KVS_SCALES];         /**< default number of seeds per arm */
    int learns_text;                  /**< 1 = needs texts, except at scale smoke */
    int takes_model;                  /**< 1 = can measure a given model instead of training one */
} kvs_experiment;

/** Returns the experiment with this index; NULL past the end. */
KVS_API const kvs_experiment *kvs_experiment_at(size_t index);

/** The state of a run that is part of an experiment. */
typedef enum kvs_run_state {
    KVS_RUN_NEW,      /**< the run has no folder yet */
    KVS_RUN_BEGUN,    /**< the run can be continued */
    KVS_RUN_DONE,     /**< the run is complete */
    KVS_RUN_DIVERGED, /**< the run ended because its loss was not finite */
} kvs_run_state;

/** A run that is part of an experiment. */
typedef struct kvs_planned_run {
    const char *name;    /**< name of its folder */
    const char *arm;     /**< for example "KV shifting, 1 layer" */
    uint64_t seed;       /**< of weights and data */
    uint64_t parameters; /**< of the model */
    uint64_t steps;      /**< in the whole run */
    double tokens;       /**< in the whole run */
    double flops;        /**< in the whole run */
    double bytes;        /**< memory it needs */
    kvs_run_state state; /**< its present state */
} kvs_planned_run;

/** Whether a claim of the paper holds. */
typedef enum kvs_verdict {
    KVS_VERDICT_REPRODUCED, /**< the results confirm the claim */
    KVS_VERDICT_NOT,        /**< the results contradict the claim */
    KVS_VERDICT_TOO_SMALL,  /**< this scale does not allow a conclusion */
} kvs_verdict;

/** Returns "reproduced", "not reproduced" or "not at this scale"; NULL for another value. */
KVS_API const char *kvs_verdict_name(kvs_verdict verdict);

/** A claim and its verdict. */
typedef struct kvs_claim {
    const char *claim;   /**< in one sentence */
    const char *paper;   /**< the paper's value or statement */
    double ours;         /**< our value; NaN = none */
    double error;        /**< its standard error; NaN = none */
    const char *unit;    /**< unit of `paper` and `ours`; "" = none */
    size_t seeds;        /**< runs per arm */
    kvs_verdict verdict; /**< whether it holds */
    const char *detail;  /**< reason for the verdict: "p = 0.003, lower for 5 of 5 seeds" */
} kvs_claim;

/** Progress of kvs_repro_run(). */
typedef struct kvs_repro_progress {
    const kvs_planned_run *run;    /**< the run */
    size_t index;                  /**< its number */
    size_t count;                  /**< number of runs */
    const kvs_step_record *record; /**< the last step; NULL = the run starts or has ended */
    double seconds_left;           /**< estimated time until the experiment ends; NaN at first */
} kvs_repro_progress;

/** Options of kvs_repro_create(). */
typedef struct kvs_repro_options {
    kvs_scale scale;          /**< the size */
    size_t seeds;             /**< 0 = the experiment's own number */
    const char *out;          /**< folder; NULL = this is a plan only */
    int resume;               /**< 1 = continue the experiment in the folder */
    const char *reuse;        /**< a folder of experiments; its finished runs are used for equal
                                 planned runs; NULL = none */
    const char *const *texts; /**< files or folders of files, for models that learn text */
    size_t text_count;        /**< number of texts */
    const char *model; /**< a trained model to measure instead; NULL = train the experiment's own */
    double dropout;    /**< dropout during the measurement of `model` */
    const char *precision; /**< of all runs, as the setting of training; NULL = f32 */
    const char *command;   /**< recorded in the results; NULL = none */
    /** Called before the first step of each run, after every step, and at the end of the run.
     * Non-zero stops cleanly; a later call with `resume` continues from there. */
    int (*progress)(void *user, const kvs_repro_progress *progress);
    /** Called with one line about something unusual; may be NULL. */
    void (*notice)(void *user, const char *line);
    void *user; /**< passed to the callbacks */
} kvs_repro_options;

typedef struct kvs_repro kvs_repro; /**< an experiment that is planned or done */

/** Plans an experiment: writes nothing, and reads only the state of the runs in the folder.  The
 * options are borrowed.  If the runtime has ranks, the runs are split over them: each run is
 * executed by one rank, all ranks make the same calls and share the folder. */
KVS_API kvs_status kvs_repro_create(kvs_repro **out, kvs_runtime *rt, const char *name,
                                    const kvs_repro_options *options, kvs_err *err);
/** Frees an experiment. */
KVS_API void kvs_repro_free(kvs_repro *repro);
/** Returns the description of the experiment. */
KVS_API const kvs_experiment *kvs_repro_experiment(const kvs_repro *repro);
/** Returns the planned run with this index; NULL past the end. */
KVS_API const kvs_planned_run *kvs_repro_run_at(const kvs_repro *repro, size_t index);
/** Returns the estimated seconds for the remaining runs on this machine, with its ranks. */
KVS_API double kvs_repro_seconds(const kvs_repro *repro);

/** Executes the plan.  The folder then contains runs/ (run folders as kvs_train writes them),
 * results.json (the claims), experiment.json, figures as SVG and CSV, runs.csv, page.html and
 * page.md.  *finished is 0 if it was stopped, otherwise 1.  Only rank 0 has the claims. */
KVS_API kvs_status kvs_repro_run(int *finished, kvs_repro *repro, kvs_err *err);
/** Returns the claim with this index, with its verdict; NULL past the end. */
KVS_API const kvs_claim *kvs_repro_claim(const kvs_repro *repro, size_t index);

/** Writes one self-contained page about all finished experiments in `dir` and its folders. */
KVS_API kvs_status kvs_repro_report(size_t *experiments, const char *dir, const char *html,
                                    kvs_err *err);
/** Writes the claims and verdicts of all finished experiments in `dir` and its folders as one
 * Markdown table with links to the folders. */
KVS_API kvs_status kvs_repro_summary(size_t *experiments, const char *dir, const char *markdown,
                                     kvs_err *err);

#ifdef __cplusplus
}
#endif
#endif
