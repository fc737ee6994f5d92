/* 'kvshift config': descriptions of all commands for other programs, made from the tables of
 * options: the schema of configuration files, man pages, and completion in shells.  The verb
 * presets is in config_presets.c. */
#include "base/memory.h"
#include "cli/completion.h"
#include "cli/man_page.h"

#include <stdio.h>
#include <string.h>

/* Finds the command that the arguments name: a command, or a command and its verb.  Without
 * arguments it is the command `standard`. */
static kvs_status find_named(const kvsi_command **out, const kvsi_call *call, const char *standard,
                             kvs_err *err)
{
    const kvsi_parsed_options *const parsed = call->parsed;
    const char *const name = parsed->argument_count > 0 ? parsed->arguments[0] : standard;
    const char *const verb = parsed->argument_count > 1 ? parsed->arguments[1] : NULL;

    *out = kvsi_cli_find(kvsi_cli_commands, name);
    if (!*out)
        return kvsi_cli_unknown("command", name, err);
    if (!verb)
        return KVS_OK;
    *out = (*out)->verbs ? kvsi_cli_find((*out)->verbs, verb) : NULL;
    if (!*out)
        return kvsi_fail(err, KVS_E_INVALID, "unknown command '%s %s'; see 'kvshift help'", name,
                         verb);
    return KVS_OK;
}

static kvs_status print_text(kvsi_text *text, kvs_err *err)
{
    kvs_status st;

    TRY_OUT(kvsi_text_check(text, err));
    fputs(text->data, stdout);
out:
    kvsi_text_release(text);
    return st;
}

/* ---- schema ---------------------------------------------------------------------------------- */

static const kvsi_command_options schema_options = {
    .command = "kvshift config schema",
    .purpose =
        "Prints the JSON schema of the files that 'kvshift COMMAND --config' takes.  COMMAND "
        "is train if it is not given, and may have two words: data build.",
    .argument = "COMMAND",
    .max_arguments = 2,
};

static kvs_status print_schema(void *nothing, const kvsi_call *call, kvs_err *err)
{
    const kvsi_command *command;
    void *settings;
    kvs_status st;

    (void)nothing;
    TRY(find_named(&command, call, "train", err));
    if (!command->options || !command->options->takes_config)
        return kvsi_fail(err, KVS_E_INVALID, "command '%s' does not read configuration files",
                         command->name);
    settings = kvsi_alloc(1, command->settings_size);
    if (!settings)
        return kvsi_fail(err, KVS_E_NOMEM, "out of memory for the options");
    st = kvsi_cli_set_defaults(command, settings, err);
    if (st == KVS_OK)
        st = kvsi_cli_print_config(command->options, settings,
                                   &(kvsi_parsed_options){.print_config = "schema"}, err);
    kvsi_options_free_configs(command->options, settings);
    kvsi_free(settings);
    return st;
}

static const kvsi_command schema_command = {
    .name = "schema",
    .summary = "print the JSON schema of a command's configuration file",
    .options = &schema_options,
    .run = print_schema,
};

/* ---- man pages ------------------------------------------------------------------------------- */

static const kvsi_command_options man_options = {
    .command = "kvshift config man",
    .purpose = "Prints the man page of a command, or of the program if none is given.  COMMAND may "
               "have two words: data build.",
    .examples = "  kvshift config man train | man -l -\n",
    .argument = "COMMAND",
    .max_arguments = 2,
};

static kvs_status print_man(void *nothing, const kvsi_call *call, kvs_err *err)
{
    const kvsi_command *command = NULL;
    kvsi_text text = {0};
    kvs_status st;

    (void)nothing;
    if (call->parsed->argument_count > 0)
        TRY(find_named(&command, call, "", err));
    if (!command)
        kvsi_man_overview(&text, kvsi_cli_commands);
    else if (!command->options)
        kvsi_man_verbs(&text, command);
    else
        TRY_OUT(kvsi_man_command(&text, command, err));
    return print_text(&text, err);
out:
    kvsi_text_release(&text);
    return st;
}

static const kvsi_command man_command = {
    .name = "man",
    .summary = "print the man page of a command",
    .options = &man_options,
    .run = print_man,
};

/* ---- completion ------------------------------------------------------------------------------ */

static const kvsi_command_options completion_options = {
    .command = "kvshift config completion",
    .purpose = "Prints the script with which bash, zsh or fish complete the names of commands, "
               "options and values.",
    .examples = "  source <(kvshift config completion bash)\n"
                "  kvshift config completion fish >~/.config/fish/completions/kvshift.fish\n",
    .argument = "SHELL",
    .min_arguments = 1,
    .max_arguments = 1,
};

static kvs_status print_completion(void *nothing, const kvsi_call *call, kvs_err *err)
{
    const char *const shell = call->parsed->arguments[0];
    kvsi_text text = {0};

    (void)nothing;
    if (strcmp(shell, "bash") == 0)
        kvsi_complete_bash(&text, kvsi_cli_commands);
    else if (strcmp(shell, "zsh") == 0)
        kvsi_complete_zsh(&text, kvsi_cli_commands);
    else if (strcmp(shell, "fish") == 0)
        kvsi_complete_fish(&text, kvsi_cli_commands);
    else
        return kvsi_fail(err, KVS_E_INVALID, "unknown shell '%s', expected bash, zsh or fish",
                         shell);
    return print_text(&text, err);
}

static const kvsi_command completion_command = {
    .name = "completion",
    .summary = "print the script that completes words in bash, zsh or fish",
    .options = &completion_options,
    .run = print_completion,
};

const kvsi_command kvsi_cmd_config = {
    .name = "config",
    .summary = "print presets, schemas of configuration files, man pages, shell completion",
    .usage = "presets|schema|man|completion ...",
    .purpose = "Lists the presets, and describes the commands for editors, readers of man pages, "
               "and shells.",
    .verbs = (const kvsi_command *const[]){&kvsi_config_presets, &schema_command, &man_command,
                                           &completion_command, NULL},
};
