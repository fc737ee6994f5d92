#include "formats/hf_positions.h"

#include <math.h>
#include <string.h>

static const char FULL[] = "full_attention", SLIDING[] = "sliding_attention";
static const char WINDOW[] = "sliding_window";

/* The names of a family's files, unless they are those. */
static const char *full_of(const kvsi_family *family)
{
    return family->full_layer ? family->full_layer : FULL;
}

static const char *sliding_of(const kvsi_family *family)
{
    return family->sliding_layer ? family->sliding_layer : SLIDING;
}

static const char *window_of(const kvsi_family *family)
{
    return family->window ? family->window : WINDOW;
}

int kvsi_hf_is_given(const json_t *object, const char *key)
{
    const json_t *value = json_object_get(object, key);

    return value && !json_is_null(value);
}

static kvs_status expect_object(const json_t *value, const char *name, const char *what,
                                kvs_err *err)
{
    if (!json_is_object(value))
        return kvsi_fail(err, KVS_E_FORMAT, "'%s': key '%s': expected an object", what, name);
    return KVS_OK;
}

static kvs_status refuse_key(const char *key, const char *name, const char *what, kvs_err *err)
{
    return kvsi_fail(err, KVS_E_UNSUPPORTED, "'%s': unknown key '%.100s' in '%s'", what, key, name);
}

/* ---- scaled rotary positions ----------------------------------------------------------------- */

enum {
    OF_LINEAR = 1 << KVSI_ROPE_LINEAR,
    OF_LLAMA3 = 1 << KVSI_ROPE_LLAMA3,
    OF_YARN = 1 << KVSI_ROPE_YARN,
    OF_DYNAMIC = 1 << KVSI_ROPE_DYNAMIC,
    OF_LONGROPE = 1 << KVSI_ROPE_LONGROPE,
    OF_ALL = OF_LINEAR | OF_LLAMA3 | OF_YARN | OF_DYNAMIC | OF_LONGROPE,
    NEEDED = 1 << 16,
};

/* The keys of a scaling, the settings that they are, and the kinds that have them. */
static const struct {
    const char *key, *setting;
    unsigned kinds, needed;
} scaling_keys[] = {
    {"factor", "rope-factor", OF_ALL, OF_ALL & ~OF_LONGROPE},
    {"original_max_position_embeddings", "rope-original-context",
     OF_LLAMA3 | OF_YARN | OF_DYNAMIC | OF_LONGROPE, OF_LLAMA3},
    {"low_freq_factor", "rope-low-factor", OF_LLAMA3, OF_LLAMA3},
    {"high_freq_factor", "rope-high-factor", OF_LLAMA3, OF_LLAMA3},
    {"beta_fast", "rope-beta-fast", OF_YARN, 0},
    {"beta_slow", "rope-beta-slow", OF_YARN, 0},
    {"attention_factor", "rope-vector-scale", OF_YARN | OF_LONGROPE, 0},
    {"short_factor", "rope-short-factors", OF_LONGROPE, OF_LONGROPE},
    {"long_factor", "rope-long-factors", OF_LONGROPE, OF_LONGROPE},
};

enum { SCALING_KEYS = sizeof scaling_keys / sizeof *scaling_keys };

/* Keys that need more than one setting, or none. */
static const struct {
    const char *key;
    unsigned kinds;
} other_keys[] = {
    {"rope_type", ~0u},          {"type", ~0u},
    {"rope_theta", ~0u},         {"partial_rotary_factor", ~0u},
    {"truncate", OF_YARN},       {"mscale", OF_YARN},
    {"mscale_all_dim", OF_YARN},
};

static const kvsi_setting *setting_of(size_t i)
{
    return kvsi_settings_find(&kvsi_model_settings, scaling_keys[i].setting);
}

static int is_known(const char *key, unsigned kind)
{
    for (size_t i = 0; i < SCALING_KEYS; i++)
        if (strcmp(scaling_keys[i].key, key) == 0)
            return (scaling_keys[i].kinds & kind) != 0;
    for (size_t i = 0; i < sizeof other_keys / sizeof *other_keys; i++)
        if (strcmp(other_keys[i].key, key) == 0)
            return (other_keys[i].kinds & kind) != 0;
    return 0;
}

