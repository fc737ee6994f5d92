/* formats/weights.h - an open model of any format: its configuration, and its tensors with the
 * names and shapes of Hugging Face's Llama (or GPT-2) layout.
 *
 * Supported:
 *     a folder with config.json and model.safetensors, or shards and model.safetensors.index.json;
 *       the families of families.c (GPT-2's names with the prefix transformer., backbone. or
 *       none), ours, Baichuan-M1
 *     a .safetensors file, with config.json beside it
 *     a GGUF file, of the families of gguf_families.c, or ours
 *     a llama2.c .bin file, legacy or version 1
 * The format is detected by content, not by name; config.json or the index may be given instead of
 * their folder.
 *
 * Files stay mapped until close: opening reads only headers, and tensors are views.  Unused tensors
 * are left out: masks, rotary frequencies, a tied model's second copy of its table (if it differs
 * from the first, the model is refused).  Where a format stores a tensor differently from Llama's
 * layout (rows of rotary pairs adjacent; q, k and v in one matrix, also head by head; gains that
 * include the 1 of 1 + gain), the view describes it and _read converts it.  Input is untrusted:
 * after open every view lies within its file. */
#ifndef KVSI_FORMATS_WEIGHTS_H
#define KVSI_FORMATS_WEIGHTS_H

#include "config/config.h"
#include "formats/tensor.h"
#include "formats/token_ids.h"
#include "kvshift/kvshift_files.h"

typedef enum kvsi_weights_format {
    KVSI_FORMAT_HF,       /* safetensors with config.json */
    KVSI_FORMAT_BAICHUAN, /* the same, in Baichuan-M1's layout */
    KVSI_FORMAT_GGUF,
    KVSI_FORMAT_LLAMA2C,    /* legacy */
    KVSI_FORMAT_LLAMA2C_V1, /* "ak42", version 1 */
} kvsi_weights_format;

typedef struct kvsi_weights_tensor {
    kvsi_file_tensor view;    /* with our name and shape */
    size_t interleaved_heads; /* the rows are those of this many heads, with the rows of each rotary
                                 pair adjacent; 0 = our order */
    size_t runs, run_step;    /* the rows are this many runs of equal length, and each run starts
                                 this many rows after the one before; 0 = they have no gaps */
    int plus_one;             /* the file has 1 + value: gains, which are no matrices */
    const char *file;         /* that contains it */
} kvsi_weights_tensor;

typedef struct kvsi_weights kvsi_weights;

kvs_status kvsi_weights_open(kvsi_weights **out, const char *path, kvs_err *err);
void kvsi_weights_close(kvsi_weights *weights);

const char *kvsi_weights_path(const kvsi_weights *weights); /* as given */
const char *kvsi_weights_file(const kvsi_weights *weights); /* the file that lists the tensors */
kvsi_weights_format kvsi_weights_get_format(const kvsi_weights *weights);
/* Implements kvs_model_config_load, with a struct for the result. */
kvs_status kvsi_model_config_load(kvs_model_config *out, const char *path, kvs_err *err);
const kvs_model_config *kvsi_weights_config(const kvsi_weights *weights); /* finished */
const kvsi_token_ids *kvsi_weights_token_ids(const kvsi_weights *weights);

size_t kvsi_weights_count(const kvsi_weights *weights);
const kvsi_weights_tensor *kvsi_weights_at(const kvsi_weights *weights, size_t index);
/* NULL if there is no such tensor.  A tied pair is one tensor, the embedding; both names find
 * it. */
const kvsi_weights_tensor *kvsi_weights_find(const kvsi_weights *weights, const char *name);

/* Whether the values in the file are in our order and without gaps. */
int kvsi_weights_is_whole(const kvsi_weights_tensor *tensor);
/* The bytes from the first value in the file to the last, gaps included. */
size_t kvsi_weights_extent(const kvsi_weights_tensor *tensor);

/* Starts reading all tensors from disk in the background.  Only the first call has an effect.
 * Thread-safe. */
void kvsi_weights_read_ahead(kvsi_weights *weights);

/* The values of a tensor, or of some rows, as float32, rows in our order.  The tensor must not be
 * empty, and rows must be whole blocks. */
void kvsi_weights_read(float *out, const kvsi_weights_tensor *tensor);
void kvsi_weights_read_rows(float *out, const kvsi_weights_tensor *tensor, size_t first,
                            size_t count);

#endif
