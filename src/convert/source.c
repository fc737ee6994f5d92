#include "convert/source.h"

#include "model/model.h"
#include "parallel/threads.h"

#include <string.h>

/* ---- tensors --------------------------------------------------------------------------------- */

/* Blocks are read, not written: their numbers are exact in float32. */
static kvsi_dtype plain_dtype(kvsi_dtype dtype)
{
    return dtype == KVSI_F16 || dtype == KVSI_BF16 ? dtype : KVSI_F32;
}

static kvsi_dtype wanted_dtype(const kvsi_convert_source *s, const kvsi_parameter *p)
{
    switch (s->options->dtype) {
    case KVS_DTYPE_F16:
        return KVSI_F16;
    case KVS_DTYPE_BF16:
        return KVSI_BF16;
    case KVS_DTYPE_KEEP:
        if (s->weights)
            return plain_dtype(kvsi_weights_find(s->weights, p->name)->view.dtype);
        break;
    case KVS_DTYPE_F32:
        break;
    }
    return KVSI_F32;
}

static void describe(const void *self, size_t index, kvsi_file_tensor *out)
{
    const kvsi_convert_source *s = self;
    const kvsi_parameter *p = &s->layout.list[index];

    kvsi_parameter_describe(p, wanted_dtype(s, p), out);
}

static kvs_status report(kvsi_convert_source *s, size_t index, kvs_err *err)
{
    const kvs_convert_options *o = s->options;
    kvsi_file_tensor tensor;

    describe(s, index, &tensor);
    s->done += kvsi_file_tensor_bytes(&tensor);
    if (o->progress && o->progress(o->user, s->done, s->all))
        return kvsi_fail(err, KVS_E_LIMIT, "stopped after tensor '%s'", tensor.name);
    return KVS_OK;
}

static kvs_status read_tensor(const void *self, size_t index, float *out, kvs_err *err)
{
    kvsi_convert_source *s = (kvsi_convert_source *)self; /* it counts */
    const kvsi_parameter *p = &s->layout.list[index];
    kvs_status st = KVS_OK;

    if (s->weights)
        kvsi_weights_read(out, kvsi_weights_find(s->weights, p->name));
    else
        KVS_TRY(kvsi_parameter_make(out, p, &s->config, s->options->seed, s->threads, err));
    KVS_TRY(report(s, index, err));
out:
    return st;
}

kvsi_tensor_source kvsi_convert_tensors(kvsi_convert_source *s)
{
    return (kvsi_tensor_source){s->layout.count, describe, read_tensor, s};
}

kvsi_dtype kvsi_convert_dtype(const kvsi_convert_source *s)
{
    return wanted_dtype(s, &s->layout.list[0]); /* the embeddings */
}

/* ---- the whole ------------------------------------------------------------------------------- */

static kvs_status open_input(kvsi_convert_source *s, kvs_err *err)
{
    const kvs_convert_options *o = s->options;
    kvs_status st;

    if (!o->in) {
        s->config = *o->config;
        return kvs_model_config_finish(&s->config, err);
    }
    KVS_TRY(kvsi_weights_open(&s->weights, o->in, err));
    KVS_TRY(kvsi_weights_check(s->weights, err));
    s->config = *kvsi_weights_config(s->weights);
out:
    return st;
}

kvs_status kvsi_convert_source_init(kvsi_convert_source *s, const kvs_convert_options *options,
                                    kvs_err *err)
{
    kvs_status st;

    *s = (kvsi_convert_source){.options = options};
    s->threads = options->threads > 0 ? options->threads : kvsi_threads_available();
    KVS_TRY(open_input(s, err));
    KVS_TRY(kvsi_layout_init(&s->layout, &s->config, err));
    for (size_t i = 0; i < s->layout.count; i++) {
        kvsi_file_tensor tensor;

        describe(s, i, &tensor);
        s->all += kvsi_file_tensor_bytes(&tensor);
    }
out:
    if (st != KVS_OK)
        kvsi_convert_source_release(s);
    return st;
}

void kvsi_convert_source_release(kvsi_convert_source *s)
{
    kvsi_layout_release(&s->layout);
    kvsi_weights_close(s->weights);
    *s = (kvsi_convert_source){0};
}
