/* The JSON schema of a command's configuration file, for editors that check and complete. */
#include "base/options_config.h"

#include <string.h>

static const char *type_of(const kvsi_option *option)
{
    switch (option->kind) {
    case KVSI_OPTION_FLAG:
        return "boolean";
    case KVSI_OPTION_SIZE:
    case KVSI_OPTION_UINT64:
        return "integer";
    case KVSI_OPTION_REAL:
        return "number";
    case KVSI_OPTION_SIZES:
    case KVSI_OPTION_REALS:
        return "array";
    case KVSI_OPTION_TEXT:
    case KVSI_OPTION_CHOICE:
        break;
    }
    return "string";
}

static void set_limits(json_t *schema, const kvsi_option *option)
{
    json_object_set_new(schema, "minimum", json_real(option->low));
    if (option->high > 0)
        json_object_set_new(schema, "maximum", json_real(option->high));
}

static json_t *choices_of(const kvsi_option *option)
{
    json_t *list = json_array();

    for (size_t i = 0; option->choices[i]; i++)
        json_array_append_new(list, json_string(option->choices[i]));
    return list;
}

/* NULL where there is no default, or the command decides. */
static json_t *default_of(const kvsi_option *option, const void *settings)
{
    kvsi_text words = {0};
    json_t *value = NULL;

    kvsi_option_print(&words, option, settings);
    if (option->kind == KVSI_OPTION_FLAG)
        value = json_boolean(strcmp(words.data ? words.data : "", "yes") == 0);
    else if (option->kind == KVSI_OPTION_CHOICE && words.length > 0)
        value = json_string(words.data);
    else if (words.length > 0 && !option->automatic)
        value = option->kind == KVSI_OPTION_TEXT ? json_string(words.data)
                                                 : json_loads(words.data, JSON_DECODE_ANY, NULL);
    kvsi_text_release(&words);
    return value;
}

static json_t *option_schema(const kvsi_option *option, const void *settings)
{
    const char *const type = type_of(option);
    json_t *schema = json_pack("{s:s, s:s, s:o*}", "type", type, "description", option->help,
                               "default", default_of(option, settings));
    json_t *item = NULL;

    if (strcmp(type, "array") == 0) {
        item = json_pack("{s:s}", "type", option->kind == KVSI_OPTION_SIZES ? "integer" : "number");
        set_limits(item, option);
        json_object_set_new(schema, "items", item);
        json_object_set_new(schema, "maxItems", json_integer(KVSI_LIST_MAX));
    } else if (strcmp(type, "integer") == 0 || strcmp(type, "number") == 0) {
        set_limits(schema, option);
    } else if (option->kind == KVSI_OPTION_CHOICE) {
        json_object_set_new(schema, "enum", choices_of(option));
    }
    return schema;
}

/* The section's schema, a borrowed reference, made where there is none yet. */
static json_t *section_schema(json_t *properties, const char *group)
{
    char name[64];

    kvsi_options_section(name, sizeof name, group);
    if (!json_object_get(properties, name))
        json_object_set_new(properties, name,
                            json_pack("{s:s, s:s, s:{}, s:b}", "type", "object", "title", group,
                                      "properties", "additionalProperties", 0));
    return json_object_get(properties, name);
}

json_t *kvsi_options_schema(const kvsi_command_options *command, const void *settings)
{
    json_t *properties = json_object();

    for (size_t i = 0; i < command->count; i++) {
        const kvsi_option *option = command->options + i;
        json_t *section = section_schema(properties, option->group);

        if (option->repeats)
            continue; /* is for the command line */
        json_object_set_new(json_object_get(section, "properties"), option->name,
                            option_schema(option, settings));
    }
    for (size_t i = 0; i < command->count; i++) { /* the same keys before all sections */
        const kvsi_option *option = command->options + i;
        json_t *section = json_object_get(properties, option->name), *alone;

        if (option->repeats)
            continue;
        alone = option_schema(option, settings);
        json_object_set_new(properties, option->name,
                            section ? json_pack("{s:[O, o]}", "anyOf", section, alone) : alone);
    }
    return json_pack("{s:s, s:s, s:s, s:o, s:b}", "$schema",
                     "https://json-schema.org/draft/2020-12/schema", "title", command->command,
                     "type", "object", "properties", properties, "additionalProperties", 0);
}
