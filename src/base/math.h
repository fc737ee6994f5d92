/* base/math.h - arithmetic on sizes. */
#ifndef KVSI_BASE_MATH_H
#define KVSI_BASE_MATH_H

#include <stddef.h>

static inline size_t kvsi_min(size_t x, size_t y)
{
    return x < y ? x : y;
}

static inline size_t kvsi_max(size_t x, size_t y)
{
    return x > y ? x : y;
}

/* x / by, rounded up; x + by must not overflow. */
static inline size_t kvsi_div_up(size_t x, size_t by)
{
    return (x + by - 1) / by;
}

/* The smallest multiple of `by` that is at least x. */
static inline size_t kvsi_round_up(size_t x, size_t by)
{
    return kvsi_div_up(x, by) * by;
}

#endif
