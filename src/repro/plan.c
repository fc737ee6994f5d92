#include "repro/plan.h"

#include "base/memory.h"
#include "base/status.h"
#include "config/config.h"
#include "data/tasks/tasks.h"

#include <ctype.h>
#include <inttypes.h>
#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

/* ---- adding ---------------------------------------------------------------------------------- */

static kvs_status grow(kvsi_plan *plan, size_t more, kvs_err *err)
{
    const size_t capacity = 2 * plan->capacity + more;
    kvsi_planned *runs;

    if (plan->count + more <= plan->capacity)
        return KVS_OK;
    runs = kvsi_alloc(capacity, sizeof *runs);
    if (!runs)
        return kvsi_fail(err, KVS_E_NOMEM, "out of memory for a plan of %zu runs", capacity);
    if (plan->count > 0)
        memcpy(runs, plan->runs, plan->count * sizeof *runs);
    kvsi_free(plan->runs);
    plan->runs = runs;
    plan->capacity = capacity;
    return KVS_OK;
}

/* "KV shifting, 1 layer" and seed 2 become "kv-shifting-1-layer-seed-2". */
static void name_run(kvsi_planned *run)
{
    size_t length = 0;

    for (const char *c = run->arm; *c && length + 1 < sizeof run->arm; c++) {
        if (isalnum((unsigned char)*c) || *c == '.')
            run->name[length++] = (char)tolower((unsigned char)*c);
        else if (length > 0 && run->name[length - 1] != '-')
            run->name[length++] = '-';
    }
    snprintf(run->name + length, sizeof run->name - length, "-seed-%" PRIu64, run->seed);
}

kvs_status kvsi_plan_add(kvsi_plan *plan, const kvsi_planned *run, kvs_err *err)
{
    kvs_status st = grow(plan, plan->seeds, err);

    for (size_t i = 0; st == KVS_OK && i < plan->seeds; i++) {
        kvsi_planned *added = plan->runs + plan->count++;

        *added = *run;
        added->seed = added->train.seed = i + 1;
        name_run(added);
    }
    return st;
}

void kvsi_plan_release(kvsi_plan *plan)
{
    kvsi_free(plan->runs);
    *plan = (kvsi_plan){0};
}

/* ---- distribution over ranks ----------------------------------------------------------------- */

static double work_left(const kvsi_planned *run)
{
    return run->view.state <= KVS_RUN_BEGUN ? run->view.flops : 0;
}

static double load_of(const kvsi_plan *plan, size_t rank)
{
    double load = 0;

    for (size_t i = 0; i < plan->count; i++)
        if (plan->runs[i].rank == rank)
            load += work_left(plan->runs + i);
    return load;
}

static size_t least_loaded(const kvsi_plan *plan, size_t ranks)
{
    size_t best = 0;
    double least = load_of(plan, 0);

    for (size_t r = 1; r < ranks && least > 0; r++) {
        const double load = load_of(plan, r);

        if (load < least) {
            least = load;
            best = r;
        }
    }
    return best;
}

/* The longest run that has no rank yet; NULL = none. */
static kvsi_planned *longest_unassigned(kvsi_plan *plan)
{
    kvsi_planned *longest = NULL;

    for (size_t i = 0; i < plan->count; i++) {
        kvsi_planned *run = plan->runs + i;

        if (run->rank == SIZE_MAX && (!longest || work_left(run) > work_left(longest)))
            longest = run;
    }
    return longest;
}

double kvsi_plan_share(kvsi_plan *plan, size_t ranks)
{
    kvsi_planned *run;
    double all = 0, most = 0;

    for (size_t i = 0; i < plan->count; i++) {
        plan->runs[i].rank = SIZE_MAX;
        all += work_left(plan->runs + i);
    }
    while ((run = longest_unassigned(plan)))
        run->rank = least_loaded(plan, ranks);
    for (size_t r = 0; r < ranks; r++)
        most = fmax(most, load_of(plan, r));
    return all > 0 ? most / all : 0;
}

/* ---- cost of runs ---------------------------------------------------------------------------- */

kvs_status kvsi_planned_model(kvs_model_config *out, const kvsi_planned *run, const kvs_data *task,
                              kvs_err *err)
{
    *out = run->model;
    if (task && (out->vocab == 0 || run->task == kvsi_text_task))
        out->vocab = kvs_data_vocab(task);
    if (task && out->context == 0)
        out->context = kvs_data_max_length(task);
    return kvs_model_config_finish(out, err);
}

static kvs_status measure(kvsi_planned *run, const kvs_runtime *rt, kvs_err *err)
{
    kvs_model_config model;
    kvs_data *task = NULL;
    kvs_plan plan;
    kvs_status st;

    if (run->task != kvsi_text_task) /* there may be no text yet, and all windows are equal */
        TRY_OUT(run->task(&task, run, NULL, err));
    TRY_OUT(kvsi_planned_model(&model, run, task, err));
    TRY_OUT(kvs_train_plan(&plan, rt, &model, task, &run->train, err));
    run->view = (kvs_planned_run){
        .name = run->name,
        .arm = run->arm,
        .seed = run->seed,
        .parameters = plan.parameters,
        .steps = run->train.steps,
        .tokens = plan.tokens_per_step * (double)run->train.steps,
        .bytes = (double)plan.total_bytes,
    };
    run->view.flops = run->view.tokens * plan.flops_per_token;
out:
    kvs_data_free(task);
    return st;
}

kvs_status kvsi_plan_measure(kvsi_plan *plan, const kvs_runtime *rt, kvs_err *err)
{
    kvs_status st = KVS_OK;

    for (size_t i = 0; st == KVS_OK && i < plan->count; i++)
        st = measure(plan->runs + i, rt, err);
    return st;
}

/* ---- tasks ----------------------------------------------------------------------------------- */

kvs_status kvsi_induction_task(kvs_data **out, const kvsi_planned *run, const kvs_corpus *corpus,
                               kvs_err *err)
{
    (void)corpus;
    return kvsi_induction_create(out, &run->settings.induction, err);
}

kvs_status kvsi_ngram_task(kvs_data **out, const kvsi_planned *run, const kvs_corpus *corpus,
                           kvs_err *err)
{
    kvsi_ngram_config config = run->settings.ngram;

    (void)corpus;
    config.seed = run->seed;
    return kvsi_ngram_create(out, &config, err);
}

kvs_status kvsi_hopk_task(kvs_data **out, const kvsi_planned *run, const kvs_corpus *corpus,
                          kvs_err *err)
{
    (void)corpus;
    return kvsi_hopk_create(out, &run->settings.hopk, err);
}

kvs_status kvsi_igsm_task(kvs_data **out, const kvsi_planned *run, const kvs_corpus *corpus,
                          kvs_err *err)
{
    (void)corpus;
    return kvsi_igsm_create(out, &run->settings.igsm, err);
}

kvs_status kvsi_text_task(kvs_data **out, const kvsi_planned *run, const kvs_corpus *corpus,
                          kvs_err *err)
{
    return kvs_data_create_corpus(out, corpus, run->model.context, err);
}
