/* Models in Hugging Face's layout: config.json with model.safetensors, or with several such files
 * in the same folder and an index,
 *
 *     {"metadata": {...}, "weight_map": {"model.norm.weight":
 * "model-00002-of-00002.safetensors"}} */
#include "base/files.h"
#include "base/memory.h"
#include "base/text.h"
#include "formats/families.h"
#include "formats/hf.h"
#include "formats/weights_open.h"

#include <stdio.h>
#include <string.h>

enum {
    CONFIG_LIMIT = 1 << 20, /* bytes of config.json */
    INDEX_LIMIT = 1 << 26,  /* bytes of the index */
    SHARDS_MAX = 4096,
    NAME_SIZE = 512,
};

/* ---- the configuration ----------------------------------------------------------------------- */

kvs_status kvsi_hf_config_open(kvs_model_config *out, kvsi_weights_format *format, const char *path,
                               kvs_err *err)
{
    json_t *config = NULL, *ours = NULL;
    kvs_status st;

    *format = KVSI_FORMAT_HF;
    TRY_OUT(kvsi_json_read(&config, path, CONFIG_LIMIT, err));
    if (kvsi_baichuan_recognises(config)) {
        *format = KVSI_FORMAT_BAICHUAN;
        TRY_OUT(kvsi_baichuan_translate(&ours, config, path, err));
    }
    TRY_OUT(kvsi_hf_config_from_json(out, ours ? ours : config, path, err));
out:
    json_decref(ours);
    json_decref(config);
    return st;
}

/* ---- names ----------------------------------------------------------------------------------- */

/* Buffers that some files contain and that follow from the configuration: frequencies, causal
 * masks. */
static int is_no_weight(const char *name)
{
    static const char *const ends[] = {".rotary_emb.inv_freq", ".attn.bias", ".attn.masked_bias",
                                       ".attention.bias", ".attention.masked_bias"};

    for (size_t i = 0; i < sizeof ends / sizeof *ends; i++)
        if (kvsi_ends_with(name, ends[i]))
            return 1;
    return 0;
}

/* GPT-2 files use one of three name prefixes; ours is the first. */
static kvs_status add_gpt2(kvsi_weights *w, const kvsi_file_tensor *tensor, const char *file,
                           kvs_err *err)
{
    static const char own[] = "transformer.", other[] = "backbone.";
    const char *rest = tensor->name;
    char name[NAME_SIZE];

    if (strcmp(rest, "lm_head.weight") == 0)
        return kvsi_weights_add(w, rest, tensor, 0, file, err);
    if (strncmp(rest, own, sizeof own - 1) == 0)
        rest += sizeof own - 1;
    else if (strncmp(rest, other, sizeof other - 1) == 0)
        rest += sizeof other - 1;
    if (snprintf(name, sizeof name, "%s%s", own, rest) >= (int)sizeof name)
        return kvsi_fail(err, KVS_E_FORMAT, "'%s': the name of tensor '%.100s' is too long", file,
                         tensor->name);
    return kvsi_weights_add(w, name, tensor, 0, file, err);
}

/* The taps of the shift under the names of the listing in the paper on KV shifting attention: K and
 * V of [kv heads, 2], the previous token first, as ours are. */
static const struct {
    const char *theirs, *ours;
} listing_names[] = {
    {".self_attn.K", ".self_attn.k_shift"},
    {".self_attn.V", ".self_attn.v_shift"},
};

static kvs_status add_named(kvsi_weights *w, const kvsi_file_tensor *tensor, const char *file,
                            kvs_err *err)
{
    char name[NAME_SIZE];

    for (size_t i = 0; i < sizeof listing_names / sizeof *listing_names; i++) {
        const char *theirs = listing_names[i].theirs;

        if (!kvsi_ends_with(tensor->name, theirs))
            continue;
        if (w->config.shift.targets == 0)
            return kvsi_fail(err, KVS_E_UNSUPPORTED,
                             "'%s': tensor '%.100s' is a shift, but config.json has none: set "
                             "'model_type' to 'kvshift' and add an object 'kvshift'",
                             file, tensor->name);
        if (snprintf(name, sizeof name, "%.*s%s", (int)(strlen(tensor->name) - strlen(theirs)),
                     tensor->name, listing_names[i].ours) >= (int)sizeof name)
            return kvsi_fail(err, KVS_E_FORMAT, "'%s': the name of tensor '%.100s' is too long",
                             file, tensor->name);
        return kvsi_weights_add(w, name, tensor, 0, file, err);
    }
    return kvsi_weights_add(w, tensor->name, tensor, 0, file, err);
}

