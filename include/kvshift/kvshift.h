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
 * experiments, kvshift_eval.h scores of benchmarks; their calls may change with every version.
 *
 * Rules that hold for every call:
 *   - Calls that can fail return a ::kvs_status (0 = done) and describe a failure in `err`, which
 *     the caller owns and which may be NULL.  A create, load, copy or open call that fails sets
 *     *out to NULL and frees everything it allocated.  The library never prints, and no input makes
 *     it exit or abort.  If a required pointer is NULL, the call returns ::KVS_E_INVALID; a call
 *     without a status then returns 0, NULL or NaN.
 *   - Out parameters come first, `err` last.
 *   - The caller frees a handle that X_create, X_load or X_copy returned with X_free, and closes
 *     one that X_open returned with X_close.  X_free(NULL) and X_close(NULL) do nothing.  A handle
 *     that was created from another one (a session from a model) keeps a pointer to it and must be
 *     freed first.
 *   - A struct that the caller passes starts with `size`.  X_init(&x, sizeof x) sets it and gives
 *     all other fields their defaults, so a program keeps working when a later version adds fields.
 *     If `options` is NULL, the defaults apply.  Structs that the library returns by pointer may
 *     get new fields at the end in later versions.
 *   - "Borrowed" means that the owner keeps the memory: do not free it.
 *   - Only one thread at a time may use a handle; several threads may use different handles.
 *     Some handles may be shared.  Several threads may use the same tokenizer at once.  They may
 *     also use the same configuration, corpus or model, as long as no thread changes it.
 */
#ifndef KVSHIFT_H
#define KVSHIFT_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/** Marks a function that the shared library exports. */
#if defined(_WIN32) || !defined(__GNUC__)
#define KVS_API
#else
#define KVS_API __attribute__((visibility("default")))
#endif

#define KVS_VERSION_MAJOR 0 /**< Raised when programs must be changed. */
#define KVS_VERSION_MINOR 2 /**< Raised when calls are added. */
#define KVS_VERSION_PATCH 0 /**< Raised by fixes. */

/* ---- status ---------------------------------------------------------------------------------- */

/** The result of a call. */
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

/** The status of a failed call, and a message of one line without a full stop.  The message names
 * the thing, what was expected and what was found.  Calls that succeed do not change the struct. */
typedef struct kvs_err {
    kvs_status status; /**< what the call returned */
    char message[512]; /**< one line for the user */
} kvs_err;

/** Returns a short description: "out of memory". */
KVS_API const char *kvs_status_text(kvs_status status);

/** Version and build of the library. */
typedef struct kvs_build_info {
    const char *version;  /**< "0.1.0" */
    const char *commit;   /**< short hash, or "unknown" outside a checkout */
    const char *compiler; /**< "GCC 12.2.0" */
    const char *openmp;   /**< "201511", the version date, or "no" */
} kvs_build_info;

/** Returns the version and build of the library that is running; never NULL. */
KVS_API const kvs_build_info *kvs_build(void);
/** Returns a hash of all declarations of kvshift.h and kvshift_files.h, and of the sizes and
 * offsets of their structs as the library was compiled.  Bindings for other languages that were
 * made from these headers compare it when they load the library; python/kvshift/_library.py is an
 * example. */
KVS_API uint64_t kvs_layout_hash(void);

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
    int exact; /**< logits, losses and log-probabilities of a sequence have the same bits however it
                    is divided into feeds, whichever sequences are in the same pass, and after
                    copies, rewinds and files; docs/running.md has the cost */
    const char *precision; /**< of the products of linear layers and of the head, outside of
                                training: NULL or "f32", or "bf16": inputs and weights of type F32,
                                F16 and BF16 are rounded to bfloat16, sums are float32.  Quantized
                                weights have integer products in both.  Training has the setting
                                "precision" */
} kvs_runtime_options;

/** Sets the defaults; `size` is sizeof *options. */
KVS_API void kvs_runtime_options_init(kvs_runtime_options *options, size_t size);
/** Creates a runtime.  Results have the same bits for every number of threads.
 *
 * Threads are OpenMP's.  With GNU's OpenMP a waiting thread spins for milliseconds by default,
 * which slows everything down if other programs use the same cores.  Only the environment at the
 * start of the program changes that: the command starts itself again with GOMP_SPINCOUNT=1000,
 * unless that or OMP_WAIT_POLICY is set.  Programs that use the library may do the same. */
KVS_API kvs_status kvs_runtime_create(kvs_runtime **out, const kvs_runtime_options *options,
                                      kvs_err *err);
/** Frees a runtime.  Free its models first. */
KVS_API void kvs_runtime_free(kvs_runtime *rt);
/** Returns the number of threads. */
KVS_API int kvs_runtime_threads(const kvs_runtime *rt);
/** Returns the name of the level in use: "avx2". */
KVS_API const char *kvs_runtime_cpu_level(const kvs_runtime *rt);
/** Returns the name of the level with this index in this build, best first; NULL past the end.
 * *usable (may be NULL) receives 1 if this processor can run it, otherwise 0. */
KVS_API const char *kvs_cpu_level_name(size_t index, int *usable);
/** Returns what this machine lacks to run that level: "no AVX-512"; NULL if it can run it. */
KVS_API const char *kvs_cpu_level_missing(size_t index);

/* ---- tokenizers ------------------------------------------------------------------------------ */

/** Text into ids and back.  Several threads may use one tokenizer at once. */
typedef struct kvs_tokenizer kvs_tokenizer;

