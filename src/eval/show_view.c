/* Stored results with measures, as tables, pictures and JSON. */
#include "base/memory.h"
#include "eval/compare.h"
#include "eval/measures.h"
#include "eval/report_blocks.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

/* One model and its units. */
typedef struct shown {
    const kvsi_stored *model;
    kvsi_unit *units, *subjects; /* subjects: every task apart */
    size_t count, subject_count;
} shown;

static void add_blank(kvsi_table *table)
{
    kvsi_table_add(table, "%s", "");
}

static void add_shots(kvsi_table *table, int shots)
{
    if (shots >= 0)
        kvsi_table_add(table, "%d", shots);
    else
        add_blank(table);
}

static void add_percent(kvsi_table *table, size_t right, size_t count)
{
    const kvsi_interval w = kvsi_wilson(right, count);

    if (count == 0)
        add_blank(table);
    else
        kvsi_table_add(table, "%.2f (%.1f–%.1f)", 100 * (double)right / (double)count, 100 * w.low,
                       100 * w.high);
}

/* ---- scores ---------------------------------------------------------------------------------- */

static void add_score_rows(kvsi_table *table, const kvsi_unit *unit)
{
    const kvsi_baselines b = kvsi_baselines_of(unit);

    for (size_t k = 0; k < unit->tasks[0]->metric_count; k++) {
        const char *metric = unit->tasks[0]->metrics[k];
        kvsi_unit_score score;

        if (!kvsi_unit_has(unit, metric))
            continue;
        score = kvsi_unit_score_of(unit, metric);
        kvsi_table_add(table, "%s", unit->name);
        kvsi_table_add(table, "%s", metric);
        add_shots(table, unit->shots);
        kvsi_table_add(table, "%zu", score.count);
        if (!score.binary)
            kvsi_table_add(table, "%.4g", score.value);
        else if (isnan(score.error))
            kvsi_table_add(table, "%.2f", 100 * score.value);
        else
            kvsi_table_add(table, "%.2f ± %.2f", 100 * score.value, 100 * score.error);
        if (b.count == 0) {
            add_blank(table);
            add_blank(table);
            add_blank(table);
            continue;
        }
        kvsi_table_add(table, "%.2f", 100 * (double)b.first / (double)b.count);
        kvsi_table_add(table, "%.2f", 100 * (double)b.longest / (double)b.count);
        kvsi_table_add(table, "%.2f", 100 * b.random);
    }
}

static void add_scores(kvs_eval_report *report, const kvsi_unit *units, size_t count)
{
    kvsi_table table = {.left = 2};

    kvsi_table_headings(&table, "task|metric|shots|documents|score|first|longest|chance");
    for (size_t u = 0; u < count; u++)
        add_score_rows(&table, units + u);
    kvsi_block_table(report, KVSI_EVERYWHERE, &table);
}

/* ---- measures -------------------------------------------------------------------------------- */

static void add_estimate(kvsi_table *table, kvsi_estimate e)
{
    if (isnan(e.mean))
        add_blank(table);
    else if (isnan(e.error))
        kvsi_table_add(table, "%.4f", e.mean);
    else
        kvsi_table_add(table, "%.4f ± %.4f", e.mean, e.error);
}

static void add_measures(kvs_eval_report *report, const shown *s)
{
    kvsi_table table = {.left = 1};
    size_t rows = 0;

    kvsi_table_headings(&table, "task|bits per byte|margin|Brier|ECE");
    for (size_t u = 0; u < s->count; u++) {
        const kvsi_measures m = kvsi_measures_of(s->units + u);

        if (isnan(m.bits.mean))
            continue;
        rows++;
        kvsi_table_add(&table, "%s", s->units[u].name);
        add_estimate(&table, m.bits);
        add_estimate(&table, m.margin);
        add_estimate(&table, m.brier);
        if (isnan(m.ece))
            add_blank(&table);
        else
            kvsi_table_add(&table, "%.4f", m.ece);
    }
    if (rows == 0) {
        kvsi_table_release(&table);
        return;
    }
    kvsi_block_text(report, KVSI_BLOCK_TEXT, KVSI_EVERYWHERE,
                    "Right answers: bits per byte of their text, margin over the best wrong one in "
                    "nats, and calibration of the choice (Brier score; expected calibration error "
                    "over 15 bins):");
    kvsi_block_table(report, KVSI_EVERYWHERE, &table);
}

