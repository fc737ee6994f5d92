/* Where a long text can be split without changing its ids.
 *
 * A merge across the boundary of two characters joins a token that ends with the first to a token
 * that starts with the second.  If no merge does that, both sides can be encoded separately.
 * Vocabularies without a pre-tokenizer treat the whole text as one word; this splits it into short
 * parts, which are also found in the word cache. */
#include "base/utf8.h"
#include "tokenizer/tokenizer.h"

static kvs_status add_joinable(kvs_tokenizer *t, uint32_t left, uint32_t right, kvs_err *err)
{
    const kvsi_merge pair = {.left = (int32_t)left, .right = (int32_t)right};

    return kvsi_merges_set(&t->joinable, &pair, err);
}

kvs_status kvsi_find_joinable(kvs_tokenizer *t, kvs_err *err)
{
    for (size_t i = 0; i < t->merges.slot_count; i++) {
        const kvsi_merge *merge = t->merges.slots + i;
        kvsi_bytes left, right;
        uint32_t last, first;
        kvs_status st;

        if (merge->result < 0)
            continue;
        left = kvsi_vocabulary_at(&t->vocabulary, (size_t)merge->left);
        right = kvsi_vocabulary_at(&t->vocabulary, (size_t)merge->right);
        kvsi_utf8_last(left.text, left.size, &last);
        kvsi_utf8_next(right.text, right.size, &first);
        st = add_joinable(t, last, first, err);
        if (st != KVS_OK)
            return st;
    }
    return KVS_OK;
}

kvs_status kvsi_forbid_split(kvs_tokenizer *t, const char *text, size_t size, kvs_err *err)
{
    uint32_t before, code;
    size_t at = kvsi_utf8_next(text, size, &before);

    for (; at < size; before = code) {
        kvs_status st;

        at += kvsi_utf8_next(text + at, size - at, &code);
        st = add_joinable(t, before, code, err);
        if (st != KVS_OK)
            return st;
    }
    return KVS_OK;
}

/* Runs of unknown characters may share one id, so they are not split. */
static int is_token(const kvs_tokenizer *t, const char *text, size_t size)
{
    const int32_t id = kvsi_vocabulary_find(&t->vocabulary, text, size);

    return id >= 0 && (size_t)id < t->vocab;
}

size_t kvsi_safe_prefix(const kvs_tokenizer *t, const char *text, size_t size)
{
    uint32_t before, code;
    size_t length = kvsi_utf8_next(text, size, &before), next;

    for (size_t at = length; at < size; at += next, length = next, before = code) {
        next = kvsi_utf8_next(text + at, size - at, &code);
        if (!kvsi_merges_find(&t->joinable, (int32_t)before, (int32_t)code) &&
            is_token(t, text + at - length, length) && is_token(t, text + at, next))
            return at;
    }
    return size;
}
