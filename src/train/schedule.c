/* The learning rate of each step. */
#include "base/status.h"
#include "config/config.h"

#include <math.h>
#include <string.h>

double kvs_learning_rate(const kvs_train_config *config, uint64_t step)
{
    double floor;
    double progress; /* 0 right after the warm-up, 1 at the last step */

    if (!config)
        return NAN;
    floor = config->lr * config->lr_floor;
    if (step < config->warmup)
        return config->lr * (double)step / (double)config->warmup;
    if (config->schedule == KVSI_SCHEDULE_CONSTANT || config->steps <= config->warmup)
        return config->lr;
    progress = (double)(step - config->warmup) / (double)(config->steps - config->warmup);
    progress = progress < 1 ? progress : 1;
    if (config->schedule == KVSI_SCHEDULE_COSINE)
        progress = 0.5 * (1 - cos(3.14159265358979323846 * progress));
    return config->lr + (floor - config->lr) * progress;
}

double kvsi_shift_learning_rate(const kvs_train_config *config, uint64_t step)
{
    kvs_train_config own = *config;

    if (config->shift_lr > 0)
        own.lr = config->shift_lr;
    return kvs_learning_rate(&own, step);
}
