/* Pre-tokenizers.  Each step splits or changes a piece of text and passes the results to the next
 * step; the results of the last step are the words. */
#include "base/utf8.h"
#include "tokenizer/characters.h"
#include "tokenizer/tokenizer.h"

#include <string.h>

typedef struct splitter {
    const kvs_tokenizer *t;
    kvsi_matcher *matcher;
    kvsi_word_callback callback;
    void *user;
    kvs_err *err;
    size_t limit, *made; /* bytes that steps may produce, and have produced */
} splitter;

/* Applies the steps from `step` on; `first`: the piece starts the text. */
static kvs_status run(const splitter *s, size_t step, const char *text, size_t size, int first);

/* ---- splitting: matches and the text between them, joined according to the behavior ---------- */

typedef struct cutter {
    const splitter *splitter;
    const kvsi_component *component;
    size_t step; /* the step that receives the pieces */
    const char *text;
    int first;
    size_t from, to; /* the pending piece; empty at first */
    int is_match;    /* whether its last part is a match */
} cutter;

static kvs_status flush(cutter *c)
{
    const size_t from = c->from;

    c->from = c->to;
    if (from == c->to || (c->component->behavior == KVSI_REMOVED && c->is_match))
        return KVS_OK;
    return run(c->splitter, c->step, c->text + from, c->to - from, c->first && from == 0);
}

static int joins(const cutter *c, int is_match)
{
    switch (c->component->behavior) {
    case KVSI_CONTIGUOUS:
        return is_match == c->is_match;
    case KVSI_MERGED_WITH_PREVIOUS:
        return is_match && !c->is_match;
    case KVSI_MERGED_WITH_NEXT:
        return !is_match && c->is_match;
    case KVSI_REMOVED:
    case KVSI_ISOLATED:
        break;
    }
    return 0;
}

/* Adds the part of the text up to `to`. */
static kvs_status add_part(cutter *c, size_t to, int is_match)
{
    kvs_status st = KVS_OK;

    if (to == c->to)
        return KVS_OK;
    is_match ^= c->component->invert;
    if (c->from == c->to || !joins(c, is_match))
        st = flush(c);
    c->to = to;
    c->is_match = is_match;
    return st;
}

/* Splits text[at .. end-1], which is valid UTF-8.  The expression sees nothing outside this
 * range. */
static kvs_status cut_by_pattern(cutter *c, size_t at, size_t end)
{
    const char *text = c->text + at;
    const size_t size = end - at;
    kvsi_search search = kvsi_search_begin(c->component->pattern, c->splitter->matcher, text, size);

    for (size_t done = 0; done < size;) {
        size_t start, stop;

        TRY(kvsi_search_next(&search, done, &start, &stop, c->splitter->err));
        if (!stop)
            return add_part(c, end, 0);
        TRY(add_part(c, at + start, 0));
        TRY(add_part(c, at + stop, 1));
        done = stop;
    }
    return KVS_OK;
}

static kvs_status cut_by_character(cutter *c, size_t at, size_t end)
{
    while (at < end) {
        const size_t start = at;
        uint32_t code;

        at += kvsi_utf8_next(c->text + at, end - at, &code);
        if (!c->component->is(code))
            continue;
        TRY(add_part(c, start, 0));
        TRY(add_part(c, at, 1));
    }
    return add_part(c, end, 0);
}

/* Bytes that are not UTF-8 become separate pieces for every behavior, so no text is lost. */
static kvs_status cut(const splitter *s, size_t next, const kvsi_component *component,
                      const char *text, size_t size, int first)
{
    cutter c = {.splitter = s, .component = component, .step = next, .text = text, .first = first};

    for (size_t at = 0; at < size;) {
        const size_t valid = kvsi_utf8_valid(text + at, size - at);
        size_t odd = at + valid;

        if (valid > 0)
            TRY(component->pattern ? cut_by_pattern(&c, at, odd) : cut_by_character(&c, at, odd));
        TRY(flush(&c));
        at = odd;
        while (odd < size && kvsi_utf8_valid(text + odd, size - odd) == 0)
            odd++;
        if (odd > at)
            TRY(run(s, next, text + at, odd - at, first && at == 0));
        at = c.from = c.to = odd;
    }
    return KVS_OK;
}

