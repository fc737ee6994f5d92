#include "kernels/units.h"

#include "kernels/rounding.h"
#include "parallel/threads.h"

#include <stdint.h>
#include <string.h>

/* The bits of two or four ones, or of one, in 32 bits. */
enum {
    F32_ONE = 0x3f800000,
    BF16_ONES = 0x3f803f80,
    INT16_ONES = 0x00010001,
    INT8_ONES = 0x01010101
};

static void fill(void *out, size_t bytes, uint32_t bits)
{
    for (size_t i = 0; i < bytes / sizeof bits; i++)
        memcpy((char *)out + i * sizeof bits, &bits, sizeof bits);
}

/* ---- vectors ---- */

/* Enough independent sums to hide the latency of two instructions per cycle, few enough for 16
 * registers. */
#define FOR_CHAINS(of) of(0) of(1) of(2) of(3) of(4) of(5) of(6) of(7) of(8) of(9) of(10) of(11)
enum { CHAINS = 12 };

/* Sums start at zero, but the compiler must not find out that they are equal. */
static const volatile uint32_t nothing = 0;

#define CHAIN_START(i)                                                                             \
    fill(&x, sizeof x, nothing);                                                                   \
    sum##i = x;
#define CHAIN_STEP(i) STEP(sum##i);
#define CHAIN_LIST(i) sum##i,

/* Defines a unit: STEP(sum) adds products of the vector x, which has `ones` in every 32 bits, to
 * the lanes of the vector `sum`. */
#define VECTOR_UNIT(function, attributes, vector, lane, ones)                                      \
    attributes static double function(size_t rounds)                                               \
    {                                                                                              \
        vector x, sum0, sum1, sum2, sum3, sum4, sum5, sum6, sum7, sum8, sum9, sum10, sum11;        \
        lane lanes[CHAINS * sizeof(vector) / sizeof(lane)];                                        \
        double total = 0;                                                                          \
                                                                                                   \
        FOR_CHAINS(CHAIN_START)                                                                    \
        fill(&x, sizeof x, (ones) + nothing);                                                      \
        for (size_t round = 0; round < rounds; round++) {                                          \
            FOR_CHAINS(CHAIN_STEP)                                                                 \
        }                                                                                          \
        memcpy(lanes, (vector[]){FOR_CHAINS(CHAIN_LIST)}, sizeof lanes);                           \
        for (size_t i = 0; i < sizeof lanes / sizeof *lanes; i++)                                  \
            total += (double)lanes[i];                                                             \
        return total;                                                                              \
    }

/* clang-format off */

/* The compiler's vectors, as at the level `baseline`.  Not sum + x * x, whose product would be
 * computed only once. */
typedef float float_4 __attribute__((vector_size(16)));
#define STEP(sum) sum = sum * x + x
VECTOR_UNIT(run_vector_128, , float_4, float, F32_ONE)
#undef STEP

#ifdef __x86_64__
#define X86(function) function

#include <immintrin.h>

#define TARGET(instructions) __attribute__((target(instructions)))
/* Assembly, so that every level of optimisation measures exactly this instruction. */
#define INSTRUCTION(sum, text) __asm__ volatile(text : "+x"(sum) : "x"(x))

#define STEP(sum) INSTRUCTION(sum, "vfmadd231ps %1, %1, %0")
VECTOR_UNIT(run_fma_256, TARGET("avx2,fma"), __m256, float, F32_ONE)
VECTOR_UNIT(run_fma_512, TARGET("avx512f"), __m512, float, F32_ONE)
#undef STEP

#define STEP(sum) INSTRUCTION(sum, "vdpbf16ps %1, %1, %0")
VECTOR_UNIT(run_vdpbf16ps, TARGET("avx512f,avx512bf16"), __m512, float, BF16_ONES)
#undef STEP

#define STEP(sum) INSTRUCTION(sum, "vpdpwssd %1, %1, %0")
VECTOR_UNIT(run_vpdpwssd_256, TARGET("avx512f,avx512vl,avx512vnni"), __m256i, int32_t, INT16_ONES)
VECTOR_UNIT(run_vpdpwssd_512, TARGET("avx512f,avx512vnni"), __m512i, int32_t, INT16_ONES)
#undef STEP

/* Two instructions, as at the level `avx2`. */
#define STEP(sum)                                                                                  \
    __asm__ volatile("vpmaddwd %1, %1, %%ymm15\n\tvpaddd %%ymm15, %0, %0"                          \
                     : "+x"(sum)                                                                   \
                     : "x"(x)                                                                      \
                     : "xmm15")
VECTOR_UNIT(run_vpmaddwd_256, TARGET("avx2"), __m256i, int32_t, INT16_ONES)
#undef STEP

/* clang-format on */

/* ---- tiles of 16 rows of 64 bytes: four products into tiles 0 to 3 from tiles 4 to 7 ---- */

