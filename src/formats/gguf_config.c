/* Reads the settings of a model in a GGUF file; gguf_names.h lists the keys.  An unknown key below
 * the architecture's name is refused, so that none that changes results is ignored. */
#include "base/json.h"
#include "formats/gguf_file.h"
#include "formats/gguf_names.h"
#include "formats/hf.h"
#include "formats/weights_open.h"

#include <inttypes.h>
#include <math.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

enum { KEY_SIZE = 96 };

/* A file and the prefix of its keys. */
typedef struct source {
    const kvsi_gguf *file;
    const char *path, *architecture;
} source;

static void full_key(char out[KEY_SIZE], const source *s, const char *key)
{
    snprintf(out, KEY_SIZE, "%s.%s", s->architecture, key);
}

/* ---- settings -------------------------------------------------------------------------------- */

static const struct {
    const char *key;
    size_t offset;
    int required;
} sizes[] = {
    {"context_length", offsetof(kvs_model_config, context), 1},
    {"embedding_length", offsetof(kvs_model_config, dim), 1},
    {"block_count", offsetof(kvs_model_config, layers), 1},
    {"feed_forward_length", offsetof(kvs_model_config, ffn), 1},
    {"attention.head_count", offsetof(kvs_model_config, heads), 1},
    {"attention.head_count_kv", offsetof(kvs_model_config, kv_heads), 0},
    {"vocab_size", offsetof(kvs_model_config, vocab), 0},
};

static kvs_status fail_missing(const source *s, const char *key, kvs_err *err)
{
    return kvsi_fail(err, KVS_E_FORMAT, "'%s': key '%s' is missing", s->path, key);
}

static kvs_status read_sizes(kvs_model_config *config, const source *s, kvs_err *err)
{
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        char key[KEY_SIZE];
        int64_t value = -1;

        full_key(key, s, sizes[i].key);
        if (!kvsi_gguf_find(s->file, key)) {
            if (sizes[i].required)
                return fail_missing(s, key, err);
            continue;
        }
        TRY(kvsi_gguf_get_whole(&value, s->file, key, err));
        if (value < 1)
            return kvsi_fail(err, KVS_E_FORMAT,
                             "'%s': key '%s': expected at least 1, found %" PRId64, s->path, key,
                             value);
        *(size_t *)(void *)((char *)config + sizes[i].offset) = (size_t)value;
    }
    return KVS_OK;
}

static kvs_status read_reals(kvs_model_config *config, const source *s, kvs_err *err)
{
    char eps[KEY_SIZE], base[KEY_SIZE];

    full_key(eps, s, "attention.layer_norm_rms_epsilon");
    full_key(base, s, "rope.freq_base");
    if (!kvsi_gguf_find(s->file, eps))
        return fail_missing(s, eps, err);
    config->rope_base = 10000;
    TRY(kvsi_gguf_get_real(&config->norm_eps, s->file, eps, err));
    return kvsi_gguf_get_real(&config->rope_base, s->file, base, err);
}

/* ---- other keys ------------------------------------------------------------------------------ */

/* A key's value in a plain Llama, and the value that also means "not set", usually 0.  Both are
 * accepted. */
typedef struct neutral {
    const char *key;
    double value, missing;
} neutral;

enum { NEUTRALS_MAX = 24 };

/* Fills the list of keys with required values and returns its length. */
static size_t list_neutral(neutral out[NEUTRALS_MAX], const kvs_model_config *config)
{
    const size_t channels = config->dim / config->heads;
    const double head_size = (double)channels;
    const neutral list[] = {
        {"rope.dimension_count", head_size, head_size},
        {"attention.key_length", head_size, head_size},
        {"attention.value_length", head_size, head_size},
        {"attention.scale", 1 / sqrt(head_size), 0},
        {"attention.causal", 1, 1},
        {"attention.sliding_window", 0, 0},
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
        {"rope.scaling.attn_factor", 1, 1},
    };
    const size_t count = sizeof list / sizeof *list;

    memcpy(out, list, sizeof list);
    return count;
}

/* Keys that are read elsewhere or have no effect in a plain Llama: parameters of scaled positions
 * without a scaling type, and of LayerNorm in an RMSNorm model. */
static const char *const harmless[] = {
    "attention.layer_norm_rms_epsilon",
    "attention.layer_norm_epsilon",
    "rope.freq_base",
    "rope.scaling.type",
    "rope.scaling.factor",
    "rope.scale_linear",
    "rope.scaling.original_context_length",
    "rope.scaling.finetuned",
    "rope.scaling.yarn_log_multiplier",
    "rope.scaling.yarn_beta_fast",
    "rope.scaling.yarn_beta_slow",
    "tensor_data_layout",
    "pooling_type",
};

static kvs_status get_number(double *out, const source *s, const char *key, kvs_err *err)
{
    const kvsi_gguf_value *value = kvsi_gguf_find(s->file, key);
    int64_t whole = 0;
    kvs_status st;

    if (value && (value->type == KVSI_GGUF_F32 || value->type == KVSI_GGUF_F64))
        return kvsi_gguf_get_real(out, s->file, key, err);
    st = kvsi_gguf_get_whole(&whole, s->file, key, err);
    if (value && st == KVS_OK)
        *out = (double)whole;
    return st;
}

