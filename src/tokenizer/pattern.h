/* tokenizer/pattern.h - regular expressions for splitting text, by PCRE2.
 *
 * Tokenizer files use Oniguruma's Ruby syntax.  Constructs with another meaning in PCRE2 are
 * translated: \s, \S, \w, \W to Unicode properties, ^ and $ to match at every line.  Nested
 * classes, class intersections, \K and \c are refused.
 *
 * Only pattern.c includes pcre2.h.  Several threads may use one pattern at once, each with its own
 * matcher. */
#ifndef KVSI_TOKENIZER_PATTERN_H
#define KVSI_TOKENIZER_PATTERN_H

#include "base/status.h"

#include <stddef.h>
#include <stdint.h>

typedef struct kvsi_pattern kvsi_pattern;
typedef struct kvsi_matcher kvsi_matcher;

#define KVSI_GPT2_EXPRESSION                                                                       \
    "'s|'t|'re|'ve|'m|'ll|'d| ?\\p{L}+| ?\\p{N}+| ?[^\\s\\p{L}\\p{N}]+|\\s+(?!\\S)|\\s+"

kvs_status kvsi_pattern_create(kvsi_pattern **out, const char *expression, kvs_err *err);
/* Matches the text itself. */
kvs_status kvsi_pattern_create_literal(kvsi_pattern **out, const char *text, size_t size,
                                       kvs_err *err);
void kvsi_pattern_free(kvsi_pattern *pattern);

/* A matcher is the memory that a match needs.  It works with any pattern, but only one thread may
 * use it at a time.  It keeps nothing between two calls of kvsi_search_next, so several searches of
 * one thread may use it in turn, also nested ones. */
kvs_status kvsi_matcher_create(kvsi_matcher **out, kvs_err *err);
void kvsi_matcher_free(kvsi_matcher *matcher);

/* An iteration over the matches in a text, which must be valid UTF-8 and outlive the search.  All
 * matches together may take a number of steps proportional to the length of the text; then the
 * search fails with KVS_E_LIMIT. */
typedef struct kvsi_search {
    const kvsi_pattern *pattern;
    kvsi_matcher *matcher;
    const char *text;
    size_t size;
    uint64_t left; /* steps left */
} kvsi_search;

kvsi_search kvsi_search_begin(const kvsi_pattern *pattern, kvsi_matcher *matcher, const char *text,
                              size_t size);
/* The next match that is not empty: from <= *start < *end <= size, both at character boundaries.
 * *end = 0: no more matches. */
kvs_status kvsi_search_next(kvsi_search *search, size_t from, size_t *start, size_t *end,
                            kvs_err *err);

#endif
