#include "run/record.h"

#include <math.h>

#define AT(member) offsetof(kvs_step_record, member)

/* The shift means have derived tags: shift/k_sum, k_current and k_previous (run_write.c). */
/* clang-format off */
const kvsi_record_field kvsi_record_fields[KVSI_RECORD_FIELDS] = {
    {"step",            NULL,              KVSI_FIELD_UINT64, AT(step)},
    {"loss",            "train/loss",      KVSI_FIELD_REAL,   AT(loss)},
    {"lr",              "train/lr",        KVSI_FIELD_REAL,   AT(lr)},
    {"accuracy",        "train/accuracy",  KVSI_FIELD_SCORE,  AT(accuracy)},
    {"grad_norm",       "train/grad_norm", KVSI_FIELD_REAL,   AT(grad_norm)},
    {"tokens",          NULL,              KVSI_FIELD_SIZE,   AT(tokens)},
    {"seconds",         NULL,              KVSI_FIELD_REAL,   AT(seconds)},
    {"eval_loss",       "eval/loss",       KVSI_FIELD_SCORE,  AT(eval_loss)},
    {"eval_accuracy",   "eval/accuracy",   KVSI_FIELD_SCORE,  AT(eval_accuracy)},
    {"k_shift_sum",     NULL,              KVSI_FIELD_SCORE,  AT(k_shift.sum)},
    {"k_shift_current", NULL,              KVSI_FIELD_SCORE,  AT(k_shift.current)},
    {"v_shift_sum",     NULL,              KVSI_FIELD_SCORE,  AT(v_shift.sum)},
    {"v_shift_current", NULL,              KVSI_FIELD_SCORE,  AT(v_shift.current)},
    {"q_shift_sum",     NULL,              KVSI_FIELD_SCORE,  AT(q_shift.sum)},
    {"q_shift_current", NULL,              KVSI_FIELD_SCORE,  AT(q_shift.current)},
};
/* clang-format on */

static int is_count(const kvsi_record_field *field)
{
    return field->kind == KVSI_FIELD_UINT64 || field->kind == KVSI_FIELD_SIZE;
}

static uint64_t count_of(const kvs_step_record *record, const kvsi_record_field *field)
{
    const void *at = (const char *)record + field->offset;

    return field->kind == KVSI_FIELD_UINT64 ? *(const uint64_t *)at : *(const size_t *)at;
}

double kvsi_record_value(const kvs_step_record *record, const kvsi_record_field *field)
{
    const void *at = (const char *)record + field->offset;

    return is_count(field) ? (double)count_of(record, field) : *(const double *)at;
}

json_t *kvsi_record_to_json(const kvs_step_record *record)
{
    json_t *json = json_object();

    for (size_t i = 0; i < KVSI_RECORD_FIELDS; i++) {
        const kvsi_record_field *f = &kvsi_record_fields[i];
        const double value = kvsi_record_value(record, f);

        if (is_count(f))
            json_object_set_new(json, f->key, json_integer((json_int_t)count_of(record, f)));
        else if (f->kind == KVSI_FIELD_REAL || isfinite(value))
            json_object_set_new(json, f->key, kvsi_json_number(value));
    }
    return json;
}

kvs_status kvsi_record_from_json(kvs_step_record *out, const json_t *json, const char *what,
                                 kvs_err *err)
{
    *out = (kvs_step_record){0};
    TRY(kvsi_json_require(json, "step", what, err));
    for (size_t i = 0; i < KVSI_RECORD_FIELDS; i++) {
        const kvsi_record_field *f = &kvsi_record_fields[i];
        void *at = (char *)out + f->offset;
        size_t count = 0;

        if (is_count(f))
            TRY(kvsi_json_get_size(&count, json, f->key, what, err));
        else
            TRY(kvsi_json_get_number(at, json, f->key, what, err));
        if (f->kind == KVSI_FIELD_UINT64)
            *(uint64_t *)at = count;
        else if (f->kind == KVSI_FIELD_SIZE)
            *(size_t *)at = count;
    }
    return KVS_OK;
}
