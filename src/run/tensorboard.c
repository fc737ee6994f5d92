#include "run/tensorboard.h"

#include "base/files.h"
#include "base/memory.h"

#include <math.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum { EVENT_MAX = 256, TAG_MAX = 64 }; /* bytes */

struct kvsi_events {
    FILE *file;
    char *path;
};

/* ---- checksums ---- */

/* Castagnoli's polynomial, bit-reversed.  Bit by bit is fast enough for a few hundred bytes per
 * step. */
uint32_t kvsi_crc32c(const void *data, size_t size)
{
    const unsigned char *bytes = data;
    uint32_t crc = 0xffffffff;

    for (size_t i = 0; i < size; i++) {
        crc ^= bytes[i];
        for (int bit = 0; bit < 8; bit++)
            crc = crc >> 1 ^ (crc & 1 ? 0x82f63b78 : 0);
    }
    return ~crc;
}

static uint32_t masked(uint32_t crc)
{
    return (crc >> 15 | crc << 17) + 0xa282ead8;
}

/* ---- bytes ---- */

typedef struct bytes {
    unsigned char at[EVENT_MAX];
    size_t size;
} bytes;

static void add_little_endian(bytes *b, uint64_t value, size_t size)
{
    for (size_t i = 0; i < size; i++)
        b->at[b->size++] = (unsigned char)(value >> 8 * i);
}

static void add_varint(bytes *b, uint64_t value)
{
    for (; value >= 128; value >>= 7)
        b->at[b->size++] = (unsigned char)(value | 128);
    b->at[b->size++] = (unsigned char)value;
}

static void add_block(bytes *b, unsigned char key, const void *data, size_t size)
{
    b->at[b->size++] = key;
    add_varint(b, size);
    memcpy(b->at + b->size, data, size);
    b->size += size;
}

static void add_double(bytes *b, unsigned char key, double value)
{
    uint64_t bits;

    memcpy(&bits, &value, sizeof bits);
    b->at[b->size++] = key;
    add_little_endian(b, bits, 8);
}

/* ---- events ---- */

static double wall_time(void)
{
    struct timespec now;

    clock_gettime(CLOCK_REALTIME, &now);
    return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

static kvs_status write_record(kvsi_events *events, const bytes *event, kvs_err *err)
{
    bytes head = {.size = 0}, tail = {.size = 0};

    add_little_endian(&head, event->size, 8);
    add_little_endian(&head, masked(kvsi_crc32c(head.at, 8)), 4);
    add_little_endian(&tail, masked(kvsi_crc32c(event->at, event->size)), 4);
    if (fwrite(head.at, 1, head.size, events->file) != head.size ||
        fwrite(event->at, 1, event->size, events->file) != event->size ||
        fwrite(tail.at, 1, tail.size, events->file) != tail.size || fflush(events->file) != 0)
        return kvsi_fail_errno(err, "write", events->path);
    return KVS_OK;
}

static kvs_status write_version(kvsi_events *events, kvs_err *err)
{
    static const char version[] = "brain.Event:2";
    bytes event = {.size = 0};

    add_double(&event, 0x09, wall_time());
    add_block(&event, 0x1a, version, sizeof version - 1);
    return write_record(events, &event, err);
}

kvs_status kvsi_events_add(kvsi_events *events, uint64_t step, const char *tag, double value,
                           kvs_err *err)
{
    const float single = (float)value;
    bytes event = {.size = 0}, summary = {.size = 0}, entry = {.size = 0};
    uint32_t bits;

    if (!isfinite(value) || strlen(tag) > TAG_MAX)
        return KVS_OK;
    memcpy(&bits, &single, sizeof bits);
    add_block(&entry, 0x0a, tag, strlen(tag));
    entry.at[entry.size++] = 0x15;
    add_little_endian(&entry, bits, 4);
    add_block(&summary, 0x0a, entry.at, entry.size);
    add_double(&event, 0x09, wall_time());
    event.at[event.size++] = 0x10;
    add_varint(&event, step);
    add_block(&event, 0x2a, summary.at, summary.size);
    return write_record(events, &event, err);
}

/* ---- the file ---- */

static char *name_file(const char *dir)
{
    char host[65] = "localhost", name[160];

    gethostname(host, sizeof host - 1);
    snprintf(name, sizeof name, "events.out.tfevents.%010lld.%s.%ld", (long long)time(NULL), host,
             (long)getpid());
    return kvsi_path_join(dir, name);
}

kvs_status kvsi_events_open(kvsi_events **out, const char *dir, kvs_err *err)
{
    kvsi_events *events = kvsi_alloc(1, sizeof *events);
    int made;
    kvs_status st = KVS_OK;

    *out = NULL;
    if (!events || !(events->path = name_file(dir))) {
        st = kvsi_fail(err, KVS_E_NOMEM, "out of memory for '%s'", dir);
        goto out;
    }
    TRY_OUT(kvsi_dir_make(dir, &made, err));
    events->file = fopen(events->path, "wb");
    if (!events->file) {
        st = kvsi_fail_errno(err, "write", events->path);
        goto out;
    }
    TRY_OUT(write_version(events, err));
    *out = events;
    events = NULL;
out:
    kvsi_events_close(events);
    return st;
}

void kvsi_events_close(kvsi_events *events)
{
    if (!events)
        return;
    if (events->file)
        fclose(events->file);
    kvsi_free(events->path);
    kvsi_free(events);
}
