/** @file kvshift.h
 * Language models with KV shifting attention: the stable API.
 *
 * Each key and value is mixed with the ones of the tokens before it, by a few learned coefficients
 * per head, before rotary positions are applied:
 *
 *     K^_t = a1 * K_t + a2 * K_{t-1}          V^_t = b1 * V_t + b2 * V_{t-1}
 *
 * The header goes from simple to advanced:
 *   status, version     what calls return, what this build is
 *   runtime             processor code and threads
 *   tokenizers          text into ids and back
 *   configuration       settings of models and of training, by name
 *   models              weights and files
 *   sessions            running a model
 *   sampling            choosing tokens, generating text
 *   data                the caller's arrays, batches and callbacks
 *   training            steps, gradients, checkpoints
 *
 * kvshift_files.h has tokenizer training, conversion, corpora and run folders; kvshift_mpi.h has
 * ranks, the processes that train one model.  kvshift_lab.h has tasks, benchmarks, reports and
 * experiments; its calls may change with every version.
 *
 * Rules that hold for every call:
 *   - Calls that can fail return a ::kvs_status (0 = done) and describe a failure in `err`, which
 *     the caller owns and which may be NULL.  On failure a call hands out nothing, sets *out to
 *     NULL and leaves nothing half-made behind.  The library never prints, and no input makes it
 *     exit or abort.  A pointer that must not be NULL gives ::KVS_E_INVALID; calls without a status
 *     then return 0, NULL or NaN.
 *   - Out parameters come first, `err` last.
 *   - X_create, X_load and X_copy hand out a handle that X_free takes back; X_open hands out one
 *     for X_close.  Both do nothing for NULL.  A handle made from another one (a session from a
 *     model) borrows it: free it first.
 *   - A struct that the caller passes starts with `size`.  X_init(&x, sizeof x) sets it, and the
 *     defaults of all other fields, so a program keeps working when a later version adds fields.
 *     NULL for options means the defaults.  Structs that the library hands out may grow at the end.
 *   - A handle may be used by one thread at a time, different handles at once.  Tokenizers,
 *     configurations, corpora and models that nobody changes may be used by several threads.
 */
#ifndef KVSHIFT_H
#define KVSHIFT_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/** Marks the functions that the shared library exports. */
#if defined(_WIN32) || !defined(__GNUC__)
#define KVS_API
#else
#define KVS_API __attribute__((visibility("default")))
#endif

#define KVS_VERSION_MAJOR 0 /**< Raised when programs must be changed. */
#define KVS_VERSION_MINOR 1 /**< Raised when calls are added. */
#define KVS_VERSION_PATCH 0 /**< Raised by fixes. */

/* ---- status ---------------------------------------------------------------------------------- */

/** What a call returns. */
typedef enum kvs_status {
    KVS_OK = 0,             /**< done */
    KVS_E_INVALID = -1,     /**< invalid argument */
    KVS_E_NOMEM = -2,       /**< out of memory */
    KVS_E_IO = -3,          /**< input or output failed */
    KVS_E_FORMAT = -4,      /**< malformed file */
    KVS_E_UNSUPPORTED = -5, /**< not supported here */
    KVS_E_LIMIT = -6,       /**< a capacity or a limit is exceeded */
    KVS_E_DIVERGED = -7,    /**< training diverged */
    KVS_E_EXISTS = -8,      /**< already exists */
    KVS_E_STOPPED = -9      /**< a callback of the caller asked to stop */
} kvs_status;

/** The status of a failed call with a message of one line, without a full stop: it names the thing,
 * what was expected and what was found.  Not written by calls that succeed. */
typedef struct kvs_err {
    kvs_status status; /**< what the call returned */
    char message[512]; /**< for people */
} kvs_err;

/** A short text: "out of memory". */
KVS_API const char *kvs_status_text(kvs_status status);

/** What this build is. */
typedef struct kvs_build_info {
    const char *version;  /**< "0.1.0" */
    const char *commit;   /**< short hash, or "unknown" outside a checkout */
    const char *compiler; /**< "GCC 12.2.0" */
    const char *openmp;   /**< "201511", the version date, or "no" */
} kvs_build_info;

/** Version and build of the library that is running; never NULL. */
KVS_API const kvs_build_info *kvs_build(void);

/* ---- runtime --------------------------------------------------------------------------------- */

typedef struct kvs_comm kvs_comm;       /**< processes that train together, see kvshift_mpi.h */
typedef struct kvs_runtime kvs_runtime; /**< processor code and threads */

/** Options of kvs_runtime_create(). */
typedef struct kvs_runtime_options {
    size_t size;           /**< set by kvs_runtime_options_init() */
    const char *cpu_level; /**< NULL or "auto" = the best of this processor, see
                                kvs_cpu_level_name() */
    int threads; /**< 0 = every core this process may use, divided among ranks on the same cores */
    int shard_parameters; /**< the weights of models of this runtime are sharded over the ranks, as
                               the setting "shard" = "parameters" needs; such models can only be
                               trained */
    kvs_comm *comm;       /**< the ranks that train models of this runtime, borrowed; NULL = this
                               process alone */
} kvs_runtime_options;

/** Sets the defaults; `size` is sizeof *options. */
KVS_API void kvs_runtime_options_init(kvs_runtime_options *options, size_t size);
/** Results have the same bits for every number of threads.
 *
 * Threads are OpenMP's.  With GNU's OpenMP a waiting thread spins for milliseconds by default,
 * which slows everything down if other programs use the same cores.  Only the environment at the
 * start of the program changes that: the command starts itself again with GOMP_SPINCOUNT=1000,
 * unless that or OMP_WAIT_POLICY is set.  Programs that use the library may do the same. */
KVS_API kvs_status kvs_runtime_create(kvs_runtime **out, const kvs_runtime_options *options,
                                      kvs_err *err);
