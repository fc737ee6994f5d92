/* eval/records.h - files of documents: every document as a JSON object with its line.
 *
 *     .jsonl   one object per line; blank lines are skipped
 *     .json    an array of objects, or objects one after another
 *     .csv     RFC 4180, read as Python does: a quote inside a cell that does not start with one
 *              is a character; cells are texts; the first row has the names of the fields
 *
 * All may be compressed, with .zst appended to the name.  Lines end with \n, \r\n or \r; a byte
 * order mark at the start is skipped.  Text that is not UTF-8, or has a NUL, is refused. */
#ifndef KVSI_EVAL_RECORDS_H
#define KVSI_EVAL_RECORDS_H

#include "base/json.h"

enum {
    KVSI_RECORD_BYTES = 16 << 20,       /* largest line, object or row */
    KVSI_RECORD_FILE_BYTES = 256 << 20, /* largest file, after decompression */
};

typedef struct kvsi_record {
    json_t *fields; /* an object; owned */
    size_t line;    /* its first line, from 1 */
} kvsi_record;

typedef struct kvsi_records {
    kvsi_record *items;
    size_t count, capacity;
    uint64_t checksum; /* XXH64 of the file */
} kvsi_records;

/* Whether the name ends in one of the endings above. */
int kvsi_is_records_file(const char *path);

/* A file without documents is refused.  `columns` (NULL = none) ends with NULL: the fields of a
 * .csv file without a first row of names.  Such a row is known by the name columns[0], in any
 * case. */
kvs_status kvsi_records_read(kvsi_records *out, const char *path, const char *const *columns,
                             kvs_err *err);
void kvsi_records_release(kvsi_records *records);

#endif
