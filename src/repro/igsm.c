/* iGSM: problems with more operations than those of the training. */
#include "config/config.h"
#include "data/tasks/tasks.h"
#include "repro/curves.h"
#include "repro/igsm_solve.h"
#include "repro/scales.h"

#include <math.h>
#include <stdio.h>

enum { SETTINGS_MAX = 2 };

typedef struct setting {
    size_t items, trained, tested; /* trained, tested: operations, at most and exactly */
    size_t batch;
    uint64_t steps;
    double weight_decay;
    double vanilla, shifted; /* the paper's scores; 0 = none */
} setting;

typedef struct size {
    setting settings[SETTINGS_MAX];
    size_t setting_count;
    kvsi_body body;
    kvsi_igsm_wording wording;
    int solution_only; /* no loss on the problem text, which saves steps */
    size_t dim, layers, heads, context, accumulate;
    uint64_t warmup;
    double lr;
    size_t problems; /* of the test */
} size;

/* The paper gives no model, batch and steps; these are from the work it follows. */
static const size sizes[KVS_SCALES] = {
    {.settings = {{1, 4, 4, 8, 8, .1, 0, 0}},
     .setting_count = 1,
     .body = KVSI_BODY_LLAMA,
     .wording = KVSI_IGSM_COMPACT,
     .dim = 32,
     .layers = 1,
     .heads = 2,
     .context = 128,
     .accumulate = 1,
     .warmup = 2,
     .lr = 1e-3,
     .problems = 16},
    {.settings = {{2, 6, 8, 32, 3000, .1, 0, 0}},
     .setting_count = 1,
     .body = KVSI_BODY_LLAMA,
     .wording = KVSI_IGSM_COMPACT,
     .solution_only = 1,
     .dim = 128,
     .layers = 3,
     .heads = 4,
     .context = 256,
     .accumulate = 1,
     .warmup = 100,
     .lr = 2e-3,
     .problems = 1000},
    {.settings = {{5, 12, 15, 512, 100000, .05, .8154, .8909},
                  {8, 21, 24, 256, 200000, .03, .8711, .9062}},
     .setting_count = 2,
     .body = KVSI_BODY_GPT2,
     .wording = KVSI_IGSM_FULL,
     .dim = 768,
     .layers = 12,
     .heads = 12,
     .context = 1024,
     .accumulate = 32,
     .warmup = 1000,
     .lr = 2e-4,
     .problems = 1000},
};

static kvsi_igsm_config task_of(const size *s, const setting *t, size_t min_op, size_t max_op)
{
    kvsi_igsm_config c;

    kvsi_igsm_config_init(&c);
    c.wording = s->wording;
    c.solution_only = s->solution_only;
    c.items = t->items;
    c.min_op = min_op;
    c.max_op = max_op;
    c.max_length = s->context;
    return c;
}

static kvs_status plan_arm(kvsi_plan *p, size_t number, int shifted, kvs_err *err)
{
    const size *s = &sizes[p->scale];
    const setting *t = &s->settings[number];
    kvsi_planned run = {.task = kvsi_igsm_task, .value = (double)t->tested};

    kvsi_model_config_init(&run.model);
    kvsi_model_config_set_body(&run.model, s->body);
    kvsi_train_config_init(&run.train);
    run.settings.igsm = task_of(s, t, 1, t->trained);
    kvsi_shift_arm(&run, shifted, s->layers);
    kvsi_name_arm(&run, "%s, Tr%zu-Te%zu", shifted ? "KV shifting" : "vanilla", t->trained,
                  t->tested);
    run.model.positions = KVSI_POSITIONS_ROPE;
    run.model.dim = s->dim;
    run.model.heads = s->heads;
    run.model.context = s->context;
    run.train.steps = t->steps;
    run.train.batch = t->batch;
    run.train.accumulate = s->accumulate;
    run.train.warmup = s->warmup;
    run.train.lr = s->lr;
    run.train.lr_floor = 0.01;
    run.train.schedule = KVSI_SCHEDULE_COSINE;
    run.train.beta2 = 0.98;
    run.train.weight_decay = t->weight_decay;
    run.eval_sequences = s->problems;
    run.eval_every = t->steps / 5;
    return kvsi_plan_add(p, &run, err);
}