/** Models of the runtime must have been freed. */
KVS_API void kvs_runtime_free(kvs_runtime *rt);
/** The number of threads. */
KVS_API int kvs_runtime_threads(const kvs_runtime *rt);
/** The level that runs: "avx2". */
KVS_API const char *kvs_runtime_cpu_level(const kvs_runtime *rt);
/** Names of the levels in this build, best first; NULL past the end.  *usable (may be NULL) is 1 if
 * this processor can run it. */
KVS_API const char *kvs_cpu_level_name(size_t index, int *usable);

/* ---- tokenizers ------------------------------------------------------------------------------ */

/** Text into ids and back.  Several threads may use one tokenizer at once. */
typedef struct kvs_tokenizer kvs_tokenizer;

/** `path` is "bytes" (256 tokens, one per byte); a file: tokenizer.json, a SentencePiece
 * tokenizer.model, llama2.c's tokenizer.bin or a GGUF file with a vocabulary; or a folder with one
 * of these or with GPT-2's encoder.json and vocab.bpe. */
KVS_API kvs_status kvs_tokenizer_load(kvs_tokenizer **out, const char *path, kvs_err *err);
/** Releases a tokenizer. */
KVS_API void kvs_tokenizer_free(kvs_tokenizer *tokenizer);
/** Writes a tokenizer.json that other tools can read; the file is complete or absent. */
KVS_API kvs_status kvs_tokenizer_save(const kvs_tokenizer *tokenizer, const char *path,
                                      kvs_err *err);
/** The number of tokens. */
KVS_API size_t kvs_tokenizer_vocab(const kvs_tokenizer *tokenizer);
/** Hash of everything that determines the ids of a text; the same for the same tokenizer read from
 * another file of the same format.  0 = out of memory. */
KVS_API uint64_t kvs_tokenizer_hash(const kvs_tokenizer *tokenizer);
/** The id that begins a text; -1 = none. */
KVS_API int32_t kvs_tokenizer_bos(const kvs_tokenizer *tokenizer);
/** The id that ends a text; -1 = none. */
KVS_API int32_t kvs_tokenizer_eos(const kvs_tokenizer *tokenizer);
/** The id of a piece; -1 = no such token. */
KVS_API int32_t kvs_tokenizer_find(const kvs_tokenizer *tokenizer, const char *piece);

/** Flags of kvs_tokenizer_encode(). */
enum {
    KVS_ENCODE_NO_SPECIAL = 1 /**< add no BOS or EOS; special strings are still recognised */
};

/** Ids of a text, which may contain any bytes.  The caller releases *ids with kvs_ids_free(). */
KVS_API kvs_status kvs_tokenizer_encode(int32_t **ids, size_t *count,
                                        const kvs_tokenizer *tokenizer, const char *text,
                                        size_t size, unsigned flags, kvs_err *err);
/** Text of ids, NUL-terminated; *size does not include the NUL.  The caller releases *text with
 * kvs_text_free(). */
KVS_API kvs_status kvs_tokenizer_decode(char **text, size_t *size, const kvs_tokenizer *tokenizer,
                                        const int32_t *ids, size_t count, kvs_err *err);
/** Ids of a context and its continuation, split as evaluations do.  White space at the end of the
 * context belongs to the continuation.  Both are encoded together; the continuation's ids are those
 * that remain after as many as the context alone has.  The tokenizer's prefix tokens are added, its
 * suffix tokens are not.  An empty context becomes BOS, or EOS if there is no BOS.  The first
 * *context_count of *ids are the context; if none is left for the continuation, the call returns
 * ::KVS_E_INVALID. */
KVS_API kvs_status kvs_tokenizer_encode_pair(int32_t **ids, size_t *count, size_t *context_count,
                                             const kvs_tokenizer *tokenizer, const char *context,
                                             size_t context_size, const char *continuation,
                                             size_t continuation_size, kvs_err *err);
/** Releases what kvs_tokenizer_encode() handed out. */
KVS_API void kvs_ids_free(int32_t *ids);
/** Releases what kvs_tokenizer_decode() handed out. */
KVS_API void kvs_text_free(char *text);

/** Decodes ids that arrive in parts.  The texts of all calls together equal the decoding of all ids
 * at once, cut off before the first stop string.  No call returns part of a character, except if
 * the ids end with one.  Text that may be the start of a stop string is held back until this is
 * known.  The detokenizer owns the returned texts, which are valid until the next call and do not
 * end in NUL. */
typedef struct kvs_detokenizer kvs_detokenizer;

/** The stop strings are copied; none of them may be empty. */
KVS_API kvs_status kvs_detokenizer_create(kvs_detokenizer **out, const kvs_tokenizer *tokenizer,
                                          const char *const *stops, size_t stop_count,
                                          kvs_err *err);
/** Releases a detokenizer. */
KVS_API void kvs_detokenizer_free(kvs_detokenizer *detokenizer);
/** Ids before the text: they affect how it is decoded, but are not returned or searched. */
KVS_API kvs_status kvs_detokenizer_skip(kvs_detokenizer *detokenizer, const int32_t *ids,
                                        size_t count, kvs_err *err);
/** Adds ids and returns the text that is certain now. */
KVS_API kvs_status kvs_detokenizer_add(const char **text, size_t *size,
                                       kvs_detokenizer *detokenizer, const int32_t *ids,
                                       size_t count, kvs_err *err);
/** Whether a stop string was found; then no more text follows. */
KVS_API int kvs_detokenizer_stopped(const kvs_detokenizer *detokenizer);
/** Returns the text that was held back; only a reset may follow. */
KVS_API kvs_status kvs_detokenizer_finish(const char **text, size_t *size,
                                          kvs_detokenizer *detokenizer, kvs_err *err);
/** Prepares for another text. */
KVS_API void kvs_detokenizer_reset(kvs_detokenizer *detokenizer);

