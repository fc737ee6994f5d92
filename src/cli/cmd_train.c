/* kvshift train: one run, from options to a trained model in its folder.
 *
 * Everything is checked and made in memory first; kvs_train creates the folder last. */
#include "cli/cli.h"
#include "cli/progress.h"

#include <inttypes.h>
#include <math.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>

typedef struct train_settings {
    kvs_model_config model;
    kvs_induction_config task;
    kvs_train_config train;
    const char *task_name, *shift, *shift_form, *sampler, *loss, *schedule;
    const char *cpu_level, *out, *init_from;
    size_t threads, eval_sequences;
    uint64_t eval_every;
    int quiet, json;
} train_settings;

/* ---- options --------------------------------------------------------------------------------- */

static const char *const task_names[] = {"induction", NULL};
static const char *const shift_names[] = {"none", "k", "v", "kv", "qkv", NULL};
static const char *const form_names[] = {"free", "gate", "clamp", NULL};
static const char *const schedule_names[] = {"constant", "linear", "cosine", NULL};
/* In the order of their enums. */
static const char *const sampler_names[] = {"direct", "paper", NULL};
static const char *const loss_names[] = {"answer", "all", NULL};

static const char MODEL[] = "Model", TASK[] = "Task", TRAINING[] = "Training", RUN[] = "Run";

#define FIELD(name) offsetof(train_settings, name)
#define FLAG(option, member, in, about)                                                            \
    {                                                                                              \
        .name = (option), .kind = KVSI_OPTION_FLAG, .offset = FIELD(member), .group = (in),        \
        .help = (about)                                                                            \
    }
#define NUMBER(option, type, member, in, about, least, most)                                       \
    {                                                                                              \
        .name = (option), .kind = (type), .offset = FIELD(member), .group = (in),                  \
        .placeholder = "N", .help = (about), .low = (least), .high = (most)                        \
    }
#define SIZE(option, member, in, about, least, most)                                               \
    NUMBER(option, KVSI_OPTION_SIZE, member, in, about, least, most)
#define COUNT(option, member, in, about, least)                                                    \
    NUMBER(option, KVSI_OPTION_UINT64, member, in, about, least, 0)
#define REAL(option, member, in, about, least, most)                                               \
    {                                                                                              \
        .name = (option), .kind = KVSI_OPTION_REAL, .offset = FIELD(member), .group = (in),        \
        .placeholder = "X", .help = (about), .low = (least), .high = (most)                        \
    }
#define CHOICE(option, member, in, about, names)                                                   \
    {                                                                                              \
        .name = (option), .kind = KVSI_OPTION_CHOICE, .offset = FIELD(member), .group = (in),      \
        .placeholder = "NAME", .help = (about), .choices = (names)                                 \
    }
/* 0 or nothing = decided from the rest. */
#define AUTOMATIC_SIZE(option, member, in, about, meaning)                                         \
    {                                                                                              \
        .name = (option), .kind = KVSI_OPTION_SIZE, .offset = FIELD(member), .group = (in),        \
        .placeholder = "N", .help = (about), .automatic = (meaning)                                \
    }
#define TEXT(option, member, in, what, about, meaning)                                             \
    {                                                                                              \
        .name = (option), .kind = KVSI_OPTION_TEXT, .offset = FIELD(member), .group = (in),        \
        .placeholder = (what), .help = (about), .automatic = (meaning)                             \
    }

