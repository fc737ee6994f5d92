/* A comparison as tables, a picture and JSON. */
#include "base/memory.h"
#include "eval/compare.h"
#include "eval/report_blocks.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

enum { CELL = 96 };

static const double SIGNIFICANT = 0.05;

/* ---- scores ---------------------------------------------------------------------------------- */

static void add_score(kvsi_table *table, const kvsi_unit *unit, const char *metric)
{
    kvsi_unit_score score;
    kvsi_interval w;

    if (!unit || !kvsi_unit_has(unit, metric)) {
        kvsi_table_add(table, "%s", "");
        return;
    }
    score = kvsi_unit_score_of(unit, metric);
    if (!score.binary) {
        kvsi_table_add(table, "%.4g", score.value);
        return;
    }
    w = kvsi_wilson(score.right, score.count);
    kvsi_table_add(table, "%.2f (%.1f–%.1f)", 100 * score.value, 100 * w.low, 100 * w.high);
}

/* Accuracies of every model with Wilson's intervals, and what needs no model. */
static void add_scores(kvs_eval_report *report, const kvsi_comparison *c)
{
    kvsi_table table = {.left = 2};

    kvsi_table_add(&table, "task");
    kvsi_table_add(&table, "metric");
    kvsi_table_add(&table, "documents");
    for (size_t m = 0; m < c->model_count; m++)
        kvsi_table_add(&table, "%s", c->models[m].label);
    kvsi_table_add(&table, "first");
    kvsi_table_add(&table, "longest");
    kvsi_table_add(&table, "chance");
    table.columns = table.cells;
    for (size_t u = 0; u < c->unit_counts[0]; u++) {
        const kvsi_unit *unit = c->units[0] + u;
        const kvsi_baselines b = kvsi_baselines_of(unit);

        for (size_t k = 0; k < unit->tasks[0]->metric_count; k++) {
            const char *metric = unit->tasks[0]->metrics[k];

            if (!kvsi_unit_has(unit, metric))
                continue;
            kvsi_table_add(&table, "%s", unit->name);
            kvsi_table_add(&table, "%s", metric);
            kvsi_table_add(&table, "%zu", unit->documents);
            for (size_t m = 0; m < c->model_count; m++)
                add_score(&table, kvsi_unit_find(c->units[m], c->unit_counts[m], unit->name),
                          metric);
            if (b.count == 0) {
                for (int i = 0; i < 3; i++)
                    kvsi_table_add(&table, "%s", "");
                continue;
            }
            kvsi_table_add(&table, "%.2f", 100 * (double)b.first / (double)b.count);
            kvsi_table_add(&table, "%.2f", 100 * (double)b.longest / (double)b.count);
            kvsi_table_add(&table, "%.2f", 100 * b.random);
        }
    }
    kvsi_block_text(report, KVSI_BLOCK_HEADING, KVSI_EVERYWHERE, "Scores");
    kvsi_block_table(report, KVSI_EVERYWHERE, &table);
    kvsi_block_text(report, KVSI_BLOCK_NOTE, KVSI_ON_PAGE,
                    "Accuracies are in percent, with Wilson's 95 %% interval. First, longest and "
                    "chance need no model: always the first choice, always the longest one, and "
                    "the expected score of a random choice.");
}

/* ---- differences ----------------------------------------------------------------------------- */

static void add_p(kvsi_table *table, double p)
{
    char text[32];

    kvsi_print_p(text, sizeof text, p);
    kvsi_table_add(table, "%s", text);
}

/* A difference is shown in percent points, a perplexity as the ratio, another mean as it is. */
static void print_difference(char *out, const kvsi_compared *row)
{
    if (row->logarithms)
        snprintf(out, CELL, "× %.4f", exp(row->difference));
    else if (row->binary)
        snprintf(out, CELL, "%+.2f ± %.2f", 100 * row->difference, 100 * row->error);
    else
        snprintf(out, CELL, "%+.4f ± %.4f", row->difference, row->error);
}