static void add_copies(kvs_eval_report *report, const kvsi_unit *unit)
{
    static const char *const names[] = {"new", "in the context"};
    kvsi_table table = {.left = 1};
    kvsi_part parts[2];

    kvsi_parts_by_copy(parts, unit);
    kvsi_table_headings(&table, "last word|documents|acc|perplexity");
    for (int p = 1; p >= 0; p--) {
        kvsi_table_add(&table, "%s", names[p]);
        kvsi_table_add(&table, "%zu", parts[p].count);
        add_percent(&table, parts[p].right, parts[p].count);
        if (parts[p].count > 0)
            kvsi_table_add(&table, "%.4g", exp(-parts[p].likelihood.mean));
        else
            add_blank(&table);
    }
    kvsi_block_text(report, KVSI_BLOCK_TEXT, KVSI_EVERYWHERE,
                    "%s, by whether the last word occurs in its context:", unit->name);
    kvsi_block_table(report, KVSI_EVERYWHERE, &table);
}

static kvs_status add_lengths(kvs_eval_report *report, const shown *s, kvs_err *err)
{
    kvsi_table table = {.left = 2};
    size_t rows = 0;

    kvsi_table_headings(&table, "task|metric|shortest|short|long|longest|characters");
    for (size_t u = 0; u < s->count; u++) {
        const char *metric = kvsi_unit_metric(s->units + u);
        kvsi_part parts[KVSI_LENGTH_PARTS];
        kvs_status st;

        if (!metric || !kvsi_unit_has(s->units + u, metric) ||
            !kvsi_unit_score_of(s->units + u, metric).binary)
            continue;
        st = kvsi_parts_by_length(parts, s->units + u, metric, err);
        if (st != KVS_OK) {
            kvsi_table_release(&table);
            return st;
        }
        rows++;
        kvsi_table_add(&table, "%s", s->units[u].name);
        kvsi_table_add(&table, "%s", metric);
        for (size_t p = 0; p < KVSI_LENGTH_PARTS; p++)
            add_percent(&table, parts[p].right, parts[p].count);
        kvsi_table_add(&table, "%zu, %zu, %zu, %zu, %zu", parts[0].shortest, parts[0].longest,
                       parts[1].longest, parts[2].longest, parts[3].longest);
    }
    if (rows == 0) {
        kvsi_table_release(&table);
        return KVS_OK;
    }
    kvsi_block_text(report, KVSI_BLOCK_TEXT, KVSI_EVERYWHERE,
                    "By length of the prompt, in quarters of the documents, with Wilson's 95 %% "
                    "interval; the last column has the quarters' limits:");
    kvsi_block_table(report, KVSI_EVERYWHERE, &table);
    return KVS_OK;
}

static void add_calibration(kvs_eval_report *report, const kvsi_unit *unit, int where)
{
    const kvsi_measures m = kvsi_measures_of(unit);
    kvsi_table table = {0};

    if (isnan(m.ece))
        return;
    kvsi_table_headings(&table, "confidence|documents|mean confidence|accuracy");
    for (size_t b = 0; b < KVSI_CALIBRATION_BINS; b++) {
        if (m.bins[b].count == 0)
            continue;
        kvsi_table_add(&table, "%.3f–%.3f", (double)b / KVSI_CALIBRATION_BINS,
                       (double)(b + 1) / KVSI_CALIBRATION_BINS);
        kvsi_table_add(&table, "%zu", m.bins[b].count);
        kvsi_table_add(&table, "%.2f", 100 * m.bins[b].confidence);
        add_percent(&table, m.bins[b].right, m.bins[b].count);
    }
    kvsi_block_text(report, KVSI_BLOCK_TEXT, where, "Calibration on %s:", unit->name);
    kvsi_block_table(report, where, &table);
}

/* ---- pictures -------------------------------------------------------------------------------- */

