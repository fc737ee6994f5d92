#include "kernels/cpu/gemv_q.h"

#ifdef __AVX2__

#include "kernels/cpu/decode.h"
#include "kernels/cpu/round.h"

enum { BLOCK = KVSI_ROUND_BLOCK, GROUP = 32, GROUPS = BLOCK / GROUP };

/* ---- vectors of integers ---- */

/* With VNNI 64 bytes, whatever `vec` has, otherwise 32.  LANES of 16 bytes, PARTS of 32. */
#if defined __AVX512VNNI__
#define WIDE 1
typedef __m512i wide;
#else
#define WIDE 0
typedef __m256i wide;
#endif
enum { LANES = sizeof(wide) / 16, PARTS = LANES / 2 };

typedef uint16_t wide_words __attribute__((vector_size(sizeof(wide)), may_alias));
typedef int32_t wide_ints __attribute__((vector_size(sizeof(wide)), may_alias));
typedef wide wide_at __attribute__((aligned(1), may_alias));

/* Four values in each lane; c and d are for wider vectors. */
#if WIDE
#define IN_LANES(a, b, c, d) ((wide)(wide_ints){a, a, a, a, b, b, b, b, c, c, c, c, d, d, d, d})
#else
#define IN_LANES(a, b, c, d) ((wide)(wide_ints){a, a, a, a, b, b, b, b})
#endif
#define IN_ALL(a) IN_LANES(a, a, a, a)

/* Two values of 64 bits in every lane. */
#if WIDE
#define IN_EACH(a, b) ((wide){a, b, a, b, a, b, a, b})
#else
#define IN_EACH(a, b) ((wide){a, b, a, b})
#endif

INLINE wide load(const void *at)
{
    return *(const wide_at *)at;
}

INLINE __m256i load32(const void *at)
{
    return _mm256_loadu_si256((const __m256i *)at);
}

INLINE __m256i load16_twice(const unsigned char *low, const unsigned char *high)
{
    const __m128i *first = (const __m128i *)(const void *)low;

    return _mm256_inserti128_si256(_mm256_castsi128_si256(_mm_loadu_si128(first)),
                                   _mm_loadu_si128((const __m128i *)(const void *)high), 1);
}

/* 16 bytes at at[0], at[1], ... in each lane */
INLINE wide load_lanes(const unsigned char *const at[LANES], size_t offset)
{
    const __m256i low = load16_twice(at[0] + offset, at[1] + offset);

#if WIDE
    return _mm512_inserti64x4(_mm512_castsi256_si512(low),
                              load16_twice(at[2] + offset, at[3] + offset), 1);
#else
    return low;
#endif
}

INLINE wide plus(wide a, wide b)
{
    return (wide)((wide_ints)a + (wide_ints)b);
}

/* sum + products of 16-bit integers, two per int */
INLINE wide add_words(wide sum, wide x, wide y)
{
#if WIDE
    return _mm512_dpwssd_epi32(sum, x, y);
#else
    return plus(sum, _mm256_madd_epi16(x, y));
#endif
}

/* Products of bytes, two per 16-bit integer, which their sum must fit. */
INLINE wide multiply_bytes(wide without_sign, wide with_sign)
{
#if WIDE
    return _mm512_maddubs_epi16(without_sign, with_sign);
#else
    return _mm256_maddubs_epi16(without_sign, with_sign);
#endif
}

/* sum + products of bytes, four per int; the sum of two must fit 16 bits */
INLINE wide add_bytes(wide sum, wide without_sign, wide with_sign)
{
#if WIDE
    return _mm512_dpbusd_epi32(sum, without_sign, with_sign);
#else
    return add_words(sum, multiply_bytes(without_sign, with_sign), _mm256_set1_epi16(1));
#endif
}

INLINE wide low_bits(wide bytes)
{
    return bytes & IN_ALL(0x0f0f0f0f);
}

INLINE wide high_bits(wide bytes)
{
    return low_bits((wide)((wide_words)bytes >> 4));
}

