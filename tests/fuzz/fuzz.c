/* Connects libFuzzer and a target: folder, inputs, seeds. */
#include "fuzz.h"

#include "base/files.h"
#include "base/memory.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

int LLVMFuzzerInitialize(int *argc, char ***argv);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static char *folder, *seed_folder;
static int home = -1, inside = -1; /* the start folder, and the target's folder */

void fuzz_expect(int holds, const char *what)
{
    if (holds)
        return;
    fprintf(stderr, "does not hold: %s\n", what);
    abort();
}

/* ---- folders --------------------------------------------------------------------------------- */

static void remove_folder(void)
{
    support_remove_dir(folder);
}

static void make_folder(void)
{
    folder = support_make_dir();
    home = open(".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    inside = open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    fuzz_expect(home >= 0 && inside >= 0, "the folders can be opened");
    atexit(remove_folder);
}

static void go_to(int directory)
{
    fuzz_expect(fchdir(directory) == 0, "the folder is there");
}

/* ---- files ----------------------------------------------------------------------------------- */

void fuzz_write(const char *name, const void *data, size_t size)
{
    const int file = open(name, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);

    fuzz_expect(file >= 0 && write(file, data, size) == (ssize_t)size, "files can be written");
    close(file);
}

static const char mark[] = "==== ";

enum { MARK = sizeof mark - 1 };

/* The next mark at the start of a line, or the end. */
static const char *find_mark(const char *at, const char *start, const char *end)
{
    for (; at + MARK <= end; at++)
        if (memcmp(at, mark, MARK) == 0 && (at == start || at[-1] == '\n'))
            return at;
    return end;
}

static const char *listed(const char *const *names, const char *name, size_t size)
{
    for (; *names; names++)
        if (strlen(*names) == size && memcmp(*names, name, size) == 0)
            return *names;
    return NULL;
}

void fuzz_unpack(const char *const *names, const char *data, size_t size)
{
    const char *end = data + size, *at = find_mark(data, data, end);

    for (size_t i = 0; names[i]; i++)
        unlink(names[i]);
    while (at < end) {
        const char *name = at + MARK, *next = find_mark(name, data, end);
        const char *content = memchr(name, '\n', (size_t)(end - name));
        const char *known = content ? listed(names, name, (size_t)(content - name)) : NULL;

        if (known && content + 1 <= next)
            fuzz_write(known, content + 1, (size_t)(next - content) - 1 - (next < end));
        at = next;
    }
}

void fuzz_pack(kvsi_text *input, const char *name, const void *data, size_t size)
{
    kvsi_text_format(input, "%s%s%s\n", input->length > 0 ? "\n" : "", mark, name);
    put_bytes(input, data, size);
}

void fuzz_put_file(kvsi_text *input, const char *path)
{
    char *data = NULL;
    size_t size = 0;
    kvs_err err;

    fuzz_expect(kvsi_file_read(&data, &size, path, 1 << 20, &err) == KVS_OK, err.message);
    put_bytes(input, data, size);
    kvsi_free(data);
}

void fuzz_pack_file(kvsi_text *input, const char *name, const char *path)
{
    fuzz_pack(input, name, "", 0);
    fuzz_put_file(input, path);
}

int fuzz_overwrite(kvsi_text *input, const char *key, const char *text)
{
    const size_t key_size = strlen(key), size = strlen(text);

    for (size_t at = 0; at + key_size + size <= input->length; at++)
        if (memcmp(input->data + at, key, key_size) == 0) {
            memcpy(input->data + at + key_size, text, size);
            return 1;
        }
    return 0;
}

/* ---- seeds ----------------------------------------------------------------------------------- */

void fuzz_seed(const char *name, kvsi_text *input)
{
    kvs_err err;

    if (fuzz_run(input->data, input->length, &err) != KVS_OK) {
        fprintf(stderr, "the seed '%s' is refused: %s\n", name, err.message);
        exit(1);
    }
    kvsi_free(write_file(seed_folder, name, input->data, input->length));
    kvsi_text_release(input);
}

void fuzz_seed_text(const char *name, const char *text)
{
    kvsi_text input = {0};

    kvsi_text_add(&input, text);
    fuzz_seed(name, &input);
}

/* ---- libFuzzer ------------------------------------------------------------------------------- */

int LLVMFuzzerInitialize(int *argc, char ***argv)
{
    make_folder();
    if (*argc == 3 && strcmp((*argv)[1], "--seeds") == 0) {
        seed_folder = realpath((*argv)[2], NULL);
        fuzz_expect(seed_folder != NULL, "the folder for seeds is there");
        go_to(inside);
        fuzz_seeds();
        free(seed_folder);
        exit(0);
    }
    return 0;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    kvs_err err;

    go_to(inside); /* libFuzzer's own paths are relative to `home` */
    fuzz_run((const char *)data, size, &err);
    go_to(home);
    return 0;
}
