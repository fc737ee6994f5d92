/* The official generator (Ye et al.), in steps: sizes, a structure of nested things, its
 * parameters, those that the solution needs, their order, their sources, distractors, values.
 * Everything is drawn again until the number of operations is right.
 *
 * An instance parameter is the number of one thing in each of another; it has a sentence.  An
 * abstract parameter is the number of things of a category in each of another; it follows from the
 * structure and has no sentence. */
#include "data/tasks/igsm_build.h"

#include <string.h>

enum {
    SOURCES_MAX = 4, /* of an instance parameter, including the random number */
    SPLITS = 23,     /* number of classes of solutions */
    TRAINED = 16,    /* number of classes used for training */
    TRIES = 1000,    /* structures of the same sizes, until one has an order */
};

/* ---- 7: sources of the necessary parameters -------------------------------------------------- */

static size_t max_extras(size_t at)
{
    const size_t most = at + 1 < SOURCES_MAX ? at + 1 : SOURCES_MAX;

    return most > 2 ? most - 2 : 0;
}

static void spread_extras(kvsi_igsm_builder *b, size_t extras[KVSI_IGSM_PARAMETERS_MAX])
{
    const kvsi_igsm_problem *p = b->problem;
    size_t spent = 0;

    for (size_t at = 0; at < p->solved_count; at++)
        spent += b->cost[p->solved[at]];
    for (; spent < b->size; spent++) {
        uint8_t free_slots[KVSI_IGSM_PARAMETERS_MAX];
        int at;

        for (size_t i = 0; i < p->solved_count; i++)
            free_slots[i] = !p->parameters[p->solved[i]].is_abstract && extras[i] < max_extras(i);
        at = kvsi_igsm_any_of(b, free_slots, p->solved_count);
        if (at < 0)
            return;
        extras[at]++;
    }
}

static int has_source(const kvsi_igsm_parameter *p, size_t source)
{
    for (size_t i = 0; i < p->source_count; i++)
        if (p->sources[i] == source)
            return 1;
    return 0;
}

/* Fills up to `count` sources from `pool`; the random number may be one more. */
static void fill_sources(kvsi_igsm_builder *b, size_t index, size_t count, const uint8_t *pool,
                         size_t size, int surely_number)
{
    kvsi_igsm_parameter *p = &b->problem->parameters[index];
    int number = surely_number || (p->source_count < count && kvsi_igsm_coin(b));

    while (p->source_count + (size_t)number < count) {
        double weights[KVSI_IGSM_PARAMETERS_MAX + 1];
        size_t found;

        for (size_t i = 0; i < size; i++)
            weights[i] = has_source(p, pool[i]) ? 0 : 1;
        weights[size] = number ? 0 : 1;
        found = kvsi_igsm_weighted(b, weights, size + 1);
        if (found > size)
            break;
        if (found == size)
            number = 1;
        else
            p->sources[p->source_count++] = pool[found];
    }
    b->has_number[index] = (uint8_t)number;
}

static void draw_sources(kvsi_igsm_builder *b)
{
    const kvsi_igsm_problem *p = b->problem;
    size_t extras[KVSI_IGSM_PARAMETERS_MAX] = {0};

    spread_extras(b, extras);
    for (size_t at = 0; at < p->solved_count; at++) {
        const size_t index = p->solved[at], pool = at + 1;
        const size_t most = pool < SOURCES_MAX ? pool : SOURCES_MAX;
        size_t count = extras[at] > 0 ? extras[at] + 2 : 1 + (size_t)kvsi_igsm_coin(b);

        b->known[index] = 1;
        if (p->parameters[index].is_abstract)
            continue;
        count = count < most ? count : most;
        fill_sources(b, index, count, p->solved, at, count == pool);
    }
}

/* ---- 8: distractors -------------------------------------------------------------------------- */

/* Marks abstract parameters whose sources are all known as known. */
static void derive(kvsi_igsm_builder *b)
{
    const kvsi_igsm_problem *p = b->problem;

    for (size_t i = 0; i < p->count; i++) { /* parameters come after their sources */
        int derivable = p->parameters[i].is_abstract;

        for (size_t s = 0; s < p->parameters[i].source_count; s++)
            derivable &= b->known[p->parameters[i].sources[s]];
        b->known[i] |= (uint8_t)derivable;
    }
}

static size_t run_of_coins(kvsi_igsm_builder *b)
{
    size_t count = 1;

    while (count < SOURCES_MAX && kvsi_igsm_coin(b))
        count++;
    return count;
}

static void add_distractors(kvsi_igsm_builder *b)
{
    kvsi_igsm_problem *p = b->problem;
    uint8_t order[KVSI_IGSM_PARAMETERS_MAX], alone[KVSI_IGSM_PARAMETERS_MAX];
    size_t count = 0, alone_count = 0;

    for (size_t i = 0; i < p->count; i++)
        if (!p->parameters[i].is_abstract && !b->chosen[i])
            order[count++] = (uint8_t)i;
    kvsi_igsm_shuffle(order, count, b->random);
    for (size_t at = 0; at < count; at++) {
        uint8_t known[KVSI_IGSM_PARAMETERS_MAX];
        const int independent = kvsi_igsm_coin(b);
        size_t pool = 0, wanted;

        derive(b);
        for (size_t i = 0; i < p->count; i++)
            if (b->known[i])
                known[pool++] = (uint8_t)i;
        pool = independent ? alone_count : pool;
        wanted = run_of_coins(b);
        wanted = wanted < pool + 1 ? wanted : pool + 1;
        fill_sources(b, order[at], wanted, independent ? alone : known, pool, wanted == pool + 1);
        b->known[order[at]] = 1;
        if (independent)
            alone[alone_count++] = order[at];
    }
}

