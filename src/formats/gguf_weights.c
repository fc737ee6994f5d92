/* Models in GGUF files of the families of gguf_families.c. */
#include "base/memory.h"
#include "base/text.h"
#include "formats/gguf_config.h"
#include "formats/gguf_names.h"
#include "formats/llama_layout.h"
#include "formats/weights_open.h"

#include <stdio.h>
#include <string.h>

static kvs_status read_family(const kvsi_gguf_family **out, const kvsi_gguf *file, const char *path,
                              kvs_err *err)
{
    const char *name = "";
    size_t size = 0;
    kvsi_text known = {0};
    kvs_status st;

    TRY(kvsi_gguf_get_text(&name, &size, file, "general.architecture", err));
    *out = kvsi_gguf_family_find(name, size);
    if (*out)
        return KVS_OK;
    for (size_t i = 0; kvsi_gguf_family_at(i); i++)
        kvsi_text_format(&known, "%s'%s'", i > 0 ? ", " : "", kvsi_gguf_family_at(i)->architecture);
    TRY_OUT(kvsi_text_check(&known, err));
    st = kvsi_fail(err, KVS_E_UNSUPPORTED,
                   "'%s': key 'general.architecture': expected %s or '%s', found '%.*s'", path,
                   known.data, kvsi_gguf_family_own()->architecture, (int)(size < 64 ? size : 64),
                   name);
out:
    kvsi_text_release(&known);
    return st;
}

/* ---- tensors --------------------------------------------------------------------------------- */

static const char *head_norm_name(char out[KVSI_GGUF_NAME_SIZE], size_t layer, char target,
                                  size_t head)
{
    snprintf(out, KVSI_GGUF_NAME_SIZE, "model.layers.%zu.self_attn.%c_layernorm.norms.%zu.weight",
             layer, target, head);
    return out;
}

/* The norms of queries or keys that each head has: the rows of one tensor. */
static kvs_status add_head_norms(kvsi_weights *w, const kvsi_file_tensor *tensor, size_t layer,
                                 char target, kvs_err *err)
{
    const size_t heads = target == 'q' ? w->config.heads : w->config.kv_heads;
    kvsi_file_tensor view = *tensor;
    char name[KVSI_GGUF_NAME_SIZE];

    if (tensor->rank == 1 && heads == 1)
        return kvsi_weights_add(w, head_norm_name(name, layer, target, 0), tensor, 0, w->file, err);
    if (tensor->rank != 2 || tensor->shape[0] != heads)
        return kvsi_fail(err, KVS_E_FORMAT,
                         "'%s': tensor '%.100s' has %zu rows, expected one for each of %zu heads",
                         w->file, tensor->name, tensor->rank > 0 ? tensor->shape[0] : 0, heads);
    view.rank = 1;
    view.shape[0] = tensor->shape[1];
    for (size_t h = 0; h < heads; h++) {
        TRY(kvsi_weights_add(w, head_norm_name(name, layer, target, h), &view, 0, w->file, err));
        view.data = (const unsigned char *)view.data + kvsi_file_tensor_bytes(&view);
    }
    return KVS_OK;
}

static kvs_status add_tensor(kvsi_weights *w, const kvsi_file_tensor *tensor,
                             const kvsi_gguf_family *family, kvs_err *err)
{
    kvsi_file_tensor ours = *tensor;
    char name[KVSI_GGUF_NAME_SIZE], target;
    size_t layer;

    if (!kvsi_gguf_name_to_ours(name, tensor->name, family))
        return kvsi_fail(err, KVS_E_UNSUPPORTED, "'%s' has an unknown tensor '%.100s'", w->file,
                         tensor->name);
    ours.name = name;
    for (const kvsi_packed_rows *p = kvsi_gguf_packed; p->name; p++)
        if (kvsi_ends_with(name, p->name))
            return kvsi_weights_add_packed(w, &ours, p, family->interleaved, w->file, err);
    if (w->config.qk_norm == KVSI_QK_NORM_LAYER &&
        sscanf(name, "model.layers.%zu.self_attn.%c_norm.weight", &layer, &target) == 2 &&
        kvsi_ends_with(name, "_norm.weight"))
        return add_head_norms(w, tensor, layer, target, err);
    TRY(kvsi_weights_add(w, name, tensor,
                         family->interleaved ? kvsi_rotary_heads(name, &w->config) : 0, w->file,
                         err));
    w->tensors[w->count - 1].plus_one =
        family != kvsi_gguf_family_own() && w->config.gain_offset && kvsi_gguf_is_gain(tensor);
    return KVS_OK;
}

kvs_status kvsi_weights_open_gguf(kvsi_weights *w, const char *path, kvs_err *err)
{
    const kvsi_gguf_family *family = NULL;

    w->format = KVSI_FORMAT_GGUF;
    w->file = kvsi_strdup(path);
    if (!w->file)
        return kvsi_no_memory(err, "'%s'", path);
    TRY(kvsi_gguf_open(&w->gguf, path, err));
    TRY(read_family(&family, w->gguf, path, err));
    TRY(kvsi_gguf_read_tensors(w->gguf, err));
    TRY(kvsi_gguf_read_config(&w->config, w->gguf, path, family, err));
    TRY(kvsi_token_ids_read_gguf(&w->ids, w->gguf, w->config.vocab, err));
    for (size_t i = 0; i < kvsi_gguf_tensor_count(w->gguf); i++) {
        const kvsi_file_tensor *tensor = kvsi_gguf_tensor_at(w->gguf, i);

        if (family == kvsi_gguf_family_own() || !kvsi_gguf_is_factors(tensor->name))
            TRY(add_tensor(w, tensor, family, err));
    }
    return KVS_OK;
}
