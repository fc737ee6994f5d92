/* kvshift bench train */
#include "base/files.h"
#include "base/memory.h"
#include "cli/bench.h"
#include "cli/configs.h"
#include "cli/progress.h"

#include <math.h>
#include <stdio.h>

typedef struct settings {
    kvsi_bench_run run;
    const char *model, *shift, *precision, *pack_weights, *save;
    size_t batch, length, steps; /* 0 = the model's own */
    size_t accumulate;
    int profile, paced, recompute;
} settings;

#define FIELD(name) offsetof(settings, name)

static const char *const models[] = {"tiny", "small", "kvlm", "s124", "gpt2", NULL};

/* clang-format off */
static const kvsi_setting rows[] = {
    {.name = "model", .letter = 'm', .kind = KVSI_SETTING_CHOICE, .offset = FIELD(model),
     .group = "Training", .placeholder = "NAME", .help = "model to train", .choices = models,
     .value = "tiny"},
    {.name = "shift", .kind = KVSI_SETTING_CHOICE, .offset = FIELD(shift), .group = "Training",
     .placeholder = "NAME", .help = "what is shifted", .choice_at = kvsi_shift_choice,
     .value = "kv"},
    {.name = "batch", .kind = KVSI_SETTING_SIZE, .offset = FIELD(batch), .group = "Training",
     .placeholder = "N", .help = "sequences per step", .automatic = "the model's", .high = 1 << 20},
    {.name = "length", .kind = KVSI_SETTING_SIZE, .offset = FIELD(length), .group = "Training",
     .placeholder = "N", .help = "tokens per sequence", .automatic = "the model's",
     .high = 1 << 24},
    {.name = "recompute", .kind = KVSI_SETTING_FLAG, .offset = FIELD(recompute),
     .group = "Training", .help = "recompute layers in the backward pass to save memory"},
    {.name = "precision", .kind = KVSI_SETTING_CHOICE, .offset = FIELD(precision),
     .group = "Training", .placeholder = "NAME", .help = "precision of products of matrices",
     .choice_at = kvsi_precision_choice, .value = "f32"},
    {.name = "accumulate", .kind = KVSI_SETTING_SIZE, .offset = FIELD(accumulate),
     .group = "Training", .placeholder = "N",
     .help = "micro-batches that a batch is computed in; must divide it", .low = 1,
     .high = 1 << 20, .value = "1"},
    {.name = "pack-weights", .kind = KVSI_SETTING_CHOICE, .offset = FIELD(pack_weights),
     .group = "Training", .placeholder = "NAME",
     .help = "keep packed copies of the weights for all passes of a step",
     .choice_at = kvsi_pack_weights_choice, .value = "auto"},
    {.name = "steps", .kind = KVSI_SETTING_SIZE, .offset = FIELD(steps), .group = "Run",
     .placeholder = "N", .help = "steps to measure, after two for warm-up",
     .automatic = "5 to 100, by model", .high = 1000000},
    {.name = "profile", .kind = KVSI_SETTING_FLAG, .offset = FIELD(profile), .group = "Run",
     .help = "time every operation of the step"},
    {.name = "save", .kind = KVSI_SETTING_TEXT, .offset = FIELD(save), .group = "Run",
     .placeholder = "DIR", .help = "write the initial weights and the batch to this folder"},
    {.name = "paced", .kind = KVSI_SETTING_FLAG, .offset = FIELD(paced), .group = "Run",
     .help = "do one step per line of standard input, and print a line of JSON for each"},
    KVSI_BENCH_ROWS(settings),
};
/* clang-format on */

