/* The thread pool of the Python package, which takes the place of libgomp in this program. */
#include "parallel/pool/pool.c"
#include "support.h"

#include <stdint.h>
#include <string.h>
#include <sys/wait.h>

#include <cmocka.h>

enum { PIECES = 10000, THREADS = 5 };

/* How often each piece was computed, and by how many different threads. */
typedef struct counts {
    long start, end, step, chunk;
    atomic_int piece[PIECES];
    atomic_int thread[WORKERS_MAX + 1];
    int uses_unsigned;
} counts;

/* What GCC makes of `#pragma omp parallel for schedule(dynamic, chunk)`. */
static void count_pieces(void *data)
{
    counts *c = data;
    long from, to;
    number first, last;

    atomic_fetch_add(&c->thread[omp_get_thread_num()], 1);
    if (c->uses_unsigned) {
        if (GOMP_loop_ull_nonmonotonic_dynamic_start(true, (number)c->start, (number)c->end,
                                                     (number)c->step, (number)c->chunk, &first,
                                                     &last))
            do
                for (number i = first; i < last; i += (number)c->step)
                    atomic_fetch_add(&c->piece[i], 1);
            while (GOMP_loop_ull_nonmonotonic_dynamic_next(&first, &last));
    } else {
        while (GOMP_loop_nonmonotonic_dynamic_next(&from, &to))
            for (long i = from; i < to; i += c->step)
                atomic_fetch_add(&c->piece[i], 1);
    }
    GOMP_loop_end_nowait();
}

static void run_counts(counts *c, unsigned threads)
{
    memset(c->piece, 0, sizeof c->piece);
    memset(c->thread, 0, sizeof c->thread);
    if (c->uses_unsigned)
        GOMP_parallel(count_pieces, c, threads, 0);
    else
        GOMP_parallel_loop_nonmonotonic_dynamic(count_pieces, c, threads, c->start, c->end, c->step,
                                                c->chunk, 0);
}

/* Every piece of the loop is computed once, no other piece, and thread numbers are distinct. */
static int is_right(const counts *c, unsigned threads)
{
    int right = 1;

    for (long i = 0; i < PIECES; i++)
        right &= atomic_load(&c->piece[i]) ==
                 (i >= c->start && i < c->end && (i - c->start) % c->step == 0);
    for (unsigned i = 0; i <= WORKERS_MAX; i++)
        right &= atomic_load(&c->thread[i]) == (i < threads || i == 0);
    return right;
}

static void test_loops(void **state)
{
    static const long ranges[][4] = {{0, PIECES, 1, 1}, {0, PIECES, 1, 7}, {3, 500, 3, 2},
                                     {5, 6, 1, 1},      {5, 5, 1, 1},      {9, 4, 1, 1},
                                     {0, 3, 1, 100}};
    static const unsigned threads[] = {1, 2, THREADS, 3, 0};
    static counts c;

    (void)state;
    for (int round = 0; round < 50; round++)
        for (size_t t = 0; t < sizeof threads / sizeof *threads; t++)
            for (size_t r = 0; r < sizeof ranges / sizeof *ranges; r++) {
                c.start = ranges[r][0];
                c.end = ranges[r][1];
                c.step = ranges[r][2];
                c.chunk = ranges[r][3];
                c.uses_unsigned = round % 2;
                run_counts(&c, threads[t]);
                assert_true(is_right(&c, threads[t]));
            }
    assert_true(omp_get_num_procs() >= 1);
    assert_int_equal(omp_get_thread_num(), 0);
}

/* A region inside a region runs on its thread alone, and does not disturb the outer one. */
static void nested(void *data)
{
    static _Thread_local counts inner;
    atomic_int *right = data;
    const int index = omp_get_thread_num();

    inner = (counts){.end = 100, .step = 1, .chunk = 1};
    run_counts(&inner, THREADS);
    if (is_right(&inner, 1) && omp_get_thread_num() == index)
        atomic_fetch_add(right, 1);
}

