/* kvshift repro: runs an experiment of the paper. */
#include "cli/cli.h"
#include "cli/configs.h"
#include "cli/progress.h"
#include "cli/repro.h"
#include "cli/signals.h"
#include "kvshift/kvshift_lab.h"
#include "kvshift/kvshift_mpi.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

typedef struct settings {
    const char *scale, *out, *reuse, *cpu_level, *model, *precision;
    double dropout;
    size_t seeds, threads;
    kvsi_text_list text;
    int resume, dry_run, json, quiet;
} settings;

static const char *const scales[] = {"smoke", "desk", "paper", NULL};

/* clang-format off */
static const kvsi_setting rows[] = {
    {.name = "scale", .kind = KVSI_SETTING_CHOICE, .offset = offsetof(settings, scale),
     .group = "Experiment", .placeholder = "SCALE", .choices = scales, .value = "smoke",
     .help = "size of the experiment"},
    {.name = "seeds", .kind = KVSI_SETTING_SIZE, .offset = offsetof(settings, seeds),
     .group = "Experiment", .placeholder = "N", .high = 64,
     .help = "runs of each arm, with seeds 1 to N", .automatic = "see 'kvshift repro list --json'"},
    {.name = "text", .kind = KVSI_SETTING_TEXT, .offset = offsetof(settings, text),
     .group = "Experiment", .placeholder = "PATH", .repeats = 1,
     .help = "text for language models: a text, .jsonl or .json file (also .gz, .zst), a folder of "
             "them, or a corpus; may be given several times",
     .automatic = "at scale smoke a synthetic language"},
    {.name = "model", .kind = KVSI_SETTING_TEXT, .offset = offsetof(settings, model),
     .group = "Experiment", .placeholder = "MODEL",
     .help = "hop-k: measure this trained model instead of training", .automatic = "none"},
    {.name = "dropout", .kind = KVSI_SETTING_REAL, .offset = offsetof(settings, dropout),
     .group = "Experiment", .placeholder = "X", .high = 0.99,
     .help = "dropout while that model is measured"},
    {.name = "precision", .kind = KVSI_SETTING_CHOICE, .offset = offsetof(settings, precision),
     .group = "Experiment", .placeholder = "NAME", .choice_at = kvsi_precision_choice,
     .value = "f32", .help = "precision of products of matrices, in all runs"},
    {.name = "out", .letter = 'o', .kind = KVSI_SETTING_TEXT, .offset = offsetof(settings, out),
     .group = "Experiment", .placeholder = "DIR", .help = "folder for all results",
     .automatic = "repro/NAME-SCALE"},
    {.name = "resume", .kind = KVSI_SETTING_FLAG, .offset = offsetof(settings, resume),
     .group = "Experiment",
     .help = "continue the experiment in --out: keep finished runs, resume others"},
    {.name = "reuse", .kind = KVSI_SETTING_TEXT, .offset = offsetof(settings, reuse),
     .group = "Experiment", .placeholder = "DIR",
     .help = "use finished runs of the experiments in this folder that have the same settings",
     .automatic = "none"},
    {.name = "dry-run", .kind = KVSI_SETTING_FLAG, .offset = offsetof(settings, dry_run),
     .group = "Experiment", .help = "print the runs, and the memory and work they need, and exit"},
    {.name = "threads", .kind = KVSI_SETTING_SIZE, .offset = offsetof(settings, threads),
     .group = "Run", .placeholder = "N", .high = 4096, .help = "number of threads",
     .automatic = "every core"},
    {.name = "cpu-level", .kind = KVSI_SETTING_TEXT, .offset = offsetof(settings, cpu_level),
     .group = "Run", .placeholder = "NAME", .help = "CPU level of the kernels",
     .automatic = "auto"},
    {.name = "json", .kind = KVSI_SETTING_FLAG, .offset = offsetof(settings, json), .group = "Run",
     .help = "print the results as JSON"},
    {.name = "quiet", .letter = 'q', .kind = KVSI_SETTING_FLAG, .offset = offsetof(settings, quiet),
     .group = "Run", .help = "no progress on standard error"},
};
/* clang-format on */

static const kvsi_command_options options = {
    .command = "kvshift repro",
    .purpose = "Runs an experiment of the paper and compares the results with those of the paper.",
    .notes =
        "'kvshift repro list' prints the experiments, 'kvshift repro report DIR' puts finished "
        "ones on\none page.\n"
        "\n"
        "Scales: smoke takes seconds and only tests that everything works; desk takes minutes "
        "on two\ncores and is as small as the claim allows; paper has the paper's settings, "
        "for a cluster (see\n--dry-run).\n"
        "\n"
        "The folder then holds results.json, page.html, page.md, figures as SVG and CSV, and "
        "the runs.\n--resume continues an experiment that was interrupted.  Under mpirun the "
        "runs are divided among\nthe ranks, which must share the folder.",
    .argument = "NAME",
    .min_arguments = 1,
    .max_arguments = 1,
    .tables = KVSI_OPTIONS(rows),
};

/* ---- progress -------------------------------------------------------------------------------- */

