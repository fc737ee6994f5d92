/* The settings of a model as Hugging Face names them, for the families of families.c, and as we
 * name what goes beyond those.  What this library cannot compute (other activations, an unknown
 * scaling of positions) is refused by name; foreign keys that change nothing here are ignored.  As
 * in Hugging Face's own files, an optional key may be null. */
#include "formats/hf.h"

#include "config/config.h"
#include "formats/hf_positions.h"

#include <math.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

static const char OWN_KEY[] = "kvshift"; /* the object with our own settings */

/* ---- the keys -------------------------------------------------------------------------------- */

static const kvsi_setting *setting_of(const kvsi_family_key *key)
{
    char name[KVSI_SETTING_KEY];

    snprintf(name, sizeof name, "%.*s", (int)strcspn(key->setting, "="), key->setting);
    return kvsi_settings_find(&kvsi_model_settings, name);
}

/* Whether the setting is in our object; the body is there too, but is handled apart. */
static int is_own(const kvsi_setting *row, kvsi_body body)
{
    const kvsi_family_key *key;

    for (size_t i = 0; (key = kvsi_family_key_at(i)); i++)
        if (key->families & kvsi_family_own(body)->bit && strcmp(key->setting, row->name) == 0)
            return 0;
    return strcmp(row->name, "body") != 0;
}

/* ---- writing --------------------------------------------------------------------------------- */

static double *real_of(const kvsi_setting *row, kvs_model_config *config)
{
    return (double *)(void *)((char *)config + row->offset);
}

static size_t *size_of(const kvsi_setting *row, kvs_model_config *config)
{
    return (size_t *)(void *)((char *)config + row->offset);
}

/* Sets the setting of a KVSI_KEY_CHOICE. */
static kvs_status choose(const kvsi_family_key *key, kvs_model_config *config, int chosen,
                         const char *what, kvs_err *err)
{
    const kvsi_setting *row = setting_of(key);
    const char *text = chosen ? strchr(key->setting, '=') + 1 : row->value;

    return kvsi_setting_store(row, config, what, text, err);
}

/* The value of the key; NULL: no memory. */
static json_t *key_to_json(const kvsi_family_key *key, const kvs_model_config *config)
{
    const kvsi_setting *row = setting_of(key);
    kvs_model_config other = *config;
    double square;

    switch (key->kind) {
    case KVSI_KEY_NULLABLE:
        if (kvsi_setting_is_automatic(row, config))
            return json_null();
        break;
    case KVSI_KEY_INVERSE_ROOT:
        square = 1 / (*real_of(row, &other) * *real_of(row, &other));
        if (1 / sqrt(round(square)) == *real_of(row, &other)) /* what was read was an integer */
            return json_integer((json_int_t)round(square));
        *real_of(row, &other) = square;
        return kvsi_setting_to_json(row, &other);
    case KVSI_KEY_TAPS:
        return json_integer((json_int_t)(*size_of(row, &other) + 1));
    case KVSI_KEY_CHOICE:
        return json_boolean(choose(key, &other, 1, key->key, NULL) == KVS_OK &&
                            kvsi_setting_equal(row, config, &other));
    default:
        break;
    }
    return kvsi_setting_to_json(row, config);
}

/* Some families have a head size of their own where the key is missing.  Llama's files only have
 * the key where it says something. */
static int set_family_key(json_t *object, const kvsi_family_key *key,
                          const kvs_model_config *config, const kvsi_family *family)
{
    kvs_model_config c = *config;

    /* Readers round channels down, so a fraction such as 1/3 is written rounded up. */
    if (strcmp(key->setting, "rotary-fraction") == 0)
        c.rotary_fraction = ceil(c.rotary_fraction * 1e8 - 1e-3) / 1e8;

    if (strcmp(key->setting, "head-size") == 0 && c.head_size == 0) {
        if (strcmp(family->type, "llama") == 0)
            return 0;
        c.head_size = c.dim / c.heads;
    }
    if (strcmp(key->setting, "sliding-head-size") == 0 && c.sliding_head_size == 0)
        c.sliding_head_size = c.head_size > 0 ? c.head_size : c.dim / c.sliding_heads;
    if (strcmp(key->setting, "score-scale") == 0 && c.score_scale == 0)
        c.score_scale = 1 / sqrt((double)(c.head_size > 0 ? c.head_size : c.dim / c.heads));
    return json_object_set_new(object, key->key, key_to_json(key, &c));
}

