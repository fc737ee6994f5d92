/* The tables of operations in this build, and which of them this processor can run. */
#include "kernels/backend.h"
#include "kernels/cpu_features.h"

#include <string.h>

#ifdef KVSI_HAVE_AVX2
extern const kvsi_ops kvsi_avx2_ops;
#endif

#ifdef KVSI_HAVE_AVX512
extern const kvsi_ops kvsi_avx512_ops;
#endif

#ifdef KVSI_HAVE_AVX512_WIDE
extern const kvsi_ops kvsi_avx512_wide_ops;

/* Whether 512-bit vectors are faster than 256-bit ones.  Zen 4 (family 0x19) computes them in two
 * halves; Intel's processors and AMD's later ones have units of the full width. */
static int wide_is_faster(void)
{
    enum { ZEN_5 = 0x1a };
    const kvsi_cpu_kind kind = kvsi_cpu_identify();

    return strcmp(kind.vendor, "GenuineIntel") == 0 ||
           (strcmp(kind.vendor, "AuthenticAMD") == 0 && kind.family >= ZEN_5);
}
#endif

#ifdef KVSI_HAVE_AMX
extern const kvsi_ops kvsi_amx_ops;
#endif

#ifdef KVSI_HAVE_AMX_EMULATED
extern const kvsi_ops kvsi_amx_emulated_ops;
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
    kvsi_cpu_feature needs;
    int (*automatic)(void); /* "auto" may choose it */
} levels[] = {
/* best first */
#ifdef KVSI_HAVE_AMX
    {&kvsi_amx_ops, KVSI_CPU_AMX, always},
#endif
#ifdef KVSI_HAVE_AVX512_WIDE
    {&kvsi_avx512_wide_ops, KVSI_CPU_AVX512, wide_is_faster},
#endif
#ifdef KVSI_HAVE_AVX512
    {&kvsi_avx512_ops, KVSI_CPU_AVX512, always},
#endif
#ifdef KVSI_HAVE_AVX2
    {&kvsi_avx2_ops, KVSI_CPU_AVX2, always},
#endif
#ifdef KVSI_HAVE_BASELINE
    {&kvsi_baseline_ops, KVSI_CPU_ANY, always},
#endif
#ifdef KVSI_HAVE_AMX_EMULATED
    {&kvsi_amx_emulated_ops, KVSI_CPU_AVX2, always}, /* slow: only in builds without the others */
#endif
    {&kvsi_reference_ops, KVSI_CPU_ANY, always},
};

enum { LEVELS = sizeof levels / sizeof *levels };

const char *kvs_cpu_level_name(size_t index, int *usable)
{
    if (index >= LEVELS)
        return NULL;
    if (usable)
        *usable = !kvsi_cpu_lacks(levels[index].needs);
    return levels[index].ops->name;
}

const char *kvs_cpu_level_missing(size_t index)
{
    return index < LEVELS ? kvsi_cpu_lacks(levels[index].needs) : NULL;
}

kvs_status kvsi_ops_find(const kvsi_ops **out, const char *level, kvs_err *err)
{
    const int automatic = !level || strcmp(level, "auto") == 0;

    for (size_t i = 0; i < LEVELS; i++) {
        const char *lacks;

        if (automatic ? !levels[i].automatic() : strcmp(level, levels[i].ops->name) != 0)
            continue;
        lacks = kvsi_cpu_lacks(levels[i].needs);
        if (!lacks) {
            *out = levels[i].ops;
            return KVS_OK;
        }
        if (!automatic)
            return kvsi_fail(err, KVS_E_UNSUPPORTED, "this processor cannot run CPU level '%s': %s",
                             level, lacks);
    }
    return kvsi_fail(err, KVS_E_INVALID,
                     "unknown CPU level '%s', expected auto or one of those "
                     "that 'kvshift version' lists",
                     level);
}
