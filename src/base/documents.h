/* base/documents.h - iterates over the documents of text files, in pieces of bounded size.
 *
 *     .jsonl    one field of each line, which is a JSON object
 *     .json     the same field of each object of a JSON array
 *     others    text: the whole file, or the parts between separators; a line end right after a
 *               separator belongs to the separator
 *
 * All may be compressed, with .zst or .gz appended to the name.  Empty documents are skipped.  A
 * document is one piece or, above KVSI_PIECE_BYTES, several, split at line ends where possible. */
#ifndef KVSI_BASE_DOCUMENTS_H
#define KVSI_BASE_DOCUMENTS_H

#include "base/json.h"

enum { KVSI_PIECE_BYTES = 16 << 20, KVSI_LINE_BYTES = 256 << 20 };

#define KVSI_DEFAULT_FIELD "text"
#define KVSI_DEFAULT_SEPARATOR "<|endoftext|>"

typedef struct kvsi_documents kvsi_documents;

typedef struct kvsi_document_piece {
    const char *text; /* any bytes; valid until the next call */
    size_t size;      /* may be 0 at the end of a document of several pieces */
    int last;         /* the last piece of its document */
} kvsi_document_piece;

/* Whether the name is that of a text: .txt, .md, .jsonl or .json, plain or compressed.  Files with
 * other names can be opened, too. */
int kvsi_documents_is_text(const char *name);

/* The strings are borrowed; NULL = default.  With separator "" a text file is one document. */
kvs_status kvsi_documents_open(kvsi_documents **out, const char *path, const char *field,
                               const char *separator, kvs_err *err);
void kvsi_documents_close(kvsi_documents *documents);
/* *found = 0: no more documents. */
kvs_status kvsi_documents_next(kvsi_documents *documents, kvsi_document_piece *piece, int *found,
                               kvs_err *err);

/* Bytes and checksum of the file read so far. */
uint64_t kvsi_documents_bytes(const kvsi_documents *documents);
uint64_t kvsi_documents_checksum(const kvsi_documents *documents);

/* Whether the file has objects of JSON.  If it does, they can be read instead of documents.
 * *object is borrowed until the next call; NULL = no more objects. */
int kvsi_documents_has_objects(const kvsi_documents *documents);
kvs_status kvsi_documents_next_object(kvsi_documents *documents, json_t **object, kvs_err *err);
/* Returns the number of the line in which the last object starts; the first is 1. */
uint64_t kvsi_documents_line(const kvsi_documents *documents);
/* Sets the size above which an object is refused, KVSI_LINE_BYTES by default. */
void kvsi_documents_limit_objects(kvsi_documents *documents, size_t bytes);

/* Where to split a text of `size` bytes at `at` (0 < at < size) or up to an eighth before: after a
 * line end between two words, else after any line end, else at a character boundary. */
size_t kvsi_text_cut(const char *text, size_t size, size_t at);

#endif
