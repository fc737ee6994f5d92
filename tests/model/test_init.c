/* Initial weights: models that differ only in their shift start with the same other weights, so
 * that comparing them compares the shift. */
#include "base/memory.h"
#include "support.h"

#include <string.h>

static kvs_model *make(kvs_runtime *rt, kvsi_shift_config shift, uint64_t seed)
{
    kvs_model_config config;
    kvs_model *model;
    kvs_err err;

    kvsi_model_config_init(&config);
    config.vocab = 50;
    config.dim = 32;
    config.layers = 2;
    config.heads = 4;
    config.kv_heads = 2;
    config.context = 16;
    config.shift = shift;
    if (kvs_model_create(&model, rt, &config, seed, &err) != KVS_OK)
        fail_msg("%s", err.message);
    return model;
}

/* The number of tensors of `a` that are equal, bit for bit, in `b`. */
static size_t count_equal(const kvs_model *a, const kvs_model *b, size_t *tensors)
{
    const char *name;
    size_t count, equal = 0;

    for (*tensors = 0; (name = kvs_model_tensor_name(a, *tensors, &count)); ++*tensors) {
        float *ours = kvsi_alloc(count, sizeof *ours), *theirs = kvsi_alloc(count, sizeof *theirs);

        assert_int_equal(kvs_model_read_tensor(ours, count, a, name, NULL), KVS_OK);
        equal += kvs_model_read_tensor(theirs, count, b, name, NULL) == KVS_OK &&
                 memcmp(ours, theirs, count * sizeof *ours) == 0;
        kvsi_free(ours);
        kvsi_free(theirs);
    }
    return equal;
}

static void only_the_shift_sets_models_apart(void **state)
{
    static const kvsi_shift_config shifts[] = {
        {.targets = KVS_SHIFT_K | KVS_SHIFT_V, .form = KVSI_SHIFT_FREE, .window = 1},
        {.targets = KVS_SHIFT_K, .form = KVSI_SHIFT_GATE, .window = 1},
        {.targets = KVS_SHIFT_K | KVS_SHIFT_V, .form = KVSI_SHIFT_CHANNEL, .window = 3},
        {.targets = KVS_SHIFT_K | KVS_SHIFT_V, .form = KVSI_SHIFT_DATA, .window = 1},
    };
    kvs_runtime *rt = support_runtime(NULL);
    kvs_model *plain = make(rt, (kvsi_shift_config){.window = 1}, 7);
    size_t plain_tensors, tensors;

    (void)state;
    for (size_t i = 0; i < sizeof shifts / sizeof *shifts; i++) {
        kvs_model *shifted = make(rt, shifts[i], 7);
        const size_t equal = count_equal(plain, shifted, &plain_tensors);

        assert_int_equal(equal, plain_tensors);
        assert_int_equal(count_equal(shifted, plain, &tensors), plain_tensors);
        assert_true(tensors > plain_tensors);
        kvs_model_free(shifted);
    }
    kvs_model_free(plain);
    kvs_runtime_free(rt);
}

/* Norms start as ones for every seed: two in each layer and one at the end. */
static void another_seed_gives_other_weights(void **state)
{
    kvs_runtime *rt = support_runtime(NULL);
    kvs_model *one = make(rt, (kvsi_shift_config){.window = 1}, 7),
              *other = make(rt, (kvsi_shift_config){.window = 1}, 8);
    size_t tensors;

    (void)state;
    assert_int_equal(count_equal(one, other, &tensors), 5);
    assert_true(tensors > 5);
    kvs_model_free(one);
    kvs_model_free(other);
    kvs_runtime_free(rt);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(only_the_shift_sets_models_apart),
        cmocka_unit_test(another_seed_gives_other_weights),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