static int is_near(double found, double expected)
{
    return fabs(found - expected) <= 1e-6 * fabs(expected); /* floats have 24 bits */
}

static kvs_status check_neutral(const neutral *n, const source *s, kvs_err *err)
{
    double found = n->value;
    char key[KEY_SIZE];

    full_key(key, s, n->key);
    TRY(get_number(&found, s, key, err));
    if (!is_near(found, n->value) && !is_near(found, n->missing))
        return kvsi_fail(err, KVS_E_UNSUPPORTED, "'%s': key '%s': expected %.9g, found %.9g",
                         s->path, key, n->value, found);
    return KVS_OK;
}

/* A factor without a type means linear scaling.  No factor, or 1, means no scaling. */
static kvs_status check_scaling(const source *s, kvs_err *err)
{
    static const char *const factors[] = {"rope.scaling.factor", "rope.scale_linear"};
    const char *type = "linear";
    size_t size = strlen(type);
    char key[KEY_SIZE];

    full_key(key, s, "rope.scaling.type");
    TRY(kvsi_gguf_get_text(&type, &size, s->file, key, err));
    if (size == strlen("none") && memcmp(type, "none", size) == 0)
        return KVS_OK;
    if (size != strlen("linear") || memcmp(type, "linear", size) != 0)
        return kvsi_fail(
            err, KVS_E_UNSUPPORTED,
            "'%s': key '%s': expected 'none', found '%.*s'; scaled positions are not supported",
            s->path, key, (int)(size < 32 ? size : 32), type);
    for (size_t i = 0; i < 2; i++) {
        double factor = 1;

        full_key(key, s, factors[i]);
        TRY(get_number(&factor, s, key, err));
        if (factor != 1 && factor != 0)
            return kvsi_fail(
                err, KVS_E_UNSUPPORTED,
                "'%s': key '%s': expected 1, found %.9g; scaled positions are not supported",
                s->path, key, factor);
    }
    return KVS_OK;
}

static int is_name(const char *text, size_t size, const char *name)
{
    return size == strlen(name) && memcmp(text, name, size) == 0;
}

/* Whether a key below the architecture's name is known. */
static int is_known(const char *name, size_t size, const neutral *neutrals, size_t count)
{
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++)
        if (is_name(name, size, sizes[i].key))
            return 1;
    for (size_t i = 0; i < sizeof harmless / sizeof *harmless; i++)
        if (is_name(name, size, harmless[i]))
            return 1;
    for (size_t i = 0; i < count; i++)
        if (is_name(name, size, neutrals[i].key))
            return 1;
    return 0;
}

/* Refuses keys that a plain Llama does not have. */
static kvs_status check_plain(const kvs_model_config *config, const source *s, kvs_err *err)
{
    const size_t prefix = strlen(s->architecture);
    neutral neutrals[NEUTRALS_MAX];
    const size_t count = list_neutral(neutrals, config);

    for (size_t i = 0; i < count; i++)
        TRY(check_neutral(neutrals + i, s, err));
    TRY(check_scaling(s, err));
    for (size_t i = 0; i < s->file->count; i++) {
        const kvsi_gguf_value *value = s->file->values + i;

        if (value->key_size > prefix && memcmp(value->key, s->architecture, prefix) == 0 &&
            value->key[prefix] == '.' &&
            !is_known(value->key + prefix + 1, value->key_size - prefix - 1, neutrals, count))
            return kvsi_fail(err, KVS_E_UNSUPPORTED,
                             "'%s': unknown key '%.*s', which may change what the model computes",
                             s->path, (int)(value->key_size < 100 ? value->key_size : 100),
                             value->key);
    }
    return KVS_OK;
}

/* ---- all settings ---------------------------------------------------------------------------- */

static const kvsi_file_tensor *find_tensor(const kvsi_gguf *file, const char *name)
{
    for (size_t i = 0; i < kvsi_gguf_tensor_count(file); i++)
        if (strcmp(kvsi_gguf_tensor_at(file, i)->name, name) == 0)
            return kvsi_gguf_tensor_at(file, i);
    return NULL;
}

static kvs_status read_plain_config(kvs_model_config *config, const source *s, kvs_err *err)
{
    const kvsi_file_tensor *embedding = find_tensor(s->file, "token_embd.weight");
    kvs_err inner;

    kvsi_model_config_init(config);
    config->tied = find_tensor(s->file, "output.weight") == NULL;
    if (embedding && embedding->rank > 0)
        config->vocab = embedding->shape[0];
    TRY(read_sizes(config, s, err));
    TRY(read_reals(config, s, err));
    TRY(kvsi_in_file(kvs_model_config_finish(config, &inner), &inner, s->path, err));
    return check_plain(config, s, err);
}

static kvs_status read_own_config(kvs_model_config *config, const source *s, const char *text,
                                  size_t size, kvs_err *err)
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
                                 const char *architecture, kvs_err *err)
{
    const source s = {file, path, architecture};
    const char *text = NULL;
    size_t size = 0;

    if (strcmp(architecture, "kvshift") == 0)
        TRY(kvsi_gguf_get_text(&text, &size, file, "kvshift.config", err));
    return text ? read_own_config(out, &s, text, size, err) : read_plain_config(out, &s, err);
}
