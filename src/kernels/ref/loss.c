#include "kernels/ref/ref.h"
#include "kernels/top.h"

#include <math.h>
#include <string.h>

static void project(kvsi_context *c, real *logits, const real *x, const kvsi_matrix *w)
{
    if (w->data)
        kvsi_ref_linear_forward(c, logits, x, w, 1, NULL);
    else
        memcpy(logits, x, w->cols * sizeof *logits);
}

static void project_backward(kvsi_context *c, const kvsi_head *h, real *d_x, const real *d_logits,
                             const real *x)
{
    if (!h->w->data) {
        memcpy(d_x, d_logits, h->w->cols * sizeof *d_x);
        return;
    }
    kvsi_ref_linear_backward_input(c, d_x, d_logits, h->w, 1, 0);
    kvsi_ref_linear_backward_weight(c, h->d_w, d_logits, x, 1, h->w->rows, h->w->cols);
}

void kvsi_ref_head_logits(kvsi_context *c, real *logits, const real *x, const kvsi_matrix *w,
                          const int32_t *rows, size_t count)
{
    for (size_t r = 0; r < count; r++)
        project(c, logits + r * w->rows, x + (size_t)rows[r] * w->cols, w);
}

/* Returns log(sum(exp(logits))); logits[best] is the greatest logit. */
static double log_sum(const real *logits, size_t vocab, size_t best)
{
    double sum = 0;

    for (size_t v = 0; v < vocab; v++)
        sum += exp((double)logits[v] - (double)logits[best]);
    return (double)logits[best] + log(sum);
}

/* Turns logits into probabilities; returns log(sum(exp(logits))). */
static double softmax(real *logits, size_t vocab, int32_t *guess)
{
    size_t best = 0;
    double logsum;

    for (size_t v = 1; v < vocab; v++)
        if (logits[v] > logits[best])
            best = v;
    *guess = (int32_t)best;
    logsum = log_sum(logits, vocab, best);
    for (size_t v = 0; v < vocab; v++)
        logits[v] = (real)exp((double)logits[v] - logsum);
    return logsum;
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
        double answer;

        project(c, logits, x, w);
        answer = (double)logits[target];
        head->row_loss[r] = (real)(softmax(logits, w->rows, &head->row_guess[r]) - answer);
        if (!head->d_x)
            continue;
        logits[target] -= 1;
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

        project(c, logits, head->x + (size_t)head->rows[r] * w->cols, w);
        kvsi_top_ids(ids, head->top, logits, w->rows);
        logsum = log_sum(logits, w->rows, (size_t)ids[0]);
        for (size_t i = 0; i < head->top; i++)
            logprobs[i] = -(real)(logsum - (double)logits[ids[i]]);
    }
}
