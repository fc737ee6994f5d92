#include "serve/refusal.h"

#include "serve/json_out.h"

#include <stdarg.h>
#include <stdio.h>

kvs_status kvsi_refuse(kvsi_refusal *refusal, unsigned status, const char *code, const char *param,
                       const char *format, ...)
{
    va_list arguments;

    *refusal = (kvsi_refusal){.status = status, .code = code, .param = param};
    va_start(arguments, format);
    vsnprintf(refusal->message, sizeof refusal->message, format, arguments);
    va_end(arguments);
    return KVS_E_INVALID;
}

kvs_status kvsi_refuse_memory(kvsi_refusal *refusal, const char *what)
{
    kvsi_refuse(refusal, 503, "out_of_memory", NULL, "out of memory for %s", what);
    refusal->retry_seconds = 5;
    return KVS_E_INVALID;
}

kvs_status kvsi_refuse_failed(kvsi_refusal *refusal, const kvs_err *err)
{
    kvsi_refuse(refusal, err->status == KVS_E_NOMEM ? 503 : 500,
                err->status == KVS_E_NOMEM ? "out_of_memory" : "internal_error", NULL, "%s",
                err->message);
    refusal->retry_seconds = err->status == KVS_E_NOMEM ? 5 : 0;
    return KVS_E_INVALID;
}

static const char *type_of(unsigned status)
{
    return status == 401   ? "authentication_error"
           : status == 403 ? "permission_error"
           : status == 404 ? "not_found_error"
           : status == 429 ? "rate_limit_error"
           : status >= 500 ? "server_error"
                           : "invalid_request_error";
}

void kvsi_refusal_write(kvsi_text *out, const kvsi_refusal *refusal)
{
    kvsi_text_add(out, "{\"error\":{\"message\":");
    kvsi_json_add_text(out, refusal->message);
    kvsi_text_format(out, ",\"type\":\"%s\",\"param\":", type_of(refusal->status));
    kvsi_json_add_text(out, refusal->param);
    kvsi_text_add(out, ",\"code\":");
    kvsi_json_add_text(out, refusal->code);
    if (refusal->context > 0)
        kvsi_text_format(out, ",\"n_prompt_tokens\":%zu,\"n_ctx\":%zu", refusal->prompt_tokens,
                         refusal->context);
    kvsi_text_add(out, "}}");
}
