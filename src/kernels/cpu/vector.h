/* kernels/cpu/vector.h - short vectors of floats, by the compiler's vector types.
 *
 * `vec` is as wide as the level's registers.  Sums over a vector's lanes have a fixed order, so
 * results depend on the level and the data only. */
#ifndef KVSI_KERNELS_CPU_VECTOR_H
#define KVSI_KERNELS_CPU_VECTOR_H

#include <stddef.h>
#include <stdint.h>
#ifdef __FMA__
#include <immintrin.h>
#endif

#ifdef KVSI_VEC_BYTES
#define VEC_BYTES KVSI_VEC_BYTES /* other than the flags of the level imply */
#elif defined __AVX2__
#define VEC_BYTES 32
#else
#define VEC_BYTES 16
#endif
enum { VEC = VEC_BYTES / 4 }; /* lanes */

typedef float vec __attribute__((vector_size(VEC_BYTES), aligned(4), may_alias));
typedef int32_t veci __attribute__((vector_size(VEC_BYTES), aligned(4), may_alias));

#define INLINE static inline __attribute__((always_inline, unused))

/* The compiler takes the vector v as it is: it neither loads it again, nor shares its product with
 * another expression, nor contracts the product with an addition. */
#if defined __AVX512VL__
#define OPAQUE(v) __asm__("" : "+v"(v))
#elif defined __SSE2__ && VEC_BYTES <= 32
#define OPAQUE(v) __asm__("" : "+x"(v))
#elif defined __aarch64__
#define OPAQUE(v) __asm__("" : "+w"(v))
#else
#define OPAQUE(v) __asm__("" : "+m"(v))
#endif

INLINE vec vec_load(const float *p)
{
    return *(const vec *)p;
}

INLINE void vec_store(float *p, vec x)
{
    *(vec *)p = x;
}

INLINE vec vec_all(float x)
{
    return x - (vec){0}; /* not 0 + x, which turns -0 into 0 */
}

/* a * b + c, rounded once at levels with FMA, whatever the compiler contracts. */
INLINE vec vec_multiply_add(vec a, vec b, vec c)
{
#if VEC_BYTES == 64 && defined __AVX512F__
    return (vec)_mm512_fmadd_ps((__m512)a, (__m512)b, (__m512)c);
#elif defined __FMA__
    for (int i = 0; i < VEC; i += 8)
        *(__m256_u *)((float *)&c + i) = _mm256_fmadd_ps(
            *(const __m256_u *)((const float *)&a + i), *(const __m256_u *)((const float *)&b + i),
            *(const __m256_u *)((const float *)&c + i));
    return c;
#else
    return a * b + c;
#endif
}

INLINE vec vec_select(veci mask, vec yes, vec no)
{
    return (vec)((mask & (veci)yes) | (~mask & (veci)no));
}

INLINE vec vec_max(vec x, vec y)
{
    return vec_select(x > y, x, y);
}

/* Adds halves until one lane is left: a short dependency chain. */
INLINE float vec_sum(vec x)
{
    float lanes[VEC];

    vec_store(lanes, x);
    for (int half = VEC / 2; half > 0; half /= 2)
        for (int i = 0; i < half; i++)
            lanes[i] += lanes[i + half];
    return lanes[0];
}

/* The largest lane; NaN is ignored. */
INLINE float vec_top(vec x)
{
    float top = x[0];

    for (int i = 1; i < VEC; i++)
        top = x[i] > top ? x[i] : top;
    return top;
}

/* exp(x), to about 2 ulp: 2^n * exp(r) with |r| <= ln(2)/2 and a polynomial for exp(r).  Below
 * -87.3 it is 0 (no denormals), above 88.3 it stays at exp(88.3); NaN stays NaN. */
INLINE vec vec_exp(vec x)
{
    const vec lowest = vec_all(-87.3f), highest = vec_all(88.3f);
    const vec magic = vec_all(12582912.0f); /* 1.5 * 2^23: adding it rounds to an integer */
    const vec inside = vec_select(x > highest, highest, vec_select(x < lowest, lowest, x));
    const vec shifted = inside * 1.44269504088896341f + magic;
    const vec n = shifted - magic;
    const vec r = (inside - n * 0.693359375f) + n * 2.12194440e-4f; /* ln(2) in two parts */
    const veci exponent = ((veci)shifted - (veci)magic + 127) << 23;
    vec p = vec_all(1.9875691500e-4f);

    p = p * r + 1.3981999507e-3f;
    p = p * r + 8.3334519073e-3f;
    p = p * r + 4.1665795894e-2f;
    p = p * r + 1.6666665459e-1f;
    p = p * r + 5.0000001201e-1f;
    p = p * (r * r) + (r + 1.0f);
    return vec_select(x < lowest, vec_all(0.0f), p * (vec)exponent);
}

/* tanh(x), to about 2 ulp: an odd polynomial up to 0.625, 1 - 2 / (exp(2 |x|) + 1) beyond it; NaN
 * stays NaN. */
INLINE vec vec_tanh(vec x)
{
    const veci sign = (veci)x & INT32_MIN;
    const vec size = (vec)((veci)x ^ sign), square = x * x;
    const vec far = 1.0f - 2.0f / (vec_exp(size + size) + 1.0f);
    vec p = vec_all(-6.0967141659e-3f);

    p = p * square + 2.0997178999e-2f;
    p = p * square - 5.3850909579e-2f;
    p = p * square + 1.3332769737e-1f;
    p = p * square - 3.3333328944e-1f;
    return vec_select(size > 0.625f, (vec)((veci)far | sign), (p * square) * x + x);
}

/* exp of one value, with the same bits as vec_exp. */
INLINE float exp_one(float x)
{
    return vec_exp(vec_all(x))[0];
}

/* x * y + z, rounded once at levels with FMA.  Left to itself, the compiler may vectorize the
 * products of a loop of scalars and add them without FMA, depending on the level. */
INLINE float multiply_add_one(float x, float y, float z)
{
#ifdef __FMA__
    return __builtin_fmaf(x, y, z);
#else
    return x * y + z;
#endif
}

/* sum_i x[i] * y[i], in four running sums that are added at the end */
INLINE float dot(const float *x, const float *y, size_t n)
{
    vec sums[4] = {{0}, {0}, {0}, {0}};
    float rest = 0;
    size_t i = 0;

    for (; i + 4 * VEC <= n; i += 4 * VEC)
        for (size_t j = 0; j < 4; j++)
            sums[j] += vec_load(x + i + j * VEC) * vec_load(y + i + j * VEC);
    for (; i + VEC <= n; i += VEC)
        sums[0] += vec_load(x + i) * vec_load(y + i);
    for (; i < n; i++)
        rest = multiply_add_one(x[i], y[i], rest);
    return vec_sum((sums[0] + sums[1]) + (sums[2] + sums[3])) + rest;
}

#endif
