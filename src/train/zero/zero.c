#include "train/zero/zero.h"

#include "base/memory.h"
#include "train/zero/all_gather.h"
#include "train/zero/reduce_scatter.h"

typedef struct zero {
    kvsi_reducer base;
    kvsi_collectives collectives;
    kvsi_reduce_scatter *gradients;
    kvsi_all_gather *params;
    kvsi_pass_hooks hooks;
} zero;

/* ---- hooks of the pass ---- */

static void params_needed(void *user, size_t block)
{
    zero *z = user;

    kvsi_reduce_scatter_progress(z->gradients);
    kvsi_all_gather_need(z->params, block);
}

static void gradients_needed(void *user, size_t block)
{
    zero *z = user;

    kvsi_reduce_scatter_need(z->gradients, block);
}

static real *gradient_at(void *user, size_t offset)
{
    zero *z = user;

    return kvsi_reduce_scatter_at(z->gradients, offset);
}

static void gradients_ready(void *user, size_t block)
{
    zero *z = user;

    kvsi_reduce_scatter_ready(z->gradients, block);
}

/* ---- the step ---- */

static void begin_step(kvsi_reducer *r)
{
    zero *z = (zero *)r;

    kvsi_collectives_begin_step(&z->collectives);
    kvsi_reduce_scatter_begin_step(z->gradients);
}

static real *begin_pass(kvsi_reducer *r, int backward, size_t slice, int is_last)
{
    zero *z = (zero *)r;

    kvsi_all_gather_begin_pass(z->params, backward);
    return backward ? kvsi_reduce_scatter_begin_pass(z->gradients, slice, is_last) : NULL;
}

static void end_pass(kvsi_reducer *r)
{
    kvsi_reduce_scatter_end_pass(((zero *)r)->gradients);
}

static kvs_status finish(kvsi_reducer *r, kvs_err *err)
{
    return kvsi_reduce_scatter_finish(((zero *)r)->gradients, err);
}

static void gather(kvsi_reducer *r, size_t bucket)
{
    kvsi_all_gather_updated(((zero *)r)->params, bucket);
}

static kvs_status wait(kvsi_reducer *r, kvs_err *err)
{
    return kvsi_all_gather_wait(((zero *)r)->params, err);
}

static void forget(kvsi_reducer *r)
{
    kvsi_all_gather_forget(((zero *)r)->params);
}

static kvs_status exchange(kvsi_reducer *r, void *all, const void *own, size_t bytes, kvs_err *err)
{
    return kvsi_collectives_exchange(&((zero *)r)->collectives, all, own, bytes, err);
}

static void free_zero(kvsi_reducer *r)
{
    zero *z = (zero *)r;

    kvsi_reduce_scatter_free(z->gradients);
    kvsi_all_gather_free(z->params);
    kvsi_collectives_release(&z->collectives);
    kvsi_reducer_release(r);
    kvsi_free(z);
}

static const kvsi_reducer_ops zero_ops = {
    .begin_step = begin_step,
    .begin_pass = begin_pass,
    .end_pass = end_pass,
    .finish = finish,
    .gather = gather,
    .wait = wait,
    .forget = forget,
    .exchange = exchange,
    .free = free_zero,
};

kvs_status kvsi_zero_create(kvsi_reducer **out, kvs_model *model, const kvs_train_config *config,
                            kvsi_group first_group, kvs_err *err)
{
    zero *z = kvsi_alloc(1, sizeof *z);
    kvs_status st;

    *out = NULL;
    if (!z)
        return kvsi_no_memory(err, "gradients");
    TRY_OUT(kvsi_reducer_init(&z->base, model, config, first_group, err));
    TRY_OUT(kvsi_collectives_init(&z->collectives, &z->base, err));
    TRY_OUT(kvsi_reduce_scatter_create(&z->gradients, &z->collectives, err));
    TRY_OUT(kvsi_all_gather_create(&z->params, &z->collectives, err));
    z->hooks = (kvsi_pass_hooks){
        .user = z,
        .params_needed = params_needed,
        .gradients_needed = gradients_needed,
        .gradient_at = z->base.gradients_sharded ? gradient_at : NULL,
        .gradients_ready = gradients_ready,
    };
    z->base.hooks = &z->hooks;
    z->base.ops = &zero_ops;
    *out = &z->base;
    return KVS_OK;
out:
    free_zero(&z->base);
    return st;
}
