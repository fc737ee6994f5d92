/* Reads and writes the settings of a model in a GGUF file, as the tables of gguf_families.h say.
 * An unknown key below the architecture's name is refused, so that none that changes results is
 * ignored. */
#include "formats/gguf_config.h"

#include "base/json.h"
#include "formats/gguf_file.h"
#include "formats/hf.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

/* ---- keys of one file ------------------------------------------------------------------------ */

void kvsi_gguf_full_key(char out[KVSI_GGUF_KEY], const kvsi_gguf_family *family, const char *key)
{
    snprintf(out, KVSI_GGUF_KEY, "%s.%s", family->architecture, key);
}

int kvsi_gguf_has_key(const kvsi_gguf_source *s, const char *key)
{
    char full[KVSI_GGUF_KEY];

    kvsi_gguf_full_key(full, s->family, key);
    return kvsi_gguf_find(s->file, full) != NULL;
}

kvs_status kvsi_gguf_number(double *out, const kvsi_gguf_source *s, const char *key, kvs_err *err)
{
    char full[KVSI_GGUF_KEY];
    const kvsi_gguf_value *value;
    int64_t whole = 0;

    kvsi_gguf_full_key(full, s->family, key);
    value = kvsi_gguf_find(s->file, full);
    if (!value)
        return KVS_OK;
    if (value->type == KVSI_GGUF_F32 || value->type == KVSI_GGUF_F64) {
        TRY(kvsi_gguf_get_real(out, s->file, full, err));
    } else {
        TRY(kvsi_gguf_get_whole(&whole, s->file, full, err));
        *out = (double)whole;
    }
    if (!isfinite(*out))
        return kvsi_fail(err, KVS_E_FORMAT, "'%s': key '%s': expected a number, found %g", s->path,
                         full, *out);
    return KVS_OK;
}

int kvsi_gguf_is_near(double found, double expected)
{
    return fabs(found - expected) <= 1e-6 * fabs(expected); /* floats have 24 bits */
}

static size_t head_size_of(const kvs_model_config *config)
{
    return config->head_size > 0 ? config->head_size : config->dim / config->heads;
}

static double *real_of(const kvsi_setting *row, kvs_model_config *config)
{
    return (double *)(void *)((char *)config + row->offset);
}

static size_t *size_of(const kvsi_setting *row, kvs_model_config *config)
{
    return (size_t *)(void *)((char *)config + row->offset);
}

/* Sets a "NAME=VALUE". */
static kvs_status set_text(const kvsi_setting *row, kvs_model_config *config, const char *text,
                           const char *what, kvs_err *err)
{
    return kvsi_setting_store(row, config, what, strchr(text, '=') + 1, err);
}

/* ---- reading: the keys of the table ---------------------------------------------------------- */

static kvs_status read_size(size_t *out, const kvsi_gguf_source *s, const char *key, kvs_err *err)
{
    int64_t value = -1;

    TRY(kvsi_gguf_get_whole(&value, s->file, key, err));
    if (value < 1)
        return kvsi_fail(err, KVS_E_FORMAT, "'%s': key '%s': expected at least 1, found %" PRId64,
                         s->path, key, value);
    *out = (size_t)value;
    return KVS_OK;
}

static kvs_status read_value(kvs_model_config *config, const kvsi_gguf_source *s,
                             const kvsi_gguf_key *key, const char *full, kvs_err *err)
{
    const kvsi_setting *row = kvsi_gguf_key_setting(key);
    int64_t flag = 0;

    if (key->kind == KVSI_GGUF_CHOICE) {
        TRY(kvsi_gguf_get_whole(&flag, s->file, full, err));
        return flag ? set_text(row, config, key->setting, s->path, err) : KVS_OK;
    }
    if (row->kind == KVSI_SETTING_SIZE)
        return read_size(size_of(row, config), s, full, err);
    TRY(kvsi_gguf_get_real(real_of(row, config), s->file, full, err));
    if (key->kind == KVSI_GGUF_POSITIVE && !(*real_of(row, config) > 0))
        return kvsi_fail(err, KVS_E_FORMAT, "'%s': key '%s': expected more than 0, found %g",
                         s->path, full, *real_of(row, config));
    return KVS_OK;
}

