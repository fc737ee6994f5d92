/* The main table and the QKV figure: vanilla, KV and QKV shifting on benchmarks, during training. */
#include "base/files.h"
#include "base/memory.h"
#include "base/status.h"
#include "config/config.h"
#include "eval/measures.h"
#include "kvshift/kvshift_eval.h"
#include "kvshift/kvshift_files.h"
#include "repro/curves.h"
#include "repro/scales.h"
#include "repro/text_arms.h"
#include "run/checkpoint_files.h"
#include "run/run.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

enum { VANILLA, KV, QKV, ARMS, LOOKS = 3, CONTEXT = 512, SCORES_MAX = 40 };

/* More than for losses, so that questions fit into the context. */
enum { VOCAB = 4096 };

static const kvsi_shift_config shifts[ARMS] = {
    [KV] = {.targets = KVS_SHIFT_K | KVS_SHIFT_V},
    [QKV] = {.targets = KVS_SHIFT_Q | KVS_SHIFT_K | KVS_SHIFT_V},
};

static kvs_status plan(kvsi_plan *p, kvs_err *err)
{
    static const char *const names[ARMS] = {"vanilla", "KV shifting", "QKV shifting"};

    for (size_t i = 0; i < ARMS; i++) {
        kvsi_planned run = {.keeps_checkpoints = 1};

        TRY(kvsi_scale_text(&run, p, KVSI_TEXT_BASE, "paper-2.9b", err));
        if (p->scale != KVS_SCALE_PAPER) {
            run.model.context = CONTEXT;
            run.train.batch = p->scale == KVS_SCALE_SMOKE ? 1 : run.train.batch / 2;
        }
        if (p->scale != KVS_SCALE_PAPER && p->scale != KVS_SCALE_SMOKE)
            p->text_vocab = run.model.vocab = VOCAB;
        run.eval_every = (run.train.steps + LOOKS - 1) / LOOKS;
        run.train.steps = LOOKS * run.eval_every;
        run.model.shift = shifts[i];
        run.model.shift.window = 1;
        kvsi_name_arm(&run, "%s", names[i]);
        TRY(kvsi_plan_add(p, &run, err));
    }
    return KVS_OK;
}

/* ---- measuring ------------------------------------------------------------------------------- */

/* Each has a folder of results, from which 'kvshift eval compare' and 'table' make paired tests. */
typedef struct part {
    const char *folder, *tasks;
    double limit; /* documents per task; 0 = all */
} part;

static const part parts[] = {
    {"lambada", "lambada_openai", 0},
    {"choices", "winogrande,hellaswag,arc_easy,arc_challenge", 1000},
    {"cloze", "mmlu_continuation", 25},
};
/* At scale smoke. */
static const part few[] = {{"lambada", "lambada_openai", 4}, {"choices", "arc_easy", 4}};

enum { PARTS = sizeof parts / sizeof *parts, FEW = sizeof few / sizeof *few };

static void add_score(json_t *scores, const char *name, double value, double chance)
{
    if (isfinite(value))
        json_array_append_new(scores, json_pack("{s:s, s:f, s:o}", "name", name, "value", value,
                                                "chance", kvsi_json_number(chance)));
}

/* The expected accuracy of guesses, in percent. */
static double chance_of(const kvsi_unit *unit)
{
    double sum = 0;
    size_t count = 0;

    for (size_t t = 0; unit->kind == KVSI_STORED_CHOICES && t < unit->task_count; t++)
        for (size_t d = 0; d < unit->tasks[t]->count; d++) {
            sum += 1 / (double)unit->tasks[t]->documents[d].choices;
            count++;
        }
    return count > 0 ? 100 * sum / (double)count : NAN;
}

