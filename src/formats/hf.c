/* The settings of a model as Hugging Face names them, for the bodies of Llama and GPT-2, and as we
 * name what goes beyond those.  What this library cannot compute (scaled positions, other
 * activations) is refused by name; foreign keys that change nothing here are ignored.  As in
 * Hugging Face's own files, an optional key may be null. */
#include "formats/hf.h"

#include <math.h>
#include <stddef.h>
#include <string.h>

static const char SHIFT_TYPE[] = "kvshift", SHIFT_MODEL[] = "KVShiftForCausalLM";
static const char SHIFT_KEY[] = "kvshift"; /* the object with our own settings */

static const struct {
    const char *type, *model;
} plain_names[] = {
    [KVS_BODY_LLAMA] = {"llama", "LlamaForCausalLM"},
    [KVS_BODY_GPT2] = {"gpt2", "GPT2LMHeadModel"},
};

/* ---- the keys -------------------------------------------------------------------------------- */

typedef enum value_kind {
    WHOLE,  /* size_t */
    REAL,   /* double */
    FLAG,   /* int */
    ABSENT, /* int that says the opposite of the key: no_norm for "norm" */
} value_kind;

enum { LLAMA = 1 << KVS_BODY_LLAMA, GPT2 = 1 << KVS_BODY_GPT2, REQUIRED = 1 << 2 };

typedef struct config_key {
    const char *key;
    size_t offset;
    value_kind kind;
    unsigned of; /* the bodies whose files have it; REQUIRED */
} config_key;

#define FIELD(name) offsetof(kvs_model_config, name)

/* Hugging Face's. */
static const config_key hf_keys[] = {
    {"vocab_size", FIELD(vocab), WHOLE, LLAMA | GPT2 | REQUIRED},
    {"hidden_size", FIELD(dim), WHOLE, LLAMA | REQUIRED},
    {"intermediate_size", FIELD(ffn), WHOLE, LLAMA | REQUIRED},
    {"num_hidden_layers", FIELD(layers), WHOLE, LLAMA | REQUIRED},
    {"num_attention_heads", FIELD(heads), WHOLE, LLAMA | REQUIRED},
    {"num_key_value_heads", FIELD(kv_heads), WHOLE, LLAMA},
    {"max_position_embeddings", FIELD(context), WHOLE, LLAMA},
    {"rope_theta", FIELD(rope_base), REAL, LLAMA},
    {"rms_norm_eps", FIELD(norm_eps), REAL, LLAMA},
    {"n_embd", FIELD(dim), WHOLE, GPT2 | REQUIRED},
    {"n_inner", FIELD(ffn), WHOLE, GPT2},
    {"n_layer", FIELD(layers), WHOLE, GPT2 | REQUIRED},
    {"n_head", FIELD(heads), WHOLE, GPT2 | REQUIRED},
    {"n_positions", FIELD(context), WHOLE, GPT2},
    {"layer_norm_epsilon", FIELD(norm_eps), REAL, GPT2},
    {"embd_pdrop", FIELD(dropout_embedding), REAL, GPT2},
    {"attn_pdrop", FIELD(dropout_attention), REAL, GPT2},
    {"resid_pdrop", FIELD(dropout_residual), REAL, GPT2},
    {"initializer_range", FIELD(init_std), REAL, LLAMA | GPT2},
    {"tie_word_embeddings", FIELD(tied), FLAG, LLAMA | GPT2},
};

/* Ours, inside the object; written where they differ from the plain model. */
static const config_key own_keys[] = {
    {"kv_heads", FIELD(kv_heads), WHOLE, GPT2},
    {"rope_theta", FIELD(rope_base), REAL, GPT2},
    {"rotary_fraction", FIELD(rotary_fraction), REAL, LLAMA | GPT2},
    {"score_scale", FIELD(score_scale), REAL, LLAMA | GPT2},
    {"sliding_window", FIELD(sliding_window), WHOLE, LLAMA | GPT2},
    {"sliding_heads", FIELD(sliding_heads), WHOLE, LLAMA | GPT2},
    {"sliding_kv_heads", FIELD(sliding_kv_heads), WHOLE, LLAMA | GPT2},
    {"dropout_embedding", FIELD(dropout_embedding), REAL, LLAMA},
    {"dropout_attention", FIELD(dropout_attention), REAL, LLAMA},
    {"dropout_residual", FIELD(dropout_residual), REAL, LLAMA},
    {"residual", FIELD(no_residual), ABSENT, LLAMA | GPT2},
    {"mlp", FIELD(no_mlp), ABSENT, LLAMA | GPT2},
    {"norm", FIELD(no_norm), ABSENT, LLAMA | GPT2},
    {"identity_projections", FIELD(identity_projections), FLAG, LLAMA | GPT2},
    {"unit_embeddings", FIELD(unit_embeddings), FLAG, LLAMA | GPT2},
};

