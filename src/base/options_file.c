/* From a configuration file to settings. */
#include "base/memory.h"
#include "base/options_config.h"
#include "base/config_file.h"

#include <ctype.h>
#include <stdalign.h>
#include <stdio.h>
#include <string.h>

enum { NAME_SIZE = 64 };

typedef struct taker {
    kvsi_parsed_options *parsed;
    const kvsi_command_options *command;
    void *settings;
    size_t section_line[KVSI_OPTIONS_MAX]; /* by a group's first option; 0 = not yet seen */
} taker;

/* ---- names ---- */

void kvsi_options_section(char *out, size_t size, const char *group)
{
    snprintf(out, size, "%s", group);
    for (char *c = out; *c; c++)
        *c = *c == ' ' ? '-' : (char)tolower((unsigned char)*c);
}

/* An underscore is as good as a dash. */
static void copy_name(char out[NAME_SIZE], const char *name)
{
    snprintf(out, NAME_SIZE, "%s", name);
    for (char *c = out; *c; c++)
        *c = *c == '_' ? '-' : *c;
}

static const char *key_at(const void *names, size_t index)
{
    const kvsi_command_options *command = names;

    return index < command->count ? command->options[index].name : NULL;
}

typedef struct section_names {
    char names[KVSI_OPTIONS_MAX][NAME_SIZE]; /* by option, so with repetitions */
    size_t count;
} section_names;

static const char *section_at(const void *names, size_t index)
{
    const section_names *sections = names;

    return index < sections->count ? sections->names[index] : NULL;
}

static kvs_status fail_unknown(const taker *t, const kvsi_config_entry *setting, const char *what,
                               const char *name, const char *nearest, kvs_err *err)
{
    if (nearest)
        return kvsi_fail(err, KVS_E_INVALID, "%s:%zu: unknown %s '%s'; did you mean '%s'?",
                         setting->path, setting->line, what, name, nearest);
    return kvsi_fail(err, KVS_E_INVALID, "%s:%zu: unknown %s '%s'; see '%s --help'", setting->path,
                     setting->line, what, name, t->command->command);
}

/* ---- sections ---- */

static kvs_status take_section(taker *t, const kvsi_config_entry *setting, kvs_err *err)
{
    section_names sections = {.count = t->command->count};
    char name[NAME_SIZE];

    copy_name(name, setting->section);
    for (size_t i = 0; i < sections.count; i++) {
        kvsi_options_section(sections.names[i], NAME_SIZE, t->command->options[i].group);
        if (strcmp(sections.names[i], name) != 0)
            continue;
        if (t->section_line[i])
            return kvsi_fail(err, KVS_E_INVALID, "%s:%zu: section '%s' is already on line %zu",
                             setting->path, setting->line, setting->section, t->section_line[i]);
        t->section_line[i] = setting->line;
        return KVS_OK;
    }
    return fail_unknown(t, setting, "section", setting->section,
                        kvsi_nearest_name(name, section_at, &sections), err);
}

/* ---- keys ---- */

static kvs_status fail_no_place(const kvsi_config_entry *setting, kvs_err *err)
{
    return kvsi_fail(err, KVS_E_INVALID,
                     "%s:%zu: key '%s' has no place in a file: it is for the command line",
                     setting->path, setting->line, setting->key);
}

static kvs_status find_key(const taker *t, const kvsi_config_entry *setting, size_t *index, kvs_err *err)
{
    static const char *const others[] = {"config", "print-config", "help"};
    char name[NAME_SIZE];

    copy_name(name, setting->key);
    for (size_t i = 0; i < sizeof others / sizeof *others; i++)
        if (strcmp(name, others[i]) == 0)
            return fail_no_place(setting, err);
    for (*index = 0; *index < t->command->count; ++*index)
        if (strcmp(t->command->options[*index].name, name) == 0)
            return t->command->options[*index].repeats ? fail_no_place(setting, err) : KVS_OK;
    return fail_unknown(t, setting, "key", setting->key,
                        kvsi_nearest_name(name, key_at, t->command), err);
}

