#include "cli/train_benchmarks.h"

#include "base/memory.h"
#include "base/text.h"
#include "cli/signals.h"
#include "kvshift/kvshift_eval.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { METRICS_MAX = 4 }; /* of a task or a group */

static kvs_status fail_memory(kvs_err *err)
{
    return kvsi_fail(err, KVS_E_NOMEM, "out of memory for benchmarks");
}

/* ---- the tasks ------------------------------------------------------------------------------- */

static kvs_status refuse_item(const char *item, const char *expected, kvs_err *err)
{
    return kvsi_fail(err, KVS_E_INVALID, "option '--eval-tasks': expected %s, found '%s'", expected,
                     item);
}

/* Reads "NAME" or "NAME:N" into the next item. */
static kvs_status add_item(kvsi_train_benchmarks *b, char *text, kvs_err *err)
{
    kvsi_train_benchmark *item = &b->items[b->count];
    char *colon = strchr(text, ':'), *end;

    /* The names of parts of mmlu_continuation contain "::". */
    while (colon && colon[1] == ':')
        colon = strchr(colon + 2, ':');
    if (colon) {
        const double number = strtod(colon + 1, &end);

        if (colon[1] < '0' || colon[1] > '9' || *end || number < 1 || number > 1e9 ||
            number != floor(number))
            return refuse_item(text, "NAME:N with N from 1 to 1000000000", err);
        item->documents = (size_t)number;
        *colon = '\0';
    }
    if (!*text)
        return refuse_item(text, "names of tasks and groups", err);
    if (strcmp(text, "paper") == 0 || strcmp(text, "paper-mmlu") == 0)
        return refuse_item(text, "the tasks and groups of which it consists", err);
    for (size_t i = 0; i < b->count; i++)
        if (strcmp(b->items[i].name, text) == 0)
            return refuse_item(text, "each name once", err);
    item->name = kvsi_strdup(text);
    b->count++;
    return item->name ? KVS_OK : fail_memory(err);
}

static kvs_status read_items(kvsi_train_benchmarks *b, const char *list, kvs_err *err)
{
    char *copy = kvsi_strdup(list), *next = copy, *comma;
    size_t count = 1;
    kvs_status st = KVS_OK;

    for (const char *c = list; *c; c++)
        count += *c == ',';
    b->items = kvsi_alloc(count, sizeof *b->items);
    if (!copy || !b->items)
        st = fail_memory(err);
    for (; st == KVS_OK && next; next = comma ? comma + 1 : NULL) {
        comma = strchr(next, ',');
        if (comma)
            *comma = '\0';
        st = add_item(b, next, err);
    }
    kvsi_free(copy);
    b->scores = kvsi_alloc(count * METRICS_MAX, sizeof *b->scores);
    b->names = kvsi_alloc(count * METRICS_MAX, sizeof *b->names);
    if (st == KVS_OK && (!b->scores || !b->names))
        st = fail_memory(err);
    return st;
}

/* ---- the second model ------------------------------------------------------------------------ */

static kvs_status create_model(kvsi_train_benchmarks *b, const kvsi_train_setup *w,
                               const kvsi_train_options *s, kvs_err *err)
{
    const kvs_runtime_options runtime = {
        .size = sizeof runtime, .threads = (int)s->threads, .cpu_level = s->cpu_level, .exact = 1};
    size_t count, largest = 0;

    TRY(kvs_runtime_create(&b->rt, &runtime, err));
    TRY(kvs_model_create(&b->model, b->rt, s->model, 1, err));
    for (size_t i = 0; kvs_model_tensor_name(w->model, i, &count); i++)
        largest = count > largest ? count : largest;
    b->values = kvsi_alloc(largest, sizeof *b->values);
    return b->values ? KVS_OK : fail_memory(err);
}

static kvs_status copy_weights(kvsi_train_benchmarks *b, const kvs_model *model, kvs_err *err)
{
    const char *name;
    size_t count;

    for (size_t i = 0; (name = kvs_model_tensor_name(model, i, &count)); i++) {
        TRY(kvs_model_read_tensor(b->values, count, model, name, err));
        TRY(kvs_model_write_tensor(b->model, name, b->values, count, err));
    }
    return KVS_OK;
}

/* ---- scoring --------------------------------------------------------------------------------- */

static int stop_on_signal(void *user, const kvs_eval_progress *progress)
{
    (void)user;
    (void)progress;
    return kvsi_stop_signal() != 0;
}

static int stop_at_once(void *user, const kvs_eval_progress *progress)
{
    (void)user;
    (void)progress;
    return 1;
}

static kvs_status evaluate(kvs_eval **out, const kvsi_train_benchmarks *b, size_t index,
                           int (*progress)(void *user, const kvs_eval_progress *progress),
                           kvs_err *err)
{
    kvs_eval_options o;

    kvs_eval_options_init(&o, sizeof o);
    o.tasks = b->items[index].name;
    o.documents = b->items[index].documents;
    o.data = b->data;
    o.progress = progress;
    return kvs_eval_run(out, b->model, b->tokenizer, &o, err);
}

/* Finds wrong names and files before the first step: everything is read, and nothing is scored. */
static kvs_status check_items(const kvsi_train_benchmarks *b, kvs_err *err)
{
    for (size_t i = 0; i < b->count; i++) {
        kvs_eval *eval = NULL;
        const kvs_status st = evaluate(&eval, b, i, stop_at_once, err);

        kvs_eval_free(eval);
        if (st != KVS_OK && st != KVS_E_STOPPED)
            return st;
    }
    return KVS_OK;
}

