#include "base/documents.h"

#include "base/json.h"
#include "base/memory.h"
#include "base/source.h"
#include "base/spool.h"
#include "base/text.h"

#include <stdlib.h>
#include <string.h>

enum {
    BLOCK = 1 << 16,
    VALUES_MAX = 1 << 20, /* of an object of JSON */
};

typedef enum kind { TEXT, LINES, ARRAY } kind;

struct kvsi_documents {
    const char *path, *field, *separator;
    kvsi_source *source;
    kind kind;
    int ended; /* the source is at its end */
    size_t object_limit;

    char *buffer; /* read but not yet returned: from `begin` to `end` */
    size_t begin, end, capacity;
    size_t searched; /* bytes from `begin` on in which no separator or line end starts */

    uint64_t line; /* LINES: number of the last line read; ARRAY: of the line of the last object */
    json_t *value; /* LINES, ARRAY: the object whose text is being returned */
    size_t handed; /* bytes of the current document returned so far */
    uint64_t passed; /* ARRAY: line ends before the buffered text */
    int in_array;    /* ARRAY: its bracket was read */
    int array_ended;
    int after_break; /* text: a line end that belongs to the separator may follow */
};

/* ---- opening --------------------------------------------------------------------------------- */

/* Whether the name is NAME.ending, or that of a compressed file. */
static int has_ending(const char *path, const char *ending)
{
    static const char *const compressions[] = {"", ".zst", ".gz"};
    char whole[16];

    for (size_t i = 0; i < sizeof compressions / sizeof *compressions; i++) {
        snprintf(whole, sizeof whole, "%s%s", ending, compressions[i]);
        if (kvsi_ends_with(path, whole))
            return 1;
    }
    return 0;
}

static kind kind_of(const char *path)
{
    return has_ending(path, ".jsonl") ? LINES : has_ending(path, ".json") ? ARRAY : TEXT;
}

int kvsi_documents_is_text(const char *name)
{
    static const char *const endings[] = {".txt", ".md", ".jsonl", ".json"};

    for (size_t i = 0; i < sizeof endings / sizeof *endings; i++)
        if (has_ending(name, endings[i]))
            return 1;
    return 0;
}

static kvs_status recognize(kvsi_documents *d, kvs_err *err);

kvs_status kvsi_documents_open(kvsi_documents **out, const char *path, const char *field,
                               const char *separator, kvs_err *err)
{
    kvsi_documents *documents = kvsi_alloc(1, sizeof *documents);
    kvs_status st;

    *out = NULL;
    if (!documents)
        return kvsi_no_memory(err, "'%s'", path);
    *documents = (kvsi_documents){.path = kvsi_spool_name(path),
                                  .field = field ? field : KVSI_DEFAULT_FIELD,
                                  .separator = separator ? separator : KVSI_DEFAULT_SEPARATOR,
                                  .kind = kind_of(path),
                                  .object_limit = KVSI_LINE_BYTES};
    TRY_OUT(kvsi_source_open(&documents->source, path, err));
    if (kvsi_is_spooled(path))
        TRY_OUT(recognize(documents, err));
    *out = documents;
    documents = NULL;
out:
    kvsi_documents_close(documents);
    return st;
}

void kvsi_documents_close(kvsi_documents *documents)
{
    if (!documents)
        return;
    kvsi_source_close(documents->source);
    json_decref(documents->value);
    kvsi_free(documents->buffer);
    kvsi_free(documents);
}

uint64_t kvsi_documents_bytes(const kvsi_documents *documents)
{
    return kvsi_source_bytes(documents->source);
}

uint64_t kvsi_documents_checksum(const kvsi_documents *documents)
{
    return kvsi_source_checksum(documents->source);
}

/* ---- the buffer ------------------------------------------------------------------------------ */

static size_t held(const kvsi_documents *d)
{
    return d->end - d->begin;
}

static char *text_of(const kvsi_documents *d)
{
    return d->buffer + d->begin;
}