typedef struct watcher {
    kvsi_train_progress progress;
    int quiet, open;
    double loss, accuracy; /* of the last step */
} watcher;

static void begin_run(watcher *w, const kvs_repro_progress *p)
{
    if (!w->quiet && isatty(STDERR_FILENO))
        fprintf(stderr, "%zu of %zu: %s, seed %" PRIu64 "\n", p->index + 1, p->count, p->run->arm,
                p->run->seed);
    kvsi_train_progress_start(&w->progress, p->run->steps, 0, w->quiet || !isatty(STDERR_FILENO));
    w->open = 1;
}

/* The line is written by one call, because other ranks write to the same stream. */
static void end_run(watcher *w, const kvs_repro_progress *p)
{
    char loss[32] = "diverged", accuracy[32] = "", left[32], rest[64] = "";

    kvsi_progress_end(&w->progress.line);
    w->open = 0;
    if (w->quiet)
        return;
    if (p->run->state != KVS_RUN_DIVERGED) {
        snprintf(loss, sizeof loss, "loss %.4f", w->loss);
        if (!isnan(w->accuracy))
            snprintf(accuracy, sizeof accuracy, ", accuracy %.1f %%", 100 * w->accuracy);
    }
    if (p->index + 1 < p->count && isfinite(p->seconds_left)) {
        kvsi_format_duration(left, sizeof left, p->seconds_left);
        snprintf(rest, sizeof rest, "; about %s left", left);
    }
    fprintf(stderr, "%zu of %zu  %s: %s%s%s\n", p->index + 1, p->count, p->run->name, loss,
            accuracy, rest);
}

static int on_progress(void *user, const kvs_repro_progress *p)
{
    watcher *w = user;

    if (p->record) {
        kvsi_train_progress_step(&w->progress, p->record);
        w->loss = p->record->loss;
        w->accuracy = p->record->accuracy;
    } else if (w->open) {
        end_run(w, p);
    } else {
        begin_run(w, p);
    }
    return kvsi_stop_signal() != 0;
}

static void on_notice(void *user, const char *line)
{
    watcher *w = user;

    if (w->open)
        kvsi_progress_clear(&w->progress.line);
    fprintf(stderr, "kvshift: %s\n", line);
}

/* ---- one experiment -------------------------------------------------------------------------- */

static void print_amount(const char *what, double amount, const char *unit)
{
    char words[32];

    kvsi_format_count(words, sizeof words, amount);
    fprintf(stdout, "%s %s%s", what, words, unit);
}

static void print_runs(const kvs_repro *repro)
{
    static const char *const states[] = {"", ", begun", ", done", ", diverged"};
    const kvs_planned_run *run;

    for (size_t i = 0; (run = kvs_repro_run_at(repro, i)); i++) {
        printf("%-44s", run->name);
        print_amount("", (double)run->parameters, " parameters,");
        print_amount("", (double)run->steps, " steps,");
        print_amount("", run->tokens, " tokens,");
        print_amount("", run->flops, "FLOP,");
        print_amount("", run->bytes, "B");
        printf("%s\n", states[run->state]);
    }
}

/* Prints the experiment and an estimate of its time. */
static void announce(FILE *stream, const kvs_repro *repro, const kvs_repro_options *o, size_t ranks)
{
    const kvs_experiment *e = kvs_repro_experiment(repro);
    size_t runs = 0, left = 0;
    double flops = 0;
    char work[32], duration[32];

    for (const kvs_planned_run *run; (run = kvs_repro_run_at(repro, runs)); runs++) {
        left += run->state <= KVS_RUN_BEGUN;
        flops += run->state <= KVS_RUN_BEGUN ? run->flops : 0;
    }
    fprintf(stream, "%s (%s), scale %s\n  claim: %s\n  here:  %s\n", e->name, e->figure,
            kvs_scale_name(o->scale), e->claim, e->settings[o->scale]);
    if (runs == 0)
        return;
    kvsi_format_count(work, sizeof work, flops);
    kvsi_format_duration(duration, sizeof duration, kvs_repro_seconds(repro));
    fprintf(stream, "  plan:  %zu of %zu runs to do, ", left, runs);
    if (ranks > 1)
        fprintf(stream, "split over %zu ranks, ", ranks);
    fprintf(stream, "%sFLOP, about %s on %s\n", work, duration,
            ranks > 1 ? "machines like that of rank 0" : "this machine");
}

static json_t *claim_to_json(const kvs_claim *c)
{
    return json_pack("{s:s, s:s, s:o, s:s, s:o, s:I, s:s, s:s}", "claim", c->claim, "paper",
                     c->paper, "ours", kvsi_json_number(c->ours), "unit", c->unit, "stderr",
                     kvsi_json_number(c->error), "seeds", (json_int_t)c->seeds, "verdict",
                     kvs_verdict_name(c->verdict), "detail", c->detail);
}

