/* The results object of lm-evaluation-harness, with what only this program knows as "kvshift". */
#include "base/checksum.h"
#include "base/files.h"
#include "base/memory.h"
#include "eval/aggregate.h"
#include "eval/evaluation.h"
#include "eval/hashes.h"
#include "model/model.h"
#include "tokenizer/tokenizer.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

static const char *const BOS_NAMES[] = {"tokenizer", "always", "never"};

/* A standard error; "N/A" where there is none, as the harness writes it. */
static json_t *json_error(double error)
{
    return isnan(error) ? json_string("N/A") : kvsi_json_number(error);
}

static void set_metric(json_t *object, const char *metric, double value, double error)
{
    char key[64];

    snprintf(key, sizeof key, "%s,none", metric);
    json_object_set_new(object, key, kvsi_json_number(value));
    snprintf(key, sizeof key, "%s_stderr,none", metric);
    json_object_set_new(object, key, json_error(error));
}

/* ---- tasks and groups ---- */

static json_t *task_results(const kvsi_eval_part *part)
{
    const kvsi_eval_task *t = part->task;
    json_t *object = json_pack("{s:s, s:s, s:I}", "name", t->name, "alias", t->alias, "sample_len",
                               (json_int_t)t->count);
    const char *metric;

    for (size_t i = 0; (metric = kvsi_eval_metric(t, i)); i++)
        set_metric(object, metric, part->scores[i].value, part->scores[i].error);
    return object;
}

static kvs_status group_results(json_t **out, const kvs_eval *e, size_t section,
                                const kvsi_eval_group *group, kvs_err *err)
{
    json_t *object =
        json_pack("{s:s, s:s, s:n}", "name", group->name, "alias", group->alias, "sample_len");
    json_t *counts = json_object();
    const char *metric;
    kvs_status st = KVS_OK;

    for (size_t i = 0; (metric = kvsi_eval_group_metric(e, section, group, i)); i++) {
        kvsi_eval_group_score score;
        char key[64];

        TRY_OUT(kvsi_eval_score_group(&score, e, section, group, metric, err));
        set_metric(object, metric, score.value, score.error);
        snprintf(key, sizeof key, "%s,none", metric);
        json_object_set_new(counts, key, json_integer((json_int_t)score.documents));
        json_object_set_new(object, "sample_len", json_integer((json_int_t)score.documents));
    }
    json_object_set(object, "sample_count", counts);
    *out = object;
    object = NULL;
out:
    json_decref(object);
    json_decref(counts);
    return st;
}

/* Sets the keys that have one entry per group. */
static kvs_status add_groups(json_t *results, json_t *all_groups, json_t *subtasks,
                             json_t *versions, const kvs_eval *e, size_t section, kvs_err *err)
{
    const kvsi_eval_section *s = &e->plan->sections[section];

    for (size_t g = 0; g < s->group_count; g++) {
        const kvsi_eval_group *group = &s->groups[g];
        json_t *object = NULL, *members = json_array();

        for (size_t i = 0; i < group->member_count; i++)
            json_array_append_new(members, json_string(group->members[i]));
        json_object_set_new(subtasks, group->name, members);
        if (group->version)
            json_object_set_new(versions, group->name, json_string(group->version));
        TRY(group_results(&object, e, section, group, err));
        json_object_set(results, group->name, object);
        json_object_set_new(all_groups, group->name, object);
    }
    return KVS_OK;
}

static json_t *task_config(const kvsi_eval_task *t)
{
    static const char *const kinds[] = {"multiple_choice", "loglikelihood", "generate_until"};
    json_t *metrics = json_array();
    const char *metric;

    for (size_t i = 0; (metric = kvsi_eval_metric(t, i)); i++)
        json_array_append_new(metrics, json_pack("{s:s}", "metric", metric));
    return json_pack("{s:s, s:s, s:s, s:s, s:I, s:o, s:{s:f}}", "task", t->name, "task_alias",
                     t->alias, "output_type", kinds[t->kind], "target_delimiter",
                     t->kind == KVSI_EVAL_LAST_WORD ? "" : " ", "num_fewshot", (json_int_t)t->shots,
                     "metric_list", metrics, "metadata", "version", t->version);
}

