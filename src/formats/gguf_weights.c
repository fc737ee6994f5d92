/* Models in GGUF files, architecture llama or kvshift; gguf_names.h has their keys and names. */
#include "base/json.h"
#include "base/memory.h"
#include "formats/gguf_names.h"
#include "formats/hf.h"
#include "formats/weights_open.h"

#include <inttypes.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

enum { KEY_SIZE = 96 };

typedef enum architecture { LLAMA, KVSHIFT, ARCHITECTURES } architecture;

static const char *const architectures[ARCHITECTURES] = {"llama", "kvshift"};

/* A file, and below which name its settings are. */
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
    kvs_status st = KVS_OK;

    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        char key[KEY_SIZE];
        int64_t value = -1;

        full_key(key, s, sizes[i].key);
        if (!kvsi_gguf_find(s->file, key)) {
            if (sizes[i].required)
                return fail_missing(s, key, err);
            continue;
        }
        KVS_TRY(kvsi_gguf_get_whole(&value, s->file, key, err));
        if (value < 1)
            return kvsi_fail(err, KVS_E_FORMAT,
                             "'%s': key '%s': expected at least 1, found %" PRId64, s->path, key,
                             value);
        *(size_t *)(void *)((char *)config + sizes[i].offset) = (size_t)value;
    }
out:
    return st;
}

static kvs_status read_reals(kvs_model_config *config, const source *s, kvs_err *err)
{
    char eps[KEY_SIZE], base[KEY_SIZE];
    kvs_status st;

    full_key(eps, s, "attention.layer_norm_rms_epsilon");
    full_key(base, s, "rope.freq_base");
    if (!kvsi_gguf_find(s->file, eps))
        return fail_missing(s, eps, err);
    config->rope_base = 10000;
    KVS_TRY(kvsi_gguf_get_real(&config->norm_eps, s->file, eps, err));
    KVS_TRY(kvsi_gguf_get_real(&config->rope_base, s->file, base, err));
out:
    return st;
}

/* What a plain Llama must not have, or only with the value that it has anyway. */
static kvs_status check_plain(const kvs_model_config *config, const source *s, kvs_err *err)
{
    const int64_t head_size = (int64_t)(config->dim / config->heads);
    const struct {
        const char *key;
        int64_t expected;
    } plain[] = {
        {"rope.dimension_count", head_size},   {"attention.key_length", head_size},
        {"attention.value_length", head_size}, {"expert_count", 0},
        {"attention.sliding_window", 0},
    };
    const char *scaling = "none";
    size_t size = strlen(scaling);
    char key[KEY_SIZE];
    kvs_status st = KVS_OK;

    for (size_t i = 0; i < sizeof plain / sizeof *plain; i++) {
        int64_t found = plain[i].expected;

        full_key(key, s, plain[i].key);
        KVS_TRY(kvsi_gguf_get_whole(&found, s->file, key, err));
        if (found != plain[i].expected)
            return kvsi_fail(err, KVS_E_UNSUPPORTED,
                             "'%s': key '%s': expected %" PRId64 ", found %" PRId64, s->path, key,
                             plain[i].expected, found);
    }
    full_key(key, s, "rope.scaling.type");
    KVS_TRY(kvsi_gguf_get_text(&scaling, &size, s->file, key, err));
    if (size != strlen("none") || memcmp(scaling, "none", size) != 0)
        st = kvsi_fail(err, KVS_E_UNSUPPORTED,
                       "'%s': key '%s': expected 'none', found '%.*s'; scaled positions are "
                       "unknown here",
                       s->path, key, (int)(size < 32 ? size : 32), scaling);
out:
    return st;
}

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
    kvs_status st;
    kvs_err inner;

    kvs_model_config_init(config);
    config->tied = find_tensor(s->file, "output.weight") == NULL;
    if (embedding && embedding->rank > 0)
        config->vocab = embedding->shape[0];
    KVS_TRY(read_sizes(config, s, err));
    KVS_TRY(read_reals(config, s, err));
    KVS_TRY(kvsi_in_file(kvs_model_config_finish(config, &inner), &inner, s->path, err));
    KVS_TRY(check_plain(config, s, err));