static void print_interval(char *out, const kvsi_compared *row, kvsi_interval i)
{
    if (isnan(i.low))
        out[0] = '\0';
    else if (row->logarithms)
        snprintf(out, CELL, "× %.4f to %.4f", exp(i.low), exp(i.high));
    else if (row->binary)
        snprintf(out, CELL, "%+.2f to %+.2f", 100 * i.low, 100 * i.high);
    else
        snprintf(out, CELL, "%+.4f to %+.4f", i.low, i.high);
}

static void print_value(char *out, const kvsi_compared *row, double value)
{
    if (row->binary)
        snprintf(out, CELL, "%.2f", 100 * value);
    else
        snprintf(out, CELL, row->logarithms ? "%.4g" : "%.4f", value);
}

static int any_subjects(const kvsi_comparison *c, size_t model, unsigned roles)
{
    for (size_t i = 0; i < c->count; i++)
        if (c->rows[i].model == model && roles >> c->rows[i].role & 1 && c->rows[i].subjects > 1)
            return 1;
    return 0;
}

static int is_in(const kvsi_compared *row, size_t model, unsigned roles)
{
    return row->model == model && roles >> row->role & 1;
}

/* One table of the rows with these roles; `counts`: with the documents that differ. */
static void add_differences(kvs_eval_report *report, const kvsi_comparison *c, size_t model,
                            unsigned roles, int counts, int where)
{
    const int subjects = any_subjects(c, model, roles);
    kvsi_table table = {.left = 2};
    size_t rows = 0;
    char cell[CELL];

    kvsi_table_headings(&table, "task|metric|documents");
    kvsi_table_add(&table, "%s", c->models[0].label);
    kvsi_table_add(&table, "%s", c->models[model].label);
    kvsi_table_add(&table, "difference");
    kvsi_table_add(&table, "95 %% interval");
    if (subjects)
        kvsi_table_add(&table, "by subject");
    if (counts) {
        kvsi_table_add(&table, "gained");
        kvsi_table_add(&table, "lost");
    }
    kvsi_table_add(&table, "p");
    if (counts)
        kvsi_table_add(&table, "mid-p");
    kvsi_table_add(&table, "Holm");
    table.columns = table.cells;
    for (size_t i = 0; i < c->count; i++) {
        const kvsi_compared *row = c->rows + i;

        if (!is_in(row, model, roles))
            continue;
        rows++;
        kvsi_table_add(&table, "%s", row->unit);
        kvsi_table_add(&table, "%s", row->metric);
        kvsi_table_add(&table, "%zu", row->count);
        print_value(cell, row, row->values[0]);
        kvsi_table_add(&table, "%s", cell);
        print_value(cell, row, row->values[1]);
        kvsi_table_add(&table, "%s", cell);
        print_difference(cell, row);
        if (row->holm < SIGNIFICANT)
            kvsi_table_bold(&table);
        kvsi_table_add(&table, "%s", cell);
        print_interval(cell, row, row->interval);
        kvsi_table_add(&table, "%s", cell);
        if (subjects) {
            print_interval(cell, row, row->by_subject.interval);
            kvsi_table_add(&table, "%s", cell);
        }
        if (counts && row->binary) {
            kvsi_table_add(&table, "%zu", row->gained);
            kvsi_table_add(&table, "%zu", row->lost);
        } else if (counts) {
            kvsi_table_add(&table, "%s", "");
            kvsi_table_add(&table, "%s", "");
        }
        add_p(&table, row->p);
        if (counts)
            add_p(&table, row->mid);
        add_p(&table, row->holm);
    }
    if (rows > 0)
        kvsi_block_table(report, where, &table);
    else
        kvsi_table_release(&table);
}

/* ---- what it says ---------------------------------------------------------------------------- */

/* Whether the second model is better: 1, worse: -1, or neither is shown: 0. */
static int verdict(const kvsi_compared *row)
{
    if (!(row->holm < SIGNIFICANT))
        return 0;
    return (row->difference > 0) == !row->lower_is_better ? 1 : -1;
}

