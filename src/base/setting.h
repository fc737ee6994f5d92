/* base/setting.h - one row describes one setting: a field of a configuration struct.
 *
 *     struct config { size_t dim; kvsi_head_kind head; };
 *     static const kvsi_setting rows[] = {
 *         {.name = "dim", .kind = KVSI_SETTING_SIZE, .offset = offsetof(struct config, dim),
 *          .low = 1, ...},
 *         {.name = "head", .kind = KVSI_SETTING_ENUM, .offset = offsetof(struct config, head),
 *          .names = head_names, ...},
 *     };
 *
 * Everything that reads, prints, compares or checks settings works on rows: command-line options
 * and their help, configuration files and their schema, config.json, the log of a run, the check
 * when a run is resumed, and the labels of reports.  src/config/ has the tables of the model, of
 * training and of the tasks; each command has a table of its own options. */
#ifndef KVSI_BASE_SETTING_H
#define KVSI_BASE_SETTING_H

#include "base/json.h"
#include "base/names.h"
#include "base/text.h"

typedef enum kvsi_setting_kind {
    KVSI_SETTING_FLAG,     /* int, 0 or 1 */
    KVSI_SETTING_SIZE,     /* size_t */
    KVSI_SETTING_UINT64,   /* uint64_t */
    KVSI_SETTING_REAL,     /* double */
    KVSI_SETTING_TEXT,     /* const char *, borrowed; NULL = not set */
    KVSI_SETTING_CHOICE,   /* const char *, one of `choices`, or of `names` and `aliases` */
    KVSI_SETTING_ENUM,     /* an enum or unsigned, one of `names` */
    KVSI_SETTING_SIZES,    /* kvsi_number_list of whole numbers, written 0,2,5 */
    KVSI_SETTING_REALS,    /* size_t count, followed by an array of KVSI_LIST_MAX doubles */
    KVSI_SETTING_BITS,     /* uint64_t, written as the list of the bits that are 1: 0,2,5 */
    KVSI_SETTING_OPTIONAL, /* size_t, SIZE_MAX = not set; in files a list of at most one number */
    KVSI_SETTING_STRING,   /* an array of KVSI_STRING_SIZE characters; "" = not set */
} kvsi_setting_kind;

enum { KVSI_LIST_MAX = 64, KVSI_STRING_SIZE = 512 };

typedef struct kvsi_number_list { /* a KVSI_SETTING_REALS has the same layout */
    size_t count;
    double numbers[KVSI_LIST_MAX];
} kvsi_number_list;

typedef struct kvsi_text_list {
    const char *texts[KVSI_LIST_MAX]; /* borrowed */
    size_t count;
} kvsi_text_list;

/* Another name for a value of an enum that also gives a second setting its value: the shift 'gate'
 * is the target kv with the form gate. */
typedef struct kvsi_alias {
    const char *name; /* NULL ends a list */
    const char *also; /* the name of the second setting, an enum too */
    int value, also_value;
} kvsi_alias;

/* Functions that set and read a configuration by the names of its settings.  `get` writes text that
 * `set` accepts; "" is an empty list. */
typedef struct kvsi_setting_access {
    kvs_status (*set)(void *config, const char *name, const char *value, kvs_err *err);
    kvs_status (*get)(char *out, size_t size, const void *config, const char *name, kvs_err *err);
} kvsi_setting_access;

/* What a setting means for a training run. */
enum {
    KVSI_RESULT = 1,     /* it changes the result.  It is in the log, and runs that are compared or
                            taken over must agree in it */
    KVSI_LOGGED = 2,     /* it is in the log, but does not change the result */
    KVSI_MAY_CHANGE = 4, /* a resumed run may have another value */
    KVSI_PER_START = 8,  /* it belongs to one start of the command, not to the run */
    KVSI_ADDED = 16,     /* files of earlier versions lack it; their runs had the default */
};

typedef struct kvsi_setting {
    const char *name; /* of the option, without dashes; in JSON with _ for - */
    char letter;      /* of the short option, -t; 0 = none */
    kvsi_setting_kind kind;
    size_t offset; /* of the field within its struct */
    /* NULL = the value is in the field.  Otherwise the field is a pointer to a configuration that
     * is set and read by name; the kind is a flag, a number, a choice or a list of numbers. */
    const kvsi_setting_access *access;
    const char *group;       /* heading in the help, section of a configuration file */
    const char *placeholder; /* "N", "DIR" in the help; flags have none */
    const char *help;
    const char *value;          /* the default, as text; NULL = 0, NULL or empty */
    const char *automatic;      /* what 0, NULL or an empty list means, where that is automatic */
    const char *const *choices; /* ends with NULL */
    const char *(*choice_at)(size_t index); /* instead of `choices`; NULL past the end */
    const kvsi_name *names;                 /* of the values of an enum */
    const kvsi_alias *aliases;              /* may be NULL */
    const char *(*examples)(size_t index);  /* values of a text, for the help; NULL past the end */
    const char *implied;     /* the value of an option without a value; NULL = it needs one */
    double low, high;        /* limits of a number; high = 0 means no upper limit */
    int open_low, open_high; /* the limit itself is excluded */
    int may_be_empty;        /* a text may be "" */
    int repeats;             /* a text: the field is a kvsi_text_list; each one given adds to it */
    unsigned use;            /* KVSI_RESULT ... */
    int negated;             /* a flag whose key has the opposite meaning: no-mlp is "mlp" */
    const char *key; /* in our part of a model's config.json; NULL = the name with _ for - */
} kvsi_setting;

