#include "report/arms.h"

#include "base/memory.h"
#include "base/statistics.h"
#include "kvshift/kvshift_lab.h"
#include "report/settings.h"

#include <math.h>
#include <string.h>

static kvs_status fail_memory(size_t runs, kvs_err *err)
{
    return kvsi_fail(err, KVS_E_NOMEM, "out of memory for a report of %zu runs", runs);
}

/* ---- grouping -------------------------------------------------------------------------------- */

static int has_seed(const kvsi_arm *arm, uint64_t seed)
{
    for (size_t i = 0; i < arm->summary.runs; i++)
        if (arm->runs[i]->summary.seed == seed)
            return 1;
    return 0;
}

/* A second run with the same settings and seed adds no information, and counting it twice would
 * make the error too small.  It starts an arm of its own. */
static size_t find_arm(const kvsi_arms *arms, const kvsi_run *run)
{
    size_t i = 0;

    while (i < arms->count && (!json_equal(arms->arms[i].runs[0]->settings, run->settings) ||
                               has_seed(arms->arms + i, run->summary.seed)))
        i++;
    return i;
}

static kvs_status begin_arm(kvsi_arms *arms, size_t most_runs, kvs_err *err)
{
    kvsi_arm *arm = arms->arms + arms->count++;

    arm->runs = kvsi_alloc(most_runs, sizeof(const kvsi_run *));
    arm->counted = kvsi_alloc(most_runs, sizeof(const kvsi_run *));
    return arm->runs && arm->counted ? KVS_OK : fail_memory(most_runs, err);
}

static kvs_status group(kvsi_arms *arms, const kvsi_run *runs, size_t count, kvs_err *err)
{
    arms->arms = kvsi_alloc(count, sizeof *arms->arms);
    if (!arms->arms)
        return fail_memory(count, err);
    for (size_t i = 0; i < count; i++) {
        const size_t at = find_arm(arms, runs + i);

        if (at == arms->count)
            TRY(begin_arm(arms, count, err));
        arms->arms[at].runs[arms->arms[at].summary.runs++] = runs + i;
    }
    return KVS_OK;
}

/* ---- labels ---------------------------------------------------------------------------------- */

static int is_repeated(const kvsi_arms *arms, size_t which)
{
    for (size_t i = 0; i < arms->count; i++)
        if (i != which &&
            json_equal(arms->arms[i].runs[0]->settings, arms->arms[which].runs[0]->settings))
            return 1;
    return 0;
}

static kvs_status label(kvsi_arms *arms, kvs_err *err)
{
    const json_t **lists = kvsi_alloc(arms->count, sizeof *lists);
    kvs_status st = KVS_OK;

    if (!lists)
        return fail_memory(arms->count, err);
    for (size_t i = 0; i < arms->count; i++)
        lists[i] = arms->arms[i].runs[0]->settings;
    for (size_t i = 0; i < arms->count; i++) {
        kvsi_arm *arm = arms->arms + i;
        kvsi_text text = {0};

        kvsi_settings_label(&text, lists, arms->count, i);
        if (is_repeated(arms, i))
            kvsi_text_format(&text, " (%s)", arm->runs[0]->summary.name);
        arm->label = text.data;
        arm->summary.label = text.data;
        TRY_OUT(kvsi_text_check(&text, err));
    }
out:
    kvsi_free(lists);
    return st;
}

/* ---- means ----------------------------------------------------------------------------------- */

/* The mean of losses, or of ours - theirs where `theirs` are given, at each step at which all runs
 * have one. */
static kvs_status draw_curve(kvsi_mean **curve, size_t *length, const kvsi_run *const *ours,
                             const kvsi_run *const *theirs, size_t count, kvs_err *err)
{
    const size_t most = ours[0]->evaluation_count;
    double *values = kvsi_alloc(count, sizeof *values);

    *curve = kvsi_alloc(most, sizeof **curve);
    *length = 0;
    if (!values || !*curve) {
        kvsi_free(values);
        return fail_memory(count, err);
    }
    for (size_t i = 0; i < most; i++) {
        const uint64_t step = ours[0]->evaluations[i].step;
        kvsi_estimate at;

        for (size_t r = 0; r < count; r++)
            values[r] =
                kvsi_run_loss_at(ours[r], step) - (theirs ? kvsi_run_loss_at(theirs[r], step) : 0);
        at = kvsi_estimate_of(values, count);
        if (!isnan(at.mean))
            (*curve)[(*length)++] = (kvsi_mean){step, at.mean, at.error};
    }
    kvsi_free(values);
    return KVS_OK;
}

static void choose_counted(kvsi_arm *arm)
{
    kvs_arm_summary *s = &arm->summary;

    for (size_t i = 0; i < s->runs; i++)
        if (kvsi_run_is_complete(arm->runs[i]))
            arm->counted[s->counted++] = arm->runs[i];
    if (s->counted > 0)
        return;
    s->counted = s->runs;
    memcpy(arm->counted, arm->runs, s->runs * sizeof *arm->runs);
}

