#include "kernels/host.h"

#include "base/memory.h"
#include "base/random.h"
#include "kernels/forms.h"

#include <string.h>

void *kvsi_host_alloc(const kvsi_context *c, size_t bytes)
{
    (void)c;
    return kvsi_alloc(bytes, 1);
}

void kvsi_host_release(const kvsi_context *c, void *memory)
{
    (void)c;
    kvsi_free(memory);
}

const void *kvsi_host_adopt(const kvsi_context *c, const void *host, size_t bytes)
{
    (void)c;
    (void)bytes;
    return host;
}

void kvsi_host_disown(const kvsi_context *c, const void *adopted)
{
    (void)c;
    (void)adopted;
}

void kvsi_host_copy(kvsi_context *c, void *to, const void *from, size_t bytes)
{
    (void)c;
    if (bytes > 0)
        memcpy(to, from, bytes);
}

void kvsi_host_zero(kvsi_context *c, void *memory, size_t bytes)
{
    (void)c;
    if (bytes > 0)
        memset(memory, 0, bytes);
}

kvs_status kvsi_host_sync(kvsi_context *c)
{
    (void)c;
    return KVS_OK;
}

static size_t gain_stride(const kvsi_attention *a)
{
    return a->qk_norm == KVSI_QK_NORM_HEAD ? 0 : a->head_size;
}

kvsi_target kvsi_target_q(const kvsi_attention *a)
{
    return (kvsi_target){&a->q_shift, a->heads,       0,          a->q_gain,
                         a->d_q_gain, gain_stride(a), KVSI_TAIL_Q};
}

kvsi_target kvsi_target_k(const kvsi_attention *a)
{
    return (kvsi_target){&a->k_shift, a->kv_heads, a->heads * a->head_size,
                         a->k_gain,   a->d_k_gain, gain_stride(a),
                         KVSI_TAIL_K};
}

kvsi_target kvsi_target_v(const kvsi_attention *a)
{
    return (kvsi_target){.shift = &a->v_shift,
                         .heads = a->kv_heads,
                         .column = (a->heads + a->kv_heads) * a->head_size,
                         .tail = KVSI_TAIL_V};
}

static size_t params_of(const kvsi_shift *shift, size_t head_size)
{
    return shift->window > 0 ? kvsi_form_get(shift->form)->params(shift->window, head_size) : 0;
}

const real *kvsi_head_params(const kvsi_shift *shift, size_t head, size_t head_size)
{
    const size_t params = params_of(shift, head_size);

    return params > 0 ? shift->parameters + head * params : NULL;
}

size_t kvsi_shift_params(const kvsi_attention *a)
{
    const size_t q = params_of(&a->q_shift, a->head_size);
    const size_t k = params_of(&a->k_shift, a->head_size);
    const size_t v = params_of(&a->v_shift, a->head_size);

    return q > k ? (q > v ? q : v) : (k > v ? k : v);
}

size_t kvsi_qkv_width(const kvsi_attention *a)
{
    return (a->heads + 2 * a->kv_heads) * a->head_size;
}

/* ---- dropout ---- */

static void factors_of_words(real factors[4], const uint32_t words[4], double rate)
{
    const uint32_t threshold = (uint32_t)(rate * 4294967296.0); /* rate < 1 */
    const real kept = (real)(1.0 / (1.0 - rate));

    for (int i = 0; i < 4; i++)
        factors[i] = words[i] >= threshold ? kept : 0;
}

void kvsi_keep_factors(real factors[4], const kvsi_dropout *d, uint64_t block)
{
    uint32_t words[4];

    kvsi_random_words(words, d->seed, KVSI_RANDOM_DROPOUT, d->index, (uint32_t)block);
    factors_of_words(factors, words, d->rate);
}

void kvsi_keep_weights(real factors[4], const kvsi_attention *a, const kvsi_span *span, size_t row,
                       size_t head, size_t block)
{
    const size_t purpose = KVSI_RANDOM_ATTENTION + 8 * (row * a->heads + head);
    const uint64_t index = a->dropout.index + KVSI_DROPOUT_SITES * (uint64_t)(span - a->spans);
    uint32_t words[4];

    kvsi_random_words(words, a->dropout.seed, (uint32_t)purpose, index, (uint32_t)block);
    factors_of_words(factors, words, a->dropout.rate);
}