static kvs_status plan(kvsi_plan *p, kvs_err *err)
{
    for (size_t i = 0; i < sizes[p->scale].setting_count; i++) {
        TRY(plan_arm(p, i, 1, err));
        TRY(plan_arm(p, i, 0, err));
    }
    return KVS_OK;
}

/* ---- measuring models ------------------------------------------------------------------------ */

static json_t *score_to_json(const kvsi_igsm_score *s)
{
    return json_pack("{s:I, s:I, s:I, s:I, s:I}", "problems", (json_int_t)s->problems, "solved",
                     (json_int_t)s->solved, "first_right", (json_int_t)s->first_right,
                     "asked_missing", (json_int_t)s->asked_missing, "strict",
                     (json_int_t)s->strict);
}

static kvs_status solve(json_t **out, const kvsi_finished *run, size_t min_op, size_t max_op,
                        kvs_err *err)
{
    kvsi_igsm_config config = run->plan->settings.igsm;
    kvs_data *task = NULL;
    kvsi_igsm_score score;
    kvs_status st;

    config.min_op = min_op;
    config.max_op = max_op;
    TRY_OUT(kvsi_igsm_create(&task, &config, err));
    TRY_OUT(
        kvsi_igsm_solve(&score, run->model, task, run->plan->seed, run->plan->eval_sequences, err));
    *out = score_to_json(&score);
out:
    kvs_data_free(task);
    return st;
}

/* Solves longer problems than those of the training, and problems like those. */
static kvs_status measure(json_t **out, const kvsi_finished *run, kvs_err *err)
{
    const kvsi_igsm_config *trained = &run->plan->settings.igsm;
    const size_t tested = (size_t)run->plan->value;
    json_t *longer = NULL, *same = NULL;
    kvs_status st;

    TRY_OUT(solve(&longer, run, tested, tested, err));
    TRY_OUT(solve(&same, run, trained->min_op, trained->max_op, err));
    *out = json_pack("{s:O, s:O}", "tested", longer, "trained", same);
    if (!*out)
        st = kvsi_fail(err, KVS_E_NOMEM, "out of memory for '%s'", run->dir);
out:
    json_decref(longer);
    json_decref(same);
    return st;
}

/* ---- conclusions ----------------------------------------------------------------------------- */

/* Percent of the problems with a grade. */
static double share(const kvsi_run_result *run, const char *which, const char *grade)
{
    const json_t *score = json_object_get(run->measured, which);

    return 100 * json_number_value(json_object_get(score, grade)) /
           json_number_value(json_object_get(score, "problems"));
}

static double solved(const kvsi_run_result *run)
{
    return share(run, "tested", "solved");
}

static double strict(const kvsi_run_result *run)
{
    return share(run, "tested", "strict");
}

static double missing(const kvsi_run_result *run)
{
    return share(run, "tested", "asked_missing");
}

static double solved_short(const kvsi_run_result *run)
{
    return share(run, "trained", "solved");
}

static double strict_short(const kvsi_run_result *run)
{
    return share(run, "trained", "strict");
}

/* A model that cannot solve problems like those of the training decides nothing on longer ones: two
 * arms that mostly guess may differ too. */
static int has_learned(const kvsi_arm_result *arm)
{
    return kvsi_arm_estimate(arm, solved_short).mean >= 50;
}

static void claim(kvsi_claims *out, const kvsi_results *results, size_t number, kvsi_metric *metric,
                  const char *how)
{
    const setting *t = &sizes[results->plan->scale].settings[number];
    const kvsi_arm_result kv = kvsi_results_arm(results, 2 * number),
                          vanilla = kvsi_results_arm(results, 2 * number + 1);
    const kvsi_comparison c = kvsi_compare(results, 2 * number + 1, 2 * number, metric);
    const int learned = has_learned(&kv) || has_learned(&vanilla);
    char words[160], paper[96], chance[32];
    kvsi_claim claim;

    snprintf(words, sizeof words, "Tr%zu-Te%zu: KV shifting solves more problems, %s", t->trained,
             t->tested, how);
    if (t->vanilla > 0)
        snprintf(paper, sizeof paper, "+%.1f points (%.4f to %.4f)",
                 100 * (t->shifted - t->vanilla), t->vanilla, t->shifted);
    else
        snprintf(paper, sizeof paper, "+7.6 points at Tr12-Te15, +3.5 at Tr21-Te24");
    claim = kvsi_claim_of_test(&c.test, words, metric == solved ? paper : "not measured",
                               "percentage points",
                               learned ? kvsi_sign_outcome(&c.test, -1) : KVSI_OPEN);
    claim.ours = 0 - claim.ours; /* KV shifting minus vanilla; not -0 where nothing differs */
    snprintf(chance, sizeof chance, "p = %.2g", c.test.p);
    kvsi_claims_add_test(out, &claim, "%.1f %% against %.1f %%, more for %zu of %zu; %s", c.theirs,
                         c.ours, c.test.below, claim.seeds,
                         learned ? chance : "neither solves half of what it was trained on");
}

