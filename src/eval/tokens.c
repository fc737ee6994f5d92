#include "eval/tokens.h"

#include "base/memory.h"
#include "base/utf8.h"
#include "parallel/threads.h"
#include "tokenizer/characters.h"
#include "tokenizer/tokenizer.h"

#include <string.h>

enum { PIECE = 16 }; /* documents that one thread encodes at a time */

/* ---- one request ---- */

static kvs_status in_document(kvs_status st, const kvs_err *cause, const kvsi_eval_document *d,
                              kvs_err *err)
{
    return kvsi_fail(err, st, "'%.200s', line %zu: document %zu: %.250s", d->file, d->line, d->id,
                     cause->message);
}

/* The id that stands for an empty context: BOS, or EOS if there is none. */
static int32_t prefix_id(const kvs_tokenizer *t)
{
    return t->bos >= 0 ? t->bos : t->eos;
}

/* Whether a text starts with the string of the prefix token, and so brings its own BOS. */
static int has_own_prefix(const kvs_tokenizer *t, const char *text, size_t size)
{
    const int32_t id = prefix_id(t);
    const kvsi_bytes piece =
        id >= 0 ? kvsi_vocabulary_at(&t->vocabulary, (size_t)id) : (kvsi_bytes){0};

    return piece.text && piece.size > 0 && piece.size <= size &&
           memcmp(text, piece.text, piece.size) == 0;
}

/* Appends the ids of a text, with the tokens that come before it. */
static kvs_status add_text(kvsi_ids *out, const kvsi_eval_encoding *how, const char *text,
                           size_t size, kvs_err *err)
{
    const kvs_tokenizer *t = how->tokenizer;
    int32_t *ids = NULL;
    size_t count;
    kvs_status st = KVS_OK;

    if (how->bos == KVS_EVAL_BOS_TOKENIZER && !has_own_prefix(t, text, size))
        st = kvsi_ids_add(out, t->before.ids, t->before.count, err);
    if (how->bos == KVS_EVAL_BOS_ALWAYS && !has_own_prefix(t, text, size))
        st = kvsi_ids_add(out, &t->bos, 1, err);
    TRY_OUT(st);
    TRY_OUT(kvs_tokenizer_encode(&ids, &count, t, text, size, KVS_ENCODE_NO_SPECIAL, err));
    TRY_OUT(kvsi_ids_add(out, ids, count, err));
out:
    kvs_ids_free(ids);
    return st;
}

static size_t without_spaces_at_end(const char *text, size_t size)
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

/* An empty context is the prefix token.  If the continuation starts with that token itself, it is
 * not added. */
static kvs_status encode_alone(kvsi_ids *out, size_t *context_count, const kvsi_eval_encoding *how,
                               const char *continuation, kvs_err *err)
{
    const kvs_tokenizer *t = how->tokenizer;
    const int32_t prefix = prefix_id(t);
    int32_t *ids = NULL;
    size_t count;
    kvs_status st = KVS_OK;

    if (prefix < 0)
        return kvsi_fail(
            err, KVS_E_INVALID,
            "the context is empty, and the tokenizer has neither BOS nor EOS to replace it");
    TRY_OUT(kvs_tokenizer_encode(&ids, &count, t, continuation, strlen(continuation),
                                 KVS_ENCODE_NO_SPECIAL, err));
    if (count == 0 || ids[0] != prefix)
        TRY_OUT(kvsi_ids_add(out, &prefix, 1, err));
    TRY_OUT(kvsi_ids_add(out, ids, count, err));
    *context_count = 1;
out:
    kvs_ids_free(ids);
    return st;
}

static kvs_status encode_pair(kvsi_ids *out, size_t *context_count, const kvsi_eval_encoding *how,
                              const char *context, const char *continuation, kvs_err *err)
{
    const size_t size = strlen(context);
    kvsi_text both = {0};
    kvsi_ids whole = {0};
    kvs_status st;

    kvsi_text_add(&both, context);
    kvsi_text_add(&both, continuation);
    TRY_OUT(kvsi_text_check(&both, err));
    TRY_OUT(add_text(out, how, context, without_spaces_at_end(context, size), err));
    TRY_OUT(add_text(&whole, how, both.data, both.length, err));
    *context_count = out->count;
    if (whole.count > out->count)
        st = kvsi_ids_add(out, whole.ids + out->count, whole.count - out->count, err);
    else
        st = kvsi_fail(err, KVS_E_INVALID,
                       "the continuation has no token of its own: the context has %zu tokens, "
                       "context and continuation have %zu",
                       *context_count, whole.count);
out:
    kvsi_text_release(&both);
    kvsi_free(whole.ids);
    return st;
}

/* Keeps the last `most` ids. */
static void cut(kvsi_eval_ids *r, size_t most)
{
    const size_t excess = r->count > most ? r->count - most : 0;

    r->truncated = excess > 0;
    memmove(r->ids, r->ids + excess, (r->count - excess) * sizeof *r->ids);
    r->count -= excess;
    r->context_count -= excess;
}

