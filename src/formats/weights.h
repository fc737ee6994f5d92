/* formats/weights.h - an open model, whatever its format: its configuration, and its tensors under
 * the names and in the shapes of Hugging Face's Llama (or GPT-2) layout.
 *
 * Opened are:
 *     a folder with config.json and model.safetensors, or shards and model.safetensors.index.json;
 *       plain Llama, GPT-2 (names with the prefix transformer., backbone. or none), ours,
 *       Baichuan-M1
 *     a .safetensors file, with config.json beside it
 *     a GGUF file, architecture llama or kvshift
 *     a llama2.c .bin file, legacy or version 1
 * A file is known by what is in it, not by its name; config.json and the index stand for their
 * folder.
 *
 * Files are mapped and stay so until the close: opening costs no more than the headers, and tensors
 * are views.  What does not count is left out: masks, rotary frequencies, a tied model's second
 * copy of its table (compared with the first: a different one is refused).  Where a format stores a
 * tensor otherwise than Llama's layout does (rows of rotary pairs side by side, q, k and v in one
 * matrix), the view says how, and _read undoes it.  A file is hostile until checked: after the open
 * every view lies within its file. */
#ifndef KVSI_FORMATS_WEIGHTS_H
#define KVSI_FORMATS_WEIGHTS_H

#include "formats/tensor.h"
#include "formats/token_ids.h"

typedef enum kvsi_weights_format {
    KVSI_FORMAT_HF,       /* safetensors with config.json */
    KVSI_FORMAT_BAICHUAN, /* the same, in Baichuan-M1's layout */
    KVSI_FORMAT_GGUF,
    KVSI_FORMAT_LLAMA2C,    /* legacy */
    KVSI_FORMAT_LLAMA2C_V1, /* "ak42", version 1 */
} kvsi_weights_format;

typedef struct kvsi_weights_tensor {
    kvsi_file_tensor view;    /* named and shaped as we do */
    size_t interleaved_heads; /* rows are those of this many heads, each with its rotary pairs side
                                 by side, where ours are half a head apart; 0 = as ours */
    const char *file;         /* that has it */
} kvsi_weights_tensor;

typedef struct kvsi_weights kvsi_weights;

kvs_status kvsi_weights_open(kvsi_weights **out, const char *path, kvs_err *err);
void kvsi_weights_close(kvsi_weights *weights);

const char *kvsi_weights_path(const kvsi_weights *weights); /* as it was given */
const char *kvsi_weights_file(const kvsi_weights *weights); /* that says which tensors there are */
kvsi_weights_format kvsi_weights_get_format(const kvsi_weights *weights);
const kvs_model_config *kvsi_weights_config(const kvsi_weights *weights); /* finished */
const kvsi_token_ids *kvsi_weights_token_ids(const kvsi_weights *weights);

size_t kvsi_weights_count(const kvsi_weights *weights);
const kvsi_weights_tensor *kvsi_weights_at(const kvsi_weights *weights, size_t index);
/* NULL: no such tensor.  A tied pair is one tensor, the embedding, which either name finds. */
const kvsi_weights_tensor *kvsi_weights_find(const kvsi_weights *weights, const char *name);

/* All tensors are about to be read: brings them in from disk beside other work.  Only the first
 * call does something; may be called by several threads. */
void kvsi_weights_read_ahead(kvsi_weights *weights);

/* All numbers of a tensor as float32, rows in our order; or those of some rows.  It has a shape,
 * without zeros, and whole blocks a row. */
void kvsi_weights_read(float *out, const kvsi_weights_tensor *tensor);
void kvsi_weights_read_rows(float *out, const kvsi_weights_tensor *tensor, size_t first,
                            size_t count);

#endif
