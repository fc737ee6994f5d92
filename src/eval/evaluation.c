/* kvs_eval_run: loads the tasks, makes tokens, scores what the journal does not have, and writes
 * the results. */
#include "eval/evaluation.h"

#include "base/array.h"
#include "base/checksum.h"
#include "base/clock.h"
#include "base/files.h"
#include "base/machine.h"
#include "base/math.h"
#include "base/memory.h"
#include "base/sized.h"
#include "eval/hashes.h"
#include "eval/journal.h"
#include "eval/texts.h"
#include "model/model.h"
#include "tokenizer/tokenizer.h"

#include <math.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

enum { PASS_TOKENS = 512, PASS_SEQUENCES = 128, TEXTS_AT_ONCE = 16, PASS_MAX = 1 << 20 };

static const double STATES_BYTES_MAX = 4e9; /* unless the caller sets another limit */

static const kvs_eval_options defaults = {
    .size = sizeof defaults, .num_fewshot = -1, .cache = KVS_DTYPE_F32};

void kvs_eval_options_init(kvs_eval_options *options, size_t size)
{
    kvsi_sized_init(options, size, &defaults, sizeof defaults);
}

/* ---- tasks ---- */

static kvs_status check_options(kvs_eval *e, kvs_err *err)
{
    const kvs_eval_options *o = &e->o;
    const size_t context = e->model->config.context;

    NEED_AS(o->tasks, tasks);
    NEED_AS(o->data, data);
    if (!e->model->context.exact)
        return kvsi_fail(err, KVS_E_INVALID,
                         "the model's runtime is not exact, which an evaluation needs");
    if (o->num_fewshot < -1 || o->num_fewshot > 10000)
        return kvsi_fail(err, KVS_E_INVALID,
                         "num_fewshot is %ld, expected -1 (the default) to 10000", o->num_fewshot);
    if (!(o->limit >= 0 && o->limit <= 1e15))
        return kvsi_fail(err, KVS_E_INVALID, "limit is %g, expected at least 0", o->limit);
    if (o->limit > 0 && o->documents > 0)
        return kvsi_fail(err, KVS_E_INVALID, "limit and documents exclude each other");
    if (o->bos > KVS_EVAL_BOS_NEVER)
        return kvsi_fail(err, KVS_E_INVALID, "bos is %d, expected 0 to 2", (int)o->bos);
    if (o->bos == KVS_EVAL_BOS_ALWAYS && kvs_tokenizer_bos(e->tokenizer) < 0)
        return kvsi_fail(err, KVS_E_INVALID, "the tokenizer has no BOS token");
    if (o->max_length > context)
        return kvsi_fail(err, KVS_E_LIMIT, "max_length is %zu, the model's context is %zu",
                         o->max_length, context);
    if (o->pass_tokens > PASS_MAX || o->pass_sequences > PASS_MAX)
        return kvsi_fail(err, KVS_E_LIMIT, "a pass of more than %d tokens or sequences",
                         (int)PASS_MAX);
    if (o->resume && !o->out)
        return kvsi_fail(err, KVS_E_INVALID, "resume needs a folder 'out'");
    if (kvs_tokenizer_vocab(e->tokenizer) > e->model->config.vocab)
        return kvsi_fail(err, KVS_E_INVALID, "the tokenizer has %zu tokens, the model %zu",
                         kvs_tokenizer_vocab(e->tokenizer), e->model->config.vocab);
    return KVS_OK;
}

static void complete_options(kvs_eval *e)
{
    const double free_memory = kvsi_machine_free_memory("", 1);
    kvs_eval_options *o = &e->o;

    o->model_name = o->model_name ? o->model_name : "model";
    o->pass_tokens = o->pass_tokens > 0 ? o->pass_tokens : PASS_TOKENS;
    o->pass_sequences = o->pass_sequences > 0 ? o->pass_sequences : PASS_SEQUENCES;
    if (!(o->memory > 0))
        o->memory = free_memory / 4 < STATES_BYTES_MAX ? free_memory / 4 : STATES_BYTES_MAX;
    e->encoding = (kvsi_eval_encoding){
        .tokenizer = e->tokenizer,
        .bos = o->bos,
        .max_length = o->max_length > 0 ? o->max_length : e->model->config.context,
    };
}

