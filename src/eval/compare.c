#include "eval/compare.h"

#include "base/array.h"
#include "base/memory.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

static kvs_status remark(kvsi_comparison *c, kvs_err *err, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

static kvs_status remark(kvsi_comparison *c, kvs_err *err, const char *format, ...)
{
    char text[1024];
    size_t capacity = c->remark_count;
    va_list args;

    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    TRY(kvsi_array_reserve(&c->remarks, &capacity, c->remark_count + 1, sizeof *c->remarks, err));
    c->remarks[c->remark_count] = kvsi_strdup(text);
    return c->remarks[c->remark_count++] ? KVS_OK : kvsi_no_memory(err, "a remark");
}

double kvsi_gold_bits(const kvsi_stored_document *document)
{
    if (document->gold == KVSI_NO_CHOICE || document->gold_bytes == 0)
        return NAN;
    return -document->likelihoods[document->gold] / (log(2) * (double)document->gold_bytes);
}

/* ---- baselines ------------------------------------------------------------------------------- */

kvsi_baselines kvsi_baselines_of(const kvsi_unit *unit)
{
    kvsi_baselines b = {0};

    if (unit->kind != KVSI_STORED_CHOICES)
        return b;
    for (size_t t = 0; t < unit->task_count; t++)
        for (size_t i = 0; i < unit->tasks[t]->count; i++) {
            const kvsi_stored_document *d = unit->tasks[t]->documents + i;

            if (d->gold == KVSI_NO_CHOICE)
                continue;
            b.count++;
            b.first += d->gold == 0;
            b.longest += d->gold == d->longest;
            b.random += 1 / (double)d->choices;
        }
    if (b.count > 0)
        b.random /= (double)b.count;
    return b;
}

/* Documents in which the model chose the first choice. */
static size_t chosen_first(const kvsi_unit *unit)
{
    size_t count = 0;

    for (size_t t = 0; t < unit->task_count; t++)
        for (size_t i = 0; i < unit->tasks[t]->count; i++)
            count += kvsi_stored_choice(unit->tasks[t]->documents + i) == 0;
    return count;
}

void kvsi_baseline_remark(char *out, size_t size, const kvsi_unit *unit, const char *label,
                          const char *metric)
{
    const kvsi_baselines b = kvsi_baselines_of(unit);
    const kvsi_unit_score score = kvsi_unit_score_of(unit, metric);
    const char *what = NULL;

    out[0] = '\0';
    if (b.count == 0 || b.count != score.count || !score.binary)
        return;
    if (score.right == b.first)
        what = "always the first choice";
    else if (score.right == b.longest)
        what = "always the longest choice";
    else if (fabs((double)score.right - b.random * (double)b.count) < 1e-6)
        what = "chance";
    if (what)
        snprintf(out, size,
                 "%s of %s on %s, %zu of %zu, is exactly that of %s; the likeliest choice is the "
                 "first in %zu documents",
                 metric, label, unit->name, score.right, score.count, what, chosen_first(unit));
}

/* ---- one row --------------------------------------------------------------------------------- */

/* Values of a metric for the pairs that have it in both models. */
typedef struct values {
    double *a, *b;    /* [count] */
    size_t *subjects; /* [count] */
    size_t count;
    size_t subject_count;
    double *sums; /* [subject_count]: differences */
    size_t *sizes;
    double *draws; /* [resamples] */
} values;

static void values_release(values *v)
{
    kvsi_free(v->a);
    kvsi_free(v->b);
    kvsi_free(v->subjects);
    kvsi_free(v->sums);
    kvsi_free(v->sizes);
    kvsi_free(v->draws);
}

static kvs_status values_init(values *v, const kvsi_pairs *pairs, size_t resamples, kvs_err *err)
{
    v->a = kvsi_alloc(pairs->count, sizeof *v->a);
    v->b = kvsi_alloc(pairs->count, sizeof *v->b);
    v->subjects = kvsi_alloc(pairs->count, sizeof *v->subjects);
    v->sums = kvsi_alloc(pairs->subjects, sizeof *v->sums);
    v->sizes = kvsi_alloc(pairs->subjects, sizeof *v->sizes);
    v->draws = kvsi_alloc(resamples, sizeof *v->draws);
    if (!v->a || !v->b || !v->subjects || !v->sums || !v->sizes || !v->draws)
        return kvsi_no_memory(err, "%zu documents", pairs->count);
    return KVS_OK;
}

static double metric_of(const kvsi_stored_task *task, const kvsi_stored_document *d,
                        const char *metric)
{
    const size_t m = kvsi_stored_metric(task, metric);

    return m < task->metric_count ? d->metrics[m] : NAN;
}

/* A NULL metric is the bits of the right answer. */
static void fill(values *v, const kvsi_pairs *pairs, const char *metric)
{
    v->count = 0;
    for (size_t i = 0; i < pairs->count; i++) {
        const kvsi_pair *p = pairs->pairs + i;
        const double a = metric ? metric_of(p->task_a, p->a, metric) : kvsi_gold_bits(p->a),
                     b = metric ? metric_of(p->task_b, p->b, metric) : kvsi_gold_bits(p->b);

        if (isnan(a) || isnan(b))
            continue;
        v->a[v->count] = a;
        v->b[v->count] = b;
        v->subjects[v->count++] = p->subject;
    }
    /* Subjects are in order; those without documents get no number. */
    v->subject_count = 0;
    for (size_t i = 0; i < v->count; i++) {
        if (i == 0 || v->subjects[i] != v->subjects[i - 1]) {
            v->sums[v->subject_count] = 0;
            v->sizes[v->subject_count++] = 0;
        }
        v->sums[v->subject_count - 1] += v->b[i] - v->a[i];
        v->sizes[v->subject_count - 1]++;
    }
}

static void test_binary(kvsi_compared *row, const values *v)
{
    kvsi_mcnemar test;

    for (size_t i = 0; i < v->count; i++) {
        row->right[0] += v->a[i] == 1;
        row->right[1] += v->b[i] == 1;
        row->gained += v->b[i] > v->a[i];
        row->lost += v->b[i] < v->a[i];
    }
    test = kvsi_mcnemar_test(row->gained, row->lost, v->count);
    row->difference = test.difference;
    row->error = test.error;
    row->interval = (kvsi_interval){test.difference - KVSI_NORMAL_95 * test.error,
                                    test.difference + KVSI_NORMAL_95 * test.error};
    row->p = test.exact;
    row->mid = test.mid;
}

/* Draws of different rows are the same, as documents of different rows are different. */
static void test_mean(kvsi_compared *row, values *v, const kvsi_compare_options *o)
{
    kvsi_running running = {0};
    kvsi_resampled resampled;

    for (size_t i = 0; i < v->count; i++) {
        v->a[i] = v->b[i] - v->a[i];
        kvsi_running_add(&running, v->a[i]);
    }
    for (size_t r = 0; r < o->resamples; r++)
        v->draws[r] = kvsi_resampled_mean(v->a, v->count, o->seed, r);
    resampled = kvsi_resampled_of(v->draws, o->resamples);
    row->difference = running.mean;
    row->error = kvsi_running_estimate(&running).error;
    row->interval = resampled.interval;
    row->p = running.squares > 0 || running.mean != 0 ? resampled.p : 1;
}

static void test_subjects(kvsi_compared *row, values *v, const kvsi_compare_options *o)
{
    row->by_subject = (kvsi_resampled){NAN, {NAN, NAN}, NAN};
    row->subjects = v->subject_count;
    if (v->subject_count < 2)
        return;
    for (size_t r = 0; r < o->resamples; r++)
        v->draws[r] = kvsi_resampled_clusters(v->sums, v->sizes, v->subject_count, o->seed, r);
    row->by_subject = kvsi_resampled_of(v->draws, o->resamples);
}

/* A perplexity is exp(-mean); its sign is turned so that differences are those of its
 * logarithm. */
static void turn_logarithms(kvsi_compared *row)
{
    const kvsi_interval i = row->interval, s = row->by_subject.interval;

    row->values[0] = exp(-row->values[0]);
    row->values[1] = exp(-row->values[1]);
    row->difference = -row->difference;
    row->interval = (kvsi_interval){-i.high, -i.low};
    row->by_subject.interval = (kvsi_interval){-s.high, -s.low};
}

static kvs_status add_row(kvsi_comparison *c, kvsi_compared row, const kvsi_pairs *pairs,
                          const kvsi_compare_options *o, kvs_err *err)
{
    values v = {0};
    kvs_status st;

    TRY_OUT(values_init(&v, pairs, o->resamples, err));
    fill(&v, pairs, row.role == KVSI_ROLE_LIKELIHOOD && !row.logarithms ? NULL : row.metric);
    if (v.count == 0)
        goto out;
    row.count = v.count;
    row.mid = row.holm = NAN;
    row.binary = !row.logarithms && row.role != KVSI_ROLE_LIKELIHOOD;
    for (size_t i = 0; i < v.count; i++) {
        row.values[0] += v.a[i] / (double)v.count;
        row.values[1] += v.b[i] / (double)v.count;
        row.binary &= (v.a[i] == 0 || v.a[i] == 1) && (v.b[i] == 0 || v.b[i] == 1);
    }
    test_subjects(&row, &v, o);
    if (row.binary) {
        row.values[0] = row.values[1] = 0;
        test_binary(&row, &v);
        row.values[0] = (double)row.right[0] / (double)v.count;
        row.values[1] = (double)row.right[1] / (double)v.count;
    } else {
        test_mean(&row, &v, o);
    }
    if (row.logarithms)
        turn_logarithms(&row);
    TRY_OUT(kvsi_array_reserve(&c->rows, &c->capacity, c->count + 1, sizeof *c->rows, err));
    c->rows[c->count++] = row;
out:
    values_release(&v);
    return st;
}

/* ---- units ----------------------------------------------------------------------------------- */

static kvs_status remark_pairs(kvsi_comparison *c, const kvsi_unit *a, const kvsi_unit *b,
                               size_t model, const kvsi_pairs *pairs, const kvsi_compare_options *o,
                               kvs_err *err)
{
    const char *first = c->models[0].label, *second = c->models[model].label;
    char shots[64] = "";

    if (a->shots != b->shots && a->shots >= 0 && b->shots >= 0)
        snprintf(shots, sizeof shots, " (%d and %d shots)", a->shots, b->shots);
    if (pairs->only_a + pairs->only_b > 0)
        TRY(remark(c, err,
                   "%s: %zu documents are left out, %zu only in '%s' and %zu only in '%s'; %zu "
                   "are compared",
                   a->name, pairs->only_a + pairs->only_b, pairs->only_a, first, pairs->only_b,
                   second, pairs->count));
    if (pairs->by_prompt > 0)
        TRY(remark(c, err,
                   "%s: the hashes of documents differ, so %zu are paired by number, prompt and "
                   "target",
                   a->name, pairs->by_prompt));
    if (pairs->other_prompts > 0 && o->same_prompts)
        TRY(remark(c, err,
                   "%s: %zu documents with different prompts in '%s' and '%s'%s are left out; %zu "
                   "are compared",
                   a->name, pairs->other_prompts, first, second, shots, pairs->count));
    else if (pairs->other_prompts > 0)
        TRY(remark(c, err,
                   "%s: %zu of %zu documents have different prompts in '%s' and '%s'%s, so the "
                   "difference is one of models and prompts",
                   a->name, pairs->other_prompts, pairs->count, first, second, shots));
    return KVS_OK;
}

static kvs_status compare_subjects(kvsi_comparison *c, const kvsi_pairs *pairs, size_t model,
                                   const char *metric, const kvsi_compare_options *o, kvs_err *err)
{
    size_t end;

    for (size_t start = 0; start < pairs->count; start = end) {
        kvsi_pairs subject = {.pairs = pairs->pairs + start, .subjects = pairs->subjects};

        for (end = start;
             end < pairs->count && pairs->pairs[end].subject == pairs->pairs[start].subject;)
            end++;
        subject.count = end - start;
        TRY(add_row(c,
                    (kvsi_compared){.model = model,
                                    .unit = pairs->pairs[start].task_a->name,
                                    .metric = metric,
                                    .role = KVSI_ROLE_SUBJECT},
                    &subject, o, err));
    }
    return KVS_OK;
}

static kvs_status compare_units(kvsi_comparison *c, const kvsi_unit *a, const kvsi_unit *b,
                                size_t model, const kvsi_compare_options *o, kvs_err *err)
{
    const char *best = kvsi_unit_metric(a);
    kvsi_pairs pairs = {0};
    kvs_status st;

    TRY_OUT(kvsi_pairs_create(&pairs, a, b, o->same_prompts, err));
    TRY_OUT(remark_pairs(c, a, b, model, &pairs, o, err));
    if (pairs.count == 0 || !best)
        goto out;
    for (size_t m = 0; m < a->tasks[0]->metric_count; m++) {
        const char *metric = a->tasks[0]->metrics[m];
        const int logarithms = strcmp(metric, "perplexity") == 0;

        if (!kvsi_unit_has(a, metric) || !kvsi_unit_has(b, metric))
            continue;
        TRY_OUT(add_row(c,
                        (kvsi_compared){.model = model,
                                        .unit = a->name,
                                        .metric = metric,
                                        .role = logarithms                  ? KVSI_ROLE_LIKELIHOOD
                                                : strcmp(metric, best) == 0 ? KVSI_ROLE_MAIN
                                                                            : KVSI_ROLE_OTHER,
                                        .logarithms = logarithms,
                                        .lower_is_better = logarithms},
                        &pairs, o, err));
    }
    if (a->kind == KVSI_STORED_CHOICES)
        TRY_OUT(add_row(c,
                        (kvsi_compared){.model = model,
                                        .unit = a->name,
                                        .metric = "gold_bpb",
                                        .role = KVSI_ROLE_LIKELIHOOD,
                                        .lower_is_better = 1},
                        &pairs, o, err));
    if (a->task_count > 1)
        TRY_OUT(compare_subjects(c, &pairs, model, best, o, err));
out:
    kvsi_pairs_release(&pairs);
    return st;
}

static kvs_status correct(kvsi_comparison *c, kvs_err *err)
{
    double *p = kvsi_alloc(c->count, sizeof *p), *holm = kvsi_alloc(c->count, sizeof *holm);

    if (!p || !holm) {
        kvsi_free(p);
        kvsi_free(holm);
        return kvsi_no_memory(err, "%zu tests", c->count);
    }
    for (int role = 0; role < KVSI_ROLES; role++) {
        for (size_t i = 0; i < c->count; i++) {
            p[i] = (int)c->rows[i].role == role ? c->rows[i].p : NAN;
            c->tests[role] += (int)c->rows[i].role == role;
        }
        kvsi_holm(holm, p, c->count);
        for (size_t i = 0; i < c->count; i++)
            if ((int)c->rows[i].role == role)
                c->rows[i].holm = holm[i];
    }
    kvsi_free(p);
    kvsi_free(holm);
    return KVS_OK;
}

/* Scores that any constant strategy reaches deserve a look at the samples. */
static kvs_status remark_baselines(kvsi_comparison *c, kvs_err *err)
{
    for (size_t m = 0; m < c->model_count; m++)
        for (size_t u = 0; u < c->unit_counts[m]; u++) {
            const kvsi_unit *unit = c->units[m] + u;
            const kvsi_stored_task *task = unit->tasks[0];

            for (size_t k = 0; k < task->metric_count; k++) {
                char text[512];

                kvsi_baseline_remark(text, sizeof text, unit, c->models[m].label, task->metrics[k]);
                if (*text)
                    TRY(remark(c, err, "%s", text));
            }
        }
    return KVS_OK;
}

static kvs_status compare_all(kvsi_comparison *c, const kvsi_compare_options *o, kvs_err *err)
{
    for (size_t m = 1; m < c->model_count; m++) {
        for (size_t u = 0; u < c->unit_counts[0]; u++) {
            const kvsi_unit *a = c->units[0] + u;
            const kvsi_unit *b = kvsi_unit_find(c->units[m], c->unit_counts[m], a->name);

            if (b && b->kind == a->kind)
                TRY(compare_units(c, a, b, m, o, err));
            else
                TRY(remark(c, err, "%s: %zu documents are left out, only '%s' has this task",
                           a->name, a->documents, c->models[0].label));
        }
        for (size_t u = 0; u < c->unit_counts[m]; u++)
            if (!kvsi_unit_find(c->units[0], c->unit_counts[0], c->units[m][u].name))
                TRY(remark(c, err, "%s: %zu documents are left out, only '%s' has this task",
                           c->units[m][u].name, c->units[m][u].documents, c->models[m].label));
    }
    if (c->count == 0)
        return kvsi_fail(err, KVS_E_INVALID, "'%s' and the others have no document in common",
                         c->models[0].path);
    TRY(correct(c, err));
    return remark_baselines(c, err);
}

kvs_status kvsi_comparison_create(kvsi_comparison *out, const kvsi_stored *models, size_t count,
                                  const kvsi_compare_options *options, kvs_err *err)
{
    kvs_status st = KVS_OK;

    *out = (kvsi_comparison){.models = models, .model_count = count};
    out->units = kvsi_alloc(count, sizeof *out->units);
    out->unit_counts = kvsi_alloc(count, sizeof *out->unit_counts);
    if (!out->units || !out->unit_counts) {
        st = kvsi_no_memory(err, "%zu models", count);
        goto out;
    }
    for (size_t m = 0; m < count; m++) {
        TRY_OUT(kvsi_units_of(out->units + m, out->unit_counts + m, models + m, 0, err));
        for (size_t r = 0; r < models[m].remark_count; r++)
            TRY_OUT(remark(out, err, "%s: %s", models[m].label, models[m].remarks[r]));
    }
    TRY_OUT(compare_all(out, options, err));
out:
    if (st != KVS_OK)
        kvsi_comparison_release(out);
    return st;
}

void kvsi_comparison_release(kvsi_comparison *comparison)
{
    const int made = comparison->units && comparison->unit_counts; /* memory may have run out */

    for (size_t m = 0; made && m < comparison->model_count; m++)
        kvsi_units_free(comparison->units[m], comparison->unit_counts[m]);
    for (size_t i = 0; i < comparison->remark_count; i++)
        kvsi_free(comparison->remarks[i]);
    kvsi_free(comparison->remarks);
    kvsi_free(comparison->units);
    kvsi_free(comparison->unit_counts);
    kvsi_free(comparison->rows);
    *comparison = (kvsi_comparison){0};
}