typedef struct kvsi_settings { /* a table */
    const kvsi_setting *rows;
    size_t count;
    const char *name; /* what the settings configure: "model"; NULL = no name */
} kvsi_settings;

#define KVSI_SETTINGS(table)                                                                       \
    {                                                                                              \
        .rows = (table), .count = sizeof(table) / sizeof *(table)                                  \
    }

/* Returns the row with that name; NULL if there is none. */
const kvsi_setting *kvsi_settings_find(const kvsi_settings *table, const char *name);

/* Sets a struct of `size` bytes to the defaults. */
void kvsi_settings_init(const kvsi_settings *table, void *config, size_t size);
/* Sets a struct to the defaults; all of its bytes must be 0. */
void kvsi_settings_set(const kvsi_settings *table, void *config);

/* Returns value number i = 0, 1, ... of a choice or an enum, aliases last; NULL past the end. */
const char *kvsi_setting_choice(const kvsi_setting *row, size_t i);
/* Appends all values of a choice or an enum: "none, k or kv". */
void kvsi_setting_add_choices(kvsi_text *text, const kvsi_setting *row);
/* Returns the alias of that name; NULL if there is none. */
const kvsi_alias *kvsi_setting_alias(const kvsi_setting *row, const char *name);

/* Sets the field from text: "128", "2e-3", "yes", "gate", "0,2,5".  An alias sets the field only,
 * not the second setting.  Messages start with `origin`.  A text is borrowed. */
kvs_status kvsi_setting_store(const kvsi_setting *row, void *config, const char *origin,
                              const char *text, kvs_err *err);
/* Fails if kvsi_setting_store would not accept the text. */
kvs_status kvsi_setting_check_text(const kvsi_setting *row, const char *origin, const char *text,
                                   kvs_err *err);
/* The size of a buffer for any value as text; the longest one is a list of numbers. */
enum { KVSI_SETTING_VALUE = 32 * KVSI_LIST_MAX };

/* Writes the value of a row of any kind but KVSI_SETTING_TEXT as text that kvsi_setting_store
 * reads; allocates nothing. */
void kvsi_setting_write(char out[KVSI_SETTING_VALUE], const kvsi_setting *row, const void *config);
/* Appends the value as text that kvsi_setting_store reads; "" for a text that is not set and for an
 * empty list. */
void kvsi_setting_print(kvsi_text *text, const kvsi_setting *row, const void *config);
/* Returns whether the value is written as a list of numbers. */
int kvsi_setting_is_list(const kvsi_setting *row);
/* Sets the value to the empty list. */
void kvsi_setting_clear(const kvsi_setting *row, void *config);
void kvsi_setting_copy(const kvsi_setting *row, void *to, const void *from);
int kvsi_setting_equal(const kvsi_setting *row, const void *a, const void *b);
/* Returns whether the field has the row's default. */
int kvsi_setting_is_default(const kvsi_setting *row, const void *config);
/* Returns whether the field has the value that `automatic` describes. */
int kvsi_setting_is_automatic(const kvsi_setting *row, const void *config);

/* Fails unless the value is within the row's limits and, for an enum, has a name. */
kvs_status kvsi_setting_check(const kvsi_setting *row, const void *config, kvs_err *err);
kvs_status kvsi_settings_check(const kvsi_settings *table, const void *config, kvs_err *err);

enum { KVSI_SETTING_KEY = 64 }; /* size of a key's buffer */

/* Writes the name with _ for -. */
void kvsi_setting_key(char out[KVSI_SETTING_KEY], const kvsi_setting *row);
/* Writes the key in config.json and the log. */
void kvsi_setting_file_key(char out[KVSI_SETTING_KEY], const kvsi_setting *row);
/* Returns the value as JSON, a new reference; NULL if memory runs out. */
json_t *kvsi_setting_to_json(const kvsi_setting *row, const void *config);
/* Sets the field from the value of `key` in a JSON object, if it has one; `what` names the file in
 * messages. */
kvs_status kvsi_setting_from_json(const kvsi_setting *row, void *config, const json_t *object,
                                  const char *key, const char *what, kvs_err *err);
/* Adds the rows with a bit of `use` to a JSON object, under their keys of files and in the table's
 * order.  Returns nonzero if memory runs out. */
int kvsi_settings_to_json(json_t *object, const kvsi_settings *table, const void *config,
                          unsigned use);

#endif
