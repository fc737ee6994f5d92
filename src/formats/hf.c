/* The settings of a model as Hugging Face's Llama names them.  What this library cannot compute
 * (biases, scaled positions, other activations) is refused by name; keys that change nothing here
 * are ignored.  As in Hugging Face's own files, an optional key may be null. */
#include "formats/hf.h"

#include <stddef.h>
#include <string.h>

enum { CONFIG_LIMIT = 1 << 20 }; /* bytes of config.json */

static const char LLAMA_TYPE[] = "llama", LLAMA_MODEL[] = "LlamaForCausalLM";
static const char SHIFT_TYPE[] = "kvshift", SHIFT_MODEL[] = "KVShiftForCausalLM";
static const char SHIFT_KEY[] = "kvshift"; /* the object with the shift's settings */

static const struct {
    const char *key;
    size_t offset;
    int required;
} size_keys[] = {
    {"vocab_size", offsetof(kvs_model_config, vocab), 1},
    {"hidden_size", offsetof(kvs_model_config, dim), 1},
    {"intermediate_size", offsetof(kvs_model_config, ffn), 1},
    {"num_hidden_layers", offsetof(kvs_model_config, layers), 1},
    {"num_attention_heads", offsetof(kvs_model_config, heads), 1},
    {"num_key_value_heads", offsetof(kvs_model_config, kv_heads), 0},
    {"max_position_embeddings", offsetof(kvs_model_config, context), 0},
};

static const struct {
    const char *key;
    size_t offset;
} real_keys[] = {
    {"rope_theta", offsetof(kvs_model_config, rope_base)},
    {"rms_norm_eps", offsetof(kvs_model_config, norm_eps)},
    {"initializer_range", offsetof(kvs_model_config, init_std)},
};

enum {
    SIZE_KEYS = sizeof size_keys / sizeof *size_keys,
    REAL_KEYS = sizeof real_keys / sizeof *real_keys,
};

/* ---- writing --------------------------------------------------------------------------------- */

static json_t *shift_to_json(const kvs_shift_config *shift)
{
    return json_pack("{s:s, s:s, s:I, s:s}", "targets", kvs_shift_targets_name(shift->targets),
                     "form", kvs_shift_form_name(shift->form), "window", (json_int_t)shift->window,
                     "init", kvs_shift_init_name(shift->init));
}

json_t *kvsi_hf_config_to_json(const kvs_model_config *config)
{
    const char *bytes = (const char *)config;
    const int shifted = config->shift.targets != 0;
    json_t *object = json_pack("{s:[s], s:s, s:s, s:b, s:b, s:b, s:n, s:s}", "architectures",
                               shifted ? SHIFT_MODEL : LLAMA_MODEL, "model_type",
                               shifted ? SHIFT_TYPE : LLAMA_TYPE, "hidden_act", "silu",
                               "attention_bias", 0, "mlp_bias", 0, "tie_word_embeddings",
                               config->tied, "rope_scaling", "torch_dtype", "float32");
    int failed = 0;

    for (size_t i = 0; i < SIZE_KEYS; i++) {
        const size_t *value = (const size_t *)(const void *)(bytes + size_keys[i].offset);

        failed |= json_object_set_new(object, size_keys[i].key, json_integer((json_int_t)*value));
    }
    for (size_t i = 0; i < REAL_KEYS; i++) {
        const double *value = (const double *)(const void *)(bytes + real_keys[i].offset);

        failed |= json_object_set_new(object, real_keys[i].key, json_real(*value));
    }
    if (shifted)
        failed |= json_object_set_new(object, SHIFT_KEY, shift_to_json(&config->shift));
    if (failed) {
        json_decref(object);
        return NULL;
    }
    return object;
}

kvs_status kvsi_hf_config_write(const kvs_model_config *config, const char *path, kvs_err *err)
{
    kvs_status st;
    json_t *object = kvsi_hf_config_to_json(config);

    if (!object)
        return kvsi_fail(err, KVS_E_NOMEM, "no memory to write '%s'", path);
    st = kvsi_json_write(object, path, err);
    json_decref(object);
    return st;
}

/* ---- reading: Llama's keys ------------------------------------------------------------------- */

static int is_given(const json_t *object, const char *key)
{
    const json_t *value = json_object_get(object, key);

    return value && !json_is_null(value);
}

