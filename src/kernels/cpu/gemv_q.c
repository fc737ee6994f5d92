#include "kernels/cpu/gemv_q.h"

#include "kernels/cpu/decode.h"
#include "kernels/cpu/round.h"

/* ---- inputs ---- */

/* Rounds x; returns its step. */
static float round_to_shorts(int16_t out[BLOCK], const float *x)
{
    vec whole[ROUND_VECTORS];
    const float step = round_block(whole, x);

    for (int j = 0; j < ROUND_VECTORS; j++)
        *(shorts_of_vec *)(out + j * VEC) =
            __builtin_convertvector(__builtin_convertvector(whole[j], veci), shorts_of_vec);
    return step;
}

typedef int32_t words8 __attribute__((vector_size(32), aligned(4), may_alias));
typedef int16_t shorts8 __attribute__((vector_size(16), aligned(2), may_alias));

/* Even inputs of a block go to one quarter, odd ones to another; their sums initialise the
 * lanes. */
static void place_q4_0(block_pair *pair, int second, const int16_t values[BLOCK])
{
    enum { PAIRS = BLOCK / 4 }; /* in half a block */
    int32_t sums[PAIRS] = {0};

    for (int half = 0; half < 2; half++) {
        const words8 both = *(const words8 *)(const void *)(values + half * BLOCK / 2);
        const words8 even = both << 16 >> 16, odd = both >> 16;

        *(shorts8 *)&pair->x[half][PAIRS * second] = __builtin_convertvector(even, shorts8);
        *(shorts8 *)&pair->x[half + 2][PAIRS * second] = __builtin_convertvector(odd, shorts8);
        *(words8 *)sums += even + odd;
    }
    for (int j = 0; j < LANES / 2; j++)
        pair->start[LANES / 2 * second + j] = -8 * (sums[2 * j] + sums[2 * j + 1]);
}

static void pack_block(block_pair *pair, kvsi_dtype type, int second, const float *x)
{
    _Alignas(VEC_BYTES) int16_t values[BLOCK] = {0};
    const float step = x ? round_to_shorts(values, x) : 0.0f;

    if (type == KVSI_Q8_0)
        memcpy(pair->x[2 * second], values, sizeof values);
    else
        place_q4_0(pair, second, values);
    for (int j = 0; j < LANES / 2; j++)
        pair->step[LANES / 2 * second + j] = step;
}

void LEVEL(gemv_q_pack)(block_pair *out, kvsi_dtype type, const float *x, size_t cols)
{
    for (size_t i = 0; i < cols; i += 2 * BLOCK, out++) {
        pack_block(out, type, 0, x + i);
        pack_block(out, type, 1, i + BLOCK < cols ? x + i + BLOCK : NULL);
    }
}

/* ---- products ---- */

#ifdef __AVX2__

/* One pair of blocks of weights, widened to 16 bits, and their factors. */
typedef struct unpacked {
    __m256i w[QUARTERS];
    __m256 factor[2]; /* Q8_0: first block, second block; Q4_0: both, four lanes each */
} unpacked;

INLINE __m128i load16(const void *at)
{
    return _mm_loadu_si128((const __m128i *)at);
}

/* The F16 at `at`, in all eight lanes. */
INLINE __m128i load_f16(const unsigned char *at)
{
    int16_t half;

    memcpy(&half, at, sizeof half);
    return _mm_set1_epi16(half);
}

INLINE unpacked unpack_q8_0(const unsigned char *at, int both)
{
    const unsigned char *next = at + 34;
    unpacked s = {.w = {_mm256_cvtepi8_epi16(load16(at + 2)), _mm256_cvtepi8_epi16(load16(at + 18)),
                        _mm256_setzero_si256(), _mm256_setzero_si256()},
                  .factor = {_mm256_cvtph_ps(load_f16(at)), _mm256_setzero_ps()}};

    if (both) {
        s.w[2] = _mm256_cvtepi8_epi16(load16(next + 2));
        s.w[3] = _mm256_cvtepi8_epi16(load16(next + 18));
        s.factor[1] = _mm256_cvtph_ps(load_f16(next));
    }
    return s;
}

