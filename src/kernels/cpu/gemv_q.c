#include "kernels/cpu/gemv_q.h"

#ifdef __AVX2__

#include "kernels/cpu/decode.h"
#include "kernels/cpu/round.h"

enum { BLOCK = KVSI_ROUND_BLOCK, GROUP = 32, PAIRS = BLOCK / GROUP / 2 };

/* ---- inputs ---- */

/* Inputs i .. i+15 of a block go to place(i) of the planes.  Q4_0 and Q5_0 store values j and 16
 * + j in one byte; vectors of weights have those of two groups side by side. */
static size_t place(kvsi_dtype type, size_t i)
{
    return has_k_blocks(type) ? i : i / 64 * 64 + i / 16 % 2 * 32 + i / 32 % 2 * 16;
}

static void sum_inputs(int32_t sums[32], kvsi_dtype type, const int16_t values[BLOCK])
{
    const int length = type == KVSI_Q6_K ? 16 : 32;
    const int times = type == KVSI_Q6_K   ? -32
                      : type == KVSI_Q5_0 ? -16
                      : type == KVSI_Q4_0 ? -8
                                          : -1;
    const int apart = has_k_blocks(type) ? 1 : 4;

    memset(sums, 0, 32 * sizeof *sums);
    for (int r = 0; r < BLOCK / length; r++) {
        int32_t sum = 0;

        for (int i = 0; i < length; i++)
            sum += values[r * length + i];
        sums[r * apart] = times * sum;
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

/* ---- products ---- */

enum { ROWS = 8 };

/* Pairs of groups whose sums are kept for ROWS rows: those of 2048 inputs of a type with groups of
 * 32.  Longer rows are done in parts. */
enum { PART_PAIRS = 32 };

/* One vector per pair of groups and row: four lanes for each group, whose sum is the group's. */
typedef struct group_sums {
    __m256i pair[PART_PAIRS][ROWS];
    uint16_t factor[PART_PAIRS][2][ROWS]; /* F16 */
} group_sums;

INLINE __m256i load32(const void *at)
{
    return _mm256_loadu_si256((const __m256i *)at);
}

INLINE __m256i load16_twice(const void *low, const void *high)
{
    return _mm256_inserti128_si256(_mm256_castsi128_si256(_mm_loadu_si128((const __m128i *)low)),
                                   _mm_loadu_si128((const __m128i *)high), 1);
}

/* sum + products of 16-bit integers, two per lane */
INLINE __m256i add_words(__m256i sum, __m256i x, __m256i y)
{
#ifdef __AVX512VNNI__
    return _mm256_dpwssd_epi32(sum, x, y);
#else
    return _mm256_add_epi32(sum, _mm256_madd_epi16(x, y));
#endif
}

/* sum + products of bytes, four per lane; the sum of two must fit 16 bits */
INLINE __m256i add_bytes(__m256i sum, __m256i without_sign, __m256i with_sign)
{
#ifdef __AVX512VNNI__
    return _mm256_dpbusd_epi32(sum, without_sign, with_sign);
#else
    return add_words(sum, _mm256_maddubs_epi16(without_sign, with_sign), _mm256_set1_epi16(1));
#endif
}

INLINE __m256i low_bits(__m256i bytes)
{
    return _mm256_and_si256(bytes, _mm256_set1_epi8(15));
}

INLINE __m256i high_bits(__m256i bytes)
{
    return low_bits(_mm256_srli_epi16(bytes, 4));
}

/* The pair of two vectors of eight lanes each: four lanes for each. */
INLINE __m256i pair_of(__m256i a, __m256i b)
{
    return _mm256_add_epi32(_mm256_blend_epi32(a, b, 0xf0), _mm256_permute2x128_si256(a, b, 0x21));
}

/* Q8_0: at and next are two groups. */
INLINE __m256i multiply_q8_0(const unsigned char *at, const unsigned char *next, const int16_t *x)
{
    const __m256i zero = _mm256_setzero_si256();
    __m256i sum[2];

    for (int g = 0; g < 2; g++) {
        const unsigned char *q = g == 0 ? at + 2 : next + 2;
        const __m128i *bytes = (const __m128i *)(const void *)q;

        sum[g] = add_words(zero, _mm256_cvtepi8_epi16(_mm_loadu_si128(bytes)), load32(x + 32 * g));
        sum[g] = add_words(sum[g], _mm256_cvtepi8_epi16(_mm_loadu_si128(bytes + 1)),
                           load32(x + 32 * g + 16));
    }
    return pair_of(sum[0], sum[1]);
}

/* Two groups of weights 0 .. 31: first their values 0 .. 15, then 16 .. 31. */
INLINE __m256i multiply_planes(const __m256i w[2], const gemv_block *x, size_t p)
{
    __m256i low = load32(x->sums + 8 * p), high = _mm256_setzero_si256();

    for (size_t h = 0; h < 2; h++) {
        low = add_bytes(low, load32(x->plane.low + 64 * p + 32 * h), w[h]);
        high = add_bytes(high, w[h], load32(x->plane.high + 64 * p + 32 * h));
    }
    return _mm256_add_epi32(low, _mm256_slli_epi32(high, 8));
}

INLINE __m256i multiply_q4_0(const unsigned char *at, const unsigned char *next,
                             const gemv_block *x, size_t p)
{
    const __m256i bytes = load16_twice(at + 2, next + 2);
    const __m256i w[2] = {low_bits(bytes), high_bits(bytes)};

    return multiply_planes(w, x, p);
}

/* 16 in the bytes whose bit is set */
INLINE __m256i sixteens(uint32_t bits)
{
#ifdef __AVX512BW__
    return _mm256_maskz_set1_epi8(bits, 16);
#else
    const __m256i byte =
        _mm256_setr_epi64x(0, 0x0101010101010101, 0x0202020202020202, 0x0303030303030303);
    const __m256i bit = _mm256_set1_epi64x((int64_t)0x8040201008040201);
    const __m256i copies = _mm256_shuffle_epi8(_mm256_set1_epi32((int)bits), byte);

    return _mm256_and_si256(_mm256_cmpeq_epi8(_mm256_and_si256(copies, bit), bit),
                            _mm256_set1_epi8(16));
#endif
}

INLINE __m256i multiply_q5_0(const unsigned char *at, const unsigned char *next,
                             const gemv_block *x, size_t p)
{
    const __m256i bytes = load16_twice(at + 6, next + 6);
    uint32_t first, second;

    memcpy(&first, at + 2, sizeof first);
    memcpy(&second, next + 2, sizeof second);

    const __m256i w[2] = {
        _mm256_or_si256(low_bits(bytes), sixteens((first & 0xffff) | second << 16)),
        _mm256_or_si256(high_bits(bytes), sixteens(first >> 16 | (second & 0xffff0000)))};

    return multiply_planes(w, x, p);
}

/* sums += scale * weights * inputs for 32 inputs from i on; sums are of the low and high planes. */
INLINE void add_scaled(__m256i sums[2], __m256i w, __m256i scale, const gemv_block *x, size_t i)
{
    sums[0] = add_words(sums[0], _mm256_maddubs_epi16(load32(x->plane.low + i), w), scale);
    sums[1] = add_words(sums[1], _mm256_maddubs_epi16(w, load32(x->plane.high + i)), scale);
}

INLINE __m256i planes_sum(const __m256i sums[2])
{
    return _mm256_add_epi32(sums[0], _mm256_slli_epi32(sums[1], 8));
}

/* Q4_K, or Q5_K, which has a fifth bit of each weight after the scales. */
INLINE __m256i multiply_q45_k(kvsi_dtype type, const unsigned char *at, const gemv_block *x)
{
    const int five = type == KVSI_Q5_K;
    const unsigned char *lower = at + (five ? 48 : 16);
    __m256i sums[2] = {_mm256_setzero_si256(), _mm256_setzero_si256()};
    const __m256i fifth = five ? load32(at + 16) : _mm256_setzero_si256();
    const __m256i sixteen = _mm256_set1_epi8(16);
    uint64_t scales, offsets;
    __m256i scale;
    int32_t twice[8]; /* a scale in both halves */

    k_scales(&scales, &offsets, at + 4);
    scale = _mm256_cvtepu8_epi32(_mm_cvtsi64_si128((int64_t)scales));
    _mm256_storeu_si256((__m256i *)(void *)twice,
                        _mm256_or_si256(scale, _mm256_slli_epi32(scale, 16)));
    __asm__("" : "+m"(twice)); /* broadcasts from memory need no shuffles */
#pragma GCC unroll 4
    for (int r = 0; r < 8; r += 2) {
        const __m256i bytes = load32(lower + 16 * r);
        __m256i even = low_bits(bytes), odd = high_bits(bytes);

        if (five) { /* bit r of each byte becomes bit 4 */
            const __m256i moved =
                r < 4 ? _mm256_slli_epi16(fifth, 4 - r) : _mm256_srli_epi16(fifth, r - 4);

            even = _mm256_or_si256(even, _mm256_and_si256(moved, sixteen));
            odd = _mm256_or_si256(odd, _mm256_and_si256(_mm256_srli_epi16(moved, 1), sixteen));
        }
        add_scaled(sums, even, _mm256_set1_epi32(twice[r]), x, (size_t)r * 32);
        add_scaled(sums, odd, _mm256_set1_epi32(twice[r + 1]), x, (size_t)r * 32 + 32);
    }
    return pair_of(planes_sum(sums),
                   _mm256_mullo_epi32(_mm256_cvtepu8_epi32(_mm_cvtsi64_si128((int64_t)offsets)),
                                      load32(x->sums)));
}

/* 32 weights of run r = 0 .. 3 of half a block, 0 .. 63; bytes of runs 2 and 3 are shifted down. */
INLINE __m256i six_bits(__m256i lower, __m256i upper, int r)
{
    const __m256i mask = _mm256_set1_epi8(0x30);
    const __m256i moved =
        r < 2 ? _mm256_slli_epi16(upper, 4 - 2 * r) : _mm256_srli_epi16(upper, 2 * r - 4);

    return _mm256_or_si256(r < 2 ? low_bits(lower) : high_bits(lower),
                           _mm256_and_si256(moved, mask));
}

INLINE __m256i multiply_q6_k(const unsigned char *at, const gemv_block *x)
{
    /* Scales of even runs of 16 in the lower half, of odd ones in the upper; r selects a word. */
    const __m128i even_odd = _mm_setr_epi8(0, 2, 4, 6, 8, 10, 12, 14, 1, 3, 5, 7, 9, 11, 13, 15);
    const __m128i packed = _mm_loadu_si128((const __m128i *)(const void *)(at + 192));
    const __m256i scales = _mm256_cvtepi8_epi16(_mm_shuffle_epi8(packed, even_odd));
    __m256i half[2];

#pragma GCC unroll 2
    for (int h = 0; h < 2; h++) {
        const __m256i own = _mm256_cvtepi8_epi32(h == 0 ? packed : _mm_srli_si128(packed, 8));
        const __m256i upper = load32(at + 128 + 32 * h);
        const __m256i lower[2] = {load32(at + 64 * h), load32(at + 64 * h + 32)};
        __m256i sums[2] = {_mm256_mullo_epi32(own, load32(x->sums + 8 * h)),
                           _mm256_setzero_si256()};

#pragma GCC unroll 4
        for (int r = 0; r < 4; r++) {
            const int word = 4 * h + r;
            const __m256i scale = _mm256_shuffle_epi8(
                scales, _mm256_set1_epi16((int16_t)(2 * word | (2 * word + 1) << 8)));

            add_scaled(sums, six_bits(lower[r % 2], upper, r), scale, x,
                       (size_t)(128 * h + 32 * r));
        }
        half[h] = planes_sum(sums);
    }
    return pair_of(half[0], half[1]);
}

/* Pair p of a row, the pair i of its block of inputs x; next = at: there is no second group, and
 * its inputs are 0. */
INLINE void sum_pair(kvsi_dtype type, group_sums *s, size_t p, size_t r, const unsigned char *at,
                     const unsigned char *next, const gemv_block *x, size_t i)
{
    s->pair[p][r] = type == KVSI_Q8_0   ? multiply_q8_0(at, next, x->x + 2 * GROUP * i)
                    : type == KVSI_Q4_0 ? multiply_q4_0(at, next, x, i)
                                        : multiply_q5_0(at, next, x, i);
    memcpy(&s->factor[p][0][r], at, 2);
    memcpy(&s->factor[p][1][r], next, 2);
    if (next == at)
        s->factor[p][1][r] = 0;
}

/* A part of row r: `groups` groups of 32, or the blocks of a K type.  The type is a constant at
 * every call. */
INLINE void sum_row(kvsi_dtype type, group_sums *s, size_t r, const unsigned char *at,
                    const gemv_block *x, size_t groups)
{
    const size_t bytes = block_bytes(type), whole = groups / (2 * PAIRS);

    if (has_k_blocks(type)) {
        const int d = type == KVSI_Q6_K ? 208 : 0, m = type == KVSI_Q6_K ? 208 : 2;

        for (size_t b = 0; b < whole; b++, at += bytes) {
            s->pair[b][r] =
                type == KVSI_Q6_K ? multiply_q6_k(at, x + b) : multiply_q45_k(type, at, x + b);
            memcpy(&s->factor[b][0][r], at + d, 2);
            memcpy(&s->factor[b][1][r], at + m, 2);
        }
        return;
    }
    for (size_t b = 0; b < whole; b++)
#pragma GCC unroll 4
        for (size_t i = 0; i < PAIRS; i++, at += 2 * bytes)
            sum_pair(type, s, PAIRS * b + i, r, at, at + bytes, x + b, i);
    for (size_t i = 0; 2 * (PAIRS * whole + i) < groups; i++, at += 2 * bytes)
        sum_pair(type, s, PAIRS * whole + i, r, at,
                 2 * (PAIRS * whole + i) + 1 < groups ? at + bytes : at, x + whole, i);
}

/* The sums of four lanes of four vectors, twice. */
INLINE __m256i sum_four(const __m256i v[4])
{
    return _mm256_hadd_epi32(_mm256_hadd_epi32(v[0], v[1]), _mm256_hadd_epi32(v[2], v[3]));
}

INLINE __m256 add_group(__m256 t, __m256i sums, const uint16_t factor[ROWS])
{
    const __m128i halves = _mm_loadu_si128((const __m128i *)(const void *)factor);

    return _mm256_fmadd_ps(_mm256_cvtepi32_ps(sums), _mm256_cvtph_ps(halves), t);
}

/* y += the sums of a part of ROWS rows; per_block = pairs per block of inputs. */
INLINE __m256 add_part(__m256 y, const group_sums *s, const gemv_block *x, size_t pairs,
                       size_t per_block)
{
    for (size_t from = 0; from < pairs; from += per_block, x++) {
        const size_t end = pairs - from < per_block ? pairs : from + per_block;
        __m256 t = _mm256_setzero_ps();

        for (size_t p = from; p < end; p++) {
            const __m256i a = sum_four(s->pair[p]), b = sum_four(s->pair[p] + 4);

            t = add_group(t, _mm256_permute2x128_si256(a, b, 0x20), s->factor[p][0]);
            t = add_group(t, _mm256_permute2x128_si256(a, b, 0x31), s->factor[p][1]);
        }
        y = _mm256_fmadd_ps(t, _mm256_set1_ps(x->step), y);
    }
    return y;
}

INLINE void multiply_rows(kvsi_dtype type, float *y, const unsigned char *rows, size_t count,
                          const gemv_block *x, size_t cols)
{
    const size_t per_block = has_k_blocks(type) ? 1 : PAIRS;
    const size_t part = PART_PAIRS / per_block, blocks = gemv_blocks(cols);
    const size_t row_bytes = kvsi_dtype_bytes(type, cols);
    const size_t part_bytes = kvsi_dtype_bytes(type, part * BLOCK);
    group_sums s;

    if (count < ROWS) /* the sums of missing rows are computed, but not stored */
        memset(&s, 0, sizeof s);
    for (size_t row = 0; row < count; row += ROWS) {
        const size_t rest = count - row < ROWS ? count - row : ROWS;
        float sums[ROWS] = {0};
        __m256 total;

        memcpy(sums, y + row, rest * sizeof *y);
        total = _mm256_loadu_ps(sums);
        for (size_t b = 0; b < blocks; b += part) {
            const size_t some = blocks - b < part ? blocks - b : part;
            const size_t inputs = cols - b * BLOCK < some * BLOCK ? cols - b * BLOCK : some * BLOCK;
            const size_t groups = inputs / GROUP;

            for (size_t r = 0; r < rest; r++)
                sum_row(type, &s, r, rows + (row + r) * row_bytes + b / part * part_bytes, x + b,
                        groups);
            total =
                add_part(total, &s, x + b, has_k_blocks(type) ? some : (groups + 1) / 2, per_block);
        }
        _mm256_storeu_ps(sums, total);
        memcpy(y + row, sums, rest * sizeof *y);
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
