#include "cli/train_options.h"

#include "base/files.h"
#include "cli/model_options.h"
#include "cli/options/options_config.h"
#include "cli/train_folder.h"

#include <string.h>

/* ---- the tables ------------------------------------------------------------------------------ */

static const char *const resume_names[] = {"newest", "auto", NULL};
static const char *const too_long_names[] = {"cut", "refuse", NULL};

/* Names of groups.  MODEL, IGSM, TRAINING, SAMPLES, BENCHMARKS, RANKS and RUN also contain settings
 * of the library. */
static const char START[] = "Start from", MODEL[] = KVSI_MODEL_GROUP, TASK[] = "Task",
                  IGSM[] = "Task igsm", TRAINING[] = "Training", SAMPLES[] = "Samples",
                  BENCHMARKS[] = "Benchmarks", RANKS[] = "Ranks", RUN[] = "Run";

#define FIELD(name) offsetof(kvsi_train_options, name)
#define ROW(option, type, member, in, what, about)                                                 \
    .name = (option), .kind = (type), .offset = FIELD(member), .group = (in),                      \
    .placeholder = (what), .help = (about)
#define FLAG(option, member, in, about) ROW(option, KVSI_SETTING_FLAG, member, in, NULL, about)
#define SIZE(option, member, in, about) ROW(option, KVSI_SETTING_SIZE, member, in, "N", about)
#define REAL(option, member, in, about) ROW(option, KVSI_SETTING_REAL, member, in, "X", about)
#define TEXT(option, member, in, what, about)                                                      \
    ROW(option, KVSI_SETTING_TEXT, member, in, what, about)
#define CHOICE(option, member, in, about, names)                                                   \
    ROW(option, KVSI_SETTING_CHOICE, member, in, "NAME", about), .choices = (names)

/* The options besides the settings of the library's tables. */
/* clang-format off */
static const kvsi_setting start_rows[] = {
    {TEXT("model", preset, START, "NAME",
          "a preset, or the path of a config.json; the options below change its values"),
     .examples = kvs_preset_name, .automatic = "none"},
};

static const kvsi_setting dropout_row[] = {{KVSI_DROPOUT_ROW(FIELD(dropout))}};

static const kvsi_setting task_rows[] = {
    {ROW("task", KVSI_SETTING_CHOICE, task, TASK, "NAME", "synthetic task to learn"),
     .choice_at = kvs_task_name, .value = "induction"},
    {TEXT("data", data, TASK, "PATH",
          "text to learn instead of a task: a corpus of 'kvshift data build', a .jsonl or text "
          "file of conversations or documents, or a .bin of llm.c or nanoGPT with --vocab"),
     .automatic = "none"},
    {TEXT("valid-data", valid_data, TASK, "FILE",
          "a second file of the same kind that is for validation"),
     .automatic = "5 % of --data"},
    {TEXT("tokenizer", tokenizer, TASK, "FILE", "tokenizer of a text file as --data"),
     .letter = 't', .automatic = "that of the model of --init-from"},
    {TEXT("chat-template", chat_template, TASK, "NAME",
          "a named template, or a file with one, for the messages of --data"),
     .automatic = "that of the model of --init-from"},
    {CHOICE("too-long", too_long, TASK,
            "what is done with a conversation that is longer than a sequence", too_long_names),
     .value = "cut"},
    {SIZE("sequence-tokens", sequence_tokens, TASK,
          "longest sequence of --data, in tokens, at most the context"),
     .automatic = "the context"},
    {REAL("epochs", epochs, TRAINING, "number of passes over --data, which sets --steps"),
     .high = 1e9, .automatic = "as --steps gives", .use = KVSI_MAY_CHANGE},
};

static const kvsi_setting igsm_rows[] = {
    {TEXT("text-tokenizer", igsm_tokenizer, IGSM, "FILE",
          "tokenizer of the text, as for 'data build'"),
     .automatic = "one token per word"},
};