/* clang-format off */
static const kvsi_option options[] = {
    CHOICE("shift", shift, MODEL, "what is mixed with the tokens before", shift_names),
    CHOICE("shift-form", shift_form, MODEL, "how the mixing numbers are formed", form_names),
    SIZE("shift-window", model.shift.window, MODEL, "tokens before that take part",
         1, KVS_SHIFT_WINDOW_MAX),
    SIZE("layers", model.layers, MODEL, "number of layers", 1, 0),
    SIZE("dim", model.dim, MODEL, "width of the model", 1, 0),
    SIZE("heads", model.heads, MODEL, "attention heads; must divide --dim", 1, 0),
    AUTOMATIC_SIZE("kv-heads", model.kv_heads, MODEL,
                   "heads of keys and values; must divide --heads", "as many as --heads"),
    AUTOMATIC_SIZE("ffn", model.ffn, MODEL, "width of the feed-forward part",
                   "8/3 of --dim, rounded up to 16"),
    AUTOMATIC_SIZE("context", model.context, MODEL, "longest sequence, in tokens",
                   "what the task needs"),
    SIZE("vocab", model.vocab, MODEL, "number of tokens, of model and task", 1, 0),
    REAL("rope-base", model.rope_base, MODEL, "base of the rotary positions", 0, 0),
    REAL("norm-eps", model.norm_eps, MODEL, "epsilon of the norms", 0, 0),
    REAL("init-std", model.init_std, MODEL, "standard deviation of new weights", 0, 0),
    FLAG("tied", model.tied, MODEL, "share the embedding table with the output head"),

    CHOICE("task", task_name, TASK, "what is learned", task_names),
    SIZE("pool", task.pool, TASK, "tokens a sequence draws from; fewer make it shorter", 2, 0),
    SIZE("max-length", task.max_length, TASK, "longest sequence, in tokens", 1, 0),
    CHOICE("sampler", sampler, TASK, "how sequences are drawn, both from one distribution",
           sampler_names),
    CHOICE("loss", loss, TASK, "tokens that are learned from", loss_names),

    COUNT("steps", train.steps, TRAINING, "optimizer steps", 1),
    SIZE("batch", train.batch, TRAINING, "sequences a step", 1, 0),
    SIZE("accumulate", train.accumulate, TRAINING, "parts a batch is computed in; must divide it",
         1, 0),
    REAL("lr", train.lr, TRAINING, "learning rate", 0, 0),
    CHOICE("schedule", schedule, TRAINING, "course of the rate after the warm-up", schedule_names),
    REAL("lr-floor", train.lr_floor, TRAINING, "share of the rate left at the last step", 0, 1),
    COUNT("warmup", train.warmup, TRAINING, "steps over which the rate rises", 0),
    REAL("beta1", train.beta1, TRAINING, "AdamW: decay of the mean gradient", 0, 1),
    REAL("beta2", train.beta2, TRAINING, "AdamW: decay of the mean square", 0, 1),
    REAL("eps", train.eps, TRAINING, "AdamW: epsilon", 0, 0),
    REAL("weight-decay", train.weight_decay, TRAINING, "AdamW: decay of the weights", 0, 0),
    FLAG("shift-decay", train.shift_decay, TRAINING, "also decay the shift's own numbers"),
    REAL("clip", train.clip, TRAINING, "largest gradient norm, 0 = no clipping", 0, 0),
    COUNT("eval-every", eval_every, TRAINING, "steps between evaluations, 0 = only at the end", 0),
    SIZE("eval-sequences", eval_sequences, TRAINING, "fresh sequences an evaluation uses", 1, 0),

    NUMBER("seed", KVSI_OPTION_UINT64, train.seed, RUN, "seed of the weights and of the data",
           0, 999999999999999), /* exact as a JSON number, whoever reads it */
    {.name = "threads", .kind = KVSI_OPTION_SIZE, .offset = FIELD(threads), .group = RUN,
     .placeholder = "N", .help = "number of threads; results do not depend on it",
     .automatic = "every core", .high = 1024},
    TEXT("cpu-level", cpu_level, RUN, "NAME", "processor code to run, see 'kvshift version'",
         "auto"),
    TEXT("out", out, RUN, "DIR", "folder for the model, its log and its result", "keep nothing"),
    TEXT("init-from", init_from, RUN, "DIR",
         "start from the model in this folder, which also sets the model options",
         "random weights"),
    FLAG("quiet", quiet, RUN, "no progress"),
    FLAG("json", json, RUN, "print the result as one JSON object"),
};
/* clang-format on */

