#include "kernels/ref/ref.h"

#include <math.h>
#include <string.h>

void kvsi_ref_head_logits(kvsi_context *c, real *logits, const real *x, const kvsi_matrix *w,
                          const int32_t *rows, size_t count)
{
    for (size_t r = 0; r < count; r++)
        kvsi_ref_linear_forward(c, logits + r * w->rows, x + (size_t)rows[r] * w->cols, w, 1, NULL);
}

/* Turns logits into probabilities; returns log(sum(exp(logits))). */
static double softmax(real *logits, size_t vocab, int32_t *guess)
{
    size_t best = 0;
    double sum = 0, logsum;

    for (size_t v = 1; v < vocab; v++)
        if (logits[v] > logits[best])
            best = v;
    *guess = (int32_t)best;
    for (size_t v = 0; v < vocab; v++)
        sum += exp((double)logits[v] - (double)logits[best]);
    logsum = (double)logits[best] + log(sum);
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

        kvsi_ref_linear_forward(c, logits, x, w, 1, NULL);
        answer = (double)logits[target];
        head->row_loss[r] = (real)(softmax(logits, w->rows, &head->row_guess[r]) - answer);
        if (!head->d_x)
            continue;
        logits[target] -= 1;
        kvsi_ref_linear_backward_input(c, head->d_x + (size_t)head->rows[r] * w->cols, logits, w,
                                       1);
        kvsi_ref_linear_backward_weight(c, head->d_w, logits, x, 1, w->rows, w->cols);
    }
}
