#include "train/shift_means.h"

#include <math.h>

static kvs_status mean_of(kvs_shift_mean *out, const kvs_model *model, unsigned target,
                          size_t first, size_t end, kvs_err *err)
{
    const kvs_model_config *c = &model->config;
    double taps[KVSI_SHIFT_WINDOW_MAX + 1], sum = 0, current = 0;
    size_t count = 0;

    *out = (kvs_shift_mean){NAN, NAN};
    if (!(c->shift.targets & target) || c->shift.form == KVSI_SHIFT_DATA)
        return KVS_OK;
    for (size_t l = first; l < end; l++) {
        const kvsi_layer_shape shape = kvsi_layer_shape_of(c, l);
        const size_t heads = target == KVS_SHIFT_Q ? shape.heads : shape.kv_heads;

        for (size_t h = 0; h < heads; h++) {
            TRY(kvs_model_taps(taps, NULL, model, l, target, h, err));
            for (size_t j = 0; j <= c->shift.window; j++)
                sum += taps[j];
            current += taps[c->shift.window];
        }
        count += heads;
    }
    *out = (kvs_shift_mean){sum / (double)count, current / (double)count};
    return KVS_OK;
}

kvs_status kvsi_shift_means_of(kvsi_shift_means *out, const kvs_model *model, size_t first,
                               size_t end, kvs_err *err)
{
    TRY(mean_of(&out->k, model, KVS_SHIFT_K, first, end, err));
    TRY(mean_of(&out->v, model, KVS_SHIFT_V, first, end, err));
    return mean_of(&out->q, model, KVS_SHIFT_Q, first, end, err);
}