static json_t *higher_is_better(const kvsi_eval_task *t)
{
    json_t *object = json_object();
    const char *metric;

    for (size_t i = 0; (metric = kvsi_eval_metric(t, i)); i++)
        json_object_set_new(object, metric, json_boolean(strcmp(metric, "perplexity") != 0));
    return object;
}

/* ---- what only this program knows ---- */

static json_t *part_details(const kvsi_eval_part *part)
{
    const kvsi_eval_task *t = part->task;
    json_t *files = json_object(), *near_ties = json_array(), *undecided = json_array();

    for (size_t i = 0; i < t->file_count; i++) {
        char sum[KVSI_CHECKSUM_TEXT];

        kvsi_checksum_print(sum, t->files[i].checksum);
        json_object_set_new(files, t->files[i].path, json_string(sum));
    }
    for (size_t i = 0; i < t->count; i++) {
        if (kvsi_eval_is_near_tie(&t->documents[i], &part->answers[i]))
            json_array_append_new(near_ties, json_integer((json_int_t)t->documents[i].id));
        if (part->answers[i].undecided)
            json_array_append_new(undecided, json_integer((json_int_t)t->documents[i].id));
    }
    return json_pack("{s:b, s:I, s:I, s:o, s:o, s:I, s:o, s:s}", "partial", t->count != t->official,
                     "documents", (json_int_t)t->count, "official", (json_int_t)t->official,
                     "files", files, "near_ties", near_ties, "truncated",
                     (json_int_t)part->truncated, "undecided", undecided, "requests_sha256",
                     part->requests_hash);
}

static kvs_status group_details(json_t *groups, const kvs_eval *e, size_t section, kvs_err *err)
{
    const kvsi_eval_section *s = &e->plan->sections[section];

    for (size_t g = 0; g < s->group_count; g++) {
        const kvsi_eval_group *group = &s->groups[g];
        json_t *object = json_object();
        const char *metric;
        size_t documents = 0;

        json_object_set_new(groups, group->name, object);
        for (size_t i = 0; (metric = kvsi_eval_group_metric(e, section, group, i)); i++) {
            kvsi_eval_group_score score;
            char key[64];

            TRY(kvsi_eval_score_group(&score, e, section, group, metric, err));
            snprintf(key, sizeof key, "%s_mean_of_tasks", metric);
            json_object_set_new(object, key, kvsi_json_number(score.task_mean));
            documents = score.documents;
        }
        json_object_set_new(object, "partial", json_boolean(documents != group->official));
        json_object_set_new(object, "documents", json_integer((json_int_t)documents));
        json_object_set_new(object, "official", json_integer((json_int_t)group->official));
    }
    return KVS_OK;
}

static kvs_status details(json_t **out, const kvs_eval *e, size_t section, kvs_err *err)
{
    json_t *object, *tasks = json_object(), *groups = json_object();
    char weights[KVSI_CHECKSUM_TEXT], tokenizer[KVSI_CHECKSUM_TEXT];

    kvsi_checksum_print(weights, e->weights);
    kvsi_checksum_print(tokenizer, kvs_tokenizer_hash(e->tokenizer));
    object = json_pack(
        "{s:s, s:s, s:s, s:s, s:I, s:s, s:s, s:I, s:I, s:o, s:o}", "version", kvs_build()->version,
        "weights", weights, "tokenizer", tokenizer, "bos", BOS_NAMES[e->encoding.bos], "max_length",
        (json_int_t)e->encoding.max_length, "kv_cache",
        kvs_dtype_name(e->o.cache == KVS_DTYPE_KEEP ? KVS_DTYPE_F32 : e->o.cache), "cpu_level",
        e->model->context.ops->name, "tokens", (json_int_t)e->totals.needed, "tokens_fed",
        (json_int_t)e->totals.fed, "tasks", tasks, "groups", groups);
    *out = object;
    for (size_t p = e->section_starts[section]; p < e->section_starts[section + 1]; p++)
        json_object_set_new(tasks, e->parts[p].task->name, part_details(&e->parts[p]));
    return group_details(groups, e, section, err);
}

