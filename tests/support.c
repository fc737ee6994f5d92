#include "support.h"

#include "base/memory.h"
#include "base/random.h"

#include <dirent.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* ---- numbers ---- */

double support_error(const real *found, const real *expected, size_t count)
{
    double difference = 0, largest = 0;

    for (size_t i = 0; i < count; i++) {
        if (!isfinite((double)found[i]) || !isfinite((double)expected[i]))
            return INFINITY;
        difference = fmax(difference, fabs((double)found[i] - (double)expected[i]));
        largest = fmax(largest, fabs((double)expected[i]));
    }
    return largest > 0 ? difference / largest : difference;
}

void support_expect_close(const real *found, const real *expected, size_t count, double limit,
                          const char *what, ...)
{
    const double error = support_error(found, expected, count);
    char text[256];
    va_list arguments;

    if (error <= limit)
        return;
    va_start(arguments, what);
    vsnprintf(text, sizeof text, what, arguments);
    va_end(arguments);
    fail_msg("%s: relative error %.3g, expected at most %.3g", text, error, limit);
}

void support_fill(real *out, size_t count, uint64_t seed, double deviation)
{
    kvsi_random random;

    kvsi_random_init(&random, seed, KVSI_RANDOM_INIT, 0);
    for (size_t i = 0; i < count; i++)
        out[i] = (real)(deviation * kvsi_random_normal(&random));
}

void support_fill_ids(int32_t *out, size_t count, uint64_t seed, size_t vocab)
{
    kvsi_random random;

    kvsi_random_init(&random, seed, KVSI_RANDOM_DATA, 0);
    for (size_t i = 0; i < count; i++)
        out[i] = (int32_t)kvsi_random_below(&random, (uint32_t)vocab);
}

/* ---- folders ---- */

char *support_make_dir(void)
{
    const char *root = getenv("TMPDIR");
    char path[512];

    snprintf(path, sizeof path, "%s/kvshift-test-XXXXXX", root && *root ? root : "/tmp");
    assert_non_null(mkdtemp(path));
    return kvsi_strdup(path);
}

static void remove_all(const char *path)
{
    struct stat info;
    struct dirent *entry;
    DIR *dir;

    assert_int_equal(lstat(path, &info), 0);
    if (!S_ISDIR(info.st_mode)) {
        assert_int_equal(unlink(path), 0);
        return;
    }
    assert_non_null(dir = opendir(path));
    while ((entry = readdir(dir))) {
        char inside[1024];

        if (strcmp(entry->d_name, ".") == 0 || strcmp(entry->d_name, "..") == 0)
            continue;
        assert_true(snprintf(inside, sizeof inside, "%s/%s", path, entry->d_name) <
                    (int)sizeof inside);
        remove_all(inside);
    }
    closedir(dir);
    assert_int_equal(rmdir(path), 0);
}

void support_remove_dir(char *path)
{
    remove_all(path);
    kvsi_free(path);
}

char *support_dir;

int support_dir_setup(void **state)
{
    (void)state;
    support_dir = support_make_dir();
    return 0;
}

int support_dir_teardown(void **state)
{
    (void)state;
    support_remove_dir(support_dir);
    support_dir = NULL;
    return 0;
}

/* ---- models ---- */

const char *support_level(size_t index)
{
    const char *name;
    int usable, best = 1;

    for (size_t i = 0; (name = kvs_cpu_level_name(i, &usable)); i++) {
        if (!usable || strcmp(name, "amx-emulated") == 0)
            continue;
        if (SUPPORT_SANITIZED && !best && strcmp(name, kvsi_reference_ops.name) != 0)
            continue;
        best = 0;
        if (index-- == 0)
            return name;
    }
    return NULL;
}

kvs_runtime *support_runtime(const char *level)
{
    const kvs_runtime_options options = {
        .size = sizeof(kvs_runtime_options), .threads = 2, .cpu_level = level};
    kvs_runtime *rt;

    assert_int_equal(kvs_runtime_create(&rt, &options, NULL), KVS_OK);
    return rt;
}

kvs_runtime *support_exact_runtime(void)
{
    const kvs_runtime_options options = {
        .size = sizeof(kvs_runtime_options), .threads = 2, .exact = 1};
    kvs_runtime *rt;

    assert_int_equal(kvs_runtime_create(&rt, &options, NULL), KVS_OK);
    return rt;
}

kvs_model_config support_config(const kvs_model_config *special, const support_sizes *sizes)
{
    kvs_model_config usual, config = *special;

    kvsi_model_config_init(&usual);
    config.vocab = sizes->vocab;
    config.dim = sizes->dim;
    config.ffn = sizes->ffn;
    config.context = sizes->context;
    config.layers = 2;
    if (config.heads == 0)
        config.heads = 4;
    if (config.shift.window == 0)
        config.shift.window = usual.shift.window;
    if (config.rotary_fraction == 0)
        config.rotary_fraction = usual.rotary_fraction;
    config.rope_base = usual.rope_base;
    config.norm_eps = usual.norm_eps;
    config.init_std = usual.init_std;
    return config;
}

kvs_model_config support_own_config(const kvs_model_config *special, const support_sizes *sizes)
{
    kvs_model_config config = support_config(special, sizes);

    config.vocab = special->vocab > 0 ? special->vocab : config.vocab;
    config.dim = special->dim > 0 ? special->dim : config.dim;
    config.ffn = special->ffn > 0 ? special->ffn : config.ffn;
    config.layers = special->layers > 0 ? special->layers : config.layers;
    return config;
}