/* Ours that are no single number. */
static const char *const own_words[] = {
    "body", "targets", "form", "window", "init", "positions", "slopes", "sliding_layers", "head",
};

enum {
    HF_KEYS = sizeof hf_keys / sizeof *hf_keys,
    OWN_KEYS = sizeof own_keys / sizeof *own_keys,
    OWN_WORDS = sizeof own_words / sizeof *own_words,
};

static int is_of(const config_key *key, kvs_body body)
{
    return (key->of & 1u << body) != 0;
}

/* ---- writing --------------------------------------------------------------------------------- */

static json_t *value_to_json(const config_key *key, const kvs_model_config *config)
{
    const void *value = (const char *)config + key->offset;

    switch (key->kind) {
    case WHOLE:
        return json_integer((json_int_t) * (const size_t *)value);
    case REAL:
        return json_real(*(const double *)value);
    case FLAG:
        return json_boolean(*(const int *)value);
    case ABSENT:
        break;
    }
    return json_boolean(!*(const int *)value);
}

/* Adds the keys of a table; those that say the same as `plain`, if it is given, are left out. */
static int set_keys(json_t *object, const config_key *keys, size_t count,
                    const kvs_model_config *config, const kvs_model_config *plain)
{
    int failed = 0;

    for (size_t i = 0; i < count; i++) {
        json_t *value, *usual;

        if (!is_of(keys + i, config->body))
            continue;
        value = value_to_json(keys + i, config);
        usual = plain ? value_to_json(keys + i, plain) : NULL;
        if (!json_equal(value, usual))
            failed |= json_object_set(object, keys[i].key, value);
        json_decref(value);
        json_decref(usual);
    }
    return failed;
}

static int set_shift(json_t *object, const kvs_shift_config *shift)
{
    if (shift->targets == 0)
        return 0;
    return json_object_update_new(
        object, json_pack("{s:s, s:s, s:I, s:s}", "targets", kvs_shift_targets_name(shift->targets),
                          "form", kvs_shift_form_name(shift->form), "window",
                          (json_int_t)shift->window, "init", kvs_shift_init_name(shift->init)));
}

static int set_lists(json_t *object, const kvs_model_config *config)
{
    json_t *slopes = json_array(), *layers = json_array();
    int failed = 0;

    for (size_t i = 0; i < config->slopes; i++)
        failed |= json_array_append_new(slopes, json_real(config->slope[i]));
    for (size_t l = 0; l < KVS_LISTED_LAYERS_MAX; l++)
        if (config->sliding_layers >> l & 1)
            failed |= json_array_append_new(layers, json_integer((json_int_t)l));
    if (config->slopes > 0)
        failed |= json_object_set(object, "slopes", slopes);
    if (config->sliding_layers != 0)
        failed |= json_object_set(object, "sliding_layers", layers);
    json_decref(slopes);
    json_decref(layers);
    return failed;
}

/* What the plain model has; 0 stands for "as the others" here as in kvs_model_config_finish. */
static void set_plain(kvs_model_config *plain, kvs_body body)
{
    kvs_model_config_init(plain);
    kvs_model_config_set_body(plain, body);
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
    if (c.positions != KVS_POSITIONS_ROPE)
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
    failed |= set_shift(object, &c.shift);
    if (c.positions != plain.positions)
        failed |=
            json_object_set_new(object, "positions", json_string(kvs_positions_name(c.positions)));
    if (c.head != plain.head)
        failed |= json_object_set_new(object, "head", json_string(kvs_head_name(c.head)));
    failed |= set_keys(object, own_keys, OWN_KEYS, &c, &plain);
    failed |= set_lists(object, &c);
    /* Hugging Face's GPT-2 is tied; and a body is only named where it is not Llama's. */
    if (c.body == KVS_BODY_GPT2 && (json_object_size(object) > 0 || !c.tied))
        failed |= json_object_set_new(object, "body", json_string(kvs_body_name(c.body)));
    if (failed) {
        json_decref(object);
        return NULL;
    }
    return object;
}