static int set_family_keys(json_t *object, const kvs_model_config *config,
                           const kvsi_family *family)
{
    const kvsi_family_key *key;
    int failed = 0;

    for (size_t i = 0; (key = kvsi_family_key_at(i)); i++)
        if (key->families & family->bit)
            failed |= set_family_key(object, key, config, family);
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
    if (c.norm_kind == (c.body == KVSI_BODY_GPT2 ? KVSI_NORM_LAYER : KVSI_NORM_RMS))
        c.norm_kind = plain->norm_kind;
    if (c.activation ==
        (c.body == KVSI_BODY_GPT2 ? KVSI_ACTIVATION_GELU_TANH : KVSI_ACTIVATION_SILU))
        c.activation = plain->activation;
    if (c.body == KVSI_BODY_GPT2)
        c.plain_mlp = plain->plain_mlp;
    return c;
}

/* Low-rank adapters are no setting; they have an object of their own in ours.  For a model of a
 * family it also has the family's config.json, so that the model without the adapters can be
 * written as that family again. */
static const char LORA_KEY[] = "lora", LORA_MODEL_KEY[] = "model";

static int set_lora(json_t *object, const kvs_model_config *config)
{
    const kvsi_lora_config *lora = &config->lora;
    kvs_model_config without = *config;
    const kvsi_family *family = NULL;
    json_t *adapters, *model;
    int failed = 0;

    if (lora->rank == 0)
        return 0;
    adapters = json_pack("{s:I, s:f, s:s}", "rank", (json_int_t)lora->rank, "alpha", lora->alpha,
                         "on", lora->on);
    without.lora.rank = 0;
    model = kvsi_hf_config_to_family_json(&without, &family);
    if (family)
        failed |= json_object_set(adapters, LORA_MODEL_KEY, model);
    json_decref(model);
    return failed | json_object_set_new(object, LORA_KEY, adapters);
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
    failed |= set_lora(object, config);
    /* Hugging Face's GPT-2 is tied; and a body is only named where it is not Llama's. */
    if (c.body == KVSI_BODY_GPT2 && (json_object_size(object) > 0 || !c.tied))
        failed |= json_object_set_new(object, "body", json_string(kvsi_body_name(c.body)));
    if (failed) {
        json_decref(object);
        return NULL;
    }
    return object;
}

/* The keys with one value in most files of the family, which come first. */
static int set_fixed_keys(json_t *object, const kvsi_family *family, int rotary)
{
    const kvsi_family_fixed *fixed;
    int failed = 0;

    for (size_t i = 0; (fixed = kvsi_family_fixed_at(i)); i++)
        if (fixed->written & family->bit)
            failed |= json_object_set_new(object, fixed->key, json_boolean(fixed->expected));
    if (rotary)
        failed |= json_object_set_new(object, "rope_scaling", json_null()); /* unless scaled */
    return failed | json_object_set_new(object, "torch_dtype", json_string("float32"));
}

/* The name of the activation; that of the family's settings if no other fits, as in our own files,
 * whose object says what it is. */
static json_t *activation_to_json(const kvsi_family *family, const kvs_model_config *config)
{
    const kvsi_setting *row = kvsi_settings_find(&kvsi_model_settings, "activation");

    for (size_t i = 1; i < KVSI_FAMILY_ACTIVATIONS && family->activations[i]; i++) {
        const char *name = family->activations[i], *value = strchr(name, '=');
        kvs_model_config other = *config;

        if (value && kvsi_setting_store(row, &other, name, value + 1, NULL) == KVS_OK &&
            kvsi_setting_equal(row, &other, config))
            return json_stringn(name, (size_t)(value - name));
    }
    return json_string(family->activations[0]);
}

static const char DENSE[] = "dense";

static int set_dense_layers(json_t *object, const kvs_model_config *config,
                            const kvsi_family *family)
{
    json_t *list = json_array();
    int failed = 0;

    for (size_t l = 0; l < config->layers; l++)
        failed |= json_array_append_new(list, json_string(DENSE));
    return failed | json_object_set_new(object, family->dense_layers, list);
}

