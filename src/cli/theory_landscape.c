/* kvshift theory landscape: the loss of theorem 3 on the paper's square, and gradient descent. */
#include "cli/theory.h"

#include <inttypes.h>
#include <stdio.h>

typedef struct settings {
    kvsi_number_list T, figure;
    size_t grid, columns;
    double lr;
    uint64_t steps;
    const char *svg;
    int json;
} settings;

#define FIELD(name) offsetof(settings, name)

/* clang-format off */
static const kvsi_setting rows[] = {
    {.name = "T", .kind = KVSI_SETTING_SIZES, .offset = FIELD(T), .group = "Landscape",
     .placeholder = "N,N,...", .help = "number of different tokens, for the exact loss", .low = 4,
     .high = 1 << 20, .value = "4,12,102"},
    {.name = "figure", .kind = KVSI_SETTING_SIZES, .offset = FIELD(figure), .group = "Landscape",
     .placeholder = "N,N,...", .help = "values for O(T), for the loss as in the paper's figure",
     .high = 1 << 20, .value = "0,10,100"},
    {.name = "grid", .kind = KVSI_SETTING_SIZE, .offset = FIELD(grid), .group = "Landscape",
     .placeholder = "N", .help = "grid cells per side for the search of the minimum", .low = 1,
     .high = 4096, .value = "100"},
    {.name = "lr", .kind = KVSI_SETTING_REAL, .offset = FIELD(lr), .group = "Descent",
     .placeholder = "RATE", .help = "learning rate of Adam, on all four coefficients",
     .low = 1e-9, .high = 10,
     .value = "0.01"},
    {.name = "steps", .kind = KVSI_SETTING_UINT64, .offset = FIELD(steps), .group = "Descent",
     .placeholder = "N", .help = "steps, from α = β = (½, ½)", .high = 1e9, .value = "5000"},
    {.name = "svg", .kind = KVSI_SETTING_TEXT, .offset = FIELD(svg), .group = "Output",
     .placeholder = "FILE", .help = "draw contours and descent paths; needs gnuplot"},
    {.name = "columns", .kind = KVSI_SETTING_SIZE, .offset = FIELD(columns), .group = "Output",
     .placeholder = "N", .help = "panels per row of the drawing", .low = 1,
     .high = KVS_PANELS_MAX, .value = "3"},
    {.name = "json", .kind = KVSI_SETTING_FLAG, .offset = FIELD(json), .group = "Output",
     .help = "print one JSON object"},
};
/* clang-format on */

static const kvsi_command_options options = {
    .command = "kvshift theory landscape",
    .purpose = "Computes the loss of theorem 3 on the square α2 = 1 - α1, β2 = 1 - β1 for several "
               "T: its minimum, and where gradient descent on all four coefficients ends.  An "
               "induction head is α1 = 0, β1 = 1.",
    .tables = KVSI_OPTIONS(rows),
};

typedef struct landscape {
    kvs_theorem3 problem;
    double induction, halves; /* loss at (0, 1) and at (1/2, 1/2) */
    kvs_coefficients lowest, end;
    double lowest_loss, end_loss;
} landscape;

static kvs_status explore(landscape *l, const settings *s, kvs_err *err)
{
    const kvs_coefficients induction = kvs_square(0, 1), halves = kvs_square(0.5, 0.5);
    const kvs_descent descent = {.lr = s->lr, .steps = s->steps};
    const kvs_theorem3 *p = &l->problem;

    TRY(kvs_theorem3_loss(&l->induction, NULL, p, &induction, err));
    TRY(kvs_theorem3_loss(&l->halves, NULL, p, &halves, err));
    TRY(kvs_theorem3_minimum(&l->lowest, &l->lowest_loss, p, s->grid, err));
    l->end = halves;
    TRY(kvs_theorem3_descend(&l->end, p, &descent, err));
    return kvs_theorem3_loss(&l->end_loss, NULL, p, &l->end, err);
}

static const char *form_name(const landscape *l)
{
    return l->problem.form == KVS_THEOREM3_FIGURE ? "figure" : "exact";
}

static void print_people(const landscape *l, size_t count, const settings *s)
{
    printf("square: grid of %zu steps; descent: Adam, rate %g, %" PRIu64 " steps from all ½\n",
           s->grid, s->lr, s->steps);
    printf("%-7s %8s %11s %11s   %-28s %s\n", "form", "T", "induction", "all ½", "lowest (α1, β1)",
           "free descent: α, β, loss");
    for (size_t i = 0; i < count; i++, l++)
        printf("%-7s %8zu %11.6f %11.6f   (%.3f, %.3f) %-13.6f (%.3g, %.3g) (%.3g, %.3g) %.6f\n",
               form_name(l), l->problem.T, l->induction, l->halves, l->lowest.alpha1,
               l->lowest.beta1, l->lowest_loss, l->end.alpha1, l->end.alpha2, l->end.beta1,
               l->end.beta2, l->end_loss);
}

static json_t *to_json(const landscape *l)
{
    return json_pack("{s:s, s:I, s:f, s:f, s:{s:f, s:f, s:f}, s:{s:[ff], s:[ff], s:f}}", "form",
                     form_name(l), "T", (json_int_t)l->problem.T, "induction", l->induction,
                     "halves", l->halves, "lowest", "alpha1", l->lowest.alpha1, "beta1",
                     l->lowest.beta1, "loss", l->lowest_loss, "descent", "alpha", l->end.alpha1,
                     l->end.alpha2, "beta", l->end.beta1, l->end.beta2, "loss", l->end_loss);
}

static kvs_status print_json(const landscape *list, size_t count, kvs_err *err)
{
    json_t *panels = json_array();

    for (size_t i = 0; i < count; i++)
        json_array_append_new(panels, to_json(list + i));
    return kvsi_cli_print_json(json_pack("{s:o}", "landscapes", panels), err);
}

static kvs_status run(void *data, const kvsi_call *call, kvs_err *err)
{
    const settings *s = data;
    const size_t count = s->T.count + s->figure.count;
    landscape list[KVS_PANELS_MAX];
    kvs_theorem3 panels[KVS_PANELS_MAX];

    (void)call;
    if (count > KVS_PANELS_MAX)
        return kvsi_fail(err, KVS_E_INVALID, "options '--T' and '--figure': %zu panels, at most %d",
                         count, KVS_PANELS_MAX);
    for (size_t i = 0; i < count; i++) {
        const int exact = i < s->T.count;
        const double number = exact ? s->T.numbers[i] : s->figure.numbers[i - s->T.count];

        panels[i] = (kvs_theorem3){.form = exact ? KVS_THEOREM3_EXACT : KVS_THEOREM3_FIGURE,
                                   .T = (size_t)number};
        list[i] = (landscape){.problem = panels[i]};
        TRY(explore(&list[i], s, err));
    }
    if (s->svg)
        TRY(kvs_landscape_draw(s->svg, panels, count, s->columns, err));
    if (s->json)
        TRY(print_json(list, count, err));
    else
        print_people(list, count, s);
    return KVS_OK;
}

const kvsi_command kvsi_theory_landscape = {
    .name = "landscape",
    .summary = "that loss over the paper's square, and its descent",
    .options = &options,
    .settings_size = sizeof(settings),
    .run = run,
};
