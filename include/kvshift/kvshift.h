/* kvshift.h - language models with KV shifting attention: the stable API.
 *
 * Each key and value is mixed with the ones of the tokens before it, by a few learned coefficients
 * per head, before rotary positions are applied:
 *
 *     K^_t = a1 * K_t + a2 * K_{t-1}          V^_t = b1 * V_t + b2 * V_{t-1}
 *
 * Usage, from nothing to a trained model and its logits:
 *
 *     kvs_err err;
 *     kvs_runtime *rt;       kvs_runtime_create(&rt, NULL, &err);
 *     kvs_model_config mc;   kvs_model_config_init(&mc);
 *     mc.vocab = 128;  mc.dim = 64;  mc.layers = 1;  mc.heads = mc.kv_heads = 4;
 *     mc.shift.targets = KVS_SHIFT_K | KVS_SHIFT_V;
 *     kvs_model *model;      kvs_model_create(&model, rt, &mc, 1, &err);
 *     ... kvs_trainer_step(), kvs_session_feed() ...
 *     kvs_model_free(model);
 *     kvs_runtime_free(rt);
 *
 * Rules that hold for every call:
 *   - Calls that can fail return a kvs_status (0 = done) and describe a failure in `err`, which the
 *     caller owns and which may be NULL.  On failure a call hands out nothing and leaves nothing
 *     half-made behind.  The library never prints, and no input makes it exit or abort.
 *   - X_create hands out a handle that X_free takes back; X_free(NULL) does nothing.
 *     A handle made from another one (a session from a model) borrows it: free it first.
 *   - A handle may be used by one thread at a time; different handles may be used at once, except
 *     that a model must not be trained while another handle reads it.
 *
 * Sections, in this order, each under a line "---- name":
 *   status                what calls return         batches and tasks  what models learn from
 *   what this build is    version, features         training           steps, checkpoints, runs
 *   ranks                 processes that train      tokenizers         text into ids and back
 *   runtime               processor code, threads   formats            files of other programs
 *   model configuration   sizes, shift, presets     corpora            tokens on disk
 *   element types         of stored tensors         reports            runs compared
 *   model                 weights, files
 *   sessions              running a model
 */
#ifndef KVSHIFT_H
#define KVSHIFT_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#if defined(_WIN32) || !defined(__GNUC__)
#define KVS_API
#else
#define KVS_API __attribute__((visibility("default")))
#endif

#define KVS_VERSION_MAJOR 0
#define KVS_VERSION_MINOR 1
#define KVS_VERSION_PATCH 0

/* ---- status ---------------------------------------------------------------------------------- */

#define KVS_STATUS_LIST(X)                                                                         \
    X(KVS_OK, 0, "done")                                                                           \
    X(KVS_E_INVALID, -1, "invalid argument")                                                       \
    X(KVS_E_NOMEM, -2, "out of memory")                                                            \
    X(KVS_E_IO, -3, "input or output failed")                                                      \
    X(KVS_E_FORMAT, -4, "malformed file")                                                          \
    X(KVS_E_UNSUPPORTED, -5, "not supported here")                                                 \
    X(KVS_E_LIMIT, -6, "limit exceeded")                                                           \
    X(KVS_E_DIVERGED, -7, "training diverged")                                                     \
    X(KVS_E_EXISTS, -8, "already exists")

typedef enum kvs_status {
#define KVS_STATUS_ENUM(name, value, text) name = value,
    KVS_STATUS_LIST(KVS_STATUS_ENUM)
#undef KVS_STATUS_ENUM
} kvs_status;

typedef struct kvs_err {
    kvs_status status;
    /* One line, no full stop: names the thing, what was expected, what was found. */
    char message[512];
} kvs_err;

KVS_API const char *kvs_status_text(kvs_status status);

/** One setting of a configuration.  The library owns it. */
typedef struct kvs_setting {
    const char *name;  /**< "shift-form" */
    const char *type;  /**< "flag", "count", "number", "choice", "counts" or "numbers" (lists:
                            0,2,5) */
    const char *group; /**< a heading: "Model" */
    const char *help;  /**< one line */
    const char *value; /**< the default as text; "" = an empty list */
    const char *automatic;      /**< what the default 0 or "" means, if it is chosen automatically;
                                     NULL otherwise */
    const char *const *choices; /**< the values of a choice, ended by NULL; NULL for other types */
    double low;                 /**< smallest number */
    double high;                /**< largest number; 0 = no limit */
    int open_low;               /**< `low` itself is excluded */
    int open_high;              /**< `high` itself is excluded */
    int changes_result;         /**< training with another value gives another model */
    int may_change;             /**< a resumed run may have another value */
} kvs_setting;

/* ---- what this build is ---------------------------------------------------------------------- */

typedef struct kvs_build_info {
    const char *version;  /* "0.1.0" */
    const char *commit;   /* short hash, or "unknown" outside a checkout */
    const char *compiler; /* "GCC 12.2.0" */
    const char *blas;     /* what computes matrix products: "built in" */
    const char *openmp;   /* "201511", the version date, or "no" */
} kvs_build_info;

KVS_API const kvs_build_info *kvs_build(void);

/* ---- ranks: processes that train together ---------------------------------------------------- */

/* The processes that mpirun, srun or another MPI launcher started together, each of them a rank.  A
 * call marked "collective" must be made by all ranks: if one does not make it, the others wait
 * until their timeout, or until kvs_comm_abort ends them. */
typedef struct kvs_comm kvs_comm;

/* Collective; call once per process.  A process that is alone, or that no launcher started, is rank
 * 0 of 1 and needs no MPI.  Several processes without MPI in this build: KVS_E_UNSUPPORTED. */
KVS_API kvs_status kvs_comm_open(kvs_comm **out, kvs_err *err);
KVS_API void kvs_comm_close(kvs_comm *comm); /* collective */
KVS_API size_t kvs_comm_rank(const kvs_comm *comm);
KVS_API size_t kvs_comm_size(const kvs_comm *comm);
/* The host name of a rank; NULL if there is only one rank. */
KVS_API const char *kvs_comm_host(const kvs_comm *comm, size_t rank);
/* The number of cores that a rank uses. */
KVS_API int kvs_comm_cores(const kvs_comm *comm, size_t rank);
/* Seconds that a rank waits for others before it fails with KVS_E_IO; 0 = no timeout, the default.
 * While rank 0 writes a checkpoint, the others wait. */
KVS_API void kvs_comm_set_timeout(kvs_comm *comm, double seconds);
/* Collective: every rank passes its status and error.  If any rank failed, all ranks return the
 * status and message of the first that did, with its number unless all failed alike. */
KVS_API kvs_status kvs_comm_agree(kvs_comm *comm, kvs_status status, kvs_err *err);
/* Whether all ranks returned the last failure: then it is enough that one rank reports it, and none
 * is left waiting.  Another failure is known to one rank only, which must report it and call
 * kvs_comm_abort. */
KVS_API int kvs_comm_all_know(const kvs_comm *comm);
/* Ends the processes of all ranks; `code` is the exit code of the launcher.  Returns only if there
 * is one rank. */
KVS_API void kvs_comm_abort(kvs_comm *comm, int code);
/* The rank that a launcher gave this process; 0 if there was none.  Does not need MPI. */
KVS_API size_t kvs_comm_launched_rank(void);
/* Whether this installation can run more than one rank. */
KVS_API int kvs_comm_has_mpi(void);

/* ---- runtime: which processor code runs, on how many threads --------------------------------- */

typedef struct kvs_runtime kvs_runtime;

typedef struct kvs_runtime_options {
    int threads; /* 0 = every core this process may use, divided among ranks on the same cores */
    const char *cpu_level; /* NULL or "auto" = the best of this processor; see kvs_cpu_level_name */
    kvs_comm *comm;        /* the ranks that train models of this runtime; borrowed.  NULL = this
                             process alone */
    int spread;            /* the weights of these models are sharded over the ranks, which
                             KVS_SHARD_PARAMETERS needs; such a model can only be trained */
} kvs_runtime_options;

/* `options` may be NULL.  Results have the same bits for every number of threads.
 *
 * Threads are OpenMP's.  With GNU's OpenMP a waiting thread spins for milliseconds by default,
 * which slows everything down if other programs use the same cores.  Only the environment at the
 * start of the program changes that: the command starts itself again with GOMP_SPINCOUNT=1000,
 * unless that or OMP_WAIT_POLICY is set.  Programs that use the library may do the same. */
KVS_API kvs_status kvs_runtime_create(kvs_runtime **out, const kvs_runtime_options *options,
                                      kvs_err *err);
