/* Configurations as handles whose settings are set and read by name: kvs_model_config,
 * kvs_train_config and kvs_task_config.  The functions of the first section work on any
 * struct and its table of settings; the public calls pass their own. */
#include "base/memory.h"
#include "config/public_settings.h"
#include "kvshift/kvshift_lab.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

/* ---- a struct and its table ------------------------------------------------------------------ */

static const char *name_at(const void *table, size_t index)
{
    const kvsi_settings *t = table;

    return index < t->count ? t->rows[index].name : NULL;
}

static kvs_status find_row(const kvsi_setting **out, const kvsi_settings *table, const char *name,
                           kvs_err *err)
{
    const char *nearest;

    NEED(name);
    *out = kvsi_settings_find(table, name);
    if (*out)
        return KVS_OK;
    nearest = kvsi_nearest_name(name, name_at, table);
    return kvsi_fail(err, KVS_E_INVALID, "unknown %s setting '%.100s'%s%s%s", table->name, name,
                     nearest ? "; did you mean '" : "", nearest ? nearest : "",
                     nearest ? "'?" : "");
}

/* Gives the second setting of an alias its value: "shift" = "gate" also sets "shift-form". */
static kvs_status set_second(const kvsi_settings *table, void *config, const kvsi_alias *alias,
                             kvs_err *err)
{
    const kvsi_setting *row = kvsi_settings_find(table, alias->also);

    return kvsi_setting_store(row, config, row->name, kvsi_name_of(row->names, alias->also_value),
                              err);
}

/* Sets a setting from text.  An empty text is an empty list. */
static kvs_status set(const kvsi_settings *table, void *config, const char *name, const char *value,
                      kvs_err *err)
{
    const kvsi_setting *row = NULL;
    const kvsi_alias *alias;

    NEED(config);
    TRY(find_row(&row, table, name, err));
    NEED(value);
    if (!*value && kvsi_setting_is_list(row)) {
        kvsi_setting_clear(row, config);
        return KVS_OK;
    }
    TRY(kvsi_setting_store(row, config, row->name, value, err));
    alias = kvsi_setting_alias(row, value);
    return alias ? set_second(table, config, alias, err) : KVS_OK;
}

typedef struct number_text {
    char text[40];
} number_text;

/* Returns the number as text that set() takes.  A whole number has no fraction, so that it can be a
 * count or a flag. */
static number_text print_number(double value)
{
    number_text out;

    if (value == floor(value) && fabs(value) < 1e18)
        snprintf(out.text, sizeof out.text, "%.0f", value);
    else
        snprintf(out.text, sizeof out.text, "%.17g", value);
    return out;
}

static kvs_status get(char *out, size_t size, const kvsi_settings *table, const void *config,
                      const char *name, kvs_err *err)
{
    const kvsi_setting *row = NULL;
    char text[KVSI_SETTING_VALUE];

    NEED(out);
    NEED(config);
    TRY(find_row(&row, table, name, err));
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

/* Returns a copy in new memory; NULL if memory runs out. */
static void *copy_of(const void *config, size_t size)
{
    void *own = kvsi_alloc(1, size);

    if (own)
        memcpy(own, config, size);
    return own;
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
    NEED(out);
    *out = NULL;
    NEED(config);
    *out = copy_of(config, sizeof *config);
    return *out ? KVS_OK : kvsi_no_memory(err, "a configuration");
}

void kvs_model_config_free(kvs_model_config *config)
{
    kvsi_free(config);
}

kvs_status kvs_model_config_set(kvs_model_config *config, const char *name, const char *value,
                                kvs_err *err)
{
    TRY(set(&kvsi_model_settings, config, name, value, err));
    if (strcmp(name, "body") == 0)
        kvsi_model_config_set_body(config, config->body);
    return KVS_OK;
}

kvs_status kvs_model_config_set_number(kvs_model_config *config, const char *name, double value,
                                       kvs_err *err)
{
    return kvs_model_config_set(config, name, print_number(value).text, err);
}

kvs_status kvs_model_config_get(char *out, size_t size, const kvs_model_config *config,
                                const char *name, kvs_err *err)
{
    return get(out, size, &kvsi_model_settings, config, name, err);
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
    NEED(out);
    *out = NULL;
    NEED(config);
    *out = copy_of(config, sizeof *config);
    return *out ? KVS_OK : kvsi_no_memory(err, "a configuration");
}

void kvs_train_config_free(kvs_train_config *config)
{
    kvsi_free(config);
}

kvs_status kvs_train_config_set(kvs_train_config *config, const char *name, const char *value,
                                kvs_err *err)
{
    return set(&kvsi_train_settings, config, name, value, err);
}

kvs_status kvs_train_config_set_number(kvs_train_config *config, const char *name, double value,
                                       kvs_err *err)
{
    return kvs_train_config_set(config, name, print_number(value).text, err);
}

kvs_status kvs_train_config_get(char *out, size_t size, const kvs_train_config *config,
                                const char *name, kvs_err *err)
{
    return get(out, size, &kvsi_train_settings, config, name, err);
}

double kvs_train_config_number(const kvs_train_config *config, const char *name)
{
    return number(&kvsi_train_settings, config, name);
}

/* ---- tasks ----------------------------------------------------------------------------------- */

kvs_status kvs_task_config_create(kvs_task_config **out, const char *task, kvs_err *err)
{
    kvs_task_config config;

    NEED(out);
    *out = NULL;
    NEED(task);
    config.table = kvsi_task_settings(task);
    if (!config.table)
        return kvsi_fail(err, KVS_E_INVALID,
                         "unknown task '%.100s', expected induction, ngram, hopk or igsm", task);
    kvsi_settings_init(config.table, &config.settings, sizeof config.settings);
    return kvs_task_config_copy(out, &config, err);
}

kvs_status kvs_task_config_copy(kvs_task_config **out, const kvs_task_config *config, kvs_err *err)
{
    NEED(out);
    *out = NULL;
    NEED(config);
    *out = copy_of(config, sizeof *config);
    return *out ? KVS_OK : kvsi_no_memory(err, "a configuration");
}

void kvs_task_config_free(kvs_task_config *config)
{
    kvsi_free(config);
}

kvs_status kvs_task_config_set(kvs_task_config *config, const char *name, const char *value,
                               kvs_err *err)
{
    NEED(config);
    return set(config->table, &config->settings, name, value, err);
}

kvs_status kvs_task_config_set_number(kvs_task_config *config, const char *name, double value,
                                      kvs_err *err)
{
    return kvs_task_config_set(config, name, print_number(value).text, err);
}

kvs_status kvs_task_config_get(char *out, size_t size, const kvs_task_config *config,
                               const char *name, kvs_err *err)
{
    NEED(config);
    return get(out, size, config->table, &config->settings, name, err);
}

double kvs_task_config_number(const kvs_task_config *config, const char *name)
{
    return config ? number(config->table, &config->settings, name) : NAN;
}
