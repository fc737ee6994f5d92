/* Scaled rotary positions and windows in GGUF files.
 *
 * llama.cpp has the divisors of the frequencies of Llama 3 only as a tensor, rope_freqs.weight, and
 * those of longrope as two, of which the short ones are for contexts up to the original one. */
#include "config/rotations.h"
#include "formats/gguf_config.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char FREQS[] = "rope_freqs.weight", SHORTS[] = "rope_factors_short.weight",
                  LONGS[] = "rope_factors_long.weight";

/* ---- reading: scaled positions --------------------------------------------------------------- */

/* What frequencies are divided by. */
static kvs_status read_factors(size_t *count, double values[KVSI_LIST_MAX],
                               const kvsi_gguf_source *s, const char *name, kvs_err *err)
{
    const kvsi_file_tensor *tensor = kvsi_gguf_find_tensor(s->file, name);
    float numbers[KVSI_LIST_MAX];

    if (!tensor)
        return kvsi_fail(err, KVS_E_FORMAT, "'%s' has no tensor '%s'", s->path, name);
    *count = kvsi_file_tensor_count(tensor);
    if (tensor->rank != 1 || *count > KVSI_LIST_MAX || tensor->dtype != KVSI_F32)
        return kvsi_fail(err, KVS_E_UNSUPPORTED,
                         "'%s': tensor '%s': expected at most %d values of F32, found %zu of %s",
                         s->path, name, (int)KVSI_LIST_MAX, *count, kvsi_dtype_name(tensor->dtype));
    kvsi_dtype_decode(numbers, tensor->dtype, tensor->data, *count);
    for (size_t i = 0; i < *count; i++)
        values[i] = kvsi_gguf_meant(numbers[i]);
    return KVS_OK;
}

static kvs_status read_type(kvsi_rope_scaling *out, const kvsi_gguf_source *s, kvs_err *err)
{
    static const struct {
        const char *name;
        kvsi_rope_scaling kind;
    } kinds[] = {
        {"none", KVSI_ROPE_PLAIN},
        {"linear", KVSI_ROPE_LINEAR},
        {"yarn", KVSI_ROPE_YARN},
        {"longrope", KVSI_ROPE_LONGROPE},
    };
    const char *type = "linear"; /* a factor without a type means this */
    size_t size = strlen(type);
    char key[KVSI_GGUF_KEY];

    kvsi_gguf_full_key(key, s->family, "rope.scaling.type");
    TRY(kvsi_gguf_get_text(&type, &size, s->file, key, err));
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++)
        if (strlen(kinds[i].name) == size && memcmp(kinds[i].name, type, size) == 0) {
            *out = kinds[i].kind;
            return KVS_OK;
        }
    return kvsi_fail(err, KVS_E_UNSUPPORTED,
                     "'%s': key '%s': expected 'none', 'linear', 'yarn' or 'longrope', found "
                     "'%.*s'",
                     s->path, key, (int)(size < 32 ? size : 32), type);
}

static kvs_status expect(const kvsi_gguf_source *s, const char *key, double found, double expected,
                         kvs_err *err)
{
    char full[KVSI_GGUF_KEY];

    if (kvsi_gguf_is_near(found, expected))
        return KVS_OK;
    kvsi_gguf_full_key(full, s->family, key);
    return kvsi_fail(err, KVS_E_UNSUPPORTED, "'%s': key '%s': expected %.9g, found %.9g", s->path,
                     full, expected, found);
}

/* The original context; without the key it is the context. */
static kvs_status read_context(size_t *out, const kvsi_gguf_source *s, kvs_err *err)
{
    char key[KVSI_GGUF_KEY];
    int64_t value = 0;

    kvsi_gguf_full_key(key, s->family, "rope.scaling.original_context_length");
    if (!kvsi_gguf_find(s->file, key))
        return KVS_OK;
    TRY(kvsi_gguf_get_whole(&value, s->file, key, err));
    if (value < 1 || value > INT32_MAX)
        return kvsi_fail(err, KVS_E_FORMAT, "'%s': key '%s': expected 1 to %d, found %" PRId64,
                         s->path, key, INT32_MAX, value);
    *out = (size_t)value;
    return KVS_OK;
}