/* What every file of this body says. */
static json_t *body_to_json(kvs_body body)
{
    if (body == KVS_BODY_GPT2)
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
    failed |= set_keys(object, hf_keys, HF_KEYS, config, NULL);
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

static kvs_status read_value(const config_key *key, kvs_model_config *config, const json_t *object,
                             const char *what, kvs_err *err)
{
    void *value = (char *)config + key->offset;
    int flag = 0;

    switch (key->kind) {
    case WHOLE:
        return kvsi_json_get_size(value, object, key->key, what, err);
    case REAL:
        return kvsi_json_get_real(value, object, key->key, what, err);
    case FLAG:
        return kvsi_json_get_bool(value, object, key->key, what, err);
    case ABSENT:
        break;
    }
    TRY(kvsi_json_get_bool(&flag, object, key->key, what, err));
    *(int *)value = !flag;
    return KVS_OK;
}

static kvs_status read_keys(kvs_model_config *config, const config_key *keys, size_t count,
                            const json_t *object, const char *what, kvs_err *err)
{
    for (size_t i = 0; i < count; i++) {
        if (!is_of(keys + i, config->body))
            continue;
        if (keys[i].of & REQUIRED)
            TRY(kvsi_json_require(object, keys[i].key, what, err));
        else if (!is_given(object, keys[i].key))
            continue;
        TRY(read_value(keys + i, config, object, what, err));
    }
    return KVS_OK;
}

/* A size of 0 in Hugging Face's keys would ask for a default later on. */
static kvs_status check_sizes(const kvs_model_config *config, const json_t *object,
                              const char *what, kvs_err *err)
{
    for (size_t i = 0; i < HF_KEYS; i++) {
        const config_key *key = hf_keys + i;

        if (key->kind == WHOLE && is_of(key, config->body) && is_given(object, key->key) &&
            *(const size_t *)(const void *)((const char *)config + key->offset) == 0)
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

    if (config->body != KVS_BODY_LLAMA || !is_given(object, name))
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

static kvs_status check_activation(kvs_body body, const json_t *object, const char *what,
                                   kvs_err *err)
{
    const char *key = body == KVS_BODY_GPT2 ? "activation_function" : "hidden_act";
    const char *expected = body == KVS_BODY_GPT2 ? "gelu_new" : "silu";
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

static kvs_status check_supported(kvs_body body, const json_t *object, const char *what,
                                  kvs_err *err)
{
    static const struct {
        const char *key;
        kvs_body body;
        int expected;
    } flags[] = {
        {"attention_bias", KVS_BODY_LLAMA, 0},
        {"mlp_bias", KVS_BODY_LLAMA, 0},
        {"scale_attn_weights", KVS_BODY_GPT2, 1},
        {"scale_attn_by_inverse_layer_idx", KVS_BODY_GPT2, 0},
        {"add_cross_attention", KVS_BODY_GPT2, 0},
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
    if (body == KVS_BODY_LLAMA && !is_unscaled(json_object_get(object, "rope_scaling")))
        return kvsi_fail(err, KVS_E_UNSUPPORTED,
                         "'%s': key 'rope_scaling': expected null, scaled positions are unknown "
                         "here",
                         what);
    if (body == KVS_BODY_LLAMA)
        TRY(check_whole_rotation(object, what, err));
    return KVS_OK;
}

static kvs_status check_head_dim(const kvs_model_config *config, const json_t *object,
                                 const char *what, kvs_err *err)
{
    const size_t expected = config->dim / config->heads;
    size_t head_dim = expected;

    if (config->body == KVS_BODY_LLAMA && is_given(object, "head_dim"))
        TRY(kvsi_json_get_size(&head_dim, object, "head_dim", what, err));
    if (head_dim != expected)
        return kvsi_fail(err, KVS_E_UNSUPPORTED,
                         "'%s': key 'head_dim': expected hidden_size / num_attention_heads = %zu, "
                         "found %zu",
                         what, expected, head_dim);
    return KVS_OK;
}

/* ---- reading: our object --------------------------------------------------------------------- */

static int is_own_key(const char *key, kvs_body body)
{
    for (size_t i = 0; i < OWN_WORDS; i++)
        if (strcmp(own_words[i], key) == 0)
            return 1;
    for (size_t i = 0; i < OWN_KEYS; i++)
        if (is_of(own_keys + i, body) && strcmp(own_keys[i].key, key) == 0)
            return 1;
    return 0;
}

static kvs_status check_own_keys(json_t *own, kvs_body body, const char *what, kvs_err *err)
{
    const char *key;
    json_t *value;

    json_object_foreach(own, key, value) {
        if (!is_own_key(key, body))
            return refuse_key(key, SHIFT_KEY, what, err);
    }
    return KVS_OK;
}

static kvs_status read_shift(kvs_shift_config *shift, const json_t *own, const char *what,
                             kvs_err *err)
{
    const char *targets = kvs_shift_targets_name(shift->targets);
    const char *form = kvs_shift_form_name(shift->form), *init = kvs_shift_init_name(shift->init);
    kvs_err inner;

    TRY(kvsi_json_get_text(&targets, own, "targets", what, err));
    TRY(kvsi_json_get_text(&form, own, "form", what, err));
    TRY(kvsi_json_get_text(&init, own, "init", what, err));
    TRY(kvsi_json_get_size(&shift->window, own, "window", what, err));
    TRY(kvsi_in_file(kvs_shift_targets_parse(&shift->targets, targets, &inner), &inner, what, err));
    TRY(kvsi_in_file(kvs_shift_form_parse(&shift->form, form, &inner), &inner, what, err));
    return kvsi_in_file(kvs_shift_init_parse(&shift->init, init, &inner), &inner, what, err);
}

static kvs_status read_choices(kvs_model_config *config, const json_t *own, const char *what,
                               kvs_err *err)
{
    const char *positions = kvs_positions_name(config->positions);
    const char *head = kvs_head_name(config->head);
    kvs_err inner;

    TRY(kvsi_json_get_text(&positions, own, "positions", what, err));
    TRY(kvsi_json_get_text(&head, own, "head", what, err));
    TRY(kvsi_in_file(kvs_positions_parse(&config->positions, positions, &inner), &inner, what,
                     err));
    return kvsi_in_file(kvs_head_parse(&config->head, head, &inner), &inner, what, err);
}

/* An optional list of at most `most` members; *out is NULL if there is none. */
static kvs_status get_list(json_t **out, const json_t *own, const char *key, size_t most,
                           const char *what, kvs_err *err)
{
    *out = json_object_get(own, key);
    if (*out && !json_is_array(*out))
        return kvsi_fail(err, KVS_E_FORMAT, "'%s': key '%s': expected a list", what, key);
    if (json_array_size(*out) > most)
        return kvsi_fail(err, KVS_E_FORMAT, "'%s': key '%s': expected at most %zu, found %zu", what,
                         key, most, json_array_size(*out));
    return KVS_OK;
}

static kvs_status read_lists(kvs_model_config *config, const json_t *own, const char *what,
                             kvs_err *err)
{
    json_t *list, *member;
    size_t i;

    TRY(get_list(&list, own, "slopes", KVS_SLOPES_MAX, what, err));
    json_array_foreach(list, i, member) {
        if (!json_is_number(member))
            return kvsi_fail(err, KVS_E_FORMAT, "'%s': key 'slopes': expected numbers", what);
        config->slope[config->slopes++] = json_number_value(member);
    }
    TRY(get_list(&list, own, "sliding_layers", KVS_LISTED_LAYERS_MAX, what, err));
    json_array_foreach(list, i, member) {
        const json_int_t layer = json_integer_value(member);

        if (!json_is_integer(member) || layer < 0 || layer >= KVS_LISTED_LAYERS_MAX)
            return kvsi_fail(err, KVS_E_FORMAT,
                             "'%s': key 'sliding_layers': expected whole numbers from 0 to %d",
                             what, KVS_LISTED_LAYERS_MAX - 1);
        config->sliding_layers |= (uint64_t)1 << layer;
    }
    return KVS_OK;
}

static kvs_status read_own(kvs_model_config *config, json_t *own, const char *what, kvs_err *err)
{
    TRY(check_own_keys(own, config->body, what, err));
    TRY(read_shift(&config->shift, own, what, err));
    TRY(read_choices(config, own, what, err));
    TRY(read_keys(config, own_keys, OWN_KEYS, own, what, err));
    return read_lists(config, own, what, err);
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
static kvs_status read_body(kvs_body *body, const json_t *object, const json_t *own,
                            const char *what, kvs_err *err)
{
    const char *name = "llama";
    kvs_err inner;

    *body = KVS_BODY_LLAMA;
    if (own) {
        TRY(expect_object(own, SHIFT_KEY, what, err));
        TRY(kvsi_json_get_text(&name, own, "body", what, err));
        TRY(kvsi_in_file(kvs_body_parse(body, name, &inner), &inner, what, err));
    } else {
        TRY(kvsi_json_get_text(&name, object, "model_type", what, err));
        if (strcmp(name, plain_names[KVS_BODY_GPT2].type) == 0)
            *body = KVS_BODY_GPT2;
    }
    return KVS_OK;
}

/* The names of the architecture must agree with the rest, so that no file is run as what it is
 * not. */
static kvs_status check_kind(const json_t *object, kvs_body body, int plain, const char *what,
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
static void set_hf_defaults(kvs_model_config *config, kvs_body body)
{
    set_plain(config, body);
    if (body == KVS_BODY_GPT2) {
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
    kvs_body body;
    kvs_err inner;

    TRY(read_body(&body, object, own, what, err));
    TRY(check_kind(object, body, own == NULL, what, err));
    TRY(check_supported(body, object, what, err));
    set_hf_defaults(&config, body);
    TRY(read_keys(&config, hf_keys, HF_KEYS, object, what, err));
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
