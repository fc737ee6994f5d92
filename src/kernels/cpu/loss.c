/* The output head and the loss, in chunks of rows whose logits stay in the cache. */
#include "kernels/cpu/cpu.h"
#include "kernels/cpu/linear_many.h"
#include "kernels/cpu/vector.h"
#include "kernels/top.h"
#include "parallel/threads.h"

#include <math.h>
#include <string.h>

enum { LOGITS_MAX = 1 << 23, CHUNK_MIN = 512, CHUNK_MAX = 2048 };

/* A multiple of CHUNK_MIN where possible: the gradient of the weights sums over the rows, in blocks
 * whose depth divides it. */
static size_t chunk_rows(size_t count, size_t vocab)
{
    size_t rows = LOGITS_MAX / vocab / CHUNK_MIN * CHUNK_MIN;

    rows = rows < CHUNK_MIN ? CHUNK_MIN : rows > CHUNK_MAX ? CHUNK_MAX : rows;
    return rows < count ? rows : count;
}

/* Workspace: logits [chunk, vocab], x and d_x of the chunk [chunk, dim] each. */
size_t LEVEL(head_workspace)(const kvsi_limits *limits)
{
    return chunk_rows(limits->head_rows, limits->vocab) * (limits->vocab + 2 * limits->dim) *
           sizeof(float);
}

static void gather(float *to, const float *from, const int32_t *rows, size_t count, size_t dim)
{
    for (size_t r = 0; r < count; r++)
        memcpy(to + r * dim, from + (size_t)rows[r] * dim, dim * sizeof *to);
}

static void scatter(float *to, const float *from, const int32_t *rows, size_t count, size_t dim)
{
    for (size_t r = 0; r < count; r++)
        memcpy(to + (size_t)rows[r] * dim, from + r * dim, dim * sizeof *to);
}

/* Computes logits = x W^T, or x itself if there is no head.  `many` is as in kvsi_head. */
static void project(kvsi_context *c, float *logits, const float *x, const kvsi_matrix *w, size_t n,
                    int many)
{
    if (w->data && many)
        LEVEL(linear_many)(c, logits, x, w, n, NULL);
    else if (w->data)
        LEVEL(linear_forward)(c, logits, x, w, n, NULL);
    else
        memcpy(logits, x, n * w->cols * sizeof *logits);
}

/* x[n] becomes cap * tanh(x / cap); 0 = it stays */
static void cap_row(float *x, size_t n, float cap)
{
    size_t i = 0;

    if (cap == 0)
        return;
    for (; i + VEC <= n; i += VEC)
        vec_store(x + i, cap * vec_tanh(vec_load(x + i) / cap));
    for (; i < n; i++)
        x[i] = cap * vec_tanh(vec_all(x[i] / cap))[0];
}

void LEVEL(head_logits)(kvsi_context *c, float *logits, const float *x, const kvsi_matrix *w,
                        const int32_t *rows, size_t count, float cap)
{
    float *packed = (float *)c->workspace;
    const size_t chunk = chunk_rows(count, w->rows);

    for (size_t at = 0; at < count; at += chunk) {
        const size_t now = count - at < chunk ? count - at : chunk;

        gather(packed, x, rows + at, now, w->cols);
        project(c, logits + at * w->rows, packed, w, now, 0);
    }
    KVSI_PARALLEL_PIECES(c->threads, r, cap > 0 ? count : 0) {
        cap_row(logits + r * w->rows, w->rows, cap);
    }
}

static size_t argmax(const float *x, size_t n)
{
    size_t best = 0;

    for (size_t i = 1; i < n; i++)
        if (x[i] > x[best])
            best = i;
    return best;
}

/* sum_i exp(x[i] - shift): float sums over short runs, added in double */
static double sum_exp(const float *x, size_t n, float shift)
{
    enum { RUN = 512 };
    double sum = 0;

    for (size_t from = 0; from < n; from += RUN) {
        const size_t to = n - from < RUN ? n : from + RUN;
        vec lanes = {0};
        float rest = 0;
        size_t i = from;

        for (; i + VEC <= to; i += VEC)
            lanes += vec_exp(vec_load(x + i) - shift);
        for (; i < to; i++)
            rest += exp_one(x[i] - shift);
        sum += (double)(vec_sum(lanes) + rest);
    }
    return sum;
}

/* Returns the loss -log(exp(answer) / sum_i exp(x[i])) = top - answer + log(sum).  `top` is the
 * greatest logit, and `sum` is sum_i exp(x[i] - top). */
static float loss_of(float answer, float top, double sum)
{
    return (float)((double)top - (double)answer + log(sum));
}