KVS_API void kvs_runtime_free(kvs_runtime *rt);
KVS_API int kvs_runtime_threads(const kvs_runtime *rt);
KVS_API const char *kvs_runtime_cpu_level(const kvs_runtime *rt);

/* Names of the levels in this build, best first (avx512, avx2, baseline, reference); NULL past the
 * end.  *usable is 1 if this processor can run it. */
KVS_API const char *kvs_cpu_level_name(size_t index, int *usable);

/* ---- model configuration --------------------------------------------------------------------- */

enum { KVS_SHIFT_K = 1, KVS_SHIFT_V = 2, KVS_SHIFT_Q = 4 };

/* How the shift mixes x_t with the tokens before it; src/kernels/forms.c implements all forms. */
typedef enum kvs_shift_form {
    KVS_SHIFT_FREE,    /* sum_j a_j x_{t-j}: taps a_j per head, free */
    KVS_SHIFT_GATE,    /* a1 = sigmoid(a), a2 = 1 - a1; window 1 */
    KVS_SHIFT_CLAMP,   /* free, clipped into [0,1] in the forward pass */
    KVS_SHIFT_CHANNEL, /* free, with separate taps for every channel of a head */
    KVS_SHIFT_DATA,    /* a_t x_{t-1} + (1 - a_t) x_t, a_t = sigmoid(w . input of the layer) */
    KVS_SHIFT_HARD,    /* the upper half of the head's channels is x_{t-1}; nothing is learned */
} kvs_shift_form;

typedef enum kvs_shift_init {
    KVS_SHIFT_INIT_UNIFORM,  /* all taps but the oldest ~ U(0,1), the oldest = 1 - their sum */
    KVS_SHIFT_INIT_SOFTMAX,  /* softmax of normally distributed values */
    KVS_SHIFT_INIT_IDENTITY, /* the current token's tap 1, the others 0: ordinary attention */
} kvs_shift_init;

typedef struct kvs_shift_config {
    unsigned targets; /* KVS_SHIFT_K | ..., 0 = ordinary attention */
    kvs_shift_form form;
    kvs_shift_init init;
    size_t window; /* previous tokens used: taps = window + 1 */
} kvs_shift_config;

typedef enum kvs_body {
    KVS_BODY_LLAMA, /* RMSNorm, SwiGLU, no biases */
    KVS_BODY_GPT2,  /* LayerNorm, GELU, biases; smaller init of the projections that end a residual
                       branch */
} kvs_body;

typedef enum kvs_positions {
    KVS_POSITIONS_ROPE,    /* rotary, pairs half a head apart */
    KVS_POSITIONS_ALIBI,   /* scores decrease with distance, by a slope per head */
    KVS_POSITIONS_LEARNED, /* a table added to the embeddings */
    KVS_POSITIONS_NONE,
} kvs_positions;

typedef enum kvs_head {
    KVS_HEAD_LINEAR,
    KVS_HEAD_NORMALISED, /* its rows are scaled to length 1 before use */
    KVS_HEAD_NONE,       /* the final norm's output is the logits, one per channel */
} kvs_head;

enum { KVS_SHIFT_WINDOW_MAX = 3, KVS_SLOPES_MAX = 64, KVS_LISTED_LAYERS_MAX = 64 };

typedef struct kvs_model_config {
    kvs_body body;
    size_t vocab, dim, layers, heads, kv_heads, ffn;
    size_t context; /* longest sequence, in tokens */
    kvs_shift_config shift;

    kvs_positions positions;
    double rope_base;       /* theta of the rotary positions */
    double rotary_fraction; /* fraction of a head's channels, from the first, that rotates */
    size_t slopes; /* ALiBi: number of values in slope: 0 = 2^(-8i/heads), 1 = one for all heads */
    double slope[KVS_SLOPES_MAX];
    double score_scale; /* factor of q . k; 0 = 1/sqrt(head size) */

    size_t sliding_window;   /* token t attends to s > t - window; 0 = to all tokens before it */
    uint64_t sliding_layers; /* bit l = layer l has the window; 0 = every layer */
    size_t sliding_heads, sliding_kv_heads; /* head counts of those layers; 0 = as in the others */

    kvs_head head;
    int tied; /* output head shares the embedding table */
    double dropout_embedding, dropout_attention, dropout_residual;

    int no_residual, no_mlp, no_norm; /* leave parts of the body out */

    double norm_eps;
    double init_std;          /* weights ~ N(0, init_std) */
    int identity_projections; /* q, k, v and o start as identity matrices */
    int unit_embeddings;      /* embedding rows start with length 1 */
} kvs_model_config;

/* Defaults of a body; vocab is 0 and must be set.  kv_heads 0 means as many as heads; ffn 0 means
 * 8/3 dim rounded up to a multiple of 16 (Llama) or 4 dim (GPT-2). */
KVS_API void kvs_model_config_init(kvs_model_config *config);
KVS_API void kvs_model_config_set_body(kvs_model_config *config, kvs_body body);
/* Replaces such zeros by their meaning, then checks every value and every combination. */
KVS_API kvs_status kvs_model_config_finish(kvs_model_config *config, kvs_err *err);

/* Llama models by name: the paper's (paper-1.5b ... paper-19b), kvlm, and desk-1m ... desk-110m. */
KVS_API kvs_status kvs_model_config_preset(kvs_model_config *config, const char *name,
                                           kvs_err *err);
KVS_API const char *kvs_preset_name(size_t index); /* NULL past the end */

/* Names as in commands and files: none, k, v, kv, qkv; free, gate, clamp, channel, data, hard; ...
 * For unknown values the _name calls return NULL and the _parse calls fail. */
KVS_API const char *kvs_shift_targets_name(unsigned targets);
KVS_API const char *kvs_shift_form_name(kvs_shift_form form);
KVS_API const char *kvs_shift_init_name(kvs_shift_init init);
KVS_API const char *kvs_body_name(kvs_body body);
KVS_API const char *kvs_positions_name(kvs_positions positions);
KVS_API const char *kvs_head_name(kvs_head head);
KVS_API kvs_status kvs_shift_targets_parse(unsigned *out, const char *name, kvs_err *err);
KVS_API kvs_status kvs_shift_form_parse(kvs_shift_form *out, const char *name, kvs_err *err);
KVS_API kvs_status kvs_shift_init_parse(kvs_shift_init *out, const char *name, kvs_err *err);
KVS_API kvs_status kvs_body_parse(kvs_body *out, const char *name, kvs_err *err);
KVS_API kvs_status kvs_positions_parse(kvs_positions *out, const char *name, kvs_err *err);
KVS_API kvs_status kvs_head_parse(kvs_head *out, const char *name, kvs_err *err);
/* Targets by name, or a short name for targets and form together: gate and clamp (kv with that
 * form), smear (k with gate).  *form_said is 1 if the name included a form. */
KVS_API kvs_status kvs_shift_parse(kvs_shift_config *out, int *form_said, const char *name,
                                   kvs_err *err);

/* ---- element types --------------------------------------------------------------------------- */

/* Element type of the matrices that a conversion writes, and of a session's KV cache (F32 or
 * F16). */
typedef enum kvs_dtype {
    KVS_DTYPE_KEEP, /* that of the input; F32 for quantized and random weights, and for caches */
    KVS_DTYPE_F32,
    KVS_DTYPE_F16,
    KVS_DTYPE_BF16,
    KVS_DTYPE_Q8_0, /* GGUF only: blocks of 32 with one scale.  A matrix whose rows are not */
    KVS_DTYPE_Q4_0, /* whole blocks is stored as F16, a position table as F32 */
} kvs_dtype;

/* Names as in commands: keep, f32, f16, bf16, q8_0, q4_0. */
KVS_API const char *kvs_dtype_name(kvs_dtype dtype);
KVS_API kvs_status kvs_dtype_parse(kvs_dtype *out, const char *name, kvs_err *err);

/* ---- model ----------------------------------------------------------------------------------- */

typedef struct kvs_model kvs_model;

/* Random weights.  The values of a tensor depend only on the seed and its name, so models that
 * differ in their attention share everything else. */
KVS_API kvs_status kvs_model_create(kvs_model **out, kvs_runtime *rt,
                                    const kvs_model_config *config, uint64_t seed, kvs_err *err);
/* Loads a folder with config.json and model.safetensors (or shards and their index) in the layout
 * of Hugging Face's Llama or GPT-2, ours, or Baichuan-M1's; one such file; a GGUF file; or one of
 * llama2.c's, legacy or version 1.  Tensors may be F32, F16, BF16, Q8_0, Q4_0, Q4_K or Q6_K; in
 * memory they are float32. */