static kvs_status read_keys(kvs_model_config *config, const kvsi_gguf_source *s, kvs_err *err)
{
    const kvsi_gguf_key *key;

    for (size_t i = 0; (key = kvsi_gguf_key_at(i)); i++) {
        const int required = key->kind == KVSI_GGUF_REQUIRED || key->kind == KVSI_GGUF_CHOICE;
        char full[KVSI_GGUF_KEY];

        if (!(key->reads & s->family->bit) || key->kind == KVSI_GGUF_ROTARY)
            continue;
        kvsi_gguf_full_key(full, s->family, key->key);
        if (kvsi_gguf_find(s->file, full))
            TRY(read_value(config, s, key, full, err));
        else if (required)
            return kvsi_fail(err, KVS_E_FORMAT, "'%s': key '%s' is missing", s->path, full);
    }
    return KVS_OK;
}

static int is_read(const char *name, size_t size, unsigned family)
{
    const kvsi_gguf_key *key;

    for (size_t i = 0; (key = kvsi_gguf_key_at(i)); i++)
        if (key->reads & family && strlen(key->key) == size && memcmp(key->key, name, size) == 0)
            return 1;
    return 0;
}

/* The channels that rotate, of families where this may be a part of a head. */
static kvs_status read_rotary(kvs_model_config *config, const kvsi_gguf_source *s, kvs_err *err)
{
    static const char name[] = "rope.dimension_count";
    const size_t head = head_size_of(config);
    size_t channels = head;
    char key[KVSI_GGUF_KEY];

    kvsi_gguf_full_key(key, s->family, name);
    if (!is_read(name, sizeof name - 1, s->family->bit) || !kvsi_gguf_find(s->file, key))
        return KVS_OK;
    TRY(read_size(&channels, s, key, err));
    if (channels > head)
        return kvsi_fail(err, KVS_E_FORMAT, "'%s': key '%s': expected at most %zu, found %zu",
                         s->path, key, head, channels);
    config->rotary_fraction = (double)channels / (double)head;
    return KVS_OK;
}

static kvs_status read_facts(kvs_model_config *config, const kvsi_gguf_source *s, kvs_err *err)
{
    const kvsi_gguf_fact *fact;

    for (size_t i = 0; (fact = kvsi_gguf_fact_at(i)); i++) {
        const int absent = kvsi_gguf_find_tensor(s->file, fact->tensor) == NULL;

        if (fact->reads & s->family->bit && absent == fact->absent)
            TRY(set_text(kvsi_gguf_fact_setting(fact), config, fact->setting, s->path, err));
    }
    return KVS_OK;
}

/* ---- reading: other keys --------------------------------------------------------------------- */

/* A key's value in a model without what it is about, and the value that also means "not set",
 * usually 0.  Both are accepted. */
typedef struct neutral {
    const char *key;
    double value, missing;
} neutral;

enum { NEUTRALS_MAX = 24 };

/* Fills the list of keys with required values, for families that do not read them, and returns its
 * length. */
static size_t list_neutral(neutral out[NEUTRALS_MAX], const kvs_model_config *config)
{
    const double head_size = (double)head_size_of(config);
    const neutral list[] = {
        {"rope.dimension_count", head_size, head_size},
        {"attention.value_length", head_size, head_size},
        {"attention.scale", 1 / sqrt(head_size), 0},
        {"attention.causal", 1, 1},
        {"attention.clamp_kqv", 0, 0},
        {"attention.max_alibi_bias", 0, 0},
        {"attn_logit_softcapping", 0, 0},
        {"final_logit_softcapping", 0, 0},
        {"logit_scale", 1, 0},
        {"embedding_scale", 1, 0},
        {"residual_scale", 1, 0},
        {"use_parallel_residual", 0, 0},
        {"expert_count", 0, 0},
        {"expert_used_count", 0, 0},
        {"rope.scaling.finetuned", 1, 1}, /* Granite's has no RoPE without it */
    };
    const size_t count = sizeof list / sizeof *list;

    memcpy(out, list, sizeof list);
    return count;
}

static kvs_status check_neutral(const neutral *n, const kvsi_gguf_source *s, kvs_err *err)
{
    double found = n->value;
    char key[KVSI_GGUF_KEY];

    TRY(kvsi_gguf_number(&found, s, n->key, err));
    if (kvsi_gguf_is_near(found, n->value) || kvsi_gguf_is_near(found, n->missing))
        return KVS_OK;
    kvsi_gguf_full_key(key, s->family, n->key);
    return kvsi_fail(err, KVS_E_UNSUPPORTED, "'%s': key '%s': expected %.9g, found %.9g", s->path,
                     key, n->value, found);
}