static void add_last_words(json_t *scores, const kvsi_unit *unit)
{
    static const char *const which[] = {"new words", "words of the context"};
    kvsi_part by_copy[2];
    char name[96];

    kvsi_parts_by_copy(by_copy, unit);
    for (size_t i = 0; i < 2; i++) {
        if (by_copy[i].count == 0)
            continue;
        snprintf(name, sizeof name, "%s, %s: loss", unit->name, which[i]);
        add_score(scores, name, -by_copy[i].likelihood.mean, NAN);
        snprintf(name, sizeof name, "%s, %s: accuracy", unit->name, which[i]);
        add_score(scores, name, 100 * (double)by_copy[i].right / (double)by_copy[i].count, 0);
    }
}

static void add_unit(json_t *scores, const kvsi_unit *unit)
{
    const char *metric = kvsi_unit_metric(unit);
    char name[96];

    if (metric) {
        snprintf(name, sizeof name, "%s: %s", unit->name, metric);
        add_score(scores, name, 100 * kvsi_unit_score_of(unit, metric).value, chance_of(unit));
    }
    if (unit->kind == KVSI_STORED_LAST_WORD) {
        add_last_words(scores, unit);
    } else {
        snprintf(name, sizeof name, "%s: bits per byte", unit->name);
        add_score(scores, name, kvsi_measures_of(unit).bits.mean, NAN);
    }
}

static kvs_status read_stored(json_t *scores, const char *path, kvs_err *err)
{
    kvsi_stored stored = {0};
    kvsi_unit *units = NULL;
    size_t count = 0;
    kvs_status st;

    TRY_OUT(kvsi_stored_open(&stored, path, err));
    TRY_OUT(kvsi_units_of(&units, &count, &stored, 0, err));
    for (size_t i = 0; i < count; i++)
        add_unit(scores, units + i);
out:
    kvsi_units_free(units, count);
    kvsi_stored_close(&stored);
    return st;
}

static kvs_status score(json_t *scores, const kvs_model *model, const kvsi_finished *run,
                        const char *out, const part *p, kvs_err *err)
{
    char *path = kvsi_path_join(out, p->folder);
    kvs_eval_options options;
    kvs_eval *eval = NULL;
    kvs_status st;

    if (!path)
        return kvsi_fail(err, KVS_E_NOMEM, "out of memory for '%s'", out);
    kvs_eval_options_init(&options, sizeof options);
    options.tasks = p->tasks;
    options.data = run->options->data;
    options.limit = p->limit;
    options.model_name = run->plan->name;
    options.out = path;
    options.resume = 1;
    options.reuse = 1;
    TRY_OUT(kvs_eval_run(&eval, model, run->tokenizer, &options, err));
    st = read_stored(scores, kvs_eval_path(eval), err);
out:
    kvs_eval_free(eval);
    kvsi_free(path);
    return st;
}

/* The in-context learning score on the validation text. */
static kvs_status score_context(json_t *scores, const kvs_model *model, const kvsi_finished *run,
                                kvs_err *err)
{
    enum { WINDOWS = 256 };
    const kvs_perplexity_options options = {.window = CONTEXT, .stride = CONTEXT};
    int32_t *ids = kvsi_alloc((size_t)WINDOWS * CONTEXT, sizeof *ids);
    kvs_position_curve *curve = NULL;
    kvs_position_scores found;
    size_t count;
    kvs_status st = KVS_OK;

    if (!ids)
        return kvsi_fail(err, KVS_E_NOMEM, "out of memory for the validation text");
    count = kvs_corpus_read(ids, (size_t)WINDOWS * CONTEXT, run->corpus, KVS_SPLIT_VALID, 0);
    if (count < CONTEXT)
        goto out;
    TRY_OUT(kvs_loss_by_position(&curve, model, ids, count - count % CONTEXT, &options, err));
    kvs_position_curve_scores(&found, curve);
    add_score(scores, "in-context learning score", found.mean_score.mean, NAN);
out:
    kvs_position_curve_free(curve);
    kvsi_free(ids);
    return st;
}