/* Makes the capacity behind `end` at least one block. */
static kvs_status reserve_block(kvsi_documents *d, kvs_err *err)
{
    const size_t size = held(d);
    char *larger;

    if (d->capacity - d->end >= BLOCK)
        return KVS_OK;
    if (size + BLOCK <= d->capacity / 4 * 3) { /* moves at most 3 bytes per byte read */
        memmove(d->buffer, text_of(d), size);
    } else {
        const size_t capacity = 2 * (size + BLOCK);

        larger = kvsi_alloc(capacity, 1);
        if (!larger)
            return kvsi_no_memory(err, "a document of '%s'", d->path);
        if (size > 0)
            memcpy(larger, text_of(d), size);
        kvsi_free(d->buffer);
        d->buffer = larger;
        d->capacity = capacity;
    }
    d->begin = 0;
    d->end = size;
    return KVS_OK;
}

static kvs_status read_more(kvsi_documents *d, kvs_err *err)
{
    size_t got = 0;

    TRY(reserve_block(d, err));
    TRY(kvsi_source_read(d->source, d->buffer + d->end, BLOCK, &got, err));
    d->end += got;
    d->ended = got == 0;
    return KVS_OK;
}

static void take(kvsi_documents *d, size_t size)
{
    d->begin += size;
    d->searched = 0;
}

/* The position of `mark` in the buffered text, or NULL.  Searched bytes are not searched again. */
static const char *find(kvsi_documents *d, const char *mark)
{
    const size_t length = strlen(mark), size = held(d);

    for (size_t at = d->searched; size >= length && at <= size - length;) {
        const char *text = text_of(d);
        const char *hit = memchr(text + at, mark[0], size - length + 1 - at);

        if (!hit)
            break;
        if (memcmp(hit, mark, length) == 0)
            return hit;
        at = (size_t)(hit - text) + 1;
    }
    d->searched = size >= length ? size - length + 1 : 0;
    return NULL;
}

/* ---- characters ------------------------------------------------------------------------------ */

static const char bom[] = "\xef\xbb\xbf";

static int starts_with_bom(const char *text, size_t size)
{
    return size >= sizeof bom - 1 && memcmp(text, bom, sizeof bom - 1) == 0;
}

static int is_space(char c)
{
    return c == ' ' || (c >= '\t' && c <= '\r');
}

/* ---- piped input ----------------------------------------------------------------------------- */

static int is_object(const char *text, size_t size)
{
    json_t *value = json_loadb(text, size, JSON_DISABLE_EOF_CHECK, NULL);
    const int found = json_is_object(value);

    json_decref(value);
    return found;
}

/* The kind of a text without a name: lines of JSON if its first line is an object, an array if it
 * starts with a bracket and an object. */
static kvs_status recognize(kvsi_documents *d, kvs_err *err)
{
    enum { LOOKED_AT = 1 << 20 };
    size_t at, line;

    do {
        TRY(read_more(d, err));
    } while (!d->ended && held(d) < LOOKED_AT && !memchr(text_of(d), '\n', held(d)));
    if (held(d) == 0)
        return KVS_OK;
    at = starts_with_bom(text_of(d), held(d)) ? sizeof bom - 1 : 0;
    while (at < held(d) && is_space(text_of(d)[at]))
        at++;
    line = held(d) - at;
    if (memchr(text_of(d) + at, '\n', line))
        line = (size_t)((const char *)memchr(text_of(d) + at, '\n', line) - (text_of(d) + at));
    if (line > 0 && text_of(d)[at] == '{' && is_object(text_of(d) + at, line))
        d->kind = LINES;
    if (line == 0 || text_of(d)[at] != '[')
        return KVS_OK;
    for (at++; at < held(d) && is_space(text_of(d)[at]);)
        at++;
    if (at < held(d) && text_of(d)[at] == '{')
        d->kind = ARRAY;
    return KVS_OK;
}

/* ---- splitting long documents ---------------------------------------------------------------- */

static int continues_character(char c)
{
    return ((unsigned char)c & 0xc0) == 0x80;
}

