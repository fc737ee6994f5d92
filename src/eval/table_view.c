/* One table of several models, as text, Markdown, CSV, a picture and JSON.
 *
 * Results of one model, such as those of several numbers of shots, make one row. */
#include "base/files.h"
#include "base/memory.h"
#include "eval/compare.h"
#include "eval/report_blocks.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

enum { COLUMNS_MAX = 8, STATE_LIMIT = 16 << 20 };

static const double SIGNIFICANT = 0.05;

/* Which results of a task a column takes. */
typedef enum shots_wanted { ANY_SHOTS, NO_SHOTS, SOME_SHOTS } shots_wanted;

typedef struct column {
    const char *heading;
    const char *units[3]; /* the first that there is; ends with NULL */
    shots_wanted shots;
} column;

typedef struct layout {
    const char *name;
    column columns[COLUMNS_MAX];
    size_t count;
    int mean; /* with a mean of the columns */
} layout;

static const layout layouts[] = {
    {.name = "paper",
     .columns = {{"LAMBADA", {"lambada_openai", "lambada_standard"}, ANY_SHOTS},
                 {"WinoGrande", {"winogrande"}, ANY_SHOTS},
                 {"HellaSwag", {"hellaswag"}, ANY_SHOTS},
                 {"ARC-E", {"arc_easy"}, ANY_SHOTS},
                 {"ARC-C", {"arc_challenge"}, ANY_SHOTS},
                 {"CMMLU", {"cmmlu"}, ANY_SHOTS},
                 {"MMLU", {"mmlu"}, ANY_SHOTS},
                 {"MATH", {"hendrycks_math", "minerva_math"}, ANY_SHOTS}},
     .count = 8,
     .mean = 1},
    {.name = "mmlu",
     .columns = {{"cloze", {"mmlu_continuation"}, ANY_SHOTS},
                 {"zero-shot", {"mmlu"}, NO_SHOTS},
                 {"few-shot", {"mmlu"}, SOME_SHOTS}},
     .count = 3},
};

/* ---- rows ------------------------------------------------------------------------------------ */

typedef struct cell {
    const kvsi_unit *unit; /* NULL = there is no result */
    const char *metric;
    kvsi_unit_score score;
    int best; /* and told from all others */
} cell;

typedef struct row {
    const kvsi_stored *model; /* the first of its results */
    double tokens;            /* NaN = not known */
    cell cells[COLUMNS_MAX];
    double mean;
} row;

typedef struct table {
    const layout *layout;
    row *rows;
    size_t count;
    kvsi_unit **units; /* [models] */
    size_t *unit_counts, models;
    int by_tokens;   /* only rows with the same number of tokens are compared */
    size_t averaged; /* columns that all rows have */
} table;

static void table_release(table *t)
{
    for (size_t i = 0; t->units && i < t->models; i++)
        kvsi_units_free(t->units[i], t->unit_counts[i]);
    kvsi_free(t->units);
    kvsi_free(t->unit_counts);
    kvsi_free(t->rows);
}

/* The tokens in a file of a run: "tokens" of the object, or of its member "run". */
static double tokens_in(const char *dir, const char *name)
{
    char *path = kvsi_path_join(dir, name);
    json_t *json = NULL;
    const json_t *value;
    double tokens = NAN;

    if (path && kvsi_file_exists(path) &&
        kvsi_json_read(&json, path, STATE_LIMIT, NULL) == KVS_OK) {
        value = json_object_get(json, "tokens");
        if (!value)
            value = json_object_get(json_object_get(json, "run"), "tokens");
        if (json_is_number(value))
            tokens = json_number_value(value);
    }
    json_decref(json);
    kvsi_free(path);
    return tokens;
}

/* A checkpoint has state.json, the folder of a complete run result.json. */
static double tokens_of(const char *model)
{
    static const char *const names[] = {"state.json", "result.json", "../result.json"};
    double tokens = NAN;

    for (size_t i = 0; i < 3 && isnan(tokens) && *model; i++)
        tokens = tokens_in(model, names[i]);
    return tokens;
}

static int fits(const kvsi_unit *unit, shots_wanted wanted)
{
    return wanted == ANY_SHOTS || (wanted == NO_SHOTS && unit->shots == 0) ||
           (wanted == SOME_SHOTS && unit->shots > 0);
}

static void fill_cell(cell *c, const column *wanted, const kvsi_unit *units, size_t count)
{
    for (size_t i = 0; !c->unit && i < 3 && wanted->units[i]; i++) {
        const kvsi_unit *unit = kvsi_unit_find(units, count, wanted->units[i]);

        if (!unit || !fits(unit, wanted->shots) || !kvsi_unit_metric(unit))
            continue;
        c->unit = unit;
        c->metric = kvsi_unit_metric(unit);
        c->score = kvsi_unit_score_of(unit, c->metric);
    }
}