KVS_API kvs_status kvs_model_load(kvs_model **out, kvs_runtime *rt, const char *path, kvs_err *err);
/* The same for inference only: files are mapped and matrices are used in place, in their own type.
 * Opening reads only the headers, and several processes share one copy in memory.  The model
 * computes what the loaded model computes; it cannot be trained, changed or retrofitted
 * (KVS_E_UNSUPPORTED).  The files must not change until kvs_model_free. */
KVS_API kvs_status kvs_model_open(kvs_model **out, kvs_runtime *rt, const char *path, kvs_err *err);
/* A copy of an ordinary model with a shift that changes nothing yet: targets, form and window as
 * given, init identity.  Logits keep their bits. */
KVS_API kvs_status kvs_model_retrofit(kvs_model **out, kvs_runtime *rt, const kvs_model *model,
                                      const kvs_shift_config *shift, kvs_err *err);
/* Writes config.json and model.safetensors; each file is complete or absent.  The folder must
 * exist.  Collective if weights are sharded over ranks; rank 0 writes. */
KVS_API kvs_status kvs_model_save(const kvs_model *model, const char *dir, kvs_err *err);
KVS_API void kvs_model_free(kvs_model *model);

KVS_API const kvs_model_config *kvs_model_get_config(const kvs_model *model);
KVS_API uint64_t kvs_model_parameters(const kvs_model *model);
/* Number of logits after each token: the vocabulary, or dim if the head is none. */
KVS_API size_t kvs_model_logit_count(const kvs_model *model);
/* The tokens that end a text, from the files that the model was read from (config.json,
 * generation_config.json, GGUF).  Returns their number, 0 if the files name none; the model owns
 * *ids. */
KVS_API size_t kvs_model_eos(const kvs_model *model, const int32_t **ids);
/* Replaces them; at most 64.  kvs_model_save() writes them into config.json. */
KVS_API kvs_status kvs_model_set_eos(kvs_model *model, const int32_t *ids, size_t count,
                                     kvs_err *err);

/* One tensor by its name in files, row-major; `count` must be its size. */
KVS_API kvs_status kvs_model_read_tensor(const kvs_model *model, const char *name, float *out,
                                         size_t count, kvs_err *err);
KVS_API kvs_status kvs_model_write_tensor(kvs_model *model, const char *name, const float *in,
                                          size_t count, kvs_err *err);
/* The names in file order; NULL past the end. *count is the tensor's size. */
KVS_API const char *kvs_model_tensor_name(const kvs_model *model, size_t index, size_t *count);

/* Reads only the configuration: from a config.json or its folder, which then needs no weights, or
 * from any file that kvs_model_load accepts. */
KVS_API kvs_status kvs_model_config_load(kvs_model_config *out, const char *path, kvs_err *err);

/* What kind of model is at a path; only headers are read. */
typedef struct kvs_model_info {
    const char *format; /* "safetensors", "GGUF", "llama2.c", ... */
    size_t files;       /* with weights */
    size_t tensors;     /* 0 = there is a configuration, but no weights */
    const char *dtype;  /* "F32", "F16", "BF16": type of most values; NULL without weights */
    int is_mixed;       /* some values have another type */
    uint64_t bytes;     /* of all tensors, as they are stored */
    int has_vocabulary; /* the file also contains a tokenizer, for kvs_tokenizer_load */
} kvs_model_info;

KVS_API kvs_status kvs_model_describe(kvs_model_info *out, const char *path, kvs_err *err);

/* What a check covered. */
typedef struct kvs_model_check_result {
    int has_checksums; /* they match; 0 = there are none to compare with */
    size_t tensors;
    uint64_t numbers; /* values in all tensors */
} kvs_model_check_result;

/* Reads a whole model and checks that files match the checksums in a checkpoint's state.json, that
 * tensors match the configuration, and that every value is finite.  The first error is returned as
 * KVS_E_FORMAT, with the tensor and the index in it. */
KVS_API kvs_status kvs_model_check(kvs_model_check_result *out, const char *path, kvs_err *err);

/* Sizes of a model, computed before anything is allocated. */
typedef struct kvs_model_sizes {
    uint64_t parameters;
    uint64_t embedding_parameters;  /* included: token and position tables, head */
    uint64_t weight_bytes;          /* in memory and in files */
    uint64_t cache_bytes_per_token; /* keys and values of all layers, per sequence; layers with a
                                       sliding window stop growing: see kvs_session_bytes */
    uint64_t shift_state_bytes;     /* per sequence, in addition to the cache: the last raw rows */
    uint64_t training_bytes;        /* weights, gradients and the optimizer's two moments */
} kvs_model_sizes;

/* `config` must have passed kvs_model_config_finish. */
KVS_API kvs_status kvs_model_config_sizes(const kvs_model_config *config, kvs_model_sizes *out,
                                          kvs_err *err);

/* Attention heads of a layer; layers with a sliding window may have other counts. */
KVS_API size_t kvs_model_config_heads(const kvs_model_config *config, size_t layer);
KVS_API size_t kvs_model_config_kv_heads(const kvs_model_config *config, size_t layer);

/* The effective taps of one head (a KV head; for q a query head) for `target` (one of KVS_SHIFT_K,
 * _V, _Q): window + 1 of them, oldest first.  If channels differ, `taps` receives their means and
 * `spread` (may be NULL) their standard deviations.  Form `data` has no taps: KVS_E_UNSUPPORTED. */
KVS_API kvs_status kvs_model_taps(const kvs_model *model, size_t layer, unsigned target,
                                  size_t head, double *taps, double *spread, kvs_err *err);
/* Form `data`: the length of the vector w of a head's gate. */
KVS_API kvs_status kvs_model_gate_length(const kvs_model *model, size_t layer, unsigned target,
                                         size_t head, double *length, kvs_err *err);

/* ---- sessions: running a model, token by token or chunk by chunk ----------------------------- */

typedef struct kvs_session kvs_session;

/* Holds one sequence of at most `capacity` tokens (0 = the model's context). */
KVS_API kvs_status kvs_session_create(kvs_session **out, const kvs_model *model, size_t capacity,
                                      kvs_err *err);

/* The same with more options; all may be 0. */
typedef struct kvs_session_options {
    size_t capacity; /* 0 = the model's context */
    kvs_dtype cache; /* type of keys and values: KVS_DTYPE_F32, or KVS_DTYPE_F16 in half the memory:
                        each value is rounded when it is stored and every token reads it rounded, so
                        results do not depend on how tokens are fed */
    struct kvs_runner *runner; /* shared runner of this model; NULL = the session gets its own */
} kvs_session_options;

KVS_API kvs_status kvs_session_create_with(kvs_session **out, const kvs_model *model,
                                           const kvs_session_options *options, kvs_err *err);
KVS_API void kvs_session_free(kvs_session *session);
KVS_API void kvs_session_reset(kvs_session *session);
KVS_API const kvs_model *kvs_session_get_model(const kvs_session *session);
KVS_API size_t kvs_session_length(const kvs_session *session);
KVS_API size_t kvs_session_capacity(const kvs_session *session);
/* The tokens fed so far, kvs_session_length of them. */
KVS_API const int32_t *kvs_session_ids(const kvs_session *session);
/* Appends tokens; any split into calls gives the same logits.  `logits` (vocab floats, or dim if
 * the head is none; may be NULL) receives the logits after the last token; it is not written if
 * count is 0.  Exceeding the capacity returns KVS_E_LIMIT and changes nothing. */
KVS_API kvs_status kvs_session_feed(kvs_session *session, const int32_t *ids, size_t count,
                                    float *logits, kvs_err *err);
/* The same, with a score after every token:
 * logprobs[i] = log p(targets[i] | everything up to ids[i]) if targets[i] >= 0, otherwise 0;
 * best[i] = the likeliest next token.  `logprobs` (and then `targets`) and `best` may be NULL. */
KVS_API kvs_status kvs_session_feed_scored(kvs_session *session, const int32_t *ids, size_t count,
                                           const int32_t *targets, double *logprobs, int32_t *best,
                                           kvs_err *err);
/* The logits after the last token, at any time; an empty session returns KVS_E_INVALID. */
KVS_API kvs_status kvs_session_logits(kvs_session *session, float *logits, kvs_err *err);

/* An independent copy with a capacity of `capacity` tokens (0 = that of the session). */
KVS_API kvs_status kvs_session_fork(kvs_session **out, const kvs_session *session, size_t capacity,
                                    kvs_err *err);