static kvs_status measure_step(json_t *steps, uint64_t step, const kvsi_finished *run,
                               kvs_runtime *exact, kvs_err *err)
{
    const int smoke = run->options->scale == KVS_SCALE_SMOKE;
    const part *list = smoke ? few : parts;
    char relative[64];
    char *path = NULL, *out = NULL;
    json_t *scores = json_array();
    kvs_model *model = NULL;
    kvs_status st;

    snprintf(relative, sizeof relative, KVSI_RUN_CHECKPOINTS "/step-%08" PRIu64, step);
    path = kvsi_path_join(run->dir, relative);
    snprintf(relative, sizeof relative, "eval/step-%08" PRIu64, step);
    out = kvsi_path_join(run->dir, relative);
    if (!path || !out) {
        st = kvsi_fail(err, KVS_E_NOMEM, "out of memory for '%s'", run->dir);
        goto out;
    }
    TRY_OUT(kvs_model_load(&model, exact, path, NULL, err));
    for (size_t i = 0; run->options->data && i < (smoke ? (size_t)FEW : (size_t)PARTS); i++)
        TRY_OUT(score(scores, model, run, out, list + i, err));
    TRY_OUT(score_context(scores, model, run, err));
    json_array_append_new(steps,
                          json_pack("{s:I, s:O}", "step", (json_int_t)step, "scores", scores));
out:
    json_decref(scores);
    kvs_model_free(model);
    kvsi_free(path);
    kvsi_free(out);
    return st;
}

/* {"steps": [{"step": 1627, "scores": [{"name": ..., "value": ..., "chance": ...}, ...]}, ...]} */
static kvs_status measure(json_t **out, const kvsi_finished *run, kvs_err *err)
{
    const kvs_runtime_options options = {.size = sizeof options,
                                         .threads = kvs_runtime_threads(run->rt),
                                         .cpu_level = kvs_runtime_cpu_level(run->rt),
                                         .exact = 1};
    json_t *steps = json_array();
    kvs_runtime *exact = NULL;
    kvs_status st;

    *out = NULL;
    TRY_OUT(kvs_runtime_create(&exact, &options, err));
    for (size_t i = 1; i <= LOOKS; i++)
        TRY_OUT(measure_step(steps, i * run->plan->eval_every, run, exact, err));
    *out = json_pack("{s:O}", "steps", steps);
    if (!*out)
        st = kvsi_fail(err, KVS_E_NOMEM, "out of memory for '%s'", run->dir);
out:
    json_decref(steps);
    kvs_runtime_free(exact);
    return st;
}

/* ---- reading --------------------------------------------------------------------------------- */

static const json_t *scores_at(const kvsi_run_result *run, size_t look)
{
    const json_t *steps = json_object_get(run->measured, "steps");

    return json_object_get(json_array_get(steps, look), "scores");
}

static const json_t *score_named(const kvsi_run_result *run, size_t look, const char *name)
{
    const json_t *scores = scores_at(run, look);

    for (size_t i = 0; i < json_array_size(scores); i++) {
        const json_t *score = json_array_get(scores, i);
        const char *found = json_string_value(json_object_get(score, "name"));

        if (found && strcmp(found, name) == 0)
            return score;
    }
    return NULL;
}

static double number_of(const json_t *score, const char *key)
{
    const json_t *value = json_object_get(score, key);

    return json_is_number(value) ? json_number_value(value) : NAN;
}

static size_t values_of(double out[KVSI_SEEDS_MAX], const kvsi_results *results, size_t arm,
                        size_t look, const char *name)
{
    const kvsi_arm_result runs = kvsi_results_arm(results, arm);

    for (size_t i = 0; i < runs.count; i++)
        out[i] = number_of(score_named(runs.runs + i, look, name), "value");
    return runs.count;
}

static kvsi_paired_test compare(const kvsi_results *results, size_t arm, size_t reference,
                                size_t look, const char *name)
{
    double ours[KVSI_SEEDS_MAX] = {0}, theirs[KVSI_SEEDS_MAX] = {0};
    const size_t count = values_of(ours, results, arm, look, name);

    values_of(theirs, results, reference, look, name);
    return kvsi_paired_t(ours, theirs, count);
}

