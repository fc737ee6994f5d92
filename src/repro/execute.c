#include "repro/execute.h"

#include "base/clock.h"
#include "base/files.h"
#include "base/memory.h"
#include "config/config.h"
#include "data/data.h"
#include "formats/hf.h"
#include "repro/reuse.h"
#include "run/run.h"
#include "train/settings.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { RESULT_LIMIT = 1 << 20, CHECKPOINTS = 4 }; /* CHECKPOINTS: per run */

/* ---- folders --------------------------------------------------------------------------------- */

static kvs_status fail_memory(const kvsi_planned *run, kvs_err *err)
{
    return kvsi_fail(err, KVS_E_NOMEM, "out of memory for the run '%s'", run->name);
}

char *kvsi_run_dir(const char *out, const char *name)
{
    char *runs = kvsi_path_join(out, "runs"), *dir = runs ? kvsi_path_join(runs, name) : NULL;

    kvsi_free(runs);
    return dir;
}

/* ---- is it the run that is planned? ---------------------------------------------------------- */

static json_t *describe_task(const kvsi_planned *run, const kvs_data *task)
{
    return run->task == kvsi_text_task ? json_null() : task->ops->describe(task);
}

char *kvsi_planned_describe(const kvsi_planned *run, const kvs_model_config *model,
                            const kvs_data *task)
{
    json_t *const json = json_pack("{s:o, s:o}", "model", kvsi_hf_config_to_json(model), "task",
                                   describe_task(run, task));
    char *text = NULL;

    if (json && kvsi_settings_to_json(json, &kvsi_train_settings, &run->train, KVSI_RESULT) == 0)
        text = json_dumps(json, JSON_INDENT(1) | JSON_SORT_KEYS);
    json_decref(json);
    return text;
}

int kvsi_planned_same(const char *before, const char *planned)
{
    json_t *const old = kvsi_json_load(before, strlen(before), JSON_REJECT_DUPLICATES, NULL);
    json_t *const now = kvsi_json_load(planned, strlen(planned), JSON_REJECT_DUPLICATES, NULL);
    const int same =
        old && now && kvsi_train_settings_add_missing(old) == 0 && json_equal(old, now);

    json_decref(old);
    json_decref(now);
    return same;
}

static kvs_status refuse_other(const kvsi_planned *run, const char *dir, const char *planned,
                               kvs_err *err)
{
    char *path = kvsi_path_join(dir, KVSI_PLANNED), *before = NULL;
    size_t size = 0;
    kvs_status st = KVS_OK;

    if (!path)
        return fail_memory(run, err);
    if (kvsi_file_exists(path)) {
        TRY_OUT(kvsi_file_read(&before, &size, path, RESULT_LIMIT, err));
        if (!kvsi_planned_same(before, planned))
            st = kvsi_fail(err, KVS_E_INVALID,
                           "the run '%s' was made with other settings than are planned now "
                           "('%s'); choose another folder",
                           run->name, path);
    }
out:
    kvsi_free(before);
    kvsi_free(path);
    return st;
}

/* ---- one run --------------------------------------------------------------------------------- */

typedef struct running {
    kvsi_execution *c;
    kvsi_planned *run;
    size_t index;
    double work_before; /* work_done when this run began or was resumed */
    uint64_t first_step;
    int stopped;
} running;

/* Estimated from the pace so far; NaN in the first seconds. */
static double seconds_left(const kvsi_execution *c, size_t index, double share)
{
    const double elapsed = kvsi_clock_seconds() - c->started;
    double left = (1 - share) * c->plan->runs[index].view.flops;

    if (elapsed < 2 || c->work_done <= 0)
        return NAN;
    for (size_t i = index + 1; i < c->plan->count; i++)
        if (c->plan->runs[i].rank == c->rank && c->plan->runs[i].view.state <= KVS_RUN_BEGUN)
            left += c->plan->runs[i].view.flops;
    return elapsed * left / c->work_done;
}

static void report(running *now, const kvs_step_record *record, double share)
{
    const kvs_repro_options *o = now->c->options;
    const kvs_repro_progress progress = {
        .run = &now->run->view,
        .index = now->index,
        .count = now->c->plan->count,
        .record = record,
        .seconds_left = seconds_left(now->c, now->index, share),
    };

    if (o->progress && o->progress(o->user, &progress) != 0)
        now->stopped = 1;
}

static int on_step(void *user, const kvs_step_record *record)
{
    running *now = user;
    const double steps = (double)now->run->train.steps;

    if (now->first_step == 0)
        now->first_step = record->step;
    now->c->work_done = now->work_before +
                        now->run->view.flops * (double)(record->step + 1 - now->first_step) / steps;
    report(now, record, (double)record->step / steps);
    return now->stopped ? KVS_PROGRESS_STOP : 0;
}

static void on_notice(void *user, const char *line)
{
    const running *now = user;

    if (now->c->options->notice)
        now->c->options->notice(now->c->options->user, line);
}

