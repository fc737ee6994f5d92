#include "base/setting.h"

#include <ctype.h>
#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void *field(const kvsi_setting *row, void *config)
{
    return (char *)config + row->offset;
}

static const void *const_field(const kvsi_setting *row, const void *config)
{
    return (const char *)config + row->offset;
}

const kvsi_setting *kvsi_settings_find(const kvsi_settings *table, const char *name)
{
    for (size_t i = 0; i < table->count; i++)
        if (strcmp(table->rows[i].name, name) == 0)
            return table->rows + i;
    return NULL;
}

void kvsi_settings_init(const kvsi_settings *table, void *config, size_t size)
{
    memset(config, 0, size);
    kvsi_settings_set(table, config);
}

void kvsi_settings_set(const kvsi_settings *table, void *config)
{
    for (size_t i = 0; i < table->count; i++) {
        const kvsi_setting *row = table->rows + i;

        if (row->kind == KVSI_SETTING_OPTIONAL)
            *(size_t *)field(row, config) = SIZE_MAX;
        if (row->value) /* a test checks that all defaults are valid */
            kvsi_setting_store(row, config, row->name, row->value, NULL);
    }
}

/* ---- configurations that are set and read by name -------------------------------------------- */

/* The value of one setting, of any kind. */
typedef union any_value {
    int flag;
    size_t size;
    uint64_t whole;
    double real;
    const char *text;
    char string[KVSI_STRING_SIZE];
    kvsi_number_list numbers;
    kvsi_text_list texts;
} any_value;

static void *named_config(const kvsi_setting *row, const void *config)
{
    void *named;

    memcpy(&named, const_field(row, config), sizeof named);
    return named;
}

/* Reads the value as text: "" if the configuration has no setting of that name. */
static void get_named(char out[KVSI_SETTING_VALUE], const kvsi_setting *row, const void *config)
{
    const void *named = named_config(row, config);

    if (row->access->get(out, KVSI_SETTING_VALUE, named, row->name, NULL) != KVS_OK)
        out[0] = '\0';
}

static kvs_status set_named(const kvsi_setting *row, void *config, const char *text, kvs_err *err)
{
    return row->access->set(named_config(row, config), row->name, text, err);
}

/* Returns the row of the same setting for a struct that is only its value, an any_value. */
static kvsi_setting value_row(const kvsi_setting *row)
{
    kvsi_setting own = *row;

    own.access = NULL;
    own.offset = 0;
    return own;
}

/* Clears a value: an optional count is not set, a number is 0, a text or a list is empty. */
static void clear_value(any_value *out, const kvsi_setting *row)
{
    memset(out, 0, sizeof *out);
    if (row->kind == KVSI_SETTING_OPTIONAL)
        out->size = SIZE_MAX;
}

typedef struct loaded_value {
    any_value value;
    char text[KVSI_SETTING_VALUE]; /* the value may point into it */
} loaded_value;

/* Reads the value into *out and returns the row of out->value.  The row has no limits: they apply
 * to values that are being set, and a configuration may hold others, like the vocabulary 0. */
static kvsi_setting load_named(loaded_value *out, const kvsi_setting *row, const void *config)
{
    kvsi_setting own = value_row(row);

    own.low = own.high = 0;
    own.open_low = 0;
    clear_value(&out->value, row);
    get_named(out->text, row, config);
    if (*out->text)
        kvsi_setting_store(&own, &out->value, row->name, out->text, NULL);
    return own;
}

/* ---- choices --------------------------------------------------------------------------------- */

const char *kvsi_setting_choice(const kvsi_setting *row, size_t i)
{
    size_t count = 0;

    if (row->choices)
        return row->choices[i]; /* callers stop at NULL */
    if (row->choice_at)
        return row->choice_at(i);
    while (row->names && row->names[count].name)
        count++;
    if (i < count)
        return row->names[i].name;
    return row->aliases ? row->aliases[i - count].name : NULL;
}

