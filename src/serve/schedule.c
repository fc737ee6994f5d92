#include "serve/schedule.h"

/* Tokens of prompts in the first slice, before anything was measured, and in the smallest one: a
 * few tokens more hardly change the duration of a pass, and measurements of fewer are mostly
 * noise. */
enum { FIRST_SLICE = 16, LEAST_SLICE = 8 };

/* The share of a new measurement in the running mean. */
static const double weight = 0.3;

static void mix(double *mean, double value)
{
    *mean = *mean == 0 ? value : (1 - weight) * *mean + weight * value;
}

void kvsi_costs_note(kvsi_costs *costs, double seconds, size_t decoding, size_t tokens)
{
    if (tokens == 0) {
        if (decoding > 0)
            mix(&costs->pass, seconds);
        return;
    }
    if (decoding > 0 && seconds > costs->pass)
        seconds -= costs->pass;
    mix(&costs->token, seconds / (double)tokens);
    costs->tokens = tokens;
}

/* A token costs less in a larger pass, so a small slice overestimates the next one, which may then
 * be twice as large at most. */
size_t kvsi_costs_slice(const kvsi_costs *costs, double slice_seconds)
{
    size_t most = costs->tokens < FIRST_SLICE ? FIRST_SLICE : 2 * costs->tokens;
    double fits;

    if (costs->token <= 0)
        return FIRST_SLICE;
    fits = slice_seconds / costs->token;
    if (fits < (double)most)
        most = (size_t)fits;
    return most > LEAST_SLICE ? most : LEAST_SLICE;
}

static size_t take(kvsi_waiting_prompt *prompt, size_t tokens)
{
    const size_t left = prompt->left - prompt->now;
    const size_t taken = left < tokens ? left : tokens;

    prompt->now += taken;
    return taken;
}

/* Whether prompt a comes before prompt b among those with tokens left. */
static int is_shorter(const kvsi_waiting_prompt *a, const kvsi_waiting_prompt *b)
{
    return a->left != b->left ? a->left < b->left : a->arrival < b->arrival;
}

void kvsi_divide_slice(kvsi_waiting_prompt *prompts, size_t count, size_t tokens)
{
    kvsi_waiting_prompt *first = NULL;

    for (size_t i = 0; i < count; i++) {
        prompts[i].now = 0;
        if (prompts[i].left > 0 && (!first || prompts[i].arrival < first->arrival))
            first = &prompts[i];
    }
    if (first)
        tokens -= take(first, tokens - tokens / 2);
    while (tokens > 0) {
        kvsi_waiting_prompt *next = NULL;

        for (size_t i = 0; i < count; i++)
            if (prompts[i].now < prompts[i].left && (!next || is_shorter(&prompts[i], next)))
                next = &prompts[i];
        if (!next)
            return;
        tokens -= take(next, tokens);
    }
}
