/* base/names.h - the names of an enum's values, as commands and files have them. */
#ifndef KVSI_BASE_NAMES_H
#define KVSI_BASE_NAMES_H

#include "base/status.h"

typedef struct kvsi_name {
    const char *name; /* NULL ends a list */
    int value;
} kvsi_name;

const char *kvsi_name_of(const kvsi_name *list, int value); /* NULL: none */
/* On failure: unknown WHAT 'NAME', expected A, B or C. */
kvs_status kvsi_name_parse(int *value, const kvsi_name *list, const char *what, const char *name,
                           kvs_err *err);

#endif