/* ---- the whole object ---- */

static json_t *token_text(const kvs_tokenizer *t, int32_t id)
{
    const kvsi_bytes piece =
        id >= 0 ? kvsi_vocabulary_at(&t->vocabulary, (size_t)id) : (kvsi_bytes){0};

    return piece.text ? kvsi_json_text(piece.text, piece.size) : json_null();
}

static json_t *run_config(const kvs_eval *e)
{
    json_t *limit = e->o.limit == 0 ? json_null() : json_real(e->o.limit);
    char arguments[600];

    snprintf(arguments, sizeof arguments, "pretrained=%.500s", e->o.model_name);
    return json_pack("{s:s, s:o, s:I, s:s, s:s, s:s, s:n, s:[], s:s, s:n, s:o, s:i, s:{}, s:i, "
                     "s:i, s:i, s:i}",
                     "model", "kvshift", "model_args", kvsi_json_path(arguments),
                     "model_num_parameters", (json_int_t)kvs_model_parameters(e->model),
                     "model_dtype", "torch.float32", "model_revision", "main", "model_sha", "",
                     "batch_size", "batch_sizes", "device", "cpu", "use_cache", "limit", limit,
                     "bootstrap_iters", (int)KVSI_EVAL_REPLICATES, "gen_kwargs", "random_seed", 0,
                     "numpy_seed", 1234, "torch_seed", 1234, "fewshot_seed", 1234);
}

static kvs_status add_hashes(json_t *hashes, const kvsi_eval_part *part, kvs_err *err)
{
    char hash[KVSI_SHA256_TEXT];

    TRY(kvsi_eval_task_hash(hash, part->task, err));
    json_object_set_new(hashes, part->task->name, json_string(hash));
    return KVS_OK;
}

/* Sets the keys after "config". */
static void add_surroundings(json_t *object, const kvs_eval *e, json_t *hashes)
{
    char seconds[32], *name = NULL;

    snprintf(seconds, sizeof seconds, "%.3f", e->seconds);
    if (kvsi_eval_model_folder(&name, "", e->o.model_name, NULL) != KVS_OK)
        name = NULL;
    json_object_set_new(object, "git_hash", json_string(kvs_build()->commit));
    json_object_set_new(object, "date", json_real(e->started));
    json_object_set_new(object, "pretty_env_info", json_null());
    json_object_set_new(object, "transformers_version", json_null());
    json_object_set_new(object, "lm_eval_version", json_string("0.4.13"));
    json_object_set_new(object, "upper_git_hash", json_null());
    json_object_set_new(object, "tokenizer_pad_token", json_null());
    json_object_set_new(object, "tokenizer_eos_token", token_text(e->tokenizer, e->tokenizer->eos));
    json_object_set_new(object, "tokenizer_bos_token", token_text(e->tokenizer, e->tokenizer->bos));
    json_object_set_new(object, "eot_token_id", json_integer(e->tokenizer->eos));
    json_object_set_new(object, "max_length", json_integer((json_int_t)e->encoding.max_length));
    json_object_set(object, "task_hashes", hashes);
    json_object_set_new(object, "model_source", json_string("kvshift"));
    json_object_set_new(object, "model_name", kvsi_json_path(e->o.model_name));
    json_object_set_new(object, "model_name_sanitized", kvsi_json_path(name ? name + 1 : ""));
    json_object_set_new(object, "system_instruction", json_null());
    json_object_set_new(object, "system_instruction_sha", json_null());
    json_object_set_new(object, "fewshot_as_multiturn", json_null());
    json_object_set_new(object, "chat_template", json_null());
    json_object_set_new(object, "chat_template_sha", json_null());
    json_object_set_new(object, "total_evaluation_time_seconds", json_string(seconds));
    kvsi_free(name);
}