/** Loads a tokenizer.  `path` is one of:
 *   - a file: tokenizer.json, a SentencePiece tokenizer.model, llama2.c's tokenizer.bin, or a GGUF
 *     file with a vocabulary
 *   - a folder that contains one of these files, or GPT-2's encoder.json and vocab.bpe
 *   - the word "bytes": a tokenizer of 256 tokens, one per byte */
KVS_API kvs_status kvs_tokenizer_load(kvs_tokenizer **out, const char *path, kvs_err *err);
/** Frees a tokenizer. */
KVS_API void kvs_tokenizer_free(kvs_tokenizer *tokenizer);
/** Writes a tokenizer.json that other tools can read; the file is complete or absent. */
KVS_API kvs_status kvs_tokenizer_save(const kvs_tokenizer *tokenizer, const char *path,
                                      kvs_err *err);
/** Returns the number of tokens. */
KVS_API size_t kvs_tokenizer_vocab(const kvs_tokenizer *tokenizer);
/** Returns a hash of everything that determines the ids of a text.  Two files of one format that
 * contain the same tokenizer have equal hashes.  0 = out of memory. */
KVS_API uint64_t kvs_tokenizer_hash(const kvs_tokenizer *tokenizer);
/** Returns the id that begins a text (BOS); -1 = none. */
KVS_API int32_t kvs_tokenizer_bos(const kvs_tokenizer *tokenizer);
/** Returns the id that ends a text (EOS); -1 = none. */
KVS_API int32_t kvs_tokenizer_eos(const kvs_tokenizer *tokenizer);
/** Returns the id of the token with this text; -1 = no such token. */
KVS_API int32_t kvs_tokenizer_find(const kvs_tokenizer *tokenizer, const char *piece);

/** Flags of kvs_tokenizer_encode(). */
enum {
    KVS_ENCODE_NO_SPECIAL = 1 /**< add no BOS or EOS; special strings are still recognised */
};

/** Encodes a text, which may contain any bytes.  Free *ids with kvs_ids_free(). */
KVS_API kvs_status kvs_tokenizer_encode(int32_t **ids, size_t *count,
                                        const kvs_tokenizer *tokenizer, const char *text,
                                        size_t size, unsigned flags, kvs_err *err);
/** Decodes ids into a text that ends with NUL; *size does not count the NUL.  Free *text with
 * kvs_text_free(). */
KVS_API kvs_status kvs_tokenizer_decode(char **text, size_t *size, const kvs_tokenizer *tokenizer,
                                        const int32_t *ids, size_t count, kvs_err *err);
/** Encodes a context and its continuation, split as evaluations do.  White space at the end of the
 * context moves to the continuation.  The context and both texts together are encoded; the context
 * alone gives *context_count ids, and the other ids of both together are the continuation.  The
 * tokenizer's prefix tokens are added, its suffix tokens are not.  An empty context becomes BOS, or
 * EOS if there is no BOS.  If no id is left for the continuation, the call returns
 * ::KVS_E_INVALID.  Free *ids with kvs_ids_free(). */
KVS_API kvs_status kvs_tokenizer_encode_pair(int32_t **ids, size_t *count, size_t *context_count,
                                             const kvs_tokenizer *tokenizer, const char *context,
                                             size_t context_size, const char *continuation,
                                             size_t continuation_size, kvs_err *err);
/** Frees ids that kvs_tokenizer_encode() or kvs_tokenizer_encode_pair() returned. */
KVS_API void kvs_ids_free(int32_t *ids);
/** Frees a text that kvs_tokenizer_decode() returned. */
KVS_API void kvs_text_free(char *text);

/** Decodes ids that arrive in parts.  The texts of all calls, joined, equal the text of all ids
 * decoded at once, cut off before the first stop string.  No call returns part of a character,
 * except kvs_detokenizer_finish() if the ids end within one.  Text that may be the start of a stop
 * string is returned by a later call, when it is clear that it is not.  The detokenizer owns the
 * returned texts, which are valid until the next call and do not end with NUL. */
typedef struct kvs_detokenizer kvs_detokenizer;

/** Creates a detokenizer.  It copies the stop strings, which must not be empty, and borrows the
 * tokenizer. */
KVS_API kvs_status kvs_detokenizer_create(kvs_detokenizer **out, const kvs_tokenizer *tokenizer,
                                          const char *const *stops, size_t stop_count,
                                          kvs_err *err);
/** Frees a detokenizer. */
KVS_API void kvs_detokenizer_free(kvs_detokenizer *detokenizer);
/** Adds ids that come before the text, such as a prompt.  They affect how later ids are decoded;
 * their own text is neither returned nor searched for stop strings. */
KVS_API kvs_status kvs_detokenizer_skip(kvs_detokenizer *detokenizer, const int32_t *ids,
                                        size_t count, kvs_err *err);
/** Adds ids and returns the text that can no longer change. */
KVS_API kvs_status kvs_detokenizer_add(const char **text, size_t *size,
                                       kvs_detokenizer *detokenizer, const int32_t *ids,
                                       size_t count, kvs_err *err);
/** Returns 1 if a stop string was found, after which no more text follows; otherwise 0. */
KVS_API int kvs_detokenizer_stopped(const kvs_detokenizer *detokenizer);
/** Returns the remaining text.  Call kvs_detokenizer_reset() before adding more ids. */
KVS_API kvs_status kvs_detokenizer_finish(const char **text, size_t *size,
                                          kvs_detokenizer *detokenizer, kvs_err *err);
/** Prepares the detokenizer for another text. */
KVS_API void kvs_detokenizer_reset(kvs_detokenizer *detokenizer);

/* ---- configuration --------------------------------------------------------------------------- */

