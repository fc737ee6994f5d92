#include "eval/journal.h"

#include "base/files.h"
#include "base/memory.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <unistd.h>

enum { LINE_LIMIT = 1 << 26 }; /* bytes */

struct kvsi_eval_journal {
    char *path;
    FILE *file;
};

/* ---- reading ---- */

static void print_value(char *out, size_t size, const json_t *value)
{
    char *text = value ? json_dumps(value, JSON_ENCODE_ANY | JSON_COMPACT) : NULL;

    snprintf(out, size, "%.80s", text ? text : "nothing");
    free(text);
}

/* Compares two fingerprints; the message names the first key that differs, and within an object
 * its key. */
static kvs_status compare(const json_t *now, const json_t *then, const char *path,
                          const char *prefix, kvs_err *err)
{
    const char *key;
    json_t *value;

    json_object_foreach((json_t *)now, key, value) {
        const json_t *other = json_object_get(then, key);
        char here[100], there[100], name[200];

        if (json_equal(value, other))
            continue;
        snprintf(name, sizeof name, "%s%s%.120s", prefix, *prefix ? "." : "", key);
        if (json_is_object(value) && json_is_object(other) && *prefix == '\0')
            TRY(compare(value, other, path, key, err));
        print_value(here, sizeof here, value);
        print_value(there, sizeof there, other);
        return kvsi_fail(err, KVS_E_INVALID,
                         "'%.200s' is of another evaluation: %s is %s there and %s here; use "
                         "another folder",
                         path, name, there, here);
    }
    json_object_foreach((json_t *)then, key, value) {
        if (!json_object_get(now, key))
            return kvsi_fail(err, KVS_E_INVALID,
                             "'%.200s' is of another evaluation: it has %s%s%.120s; use another "
                             "folder",
                             path, prefix, *prefix ? "." : "", key);
    }
    return KVS_OK;
}

static kvs_status read_header(const json_t *fingerprint, double *started, const json_t *header,
                              const char *path, kvs_err *err)
{
    const json_t *then = json_object_get(header, "fingerprint");

    if (!json_is_object(then))
        return kvsi_fail(err, KVS_E_FORMAT, "'%s': line 1: expected an object 'fingerprint'", path);
    TRY(kvsi_json_require(header, "started", path, err));
    TRY(kvsi_json_get_real(started, header, "started", path, err));
    return compare(fingerprint, then, path, "", err);
}

static kvs_status read_sums(kvsi_eval_answer *out, const json_t *sums, const json_t *greedy,
                            const char *what, kvs_err *err)
{
    const size_t count = json_array_size(sums);
    const kvsi_eval_document shape = {.count = count};

    if (count == 0 || json_array_size(greedy) != count)
        return kvsi_fail(err, KVS_E_FORMAT, "'%s': expected arrays 'll' and 'greedy' of one length",
                         what);
    TRY(kvsi_eval_answer_init(out, &shape, err));
    for (size_t i = 0; i < count; i++) {
        if (!json_is_number(json_array_get(sums, i)))
            return kvsi_fail(err, KVS_E_FORMAT, "'%s': key 'll': expected numbers", what);
        out->sums[i] = json_number_value(json_array_get(sums, i));
        out->greedy[i] = json_is_true(json_array_get(greedy, i));
    }
    return KVS_OK;
}

static kvs_status read_answer(const json_t *object, const char *what, kvsi_eval_take take,
                              void *user, kvs_err *err)
{
    kvsi_eval_answer answer = {.done = 1};
    const char *text = NULL;
    size_t part = 0, document = 0;
    kvs_status st;

    TRY_OUT(kvsi_json_require(object, "part", what, err));
    TRY_OUT(kvsi_json_require(object, "doc_id", what, err));
    TRY_OUT(kvsi_json_get_size(&part, object, "part", what, err));
    TRY_OUT(kvsi_json_get_size(&document, object, "doc_id", what, err));
    TRY_OUT(kvsi_json_get_text(&text, object, "text", what, err));
    if (text) {
        answer.text = kvsi_strdup(text);
        if (!answer.text) {
            st = kvsi_no_memory(err, "'%s'", what);
            goto out;
        }
    } else {
        TRY_OUT(read_sums(&answer, json_object_get(object, "ll"), json_object_get(object, "greedy"),
                          what, err));
    }
    st = take(user, part, document, &answer, err);
out:
    kvsi_eval_answer_release(&answer);
    return st;
}

