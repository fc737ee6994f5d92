#include "repro/results.h"

#include "base/files.h"
#include "base/memory.h"
#include "repro/execute.h"
#include "run/run.h"

#include <math.h>
#include <string.h>

enum { MEASURED_LIMIT = 1 << 24 };

/* ---- opening --------------------------------------------------------------------------------- */

static kvs_status read_measured(kvsi_run_result *run, kvs_err *err)
{
    char *path = kvsi_path_join(run->dir, KVSI_MEASURED);
    kvs_status st = KVS_OK;

    if (!path)
        return kvsi_fail(err, KVS_E_NOMEM, "out of memory for '%s'", run->dir);
    if (kvsi_file_exists(path))
        st = kvsi_json_read(&run->measured, path, MEASURED_LIMIT, err);
    kvsi_free(path);
    return st;
}

/* The log of a run that diverged in its first step has no points, which is not an error. */
static kvs_status open_run(kvsi_run_result *run, const char *out, kvs_err *err)
{
    kvs_status st;

    run->dir = kvsi_run_dir(out, run->plan->name);
    if (!run->dir)
        return kvsi_fail(err, KVS_E_NOMEM, "out of memory for the run '%s'", run->plan->name);
    run->diverged = kvsi_run_state(run->dir, run->plan->train.steps) == KVS_RUN_DIVERGED;
    st = kvsi_run_open(&run->log, run->dir, err);
    if (st == KVS_E_FORMAT && run->diverged)
        return KVS_OK;
    return st == KVS_OK ? read_measured(run, err) : st;
}

kvs_status kvsi_results_open(kvsi_results *results, kvs_err *err)
{
    kvs_status st = KVS_OK;

    results->runs = kvsi_alloc(results->plan->count, sizeof *results->runs);
    if (!results->runs)
        return kvsi_fail(err, KVS_E_NOMEM, "out of memory for %zu runs", results->plan->count);
    for (size_t i = 0; st == KVS_OK && i < results->plan->count; i++) {
        results->runs[i].plan = results->plan->runs + i;
        results->count++;
        st = open_run(results->runs + i, results->options->out, err);
    }
    return st;
}

void kvsi_results_close(kvsi_results *results)
{
    for (size_t i = 0; i < results->count; i++) {
        kvsi_run_close(&results->runs[i].log);
        json_decref(results->runs[i].measured);
        kvsi_free(results->runs[i].dir);
    }
    kvsi_free(results->runs);
    results->runs = NULL;
    results->count = 0;
}

/* ---- reading --------------------------------------------------------------------------------- */

kvsi_arm_result kvsi_results_arm(const kvsi_results *results, size_t index)
{
    const size_t seeds = results->plan->seeds;

    if (seeds == 0 || index >= results->count / seeds)
        return (kvsi_arm_result){0};
    return (kvsi_arm_result){
        .name = results->runs[index * seeds].plan->arm,
        .runs = results->runs + index * seeds,
        .count = seeds,
    };
}

double kvsi_final_accuracy(const kvsi_run_result *run)
{
    return 100 * run->log.summary.final_accuracy;
}

double kvsi_final_loss(const kvsi_run_result *run)
{
    return run->diverged ? NAN : run->log.summary.final_loss;
}

double kvsi_step_at_99(const kvsi_run_result *run)
{
    const uint64_t step = run->log.summary.step_at_99;

    return step > 0 ? (double)step : INFINITY;
}

size_t kvsi_arm_values(double out[KVSI_SEEDS_MAX], const kvsi_arm_result *arm, kvsi_metric *read)
{
    size_t count = 0;

    for (; count < arm->count && count < KVSI_SEEDS_MAX; count++)
        out[count] = read(arm->runs + count);
    return count;
}

size_t kvsi_arm_finite_values(double out[KVSI_SEEDS_MAX], const kvsi_arm_result *arm,
                              kvsi_metric *read)
{
    const size_t all = kvsi_arm_values(out, arm, read);
    size_t count = 0;

    for (size_t i = 0; i < all; i++)
        if (isfinite(out[i]))
            out[count++] = out[i];
    return count;
}

kvsi_estimate kvsi_arm_estimate(const kvsi_arm_result *arm, kvsi_metric *read)
{
    double values[KVSI_SEEDS_MAX];

    return kvsi_estimate_of(values, kvsi_arm_values(values, arm, read));
}

kvsi_comparison kvsi_compare(const kvsi_results *results, size_t arm, size_t reference,
                             kvsi_metric *metric)
{
    const kvsi_arm_result a = kvsi_results_arm(results, arm),
                          b = kvsi_results_arm(results, reference);
    double ours[KVSI_SEEDS_MAX], theirs[KVSI_SEEDS_MAX];
    const size_t count = kvsi_arm_values(ours, &a, metric);

    kvsi_arm_values(theirs, &b, metric);
    return (kvsi_comparison){
        .test = kvsi_paired_t(ours, theirs, count),
        .ours = kvsi_estimate_of(ours, count).mean,
        .theirs = kvsi_estimate_of(theirs, count).mean,
    };
}
