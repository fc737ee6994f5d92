/* The tables of settings as programs that use the library see them: kvs_setting. */
#include "config/public_settings.h"

#include "kvshift/kvshift_lab.h"

#include <pthread.h>
#include <string.h>

/* Most rows of a table, and most values of a choice with their aliases and the NULL at the end. */
enum { ROWS_MAX = 64, CHOICES_MAX = 12 };

typedef struct public_table {
    const char *task; /* NULL = the table of models or of training */
    const kvsi_settings *table;
    kvs_setting rows[ROWS_MAX];
    const char *choices[ROWS_MAX][CHOICES_MAX];
} public_table;

enum { MODEL, TRAIN, TASKS };

static public_table tables[] = {
    {.table = &kvsi_model_settings},
    {.table = &kvsi_train_settings},
    {.task = "induction", .table = &kvsi_induction_settings},
    {.task = "ngram", .table = &kvsi_ngram_settings},
    {.task = "hopk", .table = &kvsi_hopk_settings},
    {.task = "igsm", .table = &kvsi_igsm_settings},
};

enum { TABLES = sizeof tables / sizeof *tables };

static const char *type_name(kvsi_setting_kind kind)
{
    switch (kind) {
    case KVSI_SETTING_FLAG:
        return "flag";
    case KVSI_SETTING_SIZE:
    case KVSI_SETTING_UINT64:
        return "count";
    case KVSI_SETTING_REAL:
        return "number";
    case KVSI_SETTING_ENUM:
        return "choice";
    case KVSI_SETTING_REALS:
        return "numbers";
    case KVSI_SETTING_OPTIONAL:
        return "optional";
    default:
        return "counts"; /* KVSI_SETTING_BITS; the tables have no others */
    }
}

static const char *default_value(const kvsi_setting *row)
{
    if (row->value)
        return row->value;
    if (kvsi_setting_is_list(row))
        return "";
    return row->kind == KVSI_SETTING_FLAG ? "no" : "0";
}

static void fill_table(public_table *t)
{
    for (size_t i = 0; i < t->table->count && i < ROWS_MAX; i++) {
        const kvsi_setting *row = t->table->rows + i;
        const char *choice;

        for (size_t c = 0; c + 1 < CHOICES_MAX && (choice = kvsi_setting_choice(row, c)); c++)
            t->choices[i][c] = choice;
        t->rows[i] = (kvs_setting){
            .name = row->name,
            .type = type_name(row->kind),
            .group = row->group,
            .help = row->help,
            .value = default_value(row),
            .automatic = row->automatic,
            .choices = t->choices[i][0] ? t->choices[i] : NULL,
            .low = row->low,
            .high = row->high,
            .open_low = row->open_low,
            .open_high = row->open_high,
            .changes_result = (row->use & KVSI_RESULT) != 0,
            .may_change = (row->use & KVSI_MAY_CHANGE) != 0,
        };
    }
}

static void fill_tables(void)
{
    for (size_t t = 0; t < TABLES; t++)
        fill_table(&tables[t]);
}

static const kvs_setting *setting_at(public_table *t, size_t index)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;

    if (index >= t->table->count || pthread_once(&once, fill_tables) != 0)
        return NULL;
    return &t->rows[index];
}

const kvs_setting *kvs_model_setting(size_t index)
{
    return setting_at(&tables[MODEL], index);
}

const kvs_setting *kvs_train_setting(size_t index)
{
    return setting_at(&tables[TRAIN], index);
}

const char *kvs_task_name(size_t index)
{
    return index < TABLES - TASKS ? tables[TASKS + index].task : NULL;
}

const kvs_setting *kvs_task_setting(const char *task, size_t index)
{
    for (size_t t = TASKS; task && t < TABLES; t++)
        if (strcmp(tables[t].task, task) == 0)
            return setting_at(&tables[t], index);
    return NULL;
}

const kvsi_settings *kvsi_task_settings(const char *task)
{
    for (size_t t = TASKS; t < TABLES; t++)
        if (strcmp(tables[t].task, task) == 0)
            return tables[t].table;
    return NULL;
}
