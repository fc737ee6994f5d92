/* The models of the benchmarks. */
#include "bench/models.h"

#include <string.h>

typedef struct row {
    const char *name;
    size_t vocab, dim, layers, heads, kv_heads, ffn, batch, length, steps;
} row;

static const row llamas[] = {
    {"tiny", 256, 128, 2, 4, 4, 352, 16, 128, 100},
    {"small", 2048, 256, 4, 4, 4, 704, 8, 256, 30},
    {"kvlm", 8000, 512, 6, 8, 2, 1408, 4, 512, 10},
    {"s124", 50257, 768, 12, 12, 12, 2048, 4, 256, 5},
    {"l110", 32000, 768, 12, 12, 12, 2048, 1, 1024, 5},
};

enum { LLAMAS = sizeof llamas / sizeof *llamas };

/* The shape that llm.c trains. */
static const row gpt2 = {"gpt2", 50257, 768, 12, 12, 12, 3072, 4, 256, 5};
enum { GPT2_CONTEXT = 1024 };

static const row *row_at(size_t index)
{
    return index < LLAMAS ? &llamas[index] : index == LLAMAS ? &gpt2 : NULL;
}

const char *kvs_bench_model_name(size_t index)
{
    const row *r = row_at(index);

    return r ? r->name : NULL;
}

static void fill(kvsi_bench_model *out, const row *r)
{
    kvs_model_config *c = &out->config;

    *out = (kvsi_bench_model){
        .name = r->name, .batch = r->batch, .length = r->length, .steps = r->steps};
    kvsi_model_config_init(c);
    if (r == &gpt2)
        kvsi_model_config_set_body(c, KVSI_BODY_GPT2);
    c->vocab = r->vocab;
    c->dim = r->dim;
    c->layers = r->layers;
    c->heads = r->heads;
    c->kv_heads = r->kv_heads;
    c->ffn = r->ffn;
    c->context = r == &gpt2 ? GPT2_CONTEXT : r->length;
    c->tied = r == &gpt2;
    c->rope_base = 1e5;
    c->shift.targets = 0;
    c->dropout_embedding = c->dropout_attention = c->dropout_residual = 0;
}

static const char *name_at(const void *names, size_t index)
{
    (void)names;
    return kvs_bench_model_name(index);
}

kvs_status kvsi_bench_model_get(kvsi_bench_model *out, const char *name, kvs_err *err)
{
    const char *nearest = kvsi_nearest_name(name, name_at, NULL);
    const row *r;

    for (size_t i = 0; (r = row_at(i)) != NULL; i++)
        if (strcmp(r->name, name) == 0) {
            fill(out, r);
            return KVS_OK;
        }
    return kvsi_fail(err, KVS_E_INVALID, "unknown bench model '%s'%s%s%s", name,
                     nearest ? "; did you mean '" : "", nearest ? nearest : "",
                     nearest ? "'?" : "");
}

kvs_status kvs_bench_model_get(kvs_bench_model *out, const char *name, kvs_err *err)
{
    kvsi_bench_model model;

    NEED(out);
    NEED(name);
    TRY(kvsi_bench_model_get(&model, name, err));
    *out = (kvs_bench_model){model.name, model.batch, model.length, model.steps};
    return KVS_OK;
}

kvs_status kvs_bench_model_config(kvs_model_config **out, const char *name, kvs_err *err)
{
    kvsi_bench_model model;

    NEED(out);
    *out = NULL;
    NEED(name);
    TRY(kvsi_bench_model_get(&model, name, err));
    return kvs_model_config_copy(out, &model.config, err);
}
