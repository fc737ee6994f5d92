/* config/config.h - the configurations of models, training and tasks, and the tables of their
 * settings: one row per field.
 *
 * A row has the name, type, limits, default, help text and use of a setting (base/setting.h).  The
 * options of the commands, configuration files, config.json, the log of a run, the check when a run
 * is resumed, plans of experiments and labels of reports are all derived from these tables.  A new
 * setting is a field of a struct here and its row.  Programs that use the library set settings by
 * name (handles.c). */
#ifndef KVSI_CONFIG_CONFIG_H
#define KVSI_CONFIG_CONFIG_H

#include "base/setting.h"

/* ---- models ---- */

/* How the shift mixes x_t with the tokens before it; src/kernels/forms.c implements all forms. */
typedef enum kvsi_shift_form {
    KVSI_SHIFT_FREE,     /* sum_j a_j x_{t-j}: taps a_j per head, free */
    KVSI_SHIFT_GATE,     /* a1 = sigmoid(a), a2 = 1 - a1; window 1 */
    KVSI_SHIFT_CLAMP,    /* free, clipped into [0,1] in the forward pass */
    KVSI_SHIFT_CHANNEL,  /* free, with separate taps for every channel of a head */
    KVSI_SHIFT_DATA,     /* a_t x_{t-1} + (1 - a_t) x_t, a_t = sigmoid(w . input of the layer) */
    KVSI_SHIFT_HARD,     /* the upper half of the head's channels is x_{t-1}; nothing is learned */
    KVSI_SHIFT_RESIDUAL, /* x_t + sum_j a_j x_{t-j}, j from 0 on: channel, with the row itself */
} kvsi_shift_form;

typedef enum kvsi_shift_init {
    KVSI_SHIFT_INIT_UNIFORM,  /* all taps but the oldest ~ U(0,1), the oldest = 1 - their sum */
    KVSI_SHIFT_INIT_SOFTMAX,  /* softmax of normally distributed values */
    KVSI_SHIFT_INIT_IDENTITY, /* the current token's tap is 1, others are 0: ordinary attention */
} kvsi_shift_init;

typedef struct kvsi_shift_config {
    unsigned targets; /* KVS_SHIFT_K | ..., 0 = ordinary attention */
    kvsi_shift_form form;
    kvsi_shift_init init;
    size_t window; /* previous tokens used: taps = window + 1 */
} kvsi_shift_config;

typedef enum kvsi_body {
    KVSI_BODY_LLAMA, /* its names of tensors; without other settings RMSNorm, SwiGLU, no biases */
    KVSI_BODY_GPT2,  /* its names of tensors; without other settings LayerNorm and GELU; always
                        biases, an MLP without a gate, and a smaller init of the projections that
                        end a residual branch */
} kvsi_body;

/* The kind of all norms but those of queries and keys. */
typedef enum kvsi_norm_kind {
    KVSI_NORM_AUTO,  /* as the body has it; kvs_model_config_finish replaces it */
    KVSI_NORM_RMS,   /* RMSNorm: x / root mean square * gain */
    KVSI_NORM_LAYER, /* LayerNorm: (x - mean) / deviation * gain + bias */
} kvsi_norm_kind;

/* Where a layer has norms: x + f(norm(x)), x + norm(f(x)), or x + norm(f(norm(x))), with f =
 * attention and f = MLP. */
typedef enum kvsi_norm_place {
    KVSI_NORM_BEFORE,
    KVSI_NORM_AFTER,
    KVSI_NORM_BOTH,
} kvsi_norm_place;

/* Whether attention and MLP read the same x: x + attention(norm(x)) + mlp(norm(x)). */
typedef enum kvsi_parallel {
    KVSI_PARALLEL_NONE,
    KVSI_PARALLEL_OWN,    /* each with its own norm */
    KVSI_PARALLEL_SHARED, /* with one norm */
} kvsi_parallel;

