#include "kernels/runtime.h"

#include "base/memory.h"
#include "base/names.h"
#include "base/sized.h"
#include "parallel/cores.h"
#include "parallel/threads.h"

static const kvs_runtime_options defaults = {.size = sizeof defaults};

void kvs_runtime_options_init(kvs_runtime_options *options, size_t size)
{
    kvsi_sized_init(options, size, &defaults, sizeof defaults);
}

kvs_status kvs_runtime_create(kvs_runtime **out, const kvs_runtime_options *options, kvs_err *err)
{
    kvs_runtime_options o = defaults;
    int precision = KVSI_PRECISION_F32;
    const kvsi_ops *ops;
    kvs_runtime *rt;

    NEED(out);
    *out = NULL;
    TRY(kvsi_sized_read(&o, sizeof o, options, "kvs_runtime_options", err));
    if (o.threads < 0 || o.threads > KVSI_THREADS_MAX)
        return kvsi_fail(err, KVS_E_INVALID, "threads is %d, expected 0 (all cores) to %d",
                         o.threads, KVSI_THREADS_MAX);
    if (o.precision)
        TRY(kvsi_name_parse(&precision, kvsi_precision_names, "precision", o.precision, err));
    TRY(kvsi_ops_find(&ops, o.cpu_level, err));
    rt = kvsi_alloc(1, sizeof *rt);
    if (!rt)
        return kvsi_fail(err, KVS_E_NOMEM, "out of memory for a runtime");
    rt->ops = ops;
    rt->comm = o.comm ? o.comm : &kvsi_comm_self;
    rt->spread = o.shard_parameters;
    rt->exact = o.exact;
    rt->precision = (kvsi_precision)precision;
    rt->threads = o.threads > 0 ? o.threads : kvsi_cores_per_rank(rt->comm);
    kvsi_cores_pin(rt->comm, rt->threads);
    *out = rt;
    return KVS_OK;
}

void kvs_runtime_free(kvs_runtime *rt)
{
    kvsi_free(rt);
}

int kvs_runtime_threads(const kvs_runtime *rt)
{
    return rt ? rt->threads : 0;
}

const char *kvs_runtime_cpu_level(const kvs_runtime *rt)
{
    return rt ? rt->ops->name : NULL;
}
