/* The whole model against PyTorch: logits, loss and every gradient, for every variant of the shift,
 * on every CPU level. */
#include "golden.h"

static void matches_pytorch(void **state)
{
    (void)state;
    for (size_t l = 0; support_level(l); l++) {
        kvs_runtime *rt = support_runtime(support_level(l));

        for (size_t i = 0; golden_names[i]; i++) {
            golden g;
            kvs_model *model;

            golden_open(&g, golden_names[i]);
            model = golden_model(&g, rt);
            golden_expect(&g, model, 1e-5, 5e-5, 1e-5);
            kvs_model_free(model);
            golden_close(&g);
        }
        kvs_runtime_free(rt);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(matches_pytorch),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