static const kvsi_command_options command = {
    .command = "kvshift train",
    .purpose = "Trains a model on a synthetic task and measures it on fresh data.  The folder "
               "--out then holds model.safetensors, config.json, train.jsonl (one record a step) "
               "and result.json.",
    .notes = "SIGINT (Ctrl-C) or SIGTERM ends the run in order after the current step: the model "
             "is\nevaluated and saved, and the exit code is 130 or 143.  A second signal ends it "
             "at once.\nOther exit codes: 0 done, 1 failed, 2 misuse.",
    .options = options,
    .count = sizeof options / sizeof *options,
};

static void set_defaults(train_settings *s)
{
    *s = (train_settings){.eval_sequences = 4096};
    kvs_model_config_init(&s->model);
    kvs_induction_config_init(&s->task);
    kvs_train_config_init(&s->train);
    s->model.vocab = s->task.vocab;
    s->model.layers = 1;
    s->model.dim = 128;
    s->model.heads = 4;
    s->model.kv_heads = 0;
    s->model.context = 0;
    s->train.batch = 128;
    s->train.lr = 1e-3;
    s->train.steps = 1000;
    s->train.warmup = 50;
    s->train.seed = 1;
    s->task_name = task_names[0];
    s->shift = kvs_shift_targets_name(KVS_SHIFT_K | KVS_SHIFT_V);
    s->shift_form = kvs_shift_form_name(s->model.shift.form);
    s->schedule = kvs_schedule_name(s->train.schedule);
    s->sampler = sampler_names[s->task.sampler];
    s->loss = loss_names[s->task.loss];
}

/* Position of a name the parser has already found to be in the list. */
static unsigned index_of(const char *const *names, const char *name)
{
    unsigned i = 0;

    while (names[i] && strcmp(names[i], name) != 0)
        i++;
    return i;
}

/* Turns names into what they stand for. */
static kvs_status resolve_names(train_settings *s, kvs_err *err)
{
    kvs_status st;

    KVS_TRY(kvs_shift_targets_parse(&s->model.shift.targets, s->shift, err));
    KVS_TRY(kvs_shift_form_parse(&s->model.shift.form, s->shift_form, err));
    KVS_TRY(kvs_schedule_parse(&s->train.schedule, s->schedule, err));
    s->task.sampler = (kvs_induction_sampler)index_of(sampler_names, s->sampler);
    s->task.loss = (kvs_loss_rows)index_of(loss_names, s->loss);
out:
    return st;
}

/* ---- model and task -------------------------------------------------------------------------- */

/* Everything a run needs, made in this order and freed in the other. */
typedef struct workshop {
    kvs_runtime *rt;
    kvs_task *task;
    kvs_model *model;
} workshop;

/* An option that was given must say what the loaded model is. */
static kvs_status check_agreement(const kvsi_option *option, const train_settings *given,
                                  const train_settings *loaded, kvs_err *err)
{
    kvsi_text ours = {0}, theirs = {0};
    kvs_status st;

    kvsi_option_print(&ours, option, given);
    kvsi_option_print(&theirs, option, loaded);
    KVS_TRY(kvsi_text_check(&ours, err));
    KVS_TRY(kvsi_text_check(&theirs, err));
    if (strcmp(ours.data, theirs.data) != 0 && !(option->automatic && strcmp(ours.data, "0") == 0))
        st = kvsi_fail(err, KVS_E_INVALID, "option '--%s' is %s, but the model in '%s' has %s",
                       option->name, ours.data, given->init_from, theirs.data);
out:
    kvsi_text_release(&ours);
    kvsi_text_release(&theirs);
    return st;
}

static kvs_status load_model(workshop *w, train_settings *s, const kvsi_parsed_options *parsed,
                             kvs_err *err)
{
    train_settings loaded = *s;
    kvs_status st;

    KVS_TRY(kvs_model_load(&w->model, w->rt, s->init_from, err));
    loaded.model = *kvs_model_get_config(w->model);
    loaded.shift = kvs_shift_targets_name(loaded.model.shift.targets);
    loaded.shift_form = kvs_shift_form_name(loaded.model.shift.form);
    for (size_t i = 0; i < command.count; i++) {
        if (options[i].group == MODEL && parsed->source[i] != KVSI_FROM_DEFAULT)
            KVS_TRY(check_agreement(options + i, s, &loaded, err));
    }
    *s = loaded;
out:
    return st;
}