/* ---- conclusions ----------------------------------------------------------------------------- */

static const double MARGIN = 0.02; /* bits per byte, and nats */

static void add_claims(kvsi_claims *out, const kvsi_results *results)
{
    static const struct {
        const char *score, *unit;
        kvsi_loss_claim claim;
    } claims[] = {
        {"lambada_openai, words of the context: loss",
         "nats a word",
         {KV, VANILLA, KVSI_LOWER,
          "LAMBADA, words of the context: the loss is lower with KV shifting", "+2.9 points"}},
        {"lambada_openai, new words: loss",
         "nats a word",
         {KV, VANILLA, KVSI_LOWER, "LAMBADA, new words: the loss is lower with KV shifting",
          "not told apart"}},
        {"mmlu_continuation: bits per byte",
         "bits a byte",
         {KV, VANILLA, KVSI_LOWER, "MMLU, cloze: fewer bits per byte with KV shifting",
          "+1.8 points"}},
        {"arc_easy: bits per byte",
         "bits a byte",
         {KV, VANILLA, KVSI_LOWER, "ARC-Easy: fewer bits per byte with KV shifting",
          "+2.8 points"}},
        {"in-context learning score",
         "nats",
         {KV, VANILLA, KVSI_LOWER, "context helps more with KV shifting",
          "it enhances in-context learning"}},
        {"mmlu_continuation: bits per byte",
         "bits a byte",
         {QKV, KV, KVSI_NOT_LOWER,
          "MMLU, cloze: shifting queries too is no better than keys and values",
          "worse, even than vanilla"}},
    };

    for (size_t i = 0; i < sizeof claims / sizeof *claims; i++) {
        const kvsi_paired_test test = compare(
            results, claims[i].claim.arm, claims[i].claim.reference, LOOKS - 1, claims[i].score);

        kvsi_claim_difference(out, &test, &claims[i].claim, claims[i].unit, MARGIN);
    }
}

static void add_cell(kvsi_table *table, const kvsi_results *results, size_t arm, const char *name)
{
    double values[KVSI_SEEDS_MAX] = {0};
    const kvsi_estimate e =
        kvsi_estimate_of(values, values_of(values, results, arm, LOOKS - 1, name));

    kvsi_table_estimate(table, &e, 3, "");
}

/* Whether the interval of vanilla's mean and that of KV shifting both reach the accuracy of guesses,
 * so that the column says nothing. */
static int is_at_chance(const kvsi_results *results, const char *name, double chance)
{
    int at = isfinite(chance);

    for (size_t arm = VANILLA; at && arm <= KV; arm++) {
        double values[KVSI_SEEDS_MAX] = {0};
        const kvsi_estimate e =
            kvsi_estimate_of(values, values_of(values, results, arm, LOOKS - 1, name));

        at = e.mean - kvsi_half_interval(&e) <= chance;
    }
    return at;
}

static void tabulate(kvsi_claims *out, const kvsi_results *results)
{
    const kvsi_arm_result vanilla = kvsi_results_arm(results, VANILLA);
    const json_t *scores = scores_at(vanilla.runs, LOOKS - 1);
    kvsi_table table = {.left = 1};

    kvsi_table_headings(&table,
                        "score|chance|vanilla|KV shifting|QKV shifting|KV − vanilla|p|QKV − "
                        "KV|p|");
    for (size_t i = 0; i < json_array_size(scores); i++) {
        const json_t *score = json_array_get(scores, i);
        const char *name = json_string_value(json_object_get(score, "name"));
        const double chance = number_of(score, "chance");
        const kvsi_paired_test kv = compare(results, KV, VANILLA, LOOKS - 1, name),
                               qkv = compare(results, QKV, KV, LOOKS - 1, name);

        kvsi_table_add(&table, "%s", name);
        if (isnan(chance))
            kvsi_table_add(&table, "–");
        else
            kvsi_table_add(&table, "%.1f", chance);
        for (size_t arm = 0; arm < ARMS; arm++)
            add_cell(&table, results, arm, name);
        kvsi_table_estimate(&table, &kv.difference, 3, "");
        kvsi_table_p(&table, kv.p);
        kvsi_table_estimate(&table, &qkv.difference, 3, "");
        kvsi_table_p(&table, qkv.p);
        kvsi_table_add(&table, "%s", is_at_chance(results, name, chance) ? "at chance" : "");
    }
    kvsi_claims_table(
        out, "scores",
        "Scores at the end of the training, mean over the seeds ± standard error, and "
        "differences within seeds with the p of a paired t test. Accuracies are in "
        "percent. At chance: the intervals of vanilla and KV shifting reach the "
        "accuracy of guesses.",
        &table);
}