const kvsi_alias *kvsi_setting_alias(const kvsi_setting *row, const char *name)
{
    for (const kvsi_alias *a = row->aliases; a && a->name; a++)
        if (strcmp(a->name, name) == 0)
            return a;
    return NULL;
}

void kvsi_setting_add_choices(kvsi_text *text, const kvsi_setting *row)
{
    const char *choice;

    for (size_t i = 0; (choice = kvsi_setting_choice(row, i)); i++)
        kvsi_text_format(text, "%s%s",
                         i == 0                            ? ""
                         : kvsi_setting_choice(row, i + 1) ? ", "
                                                           : " or ",
                         choice);
}

/* ---- limits ---------------------------------------------------------------------------------- */

static int is_whole(const kvsi_setting *row)
{
    return row->kind != KVSI_SETTING_REAL && row->kind != KVSI_SETTING_REALS;
}

static int is_in_range(const kvsi_setting *row, double number)
{
    const int above = row->open_low ? number > row->low : number >= row->low;
    const int below = row->high <= 0 || (row->open_high ? number < row->high : number <= row->high);

    return above && below;
}

/* "1 to 3", "0 to below 1", "above 1 to 10", "at least 0" */
static void add_limits(kvsi_text *text, const kvsi_setting *row)
{
    kvsi_text_format(text, "%s%.15g",
                     row->open_low    ? "above "
                     : row->high <= 0 ? "at least "
                                      : "",
                     row->low);
    if (row->high > 0)
        kvsi_text_format(text, " to %s%.15g", row->open_high ? "below " : "", row->high);
}

/* "a whole number from 1 to 3", "a number of at least 0", "none, k or kv" */
static void add_expected(kvsi_text *text, const kvsi_setting *row)
{
    if (kvsi_setting_choice(row, 0)) {
        kvsi_setting_add_choices(text, row);
        return;
    }
    kvsi_text_format(text, "%s%s", is_whole(row) ? "a whole number" : "a number",
                     row->open_low    ? " "
                     : row->high <= 0 ? " of "
                                      : " from ");
    add_limits(text, row);
}

static kvs_status fail_value(const kvsi_setting *row, const char *origin, const char *text,
                             kvs_err *err)
{
    kvsi_text expected = {0};
    kvs_status st;

    add_expected(&expected, row);
    TRY_OUT(kvsi_text_check(&expected, err));
    st = kvsi_fail(err, KVS_E_INVALID, "%s: expected %s, found '%s'", origin, expected.data, text);
out:
    kvsi_text_release(&expected);
    return st;
}

/* ---- from text ------------------------------------------------------------------------------- */

static kvs_status read_whole(uint64_t *out, const kvsi_setting *row, const char *origin,
                             const char *text, kvs_err *err)
{
    const int digits = *text && text[strspn(text, "0123456789")] == '\0';
    unsigned long long number = 0;

    errno = 0;
    if (digits)
        number = strtoull(text, NULL, 10);
    if (!digits || errno == ERANGE || number > UINT64_MAX || !is_in_range(row, (double)number) ||
        (row->kind == KVSI_SETTING_SIZE && number > SIZE_MAX))
        return fail_value(row, origin, text, err);
    *out = (uint64_t)number;
    return KVS_OK;
}

static kvs_status read_real(double *out, const kvsi_setting *row, const char *origin,
                            const char *text, kvs_err *err)
{
    char *end = NULL;
    const double number = strtod(text, &end);

    if (!*text || isspace((unsigned char)*text) || *end || !isfinite(number) ||
        !is_in_range(row, number))
        return fail_value(row, origin, text, err);
    *out = number;
    return KVS_OK;
}

