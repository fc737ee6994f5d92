#include "base/json.h"

#include "base/files.h"
#include "base/memory.h"
#include "base/text.h"
#include "base/utf8.h"

#include <inttypes.h>
#include <math.h>
#include <setjmp.h>
#include <stdlib.h>
#include <string.h>

/* ---- memory ---------------------------------------------------------------------------------- */

static _Thread_local jmp_buf
    *escape; /* target of longjmp when memory runs out; NULL = return NULL */

static void *take(size_t size)
{
    void *memory = malloc(size);

    if (memory || size == 0)
        return memory;
    kvsi_nomem_set();
    if (escape)
        longjmp(*escape, 1);
    return NULL;
}

/* jansson has one allocator for the whole process.  take() is malloc() that records a failure, and
 * free() is unchanged, so that values made before and after this call can be freed by the
 * application and by us.  If the application has set its own functions, they stay, and failures are
 * known only from the results of calls.  It runs before main() because jansson's functions must be
 * set before the first value is made. */
__attribute__((constructor)) static void install_allocator(void)
{
    json_malloc_t now_malloc;
    json_free_t now_free;

    json_get_alloc_funcs(&now_malloc, &now_free);
    if (now_malloc == malloc && now_free == free)
        json_set_alloc_funcs(take, free);
}

kvs_status kvsi_json_check(const char *what, kvs_err *err)
{
    if (!kvsi_nomem_is_set())
        return KVS_OK;
    kvsi_no_memory(err, "%s", what);
    kvsi_nomem_clear(); /* reported once, also to callers without `err` */
    return KVS_E_NOMEM;
}

kvs_status kvsi_json_check_made(const json_t *value, const char *what, kvs_err *err)
{
    return value ? kvsi_json_check(what, err) : kvsi_no_memory(err, "%s", what);
}

/* When memory runs out, values that jansson is building leak: only jansson has the pointers. */
json_t *kvsi_json_load(const char *text, size_t size, size_t flags, json_error_t *error)
{
    json_t *volatile value = NULL;
    jmp_buf here;

    if (setjmp(here) == 0) {
        escape = &here;
        value = json_loadb(text, size, flags, error);
    }
    escape = NULL;
    return value;
}

/* ---------------------------------------------------------------------------------------------- */

const char *kvsi_json_found(const json_t *value)
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
                     expected, kvsi_json_found(value));
}

/* ---- whole files ----------------------------------------------------------------------------- */

/* A real number without a fraction as an integer, any other value unchanged.  A new reference. */
static json_t *whole_again(json_t *value)
{
    const double most = 9007199254740992.0; /* 2^53: larger doubles skip integers */
    const double number = json_real_value(value);

    if (json_is_real(value) && floor(number) == number && fabs(number) < most)
        return json_integer((json_int_t)number);
    return json_incref(value);
}

static void restore_whole_numbers(json_t *value)
{
    json_t *member;
    const char *key;
    void *next;
    size_t i;

    json_object_foreach_safe(value, next, key, member)
    {
        restore_whole_numbers(member);
        json_object_set_new(value, key, whole_again(member));
    }
    json_array_foreach(value, i, member) {
        restore_whole_numbers(member);
        json_array_set_new(value, i, whole_again(member));
    }
}

typedef json_t *loader(const char *text, size_t size, json_error_t *error);

static json_t *load(const char *text, size_t size, json_error_t *error)
{
    return kvsi_json_load(text, size, JSON_REJECT_DUPLICATES, error);
}

static json_t *load_wide(const char *text, size_t size, json_error_t *error)
{
    json_t *value = load(text, size, error);

    if (value || json_error_code(error) != json_error_numeric_overflow)
        return value;
    value = kvsi_json_load(text, size, JSON_REJECT_DUPLICATES | JSON_DECODE_INT_AS_REAL, error);
    if (value)
        restore_whole_numbers(value); /* parse() checks whether memory ran out */
    return value;
}

