#include "cli/coefficients.h"

#include "base/memory.h"
#include "cli/configs.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

/* ---- reading --------------------------------------------------------------------------------- */

static kvsi_shift_facts shift_of(const kvs_model_config *config)
{
    return (kvsi_shift_facts){
        .targets = kvsi_shift_targets(config),
        .taps = kvsi_model_count(config, "shift-window") + 1,
        .has_gates = kvsi_model_is(config, "shift-form", "data"),
        .spreads = kvsi_model_is(config, "shift-form", "channel") ||
                   kvsi_model_is(config, "shift-form", "hard"),
        .has_kinds = kvs_shift_has_kinds(config),
    };
}

static kvs_status read_mix(kvsi_mix *out, const kvsi_shift_facts *shift, const kvs_model *model,
                           const kvsi_head_row *row, unsigned target, kvs_err *err)
{
    if (!(shift->targets & target))
        return KVS_OK;
    if (shift->has_gates)
        return kvs_model_gate_length(&out->gate_length, model, row->layer, target, row->head, err);
    return kvs_model_taps(out->taps, out->spread, model, row->layer, target, row->head, err);
}

static kvs_status read_rows(kvsi_coefficients *c, const kvs_model *model, size_t layer,
                            kvs_err *err)
{
    const kvs_model_config *config = kvs_model_get_config(model);
    const size_t kv_heads = kvs_model_config_kv_heads(config, layer);
    const size_t heads = kvs_model_config_heads(config, layer);

    for (size_t h = 0; c->kv && h < kv_heads; h++) {
        kvsi_head_row *row = c->kv + c->kv_count++;

        *row = (kvsi_head_row){.layer = layer, .head = h};
        TRY(read_mix(&row->k, &c->shift, model, row, KVS_SHIFT_K, err));
        TRY(read_mix(&row->v, &c->shift, model, row, KVS_SHIFT_V, err));
    }
    for (size_t h = 0; c->q && h < heads; h++) {
        kvsi_head_row *row = c->q + c->q_count++;

        *row = (kvsi_head_row){.layer = layer, .head = h};
        TRY(read_mix(&row->q, &c->shift, model, row, KVS_SHIFT_Q, err));
    }
    return KVS_OK;
}

kvs_status kvsi_coefficients_read(kvsi_coefficients *out, const kvs_model *model, kvs_err *err)
{
    const kvs_model_config *config = kvs_model_get_config(model);
    const size_t layers = kvsi_model_count(config, "layers");
    kvsi_coefficients c = {.shift = shift_of(config)};
    const unsigned targets = c.shift.targets;
    size_t kv_heads = 0, heads = 0;
    kvs_status st = KVS_OK;

    if (c.shift.taps > KVSI_PRINTED_TAPS_MAX)
        return kvsi_fail(err, KVS_E_UNSUPPORTED, "the shift has %zu taps, at most %d are printed",
                         c.shift.taps, (int)KVSI_PRINTED_TAPS_MAX);
    for (size_t l = 0; l < layers; l++) {
        kv_heads += kvs_model_config_kv_heads(config, l);
        heads += kvs_model_config_heads(config, l);
    }
    if (targets & (KVS_SHIFT_K | KVS_SHIFT_V))
        c.kv = kvsi_alloc(kv_heads, sizeof *c.kv);
    if (targets & KVS_SHIFT_Q)
        c.q = kvsi_alloc(heads, sizeof *c.q);
    if ((targets & (KVS_SHIFT_K | KVS_SHIFT_V) && !c.kv) || (targets & KVS_SHIFT_Q && !c.q)) {
        st = kvsi_fail(err, KVS_E_NOMEM, "out of memory for the coefficients of %zu heads", heads);
        goto out;
    }
    for (size_t l = 0; l < layers; l++)
        TRY_OUT(read_rows(&c, model, l, err));
    *out = c;
    return KVS_OK;
out:
    kvsi_coefficients_release(&c);
    return st;
}

void kvsi_coefficients_release(kvsi_coefficients *c)
{
    kvsi_free(c->kv);
    kvsi_free(c->q);
    *c = (kvsi_coefficients){0};
}

/* ---- four kinds of heads --------------------------------------------------------------------- */

