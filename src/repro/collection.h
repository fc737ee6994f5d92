/* repro/collection.h - the finished experiments in a folder. */
#ifndef KVSI_REPRO_COLLECTION_H
#define KVSI_REPRO_COLLECTION_H

#include "repro/experiment_folder.h"

typedef struct kvsi_collection {
    kvsi_saved *list; /* in the order of the table of experiments */
    size_t count;
} kvsi_collection;

/* The experiment in `dir`, or those in its subfolders; at least one.  Release it also after a
 * failure. */
kvs_status kvsi_collect(kvsi_collection *out, const char *dir, kvs_err *err);
void kvsi_collection_release(kvsi_collection *collection);

const char *kvsi_saved_name(const kvsi_saved *saved);

#endif
