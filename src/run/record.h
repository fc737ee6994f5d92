/* run/record.h - the record of one step: every field of the log, the CSV table and TensorBoard.
 *
 * A new field of kvs_step_record that is to be logged needs one row in record.c. */
#ifndef KVSI_RUN_RECORD_H
#define KVSI_RUN_RECORD_H

#include "base/json.h"

#include <stddef.h>

typedef enum kvsi_field_kind {
    KVSI_FIELD_UINT64, /* uint64_t, always written */
    KVSI_FIELD_SIZE,   /* size_t, always written */
    KVSI_FIELD_REAL,   /* double; null if not finite */
    KVSI_FIELD_SCORE,  /* double; left out of the log if not finite */
} kvsi_field_kind;

typedef struct kvsi_record_field {
    const char *key; /* in the log, and the name of the CSV column */
    const char *tag; /* in TensorBoard; NULL = not written, or derived (see run_write.c) */
    kvsi_field_kind kind;
    size_t offset; /* in kvs_step_record */
} kvsi_record_field;

/* In the order of the log and the columns. */
enum { KVSI_RECORD_FIELDS = 15 };
extern const kvsi_record_field kvsi_record_fields[KVSI_RECORD_FIELDS];

/* The field as a double, for TensorBoard. */
double kvsi_record_value(const kvs_step_record *record, const kvsi_record_field *field);

/* A new reference.  Out of memory is found by the next kvsi_json_check. */
json_t *kvsi_record_to_json(const kvs_step_record *record);
/* "step" is required; other counts that are missing are 0, other numbers NaN.  `what` names the
 * line in messages. */
kvs_status kvsi_record_from_json(kvs_step_record *out, const json_t *json, const char *what,
                                 kvs_err *err);

#endif