static const struct {
    const char *sign, *name; /* name: of keys, then of values */
} kinds[] = {
    [KVS_KEYS_CURRENT_VALUES_CURRENT] = {"α1>α2 β1>β2", "current_current"},
    [KVS_KEYS_PREVIOUS_VALUES_CURRENT] = {"α1≤α2 β1>β2", "previous_current"},
    [KVS_KEYS_CURRENT_VALUES_PREVIOUS] = {"α1>α2 β1≤β2", "current_previous"},
    [KVS_KEYS_PREVIOUS_VALUES_PREVIOUS] = {"α1≤α2 β1≤β2", "previous_previous"},
};

static kvs_head_kind kind_of(const kvsi_head_row *row)
{
    return kvs_head_kind_of(&(kvs_coefficients){.alpha1 = row->k.taps[1],
                                                .alpha2 = row->k.taps[0],
                                                .beta1 = row->v.taps[1],
                                                .beta2 = row->v.taps[0]});
}

static void count_kinds(size_t counts[KVS_HEAD_KINDS], const kvsi_coefficients *c)
{
    for (size_t i = 0; i < KVS_HEAD_KINDS; i++)
        counts[i] = 0;
    for (size_t i = 0; i < c->kv_count; i++)
        counts[kind_of(c->kv + i)]++;
}

static double sum_of(const kvsi_mix *mix)
{
    return mix->taps[0] + mix->taps[1];
}

/* ---- text ------------------------------------------------------------------------------------ */

/* Width of UTF-8 text in characters. */
static int columns_of(const char *text)
{
    int columns = 0;

    for (; *text; text++)
        columns += ((unsigned char)*text & 0xc0) != 0x80;
    return columns;
}

/* Right-aligned, after two spaces. */
static void print_cell(int width, const char *format, ...) __attribute__((format(printf, 2, 3)));
static void print_cell(int width, const char *format, ...)
{
    char cell[64];
    va_list args;
    int gap;

    va_start(args, format);
    vsnprintf(cell, sizeof cell, format, args);
    va_end(args);
    gap = width - columns_of(cell);
    printf("  %*s%s", gap > 0 ? gap : 0, "", cell);
}

static int tap_width(const kvsi_shift_facts *shift)
{
    return shift->spreads ? 15 : 8;
}

static void print_mix_heading(const kvsi_shift_facts *shift, const char *letter, int with_sum)
{
    char name[16];

    if (shift->has_gates) {
        snprintf(name, sizeof name, "|w| %s", letter);
        print_cell(tap_width(shift), "%s", name);
        return;
    }
    for (size_t j = shift->taps; j > 0; j--)
        print_cell(tap_width(shift), "%s%zu", letter, j);
    if (with_sum)
        print_cell(tap_width(shift), "Σ%s", letter);
}

static void print_mix(const kvsi_shift_facts *shift, const kvsi_mix *mix, int with_sum)
{
    const int width = tap_width(shift);

    if (shift->has_gates) {
        print_cell(width, "%.4f", mix->gate_length);
        return;
    }
    for (size_t j = 0; j < shift->taps; j++) {
        if (shift->spreads)
            print_cell(width, "%.4f ± %.4f", mix->taps[j], mix->spread[j]);
        else
            print_cell(width, "%.4f", mix->taps[j]);
    }
    if (with_sum)
        print_cell(width, "%.4f", sum_of(mix));
}

static void print_kv(const kvsi_coefficients *c)
{
    const int has_k = (c->shift.targets & KVS_SHIFT_K) != 0;
    const int has_v = (c->shift.targets & KVS_SHIFT_V) != 0;
    const int with_kinds = c->shift.has_kinds;

    printf("  layer  kv head");
    if (has_k)
        print_mix_heading(&c->shift, "α", with_kinds);
    if (has_v)
        print_mix_heading(&c->shift, "β", with_kinds);
    printf("%s\n", with_kinds ? "  kind" : "");
    for (size_t i = 0; i < c->kv_count; i++) {
        const kvsi_head_row *row = c->kv + i;

        printf("  %5zu  %7zu", row->layer, row->head);
        if (has_k)
            print_mix(&c->shift, &row->k, with_kinds);
        if (has_v)
            print_mix(&c->shift, &row->v, with_kinds);
        printf("%s%s\n", with_kinds ? "  " : "", with_kinds ? kinds[kind_of(row)].sign : "");
    }
}