static kvs_status print_json(const kvs_repro *repro, const kvs_repro_options *o, kvs_err *err)
{
    json_t *claims = json_array();

    for (size_t i = 0; kvs_repro_claim(repro, i); i++)
        json_array_append_new(claims, claim_to_json(kvs_repro_claim(repro, i)));
    return kvsi_cli_print_json(
        json_pack("{s:s, s:s, s:s, s:o}", "experiment", kvs_repro_experiment(repro)->name, "scale",
                  kvs_scale_name(o->scale), "out", o->out, "results", claims),
        err);
}

static void print_claims(const kvs_repro *repro, const kvs_repro_options *o)
{
    const kvs_claim *c;

    for (size_t i = 0; (c = kvs_repro_claim(repro, i)); i++) {
        printf("%-18s %s\n", kvs_verdict_name(c->verdict), c->claim);
        printf("%-18s paper: %s; ours: ", "", c->paper);
        if (isnan(c->ours))
            printf("not measured");
        else
            printf("%.5g", c->ours);
        if (!isnan(c->error))
            printf(" ± %.2g", c->error);
        printf("%s%s", *c->unit ? " " : "", c->unit);
        printf("%s%s%s\n", *c->detail ? " (" : "", c->detail, *c->detail ? ")" : "");
    }
    printf("\npage    %s/page.html\nresults %s/results.json\n", o->out, o->out);
}

static kvs_status run(kvs_repro *repro, const kvs_repro_options *o, const settings *s,
                      const kvs_comm *comm, kvs_err *err)
{
    const int is_first = kvs_comm_rank(comm) == 0;
    int finished = 0;
    kvs_status st;

    if (!s->quiet && is_first)
        announce(stderr, repro, o, kvs_comm_size(comm));
    kvsi_catch_stop();
    TRY_OUT(kvs_repro_run(&finished, repro, err));
    if (!is_first)
        goto out;
    if (!finished)
        fprintf(stderr, "stopped; --resume continues from there\n");
    else if (s->json)
        TRY_OUT(print_json(repro, o, err));
    else
        print_claims(repro, o);
out:
    return st;
}

static kvs_status reproduce(void *data, const kvsi_call *call, kvs_err *err)
{
    const settings *s = data;
    const char *name = call->parsed->arguments[0];
    kvs_comm *comm = call->comm;
    watcher watch = {.quiet = s->quiet};
    kvsi_text out = {0};
    kvs_repro_options o = {
        .seeds = s->seeds,
        .resume = s->resume,
        .reuse = s->reuse,
        .texts = s->text.texts,
        .text_count = s->text.count,
        .model = s->model,
        .dropout = s->dropout,
        .precision = s->precision,
        .command = call->line,
        .progress = on_progress,
        .notice = on_notice,
        .user = &watch,
    };
    const kvs_runtime_options runtime = {
        .size = sizeof(kvs_runtime_options),
        .threads = (int)s->threads,
        .cpu_level = s->cpu_level,
        .comm = comm,
    };
    kvs_runtime *rt = NULL;
    kvs_repro *repro = NULL;
    kvs_status st;

    TRY_OUT(kvs_scale_parse(&o.scale, s->scale, err));
    TRY_OUT(kvs_runtime_create(&rt, &runtime, err));
    if (s->out)
        kvsi_text_add(&out, s->out);
    else
        kvsi_text_format(&out, "repro/%s-%s", name, s->scale);
    TRY_OUT(kvsi_text_check(&out, err));
    o.out = s->dry_run && !s->resume ? NULL : out.data;
    st = kvs_repro_create(&repro, rt, name, &o, err);
    TRY_OUT(kvs_comm_agree(comm, st, err));
    if (!s->dry_run) {
        TRY_OUT(run(repro, &o, s, comm, err));
    } else if (kvs_comm_rank(comm) == 0) {
        announce(stdout, repro, &o, kvs_comm_size(comm));
        print_runs(repro);
    }
out:
    kvs_repro_free(repro);
    kvs_runtime_free(rt);
    kvsi_text_release(&out);
    return st;
}

/* The settings of the experiment at every scale. */
static void add_help(kvsi_text *text, const char *argument)
{
    for (size_t i = 0; argument && kvs_experiment_at(i); i++) {
        const kvs_experiment *e = kvs_experiment_at(i);

        if (strcmp(e->name, argument) != 0)
            continue;
        kvsi_text_format(text, "\n%s, %s: %s\n", e->name, e->figure, e->claim);
        for (int s = 0; s < KVS_SCALES; s++)
            kvsi_text_format(text, "  --scale %s, %zu seed%s: %s\n", kvs_scale_name((kvs_scale)s),
                             e->seeds[s], e->seeds[s] == 1 ? "" : "s", e->settings[s]);
        kvsi_text_format(text,
                         "'kvshift repro %s --scale desk --dry-run' estimates the time on this "
                         "machine.\n",
                         e->name);
    }
}

const kvsi_command kvsi_cmd_repro = {
    .name = "repro",
    .summary = "run the paper's experiments and compare the results",
    .options = &options,
    .settings_size = sizeof(settings),
    .run = reproduce,
    .add_help = add_help,
    .on_ranks = 1,
    .verbs = (const kvsi_command *const[]){&kvsi_repro_list, &kvsi_repro_report, NULL},
};
