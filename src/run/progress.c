#include "run/progress.h"

#include <math.h>

double kvsi_progress_add_accuracy(kvsi_run_progress *p, double accuracy)
{
    double sum = 0;

    p->recent[p->recent_count++ % KVSI_RECENT_BATCHES] = accuracy;
    for (size_t i = 0; i < KVSI_RECENT_BATCHES; i++)
        sum += p->recent[i];
    return p->recent_count < KVSI_RECENT_BATCHES ? NAN : sum / KVSI_RECENT_BATCHES;
}

json_t *kvsi_progress_to_json(const kvsi_run_progress *p, json_t *settings)
{
    /* clang-format off */
    return json_pack("{s:O, s:I, s:I, s:f, s:o, s:I, s:I, s:o}",
                     "settings", settings,
                     "tokens", (json_int_t)p->tokens,
                     "step_at_99", (json_int_t)p->step_at_99,
                     "seconds", p->seconds,
                     "best_loss", kvsi_json_number(p->best_loss),
                     "stale", (json_int_t)p->stale,
                     "recent_count", (json_int_t)p->recent_count,
                     "recent", kvsi_json_numbers(p->recent, KVSI_RECENT_BATCHES));
    /* clang-format on */
}

kvs_status kvsi_progress_from_json(kvsi_run_progress *out, const json_t *json, const char *what,
                                   kvs_err *err)
{
    const json_t *recent = json_object_get(json, "recent");
    kvsi_run_progress p = {.best_loss = INFINITY};
    size_t tokens = 0, step_at_99 = 0, stale = 0;

    TRY(kvsi_json_get_size(&tokens, json, "tokens", what, err));
    TRY(kvsi_json_get_size(&step_at_99, json, "step_at_99", what, err));
    TRY(kvsi_json_get_real(&p.seconds, json, "seconds", what, err));
    if (json_is_number(json_object_get(json, "best_loss")))
        TRY(kvsi_json_get_real(&p.best_loss, json, "best_loss", what, err));
    if (json_object_get(json, "stale"))
        TRY(kvsi_json_get_size(&stale, json, "stale", what, err));
    TRY(kvsi_json_get_size(&p.recent_count, json, "recent_count", what, err));
    p.tokens = tokens;
    p.step_at_99 = step_at_99;
    p.stale = stale;
    for (size_t i = 0; i < KVSI_RECENT_BATCHES; i++) {
        const json_t *value = json_array_get(recent, i);

        p.recent[i] = json_is_number(value) ? json_number_value(value) : NAN;
    }
    *out = p;
    return KVS_OK;
}
