#include "eval/records.h"

#include "base/array.h"
#include "base/memory.h"
#include "base/source.h"
#include "base/text.h"
#include "base/utf8.h"

#include <stdio.h>
#include <string.h>
#include <strings.h>

/* A file while it is read: its text, and the place that was reached. */
typedef struct reader {
    const char *path;
    const char *text;
    size_t size, at;
    size_t line; /* of text[at], from 1 */
    kvsi_records *out;
    kvs_err *err;
} reader;

#define REFUSE(r, number, ...) refuse((r)->err, (r)->path, number, __VA_ARGS__)

/* 'PATH' line N: ... */
__attribute__((format(printf, 4, 5))) static kvs_status refuse(kvs_err *err, const char *path,
                                                               size_t line, const char *format, ...)
{
    char text[512];
    va_list args;

    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    return kvsi_fail(err, KVS_E_FORMAT, "'%s' line %zu: %s", path, line, text);
}

/* ---- names ----------------------------------------------------------------------------------- */

typedef kvs_status read_function(reader *r, const char *const *columns);
static read_function read_lines, read_array, read_csv;

static const struct {
    const char *ending;
    read_function *read;
    int in_lines; /* a line cannot be longer than a record */
} kinds[] = {{".jsonl", read_lines, 1}, {".json", read_array, 0}, {".csv", read_csv, 1}};

enum { KINDS = sizeof kinds / sizeof *kinds };

static size_t kind_of(const char *path)
{
    size_t kind = 0;

    for (; kind < KINDS; kind++) {
        char compressed[16];

        snprintf(compressed, sizeof compressed, "%s.zst", kinds[kind].ending);
        if (kvsi_ends_with(path, kinds[kind].ending) || kvsi_ends_with(path, compressed))
            break;
    }
    return kind;
}

int kvsi_is_records_file(const char *path)
{
    return kind_of(path) < KINDS;
}

/* ---- the text of a file ---------------------------------------------------------------------- */

static int is_line_end(char c)
{
    return c == '\n' || c == '\r';
}

static size_t count_lines(const char *text, size_t size)
{
    size_t count = 0;

    for (size_t i = 0; i < size; i++)
        count += text[i] == '\n' || (text[i] == '\r' && (i + 1 == size || text[i + 1] != '\n'));
    return count;
}

/* The length of the line that the text ends with, if it had `before` bytes before these. */
static size_t last_line(const char *text, size_t size, size_t before)
{
    for (size_t i = size; i > 0; i--)
        if (is_line_end(text[i - 1]))
            return size - i;
    return before + size;
}

static kvs_status load(kvsi_text *text, const char *path, int in_lines, uint64_t *checksum,
                       kvs_err *err)
{
    enum { BLOCK = 1 << 18 };
    kvsi_source *source = NULL;
    char *block = kvsi_alloc(BLOCK, 1);
    size_t got = 1, line = 0;
    kvs_status st = KVS_OK;

    if (!block)
        return kvsi_no_memory(err, "'%s'", path);
    TRY_OUT(kvsi_source_open(&source, path, err));
    while (got > 0) {
        TRY_OUT(kvsi_source_read(source, block, BLOCK, &got, err));
        kvsi_text_add_bytes(text, block, got);
        TRY_OUT(kvsi_text_check(text, err));
        line = last_line(block, got, line);
        if (in_lines && line > KVSI_RECORD_BYTES)
            st = kvsi_fail(err, KVS_E_LIMIT, "'%s' line %zu has more than %d bytes", path,
                           count_lines(text->data, text->length) + 1, KVSI_RECORD_BYTES);
        else if (text->length > KVSI_RECORD_FILE_BYTES)
            st = kvsi_fail(err, KVS_E_LIMIT, "'%s' has more than %d bytes", path,
                           KVSI_RECORD_FILE_BYTES);
        if (st != KVS_OK)
            goto out;
    }
    *checksum = kvsi_source_checksum(source);
out:
    kvsi_source_close(source);
    kvsi_free(block);
    return st;
}

static kvs_status check_characters(const reader *r)
{
    const size_t valid = kvsi_utf8_valid(r->text, r->size);
    const char *nul = memchr(r->text, '\0', valid);
    const size_t bad = nul ? (size_t)(nul - r->text) : valid;

    if (bad == r->size)
        return KVS_OK;
    return REFUSE(r, count_lines(r->text, bad) + 1, "byte %zu is %s",
                  last_line(r->text, bad, 0) + 1, nul ? "a NUL" : "not UTF-8");
}

static kvs_status add_record(const reader *r, json_t *fields, size_t line)
{
    kvsi_records *out = r->out;
    const kvs_status st =
        kvsi_array_reserve(&out->items, &out->capacity, out->count + 1, sizeof *out->items, r->err);

    if (st == KVS_OK)
        out->items[out->count++] = (kvsi_record){.fields = fields, .line = line};
    else
        json_decref(fields);
    return st;
}