size_t kvsi_text_cut(const char *text, size_t size, size_t at)
{
    const size_t earliest = at - at / 8;
    size_t line = 0, character = at;

    for (size_t i = at; i >= earliest && i >= 2; i--) {
        if (text[i - 1] != '\n')
            continue;
        if (i < size && !is_space(text[i]) && !is_space(text[i - 2]))
            return i;
        line = line ? line : i;
    }
    if (line)
        return line;
    /* A character has at most three bytes after its first; longer runs are not text. */
    while (at - character < 3 && character > 1 && continues_character(text[character]))
        character--;
    return continues_character(text[character]) ? at : character;
}

/* ---- .txt ------------------------------------------------------------------------------------ */

/* Drops the line end after a separator. */
static kvs_status skip_line_end(kvsi_documents *d, kvs_err *err)
{
    size_t skipped = 0;

    while (held(d) < 2 && !d->ended)
        TRY(read_more(d, err));
    if (held(d) > 1 && text_of(d)[0] == '\r' && text_of(d)[1] == '\n')
        skipped = 2;
    else if (held(d) > 0 && text_of(d)[0] == '\n')
        skipped = 1;
    take(d, skipped);
    d->after_break = 0;
    return KVS_OK;
}

/* The next piece, which may be an empty document. */
static kvs_status next_text(kvsi_documents *d, kvsi_document_piece *piece, kvs_err *err)
{
    const char *mark = NULL;

    if (d->after_break)
        TRY(skip_line_end(d, err));
    for (;;) {
        mark = *d->separator ? find(d, d->separator) : NULL;
        if (mark || d->ended || held(d) > KVSI_PIECE_BYTES)
            break;
        TRY(read_more(d, err));
    }
    *piece = (kvsi_document_piece){.text = text_of(d), .size = held(d), .last = 1};
    if (mark) {
        piece->size = (size_t)(mark - piece->text);
        take(d, piece->size + strlen(d->separator));
        d->after_break = 1;
        return KVS_OK;
    }
    if (held(d) > KVSI_PIECE_BYTES) {
        piece->size = kvsi_text_cut(piece->text, held(d), KVSI_PIECE_BYTES);
        piece->last = 0;
    }
    take(d, piece->size);
    return KVS_OK;
}

/* ---- lines of a .jsonl ----------------------------------------------------------------------- */

static int is_blank(const char *text, size_t size)
{
    size_t i = 0;

    while (i < size && is_space(text[i]))
        i++;
    return i == size;
}

static kvs_status check_size(const kvsi_documents *d, uint64_t line, size_t size, kvs_err *err)
{
    if (size > d->object_limit)
        return kvsi_fail(err, KVS_E_LIMIT, "'%s' line %llu has more than %zu bytes", d->path,
                         (unsigned long long)line, d->object_limit);
    return KVS_OK;
}

/* The next line without its line end; *found = 0 only at the end of the file. */
static kvs_status next_line(kvsi_documents *d, const char **line, size_t *size, int *found,
                            kvs_err *err)
{
    const char *end;

    while (!(end = find(d, "\n")) && !d->ended) {
        TRY(check_size(d, d->line + 1, held(d), err));
        TRY(read_more(d, err));
    }
    *line = text_of(d);
    *size = end ? (size_t)(end - *line) : held(d);
    TRY(check_size(d, d->line + 1, *size, err));
    *found = end || *size > 0;
    d->line += (uint64_t)*found;
    take(d, *size + (end != NULL));
    if (d->line == 1 && starts_with_bom(*line, *size)) {
        *line += sizeof bom - 1;
        *size -= sizeof bom - 1;
    }
    return KVS_OK;
}

/* The next line that is not blank. */
static kvs_status next_full_line(kvsi_documents *d, const char **line, size_t *size, int *found,
                                 kvs_err *err)
{
    do
        TRY(next_line(d, line, size, found, err));
    while (*found && is_blank(*line, *size));
    return KVS_OK;
}

/* ---- objects of a .json ---------------------------------------------------------------------- */