static double yarn_scale(double factor)
{
    return factor > 1 ? 1 + 0.1 * log(factor) : 1;
}

/* The product of a float may be a decimal number again. */
static double six_digits(double number)
{
    char text[32];
    double rounded;

    snprintf(text, sizeof text, "%.6g", number);
    rounded = strtod(text, NULL);
    return fabs(rounded - number) <= 2e-7 * fabs(number) ? rounded : number;
}

/* llama.cpp multiplies vectors by 1 + 0.1 log(factor) and by `attn_factor`; converters write
 * another key with the product, which it ignores. */
static kvs_status read_yarn(kvs_model_config *config, const kvsi_gguf_source *s, double factor,
                            double vectors, kvs_err *err)
{
    kvsi_rope_config *r = &config->rope;
    double extrapolation = 1, mean = 0;

    r->factor = factor;
    r->original_context = config->context;
    TRY(read_context(&r->original_context, s, err));
    TRY(kvsi_gguf_number(&r->beta_fast, s, "rope.scaling.yarn_beta_fast", err));
    TRY(kvsi_gguf_number(&r->beta_slow, s, "rope.scaling.yarn_beta_slow", err));
    TRY(kvsi_gguf_number(&extrapolation, s, "rope.scaling.yarn_ext_factor", err));
    TRY(kvsi_gguf_number(&mean, s, "rope.scaling.yarn_log_multiplier", err));
    if (extrapolation != -1) /* not set */
        TRY(expect(s, "rope.scaling.yarn_ext_factor", extrapolation, 1, err));
    TRY(expect(s, "rope.scaling.yarn_log_multiplier", mean, 0, err));
    if (kvsi_gguf_has_key(s, "rope.scaling.yarn_attn_factor")) {
        TRY(expect(s, "rope.scaling.attn_factor", vectors, 1, err));
        return kvsi_gguf_number(&r->vector_scale, s, "rope.scaling.yarn_attn_factor", err);
    }
    if (vectors != 1)
        r->vector_scale = six_digits(vectors * yarn_scale(factor));
    return KVS_OK;
}

/* Computed as far as the original context, which is then the model's. */
static kvs_status read_longrope(kvs_model_config *config, const kvsi_gguf_source *s, double vectors,
                                kvs_err *err)
{
    kvsi_rope_config *r = &config->rope;
    double usual;

    r->original_context = config->context;
    TRY(read_context(&r->original_context, s, err));
    TRY(read_factors(&r->shorts, r->short_factor, s, SHORTS, err));
    TRY(read_factors(&r->longs, r->long_factor, s, LONGS, err));
    r->factor = (double)config->context / (double)r->original_context;
    if (config->context > r->original_context)
        config->context = r->original_context;
    usual = kvsi_rope_vector_scale(r);
    r->vector_scale = kvsi_gguf_is_near(vectors, usual) ? 0 : vectors;
    return KVS_OK;
}

/* The divisors of a tensor are longrope with one list, on the whole context. */
static kvs_status read_freqs(kvs_model_config *config, const kvsi_gguf_source *s, double factor,
                             double vectors, kvs_err *err)
{
    kvsi_rope_config *r = &config->rope;

    TRY(expect(s, "rope.scaling.factor", factor, 1, err));
    TRY(expect(s, "rope.scaling.attn_factor", vectors, 1, err));
    r->scaling = KVSI_ROPE_LONGROPE;
    r->factor = 1;
    r->original_context = config->context;
    TRY(read_factors(&r->shorts, r->short_factor, s, FREQS, err));
    return read_factors(&r->longs, r->long_factor, s, FREQS, err);
}