/* The function f of the MLP: down(f(gate x) * up x), or down(f(up x)) without a gate. */
typedef enum kvsi_activation {
    KVSI_ACTIVATION_AUTO,      /* as the body has it; kvs_model_config_finish replaces it */
    KVSI_ACTIVATION_SILU,      /* x * sigmoid(x) */
    KVSI_ACTIVATION_GELU,      /* x * Phi(x), Phi = the normal distribution */
    KVSI_ACTIVATION_GELU_TANH, /* its approximation with tanh */
    KVSI_ACTIVATION_RELU,      /* max(x, 0) */
} kvsi_activation;

typedef enum kvsi_positions {
    KVSI_POSITIONS_ROPE,    /* rotary, pairs half a head apart */
    KVSI_POSITIONS_ALIBI,   /* scores decrease with distance, by a slope per head */
    KVSI_POSITIONS_LEARNED, /* a table added to the embeddings */
    KVSI_POSITIONS_NONE,
    KVSI_POSITIONS_RELATIVE, /* scores of near tokens get a term that the query's row computes */
} kvsi_positions;

/* What the products of queries and keys are divided by, unless there is a score scale. */
typedef enum kvsi_score_divisor {
    KVSI_SCORE_DIVISOR_ROOT, /* the root of the head size */
    KVSI_SCORE_DIVISOR_SIZE, /* the head size */
} kvsi_score_divisor;

/* Where a layer filters rows: x_t becomes x_t + sum_j a_j x_{t-j}, j from 0 on, with taps a per
 * channel.  Bits. */
enum {
    KVSI_FILTER_ATTENTION = 1, /* the output of attention, before its norm */
    KVSI_FILTER_MLP = 2,       /* the output of the MLP, before its norm */
};

/* The norm of queries and keys, between shift and rotation. */
typedef enum kvsi_qk_norm {
    KVSI_QK_NORM_NONE,
    KVSI_QK_NORM_HEAD,  /* RMSNorm of each head, with gains that all heads share */
    KVSI_QK_NORM_FULL,  /* RMSNorm of all heads together, with gains of their own */
    KVSI_QK_NORM_LAYER, /* LayerNorm of each head, with gains of its own and without biases */
} kvsi_qk_norm;

/* How the angular frequencies f of rotary pairs change, for contexts that are longer than those
 * of the first training (config/rotations.c). */
typedef enum kvsi_rope_scaling {
    KVSI_ROPE_PLAIN,
    KVSI_ROPE_LINEAR,   /* f / factor */
    KVSI_ROPE_LLAMA3,   /* f / factor for long waves, f for short ones, a blend between */
    KVSI_ROPE_YARN,     /* the same, by the number of turns; q and k are scaled */
    KVSI_ROPE_DYNAMIC,  /* f, as far as the original context; beyond it is not supported */
    KVSI_ROPE_LONGROPE, /* f_i / short_factor_i, likewise; q and k are scaled */
} kvsi_rope_scaling;

/* The numbers of that change; each kind uses some of them.  0 = the default of the setting. */
typedef struct kvsi_rope_config {
    kvsi_rope_scaling scaling;
    double factor;
    size_t original_context;
    double low_factor, high_factor; /* llama3: waves longer than original context / low factor and
                                       shorter than original context / high factor */
    double beta_slow, beta_fast;    /* yarn: turns within the original context */
    int untruncated;                /* yarn: these bounds are not rounded to whole channels */
    double vector_scale;            /* of q and k; 0 = follows from the other numbers */
    size_t shorts;                  /* longrope: number of values, one per rotary pair */
    double short_factor[KVSI_LIST_MAX];
    size_t longs;
    double long_factor[KVSI_LIST_MAX];
} kvsi_rope_config;

typedef enum kvsi_head_kind {
    KVSI_HEAD_LINEAR,
    KVSI_HEAD_NORMALISED, /* its rows are scaled to length 1 before use */
    KVSI_HEAD_NONE,       /* the final norm's output is the logits, one per channel */
} kvsi_head_kind;

enum {
    KVSI_SHIFT_WINDOW_MAX = 3,
    KVSI_SLOPES_MAX = 64,
    KVSI_LISTED_LAYERS_MAX = 64,
    KVSI_RELATIVE_SIZE_MAX = 256
};

