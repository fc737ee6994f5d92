/* kvs_task_create: creates a task from its public configuration. */
#include "base/sized.h"
#include "config/public_settings.h"
#include "data/tasks/tasks.h"

static const kvs_task_options defaults = {.size = sizeof defaults, .vocab = 1000, .seed = 1};

void kvs_task_options_init(kvs_task_options *options, size_t size)
{
    kvsi_sized_init(options, size, &defaults, sizeof defaults);
}

kvs_status kvs_task_create(kvs_data **out, const kvs_task_config *config,
                           const kvs_task_options *options, kvs_err *err)
{
    kvs_task_options o = defaults;
    kvs_task_config own;

    NEED(out);
    *out = NULL;
    NEED(config);
    TRY(kvsi_sized_read(&o, sizeof o, options, "kvs_task_options", err));
    own = *config;
    if (own.table == &kvsi_induction_settings) {
        own.settings.induction.vocab = o.vocab > 0 ? o.vocab : defaults.vocab;
        return kvsi_induction_create(out, &own.settings.induction, err);
    }
    if (own.table == &kvsi_ngram_settings) {
        own.settings.ngram.seed = o.seed;
        return kvsi_ngram_create(out, &own.settings.ngram, err);
    }
    if (own.table == &kvsi_hopk_settings)
        return kvsi_hopk_create(out, &own.settings.hopk, err);
    own.settings.igsm.tokenizer = o.tokenizer;
    return kvsi_igsm_create(out, &own.settings.igsm, err);
}