static kvs_status create_model(workshop *w, train_settings *s, kvs_err *err)
{
    kvs_status st;

    if (s->model.context == 0)
        s->model.context = kvs_task_max_length(w->task);
    KVS_TRY(kvs_model_config_finish(&s->model, err));
    KVS_TRY(kvs_model_create(&w->model, w->rt, &s->model, s->train.seed, err));
out:
    return st;
}

static kvs_status furnish(workshop *w, train_settings *s, const kvsi_parsed_options *parsed,
                          kvs_err *err)
{
    const kvs_runtime_options runtime = {(int)s->threads, s->cpu_level};
    kvs_status st;

    KVS_TRY(resolve_names(s, err));
    KVS_TRY(kvs_train_config_check(&s->train, err));
    KVS_TRY(kvs_runtime_create(&w->rt, &runtime, err));
    if (s->init_from)
        KVS_TRY(load_model(w, s, parsed, err));
    s->task.vocab = s->model.vocab;
    KVS_TRY(kvs_induction_create(&w->task, &s->task, err));
    if (!w->model)
        KVS_TRY(create_model(w, s, err));
out:
    return st;
}

static void clear_away(workshop *w)
{
    kvs_model_free(w->model);
    kvs_task_free(w->task);
    kvs_runtime_free(w->rt);
}

/* ---- the run --------------------------------------------------------------------------------- */

static volatile sig_atomic_t stop_signal;

static void note_signal(int number)
{
    stop_signal = number;
}

/* The first signal asks for an orderly end; after it, the default action is back. */
static void catch_signals(void)
{
    struct sigaction action = {.sa_handler = note_signal, .sa_flags = (int)SA_RESETHAND};

    sigemptyset(&action.sa_mask);
    sigaction(SIGINT, &action, NULL);
    sigaction(SIGTERM, &action, NULL);
}

static void announce(const workshop *w, const train_settings *s)
{
    char parameters[32];

    kvsi_format_count(parameters, sizeof parameters, (double)kvs_model_parameters(w->model));
    fprintf(stderr, "model: %s parameters, %zu layer%s, dim %zu, %zu heads, shift %s%s%s\n",
            parameters, s->model.layers, s->model.layers == 1 ? "" : "s", s->model.dim,
            s->model.heads, s->shift, s->init_from ? ", from " : "",
            s->init_from ? s->init_from : "");
    fprintf(stderr, "task: %s, vocabulary %zu, pool %zu; %d thread%s, cpu level %s\n", s->task_name,
            s->task.vocab, s->task.pool, kvs_runtime_threads(w->rt),
            kvs_runtime_threads(w->rt) == 1 ? "" : "s", kvs_runtime_cpu_level(w->rt));
}

/* What the progress callback needs. */
typedef struct watcher {
    const workshop *w;
    const train_settings *s;
    kvsi_progress progress;
} watcher;

/* The run is announced once it is under way, so that a run that cannot start says only why. */
static int on_step(void *user, const kvs_step_record *record)
{
    watcher *watch = user;

    if (record->step == 1 && !watch->s->quiet)
        announce(watch->w, watch->s);
    kvsi_progress_step(&watch->progress, record);
    return stop_signal != 0;
}

static double token_rate(const kvs_train_result *result)
{
    return result->seconds > 0 ? (double)result->tokens / result->seconds : 0;
}

