#include "run/jsonl.h"

#include "base/files.h"
#include "base/memory.h"

#include <errno.h>
#include <stdlib.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

struct kvsi_jsonl {
    char *path;
    FILE *file;
    int empty;     /* reopening kept no line */
    uint64_t last; /* step of the last record that reopening kept */
};

static kvs_status open_locked(kvsi_jsonl **out, const char *path, const char *mode, kvs_err *err)
{
    kvsi_jsonl *lines = kvsi_alloc(1, sizeof *lines);
    struct stat about;
    kvs_status st = KVS_OK;

    *out = NULL;
    if (!lines || !(lines->path = kvsi_strdup(path)))
        st = kvsi_fail(err, KVS_E_NOMEM, "out of memory for '%s'", path);
    else if (!(lines->file = fopen(path, mode)))
        st = kvsi_fail_errno(err, mode[0] == 'w' ? "write" : "open", path);
    else if (fstat(fileno(lines->file), &about) != 0 || !S_ISREG(about.st_mode))
        st = kvsi_fail(err, KVS_E_IO, "cannot open '%s': not a regular file", path);
    else if (flock(fileno(lines->file), LOCK_EX | LOCK_NB) != 0)
        st = errno == EWOULDBLOCK
                 ? kvsi_fail(err, KVS_E_IO, "'%s' is in use by another process", path)
                 : kvsi_fail_errno(err, "lock", path);
    if (st == KVS_OK)
        *out = lines;
    else
        kvsi_jsonl_close(lines);
    return st;
}

kvs_status kvsi_jsonl_create(kvsi_jsonl **out, const char *path, kvs_err *err)
{
    return open_locked(out, path, "wx", err);
}

static int is_complete(const kvsi_text *line)
{
    return line->length > 0 && line->data[line->length - 1] == '\n';
}

/* Whether this is a complete record of a step up to `last`; *found is its step. */
static int is_kept(uint64_t *found, const kvsi_text *line, uint64_t last)
{
    json_t *record = is_complete(line) ? kvsi_json_load(line->data, line->length, 0, NULL) : NULL;
    const json_t *step = json_object_get(record, "step");
    const int kept = json_is_integer(step) && (uint64_t)json_integer_value(step) <= last;

    if (kept)
        *found = (uint64_t)json_integer_value(step);
    json_decref(record);
    return kept;
}

/* Truncates the file after the last line that is kept. */
static kvs_status truncate_after(kvsi_jsonl *lines, size_t headers, uint64_t step, kvs_err *err)
{
    kvsi_text line = {0};
    size_t kept = 0;
    off_t end = 0;
    kvs_status st;

    for (;;) {
        int found, keeps;

        TRY_OUT(kvsi_read_line(&line, &found, lines->file, lines->path, KVSI_JSONL_LINE_MAX, err));
        keeps = found && (kept < headers ? is_complete(&line) : is_kept(&lines->last, &line, step));
        TRY_OUT(kvsi_json_check("a log", err)); /* else complete lines would be cut off */
        if (!keeps)
            break;
        end = ftello(lines->file);
        kept++;
    }
    if (kept < headers && step > 0) {
        st = kvsi_fail(err, KVS_E_FORMAT, "'%s' does not start with a run's settings", lines->path);
        goto out;
    }
    if (kept < headers)
        end = 0;
    lines->empty = end == 0;
    if (ftruncate(fileno(lines->file), end) != 0 || fseeko(lines->file, end, SEEK_SET) != 0)
        st = kvsi_fail_errno(err, "cut", lines->path);
out:
    kvsi_text_release(&line);
    return st;
}

kvs_status kvsi_jsonl_reopen(kvsi_jsonl **out, const char *path, size_t headers, uint64_t step,
                             kvs_err *err)
{
    kvsi_jsonl *lines;
    kvs_status st = open_locked(&lines, path, "r+", err);

    *out = NULL;
    if (st != KVS_OK)
        return st;
    st = truncate_after(lines, headers, step, err);
    if (st == KVS_OK)
        *out = lines;
    else
        kvsi_jsonl_close(lines);
    return st;
}

int kvsi_jsonl_is_empty(const kvsi_jsonl *lines)
{
    return lines->empty;
}

uint64_t kvsi_jsonl_last_step(const kvsi_jsonl *lines)
{
    return lines->last;
}

kvs_status kvsi_jsonl_add(kvsi_jsonl *lines, const json_t *record, kvs_err *err)
{
    char *text;

    TRY(kvsi_json_dump(&text, record, JSON_COMPACT | JSON_REAL_PRECISION(9), "a line of a log",
                       err));
    if (fprintf(lines->file, "%s\n", text) < 0 || fflush(lines->file) != 0) {
        free(text);
        return kvsi_fail_errno(err, "write", lines->path);
    }
    free(text);
    return KVS_OK;
}

void kvsi_jsonl_close(kvsi_jsonl *lines)
{
    if (!lines)
        return;
    if (lines->file)
        fclose(lines->file);
    kvsi_free(lines->path);
    kvsi_free(lines);
}