INLINE unpacked unpack_q4_0(const unsigned char *at, int both)
{
    const __m256i low = _mm256_set1_epi16(15);
    const unsigned char *next = both ? at + 18 : at; /* whose inputs are 0 in that case */
    const __m256i words =
        _mm256_inserti128_si256(_mm256_castsi128_si256(load16(at + 2)), load16(next + 2), 1);
    unpacked s = {
        .w = {_mm256_and_si256(words, low), _mm256_and_si256(_mm256_srli_epi16(words, 4), low),
              _mm256_and_si256(_mm256_srli_epi16(words, 8), low), _mm256_srli_epi16(words, 12)}};

    s.factor[0] = _mm256_cvtph_ps(_mm_unpacklo_epi64(load_f16(at), load_f16(next)));
    return s;
}

INLINE __m256i add_products(__m256i sum, __m256i w, const int16_t *x)
{
#ifdef __AVX512VNNI__
    return _mm256_dpwssd_epi32(sum, w, _mm256_loadu_si256((const __m256i *)(const void *)x));
#else
    return _mm256_add_epi32(
        sum, _mm256_madd_epi16(w, _mm256_loadu_si256((const __m256i *)(const void *)x)));
#endif
}

/* total + products of one pair */
INLINE __m256 add_pair(kvsi_dtype type, __m256 total, const unpacked *s, const block_pair *x)
{
    if (type == KVSI_Q4_0) {
        __m256i sum = _mm256_loadu_si256((const __m256i *)(const void *)x->start);

#pragma GCC unroll 4
        for (int k = 0; k < QUARTERS; k++)
            sum = add_products(sum, s->w[k], x->x[k]);
        return _mm256_fmadd_ps(_mm256_cvtepi32_ps(sum), s->factor[0] * _mm256_loadu_ps(x->step),
                               total);
    }
#pragma GCC unroll 2
    for (int b = 0; b < 2; b++) {
        const __m256i first = add_products(_mm256_setzero_si256(), s->w[2 * b], x->x[2 * b]);
        const __m256i sum = add_products(first, s->w[2 * b + 1], x->x[2 * b + 1]);

        total = _mm256_fmadd_ps(_mm256_cvtepi32_ps(sum),
                                s->factor[b] * _mm256_broadcast_ss(&x->step[LANES / 2 * b]), total);
    }
    return total;
}

/* Adds one pair of blocks of a row; `both` = it has a second block. */
INLINE void add_pairs(kvsi_dtype type, size_t tokens, __m256 *totals, const unsigned char *at,
                      const block_pair *x, size_t pairs, int both)
{
    const unpacked s = type == KVSI_Q8_0 ? unpack_q8_0(at, both) : unpack_q4_0(at, both);

#pragma GCC unroll 4
    for (size_t t = 0; t < tokens; t++)
        totals[t] = add_pair(type, totals[t], &s, x + t * pairs);
}

/* The products of one row with all tokens, lane by lane.  Type and tokens are constants at every
 * call. */
INLINE void multiply_lanes(kvsi_dtype type, size_t tokens, __m256 *totals, const unsigned char *row,
                           const block_pair *x, size_t cols)
{
    const size_t step = 2 * run_bytes(type);
    const size_t pairs = count_pairs(cols), whole = cols / (2 * BLOCK);

#pragma GCC unroll 4
    for (size_t t = 0; t < tokens; t++)
        totals[t] = _mm256_setzero_ps();
    for (size_t i = 0; i < whole; i++)
        add_pairs(type, tokens, totals, row + i * step, x + i, pairs, 1);
    if (whole < pairs)
        add_pairs(type, tokens, totals, row + whole * step, x + whole, pairs, 0);
}

/* The sums over the lanes of four vectors, in the order of vec_sum with eight lanes. */
INLINE __m128 sum_lanes(const __m256 t[4])
{
    __m128 half[4], low, high;

#pragma GCC unroll 4
    for (int i = 0; i < 4; i++)
        half[i] = _mm256_castps256_ps128(t[i]) + _mm256_extractf128_ps(t[i], 1);
    low = _mm_shuffle_ps(half[0], half[1], 0x44) + _mm_shuffle_ps(half[0], half[1], 0xee);
    high = _mm_shuffle_ps(half[2], half[3], 0x44) + _mm_shuffle_ps(half[2], half[3], 0xee);
    return _mm_shuffle_ps(low, high, 0x88) + _mm_shuffle_ps(low, high, 0xdd);
}

INLINE float sum_one(__m256 t)
{
    return _mm_cvtss_f32(sum_lanes((const __m256[4]){t, t, t, t}));
}