/* Returns the next character that is not white space without taking it; 0 = the end of the file. */
static kvs_status peek(kvsi_documents *d, char *next, kvs_err *err)
{
    *next = 0;
    for (;;) {
        while (held(d) > 0 && is_space(*text_of(d))) {
            d->passed += *text_of(d) == '\n';
            take(d, 1);
        }
        if (held(d) > 0)
            *next = *text_of(d);
        if (held(d) > 0 || d->ended)
            return KVS_OK;
        TRY(read_more(d, err));
    }
}

static kvs_status not_an_array(const kvsi_documents *d, const char *expected, kvs_err *err)
{
    return kvsi_fail(err, KVS_E_FORMAT,
                     "'%s' line %llu: expected %s; a .json file is an array of objects", d->path,
                     (unsigned long long)d->passed + 1, expected);
}

/* Takes the bracket at the start. */
static kvs_status enter_array(kvsi_documents *d, kvs_err *err)
{
    char next;

    while (held(d) < sizeof bom - 1 && !d->ended)
        TRY(read_more(d, err));
    if (starts_with_bom(text_of(d), held(d)))
        take(d, sizeof bom - 1);
    TRY(peek(d, &next, err));
    if (next != '[')
        return not_an_array(d, "'['", err);
    take(d, 1);
    d->in_array = 1;
    return KVS_OK;
}

/* Takes what is before the next object: a comma, unless it is the first, or the end of the array,
 * which must be that of the file. */
static kvs_status enter_object(kvsi_documents *d, int *found, kvs_err *err)
{
    const int first = !d->in_array;
    char next;

    if (first)
        TRY(enter_array(d, err));
    TRY(peek(d, &next, err));
    if (next == ']' && !d->array_ended) {
        d->array_ended = 1;
        take(d, 1);
        TRY(peek(d, &next, err));
    }
    if (d->array_ended && next != 0)
        return not_an_array(d, "nothing after the array", err);
    *found = !d->array_ended;
    if (d->array_ended)
        return KVS_OK;
    if (!first && next != ',')
        return not_an_array(d, "',' or ']'", err);
    if (!first) {
        take(d, 1);
        TRY(peek(d, &next, err));
    }
    return next == '{' ? KVS_OK : not_an_array(d, "an object", err);
}

/* The next object, from its first to its last brace. */
static kvs_status next_element(kvsi_documents *d, const char **object, size_t *size, int *found,
                               kvs_err *err)
{
    size_t at = 0, depth = 0;
    int inside = 0; /* a string */

    TRY(enter_object(d, found, err));
    if (!*found)
        return KVS_OK;
    d->line = d->passed + 1;
    do {
        char c;

        TRY(check_size(d, d->line, at, err));
        while (at + 1 >= held(d) && !d->ended) /* a backslash takes two */
            TRY(read_more(d, err));
        if (at >= held(d))
            return kvsi_fail(err, KVS_E_FORMAT, "'%s' line %llu: an object without an end", d->path,
                             (unsigned long long)d->line);
        c = text_of(d)[at++];
        d->passed += c == '\n';
        if (c == '"')
            inside = !inside;
        else if (inside)
            at += c == '\\';
        else if (c == '{' || c == '[')
            depth++;
        else if (c == '}' || c == ']')
            depth--;
    } while (depth > 0);
    *object = text_of(d);
    *size = at;
    take(d, at);
    return KVS_OK;
}

/* ---- objects --------------------------------------------------------------------------------- */

/* Returns the number of separators of values outside strings, which bounds the memory of a parsed
 * object: a value of two bytes takes some hundred. */
static size_t count_values(const char *text, size_t size)
{
    size_t count = 0;
    int inside = 0;

    for (size_t i = 0; i < size; i++) {
        if (inside && text[i] == '\\')
            i++;
        else if (text[i] == '"')
            inside = !inside;
        else if (!inside)
            count += text[i] == ',' || text[i] == '[' || text[i] == '{';
    }
    return count;
}

