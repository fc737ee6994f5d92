#include "base/json.h"

#include "base/files.h"
#include "base/memory.h"
#include "base/text.h"

#include <inttypes.h>
#include <math.h>
#include <string.h>

static const char *found(const json_t *value)
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
        return "true";
    case JSON_FALSE:
        return "false";
    case JSON_NULL:
        return "null";
    }
    return "something unknown";
}

static kvs_status wrong_type(const json_t *value, const char *key, const char *what,
                             const char *expected, kvs_err *err)
{
    return kvsi_fail(err, KVS_E_FORMAT, "'%s': key '%s': expected %s, found %s", what, key,
                     expected, found(value));
}

/* ---- whole files ----------------------------------------------------------------------------- */

/* The value itself, or a whole number for a fraction that is one: a new reference. */
static json_t *whole_again(json_t *value)
{
    const double most = 9007199254740992.0; /* 2^53: beyond, doubles skip whole numbers */
    const double number = json_real_value(value);

    if (json_is_real(value) && floor(number) == number && fabs(number) < most)
        return json_integer((json_int_t)number);
    return json_incref(value);
}

/* 0: out of memory. */
static int restore_whole_numbers(json_t *value)
{
    json_t *member;
    const char *key;
    void *next;
    size_t i;

    json_object_foreach_safe(value, next, key, member)
    {
        if (!restore_whole_numbers(member) ||
            json_object_set_new(value, key, whole_again(member)) != 0)
            return 0;
    }
    json_array_foreach(value, i, member) {
        if (!restore_whole_numbers(member) ||
            json_array_set_new(value, i, whole_again(member)) != 0)
            return 0;
    }
    return 1;
}

typedef json_t *loader(const char *text, size_t size, json_error_t *error);

static json_t *load(const char *text, size_t size, json_error_t *error)
{
    return json_loadb(text, size, JSON_REJECT_DUPLICATES, error);
}

static json_t *load_wide(const char *text, size_t size, json_error_t *error)
{
    json_t *value = load(text, size, error);

    if (value || json_error_code(error) != json_error_numeric_overflow)
        return value;
    value = json_loadb(text, size, JSON_REJECT_DUPLICATES | JSON_DECODE_INT_AS_REAL, error);
    if (value && !restore_whole_numbers(value)) {
        json_decref(value);
        value = NULL;
        error->text[JSON_ERROR_TEXT_LENGTH - 1] = (char)json_error_out_of_memory;
    }
    return value;
}

static kvs_status parse(json_t **out, json_type type, loader *load_text, const char *text,
                        size_t size, const char *what, kvs_err *err)
{
    json_error_t error;
    json_t *value;
    kvs_status st;

    *out = NULL;
    value = load_text(text, size, &error);
    if (!value && json_error_code(&error) == json_error_out_of_memory)
        return kvsi_fail(err, KVS_E_NOMEM, "'%s': out of memory while reading JSON", what);
    if (!value)
        return kvsi_fail(err, KVS_E_FORMAT, "'%s': malformed JSON at line %d, column %d: %s", what,
                         error.line, error.column, error.text);
    if (json_typeof(value) != type) {
        st = kvsi_fail(err, KVS_E_FORMAT, "'%s': expected a JSON %s, found %s", what,
                       type == JSON_OBJECT ? "object" : "array", found(value));
        json_decref(value);
        return st;
    }
    *out = value;
    return KVS_OK;
}

static kvs_status read_as(json_t **out, json_type type, loader *load_text, const char *path,
                          size_t limit, kvs_err *err)
{
    char *text = NULL;
    size_t size = 0;
    kvs_status st;

    *out = NULL;
    KVS_TRY(kvsi_file_read(&text, &size, path, limit, err));
    KVS_TRY(parse(out, type, load_text, text, size, path, err));
out:
    kvsi_free(text);
    return st;
}

kvs_status kvsi_json_parse(json_t **out, const char *text, size_t size, const char *what,
                           kvs_err *err)
{
    return parse(out, JSON_OBJECT, load, text, size, what, err);
}

kvs_status kvsi_json_read(json_t **out, const char *path, size_t limit, kvs_err *err)
{
    return read_as(out, JSON_OBJECT, load, path, limit, err);
}

kvs_status kvsi_json_read_wide(json_t **out, const char *path, size_t limit, kvs_err *err)
{
    return read_as(out, JSON_OBJECT, load_wide, path, limit, err);
}

kvs_status kvsi_json_read_list(json_t **out, const char *path, size_t limit, kvs_err *err)
{
    return read_as(out, JSON_ARRAY, load, path, limit, err);
}

/* Where jansson's output goes, and what happened there. */
typedef struct json_sink {
    kvsi_new_file *file;
    kvs_err *err;
    kvs_status status;
} json_sink;

