/* kvshift theory theorem3: the loss for four coefficients, and three ways to check it. */
#include "cli/theory.h"

#include <stdio.h>

typedef struct settings {
    size_t T, i;
    kvsi_number_list alpha, beta;
    int printed, gradient, brute_force, network;
    size_t samples, dim;
    uint64_t seed;
    int json;
} settings;

#define FIELD(name) offsetof(settings, name)

/* clang-format off */
static const kvsi_setting rows[] = {
    {.name = "T", .kind = KVSI_SETTING_SIZE, .offset = FIELD(T), .group = "Theorem",
     .placeholder = "N", .help = "number of different tokens; one of them is repeated at the end",
     .low = 3, .high = 1 << 20, .value = "12"},
    {.name = "i", .kind = KVSI_SETTING_SIZE, .offset = FIELD(i), .group = "Theorem",
     .placeholder = "N", .help = "index of the repeated token, from 1",
     .automatic = "any of 2 to T - 2, which give the same loss"},
    {.name = "alpha", .kind = KVSI_SETTING_REALS, .offset = FIELD(alpha), .group = "Theorem",
     .placeholder = "A1,A2", .help = "coefficients of keys: current token, previous token",
     .low = -500,
     .high = 500, .value = "0.5,0.5"},
    {.name = "beta", .kind = KVSI_SETTING_REALS, .offset = FIELD(beta), .group = "Theorem",
     .placeholder = "B1,B2", .help = "coefficients of values", .low = -1e6, .high = 1e6,
     .value = "0.5,0.5"},
    {.name = "printed", .kind = KVSI_SETTING_FLAG, .offset = FIELD(printed), .group = "Theorem",
     .help = "the formula as the paper prints it, with exact counts for its O(T)"},
    {.name = "gradient", .kind = KVSI_SETTING_FLAG, .offset = FIELD(gradient), .group = "Output",
     .help = "also print the gradient of the loss"},
    {.name = "brute-force", .kind = KVSI_SETTING_FLAG, .offset = FIELD(brute_force),
     .group = "Checks",
     .help = "compare with attention computed position by position, for every i"},
    {.name = "network", .kind = KVSI_SETTING_FLAG, .offset = FIELD(network), .group = "Checks",
     .help = "compare with a model that has orthogonal embeddings"},
    {.name = "samples", .kind = KVSI_SETTING_SIZE, .offset = FIELD(samples), .group = "Checks",
     .placeholder = "N", .help = "models with random embeddings to average over; 0 = none",
     .high = 1e9},
    {.name = "dim", .kind = KVSI_SETTING_SIZE, .offset = FIELD(dim), .group = "Checks",
     .placeholder = "D", .help = "width of these models", .low = 1, .high = 16384, .value = "1024"},
    {.name = "seed", .kind = KVSI_SETTING_UINT64, .offset = FIELD(seed), .group = "Checks",
     .placeholder = "N", .help = "seed of their embeddings", .value = "1"},
    {.name = "json", .kind = KVSI_SETTING_FLAG, .offset = FIELD(json), .group = "Output",
     .help = "print one JSON object"},
};
/* clang-format on */

static const kvsi_command_options options = {
    .command = "kvshift theory theorem3",
    .purpose = "Computes the loss of a one-layer network on x_1 ... x_T, x_i with the answer "
               "x_{i+1}: identity weights, no positions, embeddings of infinite width.",
    .tables = KVSI_OPTIONS(rows),
};

typedef struct answer {
    kvs_theorem3 problem;
    kvs_coefficients at, gradient;
    double loss;
    double brute_force; /* largest difference of any i */
    double network;     /* its loss */
    kvs_estimate monte_carlo;
} answer;

static kvs_status check_pair(const kvsi_number_list *list, const char *name, kvs_err *err)
{
    if (list->count != 2)
        return kvsi_fail(err, KVS_E_INVALID, "option '--%s': expected two numbers, found %zu", name,
                         list->count);
    return KVS_OK;
}

