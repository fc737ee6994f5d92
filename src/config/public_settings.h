/* config/public_settings.h - the configuration of a task, and the tables of tasks by name. */
#ifndef KVSI_CONFIG_PUBLIC_SETTINGS_H
#define KVSI_CONFIG_PUBLIC_SETTINGS_H

#include "config/config.h"

/* The configuration of one task; the public handle points to this struct.  kvs_task_create sets
 * the members that have no row: vocab, seed and tokenizer. */
struct kvs_task_config {
    const kvsi_settings *table; /* of the member of `settings` that is used */
    union {
        kvsi_induction_config induction;
        kvsi_ngram_config ngram;
        kvsi_hopk_config hopk;
        kvsi_igsm_config igsm;
    } settings;
};

/* Returns the table of the task of that name; NULL if there is no such task. */
const kvsi_settings *kvsi_task_settings(const char *task);

#endif