/* ---- configuration --------------------------------------------------------------------------- */

/** One setting of a configuration.  The library owns it. */
typedef struct kvs_setting {
    const char *name;      /**< "shift-form" */
    const char *type;      /**< "flag", "count", "number", "choice", "counts" and "numbers" (lists:
                            0,2,5), or "optional" (a count or nothing) */
    const char *group;     /**< a heading: "Model" */
    const char *help;      /**< one line */
    const char *value;     /**< the default as text; "" = an empty list */
    const char *automatic; /**< what the default 0 or "" means, if it is chosen automatically;
                                     NULL otherwise */
    const char *const *choices; /**< the values of a choice, ended by NULL; NULL for other types */
    double low;                 /**< smallest number */
    double high;                /**< largest number; 0 = no limit */
    int open_low;               /**< `low` itself is excluded */
    int open_high;              /**< `high` itself is excluded */
    int changes_result;         /**< training with another value gives another model */
    int may_change;             /**< a resumed run may have another value */
} kvs_setting;

/** Settings of a model by index; NULL past the end. */
KVS_API const kvs_setting *kvs_model_setting(size_t index);
/** Settings of training by index; NULL past the end. */
KVS_API const kvs_setting *kvs_train_setting(size_t index);
/** Names of presets, of models and of how they are trained; NULL past the end. */
KVS_API const char *kvs_preset_name(size_t index);

/** The configuration of a model.
 *
 *     kvs_model_config_create(&config, NULL, &err);
 *     kvs_model_config_set(config, "shift", "kv", &err);
 *     kvs_model_config_set_number(config, "dim", 64, &err);
 */
typedef struct kvs_model_config kvs_model_config;

/** The defaults, where "vocab" is 0 and must be set, or a preset: the paper's (paper-1.5b ...
 * paper-19b), kvlm, and desk-1m ... desk-110m.  `preset` may be NULL. */
KVS_API kvs_status kvs_model_config_create(kvs_model_config **out, const char *preset,
                                           kvs_err *err);
/** Reads a config.json or its folder, which then needs no weights, or any file that
 * kvs_model_load() accepts. */
KVS_API kvs_status kvs_model_config_load(kvs_model_config **out, const char *path, kvs_err *err);
/** An independent copy. */
KVS_API kvs_status kvs_model_config_copy(kvs_model_config **out, const kvs_model_config *config,
                                         kvs_err *err);
/** Releases a configuration that one of these calls handed out. */
KVS_API void kvs_model_config_free(kvs_model_config *config);
/** Sets one setting from text: "128", "2e-3", "yes", "gate", "0,2,5".  "body" also sets the
 * defaults of that body, so set it first.  "shift" also takes gate and clamp (kv with that form)
 * and smear (k with form gate). */
KVS_API kvs_status kvs_model_config_set(kvs_model_config *config, const char *name,
                                        const char *value, kvs_err *err);
/** The same for a flag, a count or a number. */
KVS_API kvs_status kvs_model_config_set_number(kvs_model_config *config, const char *name,
                                               double value, kvs_err *err);
/** Writes the value as text that kvs_model_config_set() takes, with a NUL; ::KVS_E_LIMIT if it does
 * not fit into `size` bytes. */
KVS_API kvs_status kvs_model_config_get(char *out, size_t size, const kvs_model_config *config,
                                        const char *name, kvs_err *err);
/** The value of a flag, a count or a number; NaN for another setting or an unknown name. */
KVS_API double kvs_model_config_number(const kvs_model_config *config, const char *name);
/** Replaces automatic values ("kv-heads" 0, "ffn" 0 ...) by what they mean, then checks every value
 * and every combination. */
KVS_API kvs_status kvs_model_config_finish(kvs_model_config *config, kvs_err *err);

/** The configuration of training: the optimizer, batches, evaluations and checkpoints. */
typedef struct kvs_train_config kvs_train_config;

/** The defaults (AdamW with betas 0.9 and 0.95, decay 0.1, a constant rate), or how the model
 * preset of that name is trained.  `preset` may be NULL. */
KVS_API kvs_status kvs_train_config_create(kvs_train_config **out, const char *preset,
                                           kvs_err *err);
/** An independent copy. */
KVS_API kvs_status kvs_train_config_copy(kvs_train_config **out, const kvs_train_config *config,
                                         kvs_err *err);
/** Releases a configuration. */
KVS_API void kvs_train_config_free(kvs_train_config *config);
/** Sets one setting from text, like kvs_model_config_set(). */
KVS_API kvs_status kvs_train_config_set(kvs_train_config *config, const char *name,
                                        const char *value, kvs_err *err);
/** Sets a flag, a count or a number. */
KVS_API kvs_status kvs_train_config_set_number(kvs_train_config *config, const char *name,
                                               double value, kvs_err *err);
/** Writes the value as text, like kvs_model_config_get(). */
KVS_API kvs_status kvs_train_config_get(char *out, size_t size, const kvs_train_config *config,
                                        const char *name, kvs_err *err);
/** The value of a flag, a count or a number; NaN for another setting or an unknown name. */
KVS_API double kvs_train_config_number(const kvs_train_config *config, const char *name);
/** Checks every value and every combination. */
KVS_API kvs_status kvs_train_config_check(const kvs_train_config *config, kvs_err *err);
/** The learning rate of step 1, 2, ... */
KVS_API double kvs_learning_rate(const kvs_train_config *config, uint64_t step);

/* ---- models ---------------------------------------------------------------------------------- */

/** Element types of files and of KV caches. */
typedef enum kvs_dtype {
    KVS_DTYPE_KEEP, /**< that of the input; F32 for quantized and random weights, and for caches */
    KVS_DTYPE_F32,  /**< 32-bit floats */
    KVS_DTYPE_F16,  /**< 16-bit floats */
    KVS_DTYPE_BF16, /**< bfloat16 */
    KVS_DTYPE_Q8_0, /**< GGUF only: 8 bits, blocks of 32 with one scale.  A matrix whose rows are
                         not whole blocks is stored as F16, a position table as F32 */
    KVS_DTYPE_Q4_0  /**< the same with 4 bits */
} kvs_dtype;

