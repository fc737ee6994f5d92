/* Prints settings as a configuration file. */
#include "cli/options/options_config.h"

#include <stdio.h>
#include <string.h>

enum { COMMENT_COLUMN = 34, EXPLANATION_WIDTH = 98 };

/* ---- changes ---- */

void kvsi_options_mark_changes(kvsi_parsed_options *parsed, const kvsi_command_options *command,
                               const void *before, const void *settings, kvsi_option_source source)
{
    for (size_t i = 0; i < kvsi_command_count(command); i++) {
        const kvsi_setting row = kvsi_command_row(command, i);

        if (!kvsi_option_is_given(parsed, i) && !kvsi_setting_equal(&row, before, settings))
            parsed->source[i] = source;
    }
}

/* ---- values ---- */

static int is_utf8(const char *text)
{
    json_t *value = json_string(text);
    const int valid = value != NULL;

    json_decref(value);
    return valid;
}

static void add_string(kvsi_text *text, const char *words)
{
    kvsi_text_add(text, "\"");
    for (; *words; words++) {
        const unsigned char c = (unsigned char)*words;

        if (c < 0x20 || c == 0x7f)
            kvsi_text_format(text, "\\u%04x", c);
        else
            kvsi_text_format(text, c == '"' || c == '\\' ? "\\%c" : "%c", c);
    }
    kvsi_text_add(text, "\"");
}

/* Appends the words in a form that is safe in a comment: one line of valid UTF-8. */
static void add_comment(kvsi_text *text, const char *words)
{
    const int plain_only = !is_utf8(words);

    for (; *words; words++) {
        const unsigned char c = (unsigned char)*words;

        kvsi_text_add_bytes(text, c < 0x20 || c == 0x7f || (plain_only && c >= 0x80) ? "?" : words,
                            1);
    }
}

static void add_value(kvsi_text *text, const kvsi_setting *row, const char *words)
{
    switch (row->kind) {
    case KVSI_SETTING_FLAG:
        kvsi_text_add(text, strcmp(words, "yes") == 0 ? "true" : "false");
        return;
    case KVSI_SETTING_SIZE:
    case KVSI_SETTING_UINT64:
    case KVSI_SETTING_REAL:
        kvsi_text_add(text, words);
        return;
    case KVSI_SETTING_SIZES:
    case KVSI_SETTING_REALS:
    case KVSI_SETTING_BITS:
    case KVSI_SETTING_OPTIONAL:
        kvsi_text_format(text, "[%s]", words);
        return;
    case KVSI_SETTING_TEXT:
    case KVSI_SETTING_STRING:
    case KVSI_SETTING_CHOICE:
    case KVSI_SETTING_ENUM:
        add_string(text, words);
        return;
    }
}

/* ---- lines ---- */

static void add_source(kvsi_text *text, const kvsi_parsed_options *parsed, const kvsi_setting *row,
                       size_t index)
{
    char variable[64];

    switch (parsed->source[index]) {
    case KVSI_FROM_DEFAULT:
        kvsi_text_add(text, "default");
        return;
    case KVSI_FROM_PRESET:
        kvsi_text_add(text, "preset ");
        add_comment(text, parsed->preset);
        return;
    case KVSI_FROM_MODEL:
        kvsi_text_add(text, "model ");
        add_comment(text, parsed->model);
        return;
    case KVSI_FROM_OTHERS:
        kvsi_text_add(text, "computed from other settings");
        return;
    case KVSI_FROM_START:
        return; /* no value yet */
    case KVSI_FROM_FILE:
        kvsi_text_add(text, "file ");
        add_comment(text, parsed->config);
        kvsi_text_format(text, ":%zu", parsed->line[index]);
        return;
    case KVSI_FROM_ENVIRONMENT:
        kvsi_option_environment(variable, sizeof variable, row);
        kvsi_text_format(text, "environment %s", variable);
        return;
    case KVSI_FROM_COMMAND_LINE:
        kvsi_text_add(text, "command line");
        return;
    }
}

/* Returns whether the value is a text that is not set or not UTF-8, which a file cannot contain. */
static int cannot_write(const kvsi_setting *row, const char *words)
{
    const int is_text = row->kind == KVSI_SETTING_TEXT || row->kind == KVSI_SETTING_STRING ||
                        row->kind == KVSI_SETTING_CHOICE || row->kind == KVSI_SETTING_ENUM;

    return is_text && (!*words || !is_utf8(words));
}

static int is_automatic(const kvsi_setting *row, const char *words)
{
    return row->automatic && (!*words || strcmp(words, "0") == 0);
}

typedef void add_setting(kvsi_text *text, const kvsi_parsed_options *parsed,
                         const kvsi_setting *row, size_t index, const char *words);