static row *row_of(table *t, const kvsi_stored *model)
{
    for (size_t i = 0; i < t->count; i++)
        if (*model->model && strcmp(t->rows[i].model->model, model->model) == 0)
            return t->rows + i;
    t->rows[t->count] = (row){.model = model, .tokens = tokens_of(model->model), .mean = NAN};
    return t->rows + t->count++;
}

/* The last part of the model's name; all of it, in which rows differ, if another row has the same
 * part. */
static const char *label_of(const table *t, const row *model)
{
    for (size_t r = 0; r < t->count; r++)
        if (t->rows + r != model && strcmp(t->rows[r].model->name, model->model->name) == 0)
            return *model->model->model ? model->model->model : model->model->label;
    return model->model->name;
}

static int all_have(const table *t, size_t at)
{
    for (size_t r = 0; r < t->count; r++)
        if (!t->rows[r].cells[at].unit)
            return 0;
    return 1;
}

static int any_has(const table *t, size_t at)
{
    for (size_t r = 0; r < t->count; r++)
        if (t->rows[r].cells[at].unit)
            return 1;
    return 0;
}

static kvs_status fill(table *t, const kvsi_stored *models, size_t count, kvs_err *err)
{
    t->models = count;
    t->rows = kvsi_alloc(count, sizeof *t->rows);
    t->units = kvsi_alloc(count, sizeof *t->units);
    t->unit_counts = kvsi_alloc(count, sizeof *t->unit_counts);
    if (!t->rows || !t->units || !t->unit_counts)
        return kvsi_no_memory(err, "%zu models", count);
    for (size_t m = 0; m < count; m++) {
        row *r = row_of(t, models + m);

        TRY(kvsi_units_of(t->units + m, t->unit_counts + m, models + m, 0, err));
        for (size_t c = 0; c < t->layout->count; c++)
            fill_cell(r->cells + c, t->layout->columns + c, t->units[m], t->unit_counts[m]);
    }
    for (size_t c = 0; c < t->layout->count; c++)
        t->averaged += (size_t)all_have(t, c);
    for (size_t r = 0; r < t->count && t->averaged > 0; r++) {
        t->rows[r].mean = 0;
        for (size_t c = 0; c < t->layout->count; c++)
            if (all_have(t, c))
                t->rows[r].mean += t->rows[r].cells[c].score.value / (double)t->averaged;
    }
    return KVS_OK;
}

/* ---- the best -------------------------------------------------------------------------------- */

/* p of McNemar's test of two cells; 1 where it does not apply. */
static kvs_status paired_p(double *p, const cell *a, const cell *b, kvs_err *err)
{
    kvsi_pairs pairs;
    size_t gained = 0, lost = 0;

    *p = 1;
    if (!a->score.binary || !b->score.binary || strcmp(a->metric, b->metric) != 0)
        return KVS_OK;
    TRY(kvsi_pairs_create(&pairs, a->unit, b->unit, 0, err));
    for (size_t i = 0; i < pairs.count; i++) {
        const kvsi_pair *pair = pairs.pairs + i;
        const double x = pair->a->metrics[kvsi_stored_metric(pair->task_a, a->metric)],
                     y = pair->b->metrics[kvsi_stored_metric(pair->task_b, b->metric)];

        gained += y > x;
        lost += y < x;
    }
    if (pairs.count > 0)
        *p = kvsi_mcnemar_test(gained, lost, pairs.count).exact;
    kvsi_pairs_release(&pairs);
    return KVS_OK;
}

/* Whether two rows are compared: all are, unless some were trained on the same number of tokens. */
static int is_compared(const table *t, const row *a, const row *b)
{
    return !t->by_tokens || a->tokens == b->tokens || (isnan(a->tokens) && isnan(b->tokens));
}

static int has_equal_tokens(const table *t)
{
    for (size_t r = 0; r < t->count; r++)
        for (size_t s = 0; s < r; s++)
            if (t->rows[r].tokens == t->rows[s].tokens)
                return 1;
    return 0;
}

/* Marks the best cell of a column, among the rows that are compared with `first`, if the test, with
 * Holm's correction over the other rows, tells it from each of them. */