/* "better on A, B; worse on C; not told apart on D" for one role. */
static void add_verdicts(kvs_eval_report *report, const kvsi_comparison *c, size_t model,
                         kvsi_compare_role role, const char *what)
{
    static const struct {
        int verdict;
        const char *words;
    } parts[] = {{1, "better"}, {-1, "worse"}, {0, "not told apart"}};
    kvsi_text text = {0};

    for (size_t p = 0; p < 3; p++) {
        size_t found = 0;

        for (size_t i = 0; i < c->count; i++) {
            const kvsi_compared *row = c->rows + i;

            if (row->model != model || row->role != role || verdict(row) != parts[p].verdict)
                continue;
            if (found == 0)
                kvsi_text_format(&text, "%s%s on ", text.length > 0 ? "; " : "", parts[p].words);
            kvsi_text_format(&text, "%s%s", found > 0 ? ", " : "", row->unit);
            found++;
        }
    }
    report->failed |= text.failed;
    if (text.length > 0)
        kvsi_block_text(report, KVSI_BLOCK_TEXT, KVSI_EVERYWHERE, "%s of '%s', against '%s': %s.",
                        what, c->models[model].label, c->models[0].label, text.data);
    kvsi_text_release(&text);
}

static void add_method(kvs_eval_report *report, const kvsi_comparison *c,
                       const kvs_eval_report_options *o)
{
    kvsi_block_text(report, KVSI_BLOCK_NOTE, KVSI_EVERYWHERE,
                    "Differences are those of the second model from the first on the same "
                    "documents, ± their standard error; accuracies in percent points. p is "
                    "McNemar's exact test (mid-p beside it), or for means and likelihoods a paired "
                    "bootstrap of %zu draws, seed %llu. Holm corrects for the %zu main metrics, "
                    "%zu other metrics and %zu likelihoods each. A star or bold print: below 0.05 "
                    "after the correction.%s",
                    o->resamples, (unsigned long long)o->seed, c->tests[KVSI_ROLE_MAIN],
                    c->tests[KVSI_ROLE_OTHER], c->tests[KVSI_ROLE_LIKELIHOOD],
                    c->tests[KVSI_ROLE_SUBJECT] > 0
                        ? " By subject: the interval if subjects are drawn rather than documents."
                        : "");
}

/* ---- the picture ----------------------------------------------------------------------------- */

/* A likelihood as the relative change of the bits of the right answer, in percent, so that all
 * tasks share an axis. */
static double relative(const kvsi_compared *row, double value)
{
    return 100 * value / (row->logarithms ? fabs(log(row->values[0])) : row->values[0]);
}

static size_t row_of(kvsi_panel *panel, const char *unit)
{
    for (size_t i = 0; i < panel->row_count; i++)
        if (strncmp(panel->rows[i], unit, sizeof panel->rows[i] - 1) == 0)
            return i;
    if (panel->row_count == KVSI_ROWS_MAX)
        return KVSI_ROWS_MAX;
    snprintf(panel->rows[panel->row_count], sizeof *panel->rows, "%.63s", unit);
    return panel->row_count++;
}

/* Points of several models in one row are a little below each other. */
static void add_panel(kvsi_chart *chart, const kvsi_comparison *c, kvsi_compare_role role,
                      const char *title, const char *x_label)
{
    kvsi_panel *panel = kvsi_chart_panel(chart, title, x_label, "");
    kvsi_series *zero = kvsi_chart_series(chart, KVSI_RULE, 0, "");
    double widest = 1e-6;

    panel->key = c->model_count > 2 ? "outside bottom center horizontal" : NULL;
    for (size_t m = 1; m < c->model_count; m++) {
        kvsi_series *series = kvsi_chart_series(chart, KVSI_MARKS, m - 1, c->models[m].label);

        for (size_t i = 0; i < c->count; i++) {
            const kvsi_compared *row = c->rows + i;
            const double spread = 0.16 * ((double)m - 0.5 * (double)c->model_count);
            double x = 100 * row->difference, half = 50 * (row->interval.high - row->interval.low);
            size_t y;

            if (!is_in(row, m, 1u << role))
                continue;
            if (role == KVSI_ROLE_LIKELIHOOD) {
                x = relative(row, row->difference);
                half = relative(row, row->interval.high - row->interval.low) / 2;
            }
            y = row_of(panel, row->unit);
            if (y == KVSI_ROWS_MAX)
                continue;
            kvsi_series_add(series, x, (double)y + spread, half);
            widest = fmax(widest, fabs(x) + half);
        }
    }
    panel->x_low = -1.08 * widest;
    panel->x_high = 1.08 * widest;
    kvsi_series_add(zero, 0, -0.6, NAN);
    kvsi_series_add(zero, 0, (double)panel->row_count - 0.4, NAN);
}

