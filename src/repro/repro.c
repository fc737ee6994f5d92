/* An experiment from its plan to its page. */
#include "base/clock.h"
#include "base/files.h"
#include "base/memory.h"
#include "bench/estimate.h"
#include "kernels/runtime.h"
#include "repro/execute.h"
#include "repro/experiment_folder.h"
#include "repro/texts.h"
#include "run/run.h"

#include <math.h>
#include <string.h>

struct kvs_repro {
    const kvsi_experiment *experiment;
    const kvs_repro_options *options;
    kvs_comm *comm;
    kvs_runtime alone; /* each run is trained by one rank alone */
    double share;      /* of the work, on the busiest rank */
    kvsi_plan plan;
    json_t *claims; /* when finished */
    kvs_claim views[KVSI_CLAIMS_MAX];
    size_t claim_count;
};

/* ---- planning -------------------------------------------------------------------------------- */

static void read_states(kvs_repro *r)
{
    for (size_t i = 0; r->options->out && i < r->plan.count; i++) {
        kvsi_planned *run = r->plan.runs + i;
        char *dir = kvsi_run_dir(r->options->out, run->name);

        run->view.state = dir ? kvsi_run_state(dir, run->train.steps) : KVS_RUN_NEW;
        kvsi_free(dir);
    }
}

/* Sets the precision of all planned runs. */
static kvs_status set_precision(kvs_repro *r, kvs_err *err)
{
    const char *precision = r->options->precision;
    kvs_train_config checked;

    if (!precision)
        return KVS_OK;
    kvsi_train_config_init(&checked);
    TRY(kvs_train_config_set(&checked, "precision", precision, err));
    if (checked.precision != KVSI_PRECISION_F32 && r->plan.count == 0)
        return kvsi_fail(err, KVS_E_INVALID, "precision is %s, but '%s' trains no model", precision,
                         r->experiment->about.name);
    for (size_t i = 0; i < r->plan.count; i++)
        r->plan.runs[i].train.precision = checked.precision;
    return KVS_OK;
}

static kvs_status plan(kvs_repro *r, kvs_err *err)
{
    const kvs_experiment *about = &r->experiment->about;
    const kvs_scale scale = r->options->scale;

    if (!kvs_scale_name(scale))
        return kvsi_fail(err, KVS_E_INVALID, "unknown scale %d", (int)scale);
    if (r->options->text_count > 0 && !r->options->texts)
        return kvsi_fail(err, KVS_E_INVALID, "texts is NULL, but text_count is %zu",
                         r->options->text_count);
    r->plan.scale = scale;
    r->plan.model = r->options->model;
    if (r->options->model && !about->takes_model)
        return kvsi_fail(err, KVS_E_INVALID, "the experiment '%s' takes no model", about->name);
    if (r->options->dropout > 0 && !r->options->model)
        return kvsi_fail(err, KVS_E_INVALID,
                         "dropout applies to a model to be measured, found none");
    r->plan.seeds = r->options->seeds ? r->options->seeds : about->seeds[scale];
    if (r->plan.seeds > KVSI_SEEDS_MAX)
        return kvsi_fail(err, KVS_E_INVALID, "%zu seeds, expected at most %d", r->plan.seeds,
                         KVSI_SEEDS_MAX);
    TRY(kvsi_experiment_plan(&r->plan, r->experiment, err));
    TRY(set_precision(r, err));
    TRY(kvsi_plan_measure(&r->plan, &r->alone, err));
    read_states(r);
    r->share = kvsi_plan_share(&r->plan, r->comm->size);
    return KVS_OK;
}

