#include "base/text.h"

#include "base/math.h"
#include "base/memory.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

/* ---- growing text ---------------------------------------------------------------------------- */

/* Grows the text to hold `more` bytes and the final NUL. */
static int reserve(kvsi_text *text, size_t more)
{
    size_t need, capacity = text->capacity ? text->capacity : 128;
    char *data;

    if (text->failed)
        return 0;
    if (__builtin_add_overflow(text->length, more + 1, &need) || need > SIZE_MAX / 2) {
        text->failed = 1;
        return 0;
    }
    if (need <= text->capacity)
        return 1;
    while (capacity < need)
        capacity *= 2;
    data = kvsi_alloc(capacity, 1);
    if (!data) {
        text->failed = 1;
        return 0;
    }
    if (text->data)
        memcpy(data, text->data, text->length);
    kvsi_free(text->data);
    text->data = data;
    text->capacity = capacity;
    return 1;
}

void kvsi_text_add_bytes(kvsi_text *text, const char *more, size_t size)
{
    if (!reserve(text, size))
        return;
    memcpy(text->data + text->length, more, size);
    text->length += size;
    text->data[text->length] = '\0';
}

void kvsi_text_add(kvsi_text *text, const char *more)
{
    kvsi_text_add_bytes(text, more, strlen(more));
}

void kvsi_text_format(kvsi_text *text, const char *format, ...)
{
    va_list args;
    int size;

    va_start(args, format);
    size = vsnprintf(NULL, 0, format, args);
    va_end(args);
    if (size < 0 || !reserve(text, (size_t)size)) {
        text->failed = 1;
        return;
    }
    va_start(args, format);
    vsnprintf(text->data + text->length, (size_t)size + 1, format, args);
    va_end(args);
    text->length += (size_t)size;
}

static const char *xml_entity(char c)
{
    switch (c) {
    case '&':
        return "&amp;";
    case '<':
        return "&lt;";
    case '>':
        return "&gt;";
    case '"':
        return "&quot;";
    case '\'':
        return "&#39;";
    case '\n':
    case '\t':
        return NULL;
    default:
        return (unsigned char)c < 0x20 || c == 0x7f ? "?" : NULL;
    }
}

void kvsi_text_add_xml(kvsi_text *text, const char *more)
{
    for (; *more; more++) {
        const char *entity = xml_entity(*more);

        if (entity)
            kvsi_text_add(text, entity);
        else
            kvsi_text_add_bytes(text, more, 1);
    }
}

void kvsi_text_add_shell_word(kvsi_text *text, const char *word)
{
    static const char plain[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789"
                                "_-+=:,./@%";

    if (*word && word[strspn(word, plain)] == '\0') {
        kvsi_text_add(text, word);
        return;
    }
    kvsi_text_add(text, "'");
    for (; *word; word++) {
        if (*word == '\'')
            kvsi_text_add(text, "'\\''");
        else
            kvsi_text_add_bytes(text, word, 1);
    }
    kvsi_text_add(text, "'");
}

kvs_status kvsi_text_check(const kvsi_text *text, kvs_err *err)
{
    if (text->failed)
        return kvsi_no_memory(err, "a text of %zu bytes", text->length);
    return KVS_OK;
}

void kvsi_text_release(kvsi_text *text)
{
    kvsi_free(text->data);
    *text = (kvsi_text){0};
}

int kvsi_ends_with(const char *text, const char *end)
{
    const size_t size = strlen(text), tail = strlen(end);

    return size >= tail && strcmp(text + size - tail, end) == 0;
}

/* ---- patterns -------------------------------------------------------------------------------- */

/* After a mismatch the last * takes one character more, so the time is at most the product of both
 * lengths. */
int kvsi_matches(const char *pattern, size_t pattern_size, const char *text, size_t size)
{
    size_t p = 0, t = 0, star = SIZE_MAX, taken = 0;

    while (t < size) {
        if (p < pattern_size && pattern[p] == '*') {
            star = p++;
            taken = t;
        } else if (p < pattern_size && (pattern[p] == '?' || pattern[p] == text[t])) {
            p++;
            t++;
        } else if (star != SIZE_MAX) {
            p = star + 1;
            t = ++taken;
        } else {
            return 0;
        }
    }
    while (p < pattern_size && pattern[p] == '*')
        p++;
    return p == pattern_size;
}

/* ---- the nearest name ------------------------------------------------------------------------ */

enum {
    NAME_MAX_LENGTH = 64
}; /* of the compared part; the rest of a longer name counts as different */

size_t kvsi_edit_distance(const char *a, const char *b)
{
    const size_t full_a = strlen(a), full_b = strlen(b);
    const size_t n = kvsi_min(full_a, NAME_MAX_LENGTH), m = kvsi_min(full_b, NAME_MAX_LENGTH);
    size_t rows[3][NAME_MAX_LENGTH + 1];
    size_t *before = rows[0], *above = rows[1], *row = rows[2];

    for (size_t j = 0; j <= m; j++)
        above[j] = j;
    for (size_t i = 1; i <= n; i++) {
        size_t *const oldest = before;

        row[0] = i;
        for (size_t j = 1; j <= m; j++) {
            row[j] = above[j - 1] + (a[i - 1] != b[j - 1]);
            row[j] = kvsi_min(row[j], 1 + kvsi_min(above[j], row[j - 1]));
            if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1])
                row[j] = kvsi_min(row[j], before[j - 2] + 1);
        }
        before = above;
        above = row;
        row = oldest;
    }
    return above[m] + (full_a - n) + (full_b - m);
}