static kvs_status read_kind_of(kvsi_rope_scaling *out, const json_t *rope, const char *key,
                               const char *what, kvs_err *err)
{
    static const struct {
        const char *name;
        kvsi_rope_scaling kind;
    } kinds[] = {
        {"default", KVSI_ROPE_PLAIN},   {"linear", KVSI_ROPE_LINEAR},
        {"llama3", KVSI_ROPE_LLAMA3},   {"yarn", KVSI_ROPE_YARN},
        {"dynamic", KVSI_ROPE_DYNAMIC}, {"longrope", KVSI_ROPE_LONGROPE},
        {"su", KVSI_ROPE_LONGROPE},
    };
    const char *found = NULL;

    TRY(kvsi_json_get_text(&found, rope, key, what, err));
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++)
        if (strcmp(kinds[i].name, found) == 0) {
            *out = kinds[i].kind;
            return KVS_OK;
        }
    return kvsi_fail(err, KVS_E_UNSUPPORTED,
                     "'%s': key '%s': expected 'default', 'linear', 'llama3', 'yarn', "
                     "'dynamic' or 'longrope', found '%.100s'",
                     what, key, found);
}

/* The kind by its name in newer or older files; some have both. */
static kvs_status read_kind(kvsi_rope_scaling *out, const json_t *rope, const char *name,
                            const char *what, kvs_err *err)
{
    static const char newer[] = "rope_type", older[] = "type";
    const int both = kvsi_hf_is_given(rope, newer) && kvsi_hf_is_given(rope, older);
    kvsi_rope_scaling other = KVSI_ROPE_PLAIN;

    if (both) {
        TRY(read_kind_of(&other, rope, older, what, err));
        TRY(read_kind_of(out, rope, newer, what, err));
        if (other != *out)
            return kvsi_fail(err, KVS_E_UNSUPPORTED,
                             "'%s': keys '%s' and '%s' contradict each other", what, newer, older);
        return KVS_OK;
    }
    if (kvsi_hf_is_given(rope, newer))
        return read_kind_of(out, rope, newer, what, err);
    if (kvsi_hf_is_given(rope, older))
        return read_kind_of(out, rope, older, what, err);
    if (strcmp(name, "rope_scaling") == 0)
        return kvsi_fail(err, KVS_E_FORMAT, "'%s': key 'rope_scaling': expected a 'rope_type'",
                         what);
    *out = KVSI_ROPE_PLAIN;
    return KVS_OK;
}

/* yarn: the scale of vectors is 1 + 0.1 mscale log(factor), over the same with mscale_all_dim. */
static kvs_status read_yarn(kvsi_rope_config *r, const json_t *rope, const char *what, kvs_err *err)
{
    double scale = 0, all = 0;
    int truncate = 1;

    if (kvsi_hf_is_given(rope, "truncate"))
        TRY(kvsi_json_get_bool(&truncate, rope, "truncate", what, err));
    r->untruncated = !truncate;
    if (kvsi_hf_is_given(rope, "mscale"))
        TRY(kvsi_json_get_real(&scale, rope, "mscale", what, err));
    if (kvsi_hf_is_given(rope, "mscale_all_dim"))
        TRY(kvsi_json_get_real(&all, rope, "mscale_all_dim", what, err));
    if (r->vector_scale == 0 && scale != 0 && all != 0 && r->factor > 1)
        r->vector_scale = (0.1 * scale * log(r->factor) + 1) / (0.1 * all * log(r->factor) + 1);
    return KVS_OK;
}

/* Some kinds are only computed up to the original context, which is then the model's. */
static void limit_context(kvs_model_config *config)
{
    kvsi_rope_config *r = &config->rope;

    if (r->original_context == 0 && r->scaling != KVSI_ROPE_LINEAR)
        r->original_context = config->context;
    if (r->scaling == KVSI_ROPE_LONGROPE && r->factor == 0)
        r->factor = (double)config->context / (double)r->original_context;
    if (r->scaling == KVSI_ROPE_LONGROPE && config->context > r->original_context)
        config->context = r->original_context;
}

