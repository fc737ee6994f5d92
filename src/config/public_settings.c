/* The tables of settings as programs that use the library see them: kvs_setting. */
#include "config/public_settings.h"

#include "base/math.h"
#include "kvshift/kvshift_lab.h"

#include <pthread.h>
#include <string.h>

/* The tables of models and of training, followed by the tables of tasks. */
static const kvsi_settings *const tables[] = {
    &kvsi_model_settings, &kvsi_train_settings, &kvsi_induction_settings,
    &kvsi_ngram_settings, &kvsi_hopk_settings,  &kvsi_igsm_settings,
};

enum { MODEL, TRAIN, FIRST_TASK, TABLES = sizeof tables / sizeof *tables };
/* Largest number of rows of a table, and of values of a choice including aliases and the NULL at
 * the end. */
enum { ROWS_MAX = 96, CHOICES_MAX = 12 };

/* The public form of the tables, which the first call fills. */
static kvs_setting public_rows[TABLES][ROWS_MAX];
static const char *public_choices[TABLES][ROWS_MAX][CHOICES_MAX];

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
    case KVSI_SETTING_STRING:
        return "text";
    default:
        return "counts"; /* KVSI_SETTING_BITS; the tables have no others */
    }
}

static const char *default_value(const kvsi_setting *row)
{
    if (row->value)
        return row->value;
    if (kvsi_setting_is_list(row) || row->kind == KVSI_SETTING_STRING)
        return "";
    return row->kind == KVSI_SETTING_FLAG ? "no" : "0";
}

static size_t row_count(size_t table)
{
    return kvsi_min(tables[table]->count, (size_t)ROWS_MAX);
}

static void fill_row(kvs_setting *out, const char **choices, const kvsi_setting *row)
{
    const char *choice;

    for (size_t i = 0; i + 1 < CHOICES_MAX && (choice = kvsi_setting_choice(row, i)); i++)
        choices[i] = choice;
    *out = (kvs_setting){
        .name = row->name,
        .type = type_name(row->kind),
        .group = row->group,
        .help = row->help,
        .value = default_value(row),
        .automatic = row->automatic,
        .choices = choices[0] ? choices : NULL,
        .low = row->low,
        .high = row->high,
        .open_low = row->open_low,
        .open_high = row->open_high,
        .changes_result = (row->use & KVSI_RESULT) != 0,
        .may_change = (row->use & KVSI_MAY_CHANGE) != 0,
    };
}

static void fill_tables(void)
{
    for (size_t t = 0; t < TABLES; t++)
        for (size_t i = 0; i < row_count(t); i++)
            fill_row(&public_rows[t][i], public_choices[t][i], &tables[t]->rows[i]);
}

/* `table` may be TABLES, which stands for an unknown task. */
static const kvs_setting *setting_at(size_t table, size_t index)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;

    if (table >= TABLES || index >= row_count(table) || pthread_once(&once, fill_tables) != 0)
        return NULL;
    return &public_rows[table][index];
}

/* Returns the index of the task's table; TABLES if there is no such task. */
static size_t find_task(const char *task)
{
    size_t t = FIRST_TASK;

    while (t < TABLES && strcmp(tables[t]->name, task) != 0)
        t++;
    return t;
}

const kvs_setting *kvs_model_setting(size_t index)
{
    return setting_at(MODEL, index);
}

const kvs_setting *kvs_train_setting(size_t index)
{
    return setting_at(TRAIN, index);
}

const char *kvs_task_name(size_t index)
{
    return index < TABLES - FIRST_TASK ? tables[FIRST_TASK + index]->name : NULL;
}

const kvs_setting *kvs_task_setting(const char *task, size_t index)
{
    return task ? setting_at(find_task(task), index) : NULL;
}

const kvsi_settings *kvsi_task_settings(const char *task)
{
    const size_t t = find_task(task);

    return t < TABLES ? tables[t] : NULL;
}
