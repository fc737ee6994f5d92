/* Induction, duplicate-token and previous-token scores of all heads on a random sequence repeated
 * once: by the positions a head attends to (A), and by the tokens whose values it reads (A_V). */
#include "base/memory.h"
#include "base/random.h"
#include "base/status.h"
#include "config/config.h"
#include "kvshift/kvshift_lab.h"

#include <math.h>

enum { LENGTH_MAX = 1 << 12, SEQUENCES_MAX = 1 << 16 };

void kvs_lens_options_init(kvs_lens_options *options)
{
    if (options)
        *options = (kvs_lens_options){.length = 64, .sequences = 4, .seed = 1};
}

kvs_status kvs_lens_options_finish(kvs_lens_options *o, const kvs_model *model, kvs_err *err)
{
    const kvs_model_config *c;

    NEED_AS(o, options);
    NEED(model);
    c = kvs_model_get_config(model);
    if (o->length < 2 || o->length > LENGTH_MAX)
        return kvsi_fail(err, KVS_E_INVALID, "length is '%zu', expected 2 to %d", o->length,
                         LENGTH_MAX);
    if (o->sequences < 1 || o->sequences > SEQUENCES_MAX)
        return kvsi_fail(err, KVS_E_INVALID, "sequences is '%zu', expected 1 to %d", o->sequences,
                         SEQUENCES_MAX);
    if (c->vocab < 2)
        return kvsi_fail(
            err, KVS_E_UNSUPPORTED,
            "the model's vocabulary is %zu, expected at least 2 for a repeated sequence", c->vocab);
    if (o->first_id > c->vocab - 2)
        return kvsi_fail(err, KVS_E_INVALID, "first id is '%zu', expected at most %zu", o->first_id,
                         c->vocab - 2);
    if (c->context < 4)
        return kvsi_fail(err, KVS_E_UNSUPPORTED,
                         "the model's context is %zu, expected at least 4 for a repeated sequence",
                         c->context);
    if (o->length > c->context / 2)
        o->length = c->context / 2;
    return KVS_OK;
}

static int is_among(const int32_t *ids, size_t count, int32_t id)
{
    for (size_t i = 0; i < count; i++)
        if (ids[i] == id)
            return 1;
    return 0;
}

/* All different if the vocabulary is large enough. */
void kvs_lens_sequence(int32_t *ids, const kvs_lens_options *o, const kvs_model *model,
                       size_t index)
{
    uint32_t choice;
    int distinct;
    kvsi_random random;

    if (!ids || !o || !model)
        return;
    choice = (uint32_t)(kvs_model_get_config(model)->vocab - o->first_id);
    distinct = choice >= 2 * o->length;
    kvsi_random_init(&random, o->seed, KVSI_RANDOM_EVAL, index);
    for (size_t i = 0; i < o->length;) {
        ids[i] = (int32_t)(o->first_id + kvsi_random_below(&random, choice));
        if (distinct && is_among(ids, i, ids[i]))
            continue;
        ids[o->length + i] = ids[i];
        i++;
    }
}

size_t kvs_lens_heads(const kvs_model *model)
{
    const kvs_model_config *c = kvs_model_get_config(model);
    size_t heads = 0;

    for (size_t layer = 0; c && layer < c->layers; layer++)
        heads += kvsi_model_config_heads(c, layer);
    return heads;
}

typedef struct reader {
    kvs_head_reading *next;
    double share; /* weight of one sequence in the mean */
} reader;

static void add_scores(kvs_head_scores *scores, const float *pattern, size_t tokens, double share)
{
    const size_t half = tokens / 2;
    const double of_half = share / (double)half, of_all = share / (double)(tokens - 1);

    for (size_t t = half; t < tokens; t++) {
        scores->induction += of_half * (double)pattern[t * tokens + t - half + 1];
        scores->duplicate += of_half * (double)pattern[t * tokens + t - half];
    }
    for (size_t t = 1; t < tokens; t++)
        scores->previous += of_all * (double)pattern[t * tokens + t - 1];
}

static void read_head(void *user, const kvs_pattern *p)
{
    reader *r = user;
    kvs_head_reading *out = r->next++;

    out->layer = p->layer;
    out->head = p->head;
    out->kv_head = p->kv_head;
    add_scores(&out->places, p->places, p->tokens, r->share);
    add_scores(&out->contents, p->contents, p->tokens, r->share);
}

/* Share of the previous token in a head's keys, which A does not show. */
static kvs_status read_keys(kvs_head_reading *head, const kvs_model *model, kvs_err *err)
{
    const kvsi_shift_config *shift = &kvs_model_get_config(model)->shift;
    double taps[2];

    head->previous_keys = NAN;
    if (!(shift->targets & KVS_SHIFT_K) || shift->window != 1 || shift->form == KVSI_SHIFT_DATA)
        return KVS_OK;
    TRY(kvs_model_taps(taps, NULL, model, head->layer, KVS_SHIFT_K, head->kv_head, err));
    head->previous_keys = taps[0] / (fabs(taps[0]) + fabs(taps[1]));
    return KVS_OK;
}

kvs_status kvs_lens_read(kvs_head_reading *out, const kvs_model *model, const kvs_lens_options *o,
                         kvs_err *err)
{
    const size_t heads = kvs_lens_heads(model);
    int32_t *ids;
    kvs_status st = KVS_OK;

    NEED(out);
    NEED(model);
    NEED_AS(o, options);
    ids = kvsi_alloc(2 * o->length, sizeof *ids);
    if (!ids)
        return kvsi_no_memory(err, "%zu tokens", 2 * o->length);
    for (size_t h = 0; h < heads; h++)
        out[h] = (kvs_head_reading){0};
    for (size_t s = 0; s < o->sequences; s++) {
        reader r = {.next = out, .share = 1 / (double)o->sequences};

        kvs_lens_sequence(ids, o, model, s);
        TRY_OUT(kvs_patterns(model, ids, 2 * o->length, read_head, &r, err));
    }
    for (size_t h = 0; h < heads; h++)
        TRY_OUT(read_keys(out + h, model, err));
out:
    kvsi_free(ids);
    return st;
}
