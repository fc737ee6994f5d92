#include "kernels/amx.h"

#ifdef KVSI_HAVE_AMX

#include <cpuid.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdint.h>
#include <sys/syscall.h>
#include <unistd.h>

/* Leaf 0x1d, which describes the tiles, is not asked: some hypervisors hide it though AMX works. */
static int processor_has_amx(void)
{
    enum { AMX_BF16 = 1 << 22, AMX_TILE = 1 << 24 };
    unsigned a, b, c, d = 0;

    return __get_cpuid_count(7, 0, &a, &b, &c, &d) && (d & AMX_BF16) && (d & AMX_TILE);
}

/* Whether the operating system saves the tiles: bits 17 and 18 of XCR0. */
static int system_saves_tiles(void)
{
    enum { TILES = 3 << 17 };
    unsigned a, b, c = 0, d, low, high;

    if (!__get_cpuid(1, &a, &b, &c, &d) || !(c & bit_OSXSAVE))
        return 0;
    __asm__ volatile("xgetbv" : "=a"(low), "=d"(high) : "c"(0));
    return (low & TILES) == TILES;
}

static int kernel_permits_tiles(void)
{
#ifdef SYS_arch_prctl
    enum { REQUEST_PERMISSION = 0x1023, TILE_DATA = 18 };

    return syscall(SYS_arch_prctl, REQUEST_PERMISSION, TILE_DATA) == 0;
#else
    return 0;
#endif
}

static sigjmp_buf refused;

static void on_illegal_instruction(int number)
{
    (void)number;
    siglongjmp(refused, 1);
}

/* One row of one pair: c = 0.5 + (1.5 * 2 + -3 * 0.25). */
static void multiply_once(float *sum)
{
    static const struct {
        uint8_t palette, start, zero[14];
        uint16_t row_bytes[16];
        uint8_t rows[16];
    } configuration = {1, 0, {0}, {4, 4, 4}, {1, 1, 1}};
    static const uint32_t x = 0xc0403fc0, y = 0x3e804000; /* high half: odd k */
    const size_t stride = 4;

    __asm__ volatile("ldtilecfg %[configuration]\n\t"
                     "tileloadd (%[sum],%[stride],1), %%tmm0\n\t"
                     "tileloadd (%[x],%[stride],1), %%tmm1\n\t"
                     "tileloadd (%[y],%[stride],1), %%tmm2\n\t"
                     "tdpbf16ps %%tmm2, %%tmm1, %%tmm0\n\t"
                     "tilestored %%tmm0, (%[sum],%[stride],1)\n\t"
                     "tilerelease"
                     :
                     : [configuration] "m"(configuration), [sum] "r"(sum), [x] "r"(&x), [y] "r"(&y),
                       [stride] "r"(stride)
                     : "memory");
}

static const char *try_product(void)
{
    struct sigaction ours = {.sa_handler = on_illegal_instruction}, before;
    const char *result = "AMX instructions are refused";

    sigemptyset(&ours.sa_mask);
    if (sigaction(SIGILL, &ours, &before) != 0)
        return "AMX cannot be tried";
    if (sigsetjmp(refused, 1) == 0) {
        float sum = 0.5f;

        multiply_once(&sum);
        result = sum == 2.75f ? NULL : "AMX computes wrong products";
    }
    sigaction(SIGILL, &before, NULL);
    return result;
}

static const char *missing;

static void find_missing(void)
{
    if (!processor_has_amx())
        missing = "no AMX";
    else if (!system_saves_tiles())
        missing = "the operating system does not save AMX's tiles";
    else if (!kernel_permits_tiles())
        missing = "the kernel refused AMX (arch_prctl)";
    else
        missing = try_product();
}

const char *kvsi_amx_missing(void)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;

    return pthread_once(&once, find_missing) == 0 ? missing : "AMX cannot be tried";
}

#else

const char *kvsi_amx_missing(void)
{
    return "this build has no AMX";
}

#endif