static void tabulate(kvsi_claims *out, const kvsi_results *results)
{
    static kvsi_metric *const columns[] = {solved, strict, missing, solved_short, strict_short};
    kvsi_table table = {.left = 1};

    kvsi_table_headings(&table, "arm|solved|every step right|asked for and missing|solved, as "
                                "trained on|every step right, as trained on");
    for (size_t a = 0; a < 2 * sizes[results->plan->scale].setting_count; a++) {
        const kvsi_arm_result arm = kvsi_results_arm(results, a);

        kvsi_table_add(&table, "%s", arm.name);
        for (size_t c = 0; c < sizeof columns / sizeof *columns; c++) {
            const kvsi_estimate e = kvsi_arm_estimate(&arm, columns[c]);

            kvsi_table_estimate(&table, &e, 1, " %");
        }
    }
    kvsi_claims_table(out, "scores",
                      "Share of new problems, on average over the seeds ± standard error: of "
                      "those that are longer than trained on, then of such as were trained on. "
                      "Solved, as the paper counts, is a problem where some step computes what "
                      "is asked and gets it right.",
                      &table);
}

static void draw(kvsi_claims *out, const kvsi_results *results)
{
    kvsi_chart chart = {
        .name = "accuracy",
        .caption = "Share of the asked numbers that are predicted right, given the right solution "
                   "up to there, against training step (logarithmic); mean of 20 batches, then "
                   "over the seeds, with the standard error.",
    };

    for (size_t i = 0; i < sizes[results->plan->scale].setting_count; i++) {
        kvsi_panel_of_accuracy(&chart, "", "accuracy");
        for (size_t a = 0; a < 2; a++) {
            const kvsi_arm_result arm = kvsi_results_arm(results, 2 * i + a);

            kvsi_accuracy_of_arm(&chart, a, &arm, arm.name);
        }
    }
    kvsi_claims_chart(out, &chart);
}

static kvs_status conclude(kvsi_claims *out, const kvsi_results *results, kvs_err *err)
{
    (void)err;
    for (size_t i = 0; i < sizes[results->plan->scale].setting_count; i++) {
        claim(out, results, i, solved, "as the paper counts");
        claim(out, results, i, strict, "with every step right");
    }
    tabulate(out, results);
    draw(out, results);
    return kvsi_claims_check(out);
}

const kvsi_experiment kvsi_repro_igsm = {
    .about =
        {
            .name = "igsm",
            .figure = "Table iGSM",
            .claim = "Trained on problems of few operations, models with KV shifting solve more "
                     "problems of more operations.",
            .settings =
                {"problems of 4 parameters in compact words, width 32, 8 steps: shows that "
                 "everything works and nothing else",
                 "trained on up to 6 parameters and tested on 8 instead of 12 and 15, or 21 and "
                 "24; compact words; learnt from solutions alone; width 128 and 3 layers instead "
                 "of 768 and 12, 3000 steps of 32 problems, rate 2e-3; 1000 new problems to test "
                 "with",
                 "Tr12-Te15 and Tr21-Te24, context 1024, rate 2e-4; operations are parameters, "
                 "tokens are words; model, batch, steps and decay are those of the work that the "
                 "paper follows (12 layers, width 768), as it does not say its own"},
            .seeds = {1, 3, 1},
        },
    .plan = plan,
    .measure = measure,
    .conclude = conclude,
};
