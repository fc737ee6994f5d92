/* Models in GGUF files, architecture llama or kvshift; gguf_names.h lists keys and names. */
#include "base/memory.h"
#include "formats/gguf_names.h"
#include "formats/weights_open.h"

#include <string.h>

typedef enum architecture { LLAMA, KVSHIFT, ARCHITECTURES } architecture;

static const char *const architectures[ARCHITECTURES] = {"llama", "kvshift"};

static kvs_status read_architecture(architecture *out, const kvsi_gguf *file, const char *path,
                                    kvs_err *err)
{
    const char *name = "";
    size_t size = 0;

    TRY(kvsi_gguf_get_text(&name, &size, file, "general.architecture", err));
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

/* ---- tensors --------------------------------------------------------------------------------- */

static int is_part(const char *name, const char *part)
{
    const char *found = strstr(name, part);

    return found && strcmp(found, part) == 0;
}

/* The number of heads whose rotary pairs are adjacent rows. */
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

    w->format = KVSI_FORMAT_GGUF;
    w->file = kvsi_strdup(path);
    if (!w->file)
        return kvsi_no_memory(err, "'%s'", path);
    TRY(kvsi_gguf_open(&w->gguf, path, err));
    TRY(read_architecture(&found, w->gguf, path, err));
    TRY(kvsi_gguf_read_tensors(w->gguf, err));
    TRY(kvsi_gguf_read_config(&w->config, w->gguf, path, architectures[found], err));
    TRY(kvsi_token_ids_read_gguf(&w->ids, w->gguf, w->config.vocab, err));
    for (size_t i = 0; i < kvsi_gguf_tensor_count(w->gguf); i++) {
        const kvsi_file_tensor *tensor = kvsi_gguf_tensor_at(w->gguf, i);
        char name[KVSI_GGUF_NAME_SIZE];

        if (!kvsi_gguf_name_to_ours(name, tensor->name))
            return kvsi_fail(err, KVS_E_UNSUPPORTED, "'%s' has an unknown tensor '%.100s'%s", path,
                             tensor->name,
                             strcmp(tensor->name, "rope_freqs.weight") == 0
                                 ? "; scaled positions are not supported"
                                 : "");
        TRY(kvsi_weights_add(w, name, tensor, interleaved_heads(&w->config, found, tensor->name),
                             w->file, err));
    }
    return KVS_OK;
}
