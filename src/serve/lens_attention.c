/* /lens/repeated, /lens/scores and /lens/attention: what heads attend to. */
#include "base/memory.h"
#include "kvshift/kvshift_lab.h"
#include "serve/lens_routes.h"

#include <stdio.h>
#include <string.h>

kvs_status kvsi_lens_reply_repeated(kvsi_lens_answer *out, const kvsi_lens_call *call, kvs_err *err)
{
    const kvsi_lens_model *m;
    kvs_lens_options options;
    size_t seed = 1;
    int32_t *ids;
    kvs_status st;

    kvs_lens_options_init(&options);
    TRY(kvsi_lens_get_model(&m, call, err));
    TRY(kvsi_lens_get_count(&options.length, call, "length", KVSI_LENS_SQUARE_MAX / 2, err));
    TRY(kvsi_lens_get_count(&seed, call, "seed", UINT32_MAX, err));
    options.seed = seed;
    TRY(kvs_lens_options_finish(&options, m->model, err));
    ids = kvsi_alloc(2 * options.length, sizeof *ids);
    if (!ids)
        return kvsi_no_memory(err, "%zu tokens", 2 * options.length);
    kvs_lens_sequence(ids, &options, m->model, 0);
    st = kvsi_lens_answer_json(
        out, json_pack("{s:o}", "ids", kvsi_json_ids(ids, 2 * options.length)), err);
    kvsi_free(ids);
    return st;
}

/* ---- scores ---------------------------------------------------------------------------------- */

typedef struct scores {
    json_t *heads;
    const size_t *earlier; /* [tokens] where the token was last, SIZE_MAX = nowhere */
    size_t repeated;       /* tokens that were there before */
} scores;

/* Means over the tokens that have such a token; null if none has. */
static json_t *score(const scores *s, const float *pattern, size_t tokens)
{
    double induction = 0, duplicate = 0, previous = 0;
    json_t *out = json_object();

    for (size_t t = 1; t < tokens; t++) {
        const float *row = pattern + t * tokens;

        previous += (double)row[t - 1];
        if (s->earlier[t] != SIZE_MAX) {
            induction += (double)row[s->earlier[t] + 1];
            duplicate += (double)row[s->earlier[t]];
        }
    }
    json_object_set_new(out, "induction",
                        kvsi_json_number(induction / (double)s->repeated)); /* 0/0 is null */
    json_object_set_new(out, "duplicate", kvsi_json_number(duplicate / (double)s->repeated));
    json_object_set_new(out, "previous", kvsi_json_number(previous / (double)(tokens - 1)));
    return out;
}

static void add_head(void *user, const kvs_pattern *p)
{
    const scores *s = user;

    json_array_append_new(s->heads,
                          json_pack("{s:I, s:I, s:I, s:o, s:o}", "layer", (json_int_t)p->layer,
                                    "head", (json_int_t)p->head, "kv_head", (json_int_t)p->kv_head,
                                    "by_place", score(s, p->places, p->tokens), "by_content",
                                    score(s, p->contents, p->tokens)));
}

/* Finds the last earlier occurrence of each token; returns how many have one. */
static size_t find_earlier(size_t *earlier, const int32_t *ids, size_t count)
{
    size_t repeated = 0;

    for (size_t t = 0; t < count; t++) {
        earlier[t] = SIZE_MAX;
        for (size_t j = t; j > 0 && earlier[t] == SIZE_MAX; j--)
            if (ids[j - 1] == ids[t])
                earlier[t] = j - 1;
        repeated += earlier[t] != SIZE_MAX;
    }
    return repeated;
}

kvs_status kvsi_lens_reply_scores(kvsi_lens_answer *out, const kvsi_lens_call *call, kvs_err *err)
{
    const kvsi_lens_model *m;
    scores s = {0};
    size_t *earlier = NULL, count = 0;
    int32_t *ids = NULL;
    kvs_status st;

    TRY(kvsi_lens_get_model(&m, call, err));
    TRY(kvsi_lens_get_ids(&ids, &count, call, m->model, KVSI_LENS_SQUARE_MAX, err));
    s.heads = json_array();
    s.earlier = earlier = kvsi_alloc(count, sizeof *earlier);
    if (!earlier) {
        st = kvsi_no_memory(err, "%zu tokens", count);
        goto out;
    }
    s.repeated = find_earlier(earlier, ids, count);
    TRY_OUT(kvs_patterns(m->model, ids, count, add_head, &s, err));
    TRY_OUT(kvsi_lens_answer_json(
        out, json_pack("{s:I, s:O}", "repeated", (json_int_t)s.repeated, "heads", s.heads), err));
out:
    json_decref(s.heads);
    kvsi_free(earlier);
    kvsi_free(ids);
    return st;
}

/* ---- one head -------------------------------------------------------------------------------- */

typedef struct square {
    kvsi_text *out;
    size_t head;
    const kvsi_lens_call *call;
} square;

/* float32 in the order of this machine, which is little-endian on all that the page runs on. */
static int add_square(void *user, const kvs_activation *a)
{
    const square *s = user;
    const size_t size = a->shape[1] * a->shape[2];

    if (s->call->is_gone && s->call->is_gone(s->call->user))
        return 1;
    kvsi_text_add_bytes(s->out, (const char *)(a->values + s->head * size),
                        size * sizeof *a->values);
    return 0;
}

kvs_status kvsi_lens_reply_attention(kvsi_lens_answer *out, const kvsi_lens_call *call,
                                     kvs_err *err)
{
    const kvsi_lens_model *m;
    const kvs_model_config *config;
    size_t layer = 0, head = 0, count = 0;
    int32_t *ids = NULL;
    char pattern[64], content[64];
    const char *const names[] = {pattern, content};
    square s = {.out = &out->body, .call = call};
    kvs_status st;

    TRY(kvsi_lens_get_model(&m, call, err));
    config = kvs_model_get_config(m->model);
    TRY(kvsi_lens_get_count(&layer, call, "layer",
                            (size_t)kvs_model_config_number(config, "layers") - 1, err));
    TRY(kvsi_lens_get_count(&head, call, "head", kvs_model_config_heads(config, layer) - 1, err));
    TRY(kvsi_lens_get_ids(&ids, &count, call, m->model, KVSI_LENS_SQUARE_MAX, err));
    snprintf(pattern, sizeof pattern, "blocks.%zu.attn.hook_pattern", layer);
    snprintf(content, sizeof content, "blocks.%zu.attn.hook_content", layer);
    s.head = head;
    out->type = "application/octet-stream";
    st = kvs_model_trace(m->model, ids, count, names, 2, add_square, &s, err);
    kvsi_free(ids);
    return st;
}
