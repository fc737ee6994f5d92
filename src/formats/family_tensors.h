/* formats/family_tensors.h - the tensors of a model as the files of its family have them: some
 * families have other names and shapes, or several of our tensors as the rows of one. */
#ifndef KVSI_FORMATS_FAMILY_TENSORS_H
#define KVSI_FORMATS_FAMILY_TENSORS_H

#include "formats/families.h"
#include "formats/tensor.h"

typedef struct kvsi_family_tensors {
    const kvsi_tensor_source *ours;
    struct kvsi_family_tensor *list; /* NULL = the same as ours */
    size_t count, heads;
} kvsi_family_tensors;

/* `ours` must outlive the result.  A family of NULL has our tensors.  `heads` are the model's. */
kvs_status kvsi_family_tensors_init(kvsi_family_tensors *tensors, const kvsi_family *family,
                                    size_t heads, const kvsi_tensor_source *ours, kvs_err *err);
void kvsi_family_tensors_release(kvsi_family_tensors *tensors);

/* What is written to the family's files. */
kvsi_tensor_source kvsi_family_source(const kvsi_family_tensors *tensors);

#endif