/* low + 256 * high */
INLINE wide join_planes(wide low, wide high)
{
    return plus(low, (wide)((wide_ints)high << 8));
}

/* ---- inputs ---- */

/* Where inputs i .. i+15 of a block are in the planes.  The inputs of a vector of weights are side
 * by side, first those of the low bits of its bytes, then those of the high bits.  Q4_0 and Q5_0
 * have values j and 16 + j of a group in one byte, and vectors have a group in each lane.  The K
 * types have parts of 32 bytes with 64 weights. */
static size_t place(kvsi_dtype type, size_t i)
{
    const size_t group = i / GROUP, half = i / 16 % 2;
    const size_t part = type == KVSI_Q6_K ? group / 4 * 2 + group % 2 : group / 2;
    const size_t upper = type == KVSI_Q6_K ? group / 2 % 2 : group % 2;

    if (has_k_blocks(type))
        return (part / PARTS * 2 + upper) * sizeof(wide) + part % PARTS * 32 + 16 * half;
    return (group / LANES * 2 + half) * sizeof(wide) + group % LANES * 16;
}

static void sum_inputs(int32_t sums[32], kvsi_dtype type, const int16_t values[BLOCK])
{
    const int length = type == KVSI_Q6_K ? 16 : 32;
    const int times = type == KVSI_Q6_K   ? -32
                      : type == KVSI_Q5_0 ? -16
                      : type == KVSI_Q4_0 ? -8
                                          : -1;

    memset(sums, 0, 32 * sizeof *sums);
    for (int r = 0; r < BLOCK / length; r++) {
        int32_t sum = 0;

        for (int i = 0; i < length; i++)
            sum += values[r * length + i];
        sums[has_k_blocks(type) ? r : 4 * r] = times * sum;
    }
}

void LEVEL(gemv_q_pack)(gemv_block *out, kvsi_dtype type, const float *x, size_t cols)
{
    for (size_t from = 0; from < cols; from += BLOCK, out++) {
        const size_t count = cols - from < BLOCK ? cols - from : BLOCK;
        int16_t values[BLOCK] = {0};

        out->step = round_block(values, x + from, count, kvsi_round_top(type));
        if (type == KVSI_Q8_0) {
            memcpy(out->x, values, sizeof values);
            continue;
        }
        for (size_t i = 0; i < BLOCK; i += 16) {
            const size_t at = place(type, i);

            for (size_t j = 0; j < 16; j++) {
                out->plane.low[at + j] = (uint8_t)(values[i + j] & 255);
                out->plane.high[at + j] = (int8_t)(values[i + j] >> 8);
            }
        }
        sum_inputs(out->sums, type, values);
    }
}

/* ---- sums of groups ---- */

/* Every group of a row leaves four integers, whose sum is the group's, and a factor (F16).  After
 * ROWS rows these are added, and the sums of the groups multiplied by their factors, for all rows
 * at a time.  Rows with more than VECTORS_MAX vectors are done in parts. */
enum { ROWS = 4 * LANES, VECTORS_MAX = 32 };

typedef int32_t four[4];

typedef struct group_sums {
    _Alignas(64) four sum[VECTORS_MAX][ROWS][LANES];
    _Alignas(64) uint16_t factor[VECTORS_MAX][ROWS][LANES];
} group_sums;

INLINE void store(four *out, wide sums)
{
    *(wide_at *)(void *)out = sums;
}

INLINE void store_pair(four *out, __m256i sums)
{
    _mm256_storeu_si256((__m256i *)(void *)out, sums);
}

/* Adds the upper half of a to its lower half, and likewise for b.  The result has the four sums of
 * a, then those of b. */
INLINE __m256i add_halves(__m256i a, __m256i b)
{
    return _mm256_add_epi32(_mm256_blend_epi32(a, b, 0xf0), _mm256_permute2x128_si256(a, b, 0x21));
}