static kvs_status read_sizes(kvs_model_config *config, const json_t *object, const char *what,
                             kvs_err *err)
{
    kvs_status st = KVS_OK;

    for (size_t i = 0; i < SIZE_KEYS; i++) {
        const char *key = size_keys[i].key;
        size_t *value = (size_t *)(void *)((char *)config + size_keys[i].offset);

        if (size_keys[i].required)
            KVS_TRY(kvsi_json_require(object, key, what, err));
        else if (!is_given(object, key))
            continue;
        KVS_TRY(kvsi_json_get_size(value, object, key, what, err));
        if (*value == 0) /* which would ask for a default later on */
            return kvsi_fail(err, KVS_E_FORMAT, "'%s': key '%s': expected at least 1, found 0",
                             what, key);
    }
out:
    return st;
}

static kvs_status read_reals(kvs_model_config *config, const json_t *object, const char *what,
                             kvs_err *err)
{
    kvs_status st = KVS_OK;

    for (size_t i = 0; i < REAL_KEYS; i++) {
        double *value = (double *)(void *)((char *)config + real_keys[i].offset);

        if (is_given(object, real_keys[i].key))
            KVS_TRY(kvsi_json_get_real(value, object, real_keys[i].key, what, err));
    }
out:
    return st;
}

/* Every key of `object` must be one of `known`, which ends with NULL. */
static kvs_status check_keys(const json_t *object, const char *const *known, const char *name,
                             const char *what, kvs_err *err)
{
    const char *key;
    json_t *value;

    if (!json_is_object(object))
        return kvsi_fail(err, KVS_E_FORMAT, "'%s': key '%s': expected an object", what, name);
    json_object_foreach((json_t *)object, key, value) { /* which only reads it */
        size_t i = 0;

        while (known[i] && strcmp(known[i], key) != 0)
            i++;
        if (!known[i])
            return kvsi_fail(err, KVS_E_UNSUPPORTED, "'%s': unknown key '%.100s' in '%s'", what,
                             key, name);
    }
    return KVS_OK;
}

/* Where newer files keep the base of the positions. */
static kvs_status read_rope_parameters(kvs_model_config *config, const json_t *object,
                                       const char *what, kvs_err *err)
{
    static const char *const known[] = {"rope_theta", "rope_type", NULL};
    const json_t *rope = json_object_get(object, "rope_parameters");
    const char *type = "default";
    kvs_status st = KVS_OK;

    if (!is_given(object, "rope_parameters"))
        return KVS_OK;
    KVS_TRY(check_keys(rope, known, "rope_parameters", what, err));
    KVS_TRY(kvsi_json_get_real(&config->rope_base, rope, "rope_theta", what, err));
    KVS_TRY(kvsi_json_get_text(&type, rope, "rope_type", what, err));
    if (strcmp(type, "default") != 0)
        st = kvsi_fail(err, KVS_E_UNSUPPORTED,
                       "'%s': key 'rope_type': expected 'default', found '%.100s'", what, type);
out:
    return st;
}

static kvs_status check_supported(const json_t *object, const char *what, kvs_err *err)
{
    static const char *const biases[] = {"attention_bias", "mlp_bias"};
    const char *activation = "silu";
    kvs_status st = KVS_OK;

    KVS_TRY(kvsi_json_get_text(&activation, object, "hidden_act", what, err));
    if (strcmp(activation, "silu") != 0)
        return kvsi_fail(err, KVS_E_UNSUPPORTED,
                         "'%s': key 'hidden_act': expected 'silu', found '%.100s'", what,
                         activation);
    for (size_t i = 0; i < sizeof biases / sizeof *biases; i++) {
        int biased = 0;

        KVS_TRY(kvsi_json_get_bool(&biased, object, biases[i], what, err));
        if (biased)
            return kvsi_fail(err, KVS_E_UNSUPPORTED, "'%s': key '%s': expected false, found true",
                             what, biases[i]);
    }
    if (is_given(object, "rope_scaling"))
        return kvsi_fail(err, KVS_E_UNSUPPORTED,
                         "'%s': key 'rope_scaling': expected null, scaled positions are unknown "
                         "here",
                         what);
out:
    return st;
}

static kvs_status check_head_dim(const kvs_model_config *config, const json_t *object,
                                 const char *what, kvs_err *err)
{
    const size_t expected = config->dim / config->heads;
    size_t head_dim = expected;
    kvs_status st = KVS_OK;

    if (is_given(object, "head_dim"))
        KVS_TRY(kvsi_json_get_size(&head_dim, object, "head_dim", what, err));
    if (head_dim != expected)
        st = kvsi_fail(err, KVS_E_UNSUPPORTED,
                       "'%s': key 'head_dim': expected hidden_size / num_attention_heads = %zu, "
                       "found %zu",
                       what, expected, head_dim);
out:
    return st;
}

/* ---- reading: the shift ---------------------------------------------------------------------- */

