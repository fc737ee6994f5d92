#include "cli/man_page.h"

#include "base/memory.h"
#include "kvshift/kvshift.h"

#include <ctype.h>
#include <string.h>

/* Appends plain text.  Escapes what roff would read as markup: backslashes, hyphens, and dots and
 * quotes at the start of a line. */
static void add_roff(kvsi_text *text, const char *words)
{
    for (const char *c = words; *c; c++) {
        const int starts = c == words || c[-1] == '\n';

        if (starts && (*c == '.' || *c == '\''))
            kvsi_text_add(text, "\\&");
        if (*c == '\\')
            kvsi_text_add(text, "\\e");
        else if (*c == '-')
            kvsi_text_add(text, "\\-");
        else
            kvsi_text_add_bytes(text, c, 1);
    }
}

/* Appends the name of a command's page: "kvshift-data-build" for "kvshift data build". */
static void add_page_name(kvsi_text *text, const char *command, int capitals)
{
    for (const char *c = command; *c; c++) {
        const char letter = capitals ? (char)toupper((unsigned char)*c) : *c;

        kvsi_text_add_bytes(text, *c == ' ' ? "-" : &letter, 1);
    }
}

/* Appends the title and the section NAME, and starts the section SYNOPSIS. */
static void add_heading(kvsi_text *text, const char *command, const char *summary)
{
    kvsi_text_add(text, ".TH ");
    add_page_name(text, command, 1);
    kvsi_text_format(text, " 1 \"\" \"kvshift %d.%d.%d\" \"kvshift manual\"\n.SH NAME\n",
                     KVS_VERSION_MAJOR, KVS_VERSION_MINOR, KVS_VERSION_PATCH);
    add_page_name(text, command, 0);
    kvsi_text_add(text, " \\- ");
    add_roff(text, summary);
    kvsi_text_add(text, "\n.SH SYNOPSIS\n.B ");
}

/* Appends the section COMMANDS: all commands, or with `parent` the verbs of that command. */
static void add_commands(kvsi_text *text, const char *parent, const kvsi_command *const *list)
{
    kvsi_text_add(text, ".SH COMMANDS\n");
    for (; *list; list++) {
        kvsi_text_format(text, ".TP\n.BR kvshift%s%s\\-%s (1)\n", *parent ? "\\-" : "", parent,
                         (*list)->name);
        add_roff(text, (*list)->summary);
        kvsi_text_add(text, "\n");
    }
}

void kvsi_man_overview(kvsi_text *text, const kvsi_command *const *commands)
{
    add_heading(text, "kvshift", "language models with KV shifting attention");
    kvsi_text_add(text,
                  "kvshift\n.I COMMAND\n[\\fIOPTION\\fR]...\n.SH DESCRIPTION\n"
                  "Trains, runs, measures and explains language models with KV shifting "
                  "attention: each key and value is mixed with the ones of the tokens before it, "
                  "by a few learned numbers per head.\n");
    add_commands(text, "", commands);
    kvsi_text_add(text, ".SH ENVIRONMENT\nEvery option can also be set by a variable: "
                        "KVSHIFT_THREADS for \\-\\-threads.\n"
                        ".SH EXIT STATUS\n0 success, 1 failure, 2 wrong usage.\n");
}

void kvsi_man_verbs(kvsi_text *text, const kvsi_command *command)
{
    kvsi_text name = {0};

    kvsi_text_format(&name, "kvshift %s", command->name);
    if (name.failed) {
        text->failed = 1;
        return;
    }
    add_heading(text, name.data, command->summary);
    add_roff(text, name.data);
    kvsi_text_add(text, "\n");
    add_roff(text, command->usage);
    kvsi_text_add(text, "\n.SH DESCRIPTION\n");
    add_roff(text, command->purpose);
    kvsi_text_add(text, "\n");
    add_commands(text, command->name, command->verbs);
    kvsi_text_release(&name);
}

static void add_options(kvsi_text *text, const kvsi_command_options *options, const void *settings)
{
    const size_t own = kvsi_command_count(options), count = kvsi_command_count_all(options);
    const kvsi_parsed_options nothing = {0};
    size_t order[KVSI_OPTIONS_MAX];
    const char *group = NULL;

    kvsi_text_add(text, ".SH OPTIONS\n");
    kvsi_command_order(order, options);
    for (size_t i = 0; i < count; i++) {
        const kvsi_setting row = kvsi_command_row(options, i < own ? order[i] : i);
        kvsi_text words = {0};

        if (i < own && (!group || strcmp(group, row.group) != 0)) {
            kvsi_text_add(text, ".SS ");
            add_roff(text, row.group);
            kvsi_text_add(text, "\n");
            group = row.group;
        }
        kvsi_option_spell(&words, &row);
        kvsi_text_add(&words, "\n");
        kvsi_option_describe(&words, &row, i < own ? settings : &nothing);
        kvsi_text_add(text, ".TP\n.B ");
        if (!words.failed)
            add_roff(text, words.data);
        kvsi_text_add(text, "\n");
        text->failed |= words.failed;
        kvsi_text_release(&words);
    }
    kvsi_text_add(text, ".TP\n.B \\-h, \\-\\-help\n");
    add_roff(text, kvsi_help_description(options));
    kvsi_text_add(text, "\n");
}

kvs_status kvsi_man_command(kvsi_text *text, const kvsi_command *command, kvs_err *err)
{
    const kvsi_command_options *options = command->options;
    void *settings = kvsi_alloc(1, command->settings_size + 1);
    kvsi_text usage = {0};
    kvs_status st;

    if (!settings)
        return kvsi_fail(err, KVS_E_NOMEM, "out of memory for the options");
    TRY_OUT(kvsi_cli_set_defaults(command, settings, err));
    kvsi_options_usage(&usage, options);
    TRY_OUT(kvsi_text_check(&usage, err));
    add_heading(text, options->command, command->summary);
    add_roff(text, usage.data);
    kvsi_text_add(text, "\n.SH DESCRIPTION\n");
    add_roff(text, options->purpose);
    kvsi_text_add(text, "\n");
    if (options->examples) {
        kvsi_text_add(text, ".SH EXAMPLES\n.nf\n");
        add_roff(text, options->examples);
        kvsi_text_add(text, ".fi\n");
    }
    if (command->verbs)
        add_commands(text, command->name, command->verbs);
    if (kvsi_command_count_all(options) > 0)
        add_options(text, options, settings);
    if (options->notes) {
        kvsi_text_add(text, ".SH NOTES\n");
        add_roff(text, options->notes);
        kvsi_text_add(text, "\n");
    }
    kvsi_text_add(text, ".SH SEE ALSO\n.BR kvshift (1)\n");
    st = kvsi_text_check(text, err);
out:
    kvsi_text_release(&usage);
    kvsi_options_free_configs(options, settings);
    kvsi_free(settings);
    return st;
}
