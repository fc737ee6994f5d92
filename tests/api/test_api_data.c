/* Data in arrays and from callbacks of the caller. */
#include "api.h"

static const int32_t ids[] = {1, 2, 3, 4, 5, 6}, targets[] = {2, 3, -1, 5, 6, -1};
static const size_t starts[] = {0, 3, 6};

static kvs_batch two(void)
{
    return api_two_sequences(starts, ids);
}

static void refuse(kvs_batch batch, const char *text)
{
    const kvs_batch good = two();
    kvs_data *data;

    expect_no_handle(data, KVS_E_INVALID, text,
                     kvs_data_create_arrays(&data, &batch, NULL, 10, &err));
    expect_no_handle(data, KVS_E_INVALID, text,
                     kvs_data_create_arrays(&data, &good, &batch, 10, &err));
}

static void test_arrays(void **state)
{
    static const size_t late[] = {1, 3, 6}, falling[] = {0, 3, 2}, hollow[] = {0, 3, 3};
    static const int32_t negative[] = {1, 2, 3, 4, 5, -6}, past[] = {2, 3, -1, 5, 6, 10};
    static const int32_t below[] = {2, 3, -2, 5, 6, -1};
    kvs_data *data;
    kvs_batch batch = two();

    (void)state;
    expect_init(kvs_batch);
    expect_needed(out, kvs_data_create_arrays(NULL, &batch, NULL, 0, &err));
    expect_no_handle(data, KVS_E_INVALID, "train is NULL",
                     kvs_data_create_arrays(&data, NULL, NULL, 0, &err));
    batch = two(), batch.sequences = 0, refuse(batch, "sequence");
    batch = two(), batch.starts = NULL, refuse(batch, "starts");
    batch = two(), batch.ids = NULL, refuse(batch, "ids");
    batch = two(), batch.starts = late, refuse(batch, "start");
    batch = two(), batch.starts = falling, refuse(batch, "start");
    batch = two(), batch.starts = hollow, refuse(batch, "empty");
    batch = two(), batch.ids = negative, refuse(batch, "-6");
    batch = two(), batch.targets = past, refuse(batch, "10");
    batch = two(), batch.targets = below, refuse(batch, "-2");
    batch = two();
    expect_no_handle(data, KVS_E_INVALID, "6",
                     kvs_data_create_arrays(&data, &batch, NULL, 6, &err)); /* 6 is an id */
    expect_ok(kvs_data_create_arrays(&data, &batch, NULL, 0, &err));
    assert_int_equal(kvs_data_vocab(data), 7);
    assert_int_equal(kvs_data_max_length(data), 3);
    kvs_data_free(data);
    expect_sizes(kvs_batch, offsetof(kvs_batch, scored),
                 (p->sequences = 2, p->starts = starts, p->ids = ids),
                 kvs_data_create_arrays(&data, o, o, 0, &err), kvs_data_free(data));
}

static void test_sequence(void **state)
{
    kvs_batch batch = two();
    kvs_data *data;
    int32_t some[3], next[3];
    uint8_t scored[3];

    (void)state;
    batch.targets = targets;
    expect_ok(kvs_data_create_arrays(&data, &batch, NULL, 0, &err));
    assert_int_equal(kvs_data_sequence(some, next, scored, data, 1, KVS_STREAM_TRAIN, 0), 3);
    assert_int_equal(next[2], -1);
    assert_int_equal(kvs_data_sequence(some, next, scored, data, 1, KVS_STREAM_TRAIN, UINT64_MAX),
                     3);
    expect_zero(kvs_data_sequence(some, next, scored, data, 1, KVS_STREAM_EVAL, 0));
    expect_zero(kvs_data_sequence(some, next, scored, data, 1, (kvs_stream)7, 0));
    expect_zero(kvs_data_sequence(NULL, next, scored, data, 1, KVS_STREAM_TRAIN, 0));
    expect_zero(kvs_data_sequence(some, NULL, scored, data, 1, KVS_STREAM_TRAIN, 0));
    expect_zero(kvs_data_sequence(some, next, NULL, data, 1, KVS_STREAM_TRAIN, 0));
    expect_zero(kvs_data_sequence(some, next, scored, NULL, 1, KVS_STREAM_TRAIN, 0));
    kvs_data_free(data);
    expect_zero(kvs_data_vocab(NULL));
    expect_zero(kvs_data_max_length(NULL));
    expect_nothing(kvs_data_free(NULL));
}

static size_t count_up(void *user, uint64_t seed, kvs_stream stream, uint64_t index, int32_t *out,
                       int32_t *next, uint8_t *scored)
{
    (void)seed;
    (void)stream;
    (void)scored;
    for (int32_t i = 0; i < 4; i++) {
        out[i] = (int32_t)(index % 4) + i;
        next[i] = out[i] + 1;
    }
    return *(const size_t *)user;
}

static void test_callback(void **state)
{
    kvs_data *data;
    kvs_data_source source;
    int32_t some[4], next[4];
    uint8_t scored[4];
    size_t length = 4;

    (void)state;
    expect_init(kvs_data_source);
    expect_needed(out, kvs_data_create_callback(NULL, &source, &err));
    expect_no_handle(data, KVS_E_INVALID, "source is NULL",
                     kvs_data_create_callback(&data, NULL, &err));
    kvs_data_source_init(&source, sizeof source);
    source.vocab = 10;
    source.max_length = 4;
    source.user = &length;
    expect_no_handle(data, KVS_E_INVALID, "sequence",
                     kvs_data_create_callback(&data, &source, &err));
    source.sequence = count_up;
    source.vocab = 0;
    expect_no_handle(data, KVS_E_INVALID, "vocab", kvs_data_create_callback(&data, &source, &err));
    source.vocab = 10;
    source.max_length = 0;
    expect_no_handle(data, KVS_E_INVALID, "length", kvs_data_create_callback(&data, &source, &err));
    source.max_length = 4;
    source.mean_length = -1;
    expect_no_handle(data, KVS_E_INVALID, "length", kvs_data_create_callback(&data, &source, &err));
    source.mean_length = NAN;
    expect_no_handle(data, KVS_E_INVALID, "length", kvs_data_create_callback(&data, &source, &err));
    source.mean_length = 0;
    expect_ok(kvs_data_create_callback(&data, &source, &err));
    assert_int_equal(kvs_data_vocab(data), 10);
    assert_int_equal(kvs_data_max_length(data), 4);
    assert_int_equal(kvs_data_sequence(some, next, scored, data, 1, KVS_STREAM_EVAL, 2), 4);
    assert_int_equal(some[0], 2);
    assert_int_equal(scored[0], 0);
    kvs_data_free(data);
    expect_sizes(kvs_data_source, offsetof(kvs_data_source, user),
                 (p->vocab = 10, p->max_length = 4, p->sequence = count_up),
                 kvs_data_create_callback(&data, o, &err), kvs_data_free(data));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_arrays),
        cmocka_unit_test(test_sequence),
        cmocka_unit_test(test_callback),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
