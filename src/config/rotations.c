/* The angular frequencies of rotary positions.  Pair i of `rotary` channels turns by
 * f_i = base^(-2i/rotary) per position; for contexts beyond those of the first training these are
 * changed in one of several ways. */
#include "config/rotations.h"

#include <math.h>

static const double PI = 3.14159265358979323846;

/* The numbers with their defaults. */
static kvsi_rope_config numbers_of(const kvs_model_config *c)
{
    kvsi_rope_config r = c->rope;

    r.factor = r.factor > 0 ? r.factor : 1;
    r.low_factor = r.low_factor > 0 ? r.low_factor : 1;
    r.high_factor = r.high_factor > 0 ? r.high_factor : 4;
    r.beta_fast = r.beta_fast > 0 ? r.beta_fast : 32;
    r.beta_slow = r.beta_slow > 0 ? r.beta_slow : 1;
    return r;
}

static double limited(double x, double low, double high)
{
    return x < low ? low : x > high ? high : x;
}

/* Waves of length w = 2 pi / f, and the original context C: f / factor if w > C / low, f if
 * w < C / high; between them the two are mixed, linearly in C / w. */
static double llama3(double f, const kvsi_rope_config *r)
{
    const double turns = (double)r->original_context * f / (2 * PI);
    const double plain = (turns - r->low_factor) / (r->high_factor - r->low_factor);
    const double share = limited(plain, 0, 1);

    return (1 - share) * f / r->factor + share * f;
}

/* The pair, as a real number, that turns `turns` times within the original context. */
static double pair_that_turns(double turns, const kvsi_rope_config *r, double base, size_t rotary)
{
    const double wave = (double)r->original_context / turns;

    return (double)rotary * log(wave / (2 * PI)) / (2 * log(base));
}

/* Between the pairs `low` and `high` f changes into f / factor, linearly. */
static void yarn(double *f, const kvsi_rope_config *r, double base, size_t rotary)
{
    double low = pair_that_turns(r->beta_fast, r, base, rotary);
    double high = pair_that_turns(r->beta_slow, r, base, rotary);

    if (!r->untruncated) {
        low = floor(low);
        high = ceil(high);
    }
    low = fmax(low, 0);
    high = fmin(high, (double)rotary - 1);
    if (low == high)
        high += 0.001;
    for (size_t i = 0; i < rotary / 2; i++) {
        const double scaled = limited(((double)i - low) / (high - low), 0, 1);

        f[i] = f[i] * (1 - scaled) + f[i] / r->factor * scaled;
    }
}

double kvsi_rope_vector_scale(const kvsi_rope_config *r)
{
    if (r->scaling != KVSI_ROPE_YARN && r->scaling != KVSI_ROPE_LONGROPE)
        return 1;
    if (r->vector_scale > 0)
        return r->vector_scale;
    if (r->factor <= 1)
        return 1;
    if (r->scaling == KVSI_ROPE_YARN)
        return 0.1 * log(r->factor) + 1;
    return sqrt(1 + log(r->factor) / log((double)r->original_context));
}

kvsi_rope_scaling kvsi_rope_scaling_of(const kvs_model_config *c, int slides)
{
    return slides && c->sliding_rope_base > 0 ? KVSI_ROPE_PLAIN : c->rope.scaling;
}

double kvsi_rope_frequencies(double *f, const kvs_model_config *c, size_t rotary, int slides)
{
    const kvsi_rope_scaling scaling = kvsi_rope_scaling_of(c, slides);
    const kvsi_rope_config r = numbers_of(c);
    const double base = slides && c->sliding_rope_base > 0 ? c->sliding_rope_base : c->rope_base;

    for (size_t i = 0; i < rotary / 2; i++) {
        f[i] = pow(base, -2.0 * (double)i / (double)rotary);
        if (scaling == KVSI_ROPE_LINEAR)
            f[i] /= r.factor;
        if (scaling == KVSI_ROPE_LLAMA3)
            f[i] = llama3(f[i], &r);
        if (scaling == KVSI_ROPE_LONGROPE)
            f[i] /= r.short_factor[i];
    }
    if (scaling == KVSI_ROPE_YARN)
        yarn(f, &r, base, rotary);
    return scaling == KVSI_ROPE_PLAIN ? 1 : kvsi_rope_vector_scale(&r);
}

/* ---- checks ---------------------------------------------------------------------------------- */

static kvs_status check_factors(const char *name, const double *factor, size_t count, size_t pairs,
                                kvs_err *err)
{
    if (count != pairs)
        return kvsi_fail(err, KVS_E_INVALID,
                         "%zu %s factors of longrope, expected %zu, one per rotary pair", count,
                         name, pairs);
    for (size_t i = 0; i < count; i++)
        if (!isfinite(factor[i]) || factor[i] <= 0)
            return kvsi_fail(err, KVS_E_INVALID,
                             "%s factor %zu of longrope is %g, expected more than 0", name, i,
                             factor[i]);
    return KVS_OK;
}

kvs_status kvsi_rope_check(const kvs_model_config *c, size_t rotary, kvs_err *err)
{
    const kvsi_rope_config numbers = numbers_of(c), *r = &numbers;
    const int is_limited = r->scaling == KVSI_ROPE_DYNAMIC || r->scaling == KVSI_ROPE_LONGROPE;

    if (r->scaling == KVSI_ROPE_PLAIN || r->scaling == KVSI_ROPE_LINEAR)
        return KVS_OK;
    if (r->original_context < 2)
        return kvsi_fail(err, KVS_E_INVALID,
                         "rope scaling %s needs the original context, found %zu",
                         kvsi_rope_scaling_name(r->scaling), r->original_context);
    if (is_limited && c->context > r->original_context)
        return kvsi_fail(err, KVS_E_INVALID,
                         "context %zu is more than the original context %zu, beyond which rope "
                         "scaling %s is not supported",
                         c->context, r->original_context, kvsi_rope_scaling_name(r->scaling));
    if (r->scaling == KVSI_ROPE_LLAMA3 && r->high_factor <= r->low_factor)
        return kvsi_fail(err, KVS_E_INVALID,
                         "rope scaling llama3 has the high factor %g, expected more than the low "
                         "factor %g",
                         r->high_factor, r->low_factor);
    if (r->scaling == KVSI_ROPE_YARN && r->beta_fast < r->beta_slow)
        return kvsi_fail(err, KVS_E_INVALID,
                         "rope scaling yarn has beta fast %g, expected at least beta slow %g",
                         r->beta_fast, r->beta_slow);
    if (r->scaling == KVSI_ROPE_LONGROPE) {
        TRY(check_factors("short", r->short_factor, r->shorts, rotary / 2, err));
        TRY(check_factors("long", r->long_factor, r->longs, rotary / 2, err));
    }
    return KVS_OK;
}
