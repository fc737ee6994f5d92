/* The sequences of a corpus: a shuffle that is a bijection, windows that make every token a target
 * once and never cross documents, and sequences that depend only on their number. */
#include "base/files.h"
#include "base/memory.h"
#include "data/corpus.h"
#include "data/data.h"
#include "data/shard.h"
#include "data/shuffle.h"
#include "support.h"

#include <string.h>

/* ---- the shuffle ----------------------------------------------------------------------------- */

static void shuffles_are_bijections(void **state)
{
    static const uint64_t larger[] = {511, 512, 513, 1000, 4095, 4096, 4097, 65537, 100003};
    uint8_t *seen = kvsi_alloc(100003, 1);

    (void)state;
    for (uint64_t c = 0; c < 300 + sizeof larger / sizeof *larger; c++) {
        const uint64_t count = c < 300 ? c + 1 : larger[c - 300];

        memset(seen, 0, count);
        for (uint64_t i = 0; i < count; i++) {
            const uint64_t number = kvsi_shuffle(7, c, count, i);

            assert_true(number < count);
            assert_false(seen[number]);
            seen[number] = 1;
        }
    }
    kvsi_free(seen);
}

/* Numbers that stay in place or keep their neighbour are as rare as by chance. */
static void shuffles_mix(void **state)
{
    enum { COUNT = 10000 };
    size_t fixed = 0, neighbours = 0, as_other_epoch = 0, as_other_seed = 0;

    (void)state;
    for (uint64_t i = 0; i < COUNT; i++) {
        const uint64_t number = kvsi_shuffle(1, 0, COUNT, i);

        fixed += number == i;
        neighbours += kvsi_shuffle(1, 0, COUNT, (i + 1) % COUNT) == number + 1;
        as_other_epoch += kvsi_shuffle(1, 1, COUNT, i) == number;
        as_other_seed += kvsi_shuffle(2, 0, COUNT, i) == number;
    }
    /* each is 1 on average; more than 10 has a chance of 1e-8 */
    assert_in_range(fixed, 0, 10);
    assert_in_range(neighbours, 0, 10);
    assert_in_range(as_other_epoch, 0, 10);
    assert_in_range(as_other_seed, 0, 10);
    for (uint64_t i = 0; i < 1000; i++)
        assert_true(kvsi_shuffle(1, 0, (UINT64_C(1) << 40) + 1, i) <= UINT64_C(1) << 40);
}

/* ---- corpora whose ids are their positions --------------------------------------------------- */

enum { TOKENS = 20000, SHORTEST_VALID = 40 };

typedef struct fixture {
    char *dir;
    kvs_corpus *corpus;
    uint8_t starts[TOKENS]; /* 1 = token t is a document's first */
    size_t documents;
} fixture;

/* Token number t of the training split has id t; documents of 1 to 130 tokens, most of them short,
 * and one of 5000.  Validation has ids from TOKENS on. */
static void write_split(fixture *f, const char *path, int32_t first, size_t tokens, int marked)
{
    kvsi_shard_writer *writer;
    kvsi_random random;
    uint64_t checksum;

    kvsi_random_init(&random, 3, KVSI_RANDOM_DATA, 0);
    assert_int_equal(kvsi_shard_writer_open(&writer, path, 2 * TOKENS, 9, NULL), KVS_OK);
    for (size_t t = 0, left = 0; t < tokens; t++, left--) {
        const int32_t id = first + (int32_t)t;

        if (left == 0) {
            const uint32_t kind = kvsi_random_below(&random, 3);

            left = t == 0 ? 5000 : 1 + kvsi_random_below(&random, kind == 0 ? 130 : 5);
            kvsi_shard_writer_end_document(writer);
            if (marked) {
                f->starts[t] = 1;
                f->documents++;
            }
        }
        assert_int_equal(kvsi_shard_writer_add(writer, &id, 1, NULL), KVS_OK);
    }
    assert_int_equal(kvsi_shard_writer_commit(writer, &checksum, NULL), KVS_OK);
}

static fixture *make_fixture(void)
{
    fixture *f = kvsi_alloc(1, sizeof *f);
    char *train, *valid;
    kvs_err err;

    f->dir = support_make_dir();
    train = kvsi_path_join(f->dir, "train.shard");
    valid = kvsi_path_join(f->dir, "valid.shard");
    write_split(f, train, 0, TOKENS, 1);
    write_split(f, valid, TOKENS, SHORTEST_VALID, 0);
    if (kvs_corpus_open(&f->corpus, train,
                        &(kvs_corpus_options){.size = sizeof(kvs_corpus_options), .valid = valid},
                        &err) != KVS_OK)
        fail_msg("%s", err.message);
    kvsi_free(train);
    kvsi_free(valid);
    return f;
}

static void free_fixture(fixture *f)
{
    kvs_corpus_close(f->corpus);
    support_remove_dir(f->dir);
    kvsi_free(f);
}

