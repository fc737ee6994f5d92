/* convert/convert_source.h - the tensors of a model that is converted, one at a time: read from the
 * model's files, or drawn at random. */
#ifndef KVSI_CONVERT_CONVERT_SOURCE_H
#define KVSI_CONVERT_CONVERT_SOURCE_H

#include "convert/merged.h"
#include "formats/weights.h"
#include "model/parameters.h"

/* The arguments of kvs_convert. */
typedef struct kvsi_convert_request {
    const char *in; /* NULL: random weights for how.config */
    const char *out;
    const char *adapter;     /* PEFT's folder, whose adapters are merged into `in`; NULL = none */
    kvs_convert_options how; /* `size` is not used */
} kvsi_convert_request;

typedef struct kvsi_convert_source {
    kvs_model_config config;
    kvsi_weights *weights; /* NULL: random weights */
    kvsi_layout layout;
    kvsi_merged merge;
    const kvsi_convert_request *request;
    int threads;
    uint64_t done, all; /* bytes */
} kvsi_convert_source;

/* Opens and checks the input, or checks the configuration. */
kvs_status kvsi_convert_source_init(kvsi_convert_source *s, const kvsi_convert_request *request,
                                    kvs_err *err);
void kvsi_convert_source_release(kvsi_convert_source *s);

/* The tensors in the order of our files.  Borrows `s` and updates its progress. */
kvsi_tensor_source kvsi_convert_tensors(kvsi_convert_source *s);
/* Reports tensors whose type differs from the requested one, if any. */
void kvsi_convert_report_types(const kvsi_convert_source *s);
/* The type of most values. */
kvsi_dtype kvsi_convert_dtype(const kvsi_convert_source *s);

#endif
