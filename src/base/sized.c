#include "base/sized.h"

#include "base/math.h"

#include <string.h>

/* Returns the member `size`, which is the first one. */
static size_t size_of(const void *sized)
{
    size_t size;

    memcpy(&size, sized, sizeof size);
    return size;
}

void kvsi_sized_init(void *options, size_t size, const void *defaults, size_t own_size)
{
    if (!options || size < sizeof size)
        return;
    memset(options, 0, size);
    memcpy(options, defaults, kvsi_min(size, own_size));
    memcpy(options, &size, sizeof size);
}

kvs_status kvsi_sized_check(const void *result, const char *what, kvs_err *err)
{
    if (size_of(result) <= sizeof(size_t))
        return kvsi_fail(err, KVS_E_INVALID, "%s: size is %zu, expected sizeof(%s)", what,
                         size_of(result), what);
    return KVS_OK;
}

kvs_status kvsi_sized_read(void *own, size_t own_size, const void *options, const char *what,
                           kvs_err *err)
{
    const unsigned char *bytes = options;

    if (!options)
        return KVS_OK;
    TRY(kvsi_sized_check(options, what, err));
    for (size_t i = own_size; i < size_of(options); i++)
        if (bytes[i] != 0)
            return kvsi_fail(
                err, KVS_E_UNSUPPORTED,
                "%s: byte %zu is not 0, but this version of the library knows only %zu bytes", what,
                i, own_size);
    memcpy(own, options, kvsi_min(size_of(options), own_size));
    memcpy(own, &own_size, sizeof own_size);
    return KVS_OK;
}

void kvsi_sized_write(void *result, const void *own, size_t own_size)
{
    const size_t size = size_of(result);

    memcpy((char *)result + sizeof size, (const char *)own + sizeof size,
           kvsi_min(size, own_size) - sizeof size);
}
