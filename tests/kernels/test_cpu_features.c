/* Features of the processor are those that the kernel of the operating system lists. */
#include "kernels/cpu_features.h"
#include "support.h"

#include <stdio.h>
#include <string.h>

/* The flags of the first processor, with a space before and after each; "" if they are not
 * listed. */
static void read_flags(char *out, size_t size)
{
    FILE *file = fopen("/proc/cpuinfo", "r");
    int found = 0;

    while (file && !found && fgets(out, (int)size, file))
        found = strncmp(out, "flags", 5) == 0;
    if (file)
        fclose(file);
    if (!found)
        out[0] = '\0';
    for (char *c = out; *c; c++)
        if (*c == '\n' || *c == '\t')
            *c = ' ';
}

static void features_are_those_that_linux_lists(void **state)
{
    static const struct {
        kvsi_cpu_feature feature;
        const char *flags[6]; /* all of them */
    } table[] = {
        {KVSI_CPU_AVX2, {" avx2 ", " fma ", " f16c "}},
        {KVSI_CPU_AVX512, {" avx512f ", " avx512bw ", " avx512dq ", " avx512vl ", " avx512_vnni "}},
        {KVSI_CPU_AVX512_BF16, {" avx512_vnni ", " avx512_bf16 "}},
        {KVSI_CPU_AMX, {" avx512_vnni ", " amx_tile ", " amx_bf16 ", " amx_int8 "}},
    };
    char flags[8192];

    (void)state;
    read_flags(flags, sizeof flags);
    if (flags[0] == '\0')
        skip();
    for (size_t i = 0; i < sizeof table / sizeof *table; i++) {
        const char *lacks = kvsi_cpu_lacks(table[i].feature);
        int listed = 1;

        for (size_t j = 0; table[i].flags[j]; j++)
            listed = listed && strstr(flags, table[i].flags[j]);
        assert_int_equal(listed, !lacks);
        if (lacks)
            assert_true(strlen(lacks) > 4);
    }
}

static void features_include_others(void **state)
{
    (void)state;
    assert_null(kvsi_cpu_lacks(KVSI_CPU_ANY));
    if (kvsi_cpu_lacks(KVSI_CPU_AVX512)) {
        assert_non_null(kvsi_cpu_lacks(KVSI_CPU_AVX512_BF16));
        assert_non_null(kvsi_cpu_lacks(KVSI_CPU_AMX));
    }
    if (kvsi_cpu_lacks(KVSI_CPU_AVX2)) {
        assert_non_null(kvsi_cpu_lacks(KVSI_CPU_AVX512));
    }
}

static void the_processor_has_a_vendor(void **state)
{
    const kvsi_cpu_kind kind = kvsi_cpu_identify();

    (void)state;
    if (!kvsi_cpu_lacks(KVSI_CPU_AVX2)) {
        assert_int_equal(strlen(kind.vendor), 12);
        assert_true(kind.family > 0);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(features_are_those_that_linux_lists),
        cmocka_unit_test(features_include_others),
        cmocka_unit_test(the_processor_has_a_vendor),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
