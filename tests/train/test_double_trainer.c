/* kvs_trainer_gradients() in double precision.  Its gradients agree with finite differences of the
 * loss that it returns, the mean over the targets of the batch, for every division of the batch. */
#include "base/memory.h"
#include "base/random.h"
#include "support.h"

#include <math.h>
#include <stdio.h>

enum { VOCAB = 11, CONTEXT = 8, SEQUENCES = 5, ROWS = 20, SAMPLES = 6 };

static const size_t starts[SEQUENCES + 1] = {0, 1, 3, 10, 14, ROWS};
static const kvs_model_config kinds[] = {
    {SUPPORT_SHIFT(KVS_SHIFT_K | KVS_SHIFT_V, FREE, 1)},
    {.body = KVSI_BODY_GPT2,
     .tied = 1,
     .dropout_embedding = 0.2,
     .dropout_attention = 0.2,
     .dropout_residual = 0.2,
     SUPPORT_SHIFT(KVS_SHIFT_K | KVS_SHIFT_V | KVS_SHIFT_Q, DATA, 1)},
};

static double loss_of(kvs_trainer *trainer, const kvs_batch *batch)
{
    kvs_err err;
    double loss;

    if (kvs_trainer_gradients(&loss, trainer, batch, &err) != KVS_OK)
        fail_msg("%s", err.message);
    return loss;
}

/* Returns the derivative by one parameter, from four points: the error is of fourth order in the
 * step. */
static double slope(kvs_trainer *trainer, const kvs_batch *batch, kvs_model *model, size_t at)
{
    static const double offsets[] = {-2, -1, 1, 2}, weights[] = {1, -8, 8, -1};
    const double step = 2e-4;
    const real value = model->parameters[at];
    double sum = 0;

    for (size_t i = 0; i < 4; i++) {
        model->parameters[at] = value + (real)(offsets[i] * step);
        sum += weights[i] * loss_of(trainer, batch);
    }
    model->parameters[at] = value;
    return sum / (12 * step);
}

/* Checks the gradients of all parameters of a shift, and of some parameters of other tensors. */
static void check_tensor(kvs_trainer *trainer, const kvs_batch *batch, kvs_model *model,
                         const kvsi_parameter *p)
{
    const int is_shift = p->role == KVSI_TAPS || p->role == KVSI_GATE;
    const size_t count = is_shift || p->count < SAMPLES ? p->count : SAMPLES;
    float *gradient = kvsi_alloc(p->count, sizeof *gradient);
    double largest = 0;
    kvsi_random random;
    kvs_err err;

    loss_of(trainer, batch);
    if (kvs_trainer_read_gradient(gradient, p->count, trainer, p->name, &err) != KVS_OK)
        fail_msg("%s", err.message);
    for (size_t i = 0; i < p->count; i++)
        largest = fmax(largest, fabs((double)gradient[i]));
    assert_true(largest > 0);
    kvsi_random_init(&random, 1, KVSI_RANDOM_DATA, kvsi_hash_text(p->name));
    for (size_t i = 0; i < count; i++) {
        const size_t at = count == p->count ? i : kvsi_random_below(&random, (uint32_t)p->count);
        const double expected = slope(trainer, batch, model, p->offset + at);
        const double found = (double)gradient[kvsi_file_index(p, at)];

        /* 2^-24 is half a unit in the last place of a float. */
        if (!(fabs(found - expected) <= 1e-8 * largest + 0x1p-24 * fabs(expected) + 1e-10))
            fail_msg("gradient of %s[%zu] is %.10g, differences give %.10g", p->name, at, found,
                     expected);
    }
    kvsi_free(gradient);
}

static void gradients_match_differences(void **state)
{
    static const support_sizes sizes = {.vocab = VOCAB, .dim = 16, .ffn = 20, .context = CONTEXT};
    kvs_runtime *rt = support_runtime("reference");
    int32_t ids[ROWS];
    uint8_t mask[ROWS];
    kvs_batch batch;

    (void)state;
    support_fill_ids(ids, ROWS, 1, VOCAB);
    for (size_t i = 0; i < ROWS; i++)
        mask[i] = i % 4 != 2;
    kvs_batch_init(&batch, sizeof batch);
    batch.sequences = SEQUENCES;
    batch.starts = starts;
    batch.ids = ids;
    batch.mask = mask;
    for (int way = 0; way < 8; way++) {
        const kvs_model_config config = support_config(&kinds[way & 1], &sizes);
        kvs_model *model = support_model(rt, &config, 7);
        kvs_train_config training;
        kvs_trainer *trainer;

        kvsi_train_config_init(&training);
        training.batch = 8;
        training.accumulate = way & 2 ? 4 : 1;
        training.deterministic = (way & 4) != 0;
        training.clip = 1e-3; /* steps clip gradients, kvs_trainer_gradients() does not */
        assert_int_equal(kvs_trainer_create(&trainer, model, NULL, &training, NULL), KVS_OK);
        for (size_t t = 0; t < model->layout.count; t++)
            check_tensor(trainer, &batch, model, &model->layout.list[t]);
        kvs_trainer_free(trainer);
        kvs_model_free(model);
    }
    kvs_runtime_free(rt);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(gradients_match_differences),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
