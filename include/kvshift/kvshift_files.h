/** @file kvshift_files.h
 * The files that the command reads and writes: models, texts, corpora and run folders.  This is the
 * second half of the stable API; the rules of kvshift.h apply.
 *
 *   tokenizer training   a vocabulary from texts
 *   model files          what is in them, checks, conversion to other formats
 *   chat templates       messages as the text that a model was trained on
 *   documents            the texts of a file
 *   corpora              texts as numbered tokens on disk
 *   training files       conversations, and texts that are not a corpus, as data in memory
 *   runs                 training with a folder: log, checkpoints, samples, result
 */
#ifndef KVSHIFT_FILES_H
#define KVSHIFT_FILES_H

#include <kvshift/kvshift.h>

#ifdef __cplusplus
extern "C" {
#endif

/* ---- tokenizer training ---------------------------------------------------------------------- */

/** Options of kvs_tokenizer_train(). */
typedef struct kvs_tokenizer_training {
    size_t size;  /**< set by kvs_tokenizer_training_init() */
    size_t vocab; /**< final number of tokens, including special tokens and the 256 bytes; 8192 by
                       default */
    const char *const *special; /**< special tokens, which come first in the vocabulary */
    size_t specials;            /**< number of special tokens */
    const char *field;          /**< .jsonl, .json: the key of a document's text; NULL = "text" */
    const char *separator; /**< text: the string between documents; NULL = "<|endoftext|>", "" = the
                                file is one document */
    int threads;           /**< 0 = every core */
    /** Called from time to time with the merges done and their total; non-zero stops with
     * ::KVS_E_STOPPED. */
    int (*progress)(void *user, size_t done, size_t wanted);
    void *user; /**< passed to the callback */
} kvs_tokenizer_training;

/** Sets the defaults; `size` is sizeof *options. */
KVS_API void kvs_tokenizer_training_init(kvs_tokenizer_training *options, size_t size);
/** Trains a byte-level BPE (GPT-2's pre-tokenizer) on the documents of text files, which are read
 * as kvs_corpus_build() reads them.  No merge crosses the end of a document.  Among equally
 * frequent pairs, the one with the greater bytes is merged first. */
KVS_API kvs_status kvs_tokenizer_train(kvs_tokenizer **out, const char *const *files, size_t count,
                                       const kvs_tokenizer_training *options, kvs_err *err);

/* ---- model files ----------------------------------------------------------------------------- */

/** Describes the model at a path. */
typedef struct kvs_model_info {
    size_t size;        /**< sizeof(kvs_model_info), set by the caller */
    const char *format; /**< "safetensors", "GGUF", "llama2.c", ... */
    size_t files;       /**< number of files with weights */
    size_t tensors;     /**< number of tensors; 0 = there is a configuration, but no weights */
    const char *dtype;  /**< type of most values: "F32", "F16", "BF16"; NULL without weights */
    int is_mixed;       /**< 1 = some values have another type */
    int has_vocabulary; /**< 1 = the file also contains a tokenizer, for kvs_tokenizer_load() */
    uint64_t bytes;     /**< size of all tensors as stored */
} kvs_model_info;

/** Describes a model; reads only headers. */
KVS_API kvs_status kvs_model_describe(kvs_model_info *out, const char *path, kvs_err *err);

/** The result of kvs_model_check(). */
typedef struct kvs_model_check_result {
    size_t size;       /**< sizeof(kvs_model_check_result), set by the caller */
    int has_checksums; /**< 1 = the checksums match; 0 = there are none to compare with */
    size_t tensors;    /**< number of tensors in all files */
    uint64_t values;   /**< number of values in all tensors */
} kvs_model_check_result;

/** Reads a whole model and checks that files match the checksums in a checkpoint's state.json, that
 * tensors match the configuration, and that every value is finite.  The first error is returned as
 * ::KVS_E_FORMAT, with the tensor and the index in it.  `out` may be NULL. */
KVS_API kvs_status kvs_model_check(kvs_model_check_result *out, const char *path, kvs_err *err);

/** File formats of models. */
typedef enum kvs_format {
    KVS_FORMAT_AUTO,       /**< by file name: .gguf is gguf, .bin is llama2c, anything else is hf */
    KVS_FORMAT_HF,         /**< a folder in Hugging Face's layout */
    KVS_FORMAT_GGUF,       /**< the architecture of llama.cpp that computes the same, or kvshift */
    KVS_FORMAT_GGUF_LLAMA, /**< an architecture of llama.cpp, or fail */
    KVS_FORMAT_LLAMA2C,    /**< plain Llama models only */
    KVS_FORMAT_LLAMA2C_V1  /**< version 1 of llama2.c's format; plain Llama models only */
} kvs_format;

/** Returns "auto", "hf", "gguf", "gguf-llama", "llama2c" or "llama2c-v1"; NULL for another
 * value. */
KVS_API const char *kvs_format_name(kvs_format format);
/** Finds the format with a name. */
KVS_API kvs_status kvs_format_parse(kvs_format *out, const char *name, kvs_err *err);

/** Options of kvs_convert(). */
typedef struct kvs_convert_options {
    size_t size;                    /**< set by kvs_convert_options_init() */
    const kvs_model_config *config; /**< without an input: the configuration of a random model */
    uint64_t seed;     /**< without an input: the seed of its weights, as in kvs_model_create() */
    kvs_format format; /**< of the output */
    kvs_dtype dtype;   /**< of matrices; gains, biases and the shift's parameters are always F32 */
    const char *tokenizer; /**< path for kvs_tokenizer_load(), or "none"; NULL = the input's */
    uint64_t shard_bytes;  /**< hf: larger weights are split into several files of this size */
    int overwrite;         /**< 1 = replace an existing file, or a folder that contains only a
                                model; 0 = return ::KVS_E_EXISTS */
    int threads;           /**< for drawing random weights; 0 = every core */
    /** Called after each tensor with the bytes done and their total; non-zero stops with
     * ::KVS_E_STOPPED. */
    int (*progress)(void *user, uint64_t done, uint64_t all);
    /** Called with a sentence about each difference between the output and the request, such as a
     * matrix stored in another type.  The library owns the string. */
    void (*notice)(void *user, const char *line);
    void *user; /**< passed to the callbacks */
    /** The shift of this configuration is added to an input without one, as by
     * kvs_model_retrofit(); NULL = none. */
    const kvs_model_config *shift;
    /** 1 = merge low-rank adapters into the matrices.  The input is a model with adapters, or a
     * folder that PEFT or kvs_model_save() wrote, with adapter_config.json. */
    int merge;
    /** The model that such a folder belongs to; NULL = the one that adapter_config.json names. */
    const char *base;
} kvs_convert_options;

/** Sets the defaults; `size` is sizeof *options. */
KVS_API void kvs_convert_options_init(kvs_convert_options *options, size_t size);
/** Converts the model at `in` (a path for kvs_model_load(), or NULL = random weights) to `out`, a
 * file or for hf a folder.  It works tensor by tensor, so the model need not fit into memory.  The
 * output is complete or absent.  A shifted Llama in format hf includes modeling_kvshift.py, so that
 * `transformers` can run it.  A model that a format cannot express returns ::KVS_E_UNSUPPORTED.
 * See docs/formats.md. */
KVS_API kvs_status kvs_convert(const char *out, const char *in, const kvs_convert_options *options,
                               kvs_err *err);

/* ---- chat templates -------------------------------------------------------------------------- */

/** Turns messages into the text that a model expects.  A template is written in the subset of Jinja
 * that chat templates use; its output has the bytes of `transformers`.  Several threads may use one
 * template at once. */
typedef struct kvs_chat_template kvs_chat_template;

/** Returns the name of the built-in template with this index, "chatml" and others; NULL past the
 * end. */
KVS_API const char *kvs_chat_template_name(size_t index);
/** Loads a template.  `source` is the name of a built-in one, a file with the text of a template,
 * or NULL = the template of the model at the path `model`: chat_template.jinja or
 * tokenizer_config.json in its folder, or tokenizer.chat_template in a GGUF file.  These files also
 * give bos_token and other special tokens; without files they are those of `tokenizer`. `model` may
 * be NULL if `source` is not, and `tokenizer` may be NULL.  A template with something
 * that is not known returns ::KVS_E_UNSUPPORTED with its line and name. */
KVS_API kvs_status kvs_chat_template_load(kvs_chat_template **out, const char *model,
                                          const char *source, const kvs_tokenizer *tokenizer,
                                          kvs_err *err);
/** Makes a template from its text.  It has no special tokens. */
KVS_API kvs_status kvs_chat_template_create(kvs_chat_template **out, const char *text, size_t size,
                                            kvs_err *err);
/** Frees a template. */
KVS_API void kvs_chat_template_free(kvs_chat_template *chat_template);
/** Returns the text that ends a message of the assistant, such as "<|im_end|>"; "" = there is none
 * or it cannot be found out.  The template owns it. */
KVS_API const char *kvs_chat_template_stop(const kvs_chat_template *chat_template);
/** Returns the text of the template itself, which the template owns. */
KVS_API const char *kvs_chat_template_text(const kvs_chat_template *chat_template);

/** Options of kvs_chat_render(). */
typedef struct kvs_chat_options {
    size_t size;               /**< set by kvs_chat_options_init() */
    int add_generation_prompt; /**< 1 = end with the start of the assistant's next message */
    const char *variables;     /**< a JSON object with more variables of the template, such as
                                    {"tools": [...], "enable_thinking": false}; NULL = none */
    int64_t now; /**< seconds since 1970 for templates that write the date; 0 = the clock */
} kvs_chat_options;

/** Sets the defaults; `size` is sizeof *options. */
KVS_API void kvs_chat_options_init(kvs_chat_options *options, size_t size);
/** Renders messages, a JSON array of objects with "role" and "content" as `transformers` takes
 * them.  *text ends with NUL; *size does not count the NUL.  Free *text with kvs_text_free().
 * Encode it with ::KVS_ENCODE_NO_SPECIAL, since it contains the special tokens.  Errors of the
 * template return ::KVS_E_INVALID with the line; steps, depth, memory and output are limited:
 * ::KVS_E_LIMIT. */
KVS_API kvs_status kvs_chat_render(char **text, size_t *size,
                                   const kvs_chat_template *chat_template, const char *messages,
                                   size_t messages_size, const kvs_chat_options *options,
                                   kvs_err *err);

/* ---- documents ------------------------------------------------------------------------------- */

/** Reads the documents of a text, .jsonl or .json file, plain or as .gz or .zst, one by one. */
typedef struct kvs_documents kvs_documents;

/** Opens a file.  In .jsonl and .json, `field` is the key of a document's text (NULL = "text").
 * In a text, `separator` is the string between documents (NULL = "<|endoftext|>", "" = the file is
 * one document). */
KVS_API kvs_status kvs_documents_open(kvs_documents **out, const char *path, const char *field,
                                      const char *separator, kvs_err *err);
/** Closes the file. */
KVS_API void kvs_documents_close(kvs_documents *documents);
/** Returns the next part of a document, which is borrowed until the next call and does not end with
 * NUL.  A document of more than 16 MiB has several parts, any other document has one.  *last is 1
 * for the last part of a document; if there are several, the last may be empty.  *text is NULL
 * after the last document. */
KVS_API kvs_status kvs_documents_next(const char **text, size_t *size, int *last,
                                      kvs_documents *documents, kvs_err *err);
/** Returns the checksum of the bytes read so far.  At the end of the file it equals the checksum
 * that kvs_corpus_source() returns. */
KVS_API uint64_t kvs_documents_checksum(const kvs_documents *documents);

/* ---- corpora --------------------------------------------------------------------------------- */

/** Whether documents end with the tokenizer's EOS. */
typedef enum kvs_eos {
    KVS_EOS_AUTO, /**< if the tokenizer has an EOS */
    KVS_EOS_NO,   /**< never */
    KVS_EOS_YES   /**< always, or fail */
} kvs_eos;

/** Progress of kvs_corpus_build(). */
typedef struct kvs_corpus_progress {
    int counting; /**< 1 = first pass over the files, counts documents; 0 = second pass, encodes */
    uint64_t bytes;     /**< bytes of the files read so far */
    uint64_t size;      /**< bytes of all files */
    uint64_t documents; /**< documents so far */
    uint64_t tokens;    /**< tokens so far */
} kvs_corpus_progress;

/** Options of kvs_corpus_build(). */
typedef struct kvs_corpus_build_options {
    size_t size;           /**< set by kvs_corpus_build_options_init() */
    const char *field;     /**< .jsonl, .json: the key of a document's text; NULL = "text" */
    const char *separator; /**< text: the string between documents; NULL = "<|endoftext|>", "" = the
                                file is one document */
    kvs_eos eos;           /**< at the end of each document */
    double valid;          /**< fraction for validation, 0 <= valid < 1 */
    uint64_t seed;         /**< of the split */
    uint64_t shard_tokens; /**< a shard ends with the document that reaches this number */
    int overwrite;         /**< 1 = replace an existing corpus; 0 = return ::KVS_E_EXISTS */
    /** Called from time to time; non-zero stops with ::KVS_E_STOPPED and removes what was
     * written. */
    int (*progress)(void *user, const kvs_corpus_progress *progress);
    /** Called with a remark about the texts, such as CRLF line ends; the library owns the
     * string. */
    void (*notice)(void *user, const char *line);
    void *user; /**< passed to the callbacks */
} kvs_corpus_build_options;

/** Sets the defaults; `size` is sizeof *options. */
KVS_API void kvs_corpus_build_options_init(kvs_corpus_build_options *options, size_t size);
/** Builds a corpus: the folder `dir` with the tokens of both splits, corpus.json and the tokenizer
 * (a path for kvs_tokenizer_load()).  `files` are read twice, as streams; a folder among them
 * stands for the texts in it.  The corpus is complete or absent.  See docs/data.md. */
KVS_API kvs_status kvs_corpus_build(const char *dir, const char *const *files, size_t count,
                                    const char *tokenizer, const kvs_corpus_build_options *options,
                                    kvs_err *err);

/** The two parts of a corpus. */
typedef enum kvs_split {
    KVS_SPLIT_TRAIN, /**< for training */
    KVS_SPLIT_VALID  /**< for validation */
} kvs_split;

/** How a corpus was split. */
typedef enum kvs_split_rule {
    KVS_SPLIT_NONE,        /**< everything is for training */
    KVS_SPLIT_BY_DOCUMENT, /**< by a hash of the seed and the document's number */
    KVS_SPLIT_BY_POSITION  /**< one document: its last part is for validation */
} kvs_split_rule;

/** Options of kvs_corpus_open(). */
typedef struct kvs_corpus_options {
    size_t size;       /**< set by kvs_corpus_options_init() */
    size_t vocab;      /**< vocabulary of llm.c and nanoGPT files, which do not record it; 0 = not
                            known */
    const char *valid; /**< a validation file of the same format; NULL = none */
    const kvs_tokenizer *tokenizer; /**< must be the tokenizer that the corpus was built with; NULL
                                         = not compared */
} kvs_corpus_options;

typedef struct kvs_corpus kvs_corpus; /**< text as numbered tokens on disk */

/** Sets the defaults; `size` is sizeof *options. */
KVS_API void kvs_corpus_options_init(kvs_corpus_options *options, size_t size);
/** Opens a folder that kvs_corpus_build() wrote, or one file: a shard of such a folder, llm.c's
 * .bin, or nanoGPT's .bin (16-bit ids without a header).  Files are mapped, not read into memory.
 * The call checks that all ids are less than the vocabulary. */
KVS_API kvs_status kvs_corpus_open(kvs_corpus **out, const char *path,
                                   const kvs_corpus_options *options, kvs_err *err);
/** Closes the files. */
KVS_API void kvs_corpus_close(kvs_corpus *corpus);
/** One split of a corpus. */
typedef struct kvs_split_info {
    uint64_t tokens;    /**< tokens in all documents */
    uint64_t documents; /**< number of documents */
    uint64_t longest;   /**< tokens of the longest document */
    size_t shards;      /**< number of files */
} kvs_split_info;

/** Describes a corpus. */
typedef struct kvs_corpus_info {
    const char *format;      /**< "kvshift", "llm.c" or "nanoGPT" */
    const char *tokenizer;   /**< "bytes", the path of tokenizer.json, or NULL = not known */
    uint64_t tokenizer_hash; /**< see kvs_tokenizer_hash() */
    size_t vocab;            /**< number of tokens */
    size_t id_bytes;         /**< bytes of one stored token */
    int eos;                 /**< 1 = documents end with the tokenizer's EOS */
    kvs_split_rule rule;     /**< how the corpus was split */
    double valid;            /**< fraction for validation */
    uint64_t seed;           /**< of the split */
    kvs_split_info split[2]; /**< ::KVS_SPLIT_TRAIN, ::KVS_SPLIT_VALID */
} kvs_corpus_info;

/** Returns the description of a corpus; the corpus owns it. */
KVS_API const kvs_corpus_info *kvs_corpus_get_info(const kvs_corpus *corpus);
/** Loads the tokenizer that the corpus was built with and checks that it matches the shards.  *out
 * is NULL if the tokenizer is not known. */
KVS_API kvs_status kvs_corpus_load_tokenizer(kvs_tokenizer **out, const kvs_corpus *corpus,
                                             kvs_err *err);
/** Makes the last `fraction` of the tokens of a single llm.c or nanoGPT file the validation split.
 * The corpus must not have a validation split yet. */
KVS_API kvs_status kvs_corpus_hold_out(kvs_corpus *corpus, double fraction, kvs_err *err);
/** Checks that all files match their checksums, and that the tokenizer in the folder is the one
 * that the shards were built with. */
KVS_API kvs_status kvs_corpus_check(const kvs_corpus *corpus, kvs_err *err);

/** Returns the path of the text file with this index from which the corpus was built; NULL past the
 * end.  *bytes and *checksum (may be NULL) receive its size and checksum. */
KVS_API const char *kvs_corpus_source(const kvs_corpus *corpus, size_t index, uint64_t *bytes,
                                      uint64_t *checksum);
/** Copies at most `count` tokens of a split, starting with token number `first` of all documents in
 * order.  Returns the number of tokens copied. */
KVS_API size_t kvs_corpus_read(int32_t *ids, size_t count, const kvs_corpus *corpus,
                               kvs_split split, uint64_t first);
/** Copies the first tokens of a document, at most `capacity`.  Returns the length of the document;
 * 0 past the last one. */
KVS_API size_t kvs_corpus_document(int32_t *ids, size_t capacity, const kvs_corpus *corpus,
                                   kvs_split split, uint64_t index);
/** Returns the number of windows of a split, which are the sequences of one epoch. */
KVS_API uint64_t kvs_corpus_windows(const kvs_corpus *corpus, kvs_split split, size_t context);

/** Creates data from a corpus, which is borrowed.  Documents are cut into windows of at most
 * `context` fed tokens.  A window never contains parts of two documents; each token but the first
 * of a document is a target once.  The training stream contains the windows of the training split,
 * shuffled again in each epoch; sequence i depends only on the seed and i.  The evaluation stream
 * contains the windows of the validation split in order, and starts again after the last. */
KVS_API kvs_status kvs_data_create_corpus(kvs_data **out, const kvs_corpus *corpus, size_t context,
                                          kvs_err *err);

/* ---- training files -------------------------------------------------------------------------- */

/** What the records of a training file are. */
typedef enum kvs_record_kind {
    KVS_RECORD_TEXT,    /**< documents: {"text": ...}, or a text file */
    KVS_RECORD_PAIR,    /**< {"prompt": ..., "response": ...} */
    KVS_RECORD_MESSAGES /**< {"messages": [{"role": ..., "content": ...}, ...]} */
} kvs_record_kind;

/** Finds the kind of a file from its first record. `field` is the key of a document's text, NULL =
 * "text". */
KVS_API kvs_status kvs_records_detect(kvs_record_kind *out, const char *path, const char *field,
                                      kvs_err *err);

/** Options of kvs_data_create_records(). */
typedef struct kvs_records_options {
    size_t size;                            /**< set by kvs_records_options_init() */
    const kvs_tokenizer *tokenizer;         /**< required; only used by the call */
    const kvs_chat_template *chat_template; /**< renders messages; only used by the call */
    size_t length;                          /**< longest sequence, in fed tokens; required */
    const char *valid; /**< a file of the same kind for validation; NULL = a part of the first */
    double fraction;   /**< of the records that are for validation, 0 <= fraction < 1; 0.05 by
                            default, 0 = nothing is evaluated */
    uint64_t seed;     /**< of that split */
    int loss_all;      /**< 1 = every token has a loss; 0 = only responses have */
    int refuse_long;   /**< 1 = a longer conversation is an error; 0 = its end is cut off */
    const char *field; /**< key of a document's text; NULL = "text" */
    const char *separator; /**< between the documents of a text; NULL = "<|endoftext|>" */
} kvs_records_options;

/** A split of a training file. */
typedef struct kvs_records_split {
    uint64_t records;   /**< conversations or documents */
    uint64_t sequences; /**< sequences of one epoch */
    uint64_t tokens;    /**< tokens of the records, without those that were cut off */
    uint64_t targets;   /**< tokens with a loss */
    uint64_t bytes;     /**< size of the file */
    uint64_t checksum;  /**< checksum of the file */
} kvs_records_split;

/** Describes the data of kvs_data_create_records(). */
typedef struct kvs_records_info {
    size_t size;          /**< sizeof(kvs_records_info), set by the caller */
    kvs_record_kind kind; /**< of all records */
    uint64_t cut;         /**< conversations that were longer than the longest sequence */
    uint64_t dropped;     /**< conversations without any token that has a loss */
    uint64_t inside;  /**< starts and ends of responses that are inside a token, which then has a
                           loss */
    uint64_t longest; /**< tokens of the longest conversation before cutting */
    kvs_records_split split[2]; /**< ::KVS_SPLIT_TRAIN, ::KVS_SPLIT_VALID */
} kvs_records_info;

/** Sets the defaults; `size` is sizeof *options. */
KVS_API void kvs_records_options_init(kvs_records_options *options, size_t size);
/** Reads a training file, encodes its records, and creates data that owns the tokens.  A
 * conversation is one sequence, a document is cut into sequences as in kvs_data_create_corpus().
 * The training stream has every sequence once per epoch, in an order that depends on the seed and
 * the epoch; the evaluation stream repeats the validation part.  The tokens of a response are found
 * by rendering the messages before it: see docs/finetuning.md.  *info may be NULL. */
KVS_API kvs_status kvs_data_create_records(kvs_data **out, kvs_records_info *info, const char *path,
                                           const kvs_records_options *options, kvs_err *err);

/* ---- runs ------------------------------------------------------------------------------------ */

/** What kvs_train() does if the folder already contains a run. */
typedef enum kvs_resume {
    KVS_RESUME_NEVER,  /**< start a new run; fails if the folder contains one */
    KVS_RESUME_ALWAYS, /**< continue from the newest complete checkpoint; fails if there is none;
                            the folder has no model outside ckpt/ until the run has ended again */
    KVS_RESUME_AUTO    /**< continue if there is a checkpoint, otherwise start a new run */
} kvs_resume;

/** A text that the model generated during training; may be invalid UTF-8. */
typedef struct kvs_sample {
    const char *prompt; /**< the text that the model continued */
    const char *text;   /**< the continuation, without the prompt */
    size_t prompt_size; /**< in bytes */
    size_t text_size;   /**< in bytes */
} kvs_sample;

/** The score of a model on a benchmark during training. */
typedef struct kvs_benchmark_score {
    const char *task;   /**< name of a task or a group: "arc_easy" */
    const char *metric; /**< "acc", "acc_norm", "perplexity" or "exact_match" */
    double value;       /**< the score */
    double error;       /**< its standard error; NaN = none */
    size_t documents;   /**< documents that were scored */
} kvs_benchmark_score;

/** What a benchmark callback returns. */
typedef struct kvs_benchmark_scores {
    const kvs_benchmark_score *scores; /**< NULL = none */
    size_t count;                      /**< number of scores */
} kvs_benchmark_scores;

/** What a progress callback may request; flags. */
enum {
    KVS_PROGRESS_STOP = 1, /**< end the run cleanly, with a checkpoint */
    KVS_PROGRESS_SAVE = 2  /**< write a checkpoint */
};

/** A text file of the caller for the run folder. */
typedef struct kvs_run_file {
    const char *name; /**< file name */
    const char *text; /**< contents */
    int append; /**< 1 = a resumed run appends the text to an existing file; 0 = it replaces it */
} kvs_run_file;

/** Options of kvs_train(). */
typedef struct kvs_train_options {
    size_t size;                    /**< set by kvs_train_options_init() */
    const char *out;                /**< run folder; NULL = write nothing */
    const char *command;            /**< recorded in the settings; NULL = none */
    const kvs_run_file *files;      /**< written with the folder, before the first step */
    size_t file_count;              /**< number of files */
    const kvs_tokenizer *tokenizer; /**< saved with the model and every checkpoint; NULL = none */
    kvs_resume resume;              /**< what to do with a folder that contains a run */
    /** Called after every step.  It returns 0, ::KVS_PROGRESS_STOP or ::KVS_PROGRESS_SAVE, which
     * take effect before the next step. */
    int (*progress)(void *user, const kvs_step_record *record);
    /** Called after every "sample-every" steps to generate a text with the current model, which it
     * must not change.  The run folder records *out, which is zeroed before the call; if `text`
     * stays NULL, nothing is recorded.  The strings are borrowed until the next call. */
    void (*sample)(void *user, const kvs_model *model, uint64_t step, kvs_sample *out);
    /** Called with one line about something unusual that did not stop the run; may be NULL. */
    void (*notice)(void *user, const char *line);
    void *user; /**< passed to the callbacks */
    /** Called after every "eval-tasks-every" steps, before `progress`, to score the current model,
     * which it must not change.  The run folder records *out, which is zeroed before the call.  If
     * the count stays 0, nothing is recorded, and a run that is resumed from this step calls again.
     * The scores are borrowed until the next call.  It returns 0 or ::KVS_PROGRESS_STOP. */
    int (*benchmark)(void *user, const kvs_model *model, uint64_t step, kvs_benchmark_scores *out);
} kvs_train_options;

/** The result of a run. */
typedef struct kvs_train_result {
    size_t size;         /**< sizeof(kvs_train_result), set by the caller */
    uint64_t steps;      /**< number of steps done */
    uint64_t step_at_99; /**< first step at which the accuracy of the last 20 batches averages 99 %;
                               0 = never */
    uint64_t tokens;     /**< tokens fed in training */
    double seconds;      /**< time of training */
    kvs_evaluation final; /**< the last evaluation; its `size` is ignored */
} kvs_train_result;

/** Sets the defaults; `size` is sizeof *options. */
KVS_API void kvs_train_options_init(kvs_train_options *options, size_t size);
/** Trains a model: a whole run with steps, evaluations, and a folder with train.jsonl (settings,
 * then one record per step), train.csv and tb/ (the same records as a table and for TensorBoard),
 * samples.jsonl, result.json, config.json, model.safetensors, tokenizer.json, the caller's files,
 * and ckpt/ with checkpoints, from which a run continues with the same bits as if it had never
 * stopped.  A lock on the log keeps a second process from using the folder.  docs/run-folder.md
 * describes every file.  `result` may be NULL. */
KVS_API kvs_status kvs_train(kvs_train_result *result, kvs_model *model, const kvs_data *data,
                             const kvs_train_config *config, const kvs_train_options *options,
                             kvs_err *err);
/** Finds out whether a folder contains a run, which kvs_train() would refuse unless it resumes.
 * *file receives the name of a file that shows it (a static string); NULL = there is no run. */
KVS_API kvs_status kvs_run_find(const char **file, const char *dir, kvs_err *err);

#ifdef __cplusplus
}
#endif
#endif
