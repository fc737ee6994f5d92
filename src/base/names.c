#include "base/names.h"

#include "base/text.h"

#include <string.h>

const char *kvsi_name_of(const kvsi_name *list, int value)
{
    for (; list->name; list++)
        if (list->value == value)
            return list->name;
    return NULL;
}

kvs_status kvsi_name_parse(int *value, const kvsi_name *list, const char *what, const char *name,
                           kvs_err *err)
{
    kvsi_text expected = {0};

    for (const kvsi_name *n = list; n->name; n++) {
        if (strcmp(n->name, name) == 0) {
            *value = n->value;
            kvsi_text_release(&expected);
            return KVS_OK;
        }
        kvsi_text_format(&expected, "%s%s", n == list ? "" : n[1].name ? ", " : " or ", n->name);
    }
    kvsi_fail(err, KVS_E_INVALID, "unknown %s '%s', expected %s", what, name,
              expected.data ? expected.data : "another");
    kvsi_text_release(&expected);
    return KVS_E_INVALID;
}
