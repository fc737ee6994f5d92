#include "repro/claims.h"

#include "base/files.h"
#include "base/memory.h"
#include "base/program.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

kvs_status kvsi_claims_init(kvsi_claims *claims, const char *dir, const kvs_repro_options *options,
                            kvs_err *err)
{
    *claims = (kvsi_claims){
        .dir = dir,
        .scale = options->scale,
        .claims = json_array(),
        .figures = json_array(),
        .tables = json_array(),
        .remarks = json_array(),
        .notice = options->notice,
        .user = options->user,
        .err = err,
    };
    if (!claims->claims || !claims->figures || !claims->tables || !claims->remarks)
        claims->status = kvsi_fail(err, KVS_E_NOMEM, "out of memory for the claims");
    return claims->status;
}

void kvsi_claims_release(kvsi_claims *claims)
{
    json_decref(claims->claims);
    json_decref(claims->figures);
    json_decref(claims->tables);
    json_decref(claims->remarks);
    *claims = (kvsi_claims){0};
}

kvs_status kvsi_claims_check(const kvsi_claims *claims)
{
    return claims->status;
}

/* Appends a value; steals its reference. */
static void keep(kvsi_claims *out, json_t *list, json_t *value)
{
    if (out->status != KVS_OK)
        json_decref(value);
    else if (!value || json_array_append_new(list, value) != 0)
        out->status = kvsi_fail(out->err, KVS_E_NOMEM, "out of memory for the claims");
}

/* ---- claims and remarks ---------------------------------------------------------------------- */

kvsi_outcome kvsi_sign_outcome(const kvsi_paired_test *test, int sign)
{
    if (!(test->p < 0.05)) /* or NaN */
        return KVSI_OPEN;
    return sign * test->difference.mean > 0 ? KVSI_HOLDS : KVSI_FAILS;
}

kvsi_claim kvsi_claim_of_test(const kvsi_paired_test *test, const char *claim, const char *paper,
                              const char *unit, kvsi_outcome outcome)
{
    return (kvsi_claim){
        .claim = claim,
        .paper = paper,
        .ours = test->difference.mean,
        .error = test->difference.error,
        .unit = unit,
        .seeds = test->difference.count,
        .outcome = outcome,
    };
}

static kvs_verdict judge(const kvsi_claims *out, const kvsi_claim *claim)
{
    if (claim->outcome == KVSI_OPEN || (out->scale == KVS_SCALE_SMOKE && !claim->exact))
        return KVS_VERDICT_TOO_SMALL;
    return claim->outcome == KVSI_HOLDS ? KVS_VERDICT_REPRODUCED : KVS_VERDICT_NOT;
}

static void add_claim(kvsi_claims *out, const kvsi_claim *claim, const char *detail)
{
    /* clang-format off */
    keep(out, out->claims,
         json_pack("{s:s, s:s, s:o, s:s, s:o, s:I, s:s, s:s}",
                   "claim", claim->claim,
                   "paper", claim->paper,
                   "ours", kvsi_json_number(claim->ours),
                   "unit", claim->unit ? claim->unit : "",
                   "stderr", kvsi_json_number(claim->error),
                   "seeds", (json_int_t)claim->seeds,
                   "verdict", kvs_verdict_name(judge(out, claim)),
                   "detail", detail));
    /* clang-format on */
}

void kvsi_claims_add(kvsi_claims *out, const kvsi_claim *claim, const char *detail, ...)
{
    char words[512];
    va_list args;

    va_start(args, detail);
    vsnprintf(words, sizeof words, detail, args);
    va_end(args);
    add_claim(out, claim, words);
}

void kvsi_claims_add_test(kvsi_claims *out, const kvsi_claim *claim, const char *detail, ...)
{
    char words[512] = KVSI_UNTESTED;
    va_list args;

    va_start(args, detail);
    if (claim->seeds > 1)
        vsnprintf(words, sizeof words, detail, args);
    va_end(args);
    add_claim(out, claim, words);
}

void kvsi_claims_remark(kvsi_claims *out, const char *format, ...)
{
    char words[1024];
    va_list args;

    va_start(args, format);
    vsnprintf(words, sizeof words, format, args);
    va_end(args);
    keep(out, out->remarks, json_string(words));
}

/* ---- files ----------------------------------------------------------------------------------- */

