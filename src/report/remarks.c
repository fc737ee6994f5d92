/* Remarks that qualify a report's numbers: incomplete runs, arms that are not comparable. */
#include "base/memory.h"
#include "kvshift/kvshift_lab.h"
#include "report/report.h"
#include "report/settings.h"

#include <inttypes.h>
#include <math.h>

enum { MOST_PER_RUN = 5 }; /* one about the run, four about its arm */

/* Takes ownership of the text. */
static void keep(kvs_report *report, kvsi_text *remark, int *failed)
{
    *failed |= remark->failed;
    if (remark->failed)
        kvsi_text_release(remark);
    else
        report->remarks[report->remark_count++] = remark->data;
}

static const kvsi_arm *arm_of(const kvs_report *report, const kvsi_run *run)
{
    for (size_t a = 0; a < report->arms.count; a++)
        for (size_t i = 0; i < report->arms.arms[a].summary.runs; i++)
            if (report->arms.arms[a].runs[i] == run)
                return report->arms.arms + a;
    return NULL;
}

static void remark_on_run(kvs_report *report, const kvsi_run *run, int *failed)
{
    const kvs_run_summary *s = &run->summary;
    const kvsi_arm *arm = arm_of(report, run);
    kvsi_text remark = {0};

    if (s->ended && s->steps < s->planned_steps)
        kvsi_text_format(&remark, "'%s' was stopped at step %" PRIu64 " of %" PRIu64, s->name,
                         s->steps, s->planned_steps);
    else if (!s->ended)
        kvsi_text_format(&remark, "'%s' has not ended: it is at step %" PRIu64 " of %" PRIu64,
                         s->name, s->steps, s->planned_steps);
    else if (isnan(s->final_loss))
        kvsi_text_format(&remark, "'%s' ended without a loss that is a number", s->name);
    else
        return;
    if (arm && kvsi_run_is_complete(arm->counted[0]))
        kvsi_text_add(&remark, "; it is not in the means");
    keep(report, &remark, failed);
}

static void remark_on_data(kvs_report *report, const kvsi_arm *arm, const kvsi_arm *first,
                           int *failed)
{
    const json_t *ours = arm->runs[0]->settings, *theirs = first->runs[0]->settings;
    const char *name = kvsi_settings_other_data(ours, theirs);
    kvsi_text remark = {0};

    if (!name)
        return;
    kvsi_text_format(&remark, "not comparable: '%s' and '%s' have different data (%s: %s and %s)",
                     first->label, arm->label, name,
                     kvsi_run_setting(theirs, name) ? kvsi_run_setting(theirs, name) : "none",
                     kvsi_run_setting(ours, name) ? kvsi_run_setting(ours, name) : "none");
    keep(report, &remark, failed);
}

/* Ragged batches let equal runs differ by a few tokens. */
static void remark_on_training(kvs_report *report, const kvsi_arm *arm, const kvsi_arm *first,
                               int *failed)
{
    const double ours = arm->summary.tokens, theirs = first->summary.tokens;
    char some[32], others[32];
    kvsi_text remark = {0};

    if (fabs(ours - theirs) <= 0.01 * fmax(ours, theirs) &&
        !kvsi_settings_differ(arm->runs[0]->settings, first->runs[0]->settings, "steps"))
        return;
    kvsi_format_count(some, sizeof some, theirs);
    kvsi_format_count(others, sizeof others, ours);
    kvsi_text_format(&remark,
                     "not an equal comparison: '%s' saw %s tokens in %" PRIu64
                     " steps, '%s' %s tokens in %" PRIu64 " steps",
                     first->label, some, first->counted[0]->summary.steps, arm->label, others,
                     arm->counted[0]->summary.steps);
    keep(report, &remark, failed);
}

static void remark_on_errors(kvs_report *report, const kvsi_arm *arm, int *failed)
{
    kvsi_text remark = {0};

    if (arm->summary.counted > 1)
        return;
    kvsi_text_format(&remark, "'%s' is one run: it has no error bar", arm->label);
    keep(report, &remark, failed);
}

/* A run of an earlier arm with the same settings and seed; NULL = none. */
static const kvsi_run *find_twin(const kvs_report *report, const kvsi_arm *arm)
{
    const kvsi_run *run = arm->runs[0];

    for (const kvsi_arm *before = report->arms.arms; before < arm; before++)
        for (size_t i = 0; i < before->summary.runs; i++)
            if (before->runs[i]->summary.seed == run->summary.seed &&
                json_equal(before->runs[i]->settings, run->settings))
                return before->runs[i];
    return NULL;
}

static void remark_on_repetition(kvs_report *report, const kvsi_arm *arm, int *failed)
{
    const kvsi_run *twin = find_twin(report, arm);
    kvsi_text remark = {0};

    if (!twin)
        return;
    kvsi_text_format(&remark, "'%s' has the settings and the seed of '%s': it is an arm of its own",
                     arm->runs[0]->summary.name, twin->summary.name);
    keep(report, &remark, failed);
}

static void remark_on_arms(kvs_report *report, int *failed)
{
    const kvsi_arms *arms = &report->arms;

    for (size_t i = 0; i < arms->count; i++) {
        remark_on_errors(report, arms->arms + i, failed);
        if (i == 0)
            continue;
        remark_on_repetition(report, arms->arms + i, failed);
        remark_on_data(report, arms->arms + i, arms->arms, failed);
        remark_on_training(report, arms->arms + i, arms->arms, failed);
    }
}

kvs_status kvsi_report_add_remarks(kvs_report *report, kvs_err *err)
{
    int failed = 0;

    report->remarks = kvsi_alloc(report->run_count, MOST_PER_RUN * sizeof *report->remarks);
    if (!report->remarks)
        return kvsi_fail(err, KVS_E_NOMEM, "out of memory for a report");
    for (size_t i = 0; i < report->run_count; i++)
        remark_on_run(report, report->runs + i, &failed);
    remark_on_arms(report, &failed);
    return failed ? kvsi_fail(err, KVS_E_NOMEM, "out of memory for a report") : KVS_OK;
}