/* Gives the view our shape instead of [channels, 1, taps]. */
static kvs_status unfold_taps(kvsi_file_tensor *view, const kvsi_weights *w, kvsi_file_shape shape,
                              const char *file, kvs_err *err)
{
    size_t channels, taps, heads, layer = 0;

    if (view->rank != 3 || view->shape[1] != 1)
        return kvsi_fail(err, KVS_E_FORMAT,
                         "'%s': tensor '%.100s' has %zu dimensions, expected the shape "
                         "(channels,1,taps)",
                         file, view->name, view->rank);
    channels = view->shape[0];
    taps = view->shape[2];
    if (shape == KVSI_SHAPE_FILTER) {
        view->rank = 2;
        view->shape[1] = taps;
        return KVS_OK;
    }
    heads = kvsi_layer_part(&layer, view->name, w->config.layers)
                ? kvsi_model_config_kv_heads(&w->config, layer)
                : 1;
    if (channels % heads != 0)
        return kvsi_fail(err, KVS_E_FORMAT,
                         "'%s': tensor '%.100s' has %zu channels, expected those of %zu heads",
                         file, view->name, channels, heads);
    view->shape[0] = heads;
    view->shape[1] = channels / heads;
    return KVS_OK;
}

/* Rows of tokens beyond the vocabulary, which some families have and never use, are left out. */
static int is_padded(const kvsi_family *family, const kvsi_file_tensor *tensor, size_t vocab)
{
    return family && family->pads_vocabulary && tensor->rank == 2 && tensor->shape[0] > vocab &&
           (kvsi_ends_with(tensor->name, "embed_tokens.weight") ||
            kvsi_ends_with(tensor->name, "lm_head.weight"));
}

/* Only our own files have adapters, also where the model without them is one of a family. */
static kvs_status add_of_family(kvsi_weights *w, const kvsi_file_tensor *tensor, const char *file,
                                kvs_err *err)
{
    const char *type = w->config.lora.rank == 0 ? w->config.family : NULL;
    const kvsi_family *family = type ? kvsi_family_find(type) : NULL;
    const kvsi_packed_rows *packed = family ? family->packed : NULL;
    kvsi_file_shape shape = KVSI_SHAPE_SAME;
    kvsi_file_tensor ours = *tensor;
    char name[NAME_SIZE];

    if (family && !kvsi_family_our_name(name, sizeof name, &shape, family, tensor->name))
        return kvsi_fail(err, KVS_E_FORMAT, "'%s': the name of tensor '%.100s' is too long", file,
                         tensor->name);
    if (family)
        ours.name = name;
    for (; packed && packed->name; packed++)
        if (kvsi_ends_with(ours.name, packed->name))
            return kvsi_weights_add_packed(w, &ours, packed, 0, file, err);
    if (shape != KVSI_SHAPE_SAME)
        TRY(unfold_taps(&ours, w, shape, file, err));
    if (is_padded(family, &ours, w->config.vocab))
        ours.shape[0] = w->config.vocab;
    return add_named(w, &ours, file, err);
}

static kvs_status add_all(kvsi_weights *w, const kvsi_weights_shard *shard, kvs_err *err)
{
    for (size_t i = 0; i < kvsi_safetensors_count(shard->file); i++) {
        const kvsi_file_tensor *tensor = kvsi_safetensors_at(shard->file, i);

        if (is_no_weight(tensor->name))
            continue;
        if (w->format == KVSI_FORMAT_BAICHUAN)
            TRY(kvsi_baichuan_add(w, tensor, shard->path, err));
        else if (w->config.body == KVSI_BODY_GPT2)
            TRY(add_gpt2(w, tensor, shard->path, err));
        else
            TRY(add_of_family(w, tensor, shard->path, err));
    }
    return KVS_OK;
}

/* ---- files ----------------------------------------------------------------------------------- */

/* Opens the next shard; takes ownership of `path`. */
static kvs_status open_shard(kvsi_weights *w, char *path, kvs_err *err)
{
    kvsi_weights_shard *shard = &w->shards[w->shard_count];

    if (!path)
        return kvsi_no_memory(err, "'%s'", w->path);
    shard->path = path;
    w->shard_count++;
    return kvsi_safetensors_open(&shard->file, path, err);
}

static kvs_status open_single(kvsi_weights *w, kvs_err *err)
{
    w->shards = kvsi_alloc(1, sizeof *w->shards);
    if (!w->shards)
        return kvsi_no_memory(err, "'%s'", w->path);
    TRY(open_shard(w, kvsi_strdup(w->file), err));
    return add_all(w, &w->shards[0], err);
}

/* Whether it is a plain file name, which cannot leave the folder of the index. */
static int is_plain_name(const char *name)
{
    return *name && *name != '.' && !strchr(name, '/');
}

static const char *name_in(const char *path)
{
    const char *slash = strrchr(path, '/');

    return slash ? slash + 1 : path;
}

static const kvsi_weights_shard *find_shard(const kvsi_weights *w, const char *name)
{
    for (size_t i = w->shard_count; i-- > 0;) /* entries of one file are usually adjacent */
        if (strcmp(name_in(w->shards[i].path), name) == 0)
            return &w->shards[i];
    return NULL;
}