/** keep, f32, f16, bf16, q8_0, q4_0; NULL for another value. */
KVS_API const char *kvs_dtype_name(kvs_dtype dtype);
/** The type of that name. */
KVS_API kvs_status kvs_dtype_parse(kvs_dtype *out, const char *name, kvs_err *err);

typedef struct kvs_model kvs_model; /**< weights and their configuration */

/** Random weights.  The values of a tensor depend only on the seed and its name, so models that
 * differ in their attention share everything else. */
KVS_API kvs_status kvs_model_create(kvs_model **out, kvs_runtime *rt,
                                    const kvs_model_config *config, uint64_t seed, kvs_err *err);

/** Options of kvs_model_load(). */
typedef struct kvs_load_options {
    size_t size; /**< set by kvs_load_options_init() */
    int mapped;  /**< for inference only: files are mapped and matrices are used in place, in their
                      own type.  Only headers are read, and several processes share one copy in
                      memory.  The model computes what the loaded one computes; it cannot be
                      trained, changed or retrofitted (::KVS_E_UNSUPPORTED).  The files must not
                      change until kvs_model_free() */
} kvs_load_options;

/** Sets the defaults; `size` is sizeof *options. */
KVS_API void kvs_load_options_init(kvs_load_options *options, size_t size);
/** Loads a folder with config.json and model.safetensors (or shards and their index) in the layout
 * of Hugging Face's Llama or GPT-2, ours, or Baichuan-M1's; one such file; a GGUF file; or one of
 * llama2.c's, legacy or version 1.  Tensors may be F32, F16, BF16, Q8_0, Q4_0, Q4_K or Q6_K; in
 * memory they are float32 unless mapped. */
KVS_API kvs_status kvs_model_load(kvs_model **out, kvs_runtime *rt, const char *path,
                                  const kvs_load_options *options, kvs_err *err);
/** A copy of a model without a shift, with the settings shift, shift-form and shift-window of
 * `config` and init identity: it changes nothing yet, logits keep their bits. */
KVS_API kvs_status kvs_model_retrofit(kvs_model **out, kvs_runtime *rt, const kvs_model *model,
                                      const kvs_model_config *config, kvs_err *err);
/** Writes config.json and model.safetensors; each file is complete or absent.  The folder must
 * exist.  Collective if weights are sharded over ranks; rank 0 writes. */
KVS_API kvs_status kvs_model_save(const kvs_model *model, const char *dir, kvs_err *err);
/** Releases a model.  Its sessions and trainers must have been freed. */
KVS_API void kvs_model_free(kvs_model *model);
/** The configuration, complete and checked; the model owns it. */
KVS_API const kvs_model_config *kvs_model_get_config(const kvs_model *model);
/** The number of learned values. */
KVS_API uint64_t kvs_model_parameters(const kvs_model *model);
/** Number of logits after each token: the vocabulary, or dim if "head" is none. */
KVS_API size_t kvs_model_logit_count(const kvs_model *model);
/** The tokens that end a text, from the files that the model was read from (config.json,
 * generation_config.json, GGUF).  Returns their number, 0 if the files name none; the model owns
 * *ids. */
KVS_API size_t kvs_model_eos(const kvs_model *model, const int32_t **ids);
/** Replaces them; at most 64.  kvs_model_save() writes them into config.json. */
KVS_API kvs_status kvs_model_set_eos(kvs_model *model, const int32_t *ids, size_t count,
                                     kvs_err *err);
/** Names of the tensors in file order; NULL past the end.  *count (may be NULL) is the tensor's
 * size. */
KVS_API const char *kvs_model_tensor_name(const kvs_model *model, size_t index, size_t *count);
/** Copies one tensor, row-major; `count` must be its size. */
KVS_API kvs_status kvs_model_read_tensor(float *out, size_t count, const kvs_model *model,
                                         const char *name, kvs_err *err);
/** Replaces one tensor; `count` must be its size. */
KVS_API kvs_status kvs_model_write_tensor(kvs_model *model, const char *name, const float *values,
                                          size_t count, kvs_err *err);

/** What is mixed with the previous tokens; flags. */
enum {
    KVS_SHIFT_K = 1, /**< keys */
    KVS_SHIFT_V = 2, /**< values */
    KVS_SHIFT_Q = 4  /**< queries */
};

/** The effective taps of one head (a KV head; for ::KVS_SHIFT_Q a query head): `shift-window` + 1
 * of them, oldest first.  If channels differ, `taps` receives their means and `deviations` (may be
 * NULL) their standard deviations.  Form data has no taps: ::KVS_E_UNSUPPORTED. */
KVS_API kvs_status kvs_model_taps(double *taps, double *deviations, const kvs_model *model,
                                  size_t layer, unsigned target, size_t head, kvs_err *err);

/** One activation of a model for one sequence. */
typedef struct kvs_activation {
    const char *name;    /**< "blocks.0.attn.hook_pattern" */
    const float *values; /**< row-major, borrowed until the callback returns */
    size_t rank;         /**< number of dimensions, at most 4 */
    size_t shape[4];     /**< their sizes; the first is that of tokens, or of heads for scores
                              and patterns */
} kvs_activation;

/** The names of a model's activations, as TransformerLens has them; NULL past the end of the list,
 * which docs/api.md describes.  "*" stands for the layer. */