static kvs_status refuse_key(const kvsi_gguf_source *s, const kvsi_gguf_value *value, kvs_err *err)
{
    return kvsi_fail(err, KVS_E_UNSUPPORTED,
                     "'%s': unknown key '%.*s', which may change what the model computes", s->path,
                     (int)(value->key_size < 100 ? value->key_size : 100), value->key);
}

/* Refuses keys that models of the family do not have. */
static kvs_status check_others(const kvs_model_config *config, const kvsi_gguf_source *s,
                               kvs_err *err)
{
    const unsigned family = s->family->bit;
    const size_t prefix = strlen(s->family->architecture);
    neutral neutrals[NEUTRALS_MAX];
    const size_t count = list_neutral(neutrals, config);

    for (size_t i = 0; i < s->file->count; i++) {
        const kvsi_gguf_value *value = s->file->values + i;
        const neutral *found = NULL;
        const char *name;
        size_t size;

        if (value->key_size <= prefix || value->key[prefix] != '.' ||
            memcmp(value->key, s->family->architecture, prefix) != 0)
            continue;
        name = value->key + prefix + 1;
        size = value->key_size - prefix - 1;
        if (is_read(name, size, family) || kvsi_gguf_is_harmless(name, size, family) ||
            kvsi_gguf_positions_knows(name, size))
            continue;
        for (size_t n = 0; n < count && !found; n++)
            if (strlen(neutrals[n].key) == size && memcmp(neutrals[n].key, name, size) == 0)
                found = &neutrals[n];
        if (!found)
            return refuse_key(s, value, err);
        TRY(check_neutral(found, s, err));
    }
    return KVS_OK;
}

/* ---- reading: all of it ---------------------------------------------------------------------- */

static kvs_status read_family_config(kvs_model_config *config, const kvsi_gguf_source *s,
                                     kvs_err *err)
{
    const kvsi_file_tensor *embedding = kvsi_gguf_find_tensor(s->file, "token_embd.weight");
    kvs_err inner;

    kvsi_model_config_init(config);
    config->rope_base = 10000;
    TRY(kvsi_gguf_family_set(s->family, config, err));
    if (embedding && embedding->rank > 0)
        config->vocab = embedding->shape[0];
    TRY(read_facts(config, s, err));
    TRY(read_keys(config, s, err));
    TRY(read_rotary(config, s, err));
    TRY(kvsi_gguf_positions_read(config, s, err));
    kvsi_gguf_family_derive(s->family, config);
    TRY(kvsi_in_file(kvs_model_config_finish(config, &inner), &inner, s->path, err));
    config->family = s->family->type;
    return check_others(config, s, err);
}

static kvs_status read_own_config(kvs_model_config *config, const kvsi_gguf_source *s,
                                  const char *text, size_t size, kvs_err *err)
{
    json_t *object = NULL;
    kvs_status st;

    TRY_OUT(kvsi_json_parse(&object, text, size, s->path, err));
    TRY_OUT(kvsi_hf_config_from_json(config, object, s->path, err));
    if (config->body != KVSI_BODY_LLAMA)
        st = kvsi_fail(err, KVS_E_UNSUPPORTED,
                       "'%s': the model's body is %s, expected llama in GGUF", s->path,
                       kvsi_body_name(config->body));
out:
    json_decref(object);
    return st;
}

kvs_status kvsi_gguf_read_config(kvs_model_config *out, const kvsi_gguf *file, const char *path,
                                 const kvsi_gguf_family *family, kvs_err *err)
{
    const kvsi_gguf_source s = {file, path, family};
    const char *text = NULL;
    size_t size = 0;

    if (family == kvsi_gguf_family_own())
        TRY(kvsi_gguf_get_text(&text, &size, file, "kvshift.config", err));
    return text ? read_own_config(out, &s, text, size, err) : read_family_config(out, &s, err);
}

/* ---- what llama.cpp computes ----------------------------------------------------------------- */

/* Settings of training, and those of the shift, which say nothing without one. */
static int is_ignored(const kvsi_setting *row, const kvs_model_config *config)
{
    static const char *const training[] = {
        "dropout-embedding", "dropout-attention",    "dropout-residual",
        "init-std",          "identity-projections", "unit-embeddings",
    };

    for (size_t i = 0; i < sizeof training / sizeof *training; i++)
        if (strcmp(row->name, training[i]) == 0)
            return 1;
    return config->shift.targets == 0 && strncmp(row->name, "shift-", 6) == 0;
}

static double score_scale_of(const kvs_model_config *config)
{
    return config->score_scale > 0 ? config->score_scale : 1 / sqrt((double)head_size_of(config));
}

