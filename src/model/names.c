/* The names of the configuration's choices. */
#include "base/names.h"

#include "kernels/forms.h"

#include <string.h>

static const kvsi_name targets[] = {
    {"none", 0},
    {"k", KVS_SHIFT_K},
    {"v", KVS_SHIFT_V},
    {"kv", KVS_SHIFT_K | KVS_SHIFT_V},
    {"qkv", KVS_SHIFT_Q | KVS_SHIFT_K | KVS_SHIFT_V},
    {NULL, 0},
};

static const kvsi_name inits[] = {
    {"uniform", KVS_SHIFT_INIT_UNIFORM},
    {"softmax", KVS_SHIFT_INIT_SOFTMAX},
    {"identity", KVS_SHIFT_INIT_IDENTITY},
    {NULL, 0},
};

static const kvsi_name bodies[] = {{"llama", KVS_BODY_LLAMA}, {"gpt2", KVS_BODY_GPT2}, {NULL, 0}};

static const kvsi_name positions[] = {
    {"rope", KVS_POSITIONS_ROPE},
    {"alibi", KVS_POSITIONS_ALIBI},
    {"learned", KVS_POSITIONS_LEARNED},
    {"none", KVS_POSITIONS_NONE},
    {NULL, 0},
};

static const kvsi_name heads[] = {
    {"linear", KVS_HEAD_LINEAR},
    {"normalised", KVS_HEAD_NORMALISED},
    {"none", KVS_HEAD_NONE},
    {NULL, 0},
};

const char *kvs_shift_targets_name(unsigned value)
{
    return kvsi_name_of(targets, (int)value);
}

const char *kvs_shift_form_name(kvs_shift_form form)
{
    const kvsi_form *row = kvsi_form_get(form);

    return row ? row->name : NULL;
}

const char *kvs_shift_init_name(kvs_shift_init init)
{
    return kvsi_name_of(inits, (int)init);
}

const char *kvs_body_name(kvs_body body)
{
    return kvsi_name_of(bodies, (int)body);
}

const char *kvs_positions_name(kvs_positions value)
{
    return kvsi_name_of(positions, (int)value);
}

const char *kvs_head_name(kvs_head head)
{
    return kvsi_name_of(heads, (int)head);
}

kvs_status kvs_shift_targets_parse(unsigned *out, const char *name, kvs_err *err)
{
    int value = 0;
    const kvs_status st = kvsi_name_parse(&value, targets, "shift", name, err);

    *out = (unsigned)value;
    return st;
}

/* The forms have their names in their own table. */
kvs_status kvs_shift_form_parse(kvs_shift_form *out, const char *name, kvs_err *err)
{
    for (int i = 0; kvsi_form_get((kvs_shift_form)i); i++)
        if (strcmp(kvsi_form_get((kvs_shift_form)i)->name, name) == 0) {
            *out = (kvs_shift_form)i;
            return KVS_OK;
        }
    return kvsi_fail(err, KVS_E_INVALID,
                     "unknown shift form '%s', expected free, gate, clamp, "
                     "channel, data or hard",
                     name);
}

kvs_status kvs_shift_init_parse(kvs_shift_init *out, const char *name, kvs_err *err)
{
    int value = 0;
    const kvs_status st = kvsi_name_parse(&value, inits, "shift init", name, err);

    *out = (kvs_shift_init)value;
    return st;
}

kvs_status kvs_body_parse(kvs_body *out, const char *name, kvs_err *err)
{
    int value = 0;
    const kvs_status st = kvsi_name_parse(&value, bodies, "body", name, err);

    *out = (kvs_body)value;
    return st;
}

kvs_status kvs_positions_parse(kvs_positions *out, const char *name, kvs_err *err)
{
    int value = 0;
    const kvs_status st = kvsi_name_parse(&value, positions, "positions", name, err);

    *out = (kvs_positions)value;
    return st;
}

kvs_status kvs_head_parse(kvs_head *out, const char *name, kvs_err *err)
{
    int value = 0;
    const kvs_status st = kvsi_name_parse(&value, heads, "head", name, err);

    *out = (kvs_head)value;
    return st;
}

kvs_status kvs_shift_parse(kvs_shift_config *out, int *form_said, const char *name, kvs_err *err)
{
    static const struct {
        const char *name;
        unsigned targets;
        kvs_shift_form form;
    } short_names[] = {
        {"gate", KVS_SHIFT_K | KVS_SHIFT_V, KVS_SHIFT_GATE},
        {"clamp", KVS_SHIFT_K | KVS_SHIFT_V, KVS_SHIFT_CLAMP},
        {"smear", KVS_SHIFT_K, KVS_SHIFT_GATE},
    };

    for (size_t i = 0; i < sizeof short_names / sizeof *short_names; i++)
        if (strcmp(short_names[i].name, name) == 0) {
            out->targets = short_names[i].targets;
            out->form = short_names[i].form;
            *form_said = 1;
            return KVS_OK;
        }
    *form_said = 0;
    return kvs_shift_targets_parse(&out->targets, name, err);
}
