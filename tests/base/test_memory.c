/* The allocator: aligned, zeroed, no overflow, every byte accounted for. */
#include "base/memory.h"

#include <pthread.h>
#include <string.h>

/* clang-format off */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h> /* needs those before it */
/* clang-format on */

static void blocks_are_aligned_and_zeroed(void **state)
{
    static const size_t sizes[] = {0, 1, 7, 63, 64, 65, 127, 128, 1000, 1 << 20};

    (void)state;
    for (int round = 0; round < 2; round++) { /* the second one reuses memory full of 0xff */
        for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
            unsigned char *block = kvsi_alloc(sizes[i], 1);

            assert_non_null(block);
            assert_int_equal((uintptr_t)block % 64, 0);
            for (size_t at = 0; at < sizes[i]; at++)
                assert_int_equal(block[at], 0);
            memset(block, 0xff, sizes[i]);
            kvsi_free(block);
        }
    }
}

/* Blocks in huge pages need not be a multiple of a page. */
static void large_blocks_have_any_size(void **state)
{
    static const size_t size = ((size_t)8 << 20) + 1;
    unsigned char *block = kvsi_alloc(size, 1);

    (void)state;
    assert_non_null(block);
    assert_int_equal((uintptr_t)block % 64, 0);
    assert_int_equal(block[0] | block[size - 1], 0);
    kvsi_free(block);
}

static void impossible_sizes_give_null(void **state)
{
    const uint64_t calls = kvsi_memory_allocations();
    const size_t live = kvsi_memory_live();

    (void)state;
    assert_null(kvsi_alloc(SIZE_MAX / 2, 3));                 /* the product overflows */
    assert_null(kvsi_alloc(SIZE_MAX / 4 + 2, sizeof(float))); /* ... to a small number */
    assert_null(kvsi_alloc(SIZE_MAX, 1));                     /* no space for the block's header */
    assert_null(kvsi_alloc(SIZE_MAX - 100, 1));
    assert_int_equal(kvsi_memory_live(), live);
    assert_int_equal(kvsi_memory_allocations(), calls);
}

static void bytes_are_accounted(void **state)
{
    const uint64_t calls = kvsi_memory_allocations();
    const size_t live = kvsi_memory_live();
    void *a = kvsi_alloc(10, 12), *b = kvsi_alloc(0, 5), *c = kvsi_alloc(1, 1);

    (void)state;
    assert_int_equal(kvsi_memory_allocations() - calls, 3);
    assert_int_equal(kvsi_memory_live() - live, 121);
    kvsi_free(a);
    assert_int_equal(kvsi_memory_live() - live, 1);
    kvsi_free(b);
    kvsi_free(NULL);
    kvsi_free(c);
    assert_int_equal(kvsi_memory_live(), live);
    assert_int_equal(kvsi_memory_allocations() - calls, 3); /* counts calls, not blocks */
}

static void text_is_copied(void **state)
{
    char text[] = "shift";
    char *copy = kvsi_strdup(text);

    (void)state;
    assert_non_null(copy);
    text[0] = 'S';
    assert_string_equal(copy, "shift");
    kvsi_free(copy);
}

enum { THREADS = 4, ROUNDS = 2000 };

static void *allocate_and_free(void *unused)
{
    for (int i = 0; i < ROUNDS; i++)
        kvsi_free(kvsi_alloc(3, 5));
    return unused;
}

static void threads_are_accounted(void **state)
{
    const uint64_t calls = kvsi_memory_allocations();
    const size_t live = kvsi_memory_live();
    pthread_t threads[THREADS];

    (void)state;
    for (int i = 0; i < THREADS; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, allocate_and_free, NULL), 0);
    for (int i = 0; i < THREADS; i++)
        assert_int_equal(pthread_join(threads[i], NULL), 0);
    assert_int_equal(kvsi_memory_allocations() - calls, THREADS * ROUNDS);
    assert_int_equal(kvsi_memory_live(), live);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(blocks_are_aligned_and_zeroed),
        cmocka_unit_test(large_blocks_have_any_size),
        cmocka_unit_test(impossible_sizes_give_null),
        cmocka_unit_test(bytes_are_accounted),
        cmocka_unit_test(text_is_copied),
        cmocka_unit_test(threads_are_accounted),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