/* Low-rank adapters of linear matrices in layers: y = x W^T becomes
 *
 *     y = x W^T + (alpha / rank) (x A^T) B^T,    A: [rank, inputs], B: [outputs, rank]
 *
 * W is frozen then.  kvs_model_adapt adds them; they are no settings. */
enum { KVSI_LORA_NAMES_SIZE = 256, KVSI_LORA_RANK_MAX = 4096 };

typedef struct kvsi_lora_config {
    size_t rank;                   /* 0 = no adapters */
    double alpha;                  /* above 0 */
    char on[KVSI_LORA_NAMES_SIZE]; /* which matrices: names and patterns, with commas between
                                      (model/adapters.h) */
} kvsi_lora_config;

/* The public handle kvs_model_config points to this struct. */
struct kvs_model_config {
    kvsi_body body;
    size_t vocab, dim, layers, heads, kv_heads, ffn;
    size_t head_size;               /* channels of a head; 0 = dim / heads of the layer */
    int qkv_bias, o_bias, mlp_bias; /* biases of the linear layers in the Llama body */
    kvsi_qk_norm qk_norm;
    int embedding_norm; /* a norm of the tokens' embeddings */
    kvsi_norm_kind norm_kind;
    kvsi_norm_place norm_place;
    int gain_offset; /* norms multiply by 1 + gain, also those of q and k */
    kvsi_parallel parallel;
    kvsi_activation activation;
    int plain_mlp; /* the MLP has no gate */
    /* Factors of the tokens' embeddings and of what a branch adds to the residual stream, and what
     * the logits are divided by; 0 = 1. */
    double embedding_scale, residual_scale, logit_divisor;
    double logit_cap; /* logits become cap * tanh(logit / cap); 0 = they stay */
    size_t context;   /* longest sequence, in tokens */
    kvsi_shift_config shift;
    unsigned filters;     /* KVSI_FILTER_ATTENTION | ..., 0 = none */
    size_t filter_window; /* previous tokens that the filters mix in; 0 = there are none */
    int mlp_factor;       /* the filter of the MLP's output has a learned factor */
    kvsi_lora_config lora;

    kvsi_positions positions;
    double rope_base;       /* theta of the rotary positions */
    double rotary_fraction; /* fraction of a head's channels, from the first, that rotates */
    kvsi_rope_config rope;
    uint64_t no_rope_layers;  /* bit l = nothing rotates in layer l */
    double sliding_rope_base; /* of layers with the window, which then have no scaling; 0 = as the
                                 others */
    size_t slopes; /* ALiBi: number of values in slope: 0 = 2^(-8i/heads), 1 = one for all heads */
    double slope[KVSI_SLOPES_MAX];
    size_t relative_size;   /* relative positions: numbers per head that a row computes */
    size_t relative_extent; /* distances that have a term, from 0 on, in layers without a window;
                               the others have as many as the window */
    kvsi_score_divisor score_divisor;
    double score_scale; /* factor of q . k; 0 = 1 / the divisor */
    /* In layers without a window, scores of the row at position i have the factor
     * 1 + score_growth ln(max((i + 1) / score_growth_start, 1)). */
    double score_growth, score_growth_start;
    double score_cap; /* the scaled q . k becomes cap * tanh(q . k / cap); 0 = it stays */

    size_t sliding_window;   /* token t attends to s > t - window; 0 = to all tokens before it */
    uint64_t sliding_layers; /* bit l = layer l has the window; 0 = every layer */
    size_t sliding_heads, sliding_kv_heads; /* heads of the layers with the window; 0 = as others */
    size_t sliding_head_size;               /* channels of these heads; 0 = as head_size says */

    kvsi_head_kind head;
    int tied; /* output head shares the embedding table */
    double dropout_embedding, dropout_attention, dropout_residual;

    int no_residual, no_mlp, no_norm; /* leave parts of the body out */

    double norm_eps;
    double init_std;          /* weights ~ N(0, init_std) */
    int identity_projections; /* q, k, v and o start as identity matrices */
    int unit_embeddings;      /* embedding rows start with length 1 */

