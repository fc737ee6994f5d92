/* Initial values of the parameters. */
#include "base/memory.h"
#include "base/random.h"
#include "kernels/forms.h"
#include "model/layer.h"
#include "model/parameters.h"
#include "parallel/threads.h"

#include <math.h>

enum { PIECE = 1 << 14 }; /* values per piece */

/* Value i is the generator's draw i, whichever thread computes it. */
static void fill_normal(real *out, size_t count, double deviation, const kvsi_random *random,
                        int threads)
{
    KVSI_PARALLEL_PIECES(threads, piece, (count + PIECE - 1) / PIECE) {
        const size_t from = piece * PIECE, to = count - from < PIECE ? count : from + PIECE;
        kvsi_random own = *random;

        kvsi_random_skip(&own, (uint32_t)from);
        for (size_t i = from; i < to; i++)
            out[i] = (real)(deviation * kvsi_random_normal(&own));
    }
}

static void fill_constant(real *out, size_t count, real value)
{
    for (size_t i = 0; i < count; i++)
        out[i] = value;
}

/* [rows, cols] with one 1 per row: identity matrices stacked on top of each other. */
static void fill_identity(real *out, size_t count, size_t cols)
{
    for (size_t i = 0; i < count; i++)
        out[i] = i / cols % cols == i % cols ? 1 : 0;
}

static void make_unit_rows(real *rows, size_t count, size_t cols)
{
    for (size_t at = 0; at < count; at += cols) {
        double sum = 0;

        for (size_t i = 0; i < cols; i++)
            sum += (double)rows[at + i] * (double)rows[at + i];
        for (size_t i = 0; i < cols && sum > 0; i++)
            rows[at + i] = (real)((double)rows[at + i] / sqrt(sum));
    }
}

/* Draws one set of taps per head, or per channel, and converts it to the form's parameters. */
static void fill_taps(real *out, const kvsi_parameter *p, const kvs_model_config *c,
                      kvsi_random *random)
{
    const kvsi_form *form = kvsi_form_get(c->shift.form);
    const size_t head_size = kvsi_layer_shape_of(c, p->layer).head_size;
    const size_t step =
        form->per_channel ? c->shift.window + 1 : form->params(c->shift.window, head_size);

    for (size_t at = 0; at < p->count; at += step) {
        double taps[KVSI_TAPS_MAX], params[KVSI_TAPS_MAX];

        kvsi_taps_draw(taps, c->shift.window, c->shift.init, random);
        form->from_taps(params, taps, c->shift.window);
        for (size_t j = 0; j < step; j++)
            out[at + j] = (real)params[j];
    }
}

void kvsi_parameter_fill(real *out, const kvsi_parameter *p, const kvs_model_config *config,
                         uint64_t seed, int threads)
{
    const int scaled =
        config->body == KVSI_BODY_GPT2 && /* outputs that are added to the residual stream */
        (p->role == KVSI_OUTPUT || p->role == KVSI_DOWN);
    const double deviation = config->init_std / (scaled ? sqrt(2.0 * (double)config->layers) : 1.0);
    kvsi_random random;

    kvsi_random_init(&random, seed, KVSI_RANDOM_INIT, kvsi_hash_text(p->name));
    switch (p->role) {
    case KVSI_GAIN:
        fill_constant(out, p->count, config->gain_offset ? 0 : 1);
        return;
    case KVSI_BIAS:
    case KVSI_FILTER:
        fill_constant(out, p->count, 0);
        return;
    case KVSI_FACTOR:
        fill_constant(out, p->count, 1);
        return;
    case KVSI_TAPS:
        fill_taps(out, p, config, &random);
        return;
    default:
        fill_normal(out, p->count, deviation, &random, threads);
    }
    if (config->unit_embeddings && p->role == KVSI_EMBEDDING)
        make_unit_rows(out, p->count, config->dim);
    if (config->identity_projections && (p->role == KVSI_PROJECTION || p->role == KVSI_OUTPUT))
        fill_identity(out, p->count, config->dim);
}

kvs_status kvsi_parameter_make(float *out, const kvsi_parameter *p, const kvs_model_config *config,
                               uint64_t seed, int threads, kvs_err *err)
{
    real *block;

    if (sizeof(real) == sizeof(float) && !p->transposed) { /* same type, same order */
        kvsi_parameter_fill((real *)(void *)out, p, config, seed, threads);
        return KVS_OK;
    }
    block = kvsi_alloc(p->count, sizeof *block);
    if (!block)
        return kvsi_fail(err, KVS_E_NOMEM, "out of memory for tensor '%s' of %zu values", p->name,
                         p->count);
    kvsi_parameter_fill(block, p, config, seed, threads);
    for (size_t i = 0; i < p->count; i++)
        out[kvsi_file_index(p, i)] = (float)block[i];
    kvsi_free(block);
    return KVS_OK;
}
