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

static const char *avx2_missing(void)
{
    return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") && has_f16c()
               ? NULL
               : "no AVX2";
}
#endif

#ifdef KVSI_HAVE_AVX512
extern const kvsi_ops kvsi_avx512_ops;

static const char *avx512_missing(void)
{
    if (avx2_missing() || !__builtin_cpu_supports("avx512f") ||
        !__builtin_cpu_supports("avx512bw") || !__builtin_cpu_supports("avx512dq") ||
        !__builtin_cpu_supports("avx512vl"))
        return "no AVX-512";
    return __builtin_cpu_supports("avx512vnni") ? NULL : "no AVX512_VNNI";
}
#endif

#ifdef KVSI_HAVE_AVX512_WIDE
extern const kvsi_ops kvsi_avx512_wide_ops;

/* Whether 512-bit vectors are faster than 256-bit ones.  Zen 4 (family 0x19) computes them in two
 * halves; Intel's processors and AMD's later ones have units of the full width. */
static int wide_is_faster(void)
{
    enum { ZEN_5 = 0x1a };
    unsigned a = 0, b = 0, c = 0, d = 0, family;

    __get_cpuid(0, &a, &b, &c, &d);
    if (b == signature_INTEL_ebx && c == signature_INTEL_ecx && d == signature_INTEL_edx)
        return 1;
    if (b != signature_AMD_ebx || c != signature_AMD_ecx || d != signature_AMD_edx)
        return 0;
    __get_cpuid(1, &a, &b, &c, &d);
    family = (a >> 8 & 0xf) + (a >> 20 & 0xff);
    return family >= ZEN_5;
}
#endif

#ifdef KVSI_HAVE_BASELINE
extern const kvsi_ops kvsi_baseline_ops;
#endif

static const char *nothing_missing(void)
{
    return NULL;
}

static int always(void)
{
    return 1;
}

static const struct {
    const kvsi_ops *ops;
    const char *(*missing)(void); /* why this processor cannot run it, or NULL */
    int (*automatic)(void);       /* "auto" may choose it */
} levels[] = {
/* best first */
#ifdef KVSI_HAVE_AVX512_WIDE
    {&kvsi_avx512_wide_ops, avx512_missing, wide_is_faster},
#endif
#ifdef KVSI_HAVE_AVX512
    {&kvsi_avx512_ops, avx512_missing, always},
#endif
#ifdef KVSI_HAVE_AVX2
    {&kvsi_avx2_ops, avx2_missing, always},
#endif
#ifdef KVSI_HAVE_BASELINE
    {&kvsi_baseline_ops, nothing_missing, always},
#endif
    {&kvsi_reference_ops, nothing_missing, always},
};

enum { LEVELS = sizeof levels / sizeof *levels };

const char *kvs_cpu_level_name(size_t index, int *usable)
{
    if (index >= LEVELS)
        return NULL;
    if (usable)
        *usable = levels[index].missing() == NULL;
    return levels[index].ops->name;
}

kvs_status kvsi_ops_find(const kvsi_ops **out, const char *level, kvs_err *err)
{
    const int automatic = !level || strcmp(level, "auto") == 0;

    for (size_t i = 0; i < LEVELS; i++) {
        const char *missing;

        if (automatic ? !levels[i].automatic() : strcmp(level, levels[i].ops->name) != 0)
            continue;
        missing = levels[i].missing();
        if (!missing) {
            *out = levels[i].ops;
            return KVS_OK;
        }
        if (!automatic)
            return kvsi_fail(err, KVS_E_UNSUPPORTED, "this processor cannot run CPU level '%s': %s",
                             level, missing);
    }
    return kvsi_fail(err, KVS_E_INVALID,
                     "unknown CPU level '%s', expected auto or one of those "
                     "that 'kvshift version' lists",
                     level);
}