static kvs_data *make_task(const kvs_corpus *corpus, size_t context)
{
    kvs_data *task;
    kvs_err err;

    if (kvs_data_create_corpus(&task, corpus, context, &err) != KVS_OK)
        fail_msg("%s", err.message);
    return task;
}

/* One window: its targets are the next tokens, none starts a document, and none is scored. */
static void check_window(const fixture *f, const kvsi_batch_buffer *b, size_t context,
                         uint8_t *targeted)
{
    const size_t length = b->starts[1];

    assert_in_range(length, 1, context);
    for (size_t i = 0; i < length; i++) {
        assert_int_equal(b->targets[i], b->ids[i] + 1);
        assert_int_equal(b->ids[i], b->ids[0] + (int32_t)i);
        assert_false(f->starts[b->targets[i]]);
        assert_false(targeted[b->targets[i]]);
        assert_int_equal(b->scored[i], 0);
        targeted[b->targets[i]] = 1;
    }
    /* shorter only at the end of a document */
    if (length < context && b->ids[0] + (int32_t)length + 1 < TOKENS)
        assert_true(f->starts[b->ids[0] + (int32_t)length + 1]);
}

static void every_token_is_a_target_once_an_epoch(void **state)
{
    static const size_t contexts[] = {1, 2, 3, 7, 64, 129, 4999, 5000, 100000};
    fixture *f = make_fixture();
    uint8_t *targeted = kvsi_alloc(TOKENS, 1);

    (void)state;
    assert_true(f->documents > 300); /* so that the search is tested */
    for (size_t c = 0; c < sizeof contexts / sizeof *contexts; c++) {
        const uint64_t windows = kvs_corpus_windows(f->corpus, KVS_SPLIT_TRAIN, contexts[c]);
        kvs_data *task = make_task(f->corpus, contexts[c]);
        kvsi_batch_buffer b;
        size_t rows = 0, longest = 0;

        assert_int_equal(kvs_data_vocab(task), 2 * TOKENS);
        assert_int_equal(kvsi_batch_buffer_init(&b, task, 1, NULL), KVS_OK);
        for (uint64_t epoch = 0; epoch < 2; epoch++) {
            memset(targeted, 0, TOKENS);
            rows = 0;
            for (uint64_t i = 0; i < windows; i++) {
                assert_int_equal(
                    kvsi_batch_fill(&b, task, 5, KVSI_RANDOM_DATA, epoch * windows + i, 1, NULL),
                    KVS_OK);
                check_window(f, &b, contexts[c], targeted);
                rows += b.starts[1];
                longest = b.starts[1] > longest ? b.starts[1] : longest;
            }
            for (size_t t = 0; t < TOKENS; t++)
                assert_int_equal(targeted[t], !f->starts[t]);
        }
        assert_int_equal(kvs_data_max_length(task), longest);
        assert_true(task->mean_tokens == (double)rows / (double)windows);
        kvsi_batch_buffer_release(&b);
        kvs_data_free(task);
    }
    kvsi_free(targeted);
    free_fixture(f);
}

/* ---- streams --------------------------------------------------------------------------------- */

/* Drawn one by one, in batches or from the middle: sequence i is the same, and no memory is
 * allocated. */
static void sequences_depend_on_their_number_alone(void **state)
{
    enum { COUNT = 60, CONTEXT = 16 };
    fixture *f = make_fixture();
    kvs_data *task = make_task(f->corpus, CONTEXT);
    kvsi_batch_buffer all, some;
    uint64_t allocations;

    (void)state;
    assert_int_equal(kvsi_batch_buffer_init(&all, task, COUNT, NULL), KVS_OK);
    assert_int_equal(kvsi_batch_buffer_init(&some, task, COUNT, NULL), KVS_OK);
    allocations = kvsi_memory_allocations();
    assert_int_equal(kvsi_batch_fill(&all, task, 5, KVSI_RANDOM_DATA, 1000, COUNT, NULL), KVS_OK);
    for (size_t size = 1; size <= 7; size += 3) {
        for (size_t first = 0; first + size <= COUNT; first += size) {
            const size_t row = all.starts[first], rows = all.starts[first + size] - row;

            assert_int_equal(
                kvsi_batch_fill(&some, task, 5, KVSI_RANDOM_DATA, 1000 + first, size, NULL),
                KVS_OK);
            assert_int_equal(some.starts[size], rows);
            assert_memory_equal(some.ids, all.ids + row, rows * sizeof *some.ids);
            assert_memory_equal(some.targets, all.targets + row, rows * sizeof *some.ids);
        }
    }
    assert_int_equal(kvsi_memory_allocations(), allocations);
    kvsi_batch_buffer_release(&all);
    kvsi_batch_buffer_release(&some);
    kvs_data_free(task);
    free_fixture(f);
}