static kvs_status read_scaling(kvs_model_config *config, const json_t *rope, const char *name,
                               const char *what, kvs_err *err)
{
    kvsi_rope_config *r = &config->rope;
    const char *key;
    json_t *value;
    unsigned kind;

    TRY(read_kind(&r->scaling, rope, name, what, err));
    kind = 1u << r->scaling;
    json_object_foreach((json_t *)rope, key, value) {
        if (!is_known(key, kind) && !json_is_null(value))
            return refuse_key(key, name, what, err);
    }
    for (size_t i = 0; i < SCALING_KEYS; i++)
        if (scaling_keys[i].needed & kind && !kvsi_hf_is_given(rope, scaling_keys[i].key))
            return kvsi_fail(err, KVS_E_FORMAT, "'%s': key '%s' is missing in '%s'", what,
                             scaling_keys[i].key, name);
        else if (scaling_keys[i].kinds & kind && kvsi_hf_is_given(rope, scaling_keys[i].key))
            TRY(kvsi_setting_from_json(setting_of(i), config, rope, scaling_keys[i].key, what,
                                       err));
    if (r->scaling == KVSI_ROPE_PLAIN)
        return KVS_OK;
    if (r->scaling == KVSI_ROPE_YARN)
        TRY(read_yarn(r, rope, what, err));
    if (r->scaling == KVSI_ROPE_DYNAMIC && r->original_context > 0 &&
        r->original_context != config->context)
        return kvsi_fail(err, KVS_E_UNSUPPORTED,
                         "'%s': key 'original_max_position_embeddings': expected "
                         "max_position_embeddings = %zu with 'dynamic', found %zu",
                         what, config->context, r->original_context);
    limit_context(config);
    return KVS_OK;
}

/* Families that rotate whole heads have the key only to say so. */
static kvs_status read_partial(kvs_model_config *config, const json_t *rope,
                               const kvsi_family *family, const char *what, kvs_err *err)
{
    static const char key[] = "partial_rotary_factor", setting[] = "rotary-fraction";
    double factor = 1;

    if (!kvsi_hf_is_given(rope, key))
        return KVS_OK;
    for (size_t i = 0; kvsi_family_key_at(i); i++)
        if (kvsi_family_key_at(i)->families & family->bit &&
            strcmp(kvsi_family_key_at(i)->setting, setting) == 0)
            return kvsi_setting_from_json(kvsi_settings_find(&kvsi_model_settings, setting), config,
                                          rope, key, what, err);
    TRY(kvsi_json_get_real(&factor, rope, key, what, err));
    if (factor != 1)
        return kvsi_fail(err, KVS_E_UNSUPPORTED, "'%s': key '%s': expected 1, found %.9g", what,
                         key, factor);
    return KVS_OK;
}

/* Version 5 has an object per kind of layer where they have different bases.  Layers with a window
 * have no scaling. */
static kvs_status read_local_rope(const json_t **full, kvs_model_config *config, const json_t *rope,
                                  const char *name, const char *what, kvs_err *err)
{
    const json_t *local = json_object_get(rope, SLIDING);
    kvsi_rope_scaling kind;
    const char *key;
    json_t *value;

    json_object_foreach((json_t *)rope, key, value) {
        if (strcmp(key, FULL) != 0 && strcmp(key, SLIDING) != 0)
            return refuse_key(key, name, what, err);
        TRY(expect_object(value, key, what, err));
    }
    *full = json_object_get(rope, FULL);
    if (!*full || !local)
        return kvsi_fail(err, KVS_E_FORMAT, "'%s': key '%s': expected '%s' and '%s'", what, name,
                         FULL, SLIDING);
    TRY(read_kind(&kind, local, name, what, err));
    json_object_foreach((json_t *)local, key, value) {
        if (kind != KVSI_ROPE_PLAIN || !is_known(key, 1u << KVSI_ROPE_PLAIN))
            return kvsi_fail(err, KVS_E_UNSUPPORTED,
                             "'%s': key '%s': expected no scaling in '%s', found '%.100s'", what,
                             name, SLIDING, key);
    }
    if (kvsi_hf_is_given(local, "rope_theta"))
        TRY(kvsi_setting_from_json(kvsi_settings_find(&kvsi_model_settings, "sliding-rope-base"),
                                   config, local, "rope_theta", what, err));
    return KVS_OK;
}