/* Allocates what a part has per document and per request. */
static kvs_status part_init(kvsi_eval_part *part, kvs_err *err)
{
    const kvsi_eval_task *t = part->task;
    size_t at = 0;

    for (size_t i = 0; i < t->count; i++)
        part->request_count += t->documents[i].count;
    part->ids = kvsi_alloc(part->request_count, sizeof *part->ids);
    part->document_ids = kvsi_alloc(t->count, sizeof *part->document_ids);
    part->answers = kvsi_alloc(t->count, sizeof *part->answers);
    part->open = kvsi_alloc(t->count, sizeof *part->open);
    if (!part->ids || !part->document_ids || !part->answers || !part->open)
        return kvsi_no_memory(err, "%zu documents", t->count);
    for (size_t i = 0; i < t->count; i++) {
        part->document_ids[i] = part->ids + at;
        part->open[i] = t->documents[i].count;
        at += t->documents[i].count;
    }
    kvsi_eval_requests_hash(part->requests_hash, t);
    return KVS_OK;
}

static void part_release(kvsi_eval_part *part)
{
    for (size_t i = 0; part->ids && i < part->request_count; i++)
        kvsi_eval_ids_release(&part->ids[i]);
    for (size_t i = 0; part->answers && i < part->task->count; i++)
        kvsi_eval_answer_release(&part->answers[i]);
    kvsi_free(part->ids);
    kvsi_free(part->document_ids);
    kvsi_free(part->answers);
    kvsi_free(part->open);
    kvsi_eval_task_free(part->task);
}

static kvs_status load_tasks(kvs_eval *e, kvs_err *err)
{
    size_t count = 0;
    double limit;

    TRY(kvsi_eval_plan_make(&e->plan, e->o.tasks, e->o.data, err));
    for (size_t s = 0; s < e->plan->section_count; s++)
        count += e->plan->sections[s].task_count;
    limit =
        e->o.documents > 0 && count > 0 ? ceil((double)e->o.documents / (double)count) : e->o.limit;
    e->parts = kvsi_alloc(count, sizeof *e->parts);
    e->section_starts = kvsi_alloc(e->plan->section_count + 1, sizeof *e->section_starts);
    if (!e->parts || !e->section_starts)
        return kvsi_no_memory(err, "%zu tasks", count);
    for (size_t s = 0; s < e->plan->section_count; s++) {
        const kvsi_eval_section *section = &e->plan->sections[s];
        const kvsi_eval_load load = {.data = e->o.data,
                                     .shots =
                                         section->shots >= 0 ? section->shots : e->o.num_fewshot,
                                     .limit = limit};

        for (size_t t = 0; t < section->task_count; t++) {
            kvsi_eval_part *part = &e->parts[e->part_count];

            part->section = s;
            TRY(kvsi_eval_task_load(&part->task, section->tasks[t], &load, err));
            e->part_count++;
            e->documents += part->task->count;
            TRY(part_init(part, err));
        }
        e->section_starts[s + 1] = e->part_count;
    }
    return KVS_OK;
}

/* Makes the tokens of all requests. */
static kvs_status encode(kvs_eval *e, kvs_err *err)
{
    const kvsi_eval_document **documents = kvsi_alloc(e->documents, sizeof *documents);
    kvsi_eval_ids **ids = kvsi_alloc(e->documents, sizeof *ids);
    size_t at = 0;
    kvs_status st;

    if (!documents || !ids) {
        st = kvsi_no_memory(err, "%zu documents", e->documents);
        goto out;
    }
    for (size_t p = 0; p < e->part_count; p++)
        for (size_t d = 0; d < e->parts[p].task->count; d++) {
            documents[at] = &e->parts[p].task->documents[d];
            ids[at++] = e->parts[p].document_ids[d];
        }
    TRY_OUT(kvsi_eval_encode_all(ids, &e->encoding, documents, e->documents,
                                 e->model->context.threads, err));
    for (size_t p = 0; p < e->part_count; p++)
        for (size_t r = 0; r < e->parts[p].request_count; r++)
            e->parts[p].truncated += (size_t)e->parts[p].ids[r].truncated;
out:
    kvsi_free(documents);
    kvsi_free(ids);
    return st;
}

