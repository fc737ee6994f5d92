/* The help of a command: usage, examples, and its options group by group. */
#include "cli/options/options.h"

#include <stdio.h>
#include <string.h>

/* Descriptions start at COLUMN.  Upper limits above LARGEST are not shown. */
enum { COLUMN = 26, LARGEST = 1 << 20 };

/* Returns the length of the next word.  Brackets, all words in them and what follows without a
 * space count as one word, which stays on one line. */
static size_t word_length(const char *words)
{
    const size_t bracket = strcspn(words, ")\n");

    return *words == '(' && words[bracket] == ')' ? bracket + strcspn(words + bracket, " \n")
                                                  : strcspn(words, " \n");
}

/* Adds the words of a line, breaking it at `width`; the text now ends at `column` of its line.
 * Returns the column at the end.  Words in brackets that do not fit on a line are broken like
 * others. */
static size_t add_wrapped(kvsi_text *text, const char *words, size_t column, size_t indent,
                          size_t width)
{
    while (*words && *words != '\n') {
        size_t length = word_length(words);

        if (indent + length > width)
            length = strcspn(words, " \n");
        if (column > indent && column + 1 + length > width) {
            kvsi_text_format(text, "\n%*s", (int)indent, "");
            column = indent;
        } else if (column > indent) {
            kvsi_text_add(text, " ");
            column++;
        }
        kvsi_text_add_bytes(text, words, length);
        column += length;
        words += length + strspn(words + length, " ");
    }
    return column;
}

/* Adds text whose lines form paragraphs, which are broken anew at `width`.  Paragraphs end at empty
 * lines; a line that starts with a space stays a line of its own. */
static void add_paragraphs(kvsi_text *text, const char *lines, size_t width)
{
    while (*lines) {
        const size_t indent = strspn(lines, " ");
        size_t column = indent;

        kvsi_text_add_bytes(text, lines, indent);
        do {
            column = add_wrapped(text, lines + strspn(lines, " "), column, indent, width);
            lines += strcspn(lines, "\n");
            lines += *lines == '\n';
        } while (indent == 0 && column > 0 && *lines && *lines != '\n' && *lines != ' ');
        kvsi_text_add(text, "\n");
    }
}

static void add_default(kvsi_text *text, const kvsi_setting *row, const void *settings)
{
    if (row->automatic) {
        kvsi_text_format(text, " (default: %s)", row->automatic);
    } else if (row->kind != KVSI_SETTING_FLAG && row->kind != KVSI_SETTING_TEXT) {
        kvsi_text_add(text, " (default: ");
        kvsi_setting_print(text, row, settings);
        kvsi_text_add(text, ")");
    }
}

void kvsi_option_explain(kvsi_text *text, const kvsi_setting *row)
{
    kvsi_text_add(text, row->help);
    if (kvsi_setting_choice(row, 0)) {
        kvsi_text_add(text, ": ");
        kvsi_setting_add_choices(text, row);
    }
    for (size_t i = 0; row->examples && row->examples(i); i++)
        kvsi_text_format(text, "%s%s", i == 0 ? ": " : ", ", row->examples(i));
    if (row->high > 0 && row->high <= LARGEST)
        kvsi_text_format(text, ", %.15g to %s%.15g", row->low, row->open_high ? "below " : "",
                         row->high);
}

void kvsi_option_spell(kvsi_text *text, const kvsi_setting *row)
{
    if (row->letter)
        kvsi_text_format(text, "-%c, ", row->letter);
    kvsi_text_format(text, row->implied ? "--%s [%s%s]" : "--%s%s%s", row->name,
                     row->placeholder && !row->implied ? " " : "",
                     row->placeholder ? row->placeholder : "");
}

void kvsi_option_describe(kvsi_text *text, const kvsi_setting *row, const void *settings)
{
    kvsi_option_explain(text, row);
    add_default(text, row, settings);
}

static void add_option(kvsi_text *text, const kvsi_setting *row, const void *settings, size_t width)
{
    const size_t start = text->length;
    kvsi_text words = {0};
    size_t column;

    kvsi_text_add(text, "  ");
    kvsi_option_spell(text, row);
    column = text->length - start;
    if (column + 2 > COLUMN) {
        kvsi_text_add(text, "\n");
        column = 0;
    }
    kvsi_text_format(text, "%*s", (int)(COLUMN - column), "");
    kvsi_option_describe(&words, row, settings);
    if (words.failed)
        text->failed = 1;
    else
        add_wrapped(text, words.data, COLUMN, COLUMN, width);
    kvsi_text_add(text, "\n");
    kvsi_text_release(&words);
}

void kvsi_options_usage(kvsi_text *text, const kvsi_command_options *command)
{
    kvsi_text_format(text, "%s%s", command->command,
                     kvsi_command_count(command) ? " [OPTION]..." : "");
    if (command->argument)
        kvsi_text_format(text, command->min_arguments ? " %s%s" : " [%s%s]", command->argument,
                         command->max_arguments > 1 ? "..." : "");
}

const char *kvsi_help_description(const kvsi_command_options *command)
{
    return command->common ? "show the usual options; --help all shows all" : "show this help";
}

/* Whether the short help has the option. */
static int is_common(const kvsi_command_options *command, const char *name)
{
    for (const char *const *common = command->common; *common; common++)
        if (strcmp(*common, name) == 0)
            return 1;
    return 0;
}

void kvsi_options_help(kvsi_text *text, const kvsi_command_options *command, const void *settings,
                       kvsi_help kind, size_t width)
{
    const size_t own = kvsi_command_count(command), count = kvsi_command_count_all(command);
    const int is_short = kind == KVSI_HELP_SHORT && command->common;
    const kvsi_parsed_options nothing = {0};
    size_t order[KVSI_OPTIONS_MAX];
    const char *group = NULL;

    kvsi_text_add(text, "usage: ");
    kvsi_options_usage(text, command);
    kvsi_text_add(text, "\n\n");
    add_wrapped(text, command->purpose, 0, 0, width);
    kvsi_text_add(text, "\n");
    if (command->examples)
        kvsi_text_format(text, "\nExamples:\n%s", command->examples);
    kvsi_command_order(order, command);
    for (size_t i = 0; i < count; i++) {
        const kvsi_setting row = kvsi_command_row(command, i < own ? order[i] : i);

        if (is_short && !is_common(command, row.name))
            continue;
        if (i < own && (!group || strcmp(group, row.group) != 0))
            kvsi_text_format(text, "\n%s:\n", row.group);
        group = row.group;
        add_option(text, &row, i < own ? settings : &nothing, width);
    }
    kvsi_text_format(text, "%s  -h, --help%*s%s\n", own ? "" : "\n", COLUMN - 12, "",
                     kvsi_help_description(command));
    if (command->notes && !is_short) {
        kvsi_text_add(text, "\n");
        add_paragraphs(text, command->notes, width);
    }
    if (is_short)
        kvsi_text_format(text, "\n'%s --help all' shows all %zu options.\n", command->command,
                         count);
}