static kvs_status read_scaling(kvs_model_config *config, const kvsi_gguf_source *s, kvs_err *err)
{
    kvsi_rope_config *r = &config->rope;
    double factor = 0, vectors = 1;

    TRY(read_type(&r->scaling, s, err));
    TRY(kvsi_gguf_number(&factor, s,
                         kvsi_gguf_has_key(s, "rope.scaling.factor") ? "rope.scaling.factor"
                                                                     : "rope.scale_linear",
                         err));
    if (factor == 0 || r->scaling == KVSI_ROPE_PLAIN)
        factor = 1;
    TRY(kvsi_gguf_number(&vectors, s, "rope.scaling.attn_factor", err));
    if (kvsi_gguf_find_tensor(s->file, SHORTS) || kvsi_gguf_find_tensor(s->file, LONGS))
        r->scaling = KVSI_ROPE_LONGROPE; /* converters do not always write the type */
    if (kvsi_gguf_find_tensor(s->file, FREQS))
        return read_freqs(config, s, factor, vectors, err);
    if (r->scaling == KVSI_ROPE_LONGROPE) {
        TRY(expect(s, "rope.scaling.factor", factor, 1, err));
        return read_longrope(config, s, vectors, err);
    }
    if (r->scaling == KVSI_ROPE_YARN && factor != 1)
        return read_yarn(config, s, factor, vectors, err);
    TRY(expect(s, "rope.scaling.attn_factor", vectors, 1, err));
    if (factor == 1)
        r->scaling = KVSI_ROPE_PLAIN;
    else
        r->factor = factor;
    return KVS_OK;
}

/* ---- reading: windows ------------------------------------------------------------------------ */

/* The layers with a window, as bits, and their number. */
typedef struct layers {
    uint64_t bits;
    size_t count;
} layers;

static void add_layer(layers *list, size_t layer)
{
    list->count++;
    if (layer < KVSI_LISTED_LAYERS_MAX)
        list->bits |= (uint64_t)1 << layer;
}

/* The pattern is a period, whose last layer has no window (0: all have one), or a flag per
 * layer. */
static kvs_status find_layers(layers *out, const kvs_model_config *config,
                              const kvsi_gguf_source *s, kvs_err *err)
{
    int64_t period = (int64_t)s->family->window_period;
    const kvsi_gguf_value *value;
    char key[KVSI_GGUF_KEY];

    kvsi_gguf_full_key(key, s->family, "attention.sliding_window_pattern");
    value = kvsi_gguf_find(s->file, key);
    if (value && value->is_array) {
        TRY(kvsi_gguf_get_array(&value, s->file, key, KVSI_GGUF_BOOL, err));
        if (value->count != config->layers)
            return kvsi_fail(err, KVS_E_FORMAT,
                             "'%s': key '%s': expected one value for each of %zu layers, found %zu",
                             s->path, key, config->layers, value->count);
        for (size_t l = 0; l < config->layers; l++)
            if (value->data[l])
                add_layer(out, l);
        return KVS_OK;
    }
    TRY(kvsi_gguf_get_whole(&period, s->file, key, err));
    if (period < 0)
        return kvsi_fail(err, KVS_E_FORMAT, "'%s': key '%s': expected at least 0, found %" PRId64,
                         s->path, key, period);
    for (size_t l = 0; l < config->layers; l++)
        if (period == 0 || (l + 1) % (uint64_t)period != 0)
            add_layer(out, l);
    return KVS_OK;
}

static kvs_status read_windows(kvs_model_config *config, const kvsi_gguf_source *s, kvs_err *err)
{
    static const char name[] = "attention.sliding_window";
    int64_t window = (int64_t)config->sliding_window; /* of files without the key */
    char key[KVSI_GGUF_KEY];
    layers found = {0};

    config->sliding_window = 0;
    kvsi_gguf_full_key(key, s->family, name);
    TRY(kvsi_gguf_get_whole(&window, s->file, key, err));
    if (s->family->windows == KVSI_GGUF_WINDOWS_NONE)
        TRY(expect(s, name, (double)window, 0, err));
    if (window < 0 || window > INT32_MAX)
        return kvsi_fail(err, KVS_E_FORMAT, "'%s': key '%s': expected at most %d, found %" PRId64,
                         s->path, key, INT32_MAX, window);
    if (window == 0)
        return KVS_OK;
    TRY(find_layers(&found, config, s, err));
    if (found.count == 0)
        return KVS_OK;
    if (found.count < config->layers && config->layers > KVSI_LISTED_LAYERS_MAX)
        return kvsi_fail(err, KVS_E_LIMIT,
                         "'%s': %zu of %zu layers have a window, expected at most %d layers where "
                         "only some have one",
                         s->path, found.count, config->layers, KVSI_LISTED_LAYERS_MAX);
    config->sliding_window = (size_t)window;
    config->sliding_layers = found.count < config->layers ? found.bits : 0;
    return KVS_OK;
}

