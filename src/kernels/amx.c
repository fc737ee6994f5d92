#include "kernels/amx.h"

#ifdef __x86_64__

#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdint.h>

static sigjmp_buf refused;

static void on_illegal_instruction(int number)
{
    (void)number;
    siglongjmp(refused, 1);
}

/* The product of tiles of one row and one pair of values: *sum += 1.5 * 2 + -3 * 0.25. */
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

static const char *failure;

static void try_once(void)
{
    failure = try_product();
}

const char *kvsi_amx_try(void)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;

    return pthread_once(&once, try_once) == 0 ? failure : "AMX cannot be tried";
}

#else

const char *kvsi_amx_try(void)
{
    return "this build has no AMX";
}

#endif
