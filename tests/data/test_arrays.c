/* Data in arrays of the caller.  The sequences that are drawn are those of the arrays, every epoch
 * has every sequence once in another order, and wrong arrays are refused. */
#include "base/json.h"
#include "base/memory.h"
#include "data/data.h"
#include "support.h"

#include <stdio.h>
#include <string.h>

enum { SEQUENCES = 5, ROWS = 15, LONGEST = 6, VOCAB = 20 };

/* The lengths are 2, 1, 6, 4 and 2. */
static const size_t starts[] = {0, 2, 3, 9, 13, ROWS};
static const int32_t ids[ROWS] = {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15};
static const int32_t targets[ROWS] = {-1, 7, 8, -1, -1, -1, -1, -1, 9, 1, 2, 3, 4, 19, -1};
static const uint8_t mask[ROWS] = {1, 1, 1, 0, 0, 0, 0, 7, 1, 1, 0, 0, 1, 1, 0};
static const uint8_t scored[ROWS] = {0, 1, 1, 0, 0, 0, 0, 0, 9, 0, 0, 0, 1, 1, 1};

static kvs_batch usual_batch(void)
{
    kvs_batch b;

    kvs_batch_init(&b, sizeof b);
    b.sequences = SEQUENCES;
    b.starts = starts;
    b.ids = ids;
    b.targets = targets;
    b.scored = scored;
    return b;
}

static kvs_data *make(const kvs_batch *train, const kvs_batch *valid, size_t vocab)
{
    kvs_data *data;
    kvs_err err;

    if (kvs_data_create_arrays(&data, train, valid, vocab, &err) != KVS_OK)
        fail_msg("%s", err.message);
    return data;
}

/* ---- sequences that are drawn ---------------------------------------------------------------- */

typedef struct drawn {
    int32_t ids[LONGEST], targets[LONGEST];
    uint8_t scored[LONGEST];
    size_t length;
} drawn;

static drawn draw(const kvs_data *data, uint64_t seed, kvs_stream stream, uint64_t index)
{
    drawn d;

    memset(&d, 0x55, sizeof d);
    d.length = kvs_data_sequence(d.ids, d.targets, d.scored, data, seed, stream, index);
    return d;
}

/* Returns the number of the sequence that was drawn; all start with different ids. */
static size_t number_of(const drawn *d)
{
    for (size_t s = 0; s < SEQUENCES; s++)
        if (d->ids[0] == ids[starts[s]])
            return s;
    fail_msg("no sequence starts with %d", (int)d->ids[0]);
    return 0;
}

static void sequences_are_those_of_the_arrays(void **state)
{
    const kvs_batch train = usual_batch();
    kvs_data *data = make(&train, &train, VOCAB);

    (void)state;
    assert_int_equal(kvs_data_vocab(data), VOCAB);
    assert_int_equal(kvs_data_max_length(data), LONGEST);
    for (uint64_t i = 0; i < 3 * SEQUENCES; i++) {
        const drawn d = draw(data, 1, KVS_STREAM_EVAL, i);
        const size_t s = i % SEQUENCES, length = starts[s + 1] - starts[s];

        assert_int_equal(d.length, length);
        assert_memory_equal(d.ids, ids + starts[s], length * sizeof *ids);
        assert_memory_equal(d.targets, targets + starts[s], length * sizeof *targets);
        for (size_t t = 0; t < length; t++)
            assert_int_equal(d.scored[t], scored[starts[s] + t] != 0);
    }
    kvs_data_free(data);
}

static void without_targets_the_next_id_is_the_target(void **state)
{
    static const size_t two[] = {0, 2, 8};
    kvs_batch train = usual_batch();
    kvs_data *data;
    drawn d;

    (void)state;
    train.sequences = 2;
    train.starts = two;
    train.targets = NULL;
    train.scored = NULL;
    data = make(&train, &train, 0);
    d = draw(data, 1, KVS_STREAM_EVAL, 1);
    assert_int_equal(d.length, 6);
    for (size_t i = 0; i < 6; i++) {
        assert_int_equal(d.targets[i], i < 5 ? ids[2 + i + 1] : -1);
        assert_int_equal(d.scored[i], 0);
    }
    assert_int_equal(kvs_data_vocab(data), 9); /* the largest id is 8 */
    kvs_data_free(data);
}

