/* kvshift bench infer */
#include "base/files.h"
#include "base/folders.h"
#include "base/memory.h"
#include "cli/bench.h"
#include "cli/configs.h"
#include "cli/model_input.h"
#include "cli/progress.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct settings {
    kvsi_bench_run run;
    const char *model, *dtype, *shift;
    kvs_dtype cache;
    size_t prompt, generate, depth, batch, rounds;
} settings;

#define FIELD(name) offsetof(settings, name)

static const char *dtype_at(size_t index)
{
    return kvs_dtype_name((kvs_dtype)(index + 1)); /* 0 is "keep" */
}

/* clang-format off */
static const kvsi_setting rows[] = {
    {.name = "model", .letter = 'm', .kind = KVSI_SETTING_TEXT, .offset = FIELD(model),
     .group = "Model", .placeholder = "NAME|PATH",
     .help = "a bench model or preset with random weights, or a model's folder or file",
     .value = "l110"},
    {.name = "dtype", .kind = KVSI_SETTING_CHOICE, .offset = FIELD(dtype), .group = "Model",
     .placeholder = "NAME", .help = "type of the matrices",
     .automatic = "f32; as in the folder or file",
     .choice_at = dtype_at},
    {.name = "shift", .kind = KVSI_SETTING_CHOICE, .offset = FIELD(shift), .group = "Model",
     .placeholder = "NAME", .help = "what is shifted in a model with random weights",
     .automatic = "none", .choice_at = kvsi_shift_choice},
    {.name = "prompt", .kind = KVSI_SETTING_SIZE, .offset = FIELD(prompt), .group = "Work",
     .placeholder = "N", .help = "tokens of the prompt; 0 = none", .high = 1 << 24,
     .value = "512"},
    {.name = "gen", .kind = KVSI_SETTING_SIZE, .offset = FIELD(generate), .group = "Work",
     .placeholder = "N", .help = "tokens to generate; 0 = none", .high = 1 << 24,
     .value = "64"},
    {.name = "depth", .kind = KVSI_SETTING_SIZE, .offset = FIELD(depth), .group = "Work",
     .placeholder = "N", .help = "tokens before the generated ones",
     .high = 1 << 24},
    {.name = "batch", .kind = KVSI_SETTING_SIZE, .offset = FIELD(batch), .group = "Work",
     .placeholder = "N", .help = "sequences generated together", .low = 1,
     .high = 4096, .value = "1"},
    {.name = "kv-cache", .kind = KVSI_SETTING_ENUM, .offset = FIELD(cache), .group = "Work",
     .placeholder = "NAME", .help = "type of the KV cache", .value = "f32",
     .names = kvsi_kv_cache_names},
    {.name = "precision", .kind = KVSI_SETTING_CHOICE, .offset = FIELD(run.precision),
     .group = "Work", .placeholder = "NAME", .choice_at = kvsi_precision_choice, .value = "f32",
     .help = "precision of products of matrices; quantized weights have integer products"},
    {.name = "exact", .kind = KVSI_SETTING_FLAG, .offset = FIELD(run.exact), .group = "Work",
     .help = "with the same bits alone, in a batch and in any division into passes"},
    {.name = "rounds", .kind = KVSI_SETTING_SIZE, .offset = FIELD(rounds), .group = "Run",
     .placeholder = "N", .help = "number of measurements, after one for warm-up", .low = 1,
     .high = 1000000, .value = "5"},
    KVSI_BENCH_ROWS(settings),
};
/* clang-format on */

static const kvsi_command_options options = {
    .command = "kvshift bench infer",
    .purpose = "Measures prompts and generation against the memory bandwidth of the machine in the "
               "same rounds.  With --shift, the same model without shift is measured in turns.",
    .notes = "A model with random weights or a converted type is first written to a folder in "
             "TMPDIR, and\n"
             "removed afterwards.  bytes_per_token counts the matrices that a token is multiplied "
             "with, divided\n"
             "among the sequences of a batch, and the KV cache; read_gb_s is the rate at which "
             "generation reads\n"
             "them.  The fractions of peaks are those of prompts; the unit is the one that "
             "multiplies the type\n"
             "of most weights.  Rates are those of the median round; overheads are medians of the "
             "ratios of each\n"
             "round.",
    .tables = KVSI_OPTIONS(rows),
};

/* ---- models ---------------------------------------------------------------------------------- */

/* Paths of the models to measure, and the temporary folder that holds them, if any. */
typedef struct subjects {
    char *folder, *model, *unshifted;
} subjects;

static void subjects_release(subjects *s)
{
    if (s->folder)
        kvsi_dir_remove(s->folder, NULL);
    kvsi_free(s->model);
    kvsi_free(s->unshifted);
    kvsi_free(s->folder);
}