static const kvsi_setting run_rows[] = {
    {TEXT("sample-prompt", sample_prompt, SAMPLES, "TEXT", "prompt of the samples"),
     .automatic = "the first 8 tokens of the validation text", .use = KVSI_MAY_CHANGE},
    {SIZE("sample-tokens", sample_tokens, SAMPLES, "tokens per sample, at most"), .low = 1,
     .high = 1 << 20, .value = "64", .use = KVSI_MAY_CHANGE},
    {REAL("sample-temp", sample_temp, SAMPLES,
          "temperature; 0 takes the token with the highest probability"),
     .value = "0.8", .use = KVSI_MAY_CHANGE},

    {TEXT("eval-tasks", eval_tasks, BENCHMARKS, "NAME[:N],...",
          "tasks and groups as for 'kvshift eval', each with at most N documents"),
     .automatic = "none", .use = KVSI_MAY_CHANGE},
    {TEXT("eval-data", eval_data, BENCHMARKS, "DIR", "folder of the benchmarks"),
     .automatic = "none", .use = KVSI_MAY_CHANGE},

    {REAL("rank-timeout", rank_timeout, RANKS,
          "minutes that a rank waits for the others before it ends the run; 0 = no limit"),
     .value = "60", .use = KVSI_MAY_CHANGE},

    {SIZE("threads", threads, RUN, "number of threads; results do not depend on it"),
     .automatic = "every core", .high = 1024, .use = KVSI_MAY_CHANGE},
    {TEXT("cpu-level", cpu_level, RUN, "NAME", "CPU level of the kernels, see 'kvshift version'"),
     .automatic = "auto", .use = KVSI_MAY_CHANGE},
    {TEXT("out", out, RUN, "DIR",
          "folder for the model, its log and its result; none = save nothing"),
     .automatic = "runs/NAME-1, -2, ...; NAME is that of --data or --task",
     .use = KVSI_PER_START},
    {REAL("max-time", max_time, RUN,
          "minutes after which the run ends cleanly, with a checkpoint; 0 = no limit"),
     .use = KVSI_PER_START},
    {CHOICE("resume", resume, RUN,
            "continue the run in --out, with its settings, from its newest checkpoint; auto: start "
            "a new run if there is none", resume_names),
     .implied = "newest", .automatic = "start a new run", .use = KVSI_PER_START},
    {TEXT("init-from", init_from, RUN, "MODEL",
          "start from this model, a folder or a file, which also sets the model options"),
     .automatic = "random weights"},
    {CHOICE("retrofit", retrofit, RUN,
            "add a shift to the model of --init-from, which has none; it starts as the identity",
            kvsi_retrofit_names),
     .automatic = "none"},
    {ROW("lora", KVSI_SETTING_SIZE, lora, RUN, "RANK",
         "freeze the model of --init-from, and train its shift and low-rank adapters of its "
         "matrices"),
     .high = 4096, .automatic = "none"},
    {REAL("lora-alpha", lora_alpha, RUN, "what adapters add is multiplied by this / RANK"),
     .high = 1e9, .open_high = 1, .automatic = "as RANK"},
    {TEXT("lora-on", lora_on, RUN, "NAME,...",
          "matrices that have adapters, such as q_proj,v_proj or 'layers.0.*'"),
     .automatic = "all linear matrices of layers"},
    {FLAG("new-tokenizer", new_tokenizer, RUN,
          "train the model of --init-from with the tokenizer of --data although it has another")},
    {SIZE("show", show, RUN, "print this many training sequences of the task and exit; 0 = train"),
     .high = 1e6, .use = KVSI_PER_START},
    {FLAG("dry-run", dry_run, RUN, "print the memory and the work that the run needs and exit"),
     .use = KVSI_PER_START},
    {FLAG("overcommit", overcommit, RUN, "start although it needs more memory than is free"),
     .use = KVSI_PER_START},
    {FLAG("profile", profile, RUN, "print how long steps took and what ranks waited for"),
     .use = KVSI_PER_START},
    {FLAG("quiet", quiet, RUN, "no progress"), .use = KVSI_PER_START},
    {FLAG("json", json, RUN, "print the result as one JSON object"), .use = KVSI_PER_START},
};
/* clang-format on */

/* The rows of task number i; there are none if the library has fewer tasks. */
#define TASK_TABLE(i)                                                                              \
    {                                                                                              \
        .config = &kvsi_task_configs, .part = (i), .offset = FIELD(tasks[i])                       \
    }