/* ---- JSON ------------------------------------------------------------------------------------ */

static int is_blank(char c)
{
    return c == ' ' || c == '\t' || is_line_end(c);
}

static void skip_blanks(reader *r)
{
    const size_t from = r->at;

    while (r->at < r->size && is_blank(r->text[r->at]))
        r->at++;
    r->line += count_lines(r->text + from, r->at - from);
}

static kvs_status parse_object(const reader *r, const char *text, size_t size)
{
    json_error_t error = {0};
    json_t *value = kvsi_json_load(text, size, JSON_REJECT_DUPLICATES, &error);
    const kvs_status st = kvsi_json_check("a document", r->err);

    if (st != KVS_OK) {
        json_decref(value);
        return st;
    }
    if (!value)
        return REFUSE(r, r->line, "malformed JSON at byte %d: %s", error.position, error.text);
    if (!json_is_object(value)) {
        json_decref(value);
        return REFUSE(r, r->line, "expected a JSON object");
    }
    return add_record(r, value, r->line);
}

static kvs_status read_lines(reader *r, const char *const *columns)
{
    (void)columns;
    for (skip_blanks(r); r->at < r->size; skip_blanks(r)) {
        const size_t from = r->at;

        while (r->at < r->size && !is_line_end(r->text[r->at]))
            r->at++;
        TRY(parse_object(r, r->text + from, r->at - from));
    }
    return KVS_OK;
}

/* The size of the object that starts here, by its brackets; 0 if it does not end. */
static size_t object_size(const reader *r)
{
    size_t depth = 0;
    int quoted = 0;

    for (size_t i = r->at; i < r->size; i++) {
        const char c = r->text[i];

        if (quoted) {
            quoted = c != '"';
            i += c == '\\';
        } else if (c == '"') {
            quoted = 1;
        } else if (c == '{' || c == '[') {
            depth++;
        } else if ((c == '}' || c == ']') && --depth == 0) {
            return i - r->at + 1;
        }
    }
    return 0;
}

static kvs_status read_object(reader *r)
{
    size_t size;

    if (r->text[r->at] != '{')
        return REFUSE(r, r->line, "expected a JSON object, found '%c'", r->text[r->at]);
    size = object_size(r);
    if (size == 0)
        return REFUSE(r, r->line, "the JSON object that starts here does not end");
    if (size > KVSI_RECORD_BYTES)
        return kvsi_fail(r->err, KVS_E_LIMIT, "'%s' line %zu: an object of more than %d bytes",
                         r->path, r->line, KVSI_RECORD_BYTES);
    TRY(parse_object(r, r->text + r->at, size));
    r->line += count_lines(r->text + r->at, size);
    r->at += size;
    return KVS_OK;
}

static kvs_status read_array(reader *r, const char *const *columns)
{
    int bracket, ended = 0;

    (void)columns;
    skip_blanks(r);
    bracket = r->at < r->size && r->text[r->at] == '[';
    r->at += (size_t)bracket;
    for (skip_blanks(r); r->at < r->size; skip_blanks(r)) {
        const char c = r->text[r->at];

        if (ended)
            return REFUSE(r, r->line, "expected the end of the file after the array");
        if (bracket && c == ']') {
            r->at++;
            ended = 1;
            continue;
        }
        if (bracket && r->out->count > 0) {
            if (c != ',')
                return REFUSE(r, r->line, "expected ',' or ']' after an element of the array");
            r->at++;
            skip_blanks(r);
            if (r->at == r->size)
                break;
        }
        TRY(read_object(r));
    }
    return bracket && !ended ? REFUSE(r, r->line, "the array does not end") : KVS_OK;
}

/* ---- CSV ------------------------------------------------------------------------------------- */

/* Reads one cell; *more = whether another one follows in its row. */
static kvs_status read_cell(reader *r, kvsi_text *cell, int *more)
{
    const size_t first = r->line;
    int quoted = r->at < r->size && r->text[r->at] == '"';

    cell->length = 0;
    kvsi_text_add(cell, "");
    r->at += (size_t)quoted;
    *more = 0;
    while (r->at < r->size) {
        const char c = r->text[r->at];
        const int crlf = c == '\r' && r->at + 1 < r->size && r->text[r->at + 1] == '\n';

        if (quoted && c == '"') {
            const int doubled = r->at + 1 < r->size && r->text[r->at + 1] == '"';

            r->at += doubled ? 2 : 1;
            quoted = doubled;
            if (doubled)
                kvsi_text_add(cell, "\"");
            continue;
        }
        r->at += crlf ? 2 : 1;
        r->line += (size_t)is_line_end(c);
        if (!quoted && is_line_end(c))
            return KVS_OK;
        if (!quoted && c == ',') {
            *more = 1;
            return KVS_OK;
        }
        kvsi_text_add_bytes(cell, r->text + r->at - (crlf ? 2 : 1), crlf ? 2 : 1);
        if (cell->length > KVSI_RECORD_BYTES)
            return kvsi_fail(r->err, KVS_E_LIMIT, "'%s' line %zu: a cell of more than %d bytes",
                             r->path, first, KVSI_RECORD_BYTES);
    }
    return quoted ? REFUSE(r, first, "the quoted cell that starts here does not end") : KVS_OK;
}

