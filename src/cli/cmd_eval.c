/* kvshift eval: the scores of benchmarks. */
#include "base/memory.h"
#include "base/text.h"
#include "cli/eval.h"
#include "cli/model_input.h"
#include "cli/progress.h"
#include "cli/signals.h"
#include "kvshift/kvshift_eval.h"
#include "kvshift/kvshift_lab.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

enum { MODELS_MAX = 4096, FILES_MAX = 8 }; /* FILES_MAX: results files of one model */

typedef struct settings {
    kvsi_model_input input;
    const char *tasks, *data, *out;
    size_t num_fewshot, max_length;
    double limit;
    kvs_eval_bos bos;
    const char *table;
    int resume, json, quiet;
} settings;

#define FIELD(name) offsetof(settings, name)

static const kvsi_name bos_names[] = {{"tokenizer", KVS_EVAL_BOS_TOKENIZER},
                                      {"always", KVS_EVAL_BOS_ALWAYS},
                                      {"never", KVS_EVAL_BOS_NEVER},
                                      {NULL, 0}};

static const char *const tables[] = {"paper", "mmlu", NULL};

/* clang-format off */
static const kvsi_setting rows[] = {
    KVSI_MODEL_ROWS(settings),
    {.name = "tasks", .kind = KVSI_SETTING_TEXT, .offset = FIELD(tasks), .group = "Tasks",
     .placeholder = "NAME,...", .help = "tasks and groups to evaluate; required without --table",
     .automatic = "those of --table"},
    {.name = "data", .kind = KVSI_SETTING_TEXT, .offset = FIELD(data), .group = "Tasks",
     .placeholder = "DIR", .help = "folder with the folders arc, cmmlu, hellaswag, lambada, math, "
     "mmlu and winogrande; required"},
    {.name = "num-fewshot", .kind = KVSI_SETTING_OPTIONAL, .offset = FIELD(num_fewshot),
     .group = "Tasks", .placeholder = "N", .help = "number of examples before each document",
     .automatic = "the default of the task", .high = 10000},
    {.name = "limit", .kind = KVSI_SETTING_REAL, .offset = FIELD(limit), .group = "Tasks",
     .placeholder = "N", .help = "only the first N documents of each task; below 1 a fraction",
     .automatic = "all"},
    {.name = "bos", .kind = KVSI_SETTING_ENUM, .offset = FIELD(bos), .group = "Tasks",
     .placeholder = "WHEN", .help = "when texts start with BOS; tokenizer = as its template says",
     .value = "tokenizer", .names = bos_names},
    {.name = "max-length", .kind = KVSI_SETTING_SIZE, .offset = FIELD(max_length),
     .group = "Tasks", .placeholder = "N", .help = "longest input in tokens; the start of longer "
     "texts is cut off", .automatic = "the model's context"},
    {.name = "out", .kind = KVSI_SETTING_TEXT, .offset = FIELD(out), .group = "Output",
     .placeholder = "DIR", .help = "write result files into a folder of the model's name there",
     .automatic = "none are written; 'results' with --table"},
    {.name = "table", .kind = KVSI_SETTING_CHOICE, .offset = FIELD(table), .group = "Output",
     .placeholder = "NAME", .choices = tables, .automatic = "no table of models",
     .help = "evaluate the models and write a table of all, as Markdown, CSV and picture, into "
     "--out: the paper's benchmarks and their mean, or the forms of MMLU"},
    {.name = "resume", .kind = KVSI_SETTING_FLAG, .offset = FIELD(resume), .group = "Output",
     .help = "continue the evaluation that was interrupted in --out; with --table also leave out "
     "models whose results are there"},
    {.name = "json", .kind = KVSI_SETTING_FLAG, .offset = FIELD(json), .group = "Output",
     .help = "print the results as one JSON object, in the format of lm-evaluation-harness"},
    {.name = "quiet", .kind = KVSI_SETTING_FLAG, .offset = FIELD(quiet), .group = "Output",
     .help = "no progress"},
    {.name = "threads", .kind = KVSI_SETTING_SIZE, .offset = FIELD(input.threads), .group = "Run",
     .placeholder = "N", .help = "number of threads", .automatic = "every core", .high = 1024},
    {.name = "cpu-level", .kind = KVSI_SETTING_TEXT, .offset = FIELD(input.cpu_level),
     .group = "Run", .placeholder = "NAME", .help = "CPU level of the kernels",
     .automatic = "auto"},
    {.name = "kv-cache", .kind = KVSI_SETTING_ENUM, .offset = FIELD(input.kv_cache),
     .group = "Run", .placeholder = "TYPE",
     .help = "type of the KV cache: f16 takes half the memory, q8_0 a quarter", .value = "f32",
     .names = kvsi_kv_cache_names},
};
/* clang-format on */

