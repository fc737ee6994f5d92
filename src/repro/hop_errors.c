#include "repro/hop_errors.h"

#include "base/memory.h"
#include "base/random.h"
#include "data/data.h"
#include "data/tasks/tasks.h"
#include "model/pass.h"

#include <math.h>

enum { TOGETHER = 20, RESAMPLES = 1000 }; /* sequences per pass; bootstrap samples */

/* Scored letters of one sequence. */
typedef struct count {
    size_t letters, wrong;
} count;

static const uint64_t SEED = 1;

typedef struct work {
    kvsi_pass *pass;
    kvsi_batch_buffer batch;
    count *counts; /* [sequences] */
    size_t sequences;
} work;

static void work_release(work *w)
{
    kvsi_pass_free(w->pass);
    kvsi_batch_buffer_release(&w->batch);
    kvsi_free(w->counts);
    *w = (work){0};
}

static kvs_status work_init(work *w, const kvs_model *model, const kvs_data *task, size_t sequences,
                            kvs_err *err)
{
    const size_t tokens = TOGETHER * kvs_data_max_length(task);
    const kvsi_pass_limits limits = {.tokens = tokens, .sequences = TOGETHER, .head_rows = tokens};
    kvs_status st;

    *w = (work){.sequences = sequences};
    TRY_OUT(kvsi_pass_create(&w->pass, model, &limits, err));
    TRY_OUT(kvsi_batch_buffer_init(&w->batch, task, TOGETHER, err));
    w->counts = kvsi_alloc(sequences, sizeof *w->counts);
    if (!w->counts)
        st = kvsi_fail(err, KVS_E_NOMEM, "out of memory for %zu sequences", sequences);
out:
    if (st != KVS_OK)
        work_release(w);
    return st;
}

/* Rows with a target are in the order of the sequences. */
static void count_pass(const kvsi_pass *pass, count *counts)
{
    size_t sequence = 0;

    for (size_t r = 0; r < pass->head_rows; r++) {
        const size_t row = (size_t)pass->host_rows[r];

        while (row >= pass->spans[sequence].start + pass->spans[sequence].len)
            sequence++;
        counts[sequence].letters += pass->host_scored[r];
        counts[sequence].wrong +=
            pass->host_scored[r] && pass->host_guesses[r] != pass->host_targets[r];
    }
}

static kvs_status run(work *w, const kvs_data *task, size_t hops, int dropout, kvs_err *err)
{
    for (size_t s = 0; s < w->sequences; s++)
        w->counts[s] = (count){0};
    for (size_t first = 0; first < w->sequences; first += TOGETHER) {
        const size_t left = w->sequences - first, now = left < TOGETHER ? left : TOGETHER;
        const uint64_t number = (uint64_t)hops * w->sequences + first;

        TRY(kvsi_batch_fill(&w->batch, task, SEED, KVSI_RANDOM_EVAL, number, now, err));
        TRY(kvsi_pass_load(w->pass, &w->batch.view, NULL, err));
        kvsi_pass_set_dropout(w->pass, dropout, SEED, number);
        kvsi_pass_forward(w->pass);
        TRY(kvsi_pass_loss(w->pass, NULL, NULL, err));
        count_pass(w->pass, w->counts + first);
    }
    return KVS_OK;
}

static double error_of(const count *sum)
{
    return sum->letters > 0 ? (double)sum->wrong / (double)sum->letters : NAN;
}

static void add(count *sum, const count *one)
{
    sum->letters += one->letters;
    sum->wrong += one->wrong;
}

/* Errors within a sequence are correlated, so whole sequences are resampled. */
static kvsi_hop_error bootstrap(const work *w)
{
    double sum = 0, squares = 0;
    count all = {0};
    kvsi_random random;

    for (size_t s = 0; s < w->sequences; s++)
        add(&all, &w->counts[s]);
    kvsi_random_init(&random, SEED, KVSI_RANDOM_SAMPLE, 0);
    for (size_t r = 0; r < RESAMPLES; r++) {
        count drawn = {0};
        double off;

        for (size_t s = 0; s < w->sequences; s++)
            add(&drawn, &w->counts[kvsi_random_below(&random, (uint32_t)w->sequences)]);
        off = error_of(&drawn) - error_of(&all);
        sum += off;
        squares += off * off;
    }
    return (kvsi_hop_error){
        .error = error_of(&all),
        .deviation = sqrt(fmax(0, squares / RESAMPLES - sum / RESAMPLES * sum / RESAMPLES))};
}

static kvs_status measure_hops(kvsi_hop_error *out, const kvs_model *model,
                               const kvsi_hopk_config *config, size_t hops, size_t sequences,
                               int dropout, kvs_err *err)
{
    kvsi_hopk_config only = *config;
    kvs_data *task = NULL;
    work w = {0};
    kvs_status st;

    only.only = hops;
    TRY_OUT(kvsi_hopk_create(&task, &only, err));
    TRY_OUT(work_init(&w, model, task, sequences, err));
    TRY_OUT(run(&w, task, hops, dropout, err));
    *out = bootstrap(&w);
out:
    work_release(&w);
    kvs_data_free(task);
    return st;
}

kvs_status kvsi_hop_errors(kvsi_hop_error out[KVSI_HOPS_MAX], const kvs_model *model,
                           const kvsi_hopk_config *task, size_t sequences, int dropout,
                           kvs_err *err)
{
    if (task->hops >= KVSI_HOPS_MAX)
        return kvsi_fail(err, KVS_E_INVALID, "%zu hops, expected less than %d", task->hops,
                         KVSI_HOPS_MAX);
    for (size_t hops = 0; hops <= task->hops; hops++)
        TRY(measure_hops(&out[hops], model, task, hops, sequences, dropout, err));
    return KVS_OK;
}

/* ---- as JSON --------------------------------------------------------------------------------- */

json_t *kvsi_hop_errors_to_json(const kvsi_hop_error *errors, size_t hops)
{
    json_t *list = json_array();

    for (size_t k = 0; k <= hops; k++)
        json_array_append_new(list, json_pack("[f, f]", errors[k].error, errors[k].deviation));
    return list;
}

kvs_status kvsi_hop_errors_from_json(kvsi_hop_error *errors, size_t hops, const json_t *list,
                                     const char *what, kvs_err *err)
{
    if (json_array_size(list) != hops + 1)
        return kvsi_fail(err, KVS_E_FORMAT,
                         "'%s' has error rates for %zu numbers of hops, expected %zu", what,
                         json_array_size(list), hops + 1);
    for (size_t k = 0; k <= hops; k++) {
        const json_t *pair = json_array_get(list, k);

        errors[k] = (kvsi_hop_error){json_number_value(json_array_get(pair, 0)),
                                     json_number_value(json_array_get(pair, 1))};
    }
    return KVS_OK;
}
