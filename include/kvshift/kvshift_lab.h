/* kvshift_lab.h - the research API: measuring the machine and what is made of it, and the paper's
 * experiments.
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
    const char *const *texts; /* files, or folders of them, for models that learn text */
    size_t text_count;
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
 * read.  The options are borrowed. */
KVS_API kvs_status kvs_repro_create(kvs_repro **out, kvs_runtime *rt, const char *name,
                                    const kvs_repro_options *options, kvs_err *err);
KVS_API void kvs_repro_free(kvs_repro *repro);
KVS_API const kvs_experiment *kvs_repro_experiment(const kvs_repro *repro);
KVS_API const kvs_planned_run *kvs_repro_run_at(const kvs_repro *repro, size_t index);
/* What is left to do would take about so long on this machine. */
KVS_API double kvs_repro_seconds(const kvs_repro *repro);

/* Does what is planned.  The folder then holds runs/ (each as kvs_train leaves it), results.json
 * (the claims), experiment.json, figures as SVG and CSV, runs.csv, page.html and page.md.
 * *finished says whether it went to its end or was stopped. */
KVS_API kvs_status kvs_repro_run(kvs_repro *repro, int *finished, kvs_err *err);
/* What came of it; NULL past the end. */
KVS_API const kvs_claim *kvs_repro_claim(const kvs_repro *repro, size_t index);

/* Joins finished experiments, those in `dir` or in folders of it, into one self-contained page. */
KVS_API kvs_status kvs_repro_report(const char *dir, const char *html, size_t *experiments,
                                    kvs_err *err);

#ifdef __cplusplus
}
#endif
#endif