/* ---- the journal ---- */

/* What must be equal for answers to be used again. */
static kvs_status make_fingerprint(json_t **out, const kvs_eval *e, kvs_err *err)
{
    static const char *const bos[] = {"tokenizer", "always", "never"};
    char weights[KVSI_CHECKSUM_TEXT], tokenizer[KVSI_CHECKSUM_TEXT];
    json_t *tasks = json_object();

    kvsi_checksum_print(weights, e->weights);
    kvsi_checksum_print(tokenizer, kvs_tokenizer_hash(e->tokenizer));
    *out =
        json_pack("{s:s, s:s, s:s, s:I, s:s, s:s, s:s, s:o}", "weights", weights, "tokenizer",
                  tokenizer, "bos", bos[e->o.bos], "max_length", (json_int_t)e->encoding.max_length,
                  "kv_cache", kvs_dtype_name(e->o.cache), "cpu_level", e->model->context.ops->name,
                  "version", kvs_build()->version, "tasks", tasks);
    for (size_t p = 0; p < e->part_count; p++) {
        const kvsi_eval_part *part = &e->parts[p];
        const char *title = e->plan->sections[part->section].title;
        char key[256];

        snprintf(key, sizeof key, "%.100s%s%.140s", title ? title : "", title ? "/" : "",
                 part->task->name);
        json_object_set_new(tasks, key,
                            json_pack("{s:I, s:I, s:s}", "shots", (json_int_t)part->task->shots,
                                      "documents", (json_int_t)part->task->count, "requests",
                                      part->requests_hash));
    }
    return kvsi_json_check_made(*out, "a fingerprint", err);
}

/* Everything that callbacks of one run need. */
typedef struct run {
    kvs_eval *e;
    kvsi_eval_journal *journal; /* NULL = none */
    double work, all_work;      /* tokens: done, and to do in this run */
    const kvsi_eval_part *last; /* the part of the document that was completed last */

    kvsi_score_request *requests; /* those to score */
    struct place {
        size_t part, document, request;
    } * places; /* where each of them is */
    size_t request_count;

    kvsi_text_request *prompts; /* those to generate text after */
    struct place *prompt_places;
    size_t prompt_count;
} run;

/* Counts a document as done. */
static void count_document(run *r, size_t p, size_t d)
{
    kvsi_eval_part *part = &r->e->parts[p];

    part->answers[d].done = 1;
    part->open[d] = 0;
    part->done++;
    part->right += kvsi_eval_value(kvsi_eval_main_metric(part->task), &part->task->documents[d],
                                   &part->answers[d]);
    r->last = part;
    r->e->done++;
}

static kvs_status take_answer(void *user, size_t p, size_t d, kvsi_eval_answer *answer,
                              kvs_err *err)
{
    run *r = user;
    kvsi_eval_part *part;

    if (p >= r->e->part_count || d >= r->e->parts[p].task->count)
        return kvsi_fail(err, KVS_E_FORMAT,
                         "the journal has document %zu of task %zu, which does "
                         "not exist",
                         d, p);
    part = &r->e->parts[p];
    if ((part->task->kind == KVSI_EVAL_GENERATE) != (answer->text != NULL))
        return kvsi_fail(err, KVS_E_FORMAT,
                         "the journal has another kind of answer to document "
                         "%zu of '%s'",
                         d, part->task->name);
    if (part->answers[d].done)
        return KVS_OK;
    part->answers[d] = *answer;
    *answer = (kvsi_eval_answer){0};
    if (part->answers[d].text)
        TRY(kvsi_eval_grade(&part->answers[d], part->task, &part->task->documents[d], err));
    count_document(r, p, d);
    r->e->resumed++;
    return KVS_OK;
}

