/* Filters of whole rows: the shift of blocks of channels, as if each block were a head. */
#include "kernels/cpu/cpu.h"
#include "kernels/cpu/shift_rotate.h"
#include "kernels/host.h"
#include "parallel/threads.h"

enum { BLOCK = 64 }; /* channels of a piece */

/* A block of channels, with its taps times the factor. */
typedef struct block {
    size_t first, count;
    float taps[KVSI_TAPS_MAX * BLOCK];
} block;

static size_t blocks_of(const kvsi_filter *f)
{
    return (f->width + BLOCK - 1) / BLOCK;
}

static void start_block(block *b, const kvsi_filter *f, size_t index)
{
    const float factor = f->factor ? *f->factor : 1.0f;

    b->first = index * BLOCK;
    b->count = f->width - b->first < BLOCK ? f->width - b->first : BLOCK;
    kvsi_form_get(KVSI_SHIFT_RESIDUAL)
        ->taps(b->taps, f->parameters + b->first * (f->window + 1), f->window, b->count);
    for (size_t i = 0; f->factor && i < (f->window + 1) * b->count; i++)
        b->taps[i] *= factor;
}

static shift_rotation rows_of(const block *b, const kvsi_filter *f, const kvsi_span *span,
                              const float *x)
{
    const float *tail = span->tails[f->tail];

    return (shift_rotation){
        .len = span->len,
        .head_size = b->count,
        .window = f->window,
        .taps = b->taps,
        .raw = x + span->start * f->width + b->first,
        .raw_stride = f->width,
        .tail = tail ? tail + b->first : NULL,
        .tail_stride = f->width,
    };
}

void LEVEL(filter_forward)(kvsi_context *c, float *y, const float *x, const kvsi_filter *f,
                           size_t n)
{
    const size_t blocks = blocks_of(f);

    (void)n;
    KVSI_PARALLEL_PIECES(c->threads, i, f->sequences * blocks) {
        const kvsi_span *span = &f->spans[i / blocks];
        shift_rotation rows;
        block b;

        start_block(&b, f, i % blocks);
        rows = rows_of(&b, f, span, x);
        LEVEL(shift_rotate)(y + span->start * f->width + b.first, f->width, &rows);
    }
    for (size_t s = 0; s < f->sequences; s++)
        kvsi_update_tail(&f->spans[s], f->tail, (kvsi_raw_rows){x, f->width, f->width, f->window});
}

/* Turns sums over all rows of d_y_t x_{t-j}, [window + 1, channels], into the gradients of a
 * block's parameters.  Returns the part of the factor's gradient. */
static double add_gradients(const block *b, const kvsi_filter *f, const double *sums)
{
    const double factor = f->factor ? (double)*f->factor : 1;
    double d_factor = 0;

    for (size_t i = 0; i < b->count; i++)
        for (size_t j = 0; j <= f->window; j++) {
            const size_t at = (b->first + i) * (f->window + 1) + j;
            const double sum = sums[j * b->count + i];

            d_factor += sum * ((double)f->parameters[at] + (j == f->window ? 1 : 0));
            f->gradient[at] += (float)(factor * sum);
        }
    return d_factor;
}

void LEVEL(filter_backward)(kvsi_context *c, float *d_x, const float *d_y, const float *x,
                            const kvsi_filter *f, size_t n)
{
    const size_t blocks = blocks_of(f);
    double *d_factors = (double *)(void *)c->workspace, d_factor = 0;

    (void)n;
    KVSI_PARALLEL_PIECES(c->threads, i, blocks) {
        double sums[KVSI_TAPS_MAX * BLOCK] = {0}, d_taps[KVSI_TAPS_MAX * BLOCK];
        float scratch[KVSI_TAPS_MAX * BLOCK];
        block b;

        start_block(&b, f, i);
        for (size_t s = 0; s < f->sequences; s++) {
            const kvsi_span *span = &f->spans[s];
            const shift_rotation rows = rows_of(&b, f, span, x);
            const size_t at = span->start * f->width + b.first;

            /* Without norm and rotation d_y is only read. */
            LEVEL(shift_rotate_backward)
            (d_x + at, d_taps, scratch, NULL, (float *)d_y + at, f->width, &rows,
             (norm_backward_memory){0});
            for (size_t j = 0; j < (f->window + 1) * b.count; j++)
                sums[j] += d_taps[j];
        }
        d_factors[i] = add_gradients(&b, f, sums);
    }
    for (size_t i = 0; i < blocks; i++)
        d_factor += d_factors[i];
    if (f->factor)
        *f->d_factor += (float)d_factor;
}

size_t LEVEL(filter_workspace)(const kvsi_limits *limits)
{
    return (limits->dim + BLOCK - 1) / BLOCK * sizeof(double);
}