static void add_chart(kvs_eval_report *report, const kvsi_comparison *c)
{
    kvsi_chart *chart = kvsi_block_chart(
        report, "differences",
        "Difference from the first model with its 95 % interval. Left: accuracy in percent points, "
        "the main metric of each task. Right: bits of the right answer, in percent of those of the "
        "first model; less is better.");

    if (!chart)
        return;
    if (c->tests[KVSI_ROLE_MAIN] > 0)
        add_panel(chart, c, KVSI_ROLE_MAIN, "accuracy (right is better)",
                  "difference in percent points");
    if (c->tests[KVSI_ROLE_LIKELIHOOD] > 0)
        add_panel(chart, c, KVSI_ROLE_LIKELIHOOD, "bits of the right answer (left is better)",
                  "change in percent");
}

/* ---- JSON ------------------------------------------------------------------------------------ */

static json_t *interval_json(kvsi_interval i)
{
    return json_pack("[o, o]", kvsi_json_number(i.low), kvsi_json_number(i.high));
}

static json_t *row_json(const kvsi_comparison *c, const kvsi_compared *row)
{
    static const char *const roles[] = {"main", "other", "likelihood", "subject"};
    json_t *object =
        json_pack("{s:s, s:s, s:s, s:o, s:o, s:I, s:[o, o], s:b, s:o, s:o, s:o, s:o, s:o}", "task",
                  row->unit, "metric", row->metric, "role", roles[row->role], "first",
                  kvsi_json_text(c->models[0].label, strlen(c->models[0].label)), "second",
                  kvsi_json_text(c->models[row->model].label, strlen(c->models[row->model].label)),
                  "documents", (json_int_t)row->count, "values", kvsi_json_number(row->values[0]),
                  kvsi_json_number(row->values[1]), "difference_of_logarithms", row->logarithms,
                  "difference", kvsi_json_number(row->difference), "error",
                  kvsi_json_number(row->error), "interval", interval_json(row->interval), "p",
                  kvsi_json_number(row->p), "p_holm", kvsi_json_number(row->holm));

    if (object && row->binary)
        json_object_update_new(
            object, json_pack("{s:I, s:I, s:o, s:[o, o]}", "gained", (json_int_t)row->gained,
                              "lost", (json_int_t)row->lost, "mid_p", kvsi_json_number(row->mid),
                              "wilson", interval_json(kvsi_wilson(row->right[0], row->count)),
                              interval_json(kvsi_wilson(row->right[1], row->count))));
    if (object && row->subjects > 1)
        json_object_update_new(object,
                               json_pack("{s:{s:I, s:o, s:o, s:o}}", "by_subject", "subjects",
                                         (json_int_t)row->subjects, "error",
                                         kvsi_json_number(row->by_subject.error), "interval",
                                         interval_json(row->by_subject.interval), "p",
                                         kvsi_json_number(row->by_subject.p)));
    return object;
}