INLINE __m256i multiply_q8_0(const unsigned char *at, const int16_t *x)
{
    __m256i sum = _mm256_setzero_si256();

    for (int h = 0; h < 2; h++) {
        const __m128i bytes = _mm_loadu_si128((const __m128i *)(const void *)(at + 2 + 16 * h));
        const __m256i w = _mm256_cvtepi8_epi16(bytes);

#if WIDE
        sum = _mm256_dpwssd_epi32(sum, w, load32(x + 16 * h));
#else
        sum = add_words(sum, w, load32(x + 16 * h));
#endif
    }
    return sum;
}

/* 16 in byte i of each lane if bit i of its `half`th 16 bits is set. */
INLINE wide fifth_bits(wide bits, int half)
{
    const wide copy = half == 0 ? IN_EACH(0, 0x0101010101010101) /* bytes 0 and 1, eight times */
                                : IN_EACH(0x0202020202020202, 0x0303030303030303);
    const wide bit = IN_EACH((long long)0x8040201008040201, (long long)0x8040201008040201);

#if WIDE
    return _mm512_maskz_set1_epi8(_mm512_test_epi8_mask(_mm512_shuffle_epi8(bits, copy), bit), 16);
#else
    return _mm256_cmpeq_epi8(_mm256_shuffle_epi8(bits, copy) & bit, bit) & IN_ALL(0x10101010);
#endif
}

/* LANES groups of Q4_0 or Q5_0, the vth of their block. */
INLINE wide multiply_nibbles(kvsi_dtype type, const unsigned char *const at[LANES],
                             const gemv_block *x, size_t v)
{
    const wide packed = load_lanes(at, block_bytes(type) - 16);
    wide w[2] = {low_bits(packed), high_bits(packed)};
    wide low = load(x->sums + 4 * LANES * v), high = IN_ALL(0);

    if (type == KVSI_Q5_0) {
        const wide bits = load_lanes(at, 2);

        w[0] |= fifth_bits(bits, 0);
        w[1] |= fifth_bits(bits, 1);
    }
#pragma GCC unroll 2
    for (size_t h = 0; h < 2; h++) {
        low = add_bytes(low, load(x->plane.low + (2 * v + h) * sizeof(wide)), w[h]);
        high = add_bytes(high, w[h], load(x->plane.high + (2 * v + h) * sizeof(wide)));
    }
    return join_planes(low, high);
}

/* sums += scale * weights * inputs from i on; sums are of the low and the high plane. */
INLINE void add_scaled(wide sums[2], wide w, wide scale, const gemv_block *x, size_t i)
{
    sums[0] = add_words(sums[0], multiply_bytes(load(x->plane.low + i), w), scale);
    sums[1] = add_words(sums[1], multiply_bytes(w, load(x->plane.high + i)), scale);
}

/* Eight integers with the sum of v's. */
INLINE __m256i fold(wide v)
{
#if WIDE
    return _mm256_add_epi32(_mm512_castsi512_si256(v), _mm512_extracti64x4_epi64(v, 1));
#else
    return v;
#endif
}

/* Eight scales, in both halves of each int. */
INLINE wide scale_table(__m256i scales)
{
    const __m256i twice = _mm256_or_si256(_mm256_and_si256(scales, _mm256_set1_epi32(0xffff)),
                                          _mm256_slli_epi32(scales, 16));
#if WIDE
    return _mm512_castsi256_si512(twice);
#else
    return twice;
#endif
}

INLINE wide choose_scales(wide table, wide index)
{
#if WIDE
    return _mm512_permutexvar_epi32(index, table);
#else
    return _mm256_permutevar8x32_epi32(table, index);
#endif
}

/* 32 bytes, shifted down by 2 * part bits; in the upper half of a wider vector by two more. */
INLINE wide upper_bits(const unsigned char *at, int part)
{
    const __m256i bits = _mm256_srli_epi16(load32(at), 2 * part);

#if WIDE
    return _mm512_inserti64x4(_mm512_castsi256_si512(bits), _mm256_srli_epi16(bits, 2), 1);
#else
    return bits;
#endif
}

