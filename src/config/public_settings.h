/* config/public_settings.h - the tables that are reached by name. */
#ifndef KVSI_CONFIG_PUBLIC_SETTINGS_H
#define KVSI_CONFIG_PUBLIC_SETTINGS_H

#include "config/config.h"

/* The configuration of one task; the public handle points to one of these. */
struct kvs_task_config {
    const char *task; /* its name, a static string */
    union {
        kvsi_induction_config induction;
        kvsi_ngram_config ngram;
        kvsi_hopk_config hopk;
        kvsi_igsm_config igsm;
    } settings;
};

/* The table of a task; NULL if there is no such task. */
const kvsi_settings *kvsi_task_settings(const char *task);

#endif