/* ---- reading: both --------------------------------------------------------------------------- */

static const char *const known[] = {
    "rope.scaling.type",
    "rope.scaling.factor",
    "rope.scale_linear",
    "rope.scaling.attn_factor",
    "rope.scaling.original_context_length",
    "rope.scaling.yarn_log_multiplier",
    "rope.scaling.yarn_beta_fast",
    "rope.scaling.yarn_beta_slow",
    "rope.scaling.yarn_ext_factor",
    "rope.scaling.yarn_attn_factor",
    "attention.sliding_window",
    "attention.sliding_window_pattern",
};

int kvsi_gguf_positions_knows(const char *key, size_t size)
{
    for (size_t i = 0; i < sizeof known / sizeof *known; i++)
        if (strlen(known[i]) == size && memcmp(known[i], key, size) == 0)
            return 1;
    return 0;
}

kvs_status kvsi_gguf_positions_read(kvs_model_config *config, const kvsi_gguf_source *s,
                                    kvs_err *err)
{
    TRY(read_windows(config, s, err));
    return read_scaling(config, s, err);
}

/* ---- what llama.cpp computes ----------------------------------------------------------------- */

static int slides(const kvs_model_config *config, size_t layer)
{
    return config->sliding_window > 0 &&
           (config->sliding_layers == 0 || config->sliding_layers >> layer & 1);
}

/* The period of which the last layers, and only they, have no window; SIZE_MAX = there is none. */
static size_t window_period(const kvs_model_config *config)
{
    size_t period = 1;

    if (config->sliding_window > 0 && config->sliding_layers == 0)
        return 0;
    while (period < config->layers && slides(config, period - 1))
        period++;
    for (size_t l = 0; l < config->layers; l++)
        if (slides(config, l) != ((l + 1) % period != 0))
            return SIZE_MAX;
    return period;
}

static int runs_windows(const kvsi_gguf_family *family, const kvs_model_config *config)
{
    switch (family->windows) {
    case KVSI_GGUF_WINDOWS_PERIOD:
        return config->sliding_window == 0 || window_period(config) != SIZE_MAX;
    case KVSI_GGUF_WINDOWS_ALWAYS:
        return config->sliding_window > 0 && window_period(config) != SIZE_MAX;
    default:
        return config->sliding_window == 0;
    }
}

static size_t rotary_pairs(const kvs_model_config *config)
{
    const size_t head = config->head_size > 0 ? config->head_size : config->dim / config->heads;

    return (size_t)lround(config->rotary_fraction * (double)head) / 2;
}

/* Yarn has fixed numbers of turns, and whole channels. */
static int runs_scaling(const kvsi_gguf_family *family, const kvs_model_config *config)
{
    const kvsi_rope_config *r = &config->rope;

    if (!(family->scalings >> r->scaling & 1))
        return 0;
    if (r->scaling == KVSI_ROPE_YARN)
        return r->factor > 1 && (r->beta_fast == 0 || r->beta_fast == 32) &&
               (r->beta_slow == 0 || r->beta_slow == 1) && !r->untruncated;
    return r->scaling != KVSI_ROPE_LLAMA3 || rotary_pairs(config) <= KVSI_LIST_MAX;
}

void kvsi_gguf_positions_copy(kvs_model_config *to, const kvs_model_config *from,
                              const kvsi_gguf_family *family)
{
    if (runs_scaling(family, from))
        to->rope = from->rope;
    if (runs_windows(family, from)) {
        to->sliding_window = from->sliding_window;
        to->sliding_layers = from->sliding_layers;
    }
}

