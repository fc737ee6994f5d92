/* Several threads use one tokenizer at once, each with its own texts and detokenizers; they get the
 * results of one thread.  Under the thread sanitizer this also finds memory that calls share. */
#include "base/files.h"
#include "base/memory.h"
#include "base/random.h"
#include "support.h"
#include "tokenizer/tokenizer_files.h"

#include <pthread.h>
#include <stdio.h>
#include <string.h>

#define META "\xe2\x96\x81"

enum { THREADS = 4, TEXTS = 6, ROUNDS = 3, TEXT_BYTES = 6000 };

/* ---- texts ----------------------------------------------------------------------------------- */

/* The long runs are matched by the slower form of an expression (pattern.c). */
static void make_text(kvsi_text *text, uint64_t seed)
{
    static const char *const parts[] = {"low",
                                        "lower",
                                        " newest",
                                        " wider",
                                        " the",
                                        " ",
                                        "  ",
                                        "\n",
                                        "'s",
                                        " 1234",
                                        "\xc3\xa9t",
                                        " \xe4\xb8",
                                        "!?",
                                        "<e>",
                                        "\xff",
                                        " low",
                                        "er",
                                        " est",
                                        " \xe4\xb8\xad\xe6\x96\x87"};
    kvsi_random random;

    kvsi_random_init(&random, seed, KVSI_RANDOM_DATA, 0);
    while (text->length < TEXT_BYTES) {
        const size_t before = text->length;

        if (kvsi_random_below(&random, 400) == 0)
            while (text->length < before + 2000)
                kvsi_text_add(text, "lowerest");
        kvsi_text_add(text, parts[kvsi_random_below(&random, sizeof parts / sizeof *parts)]);
        if (kvsi_random_below(&random, 4) == 0) /* words that no other text has */
            kvsi_text_format(text, " w%ue%ur", kvsi_random_below(&random, 999), (unsigned)seed);
    }
    assert_int_equal(kvsi_text_check(text, NULL), KVS_OK);
}

/* ---- tokenizers ------------------------------------------------------------------------------ */

static kvs_tokenizer *make_bytes(void)
{
    kvs_tokenizer *t;

    assert_int_equal(kvs_tokenizer_load(&t, "bytes", NULL), KVS_OK);
    return t;
}

static kvs_tokenizer *make_trained(void)
{
    static const char *const specials[] = {"<e>"};
    const kvs_tokenizer_training how = {
        .size = sizeof how, .vocab = 400, .special = specials, .specials = 1, .threads = 1};
    char *path = kvsi_path_join(support_dir, "text.txt");
    FILE *file = fopen(path, "wb");
    kvsi_text text = {0};
    kvs_tokenizer *t;
    kvs_err err;

    make_text(&text, 99);
    assert_non_null(file);
    assert_int_equal(fwrite(text.data, 1, text.length, file), text.length);
    assert_int_equal(fclose(file), 0);
    if (kvs_tokenizer_train(&t, (const char *const *)&path, 1, &how, &err) != KVS_OK)
        fail_msg("%s", err.message);
    kvsi_text_release(&text);
    kvsi_free(path);
    return t;
}

/* This tokenizer has ignore_merges, which looks up whole words. */
static kvs_tokenizer *make_whole_words(void)
{
    kvs_tokenizer *trained = make_trained(), *t;
    json_t *document = kvsi_tokenizer_to_json(trained);

    assert_non_null(document);
    assert_int_equal(
        json_object_set_new(json_object_get(document, "model"), "ignore_merges", json_true()), 0);
    assert_int_equal(kvsi_tokenizer_from_json(&t, document, "test", NULL), KVS_OK);
    kvs_tokenizer_free(trained);
    return t;
}