/* Copies the settings that files of the family can have. */
static void copy_written(kvs_model_config *to, const kvs_model_config *from,
                         const kvsi_gguf_family *family)
{
    const kvsi_gguf_key *key;
    const kvsi_gguf_fact *fact;

    for (size_t i = 0; (key = kvsi_gguf_key_at(i)); i++) {
        const kvsi_setting *row = kvsi_gguf_key_setting(key);
        const unsigned masks = key->kind == KVSI_GGUF_ROTARY ? key->reads : key->runs;

        if (!(masks & family->bit))
            continue;
        if (key->kind != KVSI_GGUF_POSITIVE || !kvsi_setting_is_automatic(row, from))
            kvsi_setting_copy(row, to, from);
    }
    for (size_t i = 0; (fact = kvsi_gguf_fact_at(i)); i++)
        if (fact->runs & family->bit)
            kvsi_setting_copy(kvsi_gguf_fact_setting(fact), to, from);
    for (size_t i = 0; i < kvsi_model_settings.count; i++)
        if (is_ignored(kvsi_model_settings.rows + i, from))
            kvsi_setting_copy(kvsi_model_settings.rows + i, to, from);
    kvsi_gguf_positions_copy(to, from, family);
}

int kvsi_gguf_fits(const kvsi_gguf_family *family, const kvs_model_config *config,
                   const kvsi_setting **reason)
{
    const kvsi_setting *rows = kvsi_model_settings.rows;
    kvs_model_config usual;

    kvsi_model_config_init(&usual);
    if (kvsi_gguf_family_set(family, &usual, NULL) != KVS_OK)
        return 0;
    copy_written(&usual, config, family);
    kvsi_gguf_family_derive(family, &usual);
    if (kvsi_gguf_is_near(score_scale_of(&usual), score_scale_of(config)))
        usual.score_scale = config->score_scale;
    (void)kvs_model_config_finish(&usual, NULL); /* if it fails, the norms have no kind */
    for (size_t i = 0; i < kvsi_model_settings.count; i++)
        if (!kvsi_setting_equal(rows + i, &usual, config)) {
            if (reason)
                *reason = rows + i;
            return 0;
        }
    return 1;
}

/* ---- writing --------------------------------------------------------------------------------- */

static uint32_t rotary_channels(const kvs_model_config *c)
{
    const double turning = c->positions == KVSI_POSITIONS_ROPE ? c->rotary_fraction : 0;

    return (uint32_t)lround(turning * (double)head_size_of(c));
}

static void put_key(kvsi_gguf_keys *keys, const kvsi_gguf_key *key, kvs_model_config *config,
                    const kvsi_gguf_family *family)
{
    const kvsi_setting *row = kvsi_gguf_key_setting(key);
    const int automatic = kvsi_setting_is_automatic(row, config);
    kvs_model_config chosen = *config;
    char full[KVSI_GGUF_KEY];

    kvsi_gguf_full_key(full, family, key->key);
    if (key->kind == KVSI_GGUF_ROTARY)
        kvsi_gguf_put_whole(keys, full, rotary_channels(config));
    else if (key->kind == KVSI_GGUF_CHOICE)
        kvsi_gguf_put_flag(keys, full,
                           set_text(row, &chosen, key->setting, full, NULL) == KVS_OK &&
                               kvsi_setting_equal(row, &chosen, config));
    else if (automatic && key->kind == KVSI_GGUF_REQUIRED)
        kvsi_gguf_put_real(keys, full, 1);
    else if (!automatic && row->kind == KVSI_SETTING_SIZE)
        kvsi_gguf_put_whole(keys, full, (uint32_t)*size_of(row, config)); /* below 2^24 */
    else if (!automatic)
        kvsi_gguf_put_real(keys, full, *real_of(row, config));
}

void kvsi_gguf_put_config(kvsi_gguf_keys *keys, const kvs_model_config *config,
                          const kvsi_gguf_family *family)
{
    const int is_own = family == kvsi_gguf_family_own();
    const kvsi_rope_config *r = &config->rope;
    kvs_model_config c = *config;
    const kvsi_gguf_key *key;

    if (!is_own && r->scaling == KVSI_ROPE_LONGROPE && r->factor > 1)
        c.context = (size_t)lround(r->factor * (double)r->original_context);
    for (size_t i = 0; (key = kvsi_gguf_key_at(i)); i++)
        if (key->runs & family->bit)
            put_key(keys, key, &c, family);
    if (!is_own)
        kvsi_gguf_positions_put(keys, config, family);
}