static kvs_status parse(json_t **out, json_type type, loader *load_text, const char *text,
                        size_t size, const char *what, kvs_err *err)
{
    const int before = kvsi_nomem_is_set();
    json_error_t error = {0};
    json_t *value;
    kvs_status st;

    *out = NULL;
    kvsi_nomem_clear(); /* only a failure in this parse matters */
    value = load_text(text, size, &error);
    if (kvsi_nomem_is_set() || (!value && json_error_code(&error) == json_error_out_of_memory)) {
        json_decref(value);
        return kvsi_no_memory(err, "the JSON of '%s'", what);
    }
    if (before)
        kvsi_nomem_set();
    if (!value)
        return kvsi_fail(err, KVS_E_FORMAT, "'%s': malformed JSON at line %d, column %d: %s", what,
                         error.line, error.column, error.text);
    if (json_typeof(value) != type) {
        st = kvsi_fail(err, KVS_E_FORMAT, "'%s': expected a JSON %s, found %s", what,
                       type == JSON_OBJECT ? "object" : "array", kvsi_json_found(value));
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
    TRY_OUT(kvsi_file_read(&text, &size, path, limit, err));
    TRY_OUT(parse(out, type, load_text, text, size, path, err));
out:
    kvsi_free(text);
    return st;
}

kvs_status kvsi_json_parse(json_t **out, const char *text, size_t size, const char *what,
                           kvs_err *err)
{
    return parse(out, JSON_OBJECT, load, text, size, what, err);
}

kvs_status kvsi_json_parse_list(json_t **out, const char *text, size_t size, const char *what,
                                kvs_err *err)
{
    return parse(out, JSON_ARRAY, load, text, size, what, err);
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

/* The target of jansson's output, and its status. */
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

/* Fifteen digits reproduce decimal input: 1e-6, not 9.9999999999999995e-7. */
kvs_status kvsi_json_write(const json_t *value, const char *path, kvs_err *err)
{
    const size_t format = JSON_INDENT(2) | JSON_ENCODE_ANY | JSON_REAL_PRECISION(15);
    json_sink sink = {.err = err};
    char what[512];
    kvs_status st;
    int failed;

    snprintf(what, sizeof what, "'%s'", path);
    TRY_OUT(kvsi_json_check_made(value, what, err));
    TRY_OUT(kvsi_new_file_open(&sink.file, path, err));
    failed = json_dump_callback(value, write_piece, &sink, format) != 0;
    TRY_OUT(sink.status);
    TRY_OUT(kvsi_json_check(what, err));
    if (failed) {
        st = kvsi_fail(err, KVS_E_INVALID, "'%s': not valid as JSON", path);
        goto out;
    }
    TRY_OUT(kvsi_new_file_write(sink.file, "\n", 1, err));
    st = kvsi_new_file_commit(sink.file, err);
    sink.file = NULL;
out:
    kvsi_new_file_abandon(sink.file);
    return st;
}

kvs_status kvsi_json_dump(char **out, const json_t *value, size_t format, const char *what,
                          kvs_err *err)
{
    kvs_status st = kvsi_json_check_made(value, what, err);

    *out = NULL;
    if (st != KVS_OK)
        return st;
    *out = json_dumps(value, format);
    st = kvsi_json_check(what, err);
    if (st == KVS_OK && !*out)
        st = kvsi_fail(err, KVS_E_INVALID, "%s: not valid as JSON", what);
    if (st != KVS_OK) {
        free(*out);
        *out = NULL;
    }
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

kvs_status kvsi_json_get_number(double *out, const json_t *object, const char *key,
                                const char *what, kvs_err *err)
{
    *out = NAN;
    if (json_is_null(json_object_get(object, key)))
        return KVS_OK;
    return kvsi_json_get_real(out, object, key, what, err);
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

json_t *kvsi_json_text(const char *text, size_t size)
{
    json_t *string = json_stringn(text, size);
    kvsi_text valid = {0};

    if (string)
        return string;
    for (size_t at = 0, length; at < size; at += length) {
        uint32_t code;

        length = kvsi_utf8_next(text + at, size - at, &code);
        if (code == KVSI_NO_CHARACTER)
            kvsi_text_add(&valid, "\xef\xbf\xbd"); /* U+FFFD */
        else
            kvsi_text_add_bytes(&valid, text + at, length);
    }
    string = valid.failed ? NULL : json_stringn(valid.data, valid.length);
    kvsi_text_release(&valid);
    return string;
}

json_t *kvsi_json_path(const char *path)
{
    return path ? kvsi_json_text(path, strlen(path)) : json_null();
}