real kvsi_keep_factor(const kvsi_dropout *d, uint64_t place)
{
    real factors[4];

    kvsi_keep_factors(factors, d, place / 4);
    return factors[place % 4];
}

real kvsi_keep_weight(const kvsi_attention *a, const kvsi_span *span, size_t row, size_t head,
                      size_t key)
{
    real factors[4];

    if (a->dropout.rate == 0)
        return 1;
    kvsi_keep_weights(factors, a, span, row, head, key / 4);
    return factors[key % 4];
}

/* ---- cache and tails ---- */

static int all_finite(const float *x, size_t count)
{
    float sum = 0;

    for (size_t i = 0; i < count; i++)
        sum += x[i] * 0.0F;
    return sum == 0;
}

/* kvsi_dtype_encode for one block of Q8_0, also if not all values are finite. */
static void encode_q8_0(unsigned char *block, const float *x)
{
    enum { VALUES = 32, SCALE = 2 };
    const uint16_t nan = 0x7e00;

    if (all_finite(x, VALUES)) {
        kvsi_dtype_encode(block, KVSI_Q8_0, x, VALUES);
        return;
    }
    memcpy(block, &nan, SCALE);
    memset(block + SCALE, 0, VALUES);
}

void kvsi_store_rounded(void *cache, kvsi_dtype type, size_t at, real *x, size_t count)
{
    enum { CHUNK = 256 };
    const size_t block = kvsi_dtype_block(type), bytes = kvsi_dtype_bytes(type, block);
    unsigned char *to = cache ? (unsigned char *)cache + at / block * bytes : NULL;
    unsigned char rounded[CHUNK * sizeof(uint16_t)];
    float chunk[CHUNK] = {0};

    for (size_t from = 0; from < count; from += CHUNK) {
        const size_t n = count - from < CHUNK ? count - from : CHUNK;
        unsigned char *out = to ? to + from / block * bytes : rounded;

        for (size_t i = 0; i < n; i++)
            chunk[i] = (float)x[from + i];
        if (type == KVSI_F16)
            kvsi_dtype_encode(out, type, chunk, n);
        for (size_t i = 0; type == KVSI_Q8_0 && i < n; i += block)
            encode_q8_0(out + i / block * bytes, chunk + i);
        if (to)
            continue;
        kvsi_dtype_decode(chunk, type, rounded, n);
        for (size_t i = 0; i < n; i++)
            x[from + i] = (real)chunk[i];
    }
}

/* The tail after the first `len` rows of the span; `to` may be `tail` itself. */
static void copy_tail(real *to, const real *tail, const kvsi_span *span, size_t len,
                      kvsi_raw_rows rows)
{
    const size_t window = rows.window, row = rows.width;

    for (size_t j = 0; j < window;
         j++) { /* ascending, so that no source row is overwritten before it is read */
        const size_t source = len + j; /* index into (old tail, new rows) */
        const real *from = source < window
                               ? tail + source * row
                               : rows.first + (span->start + source - window) * rows.stride;
        memmove(to + j * row, from, row * sizeof *to);
    }
}

void kvsi_update_tail(const kvsi_span *span, kvsi_tail which, kvsi_raw_rows rows)
{
    const size_t size = rows.window * rows.width, end = span->past + span->len;
    real *tail = span->tails[which];

    if (!tail)
        return;
    for (size_t i = span->past / KVSI_SNAPSHOT + 1;
         i <= span->snapshots && i * KVSI_SNAPSHOT <= end; i++)
        copy_tail(tail + i * size, tail, span, i * KVSI_SNAPSHOT - span->past, rows);
    copy_tail(tail, tail, span, span->len, rows);
}

static void update_target(const kvsi_attention *a, const kvsi_span *span, kvsi_target target,
                          const real *qkv)
{
    kvsi_update_tail(span, target.tail,
                     (kvsi_raw_rows){qkv + target.column, kvsi_qkv_width(a),
                                     target.heads * a->head_size, target.shift->window});
}

void kvsi_update_tails(const kvsi_attention *a, const real *qkv)
{
    for (size_t s = 0; s < a->sequences; s++) {
        update_target(a, &a->spans[s], kvsi_target_q(a), qkv);
        update_target(a, &a->spans[s], kvsi_target_k(a), qkv);
        update_target(a, &a->spans[s], kvsi_target_v(a), qkv);
    }
}