    /* The family of files that the model was read from, as which it is written again if it can be:
     * a type of formats/families.c, or NULL.  It is no setting and changes nothing else. */
    const char *family;
};

/* ---- training ---- */

typedef enum kvsi_schedule {
    KVSI_SCHEDULE_CONSTANT,
    KVSI_SCHEDULE_LINEAR,
    KVSI_SCHEDULE_COSINE
} kvsi_schedule;

/* The precision of products of matrices.  BF16: operands are rounded to bfloat16 (to nearest, ties
 * to even) and sums are float32. */
typedef enum kvsi_precision { KVSI_PRECISION_F32, KVSI_PRECISION_BF16 } kvsi_precision;

/* Whether packed copies of the weights are kept for all passes of a step. */
typedef enum kvsi_pack_weights {
    KVSI_PACK_AUTO, /* if a step has several passes, of so few tokens that they are faster with
                       them, and layers are not recomputed */
    KVSI_PACK_YES,
    KVSI_PACK_NO
} kvsi_pack_weights;

/* What is sharded over the ranks of a run: the stages of ZeRO.  Each stage includes the earlier
 * ones. */
typedef enum kvsi_shard_stage {
    KVSI_SHARD_NONE,
    KVSI_SHARD_OPTIMIZER,  /* stage 1: the optimizer's moments */
    KVSI_SHARD_GRADIENTS,  /* stage 2: gradients, which are sent after every micro-batch */
    KVSI_SHARD_PARAMETERS, /* stage 3: weights.  Layers are gathered when they are needed, twice per
                             pass.  The model's runtime must have `spread` set */
} kvsi_shard_stage;

/* The public handle kvs_train_config points to this struct. */
struct kvs_train_config {
    uint64_t steps, warmup; /* the rate rises linearly over `warmup` steps */
    size_t batch;      /* sequences per step over all ranks; the number of ranks must divide it */
    size_t accumulate; /* micro-batches per batch, for any number of ranks; must divide batch */
    kvsi_schedule schedule; /* after the warm-up, from lr to lr * lr_floor at the last step */
    double lr, lr_floor;
    double beta1, beta2, eps, weight_decay;
    double shift_lr;    /* learning rate of the shift's parameters, same schedule; 0 = lr */
    double shift_decay; /* weight decay of the shift's parameters; 0 by default: with the
                           settings of a language model, weight_decay would shrink them to a
                           tenth */
    int decay_all;      /* weight_decay for every tensor: also gains, biases, and the shift unless
                         shift_decay is set */
    int only_shift;     /* train only the shift's parameters */
    char rates[KVSI_STRING_SIZE]; /* NAME=FACTOR,...: factors of the rates of tensors, see
                                     train/rates.h */
    uint64_t patience; /* evaluations without a lower loss after which the run ends; 0 = no limit */
    int save_best;     /* the final model has the weights of the lowest evaluation loss */
    int eval_dropout;  /* dropout stays on when evaluating */
    int recompute; /* compute a layer again in the backward pass instead of keeping its activations:
                      less memory, more time, the same bits */
    kvsi_precision precision; /* of the passes, evaluation included.  With BF16 some activations
                                 are also kept in bfloat16; see kvsi_layer_memory */
    kvsi_pack_weights pack_weights; /* more memory, less time, the same bits; never with sharded
                                       parameters */
    double clip;                    /* largest gradient norm, 0 = no clipping */
    uint64_t seed; /* of the data and of dropout; the weights have a separate seed */
    kvsi_shard_stage shard;
    int deterministic; /* the same bits on 1, 2 and 4 ranks: a batch is computed in 4 slices, whose
                          gradients are added as (1 + 2) + (3 + 4); 4 must divide batch */
    uint64_t eval_every;       /* steps between evaluations; 0 = only at the end */
    size_t eval_sequences;     /* per evaluation */
    uint64_t checkpoint_every; /* in steps; 0 = only on request.  An evaluation better than all
                                  before also writes a checkpoint */
    size_t keep; /* number of newest checkpoints to keep; 0 = all.  Older ones are deleted once a
                    later step or the last evaluation has shown that the newest did not diverge */
    uint64_t sample_every;     /* steps between calls of the sample callback; 0 = never */
    uint64_t eval_tasks_every; /* steps between calls of the benchmark callback; 0 = never */
};