/* A failure of a check that knows no file, told with the file's name. */
static kvs_status in_file(kvs_status status, const kvs_err *inner, const char *what, kvs_err *err)
{
    if (status == KVS_OK)
        return KVS_OK;
    return kvsi_fail(err, KVS_E_FORMAT, "'%s': %s", what, inner->message);
}

static kvs_status read_shift(kvs_shift_config *shift, const json_t *object, const char *what,
                             kvs_err *err)
{
    static const char *const known[] = {"targets", "form", "window", "init", NULL};
    const char *targets = NULL;
    const char *form = kvs_shift_form_name(shift->form), *init = kvs_shift_init_name(shift->init);
    kvs_status st = KVS_OK;
    kvs_err inner;

    KVS_TRY(check_keys(object, known, SHIFT_KEY, what, err));
    KVS_TRY(kvsi_json_require(object, "targets", what, err));
    KVS_TRY(kvsi_json_get_text(&targets, object, "targets", what, err));
    KVS_TRY(kvsi_json_get_text(&form, object, "form", what, err));
    KVS_TRY(kvsi_json_get_text(&init, object, "init", what, err));
    KVS_TRY(kvsi_json_get_size(&shift->window, object, "window", what, err));
    KVS_TRY(in_file(kvs_shift_targets_parse(&shift->targets, targets, &inner), &inner, what, err));
    KVS_TRY(in_file(kvs_shift_form_parse(&shift->form, form, &inner), &inner, what, err));
    KVS_TRY(in_file(kvs_shift_init_parse(&shift->init, init, &inner), &inner, what, err));
    if (shift->targets == 0)
        st = kvsi_fail(err, KVS_E_FORMAT, "'%s': key 'targets': a shifted model cannot have '%s'",
                       what, targets);
out:
    return st;
}

/* The names of the architecture must agree with the shift, so that no file is run as what it is
 * not. */
static kvs_status check_kind(const json_t *object, int shifted, const char *what, kvs_err *err)
{
    const json_t *models = json_object_get(object, "architectures");
    const char *type = shifted ? SHIFT_TYPE : LLAMA_TYPE;
    const char *model = shifted ? SHIFT_MODEL : LLAMA_MODEL;
    const char *found = type;
    kvs_status st = KVS_OK;

    KVS_TRY(kvsi_json_get_text(&found, object, "model_type", what, err));
    if (strcmp(found, type) != 0)
        return kvsi_fail(err, KVS_E_UNSUPPORTED,
                         "'%s': key 'model_type': expected '%s' %s a '%s' object, found '%.100s'",
                         what, type, shifted ? "with" : "without", SHIFT_KEY, found);
    if (!is_given(object, "architectures"))
        return KVS_OK;
    found = json_string_value(json_array_get(models, 0));
    if (!found || strcmp(found, model) != 0)
        return kvsi_fail(err, KVS_E_UNSUPPORTED,
                         "'%s': key 'architectures': expected ['%s'], found '%.100s'", what, model,
                         found ? found : "no text");
out:
    return st;
}

/* ---- reading: all of it ---------------------------------------------------------------------- */

kvs_status kvsi_hf_config_from_json(kvs_model_config *out, const json_t *object, const char *what,
                                    kvs_err *err)
{
    const json_t *shift = json_object_get(object, SHIFT_KEY);
    kvs_status st = KVS_OK;
    kvs_model_config config;
    kvs_err inner;

    kvs_model_config_init(&config);
    config.context = 2048; /* Hugging Face's defaults where they are not ours */
    config.rope_base = 10000;
    config.norm_eps = 1e-6;
    KVS_TRY(check_kind(object, shift != NULL, what, err));
    KVS_TRY(check_supported(object, what, err));
    KVS_TRY(read_sizes(&config, object, what, err));
    KVS_TRY(read_reals(&config, object, what, err));
    KVS_TRY(read_rope_parameters(&config, object, what, err));
    KVS_TRY(kvsi_json_get_bool(&config.tied, object, "tie_word_embeddings", what, err));
    if (shift)
        KVS_TRY(read_shift(&config.shift, shift, what, err));
    KVS_TRY(in_file(kvs_model_config_finish(&config, &inner), &inner, what, err));
    KVS_TRY(check_head_dim(&config, object, what, err));
    *out = config;
out:
    return st;
}

kvs_status kvsi_hf_config_read(kvs_model_config *out, const char *path, kvs_err *err)
{
    kvs_status st;
    json_t *object = NULL;

    KVS_TRY(kvsi_json_read(&object, path, CONFIG_LIMIT, err));
    KVS_TRY(kvsi_hf_config_from_json(out, object, path, err));
out:
    json_decref(object);
    return st;
}
