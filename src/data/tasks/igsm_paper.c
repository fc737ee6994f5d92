/* The generator that the paper starts from: parameters of four categories, each drawn with sources
 * among those not drawn yet; the solution computes all of them.
 *
 * The number of operations equals the number of parameters, so any number can be reached by drawing
 * the items of the categories until they add up. */
#include "data/tasks/igsm.h"

enum { CATEGORIES = 4, ITEMS = 10, SOURCES = 3 };

int kvsi_igsm_evaluate(const kvsi_igsm_problem *problem, const kvsi_igsm_parameter *p)
{
    const kvsi_igsm_parameter *all = problem->parameters;
    int value = p->source_count > 0 ? all[p->sources[0]].value : p->constant;

    for (size_t i = 1; i < p->source_count; i++) {
        const int next = all[p->sources[i]].value;

        switch (p->operation) {
        case KVSI_IGSM_PRODUCT:
            value *= next;
            break;
        case KVSI_IGSM_DIFFERENCE:
            value -= next;
            break;
        case KVSI_IGSM_PAIRS: /* at 1, 3, ... the pair is complete; its first was added before */
            value += i % 2 ? all[p->sources[i - 1]].value * (next - 1) : next;
            break;
        default:
            value += next;
        }
        value %= KVSI_IGSM_MODULUS;
    }
    if (p->source_count > 0 && p->joined == KVSI_IGSM_SUM)
        value += p->constant;
    if (p->source_count > 0 && p->joined == KVSI_IGSM_DIFFERENCE)
        value -= p->constant;
    if (p->source_count > 0 && p->joined == KVSI_IGSM_PRODUCT)
        value *= p->constant;
    value %= KVSI_IGSM_MODULUS;
    return value < 0 ? value + KVSI_IGSM_MODULUS : value;
}

void kvsi_igsm_shuffle(uint8_t *list, size_t count, kvsi_random *random)
{
    for (size_t i = count; i > 1; i--) {
        const size_t j = kvsi_random_below(random, (uint32_t)i);
        const uint8_t swapped = list[i - 1];

        list[i - 1] = list[j];
        list[j] = swapped;
    }
}

size_t kvsi_igsm_needed(uint8_t needed[KVSI_IGSM_PARAMETERS_MAX], const kvsi_igsm_problem *problem)
{
    uint8_t marked[KVSI_IGSM_PARAMETERS_MAX] = {0};
    size_t count = 0;

    needed[count++] = (uint8_t)problem->asked;
    marked[problem->asked] = 1;
    for (size_t at = 0; at < count; at++) {
        const kvsi_igsm_parameter *p = &problem->parameters[needed[at]];

        for (size_t i = 0; i < p->source_count; i++)
            if (!marked[p->sources[i]]) {
                marked[p->sources[i]] = 1;
                needed[count++] = p->sources[i];
            }
    }
    return count;
}

/* ---- drawing --------------------------------------------------------------------------------- */

/* Draws the number of items of each category and returns their sum. */
static size_t draw_counts(size_t counts[CATEGORIES], const kvsi_igsm_config *c, kvsi_random *random)
{
    size_t all = 0;

    for (size_t i = 0; i < CATEGORIES; i++) {
        counts[i] = 1 + kvsi_random_below(random, (uint32_t)c->items);
        all += counts[i];
    }
    return all;
}

static void draw_names(kvsi_igsm_problem *out, const size_t counts[CATEGORIES], kvsi_random *random)
{
    out->count = 0;
    for (size_t category = 0; category < CATEGORIES; category++) {
        uint8_t items[ITEMS];

        for (size_t i = 0; i < ITEMS; i++)
            items[i] = (uint8_t)i;
        kvsi_igsm_shuffle(items, ITEMS, random);
        for (size_t i = 0; i < counts[category]; i++)
            out->parameters[out->count++] = (kvsi_igsm_parameter){
                .thing = (int16_t)(category * ITEMS + items[i]), .place = (int16_t)category};
    }
}

static void draw_rule(kvsi_igsm_parameter *p, kvsi_random *random)
{
    static const kvsi_igsm_operation operations[] = {KVSI_IGSM_SUM, KVSI_IGSM_DIFFERENCE,
                                                     KVSI_IGSM_PRODUCT};
    const int constant = 1 + (int)kvsi_random_below(random, KVSI_IGSM_MODULUS - 1);
    const kvsi_igsm_operation drawn = operations[kvsi_random_below(random, 3)];

    p->operation = p->source_count > 1    ? drawn
                   : p->source_count == 1 ? KVSI_IGSM_SUM
                                          : KVSI_IGSM_NOTHING;
    p->joined = p->source_count == 1 ? drawn : KVSI_IGSM_NOTHING;
    p->constant = p->source_count <= 1 ? constant : 0;
}

/* Draws the parameters in turn, into `drawn`; sources are among those left. */
static void draw_graph(kvsi_igsm_problem *out, uint8_t drawn[], kvsi_random *random)
{
    uint8_t pool[KVSI_IGSM_PARAMETERS_MAX];
    size_t left = out->count;

    for (size_t i = 0; i < left; i++)
        pool[i] = (uint8_t)i;
    for (size_t done = 0; left > 0; done++) {
        const size_t at = kvsi_random_below(random, (uint32_t)left);
        kvsi_igsm_parameter *p = &out->parameters[pool[at]];

        drawn[done] = pool[at];
        pool[at] = pool[--left];
        p->source_count =
            kvsi_random_below(random, (uint32_t)(left < SOURCES ? left : SOURCES) + 1);
        for (size_t i = 0; i < p->source_count; i++) { /* without replacement, in random order */
            const size_t j = i + kvsi_random_below(random, (uint32_t)(left - i));
            const uint8_t source = pool[j];

            pool[j] = pool[i];
            pool[i] = source;
            p->sources[i] = source;
        }
        draw_rule(p, random);
    }
}

/* Sources first: depth-first from each root, in drawing order. */
static void solve(kvsi_igsm_problem *out, size_t root, uint8_t done[])
{
    kvsi_igsm_parameter *p = &out->parameters[root];

    if (done[root])
        return;
    done[root] = 1;
    for (size_t i = 0; i < p->source_count; i++)
        solve(out, p->sources[i], done);
    p->value = kvsi_igsm_evaluate(out, p);
    out->solved[out->solved_count++] = (uint8_t)root;
}

void kvsi_igsm_draw_paper(kvsi_igsm_problem *out, const kvsi_igsm_config *c, kvsi_random *random)
{
    uint8_t drawn[KVSI_IGSM_PARAMETERS_MAX], done[KVSI_IGSM_PARAMETERS_MAX] = {0};
    size_t counts[CATEGORIES], all;

    do
        all = draw_counts(counts, c, random);
    while (all < c->min_op || all > c->max_op);
    *out = (kvsi_igsm_problem){.operations = all};
    draw_names(out, counts, random);
    draw_graph(out, drawn, random);
    for (size_t i = 0; i < out->count; i++)
        solve(out, drawn[i], done);
    for (size_t i = 0; i < out->count; i++)
        out->stated[i] = (uint8_t)i;
    out->stated_count = out->count;
    kvsi_igsm_shuffle(out->stated, out->count, random);
    out->asked = kvsi_random_below(random, (uint32_t)out->count);
}
