/* kvshift bench: the limits of the machine, and the share that training and inference reach. */
#include "cli/bench.h"

#include <stdio.h>
#include <string.h>

kvs_status kvsi_bench_runtime(kvs_runtime **out, const kvsi_bench_run *run, kvs_err *err)
{
    const kvs_runtime_options options = {.size = sizeof(kvs_runtime_options),
                                         .threads = (int)run->threads,
                                         .cpu_level = run->cpu_level,
                                         .exact = run->exact,
                                         .precision = run->precision};

    return kvs_runtime_create(out, &options, err);
}

json_t *kvsi_bench_json(const char *bench, const kvs_runtime *rt, json_t *rest)
{
    const kvs_build_info *build = kvs_build();
    json_t *value =
        json_pack("{s:s, s:s, s:s, s:s, s:s, s:i}", "bench", bench, "commit", build->commit,
                  "compiler", build->compiler, "blas", KVSI_CLI_BLAS, "cpu_level",
                  kvs_runtime_cpu_level(rt), "threads", kvs_runtime_threads(rt));

    if (!rest || json_object_update(value, rest) != 0) {
        json_decref(value);
        value = NULL;
    }
    json_decref(rest);
    return value;
}

void kvsi_bench_print_runtime(const kvs_runtime *rt)
{
    const int threads = kvs_runtime_threads(rt);

    printf("%-12s%d thread%s, CPU level %s, %s\n", "run", threads, threads == 1 ? "" : "s",
           kvs_runtime_cpu_level(rt), KVSI_CLI_BLAS);
}

void kvsi_bench_add_peaks(json_t *value, const kvs_bench_peaks *peaks, double rate)
{
    json_object_set_new(value, "unit", json_string(peaks->unit));
    json_object_set_new(value, "peak_gflops", json_real(kvsi_bench_giga(peaks->rate.median)));
    json_object_set_new(value, "peak_gflops_best", json_real(kvsi_bench_giga(peaks->rate.best)));
    json_object_set_new(value, "fraction_of_peak", kvsi_json_number(rate / peaks->rate.median));
    json_object_set_new(value, "f32_unit", json_string(peaks->f32_unit));
    json_object_set_new(value, "f32_peak_gflops",
                        json_real(kvsi_bench_giga(peaks->f32_rate.median)));
    json_object_set_new(value, "fraction_of_f32_peak",
                        kvsi_json_number(rate / peaks->f32_rate.median));
}

void kvsi_bench_print_fractions(const kvs_bench_peaks *peaks, double rate)
{
    const double peak = peaks->rate.median, f32 = peaks->f32_rate.median;

    printf("%.1f %% of the peak of %s, %.1f", 100 * rate / peak, peaks->unit,
           kvsi_bench_giga(peak));
    if (strcmp(peaks->unit, peaks->f32_unit) != 0)
        printf("; %.1f %% of that of %s, %.1f", 100 * rate / f32, peaks->f32_unit,
               kvsi_bench_giga(f32));
    putchar('\n');
}

double kvsi_bench_giga(double x)
{
    return x * 1e-9;
}

double kvsi_bench_mega(double x)
{
    return x * 1e-6;
}

const kvsi_command kvsi_cmd_bench = {
    .name = "bench",
    .summary = "measure the machine, training, attention and inference",
    .usage = "machine|train|attention|infer|compare [OPTION]... [FILE]...",
    .purpose = "Measures speed as ratios within one run: each measurement alternates with one of\n"
               "the machine's peak, and of what it is compared with.",
    .verbs =
        (const kvsi_command *const[]){&kvsi_bench_machine, &kvsi_bench_train, &kvsi_bench_attention,
                                      &kvsi_bench_infer, &kvsi_bench_compare, NULL},
};
