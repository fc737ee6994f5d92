/* formats/weights_open.h - a model being opened, filled by the reader of each format.  The rest of
 * the library includes only weights.h. */
#ifndef KVSI_FORMATS_WEIGHTS_OPEN_H
#define KVSI_FORMATS_WEIGHTS_OPEN_H

#include "base/json.h"
#include "base/mapping.h"
#include "base/read_ahead.h"
#include "formats/families.h"
#include "formats/gguf.h"
#include "formats/safetensors.h"
#include "formats/weights.h"

#include <stdatomic.h>

/* ---- content of a path (detect.c) ------------------------------------------------------------ */

typedef enum kvsi_content {
    KVSI_CONTENT_FOLDER,
    KVSI_CONTENT_FOLDER_MEMBER, /* config.json or the index, used for their folder */
    KVSI_CONTENT_JSON,          /* any other */
    KVSI_CONTENT_SAFETENSORS,
    KVSI_CONTENT_GGUF,
    KVSI_CONTENT_OTHER, /* llama2.c, whose legacy files have no magic number, or not a model */
} kvsi_content;

kvs_status kvsi_detect_content(kvsi_content *out, const char *path, kvs_err *err);

/* ---- the model ------------------------------------------------------------------------------- */

/* One safetensors file of a model. */
typedef struct kvsi_weights_shard {
    char *path;
    kvsi_safetensors *file;
} kvsi_weights_shard;

struct kvsi_weights {
    char *path; /* as given */
    char *file; /* the file that lists the tensors */
    kvsi_weights_format format;
    kvs_model_config config;
    kvsi_token_ids ids;
    kvsi_weights_tensor *tensors; /* their names are owned */
    size_t count, capacity;
    const kvsi_weights_tensor **by_name; /* sorted, after all are added */

    /* The mapped files, by format. */
    kvsi_weights_shard *shards;
    size_t shard_count;
    kvsi_gguf *gguf;
    kvsi_mapping map;
    atomic_int reads_ahead;
    kvsi_read_ahead *ahead;
};

/* Each fills all of `w` except path and by_name.  kvsi_weights_close releases it, also after a
 * failure. */
/* The folder's config.json and `file` with the weights; NULL = the folder's own files. */
kvs_status kvsi_weights_open_hf(kvsi_weights *w, const char *folder, const char *file,
                                kvs_err *err);
kvs_status kvsi_weights_open_gguf(kvsi_weights *w, const char *path, kvs_err *err);
kvs_status kvsi_weights_open_llama2c(kvsi_weights *w, const char *path, kvs_err *err);

/* Adds a view under `name`, which is copied; `file` contains it and must outlive the model. */
kvs_status kvsi_weights_add(kvsi_weights *w, const char *name, const kvsi_file_tensor *view,
                            size_t interleaved_heads, const char *file, kvs_err *err);
/* The same for rows in `runs` runs, each of which starts `run_step` rows after the one before.  All
 * of them must lie in the file. */
kvs_status kvsi_weights_add_runs(kvsi_weights *w, const char *name, const kvsi_file_tensor *view,
                                 size_t runs, size_t run_step, const char *file, kvs_err *err);
/* Adds the tensors whose rows are those of `tensor`, which has our name but for its end,
 * packed->name.  If they are interleaved, rows of rotary pairs are adjacent. */
kvs_status kvsi_weights_add_packed(kvsi_weights *w, const kvsi_file_tensor *tensor,
                                   const kvsi_packed_rows *packed, int interleaved,
                                   const char *file, kvs_err *err);

/* The part of a layer tensor's name after the layer number, and the number; NULL if it is not in
 * one of `layers` layers. */
const char *kvsi_layer_part(size_t *layer, const char *name, size_t layers);

/* The file in a folder that lists the tensors, in fresh memory (kvsi_free); NULL if the folder has
 * no weights. */
kvs_status kvsi_hf_find_weights(char **file, const char *folder, kvs_err *err);
/* Fails for a run folder without a model; the message names its newest checkpoint. */
kvs_status kvsi_hf_check_run(const char *folder, kvs_err *err);
/* Reads a config.json: ours, Hugging Face's or Baichuan's. */
kvs_status kvsi_hf_config_open(kvs_model_config *out, kvsi_weights_format *format, const char *path,
                               kvs_err *err);

/* ---- Baichuan-M1 (baichuan.c) ---------------------------------------------------------------- */

int kvsi_baichuan_recognises(const json_t *config);
/* Translates its config.json to ours: a new reference. */
kvs_status kvsi_baichuan_translate(json_t **out, const json_t *config, const char *what,
                                   kvs_err *err);
/* Adds the tensors that one of its tensors contains. */
kvs_status kvsi_baichuan_add(kvsi_weights *w, const kvsi_file_tensor *tensor, const char *file,
                             kvs_err *err);

#endif