/* config.json of a family; `own`, which may be NULL, is our object.  NULL: no memory. */
static json_t *family_to_json(const kvsi_family *family, const kvs_model_config *config,
                              json_t *own)
{
    const int rotary =
        own ? config->body == KVSI_BODY_LLAMA : config->positions == KVSI_POSITIONS_ROPE;
    json_t *object = json_object();
    int failed =
        json_object_set_new(object, family->activation_key, activation_to_json(family, config));

    failed |= set_fixed_keys(object, family, rotary);
    failed |= json_object_set_new(object, "model_type", json_string(family->type));
    failed |= json_object_set_new(object, "architectures", json_pack("[s]", family->model));
    failed |= set_family_keys(object, config, family);
    if (family->dense_layers)
        failed |= set_dense_layers(object, config, family);
    if (own)
        failed |= json_object_set(object, OWN_KEY, own);
    else
        failed |= kvsi_hf_positions_write(object, config, family);
    if (failed) {
        json_decref(object);
        return NULL;
    }
    return object;
}

json_t *kvsi_hf_config_to_json(const kvs_model_config *config)
{
    static const char *const plain[] = {
        [KVSI_BODY_LLAMA] = "llama",
        [KVSI_BODY_GPT2] = "gpt2",
    };
    json_t *own = own_to_json(config), *object;

    if (!own)
        return NULL;
    if (json_object_size(own) > 0)
        object = family_to_json(kvsi_family_own(config->body), config, own);
    else
        object = family_to_json(kvsi_family_find(plain[config->body]), config, NULL);
    json_decref(own);
    return object;
}

static int is_equal(const kvs_model_config *a, const kvs_model_config *b)
{
    for (size_t i = 0; i < kvsi_model_settings.count; i++)
        if (!kvsi_setting_equal(kvsi_model_settings.rows + i, a, b))
            return 0;
    return 1;
}

/* config.json of the family if that says everything about the model; otherwise NULL. */
static json_t *to_this_family(const kvsi_family *family, const kvs_model_config *config)
{
    kvs_model_config finished = *config, again;
    json_t *object;

    if (finished.shift.targets == 0) { /* the rest of it says nothing then */
        set_plain(&again, config->body);
        finished.shift = again.shift;
    }
    if (kvs_model_config_finish(&finished, NULL) != KVS_OK || finished.body != family->body ||
        finished.lora.rank > 0)
        return NULL;
    object = family_to_json(family, &finished, NULL);
    if (object && kvsi_hf_config_from_json(&again, object, "config.json", NULL) == KVS_OK &&
        is_equal(&again, &finished))
        return object;
    json_decref(object);
    return NULL;
}

json_t *kvsi_hf_config_to_family_json(const kvs_model_config *config, const kvsi_family **family)
{
    json_t *object = NULL;

    *family = config->family ? kvsi_family_find(config->family) : NULL;
    if (*family && (object = to_this_family(*family, config)))
        return object;
    for (size_t i = 0; !object && (*family = kvsi_family_at(i)); i++)
        if (!(*family)->packed)
            object = to_this_family(*family, config);
    return object ? object : kvsi_hf_config_to_json(config);
}

kvs_status kvsi_hf_config_write(const kvs_model_config *config, const char *path, kvs_err *err)
{
    kvs_status st;
    const kvsi_family *family;
    json_t *object = kvsi_hf_config_to_family_json(config, &family);

    if (!object)
        return kvsi_fail(err, KVS_E_NOMEM, "no memory to write '%s'", path);
    st = kvsi_json_write(object, path, err);
    json_decref(object);
    return st;
}

/* ---- reading: the keys of the tables --------------------------------------------------------- */

static kvs_status read_taps(kvs_model_config *config, const json_t *object,
                            const kvsi_family_key *key, const char *what, kvs_err *err)
{
    const kvsi_setting *row = setting_of(key);
    size_t taps = 0;

    TRY(kvsi_json_get_size(&taps, object, key->key, what, err));
    if (taps < 2 || taps > (size_t)row->high + 1)
        return kvsi_fail(err, KVS_E_UNSUPPORTED, "'%s': key '%s': expected 2 to %zu, found %zu",
                         what, key->key, (size_t)row->high + 1, taps);
    *size_of(row, config) = taps - 1;
    return KVS_OK;
}