enum { TILES = 8, TILE_ROWS = 16, TILE_BYTES = 64, TILE_SUMS = 16 * 16, TILE_PRODUCTS = 4 };

#define AMX TARGET("amx-tile,amx-bf16,amx-int8")

/* Palette 1, all tiles of full size.  The factors are `ones`, the sums 0. */
AMX static void load_tiles(uint32_t ones)
{
    struct {
        uint8_t palette, start_row, reserved[14];
        uint16_t columns[16];
        uint8_t rows[16];
    } shape __attribute__((aligned(64))) = {.palette = 1};
    uint32_t factors[TILE_SUMS];

    for (size_t i = 0; i < TILES; i++) {
        shape.columns[i] = TILE_BYTES;
        shape.rows[i] = TILE_ROWS;
    }
    fill(factors, sizeof factors, ones);
    _tile_loadconfig(&shape);
    _tile_zero(0);
    _tile_zero(1);
    _tile_zero(2);
    _tile_zero(3);
    _tile_loadd(4, factors, TILE_BYTES);
    _tile_loadd(5, factors, TILE_BYTES);
    _tile_loadd(6, factors, TILE_BYTES);
    _tile_loadd(7, factors, TILE_BYTES);
}

AMX static void store_tiles(void *sums) /* [TILE_PRODUCTS, TILE_SUMS] */
{
    char *to = sums;

    _tile_stored(0, to, TILE_BYTES);
    _tile_stored(1, to + TILE_ROWS * TILE_BYTES, TILE_BYTES);
    _tile_stored(2, to + 2 * TILE_ROWS * TILE_BYTES, TILE_BYTES);
    _tile_stored(3, to + 3 * TILE_ROWS * TILE_BYTES, TILE_BYTES);
    _tile_release();
}

#define TILE_UNIT(function, lane, ones, product)                                                   \
    AMX static double function(size_t rounds)                                                      \
    {                                                                                              \
        lane lanes[TILE_PRODUCTS * TILE_SUMS];                                                     \
        double total = 0;                                                                          \
                                                                                                   \
        load_tiles(ones);                                                                          \
        for (size_t round = 0; round < rounds; round++) {                                          \
            product(0, 4, 6);                                                                      \
            product(1, 5, 6);                                                                      \
            product(2, 4, 7);                                                                      \
            product(3, 5, 7);                                                                      \
        }                                                                                          \
        store_tiles(lanes);                                                                        \
        for (size_t i = 0; i < sizeof lanes / sizeof *lanes; i++)                                  \
            total += (double)lanes[i];                                                             \
        return total;                                                                              \
    }

TILE_UNIT(run_amx_bf16, float, BF16_ONES, _tile_dpbf16ps)
TILE_UNIT(run_amx_int8, int32_t, INT8_ONES, _tile_dpbssd)

#else
#define X86(function) NULL
#endif

/* ---- the table ---- */

/* Operations of a round, for vectors of so many bits with `depth` products per sum of 32 bits, and
 * for tiles. */
#define OF_VECTORS(bits, depth) (2.0 * CHAINS * (bits) / 32 * (depth))
#define OF_TILES(depth) (2.0 * 4 * 16 * 16 * (depth))

static const kvsi_unit units[] = {
    {"vector-128", KVSI_OPERANDS_F32, KVSI_CPU_ANY, OF_VECTORS(128, 1), run_vector_128},
    {"fma-256", KVSI_OPERANDS_F32, KVSI_CPU_AVX2, OF_VECTORS(256, 1), X86(run_fma_256)},
    {"fma-512", KVSI_OPERANDS_F32, KVSI_CPU_AVX512, OF_VECTORS(512, 1), X86(run_fma_512)},
    {"vdpbf16ps", KVSI_OPERANDS_BF16, KVSI_CPU_AVX512_BF16, OF_VECTORS(512, 2), X86(run_vdpbf16ps)},
    {"amx-bf16", KVSI_OPERANDS_BF16, KVSI_CPU_AMX, OF_TILES(32), X86(run_amx_bf16)},
    {"vpmaddwd-256", KVSI_OPERANDS_INTEGER, KVSI_CPU_AVX2, OF_VECTORS(256, 2),
     X86(run_vpmaddwd_256)},
    {"vpdpwssd-256", KVSI_OPERANDS_INTEGER, KVSI_CPU_AVX512, OF_VECTORS(256, 2),
     X86(run_vpdpwssd_256)},
    {"vpdpwssd-512", KVSI_OPERANDS_INTEGER, KVSI_CPU_AVX512, OF_VECTORS(512, 2),
     X86(run_vpdpwssd_512)},
    {"amx-int8", KVSI_OPERANDS_INTEGER, KVSI_CPU_AMX, OF_TILES(64), X86(run_amx_int8)},
};

enum { UNITS = sizeof units / sizeof *units };