/* ---- writing --------------------------------------------------------------------------------- */

static void put_whole(kvsi_gguf_keys *keys, const kvsi_gguf_family *family, const char *key,
                      size_t value)
{
    char full[KVSI_GGUF_KEY];

    kvsi_gguf_full_key(full, family, key);
    kvsi_gguf_put_whole(keys, full, (uint32_t)value);
}

static void put_real(kvsi_gguf_keys *keys, const kvsi_gguf_family *family, const char *key,
                     double value)
{
    char full[KVSI_GGUF_KEY];

    kvsi_gguf_full_key(full, family, key);
    kvsi_gguf_put_real(keys, full, value);
}

static void put_scaling(kvsi_gguf_keys *keys, const kvs_model_config *config,
                        const kvsi_gguf_family *family)
{
    const kvsi_rope_config *r = &config->rope;
    char type[KVSI_GGUF_KEY];

    if (r->scaling != KVSI_ROPE_LINEAR && r->scaling != KVSI_ROPE_YARN &&
        r->scaling != KVSI_ROPE_LONGROPE)
        return;
    kvsi_gguf_full_key(type, family, "rope.scaling.type");
    kvsi_gguf_put_text(keys, type, kvsi_rope_scaling_name(r->scaling));
    if (r->scaling != KVSI_ROPE_LONGROPE)
        put_real(keys, family, "rope.scaling.factor", r->factor > 0 ? r->factor : 1);
    if (r->scaling == KVSI_ROPE_LINEAR)
        return;
    put_whole(keys, family, "rope.scaling.original_context_length", r->original_context);
    if (r->scaling == KVSI_ROPE_LONGROPE)
        put_real(keys, family, "rope.scaling.attn_factor", kvsi_rope_vector_scale(r));
    else if (r->vector_scale > 0)
        put_real(keys, family, "rope.scaling.attn_factor", r->vector_scale / yarn_scale(r->factor));
}

void kvsi_gguf_positions_put(kvsi_gguf_keys *keys, const kvs_model_config *config,
                             const kvsi_gguf_family *family)
{
    put_scaling(keys, config, family);
    if (config->sliding_window > 0) {
        put_whole(keys, family, "attention.sliding_window", config->sliding_window);
        put_whole(keys, family, "attention.sliding_window_pattern", window_period(config));
    }
}

/* ---- tensors --------------------------------------------------------------------------------- */

/* What the frequencies of Llama 3 are divided by. */
static size_t divisors(float values[KVSI_LIST_MAX], const kvs_model_config *config)
{
    const size_t pairs = rotary_pairs(config);
    double plain[KVSI_LIST_MAX], scaled[KVSI_LIST_MAX];
    kvs_model_config other = *config;

    other.rope.scaling = KVSI_ROPE_PLAIN;
    kvsi_rope_frequencies(plain, &other, 2 * pairs, 0);
    kvsi_rope_frequencies(scaled, config, 2 * pairs, 0);
    for (size_t i = 0; i < pairs; i++)
        values[i] = (float)(plain[i] / scaled[i]);
    return pairs;
}

size_t kvsi_gguf_factors(const char **name, float values[KVSI_LIST_MAX],
                         const kvs_model_config *config, size_t index)
{
    const kvsi_rope_config *r = &config->rope;
    const double *factors = index == 0 ? r->long_factor : r->short_factor;

    if (r->scaling == KVSI_ROPE_LLAMA3 && index == 0) {
        *name = FREQS;
        return divisors(values, config);
    }
    if (r->scaling != KVSI_ROPE_LONGROPE || index >= KVSI_GGUF_FACTOR_TENSORS)
        return 0;
    *name = index == 0 ? LONGS : SHORTS;
    for (size_t i = 0; i < r->shorts; i++)
        values[i] = (float)factors[i];
    return r->shorts;
}

int kvsi_gguf_is_factors(const char *name)
{
    return strcmp(name, FREQS) == 0 || strcmp(name, SHORTS) == 0 || strcmp(name, LONGS) == 0;
}
