/* Settings as JSON: one object of keys, or of sections with keys.
 *
 * jansson parses every key and value.  It does not report their lines, so this file scans the text
 * between them and counts lines. */
#include "base/json.h"
#include "base/memory.h"
#include "cli/options/config_file.h"

#include <string.h>

/* Skips blanks and counts lines. */
static void skip_space(kvsi_config_reader *r)
{
    for (; r->at < r->end && strchr(" \t\r\n", *r->at); r->at++)
        r->line += *r->at == '\n';
}

/* Parses the key or value at r->at and moves r->at behind it; *out is a new reference. */
static kvs_status read_value(kvsi_config_reader *r, json_t **out, kvs_err *err)
{
    json_error_t error = {0};

    *out = kvsi_json_load(r->at, (size_t)(r->end - r->at), JSON_DECODE_ANY | JSON_DISABLE_EOF_CHECK,
                          &error);
    if (!*out || kvsi_nomem_is_set())
        return kvsi_fail(err, KVS_E_NOMEM, "%s:%zu: out of memory", r->path, r->line);
    for (const char *end = r->at + error.position; r->at < end; r->at++)
        r->line += *r->at == '\n';
    return KVS_OK;
}

static int all_numbers(const json_t *array)
{
    for (size_t i = 0; i < json_array_size(array); i++)
        if (!json_is_number(json_array_get(array, i)))
            return 0;
    return 1;
}

/* Copies the numbers of an array as they are written: from[0 .. length-1] without brackets and
 * blanks. */
static void copy_numbers(kvsi_text *out, const char *from, size_t length)
{
    kvsi_text_add(out, "");
    for (size_t i = 0; i < length; i++)
        if (!strchr("[] \t\r\n", from[i]))
            kvsi_text_add_bytes(out, from + i, 1);
}

static kvs_status take_value(kvsi_config_reader *r, kvsi_config_entry *setting, kvs_err *err)
{
    const char *const start = r->at;
    json_t *value = NULL;
    kvsi_text words = {0};
    kvs_status st;

    TRY_OUT(read_value(r, &value, err));
    copy_numbers(&words, start, (size_t)(r->at - start));
    TRY_OUT(kvsi_text_check(&words, err));
    setting->value = words.data;
    if (json_is_string(value)) {
        setting->kind = KVSI_CONFIG_TEXT;
        setting->value = json_string_value(value);
    } else if (json_is_number(value)) {
        setting->kind = json_is_integer(value) ? KVSI_CONFIG_WHOLE : KVSI_CONFIG_REAL;
    } else if (json_is_boolean(value)) {
        setting->kind = KVSI_CONFIG_BOOLEAN;
    } else if (json_is_array(value) && all_numbers(value)) {
        setting->kind = KVSI_CONFIG_NUMBERS;
    } else {
        st = kvsi_fail(err, KVS_E_INVALID,
                       "%s:%zu: key '%s': expected text, a number, true, false or an array of "
                       "numbers, found %s",
                       r->path, setting->line, setting->key,
                       json_is_null(value)     ? "null"
                       : json_is_object(value) ? "an object"
                                               : "another array");
        goto out;
    }
    st = r->take(r->user, setting, err);
out:
    kvsi_text_release(&words);
    json_decref(value);
    return st;
}

static kvs_status take_object(kvsi_config_reader *r, const char *section, kvs_err *err);

/* Reads a key and its value, which may be a section. */
static kvs_status take_member(kvsi_config_reader *r, const char *section, kvs_err *err)
{
    kvsi_config_entry setting = {.path = r->path, .section = section, .line = r->line};
    json_t *key = NULL;
    kvs_status st;

    TRY_OUT(read_value(r, &key, err));
    skip_space(r);
    r->at++; /* the colon */
    skip_space(r);
    if (*r->at == '{' && !section) {
        setting.section = json_string_value(key);
        TRY_OUT(r->take(r->user, &setting, err));
        TRY_OUT(take_object(r, setting.section, err));
    } else {
        setting.key = json_string_value(key);
        TRY_OUT(take_value(r, &setting, err));
    }
out:
    json_decref(key);
    return st;
}

static kvs_status take_object(kvsi_config_reader *r, const char *section, kvs_err *err)
{
    do {
        kvs_status st;

        r->at++; /* the brace, or a comma */
        skip_space(r);
        if (*r->at == '}')
            break; /* an empty object */
        st = take_member(r, section, err);
        if (st != KVS_OK)
            return st;
        skip_space(r);
    } while (*r->at == ',');
    r->at++;
    return KVS_OK;
}

kvs_status kvsi_config_read_json(kvsi_config_reader *r, kvs_err *err)
{
    json_t *whole = NULL;
    const kvs_status st = kvsi_json_parse(&whole, r->at, (size_t)(r->end - r->at), r->path, err);

    json_decref(whole);
    if (st != KVS_OK)
        return st;
    skip_space(r);
    return take_object(r, NULL, err);
}