/** One setting of a configuration.  The library owns it. */
typedef struct kvs_setting {
    const char *name;      /**< "shift-form" */
    const char *type;      /**< "flag", "count", "number", "choice", "counts" and "numbers" (lists:
                            0,2,5), "optional" (a count or nothing), or "text" */
    const char *group;     /**< a heading: "Model" */
    const char *help;      /**< one line */
    const char *value;     /**< the default as text; "" = an empty list or text */
    const char *automatic; /**< what the default 0 or "" means, if the library chooses the value;
                                     otherwise NULL */
    const char *const *choices; /**< the values of a choice, ended by NULL; NULL for other types */
    double low;                 /**< smallest number */
    double high;                /**< largest number; 0 = no limit */
    int open_low;               /**< 1 = `low` itself is excluded */
    int open_high;              /**< 1 = `high` itself is excluded */
    int changes_result;         /**< 1 = training with another value gives another model */
    int may_change;             /**< 1 = a resumed run may have another value */
} kvs_setting;

/** Returns the setting of models with this index; NULL past the end. */
KVS_API const kvs_setting *kvs_model_setting(size_t index);
/** Returns the setting of training with this index; NULL past the end. */
KVS_API const kvs_setting *kvs_train_setting(size_t index);
/** Returns the name of the preset with this index; NULL past the end.  A preset is a configuration
 * of a model and of its training. */
KVS_API const char *kvs_preset_name(size_t index);

/** The configuration of a model.
 *
 *     kvs_model_config_create(&config, NULL, &err);
 *     kvs_model_config_set(config, "shift", "kv", &err);
 *     kvs_model_config_set_number(config, "dim", 64, &err);
 */
typedef struct kvs_model_config kvs_model_config;

/** Creates a configuration with the values of a preset: the paper's models (paper-1.5b ...
 * paper-19b), kvlm, and desk-1m ... desk-110m.  If `preset` is NULL, the values are the defaults;
 * then "vocab" is 0 and must be set. */
KVS_API kvs_status kvs_model_config_create(kvs_model_config **out, const char *preset,
                                           kvs_err *err);
/** Reads a config.json or its folder, which then needs no weights, or any file that
 * kvs_model_load() accepts. */
KVS_API kvs_status kvs_model_config_load(kvs_model_config **out, const char *path, kvs_err *err);
/** Copies a configuration. */
KVS_API kvs_status kvs_model_config_copy(kvs_model_config **out, const kvs_model_config *config,
                                         kvs_err *err);
/** Frees a configuration. */
KVS_API void kvs_model_config_free(kvs_model_config *config);
/** Sets one setting from text: "128", "2e-3", "yes", "gate", "0,2,5".  "body" also sets the
 * defaults of that body, so set it first.  "shift" also takes gate and clamp (kv with that form)
 * and smear (k with form gate). */
KVS_API kvs_status kvs_model_config_set(kvs_model_config *config, const char *name,
                                        const char *value, kvs_err *err);
/** Sets a flag, a count or a number. */
KVS_API kvs_status kvs_model_config_set_number(kvs_model_config *config, const char *name,
                                               double value, kvs_err *err);
/** Writes a value as text, with a NUL, in the form that kvs_model_config_set() accepts.  If it does
 * not fit into `size` bytes, the call returns ::KVS_E_LIMIT. */
KVS_API kvs_status kvs_model_config_get(char *out, size_t size, const kvs_model_config *config,
                                        const char *name, kvs_err *err);
/** Returns the value of a flag, a count or a number; NaN for another setting or an unknown name. */
KVS_API double kvs_model_config_number(const kvs_model_config *config, const char *name);
/** Replaces automatic values ("kv-heads" 0, "ffn" 0 ...) by the values the library chooses, then
 * checks every value and every combination. */
KVS_API kvs_status kvs_model_config_finish(kvs_model_config *config, kvs_err *err);

/** The configuration of training: the optimizer, batches, evaluations and checkpoints. */
typedef struct kvs_train_config kvs_train_config;

/** Creates a configuration with the training settings of a preset.  If `preset` is NULL, the values
 * are the defaults: AdamW with betas 0.9 and 0.95, decay 0.1, a constant learning rate. */
KVS_API kvs_status kvs_train_config_create(kvs_train_config **out, const char *preset,
                                           kvs_err *err);
/** Copies a configuration. */
KVS_API kvs_status kvs_train_config_copy(kvs_train_config **out, const kvs_train_config *config,
                                         kvs_err *err);
/** Frees a configuration. */
KVS_API void kvs_train_config_free(kvs_train_config *config);
/** Sets one setting from text, like kvs_model_config_set(). */
KVS_API kvs_status kvs_train_config_set(kvs_train_config *config, const char *name,
                                        const char *value, kvs_err *err);
/** Sets a flag, a count or a number. */
KVS_API kvs_status kvs_train_config_set_number(kvs_train_config *config, const char *name,
                                               double value, kvs_err *err);
/** Writes a value as text, like kvs_model_config_get(). */
KVS_API kvs_status kvs_train_config_get(char *out, size_t size, const kvs_train_config *config,
                                        const char *name, kvs_err *err);
/** Returns the value of a flag, a count or a number; NaN for another setting or an unknown name. */
KVS_API double kvs_train_config_number(const kvs_train_config *config, const char *name);
/** Checks every value and every combination. */
KVS_API kvs_status kvs_train_config_check(const kvs_train_config *config, kvs_err *err);
/** Returns the learning rate of a step; the first step is 1. */
KVS_API double kvs_learning_rate(const kvs_train_config *config, uint64_t step);

/* ---- models ---------------------------------------------------------------------------------- */

