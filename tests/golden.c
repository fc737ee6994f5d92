#include "golden.h"

#include "base/memory.h"
#include "formats/hf.h"
#include "formats/safetensors.h"

#include <dirent.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- reading a case ---- */

typedef struct golden {
    const char *name;
    kvs_model_config config;
    kvsi_safetensors *body, *file;
    kvs_batch batch; /* `starts` is owned, the rest is a view into the file */
    int drops;       /* whether the pass has dropout */
    support_dropout dropout;
    double loss; /* sum over the rows with a target */
} golden;

static void golden_path(char *out, size_t size, const char *name, const char *ending)
{
    assert_true(snprintf(out, size, "%s/goldens/%s%s", KVSI_TESTS_DIR, name, ending) < (int)size);
}

static kvsi_safetensors *open_tensors(const char *name)
{
    kvsi_safetensors *file;
    char path[1024];
    kvs_err err;

    golden_path(path, sizeof path, name, ".safetensors");
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

static void read_dropout(golden *g)
{
    int64_t numbers[2];

    g->drops = kvsi_safetensors_find(g->file, "dropout") != NULL;
    if (!g->drops)
        return;
    memcpy(numbers, data_of(g, "dropout", KVSI_I64, 2), sizeof numbers);
    g->dropout = (support_dropout){.seed = (uint64_t)numbers[0], .number = (uint64_t)numbers[1]};
}

static void golden_open(golden *g, const char *name)
{
    char path[1024];
    kvs_err err;

    *g = (golden){.name = name};
    golden_path(path, sizeof path, name, ".json");
    if (kvsi_model_config_load(&g->config, path, &err) != KVS_OK)
        fail_msg("%s", err.message);
    g->body = open_tensors(g->config.body == KVSI_BODY_GPT2 ? "body-gpt2" : "body-llama");
    g->file = open_tensors(name);
    read_batch(g);
    read_dropout(g);
    memcpy(&g->loss, data_of(g, "loss", KVSI_F64, 1), sizeof g->loss);
}

static void golden_close(golden *g)
{
    kvsi_free((size_t *)g->batch.starts);
    kvsi_safetensors_close(g->body);
    kvsi_safetensors_close(g->file);
}

/* With the golden weights. */
static kvs_model *golden_model(const golden *g, kvs_runtime *rt)
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

/* ---- comparing ---- */

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

/* Compares every gradient in the file; it has at least all of the attention's. */
static void expect_gradients(const golden *g, const kvs_model *model, const support_result *result,
                             double limit)
{
    size_t in_file = 0, compared = 0;

    for (size_t i = 0; i < kvsi_safetensors_count(g->file); i++)
        in_file += strncmp(kvsi_safetensors_at(g->file, i)->name, "grad.", 5) == 0;
    for (size_t i = 0; i < model->layout.count; i++) {
        const kvsi_parameter *p = &model->layout.list[i];
        char name[KVSI_NAME_SIZE + 8];
        real *expected, *found;

        snprintf(name, sizeof name, "grad.%s", p->name);
        if (!kvsi_safetensors_find(g->file, name) && !strstr(p->name, "attn"))
            continue;
        expected = numbers_of(g, name, p->count);
        found = support_gradient(result, p);
        support_expect_close(found, expected, p->count, limit, "%s, %s: %s", g->name,
                             model->context.ops->name, name);
        kvsi_free(expected);
        kvsi_free(found);
        compared++;
    }
    if (compared != in_file)
        fail_msg("golden '%s' has %zu gradients, %zu of them are the model's", g->name, in_file,
                 compared);
}

static void golden_expect(const golden *g, const kvs_model *model, const golden_limits *limits)
{
    const char *level = model->context.ops->name;
    const size_t logits = g->batch.starts[g->batch.sequences] * kvsi_pass_logit_count(&g->config);
    support_result result = support_train(model, &g->batch, g->drops ? &g->dropout : NULL);
    real *expected = numbers_of(g, "logits", logits);

    support_expect_close(result.logits, expected, logits, limits->logit, "%s, %s: logits", g->name,
                         level);
    kvsi_free(expected);
    if (!(fabs(result.loss - g->loss) <= limits->loss * g->loss))
        fail_msg("%s, %s: loss %.12g, expected %.12g", g->name, level, result.loss, g->loss);
    expect_gradients(g, model, &result, limits->gradient);
    support_result_release(&result);
}

/* ---- all cases ---- */

static int is_configuration(const struct dirent *entry)
{
    const char *ending = strrchr(entry->d_name, '.');

    return ending && strcmp(ending, ".json") == 0;
}

typedef void golden_visit(const golden *g, const kvs_model *model, const void *user);

static void visit_all(kvs_runtime *rt, golden_visit *visit, const void *user)
{
    struct dirent **entries;
    char path[1024];
    int count;

    golden_path(path, sizeof path, "", "");
    count = scandir(path, &entries, is_configuration, alphasort);
    if (count <= 0)
        fail_msg("no golden cases in '%s'", path);
    for (int i = 0; i < count; i++) {
        golden g;
        kvs_model *model;

        *strrchr(entries[i]->d_name, '.') = '\0';
        golden_open(&g, entries[i]->d_name);
        model = golden_model(&g, rt);
        visit(&g, model, user);
        kvs_model_free(model);
        golden_close(&g);
        free(entries[i]);
    }
    free(entries);
}

static void visit_limits(const golden *g, const kvs_model *model, const void *user)
{
    golden_expect(g, model, user);
}

void golden_expect_all(kvs_runtime *rt, const golden_limits *limits)
{
    visit_all(rt, visit_limits, limits);
}

typedef struct checker {
    golden_check *check;
} checker;

static void visit_check(const golden *g, const kvs_model *model, const void *user)
{
    const checker *c = user;

    c->check(model, &g->batch, g->drops ? &g->dropout : NULL, g->name);
}

void golden_each(kvs_runtime *rt, golden_check *check)
{
    visit_all(rt, visit_check, &(checker){check});
}