/* Fails if a key of the configuration and one of the object for positions have other numbers. */
static kvs_status expect_agreement(const json_t *object, const char *key, const json_t *rope,
                                   const char *inner, const char *what, kvs_err *err)
{
    const json_t *a = json_object_get(object, key), *b = json_object_get(rope, inner);

    if (json_is_number(a) && json_is_number(b) && json_number_value(a) != json_number_value(b))
        return kvsi_fail(err, KVS_E_UNSUPPORTED,
                         "'%s': key '%s': expected %.9g, as '%s' among the rotary positions, found "
                         "%.9g",
                         what, key, json_number_value(b), inner, json_number_value(a));
    return KVS_OK;
}

static kvs_status read_rope(kvs_model_config *config, const json_t *object,
                            const kvsi_family *family, const char *what, kvs_err *err)
{
    static const char newer[] = "rope_parameters", older[] = "rope_scaling";
    static const char original[] = "original_max_position_embeddings";
    static const char *const repeated[] = {"rope_theta", "partial_rotary_factor", original};
    const char *name = kvsi_hf_is_given(object, newer) ? newer : older;
    const json_t *rope = json_object_get(object, name);
    size_t outer = 0;

    if (kvsi_hf_is_given(object, original))
        TRY(kvsi_json_get_size(&outer, object, original, what, err));
    if (!kvsi_hf_is_given(object, name))
        return KVS_OK;
    TRY(expect_object(rope, name, what, err));
    if (family->local_rope && name == newer) {
        TRY(expect_agreement(object, "rope_local_base_freq", json_object_get(rope, SLIDING),
                             "rope_theta", what, err));
        TRY(read_local_rope(&rope, config, rope, name, what, err));
    }
    for (size_t i = 0; i < sizeof repeated / sizeof *repeated; i++)
        TRY(expect_agreement(object, repeated[i], rope, repeated[i], what, err));
    if (name == newer && kvsi_hf_is_given(object, older) &&
        kvsi_hf_is_given(json_object_get(object, older), "factor") &&
        !kvsi_hf_is_given(rope, "factor"))
        return kvsi_fail(err, KVS_E_UNSUPPORTED, "'%s': keys '%s' and '%s' contradict each other",
                         what, newer, older);
    TRY(read_partial(config, rope, family, what, err));
    if (kvsi_hf_is_given(rope, "rope_theta"))
        TRY(kvsi_setting_from_json(kvsi_settings_find(&kvsi_model_settings, "rope-base"), config,
                                   rope, "rope_theta", what, err));
    config->rope.original_context = outer; /* unless `rope` has it too */
    TRY(read_scaling(config, rope, name, what, err));
    if (config->rope.scaling == KVSI_ROPE_PLAIN || config->rope.scaling == KVSI_ROPE_LINEAR)
        config->rope.original_context = 0;
    return KVS_OK;
}

/* Version 4's keys, which version 5 also reads; without a scaling the key is there, as null.
 * Version 4 only reads longrope with the older name of its type and nothing but the factors. */
static int write_rope(json_t *object, const kvs_model_config *config)
{
    const kvsi_rope_config *r = &config->rope;
    const char *type = r->scaling == KVSI_ROPE_LONGROPE ? "type" : "rope_type";
    json_t *rope;
    int failed;

    if (r->scaling == KVSI_ROPE_PLAIN)
        return 0;
    rope = json_object();
    failed = json_object_set_new(rope, type, json_string(kvsi_rope_scaling_name(r->scaling)));
    for (size_t i = 0; i < SCALING_KEYS; i++)
        if (scaling_keys[i].kinds & 1u << r->scaling &&
            (scaling_keys[i].needed & 1u << r->scaling ||
             !kvsi_setting_is_automatic(setting_of(i), config)))
            failed |= json_object_set_new(rope, scaling_keys[i].key,
                                          kvsi_setting_to_json(setting_of(i), config));
    if (r->untruncated)
        failed |= json_object_set_new(rope, "truncate", json_false());
    if (r->scaling == KVSI_ROPE_LONGROPE) {
        const double whole = round(r->factor * (double)r->original_context);

        json_object_del(rope, "factor"); /* it follows from the contexts */
        json_object_del(rope, "original_max_position_embeddings");
        failed |=
            json_object_set_new(object, "max_position_embeddings", json_integer((json_int_t)whole));
        failed |= json_object_set_new(object, "original_max_position_embeddings",
                                      json_integer((json_int_t)r->original_context));
    }
    return failed | json_object_set_new(object, "rope_scaling", rope);
}