/* Adds one number of a list: text[0 .. length-1]. */
static kvs_status add_number(kvsi_number_list *list, const kvsi_setting *row, const char *origin,
                             const char *text, size_t length, kvs_err *err)
{
    char word[64];
    uint64_t whole = 0;

    if (list->count == KVSI_LIST_MAX)
        return kvsi_fail(err, KVS_E_INVALID, "%s: expected at most %d numbers, found more", origin,
                         (int)KVSI_LIST_MAX);
    snprintf(word, sizeof word, "%.*s", (int)length, text);
    if (length >= sizeof word)
        return fail_value(row, origin, word, err);
    if (!is_whole(row)) {
        TRY(read_real(&list->numbers[list->count], row, origin, word, err));
    } else {
        TRY(read_whole(&whole, row, origin, word, err));
        if (whole > (uint64_t)1 << 53) /* the largest range of whole numbers in a double */
            return kvsi_fail(err, KVS_E_INVALID, "%s: expected at most 2^53, found %s", origin,
                             word);
        list->numbers[list->count] = (double)whole;
    }
    list->count++;
    return KVS_OK;
}

static void set_list(const kvsi_setting *row, void *config, const kvsi_number_list *list)
{
    if (row->kind == KVSI_SETTING_OPTIONAL) {
        *(size_t *)field(row, config) = list->count ? (size_t)list->numbers[0] : SIZE_MAX;
        return;
    }
    if (row->kind != KVSI_SETTING_BITS) {
        memcpy(field(row, config), list, sizeof *list);
        return;
    }
    *(uint64_t *)field(row, config) = 0;
    for (size_t i = 0; i < list->count; i++)
        *(uint64_t *)field(row, config) |= (uint64_t)1 << (unsigned)list->numbers[i];
}

static void get_list(kvsi_number_list *list, const kvsi_setting *row, const void *config)
{
    if (row->kind == KVSI_SETTING_OPTIONAL) {
        const size_t value = *(const size_t *)const_field(row, config);

        list->count = value != SIZE_MAX;
        list->numbers[0] = (double)value;
        return;
    }
    if (row->kind != KVSI_SETTING_BITS) {
        memcpy(list, const_field(row, config), sizeof *list);
        return;
    }
    list->count = 0;
    for (unsigned bit = 0; bit < 64; bit++)
        if (*(const uint64_t *)const_field(row, config) >> bit & 1)
            list->numbers[list->count++] = bit;
}

int kvsi_setting_is_list(const kvsi_setting *row)
{
    return row->kind == KVSI_SETTING_SIZES || row->kind == KVSI_SETTING_REALS ||
           row->kind == KVSI_SETTING_BITS || row->kind == KVSI_SETTING_OPTIONAL;
}

void kvsi_setting_clear(const kvsi_setting *row, void *config)
{
    if (row->access) {
        set_named(row, config, "", NULL);
        return;
    }
    set_list(row, config, &(kvsi_number_list){0});
}

static kvs_status store_list(const kvsi_setting *row, void *config, const char *origin,
                             const char *text, kvs_err *err)
{
    kvsi_number_list list = {0};

    for (;;) {
        const size_t length = strcspn(text, ",");

        TRY(add_number(&list, row, origin, text, length, err));
        if (!text[length])
            break;
        text += length + 1;
    }
    if (row->kind == KVSI_SETTING_OPTIONAL && list.count > 1)
        return kvsi_fail(err, KVS_E_INVALID, "%s: expected one number, found %zu", origin,
                         list.count);
    set_list(row, config, &list);
    return KVS_OK;
}

static kvs_status store_choice(const kvsi_setting *row, void *config, const char *origin,
                               const char *text, kvs_err *err)
{
    const char *choice;

    for (size_t i = 0; (choice = kvsi_setting_choice(row, i)); i++)
        if (strcmp(choice, text) == 0) {
            *(const char **)field(row, config) = choice;
            return KVS_OK;
        }
    return fail_value(row, origin, text, err);
}

