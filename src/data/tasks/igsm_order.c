/* The middle steps of the official generator: what the solution needs, and in which order. */
#include "data/tasks/igsm_build.h"

#include <math.h>
#include <string.h>

/* ---- 5: what the solution needs -------------------------------------------------------------- */

/* The operations of a parameter and of all below it that are not chosen yet; marks these. */
static size_t cost_with_sources(const kvsi_igsm_builder *b, size_t index, uint8_t *marks)
{
    const kvsi_igsm_parameter *p = &b->problem->parameters[index];
    size_t sum;

    if (b->chosen[index] || marks[index])
        return 0;
    marks[index] = 1;
    sum = b->cost[index];
    for (size_t i = 0; p->is_abstract && i < p->source_count; i++)
        sum += cost_with_sources(b, p->sources[i], marks);
    return sum;
}

static void choose(kvsi_igsm_builder *b, const uint8_t *marks)
{
    for (size_t i = 0; i < b->problem->count; i++)
        b->chosen[i] |= marks[i];
}

/* Chooses up to `count` instance parameters that are not chosen. */
static void choose_instances(kvsi_igsm_builder *b, size_t count)
{
    for (; count > 0; count--) {
        uint8_t free[KVSI_IGSM_PARAMETERS_MAX];
        int found;

        for (size_t i = 0; i < b->problem->count; i++)
            free[i] = !b->chosen[i] && !b->problem->parameters[i].is_abstract;
        found = kvsi_igsm_any_of(b, free, b->problem->count);
        if (found < 0)
            return;
        b->chosen[found] = 1;
    }
}

/* Draws one parameter of each gap within the budget and chooses the deepest. */
static int choose_abstract(kvsi_igsm_builder *b, size_t *budget)
{
    uint8_t best[KVSI_IGSM_PARAMETERS_MAX];
    size_t best_price = 0;

    for (size_t gap = 1; gap < b->layers; gap++) {
        uint8_t free[KVSI_IGSM_PARAMETERS_MAX], marks[KVSI_IGSM_PARAMETERS_MAX] = {0};
        size_t cost;
        int found;

        for (size_t i = 0; i < b->problem->count; i++)
            free[i] = b->gap[i] == gap && !b->chosen[i];
        found = kvsi_igsm_any_of(b, free, b->problem->count);
        if (found < 0)
            continue;
        cost = cost_with_sources(b, (size_t)found, marks);
        if (cost > *budget)
            break;
        best_price = cost;
        memcpy(best, marks, sizeof best);
    }
    if (best_price == 0)
        return 0;
    choose(b, best);
    *budget -= best_price;
    return 1;
}

/* The operations of all parameters, except those that are 0 because there are no things. */
static size_t all_operations(const kvsi_igsm_builder *b)
{
    size_t all = 0;

    for (size_t i = 0; i < b->problem->count; i++)
        all += b->problem->parameters[i].is_abstract && b->problem->parameters[i].source_count == 0
                   ? 0
                   : b->cost[i];
    return all;
}

void kvsi_igsm_choose_necessary(kvsi_igsm_builder *b)
{
    const size_t all = all_operations(b);
    const size_t first = b->abstract_budget < all ? b->abstract_budget : all;
    size_t budget = first;

    while (budget > 0 && choose_abstract(b, &budget))
        ;
    choose_instances(b, budget + b->necessary - first);
}

/* ---- 6: order -------------------------------------------------------------------------------- */

typedef struct ordering {
    uint8_t placed[KVSI_IGSM_PARAMETERS_MAX];
    uint8_t cited[KVSI_IGSM_PARAMETERS_MAX];  /* a source of a placed parameter */
    size_t pending[KVSI_IGSM_PARAMETERS_MAX]; /* number of unplaced parameters with this source */
    double p0, p1;                            /* of the official generator */
} ordering;

/* Chosen, not placed, and not a source of an unplaced parameter. */
static int is_sink(const kvsi_igsm_builder *b, const ordering *o, size_t i)
{
    return b->chosen[i] && !o->placed[i] && o->pending[i] == 0;
}

static int pick_next(kvsi_igsm_builder *b, const ordering *o, int first)
{
    uint8_t candidates[KVSI_IGSM_PARAMETERS_MAX];

    for (size_t i = 0; i < b->problem->count; i++)
        candidates[i] = is_sink(b, o, i) && (first || o->cited[i]);
    return kvsi_igsm_any_of(b, candidates, b->problem->count);
}

static int has_cited_sink(const kvsi_igsm_builder *b, const ordering *o)
{
    for (size_t i = 0; i < b->problem->count; i++)
        if (is_sink(b, o, i) && o->cited[i])
            return 1;
    return 0;
}

/* Adds a source to an instance parameter from those not placed; returns 0 if it needs one and there
 * is none. */
static int add_source(kvsi_igsm_builder *b, ordering *o, size_t index)
{
    kvsi_igsm_parameter *all = b->problem->parameters;
    const int must = !has_cited_sink(b, o);
    double weights[KVSI_IGSM_PARAMETERS_MAX];
    size_t found;

    if (!must && kvsi_random_uniform(b->random) >= o->p0)
        return 1;
    for (size_t i = 0; i < b->problem->count; i++) {
        const int fits = b->chosen[i] && !o->placed[i] && (!must || o->pending[i] == 0);

        weights[i] = fits ? exp(o->p1 * (all[i].is_abstract ? 1 : 0) + o->p1 * !o->cited[i]) : 0;
    }
    found = kvsi_igsm_weighted(b, weights, b->problem->count);
    if (found == b->problem->count)
        return !must;
    all[index].sources[all[index].source_count++] = (uint8_t)found;
    o->cited[found] = 1;
    return 1;
}

static size_t chosen_count(const kvsi_igsm_builder *b)
{
    size_t count = 0;

    for (size_t i = 0; i < b->problem->count; i++)
        count += b->chosen[i];
    return count;
}

/* Places parameters from the last, the asked one, to the first. */
int kvsi_igsm_draw_order(kvsi_igsm_builder *b)
{
    kvsi_igsm_problem *p = b->problem;
    ordering o = {.p0 = kvsi_random_uniform(b->random), .p1 = fabs(kvsi_random_normal(b->random))};
    const size_t all = chosen_count(b);

    for (size_t i = 0; i < p->count; i++)
        for (size_t s = 0; b->chosen[i] && s < p->parameters[i].source_count; s++)
            o.pending[p->parameters[i].sources[s]]++;
    p->solved_count = all;
    for (size_t at = all; at-- > 0;) {
        const int next = pick_next(b, &o, at + 1 == all);
        kvsi_igsm_parameter *chosen;

        if (next < 0)
            return 0;
        chosen = &p->parameters[next];
        o.placed[next] = 1;
        p->solved[at] = (uint8_t)next;
        for (size_t s = 0; s < chosen->source_count; s++) {
            o.cited[chosen->sources[s]] = 1;
            o.pending[chosen->sources[s]]--;
        }
        if (!chosen->is_abstract && at > 0 && !add_source(b, &o, (size_t)next))
            return 0;
    }
    p->asked = p->solved[all - 1];
    return 1;
}