static const kvsi_command_options options = {
    .command = "kvshift bench train",
    .purpose = "Measures training steps (forward, backward, AdamW) on one batch of random tokens "
               "against the machine's peak in the same rounds.  With a shift, steps of the same "
               "model without shift are measured in turns.",
    .notes =
        "Operations per step: 6 x weights of matrices (head included) x tokens, and 6 x layers "
        "x width x\nlength squared for each sequence; recomputation is not counted.  Rates and "
        "fractions are those of\nthe median step and the median peak; overhead_vs_vanilla is "
        "the median over the rounds of the ratio\nof both steps, with and without shift, minus "
        "1.\n\n"
        "--paced is for measuring other programs in turns (bench/vs_pytorch): there are no "
        "steps without\nshift, and the result is printed at the end of the input.",
    .tables = KVSI_OPTIONS(rows),
};

/* ---- results --------------------------------------------------------------------------------- */

static void op_name(char *out, size_t size, const kvs_bench_op *op)
{
    snprintf(out, size, "%s%s%s", op->op, op->site ? " " : "", op->site ? op->site : "");
}

static json_t *op_to_json(const kvs_bench_op *op, double step)
{
    json_t *value = json_pack("{s:f, s:f, s:f}", "calls", op->calls, "ms", 1e3 * op->seconds,
                              "share", op->seconds / step);

    if (op->flops > 0)
        json_object_set_new(value, "gflops",
                            kvsi_json_number(kvsi_bench_giga(op->flops / op->seconds)));
    if (op->bytes > 0)
        json_object_set_new(value, "gb_per_s",
                            kvsi_json_number(kvsi_bench_giga(op->bytes / op->seconds)));
    return value;
}

/* The sum over all operations, to which shares refer. */
static double mean_step(const kvs_bench_train_result *r)
{
    double sum = 0;

    for (size_t i = 0; i < r->ops; i++)
        sum += r->op[i].seconds;
    return sum;
}

static json_t *profile_to_json(const kvs_bench_train_result *r)
{
    json_t *value = json_object();
    const double step = mean_step(r);

    for (size_t i = 0; i < r->ops; i++) {
        char name[64];

        op_name(name, sizeof name, &r->op[i]);
        json_object_set_new(value, name, op_to_json(&r->op[i], step));
    }
    return value;
}

static json_t *times_to_json(kvs_spread seconds)
{
    return json_pack("{s:f, s:f}", "best", 1e3 * seconds.best, "median", 1e3 * seconds.median);
}

static void add_unshifted(json_t *value, const kvs_bench_train_result *r)
{
    if (isnan(r->unshifted.median))
        return;
    json_object_set_new(value, "overhead_vs_vanilla", json_real(r->shift_cost));
    json_object_set_new(value, "overhead_vs_vanilla_best",
                        json_real(r->step.best / r->unshifted.best - 1));
    json_object_set_new(value, "vanilla_step_ms", times_to_json(r->unshifted));
    json_object_set_new(value, "vanilla_planned_mb",
                        json_real(kvsi_bench_mega(r->unshifted_planned_bytes)));
}

static json_t *to_json(const kvs_bench_train_result *r, const kvs_runtime *rt,
                       const kvs_bench_train_options *o, const settings *s)
{
    const double rate = r->flops / r->step.median;
    json_t *value = json_pack(
        "{s:s, s:s, s:I, s:I, s:I, s:b, s:b, s:f, s:o, s:f, s:f, s:f, s:o, s:f, s:f, s:f}", "model",
        s->model, "shift", s->shift, "batch", (json_int_t)o->batch, "length", (json_int_t)o->length,
        "steps", (json_int_t)r->rounds, "recompute", s->recompute, "profiled", s->profile,
        "tokens_per_s", r->tokens / r->step.median, "step_ms", times_to_json(r->step), "gflops",
        kvsi_bench_giga(rate), "gflops_best", kvsi_bench_giga(r->flops / r->step.best),
        "fraction_of_peak_best", r->flops / r->step.best / r->peaks.rate.best, "peak_rss_mb",
        kvsi_json_number(kvsi_bench_mega(r->peak_rss)), "planned_mb",
        kvsi_bench_mega(r->planned_bytes), "loss_first", r->loss_first, "loss_last", r->loss_last);

    if (value) {
        json_object_set_new(value, "precision", json_string(s->precision));
        json_object_set_new(value, "accumulate", json_integer((json_int_t)s->accumulate));
        json_object_set_new(value, "pack_weights", json_string(s->pack_weights));
        kvsi_bench_add_peaks(value, &r->peaks, rate);
        add_unshifted(value, r);
        if (r->ops > 0)
            json_object_set_new(value, "profile", profile_to_json(r));
    }
    return kvsi_bench_json("train", rt, value);
}

