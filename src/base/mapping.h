/* base/mapping.h - a regular file mapped read-only. */
#ifndef KVSI_BASE_MAPPING_H
#define KVSI_BASE_MAPPING_H

#include "base/status.h"

#include <stddef.h>

typedef struct kvsi_mapping {
    const unsigned char *data; /* NULL if nothing is mapped or the file is empty */
    size_t size;
} kvsi_mapping;

kvs_status kvsi_mapping_open(kvsi_mapping *out, const char *path, kvs_err *err);
void kvsi_mapping_close(kvsi_mapping *mapping); /* {0} does nothing */

/* The path of the open mapping that contains this address; NULL if it is none, or one of so many
 * that its path was not kept.  Safe in a signal handler. */
const char *kvsi_mapping_path(const void *address);

#endif
