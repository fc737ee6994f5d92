/* Adds a shift or low-rank adapters to a trained model, which then computes the same as before. */
#include "base/memory.h"
#include "base/sized.h"
#include "model/adapters.h"
#include "model/model.h"

/* Sharded over ranks, both models have the same shards of the matrices: shift and adapters add
 * none. */
static kvs_status copy_tensors(kvs_model *to, const kvs_model *from, kvs_err *err)
{
    kvsi_context *c = &to->context;

    if (from->shards)
        c->ops->copy(c, to->parameters, from->parameters, from->shards->matrices * sizeof(real));
    for (size_t i = 0; i < from->layout.count; i++) {
        const kvsi_parameter *old = &from->layout.list[i];
        const kvsi_parameter *p = kvsi_layout_find(&to->layout, old->name);

        if (!p || p->count != old->count)
            return kvsi_fail(err, KVS_E_INVALID, "tensor '%s' has no place in the new model",
                             old->name);
        if (from->values[i])
            c->ops->copy(c, to->values[p - to->layout.list], from->values[i],
                         p->count * sizeof(real));
    }
    return kvsi_sync(c, err);
}

/* Creates a model with more tensors than `model` has, and the same values in those it has. */
static kvs_status extend(kvs_model **out, kvs_runtime *rt, const kvs_model *model,
                         const kvs_model_config *config, uint64_t seed, kvs_err *err)
{
    kvs_model *m = NULL;
    kvs_status st;

    TRY_OUT(kvs_model_create(&m, rt, config, seed, err));
    TRY_OUT(copy_tensors(m, model, err));
    m->ids = model->ids;
    *out = m;
    m = NULL;
out:
    kvs_model_free(m);
    return st;
}

kvs_status kvsi_config_retrofit(kvs_model_config *config, const kvs_model_config *shifted,
                                kvs_err *err)
{
    if (config->shift.targets != 0)
        return kvsi_fail(err, KVS_E_INVALID, "the model is already shifted ('%s')",
                         kvsi_shift_targets_name(config->shift.targets));
    if (shifted->shift.targets == 0)
        return kvsi_fail(err, KVS_E_INVALID, "nothing to retrofit: the shift has no targets");
    config->shift = shifted->shift;
    config->shift.init = KVSI_SHIFT_INIT_IDENTITY;
    return kvs_model_config_finish(config, err);
}

kvs_status kvs_model_retrofit(kvs_model **out, kvs_runtime *rt, const kvs_model *model,
                              const kvs_model_config *shifted, kvs_err *err)
{
    kvs_model_config config;

    NEED(out);
    *out = NULL;
    NEED(rt);
    NEED(model);
    NEED_AS(shifted, config);
    TRY(kvsi_model_must_own(model, "retrofitted", err));
    config = model->config;
    TRY(kvsi_config_retrofit(&config, shifted, err));
    return extend(out, rt, model, &config, 0, err); /* the identity is the same for any seed */
}

/* ---- adapters -------------------------------------------------------------------------------- */

static const kvs_adapter_options adapter_defaults = {.size = sizeof adapter_defaults, .rank = 8};

void kvs_adapter_options_init(kvs_adapter_options *options, size_t size)
{
    kvsi_sized_init(options, size, &adapter_defaults, sizeof adapter_defaults);
}

kvs_status kvs_model_adapt(kvs_model **out, kvs_runtime *rt, const kvs_model *model,
                           const kvs_adapter_options *options, kvs_err *err)
{
    kvs_adapter_options o = adapter_defaults;
    kvs_model_config config;

    NEED(out);
    *out = NULL;
    NEED(rt);
    NEED(model);
    TRY(kvsi_sized_read(&o, sizeof o, options, "kvs_adapter_options", err));
    TRY(kvsi_model_must_own(model, "given adapters", err));
    config = model->config;
    TRY(kvsi_adapters_add(&config, &o, err));
    return extend(out, rt, model, &config, o.seed, err);
}
