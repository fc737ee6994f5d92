/* serve/sampling.h - how a token is chosen: the sampler of the library, and before it what only
 * requests have.
 *
 * The logits are changed in this order: biases, repetition penalty, frequency and presence
 * penalties, tokens that may not end the text yet.  The sampler then applies temperature, top_k,
 * top_p and min_p.  Log-probabilities are those of the unchanged logits. */
#ifndef KVSI_SERVE_SAMPLING_H
#define KVSI_SERVE_SAMPLING_H

#include "serve/request.h"

typedef struct kvsi_chooser kvsi_chooser;

/* Creates a chooser among `count` ids.  The request is borrowed; `sample` is added to its seed.
 * The prompt counts for the repetition penalty. */
kvs_status kvsi_chooser_create(kvsi_chooser **out, const kvsi_request *request, size_t sample,
                               size_t count, const int32_t *prompt, size_t prompt_count,
                               kvs_err *err);
void kvsi_chooser_free(kvsi_chooser *chooser);
/* Chooses the next token.  None of ends[end_count], which may be beyond `count`, is chosen. */
int32_t kvsi_chooser_next(kvsi_chooser *chooser, const float *logits, const int32_t *ends,
                          size_t end_count);

#endif