static void a_mask_removes_targets(void **state)
{
    kvs_batch train = usual_batch();
    kvs_data *data;
    drawn d;

    (void)state;
    train.mask = mask;
    data = make(&train, &train, 0);
    assert_int_equal(kvs_data_vocab(data), 20); /* the largest target is 19 */
    for (size_t s = 0; s < SEQUENCES; s++) {
        d = draw(data, 1, KVS_STREAM_EVAL, s);
        for (size_t i = 0; i < d.length; i++)
            assert_int_equal(d.targets[i], mask[starts[s] + i] ? targets[starts[s] + i] : -1);
    }
    kvs_data_free(data);
}

/* ---- order ----------------------------------------------------------------------------------- */

static void order_of_epoch(size_t order[SEQUENCES], const kvs_data *data, uint64_t seed,
                           uint64_t epoch)
{
    int seen[SEQUENCES] = {0};

    for (size_t i = 0; i < SEQUENCES; i++) {
        const drawn d = draw(data, seed, KVS_STREAM_TRAIN, epoch * SEQUENCES + i);

        order[i] = number_of(&d);
        assert_int_equal(seen[order[i]]++, 0);
    }
}

static void every_epoch_has_every_sequence_once_in_another_order(void **state)
{
    enum { EPOCHS = 40 };
    const kvs_batch train = usual_batch();
    kvs_data *data = make(&train, NULL, 0), *again = make(&train, NULL, 0);
    size_t orders[EPOCHS][SEQUENCES], other[SEQUENCES], same_as_first = 0, same_as_seed_3 = 0;

    (void)state;
    for (size_t e = EPOCHS; e-- > 0;) { /* the order of the calls does not matter */
        order_of_epoch(orders[e], data, 3, e);
        order_of_epoch(other, again, 3, e);
        assert_memory_equal(other, orders[e], sizeof other);
        order_of_epoch(other, data, 4, e);
        same_as_seed_3 += memcmp(other, orders[e], sizeof other) == 0;
    }
    for (size_t e = 1; e < EPOCHS; e++)
        same_as_first += memcmp(orders[e], orders[0], sizeof orders[0]) == 0;
    /* Two of the 120 orders are equal with probability 1/120, in 40 trials. */
    assert_true(same_as_first < 4 && same_as_seed_3 < 4);
    kvs_data_free(data);
    kvs_data_free(again);
}

static void one_sequence_is_enough(void **state)
{
    kvs_batch train = usual_batch();
    kvs_data *data;

    (void)state;
    train.sequences = 1;
    data = make(&train, NULL, 0);
    for (uint64_t i = 0; i < 5; i++)
        assert_int_equal(draw(data, i, KVS_STREAM_TRAIN, i << 40).length, 2);
    assert_int_equal(draw(data, 1, KVS_STREAM_EVAL, 0).length, 0);
    kvs_data_free(data);
}

/* ---- the description, which a resumed run compares ------------------------------------------- */

static json_t *describe(const kvs_batch *train, const kvs_batch *valid, size_t vocab)
{
    kvs_data *data = make(train, valid, vocab);
    json_t *json = data->ops->describe(data);

    assert_non_null(json);
    kvs_data_free(data);
    return json;
}

/* Checks whether data of these arrays have the description `as`. */
static void expect_described(const kvs_batch *train, const kvs_batch *valid, const json_t *as,
                             int same)
{
    json_t *json = describe(train, valid, VOCAB);

    assert_int_equal(json_equal(json, as), same);
    json_decref(json);
}

static void the_description_changes_with_every_value(void **state)
{
    kvs_batch train = usual_batch(), valid = usual_batch(), changed = train;
    json_t *usual = describe(&train, &valid, VOCAB);
    int32_t other_ids[ROWS], other_targets[ROWS];
    uint8_t other_scored[ROWS], all[ROWS];
    size_t other_starts[SEQUENCES + 1];

    (void)state;
    assert_string_equal(json_string_value(json_object_get(usual, "name")), "arrays");
    expect_described(&train, &valid, usual, 1);
    expect_described(&train, NULL, usual, 0);
    for (size_t i = 0; i < ROWS; i++) {
        memcpy(other_ids, ids, sizeof ids);
        memcpy(other_targets, targets, sizeof targets);
        memcpy(other_scored, scored, sizeof scored);
        other_ids[i]++;
        other_targets[i] = (other_targets[i] + 1) % VOCAB;
        other_scored[i] = !other_scored[i];
        changed = train;
        changed.ids = other_ids;
        expect_described(&changed, &valid, usual, 0);
        expect_described(&train, &changed, usual, 0);
        changed = train;
        changed.targets = other_targets;
        expect_described(&changed, &valid, usual, 0);
        changed = train;
        changed.scored = other_scored;
        expect_described(&changed, &valid, usual, 0);
    }
    memcpy(other_starts, starts, sizeof starts);
    other_starts[3] = 10;
    changed = train;
    changed.starts = other_starts;
    expect_described(&changed, &valid, usual, 0);
    memset(all, 1, sizeof all); /* this mask removes no target */
    changed = train;
    changed.mask = all;
    expect_described(&changed, &valid, usual, 1);
    json_decref(usual);
}