KVS_API const char *kvs_activation_name(size_t index);
/** Runs the model on one sequence and calls `visit` with each activation that is in `names` (NULL =
 * all), in the order in which they are computed.  "*" in place of a layer's number stands for every
 * layer.  Activations that the model does not have are not visited; an unknown name returns
 * ::KVS_E_INVALID, more ids than the context ::KVS_E_LIMIT.  Only what is named is computed.  If
 * `visit` returns non-zero, the call ends with ::KVS_E_STOPPED. */
KVS_API kvs_status kvs_model_trace(const kvs_model *model, const int32_t *ids, size_t count,
                                   const char *const *names, size_t name_count,
                                   int (*visit)(void *user, const kvs_activation *activation),
                                   void *user, kvs_err *err);

/* ---- sessions -------------------------------------------------------------------------------- */

typedef struct kvs_session kvs_session; /**< one sequence with its state */
typedef struct kvs_runner kvs_runner;   /**< runs many sessions in one pass */

/** Options of a session. */
typedef struct kvs_session_options {
    size_t size;     /**< set by kvs_session_options_init() */
    size_t capacity; /**< most tokens; 0 = the model's context, or that of the copied or loaded
                             session */
    kvs_dtype cache; /**< type of keys and values: ::KVS_DTYPE_F32, or ::KVS_DTYPE_F16 in half the
                             memory.  Each value is rounded when it is stored and every token reads
                             it rounded, so results do not depend on how tokens are fed.  A copied
                             or loaded session keeps its type; asking for another one returns
                             ::KVS_E_UNSUPPORTED */
    kvs_runner *runner; /**< shared runner of this model, borrowed; NULL = the session gets its own
                             (a copy uses the shared runner of the session, if it has one) */
} kvs_session_options;

/** Sets the defaults; `size` is sizeof *options. */
KVS_API void kvs_session_options_init(kvs_session_options *options, size_t size);
/** An empty session. */
KVS_API kvs_status kvs_session_create(kvs_session **out, const kvs_model *model,
                                      const kvs_session_options *options, kvs_err *err);
/** An independent copy of the first `length` tokens (SIZE_MAX = all), as if only they had been fed.
 * The limits of kvs_session_rewind() hold. */
KVS_API kvs_status kvs_session_copy(kvs_session **out, const kvs_session *session, size_t length,
                                    const kvs_session_options *options, kvs_err *err);
/** Reads a session that kvs_session_save() wrote.  Fails for a file of another model; the message
 * names the difference. */
KVS_API kvs_status kvs_session_load(kvs_session **out, const kvs_model *model, const char *path,
                                    const kvs_session_options *options, kvs_err *err);
/** Writes a file that restores the session exactly; the file is complete or absent.  A session with
 * taps of its own returns ::KVS_E_UNSUPPORTED. */
KVS_API kvs_status kvs_session_save(const kvs_session *session, const char *path, kvs_err *err);
/** Releases a session. */
KVS_API void kvs_session_free(kvs_session *session);
/** Back to an empty session; it keeps its taps. */
KVS_API void kvs_session_reset(kvs_session *session);
/** The model it runs. */
KVS_API const kvs_model *kvs_session_get_model(const kvs_session *session);
/** The number of tokens fed so far. */
KVS_API size_t kvs_session_length(const kvs_session *session);
/** Most tokens. */
KVS_API size_t kvs_session_capacity(const kvs_session *session);
/** The tokens fed so far. */
KVS_API const int32_t *kvs_session_ids(const kvs_session *session);
/** Memory in bytes of such a session of a model of that configuration, without its runner. */
KVS_API uint64_t kvs_session_bytes(const kvs_model_config *config,
                                   const kvs_session_options *options);
/** Appends tokens; any split into calls gives the same logits.  `logits` (kvs_model_logit_count()
 * floats; may be NULL) receives the logits after the last token; it is not written if count is 0.
 * Exceeding the capacity returns ::KVS_E_LIMIT and changes nothing. */
KVS_API kvs_status kvs_session_feed(kvs_session *session, const int32_t *ids, size_t count,
                                    float *logits, kvs_err *err);
/** The logits after the last token, at any time; an empty session returns ::KVS_E_INVALID. */
KVS_API kvs_status kvs_session_logits(float *logits, kvs_session *session, kvs_err *err);
/** Returns to an earlier length, as if the later tokens had never been fed.  Costs at most as much
 * as feeding 64 tokens in one pass.  A sliding window forgets older rows: it is always possible to
 * rewind to 0, over the last `sliding-window` tokens (at least 64), and to any length from
 * kvs_session_earliest() on.  Any other length returns ::KVS_E_LIMIT, and one beyond
 * the session's ::KVS_E_INVALID; neither changes anything. */
KVS_API kvs_status kvs_session_rewind(kvs_session *session, size_t length, kvs_err *err);
/** The smallest length above 0 from which on every length can be rewound to; 0 always can. */
KVS_API size_t kvs_session_earliest(const kvs_session *session);
/** Replaces the taps of one head in this session, which must be empty: `shift-window` + 1 taps as
 * kvs_model_taps() gives them, for all channels of the head; NULL = those of the model again.  They
 * need not be possible for the model's form.  Form data has no taps: ::KVS_E_UNSUPPORTED.  Copies
 * of the session have the same taps.  Sessions with different taps never share a pass. */
KVS_API kvs_status kvs_session_set_taps(kvs_session *session, size_t layer, unsigned target,
                                        size_t head, const double *taps, kvs_err *err);

/** Options of kvs_runner_create(). */
typedef struct kvs_runner_options {
    size_t size;      /**< set by kvs_runner_options_init() */
    size_t sequences; /**< most sequences in one pass; 0 = 1 */
    size_t tokens;    /**< most tokens in one pass; 0 = 256, or `sequences` if that is more */
} kvs_runner_options;

/** Sets the defaults; `size` is sizeof *options. */
KVS_API void kvs_runner_options_init(kvs_runner_options *options, size_t size);
/** Sessions that share a runner may be used by only one thread at a time. */
KVS_API kvs_status kvs_runner_create(kvs_runner **out, const kvs_model *model,
                                     const kvs_runner_options *options, kvs_err *err);
