/* Trains a byte-level tokenizer on text files. */
#include "tokenizer/train.h"

#include "base/documents.h"
#include "base/memory.h"
#include "base/sized.h"
#include "base/text_files.h"
#include "base/utf8.h"
#include "kvshift/kvshift_files.h"
#include "parallel/threads.h"
#include "tokenizer/characters.h"
#include "tokenizer/tokenizer_files.h"

#include <string.h>

/* Ids: special tokens, the bytes in GPT-2's order, merged tokens. */
static size_t id_of(uint32_t token, size_t specials, const unsigned char rank[256])
{
    return specials + (token < 256 ? rank[token] : token);
}

static kvs_status add_specials(json_t *document, const kvs_tokenizer_training *training,
                               kvs_err *err)
{
    kvs_status st = KVS_OK;

    for (size_t i = 0; i < training->specials && st == KVS_OK; i++)
        st = kvsi_tokenizer_json_add_token(document, training->special[i],
                                           strlen(training->special[i]), i, 1, err);
    return st;
}

static kvs_status fill(json_t *document, const kvsi_bpe_trained *learned,
                       const kvs_tokenizer_training *training, kvs_err *err)
{
    unsigned char order[256], rank[256];
    kvsi_text text = {0};
    kvs_status st;

    kvsi_byte_order(order);
    for (unsigned i = 0; i < 256; i++)
        rank[order[i]] = (unsigned char)i;
    TRY_OUT(add_specials(document, training, err));
    for (uint32_t i = 0; i < learned->tokens.count; i++) {
        const uint32_t token = i < 256 ? order[i] : i; /* in the order of ids */
        const kvsi_bytes bytes = kvsi_vocabulary_at(&learned->tokens, token);

        text.length = 0;
        kvsi_map_bytes(&text, bytes.text, bytes.size);
        TRY_OUT(kvsi_text_check(&text, err));
        TRY_OUT(kvsi_tokenizer_json_add_piece(document, text.data, text.length,
                                              id_of(token, training->specials, rank), err));
    }
    for (size_t i = 0; i < learned->count; i++) {
        const kvsi_bytes left = kvsi_vocabulary_at(&learned->tokens, learned->merges[i].left);
        const kvsi_bytes right = kvsi_vocabulary_at(&learned->tokens, learned->merges[i].right);

        text.length = 0;
        kvsi_map_bytes(&text, left.text, left.size);
        kvsi_text_add(&text, " ");
        kvsi_map_bytes(&text, right.text, right.size);
        TRY_OUT(kvsi_text_check(&text, err));
        TRY_OUT(kvsi_tokenizer_json_add_merge(document, text.data, text.length, err));
    }
out:
    kvsi_text_release(&text);
    return st;
}

static kvs_status check(const kvs_tokenizer_training *training, kvs_err *err)
{
    if (training->specials > 0 && !training->special)
        return kvsi_fail(err, KVS_E_INVALID, "special is NULL, but specials is %zu",
                         training->specials);
    if (training->specials > KVSI_TOKENS_MAX || training->vocab < 256 + training->specials ||
        training->vocab > KVSI_TOKENS_MAX)
        return kvsi_fail(err, KVS_E_INVALID,
                         "vocabulary size %zu: expected %zu (bytes and special tokens) to %d",
                         training->vocab, 256 + training->specials, KVSI_TOKENS_MAX);
    if (training->threads < 0 || training->threads > KVSI_THREADS_MAX)
        return kvsi_fail(err, KVS_E_INVALID, "%d threads: expected 0 to %d", training->threads,
                         KVSI_THREADS_MAX);
    for (size_t i = 0; i < training->specials; i++) {
        const char *special = training->special[i];

        if (!special)
            return kvsi_fail(err, KVS_E_INVALID, "special[%zu] is NULL", i);
        if (!*special || kvsi_utf8_valid(special, strlen(special)) < strlen(special))
            return kvsi_fail(err, KVS_E_INVALID, "special token '%s' is empty or not UTF-8",
                             special);
        for (size_t k = 0; k < i; k++)
            if (strcmp(special, training->special[k]) == 0)
                return kvsi_fail(err, KVS_E_INVALID, "special token '%s' is given twice", special);
    }
    return KVS_OK;
}

static kvs_status count_file(kvsi_word_counter *counter, const char *path,
                             const kvs_tokenizer_training *training, kvs_err *err)
{
    kvsi_documents *documents = NULL;
    kvsi_document_piece piece;
    int found = 0;
    kvs_status st;

    TRY_OUT(kvsi_documents_open(&documents, path, training->field, training->separator, err));
    for (;;) {
        TRY_OUT(kvsi_documents_next(documents, &piece, &found, err));
        if (!found)
            break;
        TRY_OUT(kvsi_word_counter_add(counter, piece.text, piece.size, piece.last, err));
    }
out:
    kvsi_documents_close(documents);
    return st;
}

static kvs_status count_files(kvsi_word_counts *counts, const kvsi_text_files *files,
                              const kvs_tokenizer_training *training, kvs_err *err)
{
    kvsi_word_counter *counter;
    kvs_status st;

    TRY_OUT(kvsi_word_counter_create(&counter, training, err));
    for (size_t i = 0; i < files->count; i++)
        TRY_OUT(count_file(counter, files->paths[i], training, err));
    TRY_OUT(kvsi_word_counter_finish(counter, counts, err));
out:
    kvsi_word_counter_free(counter);
    return st;
}

static const kvs_tokenizer_training defaults = {.size = sizeof defaults, .vocab = 8192};

void kvs_tokenizer_training_init(kvs_tokenizer_training *options, size_t size)
{
    kvsi_sized_init(options, size, &defaults, sizeof defaults);
}

kvs_status kvs_tokenizer_train(kvs_tokenizer **out, const char *const *files, size_t count,
                               const kvs_tokenizer_training *options, kvs_err *err)
{
    kvs_tokenizer_training own = defaults;
    const kvs_tokenizer_training *training = &own;
    kvsi_text_files texts = {0};
    kvsi_word_counts counts = {0};
    kvsi_bpe_trained learned = {0};
    json_t *document = NULL;
    kvs_status st;

    NEED(out);
    *out = NULL;
    NEED_ARRAY(files, count);
    if (count == 0)
        return kvsi_fail(err, KVS_E_INVALID, "no files to train on");
    for (size_t i = 0; i < count; i++)
        NEED(files[i]);
    TRY(kvsi_sized_read(&own, sizeof own, options, "kvs_tokenizer_training", err));
    TRY_OUT(check(training, err));
    TRY_OUT(kvsi_text_files_list(&texts, files, count, err));
    TRY_OUT(count_files(&counts, &texts, training, err));
    TRY_OUT(kvsi_bpe_train(&learned, &counts, training->vocab - 256 - training->specials, training,
                           err));
    document = kvsi_byte_level_json(NULL);
    if (!document) {
        st = kvsi_no_memory(err, "a tokenizer");
        goto out;
    }
    TRY_OUT(fill(document, &learned, training, err));
    st = kvsi_tokenizer_from_json(out, json_incref(document), "trained tokenizer", err);
out:
    json_decref(document);
    kvsi_text_files_release(&texts);
    kvsi_word_counts_release(&counts);
    kvsi_bpe_trained_release(&learned);
    return st;
}
