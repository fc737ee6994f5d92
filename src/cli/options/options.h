/* cli/options/options.h - the options of a command: its rows give it a parser, checks, environment
 * variables, configuration files and help.
 *
 * Settings start as the defaults, which the help shows.  They are replaced by the values of a file
 * (--config FILE, if the command takes one), then by those of environment variables
 * (KVSHIFT_KV_HEADS for --kv-heads), then by those of the command line, where the last one wins:
 * --name value, --name=value, -n value, --flag, -h or --help; -- ends the options.
 *
 * The command line is parsed once, into a list of assignments.  These can be applied to any
 * defaults, for example those of a preset that one of them names. */
#ifndef KVSI_CLI_OPTIONS_H
#define KVSI_CLI_OPTIONS_H

#include "base/setting.h"

enum { KVSI_OPTIONS_MAX = 256 }; /* of one command */

/* A kind of configuration of the library, which is set and read by name: of models, of training or
 * of tasks.  A kind may have several parts, each with its own settings: each task is a part. */
typedef struct kvsi_library_config {
    const kvs_setting *(*at)(size_t part, size_t index); /* a setting; NULL past the end */
    /* Creates a configuration with the defaults; *out is NULL if there is no such part. */
    kvs_status (*create)(void **out, size_t part, kvs_err *err);
    kvs_status (*copy)(void **out, const void *config, kvs_err *err);
    void (*free)(void *config);
    kvsi_setting_access access;
} kvsi_library_config;

/* Some rows of a command.  They are either a static array, whose fields are members of the
 * command's settings, or the settings of a configuration of the library.  The command's settings
 * then have a pointer to that configuration, the handle. */
typedef struct kvsi_option_table {
    const kvsi_settings *table;        /* this and `config` NULL = the end of the list */
    const kvsi_library_config *config; /* instead of `table` */
    size_t part;                       /* of `config` */
    size_t offset;     /* of the rows' struct, or of the handle, within the command's settings */
    const char *group; /* instead of the rows' own; NULL = their own */
} kvsi_option_table;

/* An entry of the list for the rows of a static array. */
#define KVSI_OPTION_ROWS(rows_)                                                                    \
    {                                                                                              \
        .table = &(const kvsi_settings)KVSI_SETTINGS(rows_)                                        \
    }
/* The list of a command with one array of rows. */
#define KVSI_OPTIONS(rows_)                                                                        \
    (const kvsi_option_table[])                                                                    \
    {                                                                                              \
        KVSI_OPTION_ROWS(rows_),                                                                   \
        {                                                                                          \
            0                                                                                      \
        }                                                                                          \
    }

typedef struct kvsi_command_options {
    const char *command;  /* "kvshift train", for usage and hints */
    const char *purpose;  /* a sentence or two */
    const char *notes;    /* paragraphs after the options, or NULL */
    const char *examples; /* command lines, each indented by two blanks; NULL = none */
    /* The names of the options in the short help, and a NULL at the end; NULL = all. */
    const char *const *common;
    const char *argument; /* name of the positional arguments, or NULL if there are none */
    size_t min_arguments, max_arguments;
    const kvsi_option_table *tables; /* NULL = no options */
    /* The groups that come last in the help, in this order, and a NULL at the end; NULL = none.
     * The other groups come before them, in the order of their rows. */
    const char *const *groups;
    int takes_config; /* also has --config FILE and --print-config, see options_config.h */
} kvsi_command_options;

/* Returns the number of rows of all tables, without --config and --print-config. */
size_t kvsi_command_count(const kvsi_command_options *command);
/* The same with --config and --print-config, if the command has them. */
size_t kvsi_command_count_all(const kvsi_command_options *command);
/* Returns row number `index`, with its offset within the command's settings. */
kvsi_setting kvsi_command_row(const kvsi_command_options *command, size_t index);
/* Returns the row of a setting of the library, whose handle is at `offset` within the settings.
 * The row's name is NULL past the end. */
kvsi_setting kvsi_library_row(const kvsi_library_config *config, size_t part, size_t index,
                              size_t offset);

/* Sets settings of `size` bytes to the defaults of all rows and creates the configurations of the
 * library.  The caller releases these with kvsi_options_free_configs. */
kvs_status kvsi_options_set_defaults(const kvsi_command_options *command, void *settings,
                                     size_t size, kvs_err *err);
/* Makes *to a copy of settings of `size` bytes.  Configurations of the library are copied too,
 * texts are shared. */
kvs_status kvsi_options_copy(const kvsi_command_options *command, void *to, const void *from,
                             size_t size, kvs_err *err);
/* Frees the configurations of the library in settings and sets their handles to NULL. */
void kvsi_options_free_configs(const kvsi_command_options *command, void *settings);
/* Sets `order` to the indices of all rows, group by group; returns their number. */
size_t kvsi_command_order(size_t order[KVSI_OPTIONS_MAX], const kvsi_command_options *command);
/* Returns the index of the row with that name, which must exist. */
size_t kvsi_command_index(const kvsi_command_options *command, const char *name);

