#include "base/status.h"

#include <stdarg.h>
#include <stdio.h>

/* Names in messages come from files and command lines: control characters in them must not break
 * the line or control the terminal. */
static void sanitize(char *text)
{
    for (; *text; text++)
        if ((unsigned char)*text < ' ' || *text == 127)
            *text = '?';
}

static _Thread_local int nomem;

void kvsi_nomem_set(void)
{
    nomem = 1;
}

int kvsi_nomem_is_set(void)
{
    return nomem;
}

void kvsi_nomem_clear(void)
{
    nomem = 0;
}

/* In parentheses, because the header wraps the name in a macro for the analyzer. */
kvs_status(kvsi_fail)(kvs_err *err, kvs_status status, const char *format, ...)
{
    if (status == KVS_E_NOMEM)
        nomem = !err;
    if (err) {
        va_list args;

        err->status = status;
        va_start(args, format);
        vsnprintf(err->message, sizeof err->message, format, args);
        va_end(args);
        sanitize(err->message);
    }
    return status;
}

kvs_status kvsi_in_file(kvs_status status, const kvs_err *inner, const char *what, kvs_err *err)
{
    if (status == KVS_OK)
        return KVS_OK;
    return kvsi_fail(err, status == KVS_E_NOMEM ? status : KVS_E_FORMAT, "'%s': %s", what,
                     inner->message);
}

const char *kvs_status_text(kvs_status status)
{
    switch (status) {
    case KVS_OK:
        return "done";
    case KVS_E_INVALID:
        return "invalid argument";
    case KVS_E_NOMEM:
        return "out of memory";
    case KVS_E_IO:
        return "input or output failed";
    case KVS_E_FORMAT:
        return "malformed file";
    case KVS_E_UNSUPPORTED:
        return "not supported here";
    case KVS_E_LIMIT:
        return "limit exceeded";
    case KVS_E_DIVERGED:
        return "training diverged";
    case KVS_E_EXISTS:
        return "already exists";
    case KVS_E_STOPPED:
        return "stopped by the caller";
    }
    return "unknown status";
}