static kvs_status encode_request(kvsi_eval_ids *out, const kvsi_eval_encoding *how,
                                 const kvsi_eval_request *request, kvs_err *err)
{
    const size_t most = how->max_length;
    kvsi_ids ids = {0};
    size_t context_count = 0;
    kvs_status st;

    if (request->continuation && request->context[0] == '\0')
        st = encode_alone(&ids, &context_count, how, request->continuation, err);
    else if (request->continuation)
        st = encode_pair(&ids, &context_count, how, request->context, request->continuation, err);
    else
        st = add_text(&ids, how, request->context, strlen(request->context), err);
    if (!request->continuation)
        context_count = ids.count;
    *out = (kvsi_eval_ids){.ids = ids.ids, .count = ids.count, .context_count = context_count};
    TRY(st);
    if (context_count == 0)
        return kvsi_fail(err, KVS_E_INVALID, "the context has no token");
    if (!request->continuation) {
        if (most <= KVSI_EVAL_NEW_TOKENS)
            return kvsi_fail(err, KVS_E_LIMIT,
                             "the longest input is %zu tokens, expected more than the %d that are "
                             "generated",
                             most, (int)KVSI_EVAL_NEW_TOKENS);
        cut(out, most - KVSI_EVAL_NEW_TOKENS);
        return KVS_OK;
    }
    if (out->count == context_count)
        return kvsi_fail(err, KVS_E_INVALID, "the continuation has no token");
    if (out->count - context_count > most)
        return kvsi_fail(err, KVS_E_LIMIT,
                         "the continuation has %zu tokens, the longest input is %zu",
                         out->count - context_count, most);
    cut(out, most + 1);
    return KVS_OK;
}

kvs_status kvsi_eval_encode(kvsi_eval_ids *out, const kvsi_eval_encoding *how,
                            const kvsi_eval_document *document, kvs_err *err)
{
    for (size_t i = 0; i < document->count; i++) {
        kvs_err cause;
        const kvs_status st = encode_request(&out[i], how, &document->requests[i], &cause);

        if (st != KVS_OK)
            return in_document(st, &cause, document, err);
    }
    return KVS_OK;
}

void kvsi_eval_ids_release(kvsi_eval_ids *ids)
{
    kvsi_free(ids->ids);
    *ids = (kvsi_eval_ids){0};
}

/* ---- many documents ---- */

typedef struct failure {
    kvs_status status;
    kvs_err err;
} failure;

kvs_status kvsi_eval_encode_all(kvsi_eval_ids *const *out, const kvsi_eval_encoding *how,
                                const kvsi_eval_document *const *documents, size_t count,
                                int threads, kvs_err *err)
{
    const size_t pieces = (count + PIECE - 1) / PIECE;
    failure *failures = kvsi_alloc(pieces, sizeof *failures);
    kvs_status st = KVS_OK;

    if (!failures)
        return kvsi_no_memory(err, "the tokens of %zu documents", count);
    KVSI_PARALLEL_PIECES(threads, piece, pieces) {
        failure *f = &failures[piece];

        for (size_t i = piece * PIECE; i < count && i < (piece + 1) * PIECE && !f->status; i++)
            f->status = kvsi_eval_encode(out[i], how, documents[i], &f->err);
    }
    for (size_t piece = 0; piece < pieces && st == KVS_OK; piece++) {
        st = failures[piece].status;
        if (st != KVS_OK && err)
            *err = failures[piece].err;
    }
    kvsi_free(failures);
    return st;
}

/* ---- generated ids ---- */

static const kvsi_added *find_special(const kvs_tokenizer *t, int32_t id)
{
    for (size_t i = 0; i < t->added_count; i++)
        if (t->added[i].id == id)
            return t->added[i].special ? &t->added[i] : NULL;
    return NULL;
}

/* *id = the token whose text is shown for a special token; -1 = none.  The library that the harness
 * decodes with knows a special token by its normalized text, if the token is found in normalized
 * text.  If that differs from the token's own, it is not recognised as special and is shown. */
static kvs_status shown_special(int32_t *id, const kvs_tokenizer *t, const kvsi_added *special,
                                kvs_err *err)
{
    const kvsi_bytes piece = kvsi_vocabulary_at(&t->vocabulary, (size_t)special->id);
    kvsi_workspace *w = NULL;
    kvsi_text text = {0};
    kvs_status st;

    *id = -1;
    if (!special->normalized || !piece.text)
        return KVS_OK;
    TRY_OUT(kvsi_workspace_take(&w, t->workspaces, err));
    kvsi_text_add(&text, "");
    TRY_OUT(kvsi_normalize(&t->normalizers, w->matcher, &text, piece.text, piece.size, err));
    TRY_OUT(kvsi_text_check(&text, err));
    if (text.length != piece.size || memcmp(text.data, piece.text, piece.size) != 0) {
        *id = kvsi_vocabulary_find(&t->vocabulary, text.data, text.length);
        *id = *id >= 0 ? *id : special->id;
    }
out:
    kvsi_workspace_put(t->workspaces, w, st);
    kvsi_text_release(&text);
    return st;
}

kvs_status kvsi_eval_decode(char **out, const kvs_tokenizer *tokenizer, const int32_t *ids,
                            size_t count, kvs_err *err)
{
    int32_t *plain = kvsi_alloc(count, sizeof *plain);
    char *text = NULL;
    size_t plain_count = 0, size;
    kvs_status st = KVS_OK;

    *out = NULL;
    if (!plain)
        return kvsi_no_memory(err, "%zu ids", count);
    for (size_t i = 0; i < count; i++) {
        const kvsi_added *special = find_special(tokenizer, ids[i]);
        int32_t shown = ids[i];

        if (special)
            TRY_OUT(shown_special(&shown, tokenizer, special, err));
        if (shown >= 0 && (size_t)shown < tokenizer->vocab)
            plain[plain_count++] = shown;
    }
    TRY_OUT(kvs_tokenizer_decode(&text, &size, tokenizer, plain, plain_count, err));
    *out = kvsi_strdup(text);
    if (!*out)
        st = kvsi_no_memory(err, "a text of %zu bytes", size);
out:
    kvs_text_free(text);
    kvsi_free(plain);
    return st;
}
