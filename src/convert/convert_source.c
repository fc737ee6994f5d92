#include "convert/convert_source.h"

#include "model/model.h"
#include "parallel/threads.h"

#include <stdio.h>

/* ---- tensors --------------------------------------------------------------------------------- */

/* KVS_DTYPE_KEEP keeps plain types; values of quantized blocks are exact in float32. */
static kvsi_dtype plain_dtype(kvsi_dtype dtype)
{
    return dtype == KVSI_F16 || dtype == KVSI_BF16 ? dtype : KVSI_F32;
}

/* Position embeddings stay exact; rows that are not whole blocks become F16. */
static kvsi_dtype block_dtype(kvsi_dtype dtype, const kvsi_parameter *p)
{
    if (p->role == KVSI_POSITION)
        return KVSI_F32;
    return p->shape[p->rank - 1] % kvsi_dtype_block(dtype) == 0 ? dtype : KVSI_F16;
}

/* The input's tensor; NULL: it is made. */
static const kvsi_weights_tensor *in_file(const kvsi_convert_source *s, const kvsi_parameter *p)
{
    return s->weights ? kvsi_weights_find(s->weights, p->name) : NULL;
}

static kvsi_dtype wanted_dtype(const kvsi_convert_source *s, const kvsi_parameter *p)
{
    switch (s->request->how.dtype) {
    case KVS_DTYPE_F16:
        return KVSI_F16;
    case KVS_DTYPE_BF16:
        return KVSI_BF16;
    case KVS_DTYPE_Q8_0:
        return block_dtype(KVSI_Q8_0, p);
    case KVS_DTYPE_Q4_0:
        return block_dtype(KVSI_Q4_0, p);
    case KVS_DTYPE_KEEP:
        if (in_file(s, p))
            return plain_dtype(in_file(s, p)->view.dtype);
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
    const kvsi_convert_request *o = s->request;
    kvsi_file_tensor tensor;

    describe(s, index, &tensor);
    s->done += kvsi_file_tensor_bytes(&tensor);
    if (o->how.progress && o->how.progress(o->how.user, s->done, s->all))
        return kvsi_fail(err, KVS_E_STOPPED, "stopped after tensor '%s'", tensor.name);
    return KVS_OK;
}

static kvs_status read_tensor(const void *self, size_t index, float *out, kvs_err *err)
{
    kvsi_convert_source *s = (kvsi_convert_source *)self; /* for the progress counter */
    const kvsi_parameter *p = &s->layout.list[index];

    if (in_file(s, p))
        kvsi_weights_read(out, in_file(s, p));
    else
        TRY(kvsi_parameter_make(out, p, &s->config, s->request->how.seed, s->threads, err));
    TRY(kvsi_merge_into(out, &s->merge, p, index, s->threads, err));
    return report(s, index, err);
}

kvsi_tensor_source kvsi_convert_tensors(kvsi_convert_source *s)
{
    return (kvsi_tensor_source){s->layout.count, describe, read_tensor, s};
}

void kvsi_convert_report_types(const kvsi_convert_source *s)
{
    const kvs_dtype dtype = s->request->how.dtype;
    const kvsi_parameter *first = NULL;
    size_t count = 0;
    char text[256];

    if (!s->request->how.notice || (dtype != KVS_DTYPE_Q8_0 && dtype != KVS_DTYPE_Q4_0))
        return;
    for (size_t i = 0; i < s->layout.count; i++) {
        const kvsi_parameter *p = &s->layout.list[i];

        if (kvsi_group_of(p->role) == KVSI_MATRICES && wanted_dtype(s, p) == KVSI_F16) {
            first = first ? first : p;
            count++;
        }
    }
    if (!first)
        return;
    snprintf(text, sizeof text,
             "%zu of %zu tensors are F16, because their rows are not whole blocks of %zu: '%s' has "
             "rows of %zu",
             count, s->layout.count, kvsi_dtype_block(KVSI_Q8_0), first->name,
             first->shape[first->rank - 1]);
    s->request->how.notice(s->request->how.user, text);
}

kvsi_dtype kvsi_convert_dtype(const kvsi_convert_source *s)
{
    return wanted_dtype(s, &s->layout.list[0]); /* the embeddings */
}

/* ---- opening --------------------------------------------------------------------------------- */

static kvs_status open_input(kvsi_convert_source *s, kvs_err *err)
{
    const kvsi_convert_request *o = s->request;

    if (!o->in) {
        s->config = *o->how.config;
        return kvs_model_config_finish(&s->config, err);
    }
    TRY(kvsi_weights_open(&s->weights, o->in, err));
    TRY(kvsi_weights_check(s->weights, err));
    s->config = *kvsi_weights_config(s->weights);
    if (s->config.lora.rank > 0 && (!o->how.merge || o->adapter))
        return kvsi_fail(err, KVS_E_UNSUPPORTED,
                         "'%s' has low-rank adapters, which no format has: merge them first, with "
                         "'convert --merge'",
                         o->in);
    if (o->how.merge && s->config.lora.rank == 0 && !o->adapter)
        return kvsi_fail(err, KVS_E_INVALID,
                         "'%s' has no adapters to merge, expected a run of 'train --lora' or a "
                         "folder with adapter_config.json",
                         o->in);
    s->config.lora = (kvsi_lora_config){0};
    return o->how.shift ? kvsi_config_retrofit(&s->config, o->how.shift, err) : KVS_OK;
}

static kvs_status open_adapters(kvsi_convert_source *s, kvs_err *err)
{
    const char *type = s->weights ? kvsi_weights_config(s->weights)->family : NULL;

    if (s->request->adapter)
        return kvsi_merge_open(&s->merge, s->request->adapter, &s->layout,
                               type ? kvsi_family_find(type) : NULL, err);
    return s->request->how.merge ? kvsi_merge_own(&s->merge, s->weights, &s->layout, err) : KVS_OK;
}

kvs_status kvsi_convert_source_init(kvsi_convert_source *s, const kvsi_convert_request *request,
                                    kvs_err *err)
{
    kvs_status st;

    *s = (kvsi_convert_source){.request = request};
    s->threads = request->how.threads > 0 ? request->how.threads : kvsi_threads_available();
    TRY_OUT(open_input(s, err));
    TRY_OUT(kvsi_layout_init(&s->layout, &s->config, err));
    TRY_OUT(open_adapters(s, err));
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
    kvsi_merge_release(&s->merge);
    kvsi_layout_release(&s->layout);
    kvsi_weights_close(s->weights);
    *s = (kvsi_convert_source){0};
}