/** Element types of files and of KV caches. */
typedef enum kvs_dtype {
    KVS_DTYPE_KEEP, /**< the type of the input; F32 for quantized and random weights, and for
                         caches */
    KVS_DTYPE_F32,  /**< 32-bit floats */
    KVS_DTYPE_F16,  /**< 16-bit floats */
    KVS_DTYPE_BF16, /**< bfloat16 */
    KVS_DTYPE_Q8_0, /**< GGUF only: 8 bits, blocks of 32 with one scale.  A matrix whose rows are
                         not whole blocks is stored as F16, a position table as F32 */
    KVS_DTYPE_Q4_0  /**< like Q8_0, with 4 bits */
} kvs_dtype;

/** Returns "keep", "f32", "f16", "bf16", "q8_0" or "q4_0"; NULL for another value. */
KVS_API const char *kvs_dtype_name(kvs_dtype dtype);
/** Finds the type with a name. */
KVS_API kvs_status kvs_dtype_parse(kvs_dtype *out, const char *name, kvs_err *err);

typedef struct kvs_model kvs_model; /**< weights and their configuration */

/** Creates a model with random weights.  The values of a tensor depend only on the seed and the
 * tensor's name, so models that differ in their attention have equal values in all other
 * tensors. */
KVS_API kvs_status kvs_model_create(kvs_model **out, kvs_runtime *rt,
                                    const kvs_model_config *config, uint64_t seed, kvs_err *err);

/** Options of kvs_model_load(). */
typedef struct kvs_load_options {
    size_t size; /**< set by kvs_load_options_init() */
    int mapped;  /**< 1 = for inference only: map the files and use the matrices in place, in the
                      type of the file.  Only headers are read, and several processes share one
                      copy in memory.  For F32, F16 and BF16 files the results have the same bits as
                      without mapping.  A mapped model cannot be trained, changed or retrofitted
                      (::KVS_E_UNSUPPORTED).  The files must not change until kvs_model_free() */
} kvs_load_options;

/** Sets the defaults; `size` is sizeof *options. */
KVS_API void kvs_load_options_init(kvs_load_options *options, size_t size);
/** Loads a folder with config.json and model.safetensors (or shards and their index) in the layout
 * of Hugging Face's Llama or GPT-2, of this library, or of Baichuan-M1; one such safetensors file;
 * a GGUF file; or a file of llama2.c, legacy or version 1.  Tensors may be F32, F16, BF16, Q8_0,
 * Q4_0, Q5_0, Q4_K, Q5_K or Q6_K; in memory they are float32 unless mapped. */
KVS_API kvs_status kvs_model_load(kvs_model **out, kvs_runtime *rt, const char *path,
                                  const kvs_load_options *options, kvs_err *err);
/** Copies a model without a shift and adds the shift that `config` describes ("shift",
 * "shift-form", "shift-window").  The taps start as the identity, so the logits of the copy have
 * the same bits as those of the model. */
KVS_API kvs_status kvs_model_retrofit(kvs_model **out, kvs_runtime *rt, const kvs_model *model,
                                      const kvs_model_config *config, kvs_err *err);
/** Low-rank adapters for kvs_model_adapt(). */
typedef struct kvs_adapter_options {
    size_t size;    /**< set by kvs_adapter_options_init() */
    size_t rank;    /**< at most the width of the matrices */
    double alpha;   /**< what the adapters add is multiplied by alpha / rank; 0 = the rank */
    const char *on; /**< names of matrices with commas between, "q_proj,v_proj"; * and ? make
                         patterns of whole names; NULL = all linear matrices of all layers */
    uint64_t seed;  /**< of the initial values of A; B is 0 */
} kvs_adapter_options;

/** Sets the defaults, rank 8; `size` is sizeof *options. */
KVS_API void kvs_adapter_options_init(kvs_adapter_options *options, size_t size);
/** Copies a model and adds low-rank adapters: y = W x becomes W x + alpha / rank * B A x.  They
 * start without effect, so the logits of the copy have the same bits as those of the model.  A
 * trainer trains only them and the shift.  kvs_model_save() also writes them in PEFT's layout, and
 * kvs_convert() merges them into the matrices.  See docs/finetuning.md. */
KVS_API kvs_status kvs_model_adapt(kvs_model **out, kvs_runtime *rt, const kvs_model *model,
                                   const kvs_adapter_options *options, kvs_err *err);
/** Writes config.json and model.safetensors; each file is complete or absent.  The folder must
 * exist.  Of a model that transformers does not know, such as one with a shift, it also writes
 * modeling_kvshift.py, which runs it there; of one with adapters adapter_config.json and
 * adapter_model.safetensors.  Collective if weights are sharded over ranks; rank 0 writes. */
KVS_API kvs_status kvs_model_save(const kvs_model *model, const char *dir, kvs_err *err);
/** Frees a model.  Free its sessions and trainers first. */
KVS_API void kvs_model_free(kvs_model *model);
/** Returns the configuration, complete and checked; the model owns it. */
KVS_API const kvs_model_config *kvs_model_get_config(const kvs_model *model);
/** Returns the number of learned values. */
KVS_API uint64_t kvs_model_parameters(const kvs_model *model);
/** Returns the number of logits per token: "vocab", or "dim" if "head" is none. */
KVS_API size_t kvs_model_logit_count(const kvs_model *model);
/** Finds the tokens that end a text, as the model's files name them (config.json,
 * generation_config.json, GGUF).  Returns their number, 0 if there are none; the model owns
 * *ids. */
KVS_API size_t kvs_model_eos(const kvs_model *model, const int32_t **ids);
/** Replaces the tokens that end a text by at most 64 others.  kvs_model_save() writes them into
 * config.json. */
KVS_API kvs_status kvs_model_set_eos(kvs_model *model, const int32_t *ids, size_t count,
                                     kvs_err *err);
