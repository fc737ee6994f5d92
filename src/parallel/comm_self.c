/* One process alone: what it gathers is what it gives. */
#include "parallel/comm.h"

#include <string.h>

static kvs_status gather(void *self, kvsi_transfer *t, void *all, const void *own, size_t bytes,
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

static kvs_status scatter(void *self, kvsi_transfer *t, void *arrived, const void *block,
                          const kvsi_cut *cut, kvs_err *err)
{
    (void)self, (void)t, (void)err;
    memcpy(arrived, block, (size_t)cut->sizes[0]);
    return KVS_OK;
}

static kvs_status collect(void *self, kvsi_transfer *t, void *block, const void *own,
                          const kvsi_cut *cut, kvs_err *err)
{
    (void)self, (void)t, (void)err;
    if (own)
        memcpy(block, own, (size_t)cut->sizes[0]);
    return KVS_OK;
}

static kvs_status test(void *self, kvsi_transfer *t, int *done, kvs_err *err)
{
    (void)self, (void)t, (void)err;
    *done = 1;
    return KVS_OK;
}

/* Nobody is there to be ended. */
static void end_others(void *self, int code)
{
    (void)self, (void)code;
}

static void leave(void *self)
{
    (void)self;
}

static const kvsi_comm_ops ops = {gather, broadcast, scatter, collect, test, end_others, leave};

kvs_comm kvsi_comm_self = {.ops = &ops, .size = 1, .sharers = 1};
