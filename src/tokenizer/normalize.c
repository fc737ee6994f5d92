/* Normalizers.  Bytes that are not UTF-8 are copied; the text before and after them is normalized
 * separately. */
#include "base/memory.h"
#include "base/utf8.h"
#include "tokenizer/character_map.h"
#include "tokenizer/characters.h"
#include "tokenizer/tokenizer.h"

#include <stdlib.h>
#include <utf8proc.h>

/* Nested replacements in a hostile file could exhaust memory.  Real normalizers make a text at most
 * 3 times as long, 18 times for the rarest characters. */
enum { LARGEST_GROWTH = 64, ALWAYS_ALLOWED = 1 << 12 /* bytes */ };

size_t kvsi_growth_limit(size_t size)
{
    return size * LARGEST_GROWTH + ALWAYS_ALLOWED;
}

kvs_status kvsi_check_growth(size_t size, size_t limit, kvs_err *err)
{
    if (size > limit)
        return kvsi_fail(err, KVS_E_LIMIT,
                         "the tokenizer makes the text more than %d times as long", LARGEST_GROWTH);
    return KVS_OK;
}

/* ---- normalizers of valid UTF-8 -------------------------------------------------------------- */

static kvs_status compose(kvsi_component_kind kind, kvsi_text *out, const char *text, size_t size,
                          kvs_err *err)
{
    const int compatible = kind == KVSI_NFKC || kind == KVSI_NFKD;
    const int composed = kind == KVSI_NFC || kind == KVSI_NFKC;
    const int options = UTF8PROC_STABLE | (composed ? UTF8PROC_COMPOSE : UTF8PROC_DECOMPOSE) |
                        (compatible ? UTF8PROC_COMPAT : 0);
    utf8proc_uint8_t *fresh = NULL;
    const utf8proc_ssize_t length = utf8proc_map(
        (const utf8proc_uint8_t *)text, (utf8proc_ssize_t)size, &fresh, (utf8proc_option_t)options);

    if (length < 0)
        return kvsi_fail(err, KVS_E_LIMIT, "cannot normalize a text of %zu bytes: %s", size,
                         utf8proc_errmsg(length));
    kvsi_text_add_bytes(out, (const char *)fresh, (size_t)length);
    free(fresh); /* from utf8proc's malloc */
    return KVS_OK;
}

static void lower(kvsi_text *out, const char *text, size_t size)
{
    while (size > 0) {
        uint32_t code;
        const size_t length = kvsi_utf8_next(text, size, &code);
        char bytes[4];

        if (code == 0x130) /* the only character whose lower case is two characters */
            kvsi_text_add(out, "i\xcc\x87");
        else
            kvsi_text_add_bytes(
                out, bytes,
                kvsi_utf8_put(bytes, (uint32_t)utf8proc_tolower((utf8proc_int32_t)code)));
        text += length;
        size -= length;
    }
}

static kvs_status replace(const kvsi_component *c, kvsi_matcher *matcher, kvsi_text *out,
                          size_t limit, const char *text, size_t size, kvs_err *err)
{
    kvsi_search search = kvsi_search_begin(c->pattern, matcher, text, size);
    size_t at = 0;

    for (;;) {
        size_t start, end;

        TRY(kvsi_search_next(&search, at, &start, &end, err));
        if (!end)
            break;
        kvsi_text_add_bytes(out, text + at, start - at);
        kvsi_text_add_bytes(out, c->content, c->content_size);
        TRY(kvsi_check_growth(out->length, limit, err));
        at = end;
    }
    kvsi_text_add_bytes(out, text + at, size - at);
    return KVS_OK;
}

static kvs_status normalize_valid(const kvsi_component *c, kvsi_matcher *matcher, kvsi_text *out,
                                  size_t limit, const char *text, size_t size, kvs_err *err)
{
    if (c->kind == KVSI_REPLACE)
        return replace(c, matcher, out, limit, text, size, err);
    if (c->kind == KVSI_CHARACTER_MAP) {
        kvsi_character_map_apply(c->content, c->content_size, c->keep, out, text, size);
        return KVS_OK;
    }
    if (c->kind != KVSI_LOWERCASE)
        return compose(c->kind, out, text, size, err);
    lower(out, text, size);
    return KVS_OK;
}

/* ---- normalizers of any text ----------------------------------------------------------------- */

static void strip_spaces(const kvsi_component *c, kvsi_text *out, const char *text, size_t size)
{
    uint32_t code;

    while (c->start && size > 0) {
        const size_t length = kvsi_utf8_next(text, size, &code);

        if (!kvsi_is_space(code))
            break;
        text += length;
        size -= length;
    }
    while (c->stop && size > 0) {
        const size_t length = kvsi_utf8_last(text, size, &code);

        if (!kvsi_is_space(code))
            break;
        size -= length;
    }
    kvsi_text_add_bytes(out, text, size);
}

static kvs_status normalize_once(const kvsi_component *c, kvsi_matcher *matcher, kvsi_text *out,
                                 size_t limit, const char *text, size_t size, kvs_err *err)
{
    if (c->kind == KVSI_STRIP_SPACES) {
        strip_spaces(c, out, text, size);
        return KVS_OK;
    }
    if (c->kind == KVSI_PREPEND) {
        if (size > 0)
            kvsi_text_add_bytes(out, c->content, c->content_size);
        kvsi_text_add_bytes(out, text, size);
        return KVS_OK;
    }
    while (size > 0) {
        const size_t valid = kvsi_utf8_valid(text, size);

        if (valid > 0) {
            TRY(normalize_valid(c, matcher, out, limit, text, valid, err));
        } else {
            kvsi_text_add_bytes(out, text, 1);
        }
        text += valid > 0 ? valid : 1;
        size -= valid > 0 ? valid : 1;
    }
    return KVS_OK;
}

kvs_status kvsi_normalize(const kvsi_components *normalizers, kvsi_matcher *matcher, kvsi_text *out,
                          const char *text, size_t size, kvs_err *err)
{
    const size_t limit = kvsi_growth_limit(size);
    kvsi_text now = {0}, next = {0};
    kvs_status st;

    kvsi_text_add_bytes(&now, text, size);
    TRY_OUT(kvsi_text_check(&now, err));
    for (size_t i = 0; i < normalizers->count; i++) {
        kvsi_text swap;

        next.length = 0;
        kvsi_text_add(&next, "");
        TRY_OUT(normalize_once(normalizers->list + i, matcher, &next, limit, now.data, now.length,
                               err));
        TRY_OUT(kvsi_text_check(&next, err));
        TRY_OUT(kvsi_check_growth(next.length, limit, err));
        swap = now;
        now = next;
        next = swap;
    }
    kvsi_text_add_bytes(out, now.data, now.length);
    TRY_OUT(kvsi_text_check(out, err));
out:
    kvsi_text_release(&now);
    kvsi_text_release(&next);
    return st;
}
