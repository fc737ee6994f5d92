/* kvshift train: one training run.
 *
 * All objects are created and checked first; kvs_train creates the run's folder last. */
#include "base/clock.h"
#include "cli/cli.h"
#include "cli/progress.h"
#include "cli/signals.h"
#include "cli/train_benchmarks.h"
#include "cli/train_folder.h"
#include "cli/train_output.h"
#include "cli/train_records.h"
#include "cli/train_samples.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

/* ---- the run --------------------------------------------------------------------------------- */

static const char *plural(size_t count)
{
    return count == 1 ? "" : "s";
}

static void announce_model(const kvsi_train_setup *w, const kvsi_train_options *s)
{
    const kvs_model_config *model = s->model;
    const size_t layers = kvsi_model_count(model, "layers"), dim = kvsi_model_count(model, "dim"),
                 heads = kvsi_model_count(model, "heads"),
                 window = kvsi_model_count(model, "shift-window");
    const int shifted = kvsi_shift_targets(model) != 0;
    char parameters[32];

    kvsi_format_count(parameters, sizeof parameters, (double)kvs_model_parameters(w->model));
    fprintf(stderr, "model: %s, %s parameters, %zu layer%s, dim %zu, %zu head%s, shift %s",
            kvsi_model_word(model, "body").text, parameters, layers, plural(layers), dim, heads,
            plural(heads), kvsi_model_word(model, "shift").text);
    if (shifted && !kvsi_model_is(model, "shift-form", "free"))
        fprintf(stderr, " %s", kvsi_model_word(model, "shift-form").text);
    if (shifted && window > 1)
        fprintf(stderr, " window %zu", window);
    if (s->init_from)
        fprintf(stderr, ", from %s", s->init_from);
    fprintf(stderr, "\n");
}

static void announce_task(const kvsi_train_setup *w, const kvsi_train_options *s)
{
    const kvs_task_config *task = kvsi_train_task(s);

    fprintf(stderr, "task: %s, ", s->task);
    if (kvsi_train_is_task(s, "ngram"))
        fprintf(stderr, "%zu pairs from an alphabet of %zu, %zu answers",
                kvsi_task_count(task, "pairs"), kvsi_task_count(task, "alphabet"),
                kvsi_task_count(task, "answers"));
    else if (kvsi_train_is_task(s, "hopk"))
        fprintf(stderr, "%zu letters of %zu, up to %zu hops", kvsi_task_count(task, "string"),
                kvsi_task_count(task, "letters"), kvsi_task_count(task, "hops"));
    else if (kvsi_train_is_task(s, "igsm"))
        fprintf(stderr, "mode %s, %zu to %zu operations, %zu tokens",
                kvsi_task_word(task, "mode").text, kvsi_task_count(task, "min-op"),
                kvsi_task_count(task, "max-op"), kvs_data_vocab(w->data));
    else
        fprintf(stderr, "vocabulary %zu, pool %zu", kvsi_model_count(s->model, "vocab"),
                kvsi_task_count(task, "pool"));
}

/* Memory, work and time, for runs of more than about a second. */
static void announce_plan(const kvs_plan *plan, const kvsi_train_setup *w,
                          const kvsi_train_options *s, uint64_t first_step)
{
    static const double SHORT = 1e11;
    const uint64_t steps = kvsi_train_count(s->train, "steps") - first_step + 1;
    const double flops = kvsi_train_flops(plan, (double)steps);
    char memory[32], work[32], time[32];

    if (flops < SHORT)
        return;
    kvsi_format_count(memory, sizeof memory, (double)plan->total_bytes);
    kvsi_format_count(work, sizeof work, flops);
    kvsi_format_duration(time, sizeof time, kvsi_train_seconds(plan, w, s, (double)steps));
    fprintf(stderr,
            "plan: %sB of memory, %sFLOP in %" PRIu64 " steps, about %s on an idle machine\n",
            memory, work, steps, time);
}

