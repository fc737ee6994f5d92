/* Baichuan-M1, the production model with KV shifting, in Hugging Face's layout.  It is a Llama body
 * with a shift of k and v by one token, normalized output rows, and sliding-window layers with
 * separate head counts.  Its tensor names differ from ours:
 *
 *     self_attn.W_pack.weight      rows of q, then k, then v
 *     self_attn.conv_k, conv_v     (1, 1, kv heads, 1, 2), the previous token first */
#include "base/memory.h"
#include "formats/weights_open.h"

#include <stdio.h>
#include <string.h>

enum { CONV_WINDOW = 2, NAME_SIZE = 96 };

/* ---- config.json ----------------------------------------------------------------------------- */

/* The name may be in any case: baichuan_m1, BaichuanM1ForCausalLM. */
static int names_baichuan(const json_t *text)
{
    const char *name = json_string_value(text);

    for (; name && *name; name++)
        if (strncmp(name, "baichuan", 8) == 0 || strncmp(name, "Baichuan", 8) == 0)
            return 1;
    return 0;
}

int kvsi_baichuan_recognises(const json_t *config)
{
    const json_t *architectures = json_object_get(config, "architectures");

    return json_object_get(config, "conv_window") &&
           (names_baichuan(json_object_get(config, "model_type")) ||
            names_baichuan(json_array_get(architectures, 0)));
}

/* Copies its keys of sliding layers to ours. */
static int set_sliding(json_t *own, const json_t *config)
{
    static const char *const keys[][2] = {
        {"sliding_window", "sliding_window"},
        {"sliding_window_layers", "sliding_layers"},
        {"num_swa_attention_heads", "sliding_heads"},
        {"num_swa_key_value_heads", "sliding_kv_heads"},
    };
    int failed = 0;

    for (size_t i = 0; i < sizeof keys / sizeof *keys; i++) {
        json_t *value = json_object_get(config, keys[i][0]);

        if (value && !json_is_null(value))
            failed |= json_object_set(own, keys[i][1], value);
    }
    return failed;
}

kvs_status kvsi_baichuan_translate(json_t **out, const json_t *config, const char *what,
                                   kvs_err *err)
{
    json_t *ours = json_copy((json_t *)config), *own;
    size_t window = 0;
    int failed = 0;
    kvs_status st;

    own = json_pack("{s:s, s:s, s:i, s:s, s:s}", "targets", "kv", "form", "free", "window",
                    CONV_WINDOW - 1, "init", "softmax", "head", "normalised");
    TRY_OUT(kvsi_json_get_size(&window, config, "conv_window", what, err));
    if (window != CONV_WINDOW) {
        st = kvsi_fail(err, KVS_E_UNSUPPORTED, "'%s': key 'conv_window': expected %d, found %zu",
                       what, CONV_WINDOW, window);
        goto out;
    }
    /* An empty list means no sliding layers; in our files a missing list means all layers. */
    if (json_array_size(json_object_get(config, "sliding_window_layers")) > 0)
        failed |= set_sliding(own, config);
    failed |= json_object_set_new(ours, "model_type", json_string("kvshift"));
    failed |= json_object_set(ours, "kvshift", own);
    json_object_del(ours, "architectures");
    if (failed || !own)
        st = kvsi_no_memory(err, "'%s'", what);
    if (st == KVS_OK)
        *out = json_incref(ours);
out:
    json_decref(own);
    json_decref(ours);
    return st;
}

/* ---- tensors --------------------------------------------------------------------------------- */

static kvs_status add_as(kvsi_weights *w, size_t layer, const char *part,
                         const kvsi_file_tensor *view, const char *file, kvs_err *err)
{
    char name[NAME_SIZE];

    snprintf(name, sizeof name, "model.layers.%zu.self_attn.%s", layer, part);
    return kvsi_weights_add(w, name, view, 0, file, err);
}

static kvs_status add_packed(kvsi_weights *w, size_t layer, const kvsi_file_tensor *tensor,
                             const char *file, kvs_err *err)
{
    static const char *const parts[] = {"q_proj.weight", "k_proj.weight", "v_proj.weight"};
    const size_t heads = kvsi_model_config_heads(&w->config, layer);
    const size_t kv_rows = w->config.dim / heads * kvsi_model_config_kv_heads(&w->config, layer);
    const size_t rows[] = {w->config.dim, kv_rows, kv_rows};
    kvsi_file_tensor view = *tensor;

    if (tensor->rank != 2 || tensor->shape[0] != w->config.dim + 2 * kv_rows)
        return kvsi_fail(
            err, KVS_E_FORMAT, "'%s': tensor '%.100s' has %zu rows, config.json needs %zu", file,
            tensor->name, tensor->rank > 0 ? tensor->shape[0] : 0, w->config.dim + 2 * kv_rows);
    for (size_t i = 0; i < sizeof parts / sizeof *parts; i++) {
        view.shape[0] = rows[i];
        TRY(add_as(w, layer, parts[i], &view, file, err));
        view.data = (const unsigned char *)view.data + kvsi_file_tensor_bytes(&view);
    }
    return KVS_OK;
}

/* (1, 1, kv heads, 1, taps) as [kv heads, taps]. */
static kvs_status add_taps(kvsi_weights *w, size_t layer, const char *part,
                           const kvsi_file_tensor *tensor, const char *file, kvs_err *err)
{
    const size_t *shape = tensor->shape;
    kvsi_file_tensor view = *tensor;

    if (tensor->rank != 5 || shape[0] != 1 || shape[1] != 1 || shape[3] != 1)
        return kvsi_fail(err, KVS_E_FORMAT,
                         "'%s': tensor '%.100s' has %zu dimensions, expected the shape (1,1,%zu,1,"
                         "%d)",
                         file, tensor->name, tensor->rank,
                         kvsi_model_config_kv_heads(&w->config, layer), CONV_WINDOW);
    view.rank = 2;
    view.shape[0] = shape[2];
    view.shape[1] = shape[4];
    return add_as(w, layer, part, &view, file, err);
}

kvs_status kvsi_baichuan_add(kvsi_weights *w, const kvsi_file_tensor *tensor, const char *file,
                             kvs_err *err)
{
    size_t layer = 0;
    const char *part = kvsi_layer_part(&layer, tensor->name, w->config.layers);

    if (part && strcmp(part, "self_attn.W_pack.weight") == 0)
        return add_packed(w, layer, tensor, file, err);
    if (part && strcmp(part, "self_attn.conv_k") == 0)
        return add_taps(w, layer, "k_shift", tensor, file, err);
    if (part && strcmp(part, "self_attn.conv_v") == 0)
        return add_taps(w, layer, "v_shift", tensor, file, err);
    return kvsi_weights_add(w, tensor->name, tensor, 0, file, err);
}