/* Accuracy against confidence, one line per task. */
static void add_calibration_chart(kvs_eval_report *report, const shown *s)
{
    kvsi_chart *chart;
    kvsi_panel *panel;
    kvsi_series *diagonal;
    size_t drawn = 0;

    for (size_t u = 0; u < s->count; u++)
        drawn += s->units[u].kind == KVSI_STORED_CHOICES;
    if (drawn == 0)
        return;
    chart = kvsi_block_chart(report, "calibration",
                             "Accuracy against confidence, the probability of the likeliest "
                             "choice, in 15 bins, with the standard error. A calibrated model is "
                             "on the grey line. Bins of fewer than 10 documents are left out.");
    if (!chart)
        return;
    panel = kvsi_chart_panel(chart, "", "confidence", "accuracy");
    panel->x_low = panel->y_low = 0;
    panel->x_high = panel->y_high = 1;
    panel->key = "outside right top";
    diagonal = kvsi_chart_series(chart, KVSI_RULE, 0, "");
    kvsi_series_add(diagonal, 0, 0, NAN);
    kvsi_series_add(diagonal, 1, 1, NAN);
    for (size_t u = 0, colour = 0; u < s->count; u++) {
        const kvsi_measures m = kvsi_measures_of(s->units + u);
        kvsi_series *series;

        if (isnan(m.ece))
            continue;
        series = kvsi_chart_series(chart, KVSI_MARKED, colour++, s->units[u].name);
        for (size_t b = 0; b < KVSI_CALIBRATION_BINS; b++) {
            const double n = (double)m.bins[b].count, p = (double)m.bins[b].right / n;

            if (m.bins[b].count >= 10)
                kvsi_series_add(series, m.bins[b].confidence, p, sqrt(p * (1 - p) / (n - 1)));
        }
    }
}

/* ---- shots ----------------------------------------------------------------------------------- */

static int same_model(const shown *a, const shown *b)
{
    return *a->model->model && strcmp(a->model->model, b->model->model) == 0;
}

/* Whether another result of the same model has this unit with another number of shots. */
static int has_other_shots(const shown *list, size_t count, size_t index, const kvsi_unit *unit)
{
    for (size_t i = 0; i < count; i++) {
        const kvsi_unit *other = kvsi_unit_find(list[i].units, list[i].count, unit->name);

        if (i != index && same_model(list + i, list + index) && other && other->shots >= 0 &&
            unit->shots >= 0 && other->shots != unit->shots)
            return 1;
    }
    return 0;
}

/* Results of the model with the next larger number of shots; count = none. */
static size_t next_shots(const shown *list, size_t count, size_t index, const char *unit, int after)
{
    size_t next = count;
    int least = 0;

    for (size_t i = 0; i < count; i++) {
        const kvsi_unit *u = kvsi_unit_find(list[i].units, list[i].count, unit);

        if (!u || u->shots <= after || !same_model(list + i, list + index))
            continue;
        if (next == count || u->shots < least) {
            next = i;
            least = u->shots;
        }
    }
    return next;
}

/* The first result of a model with this unit stands for all of them. */
static int is_first(const shown *list, size_t index, const char *unit)
{
    for (size_t i = 0; i < index; i++)
        if (same_model(list + i, list + index) &&
            kvsi_unit_find(list[i].units, list[i].count, unit))
            return 0;
    return 1;
}

/* Accuracy against the number of shots, for results of one model that differ in it. */
static void add_shots_table(kvs_eval_report *report, json_t *json, const shown *list, size_t count)
{
    kvsi_table table = {.left = 3};
    kvsi_chart *chart = NULL;
    kvsi_panel *panel = NULL;
    size_t rows = 0, colour = 0;

    kvsi_table_headings(&table, "model|task|metric|shots|documents|score");
    for (size_t i = 0; i < count; i++)
        for (size_t u = 0; u < list[i].count; u++) {
            const kvsi_unit *unit = list[i].units + u;
            const char *metric = kvsi_unit_metric(unit);
            kvsi_series *series;
            kvsi_text label = {0};
            size_t at;

            if (!metric || !is_first(list, i, unit->name) || !has_other_shots(list, count, i, unit))
                continue;
            if (!chart) {
                chart = kvsi_block_chart(report, "shots",
                                         "Score against the number of shots in the prompt, with "
                                         "the standard error.");
                if (!chart)
                    break;
                panel = kvsi_chart_panel(chart, "", "shots", "score in percent");
                panel->key = "outside right top";
                panel->x_low = -0.3;
                panel->x_high = 1;
            }
            kvsi_text_format(&label, "%s, %s", unit->name, list[i].model->name);
            series = kvsi_chart_series(chart, KVSI_MARKED, colour++, label.data ? label.data : "");
            kvsi_text_release(&label);
            for (at = next_shots(list, count, i, unit->name, -1); at < count;
                 at = next_shots(list, count, i, unit->name, unit->shots)) {
                kvsi_unit_score score;

                unit = kvsi_unit_find(list[at].units, list[at].count, list[i].units[u].name);
                score = kvsi_unit_score_of(unit, metric);
                kvsi_table_add(&table, "%s", list[i].model->name);
                kvsi_table_add(&table, "%s", unit->name);
                kvsi_table_add(&table, "%s", metric);
                add_shots(&table, unit->shots);
                kvsi_table_add(&table, "%zu", score.count);
                kvsi_table_add(&table, "%.2f ± %.2f", 100 * score.value, 100 * score.error);
                panel->x_high = fmax(panel->x_high, unit->shots + 0.3);
                kvsi_series_add(series, unit->shots, 100 * score.value, 100 * score.error);
                json_array_append_new(
                    json, json_pack("{s:s, s:s, s:i, s:I, s:o, s:o}", "task", unit->name, "metric",
                                    metric, "shots", unit->shots, "documents",
                                    (json_int_t)score.count, "score", kvsi_json_number(score.value),
                                    "error", kvsi_json_number(score.error)));
                rows++;
            }
        }
    if (rows == 0) {
        kvsi_table_release(&table);
        return;
    }
    kvsi_block_text(report, KVSI_BLOCK_HEADING, KVSI_EVERYWHERE, "Number of shots");
    kvsi_block_table(report, KVSI_EVERYWHERE, &table);
}