/* Adds the value and its source; as a comment, if a file cannot or need not have it. */
static void add_with_source(kvsi_text *text, const kvsi_parsed_options *parsed,
                            const kvsi_setting *row, size_t index, const char *words)
{
    const size_t start = text->length;
    const int hidden = parsed->source[index] == KVSI_FROM_MODEL || cannot_write(row, words);

    if (parsed->source[index] == KVSI_FROM_START) {
        kvsi_text_format(text, "# %s is computed at the start\n", row->name);
        return;
    }
    if (hidden && !*words) {
        kvsi_text_format(text, "# %s is not set%s%s\n", row->name, row->automatic ? ": " : "",
                         row->automatic ? row->automatic : "");
        return;
    }
    kvsi_text_format(text, "%s%s = ", hidden ? "# " : "", row->name);
    if (hidden)
        add_comment(text, words);
    else
        add_value(text, row, words);
    while (!text->failed && text->length - start < COMMENT_COLUMN)
        kvsi_text_add(text, " ");
    kvsi_text_add(text, " # ");
    add_source(text, parsed, row, index);
    if (is_automatic(row, words))
        kvsi_text_format(text, ": %s", row->automatic);
    kvsi_text_add(text, "\n");
}

/* ---- explanations ---- */

static void add_explanation(kvsi_text *text, const kvsi_setting *row)
{
    kvsi_text words = {0};
    size_t column = 0;

    kvsi_option_explain(&words, row);
    if (row->automatic)
        kvsi_text_format(&words, "; if left alone: %s", row->automatic);
    for (const char *word = words.failed ? "" : words.data; *word;) {
        const size_t length = strcspn(word, " ");
        const int breaks = column == 0 || column + 1 + length > EXPLANATION_WIDTH;

        kvsi_text_add(text, column > 0 && breaks ? "\n" : "");
        kvsi_text_add(text, breaks ? "# " : " ");
        kvsi_text_add_bytes(text, word, length);
        column = (breaks ? 2 : column + 1) + length;
        word += length + strspn(word + length, " ");
    }
    kvsi_text_add(text, "\n");
    text->failed |= words.failed;
    kvsi_text_release(&words);
}

/* Adds the meaning, then the value; as a comment with the placeholder if there is none. */
static void add_with_meaning(kvsi_text *text, const kvsi_parsed_options *parsed,
                             const kvsi_setting *row, size_t index, const char *words)
{
    const int hidden = parsed->source[index] == KVSI_FROM_MODEL ||
                       parsed->source[index] == KVSI_FROM_START || cannot_write(row, words);

    kvsi_text_add(text, "\n");
    add_explanation(text, row);
    kvsi_text_format(text, "%s%s = ", hidden ? "# " : "", row->name);
    if (cannot_write(row, words))
        kvsi_text_format(text, "\"%s\"", row->placeholder);
    else
        add_value(text, row, words);
    kvsi_text_add(text, "\n");
}

/* ---- files ---- */

static void add_settings(kvsi_text *text, const kvsi_command_options *command, const void *settings,
                         const kvsi_parsed_options *parsed, add_setting *add)
{
    size_t order[KVSI_OPTIONS_MAX];
    const size_t count = kvsi_command_order(order, command);
    const char *group = NULL;

    for (size_t i = 0; i < count; i++) {
        const kvsi_setting row = kvsi_command_row(command, order[i]);
        kvsi_text words = {0};

        if (!group || strcmp(group, row.group) != 0) {
            char section[64];

            kvsi_options_section(section, sizeof section, row.group);
            kvsi_text_format(text, "\n[%s]\n", section);
        }
        group = row.group;
        if (row.repeats)
            continue; /* only on the command line */
        kvsi_setting_print(&words, &row, settings);
        if (words.failed)
            text->failed = 1;
        else
            add(text, parsed, &row, order[i], words.data);
        kvsi_text_release(&words);
    }
}

void kvsi_options_print_config(kvsi_text *text, const kvsi_command_options *command,
                               const void *settings, const kvsi_parsed_options *parsed)
{
    kvsi_text_format(text,
                     "# Settings of '%s' and their sources.\n"
                     "# '%s --config FILE' takes this file.\n",
                     command->command, command->command);
    add_settings(text, command, settings, parsed, add_with_source);
}

void kvsi_options_explain_config(kvsi_text *text, const kvsi_command_options *command,
                                 const void *settings, const kvsi_parsed_options *parsed)
{
    kvsi_text_format(text,
                     "# Every setting of '%s'.  '%s --config FILE' takes this\n"
                     "# file; lines may be left out and sections too, and - and _ mean the same.\n",
                     command->command, command->command);
    add_settings(text, command, settings, parsed, add_with_meaning);
}