out:
    return st;
}

static kvs_status read_own_config(kvs_model_config *config, const source *s, const char *text,
                                  size_t size, kvs_err *err)
{
    json_t *object = NULL;
    kvs_status st;

    KVS_TRY(kvsi_json_parse(&object, text, size, s->path, err));
    KVS_TRY(kvsi_hf_config_from_json(config, object, s->path, err));
    if (config->body != KVS_BODY_LLAMA)
        st = kvsi_fail(err, KVS_E_UNSUPPORTED, "'%s' has the body %s, expected llama in GGUF",
                       s->path, kvs_body_name(config->body));
out:
    json_decref(object);
    return st;
}

static kvs_status read_architecture(architecture *out, const kvsi_gguf *file, const char *path,
                                    kvs_err *err)
{
    const char *name = "";
    size_t size = 0;
    const kvs_status st = kvsi_gguf_get_text(&name, &size, file, "general.architecture", err);

    if (st != KVS_OK)
        return st;
    for (int i = 0; i < ARCHITECTURES; i++)
        if (size == strlen(architectures[i]) && memcmp(name, architectures[i], size) == 0) {
            *out = (architecture)i;
            return KVS_OK;
        }
    return kvsi_fail(err, KVS_E_UNSUPPORTED,
                     "'%s': key 'general.architecture': expected 'llama' or 'kvshift', found "
                     "'%.*s'",
                     path, (int)(size < 64 ? size : 64), name);
}

static kvs_status read_config(kvs_model_config *config, const kvsi_gguf *file, const char *path,
                              architecture found, kvs_err *err)
{
    const source s = {file, path, architectures[found]};
    const char *text = NULL;
    size_t size = 0;
    kvs_status st = KVS_OK;

    if (found == KVSHIFT)
        KVS_TRY(kvsi_gguf_get_text(&text, &size, file, "kvshift.config", err));
    st = text ? read_own_config(config, &s, text, size, err) : read_plain_config(config, &s, err);
out:
    return st;
}

/* ---- tensors --------------------------------------------------------------------------------- */

static int is_part(const char *name, const char *part)
{
    const char *found = strstr(name, part);

    return found && strcmp(found, part) == 0;
}

/* Heads whose rotary pairs are side by side. */
static size_t interleaved_heads(const kvs_model_config *config, architecture found,
                                const char *name)
{
    if (found != LLAMA)
        return 0;
    if (is_part(name, ".attn_q.weight"))
        return config->heads;
    return is_part(name, ".attn_k.weight") ? config->kv_heads : 0;
}

kvs_status kvsi_weights_open_gguf(kvsi_weights *w, const char *path, kvs_err *err)
{
    architecture found = LLAMA;
    kvs_status st;

    w->format = KVSI_FORMAT_GGUF;
    w->file = kvsi_strdup(path);
    if (!w->file)
        return kvsi_fail(err, KVS_E_NOMEM, "out of memory for '%s'", path);
    KVS_TRY(kvsi_gguf_open(&w->gguf, path, err));
    KVS_TRY(read_architecture(&found, w->gguf, path, err));
    KVS_TRY(kvsi_gguf_read_tensors(w->gguf, err));
    KVS_TRY(read_config(&w->config, w->gguf, path, found, err));
    for (size_t i = 0; i < kvsi_gguf_tensor_count(w->gguf); i++) {
        const kvsi_file_tensor *tensor = kvsi_gguf_tensor_at(w->gguf, i);
        char name[KVSI_GGUF_NAME_SIZE];

        if (!kvsi_gguf_name_to_ours(name, tensor->name))
            return kvsi_fail(err, KVS_E_UNSUPPORTED,
                             "'%s' has a tensor '%.100s', which no model here has", path,
                             tensor->name);
        KVS_TRY(kvsi_weights_add(w, name, tensor,
                                 interleaved_heads(&w->config, found, tensor->name), w->file, err));
    }
out:
    return st;
}
