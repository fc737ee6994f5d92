/* A model in a folder: config.json and model.safetensors, as Hugging Face's Llama has them. */
#include "base/files.h"
#include "base/memory.h"
#include "formats/hf.h"
#include "formats/safetensors.h"
#include "model/model.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

/* ---- loading ---- */

static void shape_text(char *out, size_t size, const size_t *shape, size_t rank)
{
    size_t at = 0;

    out[0] = '\0';
    for (size_t i = 0; i < rank && at < size; i++)
        at += (size_t)snprintf(out + at, size - at, "%s%zu", i > 0 ? "," : "", shape[i]);
}

static kvs_status check_tensor(const kvsi_file_tensor *t, const kvsi_parameter *p, const char *path,
                               kvs_err *err)
{
    char found[96], expected[96];

    if (!t)
        return kvsi_fail(err, KVS_E_FORMAT, "'%s' has no tensor '%s'", path, p->name);
    if (t->dtype != KVSI_F32)
        return kvsi_fail(err, KVS_E_UNSUPPORTED, "'%s': tensor '%s' is not of type F32", path,
                         p->name);
    if (t->rank == p->rank && memcmp(t->shape, p->shape, p->rank * sizeof *p->shape) == 0)
        return KVS_OK;
    shape_text(found, sizeof found, t->shape, t->rank);
    shape_text(expected, sizeof expected, p->shape, p->rank);
    return kvsi_fail(err, KVS_E_FORMAT, "'%s': tensor '%s' has shape (%s), config.json needs (%s)",
                     path, p->name, found, expected);
}

/* A shift that is not finite would spoil every later token without a trace in the other weights. */
static kvs_status check_shift(const kvsi_file_tensor *t, const kvsi_parameter *p, const char *path,
                              kvs_err *err)
{
    for (size_t i = 0; p->role == KVSI_TAPS && i < p->count; i++) {
        float value; /* the file may put it at any byte */

        memcpy(&value, (const char *)t->data + i * sizeof value, sizeof value);
        if (!isfinite(value))
            return kvsi_fail(err, KVS_E_FORMAT, "'%s': tensor '%s' has %g at %zu", path, p->name,
                             (double)value, i);
    }
    return KVS_OK;
}

/* GPT-2 files come with one of these before their names. */
static const char *const prefixes[] = {"transformer.", "backbone.", ""};

enum { PREFIXES = sizeof prefixes / sizeof *prefixes };

static size_t prefix_length(const char *name, const char *prefix)
{
    const size_t length = strlen(prefix);

    return strncmp(name, prefix, length) == 0 ? length : 0;
}

/* The tensor of a name of ours, under whatever prefix the file uses.  Of a tied pair, files keep
 * either one. */
static const kvsi_file_tensor *find_in_file(const kvs_model *m, const kvsi_safetensors *file,
                                            const kvsi_parameter *p)
{
    const kvsi_file_tensor *t = kvsi_safetensors_find(file, p->name);
    const size_t own = prefix_length(p->name, prefixes[0]);

    for (size_t i = 1; !t && own > 0 && i < PREFIXES; i++) {
        char name[KVSI_NAME_SIZE + 16];

        snprintf(name, sizeof name, "%s%s", prefixes[i], p->name + own);
        t = kvsi_safetensors_find(file, name);
    }
    if (!t && m->config.tied && p->role == KVSI_EMBEDDING)
        t = kvsi_safetensors_find(file, "lm_head.weight");
    return t;
}

/* The tensor of ours that a name in a file stands for; NULL = none. */
static const kvsi_parameter *find_ours(const kvs_model *m, const char *name)
{
    const kvsi_parameter *p = kvsi_layout_find(&m->layout, name);

    for (size_t i = 1; !p && i < PREFIXES; i++) {
        char ours[KVSI_NAME_SIZE + 16];

        snprintf(ours, sizeof ours, "%s%s", prefixes[0], name + prefix_length(name, prefixes[i]));
        p = kvsi_layout_find(&m->layout, ours);
    }
    return p;
}

static int ends_with(const char *text, const char *end)
{
    const size_t size = strlen(text), tail = strlen(end);

    return size >= tail && strcmp(text + size - tail, end) == 0;
}

/* A tensor that the configuration does not know means that the two files do not belong together;
 * some harmless ones are common: a tied model's copy of its head, frequencies, causal masks. */
static kvs_status check_strangers(const kvs_model *m, const kvsi_safetensors *file,
                                  const char *path, kvs_err *err)
{
    for (size_t i = 0; i < kvsi_safetensors_count(file); i++) {
        const char *name = kvsi_safetensors_at(file, i)->name;
        const int harmless = (m->config.tied && strcmp(name, "lm_head.weight") == 0) ||
                             ends_with(name, ".rotary_emb.inv_freq") ||
                             ends_with(name, ".attn.bias") || ends_with(name, ".attn.masked_bias");

        if (!harmless && !find_ours(m, name))
            return kvsi_fail(err, KVS_E_FORMAT,
                             "'%s' has a tensor '%s' that config.json does not account for", path,
                             name);
    }
    return KVS_OK;
}

kvs_status kvsi_model_load_weights(kvs_model *m, const char *path, kvs_err *err)
{
    kvs_status st;
    kvsi_safetensors *file = NULL;

    KVS_TRY(kvsi_safetensors_open(&file, path, err));
    KVS_TRY(check_strangers(m, file, path, err));
    for (size_t i = 0; i < m->layout.count; i++) {
        const kvsi_parameter *p = &m->layout.list[i];
        const kvsi_file_tensor *t = find_in_file(m, file, p);

        KVS_TRY(check_tensor(t, p, path, err));
        KVS_TRY(check_shift(t, p, path, err));
        kvsi_model_set(m, p, t->data);
    }
out:
    kvsi_safetensors_close(file);
    return st;
}

kvs_status kvs_model_load(kvs_model **out, kvs_runtime *rt, const char *dir, kvs_err *err)
{
    kvs_status st = KVS_OK;
    kvs_model_config config;
    kvs_model *m = NULL;
    char *weights = kvsi_path_join(dir, "model.safetensors");
    char *settings = kvsi_path_join(dir, "config.json");

    *out = NULL;
    if (!weights || !settings) {
        st = kvsi_fail(err, KVS_E_NOMEM, "out of memory while loading '%s'", dir);
        goto out;
    }
    KVS_TRY(kvsi_hf_config_read(&config, settings, err));
    KVS_TRY(kvsi_model_allocate(&m, rt, &config, err));
    KVS_TRY(kvsi_model_load_weights(m, weights, err));
    *out = m;
    m = NULL;
out:
    kvs_model_free(m);
    kvsi_free(weights);
    kvsi_free(settings);
    return st;
}
