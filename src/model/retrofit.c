/* Turns a trained model without a shift into a shifted one that computes the same. */
#include "base/memory.h"
#include "model/model.h"

/* Sharded over ranks, both models have the same shards of the matrices: a shift adds none. */
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

kvs_status kvs_model_retrofit(kvs_model **out, kvs_runtime *rt, const kvs_model *model,
                              const kvs_model_config *shifted, kvs_err *err)
{
    kvs_model_config config;
    kvs_model *m = NULL;
    kvs_status st;

    NEED(out);
    *out = NULL;
    NEED(rt);
    NEED(model);
    NEED_AS(shifted, config);
    TRY_OUT(kvsi_model_must_own(model, "retrofitted", err));
    if (model->config.shift.targets != 0)
        return kvsi_fail(err, KVS_E_INVALID, "the model is already shifted ('%s')",
                         kvsi_shift_targets_name(model->config.shift.targets));
    if (shifted->shift.targets == 0)
        return kvsi_fail(err, KVS_E_INVALID, "nothing to retrofit: the shift has no targets");
    config = model->config;
    config.shift = shifted->shift;
    config.shift.init = KVSI_SHIFT_INIT_IDENTITY;
    TRY_OUT(kvs_model_create(&m, rt, &config, 0, err)); /* the identity is the same for any seed */
    TRY_OUT(copy_tensors(m, model, err));
    m->ids = model->ids;
    *out = m;
    m = NULL;
out:
    kvs_model_free(m);
    return st;
}
