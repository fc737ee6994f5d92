/* kvshift_lab.h - the research API: measuring the machine and what is made of it, the paper's
 * theorems as formulas, what the heads of a model do, and the paper's experiments.
 *
 * The rules of kvshift.h hold here too, but for one: these calls may change with every version.
 *
 * A time alone means little on a machine with other work.  So everything is measured in rounds, in
 * each of which come, one after the other, the machine's peak, the thing itself, and what it is
 * compared with; best and median over the rounds are handed out, and ratios are taken between those
 * of one run.
 *
 *     kvs_bench_train_options o = {0};
 *     kvs_bench_model_get(&o.model, "tiny", &err);
 *     o.model.config.shift.targets = KVS_SHIFT_K | KVS_SHIFT_V;
 *     kvs_bench_training *b;          kvs_bench_training_create(&b, rt, &o, &err);
 *     for (i = 0; i < KVS_BENCH_WARMUP + o.model.steps; i++)
 *         kvs_bench_training_round(b, NULL, &err);
 *     kvs_bench_train_result result;  kvs_bench_training_get(b, &result, &err);
 *     kvs_bench_training_free(b);
 */
#ifndef KVSHIFT_LAB_H
#define KVSHIFT_LAB_H

#include <kvshift/kvshift.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Over all rounds: of times the least, of rates the greatest, and the middle one. */
typedef struct kvs_spread {
    double best, median;
} kvs_spread;

/* ---- models to measure with ------------------------------------------------------------------ */

typedef struct kvs_bench_model {
    const char *name;
    kvs_model_config config; /* without a shift */
    size_t batch, length;    /* sequences a step, and tokens of each */
    size_t steps;            /* enough for a median, few enough to wait for */
} kvs_bench_model;

/* tiny, small, kvlm and s124 are Llama bodies, gpt2 is GPT-2 of 124 million parameters; l110, a
 * Llama of 134 million, is for inference. */
KVS_API kvs_status kvs_bench_model_get(kvs_bench_model *out, const char *name, kvs_err *err);
KVS_API const char *kvs_bench_model_name(size_t index); /* NULL past the end */

/* ---- the machine ----------------------------------------------------------------------------- */

/* y[tokens, rows] = x[tokens, cols] W^T and its two backward products, as the trainer calls them,
 * in floating-point operations a second. */
typedef struct kvs_bench_gemm {
    const char *model, *site; /* whose shape: "kvlm", "qkv" */
    size_t tokens, rows, cols;
    kvs_spread forward, backward_input, backward_weight;
    kvs_spread peak; /* of multiply-adds on registers, right before each of these */
} kvs_bench_gemm;

enum { KVS_BENCH_GEMMS_MAX = 32 };

typedef struct kvs_bench_machine {
    kvs_spread peak,
        peak_one;    /* multiply-adds on registers, operations a second: all threads, one */
    kvs_spread read; /* bytes a second, all threads, from memory */
    size_t gemms;
    kvs_bench_gemm gemm[KVS_BENCH_GEMMS_MAX];
} kvs_bench_machine;

/* The limits of this machine with the runtime's processor code and threads. */
KVS_API kvs_status kvs_bench_machine_run(kvs_bench_machine *out, const kvs_runtime *rt,
                                         size_t rounds, kvs_err *err);

/* ---- attention ------------------------------------------------------------------------------- */

typedef struct kvs_bench_attention_options {
    size_t length, head_size, heads, kv_heads;
    kvs_shift_config shift;
    size_t rounds;
} kvs_bench_attention_options;

typedef struct kvs_bench_attention {
    double forward_flops, backward_flops; /* a causal half each; what is computed twice is not
                                             counted twice */
    kvs_spread forward, backward, both;   /* seconds */
    kvs_spread peak;                      /* operations a second */
    double start_rss, peak_rss;           /* bytes, before anything was allocated and at the most */
} kvs_bench_attention;

/* One layer's attention, shift and rotary positions included, on one sequence. */
KVS_API kvs_status kvs_bench_attention_run(kvs_bench_attention *out, kvs_runtime *rt,
                                           const kvs_bench_attention_options *options,
                                           kvs_err *err);

/* ---- training -------------------------------------------------------------------------------- */

