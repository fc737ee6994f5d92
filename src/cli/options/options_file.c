/* Reads a configuration file into assignments. */
#include "base/memory.h"
#include "cli/options/config_file.h"
#include "cli/options/options_config.h"

#include <ctype.h>
#include <stdio.h>
#include <string.h>

enum { NAME_SIZE = 64 };

typedef struct reader {
    kvsi_parsed_options *parsed;
    const kvsi_command_options *command;
    size_t count;                          /* of the command's options */
    size_t section_line[KVSI_OPTIONS_MAX]; /* at the group's first option; 0 = not yet seen */
} reader;

/* ---- names ---- */

void kvsi_options_section(char *out, size_t size, const char *group)
{
    snprintf(out, size, "%s", group);
    for (char *c = out; *c; c++)
        *c = *c == ' ' ? '-' : (char)tolower((unsigned char)*c);
}

/* Copies a name with - instead of _, because both are allowed in keys and sections. */
static void copy_name(char out[NAME_SIZE], const char *name)
{
    snprintf(out, NAME_SIZE, "%s", name);
    for (char *c = out; *c; c++)
        *c = *c == '_' ? '-' : *c;
}

static const char *key_at(const void *names, size_t index)
{
    const kvsi_command_options *command = names;

    return index < kvsi_command_count(command) ? kvsi_command_row(command, index).name : NULL;
}

typedef struct section_names {
    char names[KVSI_OPTIONS_MAX][NAME_SIZE]; /* of every option, so names repeat */
    size_t count;
} section_names;

static const char *section_at(const void *names, size_t index)
{
    const section_names *sections = names;

    return index < sections->count ? sections->names[index] : NULL;
}

static kvs_status fail_unknown(const reader *r, const kvsi_config_entry *entry, const char *what,
                               const char *name, const char *nearest, kvs_err *err)
{
    if (nearest)
        return kvsi_fail(err, KVS_E_INVALID, "%s:%zu: unknown %s '%s'; did you mean '%s'?",
                         entry->path, entry->line, what, name, nearest);
    return kvsi_fail(err, KVS_E_INVALID, "%s:%zu: unknown %s '%s'; see '%s --help'", entry->path,
                     entry->line, what, name, r->command->command);
}

/* ---- sections ---- */

static kvs_status read_section(reader *r, const kvsi_config_entry *entry, kvs_err *err)
{
    section_names sections = {.count = r->count};
    char name[NAME_SIZE];

    copy_name(name, entry->section);
    for (size_t i = 0; i < sections.count; i++) {
        kvsi_options_section(sections.names[i], NAME_SIZE, kvsi_command_row(r->command, i).group);
        if (strcmp(sections.names[i], name) != 0)
            continue;
        if (r->section_line[i])
            return kvsi_fail(err, KVS_E_INVALID, "%s:%zu: section '%s' is already on line %zu",
                             entry->path, entry->line, entry->section, r->section_line[i]);
        r->section_line[i] = entry->line;
        return KVS_OK;
    }
    return fail_unknown(r, entry, "section", entry->section,
                        kvsi_nearest_name(name, section_at, &sections), err);
}

/* ---- keys ---- */

static kvs_status fail_no_place(const kvsi_config_entry *entry, kvs_err *err)
{
    return kvsi_fail(err, KVS_E_INVALID,
                     "%s:%zu: key '%s' is not allowed in a file, only on the command line",
                     entry->path, entry->line, entry->key);
}

static kvs_status find_key(const reader *r, const kvsi_config_entry *entry, size_t *index,
                           kvs_err *err)
{
    static const char *const others[] = {"config", "print-config", "help"};
    char name[NAME_SIZE];

    copy_name(name, entry->key);
    for (size_t i = 0; i < sizeof others / sizeof *others; i++)
        if (strcmp(name, others[i]) == 0)
            return fail_no_place(entry, err);
    for (*index = 0; *index < r->count; ++*index) {
        const kvsi_setting row = kvsi_command_row(r->command, *index);

        if (strcmp(row.name, name) == 0)
            return row.repeats ? fail_no_place(entry, err) : KVS_OK;
    }
    return fail_unknown(r, entry, "key", entry->key, kvsi_nearest_name(name, key_at, r->command),
                        err);
}

/* Checks that the key is new and in its own section or before all sections.  In another section it
 * could be a misspelling of a key of that section. */
