#include "kernels/cpu_features.h"

#include "kernels/amx.h"

#include <stddef.h>
#include <stdint.h>
#include <string.h>

#ifdef __x86_64__

#include <cpuid.h>

#ifdef __linux__
#include <sys/syscall.h>
#include <unistd.h>
#endif

enum { EAX, EBX, ECX, EDX };

/* Instructions of each feature, by their bits in CPUID.  Some hypervisors hide leaf 0x1D, which
 * describes tiles, on processors that have them: it is not read, and palette 1 is assumed. */
static const struct {
    kvsi_cpu_feature feature;
    unsigned leaf, subleaf, word, bit;
    const char *missing;
} instructions[] = {
    {KVSI_CPU_AVX2, 7, 0, EBX, 5, "no AVX2"},
    {KVSI_CPU_AVX2, 1, 0, ECX, 12, "no FMA"},
    {KVSI_CPU_AVX2, 1, 0, ECX, 29, "no F16C"},
    {KVSI_CPU_AVX512, 7, 0, EBX, 16, "no AVX-512"},
    {KVSI_CPU_AVX512, 7, 0, EBX, 17, "no AVX-512 DQ"},
    {KVSI_CPU_AVX512, 7, 0, EBX, 30, "no AVX-512 BW"},
    {KVSI_CPU_AVX512, 7, 0, EBX, 31, "no AVX-512 VL"},
    {KVSI_CPU_AVX512, 7, 0, ECX, 11, "no AVX-512 VNNI"},
    {KVSI_CPU_AVX512_BF16, 7, 1, EAX, 5, "no AVX-512 BF16"},
    {KVSI_CPU_AMX, 7, 0, EDX, 24, "no AMX"},
    {KVSI_CPU_AMX, 7, 0, EDX, 22, "no AMX bf16"},
    {KVSI_CPU_AMX, 7, 0, EDX, 25, "no AMX int8"},
};

/* What else a feature needs: another one, and registers that the operating system saves (XCR0). */
static const struct {
    kvsi_cpu_feature base;
    uint64_t registers;
    const char *unsaved;
} features[KVSI_CPU_FEATURES] = {
    [KVSI_CPU_AVX2] = {KVSI_CPU_ANY, 0x6, "the operating system does not enable AVX"},
    [KVSI_CPU_AVX512] = {KVSI_CPU_AVX2, 0xe0, "the operating system does not enable AVX-512"},
    [KVSI_CPU_AVX512_BF16] = {KVSI_CPU_AVX512, 0, NULL},
    [KVSI_CPU_AMX] = {KVSI_CPU_AVX512_BF16, 0x60000, "the operating system does not enable AMX"},
};

static int has_bit(unsigned leaf, unsigned subleaf, unsigned word, unsigned bit)
{
    unsigned words[4];

    return __get_cpuid_count(leaf, subleaf, &words[EAX], &words[EBX], &words[ECX], &words[EDX]) &&
           (words[word] >> bit & 1);
}

/* XCR0; 0 if programs cannot read it. */
static uint64_t saved_registers(void)
{
    uint32_t low, high;

    if (!has_bit(1, 0, ECX, 27)) /* OSXSAVE */
        return 0;
    __asm__ volatile("xgetbv" : "=a"(low), "=d"(high) : "c"(0));
    return (uint64_t)high << 32 | low;
}

/* Linux gives tiles only to processes that ask for them. */
static const char *request_tiles(void)
{
#ifdef __linux__
    enum { ARCH_REQ_XCOMP_PERM = 0x1023, XFEATURE_XTILEDATA = 18 };

    return syscall(SYS_arch_prctl, ARCH_REQ_XCOMP_PERM, XFEATURE_XTILEDATA) == 0
               ? NULL
               : "the operating system refuses AMX tiles (arch_prctl)";
#else
    return "tiles are requested on Linux only";
#endif
}

const char *kvsi_cpu_lacks(kvsi_cpu_feature feature)
{
    const uint64_t registers = features[feature].registers;
    const char *missing;

    if (feature == KVSI_CPU_ANY)
        return NULL;
    for (size_t i = 0; i < sizeof instructions / sizeof *instructions; i++)
        if (instructions[i].feature == feature &&
            !has_bit(instructions[i].leaf, instructions[i].subleaf, instructions[i].word,
                     instructions[i].bit))
            return instructions[i].missing;
    if ((saved_registers() & registers) != registers)
        return features[feature].unsaved;
    missing = kvsi_cpu_lacks(features[feature].base);
    if (!missing && feature == KVSI_CPU_AMX)
        missing = request_tiles();
    if (!missing && feature == KVSI_CPU_AMX)
        missing = kvsi_amx_try();
    return missing;
}

kvsi_cpu_kind kvsi_cpu_identify(void)
{
    kvsi_cpu_kind kind = {.vendor = ""};
    unsigned a, b, c, d;

    if (__get_cpuid(0, &a, &b, &c, &d)) {
        memcpy(kind.vendor, &b, 4);
        memcpy(kind.vendor + 4, &d, 4);
        memcpy(kind.vendor + 8, &c, 4);
    }
    if (__get_cpuid(1, &a, &b, &c, &d)) {
        kind.family = (a >> 8 & 0xf) + (a >> 20 & 0xff);
        kind.model = (a >> 4 & 0xf) | (a >> 12 & 0xf0);
    }
    return kind;
}

#else

const char *kvsi_cpu_lacks(kvsi_cpu_feature feature)
{
    return feature == KVSI_CPU_ANY ? NULL : "not an x86 processor";
}

kvsi_cpu_kind kvsi_cpu_identify(void)
{
    return (kvsi_cpu_kind){.vendor = ""};
}

#endif