static void test_nested(void **state)
{
    atomic_int right = 0;

    (void)state;
    GOMP_parallel(nested, &right, 3, 0);
    assert_int_equal(atomic_load(&right), 3);
}

/* Several threads of the program are in regions at once. */
static void *many_regions(void *data)
{
    counts *c = calloc(1, sizeof *c);
    int *right = data;

    *right = c != NULL;
    for (int i = 0; c && i < 100; i++) {
        *c = (counts){.end = 1000, .step = 1, .chunk = 1, .uses_unsigned = i % 2};
        run_counts(c, 1 + (unsigned)i % THREADS);
        *right &= is_right(c, 1 + (unsigned)i % THREADS);
    }
    free(c);
    return NULL;
}

static void test_threads(void **state)
{
    enum { MANY = 6 };
    pthread_t threads[MANY];
    int right[MANY];

    (void)state;
    for (int i = 0; i < MANY; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, many_regions, &right[i]), 0);
    for (int i = 0; i < MANY; i++) {
        pthread_join(threads[i], NULL);
        assert_true(right[i]);
    }
}

/* With clang, the library uses another runtime, and its thread sanitizer cannot follow forks. */
#ifndef __clang__

/* The child of a fork has regions with threads, also if a thread of the parent was in one. */
static void test_fork(void **state)
{
    pthread_t thread;
    int right, of_parent;

    (void)state;
    for (int i = 0; i < 20; i++) {
        pid_t child;
        int status;

        assert_int_equal(pthread_create(&thread, NULL, many_regions, &of_parent), 0);
        child = fork();
        if (child == 0) {
            alarm(60); /* a hang becomes a failure */
            many_regions(&right);
            _exit(right ? 0 : 1);
        }
        assert_int_equal(waitpid(child, &status, 0), child);
        assert_int_equal(status, 0);
        pthread_join(thread, NULL);
        assert_true(of_parent);
    }
}

/* The library itself, whose regions run in this pool.  logits[0] is the number of threads. */
static void product(float *logits)
{
    kvs_runtime_options options;
    kvs_runtime *rt = NULL;
    kvs_model *model = NULL;
    kvs_model_config *config = NULL;
    kvs_session *session = NULL;
    const int32_t ids[] = {1, 2, 3, 4, 5, 6, 7, 8};

    kvs_runtime_options_init(&options, sizeof options);
    options.threads = (int)logits[0];
    if (kvs_runtime_create(&rt, &options, NULL) == KVS_OK &&
        kvs_model_config_create(&config, NULL, NULL) == KVS_OK &&
        kvs_model_config_set_number(config, "vocab", 100, NULL) == KVS_OK &&
        kvs_model_config_set_number(config, "dim", 64, NULL) == KVS_OK &&
        kvs_model_config_set(config, "shift", "kv", NULL) == KVS_OK &&
        kvs_model_config_finish(config, NULL) == KVS_OK &&
        kvs_model_create(&model, rt, config, 1, NULL) == KVS_OK &&
        kvs_session_create(&session, model, NULL, NULL) == KVS_OK)
        (void)kvs_session_feed(session, ids, sizeof ids / sizeof *ids, logits, NULL);
    kvs_session_free(session);
    kvs_model_free(model);
    kvs_model_config_free(config);
    kvs_runtime_free(rt);
}

static void test_library(void **state)
{
    float first[100] = {1}, other[100];

    (void)state;
    product(first);
    assert_true(first[99] != 0);
    for (int threads = 2; threads <= 4; threads++) {
        other[0] = (float)threads;
        other[99] = 0;
        product(other);
        assert_memory_equal(first, other, sizeof first);
    }
}

#endif

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_loops),   cmocka_unit_test(test_nested),
        cmocka_unit_test(test_threads),
#ifndef __clang__
        cmocka_unit_test(test_library), cmocka_unit_test(test_fork),
#endif
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