/** Returns the name of the tensor with this index, in file order; NULL past the end.  *count (may
 * be NULL) receives the number of its values. */
KVS_API const char *kvs_model_tensor_name(const kvs_model *model, size_t index, size_t *count);
/** Copies one tensor, row-major; `count` must be the number of its values. */
KVS_API kvs_status kvs_model_read_tensor(float *out, size_t count, const kvs_model *model,
                                         const char *name, kvs_err *err);
/** Replaces the values of one tensor; `count` must be their number. */
KVS_API kvs_status kvs_model_write_tensor(kvs_model *model, const char *name, const float *values,
                                          size_t count, kvs_err *err);

/** What is mixed with the previous tokens; flags. */
enum {
    KVS_SHIFT_K = 1, /**< keys */
    KVS_SHIFT_V = 2, /**< values */
    KVS_SHIFT_Q = 4  /**< queries */
};

/** Computes the effective taps of one head (a KV head; for ::KVS_SHIFT_Q a query head):
 * `shift-window` + 1 taps, the one of the oldest token first.  If the channels of the head have
 * different taps, `taps` receives the means over channels and `deviations` (may be NULL) the
 * standard deviations.  A model of form data has no taps: ::KVS_E_UNSUPPORTED. */
KVS_API kvs_status kvs_model_taps(double *taps, double *deviations, const kvs_model *model,
                                  size_t layer, unsigned target, size_t head, kvs_err *err);

/** One activation of a model for one sequence. */
typedef struct kvs_activation {
    const char *name;    /**< "blocks.0.attn.hook_pattern" */
    const float *values; /**< row-major, borrowed until the callback returns */
    size_t rank;         /**< number of dimensions, at most 4 */
    size_t shape[4];     /**< size of each dimension.  The first dimension is tokens; for scores
                              and patterns it is heads */
} kvs_activation;

/** Returns the name of the activation with this index; NULL past the end.  The names are those of
 * TransformerLens; "*" stands for the number of a layer.  docs/api.md describes each activation. */
KVS_API const char *kvs_activation_name(size_t index);
/** Runs the model on one sequence and calls `visit` with each activation that is in `names` (NULL =
 * all), in the order in which they are computed.  "*" in place of a layer's number stands for every
 * layer.  Activations that the model does not have are not visited; an unknown name returns
 * ::KVS_E_INVALID, and more ids than the context return ::KVS_E_LIMIT.  Activations that are not
 * named cost nothing.  If `visit` returns non-zero, the call ends with ::KVS_E_STOPPED. */
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
    size_t capacity; /**< largest number of tokens; 0 = the model's context, or the capacity of the
                             copied or loaded session */
    kvs_dtype cache; /**< type of keys and values: ::KVS_DTYPE_F32; ::KVS_DTYPE_F16, which takes
                             half the memory; or ::KVS_DTYPE_Q8_0, which takes a quarter and needs
                             a head size that is a multiple of 32.  Every token reads the rounded
                             values, so results do not depend on how tokens are fed.  A copied or
                             loaded session keeps its type; another type returns
                             ::KVS_E_UNSUPPORTED */
    kvs_runner *runner; /**< a runner of this model that sessions share, borrowed.  NULL = the
                             session gets a runner of its own; the copy of a session that shares a
                             runner uses that runner */
} kvs_session_options;

/** Sets the defaults; `size` is sizeof *options. */
KVS_API void kvs_session_options_init(kvs_session_options *options, size_t size);
/** Creates an empty session. */
KVS_API kvs_status kvs_session_create(kvs_session **out, const kvs_model *model,
                                      const kvs_session_options *options, kvs_err *err);
/** Copies the first `length` tokens of a session (SIZE_MAX = all), as if only they had been fed.
 * `length` has the same limits as in kvs_session_rewind(). */
KVS_API kvs_status kvs_session_copy(kvs_session **out, const kvs_session *session, size_t length,
                                    const kvs_session_options *options, kvs_err *err);
/** Loads a session that kvs_session_save() wrote.  A file of another model is refused with a
 * message that names the difference. */
KVS_API kvs_status kvs_session_load(kvs_session **out, const kvs_model *model, const char *path,
                                    const kvs_session_options *options, kvs_err *err);
/** Writes a file that restores the session exactly; the file is complete or absent.  A session
 * whose taps were set returns ::KVS_E_UNSUPPORTED. */
KVS_API kvs_status kvs_session_save(const kvs_session *session, const char *path, kvs_err *err);
/** Frees a session. */
KVS_API void kvs_session_free(kvs_session *session);
/** Removes all tokens from a session.  Taps that were set remain. */
KVS_API void kvs_session_reset(kvs_session *session);
/** Returns the model of a session. */
KVS_API const kvs_model *kvs_session_get_model(const kvs_session *session);
/** Returns the number of tokens fed so far. */
KVS_API size_t kvs_session_length(const kvs_session *session);
/** Returns the largest number of tokens that the session can contain. */
KVS_API size_t kvs_session_capacity(const kvs_session *session);
/** Returns the tokens fed so far; the session owns them. */
KVS_API const int32_t *kvs_session_ids(const kvs_session *session);
/** Returns the memory in bytes that a session with these options needs, without its runner, for a
 * model of this configuration. */
KVS_API uint64_t kvs_session_bytes(const kvs_model_config *config,
                                   const kvs_session_options *options);
/** Appends tokens.  The logits do not depend on how tokens are split into calls.  `logits`
 * (kvs_model_logit_count() floats; may be NULL) receives the logits after the last token; it is not
 * written if `count` is 0.  If the tokens exceed the capacity, the call returns ::KVS_E_LIMIT and
 * changes nothing. */