static kvs_status store_enum(const kvsi_setting *row, void *config, const char *origin,
                             const char *text, kvs_err *err)
{
    const kvsi_alias *alias = kvsi_setting_alias(row, text);

    for (const kvsi_name *n = row->names; n->name; n++)
        if (strcmp(n->name, text) == 0) {
            *(int *)field(row, config) = n->value;
            return KVS_OK;
        }
    if (!alias)
        return fail_value(row, origin, text, err);
    *(int *)field(row, config) = alias->value;
    return KVS_OK;
}

static kvs_status store_flag(const kvsi_setting *row, void *config, const char *origin,
                             const char *text, kvs_err *err)
{
    static const char *const words[] = {"0", "no", "false", "1", "yes", "true"};

    for (size_t i = 0; i < sizeof words / sizeof *words; i++)
        if (strcmp(text, words[i]) == 0) {
            *(int *)field(row, config) = i >= 3;
            return KVS_OK;
        }
    return kvsi_fail(err, KVS_E_INVALID, "%s: expected yes or no, found '%s'", origin, text);
}

/* The unused characters are 0, so that equal texts have equal bytes. */
static kvs_status store_string(const kvsi_setting *row, void *config, const char *origin,
                               const char *text, kvs_err *err)
{
    char *string = field(row, config);
    const size_t length = strlen(text);

    if (length >= KVSI_STRING_SIZE)
        return kvsi_fail(err, KVS_E_INVALID, "%s: expected at most %d characters, found %zu",
                         origin, KVSI_STRING_SIZE - 1, length);
    memset(string, 0, KVSI_STRING_SIZE);
    memcpy(string, text, length + 1);
    return KVS_OK;
}

static kvs_status store_text(const kvsi_setting *row, void *config, const char *origin,
                             const char *text, kvs_err *err)
{
    kvsi_text_list *list = field(row, config);

    if (!*text && !row->may_be_empty)
        return kvsi_fail(err, KVS_E_INVALID, "%s: expected a text, found nothing", origin);
    if (!row->repeats) {
        *(const char **)field(row, config) = text;
        return KVS_OK;
    }
    if (list->count == KVSI_LIST_MAX)
        return kvsi_fail(err, KVS_E_INVALID, "%s: expected at most %d texts, found more", origin,
                         (int)KVSI_LIST_MAX);
    list->texts[list->count++] = text;
    return KVS_OK;
}

kvs_status kvsi_setting_check_text(const kvsi_setting *row, const char *origin, const char *text,
                                   kvs_err *err)
{
    const kvsi_setting own = value_row(row);
    any_value value;

    clear_value(&value, row);
    return kvsi_setting_store(&own, &value, origin, text, err);
}

kvs_status kvsi_setting_store(const kvsi_setting *row, void *config, const char *origin,
                              const char *text, kvs_err *err)
{
    uint64_t number = 0;

    if (row->access) {
        /* This check is first because its messages start with the origin. */
        TRY(kvsi_setting_check_text(row, origin, text, err));
        return set_named(row, config, text, err);
    }
    switch (row->kind) {
    case KVSI_SETTING_FLAG:
        return store_flag(row, config, origin, text, err);
    case KVSI_SETTING_SIZE:
        TRY(read_whole(&number, row, origin, text, err));
        *(size_t *)field(row, config) = (size_t)number;
        return KVS_OK;
    case KVSI_SETTING_UINT64:
        return read_whole(field(row, config), row, origin, text, err);
    case KVSI_SETTING_REAL:
        return read_real(field(row, config), row, origin, text, err);
    case KVSI_SETTING_SIZES:
    case KVSI_SETTING_REALS:
    case KVSI_SETTING_BITS:
    case KVSI_SETTING_OPTIONAL:
        return store_list(row, config, origin, text, err);
    case KVSI_SETTING_CHOICE:
        return store_choice(row, config, origin, text, err);
    case KVSI_SETTING_ENUM:
        return store_enum(row, config, origin, text, err);
    case KVSI_SETTING_STRING:
        return store_string(row, config, origin, text, err);
    case KVSI_SETTING_TEXT:
        break;
    }
    return store_text(row, config, origin, text, err);
}