kvs_status kvs_repro_create(kvs_repro **out, kvs_runtime *rt, const char *name,
                            const kvs_repro_options *options, kvs_err *err)
{
    const kvsi_experiment *experiment;
    kvs_repro *r = NULL;
    kvs_status st;

    NEED(out);
    *out = NULL;
    NEED(rt);
    NEED(name);
    NEED(options);
    TRY_OUT(kvsi_experiment_find(&experiment, name, err));
    r = kvsi_alloc(1, sizeof *r);
    if (!r)
        return kvsi_fail(err, KVS_E_NOMEM, "out of memory for the experiment '%s'", name);
    r->experiment = experiment;
    r->options = options;
    r->comm = rt->comm;
    r->alone = (kvs_runtime){.ops = rt->ops, .threads = rt->threads, .comm = &kvsi_comm_self};
    TRY_OUT(plan(r, err));
    *out = r;
    r = NULL;
out:
    kvs_repro_free(r);
    return st;
}

void kvs_repro_free(kvs_repro *repro)
{
    if (!repro)
        return;
    kvsi_plan_release(&repro->plan);
    json_decref(repro->claims);
    kvsi_free(repro);
}

const kvs_experiment *kvs_repro_experiment(const kvs_repro *repro)
{
    return repro ? &repro->experiment->about : NULL;
}

const kvs_planned_run *kvs_repro_run_at(const kvs_repro *repro, size_t index)
{
    return repro && index < repro->plan.count ? &repro->plan.runs[index].view : NULL;
}

double kvs_repro_seconds(const kvs_repro *repro)
{
    double peak, seconds = 0;

    if (!repro)
        return NAN;
    peak = kvsi_estimate_peak(repro->alone.ops->name, repro->alone.threads, KVSI_PRECISION_F32);
    for (size_t i = 0; i < repro->plan.count; i++) {
        const kvsi_planned *run = repro->plan.runs + i;

        if (run->view.state <= KVS_RUN_BEGUN)
            seconds += kvsi_estimate_seconds(run->view.flops, (double)run->view.steps,
                                             run->model.dim, peak);
    }
    return seconds * repro->share;
}

/* ---- running --------------------------------------------------------------------------------- */

static int is_first(const kvs_repro *r)
{
    return r->comm->rank == 0;
}

/* Rank 0 creates the folder; all ranks must see it. */
static kvs_status begin(const kvs_repro *r, kvs_err *err)
{
    kvs_status st = is_first(r) ? kvsi_experiment_begin(r->experiment, r->options, err) : KVS_OK;

    TRY_OUT(kvs_comm_agree(r->comm, st, err));
    st = is_first(r) ? KVS_OK : kvsi_experiment_join(r->experiment, r->options, err);
    st = kvs_comm_agree(r->comm, st, err);
out:
    return st;
}

/* Rank 0 makes the corpus, then all ranks open it. */
static kvs_status open_texts(kvsi_execution *c, const kvs_repro *r, kvs_err *err)
{
    const size_t vocab = r->plan.text_vocab;
    kvs_status st = KVS_OK;

    if (!r->experiment->about.learns_text)
        return KVS_OK;
    if (is_first(r))
        st = kvsi_texts_open(&c->corpus, &c->tokenizer, r->options, vocab, err);
    TRY_OUT(kvs_comm_agree(r->comm, st, err));
    if (!is_first(r))
        st = kvsi_texts_open(&c->corpus, &c->tokenizer, r->options, vocab, err);
    st = kvs_comm_agree(r->comm, st, err);
out:
    return st;
}

/* The assignment of rank 0 is used, since other ranks may see the folder with a delay. */
static kvs_status receive_assignment(kvs_repro *r, kvs_err *err)
{
    uint64_t planned = r->plan.count;
    kvs_status st;

    TRY_OUT(kvsi_comm_broadcast(r->comm, &planned, sizeof planned, 0, err));
    st = planned == r->plan.count
             ? KVS_OK
             : kvsi_fail(err, KVS_E_INVALID, "%zu runs are planned here, %zu on rank 0",
                         r->plan.count, (size_t)planned);
    TRY_OUT(kvs_comm_agree(r->comm, st, err));
    for (size_t i = 0; i < r->plan.count; i++) {
        size_t *rank = &r->plan.runs[i].rank;

        TRY_OUT(kvsi_comm_broadcast(r->comm, rank, sizeof *rank, 0, err));
    }
out:
    return st;
}

