#include "eval/task.h"

#include "base/array.h"
#include "base/files.h"
#include "base/memory.h"
#include "eval/groups.h"
#include "eval/python_random.h"
#include "eval/records.h"
#include "eval/task_files.h"
#include "eval/tasks/family.h"

#include <math.h>
#include <string.h>

enum { FEWSHOT_SEED = 1234 };

/* A task while it is made. */
typedef struct loader {
    kvsi_eval_task *task;
    const kvsi_eval_family *family;
    const kvsi_eval_subject *subject; /* or NULL */
    kvsi_eval_item *documents, *pool; /* to evaluate; few-shot examples */
    size_t count, document_capacity, pool_count, pool_capacity;
    size_t file_capacity;
    char *description;
} loader;

/* ---- files to items -------------------------------------------------------------------------- */

static kvs_status remember_file(loader *l, const char *path, uint64_t checksum,
                                const kvsi_eval_file **out, kvs_err *err)
{
    kvsi_eval_task *task = l->task;
    const char *copy = kvsi_arena_copy(task->memory, path, strlen(path));

    if (!copy)
        return kvsi_no_memory(err, "'%s'", path);
    TRY(kvsi_array_reserve(&task->files, &l->file_capacity, task->file_count + 1,
                           sizeof *task->files, err));
    task->files[task->file_count] = (kvsi_eval_file){.path = copy, .checksum = checksum};
    *out = &task->files[task->file_count++];
    return KVS_OK;
}

/* Appends the items of a file; `filtered`: it has several subjects. */
static kvs_status read_items(loader *l, const char *path, int filtered, int shots,
                             kvsi_eval_item **items, size_t *count, size_t *capacity, kvs_err *err)
{
    const kvsi_eval_family *family = l->family;
    kvsi_records records;
    kvsi_eval_source source = {.family = family, .subject = l->subject, .memory = l->task->memory};
    const kvsi_eval_file *file = NULL;
    kvs_status st;

    TRY(kvsi_records_read(&records, path, family->columns, err));
    TRY_OUT(remember_file(l, path, records.checksum, &file, err));
    source.file = file->path;
    for (size_t i = 0; i < records.count; i++) {
        const json_t *record = records.items[i].fields;
        int wanted = 1;

        source.line = records.items[i].line;
        if (filtered)
            TRY_OUT(kvsi_eval_record_is_of(&wanted, record, &source, err));
        if (!wanted)
            continue;
        TRY_OUT(kvsi_array_reserve(items, capacity, *count + 1, sizeof **items, err));
        TRY_OUT((shots && family->make_shot ? family->make_shot : family->make)(
            &(*items)[(*count)++], record, &source, err));
    }
out:
    kvsi_records_release(&records);
    return st;
}

static kvs_status read_split(loader *l, const kvsi_task_files *files, int shots,
                             kvsi_eval_item **items, size_t *count, size_t *capacity, kvs_err *err)
{
    for (size_t i = 0; i < files->count; i++)
        TRY(read_items(l, files->paths[i], files->filtered, shots, items, count, capacity, err));
    if (*count == 0)
        return kvsi_fail(err, KVS_E_FORMAT, "'%s' has no documents of '%s'", files->paths[0],
                         l->subject->name);
    return KVS_OK;
}

static void release_items(kvsi_eval_item *items, size_t count)
{
    for (size_t i = 0; i < count; i++)
        json_decref(items[i].json);
    kvsi_free(items);
}

static kvs_status read_files(loader *l, const char *data, kvs_err *err)
{
    kvsi_task_files files = {0};
    kvs_status st;

    TRY_OUT(kvsi_task_files_find(&files, l->family, l->subject, data, 0, err));
    TRY_OUT(read_split(l, &files, 0, &l->documents, &l->count, &l->document_capacity, err));
    if (l->task->shots > 0) {
        kvsi_task_files_release(&files);
        TRY_OUT(kvsi_task_files_find(&files, l->family, l->subject, data, 1, err));
        TRY_OUT(read_split(l, &files, 1, &l->pool, &l->pool_count, &l->pool_capacity, err));
    }
out:
    kvsi_task_files_release(&files);
    return st;
}

/* ---- few-shot examples ----------------------------------------------------------------------- */

static int same_document(const loader *l, size_t pool, const kvsi_eval_item *document)
{
    return json_equal(l->pool[pool].json, document->json);
}

