#include "model/adapter_files.h"

#include "base/files.h"
#include "base/memory.h"
#include "formats/family_tensors.h"
#include "formats/safetensors.h"
#include "model/adapters.h"

#include <stdio.h>
#include <string.h>

/* ---- adapter_config.json --------------------------------------------------------------------- */

/* The name of a matrix in the family's files, without .weight. */
typedef struct module {
    char name[KVSI_NAME_SIZE];
} module;

static module module_of(const kvsi_parameter *p, const kvsi_family *family)
{
    kvsi_file_shape shape;
    module m;

    if (!family || !kvsi_family_their_name(m.name, sizeof m.name, &shape, family, p->name))
        snprintf(m.name, sizeof m.name, "%s", p->name);
    m.name[strlen(m.name) - strlen(".weight")] = '\0';
    return m;
}

/* The last word of a matrix's name: q_proj. */
static const char *last_word(const module *m)
{
    const char *dot = strrchr(m->name, '.');

    return dot ? dot + 1 : m->name;
}

/* Whether all linear matrices whose names end with the same word have adapters. */
static int covers_word(const kvsi_layout *layout, const kvsi_family *family, const module *m)
{
    for (size_t i = 0; i < layout->count; i++) {
        const kvsi_parameter *p = &layout->list[i];
        module other;

        if (!kvsi_is_linear(p) || kvsi_layout_adapter(layout, i))
            continue;
        other = module_of(p, family);
        if (strcmp(last_word(m), last_word(&other)) == 0)
            return 0;
    }
    return 1;
}

static int contains(const json_t *list, const char *text)
{
    const json_t *member;
    size_t i;

    json_array_foreach(list, i, member) {
        if (strcmp(json_string_value(member), text) == 0)
            return 1;
    }
    return 0;
}

/* The matrices by the last words of their names, or by whole names where a word has others too. */
static json_t *target_modules(const kvsi_layout *layout, const kvsi_family *family)
{
    json_t *list = json_array();

    for (size_t i = 0; i < layout->adapter_count; i++) {
        const module m = module_of(&layout->list[layout->adapters[i].weight], family);
        const char *name = covers_word(layout, family, &m) ? last_word(&m) : m.name;

        if (!contains(list, name))
            json_array_append_new(list, json_string(name));
    }
    return list;
}

/* The base model is known to the caller of PEFT, not here.  NULL: no memory. */
static json_t *make_config(const kvs_model *model, const kvsi_family *family)
{
    const kvsi_lora_config *lora = &model->config.lora;

    return json_pack("{s:s, s:s, s:n, s:I, s:f, s:f, s:s, s:o, s:b, s:b, s:b, s:n}", "peft_type",
                     "LORA", "task_type", "CAUSAL_LM", "base_model_name_or_path", "r",
                     (json_int_t)lora->rank, "lora_alpha", lora->alpha, "lora_dropout", 0.0, "bias",
                     "none", "target_modules", target_modules(&model->layout, family),
                     "fan_in_fan_out", model->config.body == KVSI_BODY_GPT2, "use_rslora", 0,
                     "inference_mode", 1, "modules_to_save");
}

/* ---- adapter_model.safetensors --------------------------------------------------------------- */

typedef struct entry {
    const kvsi_parameter *parameter;
    char name[KVSI_NAME_SIZE + sizeof KVSI_ADAPTER_PREFIX];
} entry;

typedef struct entries {
    const kvs_model *model;
    entry *list;
    size_t count;
} entries;

static void describe(const void *self, size_t index, kvsi_file_tensor *out)
{
    const entry *e = &((const entries *)self)->list[index];

    kvsi_parameter_describe(e->parameter, KVSI_F32, out);
    out->name = e->name;
}

static kvs_status read_tensor(const void *self, size_t index, float *out, kvs_err *err)
{
    const entries *all = self;
    const kvsi_parameter *p = all->list[index].parameter;

    return kvs_model_read_tensor(out, p->count, all->model, p->name, err);
}

static void list_entries(entries *all)
{
    const kvsi_layout *layout = &all->model->layout;

    for (size_t i = 0; i < layout->count; i++) {
        const kvsi_parameter *p = &layout->list[i];
        entry *e = &all->list[all->count];

        if (kvsi_group_of(p->role) < KVSI_ADAPTERS)
            continue;
        e->parameter = p;
        snprintf(e->name, sizeof e->name, "%s%s", KVSI_ADAPTER_PREFIX, p->name);
        all->count++;
    }
}

static kvs_status write_weights(const kvs_model *model, const kvsi_family *family, const char *path,
                                kvs_err *err)
{
    entries all = {model, kvsi_alloc(model->layout.count, sizeof *all.list), 0};
    kvsi_tensor_source source = {0, describe, read_tensor, &all}, theirs;
    kvsi_family_tensors tensors = {0};
    kvs_status st;

    if (!all.list)
        return kvsi_no_memory(err, "%zu tensors", model->layout.count);
    list_entries(&all);
    source.count = all.count;
    TRY_OUT(kvsi_family_tensors_init(&tensors, family, model->config.heads, &source, err));
    theirs = kvsi_family_source(&tensors);
    TRY_OUT(kvsi_safetensors_write_source(path, &theirs, err));
out:
    kvsi_family_tensors_release(&tensors);
    kvsi_free(all.list);
    return st;
}

kvs_status kvsi_adapter_files_write(const kvs_model *model, const char *dir, kvs_err *err)
{
    char *config = kvsi_path_join(dir, KVSI_ADAPTER_CONFIG);
    char *weights = kvsi_path_join(dir, KVSI_ADAPTER_WEIGHTS);
    const kvsi_family *family = kvsi_adapters_family(&model->config);
    json_t *object = make_config(model, family);
    kvs_status st = KVS_OK;

    if (!config || !weights) {
        st = kvsi_no_memory(err, "'%s'", dir);
        goto out;
    }
    TRY_OUT(write_weights(model, family, weights, err));
    TRY_OUT(kvsi_json_write(object, config, err)); /* also checks for out of memory */
out:
    json_decref(object);
    kvsi_free(config);
    kvsi_free(weights);
    return st;
}