/* ---- tasks ---- */

typedef enum kvsi_loss_rows {
    KVSI_LOSS_ANSWER, /* only the task's answer */
    KVSI_LOSS_ALL,    /* every next token */
} kvsi_loss_rows;

typedef enum kvsi_induction_sampler {
    KVSI_INDUCTION_DIRECT, /* draws the length, then the tokens: same distribution, no rejection */
    KVSI_INDUCTION_PAPER,  /* the paper's generator, step by step */
} kvsi_induction_sampler;

/* Sequences "... A B ... A", whose answer is B.  Tokens are 11 .. vocab-1 and all different, except
 * for the last one. */
typedef struct kvsi_induction_config {
    size_t vocab, pool, max_length;
    kvsi_loss_rows loss;
    kvsi_induction_sampler sampler;
} kvsi_induction_config;

/* Memorising triples: a fixed table of different pairs (x1, x2), each with a random x3.  The model
 * reads x1 and x2, which are tokens 0 .. alphabet-1; the answer is x3, one of the next `answers`
 * tokens.  Sequence i is pair i mod `pairs`, in training and in evaluation: a batch of `pairs`
 * sequences is the whole table. */
typedef struct kvsi_ngram_config {
    size_t alphabet, pairs, answers;
    uint64_t seed; /* of the table */
} kvsi_ngram_config;

/* k-hop induction.  The first token is the number of hops; all others are letters.  One hop goes
 * from the position of a letter to the position after the previous occurrence of that letter.  The
 * answer at a position is the letter that is reached from there after that number of hops, or
 * "none" if a letter on the way has no previous occurrence.  Ids are in this order: numbers of hops
 * 0 .. hops, letters, "none", "blank".  The answer of the first token is "blank".  All answers have
 * a loss; only answers that are letters are scored. */
typedef struct kvsi_hopk_config {
    size_t letters, length; /* length: letters per sequence */
    size_t hops; /* maximum, at most length - 2; each sequence draws its number from 0 .. hops */
    size_t only; /* all sequences have this number of hops; KVSI_HOPS_ALL = they draw it */
    uint64_t sequences; /* size of the training set, repeated; 0 = always new sequences */
} kvsi_hopk_config;

#define KVSI_HOPS_ALL SIZE_MAX

/* Word problems in arithmetic modulo 23 with step-by-step solutions (iGSM). */
typedef enum kvsi_igsm_mode {
    KVSI_IGSM_PAPER,    /* the generator that the paper starts from: every parameter is computed */
    KVSI_IGSM_OFFICIAL, /* the generator of iGSM's authors: nested objects; only needed parameters
                          are computed */
} kvsi_igsm_mode;

typedef enum kvsi_igsm_wording {
    KVSI_IGSM_FULL,    /* sentences */
    KVSI_IGSM_COMPACT, /* only the words that carry meaning, half as long; mode paper only */
} kvsi_igsm_wording;

typedef struct kvsi_igsm_config {
    kvsi_igsm_mode mode;
    kvsi_igsm_wording wording;
    /* Number of operations.  In mode paper: parameters, which equal the lines of the solution.  In
     * mode official: arithmetic operations that the solution needs. */
    size_t min_op, max_op;
    size_t items;      /* mode paper: largest number of items per category, at most 10 */
    size_t edges;      /* mode official: largest number of pairs of objects */
    size_t max_length; /* in tokens; longer problems are drawn again */
    int solution_only; /* the loss covers the solution only, not the problem */
    const kvs_tokenizer *tokenizer; /* for the text; NULL = each word is a token */
} kvsi_igsm_config;

/* ---- tables ---- */

