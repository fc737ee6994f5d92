#include "cli/completion.h"

#include <string.h>

/* Calls `add` for every command with options, and for every verb: "train", "data build". */
static void for_each(kvsi_text *text, const kvsi_command *const *commands,
                     void (*add)(kvsi_text *text, const char *words, const kvsi_command *command))
{
    for (; *commands; commands++) {
        if ((*commands)->options)
            add(text, (*commands)->name, *commands);
        for (const kvsi_command *const *verb = (*commands)->verbs; verb && *verb; verb++) {
            kvsi_text words = {0};

            kvsi_text_format(&words, "%s %s", (*commands)->name, (*verb)->name);
            if (!words.failed)
                add(text, words.data, *verb);
            text->failed |= words.failed;
            kvsi_text_release(&words);
        }
    }
}

/* Appends text that stands within single quotes in a shell script.  Characters of `escaped` get a
 * backslash. */
static void add_quoted(kvsi_text *text, const char *words, const char *escaped)
{
    for (const char *c = words; *c; c++)
        if (*c == '\'')
            kvsi_text_add(text, "'\\''");
        else if (strchr(escaped, *c))
            kvsi_text_format(text, "\\%c", *c);
        else
            kvsi_text_add_bytes(text, c, 1);
}

/* Appends the values that an option can have, separated by spaces; none if it takes any text. */
static void add_values(kvsi_text *text, const kvsi_setting *row)
{
    const char *value;

    for (size_t i = 0; (value = kvsi_setting_choice(row, i)); i++)
        kvsi_text_format(text, "%s%s", i > 0 ? " " : "", value);
    for (size_t i = 0; row->examples && (value = row->examples(i)); i++)
        kvsi_text_format(text, "%s%s", i > 0 ? " " : "", value);
}

static int has_values(const kvsi_setting *row)
{
    return kvsi_setting_choice(row, 0) || (row->examples && row->examples(0));
}

static void add_names(kvsi_text *text, const kvsi_command *const *list)
{
    for (size_t i = 0; list[i]; i++)
        kvsi_text_format(text, "%s%s", i > 0 ? " " : "", list[i]->name);
}

/* ---- bash ------------------------------------------------------------------------------------ */

static void add_bash_options(kvsi_text *text, const char *words, const kvsi_command *command)
{
    kvsi_text_format(text, "    '%s') options='--help", words);
    for (size_t i = 0; i < kvsi_command_count_all(command->options); i++)
        kvsi_text_format(text, " --%s", kvsi_command_row(command->options, i).name);
    kvsi_text_add(text, "' ;;\n");
}

static void add_bash_values(kvsi_text *text, const char *words, const kvsi_command *command)
{
    for (size_t i = 0; i < kvsi_command_count_all(command->options); i++) {
        const kvsi_setting row = kvsi_command_row(command->options, i);

        if (!has_values(&row))
            continue;
        kvsi_text_format(text, "    '%s --%s') values='", words, row.name);
        add_values(text, &row);
        kvsi_text_add(text, "' ;;\n");
    }
}

void kvsi_complete_bash(kvsi_text *text, const kvsi_command *const *commands)
{
    kvsi_text_add(text,
                  "# Completion of kvshift in bash: source <(kvshift config completion bash)\n"
                  "_kvshift() {\n"
                  "    local word=${COMP_WORDS[COMP_CWORD]} before=${COMP_WORDS[COMP_CWORD-1]}\n"
                  "    local command=${COMP_WORDS[1]} options= values= verbs=\n"
                  "    if [[ $COMP_CWORD == 1 ]]; then\n"
                  "        mapfile -t COMPREPLY < <(compgen -W '");
    add_names(text, commands);
    kvsi_text_add(text, "' -- \"$word\")\n"
                        "        return\n"
                        "    fi\n"
                        "    case $command in\n");
    for (const kvsi_command *const *c = commands; *c; c++)
        if ((*c)->verbs) {
            kvsi_text_format(text, "    %s) verbs='", (*c)->name);
            add_names(text, (*c)->verbs);
            kvsi_text_add(text, "' ;;\n");
        }
    kvsi_text_add(text,
                  "    esac\n"
                  "    [[ \" $verbs \" != *\" ${COMP_WORDS[2]} \"* || $COMP_CWORD == 2 ]] ||\n"
                  "        command+=\" ${COMP_WORDS[2]}\"\n"
                  "    case \"$command $before\" in\n");
    for_each(text, commands, add_bash_values);
    kvsi_text_add(text, "    esac\n"
                        "    case $command in\n");
    for_each(text, commands, add_bash_options);
    kvsi_text_add(text, "    esac\n"
                        "    if [[ -n $values ]]; then\n"
                        "        mapfile -t COMPREPLY < <(compgen -W \"$values\" -- \"$word\")\n"
                        "    elif [[ $word == -* ]]; then\n"
                        "        mapfile -t COMPREPLY < <(compgen -W \"$options\" -- \"$word\")\n"
                        "    elif [[ $COMP_CWORD == 2 && -n $verbs ]]; then\n"
                        "        mapfile -t COMPREPLY < <(compgen -W \"$verbs\" -- \"$word\")\n"
                        "    fi # otherwise names of files\n"
                        "}\n"
                        "complete -o default -F _kvshift kvshift\n");
}

/* ---- zsh ------------------------------------------------------------------------------------- */

