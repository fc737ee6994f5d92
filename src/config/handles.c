/* Configurations as handles whose settings are set and read by name: kvs_model_config,
 * kvs_train_config and kvs_task_config. */
#include "base/memory.h"
#include "config/public_settings.h"
#include "kvshift/kvshift_lab.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

/* ---- by name --------------------------------------------------------------------------------- */

static const char *name_at(const void *table, size_t index)
{
    const kvsi_settings *t = table;

    return index < t->count ? t->rows[index].name : NULL;
}

/* `what` names the table in the message: "model". */
static kvs_status find_row(const kvsi_setting **out, const kvsi_settings *table, const char *what,
                           const char *name, kvs_err *err)
{
    const char *nearest;

    NEED(name);
    *out = kvsi_settings_find(table, name);
    if (*out)
        return KVS_OK;
    nearest = kvsi_nearest_name(name, name_at, table);
    return kvsi_fail(err, KVS_E_INVALID, "unknown %s setting '%.100s'%s%s%s", what, name,
                     nearest ? "; did you mean '" : "", nearest ? nearest : "",
                     nearest ? "'?" : "");
}

/* An empty value is an empty list. */
static kvs_status store(const kvsi_setting *row, void *config, const char *value, kvs_err *err)
{
    NEED(value);
    if (!*value && kvsi_setting_is_list(row)) {
        kvsi_setting_clear(row, config);
        return KVS_OK;
    }
    return kvsi_setting_store(row, config, row->name, value, err);
}

static kvs_status set(const kvsi_settings *table, const char *what, void *config, const char *name,
                      const char *value, kvs_err *err)
{
    const kvsi_setting *row = NULL;

    NEED(config);
    TRY(find_row(&row, table, what, name, err));
    return store(row, config, value, err);
}

/* A whole number is written without a fraction, so that it can be a count or a flag. */
static void print_number(char *out, size_t size, double value)
{
    if (value == floor(value) && fabs(value) < 1e18)
        snprintf(out, size, "%.0f", value);
    else
        snprintf(out, size, "%.17g", value);
}

static kvs_status get(char *out, size_t size, const kvsi_settings *table, const char *what,
                      const void *config, const char *name, kvs_err *err)
{
    const kvsi_setting *row = NULL;
    char text[KVSI_SETTING_VALUE];

    NEED(out);
    NEED(config);
    TRY(find_row(&row, table, what, name, err));
    kvsi_setting_write(text, row, config);
    if (strlen(text) >= size)
        return kvsi_fail(err, KVS_E_LIMIT, "setting '%s' has %zu characters, the buffer holds %zu",
                         name, strlen(text), size > 0 ? size - 1 : 0);
    memcpy(out, text, strlen(text) + 1);
    return KVS_OK;
}

static double number(const kvsi_settings *table, const void *config, const char *name)
{
    const kvsi_setting *row = config && name ? kvsi_settings_find(table, name) : NULL;
    const char *field = row ? (const char *)config + row->offset : NULL;

    if (!row)
        return NAN;
    switch (row->kind) {
    case KVSI_SETTING_FLAG:
        return *(const int *)field;
    case KVSI_SETTING_SIZE:
        return (double)*(const size_t *)field;
    case KVSI_SETTING_UINT64:
        return (double)*(const uint64_t *)field;
    case KVSI_SETTING_REAL:
        return *(const double *)field;
    case KVSI_SETTING_OPTIONAL:
        return *(const size_t *)field == SIZE_MAX ? NAN : (double)*(const size_t *)field;
    default:
        return NAN;
    }
}

static kvs_status copy(void **out, const void *config, size_t size, kvs_err *err)
{
    NEED(out);
    *out = NULL;
    NEED(config);
    *out = kvsi_alloc(1, size);
    if (!*out)
        return kvsi_no_memory(err, "a configuration");
    memcpy(*out, config, size);
    return KVS_OK;
}

/* ---- models ---------------------------------------------------------------------------------- */

kvs_status kvs_model_config_create(kvs_model_config **out, const char *preset, kvs_err *err)
{
    kvs_model_config config;

    NEED(out);
    *out = NULL;
    kvsi_model_config_init(&config);
    if (preset)
        TRY(kvsi_model_config_preset(&config, preset, err));
    return kvs_model_config_copy(out, &config, err);
}

kvs_status kvs_model_config_copy(kvs_model_config **out, const kvs_model_config *config,
                                 kvs_err *err)
{
    return copy((void **)out, config, sizeof *config, err);
}

void kvs_model_config_free(kvs_model_config *config)
{
    kvsi_free(config);
}

