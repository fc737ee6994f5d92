/* The first steps of the official generator: sizes, a structure of nested things, their names and
 * parameters. */
#include "data/tasks/igsm_build.h"

#include <math.h>
#include <string.h>

/* ---- random choices -------------------------------------------------------------------------- */

size_t kvsi_igsm_between(kvsi_igsm_builder *b, size_t low, size_t high)
{
    return low + kvsi_random_below(b->random, (uint32_t)(high - low + 1));
}

static size_t lower_of_two(kvsi_igsm_builder *b, size_t low, size_t high)
{
    const size_t x = kvsi_igsm_between(b, low, high), y = kvsi_igsm_between(b, low, high);

    return x < y ? x : y;
}

static size_t higher_of_two(kvsi_igsm_builder *b, size_t low, size_t high)
{
    const size_t x = kvsi_igsm_between(b, low, high), y = kvsi_igsm_between(b, low, high);

    return x > y ? x : y;
}

int kvsi_igsm_coin(kvsi_igsm_builder *b)
{
    return (int)kvsi_random_below(b->random, 2);
}

size_t kvsi_igsm_weighted(kvsi_igsm_builder *b, const double *weights, size_t count)
{
    double sum = 0, u;

    for (size_t i = 0; i < count; i++)
        sum += weights[i];
    u = sum * kvsi_random_uniform(b->random);
    for (size_t i = 0; i < count; i++) {
        if (weights[i] > 0 && u < weights[i])
            return i;
        u -= weights[i];
    }
    for (size_t i = count; i-- > 0;) /* only after rounding */
        if (weights[i] > 0)
            return i;
    return count;
}

int kvsi_igsm_any_of(kvsi_igsm_builder *b, const uint8_t *marks, size_t count)
{
    double weights[KVSI_IGSM_PARAMETERS_MAX];
    size_t found;

    for (size_t i = 0; i < count; i++)
        weights[i] = marks[i] ? 1 : 0;
    found = kvsi_igsm_weighted(b, weights, count);
    return found == count ? -1 : (int)found;
}

/* ---- 1: sizes -------------------------------------------------------------------------------- */

/* 2, 3 or 4; larger problems tend to larger sizes. */
static size_t draw_size(kvsi_igsm_builder *b)
{
    const double r = (double)(b->size - 1) / (double)(b->edges_max - 1);
    double weights[3];

    for (size_t i = 0; i < 3; i++) {
        const double off = r - (0.2 + 0.3 * (double)i);

        weights[i] = exp(-off * off);
    }
    return 2 + kvsi_igsm_weighted(b, weights, 3);
}

static size_t clamp(size_t x, size_t low, size_t high)
{
    return x < low ? low : x > high ? high : x;
}

size_t kvsi_igsm_draw_wanted(const kvsi_igsm_config *c, kvsi_random *random)
{
    kvsi_igsm_builder b = {.random = random};
    size_t wanted;

    if (c->min_op == c->max_op)
        return c->max_op;
    do
        wanted = lower_of_two(&b, 1, c->max_op);
    while (wanted < c->min_op);
    return wanted;
}

void kvsi_igsm_draw_sizes(kvsi_igsm_builder *b, const kvsi_igsm_config *c)
{
    size_t one, other, least;

    b->size = c->min_op == c->max_op ? c->max_op : lower_of_two(b, 1, c->max_op);
    b->node_probability = kvsi_random_uniform(b->random);
    b->abstract_budget = higher_of_two(b, 1, b->size);
    b->necessary = kvsi_igsm_between(b, b->abstract_budget, b->size);
    b->layers = draw_size(b);
    one = draw_size(b);
    other = draw_size(b);
    b->narrow = one < other ? one : other;
    b->wide = one < other ? other : one;
    least = (b->layers - 1) * b->narrow;
    b->edges =
        clamp(lower_of_two(b, least, b->edges_max), least, (b->layers - 1) * b->wide * b->wide);
}

/* ---- 2: structure ---------------------------------------------------------------------------- */

static size_t capacity(const kvsi_igsm_builder *b)
{
    size_t all = 0;

    for (size_t l = 0; l + 1 < b->layers; l++)
        all += b->width[l] * b->width[l + 1];
    return all;
}

static size_t inner_nodes(const kvsi_igsm_builder *b)
{
    size_t all = 0;

    for (size_t l = 1; l < b->layers; l++)
        all += b->width[l];
    return all;
}

/* Returns 0 if all layers have their maximum width. */
static int add_node(kvsi_igsm_builder *b)
{
    uint8_t growable[KVSI_IGSM_LAYERS_MAX];
    int layer;

    for (size_t l = 0; l < b->layers; l++)
        growable[l] = b->width[l] < b->wide;
    layer = kvsi_igsm_any_of(b, growable, b->layers);
    if (layer >= 0)
        b->width[layer]++;
    return layer >= 0;
}

static void draw_widths(kvsi_igsm_builder *b)
{
    for (size_t l = 0; l < b->layers; l++)
        b->width[l] = b->narrow;
    for (;;) {
        if (capacity(b) < b->edges) {
            if (!add_node(b))
                return;
        } else if (inner_nodes(b) == b->edges ||
                   kvsi_random_uniform(b->random) >= b->node_probability || !add_node(b)) {
            return;
        }
    }
}