/* One token: four rows at a time, whose lanes are summed together. */
INLINE void multiply_token(kvsi_dtype type, size_t count, float *sums, const unsigned char *rows,
                           const block_pair *x, size_t cols)
{
    const size_t bytes = cols / BLOCK * run_bytes(type);
    size_t r = 0;

    for (; r + 4 <= count; r += 4) {
        __m256 totals[4];

#pragma GCC unroll 4
        for (size_t k = 0; k < 4; k++)
            multiply_lanes(type, 1, &totals[k], rows + (r + k) * bytes, x, cols);
        _mm_storeu_ps(sums + r, sum_lanes(totals));
    }
    for (; r < count; r++) {
        __m256 total;

        multiply_lanes(type, 1, &total, rows + r * bytes, x, cols);
        sums[r] = sum_one(total);
    }
}

INLINE void multiply_rows(kvsi_dtype type, size_t count, size_t tokens, float *sums,
                          const unsigned char *rows, const block_pair *x, size_t cols)
{
    const size_t bytes = cols / BLOCK * run_bytes(type);

    if (tokens == 1) {
        multiply_token(type, count, sums, rows, x, cols);
        return;
    }
    for (size_t r = 0; r < count; r++) {
        __m256 totals[GEMV_Q_TOKENS_MAX];

        multiply_lanes(type, tokens, totals, rows + r * bytes, x, cols);
#pragma GCC unroll 4
        for (size_t t = 0; t < tokens; t++)
            sums[r * tokens + t] = sum_one(totals[t]);
    }
}

#else

/* Value i of a block of weights, without the block's factor. */
static int integer_at(kvsi_dtype type, const unsigned char *at, int i)
{
    if (type == KVSI_Q8_0)
        return (int8_t)at[2 + i];
    return (i < 16 ? at[2 + i] & 15 : at[2 + i - 16] >> 4) - 8;
}

/* The input that is multiplied with value i. */
static int16_t input_at(const block_pair *pair, kvsi_dtype type, int second, int i)
{
    if (type == KVSI_Q8_0)
        return pair->x[2 * second + i / QUARTER][i % QUARTER];
    return pair->x[i / 16 + i % 2 * 2][8 * second + i % 16 / 2];
}

static float multiply_block(kvsi_dtype type, const unsigned char *at, const block_pair *x,
                            int second)
{
    int32_t sum = 0;

    for (int i = 0; i < BLOCK; i++)
        sum += integer_at(type, at, i) * input_at(x, type, second, i);
    return (float)sum * (one_from_f16(at) * x->step[LANES / 2 * second]);
}

static void multiply_rows(kvsi_dtype type, size_t count, size_t tokens, float *sums,
                          const unsigned char *rows, const block_pair *x, size_t cols)
{
    const size_t block = run_bytes(type), bytes = cols / BLOCK * block;

    for (size_t r = 0; r < count; r++)
        for (size_t t = 0; t < tokens; t++) {
            const block_pair *pairs = x + t * count_pairs(cols);
            float sum = 0;

            for (size_t b = 0; b < cols / BLOCK; b++)
                sum +=
                    multiply_block(type, rows + r * bytes + b * block, pairs + b / 2, (int)(b % 2));
            sums[r * tokens + t] = sum;
        }
}

#endif

INLINE void multiply_tokens(kvsi_dtype type, size_t count, size_t tokens, float *sums,
                            const unsigned char *rows, const block_pair *x, size_t cols)
{
    switch (tokens) {
    case 1:
        multiply_rows(type, count, 1, sums, rows, x, cols);
        break;
    case 2:
        multiply_rows(type, count, 2, sums, rows, x, cols);
        break;
    case 3:
        multiply_rows(type, count, 3, sums, rows, x, cols);
        break;
    default:
        multiply_rows(type, count, 4, sums, rows, x, cols);
    }
}

void LEVEL(gemv_q)(float *sums, kvsi_dtype type, const unsigned char *rows, size_t count,
                   const block_pair *x, size_t tokens, size_t cols)
{
    if (type == KVSI_Q8_0)
        multiply_tokens(KVSI_Q8_0, count, tokens, sums, rows, x, cols);
    else
        multiply_tokens(KVSI_Q4_0, count, tokens, sums, rows, x, cols);
}
