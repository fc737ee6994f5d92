/* The settings of a model as Hugging Face names them, for the bodies of Llama and GPT-2, and as we
 * name what goes beyond those.  What this library cannot compute (scaled positions, other
 * activations) is refused by name; foreign keys that change nothing here are ignored.  As in
 * Hugging Face's own files, an optional key may be null. */
#include "formats/hf.h"

#include "config/config.h"

#include <math.h>
#include <stddef.h>
#include <string.h>

static const char SHIFT_TYPE[] = "kvshift", SHIFT_MODEL[] = "KVShiftForCausalLM";
static const char SHIFT_KEY[] = "kvshift"; /* the object with our own settings */

static const struct {
    const char *type, *model;
} plain_names[] = {
    [KVSI_BODY_LLAMA] = {"llama", "LlamaForCausalLM"},
    [KVSI_BODY_GPT2] = {"gpt2", "GPT2LMHeadModel"},
};

/* ---- the keys -------------------------------------------------------------------------------- */

enum { LLAMA = 1 << KVSI_BODY_LLAMA, GPT2 = 1 << KVSI_BODY_GPT2, REQUIRED = 1 << 2 };

/* Hugging Face's key of a setting.  All other settings of a model are in our object, under their
 * own keys, and only if they differ from the plain model. */
typedef struct config_key {
    const char *key, *setting;
    unsigned of; /* the bodies whose files have it; REQUIRED */
} config_key;

static const config_key hf_keys[] = {
    {"vocab_size", "vocab", LLAMA | GPT2 | REQUIRED},
    {"hidden_size", "dim", LLAMA | REQUIRED},
    {"intermediate_size", "ffn", LLAMA | REQUIRED},
    {"num_hidden_layers", "layers", LLAMA | REQUIRED},
    {"num_attention_heads", "heads", LLAMA | REQUIRED},
    {"num_key_value_heads", "kv-heads", LLAMA},
    {"max_position_embeddings", "context", LLAMA},
    {"rope_theta", "rope-base", LLAMA},
    {"rms_norm_eps", "norm-eps", LLAMA},
    {"n_embd", "dim", GPT2 | REQUIRED},
    {"n_inner", "ffn", GPT2},
    {"n_layer", "layers", GPT2 | REQUIRED},
    {"n_head", "heads", GPT2 | REQUIRED},
    {"n_positions", "context", GPT2},
    {"layer_norm_epsilon", "norm-eps", GPT2},
    {"embd_pdrop", "dropout-embedding", GPT2},
    {"attn_pdrop", "dropout-attention", GPT2},
    {"resid_pdrop", "dropout-residual", GPT2},
    {"initializer_range", "init-std", LLAMA | GPT2},
    {"tie_word_embeddings", "tied", LLAMA | GPT2},
};

enum { HF_KEYS = sizeof hf_keys / sizeof *hf_keys };

static int is_of(const config_key *key, kvsi_body body)
{
    return (key->of & 1u << body) != 0;
}

static const kvsi_setting *setting_of(const config_key *key)
{
    return kvsi_settings_find(&kvsi_model_settings, key->setting);
}

/* Whether the setting is in our object; the body is there too, but is handled apart. */
static int is_own(const kvsi_setting *row, kvsi_body body)
{
    for (size_t i = 0; i < HF_KEYS; i++)
        if (is_of(hf_keys + i, body) && strcmp(hf_keys[i].setting, row->name) == 0)
            return 0;
    return strcmp(row->name, "body") != 0;
}

/* ---- writing --------------------------------------------------------------------------------- */

static int set_hf_keys(json_t *object, const kvs_model_config *config)
{
    int failed = 0;

    for (size_t i = 0; i < HF_KEYS; i++)
        if (is_of(hf_keys + i, config->body))
            failed |= json_object_set_new(object, hf_keys[i].key,
                                          kvsi_setting_to_json(setting_of(hf_keys + i), config));
    return failed;
}

/* A shift is written whole, whatever its values; no shift has no settings. */
static int is_written(const kvsi_setting *row, const kvs_model_config *config,
                      const kvs_model_config *plain)
{
    if (strncmp(row->name, "shift", 5) == 0)
        return config->shift.targets != 0;
    return !kvsi_setting_equal(row, config, plain);
}

