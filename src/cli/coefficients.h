/* cli/coefficients.h - prints the shift coefficients of every head of a model, as text or JSON.
 *
 * The letters α (keys), β (values) and γ (queries) are taps; 1 is the tap of the token itself, 2
 * that of the previous one. */
#ifndef KVSI_CLI_COEFFICIENTS_H
#define KVSI_CLI_COEFFICIENTS_H

#include "base/json.h"
#include "kvshift/kvshift_lab.h"

enum { KVSI_PRINTED_TAPS_MAX = 8 }; /* per head and target */

/* The shift of one head and one target. */
typedef struct kvsi_mix {
    double taps[KVSI_PRINTED_TAPS_MAX]; /* oldest first; means over channels in form channel */
    double spread[KVSI_PRINTED_TAPS_MAX];
    double gate_length; /* of form data, which has no taps */
} kvsi_mix;

/* Properties of a model's shift, from its settings. */
typedef struct kvsi_shift_facts {
    unsigned targets; /* KVS_SHIFT_K | ..., 0 = none */
    size_t taps;      /* per head */
    int has_gates;    /* form data */
    int spreads;      /* channels of a head may have different taps */
    int has_kinds;    /* see kvs_shift_has_kinds */
} kvsi_shift_facts;

typedef struct kvsi_head_row {
    size_t layer, head;
    kvsi_mix k, v, q; /* k and v in rows of KV heads, q in rows of query heads */
} kvsi_head_row;

typedef struct kvsi_coefficients {
    kvsi_shift_facts shift;
    kvsi_head_row *kv, *q;
    size_t kv_count, q_count; /* 0 = not shifted */
} kvsi_coefficients;

kvs_status kvsi_coefficients_read(kvsi_coefficients *out, const kvs_model *model, kvs_err *err);
void kvsi_coefficients_release(kvsi_coefficients *c);

void kvsi_coefficients_print(const kvsi_coefficients *c);      /* on standard output */
json_t *kvsi_coefficients_to_json(const kvsi_coefficients *c); /* a new reference */

#endif