kvs_status kvs_model_config_set(kvs_model_config *config, const char *name, const char *value,
                                kvs_err *err)
{
    const kvsi_setting *row = NULL;
    const kvsi_alias *alias;

    NEED(config);
    TRY(find_row(&row, &kvsi_model_settings, "model", name, err));
    TRY(store(row, config, value, err));
    alias = kvsi_setting_alias(row, value);
    if (alias) /* "shift" = "gate" sets the form too */
        config->shift.form = (kvsi_shift_form)alias->also_value;
    if (strcmp(name, "body") == 0)
        kvsi_model_config_set_body(config, config->body);
    return KVS_OK;
}

kvs_status kvs_model_config_set_number(kvs_model_config *config, const char *name, double value,
                                       kvs_err *err)
{
    char text[40];

    print_number(text, sizeof text, value);
    return kvs_model_config_set(config, name, text, err);
}

kvs_status kvs_model_config_get(char *out, size_t size, const kvs_model_config *config,
                                const char *name, kvs_err *err)
{
    return get(out, size, &kvsi_model_settings, "model", config, name, err);
}

double kvs_model_config_number(const kvs_model_config *config, const char *name)
{
    return number(&kvsi_model_settings, config, name);
}

/* ---- training -------------------------------------------------------------------------------- */

kvs_status kvs_train_config_create(kvs_train_config **out, const char *preset, kvs_err *err)
{
    kvs_train_config config;

    NEED(out);
    *out = NULL;
    kvsi_train_config_init(&config);
    if (preset)
        TRY(kvsi_train_config_preset(&config, preset, err));
    return kvs_train_config_copy(out, &config, err);
}

kvs_status kvs_train_config_copy(kvs_train_config **out, const kvs_train_config *config,
                                 kvs_err *err)
{
    return copy((void **)out, config, sizeof *config, err);
}

void kvs_train_config_free(kvs_train_config *config)
{
    kvsi_free(config);
}

kvs_status kvs_train_config_set(kvs_train_config *config, const char *name, const char *value,
                                kvs_err *err)
{
    return set(&kvsi_train_settings, "training", config, name, value, err);
}

kvs_status kvs_train_config_set_number(kvs_train_config *config, const char *name, double value,
                                       kvs_err *err)
{
    char text[40];

    print_number(text, sizeof text, value);
    return kvs_train_config_set(config, name, text, err);
}

kvs_status kvs_train_config_get(char *out, size_t size, const kvs_train_config *config,
                                const char *name, kvs_err *err)
{
    return get(out, size, &kvsi_train_settings, "training", config, name, err);
}

double kvs_train_config_number(const kvs_train_config *config, const char *name)
{
    return number(&kvsi_train_settings, config, name);
}

/* ---- tasks ----------------------------------------------------------------------------------- */

kvs_status kvs_task_config_create(kvs_task_config **out, const char *task, kvs_err *err)
{
    kvs_task_config config = {0};

    NEED(out);
    *out = NULL;
    NEED(task);
    for (size_t i = 0; !config.task && kvs_task_name(i); i++)
        if (strcmp(kvs_task_name(i), task) == 0)
            config.task = kvs_task_name(i);
    if (!config.task)
        return kvsi_fail(err, KVS_E_INVALID,
                         "unknown task '%.100s', expected induction, ngram, hopk or igsm", task);
    if (strcmp(task, "induction") == 0)
        kvsi_induction_config_init(&config.settings.induction);
    else if (strcmp(task, "ngram") == 0)
        kvsi_ngram_config_init(&config.settings.ngram);
    else if (strcmp(task, "hopk") == 0)
        kvsi_hopk_config_init(&config.settings.hopk);
    else
        kvsi_igsm_config_init(&config.settings.igsm);
    return kvs_task_config_copy(out, &config, err);
}

kvs_status kvs_task_config_copy(kvs_task_config **out, const kvs_task_config *config, kvs_err *err)
{
    return copy((void **)out, config, sizeof *config, err);
}

void kvs_task_config_free(kvs_task_config *config)
{
    kvsi_free(config);
}

kvs_status kvs_task_config_set(kvs_task_config *config, const char *name, const char *value,
                               kvs_err *err)
{
    NEED(config);
    return set(kvsi_task_settings(config->task), config->task, &config->settings, name, value, err);
}

kvs_status kvs_task_config_set_number(kvs_task_config *config, const char *name, double value,
                                      kvs_err *err)
{
    char text[40];

    print_number(text, sizeof text, value);
    return kvs_task_config_set(config, name, text, err);
}

kvs_status kvs_task_config_get(char *out, size_t size, const kvs_task_config *config,
                               const char *name, kvs_err *err)
{
    NEED(config);
    return get(out, size, kvsi_task_settings(config->task), config->task, &config->settings, name,
               err);
}

double kvs_task_config_number(const kvs_task_config *config, const char *name)
{
    return config ? number(kvsi_task_settings(config->task), &config->settings, name) : NAN;
}
