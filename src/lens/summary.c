/* Statistics of the shift coefficients of all heads. */
#include "base/statistics.h"
#include "base/status.h"
#include "config/config.h"
#include "kvshift/kvshift_lab.h"

kvs_head_kind kvs_head_kind_of(const kvs_coefficients *head)
{
    if (!head)
        return KVS_HEAD_KINDS;
    return (kvs_head_kind)((head->alpha1 <= head->alpha2) + 2 * (head->beta1 <= head->beta2));
}

int kvs_shift_has_kinds(const kvs_model_config *config)
{
    const kvsi_shift_config *shift;
    const unsigned both = KVS_SHIFT_K | KVS_SHIFT_V;

    if (!config)
        return 0;
    shift = &config->shift;
    return (shift->targets & both) == both && shift->window == 1 &&
           shift->form != KVSI_SHIFT_DATA && shift->form != KVSI_SHIFT_HARD;
}

kvs_status kvs_head_coefficients(kvs_coefficients *out, const kvs_model *model, size_t layer,
                                 size_t kv_head, kvs_err *err)
{
    const kvsi_shift_config *shift;
    double k[2], v[2];

    NEED(out);
    NEED(model);
    shift = &kvs_model_get_config(model)->shift;
    if (!kvs_shift_has_kinds(kvs_model_get_config(model)))
        return kvsi_fail(err, KVS_E_UNSUPPORTED,
                         "shift '%s' of form '%s' and window %zu has no four coefficients per head",
                         kvsi_shift_targets_name(shift->targets), kvsi_shift_form_name(shift->form),
                         shift->window);
    TRY(kvs_model_taps(k, NULL, model, layer, KVS_SHIFT_K, kv_head, err));
    TRY(kvs_model_taps(v, NULL, model, layer, KVS_SHIFT_V, kv_head, err));
    *out = (kvs_coefficients){.alpha1 = k[1], .alpha2 = k[0], .beta1 = v[1], .beta2 = v[0]};
    return KVS_OK;
}

static void count_head(kvs_shift_summary *s, const kvs_coefficients *c)
{
    s->heads++;
    s->kinds[kvs_head_kind_of(c)]++;
    s->negative_alphas += (size_t)(c->alpha1 < 0) + (size_t)(c->alpha2 < 0);
    s->negative_betas += (size_t)(c->beta1 < 0) + (size_t)(c->beta2 < 0);
}

kvs_status kvs_shift_summarise(kvs_shift_summary *out, const kvs_model *model, kvs_err *err)
{
    const kvs_model_config *config = kvs_model_get_config(model);
    kvsi_running alpha = {0}, beta = {0};
    kvsi_estimate sum;

    NEED(out);
    NEED(model);
    *out = (kvs_shift_summary){0};
    for (size_t layer = 0; layer < config->layers; layer++)
        for (size_t h = 0; h < kvsi_model_config_kv_heads(config, layer); h++) {
            kvs_coefficients c;

            TRY(kvs_head_coefficients(&c, model, layer, h, err));
            count_head(out, &c);
            kvsi_running_add(&alpha, c.alpha1 + c.alpha2);
            kvsi_running_add(&beta, c.beta1 + c.beta2);
        }
    sum = kvsi_running_estimate(&alpha);
    out->alpha_sum = (kvs_estimate){sum.mean, sum.error};
    sum = kvsi_running_estimate(&beta);
    out->beta_sum = (kvs_estimate){sum.mean, sum.error};
    return KVS_OK;
}