static kvs_status read_key(kvs_model_config *config, const json_t *object,
                           const kvsi_family_key *key, const char *what, kvs_err *err)
{
    const kvsi_setting *row = setting_of(key);
    const kvs_model_config before = *config;
    int chosen = 0;

    if (key->kind == KVSI_KEY_TAPS)
        return read_taps(config, object, key, what, err);
    if (key->kind == KVSI_KEY_CHOICE) {
        TRY(kvsi_json_get_bool(&chosen, object, key->key, what, err));
        return choose(key, config, chosen, what, err);
    }
    TRY(kvsi_setting_from_json(row, config, object, key->key, what, err));
    if (key->kind == KVSI_KEY_SAME && !kvsi_setting_equal(row, config, &before)) {
        char expected[KVSI_SETTING_VALUE], found[KVSI_SETTING_VALUE];

        kvsi_setting_write(expected, row, &before);
        kvsi_setting_write(found, row, config);
        return kvsi_fail(err, KVS_E_UNSUPPORTED, "'%s': key '%s': expected %.40s, found %.40s",
                         what, key->key, expected, found);
    }
    if (key->kind == KVSI_KEY_AT_MOST && *size_of(row, config) > *size_of(row, (void *)&before))
        return kvsi_fail(err, KVS_E_FORMAT, "'%s': key '%s': expected at most %zu, found %zu", what,
                         key->key, *size_of(row, (void *)&before), *size_of(row, config));
    if (key->kind != KVSI_KEY_INVERSE_ROOT)
        return KVS_OK;
    if (*real_of(row, config) == 0)
        return kvsi_fail(err, KVS_E_FORMAT, "'%s': key '%s': expected more than 0, found 0", what,
                         key->key);
    *real_of(row, config) = 1 / sqrt(*real_of(row, config));
    return KVS_OK;
}

static kvs_status read_family_keys(kvs_model_config *config, const json_t *object,
                                   const kvsi_family *family, const char *what, kvs_err *err)
{
    const kvsi_family_key *key;

    for (size_t i = 0; (key = kvsi_family_key_at(i)); i++) {
        if (!(key->families & family->bit))
            continue;
        if (key->kind == KVSI_KEY_REQUIRED)
            TRY(kvsi_json_require(object, key->key, what, err));
        else if (key->kind == KVSI_KEY_NULLABLE && json_is_null(json_object_get(object, key->key)))
            *real_of(setting_of(key), config) = 0;
        if (key->kind == KVSI_KEY_REQUIRED || kvsi_hf_is_given(object, key->key))
            TRY(read_key(config, object, key, what, err));
    }
    if (family->root_scale)
        config->embedding_scale = sqrt((double)config->dim);
    return KVS_OK;
}