/* ---- to text --------------------------------------------------------------------------------- */

/* Writes the number with 15 digits, or with up to 17 if fewer do not give the same number when they
 * are read again.  Returns the length, which is less than 32. */
static size_t write_real(char *out, double number)
{
    int digits = 15, length;

    do
        length = snprintf(out, 32, "%.*g", digits, number);
    while (strtod(out, NULL) != number && digits++ < 17);
    return (size_t)length;
}

static void write_list(char *out, const kvsi_setting *row, const void *config)
{
    kvsi_number_list list;

    get_list(&list, row, config);
    *out = '\0';
    for (size_t i = 0; i < list.count; i++) {
        if (i > 0)
            *out++ = ',';
        out += write_real(out, list.numbers[i]);
    }
}

void kvsi_setting_write(char out[KVSI_SETTING_VALUE], const kvsi_setting *row, const void *config)
{
    const void *value = const_field(row, config);
    const char *words = NULL;

    if (row->access) {
        get_named(out, row, config);
        return;
    }
    switch (row->kind) {
    case KVSI_SETTING_FLAG:
        words = *(const int *)value ? "yes" : "no";
        break;
    case KVSI_SETTING_SIZE:
        snprintf(out, KVSI_SETTING_VALUE, "%zu", *(const size_t *)value);
        return;
    case KVSI_SETTING_UINT64:
        snprintf(out, KVSI_SETTING_VALUE, "%llu", (unsigned long long)*(const uint64_t *)value);
        return;
    case KVSI_SETTING_REAL:
        write_real(out, *(const double *)value);
        return;
    case KVSI_SETTING_SIZES:
    case KVSI_SETTING_REALS:
    case KVSI_SETTING_BITS:
    case KVSI_SETTING_OPTIONAL:
        write_list(out, row, config);
        return;
    case KVSI_SETTING_ENUM:
        words = kvsi_name_of(row->names, *(const int *)value);
        break;
    case KVSI_SETTING_CHOICE:
        words = *(const char *const *)value;
        break;
    case KVSI_SETTING_STRING:
        words = value;
        break;
    case KVSI_SETTING_TEXT:
        break;
    }
    snprintf(out, KVSI_SETTING_VALUE, "%s", words ? words : "");
}

static void print_texts(kvsi_text *text, const kvsi_text_list *list)
{
    kvsi_text_add(text, "");
    for (size_t i = 0; i < list->count; i++)
        kvsi_text_format(text, "%s%s", i ? " " : "", list->texts[i]);
}

void kvsi_setting_print(kvsi_text *text, const kvsi_setting *row, const void *config)
{
    const void *value = const_field(row, config);
    char written[KVSI_SETTING_VALUE];

    if (row->kind != KVSI_SETTING_TEXT) {
        kvsi_setting_write(written, row, config);
        kvsi_text_add(text, written);
    } else if (row->repeats) {
        print_texts(text, value);
    } else {
        const char *words = *(const char *const *)value;

        kvsi_text_add(text, words ? words : "");
    }
}

/* ---- copies, comparisons, checks ------------------------------------------------------------- */

static size_t value_size(const kvsi_setting *row)
{
    switch (row->kind) {
    case KVSI_SETTING_FLAG:
    case KVSI_SETTING_ENUM:
        return sizeof(int);
    case KVSI_SETTING_SIZE:
    case KVSI_SETTING_OPTIONAL:
        return sizeof(size_t);
    case KVSI_SETTING_UINT64:
    case KVSI_SETTING_BITS:
        return sizeof(uint64_t);
    case KVSI_SETTING_REAL:
        return sizeof(double);
    case KVSI_SETTING_SIZES:
    case KVSI_SETTING_REALS:
        return sizeof(kvsi_number_list);
    case KVSI_SETTING_STRING:
        return KVSI_STRING_SIZE;
    case KVSI_SETTING_TEXT:
    case KVSI_SETTING_CHOICE:
        break;
    }
    return row->repeats ? sizeof(kvsi_text_list) : sizeof(const char *);
}

