/* /lens/runs and /lens/log: the logs of trainings, finished or running.
 *
 * No part of a request becomes part of a path: the name of a run must be one of those that the
 * server found itself, and files are numbers of a table. */
#include "base/files.h"
#include "base/folders.h"
#include "base/memory.h"
#include "serve/json_out.h"
#include "serve/lens_routes.h"

#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

enum { PART_MAX = 1 << 20 }; /* bytes of a file in one answer */

static const struct {
    const char *name, *file;
} files[] = {{"log", "train.jsonl"}, {"samples", "samples.jsonl"}};

static int is_run(const char *dir, const char *name)
{
    char *folder = kvsi_path_join(dir, name),
         *log = folder ? kvsi_path_join(folder, files[0].file) : NULL;
    const int found = log && kvsi_file_exists(log);

    kvsi_free(log);
    kvsi_free(folder);
    return found;
}

/* The folders with a log.  "." is the folder itself, if it is a run. */
static kvs_status find_runs(kvsi_name_list *out, const char *dir, kvs_err *err)
{
    size_t kept = 0;

    TRY(kvsi_dir_list(out, dir, "", err));
    for (size_t i = 0; i < out->count; i++) {
        if (is_run(dir, out->names[i]))
            out->names[kept++] = out->names[i];
        else
            kvsi_free(out->names[i]);
    }
    out->count = kept;
    return KVS_OK;
}

static kvs_status check_runs(const kvsi_lens_call *call, kvs_err *err)
{
    if (!call->options->runs)
        return kvsi_fail(err, KVS_E_UNSUPPORTED, "the server was started without '--runs'");
    return KVS_OK;
}

kvs_status kvsi_lens_reply_runs(kvsi_lens_answer *out, const kvsi_lens_call *call, kvs_err *err)
{
    kvsi_name_list runs = {0};
    json_t *list;

    TRY(check_runs(call, err));
    TRY(find_runs(&runs, call->options->runs, err));
    list = json_array();
    if (is_run(call->options->runs, "."))
        json_array_append_new(list, json_string("."));
    for (size_t i = 0; i < runs.count; i++)
        json_array_append_new(list, kvsi_json_path(runs.names[i]));
    kvsi_name_list_release(&runs);
    return kvsi_lens_answer_json(out, json_pack("{s:o}", "runs", list), err);
}

/* Reads complete lines from an offset on: {"size": of the file, "next": offset, "text"}.  A missing
 * file is empty. */
static kvs_status read_part(kvsi_lens_answer *out, const char *path, size_t offset, kvs_err *err)
{
    FILE *file = fopen(path, "rb");
    char *part = NULL;
    size_t got = 0, whole = 0;
    struct stat about = {0};
    kvs_status st = KVS_OK;

    if (file && fstat(fileno(file), &about) == 0 && S_ISREG(about.st_mode) &&
        (off_t)offset < about.st_size) {
        part = kvsi_alloc(PART_MAX, 1);
        if (!part) {
            st = kvsi_no_memory(err, "a part of a log");
            goto out;
        }
        if (fseeko(file, (off_t)offset, SEEK_SET) == 0)
            got = fread(part, 1, PART_MAX, file);
        for (size_t i = 0; i < got; i++)
            if (part[i] == '\n')
                whole = i + 1;
        if (whole == 0 && got == PART_MAX)
            whole = got; /* no log has such a line; the page skips it */
    }
    out->type = "application/json";
    kvsi_text_format(&out->body, "{\"size\":%lld,\"next\":%zu,\"text\":", (long long)about.st_size,
                     offset + whole);
    kvsi_json_add_string(&out->body, part ? part : "", whole);
    kvsi_text_add(&out->body, "}");
out:
    kvsi_free(part);
    if (file)
        fclose(file);
    return st;
}

static kvs_status find_file(const char **out, const kvsi_lens_call *call, kvs_err *err)
{
    const char *name = files[0].name;

    TRY(kvsi_json_get_text(&name, call->body, "file", "the request", err));
    for (size_t i = 0; i < sizeof files / sizeof *files; i++) {
        if (strcmp(files[i].name, name) == 0) {
            *out = files[i].file;
            return KVS_OK;
        }
    }
    return kvsi_fail(err, KVS_E_INVALID, "field 'file' is '%.32s', expected log or samples", name);
}

/* The folder of the run that the request names; kvsi_free() frees it. */
static kvs_status find_run(char **out, const kvsi_lens_call *call, kvs_err *err)
{
    kvsi_name_list runs = {0};
    const char *name = "";

    *out = NULL;
    TRY(kvsi_json_get_text(&name, call->body, "run", "the request", err));
    if (strcmp(name, ".") == 0 && is_run(call->options->runs, ".")) {
        *out = kvsi_strdup(call->options->runs);
    } else {
        TRY(find_runs(&runs, call->options->runs, err));
        for (size_t i = 0; i < runs.count && !*out; i++)
            if (strcmp(runs.names[i], name) == 0)
                *out = kvsi_path_join(call->options->runs, runs.names[i]);
        kvsi_name_list_release(&runs);
    }
    return *out ? KVS_OK : kvsi_fail(err, KVS_E_INVALID, "run '%.64s' does not exist", name);
}

kvs_status kvsi_lens_reply_log(kvsi_lens_answer *out, const kvsi_lens_call *call, kvs_err *err)
{
    const char *file = NULL;
    char *dir = NULL, *path;
    size_t offset = 0;
    kvs_status st;

    TRY(check_runs(call, err));
    TRY(find_file(&file, call, err));
    TRY(kvsi_lens_get_count(&offset, call, "offset", (size_t)1 << 40, err));
    TRY(find_run(&dir, call, err));
    path = kvsi_path_join(dir, file);
    st = path ? read_part(out, path, offset, err) : kvsi_no_memory(err, "the path of a log");
    kvsi_free(path);
    kvsi_free(dir);
    return st;
}
