/* data/tasks/igsm_build.h - shared by the steps of the official generator. */
#ifndef KVSI_DATA_TASKS_IGSM_BUILD_H
#define KVSI_DATA_TASKS_IGSM_BUILD_H

#include "data/tasks/igsm.h"

enum {
    KVSI_IGSM_LAYERS_MAX = 4,
    KVSI_IGSM_WIDTH_MAX = 4,
};

typedef struct kvsi_igsm_builder {
    kvsi_random *random;
    kvsi_igsm_problem *problem;
    size_t edges_max;
    size_t size, abstract_budget, necessary; /* s, n, m */
    size_t layers, narrow, wide, edges;
    double node_probability; /* probability of adding a node */
    size_t width[KVSI_IGSM_LAYERS_MAX];
    int edge[KVSI_IGSM_LAYERS_MAX][KVSI_IGSM_WIDTH_MAX]
            [KVSI_IGSM_WIDTH_MAX]; /* from layer l to l + 1: its parameter, -1 = none */
    int abstract[KVSI_IGSM_LAYERS_MAX][KVSI_IGSM_WIDTH_MAX]
                [KVSI_IGSM_LAYERS_MAX];           /* of a node and a layer below it */
    size_t cost[KVSI_IGSM_PARAMETERS_MAX];        /* operations it takes */
    size_t gap[KVSI_IGSM_PARAMETERS_MAX];         /* layers between; 0 = instance parameter */
    uint8_t chosen[KVSI_IGSM_PARAMETERS_MAX];     /* for the solution */
    uint8_t known[KVSI_IGSM_PARAMETERS_MAX];      /* its operation is known */
    uint8_t has_number[KVSI_IGSM_PARAMETERS_MAX]; /* one of its sources is a random number */
} kvsi_igsm_builder;

/* ---- random choices ---- */

size_t kvsi_igsm_between(kvsi_igsm_builder *b, size_t low, size_t high);
int kvsi_igsm_coin(kvsi_igsm_builder *b);
/* A random index by weight; `count` if all weights are 0. */
size_t kvsi_igsm_weighted(kvsi_igsm_builder *b, const double *weights, size_t count);
/* A random index with a mark; -1 if there is none. */
int kvsi_igsm_any_of(kvsi_igsm_builder *b, const uint8_t *marks, size_t count);

/* ---- steps, in this order ---- */

/* The number of operations of a problem: the lower of two draws, so that easy problems are more
 * frequent. */
size_t kvsi_igsm_draw_wanted(const kvsi_igsm_config *c, kvsi_random *random);
void kvsi_igsm_draw_sizes(kvsi_igsm_builder *b, const kvsi_igsm_config *c);
/* Draws nested things with names, and their parameters. */
void kvsi_igsm_draw_structure(kvsi_igsm_builder *b);
/* Chooses the parameters that the solution needs. */
void kvsi_igsm_choose_necessary(kvsi_igsm_builder *b);
/* Draws the order of the solution and one source each; returns 0 if there is no valid order. */
int kvsi_igsm_draw_order(kvsi_igsm_builder *b);

#endif
