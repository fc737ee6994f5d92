/* kvshift theory theorem1 and theorem2: networks that approximate an induction head. */
#include "cli/theory.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>

typedef struct settings {
    kvs_induction_problem problem;
    kvsi_number_list p, sigmas;
    int json;
} settings;

#define FIELD(name) offsetof(settings, name)

/* clang-format off */
#define INPUT_ROWS                                                                                 \
    {.name = "length", .kind = KVSI_SETTING_SIZE, .offset = FIELD(problem.length),                 \
     .group = "Input", .placeholder = "N", .help = "tokens", .low = 4, .high = 16384},             \
    {.name = "dim", .kind = KVSI_SETTING_SIZE, .offset = FIELD(problem.dim), .group = "Input",     \
     .placeholder = "N", .help = "channels per token", .low = 1, .high = 16384},                  \
    {.name = "slope", .kind = KVSI_SETTING_REAL, .offset = FIELD(problem.slope), .group = "Input", \
     .placeholder = "M", .help = "decrease of the scores per token of distance", .high = 1e6},     \
    {.name = "inputs", .kind = KVSI_SETTING_SIZE, .offset = FIELD(problem.inputs),                 \
     .group = "Input", .placeholder = "N", .help = "random inputs; the largest error counts",     \
     .low = 1, .high = 1e9},                                                                       \
    {.name = "seed", .kind = KVSI_SETTING_UINT64, .offset = FIELD(problem.seed), .group = "Input", \
     .placeholder = "N", .help = "seed of the random inputs"},                                     \
    {.name = "json", .kind = KVSI_SETTING_FLAG, .offset = FIELD(json), .group = "Output",          \
     .help = "print one JSON object"}

static const kvsi_setting theorem1_rows[] = {
    {.name = "p", .kind = KVSI_SETTING_REALS, .offset = FIELD(p), .group = "Theorem",
     .placeholder = "P,P,...", .help = "slopes of the first layer", .low = 1e-6, .high = 700,
     .value = "1,2,4,8,16"},
    {.name = "sigma", .kind = KVSI_SETTING_REAL, .offset = FIELD(problem.sigma), .group = "Theorem",
     .placeholder = "S", .help = "divisor of the scores", .low = 1e-6, .high = 1e6},
    INPUT_ROWS,
};

static const kvsi_setting theorem2_rows[] = {
    {.name = "sigma", .kind = KVSI_SETTING_REALS, .offset = FIELD(sigmas), .group = "Theorem",
     .placeholder = "S,S,...", .help = "divisor of the scores", .low = 1e-6, .high = 1e6,
     .value = "1,0.3,0.1,0.03"},
    INPUT_ROWS,
};
/* clang-format on */

static const kvsi_command_options theorem1_options = {
    .command = "kvshift theory theorem1",
    .purpose = "Measures how well two ordinary layers, twice as wide as the tokens, approximate an "
               "induction head: the first copies the previous token with slope p, the second looks "
               "it up.  The error falls as e^-p if the first layer does not attend to itself.",
    .tables = KVSI_OPTIONS(theorem1_rows),
};

static const kvsi_command_options theorem2_options = {
    .command = "kvshift theory theorem2",
    .purpose = "Compares one layer of KV shifting attention with α = (0, 1), β = (1, 0) with an "
               "induction head: they are equal if the first and the last key are masked, and only "
               "nearly equal as the theorem is printed.",
    .tables = KVSI_OPTIONS(theorem2_rows),
};

static void set_defaults(void *data)
{
    settings *s = data;

    kvs_induction_problem_init(&s->problem);
}

static json_t *problem_to_json(const kvs_induction_problem *p)
{
    return json_pack("{s:I, s:I, s:f, s:I, s:I}", "length", (json_int_t)p->length, "dim",
                     (json_int_t)p->dim, "slope", p->slope, "inputs", (json_int_t)p->inputs, "seed",
                     (json_int_t)p->seed);
}

/* ---- theorem 1 ------------------------------------------------------------------------------- */

static void print_heading1(const kvs_induction_problem *p)
{
    printf("%zu tokens of %zu channels, sigma %g, slope %g; worst of %zu inputs\n", p->length,
           p->dim, p->sigma, p->slope, p->inputs);
    printf("%8s %11s %11s %11s %11s %11s %15s\n", "p", "e^-p", "error", "over e^-p", "bound",
           "copy error", "sees itself");
}