void kvsi_setting_copy(const kvsi_setting *row, void *to, const void *from)
{
    char named[KVSI_SETTING_VALUE];

    if (row->access) {
        get_named(named, row, from);
        set_named(row, to, named, NULL);
        return;
    }
    memcpy(field(row, to), const_field(row, from), value_size(row));
}

static int same_text(const char *a, const char *b)
{
    return a && b ? strcmp(a, b) == 0 : a == b;
}

int kvsi_setting_equal(const kvsi_setting *row, const void *a, const void *b)
{
    const void *x = const_field(row, a), *y = const_field(row, b);
    char ours[KVSI_SETTING_VALUE], theirs[KVSI_SETTING_VALUE];

    if (row->access) {
        get_named(ours, row, a);
        get_named(theirs, row, b);
        return strcmp(ours, theirs) == 0;
    }
    if (row->kind == KVSI_SETTING_TEXT || row->kind == KVSI_SETTING_CHOICE) {
        if (!row->repeats)
            return same_text(*(const char *const *)x, *(const char *const *)y);
        for (size_t i = 0; i < ((const kvsi_text_list *)x)->count; i++)
            if (i >= ((const kvsi_text_list *)y)->count ||
                !same_text(((const kvsi_text_list *)x)->texts[i],
                           ((const kvsi_text_list *)y)->texts[i]))
                return 0;
        return ((const kvsi_text_list *)x)->count == ((const kvsi_text_list *)y)->count;
    }
    if (row->kind == KVSI_SETTING_SIZES || row->kind == KVSI_SETTING_REALS) {
        kvsi_number_list left, right;

        get_list(&left, row, a);
        get_list(&right, row, b);
        return left.count == right.count &&
               memcmp(left.numbers, right.numbers, left.count * sizeof *left.numbers) == 0;
    }
    return memcmp(x, y, value_size(row)) == 0;
}

int kvsi_setting_is_default(const kvsi_setting *row, const void *config)
{
    kvsi_setting own = value_row(row);
    any_value usual;
    loaded_value loaded;

    clear_value(&usual, row);
    if (row->value && *row->value)
        kvsi_setting_store(&own, &usual, row->name, row->value, NULL);
    if (!row->access)
        return kvsi_setting_equal(&own, const_field(row, config), &usual);
    own = load_named(&loaded, row, config);
    return kvsi_setting_equal(&own, &loaded.value, &usual);
}

int kvsi_setting_is_automatic(const kvsi_setting *row, const void *config)
{
    const void *value = const_field(row, config);
    kvsi_setting own;
    loaded_value loaded;

    if (!row->automatic)
        return 0;
    if (row->access) {
        own = load_named(&loaded, row, config);
        return kvsi_setting_is_automatic(&own, &loaded.value);
    }
    switch (row->kind) {
    case KVSI_SETTING_SIZE:
    case KVSI_SETTING_SIZES:
    case KVSI_SETTING_REALS: /* the count comes first */
        return *(const size_t *)value == 0;
    case KVSI_SETTING_UINT64:
    case KVSI_SETTING_BITS:
        return *(const uint64_t *)value == 0;
    case KVSI_SETTING_REAL:
        return *(const double *)value == 0;
    case KVSI_SETTING_TEXT:
    case KVSI_SETTING_CHOICE:
        return *(const char *const *)value == NULL;
    case KVSI_SETTING_OPTIONAL:
        return *(const size_t *)value == SIZE_MAX;
    case KVSI_SETTING_STRING:
        return *(const char *)value == '\0';
    case KVSI_SETTING_FLAG:
    case KVSI_SETTING_ENUM:
        break;
    }
    return 0;
}

