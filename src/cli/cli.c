#include "cli/cli.h"

#include "base/options_config.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int kvsi_cli_exit_code(const kvs_err *err)
{
    return err->status == KVS_E_INVALID || err->status == KVS_E_EXISTS ? KVSI_EXIT_MISUSE
                                                                       : KVSI_EXIT_FAILED;
}

int kvsi_cli_fail(const kvs_err *err)
{
    /* Every command that can find its output in place has the option. */
    const char *hint = err->status == KVS_E_EXISTS ? "; --overwrite replaces it" : "";

    fprintf(stderr, "kvshift: %s%s\n", err->message, hint);
    return kvsi_cli_exit_code(err);
}

kvs_status kvsi_cli_help(const kvsi_command_options *command, const void *settings, kvs_err *err)
{
    kvsi_text text = {0};
    kvs_status st;

    kvsi_options_help(&text, command, settings);
    TRY_OUT(kvsi_text_check(&text, err));
    fputs(text.data, stdout);
out:
    kvsi_text_release(&text);
    return st;
}

kvs_status kvsi_cli_print_config(const kvsi_command_options *command, const void *settings,
                                 const kvsi_parsed_options *parsed, kvs_err *err)
{
    kvsi_text text = {0};
    kvs_status st;

    if (strcmp(parsed->print_config, "schema") == 0)
        return kvsi_cli_print_json(kvsi_options_schema(command, settings), err);
    if (strcmp(parsed->print_config, "explained") == 0)
        kvsi_options_explain_config(&text, command, settings, parsed);
    else
        kvsi_options_print_config(&text, command, settings, parsed);
    TRY_OUT(kvsi_text_check(&text, err));
    fputs(text.data, stdout);
out:
    kvsi_text_release(&text);
    return st;
}

static kvs_status print_json(json_t *value, size_t format, kvs_err *err)
{
    char *text;
    const kvs_status st =
        kvsi_json_dump(&text, value, format | JSON_REAL_PRECISION(15), "the result", err);

    if (st == KVS_OK)
        puts(text); /* main() looks at whether that worked */
    free(text);
    json_decref(value);
    return st;
}

kvs_status kvsi_cli_print_json(json_t *value, kvs_err *err)
{
    return print_json(value, JSON_INDENT(2), err);
}

kvs_status kvsi_cli_print_json_line(json_t *value, kvs_err *err)
{
    const kvs_status st = print_json(value, 0, err);

    if (st == KVS_OK && fflush(stdout) != 0)
        return kvsi_fail(err, KVS_E_IO, "cannot write standard output");
    return st;
}

void kvsi_cli_quote_line(kvsi_text *text, int argc, char **argv)
{
    for (int i = 0; i < argc; i++) {
        if (i > 0)
            kvsi_text_add(text, " ");
        kvsi_text_add_shell_word(text, argv[i]);
    }
}
