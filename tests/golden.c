#include "golden.h"

#include "base/memory.h"
#include "formats/hf.h"

#include <math.h>
#include <stdio.h>

const char *const golden_names[] = {"none", "k",        "v",     "kv",      "qkv",
                                    "gate", "gate-k",   "clamp", "window2", "window3",
                                    "tied", "kv-1head", NULL};

static void golden_path(char *out, size_t size, const char *name, const char *ending)
{
    snprintf(out, size, "%s/goldens/%s.%s", KVSI_TESTS_DIR, name, ending);
}

static kvsi_safetensors *open_tensors(const char *name)
{
    kvsi_safetensors *file;
    char path[1024];
    kvs_err err;

    golden_path(path, sizeof path, name, "safetensors");
    if (kvsi_safetensors_open(&file, path, &err) != KVS_OK)
        fail_msg("%s", err.message);
    return file;
}

static const void *data_of(const golden *g, const char *name, kvsi_dtype dtype, size_t count)
{
    const kvsi_file_tensor *tensor = kvsi_safetensors_find(g->file, name);

    if (!tensor)
        tensor = kvsi_safetensors_find(g->body, name);
    if (!tensor || tensor->dtype != dtype || kvsi_file_tensor_count(tensor) != count)
        fail_msg("golden '%s' has no tensor '%s' of %zu numbers of type %d", g->name, name, count,
                 (int)dtype);
    return tensor->data;
}

static void read_batch(golden *g)
{
    const kvsi_file_tensor *tensor = kvsi_safetensors_find(g->file, "starts");
    const int32_t *from;
    size_t *starts, count;

    assert_non_null(tensor);
    count = kvsi_file_tensor_count(tensor);
    from = data_of(g, "starts", KVSI_I32, count);
    assert_non_null(starts = kvsi_alloc(count, sizeof *starts));
    for (size_t s = 0; s < count; s++)
        starts[s] = (size_t)from[s];
    g->batch = (kvs_batch){
        .sequences = count - 1,
        .starts = starts,
        .ids = data_of(g, "ids", KVSI_I32, starts[count - 1]),
        .targets = data_of(g, "targets", KVSI_I32, starts[count - 1]),
    };
}

void golden_open(golden *g, const char *name)
{
    char path[1024];
    kvs_err err;

    *g = (golden){.name = name};
    golden_path(path, sizeof path, name, "json");
    if (kvsi_hf_config_read(&g->config, path, &err) != KVS_OK)
        fail_msg("%s", err.message);
    g->body = open_tensors("body");
    g->file = open_tensors(name);
    read_batch(g);
    g->loss = *(const double *)data_of(g, "loss", KVSI_F64, 1);
}

void golden_close(golden *g)
{
    kvsi_free((size_t *)g->batch.starts);
    kvsi_safetensors_close(g->body);
    kvsi_safetensors_close(g->file);
}

kvs_model *golden_model(const golden *g, kvs_runtime *rt)
{
    kvs_model *model;
    const char *name;
    size_t count;

    assert_int_equal(kvsi_model_allocate(&model, rt, &g->config, NULL), KVS_OK);
    for (size_t i = 0; (name = kvs_model_tensor_name(model, i, &count)); i++) {
        const float *values = data_of(g, name, KVSI_F32, count);

        assert_int_equal(kvs_model_write_tensor(model, name, values, count, NULL), KVS_OK);
    }
    return model;
}

/* In fresh memory. */
static real *numbers_of(const golden *g, const char *name, size_t count)
{
    const float *from = data_of(g, name, KVSI_F32, count);
    real *values = kvsi_alloc(count, sizeof *values);

    assert_non_null(values);
    for (size_t i = 0; i < count; i++)
        values[i] = (real)from[i];
    return values;
}

void golden_expect(const golden *g, const kvs_model *model, double loss_limit,
                   double gradient_limit, double logit_limit)
{
    const char *level = model->context.ops->name;
    const size_t logits = g->batch.starts[g->batch.sequences] * g->config.vocab;
    support_result result = support_train(model, &g->batch);
    real *expected = numbers_of(g, "logits", logits);

    support_expect_close(result.logits, expected, logits, logit_limit, "%s, %s: logits", g->name,
                         level);
    kvsi_free(expected);
    if (!(fabs(result.loss - g->loss) <= loss_limit * g->loss))
        fail_msg("%s, %s: loss %.12g, expected %.12g", g->name, level, result.loss, g->loss);
    for (size_t i = 0; i < model->layout.count; i++) {
        const kvsi_parameter *p = &model->layout.list[i];
        char name[KVSI_NAME_SIZE + 8];

        snprintf(name, sizeof name, "grad.%s", p->name);
        expected = numbers_of(g, name, p->count);
        support_expect_close(result.gradients + p->offset, expected, p->count, gradient_limit,
                             "%s, %s: %s", g->name, level, name);
        kvsi_free(expected);
    }
    support_result_release(&result);
}