typedef struct kvs_bench_train_options {
    kvs_bench_model model; /* config.shift and the batch as one likes */
    int alone;             /* do not measure the same model without its shift beside it */
    int profile;           /* time every operation */
    int recompute;         /* compute layers again in the backward pass */
} kvs_bench_train_options;

/* What one operation takes of a step, on average. */
typedef struct kvs_bench_op {
    const char *op, *site; /* "linear_forward", "qkv"; site NULL = it has none */
    double calls, seconds;
    double flops, bytes; /* one of them 0: what limits it is the other */
} kvs_bench_op;

enum { KVS_BENCH_WARMUP = 2, KVS_BENCH_OPS_MAX = 64 };

typedef struct kvs_bench_round {
    double seconds, loss;
    double unshifted_seconds; /* NaN: not measured */
    double peak;
} kvs_bench_round;

typedef struct kvs_bench_train_result {
    size_t rounds;        /* without the warm-up */
    double tokens, flops; /* a step: 6 x weights that multiply x tokens + attention */
    kvs_spread step;      /* seconds */
    kvs_spread unshifted; /* the same without the shift; NaN: not measured */
    kvs_spread peak;      /* operations a second */
    double peak_rss;      /* bytes, of the measured model alone */
    double planned_bytes, unshifted_planned_bytes;
    double loss_first, loss_last;
    size_t ops; /* 0 without a profile; the last one, "other", is what no operation accounts for */
    kvs_bench_op op[KVS_BENCH_OPS_MAX];
} kvs_bench_train_result;

typedef struct kvs_bench_training kvs_bench_training;

/* Forward, backward and AdamW (rate 1e-4, betas 0.9 and 0.999, no decay, no clipping) on one batch
 * of random tokens, the same in every step, with random weights. */
KVS_API kvs_status kvs_bench_training_create(kvs_bench_training **out, kvs_runtime *rt,
                                             const kvs_bench_train_options *options, kvs_err *err);
KVS_API void kvs_bench_training_free(kvs_bench_training *bench);
/* The model as it is now, as kvs_model_save does, and batch.safetensors with `tokens`, [batch *
 * length + 1]: sequence s is length tokens from s * length on, its targets are those one later.
 * Takes memory of its own for a moment, which peak_rss shows. */
KVS_API kvs_status kvs_bench_training_save(const kvs_bench_training *bench, const char *dir,
                                           kvs_err *err);
/* One step of each model.  The first KVS_BENCH_WARMUP rounds do not count.  `out` may be NULL. */
KVS_API kvs_status kvs_bench_training_round(kvs_bench_training *bench, kvs_bench_round *out,
                                            kvs_err *err);
KVS_API kvs_status kvs_bench_training_get(const kvs_bench_training *bench,
                                          kvs_bench_train_result *out, kvs_err *err);

/* ---- inference ------------------------------------------------------------------------------- */

typedef struct kvs_bench_infer_options {
    const char *path;      /* a model, as for kvs_model_open */
    const char *unshifted; /* the same without its shift, to take turns with; NULL = none */
    size_t prompt;         /* tokens of a prompt, read in one go; 0 = not measured */
    size_t generate;       /* tokens that are generated one after the other; 0 = not measured */
    size_t depth;          /* tokens that are there before those generated */
    size_t batch;          /* sequences that are generated together, at least 1 */
    kvs_dtype cache;       /* of keys and values, as for sessions */
} kvs_bench_infer_options;

typedef struct kvs_bench_infer_result {
    size_t rounds;               /* without the first, which does not count */
    kvs_spread prompt, generate; /* seconds of a prompt, and of a token of every sequence */
    kvs_spread unshifted_prompt, unshifted_generate; /* NaN: not measured */
    kvs_spread read;        /* bytes a second that the machine reads, in the same rounds */
    double weight_bytes;    /* of the matrices that every token is multiplied with */
    double bytes_per_token; /* that a generated token has to read: its share of these, and keys and
                               values, on average */
    double load;            /* seconds until the model was open */
    double start_rss, peak_rss; /* bytes, before the model was opened and at the most */
} kvs_bench_infer_result;

typedef struct kvs_bench_inference kvs_bench_inference;