static kvs_status make_folder(subjects *s, kvs_err *err)
{
    const char *parent = getenv("TMPDIR");

    s->folder = kvsi_path_join(parent && *parent ? parent : "/tmp", "kvshift-bench-XXXXXX");
    if (!s->folder)
        return kvsi_fail(err, KVS_E_NOMEM, "out of memory");
    if (!mkdtemp(s->folder)) {
        const kvs_status st = kvsi_fail_errno(err, "make a folder", s->folder);

        kvsi_free(s->folder);
        s->folder = NULL;
        return st;
    }
    return KVS_OK;
}

static kvs_status write_model(char **out, const subjects *s, const char *name,
                              const settings *asked, const char *in, const kvs_model_config *config,
                              kvs_err *err)
{
    kvs_convert_options c;

    kvs_convert_options_init(&c, sizeof c);
    *out = kvsi_path_join(s->folder, name);
    if (!*out)
        return kvsi_fail(err, KVS_E_NOMEM, "out of memory");
    c.config = config;
    c.format = KVS_FORMAT_GGUF;
    c.tokenizer = "none";
    TRY(kvs_dtype_parse(&c.dtype, asked->dtype ? asked->dtype : "f32", err));
    return kvs_convert(*out, in, &c, err);
}

/* Creates the configuration of a bench model or of a preset. */
static kvs_status describe(kvs_model_config **out, const settings *s, kvs_err *err)
{
    const size_t needed = s->prompt > s->depth + s->generate ? s->prompt : s->depth + s->generate;

    if (kvs_bench_model_config(out, s->model, NULL) != KVS_OK &&
        kvs_model_config_create(out, s->model, NULL) != KVS_OK)
        return kvsi_fail(err, KVS_E_INVALID,
                         "'%s' is not a model's folder or file, a bench model or a preset",
                         s->model);
    TRY(kvs_model_config_set(*out, "shift", s->shift ? s->shift : "none", err));
    if (kvsi_model_count(*out, "context") < needed)
        TRY(kvs_model_config_set_number(*out, "context", (double)needed, err));
    return kvs_model_config_finish(*out, err);
}

/* Writes a model with random weights.  If it has a shift, also writes a copy without the shift. */
static kvs_status write_random(subjects *out, const settings *s, kvs_err *err)
{
    kvs_model_config *config = NULL;
    kvs_status st;

    TRY_OUT(describe(&config, s, err));
    TRY_OUT(make_folder(out, err));
    TRY_OUT(write_model(&out->model, out, "model.gguf", s, NULL, config, err));
    if (kvsi_shift_targets(config) == 0)
        goto out;
    TRY_OUT(kvs_model_config_set(config, "shift", "none", err));
    TRY_OUT(write_model(&out->unshifted, out, "unshifted.gguf", s, NULL, config, err));
out:
    kvs_model_config_free(config);
    return st;
}

static kvs_status make_subjects(subjects *out, const settings *s, kvs_err *err)
{
    if (!kvsi_file_exists(s->model))
        return write_random(out, s, err);
    if (s->shift)
        return kvsi_fail(err, KVS_E_INVALID, "option '--shift' is for random weights, not for '%s'",
                         s->model);
    if (!s->dtype)
        return KVS_OK;
    TRY(make_folder(out, err));
    return write_model(&out->model, out, "model.gguf", s, s->model, NULL, err);
}

/* ---- results --------------------------------------------------------------------------------- */

static double prompt_rate(const settings *s, kvs_spread seconds)
{
    return (double)s->prompt / seconds.median;
}

static double generation_rate(const settings *s, kvs_spread seconds)
{
    return (double)s->batch / seconds.median;
}

static json_t *to_json(const kvs_bench_infer_result *r, const kvs_runtime *rt, const settings *s)
{
    const double rate = generation_rate(s, r->generate);
    const double prompt_flops = r->prompt_flops / r->prompt.median;
    json_t *value = json_pack(
        "{s:s, s:s, s:s, s:s, s:s, s:b, s:I, s:I, s:I, s:I, s:I, s:o, s:o, s:o, s:o, s:o, s:f, "
        "s:f, "
        "s:o, "
        "s:f, s:f, s:f, s:o, s:o}",
        "model", s->model, "dtype", s->dtype ? s->dtype : "as it is", "shift",
        s->shift ? s->shift : "as it is", "kv_cache", kvs_dtype_name(s->cache), "precision",
        s->run.precision, "exact", s->run.exact, "prompt", (json_int_t)s->prompt, "gen",
        (json_int_t)s->generate, "depth", (json_int_t)s->depth, "batch", (json_int_t)s->batch,
        "rounds", (json_int_t)r->rounds, "prompt_tok_s",
        kvsi_json_number(prompt_rate(s, r->prompt)), "prompt_tok_s_best",
        kvsi_json_number((double)s->prompt / r->prompt.best), "prompt_gflops",
        kvsi_json_number(kvsi_bench_giga(prompt_flops)), "gen_tok_s", kvsi_json_number(rate),
        "gen_tok_s_best", kvsi_json_number((double)s->batch / r->generate.best), "weight_mb",
        kvsi_bench_mega(r->weight_bytes), "bytes_per_token", r->bytes_per_token, "read_gb_s",
        kvsi_json_number(kvsi_bench_giga(r->bytes_per_token * rate)), "machine_read_gb_s",
        kvsi_bench_giga(r->read.median), "machine_read_gb_s_best", kvsi_bench_giga(r->read.best),
        "load_ms", 1e3 * r->load, "peak_rss_mb", kvsi_json_number(kvsi_bench_mega(r->peak_rss)),
        "start_rss_mb", kvsi_json_number(kvsi_bench_mega(r->start_rss)));

    if (!value)
        return NULL;
    kvsi_bench_add_peaks(value, &r->peaks, prompt_flops);
    if (!isnan(r->generate_shift_cost))
        json_object_set_new(value, "overhead_vs_vanilla", json_real(r->generate_shift_cost));
    if (!isnan(r->prompt_shift_cost))
        json_object_set_new(value, "prompt_overhead_vs_vanilla", json_real(r->prompt_shift_cost));
    return kvsi_bench_json("infer", rt, value);
}

