/* convert/merged.h - low-rank adapters that are merged into the matrices of a model:
 * W + scale B A.  They are in the model's own file, as a run leaves them, or in a folder that PEFT
 * or kvs_model_save() wrote. */
#ifndef KVSI_CONVERT_MERGED_H
#define KVSI_CONVERT_MERGED_H

#include "formats/families.h"
#include "formats/safetensors.h"
#include "formats/weights.h"
#include "model/parameters.h"

/* What is merged into one tensor: A and B, or a tensor that replaces it.  NULL = nothing. */
typedef struct kvsi_merged_tensor {
    const kvsi_file_tensor *a, *b, *whole;
} kvsi_merged_tensor;

typedef struct kvsi_merged {
    double scale;
    size_t count;
    kvsi_merged_tensor *tensors; /* [count], as in the layout; NULL = there are no adapters */
    char *path;                  /* of the file with the adapters, if it is PEFT's */
    kvsi_safetensors *file;      /* that file */
} kvsi_merged;

/* Whether a path is a folder with PEFT's files and without a model. */
int kvsi_is_adapter(const char *path);
/* The model that adapter_config.json names, in fresh memory (kvsi_free); NULL = none. */
kvs_status kvsi_adapter_base(char **out, const char *adapter, kvs_err *err);

/* The adapters of an open model for a layout without them. */
kvs_status kvsi_merge_own(kvsi_merged *merge, const kvsi_weights *weights,
                          const kvsi_layout *layout, kvs_err *err);
/* Those of PEFT's folder, each of which must have its place in the layout.  They have our names or
 * those of the base's family, which may be NULL. */
kvs_status kvsi_merge_open(kvsi_merged *merge, const char *adapter, const kvsi_layout *layout,
                           const kvsi_family *family, kvs_err *err);
void kvsi_merge_release(kvsi_merged *merge);

/* Merges into tensor number `index`, whose values in file order are in `values`.  The order of the
 * sums is the same for any number of threads. */
kvs_status kvsi_merge_into(float *values, const kvsi_merged *merge, const kvsi_parameter *p,
                           size_t index, int threads, kvs_err *err);

#endif
