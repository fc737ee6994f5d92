/* Encodes a context and its continuation and finds the boundary between their ids.
 *
 * The rule is that of lm-evaluation-harness, so that scores are comparable: a token that crosses
 * the boundary belongs to the side that encoding the context alone assigns it to. */
#include "base/memory.h"
#include "base/utf8.h"
#include "tokenizer/characters.h"
#include "tokenizer/tokenizer.h"

static size_t trim_spaces(const char *text, size_t size)
{
    while (size > 0) {
        uint32_t code;
        const size_t length = kvsi_utf8_last(text, size, &code);

        if (!kvsi_is_python_space(code))
            break;
        size -= length;
    }
    return size;
}

/* An empty context becomes the template's ids before a text, or BOS, or EOS. */
static kvs_status add_empty_context(const kvs_tokenizer *t, kvsi_ids *out, kvs_err *err)
{
    const int32_t id = t->bos >= 0 ? t->bos : t->eos;

    if (t->before.count > 0)
        return kvsi_ids_add(out, t->before.ids, t->before.count, err);
    if (id < 0)
        return kvsi_fail(
            err, KVS_E_INVALID,
            "the context is empty, and the tokenizer has neither BOS nor EOS to replace it");
    return kvsi_ids_add(out, &id, 1, err);
}

/* Appends the ids of the joined text from index `from` on. */
static kvs_status add_rest(const kvs_tokenizer *t, kvsi_ids *out, const kvsi_text *both,
                           size_t from, kvs_err *err)
{
    int32_t *ids = NULL;
    size_t count;
    kvs_status st;

    TRY_OUT(kvs_tokenizer_encode(&ids, &count, t, both->data, both->length, KVS_ENCODE_NO_SPECIAL,
                                 err));
    if (count > from)
        TRY_OUT(kvsi_ids_add(out, ids + from, count - from, err));
    else
        st = kvsi_fail(err, KVS_E_INVALID,
                       "the continuation has no token of its own: the context has %zu tokens, "
                       "context and continuation %zu",
                       from, count);
out:
    kvsi_free(ids);
    return st;
}

kvs_status kvs_tokenizer_encode_pair(int32_t **ids, size_t *count, size_t *context_count,
                                     const kvs_tokenizer *t, const char *context,
                                     size_t context_size, const char *continuation,
                                     size_t continuation_size, kvs_err *err)
{
    size_t size;
    kvsi_ids out = {0};
    kvsi_text both = {0};
    int32_t *alone = NULL;
    size_t alone_count = 0;
    kvs_status st;

    NEED(ids);
    *ids = NULL;
    NEED(count);
    NEED(context_count);
    *count = *context_count = 0;
    NEED_AS(t, tokenizer);
    NEED_ARRAY(context, context_size);
    NEED_ARRAY(continuation, continuation_size);
    size = trim_spaces(context, context_size);
    kvsi_text_add_bytes(&both, context, context_size);
    kvsi_text_add_bytes(&both, continuation, continuation_size);
    TRY_OUT(kvsi_text_check(&both, err));
    TRY_OUT(
        kvs_tokenizer_encode(&alone, &alone_count, t, context, size, KVS_ENCODE_NO_SPECIAL, err));
    if (alone_count == 0)
        TRY_OUT(add_empty_context(t, &out, err));
    else
        TRY_OUT(kvsi_ids_add(&out, t->before.ids, t->before.count, err));
    TRY_OUT(kvsi_ids_add(&out, alone, alone_count, err));
    *context_count = out.count;
    TRY_OUT(add_rest(t, &out, &both, alone_count, err));
    *ids = out.ids;
    *count = out.count;
    out.ids = NULL;
out:
    kvsi_text_release(&both);
    kvsi_free(alone);
    kvsi_free(out.ids);
    return st;
}