const kvsi_command_options kvsi_train_command = {
    .command = "kvshift train",
    .examples =
        "  kvshift train --task induction --shift kv --layers 1 --dim 64 --steps 300 --out "
        "runs/first\n"
        "  kvshift train --data corpora/book --model desk-1m --shift kv --out runs/book\n"
        "  kvshift train --resume --out runs/book\n"
        "  kvshift train --init-from model --retrofit kv --data corpora/book --out runs/more\n"
        "  kvshift train --init-from model --retrofit kv --data chats.jsonl --out runs/chats\n"
        "  kvshift train --init-from model --lora 8 --data chats.jsonl --out runs/adapters\n"
        "  kvshift train --model paper-19b --dry-run\n",
    .common =
        (const char *const[]){"model",  "init-from", "retrofit",  "lora",       "task",
                              "data",   "shift",     "layers",    "dim",        "heads",
                              "vocab",  "context",   "steps",     "epochs",     "batch",
                              "lr",     "seed",      "precision", "eval-every", "checkpoint-every",
                              "out",    "resume",    "max-time",  "dry-run",    "threads",
                              "config", NULL},
    .purpose = "Trains a model on a synthetic task or on text and evaluates it.  The folder --out "
               "then holds model.safetensors, config.json, train.jsonl (one record per step) and "
               "result.json.",
    .notes =
        "Short names: --shift gate and --shift clamp are kv with that form, --shift smear is "
        "k with\nform gate.\n"
        "\n"
        "SIGINT (Ctrl-C) or SIGTERM ends the run cleanly after the current step: the model "
        "is\nevaluated and saved, with a checkpoint to --resume from, and the exit code is 130 "
        "or 143.\nA second signal ends it at once.  A lost terminal (SIGHUP) ends the run in the "
        "same "
        "way, with\nexit code 129.  SIGUSR1 writes a checkpoint and continues.  --max-time ends it "
        "like a signal,\nwith exit code 0.\n"
        "Other exit codes: 0 success, 1 failure, 2 wrong usage.\n"
        "\n"
        "'mpirun -np 4 kvshift train ...' divides the work among 4 processes, on one machine or "
        "many;\nsee docs/cluster.md.",
    .tables =
        (const kvsi_option_table[]){
            KVSI_OPTION_ROWS(start_rows),
            {.config = &kvsi_model_configs, .offset = FIELD(model)},
            KVSI_OPTION_ROWS(dropout_row),
            KVSI_OPTION_ROWS(task_rows),
            TASK_TABLE(0),
            TASK_TABLE(1),
            TASK_TABLE(2),
            TASK_TABLE(3),
            TASK_TABLE(4),
            TASK_TABLE(5),
            TASK_TABLE(6),
            TASK_TABLE(7),
            KVSI_OPTION_ROWS(igsm_rows),
            {.config = &kvsi_train_configs, .offset = FIELD(train)},
            KVSI_OPTION_ROWS(run_rows),
            {0},
        },
    .groups = (const char *const[]){TRAINING, SAMPLES, BENCHMARKS, RANKS, RUN, NULL},
    .takes_config = 1,
};

int kvsi_is_model_option(const kvsi_setting *row)
{
    return strcmp(row->group, MODEL) == 0;
}

int kvsi_train_is_given(const kvsi_parsed_options *parsed, const char *option)
{
    return kvsi_option_is_given(parsed, kvsi_command_index(&kvsi_train_command, option));
}

int kvsi_train_is_task(const kvsi_train_options *s, const char *name)
{
    return !s->data && strcmp(s->task, name) == 0;
}

const kvs_task_config *kvsi_train_task(const kvsi_train_options *s)
{
    for (size_t i = 0; kvs_task_name(i) && i < KVSI_TASKS_MAX; i++)
        if (strcmp(kvs_task_name(i), s->task) == 0)
            return s->tasks[i];
    return NULL;
}

int kvsi_train_is_given_now(const kvsi_parsed_options *parsed, const char *option)
{
    return parsed->source[kvsi_command_index(&kvsi_train_command, option)] > KVSI_FROM_FILE;
}

int kvsi_train_is_text_file(const kvsi_train_options *s)
{
    static const char *const endings[] = {".txt", ".md", ".json", ".jsonl", ".zst", ".gz", ".csv"};

    for (size_t i = 0; s->data && i < sizeof endings / sizeof *endings; i++)
        if (kvsi_ends_with(s->data, endings[i]) && !kvsi_is_folder(s->data))
            return 1;
    return 0;
}

/* The option is that of the task induction, which has answers too. */
int kvsi_train_has_loss_everywhere(const kvsi_train_options *s)
{
    for (size_t i = 0; kvs_task_name(i) && i < KVSI_TASKS_MAX; i++)
        if (strcmp(kvs_task_name(i), "induction") == 0)
            return strcmp(kvsi_task_word(s->tasks[i], "loss").text, "all") == 0;
    return 0;
}