static kvs_status mark_best_of(table *t, size_t at, const row *first, kvs_err *err)
{
    double *p = kvsi_alloc(t->count, sizeof *p), *holm = kvsi_alloc(t->count, sizeof *holm);
    cell *best = NULL;
    size_t others = 0;
    kvs_status st = KVS_OK;

    if (!p || !holm) {
        st = kvsi_no_memory(err, "%zu rows", t->count);
        goto out;
    }
    for (size_t r = 0; r < t->count; r++) {
        cell *c = t->rows[r].cells + at;

        if (c->unit && is_compared(t, first, t->rows + r) &&
            (!best || c->score.value > best->score.value))
            best = c;
    }
    for (size_t r = 0; r < t->count && best; r++) {
        const cell *c = t->rows[r].cells + at;

        if (c->unit && c != best && is_compared(t, first, t->rows + r))
            TRY_OUT(paired_p(p + others++, best, c, err));
    }
    kvsi_holm(holm, p, others);
    for (size_t i = 0; i < others; i++)
        if (holm[i] >= SIGNIFICANT)
            goto out;
    if (best && others > 0)
        best->best = 1;
out:
    kvsi_free(p);
    kvsi_free(holm);
    return st;
}

/* Each set of rows that are compared is looked at once, from its first row. */
static kvs_status mark_best(table *t, size_t at, kvs_err *err)
{
    for (size_t r = 0; r < t->count; r++) {
        int seen = 0;

        for (size_t s = 0; s < r && !seen; s++)
            seen = is_compared(t, t->rows + s, t->rows + r);
        if (!seen)
            TRY(mark_best_of(t, at, t->rows + r, err));
    }
    return KVS_OK;
}

/* ---- output ---------------------------------------------------------------------------------- */

static int any_tokens(const table *t)
{
    for (size_t r = 0; r < t->count; r++)
        if (!isnan(t->rows[r].tokens))
            return 1;
    return 0;
}

static void add_rows(kvs_eval_report *report, const table *t)
{
    kvsi_table out = {.left = 1};
    const int tokens = any_tokens(t);

    kvsi_table_add(&out, "model");
    if (tokens)
        kvsi_table_add(&out, "tokens");
    for (size_t c = 0; c < t->layout->count; c++)
        kvsi_table_add(&out, "%s", t->layout->columns[c].heading);
    if (t->layout->mean && t->averaged == t->layout->count)
        kvsi_table_add(&out, "mean");
    else if (t->layout->mean)
        kvsi_table_add(&out, "mean of %zu", t->averaged);
    out.columns = out.cells;
    for (size_t r = 0; r < t->count; r++) {
        const row *model = t->rows + r;
        char number[32] = "";

        kvsi_table_add(&out, "%s", label_of(t, model));
        if (!isnan(model->tokens))
            kvsi_format_count(number, sizeof number, model->tokens);
        if (tokens)
            kvsi_table_add(&out, "%s", number);
        for (size_t c = 0; c < t->layout->count; c++) {
            if (model->cells[c].best)
                kvsi_table_bold(&out);
            if (model->cells[c].unit)
                kvsi_table_add(&out, "%.2f", 100 * model->cells[c].score.value);
            else
                kvsi_table_add(&out, "%s", "");
        }
        if (t->layout->mean && !isnan(model->mean))
            kvsi_table_add(&out, "%.2f", 100 * model->mean);
        else if (t->layout->mean)
            kvsi_table_add(&out, "%s", "");
    }
    kvsi_block_table(report, KVSI_EVERYWHERE, &out);
}

/* Which metric a column has, and which rows differ in shots or documents. */
static void add_notes(kvs_eval_report *report, const table *t)
{
    kvsi_text metrics = {0};

    for (size_t c = 0; c < t->layout->count; c++) {
        const cell *first = NULL;

        for (size_t r = 0; r < t->count; r++) {
            const cell *now = t->rows[r].cells + c;

            if (!now->unit)
                continue;
            if (!first) {
                first = now;
                kvsi_text_format(&metrics, "%s%s %s of %s", metrics.length > 0 ? "; " : "",
                                 t->layout->columns[c].heading, now->metric, now->unit->name);
                if (now->unit->shots >= 0)
                    kvsi_text_format(&metrics, ", %d shot%s", now->unit->shots,
                                     now->unit->shots == 1 ? "" : "s");
                kvsi_text_format(&metrics, ", %zu documents", now->score.count);
            } else if (now->unit->shots != first->unit->shots ||
                       now->score.count != first->score.count) {
                kvsi_block_text(report, KVSI_BLOCK_TEXT, KVSI_EVERYWHERE,
                                "%s: '%s' has %zu documents and %d shots, the first row %zu and "
                                "%d.",
                                t->layout->columns[c].heading, label_of(t, t->rows + r),
                                now->score.count, now->unit->shots, first->score.count,
                                first->unit->shots);
            }
        }
    }
    report->failed |= metrics.failed;
    kvsi_block_text(
        report, KVSI_BLOCK_NOTE, KVSI_EVERYWHERE,
        "Scores in percent: %s. Bold, or a star: the best of its column%s, and McNemar's "
        "exact test on the same documents, with Holm's correction over the other rows, "
        "tells it from each of them at 0.05.",
        metrics.data ? metrics.data : "",
        t->by_tokens ? " among the rows with the same number of tokens" : "");
    kvsi_text_release(&metrics);
}