static void print_overhead(double shift_cost)
{
    if (!isnan(shift_cost))
        printf("; the shift costs %+.2f %%", 100 * shift_cost);
    putchar('\n');
}

static void print_people(const kvs_bench_infer_result *r, const kvs_runtime *rt, const settings *s)
{
    kvsi_bench_print_runtime(rt);
    printf("%-12s%s, %s, shift %s, precision %s, %.1f MB of matrices, open in %.1f ms\n", "model",
           s->model, s->dtype ? s->dtype : "as it is", s->shift ? s->shift : "as it is",
           s->run.precision, kvsi_bench_mega(r->weight_bytes), 1e3 * r->load);
    if (s->prompt > 0) {
        const double rate = r->prompt_flops / r->prompt.median;

        printf("%-12s%.1f tokens/s (best %.1f), %zu tokens", "prompt", prompt_rate(s, r->prompt),
               (double)s->prompt / r->prompt.best, s->prompt);
        print_overhead(r->prompt_shift_cost);
        printf("%-12s%.1f GFLOP/s, ", "", kvsi_bench_giga(rate));
        kvsi_bench_print_fractions(&r->peaks, rate);
    }
    if (s->generate > 0) {
        const double rate = generation_rate(s, r->generate);
        const double read = r->bytes_per_token * rate;

        printf("%-12s%.1f tokens/s (best %.1f), %zu tokens after %zu, %zu at a time", "generation",
               rate, (double)s->batch / r->generate.best, s->generate, s->depth, s->batch);
        print_overhead(r->generate_shift_cost);
        printf("%-12s%.1f GB/s, %.0f %% of the machine's %.1f (best %.1f); %.1f MB per token\n",
               "reading", kvsi_bench_giga(read), 100 * read / r->read.median,
               kvsi_bench_giga(r->read.median), kvsi_bench_giga(r->read.best),
               kvsi_bench_mega(r->bytes_per_token));
    }
    printf("%-12s%.1f MB resident at most, %.1f at the start\n", "memory",
           kvsi_bench_mega(r->peak_rss), kvsi_bench_mega(r->start_rss));
}

static kvs_status run(void *data, const kvsi_call *call, kvs_err *err)
{
    const settings *s = data;
    subjects made = {0};
    kvs_bench_inference *bench = NULL;
    kvs_bench_infer_result found;
    kvsi_waiting *waiting = NULL;
    kvs_runtime *rt = NULL;
    kvs_status st;

    (void)call;
    if (s->prompt == 0 && s->generate == 0)
        return kvsi_fail(err, KVS_E_INVALID, "nothing to measure: --prompt and --gen are both 0");
    TRY_OUT(kvsi_bench_runtime(&rt, &s->run, err));
    waiting = kvsi_waiting_start("measuring prompts and generation");
    TRY_OUT(make_subjects(&made, s, err));
    TRY_OUT(kvs_bench_inference_create(&bench, rt,
                                       &(kvs_bench_infer_options){
                                           .path = made.model ? made.model : s->model,
                                           .unshifted = made.unshifted,
                                           .prompt = s->prompt,
                                           .generate = s->generate,
                                           .depth = s->depth,
                                           .batch = s->batch,
                                           .cache = s->cache,
                                       },
                                       err));
    for (size_t i = 0; i <= s->rounds; i++)
        TRY_OUT(kvs_bench_inference_round(bench, err));
    TRY_OUT(kvs_bench_inference_get(&found, bench, err));
    kvsi_waiting_end(waiting);
    waiting = NULL;
    if (s->run.json)
        TRY_OUT(kvsi_cli_print_json(to_json(&found, rt, s), err));
    else
        print_people(&found, rt, s);
out:
    kvsi_waiting_end(waiting);
    kvs_bench_inference_free(bench);
    subjects_release(&made);
    kvs_runtime_free(rt);
    return st;
}

const kvsi_command kvsi_bench_infer = {
    .name = "infer",
    .summary = "prompts and generation against the speed of memory",
    .options = &options,
    .settings_size = sizeof(settings),
    .run = run,
};