/* ---- JSON ------------------------------------------------------------------------------------ */

static json_t *estimate_json(kvsi_estimate e)
{
    return json_pack("{s:o, s:o, s:I}", "mean", kvsi_json_number(e.mean), "error",
                     kvsi_json_number(e.error), "documents", (json_int_t)e.count);
}

static json_t *part_json(const kvsi_part *part)
{
    return json_pack("{s:I, s:I, s:o}", "documents", (json_int_t)part->count, "right",
                     (json_int_t)part->right, "score",
                     kvsi_json_number((double)part->right / (double)part->count));
}

static void add_scores_json(json_t *object, const kvsi_unit *unit)
{
    json_t *scores = json_object();

    for (size_t k = 0; k < unit->tasks[0]->metric_count; k++) {
        const char *metric = unit->tasks[0]->metrics[k];
        kvsi_unit_score s;

        if (!kvsi_unit_has(unit, metric))
            continue;
        s = kvsi_unit_score_of(unit, metric);
        json_object_set_new(scores, metric,
                            json_pack("{s:o, s:o}", "value", kvsi_json_number(s.value), "error",
                                      kvsi_json_number(s.error)));
    }
    json_object_set_new(object, "scores", scores);
}

static json_t *unit_json(const kvsi_unit *unit, kvs_err *err)
{
    const kvsi_measures m = kvsi_measures_of(unit);
    const kvsi_baselines b = kvsi_baselines_of(unit);
    const char *metric = kvsi_unit_metric(unit);
    json_t *object = json_pack("{s:s, s:i, s:I}", "task", unit->name, "shots", unit->shots,
                               "documents", (json_int_t)unit->documents);

    if (!object)
        return NULL;
    add_scores_json(object, unit);
    if (b.count > 0)
        json_object_set_new(object, "baselines",
                            json_pack("{s:o, s:o, s:o}", "first",
                                      kvsi_json_number((double)b.first / (double)b.count),
                                      "longest",
                                      kvsi_json_number((double)b.longest / (double)b.count),
                                      "random", kvsi_json_number(b.random)));
    if (!isnan(m.bits.mean))
        json_object_set_new(object, "gold_bits_per_byte", estimate_json(m.bits));
    if (!isnan(m.ece)) {
        json_t *bins = json_array();

        for (size_t i = 0; i < KVSI_CALIBRATION_BINS; i++)
            json_array_append_new(
                bins, json_pack("{s:I, s:I, s:o}", "documents", (json_int_t)m.bins[i].count,
                                "right", (json_int_t)m.bins[i].right, "confidence",
                                m.bins[i].count > 0 ? kvsi_json_number(m.bins[i].confidence)
                                                    : json_null()));
        json_object_set_new(object, "margin", estimate_json(m.margin));
        json_object_set_new(object, "brier", estimate_json(m.brier));
        json_object_set_new(object, "ece", kvsi_json_number(m.ece));
        json_object_set_new(object, "reliability", bins);
    }
    if (unit->kind == KVSI_STORED_LAST_WORD) {
        kvsi_part parts[2];

        kvsi_parts_by_copy(parts, unit);
        for (int p = 0; p < 2; p++) {
            json_t *part = part_json(parts + p);

            json_object_set_new(part, "perplexity",
                                kvsi_json_number(exp(-parts[p].likelihood.mean)));
            json_object_set_new(object, p ? "words_in_context" : "new_words", part);
        }
    }
    if (metric && kvsi_unit_has(unit, metric) && kvsi_unit_score_of(unit, metric).binary) {
        kvsi_part parts[KVSI_LENGTH_PARTS];
        json_t *list = json_array();

        if (kvsi_parts_by_length(parts, unit, metric, err) == KVS_OK)
            for (size_t p = 0; p < KVSI_LENGTH_PARTS; p++) {
                json_t *part = part_json(parts + p);

                json_object_set_new(part, "shortest", json_integer((json_int_t)parts[p].shortest));
                json_object_set_new(part, "longest", json_integer((json_int_t)parts[p].longest));
                json_array_append_new(list, part);
            }
        json_object_set_new(object, "by_length", list);
    }
    return object;
}