/* ---- layers without rotary positions --------------------------------------------------------- */

static kvs_status read_no_rope(kvs_model_config *config, const json_t *object, const char *what,
                               kvs_err *err)
{
    static const char key[] = "no_rope_layers";
    const json_t *list = json_object_get(object, key), *member;
    size_t interval = 4, i;

    if (config->layers > KVSI_LISTED_LAYERS_MAX)
        return kvsi_fail(err, KVS_E_LIMIT,
                         "'%s': key 'num_hidden_layers': expected at most %d, found %zu", what,
                         KVSI_LISTED_LAYERS_MAX, config->layers);
    if (kvsi_hf_is_given(object, "no_rope_layer_interval"))
        TRY(kvsi_json_get_size(&interval, object, "no_rope_layer_interval", what, err));
    if (!kvsi_hf_is_given(object, key)) {
        for (size_t l = 0; interval > 0 && l < config->layers; l++)
            if ((l + 1) % interval == 0)
                config->no_rope_layers |= (uint64_t)1 << l;
        return KVS_OK;
    }
    if (json_array_size(list) != config->layers)
        return kvsi_fail(err, KVS_E_FORMAT,
                         "'%s': key '%s': expected a list of %zu numbers, found %zu", what, key,
                         config->layers, json_array_size(list));
    json_array_foreach(list, i, member) {
        const json_int_t number = json_is_integer(member) ? json_integer_value(member) : -1;

        if (number != 0 && number != 1)
            return kvsi_fail(err, KVS_E_FORMAT, "'%s': key '%s': expected 0 and 1 only", what, key);
        if (number == 0)
            config->no_rope_layers |= (uint64_t)1 << i;
    }
    return KVS_OK;
}

static int write_no_rope(json_t *object, const kvs_model_config *config)
{
    json_t *list = json_array();
    int failed = 0;

    for (size_t l = 0; l < config->layers; l++)
        failed |= json_array_append_new(
            list,
            json_integer(l < KVSI_LISTED_LAYERS_MAX && config->no_rope_layers >> l & 1 ? 0 : 1));
    return failed | json_object_set_new(object, "no_rope_layers", list);
}

/* ---- windows --------------------------------------------------------------------------------- */

/* The layers with a window: a number of them, and their bits. */
typedef struct windows {
    size_t count;
    uint64_t bits;
} windows;

static void add_layer(windows *w, size_t layer)
{
    w->count++;
    if (layer < KVSI_LISTED_LAYERS_MAX)
        w->bits |= (uint64_t)1 << layer;
}

static kvs_status read_layer_types(windows *w, const kvs_model_config *config, const json_t *object,
                                   const kvsi_family *family, const char *what, kvs_err *err)
{
    static const char key[] = "layer_types";
    const char *full = full_of(family), *sliding = sliding_of(family);
    const json_t *list = json_object_get(object, key), *member;
    size_t i;

    if (!json_is_array(list) || json_array_size(list) != config->layers)
        return kvsi_fail(err, KVS_E_FORMAT,
                         "'%s': key '%s': expected a list of %zu names, found %zu", what, key,
                         config->layers, json_array_size(list));
    json_array_foreach(list, i, member) {
        const char *name = json_string_value(member);

        if (!name || (strcmp(name, full) != 0 && strcmp(name, sliding) != 0))
            return kvsi_fail(err, KVS_E_UNSUPPORTED,
                             "'%s': key '%s': expected '%s' or '%s', found '%.100s'", what, key,
                             full, sliding, name ? name : "no text");
        if (strcmp(name, sliding) == 0)
            add_layer(w, i);
    }
    return KVS_OK;
}