static void print_row1(double p, const kvs_theorem1_result *r)
{
    printf("%8g %11.3e %11.3e %11.4g %11.3e %11.3e %15.3e\n", p, exp(-p), r->error,
           r->error / exp(-p), r->bound, r->copy_error, r->self_error);
}

static json_t *row1_to_json(double p, const kvs_theorem1_result *r)
{
    return json_pack("{s:f, s:f, s:f, s:f, s:f}", "p", p, "error", r->error, "bound", r->bound,
                     "copy_error", r->copy_error, "self_error", r->self_error);
}

static kvs_status run_theorem1(void *data, const kvsi_call *call, kvs_err *err)
{
    const settings *s = data;
    json_t *rows = json_array();
    kvs_status st = KVS_OK;

    (void)call;
    if (!s->json)
        print_heading1(&s->problem);
    for (size_t i = 0; i < s->p.count; i++) {
        kvs_theorem1_result r;

        TRY_OUT(kvs_theorem1(&r, &s->problem, s->p.numbers[i], err));
        if (s->json)
            json_array_append_new(rows, row1_to_json(s->p.numbers[i], &r));
        else
            print_row1(s->p.numbers[i], &r);
    }
    if (s->json)
        TRY_OUT(
            kvsi_cli_print_json(json_pack("{s:o, s:f, s:O}", "input", problem_to_json(&s->problem),
                                          "sigma", s->problem.sigma, "rows", rows),
                                err));
out:
    json_decref(rows);
    return st;
}

/* ---- theorem 2 ------------------------------------------------------------------------------- */

static void print_heading2(const kvs_induction_problem *p)
{
    printf("%zu tokens, slope %g; masked: worst of %zu inputs of %zu channels\n", p->length,
           p->slope, p->inputs, p->dim);
    printf("%8s %11s %11s %22s %11s\n", "sigma", "masked", "as printed", "last two tokens equal",
           "network");
}

static void print_row2(double sigma, const kvs_theorem2_result *r)
{
    printf("%8g %11.2e %11.2e %22.4f %11.2e\n", sigma, r->masked, r->printed, r->repeated,
           r->network);
}

static json_t *row2_to_json(double sigma, const kvs_theorem2_result *r)
{
    return json_pack("{s:f, s:f, s:f, s:f, s:f}", "sigma", sigma, "masked", r->masked, "printed",
                     r->printed, "repeated", r->repeated, "network", r->network);
}

static kvs_status run_theorem2(void *data, const kvsi_call *call, kvs_err *err)
{
    const settings *s = data;
    kvs_induction_problem problem = s->problem;
    json_t *rows = json_array();
    kvs_runtime *rt = NULL;
    kvs_status st;

    (void)call;
    TRY_OUT(kvs_runtime_create(&rt, NULL, err));
    if (!s->json)
        print_heading2(&problem);
    for (size_t i = 0; i < s->sigmas.count; i++) {
        kvs_theorem2_result r;

        problem.sigma = s->sigmas.numbers[i];
        TRY_OUT(kvs_theorem2(&r, rt, &problem, err));
        if (s->json)
            json_array_append_new(rows, row2_to_json(problem.sigma, &r));
        else
            print_row2(problem.sigma, &r);
    }
    if (s->json)
        TRY_OUT(kvsi_cli_print_json(
            json_pack("{s:o, s:O}", "input", problem_to_json(&problem), "rows", rows), err));
out:
    json_decref(rows);
    kvs_runtime_free(rt);
    return st;
}

/* ---- the commands ---------------------------------------------------------------------------- */

const kvsi_command kvsi_theory_theorem1 = {
    .name = "theorem1",
    .summary = "two ordinary layers against an induction head",
    .options = &theorem1_options,
    .settings_size = sizeof(settings),
    .set_defaults = set_defaults,
    .run = run_theorem1,
};

const kvsi_command kvsi_theory_theorem2 = {
    .name = "theorem2",
    .summary = "one layer of KV shifting attention against it",
    .options = &theorem2_options,
    .settings_size = sizeof(settings),
    .set_defaults = set_defaults,
    .run = run_theorem2,
};
