#include "cli/default_out.h"

#include "base/files.h"
#include "base/text.h"

#include <stdio.h>
#include <string.h>

/* Removes one of the endings that readers of texts and ids know; returns whether there was one. */
static int cut_ending(char *name)
{
    static const char *const endings[] = {".gz",   ".zst",   ".txt", ".md", ".jsonl",
                                          ".json", ".shard", ".bin", ".csv"};
    const size_t length = strlen(name);

    for (size_t i = 0; i < sizeof endings / sizeof *endings; i++)
        if (length > strlen(endings[i]) && kvsi_ends_with(name, endings[i])) {
            name[length - strlen(endings[i])] = '\0';
            return 1;
        }
    return 0;
}

void kvsi_stem(char out[KVSI_STEM], const char *path)
{
    size_t end = strlen(path), start;

    while (end > 1 && path[end - 1] == '/')
        end--;
    start = end;
    while (start > 0 && path[start - 1] != '/')
        start--;
    snprintf(out, KVSI_STEM, "%.*s", (int)(end - start), path + start);
    while (cut_ending(out))
        ;
    if (strcmp(path, "-") == 0 || strncmp(path, "/dev/fd/", 8) == 0 ||
        strspn(out, "./") == strlen(out))
        snprintf(out, KVSI_STEM, "text");
}

void kvsi_default_run(char out[KVSI_DEFAULT_OUT], const char *path)
{
    unsigned number = 0;
    char stem[KVSI_STEM];

    kvsi_stem(stem, path);
    do
        snprintf(out, KVSI_DEFAULT_OUT, "runs/%s-%u", stem, ++number);
    while (kvsi_file_exists(out) || kvsi_is_folder(out));
}