static const kvsi_command_options options = {
    .command = "kvshift eval",
    .examples = "  kvshift eval -m runs/book --tasks arc_easy,hellaswag --data benchmarks\n"
                "  kvshift eval -m runs/book --tasks mmlu --num-fewshot 5 --data benchmarks --out "
                "results\n"
                "  kvshift eval -m runs/*/ckpt/* --data benchmarks --table paper\n",
    .purpose = "Scores a model on benchmarks, with the numbers of lm-evaluation-harness 0.4.13.",
    .notes =
        "Tasks: lambada_openai, lambada_standard, winogrande, hellaswag, arc_easy, arc_challenge,\n"
        "mmlu_SUBJECT, mmlu_SUBJECT_continuation, cmmlu_SUBJECT, hendrycks_math_SUBJECT and\n"
        "minerva_math_SUBJECT.  Groups: mmlu, mmlu_continuation, cmmlu, hendrycks_math and\n"
        "minerva_math cover the subjects found in the data; paper is the paper's table, "
        "paper-mmlu\n"
        "its three forms of MMLU.\n"
        "\n"
        "Scores do not depend on threads, batches or interruptions.  With --out, each document is\n"
        "written when it is done, and --resume continues after an interruption.\n"
        "\n"
        "'kvshift eval compare', 'kvshift eval show' and 'kvshift eval table' read results that\n"
        "were stored with --out, and those of the harness.",
    .argument = "MODEL",
    .max_arguments = MODELS_MAX,
    .tables = KVSI_OPTIONS(rows),
    .takes_config = 1,
};

/* ---- progress -------------------------------------------------------------------------------- */

static int show_progress(void *user, const kvs_eval_progress *p)
{
    kvsi_progress *progress = user;
    double elapsed;
    char line[256], left[32], error[32] = "";

    if (kvsi_stop_signal())
        return 1;
    if (!kvsi_progress_is_due(progress, &elapsed) || !p->task)
        return 0;
    kvsi_format_duration(left, sizeof left, p->work > 0 ? elapsed / p->work - elapsed : NAN);
    if (!isnan(p->error))
        snprintf(error, sizeof error, " ± %.2f", 100 * p->error);
    snprintf(line, sizeof line,
             "%zu/%zu documents  %s: %s %.2f%s %% of %zu  %.1f documents/s  %s left", p->done,
             p->documents, p->task, p->metric, 100 * p->value, error, p->task_done,
             (double)(p->done - p->resumed) / elapsed, left);
    kvsi_progress_show(progress, line);
    return 0;
}

/* ---- the result ------------------------------------------------------------------------------ */

static void print_row(const kvs_eval_row *row, const kvs_eval_row *before, int width)
{
    const int repeats =
        before && before->section == row->section && strcmp(before->name, row->name) == 0;
    const int is_percent = strcmp(row->metric, "perplexity") != 0;
    char value[32], error[48] = "", part[64] = "";

    if (before && before->section != row->section)
        printf("\n");
    if (row->title && (!before || before->section != row->section))
        printf("%s\n", row->title);
    snprintf(value, sizeof value, is_percent ? "%.2f %%" : "%.6g",
             is_percent ? 100 * row->value : row->value);
    if (!isnan(row->error))
        snprintf(error, sizeof error, is_percent ? "± %.2f" : "± %.4g",
                 is_percent ? 100 * row->error : row->error);
    if (!repeats && row->documents > 0 && row->documents != row->official && row->official > 0)
        snprintf(part, sizeof part, "part, %zu of %zu", row->documents, row->official);
    else if (!repeats && row->documents > 0)
        snprintf(part, sizeof part, "%zu", row->documents);
    if (repeats)
        printf("%-*s  %5s  %-11s  %11s  %-10s\n", width, "", "", row->metric, value, error);
    else
        printf("%-*s  %5zu  %-11s  %11s  %-10s  %s\n", width, row->name, row->num_fewshot,
               row->metric, value, error, part);
}

static void print_table(const kvs_eval *eval)
{
    const kvs_eval_row *row, *before = NULL;
    int width = 4;

    for (size_t i = 0; (row = kvs_eval_row_at(eval, i)); i++)
        width = (int)strlen(row->name) > width ? (int)strlen(row->name) : width;
    printf("%-*s  %5s  %-11s  %11s  %-10s  %s\n", width, "task", "shots", "metric", "value",
           "error", "documents");
    for (size_t i = 0; (row = kvs_eval_row_at(eval, i)); i++) {
        print_row(row, before, width);
        before = row;
    }
}

