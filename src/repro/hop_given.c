#include "repro/hop_given.h"

#include "config/config.h"
#include "repro/hop_errors.h"

#include <math.h>
#include <stdio.h>

enum { HOPS = 16, WIDTH = 128, FIRST_DEPTH = 2, DEPTHS = 5, KEPT_DEPTHS = 4 };

static const size_t sequences[KVS_SCALES] = {20, 200, 1000};

/* Error rates of the published models of width 128 and 2 to 6 layers, at 1 to 16 hops: with dropout
 * on, as published, each from 100 sequences. */
static const double dropping[DEPTHS][HOPS] = {
    {.010, .140, .346, .423, .543, .588, .616, .658, .691, .692, .710, .720, .726, .730, .738,
     .737},
    {.003, .008, .048, .150, .277, .359, .422, .456, .523, .574, .596, .644, .673, .672, .690,
     .706},
    {.001, .003, .006, .015, .034, .062, .109, .216, .278, .359, .395, .467, .530, .533, .579,
     .612},
    {.001, .001, .001, .003, .012, .015, .017, .037, .058, .103, .148, .218, .280, .339, .376,
     .414},
    {.000, .000, .001, .002, .003, .003, .007, .006, .007, .010, .011, .012, .021, .027, .035,
     .062},
};

/* The same with dropout off, measured again from 40 sequences each; -1 = not measured. */
static const double kept[KEPT_DEPTHS][HOPS] = {
    {.001, .043, .251, .335, -1, .514, -1, .609, -1, .669, -1, .721, -1, .723, -1, .737},
    {.000, .001, .002, .042, -1, .252, -1, .382, -1, .472, -1, .594, -1, .665, -1, .705},
    {.000, .000, .000, .001, -1, .001, -1, .058, -1, .190, -1, .334, -1, .442, -1, .575},
    {.000, .000, .000, .000, -1, .000, -1, .001, -1, .002, -1, .040, -1, .147, -1, .273},
};

typedef struct known {
    const double *errors; /* [HOPS]; NULL = no such model is published */
    double sequences;     /* per error rate */
} known;

static known known_of(const kvs_model_config *c, double dropout)
{
    const size_t depth = c->layers - FIRST_DEPTH;

    if (c->dim != WIDTH || c->shift.targets != 0 || c->layers < FIRST_DEPTH)
        return (known){0};
    if (dropout == 0.1 && depth < DEPTHS)
        return (known){dropping[depth], 100};
    if (dropout == 0 && depth < KEPT_DEPTHS)
        return (known){kept[depth], 40};
    return (known){0};
}

/* Both error rates are from samples of sequences, with the deviation that ours shows.  The rounding
 * of the table is added.  If none of our letters is wrong, one error is assumed. */
static double standard_error(const kvsi_hop_error *ours, size_t hops, double own_sequences,
                             double table_sequences)
{
    const double rounding = 0.0005 / sqrt(3);
    const double letters = own_sequences * (97 - 3 * (double)hops);
    const double least = 1 / letters, own = fmax(ours->deviation, least);

    return sqrt(own * own * (1 + own_sequences / table_sequences) + rounding * rounding);
}

typedef struct agreement {
    size_t cells, beyond; /* compared; beyond 3 standard errors */
    double farthest;      /* in standard errors */
} agreement;

static void add_row(kvsi_table *table, agreement *a, const kvsi_hop_error *ours, size_t hops,
                    const known *k, double own_sequences)
{
    const double published = k->errors && hops > 0 ? k->errors[hops - 1] : -1;

    kvsi_table_add(table, "%zu", hops);
    kvsi_table_add(table, "%.4f ± %.4f", ours->error, ours->deviation);
    if (published < 0) {
        kvsi_table_add(table, "–");
        kvsi_table_add(table, "–");
    } else {
        const double off =
            (ours->error - published) / standard_error(ours, hops, own_sequences, k->sequences);

        kvsi_table_add(table, "%.3f", published);
        kvsi_table_add(table, "%+.1f", off);
        a->cells++;
        a->beyond += fabs(off) > 3;
        a->farthest = fmax(a->farthest, fabs(off));
    }
}

