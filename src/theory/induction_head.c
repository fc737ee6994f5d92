#include "theory/induction_head.h"

#include <math.h>

enum { SIZE_MAX_HERE = 1 << 14 }; /* of length and dim: inputs stay below two gigabytes */

void kvs_induction_problem_init(kvs_induction_problem *problem)
{
    if (problem)
        *problem = (kvs_induction_problem){
            .length = 11, .dim = 16, .sigma = 0.1, .slope = 1e-3, .inputs = 100, .seed = 1};
}

kvs_status kvsi_induction_problem_check(const kvs_induction_problem *p, kvs_err *err)
{
    if (p->length < 4 || p->length > SIZE_MAX_HERE)
        return kvsi_fail(err, KVS_E_INVALID, "length is '%zu', expected 4 to %d", p->length,
                         SIZE_MAX_HERE);
    if (p->dim < 1 || p->dim > SIZE_MAX_HERE)
        return kvsi_fail(err, KVS_E_INVALID, "dim is '%zu', expected 1 to %d", p->dim,
                         SIZE_MAX_HERE);
    if (!(p->sigma > 0) || !isfinite(p->sigma))
        return kvsi_fail(err, KVS_E_INVALID, "sigma is '%g', expected a number above 0", p->sigma);
    if (!(p->slope >= 0) || !isfinite(p->slope))
        return kvsi_fail(err, KVS_E_INVALID, "slope is '%g', expected 0 or a number above it",
                         p->slope);
    if (p->inputs < 1)
        return kvsi_fail(err, KVS_E_INVALID, "inputs is '0', expected at least 1");
    return KVS_OK;
}

static void draw_direction(double *row, size_t dim, kvsi_random *random)
{
    double squares = 0;

    for (size_t i = 0; i < dim; i++) {
        row[i] = kvsi_random_normal(random);
        squares += row[i] * row[i];
    }
    for (size_t i = 0; i < dim; i++)
        row[i] /= sqrt(squares);
}

void kvsi_induction_input(double *x, const kvs_induction_problem *p, kvsi_random *random)
{
    const size_t last = p->length - 1;
    const size_t source = kvsi_random_below(random, (uint32_t)(last - 1));

    for (size_t s = 0; s < last; s++)
        draw_direction(x + s * p->dim, p->dim, random);
    for (size_t i = 0; i < p->dim; i++)
        x[last * p->dim + i] = x[source * p->dim + i];
}

void kvsi_attend(double *out, double *scores, const double *values, size_t count, size_t dim)
{
    double most = -INFINITY, sum = 0;

    for (size_t s = 0; s < count; s++)
        most = fmax(most, scores[s]);
    for (size_t s = 0; s < count; s++) {
        scores[s] = exp(scores[s] - most);
        sum += scores[s];
    }
    for (size_t i = 0; i < dim; i++)
        out[i] = 0;
    for (size_t s = 0; s < count; s++) {
        scores[s] /= sum;
        for (size_t i = 0; i < dim; i++)
            out[i] += scores[s] * values[s * dim + i];
    }
}

void kvsi_look_up(double *out, const double *x, const double *keys, const double *values,
                  size_t first, size_t last, const kvs_induction_problem *p, double *scores)
{
    const double *query = x + (p->length - 1) * p->dim;

    for (size_t s = first; s <= last; s++) {
        const double *key = keys + (s - first) * p->dim;
        double dot = 0;

        for (size_t i = 0; i < p->dim; i++)
            dot += query[i] * key[i];
        scores[s - first] = dot / p->sigma - p->slope * (double)(p->length - s);
    }
    kvsi_attend(out, scores, values, last - first + 1, p->dim);
}

void kvsi_induction_head(double *out, const double *x, const kvs_induction_problem *p,
                         double *scores)
{
    kvsi_look_up(out, x, x, x + p->dim, 2, p->length - 1, p, scores);
}

double kvsi_largest_difference(const double *a, const double *b, size_t count)
{
    double most = 0;

    for (size_t i = 0; i < count; i++)
        most = fmax(most, fabs(a[i] - b[i]));
    return most;
}