/* Draws anew from the examples that are no copies of the document. */
static kvs_status draw_without_copies(const loader *l, const kvsi_eval_item *document,
                                      kvsi_python_random *random, size_t *out, kvs_err *err)
{
    const size_t shots = l->task->shots;
    size_t *left = kvsi_alloc(l->pool_count, sizeof *left), count = 0;
    kvs_status st = KVS_OK;

    if (!left)
        return kvsi_no_memory(err, "few-shot examples");
    for (size_t i = 0; i < l->pool_count; i++)
        if (!same_document(l, i, document))
            left[count++] = i;
    if (count < shots)
        st = kvsi_fail(err, KVS_E_INVALID,
                       "task '%s': %zu few-shot examples are asked for, but only %zu differ from "
                       "the document at '%s' line %zu",
                       l->task->name, shots, count, document->file, document->line);
    else
        st = kvsi_python_sample(random, count, shots, out, err);
    for (size_t i = 0; st == KVS_OK && i < shots; i++)
        out[i] = left[out[i]];
    kvsi_free(left);
    return st;
}

/* The examples of a document, as indices into the pool; `out` has one more entry than shots. */
static kvs_status draw(const loader *l, const kvsi_eval_item *document, kvsi_python_random *random,
                       size_t *out, kvs_err *err)
{
    const size_t shots = l->task->shots;
    size_t kept = 0;

    if (!l->family->excludes_document)
        return kvsi_python_sample(random, l->pool_count, shots, out, err);
    TRY(kvsi_python_sample(random, l->pool_count, shots + 1, out, err));
    for (size_t i = 0; i <= shots; i++)
        if (!same_document(l, out[i], document))
            out[kept++] = out[i];
    return kept < shots ? draw_without_copies(l, document, random, out, err) : KVS_OK;
}

static kvs_status check_pool(const loader *l, kvs_err *err)
{
    const size_t shots = l->task->shots;
    const size_t need = shots + (size_t)(l->family->excludes_document != 0);

    if (shots == 0 || need <= l->pool_count)
        return KVS_OK;
    return kvsi_fail(
        err, KVS_E_INVALID, "task '%s': %zu few-shot examples need %zu documents, '%s' has %zu",
        l->task->name, shots, need, l->task->files[l->task->file_count - 1].path, l->pool_count);
}

/* A target of no characters counts as none, and then nothing follows the question. */
static void add_shot(kvsi_text *prompt, const kvsi_eval_item *shot)
{
    kvsi_text_add(prompt, shot->texts[shot->text_count > 1 ? shot->gold : 0]);
    if (!*shot->target)
        return;
    kvsi_text_add(prompt, " ");
    kvsi_text_add(prompt, shot->answer);
    kvsi_text_add(prompt, "\n\n");
}

/* ---- items to documents ---------------------------------------------------------------------- */

/* Makes the document of an item whose prompts start with `prompt`, which keeps its length. */
static kvs_status make_document(const loader *l, size_t id, kvsi_text *prompt, kvs_err *err)
{
    kvsi_eval_item *item = &l->documents[id];
    kvsi_arena *memory = l->task->memory;
    const size_t start = prompt->length;
    const size_t count = item->choice_count > 0 ? item->choice_count : 1;
    kvsi_eval_request *requests = kvsi_arena_alloc(memory, count, sizeof *requests);
    size_t *lengths = l->family->kind == KVSI_EVAL_CHOICES
                          ? kvsi_arena_alloc(memory, count, sizeof *lengths)
                          : NULL;

    if (!requests || (l->family->kind == KVSI_EVAL_CHOICES && !lengths))
        return kvsi_no_memory(err, "requests");
    for (size_t i = 0; i < count; i++) {
        if (i < item->text_count) {
            kvsi_text_add(prompt, item->texts[i]);
            TRY(kvsi_text_check(prompt, err));
            requests[i].context = kvsi_arena_copy(memory, prompt->data, prompt->length);
            prompt->length = start;
        } else {
            requests[i].context = requests[0].context;
        }
        if (l->family->kind == KVSI_EVAL_CHOICES) {
            const size_t size = strlen(item->choices[i]);
            char *text = kvsi_arena_alloc(memory, size + 2, 1);

            if (!text)
                return kvsi_no_memory(err, "requests");
            text[0] = ' ';
            memcpy(text + 1, item->choices[i], size);
            requests[i].continuation = text;
            lengths[i] = kvsi_python_length(item->choices[i], size);
        } else if (l->family->kind == KVSI_EVAL_LAST_WORD) {
            requests[i].continuation = item->choices[i];
        }
        if (!requests[i].context)
            return kvsi_no_memory(err, "requests");
    }
    l->task->documents[id] = (kvsi_eval_document){
        .id = id,
        .json = item->json,
        .requests = requests,
        .count = count,
        .lengths = lengths,
        .gold = item->gold,
        .target = item->target,
        .file = item->file,
        .line = item->line,
    };
    item->json = NULL;
    l->task->count = id + 1;
    return KVS_OK;
}

