/* cli/train_samples.h - texts that a model makes while it is trained, on standard error. */
#ifndef KVSI_CLI_TRAIN_SAMPLES_H
#define KVSI_CLI_TRAIN_SAMPLES_H

#include "cli/train_setup.h"

typedef struct kvsi_train_samples {
    const kvs_tokenizer *tokenizer; /* borrowed; NULL = no samples */
    kvs_sampling sampling;
    int32_t *prompt, *made; /* ids */
    size_t prompt_count, tokens;
    char *prompt_text, *text; /* of those, as kvs_tokenizer_decode gives them */
    size_t prompt_size, text_size;
} kvsi_train_samples;

/* Settles the prompt, if --sample-every asks for samples; what cannot be sampled is refused here,
 * before training begins. */
kvs_status kvsi_train_samples_init(kvsi_train_samples *samples, const kvsi_train_setup *w,
                                   const kvsi_train_options *s, kvs_err *err);
void kvsi_train_samples_release(kvsi_train_samples *samples);

/* Makes a text, the same for the same weights; *out is borrowed until the next call. */
kvs_status kvsi_train_samples_make(kvsi_train_samples *samples, const kvs_model *model,
                                   kvs_sample *out, kvs_err *err);
/* Prints it with a bar before each line; bytes that are no text, and what could steer a terminal,
 * are replaced. */
void kvsi_train_samples_print(uint64_t step, const kvs_sample *sample);

#endif