extern const kvsi_settings kvsi_model_settings; /* of kvs_model_config */
extern const kvsi_settings kvsi_train_settings; /* of kvs_train_config */
extern const kvsi_settings kvsi_induction_settings, kvsi_ngram_settings, kvsi_hopk_settings,
    kvsi_igsm_settings; /* of kvsi_induction_config, ... */

/* The groups of the rows, which are headings in the help and sections of configuration files. */
extern const char kvsi_group_model[], kvsi_group_training[], kvsi_group_ranks[], kvsi_group_run[],
    kvsi_group_induction[], kvsi_group_ngram[], kvsi_group_hopk[], kvsi_group_igsm[];

/* The names of enum values, ended by a NULL name. */
extern const kvsi_name kvsi_body_names[], kvsi_norm_kind_names[], kvsi_norm_place_names[],
    kvsi_parallel_names[], kvsi_activation_names[], kvsi_qk_norm_names[], kvsi_shift_target_names[],
    kvsi_shift_form_names[], kvsi_shift_init_names[], kvsi_positions_names[], kvsi_filters_names[],
    kvsi_score_divisor_names[], kvsi_rope_scaling_names[], kvsi_head_names[], kvsi_schedule_names[],
    kvsi_precision_names[], kvsi_pack_weights_names[], kvsi_shard_names[], kvsi_loss_names[],
    kvsi_sampler_names[], kvsi_igsm_mode_names[], kvsi_igsm_wording_names[], kvsi_format_names[],
    kvsi_dtype_names[];
/* Short names for targets and a form together: gate and clamp (kv with that form), smear (k with
 * the form gate). */
extern const kvsi_alias kvsi_shift_aliases[];

/* ---- defaults, presets and derived values ---- */

/* Sets the defaults of a Llama body.  vocab is 0 and must be set.  kv_heads 0 means as many as
 * heads; ffn 0 means 8/3 dim rounded up to a multiple of 16 (Llama) or 4 dim (GPT-2). */
void kvsi_model_config_init(kvs_model_config *config);
/* Sets the body and its default positions. */
void kvsi_model_config_set_body(kvs_model_config *config, kvsi_body body);
/* Return the number of attention heads of a layer; layers with a sliding window may have other
 * numbers. */
size_t kvsi_model_config_heads(const kvs_model_config *config, size_t layer);
size_t kvsi_model_config_kv_heads(const kvs_model_config *config, size_t layer);
kvs_status kvsi_model_config_preset(kvs_model_config *config, const char *name, kvs_err *err);
void kvsi_train_config_init(kvs_train_config *config);
/* Adds the rows KVSI_ADDED, with their defaults, to the settings of a file that may be from an
 * earlier version.  Returns nonzero if memory runs out. */
int kvsi_train_settings_add_missing(json_t *object);
kvs_status kvsi_train_config_preset(kvs_train_config *config, const char *name, kvs_err *err);
void kvsi_induction_config_init(kvsi_induction_config *config);
void kvsi_ngram_config_init(kvsi_ngram_config *config);
void kvsi_hopk_config_init(kvsi_hopk_config *config);
void kvsi_igsm_config_init(kvsi_igsm_config *config);
/* Returns the learning rate of the shift's parameters at step 1, 2, ... */
double kvsi_shift_learning_rate(const kvs_train_config *config, uint64_t step);

/* ---- names as in commands and files ---- */

/* The _name functions return NULL for a value without a name; kvsi_body_parse fails for an unknown
 * name. */
const char *kvsi_shift_targets_name(unsigned targets);
const char *kvsi_shift_form_name(kvsi_shift_form form);
const char *kvsi_shift_init_name(kvsi_shift_init init);
const char *kvsi_body_name(kvsi_body body);
const char *kvsi_positions_name(kvsi_positions positions);
const char *kvsi_rope_scaling_name(kvsi_rope_scaling scaling);
const char *kvsi_precision_name(kvsi_precision precision);
const char *kvsi_shard_name(kvsi_shard_stage shard);
kvs_status kvsi_body_parse(kvsi_body *out, const char *name, kvs_err *err);

#endif