/* ---- wrong arrays and arguments -------------------------------------------------------------- */

/* Checks that wrong arrays are refused for training and for validation. */
static void refuse_both(const kvs_batch *bad, size_t vocab, const char *message)
{
    const kvs_batch good = usual_batch();
    char expected[200];

    for (int valid = 0; valid < 2; valid++) {
        const size_t live = kvsi_memory_live();
        kvs_data *data = (kvs_data *)&good;
        kvs_err err = {0};

        assert_int_equal(
            kvs_data_create_arrays(&data, valid ? &good : bad, valid ? bad : NULL, vocab, &err),
            KVS_E_INVALID);
        assert_null(data);
        snprintf(expected, sizeof expected, "%s: %s", valid ? "valid" : "train", message);
        if (strcmp(err.message, expected) != 0)
            fail_msg("'%s' is not '%s'", err.message, expected);
        assert_int_equal(err.status, KVS_E_INVALID);
        assert_int_equal(kvsi_memory_live(), live);
    }
}

static void sizes_are_checked(void **state)
{
    size_t moved[SEQUENCES + 1];
    kvs_batch bad = usual_batch();
    char message[120];

    (void)state;
    bad.sequences = 0;
    refuse_both(&bad, 0, "sequences is 0, expected at least 1");
    bad.sequences = SIZE_MAX;
    snprintf(message, sizeof message, "sequences is %zu, expected at most %zu", SIZE_MAX,
             PTRDIFF_MAX / sizeof *starts - 1);
    refuse_both(&bad, 0, message);
    bad = usual_batch();
    bad.starts = NULL;
    refuse_both(&bad, 0, "starts is NULL");
    bad = usual_batch();
    bad.ids = NULL;
    refuse_both(&bad, 0, "ids is NULL");

    bad = usual_batch();
    bad.starts = moved;
    memcpy(moved, starts, sizeof starts);
    moved[0] = 1;
    refuse_both(&bad, 0, "starts[0] is 1, expected 0");
    memcpy(moved, starts, sizeof starts);
    moved[2] = moved[1];
    refuse_both(&bad, 0, "sequence 1 is empty, at row 2");
    memcpy(moved, starts, sizeof starts);
    moved[3] = 1;
    refuse_both(&bad, 0, "sequence 2 ends at row 1, before its start 3");
    memcpy(moved, starts, sizeof starts);
    moved[5] = SIZE_MAX;
    snprintf(message, sizeof message, "sequence 4 has rows 13 to %zu, which is too many", SIZE_MAX);
    refuse_both(&bad, 0, message);
    moved[5] = 13 + ((size_t)1 << 31);
    snprintf(message, sizeof message, "sequence 4 has rows 13 to %zu, which is too many", moved[5]);
    refuse_both(&bad, 0, message);
}

static void ids_and_targets_are_checked(void **state)
{
    int32_t changed[ROWS];
    kvs_batch bad = usual_batch();

    (void)state;
    bad.ids = changed;
    memcpy(changed, ids, sizeof ids);
    changed[5] = VOCAB;
    refuse_both(&bad, VOCAB, "sequence 2 has id 20 at position 2, expected 0 to 19");
    changed[5] = -1;
    refuse_both(&bad, VOCAB, "sequence 2 has id -1 at position 2, expected 0 to 19");
    refuse_both(&bad, 0, "sequence 2 has id -1 at position 2, expected 0 to 2147483647");
    changed[5] = INT32_MIN;
    refuse_both(&bad, VOCAB, "sequence 2 has id -2147483648 at position 2, expected 0 to 19");
    bad = usual_batch();
    bad.targets = changed;
    memcpy(changed, targets, sizeof targets);
    changed[ROWS - 1] = VOCAB;
    refuse_both(&bad, VOCAB, "sequence 4 has target 20 at position 1, expected -1 to 19");
    changed[ROWS - 1] = -100;
    refuse_both(&bad, VOCAB, "sequence 4 has target -100 at position 1, expected -1 to 19");
}