/* ---- defaults -------------------------------------------------------------------------------- */

kvs_status kvsi_train_set_defaults(kvsi_train_options *s, const char *body, kvs_err *err)
{
    kvs_status st;

    TRY(kvsi_options_set_defaults(&kvsi_train_command, s, sizeof *s, err));
    st = body ? kvs_model_config_set(s->model, "body", body, err) : KVS_OK;
    if (st != KVS_OK)
        kvsi_options_free_configs(&kvsi_train_command, s);
    return st;
}

/* If the batch is not that of the preset, sets `accumulate` so that micro-batches are at most as
 * large as those of the preset, which fit in memory. */
static kvs_status keep_micro_batch(kvsi_train_options *s, kvsi_parsed_options *parsed,
                                   const kvs_train_config *preset, kvs_err *err)
{
    const size_t index = kvsi_command_index(&kvsi_train_command, "accumulate");
    const uint64_t preset_batch = kvsi_train_count(preset, "batch");
    const uint64_t micro_batch = preset_batch / kvsi_train_count(preset, "accumulate");
    const uint64_t batch = kvsi_train_count(s->train, "batch");
    uint64_t accumulate;

    if (parsed->source[index] != KVSI_FROM_PRESET || batch == preset_batch)
        return KVS_OK;
    accumulate = (batch + micro_batch - 1) / micro_batch;
    while (batch % accumulate != 0)
        accumulate++;
    parsed->source[index] = KVSI_FROM_OTHERS;
    return kvs_train_config_set_number(s->train, "accumulate", (double)accumulate, err);
}

static kvs_status set_default(kvsi_train_options *s, kvsi_parsed_options *parsed, const char *name,
                              double value, kvs_err *err)
{
    const size_t index = kvsi_command_index(&kvsi_train_command, name);

    if (parsed->source[index] != KVSI_FROM_DEFAULT)
        return KVS_OK;
    parsed->source[index] = KVSI_FROM_OTHERS;
    return kvs_train_config_set_number(s->train, name, value, err);
}

/* The learning rate when a model is trained further: lowest for all weights, highest for the shift
 * alone. */
static double fine_tuning_rate(const kvsi_train_options *s)
{
    if (kvs_train_config_number(s->train, "only-shift") > 0)
        return 1e-2;
    return s->lora > 0 ? 5e-4 : 5e-5;
}

/* Training a model further on a text file has other defaults: three epochs in small batches, at a
 * low rate that falls. */
static kvs_status set_fine_tuning(kvsi_train_options *s, kvsi_parsed_options *parsed, kvs_err *err)
{
    const size_t schedule = kvsi_command_index(&kvsi_train_command, "schedule");
    const size_t epochs = kvsi_command_index(&kvsi_train_command, "epochs");
    const size_t steps = kvsi_command_index(&kvsi_train_command, "steps");

    if (!s->init_from || !kvsi_train_is_text_file(s))
        return KVS_OK;
    TRY(set_default(s, parsed, "batch", 16, err));
    TRY(set_default(s, parsed, "lr", fine_tuning_rate(s), err));
    if (parsed->source[schedule] == KVSI_FROM_DEFAULT) {
        parsed->source[schedule] = KVSI_FROM_OTHERS;
        TRY(kvs_train_config_set(s->train, "schedule", "cosine", err));
    }
    if (parsed->source[epochs] == KVSI_FROM_DEFAULT && parsed->source[steps] == KVSI_FROM_DEFAULT) {
        parsed->source[epochs] = KVSI_FROM_OTHERS;
        s->epochs = 3;
    }
    return KVS_OK;
}

/* Of --steps and --epochs, that of the later source counts.  If both have the same source, the
 * setup compares them. */
static void choose_length(kvsi_train_options *s, kvsi_parsed_options *parsed)
{
    const size_t steps = kvsi_command_index(&kvsi_train_command, "steps");
    const size_t epochs = kvsi_command_index(&kvsi_train_command, "epochs");

    if (parsed->source[steps] > parsed->source[epochs] && kvsi_option_is_given(parsed, steps)) {
        s->epochs = 0;
        parsed->source[epochs] = KVSI_FROM_DEFAULT;
    } else if (s->epochs > 0 && parsed->source[epochs] > parsed->source[steps]) {
        parsed->source[steps] = KVSI_FROM_OTHERS;
    }
}

/* ---- task or text ---------------------------------------------------------------------------- */