static void add_zsh_list(kvsi_text *text, const char *name, const kvsi_command *const *list)
{
    kvsi_text_format(text, "    %s=(", name);
    for (; *list; list++) {
        kvsi_text_format(text, "\n        '%s:", (*list)->name);
        add_quoted(text, (*list)->summary, "");
        kvsi_text_add(text, "'");
    }
    kvsi_text_add(text, ")\n");
}

static void add_zsh_options(kvsi_text *text, const char *words, const kvsi_command *command)
{
    kvsi_text_format(text, "    '%s') specs=('--help[show the help]'", words);
    for (size_t i = 0; i < kvsi_command_count_all(command->options); i++) {
        const kvsi_setting row = kvsi_command_row(command->options, i);

        kvsi_text_format(text, "\n        '--%s[", row.name);
        add_quoted(text, row.help, "[]:\\");
        kvsi_text_add(text, "]");
        if (row.kind != KVSI_SETTING_FLAG) {
            kvsi_text_format(text, ":%s:", row.placeholder ? row.placeholder : "VALUE");
            if (has_values(&row)) {
                kvsi_text_add(text, "(");
                add_values(text, &row);
                kvsi_text_add(text, ")");
            } else {
                kvsi_text_add(text, "_files");
            }
        }
        kvsi_text_add(text, "'");
    }
    kvsi_text_add(text, ") ;;\n");
}

void kvsi_complete_zsh(kvsi_text *text, const kvsi_command *const *commands)
{
    kvsi_text_add(text, "#compdef kvshift\n"
                        "_kvshift() {\n"
                        "    local -a names specs verbs\n"
                        "    local command=$words[2]\n");
    add_zsh_list(text, "names", commands);
    kvsi_text_add(text, "    if (( CURRENT == 2 )); then\n"
                        "        _describe command names\n"
                        "        return\n"
                        "    fi\n"
                        "    case $command in\n");
    for (const kvsi_command *const *c = commands; *c; c++)
        if ((*c)->verbs) {
            kvsi_text_format(text, "    %s)\n", (*c)->name);
            add_zsh_list(text, "verbs", (*c)->verbs);
            kvsi_text_add(text, "    ;;\n");
        }
    kvsi_text_add(text, "    esac\n"
                        "    if (( CURRENT == 3 && $#verbs )) && [[ $words[3] != -* ]]; then\n"
                        "        _describe command verbs\n"
                        "        return\n"
                        "    fi\n"
                        "    if (( ${verbs[(I)$words[3]:*]} )); then\n"
                        "        command+=\" $words[3]\"\n"
                        "        shift words\n"
                        "        (( CURRENT-- ))\n"
                        "    fi\n"
                        "    case $command in\n");
    for_each(text, commands, add_zsh_options);
    kvsi_text_add(text, "    esac\n"
                        "    shift words\n"
                        "    (( CURRENT-- ))\n"
                        "    _arguments $specs '*:file:_files'\n"
                        "}\n"
                        "_kvshift \"$@\"\n");
}

/* ---- fish ------------------------------------------------------------------------------------ */

static void add_fish_options(kvsi_text *text, const char *words, const kvsi_command *command)
{
    for (size_t i = 0; i < kvsi_command_count_all(command->options); i++) {
        const kvsi_setting row = kvsi_command_row(command->options, i);

        kvsi_text_format(text, "complete -c kvshift -n '__kvshift_runs %s' -l %s", words, row.name);
        if (row.letter)
            kvsi_text_format(text, " -s %c", row.letter);
        kvsi_text_add(text, " -d '");
        add_quoted(text, row.help, "\\");
        kvsi_text_add(text, "'");
        if (has_values(&row)) {
            kvsi_text_add(text, " -xa '");
            add_values(text, &row);
            kvsi_text_add(text, "'");
        } else if (row.kind != KVSI_SETTING_FLAG) {
            kvsi_text_add(text, " -r");
        }
        kvsi_text_add(text, "\n");
    }
}

static void add_fish_names(kvsi_text *text, const char *condition, const kvsi_command *const *list)
{
    for (; *list; list++) {
        kvsi_text_format(text, "complete -c kvshift -n '%s' -fa %s -d '", condition, (*list)->name);
        add_quoted(text, (*list)->summary, "\\");
        kvsi_text_add(text, "'\n");
    }
}

void kvsi_complete_fish(kvsi_text *text, const kvsi_command *const *commands)
{
    kvsi_text_add(text, "# Completion of kvshift in fish\n"
                        "function __kvshift_runs\n"
                        "    set -l words (commandline -opc)\n"
                        "    test (count $words) -gt (count $argv)\n"
                        "    and test \"$words[2..\"(math (count $argv) + 1)\"]\" = \"$argv\"\n"
                        "end\n"
                        "function __kvshift_has_words\n"
                        "    set -l words (commandline -opc)\n"
                        "    test \"$words[2..]\" = \"$argv\"\n"
                        "end\n");
    add_fish_names(text, "__kvshift_has_words", commands);
    for (const kvsi_command *const *c = commands; *c; c++)
        if ((*c)->verbs) {
            kvsi_text condition = {0};

            kvsi_text_format(&condition, "__kvshift_has_words %s", (*c)->name);
            if (!condition.failed)
                add_fish_names(text, condition.data, (*c)->verbs);
            text->failed |= condition.failed;
            kvsi_text_release(&condition);
        }
    for_each(text, commands, add_fish_options);
}