static void every_sequence_needs_a_target(void **state)
{
    uint8_t changed[ROWS];
    kvs_batch bad = usual_batch();

    (void)state;
    bad.mask = changed;
    memset(changed, 1, sizeof changed);
    changed[8] = 0;
    refuse_both(&bad, 0, "sequence 2 has no target: nothing to learn");
    memset(changed, 0, sizeof changed);
    refuse_both(&bad, 0, "sequence 0 has no target: nothing to learn");
    bad = usual_batch();
    bad.targets = NULL; /* the sequence of length 1 has no next id */
    refuse_both(&bad, 0, "sequence 1 has no target: nothing to learn");
}

static void arguments_are_checked(void **state)
{
    const kvs_batch train = usual_batch();
    kvs_batch unset = usual_batch(), older = usual_batch();
    struct {
        kvs_batch batch;
        size_t more;
    } larger = {.batch = usual_batch()};
    kvs_data *data;
    kvs_err err;
    drawn d;

    (void)state;
    assert_int_equal(kvs_data_create_arrays(NULL, &train, NULL, 0, &err), KVS_E_INVALID);
    assert_string_equal(err.message, "out is NULL");
    assert_int_equal(kvs_data_create_arrays(&data, NULL, NULL, 0, &err), KVS_E_INVALID);
    assert_string_equal(err.message, "train is NULL");
    assert_int_equal(kvs_data_create_arrays(&data, NULL, NULL, 0, NULL), KVS_E_INVALID);
    unset.size = 0;
    assert_int_equal(kvs_data_create_arrays(&data, &unset, NULL, 0, &err), KVS_E_INVALID);
    assert_non_null(strstr(err.message, "size is 0"));
    older.size = offsetof(kvs_batch, scored); /* this version did not have `scored` */
    data = make(&older, &older, 0);
    assert_int_equal(draw(data, 1, KVS_STREAM_EVAL, 1).scored[0], 0);
    kvs_data_free(data);
    larger.batch.size = sizeof larger;
    data = make(&larger.batch, NULL, 0);
    kvs_data_free(data);
    larger.more = 1;
    assert_int_equal(kvs_data_create_arrays(&data, &larger.batch, NULL, 0, &err),
                     KVS_E_UNSUPPORTED);
    assert_int_equal(kvs_data_create_arrays(&data, &train, NULL, (size_t)INT32_MAX + 2, &err),
                     KVS_E_INVALID);

    kvs_data_free(NULL);
    kvs_batch_init(NULL, sizeof(kvs_batch));
    assert_int_equal(kvs_data_vocab(NULL), 0);
    assert_int_equal(kvs_data_max_length(NULL), 0);
    data = make(&train, &train, 0);
    assert_int_equal(kvs_data_sequence(NULL, d.targets, d.scored, data, 1, KVS_STREAM_EVAL, 0), 0);
    assert_int_equal(kvs_data_sequence(d.ids, NULL, d.scored, data, 1, KVS_STREAM_EVAL, 0), 0);
    assert_int_equal(kvs_data_sequence(d.ids, d.targets, NULL, data, 1, KVS_STREAM_EVAL, 0), 0);
    assert_int_equal(kvs_data_sequence(d.ids, d.targets, d.scored, NULL, 1, KVS_STREAM_EVAL, 0), 0);
    assert_int_equal(kvs_data_sequence(d.ids, d.targets, d.scored, data, 1, (kvs_stream)2, 0), 0);
    kvs_data_free(data);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(sequences_are_those_of_the_arrays),
        cmocka_unit_test(without_targets_the_next_id_is_the_target),
        cmocka_unit_test(a_mask_removes_targets),
        cmocka_unit_test(every_epoch_has_every_sequence_once_in_another_order),
        cmocka_unit_test(one_sequence_is_enough),
        cmocka_unit_test(the_description_changes_with_every_value),
        cmocka_unit_test(sizes_are_checked),
        cmocka_unit_test(ids_and_targets_are_checked),
        cmocka_unit_test(every_sequence_needs_a_target),
        cmocka_unit_test(arguments_are_checked),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