/* A key that strayed into another section may have been meant as another key. */
static kvs_status check_place(const taker *t, const kvsi_config_entry *setting, size_t index,
                              kvs_err *err)
{
    char right[NAME_SIZE], found[NAME_SIZE];

    if (t->parsed->line[index])
        return kvsi_fail(err, KVS_E_INVALID, "%s:%zu: key '%s' is already on line %zu",
                         setting->path, setting->line, setting->key, t->parsed->line[index]);
    if (!setting->section)
        return KVS_OK;
    kvsi_options_section(right, sizeof right, t->command->options[index].group);
    copy_name(found, setting->section);
    if (strcmp(right, found) == 0)
        return KVS_OK;
    return kvsi_fail(err, KVS_E_INVALID,
                     "%s:%zu: key '%s': expected in section '%s', found in section '%s'",
                     setting->path, setting->line, setting->key, right, setting->section);
}

/* ---- values ---- */

static const char *expected_kind(const kvsi_option *option, const kvsi_config_entry *setting)
{
    const kvsi_config_kind found = setting->kind;
    const int whole = found == KVSI_CONFIG_WHOLE;

    switch (option->kind) {
    case KVSI_OPTION_FLAG:
        return found == KVSI_CONFIG_BOOLEAN ? NULL : "true or false";
    case KVSI_OPTION_SIZE:
    case KVSI_OPTION_UINT64:
        return whole ? NULL : "a whole number";
    case KVSI_OPTION_REAL:
        return whole || found == KVSI_CONFIG_REAL ? NULL : "a number";
    case KVSI_OPTION_TEXT:
    case KVSI_OPTION_CHOICE:
        return found == KVSI_CONFIG_TEXT ? NULL : "text in quotes";
    case KVSI_OPTION_SIZES:
        return found == KVSI_CONFIG_NUMBERS ? NULL : "an array of whole numbers";
    case KVSI_OPTION_REALS:
        return found == KVSI_CONFIG_NUMBERS ? NULL : "an array of numbers";
    }
    return "something else";
}

static kvs_status check_kind(const kvsi_option *option, const kvsi_config_entry *setting,
                             const char *origin, kvs_err *err)
{
    const char *const expected = expected_kind(option, setting);

    if (!expected)
        return KVS_OK;
    if (setting->kind == KVSI_CONFIG_TEXT)
        return kvsi_fail(err, KVS_E_INVALID, "%s: expected %s, found the text '%s'", origin,
                         expected, setting->value);
    if (setting->kind == KVSI_CONFIG_NUMBERS)
        return kvsi_fail(err, KVS_E_INVALID, "%s: expected %s, found an array", origin, expected);
    return kvsi_fail(err, KVS_E_INVALID, "%s: expected %s, found %s", origin, expected,
                     setting->value);
}

/* What is given elsewhere is stored where nobody looks: a bad value is an error all the same. */
static kvs_status store_value(taker *t, const kvsi_config_entry *setting, size_t index,
                              const char *origin, kvs_err *err)
{
    alignas(max_align_t) char unused[sizeof(kvsi_number_list)];
    const int given = kvsi_option_is_given(t->parsed, index);
    kvsi_option option = t->command->options[index];
    void *settings = t->settings;

    if (given) {
        option.offset = 0;
        settings = unused;
    }
    if (setting->kind == KVSI_CONFIG_NUMBERS && !*setting->value && option.automatic) {
        *(kvsi_number_list *)(void *)((char *)settings + option.offset) = (kvsi_number_list){0};
        return KVS_OK;
    }
    t->parsed->texts[index] = kvsi_strdup(setting->value);
    if (!t->parsed->texts[index])
        return kvsi_fail(err, KVS_E_NOMEM, "%s: out of memory", origin);
    return kvsi_option_store(&option, settings, origin, t->parsed->texts[index], err);
}

static kvs_status take(void *user, const kvsi_config_entry *setting, kvs_err *err)
{
    taker *t = user;
    char origin[384];
    size_t index = 0;

    if (!setting->key)
        return take_section(t, setting, err);
    TRY(find_key(t, setting, &index, err));
    TRY(check_place(t, setting, index, err));
    snprintf(origin, sizeof origin, "%s:%zu: key '%s'", setting->path, setting->line, setting->key);
    TRY(check_kind(t->command->options + index, setting, origin, err));
    TRY(store_value(t, setting, index, origin, err));
    t->parsed->line[index] = setting->line;
    if (!kvsi_option_is_given(t->parsed, index))
        t->parsed->source[index] = KVSI_FROM_FILE;
    return KVS_OK;
}

kvs_status kvsi_options_read_file(kvsi_parsed_options *parsed, const kvsi_command_options *command,
                                  void *settings, kvs_err *err)
{
    taker t = {.parsed = parsed, .command = command, .settings = settings};

    return kvsi_config_file_read(parsed->config, take, &t, err);
}
