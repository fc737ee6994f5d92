/* The model's configuration: defaults, names, and the checks that keep all after it simple. */
#include "base/status.h"
#include "kernels/forms.h"

#include <math.h>
#include <string.h>

enum { SIZE_LIMIT = 1 << 24 }; /* of any single dimension: keeps products inside 64 bits */

void kvs_model_config_init(kvs_model_config *config)
{
    *config = (kvs_model_config){
        .dim = 128,
        .layers = 1,
        .heads = 4,
        .kv_heads = 0, /* as many as heads */
        .context = 512,
        .rope_base = 100000.0,
        .norm_eps = 1e-5,
        .init_std = 0.02,
        .shift = {.form = KVS_SHIFT_FREE, .init = KVS_SHIFT_INIT_UNIFORM, .window = 1},
    };
}

static kvs_status check_sizes(const kvs_model_config *c, kvs_err *err)
{
    const struct {
        const char *name;
        size_t value;
    } sizes[] = {{"vocab", c->vocab},      {"dim", c->dim}, {"layers", c->layers},
                 {"heads", c->heads},      {"ffn", c->ffn}, {"context", c->context},
                 {"kv_heads", c->kv_heads}};

    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++)
        if (sizes[i].value < 1 || sizes[i].value > SIZE_LIMIT)
            return kvsi_fail(err, KVS_E_INVALID, "%s is %zu, expected 1 to %d", sizes[i].name,
                             sizes[i].value, SIZE_LIMIT);
    return KVS_OK;
}

static kvs_status check_heads(const kvs_model_config *c, kvs_err *err)
{
    if (c->dim % c->heads != 0)
        return kvsi_fail(err, KVS_E_INVALID, "dim %zu is not divisible by heads %zu", c->dim,
                         c->heads);
    if (c->dim / c->heads % 2 != 0)
        return kvsi_fail(err, KVS_E_INVALID,
                         "head size %zu (dim %zu / heads %zu) is odd, rotary positions need pairs",
                         c->dim / c->heads, c->dim, c->heads);
    if (c->kv_heads > c->heads)
        return kvsi_fail(err, KVS_E_INVALID, "kv heads %zu is more than heads %zu", c->kv_heads,
                         c->heads);
    if (c->heads % c->kv_heads != 0)
        return kvsi_fail(err, KVS_E_INVALID, "heads %zu is not divisible by kv heads %zu", c->heads,
                         c->kv_heads);
    return KVS_OK;
}

static kvs_status check_reals(const kvs_model_config *c, kvs_err *err)
{
    if (!(c->rope_base > 1) || !isfinite(c->rope_base))
        return kvsi_fail(err, KVS_E_INVALID, "rope base is %g, expected more than 1", c->rope_base);
    if (!(c->norm_eps >= 0) || !(c->norm_eps < 1))
        return kvsi_fail(err, KVS_E_INVALID, "norm eps is %g, expected 0 to below 1", c->norm_eps);
    if (!(c->init_std >= 0) || !isfinite(c->init_std))
        return kvsi_fail(err, KVS_E_INVALID, "init std is %g, expected 0 or more", c->init_std);
    return KVS_OK;
}

static kvs_status check_shift(const kvs_shift_config *s, kvs_err *err)
{
    const kvsi_form *form = kvsi_form_get(s->form);

    if (!kvs_shift_targets_name(s->targets))
        return kvsi_fail(err, KVS_E_INVALID, "shift targets %u are none of none, k, v, kv, qkv",
                         s->targets);
    if (!form || !kvs_shift_init_name(s->init))
        return kvsi_fail(err, KVS_E_INVALID, "unknown shift form %d or init %d", (int)s->form,
                         (int)s->init);
    if (s->window < 1 || s->window > KVS_SHIFT_WINDOW_MAX)
        return kvsi_fail(err, KVS_E_INVALID, "shift window is %zu, expected 1 to %d", s->window,
                         KVS_SHIFT_WINDOW_MAX);
    if (s->window > form->window_max)
        return kvsi_fail(err, KVS_E_INVALID, "shift window is %zu, form '%s' takes at most %zu",
                         s->window, form->name, form->window_max);
    return KVS_OK;
}

kvs_status kvs_model_config_finish(kvs_model_config *config, kvs_err *err)
{
    kvs_status st;

    if (config->kv_heads == 0)
        config->kv_heads = config->heads;
    if (config->ffn == 0)
        config->ffn = (config->dim * 8 / 3 + 15) / 16 * 16;
    KVS_TRY(check_sizes(config, err));
    KVS_TRY(check_heads(config, err));
    KVS_TRY(check_reals(config, err));
    KVS_TRY(check_shift(&config->shift, err));
out:
    return st;
}

/* ---- names ---- */

static const struct {
    const char *name;
    unsigned targets;
} target_names[] = {{"none", 0},
                    {"k", KVS_SHIFT_K},
                    {"v", KVS_SHIFT_V},
                    {"kv", KVS_SHIFT_K | KVS_SHIFT_V},
                    {"qkv", KVS_SHIFT_Q | KVS_SHIFT_K | KVS_SHIFT_V}};

enum { TARGET_NAMES = sizeof target_names / sizeof *target_names };

const char *kvs_shift_targets_name(unsigned targets)
{
    for (size_t i = 0; i < TARGET_NAMES; i++)
        if (target_names[i].targets == targets)
            return target_names[i].name;
    return NULL;
}

kvs_status kvs_shift_targets_parse(unsigned *out, const char *name, kvs_err *err)
{
    for (size_t i = 0; i < TARGET_NAMES; i++)
        if (strcmp(target_names[i].name, name) == 0) {
            *out = target_names[i].targets;
            return KVS_OK;
        }
    return kvsi_fail(err, KVS_E_INVALID, "unknown shift '%s', expected none, k, v, kv or qkv",
                     name);
}

const char *kvs_shift_form_name(kvs_shift_form form)
{
    const kvsi_form *row = kvsi_form_get(form);

    return row ? row->name : NULL;
}

kvs_status kvs_shift_form_parse(kvs_shift_form *out, const char *name, kvs_err *err)
{
    for (int i = 0; kvsi_form_get((kvs_shift_form)i); i++)
        if (strcmp(kvsi_form_get((kvs_shift_form)i)->name, name) == 0) {
            *out = (kvs_shift_form)i;
            return KVS_OK;
        }
    return kvsi_fail(err, KVS_E_INVALID, "unknown shift form '%s', expected free, gate or clamp",
                     name);
}

const char *kvs_shift_init_name(kvs_shift_init init)
{
    return init == KVS_SHIFT_INIT_UNIFORM ? "uniform" : NULL;
}

kvs_status kvs_shift_init_parse(kvs_shift_init *out, const char *name, kvs_err *err)
{
    if (strcmp(name, "uniform") != 0)
        return kvsi_fail(err, KVS_E_INVALID, "unknown shift init '%s', expected uniform", name);
    *out = KVS_SHIFT_INIT_UNIFORM;
    return KVS_OK;
}