/* Version 5 has the key with an underline, beside 'layer_types', which decides. */
static kvs_status read_pattern(size_t *period, const json_t *object, const char *what, kvs_err *err)
{
    static const char *const names[] = {"_sliding_window_pattern", "sliding_window_pattern"};

    *period = 6;
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        if (kvsi_hf_is_given(object, names[i]))
            TRY(kvsi_json_get_size(period, object, names[i], what, err));
        if (*period == 0)
            return kvsi_fail(err, KVS_E_FORMAT, "'%s': key '%s': expected at least 1, found 0",
                             what, names[i]);
    }
    return KVS_OK;
}

static kvs_status find_layers(windows *w, const kvs_model_config *config, const json_t *object,
                              const kvsi_family *family, const char *what, kvs_err *err)
{
    size_t first = 28, period = 0;
    int asked = family->windows != KVSI_WINDOWS_ASKED;

    if (kvsi_hf_is_given(object, "use_sliding_window"))
        TRY(kvsi_json_get_bool(&asked, object, "use_sliding_window", what, err));
    if (kvsi_hf_is_given(object, "max_window_layers"))
        TRY(kvsi_json_get_size(&first, object, "max_window_layers", what, err));
    if (family->windows == KVSI_WINDOWS_PATTERN)
        TRY(read_pattern(&period, object, what, err));
    if (kvsi_hf_is_given(object, "layer_types") || family->windows == KVSI_WINDOWS_LISTED)
        return read_layer_types(w, config, object, family, what, err);
    if (family->windows != KVSI_WINDOWS_ASKED)
        first = 0;
    if (family->windows == KVSI_WINDOWS_ALTERNATE)
        period = 2;
    for (size_t l = first; asked && l < config->layers; l++)
        if (period == 0 || (l + 1) % period != 0)
            add_layer(w, l);
    return KVS_OK;
}

static kvs_status read_windows(kvs_model_config *config, const json_t *object,
                               const kvsi_family *family, const char *what, kvs_err *err)
{
    const char *key = window_of(family);
    size_t window = config->sliding_window; /* of files without the key */
    windows w = {0};
    int asked = 1;

    config->sliding_window = 0;
    if (json_is_null(json_object_get(object, key)))
        window = 0;
    else
        TRY(kvsi_json_get_size(&window, object, key, what, err));
    TRY(find_layers(&w, config, object, family, what, err));
    if (family->windows == KVSI_WINDOWS_ALL && window == 0)
        return kvsi_hf_is_given(object, "layer_types") && w.count > 0
                   ? kvsi_fail(err, KVS_E_FORMAT, "'%s': key 'layer_types' has '%s' without '%s'",
                               what, sliding_of(family), key)
                   : KVS_OK;
    if (kvsi_hf_is_given(object, "use_sliding_window"))
        TRY(kvsi_json_get_bool(&asked, object, "use_sliding_window", what, err));
    if (w.count == 0)
        return KVS_OK;
    if (window == 0 || !asked)
        return kvsi_fail(err, KVS_E_FORMAT,
                         "'%s': expected a '%s' that is used, since %zu of %zu layers have one",
                         what, key, w.count, config->layers);
    if (w.count < config->layers && config->layers > KVSI_LISTED_LAYERS_MAX)
        return kvsi_fail(err, KVS_E_LIMIT,
                         "'%s': key 'num_hidden_layers': expected at most %d where only some have "
                         "a window, found %zu",
                         what, KVSI_LISTED_LAYERS_MAX, config->layers);
    config->sliding_window = window;
    config->sliding_layers = w.count < config->layers ? w.bits : 0;
    return KVS_OK;
}

static int slides(const kvs_model_config *config, size_t layer)
{
    return config->sliding_window > 0 &&
           (config->sliding_layers == 0 || config->sliding_layers >> layer & 1);
}

/* For versions that do not know 'layer_types': the period, if there is one. */
static int write_pattern(json_t *object, const kvs_model_config *config)
{
    size_t period = 1;

    while (period <= config->layers && slides(config, period - 1))
        period++;
    for (size_t l = 0; l < config->layers; l++)
        if (slides(config, l) != ((l + 1) % period != 0))
            return 0;
    return json_object_set_new(object, "sliding_window_pattern", json_integer((json_int_t)period));
}