static int set_own_keys(json_t *object, const kvs_model_config *config,
                        const kvs_model_config *plain)
{
    int failed = 0;

    for (size_t i = 0; i < kvsi_model_settings.count; i++) {
        const kvsi_setting *row = kvsi_model_settings.rows + i;
        char key[KVSI_SETTING_KEY];
        json_t *value;

        if (!is_own(row, config->body) || !is_written(row, config, plain))
            continue;
        kvsi_setting_file_key(key, row);
        value = kvsi_setting_to_json(row, config);
        if (row->negated)
            value = json_boolean(!json_is_true(value)); /* both are constants of jansson */
        failed |= json_object_set_new(object, key, value);
    }
    return failed;
}

/* The plain model; 0 means "as the others", as in kvs_model_config_finish. */
static void set_plain(kvs_model_config *plain, kvsi_body body)
{
    kvsi_model_config_init(plain);
    kvsi_model_config_set_body(plain, body);
    plain->kv_heads = 0;
}

/* Takes back what kvs_model_config_finish has filled in, and what has no effect. */
static kvs_model_config without_defaults(const kvs_model_config *config,
                                         const kvs_model_config *plain)
{
    kvs_model_config c = *config;

    if (c.sliding_heads == c.heads && c.sliding_kv_heads == c.kv_heads)
        c.sliding_heads = c.sliding_kv_heads = 0;
    if (c.kv_heads == c.heads)
        c.kv_heads = 0;
    if (c.positions != KVSI_POSITIONS_ROPE)
        c.rope_base = plain->rope_base;
    return c;
}

/* Our object; empty for a plain model.  NULL: no memory. */
static json_t *own_to_json(const kvs_model_config *config)
{
    json_t *object = json_object();
    kvs_model_config plain, c;
    int failed = 0;

    set_plain(&plain, config->body);
    c = without_defaults(config, &plain);
    failed |= set_own_keys(object, &c, &plain);
    /* Hugging Face's GPT-2 is tied; and a body is only named where it is not Llama's. */
    if (c.body == KVSI_BODY_GPT2 && (json_object_size(object) > 0 || !c.tied))
        failed |= json_object_set_new(object, "body", json_string(kvsi_body_name(c.body)));
    if (failed) {
        json_decref(object);
        return NULL;
    }
    return object;
}

/* What every file of this body says. */
static json_t *body_to_json(kvsi_body body)
{
    if (body == KVSI_BODY_GPT2)
        return json_pack("{s:s, s:s}", "activation_function", "gelu_new", "torch_dtype", "float32");
    return json_pack("{s:s, s:b, s:b, s:n, s:s}", "hidden_act", "silu", "attention_bias", 0,
                     "mlp_bias", 0, "rope_scaling", "torch_dtype", "float32");
}