/* How many sequences of one stream equal those of another, by their first id. */
static size_t count_equal(const kvs_data *task, uint64_t seed, uint64_t first, uint64_t other_seed,
                          uint64_t other_first, size_t count)
{
    kvsi_batch_buffer a, b;
    size_t equal = 0;

    assert_int_equal(kvsi_batch_buffer_init(&a, task, 1, NULL), KVS_OK);
    assert_int_equal(kvsi_batch_buffer_init(&b, task, 1, NULL), KVS_OK);
    for (size_t i = 0; i < count; i++) {
        assert_int_equal(kvsi_batch_fill(&a, task, seed, KVSI_RANDOM_DATA, first + i, 1, NULL),
                         KVS_OK);
        assert_int_equal(
            kvsi_batch_fill(&b, task, other_seed, KVSI_RANDOM_DATA, other_first + i, 1, NULL),
            KVS_OK);
        equal += a.ids[0] == b.ids[0];
    }
    kvsi_batch_buffer_release(&a);
    kvsi_batch_buffer_release(&b);
    return equal;
}

static void epochs_and_seeds_differ(void **state)
{
    fixture *f = make_fixture();
    kvs_data *task = make_task(f->corpus, 16);
    const uint64_t windows = kvs_corpus_windows(f->corpus, KVS_SPLIT_TRAIN, 16);

    (void)state;
    assert_int_equal(count_equal(task, 5, 0, 5, 0, 500), 500);
    assert_in_range(count_equal(task, 5, 0, 5, windows, 500), 0, 10);
    assert_in_range(count_equal(task, 5, 0, 6, 0, 500), 0, 10);
    kvs_data_free(task);
    free_fixture(f);
}

/* Validation: in order, each window once, then again from the start, for every seed. */
static void validation_goes_in_order(void **state)
{
    enum { CONTEXT = 7 };
    fixture *f = make_fixture();
    kvs_data *task = make_task(f->corpus, CONTEXT);
    const uint64_t windows = kvs_corpus_windows(f->corpus, KVS_SPLIT_VALID, CONTEXT);
    kvsi_batch_buffer b;

    (void)state;
    assert_int_equal(windows, (SHORTEST_VALID - 1 + CONTEXT - 1) / CONTEXT);
    assert_int_equal(kvsi_batch_buffer_init(&b, task, 1, NULL), KVS_OK);
    for (uint64_t i = 0; i < 3 * windows; i++) {
        const size_t first = (size_t)(i % windows) * CONTEXT, left = SHORTEST_VALID - 1 - first;

        assert_int_equal(kvsi_batch_fill(&b, task, i, KVSI_RANDOM_EVAL, i, 1, NULL), KVS_OK);
        assert_int_equal(b.ids[0], TOKENS + first);
        assert_int_equal(b.starts[1], left < CONTEXT ? left : CONTEXT);
    }
    kvsi_batch_buffer_release(&b);
    kvs_data_free(task);
    free_fixture(f);
}

/* ---- refusals -------------------------------------------------------------------------------- */

static void write_documents(const char *path, size_t documents, size_t length)
{
    static const int32_t ids[4] = {1, 2, 3, 4};
    kvsi_shard_writer *writer;
    uint64_t checksum;

    assert_int_equal(kvsi_shard_writer_open(&writer, path, 10, 9, NULL), KVS_OK);
    for (size_t d = 0; d < documents; d++) {
        assert_int_equal(kvsi_shard_writer_add(writer, ids, length, NULL), KVS_OK);
        kvsi_shard_writer_end_document(writer);
    }
    assert_int_equal(kvsi_shard_writer_commit(writer, &checksum, NULL), KVS_OK);
}

static void expect_refusal(const char *train, const char *valid, size_t context,
                           const char *message)
{
    kvs_corpus *corpus;
    kvs_data *task;
    kvs_err err;

    assert_int_equal(
        kvs_corpus_open(&corpus, train,
                        &(kvs_corpus_options){.size = sizeof(kvs_corpus_options), .valid = valid},
                        NULL),
        KVS_OK);
    assert_int_equal(kvs_data_create_corpus(&task, corpus, context, &err), KVS_E_INVALID);
    assert_null(task);
    if (!strstr(err.message, message))
        fail_msg("refused with: %s; expected: %s", err.message, message);
    kvs_corpus_close(corpus);
}

static void splits_with_nothing_to_predict_are_refused(void **state)
{
    char *dir = support_make_dir();
    char *single = kvsi_path_join(dir, "single.shard"), *pair = kvsi_path_join(dir, "pair.shard");

    (void)state;
    write_documents(single, 5, 1);
    write_documents(pair, 1, 2);
    expect_refusal(single, pair, 8, "no document of 2 tokens or more to train on");
    expect_refusal(pair, single, 8, "validation split of");
    expect_refusal(pair, NULL, 8, "has no validation split");
    expect_refusal(pair, pair, 0, "context is '0'");
    kvsi_free(single);
    kvsi_free(pair);
    support_remove_dir(dir);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(shuffles_are_bijections),
        cmocka_unit_test(shuffles_mix),
        cmocka_unit_test(every_token_is_a_target_once_an_epoch),
        cmocka_unit_test(sequences_depend_on_their_number_alone),
        cmocka_unit_test(epochs_and_seeds_differ),
        cmocka_unit_test(validation_goes_in_order),
        cmocka_unit_test(splits_with_nothing_to_predict_are_refused),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
