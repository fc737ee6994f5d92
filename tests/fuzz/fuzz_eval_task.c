/* Files of benchmark tasks: JSON lines, JSON arrays and CSV, also compressed, and the documents of
 * every family. */
#include "base/files.h"
#include "eval/hashes.h"
#include "fuzz.h"

#include <string.h>
#include <unistd.h>
#include <zstd.h>

static const struct {
    const char *file, *task;
    int compressed;
    long shots; /* 1 where the evaluated split may give the examples */
    const char *seed;
} kinds[] = {
    {"lambada/test.jsonl", "lambada_openai", 0, 1,
     "\xef\xbb\xbf{\"text\": \"one two\"}\r\n\n{\"text\": \"\xc3\xa9 \\u00e9\\n\"}\r{\"text\": "
     "\"\"}"},
    {"lambada/test.json", "lambada_openai", 0, 0,
     "[{\"text\": \"one two\"},\n {\"text\": \"a ]}\\\"\", \"x\": [1, {}]}]"},
    {"lambada/test.jsonl.zst", "lambada_openai", 1, 0, "{\"text\": \"one two\"}\n"},
    {"winogrande/dev.jsonl", "winogrande", 0, 1,
     "{\"sentence\": \"a _ b\", \"option1\": \"x\", \"option2\": \"y\", \"answer\": \"1\"}\n"
     "{\"sentence\": \"c _ \", \"option1\": \"x\", \"option2\": \"y\", \"answer\": \"2\"}\n"},
    {"hellaswag/val.jsonl", "hellaswag", 0, 1,
     "{\"activity_label\": \"A\", \"ctx_a\": \"b [title] c  d\", \"ctx_b\": \"\xce\xa3 \xc4\xb0\", "
     "\"endings\": [\"x [step] y\", \"[\"], \"label\": \"1\"}\n"
     "{\"activity_label\": \"A\", \"ctx\": \"b\", \"endings\": [\"x\"], \"label\": 0}\n"},
    {"arc/ARC-Easy-Test.jsonl", "arc_easy", 0, 0,
     "{\"id\": \"1\", \"question\": {\"stem\": \"q\", \"choices\": [{\"text\": \"x\", \"label\": "
     "\"A\"}]}, \"answerKey\": \"A\"}\n{\"question\": \"q\", \"choices\": {\"text\": [\"x\"], "
     "\"label\": [\"1\"]}, \"answerKey\": \"1\"}\n"},
    {"mmlu/test/anatomy_test.csv", "mmlu_anatomy", 0, 0,
     "\" a\n\"\"b\"\" \",1,2,None,,C\r\nq,1,2,3,4,A\n\nq\"x,1,2,3,4,D"},
    {"mmlu/test.json", "mmlu_anatomy_continuation", 0, 0,
     "{\"question\": \"q\", \"subject\": \"anatomy\", \"choices\": [\"1\", \"2\", \"3\", \"4\"], "
     "\"answer\": 2}"},
    {"cmmlu/test/agronomy.csv", "cmmlu_agronomy", 0, 0,
     ",Question,A,B,C,D,Answer\n0,\xe9\x97\xae,1,2,3,4,B\n"},
    {"math/test.jsonl", "hendrycks_math_algebra", 0, 0,
     "{\"problem\": \"p\", \"type\": \"Algebra\", \"level\": 1.5, \"solution\": "
     "\"\\\\boxed{2}\"}\n"},
    {"math/test.jsonl", "minerva_math_algebra", 0, 0,
     "{\"problem\": \"p\", \"type\": \"Algebra\", \"solution\": \"\\\\boxed{x=2}\"}\n"},
};

enum { KINDS = sizeof kinds / sizeof *kinds };

static kvs_status use(size_t kind, long shots, kvs_err *err)
{
    const kvsi_eval_load load = {.data = ".", .shots = shots};
    char hash[KVSI_SHA256_TEXT];
    kvsi_eval_task *task;
    kvs_status st = kvsi_eval_task_load(&task, kinds[kind].task, &load, err);

    if (st != KVS_OK)
        return st;
    fuzz_expect(task->count > 0 && task->count == task->available, "a task has documents");
    for (size_t i = 0; i < task->count; i++)
        fuzz_expect(task->documents[i].gold < task->documents[i].count, "the answer is a choice");
    kvsi_eval_requests_hash(hash, task); /* reads every text */
    st = kvsi_eval_task_hash(hash, task, err);
    kvsi_eval_task_free(task);
    return st;
}

/* The first byte selects the kind, the rest is the file.  Inputs are short, since each compressed
 * byte can expand to tens of thousands. */
kvs_status fuzz_run(const char *data, size_t size, kvs_err *err)
{
    enum { LONGEST = 1024 };
    const size_t kind = size > 0 ? (unsigned char)data[0] % KINDS : 0;
    char *folder;
    kvs_status st;
    int made;

    if (size == 0 || size > LONGEST)
        return KVS_OK;
    folder = kvsi_path_parent(kinds[kind].file);
    fuzz_expect(folder && kvsi_dir_make(folder, &made, NULL) == KVS_OK, "folders can be made");
    kvsi_free(folder);
    fuzz_write(kinds[kind].file, data + 1, size - 1);
    st = use(kind, 0, err);
    if (st == KVS_OK && kinds[kind].shots > 0)
        (void)use(kind, kinds[kind].shots, NULL); /* there may be too few documents */
    unlink(kinds[kind].file);
    return st;
}

void fuzz_seeds(void)
{
    for (size_t i = 0; i < KINDS; i++) {
        const char first = (char)i;
        const char *text = kinds[i].seed;
        char packed[1024], name[24];
        size_t size = strlen(text);
        kvsi_text input = {0};

        if (kinds[i].compressed) {
            size = ZSTD_compress(packed, sizeof packed, text, size, 1);
            fuzz_expect(!ZSTD_isError(size), "texts can be compressed");
            text = packed;
        }
        put_bytes(&input, &first, 1);
        put_bytes(&input, text, size);
        snprintf(name, sizeof name, "kind-%zu", i);
        fuzz_seed(name, &input);
    }
}