static kvs_status check_place(const reader *r, const kvsi_config_entry *entry, size_t index,
                              kvs_err *err)
{
    char right[NAME_SIZE], found[NAME_SIZE];

    if (r->parsed->line[index])
        return kvsi_fail(err, KVS_E_INVALID, "%s:%zu: key '%s' is already on line %zu", entry->path,
                         entry->line, entry->key, r->parsed->line[index]);
    if (!entry->section)
        return KVS_OK;
    kvsi_options_section(right, sizeof right, kvsi_command_row(r->command, index).group);
    copy_name(found, entry->section);
    if (strcmp(right, found) == 0)
        return KVS_OK;
    return kvsi_fail(err, KVS_E_INVALID,
                     "%s:%zu: key '%s': expected in section '%s', found in section '%s'",
                     entry->path, entry->line, entry->key, right, entry->section);
}

/* ---- values ---- */

static const char *expected_kind(const kvsi_setting *row, const kvsi_config_entry *entry)
{
    const kvsi_config_kind found = entry->kind;
    const int whole = found == KVSI_CONFIG_WHOLE;

    switch (row->kind) {
    case KVSI_SETTING_FLAG:
        return found == KVSI_CONFIG_BOOLEAN ? NULL : "true or false";
    case KVSI_SETTING_SIZE:
    case KVSI_SETTING_UINT64:
        return whole ? NULL : "a whole number";
    case KVSI_SETTING_REAL:
        return whole || found == KVSI_CONFIG_REAL ? NULL : "a number";
    case KVSI_SETTING_TEXT:
    case KVSI_SETTING_STRING:
    case KVSI_SETTING_CHOICE:
    case KVSI_SETTING_ENUM:
        return found == KVSI_CONFIG_TEXT ? NULL : "text in quotes";
    case KVSI_SETTING_SIZES:
    case KVSI_SETTING_BITS:
    case KVSI_SETTING_OPTIONAL:
        return found == KVSI_CONFIG_NUMBERS ? NULL : "an array of whole numbers";
    case KVSI_SETTING_REALS:
        return found == KVSI_CONFIG_NUMBERS ? NULL : "an array of numbers";
    }
    return "something else";
}

static kvs_status check_kind(const reader *r, const kvsi_config_entry *entry, size_t index,
                             kvs_err *err)
{
    const kvsi_setting row = kvsi_command_row(r->command, index);
    const char *const expected = expected_kind(&row, entry);
    char origin[384];

    if (!expected)
        return KVS_OK;
    snprintf(origin, sizeof origin, "%s:%zu: key '%s'", entry->path, entry->line, entry->key);
    if (entry->kind == KVSI_CONFIG_TEXT)
        return kvsi_fail(err, KVS_E_INVALID, "%s: expected %s, found the text '%s'", origin,
                         expected, entry->value);
    if (entry->kind == KVSI_CONFIG_NUMBERS)
        return kvsi_fail(err, KVS_E_INVALID, "%s: expected %s, found an array", origin, expected);
    return kvsi_fail(err, KVS_E_INVALID, "%s: expected %s, found %s", origin, expected,
                     entry->value);
}

static kvs_status read_entry(void *user, const kvsi_config_entry *entry, kvs_err *err)
{
    reader *r = user;
    kvsi_assignment a = {.source = KVSI_FROM_FILE, .line = entry->line};
    kvs_status st = KVS_OK;

    if (!entry->key)
        return read_section(r, entry, err);
    TRY(find_key(r, entry, &a.index, err));
    TRY(check_place(r, entry, a.index, err));
    TRY(check_kind(r, entry, a.index, err));
    a.text = kvsi_strdup(entry->value);
    a.key = kvsi_strdup(entry->key);
    if (!a.text || !a.key)
        st = kvsi_fail(err, KVS_E_NOMEM, "%s:%zu: out of memory", entry->path, entry->line);
    else
        st = kvsi_options_assign(r->parsed, &a, err);
    if (st != KVS_OK) {
        kvsi_free((char *)a.text);
        kvsi_free(a.key);
        return st;
    }
    r->parsed->line[a.index] = entry->line;
    return KVS_OK;
}

kvs_status kvsi_options_read_file(kvsi_parsed_options *parsed, const kvsi_command_options *command,
                                  kvs_err *err)
{
    reader r = {.parsed = parsed, .command = command, .count = kvsi_command_count(command)};

    return kvsi_config_file_read(parsed->config, read_entry, &r, err);
}