/* Random tokens through a model; every pass ends with the logits of its last tokens. */
KVS_API kvs_status kvs_bench_inference_create(kvs_bench_inference **out, kvs_runtime *rt,
                                              const kvs_bench_infer_options *options, kvs_err *err);
KVS_API void kvs_bench_inference_free(kvs_bench_inference *bench);
KVS_API kvs_status kvs_bench_inference_round(kvs_bench_inference *bench, kvs_err *err);
KVS_API kvs_status kvs_bench_inference_get(const kvs_bench_inference *bench,
                                           kvs_bench_infer_result *out, kvs_err *err);

/* ---- theory: the paper's theorems as formulas ------------------------------------------------ */

/* The four numbers of a head's shift: 1 is for the token itself, 2 for the one before it. */
typedef struct kvs_coefficients {
    double alpha1, alpha2, beta1, beta2;
} kvs_coefficients;

/* An induction head on vectors x_1 .. x_L, L = length:
 *
 *     IH(x) = sum_{s=2..L-1} softmax_s(x_L . x_{s-1} / sigma - slope (L - s)) x_s
 */
typedef struct kvs_induction_problem {
    size_t length, dim; /* 4 at least; channels of a token */
    double sigma, slope;
    size_t inputs; /* random ones, of which the worst counts: unit vectors, x_L is one before it */
    uint64_t seed; /* of these */
} kvs_induction_problem;

KVS_API void kvs_induction_problem_init(kvs_induction_problem *problem);

/* Theorem 1, two ordinary layers of width 2 dim, the first with ALiBi's slope p.  Differences are
 * the largest of any channel. */
typedef struct kvs_theorem1_result {
    double error;      /* |IH - TF| */
    double self_error; /* the same where the first layer attends to itself, as causal ones do */
    double copy_error; /* between what the first layer makes and the token before */
    double bound;      /* the proof's: 4 dim / sigma e^-p / (1 - e^-p) */
} kvs_theorem1_result;

KVS_API kvs_status kvs_theorem1(kvs_theorem1_result *out, const kvs_induction_problem *problem,
                                double p, kvs_err *err);

/* Theorem 2, one layer of KV shifting attention of width dim.  The last three are of one input of
 * tokens at right angles, one of which comes twice. */
typedef struct kvs_theorem2_result {
    double masked;   /* |IH - KVSA| without the first and the last key: rounding */
    double printed;  /* with all keys, as the theorem has it */
    double repeated; /* the same where the last two tokens are equal */
    double network;  /* between KVSA in double and as a model of this library */
} kvs_theorem2_result;

KVS_API kvs_status kvs_theorem2(kvs_theorem2_result *out, kvs_runtime *rt,
                                const kvs_induction_problem *problem, kvs_err *err);

/* Theorem 3, the loss of a one-layer network on x_1 .. x_T, x_i, whose answer is x_{i+1}. */
typedef enum kvs_theorem3_form {
    KVS_THEOREM3_EXACT,   /* as it follows from the conditions */
    KVS_THEOREM3_PRINTED, /* with the paper's e^alpha2 for tokens i-1 and T; counts are exact */
    KVS_THEOREM3_FIGURE,  /* as the paper draws it: printed, and T is the constant for O(T) */
} kvs_theorem3_form;

typedef struct kvs_theorem3 {
    kvs_theorem3_form form;
    size_t T; /* 4 at least (3 with an i); of the figure any number */
    size_t i; /* 1 .. T-1; 0 = any of 2 .. T-2, which are all alike; the exact form alone */
} kvs_theorem3;

/* `gradient` may be NULL. */
KVS_API kvs_status kvs_theorem3_loss(double *loss, kvs_coefficients *gradient,
                                     const kvs_theorem3 *problem, const kvs_coefficients *at,
                                     kvs_err *err);
/* The exact loss three other ways: place by place; as a model of this library with embeddings at
 * right angles; and as one with random embeddings ~ N(0, 1/dim), on average over `samples` of
 * them with i in 2 .. T-2. */
KVS_API kvs_status kvs_theorem3_brute_force(double *loss, size_t T, size_t i,
                                            const kvs_coefficients *at, kvs_err *err);
KVS_API kvs_status kvs_theorem3_network(double *loss, kvs_runtime *rt, size_t T, size_t i,
                                        const kvs_coefficients *at, kvs_err *err);
