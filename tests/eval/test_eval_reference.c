/* The prompts and requests of lm-evaluation-harness 0.4.13, by their hashes, for every case of
 * $KVSHIFT_SHARED/data/eval-reference/expected.json; skipped where there is none. */
#include "base/files.h"
#include "base/json.h"
#include "base/memory.h"
#include "eval/hashes.h"
#include "support.h"

#include <stdlib.h>
#include <string.h>

static char *data; /* $KVSHIFT_SHARED/data */

static const char *text_of(const json_t *object, const char *key)
{
    return json_string_value(json_object_get(object, key));
}

/* Compares one task of a case; returns the number of compared prompts. */
static size_t check_task(const json_t *expected, const json_t *all, const char *folder)
{
    const json_t *limit = json_object_get(all, "limit"), *docs = json_object_get(expected, "docs");
    const kvsi_eval_load load = {
        .data = folder,
        .shots = (long)json_integer_value(json_object_get(all, "num_fewshot")),
        .limit = json_is_null(limit) ? 0 : json_number_value(limit),
    };
    const char *name = text_of(expected, "task");
    char hash[KVSI_SHA256_TEXT];
    kvsi_eval_task *task;
    json_t *doc;
    size_t i;
    kvs_err err;

    if (kvsi_eval_task_load(&task, name, &load, &err) != KVS_OK)
        fail_msg("%s: %s", name, err.message);
    assert_int_equal(task->count, json_integer_value(json_object_get(expected, "n")));
    json_array_foreach(docs, i, doc) {
        const size_t id = (size_t)json_integer_value(json_object_get(doc, "doc_id"));
        const json_t *choice = json_object_get(doc, "gold");
        kvsi_eval_hashes hashes;

        assert_true(id < task->count);
        assert_int_equal(kvsi_eval_document_hashes(&hashes, &task->documents[id], &err), KVS_OK);
        if (strcmp(hashes.prompt, text_of(doc, "prompt_sha256")) != 0)
            fail_msg("%s %ld-shot, document %zu: the prompt differs:\n%s", name, load.shots, id,
                     task->documents[id].requests[0].context);
        if (json_is_integer(choice))
            assert_int_equal(task->documents[id].gold, json_integer_value(choice));
    }
    kvsi_eval_requests_hash(hash, task);
    if (strcmp(hash, text_of(expected, "requests_sha256")) != 0)
        fail_msg("%s %ld-shot: the requests differ", name, load.shots);
    kvsi_eval_task_free(task);
    return json_array_size(docs);
}

static void requests_are_those_of_the_harness(void **state)
{
    char *reference, *path;
    json_t *expected, *test_case, *leaf;
    size_t i, k, tasks = 0, prompts = 0;
    kvs_err err;

    (void)state;
    reference = kvsi_path_join(data, "eval-reference");
    path = kvsi_path_join(reference, "expected.json");
    if (!kvsi_file_exists(path)) {
        print_message("skipped: no data/eval-reference/expected.json below $KVSHIFT_SHARED\n");
        kvsi_free(reference);
        kvsi_free(path);
        skip();
    }
    assert_int_equal(kvsi_json_read(&expected, path, 64 << 20, &err), KVS_OK);
    json_array_foreach(json_object_get(expected, "cases"), i, test_case) {
        const json_t *leaves = json_object_get(test_case, "subtasks");
        const char *own = text_of(test_case, "data");
        char *folder = own ? kvsi_path_join(reference, own) : kvsi_strdup(data);

        if (leaves) {
            json_array_foreach(leaves, k, leaf) {
                prompts += check_task(leaf, test_case, folder);
                tasks++;
            }
        } else {
            prompts += check_task(test_case, test_case, folder);
            tasks++;
        }
        kvsi_free(folder);
    }
    print_message("%zu tasks and %zu prompts agree\n", tasks, prompts);
    assert_true(tasks > 0);
    json_decref(expected);
    kvsi_free(reference);
    kvsi_free(path);
}

static int find_data(void **state)
{
    const char *shared = getenv("KVSHIFT_SHARED");

    (void)state;
    data = kvsi_path_join(shared ? shared : "/nonexistent", "data");
    return data ? 0 : -1;
}

static int free_data(void **state)
{
    (void)state;
    kvsi_free(data);
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(requests_are_those_of_the_harness),
    };

    return cmocka_run_group_tests(tests, find_data, free_data);
}
