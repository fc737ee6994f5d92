/* Fields of records, and the parts of items that families have in common. */
#include "base/memory.h"
#include "eval/tasks/family.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

const char *kvsi_choice_letters[4] = {"A", "B", "C", "D"};

kvs_status kvsi_record_refuse(kvs_err *err, const kvsi_eval_source *source, const char *format, ...)
{
    char text[512];
    va_list args;

    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    return kvsi_fail(err, KVS_E_FORMAT, "'%s' line %zu: %s", source->file, source->line, text);
}

static const char *type_name(const json_t *value)
{
    switch (json_typeof(value)) {
    case JSON_OBJECT:
        return "an object";
    case JSON_ARRAY:
        return "an array";
    case JSON_STRING:
        return "text";
    case JSON_INTEGER:
        return "a whole number";
    case JSON_REAL:
        return "a fraction";
    case JSON_TRUE:
    case JSON_FALSE:
        return "true or false";
    case JSON_NULL:
        return "null";
    }
    return "?";
}

static kvs_status wrong_type(const json_t *value, const char *key, const char *expected,
                             const kvsi_eval_source *source, kvs_err *err)
{
    return kvsi_record_refuse(err, source, "field '%s': expected %s, found %s", key, expected,
                              type_name(value));
}

kvs_status kvsi_field_value(json_t **out, const json_t *record, const char *key,
                            const kvsi_eval_source *source, kvs_err *err)
{
    char names[200] = "";
    size_t used = 0, count = 0;
    const char *name;
    json_t *value;

    *out = json_object_get(record, key);
    if (*out)
        return KVS_OK;
    json_object_foreach((json_t *)record, name, value) {
        const int added =
            snprintf(names + used, sizeof names - used, "%s'%s'", count++ ? ", " : "", name);

        if (added < 0 || (size_t)added >= sizeof names - used) {
            snprintf(names + sizeof names - 5, 5, " ...");
            break;
        }
        used += (size_t)added;
    }
    return kvsi_record_refuse(err, source, "no field '%s': expected %s, found %s", key,
                              source->family->fields, count ? names : "no field");
}

kvs_status kvsi_record_text(const char **out, const json_t *record, const char *key,
                            const kvsi_eval_source *source, kvs_err *err)
{
    json_t *value;

    *out = NULL;
    TRY(kvsi_field_value(&value, record, key, source, err));
    *out = json_string_value(value);
    return *out ? KVS_OK : wrong_type(value, key, "text", source, err);
}

kvs_status kvsi_record_texts(const char ***out, size_t *count, const json_t *record,
                             const char *key, const kvsi_eval_source *source, kvs_err *err)
{
    json_t *list, *value;
    const char **texts;
    size_t i;

    *out = NULL;
    *count = 0;
    TRY(kvsi_field_value(&list, record, key, source, err));
    if (!json_is_array(list))
        return wrong_type(list, key, "an array of texts", source, err);
    if (json_array_size(list) == 0)
        return kvsi_record_refuse(err, source, "field '%s': expected choices, found an empty array",
                                  key);
    texts = kvsi_arena_alloc(source->memory, json_array_size(list), sizeof *texts);
    if (!texts)
        return kvsi_no_memory(err, "choices");
    json_array_foreach(list, i, value) {
        texts[i] = json_string_value(value);
        if (!texts[i])
            return kvsi_record_refuse(err, source,
                                      "field '%s': expected texts, found %s at place %zu", key,
                                      type_name(value), i + 1);
    }
    *out = texts;
    *count = json_array_size(list);
    return KVS_OK;
}

kvs_status kvsi_record_index(size_t *out, const json_t *record, const char *key, size_t count,
                             const kvsi_eval_source *source, kvs_err *err)
{
    json_t *value;
    json_int_t index = -1;

    TRY(kvsi_field_value(&value, record, key, source, err));
    if (json_is_integer(value)) {
        index = json_integer_value(value);
    } else if (json_is_string(value)) {
        const char *text = json_string_value(value);

        if (text[0] >= '0' && text[0] <= '9' && !text[1])
            index = text[0] - '0';
        else
            return kvsi_record_refuse(err, source, "field '%s': expected 0 to %zu, found '%.40s'",
                                      key, count - 1, text);
    } else {
        return wrong_type(value, key, "the index of a choice", source, err);
    }
    if (index < 0 || (size_t)index >= count)
        return kvsi_record_refuse(err, source, "field '%s': expected 0 to %zu, found %lld", key,
                                  count - 1, (long long)index);
    *out = (size_t)index;
    return KVS_OK;
}

kvs_status kvsi_record_letter(size_t *out, const json_t *record, const char *key,
                              const kvsi_eval_source *source, kvs_err *err)
{
    const char *text;

    TRY(kvsi_record_text(&text, record, key, source, err));
    if (text[0] < 'A' || text[0] > 'D' || text[1])
        return kvsi_record_refuse(
            err, source, "field '%s': expected a letter from A to D, found '%.40s'", key, text);
    *out = (size_t)(text[0] - 'A');
    return KVS_OK;
}

json_t *kvsi_record_pick(const json_t *record, const char *const *keys)
{
    json_t *object = json_object();

    for (size_t i = 0; keys[i]; i++)
        if (json_object_get(record, keys[i]))
            json_object_set(object, keys[i], json_object_get(record, keys[i]));
    return object;
}

/* ---- items ----------------------------------------------------------------------------------- */

kvs_status kvsi_item_keep(const char **out, kvsi_text *text, const kvsi_eval_source *source,
                          kvs_err *err)
{
    TRY(kvsi_text_check(text, err));
    *out = kvsi_arena_copy(source->memory, text->data ? text->data : "", text->length);
    text->length = 0;
    return *out ? KVS_OK : kvsi_no_memory(err, "a text of '%s'", source->file);
}

kvs_status kvsi_item_start(kvsi_eval_item *item, json_t *json, kvsi_text *text,
                           const kvsi_eval_source *source, kvs_err *err)
{
    item->json = json;
    item->file = source->file;
    item->line = source->line;
    TRY(kvsi_json_check_made(json, "a document", err));
    item->texts = kvsi_arena_alloc(source->memory, 1, sizeof *item->texts);
    if (!item->texts)
        return kvsi_no_memory(err, "a document of '%s'", source->file);
    item->text_count = 1;
    return kvsi_item_keep(&item->texts[0], text, source, err);
}

kvs_status kvsi_item_choices(kvsi_eval_item *item, const char **choices, size_t count, size_t gold,
                             const kvsi_eval_source *source, kvs_err *err)
{
    char index[24];

    /* acc_norm divides by the length. */
    for (size_t i = 0; i < count; i++)
        if (!*choices[i])
            return kvsi_record_refuse(err, source, "choice %zu of %zu is empty", i + 1, count);
    snprintf(index, sizeof index, "%zu", gold);
    item->choices = choices;
    item->choice_count = count;
    item->gold = gold;
    item->answer = choices[gold];
    item->target = kvsi_arena_copy(source->memory, index, strlen(index));
    return item->target ? KVS_OK : kvsi_no_memory(err, "a document of '%s'", source->file);
}