/* (bits << shift) & mask; the mask has no bits that come from other bytes */
INLINE wide select_bits(wide bits, int shift, int mask)
{
    return (wide)((wide_words)bits << shift) & IN_ALL(mask * 0x01010101);
}

/* Four integers whose sum is the first group's, and four for the second group.  Q4_K, or Q5_K,
 * which has a fifth bit of each weight after the scales. */
INLINE __m256i multiply_q45_k(kvsi_dtype type, const unsigned char *at, const gemv_block *x)
{
    const unsigned char *lower = at + (type == KVSI_Q5_K ? 48 : 16);
    wide sums[2] = {IN_ALL(0), IN_ALL(0)}, table;
    uint64_t scales, offsets;

    k_scales(&scales, &offsets, at + 4);
    table = scale_table(_mm256_cvtepu8_epi32(_mm_cvtsi64_si128((int64_t)scales)));
#pragma GCC unroll 4
    for (int part = 0; part < 4; part += PARTS) {
        const wide bytes = load(lower + 32 * part);
        wide even = low_bits(bytes), odd = high_bits(bytes);
        const int r = 2 * part;

        if (type == KVSI_Q5_K) {
            const wide fifth = upper_bits(at + 16, part);

            even |= select_bits(fifth, 4, 16);
            odd |= select_bits(fifth, 3, 16);
        }
        add_scaled(sums, even, choose_scales(table, IN_LANES(r, r, r + 2, r + 2)), x,
                   (size_t)part * 64);
        add_scaled(sums, odd, choose_scales(table, IN_LANES(r + 1, r + 1, r + 3, r + 3)), x,
                   (size_t)part * 64 + sizeof(wide));
    }
    return add_halves(fold(join_planes(sums[0], sums[1])),
                      _mm256_mullo_epi32(_mm256_cvtepu8_epi32(_mm_cvtsi64_si128((int64_t)offsets)),
                                         load32(x->sums)));
}

INLINE __m256i multiply_q6_k(const unsigned char *at, const gemv_block *x)
{
    __m256i half[2];

#pragma GCC unroll 2
    for (int h = 0; h < 2; h++) {
        const __m128i packed = _mm_loadl_epi64((const __m128i *)(const void *)(at + 192 + 8 * h));
        const __m256i scales = _mm256_cvtepi8_epi32(packed);
        const wide table = scale_table(scales);
        wide sums[2] = {IN_ALL(0), IN_ALL(0)};

#pragma GCC unroll 2
        for (int part = 0; part < 2; part += PARTS) {
            const wide lower = load(at + 64 * h + 32 * part);
            const wide upper = upper_bits(at + 128 + 32 * h, part);
            const size_t i = (size_t)(128 * h + 64 * part);
            const int r = 2 * part;

            add_scaled(sums, low_bits(lower) | select_bits(upper, 4, 0x30),
                       choose_scales(table, IN_LANES(r, r + 1, r + 2, r + 3)), x, i);
            add_scaled(sums, high_bits(lower) | select_bits(upper, 0, 0x30),
                       choose_scales(table, IN_LANES(r + 4, r + 5, r + 6, r + 7)), x,
                       i + sizeof(wide));
        }
        half[h] = _mm256_add_epi32(fold(join_planes(sums[0], sums[1])),
                                   _mm256_mullo_epi32(scales, load32(x->sums + 8 * h)));
    }
    return add_halves(half[0], half[1]);
}

/* ---- rows ---- */

enum { LINE = 64, AHEAD = 1 << 14 };

/* Prefetches what follows in memory: the processor itself does not go far enough ahead. */
INLINE void prefetch(const unsigned char *at, size_t bytes)
{
    for (size_t i = 0; i < bytes; i += LINE)
        __builtin_prefetch(at + AHEAD + i);
}

/* Copies an F16; not as part of a vector, which the compiler would make of several. */
INLINE void copy_half(uint16_t *to, const unsigned char *from)
{
    uint16_t half;

    memcpy(&half, from, sizeof half);
    __asm__("" : "+r"(half));
    *to = half;
}