static kvs_status parse(kvsi_documents *d, const char *text, size_t size, kvs_err *err)
{
    const unsigned long long line = d->line;
    json_error_t error = {0};
    kvs_status st;

    if (count_values(text, size) > VALUES_MAX)
        return kvsi_fail(err, KVS_E_LIMIT, "'%s' line %llu has more than %d JSON values", d->path,
                         line, VALUES_MAX);
    d->value = kvsi_json_load(text, size, JSON_REJECT_DUPLICATES | JSON_ALLOW_NUL, &error);
    d->handed = 0;
    st = kvsi_json_check("an object of JSON", err);
    if (st != KVS_OK)
        return st;
    if (!d->value)
        return kvsi_fail(err, KVS_E_FORMAT, "'%s' line %llu: malformed JSON at byte %d: %s",
                         d->path, line, error.position, error.text);
    if (!json_is_object(d->value))
        return kvsi_fail(err, KVS_E_FORMAT, "'%s' line %llu: expected a JSON object", d->path,
                         line);
    return KVS_OK;
}

/* Parses the next object; *found = 0 if there is none. */
static kvs_status next_value(kvsi_documents *d, int *found, kvs_err *err)
{
    const char *text = NULL;
    size_t size = 0;

    json_decref(d->value);
    d->value = NULL;
    TRY(d->kind == LINES ? next_full_line(d, &text, &size, found, err)
                         : next_element(d, &text, &size, found, err));
    return *found ? parse(d, text, size, err) : KVS_OK;
}

static kvs_status check_field(const kvsi_documents *d, kvs_err *err)
{
    if (!json_is_string(json_object_get(d->value, d->field)))
        return kvsi_fail(err, KVS_E_FORMAT, "'%s' line %llu: no text in field '%s'", d->path,
                         (unsigned long long)d->line, d->field);
    return KVS_OK;
}

static kvs_status next_field(kvsi_documents *d, kvsi_document_piece *piece, int *found,
                             kvs_err *err)
{
    const json_t *field = json_object_get(d->value, d->field);
    size_t left;

    if (!field || d->handed == json_string_length(field)) {
        const kvs_status st = next_value(d, found, err);

        if (st != KVS_OK || !*found)
            return st;
        TRY(check_field(d, err));
        field = json_object_get(d->value, d->field);
    }
    left = json_string_length(field) - d->handed;
    *piece = (kvsi_document_piece){
        .text = json_string_value(field) + d->handed, .size = left, .last = 1};
    if (left > KVSI_PIECE_BYTES) {
        piece->size = kvsi_text_cut(piece->text, left, KVSI_PIECE_BYTES);
        piece->last = 0;
    }
    d->handed += piece->size;
    *found = 1;
    return KVS_OK;
}

/* ---- all ------------------------------------------------------------------------------------- */

/* Pieces of .txt files without empty documents. */
static kvs_status next_full_text(kvsi_documents *d, kvsi_document_piece *piece, int *found,
                                 kvs_err *err)
{
    do {
        *found = !d->ended || held(d) > 0 || d->handed > 0;
        if (!*found)
            return KVS_OK;
        TRY(next_text(d, piece, err));
    } while (piece->size == 0 && d->handed == 0);
    d->handed = piece->last ? 0 : d->handed + piece->size;
    return KVS_OK;
}

kvs_status kvsi_documents_next(kvsi_documents *documents, kvsi_document_piece *piece, int *found,
                               kvs_err *err)
{
    kvs_status st;

    if (documents->kind == TEXT)
        return next_full_text(documents, piece, found, err);
    do
        st = next_field(documents, piece, found, err);
    while (st == KVS_OK && *found && piece->size == 0);
    return st;
}

int kvsi_documents_has_objects(const kvsi_documents *documents)
{
    return documents->kind != TEXT;
}

void kvsi_documents_limit_objects(kvsi_documents *documents, size_t bytes)
{
    documents->object_limit = bytes;
}

kvs_status kvsi_documents_next_object(kvsi_documents *documents, json_t **object, kvs_err *err)
{
    int found = 0;

    TRY(next_value(documents, &found, err));
    *object = documents->value;
    return KVS_OK;
}

uint64_t kvsi_documents_line(const kvsi_documents *documents)
{
    return documents->line;
}