static int write_piece(const char *data, size_t size, void *user)
{
    json_sink *sink = user;

    sink->status = kvsi_new_file_write(sink->file, data, size, sink->err);
    return sink->status == KVS_OK ? 0 : -1;
}

/* Fifteen digits bring back every number a person wrote as it was written: 1e-6, not
 * 9.9999999999999995e-7. */
kvs_status kvsi_json_write(const json_t *value, const char *path, kvs_err *err)
{
    const size_t format = JSON_INDENT(2) | JSON_ENCODE_ANY | JSON_REAL_PRECISION(15);
    json_sink sink = {.err = err};
    kvs_status st;

    KVS_TRY(kvsi_new_file_open(&sink.file, path, err));
    if (json_dump_callback(value, write_piece, &sink, format) != 0) {
        st = sink.status != KVS_OK ? sink.status
                                   : kvsi_fail(err, KVS_E_INVALID, "'%s': not valid as JSON", path);
        goto out;
    }
    KVS_TRY(kvsi_new_file_write(sink.file, "\n", 1, err));
    st = kvsi_new_file_commit(sink.file, err);
    sink.file = NULL;
out:
    kvsi_new_file_abandon(sink.file);
    return st;
}

/* ---- members --------------------------------------------------------------------------------- */

kvs_status kvsi_json_require(const json_t *object, const char *key, const char *what, kvs_err *err)
{
    if (!json_object_get(object, key))
        return kvsi_fail(err, KVS_E_FORMAT, "'%s': key '%s' is missing", what, key);
    return KVS_OK;
}

kvs_status kvsi_json_get_size(size_t *out, const json_t *object, const char *key, const char *what,
                              kvs_err *err)
{
    const json_t *value = json_object_get(object, key);
    json_int_t number;

    if (!value)
        return KVS_OK;
    if (!json_is_integer(value))
        return wrong_type(value, key, what, "a whole number", err);
    number = json_integer_value(value);
    if (number < 0 || (uintmax_t)number > SIZE_MAX)
        return kvsi_fail(err, KVS_E_FORMAT,
                         "'%s': key '%s': expected a whole number of at least 0, found %" PRIdMAX,
                         what, key, (intmax_t)number);
    *out = (size_t)number;
    return KVS_OK;
}

kvs_status kvsi_json_get_real(double *out, const json_t *object, const char *key, const char *what,
                              kvs_err *err)
{
    const json_t *value = json_object_get(object, key);

    if (!value)
        return KVS_OK;
    if (!json_is_number(value))
        return wrong_type(value, key, what, "a number", err);
    *out = json_number_value(value);
    return KVS_OK;
}

kvs_status kvsi_json_get_bool(int *out, const json_t *object, const char *key, const char *what,
                              kvs_err *err)
{
    const json_t *value = json_object_get(object, key);

    if (!value)
        return KVS_OK;
    if (!json_is_boolean(value))
        return wrong_type(value, key, what, "true or false", err);
    *out = json_is_true(value);
    return KVS_OK;
}

kvs_status kvsi_json_get_text(const char **out, const json_t *object, const char *key,
                              const char *what, kvs_err *err)
{
    const json_t *value = json_object_get(object, key);

    if (!value)
        return KVS_OK;
    if (!json_is_string(value))
        return wrong_type(value, key, what, "text", err);
    *out = json_string_value(value);
    return KVS_OK;
}

/* ---- values ---------------------------------------------------------------------------------- */

json_t *kvsi_json_number(double value)
{
    return isfinite(value) ? json_real(value) : json_null();
}

json_t *kvsi_json_numbers(const double *numbers, size_t count)
{
    json_t *array = json_array();

    for (size_t i = 0; i < count; i++)
        if (json_array_append_new(array, kvsi_json_number(numbers[i])) != 0) {
            json_decref(array);
            return NULL;
        }
    return array;
}

json_t *kvsi_json_ids(const int32_t *ids, size_t count)
{
    json_t *array = json_array();

    for (size_t i = 0; i < count; i++)
        if (json_array_append_new(array, json_integer(ids[i])) != 0) {
            json_decref(array);
            return NULL;
        }
    return array;
}

/* Bytes of the character at the start, as jansson sees it; 0 = there is none. */
static size_t character(const char *text, size_t size)
{
    for (size_t length = 1; length <= 4 && length <= size; length++) {
        json_t *string = json_stringn(text, length);

        json_decref(string);
        if (string)
            return length;
    }
    return 0;
}

json_t *kvsi_json_text(const char *text, size_t size)
{
    json_t *string = json_stringn(text, size);
    kvsi_text mended = {0};

    if (string)
        return string;
    for (size_t at = 0, length; at < size; at += length ? length : 1) {
        length = character(text + at, size - at);
        kvsi_text_add_bytes(&mended, length ? text + at : "\xef\xbf\xbd", length ? length : 3);
    }
    string = mended.failed ? NULL : json_stringn(mended.data, mended.length);
    kvsi_text_release(&mended);
    return string;
}
