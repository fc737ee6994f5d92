#include "trace.h"

#include "base/memory.h"

#include <stdio.h>
#include <string.h>

/* ---- activations ---- */

int trace_take(void *user, const kvs_activation *a)
{
    trace_capture *c = user;
    trace_activation *to = &c->list[c->count++];

    assert_true(c->count <= TRACE_ACTIVATIONS_MAX && strlen(a->name) < TRACE_NAME);
    assert_true(a->rank >= 2 && a->rank <= 4);
    snprintf(to->name, sizeof to->name, "%s", a->name);
    to->rank = a->rank;
    to->count = 1;
    for (size_t i = 0; i < a->rank; i++)
        to->count *= to->shape[i] = a->shape[i];
    assert_non_null(to->values = kvsi_alloc(to->count, sizeof *to->values));
    memcpy(to->values, a->values, to->count * sizeof *to->values);
    return c->count == c->stop_at;
}

void trace_run(trace_capture *c, const kvs_model *model, const int32_t *ids, size_t count,
               const char *const *names, size_t name_count)
{
    kvs_err err;

    *c = (trace_capture){0};
    if (kvs_model_trace(model, ids, count, names, name_count, trace_take, c, &err) != KVS_OK)
        fail_msg("%s", err.message);
}

void trace_capture_release(trace_capture *c)
{
    for (size_t i = 0; i < c->count; i++)
        kvsi_free(c->list[i].values);
    *c = (trace_capture){0};
}

const trace_activation *trace_find(const trace_capture *c, const char *name, size_t layer)
{
    char whole[TRACE_NAME];

    if (strncmp(name, "blocks.*.", strlen("blocks.*.")) == 0)
        snprintf(whole, sizeof whole, "blocks.%zu.%s", layer, name + strlen("blocks.*."));
    else
        snprintf(whole, sizeof whole, "%s", name);
    for (size_t i = 0; i < c->count; i++)
        if (strcmp(c->list[i].name, whole) == 0)
            return &c->list[i];
    return NULL;
}

const float *trace_values(const trace_capture *c, const char *name, size_t layer)
{
    const trace_activation *found = trace_find(c, name, layer);

    if (!found)
        fail_msg("'%s' of layer %zu was not visited", name, layer);
    return found->values;
}

/* ---- a model ---- */

const support_sizes trace_sizes = {.vocab = TRACE_VOCAB, .dim = 24, .ffn = 20, .context = 32};

trace_fixture trace_fixture_create(kvs_runtime *rt)
{
    const kvs_model_config special = {
        SUPPORT_SHIFT(KVS_SHIFT_K | KVS_SHIFT_V | KVS_SHIFT_Q, FREE, 1), .kv_heads = 2};
    const kvs_model_config config = support_config(&special, &trace_sizes);
    trace_fixture f = {.rt = rt, .model = support_model(rt, &config, 7)};

    support_fill_ids(f.ids, TRACE_TOKENS, 5, TRACE_VOCAB);
    return f;
}

void trace_fixture_release(trace_fixture *f)
{
    kvs_model_free(f->model);
    kvs_runtime_free(f->rt);
}
