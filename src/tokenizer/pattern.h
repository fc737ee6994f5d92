/* tokenizer/pattern.h - the expressions that split text, by PCRE2.
 *
 * Files are written for Oniguruma in its Ruby form.  Where the same letters mean something else in
 * PCRE2, they are translated (\s, \S, \w, \W: Unicode's properties; ^ and $: at every line); what
 * cannot be, nested classes and intersections, is refused, and so is \K.
 *
 * This is the only place that includes pcre2.h.  One thread at a time uses a pattern. */
#ifndef KVSI_TOKENIZER_PATTERN_H
#define KVSI_TOKENIZER_PATTERN_H

#include "base/status.h"

#include <stddef.h>
#include <stdint.h>

typedef struct kvsi_pattern kvsi_pattern;

#define KVSI_GPT2_EXPRESSION                                                                       \
    "'s|'t|'re|'ve|'m|'ll|'d| ?\\p{L}+| ?\\p{N}+| ?[^\\s\\p{L}\\p{N}]+|\\s+(?!\\S)|\\s+"

kvs_status kvsi_pattern_create(kvsi_pattern **out, const char *expression, kvs_err *err);
/* Finds a text as it stands. */
kvs_status kvsi_pattern_create_literal(kvsi_pattern **out, const char *text, size_t size,
                                       kvs_err *err);
void kvsi_pattern_free(kvsi_pattern *pattern);

/* A walk over the matches in one text, which must be valid UTF-8 and outlive it.  All its matches
 * together may take a number of steps in proportion to the length of the text; after that
 * KVS_E_LIMIT. */
typedef struct kvsi_search {
    kvsi_pattern *pattern;
    const char *text;
    size_t size;
    uint64_t left; /* steps */
} kvsi_search;

kvsi_search kvsi_search_begin(kvsi_pattern *pattern, const char *text, size_t size);
/* The next match that is not empty: from <= *start < *end <= size, both where a character starts.
 * *end = 0 says that there is none. */
kvs_status kvsi_search_next(kvsi_search *search, size_t from, size_t *start, size_t *end,
                            kvs_err *err);

#endif