json_t *kvsi_hf_config_to_json(const kvs_model_config *config)
{
    json_t *object = body_to_json(config->body), *own = own_to_json(config);
    const int plain = json_object_size(own) == 0;
    const char *type = plain ? plain_names[config->body].type : SHIFT_TYPE;
    const char *model = plain ? plain_names[config->body].model : SHIFT_MODEL;
    int failed = !own;

    failed |= json_object_set_new(object, "model_type", json_string(type));
    failed |= json_object_set_new(object, "architectures", json_pack("[s]", model));
    failed |= set_hf_keys(object, config);
    if (!plain)
        failed |= json_object_set(object, SHIFT_KEY, own);
    json_decref(own);
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

/* ---- reading: the keys of the tables --------------------------------------------------------- */

static int is_given(const json_t *object, const char *key)
{
    const json_t *value = json_object_get(object, key);

    return value && !json_is_null(value);
}

static kvs_status read_hf_keys(kvs_model_config *config, const json_t *object, const char *what,
                               kvs_err *err)
{
    for (size_t i = 0; i < HF_KEYS; i++) {
        const config_key *key = hf_keys + i;

        if (!is_of(key, config->body))
            continue;
        if (key->of & REQUIRED)
            TRY(kvsi_json_require(object, key->key, what, err));
        else if (!is_given(object, key->key))
            continue;
        TRY(kvsi_setting_from_json(setting_of(key), config, object, key->key, what, err));
    }
    return KVS_OK;
}

/* A size of 0 in Hugging Face's keys would ask for a default later on. */
static kvs_status check_sizes(const kvs_model_config *config, const json_t *object,
                              const char *what, kvs_err *err)
{
    for (size_t i = 0; i < HF_KEYS; i++) {
        const config_key *key = hf_keys + i;
        const kvsi_setting *row = setting_of(key);

        if (row->kind == KVSI_SETTING_SIZE && is_of(key, config->body) &&
            is_given(object, key->key) &&
            *(const size_t *)(const void *)((const char *)config + row->offset) == 0)
            return kvsi_fail(err, KVS_E_FORMAT, "'%s': key '%s': expected at least 1, found 0",
                             what, key->key);
    }
    return KVS_OK;
}

/* ---- reading: what Hugging Face's models must not have --------------------------------------- */

static kvs_status refuse_key(const char *key, const char *name, const char *what, kvs_err *err)
{
    return kvsi_fail(err, KVS_E_UNSUPPORTED, "'%s': unknown key '%.100s' in '%s'", what, key, name);
}

static kvs_status expect_object(const json_t *object, const char *name, const char *what,
                                kvs_err *err)
{
    if (!json_is_object(object))
        return kvsi_fail(err, KVS_E_FORMAT, "'%s': key '%s': expected an object", what, name);
    return KVS_OK;
}

/* Llama's files turn whole heads; the key is there for other families. */
static kvs_status check_whole_rotation(const json_t *object, const char *what, kvs_err *err)
{
    static const char key[] = "partial_rotary_factor";
    double factor = 1;

    if (is_given(object, key))
        TRY(kvsi_json_get_real(&factor, object, key, what, err));
    if (factor != 1)
        return kvsi_fail(err, KVS_E_UNSUPPORTED, "'%s': key '%s': expected 1, found %.9g", what,
                         key, factor);
    return KVS_OK;
}

/* Where newer files keep the base of the positions. */
static kvs_status read_rope_parameters(kvs_model_config *config, const json_t *object,
                                       const char *what, kvs_err *err)
{
    static const char name[] = "rope_parameters";
    json_t *rope = json_object_get(object, name), *value;
    const char *type = "default", *key;

    if (config->body != KVSI_BODY_LLAMA || !is_given(object, name))
        return KVS_OK;
    TRY(expect_object(rope, name, what, err));
    json_object_foreach(rope, key, value) {
        if (strcmp(key, "rope_theta") != 0 && strcmp(key, "rope_type") != 0 &&
            strcmp(key, "partial_rotary_factor") != 0)
            return refuse_key(key, name, what, err);
    }
    TRY(check_whole_rotation(rope, what, err));
    TRY(kvsi_json_get_real(&config->rope_base, rope, "rope_theta", what, err));
    TRY(kvsi_json_get_text(&type, rope, "rope_type", what, err));
    if (strcmp(type, "default") != 0)
        return kvsi_fail(err, KVS_E_UNSUPPORTED,
                         "'%s': key 'rope_type': expected 'default', found '%.100s'", what, type);
    return KVS_OK;
}

static kvs_status check_activation(kvsi_body body, const json_t *object, const char *what,
                                   kvs_err *err)
{
    const char *key = body == KVSI_BODY_GPT2 ? "activation_function" : "hidden_act";
    const char *expected = body == KVSI_BODY_GPT2 ? "gelu_new" : "silu";
    const char *found = expected;

    TRY(kvsi_json_get_text(&found, object, key, what, err));
    if (strcmp(found, expected) != 0)
        return kvsi_fail(err, KVS_E_UNSUPPORTED, "'%s': key '%s': expected '%s', found '%.100s'",
                         what, key, expected, found);
    return KVS_OK;
}

/* null, or an object that says nothing but {"rope_type": "default"}; older files call it "type". */
static int is_unscaled(const json_t *scaling)
{
    const json_t *type = json_object_get(scaling, "rope_type");
    const char *name;

    type = type ? type : json_object_get(scaling, "type");
    name = json_string_value(type);
    return !scaling || json_is_null(scaling) ||
           (json_object_size(scaling) == 1 && name && strcmp(name, "default") == 0);
}

static kvs_status check_supported(kvsi_body body, const json_t *object, const char *what,
                                  kvs_err *err)
{
    static const struct {
        const char *key;
        kvsi_body body;
        int expected;
    } flags[] = {
        {"attention_bias", KVSI_BODY_LLAMA, 0},
        {"mlp_bias", KVSI_BODY_LLAMA, 0},
        {"scale_attn_weights", KVSI_BODY_GPT2, 1},
        {"scale_attn_by_inverse_layer_idx", KVSI_BODY_GPT2, 0},
        {"add_cross_attention", KVSI_BODY_GPT2, 0},
    };

    TRY(check_activation(body, object, what, err));
    for (size_t i = 0; i < sizeof flags / sizeof *flags; i++) {
        int found = flags[i].expected;

        if (flags[i].body != body)
            continue;
        TRY(kvsi_json_get_bool(&found, object, flags[i].key, what, err));
        if (found != flags[i].expected)
            return kvsi_fail(err, KVS_E_UNSUPPORTED, "'%s': key '%s': expected %s, found %s", what,
                             flags[i].key, found ? "false" : "true", found ? "true" : "false");
    }
    if (body == KVSI_BODY_LLAMA && !is_unscaled(json_object_get(object, "rope_scaling")))
        return kvsi_fail(err, KVS_E_UNSUPPORTED,
                         "'%s': key 'rope_scaling': expected null, scaled positions are unknown "
                         "here",
                         what);
    if (body == KVSI_BODY_LLAMA)
        TRY(check_whole_rotation(object, what, err));
    return KVS_OK;
}

static kvs_status check_head_dim(const kvs_model_config *config, const json_t *object,
                                 const char *what, kvs_err *err)
{
    const size_t expected = config->dim / config->heads;
    size_t head_dim = expected;

    if (config->body == KVSI_BODY_LLAMA && is_given(object, "head_dim"))
        TRY(kvsi_json_get_size(&head_dim, object, "head_dim", what, err));
    if (head_dim != expected)
        return kvsi_fail(err, KVS_E_UNSUPPORTED,
                         "'%s': key 'head_dim': expected hidden_size / num_attention_heads = %zu, "
                         "found %zu",
                         what, expected, head_dim);
    return KVS_OK;
}

/* ---- reading: our object --------------------------------------------------------------------- */

/* The setting with that key in our object; NULL if there is none. */
static const kvsi_setting *find_own(const char *key, kvsi_body body)
{
    for (size_t i = 0; i < kvsi_model_settings.count; i++) {
        const kvsi_setting *row = kvsi_model_settings.rows + i;
        char name[KVSI_SETTING_KEY];

        kvsi_setting_file_key(name, row);
        if (is_own(row, body) && strcmp(name, key) == 0)
            return row;
    }
    return NULL;
}

const kvsi_setting *kvsi_hf_setting(const char *key, kvsi_body body)
{
    for (size_t i = 0; i < HF_KEYS; i++)
        if (is_of(hf_keys + i, body) && strcmp(hf_keys[i].key, key) == 0)
            return setting_of(hf_keys + i);
    return find_own(key, body);
}

/* Reads the settings of the object's keys; a key that is not one of ours is refused. */
static kvs_status read_own(kvs_model_config *config, json_t *own, const char *what, kvs_err *err)
{
    const char *key;
    json_t *value;

    json_object_foreach(own, key, value) {
        const kvsi_setting *found = find_own(key, config->body);

        if (!found && strcmp(key, "body") != 0) /* which was read first */
            return refuse_key(key, SHIFT_KEY, what, err);
        if (!found || json_is_null(value))
            continue;
        TRY(kvsi_setting_from_json(found, config, own, key, what, err));
        if (found->negated)
            *(int *)(void *)((char *)config + found->offset) = !json_is_true(value);
    }
    return KVS_OK;
}

/* An object that says nothing has most likely lost what it should say. */
static kvs_status check_own_says_something(const kvs_model_config *config, const char *what,
                                           kvs_err *err)
{
    json_t *own = own_to_json(config);
    const int plain = own && json_object_size(own) == 0;

    json_decref(own);
    if (plain)
        return kvsi_fail(err, KVS_E_FORMAT,
                         "'%s': key '%s': expected what differs from a plain model (targets, ...), "
                         "found nothing",
                         what, SHIFT_KEY);
    return KVS_OK;
}

/* Files have 15 digits: a third of 12 channels is to stay 4, not become 3.99... */
static void restore_rotary_fraction(kvs_model_config *config)
{
    const double head_size = (double)config->dim / (double)config->heads;
    const double channels = config->rotary_fraction * head_size;

    if (fabs(channels - round(channels)) < 1e-9)
        config->rotary_fraction = round(channels) / head_size;
}

/* ---- reading: all of it ---------------------------------------------------------------------- */

/* The body, as our object says or the type of a plain model. */
static kvs_status read_body(kvsi_body *body, const json_t *object, const json_t *own,
                            const char *what, kvs_err *err)
{
    const char *name = "llama";
    kvs_err inner;

    *body = KVSI_BODY_LLAMA;
    if (own) {
        TRY(expect_object(own, SHIFT_KEY, what, err));
        TRY(kvsi_json_get_text(&name, own, "body", what, err));
        TRY(kvsi_in_file(kvsi_body_parse(body, name, &inner), &inner, what, err));
    } else {
        TRY(kvsi_json_get_text(&name, object, "model_type", what, err));
        if (strcmp(name, plain_names[KVSI_BODY_GPT2].type) == 0)
            *body = KVSI_BODY_GPT2;
    }
    return KVS_OK;
}

/* The names of the architecture must agree with the rest, so that no file is run as what it is
 * not. */
static kvs_status check_kind(const json_t *object, kvsi_body body, int plain, const char *what,
                             kvs_err *err)
{
    const json_t *models = json_object_get(object, "architectures");
    const char *type = plain ? plain_names[body].type : SHIFT_TYPE;
    const char *model = plain ? plain_names[body].model : SHIFT_MODEL;
    const char *found = type;

    TRY(kvsi_json_get_text(&found, object, "model_type", what, err));
    if (strcmp(found, type) != 0)
        return kvsi_fail(err, KVS_E_UNSUPPORTED,
                         "'%s': key 'model_type': expected %s a '%s' object, found '%.100s'", what,
                         plain ? "'llama' or 'gpt2' without" : "'kvshift' with", SHIFT_KEY, found);
    if (!is_given(object, "architectures"))
        return KVS_OK;
    found = json_string_value(json_array_get(models, 0));
    if (!found || strcmp(found, model) != 0)
        return kvsi_fail(err, KVS_E_UNSUPPORTED,
                         "'%s': key 'architectures': expected ['%s'], found '%.100s'", what, model,
                         found ? found : "no text");
    return KVS_OK;
}

/* What Hugging Face takes where a key is missing. */
static void set_hf_defaults(kvs_model_config *config, kvsi_body body)
{
    set_plain(config, body);
    if (body == KVSI_BODY_GPT2) {
        config->context = 1024;
        config->norm_eps = 1e-5;
        config->tied = 1;
        config->dropout_embedding = config->dropout_attention = config->dropout_residual = 0.1;
    } else {
        config->context = 2048;
        config->norm_eps = 1e-6;
        config->rope_base = 10000;
    }
}

kvs_status kvsi_hf_config_from_json(kvs_model_config *out, const json_t *object, const char *what,
                                    kvs_err *err)
{
    json_t *own = json_object_get(object, SHIFT_KEY);
    kvs_model_config config;
    kvsi_body body;
    kvs_err inner;

    TRY(read_body(&body, object, own, what, err));
    TRY(check_kind(object, body, own == NULL, what, err));
    TRY(check_supported(body, object, what, err));
    set_hf_defaults(&config, body);
    TRY(read_hf_keys(&config, object, what, err));
    TRY(check_sizes(&config, object, what, err));
    TRY(read_rope_parameters(&config, object, what, err));
    if (own)
        TRY(read_own(&config, own, what, err));
    restore_rotary_fraction(&config);
    TRY(kvsi_in_file(kvs_model_config_finish(&config, &inner), &inner, what, err));
    TRY(check_head_dim(&config, object, what, err));
    if (own)
        TRY(check_own_says_something(&config, what, err));
    *out = config;
    return KVS_OK;
}
