/* One experiment from its plan to its page. */
#include "base/clock.h"
#include "base/files.h"
#include "base/memory.h"
#include "bench/probe.h"
#include "kernels/runtime.h"
#include "repro/conduct.h"
#include "repro/record.h"
#include "repro/texts.h"
#include "run/run.h"

#include <math.h>
#include <string.h>

enum { PROBES = 6 };

struct kvs_repro {
    const kvsi_experiment *experiment;
    const kvs_repro_options *options;
    kvs_comm *comm;
    kvs_runtime alone; /* a run is one rank's, whatever the ranks */
    double share;      /* of the work, what the busiest rank has */
    kvsi_plan plan;
    json_t *claims; /* once it is done */
    kvs_claim views[KVSI_CLAIMS_MAX];
    size_t claim_count;
};

/* ---- planning -------------------------------------------------------------------------------- */

static void read_states(kvs_repro *r)
{
    for (size_t i = 0; r->options->out && i < r->plan.count; i++) {
        kvsi_planned *run = r->plan.runs + i;
        char *dir = kvsi_conduct_dir(r->options->out, run->name);

        run->view.state = dir ? kvsi_run_state(dir, run->train.steps) : KVS_RUN_NEW;
        kvsi_free(dir);
    }
}

static kvs_status plan(kvs_repro *r, kvs_err *err)
{
    const kvs_experiment *about = &r->experiment->about;
    const kvs_scale scale = r->options->scale;

    r->plan.scale = scale;
    r->plan.model = r->options->model;
    if (r->options->model && !about->takes_model)
        return kvsi_fail(err, KVS_E_INVALID, "the experiment '%s' takes no model", about->name);
    if (r->options->dropout > 0 && !r->options->model)
        return kvsi_fail(err, KVS_E_INVALID, "dropout while measuring needs a model that is given");
    r->plan.seeds = r->options->seeds ? r->options->seeds : about->seeds[scale];
    if (r->plan.seeds > KVSI_SEEDS_MAX)
        return kvsi_fail(err, KVS_E_INVALID, "%zu seeds, expected at most %d", r->plan.seeds,
                         KVSI_SEEDS_MAX);
    if (!r->experiment->plan)
        return KVS_OK;
    TRY(r->experiment->plan(&r->plan, err));
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

    *out = NULL;
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
    return &repro->experiment->about;
}

const kvs_planned_run *kvs_repro_run_at(const kvs_repro *repro, size_t index)
{
    return index < repro->plan.count ? &repro->plan.runs[index].view : NULL;
}

/* Training reaches about this share of the peak: narrow models less, since vectors and caches are
 * then half empty; a step takes some time whatever it does.  Measured on two cores. */
static double run_seconds(const kvsi_planned *run, double peak)
{
    const double dim = (double)run->model.dim, share = 0.8 * dim / (dim + 16), a_step = 0.0005;

    return run->view.flops / (share * peak) + a_step * (double)run->view.steps;
}

double kvs_repro_seconds(const kvs_repro *repro)
{
    kvsi_probe *probe = kvsi_alloc(1, sizeof *probe);
    double peak = 0, seconds = 0;

    if (!probe)
        return NAN;
    kvsi_probe_init(probe, repro->alone.ops, repro->alone.threads);
    for (int i = 0; i < PROBES; i++)
        peak = fmax(peak, kvsi_probe_peak(probe)); /* other work on the machine makes some lower */
    kvsi_free(probe);
    for (size_t i = 0; i < repro->plan.count; i++)
        if (repro->plan.runs[i].view.state <= KVS_RUN_BEGUN)
            seconds += run_seconds(repro->plan.runs + i, peak);
    return seconds * repro->share;
}

/* ---- doing ----------------------------------------------------------------------------------- */

static int is_first(const kvs_repro *r)
{
    return r->comm->rank == 0;
}

/* Makes the folder, which all ranks must find. */
static kvs_status begin(const kvs_repro *r, kvs_err *err)
{
    kvs_status st = is_first(r) ? kvsi_record_begin(r->experiment, r->options, err) : KVS_OK;

    TRY_OUT(kvs_comm_agree(r->comm, st, err));
    st = is_first(r) ? KVS_OK : kvsi_record_join(r->experiment, r->options, err);
    st = kvs_comm_agree(r->comm, st, err);
out:
    return st;
}

/* The text is made once, and then read by all. */
static kvs_status open_texts(kvsi_conductor *c, const kvs_repro *r, kvs_err *err)
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

/* What the first rank found to be done, and by whom, counts: others may see its folder late. */
static kvs_status hear_shares(kvs_repro *r, kvs_err *err)
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

/* Whether any rank was asked to stop; the others have done their runs. */
static kvs_status hear_stops(const kvs_repro *r, int *stopped, kvs_err *err)
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

/* A rank that fails does not wait for the others to say so. */
static kvs_status conduct(kvs_repro *r, int *stopped, kvs_err *err)
{
    kvsi_conductor conductor = {
        .experiment = r->experiment,
        .options = r->options,
        .rt = &r->alone,
        .rank = r->comm->rank,
        .plan = &r->plan,
    };
    kvs_status st;

    TRY_OUT(open_texts(&conductor, r, err));
    TRY_OUT(hear_shares(r, err));
    TRY_OUT(kvsi_conduct(&conductor, stopped, err));
    TRY_OUT(hear_stops(r, stopped, err));
out:
    kvs_tokenizer_free(conductor.tokenizer);
    kvs_corpus_free(conductor.corpus);
    return st;
}

static kvs_status conclude(kvs_repro *r, kvs_err *err)
{
    kvsi_trial trial = {.plan = &r->plan, .options = r->options, .rt = &r->alone};
    kvsi_findings findings = {0};
    const double started = kvsi_clock_seconds();
    kvs_status st;

    TRY_OUT(kvsi_trial_open(&trial, err));
    TRY_OUT(kvsi_findings_init(&findings, r->options->out, r->options, err));
    TRY_OUT(r->experiment->conclude(&findings, &trial, err));
    TRY_OUT(kvsi_findings_check(&findings));
    TRY_OUT(
        kvsi_record_finish(r->experiment, &trial, &findings, kvsi_clock_seconds() - started, err));
    r->claims = json_incref(findings.claims);
    r->claim_count = kvsi_record_claims(r->views, KVSI_CLAIMS_MAX, r->claims);
out:
    kvsi_findings_release(&findings);
    kvsi_trial_close(&trial);
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

kvs_status kvs_repro_run(kvs_repro *repro, int *finished, kvs_err *err)
{
    int stopped = 0;
    kvs_status st;

    *finished = 0;
    if (!repro->options->out)
        return kvsi_fail(err, KVS_E_INVALID, "an experiment needs a folder for its results");
    TRY_OUT(require_text(repro, err));
    TRY_OUT(begin(repro, err));
    TRY_OUT(conduct(repro, &stopped, err));
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
    return index < repro->claim_count ? repro->views + index : NULL;
}