static kvs_status check_asked(const kvsi_train_setup *w, const kvsi_train_options *s, kvs_err *err)
{
    const int every = kvsi_train_count(s->train, "eval-tasks-every") > 0;

    if (!every || !s->eval_tasks || !s->eval_data)
        return kvsi_fail(err, KVS_E_INVALID,
                         "options '--eval-tasks', '--eval-data' and '--eval-tasks-every' belong "
                         "together: '%s' is missing",
                         !s->eval_tasks  ? "--eval-tasks"
                         : !s->eval_data ? "--eval-data"
                                         : "--eval-tasks-every");
    if (!s->data)
        return kvsi_fail(err, KVS_E_INVALID, "option '--eval-tasks' needs '--data'");
    if (!w->tokenizer)
        return kvsi_fail(err, KVS_E_INVALID,
                         "option '--eval-tasks': the tokenizer of '%s' is not known", s->data);
    if (kvsi_model_is(s->model, "head", "none"))
        return kvsi_fail(err, KVS_E_INVALID,
                         "option '--eval-tasks': head none gives no token probabilities");
    return KVS_OK;
}

kvs_status kvsi_train_benchmarks_init(kvsi_train_benchmarks *benchmarks, const kvsi_train_setup *w,
                                      const kvsi_train_options *s, kvs_err *err)
{
    kvs_status st;

    *benchmarks = (kvsi_train_benchmarks){.tokenizer = w->tokenizer, .data = s->eval_data};
    if (kvsi_train_count(s->train, "eval-tasks-every") == 0 && !s->eval_tasks && !s->eval_data)
        return KVS_OK;
    TRY_OUT(check_asked(w, s, err));
    TRY_OUT(read_items(benchmarks, s->eval_tasks, err));
    if (kvs_comm_rank(w->comm) > 0)
        goto out;
    TRY_OUT(create_model(benchmarks, w, s, err));
    TRY_OUT(check_items(benchmarks, err));
out:
    if (st != KVS_OK)
        kvsi_train_benchmarks_release(benchmarks);
    return st;
}

static void forget_scores(kvsi_train_benchmarks *b)
{
    for (size_t i = 0; i < b->score_count; i++)
        kvsi_free(b->names[i]);
    b->score_count = 0;
}

void kvsi_train_benchmarks_release(kvsi_train_benchmarks *benchmarks)
{
    forget_scores(benchmarks);
    for (size_t i = 0; i < benchmarks->count; i++)
        kvsi_free(benchmarks->items[i].name);
    kvsi_free(benchmarks->items);
    kvsi_free(benchmarks->scores);
    kvsi_free(benchmarks->names);
    kvsi_free(benchmarks->values);
    kvs_model_free(benchmarks->model);
    kvs_runtime_free(benchmarks->rt);
    *benchmarks = (kvsi_train_benchmarks){0};
}

static kvs_status add_score(kvsi_train_benchmarks *b, const kvs_eval_row *row, kvs_err *err)
{
    const size_t task = strlen(row->name) + 1, metric = strlen(row->metric) + 1;
    char *names;

    if (b->score_count == b->count * METRICS_MAX)
        return kvsi_fail(err, KVS_E_LIMIT, "'%s' has more than %d metrics", row->name,
                         (int)METRICS_MAX);
    names = kvsi_alloc(task + metric, 1);
    if (!names)
        return fail_memory(err);
    memcpy(names, row->name, task);
    memcpy(names + task, row->metric, metric);
    b->names[b->score_count] = names;
    b->scores[b->score_count++] = (kvs_benchmark_score){.task = names,
                                                        .metric = names + task,
                                                        .value = row->value,
                                                        .error = row->error,
                                                        .documents = row->documents};
    return KVS_OK;
}

/* Keeps the score of the task or group that was asked for, but not those of a group's tasks. */
static kvs_status score_item(kvsi_train_benchmarks *b, size_t index, kvs_err *err)
{
    const kvs_eval_row *row;
    kvs_eval *eval = NULL;
    kvs_status st;

    TRY_OUT(evaluate(&eval, b, index, stop_on_signal, err));
    for (size_t i = 0; (row = kvs_eval_row_at(eval, i)); i++)
        if (strcmp(row->name, b->items[index].name) == 0)
            TRY_OUT(add_score(b, row, err));
out:
    kvs_eval_free(eval);
    return st;
}

kvs_status kvsi_train_benchmarks_score(kvsi_train_benchmarks *benchmarks, const kvs_model *model,
                                       kvs_benchmark_scores *out, kvs_err *err)
{
    forget_scores(benchmarks);
    if (!benchmarks->model)
        return KVS_OK;
    TRY(copy_weights(benchmarks, model, err));
    for (size_t i = 0; i < benchmarks->count; i++)
        TRY(score_item(benchmarks, i, err));
    *out = (kvs_benchmark_scores){benchmarks->scores, benchmarks->score_count};
    return KVS_OK;
}

/* ---- printing -------------------------------------------------------------------------------- */

void kvsi_train_benchmarks_print(uint64_t step, const kvs_benchmark_scores *scores)
{
    for (size_t i = 0; i < scores->count; i++) {
        const kvs_benchmark_score *s = &scores->scores[i];
        const int is_percent = strcmp(s->metric, "perplexity") != 0;
        char error[40] = "";

        if (!isnan(s->error))
            snprintf(error, sizeof error, is_percent ? " ± %.2f" : " ± %.4g",
                     is_percent ? 100 * s->error : s->error);
        fprintf(stderr,
                is_percent ? "step %" PRIu64 ": %s %s %.2f%s %%" : "step %" PRIu64 ": %s %s %.6g%s",
                step, s->task, s->metric, is_percent ? 100 * s->value : s->value, error);
        fprintf(stderr, " of %zu documents\n", s->documents);
    }
}
