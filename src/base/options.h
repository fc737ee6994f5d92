/* base/options.h - one table of options gives a command its parser, its checks, its environment
 * variables and its help.
 *
 *     struct settings { size_t dim; const char *shift; };
 *     static const kvsi_option options[] = {
 *         {"dim", KVSI_OPTION_SIZE, offsetof(struct settings, dim), .low = 1, ...},
 *         {"shift", KVSI_OPTION_CHOICE, offsetof(struct settings, shift), .choices = shifts, ...},
 *     };
 *
 * Settings start out as the defaults, which the help shows.  Then a file (--config FILE, where the
 * command takes one), then an environment variable (KVSHIFT_KV_HEADS for --kv-heads), then the
 * command line, where the last one wins: --name value, --name=value, -n value, --flag, -h or
 * --help; -- ends the options. */
#ifndef KVSI_BASE_OPTIONS_H
#define KVSI_BASE_OPTIONS_H

#include "base/text.h"

typedef enum kvsi_option_kind {
    KVSI_OPTION_FLAG,   /* int, 0 or 1; the environment says 1/0, yes/no or true/false */
    KVSI_OPTION_SIZE,   /* size_t */
    KVSI_OPTION_UINT64, /* uint64_t */
    KVSI_OPTION_REAL,   /* double */
    KVSI_OPTION_TEXT,   /* const char *, borrowed from the command line; NULL = not given */
    KVSI_OPTION_CHOICE, /* const char *, one of `choices` */
    KVSI_OPTION_SIZES,  /* kvsi_number_list of whole numbers, written 0,2,5 */
    KVSI_OPTION_REALS,  /* kvsi_number_list */
} kvsi_option_kind;

enum { KVSI_LIST_MAX = 64 };

typedef struct kvsi_number_list {
    size_t count;
    double numbers[KVSI_LIST_MAX];
} kvsi_number_list;

typedef struct kvsi_text_list {
    const char *texts[KVSI_LIST_MAX]; /* borrowed; seen as a single text, it is the first */
    size_t count;
} kvsi_text_list;

typedef struct kvsi_option {
    const char *name; /* without dashes */
    char letter;      /* of the short form, -t; 0 = none */
    kvsi_option_kind kind;
    size_t offset;           /* of the value within the command's settings */
    const char *group;       /* heading in the help; rows of a group stand together */
    const char *placeholder; /* "N", "DIR"; flags have none */
    const char *help;
    const char *automatic;      /* what the default does, where 0 or NULL stands for "you decide" */
    const char *const *choices; /* ends with NULL */
    const char *implied; /* a choice's value where the option stands alone; NULL = it may not */
    double low, high;    /* numbers: inclusive; high = 0 means no upper limit */
    int may_be_empty;    /* a text: "" is a value like others */
    int repeats;         /* a text: the value is a kvsi_text_list, and each one given adds to it */
} kvsi_option;

enum { KVSI_OPTIONS_MAX = 128 };

/* For the largest tables, and those that are put together from others: `count` options, and those
 * of `takes_config`, must fit. */
enum { KVSI_CONFIG_OPTIONS = 2 };
#define KVSI_OPTIONS_FIT(count)                                                                    \
    _Static_assert((count) + (int)KVSI_CONFIG_OPTIONS <= (int)KVSI_OPTIONS_MAX,                    \
                   "raise KVSI_OPTIONS_MAX")

typedef struct kvsi_command_options {
    const char *command;  /* "kvshift train", for usage and hints */
    const char *purpose;  /* a sentence or two */
    const char *notes;    /* paragraphs after the options, or NULL */
    const char *argument; /* name of the positional arguments, or NULL if there are none */
    size_t min_arguments, max_arguments;
    const kvsi_option *options;
    size_t count;     /* with those of `takes_config`, <= KVSI_OPTIONS_MAX */
    int takes_config; /* also has --config FILE and --print-config, see base/options_config.h */
} kvsi_command_options;

/* What comes later wins.  From the file on, the user gave the value for this very option. */
typedef enum kvsi_option_source {
    KVSI_FROM_DEFAULT,
    KVSI_FROM_PRESET, /* this and the next three are the command's to say */
    KVSI_FROM_MODEL,
    KVSI_FROM_OTHERS, /* worked out from other options */
    KVSI_FROM_START,  /* will be worked out when the command starts */
    KVSI_FROM_FILE,
    KVSI_FROM_ENVIRONMENT,
    KVSI_FROM_COMMAND_LINE,
} kvsi_option_source;

typedef struct kvsi_parsed_options {
    int help;                                    /* asked for: nothing else was looked at */
    kvsi_option_source source[KVSI_OPTIONS_MAX]; /* of each option's value */
    char **arguments;                            /* the positional ones, borrowed from argv */
    size_t argument_count;
    const char *config;         /* the file of --config; NULL = none */
    const char *print_config;   /* "values", "explained" or "schema": what to print, and no more */
    const char *preset, *model; /* names for what KVSI_FROM_PRESET and _MODEL stand for */
    size_t line[KVSI_OPTIONS_MAX]; /* of the file, where an option stands there; 0 = it does not */
    char *texts[KVSI_OPTIONS_MAX]; /* owned: texts from the file, which settings borrow */
} kvsi_parsed_options;

/* Reads argv[0 .. argc-1], which starts with the first argument, and moves the positional ones to
 * its front.  Misuse is KVS_E_INVALID. */
kvs_status kvsi_options_parse(kvsi_parsed_options *parsed, const kvsi_command_options *command,
                              void *settings, int argc, char **argv, kvs_err *err);
/* Needed where the command takes a configuration file: ends the life of texts from there. */
void kvsi_options_release(kvsi_parsed_options *parsed);

static inline int kvsi_option_is_given(const kvsi_parsed_options *parsed, size_t index)
{
    return parsed->source[index] >= KVSI_FROM_FILE;
}

/* Appends the help text; `settings` hold the defaults. */
void kvsi_options_help(kvsi_text *text, const kvsi_command_options *command, const void *settings);

/* The value as one would write it: "128", "0.001", "yes", "0,2,5"; "" for a text that is not set
 * and for an empty list; texts with a space between them. */
void kvsi_option_print(kvsi_text *text, const kvsi_option *option, const void *settings);
/* Sets the option to a value as one would write it.  `origin` is what messages start with.  A text
 * is borrowed. */
kvs_status kvsi_option_store(const kvsi_option *option, void *settings, const char *origin,
                             const char *value, kvs_err *err);
/* Copies the value from one command's settings to others of the same kind; a text is borrowed. */
void kvsi_option_copy(const kvsi_option *option, void *to, const void *from);
/* What it means and what it may be: "how the rate falls: constant, linear or cosine". */
void kvsi_option_explain(kvsi_text *text, const kvsi_option *option);
/* The environment variable of an option. */
void kvsi_option_environment(char *out, size_t size, const kvsi_option *option);

#endif