static void print_profile(const kvs_bench_train_result *r)
{
    const double step = mean_step(r);

    printf("\n%-34s%8s%10s%8s%10s%9s\n", "operation", "calls", "ms", "share", "GFLOP/s", "GB/s");
    for (size_t i = 0; i < r->ops; i++) {
        const kvs_bench_op *op = &r->op[i];
        char name[64], rate[32] = "", traffic[32] = "";

        op_name(name, sizeof name, op);
        if (op->flops > 0)
            snprintf(rate, sizeof rate, "%.1f", kvsi_bench_giga(op->flops / op->seconds));
        if (op->bytes > 0)
            snprintf(traffic, sizeof traffic, "%.1f", kvsi_bench_giga(op->bytes / op->seconds));
        printf("%-34s%8.0f%10.3f%6.1f %%%10s%9s\n", name, op->calls, 1e3 * op->seconds,
               100 * op->seconds / step, rate, traffic);
    }
    printf("%-34s%8s%10.3f%6.1f %%\n", "step (mean)", "", 1e3 * step, 100.0);
}

static void print_people(const kvs_bench_train_result *r, const kvs_runtime *rt,
                         const kvs_bench_train_options *o, const settings *s)
{
    const double rate = r->flops / r->step.median;

    kvsi_bench_print_runtime(rt);
    printf("%-12s%s, shift %s, %s, %zu x %zu tokens, %.1f MFLOP per token\n", "model", s->model,
           s->shift, s->precision, o->batch, o->length, kvsi_bench_mega(r->flops / r->tokens));
    printf("%-12s%.2f ms (best %.2f), %.0f tokens/s, %zu steps\n", "step", 1e3 * r->step.median,
           1e3 * r->step.best, r->tokens / r->step.median, r->rounds);
    printf("%-12s%.1f GFLOP/s, ", "rate", kvsi_bench_giga(rate));
    kvsi_bench_print_fractions(&r->peaks, rate);
    if (!isnan(r->unshifted.median))
        printf("%-12s%.2f ms (best %.2f): the shift costs %+.2f %%\n", "unshifted",
               1e3 * r->unshifted.median, 1e3 * r->unshifted.best, 100 * r->shift_cost);
    printf("%-12s%.1f MB resident at most, %.1f planned\n", "memory", kvsi_bench_mega(r->peak_rss),
           kvsi_bench_mega(r->planned_bytes));
    printf("%-12s%.6f at first, %.6f at last\n", "loss", r->loss_first, r->loss_last);
    if (r->ops > 0)
        print_profile(r);
}

/* ---- running --------------------------------------------------------------------------------- */

/* Runs one round per line of standard input and prints {"seconds": ..., "loss": ...} after each.
 * The first line of output means that the model is ready. */
static kvs_status run_paced(kvs_bench_training *bench, const kvs_bench_train_options *o,
                            kvs_err *err)
{
    int c;

    printf("{\"ready\": true, \"batch\": %zu, \"length\": %zu}\n", o->batch, o->length);
    fflush(stdout);
    while ((c = getchar()) != EOF) {
        kvs_bench_round round;
        kvs_status st;

        if (c != '\n')
            continue;
        st = kvs_bench_training_round(&round, bench, err);
        if (st != KVS_OK)
            return st;
        printf("{\"seconds\": %.9g, \"loss\": %.9g, \"peak\": %.9g}\n", round.seconds, round.loss,
               round.peak);
        fflush(stdout);
    }
    return KVS_OK;
}

