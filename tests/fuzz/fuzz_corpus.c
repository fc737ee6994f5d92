/* A corpus folder: corpus.json, shards and tokenizer. */
#include "base/files.h"
#include "base/memory.h"
#include "data/corpus.h"
#include "fuzz.h"

#include <string.h>

static const char *const names[] = {"corpus.json", "train-00000.shard", "train-00001.shard",
                                    "valid-00000.shard", NULL};

kvs_status fuzz_run(const char *data, size_t size, kvs_err *err)
{
    fuzz_unpack(names, data, size);
    return fuzz_use_corpus(".", 0, err);
}

/* A corpus built from a text. */
static void seed(const char *name, double valid, uint64_t shard_tokens)
{
    static const char text[] = "one<|endoftext|>two, three<|endoftext|>four";
    const char *const file = "text.txt";
    kvsi_text input = {0};
    kvsi_corpus_plan plan;

    fuzz_write(file, text, strlen(text));
    kvsi_corpus_plan_init(&plan);
    plan.files = &file;
    plan.count = 1;
    plan.how.valid = valid;
    plan.how.shard_tokens = shard_tokens;
    plan.how.overwrite = 1;
    fuzz_expect(kvsi_corpus_build(&plan, "built", NULL) == KVS_OK, "a corpus can be built");
    for (size_t i = 0; names[i]; i++) {
        char *path = kvsi_path_join("built", names[i]);

        if (kvsi_file_exists(path))
            fuzz_pack_file(&input, names[i], path);
        kvsi_free(path);
    }
    fuzz_seed(name, &input);
}

void fuzz_seeds(void)
{
    seed("split", 0.3, 100);
    seed("shards", 0.2, 4);
    seed("whole", 0, 100);
}