static void announce(const kvs_plan *plan, const kvsi_train_setup *w, const kvsi_train_options *s,
                     uint64_t first_step)
{
    const int threads = kvs_runtime_threads(w->rt);
    const size_t ranks = kvs_comm_size(w->comm);
    const uint64_t batch = kvsi_train_count(s->train, "batch");

    if (first_step > 1)
        fprintf(stderr, "resumed after step %" PRIu64 " of %s\n", first_step - 1, s->out);
    announce_model(w, s);
    if (kvsi_train_has_conversations(w))
        fprintf(stderr, "text: %s, conversations of at most %zu tokens", s->data,
                kvsi_train_sequence_tokens(s));
    else if (s->data)
        fprintf(stderr, "text: %s, windows of %zu tokens", s->data, kvsi_train_sequence_tokens(s));
    else
        announce_task(w, s);
    if (ranks > 1)
        fprintf(stderr, "; %zu ranks, %" PRIu64 " sequences per step each", ranks, batch / ranks);
    fprintf(stderr, "; %d thread%s, cpu level %s\n", threads, plural((size_t)threads),
            kvs_runtime_cpu_level(w->rt));
    announce_plan(plan, w, s, first_step);
    if (!s->out)
        fprintf(stderr, "nothing is saved: --out none\n");
    else if (*s->default_out)
        fprintf(stderr, "the run is saved in %s\n", s->out);
}

/* The state of the callbacks. */
typedef struct callbacks {
    const kvsi_train_setup *w;
    const kvsi_train_options *s;
    kvsi_train_progress progress;
    kvsi_train_samples samples;
    kvsi_train_benchmarks benchmarks;
    uint64_t steps; /* of the whole run */
    double started; /* clock seconds */
    int announced, time_is_up;
    kvsi_train_profile profile;
    kvs_plan plan;
} callbacks;

static int is_time_up(const callbacks *c)
{
    const double limit = 60 * c->s->max_time;

    return limit > 0 && kvsi_clock_seconds() - c->started >= limit;
}

/* Only rank 0 prints. */
static int is_silent(const callbacks *c)
{
    return c->s->quiet || kvs_comm_rank(c->w->comm) > 0;
}

/* The run is described after its first step: if it cannot start, only the error is printed. */
static int on_step(void *user, const kvs_step_record *record)
{
    callbacks *c = user;
    int request;

    if (!c->announced && !is_silent(c))
        announce(&c->plan, c->w, c->s, record->step);
    c->announced = 1;
    kvsi_train_progress_step(&c->progress, record);
    kvsi_train_profile_add(&c->profile, record);
    c->time_is_up = record->step < c->steps && is_time_up(c);
    request = kvsi_stop_signal() || c->time_is_up ? KVS_PROGRESS_STOP : 0;
    request |= kvsi_take_save_signal() ? KVS_PROGRESS_SAVE : 0;
    return request;
}

/* A failed sample is reported; training continues. */
static void on_sample(void *user, const kvs_model *model, uint64_t step, kvs_sample *out)
{
    callbacks *c = user;
    kvs_err err;

    kvsi_progress_clear(&c->progress.line);
    if (kvsi_train_samples_make(&c->samples, model, out, &err) != KVS_OK)
        fprintf(stderr, "kvshift: no sample of step %" PRIu64 ": %s\n", step, err.message);
    else if (!c->s->quiet)
        kvsi_train_samples_print(step, out);
}

/* A failed evaluation is reported; training continues. */
static int on_benchmark(void *user, const kvs_model *model, uint64_t step,
                        kvs_benchmark_scores *out)
{
    callbacks *c = user;
    kvs_err err;

    kvsi_progress_clear(&c->progress.line);
    if (kvsi_train_benchmarks_score(&c->benchmarks, model, out, &err) != KVS_OK)
        fprintf(stderr, "kvshift: no benchmarks of step %" PRIu64 ": %s\n", step, err.message);
    else if (!c->s->quiet)
        kvsi_train_benchmarks_print(step, out);
    return kvsi_stop_signal() ? KVS_PROGRESS_STOP : 0;
}

static void on_notice(void *user, const char *line)
{
    callbacks *c = user;

    kvsi_progress_clear(&c->progress.line);
    fprintf(stderr, "kvshift: %s\n", line);
}

static kvs_resume resume_of(const kvsi_train_options *s)
{
    if (!s->resume)
        return KVS_RESUME_NEVER;
    return strcmp(s->resume, "auto") == 0 ? KVS_RESUME_AUTO : KVS_RESUME_ALWAYS;
}

static void report_stop(const callbacks *c, const kvs_train_result *result)
{
    const char *saved = c->s->out ? "; --resume continues from there" : "";

    if (kvsi_stop_signal())
        fprintf(stderr, "stopped by %s after step %" PRIu64 "%s\n", kvsi_stop_signal_name(),
                result->steps, saved);
    else if (c->time_is_up)
        fprintf(stderr, "stopped after %g minutes (--max-time), after step %" PRIu64 "%s\n",
                c->s->max_time, result->steps, saved);
}

