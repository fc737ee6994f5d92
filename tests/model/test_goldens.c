/* The whole model against PyTorch: logits, loss and gradients, for every shift and every member of
 * the family, on every CPU level. */
#include "golden.h"

static void matches_pytorch(void **state)
{
    const golden_limits limits = {.loss = 1e-5, .gradient = 5e-5, .logit = 1e-5};
    const char *level;
    int usable;

    (void)state;
    for (size_t l = 0; (level = kvs_cpu_level_name(l, &usable)); l++)
        if (usable) {
            kvs_runtime *rt = support_runtime(level);

            golden_expect_all(rt, &limits);
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