static json_t *model_json(const shown *s, kvs_err *err)
{
    json_t *tasks = json_array(), *subjects = json_array();

    for (size_t u = 0; u < s->count; u++)
        json_array_append_new(tasks, unit_json(s->units + u, err));
    for (size_t u = 0; u < s->subject_count; u++)
        if (s->subjects[u].tasks[0]->group)
            json_array_append_new(subjects, unit_json(s->subjects + u, err));
    return json_pack("{s:o, s:o, s:o, s:o, s:o}", "label",
                     kvsi_json_text(s->model->label, strlen(s->model->label)), "model",
                     kvsi_json_text(s->model->model, strlen(s->model->model)), "path",
                     kvsi_json_path(s->model->path), "tasks", tasks, "subjects", subjects);
}

/* ---------------------------------------------------------------------------------------------- */

static kvs_status show_model(kvs_eval_report *report, const shown *s, int details, kvs_err *err)
{
    const int where = details ? KVSI_EVERYWHERE : KVSI_ON_PAGE;

    kvsi_block_text(report, KVSI_BLOCK_HEADING, KVSI_EVERYWHERE, "%s", s->model->label);
    add_scores(report, s->units, s->count);
    add_measures(report, s);
    add_calibration_chart(report, s);
    for (size_t u = 0; u < s->count; u++)
        if (s->units[u].kind == KVSI_STORED_LAST_WORD)
            add_copies(report, s->units + u);
    TRY(add_lengths(report, s, err));
    if (s->subject_count > s->count && details) {
        kvsi_block_text(report, KVSI_BLOCK_TEXT, KVSI_EVERYWHERE, "Subjects:");
        add_scores(report, s->subjects, s->subject_count);
    }
    for (size_t u = 0; u < s->count; u++)
        add_calibration(report, s->units + u, where);
    for (size_t i = 0; i < s->model->remark_count; i++)
        kvsi_block_text(report, KVSI_BLOCK_TEXT, KVSI_EVERYWHERE, "%s", s->model->remarks[i]);
    for (size_t u = 0; u < s->count; u++)
        for (size_t k = 0; k < s->units[u].tasks[0]->metric_count; k++) {
            char text[512];

            kvsi_baseline_remark(text, sizeof text, s->units + u, s->model->label,
                                 s->units[u].tasks[0]->metrics[k]);
            if (*text)
                kvsi_block_text(report, KVSI_BLOCK_TEXT, KVSI_EVERYWHERE, "%s", text);
        }
    return KVS_OK;
}

kvs_status kvsi_view_show(kvs_eval_report *report, const kvsi_stored *models, size_t count,
                          const kvs_eval_report_options *options, kvs_err *err)
{
    shown *list = kvsi_alloc(count, sizeof *list);
    json_t *all = json_array(), *shots = json_array();
    kvs_status st = KVS_OK;

    if (!list) {
        st = kvsi_no_memory(err, "%zu models", count);
        goto out;
    }
    for (size_t i = 0; i < count; i++) {
        shown *s = list + i;

        s->model = models + i;
        TRY_OUT(kvsi_units_of(&s->units, &s->count, models + i, 0, err));
        TRY_OUT(kvsi_units_of(&s->subjects, &s->subject_count, models + i, 1, err));
        TRY_OUT(show_model(report, s, options->details, err));
        json_array_append_new(all, model_json(s, err));
    }
    add_shots_table(report, shots, list, count);
    report->json = json_pack("{s:O, s:O}", "models", all, "shots", shots);
    st = kvsi_json_check_made(report->json, "the results", err);
out:
    for (size_t i = 0; list && i < count; i++) {
        kvsi_units_free(list[i].units, list[i].count);
        kvsi_units_free(list[i].subjects, list[i].subject_count);
    }
    kvsi_free(list);
    json_decref(all);
    json_decref(shots);
    return st;
}
