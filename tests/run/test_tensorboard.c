/* TensorBoard's event files have the framing and checksums that its readers check. */
#include "base/files.h"
#include "base/folders.h"
#include "base/memory.h"
#include "run/tensorboard.h"
#include "support.h"

#include <math.h>
#include <string.h>

/* Published check value of CRC-32C, and those of RFC 3720 for 32 bytes of 0 and of 255. */
static void checksums_are_castagnoli(void **state)
{
    unsigned char block[32] = {0};

    (void)state;
    assert_int_equal(kvsi_crc32c("123456789", 9), 0xe3069283);
    assert_int_equal(kvsi_crc32c(block, sizeof block), 0x8a9136aa);
    memset(block, 255, sizeof block);
    assert_int_equal(kvsi_crc32c(block, sizeof block), 0x62a8ab43);
}

static uint64_t little_endian(const unsigned char *at, size_t size)
{
    uint64_t value = 0;

    for (size_t i = size; i-- > 0;)
        value = value << 8 | at[i];
    return value;
}

static uint32_t masked(const void *data, size_t size)
{
    const uint32_t crc = kvsi_crc32c(data, size);

    return (crc >> 15 | crc << 17) + 0xa282ead8;
}

/* The bytes of the next record; checks both checksums. */
static const unsigned char *next_record(const unsigned char **at, size_t *size)
{
    const unsigned char *head = *at, *data = head + 12;

    *size = little_endian(head, 8);
    assert_int_equal(little_endian(head + 8, 4), masked(head, 8));
    assert_int_equal(little_endian(data + *size, 4), masked(data, *size));
    *at = data + *size + 4;
    return data;
}

static char *read_events(const char *dir, size_t *size)
{
    kvsi_name_list list;
    char *path, *data;

    assert_int_equal(kvsi_dir_list(&list, dir, "events.out.tfevents.", NULL), KVS_OK);
    assert_int_equal(list.count, 1);
    path = kvsi_path_join(dir, list.names[0]);
    assert_int_equal(kvsi_file_read(&data, size, path, 4096, NULL), KVS_OK);
    kvsi_free(path);
    kvsi_name_list_release(&list);
    return data;
}

static void a_file_has_its_version_and_its_numbers(void **state)
{
    /* step 300, { value { tag "a/b", simple_value 1.5 } } */
    static const unsigned char expected[] = {0x10, 0xac, 0x02, 0x2a, 12, 0x0a, 10,   0x0a, 3,
                                             'a',  '/',  'b',  0x15, 0,  0,    0xc0, 0x3f};
    char *dir = support_make_dir(), *data;
    kvsi_events *events;
    const unsigned char *at, *record;
    size_t size, length;

    (void)state;
    assert_int_equal(kvsi_events_open(&events, dir, NULL), KVS_OK);
    assert_int_equal(kvsi_events_add(events, 300, "a/b", 1.5, NULL), KVS_OK);
    assert_int_equal(kvsi_events_add(events, 301, "nothing", NAN, NULL), KVS_OK);
    kvsi_events_close(events);
    data = read_events(dir, &size);
    at = (const unsigned char *)data;
    record = next_record(&at, &length);
    assert_int_equal(length, 9 + 2 + 13);
    assert_memory_equal(record + 9,
                        "\x1a\x0d"
                        "brain.Event:2",
                        15);
    record = next_record(&at, &length);
    assert_int_equal(length, 9 + sizeof expected);
    assert_memory_equal(record + 9, expected, sizeof expected);
    assert_ptr_equal(at, (const unsigned char *)data + size);
    kvsi_free(data);
    support_remove_dir(dir);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(checksums_are_castagnoli),
        cmocka_unit_test(a_file_has_its_version_and_its_numbers),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
