/* A report as JSON: the numbers of its tables and curves. */
#include "kvshift/kvshift_lab.h"
#include "report/report.h"

#include <math.h>

static json_t *number_or_null(uint64_t number)
{
    return number ? json_integer((json_int_t)number) : json_null();
}

static json_t *evaluations_to_json(const kvsi_run *run)
{
    json_t *list = json_array();

    for (size_t i = 0; i < run->evaluation_count; i++)
        json_array_append_new(list,
                              json_pack("{s:I, s:f}", "step", (json_int_t)run->evaluations[i].step,
                                        "loss", run->evaluations[i].loss));
    return list;
}

static json_t *benchmarks_to_json(const kvsi_run *run)
{
    json_t *list = json_array();

    for (size_t i = 0; i < run->benchmark_count; i++) {
        const kvsi_benchmark *b = run->benchmarks + i;

        json_array_append_new(list, json_pack("{s:I, s:s, s:s, s:o, s:o, s:I}", "step",
                                              (json_int_t)b->step, "task", b->task, "metric",
                                              b->metric, "value", kvsi_json_number(b->value),
                                              "error", kvsi_json_number(b->error), "documents",
                                              (json_int_t)b->documents));
    }
    return list;
}

static json_t *run_to_json(const kvsi_run *run)
{
    const kvs_run_summary *s = &run->summary;

    /* clang-format off */
    return json_pack("{s:s, s:I, s:s, s:I, s:I, s:I, s:I, s:I, s:I, s:b, s:I, "
                     "s:o, s:o, s:o, s:o, s:o, s:o, s:s}",
                     "name", s->name,
                     "layers", (json_int_t)s->layers,
                     "shift", s->shift,
                     "dim", (json_int_t)s->dim,
                     "heads", (json_int_t)s->heads,
                     "parameters", (json_int_t)s->parameters,
                     "seed", (json_int_t)s->seed,
                     "steps", (json_int_t)s->steps,
                     "planned_steps", (json_int_t)s->planned_steps,
                     "ended", s->ended,
                     "tokens", (json_int_t)s->tokens,
                     "final_accuracy", kvsi_json_number(s->final_accuracy),
                     "final_loss", kvsi_json_number(s->final_loss),
                     "step_at_99", number_or_null(s->step_at_99),
                     "seconds", kvsi_json_number(s->seconds),
                     "evaluations", evaluations_to_json(run),
                     "benchmarks", benchmarks_to_json(run),
                     "command", run->command);
    /* clang-format on */
}

static json_t *curve_to_json(const kvsi_mean *curve, size_t count)
{
    json_t *list = json_array();

    for (size_t i = 0; i < count; i++)
        json_array_append_new(list, json_pack("{s:I, s:f, s:o}", "step", (json_int_t)curve[i].step,
                                              "mean", curve[i].mean, "standard_error",
                                              kvsi_json_number(curve[i].error)));
    return list;
}

static json_t *names_to_json(const kvsi_run *const *runs, size_t count)
{
    json_t *list = json_array();

    for (size_t i = 0; i < count; i++)
        json_array_append_new(list, json_string(runs[i]->summary.name));
    return list;
}

static json_t *arm_to_json(const kvsi_arm *arm)
{
    const kvs_arm_summary *s = &arm->summary;

    /* clang-format off */
    return json_pack("{s:s, s:O, s:o, s:o, s:I, s:f, s:f, s:o, s:o, s:o, s:o, s:o}",
                     "label", arm->label,
                     "settings", arm->runs[0]->settings,
                     "runs", names_to_json(arm->runs, s->runs),
                     "counted", names_to_json(arm->counted, s->counted),
                     "parameters", (json_int_t)s->parameters,
                     "tokens", s->tokens,
                     "seconds", s->seconds,
                     "step", number_or_null(s->step),
                     "loss", kvsi_json_number(s->loss),
                     "loss_standard_error", kvsi_json_number(s->loss_error),
                     "perplexity", kvsi_json_number(exp(s->loss)),
                     "curve", curve_to_json(arm->curve, arm->curve_count));
    /* clang-format on */
}

static json_t *seeds_to_json(const kvsi_difference *d)
{
    json_t *list = json_array();

    for (size_t i = 0; i < d->summary.seeds; i++)
        json_array_append_new(list, json_pack("{s:I, s:f}", "seed", (json_int_t)d->seeds[i],
                                              "difference", d->values[i]));
    return list;
}

static json_t *difference_to_json(const kvs_report *report, const kvsi_difference *d)
{
    const kvs_arm_difference *s = &d->summary;

    /* clang-format off */
    return json_pack("{s:s, s:s, s:I, s:f, s:o, s:o, s:o}",
                     "arm", report->arms.arms[s->arm].label,
                     "minus", report->arms.arms[s->baseline].label,
                     "step", (json_int_t)s->step,
                     "mean", s->mean,
                     "standard_error", kvsi_json_number(s->error),
                     "seeds", seeds_to_json(d),
                     "curve", curve_to_json(d->curve, d->curve_count));
    /* clang-format on */
}

json_t *kvsi_report_to_json(const kvs_report *report, const char *title)
{
    json_t *models = json_array(), *arms = json_array(), *differences = json_array(),
           *remarks = json_array(), *json;
    int failed = 0;

    for (size_t i = 0; i < report->run_count; i++)
        failed |= json_array_append_new(models, run_to_json(report->runs + i));
    for (size_t i = 0; i < report->arms.count; i++)
        failed |= json_array_append_new(arms, arm_to_json(report->arms.arms + i));
    for (size_t i = 0; i < report->arms.difference_count; i++)
        failed |= json_array_append_new(differences,
                                        difference_to_json(report, report->arms.differences + i));
    for (size_t i = 0; i < report->remark_count; i++)
        failed |= json_array_append_new(remarks, json_string(report->remarks[i]));
    json = json_pack("{s:s, s:o, s:o}", "title", title, "remarks", remarks, "models", models);
    if (report->is_text && json) {
        failed |= json_object_set(json, "arms", arms);
        failed |= json_object_set(json, "differences", differences);
    }
    json_decref(arms);
    json_decref(differences);
    if (!failed)
        return json;
    json_decref(json);
    return NULL;
}
