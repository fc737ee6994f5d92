/* convert/convert_source.h - the tensors of a model that is converted, one at a time: read from the
 * model's files, or drawn at random. */
#ifndef KVSI_CONVERT_CONVERT_SOURCE_H
#define KVSI_CONVERT_CONVERT_SOURCE_H

#include "formats/weights.h"
#include "model/parameters.h"

typedef struct kvsi_convert_source {
    kvs_model_config config;
    kvsi_weights *weights; /* NULL: random ones */
    kvsi_layout layout;
    const kvs_convert_options *options;
    int threads;
    uint64_t done, all; /* bytes */
} kvsi_convert_source;

/* Opens and checks the input, or the configuration. */
kvs_status kvsi_convert_source_init(kvsi_convert_source *s, const kvs_convert_options *options,
                                    kvs_err *err);
void kvsi_convert_source_release(kvsi_convert_source *s);

/* The tensors in the order of our files; borrows `s`, and counts in it. */
kvsi_tensor_source kvsi_convert_tensors(kvsi_convert_source *s);
/* Says which tensors are of another type than was asked for, if any. */
void kvsi_convert_remark(const kvsi_convert_source *s);
/* The type that most numbers have. */
kvsi_dtype kvsi_convert_dtype(const kvsi_convert_source *s);

#endif
