/* cli/model_input.h - a model and its tokenizer, as commands that run models take them. */
#ifndef KVSI_CLI_MODEL_INPUT_H
#define KVSI_CLI_MODEL_INPUT_H

#include "base/options.h"

typedef struct kvsi_model_input {
    const char *model, *tokenizer; /* options -m and -t */
    size_t threads;
    const char *cpu_level;
} kvsi_model_input;

typedef struct kvsi_loaded_model {
    kvs_runtime *rt;
    kvs_model *model;
    kvs_tokenizer *tokenizer; /* NULL if there is none and none was needed */
} kvsi_loaded_model;

/* The tokenizer is that of -t, or the one in the model's folder. */
kvs_status kvsi_model_input_load(kvsi_loaded_model *out, const kvsi_model_input *input,
                                 int needs_tokenizer, kvs_err *err);
void kvsi_loaded_model_release(kvsi_loaded_model *loaded);

/* All of a file, or of standard input where path is NULL or "-"; fresh memory (kvsi_free). */
kvs_status kvsi_read_text(char **out, size_t *size, const char *path, kvs_err *err);

/* Ids written with commas or spaces between them; fresh memory (kvsi_free). */
kvs_status kvsi_read_ids(int32_t **out, size_t *count, const char *text, kvs_err *err);

#endif