/* Returns whether a file gives the option its default.  Such a value does not choose a task,
 * because a file may list all options. */
static int repeats_default(const kvsi_train_options *s, const kvsi_parsed_options *parsed,
                           size_t index)
{
    const kvsi_setting row = kvsi_command_row(&kvsi_train_command, index);

    return parsed->source[index] == KVSI_FROM_FILE && kvsi_setting_is_default(&row, s);
}

/* A run learns a task or a text.  If both are given, the later one in the order file, environment,
 * command line counts. */
static kvs_status choose_task(kvsi_train_options *s, kvsi_parsed_options *parsed, kvs_err *err)
{
    const size_t task = kvsi_command_index(&kvsi_train_command, "task");
    const size_t data = kvsi_command_index(&kvsi_train_command, "data");

    if (!s->data || !kvsi_option_is_given(parsed, task))
        return KVS_OK;
    if (parsed->source[task] > parsed->source[data]) {
        s->data = NULL;
        parsed->source[data] = KVSI_FROM_DEFAULT;
    } else if (parsed->source[task] < parsed->source[data] || repeats_default(s, parsed, task)) {
        s->task = kvs_task_name(0);
        parsed->source[task] = KVSI_FROM_DEFAULT;
    } else {
        return kvsi_fail(err, KVS_E_INVALID, "options '--task' and '--data' exclude each other");
    }
    return KVS_OK;
}

/* Returns the task to which a group of options belongs; NULL = it belongs to no task. */
static const char *task_of_group(const char *group)
{
    const char *name;

    for (size_t i = 0; (name = kvs_task_name(i)); i++)
        if (kvs_task_setting(name, 0) && strcmp(kvs_task_setting(name, 0)->group, group) == 0)
            return name;
    return NULL;
}

/* Refuses options of other tasks, which would be ignored. */
static kvs_status check_task(const kvsi_train_options *s, const kvsi_parsed_options *parsed,
                             kvs_err *err)
{
    for (size_t i = 0; i < kvsi_command_count(&kvsi_train_command); i++) {
        const kvsi_setting row = kvsi_command_row(&kvsi_train_command, i);
        const char *task = task_of_group(row.group);

        if (kvsi_train_is_text_file(s) && strcmp(row.name, "loss") == 0)
            continue; /* also of conversations */
        if (task && !kvsi_train_is_task(s, task) && kvsi_option_is_given(parsed, i) &&
            !repeats_default(s, parsed, i))
            return kvsi_fail(err, KVS_E_INVALID, "option '--%s' is for task %s", row.name, task);
    }
    return KVS_OK;
}

int kvsi_train_names_task(const kvsi_train_options *s, const kvsi_parsed_options *parsed)
{
    for (size_t i = 0; i < kvsi_command_count(&kvsi_train_command); i++) {
        const kvsi_setting row = kvsi_command_row(&kvsi_train_command, i);

        if ((strcmp(row.group, TASK) == 0 || task_of_group(row.group)) &&
            kvsi_option_is_given(parsed, i) && !repeats_default(s, parsed, i))
            return 1;
    }
    return 0;
}

/* ---- a loaded model -------------------------------------------------------------------------- */

kvs_status kvsi_train_check_agreement(const kvsi_train_options *s,
                                      const kvsi_parsed_options *parsed,
                                      const kvs_model_config *loaded, kvs_err *err)
{
    kvsi_train_options other = *s; /* with the same configurations */

    other.model = (kvs_model_config *)loaded; /* only read */
    for (size_t i = 0; i < kvsi_command_count(&kvsi_train_command); i++) {
        const kvsi_setting row = kvsi_command_row(&kvsi_train_command, i);

        if (kvsi_is_model_option(&row) && kvsi_option_is_given(parsed, i))
            TRY(kvsi_train_compare(&row, s, &other, "the model in", s->init_from, err));
    }
    return KVS_OK;
}

kvs_status kvsi_train_compare(const kvsi_setting *row, const kvsi_train_options *given,
                              const kvsi_train_options *other, const char *owner, const char *path,
                              kvs_err *err)
{
    kvsi_text ours = {0}, theirs = {0};
    kvs_status st;

    if (kvsi_setting_equal(row, given, other) || kvsi_setting_is_automatic(row, given))
        return KVS_OK;
    kvsi_setting_print(&ours, row, given);
    kvsi_setting_print(&theirs, row, other);
    TRY_OUT(kvsi_text_check(&ours, err));
    TRY_OUT(kvsi_text_check(&theirs, err));
    st = kvsi_fail(err, KVS_E_INVALID, "option '--%s' is %s, but %s '%s' has %s", row->name,
                   ours.data, owner, path, *theirs.data ? theirs.data : "none");
out:
    kvsi_text_release(&ours);
    kvsi_text_release(&theirs);
    return st;
}