static kvs_status print_json(const workshop *w, const train_settings *s,
                             const kvs_train_result *result, kvs_err *err)
{
    json_t *const step_at_99 =
        result->step_at_99 ? json_integer((json_int_t)result->step_at_99) : json_null();

    /* clang-format off */
    return kvsi_cli_print_json(
        json_pack("{s:I, s:o, s:o, s:o, s:f, s:I, s:f, s:I, s:I, s:i, s:s, s:s?}",
                  "steps", (json_int_t)result->steps,
                  "final_accuracy", kvsi_json_number(result->final_accuracy),
                  "final_loss", kvsi_json_number(result->final_loss),
                  "step_at_99", step_at_99,
                  "seconds", result->seconds,
                  "tokens", (json_int_t)result->tokens,
                  "tokens_per_s", token_rate(result),
                  "parameters", (json_int_t)kvs_model_parameters(w->model),
                  "seed", (json_int_t)s->train.seed,
                  "threads", kvs_runtime_threads(w->rt),
                  "cpu_level", kvs_runtime_cpu_level(w->rt),
                  "out", s->out),
        err);
    /* clang-format on */
}

static void print_summary(const train_settings *s, const kvs_train_result *result)
{
    char duration[32], rate[32];

    kvsi_format_duration(duration, sizeof duration, result->seconds);
    kvsi_format_count(rate, sizeof rate, token_rate(result));
    printf("accuracy  %.2f %% on %zu fresh sequences (loss %.4f)\n", 100 * result->final_accuracy,
           s->eval_sequences, result->final_loss);
    if (result->step_at_99)
        printf("99 %%      reached at step %" PRIu64 " of %" PRIu64 "\n", result->step_at_99,
               result->steps);
    else
        printf("99 %%      not reached in %" PRIu64 " steps\n", result->steps);
    printf("time      %s, %s tokens/s\n", duration, rate);
    if (s->out)
        printf("files     %s: model.safetensors, config.json, train.jsonl, result.json\n", s->out);
}

static kvs_status train(const workshop *w, const train_settings *s, const char *line, kvs_err *err)
{
    watcher watch = {.w = w, .s = s};
    kvs_train_result result;
    const kvs_train_job job = {
        .model = w->model,
        .task = w->task,
        .config = s->train,
        .eval_every = s->eval_every,
        .eval_sequences = s->eval_sequences,
        .out = s->out,
        .command = line,
        .progress = on_step,
        .user = &watch,
    };
    kvs_status st;

    catch_signals();
    kvsi_progress_start(&watch.progress, s->train.steps, s->quiet);
    st = kvs_train(&job, &result, err);
    kvsi_progress_end(&watch.progress);
    if (st != KVS_OK)
        return st;
    if (stop_signal && !s->quiet)
        fprintf(stderr, "stopped by %s after step %" PRIu64 "%s\n",
                stop_signal == SIGINT ? "SIGINT" : "SIGTERM", result.steps,
                s->out ? "; the model is saved" : "");
    if (s->json)
        return print_json(w, s, &result, err);
    print_summary(s, &result);
    return KVS_OK;
}

/* The line as a shell would take it. */
static void quote_line(kvsi_text *text, int argc, char **argv)
{
    for (int i = 0; i < argc; i++) {
        if (i > 0)
            kvsi_text_add(text, " ");
        kvsi_text_add_shell_word(text, argv[i]);
    }
}

int kvsi_cmd_train(int argc, char **argv)
{
    train_settings settings;
    kvsi_parsed_options parsed = {0};
    workshop w = {0};
    kvsi_text line = {0};
    kvs_err err = {.status = KVS_OK};
    kvs_status st;

    set_defaults(&settings);
    quote_line(&line, argc, argv);
    KVS_TRY(kvsi_text_check(&line, &err));
    KVS_TRY(kvsi_options_parse(&parsed, &command, &settings, argc - 2, argv + 2, &err));
    if (parsed.help) {
        KVS_TRY(kvsi_cli_help(&command, &settings, &err));
        goto out;
    }
    KVS_TRY(furnish(&w, &settings, &parsed, &err));
    KVS_TRY(train(&w, &settings, line.data, &err));
out:
    clear_away(&w);
    kvsi_text_release(&line);
    if (st != KVS_OK)
        return kvsi_cli_fail(&err);
    return stop_signal ? 128 + stop_signal : KVSI_EXIT_DONE;
}