static kvs_status average(kvsi_arm *arm, kvs_err *err)
{
    kvs_arm_summary *s = &arm->summary;

    choose_counted(arm);
    s->parameters = arm->runs[0]->summary.parameters;
    for (size_t i = 0; i < s->counted; i++) {
        s->tokens += (double)arm->counted[i]->summary.tokens / (double)s->counted;
        s->seconds += arm->counted[i]->summary.seconds / (double)s->counted;
    }
    s->loss = s->loss_error = NAN;
    TRY(draw_curve(&arm->curve, &arm->curve_count, arm->counted, NULL, s->counted, err));
    if (arm->curve_count > 0) {
        const kvsi_mean *last = arm->curve + arm->curve_count - 1;

        s->step = last->step;
        s->loss = last->mean;
        s->loss_error = last->error;
    }
    return KVS_OK;
}

/* ---- differences ----------------------------------------------------------------------------- */

static size_t find_baseline(const kvsi_arms *arms)
{
    for (size_t i = 0; i < arms->count; i++)
        if (strcmp(arms->arms[i].runs[0]->summary.shift, "none") == 0)
            return i;
    return 0;
}

/* Pairs of counted runs with the same seed. */
static void pair(kvsi_difference *d, const kvsi_arm *arm, const kvsi_arm *baseline)
{
    for (size_t i = 0; i < arm->summary.counted; i++)
        for (size_t j = 0; j < baseline->summary.counted; j++) {
            const kvsi_run *ours = arm->counted[i], *theirs = baseline->counted[j];

            if (ours->summary.seed != theirs->summary.seed)
                continue;
            d->seeds[d->summary.seeds] = ours->summary.seed;
            d->ours[d->summary.seeds] = ours;
            d->theirs[d->summary.seeds++] = theirs;
        }
}

static void release_difference(kvsi_difference *d)
{
    kvsi_free(d->seeds);
    kvsi_free(d->values);
    kvsi_free(d->ours);
    kvsi_free(d->theirs);
    kvsi_free(d->curve);
    *d = (kvsi_difference){0};
}

static kvs_status subtract(kvsi_difference *d, const kvsi_arm *arm, const kvsi_arm *baseline,
                           kvs_err *err)
{
    const size_t most = arm->summary.counted;
    kvs_arm_difference *s = &d->summary;

    d->seeds = kvsi_alloc(most, sizeof *d->seeds);
    d->values = kvsi_alloc(most, sizeof *d->values);
    d->ours = kvsi_alloc(most, sizeof(const kvsi_run *));
    d->theirs = kvsi_alloc(most, sizeof(const kvsi_run *));
    if (!d->seeds || !d->values || !d->ours || !d->theirs)
        return fail_memory(most, err);
    pair(d, arm, baseline);
    if (s->seeds == 0)
        return KVS_OK;
    TRY(draw_curve(&d->curve, &d->curve_count, d->ours, d->theirs, s->seeds, err));
    if (d->curve_count == 0)
        return KVS_OK;
    s->step = d->curve[d->curve_count - 1].step;
    s->mean = d->curve[d->curve_count - 1].mean;
    s->error = d->curve[d->curve_count - 1].error;
    for (size_t i = 0; i < s->seeds; i++)
        d->values[i] =
            kvsi_run_loss_at(d->ours[i], s->step) - kvsi_run_loss_at(d->theirs[i], s->step);
    s->seed = d->seeds;
    s->difference = d->values;
    return KVS_OK;
}

/* Differences between arms on the same data that share a seed and a step with the baseline. */
static kvs_status compare(kvsi_arms *arms, kvs_err *err)
{
    const size_t base = find_baseline(arms);
    const kvsi_arm *baseline = arms->arms + base;

    arms->differences = kvsi_alloc(arms->count, sizeof *arms->differences);
    if (!arms->differences)
        return fail_memory(arms->count, err);
    for (size_t i = 0; i < arms->count; i++) {
        kvsi_difference *d = arms->differences + arms->difference_count;

        if (i == base ||
            kvsi_settings_other_data(arms->arms[i].runs[0]->settings, baseline->runs[0]->settings))
            continue;
        arms->difference_count++; /* so that it is released on failure */
        d->summary.arm = i;
        d->summary.baseline = base;
        TRY(subtract(d, arms->arms + i, baseline, err));
        if (d->curve_count == 0) {
            release_difference(d);
            arms->difference_count--;
        }
    }
    return KVS_OK;
}

/* ---- interface ------------------------------------------------------------------------------- */

kvs_status kvsi_arms_create(kvsi_arms *out, const kvsi_run *runs, size_t count, kvs_err *err)
{
    kvs_status st;

    *out = (kvsi_arms){0};
    TRY_OUT(group(out, runs, count, err));
    TRY_OUT(label(out, err));
    for (size_t i = 0; i < out->count; i++)
        TRY_OUT(average(out->arms + i, err));
    TRY_OUT(compare(out, err));
out:
    if (st != KVS_OK)
        kvsi_arms_release(out);
    return st;
}

void kvsi_arms_release(kvsi_arms *arms)
{
    for (size_t i = 0; i < arms->count; i++) {
        kvsi_free(arms->arms[i].label);
        kvsi_free(arms->arms[i].runs);
        kvsi_free(arms->arms[i].counted);
        kvsi_free(arms->arms[i].curve);
    }
    for (size_t i = 0; i < arms->difference_count; i++)
        release_difference(arms->differences + i);
    kvsi_free(arms->arms);
    kvsi_free(arms->differences);
    *arms = (kvsi_arms){0};
}