/* ---- the command ----------------------------------------------------------------------------- */

/* The models, each once, and the results files that --table is made of. */
typedef struct evaluation {
    const settings *s;
    const char **models;
    size_t model_count;
    char **paths;
    size_t path_count;
} evaluation;

static kvs_status check_settings(settings *s, const kvsi_call *call, kvs_err *err)
{
    if (!s->tasks && s->table)
        s->tasks = strcmp(s->table, "mmlu") == 0 ? "paper-mmlu" : "paper";
    if (!s->out && s->table)
        s->out = "results";
    if (!s->tasks)
        return kvsi_fail(err, KVS_E_INVALID,
                         "option '--tasks' is required: names of tasks and groups");
    if (!s->data)
        return kvsi_fail(err, KVS_E_INVALID,
                         "option '--data' is required: a folder with arc, mmlu, ...");
    if (s->resume && !s->out)
        return kvsi_fail(err, KVS_E_INVALID, "option '--resume' needs '--out'");
    if (!s->input.model && call->parsed->argument_count > 0)
        return kvsi_fail(err, KVS_E_INVALID,
                         "'%s': models are named with --model (-m): -m MODEL MODEL ...",
                         call->parsed->arguments[0]);
    if (s->json && !s->table && call->parsed->argument_count > 0)
        return kvsi_fail(err, KVS_E_INVALID,
                         "option '--json' takes one model, or several with '--table'");
    return KVS_OK;
}

static int is_link(const char *path)
{
    struct stat about;

    return lstat(path, &about) == 0 && S_ISLNK(about.st_mode);
}

/* A link, such as ckpt/latest, is left out if the model that it leads to is listed too. */
static int is_listed_twice(const char *const *paths, size_t count, size_t at)
{
    char *ours = realpath(paths[at], NULL);
    int twice = 0;

    for (size_t i = 0; ours && i < count && !twice; i++) {
        char *theirs = paths[i] && i != at ? realpath(paths[i], NULL) : NULL;

        if (theirs && strcmp(ours, theirs) == 0)
            twice = is_link(paths[i]) == is_link(paths[at]) ? i < at : is_link(paths[at]);
        free(theirs);
    }
    free(ours);
    return twice;
}

static kvs_status list_models(evaluation *e, const kvsi_call *call, kvs_err *err)
{
    const size_t count = 1 + call->parsed->argument_count;
    const char **all = kvsi_alloc(count, sizeof *all);

    e->models = kvsi_alloc(count, sizeof *e->models);
    e->paths = kvsi_alloc(count * FILES_MAX, sizeof *e->paths);
    if (!all || !e->models || !e->paths) {
        kvsi_free(all);
        return kvsi_fail(err, KVS_E_NOMEM, "out of memory for %zu models", count);
    }
    all[0] = e->s->input.model;
    for (size_t i = 1; i < count; i++)
        all[i] = call->parsed->arguments[i - 1];
    for (size_t i = 0; i < count; i++)
        if (!all[i] || !is_listed_twice(all, count, i))
            e->models[e->model_count++] = all[i];
    kvsi_free(all);
    return KVS_OK;
}

static void evaluation_release(evaluation *e)
{
    for (size_t i = 0; i < e->path_count; i++)
        kvsi_free(e->paths[i]);
    kvsi_free(e->paths);
    kvsi_free(e->models);
}

static kvs_status keep_paths(evaluation *e, const kvs_eval *eval, kvs_err *err)
{
    const char *path;

    for (size_t i = 0; (path = kvs_eval_path_at(eval, i)); i++) {
        if (i == FILES_MAX)
            return kvsi_fail(err, KVS_E_LIMIT, "more than %d results files", (int)FILES_MAX);
        e->paths[e->path_count] = kvsi_strdup(path);
        if (!e->paths[e->path_count])
            return kvsi_fail(err, KVS_E_NOMEM, "out of memory for '%s'", path);
        e->path_count++;
    }
    return KVS_OK;
}

static void print_result(const evaluation *e, const char *model, const kvs_eval *eval)
{
    const settings *s = e->s;

    if (s->table) {
        if (!s->quiet)
            fprintf(stderr, "%s: results in '%s'\n", model, kvs_eval_path(eval));
        return;
    }
    if (e->model_count > 1)
        printf("%s%s\n", model == e->models[0] ? "" : "\n", model);
    if (s->json)
        printf("%s\n", kvs_eval_json(eval));
    else
        print_table(eval);
    if (kvs_eval_path(eval) && !s->quiet)
        fprintf(stderr, "results in '%s'\n", kvs_eval_path(eval));
}