/* ---- sources of values ----------------------------------------------------------------------- */

static void mark_model(const kvsi_train_options *s, kvsi_parsed_options *parsed)
{
    parsed->model = s->init_from;
    for (size_t i = 0; s->init_from && i < kvsi_command_count(&kvsi_train_command); i++) {
        const kvsi_setting row = kvsi_command_row(&kvsi_train_command, i);

        if (kvsi_is_model_option(&row))
            parsed->source[i] = KVSI_FROM_MODEL;
    }
}

/* Replaces s->model with the configuration of the model s->init_from, with the shift of
 * --retrofit. */
static kvs_status look_at_model(kvsi_train_options *s, const kvsi_parsed_options *parsed,
                                kvs_err *err)
{
    kvs_model_config *config = NULL;
    kvs_status st;

    TRY_OUT(kvs_model_config_load(&config, s->init_from, err));
    TRY_OUT(kvsi_train_check_agreement(s, parsed, config, err));
    if (s->retrofit)
        TRY_OUT(kvsi_model_set_retrofit(config, s->retrofit, err));
    kvs_model_config_free(s->model);
    s->model = config;
    return KVS_OK;
out:
    kvs_model_config_free(config);
    return st;
}

static void mark_at_start(kvsi_parsed_options *parsed, const char *option)
{
    if (!kvsi_train_is_given(parsed, option))
        parsed->source[kvsi_command_index(&kvsi_train_command, option)] = KVSI_FROM_START;
}

/* Prepares --print-config: reads the configuration of the model s->init_from and marks the values
 * that are only known when the run starts. */
static kvs_status look_ahead(kvsi_train_options *s, kvsi_parsed_options *parsed, kvs_err *err)
{
    if (s->init_from)
        TRY(look_at_model(s, parsed, err));
    if (!kvsi_train_is_task(s, "induction"))
        mark_at_start(parsed, "vocab");
    if (s->data)
        mark_at_start(parsed, "eval-sequences");
    if (s->epochs > 0)
        mark_at_start(parsed, "steps");
    mark_at_start(parsed, "eval-every");
    mark_model(s, parsed);
    return KVS_OK;
}

void kvsi_train_mark_sources(const kvsi_train_options *s, const kvsi_train_options *before,
                             kvsi_parsed_options *parsed)
{
    kvsi_options_mark_changes(parsed, &kvsi_train_command, before, s, KVSI_FROM_OTHERS);
    mark_model(s, parsed);
}

/* ---- applying -------------------------------------------------------------------------------- */

kvs_status kvsi_train_options_apply(void *settings, kvsi_parsed_options *parsed, kvs_err *err)
{
    const kvsi_command_options *const command = &kvsi_train_command;
    kvsi_train_options *s = settings, plain = {0}, started = {0};
    kvs_status st;

    TRY_OUT(kvsi_model_start(&s->model, &s->train, parsed, command, "model", err));
    TRY_OUT(kvsi_options_copy(command, &started, s, sizeof started, err));
    TRY_OUT(kvsi_train_set_defaults(&plain, kvsi_model_word(s->model, "body").text, err));
    TRY_OUT(kvsi_options_apply(parsed, command, s, err));
    parsed->preset = s->preset;
    kvsi_options_mark_changes(parsed, command, &plain, &started, KVSI_FROM_PRESET);
    TRY_OUT(keep_micro_batch(s, parsed, started.train, err));
    TRY_OUT(kvsi_model_finish(s->model, s->dropout, parsed, command, err));
    TRY_OUT(choose_task(s, parsed, err));
    if (s->resume && s->out) {
        TRY_OUT(kvsi_train_take_run(s, parsed, err));
        TRY_OUT(choose_task(s, parsed, err));
    }
    TRY_OUT(check_task(s, parsed, err));
    TRY_OUT(set_fine_tuning(s, parsed, err));
    choose_length(s, parsed);
    if (parsed->print_config)
        TRY_OUT(look_ahead(s, parsed, err));
out:
    kvsi_options_free_configs(command, &plain);
    kvsi_options_free_configs(command, &started);
    return st;
}
