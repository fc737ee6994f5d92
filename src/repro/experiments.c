/* The table of experiments, in the paper's order. */
#include "base/names.h"
#include "base/text.h"
#include "repro/text_arms.h"

#include <string.h>

static const kvsi_experiment *const experiments[] = {
    &kvsi_repro_induction_depth, &kvsi_repro_induction_width,
    &kvsi_repro_theorem1,        &kvsi_repro_theorem2,
    &kvsi_repro_theorem3,        &kvsi_repro_landscape,
    &kvsi_repro_ngram,           &kvsi_repro_lm_loss,
    &kvsi_repro_seeds,           &kvsi_repro_learning_rates,
    &kvsi_repro_scaling_law,     &kvsi_repro_coefficients,
    &kvsi_repro_variants,        &kvsi_repro_ablations,
    &kvsi_repro_windows,         &kvsi_repro_qkv,
    &kvsi_repro_hop_k,           &kvsi_repro_igsm,
};

enum { EXPERIMENTS = sizeof experiments / sizeof *experiments };

const kvs_experiment *kvs_experiment_at(size_t index)
{
    return index < EXPERIMENTS ? &experiments[index]->about : NULL;
}

static const char *name_at(const void *names, size_t index)
{
    const kvs_experiment *about = kvs_experiment_at(index);

    (void)names;
    return about ? about->name : NULL;
}

kvs_status kvsi_experiment_find(const kvsi_experiment **out, const char *name, kvs_err *err)
{
    const char *nearest;

    for (size_t i = 0; i < EXPERIMENTS; i++)
        if (strcmp(experiments[i]->about.name, name) == 0) {
            *out = experiments[i];
            return KVS_OK;
        }
    *out = NULL;
    nearest = kvsi_nearest_name(name, name_at, NULL);
    if (nearest)
        return kvsi_fail(err, KVS_E_INVALID, "unknown experiment '%s'; did you mean '%s'?", name,
                         nearest);
    return kvsi_fail(err, KVS_E_INVALID, "unknown experiment '%s'; 'kvshift repro list' has them",
                     name);
}

kvs_status kvsi_experiment_plan(kvsi_plan *plan, const kvsi_experiment *experiment, kvs_err *err)
{
    if (experiment->plan)
        return experiment->plan(plan, err);
    return experiment->text ? kvsi_plan_text_arms(plan, experiment->text, err) : KVS_OK;
}

kvs_status kvsi_experiment_conclude(kvsi_claims *claims, const kvsi_results *results,
                                    const kvsi_experiment *experiment, kvs_err *err)
{
    if (experiment->conclude)
        TRY(experiment->conclude(claims, results, err));
    else
        kvsi_conclude_text_arms(claims, results, experiment->text);
    return kvsi_claims_check(claims);
}

/* ---- names ----------------------------------------------------------------------------------- */

static const kvsi_name scales[] = {
    {"smoke", KVS_SCALE_SMOKE}, {"desk", KVS_SCALE_DESK}, {"paper", KVS_SCALE_PAPER}, {NULL, 0}};

const char *kvs_scale_name(kvs_scale scale)
{
    return kvsi_name_of(scales, (int)scale);
}

kvs_status kvs_scale_parse(kvs_scale *out, const char *name, kvs_err *err)
{
    int value = 0;

    NEED(out);
    NEED(name);
    TRY(kvsi_name_parse(&value, scales, "scale", name, err));
    *out = (kvs_scale)value;
    return KVS_OK;
}

const char *kvs_verdict_name(kvs_verdict verdict)
{
    static const kvsi_name verdicts[] = {{"reproduced", KVS_VERDICT_REPRODUCED},
                                         {"not reproduced", KVS_VERDICT_NOT},
                                         {"not at this scale", KVS_VERDICT_TOO_SMALL},
                                         {NULL, 0}};

    return kvsi_name_of(verdicts, (int)verdict);
}
