/* Text to ids: added tokens are cut out; the text between them is normalized, split and encoded. */
#include "base/array.h"
#include "base/memory.h"
#include "base/utf8.h"
#include "tokenizer/characters.h"
#include "tokenizer/tokenizer.h"

typedef struct encoder {
    const kvs_tokenizer *t;
    kvsi_workspace *workspace;
    kvsi_ids *out;
    kvs_err *err;
} encoder;

typedef kvs_status (*text_callback)(const encoder *e, const char *text, size_t size, int first);

/* ---- added tokens ---------------------------------------------------------------------------- */

static int is_single_word(const char *text, size_t size, size_t start, size_t end)
{
    uint32_t before = KVSI_NO_CHARACTER, after = KVSI_NO_CHARACTER;

    if (start > 0)
        kvsi_utf8_last(text, start, &before);
    if (end < size)
        kvsi_utf8_next(text + end, size - end, &after);
    return !kvsi_is_word(before) && !kvsi_is_word(after);
}

/* The start of the spaces before `start`, but not less than `least`. */
static size_t skip_spaces_left(const char *text, size_t start, size_t least)
{
    uint32_t code;

    while (start > least) {
        const size_t length = kvsi_utf8_last(text, start, &code);

        if (!kvsi_is_space(code))
            break;
        start -= length;
    }
    return start > least ? start : least;
}

static size_t skip_spaces_right(const char *text, size_t size, size_t end)
{
    uint32_t code;

    while (end < size) {
        const size_t length = kvsi_utf8_next(text + end, size - end, &code);

        if (!kvsi_is_space(code))
            break;
        end += length;
    }
    return end;
}

/* Passes the text between added tokens to `callback` and appends the ids of the added tokens. */
static kvs_status cut_out_added(const encoder *e, const kvsi_trie *trie, const char *text,
                                size_t size, int first, text_callback callback)
{
    size_t done = 0, from = 0, at, length;
    int32_t index;

    while ((length = kvsi_trie_find(trie, text, size, from, &at, &index)) > 0) {
        const kvsi_added *added = e->t->added + index;
        size_t end = at + length;

        from = end;
        if (added->single_word && !is_single_word(text, size, at, end))
            continue;
        if (added->strip_left)
            at = skip_spaces_left(text, at, done);
        if (added->strip_right)
            from = end = skip_spaces_right(text, size, end);
        if (at > done)
            TRY(callback(e, text + done, at - done, first && done == 0));
        TRY(kvsi_ids_add(e->out, &added->id, 1, e->err));
        done = end;
    }
    if (size > done)
        TRY(callback(e, text + done, size - done, first && done == 0));
    return KVS_OK;
}

/* ---- the text between added tokens ----------------------------------------------------------- */

static kvs_status encode_word(void *user, const char *word, size_t size, kvs_err *err)
{
    const encoder *e = user;

    return kvsi_encode_word(e->t, e->workspace, word, size, e->out, err);
}

static kvs_status encode_normalized(const encoder *e, const char *text, size_t size, int first)
{
    return kvsi_pre_tokenize(e->t, e->workspace->matcher, text, size, first, encode_word, (void *)e,
                             e->err);
}

static kvs_status encode_raw(const encoder *e, const char *text, size_t size, int first)
{
    kvsi_text normalized = {0};
    kvs_status st;

    if (!e->t->normalizers.count)
        return cut_out_added(e, &e->t->added_normalized, text, size, first, encode_normalized);
    kvsi_text_add(&normalized, "");
    TRY_OUT(
        kvsi_normalize(&e->t->normalizers, e->workspace->matcher, &normalized, text, size, e->err));
    TRY_OUT(cut_out_added(e, &e->t->added_normalized, normalized.data, normalized.length, first,
                          encode_normalized));
out:
    kvsi_text_release(&normalized);
    return st;
}

kvs_status kvs_tokenizer_encode(int32_t **ids, size_t *count, const kvs_tokenizer *t,
                                const char *text, size_t size, unsigned flags, kvs_err *err)
{
    const int add_special = !(flags & KVS_ENCODE_NO_SPECIAL);
    kvsi_ids out = {0};
    encoder e = {.t = t, .out = &out, .err = err};
    kvs_status st;

    NEED(ids);
    *ids = NULL;
    NEED(count);
    *count = 0;
    NEED_AS(t, tokenizer);
    NEED_ARRAY(text, size);
    if (flags & ~(unsigned)KVS_ENCODE_NO_SPECIAL)
        return kvsi_fail(err, KVS_E_INVALID, "unknown flags 0x%x for encoding", flags);
    TRY_OUT(kvsi_workspace_take(&e.workspace, t->workspaces, err));
    TRY_OUT(kvsi_array_reserve(&out.ids, &out.capacity, size / 4 + 16, sizeof *out.ids, err));
    if (add_special)
        TRY_OUT(kvsi_ids_add(&out, t->before.ids, t->before.count, err));
    TRY_OUT(cut_out_added(&e, &t->added_raw, text, size, 1, encode_raw));
    if (add_special)
        TRY_OUT(kvsi_ids_add(&out, t->after.ids, t->after.count, err));
    *ids = out.ids;
    *count = out.count;
    out.ids = NULL;
out:
    kvsi_workspace_put(t->workspaces, e.workspace, st);
    kvsi_free(out.ids);
    return st;
}

void kvs_ids_free(int32_t *ids)
{
    kvsi_free(ids);
}

void kvs_text_free(char *text)
{
    kvsi_free(text);
}