static kvs_status compute(answer *a, const settings *s, kvs_err *err)
{
    kvs_runtime *rt = NULL;
    kvs_status st;

    TRY_OUT(check_pair(&s->alpha, "alpha", err));
    TRY_OUT(check_pair(&s->beta, "beta", err));
    a->problem = (kvs_theorem3){
        .form = s->printed ? KVS_THEOREM3_PRINTED : KVS_THEOREM3_EXACT, .T = s->T, .i = s->i};
    a->at = (kvs_coefficients){s->alpha.numbers[0], s->alpha.numbers[1], s->beta.numbers[0],
                               s->beta.numbers[1]};
    TRY_OUT(kvs_theorem3_loss(&a->loss, &a->gradient, &a->problem, &a->at, err));
    if (s->brute_force)
        TRY_OUT(kvs_theorem3_difference(&a->brute_force, s->T, &a->at, err));
    if (s->network || s->samples > 0)
        TRY_OUT(kvs_runtime_create(&rt, NULL, err));
    if (s->network)
        TRY_OUT(kvs_theorem3_network(&a->network, rt, s->T, s->i, &a->at, err));
    if (s->samples > 0)
        TRY_OUT(kvs_theorem3_monte_carlo(&a->monte_carlo, rt, s->T, &a->at, s->dim, s->samples,
                                         s->seed, err));
out:
    kvs_runtime_free(rt);
    return st;
}

static kvs_status print_json(const answer *a, const settings *s, kvs_err *err)
{
    json_t *object = json_pack("{s:f}", "loss", a->loss);

    if (s->gradient)
        json_object_set_new(object, "gradient",
                            json_pack("{s:[ff], s:[ff]}", "alpha", a->gradient.alpha1,
                                      a->gradient.alpha2, "beta", a->gradient.beta1,
                                      a->gradient.beta2));
    if (s->brute_force)
        json_object_set_new(object, "brute_force_difference", json_real(a->brute_force));
    if (s->network)
        json_object_set_new(object, "network", json_real(a->network));
    if (s->samples > 0)
        json_object_set_new(object, "monte_carlo",
                            json_pack("{s:f, s:f, s:I, s:I}", "mean", a->monte_carlo.mean, "error",
                                      a->monte_carlo.error, "samples", (json_int_t)s->samples,
                                      "dim", (json_int_t)s->dim));
    return kvsi_cli_print_json(object, err);
}

static void print_people(const answer *a, const settings *s)
{
    printf("T = %zu, ", a->problem.T);
    if (a->problem.i > 0)
        printf("i = %zu, ", a->problem.i);
    printf("α = (%g, %g), β = (%g, %g)%s\n", a->at.alpha1, a->at.alpha2, a->at.beta1, a->at.beta2,
           s->printed ? ", as printed" : "");
    printf("%-14s%.9f\n", "loss", a->loss);
    if (s->gradient)
        printf("%-14sα (%.6g, %.6g), β (%.6g, %.6g)\n", "gradient", a->gradient.alpha1,
               a->gradient.alpha2, a->gradient.beta1, a->gradient.beta2);
    if (s->brute_force)
        printf("%-14sdiffers by %.1e at most, i = 1 to %zu\n", "brute force", a->brute_force,
               s->T - 1);
    if (s->network)
        printf("%-14s%.9f\n", "network", a->network);
    if (s->samples > 0)
        printf("%-14s%.5f ± %.5f, %zu networks of dim %zu\n", "Monte Carlo", a->monte_carlo.mean,
               a->monte_carlo.error, s->samples, s->dim);
}

static kvs_status run(void *data, const kvsi_call *call, kvs_err *err)
{
    const settings *s = data;
    answer a = {0};

    (void)call;
    TRY(compute(&a, s, err));
    if (s->json)
        return print_json(&a, s, err);
    print_people(&a, s);
    return KVS_OK;
}

const kvsi_command kvsi_theory_theorem3 = {
    .name = "theorem3",
    .summary = "the loss as a function of the four coefficients",
    .options = &options,
    .settings_size = sizeof(settings),
    .run = run,
};