static int write_windows(json_t *object, const kvs_model_config *config, const kvsi_family *family)
{
    json_t *list;
    size_t first = 0;
    int failed = 0;

    if (config->sliding_window > 0)
        failed |= json_object_set_new(object, window_of(family),
                                      json_integer((json_int_t)config->sliding_window));
    else if (family->windows != KVSI_WINDOWS_LISTED) /* where only the list says so */
        failed |= json_object_set_new(object, window_of(family), json_null());
    if (family->windows == KVSI_WINDOWS_ALL)
        return failed;
    list = json_array();
    for (size_t l = 0; l < config->layers; l++)
        failed |= json_array_append_new(
            list, json_string(slides(config, l) ? sliding_of(family) : full_of(family)));
    while (first < config->layers && !slides(config, first))
        first++;
    if (family->windows == KVSI_WINDOWS_ASKED) {
        failed |= json_object_set_new(object, "max_window_layers", json_integer((json_int_t)first));
        failed |= json_object_set_new(object, "use_sliding_window",
                                      json_boolean(config->sliding_window > 0));
    }
    if (family->windows == KVSI_WINDOWS_PATTERN)
        failed |= write_pattern(object, config);
    return failed | json_object_set_new(object, "layer_types", list);
}

/* ---- scores that grow ------------------------------------------------------------------------ */

static const char GROWTH[] = "log_scaling_alpha", GROWTH_START[] = "log_scaling_n_floor";

/* Without a start they do not grow. */
static kvs_status read_growth(kvs_model_config *config, const json_t *object, const char *what,
                              kvs_err *err)
{
    double growth = 0.1;
    size_t start = 0;

    if (kvsi_hf_is_given(object, GROWTH))
        TRY(kvsi_json_get_real(&growth, object, GROWTH, what, err));
    if (!kvsi_hf_is_given(object, GROWTH_START))
        return KVS_OK;
    TRY(kvsi_json_get_size(&start, object, GROWTH_START, what, err));
    if (start == 0)
        return kvsi_fail(err, KVS_E_FORMAT, "'%s': key '%s': expected at least 1, found 0", what,
                         GROWTH_START);
    if (growth < 0)
        return kvsi_fail(err, KVS_E_FORMAT, "'%s': key '%s': expected at least 0, found %.9g", what,
                         GROWTH, growth);
    config->score_growth = growth;
    config->score_growth_start = growth > 0 ? (double)start : 0;
    return KVS_OK;
}

static int write_growth(json_t *object, const kvs_model_config *config)
{
    const double start = config->score_growth_start;

    if (config->score_growth == 0)
        return json_object_set_new(object, GROWTH_START, json_null());
    return json_object_set_new(object, GROWTH, json_real(config->score_growth)) |
           json_object_set_new(object, GROWTH_START,
                               start == floor(start) ? json_integer((json_int_t)start)
                                                     : json_real(start));
}

/* ---- both ------------------------------------------------------------------------------------ */

kvs_status kvsi_hf_positions_read(kvs_model_config *config, const json_t *object,
                                  const kvsi_family *family, const char *what, kvs_err *err)
{
    if (config->body != KVSI_BODY_LLAMA)
        return KVS_OK;
    if (config->positions == KVSI_POSITIONS_ROPE)
        TRY(read_rope(config, object, family, what, err));
    if (family->grows_scores)
        TRY(read_growth(config, object, what, err));
    if (family->skips_rope)
        TRY(read_no_rope(config, object, what, err));
    if (family->windows != KVSI_WINDOWS_NONE)
        TRY(read_windows(config, object, family, what, err));
    if (config->sliding_window == 0) {
        config->sliding_rope_base = 0;
        config->sliding_heads = config->sliding_kv_heads = config->sliding_head_size = 0;
    }
    return KVS_OK;
}

int kvsi_hf_positions_write(json_t *object, const kvs_model_config *config,
                            const kvsi_family *family)
{
    int failed = 0;

    if (config->body != KVSI_BODY_LLAMA)
        return 0;
    if (config->positions == KVSI_POSITIONS_ROPE)
        failed |= write_rope(object, config);
    if (family->grows_scores)
        failed |= write_growth(object, config);
    if (family->skips_rope)
        failed |= write_no_rope(object, config);
    if (family->windows != KVSI_WINDOWS_NONE)
        failed |= write_windows(object, config, family);
    return failed;
}