/* The normalizers and the decoder of this tokenizer replace what an expression matches. */
static kvs_tokenizer *make_sentencepiece(void)
{
    static const char *const words[] = {META,    "l",      "o",      "w",       "e",        "r",
                                        "s",     "t",      "h",      "lo",      "low",      "er",
                                        "lower", META "t", "th",     META "th", META "the", "es",
                                        "est",   "ow",     META "l", META "lo", META "low"};
    char bytes[256][8];
    kvsi_sp_model sp = {0};
    kvs_tokenizer *t;
    kvs_err err;

    kvsi_sp_model_init(&sp);
    sp.remove_extra_spaces = 1;
    for (size_t i = 0; i < 3; i++) {
        static const char *const names[] = {"<unk>", "<s>", "</s>"};
        const kvsi_sp_piece piece = {.text = names[i],
                                     .size = strlen(names[i]),
                                     .kind = i ? KVSI_PIECE_CONTROL : KVSI_PIECE_UNKNOWN};

        assert_int_equal(kvsi_sp_model_add(&sp, &piece, NULL), KVS_OK);
    }
    for (unsigned byte = 0; byte < 256; byte++) {
        const kvsi_sp_piece piece = {.text = bytes[byte], .size = 6, .kind = KVSI_PIECE_BYTE};

        snprintf(bytes[byte], sizeof bytes[byte], "<0x%02X>", byte);
        assert_int_equal(kvsi_sp_model_add(&sp, &piece, NULL), KVS_OK);
    }
    for (size_t i = 0; i < sizeof words / sizeof *words; i++) {
        const kvsi_sp_piece piece = {.text = words[i],
                                     .size = strlen(words[i]),
                                     .score = -(float)i,
                                     .kind = KVSI_PIECE_NORMAL};

        assert_int_equal(kvsi_sp_model_add(&sp, &piece, NULL), KVS_OK);
    }
    if (kvsi_tokenizer_from_sp_model(&t, &sp, "test", &err) != KVS_OK)
        fail_msg("%s", err.message);
    kvsi_free(sp.pieces);
    return t;
}

/* ---- results --------------------------------------------------------------------------------- */

typedef struct results {
    int32_t *ids, *pair;
    size_t count, pair_count, context;
    char *text; /* from all ids at once */
    size_t size;
    kvsi_text streamed; /* from one id at a time, with | after the text of each id */
} results;

static void release(results *r)
{
    kvs_ids_free(r->ids);
    kvs_ids_free(r->pair);
    kvs_text_free(r->text);
    kvsi_text_release(&r->streamed);
}

static kvs_status stream(results *r, kvs_detokenizer *d)
{
    const char *text;
    size_t size;

    TRY(kvs_detokenizer_skip(d, r->ids, 1, NULL));
    for (size_t i = 1; i < r->count; i++) {
        TRY(kvs_detokenizer_add(&text, &size, d, r->ids + i, 1, NULL));
        kvsi_text_add_bytes(&r->streamed, text, size);
        kvsi_text_add(&r->streamed, "|");
    }
    TRY(kvs_detokenizer_finish(&text, &size, d, NULL));
    kvsi_text_add_bytes(&r->streamed, text, size);
    return kvsi_text_check(&r->streamed, NULL);
}

static kvs_status compute(results *r, const kvs_tokenizer *t, const kvsi_text *text)
{
    static const char *const stops[] = {"never in a text"};
    const size_t half = text->length / 2;
    kvs_detokenizer *d = NULL;
    kvs_status st;

    TRY_OUT(kvs_tokenizer_encode(&r->ids, &r->count, t, text->data, text->length, 0, NULL));
    TRY_OUT(kvs_tokenizer_encode_pair(&r->pair, &r->pair_count, &r->context, t, text->data, half,
                                      text->data + half, text->length - half, NULL));
    TRY_OUT(kvs_tokenizer_decode(&r->text, &r->size, t, r->ids, r->count, NULL));
    TRY_OUT(kvs_detokenizer_create(&d, t, stops, 1, NULL));
    TRY_OUT(stream(r, d));
out:
    kvs_detokenizer_free(d);
    return st;
}

static int equal_bytes(const void *a, size_t a_size, const void *b, size_t b_size)
{
    return a_size == b_size && memcmp(a, b, a_size) == 0;
}

static int equal(const results *a, const results *b)
{
    return a->context == b->context &&
           equal_bytes(a->ids, a->count * sizeof *a->ids, b->ids, b->count * sizeof *b->ids) &&
           equal_bytes(a->pair, a->pair_count * sizeof *a->pair, b->pair,
                       b->pair_count * sizeof *b->pair) &&
           equal_bytes(a->text, a->size, b->text, b->size) &&
           equal_bytes(a->streamed.data, a->streamed.length, b->streamed.data, b->streamed.length);
}

/* ---- threads --------------------------------------------------------------------------------- */

typedef struct worker {
    pthread_t thread;
    pthread_barrier_t *all;
    const kvs_tokenizer *shared, *alone; /* the same tokenizer; no thread uses `alone` */
    const kvsi_text *texts;
    const results *expected;
    uint64_t hash;
    size_t index;
    char *path;
    int failures; /* cmocka's checks work only in the main thread */
} worker;