static kvs_status evaluate(evaluation *e, const char *model, kvs_err *err)
{
    const settings *s = e->s;
    kvsi_model_input input = s->input;
    kvsi_loaded_model loaded = {0};
    kvs_eval *eval = NULL;
    kvs_eval_options o;
    kvsi_progress progress;
    kvs_status st;

    input.model = model;
    input.exact = 1;
    TRY_OUT(kvsi_model_input_load(&loaded, &input, 1, err));
    kvs_eval_options_init(&o, sizeof o);
    o.tasks = s->tasks;
    o.data = s->data;
    o.num_fewshot = s->num_fewshot == SIZE_MAX ? -1 : (long)s->num_fewshot;
    o.limit = s->limit;
    o.bos = s->bos;
    o.max_length = s->max_length;
    o.cache = input.kv_cache;
    o.model_name = model;
    o.out = s->out;
    o.resume = s->resume;
    o.reuse = s->resume && s->table;
    o.progress = show_progress;
    o.user = &progress;
    kvsi_progress_start(&progress, s->quiet);
    st = kvs_eval_run(&eval, loaded.model, loaded.tokenizer, &o, err);
    kvsi_progress_end(&progress);
    TRY_OUT(st);
    TRY_OUT(keep_paths(e, eval, err));
    print_result(e, model, eval);
out:
    kvs_eval_free(eval);
    kvsi_loaded_model_release(&loaded);
    return st;
}

/* OUT/table-NAME and an ending, in new memory. */
static kvs_status table_file(char **out, const settings *s, const char *ending, kvs_err *err)
{
    kvsi_text path = {0};
    kvs_status st;

    kvsi_text_format(&path, "%s/table-%s.%s", s->out, s->table, ending);
    TRY_OUT(kvsi_text_check(&path, err));
    *out = kvsi_strdup(path.data);
    if (!*out)
        st = kvsi_fail(err, KVS_E_NOMEM, "out of memory for '%s'", path.data);
out:
    kvsi_text_release(&path);
    return st;
}

/* The picture comes last, because it needs gnuplot. */
static kvs_status write_table(const evaluation *e, kvs_err *err)
{
    const settings *s = e->s;
    kvs_eval_report_options how;
    kvs_eval_report *report = NULL;
    char *markdown = NULL, *csv = NULL, *svg = NULL;
    kvs_status st;

    kvs_eval_report_options_init(&how);
    how.table = s->table;
    TRY_OUT(table_file(&markdown, s, "md", err));
    TRY_OUT(table_file(&csv, s, "csv", err));
    TRY_OUT(table_file(&svg, s, "svg", err));
    TRY_OUT(kvs_eval_table(&report, (const char *const *)e->paths, e->path_count, &how, err));
    fputs(s->json ? kvs_eval_report_json(report) : kvs_eval_report_text(report), stdout);
    if (s->json)
        putchar('\n');
    TRY_OUT(kvs_eval_report_write(report,
                                  &(kvs_eval_report_files){.markdown = markdown, .csv = csv}, err));
    TRY_OUT(kvs_eval_report_write(report, &(kvs_eval_report_files){.svg = svg}, err));
    if (!s->quiet)
        fprintf(stderr, "table in '%s', '%s' and '%s'\n", markdown, csv, svg);
out:
    kvs_eval_report_free(report);
    kvsi_free(markdown);
    kvsi_free(csv);
    kvsi_free(svg);
    return st;
}

static kvs_status run(void *data, const kvsi_call *call, kvs_err *err)
{
    settings *s = data;
    evaluation e = {.s = s};
    kvs_status st;

    TRY_OUT(check_settings(s, call, err));
    TRY_OUT(list_models(&e, call, err));
    kvsi_catch_stop();
    for (size_t i = 0; i < e.model_count; i++)
        TRY_OUT(evaluate(&e, e.models[i], err));
    if (s->table)
        st = write_table(&e, err);
out:
    evaluation_release(&e);
    return st;
}

const kvsi_command kvsi_cmd_eval = {
    .name = "eval",
    .summary = "score a model on benchmarks",
    .options = &options,
    .settings_size = sizeof(settings),
    .run = run,
    .verbs =
        (const kvsi_command *const[]){&kvsi_eval_compare, &kvsi_eval_show, &kvsi_eval_table, NULL},
};
