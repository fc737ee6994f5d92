#include "model/adapters.h"

#include "base/text.h"
#include "formats/hf.h"

#include <stdio.h>
#include <string.h>

static const char WEIGHT[] = ".weight";

/* ---- names ----------------------------------------------------------------------------------- */

/* Whether the name of one list entry is the tensor's, or the end of it after a dot. */
static int is_named(const char *name, size_t size, const kvsi_parameter *p)
{
    const size_t length = strlen(p->name) - (sizeof WEIGHT - 1);

    if (!kvsi_ends_with(p->name, WEIGHT))
        return 0;
    for (size_t from = 0; from < length; from++)
        if ((from == 0 || p->name[from - 1] == '.') &&
            kvsi_matches(name, size, p->name + from, length - from))
            return 1;
    return 0;
}

/* The next entry of the list at *at, and its length; NULL at the end. */
static const char *next_name(const char **at, size_t *size)
{
    const char *name = *at;

    if (!name)
        return NULL;
    *size = strcspn(name, ",");
    *at = name[*size] ? name + *size + 1 : NULL;
    return name;
}

int kvsi_is_linear(const kvsi_parameter *p)
{
    return p->role == KVSI_PROJECTION || p->role == KVSI_OUTPUT || p->role == KVSI_UP ||
           p->role == KVSI_DOWN;
}

int kvsi_is_adapted(const char *names, const kvsi_parameter *p)
{
    const char *name;
    size_t size;

    while (kvsi_is_linear(p) && (name = next_name(&names, &size)))
        if (is_named(name, size, p))
            return 1;
    return 0;
}

void kvsi_adapter_name(char out[KVSI_NAME_SIZE], const char *weight, kvsi_role role)
{
    const int length = (int)(strlen(weight) - (sizeof WEIGHT - 1));

    snprintf(out, KVSI_NAME_SIZE, "%.*s.lora_%c%s", length, weight, role == KVSI_LORA_A ? 'A' : 'B',
             WEIGHT);
}

/* ---- checks ---------------------------------------------------------------------------------- */

/* Appends the last words of the names of a layer's linear matrices: "q_proj, k_proj, ...". */
static void add_known_names(kvsi_text *text, const kvsi_layout *layout)
{
    for (size_t i = 0; i < layout->count; i++) {
        const kvsi_parameter *p = &layout->list[i];
        const int length = (int)(strlen(p->name) - (sizeof WEIGHT - 1));
        int from = length;

        if (!kvsi_is_linear(p) || p->layer != 0)
            continue;
        while (from > 0 && p->name[from - 1] != '.')
            from--;
        kvsi_text_format(text, "%s%.*s", text->length > 0 ? ", " : "", length - from,
                         p->name + from);
    }
}

static kvs_status check_name(const char *name, size_t size, const kvsi_layout *layout, kvs_err *err)
{
    const int tied = layout->head == layout->embed;
    kvsi_text known = {0};
    kvs_status st;

    for (size_t i = 0; i < layout->count; i++) {
        const kvsi_parameter *p = &layout->list[i];

        if (kvsi_is_linear(p) && is_named(name, size, p))
            return KVS_OK;
    }
    for (size_t i = 0; i < layout->count; i++)
        if ((layout->list[i].role == KVSI_EMBEDDING || layout->list[i].role == KVSI_HEAD) &&
            is_named(name, size, &layout->list[i]))
            return kvsi_fail(err, KVS_E_UNSUPPORTED,
                             "lora matrix '%.*s': adapters are for matrices of layers, not for the "
                             "embedding and the output head%s",
                             (int)size, name, tied ? ", which are tied" : "");
    if (tied && kvsi_matches(name, size, "lm_head", strlen("lm_head")))
        return kvsi_fail(err, KVS_E_UNSUPPORTED,
                         "lora matrix 'lm_head': the output head is tied to the embedding, which "
                         "has no adapter");
    add_known_names(&known, layout);
    TRY_OUT(kvsi_text_check(&known, err));
    st = kvsi_fail(err, KVS_E_INVALID,
                   "lora matrix '%.*s': the model's layers have none with this name, expected %s "
                   "or a pattern",
                   (int)size, name, known.data ? known.data : "");
out:
    kvsi_text_release(&known);
    return st;
}

