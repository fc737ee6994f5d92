/* Filters of whole rows, channel by channel. */
#include "kernels/host.h"
#include "kernels/ref/ref.h"

/* The tap of channel i for the row `back` tokens ago: that of the row itself is 1 + parameter. */
static double tap_of(const kvsi_filter *f, size_t i, size_t back)
{
    const double parameter = (double)f->parameters[i * (f->window + 1) + f->window - back];

    return back == 0 ? 1 + parameter : parameter;
}

static double factor_of(const kvsi_filter *f)
{
    return f->factor ? (double)*f->factor : 1;
}

/* The row `back` tokens before row t of a span; NULL = before the start. */
static const real *row_before(const kvsi_filter *f, const kvsi_span *span, const real *x, size_t t,
                              size_t back)
{
    const real *tail = span->tails[f->tail];

    if (t >= back)
        return x + (span->start + t - back) * f->width;
    return tail ? tail + (f->window + t - back) * f->width : NULL;
}

void kvsi_ref_filter_forward(kvsi_context *c, real *y, const real *x, const kvsi_filter *f,
                             size_t n)
{
    (void)c, (void)n;
    for (size_t s = 0; s < f->sequences; s++) {
        const kvsi_span *span = &f->spans[s];

        for (size_t t = 0; t < span->len; t++)
            for (size_t i = 0; i < f->width; i++) {
                double sum = 0;

                for (size_t back = 0; back <= f->window; back++) {
                    const real *row = row_before(f, span, x, t, back);

                    sum += row ? tap_of(f, i, back) * (double)row[i] : 0;
                }
                y[(span->start + t) * f->width + i] = (real)(factor_of(f) * sum);
            }
        kvsi_update_tail(span, f->tail, (kvsi_raw_rows){x, f->width, f->width, f->window});
    }
}

/* With y_t = g sum_j a_j x_{t-j}:  d_x_t = g sum_j a_j d_y_{t+j},  d_a_j += g sum_t d_y_t x_{t-j},
 * d_g += sum_j a_j sum_t d_y_t x_{t-j}. */
void kvsi_ref_filter_backward(kvsi_context *c, real *d_x, const real *d_y, const real *x,
                              const kvsi_filter *f, size_t n)
{
    (void)c, (void)n;
    for (size_t s = 0; s < f->sequences; s++) {
        const kvsi_span *span = &f->spans[s];

        for (size_t t = 0; t < span->len; t++)
            for (size_t i = 0; i < f->width; i++) {
                const size_t at = (span->start + t) * f->width + i;
                double sum = 0;

                for (size_t ahead = 0; ahead <= f->window && t + ahead < span->len; ahead++)
                    sum += tap_of(f, i, ahead) * (double)d_y[at + ahead * f->width];
                d_x[at] = (real)(factor_of(f) * sum);
            }
    }
    for (size_t i = 0; i < f->width; i++)
        for (size_t back = 0; back <= f->window; back++) {
            double sum = 0;

            for (size_t s = 0; s < f->sequences; s++)
                for (size_t t = back; t < f->spans[s].len; t++) {
                    const size_t at = (f->spans[s].start + t) * f->width + i;

                    sum += (double)d_y[at] * (double)x[at - back * f->width];
                }
            f->gradient[i * (f->window + 1) + f->window - back] += (real)(factor_of(f) * sum);
            if (f->factor)
                *f->d_factor += (real)(tap_of(f, i, back) * sum);
        }
}
