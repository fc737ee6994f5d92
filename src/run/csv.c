#include "run/csv.h"

#include "base/files.h"
#include "base/json.h"
#include "base/memory.h"
#include "base/text.h"
#include "run/jsonl.h"

#include <stdio.h>

static const char *const columns[] = {"step",
                                      "loss",
                                      "lr",
                                      "accuracy",
                                      "grad_norm",
                                      "tokens",
                                      "seconds",
                                      "eval_loss",
                                      "eval_accuracy",
                                      "k_shift_sum",
                                      "k_shift_current",
                                      "v_shift_sum",
                                      "v_shift_current",
                                      "q_shift_sum",
                                      "q_shift_current"};

enum { COLUMNS = sizeof columns / sizeof *columns };

/* A number as it stands in the log; nothing where the step has none. */
static void add_cell(kvsi_text *row, const json_t *value)
{
    if (json_is_integer(value))
        kvsi_text_format(row, "%lld", (long long)json_integer_value(value));
    else if (json_is_real(value))
        kvsi_text_format(row, "%.9g", json_real_value(value));
}

static kvs_status add_row(kvsi_text *row, const kvsi_text *line, kvs_err *err)
{
    json_t *record = kvsi_json_load(line->data, line->length, 0, NULL);

    row->length = 0;
    for (size_t i = 0; i < COLUMNS; i++) {
        if (i > 0)
            kvsi_text_add(row, ",");
        add_cell(row, json_object_get(record, columns[i]));
    }
    kvsi_text_add(row, "\n");
    json_decref(record);
    return kvsi_json_check("a table of steps", err);
}

static void add_header(kvsi_text *row)
{
    for (size_t i = 0; i < COLUMNS; i++)
        kvsi_text_format(row, "%s%s", i > 0 ? "," : "", columns[i]);
    kvsi_text_add(row, "\n");
}

static kvs_status copy_rows(kvsi_new_file *to, FILE *from, const char *path, kvs_err *err)
{
    kvsi_text row = {0}, line = {0};
    int found;
    kvs_status st;

    add_header(&row);
    TRY_OUT(kvsi_read_line(&line, &found, from, path, KVSI_JSONL_LINE_MAX,
                           err)); /* the settings have no row */
    while (found) {
        TRY_OUT(kvsi_text_check(&row, err));
        TRY_OUT(kvsi_new_file_write(to, row.data, row.length, err));
        TRY_OUT(kvsi_read_line(&line, &found, from, path, KVSI_JSONL_LINE_MAX, err));
        if (found)
            TRY_OUT(add_row(&row, &line, err));
    }
out:
    kvsi_text_release(&line);
    kvsi_text_release(&row);
    return st;
}

kvs_status kvsi_csv_write(const char *dir, kvs_err *err)
{
    char *log = kvsi_path_join(dir, "train.jsonl"), *path = kvsi_path_join(dir, "train.csv");
    kvsi_new_file *to = NULL;
    FILE *from = log ? fopen(log, "r") : NULL;
    kvs_status st = KVS_OK;

    if (!log || !path) {
        st = kvsi_fail(err, KVS_E_NOMEM, "out of memory for '%s'", dir);
        goto out;
    }
    if (!from) {
        st = kvsi_fail_errno(err, "open", log);
        goto out;
    }
    TRY_OUT(kvsi_new_file_open(&to, path, err));
    TRY_OUT(copy_rows(to, from, log, err));
    st = kvsi_new_file_commit(to, err);
    to = NULL;
out:
    kvsi_new_file_abandon(to);
    if (from)
        fclose(from);
    kvsi_free(log);
    kvsi_free(path);
    return st;
}