static kvs_status check_rank(const kvsi_parameter *p, size_t rank, kvs_err *err)
{
    const size_t least = p->shape[0] < p->shape[1] ? p->shape[0] : p->shape[1];

    if (rank > least)
        return kvsi_fail(err, KVS_E_INVALID,
                         "lora rank is %zu, expected at most %zu, the width of '%s'", rank, least,
                         p->name);
    return KVS_OK;
}

kvs_status kvsi_adapters_check(const kvsi_layout *layout, const kvsi_lora_config *lora,
                               kvs_err *err)
{
    const char *at = lora->on, *name;
    size_t size;

    while (lora->rank > 0 && (name = next_name(&at, &size)))
        TRY(check_name(name, size, layout, err));
    for (size_t i = 0; i < layout->adapter_count; i++)
        TRY(check_rank(&layout->list[layout->adapters[i].weight], lora->rank, err));
    return KVS_OK;
}

static kvs_status check_packed(const kvsi_family *family, const char *name, kvs_err *err)
{
    for (const kvsi_packed_rows *packed = family->packed; packed && packed->name; packed++)
        for (size_t i = 0; i < KVSI_PACKED_MAX && packed->parts[i]; i++)
            if (kvsi_ends_with(name, packed->parts[i]))
                return kvsi_fail(err, KVS_E_UNSUPPORTED,
                                 "lora matrix '%s': files of %s have it within '%s', which cannot "
                                 "have an adapter of its own; choose others, or add a shift",
                                 name, family->type, packed->name);
    return KVS_OK;
}

const kvsi_family *kvsi_adapters_family(const kvs_model_config *config)
{
    kvs_model_config without = *config;
    const kvsi_family *family = NULL;

    without.lora.rank = 0;
    json_decref(kvsi_hf_config_to_family_json(&without, &family));
    return family;
}

/* Fails if an adapter is of rows that files of the model's family have in a tensor with others: for
 * that tensor it would be no adapter of the same rank. */
static kvs_status check_family(const kvs_model_config *config, kvs_err *err)
{
    const kvsi_family *family = kvsi_adapters_family(config);
    kvsi_layout layout;
    kvs_status st;

    st = kvsi_layout_init(&layout, config, err);
    if (st == KVS_OK && family)
        for (size_t i = 0; st == KVS_OK && i < layout.adapter_count; i++)
            st = check_packed(family, layout.list[layout.adapters[i].weight].name, err);
    kvsi_layout_release(&layout);
    return st;
}

kvs_status kvsi_adapters_add(kvs_model_config *config, const kvs_adapter_options *options,
                             kvs_err *err)
{
    static const char gpt2[] = "c_attn,c_proj,c_fc",
                      plain[] = "q_proj,k_proj,v_proj,o_proj,up_proj,down_proj",
                      gated[] = "q_proj,k_proj,v_proj,o_proj,gate_proj,up_proj,down_proj",
                      attention[] = "q_proj,k_proj,v_proj,o_proj";
    const char *all = config->body == KVSI_BODY_GPT2 ? gpt2
                      : config->no_mlp               ? attention
                      : config->plain_mlp            ? plain
                                                     : gated;
    const char *on = options->on ? options->on : all;

    if (config->lora.rank > 0)
        return kvsi_fail(err, KVS_E_INVALID, "the model already has adapters, of rank %zu",
                         config->lora.rank);
    if (options->rank == 0)
        return kvsi_fail(err, KVS_E_INVALID, "lora rank is 0, expected at least 1");
    if (strlen(on) >= sizeof config->lora.on)
        return kvsi_fail(err, KVS_E_LIMIT, "the list of lora matrices has %zu bytes, at most %zu",
                         strlen(on), sizeof config->lora.on - 1);
    config->lora.rank = options->rank;
    config->lora.alpha = options->alpha > 0 ? options->alpha : (double)options->rank;
    snprintf(config->lora.on, sizeof config->lora.on, "%s", on);
    TRY(kvs_model_config_finish(config, err));
    return check_family(config, err);
}
