/* A context and its continuation: where one ends and the other begins, in ids.
 *
 * The rule is lm-evaluation-harness's, so that scores compare: a token that reaches across the
 * border belongs to the side that encoding the context alone gives it. */
#include "base/memory.h"
#include "base/utf8.h"
#include "tokenizer/characters.h"
#include "tokenizer/tokenizer.h"

static size_t without_space(const char *text, size_t size)
{
    while (size > 0) {
        uint32_t code;
        const size_t length = kvsi_utf8_last(text, size, &code);

        if (!kvsi_is_space(code))
            break;
        size -= length;
    }
    return size;
}

/* What stands for nothing: the tokenizer's own start of a text, else BOS, else EOS. */
static kvs_status add_nothing(const kvs_tokenizer *t, kvsi_ids *out, kvs_err *err)
{
    const int32_t id = t->bos >= 0 ? t->bos : t->eos;

    if (t->before.count > 0)
        return kvsi_ids_add(out, t->before.ids, t->before.count, err);
    if (id < 0)
        return kvsi_fail(err, KVS_E_INVALID,
                         "the context is empty, and the tokenizer has neither "
                         "BOS nor EOS to stand for it");
    return kvsi_ids_add(out, &id, 1, err);
}

/* Adds the ids of both texts together from number `from` on. */
static kvs_status add_rest(const kvs_tokenizer *t, kvsi_ids *out, const kvsi_text *both,
                           size_t from, kvs_err *err)
{
    int32_t *ids = NULL;
    size_t count;
    kvs_status st;

    TRY_OUT(kvs_tokenizer_encode(t, both->data, both->length, KVS_ENCODE_NO_SPECIAL, &ids, &count,
                                 err));
    if (count > from)
        TRY_OUT(kvsi_ids_add(out, ids + from, count - from, err));
    else
        st = kvsi_fail(err, KVS_E_INVALID,
                       "the continuation has no token of its own: the context has %zu tokens, both "
                       "together %zu",
                       from, count);
out:
    kvsi_free(ids);
    return st;
}

kvs_status kvs_tokenizer_encode_pair(const kvs_tokenizer *t, const char *context,
                                     size_t context_size, const char *continuation,
                                     size_t continuation_size, int32_t **ids, size_t *count,
                                     size_t *context_count, kvs_err *err)
{
    const size_t size = without_space(context, context_size);
    kvsi_ids out = {0};
    kvsi_text both = {0};
    int32_t *alone = NULL;
    size_t alone_count = 0;
    kvs_status st;

    *ids = NULL;
    *count = *context_count = 0;
    kvsi_text_add_bytes(&both, context, context_size);
    kvsi_text_add_bytes(&both, continuation, continuation_size);
    TRY_OUT(kvsi_text_check(&both, err));
    TRY_OUT(
        kvs_tokenizer_encode(t, context, size, KVS_ENCODE_NO_SPECIAL, &alone, &alone_count, err));
    if (alone_count == 0)
        TRY_OUT(add_nothing(t, &out, err));
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