KVS_API kvs_status kvs_session_feed(kvs_session *session, const int32_t *ids, size_t count,
                                    float *logits, kvs_err *err);
/** Writes the logits after the last token.  An empty session returns ::KVS_E_INVALID. */
KVS_API kvs_status kvs_session_logits(float *logits, kvs_session *session, kvs_err *err);
/** Removes tokens from the end, as if they had never been fed.  This costs at most as much as
 * feeding 64 tokens in one pass.  A session of a model with a sliding window keeps only the last
 * rows: it can be rewound to 0, by up to `sliding-window` tokens (at least 64), and to any length
 * from kvs_session_earliest() on.  Another length returns ::KVS_E_LIMIT; a length greater than the
 * session's returns ::KVS_E_INVALID.  Neither changes anything. */
KVS_API kvs_status kvs_session_rewind(kvs_session *session, size_t length, kvs_err *err);
/** Returns the smallest n > 0 such that the session can be rewound to n and to every greater
 * length. It can always be rewound to 0. */
KVS_API size_t kvs_session_earliest(const kvs_session *session);
/** Sets the taps of one head in this session, which must be empty.  `taps` has `shift-window` + 1
 * values in the order of kvs_model_taps(), which apply to all channels of the head; NULL restores
 * the taps of the model.  Any finite values are allowed, also those that the model's form cannot
 * produce.  A model of form data has no taps: ::KVS_E_UNSUPPORTED.  Copies of the session have the
 * same taps.  Sessions with different taps never share a pass. */
KVS_API kvs_status kvs_session_set_taps(kvs_session *session, size_t layer, unsigned target,
                                        size_t head, const double *taps, kvs_err *err);

/** Options of kvs_runner_create(). */
typedef struct kvs_runner_options {
    size_t size;      /**< set by kvs_runner_options_init() */
    size_t sequences; /**< largest number of sequences in one pass; 0 = 1 */
    size_t tokens;    /**< largest number of tokens in one pass; 0 = 256, or `sequences` if that is
                           more */
} kvs_runner_options;

/** Sets the defaults; `size` is sizeof *options. */
KVS_API void kvs_runner_options_init(kvs_runner_options *options, size_t size);
/** Creates a runner.  Only one thread at a time may use the sessions that share it. */
KVS_API kvs_status kvs_runner_create(kvs_runner **out, const kvs_model *model,
                                     const kvs_runner_options *options, kvs_err *err);
/** Frees a runner.  Free its sessions first. */
KVS_API void kvs_runner_free(kvs_runner *runner);

/** Tokens to feed to one session, and arrays that receive results for each token.  All fields
 * except `size` and `session` may be 0 or NULL. */
typedef struct kvs_feed {
    size_t size;            /**< sizeof(kvs_feed), set by the caller */
    kvs_session *session;   /**< must be of the runner's model; it may have a runner of its own */
    const int32_t *ids;     /**< [count] */
    size_t count;           /**< number of tokens */
    float *logits;          /**< [logit count] after the last token */
    const int32_t *targets; /**< [count] tokens to score; -1 = no target at this token */
    double *logprobs;       /**< [count] log p(targets[i] | all tokens up to ids[i]); 0 for -1 */
    double *own_logprobs; /**< [count] log p(ids[i] | all tokens before it); NaN for the first token
                                 of a session */
    int32_t *best;        /**< [count] the likeliest token after ids[i] */
    size_t top;           /**< k, the number of best tokens to return after each token */
    int32_t *top_ids;     /**< [count, top] ids of the k best tokens, best first; -1 if the
                                 vocabulary has fewer */
    double *top_logprobs; /**< [count, top] their log-probabilities; -infinity for id -1 */
} kvs_feed;

/** Sets all fields but `size` to 0; `size` is sizeof *feed. */
KVS_API void kvs_feed_init(kvs_feed *feed, size_t size);
/** Feeds several sessions in as few passes as possible.  No session may occur twice.  If `runner`
 * is NULL, the runner of the first session is used.  If one feed is invalid, the message contains
 * its index and no session changes.  All feeds must have the same `size`. */
KVS_API kvs_status kvs_runner_feed(kvs_runner *runner, const kvs_feed *feeds, size_t count,
                                   kvs_err *err);

/** Flags of kvs_score(). */
enum {
    KVS_SCORE_STEP_BY_STEP = 1 /**< feed one token at a time, as generation does */
};

/** Scores a continuation.  The first `context_count` ids (at least 1) are the context, the others
 * are the continuation.  `logprobs` [count - context_count] receives the log-probability of each id
 * of the continuation, *sum their sum, and *greedy is 1 if each is the likeliest token at its
 * position, otherwise 0.  All three may be NULL.  The session is reset first.  More ids than its
 * capacity + 1 return ::KVS_E_LIMIT. */
KVS_API kvs_status kvs_score(double *sum, int *greedy, double *logprobs, kvs_session *session,
                             const int32_t *ids, size_t count, size_t context_count, unsigned flags,
                             kvs_err *err);

/* ---- sampling -------------------------------------------------------------------------------- */

/** Returns the likeliest token, the smallest id if several are equal; -1 if `count` is 0. */
KVS_API int32_t kvs_logits_best(const float *logits, size_t count);
/** Returns the log-probability of a token; NaN for an id outside 0 .. count-1. */
KVS_API double kvs_logits_logprob(const float *logits, size_t count, int32_t id);
/** Finds the `top` likeliest tokens, best first; equal logits are in order of their ids.
 * `logprobs` (may be NULL) receives their log-probabilities.  Returns the number of tokens found:
 * `top`, or `count` if that is less. */
KVS_API size_t kvs_logits_top(int32_t *ids, double *logprobs, size_t top, const float *logits,
                              size_t count);