static size_t eval_sequences(const running *now)
{
    const kvsi_planned *run = now->run;
    const uint64_t windows =
        run->task == kvsi_text_task
            ? kvs_corpus_windows(now->c->corpus, KVS_SPLIT_VALID, run->model.context)
            : run->eval_sequences;

    return windows < run->eval_sequences ? (size_t)windows : run->eval_sequences;
}

static kvs_status train(running *now, kvs_model *model, const kvs_data *task, const char *dir,
                        const char *planned, kvs_err *err)
{
    const kvsi_planned *run = now->run;
    const kvs_run_file file = {KVSI_PLANNED, planned, 0};
    const kvs_train_options how = {
        .size = sizeof how,
        .out = dir,
        .command = now->c->options->command,
        .files = &file,
        .file_count = 1,
        .tokenizer = run->task == kvsi_text_task ? now->c->tokenizer : NULL,
        .resume = KVS_RESUME_AUTO,
        .progress = on_step,
        .notice = on_notice,
        .user = now,
    };
    kvs_train_config config = run->train;
    kvs_err why = {.status = KVS_OK};
    kvs_status st;

    config.eval_every = run->eval_every;
    config.eval_sequences = eval_sequences(now);
    config.checkpoint_every = run->keeps_checkpoints && run->eval_every > 0
                                  ? run->eval_every
                                  : (run->train.steps + CHECKPOINTS - 1) / CHECKPOINTS;
    config.keep = run->keeps_checkpoints ? 0 : 1;
    st = kvs_train(NULL, model, task, &config, &how, &why);
    if (st == KVS_E_DIVERGED)
        return kvsi_run_mark_diverged(dir, why.message, err);
    return st == KVS_OK ? KVS_OK : kvsi_in_file(st, &why, run->name, err);
}

/* Runs the experiment's `measure` on the finished model, once. */
static kvs_status measure(const running *now, const char *dir, kvs_err *err)
{
    const kvsi_experiment *e = now->c->experiment;
    char *path = kvsi_path_join(dir, KVSI_MEASURED);
    kvs_model *model = NULL;
    json_t *found = NULL;
    kvs_status st = KVS_OK;

    if (!path)
        return fail_memory(now->run, err);
    if (e->measure && !kvsi_file_exists(path)) {
        TRY_OUT(kvs_model_load(&model, now->c->rt, dir, NULL, err));
        TRY_OUT(e->measure(&found, &(kvsi_finished){now->run, dir, model, now->c->rt}, err));
        TRY_OUT(kvsi_json_write(found, path, err));
    }
out:
    json_decref(found);
    kvs_model_free(model);
    kvsi_free(path);
    return st;
}

static kvs_status make_and_train(running *now, const kvs_model_config *config, const kvs_data *task,
                                 const char *dir, const char *planned, kvs_err *err)
{
    kvs_model *model = NULL;
    kvs_status st;

    now->work_before = now->c->work_done;
    report(now, NULL, 0);
    if (now->stopped)
        return KVS_OK;
    TRY_OUT(kvs_model_create(&model, now->c->rt, config, now->run->seed, err));
    TRY_OUT(train(now, model, task, dir, planned, err));
out:
    kvs_model_free(model);
    return st;
}

static kvs_status execute_run(running *now, const char *dir, kvs_err *err)
{
    kvsi_planned *run = now->run;
    kvs_model_config config;
    kvs_data *task = NULL;
    char *planned = NULL;
    int taken;
    kvs_status st;

    TRY_OUT(run->task(&task, run, now->c->corpus, err));
    TRY_OUT(kvsi_planned_model(&config, run, task, err));
    planned = kvsi_planned_describe(run, &config, task);
    if (!planned) {
        st = fail_memory(run, err);
        goto out;
    }
    TRY_OUT(refuse_other(run, dir, planned, err));
    run->view.state = kvsi_run_state(dir, run->train.steps);
    if (run->view.state == KVS_RUN_NEW) {
        TRY_OUT(kvsi_reuse(&taken, dir, planned, run, eval_sequences(now), now->c->options, err));
        run->view.state = taken ? KVS_RUN_DONE : KVS_RUN_NEW;
    }
    if (run->view.state <= KVS_RUN_BEGUN) {
        TRY_OUT(make_and_train(now, &config, task, dir, planned, err));
        if (now->stopped)
            goto out;
        run->view.state = kvsi_run_state(dir, run->train.steps);
        report(now, NULL, 1);
    }
    if (run->view.state == KVS_RUN_DONE)
        TRY_OUT(measure(now, dir, err));
out:
    free(planned);
    kvs_data_free(task);
    return st;
}

kvs_status kvsi_execute(kvsi_execution *c, int *stopped, kvs_err *err)
{
    kvs_status st = KVS_OK;

    *stopped = 0;
    c->started = kvsi_clock_seconds();
    for (size_t i = 0; st == KVS_OK && !*stopped && i < c->plan->count; i++) {
        running now = {.c = c, .run = c->plan->runs + i, .index = i};
        char *dir;

        if (now.run->rank != c->rank)
            continue;
        dir = kvsi_run_dir(c->options->out, now.run->name);
        st = dir ? execute_run(&now, dir, err) : fail_memory(now.run, err);
        *stopped = now.stopped;
        kvsi_free(dir);
    }
    return st;
}