const char *kvsi_nearest_name(const char *name, const char *(*at)(const void *names, size_t index),
                              const void *names)
{
    const size_t length = strlen(name);
    const char *best = NULL, *containing = NULL, *candidate;
    size_t best_distance = 2 + length / 4; /* larger distances are unlikely to be typing errors */

    for (size_t i = 0; (candidate = at(names, i)) != NULL; i++) {
        const size_t distance = kvsi_edit_distance(name, candidate);

        if (distance < best_distance) {
            best = candidate;
            best_distance = distance;
        }
        if (!containing && length >= 3 && strstr(candidate, name))
            containing = candidate;
    }
    return best && best_distance < length ? best : containing;
}

/* ---- numbers in messages --------------------------------------------------------------------- */

void kvsi_format_duration(char *out, size_t size, double seconds)
{
    static const double YEAR = 365.25 * 86400;
    const double whole = floor(seconds + 0.5);
    unsigned long long s;

    if (!(seconds >= 0) || seconds > 1e15) {
        snprintf(out, size, "?");
        return;
    }
    s = (unsigned long long)whole;
    if (seconds > 0 && seconds < 0.095)
        snprintf(out, size, "%.2g ms", 1e3 * seconds);
    else if (seconds < 9.95)
        snprintf(out, size, "%.1f s", seconds);
    else if (s < 120)
        snprintf(out, size, "%llu s", s);
    else if (s < 7200)
        snprintf(out, size, "%llu min %02llu s", s / 60, s % 60);
    else if (s < 172800)
        snprintf(out, size, "%llu h %02llu min", s / 3600, s / 60 % 60);
    else if (s < 730 * 86400ULL)
        snprintf(out, size, "%llu d %02llu h", s / 86400, s / 3600 % 24);
    else
        snprintf(out, size, seconds < 100 * YEAR ? "%.3g years" : "%.0f years", seconds / YEAR);
}

void kvsi_format_count(char *out, size_t size, double count)
{
    static const char units[] = {'k', 'M', 'G', 'T', 'P', 'E'};
    size_t unit = 0;

    if (!isfinite(count)) {
        snprintf(out, size, "?");
        return;
    }
    if (count < 9999.5) {
        snprintf(out, size, "%.0f", count);
        return;
    }
    count /= 1000;
    while (count >= 999.5 && unit + 1 < sizeof units) {
        count /= 1000;
        unit++;
    }
    snprintf(out, size,
             count < 9.995   ? "%.2f%c"
             : count < 99.95 ? "%.1f%c"
                             : "%.0f%c",
             count, units[unit]);
}