/* Groups LANES * v .. of a block of inputs; there are `count` of them, and the inputs of those
 * behind are 0.  Type and count are constants in whole blocks. */
INLINE void sum_groups(kvsi_dtype type, four sum[LANES], uint16_t factor[LANES],
                       const unsigned char *at, size_t count, const gemv_block *x, size_t v)
{
    const unsigned char *groups[LANES];

    for (size_t l = 0; l < LANES; l++)
        groups[l] = at + (l < count ? l : 0) * block_bytes(type);
    if (type == KVSI_Q8_0)
        for (size_t l = 0; l < LANES; l += 2)
            store_pair(sum + l, add_halves(multiply_q8_0(groups[l], x->x + (v * LANES + l) * GROUP),
                                           multiply_q8_0(groups[l + 1],
                                                         x->x + (v * LANES + l + 1) * GROUP)));
    else
        store(sum, multiply_nibbles(type, groups, x, v));
    for (size_t l = 0; l < LANES; l++)
        copy_half(&factor[l], groups[l]);
}

/* A block of a K type, whose two groups are i and i + 1 of a vector. */
INLINE void sum_k_block(kvsi_dtype type, four sum[LANES], uint16_t factor[LANES],
                        const unsigned char *at, const gemv_block *x, size_t i)
{
    const size_t first = type == KVSI_Q6_K ? 208 : 0, second = type == KVSI_Q6_K ? 208 : 2;

    store_pair(sum + i, type == KVSI_Q6_K ? multiply_q6_k(at, x) : multiply_q45_k(type, at, x));
    copy_half(&factor[i], at + first);
    copy_half(&factor[i + 1], at + second);
}

/* A part of row r.  The type is a constant at every call. */
INLINE void sum_row(kvsi_dtype type, group_sums *s, size_t r, const unsigned char *at,
                    const gemv_block *x, size_t cols)
{
    enum { VECTORS = GROUPS / LANES };
    const size_t bytes = block_bytes(type), whole = cols / BLOCK;
    size_t b = 0;

    if (has_k_blocks(type)) {
        for (; b < whole; b++, at += bytes) {
            prefetch(at, bytes);
            sum_k_block(type, s->sum[b / PARTS][r], s->factor[b / PARTS][r], at, x + b,
                        b % PARTS * 2);
        }
        return;
    }
    for (; b < whole; b++) {
        prefetch(at, GROUPS * bytes);
#pragma GCC unroll 4
        for (size_t v = 0; v < VECTORS; v++, at += LANES * bytes)
            sum_groups(type, s->sum[VECTORS * b + v][r], s->factor[VECTORS * b + v][r], at, LANES,
                       x + b, v);
    }
    for (size_t v = 0, g = whole * GROUPS; g < cols / GROUP; v++, g += LANES, at += LANES * bytes)
        sum_groups(type, s->sum[g / LANES][r], s->factor[g / LANES][r], at, cols / GROUP - g, x + b,
                   v);
}

/* ---- all rows ---- */

typedef float floats __attribute__((vector_size(sizeof(wide)), aligned(4), may_alias));

/* x * y + z, rounded once */
INLINE floats multiply_add(floats x, floats y, floats z)
{
#if WIDE
    return (floats)_mm512_fmadd_ps((__m512)x, (__m512)y, (__m512)z);
#else
    return (floats)_mm256_fmadd_ps((__m256)x, (__m256)y, (__m256)z);
#endif
}

INLINE floats floats_from_f16(const uint16_t *at)
{
#if WIDE
    return (floats)_mm512_cvtph_ps(load32(at));
#else
    return (floats)_mm256_cvtph_ps(_mm_loadu_si128((const __m128i *)(const void *)at));
#endif
}

/* Each lane of the result has four sums: of the four integers in that lane of v[0], of v[1], of
 * v[2] and of v[3]. */