/** How the next token is chosen.  First the repeat penalty: the logits of all tokens that occur
 * among the last `repeat_last` tokens are divided by it if positive and multiplied by it if
 * negative.  Temperature 0 then chooses the best token.  Any other temperature draws a token by its
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
/** Creates a sampler for `count` logits. */
KVS_API kvs_status kvs_sampler_create(kvs_sampler **out, size_t count, const kvs_sampling *options,
                                      kvs_err *err);
/** Frees a sampler. */
KVS_API void kvs_sampler_free(kvs_sampler *sampler);
/** Adds tokens that the sampler did not choose, such as the prompt, so that the repeat penalty
 * counts them.  The sampler adds its own choices itself.  Ids beyond `count` are allowed. */
KVS_API kvs_status kvs_sampler_accept(kvs_sampler *sampler, const int32_t *ids, size_t count,
                                      kvs_err *err);
/** Returns the next token; -1 if an argument is NULL. */
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
    const kvs_sampling *sampling;   /**< NULL = the defaults */
    const kvs_tokenizer *tokenizer; /**< for texts and stop strings; NULL = ids only */
    const char *const *stops;       /**< stop strings; they need a tokenizer */
    size_t stop_count;              /**< number of stop strings */
    int ignore_eos;                 /**< 1 = continue after tokens that end a text */
    int logprobs;                   /**< 1 = compute the log-probability of every token */
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
    size_t sequences;       /**< number of sequences */
    const size_t *starts;   /**< [sequences + 1] row indexes, starting with 0, increasing */
    const int32_t *ids;     /**< [rows] */
    const int32_t *targets; /**< [rows], -1 = no loss at this row; NULL = the target of a row is the
                                 next id of its sequence, and the last row has none */
    const uint8_t *mask;    /**< [rows] loss mask: 0 = no loss at this row; NULL = all rows count */
    const uint8_t *scored;  /**< [rows] 1 = this target counts for accuracy; NULL = no row counts */
} kvs_batch;

/** Sets all fields but `size` to 0; `size` is sizeof *batch. */
KVS_API void kvs_batch_init(kvs_batch *batch, size_t size);

/** Numbered sequences for training and evaluation. */
typedef struct kvs_data kvs_data;

/** The two streams of sequences of a kvs_data. */
typedef enum kvs_stream {
    KVS_STREAM_TRAIN, /**< for training */
    KVS_STREAM_EVAL   /**< for evaluation */
} kvs_stream;

/** Creates data from the caller's arrays, which are borrowed and must not change.  Training takes
 * the sequences of `train`; the seed determines their order, which differs in each epoch.
 * Evaluation takes the sequences of `valid` in order, and again from the first after the last;
 * `valid` may be NULL if there is no evaluation.  Every sequence needs at least one target.
 * `vocab` 0 = the greatest id or target + 1. */
KVS_API kvs_status kvs_data_create_arrays(kvs_data **out, const kvs_batch *train,
                                          const kvs_batch *valid, size_t vocab, kvs_err *err);

/** Describes data that a callback of the caller produces. */
typedef struct kvs_data_source {
    size_t size;        /**< set by kvs_data_source_init() */
    size_t vocab;       /**< all ids and targets are less than this */
    size_t max_length;  /**< tokens of the longest sequence */
    double mean_length; /**< for estimates; 0 = max_length */
    const char *name;   /**< for logs; NULL = "callback" */
    /** Writes sequence `index` of a stream into three arrays of `max_length` elements: ids, targets
     * (-1 = no loss at this row) and scored (1 = counts for accuracy; 0 before the call).  Returns
     * the length of the sequence; 0 stops with ::KVS_E_STOPPED.  The result must depend only on
     * the arguments, so that a resumed run sees the same data. */
    size_t (*sequence)(void *user, uint64_t seed, kvs_stream stream, uint64_t index, int32_t *ids,
                       int32_t *targets, uint8_t *scored);
    void *user; /**< passed to the callback */
} kvs_data_source;

/** Sets the defaults; `size` is sizeof *source. */
KVS_API void kvs_data_source_init(kvs_data_source *source, size_t size);
/** Creates data from a callback. */
KVS_API kvs_status kvs_data_create_callback(kvs_data **out, const kvs_data_source *source,
                                            kvs_err *err);
/** Frees data. */
KVS_API void kvs_data_free(kvs_data *data);
/** Returns the smallest "vocab" that a model needs for this data. */
KVS_API size_t kvs_data_vocab(const kvs_data *data);
/** Returns the length of the longest sequence, the smallest "context" that a model needs. */
KVS_API size_t kvs_data_max_length(const kvs_data *data);
/** Copies sequence `index` of a stream: ids, targets (-1 = none) and scored (1 = counts for
 * accuracy).  Each array must have room for kvs_data_max_length() elements.  Returns the length of
 * the sequence; 0 = the data has none. */
KVS_API size_t kvs_data_sequence(int32_t *ids, int32_t *targets, uint8_t *scored,
                                 const kvs_data *data, uint64_t seed, kvs_stream stream,
                                 uint64_t index);

/* ---- training -------------------------------------------------------------------------------- */

/** The taps of keys, values or queries, as means over all heads of all layers. */
typedef struct kvs_shift_mean {
    double sum;     /**< sum of a head's taps: the paper's a1 + a2, or b1 + b2 */
    double current; /**< tap of the current token */
} kvs_shift_mean;