/* Largest difference between the exact loss and brute force, over i = 1 .. T-1. */
KVS_API kvs_status kvs_theorem3_difference(double *most, size_t T, const kvs_coefficients *at,
                                           kvs_err *err);

typedef struct kvs_estimate {
    double mean, error; /* error: the standard error of the mean */
} kvs_estimate;

KVS_API kvs_status kvs_theorem3_monte_carlo(kvs_estimate *out, kvs_runtime *rt, size_t T,
                                            const kvs_coefficients *at, size_t dim, size_t samples,
                                            uint64_t seed, kvs_err *err);

/* On the square that the paper draws: alpha2 = 1 - alpha1, beta2 = 1 - beta1. */
KVS_API kvs_coefficients kvs_square(double alpha1, double beta1);
/* The lowest of (steps + 1)^2 places of the square from (0, 0) to (1, 1). */
KVS_API kvs_status kvs_theorem3_minimum(kvs_coefficients *where, double *loss,
                                        const kvs_theorem3 *problem, size_t steps, kvs_err *err);

/* All four numbers free, with Adam (0.9, 0.999). */
typedef struct kvs_descent {
    double lr;
    uint64_t steps;
    /* Called before each step 1, 2, ... with what it starts from; may be NULL. */
    void (*visit)(void *user, uint64_t step, double loss, const kvs_coefficients *at);
    void *user;
} kvs_descent;

KVS_API kvs_status kvs_theorem3_descend(kvs_coefficients *at, const kvs_theorem3 *problem,
                                        const kvs_descent *descent, kvs_err *err);

/* Draws squares side by side, KVS_PANELS_MAX at most, `columns` in a row, as SVG: colours and
 * contours of the loss, lines of steepest descent.  Needs gnuplot. */
enum { KVS_PANELS_MAX = 12 };

KVS_API kvs_status kvs_landscape_draw(const char *svg, const kvs_theorem3 *panels, size_t count,
                                      size_t columns, kvs_err *err);

/* ---- lens: what the heads of a model do ------------------------------------------------------ */

/* What attention of one head gives to each place (A), and to each token's content once its values
 * are shifted (A_V): with taps b1 for the token itself and b2 for the one before,
 *
 *     A_V[t, j] = b1 A[t, j] + b2 A[t, j + 1]
 *
 * and likewise for longer windows; where channels differ, with their means.  Without a shift of
 * values both are the same.  Rows of A sum to 1, those of A_V to what the taps sum to. */
typedef struct kvs_pattern {
    size_t layer, head, kv_head;
    size_t tokens;
    const float *places, *contents; /* [tokens, tokens]: A and A_V, of row t what token t sees */
} kvs_pattern;

/* Runs the model on one sequence and shows the patterns of all heads, layer by layer; they are
 * borrowed until the visit ends. */
KVS_API kvs_status kvs_patterns(const kvs_model *model, const int32_t *ids, size_t count,
                                void (*visit)(void *user, const kvs_pattern *pattern), void *user,
                                kvs_err *err);

/* Random tokens, all of them twice: token t of the second half was there before at t - length. */
typedef struct kvs_lens_options {
    size_t length; /* of a half; no longer than half the model's context */
    size_t sequences;
    uint64_t seed;
    size_t first_id; /* ids below it are not drawn */
} kvs_lens_options;

KVS_API void kvs_lens_options_init(kvs_lens_options *options);
/* Checks the options against a model, and cuts the length to half its context. */
KVS_API kvs_status kvs_lens_options_finish(kvs_lens_options *options, const kvs_model *model,
                                           kvs_err *err);
/* Sequence `index`, 2 * length ids. */
KVS_API void kvs_lens_sequence(int32_t *ids, const kvs_lens_options *options,
                               const kvs_model *model, size_t index);

/* What a head gives, on average over tokens: of the second half to the token behind the one that
 * was the same, and to that one itself; of all but the first to the token before. */
typedef struct kvs_head_scores {
    double induction, duplicate, previous;
} kvs_head_scores;

typedef struct kvs_head_reading {
    size_t layer, head, kv_head;
    kvs_head_scores places, contents; /* by A, and by A_V */
    double previous_keys; /* alpha2 / (|alpha1| + |alpha2|); NaN where keys have no two taps */
} kvs_head_reading;