kvs_status kvsi_eval_section_results(json_t **out, const kvs_eval *eval, size_t section,
                                     kvs_err *err)
{
    json_t *results = json_object(), *groups = json_object(), *subtasks = json_object();
    json_t *configs = json_object(), *versions = json_object(), *shots = json_object();
    json_t *better = json_object(), *samples = json_object(), *hashes = json_object();
    json_t *object = json_object(), *ours = NULL;
    kvs_status st;

    *out = NULL;
    TRY_OUT(add_groups(results, groups, subtasks, versions, eval, section, err));
    for (size_t p = eval->section_starts[section]; p < eval->section_starts[section + 1]; p++) {
        const kvsi_eval_part *part = &eval->parts[p];
        const kvsi_eval_task *t = part->task;

        json_object_set_new(results, t->name, task_results(part));
        json_object_set_new(configs, t->name, task_config(t));
        json_object_set_new(versions, t->name, json_real(t->version));
        json_object_set_new(shots, t->name, json_integer((json_int_t)t->shots));
        json_object_set_new(better, t->name, higher_is_better(t));
        json_object_set_new(samples, t->name,
                            json_pack("{s:I, s:I}", "original", (json_int_t)t->available,
                                      "effective", (json_int_t)t->count));
        if (eval->plan->sections[section].group_count == 0)
            json_object_set_new(subtasks, t->name, json_array());
        TRY_OUT(add_hashes(hashes, part, err));
    }
    TRY_OUT(details(&ours, eval, section, err));
    json_object_set(object, "results", results);
    if (json_object_size(groups) > 0)
        json_object_set(object, "groups", groups);
    json_object_set(object, "group_subtasks", subtasks);
    json_object_set(object, "configs", configs);
    json_object_set(object, "versions", versions);
    json_object_set(object, "n-shot", shots);
    json_object_set(object, "higher_is_better", better);
    json_object_set(object, "n-samples", samples);
    json_object_set_new(object, "config", run_config(eval));
    add_surroundings(object, eval, hashes);
    json_object_set(object, "kvshift", ours);
    TRY_OUT(kvsi_json_check_made(object, "the results", err));
    *out = json_incref(object);
out:
    json_decref(results);
    json_decref(groups);
    json_decref(subtasks);
    json_decref(configs);
    json_decref(versions);
    json_decref(shots);
    json_decref(better);
    json_decref(samples);
    json_decref(hashes);
    json_decref(object);
    json_decref(ours);
    return st;
}

/* The columns of the paper's table, and their plain mean. */
static json_t *paper_columns(const kvs_eval *e)
{
    json_t *columns = json_object();

    for (size_t r = 0; r < e->row_count; r++) {
        const kvs_eval_row *row = &e->rows[r];

        if (row->section == e->plan->section_count)
            json_object_set_new(columns, row->name,
                                json_pack("{s:s, s:I, s:o, s:o}", "metric", row->metric,
                                          "num_fewshot", (json_int_t)row->num_fewshot, "value",
                                          kvsi_json_number(row->value), "stderr",
                                          json_error(row->error)));
    }
    return columns;
}

kvs_status kvsi_eval_results(json_t **out, const kvs_eval *eval, kvs_err *err)
{
    json_t *sections;
    kvs_status st = KVS_OK;

    if (eval->plan->section_count == 1 && !eval->plan->columns)
        return kvsi_eval_section_results(out, eval, 0, err);
    *out = json_object();
    sections = json_object();
    for (size_t s = 0; s < eval->plan->section_count; s++) {
        json_t *one = NULL;

        TRY_OUT(kvsi_eval_section_results(&one, eval, s, err));
        json_object_set_new(sections, eval->plan->sections[s].title, one);
    }
    json_object_set(*out, "sections", sections);
    if (eval->plan->columns)
        json_object_set_new(*out, "columns", paper_columns(eval));
    st = kvsi_json_check_made(*out, "the results", err);
out:
    json_decref(sections);
    if (st != KVS_OK) {
        json_decref(*out);
        *out = NULL;
    }
    return st;
}