/** One training step. */
typedef struct kvs_step_record {
    uint64_t step;    /**< 1 = the first */
    double loss;      /**< mean over targets, before the update */
    double accuracy;  /**< fraction of scored rows whose likeliest token is the target; NaN if no
                               row is scored */
    double lr;        /**< learning rate */
    double grad_norm; /**< before clipping */
    double eval_loss; /**< NaN except on steps that evaluate */
    double eval_accuracy; /**< NaN except on steps that evaluate */
    /** Taps of keys after the update.  Only kvs_train() sets them, on step 1, every 50th step and
     * steps that evaluate.  Otherwise, and if the model has no such taps, they are NaN. */
    kvs_shift_mean k_shift;
    kvs_shift_mean v_shift; /**< taps of values */
    kvs_shift_mean q_shift; /**< taps of queries */
    size_t tokens;          /**< tokens fed in this step */
    double seconds;         /**< duration of the step */
    double sending; /**< seconds in which this rank had transfers to other ranks in flight */
    double waiting; /**< seconds in which this rank did nothing but wait for transfers */
} kvs_step_record;

/** Accuracy on sequences whose length is in a range. */
typedef struct kvs_length_bucket {
    size_t from;     /**< smallest length in tokens */
    size_t to;       /**< largest length in tokens */
    size_t scored;   /**< number of scored rows */
    double accuracy; /**< NaN if no row is scored */
} kvs_length_bucket;

/** Limit of kvs_evaluation. */
enum {
    KVS_LENGTH_BUCKETS_MAX = 4 /**< largest number of buckets */
};

/** The result of an evaluation. */
typedef struct kvs_evaluation {
    size_t size;     /**< sizeof(kvs_evaluation), set by the caller */
    double loss;     /**< mean over targets */
    double accuracy; /**< of the scored rows; NaN if no row is scored */
    size_t buckets;  /**< number of buckets; 0 = results are not divided by length */
    kvs_length_bucket bucket[KVS_LENGTH_BUCKETS_MAX]; /**< shortest first */
} kvs_evaluation;

typedef struct kvs_trainer kvs_trainer; /**< model, gradients and optimizer */

/** Creates a trainer.  It changes the model; model and data are borrowed.  If `data` is NULL, the
 * trainer only accepts batches of the caller, and allocates memory for passes of
 * "batch" / "accumulate" sequences of the model's context. */
KVS_API kvs_status kvs_trainer_create(kvs_trainer **out, kvs_model *model, const kvs_data *data,
                                      const kvs_train_config *config, kvs_err *err);
/** Frees a trainer, but not its model. */
KVS_API void kvs_trainer_free(kvs_trainer *trainer);
/** Makes one optimizer step on the next "batch" sequences of the data.  A loss or gradient that is
 * not finite returns ::KVS_E_DIVERGED; the message names the first such tensor, and the weights do
 * not change.  *record (may be NULL) is borrowed until the next call. */
KVS_API kvs_status kvs_trainer_step(const kvs_step_record **record, kvs_trainer *trainer,
                                    kvs_err *err);
/** Makes one optimizer step on a batch of the caller.  It has at most "batch" sequences, none
 * longer than the model's context or, if the trainer has data, kvs_data_max_length(); a larger
 * batch returns ::KVS_E_LIMIT.  The result has the same bits as kvs_trainer_step() on the same
 * sequences. All ranks pass the same batch, and each rank computes a part of it. */
KVS_API kvs_status kvs_trainer_step_batch(const kvs_step_record **record, kvs_trainer *trainer,
                                          const kvs_batch *batch, kvs_err *err);
/** Returns the number of steps done, including the steps before a loaded checkpoint. */
KVS_API uint64_t kvs_trainer_steps(const kvs_trainer *trainer);
/** Computes loss and accuracy on the first `sequences` sequences of the evaluation stream.  A loss
 * that is not finite returns ::KVS_E_DIVERGED. */
KVS_API kvs_status kvs_trainer_evaluate(kvs_evaluation *out, kvs_trainer *trainer, size_t sequences,
                                        kvs_err *err);
/** Computes the mean loss over the targets of a batch, and its gradients, without an update.  These
 * are the gradients of kvs_trainer_step_batch() before clipping, with the dropout of that step.
 * Only for a runtime with one rank. */
KVS_API kvs_status kvs_trainer_gradients(double *loss, kvs_trainer *trainer, const kvs_batch *batch,
                                         kvs_err *err);
/** Copies the gradient of one tensor, row-major, that kvs_trainer_gradients() computed.  It is
 * available until the next step; `count` must be the number of the tensor's values. */
KVS_API kvs_status kvs_trainer_read_gradient(float *out, size_t count, const kvs_trainer *trainer,
                                             const char *name, kvs_err *err);
/** Writes the checkpoint dir/step-N, which is complete or absent, and removes all but the newest
 * `keep` checkpoints (0 = keep all).  Creates `dir` if it does not exist.  If `dir` already has a
 * complete checkpoint of a later step, from another training run, the call returns ::KVS_E_EXISTS.
 * Collective; rank 0 writes. */
KVS_API kvs_status kvs_trainer_save(kvs_trainer *trainer, const char *dir, size_t keep,
                                    kvs_err *err);
/** Loads the newest complete checkpoint in `dir`.  The following steps have the same bits as if
 * training had never stopped.  *step (may be NULL) receives the checkpoint's step; 0 = `dir` has no
 * checkpoint, and nothing changed.  If a checkpoint is damaged, the next older one is loaded; if
 * all are damaged, the call returns ::KVS_E_FORMAT.  A checkpoint of another model, of other data
 * or of other settings (except those that may change) returns ::KVS_E_INVALID.  Collective. */
KVS_API kvs_status kvs_trainer_load(uint64_t *step, kvs_trainer *trainer, const char *dir,
                                    kvs_err *err);

#ifdef __cplusplus
}
#endif
#endif
