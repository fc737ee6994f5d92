#include "cli/configs.h"

#include <stdio.h>
#include <string.h>

/* ---- values ---------------------------------------------------------------------------------- */

uint64_t kvsi_count_of(double number)
{
    const double limit = 18446744073709551616.0; /* 2^64 */

    if (!(number > 0))
        return 0;
    return number < limit ? (uint64_t)number : UINT64_MAX;
}

size_t kvsi_model_count(const kvs_model_config *config, const char *name)
{
    return (size_t)kvsi_count_of(kvs_model_config_number(config, name));
}

uint64_t kvsi_train_count(const kvs_train_config *config, const char *name)
{
    return kvsi_count_of(kvs_train_config_number(config, name));
}

size_t kvsi_task_count(const kvs_task_config *config, const char *name)
{
    return (size_t)kvsi_count_of(kvs_task_config_number(config, name));
}

kvsi_word kvsi_model_word(const kvs_model_config *config, const char *name)
{
    kvsi_word word = {""};

    kvs_model_config_get(word.text, sizeof word.text, config, name, NULL);
    return word;
}

kvsi_word kvsi_train_word(const kvs_train_config *config, const char *name)
{
    kvsi_word word = {""};

    kvs_train_config_get(word.text, sizeof word.text, config, name, NULL);
    return word;
}

kvsi_word kvsi_task_word(const kvs_task_config *config, const char *name)
{
    kvsi_word word = {""};

    kvs_task_config_get(word.text, sizeof word.text, config, name, NULL);
    return word;
}

int kvsi_model_is(const kvs_model_config *config, const char *name, const char *value)
{
    return strcmp(kvsi_model_word(config, name).text, value) == 0;
}

int kvsi_train_is(const kvs_train_config *config, const char *name, const char *value)
{
    return strcmp(kvsi_train_word(config, name).text, value) == 0;
}

unsigned kvsi_shift_targets(const kvs_model_config *config)
{
    const kvsi_word word = kvsi_model_word(config, "shift"); /* none, or letters: "qkv" */

    if (strcmp(word.text, "none") == 0)
        return 0;
    return (strchr(word.text, 'q') ? (unsigned)KVS_SHIFT_Q : 0U) |
           (strchr(word.text, 'k') ? (unsigned)KVS_SHIFT_K : 0U) |
           (strchr(word.text, 'v') ? (unsigned)KVS_SHIFT_V : 0U);
}

/* ---- choices --------------------------------------------------------------------------------- */

/* Returns choice number `index` of the setting `name`; NULL after the last choice, where callers
 * must stop.  `at` returns settings by their index. */
static const char *choice_of(const kvs_setting *(*at)(size_t index), const char *name, size_t index)
{
    const kvs_setting *s;

    for (size_t i = 0; (s = at(i)); i++)
        if (strcmp(s->name, name) == 0)
            return s->choices ? s->choices[index] : NULL;
    return NULL;
}

const char *kvsi_shift_choice(size_t index)
{
    return choice_of(kvs_model_setting, "shift", index);
}

const char *kvsi_precision_choice(size_t index)
{
    return choice_of(kvs_train_setting, "precision", index);
}

const char *kvsi_pack_weights_choice(size_t index)
{
    return choice_of(kvs_train_setting, "pack-weights", index);
}

const char *kvsi_shard_choice(size_t index)
{
    return choice_of(kvs_train_setting, "shard", index);
}

/* ---- the kinds of configurations ------------------------------------------------------------- */

enum { INDUCTION_VOCAB = 1000 }; /* the default vocabulary, which only the task induction uses */

/* Setting the body resets other settings to the defaults of that body.  kvsi_model_start sets the
 * body before the options are applied.  Setting it to the same value again changes nothing here, so
 * that options which were applied before it keep their values. */
static kvs_status set_model(kvs_model_config *config, const char *name, const char *value,
                            kvs_err *err)
{
    if (strcmp(name, "body") == 0 && kvsi_model_is(config, name, value))
        return KVS_OK;
    return kvs_model_config_set(config, name, value, err);
}

static kvs_status create_model(kvs_model_config **out, size_t part, kvs_err *err)
{
    kvs_model_config *config = NULL;
    kvs_status st;

    (void)part;
    TRY_OUT(kvs_model_config_create(&config, NULL, err));
    TRY_OUT(kvs_model_config_set(config, "shift", "kv", err));
    TRY_OUT(kvs_model_config_set_number(config, "vocab", INDUCTION_VOCAB, err));
    TRY_OUT(kvs_model_config_set_number(config, "context", 0, err));
    *out = config;
    return KVS_OK;
out:
    kvs_model_config_free(config);
    return st;
}

static const kvs_setting *model_setting(size_t part, size_t index)
{
    (void)part;
    return kvs_model_setting(index);
}

static kvs_status create_train(kvs_train_config **out, size_t part, kvs_err *err)
{
    (void)part;
    return kvs_train_config_create(out, NULL, err);
}

static const kvs_setting *train_setting(size_t part, size_t index)
{
    (void)part;
    return kvs_train_setting(index);
}

static kvs_status create_task(kvs_task_config **out, size_t part, kvs_err *err)
{
    const char *name = kvs_task_name(part);

    return name ? kvs_task_config_create(out, name, err) : KVS_OK;
}

static const kvs_setting *task_setting(size_t part, size_t index)
{
    const char *name = kvs_task_name(part);

    return name ? kvs_task_setting(name, index) : NULL;
}

/* Defines kvsi_X_configs.  Its functions take configurations as void pointers. */
#define TABLE(x, set_call)                                                                         \
    static kvs_status x##_create(void **out, size_t part, kvs_err *err)                            \
    {                                                                                              \
        kvs_##x##_config *config = NULL;                                                           \
        const kvs_status st = create_##x(&config, part, err);                                      \
                                                                                                   \
        *out = config;                                                                             \
        return st;                                                                                 \
    }                                                                                              \
    static kvs_status x##_copy(void **out, const void *from, kvs_err *err)                         \
    {                                                                                              \
        kvs_##x##_config *config = NULL;                                                           \
        const kvs_status st = kvs_##x##_config_copy(&config, from, err);                           \
                                                                                                   \
        *out = config;                                                                             \
        return st;                                                                                 \
    }                                                                                              \
    static void x##_free(void *config)                                                             \
    {                                                                                              \
        kvs_##x##_config_free(config);                                                             \
    }                                                                                              \
    static kvs_status x##_set(void *config, const char *name, const char *value, kvs_err *err)     \
    {                                                                                              \
        return set_call(config, name, value, err);                                                 \
    }                                                                                              \
    static kvs_status x##_get(char *out, size_t size, const void *config, const char *name,        \
                              kvs_err *err)                                                        \
    {                                                                                              \
        return kvs_##x##_config_get(out, size, config, name, err);                                 \
    }                                                                                              \
    const kvsi_library_config kvsi_##x##_configs = {                                               \
        .at = x##_setting,                                                                         \
        .create = x##_create,                                                                      \
        .copy = x##_copy,                                                                          \
        .free = x##_free,                                                                          \
        .access = {.set = x##_set, .get = x##_get},                                                \
    };

TABLE(model, set_model)
TABLE(train, kvs_train_config_set)
TABLE(task, kvs_task_config_set)
