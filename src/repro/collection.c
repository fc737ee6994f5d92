#include "repro/collection.h"

#include "base/files.h"
#include "base/folders.h"
#include "base/memory.h"

#include <string.h>

void kvsi_collection_release(kvsi_collection *c)
{
    for (size_t i = 0; i < c->count; i++)
        kvsi_saved_close(c->list + i);
    kvsi_free(c->list);
    *c = (kvsi_collection){0};
}

/* The experiment in `dir`, or those in its subfolders. */
static kvs_status collect(kvsi_collection *c, const char *dir, kvs_err *err)
{
    kvsi_name_list names = {0};
    char *path = NULL;
    kvs_status st;

    TRY_OUT(kvsi_dir_list(&names, dir, "", err));
    c->list = kvsi_alloc(names.count + 1, sizeof *c->list);
    if (!c->list) {
        st = kvsi_fail(err, KVS_E_NOMEM, "out of memory for '%s'", dir);
        goto out;
    }
    if (kvsi_saved_exists(dir)) {
        TRY_OUT(kvsi_saved_open(c->list, dir, err));
        c->count = 1;
        goto out;
    }
    for (size_t i = 0; i < names.count; i++) {
        path = kvsi_path_join(dir, names.names[i]);
        if (path && kvsi_saved_exists(path)) {
            TRY_OUT(kvsi_saved_open(c->list + c->count, path, err));
            c->count++;
        }
        kvsi_free(path);
        path = NULL;
    }
    if (c->count == 0)
        st = kvsi_fail(err, KVS_E_IO, "'%s' has no finished experiment, in it or in its folders",
                       dir);
out:
    kvsi_free(path);
    kvsi_name_list_release(&names);
    return st;
}

const char *kvsi_saved_name(const kvsi_saved *saved)
{
    return json_string_value(json_object_get(saved->experiment, "experiment"));
}

/* Position in the table of experiments. */
static size_t position(const kvsi_saved *saved)
{
    size_t i = 0;

    while (kvs_experiment_at(i) && strcmp(kvs_experiment_at(i)->name, kvsi_saved_name(saved)) != 0)
        i++;
    return i;
}

static void sort(kvsi_collection *c)
{
    for (size_t i = 1; i < c->count; i++)
        for (size_t j = i; j > 0 && position(c->list + j) < position(c->list + j - 1); j--) {
            const kvsi_saved swapped = c->list[j];

            c->list[j] = c->list[j - 1];
            c->list[j - 1] = swapped;
        }
}

kvs_status kvsi_collect(kvsi_collection *out, const char *dir, kvs_err *err)
{
    *out = (kvsi_collection){0};
    TRY(collect(out, dir, err));
    sort(out);
    return KVS_OK;
}
