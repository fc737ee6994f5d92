#include "base/documents.h"

#include "base/json.h"
#include "base/memory.h"
#include "base/source.h"
#include "base/text.h"

#include <stdlib.h>
#include <string.h>

enum { BLOCK = 1 << 16 };

struct kvsi_documents {
    const char *path, *field, *separator;
    kvsi_source *source;
    int lines; /* .jsonl */
    int ended; /* the source is at its end */
    size_t line_limit;

    char *buffer; /* read but not yet returned: from `begin` to `end` */
    size_t begin, end, capacity;
    size_t searched; /* bytes from `begin` on in which no separator or line end starts */

    uint64_t line;   /* .jsonl: number of the last line read */
    json_t *value;   /* .jsonl: the line whose text is being returned */
    size_t handed;   /* bytes of the current document returned so far */
    int after_break; /* text: a line end that belongs to the separator may follow */
};

/* ---- opening --------------------------------------------------------------------------------- */

/* Whether the name is NAME.ending or NAME.ending.zst. */
static int has_kind(const char *path, const char *ending)
{
    char compressed[16];

    snprintf(compressed, sizeof compressed, "%s.zst", ending);
    return kvsi_ends_with(path, ending) || kvsi_ends_with(path, compressed);
}

kvs_status kvsi_documents_open(kvsi_documents **out, const char *path, const char *field,
                               const char *separator, kvs_err *err)
{
    const int lines = has_kind(path, ".jsonl");
    kvsi_documents *documents;
    kvs_status st;

    *out = NULL;
    if (has_kind(path, ".json"))
        return kvsi_fail(err, KVS_E_INVALID,
                         "'%s' is one JSON value: expected JSON lines, one object per line, as "
                         ".jsonl, or text",
                         path);
    documents = kvsi_alloc(1, sizeof *documents);
    if (!documents)
        return kvsi_no_memory(err, "'%s'", path);
    *documents = (kvsi_documents){.path = path,
                                  .field = field ? field : KVSI_DEFAULT_FIELD,
                                  .separator = separator ? separator : KVSI_DEFAULT_SEPARATOR,
                                  .lines = lines,
                                  .line_limit = KVSI_LINE_BYTES};
    TRY_OUT(kvsi_source_open(&documents->source, path, err));
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

/* ---- splitting long documents ---------------------------------------------------------------- */

static int is_space(char c)
{
    return c == ' ' || (c >= '\t' && c <= '\r');
}

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

/* ---- .jsonl ---------------------------------------------------------------------------------- */

static int is_blank(const char *text, size_t size)
{
    size_t i = 0;

    while (i < size && is_space(text[i]))
        i++;
    return i == size;
}

static kvs_status check_line(const kvsi_documents *d, size_t size, kvs_err *err)
{
    if (size > d->line_limit)
        return kvsi_fail(err, KVS_E_LIMIT, "'%s' line %llu has more than %zu bytes", d->path,
                         (unsigned long long)d->line + 1, d->line_limit);
    return KVS_OK;
}

/* The next line without its line end; *found = 0 only at the end of the file. */
static kvs_status next_line(kvsi_documents *d, const char **line, size_t *size, int *found,
                            kvs_err *err)
{
    const char *end;

    while (!(end = find(d, "\n")) && !d->ended) {
        TRY(check_line(d, held(d), err));
        TRY(read_more(d, err));
    }
    *line = text_of(d);
    *size = end ? (size_t)(end - *line) : held(d);
    TRY(check_line(d, *size, err));
    *found = end || *size > 0;
    d->line += (uint64_t)*found;
    take(d, *size + (end != NULL));
    return KVS_OK;
}

/* A byte-order mark at the start of the file is skipped. */
static kvs_status parse_line(kvsi_documents *d, const char *line, size_t size, kvs_err *err)
{
    static const char bom[] = "\xef\xbb\xbf";
    const unsigned long long number = d->line;
    const size_t skipped =
        number == 1 && size >= sizeof bom - 1 && memcmp(line, bom, sizeof bom - 1) == 0
            ? sizeof bom - 1
            : 0;
    json_error_t error = {0};
    kvs_status st;

    d->value = kvsi_json_load(line + skipped, size - skipped,
                              JSON_REJECT_DUPLICATES | JSON_ALLOW_NUL, &error);
    d->handed = 0;
    st = kvsi_json_check("a line of JSON", err);
    if (st != KVS_OK)
        return st;
    if (!d->value)
        return kvsi_fail(err, KVS_E_FORMAT, "'%s' line %llu: malformed JSON at byte %d: %s",
                         d->path, number, error.position, error.text);
    if (!json_is_object(d->value))
        return kvsi_fail(err, KVS_E_FORMAT, "'%s' line %llu: expected a JSON object", d->path,
                         number);
    return KVS_OK;
}

/* Parses lines until one is not blank; *found = 0 at the end of the file. */
static kvs_status next_value(kvsi_documents *d, int *found, kvs_err *err)
{
    const char *line = NULL;
    size_t size = 0;

    json_decref(d->value);
    d->value = NULL;
    do
        TRY(next_line(d, &line, &size, found, err));
    while (*found && is_blank(line, size));
    if (*found)
        TRY(parse_line(d, line, size, err));
    return KVS_OK;
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

/* ---- both ------------------------------------------------------------------------------------ */

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

    if (!documents->lines)
        return next_full_text(documents, piece, found, err);
    do
        st = next_field(documents, piece, found, err);
    while (st == KVS_OK && *found && piece->size == 0);
    return st;
}

/* ---- objects --------------------------------------------------------------------------------- */

int kvsi_documents_has_lines(const kvsi_documents *documents)
{
    return documents->lines;
}

void kvsi_documents_limit_lines(kvsi_documents *documents, size_t bytes)
{
    documents->line_limit = bytes;
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
