/* The taps of a model's shift, head by head. */
#include "base/memory.h"
#include "kernels/forms.h"
#include "kvshift/kvshift_lab.h"
#include "model/layer.h"
#include "model/model.h"

#include <math.h>
#include <stdio.h>

/* ---- the params of one head ----------------------------------------------------------------- */

kvs_status kvsi_check_shifted_head(const kvs_model_config *config, size_t layer, unsigned target,
                                   size_t head, kvs_err *err)
{
    kvsi_layer_shape shape;
    size_t heads;

    if (target != KVS_SHIFT_K && target != KVS_SHIFT_V && target != KVS_SHIFT_Q)
        return kvsi_fail(err, KVS_E_INVALID, "shift target %u is none of k, v, q", target);
    if (!(config->shift.targets & target))
        return kvsi_fail(err, KVS_E_INVALID, "the model's shift is '%s', which has no such target",
                         kvsi_shift_targets_name(config->shift.targets));
    if (layer >= config->layers)
        return kvsi_fail(err, KVS_E_INVALID, "layer %zu is beyond the last of %zu layers", layer,
                         config->layers);
    shape = kvsi_layer_shape_of(config, layer);
    heads = kvsi_target_heads(&shape, target);
    if (head >= heads)
        return kvsi_fail(err, KVS_E_INVALID, "head %zu is beyond the last of %zu heads", head,
                         heads);
    return KVS_OK;
}

static const kvsi_parameter *find_tensor(const kvs_model *model, size_t layer, unsigned target)
{
    const char letter = target == KVS_SHIFT_K ? 'k' : target == KVS_SHIFT_V ? 'v' : 'q';
    const int gpt2 = model->config.body == KVSI_BODY_GPT2;
    char name[KVSI_NAME_SIZE];

    snprintf(name, sizeof name, "%s.%zu.%s.%c_shift", gpt2 ? "transformer.h" : "model.layers",
             layer, gpt2 ? "attn" : "self_attn", letter);
    return kvsi_layout_find(&model->layout, name);
}

/* Reads `count` parameters of a layer's shift, from number `first` on.  *out is newly allocated
 * (kvsi_free).  Form hard has no parameters. */
static kvs_status read_params(real **out, const kvs_model *model, size_t layer, unsigned target,
                              size_t first, size_t count, kvs_err *err)
{
    const kvsi_parameter *tensor = find_tensor(model, layer, target);
    real *params = kvsi_alloc(count, sizeof *params);
    float *all = tensor ? kvsi_alloc(tensor->count, sizeof *all) : NULL;
    kvs_status st = KVS_OK;

    *out = NULL;
    if (!params || (tensor && !all)) {
        st = kvsi_fail(err, KVS_E_NOMEM, "out of memory for the shift of layer %zu", layer);
        goto out;
    }
    if (tensor) {
        TRY_OUT(kvs_model_read_tensor(all, tensor->count, model, tensor->name, err));
        for (size_t i = 0; i < count; i++)
            params[i] = (real)all[first + i];
    }
    *out = params;
    params = NULL;
out:
    kvsi_free(all);
    kvsi_free(params);
    return st;
}

/* ---- taps ------------------------------------------------------------------------------------ */

static void mean_and_spread(double *mean, double *spread, const real *values, size_t count)
{
    double sum = 0, squares = 0;

    for (size_t i = 0; i < count; i++)
        sum += (double)values[i];
    *mean = sum / (double)count;
    for (size_t i = 0; i < count; i++)
        squares += ((double)values[i] - *mean) * ((double)values[i] - *mean);
    *spread = sqrt(squares / (double)count);
}

kvs_status kvs_model_taps(double *taps, double *spread, const kvs_model *model, size_t layer,
                          unsigned target, size_t head, kvs_err *err)
{
    const kvsi_shift_config *shift;
    const kvsi_form *form;
    real *params = NULL, *channels = NULL;
    size_t head_size, each;
    kvs_status st;

    NEED(taps);
    NEED(model);
    shift = &model->config.shift;
    form = kvsi_form_get(shift->form);
    TRY_OUT(kvsi_check_shifted_head(&model->config, layer, target, head, err));
    if (shift->form == KVSI_SHIFT_DATA)
        return kvsi_fail(err, KVS_E_UNSUPPORTED, "shift form 'data' has no fixed taps");
    head_size = kvsi_layer_shape_of(&model->config, layer).head_size;
    each = form->params(shift->window, head_size);
    TRY_OUT(read_params(&params, model, layer, target, head * each, each, err));
    channels = kvsi_alloc((shift->window + 1) * head_size, sizeof *channels);
    if (!channels) {
        st = kvsi_fail(err, KVS_E_NOMEM, "out of memory for the taps of layer %zu", layer);
        goto out;
    }
    form->taps(channels, params, shift->window, head_size);
    for (size_t j = 0; j <= shift->window; j++) {
        double deviation;

        mean_and_spread(taps + j, &deviation, channels + j * head_size, head_size);
        if (spread)
            spread[j] = deviation;
    }
out:
    kvsi_free(channels);
    kvsi_free(params);
    return st;
}

kvs_status kvsi_layer_taps(real *out, const kvs_model *model, size_t layer, unsigned target,
                           kvs_err *err)
{
    const kvsi_shift_config *shift = &model->config.shift;
    const kvsi_form *form = kvsi_form_get(shift->form);
    const kvsi_layer_shape shape = kvsi_layer_shape_of(&model->config, layer);
    const size_t size = shape.head_size, number = shift->window + 1;
    const size_t heads = kvsi_target_heads(&shape, target);
    const size_t each = form->params(shift->window, size);
    real *params = NULL, *taps = kvsi_alloc(number * size, sizeof *taps);
    kvs_status st;

    if (!taps) {
        st = kvsi_fail(err, KVS_E_NOMEM, "out of memory for the taps of layer %zu", layer);
        goto out;
    }
    TRY_OUT(read_params(&params, model, layer, target, 0, heads * each, err));
    for (size_t h = 0; h < heads; h++) {
        form->taps(taps, params + h * each, shift->window, size);
        for (size_t i = 0; i < size; i++)
            for (size_t j = 0; j < number; j++)
                out[(h * size + i) * number + j] = taps[j * size + i];
    }
out:
    kvsi_free(taps);
    kvsi_free(params);
    return st;
}

kvs_status kvs_model_gate_length(double *length, const kvs_model *model, size_t layer,
                                 unsigned target, size_t head, kvs_err *err)
{
    size_t dim;
    double squares = 0;
    real *w = NULL;
    kvs_status st;

    NEED(length);
    NEED(model);
    dim = model->config.dim;
    TRY_OUT(kvsi_check_shifted_head(&model->config, layer, target, head, err));
    if (model->config.shift.form != KVSI_SHIFT_DATA)
        return kvsi_fail(err, KVS_E_UNSUPPORTED, "shift form '%s' has no gate vector",
                         kvsi_shift_form_name(model->config.shift.form));
    TRY_OUT(read_params(&w, model, layer, target, head * dim, dim, err));
    for (size_t i = 0; i < dim; i++)
        squares += (double)w[i] * (double)w[i];
    *length = sqrt(squares);
out:
    kvsi_free(w);
    return st;
}
