#include "train/lines.h"

#include "base/files.h"
#include "base/memory.h"

#include <stdlib.h>
#include <sys/file.h>
#include <unistd.h>

struct kvsi_lines {
    char *path;
    FILE *file;
    int empty; /* nothing was kept of what was there */
};

static kvs_status open_locked(kvsi_lines **out, const char *path, const char *mode, kvs_err *err)
{
    kvsi_lines *lines = kvsi_alloc(1, sizeof *lines);
    kvs_status st = KVS_OK;

    *out = NULL;
    if (!lines || !(lines->path = kvsi_strdup(path)))
        st = kvsi_fail(err, KVS_E_NOMEM, "out of memory for '%s'", path);
    else if (!(lines->file = fopen(path, mode)))
        st = kvsi_fail_errno(err, mode[0] == 'w' ? "write" : "open", path);
    else if (flock(fileno(lines->file), LOCK_EX | LOCK_NB) != 0)
        st = kvsi_fail(err, KVS_E_IO, "'%s' is in use by another process", path);
    if (st == KVS_OK)
        *out = lines;
    else
        kvsi_lines_close(lines);
    return st;
}

kvs_status kvsi_lines_create(kvsi_lines **out, const char *path, kvs_err *err)
{
    return open_locked(out, path, "wx", err);
}

/* Is this a whole record of a step up to `last`? */
static int is_kept(const char *line, size_t size, uint64_t last)
{
    json_t *record = size > 0 && line[size - 1] == '\n' ? json_loadb(line, size, 0, NULL) : NULL;
    const json_t *step = json_object_get(record, "step");
    const int kept = json_is_integer(step) && (uint64_t)json_integer_value(step) <= last;

    json_decref(record);
    return kept;
}

/* Cuts the file behind the last line that is kept.  Before the first step heads may be missing: the
 * process was killed while it wrote them. */
static kvs_status cut(kvsi_lines *lines, size_t heads, uint64_t step, kvs_err *err)
{
    char *line = NULL;
    size_t room = 0, found = 0;
    ssize_t size;
    off_t end = 0;

    while ((size = getline(&line, &room, lines->file)) > 0) {
        if (found < heads ? line[size - 1] != '\n' : !is_kept(line, (size_t)size, step))
            break;
        end = ftello(lines->file);
        found++;
    }
    free(line);
    if (found < heads && step > 0)
        return kvsi_fail(err, KVS_E_FORMAT, "'%s' does not start with a run's settings",
                         lines->path);
    if (found < heads)
        end = 0;
    lines->empty = end == 0;
    if (ftruncate(fileno(lines->file), end) != 0 || fseeko(lines->file, end, SEEK_SET) != 0)
        return kvsi_fail_errno(err, "cut", lines->path);
    return KVS_OK;
}

kvs_status kvsi_lines_reopen(kvsi_lines **out, const char *path, size_t heads, uint64_t step,
                             kvs_err *err)
{
    kvsi_lines *lines;
    kvs_status st = open_locked(&lines, path, "r+", err);

    *out = NULL;
    if (st != KVS_OK)
        return st;
    st = cut(lines, heads, step, err);
    if (st == KVS_OK)
        *out = lines;
    else
        kvsi_lines_close(lines);
    return st;
}

int kvsi_lines_is_empty(const kvsi_lines *lines)
{
    return lines->empty;
}

kvs_status kvsi_lines_add(kvsi_lines *lines, const json_t *record, kvs_err *err)
{
    if (!record)
        return kvsi_fail(err, KVS_E_NOMEM, "out of memory for '%s'", lines->path);
    if (json_dumpf(record, lines->file, JSON_COMPACT | JSON_REAL_PRECISION(9)) != 0 ||
        fputc('\n', lines->file) == EOF || fflush(lines->file) != 0)
        return kvsi_fail_errno(err, "write", lines->path);
    return KVS_OK;
}

void kvsi_lines_close(kvsi_lines *lines)
{
    if (!lines)
        return;
    if (lines->file)
        fclose(lines->file);
    kvsi_free(lines->path);
    kvsi_free(lines);
}
