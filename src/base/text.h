/* base/text.h - growing text, quoting, the nearest name, and numbers in messages.
 *
 *     kvsi_text text = {0};
 *     kvsi_text_format(&text, "%d runs: ", 3);
 *     kvsi_text_add_xml(&text, name);
 *     TRY_OUT(kvsi_text_check(&text, err));     one check for all additions
 *     ... text.data ...
 * out:
 *     kvsi_text_release(&text); */
#ifndef KVSI_BASE_TEXT_H
#define KVSI_BASE_TEXT_H

#include "base/status.h"

#include <stddef.h>
#include <stdint.h>

/* Starts as {0}.  `data` is NUL-terminated, or NULL if nothing was added.  After memory has run
 * out, additions do nothing and kvsi_text_check fails. */
typedef struct kvsi_text {
    char *data;
    size_t length, capacity;
    int failed;
} kvsi_text;

void kvsi_text_add(kvsi_text *text, const char *more);
void kvsi_text_add_bytes(kvsi_text *text, const char *more, size_t size);
void kvsi_text_format(kvsi_text *text, const char *format, ...)
    __attribute__((format(printf, 2, 3)));
/* Safe as XML or HTML content and in quoted attributes; control characters become '?'. */
void kvsi_text_add_xml(kvsi_text *text, const char *more);
/* A word for a POSIX shell, quoted only if necessary. */
void kvsi_text_add_shell_word(kvsi_text *text, const char *word);
kvs_status kvsi_text_check(const kvsi_text *text, kvs_err *err);
void kvsi_text_release(kvsi_text *text);

int kvsi_ends_with(const char *text, const char *end);

/* The number of insertions, deletions, replacements and swaps of adjacent characters between two
 * names. */
size_t kvsi_edit_distance(const char *a, const char *b);
/* The most similar name, or NULL if none is close.  `at` gives name 0, 1, ... and NULL past the
 * end. */
const char *kvsi_nearest_name(const char *name, const char *(*at)(const void *names, size_t index),
                              const void *names);

/* Whether a text is what a pattern describes: ? is any character, * any number of them. */
int kvsi_matches(const char *pattern, size_t pattern_size, const char *text, size_t size);

/* "3.2 s", "47 s", "3 min 05 s", "2 h 07 min", "3 d 04 h", "12.3 years"; "?" if not finite or
 * negative. */
void kvsi_format_duration(char *out, size_t size, double seconds);
/* "9999", "12.3k", "4.56M", "7.89G" */
void kvsi_format_count(char *out, size_t size, double count);

#endif
