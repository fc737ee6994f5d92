#include "eval/data_files.h"

#include "base/array.h"
#include "base/files.h"
#include "base/folders.h"
#include "base/memory.h"
#include "eval/records.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

enum { DEPTH_MAX = 4, FILES_MAX = 100000 };

/* ---- splits ---------------------------------------------------------------------------------- */

static const struct {
    const char *word, *name;
    kvsi_split split;
} splits[] = {{"train", "train", KVSI_SPLIT_TRAIN},
              {"dev", "dev", KVSI_SPLIT_DEV},
              {"val", "validation", KVSI_SPLIT_VALIDATION},
              {"test", "test", KVSI_SPLIT_TEST}};

enum { SPLITS = sizeof splits / sizeof *splits };

const char *kvsi_split_name(int split)
{
    for (size_t i = 0; i < SPLITS; i++)
        if (split & (int)splits[i].split)
            return splits[i].name;
    return "?";
}

/* Finds the last word of the first `size` characters that names a split, and where it starts. */
static int last_split(const char *name, size_t size, size_t *at)
{
    for (size_t i = size; i-- > 0;) {
        if (!isalpha((unsigned char)name[i]) || (i > 0 && isalnum((unsigned char)name[i - 1])))
            continue;
        for (size_t k = 0; k < SPLITS; k++) {
            const size_t length = strlen(splits[k].word);

            if (size - i >= length && strncasecmp(name + i, splits[k].word, length) == 0) {
                *at = i;
                return (int)splits[k].split;
            }
        }
    }
    return 0;
}

/* The size of a name without ".csv" and the like. */
static size_t stem_size(const char *name)
{
    static const char *const endings[] = {".zst", ".jsonl", ".json", ".csv"};
    size_t size = strlen(name);

    for (size_t i = 0; i < sizeof endings / sizeof *endings; i++) {
        const size_t length = strlen(endings[i]);

        if (size > length && strncmp(name + size - length, endings[i], length) == 0)
            size -= length;
    }
    return size;
}

/* ---- names ----------------------------------------------------------------------------------- */

static int is_part(const char *text, size_t size, const char *part)
{
    return strlen(part) == size && strncasecmp(text, part, size) == 0;
}

int kvsi_data_name_has_part(const char *name, const char *part)
{
    const char *slash;
    size_t size, at;

    for (; (slash = strchr(name, '/')); name = slash + 1)
        if (is_part(name, (size_t)(slash - name), part))
            return 1;
    size = stem_size(name);
    if (is_part(name, size, part))
        return 1;
    if (!last_split(name, size, &at) || at == 0)
        return 0;
    return is_part(name, at - 1, part); /* without the separator */
}

/* How many characters come before "-00000-of-00002" at the end of a stem; 0 = there is no such. */
static size_t before_number(const char *name)
{
    static const char pattern[] = "-ddddd-of-ddddd";
    const size_t size = stem_size(name), length = sizeof pattern - 1;

    if (size <= length)
        return 0;
    for (size_t i = 0; i < length; i++) {
        const char c = name[size - length + i];

        if (pattern[i] == 'd' ? !isdigit((unsigned char)c) : c != pattern[i])
            return 0;
    }
    return size - length;
}

static int same_stem(const char *a, const char *b)
{
    return stem_size(a) == stem_size(b) && strncmp(a, b, stem_size(a)) == 0;
}

static int ending_rank(const char *name)
{
    const char *ending = name + stem_size(name);

    return strncmp(ending, ".jsonl", 6) == 0 ? 0 : strncmp(ending, ".json", 5) == 0 ? 1 : 2;
}

static const char *file_name(const char *name)
{
    const char *slash = strrchr(name, '/');

    return slash ? slash + 1 : name;
}

/* ---- listing --------------------------------------------------------------------------------- */

static kvs_status add_file(kvsi_data_folder *folder, char *path, kvs_err *err)
{
    const char *name = path + strlen(folder->path) + 1;
    size_t at;
    kvs_status st;

    if (folder->count == FILES_MAX) {
        kvsi_free(path);
        return kvsi_fail(err, KVS_E_LIMIT, "'%s' has more than %d files", folder->path, FILES_MAX);
    }
    st = kvsi_array_reserve(&folder->files, &folder->capacity, folder->count + 1,
                            sizeof *folder->files, err);
    if (st != KVS_OK) {
        kvsi_free(path);
        return st;
    }
    folder->files[folder->count++] = (kvsi_data_file){
        .path = path, .name = name, .split = last_split(name, stem_size(name), &at)};
    return KVS_OK;
}

