#include "repro/trial.h"

#include "base/files.h"
#include "base/memory.h"
#include "repro/conduct.h"
#include "run/run.h"

#include <math.h>
#include <string.h>

enum { MEASURED_LIMIT = 1 << 24 };

/* ---- opening --------------------------------------------------------------------------------- */

static kvs_status read_measured(kvsi_trial_run *run, kvs_err *err)
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

/* A run that diverged in its first step has logged nothing. */
static kvs_status open_run(kvsi_trial_run *run, const char *out, kvs_err *err)
{
    kvs_status st;

    run->dir = kvsi_conduct_dir(out, run->plan->name);
    if (!run->dir)
        return kvsi_fail(err, KVS_E_NOMEM, "out of memory for the run '%s'", run->plan->name);
    run->diverged = kvsi_run_state(run->dir, run->plan->train.steps) == KVS_RUN_DIVERGED;
    st = kvsi_run_open(&run->log, run->dir, err);
    if (st == KVS_E_FORMAT && run->diverged)
        return KVS_OK;
    return st == KVS_OK ? read_measured(run, err) : st;
}

kvs_status kvsi_trial_open(kvsi_trial *trial, kvs_err *err)
{
    kvs_status st = KVS_OK;

    trial->runs = kvsi_alloc(trial->plan->count, sizeof *trial->runs);
    if (!trial->runs)
        return kvsi_fail(err, KVS_E_NOMEM, "out of memory for %zu runs", trial->plan->count);
    for (size_t i = 0; st == KVS_OK && i < trial->plan->count; i++) {
        trial->runs[i].plan = trial->plan->runs + i;
        trial->count++;
        st = open_run(trial->runs + i, trial->options->out, err);
    }
    return st;
}

void kvsi_trial_close(kvsi_trial *trial)
{
    for (size_t i = 0; i < trial->count; i++) {
        kvsi_run_close(&trial->runs[i].log);
        json_decref(trial->runs[i].measured);
        kvsi_free(trial->runs[i].dir);
    }
    kvsi_free(trial->runs);
    trial->runs = NULL;
    trial->count = 0;
}

/* ---- reading --------------------------------------------------------------------------------- */

kvsi_trial_arm kvsi_trial_arm_at(const kvsi_trial *trial, size_t index)
{
    const size_t seeds = trial->plan->seeds;

    if (seeds == 0 || index >= trial->count / seeds)
        return (kvsi_trial_arm){0};
    return (kvsi_trial_arm){
        .name = trial->runs[index * seeds].plan->arm,
        .runs = trial->runs + index * seeds,
        .count = seeds,
    };
}

double kvsi_final_accuracy(const kvsi_trial_run *run)
{
    return 100 * run->log.summary.final_accuracy;
}

double kvsi_final_loss(const kvsi_trial_run *run)
{
    return run->diverged ? NAN : run->log.summary.final_loss;
}

double kvsi_step_at_99(const kvsi_trial_run *run)
{
    const uint64_t step = run->log.summary.step_at_99;

    return step > 0 ? (double)step : INFINITY;
}

size_t kvsi_read_arm(double out[KVSI_SEEDS_MAX], const kvsi_trial_arm *arm, kvsi_reading *read)
{
    size_t count = 0;

    for (; count < arm->count && count < KVSI_SEEDS_MAX; count++)
        out[count] = read(arm->runs + count);
    return count;
}

size_t kvsi_read_finite(double out[KVSI_SEEDS_MAX], const kvsi_trial_arm *arm, kvsi_reading *read)
{
    const size_t all = kvsi_read_arm(out, arm, read);
    size_t count = 0;

    for (size_t i = 0; i < all; i++)
        if (isfinite(out[i]))
            out[count++] = out[i];
    return count;
}

kvsi_estimate kvsi_estimate_arm(const kvsi_trial_arm *arm, kvsi_reading *read)
{
    double values[KVSI_SEEDS_MAX];

    return kvsi_estimate_of(values, kvsi_read_arm(values, arm, read));
}
