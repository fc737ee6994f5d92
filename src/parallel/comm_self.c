/* One process alone: every collective is a copy. */
#include "parallel/comm.h"

#include <string.h>

static kvs_status all_gather(void *self, kvsi_transfer *t, void *all, const void *own, size_t bytes,
                             kvs_err *err)
{
    (void)self, (void)t, (void)err;
    memcpy(all, own, bytes);
    return KVS_OK;
}

static kvs_status broadcast(void *self, kvsi_transfer *t, void *data, size_t bytes, size_t root,
                            kvs_err *err)
{
    (void)self, (void)t, (void)data, (void)bytes, (void)root, (void)err;
    return KVS_OK;
}

static kvs_status all_to_all(void *self, kvsi_transfer *t, void *received, const void *data,
                             const kvsi_comm_shards *shards, kvs_err *err)
{
    (void)self, (void)t, (void)err;
    memcpy(received, data, (size_t)shards->counts[0]);
    return KVS_OK;
}

static kvs_status all_gather_shards(void *self, kvsi_transfer *t, void *data, const void *own,
                                    const kvsi_comm_shards *shards, kvs_err *err)
{
    (void)self, (void)t, (void)err;
    if (own)
        memcpy(data, own, (size_t)shards->counts[0]);
    return KVS_OK;
}

static kvs_status test(void *self, kvsi_transfer *t, int *done, kvs_err *err)
{
    (void)self, (void)t, (void)err;
    *done = 1;
    return KVS_OK;
}

static void abort_all(void *self, int code)
{
    (void)self, (void)code;
}

static void close_comm(void *self)
{
    (void)self;
}

static const kvsi_comm_ops ops = {all_gather, broadcast, all_to_all, all_gather_shards,
                                  test,       abort_all, close_comm};

kvs_comm kvsi_comm_self = {.ops = &ops, .size = 1, .core_sharers = 1};
