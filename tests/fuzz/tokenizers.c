/* Loads and uses a tokenizer from a hostile file. */
#include "base/memory.h"
#include "fuzz.h"

#include <string.h>

static void use_detokenizer(const kvs_tokenizer *t, const int32_t *ids, size_t count)
{
    static const char *const stops[] = {"b", "\n\n"};
    kvs_detokenizer *d;
    const char *text;
    size_t size;

    if (kvs_detokenizer_create(&d, t, stops, 2, NULL) != KVS_OK)
        return;
    for (size_t i = 0; i < count; i++)
        if (kvs_detokenizer_add(&text, &size, d, ids + i, 1, NULL) != KVS_OK)
            break;
    kvs_detokenizer_finish(&text, &size, d, NULL);
    kvs_detokenizer_free(d);
}

static void use_text(const kvs_tokenizer *t, const char *text, size_t size)
{
    int32_t *ids;
    size_t count, decoded_size, context_count;
    char *decoded;

    if (kvs_tokenizer_encode(&ids, &count, t, text, size, 0, NULL) == KVS_OK) {
        for (size_t i = 0; i < count; i++)
            fuzz_expect(ids[i] >= 0 && (size_t)ids[i] < kvs_tokenizer_vocab(t),
                        "ids are within the vocabulary");
        if (kvs_tokenizer_decode(&decoded, &decoded_size, t, ids, count, NULL) == KVS_OK)
            kvs_text_free(decoded);
        use_detokenizer(t, ids, count);
        kvs_ids_free(ids);
    }
    if (kvs_tokenizer_encode_pair(&ids, &count, &context_count, t, text, size / 2, text + size / 2,
                                  size - size / 2, NULL) == KVS_OK)
        kvs_ids_free(ids);
}

/* A tokenizer of any format must be saved as a tokenizer.json that can be loaded. */
static void save_and_load(const kvs_tokenizer *t)
{
    kvs_tokenizer *again;
    kvs_err err;

    if (kvs_tokenizer_save(t, "saved", NULL) != KVS_OK)
        return;
    fuzz_expect(kvs_tokenizer_load(&again, "saved", &err) == KVS_OK, err.message);
    fuzz_expect(kvs_tokenizer_vocab(again) == kvs_tokenizer_vocab(t), "as many tokens come back");
    kvs_tokenizer_free(again);
}

kvs_status fuzz_use_tokenizer(const char *path, const char *data, size_t size, kvs_err *err)
{
    static const char text[] = " a  b ab <s>aa\xc3\xa9\n\n\xff\xe2\x96\x81"
                               "a\0don't 12345 \xf0\x9f\x98\x80 ";
    enum { LONGEST = 512 };
    kvs_tokenizer *t;
    const kvs_status st = kvs_tokenizer_load(&t, path, err);

    if (st != KVS_OK)
        return st;
    kvs_tokenizer_hash(t);
    use_text(t, text, sizeof text - 1);
    use_text(t, data, size < LONGEST ? size : LONGEST);
    use_text(t, "", 0);
    save_and_load(t);
    kvs_tokenizer_free(t);
    return st;
}
