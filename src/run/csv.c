#include "run/csv.h"

#include "base/files.h"
#include "base/memory.h"
#include "base/text.h"
#include "run/jsonl.h"
#include "run/record.h"
#include "run/run.h"

#include <stdio.h>

/* One row per line of the log, with the numbers as they are there; a field that the record lacks is
 * an empty cell. */
static kvs_status add_row(kvsi_text *row, const kvsi_text *line, kvs_err *err)
{
    json_t *record = kvsi_json_load(line->data, line->length, 0, NULL);

    for (size_t i = 0; i < KVSI_RECORD_FIELDS; i++) {
        const json_t *value = json_object_get(record, kvsi_record_fields[i].key);

        if (i > 0)
            kvsi_text_add(row, ",");
        if (json_is_integer(value))
            kvsi_text_format(row, "%lld", (long long)json_integer_value(value));
        else if (json_is_real(value))
            kvsi_text_format(row, "%.9g", json_real_value(value));
    }
    kvsi_text_add(row, "\n");
    json_decref(record);
    return kvsi_json_check("a table of steps", err);
}

static kvs_status write_row(kvsi_new_file *to, kvsi_text *row, kvs_err *err)
{
    TRY(kvsi_text_check(row, err));
    TRY(kvsi_new_file_write(to, row->data, row->length, err));
    row->length = 0;
    return KVS_OK;
}

static kvs_status copy_rows(kvsi_new_file *to, FILE *from, const char *path, kvs_err *err)
{
    kvsi_text row = {0}, line = {0};
    int found;
    kvs_status st;

    for (size_t i = 0; i < KVSI_RECORD_FIELDS; i++)
        kvsi_text_format(&row, "%s%s", i > 0 ? "," : "", kvsi_record_fields[i].key);
    kvsi_text_add(&row, "\n");
    TRY_OUT(kvsi_read_line(&line, &found, from, path, KVSI_JSONL_LINE_MAX, err)); /* settings */
    while (found) {
        TRY_OUT(write_row(to, &row, err));
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
    char *log = NULL, *path = NULL;
    kvsi_new_file *to = NULL;
    FILE *from = NULL;
    kvs_status st;

    TRY_OUT(kvsi_run_path(&log, dir, KVSI_RUN_LOG, err));
    TRY_OUT(kvsi_run_path(&path, dir, KVSI_RUN_CSV, err));
    from = fopen(log, "r");
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