/* The derivative of cap * tanh(x / cap) where that is y. */
INLINE vec cap_slope(vec y, float cap)
{
    const vec t = y / cap;

    return 1.0f - t * t;
}

/* Logits become softmax - onehot, times their own derivative if they were capped. */
static void gradient_row(float *logits, size_t vocab, size_t target, float top, float inverse,
                         float cap)
{
    const float answer = logits[target];
    size_t i = 0;

    for (; cap > 0 && i + VEC <= vocab; i += VEC) {
        const vec y = vec_load(logits + i);
        vec_store(logits + i, vec_exp(y - top) * inverse * cap_slope(y, cap));
    }
    for (; cap > 0 && i < vocab; i++)
        logits[i] = exp_one(logits[i] - top) * inverse * cap_slope(vec_all(logits[i]), cap)[0];
    for (; i + VEC <= vocab; i += VEC)
        vec_store(logits + i, vec_exp(vec_load(logits + i) - top) * inverse);
    for (; i < vocab; i++)
        logits[i] = exp_one(logits[i] - top) * inverse;
    logits[target] -= cap > 0 ? cap_slope(vec_all(answer), cap)[0] : 1.0f;
}

/* Loss of one row; its logits become the gradient of what was capped. */
static float loss_row(float *logits, size_t vocab, size_t target, int32_t *guess, int gradient,
                      float cap)
{
    size_t best;
    float top, answer;
    double sum;

    cap_row(logits, vocab, cap);
    best = argmax(logits, vocab);
    top = logits[best];
    answer = logits[target];
    sum = sum_exp(logits, vocab, top);
    *guess = (int32_t)best;
    if (gradient)
        gradient_row(logits, vocab, target, top, (float)(1.0 / sum), cap);
    return loss_of(answer, top, sum);
}

static void loss_chunk(kvsi_context *c, const kvsi_head *h, size_t at, size_t rows, size_t chunk)
{
    const size_t vocab = h->w->rows, dim = h->w->cols;
    float *logits = (float *)c->workspace, *x = logits + chunk * vocab, *d_x = x + chunk * dim;

    gather(x, h->x, h->rows + at, rows, dim);
    project(c, logits, x, h->w, rows, h->many);
    KVSI_PARALLEL_PIECES(c->threads, r, rows) {
        h->row_loss[at + r] = loss_row(logits + r * vocab, vocab, (size_t)h->targets[at + r],
                                       &h->row_guess[at + r], h->d_x != NULL, h->cap);
    }
    if (!h->d_x)
        return;
    if (!h->w->data) {
        scatter(h->d_x, logits, h->rows + at, rows, dim);
        return;
    }
    LEVEL(linear_backward_input)(c, d_x, logits, h->w, rows, 0);
    if (h->d_w)
        LEVEL(linear_backward_weight)(c, h->d_w, logits, x, rows, vocab, dim, vocab);
    scatter(h->d_x, d_x, h->rows + at, rows, dim);
}

void LEVEL(head_loss)(kvsi_context *c, const kvsi_head *head)
{
    const size_t chunk = chunk_rows(head->count, head->w->rows);

    if (head->d_x)
        memset(head->d_x, 0, head->n * head->w->cols * sizeof *head->d_x);
    for (size_t at = 0; at < head->count; at += chunk)
        loss_chunk(c, head, at, head->count - at < chunk ? head->count - at : chunk, chunk);
}

/* Finds the best tokens of one row and their log-probabilities. */
static void top_row(int32_t *ids, float *logprobs, size_t top, float *logits, size_t vocab,
                    float cap)
{
    double sum;

    cap_row(logits, vocab, cap);
    kvsi_top_ids(ids, top, logits, vocab);
    sum = sum_exp(logits, vocab, logits[ids[0]]);
    for (size_t i = 0; i < top; i++)
        logprobs[i] = -loss_of(logits[ids[i]], logits[ids[0]], sum);
}

void LEVEL(head_top)(kvsi_context *c, const kvsi_head_top *head)
{
    const size_t vocab = head->w->rows, dim = head->w->cols, top = head->top;
    const size_t chunk = chunk_rows(head->count, vocab);
    float *logits = (float *)c->workspace, *x = logits + chunk * vocab;

    for (size_t at = 0; at < head->count; at += chunk) {
        const size_t rows = head->count - at < chunk ? head->count - at : chunk;

        gather(x, head->x, head->rows + at, rows, dim);
        project(c, logits, x, head->w, rows, head->many);
        KVSI_PARALLEL_PIECES(c->threads, r, rows) {
            top_row(head->ids + (at + r) * top, head->logprobs + (at + r) * top, top,
                    logits + r * vocab, vocab, head->cap);
        }
    }
}