static double unix_time(void)
{
    struct timespec now;

    timespec_get(&now, TIME_UTC);
    return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

static kvs_status open_journal(run *r, const char *folder, const json_t *fingerprint, kvs_err *err)
{
    int made;

    TRY(kvsi_dir_make(folder, &made, err));
    return kvsi_eval_journal_open(&r->journal, folder, fingerprint, &r->e->started, r->e->o.resume,
                                  take_answer, r, err);
}

/* ---- running the model ---- */

static kvs_status show_progress(const run *r, kvs_err *err)
{
    const kvs_eval *e = r->e;
    kvs_eval_progress p = {.documents = e->documents,
                           .done = e->done,
                           .resumed = e->resumed,
                           .work = r->all_work > 0 ? r->work / r->all_work : 1,
                           .value = NAN,
                           .error = NAN};

    if (r->last) {
        const double n = (double)r->last->done, mean = r->last->right / n;

        p.task = r->last->task->name;
        p.metric = kvsi_eval_main_metric(r->last->task);
        p.value = mean;
        p.error = n > 1 ? sqrt(mean * (1 - mean) / (n - 1)) : NAN;
        p.task_done = r->last->done;
        p.task_documents = r->last->task->count;
    }
    if (e->o.progress && e->o.progress(e->o.user, &p))
        return kvsi_fail(err, KVS_E_STOPPED,
                         "the evaluation was stopped after %zu of %zu documents", e->done,
                         e->documents);
    return KVS_OK;
}

/* A document is complete: writes it to the journal. */
static kvs_status end_document(run *r, size_t p, size_t d, kvs_err *err)
{
    const kvsi_eval_part *part = &r->e->parts[p];

    count_document(r, p, d);
    if (!r->journal)
        return KVS_OK;
    return kvsi_eval_journal_add(r->journal, p, d, &part->answers[d],
                                 part->task->documents[d].count, err);
}

static kvs_status requests_done(void *user, const size_t *indexes, size_t count, kvs_err *err)
{
    run *r = user;

    for (size_t i = 0; i < count; i++) {
        const struct place *at = &r->places[indexes[i]];
        const kvsi_score_request *request = &r->requests[indexes[i]];
        kvsi_eval_part *part = &r->e->parts[at->part];
        kvsi_eval_answer *answer = &part->answers[at->document];

        answer->sums[at->request] = request->sum;
        answer->greedy[at->request] = (unsigned char)request->greedy;
        if (--part->open[at->document] == 0)
            TRY(end_document(r, at->part, at->document, err));
    }
    return r->journal ? kvsi_eval_journal_flush(r->journal, err) : KVS_OK;
}

static kvs_status tokens_fed(void *user, uint64_t fed, uint64_t all, kvs_err *err)
{
    run *r = user;

    (void)all;
    r->work = (double)fed;
    return show_progress(r, err);
}

/* Bytes that are not UTF-8 become U+FFFD, so that the text in files is the one that was graded. */
static kvs_status to_utf8(char **text, kvs_err *err)
{
    json_t *value = kvsi_json_text(*text, strlen(*text));
    char *clean = value ? kvsi_strdup(json_string_value(value)) : NULL;

    json_decref(value);
    if (!clean)
        return kvsi_no_memory(err, "a text");
    kvsi_free(*text);
    *text = clean;
    return KVS_OK;
}

static kvs_status text_done(void *user, size_t index, kvs_err *err)
{
    run *r = user;
    const struct place *at = &r->prompt_places[index];
    const kvsi_eval_part *part = &r->e->parts[at->part];
    kvsi_eval_answer *answer = &part->answers[at->document];

    TRY(to_utf8(&r->prompts[index].text, err));
    answer->text = r->prompts[index].text;
    r->prompts[index].text = NULL;
    TRY(kvsi_eval_grade(answer, part->task, &part->task->documents[at->document], err));
    r->work += (double)(r->prompts[index].count + KVSI_EVAL_NEW_TOKENS);
    TRY(end_document(r, at->part, at->document, err));
    if (r->journal)
        TRY(kvsi_eval_journal_flush(r->journal, err));
    return show_progress(r, err);
}

/* Lists the requests of all documents, or of those that are not done. */
static kvs_status list_requests(run *r, int all, kvs_err *err)
{
    kvs_eval *e = r->e;
    size_t count = 0;

    for (size_t p = 0; p < e->part_count; p++)
        count += e->parts[p].request_count;
    if (!r->requests) {
        r->requests = kvsi_alloc(count, sizeof *r->requests);
        r->places = kvsi_alloc(count, sizeof *r->places);
        r->prompts = kvsi_alloc(count, sizeof *r->prompts);
        r->prompt_places = kvsi_alloc(count, sizeof *r->prompt_places);
        if (!r->requests || !r->places || !r->prompts || !r->prompt_places)
            return kvsi_no_memory(err, "%zu requests", count);
    }
    r->request_count = r->prompt_count = 0;
    for (size_t p = 0; p < e->part_count; p++) {
        const kvsi_eval_task *t = e->parts[p].task;

        for (size_t d = 0; d < t->count; d++) {
            kvsi_eval_answer *answer = &e->parts[p].answers[d];

            if (answer->done && !all)
                continue;
            if (t->kind != KVSI_EVAL_GENERATE && !all)
                TRY(kvsi_eval_answer_init(answer, &t->documents[d], err));
            for (size_t i = 0; i < t->documents[d].count; i++) {
                const kvsi_eval_ids *ids = &e->parts[p].document_ids[d][i];

                if (t->kind == KVSI_EVAL_GENERATE) {
                    r->prompt_places[r->prompt_count] = (struct place){p, d, i};
                    r->prompts[r->prompt_count++] =
                        (kvsi_text_request){.ids = ids->ids, .count = ids->count};
                } else {
                    r->places[r->request_count] = (struct place){p, d, i};
                    r->requests[r->request_count++] = (kvsi_score_request){
                        .ids = ids->ids, .count = ids->count, .context_count = ids->context_count};
                }
            }
        }
    }
    return KVS_OK;
}

static kvs_status run_model(run *r, kvs_err *err)
{
    kvs_eval *e = r->e;
    const int32_t eos = kvs_tokenizer_eos(e->tokenizer);
    const kvsi_bytes end =
        eos >= 0 ? kvsi_vocabulary_at(&e->tokenizer->vocabulary, (size_t)eos) : (kvsi_bytes){0};
    char *end_text = NULL;
    const char *stops[2] = {"Problem:", NULL};
    kvsi_score_totals totals;
    kvsi_score_options how = {.tokens = e->o.pass_tokens,
                              .sequences = e->o.pass_sequences,
                              .memory = e->o.memory,
                              .cache = e->o.cache,
                              .done = requests_done,
                              .progress = tokens_fed,
                              .user = r};
    kvsi_text_options texts = {.sequences = kvsi_min(e->o.pass_sequences, TEXTS_AT_ONCE),
                               .tokens = e->o.pass_tokens,
                               .new_tokens = KVSI_EVAL_NEW_TOKENS,
                               .cache = e->o.cache,
                               .stops = stops,
                               .stop_count = 1,
                               .done = text_done,
                               .user = r};
    kvs_status st;

    TRY_OUT(list_requests(r, 1, err));
    TRY_OUT(kvsi_score_count(&e->totals, r->requests, r->request_count, err));
    TRY_OUT(list_requests(r, 0, err));
    TRY_OUT(kvsi_score_count(&totals, r->requests, r->request_count, err));
    r->all_work = (double)totals.fed;
    for (size_t i = 0; i < r->prompt_count; i++)
        r->all_work += (double)(r->prompts[i].count + KVSI_EVAL_NEW_TOKENS);
    TRY_OUT(show_progress(r, err));
    TRY_OUT(kvsi_score_requests(NULL, r->requests, r->request_count, e->model, &how, err));
    if (end.text && end.size > 0) {
        end_text = kvsi_alloc(end.size + 1, 1);
        if (!end_text) {
            st = kvsi_no_memory(err, "a stop string");
            goto out;
        }
        memcpy(end_text, end.text, end.size);
        stops[texts.stop_count++] = end_text;
    }
    TRY_OUT(kvsi_generate_texts(r->prompts, r->prompt_count, e->model, e->tokenizer, &texts, err));
out:
    kvsi_free(end_text);
    return st;
}

static void run_release(run *r)
{
    for (size_t i = 0; i < r->prompt_count; i++)
        kvsi_free(r->prompts[i].text);
    kvsi_free(r->requests);
    kvsi_free(r->places);
    kvsi_free(r->prompts);
    kvsi_free(r->prompt_places);
}

/* ---- results ---- */

int kvsi_eval_part_score(kvsi_eval_score *out, const kvsi_eval_part *part, const char *metric)
{
    const char *name;

    for (size_t i = 0; (name = kvsi_eval_metric(part->task, i)); i++)
        if (strcmp(name, metric) == 0) {
            *out = part->scores[i];
            return 1;
        }
    return 0;
}

static kvs_status add_row(kvs_eval *e, const kvs_eval_row *row, kvs_err *err)
{
    TRY(kvsi_array_reserve(&e->rows, &e->row_capacity, e->row_count + 1, sizeof *e->rows, err));
    e->rows[e->row_count++] = *row;
    return KVS_OK;
}

static kvs_status add_group_rows(kvs_eval *e, size_t section, const kvsi_eval_group *group,
                                 kvs_err *err)
{
    const kvsi_eval_part *first = &e->parts[e->section_starts[section] + group->tasks[0]];
    const char *metric;

    for (size_t i = 0; (metric = kvsi_eval_group_metric(e, section, group, i)); i++) {
        kvsi_eval_group_score score;
        kvs_eval_row row = {.name = group->name,
                            .is_group = 1,
                            .section = section,
                            .title = e->plan->sections[section].title,
                            .num_fewshot = first->task->shots,
                            .metric = metric,
                            .official = group->official};

        TRY(kvsi_eval_score_group(&score, e, section, group, metric, err));
        row.value = score.value;
        row.error = score.error;
        row.documents = score.documents;
        TRY(add_row(e, &row, err));
    }
    return KVS_OK;
}

static kvs_status add_rows(kvs_eval *e, size_t section, kvs_err *err)
{
    const kvsi_eval_section *s = &e->plan->sections[section];

    for (size_t g = 0; g < s->group_count; g++)
        TRY(add_group_rows(e, section, &s->groups[g], err));
    for (size_t p = e->section_starts[section]; p < e->section_starts[section + 1]; p++) {
        const kvsi_eval_part *part = &e->parts[p];
        const char *metric;

        for (size_t i = 0; (metric = kvsi_eval_metric(part->task, i)); i++)
            TRY(add_row(e,
                        &(kvs_eval_row){.name = part->task->name,
                                        .section = section,
                                        .title = s->title,
                                        .num_fewshot = part->task->shots,
                                        .metric = metric,
                                        .value = part->scores[i].value,
                                        .error = part->scores[i].error,
                                        .documents = part->task->count,
                                        .official = part->task->official},
                        err));
    }
    return KVS_OK;
}

/* The row of a task or group and a metric; NULL = none. */
static const kvs_eval_row *find_row(const kvs_eval *e, const kvsi_eval_column *column)
{
    for (size_t r = 0; r < e->row_count; r++)
        if (e->rows[r].section == column->section && strcmp(e->rows[r].name, column->name) == 0 &&
            strcmp(e->rows[r].metric, column->metric) == 0)
            return &e->rows[r];
    return NULL;
}

/* The columns of the paper's table as rows of their own and, for its main table, their mean. */
static kvs_status add_columns(kvs_eval *e, kvs_err *err)
{
    const size_t count = e->plan->columns ? e->plan->column_count : 0;
    kvs_eval_row mean = {.name = "mean", .metric = "mean", .value = 0, .error = NAN};

    for (size_t i = 0; i < count; i++) {
        const kvs_eval_row *found = find_row(e, &e->plan->columns[i]);
        kvs_eval_row row;

        if (!found)
            return kvsi_fail(err, KVS_E_INVALID, "no result for column '%s'",
                             e->plan->columns[i].title);
        row = *found;
        row.name = e->plan->columns[i].title;
        row.section = e->plan->section_count;
        row.title = "columns";
        mean.value += row.value / (double)count;
        TRY(add_row(e, &row, err));
    }
    mean.section = e->plan->section_count;
    mean.title = "columns";
    return strcmp(e->o.tasks, "paper") == 0 ? add_row(e, &mean, err) : KVS_OK;
}

static kvs_status score_all(kvs_eval *e, kvs_err *err)
{
    for (size_t p = 0; p < e->part_count; p++) {
        kvsi_eval_part *part = &e->parts[p];
        const char *metric;

        for (size_t i = 0; (metric = kvsi_eval_metric(part->task, i)); i++)
            TRY(kvsi_eval_score_task(&part->scores[i], metric, part->task, part->answers,
                                     e->model->context.threads, err));
    }
    for (size_t s = 0; s < e->plan->section_count; s++)
        TRY(add_rows(e, s, err));
    return add_columns(e, err);
}

static kvs_status print_json(kvs_eval *e, kvs_err *err)
{
    json_t *results = NULL;
    char *text = NULL;
    kvs_status st;

    TRY_OUT(kvsi_eval_results(&results, e, err));
    TRY_OUT(kvsi_json_dump(&text, results, JSON_INDENT(2) | JSON_REAL_PRECISION(17), "the results",
                           err));
    e->json = kvsi_strdup(text);
    if (!e->json)
        st = kvsi_no_memory(err, "the results");
out:
    json_decref(results);
    free(text);
    return st;
}

/* ---- the handle ---- */

static kvs_status evaluate(kvs_eval *e, kvs_err *err)
{
    const double began = kvsi_clock_seconds();
    run r = {.e = e};
    char *folder = NULL;
    json_t *fingerprint = NULL;
    int complete = 0;
    kvs_status st;

    e->started = unix_time();
    TRY_OUT(load_tasks(e, err));
    TRY_OUT(encode(e, err));
    TRY_OUT(kvsi_model_fingerprint(&e->weights, e->model, err));
    if (e->o.out) {
        TRY_OUT(kvsi_eval_model_folder(&folder, e->o.out, e->o.model_name, err));
        TRY_OUT(make_fingerprint(&fingerprint, e, err));
        if (e->o.reuse)
            TRY_OUT(kvsi_eval_find_files(e, folder, fingerprint, err));
        if (e->path_count > 0)
            goto out;
        TRY_OUT(open_journal(&r, folder, fingerprint, err));
    }
    TRY_OUT(run_model(&r, err));
    TRY_OUT(score_all(e, err));
    e->seconds = kvsi_clock_seconds() - began;
    TRY_OUT(print_json(e, err));
    if (e->o.out)
        TRY_OUT(kvsi_eval_write_files(e, folder, fingerprint, err));
    complete = 1;
out:
    kvsi_eval_journal_close(r.journal, complete);
    run_release(&r);
    json_decref(fingerprint);
    kvsi_free(folder);
    return st;
}

kvs_status kvs_eval_run(kvs_eval **out, const kvs_model *model, const kvs_tokenizer *tokenizer,
                        const kvs_eval_options *options, kvs_err *err)
{
    kvs_eval *e;
    kvs_status st;

    NEED(out);
    *out = NULL;
    NEED(model);
    NEED(tokenizer);
    NEED(options);
    e = kvsi_alloc(1, sizeof *e);
    if (!e)
        return kvsi_no_memory(err, "an evaluation");
    e->model = model;
    e->tokenizer = tokenizer;
    e->o = defaults;
    TRY_OUT(kvsi_sized_read(&e->o, sizeof e->o, options, "kvs_eval_options", err));
    TRY_OUT(check_options(e, err));
    complete_options(e);
    TRY_OUT(evaluate(e, err));
    *out = e;
    e = NULL;
out:
    kvs_eval_free(e);
    return st;
}

void kvs_eval_free(kvs_eval *eval)
{
    if (!eval)
        return;
    for (size_t p = 0; p < eval->part_count; p++)
        part_release(&eval->parts[p]);
    kvsi_free(eval->parts);
    kvsi_free(eval->section_starts);
    kvsi_eval_plan_free(eval->plan);
    kvsi_free(eval->rows);
    kvsi_free(eval->json);
    for (size_t i = 0; i < eval->path_count; i++)
        kvsi_free(eval->paths[i]);
    kvsi_free(eval->paths);
    kvsi_free(eval);
}

const kvs_eval_row *kvs_eval_row_at(const kvs_eval *eval, size_t index)
{
    return eval && index < eval->row_count ? &eval->rows[index] : NULL;
}

const char *kvs_eval_json(const kvs_eval *eval)
{
    return eval ? eval->json : NULL;
}

const char *kvs_eval_path(const kvs_eval *eval)
{
    return kvs_eval_path_at(eval, 0);
}

const char *kvs_eval_path_at(const kvs_eval *eval, size_t index)
{
    return eval && index < eval->path_count ? eval->paths[index] : NULL;
}