INLINE wide sum_four(const four v[4][LANES])
{
    const wide a = load(v[0]), b = load(v[1]), c = load(v[2]), d = load(v[3]);

#if WIDE
    const wide first = plus(_mm512_unpacklo_epi32(a, b), _mm512_unpackhi_epi32(a, b));
    const wide second = plus(_mm512_unpacklo_epi32(c, d), _mm512_unpackhi_epi32(c, d));

    return plus(_mm512_unpacklo_epi64(first, second), _mm512_unpackhi_epi64(first, second));
#else
    return _mm256_hadd_epi32(_mm256_hadd_epi32(a, b), _mm256_hadd_epi32(c, d));
#endif
}

/* sum[l] = the sums of group l, of all rows */
INLINE void sum_lanes(wide sum[LANES], const four v[ROWS][LANES])
{
    const wide a = sum_four(v), b = sum_four(v + 4);

#if WIDE
    const wide c = sum_four(v + 8), d = sum_four(v + 12);
    const wide low_ab = _mm512_shuffle_i32x4(a, b, 0x44), low_cd = _mm512_shuffle_i32x4(c, d, 0x44);
    const wide high_ab = _mm512_shuffle_i32x4(a, b, 0xee);
    const wide high_cd = _mm512_shuffle_i32x4(c, d, 0xee);

    sum[0] = _mm512_shuffle_i32x4(low_ab, low_cd, 0x88);
    sum[1] = _mm512_shuffle_i32x4(low_ab, low_cd, 0xdd);
    sum[2] = _mm512_shuffle_i32x4(high_ab, high_cd, 0x88);
    sum[3] = _mm512_shuffle_i32x4(high_ab, high_cd, 0xdd);
#else
    sum[0] = _mm256_permute2x128_si256(a, b, 0x20);
    sum[1] = _mm256_permute2x128_si256(a, b, 0x31);
#endif
}

/* factor[l] = the factors of group l, of all rows */
INLINE void sort_factors(uint16_t factor[LANES][ROWS], const uint16_t from[ROWS][LANES])
{
#if WIDE
#define ROWS_FROM(i)                                                                               \
    i, i + 4, i + 8, i + 12, i + 16, i + 20, i + 24, i + 28, i + 32, i + 36, i + 40, i + 44,       \
        i + 48, i + 52, i + 56, i + 60
    const wide a = load(from[0]), b = load(from[ROWS / 2]);

    *(wide_at *)(void *)factor[0] =
        _mm512_permutex2var_epi16(a, (wide)(wide_words){ROWS_FROM(0), ROWS_FROM(1)}, b);
    *(wide_at *)(void *)factor[2] =
        _mm512_permutex2var_epi16(a, (wide)(wide_words){ROWS_FROM(2), ROWS_FROM(3)}, b);
#undef ROWS_FROM
#else
    const wide even_odd = _mm256_setr_epi8(0, 1, 4, 5, 8, 9, 12, 13, 2, 3, 6, 7, 10, 11, 14, 15, 0,
                                           1, 4, 5, 8, 9, 12, 13, 2, 3, 6, 7, 10, 11, 14, 15);

    *(wide_at *)(void *)factor[0] =
        _mm256_permute4x64_epi64(_mm256_shuffle_epi8(load(from[0]), even_odd), 0xd8);
#endif
}

/* The sums and factors of the groups of a vector, of all rows. */
typedef struct group_rows {
    floats sum[LANES], factor[LANES];
} group_rows;

INLINE group_rows sort_rows(const group_sums *s, size_t v)
{
    uint16_t factor[LANES][ROWS];
    wide sum[LANES];
    group_rows out;

    sum_lanes(sum, s->sum[v]);
    sort_factors(factor, s->factor[v]);
    for (size_t l = 0; l < LANES; l++) {
        out.sum[l] = __builtin_convertvector((wide_ints)sum[l], floats);
        out.factor[l] = floats_from_f16(factor[l]);
    }
    return out;
}

INLINE floats add_step(floats y, floats t, float step)
{
    return multiply_add(t, step - (floats){0}, y);
}

