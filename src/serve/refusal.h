/* serve/refusal.h - why a request is refused: the status and the object "error" of the answer. */
#ifndef KVSI_SERVE_REFUSAL_H
#define KVSI_SERVE_REFUSAL_H

#include "base/text.h"

#include <stddef.h>

typedef struct kvsi_refusal {
    unsigned status;   /* of HTTP; 0 = nothing is refused */
    const char *code;  /* "context_length_exceeded", NULL = null */
    const char *param; /* the field of the request; NULL = null */
    char message[512];
    int retry_seconds;             /* when to try again; 0 = the same request fails again */
    size_t prompt_tokens, context; /* of code context_length_exceeded */
} kvsi_refusal;

/* Fills in the first three fields and the message; returns KVS_E_INVALID, for TRY. */
kvs_status kvsi_refuse(kvsi_refusal *refusal, unsigned status, const char *code, const char *param,
                       const char *format, ...) __attribute__((format(printf, 5, 6)));
/* 503: "out of memory for WHAT", to be tried again. */
kvs_status kvsi_refuse_memory(kvsi_refusal *refusal, const char *what);
/* Takes over the error of a call of the library: 500, or 503 without memory. */
kvs_status kvsi_refuse_failed(kvsi_refusal *refusal, const kvs_err *err);
/* Appends {"error": {...}}. */
void kvsi_refusal_write(kvsi_text *out, const kvsi_refusal *refusal);

#endif