/** Releases a runner.  Its sessions must have been freed. */
KVS_API void kvs_runner_free(kvs_runner *runner);

/** Tokens to feed to one session, and arrays that receive results for each of them.  All fields but
 * size and session may be 0. */
typedef struct kvs_feed {
    size_t size;            /**< sizeof(kvs_feed), set by the caller */
    kvs_session *session;   /**< of the runner's model; its own runner may be another one */
    const int32_t *ids;     /**< [count] */
    size_t count;           /**< number of tokens */
    float *logits;          /**< [logit count] after the last token */
    const int32_t *targets; /**< [count] tokens to score; -1 = none here */
    double *logprobs;       /**< [count] log p(targets[i] | all tokens up to ids[i]); 0 for -1 */
    double *own_logprobs; /**< [count] log p(ids[i] | all tokens before it); NaN for the first token
                                 of a session */
    int32_t *best;        /**< [count] the likeliest token after ids[i] */
    size_t top;           /**< how many of the best tokens after each token are wanted */
    int32_t *top_ids;     /**< [count, top] their ids, best first; -1 past the vocabulary */
    double *top_logprobs; /**< [count, top] their log-probabilities; may be NULL; -infinity past the
                                 vocabulary */
} kvs_feed;

/** Sets all fields but `size` to 0; `size` is sizeof *feed. */
KVS_API void kvs_feed_init(kvs_feed *feed, size_t size);
/** Feeds many different sessions in as few passes as possible; NULL = the runner of the first
 * session.  If one feed is invalid, the message contains its index and no session changes.  All
 * feeds must have the same size. */
KVS_API kvs_status kvs_runner_feed(kvs_runner *runner, const kvs_feed *feeds, size_t count,
                                   kvs_err *err);

/** Flags of kvs_score(). */
enum {
    KVS_SCORE_STEP_BY_STEP = 1 /**< feed one token at a time, as generation does */
};

/** Scores a continuation.  The first `context_count` ids (at least 1) are the context.  *sum
 * receives the sum of the log-probabilities of the others, *greedy whether each of them is the
 * likeliest at its position, logprobs[count - context_count] the log-probability of each; all three
 * may be NULL.  The session is reset first.  More ids than its capacity + 1 return
 * ::KVS_E_LIMIT. */
KVS_API kvs_status kvs_score(double *sum, int *greedy, double *logprobs, kvs_session *session,
                             const int32_t *ids, size_t count, size_t context_count, unsigned flags,
                             kvs_err *err);

/* ---- sampling -------------------------------------------------------------------------------- */

/** The likeliest token; of equal logits, the first.  -1 without logits. */
KVS_API int32_t kvs_logits_best(const float *logits, size_t count);
/** The logarithm of a token's probability; NaN for an id that is not there. */
KVS_API double kvs_logits_logprob(const float *logits, size_t count, int32_t id);
/** The `top` likeliest tokens, best first, and their log-probabilities (may be NULL); of equal
 * logits, the first.  Returns how many there are: `top`, or `count` if that is less. */
KVS_API size_t kvs_logits_top(int32_t *ids, double *logprobs, size_t top, const float *logits,
                              size_t count);

/** How the next token is chosen.  First the logits of tokens among the last `repeat_last` (0 =
 * among all) are divided by the repeat penalty if positive and multiplied by it if negative.
 * Temperature 0 then chooses the best token.  Any other temperature draws a token by its
 * probability at that temperature, among the tokens that pass three filters in turn: the top_k best
 * (0 = all), the best that together reach probability top_p, and those at least min_p times as
 * likely as the best. */
typedef struct kvs_sampling {
    size_t size;        /**< set by kvs_sampling_init() */
    double temperature; /**< 0 = the best token */
    size_t top_k;       /**< 0 = all */
    double top_p;       /**< 1 = all */
    double min_p;       /**< 0 = all */
    /** Token number i of a sampler depends only on the seed, i, the logits and, with a repeat
     * penalty, the tokens before it. */
    uint64_t seed;
    double repeat_penalty; /**< 1 or 0 = none */
    size_t repeat_last;    /**< 0 = all tokens */
} kvs_sampling;

typedef struct kvs_sampler kvs_sampler; /**< chooses tokens */

/** Sets the defaults; `size` is sizeof *options. */
KVS_API void kvs_sampling_init(kvs_sampling *options, size_t size);
/** A sampler for `count` logits. */
KVS_API kvs_status kvs_sampler_create(kvs_sampler **out, size_t count, const kvs_sampling *options,
                                      kvs_err *err);
/** Releases a sampler. */
KVS_API void kvs_sampler_free(kvs_sampler *sampler);
/** Adds tokens that the sampler did not choose, such as the prompt, for the repeat penalty; the
 * sampler adds its own choices itself.  Ids beyond its logits are allowed. */
KVS_API kvs_status kvs_sampler_accept(kvs_sampler *sampler, const int32_t *ids, size_t count,
                                      kvs_err *err);
/** The next token; -1 if an argument is NULL. */
KVS_API int32_t kvs_sampler_next(kvs_sampler *sampler, const float *logits);

/** A token that kvs_generate() chose. */
typedef struct kvs_generated {
    size_t index;   /**< 0 = the first */
    int32_t id;     /**< the token */
    int ends;       /**< 1 = the token ends the text and is not part of it */
    double logprob; /**< its log-probability, before temperature and filters; NaN unless
                         kvs_generate_options.logprobs is set */
    /** The text that can be shown now, without a NUL.  It is empty without a tokenizer, and while a
     * character is incomplete or a stop string may have begun.  The last call may have a text but
     * no token (id -1). */
    const char *text;
    size_t text_size; /**< in bytes */
} kvs_generated;