/* Reads a row as an array of texts; an empty line is a row of one empty text. */
static kvs_status read_row(reader *r, json_t *cells)
{
    kvsi_text cell = {0};
    int more = 1;
    kvs_status st = KVS_OK;

    json_array_clear(cells);
    while (st == KVS_OK && more) {
        st = read_cell(r, &cell, &more);
        if (st == KVS_OK)
            st = kvsi_text_check(&cell, r->err);
        if (st == KVS_OK)
            json_array_append_new(cells, json_stringn(cell.data, cell.length));
    }
    kvsi_text_release(&cell);
    return st == KVS_OK ? kvsi_json_check("a row of cells", r->err) : st;
}

static const char *cell_at(const json_t *row, size_t index)
{
    return json_string_value(json_array_get(row, index));
}

static int has_name(const json_t *row, const char *name)
{
    for (size_t i = 0; i < json_array_size(row); i++)
        if (strcasecmp(cell_at(row, i), name) == 0)
            return 1;
    return 0;
}

static kvs_status add_row(const reader *r, const json_t *names, const json_t *row, size_t line)
{
    json_t *fields;

    if (json_array_size(row) != json_array_size(names))
        return REFUSE(r, line, "expected %zu cells, found %zu", json_array_size(names),
                      json_array_size(row));
    fields = json_object();
    for (size_t i = 0; i < json_array_size(row); i++)
        if (*cell_at(names, i)) /* a column of row numbers has no name */
            json_object_set(fields, cell_at(names, i), json_array_get(row, i));
    if (kvsi_json_check_made(fields, "a row of cells", r->err) != KVS_OK) {
        json_decref(fields);
        return KVS_E_NOMEM;
    }
    return add_record(r, fields, line);
}

static kvs_status check_names(const reader *r, const json_t *names)
{
    for (size_t i = 0; i < json_array_size(names); i++)
        for (size_t k = 0; k < i; k++)
            if (*cell_at(names, i) && strcmp(cell_at(names, i), cell_at(names, k)) == 0)
                return REFUSE(r, 1, "two columns have the name '%s'", cell_at(names, i));
    return KVS_OK;
}

static kvs_status read_csv(reader *r, const char *const *columns)
{
    json_t *names = NULL, *row = json_array();
    kvs_status st = kvsi_json_check_made(row, "a row of cells", r->err);

    while (st == KVS_OK && r->at < r->size) {
        const size_t line = r->line;

        TRY_OUT(read_row(r, row));
        if (json_array_size(row) == 1 && !*cell_at(row, 0))
            continue;
        if (names) {
            TRY_OUT(add_row(r, names, row, line));
        } else if (columns && !has_name(row, columns[0])) {
            names = json_array();
            for (size_t i = 0; columns[i]; i++)
                json_array_append_new(names, json_string(columns[i]));
            TRY_OUT(kvsi_json_check_made(names, "names of columns", r->err));
            TRY_OUT(add_row(r, names, row, line));
        } else {
            names = json_copy(row);
            TRY_OUT(kvsi_json_check_made(names, "names of columns", r->err));
            TRY_OUT(check_names(r, names));
        }
    }
out:
    json_decref(names);
    json_decref(row);
    return st;
}

/* ---------------------------------------------------------------------------------------------- */

kvs_status kvsi_records_read(kvsi_records *out, const char *path, const char *const *columns,
                             kvs_err *err)
{
    static const char mark[] = "\xef\xbb\xbf";
    const size_t kind = kind_of(path);
    kvsi_text text = {0};
    reader r = {.path = path, .line = 1, .out = out, .err = err};
    kvs_status st = KVS_OK;

    *out = (kvsi_records){0};
    if (kind == KINDS)
        return kvsi_fail(err, KVS_E_FORMAT,
                         "'%s': expected a name that ends in .jsonl, .json or .csv", path);
    kvsi_text_add(&text, "");
    TRY_OUT(load(&text, path, kinds[kind].in_lines, &out->checksum, err));
    r.text = text.data;
    r.size = text.length;
    if (r.size >= 3 && memcmp(r.text, mark, 3) == 0)
        r.at = 3;
    TRY_OUT(check_characters(&r));
    TRY_OUT(kinds[kind].read(&r, columns));
    if (out->count == 0)
        st = kvsi_fail(err, KVS_E_FORMAT, "'%s' has no documents", path);
out:
    kvsi_text_release(&text);
    if (st != KVS_OK)
        kvsi_records_release(out);
    return st;
}

void kvsi_records_release(kvsi_records *records)
{
    for (size_t i = 0; i < records->count; i++)
        json_decref(records->items[i].fields);
    kvsi_free(records->items);
    *records = (kvsi_records){0};
}