/* ---- 9: values ------------------------------------------------------------------------------- */

static void draw_rule(kvsi_igsm_builder *b, size_t index)
{
    kvsi_igsm_parameter *p = &b->problem->parameters[index];

    if (p->is_abstract)
        return;
    kvsi_igsm_shuffle(p->sources, p->source_count, b->random);
    p->operation = p->source_count == 0                        ? KVSI_IGSM_NOTHING
                   : p->source_count == 2 && kvsi_igsm_coin(b) ? KVSI_IGSM_DIFFERENCE
                                                               : KVSI_IGSM_SUM;
    p->joined = KVSI_IGSM_NOTHING;
    if (!b->has_number[index])
        return;
    if (p->source_count > 0)
        p->joined = kvsi_igsm_coin(b) ? KVSI_IGSM_SUM : KVSI_IGSM_PRODUCT;
    p->constant = p->joined == KVSI_IGSM_PRODUCT
                      ? (int)kvsi_igsm_between(b, 1, KVSI_IGSM_MODULUS - 1)
                      : (int)kvsi_igsm_between(b, 0, KVSI_IGSM_MODULUS - 1);
}

static size_t operations_of(const kvsi_igsm_builder *b, size_t index)
{
    const kvsi_igsm_parameter *p = &b->problem->parameters[index];
    const size_t sources = p->source_count + b->has_number[index];

    return p->is_abstract ? b->cost[index] : sources > 2 ? sources - 1 : 1;
}

/* ---- 10: the split --------------------------------------------------------------------------- */

/* A hash of the names, sources and operations of the steps, not of their numbers.  Without the
 * names, short solutions would have so few forms that whole kinds would be in one split. */
static uint64_t form_of(const kvsi_igsm_builder *b)
{
    const kvsi_igsm_problem *p = b->problem;
    uint8_t place[KVSI_IGSM_PARAMETERS_MAX] = {0};
    uint64_t hash = 14695981039346656037U;

    for (size_t at = 0; at < p->solved_count; at++) {
        const kvsi_igsm_parameter *q = &p->parameters[p->solved[at]];
        const uint64_t head[] = {(uint64_t)q->thing, (uint64_t)q->place,
                                 q->source_count,    q->operation,
                                 q->joined,          b->has_number[p->solved[at]]};

        place[p->solved[at]] = (uint8_t)at;
        for (size_t i = 0; i < sizeof head / sizeof *head; i++)
            hash = (hash ^ head[i]) * 1099511628211U;
        for (size_t i = 0; i < q->source_count; i++)
            hash = (hash ^ (64U + place[q->sources[i]])) * 1099511628211U;
    }
    return hash;
}

static int is_on_side(const kvsi_igsm_builder *b, int split)
{
    const int trained = form_of(b) % SPLITS < TRAINED;

    return split == 0 ? trained : !trained;
}

/* ---- generation ------------------------------------------------------------------------------ */

/* Evaluates parameters after their sources: repeats until nothing changes. */
static void evaluate_all(kvsi_igsm_builder *b)
{
    kvsi_igsm_problem *p = b->problem;
    uint8_t done[KVSI_IGSM_PARAMETERS_MAX] = {0};
    int again = 1;

    while (again) {
        again = 0;
        for (size_t i = 0; i < p->count; i++) {
            int ready = !done[i] && b->known[i];

            for (size_t s = 0; s < p->parameters[i].source_count; s++)
                ready &= done[p->parameters[i].sources[s]];
            if (!ready)
                continue;
            p->parameters[i].value = kvsi_igsm_evaluate(p, &p->parameters[i]);
            done[i] = 1;
            again = 1;
        }
    }
}

/* Draws a structure of the builder's sizes and an order of the chosen parameters; 0 = none. */
static int draw_graph(kvsi_igsm_builder *b)
{
    *b->problem = (kvsi_igsm_problem){.layers = b->layers};
    memset(b->chosen, 0, sizeof b->chosen);
    memset(b->known, 0, sizeof b->known);
    memset(b->gap, 0, sizeof b->gap);
    kvsi_igsm_draw_structure(b);
    kvsi_igsm_choose_necessary(b);
    return kvsi_igsm_draw_order(b);
}

/* Draws sizes, and structures of these sizes until one has an order. */
static void draw_attempt(kvsi_igsm_builder *b, const kvsi_igsm_config *c)
{
    kvsi_igsm_problem *p = b->problem;

    do {
        kvsi_igsm_draw_sizes(b, c);
        for (size_t i = 0; i < TRIES && !draw_graph(b); i++)
            p->solved_count = 0;
    } while (p->solved_count == 0);
    draw_sources(b);
    for (size_t at = 0; at < p->solved_count; at++)
        p->operations += operations_of(b, p->solved[at]);
}

void kvsi_igsm_draw_official(kvsi_igsm_problem *out, const kvsi_igsm_config *c, int split,
                             kvsi_random *random)
{
    const size_t wanted = kvsi_igsm_draw_wanted(c, random);
    kvsi_igsm_builder b;

    for (;;) {
        b = (kvsi_igsm_builder){.random = random, .problem = out, .edges_max = c->edges};
        draw_attempt(&b, c);
        if (out->operations != wanted)
            continue;
        add_distractors(&b);
        for (size_t i = 0; i < out->count; i++)
            draw_rule(&b, i);
        if (is_on_side(&b, split))
            break;
    }
    derive(&b);
    evaluate_all(&b);
    for (size_t i = 0; i < out->count; i++)
        if (!out->parameters[i].is_abstract)
            out->stated[out->stated_count++] = (uint8_t)i;
    kvsi_igsm_shuffle(out->stated, out->stated_count, random);
    out->letters_seed = kvsi_random_word(random);
}
