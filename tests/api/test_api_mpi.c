/* The MPI calls, with a single rank. */
#include "api.h"

#include <kvshift/kvshift_mpi.h>

static void test_one(void **state)
{
    kvs_comm *comm;
    kvs_runtime_options options;
    kvs_runtime *rt;

    (void)state;
    expect_needed(out, kvs_comm_open(NULL, &err));
    expect_ok(kvs_comm_open(&comm, &err));
    assert_int_equal(kvs_comm_rank(comm), 0);
    assert_int_equal(kvs_comm_size(comm), 1);
    assert_null(kvs_comm_host(comm, 0));
    assert_null(kvs_comm_host(comm, SIZE_MAX));
    assert_true(kvs_comm_cores(comm, 0) >= 1);
    expect_zero(kvs_comm_cores(comm, 1));
    expect_zero(kvs_comm_cores(comm, SIZE_MAX));
    kvs_comm_set_timeout(comm, 10);
    kvs_comm_set_timeout(comm, NAN);
    kvs_comm_set_timeout(comm, -1);
    expect_ok(kvs_comm_agree(comm, KVS_OK, &err));
    assert_int_equal(kvs_comm_agree(comm, KVS_E_IO, NULL), KVS_E_IO);
    err.status = KVS_E_IO;
    snprintf(err.message, sizeof err.message, "own failure");
    assert_int_equal(kvs_comm_agree(comm, KVS_E_IO, &err), KVS_E_IO);
    assert_string_equal(err.message, "own failure");
    assert_true(kvs_comm_all_know(comm) == 0 || kvs_comm_all_know(comm) == 1);
    kvs_comm_abort(comm, 3); /* returns, because there is one rank */

    kvs_runtime_options_init(&options, sizeof options);
    options.comm = comm;
    options.threads = 1;
    expect_ok(kvs_runtime_create(&rt, &options, &err));
    kvs_runtime_free(rt);
    kvs_comm_close(comm);
    assert_int_equal(kvs_comm_launched_rank(), 0);
    assert_true(kvs_comm_has_mpi() == 0 || kvs_comm_has_mpi() == 1);
}

static void test_null(void **state)
{
    (void)state;
    expect_nothing(kvs_comm_close(NULL));
    expect_zero(kvs_comm_rank(NULL));
    expect_zero(kvs_comm_size(NULL));
    expect_null(kvs_comm_host(NULL, 0));
    expect_zero(kvs_comm_cores(NULL, 0));
    expect_nothing(kvs_comm_set_timeout(NULL, 1));
    expect_needed(comm, kvs_comm_agree(NULL, KVS_OK, &err));
    expect_zero(kvs_comm_all_know(NULL));
    expect_nothing(kvs_comm_abort(NULL, 1));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_one),
        cmocka_unit_test(test_null),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
