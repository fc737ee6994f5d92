#include "base/status.h"

#include <stdarg.h>
#include <stdio.h>

/* Names in messages come from files and command lines: control characters in them must not break
 * the line or control the terminal. */
static void tame(char *text)
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
        tame(err->message);
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
#define STATUS_CASE(name, value, text)                                                             \
    case name:                                                                                     \
        return text;
        KVS_STATUS_LIST(STATUS_CASE)
#undef STATUS_CASE
    }
    return "unknown status";
}