/* y += the sums of a part of all rows. */
INLINE floats add_part(kvsi_dtype type, floats y, const group_sums *s, const gemv_block *x,
                       size_t cols)
{
    enum { VECTORS = GROUPS / LANES };
    const size_t blocks = gemv_blocks(cols);

    if (has_k_blocks(type)) {
        for (size_t b = 0; b < blocks; b += PARTS) {
            const group_rows g = sort_rows(s, b / PARTS);

            for (size_t i = 0; i < PARTS && b + i < blocks; i++) {
                const floats t = multiply_add(g.sum[2 * i], g.factor[2 * i], (floats){0});

                y = add_step(y, multiply_add(g.sum[2 * i + 1], g.factor[2 * i + 1], t),
                             x[b + i].step);
            }
        }
        return y;
    }
    for (size_t b = 0; b < blocks; b++) {
        const size_t rest = cols / GROUP - b * GROUPS;
        floats t = {0};

        for (size_t v = 0; v < VECTORS && v * LANES < rest; v++) {
            const group_rows g = sort_rows(s, b * VECTORS + v);

            for (size_t l = 0; l < LANES && v * LANES + l < rest; l++)
                t = multiply_add(g.sum[l], g.factor[l], t);
        }
        y = add_step(y, t, x[b].step);
    }
    return y;
}

INLINE void multiply_rows(kvsi_dtype type, float *y, const unsigned char *rows, size_t count,
                          const gemv_block *x, size_t cols)
{
    const size_t most =
        has_k_blocks(type) ? VECTORS_MAX * PARTS * BLOCK : VECTORS_MAX * LANES * GROUP;
    const size_t row_bytes = kvsi_dtype_bytes(type, cols);
    group_sums s;

    if (count < ROWS) /* the sums of missing rows are computed, but not stored */
        memset(&s, 0, sizeof s);
    for (size_t row = 0; row < count; row += ROWS) {
        const size_t some = count - row < ROWS ? count - row : ROWS;
        floats t = {0};

        memcpy(&t, y + row, some * sizeof *y);
        for (size_t from = 0; from < cols; from += most) {
            const size_t part = cols - from < most ? cols - from : most;
            const unsigned char *at = rows + row * row_bytes + kvsi_dtype_bytes(type, from);

            for (size_t r = 0; r < some; r++)
                sum_row(type, &s, r, at + r * row_bytes, x + from / BLOCK, part);
            t = add_part(type, t, &s, x + from / BLOCK, part);
        }
        memcpy(y + row, &t, some * sizeof *y);
    }
}

void LEVEL(gemv_q)(float *y, kvsi_dtype type, const unsigned char *rows, size_t count,
                   const gemv_block *x, size_t cols)
{
    switch (type) {
    case KVSI_Q8_0:
        multiply_rows(KVSI_Q8_0, y, rows, count, x, cols);
        break;
    case KVSI_Q4_0:
        multiply_rows(KVSI_Q4_0, y, rows, count, x, cols);
        break;
    case KVSI_Q5_0:
        multiply_rows(KVSI_Q5_0, y, rows, count, x, cols);
        break;
    case KVSI_Q4_K:
        multiply_rows(KVSI_Q4_K, y, rows, count, x, cols);
        break;
    case KVSI_Q5_K:
        multiply_rows(KVSI_Q5_K, y, rows, count, x, cols);
        break;
    default:
        multiply_rows(KVSI_Q6_K, y, rows, count, x, cols);
    }
}

#else

/* Never called: GEMV_Q_TOKENS_MAX is 0. */
void LEVEL(gemv_q_pack)(gemv_block *out, kvsi_dtype type, const float *x, size_t cols)
{
    (void)out;
    (void)type;
    (void)x;
    (void)cols;
}

void LEVEL(gemv_q)(float *y, kvsi_dtype type, const unsigned char *rows, size_t count,
                   const gemv_block *x, size_t cols)
{
    (void)y;
    (void)type;
    (void)rows;
    (void)count;
    (void)x;
    (void)cols;
}

#endif