static kvs_status list(kvsi_data_folder *folder, const char *path, int depth, kvs_err *err)
{
    kvsi_name_list names;
    kvs_status st = kvsi_dir_list(&names, path, "", err);

    for (size_t i = 0; st == KVS_OK && i < names.count; i++) {
        char *child = names.names[i][0] == '.' ? NULL : kvsi_path_join(path, names.names[i]);

        if (names.names[i][0] == '.')
            continue; /* hidden */
        if (!child) {
            st = kvsi_no_memory(err, "'%s'", path);
        } else if (kvsi_is_folder(child)) {
            if (depth < DEPTH_MAX)
                st = list(folder, child, depth + 1, err);
            kvsi_free(child);
        } else if (kvsi_is_records_file(child)) {
            st = add_file(folder, child, err);
        } else {
            kvsi_free(child);
        }
    }
    kvsi_name_list_release(&names);
    return st;
}

kvs_status kvsi_data_folder_open(kvsi_data_folder *out, const char *dir, const char *name,
                                 int *found, kvs_err *err)
{
    kvs_status st;

    *out = (kvsi_data_folder){.path = kvsi_path_join(dir, name)};
    *found = 0;
    if (!out->path)
        return kvsi_no_memory(err, "'%s'", dir);
    *found = kvsi_is_folder(out->path);
    st = *found ? list(out, out->path, 0, err) : KVS_OK;
    if (st != KVS_OK || !*found)
        kvsi_data_folder_release(out);
    return st;
}

void kvsi_data_folder_release(kvsi_data_folder *folder)
{
    for (size_t i = 0; i < folder->count; i++)
        kvsi_free(folder->files[i].path);
    kvsi_free(folder->files);
    kvsi_free(folder->path);
    *folder = (kvsi_data_folder){0};
}

/* ---- choosing -------------------------------------------------------------------------------- */

/* Keeps one file of those that differ by their endings only. */
static size_t drop_other_endings(const kvsi_data_folder *folder, size_t *out, size_t count)
{
    size_t kept = 0;

    for (size_t i = 0; i < count; i++) {
        const char *name = folder->files[out[i]].name;
        const char *before = kept > 0 ? folder->files[out[kept - 1]].name : NULL;

        if (!before || !same_stem(name, before))
            out[kept++] = out[i];
        else if (ending_rank(name) < ending_rank(before))
            out[kept - 1] = out[i];
    }
    return kept;
}

static int are_numbered_parts(const kvsi_data_folder *folder, const size_t *out, size_t count)
{
    const char *first = folder->files[out[0]].name;
    const size_t length = before_number(first);

    for (size_t i = 1; i < count; i++) {
        const char *name = folder->files[out[i]].name;

        if (length == 0 || before_number(name) != length || strncmp(name, first, length) != 0)
            return 0;
    }
    return 1;
}

static size_t take_preferred(const kvsi_data_folder *folder, const char *preferred, size_t *out,
                             size_t count)
{
    size_t kept = 0;

    for (size_t i = 0; preferred && i < count; i++)
        if (strncmp(file_name(folder->files[out[i]].name), preferred, strlen(preferred)) == 0)
            out[kept++] = out[i];
    return kept > 0 ? kept : count;
}

kvs_status kvsi_data_folder_find(const kvsi_data_folder *folder, int split,
                                 kvsi_data_filter *filter, const void *what, const char *preferred,
                                 size_t *out, size_t *count, kvs_err *err)
{
    size_t found = 0;

    *count = 0;
    for (size_t i = 0; i < folder->count; i++)
        if ((folder->files[i].split & split) && (!filter || filter(folder->files[i].name, what)))
            out[found++] = i;
    found = drop_other_endings(folder, out, found);
    if (found > 1 && !are_numbered_parts(folder, out, found))
        found = take_preferred(folder, preferred, out, found);
    if (found > 1 && !are_numbered_parts(folder, out, found))
        return kvsi_fail(err, KVS_E_FORMAT,
                         "'%s' has several files for the split %s, among them '%s' and '%s'; "
                         "expected one",
                         folder->path, kvsi_split_name(split), folder->files[out[0]].name,
                         folder->files[out[1]].name);
    *count = found;
    return KVS_OK;
}