/* Returns to an earlier length, as if the later tokens had never been fed.  Costs at most as much
 * as feeding 64 tokens in one pass.  A sliding window forgets older rows: it is always possible to
 * rewind to 0, over the last `sliding_window` tokens (at least 64), and to any length from
 * kvs_session_earliest on.  Any other length returns KVS_E_LIMIT and changes nothing. */
KVS_API kvs_status kvs_session_rewind(kvs_session *session, size_t length, kvs_err *err);
KVS_API size_t kvs_session_earliest(const kvs_session *session);

/* Writes a file that restores the session exactly, with a cache of the same type; the file is
 * complete or absent.  Loading fails for a file of another model, and the message names the
 * difference.  `capacity` 0 = that of the saved session. */
KVS_API kvs_status kvs_session_save(const kvs_session *session, const char *path, kvs_err *err);
KVS_API kvs_status kvs_session_load(kvs_session **out, const kvs_model *model, const char *path,
                                    size_t capacity, kvs_err *err);

/* Memory of a session of `capacity` tokens (0 = the context) in bytes, without its runner. */
KVS_API uint64_t kvs_session_bytes(const kvs_model_config *config, size_t capacity);
KVS_API uint64_t kvs_session_bytes_with(const kvs_model_config *config,
                                        const kvs_session_options *options);

/* Many sequences in one pass.  A session has its own runner or shares one.  All sessions that share
 * a runner may be used by only one thread at a time. */
typedef struct kvs_runner kvs_runner;

/* Its passes hold at most `sequences` sequences and `tokens` tokens (0 = 256, or `sequences` if
 * that is more). */
KVS_API kvs_status kvs_runner_create(kvs_runner **out, const kvs_model *model, size_t sequences,
                                     size_t tokens, kvs_err *err);
KVS_API void kvs_runner_free(kvs_runner *runner);
/* Like kvs_session_create and kvs_session_load; the session and its forks borrow the runner. */
KVS_API kvs_status kvs_runner_session(kvs_session **out, kvs_runner *runner, size_t capacity,
                                      kvs_err *err);
KVS_API kvs_status kvs_runner_load(kvs_session **out, kvs_runner *runner, const char *path,
                                   size_t capacity, kvs_err *err);

/* Tokens to feed to one session and outputs to fill, as for kvs_session_feed and _feed_scored.  All
 * fields but the session may be 0. */
typedef struct kvs_feed {
    kvs_session *session; /* of the runner's model; its own runner may be another one */
    const int32_t *ids;
    size_t count;
    float *logits;
    const int32_t *targets;
    double *logprobs;
    int32_t *best;
} kvs_feed;

/* Feeds many different sessions in as few passes as possible.  If one feed is invalid, the message
 * contains its index and no session changes.  Allocates nothing. */
KVS_API kvs_status kvs_runner_feed(kvs_runner *runner, const kvs_feed *feeds, size_t count,
                                   kvs_err *err);

/* The likeliest token; of equal logits, the first. */
KVS_API int32_t kvs_logits_best(const float *logits, size_t count);
/* The logarithm of a token's probability. */
KVS_API double kvs_logits_logprob(const float *logits, size_t count, int32_t id);

/* How the next token is chosen.  First the logits of tokens among the last `repeat_last` (0 = among
 * all) are divided by the repeat penalty if positive and multiplied by it if negative.  Temperature
 * 0 then chooses the best token.  Any other temperature draws a token by its probability at that
 * temperature, among the tokens that pass three filters in turn: the top_k best (0 = all), the best
 * that together reach probability top_p, and those at least min_p times as likely as the best. */
typedef struct kvs_sampling {
    double temperature;
    size_t top_k;
    double top_p, min_p;
    uint64_t seed; /* token number i of a sampler depends only on the seed, i, the logits and, with
                      a repeat penalty, the tokens before it */
    double repeat_penalty; /* 1 or 0 = none */
    size_t repeat_last;
} kvs_sampling;

typedef struct kvs_sampler kvs_sampler;

KVS_API void kvs_sampling_init(kvs_sampling *options);
/* For `count` logits. */
KVS_API kvs_status kvs_sampler_create(kvs_sampler **out, size_t count, const kvs_sampling *options,
                                      kvs_err *err);
KVS_API void kvs_sampler_free(kvs_sampler *sampler);
/* Adds tokens that the sampler did not choose, such as the prompt, for the repeat penalty; the
 * sampler adds its own choices itself.  Ids beyond its logits are allowed. */
KVS_API kvs_status kvs_sampler_accept(kvs_sampler *sampler, const int32_t *ids, size_t count,
                                      kvs_err *err);
KVS_API int32_t kvs_sampler_next(kvs_sampler *sampler, const float *logits);

/* Scores a continuation.  The first context_count ids (at least 1) are the context; logprobs (may
 * be NULL) receives log p of each of the others, given all before it.  The session is reset first.
 * More ids than its capacity + 1 return KVS_E_LIMIT. */
enum { KVS_SCORE_STEP_BY_STEP = 1 }; /* feed one token at a time, as generation does */

typedef struct kvs_score_result {
    double sum; /* of the log-probabilities */
    int greedy; /* every token is the likeliest at its position */
} kvs_score_result;

KVS_API kvs_status kvs_score(kvs_session *session, const int32_t *ids, size_t count,
                             size_t context_count, unsigned flags, double *logprobs,
                             kvs_score_result *out, kvs_err *err);

/* Loss of texts, window by window: each window starts `stride` tokens after the previous one and
 * predicts the tokens that were not predicted before.  Every token but the first of a text is
 * predicted once. */
typedef struct kvs_perplexity_options {
    size_t window, stride;      /* 2 <= window <= context, 1 <= stride <= window */
    const size_t *starts;       /* text t is ids[starts[t]] to ids[starts[t + 1]]; [texts + 1] */
    size_t texts;               /* 0 = all ids are one text, and there are no starts */
    const kvs_model *reference; /* model of the same vocabulary to compare with; NULL = none */
    kvs_dtype cache; /* type of keys and values, as in sessions; the reference uses F32 */
    /* Called after every window; non-zero stops, and the result covers the windows done. */
    int (*progress)(void *user, size_t done, size_t all);
    void *user;
} kvs_perplexity_options;

typedef struct kvs_perplexity_result {
    uint64_t tokens;         /* predicted */
    uint64_t fed;            /* in all windows: the fraction tokens / fed of the positions counts */
    double loss, loss_error; /* mean over tokens, natural logarithm, and its standard error, which
                                is NaN for one token */
    double perplexity;       /* exp(loss) */
    /* With a reference (0 without): its loss on the same tokens; the mean divergence
     * sum_i p_i log(p_i / q_i) of the model's probabilities q from the reference's p, and its
     * standard error; the fraction of positions at which both have the same likeliest
     * token. */
    double reference_loss, divergence, divergence_error, same_best;
} kvs_perplexity_result;

KVS_API kvs_status kvs_perplexity(kvs_perplexity_result *out, const kvs_model *model,
                                  const int32_t *ids, size_t count,
                                  const kvs_perplexity_options *options, kvs_err *err);

/* ---- batches and tasks ----------------------------------------------------------------------- */

/* A ragged batch: sequences laid end to end, without padding.  Sequence s is rows starts[s] to
 * starts[s+1]-1; positions, attention and the shift restart at each start. */
typedef struct kvs_batch {
    size_t sequences;
    const size_t *starts;   /* sequences + 1 row indexes, non-decreasing */
    const int32_t *ids;     /* one per row */
    const int32_t *targets; /* one per row, -1 = no loss here; NULL = no loss anywhere */
    const uint8_t *scored;  /* one per row, 1 = this target counts for accuracy; NULL = none */
} kvs_batch;

typedef struct kvs_tokenizer kvs_tokenizer; /* see below */

typedef enum kvs_loss_rows {
    KVS_LOSS_ANSWER, /* only the task's answer */
    KVS_LOSS_ALL,    /* every next token */
} kvs_loss_rows;

typedef enum kvs_induction_sampler {
    KVS_INDUCTION_DIRECT, /* draws the length, then the tokens: same distribution, no rejection */
    KVS_INDUCTION_PAPER,  /* the paper's generator, step by step */
} kvs_induction_sampler;

/* "... A B ... A -> B": tokens 11 .. vocab-1, none repeated but the last one. */
typedef struct kvs_induction_config {
    size_t vocab, pool, max_length;
    kvs_loss_rows loss;
    kvs_induction_sampler sampler;
} kvs_induction_config;

/* Memorising triples: a fixed table of different pairs (x1, x2), each with a random x3.  The model
 * reads x1 and x2, which are tokens 0 .. alphabet-1; the answer is x3, one of the next `answers`
 * tokens.  Sequence i is pair i mod `pairs`, in training and in evaluation: a batch of `pairs`
 * sequences is the whole table. */