/** Why generation ended. */
typedef enum kvs_finish {
    KVS_FINISH_LENGTH, /**< max_tokens were chosen */
    KVS_FINISH_EOS,    /**< a token that ends a text was chosen */
    KVS_FINISH_STOP,   /**< a stop string was generated */
    KVS_FINISH_FULL    /**< the session is full */
} kvs_finish;

/** Options of kvs_generate(). */
typedef struct kvs_generate_options {
    size_t size;                    /**< set by kvs_generate_options_init() */
    size_t max_tokens;              /**< 0 = until the session is full */
    const kvs_sampling *sampling;   /**< NULL = its defaults */
    const kvs_tokenizer *tokenizer; /**< for texts and stop strings; NULL = ids only */
    const char *const *stops;       /**< stop strings; they need a tokenizer */
    size_t stop_count;              /**< number of stop strings */
    int ignore_eos;                 /**< continue after tokens that end a text */
    int logprobs;                   /**< compute the log-probability of every token */
    /** Called with each token; non-zero stops with ::KVS_E_STOPPED. */
    int (*token)(void *user, const kvs_generated *token);
    void *user; /**< passed to the callback */
} kvs_generate_options;

/** Sets the defaults; `size` is sizeof *options. */
KVS_API void kvs_generate_options_init(kvs_generate_options *options, size_t size);
/** Feeds the prompt to the session and generates tokens.  The prompt may be empty if the session is
 * not.  A token ends the text if it is one of kvs_model_eos() or the tokenizer's EOS; the callback
 * receives it with `ends` set.  With a tokenizer, only tokens of its vocabulary are chosen.
 * *finish (may be NULL) receives the reason for the end.  Afterwards, also after ::KVS_E_STOPPED,
 * the session contains the prompt and all generated tokens except the last. */
KVS_API kvs_status kvs_generate(kvs_finish *finish, kvs_session *session, const int32_t *prompt,
                                size_t count, const kvs_generate_options *options, kvs_err *err);

/* ---- data ------------------------------------------------------------------------------------ */

/** A ragged batch: sequences laid end to end, without padding.  Sequence s is rows starts[s] to
 * starts[s+1]-1; positions, attention and the shift restart at each start. */
typedef struct kvs_batch {
    size_t size;            /**< sizeof(kvs_batch), set by the caller */
    size_t sequences;       /**< their number */
    const size_t *starts;   /**< [sequences + 1] row indexes, starting with 0, increasing */
    const int32_t *ids;     /**< [rows] */
    const int32_t *targets; /**< [rows], -1 = no loss here; NULL = the next id of the sequence, and
                                 none for its last row */
    const uint8_t *mask;    /**< [rows] loss mask: 0 = no loss here; NULL = all count */
    const uint8_t *scored;  /**< [rows] 1 = this target counts for accuracy; NULL = none */
} kvs_batch;

/** Sets all fields but `size` to 0; `size` is sizeof *batch. */
KVS_API void kvs_batch_init(kvs_batch *batch, size_t size);

/** Numbered sequences for training and evaluation. */
typedef struct kvs_data kvs_data;

/** Which sequences. */
typedef enum kvs_stream {
    KVS_STREAM_TRAIN, /**< for training */
    KVS_STREAM_EVAL   /**< for evaluation */
} kvs_stream;

/** The caller's arrays.  Training takes the sequences of `train` in an order that is shuffled anew
 * in each epoch by the seed, evaluation those of `valid` in order, repeated.  Every sequence needs
 * a target.  The arrays are borrowed and must not change; `valid` NULL = there is nothing to
 * evaluate.  `vocab` 0 = the greatest id or target + 1. */
KVS_API kvs_status kvs_data_create_arrays(kvs_data **out, const kvs_batch *train,
                                          const kvs_batch *valid, size_t vocab, kvs_err *err);

/** The caller's callback. */
typedef struct kvs_data_source {
    size_t size;        /**< set by kvs_data_source_init() */
    size_t vocab;       /**< all ids and targets are below it */
    size_t max_length;  /**< longest sequence */
    double mean_length; /**< for estimates; 0 = max_length */
    const char *name;   /**< for logs; NULL = "callback" */
    /** Writes sequence `index` of a seed's stream into arrays of max_length: ids, targets (-1 = no
     * loss; as they come, the next ids are not filled in) and whether they are scored (zeroed
     * before).  Returns its length; 0 stops with ::KVS_E_STOPPED.  It must be a function of its
     * arguments, so that a resumed run sees the same data. */
    size_t (*sequence)(void *user, uint64_t seed, kvs_stream stream, uint64_t index, int32_t *ids,
                       int32_t *targets, uint8_t *scored);
    void *user; /**< passed to the callback */
} kvs_data_source;

/** Sets the defaults; `size` is sizeof *source. */
KVS_API void kvs_data_source_init(kvs_data_source *source, size_t size);
/** Sequences from a callback. */
KVS_API kvs_status kvs_data_create_callback(kvs_data **out, const kvs_data_source *source,
                                            kvs_err *err);
/** Releases data. */
KVS_API void kvs_data_free(kvs_data *data);
/** The smallest vocabulary of a model for this data. */
KVS_API size_t kvs_data_vocab(const kvs_data *data);
/** The smallest context of a model: the longest sequence that is fed. */
KVS_API size_t kvs_data_max_length(const kvs_data *data);
/** Sequence `index` of a seed's stream: ids to feed, targets (-1 = none) and whether they are
 * scored; each array has a capacity of kvs_data_max_length().  Returns the length; 0 = there is
 * none. */
KVS_API size_t kvs_data_sequence(int32_t *ids, int32_t *targets, uint8_t *scored,
                                 const kvs_data *data, uint64_t seed, kvs_stream stream,
                                 uint64_t index);

/* ---- training -------------------------------------------------------------------------------- */