const kvsi_unit *kvsi_unit_at(size_t index)
{
    return index < UNITS ? &units[index] : NULL;
}

const char *kvsi_unit_lacks(const kvsi_unit *unit)
{
    return kvsi_cpu_lacks(unit->needs);
}

void kvsi_unit_run(const kvsi_unit *unit, int threads, double *sums, size_t parts, size_t rounds)
{
    KVSI_PARALLEL_PIECES(threads, i, parts) {
        sums[i] = unit->run(rounds);
    }
}

/* ---- what the levels use ---- */

#define ANY KVSI_DTYPES

/* unit.c and linear_int16.c decide; this table says how.  The first row counts whose unit this
 * processor has; rows without a level are for all that have none. */
static const struct {
    const char *level;
    kvsi_operands operands;
    kvsi_dtype weights; /* ANY: of every type */
    const char *name, *unit;
    double cost;
} products[] = {
    {"avx2", KVSI_OPERANDS_F32, ANY, "fma-256", "fma-256", 1},
    {"avx2", KVSI_OPERANDS_BF16, ANY, "vdpbf16ps-emulated", "fma-256", 1},
    {"avx2", KVSI_OPERANDS_INTEGER, ANY, "vpmaddwd-256", "vpmaddwd-256", 1},
    {"avx512", KVSI_OPERANDS_F32, ANY, "fma-256", "fma-256", 1},
    {"avx512", KVSI_OPERANDS_BF16, ANY, "vdpbf16ps", "vdpbf16ps", 1},
    {"avx512", KVSI_OPERANDS_BF16, ANY, "vdpbf16ps-emulated", "fma-256", 1},
    {"avx512", KVSI_OPERANDS_INTEGER, ANY, "vpdpwssd-256", "vpdpwssd-256", 1},
    {"avx512-wide", KVSI_OPERANDS_F32, ANY, "fma-512", "fma-512", 1},
    {"avx512-wide", KVSI_OPERANDS_BF16, ANY, "vdpbf16ps", "vdpbf16ps", 1},
    {"avx512-wide", KVSI_OPERANDS_BF16, ANY, "vdpbf16ps-emulated", "fma-512", 1},
    {"avx512-wide", KVSI_OPERANDS_INTEGER, ANY, "vpdpwssd-512", "vpdpwssd-512", 1},
    /* tile products of all parts of both operands: src/kernels/cpu/unit_tiles.h */
    {"amx", KVSI_OPERANDS_F32, KVSI_BF16, "amx-bf16x3", "amx-bf16", 3},
    {"amx", KVSI_OPERANDS_F32, KVSI_F16, "amx-bf16x3", "amx-bf16", 5},
    {"amx", KVSI_OPERANDS_F32, ANY, "amx-bf16x3", "amx-bf16", 6},
    {"amx", KVSI_OPERANDS_BF16, ANY, "amx-bf16", "amx-bf16", 1},
    {"amx", KVSI_OPERANDS_INTEGER, ANY, "vpdpwssd-512", "vpdpwssd-512", 1},
    {"amx-emulated", KVSI_OPERANDS_F32, ANY, "amx-emulated", "fma-256", 6},
    {"amx-emulated", KVSI_OPERANDS_BF16, ANY, "amx-emulated", "fma-256", 1},
    {"amx-emulated", KVSI_OPERANDS_INTEGER, ANY, "vpmaddwd-256", "vpmaddwd-256", 1},
    {NULL, KVSI_OPERANDS_F32, ANY, "vector-128", "vector-128", 1},
    {NULL, KVSI_OPERANDS_BF16, ANY, "vdpbf16ps-emulated", "vector-128", 1},
    {NULL, KVSI_OPERANDS_INTEGER, ANY, "vector-128", "vector-128", 1},
};

static const kvsi_unit *usable_unit(const char *name)
{
    for (size_t i = 0; i < UNITS; i++)
        if (strcmp(units[i].name, name) == 0)
            return kvsi_unit_lacks(&units[i]) ? NULL : &units[i];
    return NULL;
}

kvsi_products kvsi_products_of(const char *level, kvsi_precision precision, kvsi_dtype weights)
{
    const kvsi_operands operands = kvsi_rounds_inputs(weights)        ? KVSI_OPERANDS_INTEGER
                                   : precision == KVSI_PRECISION_BF16 ? KVSI_OPERANDS_BF16
                                                                      : KVSI_OPERANDS_F32;
    kvsi_products found = {0};

    for (size_t i = 0; !found.unit && i < sizeof products / sizeof *products; i++)
        if (products[i].operands == operands &&
            (products[i].weights == ANY || products[i].weights == weights) &&
            (!products[i].level || strcmp(products[i].level, level) == 0))
            found =
                (kvsi_products){products[i].name, usable_unit(products[i].unit), products[i].cost};
    return found; /* every processor has the unit of the last rows */
}