/* Where a value came from.  Later ones have precedence.  From KVSI_FROM_FILE on, the user gave the
 * value for this option. */
typedef enum kvsi_option_source {
    KVSI_FROM_DEFAULT,
    KVSI_FROM_PRESET, /* this and the next three are set by the command */
    KVSI_FROM_MODEL,
    KVSI_FROM_OTHERS, /* computed from other options */
    KVSI_FROM_START,  /* will be computed when the command starts */
    KVSI_FROM_FILE,
    KVSI_FROM_ENVIRONMENT,
    KVSI_FROM_COMMAND_LINE,
} kvsi_option_source;

/* One value that the user gave. */
typedef struct kvsi_assignment {
    size_t index; /* of the row */
    kvsi_option_source source;
    const char *text; /* borrowed from argv and the environment; from a file: owned, as `key` is */
    char *key;        /* as the file has it, otherwise NULL */
    size_t line;
} kvsi_assignment;

typedef enum kvsi_help { KVSI_HELP_NONE, KVSI_HELP_SHORT, KVSI_HELP_ALL } kvsi_help;

typedef struct kvsi_parsed_options {
    kvsi_help help;                              /* requested; nothing else was read */
    kvsi_option_source source[KVSI_OPTIONS_MAX]; /* of each option's value */
    char **arguments;                            /* the positional ones, borrowed from argv */
    size_t argument_count;
    const char *config;            /* the file of --config; NULL = none */
    const char *print_config;      /* "values", "explained" or "schema": what to print and exit */
    const char *preset, *model;    /* the names of the preset and of the model that gave values */
    size_t line[KVSI_OPTIONS_MAX]; /* of the option in the file; 0 = not in the file */
    kvsi_assignment *assignments;  /* owned; file, then environment, then command line */
    size_t assignment_count;
    kvsi_assignment *kept; /* moved here by kvsi_options_keep */
    size_t kept_count;
    char *owned; /* a path that `config` borrows; NULL = none */
} kvsi_parsed_options;

/* Adds a value that the user gave.  If it is from a file, `parsed` then owns its texts. */
kvs_status kvsi_options_assign(kvsi_parsed_options *parsed, const kvsi_assignment *assignment,
                               kvs_err *err);

/* Reads argv[0 .. argc-1], without the name of the program, and moves the positional arguments to
 * its front.  Then reads the environment and the file.  Misuse is KVS_E_INVALID.  Values are
 * checked when they are applied. */
kvs_status kvsi_options_collect(kvsi_parsed_options *parsed, const kvsi_command_options *command,
                                int argc, char **argv, kvs_err *err);
/* Stores all values that were given in `settings`, which borrow texts from `parsed`. */
kvs_status kvsi_options_apply(kvsi_parsed_options *parsed, const kvsi_command_options *command,
                              void *settings, kvs_err *err);
/* Collects and applies the options of a command whose defaults do not depend on them. */
kvs_status kvsi_options_parse(kvsi_parsed_options *parsed, const kvsi_command_options *command,
                              void *settings, int argc, char **argv, kvs_err *err);
/* Moves the assignments of `other` to `parsed`, which keeps their texts until it is released. */
void kvsi_options_keep(kvsi_parsed_options *parsed, kvsi_parsed_options *other);
/* Frees everything in `parsed`, also the texts that settings borrow from a configuration file. */
void kvsi_options_release(kvsi_parsed_options *parsed);

static inline int kvsi_option_is_given(const kvsi_parsed_options *parsed, size_t index)
{
    return parsed->source[index] >= KVSI_FROM_FILE;
}
/* Returns the text of the option's value that has precedence; NULL = none was given. */
const char *kvsi_option_text(const kvsi_parsed_options *parsed, size_t index);

/* Appends the help text, in lines of up to `width` columns; `settings` hold the defaults. */
void kvsi_options_help(kvsi_text *text, const kvsi_command_options *command, const void *settings,
                       kvsi_help kind, size_t width);
/* Appends "kvshift train [OPTION]...", without a line break. */
void kvsi_options_usage(kvsi_text *text, const kvsi_command_options *command);
/* Appends the option as the help spells it: "-p, --prompt TEXT". */
void kvsi_option_spell(kvsi_text *text, const kvsi_setting *row);
/* Appends the meaning, the possible values and the default. */
void kvsi_option_describe(kvsi_text *text, const kvsi_setting *row, const void *settings);
/* Returns the description of --help, which depends on whether the command has a short help. */
const char *kvsi_help_description(const kvsi_command_options *command);
/* Appends the meaning and the possible values: "learning-rate schedule: constant, linear or
 * cosine". */
void kvsi_option_explain(kvsi_text *text, const kvsi_setting *row);
/* Writes the name of an option's environment variable. */
void kvsi_option_environment(char *out, size_t size, const kvsi_setting *row);

#endif