static double initial_number(const kvs_model_config *c, const kvsi_parameter *p,
                             kvsi_random *random)
{
    const size_t inputs = p->shape[p->transposed ? 0 : 1];

    switch (p->role) {
    case KVSI_GAIN:
        return (c->gain_offset ? 0 : 1) + 0.3 * kvsi_random_normal(random);
    case KVSI_BIAS:
        return 0.3 * kvsi_random_normal(random);
    case KVSI_FACTOR:
        return 1.3;
    case KVSI_FILTER:
        return 0.4 * kvsi_random_normal(random);
    case KVSI_RELATIVE_TABLE:
        return kvsi_random_normal(random);
    case KVSI_TAPS:
        return 2 * kvsi_random_uniform(random) - 0.5;
    default:
        return 1.5 / sqrt((double)inputs) * kvsi_random_normal(random);
    }
}

kvs_model *support_model(kvs_runtime *rt, const kvs_model_config *config, uint64_t seed)
{
    kvs_model_config whole = *config;
    kvs_model *model = NULL;
    kvs_err err;

    if (kvs_model_config_finish(&whole, &err) != KVS_OK ||
        kvsi_model_allocate(&model, rt, &whole, &err) != KVS_OK)
        fail_msg("%s", err.message);
    for (size_t i = 0; i < model->layout.count; i++) {
        const kvsi_parameter *p = &model->layout.list[i];
        float *values = kvsi_alloc(p->count, sizeof *values);
        kvsi_random random;

        assert_non_null(values);
        kvsi_random_init(&random, seed, KVSI_RANDOM_INIT, kvsi_hash_text(p->name));
        for (size_t j = 0; j < p->count; j++)
            values[j] = (float)initial_number(&whole, p, &random);
        assert_int_equal(kvs_model_write_tensor(model, p->name, values, p->count, NULL), KVS_OK);
        kvsi_free(values);
    }
    return model;
}

kvsi_pass *support_pass(const kvs_model *model, size_t tokens, size_t sequences, int training)
{
    const kvsi_pass_limits limits = {
        .tokens = tokens, .sequences = sequences, .head_rows = tokens, .training = training};
    kvsi_pass *pass;

    assert_int_equal(kvsi_pass_create(&pass, model, &limits, NULL), KVS_OK);
    return pass;
}

static void read_logits(kvsi_pass *pass, real *logits)
{
    const kvsi_ops *op = pass->context.ops;
    const size_t count = pass->tokens;
    real *scratch = op->alloc(&pass->context, count * kvsi_pass_logit_count(&pass->model->config) *
                                                  sizeof *scratch);
    int32_t *rows = kvsi_alloc(count, sizeof *rows);

    assert_true(scratch && rows);
    for (size_t t = 0; t < count; t++)
        rows[t] = (int32_t)t;
    assert_int_equal(kvsi_pass_logits(pass, logits, scratch, rows, count, NULL), KVS_OK);
    kvsi_free(rows);
    op->release(&pass->context, scratch);
}

void support_run(kvsi_pass *pass, const kvs_batch *batch, kvsi_state *const *states, real *logits)
{
    kvs_err err;

    if (kvsi_pass_load(pass, batch, states, &err) != KVS_OK)
        fail_msg("%s", err.message);
    kvsi_pass_forward(pass);
    read_logits(pass, logits);
}

support_result support_train(const kvs_model *model, const kvs_batch *batch,
                             const support_dropout *dropout)
{
    return support_train_in(KVSI_PRECISION_F32, model, batch, dropout);
}

support_result support_train_in(kvsi_precision precision, const kvs_model *model,
                                const kvs_batch *batch, const support_dropout *dropout)
{
    const size_t tokens = batch->starts[batch->sequences];
    const size_t bytes = kvsi_layout_total(&model->layout) * sizeof(real);
    const kvsi_pass_limits limits = {.tokens = tokens,
                                     .sequences = batch->sequences,
                                     .head_rows = tokens,
                                     .training = 1,
                                     .precision = precision};
    const kvsi_ops *op = model->context.ops;
    kvsi_pass *pass;
    kvsi_loss loss;
    real *gradients = op->alloc(&model->context, bytes);
    support_result result = {
        .logits = kvsi_alloc(tokens * kvsi_pass_logit_count(&model->config), sizeof *result.logits),
        .gradients = kvsi_alloc(bytes, 1),
    };

    assert_true(gradients && result.logits && result.gradients);
    assert_int_equal(kvsi_pass_create(&pass, model, &limits, NULL), KVS_OK);
    if (dropout)
        kvsi_pass_set_dropout(pass, 1, dropout->seed, dropout->number);
    assert_int_equal(kvsi_pass_load(pass, batch, NULL, NULL), KVS_OK);
    kvsi_pass_forward(pass);
    assert_int_equal(kvsi_pass_loss(pass, gradients, &loss, NULL), KVS_OK);
    result.loss = loss.sum;
    kvsi_pass_backward(pass, gradients);
    op->download(&pass->context, result.gradients, gradients, bytes);
    op->sync(&pass->context);
    kvsi_pass_forward(pass); /* the backward pass may have overwritten what the logits need */
    read_logits(pass, result.logits);
    op->release(&pass->context, gradients);
    kvsi_pass_free(pass);
    return result;
}

void support_result_release(support_result *result)
{
    kvsi_free(result->logits);
    kvsi_free(result->gradients);
    *result = (support_result){0};
}

real *support_gradient(const support_result *result, const kvsi_parameter *p)
{
    real *gradient = kvsi_alloc(p->count, sizeof *gradient);

    assert_non_null(gradient);
    for (size_t i = 0; i < p->count; i++)
        gradient[kvsi_file_index(p, i)] = result->gradients[p->offset + i];
    return gradient;
}
