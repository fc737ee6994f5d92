/* The named templates, in the language of all others. */
#include "chat/chat.h"

#include <string.h>

/* Llama 2 puts the system message into the first message of the user. */
static const char llama2[] =
    "{% set ns = namespace(system='') %}"
    "{% for m in messages %}"
    "{% if m.role == 'system' %}"
    "{% set ns.system = '<<SYS>>\\n' ~ m.content | trim ~ '\\n<</SYS>>\\n\\n' %}"
    "{% elif m.role == 'user' %}"
    "{{ bos_token }}[INST] {{ ns.system ~ m.content | trim }} [/INST]"
    "{% set ns.system = '' %}"
    "{% elif m.role == 'assistant' %}"
    "{{ ' ' ~ m.content | trim ~ ' ' ~ eos_token }}"
    "{% else %}"
    "{{ raise_exception('llama2 has no role ' ~ m.role) }}"
    "{% endif %}"
    "{% endfor %}";

static const char mistral[] = "{% set ns = namespace(system='') %}"
                              "{{ bos_token }}"
                              "{% for m in messages %}"
                              "{% if m.role == 'system' %}"
                              "{% set ns.system = m.content | trim ~ '\\n\\n' %}"
                              "{% elif m.role == 'user' %}"
                              "[INST] {{ ns.system ~ m.content | trim }} [/INST]"
                              "{% set ns.system = '' %}"
                              "{% elif m.role == 'assistant' %}"
                              "{{ ' ' ~ m.content | trim ~ eos_token }}"
                              "{% else %}"
                              "{{ raise_exception('mistral has no role ' ~ m.role) }}"
                              "{% endif %}"
                              "{% endfor %}";

static const char gemma[] =
    "{% set ns = namespace(system='') %}"
    "{{ bos_token }}"
    "{% for m in messages %}"
    "{% if m.role == 'system' %}"
    "{% set ns.system = m.content | trim ~ '\\n\\n' %}"
    "{% else %}"
    "{{ '<start_of_turn>' ~ ('model' if m.role == 'assistant' else m.role) ~ '\\n' }}"
    "{{ ns.system ~ m.content | trim ~ '<end_of_turn>\\n' }}"
    "{% set ns.system = '' %}"
    "{% endif %}"
    "{% endfor %}"
    "{{ '<start_of_turn>model\\n' if add_generation_prompt }}";

static const char chatml[] = "{% for m in messages %}"
                             "{{ '<|im_start|>' ~ m.role ~ '\\n' ~ m.content ~ '<|im_end|>\\n' }}"
                             "{% endfor %}"
                             "{{ '<|im_start|>assistant\\n' if add_generation_prompt }}";

static const char llama3[] =
    "{{ bos_token }}"
    "{% for m in messages %}"
    "{{ '<|start_header_id|>' ~ m.role ~ '<|end_header_id|>\\n\\n' }}"
    "{{ m.content | trim ~ '<|eot_id|>' }}"
    "{% endfor %}"
    "{{ '<|start_header_id|>assistant<|end_header_id|>\\n\\n' if add_generation_prompt }}";

static const char zephyr[] = "{% for m in messages %}"
                             "{{ '<|' ~ m.role ~ '|>\\n' ~ m.content ~ eos_token ~ '\\n' }}"
                             "{% endfor %}"
                             "{{ '<|assistant|>\\n' if add_generation_prompt }}";

static const char phi3[] = "{% for m in messages %}"
                           "{{ '<|' ~ m.role ~ '|>\\n' ~ m.content ~ '<|end|>\\n' }}"
                           "{% endfor %}"
                           "{{ '<|assistant|>\\n' if add_generation_prompt }}";

/* For models that know no roles: the messages, one after the other. */
static const char raw[] = "{{ bos_token }}"
                          "{% for m in messages %}"
                          "{{ m.content ~ '\\n' }}"
                          "{% endfor %}";

static const struct {
    const char *name, *text;
} templates[] = {
    {"chatml", chatml}, {"llama2", llama2}, {"llama3", llama3}, {"mistral", mistral},
    {"zephyr", zephyr}, {"phi3", phi3},     {"gemma", gemma},   {"raw", raw},
};

enum { COUNT = sizeof templates / sizeof *templates };

const char *kvs_chat_template_name(size_t index)
{
    return index < COUNT ? templates[index].name : NULL;
}

const char *kvsi_chat_named(const char *name)
{
    for (size_t i = 0; i < COUNT; i++)
        if (strcmp(templates[i].name, name) == 0)
            return templates[i].text;
    return NULL;
}