/** The shift of one target, as means over all heads of all layers. */
typedef struct kvs_shift_mean {
    double sum;     /**< of a head's taps: the paper's a1 + a2, or b1 + b2 */
    double current; /**< the current token's tap */
} kvs_shift_mean;

/** One training step. */
typedef struct kvs_step_record {
    uint64_t step;        /**< 1 = the first */
    double loss;          /**< mean over targets, before the update */
    double accuracy;      /**< fraction of scored rows whose best guess is right; NaN without any */
    double lr;            /**< learning rate */
    double grad_norm;     /**< before clipping */
    double eval_loss;     /**< NaN except on steps that evaluate */
    double eval_accuracy; /**< NaN except on steps that evaluate */
    /** Of keys, after the update.  NaN except on step 1, every 50th step and steps that evaluate;
     * NaN if the model has no such taps (form data has none).  Only kvs_train() fills it in. */
    kvs_shift_mean k_shift;
    kvs_shift_mean v_shift; /**< the same of values */
    kvs_shift_mean q_shift; /**< the same of queries */
    size_t tokens;          /**< fed in this step */
    double seconds;         /**< it took */
    double sending; /**< seconds of these with transfers between ranks in flight, on this rank */
    double waiting; /**< seconds of these in which this rank only waited for them */
} kvs_step_record;

/** The scored rows of the sequences of some lengths. */
typedef struct kvs_length_bucket {
    size_t from;     /**< tokens fed, at least */
    size_t to;       /**< tokens fed, at most */
    size_t scored;   /**< rows */
    double accuracy; /**< NaN if none is scored */
} kvs_length_bucket;

/** Most buckets of a kvs_evaluation. */
enum {
    KVS_LENGTH_BUCKETS_MAX = 4 /**< most buckets */
};

/** The result of an evaluation. */
typedef struct kvs_evaluation {
    size_t size;     /**< sizeof(kvs_evaluation), set by the caller */
    double loss;     /**< mean over targets */
    double accuracy; /**< of the scored rows; NaN without any */
    size_t buckets;  /**< 0 = the data does not distinguish sequences by length */
    kvs_length_bucket bucket[KVS_LENGTH_BUCKETS_MAX]; /**< shortest first */
} kvs_evaluation;

typedef struct kvs_trainer kvs_trainer; /**< model, gradients and optimizer */

/** The trainer borrows the model, which it changes, and the data.  Data NULL = it only takes
 * batches of the caller; memory is planned for "batch" / "accumulate" sequences of the model's
 * context in one pass. */
KVS_API kvs_status kvs_trainer_create(kvs_trainer **out, kvs_model *model, const kvs_data *data,
                                      const kvs_train_config *config, kvs_err *err);
/** Releases a trainer, not its model. */
KVS_API void kvs_trainer_free(kvs_trainer *trainer);
/** One optimizer step on the next "batch" sequences of the data.  A loss or gradient that is not
 * finite returns ::KVS_E_DIVERGED; the message names the first such tensor, and the weights do not
 * change.  *record (may be NULL) is borrowed until the next call. */
KVS_API kvs_status kvs_trainer_step(const kvs_step_record **record, kvs_trainer *trainer,
                                    kvs_err *err);
/** The same on a batch of the caller: at most "batch" sequences, none longer than the model's
 * context or, if the trainer has data, kvs_data_max_length(); more returns ::KVS_E_LIMIT.  The bits
 * are those of kvs_trainer_step() on the same sequences.  All ranks pass the same batch, of which
 * each computes its part. */
KVS_API kvs_status kvs_trainer_step_batch(const kvs_step_record **record, kvs_trainer *trainer,
                                          const kvs_batch *batch, kvs_err *err);
/** Steps done, including those before a checkpoint was loaded. */
KVS_API uint64_t kvs_trainer_steps(const kvs_trainer *trainer);
/** Loss and accuracy on `sequences` sequences of the evaluation stream (always the same ones; never
 * trained on, unless the task is to memorise).  A loss that is not finite returns
 * ::KVS_E_DIVERGED. */
KVS_API kvs_status kvs_trainer_evaluate(kvs_evaluation *out, kvs_trainer *trainer, size_t sequences,
                                        kvs_err *err);
/** The mean loss over the targets of one batch and its gradients, without an update: what
 * kvs_trainer_step_batch() would use before clipping, with its dropout.  For models of one
 * process. */
KVS_API kvs_status kvs_trainer_gradients(double *loss, kvs_trainer *trainer, const kvs_batch *batch,
                                         kvs_err *err);
/** The gradient of one tensor, row-major, from the last kvs_trainer_gradients(), until the next
 * step; `count` must be the tensor's size. */
KVS_API kvs_status kvs_trainer_read_gradient(float *out, size_t count, const kvs_trainer *trainer,
                                             const char *name, kvs_err *err);
/** Writes the checkpoint dir/step-N, which is complete or absent, and removes all but the newest
 * `keep` (0 = keep all).  `dir` is made if it is not there.  If it has a complete checkpoint of a
 * later step, which is of another training, the call returns ::KVS_E_EXISTS.  Collective; rank 0
 * writes. */
KVS_API kvs_status kvs_trainer_save(kvs_trainer *trainer, const char *dir, size_t keep,
                                    kvs_err *err);
/** Continues from the newest complete checkpoint in `dir`: steps that follow have the same bits as
 * if training had never stopped.  *step (may be NULL) receives its step; 0 = there is none, and
 * nothing changed.  A damaged checkpoint is passed over for an older one; if all are damaged, the
 * call returns ::KVS_E_FORMAT.  A checkpoint of another model, other data or other settings (except
 * those that may change) returns ::KVS_E_INVALID.  Collective. */
KVS_API kvs_status kvs_trainer_load(uint64_t *step, kvs_trainer *trainer, const char *dir,
                                    kvs_err *err);

#ifdef __cplusplus
}
#endif
#endif