kvs_status kvsi_setting_check(const kvsi_setting *row, const void *config, kvs_err *err)
{
    const void *value = const_field(row, config);
    kvsi_text expected = {0}, found = {0};
    char label[64];
    int valid = 1;
    kvs_status st = KVS_OK;

    if (row->kind == KVSI_SETTING_SIZE)
        valid = is_in_range(row, (double)*(const size_t *)value);
    else if (row->kind == KVSI_SETTING_UINT64)
        valid = is_in_range(row, (double)*(const uint64_t *)value);
    else if (row->kind == KVSI_SETTING_REAL)
        valid = isfinite(*(const double *)value) && is_in_range(row, *(const double *)value);
    else if (row->kind == KVSI_SETTING_ENUM)
        valid = kvsi_name_of(row->names, *(const int *)value) != NULL;
    if (valid || kvsi_setting_is_automatic(row, config))
        return KVS_OK;
    snprintf(label, sizeof label, "%s", row->name);
    for (char *c = label; *c; c++)
        *c = *c == '-' ? ' ' : *c;
    if (row->kind == KVSI_SETTING_ENUM) {
        kvsi_setting_add_choices(&expected, row);
        kvsi_text_format(&found, "%d", *(const int *)value);
    } else {
        add_limits(&expected, row);
        kvsi_setting_print(&found, row, config);
    }
    TRY_OUT(kvsi_text_check(expected.failed ? &expected : &found, err));
    st = kvsi_fail(err, KVS_E_INVALID, "%s is %s, expected %s", label, found.data, expected.data);
out:
    kvsi_text_release(&expected);
    kvsi_text_release(&found);
    return st;
}

kvs_status kvsi_settings_check(const kvsi_settings *table, const void *config, kvs_err *err)
{
    for (size_t i = 0; i < table->count; i++)
        TRY(kvsi_setting_check(table->rows + i, config, err));
    return KVS_OK;
}

/* ---- JSON ------------------------------------------------------------------------------------ */

void kvsi_setting_key(char out[KVSI_SETTING_KEY], const kvsi_setting *row)
{
    snprintf(out, KVSI_SETTING_KEY, "%s", row->name);
    for (char *c = out; *c; c++)
        *c = *c == '-' ? '_' : *c;
}

void kvsi_setting_file_key(char out[KVSI_SETTING_KEY], const kvsi_setting *row)
{
    if (row->key)
        snprintf(out, KVSI_SETTING_KEY, "%s", row->key);
    else
        kvsi_setting_key(out, row);
}

static json_t *list_to_json(const kvsi_setting *row, const void *config)
{
    kvsi_number_list list;
    json_t *array = json_array();

    get_list(&list, row, config);
    for (size_t i = 0; i < list.count; i++)
        json_array_append_new(array, is_whole(row) ? json_integer((json_int_t)list.numbers[i])
                                                   : json_real(list.numbers[i]));
    return array;
}

json_t *kvsi_setting_to_json(const kvsi_setting *row, const void *config)
{
    const void *value = const_field(row, config);
    kvsi_setting own;
    loaded_value loaded;
    const char *text;

    if (row->access) {
        own = load_named(&loaded, row, config);
        return kvsi_setting_to_json(&own, &loaded.value);
    }
    switch (row->kind) {
    case KVSI_SETTING_FLAG:
        return json_boolean(*(const int *)value);
    case KVSI_SETTING_SIZE:
        return json_integer((json_int_t) * (const size_t *)value);
    case KVSI_SETTING_UINT64:
        return json_integer((json_int_t) * (const uint64_t *)value);
    case KVSI_SETTING_REAL:
        return json_real(*(const double *)value);
    case KVSI_SETTING_SIZES:
    case KVSI_SETTING_REALS:
    case KVSI_SETTING_BITS:
        return list_to_json(row, config);
    case KVSI_SETTING_OPTIONAL:
        return kvsi_setting_is_automatic(row, config)
                   ? json_null()
                   : json_integer((json_int_t) * (const size_t *)value);
    case KVSI_SETTING_ENUM:
        return json_string(kvsi_name_of(row->names, *(const int *)value));
    case KVSI_SETTING_STRING:
        return kvsi_json_path(value);
    case KVSI_SETTING_TEXT:
    case KVSI_SETTING_CHOICE:
        break;
    }
    text = *(const char *const *)value;
    return text ? kvsi_json_path(text) : json_null();
}