/* Attention heads of all layers. */
KVS_API size_t kvs_lens_heads(const kvs_model *model);
/* One reading a head, kvs_lens_heads of them, layer by layer.  `options` are finished. */
KVS_API kvs_status kvs_lens_read(kvs_head_reading *out, const kvs_model *model,
                                 const kvs_lens_options *options, kvs_err *err);

/* Heads by the token from which their keys and their values come more.  The second is the induction
 * head of one layer; the last an ordinary head whose places are off by one. */
typedef enum kvs_head_kind {
    KVS_KEYS_CURRENT_VALUES_CURRENT,   /* alpha1 > alpha2, beta1 > beta2 */
    KVS_KEYS_PREVIOUS_VALUES_CURRENT,  /* alpha1 <= alpha2, beta1 > beta2 */
    KVS_KEYS_CURRENT_VALUES_PREVIOUS,  /* alpha1 > alpha2, beta1 <= beta2 */
    KVS_KEYS_PREVIOUS_VALUES_PREVIOUS, /* alpha1 <= alpha2, beta1 <= beta2 */
    KVS_HEAD_KINDS,
} kvs_head_kind;

KVS_API kvs_head_kind kvs_head_kind_of(const kvs_coefficients *head);

/* The coefficients of all KV heads together. */
typedef struct kvs_shift_summary {
    size_t heads;
    size_t kinds[KVS_HEAD_KINDS];
    kvs_estimate alpha_sum, beta_sum;       /* alpha1 + alpha2: mean, and its standard error */
    size_t negative_alphas, negative_betas; /* of two a head */
} kvs_shift_summary;

/* Whether the heads of such a shift have kinds: keys and values are shifted by one token, with
 * learned taps. */
KVS_API int kvs_shift_has_kinds(const kvs_shift_config *shift);
/* One head's four numbers; a shift without kinds is KVS_E_UNSUPPORTED. */
KVS_API kvs_status kvs_head_coefficients(kvs_coefficients *out, const kvs_model *model,
                                         size_t layer, size_t kv_head, kvs_err *err);
KVS_API kvs_status kvs_shift_summarise(kvs_shift_summary *out, const kvs_model *model,
                                       kvs_err *err);

/* Draws the patterns of all heads on the first sequence of `options`, KVS_DRAWN_HEADS_MAX at most,
 * A beside A_V, as SVG.  Needs gnuplot. */
enum { KVS_DRAWN_HEADS_MAX = 256 };

KVS_API kvs_status kvs_patterns_draw(const char *svg, const kvs_model *model,
                                     const kvs_lens_options *options, kvs_err *err);
/* ---- the paper's experiments ----------------------------------------------------------------- */

typedef enum kvs_scale {
    KVS_SCALE_SMOKE, /* seconds: shows that everything works, and nothing about the claim */
    KVS_SCALE_DESK,  /* minutes on two cores: scaled down so that the claim can still be seen */
    KVS_SCALE_PAPER, /* the paper's own settings, for a cluster */
} kvs_scale;

enum { KVS_SCALES = 3 };

/* smoke, desk, paper */
KVS_API const char *kvs_scale_name(kvs_scale scale);
KVS_API kvs_status kvs_scale_parse(kvs_scale *out, const char *name, kvs_err *err);

typedef struct kvs_experiment {
    const char *name;                 /* "induction-depth" */
    const char *figure;               /* of the paper: "Fig. 1a" */
    const char *claim;                /* what the paper says, in a sentence */
    const char *settings[KVS_SCALES]; /* what is done at each scale, and how it was scaled */
    size_t seeds[KVS_SCALES];         /* of each arm, where no other number is asked for */
    int learns_text;                  /* wants texts, but at scale smoke */
    int takes_model;                  /* can measure a trained model instead of training its own */
} kvs_experiment;

KVS_API const kvs_experiment *kvs_experiment_at(size_t index); /* NULL past the end */

/* A run that is part of an experiment. */
typedef enum kvs_run_state {
    KVS_RUN_NEW,
    KVS_RUN_BEGUN,
    KVS_RUN_DONE,
    KVS_RUN_DIVERGED, /* its loss stopped being a number, which ended it */
} kvs_run_state;

