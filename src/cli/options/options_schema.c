/* The JSON schema of a command's configuration file, for editors that check and complete. */
#include "cli/options/options_config.h"

#include <string.h>

static const char *type_of(const kvsi_setting *row)
{
    switch (row->kind) {
    case KVSI_SETTING_FLAG:
        return "boolean";
    case KVSI_SETTING_SIZE:
    case KVSI_SETTING_UINT64:
        return "integer";
    case KVSI_SETTING_REAL:
        return "number";
    case KVSI_SETTING_SIZES:
    case KVSI_SETTING_REALS:
    case KVSI_SETTING_BITS:
    case KVSI_SETTING_OPTIONAL:
        return "array";
    case KVSI_SETTING_TEXT:
    case KVSI_SETTING_STRING:
    case KVSI_SETTING_CHOICE:
    case KVSI_SETTING_ENUM:
        break;
    }
    return "string";
}

static void set_limits(json_t *schema, const kvsi_setting *row)
{
    json_object_set_new(schema, row->open_low ? "exclusiveMinimum" : "minimum",
                        json_real(row->low));
    if (row->high > 0)
        json_object_set_new(schema, row->open_high ? "exclusiveMaximum" : "maximum",
                            json_real(row->high));
}

static json_t *choices_of(const kvsi_setting *row)
{
    json_t *list = json_array();
    const char *choice;

    for (size_t i = 0; (choice = kvsi_setting_choice(row, i)); i++)
        json_array_append_new(list, json_string(choice));
    return list;
}

/* Returns the default; NULL if there is none or the command computes it. */
static json_t *default_of(const kvsi_setting *row, const void *settings)
{
    const int is_named = row->kind == KVSI_SETTING_CHOICE || row->kind == KVSI_SETTING_ENUM;
    const char *text;

    if (row->kind == KVSI_SETTING_FLAG)
        return kvsi_setting_to_json(row, settings);
    if (row->automatic && !(is_named && !kvsi_setting_is_automatic(row, settings)))
        return NULL;
    if (row->kind == KVSI_SETTING_TEXT) {
        text = *(const char *const *)(const void *)((const char *)settings + row->offset);
        return text ? json_string(text) : NULL;
    }
    return kvsi_setting_to_json(row, settings);
}

static json_t *option_schema(const kvsi_setting *row, const void *settings)
{
    const char *const type = type_of(row);
    json_t *schema = json_pack("{s:s, s:s, s:o*}", "type", type, "description", row->help,
                               "default", default_of(row, settings));
    json_t *item = NULL;

    if (strcmp(type, "array") == 0) {
        item = json_pack("{s:s}", "type", row->kind == KVSI_SETTING_REALS ? "number" : "integer");
        set_limits(item, row);
        json_object_set_new(schema, "items", item);
        json_object_set_new(schema, "maxItems", json_integer(KVSI_LIST_MAX));
    } else if (strcmp(type, "integer") == 0 || strcmp(type, "number") == 0) {
        set_limits(schema, row);
    } else if (kvsi_setting_choice(row, 0)) {
        json_object_set_new(schema, "enum", choices_of(row));
    }
    return schema;
}

/* Returns the schema of a section, a borrowed reference; creates it if there is none yet. */
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
    size_t order[KVSI_OPTIONS_MAX];
    const size_t count = kvsi_command_order(order, command);

    for (size_t i = 0; i < count; i++) {
        const kvsi_setting row = kvsi_command_row(command, order[i]);
        json_t *section = section_schema(properties, row.group);

        if (row.repeats)
            continue; /* only on the command line */
        json_object_set_new(json_object_get(section, "properties"), row.name,
                            option_schema(&row, settings));
    }
    for (size_t i = 0; i < count; i++) { /* keys before all sections */
        const kvsi_setting row = kvsi_command_row(command, order[i]);
        json_t *section = json_object_get(properties, row.name), *alone;

        if (row.repeats)
            continue;
        alone = option_schema(&row, settings);
        json_object_set_new(properties, row.name,
                            section ? json_pack("{s:[O, o]}", "anyOf", section, alone) : alone);
    }
    return json_pack("{s:s, s:s, s:s, s:o, s:b}", "$schema",
                     "https://json-schema.org/draft/2020-12/schema", "title", command->command,
                     "type", "object", "properties", properties, "additionalProperties", 0);
}
