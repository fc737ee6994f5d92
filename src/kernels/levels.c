/* The tables of operations in this build, and which of them this processor can run. */
#include "kernels/backend.h"

#include <string.h>

#ifdef KVSI_HAVE_AVX2
#include <cpuid.h>

extern const kvsi_ops kvsi_avx2_ops;

/* __builtin_cpu_supports("f16c") is not known to every compiler. */
static int has_f16c(void)
{
    unsigned a, b, c = 0, d;

    return __get_cpuid(1, &a, &b, &c, &d) && (c & bit_F16C);
}

static int has_avx2(void)
{
    return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") && has_f16c();
}
#endif

#ifdef KVSI_HAVE_AVX512
extern const kvsi_ops kvsi_avx512_ops;

static int has_avx512(void)
{
    return has_avx2() && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
           __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl") &&
           __builtin_cpu_supports("avx512vnni");
}
#endif

#ifdef KVSI_HAVE_BASELINE
extern const kvsi_ops kvsi_baseline_ops;
#endif

static int always(void)
{
    return 1;
}

static const struct {
    const kvsi_ops *ops;
    int (*usable)(void);
} levels[] = {
/* best first */
#ifdef KVSI_HAVE_AVX512
    {&kvsi_avx512_ops, has_avx512},
#endif
#ifdef KVSI_HAVE_AVX2
    {&kvsi_avx2_ops, has_avx2},
#endif
#ifdef KVSI_HAVE_BASELINE
    {&kvsi_baseline_ops, always},
#endif
    {&kvsi_reference_ops, always},
};

enum { LEVELS = sizeof levels / sizeof *levels };

const char *kvs_cpu_level_name(size_t index, int *usable)
{
    if (index >= LEVELS)
        return NULL;
    if (usable)
        *usable = levels[index].usable();
    return levels[index].ops->name;
}

kvs_status kvsi_ops_find(const kvsi_ops **out, const char *level, kvs_err *err)
{
    const int automatic = !level || strcmp(level, "auto") == 0;

    for (size_t i = 0; i < LEVELS; i++) {
        if (!automatic && strcmp(level, levels[i].ops->name) != 0)
            continue;
        if (levels[i].usable()) {
            *out = levels[i].ops;
            return KVS_OK;
        }
        if (!automatic)
            return kvsi_fail(err, KVS_E_UNSUPPORTED, "this processor cannot run CPU level '%s'",
                             level);
    }
    return kvsi_fail(err, KVS_E_INVALID,
                     "unknown CPU level '%s', expected auto or one of those "
                     "that 'kvshift version' lists",
                     level);
}
