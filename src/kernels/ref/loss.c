#include "kernels/ref/ref.h"
#include "kernels/top.h"

#include <math.h>
#include <string.h>

static void project(kvsi_context *c, real *logits, const real *x, const kvsi_matrix *w, real cap)
{
    if (w->data)
        kvsi_ref_linear_forward(c, logits, x, w, 1, NULL);
    else
        memcpy(logits, x, w->cols * sizeof *logits);
    for (size_t v = 0; cap > 0 && v < w->rows; v++)
        logits[v] = (real)((double)cap * tanh((double)logits[v] / (double)cap));
}

static void project_backward(kvsi_context *c, const kvsi_head *h, real *d_x, const real *d_logits,
                             const real *x)
{
    if (!h->w->data) {
        memcpy(d_x, d_logits, h->w->cols * sizeof *d_x);
        return;
    }
    kvsi_ref_linear_backward_input(c, d_x, d_logits, h->w, 1, 0);
    if (h->d_w)
        kvsi_ref_linear_backward_weight(c, h->d_w, d_logits, x, 1, h->w->rows, h->w->cols,
                                        h->w->rows);
}

void kvsi_ref_head_logits(kvsi_context *c, real *logits, const real *x, const kvsi_matrix *w,
                          const int32_t *rows, size_t count, real cap)
{
    for (size_t r = 0; r < count; r++)
        project(c, logits + r * w->rows, x + (size_t)rows[r] * w->cols, w, cap);
}

/* Returns log(sum(exp(logits))); logits[best] is the greatest logit. */
static double log_sum(const real *logits, size_t vocab, size_t best)
{
    double sum = 0;

    for (size_t v = 0; v < vocab; v++)
        sum += exp((double)logits[v] - (double)logits[best]);
    return (double)logits[best] + log(sum);
}

/* Turns logits into the gradient of the loss by what was capped: (p - [v is the target]) times the
 * derivative of cap * tanh(x / cap), 1 - (logit / cap)^2. */
static void turn_into_gradient(real *logits, size_t vocab, size_t target, double logsum, real cap)
{
    for (size_t v = 0; v < vocab; v++) {
        const double t = cap > 0 ? (double)logits[v] / (double)cap : 0;
        const double p = exp((double)logits[v] - logsum);

        logits[v] = (real)((p - (v == target)) * (1 - t * t));
    }
}

/* Returns log(sum(exp(logits))) and the best one. */
static double find_best(const real *logits, size_t vocab, int32_t *guess)
{
    size_t best = 0;

    for (size_t v = 1; v < vocab; v++)
        if (logits[v] > logits[best])
            best = v;
    *guess = (int32_t)best;
    return log_sum(logits, vocab, best);
}

void kvsi_ref_head_loss(kvsi_context *c, const kvsi_head *head)
{
    const kvsi_matrix *w = head->w;
    real *logits = (real *)c->workspace; /* [vocab], then their gradient */

    if (head->d_x)
        memset(head->d_x, 0, head->n * w->cols * sizeof *head->d_x);
    for (size_t r = 0; r < head->count; r++) {
        const real *x = head->x + (size_t)head->rows[r] * w->cols;
        const size_t target = (size_t)head->targets[r];
        double logsum;

        project(c, logits, x, w, head->cap);
        logsum = find_best(logits, w->rows, &head->row_guess[r]);
        head->row_loss[r] = (real)(logsum - (double)logits[target]);
        if (!head->d_x)
            continue;
        turn_into_gradient(logits, w->rows, target, logsum, head->cap);
        project_backward(c, head, head->d_x + (size_t)head->rows[r] * w->cols, logits, x);
    }
}

void kvsi_ref_head_top(kvsi_context *c, const kvsi_head_top *head)
{
    const kvsi_matrix *w = head->w;
    real *logits = (real *)c->workspace;

    for (size_t r = 0; r < head->count; r++) {
        int32_t *ids = head->ids + r * head->top;
        real *logprobs = head->logprobs + r * head->top;
        double logsum;

        project(c, logits, head->x + (size_t)head->rows[r] * w->cols, w, head->cap);
        kvsi_top_ids(ids, head->top, logits, w->rows);
        logsum = log_sum(logits, w->rows, (size_t)ids[0]);
        for (size_t i = 0; i < head->top; i++)
            logprobs[i] = -(real)(logsum - (double)logits[ids[i]]);
    }
}