static kvs_status list_from_json(const kvsi_setting *row, void *config, const json_t *value,
                                 const char *key, const char *what, kvs_err *err)
{
    kvsi_number_list list = {0};
    const json_t *member;
    size_t i;

    if (!json_is_array(value))
        return kvsi_fail(err, KVS_E_FORMAT, "'%s': key '%s': expected a list", what, key);
    if (json_array_size(value) > KVSI_LIST_MAX)
        return kvsi_fail(err, KVS_E_FORMAT, "'%s': key '%s': expected at most %d, found %zu", what,
                         key, (int)KVSI_LIST_MAX, json_array_size(value));
    json_array_foreach(value, i, member) {
        const double number = json_number_value(member);

        if (!is_whole(row) && !json_is_number(member))
            return kvsi_fail(err, KVS_E_FORMAT, "'%s': key '%s': expected numbers", what, key);
        if (is_whole(row) && (!json_is_integer(member) || !is_in_range(row, number)))
            return kvsi_fail(err, KVS_E_FORMAT,
                             "'%s': key '%s': expected whole numbers from %.15g to %.15g", what,
                             key, row->low, row->high);
        list.numbers[list.count++] = number;
    }
    set_list(row, config, &list);
    return KVS_OK;
}

kvs_status kvsi_setting_from_json(const kvsi_setting *row, void *config, const json_t *object,
                                  const char *key, const char *what, kvs_err *err)
{
    void *value = field(row, config);
    const char *name = NULL;
    kvsi_setting plain = *row;
    char origin[96];
    kvs_err inner;

    switch (row->kind) {
    case KVSI_SETTING_FLAG:
        return kvsi_json_get_bool(value, object, key, what, err);
    case KVSI_SETTING_SIZE:
        return kvsi_json_get_size(value, object, key, what, err);
    case KVSI_SETTING_REAL:
        return kvsi_json_get_real(value, object, key, what, err);
    case KVSI_SETTING_SIZES:
    case KVSI_SETTING_REALS:
    case KVSI_SETTING_BITS:
        return list_from_json(row, config, json_object_get(object, key), key, what, err);
    case KVSI_SETTING_ENUM:
        TRY(kvsi_json_get_text(&name, object, key, what, err));
        snprintf(origin, sizeof origin, "key '%s'", key);
        plain.aliases = NULL; /* only for options */
        return kvsi_in_file(kvsi_setting_store(&plain, config, origin, name ? name : "", &inner),
                            &inner, what, err);
    case KVSI_SETTING_UINT64:
    case KVSI_SETTING_TEXT:
    case KVSI_SETTING_STRING:
    case KVSI_SETTING_CHOICE:
    case KVSI_SETTING_OPTIONAL:
        break;
    }
    return kvsi_fail(err, KVS_E_UNSUPPORTED, "'%s': key '%s' cannot be read from JSON", what, key);
}

int kvsi_settings_to_json(json_t *object, const kvsi_settings *table, const void *config,
                          unsigned use)
{
    int failed = 0;

    for (size_t i = 0; i < table->count; i++) {
        const kvsi_setting *row = table->rows + i;
        char key[KVSI_SETTING_KEY];

        if (!(row->use & use))
            continue;
        kvsi_setting_file_key(key, row);
        failed |= json_object_set_new(object, key, kvsi_setting_to_json(row, config));
    }
    return failed;
}