static void check_properties(worker *w)
{
    const kvs_tokenizer *t = w->shared;

    w->failures += kvs_tokenizer_hash(t) != w->hash;
    w->failures += kvs_tokenizer_save(t, w->path, NULL) != KVS_OK;
    w->failures += kvs_tokenizer_vocab(t) != w->alone->vocab;
    w->failures += kvs_tokenizer_bos(t) != w->alone->bos;
    w->failures += kvs_tokenizer_eos(t) != w->alone->eos;
    w->failures += kvs_tokenizer_find(t, "e") < 0 || kvs_tokenizer_find(t, "no such piece") >= 0;
}

static void *work(void *self)
{
    worker *w = self;

    pthread_barrier_wait(w->all);
    for (size_t i = 0; i < (size_t)ROUNDS * TEXTS; i++) {
        const size_t which = (w->index + i) % TEXTS;
        results found = {0};

        w->failures += compute(&found, w->shared, w->texts + which) != KVS_OK ||
                       !equal(&found, w->expected + which);
        release(&found);
        if (i % TEXTS == w->index)
            check_properties(w);
    }
    return NULL;
}

/* Checks that the file that a thread has saved is the one that the main thread saves. */
static void expect_saved(const kvs_tokenizer *alone, const char *path)
{
    char *own = kvsi_path_join(support_dir, "alone.json"), *expected, *found;
    size_t expected_size, size;

    assert_int_equal(kvs_tokenizer_save(alone, own, NULL), KVS_OK);
    assert_int_equal(kvsi_file_read(&expected, &expected_size, own, SIZE_MAX / 2, NULL), KVS_OK);
    assert_int_equal(kvsi_file_read(&found, &size, path, SIZE_MAX / 2, NULL), KVS_OK);
    assert_int_equal(size, expected_size);
    assert_memory_equal(found, expected, size);
    kvsi_free(expected);
    kvsi_free(found);
    kvsi_free(own);
}

static void expect_shared(kvs_tokenizer *(*make)(void))
{
    const size_t live = kvsi_memory_live();
    kvs_tokenizer *alone = make(), *shared = make();
    const uint64_t hash = kvs_tokenizer_hash(alone);
    worker workers[THREADS] = {0};
    kvsi_text texts[TEXTS] = {0};
    results expected[TEXTS] = {0};
    pthread_barrier_t all;

    for (size_t i = 0; i < TEXTS; i++) {
        make_text(texts + i, i);
        assert_int_equal(compute(expected + i, alone, texts + i), KVS_OK);
    }
    assert_int_equal(pthread_barrier_init(&all, NULL, THREADS), 0);
    for (size_t i = 0; i < THREADS; i++) {
        char name[32];

        snprintf(name, sizeof name, "saved-%zu.json", i);
        workers[i] = (worker){.all = &all,
                              .shared = shared,
                              .alone = alone,
                              .texts = texts,
                              .expected = expected,
                              .hash = hash,
                              .index = i,
                              .path = kvsi_path_join(support_dir, name)};
        assert_int_equal(pthread_create(&workers[i].thread, NULL, work, workers + i), 0);
    }
    for (size_t i = 0; i < THREADS; i++) {
        assert_int_equal(pthread_join(workers[i].thread, NULL), 0);
        assert_int_equal(workers[i].failures, 0);
        expect_saved(alone, workers[i].path);
        kvsi_free(workers[i].path);
    }
    assert_int_equal(pthread_barrier_destroy(&all), 0);
    for (size_t i = 0; i < TEXTS; i++) {
        release(expected + i);
        kvsi_text_release(texts + i);
    }
    kvs_tokenizer_free(alone);
    kvs_tokenizer_free(shared);
    assert_int_equal(kvsi_memory_live(), live);
}

static void threads_share_bytes(void **state)
{
    (void)state;
    expect_shared(make_bytes);
}

static void threads_share_a_trained_tokenizer(void **state)
{
    (void)state;
    expect_shared(make_trained);
}

static void threads_share_a_tokenizer_of_whole_words(void **state)
{
    (void)state;
    expect_shared(make_whole_words);
}

static void threads_share_a_sentencepiece_model(void **state)
{
    (void)state;
    expect_shared(make_sentencepiece);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(threads_share_bytes),
        cmocka_unit_test(threads_share_a_trained_tokenizer),
        cmocka_unit_test(threads_share_a_tokenizer_of_whole_words),
        cmocka_unit_test(threads_share_a_sentencepiece_model),
    };

    return cmocka_run_group_tests(tests, support_dir_setup, support_dir_teardown);
}
