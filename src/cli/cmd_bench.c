/* kvshift bench: what the machine can do, and how much of it training and inference use. */
#include "cli/bench.h"
#include "cli/verbs.h"

#include <stdio.h>

kvs_status kvsi_bench_runtime(kvs_runtime **out, const kvsi_bench_run *run, kvs_err *err)
{
    const kvs_runtime_options options = {.threads = (int)run->threads, .cpu_level = run->cpu_level};

    return kvs_runtime_create(out, &options, err);
}

json_t *kvsi_bench_json(const char *bench, const kvs_runtime *rt, json_t *rest)
{
    const kvs_build_info *build = kvs_build();
    json_t *value =
        json_pack("{s:s, s:s, s:s, s:s, s:s, s:i}", "bench", bench, "commit", build->commit,
                  "compiler", build->compiler, "blas", build->blas, "cpu_level",
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
           kvs_runtime_cpu_level(rt), kvs_build()->blas);
}

double kvsi_bench_giga(double x)
{
    return x * 1e-9;
}

double kvsi_bench_mega(double x)
{
    return x * 1e-6;
}

int kvsi_cmd_bench(int argc, char **argv)
{
    static const kvsi_verb verbs[] = {
        {"machine", "peak of arithmetic, matrix products and memory", kvsi_bench_machine, NULL},
        {"train", "training steps against that peak and without the shift", kvsi_bench_train, NULL},
        {"attention", "attention alone, forward and backward", kvsi_bench_attention, NULL},
        {"infer", "prompts and generation against the memory's speed", kvsi_bench_infer, NULL},
        {"compare", "two results side by side", kvsi_bench_compare, NULL},
    };
    static const kvsi_verb_list list = {
        .name = "bench",
        .usage = "machine|train|attention|infer|compare [OPTION]... [FILE]...",
        .purpose = "Measures speed as ratios within one run: everything is interleaved with the\n"
                   "machine's own peak, and with what it is compared with.",
        .verbs = verbs,
        .count = sizeof verbs / sizeof *verbs,
    };

    return kvsi_cli_run_verb(&list, argc, argv);
}