typedef struct kvs_ngram_config {
    size_t alphabet, pairs, answers;
    uint64_t seed; /* of the table */
} kvs_ngram_config;

/* k-hop induction: the first token is the number of hops, each other token is a letter.  The answer
 * of a letter is the letter that many hops away: one hop goes to the position after the last
 * earlier occurrence of the same letter.  Ids: numbers of hops 0 .. hops, then letters, "none" and
 * "blank"; the first token's answer is blank.  All answers have a loss; those that are letters are
 * scored. */
typedef struct kvs_hopk_config {
    size_t letters, length; /* length: letters per sequence */
    size_t hops; /* maximum, at most length - 2; each sequence draws its number from 0 .. hops */
    size_t only; /* all sequences have this number of hops; KVS_HOPS_ALL = they draw it */
    uint64_t sequences; /* size of the training set, repeated; 0 = always new sequences */
} kvs_hopk_config;

#define KVS_HOPS_ALL SIZE_MAX

/* Word problems in arithmetic modulo 23 with step-by-step solutions (iGSM). */
typedef enum kvs_igsm_mode {
    KVS_IGSM_PAPER,    /* the generator that the paper starts from: every parameter is computed */
    KVS_IGSM_OFFICIAL, /* the generator of iGSM's authors: nested objects; only needed parameters
                          are computed */
} kvs_igsm_mode;

typedef enum kvs_igsm_wording {
    KVS_IGSM_FULL,    /* sentences */
    KVS_IGSM_COMPACT, /* only the words that carry meaning, half as long; mode paper only */
} kvs_igsm_wording;

typedef struct kvs_igsm_config {
    kvs_igsm_mode mode;
    kvs_igsm_wording wording;
    /* Number of operations.  In mode paper: parameters, which equal the lines of the solution.  In
     * mode official: arithmetic operations that the solution needs. */
    size_t min_op, max_op;
    size_t items;      /* mode paper: largest number of items per category, at most 10 */
    size_t edges;      /* mode official: largest number of pairs of objects */
    size_t max_length; /* in tokens; longer problems are drawn again */
    int solution_only; /* the loss covers the solution only, not the problem */
    const kvs_tokenizer *tokenizer; /* for the text; NULL = each word is a token */
} kvs_igsm_config;

/* Grade of a solution that a model generated. */
typedef struct kvs_igsm_grade {
    int solved;      /* some step computes the answer with the right value: the paper's criterion */
    int first_right; /* the first such step is right */
    int asked_missing; /* no step computes it */
    int strict; /* every step is right, the order is valid, no step is missing or superfluous */
} kvs_igsm_grade;

typedef struct kvs_task kvs_task;

KVS_API void kvs_induction_config_init(kvs_induction_config *config);
KVS_API kvs_status kvs_induction_create(kvs_task **out, const kvs_induction_config *config,
                                        kvs_err *err);
KVS_API void kvs_ngram_config_init(kvs_ngram_config *config);
KVS_API kvs_status kvs_ngram_create(kvs_task **out, const kvs_ngram_config *config, kvs_err *err);
/* The best accuracy on the table of any guess that sees x2 only; NaN for another task. */
KVS_API double kvs_ngram_ceiling(const kvs_task *task);
KVS_API void kvs_hopk_config_init(kvs_hopk_config *config);
KVS_API kvs_status kvs_hopk_create(kvs_task **out, const kvs_hopk_config *config, kvs_err *err);
KVS_API void kvs_igsm_config_init(kvs_igsm_config *config);
/* The tokenizer is borrowed only during this call. */
KVS_API kvs_status kvs_igsm_create(kvs_task **out, const kvs_igsm_config *config, kvs_err *err);
/* Problem `index` of the evaluation stream, without its solution: writes at most
 * kvs_task_max_length ids and returns their number; 0 if the task is not iGSM. */
KVS_API size_t kvs_igsm_problem(const kvs_task *task, uint64_t seed, uint64_t index, int32_t *ids);
/* The token that ends a solution. */
KVS_API int32_t kvs_igsm_end(const kvs_task *task);
/* Grades the tokens that a model generated after that problem, including the end token if there is
 * one. */
KVS_API kvs_status kvs_igsm_grade_answer(kvs_igsm_grade *out, const kvs_task *task, uint64_t seed,
                                         uint64_t index, const int32_t *ids, size_t count,
                                         kvs_err *err);
KVS_API void kvs_task_free(kvs_task *task);
/* Minimum vocabulary and context of a model for this task.  The context holds the longest sequence
 * that is fed; a final answer that is only predicted is not fed. */
KVS_API size_t kvs_task_vocab(const kvs_task *task);
KVS_API size_t kvs_task_max_length(const kvs_task *task);

/* Sequence `index` of a seed's training or evaluation stream: ids to feed, targets (-1 = none) and
 * whether they are scored; each array has a capacity of kvs_task_max_length.  Returns the
 * length. */
typedef enum kvs_stream { KVS_STREAM_TRAIN, KVS_STREAM_EVAL } kvs_stream;

KVS_API size_t kvs_task_sequence(const kvs_task *task, uint64_t seed, kvs_stream stream,
                                 uint64_t index, int32_t *ids, int32_t *targets, uint8_t *scored);
/* The meaning of an id of the task, as a word or a number. */
KVS_API void kvs_task_word(const kvs_task *task, int32_t id, char *out, size_t size);

/* ---- training -------------------------------------------------------------------------------- */

typedef enum kvs_schedule {
    KVS_SCHEDULE_CONSTANT,
    KVS_SCHEDULE_LINEAR,
    KVS_SCHEDULE_COSINE
} kvs_schedule;

/* What is sharded over the ranks of a run: the stages of ZeRO.  Each includes those before it. */
typedef enum kvs_shard {
    KVS_SHARD_NONE,
    KVS_SHARD_OPTIMIZER,  /* stage 1: the optimizer's moments */
    KVS_SHARD_GRADIENTS,  /* stage 2: gradients, which are sent after every micro-batch */
    KVS_SHARD_PARAMETERS, /* stage 3: weights.  Layers are gathered when they are needed, twice per
                             pass.  Needs a model of a runtime with `spread` */
} kvs_shard;

typedef struct kvs_train_config {
    uint64_t steps, warmup; /* the rate rises linearly over `warmup` steps */
    size_t batch;      /* sequences per step over all ranks; the number of ranks must divide it */
    size_t accumulate; /* micro-batches per batch, for any number of ranks; must divide batch */
    kvs_schedule schedule; /* after the warm-up, from lr to lr * lr_floor at the last step */
    double lr, lr_floor;
    double beta1, beta2, eps, weight_decay;
    double shift_lr;    /* learning rate of the shift's parameters, same schedule; 0 = lr */
    double shift_decay; /* weight decay of the shift's parameters; 0 by default: with the
                           settings of a language model, weight_decay would shrink them to a
                           tenth */
    int decay_all;      /* weight_decay for every tensor: also gains, biases, and the shift unless
                         shift_decay is set */
    int only_shift;     /* train only the shift's parameters */
    int eval_dropout;   /* dropout stays on when evaluating */
    int recompute; /* compute a layer again in the backward pass instead of keeping its activations:
                      less memory, more time, the same bits */
    double clip;   /* largest gradient norm, 0 = no clipping */
    uint64_t seed; /* of the data and of dropout; the weights have a separate seed */
    kvs_shard shard;
    int deterministic; /* the same bits on 1, 2 and 4 ranks: a batch is computed in 4 slices, whose
                          gradients are added as (1 + 2) + (3 + 4); 4 must divide batch */
} kvs_train_config;

/* AdamW (0.9, 0.95) with decay 0.1, as in the paper; a constant rate. */
KVS_API void kvs_train_config_init(kvs_train_config *config);
/* How the model preset of that name is trained: batch, micro-batches that fit one machine, learning
 * rate, schedule, steps. */
KVS_API kvs_status kvs_train_config_preset(kvs_train_config *config, const char *name,
                                           kvs_err *err);
KVS_API kvs_status kvs_train_config_check(const kvs_train_config *config, kvs_err *err);
/* The learning rate of step 1, 2, ... */
KVS_API double kvs_learning_rate(const kvs_train_config *config, uint64_t step);
KVS_API double kvs_shift_learning_rate(const kvs_train_config *config, uint64_t step);
KVS_API const char *kvs_schedule_name(kvs_schedule schedule);
KVS_API kvs_status kvs_schedule_parse(kvs_schedule *out, const char *name, kvs_err *err);
KVS_API const char *kvs_shard_name(kvs_shard shard); /* none, optimizer, gradients, parameters */
KVS_API kvs_status kvs_shard_parse(kvs_shard *out, const char *name, kvs_err *err);