/* A size or multiplier of 0 in Hugging Face's keys would ask for a default later on. */
static kvs_status check_sizes(const kvs_model_config *config, const json_t *object,
                              const kvsi_family *family, const char *what, kvs_err *err)
{
    const kvsi_family_key *key;

    for (size_t i = 0; (key = kvsi_family_key_at(i)); i++) {
        const kvsi_setting *row = setting_of(key);

        if (row->kind == KVSI_SETTING_SIZE && key->families & family->bit &&
            kvsi_hf_is_given(object, key->key) &&
            *(const size_t *)(const void *)((const char *)config + row->offset) == 0)
            return kvsi_fail(err, KVS_E_FORMAT, "'%s': key '%s': expected at least 1, found 0",
                             what, key->key);
        if (row->kind == KVSI_SETTING_REAL && row->automatic && key->families & family->bit &&
            kvsi_hf_is_given(object, key->key) && kvsi_setting_is_automatic(row, config))
            return kvsi_fail(err, KVS_E_FORMAT, "'%s': key '%s': expected more than 0, found 0",
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

static kvs_status read_activation(kvs_model_config *config, const kvsi_family *family,
                                  const char *key, const json_t *object, const char *what,
                                  kvs_err *err)
{
    const kvsi_setting *row = kvsi_settings_find(&kvsi_model_settings, "activation");
    const char *found = family->activations[0];

    if (key && kvsi_hf_is_given(object, key))
        TRY(kvsi_json_get_text(&found, object, key, what, err));
    for (size_t i = 0; i < KVSI_FAMILY_ACTIVATIONS && family->activations[i]; i++) {
        const char *name = family->activations[i], *value = strchr(name, '=');
        const size_t length = value ? (size_t)(value - name) : strlen(name);

        if (strlen(found) == length && strncmp(found, name, length) == 0)
            return value ? kvsi_setting_store(row, config, what, value + 1, err) : KVS_OK;
    }
    return kvsi_fail(err, KVS_E_UNSUPPORTED, "'%s': key '%s': expected '%s', found '%.100s'", what,
                     key, family->activations[0], found);
}

static kvs_status check_fixed(const kvsi_family_fixed *fixed, const kvsi_family *family,
                              const json_t *object, const char *what, kvs_err *err)
{
    double number = fixed->expected;
    int flag = fixed->expected;

    if (!kvsi_hf_is_given(object, fixed->key))
        return KVS_OK;
    if (fixed->kind == KVSI_FIXED_NULL)
        return kvsi_fail(err, KVS_E_UNSUPPORTED,
                         "'%s': key '%s': expected null in models of type '%s'", what, fixed->key,
                         family->type);
    if (fixed->kind == KVSI_FIXED_NUMBER)
        TRY(kvsi_json_get_real(&number, object, fixed->key, what, err));
    else
        TRY(kvsi_json_get_bool(&flag, object, fixed->key, what, err));
    if (number != fixed->expected)
        return kvsi_fail(err, KVS_E_UNSUPPORTED, "'%s': key '%s': expected %d, found %.9g", what,
                         fixed->key, fixed->expected, number);
    if (flag != fixed->expected)
        return kvsi_fail(
            err, KVS_E_UNSUPPORTED, "'%s': key '%s': expected %s in models of type '%s', found %s",
            what, fixed->key, flag ? "false" : "true", family->type, flag ? "true" : "false");
    return KVS_OK;
}

static kvs_status check_supported(const kvsi_family *family, const json_t *object, const char *what,
                                  kvs_err *err)
{
    const kvsi_family_fixed *fixed;

    for (size_t i = 0; (fixed = kvsi_family_fixed_at(i)); i++)
        if (fixed->families & family->bit)
            TRY(check_fixed(fixed, family, object, what, err));
    return KVS_OK;
}

/* Without the list all layers have experts. */
static kvs_status check_dense_layers(const kvs_model_config *config, const json_t *object,
                                     const kvsi_family *family, const char *what, kvs_err *err)
{
    const json_t *list = json_object_get(object, family->dense_layers), *member;
    size_t i;

    if (kvsi_hf_is_given(object, family->dense_layers) && json_array_size(list) != config->layers)
        return kvsi_fail(err, KVS_E_FORMAT,
                         "'%s': key '%s': expected a list of %zu names, found %zu", what,
                         family->dense_layers, config->layers, json_array_size(list));
    json_array_foreach(list, i, member) {
        const char *found = json_string_value(member);

        if (!found || strcmp(found, DENSE) != 0)
            return kvsi_fail(err, KVS_E_UNSUPPORTED,
                             "'%s': key '%s': expected '%s' only, found '%.100s'; models of type "
                             "'%s' with mixtures of experts are not supported",
                             what, family->dense_layers, DENSE, found ? found : "no text",
                             family->type);
    }
    if (!kvsi_hf_is_given(object, family->dense_layers))
        return kvsi_fail(err, KVS_E_UNSUPPORTED,
                         "'%s': key '%s' is missing; models of type '%s' with mixtures of experts "
                         "are not supported",
                         what, family->dense_layers, family->type);
    return KVS_OK;
}

/* In our own files the key only repeats what our object says. */
static kvs_status check_head_dim(const kvs_model_config *config, const json_t *object,
                                 const char *what, kvs_err *err)
{
    const size_t expected = config->head_size > 0 ? config->head_size : config->dim / config->heads;
    size_t head_dim = expected;

    if (config->body == KVSI_BODY_LLAMA && kvsi_hf_is_given(object, "head_dim"))
        TRY(kvsi_json_get_size(&head_dim, object, "head_dim", what, err));
    if (head_dim != expected)
        return kvsi_fail(err, KVS_E_UNSUPPORTED, "'%s': key 'head_dim': expected %zu, found %zu",
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

const kvsi_setting *kvsi_hf_setting(const char *name, kvsi_body body)
{
    const kvsi_family_key *key;

    for (size_t i = 0; (key = kvsi_family_key_at(i)); i++)
        if (key->families & kvsi_family_own(body)->bit && strcmp(key->key, name) == 0)
            return setting_of(key);
    return find_own(name, body);
}

static kvs_status read_lora(kvsi_lora_config *lora, const json_t *object, const char *what,
                            kvs_err *err)
{
    static const char *const keys[] = {"rank", "alpha", "on", "model"};
    const char *on = NULL, *key;
    json_t *value;

    TRY(expect_object(object, LORA_KEY, what, err));
    json_object_foreach((json_t *)object, key, value) {
        size_t i = 0;

        while (i < sizeof keys / sizeof *keys && strcmp(keys[i], key) != 0)
            i++;
        if (i == sizeof keys / sizeof *keys)
            return refuse_key(key, LORA_KEY, what, err);
    }
    TRY(kvsi_json_require(object, "rank", what, err));
    TRY(kvsi_json_require(object, "alpha", what, err));
    TRY(kvsi_json_require(object, "on", what, err));
    TRY(kvsi_json_get_size(&lora->rank, object, "rank", what, err));
    TRY(kvsi_json_get_real(&lora->alpha, object, "alpha", what, err));
    TRY(kvsi_json_get_text(&on, object, "on", what, err));
    if (lora->rank == 0)
        return kvsi_fail(err, KVS_E_FORMAT, "'%s': key 'rank': expected at least 1, found 0", what);
    if (strlen(on) >= sizeof lora->on)
        return kvsi_fail(err, KVS_E_LIMIT, "'%s': key 'on': expected at most %zu bytes, found %zu",
                         what, sizeof lora->on - 1, strlen(on));
    memcpy(lora->on, on, strlen(on) + 1);
    return KVS_OK;
}

/* Reads the settings of the object's keys; a key that is not one of ours is refused. */
static kvs_status read_own(kvs_model_config *config, json_t *own, const char *what, kvs_err *err)
{
    const char *key;
    json_t *value;

    json_object_foreach(own, key, value) {
        const kvsi_setting *found = find_own(key, config->body);

        if (strcmp(key, LORA_KEY) == 0) {
            TRY(read_lora(&config->lora, value, what, err));
            continue;
        }
        if (!found && strcmp(key, "body") != 0) /* which was read first */
            return refuse_key(key, OWN_KEY, what, err);
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
                         what, OWN_KEY);
    return KVS_OK;
}

/* Our files have 15 digits: a third of 12 channels is to stay 4, not become 3.99...  In those of
 * families the channels are rounded down. */
static void restore_rotary_fraction(kvs_model_config *config, int own)
{
    const double head_size = config->head_size > 0 ? (double)config->head_size
                                                   : (double)config->dim / (double)config->heads;
    const double channels = config->rotary_fraction * head_size;

    if (!own)
        config->rotary_fraction = floor(channels) / head_size;
    else if (fabs(channels - round(channels)) < 1e-9)
        config->rotary_fraction = round(channels) / head_size;
}

/* ---- reading: all of it ---------------------------------------------------------------------- */

/* The names of all families with commas between. */
static void list_types(char *out, size_t size)
{
    const kvsi_family *family;
    size_t at = 0;

    for (size_t i = 0; (family = kvsi_family_at(i)) && at < size; i++)
        at += (size_t)snprintf(out + at, size - at, "%s%s", i > 0 ? ", " : "", family->type);
}

/* Our own family with the body that our object says, or the family with that type. */
static kvs_status find_family(const kvsi_family **out, const json_t *object, const json_t *own,
                              const char *what, kvs_err *err)
{
    kvsi_body body = KVSI_BODY_LLAMA;
    const char *name = "llama", *missing;
    char types[256];
    kvs_err inner;

    if (own) {
        TRY(expect_object(own, OWN_KEY, what, err));
        TRY(kvsi_json_get_text(&name, own, "body", what, err));
        TRY(kvsi_in_file(kvsi_body_parse(&body, name, &inner), &inner, what, err));
        *out = kvsi_family_own(body);
        return KVS_OK;
    }
    TRY(kvsi_json_get_text(&name, object, "model_type", what, err));
    *out = kvsi_family_find(name);
    if (*out)
        return KVS_OK;
    missing = kvsi_family_missing(name);
    if (strcmp(name, kvsi_own_type) == 0)
        return kvsi_fail(err, KVS_E_UNSUPPORTED,
                         "'%s': key 'model_type': '%s' needs a '%s' object, found none", what, name,
                         OWN_KEY);
    if (missing)
        return kvsi_fail(err, KVS_E_UNSUPPORTED,
                         "'%s': key 'model_type': models of type '%.100s' are not supported; they "
                         "need %s",
                         what, name, missing);
    list_types(types, sizeof types);
    return kvsi_fail(err, KVS_E_UNSUPPORTED,
                     "'%s': key 'model_type': models of type '%.100s' are not supported; the types "
                     "that are: %s",
                     what, name, types);
}

/* The names of the architecture must agree with the rest, so that no file is run as what it is
 * not. */
static kvs_status check_kind(const json_t *object, const kvsi_family *family, const char *what,
                             kvs_err *err)
{
    const json_t *models = json_object_get(object, "architectures");
    const char *found = family->type;

    TRY(kvsi_json_get_text(&found, object, "model_type", what, err));
    if (strcmp(found, family->type) != 0)
        return kvsi_fail(err, KVS_E_UNSUPPORTED,
                         "'%s': key 'model_type': expected '%s' with a '%s' object, found '%.100s'",
                         what, family->type, OWN_KEY, found);
    if (!kvsi_hf_is_given(object, "architectures"))
        return KVS_OK;
    found = json_string_value(json_array_get(models, 0));
    if (!found || strcmp(found, family->model) != 0)
        return kvsi_fail(err, KVS_E_UNSUPPORTED,
                         "'%s': key 'architectures': expected ['%s'], found '%.100s'", what,
                         family->model, found ? found : "no text");
    return KVS_OK;
}

/* Replaces the configuration of a model with adapters by that of its family, if its file has it. */
static kvs_status take_family(kvs_model_config *config, const json_t *own, const char *what,
                              kvs_err *err)
{
    const json_t *model = json_object_get(json_object_get(own, LORA_KEY), LORA_MODEL_KEY);
    kvs_model_config of_family;

    if (!model)
        return KVS_OK;
    TRY(expect_object(model, LORA_MODEL_KEY, what, err));
    if (json_object_get(model, OWN_KEY))
        return refuse_key(OWN_KEY, LORA_MODEL_KEY, what, err);
    TRY(kvsi_hf_config_from_json(&of_family, model, what, err));
    of_family.lora = config->lora;
    *config = of_family;
    return KVS_OK;
}

kvs_status kvsi_hf_config_from_json(kvs_model_config *out, const json_t *object, const char *what,
                                    kvs_err *err)
{
    json_t *own = json_object_get(object, OWN_KEY);
    const kvsi_family *family;
    kvs_model_config config;
    kvs_err inner;

    TRY(find_family(&family, object, own, what, err));
    TRY(check_kind(object, family, what, err));
    TRY(check_supported(family, object, what, err));
    set_plain(&config, family->body);
    TRY(kvsi_family_set(family, &config, err));
    TRY(read_activation(&config, family, family->activation_key, object, what, err));
    TRY(read_activation(&config, family, family->second_activation_key, object, what, err));
    TRY(read_family_keys(&config, object, family, what, err));
    TRY(check_sizes(&config, object, family, what, err));
    if (family->dense_layers)
        TRY(check_dense_layers(&config, object, family, what, err));
    TRY(kvsi_hf_positions_read(&config, object, family, what, err));
    if (own)
        TRY(read_own(&config, own, what, err));
    restore_rotary_fraction(&config, own != NULL);
    TRY(kvsi_in_file(kvs_model_config_finish(&config, &inner), &inner, what, err));
    if (own)
        TRY(check_head_dim(&config, object, what, err));
    if (own)
        TRY(check_own_says_something(&config, what, err));
    config.family = own ? NULL : family->type;
    TRY(take_family(&config, own, what, err));
    *out = config;
    return KVS_OK;
}