typedef struct kvs_planned_run {
    const char *name; /* of its folder */
    const char *arm;  /* what sets it apart: "KV shifting, 1 layer" */
    uint64_t seed;
    uint64_t parameters, steps;
    double tokens, flops; /* of the whole run */
    double bytes;         /* of memory */
    kvs_run_state state;
} kvs_planned_run;

typedef enum kvs_verdict {
    KVS_VERDICT_REPRODUCED,
    KVS_VERDICT_NOT,       /* what was found contradicts the claim */
    KVS_VERDICT_TOO_SMALL, /* at this scale it cannot be told */
} kvs_verdict;

/* reproduced, not reproduced, not at this scale */
KVS_API const char *kvs_verdict_name(kvs_verdict verdict);

typedef struct kvs_claim {
    const char *claim;
    const char *paper;  /* its number, or what it says in words */
    double ours, error; /* and its standard error; NaN = there is none */
    const char *unit;   /* of both, "" = none */
    size_t seeds;
    kvs_verdict verdict;
    const char *detail; /* how the verdict came about: "p = 0.003, lower for 5 of 5 seeds" */
} kvs_claim;

typedef struct kvs_repro_progress {
    const kvs_planned_run *run; /* number `index` of `count` */
    size_t index, count;
    const kvs_step_record *record; /* NULL: the run has just been begun, or is over */
    double seconds_left;           /* of the whole experiment, from its pace so far; NaN at first */
} kvs_repro_progress;

typedef struct kvs_repro_options {
    kvs_scale scale;
    size_t seeds;             /* 0 = the experiment's own number */
    const char *out;          /* folder; NULL = this is a plan only */
    int resume;               /* go on with what is in the folder */
    const char *reuse;        /* a folder of experiments whose finished runs are taken over where
                                 the same is planned; NULL = none */
    const char *const *texts; /* files, or folders of them, for models that learn text */
    size_t text_count;
    const char *model;   /* trained, to be measured instead; NULL = the experiment's own */
    double dropout;      /* that stays on while it is measured */
    const char *command; /* for the record; NULL = none */
    /* Called before the first step of each run, after every step, and once the run is over;
     * non-zero stops in order, and a later call with `resume` goes on from there. */
    int (*progress)(void *user, const kvs_repro_progress *progress);
    /* Called with one line about something unusual; may be NULL. */
    void (*notice)(void *user, const char *line);
    void *user;
} kvs_repro_options;

typedef struct kvs_repro kvs_repro;

/* Plans an experiment: nothing is written yet, and of the folder only the state of its runs is
 * read.  The options are borrowed.  Where the runtime has ranks, runs are split over them: each is
 * done by one rank, all make the same calls, and share the folder. */
KVS_API kvs_status kvs_repro_create(kvs_repro **out, kvs_runtime *rt, const char *name,
                                    const kvs_repro_options *options, kvs_err *err);
KVS_API void kvs_repro_free(kvs_repro *repro);
KVS_API const kvs_experiment *kvs_repro_experiment(const kvs_repro *repro);
KVS_API const kvs_planned_run *kvs_repro_run_at(const kvs_repro *repro, size_t index);
/* What is left to do would take about so long on this machine, or with its ranks. */
KVS_API double kvs_repro_seconds(const kvs_repro *repro);

/* Does what is planned.  The folder then holds runs/ (each as kvs_train leaves it), results.json
 * (the claims), experiment.json, figures as SVG and CSV, runs.csv, page.html and page.md.
 * *finished says whether it went to its end or was stopped.  Claims are on the first rank. */
KVS_API kvs_status kvs_repro_run(kvs_repro *repro, int *finished, kvs_err *err);
/* What came of it; NULL past the end. */
KVS_API const kvs_claim *kvs_repro_claim(const kvs_repro *repro, size_t index);

/* Joins finished experiments, those in `dir` or in folders of it, into one self-contained page. */
KVS_API kvs_status kvs_repro_report(const char *dir, const char *html, size_t *experiments,
                                    kvs_err *err);
/* All their claims and verdicts as one table of Markdown, which links to the folders. */
KVS_API kvs_status kvs_repro_summary(const char *dir, const char *markdown, size_t *experiments,
                                     kvs_err *err);

#ifdef __cplusplus
}
#endif
#endif
