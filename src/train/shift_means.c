#include "train/shift_means.h"

#include <math.h>

const kvsi_shift_target kvsi_shift_targets[KVSI_SHIFT_TARGETS] = {
    {KVS_SHIFT_K, 'k'}, {KVS_SHIFT_V, 'v'}, {KVS_SHIFT_Q, 'q'}};

kvs_status kvsi_shift_mean_of(kvs_shift_mean *out, const kvs_model *model, unsigned target,
                              size_t first, size_t end, kvs_err *err)
{
    const kvs_model_config *c = &model->config;
    double taps[KVS_SHIFT_WINDOW_MAX + 1], sum = 0, current = 0;
    size_t count = 0;

    *out = (kvs_shift_mean){NAN, NAN};
    if (!(c->shift.targets & target) || c->shift.form == KVS_SHIFT_DATA)
        return KVS_OK;
    for (size_t l = first; l < end; l++) {
        const kvsi_layer_shape shape = kvsi_layer_shape_of(c, l);
        const size_t heads = target == KVS_SHIFT_Q ? shape.heads : shape.kv_heads;

        for (size_t h = 0; h < heads; h++) {
            TRY(kvs_model_taps(model, l, target, h, taps, NULL, err));
            for (size_t j = 0; j <= c->shift.window; j++)
                sum += taps[j];
            current += taps[c->shift.window];
        }
        count += heads;
    }
    *out = (kvs_shift_mean){sum / (double)count, current / (double)count};
    return KVS_OK;
}

kvs_shift_mean *kvsi_record_shift(kvs_step_record *record, unsigned target)
{
    switch (target) {
    case KVS_SHIFT_K:
        return &record->k_shift;
    case KVS_SHIFT_V:
        return &record->v_shift;
    default:
        return &record->q_shift;
    }
}