/* The shift of one target, as means over all heads of all layers: the sum of a head's taps (the
 * paper's a1 + a2, or b1 + b2), and the current token's tap. */
typedef struct kvs_shift_mean {
    double sum, current;
} kvs_shift_mean;

typedef struct kvs_step_record {
    uint64_t step;   /* 1 = the first */
    double loss;     /* mean over targets, before the update */
    double accuracy; /* fraction of scored rows whose best guess is right; NaN if none is scored */
    double lr, grad_norm;
    double eval_loss, eval_accuracy; /* NaN except on steps that evaluate */
    /* After the update.  NaN except on step 1, every 50th step and steps that evaluate; NaN if the
     * model has no such taps (form data has none).  Only kvs_train fills them in. */
    kvs_shift_mean k_shift, v_shift, q_shift;
    size_t tokens;  /* fed in this step */
    double seconds; /* it took */
    double sending; /* seconds of these with transfers between ranks in flight, on this rank */
    double waiting; /* seconds of these in which this rank only waited for them */
} kvs_step_record;

/* The scored rows of the sequences of some lengths. */
typedef struct kvs_length_bucket {
    size_t from, to; /* tokens fed, inclusive */
    size_t scored;   /* rows */
    double accuracy; /* NaN if none is scored */
} kvs_length_bucket;

enum { KVS_LENGTH_BUCKETS_MAX = 4 };

typedef struct kvs_evaluation {
    double loss, accuracy; /* as in kvs_step_record */
    size_t buckets;        /* 0 = the task does not distinguish sequences by length */
    kvs_length_bucket bucket[KVS_LENGTH_BUCKETS_MAX];
} kvs_evaluation;

typedef struct kvs_trainer kvs_trainer;

/* The trainer borrows the model, which it changes, and the task. */
KVS_API kvs_status kvs_trainer_create(kvs_trainer **out, kvs_model *model, const kvs_task *task,
                                      const kvs_train_config *config, kvs_err *err);
KVS_API void kvs_trainer_free(kvs_trainer *trainer);
/* One optimizer step on fresh data.  A loss or gradient that is not finite returns KVS_E_DIVERGED;
 * the message names the first such tensor, and the weights do not change. */
KVS_API kvs_status kvs_trainer_step(kvs_trainer *trainer, kvs_step_record *record, kvs_err *err);
/* Loss and accuracy on `sequences` sequences of the evaluation stream (always the same ones; never
 * trained on, unless the task is to memorise).  A loss that is not finite returns
 * KVS_E_DIVERGED. */
KVS_API kvs_status kvs_trainer_evaluate(kvs_trainer *trainer, size_t sequences, kvs_evaluation *out,
                                        kvs_err *err);

/* What training would need, computed from configurations; nothing is allocated.  Without a task,
 * the sequences are text as long as the context. */
typedef struct kvs_plan {
    size_t ranks;
    uint64_t parameters;
    /* per rank: */
    uint64_t weight_bytes, gradient_bytes, moment_bytes;
    uint64_t exchange_bytes; /* buffers of transfers between ranks */
    uint64_t pass_bytes;     /* activations, their gradients, workspace */
    uint64_t total_bytes;
    size_t passes;                       /* per step */
    double gradients_sent, weights_sent; /* bytes per step */
    /* of all ranks: */
    double tokens_per_step;
    double flops_per_token; /* forward and backward, without recomputation */
} kvs_plan;

/* For the ranks of the runtime. */
KVS_API kvs_status kvs_train_plan(kvs_plan *out, const kvs_runtime *rt,
                                  const kvs_model_config *config, const kvs_task *task,
                                  const kvs_train_config *train, kvs_err *err);

/* The machines that a plan is for. */
typedef struct kvs_cluster {
    size_t ranks;
    double flops;        /* per second and rank, as training reaches it, not the peak */
    double link_bytes;   /* per second, sent by each rank */
    double memory_bytes; /* per second and rank, read and written */
} kvs_cluster;

/* The time of a step.  Transfers of gradients can overlap with the backward pass, those of weights
 * with the passes that need them next. */
typedef struct kvs_cluster_plan {
    kvs_plan plan;
    double compute_seconds;  /* passes */
    double update_seconds;   /* summing received gradients, and the optimizer */
    double transfer_seconds; /* all transfers, not overlapped */
    double step_seconds;     /* the sum: nothing overlaps */
    double overlapped_step_seconds;
} kvs_cluster_plan;

KVS_API kvs_status kvs_train_plan_cluster(kvs_cluster_plan *out, const kvs_runtime *rt,
                                          const kvs_model_config *config, const kvs_task *task,
                                          const kvs_train_config *train, const kvs_cluster *cluster,
                                          kvs_err *err);

typedef enum kvs_resume {
    KVS_RESUME_NEVER,  /* start a new run; fails if the folder holds one */
    KVS_RESUME_ALWAYS, /* continue from the newest complete checkpoint; fails if there is none; the
                          folder has no model outside ckpt/ until the run has ended again */
    KVS_RESUME_AUTO,   /* continue if there is a checkpoint, otherwise start a new run */
} kvs_resume;

/* A text that the model generated during training; may be invalid UTF-8. */
typedef struct kvs_sample {
    const char *prompt, *text; /* the text continues the prompt and does not repeat it */
    size_t prompt_size, text_size;
} kvs_sample;

/* What a progress callback may request; flags. */
enum { KVS_PROGRESS_STOP = 1, KVS_PROGRESS_SAVE = 2 };

/* A text file of the caller for the run folder.  On a resumed run it replaces the file that is
 * there, or is appended to it. */
typedef struct kvs_run_file {
    const char *name, *text;
    int append;
} kvs_run_file;

/* A run with its folder: train.jsonl (settings, then one record per step), train.csv and tb/ (the
 * same records as a table and for TensorBoard), samples.jsonl, result.json, config.json,
 * model.safetensors, tokenizer.json, the caller's files, and ckpt/ with checkpoints, from which a
 * run continues with the same bits as if it had never stopped.  The log is locked against a second
 * process.  docs/run-folder.md describes every file. */
typedef struct kvs_train_job {
    kvs_model *model;
    const kvs_task *task;
    kvs_train_config config;
    uint64_t eval_every; /* 0 = only at the end */
    size_t eval_sequences;
    const char *out;           /* folder; NULL = keep nothing */
    const char *command;       /* recorded in the settings; NULL = none */
    const kvs_run_file *files; /* written with the folder, before the first step */
    size_t file_count;
    const kvs_tokenizer *tokenizer; /* saved with the model and every checkpoint; NULL = none */
    uint64_t checkpoint_every;      /* in steps; 0 = only on request.  An evaluation better than all
                                       before also writes a checkpoint */
    size_t keep; /* number of newest checkpoints to keep; 0 = all.  Older ones are deleted once a
                    later step or the last evaluation has shown that the newest did not diverge */
    kvs_resume resume;
    /* Called after every step.  Its result takes effect before the next one: KVS_PROGRESS_STOP ends
     * the run cleanly, with a checkpoint; KVS_PROGRESS_SAVE writes a checkpoint. */
    int (*progress)(void *user, const kvs_step_record *record);
    /* Called after every `sample_every` steps (0 = never) to generate a text with the current
     * model, which it must not change.  The run folder records *out, which is zeroed before the
     * call (no text = nothing to record).  The strings are borrowed until the next call. */
    uint64_t sample_every;
    void (*sample)(void *user, const kvs_model *model, uint64_t step, kvs_sample *out);
    /* Called with one line about something unusual that did not stop the run; may be NULL. */
    void (*notice)(void *user, const char *line);
    void *user;
} kvs_train_job;

typedef struct kvs_train_result {
    uint64_t steps; /* done */
    kvs_evaluation final;
    uint64_t step_at_99; /* first step at which the accuracy of the last 20 batches averages 99 %;
                            0 = never */
    double seconds;
    uint64_t tokens;
} kvs_train_result;

KVS_API kvs_status kvs_train(const kvs_train_job *job, kvs_train_result *result, kvs_err *err);
/* Whether a folder holds a run, so that kvs_train would refuse it unless it resumes: *file is the
 * name of the file that shows it (a static string), NULL if there is none. */
KVS_API kvs_status kvs_run_find(const char **file, const char *dir, kvs_err *err);

/* ---- tokenizers ------------------------------------------------------------------------------ */