static void draw_course(kvsi_claims *out, const kvsi_results *results)
{
    static const char *const drawn[] = {"in-context learning score",
                                        "lambada_openai, words of the context: loss",
                                        "mmlu_continuation: bits per byte"};
    static const char *const axes[] = {"in-context learning score (nats)",
                                       "LAMBADA, copied words (nats)", "MMLU cloze (bits a byte)"};
    kvsi_chart chart = {
        .name = "course",
        .caption = "Scores against training step, mean over the seeds with its standard error; "
                   "lower is better.",
    };

    for (size_t p = 0; p < sizeof drawn / sizeof *drawn; p++) {
        kvsi_panel *panel;

        if (!score_named(kvsi_results_arm(results, VANILLA).runs, 0, drawn[p]))
            continue;
        panel = kvsi_chart_panel(&chart, "", "training step", axes[p]);
        panel->key = p == 0 ? "inside top right" : NULL;
        for (size_t arm = 0; arm < ARMS; arm++) {
            const kvsi_arm_result runs = kvsi_results_arm(results, arm);
            kvsi_series *s = kvsi_chart_series(&chart, KVSI_MARKED, arm, runs.name);

            for (size_t look = 0; look < LOOKS; look++) {
                double values[KVSI_SEEDS_MAX] = {0};
                const kvsi_estimate e =
                    kvsi_estimate_of(values, values_of(values, results, arm, look, drawn[p]));

                kvsi_series_add(s, (double)((look + 1) * runs.runs[0].plan->eval_every), e.mean,
                                e.error);
            }
        }
    }
    kvsi_claims_chart(out, &chart);
}

static kvs_status conclude(kvsi_claims *out, const kvsi_results *results, kvs_err *err)
{
    (void)err;
    add_claims(out, results);
    draw_course(out, results);
    tabulate(out, results);
    kvsi_claims_remark(out,
                       "The folder eval of each run has the results of every document at three "
                       "token counts: 'kvshift eval compare' and 'kvshift eval table' test "
                       "them document by document.");
    return kvsi_claims_check(out);
}

const kvsi_experiment kvsi_repro_benchmarks = {
    .about =
        {
            .name = "benchmarks",
            .figure = "Tables 2, 3, Fig. QKV b, c",
            .claim = "KV shifting scores higher on benchmarks at every number of tokens; shifting "
                     "queries too scores lower.",
            .settings =
                {"a tiny model, 9 steps on a made-up language, four documents a task: shows that "
                 "everything works and nothing else",
                 "0.8 million parameters, 1.6 million tokens, vocabulary 4096, windows of 512 "
                 "tokens, cosine rate from 2e-3; models of this size guess where there are "
                 "choices, "
                 "so claims are about likelihoods",
                 "the paper's 2.9B model, batch, rate and 500 billion tokens",
                 "1.8 million parameters, 20 million tokens of prose and encyclopaedia (0.35 "
                 "epochs), vocabulary 4096, windows of 512 tokens, cosine rate from 2e-3; models "
                 "of "
                 "this size guess where there are choices, so claims are about likelihoods"},
            .seeds = {1, 3, 1, 5},
            .learns_text = 1,
            .scores_benchmarks = 1,
        },
    .plan = plan,
    .measure = measure,
    .conclude = conclude,
};
