/* From settings to a configuration file. */
#include "base/options_config.h"

#include <stdio.h>
#include <string.h>

enum { COMMENT_COLUMN = 34, EXPLANATION_WIDTH = 98 };

/* ---- changes ---- */

kvs_status kvsi_options_mark_changes(kvsi_parsed_options *parsed,
                                     const kvsi_command_options *command, const void *before,
                                     const void *settings, kvsi_option_source source, kvs_err *err)
{
    kvs_status st = KVS_OK;

    for (size_t i = 0; st == KVS_OK && i < command->count; i++) {
        kvsi_text then = {0}, now = {0};

        kvsi_option_print(&then, command->options + i, before);
        kvsi_option_print(&now, command->options + i, settings);
        st = kvsi_text_check(then.failed ? &then : &now, err);
        if (st == KVS_OK && !kvsi_option_is_given(parsed, i) && strcmp(then.data, now.data) != 0)
            parsed->source[i] = source;
        kvsi_text_release(&then);
        kvsi_text_release(&now);
    }
    return st;
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

/* The words, with which a comment stays one line of UTF-8. */
static void add_comment(kvsi_text *text, const char *words)
{
    const int plain_only = !is_utf8(words);

    for (; *words; words++) {
        const unsigned char c = (unsigned char)*words;

        kvsi_text_add_bytes(text, c < 0x20 || c == 0x7f || (plain_only && c >= 0x80) ? "?" : words,
                            1);
    }
}

static void add_value(kvsi_text *text, const kvsi_option *option, const char *words)
{
    switch (option->kind) {
    case KVSI_OPTION_FLAG:
        kvsi_text_add(text, strcmp(words, "yes") == 0 ? "true" : "false");
        return;
    case KVSI_OPTION_SIZE:
    case KVSI_OPTION_UINT64:
    case KVSI_OPTION_REAL:
        kvsi_text_add(text, words);
        return;
    case KVSI_OPTION_SIZES:
    case KVSI_OPTION_REALS:
        kvsi_text_format(text, "[%s]", words);
        return;
    case KVSI_OPTION_TEXT:
    case KVSI_OPTION_CHOICE:
        add_string(text, words);
        return;
    }
}

/* ---- lines ---- */

static void add_source(kvsi_text *text, const kvsi_parsed_options *parsed,
                       const kvsi_option *option, size_t index)
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
        kvsi_text_add(text, "worked out from the rest");
        return;
    case KVSI_FROM_START:
        return; /* has no value yet */
    case KVSI_FROM_FILE:
        kvsi_text_add(text, "file ");
        add_comment(text, parsed->config);
        kvsi_text_format(text, ":%zu", parsed->line[index]);
        return;
    case KVSI_FROM_ENVIRONMENT:
        kvsi_option_environment(variable, sizeof variable, option);
        kvsi_text_format(text, "environment %s", variable);
        return;
    case KVSI_FROM_COMMAND_LINE:
        kvsi_text_add(text, "command line");
        return;
    }
}

/* Is there nothing that a file could say?  No text, or one that is not UTF-8. */
static int is_unsayable(const kvsi_option *option, const char *words)
{
    const int is_text = option->kind == KVSI_OPTION_TEXT || option->kind == KVSI_OPTION_CHOICE;

    return is_text && (!*words || !is_utf8(words));
}

/* Has the command something to decide itself? */
static int is_open(const kvsi_option *option, const char *words)
{
    return option->automatic && (!*words || strcmp(words, "0") == 0);
}

typedef void add_setting(kvsi_text *text, const kvsi_parsed_options *parsed,
                         const kvsi_option *option, size_t index, const char *words);

/* The value and its source; a comment, where a file can or need not say it. */
static void add_with_source(kvsi_text *text, const kvsi_parsed_options *parsed,
                            const kvsi_option *option, size_t index, const char *words)
{
    const size_t start = text->length;
    const int hidden = parsed->source[index] == KVSI_FROM_MODEL || is_unsayable(option, words);

    if (parsed->source[index] == KVSI_FROM_START) {
        kvsi_text_format(text, "# %s is worked out at the start\n", option->name);
        return;
    }
    if (hidden && !*words) {
        kvsi_text_format(text, "# %s is not set%s%s\n", option->name, option->automatic ? ": " : "",
                         option->automatic ? option->automatic : "");
        return;
    }
    kvsi_text_format(text, "%s%s = ", hidden ? "# " : "", option->name);
    if (hidden)
        add_comment(text, words);
    else
        add_value(text, option, words);
    while (!text->failed && text->length - start < COMMENT_COLUMN)
        kvsi_text_add(text, " ");
    kvsi_text_add(text, " # ");
    add_source(text, parsed, option, index);
    if (is_open(option, words))
        kvsi_text_format(text, ": %s", option->automatic);
    kvsi_text_add(text, "\n");
}

/* ---- explanations ---- */

static void add_explanation(kvsi_text *text, const kvsi_option *option)
{
    kvsi_text words = {0};
    size_t column = 0;

    kvsi_option_explain(&words, option);
    if (option->automatic)
        kvsi_text_format(&words, "; if left alone: %s", option->automatic);
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

/* What it means, then the value; as a comment with a stand-in where there is none. */
static void add_with_meaning(kvsi_text *text, const kvsi_parsed_options *parsed,
                             const kvsi_option *option, size_t index, const char *words)
{
    const int hidden = parsed->source[index] == KVSI_FROM_MODEL ||
                       parsed->source[index] == KVSI_FROM_START || is_unsayable(option, words);

    kvsi_text_add(text, "\n");
    add_explanation(text, option);
    kvsi_text_format(text, "%s%s = ", hidden ? "# " : "", option->name);
    if (is_unsayable(option, words))
        kvsi_text_format(text, "\"%s\"", option->placeholder);
    else
        add_value(text, option, words);
    kvsi_text_add(text, "\n");
}

/* ---- files ---- */

static void add_settings(kvsi_text *text, const kvsi_command_options *command, const void *settings,
                         const kvsi_parsed_options *parsed, add_setting *add)
{
    const char *group = NULL;

    for (size_t i = 0; i < command->count; i++) {
        const kvsi_option *option = command->options + i;
        kvsi_text words = {0};

        if (!group || strcmp(group, option->group) != 0) {
            char section[64];

            kvsi_options_section(section, sizeof section, option->group);
            kvsi_text_format(text, "\n[%s]\n", section);
        }
        group = option->group;
        if (option->repeats)
            continue; /* is for the command line */
        kvsi_option_print(&words, option, settings);
        if (words.failed)
            text->failed = 1;
        else
            add(text, parsed, option, i, words.data);
        kvsi_text_release(&words);
    }
}

void kvsi_options_print_config(kvsi_text *text, const kvsi_command_options *command,
                               const void *settings, const kvsi_parsed_options *parsed)
{
    kvsi_text_format(text,
                     "# Settings of '%s', and where each came from.\n"
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