/* ---- steps that change the text -------------------------------------------------------------- */

void kvsi_map_bytes(kvsi_text *out, const char *bytes, size_t size)
{
    for (size_t i = 0; i < size; i++) {
        char character[4];

        kvsi_text_add_bytes(out, character,
                            kvsi_utf8_put(character, kvsi_byte_character((unsigned char)bytes[i])));
    }
}

static kvs_status check_made(const splitter *s, const kvsi_text *text)
{
    const kvs_status st = kvsi_text_check(text, s->err);

    *s->made += text->length;
    return st != KVS_OK ? st : kvsi_check_growth(*s->made, s->limit, s->err);
}

/* As the last step it passes bytes unmapped, since the model looks them up in byte_ids. */
static kvs_status byte_level(const splitter *s, size_t step, const char *text, size_t size,
                             int first)
{
    kvsi_text mapped = {0};
    kvs_status st;

    if (step + 1 == s->t->pre_tokenizers.count)
        return s->callback(s->user, text, size, s->err);
    kvsi_map_bytes(&mapped, text, size);
    TRY_OUT(check_made(s, &mapped));
    TRY_OUT(run(s, step + 1, mapped.data, mapped.length, first));
out:
    kvsi_text_release(&mapped);
    return st;
}

static kvs_status prefix_space(const splitter *s, size_t step, const char *text, size_t size,
                               int first)
{
    kvsi_text prefixed = {0};
    kvs_status st;

    if (text[0] == ' ')
        return run(s, step + 1, text, size, first);
    kvsi_text_add(&prefixed, " ");
    kvsi_text_add_bytes(&prefixed, text, size);
    TRY_OUT(check_made(s, &prefixed));
    TRY_OUT(run(s, step + 1, prefixed.data, prefixed.length, first));
out:
    kvsi_text_release(&prefixed);
    return st;
}

static kvs_status metaspace(const splitter *s, size_t step, const char *text, size_t size,
                            int first)
{
    const kvsi_component *c = s->t->pre_tokenizers.list + step;
    kvsi_text spaced = {0};
    kvs_status st;
    int prefix = c->prefix == KVSI_PREFIX_ALWAYS || (c->prefix == KVSI_PREFIX_FIRST && first);

    if (text[0] == ' ' ||
        (size >= c->content_size && memcmp(text, c->content, c->content_size) == 0))
        prefix = 0;
    kvsi_text_add(&spaced, prefix ? c->content : "");
    for (size_t i = 0; i < size; i++) {
        if (text[i] == ' ')
            kvsi_text_add_bytes(&spaced, c->content, c->content_size);
        else
            kvsi_text_add_bytes(&spaced, text + i, 1);
    }
    TRY_OUT(check_made(s, &spaced));
    if (c->split)
        TRY_OUT(cut(s, step + 1, c, spaced.data, spaced.length, first));
    else
        TRY_OUT(run(s, step + 1, spaced.data, spaced.length, first));
out:
    kvsi_text_release(&spaced);
    return st;
}

/* ---- all steps ------------------------------------------------------------------------------- */

static kvs_status run(const splitter *s, size_t step, const char *text, size_t size, int first)
{
    const kvsi_component *c;

    if (size == 0)
        return KVS_OK;
    if (step >= s->t->pre_tokenizers.count)
        return s->callback(s->user, text, size, s->err);
    c = s->t->pre_tokenizers.list + step;
    switch (c->kind) {
    case KVSI_BYTE_LEVEL:
        return byte_level(s, step, text, size, first);
    case KVSI_PREFIX_SPACE:
        return prefix_space(s, step, text, size, first);
    case KVSI_METASPACE:
        return metaspace(s, step, text, size, first);
    default:
        return cut(s, step + 1, c, text, size, first);
    }
}

kvs_status kvsi_pre_tokenize(const kvs_tokenizer *t, kvsi_matcher *matcher, const char *text,
                             size_t size, int first, kvsi_word_callback callback, void *user,
                             kvs_err *err)
{
    size_t made = 0;
    const splitter s = {t, matcher, callback, user, err, kvsi_growth_limit(size), &made};

    return run(&s, 0, text, size, first);
}