/* Reads the lines; *end is the offset behind the last complete one. */
static kvs_status read_lines(const kvsi_eval_journal *j, const json_t *fingerprint, double *started,
                             long *end, kvsi_eval_take take, void *user, kvs_err *err)
{
    kvsi_text line = {0};
    int found = 1;
    kvs_status st = KVS_OK;

    *end = 0;
    for (size_t number = 1; st == KVS_OK; number++) {
        json_t *object = NULL;
        char what[400];

        TRY_OUT(kvsi_read_line(&line, &found, j->file, j->path, LINE_LIMIT, err));
        if (!found || line.data[line.length - 1] != '\n')
            break;
        snprintf(what, sizeof what, "%.300s, line %zu", j->path, number);
        st = kvsi_json_parse(&object, line.data, line.length, what, err);
        if (st == KVS_OK)
            st = number == 1 ? read_header(fingerprint, started, object, j->path, err)
                             : read_answer(object, what, take, user, err);
        json_decref(object);
        *end = ftell(j->file);
    }
out:
    kvsi_text_release(&line);
    return st;
}

/* ---- writing ---- */

static kvs_status failed(const kvsi_eval_journal *j, kvs_err *err)
{
    return kvsi_fail_errno(err, "write", j->path);
}

static kvs_status add_line(kvsi_eval_journal *j, const json_t *object, kvs_err *err)
{
    char *line = NULL;
    kvs_status st;

    TRY_OUT(kvsi_json_dump(&line, object, JSON_COMPACT | JSON_REAL_PRECISION(17), j->path, err));
    if (fputs(line, j->file) == EOF || fputc('\n', j->file) == EOF)
        st = failed(j, err);
out:
    free(line);
    return st;
}

static kvs_status write_header(kvsi_eval_journal *j, const json_t *fingerprint, double started,
                               kvs_err *err)
{
    json_t *header =
        json_pack("{s:f, s:O}", "started", started, "fingerprint", (json_t *)fingerprint);
    const kvs_status st = add_line(j, header, err);

    json_decref(header);
    return st == KVS_OK ? kvsi_eval_journal_flush(j, err) : st;
}

kvs_status kvsi_eval_journal_add(kvsi_eval_journal *journal, size_t part, size_t document,
                                 const kvsi_eval_answer *answer, size_t requests, kvs_err *err)
{
    json_t *line =
        json_pack("{s:I, s:I}", "part", (json_int_t)part, "doc_id", (json_int_t)document);
    kvs_status st;

    if (line && answer->text) {
        json_object_set_new(line, "text", kvsi_json_text(answer->text, strlen(answer->text)));
    } else if (line) {
        json_t *greedy = json_array();

        for (size_t i = 0; i < requests; i++)
            json_array_append_new(greedy, json_boolean(answer->greedy[i]));
        json_object_set_new(line, "ll", kvsi_json_numbers(answer->sums, requests));
        json_object_set_new(line, "greedy", greedy);
    }
    st = add_line(journal, line, err);
    json_decref(line);
    return st;
}

kvs_status kvsi_eval_journal_flush(kvsi_eval_journal *journal, kvs_err *err)
{
    return fflush(journal->file) == 0 ? KVS_OK : failed(journal, err);
}

/* ---- the handle ---- */

kvs_status kvsi_eval_journal_open(kvsi_eval_journal **out, const char *dir,
                                  const json_t *fingerprint, double *started, int resume,
                                  kvsi_eval_take take, void *user, kvs_err *err)
{
    kvsi_eval_journal *j = kvsi_alloc(1, sizeof *j);
    long end = 0;
    kvs_status st = KVS_OK;

    *out = NULL;
    if (!j)
        return kvsi_no_memory(err, "a journal");
    j->path = kvsi_path_join(dir, "journal.jsonl");
    if (!j->path) {
        st = kvsi_no_memory(err, "a journal");
        goto out;
    }
    if (!resume && kvsi_file_exists(j->path)) {
        st = kvsi_fail(err, KVS_E_EXISTS,
                       "'%s' is of an evaluation that was not completed; continue it with "
                       "'--resume', or remove it",
                       j->path);
        goto out;
    }
    j->file = fopen(j->path, "a+");
    if (!j->file) {
        st = kvsi_fail_errno(err, "open", j->path);
        goto out;
    }
    if (flock(fileno(j->file), LOCK_EX | LOCK_NB) != 0) {
        st = errno == EWOULDBLOCK
                 ? kvsi_fail(err, KVS_E_EXISTS, "'%s' is in use by another process", j->path)
                 : kvsi_fail_errno(err, "lock", j->path);
        goto out;
    }
    rewind(j->file);
    TRY_OUT(read_lines(j, fingerprint, started, &end, take, user, err));
    if (ftruncate(fileno(j->file), end) != 0 || fseek(j->file, 0, SEEK_END) != 0) {
        st = failed(j, err);
        goto out;
    }
    if (end == 0)
        TRY_OUT(write_header(j, fingerprint, *started, err));
    *out = j;
    j = NULL;
out:
    kvsi_eval_journal_close(j, 0);
    return st;
}

void kvsi_eval_journal_close(kvsi_eval_journal *journal, int remove)
{
    if (!journal)
        return;
    if (remove)
        unlink(journal->path);
    if (journal->file)
        fclose(journal->file);
    kvsi_free(journal->path);
    kvsi_free(journal);
}