static kvs_status run_steps(kvs_bench_training *bench, size_t steps, kvs_err *err)
{
    for (size_t i = 0; i < KVS_BENCH_WARMUP + steps; i++) {
        TRY(kvs_bench_training_round(NULL, bench, err));
    }
    return KVS_OK;
}

/* Sets the options and the number of steps.  Creates *config, which the options borrow. */
static kvs_status choose(kvs_bench_train_options *o, kvs_model_config **config, size_t *steps,
                         const settings *s, kvs_err *err)
{
    kvs_bench_model model;

    TRY(kvs_bench_model_get(&model, s->model, err));
    TRY(kvs_bench_model_config(config, s->model, err));
    TRY(kvs_model_config_set(*config, "shift", s->shift, err));
    o->config = *config;
    o->profile = s->profile;
    o->recompute = s->recompute;
    o->precision = s->precision;
    o->accumulate = s->accumulate;
    o->pack_weights = s->pack_weights;
    o->alone = s->paced;
    o->batch = s->batch > 0 ? s->batch : model.batch;
    o->length = s->length > 0 ? s->length : model.length;
    *steps = s->steps > 0 ? s->steps : model.steps;
    return KVS_OK;
}

static int holds(const char *dir, const char *name)
{
    char *path = kvsi_path_join(dir, name);
    const int found = path && kvsi_file_exists(path);

    kvsi_free(path);
    return found;
}

/* --save may replace its own output, but no other model. */
static kvs_status check_save(const settings *s, kvs_err *err)
{
    if (s->save && holds(s->save, "model.safetensors") && !holds(s->save, "batch.safetensors"))
        return kvsi_fail(err, KVS_E_INVALID,
                         "'%s' holds a model that --save did not write; choose another folder",
                         s->save);
    return KVS_OK;
}

static kvs_status save(const kvs_bench_training *bench, const char *dir, kvs_err *err)
{
    int made;
    const kvs_status st = kvsi_dir_make(dir, &made, err);

    return st == KVS_OK ? kvs_bench_training_save(bench, dir, err) : st;
}

static kvs_status run(void *data, const kvsi_call *call, kvs_err *err)
{
    const settings *s = data;
    kvs_bench_train_options o = {0};
    kvs_bench_train_result result;
    kvs_bench_training *bench = NULL;
    kvs_model_config *config = NULL;
    kvs_runtime *rt = NULL;
    kvsi_waiting *waiting = NULL;
    size_t steps = 0;
    kvs_status st;

    (void)call;
    TRY_OUT(check_save(s, err));
    TRY_OUT(choose(&o, &config, &steps, s, err));
    TRY_OUT(kvsi_bench_runtime(&rt, &s->run, err));
    waiting = s->paced ? NULL : kvsi_waiting_start("measuring training steps");
    TRY_OUT(kvs_bench_training_create(&bench, rt, &o, err));
    if (s->save)
        TRY_OUT(save(bench, s->save, err));
    TRY_OUT(s->paced ? run_paced(bench, &o, err) : run_steps(bench, steps, err));
    TRY_OUT(kvs_bench_training_get(&result, bench, err));
    kvsi_waiting_end(waiting);
    waiting = NULL;
    if (s->run.json)
        TRY_OUT(kvsi_cli_print_json(to_json(&result, rt, &o, s), err));
    else
        print_people(&result, rt, &o, s);
out:
    kvsi_waiting_end(waiting);
    kvs_bench_training_free(bench);
    kvs_model_config_free(config);
    kvs_runtime_free(rt);
    return st;
}

const kvsi_command kvsi_bench_train = {
    .name = "train",
    .summary = "training steps against that peak and without the shift",
    .options = &options,
    .settings_size = sizeof(settings),
    .run = run,
};
