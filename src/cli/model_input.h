/* cli/model_input.h - the model and tokenizer options of commands that run a model. */
#ifndef KVSI_CLI_MODEL_INPUT_H
#define KVSI_CLI_MODEL_INPUT_H

#include "cli/configs.h"
#include "cli/options/options.h"

typedef struct kvsi_model_input {
    const char *model, *tokenizer; /* options -m and -t */
    size_t threads;
    const char *cpu_level;
    kvs_dtype kv_cache;
    const char *precision;
    int exact;
} kvsi_model_input;

extern const kvsi_name kvsi_kv_cache_names[]; /* types that a KV cache can have */

/* The rows of those options, for a command whose settings have a kvsi_model_input `input`. */
/* clang-format off */
#define KVSI_MODEL_ROWS(settings)                                                                  \
    {.name = "model", .letter = 'm', .kind = KVSI_SETTING_TEXT,                                    \
     .offset = offsetof(settings, input.model), .group = "Input", .placeholder = "MODEL",          \
     .help = "folder with config.json and safetensors, or a GGUF or llama2.c file; required"},     \
    {.name = "tokenizer", .letter = 't', .kind = KVSI_SETTING_TEXT,                                \
     .offset = offsetof(settings, input.tokenizer), .group = "Input", .placeholder = "FILE",       \
     .help = "tokenizer: a tokenizer.json, .model, .bin or GGUF file",                           \
     .automatic = "in the model's folder, in or beside its file"}
#define KVSI_SPEED_ROWS(settings)                                                                  \
    {.name = "threads", .kind = KVSI_SETTING_SIZE, .offset = offsetof(settings, input.threads),    \
     .group = "Run", .placeholder = "N", .help = "number of threads",                              \
     .automatic = "every core", .high = 1024},                                                     \
    {.name = "cpu-level", .kind = KVSI_SETTING_TEXT,                                               \
     .offset = offsetof(settings, input.cpu_level),                                                \
     .group = "Run", .placeholder = "NAME", .help = "CPU level of the kernels",                    \
     .automatic = "auto"},                                                                         \
    {.name = "kv-cache", .kind = KVSI_SETTING_ENUM, .offset = offsetof(settings, input.kv_cache),  \
     .group = "Run", .placeholder = "TYPE",                                                        \
     .help = "type of the KV cache; f16 takes half the memory of f32, q8_0 a quarter",             \
     .value = "f32",                                                                               \
     .names = kvsi_kv_cache_names},                                                                \
    {.name = "precision", .kind = KVSI_SETTING_CHOICE,                                             \
     .offset = offsetof(settings, input.precision),                                                \
     .group = "Run", .placeholder = "NAME", .choice_at = kvsi_precision_choice, .value = "f32",    \
     .help = "precision of matrix products; those of quantized weights are of integers"}
#define KVSI_RUN_ROWS(settings)                                                                    \
    KVSI_SPEED_ROWS(settings),                                                                     \
    {.name = "exact", .kind = KVSI_SETTING_FLAG, .offset = offsetof(settings, input.exact),        \
     .group = "Run",                                                                               \
     .help = "compute the same bits for a sequence alone, in a batch, and in parts of any size"}
/* clang-format on */

typedef struct kvsi_loaded_model {
    kvs_runtime *rt;
    kvs_model *model;
    kvs_tokenizer *tokenizer; /* NULL if there is none and none was needed */
} kvsi_loaded_model;

/* The tokenizer is that of -t, or the one in the model's folder, in its GGUF file, or beside its
 * file. */
kvs_status kvsi_model_input_load(kvsi_loaded_model *out, const kvsi_model_input *input,
                                 int needs_tokenizer, kvs_err *err);
void kvsi_loaded_model_release(kvsi_loaded_model *loaded);

/* Loads only the tokenizer; *out is NULL if there is none and it is not needed. */
kvs_status kvsi_model_tokenizer(kvs_tokenizer **out, const kvsi_model_input *input, int needed,
                                kvs_err *err);

/* Fails if the caches of that many sessions need more than the free memory; weights stay in their
 * file.  `hint` names options that need less. */
kvs_status kvsi_check_cache(const kvs_model *model, const kvs_session_options *how, size_t sessions,
                            const char *hint, kvs_err *err);

enum { KVSI_TEXT_LIMIT = 1 << 30 }; /* bytes of a text */

/* Reads all of a file, decompressed if it ends in .zst, or standard input if path is NULL or "-".
 * The caller frees *out with kvsi_free. */
kvs_status kvsi_read_text(char **out, size_t *size, const char *path, kvs_err *err);

/* Reads ids separated by commas or spaces.  The caller frees *out with kvsi_free. */
kvs_status kvsi_read_ids(int32_t **out, size_t *count, const char *text, kvs_err *err);

#endif