static json_t *baselines_json(const kvsi_comparison *c)
{
    json_t *object = json_object();

    for (size_t u = 0; u < c->unit_counts[0]; u++) {
        const kvsi_baselines b = kvsi_baselines_of(c->units[0] + u);

        if (b.count > 0)
            json_object_set_new(
                object, c->units[0][u].name,
                json_pack("{s:I, s:o, s:o, s:o}", "documents", (json_int_t)b.count, "first",
                          kvsi_json_number((double)b.first / (double)b.count), "longest",
                          kvsi_json_number((double)b.longest / (double)b.count), "random",
                          kvsi_json_number(b.random)));
    }
    return object;
}

static json_t *comparison_json(const kvsi_comparison *c, const kvs_eval_report_options *o)
{
    json_t *models = json_array(), *rows = json_array(), *remarks = json_array();

    for (size_t m = 0; m < c->model_count; m++)
        json_array_append_new(
            models,
            json_pack("{s:o, s:o, s:o}", "label",
                      kvsi_json_text(c->models[m].label, strlen(c->models[m].label)), "model",
                      kvsi_json_text(c->models[m].model, strlen(c->models[m].model)), "path",
                      kvsi_json_path(c->models[m].path)));
    for (size_t i = 0; i < c->count; i++)
        json_array_append_new(rows, row_json(c, c->rows + i));
    for (size_t i = 0; i < c->remark_count; i++)
        json_array_append_new(remarks, kvsi_json_text(c->remarks[i], strlen(c->remarks[i])));
    return json_pack("{s:o, s:o, s:o, s:I, s:I, s:o}", "models", models, "tests", rows, "baselines",
                     baselines_json(c), "resamples", (json_int_t)o->resamples, "seed",
                     (json_int_t)o->seed, "remarks", remarks);
}

/* ---------------------------------------------------------------------------------------------- */

kvs_status kvsi_view_compare(kvs_eval_report *report, const kvsi_stored *models, size_t count,
                             const kvs_eval_report_options *options, kvs_err *err)
{
    const kvsi_compare_options how = {
        .resamples = options->resamples,
        .seed = options->seed,
        .same_prompts = options->same_prompts,
    };
    const unsigned scores = 1u << KVSI_ROLE_MAIN | 1u << KVSI_ROLE_OTHER;
    kvsi_comparison c;

    TRY(kvsi_comparison_create(&c, models, count, &how, err));
    add_chart(report, &c);
    for (size_t m = 1; m < count; m++) {
        kvsi_block_text(report, KVSI_BLOCK_HEADING, KVSI_EVERYWHERE, "%s against %s",
                        models[m].label, models[0].label);
        add_differences(report, &c, m, scores, 1, KVSI_EVERYWHERE);
        if (c.tests[KVSI_ROLE_LIKELIHOOD] > 0) {
            kvsi_block_text(report, KVSI_BLOCK_TEXT, KVSI_EVERYWHERE,
                            "Likelihood of the right answer (less is better):");
            add_differences(report, &c, m, 1u << KVSI_ROLE_LIKELIHOOD, 0, KVSI_EVERYWHERE);
        }
        if (c.tests[KVSI_ROLE_SUBJECT] > 0 && options->details) {
            kvsi_block_text(report, KVSI_BLOCK_TEXT, KVSI_EVERYWHERE, "Subjects:");
            add_differences(report, &c, m, 1u << KVSI_ROLE_SUBJECT, 1, KVSI_EVERYWHERE);
        }
        add_verdicts(report, &c, m, KVSI_ROLE_MAIN, "Scores");
        add_verdicts(report, &c, m, KVSI_ROLE_LIKELIHOOD, "Likelihoods");
    }
    add_method(report, &c, options);
    add_scores(report, &c);
    if (c.remark_count > 0)
        kvsi_block_text(report, KVSI_BLOCK_HEADING, KVSI_EVERYWHERE, "Remarks");
    for (size_t i = 0; i < c.remark_count; i++)
        kvsi_block_text(report, KVSI_BLOCK_TEXT, KVSI_EVERYWHERE, "%s", c.remarks[i]);
    report->json = comparison_json(&c, options);
    kvsi_comparison_release(&c);
    return kvsi_json_check_made(report->json, "the comparison", err);
}
