/* A training configuration: its defaults, its checks, and the names of its choices. */
#include "base/status.h"

#include <math.h>
#include <string.h>

void kvs_train_config_init(kvs_train_config *config)
{
    *config = (kvs_train_config){
        .steps = 1000,
        .warmup = 50,
        .batch = 128,
        .accumulate = 1,
        .schedule = KVS_SCHEDULE_CONSTANT,
        .lr = 1e-3,
        .lr_floor = 0.1,
        .beta1 = 0.9,
        .beta2 = 0.95,
        .eps = 1e-8,
        .weight_decay = 0.1,
        .clip = 1.0,
        .seed = 1,
    };
}

static kvs_status check_counts(const kvs_train_config *c, kvs_err *err)
{
    if (c->batch < 1)
        return kvsi_fail(err, KVS_E_INVALID, "batch is 0, expected at least 1 sequence");
    if (c->accumulate < 1 || c->batch % c->accumulate != 0)
        return kvsi_fail(err, KVS_E_INVALID, "accumulate is %zu, expected a divisor of batch %zu",
                         c->accumulate, c->batch);
    if (c->seed > INT64_MAX)
        return kvsi_fail(err, KVS_E_INVALID, "seed is %llu, expected at most %lld",
                         (unsigned long long)c->seed, (long long)INT64_MAX);
    if (c->steps < 1)
        return kvsi_fail(err, KVS_E_INVALID, "steps is 0, expected at least 1");
    return KVS_OK;
}

kvs_status kvs_train_config_check(const kvs_train_config *config, kvs_err *err)
{
    const struct {
        const char *name;
        double value, low, high; /* low <= value < high */
    } reals[] = {
        {"learning rate", config->lr, 0, 1e3},
        {"learning rate floor", config->lr_floor, 0, nextafter(1, 2)},
        {"beta1", config->beta1, 0, 1},
        {"beta2", config->beta2, 0, 1},
        {"eps", config->eps, 0, 1},
        {"weight decay", config->weight_decay, 0, 1e3},
        {"shift learning rate", config->shift_lr, 0, 1e3},
        {"shift decay", config->shift_decay, 0, 1e3},
        {"clip", config->clip, 0, 1e30},
    };

    for (size_t i = 0; i < sizeof reals / sizeof *reals; i++)
        if (!(reals[i].value >= reals[i].low && reals[i].value < reals[i].high))
            return kvsi_fail(err, KVS_E_INVALID, "%s is %g, expected %g to %g", reals[i].name,
                             reals[i].value, reals[i].low, reals[i].high);
    if (!kvs_schedule_name(config->schedule))
        return kvsi_fail(err, KVS_E_INVALID, "unknown schedule %d", (int)config->schedule);
    if (!kvs_shard_name(config->shard))
        return kvsi_fail(err, KVS_E_INVALID, "unknown shard %d", (int)config->shard);
    return check_counts(config, err);
}

static const char *const shard_names[] = {"none", "optimizer", "gradients", "parameters"};

enum { SHARDS = sizeof shard_names / sizeof *shard_names };

const char *kvs_shard_name(kvs_shard shard)
{
    return (size_t)shard < SHARDS ? shard_names[shard] : NULL;
}

kvs_status kvs_shard_parse(kvs_shard *out, const char *name, kvs_err *err)
{
    for (int i = 0; i < SHARDS; i++)
        if (strcmp(shard_names[i], name) == 0) {
            *out = (kvs_shard)i;
            return KVS_OK;
        }
    return kvsi_fail(err, KVS_E_INVALID,
                     "unknown shard '%s', expected none, optimizer, gradients or parameters", name);
}
