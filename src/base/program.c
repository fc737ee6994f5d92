/* The program's three streams are unnamed temporary files: nothing blocks, a closed pipe cannot
 * raise a signal, and no files remain. */
#include "base/program.h"

#include "base/memory.h"

#include <errno.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

extern char **environ;

int kvsi_program_found(const char *name)
{
    const char *folder = getenv("PATH");
    char path[4096];

    while (folder && *folder) {
        const size_t length = strcspn(folder, ":");

        if (snprintf(path, sizeof path, "%.*s/%s", (int)length, folder, name) < (int)sizeof path &&
            access(path, X_OK) == 0)
            return 1;
        folder += length + (folder[length] == ':');
    }
    return 0;
}

enum { STREAMS = 3 };

static kvs_status open_streams(FILE *streams[STREAMS], const char *input, kvs_err *err)
{
    for (int i = 0; i < STREAMS; i++) {
        streams[i] = tmpfile();
        if (!streams[i])
            return kvsi_fail(err, KVS_E_IO, "cannot create a temporary file");
    }
    if (fputs(input, streams[0]) == EOF || fflush(streams[0]) != 0)
        return kvsi_fail(err, KVS_E_IO, "cannot write a temporary file");
    rewind(streams[0]);
    return KVS_OK;
}

/* Runs the program on the streams and waits; returns its exit code, or -1. */
static int run(FILE *streams[STREAMS], const char *const *argv)
{
    posix_spawn_file_actions_t actions;
    int failed = posix_spawn_file_actions_init(&actions);
    int code = -1;
    pid_t pid;

    if (failed)
        return -1;
    for (int i = 0; i < STREAMS && !failed; i++)
        failed = posix_spawn_file_actions_adddup2(&actions, fileno(streams[i]), i);
    if (!failed && posix_spawnp(&pid, argv[0], &actions, NULL, (char *const *)argv, environ) == 0) {
        int status;
        pid_t done;

        do
            done = waitpid(pid, &status, 0);
        while (done < 0 && errno == EINTR);
        if (done == pid && WIFEXITED(status))
            code = WEXITSTATUS(status);
    }
    posix_spawn_file_actions_destroy(&actions);
    return code;
}

static kvs_status take_output(char **output, FILE *stream, const char *name, size_t limit,
                              kvs_err *err)
{
    long size;
    char *data;

    if (fseek(stream, 0, SEEK_END) != 0 || (size = ftell(stream)) < 0)
        return kvsi_fail(err, KVS_E_IO, "cannot read the output of '%s'", name);
    if ((size_t)size > limit)
        return kvsi_fail(err, KVS_E_LIMIT, "'%s' wrote %ld bytes, expected at most %zu", name, size,
                         limit);
    rewind(stream);
    data = kvsi_alloc((size_t)size + 1, 1);
    if (!data)
        return kvsi_no_memory(err, "the output of '%s'", name);
    if (fread(data, 1, (size_t)size, stream) != (size_t)size) {
        kvsi_free(data);
        return kvsi_fail(err, KVS_E_IO, "cannot read the output of '%s'", name);
    }
    *output = data;
    return KVS_OK;
}

/* The first line that is not blank. */
static kvs_status fail_run(FILE *complaints, const char *name, kvs_err *err)
{
    char line[256] = "";

    rewind(complaints);
    while (fgets(line, sizeof line, complaints) && line[strspn(line, " \t\r\n")] == '\0')
        continue;
    line[strcspn(line, "\r\n")] = '\0';
    return kvsi_fail(err, KVS_E_UNSUPPORTED, "'%s' failed: %s", name,
                     *line ? line : "it could not be run");
}

kvs_status kvsi_program_filter(char **output, const char *const *argv, const char *input,
                               size_t limit, kvs_err *err)
{
    FILE *streams[STREAMS] = {NULL, NULL, NULL};
    kvs_status st;

    *output = NULL;
    TRY_OUT(open_streams(streams, input, err));
    if (run(streams, argv) != 0) {
        st = fail_run(streams[2], argv[0], err);
        goto out;
    }
    TRY_OUT(take_output(output, streams[1], argv[0], limit, err));
out:
    for (int i = 0; i < STREAMS; i++) {
        if (streams[i])
            fclose(streams[i]);
    }
    return st;
}