/* *stopped becomes 1 if any rank was asked to stop. */
static kvs_status gather_stops(const kvs_repro *r, int *stopped, kvs_err *err)
{
    int *all = kvsi_alloc(r->comm->size, sizeof *all);
    kvs_status st;

    if (!all)
        return kvsi_fail(err, KVS_E_NOMEM, "out of memory for %zu ranks", r->comm->size);
    TRY_OUT(kvsi_comm_all_gather(r->comm, all, stopped, sizeof *stopped, err));
    for (size_t i = 0; i < r->comm->size; i++)
        *stopped |= all[i];
out:
    kvsi_free(all);
    return st;
}

/* A rank that fails returns at once. */
static kvs_status execute(kvs_repro *r, int *stopped, kvs_err *err)
{
    kvsi_execution execution = {
        .experiment = r->experiment,
        .options = r->options,
        .rt = &r->alone,
        .rank = r->comm->rank,
        .plan = &r->plan,
    };
    kvs_status st;

    TRY_OUT(open_texts(&execution, r, err));
    TRY_OUT(receive_assignment(r, err));
    TRY_OUT(kvsi_execute(&execution, stopped, err));
    TRY_OUT(gather_stops(r, stopped, err));
out:
    kvs_tokenizer_free(execution.tokenizer);
    kvs_corpus_close(execution.corpus);
    return st;
}

static kvs_status conclude(kvs_repro *r, kvs_err *err)
{
    kvsi_results results = {.plan = &r->plan, .options = r->options, .rt = &r->alone};
    kvsi_claims claims = {0};
    const double started = kvsi_clock_seconds();
    kvs_status st;

    TRY_OUT(kvsi_results_open(&results, err));
    TRY_OUT(kvsi_claims_init(&claims, r->options->out, r->options, err));
    TRY_OUT(kvsi_experiment_conclude(&claims, &results, r->experiment, err));
    TRY_OUT(kvsi_experiment_finish(r->experiment, &results, &claims, kvsi_clock_seconds() - started,
                                   err));
    r->claims = json_incref(claims.claims);
    r->claim_count = kvsi_saved_claims(r->views, KVSI_CLAIMS_MAX, r->claims);
out:
    kvsi_claims_release(&claims);
    kvsi_results_close(&results);
    return st;
}

static kvs_status require_text(const kvs_repro *r, kvs_err *err)
{
    if (!r->experiment->about.learns_text || r->options->text_count > 0 ||
        r->options->scale == KVS_SCALE_SMOKE)
        return KVS_OK;
    return kvsi_fail(err, KVS_E_INVALID,
                     "the models of '%s' learn a text at scale '%s': expected files, folders of "
                     "them or a corpus, found none",
                     r->experiment->about.name, kvs_scale_name(r->options->scale));
}

kvs_status kvs_repro_run(int *finished, kvs_repro *repro, kvs_err *err)
{
    int stopped = 0;
    kvs_status st;

    NEED(repro);
    NEED(finished);
    *finished = 0;
    if (!repro->options->out)
        return kvsi_fail(err, KVS_E_INVALID,
                         "expected a folder for the results of the experiment, found none");
    TRY_OUT(require_text(repro, err));
    TRY_OUT(begin(repro, err));
    TRY_OUT(execute(repro, &stopped, err));
    if (stopped)
        return KVS_OK;
    st = is_first(repro) ? conclude(repro, err) : KVS_OK;
    TRY_OUT(kvs_comm_agree(repro->comm, st, err));
    *finished = 1;
out:
    return st;
}

const kvs_claim *kvs_repro_claim(const kvs_repro *repro, size_t index)
{
    return repro && index < repro->claim_count ? repro->views + index : NULL;
}