static int new_parameter(kvsi_igsm_builder *b, int16_t thing, int16_t place, int is_abstract)
{
    kvsi_igsm_problem *p = b->problem;

    p->parameters[p->count] =
        (kvsi_igsm_parameter){.thing = thing, .place = place, .is_abstract = is_abstract};
    return (int)p->count++;
}

typedef struct names {
    size_t chain, first;                                   /* the range of categories */
    int16_t of[KVSI_IGSM_LAYERS_MAX][KVSI_IGSM_WIDTH_MAX]; /* of nodes */
    int16_t category[KVSI_IGSM_LAYERS_MAX];
} names;

static void draw_names(kvsi_igsm_builder *b, names *n)
{
    n->chain = kvsi_random_below(b->random, KVSI_IGSM_CHAINS);
    n->first = kvsi_random_below(b->random, (uint32_t)(KVSI_IGSM_CATEGORIES - b->layers + 1));
    for (size_t l = 0; l < b->layers; l++) {
        const size_t list = kvsi_random_below(b->random, KVSI_IGSM_LISTS);
        uint8_t order[KVSI_IGSM_NAMES];

        for (size_t i = 0; i < KVSI_IGSM_NAMES; i++)
            order[i] = (uint8_t)i;
        kvsi_igsm_shuffle(order, KVSI_IGSM_NAMES, b->random);
        n->category[l] = kvsi_igsm_category(n->chain, n->first + l);
        for (size_t i = 0; i < b->width[l]; i++)
            n->of[l][i] = kvsi_igsm_name(n->chain, n->first + l, list, order[i]);
    }
}

static void add_edge(kvsi_igsm_builder *b, const names *n, size_t l, size_t parent, size_t child)
{
    const int made = new_parameter(b, n->of[l + 1][child], n->of[l][parent], 0);

    b->edge[l][parent][child] = made;
    b->cost[made] = 1;
}

/* Draws a parent for every node, then random pairs until there are enough edges. */
static void draw_edges(kvsi_igsm_builder *b, const names *n)
{
    size_t left = b->edges > inner_nodes(b) ? b->edges - inner_nodes(b) : 0;

    memset(b->edge, -1, sizeof b->edge);
    for (size_t l = 0; l + 1 < b->layers; l++)
        for (size_t child = 0; child < b->width[l + 1]; child++)
            add_edge(b, n, l, kvsi_random_below(b->random, (uint32_t)b->width[l]), child);
    for (; left > 0; left--) {
        uint8_t missing[KVSI_IGSM_LAYERS_MAX * KVSI_IGSM_WIDTH_MAX * KVSI_IGSM_WIDTH_MAX] = {0};
        int at;

        for (size_t l = 0; l + 1 < b->layers; l++)
            for (size_t i = 0; i < b->width[l]; i++)
                for (size_t j = 0; j < b->width[l + 1]; j++)
                    missing[(l * KVSI_IGSM_WIDTH_MAX + i) * KVSI_IGSM_WIDTH_MAX + j] =
                        b->edge[l][i][j] < 0;
        at = kvsi_igsm_any_of(b, missing, sizeof missing);
        if (at < 0)
            return;
        add_edge(b, n, (size_t)at / KVSI_IGSM_WIDTH_MAX / KVSI_IGSM_WIDTH_MAX,
                 (size_t)at / KVSI_IGSM_WIDTH_MAX % KVSI_IGSM_WIDTH_MAX,
                 (size_t)at % KVSI_IGSM_WIDTH_MAX);
    }
}

/* ---- 4: abstract parameters ------------------------------------------------------------------ */

/* The parameter of node i of layer l for the things of layer `below`.  If there are none it is 0,
 * which is a step like others. */
static void add_abstract(kvsi_igsm_builder *b, const names *n, size_t l, size_t i, size_t below)
{
    const int index = new_parameter(b, n->category[below], n->of[l][i], 1);
    kvsi_igsm_parameter *made = &b->problem->parameters[index];
    const int direct = below == l + 1;
    size_t operations;

    for (size_t j = 0; j < b->width[l + 1]; j++) {
        if (b->edge[l][i][j] < 0)
            continue;
        made->sources[made->source_count++] = (uint8_t)b->edge[l][i][j];
        if (!direct)
            made->sources[made->source_count++] = (uint8_t)b->abstract[l + 1][j][below];
    }
    made->operation = direct ? KVSI_IGSM_SUM : KVSI_IGSM_PAIRS;
    operations = made->source_count > 1 ? made->source_count - 1 : 1;
    b->abstract[l][i][below] = index;
    b->cost[index] = operations;
    b->gap[index] = below - l;
}

static void add_abstracts(kvsi_igsm_builder *b, const names *n)
{
    for (size_t l = b->layers - 1; l-- > 0;) /* deeper ones first: others are computed from them */
        for (size_t i = 0; i < b->width[l]; i++)
            for (size_t below = l + 1; below < b->layers; below++)
                add_abstract(b, n, l, i, below);
}

void kvsi_igsm_draw_structure(kvsi_igsm_builder *b)
{
    names n;

    draw_widths(b);
    draw_names(b, &n);
    draw_edges(b, &n);
    add_abstracts(b, &n);
}
