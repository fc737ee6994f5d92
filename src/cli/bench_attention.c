/* kvshift bench attention */
#include "cli/bench.h"
#include "cli/configs.h"
#include "cli/progress.h"

#include <stdio.h>

typedef struct settings {
    kvsi_bench_run run;
    const char *shift;
    kvs_bench_attention_options bench;
} settings;

#define FIELD(name) offsetof(settings, name)

/* clang-format off */
static const kvsi_setting rows[] = {
    {.name = "len", .kind = KVSI_SETTING_SIZE, .offset = FIELD(bench.length), .group = "Attention",
     .placeholder = "N", .help = "tokens of the sequence", .low = 1, .high = 1 << 24,
     .value = "2048"},
    {.name = "head-size", .kind = KVSI_SETTING_SIZE, .offset = FIELD(bench.head_size),
     .group = "Attention", .placeholder = "N", .help = "channels per head", .low = 1,
     .high = 4096, .value = "64"},
    {.name = "heads", .kind = KVSI_SETTING_SIZE, .offset = FIELD(bench.heads), .group = "Attention",
     .placeholder = "N", .help = "attention heads", .low = 1, .high = 4096, .value = "8"},
    {.name = "kv-heads", .kind = KVSI_SETTING_SIZE, .offset = FIELD(bench.kv_heads),
     .group = "Attention", .placeholder = "N", .help = "KV heads",
     .automatic = "as many as --heads", .high = 4096},
    {.name = "shift", .kind = KVSI_SETTING_CHOICE, .offset = FIELD(shift), .group = "Attention",
     .placeholder = "NAME", .help = "what is shifted", .choice_at = kvsi_shift_choice,
     .value = "kv"},
    {.name = "rounds", .kind = KVSI_SETTING_SIZE, .offset = FIELD(bench.rounds), .group = "Run",
     .placeholder = "N", .help = "number of measurements", .low = 1, .high = 1000000,
     .value = "5"},
    KVSI_BENCH_ROWS(settings),
};
/* clang-format on */

static const kvsi_command_options options = {
    .command = "kvshift bench attention",
    .purpose = "Measures the attention of one layer on one sequence, forward and backward, with "
               "shift and rotary positions, against the machine's peak in the same rounds.",
    .notes = "Operations counted: the causal half of two products forward and four backward; "
             "recomputation is\nnot counted.  Rates are those of the median round.",
    .tables = KVSI_OPTIONS(rows),
};

static json_t *part_to_json(double flops, kvs_spread seconds, double peak)
{
    const double rate = flops / seconds.median;

    return json_pack("{s:f, s:f, s:f, s:f}", "best_ms", 1e3 * seconds.best, "median_ms",
                     1e3 * seconds.median, "gflops", kvsi_bench_giga(rate), "fraction_of_peak",
                     rate / peak);
}

static json_t *to_json(const kvs_bench_attention *a, const kvs_runtime *rt, const settings *s)
{
    const kvs_bench_attention_options *o = &s->bench;
    const double peak = a->peaks.rate.median, flops = a->forward_flops + a->backward_flops;
    json_t *value = json_pack("{s:I, s:I, s:I, s:I, s:s, s:I, s:o, s:o, s:o, s:o, s:o}", "length",
                              (json_int_t)o->length, "head_size", (json_int_t)o->head_size, "heads",
                              (json_int_t)o->heads, "kv_heads", (json_int_t)o->kv_heads, "shift",
                              s->shift, "rounds", (json_int_t)o->rounds, "forward",
                              part_to_json(a->forward_flops, a->forward, peak), "backward",
                              part_to_json(a->backward_flops, a->backward, peak), "both",
                              part_to_json(flops, a->both, peak), "start_rss_mb",
                              kvsi_json_number(kvsi_bench_mega(a->start_rss)), "peak_rss_mb",
                              kvsi_json_number(kvsi_bench_mega(a->peak_rss)));

    if (value)
        kvsi_bench_add_peaks(value, &a->peaks, flops / a->both.median);
    return kvsi_bench_json("attention", rt, value);
}

static void print_part(const char *name, double flops, kvs_spread seconds, double peak)
{
    const double rate = flops / seconds.median;

    printf("%-12s%10.2f ms (best %.2f), %.1f GFLOP/s, %.1f %% of peak\n", name,
           1e3 * seconds.median, 1e3 * seconds.best, kvsi_bench_giga(rate), 100 * rate / peak);
}

static void print_people(const kvs_bench_attention *a, const kvs_runtime *rt, const settings *s)
{
    const kvs_bench_attention_options *o = &s->bench;
    const double peak = a->peaks.rate.median;

    kvsi_bench_print_runtime(rt);
    printf("%-12s%zu tokens, %zu heads of %zu, %zu of keys and values, shift %s\n", "attention",
           o->length, o->heads, o->head_size, o->kv_heads, s->shift);
    print_part("forward", a->forward_flops, a->forward, peak);
    print_part("backward", a->backward_flops, a->backward, peak);
    print_part("both", a->forward_flops + a->backward_flops, a->both, peak);
    printf("%-12s%.1f GFLOP/s (best %.1f), %s\n", "peak", kvsi_bench_giga(peak),
           kvsi_bench_giga(a->peaks.rate.best), a->peaks.unit);
    printf("%-12s%.1f MB resident at most, %.1f at the start\n", "memory",
           kvsi_bench_mega(a->peak_rss), kvsi_bench_mega(a->start_rss));
}

static kvs_status run(void *data, const kvsi_call *call, kvs_err *err)
{
    settings *s = data;
    kvs_bench_attention found;
    kvs_model_config *shift = NULL;
    kvs_runtime *rt = NULL;
    kvsi_waiting *waiting;
    kvs_status st;

    (void)call;
    if (s->bench.kv_heads == 0)
        s->bench.kv_heads = s->bench.heads;
    TRY_OUT(kvs_model_config_create(&shift, NULL, err));
    TRY_OUT(kvs_model_config_set(shift, "shift", s->shift, err));
    s->bench.shift = shift;
    TRY_OUT(kvsi_bench_runtime(&rt, &s->run, err));
    waiting = kvsi_waiting_start("measuring attention");
    st = kvs_bench_attention_run(&found, rt, &s->bench, err);
    kvsi_waiting_end(waiting);
    if (st != KVS_OK)
        goto out;
    if (s->run.json)
        TRY_OUT(kvsi_cli_print_json(to_json(&found, rt, s), err));
    else
        print_people(&found, rt, s);
out:
    kvs_runtime_free(rt);
    kvs_model_config_free(shift);
    return st;
}

const kvsi_command kvsi_bench_attention = {
    .name = "attention",
    .summary = "attention alone, forward and backward",
    .options = &options,
    .settings_size = sizeof(settings),
    .run = run,
};