static kvs_status make_documents(loader *l, size_t count, kvs_err *err)
{
    const size_t shots = l->task->shots;
    size_t *drawn = kvsi_alloc(shots + 1, sizeof *drawn);
    kvsi_python_random random;
    kvsi_text prompt = {0};
    size_t fixed;
    kvs_status st = KVS_OK;

    l->task->documents = kvsi_alloc(count, sizeof *l->task->documents);
    if (!drawn || !l->task->documents) {
        kvsi_free(drawn);
        return kvsi_no_memory(err, "the documents of '%s'", l->task->name);
    }
    kvsi_python_seed(&random, FEWSHOT_SEED);
    kvsi_text_add(&prompt, "");
    if (l->family->describe)
        l->family->describe(&prompt, l->subject);
    for (size_t i = 0; l->family->first_shots && i < shots; i++)
        add_shot(&prompt, &l->pool[i]);
    fixed = prompt.length;
    for (size_t id = 0; id < count; id++) {
        prompt.length = fixed;
        if (shots > 0 && !l->family->first_shots) {
            TRY_OUT(draw(l, &l->documents[id], &random, drawn, err));
            for (size_t i = 0; i < shots; i++)
                add_shot(&prompt, &l->pool[drawn[i]]);
        }
        TRY_OUT(make_document(l, id, &prompt, err));
    }
out:
    kvsi_text_release(&prompt);
    kvsi_free(drawn);
    return st;
}

/* ---------------------------------------------------------------------------------------------- */

static size_t limited(size_t available, double limit)
{
    const double count = limit < 1 ? ceil(limit * (double)available) : floor(limit);

    return limit <= 0 || count >= (double)available ? available : (size_t)count;
}

static kvs_status start_task(loader *l, const char *name, const kvsi_eval_load *load, kvs_err *err)
{
    kvsi_eval_task *task = kvsi_alloc(1, sizeof *task);

    if (!task)
        return kvsi_no_memory(err, "task '%s'", name);
    l->task = task;
    task->memory = kvsi_arena_create();
    if (task->memory)
        task->name = kvsi_arena_copy(task->memory, name, strlen(name));
    if (!task->name)
        return kvsi_no_memory(err, "task '%s'", name);
    task->alias = l->family->alias_is_subject ? l->subject->name : task->name;
    task->version = l->family->version;
    task->kind = l->family->kind;
    task->normalized = l->family->normalized;
    task->shots = load->shots < 0 ? l->family->default_shots : (size_t)load->shots;
    task->official = l->subject ? l->subject->official : l->family->official;
    return KVS_OK;
}

kvs_status kvsi_eval_task_load(kvsi_eval_task **out, const char *name, const kvsi_eval_load *load,
                               kvs_err *err)
{
    loader l = {0};
    kvs_status st;

    *out = NULL;
    TRY(kvsi_eval_task_named(&l.family, &l.subject, name, err));
    TRY_OUT(start_task(&l, name, load, err));
    TRY_OUT(read_files(&l, load->data, err));
    TRY_OUT(check_pool(&l, err));
    l.task->available = l.count;
    TRY_OUT(make_documents(&l, limited(l.count, load->limit), err));
    *out = l.task;
    l.task = NULL;
out:
    release_items(l.documents, l.count);
    release_items(l.pool, l.pool_count);
    kvsi_eval_task_free(l.task);
    return st;
}

void kvsi_eval_task_free(kvsi_eval_task *task)
{
    if (!task)
        return;
    for (size_t i = 0; i < task->count; i++)
        json_decref(task->documents[i].json);
    kvsi_free(task->documents);
    kvsi_free(task->files);
    kvsi_arena_free(task->memory);
    kvsi_free(task);
}