/* `path` is "bytes" (256 tokens, one per byte); a file: tokenizer.json, a SentencePiece
 * tokenizer.model, llama2.c's tokenizer.bin or a GGUF file with a vocabulary; or a folder with one
 * of these or with GPT-2's encoder.json and vocab.bpe. */
KVS_API kvs_status kvs_tokenizer_load(kvs_tokenizer **out, const char *path, kvs_err *err);
KVS_API void kvs_tokenizer_free(kvs_tokenizer *tokenizer);
/* Writes a tokenizer.json that other tools can read; the file is complete or absent. */
KVS_API kvs_status kvs_tokenizer_save(const kvs_tokenizer *tokenizer, const char *path,
                                      kvs_err *err);

KVS_API size_t kvs_tokenizer_vocab(const kvs_tokenizer *tokenizer);
/* Hash of everything that determines the ids of a text.  It is the same for the same tokenizer read
 * from another file of the same format.  0 = out of memory. */
KVS_API uint64_t kvs_tokenizer_hash(const kvs_tokenizer *tokenizer);
KVS_API int32_t kvs_tokenizer_bos(const kvs_tokenizer *tokenizer); /* -1 = none */
KVS_API int32_t kvs_tokenizer_eos(const kvs_tokenizer *tokenizer);
/* -1 = no such token */
KVS_API int32_t kvs_tokenizer_find(const kvs_tokenizer *tokenizer, const char *piece);

enum { KVS_ENCODE_NO_SPECIAL = 1 }; /* add no BOS or EOS; special strings are still recognised */

/* Ids of a text, which may contain any bytes.  The caller releases *ids with kvs_ids_free. */
KVS_API kvs_status kvs_tokenizer_encode(const kvs_tokenizer *tokenizer, const char *text,
                                        size_t size, unsigned flags, int32_t **ids, size_t *count,
                                        kvs_err *err);
/* Text of ids, NUL-terminated; *size does not include the NUL.  The caller releases *text with
 * kvs_text_free. */
KVS_API kvs_status kvs_tokenizer_decode(const kvs_tokenizer *tokenizer, const int32_t *ids,
                                        size_t count, char **text, size_t *size, kvs_err *err);
/* Ids of a context and its continuation, split as evaluations do.  White space at the end of the
 * context belongs to the continuation.  Both are encoded together; the continuation's ids are those
 * that remain after as many as the context alone has.  The tokenizer's prefix tokens are added, its
 * suffix tokens are not.  An empty context becomes BOS, or EOS if there is no BOS.  The first
 * *context_count of *ids are the context; if none is left for the continuation, the call returns
 * KVS_E_INVALID. */
KVS_API kvs_status kvs_tokenizer_encode_pair(const kvs_tokenizer *tokenizer, const char *context,
                                             size_t context_size, const char *continuation,
                                             size_t continuation_size, int32_t **ids, size_t *count,
                                             size_t *context_count, kvs_err *err);
KVS_API void kvs_ids_free(int32_t *ids);
KVS_API void kvs_text_free(char *text);

/* Decodes ids that arrive in parts.  The texts of all calls together equal the decoding of all ids
 * at once, cut off before the first stop string.  No call returns part of a character, except if
 * the ids end with one.  Text that may be the start of a stop string is held back until this is
 * known.  The detokenizer owns the returned texts, which are valid until the next call and do not
 * end in NUL. */
typedef struct kvs_detokenizer kvs_detokenizer;

/* The stop strings are copied; none of them may be empty. */
KVS_API kvs_status kvs_detokenizer_create(kvs_detokenizer **out, const kvs_tokenizer *tokenizer,
                                          const char *const *stops, size_t stop_count,
                                          kvs_err *err);
KVS_API void kvs_detokenizer_free(kvs_detokenizer *detokenizer);
/* Ids before the text: they affect how it is decoded, but are not returned or searched. */
KVS_API kvs_status kvs_detokenizer_skip(kvs_detokenizer *detokenizer, const int32_t *ids,
                                        size_t count, kvs_err *err);
KVS_API kvs_status kvs_detokenizer_add(kvs_detokenizer *detokenizer, const int32_t *ids,
                                       size_t count, const char **text, size_t *size, kvs_err *err);
/* Whether a stop string was found; then no more text follows. */
KVS_API int kvs_detokenizer_stopped(const kvs_detokenizer *detokenizer);
/* Returns the text that was held back; only a reset may follow. */
KVS_API kvs_status kvs_detokenizer_finish(kvs_detokenizer *detokenizer, const char **text,
                                          size_t *size, kvs_err *err);
KVS_API void kvs_detokenizer_reset(kvs_detokenizer *detokenizer); /* for another text */

typedef struct kvs_tokenizer_training {
    size_t vocab; /* final number of tokens, including special tokens and the 256 bytes */
    const char *const *special; /* strings of one token each, first in the vocabulary */
    size_t specials;
    const char *field;     /* of each line of .jsonl, the document's text; NULL = "text" */
    const char *separator; /* between documents of a text; NULL = "<|endoftext|>", "" = none */
    int threads;           /* 0 = every core */
    /* Called from time to time with merges done and wanted; non-zero stops with KVS_E_LIMIT. */
    int (*progress)(void *user, size_t done, size_t wanted);
    void *user;
} kvs_tokenizer_training;

/* Trains a byte-level BPE (GPT-2's pre-tokenizer) on the documents of text files, which are read as
 * kvs_corpus_build reads them.  No merge crosses the end of a document.  Among equally frequent
 * pairs, the one with the greater bytes is merged first. */
KVS_API kvs_status kvs_tokenizer_train(kvs_tokenizer **out, const char *const *files, size_t count,
                                       const kvs_tokenizer_training *training, kvs_err *err);

/* ---- formats: models in the files of other programs ------------------------------------------ */

typedef enum kvs_format {
    KVS_FORMAT_AUTO,       /* by file name: .gguf is gguf, .bin is llama2c, anything else is hf */
    KVS_FORMAT_HF,         /* a folder in Hugging Face's layout */
    KVS_FORMAT_GGUF,       /* architecture llama if that computes the same, otherwise kvshift */
    KVS_FORMAT_GGUF_LLAMA, /* architecture llama, or fail */
    KVS_FORMAT_LLAMA2C,    /* plain Llama models only */
    KVS_FORMAT_LLAMA2C_V1,
} kvs_format;

/* Names as in commands: auto, hf, gguf, gguf-llama, llama2c, llama2c-v1. */
KVS_API const char *kvs_format_name(kvs_format format);
KVS_API kvs_status kvs_format_parse(kvs_format *out, const char *name, kvs_err *err);

typedef struct kvs_convert_options {
    const char *in;                 /* as for kvs_model_load; NULL = random weights for `config`, */
    const kvs_model_config *config; /* the same that kvs_model_create draws with the seed */
    uint64_t seed;
    const char *out; /* a file, or for hf a folder, which is created */
    kvs_format format;
    kvs_dtype dtype; /* of matrices; gains, biases and the shift's parameters are always F32 */
    const char *tokenizer; /* as for kvs_tokenizer_load, or "none"; NULL = that of `in`, if any */
    uint64_t shard_bytes;  /* hf: larger weights are split into several files of this size */
    int overwrite; /* replace a file, or a folder that contains only a model; without it they return
                      KVS_E_EXISTS */
    int threads;   /* for drawing random weights; 0 = every core */
    /* Called after each tensor with bytes done and in total; non-zero stops with KVS_E_LIMIT. */
    int (*progress)(void *user, uint64_t done, uint64_t all);
    /* Called with a sentence about each deviation from the request; the library owns the string. */
    void (*remark)(void *user, const char *text);
    void *user;
} kvs_convert_options;

KVS_API void kvs_convert_options_init(kvs_convert_options *options);
/* Writes a model in another format, tensor by tensor, so it need not fit into memory.  The output
 * is complete or absent.  A shifted Llama in format hf includes modeling_kvshift.py, so that
 * `transformers` can run it.  A model that a format cannot express returns KVS_E_UNSUPPORTED.  See
 * docs/formats.md. */
KVS_API kvs_status kvs_convert(const kvs_convert_options *options, kvs_err *err);

/* ---- corpora: text as numbered tokens on disk ------------------------------------------------ */

typedef enum kvs_split { KVS_SPLIT_TRAIN, KVS_SPLIT_VALID } kvs_split;

typedef enum kvs_split_rule {
    KVS_SPLIT_NONE,        /* everything is for training */
    KVS_SPLIT_BY_DOCUMENT, /* by a hash of the seed and the document's number */
    KVS_SPLIT_BY_POSITION, /* one document: its last part is for validation */
} kvs_split_rule;

