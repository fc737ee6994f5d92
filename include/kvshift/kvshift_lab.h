/* kvshift_lab.h - the research API: measuring the machine and what is made of it.
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

#ifdef __cplusplus
}
#endif
#endif