/* Epochs per step: batch / sequences of the training split.  0 = not training on text. */
static double epochs_of_step(const kvsi_train_setup *w, const kvsi_train_options *s)
{
    const uint64_t windows = kvsi_train_sequences(w, s);

    return windows > 0 ? kvs_train_config_number(s->train, "batch") / (double)windows : 0;
}

static kvs_status train(const kvsi_train_setup *w, const kvsi_train_options *s, const char *line,
                        const kvsi_run_files *files, kvs_err *err)
{
    callbacks c = {.w = w,
                   .s = s,
                   .steps = kvsi_train_count(s->train, "steps"),
                   .started = kvsi_clock_seconds()};
    kvs_train_result result = {.size = sizeof result};
    kvs_train_options options;
    kvs_status st;

    kvs_train_options_init(&options, sizeof options);
    options.out = s->out;
    options.command = line;
    options.files = files->list;
    options.file_count = files->count;
    options.tokenizer = w->tokenizer;
    options.resume = resume_of(s);
    options.progress = on_step;
    options.sample = on_sample;
    options.benchmark = on_benchmark;
    options.notice = on_notice;
    options.user = &c;
    st = kvs_train_plan(&c.plan, w->rt, s->model, w->data, s->train, err);
    if (st == KVS_OK)
        st = kvsi_train_samples_init(&c.samples, w, s, err);
    if (st == KVS_OK)
        st = kvsi_train_benchmarks_init(&c.benchmarks, w, s, err);
    TRY_OUT(kvs_comm_agree(w->comm, st, err));
    c.profile.planned = (double)c.plan.total_bytes;
    kvsi_catch_stop();
    kvsi_catch_save();
    if (w->records.split[KVS_SPLIT_TRAIN].records > 0 && !is_silent(&c))
        kvsi_train_announce_records(w, s);
    kvsi_train_progress_start(&c.progress, c.steps, epochs_of_step(w, s), is_silent(&c));
    st = kvs_train(&result, w->model, w->data, s->train, &options, err);
    kvsi_progress_end(&c.progress.line);
    TRY_OUT(st);
    if (!is_silent(&c))
        report_stop(&c, &result);
    if (kvs_comm_rank(w->comm) == 0)
        st = kvsi_train_print_result(w, s, &result, &c.profile, err);
out:
    kvsi_train_samples_release(&c.samples);
    kvsi_train_benchmarks_release(&c.benchmarks);
    return st;
}

/* Sets everything up, then trains, or prints the plan or samples of the task. */
static kvs_status run(void *data, const kvsi_call *call, kvs_err *err)
{
    kvsi_train_options *s = data;
    kvsi_train_options before = {0};
    kvsi_train_setup w = {.comm = call->comm};
    kvsi_run_files files = {0};
    kvs_status st;

    kvs_comm_set_timeout(call->comm, 60 * s->rank_timeout);
    TRY_OUT(kvsi_options_copy(&kvsi_train_command, &before, s, sizeof before, err));
    if (s->out && strcmp(s->out, "none") == 0) {
        s->out = NULL;
    } else if (!s->out && !s->resume && !s->dry_run && s->show == 0) {
        kvsi_default_run(s->default_out, s->data ? s->data : s->task);
        s->out = s->default_out;
    }
    TRY_OUT(kvsi_train_setup_create(&w, s, call->parsed, err));
    if (s->dry_run) {
        st = kvs_comm_agree(call->comm, kvsi_train_print_plan(&w, s, err), err);
        goto out;
    }
    if (s->show > 0) {
        TRY_OUT(kvsi_train_print_sequences(&w, s, err));
        goto out;
    }
    kvsi_train_mark_sources(s, &before, call->parsed);
    TRY_OUT(kvsi_run_files_make(&files, s, call->parsed, call->line, &w, err));
    TRY_OUT(train(&w, s, call->line, &files, err));
out:
    kvsi_run_files_release(&files);
    kvsi_train_setup_release(&w);
    kvsi_options_free_configs(&kvsi_train_command, &before);
    return st;
}

const kvsi_command kvsi_cmd_train = {
    .name = "train",
    .summary = "train a model on a task or on text",
    .options = &kvsi_train_command,
    .settings_size = sizeof(kvsi_train_options),
    .apply = kvsi_train_options_apply,
    .run = run,
    .on_ranks = 1,
};