static agreement tabulate(kvsi_claims *out, const kvsi_hop_error *ours, const known *k,
                          double own_sequences)
{
    kvsi_table table = {0};
    agreement a = {0};

    kvsi_table_headings(&table, "hops|error here|known error|standard errors apart");
    for (size_t hops = 0; hops <= HOPS; hops++)
        add_row(&table, &a, &ours[hops], hops, k, own_sequences);
    kvsi_claims_table(out, "table",
                      "Share of the letters asked for that are wrong, with its standard error by "
                      "bootstrap over sequences; what is known of such a model; and how far "
                      "apart they are.",
                      &table);
    return a;
}

static void draw(kvsi_claims *out, const kvsi_hop_error *ours, const known *k)
{
    kvsi_chart chart = {
        .name = "errors",
        .caption = "Share of the letters asked for that are wrong against the number of hops.",
    };
    kvsi_panel *panel = kvsi_chart_panel(&chart, "", "hops k", "error");
    kvsi_series *here = kvsi_chart_series(&chart, KVSI_MARKED, 0, "here"),
                *published = k->errors ? kvsi_chart_series(&chart, KVSI_MARKS, 1, "known") : NULL;

    panel->y_low = 0;
    panel->key = "inside top left";
    for (size_t hops = 0; hops <= HOPS; hops++)
        kvsi_series_add(here, (double)hops, ours[hops].error, ours[hops].deviation);
    for (size_t hops = 1; published && hops <= HOPS; hops++)
        if (k->errors[hops - 1] >= 0)
            kvsi_series_add(published, (double)hops, k->errors[hops - 1], NAN);
    kvsi_claims_chart(out, &chart);
}

static void claim(kvsi_claims *out, const agreement *a, const kvs_model_config *c, double dropout,
                  size_t tried)
{
    char words[160];

    snprintf(words, sizeof words,
             "a trained model of %zu layers errs as it is known to, dropout %g", c->layers,
             dropout);
    kvsi_claims_add(out,
                    &(kvsi_claim){.claim = words,
                                  .paper = a->cells ? "the table"
                                                    : "nothing is known of such "
                                                      "a model",
                                  .ours = a->cells ? (double)a->beyond : NAN,
                                  .error = NAN,
                                  .unit = "cells beyond 3 standard errors",
                                  .seeds = tried,
                                  .outcome = a->cells == 0    ? KVSI_OPEN
                                             : a->beyond <= 1 ? KVSI_HOLDS
                                                              : KVSI_FAILS},
                    "of %zu cells, the farthest %.1f standard errors away; %zu sequences each; "
                    "holds with one beyond at most",
                    a->cells, a->farthest, tried);
}

kvs_status kvsi_hop_given(kvsi_claims *out, const kvsi_results *results, kvs_err *err)
{
    const kvs_repro_options *o = results->options;
    const size_t tried = sequences[o->scale];
    kvsi_hop_error errors[KVSI_HOPS_MAX];
    const kvs_model_config *config;
    kvsi_hopk_config task;
    kvs_model *model = NULL;
    kvs_status st;
    agreement a;
    known k;

    kvsi_hopk_config_init(&task);
    TRY_OUT(kvsi_hop_model_load(&model, results->rt, o->model, err));
    kvsi_hop_model_drop(model, o->dropout);
    config = kvs_model_get_config(model);
    if (config->vocab < 23 || config->context < 99) {
        st = kvsi_fail(err, KVS_E_INVALID,
                       "'%s' has %zu tokens and a context of %zu, hop-k needs 23 and 99", o->model,
                       config->vocab, config->context);
        goto out;
    }
    TRY_OUT(kvsi_hop_errors(errors, model, &task, tried, o->dropout > 0, err));
    k = known_of(config, o->dropout);
    a = tabulate(out, errors, &k, (double)tried);
    claim(out, &a, config, o->dropout, tried);
    draw(out, errors, &k);
out:
    kvs_model_free(model);
    return st;
}