/* Columns without a result have no row. */
static void add_chart(kvs_eval_report *report, const table *t)
{
    kvsi_chart *chart = kvsi_block_chart(report, "scores",
                                         "Scores in percent with their standard errors, one row "
                                         "per benchmark.");
    const double apart = 0.6 / (double)t->count;
    size_t place[COLUMNS_MAX] = {0};
    kvsi_panel *panel;

    if (!chart)
        return;
    panel = kvsi_chart_panel(chart, "", "score in percent", "");
    panel->key = "outside right top";
    for (size_t c = 0; c < t->layout->count; c++) {
        place[c] = panel->row_count;
        if (any_has(t, c))
            snprintf(panel->rows[panel->row_count++], sizeof *panel->rows, "%s",
                     t->layout->columns[c].heading);
    }
    for (size_t r = 0; r < t->count; r++) {
        kvsi_series *series = kvsi_chart_series(chart, KVSI_MARKS, r, label_of(t, t->rows + r));

        for (size_t c = 0; c < t->layout->count; c++)
            if (t->rows[r].cells[c].unit)
                kvsi_series_add(series, 100 * t->rows[r].cells[c].score.value,
                                (double)place[c] + apart * ((double)r - ((double)t->count - 1) / 2),
                                100 * t->rows[r].cells[c].score.error);
    }
}

static json_t *table_json(const table *t)
{
    json_t *rows = json_array();

    for (size_t r = 0; r < t->count; r++) {
        const row *model = t->rows + r;
        json_t *columns = json_object();

        for (size_t c = 0; c < t->layout->count; c++)
            if (model->cells[c].unit)
                json_object_set_new(
                    columns, t->layout->columns[c].heading,
                    json_pack("{s:s, s:s, s:i, s:I, s:o, s:o, s:b}", "task",
                              model->cells[c].unit->name, "metric", model->cells[c].metric, "shots",
                              model->cells[c].unit->shots, "documents",
                              (json_int_t)model->cells[c].score.count, "score",
                              kvsi_json_number(model->cells[c].score.value), "error",
                              kvsi_json_number(model->cells[c].score.error), "best",
                              model->cells[c].best));
        json_array_append_new(
            rows, json_pack("{s:o, s:o, s:o, s:o, s:o}", "label",
                            kvsi_json_text(label_of(t, model), strlen(label_of(t, model))), "model",
                            kvsi_json_text(model->model->model, strlen(model->model->model)),
                            "tokens", kvsi_json_number(model->tokens), "columns", columns, "mean",
                            t->layout->mean ? kvsi_json_number(model->mean) : json_null()));
    }
    return json_pack("{s:s, s:I, s:o}", "table", t->layout->name, "columns_in_mean",
                     (json_int_t)(t->layout->mean ? t->averaged : 0), "rows", rows);
}

static const layout *layout_of(const char *name)
{
    for (size_t i = 0; i < sizeof layouts / sizeof *layouts; i++)
        if (name && strcmp(layouts[i].name, name) == 0)
            return layouts + i;
    return NULL;
}

kvs_status kvsi_view_table(kvs_eval_report *report, const kvsi_stored *models, size_t count,
                           const kvs_eval_report_options *options, kvs_err *err)
{
    table t = {.layout = layout_of(options->table)};
    size_t filled = 0;
    kvs_status st;

    if (!t.layout)
        return kvsi_fail(err, KVS_E_INVALID, "table is '%s', expected 'paper' or 'mmlu'",
                         options->table ? options->table : "");
    TRY_OUT(fill(&t, models, count, err));
    t.by_tokens = has_equal_tokens(&t);
    for (size_t c = 0; c < t.layout->count; c++) {
        TRY_OUT(mark_best(&t, c, err));
        for (size_t r = 0; r < t.count; r++)
            filled += t.rows[r].cells[c].unit != NULL;
    }
    if (filled == 0) {
        st = kvsi_fail(err, KVS_E_INVALID, "none of the results has a task of the table '%s'",
                       t.layout->name);
        goto out;
    }
    add_rows(report, &t);
    add_chart(report, &t);
    add_notes(report, &t);
    for (size_t m = 0; m < count; m++)
        for (size_t i = 0; i < models[m].remark_count; i++)
            kvsi_block_text(report, KVSI_BLOCK_TEXT, KVSI_EVERYWHERE, "%s: %s", models[m].label,
                            models[m].remarks[i]);
    report->json = table_json(&t);
    st = kvsi_json_check_made(report->json, "the table", err);
out:
    table_release(&t);
    return st;
}