/* Writes NAME.ENDING in the experiment's folder. */
static kvs_status write_file(kvsi_claims *out, const char *name, const char *ending,
                             const char *text, kvs_err *err)
{
    char file[128];
    char *path;
    kvs_status st;

    snprintf(file, sizeof file, "%s.%s", name, ending);
    path = kvsi_path_join(out->dir, file);
    st = path ? kvsi_file_write_text(path, text, err)
              : kvsi_fail(err, KVS_E_NOMEM, "out of memory for '%s'", file);
    kvsi_free(path);
    return st;
}

void kvsi_claims_svg(kvsi_claims *out, kvs_status status, const kvs_err *why, const char *name,
                     const char *caption, const char *svg)
{
    const int missing = status == KVS_E_UNSUPPORTED && !kvsi_program_found("gnuplot");

    if (out->status != KVS_OK)
        return;
    if (missing) {
        if (out->notice)
            out->notice(out->user, why->message);
        return;
    }
    if (status != KVS_OK) {
        out->status = kvsi_fail(out->err, status, "figure '%s': %s", name, why->message);
        return;
    }
    out->status = write_file(out, name, "svg", svg, out->err);
    keep(out, out->figures, json_pack("{s:s, s:s}", "name", name, "caption", caption));
}

void kvsi_claims_chart(kvsi_claims *out, kvsi_chart *chart)
{
    kvs_err why = {.status = KVS_OK};
    kvsi_text csv = {0};
    char *svg = NULL;

    if (out->status == KVS_OK)
        out->status = kvsi_chart_csv(&csv, chart, out->err);
    if (out->status == KVS_OK)
        out->status = write_file(out, chart->name, "csv", csv.data, out->err);
    if (out->status == KVS_OK) {
        const kvs_status st = kvsi_chart_draw(&svg, chart, &why);

        kvsi_claims_svg(out, st, &why, chart->name, chart->caption, svg);
    }
    kvsi_free(svg);
    kvsi_text_release(&csv);
    kvsi_chart_release(chart);
}

/* ---- tables ---------------------------------------------------------------------------------- */

static void add_csv_cell(kvsi_text *csv, const char *cell)
{
    const int quoted = strpbrk(cell, ",\"\n") != NULL;

    kvsi_text_add(csv, quoted ? "\"" : "");
    for (; *cell; cell++)
        kvsi_text_add_bytes(csv, *cell == '"' ? "'" : cell, 1);
    kvsi_text_add(csv, quoted ? "\"" : "");
}

void kvsi_table_estimate(kvsi_table *table, const kvsi_estimate *e, int digits, const char *unit)
{
    if (isnan(e->error))
        kvsi_table_add(table, "%.*f%s", digits, e->mean, unit);
    else
        kvsi_table_add(table, "%.*f ± %.*f%s", digits, e->mean, digits, e->error, unit);
}

void kvsi_table_p(kvsi_table *table, double p)
{
    if (isnan(p))
        kvsi_table_add(table, "–");
    else
        kvsi_table_add(table, "%.3g", p);
}

/* All rows, headings first, as JSON; also written as CSV. */
static json_t *rows_of(const kvsi_table *table, kvsi_text *csv)
{
    json_t *rows = json_array(), *row = NULL;
    const char *cell = table->words.data;

    for (size_t i = 0; i < table->cells; i++, cell += strlen(cell) + 1) {
        const size_t column = i % table->columns;

        if (column == 0)
            json_array_append_new(rows, row = json_array());
        json_array_append_new(row, json_string(cell));
        add_csv_cell(csv, cell);
        kvsi_text_add(csv, column + 1 == table->columns ? "\n" : ",");
    }
    return rows;
}

void kvsi_claims_table(kvsi_claims *out, const char *name, const char *caption, kvsi_table *table)
{
    kvsi_text csv = {0};
    json_t *rows = table->words.failed || table->cells == 0 ? NULL : rows_of(table, &csv);

    if (out->status == KVS_OK)
        out->status =
            rows ? kvsi_text_check(&csv, out->err)
                 : kvsi_fail(out->err, KVS_E_NOMEM, "out of memory for the table '%s'", name);
    if (out->status == KVS_OK)
        out->status = write_file(out, name, "csv", csv.data, out->err);
    keep(out, out->tables,
         json_pack("{s:s, s:s, s:I, s:O?}", "name", name, "caption", caption, "left",
                   (json_int_t)table->left, "rows", rows));
    json_decref(rows);
    kvsi_text_release(&csv);
    kvsi_table_release(table);
}
