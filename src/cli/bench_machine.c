/* kvshift bench machine */
#include "cli/bench.h"
#include "cli/progress.h"

#include <stdio.h>

typedef struct settings {
    kvsi_bench_run run;
    size_t rounds;
} settings;

/* clang-format off */
static const kvsi_setting rows[] = {
    {.name = "rounds", .kind = KVSI_SETTING_SIZE, .offset = offsetof(settings, rounds),
     .group = "Run", .placeholder = "N", .help = "number of measurements", .low = 1,
     .high = 1000000, .value = "5"},
    KVSI_BENCH_ROWS(settings),
};
/* clang-format on */

static const kvsi_command_options options = {
    .command = "kvshift bench machine",
    .purpose = "Measures the limits of this machine: the products of every arithmetic unit on "
               "registers, reading an array much larger than the caches, and the matrix products "
               "of training, each right after a measurement of the peak.",
    .notes = "Rates are medians over the rounds.  GFLOP/s are 1e9 operations per second, a product "
             "and its\naddition being two, GOP/s the same of integers; GB/s are 1e9 bytes per "
             "second.  The peak is that of\nthe unit that multiplies float32 at this CPU level.",
    .tables = KVSI_OPTIONS(rows),
};

/* The three products together: a step computes each once, so their times add up. */
static double fraction_of(const kvs_bench_gemm *g)
{
    const double time =
        1 / g->forward.median + 1 / g->backward_input.median + 1 / g->backward_weight.median;

    return 3 / time / g->peak.median;
}

static json_t *rates_to_json(const kvs_bench_gemm *g)
{
    return json_pack("{s:I, s:I, s:I, s:f, s:f, s:f, s:f}", "tokens", (json_int_t)g->tokens, "rows",
                     (json_int_t)g->rows, "cols", (json_int_t)g->cols, "forward_gflops",
                     kvsi_bench_giga(g->forward.median), "backward_input_gflops",
                     kvsi_bench_giga(g->backward_input.median), "backward_weight_gflops",
                     kvsi_bench_giga(g->backward_weight.median), "fraction_of_peak",
                     fraction_of(g));
}

static json_t *units_to_json(const kvs_bench_machine *m)
{
    json_t *list = json_array();

    for (size_t i = 0; i < m->units; i++) {
        const kvs_bench_unit *u = &m->unit_at[i];

        json_array_append_new(list, json_pack("{s:s, s:o, s:b, s:s?}", "name", u->name,
                                              u->integers ? "gops" : "gflops",
                                              kvsi_json_number(kvsi_bench_giga(u->rate.median)),
                                              "usable", !u->missing, "reason", u->missing));
    }
    return list;
}

static json_t *to_json(const kvs_bench_machine *m, const kvs_runtime *rt, const settings *s)
{
    json_t *gemms = json_object();

    for (size_t i = 0; i < m->gemms; i++) {
        char name[64];

        snprintf(name, sizeof name, "%s %s", m->gemm[i].model, m->gemm[i].site);
        json_object_set_new(gemms, name, rates_to_json(&m->gemm[i]));
    }
    return kvsi_bench_json(
        "machine", rt,
        json_pack("{s:I, s:s, s:f, s:f, s:f, s:f, s:f, s:f, s:o, s:o}", "rounds",
                  (json_int_t)s->rounds, "unit", m->unit, "peak_gflops",
                  kvsi_bench_giga(m->peak.median), "peak_gflops_best",
                  kvsi_bench_giga(m->peak.best), "peak_gflops_one_thread",
                  kvsi_bench_giga(m->peak_one.median), "peak_gflops_one_thread_best",
                  kvsi_bench_giga(m->peak_one.best), "read_gb_per_s",
                  kvsi_bench_giga(m->read.median), "read_gb_per_s_best",
                  kvsi_bench_giga(m->read.best), "units", units_to_json(m), "gemm", gemms));
}

static void print_units(const kvs_bench_machine *m)
{
    for (size_t i = 0; i < m->units; i++) {
        const kvs_bench_unit *u = &m->unit_at[i];

        if (u->missing)
            printf("  %-14s%10s %s\n", u->name, "-", u->missing);
        else
            printf("  %-14s%10.1f %s (best %.1f)\n", u->name, kvsi_bench_giga(u->rate.median),
                   u->integers ? "GOP/s" : "GFLOP/s", kvsi_bench_giga(u->rate.best));
    }
}

static void print_people(const kvs_bench_machine *m, const kvs_runtime *rt)
{
    kvsi_bench_print_runtime(rt);
    printf("%-12s%s, %.1f GFLOP/s on all threads (best %.1f), %.1f on one (best %.1f)\n", "peak",
           m->unit, kvsi_bench_giga(m->peak.median), kvsi_bench_giga(m->peak.best),
           kvsi_bench_giga(m->peak_one.median), kvsi_bench_giga(m->peak_one.best));
    printf("%-12s%.1f GB/s on all threads (best %.1f)\n", "read", kvsi_bench_giga(m->read.median),
           kvsi_bench_giga(m->read.best));
    printf("%-12son all threads\n", "units");
    print_units(m);
    putchar('\n');
    printf("%-17s%-18s%9s%9s%9s%9s\n", "GFLOP/s of", "tokens x out x in", "forward", "d input",
           "d weight", "of peak");
    for (size_t i = 0; i < m->gemms; i++) {
        const kvs_bench_gemm *g = &m->gemm[i];
        char name[64], shape[64];

        snprintf(name, sizeof name, "%s %s", g->model, g->site);
        snprintf(shape, sizeof shape, "%zux%zux%zu", g->tokens, g->rows, g->cols);
        printf("%-17s%-18s%9.1f%9.1f%9.1f%7.0f %%\n", name, shape,
               kvsi_bench_giga(g->forward.median), kvsi_bench_giga(g->backward_input.median),
               kvsi_bench_giga(g->backward_weight.median), 100 * fraction_of(g));
    }
}

static kvs_status run(void *data, const kvsi_call *call, kvs_err *err)
{
    const settings *s = data;
    kvs_bench_machine found;
    kvs_runtime *rt = NULL;
    kvsi_waiting *waiting;
    kvs_status st;

    (void)call;
    TRY_OUT(kvsi_bench_runtime(&rt, &s->run, err));
    waiting = kvsi_waiting_start("measuring this machine");
    st = kvs_bench_machine_run(&found, rt, s->rounds, err);
    kvsi_waiting_end(waiting);
    if (st != KVS_OK)
        goto out;
    if (s->run.json)
        TRY_OUT(kvsi_cli_print_json(to_json(&found, rt, s), err));
    else
        print_people(&found, rt);
out:
    kvs_runtime_free(rt);
    return st;
}

const kvsi_command kvsi_bench_machine = {
    .name = "machine",
    .summary = "peak of arithmetic, matrix products and memory",
    .options = &options,
    .settings_size = sizeof(settings),
    .run = run,
};