typedef enum kvs_eos {
    KVS_EOS_AUTO, /* if the tokenizer has one */
    KVS_EOS_NO,
    KVS_EOS_YES,
} kvs_eos;

typedef struct kvs_corpus_progress {
    int counting; /* 1 = first pass over the files, counts documents; 0 = second pass, encodes */
    uint64_t bytes, size;       /* read so far and in total, as stored on disk */
    uint64_t documents, tokens; /* so far */
} kvs_corpus_progress;

typedef struct kvs_corpus_plan {
    const char *const *files; /* text or .jsonl; compressed files end in .zst */
    size_t count;
    const char *tokenizer; /* as for kvs_tokenizer_load */
    const char *field;     /* of each line of .jsonl, the document's text */
    const char *separator; /* between the documents of a text; "" = each file is one document */
    kvs_eos eos;           /* at the end of each document */
    double valid;          /* fraction for validation, 0 <= valid < 1 */
    uint64_t seed;         /* of the split */
    uint64_t shard_tokens; /* the document that reaches this is the last of its shard */
    int overwrite;         /* replace an existing corpus; without it that returns KVS_E_EXISTS */
    /* Called from time to time; non-zero stops with KVS_E_LIMIT and leaves nothing behind. */
    int (*progress)(void *user, const kvs_corpus_progress *progress);
    /* Called with a remark about the texts, such as CRLF line ends; the library owns the string. */
    void (*remark)(void *user, const char *text);
    void *user;
} kvs_corpus_plan;

KVS_API void kvs_corpus_plan_init(kvs_corpus_plan *plan);
/* Reads the files twice, as streams, and writes a folder with the tokens of both splits,
 * corpus.json and the tokenizer.  The folder is complete or absent.  See docs/data.md. */
KVS_API kvs_status kvs_corpus_build(const kvs_corpus_plan *plan, const char *dir, kvs_err *err);

typedef struct kvs_corpus_options {
    size_t vocab;      /* of llm.c and nanoGPT files, which do not contain it; 0 = not given */
    const char *valid; /* a validation file of the same format; NULL = none */
    const kvs_tokenizer *tokenizer; /* must be the one the corpus was made with; NULL = not
                                       compared */
} kvs_corpus_options;

typedef struct kvs_corpus kvs_corpus;

/* Opens a folder of kvs_corpus_build, or one file: a shard of such a folder, llm.c's .bin, or
 * nanoGPT's .bin (bare 16-bit ids).  Files are mapped, not read into memory.  This call checks that
 * all ids are within the vocabulary.  `options` may be NULL. */
KVS_API kvs_status kvs_corpus_open(kvs_corpus **out, const char *path,
                                   const kvs_corpus_options *options, kvs_err *err);
KVS_API void kvs_corpus_free(kvs_corpus *corpus);
/* Turns the last `fraction` of the tokens of a single llm.c or nanoGPT file into the validation
 * split.  The corpus must not have one yet. */
KVS_API kvs_status kvs_corpus_hold_out(kvs_corpus *corpus, double fraction, kvs_err *err);
/* Verifies the checksums, and that the tokenizer next to the shards is the one they were made
 * with. */
KVS_API kvs_status kvs_corpus_check(const kvs_corpus *corpus, kvs_err *err);

typedef struct kvs_split_info {
    uint64_t tokens, documents, longest; /* longest: tokens of the longest document */
    size_t shards;
} kvs_split_info;

typedef struct kvs_corpus_info {
    const char *format;    /* "kvshift", "llm.c" or "nanoGPT" */
    const char *tokenizer; /* "bytes", the path of tokenizer.json, or NULL = not known */
    uint64_t tokenizer_hash;
    size_t vocab, id_bytes;
    int eos; /* documents end with the tokenizer's EOS */
    kvs_split_rule rule;
    double valid;
    uint64_t seed;
    kvs_split_info split[2]; /* KVS_SPLIT_TRAIN, KVS_SPLIT_VALID */
} kvs_corpus_info;

KVS_API const kvs_corpus_info *kvs_corpus_get_info(const kvs_corpus *corpus);
/* The tokenizer that the corpus was made with, checked against its shards; NULL if not known. */
KVS_API kvs_status kvs_corpus_tokenizer(kvs_tokenizer **out, const kvs_corpus *corpus,
                                        kvs_err *err);
/* Copies at most `count` tokens of a split from token `first` on, through all documents in order.
 * Returns the number copied. */
KVS_API size_t kvs_corpus_read(const kvs_corpus *corpus, kvs_split split, uint64_t first,
                               size_t count, int32_t *ids);
/* The text files it was made from, in order; NULL past the end. */
KVS_API const char *kvs_corpus_source(const kvs_corpus *corpus, size_t index, uint64_t *bytes,
                                      uint64_t *checksum);

/* Copies the first tokens of a document, at most `capacity`.  Returns the length of the document;
 * 0 past the last one. */
KVS_API size_t kvs_corpus_document(const kvs_corpus *corpus, kvs_split split, uint64_t index,
                                   int32_t *ids, size_t capacity);

/* Documents are cut into windows of at most `context` fed tokens.  A window never crosses
 * documents; each token but the first of a document is a target once.  The training stream contains
 * the windows of the training split, reshuffled each epoch: sequence i is a function of the seed
 * and i only.  The evaluation stream contains the windows of the validation split in order,
 * repeated.  The task borrows the corpus. */
KVS_API kvs_status kvs_corpus_task(kvs_task **out, const kvs_corpus *corpus, size_t context,
                                   kvs_err *err);
/* Number of windows of a split: the sequences of one epoch. */
KVS_API uint64_t kvs_corpus_windows(const kvs_corpus *corpus, kvs_split split, size_t context);

/* ---- reports --------------------------------------------------------------------------------- */

/* Compares runs, from the folders that kvs_train wrote.  All must have one kind of data, text or a
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

KVS_API kvs_status kvs_report_create(kvs_report **out, const char *const *dirs, size_t count,
                                     kvs_err *err);
KVS_API void kvs_report_free(kvs_report *report); /* NULL does nothing */

/* Summary of a run folder.  A run that has not ended has no final values (NaN). */
typedef struct kvs_run_summary {
    char name[128]; /* the folder's name */
    char shift[96]; /* "none", "kv", "k gate", "kv window 2", ... */
    size_t layers, dim, heads;
    uint64_t parameters, seed, tokens; /* tokens: fed in training */
    uint64_t steps, planned_steps;
    uint64_t step_at_99; /* 0 = never */
    int ended;           /* complete or stopped by a signal: steps may be fewer than planned */
    double final_accuracy, final_loss, seconds;
} kvs_run_summary;

KVS_API const kvs_run_summary *kvs_report_run(const kvs_report *report, size_t index);

/* The validation loss of an arm: mean and standard error over its runs, at the last step at which
 * all of them were evaluated.  If some runs are complete, the others are ignored. */
typedef struct kvs_arm_summary {
    const char *label; /* how it differs from the other arms: "shift kv", "lr 0.002" */
    size_t runs, counted;
    uint64_t parameters;
    uint64_t step; /* 0 = not evaluated yet: loss is NaN */
    double loss;
    double loss_error;      /* NaN for one run */
    double tokens, seconds; /* means */
} kvs_arm_summary;

KVS_API const kvs_arm_summary *kvs_report_arm(const kvs_report *report, size_t index);

/* Loss of an arm minus loss of the baseline (the first arm without a shift, or else the first arm),
 * for each seed that both have; negative if the arm is better than the baseline. */
typedef struct kvs_arm_difference {
    size_t arm, baseline; /* indexes */
    uint64_t step;
    double mean, error; /* error: the standard error over seeds; NaN for one seed */
    size_t seeds;
    const uint64_t *seed;
    const double *difference; /* one per seed */
} kvs_arm_difference;

KVS_API const kvs_arm_difference *kvs_report_difference(const kvs_report *report, size_t index);

/* A sentence about something incomplete or not comparable. */
KVS_API const char *kvs_report_remark(const kvs_report *report, size_t index);

/* Tables and remarks as plain text (UTF-8) for a terminal. */
KVS_API const char *kvs_report_text(const kvs_report *report);

typedef struct kvs_report_options {
    const char *title;
    const char *html; /* a page with curves, tables and commands; needs gnuplot; NULL = none */
    const char *json; /* all values; NULL = none */
    const char *svg;  /* the curves alone; needs gnuplot; NULL = none */
} kvs_report_options;

KVS_API kvs_status kvs_report_write(const kvs_report *report, const kvs_report_options *options,
                                    kvs_err *err);

#ifdef __cplusplus
}
#endif
#endif