/* Opens the file of an entry of the map unless it is open; it must contain the tensor. */
static kvs_status follow_entry(kvsi_weights *w, const char *folder, const char *tensor,
                               const char *name, kvs_err *err)
{
    const kvsi_weights_shard *shard;

    if (!name || !is_plain_name(name))
        return kvsi_fail(err, KVS_E_FORMAT,
                         "'%s': tensor '%.100s' is in '%.100s', expected a file beside the index",
                         w->file, tensor, name ? name : "no text");
    shard = find_shard(w, name);
    if (!shard) {
        if (w->shard_count == SHARDS_MAX)
            return kvsi_fail(err, KVS_E_LIMIT, "'%s' names more than %d files", w->file,
                             SHARDS_MAX);
        TRY(open_shard(w, kvsi_path_join(folder, name), err));
        shard = &w->shards[w->shard_count - 1];
    }
    if (!kvsi_safetensors_find(shard->file, tensor))
        return kvsi_fail(err, KVS_E_FORMAT, "'%s' has no tensor '%.100s', which '%s' expects in it",
                         shard->path, tensor, w->file);
    return KVS_OK;
}

/* Every tensor of a shard must be mapped to that shard. */
static kvs_status check_shard(const kvsi_weights *w, const kvsi_weights_shard *shard,
                              const json_t *map, kvs_err *err)
{
    for (size_t i = 0; i < kvsi_safetensors_count(shard->file); i++) {
        const char *tensor = kvsi_safetensors_at(shard->file, i)->name;
        const char *name = json_string_value(json_object_get(map, tensor));

        if (!name || strcmp(name, name_in(shard->path)) != 0)
            return kvsi_fail(err, KVS_E_FORMAT, "'%s' has a tensor '%.100s', which '%s' has %s%s",
                             shard->path, tensor, w->file, name ? "in " : "not at all",
                             name ? name : "");
    }
    return KVS_OK;
}

static kvs_status open_index(kvsi_weights *w, const char *folder, kvs_err *err)
{
    json_t *index = NULL, *map, *name;
    const char *tensor;
    kvs_status st;

    TRY_OUT(kvsi_json_read(&index, w->file, INDEX_LIMIT, err));
    map = json_object_get(index, "weight_map");
    if (!json_is_object(map)) {
        st = kvsi_fail(err, KVS_E_FORMAT, "'%s' has no object 'weight_map'", w->file);
        goto out;
    }
    w->shards = kvsi_alloc(SHARDS_MAX, sizeof *w->shards);
    if (!w->shards) {
        st = kvsi_no_memory(err, "'%s'", w->file);
        goto out;
    }
    json_object_foreach(map, tensor, name) {
        TRY_OUT(follow_entry(w, folder, tensor, json_string_value(name), err));
    }
    for (size_t i = 0; i < w->shard_count; i++) {
        TRY_OUT(check_shard(w, &w->shards[i], map, err));
        TRY_OUT(add_all(w, &w->shards[i], err));
    }
out:
    json_decref(index);
    return st;
}

/* ---- opening --------------------------------------------------------------------------------- */

kvs_status kvsi_hf_find_weights(char **file, const char *folder, kvs_err *err)
{
    static const char *const names[] = {"model.safetensors", "model.safetensors.index.json"};

    *file = NULL;
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        char *path = kvsi_path_join(folder, names[i]);

        if (!path)
            return kvsi_no_memory(err, "'%s'", folder);
        if (kvsi_file_exists(path)) {
            *file = path;
            return KVS_OK;
        }
        kvsi_free(path);
    }
    return KVS_OK;
}

kvs_status kvsi_hf_check_run(const char *folder, kvs_err *err)
{
    char *newest = kvsi_path_join(folder, "ckpt/latest"), *weights = NULL;
    kvs_status st =
        newest ? kvsi_hf_find_weights(&weights, folder, err) : kvsi_no_memory(err, "'%s'", folder);

    if (st == KVS_OK && !weights && kvsi_is_folder(newest))
        st = kvsi_fail(err, KVS_E_IO,
                       "'%s' is a run that has not finished and has no model yet; its newest "
                       "checkpoint is '%s'",
                       folder, newest);
    kvsi_free(newest);
    kvsi_free(weights);
    return st;
}

kvs_status kvsi_weights_open_hf(kvsi_weights *w, const char *folder, const char *file, kvs_err *err)
{
    char *settings = kvsi_path_join(folder, "config.json");
    kvs_status st = KVS_OK;

    if (!settings) {
        st = kvsi_no_memory(err, "'%s'", folder);
        goto out;
    }
    if (!file)
        TRY_OUT(kvsi_hf_check_run(folder, err));
    TRY_OUT(kvsi_hf_config_open(&w->config, &w->format, settings, err));
    TRY_OUT(kvsi_token_ids_read_folder(&w->ids, folder, w->config.vocab, err));
    if (!file)
        TRY_OUT(kvsi_hf_find_weights(&w->file, folder, err));
    else if (!(w->file = kvsi_strdup(file)))
        TRY_OUT(kvsi_no_memory(err, "'%s'", file));
    if (!w->file)
        st = kvsi_fail(err, KVS_E_IO,
                       "'%s' has neither model.safetensors nor model.safetensors.index.json",
                       folder);
    else if (kvsi_ends_with(w->file, ".index.json"))
        st = open_index(w, folder, err);
    else
        st = open_single(w, err);
out:
    kvsi_free(settings);
    return st;
}