static void print_q(const kvsi_coefficients *c)
{
    printf("  layer     head");
    print_mix_heading(&c->shift, "γ", 0);
    printf("\n");
    for (size_t i = 0; i < c->q_count; i++) {
        printf("  %5zu  %7zu", c->q[i].layer, c->q[i].head);
        print_mix(&c->shift, &c->q[i].q, 0);
        printf("\n");
    }
}

static void print_kinds(const kvsi_coefficients *c)
{
    size_t counts[KVS_HEAD_KINDS];

    count_kinds(counts, c);
    printf("heads by kind\n           β1>β2   β1≤β2\n");
    printf("  α1>α2  %7zu %7zu\n", counts[0], counts[2]);
    printf("  α1≤α2  %7zu %7zu\n", counts[1], counts[3]);
}

void kvsi_coefficients_print(const kvsi_coefficients *c)
{
    printf("coefficients: α of keys, β of values%s\n", c->q_count ? ", γ of queries" : "");
    if (c->shift.has_gates)
        printf("  form data has no fixed taps: |w| is the norm of the gate vector\n");
    else
        printf("  1 is the tap of the current token, 2 of the previous one\n");
    if (c->shift.spreads)
        printf("  mean ± standard deviation over the channels of a head\n");
    if (c->kv_count > 0)
        print_kv(c);
    if (c->q_count > 0)
        print_q(c);
    if (c->shift.has_kinds)
        print_kinds(c);
}

/* ---- JSON ---------------------------------------------------------------------------- */

static json_t *numbers_to_json(const double *numbers, size_t count)
{
    json_t *list = json_array();

    for (size_t i = 0; i < count; i++)
        json_array_append_new(list, kvsi_json_number(numbers[i]));
    return list;
}

static void set_member(json_t *object, const char *letter, const char *suffix, json_t *value)
{
    char key[32];

    snprintf(key, sizeof key, "%s%s", letter, suffix);
    json_object_set_new(object, key, value);
}

static void set_mix(json_t *object, const kvsi_shift_facts *shift, unsigned target,
                    const kvsi_mix *mix)
{
    const char *letter = target == KVS_SHIFT_K ? "alpha" : target == KVS_SHIFT_V ? "beta" : "gamma";

    if (!(shift->targets & target))
        return;
    if (shift->has_gates) {
        set_member(object, letter, "_gate_length", kvsi_json_number(mix->gate_length));
        return;
    }
    set_member(object, letter, "", numbers_to_json(mix->taps, shift->taps));
    if (shift->spreads)
        set_member(object, letter, "_spread", numbers_to_json(mix->spread, shift->taps));
    if (shift->has_kinds && target != KVS_SHIFT_Q)
        set_member(object, letter, "_sum", kvsi_json_number(sum_of(mix)));
}

static json_t *row_to_json(const kvsi_head_row *row)
{
    return json_pack("{s:I, s:I}", "layer", (json_int_t)row->layer, "head", (json_int_t)row->head);
}

json_t *kvsi_coefficients_to_json(const kvsi_coefficients *c)
{
    json_t *kv = json_array(), *q = json_array(), *counted = json_object();
    size_t counts[KVS_HEAD_KINDS];

    for (size_t i = 0; i < c->kv_count; i++) {
        json_t *row = row_to_json(c->kv + i);

        set_mix(row, &c->shift, KVS_SHIFT_K, &c->kv[i].k);
        set_mix(row, &c->shift, KVS_SHIFT_V, &c->kv[i].v);
        if (c->shift.has_kinds)
            json_object_set_new(row, "kind", json_string(kinds[kind_of(c->kv + i)].name));
        json_array_append_new(kv, row);
    }
    for (size_t i = 0; i < c->q_count; i++) {
        json_t *row = row_to_json(c->q + i);

        set_mix(row, &c->shift, KVS_SHIFT_Q, &c->q[i].q);
        json_array_append_new(q, row);
    }
    if (c->shift.has_kinds) {
        count_kinds(counts, c);
        for (size_t i = 0; i < KVS_HEAD_KINDS; i++)
            json_object_set_new(counted, kinds[i].name, json_integer((json_int_t)counts[i]));
    }
    return json_pack("{s:s, s:o, s:o, s:o}", "order", "oldest first", "kv_heads", kv, "query_heads",
                     q, "kinds", counted);
}
